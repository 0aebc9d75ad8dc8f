//! Rows of `pg_type` for types that users created.

use std::sync::{LazyLock, PoisonError, RwLock};

use model::{UserType, user_types};
use rustc_hash::FxHashMap;

use crate::tables::builtin;
use crate::types::{TypeId, TypeKind, TypeRow};

static ROWS: LazyLock<RwLock<FxHashMap<TypeId, &'static TypeRow>>> = LazyLock::new(RwLock::default);

/// The row of a user type or of its array.
pub(crate) fn row(id: TypeId) -> Option<&'static TypeRow> {
    if !user_types::is_user(id.0) {
        return None;
    }
    if let Some(row) = ROWS.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
        return Some(row);
    }
    let row = made(id)?;
    // The number of user types is limited, and one row is made of each.
    let mut rows = ROWS.write().unwrap_or_else(PoisonError::into_inner);
    Some(rows.entry(id).or_insert_with(|| Box::leak(Box::new(row))))
}

/// The facts that no ALTER changes: the name is none of them, and nobody asks for it here.
fn made(id: TypeId) -> Option<TypeRow> {
    let spec = user_types::find(id.0)?;
    let row = TypeRow {
        id,
        name: "enum",
        length: 4,
        kind: TypeKind::Enum,
        category: b'E',
        is_preferred: false,
        element: None,
        array: Some(TypeId(spec.array_oid())),
        base: None,
    };
    Some(match &spec.kind {
        UserType::Enum(_) | UserType::Composite(_) if user_types::is_array(id.0) => TypeRow {
            name: if matches!(spec.kind, UserType::Enum(_)) { "_enum" } else { "_composite" },
            length: -1,
            kind: TypeKind::Base,
            category: b'A',
            element: Some(TypeId(spec.oid)),
            array: None,
            ..row
        },
        UserType::Enum(_) => row,
        UserType::Composite(_) => {
            TypeRow { name: "composite", length: -1, kind: TypeKind::Composite, category: b'C', ..row }
        }
        // Values are those of the array of the base type.
        UserType::Domain(domain) if user_types::is_array(id.0) => TypeRow {
            name: "_domain",
            length: -1,
            kind: TypeKind::Domain,
            category: b'A',
            element: Some(TypeId(spec.oid)),
            array: None,
            base: Some(builtin().array_of(TypeId(domain.base.oid()))?),
            ..row
        },
        UserType::Domain(domain) => {
            let base = builtin().type_row(TypeId(domain.base.oid()))?;
            TypeRow {
                array: row.array.filter(|_| base.array.is_some()),
                name: "domain",
                length: base.length,
                kind: TypeKind::Domain,
                category: base.category,
                base: Some(base.id),
                ..row
            }
        }
    })
}
