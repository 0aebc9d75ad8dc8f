//! Types of expressions, and their names.

use catalog::{TypeId, builtin};
use model::{Type, user_types};
use parser::ast::{Expr, ExprKind, Ident, Name, Pos, TypeName};

/// A type and its modifiers, such as the precision and scale of `numeric(6,2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ty {
    pub(super) id: TypeId,
    pub(super) modifiers: Vec<i32>,
}

impl Ty {
    /// A type without modifiers.
    pub(super) fn plain(id: TypeId) -> Ty {
        Ty { id, modifiers: Vec::new() }
    }

    /// The type of a column.
    pub(super) fn of(ty: Type) -> Ty {
        let modifiers = match ty {
            Type::Numeric(Some(precision)) => vec![i32::from(precision.digits), i32::from(precision.scale)],
            Type::Varchar(Some(length)) | Type::Char(Some(length)) => vec![length as i32],
            Type::Other(other) => match other.element() {
                Some(element) => Ty::of(element).modifiers,
                None if other.typmod < 0 => Vec::new(),
                None if other.oid == TypeId::INTERVAL.0 => {
                    let (fields, digits) = (other.typmod >> 16, other.typmod & 0xffff);
                    if digits == 0xffff { vec![fields] } else { vec![fields, digits] }
                }
                None => vec![other.typmod],
            },
            _ => Vec::new(),
        };
        Ty { id: TypeId(ty.oid()), modifiers }
    }

    /// The type that a name means; `None` for types that are not built in.
    pub(super) fn named(name: &TypeName) -> Option<Ty> {
        let is_system = name.name.schema().is_none_or(|schema| schema == "pg_catalog");
        if !is_system || name.is_set || name.is_column_type {
            return None;
        }
        let id = match user_types::referred(&name.name.name) {
            Some(oid) => TypeId(oid),
            None => builtin().type_named(&name.name.name)?,
        };
        let number = |modifier: &Expr| match modifier.kind {
            ExprKind::Integer(value) => Some(value),
            _ => None,
        };
        let mut modifiers: Vec<i32> = name.modifiers.iter().map(number).collect::<Option<_>>()?;
        if id == TypeId::NUMERIC && modifiers.len() == 1 {
            modifiers.push(0);
        }
        let id = if name.dimensions.is_empty() { id } else { builtin().array_of(id)? };
        Some(Ty { id, modifiers })
    }

    /// The type modifier of an interval, which decides what its text means; -1 for other types.
    pub(super) fn interval_typmod(&self) -> i32 {
        match self.modifiers[..] {
            [fields] if self.id == TypeId::INTERVAL => fields << 16 | 0xffff,
            [fields, precision] if self.id == TypeId::INTERVAL => fields << 16 | precision,
            _ => -1,
        }
    }

    /// The type of an array's elements.
    pub(super) fn element(&self) -> Option<Ty> {
        Some(Ty { id: builtin().element_of(self.id)?, modifiers: self.modifiers.clone() })
    }

    /// The name as it is parsed.
    pub(super) fn name(&self) -> Option<TypeName> {
        let is_array = is_array(self.id);
        let id = if is_array { builtin().element_of(self.id)? } else { self.id };
        let modifier = |value: &i32| Expr::new(ExprKind::Integer(*value), Pos::default());
        let name = match user_types::is_user(id.0) {
            true => Name {
                qualifier: Box::new([Ident::const_new("pg_catalog")]),
                name: Ident::new(user_types::reference(id.0)),
                at: Pos::default(),
            },
            false => Name::system(builtin().type_row(id)?.name, Pos::default()),
        };
        Some(TypeName {
            name,
            modifiers: self.modifiers.iter().map(modifier).collect(),
            dimensions: if is_array { vec![-1] } else { Vec::new() },
            ..TypeName::default()
        })
    }

    /// The name as `format_type` writes it; of a user type, its reference.
    fn written(&self) -> Option<String> {
        if is_array(self.id) {
            return Some(format!("{}[]", self.element()?.written()?));
        }
        if user_types::is_user(self.id.0) {
            return Some(self.name()?.to_string());
        }
        if self.modifiers.is_empty() {
            // As a keyword, `character` is `character(1)`.
            let is_char = self.id == TypeId::BPCHAR;
            return Some(if is_char { "bpchar".to_owned() } else { builtin().type_name(self.id) });
        }
        if self.id == TypeId::INTERVAL {
            return Some(self.name()?.to_string());
        }
        let name = builtin().type_name(self.id);
        let has_zone = matches!(self.id, TypeId::TIME | TypeId::TIMETZ | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ);
        let (name, zone) = name.split_once(' ').filter(|_| has_zone).unwrap_or((&name, ""));
        let modifiers: Vec<String> = self.modifiers.iter().map(i32::to_string).collect();
        let modifiers = modifiers.join(",");
        Some(if zone.is_empty() { format!("{name}({modifiers})") } else { format!("{name}({modifiers}) {zone}") })
    }
}

/// PostgreSQL's spelling of a type.
pub(super) fn spelled(name: &TypeName) -> String {
    Ty::named(name).and_then(|ty| ty.written()).unwrap_or_else(|| name.to_string())
}

/// Whether a type is an array. `name`, `point` and vectors have elements and are no arrays.
fn is_array(id: TypeId) -> bool {
    builtin().element_of(id).is_some_and(|element| builtin().array_of(element) == Some(id))
}
