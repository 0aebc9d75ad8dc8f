//! Types as statements name them.

use catalog::TypeId;
use model::{Error, Result, SqlState, user_types};
use parser::ast::{Expr, ExprKind, Ident, TypeName};

use crate::binder::{Binder, error, unsupported};

/// Maximum n of `varchar(n)` and `char(n)`.
const CHARACTERS_MAX: i32 = model::CHARACTERS_MAX as i32;
/// Maximum n of `bit(n)`, in bits.
const BITS_MAX: i32 = CHARACTERS_MAX * 8;
/// Added to the type modifiers of texts and numerics.
const HEADER: i32 = 4;
/// Digits of fractions of seconds.
const PRECISION_MAX: i32 = 6;

impl Binder<'_> {
    /// Number and type modifier of a type.
    ///
    /// # Errors
    /// 42704 if there is none, 42601, 22023 for wrong modifiers.
    pub(crate) fn data_type(&mut self, ty: &TypeName) -> Result<(TypeId, i32)> {
        if ty.is_set || ty.is_column_type {
            return Err(unsupported("SETOF and %TYPE", ty.at));
        }
        let name = ty.name.name.as_str();
        let is_system = ty.name.schema().is_none_or(|schema| schema == "pg_catalog");
        let missing = || {
            let parts: Vec<&str> = ty.name.parts().map(|part| part.as_str()).collect();
            error(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", parts.join(".")), ty.at)
        };
        let builtin = self.catalog.type_named(name).filter(|_| is_system);
        let id = match builtin.or_else(|| user_types::referred(name).filter(|_| is_system).map(TypeId)) {
            Some(id) => id,
            None => {
                let id = self.user_type(ty).ok_or_else(missing)?;
                self.note_type(id, ty.at);
                id
            }
        };
        let typmod = self.typmod(id, &ty.modifiers, ty)?;
        if ty.dimensions.is_empty() {
            return Ok((id, typmod));
        }
        let array = self.catalog.array_of(id).ok_or_else(|| {
            if user_types::is_domain(id.0) {
                return unsupported("arrays of domains over arrays", ty.at);
            }
            let text = format!("could not find array type for data type {}", self.type_name(id));
            error(SqlState::UNDEFINED_OBJECT, text, ty.at)
        })?;
        Ok((array, typmod))
    }

    /// A type that a user created.
    fn user_type(&self, ty: &TypeName) -> Option<TypeId> {
        let objects = self.schema.session().objects.as_ref()?;
        let quoted = |part: &Ident| format!("\"{}\"", part.as_str().replace('"', "\"\""));
        let name = ty.name.parts().map(quoted).collect::<Vec<_>>().join(".");
        let found = objects.number(&name, TypeId::REGTYPE).ok()?;
        user_types::is_user(found).then_some(TypeId(found))
    }

    /// Type modifier of the words in parentheses; -1 for none.
    fn typmod(&self, id: TypeId, modifiers: &[Expr], ty: &TypeName) -> Result<i32> {
        if modifiers.is_empty() {
            return Ok(-1);
        }
        let takes_modifiers = matches!(
            id,
            TypeId::BPCHAR
                | TypeId::VARCHAR
                | TypeId::NUMERIC
                | TypeId::BIT
                | TypeId::VARBIT
                | TypeId::TIME
                | TypeId::TIMETZ
                | TypeId::TIMESTAMP
                | TypeId::TIMESTAMPTZ
                | TypeId::INTERVAL
        );
        if !takes_modifiers {
            let text = format!("type modifier is not allowed for type \"{}\"", ty.name.name);
            return Err(error(SqlState::SYNTAX_ERROR, text, ty.at));
        }
        let number = |expr: &Expr| match &expr.kind {
            ExprKind::Integer(value) => Ok(*value),
            // A sign is an operator of the constant behind it.
            ExprKind::Operator(operator) if operator.left.is_none() && operator.op.symbol == "-" => {
                match operator.right.kind {
                    ExprKind::Integer(value) => Ok(value.wrapping_neg()),
                    _ => Err(error(
                        SqlState::SYNTAX_ERROR,
                        "type modifiers must be simple constants or identifiers",
                        ty.at,
                    )),
                }
            }
            _ => Err(error(SqlState::SYNTAX_ERROR, "type modifiers must be simple constants or identifiers", ty.at)),
        };
        let values: Vec<i32> = modifiers.iter().map(number).collect::<Result<_>>()?;
        checked_typmod(id, &values).map_err(|error| error.with_position(ty.at.0))
    }
}

fn checked_typmod(id: TypeId, values: &[i32]) -> Result<i32> {
    let invalid = |text: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, text);
    match (id, values) {
        (TypeId::INTERVAL, [mask]) => Ok((mask << 16) | 0xffff),
        (TypeId::INTERVAL, [mask, precision]) => {
            if *precision < 0 {
                return Err(invalid(format!("INTERVAL({precision}) precision must not be negative")));
            }
            Ok((mask << 16) | (*precision).min(PRECISION_MAX))
        }
        (TypeId::NUMERIC, [digits]) => numeric_typmod(*digits, 0),
        (TypeId::NUMERIC, [digits, scale]) => numeric_typmod(*digits, *scale),
        (TypeId::NUMERIC, _) => Err(invalid("invalid NUMERIC type modifier".to_owned())),
        (TypeId::TIME | TypeId::TIMETZ | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ, [precision]) => {
            if *precision < 0 {
                let name = if matches!(id, TypeId::TIME | TypeId::TIMETZ) { "TIME" } else { "TIMESTAMP" };
                let zone = if matches!(id, TypeId::TIMETZ | TypeId::TIMESTAMPTZ) { " WITH TIME ZONE" } else { "" };
                return Err(invalid(format!("{name}({precision}){zone} precision must not be negative")));
            }
            Ok((*precision).min(PRECISION_MAX))
        }
        (TypeId::BPCHAR | TypeId::VARCHAR, [length]) => {
            let name = if id == TypeId::BPCHAR { "char" } else { "varchar" };
            length_within(name, *length, CHARACTERS_MAX).map(|length| length + HEADER)
        }
        (TypeId::BIT | TypeId::VARBIT, [length]) => {
            length_within(if id == TypeId::BIT { "bit" } else { "varbit" }, *length, BITS_MAX)
        }
        _ => Err(invalid("invalid type modifier".to_owned())),
    }
}

fn length_within(name: &str, length: i32, max: i32) -> Result<i32> {
    let invalid = |text: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, text);
    match length {
        ..1 => Err(invalid(format!("length for type {name} must be at least 1"))),
        length if length > max => Err(invalid(format!("length for type {name} cannot exceed {max}"))),
        length => Ok(length),
    }
}

fn numeric_typmod(digits: i32, scale: i32) -> Result<i32> {
    let invalid = |text: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
    if !(1..=1_000).contains(&digits) {
        return invalid(format!("NUMERIC precision {digits} must be between 1 and 1000"));
    }
    if !(-1_000..=1_000).contains(&scale) {
        return invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000"));
    }
    Ok(((digits << 16) | (scale & 0x7ff)) + HEADER)
}
