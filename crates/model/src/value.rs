//! One SQL value.

use std::cmp::Ordering;

use crate::nested::{Array, Bits, Geometry, Network, Range, Record};
use crate::numeric::Numeric;
use std::sync::Arc;

/// Microseconds in a day.
const DAY_MICROS: i64 = 86_400_000_000;
/// Days in a month for comparisons of intervals.
const MONTH_DAYS: i64 = 30;

/// A value of some type, or NULL; text and bytes are borrowed, from a row or a statement.
///
/// `==` compares representations, for tests and plans. [`Datum::compare`] is the comparison of SQL.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Datum<'a> {
    /// NULL.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar(n)`, `char(n)` without trailing blanks, `name`, `"char"`, `json`, and `jsonb` in its canonical text
    Text(&'a str),
    /// `bytea`
    Bytes(&'a [u8]),
    /// `uuid`
    Uuid([u8; 16]),
    /// `date`: days since 1970; the minimum and maximum of i32 are the infinities.
    Date(i32),
    /// `time`: microseconds since midnight.
    Time(i64),
    /// `timestamp`: microseconds since 1970 without time zone; the minimum and maximum of i64 are
    /// the infinities.
    Timestamp(i64),
    /// `timestamptz`: microseconds since 1970 UTC; the minimum and maximum of i64 are the
    /// infinities.
    Timestamptz(i64),
    /// `interval`
    Interval(Interval),
    /// `oid` and the types whose values are numbers of catalog rows: `regclass`, `regtype`, `xid`; a label of an enum
    /// type by its number
    Oid(u32),
    /// `timetz`
    TimeTz(TimeTz),
    /// `bit(n)`, `varbit`
    Bits(Bits<'a>),
    /// `inet`, `cidr`
    Network(Network),
    /// `macaddr` and `macaddr8`: six or eight bytes, the first one highest
    Mac(u64),
    /// An array of any type.
    Array(Arc<Array<'a>>),
    /// A row.
    Record(Arc<Record<'a>>),
    /// A range type.
    Range(Arc<Range<'a>>),
    /// A multirange type: ranges in order that neither touch nor overlap.
    Multirange(Arc<[Range<'a>]>),
    /// `point`, `line`, `lseg`, `box`, `path`, `polygon`, `circle`
    Geometry(Arc<Geometry>),
}

/// A time of day with its offset from UTC. SQL compares the moment in UTC, then the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeTz {
    /// Microseconds since midnight, local.
    pub micros: i64,
    /// Seconds west of UTC, as in PostgreSQL.
    pub west: i32,
}

impl TimeTz {
    /// Microseconds since midnight UTC; may be negative or more than a day.
    #[must_use]
    pub fn utc_micros(self) -> i64 {
        self.micros + i64::from(self.west) * 1_000_000
    }
}

impl Datum<'_> {
    /// Whether the value is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// Bytes on the heap that the value owns or shares, such as the elements of an array. Excludes the value itself and
    /// borrowed texts and bytes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        match self {
            Datum::Array(array) => array.heap_size(),
            Datum::Record(record) => record.heap_size(),
            Datum::Range(range) => size_of_val(&**range) + range.heap_size(),
            Datum::Multirange(ranges) => size_of_val(&**ranges) + ranges.iter().map(Range::heap_size).sum::<usize>(),
            Datum::Geometry(geometry) => geometry.heap_size(),
            _ => 0,
        }
    }

    /// Compares two values of the same type in the order of `ORDER BY`: NULL after everything, text
    /// by its bytes (collation C), NaN after every number, -0 equal to 0. `None` for values of
    /// different types.
    #[must_use]
    pub fn compare(&self, other: &Datum<'_>) -> Option<Ordering> {
        Some(match (self, other) {
            (Datum::Null, Datum::Null) => Ordering::Equal,
            (Datum::Null, _) => Ordering::Greater,
            (_, Datum::Null) => Ordering::Less,
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Int2(a), Datum::Int2(b)) => a.cmp(b),
            (Datum::Int4(a), Datum::Int4(b)) | (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
            (Datum::Int8(a), Datum::Int8(b))
            | (Datum::Time(a), Datum::Time(b))
            | (Datum::Timestamp(a), Datum::Timestamp(b))
            | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(b),
            (Datum::Float4(a), Datum::Float4(b)) => compare_floats((*a).into(), (*b).into()),
            (Datum::Float8(a), Datum::Float8(b)) => compare_floats(*a, *b),
            (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
            (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
            (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
            (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
            (Datum::Interval(a), Datum::Interval(b)) => a.span_micros().cmp(&b.span_micros()),
            (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
            (Datum::TimeTz(a), Datum::TimeTz(b)) => (a.utc_micros(), a.west).cmp(&(b.utc_micros(), b.west)),
            (Datum::Bits(a), Datum::Bits(b)) => a.cmp(b),
            (Datum::Network(a), Datum::Network(b)) => a.cmp(b),
            (Datum::Mac(a), Datum::Mac(b)) => a.cmp(b),
            (Datum::Array(a), Datum::Array(b)) => return a.compare(b),
            (Datum::Record(a), Datum::Record(b)) => return a.compare(b),
            (Datum::Range(a), Datum::Range(b)) => return a.compare(b),
            (Datum::Multirange(a), Datum::Multirange(b)) => return Range::compare_all(a, b),
            _ => return None,
        })
    }

    /// The SQL name of the type, for messages. Text and json have the same representation; only the
    /// column distinguishes them.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Datum::Null => "unknown",
            Datum::Bool(_) => "boolean",
            Datum::Int2(_) => "smallint",
            Datum::Int4(_) => "integer",
            Datum::Int8(_) => "bigint",
            Datum::Float4(_) => "real",
            Datum::Float8(_) => "double precision",
            Datum::Numeric(_) => "numeric",
            Datum::Text(_) => "text",
            Datum::Bytes(_) => "bytea",
            Datum::Uuid(_) => "uuid",
            Datum::Date(_) => "date",
            Datum::Time(_) => "time without time zone",
            Datum::Timestamp(_) => "timestamp without time zone",
            Datum::Timestamptz(_) => "timestamp with time zone",
            Datum::Interval(_) => "interval",
            Datum::Oid(_) => "oid",
            Datum::TimeTz(_) => "time with time zone",
            Datum::Bits(_) => "bit varying",
            Datum::Network(_) => "inet",
            Datum::Mac(_) => "macaddr",
            Datum::Array(_) => "anyarray",
            Datum::Record(_) => "record",
            Datum::Range(_) => "anyrange",
            Datum::Multirange(_) => "anymultirange",
            Datum::Geometry(geometry) => geometry.type_name(),
        }
    }
}

/// PostgreSQL's order: NaN equals itself and is greater than every number, -0 equals 0.
fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// A time span in PostgreSQL's representation: the three parts are independent. `==` compares the
/// parts; SQL compares [`Interval::span_micros`], where one month equals thirty days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months, including years.
    pub months: i32,
    /// Days, including weeks.
    pub days: i32,
    /// Microseconds, including hours.
    pub micros: i64,
}

impl Interval {
    /// Length in microseconds, with months of 30 days of 24 hours, by which intervals are compared.
    #[must_use]
    pub fn span_micros(self) -> i128 {
        let days = i64::from(self.months) * MONTH_DAYS + i64::from(self.days);
        i128::from(days) * i128::from(DAY_MICROS) + i128::from(self.micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows contain and statements pass many of them.
    #[test]
    fn a_datum_is_32_bytes() {
        assert_eq!(size_of::<Datum<'_>>(), 32);
    }

    #[test]
    fn values_have_the_order_of_postgresql() {
        let interval = |months, days, micros| Datum::Interval(Interval { months, days, micros });
        let numeric = |text: &str| Datum::Numeric(text.parse().unwrap());
        let ascending: [&[Datum<'_>]; 7] = [
            &[Datum::Bool(false), Datum::Bool(true), Datum::Null],
            &[
                Datum::Float8(f64::NEG_INFINITY),
                Datum::Float8(-1.5),
                Datum::Float8(0.0),
                Datum::Float8(f64::INFINITY),
                Datum::Float8(f64::NAN),
                Datum::Null,
            ],
            &[numeric("-Infinity"), numeric("-2"), numeric("1.5"), numeric("Infinity"), numeric("NaN")],
            &[Datum::Text(""), Datum::Text("A"), Datum::Text("B"), Datum::Text("a"), Datum::Text("é")],
            &[Datum::Bytes(&[0]), Datum::Bytes(&[0, 0]), Datum::Bytes(&[1])],
            &[Datum::Date(i32::MIN), Datum::Date(-1), Datum::Date(0), Datum::Date(i32::MAX)],
            &[interval(0, 0, -1), interval(0, 29, 0), interval(1, 0, 0), interval(0, 30, 1), interval(i32::MAX, 0, 0)],
        ];
        for values in ascending {
            for (at, value) in values.iter().enumerate() {
                for (other_at, other) in values.iter().enumerate() {
                    assert_eq!(value.compare(other), Some(at.cmp(&other_at)), "{value:?} against {other:?}");
                }
            }
        }
    }

    #[test]
    fn equal_values_may_have_different_representations() {
        for (a, b) in [
            (Datum::Float8(-0.0), Datum::Float8(0.0)),
            (Datum::Float4(f32::NAN), Datum::Float4(-f32::NAN)),
            (Datum::Numeric(Numeric::new(10, 1)), Datum::Numeric(Numeric::new(1, 0))),
            (
                Datum::Interval(Interval { months: 1, days: 0, micros: 0 }),
                Datum::Interval(Interval { months: 0, days: 29, micros: DAY_MICROS }),
            ),
        ] {
            assert_eq!(a.compare(&b), Some(Ordering::Equal), "{a:?} against {b:?}");
        }
    }

    #[test]
    fn values_of_different_types_are_not_compared() {
        assert_eq!(Datum::Int4(1).compare(&Datum::Int8(1)), None);
        assert_eq!(Datum::Timestamp(1).compare(&Datum::Timestamptz(1)), None);
    }
}
