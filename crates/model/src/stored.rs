//! The forms in which `columns` tables store values of types that their encodings do not have.
//!
//! A field has a [`DataType`] that is stored and, if that does not tell the SQL type, a declared [`Type`]:
//!
//! | SQL type | stored as |
//! |---|---|
//! | `date` | `integer`: days since 1970 |
//! | `time`, `timestamp` | `bigint`: nanoseconds since midnight, since 1970; `timestamp` without its infinities |
//! | `timestamptz(p)` | `timestamptz` |
//! | `numeric(p, s)`, p at most 18 and s at least 0 | `bigint`: the number × 10^s |
//! | `uuid`, `json`, `jsonb`, `name`, `"char"`, `jsonpath` | `text` |
//! | `interval` | `bytea`: months, days, microseconds, highest byte first |
//! | enum types, `oid` and its like | `bigint` |
//! | all others, such as arrays, ranges and `numeric` | `bytea`: [`crate::encoding`] |
//!
//! Arrow arrays of the stored types are those of the SQL types but for their Arrow type, or little more, so that scans convert
//! them without a copy or at the cost of one.

use crate::numeric::Precision;
use crate::other_type::Storage;
use crate::{DataType, Datum, Error, Interval, Numeric, Result, SqlState, Type, encoding, user_types};

/// Digits of a `numeric` that a `bigint` has in any case.
const DIGITS_MAX: u16 = 18;
/// Digits after the point of a `numeric` that is stored as a `bigint`.
const SCALE_MAX: i16 = 38;
/// Bytes of a stored interval.
const INTERVAL_BYTES: usize = 16;

/// A value in its stored form.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored<'a> {
    /// NULL
    Null,
    /// Of a whole-number type.
    Int(i64),
    /// Of `text`.
    Text(&'a str),
    /// Of `text`, made by the conversion.
    Made(String),
    /// Of `bytea`.
    Bytes(&'a [u8]),
    /// Of `bytea`, made by the conversion.
    Encoded(Vec<u8>),
    /// Nanoseconds since 1970 UTC.
    Moment(i64),
}

impl Type {
    /// The type in which `columns` tables store values of this type; `None` for a type that they do not have: composite types,
    /// arrays of user types, `money`, geometric types, types of catalog rows such as `regclass`, and declared lengths of bit strings
    /// and of the elements of arrays.
    #[must_use]
    pub fn stored(self) -> Option<DataType> {
        Some(match self.base() {
            Type::Bool => DataType::Bool,
            Type::Int2 => DataType::Int16,
            Type::Int4 | Type::Date => DataType::Int32,
            Type::Int8 | Type::Time | Type::Timestamp => DataType::Int64,
            Type::Float4 => DataType::Float32,
            Type::Float8 => DataType::Float64,
            Type::Numeric(Some(Precision { digits: 20, scale: 0 })) => DataType::UInt64,
            Type::Numeric(Some(of)) if of.digits <= DIGITS_MAX && (0..=SCALE_MAX).contains(&of.scale) => {
                DataType::Int64
            }
            Type::Numeric(_) | Type::Bytes | Type::Interval => DataType::Bytes,
            Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid | Type::Json => DataType::Text,
            Type::Timestamptz => DataType::Timestamp,
            Type::Other(other) if user_types::is_enum(other.oid) => DataType::Int64,
            Type::Other(other) if user_types::is_user(other.oid) || other.typmod >= 0 => return None,
            Type::Other(other) => {
                let of = other.element().map_or(other.oid, Type::oid);
                match other.storage() {
                    _ if !HAS_FORM.contains(&of) => return None,
                    Storage::Text => DataType::Text,
                    Storage::Oid => DataType::Int64,
                    Storage::Encoded => DataType::Bytes,
                }
            }
        })
    }

    /// Whether equal values have the same stored form, so that a key column of `columns` tables can have the type if it is a built-in one.
    #[must_use]
    pub fn is_stored_alike(self) -> bool {
        match self.stored() {
            None | Some(DataType::Float32 | DataType::Float64) => false,
            Some(DataType::Bytes) => self == Type::Bytes,
            // Numbers in jsonb may differ in zeros at their end.
            Some(DataType::Text) => self == Type::Uuid || !self.is_declared() || matches!(self.oid(), 18 | 19),
            Some(_) => true,
        }
    }

    /// Whether a column of `columns` tables has to keep this type, because the stored one does not tell it. The lengths of
    /// `varchar(n)` and `char(n)` are not kept: such columns are `text`.
    #[must_use]
    pub fn is_declared(self) -> bool {
        !matches!(self, Type::Varchar(_) | Type::Char(_))
            && self.stored().is_some_and(|stored| stored.row_type() != self)
    }
}

/// OIDs of the built-in types with a stored form; arrays of them have one too.
const HAS_FORM: &[u32] = &[
    16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 650, 700, 701, 774, 829, 869, 1042, 1043, 1082, 1083, 1114, 1184, 1186,
    1266, 1560, 1562, 1700, 2950, 3802, 3904, 3906, 3908, 3910, 3912, 3926, 4072, 4451, 4532, 4533, 4534, 4535, 4536,
];

impl Stored<'_> {
    /// The value without a borrow.
    #[must_use]
    pub fn into_owned(self) -> Stored<'static> {
        match self {
            Stored::Null => Stored::Null,
            Stored::Int(value) => Stored::Int(value),
            Stored::Moment(ns) => Stored::Moment(ns),
            Stored::Text(text) => Stored::Made(text.to_owned()),
            Stored::Made(text) => Stored::Made(text),
            Stored::Bytes(bytes) => Stored::Encoded(bytes.to_vec()),
            Stored::Encoded(bytes) => Stored::Encoded(bytes),
        }
    }
}

/// A value of a declared type in its stored form. Precondition: it is a value of the type, as an assignment makes it.
///
/// # Errors
/// 22008 for a time or an interval out of the range of nanoseconds, and for an infinite time; 22003 for NaN of a `numeric` that is stored as
/// a number; XX000 for a value of another type.
pub fn store<'a>(ty: Type, value: &Datum<'a>) -> Result<Stored<'a>> {
    Ok(match (ty.base(), value) {
        (_, Datum::Null) => Stored::Null,
        (Type::Date, Datum::Date(days)) => Stored::Int((*days).into()),
        (Type::Time, Datum::Time(micros)) => Stored::Int(micros * 1_000),
        (Type::Timestamp, Datum::Timestamp(micros)) if !matches!(*micros, i64::MIN | i64::MAX) => {
            Stored::Int(nanos(*micros)?)
        }
        (Type::Timestamp, Datum::Timestamp(_)) => return Err(out_of_range()),
        (Type::Timestamptz, Datum::Timestamptz(micros)) if !matches!(*micros, i64::MIN | i64::MAX) => {
            Stored::Moment(nanos(*micros)?)
        }
        (Type::Timestamptz, Datum::Timestamptz(_)) => return Err(out_of_range()),
        (Type::Numeric(Some(of)), Datum::Numeric(value)) if ty.stored() == Some(DataType::Int64) => {
            let unscaled = value.unscaled(of.scale.into()).and_then(|value| i64::try_from(value).ok());
            Stored::Int(unscaled.ok_or_else(|| {
                let text = format!("a field of type {ty} of a columns table cannot store {value}");
                Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text).with_hint("numeric without precision can")
            })?)
        }
        (Type::Interval, Datum::Interval(value)) => {
            if value.micros.checked_mul(1_000).is_none() {
                return Err(Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
                    .with_detail("columns tables store up to 292 years of hours, minutes and seconds."));
            }
            let mut bytes = Vec::with_capacity(INTERVAL_BYTES);
            bytes.extend(value.months.to_be_bytes());
            bytes.extend(value.days.to_be_bytes());
            bytes.extend(value.micros.to_be_bytes());
            Stored::Encoded(bytes)
        }
        (Type::Uuid, Datum::Uuid(value)) => Stored::Made(uuid_text(value)),
        (_, Datum::Text(text)) if ty.stored() == Some(DataType::Text) => Stored::Text(text),
        (_, Datum::Oid(number)) if ty.stored() == Some(DataType::Int64) => Stored::Int((*number).into()),
        (_, value) if ty.stored() == Some(DataType::Bytes) => {
            let mut bytes = Vec::new();
            encoding::encode(value, &mut bytes);
            Stored::Encoded(bytes)
        }
        (_, other) => return Err(Error::bug(format!("a {} in a column of type {ty}", other.type_name()))),
    })
}

/// The value of a declared type from its stored form.
///
/// # Errors
/// XX000 for a form that is not of the type; XX001 for bytes that are none.
pub fn load<'a>(ty: Type, stored: &Stored<'a>) -> Result<Datum<'a>> {
    let wrong = || Error::bug(format!("{stored:?} in a column of type {ty}"));
    Ok(match (ty.base(), stored) {
        (_, Stored::Null) => Datum::Null,
        (Type::Date, Stored::Int(days)) => Datum::Date(i32::try_from(*days).map_err(|_| wrong())?),
        (Type::Time, Stored::Int(ns)) => Datum::Time(ns.div_euclid(1_000)),
        (Type::Timestamp, Stored::Int(ns)) => Datum::Timestamp(ns.div_euclid(1_000)),
        (Type::Timestamptz, Stored::Moment(ns)) => Datum::Timestamptz(ns.div_euclid(1_000)),
        (Type::Numeric(Some(of)), Stored::Int(unscaled)) => {
            Datum::Numeric(Numeric::new((*unscaled).into(), u32::try_from(of.scale).map_err(|_| wrong())?))
        }
        (Type::Interval, Stored::Bytes(bytes)) => Datum::Interval(interval(bytes)?),
        (Type::Uuid, Stored::Text(text)) => Datum::Uuid(uuid(text).ok_or_else(wrong)?),
        (_, Stored::Text(text)) => Datum::Text(text),
        (_, Stored::Int(number)) => Datum::Oid(u32::try_from(*number).map_err(|_| wrong())?),
        (_, Stored::Bytes(bytes)) => encoding::decode(bytes)?,
        _ => return Err(wrong()),
    })
}

/// The interval that stored bytes are.
///
/// # Errors
/// XX001 for bytes that are none.
pub fn interval(bytes: &[u8]) -> Result<Interval> {
    let malformed = || Error::new(SqlState::DATA_CORRUPTED, format!("{} bytes are no stored interval", bytes.len()));
    let (months, rest) = bytes.split_first_chunk().ok_or_else(malformed)?;
    let (days, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
    let micros = rest.try_into().map_err(|_| malformed())?;
    Ok(Interval {
        months: i32::from_be_bytes(*months),
        days: i32::from_be_bytes(*days),
        micros: i64::from_be_bytes(micros),
    })
}

fn nanos(micros: i64) -> Result<i64> {
    micros.checked_mul(1_000).ok_or_else(out_of_range)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
        .with_detail("columns tables store times from 1677-09-21 to 2262-04-11.")
}

/// The canonical text.
fn uuid_text(value: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in value.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text
}

/// The value of a canonical text.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut value = [0; 16];
    let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| char::from(byte).to_digit(16));
    for byte in &mut value {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    digits.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(digits: u16, scale: i16) -> Type {
        Type::Numeric(Some(Precision { digits, scale }))
    }

    fn other(oid: u32, typmod: i32) -> Type {
        Type::from_oid(oid, typmod).unwrap()
    }

    #[test]
    fn a_value_is_the_same_after_it_was_stored() {
        let bits: [(Type, Datum<'_>); 20] = [
            (Type::Date, Datum::Date(-1)),
            (Type::Date, Datum::Date(i32::MAX)),
            (Type::Time, Datum::Time(86_400_000_000)),
            (Type::Timestamp, Datum::Timestamp(-1)),
            (Type::Interval, Datum::Interval(Interval { months: 1, days: 0, micros: i64::MAX / 1_000 })),
            (other(1_114, 3), Datum::Timestamp(5_000)),
            (other(1_184, 0), Datum::Timestamptz(1_000_000)),
            (numeric(18, 4), Datum::Numeric(Numeric::new(-999_999_999_999_999_999, 4))),
            (numeric(3, 5), Datum::Numeric(Numeric::new(123, 5))),
            (numeric(30, 2), Datum::Numeric(Numeric::new(1_i128 << 90, 2))),
            (Type::Numeric(None), Datum::Numeric(Numeric::new(150, 2))),
            (Type::Uuid, Datum::Uuid([0xab; 16])),
            (Type::Json, Datum::Text("{ }")),
            (other(3_802, -1), Datum::Text("{\"a\": 1}")),
            (other(19, -1), Datum::Text("n")),
            (other(26, -1), Datum::Oid(u32::MAX)),
            (Type::Interval, Datum::Interval(Interval { months: -1, days: 2, micros: i64::MIN / 1_000 })),
            (other(1_266, -1), Datum::TimeTz(crate::TimeTz { micros: 1, west: 3_600 })),
            (other(829, -1), Datum::Mac(7)),
            (Type::Date, Datum::Null),
        ];
        for (ty, value) in bits {
            let stored = store(ty, &value).unwrap();
            let again = match &stored {
                Stored::Made(text) => Stored::Text(text),
                Stored::Encoded(bytes) => Stored::Bytes(bytes),
                other => other.clone(),
            };
            assert_eq!(load(ty, &again).unwrap(), value, "{ty}");
        }
    }

    #[test]
    fn a_value_without_a_stored_form_is_refused() {
        for (ty, value, state) in [
            (Type::Timestamp, Datum::Timestamp(i64::MAX / 999), "22008"),
            (Type::Timestamptz, Datum::Timestamptz(i64::MAX), "22008"),
            (Type::Timestamp, Datum::Timestamp(i64::MIN), "22008"),
            (Type::Interval, Datum::Interval(Interval { months: 0, days: 0, micros: i64::MAX }), "22008"),
            (numeric(5, 2), Datum::Numeric("NaN".parse().unwrap()), "22003"),
            (Type::Date, Datum::Int4(1), "XX000"),
        ] {
            assert_eq!(store(ty, &value).unwrap_err().state().0, state, "{ty}");
        }
    }

    #[test]
    fn only_types_that_the_stored_type_does_not_tell_are_declared() {
        for ty in
            [Type::Bool, Type::Int8, Type::Text, Type::Varchar(Some(3)), Type::Timestamptz, numeric(20, 0), Type::Bytes]
        {
            assert!(!ty.is_declared(), "{ty}");
        }
        for ty in
            [Type::Date, Type::Numeric(None), numeric(10, 2), other(1_184, 3), Type::Uuid, Type::Json, other(1_007, -1)]
        {
            assert!(ty.is_declared(), "{ty}");
        }
        for ty in [other(790, -1), other(600, -1), other(2_205, -1), other(2_210, -1)] {
            assert_eq!(ty.stored(), None, "{ty}");
        }
    }
}
