//! Assignment: what a value becomes when it is put into a column, by PostgreSQL's rules for assignment casts.
//!
//! Casts that need more than the two types are the SQL layer's, before it comes here: anything to text (how a date is written
//! depends on the session), text to anything (an unquoted literal has a type by then), and between timestamps with and
//! without zone.

use model::limits::VALUE_BYTES_MAX;
use model::{Datum, Error, Numeric, Result, SqlState, Type};

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// `datum` as a column of type `ty` keeps it. Borrows what `datum` borrows; nothing is allocated for numbers of up to 38
/// digits, or text.
///
/// # Errors
/// 22001 for text too long, 22003 for a number out of range, 22008 for a date out of range, 0A000 for NaN or infinity as an
/// integer, 54000 for more than [`VALUE_BYTES_MAX`] bytes, 42804 for a value that is not assigned to such a column.
pub fn assign<'a>(ty: Type, datum: Datum<'a>) -> Result<Datum<'a>> {
    Ok(match (ty, datum) {
        (_, Datum::Null) => Datum::Null,
        (Type::Bool, Datum::Bool(value)) => Datum::Bool(value),
        (Type::Int2, datum) => Datum::Int2(match datum {
            Datum::Int2(value) => value,
            Datum::Numeric(value) => value.to_i16()?,
            other => narrow(ty, whole(ty, &other)?)?,
        }),
        (Type::Int4, datum) => Datum::Int4(match datum {
            Datum::Int4(value) => value,
            Datum::Numeric(value) => value.to_i32()?,
            other => narrow(ty, whole(ty, &other)?)?,
        }),
        (Type::Int8, datum) => Datum::Int8(match datum {
            Datum::Numeric(value) => value.to_i64()?,
            other => whole(ty, &other)?,
        }),
        (Type::Float4, datum) => Datum::Float4(single(ty, &datum)?),
        (Type::Float8, datum) => Datum::Float8(double(ty, &datum)?),
        (Type::Numeric(precision), datum) => {
            let value = numeric(ty, datum)?;
            Datum::Numeric(match precision {
                Some(precision) => value.with_precision(precision)?,
                None => value,
            })
        }
        (Type::Text | Type::Varchar(None) | Type::Json, Datum::Text(text)) => {
            check_length(text.len())?;
            Datum::Text(text)
        }
        (Type::Varchar(Some(characters)), Datum::Text(text)) => {
            let text = limited(ty, text, characters)?;
            check_length(text.len())?;
            Datum::Text(text)
        }
        (Type::Char(characters), Datum::Text(text)) => {
            let text = characters.map_or(Ok(text), |characters| limited(ty, text, characters))?;
            let text = text.trim_end_matches(' ');
            check_length(text.len())?;
            Datum::Text(text)
        }
        (Type::Bytes, Datum::Bytes(bytes)) => {
            check_length(bytes.len())?;
            Datum::Bytes(bytes)
        }
        (Type::Uuid, Datum::Uuid(uuid)) => Datum::Uuid(uuid),
        (Type::Timestamptz, Datum::Timestamptz(micros)) => Datum::Timestamptz(micros),
        (ty, datum) => moment(ty, datum)?,
    })
}

fn mismatch(ty: Type, datum: &Datum<'_>) -> Error {
    let text = format!("a value of type {} cannot be assigned to a column of type {ty}", datum.type_name());
    Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint("cast the value to the column's type")
}

fn out_of_range(ty: Type) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{} out of range", ty.sql_name()))
}

fn narrow<T: TryFrom<i64>>(ty: Type, value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| out_of_range(ty))
}

/// An integer or a float as an integer; a half is rounded to the even one, as PostgreSQL rounds floats.
fn whole(ty: Type, datum: &Datum<'_>) -> Result<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let float = match datum {
        Datum::Int2(value) => return Ok((*value).into()),
        Datum::Int4(value) => return Ok((*value).into()),
        Datum::Int8(value) => return Ok(*value),
        Datum::Float4(value) => f64::from(*value),
        Datum::Float8(value) => *value,
        other => return Err(mismatch(ty, other)),
    };
    let rounded = float.round_ties_even();
    if (-END..END).contains(&rounded) { Ok(rounded as i64) } else { Err(out_of_range(ty)) }
}

fn single(ty: Type, datum: &Datum<'_>) -> Result<f32> {
    match datum {
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok(*value as f32),
        Datum::Int8(value) => Ok(*value as f32),
        Datum::Float4(value) => Ok(*value),
        Datum::Float8(value) => shortened(*value),
        Datum::Numeric(value) => value.to_f32(),
        other => Err(mismatch(ty, other)),
    }
}

fn shortened(value: f64) -> Result<f32> {
    let short = value as f32;
    let lost = |what: &str| Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("value out of range: {what}")));
    if short.is_infinite() && value.is_finite() {
        return lost("overflow");
    }
    if short == 0.0 && value != 0.0 {
        return lost("underflow");
    }
    Ok(short)
}

fn double(ty: Type, datum: &Datum<'_>) -> Result<f64> {
    match datum {
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok((*value).into()),
        Datum::Int8(value) => Ok(*value as f64),
        Datum::Float4(value) => Ok((*value).into()),
        Datum::Float8(value) => Ok(*value),
        Datum::Numeric(value) => value.to_f64(),
        other => Err(mismatch(ty, other)),
    }
}

fn numeric(ty: Type, datum: Datum<'_>) -> Result<Numeric> {
    match datum {
        Datum::Int2(value) => Ok(value.into()),
        Datum::Int4(value) => Ok(value.into()),
        Datum::Int8(value) => Ok(value.into()),
        Datum::Float4(value) => Ok(value.into()),
        Datum::Float8(value) => Ok(value.into()),
        Datum::Numeric(value) => Ok(value),
        other => Err(mismatch(ty, &other)),
    }
}

/// Cuts blanks beyond the declared length; anything else there is an error.
fn limited(ty: Type, text: &str, characters: u32) -> Result<&str> {
    let characters = characters as usize;
    if text.len() <= characters {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(characters) else { return Ok(text) };
    let (kept, beyond) = text.split_at(end);
    if beyond.bytes().all(|byte| byte == b' ') {
        return Ok(kept);
    }
    Err(Error::new(SqlState::STRING_TOO_LONG, format!("value too long for type {ty}")))
}

fn check_length(bytes: usize) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("value of {bytes} bytes is too long; the limit is {VALUE_BYTES_MAX}");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
}

/// Dates, times and spans, among which PostgreSQL casts when assigning.
fn moment<'a>(ty: Type, datum: Datum<'a>) -> Result<Datum<'a>> {
    Ok(match (ty, datum) {
        (Type::Date, Datum::Date(days)) => Datum::Date(days),
        (Type::Date, Datum::Timestamp(micros)) => Datum::Date(date_of(micros)),
        (Type::Time, Datum::Time(micros)) => Datum::Time(micros),
        // An infinite moment has no time of day.
        (Type::Time, Datum::Timestamp(i64::MIN | i64::MAX)) => Datum::Null,
        (Type::Time, Datum::Timestamp(micros)) => Datum::Time(micros.rem_euclid(DAY_MICROS)),
        (Type::Time, Datum::Interval(interval)) => Datum::Time(interval.micros.rem_euclid(DAY_MICROS)),
        (Type::Timestamp, Datum::Timestamp(micros)) => Datum::Timestamp(micros),
        (Type::Timestamp, Datum::Date(days)) => Datum::Timestamp(midnight_of(days)?),
        (Type::Interval, Datum::Interval(interval)) => Datum::Interval(interval),
        (Type::Interval, Datum::Time(micros)) => Datum::Interval(model::Interval { micros, ..Default::default() }),
        (ty, datum) => return Err(mismatch(ty, &datum)),
    })
}

fn date_of(micros: i64) -> i32 {
    match micros {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        // At most 106,751,992 days either way.
        _ => micros.div_euclid(DAY_MICROS) as i32,
    }
}

fn midnight_of(days: i32) -> Result<i64> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ => i64::from(days)
            .checked_mul(DAY_MICROS)
            .ok_or_else(|| Error::new(SqlState::DATETIME_OVERFLOW, "date out of range for timestamp")),
    }
}
