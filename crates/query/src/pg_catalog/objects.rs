//! The database's objects for bound queries: functions about them, and names of types like `regclass`.

use std::fmt;
use std::sync::{Arc, LazyLock};

use catalog::{TypeId, builtin};
use datafusion::common::ScalarValue;
use model::{Array, Datum, Error, Result, SqlState};
use rustc_hash::FxHashMap;
use scalar::{Call, Context};

use super::functions::{self, Spec};
use super::{names, oids};
use crate::functions::StatementFacts;

/// The objects that a statement sees.
pub(crate) struct StatementObjects(pub(crate) Arc<StatementFacts>);

impl fmt::Debug for StatementObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatementObjects")
    }
}

/// Functions by their number in `pg_proc`. Those that crate `scalar` has are not asked for here.
static FUNCTIONS: LazyLock<FxHashMap<u32, &'static Spec>> = LazyLock::new(|| {
    let functions = builtin().functions().iter();
    functions.filter_map(|row| Some((row.oid, functions::spec_of(row.name, row.parameters.len())?))).collect()
});

impl scalar::Objects for StatementObjects {
    fn has_function(&self, function: u32) -> bool {
        FUNCTIONS.contains_key(&function)
    }

    fn call<'a>(&self, arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let spec = FUNCTIONS.get(&call.function).ok_or_else(|| Error::bug("a function that is not listed"))?;
        let arguments: Vec<ScalarValue> = arguments.iter().map(scalar_value).collect::<Result<_>>()?;
        datum(spec.call(&self.0, &arguments)?, call.result, ctx)
    }

    fn number(&self, name: &str, ty: TypeId) -> Result<u32> {
        let (found, state, what) = match ty {
            TypeId::REGCLASS => (names::class_oid(&self.0, name), SqlState::UNDEFINED_TABLE, "relation"),
            TypeId::REGNAMESPACE => (functions::schema_oid(&self.0, name), SqlState::INVALID_SCHEMA_NAME, "schema"),
            TypeId::REGTYPE => (names::row_type_oid(&self.0, name), SqlState::UNDEFINED_OBJECT, "type"),
            _ => (functions::role_oid(&self.0, name), SqlState::UNDEFINED_OBJECT, "role"),
        };
        found.ok_or_else(|| Error::new(state, format!("{what} \"{name}\" does not exist")))
    }

    fn name(&self, number: u32, ty: TypeId) -> Option<String> {
        match ty {
            TypeId::REGCLASS => names::class_name(&self.0, number),
            TypeId::REGTYPE => names::row_type_name(&self.0, number),
            TypeId::REGNAMESPACE => names::schemas(&self.0).into_iter().find(|name| oids::of_schema(name) == number),
            TypeId::REGROLE => (number == oids::ROLE).then(|| self.0.user.clone()),
            _ => None,
        }
    }
}

/// An argument in the form that the functions take: all numbers are `Int64`.
fn scalar_value(value: &Datum<'_>) -> Result<ScalarValue> {
    Ok(match value {
        Datum::Null => ScalarValue::Null,
        Datum::Bool(value) => ScalarValue::Boolean(Some(*value)),
        Datum::Int2(value) => ScalarValue::Int64(Some((*value).into())),
        Datum::Int4(value) => ScalarValue::Int64(Some((*value).into())),
        Datum::Int8(value) => ScalarValue::Int64(Some(*value)),
        Datum::Oid(value) => ScalarValue::Int64(Some((*value).into())),
        Datum::Text(text) => ScalarValue::Utf8(Some((*text).to_owned())),
        other => return Err(Error::bug(format!("a value of {} as argument", other.type_name()))),
    })
}

/// A function's result as a value of its type.
fn datum<'a>(value: ScalarValue, ty: TypeId, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(match value {
        ScalarValue::Boolean(Some(value)) => Datum::Bool(value),
        ScalarValue::Int32(Some(value)) => Datum::Int4(value),
        ScalarValue::Int64(Some(value)) => Datum::Int8(value),
        ScalarValue::UInt32(Some(value)) => Datum::Oid(value),
        ScalarValue::TimestampNanosecond(Some(value), _) => Datum::Timestamptz(value.div_euclid(1_000)),
        ScalarValue::Utf8(Some(text)) => ctx.text(&text),
        ScalarValue::List(list) if !datafusion::arrow::array::Array::is_null(&*list, 0) => {
            let values = list.value(0);
            let item = |at| match ScalarValue::try_from_array(&values, at) {
                Ok(ScalarValue::Utf8(Some(text))) => ctx.text(&text),
                _ => Datum::Null,
            };
            let element = builtin().element_of(ty).unwrap_or(TypeId::TEXT);
            Datum::Array(Arc::new(Array::of(element.0, (0..values.len()).map(item).collect())))
        }
        value if value.is_null() => Datum::Null,
        value => return Err(Error::bug(format!("a result of {}", value.data_type()))),
    })
}
