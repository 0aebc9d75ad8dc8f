//! INSERT, UPDATE and DELETE: rows are found first, then locked and looked at again, then changed, so that a statement never
//! meets its own changes.

use std::ops::ControlFlow;
use std::sync::Arc;

use env::Event;
use model::{Datum, Error, Result, RowIndex, SqlState, Type};
use rows::{Isolation, LockMode, Locked, Put, RecordId, RowTable, Txn, WaitPolicy};
use rustc_hash::FxHashSet;
use sqlparser::ast;

use crate::bind::{Bind, Binder, Refusal, Source, folded};
use crate::cast::text_of;
use crate::exec::{self, Flow, Given, Held, Lock, Run};
use crate::expr::{Expr, Frame, Value};
use crate::foreign::{Changed, Does, Foreign};
use crate::plan::{self, Joined, Step};
use crate::scope::{self, Before, Scope, Tables};
use crate::select::{self, Emit, Ended, From, Output, Select, answers, projection};

/// The target's row, in UPDATE also the new one.
const TARGET: usize = 0;
/// In INSERT: the row that was to be inserted.
const EXCLUDED: usize = 1;

/// What every change of a table needs.
struct Target {
    table: Arc<RowTable>,
    /// Of the row in slot `TARGET`.
    checks: Vec<(String, Expr)>,
    returning: Vec<Expr>,
    foreign: Foreign,
}

/// An INSERT, ready to run.
pub(crate) struct Insert {
    target: Target,
    tables: Vec<Arc<RowTable>>,
    rows: Rows,
    conflict: Conflict,
    pub(crate) columns: Vec<Output>,
    before: Vec<Before>,
}

/// Where inserted rows come from; a value for each column of the table.
enum Rows {
    Values(Vec<Vec<Expr>>),
    Select(Box<Select>, Vec<Expr>),
}

enum Conflict {
    Error,
    Nothing(Arbiter),
    Update { arbiter: Arbiter, set: Vec<Option<Expr>>, condition: Option<Expr> },
}

/// Which index's conflicts are not errors: the primary one, or a secondary one by position.
enum Arbiter {
    Any,
    Index(Option<usize>),
}

/// An UPDATE or DELETE, ready to run.
pub(crate) struct Change {
    target: Target,
    tables: Vec<Arc<RowTable>>,
    steps: Vec<Step>,
    conditions: Vec<Expr>,
    /// By column; nothing of it for DELETE.
    set: Option<Vec<Option<Expr>>>,
    pub(crate) columns: Vec<Output>,
    before: Vec<Before>,
}

/// Binds an INSERT.
pub(crate) fn insert(binder: &mut Binder, insert: &ast::Insert, tables: &dyn Tables) -> Bind<Insert> {
    let unusual = insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || !insert.assignments.is_empty()
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || insert.output.is_some()
        || insert.replace_into
        || insert.priority.is_some()
        || insert.insert_alias.is_some()
        || insert.multi_table_insert_type.is_some();
    let ast::TableObject::TableName(name) = &insert.table else { return Err(Refusal::Other) };
    if unusual {
        return Err(Refusal::Other);
    }
    let table = scope::named(name, tables)?;
    let mut scope = Scope::new(tables);
    let columns = target_columns(&table, &insert.columns)?;
    scope.clause = "VALUES";
    let rows = inserted_rows(binder, insert, &table, &columns, &mut scope)?;
    let called = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
    let name = called.unwrap_or_else(|| table.schema.name.table.clone());
    binder.sources = vec![Source { name, slot: TARGET, table: Arc::clone(&table) }];
    let conflict = conflict(binder, insert, &table, &mut scope)?;
    let mut foreign = Foreign::default();
    foreign.add(&table, Does::Insert, tables)?;
    if let Conflict::Update { set, .. } = &conflict {
        foreign.add(&table, Does::Update(set), tables)?;
    }
    let (target, columns) = target(binder, table, insert.returning.as_deref(), foreign, &mut scope)?;
    let tables = vec![Arc::clone(&target.table), Arc::clone(&target.table)];
    Ok(Insert { target, tables, rows, conflict, columns, before: scope.before })
}

/// CHECK and RETURNING. `binder` has the target as its first source.
fn target(
    binder: &mut Binder,
    table: Arc<RowTable>,
    returning: Option<&[ast::SelectItem]>,
    foreign: Foreign,
    scope: &mut Scope<'_>,
) -> Bind<(Target, Vec<Output>)> {
    let (returning, columns) = match returning {
        Some(items) => {
            scope.clause = "RETURNING";
            projection(binder, items, scope)?
        }
        None => (Vec::new(), Vec::new()),
    };
    let mut own = Binder::default();
    own.sources.push(Source { name: table.schema.name.table.clone(), slot: TARGET, table: Arc::clone(&table) });
    let mut checks = Vec::with_capacity(table.schema.checks.len());
    for check in &table.schema.checks {
        checks.push((check.name.clone(), own.condition(&parsed(&check.condition)?, "CHECK", scope)?));
    }
    Ok((Target { table, checks, returning, foreign }, columns))
}

/// SQL that a table's description holds: a condition or a default.
fn parsed(sql: &str) -> Bind<ast::Expr> {
    let dialect = sqlparser::dialect::PostgreSqlDialect {};
    sqlparser::parser::Parser::new(&dialect)
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|_| Refusal::Other)
}

/// Positions of the columns that an INSERT names, or of all.
fn target_columns(table: &RowTable, names: &[ast::ObjectName]) -> Bind<Vec<usize>> {
    if names.is_empty() {
        return Ok(table.schema.shown().map(|(at, _)| at).collect());
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let at = target_column(table, name)?;
        if columns.contains(&at) {
            let text = format!("column \"{}\" specified more than once", table.schema.columns[at].name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text).into());
        }
        columns.push(at);
    }
    Ok(columns)
}

fn target_column(table: &RowTable, name: &ast::ObjectName) -> Bind<usize> {
    let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Other) };
    let name = folded(name);
    table.schema.column(&name).ok_or_else(|| {
        let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.schema.name.table);
        Error::new(SqlState::UNDEFINED_COLUMN, text).into()
    })
}

fn inserted_rows(
    binder: &mut Binder,
    insert: &ast::Insert,
    table: &RowTable,
    columns: &[usize],
    scope: &mut Scope<'_>,
) -> Bind<Rows> {
    let Some(query) = &insert.source else {
        return Ok(Rows::Values(vec![complete(binder, table, &[], Vec::new(), scope)?]));
    };
    let named = !insert.columns.is_empty();
    let ast::SetExpr::Values(values) = &*query.body else {
        let select = select::bind(binder, query, scope.tables)?;
        binder.sources.clear();
        check_count(select.columns.len(), columns.len(), named)?;
        let mut given = Vec::with_capacity(select.columns.len());
        for ((at, output), column) in select.columns.iter().enumerate().zip(columns) {
            let made = crate::bind::Typed::new(Expr::Made(at), output.ty);
            given.push(assigned(binder, made, table, *column)?);
        }
        let values = complete(binder, table, columns, given, scope)?;
        return Ok(Rows::Select(Box::new(select), values));
    };
    if query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return Err(Refusal::Other);
    }
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        check_count(row.content.len(), columns.len(), named)?;
        let mut given = Vec::with_capacity(row.content.len());
        for (expr, column) in row.content.iter().zip(columns) {
            given.push(new_value(binder, expr, table, *column, scope)?);
        }
        rows.push(complete(binder, table, columns, given, scope)?);
    }
    Ok(Rows::Values(rows))
}

fn check_count(values: usize, columns: usize, named: bool) -> Result<()> {
    if values > columns {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    if values < columns && named {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
    }
    Ok(())
}

/// A value for a column: an expression, or DEFAULT.
fn new_value(
    binder: &mut Binder,
    expr: &ast::Expr,
    table: &RowTable,
    column: usize,
    scope: &mut Scope<'_>,
) -> Bind<Expr> {
    if let ast::Expr::Identifier(name) = expr
        && name.quote_style.is_none()
        && name.value.eq_ignore_ascii_case("default")
    {
        return default_of(binder, table, column, scope);
    }
    let bound = binder.expr(expr, scope)?;
    assigned(binder, bound, table, column)
}

fn assigned(binder: &mut Binder, bound: crate::bind::Typed, table: &RowTable, column: usize) -> Bind<Expr> {
    let column = &table.schema.columns[column];
    binder.assigned(bound, column.ty, &column.name)
}

fn default_of(binder: &mut Binder, table: &RowTable, column: usize, scope: &mut Scope<'_>) -> Bind<Expr> {
    match &table.schema.columns[column].default {
        None => Ok(Expr::Value(Value::Plain(Datum::Null))),
        Some(sql) => {
            let bound = binder.expr(&parsed(sql)?, scope)?;
            assigned(binder, bound, table, column)
        }
    }
}

/// A value for every column of the table, given those of some.
fn complete(
    binder: &mut Binder,
    table: &RowTable,
    columns: &[usize],
    given: Vec<Expr>,
    scope: &mut Scope<'_>,
) -> Bind<Vec<Expr>> {
    let mut values: Vec<Option<Expr>> = vec![None; table.schema.columns.len()];
    for (column, value) in columns.iter().zip(given) {
        values[*column] = Some(value);
    }
    let complete = values.into_iter().enumerate().map(|(at, value)| match value {
        Some(value) => Ok(value),
        None => default_of(binder, table, at, scope),
    });
    complete.collect()
}

/// ON CONFLICT. `binder` has the target as its only source, and has it again afterwards.
fn conflict(binder: &mut Binder, insert: &ast::Insert, table: &Arc<RowTable>, scope: &mut Scope<'_>) -> Bind<Conflict> {
    let on = match &insert.on {
        None => return Ok(Conflict::Error),
        Some(ast::OnInsert::OnConflict(on)) => on,
        Some(_) => return Err(Refusal::Other),
    };
    let arbiter = match &on.conflict_target {
        None => Arbiter::Any,
        Some(ast::ConflictTarget::Columns(names)) => {
            let columns = names.iter().map(|name| target_column(table, &vec![name.clone()].into()));
            arbiter(table, &columns.collect::<Bind<Vec<_>>>()?)?
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Other) };
            let name = folded(name);
            let found = uniques(table).find(|(_, def)| def.constraint && def.name == name);
            let (at, _) = found.ok_or_else(|| {
                let text = format!("constraint \"{name}\" for table \"{}\" does not exist", table.schema.name.table);
                Error::new(SqlState::UNDEFINED_OBJECT, text)
            })?;
            Arbiter::Index(at)
        }
    };
    let ast::OnConflictAction::DoUpdate(update) = &on.action else { return Ok(Conflict::Nothing(arbiter)) };
    if matches!(arbiter, Arbiter::Any) {
        let text = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text).into());
    }
    binder.sources.push(Source { name: "excluded".into(), slot: EXCLUDED, table: Arc::clone(table) });
    let set = assignments(binder, &update.assignments, table, scope)?;
    let condition =
        update.selection.as_ref().map(|condition| binder.condition(condition, "WHERE", scope)).transpose()?;
    binder.sources.pop();
    Ok(Conflict::Update { arbiter, set, condition })
}

/// The unique indexes: the primary one, and others by position.
fn uniques(table: &RowTable) -> impl Iterator<Item = (Option<usize>, &RowIndex)> {
    let primary = table.primary.iter().map(|index| (None, index.def()));
    let secondary = table.secondary.iter().enumerate().map(|(at, index)| (Some(at), index.def()));
    primary.chain(secondary.filter(|(_, def)| def.unique))
}

fn arbiter(table: &RowTable, columns: &[usize]) -> Result<Arbiter> {
    let same = |def: &RowIndex| {
        def.columns.len() == columns.len() && def.columns.iter().all(|column| columns.contains(column))
    };
    uniques(table).find(|(_, def)| same(def)).map(|(at, _)| Arbiter::Index(at)).ok_or_else(|| {
        let text = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        Error::new(SqlState::INVALID_COLUMN_REFERENCE, text)
    })
}

/// SET, by column.
fn assignments(
    binder: &mut Binder,
    list: &[ast::Assignment],
    table: &RowTable,
    scope: &mut Scope<'_>,
) -> Bind<Vec<Option<Expr>>> {
    let mut set = vec![None; table.schema.columns.len()];
    for one in list {
        let ast::AssignmentTarget::ColumnName(name) = &one.target else { return Err(Refusal::Other) };
        let column = target_column(table, name)?;
        let value = new_value(binder, &one.value, table, column, scope)?;
        if set[column].replace(value).is_some() {
            let text = format!("multiple assignments to same column \"{}\"", table.schema.columns[column].name);
            return Err(Error::new(SqlState::SYNTAX_ERROR, text).into());
        }
    }
    Ok(set)
}

/// Binds an UPDATE.
pub(crate) fn update(binder: &mut Binder, update: &ast::Update, tables: &dyn Tables) -> Bind<Change> {
    let from = match &update.from {
        None => &[],
        Some(ast::UpdateTableFromKind::AfterSet(from)) => from.as_slice(),
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => return Err(Refusal::Other),
    };
    let unusual = update.output.is_some()
        || update.or.is_some()
        || !update.order_by.is_empty()
        || update.limit.is_some()
        || !update.table.joins.is_empty();
    if unusual {
        return Err(Refusal::Other);
    }
    let set = Some(update.assignments.as_slice());
    change(binder, &update.table, from, update.selection.as_ref(), set, update.returning.as_deref(), tables)
}

/// Binds a DELETE.
pub(crate) fn delete(binder: &mut Binder, delete: &ast::Delete, tables: &dyn Tables) -> Bind<Change> {
    let ast::FromTable::WithFromKeyword(from) = &delete.from else { return Err(Refusal::Other) };
    let [target] = from.as_slice() else { return Err(Refusal::Other) };
    let unusual = !delete.tables.is_empty()
        || delete.output.is_some()
        || !delete.order_by.is_empty()
        || delete.limit.is_some()
        || !target.joins.is_empty();
    if unusual {
        return Err(Refusal::Other);
    }
    let using = delete.using.as_deref().unwrap_or_default();
    change(binder, target, using, delete.selection.as_ref(), None, delete.returning.as_deref(), tables)
}

fn change(
    binder: &mut Binder,
    table: &ast::TableWithJoins,
    from: &[ast::TableWithJoins],
    selection: Option<&ast::Expr>,
    set: Option<&[ast::Assignment]>,
    returning: Option<&[ast::SelectItem]>,
    tables: &dyn Tables,
) -> Bind<Change> {
    let mut scope = Scope::new(tables);
    let all: Vec<ast::TableWithJoins> = std::iter::once(table).chain(from).cloned().collect();
    let From { optional, mut conditions } = select::bind_from(binder, &all, &mut scope)?;
    if let Some(condition) = selection {
        scope::cut(binder.condition(condition, "WHERE", &mut scope)?, &mut conditions);
    }
    let changed = Arc::clone(&binder.sources[TARGET].table);
    scope.clause = "UPDATE";
    let set = set.map(|set| assignments(binder, set, &changed, &mut scope)).transpose()?;
    let mut foreign = Foreign::default();
    foreign.add(&changed, set.as_deref().map_or(Does::Delete, Does::Update), tables)?;
    let (target, columns) = target(binder, changed, returning, foreign, &mut scope)?;
    let joined: Vec<Joined<'_>> =
        binder.sources.iter().zip(optional).map(|(source, optional)| Joined { source, optional }).collect();
    let (steps, _) = plan::steps(&joined, conditions.clone(), &[]);
    let tables = binder.sources.iter().map(|source| Arc::clone(&source.table)).collect();
    Ok(Change { target, tables, steps, conditions, set, columns, before: scope.before })
}

/// What an INSERT has done so far.
#[derive(Default)]
struct Done<'a> {
    /// Records that it may not come to a second time.
    touched: FxHashSet<RecordId>,
    changed: Changed<'a>,
}

/// What a step of a statement gave, or what it waits for.
type Stepped<T> = std::result::Result<T, Event>;

impl Change {
    pub(crate) fn reads_whole_tables(&self) -> bool {
        self.steps.iter().any(|step| step.access.is_whole()) || select::read_whole_tables(&self.before)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs it; what must be waited for if it cannot go on.
    pub(crate) fn run<'a>(&'a self, txn: &mut Txn, given: Given<'a>, emit: Emit<'_, 'a>) -> Result<Ended> {
        let answers = match answers(&self.before, txn, given)? {
            Ok(answers) => answers,
            Err(event) => return Ok(Err(event)),
        };
        let mut run = Run::new(&self.tables, answers, given, txn);
        let found = match self.lock(self.find(&mut run)?, &mut run)? {
            Ok(found) => found,
            Err(event) => return Ok(Err(event)),
        };
        let count = found.len() as u64;
        let mut changed = Changed::default();
        for one in found {
            run.put_back(one);
            let record = run.records[TARGET].get();
            let done = match &self.set {
                Some(set) => self.target.update(set, record, &mut run, &mut changed)?,
                None => self.delete(record, &mut run, &mut changed)?,
            };
            if let Err(event) = done {
                return Ok(Err(event));
            }
            self.target.give_back(&run.frame, emit)?;
        }
        Ok(self.target.foreign.check(&changed, &mut run)?.map(|()| count))
    }

    fn find<'a>(&'a self, run: &mut Run<'a, '_>) -> Result<Vec<Held<'a>>> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        // What stopped a search is a lock, and none is asked for yet.
        let _: Flow = exec::join(&self.steps, run, &mut |run| {
            // A row that is joined more than once is changed once.
            if self.tables.len() == 1 || seen.insert(run.records[TARGET].get()) {
                found.push(run.held());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Locks all rows before the first is changed: a statement that waits has less to undo.
    fn lock<'a>(&'a self, found: Vec<Held<'a>>, run: &mut Run<'a, '_>) -> Result<Stepped<Vec<Held<'a>>>> {
        let mode = if self.set.is_some() { LockMode::NoKeyUpdate } else { LockMode::Update };
        let lock = Lock { mode, policy: WaitPolicy::Wait };
        let mut locked = Vec::with_capacity(found.len());
        for one in found {
            run.put_back(one);
            let before = run.slot(TARGET).get();
            match exec::lock(&[TARGET], lock, &self.conditions, run)? {
                Ok(true) => {
                    let same = run.slot(TARGET).get().map(<[u8]>::as_ptr) == before.map(<[u8]>::as_ptr);
                    locked.push(if same { one } else { run.held() });
                }
                Ok(false) => {}
                Err(event) => return Ok(Err(event)),
            }
        }
        Ok(Ok(locked))
    }

    fn delete<'a>(&'a self, record: RecordId, run: &mut Run<'a, '_>, changed: &mut Changed<'a>) -> Result<Stepped<()>> {
        if !self.target.foreign.is_empty() {
            changed.old.extend(run.slot(TARGET).get());
        }
        Ok(match run.txn.delete(&self.target.table, record, run.guard)? {
            Some(event) => Err(event),
            None => Ok(()),
        })
    }
}

impl Insert {
    pub(crate) fn reads_whole_tables(&self) -> bool {
        let selected = matches!(&self.rows, Rows::Select(select, _) if select.reads_whole_tables());
        selected || select::read_whole_tables(&self.before)
    }

    /// Runs it; what must be waited for if it cannot go on.
    pub(crate) fn run<'a>(&'a self, txn: &mut Txn, given: Given<'a>, emit: Emit<'_, 'a>) -> Result<Ended> {
        let answers = match answers(&self.before, txn, given)? {
            Ok(answers) => answers,
            Err(event) => return Ok(Err(event)),
        };
        let mut selected = Vec::new();
        if let Rows::Select(select, _) = &self.rows {
            let ended = select.run(txn, given, &mut |row| {
                selected.push(row.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
            if let Err(event) = ended {
                return Ok(Err(event));
            }
        }
        let mut run = Run::new(&self.tables, answers, given, txn);
        let (mut count, mut done) = (0, Done::default());
        let mut one = |values: &'a [Expr], run: &mut Run<'a, '_>| -> Result<Stepped<()>> {
            let row = self.row(values, run, &mut done)?;
            if let Ok(true) = row {
                count += 1;
                self.target.give_back(&run.frame, emit)?;
            }
            Ok(row.map(|_| ()))
        };
        match &self.rows {
            Rows::Values(rows) => {
                for values in rows {
                    if let Err(event) = one(values, &mut run)? {
                        return Ok(Err(event));
                    }
                }
            }
            Rows::Select(_, values) => {
                for row in selected {
                    run.frame.made = row;
                    if let Err(event) = one(values, &mut run)? {
                        return Ok(Err(event));
                    }
                }
            }
        }
        Ok(self.target.foreign.check(&done.changed, &mut run)?.map(|()| count))
    }

    /// Inserts one row, or does what ON CONFLICT says; false if nothing came of it.
    fn row<'a>(&'a self, values: &'a [Expr], run: &mut Run<'a, '_>, done: &mut Done<'a>) -> Result<Stepped<bool>> {
        let values = values.iter().map(|value| value.eval(&run.frame)).collect::<Result<Vec<_>>>()?;
        let row = self.target.make(&values, run)?;
        loop {
            let (index, record) = match run.txn.insert(&self.target.table, row.into(), run.guard)? {
                Put::Wait(event) => return Ok(Err(event)),
                Put::Done(record) => {
                    if matches!(self.conflict, Conflict::Update { .. }) {
                        done.touched.insert(record);
                    }
                    if !self.target.foreign.is_empty() {
                        done.changed.new.push(row);
                    }
                    return Ok(Ok(true));
                }
                Put::Duplicate { index, record } => (index, record),
            };
            match &self.conflict {
                Conflict::Nothing(arbiter) if arbiter.decides(index) => {
                    return self.is_seen(record, run).map(|()| Ok(false));
                }
                Conflict::Update { arbiter, set, condition } if arbiter.decides(index) => {
                    if done.touched.contains(&record) {
                        return Err(twice());
                    }
                    let lock = run.txn.lock_row(
                        &self.target.table,
                        record,
                        LockMode::NoKeyUpdate,
                        WaitPolicy::Wait,
                        run.guard,
                    )?;
                    let old = match lock {
                        Locked::Row { row, .. } => row,
                        Locked::Wait(event) => return Ok(Err(event)),
                        // Deleted meanwhile: the key is free.
                        Locked::Gone | Locked::Skipped => continue,
                    };
                    run.slot(TARGET).set(Some(old));
                    run.slot(EXCLUDED).set(Some(row));
                    if let Some(condition) = condition
                        && !condition.holds(&run.frame)?
                    {
                        return Ok(Ok(false));
                    }
                    done.touched.insert(record);
                    return Ok(self.target.update(set, record, run, &mut done.changed)?.map(|()| true));
                }
                _ => return Err(self.target.duplicate(index, &values, &run.frame)),
            }
        }
    }
}

impl Insert {
    /// Nothing is done because of a row that the snapshot shows. From REPEATABLE READ on, another reason would be a look past the snapshot.
    fn is_seen(&self, record: RecordId, run: &mut Run<'_, '_>) -> Result<()> {
        if run.txn.isolation() < Isolation::RepeatableRead
            || run.txn.read(&self.target.table, record, run.guard)?.is_some()
        {
            return Ok(());
        }
        let text = "could not serialize access due to concurrent update";
        Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again"))
    }
}

impl Arbiter {
    fn decides(&self, index: Option<usize>) -> bool {
        match self {
            Arbiter::Any => true,
            Arbiter::Index(wanted) => *wanted == index,
        }
    }
}

fn twice() -> Error {
    let text = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    let hint = "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.";
    Error::new(SqlState::CARDINALITY_VIOLATION, text).with_hint(hint)
}

impl Target {
    /// A row of these values, checked, in slot `TARGET`.
    fn make<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a, '_>) -> Result<&'a [u8]> {
        let columns = &self.table.schema.columns;
        if let Some((column, _)) =
            columns.iter().zip(values).find(|(column, value)| column.not_null && !column.dropped && value.is_null())
        {
            let text = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, self.table.schema.name.table
            );
            return Err(Error::new(SqlState::NOT_NULL_VIOLATION, text).with_detail(self.failing(values, &run.frame)));
        }
        let mut bytes = Vec::new();
        self.table.layout.encode(values, &mut bytes)?;
        let row: &'a [u8] = run.frame.arena.alloc_slice_copy(&bytes);
        run.slot(TARGET).set(Some(row));
        for (name, check) in &self.checks {
            // NULL passes.
            if check.eval(&run.frame)? == Datum::Bool(false) {
                let text = format!(
                    "new row for relation \"{}\" violates check constraint \"{name}\"",
                    self.table.schema.name.table
                );
                let detail = self.failing(values, &run.frame);
                return Err(Error::new(SqlState::CHECK_VIOLATION, text).with_detail(detail));
            }
        }
        Ok(row)
    }

    /// Changes the row in slot `TARGET`, whose record is locked.
    fn update<'a>(
        &'a self,
        set: &'a [Option<Expr>],
        record: RecordId,
        run: &mut Run<'a, '_>,
        changed: &mut Changed<'a>,
    ) -> Result<Stepped<()>> {
        let old = run.slot(TARGET).get().ok_or_else(|| Error::bug("a row that is updated is not there"))?;
        let mut values = Vec::with_capacity(set.len());
        for (column, value) in set.iter().enumerate() {
            values.push(match value {
                Some(value) => value.eval(&run.frame)?,
                None => self.table.layout.field(old, column)?,
            });
        }
        let row = self.make(&values, run)?;
        if !self.foreign.is_empty() {
            changed.old.push(old);
            changed.new.push(row);
        }
        match run.txn.update(&self.table, record, row.into(), run.guard)? {
            Put::Done(_) => Ok(Ok(())),
            Put::Wait(event) => Ok(Err(event)),
            Put::Duplicate { index, .. } => Err(self.duplicate(index, &values, &run.frame)),
        }
    }

    fn duplicate(&self, index: Option<usize>, values: &[Datum<'_>], frame: &Frame<'_>) -> Error {
        let def = match index {
            None => self.table.primary.as_deref(),
            Some(at) => self.table.secondary.get(at).map(|index| &**index),
        };
        let Some(def) = def.map(|index| index.def()) else { return Error::bug("a duplicate of no index") };
        let names: Vec<&str> = def.columns.iter().map(|at| self.table.schema.columns[*at].name.as_str()).collect();
        let key: Vec<String> = def.columns.iter().map(|at| self.text(*at, &values[*at], frame)).collect();
        let text = format!("duplicate key value violates unique constraint \"{}\"", def.name);
        let detail = format!("Key ({})=({}) already exists.", names.join(", "), key.join(", "));
        Error::new(SqlState::UNIQUE_VIOLATION, text).with_detail(detail)
    }

    fn failing(&self, values: &[Datum<'_>], frame: &Frame<'_>) -> String {
        let shown = self.table.schema.shown().map(|(at, _)| self.text(at, &values[at], frame));
        format!("Failing row contains ({}).", shown.collect::<Vec<_>>().join(", "))
    }

    fn text(&self, column: usize, value: &Datum<'_>, frame: &Frame<'_>) -> String {
        if value.is_null() {
            return "null".into();
        }
        let text = text_of(value, frame.zone);
        let ty: Type = self.table.schema.columns[column].ty;
        format!("{text}{}", " ".repeat(ty.padding(&text)))
    }

    /// RETURNING.
    fn give_back<'a>(&'a self, frame: &Frame<'a>, emit: Emit<'_, 'a>) -> Result<()> {
        if self.returning.is_empty() {
            return Ok(());
        }
        let row = self.returning.iter().map(|expr| expr.eval(frame)).collect::<Result<Vec<_>>>()?;
        emit(&row).map(|_| ())
    }
}
