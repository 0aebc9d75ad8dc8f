//! Column types in definition statements.

use catalog::{TypeKind, builtin};
use model::{Error, IndexMethod, Result, SqlState, Type, user_types};
use parser::ast::TypeName;
use rows::inverted::Class;

use crate::inverted;
use crate::stored_expressions::named_type;

/// A declared type. `is_serial`: the column gets a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// The type; of a domain the base type.
    pub(super) ty: Type,
    /// OID of the domain or of the array of a domain, if it is one.
    pub(super) domain: Option<u32>,
    pub(super) is_serial: bool,
}

/// Resolves the declared type of a column; `session` has the facts of the session.
///
/// # Errors
/// 42704 for an unknown type; 22023 for an invalid modifier; 42P16 for a pseudo-type; 0A000 for a type that `rows` tables
/// do not support.
pub(super) fn declared(ty: &TypeName, column: &str, session: &scalar::Session) -> Result<Declared> {
    if let Some(ty) = serial(ty) {
        return Ok(Declared { ty, domain: None, is_serial: true });
    }
    let (oid, typmod) = named_type(ty, session)?;
    if builtin().type_row(oid).is_some_and(|row| row.kind == TypeKind::Pseudo) {
        let text = format!("column \"{column}\" has pseudo-type {}", builtin().type_name(oid));
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    if user_types::is_constrained(oid.0) {
        let spec = binder::user_type(session, oid.0)?;
        let base = spec.domain().ok_or_else(|| Error::bug("a domain that is none"))?.base;
        let base = Type::from_oid(builtin().base_type(oid).0, base.typmod()).ok_or_else(|| unsupported(ty))?;
        return Ok(Declared { ty: base, domain: Some(oid.0), is_serial: false });
    }
    let plain = |ty| Ok(Declared { ty, domain: None, is_serial: false });
    Type::from_oid(oid.0, typmod).map_or_else(|| Err(unsupported(ty)), plain)
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
    Error::unsupported(format!("type {ty} is not supported on rows tables"))
        .with_hint("Text search, xml, pg_lsn and other types without values here can be stored as text.")
}

/// Error for a type without an order, which cannot be indexed.
///
/// # Errors
/// 42704, as PostgreSQL for json.
pub(super) fn check_ordered(ty: Type) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    Err(no_default_class(ty, "btree"))
}

/// Checks the type of a key against its index.
///
/// # Errors
/// As [`check_ordered`] and [`inverted_class`].
pub(super) fn check_indexed(method: IndexMethod, ty: Type, class: Option<&str>) -> Result<()> {
    match method {
        IndexMethod::Gin => inverted_class(class, ty).map(|_| ()),
        IndexMethod::Btree | IndexMethod::Hash => check_ordered(ty),
    }
}

/// The name of an operator class for inverted indexes, if it is not the type's default.
///
/// # Errors
/// 42704 for a type without one, and for an unknown one; 42804 for one of another type.
pub(super) fn inverted_class(written: Option<&str>, ty: Type) -> Result<Option<String>> {
    let known = inverted::class_of(ty).map_or(&[][..], Class::names);
    let Some(name) = written else {
        return match known.is_empty() {
            false => Ok(None),
            true => Err(no_default_class(ty, "gin")),
        };
    };
    if known.first() == Some(&name) {
        return Ok(None);
    }
    if known.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    if matches!(name, "jsonb_ops" | "jsonb_path_ops" | "array_ops") {
        let text = format!("operator class \"{name}\" does not accept data type {}", ty.sql_name());
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    let text = format!("operator class \"{name}\" does not exist for access method \"gin\"");
    Err(Error::new(SqlState::UNDEFINED_OBJECT, text))
}

fn no_default_class(ty: Type, method: &str) -> Error {
    let text = format!("data type {} has no default operator class for access method \"{method}\"", ty.sql_name());
    let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
    Error::new(SqlState::UNDEFINED_OBJECT, text).with_hint(hint)
}

/// Name of PostgreSQL's default B-tree operator class; `None` for types without an order.
pub(super) fn default_operator_class(ty: Type) -> Option<&'static str> {
    Some(match ty.base() {
        Type::Bool => "bool_ops",
        Type::Int2 => "int2_ops",
        Type::Int4 => "int4_ops",
        Type::Int8 => "int8_ops",
        Type::Float4 => "float4_ops",
        Type::Float8 => "float8_ops",
        Type::Numeric(_) => "numeric_ops",
        Type::Text | Type::Varchar(_) => "text_ops",
        Type::Char(_) => "bpchar_ops",
        Type::Bytes => "bytea_ops",
        Type::Uuid => "uuid_ops",
        Type::Date => "date_ops",
        Type::Time => "time_ops",
        Type::Timestamp => "timestamp_ops",
        Type::Timestamptz => "timestamptz_ops",
        Type::Interval => "interval_ops",
        Type::Json => return None,
        Type::Other(other) if other.element().is_some() => "array_ops",
        Type::Other(_) if user_types::is_enum(ty.oid()) => "enum_ops",
        Type::Other(other) => match other.sql_name() {
            "\"char\"" => "char_ops",
            "name" => "name_ops",
            "inet" | "cidr" => "inet_ops",
            "time with time zone" => "timetz_ops",
            "bit" => "bit_ops",
            "bit varying" => "varbit_ops",
            "money" => "money_ops",
            "tid" => "tid_ops",
            "macaddr" => "macaddr_ops",
            "macaddr8" => "macaddr8_ops",
            "jsonb" => "jsonb_ops",
            range if range.ends_with("multirange") => "multirange_ops",
            range if range.ends_with("range") => "range_ops",
            _ if other.is_ordered() => "oid_ops",
            _ => return None,
        },
    })
}
