//! INSERT.

use std::sync::Arc;

use catalog::TypeId;
use model::{Error, Identity, Result, SqlState};
use parser::ast::{self, Overriding, Pos, QueryBody, TargetColumn};
use scalar::{Expr, ExprKind, Place, Subscript};

use crate::assign::{Given, Slot, SlotValue, always, row_width};
use crate::binder::{Binder, error};
use crate::change::BoundChange;
use crate::query::{Bound, window_and_sets};
use crate::scope::{Clause, Scope, Source};
use crate::target::Verb;
use crate::tree::{Assignment, Change, Insert, InsertedTable, Rel, Table};

/// The columns of an INSERT.
pub(crate) struct InsertColumns<'a> {
    pub(crate) table: &'a Table,
    pub(crate) slots: Vec<Slot<'a>>,
    /// Whether they were written.
    pub(crate) are_named: bool,
    pub(crate) overriding: Option<Overriding>,
    /// The error for more values than there are slots, if it is none of the syntax.
    pub(crate) beyond: Option<Error>,
}

/// The rows of an INSERT, still by slots.
struct Rows {
    rel: RowsRel,
    rows: Vec<Vec<SlotValue>>,
}

enum RowsRel {
    /// The rows are all there are.
    Values,
    /// One row for each of these.
    Over(Box<Rel>),
}

/// The value of a column of the table.
#[derive(Clone, Copy, PartialEq)]
enum Fill {
    Default,
    /// The value of a slot; where that is DEFAULT, the default.
    Slot(usize),
    /// NULL: a generated column, or an array of which elements are assigned.
    Null,
}

/// A row in the table's order, with the values of parts of columns.
pub(crate) struct Row {
    pub(crate) values: Vec<Expr>,
    pub(crate) parts: Vec<(usize, Vec<Subscript>, Expr)>,
}

/// Whether RETURNING or DO UPDATE reads a column, subqueries aside.
fn reads(insert: &Insert, column: u32) -> bool {
    let update = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
    let assigned = update.iter().flat_map(|update| &update.assignments).map(|assignment| &assignment.value);
    let filters = update.iter().filter_map(|update| update.filter.as_ref());
    let mut found = false;
    for expr in insert.returning.iter().map(|(_, value)| value).chain(assigned).chain(filters) {
        expr.visit(&mut |part| found |= matches!(part.kind, ExprKind::Column(read) if read == column));
    }
    found
}

impl Binder<'_> {
    pub(crate) fn insert(&mut self, insert: &ast::Insert, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        self.nested(insert.table.name.at, |binder| binder.insert_at_level(insert, parent))
    }

    fn insert_at_level(&mut self, insert: &ast::Insert, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        let scope = Scope::new(parent);
        if let Some(with) = &insert.with {
            self.with(&scope, with)?;
        }
        let changed = self.change_target(&insert.table.name, Verb::Insert)?;
        let table = Arc::clone(&changed.table);
        let new = self.table_columns(&scope, &table);
        let mut target = Source { lateral_only: false, ..self.row_source(&insert.table, &changed, &new)?.0 };
        if table.is_partitioned {
            target.tableoid = Some(self.column("tableoid", TypeId::OID, -1));
        }
        scope.own.borrow_mut().extend(target.tableoid);
        let tableoid = target.tableoid;
        let queries = self.subqueries.len();
        // The source of the rows cannot refer to the table; it is there for messages.
        let hidden = Source { by_table: false, by_column: false, ..target.clone() };
        scope.tables.borrow_mut().push(hidden);
        let written = changed.inserted(&insert.columns)?;
        let (all, beyond) = changed.all_columns();
        let columns = self.insert_columns(&table, &written, &all, insert.overriding)?;
        let columns = InsertColumns { beyond, ..columns };
        let Rows { rel, rows } = self.insert_source(&scope, insert, &columns)?;
        let rows = self.complete_rows(&columns, rows)?;
        let (mut source, row, parts) = self.source_rel(&table, rel, rows);
        self.outer.system.place(&mut source);
        let conflict = match &insert.on_conflict {
            None => None,
            Some(conflict) => Some(self.conflict(&scope, (conflict, &insert.table), &changed, &target, &new)?),
        };
        scope.tables.borrow_mut()[0] = target;
        let (returning, outputs) = self.returning(&scope, &insert.returning)?;
        let generated = self.generated(&table, &new)?;
        let checks = self.row_checks(&changed, &new)?;
        let system = self.outer.system.of(&new);
        let mut insert =
            Insert { table, source, row, parts, generated, conflict, checks, new, system, returning, tableoid: None };
        if let Some(column) = tableoid
            && (self.subqueries.len() > queries || reads(&insert, column))
        {
            let partitions = self.tables_of(&insert.table, &insert.new, &[])?;
            insert.tableoid = Some(InsertedTable { column, partitions });
        }
        Ok(BoundChange { change: Change::Insert(Box::new(insert)), outputs })
    }

    /// The columns that an INSERT names; `all` if it names none.
    pub(crate) fn insert_columns<'a>(
        &self,
        table: &'a Table,
        written: &'a [TargetColumn],
        all: &[usize],
        overriding: Option<Overriding>,
    ) -> Result<InsertColumns<'a>> {
        let are_named = !written.is_empty();
        if !are_named {
            let slots = all.iter().map(|column| Slot { column: *column, steps: &[], at: Pos(0) }).collect();
            return Ok(InsertColumns { table, slots, are_named, overriding, beyond: None });
        }
        let mut slots: Vec<Slot<'a>> = Vec::with_capacity(written.len());
        for TargetColumn { name, steps, at } in written {
            let column = Self::target_column(table, name, *at)?;
            // Elements of one column may be assigned one by one.
            let clashes = |other: &Slot<'_>| other.column == column && (steps.is_empty() || other.steps.is_empty());
            if slots.iter().any(clashes) {
                let text = format!("column \"{name}\" specified more than once");
                return Err(error(SqlState::DUPLICATE_COLUMN, text, *at));
            }
            slots.push(Slot { column, steps, at: *at });
        }
        Ok(InsertColumns { table, slots, are_named, overriding, beyond: None })
    }

    fn insert_source(&mut self, scope: &Scope<'_>, insert: &ast::Insert, columns: &InsertColumns<'_>) -> Result<Rows> {
        let Some(query) = &insert.source else {
            return Ok(Rows { rel: RowsRel::Values, rows: vec![Vec::new()] });
        };
        match &query.body {
            QueryBody::Values(rows) if is_plain(query) => match rows.as_slice() {
                [row] => self.insert_row(scope, row, columns),
                rows => self.insert_values(scope, rows, columns),
            },
            _ => self.insert_query(scope, query, columns),
        }
    }

    /// VALUES with one row: functions of sets in it give several.
    fn insert_row(&mut self, scope: &Scope<'_>, row: &[ast::Expr], columns: &InsertColumns<'_>) -> Result<Rows> {
        let values = self.in_clause(scope, Clause::ValuesSingle, |binder| binder.value_list(scope, row))?;
        let row = self.slot_values(scope, values, columns)?;
        if scope.sets.borrow().is_empty() {
            return Ok(Rows { rel: RowsRel::Values, rows: vec![row] });
        }
        let rel = window_and_sets(scope, Rel::Single, &self.catalog_set_levels(scope));
        scope.set_places.take();
        Ok(Rows { rel: RowsRel::Over(Box::new(rel)), rows: vec![row] })
    }

    /// VALUES with several rows. Each value is cast to its column's type on its own, without a common type of the rows.
    fn insert_values(
        &mut self,
        scope: &Scope<'_>,
        rows: &[Vec<ast::Expr>],
        columns: &InsertColumns<'_>,
    ) -> Result<Rows> {
        let mut width = None;
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let values = self.in_clause(scope, Clause::Values, |binder| binder.value_list(scope, row))?;
            if *width.get_or_insert(values.len()) != values.len() {
                let at = row.first().map_or(Pos(0), crate::sort::start_of);
                return Err(error(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length", at));
            }
            all.push(self.slot_values(scope, values, columns)?);
        }
        if let Some(at) = scope.set_places.borrow().first() {
            let text = "set-returning functions are not allowed in VALUES";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, *at));
        }
        Ok(Rows { rel: RowsRel::Values, rows: all })
    }

    fn insert_query(&mut self, scope: &Scope<'_>, query: &ast::Query, columns: &InsertColumns<'_>) -> Result<Rows> {
        let bound = self.query(query, Some(scope), false)?;
        self.check_row(&bound, columns)?;
        let values = bound.outputs.into_iter().map(|one| {
            // The column takes the type of a literal or parameter that has none.
            let value = one.untyped.unwrap_or_else(|| self.column_expr(one.output.column, Pos(one.at.0)));
            Given { value: Some(value), at: one.at }
        });
        let values = values.collect();
        let row = self.slot_values(scope, values, columns)?;
        Ok(Rows { rel: RowsRel::Over(Box::new(bound.rel)), rows: vec![row] })
    }

    /// Refuses a row where its columns are wanted, as of `SELECT (a, b)`.
    fn check_row(&self, bound: &Bound, columns: &InsertColumns<'_>) -> Result<()> {
        let (Rel::Project { columns: made, .. }, [_]) = (&bound.rel, bound.outputs.as_slice()) else { return Ok(()) };
        match made.as_slice() {
            [(_, row)]
                if columns.are_named && row_width(row) == Some(columns.slots.len()) && columns.slots.len() > 1 =>
            {
                Err(too_few_values(columns.slots[1].at, true))
            }
            _ => Ok(()),
        }
    }

    /// Values for the first slots, cast to their types.
    ///
    /// # Errors
    /// 42601 if there are more values than slots, or fewer than were written.
    pub(crate) fn slot_values(
        &mut self,
        scope: &Scope<'_>,
        values: Vec<Given>,
        columns: &InsertColumns<'_>,
    ) -> Result<Vec<SlotValue>> {
        let slots = &columns.slots;
        if let Some(first) = values.get(slots.len()) {
            if let (false, Some(beyond)) = (columns.are_named, &columns.beyond) {
                return Err(beyond.clone());
            }
            let text = "INSERT has more expressions than target columns";
            return Err(error(SqlState::SYNTAX_ERROR, text, Pos(first.at.0)));
        }
        if columns.are_named && values.len() < slots.len() {
            let is_row =
                matches!(values.as_slice(), [Given { value: Some(one), .. }] if row_width(one) == Some(slots.len()));
            return Err(too_few_values(slots[values.len()].at, is_row));
        }
        let values = values.into_iter().zip(slots);
        values.map(|(given, slot)| self.slot_value(scope, columns.table, slot, given.value, true)).collect()
    }

    /// The rows in the table's order, with defaults.
    pub(crate) fn complete_rows(&mut self, columns: &InsertColumns<'_>, rows: Vec<Vec<SlotValue>>) -> Result<Vec<Row>> {
        let fills = self.fills(columns, &rows);
        let mut defaults: Vec<Option<Expr>> = vec![None; fills.len()];
        let mut complete = Vec::with_capacity(rows.len());
        for row in rows {
            let mut row: Vec<Option<SlotValue>> = row.into_iter().map(Some).collect();
            let mut values = Vec::with_capacity(fills.len());
            for (at, fill) in fills.iter().enumerate() {
                let column = &columns.table.columns[at];
                let given = match fill {
                    Fill::Slot(slot) => row[*slot].take().and_then(|slot| slot.value),
                    Fill::Null => Some(Expr { typmod: column.typmod, ..Expr::null(column.ty, Place(0)) }),
                    Fill::Default => None,
                };
                values.push(match (given, &defaults[at]) {
                    (Some(value), _) => value,
                    (None, Some(default)) => default.clone(),
                    (None, None) => defaults[at].insert(self.default_value(column)?).clone(),
                });
            }
            let rest = columns.slots.iter().zip(row).filter_map(|(slot, value)| {
                let SlotValue { subscripts, value } = value?;
                Some((slot.column, subscripts, value?)).filter(|_| !slot.steps.is_empty())
            });
            complete.push(Row { values, parts: rest.collect() });
        }
        Ok(complete)
    }

    /// The value of each column of the table; errors about those to which no value can be assigned.
    fn fills(&mut self, columns: &InsertColumns<'_>, rows: &[Vec<SlotValue>]) -> Vec<Fill> {
        let count = rows.first().map_or(0, Vec::len);
        let mut fills = Vec::with_capacity(columns.table.columns.len());
        for (at, column) in columns.table.columns.iter().enumerate() {
            let slot = columns.slots[..count].iter().position(|slot| slot.column == at);
            let is_given = slot.is_some_and(|slot| rows.iter().any(|row| row[slot].value.is_some()));
            let overriding = columns.overriding;
            let is_ignored = column.identity.is_some() && overriding == Some(Overriding::User);
            let is_allowed = column.identity == Some(Identity::Always) && overriding == Some(Overriding::System);
            if let Some(kind) = always(column).filter(|_| is_given && !is_ignored && !is_allowed) {
                let text = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
                let detail = format!("Column \"{}\" is {kind}.", column.name);
                let error = Error::new(SqlState::GENERATED_ALWAYS, text).with_detail(detail);
                let hint = "Use OVERRIDING SYSTEM VALUE to override.";
                self.refuse_later(if column.identity.is_some() { error.with_hint(hint) } else { error });
            }
            fills.push(match slot {
                _ if column.generated.is_some() => Fill::Null,
                Some(slot) if is_given && !is_ignored && columns.slots[slot].steps.is_empty() => Fill::Slot(slot),
                Some(_) if is_given && !is_ignored => Fill::Null,
                _ => Fill::Default,
            });
        }
        fills
    }

    /// The operator that gives the rows, its columns in the table's order, and the assignments to parts.
    fn source_rel(&mut self, table: &Arc<Table>, rel: RowsRel, rows: Vec<Row>) -> (Rel, Vec<u32>, Vec<Assignment>) {
        let row: Vec<u32> =
            table.columns.iter().map(|column| self.column(&column.name, column.ty, column.typmod)).collect();
        let mut parts = Vec::new();
        for (column, subscripts, value) in rows.first().map_or(&[][..], |row| &row.parts) {
            let number = self.column(&table.columns[*column].name, value.ty, value.typmod);
            let value = self.column_expr(number, Pos(0));
            parts.push(Assignment { column: *column, subscripts: subscripts.clone(), value });
        }
        let of_parts = parts.iter().filter_map(|part| match part.value.kind {
            ExprKind::Column(number) => Some(number),
            _ => None,
        });
        let columns: Vec<u32> = row.iter().copied().chain(of_parts).collect();
        let values = |row: Row| row.values.into_iter().chain(row.parts.into_iter().map(|(_, _, value)| value));
        let rel = match rel {
            RowsRel::Values => {
                Rel::Values { rows: rows.into_iter().map(|row| values(row).collect()).collect(), columns }
            }
            RowsRel::Over(input) => {
                let columns = columns.into_iter().zip(rows.into_iter().flat_map(values)).collect();
                Rel::Project { input, columns }
            }
        };
        (rel, row, parts)
    }
}

/// Error for fewer values than columns; the only value may be a row of as many as there should be.
fn too_few_values(at: Pos, is_row: bool) -> Error {
    let error = error(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions", at);
    let hint = "The insertion source is a row expression containing the same number of columns expected by the INSERT. \
                Did you accidentally use extra parentheses?";
    if is_row { error.with_hint(hint) } else { error }
}

/// Whether a query is VALUES alone.
fn is_plain(query: &ast::Query) -> bool {
    query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locking.is_empty()
}
