//! Column types in definition statements.

use catalog::TypeId;
use model::{Error, Result, SqlState, Type};
use parser::ast::{TypeName, interval};

use super::Notice;
use crate::stored_expressions::named_type;

/// A declared type. `is_serial`: the column gets a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) ty: Type,
    pub(super) is_serial: bool,
}

/// Maximum fractional digits of seconds, as in PostgreSQL.
const SECOND_DIGITS: i32 = 6;

/// Resolves a declared type; `session` has the facts of the session.
///
/// # Errors
/// 42704 for an unknown type; 22023 for an invalid modifier; 0A000 for a type that `rows` tables do not support.
pub(super) fn declared(ty: &TypeName, session: &scalar::Session, notices: &mut Vec<Notice>) -> Result<Declared> {
    if let Some(ty) = serial(ty) {
        return Ok(Declared { ty, is_serial: true });
    }
    let (oid, typmod) = named_type(ty, session)?;
    let plain = |ty| Ok(Declared { ty, is_serial: false });
    if oid == TypeId::JSONB {
        let text = "type jsonb is stored as json: its text is stored unchanged, and has no ordering and no operators";
        notices.push(Notice::new(text));
        return plain(Type::Json);
    }
    let (name, digits) = match oid {
        TypeId::TIME => ("time", typmod),
        TypeId::TIMESTAMP => ("timestamp", typmod),
        TypeId::TIMESTAMPTZ => ("timestamptz", typmod),
        // The upper half has the fields, the lower one the digits; all of its bits are set without these.
        TypeId::INTERVAL if typmod >> 16 == interval::FULL => ("interval", typmod & 0xffff),
        _ => return Type::from_oid(oid.0, typmod).map_or_else(|| Err(unsupported(ty)), plain),
    };
    if digits >= 0 && digits != SECOND_DIGITS {
        let text = format!("type {name}({digits}) is not supported on rows tables");
        return Err(Error::unsupported(text).with_hint(format!("use {name}, which keeps microseconds")));
    }
    Type::from_oid(oid.0, -1).map_or_else(|| Err(unsupported(ty)), plain)
}

/// The type of `serial` and its like.
fn serial(ty: &TypeName) -> Option<Type> {
    if !ty.name.qualifier.is_empty() || !ty.modifiers.is_empty() || !ty.dimensions.is_empty() || ty.is_set {
        return None;
    }
    match ty.name.name.as_str() {
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        "smallserial" | "serial2" => Some(Type::Int2),
        _ => None,
    }
}

fn unsupported(ty: &TypeName) -> Error {
    Error::unsupported(format!("type {ty} is not supported on rows tables")).with_hint(
        "supported types: smallint, integer, bigint, numeric, real, double precision, boolean, text, varchar, char, bytea, uuid, json, date, \
         time, timestamp, timestamptz, interval",
    )
}

/// Error for a type without an order, which cannot be indexed.
///
/// # Errors
/// 42704, as PostgreSQL for json.
pub(super) fn check_ordered(ty: Type) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    let text = format!("data type {} has no default operator class for access method \"btree\"", ty.sql_name());
    let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
    Err(Error::new(SqlState::UNDEFINED_OBJECT, text).with_hint(hint))
}
