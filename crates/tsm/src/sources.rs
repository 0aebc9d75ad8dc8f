//! Sources of points: stored series, and formulas over other sources.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use model::{Error, Result, SqlState};
use query::client::SqlClient;
use timeseries::aggregation::Aggregation;
use timeseries::buckets::Buckets;
use timeseries::conversion::Converter;
use timeseries::formula::{Formula, Reference};
use timeseries::period::Period;
use timeseries::points::Points;
use timeseries::units::{Conversion, Unit};

use crate::definitions::{self, Behaviour, Series};
use crate::store::{self, AsOf, Pages, State, TOGETHER_ROWS, Timed, Version};
use crate::tables::{ALWAYS, invalid};
use crate::units::Units;

/// Formulas that refer to each other.
const DEPTH_MAX: usize = 32;
/// Series that a formula is computed from, counted as often as they are read: formulas of formulas multiply.
const SOURCES_MAX: usize = 1_000;
/// Intervals by which `Shift` moves.
const SHIFT_MAX: i64 = 100_000;
/// Intervals that are read and computed at once.
pub(crate) const WINDOW: usize = 1 << 15;

/// Conversion of the values of a series to the unit and raster of a result.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Conversion of the unit before and after values are combined.
    before: Conversion,
    after: Conversion,
    pub(crate) rule: Aggregation,
    /// Times that count; all if `None`.
    pub(crate) period: Option<Arc<Period>>,
    /// Whether the result is known to be on the raster of the series.
    pub(crate) is_own: bool,
}

impl View {
    /// - `unit`, `rule`: those of the series or its unit if `None`.
    ///
    /// Returns the unit of the result too.
    ///
    /// # Errors
    /// 42704 for an unknown unit, 22023 for one that the series cannot be converted to.
    pub(crate) fn new(
        series: &Series,
        units: &Units,
        unit: Option<&str>,
        rule: Option<Aggregation>,
    ) -> Result<(View, Unit)> {
        let own = units.of(series)?;
        let unit = unit.map_or(Ok(own), |name| units.find(name))?;
        let conversion = units.conversion(own, unit)?;
        // The rule of the series is that of its own quantity, and power that became energy is another.
        let default = match series.aggregation {
            Some(rule) if !conversion.needs_length() => rule,
            _ => unit.aggregation,
        };
        let rule = rule.unwrap_or(default);
        let (before, after) = conversion.split(rule);
        Ok((View { before, after, rule, period: None, is_own: false }, unit.clone()))
    }

    /// Whether values without an interval can be converted.
    pub(crate) fn needs_length(&self) -> bool {
        self.before.needs_length()
    }

    /// Converts the unit of points that are not combined.
    pub(crate) fn convert_plain(&self, points: &mut Points) {
        self.before.apply(points, &[], &[]);
        self.after.apply(points, &[], &[]);
    }

    /// Whether the result has the values of a series as they are stored, if it has one for each interval.
    pub(crate) fn is_as_stored(&self) -> bool {
        self.is_plain() && self.before.is_identity() && self.after.is_identity()
    }

    fn is_plain(&self) -> bool {
        self.is_own && self.period.is_none() && self.rule != Aggregation::Count
    }

    /// Points of intervals, which need not be contiguous, on bounds.
    fn on(&self, (starts, ends): (&[i64], &[i64]), mut points: Points, bounds: &[i64]) -> Result<Points> {
        if self.period.is_some() || !self.is_same(starts, ends, bounds) {
            let mut converter = self.converter(bounds)?;
            self.push(&mut converter, (starts, ends), points);
            return Ok(self.finish(converter));
        }
        self.before.apply(&mut points, starts, ends);
        let mut points = filled(starts, points, bounds);
        self.after.apply(&mut points, &[], &[]);
        Ok(points)
    }

    /// The points of a series on all of its own intervals in the bounds, if they are that.
    fn own(&self, timed: Timed, bounds: &[i64]) -> std::result::Result<Points, Timed> {
        let (starts, ends) = (&bounds[..bounds.len() - 1], &bounds[1..]);
        if !self.is_plain() || timed.times != starts {
            return Err(timed);
        }
        let mut points = timed.points;
        self.before.apply(&mut points, starts, ends);
        self.after.apply(&mut points, &[], &[]);
        Ok(points)
    }

    /// A conversion to intervals.
    fn converter<'a>(&self, bounds: &'a [i64]) -> Result<Converter<'a>> {
        Ok(match &self.period {
            None => Converter::new(bounds, self.rule),
            Some(period) => {
                let parts = period.ranges(bounds[0], bounds[bounds.len() - 1])?;
                Converter::within(bounds, self.rule, parts)
            }
        })
    }

    /// Whether each point has an interval of its own in the result.
    fn is_same(&self, starts: &[i64], ends: &[i64], bounds: &[i64]) -> bool {
        let mut at = 0;
        self.rule != Aggregation::Count
            && starts.iter().zip(ends).all(|(start, end)| {
                at = place(bounds, at, *start);
                bounds.get(at) == Some(start) && bounds.get(at + 1) == Some(end)
            })
    }

    /// Adds points of intervals to a conversion.
    fn push(&self, converter: &mut Converter<'_>, (starts, ends): (&[i64], &[i64]), mut points: Points) {
        self.before.apply(&mut points, starts, ends);
        for (at, (start, end)) in starts.iter().zip(ends).enumerate() {
            let (value, flag) = points.get(at);
            converter.push(*start, *end, value, flag);
        }
    }

    /// Adds points that hold until the next one, the last until `next`.
    fn push_steps(
        &self,
        converter: &mut Converter<'_>,
        times: &[i64],
        mut points: Points,
        next: Option<i64>,
        bounds: &[i64],
    ) {
        if self.before.needs_length() {
            // A level that holds becomes the quantity of each part of an interval.
            let (starts, ends, parts) = parts(times, &points, next, bounds);
            return self.push(converter, (&starts, &ends), parts);
        }
        self.before.apply(&mut points, &[], &[]);
        for (at, time) in times.iter().enumerate() {
            let (value, flag) = points.get(at);
            converter.push_step(*time, times.get(at + 1).copied().or(next), value, flag);
        }
    }

    fn finish(&self, converter: Converter<'_>) -> Points {
        let mut points = converter.finish();
        self.after.apply(&mut points, &[], &[]);
        points
    }
}

/// A source of points.
pub(crate) enum Source {
    Stored { series: Series, version: Version },
    Virtual { series: Series, slices: Vec<Slice> },
}

/// A formula, from the time on from which it is valid until the next one.
pub(crate) struct Slice {
    valid_from: i64,
    formula: Formula,
    inputs: Vec<Input>,
}

/// Points of a reference.
struct Input {
    source: Box<Source>,
    view: View,
    /// Intervals by which the points are later.
    shift: i64,
}

/// Points of a stored series.
pub(crate) struct Needed {
    /// Number of the series.
    pub(crate) series: i64,
    /// Range of times, without the end.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Upper bound of their number, if each starts an interval.
    pub(crate) rows: usize,
}

/// Versions that a request names.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Quotation {
    /// The versions of the series' default behaviour.
    #[default]
    Default,
    /// One version.
    Exact(i64),
    /// The version before, by so many.
    ExactBefore(i64, usize),
    /// For each time the newest version up to this one.
    UpTo(i64),
}

/// The part of the sources that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    /// Range of times.
    pub(crate) range: (i64, i64),
    pub(crate) as_of: AsOf,
    pub(crate) quotation: Quotation,
    pub(crate) now: i64,
}

impl Source {
    pub(crate) fn series(&self) -> &Series {
        match self {
            Source::Stored { series, .. } | Source::Virtual { series, .. } => series,
        }
    }

    /// Whether it has a series with several versions.
    pub(crate) fn has_quotation(&self) -> bool {
        match self {
            Source::Stored { series, .. } => series.quotation,
            Source::Virtual { slices, .. } => {
                slices.iter().flat_map(|slice| &slice.inputs).any(|input| input.source.has_quotation())
            }
        }
    }

    /// The source of a series, with those of its formulas.
    ///
    /// # Errors
    /// 42704 for a reference that does not exist; 22023 for formulas that refer to each other in a circle, for units that cannot
    /// be converted, and for an earlier state of a series without audit; 54000 for too many series.
    pub(crate) async fn of(
        sql: &mut SqlClient,
        units: &Units,
        series: Series,
        selection: &Selection,
    ) -> Result<Source> {
        Source::below(sql, units, series, selection, (&[], &mut 0)).await
    }

    /// - `path`: series whose formulas lead to this one.
    /// - `count`: sources so far.
    fn below<'a>(
        sql: &'a mut SqlClient,
        units: &'a Units,
        series: Series,
        selection: &'a Selection,
        (path, count): (&'a [i64], &'a mut usize),
    ) -> BoxFuture<'a, Result<Source>> {
        async move {
            *count += 1;
            if *count > SOURCES_MAX {
                let message = format!("the formula is computed from more than {SOURCES_MAX} series");
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            if !series.is_virtual() {
                if selection.as_of != AsOf::Now && !series.audit {
                    let message = format!("series \"{}\" has no audit: earlier states were not kept", series.name);
                    return Err(invalid(message));
                }
                let version = version(sql, &series, selection).await?;
                return Ok(Source::Stored { series, version });
            }
            if path.contains(&series.id) && series.id != 0 {
                return Err(invalid(format!("the formula of series \"{}\" refers to itself", series.name)));
            }
            if path.len() >= DEPTH_MAX {
                return Err(invalid(format!("formulas refer to each other more than {DEPTH_MAX} deep")));
            }
            let path: Vec<i64> = path.iter().copied().chain([series.id]).collect();
            let mut slices = Vec::new();
            for (valid_from, text) in &series.formulas {
                let formula: Formula = text.parse()?;
                let mut inputs = Vec::new();
                for reference in formula.references() {
                    inputs.push(input(sql, units, reference, selection, (&path, count)).await?);
                }
                slices.push(Slice { valid_from: *valid_from, formula, inputs });
            }
            Ok(Source::Virtual { series, slices })
        }
        .boxed()
    }

    /// The points on bounds of at least one interval.
    ///
    /// # Errors
    /// Those of SQL; 54000 for too many intervals.
    pub(crate) fn points<'a>(
        &'a self,
        sql: &'a mut SqlClient,
        bounds: &'a [i64],
        view: &'a View,
        as_of: AsOf,
    ) -> BoxFuture<'a, Result<Points>> {
        async move {
            match self {
                Source::Stored { series, version } => {
                    stored(sql, series, bounds, view, State { as_of, version: *version }).await
                }
                Source::Virtual { series, slices } => computed(sql, series, slices, bounds, view, as_of).await,
            }
        }
        .boxed()
    }

    /// The stored points that bounds need, and their table, if they can be read with those of other series: those of the present of
    /// a series with an interval, if they are few.
    ///
    /// # Errors
    /// 22008 for times that have no interval.
    pub(crate) fn needed(&self, bounds: &[i64]) -> Result<Option<(&'static str, Needed)>> {
        let Source::Stored { series, .. } = self else { return Ok(None) };
        let Some(raster) = series.raster.filter(|_| !series.quotation) else { return Ok(None) };
        let (from, to) = (raster.intervals(&series.calendar)?.start(bounds[0])?, bounds[bounds.len() - 1]);
        let rows = usize::try_from(raster.count_max(from, to)).unwrap_or(usize::MAX);
        Ok((rows < TOGETHER_ROWS).then(|| (series.table(), Needed { series: series.id, from, to, rows })))
    }

    /// Points that were read, of what [`Source::needed`] returned, on bounds.
    ///
    /// # Errors
    /// 22023 for a time that starts no interval.
    pub(crate) fn points_of(&self, timed: Timed, bounds: &[i64], view: &View) -> Result<Points> {
        let series = self.series();
        let raster = series.raster.ok_or_else(|| Error::bug("points without an interval"))?;
        on_bounds(series, &raster.intervals(&series.calendar)?, timed, bounds, view)
    }

    /// The next stored points as they are; none for a formula.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn page(&self, sql: &mut SqlClient, pages: &mut Pages, as_of: AsOf) -> Result<Option<Timed>> {
        match self {
            Source::Stored { series, version } => pages.next(sql, series, State { as_of, version: *version }).await,
            Source::Virtual { .. } => Ok(None),
        }
    }
}

/// The version of a series that a selection means.
async fn version(sql: &mut SqlClient, series: &Series, selection: &Selection) -> Result<Version> {
    if !series.quotation {
        return Ok(Version::Newest);
    }
    Ok(match (selection.quotation, series.behaviour.unwrap_or_default()) {
        (Quotation::Exact(version), _) => Version::Exact(version),
        (Quotation::UpTo(version), _) => Version::UpTo(version),
        (Quotation::ExactBefore(version, count), _) => {
            let mut versions = store::versions(sql, series, selection.as_of).await?;
            versions.retain(|own| *own < version);
            let at = versions.len().checked_sub(count);
            at.map_or(Version::None, |at| Version::Exact(versions[at]))
        }
        (Quotation::Default, Behaviour::EachNewest) => Version::Newest,
        (Quotation::Default, Behaviour::UpToNow) => Version::UpTo(selection.now),
        (Quotation::Default, Behaviour::OneVersion) => {
            let newest = store::newest_version(sql, series, selection.range, selection.as_of).await?;
            newest.map_or(Version::None, Version::Exact)
        }
    })
}

/// The series whose values are those of a series in another unit, if an exchange series converts them: a formula on its raster.
///
/// # Errors
/// 42704 for an unknown unit; 22023 for a spontaneous series, and units with different bases.
pub(crate) fn exchanged(units: &Units, series: &Series, unit: Option<&str>) -> Result<Option<Series>> {
    let own = units.of(series)?;
    let Some(unit) = unit.map(|name| units.find(name)).transpose()?.filter(|unit| unit.name != own.name) else {
        return Ok(None);
    };
    let (from, to) = (units.rate(own), units.rate(unit));
    if (from, to) == (None, None) {
        return Ok(None);
    }
    let (base, id) = (&own.base, series.id);
    if *base != unit.base {
        return Err(invalid(format!("\"{}\" cannot be converted to \"{}\"", own.name, unit.name))
            .with_detail(format!("The first has the base {base}, the second {}.", unit.base)));
    }
    if series.raster.is_none() {
        let message = format!("series \"{}\" is spontaneous: an exchange series needs an interval", series.name);
        return Err(invalid(message));
    }
    let mut text = from.map_or_else(|| format!("[{id}, 0, {base}]"), |rate| format!("[{id}] * [{rate}]"));
    if let Some(rate) = to {
        text.push_str(&format!(" / [{rate}]"));
    }
    // A result that has no exchange series is in the base unit first.
    let unit = if to.is_some() { unit.name.clone() } else { base.clone() };
    Ok(Some(Series { id: 0, unit, aggregation: None, formulas: vec![(ALWAYS, text)], ..series.clone() }))
}

async fn input(
    sql: &mut SqlClient,
    units: &Units,
    reference: &Reference,
    selection: &Selection,
    (path, count): (&[i64], &mut usize),
) -> Result<Input> {
    let id = reference.series.parse().map_err(|_| Error::bug("a stored formula with a name"))?;
    let series = definitions::find_by_id(sql, id).await?;
    let series = exchanged(units, &series, reference.unit.as_deref())?.unwrap_or(series);
    let (view, _) = View::new(&series, units, reference.unit.as_deref(), reference.aggregation)?;
    let source = Source::below(sql, units, series, selection, (path, count)).await?;
    Ok(Input { source: Box::new(source), view, shift: reference.shift })
}

/// Formulas whose references are numbers, from formulas whose references are names or numbers.
///
/// # Errors
/// 42601 and others for a text that is no formula; 42704 for a series or unit that does not exist; 22023 for units that cannot be
/// converted, and for a formula that refers to its own series.
pub(crate) async fn resolved(sql: &mut SqlClient, units: &Units, series: &Series) -> Result<Vec<(i64, String)>> {
    let mut formulas = Vec::new();
    for (valid_from, text) in &series.formulas {
        let formula: Formula = text.parse()?;
        let mut numbers = Vec::new();
        for reference in formula.references() {
            let found = definitions::find(sql, &series.repository, &reference.series).await?;
            let own = exchanged(units, &found, reference.unit.as_deref());
            own.and_then(|own| {
                View::new(own.as_ref().unwrap_or(&found), units, reference.unit.as_deref(), reference.aggregation)
            })
            .map_err(|error| error.context(format!("reference to series \"{}\"", found.name)))?;
            if reference.shift.abs() > SHIFT_MAX {
                return Err(invalid(format!("Shift moves by more than {SHIFT_MAX} intervals")));
            }
            numbers.push(found.id.to_string());
        }
        let number = |reference: &Reference| {
            let at = formula.references().iter().position(|own| own == reference);
            at.map(|at| numbers[at].clone()).ok_or_else(|| Error::bug("a reference that the formula does not have"))
        };
        formulas.push((*valid_from, formula.renamed(number)?));
    }
    let selection = Selection { range: (0, 0), as_of: AsOf::Now, quotation: Quotation::UpTo(0), now: 0 };
    Source::of(sql, units, Series { formulas: formulas.clone(), ..series.clone() }, &selection).await?;
    Ok(formulas)
}

/// Formulas whose references are names, for people.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn named(sql: &mut SqlClient, series: &mut Series) -> Result<()> {
    for (_, text) in &mut series.formulas {
        let formula: Formula = text.parse()?;
        let mut names = Vec::new();
        for reference in formula.references() {
            let id = reference.series.parse().map_err(|_| Error::bug("a stored formula with a name"))?;
            names.push(definitions::find_by_id(sql, id).await?.name);
        }
        *text = formula.renamed(|reference| {
            let at = formula.references().iter().position(|own| own == reference);
            at.map(|at| names[at].clone()).ok_or_else(|| Error::bug("a reference that the formula does not have"))
        })?;
    }
    Ok(())
}

async fn stored(sql: &mut SqlClient, series: &Series, bounds: &[i64], view: &View, state: State) -> Result<Points> {
    let (from, to) = (bounds[0], bounds[bounds.len() - 1]);
    let Some(raster) = series.raster else { return stored_steps(sql, series, bounds, view, state).await };
    let intervals = raster.intervals(&series.calendar)?;
    let mut pages = Pages::new(intervals.start(from)?, to);
    let first = pages.next(sql, series, state).await?.unwrap_or_default();
    if pages.is_done() {
        return on_bounds(series, &intervals, first, bounds, view);
    }
    // More than a page of points is never on the raster of the result: windows are smaller.
    let ends = ends_of(series, &intervals, &first.times)?;
    let mut converter = view.converter(bounds)?;
    view.push(&mut converter, (&first.times, &ends), first.points);
    while let Some(Timed { times, points }) = pages.next(sql, series, state).await? {
        view.push(&mut converter, (&times, &ends_of(series, &intervals, &times)?), points);
    }
    Ok(view.finish(converter))
}

/// All points of a series with an interval that bounds need, on these.
fn on_bounds(series: &Series, intervals: &Buckets, timed: Timed, bounds: &[i64], view: &View) -> Result<Points> {
    let timed = match view.own(timed, bounds) {
        Ok(points) => return Ok(points),
        Err(others) => others,
    };
    let ends = ends_of(series, intervals, &timed.times)?;
    view.on((&timed.times, &ends), timed.points, bounds)
}

/// Ends of the intervals of a series' points.
fn ends_of(series: &Series, intervals: &Buckets, times: &[i64]) -> Result<Vec<i64>> {
    let misplaced = || {
        let message = format!("series \"{}\" has a value at a time that starts none of its intervals", series.name);
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint("SQL wrote it: delete it by SQL")
    };
    intervals.ends(times)?.into_iter().map(|end| end.ok_or_else(misplaced)).collect()
}

async fn stored_steps(
    sql: &mut SqlClient,
    series: &Series,
    bounds: &[i64],
    view: &View,
    state: State,
) -> Result<Points> {
    let (from, to) = (bounds[0], bounds[bounds.len() - 1]);
    let mut converter = view.converter(bounds)?;
    // Among the points that a commit changed, none holds before its own time.
    let since = if let AsOf::ChangedAt(_) = state.as_of { from } else { from.saturating_add(1) };
    let mut timed = store::last_before(sql, series, since, state).await?;
    let mut pages = Pages::new(since, to);
    while let Some(next) = pages.next(sql, series, state).await? {
        let end = next.times.first().copied();
        view.push_steps(&mut converter, &timed.times, std::mem::take(&mut timed.points), end, bounds);
        timed = next;
    }
    view.push_steps(&mut converter, &timed.times, timed.points, None, bounds);
    Ok(view.finish(converter))
}

async fn computed(
    sql: &mut SqlClient,
    series: &Series,
    slices: &[Slice],
    bounds: &[i64],
    view: &View,
    as_of: AsOf,
) -> Result<Points> {
    let raster = series.raster.ok_or_else(|| Error::bug("a formula without an interval"))?;
    let intervals = raster.intervals(&series.calendar)?;
    let (mut from, to) = (bounds[0], bounds[bounds.len() - 1]);
    raster.check_range(from, to)?;
    let mut converter = view.converter(bounds)?;
    loop {
        let own = intervals.bounds(from, to, WINDOW)?;
        let points = of_slices(sql, slices, &intervals, &own, as_of).await?;
        let (last, ends) = (own[own.len() - 1], &own[1..]);
        let starts = &own[..own.len() - 1];
        if from == bounds[0] && last >= to {
            return view.on((starts, ends), points, bounds);
        }
        view.push(&mut converter, (starts, ends), points);
        if last >= to {
            return Ok(view.finish(converter));
        }
        from = last;
    }
}

/// Points of the formulas that are valid at each interval.
async fn of_slices(
    sql: &mut SqlClient,
    slices: &[Slice],
    intervals: &Buckets,
    own: &[i64],
    as_of: AsOf,
) -> Result<Points> {
    let mut all = Points::with_capacity(own.len() - 1);
    while all.len() + 1 < own.len() {
        let at = all.len();
        // The formula of the first interval, and the intervals up to the next formula.
        let slice = slices.partition_point(|slice| slice.valid_from <= own[at]).checked_sub(1);
        let next = slices.get(slice.map_or(0, |slice| slice + 1)).map(|slice| slice.valid_from);
        let same = next.map_or(own.len(), |next| own.partition_point(|start| *start < next));
        let end = same.min(own.len() - 1);
        let points = match slice {
            Some(slice) => evaluated(sql, &slices[slice], intervals, &own[at..=end], as_of).await?,
            None => Points::missing(end - at),
        };
        for (value, flag) in points.iter() {
            all.push(value, flag);
        }
    }
    Ok(all)
}

async fn evaluated(
    sql: &mut SqlClient,
    slice: &Slice,
    intervals: &Buckets,
    bounds: &[i64],
    as_of: AsOf,
) -> Result<Points> {
    let mut inputs = Vec::with_capacity(slice.inputs.len());
    for input in &slice.inputs {
        let moved = if input.shift == 0 { None } else { Some(moved(intervals, bounds, input.shift)?) };
        let bounds = moved.as_deref().unwrap_or(bounds);
        inputs.push(input.source.points(sql, bounds, &input.view, as_of).await?);
    }
    let inputs: Vec<&Points> = inputs.iter().collect();
    Ok(slice.formula.evaluate(&inputs, bounds.len() - 1))
}

/// Bounds that are some intervals later, or earlier if `shift` is negative.
fn moved(intervals: &Buckets, bounds: &[i64], shift: i64) -> Result<Vec<i64>> {
    let count = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
    let mut moved = bounds.to_vec();
    if shift > 0 {
        for _ in 0..count {
            let next = intervals.next(moved[moved.len() - 1])?;
            moved.push(next);
        }
        moved.drain(..count);
        return Ok(moved);
    }
    let mut earlier = Vec::with_capacity(count + bounds.len());
    let mut start = bounds[0];
    for _ in 0..count {
        start = intervals.start(start - 1)?;
        earlier.push(start);
    }
    earlier.reverse();
    earlier.extend_from_slice(bounds);
    earlier.truncate(bounds.len());
    Ok(earlier)
}

/// Points that hold until the next one, within bounds and split by them: starts, ends and points.
fn parts(times: &[i64], points: &Points, next: Option<i64>, bounds: &[i64]) -> (Vec<i64>, Vec<i64>, Points) {
    let (mut starts, mut ends, mut parts) = (Vec::new(), Vec::new(), Points::default());
    let (from, to) = (bounds[0], bounds[bounds.len() - 1]);
    let mut at = 0;
    for (row, time) in times.iter().enumerate() {
        let (value, flag) = points.get(row);
        let end = times.get(row + 1).copied().or(next).unwrap_or(to).min(to);
        let mut start = (*time).max(from);
        while start < end {
            at = place(bounds, at, start + 1);
            let part = end.min(bounds.get(at).copied().unwrap_or(to));
            starts.push(start);
            ends.push(part);
            parts.push(value, flag);
            start = part;
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
fn filled(starts: &[i64], points: Points, bounds: &[i64]) -> Points {
    if starts.len() + 1 == bounds.len() {
        return points;
    }
    let mut filled = Points::missing(bounds.len() - 1);
    let mut at = 0;
    for (row, start) in starts.iter().enumerate() {
        at = place(bounds, at, *start);
        let (value, flag) = points.get(row);
        filled.set(at, value, flag);
    }
    filled
}
