//! Column types in definition statements.

use model::{CHARACTERS_MAX, Error, Precision, Result, SqlState, Type};
use sqlparser::ast;

use super::Notice;
use crate::dialect::fold_ident;

/// A declared type. `is_serial`: the column gets a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) ty: Type,
    pub(super) is_serial: bool,
}

/// Maximum fractional digits of seconds, as in PostgreSQL.
const SECOND_DIGITS: u64 = 6;

/// Resolves a declared type.
///
/// # Errors
/// 42704 for an unknown type; 22023 for an invalid modifier; 0A000 for a type that `rows` tables do not support.
pub(super) fn declared(ty: &ast::DataType, notices: &mut Vec<Notice>) -> Result<Declared> {
    use ast::DataType as D;
    let plain = |ty| Ok(Declared { ty, is_serial: false });
    let serial = |ty| Ok(Declared { ty, is_serial: true });
    match ty {
        D::Bool | D::Boolean => plain(Type::Bool),
        D::SmallInt(None) | D::Int2(None) => plain(Type::Int2),
        D::Int(None) | D::Integer(None) | D::Int4(None) => plain(Type::Int4),
        D::BigInt(None) | D::Int8(None) => plain(Type::Int8),
        D::Real | D::Float4 => plain(Type::Float4),
        D::DoublePrecision | D::Float8 | D::Float(ast::ExactNumberInfo::None) => plain(Type::Float8),
        D::Float(ast::ExactNumberInfo::Precision(bits)) => plain(float(*bits)?),
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => plain(Type::Numeric(precision(info)?)),
        D::Text => plain(Type::Text),
        D::Varchar(length) | D::CharacterVarying(length) | D::CharVarying(length) => {
            plain(Type::Varchar(characters(length.as_ref(), "varchar")?))
        }
        // Without a length, char is char(1).
        D::Char(length) | D::Character(length) => plain(Type::Char(characters(length.as_ref(), "char")?.or(Some(1)))),
        D::Bytea => plain(Type::Bytes),
        D::Uuid => plain(Type::Uuid),
        D::JSON => plain(Type::Json),
        D::JSONB => {
            let text =
                "type jsonb is stored as json: its text is stored unchanged, and has no ordering and no operators";
            notices.push(Notice::new(text));
            plain(Type::Json)
        }
        D::Date => plain(Type::Date),
        D::Time(digits, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            full(*digits, "time").and_then(|()| plain(Type::Time))
        }
        D::Timestamp(digits, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            full(*digits, "timestamp").and_then(|()| plain(Type::Timestamp))
        }
        D::Timestamp(digits, _) => full(*digits, "timestamptz").and_then(|()| plain(Type::Timestamptz)),
        D::Interval { fields: None, precision } => full(*precision, "interval").and_then(|()| plain(Type::Interval)),
        D::Custom(name, modifiers) => match (custom(name).as_str(), modifiers.as_slice()) {
            ("serial" | "serial4", []) => serial(Type::Int4),
            ("bigserial" | "serial8", []) => serial(Type::Int8),
            ("smallserial" | "serial2", []) => serial(Type::Int2),
            ("bpchar", []) => plain(Type::Char(None)),
            ("bpchar", [length]) => match length.parse() {
                Ok(length) => plain(Type::Char(Some(within(length, "char")?))),
                Err(_) => Err(unsupported(ty)),
            },
            ("money" | "cidr" | "inet" | "macaddr" | "xml" | "point" | "oid" | "name" | "bit" | "regclass", _) => {
                Err(unsupported(ty))
            }
            _ => Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", type_name(name)))),
        },
        D::Datetime(_) | D::Double(_) | D::TinyInt(_) | D::MediumInt(_) | D::Blob(_) | D::Clob(_) | D::String(_) => {
            let name = ty.to_string().to_ascii_lowercase();
            Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")))
        }
        _ => Err(unsupported(ty)),
    }
}

fn unsupported(ty: &ast::DataType) -> Error {
    let text = format!("type {} is not supported on rows tables", ty.to_string().to_ascii_lowercase());
    Error::unsupported(text).with_hint(
        "supported types: smallint, integer, bigint, numeric, real, double precision, boolean, text, varchar, char, bytea, uuid, json, date, \
         time, timestamp, timestamptz, interval",
    )
}

/// The name of a custom type that is unqualified or in `pg_catalog`; else empty.
fn custom(name: &ast::ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
    match parts.as_slice() {
        [name] => name.clone(),
        [schema, name] if schema == "pg_catalog" => name.clone(),
        _ => String::new(),
    }
}

fn type_name(name: &ast::ObjectName) -> String {
    let parts = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident);
    parts.collect::<Vec<_>>().join(".")
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

/// `float(n)`: n is the number of mantissa bits.
fn float(bits: u64) -> Result<Type> {
    match bits {
        0 => Err(invalid("precision for type float must be at least 1 bit")),
        1..=24 => Ok(Type::Float4),
        25..=53 => Ok(Type::Float8),
        _ => Err(invalid("precision for type float must be less than 54 bits")),
    }
}

fn precision(info: &ast::ExactNumberInfo) -> Result<Option<Precision>> {
    let digits = |digits: &u64| i64::try_from(*digits).unwrap_or(i64::MAX);
    match info {
        ast::ExactNumberInfo::None => Ok(None),
        ast::ExactNumberInfo::Precision(of) => Precision::new(digits(of), 0).map(Some),
        ast::ExactNumberInfo::PrecisionAndScale(of, scale) => Precision::new(digits(of), *scale).map(Some),
    }
}

fn characters(length: Option<&ast::CharacterLength>, name: &str) -> Result<Option<u32>> {
    match length {
        None => Ok(None),
        Some(ast::CharacterLength::IntegerLength { length, .. }) => within(*length, name).map(Some),
        Some(ast::CharacterLength::Max) => Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"MAX\"")),
    }
}

fn within(length: u64, name: &str) -> Result<u32> {
    match u32::try_from(length) {
        Ok(0) => Err(invalid(format!("length for type {name} must be at least 1"))),
        Ok(length) if length <= CHARACTERS_MAX => Ok(length),
        _ => Err(invalid(format!("length for type {name} cannot exceed {CHARACTERS_MAX}"))),
    }
}

fn full(digits: Option<u64>, name: &str) -> Result<()> {
    match digits {
        None | Some(SECOND_DIGITS) => Ok(()),
        Some(digits) => {
            let text = format!("type {name}({digits}) is not supported on rows tables");
            Err(Error::unsupported(text).with_hint(format!("use {name}, which keeps microseconds")))
        }
    }
}

/// A type as a syntax tree that prints PostgreSQL's name.
pub(super) fn written(ty: Type) -> ast::DataType {
    ast::DataType::Custom(ast::ObjectName::from(vec![ast::Ident::new(ty.to_string())]), Vec::new())
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
