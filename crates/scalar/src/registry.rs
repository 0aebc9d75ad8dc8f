//! Finds implementations by the numbers of PostgreSQL's catalog.

use std::cmp::Ordering;
use std::sync::LazyLock;

use catalog::{Catalog, FunctionCall, Resolved, TypeId, builtin};
use model::{Datum, Error, Result, SqlState};
use rustc_hash::FxHashMap;

use crate::context::{Context, Session};
use crate::expr::Call;

/// A function of values. NULL arguments reach it only if it is not strict.
pub type Function = for<'a> fn(&[Datum<'a>], &Call, &Context<'a>) -> Result<Datum<'a>>;
/// A function that returns a set: its rows, where a row of several columns is a [`Datum::Record`].
pub type SetFunction = for<'a> fn(&[Datum<'a>], &Call, &Context<'a>) -> Result<Rows<'a>>;
/// Rows of a set-returning function.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<Datum<'a>>> + 'a>;
/// Makes the state of an aggregate for one group.
pub type Aggregate = fn(&Call) -> Box<dyn Accumulator>;
/// Reads a value of a type from its text; the number is the type modifier, which only interval uses.
pub type Input = for<'a> fn(&str, TypeId, i32, &Context<'a>) -> Result<Datum<'a>>;
/// Appends the text of a value of a type.
pub type Output = fn(&Datum<'_>, TypeId, &Context<'_>, &mut String) -> Result<()>;
/// Orders two values of a type that are not NULL.
pub type Compare = fn(&Datum<'_>, &Datum<'_>) -> Result<Ordering>;

/// State of an aggregate.
pub trait Accumulator: Send + Sync {
    /// Adds a row. A strict aggregate never gets NULL.
    ///
    /// # Errors
    /// Those of the aggregate, such as 22003.
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()>;

    /// The aggregate of the rows so far.
    ///
    /// # Errors
    /// Those of the aggregate.
    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>>;

    /// Memory in bytes beside the state itself.
    fn heap_size(&self) -> usize {
        0
    }
}

/// Support of a type.
#[derive(Clone, Copy)]
pub struct TypeSupport {
    /// From text.
    pub input: Input,
    /// To text.
    pub output: Output,
    /// Order; `None` for [`Datum::compare`].
    pub compare: Option<Compare>,
}

/// The contents of a family of types. A function is written `name` if no other one has this name, else with the types of its
/// parameters, `name(int4,text[])`.
pub struct Family {
    /// Types with their support.
    pub types: &'static [(TypeId, TypeSupport)],
    /// Functions.
    pub functions: &'static [(&'static str, Function)],
    /// Set-returning functions.
    pub sets: &'static [(&'static str, SetFunction)],
    /// Aggregates.
    pub aggregates: &'static [(&'static str, Aggregate)],
}

static FAMILIES: &[&Family] = &[
    &crate::arrays::FAMILY,
    &crate::enums::FAMILY,
    &crate::geometry::FAMILY,
    &crate::json::FAMILY,
    &crate::misc::FAMILY,
    &crate::network::FAMILY,
    &crate::numbers::FAMILY,
    &crate::ranges::FAMILY,
    &crate::rows::FAMILY,
    &crate::sketches::FAMILY,
    &crate::text::aggregates::FAMILY,
    &crate::text::bits::FAMILY,
    &crate::text::bytes::FAMILY,
    &crate::text::crypto::FAMILY,
    &crate::text::casts::FAMILY,
    &crate::text::compare::FAMILY,
    &crate::text::encoding::FAMILY,
    &crate::text::format::FAMILY,
    &crate::text::io::FAMILY,
    &crate::text::like::FAMILY,
    &crate::text::regexp_functions::FAMILY,
    &crate::text::split::FAMILY,
    &crate::text::strings::FAMILY,
    &crate::time::FAMILY,
    &crate::time_series::FAMILY,
];

struct Registry {
    types: FxHashMap<TypeId, TypeSupport>,
    /// Functions by their number, and whether they are strict. Each row of each call looks here.
    functions: Vec<Option<(Function, bool)>>,
    sets: FxHashMap<u32, SetFunction>,
    aggregates: FxHashMap<u32, Aggregate>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let catalog = builtin();
    let number = |signature: &str| {
        let found = signature_number(catalog, signature);
        found.unwrap_or_else(|| panic!("BUG: the catalog has no function {signature}, or several"))
    };
    Registry {
        types: FAMILIES.iter().flat_map(|family| family.types).copied().collect(),
        functions: by_number(
            FAMILIES.iter().flat_map(|family| family.functions).map(|(name, one)| (number(name), *one)),
        ),
        sets: FAMILIES.iter().flat_map(|family| family.sets).map(|(name, one)| (number(name), *one)).collect(),
        aggregates: FAMILIES
            .iter()
            .flat_map(|family| family.aggregates)
            .map(|(name, one)| (number(name), *one))
            .collect(),
    }
});

fn by_number(functions: impl Iterator<Item = (u32, Function)>) -> Vec<Option<(Function, bool)>> {
    let mut table = Vec::new();
    for (number, function) in functions {
        let at = number as usize;
        if table.len() <= at {
            table.resize(at + 1, None);
        }
        table[at] = Some((function, builtin().function_row(number).is_none_or(|row| row.is_strict)));
    }
    table
}

/// The number of the function that is written `name` or `name(type,…)`.
#[must_use]
pub fn signature_number(catalog: &Catalog, signature: &str) -> Option<u32> {
    let (name, types) = match signature.split_once('(') {
        None => (signature, None),
        Some((name, types)) => (name, Some(signature_types(catalog, types.strip_suffix(')')?)?)),
    };
    let fits = |parameters: &[TypeId]| types.as_ref().is_none_or(|types| types == parameters);
    let mut found = catalog.functions_named(name).filter(|function| fits(&function.parameters));
    let (first, second) = (found.next()?, found.next());
    second.is_none().then_some(first.oid)
}

fn signature_types(catalog: &Catalog, types: &str) -> Option<Vec<TypeId>> {
    let one = |name: &str| match name.trim().strip_suffix("[]") {
        Some(element) => catalog.array_of(catalog.type_named(element)?),
        None => catalog.type_named(name.trim()),
    };
    if types.is_empty() { Some(Vec::new()) } else { types.split(',').map(one).collect() }
}

/// The implementation of a function, by its number in `pg_proc`; `None` if there is none yet.
#[must_use]
pub fn function(number: u32) -> Option<Function> {
    implementation(number).map(|(function, _)| function)
}

/// The implementation of a function, and whether it is strict.
pub(crate) fn implementation(number: u32) -> Option<(Function, bool)> {
    REGISTRY.functions.get(number as usize).copied().flatten()
}

/// Whether a function has an implementation here or among the objects of a session.
#[must_use]
pub fn has_function(number: u32, session: &Session) -> bool {
    let of_objects = || session.objects.as_ref().is_some_and(|objects| objects.has_function(number));
    let is_routine = number >= crate::context::FIRST_ROUTINE && session.routines.is_some();
    implementation(number).is_some() || is_routine || of_objects()
}

/// The implementation of a set-returning function.
#[must_use]
pub fn set_function(number: u32) -> Option<SetFunction> {
    REGISTRY.sets.get(&number).copied()
}

/// The implementation of an aggregate.
#[must_use]
pub fn aggregate(number: u32) -> Option<Aggregate> {
    REGISTRY.aggregates.get(&number).copied()
}

fn support(ty: TypeId) -> Result<TypeSupport> {
    let ty = builtin().base_type(ty);
    let found = REGISTRY.types.get(&ty).copied();
    // All arrays have the support of `anyarray`, all ranges that of `anyrange`.
    let found = found.or_else(|| {
        let row = builtin().type_row(ty)?;
        let general = match row.kind {
            catalog::TypeKind::Enum => return Some(crate::enums::SUPPORT),
            catalog::TypeKind::Range => TypeId::ANYRANGE,
            catalog::TypeKind::Multirange => TypeId::ANYMULTIRANGE,
            catalog::TypeKind::Composite => TypeId::RECORD,
            _ if row.element.is_some() => TypeId::ANYARRAY,
            _ => return None,
        };
        REGISTRY.types.get(&general).copied()
    });
    found.ok_or_else(|| Error::unsupported(format!("values of type {} are not supported", builtin().type_name(ty))))
}

/// Whether there are values of a type.
#[must_use]
pub fn has_type(ty: TypeId) -> bool {
    support(ty).is_ok()
}

/// Reads a value from its text. `typmod` is that of interval; other types are checked against theirs by a function.
///
/// # Errors
/// 22P02 and others for text that is not a value of the type; 0A000 for types without values.
pub fn input<'a>(text: &str, ty: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let support = support(ty)?;
    let base = builtin().base_type(ty);
    // The text of a row does not say the types of its columns.
    let is_composite = model::user_types::is_composite(base.0);
    (if is_composite { crate::composite::input } else { support.input })(text, base, typmod, ctx)
}

/// Appends the text of a value; NULL has none.
///
/// # Errors
/// 0A000 for types without values.
pub fn output(datum: &Datum<'_>, ty: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    if datum.is_null() {
        return Ok(());
    }
    (support(ty)?.output)(datum, builtin().base_type(ty), ctx, text)
}

/// The text of a value whose type is not known, for messages; nothing for NULL.
#[must_use]
pub fn shown(datum: &Datum<'_>, ctx: &Context<'_>) -> String {
    let ty = match datum {
        Datum::Null => return String::new(),
        Datum::Bool(_) => TypeId::BOOL,
        Datum::Int2(_) => TypeId::INT2,
        Datum::Int4(_) => TypeId::INT4,
        Datum::Int8(_) => TypeId::INT8,
        Datum::Float4(_) => TypeId::FLOAT4,
        Datum::Float8(_) => TypeId::FLOAT8,
        Datum::Numeric(_) => TypeId::NUMERIC,
        Datum::Text(_) => TypeId::TEXT,
        Datum::Bytes(_) => TypeId::BYTEA,
        Datum::Uuid(_) => TypeId::UUID,
        Datum::Date(_) => TypeId::DATE,
        Datum::Time(_) => TypeId::TIME,
        Datum::Timestamp(_) => TypeId::TIMESTAMP,
        Datum::Timestamptz(_) => TypeId::TIMESTAMPTZ,
        Datum::Interval(_) => TypeId::INTERVAL,
        Datum::Oid(_) => TypeId::OID,
        Datum::TimeTz(_) => TypeId::TIMETZ,
        Datum::Bits(_) => TypeId::VARBIT,
        Datum::Network(_) => TypeId(869),
        Datum::Mac(bytes) => TypeId(if bytes >> 48 == 0 { 829 } else { 774 }),
        Datum::Array(array) => builtin().array_of(TypeId(array.element)).unwrap_or(TypeId::ANYARRAY),
        Datum::Record(_) => TypeId::RECORD,
        Datum::Range(_) => TypeId::ANYRANGE,
        Datum::Multirange(_) => TypeId::ANYMULTIRANGE,
        Datum::Geometry(geometry) => builtin().type_named(geometry.type_name()).unwrap_or(TypeId::POINT),
    };
    let mut text = String::new();
    // A value that cannot be written is left out of the message.
    let _ = output(datum, ty, ctx, &mut text);
    text
}

/// Orders two values of a type that are not NULL, as ORDER BY does.
///
/// # Errors
/// 42883 for a type without order.
pub fn compare(ty: TypeId, left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    if let Ok(TypeSupport { compare: Some(compare), .. }) = support(ty) {
        return compare(left, right);
    }
    left.compare(right).ok_or_else(|| {
        let text = format!("could not identify an ordering operator for type {}", builtin().type_name(ty));
        Error::new(SqlState::UNDEFINED_FUNCTION, text)
    })
}

/// The call of the function of a name with arguments of these types, as a statement would resolve it.
///
/// # Errors
/// 42883 and others if there is none.
pub fn resolve(name: &str, arguments: &[TypeId]) -> Result<Call> {
    match builtin().function(&FunctionCall { name, arguments, ..FunctionCall::default() })? {
        Resolved::Function { function, parameters, result, .. } => {
            // A parameter of type "any" has the type of its argument.
            let actual = |(parameter, argument): (&TypeId, &TypeId)| {
                if *parameter == TypeId::ANY { *argument } else { *parameter }
            };
            let arguments = parameters.iter().zip(arguments).map(actual).collect();
            Ok(Call { function: function.oid, operator: None, arguments, result })
        }
        Resolved::Cast(_) => Err(Error::new(SqlState::UNDEFINED_FUNCTION, format!("{name} is a cast"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_that_of_one_function_of_its_kind() {
        let catalog = builtin();
        for family in FAMILIES {
            let functions = family.functions.iter().map(|(name, _)| (name, 'f'));
            let sets = family.sets.iter().map(|(name, _)| (name, 's'));
            let aggregates = family.aggregates.iter().map(|(name, _)| (name, 'a'));
            for (signature, kind) in functions.chain(sets).chain(aggregates) {
                let number = signature_number(catalog, signature);
                let row = number.and_then(|number| catalog.function_row(number));
                let row = row.unwrap_or_else(|| panic!("no function {signature}, or several"));
                let is_aggregate = matches!(row.kind, catalog::FunctionKind::Aggregate(_));
                assert_eq!((row.returns_set, is_aggregate), (kind == 's', kind == 'a'), "{signature}");
            }
        }
    }
}
