//! The common type of several expressions: CASE, COALESCE, UNION, VALUES, ARRAY, IN.

use model::{Error, Result, SqlState, user_types};

use crate::cast::CastContext;
use crate::tables::Catalog;
use crate::types::TypeId;

impl Catalog {
    /// The type that all of `types` become; `context` names the clause in the error. Literals of unknown type alone are
    /// text.
    ///
    /// # Errors
    /// 42804 if two types are of different categories, 42846 if one does not become the chosen type by itself.
    pub fn common_type(&self, types: &[TypeId], context: &str) -> Result<TypeId> {
        let chosen = self.choose_common(types).map_err(|(one, other)| {
            let (one, other) = (self.type_name(one), self.type_name(other));
            Error::new(SqlState::DATATYPE_MISMATCH, format!("{context} types {one} and {other} cannot be matched"))
        })?;
        match types.iter().find(|ty| !self.becomes(**ty, chosen)) {
            None => Ok(chosen),
            Some(ty) => {
                let (ty, chosen) = (self.type_name(*ty), self.type_name(chosen));
                let text = format!("{context} could not convert type {ty} to {chosen}");
                Err(Error::new(SqlState::CANNOT_COERCE, text))
            }
        }
    }

    /// The common type, or the two types that have none.
    pub(crate) fn choose_common(&self, types: &[TypeId]) -> std::result::Result<TypeId, (TypeId, TypeId)> {
        let Some((first, rest)) = types.split_first() else { return Ok(TypeId::TEXT) };
        if *first != TypeId::UNKNOWN && rest.iter().all(|ty| ty == first) {
            return Ok(*first);
        }
        let mut chosen = self.base_type(*first);
        for ty in rest.iter().map(|ty| self.base_type(*ty)).filter(|ty| *ty != TypeId::UNKNOWN) {
            let category = self.category(chosen);
            if ty == chosen {
            } else if chosen == TypeId::UNKNOWN {
                chosen = ty;
            } else if self.category(ty) != category {
                return Err((chosen, ty));
            } else if !self.is_preferred(chosen, category) && self.becomes(chosen, ty) && !self.becomes(ty, chosen) {
                chosen = ty;
            }
        }
        Ok(if chosen == TypeId::UNKNOWN { TypeId::TEXT } else { chosen })
    }

    fn becomes(&self, from: TypeId, to: TypeId) -> bool {
        self.can_coerce(&[from], &[to], CastContext::Implicit)
    }

    /// A type's name in messages, as `format_type` has it.
    #[must_use]
    pub fn type_name(&self, id: TypeId) -> String {
        // Vectors have elements and are no arrays.
        let is_vector = matches!(id, TypeId::INT2VECTOR | TypeId::OIDVECTOR);
        if let Some(element) = self.element_of(id).filter(|_| !is_vector) {
            return format!("{}[]", self.type_name(element));
        }
        let name = match id {
            TypeId::BOOL => "boolean",
            TypeId::CHAR => "\"char\"",
            TypeId::INT2 => "smallint",
            TypeId::INT4 => "integer",
            TypeId::INT8 => "bigint",
            TypeId::FLOAT4 => "real",
            TypeId::FLOAT8 => "double precision",
            TypeId::BPCHAR => "character",
            TypeId::VARCHAR => "character varying",
            TypeId::TIME => "time without time zone",
            TypeId::TIMETZ => "time with time zone",
            TypeId::TIMESTAMP => "timestamp without time zone",
            TypeId::TIMESTAMPTZ => "timestamp with time zone",
            TypeId::VARBIT => "bit varying",
            _ if user_types::is_user(id.0) => user_types::name(id.0).unwrap_or("unknown"),
            _ => match self.types.get(&id) {
                Some(row) => row.name,
                None => return format!("type {id}"),
            },
        };
        name.to_owned()
    }
}
