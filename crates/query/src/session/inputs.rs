//! Input functions for crate `ingest`: values of types that `columns` tables store in another form.

use std::sync::OnceLock;

use bumpalo::Bump;
use ingest::Inputs;
use model::stored::{Stored, store};
use model::{Result, Type};
use pg::Form;

use super::clocks::Clocks;
use super::database::Database;

impl Inputs for Clocks {
    fn stored(&self, ty: Type, form: Form, bytes: &[u8]) -> Result<Stored<'static>> {
        let arena = Bump::new();
        let value = compiled::input(ty, form, bytes, self, &arena)?;
        store(ty, &value).map(Stored::into_owned)
    }
}

/// Input functions with default settings.
pub struct DefaultInputs {
    database: Database,
    /// Made for the first value: most requests have none.
    clocks: OnceLock<Clocks>,
}

impl Inputs for DefaultInputs {
    fn stored(&self, ty: Type, form: Form, bytes: &[u8]) -> Result<Stored<'static>> {
        let clocks = self.clocks.get_or_init(|| Clocks::of(&self.database.session("")));
        clocks.stored(ty, form, bytes)
    }
}

impl Database {
    /// Input functions for values that come without a session.
    #[must_use]
    pub fn inputs(&self) -> DefaultInputs {
        DefaultInputs { database: self.clone(), clocks: OnceLock::new() }
    }
}
