//! Casts: which are allowed where, and how a value is converted.

use crate::tables::Catalog;
use crate::types::{STRING, TypeId, TypeKind};

/// Contexts of casts, from those that PostgreSQL adds by itself to those that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// An expression.
    Implicit,
    /// A value that a column stores.
    Assignment,
    /// A written cast.
    Explicit,
}

/// Conversion of a value of one type to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cast {
    /// No conversion: both types have the same bytes.
    Relabel,
    /// By a function of one argument, or more: the type modifier, and whether the cast is explicit.
    Function(u32),
    /// By the text of the value.
    Text,
    /// Each element of an array.
    Elements(Box<Cast>),
}

impl Catalog {
    /// Conversion from type `from` to type `to` in `context`; `None` if there is none.
    #[must_use]
    pub fn cast(&self, from: TypeId, to: TypeId, context: CastContext) -> Option<Cast> {
        let (from, to) = (self.base_type(from), self.base_type(to));
        if from == to {
            return Some(Cast::Relabel);
        }
        if to == TypeId::RECORD && self.kind(from) == TypeKind::Composite {
            return Some(Cast::Relabel);
        }
        if let Some(row) = self.casts.get(&(from, to)) {
            let allowed = match row.context {
                b'i' => CastContext::Implicit,
                b'a' => CastContext::Assignment,
                _ => CastContext::Explicit,
            };
            return (context >= allowed).then_some(match (row.method, row.function) {
                (b'f', Some(function)) => Cast::Function(function),
                (b'i', _) => Cast::Text,
                _ => Cast::Relabel,
            });
        }
        // Both vectors are subscripted as arrays and cast as types of their own.
        let is_vector = matches!(to, TypeId::INT2VECTOR | TypeId::OIDVECTOR);
        if let (Some(from), Some(to), false) = (self.element_of(from), self.element_of(to), is_vector) {
            return self.cast(from, to, context).map(|cast| Cast::Elements(Box::new(cast)));
        }
        let to_text = context >= CastContext::Assignment && self.category(to) == STRING;
        let from_text = context == CastContext::Explicit && self.category(from) == STRING;
        (to_text || from_text).then_some(Cast::Text)
    }

    /// The function that checks or cuts a value of a type to its type modifier, such as the length of `varchar(n)`.
    #[must_use]
    pub fn length_cast(&self, ty: TypeId) -> Option<u32> {
        self.casts.get(&(ty, ty))?.function
    }

    /// Whether arguments of types `from` can be given for parameters of types `to`.
    pub(crate) fn can_coerce(&self, from: &[TypeId], to: &[TypeId], context: CastContext) -> bool {
        let one = |(from, to): (&TypeId, &TypeId)| {
            from == to
                || *to == TypeId::ANY
                || to.is_polymorphic()
                || *from == TypeId::UNKNOWN
                || self.cast(*from, *to, context).is_some()
                // The binder casts the columns of a row.
                || *from == TypeId::RECORD && self.kind(*to) == TypeKind::Composite
        };
        from.iter().zip(to).all(one) && (!to.iter().any(|to| to.is_polymorphic()) || self.is_consistent(from, to))
    }

    /// The type that a domain constrains, or the type itself.
    #[must_use]
    pub fn base_type(&self, mut id: TypeId) -> TypeId {
        while let Some(base) = self.type_row(id).and_then(|row| row.base) {
            id = base;
        }
        id
    }

    /// The type of an array's elements.
    #[must_use]
    pub fn element_of(&self, id: TypeId) -> Option<TypeId> {
        self.type_row(id)?.element
    }

    /// The array of a type.
    #[must_use]
    pub fn array_of(&self, id: TypeId) -> Option<TypeId> {
        self.type_row(id)?.array
    }

    pub(crate) fn category(&self, id: TypeId) -> u8 {
        self.type_row(id).map_or(b'X', |row| row.category)
    }

    pub(crate) fn kind(&self, id: TypeId) -> TypeKind {
        self.type_row(id).map_or(TypeKind::Base, |row| row.kind)
    }

    /// Whether a type is the preferred one of `category`.
    pub(crate) fn is_preferred(&self, id: TypeId, category: u8) -> bool {
        self.type_row(id).is_some_and(|row| row.is_preferred && row.category == category)
    }
}
