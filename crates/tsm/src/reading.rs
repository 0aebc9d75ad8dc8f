//! Reads points of a series on any raster, in any unit.

use model::{Error, Result, SqlState};
use query::client::SqlClient;
use timeseries::aggregation::Aggregation;
use timeseries::buckets::Buckets;
use timeseries::conversion::Converter;
use timeseries::points::Points;
use timeseries::raster::{Calendar, INTERVALS_MAX, Raster};
use timeseries::units::{Conversion, Unit};

use crate::definitions::Series;
use crate::store::{self, State, Timed};
use crate::units::Units;

/// Intervals that are read at once.
const WINDOW: usize = 1 << 15;

/// Raster of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    /// That of the series; the points as they are for spontaneous series.
    Own,
    /// Another one.
    Raster(Raster),
    /// One interval: the whole range.
    Total,
}

/// Points that a request wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Range of times, without the end.
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) output: Output,
    /// Unit of the result; that of the series if `None`.
    pub(crate) unit: Option<String>,
    /// Rule that replaces those of the series and the unit.
    pub(crate) rule: Option<Aggregation>,
    /// Calendar of the intervals of the result; that of the series if `None`.
    pub(crate) calendar: Option<Calendar>,
    pub(crate) state: State,
}

/// A reading of one series, window by window.
pub(crate) struct Reading {
    series: Series,
    unit: Unit,
    /// Conversion of the unit before and after values are combined.
    before: Conversion,
    after: Conversion,
    rule: Aggregation,
    state: State,
    plan: Plan,
}

enum Plan {
    /// Intervals of a raster, as bounds; `at` is the first that was not read.
    Bounds { bounds: Vec<i64>, at: usize },
    /// Points of a spontaneous series as they are.
    Plain { from: i64, to: i64, is_done: bool },
}

impl Reading {
    /// # Errors
    /// 42704 for an unknown unit, 22023 for a unit that the series cannot be converted to, 54000 for too many intervals.
    pub(crate) fn new(series: Series, units: &Units, wanted: &Wanted) -> Result<Reading> {
        let own = units.of(&series)?;
        let unit = wanted.unit.as_ref().map_or(Ok(own), |name| units.find(name))?;
        let conversion = Conversion::find(units.known(), own, unit)?;
        // The rule of the series is that of its own quantity, and power that became energy is another.
        let default = match series.aggregation {
            Some(rule) if !conversion.needs_length() => rule,
            _ => unit.aggregation,
        };
        let rule = wanted.rule.unwrap_or(default);
        let calendar = wanted.calendar.as_ref().unwrap_or(&series.calendar);
        let raster = match wanted.output {
            Output::Own => series.raster,
            Output::Raster(raster) => Some(raster),
            Output::Total => None,
        };
        let plan = match (wanted.output, raster) {
            (_, Some(raster)) => {
                let intervals = raster.intervals(calendar)?;
                Plan::Bounds { bounds: intervals.bounds(wanted.from, wanted.to, INTERVALS_MAX)?, at: 0 }
            }
            (Output::Total, None) if wanted.from < wanted.to => {
                Plan::Bounds { bounds: vec![wanted.from, wanted.to], at: 0 }
            }
            (Output::Total, None) => Plan::Bounds { bounds: Vec::new(), at: 0 },
            (_, None) if conversion.needs_length() => {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("series \"{}\" is spontaneous: its values in {} need an interval", series.name, unit.name),
                ));
            }
            (_, None) => Plan::Plain { from: wanted.from, to: wanted.to, is_done: false },
        };
        let (before, after) = conversion.split(rule);
        let (unit, state) = (unit.clone(), wanted.state);
        Ok(Reading { series, unit, before, after, rule, state, plan })
    }

    pub(crate) fn series(&self) -> &Series {
        &self.series
    }

    /// Unit of the result.
    pub(crate) fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Whether the next window is not the last.
    pub(crate) fn is_long(&self) -> bool {
        matches!(&self.plan, Plan::Bounds { bounds, at } if bounds.len() > at + WINDOW + 1)
    }

    /// The next points, with the starts of their intervals; `None` at the end.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn next(&mut self, sql: &mut SqlClient) -> Result<Option<Timed>> {
        match &mut self.plan {
            Plan::Plain { is_done: true, .. } => Ok(None),
            Plan::Plain { from, to, is_done } => {
                *is_done = true;
                let mut timed = store::read(sql, &self.series, *from, *to, self.state).await?;
                self.before.apply(&mut timed.points, &[], &[]);
                self.after.apply(&mut timed.points, &[], &[]);
                Ok(Some(timed))
            }
            Plan::Bounds { bounds, at } => {
                let last = (*at + WINDOW).min(bounds.len().saturating_sub(1));
                if *at >= last {
                    return Ok(None);
                }
                let window = bounds[*at..=last].to_vec();
                *at = last;
                let points = self.on(sql, &window).await?;
                let mut times = window;
                times.pop();
                Ok(Some(Timed { times, points }))
            }
        }
    }

    /// The points on a raster of at least one interval.
    async fn on(&self, sql: &mut SqlClient, bounds: &[i64]) -> Result<Points> {
        let (from, to) = (bounds[0], bounds[bounds.len() - 1]);
        match self.series.raster {
            Some(raster) => {
                let intervals = raster.intervals(&self.series.calendar)?;
                let timed = store::read(sql, &self.series, intervals.start(from)?, to, self.state).await?;
                self.cyclic(&intervals, timed, bounds)
            }
            None => {
                let mut timed = store::last_before(sql, &self.series, from.saturating_add(1), self.state).await?;
                let rest = store::read(sql, &self.series, from.saturating_add(1), to, self.state).await?;
                timed.times.extend(rest.times);
                for (value, flag) in rest.points.iter() {
                    timed.points.push(value, flag);
                }
                Ok(self.steps(timed, bounds))
            }
        }
    }

    /// Points of intervals on other bounds.
    fn cyclic(&self, intervals: &Buckets, timed: Timed, bounds: &[i64]) -> Result<Points> {
        let Timed { times, mut points } = timed;
        let ends = intervals.ends(&times)?;
        let misplaced = || Error::bug(format!("series {} has a value between two intervals", self.series.id));
        let ends: Vec<i64> = ends.into_iter().map(|end| end.ok_or_else(misplaced)).collect::<Result<_>>()?;
        self.before.apply(&mut points, &times, &ends);
        if self.is_same(&times, &ends, bounds) {
            let mut points = filled(&times, &points, bounds);
            self.after.apply(&mut points, &[], &[]);
            return Ok(points);
        }
        let mut converter = Converter::new(bounds, self.rule);
        for (at, (start, end)) in times.iter().zip(&ends).enumerate() {
            let (value, flag) = points.get(at);
            converter.push(*start, *end, value, flag);
        }
        let mut points = converter.finish();
        self.after.apply(&mut points, &[], &[]);
        Ok(points)
    }

    /// Whether each point has an interval of its own in the result.
    fn is_same(&self, times: &[i64], ends: &[i64], bounds: &[i64]) -> bool {
        let mut at = 0;
        self.rule != Aggregation::Count
            && times.iter().zip(ends).all(|(start, end)| {
                at = place(bounds, at, *start);
                bounds.get(at) == Some(start) && bounds.get(at + 1) == Some(end)
            })
    }

    /// Points that hold until the next one, on bounds.
    fn steps(&self, timed: Timed, bounds: &[i64]) -> Points {
        let Timed { times, mut points } = timed;
        let mut converter = Converter::new(bounds, self.rule);
        if self.before.needs_length() {
            // A level that holds becomes the quantity of each part of an interval.
            let (starts, ends, mut parts) = parts(&times, &points, bounds);
            self.before.apply(&mut parts, &starts, &ends);
            for (at, (start, end)) in starts.iter().zip(&ends).enumerate() {
                let (value, flag) = parts.get(at);
                converter.push(*start, *end, value, flag);
            }
        } else {
            self.before.apply(&mut points, &[], &[]);
            for (at, time) in times.iter().enumerate() {
                let (value, flag) = points.get(at);
                converter.push_step(*time, times.get(at + 1).copied(), value, flag);
            }
        }
        let mut points = converter.finish();
        self.after.apply(&mut points, &[], &[]);
        points
    }
}

/// Points that hold until the next one, within bounds and split by them: starts, ends and points.
fn parts(times: &[i64], points: &Points, bounds: &[i64]) -> (Vec<i64>, Vec<i64>, Points) {
    let (mut starts, mut ends, mut parts) = (Vec::new(), Vec::new(), Points::default());
    let (from, to) = (bounds[0], bounds[bounds.len() - 1]);
    let mut at = 0;
    for (row, time) in times.iter().enumerate() {
        let (value, flag) = points.get(row);
        let end = times.get(row + 1).copied().unwrap_or(to).min(to);
        let mut start = (*time).max(from);
        while start < end {
            at = place(bounds, at, start + 1);
            let next = end.min(bounds.get(at).copied().unwrap_or(to));
            starts.push(start);
            ends.push(next);
            parts.push(value, flag);
            start = next;
        }
    }
    (starts, ends, parts)
}

/// Place of the first bound that is not before a time, from a place on.
fn place(bounds: &[i64], mut at: usize, time: i64) -> usize {
    while bounds.get(at).is_some_and(|bound| *bound < time) {
        at += 1;
    }
    at
}

/// Points in the places of their intervals; the others are *Missing*.
fn filled(times: &[i64], points: &Points, bounds: &[i64]) -> Points {
    if times.len() + 1 == bounds.len() {
        return points.clone();
    }
    let mut filled = Points::missing(bounds.len() - 1);
    let mut at = 0;
    for (row, time) in times.iter().enumerate() {
        at = place(bounds, at, *time);
        let (value, flag) = points.get(row);
        filled.set(at, value, flag);
    }
    filled
}
