//! Dates, times, timestamps and intervals.
//!
//! Values count from 1970: dates in days, timestamps in microseconds. The calendar is the Gregorian one at all times.
//! A file has the functions of one subject and lists them in its table.

mod abbreviations;
mod aggregates;
mod arguments;
mod arithmetic;
mod calendar;
mod casts;
mod compare;
mod extract;
mod from_text;
mod in_range;
mod intervals;
mod make;
mod overlaps;
mod read;
mod read_interval;
mod reader;
mod series;
#[cfg(test)]
mod session_tests;
mod template;
mod to_char;
mod tokens;
mod truncate;
mod types;
mod words;
mod write;
mod zone;
mod zones;

pub use self::abbreviations::zone_abbreviations;
pub use self::arithmetic::{date_difference, date_plus_days};
pub use self::zone::zone_moment;
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family =
    Family { types: types::TYPES, functions: &ALL, sets: series::SETS, aggregates: aggregates::AGGREGATES };

type Table = &'static [(&'static str, Function)];

const TABLES: &[Table] = &[
    arithmetic::FUNCTIONS,
    casts::FUNCTIONS,
    compare::FUNCTIONS,
    extract::FUNCTIONS,
    from_text::FUNCTIONS,
    in_range::FUNCTIONS,
    intervals::FUNCTIONS,
    make::FUNCTIONS,
    overlaps::FUNCTIONS,
    to_char::FUNCTIONS,
    truncate::FUNCTIONS,
    zones::FUNCTIONS,
];

static ALL: [(&str, Function); count(TABLES)] = joined(TABLES);

const fn count(tables: &[Table]) -> usize {
    let (mut at, mut sum) = (0, 0);
    while at < tables.len() {
        sum += tables[at].len();
        at += 1;
    }
    sum
}

const fn joined<const COUNT: usize>(tables: &[Table]) -> [(&'static str, Function); COUNT] {
    let mut all = [tables[0][0]; COUNT];
    let (mut table, mut row, mut at) = (0, 0, 0);
    while at < COUNT {
        while row == tables[table].len() {
            (table, row) = (table + 1, 0);
        }
        all[at] = tables[table][row];
        (at, row) = (at + 1, row + 1);
    }
    all
}
