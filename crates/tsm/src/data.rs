//! Points that a client sends, in any encoding.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::{Error, Result};
use timeseries::flag::Flag;
use timeseries::points::Points;
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form, UtcReader};

use crate::definition_json::IntervalJson;
use crate::parameters::{Parameters, whole};
use crate::store::Timed;
use crate::tables::invalid;

/// Points of one series that a client sends.
#[derive(Debug)]
pub(crate) struct Sent<'a> {
    /// Name or number of the series, in requests for several.
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) id: Option<i64>,
    pub(crate) meaning: Meaning<'a>,
    pub(crate) points: SentPoints,
}

/// The meaning of points, where it is not that of their series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meaning<'a> {
    /// Raster of the points.
    pub(crate) interval: Option<IntervalJson>,
    /// Unit of the values.
    pub(crate) unit: Option<Cow<'a, str>>,
    /// Calendar of times without an offset, and of the raster.
    pub(crate) time_zone: Option<Cow<'a, str>>,
    /// Version of the points, for series with quotation.
    pub(crate) quotation: Option<Cow<'a, str>>,
}

/// The points, in the order in which they were sent.
#[derive(Debug)]
pub(crate) enum SentPoints {
    Texts(TextPoints),
    Cells(CellPoints),
    Timed(Timed),
}

/// Points whose times are cells of a workbook.
#[derive(Debug, Default)]
pub(crate) struct CellPoints {
    pub(crate) times: Vec<CellTime>,
    /// Place of the sheet in `sheets`, and row from 1, of each point.
    pub(crate) rows: Vec<(u32, u32)>,
    pub(crate) points: Points,
    /// Names of the sheets, each with its column of times from 0.
    pub(crate) sheets: Arc<Vec<(String, u32)>>,
}

/// A time in a cell.
#[derive(Debug)]
pub(crate) enum CellTime {
    /// A date, which is what the clock of a calendar shows: milliseconds since its 1970.
    Clock(i64),
    Text(Box<str>),
}

/// Points whose times are texts.
#[derive(Debug, Default)]
pub(crate) struct TextPoints {
    /// Times; 0 in place of texts that are read when the calendar is known.
    times: Vec<i64>,
    /// These texts, with the places of their points, ascending.
    others: Vec<(usize, Box<str>)>,
    points: Points,
    /// The first point whose flag is not known.
    wrong: Option<(usize, Error)>,
    reader: UtcReader,
}

impl TextPoints {
    /// Adds a point. What is wrong with it is an error of its series, which other series of the body do not share.
    pub(crate) fn push(&mut self, time: &str, value: Option<f64>, flag: Option<i64>) {
        let at = self.times.len();
        let known = self.reader.read(time);
        if known.is_none() {
            self.others.push((at, time.into()));
        }
        self.times.push(known.unwrap_or_default());
        let flag = flag_of(flag, value.is_some()).unwrap_or_else(|error| {
            self.wrong.get_or_insert((at, error));
            Flag::default()
        });
        self.points.push(value, flag);
    }

    /// Number of points.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    fn timed(mut self, calendar: &Calendar) -> Result<Timed> {
        let named = |at: usize, error: Error| error.context(format!("Data[{at}]"));
        let wrong_at = self.wrong.as_ref().map_or(usize::MAX, |(at, _)| *at);
        for (at, text) in self.others.iter().take_while(|(at, _)| *at <= wrong_at) {
            self.times[*at] = stamp::parse(text, calendar.zone()).map_err(|error| named(*at, error))?;
        }
        match self.wrong {
            Some((at, error)) => Err(named(at, error)),
            None => Ok(Timed { times: self.times, points: self.points }),
        }
    }
}

impl Meaning<'static> {
    /// The parameters of a request that say how points are to be understood. Members of a body of JSON precede them.
    ///
    /// # Errors
    /// 22023 for a value that cannot be used.
    pub(crate) fn take(parameters: &mut Parameters) -> Result<Meaning<'static>> {
        let multiplier = whole(parameters, "intervalMultiplier", 1)?;
        Ok(Meaning {
            interval: parameters.take("interval")?.map(|step| IntervalJson::new(step, multiplier)),
            unit: parameters.take("unit")?.map(Cow::Owned),
            time_zone: parameters.take("timeZone")?.map(Cow::Owned),
            quotation: parameters.take("quotation")?.map(Cow::Owned),
        })
    }
}

impl<'a> Meaning<'a> {
    /// This meaning, and that of `other` where this one says nothing.
    pub(crate) fn or(self, other: &Meaning<'a>) -> Meaning<'a> {
        Meaning {
            interval: self.interval.or_else(|| other.interval.clone()),
            unit: self.unit.or_else(|| other.unit.clone()),
            time_zone: self.time_zone.or_else(|| other.time_zone.clone()),
            quotation: self.quotation.or_else(|| other.quotation.clone()),
        }
    }
}

impl SentPoints {
    /// The points in ascending order of their times.
    ///
    /// - `calendar`: that of times without an offset.
    ///
    /// # Errors
    /// 22007 for a text that is no time, 22023 for an unknown flag and for two points of one time.
    pub(crate) fn timed(self, calendar: &Calendar) -> Result<Timed> {
        let timed = match self {
            SentPoints::Texts(points) => points.timed(calendar)?,
            SentPoints::Cells(cells) => cells.timed(calendar)?,
            SentPoints::Timed(timed) => timed,
        };
        let timed = if timed.times.is_sorted() { timed } else { sorted(&timed) };
        if let Some(twice) = timed.times.windows(2).find(|two| two[0] == two[1]) {
            let time = stamp::text(twice[0], &TimeZone::UTC, Form::Utc);
            return Err(invalid(format!("there are two points of {time}")));
        }
        Ok(timed)
    }
}

impl CellPoints {
    fn timed(self, calendar: &Calendar) -> Result<Timed> {
        let mut times = Vec::with_capacity(self.times.len());
        for (time, (sheet, row)) in self.times.iter().zip(&self.rows) {
            let time = match time {
                CellTime::Clock(clock) => stamp::parse(&clock_text(*clock)?, calendar.zone()),
                CellTime::Text(text) => stamp::parse(text, calendar.zone()),
            };
            times.push(time.map_err(|error| match self.sheets.get(*sheet as usize) {
                Some((sheet, column)) => error.context(workbook::place(sheet, *row, *column)),
                None => error,
            })?);
        }
        Ok(Timed { times, points: self.points })
    }
}

/// A clock time, as a text without an offset.
fn clock_text(clock_ms: i64) -> Result<String> {
    let since = SignedDuration::from_millis(clock_ms);
    let local = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(since);
    local.map(|local| local.to_string()).map_err(Error::bug)
}

/// The flag with a number; without one that of values, or of absent values.
///
/// # Errors
/// 22023 for an unknown flag.
pub(crate) fn flag_of(id: Option<i64>, is_present: bool) -> Result<Flag> {
    match id {
        None if is_present => Ok(Flag::Valid),
        None => Ok(Flag::Missing),
        Some(id) => Flag::from_id(id).ok_or_else(|| {
            let known: Vec<String> = Flag::ALL.iter().map(|flag| format!("{} {}", flag.id(), flag.name())).collect();
            invalid(format!("flag {id} is not known: expected {}", known.join(", ")))
        }),
    }
}

fn sorted(timed: &Timed) -> Timed {
    let mut order: Vec<usize> = (0..timed.times.len()).collect();
    order.sort_by_key(|at| timed.times[*at]);
    let times = order.iter().map(|at| timed.times[*at]).collect();
    Timed { times, points: order.iter().map(|at| timed.points.get(*at)).collect() }
}
