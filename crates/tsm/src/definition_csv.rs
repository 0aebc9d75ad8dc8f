//! Lists of definitions, as CSV or JSON; `definition_xlsx` has workbooks.
//!
//! A column of CSV is a member of a definition, such as `Name` or `Unit`. `Interval` is a step, or a number and a step (`15 Minute`);
//! `Attributes.Supplier` is the attribute `Supplier`. A formula or attribute that changes in time is an object of JSON. An empty cell is a
//! member that is not given.

use csv::{ReaderBuilder, Trim};
use model::{Error, Result, SqlState};
use serde_json::{Map, Value as Json, json};

use crate::data_csv::{malformed, separator, without_mark};
use crate::tables::invalid;

/// Prefix of the columns of attributes.
pub(crate) const ATTRIBUTE: &str = "Attributes.";
/// Columns that are numbers, and those that are true or false.
const NUMBERS: [&str; 4] = ["ID", "Multiplier", "Factor", "Offset"];
const FORMULA: &str = "Formula";
const FLAGS: [&str; 2] = ["Audit", "Quotation"];

/// Definitions of one import.
const IMPORT_MAX: usize = 100_000;

/// Refuses an import of too many definitions.
///
/// # Errors
/// 54000 beyond 100,000.
pub(crate) fn check_count(count: usize) -> Result<()> {
    if count <= IMPORT_MAX {
        return Ok(());
    }
    let message = format!("{count} definitions in one request: expected at most {IMPORT_MAX}");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

/// The definitions of a list of CSV or else of JSON, each with its place for errors: `line 3`, or `[2]`.
///
/// # Errors
/// 22023 for other text, naming the line of what cannot be read.
pub(crate) fn parse(body: &[u8], is_csv: bool) -> Result<Vec<(String, Json)>> {
    if !is_csv {
        let all: Vec<Json> = serde_json::from_slice(body)
            .map_err(|error| invalid(format!("the body is not a list of definitions: {error}")))?;
        return Ok(all.into_iter().enumerate().map(|(at, one)| (format!("[{at}]"), one)).collect());
    }
    let body = without_mark(body);
    let mut reader = ReaderBuilder::new().delimiter(separator(body)).trim(Trim::All).from_reader(body);
    let header = reader.headers().map_err(|error| malformed(&error))?.clone();
    let mut all = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| malformed(&error))?;
        let place = format!("line {}", record.position().map_or(0, csv::Position::line));
        let one = definition(header.iter().zip(&record)).map_err(|error| error.context(place.clone()))?;
        all.push((place, one));
    }
    Ok(all)
}

/// Whether a body is a list in JSON.
pub(crate) fn is_list(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// A definition of the names of columns, each with the text of its cell.
///
/// # Errors
/// 22023 naming the column of a text that cannot be used.
pub(crate) fn definition<'a>(cells: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Json> {
    let mut members = Map::new();
    let mut attributes = Map::new();
    for (name, text) in cells.filter(|(_, text)| !text.is_empty()) {
        if let Some(attribute) = name.strip_prefix(ATTRIBUTE) {
            attributes.insert(attribute.to_owned(), text_or_object(text));
            continue;
        }
        let value = if name == FORMULA {
            text_or_object(text)
        } else if NUMBERS.contains(&name) {
            number(name, text)?
        } else if FLAGS.contains(&name) {
            json!(truth(name, text)?)
        } else {
            json!(text)
        };
        members.insert(name.to_owned(), value);
    }
    if let Some(interval) = members.remove("Interval") {
        let text = interval.as_str().unwrap_or_default();
        let (count, step) = text.split_once(' ').map_or((None, text), |(count, step)| (Some(count), step.trim()));
        let count = count.map(|count| number("Interval", count)).transpose()?;
        let multiplier = members.remove("Multiplier").or(count).unwrap_or(json!(1));
        members.insert("Interval".to_owned(), json!({ "Value": step, "Multiplier": multiplier }));
    }
    if !attributes.is_empty() {
        members.insert("Attributes".to_owned(), Json::Object(attributes));
    }
    Ok(Json::Object(members))
}

/// A text, or the texts by times that it is as JSON.
fn text_or_object(text: &str) -> Json {
    let object = text.starts_with('{').then(|| serde_json::from_str::<Map<String, Json>>(text).ok()).flatten();
    object.map_or_else(|| json!(text), Json::Object)
}

fn number(name: &str, text: &str) -> Result<Json> {
    let plain = text.replace(',', ".");
    let whole = plain.parse::<i64>().map(|whole| json!(whole));
    whole
        .or_else(|_| plain.parse::<f64>().map(|number| json!(number)))
        .map_err(|_| invalid(format!("column {name}: \"{text}\" is not a number")))
}

fn truth(name: &str, text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" | "x" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(invalid(format!("column {name}: \"{text}\": expected true or false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_csv_become_definitions() {
        let text = "Name;Interval;Unit;Audit;Attributes.Supplier;Description\nA;15 Minute;kW;x;North;\nB;Day;;no;;\"Two; words\"\n";
        let all = parse(text.as_bytes(), true).unwrap();
        assert_eq!(
            all,
            [
                (
                    "line 2".to_owned(),
                    json!({ "Name": "A", "Interval": { "Value": "Minute", "Multiplier": 15 }, "Unit": "kW", "Audit": true,
                        "Attributes": { "Supplier": "North" } })
                ),
                (
                    "line 3".to_owned(),
                    json!({ "Name": "B", "Interval": { "Value": "Day", "Multiplier": 1 }, "Audit": false,
                        "Description": "Two; words" })
                ),
            ]
        );
        let units = parse(b"Name,BaseUnit,Factor\nkcal/h,W,1.163\n", true).unwrap();
        assert_eq!(units[0].1, json!({ "Name": "kcal/h", "BaseUnit": "W", "Factor": 1.163 }));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        for (text, expected) in [
            ("Name,Audit\nA,true\nB,perhaps\n", "line 3: column Audit: \"perhaps\""),
            ("Name,Interval\nA,x Day\n", "line 2: column Interval: \"x\" is not a number"),
            ("Name,Unit\nA\n", "record with 1 fields"),
        ] {
            let error = parse(text.as_bytes(), true).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
        assert!(parse(b"{}", false).is_err());
    }
}
