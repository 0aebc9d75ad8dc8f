//! Values of arguments. A value of another type is an error of the caller.

use model::{Datum, Error, Interval, Result, TimeTz};

macro_rules! readers {
    ($($name:ident, $variant:ident, $type:ty;)*) => {
        $(pub(super) fn $name(arguments: &[Datum<'_>], at: usize) -> Result<$type> {
            match arguments.get(at) {
                Some(Datum::$variant(value)) => Ok(*value),
                _ => Err(Error::bug(concat!("an argument that is no ", stringify!($name)))),
            }
        })*
    };
}

readers! {
    int4, Int4, i32;
    float8, Float8, f64;
    date, Date, i32;
    time, Time, i64;
    timetz, TimeTz, TimeTz;
    timestamp, Timestamp, i64;
    timestamptz, Timestamptz, i64;
    interval, Interval, Interval;
}

pub(super) fn text<'a>(arguments: &[Datum<'a>], at: usize) -> Result<&'a str> {
    match arguments.get(at) {
        Some(Datum::Text(value)) => Ok(value),
        _ => Err(Error::bug("an argument that is no text")),
    }
}
