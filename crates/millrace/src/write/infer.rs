//! Schema inference for a CSV file: column types, time column, key.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};

use super::times::{is_named_like_time, looks_like_time};
use crate::failure::Failure;

/// A column for `--create`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Column {
    name: String,
    ty: Type,
    /// Row and value that first required text in a column of numbers, times or booleans.
    became_text: Option<(u64, String)>,
}

/// From the narrowest to the widest; a column gets the narrowest type that holds all its values.
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

/// Column types, widened row by row.
pub(super) struct Inference {
    names: Vec<String>,
    delimiter: u8,
    null: String,
    fitting: Vec<Vec<Type>>,
    seen: Vec<bool>,
    became_text: Vec<Option<(u64, String)>>,
    rows: u64,
}

impl Inference {
    /// Starts with untyped columns of these names.
    pub(super) fn new(names: &[String], delimiter: u8, null: &str) -> Inference {
        Inference {
            names: names.to_vec(),
            delimiter,
            null: null.to_owned(),
            fitting: vec![Type::ALL.to_vec(); names.len()],
            seen: vec![false; names.len()],
            became_text: vec![None; names.len()],
            rows: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The number of fields differs from the header.
    pub(super) fn add(&mut self, row: &[u8]) -> Result<(), Failure> {
        self.rows += 1;
        let fields = fields(row, self.delimiter);
        if fields.len() != self.names.len() {
            let (number, has, expected) = (self.rows, fields.len(), self.names.len());
            return Err(Failure::new(format!("row {number} has {has} fields; the header has {expected}")));
        }
        for (at, value) in fields.into_iter().enumerate() {
            let fitting = &mut self.fitting[at];
            if value.is_empty() || value == self.null || (self.seen[at] && fitting.len() == 1) {
                continue;
            }
            let had = fitting.len();
            fitting.retain(|ty| ty.fits(&value));
            if self.seen[at] && had > 1 && fitting.len() == 1 {
                self.became_text[at] = Some((self.rows, value));
            }
            self.seen[at] = true;
        }
        Ok(())
    }

    /// The columns after all rows; one without values is text.
    pub(super) fn columns(self) -> Vec<Column> {
        let types = self.fitting.iter().zip(&self.seen).map(|(fitting, seen)| match seen {
            true => fitting.first().copied().unwrap_or(Type::Text),
            false => Type::Text,
        });
        let types: Vec<Type> = types.collect();
        let columns = self.names.into_iter().zip(types).zip(self.became_text);
        columns.map(|((name, ty), became_text)| Column { name, ty, became_text }).collect()
    }
}

/// Infers column types from rows.
#[cfg(test)]
fn columns(names: &[String], rows: &[Vec<u8>], delimiter: u8, null: &str) -> Result<Vec<Column>, Failure> {
    let mut inference = Inference::new(names, delimiter, null);
    rows.iter().try_for_each(|row| inference.add(row))?;
    Ok(inference.columns())
}

/// The time column: one named like a time, else the first that holds times.
pub(super) fn time_column(columns: &[Column]) -> Option<&str> {
    let times = || columns.iter().filter(|column| column.ty == Type::Time).map(|column| column.name.as_str());
    times().find(|name| is_named_like_time(name)).or_else(|| times().next())
}

/// Whether the column holds times that the server can read.
pub(super) fn holds_times(columns: &[Column], name: &str) -> bool {
    columns.iter().any(|column| column.name == name && column.ty == Type::Time)
}

/// CREATE TABLE, one column a line: a `columns` table if there is a time, else a `rows` table.
pub(super) fn create_table(
    table: &str,
    columns: &[Column],
    key: &[String],
    time: Option<&str>,
) -> Result<String, Failure> {
    let names = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    for key in key {
        if !columns.iter().any(|column| column.name == *key) {
            return Err(Failure::new(format!("--key: there is no column {key:?}; the file has: {}", names())));
        }
    }
    let define = |column: &Column| {
        let not_null = if time == Some(column.name.as_str()) { " NOT NULL" } else { "" };
        // Device numbers and the like may be keys; only floats cannot.
        let ty = if key.contains(&column.name) && column.ty == Type::Float { Type::Text } else { column.ty };
        format!("{} {}{not_null}", quote(&column.name), ty.sql())
    };
    let mut lines: Vec<(String, String)> = columns.iter().map(|column| (define(column), comment(column))).collect();
    let options = match time {
        Some(time) => {
            let mut options = format!("store = 'columns', time = '{}'", time.replace('\'', "''"));
            if !key.is_empty() {
                options.push_str(&format!(", key = '{}'", key.join(", ").replace('\'', "''")));
            }
            format!(" WITH ({options})")
        }
        None if key.is_empty() => String::new(),
        None => {
            let key: Vec<String> = key.iter().map(|key| quote(key)).collect();
            lines.push((format!("PRIMARY KEY ({})", key.join(", ")), String::new()));
            String::new()
        }
    };
    let last = lines.len().saturating_sub(1);
    let lines: Vec<String> = lines
        .into_iter()
        .enumerate()
        .map(|(at, (line, comment))| format!("    {line}{}{comment}\n", if at == last { "" } else { "," }))
        .collect();
    Ok(format!("CREATE TABLE {} (\n{}){options}", table_name(table), lines.concat()))
}

/// An SQL comment with the reason for the type text.
fn comment(column: &Column) -> String {
    match &column.became_text {
        Some((row, value)) => {
            let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).take(40).collect();
            format!("  -- text because of {value:?} in row {row}")
        }
        None => String::new(),
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
            // The buffer is as long as the row, so it cannot be full; an empty read marks the end of input.
            ReadFieldResult::InputEmpty if !rest.is_empty() => {}
            _ => return fields,
        }
    }
}

/// A quoted identifier.
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

    fn statement(text: &str, key: &[&str]) -> Result<String, String> {
        let mut rows = text.split_inclusive('\n').map(|line| line.as_bytes().to_vec());
        let names = fields(&rows.next().unwrap_or_default(), b',');
        let key: Vec<String> = key.iter().map(|&key| key.to_owned()).collect();
        let columns = columns(&names, &rows.collect::<Vec<_>>(), b',', "NA").map_err(|failure| failure.text())?;
        create_table("t", &columns, &key, time_column(&columns)).map_err(|failure| failure.text())
    }

    #[test]
    fn types_time_and_key_come_from_file_and_flags() {
        let text = "dev,at,n,v,ok,note\n7,2026-01-01T00:00:00Z,1,NA,t,x\n8,2026-01-01 00:01:00+01,2,2.5,f,\"a,b\"\n";
        let expected = "CREATE TABLE \"t\" (\n    \"dev\" bigint,\n    \"at\" timestamptz NOT NULL,\n    \"n\" bigint,\n    \
                        \"v\" double precision,\n    \"ok\" boolean,\n    \"note\" text\n) \
                        WITH (store = 'columns', time = 'at', key = 'dev')";
        assert_eq!(statement(text, &["dev"]).unwrap(), expected);
    }

    #[test]
    fn a_file_without_times_makes_a_rows_table() {
        let made = statement("id,name\n1,x\n", &["id"]).unwrap();
        assert!(made.ends_with("\"name\" text,\n    PRIMARY KEY (\"id\")\n)"), "{made}");
        assert!(statement("id\n1\n", &[]).unwrap().ends_with("bigint\n)"));
    }

    #[test]
    fn the_value_that_made_a_column_text_is_named() {
        let made = statement("t,v,w\n2026-01-01,1,a\n2026-01-02,-,b\n", &[]).unwrap();
        assert!(made.contains("\"v\" text,  -- text because of \"-\" in row 2\n    \"w\" text\n"), "{made}");
    }

    #[test]
    fn failed_inference_is_reported() {
        assert!(statement("a,t\n1,2026-01-01\n", &["x"]).unwrap_err().contains("no column \"x\""));
        assert!(statement("a,t\n1\n", &[]).unwrap_err().contains("row 1 has 1 fields"));
    }

    #[test]
    fn a_column_called_time_is_preferred_to_an_earlier_one_that_holds_times() {
        let made = statement("born,time\n2020-01-01,2026-01-01\n", &[]).unwrap();
        assert!(made.contains("time = 'time'"), "{made}");
    }
}
