//! Points as a workbook of Excel: the columns of CSV, `From`, `Value` and `Flag`, in lists of series with `Name` before.
//!
//! Excel's dates have no zone: they are what the clock of a calendar shows. A time is such a date where the clock shows it once and
//! it has no part of a millisecond; any other time is a text with an offset, so that every time is read as it was.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};
use model::Result;
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form};
use workbook::{Cell, Row, RowWriter, Workbook};

use crate::data::{CellPoints, CellTime, Meaning, Sent, SentPoints, flag_of};
use crate::data_csv;
use crate::data_json::Head;
use crate::store::Timed;

/// Name of the sheet of a reply.
pub(crate) const TITLE: &str = "Points";
const COLUMNS: [&str; 4] = ["Name", "From", "Value", "Flag"];
/// Longest text that is a time. A few bytes of a workbook can stand for a long text in each of very many rows.
const TIME_BYTES_MAX: usize = 40;
/// Memory of a series in addition to its points: a list may have another one in each row.
const SERIES_BYTES: u64 = 1_024;
const NS_PER_MS: i64 = 1_000_000;

/// Names of the columns.
pub(crate) fn header(is_list: bool) -> &'static [&'static str] {
    if is_list { &COLUMNS } else { &COLUMNS[1..] }
}

/// Parses a body: every sheet that is not hidden is read, and has its own header.
///
/// - `reserve`: reserves as many bytes of memory, again and again.
///
/// # Errors
/// 22023 for bytes that are no workbook, and naming the cell of what cannot be read; 54000 for a workbook that inflates to too
/// much; those of `reserve`.
pub(crate) fn parse(
    body: &[u8],
    is_list: bool,
    mut reserve: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<Sent<'static>>> {
    let mut read = Read { is_list, ..Read::default() };
    Workbook::open(body, &mut reserve)?.rows(|row| {
        let known = read.all.len();
        read.row(row)?;
        if read.all.len() == known { Ok(()) } else { reserve(SERIES_BYTES) }
    })?;
    Ok(read.finish())
}

/// Points that were read.
#[derive(Default)]
struct Read {
    is_list: bool,
    columns: Columns,
    /// Names of the sheets, each with its column of times.
    sheets: Vec<(String, u32)>,
    all: Vec<(String, CellPoints)>,
    places: HashMap<String, usize>,
}

impl Read {
    fn row(&mut self, row: &Row<'_, '_>) -> Result<()> {
        if row.is_first {
            self.columns = Columns::find(row, self.is_list)?;
            self.sheets.push((row.sheet.to_owned(), self.columns.from));
            return Ok(());
        }
        if self.columns.is_empty(row) {
            return Ok(());
        }
        let name = match self.columns.name {
            None => Cow::Borrowed(""),
            Some(column) => text_of(row.cell(column)).ok_or_else(|| row.refused(column, "the name of a series"))?,
        };
        let place = self.place(&name);
        let (time, value, flag) = self.columns.point(row)?;
        let points = &mut self.all[place].1;
        points.times.push(time);
        points.rows.push((u32::try_from(self.sheets.len() - 1).unwrap_or(u32::MAX), row.number));
        points.points.push(value, flag);
        Ok(())
    }

    /// The place of a series among all.
    fn place(&mut self, name: &str) -> usize {
        match self.all.last() {
            Some((last, _)) if last == name => return self.all.len() - 1,
            _ => {}
        }
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.places.insert(name.to_owned(), self.all.len());
        self.all.push((name.to_owned(), CellPoints::default()));
        self.all.len() - 1
    }

    fn finish(mut self) -> Vec<Sent<'static>> {
        if !self.is_list && self.all.is_empty() {
            self.all.push(Default::default());
        }
        let (is_list, sheets) = (self.is_list, Arc::new(self.sheets));
        let sent = self.all.into_iter().map(|(name, points)| Sent {
            name: is_list.then_some(Cow::Owned(name)),
            id: None,
            meaning: Meaning::default(),
            points: SentPoints::Cells(CellPoints { sheets: Arc::clone(&sheets), ..points }),
        });
        sent.collect()
    }
}

/// The text of a cell; also of a number, since a spreadsheet makes one of a name such as `4711`.
pub(crate) fn text_of<'a>(cell: &'a Cell<'_>) -> Option<Cow<'a, str>> {
    match cell {
        Cell::Text(text) => Some(Cow::Borrowed(text.as_ref())),
        Cell::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

/// Columns of a sheet, from 0.
#[derive(Default)]
struct Columns {
    name: Option<u32>,
    from: u32,
    value: u32,
    flag: Option<u32>,
}

impl Columns {
    fn find(row: &Row<'_, '_>, is_list: bool) -> Result<Columns> {
        let expected = format!("a first row with {}", header(is_list).join(", "));
        let mut found = [None; COLUMNS.len()];
        for (column, cell) in row.cells {
            let is_it = |name: &str| matches!(cell, Cell::Text(text) if text.eq_ignore_ascii_case(name));
            match COLUMNS.iter().position(|name| is_it(name)) {
                Some(at) if found[at].is_none() && (is_list || at > 0) => found[at] = Some(*column),
                _ => return Err(row.refused(*column, &expected)),
            }
        }
        let needed = |at: usize| {
            let missing = || {
                let message = format!("sheet \"{}\" has no column {}: expected {expected}", row.sheet, COLUMNS[at]);
                crate::tables::invalid(message)
            };
            found[at].ok_or_else(missing)
        };
        let name = is_list.then(|| needed(0)).transpose()?;
        Ok(Columns { name, from: needed(1)?, value: needed(2)?, flag: found[3] })
    }

    /// Whether a row has nothing in any of the columns: other columns are not read.
    fn is_empty(&self, row: &Row<'_, '_>) -> bool {
        let columns = [self.name, Some(self.from), Some(self.value), self.flag];
        columns.into_iter().flatten().all(|column| *row.cell(column) == Cell::Empty)
    }

    fn point(&self, row: &Row<'_, '_>) -> Result<(CellTime, Option<f64>, timeseries::flag::Flag)> {
        let time = match row.cell(self.from) {
            Cell::Clock(clock) => CellTime::Clock(*clock),
            Cell::Text(text) if text.len() <= TIME_BYTES_MAX => CellTime::Text(text.as_ref().into()),
            _ => return Err(row.refused(self.from, "a date, or a text with a time")),
        };
        let value = match row.cell(self.value) {
            Cell::Empty => None,
            Cell::Number(number) => Some(*number),
            Cell::Text(text) if text.len() <= TIME_BYTES_MAX => {
                let number = data_csv::number(text, b',');
                Some(number.map_err(|_| row.refused(self.value, "a number or nothing"))?)
            }
            _ => return Err(row.refused(self.value, "a number or nothing")),
        };
        let Some(column) = self.flag else { return Ok((time, value, flag_of(None, value.is_some())?)) };
        let id = match row.cell(column) {
            Cell::Empty => None,
            cell => {
                let id = text_of(cell).and_then(|text| text.parse().ok());
                Some(id.ok_or_else(|| row.refused(column, "the number of a flag"))?)
            }
        };
        let flag = flag_of(id, value.is_some()).map_err(|error| error.context(row.place(column)))?;
        Ok((time, value, flag))
    }
}

/// Writes points as rows.
pub(crate) struct XlsxWriter {
    zone: TimeZone,
    /// Name of the series, in lists.
    name: Option<String>,
}

impl XlsxWriter {
    pub(crate) fn new(calendar: &Calendar, head: Option<&Head>) -> XlsxWriter {
        XlsxWriter { zone: calendar.zone().clone(), name: head.map(|head| head.name.clone()) }
    }

    /// Appends some points.
    pub(crate) fn write(&self, out: &mut Vec<u8>, timed: &Timed, range: Range<usize>) {
        out.reserve(range.len() * 100);
        for at in range {
            let (time, (value, flag)) = (timed.times[at], timed.points.get(at));
            let mut row = RowWriter::start(out);
            if let Some(name) = &self.name {
                row.text(name);
            }
            match self.clock(time) {
                Some(clock) => row.clock(clock),
                None => row.text(&stamp::text(time, &self.zone, Form::Offset)),
            }
            match value {
                None => row.empty(),
                Some(value) => row.number(value),
            }
            row.whole(flag.id().into());
            row.end();
        }
    }

    /// The clock time at a time, if the clock shows it once and a date of Excel can be it.
    fn clock(&self, time: i64) -> Option<i64> {
        if time % NS_PER_MS != 0 {
            return None;
        }
        let instant = Timestamp::from_nanosecond(time.into()).ok()?;
        let offset = self.zone.to_offset(instant);
        let ambiguous = self.zone.to_ambiguous_timestamp(offset.to_datetime(instant));
        let is_shown_once = matches!(ambiguous.offset(), AmbiguousOffset::Unambiguous { .. });
        let clock = time / NS_PER_MS + i64::from(offset.seconds()) * 1_000;
        (is_shown_once && workbook::holds(clock)).then_some(clock)
    }
}

#[cfg(test)]
mod tests {
    use timeseries::flag::Flag;

    use super::*;

    fn body(header: &[&str], rows: &[u8]) -> Vec<u8> {
        let mut writer = workbook::Writer::new(TITLE, header).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap()
    }

    fn points(body: &[u8]) -> Result<Timed> {
        let mut all = parse(body, false, |_| Ok(()))?;
        all.remove(0).points.timed(&Calendar::parse("Europe/Vienna").unwrap())
    }

    /// A workbook with one row below its header.
    fn row(header: &[&str], write: impl FnOnce(&mut RowWriter<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut row = RowWriter::start(&mut out);
        write(&mut row);
        row.end();
        body(header, &out)
    }

    #[test]
    fn what_is_written_is_read_in_every_zone() {
        for zone in ["Europe/Vienna", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"] {
            let calendar = Calendar::parse(zone).unwrap();
            let values = [Some(0.1), None, Some(-1e300), Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(-0.0)];
            let mut timed = Timed::default();
            // From 1677 to 2262, and half hours of 2025 with both changes of the clock; some with parts of a millisecond.
            let far = (-146..=146_i64).map(|at| at * 63_000_000_000_000_000);
            let parts = [0, 1, 1_000_000].into_iter().cycle();
            let near =
                (0..17_520_i64).zip(parts).map(|(at, part)| 1_735_689_600_000_000_000 + at * 1_800_000_000_000 + part);
            let mut times: Vec<i64> = far.chain(near).collect();
            times.sort_unstable();
            for (at, time) in times.into_iter().enumerate() {
                timed.times.push(time);
                timed.points.push(values[at % values.len()], Flag::ALL[at % Flag::ALL.len()]);
            }
            let mut out = Vec::new();
            XlsxWriter::new(&calendar, None).write(&mut out, &timed, 0..timed.times.len());
            let mut all = parse(&body(header(false), &out), false, |_| Ok(())).unwrap();
            assert_eq!(all.remove(0).points.timed(&calendar).unwrap(), timed, "{zone}");
        }
    }

    #[test]
    fn dates_are_what_the_clock_shows_and_texts_where_it_shows_a_time_twice() {
        let writer = XlsxWriter::new(&Calendar::parse("Europe/Vienna").unwrap(), None);
        let clock = |text: &str| writer.clock(stamp::parse(text, &TimeZone::UTC).unwrap());
        assert_eq!(clock("2025-10-25T23:45:00Z"), Some(1_761_443_100_000), "01:45 of summer time");
        assert_eq!(clock("2025-10-26T00:00:00Z"), None);
        assert_eq!(clock("2025-10-26T01:45:00Z"), None);
        assert_eq!(clock("2025-10-26T02:00:00Z"), Some(1_761_447_600_000), "03:00 of winter time");
        assert_eq!(clock("2025-01-01T00:00:00.0001Z"), None);
        assert_eq!(clock("1850-01-01T00:00:00Z"), None);
    }

    #[test]
    fn columns_come_in_any_order_and_rows_of_several_series_may_be_mixed() {
        let mut out = Vec::new();
        for (name, flag, clock) in [("A", 9, 0), ("4711", 9, 0), ("A", 5, 3_600_000)] {
            let mut row = RowWriter::start(&mut out);
            row.whole(flag);
            row.clock(clock);
            if name == "4711" {
                row.whole(4711)
            } else {
                row.text(name)
            }
            row.number(1.5);
            row.end();
        }
        let all = parse(&body(&["flag", "FROM", "name", "Value"], &out), true, |_| Ok(())).unwrap();
        let names: Vec<&str> = all.iter().map(|sent| sent.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["A", "4711"]);
        let timed = all.into_iter().next().unwrap().points.timed(&Calendar::utc()).unwrap();
        assert_eq!(timed.times, [0, 3_600_000_000_000]);
        assert_eq!(timed.points.get(1), (Some(1.5), Flag::ManuallyReplaced));
    }

    #[test]
    fn texts_of_times_and_numbers_are_those_of_csv() {
        let header = ["From", "Value"];
        for (time, expected) in [("2025-10-26T02:30:00A", 1_761_438_600), ("2025-10-26 02:30:00+01:00", 1_761_442_200)]
        {
            let timed = points(&row(&header, |row| {
                row.text(time);
                row.text("-Infinity");
            }));
            let timed = timed.unwrap();
            assert_eq!(timed.times, [expected * 1_000_000_000]);
            assert_eq!(timed.points.get(0), (Some(f64::NEG_INFINITY), Flag::Valid));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_cell() {
        let header = ["From", "Value", "Flag"];
        // 2025-10-26 02:30 and 2025-03-30 02:30, as dates.
        let (twice, never) = (1_761_445_800_000, 1_743_301_800_000);
        for (body, expected) in [
            (row(&header, |row| row.clock(twice)), "Points!A2: time \"2025-10-26T02:30:00\" is shown twice"),
            (row(&header, |row| row.clock(never)), "Points!A2: time \"2025-03-30T02:30:00\" does not exist"),
            (row(&header, |row| row.text("soon")), "Points!A2: time \"soon\": expected a form"),
            (row(&header, |row| row.number(45_000.5)), "Points!A2: 45000.5: expected a date, or a text"),
            (row(&["Value", "From"], |row| row.number(1.0)), "Points!B2: nothing: expected a date"),
            (
                row(&header, |row| {
                    row.clock(0);
                    row.text("4,5");
                }),
                "Points!B2: \"4,5\": expected a number or nothing",
            ),
            (
                row(&header, |row| {
                    row.clock(0);
                    row.clock(0);
                }),
                "Points!B2: a date: expected a number or nothing",
            ),
            (
                row(&header, |row| {
                    row.clock(0);
                    row.empty();
                    row.number(9.5);
                }),
                "Points!C2: 9.5: expected the number of a flag",
            ),
            (
                row(&header, |row| {
                    row.clock(0);
                    row.empty();
                    row.whole(3);
                }),
                "Points!C2: flag 3 is not known",
            ),
            (row(&["From", "Other"], |_| ()), "Points!B1: \"Other\": expected a first row with From, Value, Flag"),
            (row(&["From"], |_| ()), "sheet \"Points\" has no column Value"),
            (row(&["From", "from", "Value"], |_| ()), "Points!B1: \"from\": expected"),
            (b"From,Value\n".to_vec(), "expected the zip of an .xlsx file"),
        ] {
            let error = points(&body).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        }
    }
}
