//! `date_trunc` and `date_bin`.

use catalog::TypeId;
use model::{Datum, Error, Interval, Result, SqlState};

use crate::registry::Function;

use super::arguments::{interval, text, timestamp, timestamptz};
use super::arithmetic::local_fields;
use super::calendar::{
    DAY, Fields, HOUR, MINUTE, SECOND, checked_timestamp, interval_out_of_range, is_finite, iso_week,
    monday_of_iso_week, timestamp_out_of_range,
};
use super::extract::{not_recognized, not_supported};
use super::words::{Unit, unit_in_any_case};
use super::zone::Zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("date_trunc(text,timestamp)", |a, _, _| truncated_timestamp(text(a, 0)?, timestamp(a, 1)?).map(Datum::Timestamp)),
    ("date_trunc(text,timestamptz)", |a, _, ctx| {
        let zone = Zone::Named(ctx.session.zone.clone());
        truncated_timestamptz(text(a, 0)?, timestamptz(a, 1)?, || Ok(zone)).map(Datum::Timestamptz)
    }),
    ("date_trunc(text,timestamptz,text)", |a, _, _| {
        let name = text(a, 2)?;
        truncated_timestamptz(text(a, 0)?, timestamptz(a, 1)?, || Zone::of_name(name)).map(Datum::Timestamptz)
    }),
    ("date_trunc(text,interval)", |a, _, _| truncated_interval(text(a, 0)?, interval(a, 1)?).map(Datum::Interval)),
    ("date_bin(interval,timestamp,timestamp)", |a, _, _| {
        binned(interval(a, 0)?, timestamp(a, 1)?, timestamp(a, 2)?).map(Datum::Timestamp)
    }),
    ("date_bin(interval,timestamptz,timestamptz)", |a, _, _| {
        binned(interval(a, 0)?, timestamptz(a, 1)?, timestamptz(a, 2)?).map(Datum::Timestamptz)
    }),
];

fn unit_of(name: &str, ty: TypeId) -> Result<Unit> {
    unit_in_any_case(name).ok_or_else(|| not_recognized(name, ty))
}

/// Microseconds of a unit of the clock.
fn clock_unit(unit: Unit) -> Option<i64> {
    Some(match unit {
        Unit::Microsecond => 1,
        Unit::Millisecond => 1_000,
        Unit::Second => SECOND,
        Unit::Minute => MINUTE,
        Unit::Hour => HOUR,
        _ => return None,
    })
}

fn truncated(fields: Fields, unit: Unit) -> Option<Fields> {
    if let Some(micros) = clock_unit(unit) {
        return Some(Fields { of_day: fields.of_day / micros * micros, ..fields });
    }
    let year = fields.year;
    // Centuries and millennia begin with the years 1, 101 and so on; before them stand 1 BC, 101 BC.
    let group = |years: i64| (year - 1).div_euclid(years) * years + 1;
    let start = |year: i64, month: u32| Fields { year, month, day: 1, of_day: 0 };
    Some(match unit {
        Unit::Day => Fields { of_day: 0, ..fields },
        Unit::Week => {
            let (year, week) = iso_week(fields.days());
            local_fields(i128::from(monday_of_iso_week(year, week)) * i128::from(DAY))
        }
        Unit::Month => start(year, fields.month),
        Unit::Quarter => start(year, (fields.month - 1) / 3 * 3 + 1),
        Unit::Year => start(year, 1),
        Unit::Decade => start(year.div_euclid(10) * 10, 1),
        Unit::Century => start(group(100), 1),
        Unit::Millennium => start(group(1_000), 1),
        _ => return None,
    })
}

fn truncated_timestamp(name: &str, micros: i64) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let unit = unit_of(name, TypeId::TIMESTAMP)?;
    let fields = truncated(Fields::of_micros(micros), unit).ok_or_else(|| not_supported(name, TypeId::TIMESTAMP))?;
    checked_timestamp(fields.micros())
}

fn truncated_timestamptz(name: &str, micros: i64, zone: impl FnOnce() -> Result<Zone>) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let zone = zone()?;
    let unit = unit_of(name, TypeId::TIMESTAMPTZ)?;
    let offset = zone.offset_at(micros);
    let local = i128::from(micros) + i128::from(offset) * i128::from(SECOND);
    let fields = truncated(local_fields(local), unit).ok_or_else(|| not_supported(name, TypeId::TIMESTAMPTZ))?;
    // Within a day the offset is kept, so that a repeated hour is not left.
    let offset = if clock_unit(unit).is_some() { offset } else { zone.offset_at_local(fields.micros()) };
    checked_timestamp(fields.micros() - i128::from(offset) * i128::from(SECOND))
}

fn truncated_interval(name: &str, value: Interval) -> Result<Interval> {
    let unit = unit_of(name, TypeId::INTERVAL)?;
    if let Some(micros) = clock_unit(unit) {
        return Ok(Interval { micros: value.micros / micros * micros, ..value });
    }
    let months = |months: i32| Interval { months: value.months / months * months, days: 0, micros: 0 };
    Ok(match unit {
        Unit::Day => Interval { micros: 0, ..value },
        Unit::Month => months(1),
        Unit::Quarter => months(3),
        Unit::Year => months(12),
        Unit::Decade => months(120),
        Unit::Century => months(1_200),
        Unit::Millennium => months(12_000),
        Unit::Week => {
            let detail = "Months usually have fractional weeks.";
            return Err(not_supported(name, TypeId::INTERVAL).with_detail(detail));
        }
        _ => return Err(not_supported(name, TypeId::INTERVAL)),
    })
}

/// The start of the bin of a moment, where bins have the length `stride` and one begins at `origin`.
fn binned(stride: Interval, micros: i64, origin: i64) -> Result<i64> {
    let out_of_range = |text: &str| Error::new(SqlState::DATETIME_OVERFLOW, text);
    if !is_finite(micros) {
        return Ok(micros);
    }
    if !is_finite(origin) {
        return Err(out_of_range("origin out of range"));
    }
    if stride.months != 0 {
        return Err(Error::unsupported("timestamps cannot be binned into intervals containing months or years"));
    }
    let days = i64::from(stride.days).checked_mul(DAY);
    let stride = days.and_then(|days| days.checked_add(stride.micros)).ok_or_else(interval_out_of_range)?;
    if stride <= 0 {
        return Err(out_of_range("stride must be greater than zero"));
    }
    let distance = micros.checked_sub(origin).ok_or_else(interval_out_of_range)?;
    let start = i128::from(micros) - i128::from(distance.rem_euclid(stride));
    super::calendar::timestamp_in_range(start).ok_or_else(timestamp_out_of_range)
}
