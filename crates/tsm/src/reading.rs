//! Reads points of a series on any raster, in any unit, window by window.

use model::Result;
use query::client::SqlClient;
use timeseries::aggregation::Aggregation;
use timeseries::raster::{Calendar, INTERVALS_MAX, Raster};
use timeseries::units::Unit;

use crate::definitions::Series;
use crate::sources::{Quotation, Selection, Source, View};
use crate::store::{AsOf, Timed};
use crate::tables::invalid;
use crate::units::Units;

/// Intervals that are read at once.
const WINDOW: usize = 1 << 15;

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
    /// Present time.
    pub(crate) now: i64,
}

/// A reading of one series.
pub(crate) struct Reading {
    source: Source,
    unit: Unit,
    view: View,
    as_of: AsOf,
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
    /// 42704 for an unknown unit, 22023 for a unit that the series cannot be converted to, 54000 for too many intervals; those of
    /// [`Source::of`].
    pub(crate) async fn new(sql: &mut SqlClient, series: Series, units: &Units, wanted: &Wanted) -> Result<Reading> {
        let (view, unit) = View::new(&series, units, wanted.unit.as_deref(), wanted.rule)?;
        let plan = plan(&series, &unit, &view, wanted)?;
        let (range, now) = ((wanted.from, wanted.to), wanted.now);
        let selection = Selection { range, as_of: wanted.as_of, quotation: wanted.quotation, now };
        let source = Source::of(sql, units, series, &selection, &[]).await?;
        Ok(Reading { source, unit, view, as_of: wanted.as_of, plan })
    }

    pub(crate) fn series(&self) -> &Series {
        self.source.series()
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
                let mut timed = self.source.plain(sql, (*from, *to), self.as_of).await?;
                self.view.convert_plain(&mut timed.points);
                Ok(Some(timed))
            }
            Plan::Bounds { bounds, at } => {
                let last = (*at + WINDOW).min(bounds.len().saturating_sub(1));
                if *at >= last {
                    return Ok(None);
                }
                let window = &bounds[*at..=last];
                *at = last;
                let points = self.source.points(sql, window, &self.view, self.as_of).await?;
                Ok(Some(Timed { times: window[..window.len() - 1].to_vec(), points }))
            }
        }
    }
}

fn plan(series: &Series, unit: &Unit, view: &View, wanted: &Wanted) -> Result<Plan> {
    let calendar = wanted.calendar.as_ref().unwrap_or(&series.calendar);
    let raster = match wanted.output {
        Output::Own => series.raster,
        Output::Raster(raster) => Some(raster),
        Output::Total if wanted.from < wanted.to => {
            return Ok(Plan::Bounds { bounds: vec![wanted.from, wanted.to], at: 0 });
        }
        Output::Total => return Ok(Plan::Bounds { bounds: Vec::new(), at: 0 }),
    };
    if let Some(raster) = raster {
        let bounds = raster.intervals(calendar)?.bounds(wanted.from, wanted.to, INTERVALS_MAX)?;
        return Ok(Plan::Bounds { bounds, at: 0 });
    }
    if view.needs_length() {
        let message =
            format!("series \"{}\" is spontaneous: its values in {} need an interval", series.name, unit.name);
        return Err(invalid(message));
    }
    Ok(Plan::Plain { from: wanted.from, to: wanted.to, is_done: false })
}
