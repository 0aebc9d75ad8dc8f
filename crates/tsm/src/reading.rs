//! Reads points of a series on any raster, in any unit, window by window.

use std::sync::Arc;

use model::Result;
use query::client::SqlClient;
use timeseries::aggregation::Aggregation;
use timeseries::buckets::Buckets;
use timeseries::period::Period;
use timeseries::raster::{Calendar, Raster};
use timeseries::units::Unit;

use crate::definitions::Series;
use crate::sources::{Quotation, Selection, Source, View, WINDOW, exchanged};
use crate::store::{AsOf, Pages, Timed};
use crate::tables::invalid;
use crate::units::Units;

/// Raster of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    /// The raster of the series; points of spontaneous series as they are.
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
    pub(crate) as_of: AsOf,
    pub(crate) quotation: Quotation,
    /// Times that count; all if `None`.
    pub(crate) period: Option<Arc<Period>>,
    /// Present time.
    pub(crate) now: i64,
}

/// A reading of one series.
pub(crate) struct Reading {
    /// Number of the series.
    id: i64,
    source: Source,
    unit: Unit,
    view: View,
    as_of: AsOf,
    plan: Plan,
}

/// A part of the range that was not read, and its raster.
enum Plan {
    Raster {
        raster: Raster,
        intervals: Buckets,
        from: i64,
        to: i64,
    },
    /// One interval.
    Total {
        from: i64,
        to: i64,
    },
    /// Points of a spontaneous series as they are.
    Plain(Pages),
    Done,
}

impl Reading {
    /// # Errors
    /// 42704 for an unknown unit, 22023 for a unit that the series cannot be converted to, 54000 for too many intervals; those of
    /// [`Source::of`].
    pub(crate) async fn new(sql: &mut SqlClient, series: Series, units: &Units, wanted: &Wanted) -> Result<Reading> {
        let id = series.id;
        let series = exchanged(units, &series, wanted.unit.as_deref())?.unwrap_or(series);
        let (mut view, unit) = View::new(&series, units, wanted.unit.as_deref(), wanted.rule)?;
        view.period.clone_from(&wanted.period);
        let plan = plan(&series, &unit, &view, wanted)?;
        let is_own_calendar = wanted.calendar.as_ref().is_none_or(|calendar| *calendar == series.calendar);
        view.is_own = is_own_calendar && matches!(plan, Plan::Raster { raster, .. } if Some(raster) == series.raster);
        let (range, now) = ((wanted.from, wanted.to), wanted.now);
        let selection = Selection { range, as_of: wanted.as_of, quotation: wanted.quotation, now };
        let source = Source::of(sql, units, series, &selection).await?;
        Ok(Reading { id, source, unit, view, as_of: wanted.as_of, plan })
    }

    /// Upper bound of the points of the result, short of those at its ends; `None` if they are not known to be few.
    pub(crate) fn points_max(&self) -> Option<usize> {
        match self.plan {
            Plan::Raster { raster, from, to, .. } => usize::try_from(raster.count_max(from, to)).ok(),
            Plan::Total { .. } => Some(1),
            Plan::Plain(_) | Plan::Done => None,
        }
    }

    /// Number of the series that is read.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// The series, or the formula that converts it.
    pub(crate) fn series(&self) -> &Series {
        self.source.series()
    }

    /// Unit of the result.
    pub(crate) fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Whether the rest may be more than one window.
    pub(crate) fn is_long(&self) -> bool {
        match &self.plan {
            // A window of the shortest intervals is half a minute.
            Plan::Raster { intervals, from, to, .. } => {
                intervals.bounds(*from, *to, WINDOW).is_ok_and(|bounds| bounds.last().is_some_and(|last| last < to))
            }
            Plan::Plain(_) => true,
            Plan::Total { .. } | Plan::Done => false,
        }
    }

    /// The next points, with the starts of their intervals; `None` at the end.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn next(&mut self, sql: &mut SqlClient) -> Result<Option<Timed>> {
        let bounds = match &mut self.plan {
            Plan::Done => return Ok(None),
            Plan::Plain(pages) => {
                let Some(mut timed) = self.source.page(sql, pages, self.as_of).await? else { return Ok(None) };
                self.view.convert_plain(&mut timed.points);
                return Ok(Some(timed));
            }
            Plan::Total { from, to } => vec![*from, *to],
            Plan::Raster { intervals, from, to, .. } => {
                let bounds = intervals.bounds(*from, *to, WINDOW)?;
                *from = bounds.last().copied().unwrap_or(*to);
                bounds
            }
        };
        if !matches!(self.plan, Plan::Raster { from, to, .. } if from < to) {
            self.plan = Plan::Done;
        }
        if bounds.is_empty() {
            return Ok(None);
        }
        let points = self.source.points(sql, &bounds, &self.view, self.as_of).await?;
        let mut times = bounds;
        times.pop();
        Ok(Some(Timed { times, points }))
    }
}

fn plan(series: &Series, unit: &Unit, view: &View, wanted: &Wanted) -> Result<Plan> {
    let Wanted { from, to, .. } = *wanted;
    let calendar = wanted.calendar.as_ref().unwrap_or(&series.calendar);
    let raster = match wanted.output {
        Output::Own => series.raster,
        Output::Raster(raster) => Some(raster),
        Output::Total if from < to => return Ok(Plan::Total { from, to }),
        Output::Total => return Ok(Plan::Done),
    };
    if let Some(raster) = raster {
        raster.check_range(from, to)?;
        return Ok(Plan::Raster { raster, intervals: raster.intervals(calendar)?, from, to });
    }
    if view.period.is_some() {
        return Err(invalid(format!("series \"{}\" is spontaneous: a period needs an interval", series.name)));
    }
    if view.needs_length() {
        let message =
            format!("series \"{}\" is spontaneous: its values in {} need an interval", series.name, unit.name);
        return Err(invalid(message));
    }
    Ok(Plan::Plain(Pages::new(from, to)))
}
