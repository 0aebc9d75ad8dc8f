//! INSERT, UPDATE and DELETE. Rows are found first, then locked and rechecked, then changed, so that a statement
//! never sees its own changes.

mod load;

use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Datum, Error, Identity, Result, RowIndex, SqlState};
use rows::{Isolation, LockMode, Locked, Put, RecordId, RowTable, WaitPolicy};
use rustc_hash::FxHashSet;
use sqlparser::ast;

use crate::bind::{Bind, Binder, Refusal, Source, Typed, fold_ident};
use crate::constraints::{TARGET, Writer, assigned, default_of};
use crate::derived_tables::Derived;
use crate::exec::{self, ExecContext, Flow, Lock, Run, SavedRow};
use crate::expr::{Expr, Frame};
use crate::foreign_keys::{ChangeKind, Changed, ForeignKeys};
use crate::from::{self, WHERE};
use crate::plan::{self, Step};
use crate::scope::{self, Scope, Tables};
use crate::select::{self, Output, Select, projection};
use crate::sort_limit::Emit;
use crate::subquery::Subquery;

pub use load::{Incoming, Load, Loaded, Refused};

/// Slot of `excluded`, the row proposed for insertion, in ON CONFLICT.
pub(crate) const EXCLUDED: usize = 1;

/// State common to INSERT, UPDATE and DELETE.
pub(crate) struct Target {
    pub(crate) writer: Writer,
    pub(crate) returning: Vec<Expr>,
    pub(crate) foreign: ForeignKeys,
}

/// A bound INSERT.
pub(crate) struct Insert {
    pub(crate) target: Target,
    pub(crate) tables: Vec<Arc<RowTable>>,
    pub(crate) rows: Rows,
    /// Whether VALUES are evaluated for all rows before the first insert: subqueries in them must not see inserted
    /// rows.
    pub(crate) made_first: bool,
    pub(crate) conflict: Conflict,
    pub(crate) columns: Vec<Output>,
}

/// The source of inserted rows; each list has one expression for each column of the table.
pub(crate) enum Rows {
    Values(Vec<Vec<Expr>>),
    Select(Box<Select>, Vec<Expr>),
    /// Rows passed in by [`Load`]; the expressions read them.
    External(Vec<Expr>),
}

/// The effect of an equal key in a unique index.
pub(crate) enum Conflict {
    Error,
    Nothing(Arbiter),
    Update { arbiter: Arbiter, set: Vec<(usize, Expr)>, condition: Option<Expr> },
}

/// The index whose conflicts ON CONFLICT handles: `None` for the primary key, else a secondary index by position.
pub(crate) enum Arbiter {
    Any,
    Index(Option<usize>),
}

/// A bound UPDATE or DELETE.
pub(crate) struct Change {
    target: Target,
    tables: Vec<Arc<RowTable>>,
    steps: Vec<Step>,
    conditions: Vec<Expr>,
    /// SET: column positions, ascending, and values; `None` for DELETE.
    set: Option<Vec<(usize, Expr)>>,
    /// Whether SET is evaluated for all rows before the first change: subqueries in it must not see changed rows.
    made_first: bool,
    pub(crate) columns: Vec<Output>,
}

pub(crate) fn insert(binder: &mut Binder, insert: &ast::Insert, tables: &dyn Tables) -> Bind<Insert> {
    let unusual = insert.or.is_some()
        || insert.ignore
        || !insert.assignments.is_empty()
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || insert.output.is_some()
        || insert.replace_into
        || insert.priority.is_some()
        || insert.insert_alias.is_some()
        || insert.multi_table_insert_type.is_some();
    let ast::TableObject::TableName(name) = &insert.table else { return Err(Refusal::Unsupported) };
    if unusual {
        return Err(Refusal::Unsupported);
    }
    let table = scope::named(name, tables)?;
    let mut scope = Scope::new(tables);
    let columns = target_columns(&table, &insert.columns)?;
    scope.clause = "VALUES";
    let given = InsertColumns { table: &table, columns: &columns, overriding: overriding(insert) };
    let rows = inserted_rows(binder, insert, given, &mut scope)?;
    let queries = binder.subqueries.len();
    let called = insert.table_alias.as_ref().map(|alias| fold_ident(&alias.alias));
    let name = called.unwrap_or_else(|| table.schema.name.table.clone());
    binder.sources = vec![Source::stored(name, TARGET, Arc::clone(&table))];
    let conflict = conflict(binder, insert, &table, &mut scope)?;
    let mut foreign = ForeignKeys::default();
    foreign.add(binder, &table, ChangeKind::Insert, &mut scope)?;
    if let Conflict::Update { set, .. } = &conflict {
        foreign.add(binder, &table, ChangeKind::Update(set), &mut scope)?;
    }
    let returning = ReturningClause { items: insert.returning.as_deref(), star: None };
    let (target, columns) = target(binder, table, returning, foreign, &mut scope)?;
    check_late(&binder.subqueries[queries..], &binder.derived, &target)?;
    let tables = vec![Arc::clone(&target.writer.table), Arc::clone(&target.writer.table)];
    Ok(Insert { target, tables, rows, made_first: queries > 0, conflict, columns })
}

/// RETURNING, and the columns of `*` if they are not all columns.
struct ReturningClause<'s> {
    items: Option<&'s [ast::SelectItem]>,
    star: Option<&'s [(usize, usize)]>,
}

/// Binds CHECK constraints and RETURNING. Precondition: the target is the binder's first source.
fn target(
    binder: &mut Binder,
    table: Arc<RowTable>,
    returning: ReturningClause<'_>,
    foreign: ForeignKeys,
    scope: &mut Scope<'_>,
) -> Bind<(Target, Vec<Output>)> {
    let (returning, columns) = match returning.items {
        Some(items) => {
            scope.clause = "RETURNING";
            let (returning, columns, _) = projection(binder, items, returning.star, scope)?;
            (returning, columns)
        }
        None => (Vec::new(), Vec::new()),
    };
    Ok((Target { writer: Writer::new(table, scope)?, returning, foreign }, columns))
}

/// Refuses subqueries that run between changes and read a changed table: they would see this statement's own
/// changes.
pub(crate) fn check_late(queries: &[Subquery], derived: &[Derived], target: &Target) -> Result<()> {
    let mut selects: Vec<&Select> = queries.iter().map(|one| &one.select).collect();
    if selects.iter().any(|select| select.reads_derived()) {
        derived.iter().for_each(|one| one.rows.selects(&mut selects));
    }
    let reads = |table: &Arc<RowTable>| selects.iter().any(|select| select.reads(table.id()));
    if !target.written().any(reads) {
        return Ok(());
    }
    let text = "a subquery in RETURNING or ON CONFLICT on a table that the statement changes is not supported";
    Err(Error::unsupported(text))
}

/// Positions of the columns that an INSERT names; all columns if it names none.
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
    let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Unsupported) };
    let name = fold_ident(name);
    table.schema.column(&name).ok_or_else(|| {
        let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.schema.name.table);
        Error::new(SqlState::UNDEFINED_COLUMN, text).into()
    })
}

/// OVERRIDING clause of an INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overriding {
    Nothing,
    /// `OVERRIDING SYSTEM VALUE`: the given values of identity columns are used.
    System,
    /// `OVERRIDING USER VALUE`: they are ignored, and the sequence gives the values.
    User,
}

/// The parser does not know OVERRIDING; `ddl::prepared` encodes it in these flags.
fn overriding(insert: &ast::Insert) -> Overriding {
    match (insert.overwrite, insert.has_table_keyword) {
        (true, _) => Overriding::System,
        (_, true) => Overriding::User,
        _ => Overriding::Nothing,
    }
}

/// Target columns of an INSERT.
#[derive(Clone, Copy)]
struct InsertColumns<'s> {
    table: &'s RowTable,
    columns: &'s [usize],
    overriding: Overriding,
}

impl InsertColumns<'_> {
    fn identity(self, column: usize) -> Option<Identity> {
        self.table.schema.columns[column].identity
    }

    /// Whether the column is an identity column whose given value OVERRIDING USER VALUE ignores.
    fn is_ignored(self, column: usize) -> bool {
        self.overriding == Overriding::User && self.identity(column).is_some()
    }

    /// Error 428C9 if the column is GENERATED ALWAYS and there is no OVERRIDING.
    fn check(self, column: usize) -> Result<()> {
        if self.identity(column) != Some(Identity::Always) || self.overriding != Overriding::Nothing {
            return Ok(());
        }
        let name = &self.table.schema.columns[column].name;
        let text = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
        Err(always(name, text).with_hint("Use OVERRIDING SYSTEM VALUE to override."))
    }
}

fn always(column: &str, text: String) -> Error {
    let detail = format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS.");
    Error::new(SqlState::GENERATED_ALWAYS, text).with_detail(detail)
}

fn inserted_rows(
    binder: &mut Binder,
    insert: &ast::Insert,
    given: InsertColumns<'_>,
    scope: &mut Scope<'_>,
) -> Bind<Rows> {
    let InsertColumns { table, columns, .. } = given;
    let Some(query) = &insert.source else {
        return Ok(Rows::Values(vec![complete(binder, table, &[], Vec::new(), scope)?]));
    };
    let named = !insert.columns.is_empty();
    let values = match &*query.body {
        ast::SetExpr::Values(values) if query.with.is_none() && select::is_plain_query(query) => values,
        _ => {
            let select = select::bind(binder, query, scope.tables)?;
            binder.sources.clear();
            check_count(select.columns.len(), columns.len(), named)?;
            let mut made = Vec::with_capacity(select.columns.len());
            for ((at, output), column) in select.columns.iter().enumerate().zip(columns) {
                let value = assigned(binder, Typed::new(Expr::Computed(at), output.ty), table, *column)?;
                made.push(if given.is_ignored(*column) {
                    default_of(binder, table, *column, scope)?
                } else {
                    given.check(*column)?;
                    value
                });
            }
            let values = complete(binder, table, columns, made, scope)?;
            return Ok(Rows::Select(Box::new(select), values));
        }
    };
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        check_count(row.content.len(), columns.len(), named)?;
        let mut made = Vec::with_capacity(row.content.len());
        for (expr, column) in row.content.iter().zip(columns) {
            let value = new_value(binder, expr, table, *column, scope)?;
            made.push(if given.is_ignored(*column) { default_of(binder, table, *column, scope)? } else { value });
        }
        rows.push(complete(binder, table, columns, made, scope)?);
    }
    for (at, column) in columns.iter().enumerate() {
        if values.rows.iter().any(|row| row.content.get(at).is_some_and(|expr| !is_default(expr))) {
            given.check(*column)?;
        }
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

/// Binds a value for a column: an expression or DEFAULT.
fn new_value(
    binder: &mut Binder,
    expr: &ast::Expr,
    table: &RowTable,
    column: usize,
    scope: &mut Scope<'_>,
) -> Bind<Expr> {
    if is_default(expr) {
        return default_of(binder, table, column, scope);
    }
    let bound = binder.expr(expr, scope)?;
    assigned(binder, bound, table, column)
}

/// Whether it is `DEFAULT`, which the parser reads as an identifier.
fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Adds defaults: one expression for every column of the table.
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

/// Binds ON CONFLICT. The target is the binder's only source, before and after.
fn conflict(binder: &mut Binder, insert: &ast::Insert, table: &Arc<RowTable>, scope: &mut Scope<'_>) -> Bind<Conflict> {
    let on = match &insert.on {
        None => return Ok(Conflict::Error),
        Some(ast::OnInsert::OnConflict(on)) => on,
        Some(_) => return Err(Refusal::Unsupported),
    };
    let arbiter = match &on.conflict_target {
        None => Arbiter::Any,
        Some(ast::ConflictTarget::Columns(names)) => {
            let columns = names.iter().map(|name| target_column(table, &vec![name.clone()].into()));
            arbiter(table, &columns.collect::<Bind<Vec<_>>>()?)?
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Unsupported) };
            let name = fold_ident(name);
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
    binder.sources.push(Source::stored("excluded".into(), EXCLUDED, Arc::clone(table)));
    let set = assignments(binder, &update.assignments, table, scope)?;
    let condition =
        update.selection.as_ref().map(|condition| binder.condition(condition, "WHERE", scope)).transpose()?;
    binder.sources.pop();
    Ok(Conflict::Update { arbiter, set, condition })
}

/// Unique indexes: `None` for the primary key, secondary ones by position.
pub(crate) fn uniques(table: &RowTable) -> impl Iterator<Item = (Option<usize>, &RowIndex)> {
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

/// Binds SET: column positions, ascending, and values.
fn assignments(
    binder: &mut Binder,
    list: &[ast::Assignment],
    table: &RowTable,
    scope: &mut Scope<'_>,
) -> Bind<Vec<(usize, Expr)>> {
    let mut set = vec![None; table.schema.columns.len()];
    let mut one = |name: &ast::ObjectName, value: &ast::Expr| -> Bind<()> {
        let column = target_column(table, name)?;
        let bound = new_value(binder, value, table, column, scope)?;
        let name = &table.schema.columns[column].name;
        if table.schema.columns[column].identity == Some(Identity::Always) && !is_default(value) {
            return Err(always(name, format!("column \"{name}\" can only be updated to DEFAULT")).into());
        }
        if set[column].replace(bound).is_some() {
            let text = format!("multiple assignments to same column \"{name}\"");
            return Err(Error::new(SqlState::SYNTAX_ERROR, text).into());
        }
        Ok(())
    };
    for ast::Assignment { target, value } in list {
        match (target, value) {
            (ast::AssignmentTarget::ColumnName(name), value) => one(name, value)?,
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Tuple(values)) if names.len() == values.len() => {
                names.iter().zip(values).try_for_each(|(name, value)| one(name, value))?;
            }
            _ => return Err(Refusal::Unsupported),
        }
    }
    Ok(set.into_iter().enumerate().filter_map(|(column, value)| Some((column, value?))).collect())
}

pub(crate) fn update(binder: &mut Binder, update: &ast::Update, tables: &dyn Tables) -> Bind<Change> {
    let from = match &update.from {
        None => &[],
        Some(ast::UpdateTableFromKind::AfterSet(from)) => from.as_slice(),
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => return Err(Refusal::Unsupported),
    };
    let unusual = update.output.is_some()
        || update.or.is_some()
        || !update.order_by.is_empty()
        || update.limit.is_some()
        || !update.table.joins.is_empty();
    if unusual {
        return Err(Refusal::Unsupported);
    }
    let set = Some(update.assignments.as_slice());
    change(binder, &update.table, from, update.selection.as_ref(), set, update.returning.as_deref(), tables)
}

pub(crate) fn delete(binder: &mut Binder, delete: &ast::Delete, tables: &dyn Tables) -> Bind<Change> {
    let ast::FromTable::WithFromKeyword(from) = &delete.from else { return Err(Refusal::Unsupported) };
    let [target] = from.as_slice() else { return Err(Refusal::Unsupported) };
    let unusual = !delete.tables.is_empty()
        || delete.output.is_some()
        || !delete.order_by.is_empty()
        || delete.limit.is_some()
        || !target.joins.is_empty();
    if unusual {
        return Err(Refusal::Unsupported);
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
    let mut from = from::bind_from(binder, &all, &mut scope)?;
    if let Some(condition) = selection {
        from.cut(WHERE, binder.condition(condition, "WHERE", &mut scope)?);
    }
    let changed = Arc::clone(&binder.sources[TARGET].table);
    scope.clause = "UPDATE";
    let set = set.map(|set| assignments(binder, set, &changed, &mut scope)).transpose()?;
    let queries = binder.subqueries.len();
    let mut foreign = ForeignKeys::default();
    foreign.add(binder, &changed, set.as_deref().map_or(ChangeKind::Delete, ChangeKind::Update), &mut scope)?;
    let returning = ReturningClause { items: returning, star: Some(&from.star) };
    let (target, columns) = target(binder, changed, returning, foreign, &mut scope)?;
    check_late(&binder.subqueries[queries..], &binder.derived, &target)?;
    let draft = ChangeDraft { target, from, set, made_first: queries > 0, columns };
    Ok(draft.planned(&binder.sources, &mut binder.hashed))
}

/// An UPDATE or DELETE without access paths. Its table is in slot [`TARGET`].
pub(crate) struct ChangeDraft {
    pub(crate) target: Target,
    pub(crate) from: from::From,
    pub(crate) set: Option<Vec<(usize, Expr)>>,
    pub(crate) made_first: bool,
    pub(crate) columns: Vec<Output>,
}

impl ChangeDraft {
    /// Chooses the access paths. `hashed`: number of hash tables in the statement so far.
    pub(crate) fn planned(self, sources: &[Source], hashed: &mut usize) -> Change {
        let ChangeDraft { target, from, set, made_first, columns } = self;
        let joined = from::joined(sources, &from);
        let (steps, _) = plan::steps(&joined, from.conditions.clone(), &[], hashed);
        let conditions = from.conditions.into_iter().map(|(_, condition)| condition).collect();
        let tables = sources.iter().map(|source| Arc::clone(&source.table)).collect();
        Change { target, tables, steps, conditions, set, made_first, columns }
    }
}

/// Changes made by an INSERT so far.
#[derive(Default)]
struct Done<'a> {
    /// Records that DO UPDATE must not change a second time.
    touched: FxHashSet<RecordId>,
    changed: Vec<Changed<'a>>,
}

impl Change {
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.target.written()
    }

    pub(crate) fn reads_whole_tables(&self) -> bool {
        self.steps.iter().any(|step| step.access.is_whole())
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the number of changed rows.
    pub(crate) fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        let mut run = Run::new(&self.tables, ctx, Vec::new());
        let found = self.find(&mut run)?;
        let found = self.lock(found, &mut run)?;
        let count = found.len() as u64;
        let mut changed = Vec::new();
        let mut made = Vec::new();
        if let (Some(set), true) = (&self.set, self.made_first) {
            for one in &found {
                run.restore_row(*one);
                made.push(Target::changes(set, &run)?);
            }
        }
        let mut made = made.into_iter();
        for one in found {
            ctx.change()?;
            run.restore_row(one);
            let record = run.records[TARGET].get();
            match &self.set {
                Some(set) => {
                    let changes = made.next().map_or_else(|| Target::changes(set, &run), Ok)?;
                    self.target.update(&changes, record, &mut run, &mut changed)?;
                }
                None => self.delete(record, &run, &mut changed)?,
            }
            self.target.give_back(&run.frame, emit)?;
        }
        self.target.foreign.follow(changed, &mut run)?;
        Ok(count)
    }

    fn find<'a>(&'a self, run: &mut Run<'a>) -> Result<Vec<SavedRow<'a>>> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let _: Flow = exec::joined(&self.steps, run, &mut |run| {
            // A row that several joined rows contain is changed once.
            if self.tables.len() == 1 || seen.insert(run.records[TARGET].get()) {
                found.push(run.save_row());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Locks all rows before the first change, so that a statement that must wait has less to undo.
    fn lock<'a>(&'a self, found: Vec<SavedRow<'a>>, run: &mut Run<'a>) -> Result<Vec<SavedRow<'a>>> {
        let mode = if self.set.is_some() { LockMode::NoKeyUpdate } else { LockMode::Update };
        let lock = Lock { mode, policy: WaitPolicy::Wait };
        let mut locked = Vec::with_capacity(found.len());
        for one in found {
            run.restore_row(one);
            let before = run.slot(TARGET).get();
            if exec::lock(&[(TARGET, lock)], &self.conditions, run)? {
                let same = run.slot(TARGET).get().map(<[u8]>::as_ptr) == before.map(<[u8]>::as_ptr);
                locked.push(if same { one } else { run.save_row() });
            }
        }
        Ok(locked)
    }

    fn delete<'a>(&'a self, record: RecordId, run: &Run<'a>, changed: &mut Vec<Changed<'a>>) -> Result<()> {
        if !self.target.foreign.is_empty() {
            changed.push(Changed { record, old: run.slot(TARGET).get(), new: None });
        }
        let waits = run.txn(|txn| txn.delete(&self.target.writer.table, record, run.guard()))?;
        waits.map_or(Ok(()), |event| Err(run.ctx().wait(event)))
    }
}

impl Insert {
    /// The SELECT whose rows it inserts, if any.
    pub(crate) fn query(&self) -> Option<&Select> {
        match &self.rows {
            Rows::Values(_) | Rows::External(_) => None,
            Rows::Select(select, _) => Some(select),
        }
    }

    /// Whether one run can insert several rows of parameters.
    pub(crate) fn takes_rows(&self) -> bool {
        matches!(&self.rows, Rows::Values(rows) if rows.len() == 1) && !self.made_first
    }

    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.target.written()
    }

    pub(crate) fn reads_whole_tables(&self) -> bool {
        self.query().is_some_and(Select::reads_whole_tables)
    }

    /// Returns the number of rows inserted or updated.
    pub(crate) fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        let mut selected = Vec::new();
        if let Rows::Select(select, _) = &self.rows {
            select.run(ctx, Vec::new(), &mut |row| {
                selected.push(row.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let mut run = Run::new(&self.tables, ctx, Vec::new());
        let (mut count, mut done) = (0, Done::default());
        let values = |values: &'a [Expr], run: &Run<'a>| -> Result<Vec<Datum<'a>>> {
            values.iter().map(|value| value.eval(&run.frame)).collect()
        };
        let mut one = |values: &[Datum<'a>], run: &mut Run<'a>| -> Result<()> {
            if self.row(values, run, &mut done)? {
                count += 1;
                self.target.give_back(&run.frame, emit)?;
            }
            Ok(())
        };
        match &self.rows {
            Rows::External(_) => return Err(Error::bug("an INSERT of external rows run without them")),
            Rows::Values(rows) if self.made_first => {
                let rows = rows.iter().map(|row| values(row, &run)).collect::<Result<Vec<_>>>()?;
                rows.iter().try_for_each(|row| one(row, &mut run))?;
            }
            Rows::Values(rows) => loop {
                for row in rows {
                    let row = values(row, &run)?;
                    one(&row, &mut run)?;
                }
                if !ctx.next_row_of_params() {
                    break;
                }
            },
            Rows::Select(_, exprs) => {
                for row in selected {
                    run.frame.computed = row;
                    let row = values(exprs, &run)?;
                    one(&row, &mut run)?;
                }
            }
        }
        self.target.foreign.follow(done.changed, &mut run)?;
        Ok(count)
    }

    /// Inserts one row or applies ON CONFLICT; returns false if no row was inserted or updated.
    fn row<'a>(&'a self, values: &[Datum<'a>], run: &mut Run<'a>, done: &mut Done<'a>) -> Result<bool> {
        let Target { writer, foreign, .. } = &self.target;
        let row = writer.make(values, run)?;
        run.ctx().change()?;
        loop {
            let put = run.txn(|txn| txn.insert(&writer.table, row.into(), run.guard()))?;
            let (index, record) = match self.decided(put, row, run)? {
                Put::Wait(event) => return Err(run.ctx().wait(event)),
                Put::Done(record) => {
                    if matches!(self.conflict, Conflict::Update { .. }) {
                        done.touched.insert(record);
                    }
                    if !foreign.is_empty() {
                        done.changed.push(Changed { record, old: None, new: Some(row) });
                    }
                    return Ok(true);
                }
                Put::Duplicate { index, record } => (index, record),
            };
            match &self.conflict {
                Conflict::Nothing(arbiter) if arbiter.decides(index) => {
                    return self.is_seen(record, run).map(|()| false);
                }
                Conflict::Update { arbiter, set, condition } if arbiter.decides(index) => {
                    if done.touched.contains(&record) {
                        return Err(twice());
                    }
                    let (mode, policy) = (LockMode::NoKeyUpdate, WaitPolicy::Wait);
                    let lock = run.txn(|txn| txn.lock_row(&writer.table, record, mode, policy, run.guard()))?;
                    let old = match lock {
                        Locked::Row { row, .. } => row,
                        Locked::Wait(event) => return Err(run.ctx().wait(event)),
                        // Deleted in the meantime: the key is free.
                        Locked::Gone | Locked::Skipped => continue,
                    };
                    run.slot(TARGET).set(Some(old));
                    run.slot(EXCLUDED).set(Some(row));
                    if let Some(condition) = condition
                        && !condition.holds(&run.frame)?
                    {
                        return Ok(false);
                    }
                    done.touched.insert(record);
                    let changes = Target::changes(set, run)?;
                    return self.target.update(&changes, record, run, &mut done.changed).map(|()| true);
                }
                _ => return Err(writer.duplicate(index, values, &run.frame)),
            }
        }
    }
}

impl Insert {
    /// A row may meet others in several indexes. The one of ON CONFLICT decides, whichever was looked at first.
    fn decided(&self, put: Put, row: &[u8], run: &Run<'_>) -> Result<Put> {
        let arbiter = match &self.conflict {
            Conflict::Nothing(arbiter) | Conflict::Update { arbiter, .. } => arbiter,
            Conflict::Error => return Ok(put),
        };
        match (&put, arbiter) {
            (Put::Duplicate { index, .. }, Arbiter::Index(Some(wanted))) if *index != Some(*wanted) => {
                let table = &self.target.writer.table;
                let found = run.txn(|txn| txn.duplicate_in(table, *wanted, row, run.guard()))?;
                Ok(found.unwrap_or(put))
            }
            _ => Ok(put),
        }
    }

    /// DO NOTHING is allowed if the snapshot shows the conflicting row. From REPEATABLE READ on, skipping for a row
    /// that the snapshot does not show is error 40001, as in PostgreSQL.
    fn is_seen(&self, record: RecordId, run: &Run<'_>) -> Result<()> {
        let table = &self.target.writer.table;
        if run.txn(|txn| {
            Ok(txn.isolation() < Isolation::RepeatableRead || txn.read(table, record, run.guard())?.is_some())
        })? {
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
    /// Tables whose rows the statement changes, including those changed by foreign key actions.
    fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        std::iter::once(&self.writer.table).chain(self.foreign.written())
    }

    /// Evaluates SET for the row in slot `TARGET`.
    fn changes<'a>(set: &'a [(usize, Expr)], run: &Run<'a>) -> Result<Vec<(usize, Datum<'a>)>> {
        set.iter().map(|(column, value)| Ok((*column, value.eval(&run.frame)?))).collect()
    }

    /// Updates the row in slot `TARGET`. Precondition: its record is locked.
    fn update<'a>(
        &'a self,
        changes: &[(usize, Datum<'a>)],
        record: RecordId,
        run: &mut Run<'a>,
        changed: &mut Vec<Changed<'a>>,
    ) -> Result<()> {
        let table = &self.writer.table;
        let old = run.slot(TARGET).get().ok_or_else(|| Error::bug("an updated row does not exist"))?;
        let row = self.writer.change(old, changes, run)?;
        if !self.foreign.is_empty() {
            changed.push(Changed { record, old: Some(old), new: Some(row) });
        }
        let put = run.txn(|txn| txn.update(table, record, row.into(), run.guard()))?;
        match put {
            Put::Done(_) => Ok(()),
            Put::Wait(event) => Err(run.ctx().wait(event)),
            Put::Duplicate { index, .. } => Err(self.writer.duplicate(index, &self.writer.values(row)?, &run.frame)),
        }
    }

    /// Evaluates RETURNING and emits the row.
    fn give_back<'a>(&'a self, frame: &Frame<'a>, emit: Emit<'_, 'a>) -> Result<()> {
        if self.returning.is_empty() {
            return Ok(());
        }
        let row = self.returning.iter().map(|expr| expr.eval(frame)).collect::<Result<Vec<_>>>()?;
        emit(&row).map(|_| ())
    }
}
