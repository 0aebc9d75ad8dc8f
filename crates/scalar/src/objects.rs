//! The database as functions and types of object names see it: tables, roles, schemas, settings.

use std::fmt::Debug;

use model::{Datum, Result, TypeSpecRef, user_types};

use catalog::TypeId;

use crate::context::Context;
use crate::expr::Call;

/// Facts about the database of a session. Functions such as `pg_get_indexdef` and values of type `regclass` need them.
pub trait Objects: Debug + Send + Sync {
    /// Whether [`Objects::call`] has a function, by its number in `pg_proc`.
    fn has_function(&self, function: u32) -> bool;

    /// Calls a function that [`Objects::has_function`] has. NULL arguments reach it only if it is not strict.
    ///
    /// # Errors
    /// Those of the function.
    fn call<'a>(&self, arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>>;

    /// The channels that the session listens to.
    fn listening(&self) -> Vec<String> {
        Vec::new()
    }

    /// The partitions of a table or index and itself: number, that of the parent, whether it has no partitions, and level.
    fn partition_tree(&self, _relation: u32) -> Vec<(u32, Option<u32>, bool, i32)> {
        Vec::new()
    }

    /// A partition and those that it is a partition of, the innermost first.
    fn partition_ancestors(&self, _relation: u32) -> Vec<u32> {
        Vec::new()
    }

    /// The number of the object with a name. `ty` is `regclass`, `regnamespace`, `regrole`, `regproc` or `regprocedure` for
    /// a function of a user, or `regtype` for the type of a table's rows or of a user.
    ///
    /// # Errors
    /// 42P01, 3F000, 42883 or 42704 if there is none; 42725 if there are several.
    fn number(&self, name: &str, ty: TypeId) -> Result<u32>;

    /// The name of the object with a number, with its schema where the search path does not find it; `None` if there is
    /// no such object.
    fn name(&self, number: u32, ty: TypeId) -> Option<String>;

    /// The type of a user with an OID, or of the array with it, as the session's transaction sees it.
    fn user_type(&self, oid: u32) -> Option<TypeSpecRef> {
        user_types::find(oid)
    }
}
