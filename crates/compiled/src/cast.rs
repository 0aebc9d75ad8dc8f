//! Casts between types, by PostgreSQL's rules.

use bumpalo::Bump;
use catalog::TypeId;
use model::{Datum, OtherType, Result, Type};
use pg::Form;

/// The context of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// `CAST`, `::`, or inserted by the binder: text too long for `varchar(n)` is truncated.
    Explicit,
    /// Assignment to a column: a value that does not fit is an error.
    Assignment,
}

/// The session's time zone and formats: converts between UTC and local time, and reads dates and times. Times are in
/// microseconds since 1970.
pub trait Zone {
    /// Local time at an instant (UTC).
    fn local(&self, micros: i64) -> i64;
    /// The instant at which local clocks show `local`; the earlier one if there are two.
    fn moment(&self, local: i64) -> i64;
    /// Reads a date, time, timestamp, timestamptz or interval. Settings such as DateStyle and the present time (`today`)
    /// decide what a text means.
    ///
    /// # Errors
    /// 22007, 22008, 22023.
    fn input(&self, text: &str, ty: Type) -> Result<Datum<'static>>;
    /// Facts of the session for definitions, and for expressions of crate `scalar`, which bound queries
    /// ([`crate::lower`]), defaults and constraints have. They are asked for once for each run that needs them.
    fn facts(&self) -> Option<&scalar::Session> {
        None
    }
    /// Settings for values of types that crate `scalar` reads and writes, where [`Zone::facts`] are absent.
    fn session(&self) -> scalar::Session {
        scalar::Session::default()
    }
}

/// Casts a value. Precondition: PostgreSQL has the cast, and it is one of those by value or by text.
pub(crate) fn cast<'a>(value: Datum<'a>, to: Type, by: Context, zone: &dyn Zone, arena: &'a Bump) -> Result<Datum<'a>> {
    match (value, to) {
        (Datum::Null, _) => Ok(Datum::Null),
        (Datum::Text(text), Type::Json) => pg::json::check(text).map(|()| Datum::Text(text)),
        (Datum::Text(text), Type::Text | Type::Varchar(_) | Type::Char(_)) => {
            let text = if by == Context::Explicit { cut(text, to) } else { text };
            rows::coerce(to, Datum::Text(text))
        }
        (Datum::Text(text), to) => {
            let value = parse(text, to, zone, arena)?;
            rows::coerce(to, limited(value, to, by, zone, arena)?)
        }
        (Datum::Bool(value), Type::Int4) => Ok(Datum::Int4(value.into())),
        (Datum::Int4(value), Type::Bool) => Ok(Datum::Bool(value != 0)),
        (Datum::Timestamptz(micros), Type::Timestamp) => Ok(Datum::Timestamp(zone.local(micros))),
        (Datum::Timestamptz(micros), Type::Date | Type::Time) => rows::coerce(to, Datum::Timestamp(zone.local(micros))),
        (Datum::Timestamp(local), Type::Timestamptz) => Ok(Datum::Timestamptz(moment(local, zone))),
        (Datum::Date(days), Type::Timestamptz) => match rows::coerce(Type::Timestamp, Datum::Date(days))? {
            Datum::Timestamp(local) => Ok(Datum::Timestamptz(moment(local, zone))),
            other => Ok(other),
        },
        (value, Type::Text | Type::Varchar(_) | Type::Char(_)) => {
            let text = arena.alloc_str(&text_of(&value, zone));
            cast(Datum::Text(text), to, by, zone, arena)
        }
        (value, to) => rows::coerce(to, value),
    }
}

/// Reads a value in a client's format, and assigns it to a column of a type.
///
/// # Errors
/// PostgreSQL's for a text or bytes that are no value of the type, and for a value that the column cannot hold.
pub fn input<'a>(ty: Type, form: Form, bytes: &'a [u8], zone: &dyn Zone, arena: &'a Bump) -> Result<Datum<'a>> {
    if form == Form::Binary {
        return assigned(ty, parse_binary(bytes, ty, zone, arena)?, zone, arena);
    }
    let text = pg::row_value::read_text(bytes)?;
    match ty {
        Type::Text | Type::Varchar(_) | Type::Char(_) => rows::coerce(ty, Datum::Text(text)),
        ty => assigned(ty, parse(text, ty, zone, arena)?, zone, arena),
    }
}

/// A value as a column of a type gets it. Precondition: as for [`rows::coerce`].
///
/// # Errors
/// Those of [`rows::coerce`], and of declared parameters.
pub fn assigned<'a>(ty: Type, value: Datum<'a>, zone: &dyn Zone, arena: &'a Bump) -> Result<Datum<'a>> {
    rows::coerce(ty, limited(value, ty, Context::Assignment, zone, arena)?)
}

/// Limits a value to the declared parameters of a type that has no variant of its own, such as `timestamp(3)` or
/// `varchar(8)[]`.
///
/// # Errors
/// 22001, 22026 and others for a value that does not fit.
pub(crate) fn limited<'a>(
    value: Datum<'a>,
    to: Type,
    by: Context,
    zone: &dyn Zone,
    arena: &'a Bump,
) -> Result<Datum<'a>> {
    let Type::Other(OtherType { oid, typmod: typmod @ 0.. }) = to else { return Ok(value) };
    with_values(zone, arena, |ctx| {
        let value = scalar::value::copied(&value, ctx.arena);
        scalar::with_typmod(value, TypeId(oid), typmod, by == Context::Explicit, ctx)
    })
}

/// Computes a value by crate `scalar`, with the session's facts, and copies it to the arena.
fn with_values<'a>(
    zone: &dyn Zone,
    arena: &'a Bump,
    value: impl for<'v> FnOnce(&scalar::Context<'v>) -> Result<Datum<'v>>,
) -> Result<Datum<'a>> {
    let own = Bump::new();
    let none;
    let session = match zone.facts() {
        Some(facts) => facts,
        None => {
            none = zone.session();
            &none
        }
    };
    let ctx = scalar::Context { arena: &own, session };
    Ok(scalar::value::copied(&value(&ctx)?, arena))
}

/// Decodes the binary form of a value that a client sent, and checks it.
///
/// # Errors
/// 22P03 and others for malformed bytes; 0A000 for a type without binary input.
pub fn parse_binary<'a>(bytes: &'a [u8], ty: Type, zone: &dyn Zone, arena: &'a Bump) -> Result<Datum<'a>> {
    match ty.base() {
        Type::Other(other) => with_values(zone, arena, |ctx| {
            let bytes = ctx.arena.alloc_slice_copy(bytes);
            scalar::receive(bytes, TypeId(other.oid), ctx)
        }),
        base => pg::row_value::read_binary(base, bytes),
    }
}

/// Local time to UTC; infinities are unchanged.
fn moment(local: i64, zone: &dyn Zone) -> i64 {
    if [i64::MIN, i64::MAX].contains(&local) { local } else { zone.moment(local) }
}

/// Truncates text to n characters for `varchar(n)` and `char(n)`.
fn cut(text: &str, to: Type) -> &str {
    let (Type::Varchar(Some(characters)) | Type::Char(Some(characters))) = to else { return text };
    text.char_indices().nth(characters as usize).map_or(text, |(end, _)| &text[..end])
}

/// Parses text as a type, like a cast from text but without the limits of `varchar(n)` and `numeric(p, s)`.
///
/// # Errors
/// 22P02 and others of class 22.
pub fn parse<'a>(text: &str, to: Type, zone: &dyn Zone, arena: &'a Bump) -> Result<Datum<'a>> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    Ok(match to.base() {
        Type::Other(OtherType { oid, typmod }) => {
            with_values(zone, arena, |ctx| scalar::input(text, TypeId(oid), typmod, ctx))?
        }
        Type::Bool => Datum::Bool(pg::value::parse_bool(text)?),
        Type::Int2 => Datum::Int2(pg::value::parse_int(to.oid(), text)? as i16),
        Type::Int4 => Datum::Int4(pg::value::parse_int(to.oid(), text)? as i32),
        Type::Int8 => Datum::Int8(pg::value::parse_int(to.oid(), text)?),
        Type::Float4 => Datum::Float4(pg::value::parse_float4(text)?),
        Type::Float8 => Datum::Float8(pg::value::parse_float8(text)?),
        Type::Numeric(_) => Datum::Numeric(trimmed.parse()?),
        Type::Bytes => Datum::Bytes(arena.alloc_slice_copy(&pg::value::parse_bytea(text)?)),
        Type::Uuid => Datum::Uuid(pg::value::parse_uuid(text)?),
        Type::Timestamptz => zone.input(text, Type::Timestamptz)?,
        Type::Interval if to.is_other() => {
            with_values(zone, arena, |ctx| scalar::input(text, TypeId::INTERVAL, to.typmod(), ctx))?
        }
        base @ (Type::Date | Type::Time | Type::Timestamp | Type::Interval) => match fixed(text, base) {
            Some(value) => value,
            None => zone.input(text, base)?,
        },
        // Trailing blanks of char(n) are not significant.
        Type::Char(_) => Datum::Text(arena.alloc_str(text.trim_end_matches(' '))),
        Type::Json => {
            pg::json::check(text)?;
            Datum::Text(arena.alloc_str(text))
        }
        Type::Text | Type::Varchar(_) => Datum::Text(arena.alloc_str(text)),
    })
}

/// The value of a date, time or interval that means the same in every session; `None` for one that does not, or is wrong.
fn fixed(text: &str, ty: Type) -> Option<Datum<'static>> {
    let is_clock = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'.');
    let is_moment = |text: &str| {
        text.split_at_checked(11).is_some_and(|(day, rest)| {
            is_iso_date(&day[..10]) && matches!(day.as_bytes()[10], b' ' | b'T') && is_clock(rest)
        })
    };
    // A sign may be that of one field or of all, by IntervalStyle.
    let is_span = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase() || b" .:".contains(&byte))
    };
    match ty {
        Type::Date if is_iso_date(text) => pg::time::parse_date(text).ok().map(Datum::Date),
        Type::Time if is_clock(text) => pg::time::parse_time(text).ok().map(Datum::Time),
        Type::Timestamp if is_iso_date(text) || is_moment(text) => {
            pg::time::parse_timestamp_micros(text).ok().map(Datum::Timestamp)
        }
        Type::Interval if is_span(text) => pg::time::parse_interval(text).ok().map(Datum::Interval),
        _ => None,
    }
}

/// Whether a text has the form 2026-01-31.
fn is_iso_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(
            |(at, byte)| {
                if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() }
            },
        )
}

/// The text form of a value, as PostgreSQL's output functions write it.
pub(crate) fn text_of(value: &Datum<'_>, zone: &dyn Zone) -> String {
    let mut out = Vec::new();
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Datum::Int2(value) => pg::value::int_text(&mut out, (*value).into()),
        Datum::Int4(value) => pg::value::int_text(&mut out, (*value).into()),
        Datum::Int8(value) => pg::value::int_text(&mut out, *value),
        Datum::Float4(value) => pg::value::float4_text(&mut out, *value),
        Datum::Float8(value) => pg::value::float8_text(&mut out, *value),
        Datum::Numeric(value) => value.write_text(&mut out),
        Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        Datum::Bytes(bytes) => pg::value::bytea_text(&mut out, bytes),
        Datum::Uuid(uuid) => pg::value::uuid_text(&mut out, uuid),
        Datum::Date(days) => pg::time::date_text(&mut out, days_from_2000(*days)),
        Datum::Time(micros) => pg::time::time_text(&mut out, *micros),
        Datum::Timestamp(micros) => pg::time::timestamp_text(&mut out, micros_from_2000(*micros)),
        Datum::Timestamptz(micros) => {
            let offset = zone.local(*micros).saturating_sub(*micros) / 1_000_000;
            pg::time::timestamptz_text(&mut out, micros_from_2000(*micros), offset as i32);
        }
        Datum::Interval(interval) => pg::time::interval_text(&mut out, *interval),
        other => {
            let (arena, none) = (Bump::new(), zone.session());
            let session = zone.facts().unwrap_or(&none);
            return scalar::shown(other, &scalar::Context { arena: &arena, session });
        }
    }
    // All of the functions above write UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// The text form of a value of a column, without the padding of `char(n)`.
pub(crate) fn text_of_column(value: &Datum<'_>, ty: Type, zone: &dyn Zone) -> String {
    let Type::Other(other) = ty.base() else { return text_of(value, zone) };
    let (arena, none) = (Bump::new(), zone.session());
    let ctx = scalar::Context { arena: &arena, session: zone.facts().unwrap_or(&none) };
    let mut text = String::new();
    match scalar::output(value, TypeId(other.oid), &ctx, &mut text) {
        Ok(()) => text,
        Err(_) => scalar::shown(value, &ctx),
    }
}

/// Days since 1970 to days since 2000, as the wire protocol counts; infinities (the extreme values) are unchanged.
fn days_from_2000(days: i32) -> i32 {
    if [i32::MIN, i32::MAX].contains(&days) { days } else { days.saturating_sub(pg::time::EPOCH_DAYS) }
}

/// Like [`days_from_2000`], for microseconds.
fn micros_from_2000(micros: i64) -> i64 {
    if [i64::MIN, i64::MAX].contains(&micros) { micros } else { micros.saturating_sub(pg::time::EPOCH_MICROS) }
}
