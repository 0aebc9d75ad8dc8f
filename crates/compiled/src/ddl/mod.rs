//! Definition statements for `rows` tables: from parsed SQL to new versions of tables and sequences, and the work
//! on existing rows before they take effect.
//!
//! - [`define`]: plans a statement against a [`Catalog`]; the resulting [`Definition`] is applied without knowledge of
//!   SQL.
//! - `draft`, `column`, `table_constraints`: a table description while it changes; `create`, `alter`, `index`,
//!   `drop`, `sequence`, `trigger`, `view`, `user_types`: statements.
//! - `expressions`: CHECK and DEFAULT; `generated`: generated columns, and expressions of indexes; `types`: column types; `names`: name resolution and generated names;
//!   `table_work`: work on existing rows.
//!
//! Always true: nothing here does I/O or changes anything. A statement that fails leaves no trace except unused
//! ids. Errors, notices and generated names are PostgreSQL's.

mod alter;
mod column;
mod composite;
mod create;
mod draft;
mod drop;
mod expressions;
mod function_bodies;
mod generated;
mod index;
mod inheritance;
mod names;
mod partition;
mod sequence;
mod table_constraints;
mod table_work;
#[cfg(test)]
mod tests;
mod trigger;
mod types;
mod user_types;
mod view;

use model::{
    Error, Result, RowSchema, RowSchemaRef, SequenceRef, SequenceSpec, SqlState, TableId, TableName, TypeSpec,
    TypeSpecRef, ViewRef, ViewSpec,
};
use parser::ast::{self, ObjectKind as Kind, ObjectName, Statement};

pub(crate) use expressions::empty_table;
pub(crate) use names::quoted;
pub use names::{TEMPORARY, is_temporary, new_relation};
pub use table_work::{Condition, PartitionCheck, Rewrite, Work};
pub use user_types::{find_type, is_system_type, no_type, row_type};
pub use view::{check_is_updatable, set_option};

use crate::statement::Session;

/// The catalog as definition statements see it: a snapshot that includes the transaction's own changes.
///
/// The provided methods scan all tables; a catalog with its own indexes may override them.
pub trait Catalog {
    /// Schema of new objects without a qualifier.
    fn current_schema(&self) -> String;

    /// Schemas in which objects without a qualifier are looked for, in order.
    fn search_path(&self) -> Vec<String> {
        vec![self.current_schema()]
    }

    /// The schema that a qualifier means: `pg_temp` is that of the session's temporary objects.
    fn schema(&self, qualifier: &str) -> String {
        qualifier.to_owned()
    }

    /// Whether the schema exists.
    fn is_schema(&self, name: &str) -> bool;

    /// A `rows` table by name.
    fn table(&self, name: &TableName) -> Option<RowSchemaRef>;

    /// All `rows` tables.
    fn tables(&self) -> Vec<RowSchemaRef>;

    /// A sequence by name.
    fn sequence(&self, name: &TableName) -> Option<SequenceRef>;

    /// All sequences.
    fn sequences(&self) -> Vec<SequenceRef>;

    /// Whether a table of the other store has the name.
    fn is_other(&self, name: &TableName) -> bool;

    /// A view by name.
    fn view(&self, name: &TableName) -> Option<ViewRef>;

    /// The materialized view whose rows a table has.
    fn materialized_view(&self, _table: TableId) -> Option<ViewRef> {
        None
    }

    /// Views that read one of these tables and views, directly or through others; each before those that read it.
    fn dependent_views(&self, objects: &[u32]) -> Vec<ViewRef>;

    /// A type of a user by name.
    fn user_type(&self, _name: &TableName) -> Option<TypeSpecRef> {
        None
    }

    /// All types of users.
    fn user_types(&self) -> Vec<TypeSpecRef> {
        Vec::new()
    }

    /// All views.
    fn views(&self) -> Vec<ViewRef> {
        Vec::new()
    }

    /// A random number.
    fn random(&self) -> u64 {
        0
    }

    /// An id never used before for this kind of object.
    fn next_id(&self, of: Object) -> u32;

    /// A `rows` table by id.
    fn by_id(&self, id: TableId) -> Option<RowSchemaRef> {
        self.tables().into_iter().find(|table| table.id == id)
    }

    /// The table that has an index with this name.
    fn index(&self, name: &TableName) -> Option<RowSchemaRef> {
        let has = |table: &RowSchemaRef| table.name.schema == name.schema && has_index(table, &name.table);
        self.tables().into_iter().find(has)
    }

    /// Whether the schema has a constraint with this name.
    fn is_constraint(&self, schema: &str, name: &str) -> bool {
        self.tables().iter().any(|table| table.name.schema == schema && constraints(table).any(|one| one == name))
    }
}

/// Kinds of objects with ids of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Tables of all stores.
    Table,
    /// Indexes, including primary keys.
    Index,
    /// Sequences.
    Sequence,
    /// Types.
    Type,
}

/// The planned effect of a definition statement.
#[derive(Debug)]
pub struct Definition {
    /// Command tag for the client.
    pub tag: &'static str,
    /// Changes to apply in order, all or none; empty if IF EXISTS or IF NOT EXISTS skipped the statement.
    pub changes: Vec<Change>,
    /// Notices for the client, in order.
    pub notices: Vec<Notice>,
}

impl Definition {
    fn new(tag: &'static str) -> Definition {
        Definition { tag, changes: Vec::new(), notices: Vec::new() }
    }
}

/// One catalog change.
#[derive(Debug)]
pub enum Change {
    /// Create a table.
    Create(RowSchema),
    /// Replace a table's description. Indexes whose ids are no longer in it are dropped.
    Alter {
        /// The new description.
        next: RowSchema,
        /// Work to do first, in order, on the newest committed rows and the transaction's own.
        work: Vec<Work>,
    },
    /// Drop a table with its indexes.
    Drop(TableId),
    /// Create a sequence at its start value.
    CreateSequence(SequenceSpec),
    /// Replace a sequence's description.
    AlterSequence {
        /// The new description. Without `restart`, the current value must pass [`SequenceSpec::check_restart`].
        next: SequenceSpec,
        /// The next value.
        restart: Option<i64>,
    },
    /// Drop a sequence by id.
    DropSequence(u32),
    /// Replace a view's description.
    AlterView(ViewSpec),
    /// Drop a view by id.
    DropView(u32),
    /// Create a type.
    CreateType(TypeSpec),
    /// Replace a type's description.
    AlterType(TypeSpec),
}

/// A notice to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One sentence without a full stop.
    pub message: String,
    /// Further lines.
    pub detail: Option<String>,
}

impl Notice {
    fn new(message: impl Into<String>) -> Notice {
        Notice { message: message.into(), detail: None }
    }
}

/// Plans a definition statement; `None` if it does not concern `rows` tables or sequences.
///
/// - `session`: expressions are bound by its facts ([`crate::Zone::facts`]); existing rows get the values that defaults
///   have in it.
///
/// # Errors
/// PostgreSQL's, with its SQLSTATEs and without a position; 0A000 for features that `rows` tables lack.
pub fn define(statement: &Statement, catalog: &dyn Catalog, session: Session<'_>) -> Result<Option<Definition>> {
    match statement {
        Statement::CreateTable(create) => create::create(create, catalog, session),
        Statement::AlterTable(alter) => match alter.kind {
            Kind::Table | Kind::View if let Some(view) = view::find(&alter.name, catalog)? => {
                view::alter(&view, &alter.actions).map(Some)
            }
            Kind::View => view::missing(&alter.name, alter.if_exists, catalog).map(Some),
            Kind::Table | Kind::ForeignTable | Kind::MaterializedView => alter::alter(alter, catalog, session),
            Kind::Index => index::act(alter, catalog, session),
            Kind::Sequence => sequence::act(alter, catalog).map(Some),
            _ => Ok(None),
        },
        Statement::CreateEnum(create) => user_types::create_enum(create, catalog).map(Some),
        Statement::CreateCompositeType(create) => composite::create(create, catalog, session).map(Some),
        Statement::AlterType(alter) => composite::alter(alter, catalog, session),
        Statement::AlterEnum(alter) => user_types::alter_enum(alter, catalog).map(Some),
        Statement::CreateDomain(create) => user_types::create_domain(create, catalog, session).map(Some),
        Statement::AlterDomain(alter) => user_types::alter_domain(alter, catalog, session).map(Some),
        Statement::Rename(rename) if matches!(rename.kind, Kind::Type | Kind::Domain) => {
            user_types::rename(rename, catalog)
        }
        Statement::AlterSchema(alter) if matches!(alter.kind, Kind::Type | Kind::Domain) => {
            user_types::set_schema(alter, catalog)
        }
        Statement::AlterOwner(alter) if matches!(alter.kind, Kind::Type | Kind::Domain) => {
            user_types::set_owner(alter, catalog)
        }
        Statement::CreateTrigger(one) => trigger::create(one, catalog, session).map(Some),
        Statement::CreateIndex(create) => index::create(create, catalog, session),
        Statement::CreateSequence(create) => sequence::create(create, catalog, session).map(Some),
        Statement::AlterSequence(alter) => sequence::alter(alter, catalog, session).map(Some),
        Statement::Rename(rename) if let (Kind::Trigger, ObjectName::On(name, of)) = (rename.kind, &rename.object) => {
            trigger::rename(name, of, &rename.to, catalog).map(Some)
        }
        Statement::Rename(rename) => {
            let ObjectName::Name(name) = &rename.object else { return Ok(None) };
            match rename.kind {
                Kind::Table | Kind::View if let Some(view) = view::find(name, catalog)? => {
                    view::rename(view, rename, catalog).map(Some)
                }
                Kind::View => view::missing(name, rename.if_exists, catalog).map(Some),
                Kind::Table | Kind::ForeignTable | Kind::MaterializedView => {
                    alter::rename(name, rename, catalog, session)
                }
                Kind::Index => index::rename(name, rename.if_exists, &rename.to, catalog, session),
                Kind::Sequence => sequence::rename(name, rename.if_exists, &rename.to, catalog).map(Some),
                _ => Ok(None),
            }
        }
        Statement::AlterSchema(alter) => match (&alter.object, alter.kind) {
            (ObjectName::Name(name), Kind::Table | Kind::View) if let Some(view) = view::find(name, catalog)? => {
                view::set_schema(view, &alter.schema, catalog).map(Some)
            }
            (ObjectName::Name(name), Kind::View) => view::missing(name, alter.if_exists, catalog).map(Some),
            (ObjectName::Name(name), Kind::Table | Kind::ForeignTable | Kind::MaterializedView) => {
                alter::set_schema(alter, name, catalog, session)
            }
            (ObjectName::Name(name), Kind::Sequence) => sequence::set_schema(alter, name, catalog).map(Some),
            _ => Ok(None),
        },
        Statement::Drop(drop) => match drop.kind {
            Kind::Table | Kind::ForeignTable | Kind::MaterializedView => drop::tables(drop, catalog),
            Kind::Index => drop::indexes(drop, catalog, session),
            Kind::Sequence => drop::sequences(drop, catalog).map(Some),
            Kind::View => drop::views(drop, catalog).map(Some),
            Kind::Trigger => trigger::drop(drop, catalog).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// All indexes of a table, the primary key first.
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

/// Whether any relation has this name.
fn is_taken(catalog: &dyn Catalog, name: &TableName) -> bool {
    catalog.table(name).is_some()
        || catalog.index(name).is_some()
        || catalog.sequence(name).is_some()
        || catalog.is_other(name)
        || catalog.view(name).is_some()
}

fn exists_already(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

fn no_relation(name: &TableName, written: &ast::Name) -> Error {
    let text = format!("relation \"{}\" does not exist", names::as_written(name, written));
    Error::new(SqlState::UNDEFINED_TABLE, text)
}

/// The definition of an ALTER of a relation that does not exist: nothing with IF EXISTS, else error 42P01.
fn missing_relation(tag: &'static str, if_exists: bool, name: &TableName, written: &ast::Name) -> Result<Definition> {
    let error = no_relation(name, written);
    if !if_exists {
        return Err(error);
    }
    let notice = Notice::new(format!("{}, skipping", error.message()));
    Ok(Definition { notices: vec![notice], ..Definition::new(tag) })
}

fn no_column(column: &str, table: &str) -> Error {
    let text = format!("column \"{column}\" of relation \"{table}\" does not exist");
    Error::new(SqlState::UNDEFINED_COLUMN, text)
}
