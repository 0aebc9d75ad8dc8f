//! INSERT, UPDATE and DELETE.
//!
//! The changed row is in slot `TARGET`: before the change while SET is evaluated, after it while RETURNING is. So the
//! columns of both versions are defined as fields of that slot.
//!
//! CHECK conditions and the defaults of foreign key actions are not part of the bound tree: `stored_expressions` binds them
//! from the table's description. The values of generated columns are, but every write of a row computes them anyway
//! (`constraints`).

use std::sync::Arc;

use binder::tree::{
    Assignment, Change, ChangeStatement, Column, Conflict as BoundConflict, CteBody, Delete, Insert, InsertedTable,
    Merge as BoundMerge, MergeAction, MergeBranch, Output as BoundOutput, Query, Rel, RowCheck, RowQuery, Statement,
    Table, Update,
};
use catalog::TypeId;
use model::{Datum, Error, Result};
use parser::ast;
use rows::RowTable;
use rustc_hash::{FxHashMap, FxHashSet};
use scalar::{Expr as Bound, ExprKind, Subscript};

use super::external::{self, Externals, with_conditions_copied};
use super::relations::outputs;
use super::{
    Asks, Definition, Lower, Lowered, Lowering, NotLowered, Stop, Tree, declared_types, not_bound, outcome, refused,
    type_name,
};
use crate::array::ParamType;
use crate::constraints::{TARGET, Writer};
use crate::derived_tables::{self, Derived};
use crate::dml::merge::{Action, Branch, Merge, MergeDraft};
use crate::dml::{self, Arbiter, ChangeDraft, Conflict, EXCLUDED, Load, Rows, Target, reads_changed};
use crate::expr::{Expr, Layout, PartAssignment, StepKind, Value};
use crate::foreign_keys::{ChangeKind, ForeignKeys};
use crate::from::Source;
use crate::partitions::{Leaf, Movement, Routes};
use crate::select::Output;
use crate::statement::{Compiled, Tables, WithChange, Work};
use crate::stored_expressions::StoredExpressions;
use crate::subquery::{ResultKind, Subquery};

/// Binds and lowers an INSERT, UPDATE or DELETE: [`binder::bind_statement`], then [`lower_change`].
///
/// - `sql`: the statement's text, for positions of errors.
/// - `declared`: parameter types declared by the client; the others are inferred.
///
/// # Errors
/// PostgreSQL's, with their place in the text.
pub fn prepare_change(
    sql: &str,
    statement: &ast::Statement,
    schema: &dyn binder::Schema,
    tables: &dyn Tables,
    declared: &[Option<ParamType>],
) -> Result<Lowered> {
    match binder::bind_statement(schema, sql, statement, &declared_types(declared)) {
        Ok(Statement::Change(bound)) => lower_change(&bound, tables, schema.session(), declared),
        Ok(Statement::Query(_)) => outcome(refused("a query")),
        Err(error) => not_bound(error),
    }
}

/// Lowers a bound INSERT, UPDATE or DELETE.
///
/// - `session`: the facts by which it was bound.
/// - `declared`: parameter types declared by the client.
///
/// # Errors
/// 0A000 for a subquery that would see the statement's own changes; PostgreSQL's about sequences.
pub fn lower_change(
    bound: &ChangeStatement,
    tables: &dyn Tables,
    session: &scalar::Session,
    declared: &[Option<ParamType>],
) -> Result<Lowered> {
    let (lowered, _) = lowered_change(bound, tables, session, declared, Externals::default());
    // INSERT takes the rows of a query of another executor as they come.
    if !matches!(lowered, Err(Stop::Refused(_))) || matches!(bound.change, Change::Insert(_)) {
        return outcome(lowered);
    }
    let bound = with_conditions_copied(bound);
    outcome(external::lowered(|externals| lowered_change(&bound, tables, session, declared, externals)))
}

/// Tries to lower a change. Returns also what is left to another executor, and what could be.
fn lowered_change<'q>(
    bound: &'q ChangeStatement,
    tables: &'q dyn Tables,
    session: &'q scalar::Session,
    declared: &[Option<ParamType>],
    externals: Externals<'q>,
) -> (Lower<Compiled>, Externals<'q>) {
    let ChangeStatement { change, output, columns, subqueries, ctes, parameters, inherited, tableoid, routed } = bound;
    let tree = Tree { columns, subqueries, ctes, parameters, output };
    let variants = Variants { inherited, tableoid: *tableoid, routed: routed.as_deref() };
    let mut lowering = Lowering { externals, ..Lowering::new(tree, tables, session) };
    let work = lowering.change(change, &variants, declared);
    (work.map(|work| Compiled::of(work, lowering.parts)), lowering.externals)
}

/// Lowers a bound INSERT whose query another executor runs: returns the load that takes the query's rows, and the query.
/// Casts to the types of the table's columns and defaults are computed by the load.
///
/// - `session`: the facts by which it was bound.
///
/// # Errors
/// As [`lower_change`].
pub fn lower_load(
    bound: &ChangeStatement,
    tables: &dyn Tables,
    session: &scalar::Session,
) -> Result<std::result::Result<(Load, Query), NotLowered>> {
    let ChangeStatement { change, output, columns, subqueries, ctes, parameters, .. } = bound;
    let tree = Tree { columns, subqueries, ctes, parameters, output };
    let Change::Insert(insert) = change else { return Ok(Err(NotLowered { reason: "no INSERT".into() })) };
    match Lowering::new(tree, tables, session).load(insert) {
        Ok((load, root, output)) => {
            let (columns, subqueries, ctes) = (columns.clone(), subqueries.clone(), ctes.clone());
            Ok(Ok((load, Query { root, output, columns, subqueries, ctes, parameters: parameters.clone() })))
        }
        Err(Stop::Refused(reason)) => Ok(Err(NotLowered { reason })),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// The same change of other tables.
struct Variants<'q> {
    inherited: &'q [Change],
    /// Number of `tableoid` of the changed table.
    tableoid: Option<u32>,
    /// The partitioned table between whose partitions rows may move.
    routed: Option<&'q Table>,
}

/// SET of an UPDATE or of ON CONFLICT DO UPDATE.
#[derive(Clone, Copy)]
struct Set<'q> {
    row_queries: &'q [RowQuery],
    assignments: &'q [Assignment],
}

impl<'q> Lowering<'q> {
    /// The plan of a change.
    fn change(&mut self, change: &'q Change, variants: &Variants<'q>, declared: &[Option<ParamType>]) -> Lower<Work> {
        self.parameters(declared)?;
        let work = match change {
            Change::Insert(insert) => Work::Insert(self.insert(insert)?),
            Change::Merge(merge) => Work::Merge(self.merge(merge)?),
            Change::Update(_) | Change::Delete(_) => self.changes(change, variants)?,
        };
        self.complete_externals()?;
        Ok(work)
    }

    /// Lowers the changes in WITH, which run before the statement's own query or change, also if nothing reads their rows.
    pub(super) fn changes_in_with(&mut self) -> Lower<()> {
        for number in 0..self.tree.ctes.len() {
            let cte = &self.tree.ctes[number];
            let CteBody::Change(change) = &cte.body else { continue };
            let returned = self.returned.replace(&cte.columns);
            let (work, given) = self.inside(|lowering| lowering.change_in_with(change))?;
            self.returned = returned;
            if !given.is_empty() {
                return refused("a change in WITH that reads an outer query");
            }
            let table = self.derived_table(&cte.columns)?;
            self.parts.derived.push(Derived { rows: derived_tables::Rows::Changed, layout: Arc::clone(&table.layout) });
            let rows = self.parts.derived.len() - 1;
            self.ctes[number] = Some((rows, table));
            self.parts.changes.push(WithChange { work, rows });
            self.parts.hides = true;
        }
        Ok(())
    }

    fn change_in_with(&mut self, change: &'q Change) -> Lower<Work> {
        match change {
            Change::Insert(insert) => Ok(Work::Insert(self.insert(insert)?)),
            Change::Merge(_) => refused("MERGE in WITH"),
            Change::Update(Update { table, .. }) | Change::Delete(Delete { table, .. }) => {
                if table.has_children {
                    return refused("a change in WITH of a table with children");
                }
                self.changes(change, &Variants { inherited: &[], tableoid: None, routed: None })
            }
        }
    }

    /// The plans of an UPDATE or DELETE of a table and of those that inherit from it.
    fn changes(&mut self, change: &'q Change, variants: &Variants<'q>) -> Lower<Work> {
        let mut routes = None;
        if let (Some(table), Change::Update(_)) = (variants.routed, change) {
            let table = self.stored(table)?;
            let mut stored = StoredExpressions { tables: self.tables, session: self.session, parts: &mut self.parts };
            routes = Routes::of(&table, ChangeKind::Insert, &mut stored)?;
        }
        let mut plans = Vec::with_capacity(1 + variants.inherited.len());
        let mut late = Vec::with_capacity(plans.capacity());
        for change in std::iter::once(change).chain(variants.inherited) {
            let level = self.level();
            self.levels[level] = super::Level::default();
            if let Some(number) = variants.tableoid {
                let (Change::Update(Update { table, .. }) | Change::Delete(Delete { table, .. })) = change else {
                    return refused("a change of another kind");
                };
                let expr = Expr::Value(Value::Plain(Datum::Oid(table.oid)));
                self.definitions[number as usize] = Some(Definition::Expr { level, expr });
            }
            let (plan, queries) = match change {
                Change::Update(update) => self.update(update, routes.as_ref())?,
                Change::Delete(delete) => self.delete(delete)?,
                Change::Insert(_) | Change::Merge(_) => return refused("a change of another kind"),
            };
            plans.push(plan);
            late.push(queries..self.parts.subqueries.len());
        }
        // Subqueries of one table's change run after changes of the others.
        for plan in plans.iter().filter(|_| plans.len() > 1) {
            for queries in &late {
                self.parts.hides |= plan.reads_changed(&self.parts.subqueries[queries.clone()], &self.parts.derived);
            }
        }
        Ok(if plans.len() == 1 { Work::Change(plans.remove(0)) } else { Work::Changes(plans) })
    }

    fn insert(&mut self, insert: &'q Insert) -> Lower<dml::Insert> {
        let table = self.stored(&insert.table)?;
        let rows = self.inserted_rows(insert, &table)?;
        self.insert_of(insert, table, rows)
    }

    /// The load, and the query of its rows.
    fn load(mut self, insert: &'q Insert) -> Lower<(Load, Rel, Vec<BoundOutput>)> {
        self.check_changes_in_with()?;
        let Some((input, columns)) = projected(insert) else { return refused("an INSERT without a query") };
        let wanted = columns_read(input, columns)?;
        let (mut output, mut types) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
        for column in &wanted {
            let Column { name, ty, typmod } = &self.tree.columns[*column as usize];
            let Some(own) = self.column_type(*column) else {
                return refused(format!("a query with a column of type {}", type_name(*ty)));
            };
            types.push(own);
            output.push(BoundOutput { name: name.clone(), column: *column, ty: *ty, typmod: *typmod, origin: None });
        }
        self.compute(&wanted);
        let table = self.stored(&insert.table)?;
        let row = self.inserted_row(insert, columns.iter().map(|(_, value)| value), &table)?;
        let made = self.insert_of(insert, table, Rows::External(row))?;
        if self.parts.hides {
            let text = "a subquery in RETURNING, ON CONFLICT or WITH CHECK OPTION on a table that the statement changes is not \
                        supported for a query with operators that rows tables do not have";
            return Err(Error::unsupported(text).into());
        }
        if self.reads_parameter || !self.parts.arrays.is_empty() {
            return refused("a parameter outside of the query of INSERT");
        }
        Ok((Load::lowered(made, types, self.parts), input.clone(), output))
    }

    /// The plan of an INSERT of these rows.
    fn insert_of(&mut self, insert: &'q Insert, table: Arc<RowTable>, rows: Rows) -> Lower<dml::Insert> {
        let queries = self.parts.subqueries.len();
        self.current().sources = [TARGET, EXCLUDED].map(|slot| Source::stored(slot, Arc::clone(&table))).into();
        if let Some(InsertedTable { column, .. }) = &insert.tableoid {
            self.compute(&[*column]);
        }
        let conflict = match &insert.conflict {
            None => Conflict::Error,
            Some(conflict) => self.conflict(conflict, &insert.table, &table)?,
        };
        let mut kinds = vec![ChangeKind::Insert];
        if let Conflict::Update { set, .. } = &conflict {
            kinds.push(ChangeKind::Update(set));
        }
        if table.schema.lineage.key.is_some() && !insert.system.is_empty() {
            return refused("system columns in RETURNING of INSERT into a partitioned table");
        }
        self.row(&table, &insert.new, TARGET);
        self.system(&insert.system, TARGET, true);
        let (target, columns) = self.target(&table, &kinds, &insert.checks, &insert.returning)?;
        let kind = if kinds.len() > 1 { ChangeKind::All } else { ChangeKind::Insert };
        let mut stored = StoredExpressions { tables: self.tables, session: self.session, parts: &mut self.parts };
        let routes = Routes::of(&table, kind, &mut stored)?;
        let tableoids = match (&insert.tableoid, &routes) {
            (Some(inserted), Some(routes)) => oids_of(routes, &inserted.partitions)?,
            _ => Vec::new(),
        };
        let written = target.written().chain(routes.iter().flat_map(|routes| routes.written()));
        self.parts.hides |= reads_changed(&self.parts.subqueries[queries..], &self.parts.derived, written);
        let tables = vec![Arc::clone(&table), table];
        let late = if queries > 0 { Vec::new() } else { rows.volatile() };
        Ok(dml::Insert { target, tables, rows, late, made_first: queries > 0, conflict, columns, routes, tableoids })
    }

    fn inserted_rows(&mut self, insert: &'q Insert, table: &RowTable) -> Lower<Rows> {
        if let Rel::Values { rows, columns } = &insert.source
            && columns.starts_with(&insert.row)
        {
            let row = |row: &'q Vec<Bound>| self.inserted_row(insert, row.iter(), table);
            return Ok(Rows::Values(rows.iter().map(row).collect::<Lower<_>>()?));
        }
        let Some((input, columns)) = projected(insert) else { return refused("this source of rows") };
        let wanted = columns_read(input, columns)?;
        let (select, _) = self.inside(|lowering| lowering.select(input, &wanted))?;
        self.compute(&wanted);
        let row = self.inserted_row(insert, columns.iter().map(|(_, value)| value), table)?;
        Ok(Rows::Select(Box::new(select), row))
    }

    /// Defines columns as the values of a row of the query of INSERT.
    fn compute(&mut self, columns: &[u32]) {
        let level = self.level();
        for (at, column) in columns.iter().enumerate() {
            self.definitions[*column as usize] = Some(Definition::Computed { level, at });
        }
    }

    /// A value for each column of the table, also for those that were dropped. The last values are those of parts of
    /// columns.
    fn inserted_row<'v>(
        &mut self,
        insert: &'q Insert,
        mut values: impl Iterator<Item = &'v Bound>,
        table: &RowTable,
    ) -> Lower<Vec<Expr>> {
        let mut row = vec![Expr::Value(Value::Plain(Datum::Null)); table.schema.columns.len()];
        for ((at, _), value) in table.schema.shown().zip(&mut values) {
            row[at] = self.expr(value)?;
        }
        let level = self.level();
        for (part, value) in insert.parts.iter().zip(values) {
            if let ExprKind::Column(number) = part.value.kind {
                let expr = self.expr(value)?;
                self.definitions[number as usize] = Some(Definition::Expr { level, expr });
            }
        }
        self.with_parts(insert, table, &mut row)?;
        Ok(row)
    }

    fn conflict(&mut self, conflict: &'q BoundConflict, bound: &Table, table: &Arc<RowTable>) -> Lower<Conflict> {
        let arbiter = match conflict.arbiters.as_deref() {
            None => Arbiter::Any,
            Some(indexes) => arbiter(indexes, bound, table)?,
        };
        let Some(update) = &conflict.update else { return Ok(Conflict::Nothing(arbiter)) };
        if table.schema.lineage.key.is_some() && !update.system.is_empty() {
            return refused("system columns in DO UPDATE of a row of a partitioned table");
        }
        self.row(table, &update.old, TARGET);
        self.system(&update.system, TARGET, false);
        self.row(table, &update.excluded, EXCLUDED);
        let (row_queries, assignments) = (&update.row_queries, &update.assignments);
        let set = self.set(Set { row_queries, assignments }, table)?;
        let condition = update.filter.as_ref().map(|filter| self.expr(filter)).transpose()?;
        Ok(Conflict::Update { arbiter, set, condition })
    }

    fn update(&mut self, update: &'q Update, routes: Option<&Arc<Routes>>) -> Lower<(dml::Change, usize)> {
        if update.current_of.is_some() {
            return refused("WHERE CURRENT OF");
        }
        let table = self.stored(&update.table)?;
        let from = self.draft(&update.input, &[])?.from;
        let (row_queries, assignments) = (&update.row_queries, &update.assignments);
        let set = self.set(Set { row_queries, assignments }, &table)?;
        let queries = self.parts.subqueries.len();
        if routes.is_some() && !update.system.is_empty() {
            return refused("system columns in RETURNING of an UPDATE that may move rows to other partitions");
        }
        self.row(&table, &update.new, TARGET);
        self.system(&update.system, TARGET, true);
        let (target, columns) = self.target(&table, &[ChangeKind::Update(&set)], &update.checks, &update.returning)?;
        let mut movement = None;
        if let Some(routes) = routes {
            let mut stored = StoredExpressions { tables: self.tables, session: self.session, parts: &mut self.parts };
            movement = Movement::of(&table, routes, set.iter().map(|(at, _)| at), &mut stored)?;
        }
        let draft = ChangeDraft { target, from, set: Some(set), made_first: queries > 0, columns, movement };
        Ok((self.changed(queries, draft)?, queries))
    }

    fn delete(&mut self, delete: &'q Delete) -> Lower<(dml::Change, usize)> {
        if delete.current_of.is_some() {
            return refused("WHERE CURRENT OF");
        }
        let table = self.stored(&delete.table)?;
        let from = self.draft(&delete.input, &[])?.from;
        let queries = self.parts.subqueries.len();
        let (target, columns) = self.target(&table, &[ChangeKind::Delete], &[], &delete.returning)?;
        let draft = ChangeDraft { target, from, set: None, made_first: false, columns, movement: None };
        Ok((self.changed(queries, draft)?, queries))
    }

    fn merge(&mut self, merge: &'q BoundMerge) -> Lower<Merge> {
        if merge.table.has_children || merge.table.is_partitioned {
            return refused("a table that has children or partitions");
        }
        let table = self.stored(&merge.table)?;
        let from = self.draft(&merge.input, &[])?.from;
        let Rel::Join { on, .. } = &merge.input else { return refused("another input than a join") };
        let on = on.as_ref().map(|on| self.expr(on)).transpose()?;
        if self.current().sources.last().is_none_or(|source| source.table.id() != table.id()) {
            return refused("this source of rows");
        }
        let queries = self.parts.subqueries.len();
        let branches = merge.branches.iter().map(|branch| self.merge_branch(branch, &table));
        let branches = branches.collect::<Lower<Vec<_>>>()?;
        let mut kinds = Vec::with_capacity(branches.len());
        for branch in &branches {
            match &branch.action {
                Action::Nothing => {}
                Action::Delete => kinds.push(ChangeKind::Delete),
                Action::Update(set) => kinds.push(ChangeKind::Update(set)),
                Action::Insert(_) => kinds.push(ChangeKind::Insert),
            }
        }
        // One plan for both: the actions of a key's deletion and of its change are followed together.
        let has = |wanted: fn(&Action) -> bool| branches.iter().any(|branch| wanted(&branch.action));
        if has(|action| matches!(action, Action::Delete)) && has(|action| matches!(action, Action::Update(_))) {
            kinds = vec![ChangeKind::All];
        }
        let ((target, _), _) = self.inside(|lowering| {
            lowering.current().sources = [TARGET, EXCLUDED].map(|slot| Source::stored(slot, Arc::clone(&table))).into();
            lowering.target(&table, &kinds, &[], &[])
        })?;
        self.parts.hides |= reads_changed(&self.parts.subqueries[queries..], &self.parts.derived, target.written());
        let draft = MergeDraft { target, from, on, branches };
        let level = self.level();
        Ok(draft.planned(&self.levels[level].sources, &mut self.parts.hashed))
    }

    fn merge_branch(&mut self, branch: &'q MergeBranch, table: &RowTable) -> Lower<Branch> {
        let condition = branch.condition.as_ref().map(|condition| self.expr(condition)).transpose()?;
        let action = match &branch.action {
            MergeAction::Nothing => Action::Nothing,
            MergeAction::Delete => Action::Delete,
            MergeAction::Update { row_queries, assignments, .. } => {
                if assignments.iter().any(|assignment| !assignment.subscripts.is_empty()) {
                    return refused("an assignment to a part of a column");
                }
                Action::Update(self.set(Set { row_queries, assignments }, table)?)
            }
            MergeAction::Insert { values, parts, .. } => {
                if !parts.is_empty() {
                    return refused("an assignment to a part of a column");
                }
                let mut row = vec![Expr::Value(Value::Plain(Datum::Null)); table.schema.columns.len()];
                for ((at, _), value) in table.schema.shown().zip(values) {
                    row[at] = self.expr(value)?;
                }
                Action::Insert(row)
            }
        };
        Ok(Branch { matched: branch.matched, condition, action })
    }

    /// Chooses the access paths. Subqueries from number `queries` on run between changes.
    fn changed(&mut self, queries: usize, draft: ChangeDraft) -> Lower<dml::Change> {
        let moved = draft.movement.iter().flat_map(|movement| movement.routes().written());
        let written = draft.target.written().chain(moved);
        self.parts.hides |= reads_changed(&self.parts.subqueries[queries..], &self.parts.derived, written);
        let level = self.level();
        Ok(draft.planned(&self.levels[level].sources, &mut self.parts.hashed))
    }

    /// Column positions, ascending, and values.
    fn set(&mut self, set: Set<'q>, table: &RowTable) -> Lower<Vec<(usize, Expr)>> {
        for query in set.row_queries {
            self.row_query(query)?;
        }
        let shown: Vec<usize> = table.schema.shown().map(|(at, _)| at).collect();
        let mut values = Vec::with_capacity(set.assignments.len());
        for assignment in set.assignments {
            let at = shown[assignment.column];
            if assignment.subscripts.is_empty() {
                values.push((at, self.expr(&assignment.value)?));
                continue;
            }
            // Assignments to several parts of a column are made one after the other.
            let found = values.iter().position(|(column, _)| *column == at).unwrap_or_else(|| {
                values.push((at, self.field(table, at)));
                values.len() - 1
            });
            let target = std::mem::replace(&mut values[found].1, Expr::Now);
            values[found].1 = self.part_assigned(assignment, table, target)?;
        }
        values.sort_by_key(|(column, _)| *column);
        Ok(values)
    }

    /// A column of the row that is changed.
    fn field(&self, table: &RowTable, column: usize) -> Expr {
        Expr::Field { slot: TARGET, column, layout: Layout(Arc::clone(&table.layout)) }
    }

    /// The value of a column after an assignment to a part of it.
    fn part_assigned(&mut self, assignment: &'q Assignment, table: &RowTable, target: Expr) -> Lower<Expr> {
        let Some((_, column)) = table.schema.shown().nth(assignment.column) else {
            return Err(Error::bug("an assignment to a column that the table lacks").into());
        };
        let mut of = vec![target, self.expr(&assignment.value)?];
        let mut steps = Vec::with_capacity(assignment.subscripts.len());
        for subscript in &assignment.subscripts {
            steps.push(match subscript {
                Subscript::Index(index) => {
                    of.push(self.expr(index)?);
                    StepKind::Index
                }
                Subscript::Slice(low, high) => {
                    for bound in low.iter().chain(high) {
                        of.push(self.expr(bound)?);
                    }
                    StepKind::Slice(low.is_some(), high.is_some())
                }
                Subscript::Field(at) => StepKind::Field(*at),
            });
        }
        self.parts.asks |= Asks::Facts;
        Ok(Expr::AssignPart(Box::new(PartAssignment { ty: TypeId(column.ty.oid()), steps }), of))
    }

    /// Applies the assignments to parts of an INSERT's columns to its row.
    fn with_parts(&mut self, insert: &'q Insert, table: &RowTable, row: &mut [Expr]) -> Lower<()> {
        let shown: Vec<usize> = table.schema.shown().map(|(at, _)| at).collect();
        for part in &insert.parts {
            let at = shown[part.column];
            let target = std::mem::replace(&mut row[at], Expr::Now);
            row[at] = self.part_assigned(part, table, target)?;
        }
        Ok(())
    }

    /// Defines the columns of `SET (a, b) = (SELECT …)`, each as a subquery of its own.
    fn row_query(&mut self, query: &'q RowQuery) -> Lower<()> {
        let (level, plan) = (self.level(), &self.tree.subqueries[query.query as usize]);
        let calls = std::mem::take(&mut self.calls_session);
        for (number, column) in query.columns.iter().zip(&plan.columns) {
            let (select, given) = self.inside(|lowering| lowering.select(&plan.rel, &[*column]))?;
            self.parts.subqueries.push(Subquery { kind: ResultKind::Value, select });
            let expr = Expr::Result { of: self.parts.subqueries.len() - 1, given };
            self.definitions[*number as usize] = Some(Definition::Expr { level, expr });
        }
        if self.calls_session && query.columns.len() > 1 {
            return refused("a subquery for several columns with a volatile function");
        }
        self.calls_session |= calls;
        Ok(())
    }

    /// The target with its constraints and RETURNING, and the columns of RETURNING.
    fn target(
        &mut self,
        table: &Arc<RowTable>,
        kinds: &[ChangeKind<'_>],
        checks: &[RowCheck],
        returning: &[(u32, Bound)],
    ) -> Lower<(Target, Vec<Output>)> {
        let checks = checks.iter().map(|check| Ok((check.view.clone(), self.expr(&check.condition)?)));
        let checks = checks.collect::<Lower<Vec<_>>>()?;
        self.project(returning)?;
        let of_statement = || self.tree.output.iter().map(|output| output.column).collect();
        let wanted: Vec<u32> = self.returned.map_or_else(of_statement, <[u32]>::to_vec);
        let mut exprs = wanted.iter().map(|column| self.column(*column)).collect::<Lower<Vec<_>>>()?;
        let mut columns: Vec<Output> = wanted.iter().map(|column| self.output(*column)).collect();
        if self.returned.is_none() {
            self.result_columns(&mut exprs, &mut columns)?;
        }
        let mut stored = StoredExpressions { tables: self.tables, session: self.session, parts: &mut self.parts };
        let mut foreign = ForeignKeys::default();
        for kind in kinds {
            foreign.add(table, *kind, &mut stored)?;
        }
        let writer = Writer::new(Arc::clone(table), &mut stored)?;
        Ok((Target { writer, checks, returning: exprs, foreign }, columns))
    }
}

/// The OIDs of partitions, in the order of their routes.
fn oids_of(routes: &Routes, partitions: &[Arc<Table>]) -> Lower<Vec<u32>> {
    let known: FxHashMap<(&str, &str), u32> =
        partitions.iter().map(|table| ((&*table.schema, &*table.name), table.oid)).collect();
    let oid = |leaf: &Leaf| {
        let name = &leaf.table().schema.name;
        known.get(&(name.schema.as_str(), name.table.as_str())).copied()
    };
    match routes.leaves.iter().map(oid).collect::<Option<Vec<u32>>>() {
        Some(oids) => Ok(oids),
        None => refused("partitions in another version"),
    }
}

/// The query of an INSERT, and the values for the table's columns over its columns: casts and defaults, which are computed
/// after all of the query ran.
fn projected(insert: &Insert) -> Option<(&Rel, &[(u32, Bound)])> {
    match &insert.source {
        Rel::Project { input, columns }
            if columns.iter().map(|(column, _)| column).take(insert.row.len()).eq(&insert.row) =>
        {
            Some((input, columns))
        }
        _ => None,
    }
}

/// The columns of a query that values read, in the order of the query: its functions with side effects run in that order.
fn columns_read(query: &Rel, values: &[(u32, Bound)]) -> Lower<Vec<u32>> {
    let (mut read, mut has_subquery) = (FxHashSet::default(), false);
    for (_, value) in values {
        value.visit(&mut |part| match part.kind {
            ExprKind::Column(column) => _ = read.insert(column),
            ExprKind::Subquery(_) => has_subquery = true,
            _ => {}
        });
    }
    if has_subquery {
        return refused("a subquery in a default");
    }
    let mut columns = outputs(query);
    columns.retain(|column| read.contains(column));
    Ok(columns)
}

/// The index of an arbiter. All of them have the same keys: one of all rows decides, if there is one, because a partial
/// one decides about some rows only. A deferrable one decides nothing, and refuses all rows.
fn arbiter(indexes: &[usize], bound: &Table, table: &RowTable) -> Lower<Arbiter> {
    let mut all = indexes.iter().filter_map(|at| bound.unique.get(*at));
    if let Some(deferrable) = all.clone().find(|index| index.is_deferrable) {
        return Ok(Arbiter::Deferrable(deferrable.name.to_string()));
    }
    let whole = all.clone().find(|index| index.predicate.is_none());
    let name = whole.or_else(|| all.next()).map(|index| &*index.name);
    let found = dml::uniques(table).find(|(_, def)| Some(def.name.as_str()) == name);
    match found {
        Some((at, _)) => Ok(Arbiter::Index(at)),
        None => Err(Error::bug("the binder knows another unique index").into()),
    }
}
