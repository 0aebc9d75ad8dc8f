//! Values within the declared parameters of their types.

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{Array, Datum, Result};

use crate::context::Context;
use crate::eval::apply;
use crate::expr::Call;

/// Converts a value to the declared parameters of its type, such as a length or a precision; for arrays, that of each
/// element.
///
/// - `explicit`: by a cast, which cuts a text that is too long.
///
/// # Errors
/// 22001, 22026, 22003 for a value that does not fit.
pub fn with_typmod<'a>(
    value: Datum<'a>,
    ty: TypeId,
    typmod: i32,
    explicit: bool,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    if typmod < 0 || value.is_null() {
        return Ok(value);
    }
    if let Some(function) = builtin().length_cast(ty) {
        let parameters = builtin().function_row(function).map_or(2, |row| row.parameters.len());
        let arguments = [(ty, value), (TypeId::INT4, Datum::Int4(typmod)), (TypeId::BOOL, Datum::Bool(explicit))];
        let (types, values): (Vec<_>, Vec<_>) = arguments.into_iter().take(parameters).unzip();
        let call = Call { function, operator: None, arguments: types.into(), result: ty };
        return apply(&call, &values, ctx);
    }
    match (&value, builtin().element_of(ty)) {
        (Datum::Array(array), Some(element)) => {
            let items = array.items.iter().map(|item| with_typmod(item.clone(), element, typmod, explicit, ctx));
            let items = items.collect::<Result<_>>()?;
            let dimensions = array.dimensions.clone();
            Ok(Datum::Array(Arc::new(Array { element: array.element, dimensions, items })))
        }
        _ => Ok(value),
    }
}
