//! Sort keys of computed values, for types whose order in Arrow is another one.

use catalog::{TypeId, builtin};
use model::{Datum, Result, sort_key};

use super::{Form, form};

/// The way in which values of a type are sorted, grouped and joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Arrow's order and equality are PostgreSQL's.
    Native,
    /// They are, once zeros and NaNs are made equal.
    Float,
    /// By [`push`].
    Bytes,
}

/// The way in which computed values of a type are sorted, grouped and joined.
pub(crate) fn kind(ty: TypeId) -> KeyKind {
    match form(ty) {
        Form::Float4 | Form::Float8 => KeyKind::Float,
        Form::Interval | Form::Encoded => KeyKind::Bytes,
        // Blanks at the end do not count; jsonb compares by its parts.
        Form::Text if matches!(builtin().base_type(ty), TypeId::BPCHAR | TypeId::JSONB) => KeyKind::Bytes,
        _ => KeyKind::Native,
    }
}

/// Appends the key of a value; NULL has none.
///
/// # Errors
/// 42883 for a type without order.
pub(crate) fn push(datum: &Datum<'_>, ty: TypeId, out: &mut Vec<u8>) -> Result<()> {
    sort_key::push(datum, builtin().base_type(ty).0, out)
}

/// Appends the key of a value within another one; NULL is behind all others.
///
/// # Errors
/// As [`push`].
pub(crate) fn push_part(datum: &Datum<'_>, ty: TypeId, out: &mut Vec<u8>) -> Result<()> {
    sort_key::push_part(datum, builtin().base_type(ty).0, out)
}
