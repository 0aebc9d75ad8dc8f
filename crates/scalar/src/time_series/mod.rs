//! Aggregates over points in time: counters with resets, time-weighted averages, candlesticks, durations of states and
//! down-sampling. PostgreSQL has none of them.
//!
//! Rows may arrive in any order: an aggregate sorts its points by time. Of several points at one time the greatest value
//! counts, so the result never depends on the order of the rows; `candlestick` is the exception. A time is a `timestamptz`
//! or `timestamp`, in microseconds, or a `bigint`, whose unit stands for the second.

mod candlestick;
mod counters;
mod lttb;
mod points;
mod states;
#[cfg(test)]
mod tests;
mod weighted;

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Aggregate, Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: AGGREGATES };

const FUNCTIONS: &[(&str, Function)] = &[
    ("session_window(timestamptz,interval)", not_grouped),
    ("session_window(timestamp,interval)", not_grouped),
    ("session_window(int8,int8)", not_grouped),
    ("session_window(int4,int4)", not_grouped),
];

/// Error of a session window that is no item of GROUP BY: the binder replaces those.
fn not_grouped<'a>(_: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Err(Error::unsupported("session_window must be an item of GROUP BY, not a part of one"))
}

/// An aggregate for each type of time.
macro_rules! for_each_time {
    ($($name:literal, $before:literal, $after:literal: $make:expr;)*) => {
        &[$(
            (concat!($name, "(", $before, "timestamptz", $after, ")"), $make),
            (concat!($name, "(", $before, "timestamp", $after, ")"), $make),
            (concat!($name, "(", $before, "int8", $after, ")"), $make),
        )*
        ("vwap", candlestick::vwap),
        ]
    };
}

const AGGREGATES: &[(&str, Aggregate)] = for_each_time! {
    "increase", "float8,", "": counters::increase;
    "rate", "float8,", "": counters::rate;
    "delta", "float8,", "": counters::delta;
    "time_weighted_average", "float8,", "": weighted::average;
    "time_weighted_average", "float8,", ",text": weighted::average;
    "time_weighted_integral", "float8,", "": weighted::integral;
    "time_weighted_integral", "float8,", ",text": weighted::integral;
    "candlestick", "", ",float8,float8": candlestick::candlestick;
    "duration_in", "anycompatible,anycompatible,", "": states::duration_in;
    "state_durations", "anyelement,", "": states::state_durations;
    "lttb", "", ",float8,int4": lttb::lttb;
    "lttb_times", "", ",float8,int4": lttb::times;
    "lttb_values", "", ",float8,int4": lttb::values;
};

/// Units of the time that make a second.
#[derive(Clone, Copy)]
struct Clock {
    units_per_second: f64,
}

impl Clock {
    /// The clock of the argument at a position.
    fn of(call: &Call, argument: usize) -> Clock {
        let is_whole = call.arguments.get(argument) == Some(&TypeId::INT8);
        Clock { units_per_second: if is_whole { 1.0 } else { 1e6 } }
    }

    /// Seconds between two times; negative if the second one is earlier.
    fn seconds(self, from: i64, to: i64) -> f64 {
        (i128::from(to) - i128::from(from)) as f64 / self.units_per_second
    }
}

/// The time of a row.
///
/// # Errors
/// 22008 for `infinity` and `-infinity`, which have no distance to other times.
fn time_of(argument: &Datum<'_>) -> Result<i64> {
    match argument {
        Datum::Int8(time) => Ok(*time),
        Datum::Timestamp(i64::MIN | i64::MAX) | Datum::Timestamptz(i64::MIN | i64::MAX) => {
            Err(Error::new(SqlState::DATETIME_OVERFLOW, "the time of a point must be finite"))
        }
        Datum::Timestamp(time) | Datum::Timestamptz(time) => Ok(*time),
        _ => Err(mismatch()),
    }
}

/// A time as the type that an argument has.
fn time_datum(ty: TypeId, time: i64) -> Datum<'static> {
    match ty {
        TypeId::INT8 => Datum::Int8(time),
        TypeId::TIMESTAMP => Datum::Timestamp(time),
        _ => Datum::Timestamptz(time),
    }
}

fn mismatch() -> Error {
    Error::bug("the argument of an aggregate is of another type")
}

/// The error for an argument that must have one value in all rows of a group.
fn changed(name: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("{name} must be the same for all rows of a group"))
}
