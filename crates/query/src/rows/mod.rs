//! Statements on `rows` tables: on the row executor if `compiled` supports them, otherwise on DataFusion with
//! scans of the tables.
//!
//! A compiled statement runs to completion on the calling thread, in microseconds. If it must wait for
//! another transaction it is undone, the session waits without occupying a thread, and the statement runs
//! again with the same snapshot. A query that turns out to be long is restarted on a separate thread
//! (`reading`), and its rows are sent while they are produced.

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
use crate::session::Session;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::syntax_rewrites::folded;
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
pub(crate) use run::{Begun, Unfinished, begin, carried, evaluated, execute, finish, plain_datum, until_durable, wait};
pub(crate) use unload::{unload, unload_query};

/// A compiled statement, with the catalog and settings it was compiled with.
pub(crate) struct RowsPlan {
    compiled: Compiled,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Absent for a statement without a result.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    types: Vec<Type>,
    pub(crate) verb: Verb,
    /// Conditions of validity; `None` if the statement names no table: then the plan is always valid.
    valid: Option<Valid>,
    /// Whether the last run of this change was long: the next run starts where long computation is allowed.
    pub(super) was_long: AtomicBool,
}

/// A plan is valid while catalog and settings are these.
struct Valid {
    catalog: Arc<Catalog>,
    settings: Arc<Settings>,
}

/// Data command of a statement; the first word of its command tag.
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

    /// Command tag up to the number of rows.
    fn words(self) -> &'static str {
        match self {
            Verb::Select => "SELECT",
            Verb::Insert => "INSERT 0",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        }
    }

    /// Complete command tag.
    fn tag(self, rows: u64) -> String {
        format!("{} {rows}", self.words())
    }
}

/// The INSERT, UPDATE or DELETE after a WITH clause.
fn written_by(query: &ast::Query) -> Option<&ast::Statement> {
    match &*query.body {
        ast::SetExpr::Insert(sql) | ast::SetExpr::Update(sql) | ast::SetExpr::Delete(sql) => Some(sql),
        _ => None,
    }
}

impl RowsPlan {
    /// Types of the result columns.
    pub(crate) fn types(&self) -> &[Type] {
        &self.types
    }

    /// Lines of EXPLAIN: the access path of each table, outermost first.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines = vec![format!("Compiled {:?}", self.verb)];
        let steps = self.compiled.plan();
        lines.extend(steps.split(", ").filter(|step| !step.is_empty()).map(|step| format!("  {step}")));
        lines
    }

    /// Whether the plan accepts several rows of parameters and inserts one row for each.
    pub(crate) fn takes_rows(&self) -> bool {
        self.compiled.takes_rows()
    }

    /// Parses the values that a client bound, as the types of the parameters. Additional values are further
    /// rows of an INSERT that [accepts them](RowsPlan::takes_rows).
    pub(crate) fn bind<'a>(
        &self,
        given: impl Iterator<Item = (pg::Form, Option<&'a [u8]>)>,
        settings: &Arc<Settings>,
        now_ns: i64,
    ) -> Result<Bound> {
        let clocks = zone::Clocks::new(settings, now_ns);
        let mut bound = Bound::default();
        for (at, (ty, (form, bytes))) in self.compiled.params().iter().cycle().zip(given).enumerate() {
            let read = bound.push(*ty, form, bytes, &clocks);
            read.map_err(|error| error.context(format!("parameter ${}", at + 1)))?;
        }
        Ok(bound)
    }

    /// Binds the parameter values of EXECUTE.
    pub(crate) fn constants(&self, session: &Session, values: &[Value]) -> Result<Bound> {
        Bound::of_constants(values, self.compiled.params(), &zone::Clocks::of(session))
    }

    /// Whether the statement neither changes data nor locks rows.
    pub(crate) fn is_read_only(&self) -> bool {
        self.compiled.is_read_only()
    }

    /// Whether the statement reads or changes tables.
    pub(crate) fn names_tables(&self) -> bool {
        self.valid.is_some()
    }

    pub(crate) fn holds(&self, snapshot: &Snapshot, settings: &Arc<Settings>) -> bool {
        let same =
            |valid: &Valid| Arc::ptr_eq(&valid.catalog, snapshot.catalog()) && Arc::ptr_eq(&valid.settings, settings);
        self.valid.as_ref().is_none_or(same)
    }
}

/// Plans a statement on `rows` tables, or a query without tables; `None` if it names other tables or cannot
/// be compiled.
///
/// # Errors
/// Errors of PostgreSQL's parse analysis; 0A000 for a change of a `rows` table that cannot be compiled.
pub(crate) fn plan(
    session: &mut Session,
    statement: &Statement,
    sql: &ast::Statement,
    declared: &[u32],
) -> Result<Option<RowsPlan>> {
    let Some(verb) = Verb::of(sql) else { return Ok(None) };
    let on_tables = names_any(session, sql);
    // Parameter types that only DataFusion supports, in a query that either executor could run.
    let is_foreign = |oid: &u32| ![0, pg::types::oid::UNKNOWN].contains(oid) && ParamType::from_oid(*oid).is_none();
    if !on_tables && (!compiled::names_no_table(sql) || declared.iter().any(is_foreign)) {
        return Ok(None);
    }
    let settings = Arc::clone(&session.settings);
    // Without tables the transaction must not be bound to the newest commit, as in `names_any`.
    let snapshot = if on_tables { session.newest() } else { session.context().snapshot.clone() };
    let tables = Named { snapshot: &snapshot, settings: &settings };
    let types: Vec<Option<ParamType>> = declared.iter().map(|oid| ParamType::from_oid(*oid)).collect();
    let compiled = compiled::compile(sql, &tables, &types).map_err(|error| locate(error, &statement.0))?;
    // Timestamps have nanosecond precision in DataFusion.
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

/// Whether a statement names a `rows` table or calls sequence functions.
///
/// The lookup does not use the newest commit: under REPEATABLE READ it would bind a transaction on `columns`
/// tables to it.
pub(crate) fn names_any(session: &mut Session, sql: &ast::Statement) -> bool {
    let context = session.context();
    Named { snapshot: &context.snapshot, settings: &context.settings }.any_in(sql) || compiled::counts(sql)
}

/// [`names_any`] of a tree of our own parser.
pub(crate) fn names_any_of(session: &mut Session, query: &parser::ast::Query) -> bool {
    let context = session.context();
    Named { snapshot: &context.snapshot, settings: &context.settings }.any_of(query)
}

fn columns(compiled: &Compiled, verb: Verb) -> Option<Vec<OutputColumn>> {
    let columns: Vec<OutputColumn> = compiled.columns().iter().map(output_column).collect();
    (verb == Verb::Select || !columns.is_empty()).then_some(columns)
}

/// Output column of a compiled statement.
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

/// The `rows` tables of a snapshot, by names resolved with the session's settings.
pub(crate) struct Named<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) settings: &'a Settings,
}

impl Named<'_> {
    /// The `rows` table that a name refers to.
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

    /// Whether a statement names a `rows` table.
    pub(crate) fn any_in(&self, sql: &ast::Statement) -> bool {
        // Without `rows` tables in the database there is no need to visit the statement.
        if self.snapshot.catalog().row_tables().next().is_none() {
            return false;
        }
        let found = ast::visit_relations(sql, |name| match self.find(name) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// Whether a query names a `rows` table, or asks for a sequence.
    fn any_of(&self, query: &parser::ast::Query) -> bool {
        use parser::ast::Visitor;
        Relations { named: self, only: None }.visit_query(query).is_break()
    }

    /// Whether a query names this table, or asks for a sequence.
    fn names_in(&self, query: &parser::ast::Query, table: TableId) -> bool {
        use parser::ast::Visitor;
        Relations { named: self, only: Some(table) }.visit_query(query).is_break()
    }

    /// Whether the statement's target is a `rows` table.
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

/// Breaks at a `rows` table, or at one of them, and at a function of sequences.
struct Relations<'a> {
    named: &'a Named<'a>,
    only: Option<TableId>,
}

impl parser::ast::Visitor for Relations<'_> {
    type Break = ();

    fn enter_table_expr(&mut self, table: &parser::ast::TableExpr) -> ControlFlow<()> {
        let parser::ast::TableExpr::Relation(relation) = table else { return ControlFlow::Continue(()) };
        let name = &relation.name;
        let found = match name.schema() {
            None => self.named.unqualified(&name.name),
            Some(schema) => self.named.exactly(&TableName { schema: schema.to_owned(), table: name.name.to_string() }),
        };
        match found {
            Some(table) if self.only.is_none_or(|only| table.id() == only) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn enter_expr(&mut self, expr: &parser::ast::Expr) -> ControlFlow<()> {
        match &expr.kind {
            parser::ast::ExprKind::Function(call) if compiled::is_of_sequence(&call.name.name) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
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
