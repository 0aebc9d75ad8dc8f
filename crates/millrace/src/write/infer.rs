//! What table a CSV file would make: types from its first rows, the time, the key.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};

use crate::failure::Failure;

/// A column as `--create` makes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Column {
    name: String,
    ty: Type,
}

/// From the narrowest to the widest; a column's type is the narrowest that all its values fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Bool,
    Int,
    Float,
    Time,
    Text,
}

impl Type {
    const ALL: [Type; 5] = [Type::Bool, Type::Int, Type::Float, Type::Time, Type::Text];

    fn sql(self) -> &'static str {
        match self {
            Type::Bool => "boolean",
            Type::Int => "bigint",
            Type::Float => "double precision",
            Type::Time => "timestamptz",
            Type::Text => "text",
        }
    }

    fn fits(self, value: &str) -> bool {
        match self {
            Type::Bool => matches!(value, "true" | "false" | "t" | "f" | "TRUE" | "FALSE"),
            Type::Int => value.parse::<i64>().is_ok(),
            Type::Float => value.parse::<f64>().is_ok(),
            Type::Time => looks_like_time(value),
            Type::Text => true,
        }
    }
}

/// `2013-01-01`, with a time of day and a zone or without.
fn looks_like_time(value: &str) -> bool {
    let bytes = value.as_bytes();
    let digits =
        |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let date =
        digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'-') && digits(8..10);
    let clock = matches!(bytes.get(10), Some(b'T' | b' ' | b't')) && digits(11..13) && bytes.get(13) == Some(&b':');
    date && (bytes.len() == 10 || clock)
}

/// Columns of the names in the header, typed by sample rows.
pub(super) fn columns(names: &[String], rows: &[Vec<u8>], delimiter: u8, null: &str) -> Result<Vec<Column>, Failure> {
    let mut fitting = vec![Type::ALL.to_vec(); names.len()];
    let mut seen = vec![false; names.len()];
    for (number, row) in rows.iter().enumerate() {
        let fields = fields(row, delimiter);
        if fields.len() != names.len() {
            let (has, expected) = (fields.len(), names.len());
            return Err(Failure::new(format!("row {} has {has} fields; the header has {expected}", number + 1)));
        }
        for (at, value) in fields.iter().enumerate().filter(|(_, value)| !value.is_empty() && *value != null) {
            seen[at] = true;
            fitting[at].retain(|ty| ty.fits(value));
        }
    }
    let ty = |at: usize| if seen[at] { fitting[at].first().copied().unwrap_or(Type::Text) } else { Type::Text };
    Ok(names.iter().enumerate().map(|(at, name)| Column { name: name.clone(), ty: ty(at) }).collect())
}

/// The statement that makes the table.
pub(super) fn create_table(
    table: &str,
    columns: &[Column],
    key: &[String],
    time: Option<&str>,
) -> Result<String, Failure> {
    let names = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    let time = time_column(columns, time)
        .ok_or_else(|| Failure::new(format!("no column holds times (there are: {})", names())))
        .map_err(|failure| failure.with_hint("say which: --time COLUMN; times look like 2026-01-31T12:00:00Z"))?;
    for key in key {
        if !columns.iter().any(|column| column.name == *key) {
            return Err(Failure::new(format!("--key {key:?} is no column of the file; there are: {}", names())));
        }
    }
    let define = |column: &Column| {
        let not_null = if column.name == time { " NOT NULL" } else { "" };
        // Numbers of devices and the like are names, not quantities; only floats cannot be keys.
        let ty = if key.contains(&column.name) && column.ty == Type::Float { Type::Text } else { column.ty };
        format!("{} {}{not_null}", quote(&column.name), ty.sql())
    };
    let columns: Vec<String> = columns.iter().map(define).collect();
    let mut options = format!("store = 'columns', time = '{}'", time.replace('\'', "''"));
    if !key.is_empty() {
        options.push_str(&format!(", key = '{}'", key.join(", ").replace('\'', "''")));
    }
    Ok(format!("CREATE TABLE IF NOT EXISTS {} ({}) WITH ({options})", table_name(table), columns.join(", ")))
}

/// The column asked for, else the one that is named like a time and holds times, else the first that holds times.
fn time_column<'a>(columns: &'a [Column], wanted: Option<&str>) -> Option<&'a str> {
    let times = || columns.iter().filter(|column| column.ty == Type::Time).map(|column| column.name.as_str());
    match wanted {
        Some(wanted) => times().find(|name| *name == wanted),
        None => times()
            .find(|name| matches!(name.to_lowercase().as_str(), "time" | "timestamp" | "ts" | "datetime" | "date"))
            .or_else(|| times().next()),
    }
}

/// Fields of one row.
pub(super) fn fields(row: &[u8], delimiter: u8) -> Vec<String> {
    let mut reader: Reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut rest, mut fields) = (row, Vec::new());
    let mut buffer = vec![0; row.len() + 1];
    loop {
        let (result, read, written) = reader.read_field(rest, &mut buffer);
        rest = &rest[read..];
        match result {
            ReadFieldResult::Field { record_end } => {
                fields.push(String::from_utf8_lossy(&buffer[..written]).into_owned());
                if record_end {
                    return fields;
                }
            }
            // The buffer is as long as the row, so it cannot be full; input that ends is told by an empty read.
            ReadFieldResult::InputEmpty if !rest.is_empty() => {}
            _ => return fields,
        }
    }
}

/// A name as SQL takes it whatever is in it.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `schema.table` or `table`, quoted.
pub(super) fn table_name(table: &str) -> String {
    match table.split_once('.') {
        Some((schema, table)) => format!("{}.{}", quote(schema), quote(table)),
        None => quote(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str, key: &[&str], time: Option<&str>) -> Result<String, String> {
        let mut rows = text.split_inclusive('\n').map(|line| line.as_bytes().to_vec());
        let names = fields(&rows.next().unwrap_or_default(), b',');
        let key: Vec<String> = key.iter().map(|&key| key.to_owned()).collect();
        let columns = columns(&names, &rows.collect::<Vec<_>>(), b',', "NA").map_err(|failure| failure.text())?;
        create_table("t", &columns, &key, time).map_err(|failure| failure.text())
    }

    #[test]
    fn types_time_and_key_come_from_file_and_flags() {
        let text = "dev,at,n,v,ok,note\n7,2026-01-01T00:00:00Z,1,NA,t,x\n8,2026-01-01 00:01:00+01,2,2.5,f,\"a,b\"\n";
        let expected = "CREATE TABLE IF NOT EXISTS \"t\" (\"dev\" bigint, \"at\" timestamptz NOT NULL, \"n\" bigint, \
                        \"v\" double precision, \"ok\" boolean, \"note\" text) \
                        WITH (store = 'columns', time = 'at', key = 'dev')";
        assert_eq!(statement(text, &["dev"], None).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_inferred_is_said() {
        assert!(statement("a,b\n1,2\n", &[], None).unwrap_err().contains("no column holds times"));
        assert!(statement("a,t\n1,2026-01-01\n", &["x"], None).unwrap_err().contains("--key \"x\""));
        assert!(statement("a,t\n1\n", &[], None).unwrap_err().contains("row 1 has 1 fields"));
        assert!(statement("a,t\n1,2026-01-01\n", &[], Some("a")).unwrap_err().contains("--time"));
    }

    #[test]
    fn a_column_called_time_is_preferred_to_an_earlier_one_that_holds_times() {
        let made = statement("born,time\n2020-01-01,2026-01-01\n", &[], None).unwrap();
        assert!(made.contains("time = 'time'"), "{made}");
    }
}
