//! `AT TIME ZONE` and the current time.

use model::{Datum, Error, Interval, Result, SqlState, TimeTz};

use crate::registry::Function;

use super::arguments::{interval, text, timestamp, timestamptz, timetz};
use super::calendar::{DAY, SECOND, checked_timestamp, is_finite};
use super::zone::Zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("timezone(text,timestamptz)", |a, _, _| {
        let micros = timestamptz(a, 1)?;
        if !is_finite(micros) {
            return Ok(Datum::Timestamp(micros));
        }
        local_of(&Zone::of_name(text(a, 0)?)?, micros)
    }),
    ("timezone(interval,timestamptz)", |a, _, _| {
        let micros = timestamptz(a, 1)?;
        if !is_finite(micros) {
            return Ok(Datum::Timestamp(micros));
        }
        local_of(&zone_of(interval(a, 0)?)?, micros)
    }),
    ("timezone(text,timestamp)", |a, _, _| {
        let local = timestamp(a, 1)?;
        if !is_finite(local) {
            return Ok(Datum::Timestamptz(local));
        }
        utc_of(&Zone::of_name(text(a, 0)?)?, local)
    }),
    ("timezone(interval,timestamp)", |a, _, _| {
        let local = timestamp(a, 1)?;
        if !is_finite(local) {
            return Ok(Datum::Timestamptz(local));
        }
        utc_of(&zone_of(interval(a, 0)?)?, local)
    }),
    // The date of a time is unknown, so the zone has today's offset.
    ("timezone(text,timetz)", |a, _, ctx| {
        let east = Zone::of_name(text(a, 0)?)?.offset_at(ctx.session.transaction_micros);
        Ok(moved(timetz(a, 1)?, east))
    }),
    ("timezone(interval,timetz)", |a, _, ctx| {
        let east = zone_of(interval(a, 0)?)?.offset_at(ctx.session.transaction_micros);
        Ok(moved(timetz(a, 1)?, east))
    }),
    ("now", |_, _, ctx| Ok(Datum::Timestamptz(ctx.session.transaction_micros))),
    ("transaction_timestamp", |_, _, ctx| Ok(Datum::Timestamptz(ctx.session.transaction_micros))),
    ("statement_timestamp", |_, _, ctx| Ok(Datum::Timestamptz(ctx.session.statement_micros))),
    ("clock_timestamp", |_, _, ctx| Ok(Datum::Timestamptz(ctx.outside()?.now_micros()))),
];

/// The zone of an offset that is given as an interval.
fn zone_of(offset: Interval) -> Result<Zone> {
    if offset.months == 0 && offset.days == 0 {
        let seconds = offset.micros / SECOND;
        // PostgreSQL keeps 32 bits.
        return Ok(Zone::Fixed(seconds as i32));
    }
    let mut text = String::new();
    super::write::interval(&mut text, offset, &crate::context::Session::default());
    let text = format!("interval time zone \"{text}\" must not include months or days");
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
}

fn local_of<'a>(zone: &Zone, micros: i64) -> Result<Datum<'a>> {
    let east = i128::from(zone.offset_at(micros)) * i128::from(SECOND);
    checked_timestamp(i128::from(micros) + east).map(Datum::Timestamp)
}

fn utc_of<'a>(zone: &Zone, local: i64) -> Result<Datum<'a>> {
    let local = i128::from(local);
    let east = i128::from(zone.offset_at_local(local)) * i128::from(SECOND);
    checked_timestamp(local - east).map(Datum::Timestamptz)
}

fn moved<'a>(time: TimeTz, east: i32) -> Datum<'a> {
    let micros = (time.utc_micros() + i64::from(east) * SECOND).rem_euclid(DAY);
    Datum::TimeTz(TimeTz { micros, west: east.wrapping_neg() })
}
