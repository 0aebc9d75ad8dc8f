//! The database's objects for bound queries: functions about them, and names of types like `regclass`.

use std::sync::{Arc, LazyLock};

use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState, TypeSpecRef};
use rustc_hash::FxHashMap;
use scalar::{Call, Context};

use crate::facts::StatementFacts;
use crate::functions::{self, Spec};
use crate::{names, oids, routines, row_tables};

/// The objects that a statement sees.
#[derive(Debug)]
pub struct StatementObjects(Arc<StatementFacts>);

impl StatementObjects {
    /// The objects of the statement with these facts.
    #[must_use]
    pub fn new(facts: Arc<StatementFacts>) -> StatementObjects {
        StatementObjects(facts)
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
        spec.call(&self.0, arguments)?.datum(call.result, ctx)
    }

    fn listening(&self) -> Vec<String> {
        self.0.server.listening()
    }

    fn partition_tree(&self, relation: u32) -> Vec<(u32, Option<u32>, bool, i32)> {
        row_tables::partition_tree(&self.0, relation)
    }

    fn partition_ancestors(&self, relation: u32) -> Vec<u32> {
        row_tables::partition_ancestors(&self.0, relation)
    }

    fn number(&self, name: &str, ty: TypeId) -> Result<u32> {
        if matches!(ty, TypeId::REGPROC | TypeId::REGPROCEDURE) {
            return routines::number(&self.0, name, ty == TypeId::REGPROCEDURE);
        }
        let (found, state, what) = match ty {
            TypeId::REGCLASS => (names::class_oid(&self.0, name), SqlState::UNDEFINED_TABLE, "relation"),
            TypeId::REGNAMESPACE => (functions::schema_oid(&self.0, name), SqlState::INVALID_SCHEMA_NAME, "schema"),
            TypeId::REGTYPE => (names::row_type_oid(&self.0, name), SqlState::UNDEFINED_OBJECT, "type"),
            _ => (functions::role_oid(&self.0, name), SqlState::UNDEFINED_OBJECT, "role"),
        };
        found.ok_or_else(|| functions::undefined(state, what, name))
    }

    fn user_type(&self, oid: u32) -> Option<TypeSpecRef> {
        self.0.catalog.type_by_oid(oid & !1).cloned()
    }

    fn name(&self, number: u32, ty: TypeId) -> Option<String> {
        match ty {
            TypeId::REGCLASS => names::class_name(&self.0, number),
            TypeId::REGTYPE => names::row_type_name(&self.0, number),
            TypeId::REGNAMESPACE => names::schemas(&self.0).into_iter().find(|name| oids::of_schema(name) == number),
            TypeId::REGPROC | TypeId::REGPROCEDURE => {
                let routine = routines::by_oid(&self.0, number)?;
                Some(routines::name(&self.0, routine, ty == TypeId::REGPROCEDURE))
            }
            TypeId::REGROLE => (number == oids::ROLE).then(|| self.0.user.clone()),
            _ => None,
        }
    }
}
