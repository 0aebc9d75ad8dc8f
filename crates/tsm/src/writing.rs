//! Writes points to series, from any raster and unit.

use jiff::tz::TimeZone;
use model::Result;
use query::client::SqlClient;
use timeseries::conversion::Converter;
use timeseries::points::Points;
use timeseries::raster::Calendar;
use timeseries::stamp::{self, Form};

use crate::data::{Meaning, SentPoints};
use crate::definition_json::IntervalJson;
use crate::definitions::Series;
use crate::store::{self, Modification, State, Timed, Written};
use crate::tables::invalid;
use crate::units::Units;

/// Points on the raster and in the unit of a series, ready to be stored.
pub(crate) struct Prepared {
    pub(crate) series: Series,
    pub(crate) timed: Timed,
    /// The version, for series with quotation.
    pub(crate) version: Option<i64>,
}

/// Converts what a client sent to the raster and unit of the series.
///
/// # Errors
/// 22023 for a time that starts no interval, an unknown flag, or a unit that cannot be converted; 22007 for a text that is no
/// time; 42704 for an unknown unit.
pub(crate) fn prepare(series: Series, units: &Units, meaning: &Meaning<'_>, points: SentPoints) -> Result<Prepared> {
    if series.is_virtual() {
        return Err(invalid(format!("series \"{}\" is computed by a formula: it cannot be written", series.name)));
    }
    let quotation = meaning.quotation.as_ref();
    let version = quotation.map(|text| stamp::parse(text, series.calendar.zone())).transpose()?;
    if version.is_some() != series.quotation {
        let message =
            if series.quotation { "has quotation: name the version of the values" } else { "has no quotation" };
        return Err(invalid(format!("series \"{}\" {message}", series.name)));
    }
    let calendar = meaning.time_zone.as_ref().map(|zone| Calendar::parse(zone)).transpose()?;
    let calendar = calendar.as_ref().unwrap_or(&series.calendar);
    let mut timed = points.timed(calendar)?;
    let own = units.of(&series)?;
    let given = meaning.unit.as_ref().map_or(Ok(own), |name| units.find(name))?;
    let conversion = units.conversion(given, own)?;
    let source = meaning.interval.as_ref().filter(|interval| !interval.is_none());
    let source = source.map(IntervalJson::raster).transpose()?;
    let Some(raster) = series.raster else {
        if source.is_some() || conversion.needs_length() {
            return Err(invalid(format!("series \"{}\" is spontaneous: its values have no interval", series.name)));
        }
        conversion.apply(&mut timed.points, &[], &[]);
        return Ok(Prepared { series, timed, version });
    };
    let source = source.unwrap_or(raster);
    let intervals = source.intervals(calendar)?;
    let ends = intervals.ends(&timed.times)?;
    if let Some(at) = ends.iter().position(Option::is_none) {
        let time = stamp::text(timed.times[at], &TimeZone::UTC, Form::Utc);
        let before = stamp::text(intervals.start(timed.times[at])?, &TimeZone::UTC, Form::Utc);
        let message = format!("{time} is not the start of an interval of {source} in {}", calendar.name());
        return Err(invalid(message).with_detail(format!("The interval that contains it starts at {before}.")));
    }
    let ends: Vec<i64> = ends.into_iter().flatten().collect();
    conversion.apply(&mut timed.points, &timed.times, &ends);
    if (source, calendar) != (raster, &series.calendar) {
        let rule = series.aggregation.unwrap_or(own.aggregation);
        let target = raster.intervals(&series.calendar)?;
        let (Some(from), Some(to)) = (timed.times.first(), ends.last()) else {
            return Ok(Prepared { series, timed, version });
        };
        raster.check_range(*from, *to)?;
        let bounds = target.bounds(*from, *to, usize::MAX - 1)?;
        let mut converter = Converter::new(&bounds, rule);
        for (at, (start, end)) in timed.times.iter().zip(&ends).enumerate() {
            let (value, flag) = timed.points.get(at);
            converter.push(*start, *end, value, flag);
        }
        timed = touched(&bounds, converter.finish(), &timed.times, &ends);
    }
    Ok(Prepared { series, timed, version })
}

/// The intervals that something was written to: gaps between the times of a request stay as they are.
fn touched(bounds: &[i64], points: Points, starts: &[i64], ends: &[i64]) -> Timed {
    let mut timed = Timed::default();
    let mut at = 0;
    for (interval, (value, flag)) in bounds.windows(2).zip(points.iter()) {
        while ends.get(at).is_some_and(|end| *end <= interval[0]) {
            at += 1;
        }
        if starts.get(at).is_some_and(|start| *start < interval[1]) {
            timed.times.push(interval[0]);
            timed.points.push(value, flag);
        }
    }
    timed
}

/// Stores points in one transaction and records the change.
///
/// - `now`: nanoseconds since 1970.
///
/// # Errors
/// Those of SQL. Nothing is stored then.
pub(crate) async fn store(sql: &mut SqlClient, now: i64, user: &str, all: &[Prepared]) -> Result<()> {
    let written: Vec<&Prepared> = all.iter().filter(|prepared| !prepared.timed.times.is_empty()).collect();
    if written.is_empty() {
        return Ok(());
    }
    let points: Vec<Written<'_>> = written
        .iter()
        .map(|Prepared { series, timed, version }| Written { series, timed, version: *version })
        .collect();
    let modifications: Vec<(i64, Modification)> = written
        .iter()
        .map(|Prepared { series, timed, .. }| {
            let (from, to) = (timed.times[0], timed.times[timed.times.len() - 1]);
            (series.id, Modification { from, to: to.saturating_add(1), points: timed.times.len(), change: "written" })
        })
        .collect();
    sql.transaction(async |sql| {
        store::write(sql, &points).await?;
        store::record(sql, now, user, &modifications).await
    })
    .await
}

/// Deletes the points of a range and records the change.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn delete(
    sql: &mut SqlClient,
    now: i64,
    user: &str,
    series: &Series,
    (from, to): (i64, i64),
    state: State,
) -> Result<()> {
    if series.is_virtual() {
        return Err(invalid(format!(
            "series \"{}\" is computed by a formula: it has no values to delete",
            series.name
        )));
    }
    let modification = Modification { from, to, points: 0, change: "deleted" };
    sql.transaction(async |sql| {
        store::delete(sql, series, from, to, state).await?;
        store::record(sql, now, user, &[(series.id, modification)]).await
    })
    .await
}
