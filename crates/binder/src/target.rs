//! The targets of changes: tables, and views through which tables are changed.
//!
//! A view is changed by changing the table that it selects from, if it shows one row for each row of the table. Columns of
//! the view are expressions over the table's row, and its conditions select the rows that a statement can change.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Error, ErrorKind, Result, SqlState};
use parser::ast::{
    self, Ident, Pos, QueryBody, Relation, Select, SetClause, TableExpr, TargetColumn, TargetTable, Visitor,
};
use scalar::{Expr, ExprKind};

use crate::assign::multiple_assignments;
use crate::binder::{Binder, LEVELS_MAX, Schema, error};
use crate::change::placeless;
use crate::from::{rename, source_column};
use crate::scope::{Clause, Scope, Source, SourceKind};
use crate::tree::{RowCheck, Table};
use crate::view::{ViewBase, ViewCheck, ViewQuery, ViewTable};

/// The table that a statement changes, and how the statement names it.
pub(crate) struct ChangeTarget {
    /// The table.
    pub(crate) table: Arc<Table>,
    /// The views through which the statement changes it: first the one that it names. Each selects from the next one, the
    /// last from the table.
    views: Vec<ChangedView>,
    /// For each column of the named view, the column of the table that it is; `None` for other expressions.
    columns: Vec<Option<usize>>,
}

struct ChangedView {
    table: Arc<Table>,
    query: Arc<ViewQuery>,
}

/// A row of the table as the views show it.
struct ShownRow {
    /// Columns of the named view.
    columns: Vec<Expr>,
    /// The condition of each view that has one, with its position among the views; the innermost first.
    conditions: Vec<(usize, Expr)>,
}

/// A value of a view that can be changed, or PostgreSQL's reason why it cannot.
type Shown<T> = std::result::Result<T, &'static str>;

/// Verbs of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    fn on_view(self) -> &'static str {
        match self {
            Verb::Insert => "insert into",
            Verb::Update => "update",
            Verb::Delete => "delete from",
        }
    }

    fn hint(self) -> String {
        let (verb, event) = match self {
            Verb::Insert => ("inserting into", "INSERT"),
            Verb::Update => ("updating", "UPDATE"),
            Verb::Delete => ("deleting from", "DELETE"),
        };
        format!(
            "To enable {verb} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD rule."
        )
    }
}

impl ChangeTarget {
    /// The table or view that the statement names.
    fn named(&self) -> &Arc<Table> {
        self.views.first().map_or(&self.table, |view| &view.table)
    }

    pub(crate) fn is_view(&self) -> bool {
        !self.views.is_empty()
    }

    /// Whether the statement changes no rows of the table's children: ONLY, for a view in its query.
    pub(crate) fn is_only(&self, written: &TargetTable) -> bool {
        match self.views.last() {
            Some(view) => simple(&view.query.query).is_ok_and(|(_, relation)| relation.only),
            None => written.only,
        }
    }

    /// The column of the table that a column of the view is.
    fn table_column(&self, column: &TargetColumn, verb: Verb) -> Result<Ident> {
        let view = self.named();
        let at = Binder::target_column(view, &column.name, column.at)?;
        match self.columns[at] {
            Some(at) => Ok(Ident::new(&self.table.columns[at].name)),
            None => Err(self.no_column(&column.name, verb)),
        }
    }

    fn no_column(&self, name: &str, verb: Verb) -> Error {
        let text = format!("cannot {} column \"{name}\" of view \"{}\"", verb.on_view(), self.named().name);
        Error::unsupported(text)
            .with_detail("View columns that are not columns of their base relation are not updatable.")
    }

    /// SET with the names of the table's columns.
    pub(crate) fn assigned<'a>(&self, set: &'a [SetClause]) -> Result<Cow<'a, [SetClause]>> {
        if !self.is_view() {
            return Ok(Cow::Borrowed(set));
        }
        let mut renamed = set.to_vec();
        for clause in &mut renamed {
            let columns = match clause {
                SetClause::One(column, _) => std::slice::from_mut(column),
                SetClause::Many(columns, _) => columns.as_mut_slice(),
            };
            for column in columns {
                column.name = self.table_column(column, Verb::Update)?;
            }
        }
        Ok(Cow::Owned(renamed))
    }

    /// The columns of an INSERT with the names of the table's.
    pub(crate) fn inserted<'a>(&self, columns: &'a [TargetColumn]) -> Result<Cow<'a, [TargetColumn]>> {
        if !self.is_view() || columns.is_empty() {
            return Ok(Cow::Borrowed(columns));
        }
        let renamed = columns
            .iter()
            .map(|column| Ok(TargetColumn { name: self.table_column(column, Verb::Insert)?, ..column.clone() }));
        Ok(Cow::Owned(renamed.collect::<Result<_>>()?))
    }

    /// Positions of the table's columns for the values of an INSERT that names none, and the error for more values than these:
    /// 0A000 for a column that cannot be inserted, 42601 for a second value of one column of the table.
    pub(crate) fn all_columns(&self) -> (Vec<usize>, Option<Error>) {
        if !self.is_view() {
            return ((0..self.table.columns.len()).collect(), None);
        }
        let mut all = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            match column {
                Some(column) if all.contains(column) => {
                    let name = Ident::new(&self.table.columns[*column].name);
                    return (all, Some(multiple_assignments(&name)));
                }
                Some(column) => all.push(*column),
                None => return (all, Some(self.no_column(&self.named().columns[at].name, Verb::Insert))),
            }
        }
        (all, None)
    }
}

const NO_TABLE: &str = "Views that do not select from a single table or view are not automatically updatable.";

/// The only relation of a query that can be changed through it.
///
/// # Errors
/// PostgreSQL's reason why it cannot.
fn simple(query: &ast::Query) -> Shown<(&Select, &Relation)> {
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    let select = match &query.body {
        QueryBody::SetOperation(_) => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
        QueryBody::Values(_) => return Err(NO_TABLE),
        QueryBody::Select(select) => select,
    };
    if select.distinct.is_some() {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    if !select.group_by.is_empty() {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if query.limit.is_some() || query.offset.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    match select.from.as_slice() {
        [TableExpr::Relation(relation)] if relation.sample.is_some() => {
            Err("Views containing TABLESAMPLE are not automatically updatable.")
        }
        [TableExpr::Relation(relation)] if relation.as_of.is_none() => Ok((select, relation)),
        _ => Err(NO_TABLE),
    }
}

/// The table or view that a view selects from, if that can be changed through it, and the column of it that each column of
/// the view is; else PostgreSQL's reason why it cannot.
pub(crate) fn base(schema: &dyn Schema, query: &ast::Query) -> ViewBase {
    let (select, relation) = simple(query)?;
    let mut binder = Binder::new(schema, &[]);
    binder.defines_view = true;
    let (below, _) = binder.visible_table(&relation.name).map_err(|_| NO_TABLE)?;
    if below.is_of_system() || below.materialized.is_some() {
        return Err(NO_TABLE);
    }
    let scope = Scope::new(None);
    let numbers = binder.table_columns(&scope, &below);
    let columns = numbers.iter().map(|number| binder.column_expr(*number, Pos(0))).collect();
    let bound = binder.shown_columns((select, relation), &below, None, columns, &numbers);
    let (shown, _) = bound.map_err(|_| NO_TABLE)??;
    Ok((below, shown.iter().map(|expr| position(expr, &numbers)).collect()))
}

/// Maximum number of parts of a column that views above use, which bounds its height too, and of all copies in one of them.
const COLUMN_PARTS_MAX: usize = LEVELS_MAX;
const PARTS_MAX: usize = 100_000;

/// Checks the columns of a view that the query of another view uses: each use of a column is a copy of its expression.
///
/// # Errors
/// 54001.
fn check_size(columns: &[Expr], above: &ast::Query) -> Result<()> {
    let parts = |expr: &Expr| {
        let mut count = 0_usize;
        expr.visit(&mut |_| count += 1);
        count
    };
    let largest = columns.iter().map(parts).max().unwrap_or(0);
    let mut uses = Uses(0);
    let _ = uses.visit_query(above);
    if largest <= 1 || largest <= COLUMN_PARTS_MAX && largest.saturating_mul(uses.0) <= PARTS_MAX {
        return Ok(());
    }
    let text = "the expressions of the views are too large for a change through them";
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, text).with_hint("Change the table that the views read."))
}

/// Counts names of columns.
struct Uses(usize);

impl Visitor for Uses {
    type Break = ();

    fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.0 += usize::from(matches!(expr.kind, ast::ExprKind::Column(_) | ast::ExprKind::Path(_)));
        ControlFlow::Continue(())
    }
}

fn position(expr: &Expr, numbers: &[u32]) -> Option<usize> {
    match expr.kind {
        ExprKind::Column(number) => numbers.iter().position(|one| *one == number),
        _ => None,
    }
}

impl Binder<'_> {
    /// The table that a statement changes, maybe through views.
    ///
    /// # Errors
    /// 42P01; 42809 for a materialized view; 55000 for a view that cannot be changed.
    pub(crate) fn change_target(&mut self, name: &ast::Name, verb: Verb) -> Result<ChangeTarget> {
        let (mut table, mut views) = (self.table(name)?, Vec::new());
        let named = Arc::clone(&table);
        let refused = |detail: &str| {
            let text = format!("cannot {} view \"{}\"", verb.on_view(), named.name);
            Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .with_kind(ErrorKind::Invalid)
                .with_detail(detail)
                .with_hint(verb.hint())
        };
        while table.is_view {
            let query = Arc::new(self.schema.view(&table)?);
            let (_, relation) = simple(&query.query).map_err(refused)?;
            self.views.push(Arc::clone(&query));
            let below = self.visible_table(&relation.name);
            self.views.pop();
            views.push(ChangedView { table, query });
            table = below?.0;
            if table.is_of_system() {
                return Err(refused("Views of system tables are not updatable."));
            }
        }
        if table.materialized.is_some() && !views.is_empty() {
            return Err(refused(NO_TABLE));
        }
        if table.materialized.is_some() {
            let text = format!("cannot change materialized view \"{}\"", table.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        let mut target = ChangeTarget { table, views, columns: Vec::new() };
        if target.is_view() {
            let scope = Scope::new(None);
            let numbers = self.table_columns(&scope, &target.table);
            let row = self.shown_row(&target, &numbers)?.map_err(refused)?;
            target.columns = row.columns.iter().map(|expr| position(expr, &numbers)).collect();
            if verb != Verb::Delete && target.columns.iter().all(Option::is_none) {
                return Err(refused("Views that have no updatable columns are not automatically updatable."));
            }
        }
        Ok(target)
    }

    /// The row with these columns as the first item of a scope, and the conditions of the views.
    pub(crate) fn row_source(
        &mut self,
        written: &TargetTable,
        target: &ChangeTarget,
        columns: &[u32],
    ) -> Result<(Source, Vec<Expr>)> {
        if !target.is_view() {
            return Ok((self.target_source(written, &target.table, columns), Vec::new()));
        }
        let row = self.shown_row(target, columns)?.map_err(Error::bug)?;
        let view = target.named();
        let names = view.columns.iter().map(|column| Ident::new(&column.name));
        let shown = names.zip(row.columns).map(|(name, expr)| source_column(name, expr)).collect();
        let source = Source {
            name: written.alias.clone().unwrap_or_else(|| Ident::new(&view.name)),
            table: Some(Arc::clone(view)),
            kind: SourceKind::Target,
            has_alias: written.alias.is_some(),
            columns: shown,
            by_table: true,
            by_column: true,
            is_scalar: false,
            lateral_only: true,
            is_nullable: false,
            tableoid: None,
            row: None,
        };
        Ok((source, row.conditions.into_iter().map(|(_, condition)| condition).collect()))
    }

    /// The conditions that the row with these columns must meet after the change: WITH CHECK OPTION.
    pub(crate) fn row_checks(&mut self, target: &ChangeTarget, columns: &[u32]) -> Result<Vec<RowCheck>> {
        let checks = target.views.iter().any(|view| view.query.check.is_some());
        if !checks {
            return Ok(Vec::new());
        }
        let row = self.shown_row(target, columns)?.map_err(Error::bug)?;
        // The conditions of views below a view that cascades are checked too.
        let is_cascaded =
            |at: usize| target.views[..=at].iter().any(|view| view.query.check == Some(ViewCheck::Cascaded));
        let is_checked = |at: usize| target.views[at].query.check.is_some() || is_cascaded(at);
        let checked = row.conditions.into_iter().filter(|(at, _)| is_checked(*at));
        Ok(checked.map(|(at, condition)| RowCheck { view: target.views[at].table.name.clone(), condition }).collect())
    }

    /// A row of the table as the views show it; else PostgreSQL's reason why they cannot be changed.
    fn shown_row(&mut self, target: &ChangeTarget, numbers: &[u32]) -> Result<Shown<ShownRow>> {
        let columns = numbers.iter().map(|number| self.column_expr(*number, Pos(0))).collect();
        let mut row = ShownRow { columns, conditions: Vec::new() };
        let mut below = Arc::clone(&target.table);
        for (at, view) in target.views.iter().enumerate().rev() {
            let (select, relation) = match simple(&view.query.query) {
                Ok(simple) => simple,
                Err(reason) => return Ok(Err(reason)),
            };
            self.views.push(Arc::clone(&view.query));
            let notes = self.notes.take();
            let bound = self.visible_table(&relation.name).and_then(|(_, shown)| {
                self.shown_columns((select, relation), &below, shown.as_ref(), row.columns, numbers)
            });
            self.notes = notes;
            self.views.pop();
            let (columns, condition) = match bound.map_err(Error::without_position)? {
                Ok(shown) => shown,
                Err(reason) => return Ok(Err(reason)),
            };
            row.columns = columns;
            if at > 0 {
                check_size(&row.columns, &target.views[at - 1].query.query)?;
            }
            row.conditions.extend(condition.map(|condition| (at, condition)));
            below = Arc::clone(&view.table);
        }
        Ok(Ok(row))
    }

    /// The columns and the condition of a view over the columns of what it selects from; else PostgreSQL's reason why it
    /// cannot be changed.
    fn shown_columns(
        &mut self,
        (select, relation): (&Select, &Relation),
        below: &Arc<Table>,
        shown: Option<&ViewTable>,
        columns: Vec<Expr>,
        numbers: &[u32],
    ) -> Result<Shown<(Vec<Expr>, Option<Expr>)>> {
        let named = match shown {
            Some(shown) => {
                shown.columns.iter().map(|(at, name)| source_column(Ident::new(name), columns[*at].clone())).collect()
            }
            None => {
                let names = below.columns.iter().map(|column| Ident::new(&column.name));
                names.zip(columns).map(|(name, expr)| source_column(name, expr)).collect()
            }
        };
        let mut source = Source {
            name: Ident::new(shown.map_or(&*below.name, |shown| &*shown.name)),
            table: Some(Arc::clone(below)),
            kind: SourceKind::Table,
            has_alias: relation.alias.is_some(),
            columns: named,
            by_table: true,
            by_column: true,
            is_scalar: false,
            lateral_only: false,
            is_nullable: false,
            tableoid: None,
            row: numbers.first().copied().filter(|_| below.has_records),
        };
        rename(&mut source, relation.alias.as_ref())?;
        let scope = Scope::new(None);
        scope.tables.borrow_mut().push(source);
        scope.own.borrow_mut().extend(numbers);
        let targets = self.in_clause(&scope, Clause::SelectList, |binder| binder.targets(&scope, &select.targets))?;
        let mut made = Vec::with_capacity(targets.len());
        for target in targets {
            made.push(placeless(self.known(target.expr)?));
        }
        if !scope.aggregates.borrow().is_empty() {
            return Ok(Err("Views that return aggregate functions are not automatically updatable."));
        }
        if !scope.windows.borrow().is_empty() {
            return Ok(Err("Views that return window functions are not automatically updatable."));
        }
        if !scope.sets.borrow().is_empty() {
            return Ok(Err("Views that return set-returning functions are not automatically updatable."));
        }
        let condition = match &select.filter {
            None => None,
            Some(filter) => Some(self.in_clause(&scope, Clause::Where, |binder| {
                let expr = binder.expr(&scope, filter)?;
                binder.condition(expr, "WHERE")
            })?),
        };
        Ok(Ok((made, condition.map(placeless))))
    }

    /// Refuses a statement that cannot change views.
    ///
    /// # Errors
    /// 0A000.
    pub(crate) fn refuse_view(table: &Table, at: Pos) -> Result<()> {
        let kind = match (table.is_view, table.materialized.is_some()) {
            (true, _) => "views",
            (_, true) => "materialized views",
            _ => return Ok(()),
        };
        let text = format!("cannot execute MERGE on relation \"{}\"", table.name);
        let detail = format!("This operation is not supported for {kind}.");
        Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at).with_detail(detail))
    }
}
