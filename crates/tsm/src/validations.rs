//! Validation runs: rules over many series find implausible values, mark them, and put others in their place.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int16Array, Int64Array, StringArray, TimestampNanosecondArray};
use engine::{MemoryBudget, Work};
use jiff::Timestamp;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use model::{Error, Result, SqlState};
use query::Value;
use query::client::{SqlClient, there};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use timeseries::flag::Flag;
use timeseries::formula::Formula;
use timeseries::points::Points;
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form};
use timeseries::validation::{Rule, interpolated, is_replaceable};

use crate::attributes::{self, Attributes, Condition};
use crate::definition_json::IntervalJson;
use crate::definitions::{self, Search, Series};
use crate::reading::{Reading, Wanted};
use crate::sources;
use crate::store::{self, Modification, Timed, Written};
use crate::tables::{ALWAYS, SCHEMA, invalid, option_of, text_of};
use crate::units::Units;

/// Intervals of one series in a run.
const INTERVALS_MAX: i64 = 1_000_000;
/// Memory of an interval: its point, a finding, the values of a formula and a change.
const INTERVAL_BYTES: u64 = 200;
/// Series of a run.
const SERIES_MAX: i64 = 100_000;
/// Findings of a run that are recorded; more are counted.
const FINDINGS_MAX: usize = 100_000;
/// Findings of a run that a reply shows.
const SHOWN_MAX: usize = 10_000;
/// Largest distance of a reference day.
const DAYS_MAX: u16 = 3_660;
/// Name by which formulas of a validation refer to the series that is validated.
const THIS: &str = "this";

/// A validation: which series, which rules, and what replaces the values that break them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct Validation {
    /// Names, which may have the wildcards of a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    series: Vec<String>,
    /// `Attribute|Value`: series that have it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attribute: Option<String>,
    rules: Vec<RuleJson>,
    /// Tried in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    substitutes: Vec<SubstituteJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleJson>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "Rule", rename_all_fields = "PascalCase", deny_unknown_fields)]
enum RuleJson {
    Gap {},
    Range {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    Jump {
        max: f64,
    },
    Constant {
        intervals: usize,
    },
    /// The value of a formula is out of a range.
    Comparison {
        formula: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "Substitute", rename_all_fields = "PascalCase", deny_unknown_fields)]
enum SubstituteJson {
    /// A straight line between the values on both sides of at most so many intervals.
    Interpolation {
        #[serde(default = "day_of_quarters")]
        max_intervals: usize,
    },
    /// The value of the same local time so many days before.
    ReferenceDay {
        #[serde(default = "week")]
        days: u16,
    },
    Formula {
        formula: String,
    },
}

fn day_of_quarters() -> usize {
    96
}

fn week() -> u16 {
    7
}

/// The times at which a validation runs by itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct ScheduleJson {
    every: IntervalJson,
    /// Length of the range that is validated, which ends at the start of the present interval of each series.
    back: IntervalJson,
    /// Calendar of `every` and `back`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
}

impl RuleJson {
    fn name(&self) -> &'static str {
        match self {
            RuleJson::Gap {} => "Gap",
            RuleJson::Range { .. } => "Range",
            RuleJson::Jump { .. } => "Jump",
            RuleJson::Constant { .. } => "Constant",
            RuleJson::Comparison { .. } => "Comparison",
        }
    }
}

/// Range of values; at least one limit must be there.
fn limits(min: Option<f64>, max: Option<f64>) -> Result<Rule> {
    match (min, max) {
        (None, None) => Err(invalid("a rule has neither Min nor Max".to_owned())),
        (min, max) => Ok(Rule::Range { min: min.unwrap_or(f64::NEG_INFINITY), max: max.unwrap_or(f64::INFINITY) }),
    }
}

impl Validation {
    /// # Errors
    /// 22023 for another JSON than a validation, or one without series or rules.
    pub(crate) fn parse(body: &[u8]) -> Result<Validation> {
        let refused = |error| invalid(format!("the body is not a validation: {error}"));
        let validation: Validation = serde_json::from_slice(body).map_err(refused)?;
        if validation.series.is_empty() == validation.attribute.is_none() {
            return Err(invalid("a validation has either Series or Attribute".to_owned()));
        }
        if validation.rules.is_empty() {
            return Err(invalid("a validation needs Rules".to_owned()));
        }
        for rule in &validation.rules {
            if let RuleJson::Range { min, max } | RuleJson::Comparison { min, max, .. } = rule {
                limits(*min, *max)?;
            }
            if let RuleJson::Comparison { formula, .. } = rule {
                formula.parse::<Formula>()?;
            }
        }
        for substitute in &validation.substitutes {
            match substitute {
                SubstituteJson::Formula { formula } => drop(formula.parse::<Formula>()?),
                SubstituteJson::ReferenceDay { days } if !(1..=DAYS_MAX).contains(days) => {
                    return Err(invalid(format!("Days {days}: expected 1 to {DAYS_MAX}")));
                }
                SubstituteJson::ReferenceDay { .. } | SubstituteJson::Interpolation { .. } => {}
            }
        }
        validation.next_run(0)?;
        Ok(validation)
    }

    /// The first time after `now` at which the validation runs by itself; `None` without a schedule.
    ///
    /// # Errors
    /// 22023 for intervals that are none.
    pub(crate) fn next_run(&self, now: i64) -> Result<Option<i64>> {
        let Some(schedule) = &self.schedule else { return Ok(None) };
        let every = schedule.every.raster()?;
        schedule.back.raster()?;
        if every.nanoseconds().is_some_and(|length| length < 60_000_000_000) {
            return Err(invalid("member Every: expected a minute or more".to_owned()));
        }
        let intervals = every.intervals(&schedule.calendar()?)?;
        intervals.next(intervals.start(now)?).map(Some)
    }

    /// The range that a run by schedule validates: back from the present.
    ///
    /// # Errors
    /// Those of [`Validation::next_run`].
    pub(crate) fn scheduled_range(&self, now: i64) -> Result<(i64, i64)> {
        let schedule = self.schedule.as_ref().ok_or_else(|| Error::bug("a validation without a schedule"))?;
        let intervals = schedule.back.raster()?.intervals(&schedule.calendar()?)?;
        let start = intervals.start(now)?;
        // From the same place in the interval before.
        let before = intervals.start(start.saturating_sub(1))?;
        Ok((before.saturating_add(now - start).min(start), now))
    }
}

impl ScheduleJson {
    fn calendar(&self) -> Result<Calendar> {
        Calendar::parse(self.time_zone.as_deref().unwrap_or("UTC"))
    }
}

/// A value that breaks a rule.
#[derive(Debug, PartialEq)]
struct Finding {
    time: i64,
    rule: &'static str,
    before: (Option<f64>, Flag),
    /// The value and flag that it became; `None` if it stayed.
    after: Option<(Option<f64>, Flag)>,
}

/// Circumstances of a run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) memory: &'a MemoryBudget,
    pub(crate) repository: &'a str,
    /// Name of the validation, if it is stored.
    pub(crate) name: Option<&'a str>,
    pub(crate) range: (i64, i64),
    /// Whether values are changed.
    pub(crate) applies: bool,
    pub(crate) now: i64,
    pub(crate) user: &'a str,
}

/// Runs a validation over its series, one after the other. The changes of each series are one commit, with their findings.
///
/// Returns what a client is told.
///
/// # Errors
/// 42704 for a series that does not exist; 22023 for one without a raster or with quotation; 54000 for too many; those of SQL.
/// Series before the one that fails stay changed.
pub(crate) async fn run(sql: &mut SqlClient, validation: &Validation, run: Run<'_>) -> Result<Json> {
    let units = Units::load(sql).await?;
    let all = series_of(sql, validation, run).await?;
    let text = "INSERT INTO tsm.validation_runs (repository, validation, started, started_by, first, until, applies, series) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id";
    let values = [
        text_of(run.repository),
        option_of(run.name),
        Value::Timestamptz(run.now),
        text_of(run.user),
        Value::Timestamptz(run.range.0),
        Value::Timestamptz(run.range.1),
        Value::Bool(run.applies),
        Value::Int64(i64::try_from(all.len()).unwrap_or(i64::MAX)),
    ];
    let started = sql.rows(text, &values).await?;
    let id = there(started.first().map_or(Ok(None), |rows| Ok::<_, Error>(rows.integers(0)?.take(0)))?)?;
    let (mut found, mut replaced, mut recorded) = (0, 0, 0);
    let mut shown = Vec::new();
    for series in &all {
        let named = |error: Error| error.context(format!("series \"{}\"", series.name));
        let (findings, changes) = validated(sql, &units, validation, series, run).await.map_err(named)?;
        let kept = findings.len().min(FINDINGS_MAX - recorded);
        found += findings.len();
        replaced += changes.times.len();
        recorded += kept;
        record(sql, id, series, (&findings[..kept], &changes), run).await.map_err(named)?;
        shown.extend(findings.iter().take(SHOWN_MAX - shown.len()).map(|finding| json_of(series, finding)));
    }
    let text = "UPDATE tsm.validation_runs SET findings = $2, replaced = $3, finished = $4 WHERE id = $1";
    let count = |count: usize| Value::Int64(i64::try_from(count).unwrap_or(i64::MAX));
    sql.run(text, &[Value::Int64(id), count(found), count(replaced), Value::Timestamptz(run.now)]).await?;
    Ok(json!({ "Run": id, "Series": all.len(), "Findings": found, "Recorded": recorded, "Replaced": replaced,
        "Values": shown }))
}

fn json_of(series: &Series, finding: &Finding) -> Json {
    let (value, flag) = finding.before;
    let mut shown = json!({ "Series": series.name, "From": stamp::text(finding.time, &TimeZone::UTC, Form::Utc),
        "Rule": finding.rule, "Value": value, "Flag": flag.id() });
    if let Some((value, flag)) = finding.after {
        shown["NewValue"] = json!(value);
        shown["NewFlag"] = json!(flag.id());
    }
    shown
}

/// The series of a validation, in the order of their names.
async fn series_of(sql: &mut SqlClient, validation: &Validation, run: Run<'_>) -> Result<Vec<Series>> {
    let mut all = Vec::new();
    if let Some(attribute) = &validation.attribute {
        let condition = Condition::parse(attribute);
        let ids = attributes::series_with(sql, run.repository, &condition.attribute).await?;
        for (id, attributes) in Attributes::load(sql, &ids).await? {
            if attributes.times_of(&condition).iter().any(|(start, end)| (*start..*end).contains(&run.now)) {
                all.push(definitions::find_by_id(sql, id).await?);
            }
        }
    }
    for name in &validation.series {
        if name.contains(['%', '_']) {
            let search = Search { name: Some(name.clone()), ..Search::default() };
            let (found, total) = definitions::search(sql, run.repository, &search, 0, SERIES_MAX).await?;
            if total > SERIES_MAX {
                let message = format!("\"{name}\" finds {total} series: expected at most {SERIES_MAX}");
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            all.extend(found);
        } else {
            all.push(definitions::find(sql, run.repository, name).await?);
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.dedup_by_key(|series| series.id);
    Ok(all)
}

/// The findings in a series, and the points that replace some of them.
async fn validated(
    sql: &mut SqlClient,
    units: &Units,
    validation: &Validation,
    series: &Series,
    run: Run<'_>,
) -> Result<(Vec<Finding>, Timed)> {
    if series.quotation {
        return Err(invalid("it has quotation: versions are not validated".to_owned()));
    }
    let raster =
        series.raster.ok_or_else(|| invalid("it is spontaneous: a validation needs an interval".to_owned()))?;
    let intervals = raster.intervals(&series.calendar)?;
    // The interval of the present time is not complete.
    let range = (run.range.0, run.range.1.min(intervals.start(run.now)?));
    if raster.count_max(range.0, range.1) > INTERVALS_MAX {
        let message = format!("the range has more than {INTERVALS_MAX} intervals of {raster}");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let intervals = u64::try_from(raster.count_max(range.0, range.1)).unwrap_or(0);
    let mut held = run.memory.reservation(Work::Results);
    held.grow(intervals.saturating_mul(INTERVAL_BYTES))?;
    let Timed { times, points } = read(sql, units, series.clone(), range, run.now).await?;
    let mut by_place: Vec<(usize, &'static str)> = Vec::new();
    for rule in &validation.rules {
        let broken = match rule {
            RuleJson::Gap {} => Rule::Gap.broken(&points),
            RuleJson::Range { min, max } => limits(*min, *max)?.broken(&points),
            RuleJson::Jump { max } => Rule::Jump { max: *max }.broken(&points),
            RuleJson::Constant { intervals } => Rule::Constant { intervals: *intervals }.broken(&points),
            RuleJson::Comparison { formula, min, max } => {
                limits(*min, *max)?.broken(&computed(sql, units, series, formula, (range, &times), run.now).await?)
            }
        };
        by_place.extend(broken.into_iter().map(|at| (at, rule.name())));
    }
    // A point that breaks several rules is found by the first of them.
    by_place.sort_by_key(|(at, _)| *at);
    by_place.dedup_by_key(|(at, _)| *at);
    let mut findings: Vec<(usize, Finding)> = by_place
        .into_iter()
        .map(|(at, rule)| (at, Finding { time: times[at], rule, before: points.get(at), after: None }))
        .collect();
    if run.applies && !series.is_virtual() {
        replace(sql, units, validation, series, (range, &times, &points), &mut findings, run.now).await?;
    }
    let mut changes = Timed::default();
    for (_, finding) in &findings {
        if let Some((value, flag)) = finding.after {
            changes.times.push(finding.time);
            changes.points.push(value, flag);
        }
    }
    Ok((findings.into_iter().map(|(_, finding)| finding).collect(), changes))
}

/// Finds substitutes for findings. A value without one is marked *Faulty*; a gap without one stays.
async fn replace(
    sql: &mut SqlClient,
    units: &Units,
    validation: &Validation,
    series: &Series,
    (range, times, points): ((i64, i64), &[i64], &Points),
    findings: &mut [(usize, Finding)],
    now: i64,
) -> Result<()> {
    let is_replaceable = |finding: &Finding| is_replaceable(finding.before.1);
    for substitute in &validation.substitutes {
        let open: Vec<usize> = findings
            .iter()
            .filter(|(_, finding)| finding.after.is_none() && is_replaceable(finding))
            .map(|(at, _)| *at)
            .collect();
        if open.is_empty() {
            break;
        }
        let (values, flag): (Vec<(usize, f64)>, Flag) = match substitute {
            SubstituteJson::Interpolation { max_intervals } => {
                // Findings that were replaced before are good values now, but stay out: they may be estimates.
                let all: Vec<usize> = findings.iter().map(|(at, _)| *at).collect();
                (interpolated(points, &all, *max_intervals), Flag::Interpolated)
            }
            SubstituteJson::ReferenceDay { days } => {
                (reference_days(sql, units, series, (times, &open), *days, now).await?, Flag::Estimated)
            }
            SubstituteJson::Formula { formula } => {
                let computed = computed(sql, units, series, formula, (range, times), now).await?;
                let value = |at: &usize| computed.present[*at].then(|| (*at, computed.values[*at]));
                (open.iter().filter_map(value).collect(), Flag::Estimated)
            }
        };
        for (at, value) in values {
            if let Ok(place) = findings.binary_search_by_key(&at, |(at, _)| *at) {
                let finding = &mut findings[place].1;
                if finding.after.is_none() && is_replaceable(finding) && value.is_finite() {
                    finding.after = Some((Some(value), flag));
                }
            }
        }
    }
    for (_, finding) in findings.iter_mut() {
        let (value, flag) = finding.before;
        if finding.after.is_none() && value.is_some() && flag != Flag::Faulty && is_replaceable(finding) {
            finding.after = Some((value, Flag::Faulty));
        }
    }
    Ok(())
}

/// Values of the same local times some days before, for places.
async fn reference_days(
    sql: &mut SqlClient,
    units: &Units,
    series: &Series,
    (times, places): (&[i64], &[usize]),
    days: u16,
    now: i64,
) -> Result<Vec<(usize, f64)>> {
    let zone = series.calendar.zone();
    let before = |time: i64| -> Result<i64> {
        let time = Timestamp::from_nanosecond(time.into()).map_err(Error::bug)?.to_zoned(zone.clone());
        let earlier = time.checked_sub(i64::from(days).days());
        let out_of_range = |_| Error::new(SqlState::DATETIME_OVERFLOW, "a reference day is out of range".to_owned());
        let earlier = earlier.map_err(out_of_range)?.timestamp().as_nanosecond();
        i64::try_from(earlier).map_err(Error::bug)
    };
    let wanted: Vec<i64> = places.iter().map(|at| before(times[*at])).collect::<Result<_>>()?;
    let (Some(first), Some(last)) = (wanted.iter().min(), wanted.iter().max()) else { return Ok(Vec::new()) };
    let reference = read(sql, units, series.clone(), (*first, last.saturating_add(1)), now).await?;
    let value = |(at, time): (&usize, &i64)| {
        let place = reference.times.binary_search(time).ok()?;
        let (value, flag) = reference.points.get(place);
        // An estimate of an estimate drifts.
        let is_good = matches!(flag, Flag::Valid | Flag::Accounted | Flag::ManuallyReplaced);
        value.filter(|_| is_good).map(|value| (*at, value))
    };
    Ok(places.iter().zip(&wanted).filter_map(value).collect())
}

/// Points of a formula on the raster and in the unit of a series, one for each of its times.
async fn computed(
    sql: &mut SqlClient,
    units: &Units,
    series: &Series,
    formula: &str,
    (range, times): ((i64, i64), &[i64]),
    now: i64,
) -> Result<Points> {
    let named = formula.parse::<Formula>()?.renamed(|reference| {
        let is_this = reference.series.eq_ignore_ascii_case(THIS);
        Ok(if is_this { series.name.clone() } else { reference.series.clone() })
    })?;
    let mut own = Series { id: 0, formulas: vec![(ALWAYS, named)], ..series.clone() };
    own.formulas = sources::resolved(sql, units, &own).await?;
    let computed = read(sql, units, own, range, now).await?;
    if computed.times == times { Ok(computed.points) } else { Err(Error::bug("a formula on another raster")) }
}

/// All points of a series in a range, also those without a value.
async fn read(sql: &mut SqlClient, units: &Units, series: Series, (from, to): (i64, i64), now: i64) -> Result<Timed> {
    let wanted = Wanted::present(from, to, now);
    let mut reading = Reading::new(sql, series, units, &wanted).await?;
    let mut all = Timed::default();
    while let Some(mut timed) = reading.next(sql).await? {
        all.times.append(&mut timed.times);
        all.points.append(&mut timed.points);
    }
    Ok(all)
}

/// Stores the changes and the findings of a series.
async fn record(
    sql: &mut SqlClient,
    id: i64,
    series: &Series,
    (findings, changes): (&[Finding], &Timed),
    run: Run<'_>,
) -> Result<()> {
    if findings.is_empty() && changes.times.is_empty() {
        return Ok(());
    }
    let after = |finding: &Finding| finding.after.map_or((None, None), |(value, flag)| (value, Some(flag.id())));
    let times = TimestampNanosecondArray::from_iter_values(findings.iter().map(|finding| finding.time));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("run", Arc::new(Int64Array::from(vec![id; findings.len()]))),
        ("series", Arc::new(Int64Array::from(vec![series.id; findings.len()]))),
        ("time", Arc::new(times.with_timezone("UTC"))),
        ("rule", Arc::new(StringArray::from_iter_values(findings.iter().map(|finding| finding.rule)))),
        ("value", Arc::new(findings.iter().map(|finding| finding.before.0).collect::<Float64Array>())),
        ("flag", Arc::new(Int16Array::from_iter_values(findings.iter().map(|finding| finding.before.1.id())))),
        ("new_value", Arc::new(findings.iter().map(|finding| after(finding).0).collect::<Float64Array>())),
        ("new_flag", Arc::new(findings.iter().map(|finding| after(finding).1).collect::<Int16Array>())),
    ];
    let found = store::batch(columns)?;
    sql.transaction(async |sql| {
        if let (Some(first), Some(last)) = (changes.times.first(), changes.times.last()) {
            store::write(sql, &[Written { series, timed: changes, version: None }]).await?;
            let to = last.saturating_add(1);
            let modification = Modification { from: *first, to, points: changes.times.len(), change: "validated" };
            store::record(sql, run.now, run.user, &[(series.id, modification)]).await?;
        }
        if found.num_rows() == 0 { Ok(()) } else { sql.append(SCHEMA, &[("findings", found)]).await }
    })
    .await
}

/// Stores a validation under a name.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn store(
    sql: &mut SqlClient,
    (repository, name): (&str, &str),
    validation: &Validation,
    now: i64,
) -> Result<()> {
    let text = "INSERT INTO tsm.validations (repository, name, definition, next_run) VALUES ($1, $2, $3, $4) \
                ON CONFLICT (repository, name) DO UPDATE SET definition = excluded.definition, next_run = excluded.next_run";
    let definition = serde_json::to_string(validation).map_err(Error::bug)?;
    let next_run = validation.next_run(now)?.map_or(Value::Null, Value::Timestamptz);
    let values = [text_of(repository), text_of(name), text_of(&definition), next_run];
    sql.run(text, &values).await.map_err(|error| match error.state() {
        SqlState::FOREIGN_KEY_VIOLATION => {
            Error::new(SqlState::UNDEFINED_OBJECT, format!("repository \"{repository}\" does not exist"))
        }
        _ => error,
    })
}

/// Stored validations of a repository, or the one of a name.
///
/// # Errors
/// 42704 for a name that does not exist; those of SQL.
pub(crate) async fn find(
    sql: &mut SqlClient,
    repository: &str,
    name: Option<&str>,
) -> Result<Vec<(String, Validation)>> {
    let mut all = Vec::new();
    let text = "SELECT name, definition FROM tsm.validations WHERE repository = $1 AND ($2::text IS NULL OR name = $2) \
                ORDER BY name";
    for rows in sql.rows(text, &[text_of(repository), option_of(name)]).await? {
        let (mut names, mut definitions) = (rows.texts(0)?, rows.texts(1)?);
        for row in 0..rows.len() {
            let definition = there(definitions.take(row))?;
            all.push((there(names.take(row))?, Validation::parse(definition.as_bytes())?));
        }
    }
    match name {
        Some(name) if all.is_empty() => Err(unknown(name)),
        _ => Ok(all),
    }
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("validation \"{name}\" does not exist"))
}

/// Deletes a stored validation. Its runs and findings stay.
///
/// # Errors
/// 42704 if it does not exist; those of SQL.
pub(crate) async fn delete(sql: &mut SqlClient, repository: &str, name: &str) -> Result<()> {
    let text = "DELETE FROM tsm.validations WHERE repository = $1 AND name = $2 RETURNING name";
    let deleted = sql.rows(text, &[text_of(repository), text_of(name)]).await?;
    if deleted.iter().any(|rows| rows.len() > 0) { Ok(()) } else { Err(unknown(name)) }
}

/// A validation whose time has come.
pub(crate) struct Due {
    pub(crate) repository: String,
    pub(crate) name: String,
    pub(crate) validation: Validation,
}

/// The stored validations whose time has come. Each is returned to one caller only, of all that share the database.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn due(sql: &mut SqlClient, now: i64) -> Result<Vec<Due>> {
    let mut candidates = Vec::new();
    let text = "SELECT repository, name, definition, next_run FROM tsm.validations WHERE next_run <= $1";
    for rows in sql.rows(text, &[Value::Timestamptz(now)]).await? {
        let (mut repositories, mut names, mut definitions) = (rows.texts(0)?, rows.texts(1)?, rows.texts(2)?);
        let mut times = rows.times(3)?;
        for row in 0..rows.len() {
            let (repository, name) = (there(repositories.take(row))?, there(names.take(row))?);
            let validation = Validation::parse(there(definitions.take(row))?.as_bytes())?;
            candidates.push((Due { repository, name, validation }, there(times.take(row))?));
        }
    }
    let mut due = Vec::new();
    for (candidate, at) in candidates {
        let next = candidate.validation.next_run(now)?.map_or(Value::Null, Value::Timestamptz);
        let text = "UPDATE tsm.validations SET next_run = $4 WHERE repository = $1 AND name = $2 AND next_run = $3 \
                    RETURNING name";
        let values = [text_of(&candidate.repository), text_of(&candidate.name), Value::Timestamptz(at), next];
        if sql.rows(text, &values).await?.iter().any(|rows| rows.len() > 0) {
            due.push(candidate);
        }
    }
    Ok(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validation(text: &str) -> Result<Validation> {
        Validation::parse(text.as_bytes())
    }

    #[test]
    fn validations_are_parsed_or_refused() {
        let rules = r#""Rules": [{"Rule": "Gap"}, {"Rule": "Range", "Min": 0}, {"Rule": "Comparison", "Formula": "[this]", "Max": 1}]"#;
        let good =
            validation(&format!(r#"{{"Series": ["P%"], {rules}, "Substitutes": [{{"Substitute": "ReferenceDay"}}]}}"#));
        let text = serde_json::to_string(&good.unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&validation(&text).unwrap()).unwrap(), text);
        for (body, expected) in [
            (format!("{{{rules}}}"), "either Series or Attribute"),
            (r#"{"Series": ["P"], "Rules": []}"#.to_owned(), "needs Rules"),
            (r#"{"Series": ["P"], "Rules": [{"Rule": "Range"}]}"#.to_owned(), "neither Min nor Max"),
            (r#"{"Series": ["P"], "Rules": [{"Rule": "Spike"}]}"#.to_owned(), "unknown variant `Spike`"),
            (r#"{"Series": ["P"], "Rules": [{"Rule": "Gap", "Max": 1}]}"#.to_owned(), "unknown field `Max`"),
            (
                r#"{"Series": ["P"], "Rules": [{"Rule": "Gap"}], "Schedule": {"Every": {"Value": "Second"}, "Back": {"Value": "Day"}}}"#
                    .to_owned(),
                "expected a minute or more",
            ),
        ] {
            let error = validation(&body).unwrap_err();
            assert!(error.to_string().contains(expected), "{body}: {error}");
        }
    }

    #[test]
    fn a_schedule_names_its_next_run_and_its_range() {
        let text = r#"{"Series": ["P"], "Rules": [{"Rule": "Gap"}], "Schedule": {"Every": {"Value": "Day"}, "Back": {"Value": "Day",
            "Multiplier": 1}, "TimeZone": "Europe/Vienna"}}"#;
        let validation = validation(text).unwrap();
        let time = |text: &str| stamp::parse(text, &TimeZone::UTC).unwrap();
        // The day in which summer time begins has 23 hours.
        let now = time("2025-03-30T10:00:00Z");
        assert_eq!(validation.next_run(now).unwrap(), Some(time("2025-03-30T22:00:00Z")));
        assert_eq!(validation.scheduled_range(now).unwrap(), (time("2025-03-29T10:00:00Z"), now));
    }
}
