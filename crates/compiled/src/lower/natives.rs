//! Functions that the executor's own operators compute, by their numbers in `pg_proc`.

use std::sync::LazyLock;

use catalog::{Cast, CastContext, TypeId, builtin};
use model::Type;
use rustc_hash::FxHashMap;
use scalar::Call;
use scalar::registry::signature_number;

use crate::expr::{Comparison, Operator};
use crate::types::{comparable, rank};

/// The executor's operator for a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Native {
    /// A comparison of values that are cast to one type.
    Compare(Comparison, Type),
    /// Arithmetic of numbers that are cast to the type of the result.
    Arithmetic(Operator, Type),
    /// Arithmetic of dates and days.
    Days(Operator),
    Negate,
    /// Concatenation of texts or of bytes.
    Concat,
    /// LIKE and its variants.
    Like {
        not: bool,
        any_case: bool,
    },
    /// A cast.
    Cast(Type),
    /// A cast to the length or precision that the second argument gives.
    Length,
    /// The value itself.
    Identity,
    /// `now()`
    Now,
    Session(Session),
}

/// A function of the session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    Random,
    Uuid,
    Next,
    Current,
    Last,
    Set,
}

/// The executor's operator for a function.
pub(super) fn native(call: &Call) -> Option<Native> {
    let found = NATIVES.get(&call.function).copied();
    found.or_else(|| polymorphic(call).map(|(comparison, ty)| Native::Compare(comparison, ty)))
}

/// The comparison of a function, if values of one type are compared.
pub(super) fn comparison(call: &Call) -> Option<(Comparison, Type)> {
    match native(call)? {
        Native::Compare(comparison, ty) => Some((comparison, ty)),
        _ => None,
    }
}

/// The comparison of two arrays, ranges, multiranges or enums of one type.
fn polymorphic(call: &Call) -> Option<(Comparison, Type)> {
    let comparison = *POLYMORPHIC.get(&call.function)?;
    let [left, right] = *call.arguments else { return None };
    if left == right { sorted(left).map(|ty| (comparison, ty)) } else { None }
}

/// The type of columns with a number in `pg_type`, if the executor's own operators compute with its values.
pub(super) fn plain(ty: TypeId) -> Option<Type> {
    Type::from_oid(ty.0, -1).filter(|ty| !ty.is_other())
}

/// The type of columns with a number in `pg_type`, if the executor sorts and compares its values.
pub(super) fn sorted(ty: TypeId) -> Option<Type> {
    let ty = Type::from_oid(ty.0, -1)?;
    match ty {
        Type::Other(other) => other.is_compared_directly(),
        ty => ty.is_ordered(),
    }
    .then_some(ty)
}

const SESSION: [(&str, Session); 8] = [
    ("random", Session::Random),
    ("gen_random_uuid", Session::Uuid),
    ("uuid_generate_v4", Session::Uuid),
    ("nextval", Session::Next),
    ("currval", Session::Current),
    ("lastval", Session::Last),
    ("setval(regclass,int8)", Session::Set),
    ("setval(regclass,int8,bool)", Session::Set),
];

/// Types between which values are cast by functions.
const CAST: [Type; 11] = [
    Type::Bool,
    Type::Int2,
    Type::Int4,
    Type::Int8,
    Type::Float4,
    Type::Float8,
    Type::Numeric(None),
    Type::Date,
    Type::Timestamp,
    Type::Timestamptz,
    Type::Text,
];

static POLYMORPHIC: LazyLock<FxHashMap<u32, Comparison>> = LazyLock::new(|| {
    let of_pseudo = [TypeId::ANYARRAY, TypeId::ANYRANGE, TypeId::ANYMULTIRANGE, TypeId::ANYENUM];
    let operators = builtin().operators().iter().filter(|operator| of_pseudo.contains(&operator.right));
    let pairs = operators.filter(|operator| operator.left == Some(operator.right));
    pairs.filter_map(|operator| Some((operator.function, compared(operator.name)?))).collect()
});

static NATIVES: LazyLock<FxHashMap<u32, Native>> = LazyLock::new(|| {
    let mut natives = FxHashMap::default();
    for operator in builtin().operators() {
        let of = if compared(operator.name).is_some() { sorted } else { plain };
        let (left, right) = (operator.left.map(of), of(operator.right));
        if let Some(native) = operation(operator.name, left, right, plain(operator.result)) {
            natives.insert(operator.function, native);
        }
    }
    for from in CAST {
        for to in CAST.iter().filter(|to| **to != from) {
            let cast = builtin().cast(TypeId(from.oid()), TypeId(to.oid()), CastContext::Explicit);
            if let Some(Cast::Function(function)) = cast {
                natives.insert(function, Native::Cast(*to));
            }
        }
    }
    for ty in [TypeId::NUMERIC, TypeId::VARCHAR, TypeId::BPCHAR] {
        natives.extend(builtin().length_cast(ty).map(|function| (function, Native::Length)));
    }
    // Values of char(n) have no padding here.
    if let Some(Cast::Function(function)) = builtin().cast(TypeId::BPCHAR, TypeId::TEXT, CastContext::Implicit) {
        natives.insert(function, Native::Identity);
    }
    for name in ["now", "transaction_timestamp"] {
        natives.extend(signature_number(builtin(), name).map(|function| (function, Native::Now)));
    }
    for (signature, session) in SESSION {
        let function = signature_number(builtin(), signature);
        natives.extend(function.map(|function| (function, Native::Session(session))));
    }
    natives
});

/// The operator of a name between operands of these types, or before one. A type that columns cannot have is `None`.
fn operation(name: &str, left: Option<Option<Type>>, right: Option<Type>, result: Option<Type>) -> Option<Native> {
    let right = right?;
    let Some(left) = left else {
        rank(right)?;
        return match name {
            "-" => Some(Native::Negate),
            "+" => Some(Native::Identity),
            _ => None,
        };
    };
    let left = left?;
    if let Some(comparison) = compared(name) {
        return comparable(left, right).filter(|ty| ty.is_ordered()).map(|ty| Native::Compare(comparison, ty));
    }
    let like = |not, any_case| (left == Type::Text && right == Type::Text).then_some(Native::Like { not, any_case });
    match name {
        "~~" => return like(false, false),
        "!~~" => return like(true, false),
        "~~*" => return like(false, true),
        "!~~*" => return like(true, true),
        "||" => {
            return matches!((left, right), (Type::Text, Type::Text) | (Type::Bytes, Type::Bytes))
                .then_some(Native::Concat);
        }
        _ => {}
    }
    let operator = match name {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "%" => Operator::Modulo,
        _ => return None,
    };
    match (left, right) {
        (Type::Date, Type::Int4 | Type::Date) => Some(Native::Days(operator)),
        _ => {
            rank(left).and(rank(right))?;
            Some(Native::Arithmetic(operator, result?))
        }
    }
}

fn compared(name: &str) -> Option<Comparison> {
    Some(match name {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterEqual,
        _ => return None,
    })
}
