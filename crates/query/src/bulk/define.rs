//! The definition of a table created by a bulk ingest.
//!
//! | property  | stated by                            | default                                                           |
//! |-----------|--------------------------------------|-------------------------------------------------------------------|
//! | store     | option or metadata `millrace.store`  | `columns` if there is a time, else `rows`                         |
//! | time      | option or metadata `millrace.time`   | the timestamp column named `time`, else the only timestamp column |
//! | key       | option or metadata `millrace.key`    | in `columns` the dictionary columns, in `rows` none               |
//!
//! The metadata is that of the Arrow schema: every client can send it, even one whose API has no options. Data frames
//! encode categories, above all names of devices, as dictionaries. Plain text columns are no default key: they may hold
//! log messages, which would make one series per row.

use std::collections::BTreeMap;

use arrow_schema::{DataType as Arrow, Field, Schema, TimeUnit};
use model::{Error, Result, SqlState};
use parser::ast::Name;

/// Names of the supported options; `partition` is that of CREATE TABLE.
const OPTIONS: [&str; 4] = ["store", "time", "key", "partition"];
/// Prefix of the option names in schema metadata.
const METADATA: &str = "millrace.";

/// The store of the new table and the roles of its columns.
struct Shape<'a> {
    is_columns: bool,
    time: Option<&'a str>,
    key: Vec<&'a str>,
}

/// The CREATE TABLE statement for batches with these columns.
///
/// # Errors
/// 22023 for an unknown option or an invalid value; 42703 for a column that does not exist; 0A000 for a type without a
/// SQL type.
pub(super) fn sql(name: &Name, schema: &Schema, options: &BTreeMap<String, String>) -> Result<String> {
    let stated = stated(schema, options)?;
    let shape = shape(schema, &stated)?;
    let mut items = Vec::with_capacity(schema.fields().len() + 1);
    for field in schema.fields() {
        let is_time = shape.is_columns && shape.time == Some(field.name());
        let is_key = shape.key.contains(&field.name().as_str());
        let ty = if shape.is_columns { columns_type(field) } else { rows_type(field) };
        let ty = ty.ok_or_else(|| no_type(field, shape.is_columns))?;
        let not_null = if is_time || (is_key && !shape.is_columns) { " NOT NULL" } else { "" };
        items.push(format!("{} {ty}{not_null}", quoted(field.name())));
    }
    if !shape.is_columns && !shape.key.is_empty() {
        let key: Vec<String> = shape.key.iter().map(|name| quoted(name)).collect();
        items.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    Ok(format!("CREATE TABLE {name} ({}){}", items.join(", "), with(&shape, &stated)))
}

fn with(shape: &Shape<'_>, stated: &BTreeMap<&str, &str>) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    if !shape.is_columns {
        return String::new();
    }
    let mut options = vec!["store = 'columns'".to_owned()];
    options.extend(shape.time.map(|time| format!("time = {}", text(time))));
    if !shape.key.is_empty() {
        options.push(format!("key = {}", text(&shape.key.join(", "))));
    }
    options.extend(stated.get("partition").map(|value| format!("partition = {}", text(value))));
    format!(" WITH ({})", options.join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The options that the client stated; options override metadata.
fn stated<'a>(schema: &'a Schema, options: &'a BTreeMap<String, String>) -> Result<BTreeMap<&'a str, &'a str>> {
    let metadata = schema.metadata().iter();
    let metadata = metadata.filter_map(|(name, value)| Some((name.strip_prefix(METADATA)?, value.as_str())));
    let mut stated: BTreeMap<&str, &str> = metadata.collect();
    stated.extend(options.iter().map(|(name, value)| (name.strip_prefix(METADATA).unwrap_or(name), value.as_str())));
    match stated.keys().find(|name| !OPTIONS.contains(name)) {
        None => Ok(stated),
        Some(unknown) => Err(invalid(format!("option \"{unknown}\" is unknown; there are {}", OPTIONS.join(", ")))),
    }
}

fn shape<'a>(schema: &'a Schema, stated: &BTreeMap<&'a str, &'a str>) -> Result<Shape<'a>> {
    let time = match stated.get("time") {
        Some(name) => Some(field_of(schema, name.trim())?.name().as_str()),
        None => time_of(schema),
    };
    let is_columns = match stated.get("store").copied() {
        None => time.is_some(),
        Some("columns") => true,
        Some("rows") => false,
        Some(other) => return Err(invalid(format!("store is \"{other}\", expected columns or rows"))),
    };
    if is_columns && time.is_none() {
        let text = "a columns table needs a timestamp column: none is named \"time\", and none is the only one";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text)
            .with_hint("state which one it is by millrace.time in the schema's metadata, or store = rows"));
    }
    let key = match stated.get("key") {
        Some(names) => {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
            names.map(|name| field_of(schema, name).map(|field| field.name().as_str())).collect::<Result<_>>()?
        }
        None if is_columns => {
            let fields = schema.fields().iter().filter(|field| is_category(field.data_type()));
            fields.map(|field| field.name().as_str()).collect()
        }
        None => Vec::new(),
    };
    Ok(Shape { is_columns, time, key })
}

fn field_of<'a>(schema: &'a Schema, name: &str) -> Result<&'a Field> {
    schema.field_with_name(name).map_err(|_| {
        let text = format!("column \"{name}\", which is to be the time or in the key, is not in the batches");
        Error::new(SqlState::UNDEFINED_COLUMN, text)
    })
}

fn time_of(schema: &Schema) -> Option<&str> {
    let mut moments = schema.fields().iter().filter(|field| matches!(field.data_type(), Arrow::Timestamp(..)));
    if let Some(time) = moments.clone().find(|field| field.name() == "time") {
        return Some(time.name());
    }
    let first = moments.next()?;
    moments.next().is_none().then_some(first.name())
}

fn is_category(ty: &Arrow) -> bool {
    matches!(ty, Arrow::Dictionary(_, values) if matches!(**values, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View))
}

fn invalid(text: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

fn no_type(field: &Field, is_columns: bool) -> Error {
    let (store, other) = if is_columns { ("columns", "rows") } else { ("rows", "columns") };
    let text =
        format!("column \"{}\" is {}, which no column of a {store} table can be", field.name(), field.data_type());
    let error = Error::unsupported(text);
    match if is_columns { rows_type(field) } else { columns_type(field) } {
        Some(_) => error.with_hint(format!("state store = {other}, or cast the column before sending it")),
        None => error.with_hint("cast the column before sending it, or leave it out"),
    }
}

fn columns_type(field: &Field) -> Option<String> {
    let ty = match field.data_type() {
        Arrow::Dictionary(_, values) => return columns_type(&field.clone().with_data_type((**values).clone())),
        Arrow::Boolean => "boolean",
        Arrow::Int8 | Arrow::UInt8 | Arrow::Int16 => "smallint",
        Arrow::UInt16 | Arrow::Int32 => "integer",
        Arrow::UInt32 | Arrow::Int64 => "bigint",
        Arrow::UInt64 => "numeric(20)",
        Arrow::Float16 | Arrow::Float32 => "real",
        Arrow::Float64 => "double precision",
        Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View | Arrow::Null => "text",
        Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_) => "bytea",
        Arrow::Timestamp(..) | Arrow::Date32 | Arrow::Date64 => "timestamptz",
        _ => return None,
    };
    Some(ty.to_owned())
}

fn rows_type(field: &Field) -> Option<String> {
    let ty = match field.data_type() {
        Arrow::Dictionary(_, values) => return rows_type(&field.clone().with_data_type((**values).clone())),
        Arrow::Decimal32(digits, scale)
        | Arrow::Decimal64(digits, scale)
        | Arrow::Decimal128(digits, scale)
        | Arrow::Decimal256(digits, scale) => return Some(format!("numeric({digits}, {scale})")),
        Arrow::Date32 | Arrow::Date64 => "date",
        Arrow::Time32(_) | Arrow::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) => "time",
        Arrow::Timestamp(_, None) => "timestamp",
        Arrow::Interval(_) | Arrow::Duration(_) => "interval",
        _ => return columns_type(field),
    };
    Some(ty.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn field(name: &str, ty: Arrow) -> Field {
        Field::new(name, ty, true)
    }

    fn moment(zone: Option<&str>) -> Arrow {
        Arrow::Timestamp(TimeUnit::Microsecond, zone.map(Into::into))
    }

    fn category() -> Arrow {
        Arrow::Dictionary(Box::new(Arrow::Int8), Box::new(Arrow::Utf8))
    }

    fn made(fields: Vec<Field>, stated: &[(&str, &str)]) -> Result<String> {
        let name = Name { name: "t".into(), ..Name::default() };
        let metadata = stated.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
        sql(&name, &schema, &BTreeMap::new())
    }

    /// Fields, metadata, and what is expected.
    type Case<'a> = (Vec<Field>, &'a [(&'a str, &'a str)], &'a str);

    #[test]
    fn a_table_is_what_its_columns_suggest_unless_it_is_stated() {
        let time = || field("time", moment(Some("UTC")));
        let cases: [Case<'_>; 7] = [
            (
                vec![time(), field("dev", category()), field("v", Arrow::Float64), field("note", Arrow::Utf8)],
                &[],
                r#"("time" timestamptz NOT NULL, "dev" text, "v" double precision, "note" text) WITH (store = 'columns', time = 'time', key = 'dev')"#,
            ),
            (
                vec![field("at", moment(None)), field("v", Arrow::UInt64)],
                &[],
                r#"("at" timestamptz NOT NULL, "v" numeric(20)) WITH (store = 'columns', time = 'at')"#,
            ),
            (
                vec![field("a", moment(None)), field("b", moment(Some("UTC")))],
                &[],
                r#"("a" timestamp, "b" timestamptz)"#,
            ),
            (
                vec![field("id", Arrow::Int64), field("price", Arrow::Decimal128(12, 2)), field("day", Arrow::Date32)],
                &[("millrace.key", "id")],
                r#"("id" bigint NOT NULL, "price" numeric(12, 2), "day" date, PRIMARY KEY ("id"))"#,
            ),
            (
                vec![time(), field("v", Arrow::Int8)],
                &[("millrace.store", "rows")],
                r#"("time" timestamptz, "v" smallint)"#,
            ),
            (
                vec![time(), field("a", Arrow::Utf8), field("b", Arrow::Int32)],
                &[("millrace.key", "a, b"), ("pandas", "{}"), ("millrace.partition", "90 days")],
                r#"("time" timestamptz NOT NULL, "a" text, "b" integer) WITH (store = 'columns', time = 'time', key = 'a, b', partition = '90 days')"#,
            ),
            (vec![field("odd \"name\"", Arrow::Boolean)], &[], r#"("odd ""name""" boolean)"#),
        ];
        for (fields, stated, expected) in cases {
            assert_eq!(made(fields, stated).unwrap(), format!("CREATE TABLE t {expected}"));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let time = || field("time", moment(None));
        let cases: [Case<'_>; 6] = [
            (vec![time()], &[("millrace.stor", "rows")], "22023"),
            (vec![time()], &[("millrace.store", "heap")], "22023"),
            (vec![time()], &[("millrace.key", "dev")], "42703"),
            (vec![field("v", Arrow::Int8)], &[("millrace.store", "columns")], "42P16"),
            (vec![time(), field("d", Arrow::Decimal128(9, 2))], &[], "0A000"),
            (vec![field("l", Arrow::new_list(Arrow::Int8, true))], &[], "0A000"),
        ];
        for (fields, stated, expected) in cases {
            let error = made(fields, stated).unwrap_err();
            assert_eq!(error.state().0, expected, "{error}");
        }
    }
}
