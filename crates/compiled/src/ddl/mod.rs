//! Definition statements for `rows` tables: from parsed SQL to the next descriptions of tables and sequences, and what must be
//! done with rows before those count.
//!
//! - [`define`], [`define_sequence`]: a statement against a [`Catalog`]; its [`Definition`] is carried out without knowing SQL.
//! - [`prepared`], [`sequence`]: what the parser does not read, as tokens.
//! - `draft`, `column`, `table_constraints`: a description while it changes; `create`, `alter`, `index`, `drop`, `sequence`: statements.
//! - `expressions`: CHECK and DEFAULT; `types`: types of columns; `names`: names that nobody gave; `table_work`: what rows go through.
//!
//! Always true: nothing here does I/O or changes anything: a statement that fails has left no trace but numbers that nobody has. Errors,
//! notices and names that nobody gave are PostgreSQL's.

mod alter;
mod column;
mod create;
mod draft;
mod drop;
mod expressions;
mod index;
mod names;
mod sequence;
mod table_constraints;
mod table_work;
#[cfg(test)]
mod tests;
mod token_rewrite;
mod types;

use model::{Error, Result, RowSchema, RowSchemaRef, SequenceRef, SequenceSpec, SqlState, TableId, TableName};
use sqlparser::ast;

pub(crate) use names::quoted;
pub use sequence::{SequenceAction, SequenceStatement};
pub use table_work::{Condition, Rewrite, Work};
pub use token_rewrite::{prepared, sequence};

use crate::statement::Session;

/// What there is, as definitions see it: one moment of the catalog, the transaction's own changes included.
///
/// What is provided looks at all tables; a catalog with an index of its own may do better.
pub trait Catalog {
    /// The schema where names without one are.
    fn current_schema(&self) -> String;

    /// Is there a schema of this name?
    fn is_schema(&self, name: &str) -> bool;

    /// The `rows` table of this name.
    fn table(&self, name: &TableName) -> Option<RowSchemaRef>;

    /// All `rows` tables.
    fn tables(&self) -> Vec<RowSchemaRef>;

    /// The sequence of this name.
    fn sequence(&self, name: &TableName) -> Option<SequenceRef>;

    /// All sequences.
    fn sequences(&self) -> Vec<SequenceRef>;

    /// Has anything of another kind this name: a `columns` table, a view? `rows` tables, their indexes and sequences need not be told.
    fn is_other(&self, name: &TableName) -> bool;

    /// A number that nothing of this kind has or had.
    fn next_id(&self, of: Object) -> u32;

    /// The `rows` table with this number.
    fn by_id(&self, id: TableId) -> Option<RowSchemaRef> {
        self.tables().into_iter().find(|table| table.id == id)
    }

    /// The table that has an index of this name.
    fn index(&self, name: &TableName) -> Option<RowSchemaRef> {
        let has = |table: &RowSchemaRef| table.name.schema == name.schema && has_index(table, &name.table);
        self.tables().into_iter().find(has)
    }

    /// Is a constraint in a schema called this?
    fn is_constraint(&self, schema: &str, name: &str) -> bool {
        self.tables().iter().any(|table| table.name.schema == schema && constraints(table).any(|one| one == name))
    }
}

/// What has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Of all stores.
    Table,
    /// Primary keys among them.
    Index,
    /// Sequences.
    Sequence,
}

/// What a statement comes to.
#[derive(Debug)]
pub struct Definition {
    /// What the client is told that was done.
    pub tag: &'static str,
    /// To be carried out in order, all or none; nothing where IF EXISTS or IF NOT EXISTS says so.
    pub changes: Vec<Change>,
    /// To be told to the client, in order.
    pub notices: Vec<Notice>,
}

impl Definition {
    fn new(tag: &'static str) -> Definition {
        Definition { tag, changes: Vec::new(), notices: Vec::new() }
    }
}

/// One step of carrying a statement out.
#[derive(Debug)]
pub enum Change {
    /// A new table.
    Create(RowSchema),
    /// A table's next description. Indexes whose numbers it has no longer go away.
    Alter {
        /// What the table becomes.
        next: RowSchema,
        /// What must be done before, in order, with the rows of the newest commit and the transaction's own.
        work: Vec<Work>,
    },
    /// A table goes away, with its indexes.
    Drop(TableId),
    /// A new sequence, at its start.
    CreateSequence(SequenceSpec),
    /// A sequence's next description.
    AlterSequence {
        /// What it becomes; if nothing of it is restarted, its value must still pass [`SequenceSpec::check_restart`].
        next: SequenceSpec,
        /// The value it gives next.
        restart: Option<i64>,
    },
    /// A sequence goes away.
    DropSequence(u32),
}

/// What a client is told besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One sentence without a full stop.
    pub message: String,
    /// More of it, in lines.
    pub detail: Option<String>,
}

impl Notice {
    fn new(message: impl Into<String>) -> Notice {
        Notice { message: message.into(), detail: None }
    }
}

/// What a statement comes to; `None` if it is none about `rows` tables and sequences.
///
/// - `session`: for values of defaults that rows get at once.
///
/// # Errors
/// As PostgreSQL's, with its SQLSTATEs; 0A000 for what `rows` tables do not have.
pub fn define(sql: &ast::Statement, catalog: &dyn Catalog, session: Session<'_>) -> Result<Option<Definition>> {
    match sql {
        ast::Statement::CreateTable(create) => create::create(create, catalog, session),
        ast::Statement::AlterTable(alter) => alter::alter(alter, catalog, session),
        ast::Statement::CreateIndex(create) => index::create(create, catalog, session),
        ast::Statement::AlterIndex { name, operation } => index::alter(name, operation, catalog, session),
        ast::Statement::CreateSequence { .. } => define_sequence(&SequenceStatement::of(sql)?, catalog).map(Some),
        ast::Statement::Drop { object_type, if_exists, names, cascade, .. } => match object_type {
            ast::ObjectType::Table => drop::tables(names, *if_exists, *cascade, catalog),
            ast::ObjectType::Index => drop::indexes(names, *if_exists, *cascade, catalog, session),
            ast::ObjectType::Sequence => drop::sequences(names, *if_exists, *cascade, catalog).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// What CREATE SEQUENCE or ALTER SEQUENCE comes to.
///
/// # Errors
/// As PostgreSQL's: 42P07, 42P01, 42704, 22023 and others.
pub fn define_sequence(statement: &SequenceStatement, catalog: &dyn Catalog) -> Result<Definition> {
    sequence::define(statement, catalog)
}

/// All indexes of a table, the primary one first.
fn indexes(table: &RowSchema) -> impl Iterator<Item = &model::RowIndex> {
    table.primary.iter().chain(&table.secondary)
}

fn has_index(table: &RowSchema, name: &str) -> bool {
    indexes(table).any(|index| index.name == name)
}

/// Names of a table's constraints.
fn constraints(table: &RowSchema) -> impl Iterator<Item = &str> {
    let keys = indexes(table).filter(|index| index.constraint).map(|index| index.name.as_str());
    let checks = table.checks.iter().map(|check| check.name.as_str());
    keys.chain(checks).chain(table.foreign_keys.iter().map(|key| key.name.as_str()))
}

/// Is there anything called this?
fn is_taken(catalog: &dyn Catalog, name: &TableName) -> bool {
    catalog.table(name).is_some()
        || catalog.index(name).is_some()
        || catalog.sequence(name).is_some()
        || catalog.is_other(name)
}

fn exists_already(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

fn no_relation(name: &TableName, written: &ast::ObjectName) -> Error {
    let text = format!("relation \"{}\" does not exist", names::as_written(name, written));
    Error::new(SqlState::UNDEFINED_TABLE, text)
}

fn no_column(column: &str, table: &str) -> Error {
    let text = format!("column \"{column}\" of relation \"{table}\" does not exist");
    Error::new(SqlState::UNDEFINED_COLUMN, text)
}
