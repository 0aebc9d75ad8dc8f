//! Reads points of a series on any raster, in any unit, window by window.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Result;
use query::client::SqlClient;
use timeseries::aggregation::Aggregation;
use timeseries::buckets::Buckets;
use timeseries::period::Period;
use timeseries::raster::{Calendar, Raster};
use timeseries::units::Unit;

use crate::definitions::Series;
use crate::sources::{Needed, Quotation, Selection, Source, View, WINDOW, exchanged};
use crate::store::{self, AsOf, PAGE_ROWS, Pages, Stored, TOGETHER_ROWS, Timed};
use crate::tables::{invalid, of_series};
use crate::units::Units;

/// A state is settled so long after its time: a commit has its time before it is durable and seen, and front ends have clocks of
/// their own.
const SETTLED_NS: i64 = 60_000_000_000;

/// Begins a transaction whose statements all see one state.
pub(crate) const READ_ONE_STATE: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

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

impl Wanted {
    /// The present points of a series on its own raster and in its unit.
    pub(crate) fn present(from: i64, to: i64, now: i64) -> Wanted {
        Wanted {
            from,
            to: to.max(from),
            output: Output::Own,
            unit: None,
            rule: None,
            calendar: None,
            as_of: AsOf::Now,
            quotation: Quotation::Default,
            period: None,
            now,
        }
    }
}

/// A reading of one series.
pub(crate) struct Reading {
    /// Number of the series.
    id: i64,
    source: Source,
    unit: Unit,
    view: View,
    as_of: AsOf,
    /// Whether the state is an earlier one, which no commit changes any more.
    is_earlier: bool,
    plan: Plan,
    /// The next window, if it was started with those of other readings.
    ahead: Option<Window>,
    /// The series and the request, if the reading depends on the versions that there were.
    origin: Option<Box<(Series, Wanted)>>,
}

/// A window of intervals.
struct Window {
    /// Readings of the same intervals share them.
    bounds: Arc<Vec<i64>>,
    /// The stored points that the intervals need, if they were read.
    stored: Option<Stored>,
}

/// The bounds of a window, with what they depend on: the intervals and their range.
type Known = (Buckets, (i64, i64), Arc<Vec<i64>>);

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
        let (id, asked) = (series.id, series.clone());
        let series = exchanged(units, &series, wanted.unit.as_deref())?.unwrap_or(series);
        let (mut view, unit) = View::new(&series, units, wanted.unit.as_deref(), wanted.rule)?;
        view.period.clone_from(&wanted.period);
        let plan = plan(&series, &unit, &view, wanted)?;
        let is_own_calendar = wanted.calendar.as_ref().is_none_or(|calendar| *calendar == series.calendar);
        view.is_own = is_own_calendar && matches!(plan, Plan::Raster { raster, .. } if Some(raster) == series.raster);
        let (range, now) = ((wanted.from, wanted.to), wanted.now);
        let selection = Selection { range, as_of: wanted.as_of, quotation: wanted.quotation, now };
        let source = Source::of(sql, units, series, &selection).await?;
        let is_earlier = match wanted.as_of {
            AsOf::Now => false,
            AsOf::Time(time) | AsOf::ChangedAt(time) => time < now.saturating_sub(SETTLED_NS),
        };
        let origin = source.has_quotation().then(|| Box::new((asked, wanted.clone())));
        Ok(Reading { id, source, unit, view, as_of: wanted.as_of, is_earlier, plan, ahead: None, origin })
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
            Plan::Raster { raster, intervals, from, to } => {
                raster.count_max(*from, *to).saturating_add(2) > WINDOW as i64
                    && intervals
                        .bounds(*from, *to, WINDOW)
                        .is_ok_and(|bounds| bounds.last().is_some_and(|last| last < to))
            }
            Plan::Plain(_) => true,
            Plan::Total { .. } | Plan::Done => false,
        }
    }

    /// Begins a transaction for all statements of the reading, if it needs one.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn begin(&mut self, sql: &mut SqlClient, units: &Units) -> Result<()> {
        if self.needs_transaction() {
            sql.run(READ_ONE_STATE, &[]).await?;
            self.resolve(sql, units).await?;
        }
        Ok(())
    }

    /// Finds the versions again, in the transaction that has begun. The reading has not started.
    ///
    /// # Errors
    /// Those of [`Reading::new`].
    pub(crate) async fn resolve(&mut self, sql: &mut SqlClient, units: &Units) -> Result<()> {
        if let Some(origin) = self.origin.take() {
            let (series, wanted) = *origin;
            *self = Reading::new(sql, series, units, &wanted).await?;
        }
        Ok(())
    }

    /// Whether the state is an earlier one. All statements see it alike without a transaction, and a transaction would be aborted
    /// by the error of a time before the history of a table.
    pub(crate) fn is_earlier(&self) -> bool {
        self.is_earlier
    }

    /// Whether the points must be read in a transaction to be those of one state.
    pub(crate) fn needs_transaction(&self) -> bool {
        !self.is_earlier && !self.is_short()
    }

    /// Whether one statement reads all points, which takes some milliseconds.
    pub(crate) fn is_short(&self) -> bool {
        self.is_one_page().unwrap_or(false)
    }

    /// Whether one statement reads all points.
    fn is_one_page(&self) -> Result<bool> {
        let Source::Stored { series, .. } = &self.source else { return Ok(false) };
        let (from, to) = match &self.plan {
            Plan::Done => return Ok(true),
            Plan::Plain(_) => return Ok(false),
            Plan::Total { from, to } => (*from, *to),
            Plan::Raster { from, to, .. } if from >= to => return Ok(true),
            // Intervals at the ends of the range are read as a whole.
            Plan::Raster { intervals, from, to, .. } => {
                (intervals.start(*from)?, intervals.next(intervals.start(*to - 1)?)?)
            }
        };
        // Each version has a point of an interval.
        let Some(raster) = series.raster.filter(|_| !series.quotation) else { return Ok(false) };
        let points_max = raster.count_max(from, to).saturating_add(2);
        Ok(!self.is_long() && usize::try_from(points_max).is_ok_and(|points| points < PAGE_ROWS))
    }

    /// The next points, with the starts of their intervals; `None` at the end.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn next(&mut self, sql: &mut SqlClient) -> Result<Option<Timed>> {
        if let Plan::Plain(pages) = &mut self.plan {
            let Some(mut timed) = self.source.page(sql, pages, self.as_of).await? else { return Ok(None) };
            self.view.convert_plain(&mut timed.points);
            return Ok(Some(timed));
        }
        let window = match self.ahead.take() {
            Some(window) => Some(window),
            None => self.next_bounds()?.map(|bounds| Window { bounds: Arc::new(bounds), stored: None }),
        };
        let Some(Window { bounds, stored }) = window else { return Ok(None) };
        // The columns store returns rows by series and time, which SQL does not promise.
        let points = match stored.and_then(|stored| stored.timed()) {
            Some(timed) => self.source.points_of(timed, &bounds, &self.view)?,
            None => self.source.points(sql, &bounds, &self.view, self.as_of).await?,
        };
        let mut bounds = Arc::unwrap_or_clone(bounds);
        bounds.pop();
        Ok(Some(Timed { times: bounds, points }))
    }

    /// The points of the only window as they are stored, if they were read in advance and are the result. None remain then.
    pub(crate) fn take_stored(&mut self) -> Option<Stored> {
        let Window { bounds, stored } = self.ahead.as_ref()?;
        let (_, starts) = bounds.split_last()?;
        let is_result = self.view.is_as_stored() && stored.as_ref()?.is_complete(starts);
        if is_result { self.ahead.take()?.stored } else { None }
    }

    /// The stored points that the only window needs, and their table, if they can be read with those of other series. The window is
    /// kept for [`Reading::next`].
    ///
    /// - `known`: bounds of another reading.
    fn needed(&mut self, known: &mut Option<Known>) -> Result<Option<(&'static str, Needed)>> {
        if self.as_of != AsOf::Now || self.is_long() {
            return Ok(None);
        }
        let window = match self.ahead.take() {
            Some(window) => window,
            None => match self.only_bounds(known)? {
                Some(bounds) => Window { bounds, stored: None },
                None => return Ok(None),
            },
        };
        let needed = self.source.needed(&window.bounds);
        self.ahead = Some(window);
        needed
    }

    /// Bounds of the only window: those that are known, if they are the same.
    fn only_bounds(&mut self, known: &mut Option<Known>) -> Result<Option<Arc<Vec<i64>>>> {
        let Plan::Raster { intervals, from, to, .. } = &self.plan else {
            return Ok(self.next_bounds()?.map(Arc::new));
        };
        let range = (*from, *to);
        let is_same = |other: &&mut Known| other.0 == *intervals && other.1 == range;
        if let Some((_, _, bounds)) = known.as_mut().filter(is_same) {
            self.plan = Plan::Done;
            return Ok(Some(Arc::clone(bounds)));
        }
        let intervals = intervals.clone();
        let bounds = self.next_bounds()?.map(Arc::new);
        *known = bounds.clone().map(|bounds| (intervals, range, bounds));
        Ok(bounds)
    }

    /// Bounds of the next window of intervals; `None` at the end, and without intervals.
    fn next_bounds(&mut self) -> Result<Option<Vec<i64>>> {
        let bounds = match &mut self.plan {
            Plan::Done | Plan::Plain(_) => return Ok(None),
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
        Ok((!bounds.is_empty()).then_some(bounds))
    }
}

/// Reads the points of the only windows of some readings in advance, by a statement for each of their tables and
/// ranges: those of stored series at present. Returns the number of readings after which to go on, at least one.
///
/// - `readings`: readings that have not started, at most [`store::TOGETHER_MAX`] of them.
///
/// # Errors
/// Those of SQL.
///
/// # Cost
/// Memory of [`TOGETHER_ROWS`] points.
pub(crate) async fn read_ahead(sql: &mut SqlClient, readings: &mut [&mut Reading]) -> Result<usize> {
    // Series of other ranges, because of other rasters, would make all of them read too much.
    let mut together: BTreeMap<_, Vec<(usize, i64)>> = BTreeMap::new();
    let (mut seen, mut rows, mut known) = (0, 0, None);
    for (at, reading) in readings.iter_mut().enumerate() {
        let needed = reading.needed(&mut known).map_err(|error| of_series(&reading.series().name, error))?;
        rows += needed.as_ref().map_or(0, |(_, needed)| needed.rows);
        if at > 0 && rows >= TOGETHER_ROWS {
            break;
        }
        seen = at + 1;
        if let Some((table, needed)) = needed {
            together.entry((table, needed.from, needed.to)).or_default().push((at, needed.series));
        }
    }
    for ((table, from, to), page) in together {
        // One series is as fast by a statement of its own, which has its order.
        if page.len() == 1 {
            continue;
        }
        for (at, stored) in page_of(sql, table, (from, to), &page).await? {
            if let Some(window) = &mut readings[at].ahead {
                window.stored = Some(stored);
            }
        }
    }
    Ok(seen)
}

/// Points of a range that readings (by their places) need of series, less than [`TOGETHER_ROWS`]; none if there are more than was
/// expected. A series that is needed twice is read by itself the second time.
async fn page_of(
    sql: &mut SqlClient,
    table: &str,
    range: (i64, i64),
    page: &[(usize, i64)],
) -> Result<Vec<(usize, Stored)>> {
    let ids: Vec<i64> = page.iter().map(|(_, series)| *series).collect();
    let Some(mut found) = store::read_together(sql, table, &ids, range).await? else { return Ok(Vec::new()) };
    Ok(page.iter().filter_map(|(at, series)| Some((*at, found.remove(series)?))).collect())
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
