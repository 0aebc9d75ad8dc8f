//! IoTDB's names and codes of data types, encodings, compressors and column categories.
//!
//! The codes are those of the TsFile format, which the RPC uses too.

/// Type of a series or column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DataType {
    Boolean = 0,
    Int32 = 1,
    Int64 = 2,
    Float = 3,
    Double = 4,
    Text = 5,
    Timestamp = 8,
    /// A date, sent as the integer 10000·year + 100·month + day.
    Date = 9,
    Blob = 10,
    String = 11,
}

const DATA_TYPES: [(DataType, &str); 10] = [
    (DataType::Boolean, "BOOLEAN"),
    (DataType::Int32, "INT32"),
    (DataType::Int64, "INT64"),
    (DataType::Float, "FLOAT"),
    (DataType::Double, "DOUBLE"),
    (DataType::Text, "TEXT"),
    (DataType::Timestamp, "TIMESTAMP"),
    (DataType::Date, "DATE"),
    (DataType::Blob, "BLOB"),
    (DataType::String, "STRING"),
];

impl DataType {
    /// Name in SQL and in answers.
    pub(crate) fn name(self) -> &'static str {
        DATA_TYPES.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }

    pub(crate) fn of_name(name: &str) -> Option<DataType> {
        DATA_TYPES.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// Type in which answers encode it: they have only six.
    pub(crate) fn physical(self) -> DataType {
        match self {
            DataType::Date => DataType::Int32,
            DataType::Timestamp => DataType::Int64,
            DataType::Blob | DataType::String => DataType::Text,
            other => other,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<DataType> {
        DATA_TYPES.iter().map(|entry| entry.0).find(|kind| *kind as u8 == code)
    }
}

/// Name and code of each encoding that a configuration may select.
const ENCODINGS: [(&str, i32); 12] = [
    ("PLAIN", 0),
    ("DICTIONARY", 1),
    ("RLE", 2),
    ("DIFF", 3),
    ("TS_2DIFF", 4),
    ("BITMAP", 5),
    ("REGULAR", 7),
    ("GORILLA", 8),
    ("ZIGZAG", 9),
    ("CHIMP", 11),
    ("SPRINTZ", 12),
    ("RLBE", 13),
];

/// Name and code of each compressor.
const COMPRESSORS: [(&str, i32); 7] =
    [("UNCOMPRESSED", 0), ("SNAPPY", 1), ("GZIP", 2), ("LZO", 3), ("LZ4", 7), ("ZSTD", 8), ("LZMA2", 9)];

/// Code of an encoding; the error lists all names.
pub(crate) fn encoding_code(name: &str) -> Result<i32, String> {
    lookup("encoding", &ENCODINGS, name)
}

/// Code of a compressor; the error lists all names.
pub(crate) fn compressor_code(name: &str) -> Result<i32, String> {
    lookup("compressor", &COMPRESSORS, name)
}

fn lookup(what: &str, table: &[(&str, i32)], name: &str) -> Result<i32, String> {
    let found = table.iter().find(|entry| entry.0.eq_ignore_ascii_case(name));
    found.map(|entry| entry.1).ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|entry| entry.0).collect();
        format!("IoTDB has no {what} {name:?}: expected one of {}", known.join(", "))
    })
}

/// Role of a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Category {
    /// Identifies the device, together with the other tags.
    Tag = 0,
    /// A measured value.
    Field = 1,
}
