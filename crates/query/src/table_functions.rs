//! Functions of applications that FROM can read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use binder::ApplicationFunction;
use binder::tree::{Table, TableColumn};
use catalog::TypeId;
use futures::stream::BoxStream;
use model::{Error, Result};
use relational::{FunctionRows, argument_columns};

use crate::Database;

/// A function of an application, such as `tsm.read('Meter', '2025-01-01', '2025-02-01')`. Its rows are those of the state when
/// they are read, not those of the statement's snapshot.
pub trait ApplicationRows: fmt::Debug + Send + Sync {
    /// Schema and name, in lower case.
    fn name(&self) -> (&'static str, &'static str);

    /// Names and types of the columns of its rows.
    fn columns(&self) -> &'static [(&'static str, TypeId)];

    /// Names of the arguments. Values of other types arrive as the texts that they are cast to.
    fn arguments(&self) -> &'static [&'static str];

    /// Number of arguments that must be given: the first ones.
    fn needed(&self) -> usize;

    /// The rows for arguments, each in its place; `None` for one that is not given. Batches have the columns, in order.
    fn rows(&self, database: &Database, arguments: Vec<Option<String>>) -> BoxStream<'static, Result<RecordBatch>>;
}

/// Schema of the tables of functions of applications, which no name in a statement can have. Their numbers are those of the
/// functions.
pub(crate) const SCHEMA: &str = "(application)";

/// Functions of applications.
#[derive(Debug, Default)]
pub(crate) struct Functions(OnceLock<Vec<Arc<dyn ApplicationRows>>>);

impl Database {
    /// Adds the functions of all applications, once, before the first statement.
    ///
    /// # Panics
    /// If there are functions.
    pub fn add_functions(&self, functions: Vec<Arc<dyn ApplicationRows>>) {
        assert!(self.kept::<Functions>().0.set(functions).is_ok(), "functions of applications are added once");
    }
}

impl Functions {
    fn all(&self) -> &[Arc<dyn ApplicationRows>] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    /// The function of a name, for the binder.
    pub(crate) fn find(&self, schema: &str, name: &str) -> Option<ApplicationFunction> {
        let (number, function) =
            self.all().iter().enumerate().find(|(_, function)| function.name() == (schema, name))?;
        let column = |name: String, ty: TypeId| TableColumn { name: name.into(), ty, typmod: -1, ..Default::default() };
        let columns = function.columns().iter().map(|(name, ty)| column((*name).to_owned(), *ty));
        let arguments = function.arguments().iter().flat_map(|name| argument_columns(name));
        let arguments = arguments.map(|(name, ty)| column(name, ty));
        let table = Table {
            oid: u32::try_from(number).ok()?,
            schema: SCHEMA.into(),
            name: name.into(),
            columns: columns.chain(arguments).collect(),
            has_nanoseconds: true,
            ..Table::default()
        };
        Some(ApplicationFunction {
            table: Arc::new(table),
            shown: function.columns().len(),
            arguments: function.arguments(),
            needed: function.needed(),
        })
    }

    /// The rows of a function whose table has this number.
    ///
    /// # Errors
    /// XX000 if there is none.
    pub(crate) fn rows(&self, number: u32, database: &Database) -> Result<Arc<dyn FunctionRows>> {
        let function =
            self.all().get(number as usize).ok_or_else(|| Error::bug("a function in FROM without its rows"))?;
        Ok(Arc::new(Rows { function: Arc::clone(function), database: database.clone() }))
    }
}

/// A function of an application over its database.
struct Rows {
    function: Arc<dyn ApplicationRows>,
    database: Database,
}

impl fmt::Debug for Rows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name())
    }
}

impl FunctionRows for Rows {
    fn name(&self) -> String {
        let (schema, name) = self.function.name();
        format!("{schema}.{name}")
    }

    fn columns(&self) -> Vec<(&'static str, TypeId)> {
        self.function.columns().to_vec()
    }

    fn arguments(&self) -> &'static [&'static str] {
        self.function.arguments()
    }

    fn rows(&self, arguments: Vec<Option<String>>) -> BoxStream<'static, Result<RecordBatch>> {
        self.function.rows(&self.database, arguments)
    }
}
