//! Lists of definitions as a workbook of Excel: the columns of CSV, also as a reply.

use model::{Error, Result, SqlState};
use serde_json::{Map, Value as Json};
use workbook::{Cell, RowWriter, Workbook, Writer};

use crate::data_xlsx::text_of;
use crate::definition_csv::{ATTRIBUTE, check_count, definition};

const SERIES: [&str; 12] = [
    "ID",
    "Name",
    "Type",
    "Interval",
    "Unit",
    "TimeZone",
    "Description",
    "Aggregation",
    "Audit",
    "Quotation",
    "QuotationBehaviour",
    "Formula",
];
const UNITS: [&str; 8] =
    ["Name", "BaseUnit", "Factor", "Offset", "IntegralUnit", "Aggregation", "Category", "ExchangeSeries"];
/// Longest text of a cell, in UTF-16 units: Excel's limit.
const TEXT_UNITS_MAX: usize = 32_767;
/// Memory of a definition in addition to its texts, which are copied some three times.
const DEFINITION_BYTES: u64 = 2_048;
const TEXT_TIMES: u64 = 3;

/// The definitions of a workbook, each with its place for errors: `Sheet1 row 3`.
///
/// - `reserve`: reserves as many bytes of memory, again and again: a few bytes can stand for a long text in each of very many cells.
///
/// # Errors
/// 22023 naming the cell or row of what cannot be read; 54000 for a workbook that inflates to too much; those of `reserve`.
pub(crate) fn parse(body: &[u8], mut reserve: impl FnMut(u64) -> Result<()>) -> Result<Vec<(String, Json)>> {
    let mut all = Vec::new();
    let mut header: Vec<(u32, String)> = Vec::new();
    Workbook::open(body, &mut reserve)?.rows(|row| {
        let texts = row.cells.iter().map(|(_, cell)| if let Cell::Text(text) = cell { text.len() as u64 } else { 0 });
        reserve(DEFINITION_BYTES + TEXT_TIMES * texts.sum::<u64>())?;
        if row.is_first {
            let named = row.cells.iter().map(|(column, cell)| match cell {
                Cell::Text(name) => Ok((*column, name.to_string())),
                _ => Err(row.refused(*column, "the name of a column")),
            });
            header = named.collect::<Result<_>>()?;
            return Ok(());
        }
        let mut cells = Vec::with_capacity(row.cells.len());
        for (column, cell) in row.cells {
            let Ok(at) = header.binary_search_by_key(column, |(own, _)| *own) else { continue };
            let name = &header[at].1;
            let text = match cell {
                Cell::Truth(truth) => truth.to_string().into(),
                cell => text_of(cell).ok_or_else(|| row.refused(*column, "a text, a number, TRUE or FALSE"))?,
            };
            cells.push((name.as_str(), text));
        }
        if cells.is_empty() {
            return Ok(());
        }
        check_count(all.len() + 1)?;
        let place = format!("{} row {}", row.sheet, row.number);
        let pairs = cells.iter().map(|(name, text)| (*name, text.as_ref()));
        let one = definition(pairs).map_err(|error| error.context(place.clone()))?;
        all.push((place, one));
        Ok(())
    })?;
    Ok(all)
}

/// Definitions of series as a workbook, with a column for each attribute that one has.
///
/// # Errors
/// 54000 for a text that is too long for a cell.
pub(crate) fn of_series(all: &[Json]) -> Result<Vec<u8>> {
    let members = |one: &Json| one["Attributes"].as_object().cloned().unwrap_or_default();
    let mut attributes: Vec<String> =
        all.iter().flat_map(|one| members(one).into_iter().map(|(name, _)| name)).collect();
    attributes.sort_unstable();
    attributes.dedup();
    let names: Vec<String> = attributes.iter().map(|name| format!("{ATTRIBUTE}{name}")).collect();
    let header: Vec<&str> = SERIES.into_iter().chain(names.iter().map(String::as_str)).collect();
    list("Series", &header, all, |one| {
        let own = SERIES.iter().map(|name| &one[*name]);
        own.chain(attributes.iter().map(|name| &one["Attributes"][name.as_str()])).cloned().collect()
    })
}

/// Units as a workbook.
///
/// # Errors
/// 54000 for a text that is too long for a cell.
pub(crate) fn of_units(all: &[Json]) -> Result<Vec<u8>> {
    list("Units", &UNITS, all, |one| UNITS.iter().map(|name| one[*name].clone()).collect())
}

/// - `cells`: the cells of a row, as many as `header` has.
fn list(title: &'static str, header: &[&str], all: &[Json], cells: impl Fn(&Json) -> Vec<Json>) -> Result<Vec<u8>> {
    let mut writer = Writer::new(title, header)?;
    let mut made = Vec::new();
    let mut out = Vec::new();
    for one in all {
        let mut row = RowWriter::start(&mut out);
        for cell in cells(one) {
            write(&mut row, &cell)?;
        }
        row.end();
        writer.write(&out)?;
        out.clear();
        made.append(&mut writer.take());
    }
    made.append(&mut writer.finish()?);
    Ok(made)
}

fn write(row: &mut RowWriter<'_>, cell: &Json) -> Result<()> {
    let text = match cell {
        Json::Null => {
            row.empty();
            return Ok(());
        }
        Json::Bool(truth) => {
            row.truth(*truth);
            return Ok(());
        }
        Json::Number(number) => {
            match number.as_i64() {
                Some(whole) => row.whole(whole),
                None => row.number(number.as_f64().unwrap_or(f64::NAN)),
            }
            return Ok(());
        }
        Json::String(text) => text.clone(),
        Json::Object(members) => interval(members).unwrap_or_else(|| cell.to_string()),
        Json::Array(_) => cell.to_string(),
    };
    if text.encode_utf16().count() > TEXT_UNITS_MAX {
        let message =
            format!("a cell of a workbook has at most {TEXT_UNITS_MAX} characters: \"{:.64}…\" has more", text);
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("read the definitions as JSON"));
    }
    row.text(&text);
    Ok(())
}

/// `15 Minute`, as the column `Interval` has it.
fn interval(members: &Map<String, Json>) -> Option<String> {
    let (step, multiplier) = (members.get("Value")?.as_str()?, members.get("Multiplier")?.as_u64()?);
    Some(if multiplier == 1 { step.to_owned() } else { format!("{multiplier} {step}") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_that_are_written_are_read() {
        let all = [
            json!({ "ID": 7, "Name": "A", "Type": "Begin", "Interval": { "Value": "Minute", "Multiplier": 15 }, "Unit": "kW",
                "TimeZone": "Europe/Vienna", "Description": null, "Aggregation": null, "Audit": true, "Quotation": false,
                "QuotationBehaviour": null, "Formula": null, "Attributes": { "Supplier": "North" } }),
            json!({ "ID": 8, "Name": "Net", "Interval": { "Value": "Day", "Multiplier": 1 },
                "Formula": { "2025-01-01T00:00:00Z": "[A]", "2026-01-01T00:00:00Z": "[A] * 2" },
                "Attributes": { "Grid": { "2025-01-01T00:00:00Z": "5" } } }),
        ];
        let read = parse(&of_series(&all).unwrap(), |_| Ok(())).unwrap();
        let first = json!({ "ID": 7, "Name": "A", "Type": "Begin", "Interval": { "Value": "Minute", "Multiplier": 15 },
            "Unit": "kW", "TimeZone": "Europe/Vienna", "Audit": true, "Quotation": false,
            "Attributes": { "Supplier": "North" } });
        assert_eq!(read, [("Series row 2".to_owned(), first), ("Series row 3".to_owned(), all[1].clone())]);
        let units =
            [json!({ "ExchangeSeries": null, "Name": "kcal/h", "BaseUnit": "W", "Factor": 1.163, "Offset": 0.0,
            "IntegralUnit": "Wh", "Aggregation": "AVG", "Category": null })];
        let read = parse(&of_units(&units).unwrap(), |_| Ok(())).unwrap();
        let expected = json!({ "Name": "kcal/h", "BaseUnit": "W", "Factor": 1.163, "Offset": 0, "IntegralUnit": "Wh",
            "Aggregation": "AVG" });
        assert_eq!(read, [("Units row 2".to_owned(), expected)]);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        let body = |header: &[&str], write: &dyn Fn(&mut RowWriter<'_>)| {
            let (mut writer, mut out) = (Writer::new("Series", header).unwrap(), Vec::new());
            let mut row = RowWriter::start(&mut out);
            write(&mut row);
            row.end();
            writer.write(&out).unwrap();
            writer.finish().unwrap()
        };
        let refused = |body: Vec<u8>, expected: &str| {
            let error = parse(&body, |_| Ok(())).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        };
        refused(body(&["Audit"], &|row| row.text("perhaps")), "Series row 2: column Audit: \"perhaps\"");
        refused(body(&["Name"], &|row| row.clock(0)), "Series!A2: a date: expected a text, a number, TRUE or FALSE");
        let named = body(&["Name"], &|row| row.whole(4711));
        assert_eq!(parse(&named, |_| Ok(())).unwrap()[0].1, json!({ "Name": "4711" }));
        // A text is in the workbook once and counts in each cell.
        let texts = body(&["Name", "Description"], &|row| {
            row.text("A");
            row.text(&"x".repeat(10_000));
        });
        let mut reserved = Vec::new();
        parse(&texts, |bytes| {
            reserved.push(bytes);
            Ok(())
        })
        .unwrap();
        assert!(reserved.len() == 3 && reserved[2] > 30_000, "{reserved:?}");
        let long = json!({ "Name": "A", "Description": "x".repeat(40_000) });
        assert!(of_series(&[long]).unwrap_err().to_string().contains("at most 32767 characters"));
    }
}
