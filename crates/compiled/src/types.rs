//! Type rules of PostgreSQL: common types, assignment casts.

use catalog::{CastContext, TypeId, builtin};
use model::Type;

/// The type without its modifier.
pub(crate) fn base_type(ty: Type) -> Type {
    match ty {
        Type::Numeric(_) => Type::Numeric(None),
        Type::Varchar(_) => Type::Varchar(None),
        Type::Char(_) => Type::Char(None),
        ty => ty.base(),
    }
}

pub(crate) fn is_text(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar(_) | Type::Char(_))
}

/// Whether it is a type that `columns` tables store in nanoseconds.
pub(crate) fn is_moment(ty: Type) -> bool {
    matches!(ty.base(), Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval)
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

/// Whether PostgreSQL has an assignment cast from one type to the other.
pub(crate) fn assignable(from: Type, to: Type) -> bool {
    let (from, to) = (TypeId(from.oid()), TypeId(to.oid()));
    from == to || builtin().cast(from, to, CastContext::Assignment).is_some()
}
