//! Values of `rows` tables ([`model::Datum`]): encoding in both formats, decoding of the binary
//! format.
//!
//! Text from clients is parsed by SQL casts, which know the session's time zone and accept more
//! spellings.

use model::{Datum, Error, Interval, Numeric, Result, SqlState, Type};

use crate::frontend::utf8;
use crate::numeric;
use crate::time::{
    EPOCH_DAYS, EPOCH_MICROS, date_text, interval_binary, interval_text, parse_interval_binary, time_text,
    timestamp_text, timestamptz_text,
};
use crate::types::Form;
use crate::value::{bool_text, bytea_text, float4_text, float8_text, int_text, uuid_text};

/// Microseconds per day.
const DAY_MICROS: i64 = 86_400_000_000;

/// Appends a non-NULL value, without its length.
///
/// - `ty`: the column's type; `char(n)` is padded with blanks.
/// - `offset`: returns the session time zone's offset, in seconds east of UTC, at a time in seconds
///   since 1970 UTC.
pub fn write(out: &mut Vec<u8>, datum: &Datum<'_>, ty: Type, form: Form, offset: &mut dyn FnMut(i64) -> i32) {
    match form {
        Form::Text => write_text(out, datum, ty, offset),
        Form::Binary => write_binary(out, datum, ty),
    }
}

fn write_text(out: &mut Vec<u8>, datum: &Datum<'_>, ty: Type, offset: &mut dyn FnMut(i64) -> i32) {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => bool_text(out, *value),
        Datum::Int2(value) => int_text(out, i64::from(*value)),
        Datum::Int4(value) => int_text(out, i64::from(*value)),
        Datum::Int8(value) => int_text(out, *value),
        Datum::Float4(value) => float4_text(out, *value),
        Datum::Float8(value) => float8_text(out, *value),
        Datum::Numeric(value) => value.write_text(out),
        Datum::Text(text) => padded(out, text, ty),
        Datum::Bytes(bytes) => bytea_text(out, bytes),
        Datum::Uuid(uuid) => uuid_text(out, uuid),
        Datum::Date(days) => date_text(out, pg_days(*days)),
        Datum::Time(micros) => time_text(out, *micros),
        Datum::Timestamp(micros) => timestamp_text(out, pg_micros(*micros)),
        Datum::Timestamptz(micros) => timestamptz_text(out, pg_micros(*micros), offset(micros.div_euclid(1_000_000))),
        Datum::Interval(interval) => interval_text(out, *interval),
        other => no_column(other),
    }
}

fn write_binary(out: &mut Vec<u8>, datum: &Datum<'_>, ty: Type) {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int8(value) | Datum::Time(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => numeric::write_binary(out, value),
        Datum::Text(text) => padded(out, text, ty),
        Datum::Bytes(bytes) => out.extend_from_slice(bytes),
        Datum::Uuid(uuid) => out.extend_from_slice(uuid),
        Datum::Date(days) => out.extend_from_slice(&pg_days(*days).to_be_bytes()),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => {
            out.extend_from_slice(&pg_micros(*micros).to_be_bytes());
        }
        Datum::Interval(interval) => out.extend_from_slice(&interval_binary(*interval)),
        other => no_column(other),
    }
}

/// Values of types that [`Type`] has no variant for do not come here.
fn no_column(datum: &Datum<'_>) {
    debug_assert!(false, "a column of type {}", datum.type_name());
}

fn padded(out: &mut Vec<u8>, text: &str, ty: Type) {
    out.extend_from_slice(text.as_bytes());
    out.resize(out.len() + ty.padding(text), b' ');
}

/// Days since 2000-01-01; the infinities are unchanged.
fn pg_days(days: i32) -> i32 {
    if matches!(days, i32::MIN | i32::MAX) { days } else { days.saturating_sub(EPOCH_DAYS) }
}

/// Microseconds since 2000-01-01; the infinities are unchanged.
fn pg_micros(micros: i64) -> i64 {
    if matches!(micros, i64::MIN | i64::MAX) { micros } else { micros.saturating_sub(EPOCH_MICROS) }
}

/// Decodes a value of type `ty` in binary format.
///
/// # Errors
/// 22P03 for malformed bytes, 22021 for text that is not UTF-8, 22P02 for invalid JSON, 22008 for a
/// date or time out of range.
pub fn read_binary(ty: Type, bytes: &[u8]) -> Result<Datum<'_>> {
    Ok(match ty.base() {
        Type::Other(_) => return Err(Error::bug(format!("a binary {ty} without its decoder"))),
        Type::Bool => Datum::Bool(fixed::<1>(ty, bytes)? != [0]),
        Type::Int2 => Datum::Int2(i16::from_be_bytes(fixed(ty, bytes)?)),
        Type::Int4 => Datum::Int4(i32::from_be_bytes(fixed(ty, bytes)?)),
        Type::Int8 => Datum::Int8(i64::from_be_bytes(fixed(ty, bytes)?)),
        Type::Float4 => Datum::Float4(f32::from_be_bytes(fixed(ty, bytes)?)),
        Type::Float8 => Datum::Float8(f64::from_be_bytes(fixed(ty, bytes)?)),
        Type::Numeric(_) => Datum::Numeric(read_numeric(bytes)?),
        Type::Text | Type::Varchar(_) | Type::Char(_) => Datum::Text(read_text(bytes)?),
        Type::Json => {
            let text = read_text(bytes)?;
            crate::json::check(text)?;
            Datum::Text(text)
        }
        Type::Bytes => Datum::Bytes(bytes),
        Type::Uuid => Datum::Uuid(fixed(ty, bytes)?),
        Type::Date => Datum::Date(days(i32::from_be_bytes(fixed(ty, bytes)?))?),
        Type::Time => Datum::Time(time(i64::from_be_bytes(fixed(ty, bytes)?))?),
        Type::Timestamp => Datum::Timestamp(micros(i64::from_be_bytes(fixed(ty, bytes)?))?),
        Type::Timestamptz => Datum::Timestamptz(micros(i64::from_be_bytes(fixed(ty, bytes)?))?),
        Type::Interval => Datum::Interval(read_interval(bytes)?),
    })
}

/// Validates text from a client.
///
/// # Errors
/// 22021 for invalid UTF-8 and for zero bytes, which PostgreSQL's text does not allow.
pub fn read_text(bytes: &[u8]) -> Result<&str> {
    let text = utf8(bytes)?;
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    Ok(text)
}

fn read_numeric(bytes: &[u8]) -> Result<Numeric> {
    numeric::parse_binary(bytes)
}

fn read_interval(bytes: &[u8]) -> Result<Interval> {
    parse_interval_binary(bytes)
}

fn fixed<const N: usize>(ty: Type, bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        let text = format!("invalid binary {}: {} bytes, expected {N}", ty.sql_name(), bytes.len());
        Error::new(SqlState::INVALID_BINARY_REPRESENTATION, text)
    })
}

fn days(pg_days: i32) -> Result<i32> {
    if matches!(pg_days, i32::MIN | i32::MAX) {
        return Ok(pg_days);
    }
    pg_days.checked_add(EPOCH_DAYS).filter(|days| *days != i32::MAX).ok_or_else(|| out_of_range("date"))
}

fn micros(pg_micros: i64) -> Result<i64> {
    if matches!(pg_micros, i64::MIN | i64::MAX) {
        return Ok(pg_micros);
    }
    pg_micros.checked_add(EPOCH_MICROS).filter(|micros| *micros != i64::MAX).ok_or_else(|| out_of_range("timestamp"))
}

fn time(micros: i64) -> Result<i64> {
    if (0..=DAY_MICROS).contains(&micros) { Ok(micros) } else { Err(out_of_range("time")) }
}

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("{what} out of range"))
}

#[cfg(test)]
mod tests {
    use model::numeric::Precision;

    use super::*;

    fn text(datum: &Datum<'_>, ty: Type) -> String {
        let mut out = Vec::new();
        write(&mut out, datum, ty, Form::Text, &mut |_| 3_600);
        String::from_utf8(out).unwrap()
    }

    /// Cases as sent by PostgreSQL 15 with a TimeZone one hour east of UTC.
    #[test]
    fn text_equals_postgresqls() {
        let numeric = |text: &str| Datum::Numeric(text.parse().unwrap());
        let interval = Datum::Interval(Interval { months: 14, days: -3, micros: 3_723_000_000 });
        for (datum, ty, expected) in [
            (Datum::Bool(true), Type::Bool, "t"),
            (Datum::Int2(-7), Type::Int2, "-7"),
            (Datum::Float8(0.1), Type::Float8, "0.1"),
            (numeric("10.50"), Type::Numeric(Some(Precision { digits: 4, scale: 2 })), "10.50"),
            (Datum::Text("ab"), Type::Char(Some(4)), "ab  "),
            (Datum::Text("ab"), Type::Varchar(Some(4)), "ab"),
            (Datum::Bytes(&[0, 255]), Type::Bytes, "\\x00ff"),
            (Datum::Date(0), Type::Date, "1970-01-01"),
            (Datum::Date(i32::MAX), Type::Date, "infinity"),
            (Datum::Time(1_500_000), Type::Time, "00:00:01.5"),
            (Datum::Timestamp(0), Type::Timestamp, "1970-01-01 00:00:00"),
            (Datum::Timestamp(i64::MIN), Type::Timestamp, "-infinity"),
            (Datum::Timestamptz(-1), Type::Timestamptz, "1970-01-01 00:59:59.999999+01"),
            (interval, Type::Interval, "1 year 2 mons -3 days +01:02:03"),
        ] {
            assert_eq!(text(&datum, ty), expected);
        }
    }

    #[test]
    fn binary_values_round_trip() {
        let numeric = |text: &str| Datum::Numeric(text.parse().unwrap());
        for (datum, ty) in [
            (Datum::Bool(false), Type::Bool),
            (Datum::Int2(i16::MIN), Type::Int2),
            (Datum::Int4(i32::MAX), Type::Int4),
            (Datum::Int8(-1), Type::Int8),
            (Datum::Float4(1.5), Type::Float4),
            (Datum::Float8(-0.0), Type::Float8),
            (numeric("-123456789012345678901234567890123456789012345.678"), Type::Numeric(None)),
            (numeric("NaN"), Type::Numeric(None)),
            (Datum::Text("zwölf"), Type::Text),
            (Datum::Text("{\"a\": 1}"), Type::Json),
            (Datum::Bytes(&[1, 2, 3]), Type::Bytes),
            (Datum::Uuid([7; 16]), Type::Uuid),
            (Datum::Date(-719_162), Type::Date),
            (Datum::Date(i32::MIN), Type::Date),
            (Datum::Time(86_400_000_000), Type::Time),
            (Datum::Timestamp(253_402_300_799_999_999), Type::Timestamp),
            (Datum::Timestamptz(i64::MAX), Type::Timestamptz),
            (Datum::Interval(Interval { months: -1, days: 2, micros: -3 }), Type::Interval),
        ] {
            let mut out = Vec::new();
            write(&mut out, &datum, ty, Form::Binary, &mut |_| 0);
            assert_eq!(read_binary(ty, &out).unwrap(), datum, "{ty}");
        }
    }

    #[test]
    fn malformed_binary_values_are_refused() {
        let state = |ty, bytes: &[u8]| read_binary(ty, bytes).unwrap_err().state();
        for ty in [Type::Bool, Type::Int2, Type::Int4, Type::Int8, Type::Float8, Type::Uuid, Type::Date, Type::Interval]
        {
            assert_eq!(state(ty, &[0; 3]), SqlState::INVALID_BINARY_REPRESENTATION, "{ty}");
        }
        assert_eq!(state(Type::Date, &(i32::MAX - 1).to_be_bytes()), SqlState::DATETIME_OVERFLOW);
        assert_eq!(state(Type::Timestamp, &(i64::MAX - 1).to_be_bytes()), SqlState::DATETIME_OVERFLOW);
        assert_eq!(state(Type::Time, &(-1i64).to_be_bytes()), SqlState::DATETIME_OVERFLOW);
        assert_eq!(state(Type::Text, &[0xff]), SqlState("22021"));
        assert_eq!(state(Type::Text, b"a\0b"), SqlState("22021"));
        assert!(read_binary(Type::Numeric(None), &[1]).is_err());
    }
}
