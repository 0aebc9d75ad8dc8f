//! Points as CSV: a header line, then `From,Value,Flag`, in lists of series with `Name` before.
//!
//! A body may be separated by semicolons or tabs too; its decimals may have a comma then, as spreadsheets of much of Europe write
//! them. An absent value is empty.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use csv::{ReaderBuilder, StringRecord};
use model::{Error, Result};
use timeseries::raster::Calendar;
use timeseries::stamp::Form;

use crate::data::{Meaning, Sent, SentPoints, TextPoints};
use crate::data_json::{Head, StampWriter, flag_text};
use crate::store::Timed;
use crate::tables::invalid;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The header line of a reply.
pub(crate) fn header(is_list: bool) -> Vec<u8> {
    if is_list { b"Name,From,Value,Flag\n".to_vec() } else { b"From,Value,Flag\n".to_vec() }
}

/// Places of the columns.
struct Columns {
    name: Option<usize>,
    from: usize,
    value: usize,
    flag: Option<usize>,
}

/// Parses a body.
///
/// # Errors
/// 22023 naming the line of what cannot be read.
pub(crate) fn parse(body: &[u8], is_list: bool) -> Result<Vec<Sent<'static>>> {
    let body = without_mark(body);
    let separator = separator(body);
    let mut reader = ReaderBuilder::new().delimiter(separator).trim(csv::Trim::All).from_reader(body);
    let columns = Columns::find(reader.headers().map_err(|error| malformed(&error))?, is_list)?;
    let mut all: Vec<(String, TextPoints)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| malformed(&error))? {
        let name = columns.name.and_then(|at| record.get(at)).unwrap_or_default();
        let place = match all.last() {
            Some((last, _)) if last == name => all.len() - 1,
            _ => *places.entry(name.to_owned()).or_insert(all.len()),
        };
        if place == all.len() {
            all.push((name.to_owned(), TextPoints::default()));
        }
        let line = record.position().map_or(0, csv::Position::line);
        let added = columns.add_point(&mut all[place].1, &record, separator);
        added.map_err(|error| error.context(format!("line {line}")))?;
    }
    if !is_list && all.is_empty() {
        all.push(Default::default());
    }
    let sent = all.into_iter().map(|(name, points)| Sent {
        name: is_list.then_some(Cow::Owned(name)),
        id: None,
        meaning: Meaning::default(),
        points: SentPoints::Texts(points),
    });
    Ok(sent.collect())
}

/// A text without the mark that some spreadsheets write first.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// The separator of a text: a semicolon or a tab if its first line has one, or else a comma.
pub(crate) fn separator(text: &[u8]) -> u8 {
    let first_line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    [b';', b'\t'].into_iter().find(|separator| first_line.contains(separator)).unwrap_or(b',')
}

impl Columns {
    fn find(header: &StringRecord, is_list: bool) -> Result<Columns> {
        let find = |name: &str| header.iter().position(|own| own.eq_ignore_ascii_case(name));
        let expected = if is_list { "Name,From,Value,Flag" } else { "From,Value,Flag" };
        let needed = |name: &str| {
            find(name).ok_or_else(|| invalid(format!("the CSV has no column {name}: expected a first line {expected}")))
        };
        let known = ["Name", "From", "Value", "Flag"];
        let known = if is_list { &known[..] } else { &known[1..] };
        if let Some(other) = header.iter().find(|own| !known.iter().any(|known| known.eq_ignore_ascii_case(own))) {
            return Err(invalid(format!("the CSV has a column \"{other}\": expected {expected}")));
        }
        let name = is_list.then(|| needed("Name")).transpose()?;
        Ok(Columns { name, from: needed("From")?, value: needed("Value")?, flag: find("Flag") })
    }

    fn add_point(&self, points: &mut TextPoints, record: &StringRecord, separator: u8) -> Result<()> {
        let text = |at: usize| record.get(at).filter(|text| !text.is_empty());
        let from = text(self.from).ok_or_else(|| invalid("there is no time".to_owned()))?;
        let value = text(self.value).map(|text| number(text, separator)).transpose()?;
        let flag = self
            .flag
            .and_then(text)
            .map(|text| text.parse().map_err(|_| invalid(format!("flag \"{text}\": expected the number of a flag"))));
        points.push(from, value, flag.transpose()?);
        Ok(())
    }
}

/// A number, also `NaN`, `Infinity` and `-Infinity`.
pub(crate) fn number(text: &str, separator: u8) -> Result<f64> {
    let text = if separator == b',' { Cow::Borrowed(text) } else { Cow::Owned(text.replace(',', ".")) };
    let value: f64 = text.parse().map_err(|_| invalid(format!("value \"{text}\": expected a number or nothing")))?;
    let is_written_infinite = || text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    if value.is_infinite() && !is_written_infinite() {
        return Err(invalid(format!("value \"{text}\" is out of range")));
    }
    Ok(value)
}

/// An error for a text that is no CSV.
pub(crate) fn malformed(error: &csv::Error) -> Error {
    invalid(format!("the body is not CSV: {error}"))
}

/// Writes points.
pub(crate) struct CsvWriter {
    stamps: StampWriter,
    /// Name of the series with a comma, in lists.
    prefix: Vec<u8>,
}

impl CsvWriter {
    pub(crate) fn new(form: Form, calendar: &Calendar, head: Option<&Head>) -> CsvWriter {
        let prefix = head.map_or_else(Vec::new, |head| {
            let name = &head.name;
            let is_plain = !name.contains(['"', ',', ';', '\n', '\r', '\t']) && name.trim() == name;
            let name = if is_plain { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
            format!("{name},").into_bytes()
        });
        CsvWriter { stamps: StampWriter::new(form, calendar), prefix }
    }

    /// Appends some points.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, timed: &Timed, range: Range<usize>) {
        out.reserve(range.len() * (40 + self.prefix.len()));
        let mut buffer = zmij::Buffer::new();
        for at in range {
            out.extend_from_slice(&self.prefix);
            self.stamps.write(out, timed.times[at]);
            out.push(b',');
            let (value, flag) = timed.points.get(at);
            match value {
                None => {}
                Some(value) if value.is_finite() => out.extend_from_slice(buffer.format_finite(value).as_bytes()),
                Some(value) if value.is_nan() => out.extend_from_slice(b"NaN"),
                Some(value) if value > 0.0 => out.extend_from_slice(b"Infinity"),
                Some(_) => out.extend_from_slice(b"-Infinity"),
            }
            out.push(b',');
            out.extend_from_slice(flag_text(flag));
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(body: &str) -> Result<Timed> {
        let mut all = parse(body.as_bytes(), false)?;
        all.remove(0).points.timed(&Calendar::parse("Europe/Vienna").unwrap())
    }

    #[test]
    fn spreadsheets_of_many_countries_are_read() {
        let expected = points("From,Value,Flag\n2025-10-26T02:30:00A,4.5,9\n2025-10-26T02:30:00B,,\n").unwrap();
        assert_eq!(expected.points.get(0), (Some(4.5), timeseries::flag::Flag::Valid));
        assert_eq!(expected.points.get(1), (None, timeseries::flag::Flag::Missing));
        for body in [
            "\u{feff}from;value;flag\r\n2025-10-26T02:30:00A;4,5;9\r\n2025-10-26T02:30:00B;;\r\n",
            "Value\tFlag\tFrom\n4,5\t9\t2025-10-26T02:30:00A\n\t\t2025-10-26T02:30:00B\n",
            "\"From\",\"Value\"\n\"2025-10-26T02:30:00B\",\n\"2025-10-26T02:30:00A\",\"4.5\"",
        ] {
            assert_eq!(points(body).unwrap(), expected, "{body}");
        }
    }

    #[test]
    fn rows_of_several_series_may_be_mixed() {
        let body = "Name,From,Value\nA,2025-01-01,1\n\"B, \"\"b\"\"\",2025-01-01,2\nA,2025-01-02,3\n";
        let all = parse(body.as_bytes(), true).unwrap();
        let lens = all.iter().map(|sent| match &sent.points {
            SentPoints::Texts(points) => (sent.name.as_deref().unwrap(), points.len()),
            _ => panic!("texts"),
        });
        assert_eq!(lens.collect::<Vec<_>>(), [("A", 2), ("B, \"b\"", 1)]);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        for (body, expected) in [
            ("From,Value\n2025-01-01,1\n2025-01-02,x\n", "line 3: value \"x\": expected a number"),
            ("From,Value\n2025-01-01,1e999\n", "line 2: value \"1e999\" is out of range"),
            ("From,Value\n2025-01-01\n", "found record with 1 fields"),
            ("From,Value,Flag\n2025-01-01,1,good\n", "line 2: flag \"good\""),
            ("From;Value\n;1\n", "line 2: there is no time"),
            ("Time,Value\n", "the CSV has a column \"Time\""),
            ("From\n", "the CSV has no column Value"),
            ("From,Value\n2025-01-01,1\n2025-01-01,2\n", "there are two points of 2024-12-31T23:00:00Z"),
        ] {
            let error = points(body).unwrap_err();
            assert!(error.to_string().contains(expected), "{body}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let calendar = Calendar::parse("Europe/Vienna").unwrap();
        let values = [Some(0.1), None, Some(-1e300), Some(f64::INFINITY), Some(f64::NEG_INFINITY)];
        let mut timed = Timed::default();
        for (at, value) in values.into_iter().enumerate() {
            timed.times.push(1_761_436_800_000_000_000 + i64::try_from(at).unwrap() * 1_800_000_000_000);
            timed.points.push(value, timeseries::flag::Flag::ALL[at]);
        }
        for form in [Form::Utc, Form::Offset, Form::Local] {
            let mut out = header(false);
            CsvWriter::new(form, &calendar, None).write(&mut out, &timed, 0..timed.times.len());
            assert_eq!(points(std::str::from_utf8(&out).unwrap()).unwrap(), timed);
        }
    }
}
