//! IoTDB's names and numbers of data types, encodings, compressors and column categories.
//!
//! The numbers are those of the TsFile format, which the RPC uses as they are.

/// The type of a series or a column.
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
    /// A day, on the wire the number 10000·year + 100·month + day.
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
    /// The name that SQL and answers use.
    pub(crate) fn name(self) -> &'static str {
        DATA_TYPES.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }

    pub(crate) fn of_name(name: &str) -> Option<DataType> {
        DATA_TYPES.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// The type that answers carry it as: they know only six.
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

/// Name and number of every encoding that a configuration may ask for.
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

/// Name and number of every compressor.
const COMPRESSORS: [(&str, i32); 7] =
    [("UNCOMPRESSED", 0), ("SNAPPY", 1), ("GZIP", 2), ("LZO", 3), ("LZ4", 7), ("ZSTD", 8), ("LZMA2", 9)];

/// The number of an encoding; the error names those that exist.
pub(crate) fn encoding_code(name: &str) -> Result<i32, String> {
    lookup("encoding", &ENCODINGS, name)
}

/// The number of a compressor; the error names those that exist.
pub(crate) fn compressor_code(name: &str) -> Result<i32, String> {
    lookup("compressor", &COMPRESSORS, name)
}

fn lookup(what: &str, table: &[(&str, i32)], name: &str) -> Result<i32, String> {
    let found = table.iter().find(|entry| entry.0.eq_ignore_ascii_case(name));
    found.map(|entry| entry.1).ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|entry| entry.0).collect();
        format!("IoTDB has no {what} {name:?}; it has {}", known.join(", "))
    })
}

/// What a column of a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Category {
    /// Names the device, together with the other tags.
    Tag = 0,
    /// A measured value.
    Field = 1,
}
