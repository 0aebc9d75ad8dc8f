//! Planning of statements on `rows` tables for the row executor, which refuses some with a reason.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use catalog::TypeId;
use compiled::{Compiled, Lowered, ParamType, StatementTrigger};
use engine::{Catalog, Snapshot};
use model::{Error, Result, Storage, TableId, Type};
use parser::ast as tree;
use pg::types::oid;
use relational::files::FilesTable;
use relational::types::{OutputColumn, Value};

use super::feed::{self, FeedPlan};
use crate::binding;
use crate::errors::locate;
use crate::result::Bound;
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::context::StatementContext;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::tables::{Changed, Named};

/// A compiled statement, with the catalog and settings it was compiled with.
pub(crate) struct RowsPlan {
    pub(crate) compiled: Compiled,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Absent for a statement without a result.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    pub(crate) types: Vec<ResultType>,
    pub(crate) verb: Verb,
    /// Whether the statement reads or changes tables or sequences.
    names_tables: bool,
    /// Triggers that run once for the statement.
    pub(crate) triggers: Vec<StatementTrigger>,
    /// Conditions of validity; `None`: always valid.
    valid: Option<Valid>,
    /// Whether the last run of this change was long: the next run starts where long computation is allowed.
    pub(crate) was_long: AtomicBool,
    /// Files that its queries read which another executor runs.
    files: Vec<Arc<FilesTable>>,
}

/// Type of a result column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultType {
    /// Type of the values.
    pub(crate) ty: Type,
    /// OID of the type that clients see, if the values are its texts.
    pub(crate) of_text: Option<u32>,
}

impl ResultType {
    pub(crate) fn of(column: &compiled::Output) -> ResultType {
        let has_own_form = |oid: u32| matches!(oid, oid::NAME | oid::UNKNOWN | oid::VOID);
        let announced = column.announced.filter(|(oid, _)| column.ty == Type::Text && !has_own_form(*oid));
        ResultType { ty: column.ty, of_text: announced.map(|(oid, _)| oid) }
    }
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
    Merge,
}

impl Verb {
    fn of(statement: &tree::Statement) -> Option<Verb> {
        Some(match statement {
            tree::Statement::Query(_) => Verb::Select,
            tree::Statement::Insert(_) => Verb::Insert,
            tree::Statement::Update(_) => Verb::Update,
            tree::Statement::Delete(_) => Verb::Delete,
            tree::Statement::Merge(_) => Verb::Merge,
            _ => return None,
        })
    }

    /// Command tag up to the number of rows.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Verb::Select => "SELECT",
            Verb::Insert => "INSERT 0",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
            Verb::Merge => "MERGE",
        }
    }

    /// Complete command tag.
    pub(crate) fn tag(self, rows: u64) -> String {
        format!("{} {rows}", self.words())
    }
}

impl RowsPlan {
    /// Types of the result columns.
    pub(crate) fn types(&self) -> &[ResultType] {
        &self.types
    }

    /// Lines of EXPLAIN: the access path of each table, outermost first.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines = vec![format!("Compiled {:?}", self.verb)];
        lines.extend(self.compiled.describe().into_iter().map(|line| format!("  {line}")));
        lines
    }

    /// Whether it reads the same tables by the same access paths.
    pub(crate) fn is_like(&self, other: &RowsPlan) -> bool {
        let tables = |plan: &RowsPlan| plan.compiled.tables_read().map(|table| table.id()).collect::<Vec<_>>();
        self.describe() == other.describe() && tables(self) == tables(other)
    }

    /// Whether it has changes in WITH.
    pub(crate) fn changes_in_with(&self) -> bool {
        self.compiled.changes_in_with()
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
        session: &mut Session,
    ) -> Result<Bound> {
        let clocks = self.clocks_of_parameters(session);
        let mut bound = Bound::default();
        for (at, (ty, (form, bytes))) in self.compiled.params().iter().cycle().zip(given).enumerate() {
            let read = bound.push(*ty, form, bytes, &clocks);
            read.map_err(|error| error.context(format!("parameter ${}", at + 1)))?;
        }
        Ok(bound)
    }

    /// Binds the parameter values of EXECUTE.
    pub(crate) fn constants(&self, session: &mut Session, values: &[Value]) -> Result<Bound> {
        Bound::of_constants(values, self.compiled.params(), &self.clocks_of_parameters(session))
    }

    fn clocks_of_parameters(&self, session: &mut Session) -> Clocks {
        if !self.takes_names() {
            return Clocks::of(session);
        }
        let context = session.context_of_newest();
        Clocks::with_facts(session, &context)
    }

    /// Whether texts of parameters may be names of objects.
    fn takes_names(&self) -> bool {
        self.compiled.params().iter().any(|ty| matches!(ty, ParamType::Plain(ty) if has_names(*ty)))
    }

    /// Whether a run asks for the session's facts.
    pub(crate) fn needs_facts(&self) -> bool {
        self.compiled.needs_facts() || self.takes_names()
    }

    /// Whether a constant was read by the session's settings or clock: the plan is not that of the next statement with
    /// the same text.
    pub(crate) fn has_session_constants(&self) -> bool {
        self.compiled.has_session_constants()
    }

    /// Whether the statement neither changes data nor locks rows.
    pub(crate) fn is_read_only(&self) -> bool {
        self.compiled.is_read_only()
    }

    /// Whether the statement reads or changes tables or sequences.
    pub(crate) fn names_tables(&self) -> bool {
        self.names_tables
    }

    /// Whether the plan depends neither on the catalog nor on settings.
    pub(crate) fn is_always_valid(&self) -> bool {
        self.valid.is_none()
    }

    pub(crate) fn holds(&self, snapshot: &Snapshot, settings: &Arc<Settings>) -> bool {
        let same =
            |valid: &Valid| Arc::ptr_eq(&valid.catalog, snapshot.catalog()) && Arc::ptr_eq(&valid.settings, settings);
        self.valid.as_ref().is_none_or(same) && !self.compiled.is_outgrown()
    }

    /// Whether another executor runs queries of it, which take [`Value`]s of parameters.
    pub(crate) fn has_external_queries(&self) -> bool {
        self.compiled.external_queries().next().is_some()
    }

    /// Files that the queries of another executor read.
    pub(crate) fn files(&self) -> &[Arc<FilesTable>] {
        &self.files
    }
}

/// Maximum number of rows of a union that the row executor makes in memory. DataFusion reads larger ones as streams.
const UNITED_ROWS_MAX: u64 = 50_000;

/// A plan, or the reason why the row executor does not run the statement.
pub(crate) type Choice<T> = std::result::Result<T, String>;

/// Plans a bound query for the row executor. `context` is the one that it was bound in; `keeps_executor`: the statement was
/// planned for this executor before.
///
/// # Errors
/// PostgreSQL's about locks and sequences.
pub(crate) fn plan_query(
    context: &StatementContext,
    statement: &Statement,
    bound: &binding::Bound,
    declared: &[u32],
    keeps_executor: bool,
) -> Result<Choice<RowsPlan>> {
    if bound.calls_routines() {
        return Ok(Err("a function of a user".into()));
    }
    let tables = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let lowered = compiled::lower(bound.query(), &tables, bound.session(), &types(declared));
    let compiled = match lowered.map_err(|error| placed(error, statement))? {
        Lowered::Plan(compiled) => *compiled,
        Lowered::Refused(refused) => return Ok(Err(refused.reason)),
    };
    if compiled.is_read_only() {
        if !keeps_executor && compiled.rows_united() > UNITED_ROWS_MAX {
            return Ok(Err("a union of many rows".into()));
        }
        if !context.settings.enables_rows() {
            return Ok(Err("enable_rows is off".into()));
        }
        if !context.settings.has_plain_styles() {
            return Ok(Err("a setting of how dates, intervals, floats or bytes are written".into()));
        }
    }
    if let Some(column) = without_binary_form(&compiled).or_else(|| with_names(&compiled)) {
        return Ok(Err(format!("column \"{column}\" of a type that rows tables do not have")));
    }
    Ok(Ok(RowsPlan::new(compiled, Verb::Select, context)))
}

/// The plan of an INSERT, UPDATE, DELETE or MERGE of a `rows` table.
pub(crate) enum ChangePlan {
    Rows(Box<RowsPlan>),
    /// INSERT of rows that DataFusion computes.
    Feed(Box<FeedPlan>),
}

/// Plans an INSERT, UPDATE, DELETE or MERGE; `None` if its table is not a `rows` table.
///
/// # Errors
/// Errors of PostgreSQL's parse analysis; 0A000 for what the row executor does not support.
pub(crate) fn plan_change(
    session: &mut Session,
    statement: &Statement,
    change: &tree::Statement,
    declared: &[u32],
) -> Result<Option<ChangePlan>> {
    let Some((target, verb)) = target(change).zip(Verb::of(change)) else { return Ok(None) };
    let context = session.context();
    match (Named { snapshot: &context.reads.snapshot, settings: &context.settings }).changed(target) {
        Changed::Rows(_) | Changed::View => {}
        // A columns table is changed through its views too.
        Changed::ViewOfColumns if matches!(verb, Verb::Update | Verb::Delete) => return Ok(None),
        Changed::ViewOfColumns => {
            let text = format!("cannot change view \"{}\": it is one of a columns table", target.name);
            return Err(Error::unsupported(text).with_hint("Change the table that the view reads."));
        }
        Changed::Other => return Ok(None),
    }
    let context = session.context_of_newest();
    let bound = binding::bind_change(&context, &statement.0, change, declared)?;
    let tables = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    if let tree::Statement::Insert(insert) = change
        && let Some(source) = &insert.source
        && !matches!(source.body, tree::QueryBody::Values(_))
        && context.reads.snapshot.catalog().has_routines()
        && let Ok(Ok((_, query))) = compiled::lower_load(&bound.change, &tables, &bound.session)
        && binding::calls_routines(&query)
    {
        let refused = "a function of a user".to_owned();
        return feed::plan(session, statement, insert, declared, refused)
            .map(|plan| Some(ChangePlan::Feed(Box::new(plan))));
    }
    let lowered = compiled::lower_change(&bound.change, &tables, &bound.session, &types(declared));
    let refused = match lowered.map_err(|error| placed(error, statement))? {
        Lowered::Plan(compiled) => match without_binary_form(&compiled) {
            None => {
                let files = bound.into_files();
                let plan = RowsPlan { files, ..RowsPlan::new(*compiled, verb, &context) };
                return Ok(Some(ChangePlan::Rows(Box::new(plan))));
            }
            Some(column) => format!("RETURNING column \"{column}\" of a type that rows tables do not have"),
        },
        Lowered::Refused(refused) => refused.reason,
    };
    if let tree::Statement::Insert(insert) = change
        && insert.source.is_some()
    {
        return feed::plan(session, statement, insert, declared, refused)
            .map(|plan| Some(ChangePlan::Feed(Box::new(plan))));
    }
    Err(unsupported(verb, &refused))
}

pub(super) fn unsupported(verb: Verb, refused: &str) -> Error {
    let verb = format!("{verb:?}").to_uppercase();
    Error::unsupported(format!("{verb} of a rows table is not supported with {refused}"))
}

/// The table that a statement changes.
fn target(change: &tree::Statement) -> Option<&tree::Name> {
    Some(match change {
        tree::Statement::Insert(insert) => &insert.table.name,
        tree::Statement::Update(update) => &update.table.name,
        tree::Statement::Delete(delete) => &delete.table.name,
        tree::Statement::Merge(merge) => &merge.table.name,
        _ => return None,
    })
}

/// Errors of lowering have a byte of the text as their place.
pub(super) fn placed(error: Error, statement: &Statement) -> Error {
    locate(binding::placed(error, &statement.0), &statement.0)
}

fn types(declared: &[u32]) -> Vec<Option<ParamType>> {
    declared.iter().map(|oid| ParamType::from_oid(*oid)).collect()
}

/// A column whose values leave as text that no binary form can be made of.
fn without_binary_form(compiled: &Compiled) -> Option<&str> {
    text_column(compiled, |oid| Type::from_oid(oid, -1).is_none() && !matches!(oid, oid::UNKNOWN | oid::VOID))
}

/// A column of names of objects.
fn with_names(compiled: &Compiled) -> Option<&str> {
    text_column(compiled, |oid| {
        let is_user = model::user_types::is_user(oid);
        !is_user && !is_bare_number(oid) && relational::arrow::is_number(TypeId(oid))
    })
}

/// A column whose values leave as texts, of a type for which the test holds.
fn text_column(compiled: &Compiled, test: impl Fn(u32) -> bool) -> Option<&str> {
    let is_it =
        |column: &&compiled::Output| column.ty == Type::Text && column.announced.is_some_and(|(oid, _)| test(oid));
    compiled.columns().iter().find(is_it).map(|column| column.name.as_str())
}

/// Whether texts of a type, or of its elements, may be names of objects.
fn has_names(ty: Type) -> bool {
    let Type::Other(other) = ty else { return false };
    other.storage() == Storage::Oid && !is_bare_number(other.oid) || other.element().is_some_and(has_names)
}

/// Whether values of a type are numbers of catalog rows that texts do not name.
fn is_bare_number(oid: u32) -> bool {
    matches!(oid, oid::OID | oid::XID | oid::CID)
}

impl RowsPlan {
    fn new(compiled: Compiled, verb: Verb, context: &StatementContext) -> RowsPlan {
        // A statement that reads no table, no setting and nothing of a user's types and functions is the same for all of
        // them. The body of a function may stand in place of its call.
        let reads_session = compiled.has_session_constants() || compiled.names_types();
        let has_routines = context.reads.snapshot.catalog().has_routines();
        let depends = context.reads.rows_view.is_some() || reads_session || has_routines;
        RowsPlan {
            parameters: compiled.params().iter().map(|ty| ty.oid()).collect(),
            columns: columns(&compiled, verb),
            types: compiled.columns().iter().map(ResultType::of).collect(),
            triggers: compiled.statement_triggers(),
            names_tables: context.reads.rows_view.is_some() || compiled.entered().next().is_some(),
            valid: depends.then(|| Valid {
                catalog: Arc::clone(context.reads.snapshot.catalog()),
                settings: Arc::clone(&context.settings),
            }),
            compiled,
            verb,
            was_long: AtomicBool::new(false),
            files: Vec::new(),
        }
    }
}

fn columns(compiled: &Compiled, verb: Verb) -> Option<Vec<OutputColumn>> {
    let columns: Vec<OutputColumn> = compiled.columns().iter().map(output_column).collect();
    (verb == Verb::Select || !columns.is_empty()).then_some(columns)
}

/// Output column of a compiled statement.
pub(super) fn output_column(column: &compiled::Output) -> OutputColumn {
    let number = |(table, at): (TableId, usize)| Some((pg_catalog::table_oid(table), i16::try_from(at + 1).ok()?));
    let (oid, typmod) = column.announced.unwrap_or((column.ty.oid(), column.ty.typmod()));
    OutputColumn { name: column.name.clone(), oid, typmod, origin: column.origin.and_then(number) }
}
