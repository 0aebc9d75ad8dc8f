//! Statements on `rows` tables: compiled where they can be, else planned by DataFusion over scans of the tables.
//!
//! A compiled statement runs to its end on the thread that asked for it, in microseconds. Where it must wait for another
//! transaction it is undone, the session waits without holding a thread, and it is run again with the snapshot it had.
//! A query that turns out to be long is begun again on a thread of its own (`reading`), and its rows go out while they are made.

pub(crate) mod arrow;
mod bound;
mod bulk;
mod define;
mod feed;
mod hypertable;
mod load;
mod lock;
mod reading;
mod run;
pub(crate) mod scan;
mod unload;
mod zone;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::rows::RowTable;
use compiled::{Compiled, ParamType, Tables};
use datafusion::sql::sqlparser::ast::{self, ObjectName};
use engine::{Catalog, Snapshot};
use model::{Error, Result, SequenceRef, TableId, TableName, Type};

use crate::errors::locate;
use crate::rewrite::folded;
use crate::session::Session;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::types::{OutputColumn, Value};

pub use bound::Bound;
pub(crate) use bulk::BulkRows;
pub(crate) use define::{define, define_sequence};
pub(crate) use feed::{FeedPlan, feed, plan_feed};
pub(crate) use hypertable::{Call, extension, is_timescale};
pub(crate) use load::Loading;
pub(crate) use lock::lock_tables;
pub(crate) use reading::READERS_WAITING_MAX;
pub use run::{Arguments, Executed, Messages};
pub(crate) use run::{Begun, Unfinished, begin, carried, evaluated, execute, finish, until_durable, wait};
pub(crate) use unload::{unload, unload_query};

/// A compiled statement and what it was compiled against.
pub(crate) struct RowsPlan {
    compiled: Compiled,
    /// OIDs
    pub(crate) parameters: Vec<u32>,
    /// `None` for a statement without a result.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    types: Vec<Type>,
    pub(crate) verb: Verb,
    /// Nothing if it names no table: then it always holds.
    valid: Option<Valid>,
    /// A change that turned out to be long when it ran last: the next run starts where it may take its time.
    pub(super) was_long: AtomicBool,
}

/// A plan holds while these are the same.
struct Valid {
    catalog: Arc<Catalog>,
    settings: Arc<Settings>,
}

/// What a command tag begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Select,
    Insert,
    Update,
    Delete,
}

impl Verb {
    fn of(sql: &ast::Statement) -> Option<Verb> {
        Some(match sql {
            ast::Statement::Query(query) => return written_by(query).map_or(Some(Verb::Select), Verb::of),
            ast::Statement::Insert(_) => Verb::Insert,
            ast::Statement::Update(_) => Verb::Update,
            ast::Statement::Delete(_) => Verb::Delete,
            _ => return None,
        })
    }

    /// What stands in the command tag before the number of rows.
    fn words(self) -> &'static str {
        match self {
            Verb::Select => "SELECT",
            Verb::Insert => "INSERT 0",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        }
    }

    /// The command tag.
    fn tag(self, rows: u64) -> String {
        format!("{} {rows}", self.words())
    }
}

/// The change that a query with WITH before it is.
fn written_by(query: &ast::Query) -> Option<&ast::Statement> {
    match &*query.body {
        ast::SetExpr::Insert(sql) | ast::SetExpr::Update(sql) | ast::SetExpr::Delete(sql) => Some(sql),
        _ => None,
    }
}

impl RowsPlan {
    /// The types of its columns.
    pub(crate) fn types(&self) -> &[Type] {
        &self.types
    }

    /// What EXPLAIN says: how the rows of each table are found, outermost first.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines = vec![format!("Compiled {:?}", self.verb)];
        let steps = self.compiled.plan();
        lines.extend(steps.split(", ").filter(|step| !step.is_empty()).map(|step| format!("  {step}")));
        lines
    }

    /// Does it insert one row for each of several rows of parameters, if it is given such?
    pub(crate) fn takes_rows(&self) -> bool {
        self.compiled.takes_rows()
    }

    /// Reads the values that a client bound, in the types of the parameters; more values than these are further rows of an INSERT that
    /// [takes them](RowsPlan::takes_rows).
    pub(crate) fn bind<'a>(
        &self,
        given: impl Iterator<Item = (pg::Form, Option<&'a [u8]>)>,
        settings: &Settings,
    ) -> Result<Bound> {
        let clocks = zone::Clocks(settings.zone().clone());
        let mut bound = Bound::default();
        for (at, (ty, (form, bytes))) in self.compiled.params().iter().cycle().zip(given).enumerate() {
            let read = bound.push(*ty, form, bytes, &clocks);
            read.map_err(|error| error.context(format!("parameter ${}", at + 1)))?;
        }
        Ok(bound)
    }

    /// Its parameters, as EXECUTE gives them.
    pub(crate) fn constants(&self, session: &Session, values: &[Value]) -> Result<Bound> {
        Bound::of_constants(values, self.compiled.params(), &zone::Clocks(session.settings.zone().clone()))
    }

    /// Does it change nothing, and lock nothing?
    pub(crate) fn is_read_only(&self) -> bool {
        self.compiled.is_read_only()
    }

    /// Does it read or change tables?
    pub(crate) fn names_tables(&self) -> bool {
        self.valid.is_some()
    }

    pub(crate) fn holds(&self, snapshot: &Snapshot, settings: &Arc<Settings>) -> bool {
        let same =
            |valid: &Valid| Arc::ptr_eq(&valid.catalog, snapshot.catalog()) && Arc::ptr_eq(&valid.settings, settings);
        self.valid.as_ref().is_none_or(same)
    }
}

/// Plans a statement on `rows` tables, or a query on no tables; `None` if it names others, or is none that is compiled.
///
/// # Errors
/// As PostgreSQL's parse analysis; 0A000 for a change of a `rows` table that is not compiled.
pub(crate) fn plan(
    session: &mut Session,
    statement: &Statement,
    sql: &ast::Statement,
    declared: &[u32],
) -> Result<Option<RowsPlan>> {
    let Some(verb) = Verb::of(sql) else { return Ok(None) };
    let on_tables = names_any(session, sql);
    // Types that only the other tier has, of a query that it could do as well.
    let is_foreign = |oid: &u32| ![0, pg::types::oid::UNKNOWN].contains(oid) && ParamType::from_oid(*oid).is_none();
    if !on_tables && (!compiled::names_no_table(sql) || declared.iter().any(is_foreign)) {
        return Ok(None);
    }
    let settings = Arc::clone(&session.settings);
    // As in `names_any`: without tables there is no need to be bound to the newest commit.
    let snapshot = if on_tables { session.newest() } else { session.context().snapshot.clone() };
    let tables = Named { snapshot: &snapshot, settings: &settings };
    let types: Vec<Option<ParamType>> = declared.iter().map(|oid| ParamType::from_oid(*oid)).collect();
    let compiled = compiled::compile(sql, &tables, &types).map_err(|error| locate(error, &statement.0))?;
    // Moments have nanoseconds in the other tier.
    let compiled = compiled.filter(|compiled| on_tables || !compiled.has_moments());
    let Some(compiled) = compiled else {
        if verb == Verb::Select
            || !tables.changes(sql)
            || matches!(sql, ast::Statement::Insert(insert) if insert.source.is_some())
        {
            return Ok(None);
        }
        let text = "this form of INSERT, UPDATE or DELETE is not supported on a rows table";
        return Err(locate(Error::unsupported(text), &statement.0));
    };
    Ok(Some(RowsPlan {
        parameters: compiled.params().iter().map(|ty| ty.oid()).collect(),
        columns: columns(&compiled, verb),
        types: compiled.columns().iter().map(|column| column.ty).collect(),
        compiled,
        verb,
        valid: on_tables.then(|| Valid { catalog: Arc::clone(snapshot.catalog()), settings }),
        was_long: AtomicBool::new(false),
    }))
}

/// Does a statement name a `rows` table, or ask for numbers of sequences?
///
/// The newest commit is not looked at: under REPEATABLE READ a transaction on `columns` tables alone would be bound to it.
pub(crate) fn names_any(session: &mut Session, sql: &ast::Statement) -> bool {
    let context = session.context();
    Named { snapshot: &context.snapshot, settings: &context.settings }.any_in(sql) || compiled::counts(sql)
}

fn columns(compiled: &Compiled, verb: Verb) -> Option<Vec<OutputColumn>> {
    let columns: Vec<OutputColumn> = compiled.columns().iter().map(output_column).collect();
    (verb == Verb::Select || !columns.is_empty()).then_some(columns)
}

/// A column of a compiled statement's result as clients see it.
fn output_column(column: &compiled::Output) -> OutputColumn {
    let number =
        |(table, at): (TableId, usize)| Some((crate::pg_catalog::table_oid(table), i16::try_from(at + 1).ok()?));
    OutputColumn {
        name: column.name.clone(),
        oid: column.ty.oid(),
        typmod: column.ty.typmod(),
        origin: column.origin.and_then(number),
    }
}

/// The `rows` tables of a snapshot, by name as a session resolves it.
pub(crate) struct Named<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) settings: &'a Settings,
}

impl Named<'_> {
    /// The `rows` table that a name in a statement means.
    pub(crate) fn find(&self, name: &ObjectName) -> Option<Arc<RowTable>> {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        match parts.as_slice() {
            [table] => self.unqualified(table),
            [schema, table] | [_, schema, table] => {
                self.exactly(&TableName { schema: schema.clone(), table: table.clone() })
            }
            _ => None,
        }
    }

    fn unqualified(&self, table: &str) -> Option<Arc<RowTable>> {
        let catalog = self.snapshot.catalog();
        let names = self.settings.search_path().into_iter();
        let mut names = names.map(|schema| TableName { schema, table: table.to_owned() });
        names.find(|name| catalog.has_relation(name)).and_then(|name| self.exactly(&name))
    }

    fn exactly(&self, name: &TableName) -> Option<Arc<RowTable>> {
        self.snapshot.row_table(name).ok().cloned()
    }

    /// Does a statement name one?
    pub(crate) fn any_in(&self, sql: &ast::Statement) -> bool {
        // Without one in the whole database there is no need to look.
        if self.snapshot.catalog().row_tables().next().is_none() {
            return false;
        }
        let found = ast::visit_relations(sql, |name| match self.find(name) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// Does a statement name this table?
    fn names(&self, sql: &ast::Statement, table: TableId) -> bool {
        let found = ast::visit_relations(sql, |name| match self.find(name) {
            Some(found) if found.id() == table => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// Is the table that a statement changes one?
    fn changes(&self, sql: &ast::Statement) -> bool {
        match sql {
            ast::Statement::Query(query) => written_by(query).is_some_and(|sql| self.changes(sql)),
            ast::Statement::Insert(insert) => match &insert.table {
                ast::TableObject::TableName(name) => self.find(name).is_some(),
                _ => false,
            },
            ast::Statement::Update(_) => true,
            ast::Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
                from.iter().any(|table| match &table.relation {
                    ast::TableFactor::Table { name, .. } => self.find(name).is_some(),
                    _ => false,
                })
            }
            _ => false,
        }
    }
}

impl Tables for Named<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        match schema {
            None => self.unqualified(name),
            Some(schema) => self.exactly(&TableName { schema: schema.to_owned(), table: name.to_owned() }),
        }
    }

    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef> {
        let catalog = self.snapshot.catalog();
        let schemas = schema.map_or_else(|| self.settings.search_path(), |schema| vec![schema.to_owned()]);
        let mut names = schemas.into_iter().map(|schema| TableName { schema, table: name.to_owned() });
        names.find(|name| catalog.has_relation(name)).and_then(|name| catalog.sequence(&name).cloned())
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.snapshot.row_table_by_id(id).ok().cloned()
    }

    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>> {
        let refers = |schema: &&model::RowSchemaRef| schema.foreign_keys.iter().any(|key| key.table == id);
        self.snapshot.catalog().row_tables().filter(refers).filter_map(|schema| self.by_id(schema.id)).collect()
    }
}
