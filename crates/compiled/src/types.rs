//! Type rules of PostgreSQL: type names, common types, assignment casts.

use model::{CHARACTERS_MAX, Precision, Result, Type};
use sqlparser::ast;

use crate::stored_expressions::{Bind, Refusal};

/// The type that an expression names; refused if columns of `rows` tables cannot have it.
pub(crate) fn data_type(ty: &ast::DataType) -> Bind<Type> {
    use ast::DataType as D;
    Ok(match ty {
        D::Bool | D::Boolean => Type::Bool,
        D::SmallInt(None) | D::Int2(None) => Type::Int2,
        D::Int(None) | D::Integer(None) | D::Int4(None) => Type::Int4,
        D::BigInt(None) | D::Int8(None) => Type::Int8,
        D::Real | D::Float4 => Type::Float4,
        D::DoublePrecision | D::Float8 | D::Float(ast::ExactNumberInfo::None) => Type::Float8,
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => Type::Numeric(precision(info)?),
        D::Text => Type::Text,
        D::Varchar(length) | D::CharacterVarying(length) | D::CharVarying(length) => Type::Varchar(characters(length)?),
        // Without a length, char is char(1).
        D::Char(length) | D::Character(length) => Type::Char(characters(length)?.or(Some(1))),
        D::Bytea => Type::Bytes,
        D::Uuid => Type::Uuid,
        D::JSON => Type::Json,
        D::Date => Type::Date,
        D::Time(None, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => Type::Time,
        D::Timestamp(None, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => Type::Timestamp,
        D::Timestamp(None, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => Type::Timestamptz,
        D::Interval { fields: None, precision: None } => Type::Interval,
        _ => return Err(Refusal::Unsupported),
    })
}

fn precision(info: &ast::ExactNumberInfo) -> Result<Option<Precision>> {
    match info {
        ast::ExactNumberInfo::None => Ok(None),
        ast::ExactNumberInfo::Precision(digits) => {
            Precision::new(i64::try_from(*digits).unwrap_or(i64::MAX), 0).map(Some)
        }
        ast::ExactNumberInfo::PrecisionAndScale(digits, scale) => {
            Precision::new(i64::try_from(*digits).unwrap_or(i64::MAX), *scale).map(Some)
        }
    }
}

fn characters(length: &Option<ast::CharacterLength>) -> Bind<Option<u32>> {
    match length {
        None => Ok(None),
        Some(ast::CharacterLength::IntegerLength { length, unit: None }) => match u32::try_from(*length) {
            Ok(length @ 1..=CHARACTERS_MAX) => Ok(Some(length)),
            _ => Err(Refusal::Unsupported),
        },
        Some(_) => Err(Refusal::Unsupported),
    }
}

/// The type without its modifier.
pub(crate) fn base_type(ty: Type) -> Type {
    match ty {
        Type::Numeric(_) => Type::Numeric(None),
        Type::Varchar(_) => Type::Varchar(None),
        Type::Char(_) => Type::Char(None),
        ty => ty,
    }
}

pub(crate) fn is_text(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar(_) | Type::Char(_))
}

/// Whether it is a type that `columns` tables store in nanoseconds.
pub(crate) fn is_moment(ty: Type) -> bool {
    matches!(ty, Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval)
}

/// Whether every value of one type is a value of the other, unchanged. Such a cast does nothing, so an index on the
/// column can be used.
pub(crate) fn same_bytes(from: Type, to: Type) -> bool {
    from == to || base_type(from) == to || is_text(from) && matches!(to, Type::Text | Type::Varchar(None))
}

/// Numeric types by increasing preference in mixed operations; `None` for other types.
pub(crate) fn rank(ty: Type) -> Option<u8> {
    Some(match ty {
        Type::Int2 => 1,
        Type::Int4 => 2,
        Type::Int8 => 3,
        Type::Numeric(_) => 4,
        Type::Float4 => 5,
        Type::Float8 => 6,
        _ => return None,
    })
}

/// The common type of two numbers in arithmetic and comparisons.
pub(crate) fn common_number(left: Type, right: Type) -> Option<Type> {
    let (left, right) = (base_type(left), base_type(right));
    let (low, high) = if rank(left)? <= rank(right)? { (left, right) } else { (right, left) };
    // PostgreSQL prefers double precision for real with any other numeric type.
    Some(if high == Type::Float4 && low != Type::Float4 { Type::Float8 } else { high })
}

/// The type in which two types are compared; `None` if they are not comparable.
pub(crate) fn comparable(left: Type, right: Type) -> Option<Type> {
    let (left, right) = (base_type(left), base_type(right));
    if left == right {
        return Some(if matches!(left, Type::Varchar(_)) { Type::Text } else { left });
    }
    match (left, right) {
        // Trailing blanks are not significant in these comparisons; compared with text they are.
        (Type::Char(_), Type::Varchar(_)) | (Type::Varchar(_), Type::Char(_)) => Some(Type::Char(None)),
        (left, right) if is_text(left) && is_text(right) => Some(Type::Text),
        (Type::Date, Type::Timestamp) | (Type::Timestamp, Type::Date) => Some(Type::Timestamp),
        (Type::Timestamptz, Type::Date | Type::Timestamp) | (Type::Date | Type::Timestamp, Type::Timestamptz) => {
            Some(Type::Timestamptz)
        }
        _ => common_number(left, right),
    }
}

/// The common type for CASE and UNION, `left` being the earlier branch; `None` if there is no implicit cast.
pub(crate) fn union(left: Type, right: Type) -> Option<Type> {
    let (left, right) = (base_type(left), base_type(right));
    // All kinds of text convert to each other, so the first is kept.
    if left == right || is_text(left) && is_text(right) {
        return Some(left);
    }
    match (left, right) {
        (Type::Float4, Type::Numeric(_)) | (Type::Numeric(_), Type::Float4) => Some(Type::Float4),
        (Type::Date | Type::Timestamp | Type::Timestamptz, Type::Date | Type::Timestamp | Type::Timestamptz) => {
            let zoned = left == Type::Timestamptz || right == Type::Timestamptz;
            Some(if zoned { Type::Timestamptz } else { Type::Timestamp })
        }
        (left, right) => Some(if rank(left)? <= rank(right)? { right } else { left }),
    }
}

/// PostgreSQL's type category: there is no common type across categories.
pub(crate) fn category(ty: Type) -> char {
    match ty {
        Type::Bool => 'B',
        ty if rank(ty).is_some() => 'N',
        ty if is_text(ty) => 'S',
        Type::Date | Type::Time | Type::Timestamp | Type::Timestamptz => 'D',
        Type::Interval => 'T',
        _ => 'U',
    }
}

/// Whether PostgreSQL has an assignment cast from one type to the other.
pub(crate) fn assignable(from: Type, to: Type) -> bool {
    let (from, to) = (base_type(from), base_type(to));
    if from == to || rank(from).is_some() && rank(to).is_some() || is_text(to) {
        return true;
    }
    if is_text(from) {
        return false;
    }
    matches!(
        (from, to),
        (Type::Date, Type::Timestamp | Type::Timestamptz)
            | (Type::Timestamp, Type::Date | Type::Time | Type::Timestamptz)
            | (Type::Timestamptz, Type::Date | Type::Time | Type::Timestamp)
            | (Type::Interval, Type::Time)
            | (Type::Time, Type::Interval)
    )
}
