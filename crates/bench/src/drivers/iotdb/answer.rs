//! Decoder of IoTDB's answers.
//!
//! Strict: an unexpected column, an unknown path, or a mismatched type is an error, so that a wrong
//! assumption here is never reported as a wrong answer of the server.

use std::collections::HashMap;

use super::data_type;
use super::names::unquoted;
use super::rpc::{Answer, Dialect};
use super::sql::{Form, Sql, keys};
use super::tsblock::{Block, Cell as Raw};
use super::types::DataType;
use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Order, Query, Row, Rows, Shape};

/// Merges the rows of the pieces of a query.
pub(crate) fn merge_pieces(sql: &Sql<'_>, dialect: Dialect, query: &Query, pieces: &[(Query, Answer)]) -> Result<Rows> {
    let mut rows = Vec::new();
    let mut places: HashMap<(Option<u32>, Option<i64>), usize> = HashMap::new();
    let divided = pieces.iter().any(|(piece, _)| piece.fields.len() < query.fields.len());
    for (piece, answer) in pieces {
        let part = piece_rows(sql, dialect, piece, answer)?.rows;
        if !divided {
            rows.extend(part);
            continue;
        }
        let first = query.fields.iter().position(|field| Some(field) == piece.fields.first()).unwrap_or(0);
        for row in part {
            let at = *places.entry((row.device, row.time)).or_insert_with(|| {
                rows.push(Row { cells: vec![Cell::Null; query.fields.len()], ..row.clone() });
                rows.len() - 1
            });
            rows[at].cells[first..first + row.cells.len()].clone_from_slice(&row.cells);
        }
    }
    if divided {
        // Rows that only later pieces have were appended at the end.
        rows.sort_by_key(|row: &Row| (row.device, row.time));
        if query.order == Order::Descending {
            rows.reverse();
        }
    }
    Ok(Rows { rows })
}

fn piece_rows(sql: &Sql<'_>, dialect: Dialect, query: &Query, answer: &Answer) -> Result<Rows> {
    let mut rows = Vec::new();
    match dialect {
        Dialect::Table => table(sql, query, answer, &mut rows)?,
        Dialect::Tree => match sql.form(query)? {
            Form::Wide => wide(sql, query, answer, &mut rows)?,
            Form::ByDevice => by_device(sql, query, answer, &mut rows)?,
            Form::Level => level(sql, query, answer, &mut rows)?,
            Form::Last => last(sql, query, answer, &mut rows)?,
        },
    }
    // IoTDB's tree dialect also returns aggregates of no rows: a row with counts of 0 or without
    // values.
    if matches!(query.shape, Shape::Aggregate { .. }) {
        let counts = matches!(query.shape, Shape::Aggregate { aggregate: Aggregate::Count, .. });
        let nothing = |cell: &Cell| *cell == Cell::Null || counts && *cell == Cell::Int(0);
        rows.retain(|row| row.device.is_none() || !row.cells.iter().all(nothing));
    }
    Ok(Rows { rows })
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::protocol(format!("IoTDB's answer: {what}"))
}

/// Decodes time, device, then fields, by position: the server chooses the column names of
/// expressions.
fn table(sql: &Sql<'_>, query: &Query, answer: &Answer, rows: &mut Vec<Row>) -> Result {
    let (with_time, with_device) = keys(query);
    let expected = usize::from(with_time) + usize::from(with_device) + query.fields.len();
    expect_columns(answer, expected)?;
    for block in answer.decoded() {
        let block = block?;
        for at in 0..block.rows {
            let mut cells = answer.columns.iter().map(|column| (block.columns[column.source].cell(at), column.kind));
            let mut next = || cells.next().map_or(Raw::Null, |cell| cell.0);
            let time = with_time.then(|| time_of(next())).transpose()?;
            let device = with_device.then(|| device_of(sql, query, next(), false)).transpose()?;
            let cells = cells.map(|(raw, kind)| cell(raw, kind)).collect::<Result<_>>()?;
            rows.push(Row { device, time, cells });
        }
    }
    Ok(())
}

/// Time of a row in the tree dialect, if the query has times.
fn row_time(answer: &Answer, block: &Block, at: usize, wanted: bool) -> Result<Option<i64>> {
    if wanted && !answer.has_times {
        return Err(wrong("rows without times"));
    }
    wanted.then(|| time_of(block.times.cell(at))).transpose()
}

fn expect_columns(answer: &Answer, expected: usize) -> Result {
    match answer.columns.len() {
        count if count == expected => Ok(()),
        count => Err(wrong(format!("{count} columns, expected {expected}"))),
    }
}

fn time_of(raw: Raw<'_>) -> Result<i64> {
    match raw {
        Raw::Int64(time) => Ok(time),
        other => Err(wrong(format!("{other:?}, expected a time"))),
    }
}

fn device_of(sql: &Sql<'_>, query: &Query, raw: Raw<'_>, tree: bool) -> Result<u32> {
    let Raw::Bytes(name) = raw else { return Err(wrong(format!("{raw:?}, expected a device"))) };
    let name = String::from_utf8_lossy(name);
    let known =
        if tree { sql.names.device(query.table, &unquoted(&name)) } else { sql.names.device(query.table, &name) };
    known.ok_or_else(|| wrong(format!("device {name:?}, which is not in the table")))
}

/// Decodes columns `path.field` or `function(path.field)`, in any order. A missing column is a
/// series without data.
fn wide(sql: &Sql<'_>, query: &Query, answer: &Answer, rows: &mut Vec<Row>) -> Result {
    let (with_time, with_device) = keys(query);
    let devices = query.devices.clone().unwrap_or_default();
    let mut places = HashMap::new();
    for (index, device) in devices.iter().enumerate() {
        let path = &sql.names.devices[*device as usize];
        for (field, expression) in sql.expressions(query).enumerate() {
            let name = match expression.split_once('(') {
                Some((function, name)) => format!("{function}({path}.{name}"),
                None => format!("{path}.{expression}"),
            };
            places.insert(unquoted(&name), (index, field));
        }
    }
    let mut columns = vec![vec![None; query.fields.len()]; devices.len()];
    for column in &answer.columns {
        let place = places
            .get(&unquoted(&column.name))
            .ok_or_else(|| wrong(format!("column {:?}, which was not selected", column.name)))?;
        columns[place.0][place.1] = Some(column);
    }
    let sparse = matches!(query.shape, Shape::Rows);
    for block in answer.decoded() {
        let block = block?;
        for at in 0..block.rows {
            let time = row_time(answer, &block, at, with_time)?;
            for (device, columns) in devices.iter().zip(&columns) {
                let read = |column: &Option<&super::rpc::AnswerColumn>| match column {
                    Some(column) => cell(block.columns[column.source].cell(at), column.kind),
                    None => Ok(Cell::Null),
                };
                let cells: Vec<Cell> = columns.iter().map(read).collect::<Result<_>>()?;
                if !sparse || cells.iter().any(|cell| *cell != Cell::Null) {
                    rows.push(Row { device: with_device.then_some(*device), time, cells });
                }
            }
        }
    }
    Ok(())
}

/// Decodes the column `Device`, then the expressions in the query's order.
fn by_device(sql: &Sql<'_>, query: &Query, answer: &Answer, rows: &mut Vec<Row>) -> Result {
    let (with_time, _) = keys(query);
    if answer.columns.is_empty() {
        return Ok(());
    }
    expect_columns(answer, 1 + query.fields.len())?;
    let expected = std::iter::once("Device".to_owned()).chain(sql.expressions(query));
    expect_names(answer, expected)?;
    for block in answer.decoded() {
        let block = block?;
        for at in 0..block.rows {
            let time = row_time(answer, &block, at, with_time)?;
            let device = device_of(sql, query, block.columns[answer.columns[0].source].cell(at), true)?;
            let cells = cells(answer, &block, 1, at)?;
            rows.push(Row { device: Some(device), time, cells });
        }
    }
    Ok(())
}

fn expect_names(answer: &Answer, expected: impl Iterator<Item = String>) -> Result {
    for (column, expected) in answer.columns.iter().zip(expected) {
        if unquoted(&column.name) != unquoted(&expected) {
            return Err(wrong(format!("column {:?}, expected {expected:?}", column.name)));
        }
    }
    Ok(())
}

fn cells(answer: &Answer, block: &Block, first: usize, at: usize) -> Result<Vec<Cell>> {
    let columns = answer.columns[first..].iter();
    columns.map(|column| cell(block.columns[column.source].cell(at), column.kind)).collect()
}

/// Decodes columns `function(pattern.field)`; the server repeats one for every device of the
/// pattern.
fn level(sql: &Sql<'_>, query: &Query, answer: &Answer, rows: &mut Vec<Row>) -> Result {
    let (with_time, _) = keys(query);
    let mut sources = Vec::new();
    for expression in sql.expressions(query) {
        let (function, field) = expression.split_once('(').unwrap_or(("", &expression));
        let (begin, end) = (format!("{function}("), unquoted(&format!(".{field}")));
        let is_it = |name: &str| name.starts_with(&begin) && name.ends_with(&end);
        let column = answer.columns.iter().find(|column| is_it(&unquoted(&column.name)));
        sources.push(column.ok_or_else(|| wrong(format!("no column for {expression}")))?);
    }
    let places: std::collections::HashSet<usize> = answer.columns.iter().map(|column| column.source).collect();
    if places.len() != query.fields.len() {
        return Err(wrong(format!("{} different columns, expected {}", places.len(), query.fields.len())));
    }
    for block in answer.decoded() {
        let block = block?;
        for at in 0..block.rows {
            let time = row_time(answer, &block, at, with_time)?;
            let read = |column: &&super::rpc::AnswerColumn| cell(block.columns[column.source].cell(at), column.kind);
            let cells = sources.iter().map(read).collect::<Result<_>>()?;
            rows.push(Row { device: None, time, cells });
        }
    }
    Ok(())
}

/// Decodes newest values, one row per series. A device's newest row has the time of its newest
/// value; fields with older values are null in it. Types come from the schema: for DATE the server
/// reports INT32 if it answers from its cache.
fn last(sql: &Sql<'_>, query: &Query, answer: &Answer, rows: &mut Vec<Row>) -> Result {
    expect_columns(answer, 3)?;
    expect_names(answer, ["Timeseries", "Value", "DataType"].map(str::to_owned).into_iter())?;
    let devices = query.devices.clone().unwrap_or_else(|| sql.names.devices_of(query.table));
    let mut places = HashMap::new();
    for (index, device) in devices.iter().enumerate() {
        for (field, name) in sql.expressions(query).enumerate() {
            places.insert(unquoted(&format!("{}.{name}", sql.names.devices[*device as usize])), (index, field));
        }
    }
    let fields = &sql.schema.tables[query.table as usize].fields;
    let mut newest: Vec<Vec<Option<(i64, Cell)>>> = vec![vec![None; query.fields.len()]; devices.len()];
    for block in answer.decoded() {
        let block = block?;
        for at in 0..block.rows {
            let time = time_of(block.times.cell(at))?;
            let [series, value] =
                [0, 1].map(|index: usize| match block.columns[answer.columns[index].source].cell(at) {
                    Raw::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    _ => String::new(),
                });
            let place = places
                .get(&unquoted(&series))
                .ok_or_else(|| wrong(format!("series {series:?}, which was not selected")))?;
            let kind = fields[query.fields[place.1] as usize].kind;
            newest[place.0][place.1] = Some((time, parse_text(&value, data_type(kind))?));
        }
    }
    for (device, fields) in devices.iter().zip(newest) {
        let Some(time) = fields.iter().flatten().map(|field| field.0).max() else { continue };
        let at_that_time = |field: Option<(i64, Cell)>| match field {
            Some((at, cell)) if at == time => cell,
            _ => Cell::Null,
        };
        rows.push(Row {
            device: Some(*device),
            time: Some(time),
            cells: fields.into_iter().map(at_that_time).collect(),
        });
    }
    Ok(())
}

fn cell(raw: Raw<'_>, kind: DataType) -> Result<Cell> {
    Ok(match (raw, kind) {
        (Raw::Null, _) => Cell::Null,
        (Raw::Bool(value), DataType::Boolean) => Cell::Bool(value),
        (Raw::Int32(value), DataType::Date) => Cell::Int(days_of(value)?),
        (Raw::Int32(value), DataType::Int32) => Cell::Int(i64::from(value)),
        (Raw::Int64(value), DataType::Int64 | DataType::Timestamp) => Cell::Int(value),
        (Raw::Float(value), DataType::Float) => Cell::Float(f64::from(value)),
        (Raw::Double(value), DataType::Double) => Cell::Float(value),
        (Raw::Bytes(value), DataType::Text | DataType::String | DataType::Blob) => Cell::Text(value.to_vec()),
        (raw, kind) => return Err(wrong(format!("{raw:?} in a column of {}", kind.name()))),
    })
}

/// Parses a value in the text format of LAST queries, which do not preserve bytes that are not
/// UTF-8.
fn parse_text(text: &str, kind: DataType) -> Result<Cell> {
    let invalid = || wrong(format!("{text:?} is not a {}", kind.name()));
    let merge_pieces = || text.parse().map(Cell::Int).map_err(|_| invalid());
    match kind {
        DataType::Boolean => text.parse().map(Cell::Bool).map_err(|_| invalid()),
        DataType::Int32 | DataType::Int64 | DataType::Timestamp => merge_pieces(),
        DataType::Float => text.parse().map(|value: f32| Cell::Float(f64::from(value))).map_err(|_| invalid()),
        DataType::Double => text.parse().map(Cell::Float).map_err(|_| invalid()),
        DataType::Text | DataType::String | DataType::Blob => Ok(Cell::Text(text.as_bytes().to_vec())),
        // With hyphens or, from the cache, as an integer.
        DataType::Date => {
            let digits: String = text.chars().filter(|letter| *letter != '-').collect();
            Ok(Cell::Int(days_of(digits.parse().map_err(|_| invalid())?)?))
        }
    }
}

/// Days since 1970-01-01 of a date in IoTDB's format.
fn days_of(date: i32) -> Result<i64> {
    let invalid = || wrong(format!("{date} is not a DATE"));
    let part = |number: i32| i8::try_from(number).map_err(|_| invalid());
    let year = i16::try_from(date / 10_000).map_err(|_| invalid())?;
    let day = jiff::civil::Date::new(year, part(date / 100 % 100)?, part(date % 100)?).map_err(|_| invalid())?;
    let days = day.since(jiff::civil::Date::constant(1970, 1, 1)).map_err(|_| invalid())?;
    Ok(i64::from(days.get_days()))
}

/// Converts days since 1970-01-01 to IoTDB's format, clamped to the years that it supports.
pub(crate) fn date_of(days: i64) -> i32 {
    // Civil date from days: eras of 400 years that start on 1 March.
    let days = days.clamp(-354_285, 2_932_896) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    (10_000 * year + 100 * month + day) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_three_centuries_is_written_and_read_back() {
        for days in -60_000..60_000 {
            assert_eq!(days_of(date_of(days)).expect("a day"), days);
        }
        assert_eq!([date_of(0), date_of(-1), date_of(19_782)], [19_700_101, 19_691_231, 20_240_229]);
        assert_eq!((date_of(i64::MIN), date_of(i64::MAX)), (10_000_101, 99_991_231));
        assert!(days_of(20_230_229).is_err() && days_of(-5).is_err());
    }

    #[test]
    fn text_values_of_last_queries_are_parsed() {
        assert_eq!(parse_text("0x00", DataType::Blob).expect("as it is"), Cell::Text(b"0x00".to_vec()));
        assert_eq!(parse_text("2024-01-02", DataType::Date).expect("date"), Cell::Int(19_724));
        assert_eq!(parse_text("20240102", DataType::Date).expect("date"), Cell::Int(19_724));
        assert_eq!(parse_text("1.1", DataType::Float).expect("float"), Cell::Float(f64::from(1.1f32)));
        assert_eq!(parse_text("true", DataType::Boolean).expect("bool"), Cell::Bool(true));
        for (text, kind) in [("", DataType::Int32), ("yes", DataType::Boolean), ("2024", DataType::Date)] {
            assert!(parse_text(text, kind).is_err(), "{text} {kind:?}");
        }
    }
}
