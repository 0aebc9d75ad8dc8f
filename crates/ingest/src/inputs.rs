//! Values of types that `columns` tables store in another form.

use model::stored::Stored;
use model::{Error, Result, Type};
use pg::Form;

/// Reads values of the types of [`model::stored`]: PostgreSQL's input functions are above this crate.
pub trait Inputs: Send + Sync {
    /// The stored form of a value that is assigned to a column of a type.
    ///
    /// # Errors
    /// PostgreSQL's for a text or bytes that are no value of the type, and for a value that the type does not have.
    fn stored(&self, ty: Type, form: Form, bytes: &[u8]) -> Result<Stored<'static>>;
}

/// For tables without fields of such types.
#[derive(Clone, Copy, Debug)]
pub struct NoInputs;

impl Inputs for NoInputs {
    fn stored(&self, ty: Type, _: Form, _: &[u8]) -> Result<Stored<'static>> {
        Err(Error::bug(format!("a value of type {ty}")))
    }
}
