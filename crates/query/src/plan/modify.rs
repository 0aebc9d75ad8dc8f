//! Planning of UPDATE and DELETE of `columns` tables with any condition, of MERGE, and of INSERT with RETURNING: a query gives the
//! rows to change, the rows to write in their place and the rows of RETURNING.

mod merge;
mod sequences;

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::DataType as Arrow;
use binder::tree::{
    Assignment, Bound as FrameBound, Change, ChangeStatement, Column, Cte, Frame, Insert, JoinKind, Output, Query, Rel,
    RowQuery, SortKey, Subplan, WindowCall,
};
use catalog::{TypeId, Volatility, builtin};
use model::{Error, Result, TableRef};
use parser::ast as tree;
use pg_catalog::oids::{Part, table_of};
use relational::types::{OutputColumn, Value};
use scalar::{BooleanTest, Call, Expr, ExprKind, Place, Subquery, SubqueryKind};

use self::sequences::{Defaults, with_numbers};
use super::query::{QueryPlan, plan_bound};
use super::rows::Verb;
use super::volatile::is_volatile;
use crate::binding;
use crate::encode::{has_styles, has_text_transport};
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::{Command, Purpose, Statement};
use crate::tables::{find_table, find_view, names_any};

/// A planned UPDATE, DELETE, MERGE or INSERT … RETURNING. Each execution plans it again, in its snapshot.
pub(crate) struct ModifyPlan {
    pub(crate) verb: Verb,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Columns of RETURNING; `None` without it.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    /// Arrow types of the columns of RETURNING.
    pub(crate) fields: Vec<Arrow>,
}

/// Plans an UPDATE, DELETE, MERGE or INSERT … RETURNING of a `columns` table.
///
/// # Errors
/// Errors of PostgreSQL's parse analysis; 0A000 for `WHERE CURRENT OF`.
pub(crate) fn plan(
    session: &mut Session,
    statement: &Statement,
    change: &tree::Statement,
    declared: &[u32],
) -> Result<ModifyPlan> {
    // Numbers are taken from sequences when the statement runs.
    let mut defaults = |_: &mut Session, _: &TableRef, _, rows| Ok(vec![Value::Int64(0); rows]);
    let planned = Modification::of(session, statement, change, declared, &mut defaults)?;
    let Modification { verb, query, layout, columns, .. } = planned;
    let fields = query.fields[layout.returning].to_vec();
    Ok(ModifyPlan { verb, parameters: query.parameters, columns, fields })
}

/// An UPDATE, DELETE or INSERT … RETURNING planned in a snapshot.
pub(crate) struct Modification {
    pub(crate) verb: Verb,
    pub(crate) context: Arc<StatementContext>,
    pub(crate) table: TableRef,
    pub(crate) query: QueryPlan,
    pub(crate) layout: Layout,
    /// Columns of RETURNING; `None` without it.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    /// The statement with the purpose of its query.
    pub(crate) statement: Statement,
}

/// Meaning of the query's columns, by position.
pub(crate) struct Layout {
    /// Whether a row of the table can occur several times: there is FROM or USING. The first occurrence counts.
    pub(crate) is_joined: bool,
    /// Columns of the table that SET assigns to, sorted.
    pub(crate) assigned: Vec<usize>,
    /// Key columns of the row before the change, then its time.
    pub(crate) identity: Range<usize>,
    /// Whether the row is changed. Only tables without a key have it: their query gives all rows of a time, ordered by time, the
    /// changed ones first.
    pub(crate) is_changed: Option<usize>,
    /// Number of the table's row, if the table has no key and rows can occur several times.
    pub(crate) row_number: Option<usize>,
    /// Number of the branch of MERGE that acts on the row.
    pub(crate) action: Option<usize>,
    /// Branches of MERGE.
    pub(crate) branches: Vec<Branch>,
    /// All columns of the row after the change; for a DELETE from a table without a key, of the row as it is, else empty.
    pub(crate) new: Range<usize>,
    pub(crate) returning: Range<usize>,
}

/// A branch of MERGE.
pub(crate) enum Branch {
    Nothing,
    Delete,
    /// Columns that SET assigns to, sorted.
    Update(Vec<usize>),
    Insert,
}

impl Modification {
    pub(crate) fn of(
        session: &mut Session,
        statement: &Statement,
        change: &tree::Statement,
        declared: &[u32],
        defaults: Defaults<'_>,
    ) -> Result<Modification> {
        let (verb, target) = match change {
            tree::Statement::Update(update) => (Verb::Update, &update.table.name),
            tree::Statement::Delete(delete) => (Verb::Delete, &delete.table.name),
            tree::Statement::Insert(insert) => (Verb::Insert, &insert.table.name),
            tree::Statement::Merge(merge) => (Verb::Merge, &merge.table.name),
            _ => return Err(Error::bug("a change of another kind")),
        };
        let context = if reads_rows(session, change) { session.context_of_newest() } else { session.context() };
        if find_view(&context, target).is_none() {
            find_table(&context, target)?;
        }
        let change = &*with_numbers(session, &context, change, defaults)?;
        let statement = statement.within(Command::Change(change.clone()), Purpose::Columns);
        let bound = binding::bind_change(&context, &statement.0, change, declared)?;
        let table = match &bound.change.change {
            Change::Update(update) => &update.table,
            Change::Delete(delete) => &delete.table,
            Change::Insert(insert) => &insert.table,
            Change::Merge(merge) => &merge.table,
        };
        let found = table_of(table.oid).filter(|(_, part)| *part == Part::Table);
        let found = found.and_then(|(id, _)| context.reads.snapshot.catalog().table_by_id(id).cloned());
        let table = found.ok_or_else(|| Error::bug(format!("table {} is not in the catalog", table.name)))?;
        let output = bound.change.output.clone();
        let styled = !context.settings.has_plain_styles();
        let (query, layout) = Builder::new(&bound.change, &table, styled).query((*bound.change).clone())?;
        let query = plan_bound(session, &context, &statement.0, binding::Bound::of_load(query, bound))?;
        let columns = output.iter().map(|one| OutputColumn {
            name: one.name.to_string(),
            oid: one.ty.0,
            typmod: one.typmod,
            origin: one.origin,
        });
        let columns = (!output.is_empty()).then(|| columns.collect());
        Ok(Modification { verb, context, table, query, layout, columns, statement })
    }
}

/// Whether the statement reads `rows` tables.
fn reads_rows(session: &mut Session, change: &tree::Statement) -> bool {
    let mut select = tree::Select::default();
    let (mut conditions, no_targets) = (Vec::new(), Vec::new());
    let (with, returning, set) = match change {
        tree::Statement::Update(update) => {
            (select.from, select.filter) = (update.from.clone(), update.filter.clone());
            select.from.push(relation(&update.table));
            (update.with.clone(), &update.returning, &update.set[..])
        }
        tree::Statement::Delete(delete) => {
            (select.from, select.filter) = (delete.using.clone(), delete.filter.clone());
            select.from.push(relation(&delete.table));
            (delete.with.clone(), &delete.returning, &[][..])
        }
        tree::Statement::Insert(insert) => {
            let source = insert.source.as_ref();
            if insert.with.is_some() || source.is_some_and(|source| names_any(session, source)) {
                return true;
            }
            (None, &insert.returning, &[][..])
        }
        tree::Statement::Merge(merge) => {
            (select.from, select.filter) = (vec![merge.source.clone(), relation(&merge.table)], Some(merge.on.clone()));
            for branch in &merge.branches {
                conditions.extend(branch.condition.clone());
                match &branch.action {
                    tree::MergeAction::Update(set) => conditions.extend(set.iter().map(set_value)),
                    tree::MergeAction::Insert { values, .. } => conditions.extend(values.iter().flatten().cloned()),
                    tree::MergeAction::Delete | tree::MergeAction::Nothing => {}
                }
            }
            (merge.with.clone(), &no_targets, &[][..])
        }
        _ => return false,
    };
    conditions.extend(set.iter().map(set_value));
    select.targets = returning.clone();
    select.targets.extend(conditions.into_iter().map(|expr| tree::Target { expr, alias: None }));
    let query = tree::Query {
        with,
        body: tree::QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
        at: tree::Pos(0),
    };
    names_any(session, &query)
}

fn set_value(clause: &tree::SetClause) -> tree::Expr {
    match clause {
        tree::SetClause::One(_, value) | tree::SetClause::Many(_, value) => value.clone(),
    }
}

/// The changed table as an item of FROM: a view may read `rows` tables.
fn relation(table: &tree::TargetTable) -> tree::TableExpr {
    let tree::TargetTable { name, only, .. } = table.clone();
    tree::TableExpr::Relation(Box::new(tree::Relation { name, only, alias: None, sample: None, as_of: None }))
}

/// Function `row_number()`.
const ROW_NUMBER: u32 = 3100;

/// Makes the query of a bound UPDATE, DELETE or INSERT.
struct Builder<'a> {
    table: &'a TableRef,
    columns: Vec<Column>,
    subqueries: Vec<Subplan>,
    /// Whether values of RETURNING are shown in styles that are not the usual ones.
    styled: bool,
}

/// The parts of a bound UPDATE or DELETE.
struct Parts {
    old: Vec<u32>,
    input: Rel,
    set: Option<Set>,
    returning: Vec<(u32, Expr)>,
}

/// SET, and the numbers of the columns after the change.
struct Set {
    row_queries: Vec<RowQuery>,
    assignments: Vec<Assignment>,
    new: Vec<u32>,
}

/// The rows of a table without a key at the times that a condition selects.
struct Instants {
    rel: Rel,
    is_changed: u32,
    row_number: Option<u32>,
}

impl<'a> Builder<'a> {
    fn new(bound: &ChangeStatement, table: &'a TableRef, styled: bool) -> Builder<'a> {
        Builder { table, columns: bound.columns.clone(), subqueries: bound.subqueries.clone(), styled }
    }

    fn add(&mut self, name: &str, ty: TypeId) -> u32 {
        self.columns.push(Column { name: name.into(), ty, typmod: -1 });
        (self.columns.len() - 1) as u32
    }

    fn column(&self, number: u32) -> Expr {
        let Column { ty, typmod, .. } = self.columns[number as usize];
        Expr { kind: ExprKind::Column(number), ty, typmod, at: Place(0) }
    }

    /// `input` with more columns.
    fn with(&self, input: Rel, more: Vec<(u32, Expr)>) -> Rel {
        if more.is_empty() {
            return input;
        }
        let mut outputs = Vec::new();
        input.outputs(&mut outputs);
        outputs.retain(|number| more.iter().all(|(other, _)| other != number));
        let columns = outputs.into_iter().map(|number| (number, self.column(number))).chain(more).collect();
        Rel::Project { input: Box::new(input), columns }
    }

    fn query(mut self, bound: ChangeStatement) -> Result<(Query, Layout)> {
        let ChangeStatement { change, output: returned, ctes, parameters, .. } = bound;
        let change = match change {
            Change::Insert(insert) => return Ok(self.insert(*insert, returned, ctes, parameters)),
            Change::Merge(merge) => return self.merge(merge, ctes, parameters),
            change => change,
        };
        let Parts { old, input, set, returning } = parts(change)?;
        let is_joined = joins(&input);
        let (mut rel, mut is_changed, mut row_number) = (input, None, None);
        if !self.table.keyed {
            let instants = self.instants(rel, &old)?;
            rel = instants.rel;
            (is_changed, row_number) = (Some(instants.is_changed), instants.row_number);
        }
        let mut assigned = Vec::new();
        let mut new = if is_changed.is_some() { old.clone() } else { Vec::new() };
        if let Some(set) = set {
            rel = self.row_queries(rel, &set.row_queries, is_changed, &ctes)?;
            assigned = set.assignments.iter().map(|assignment| assignment.column).collect();
            assigned.sort_unstable();
            assigned.dedup();
            let value = |at: usize| set.assignments.iter().rev().find(|assignment| assignment.column == at);
            let mut values = Vec::with_capacity(old.len());
            for (at, (old, new)) in old.iter().zip(&set.new).enumerate() {
                let old = self.column(*old);
                let value = match value(at) {
                    Some(value) => self.if_changed(is_changed, value.value.clone(), old),
                    None => old,
                };
                values.push((*new, value));
            }
            rel = self.with(rel, values);
            new = set.new;
        }
        let (returning, returned) = self.returning(returning, returned, is_changed);
        rel = self.with(rel, returning);
        if is_changed.is_some() {
            let time = self.table.columns.iter().position(|column| column.role == model::ColumnRole::Time);
            let time = time.map(|at| old[at]).ok_or_else(|| Error::bug("a table without time"))?;
            let keys = [Some(time), is_changed, row_number].into_iter().flatten().map(|number| SortKey {
                expr: self.column(number),
                descending: Some(number) == is_changed,
                nulls_first: false,
            });
            let keys = keys.collect();
            rel = Rel::Sort { input: Box::new(rel), keys };
        }
        let mut numbers: Vec<u32> = identity(self.table).map(|at| old[at]).collect();
        let mut layout = Layout {
            is_joined,
            assigned,
            identity: 0..numbers.len(),
            is_changed: None,
            row_number: None,
            action: None,
            branches: Vec::new(),
            new: 0..0,
            returning: 0..0,
        };
        let mut place = |number: u32| {
            numbers.push(number);
            numbers.len() - 1
        };
        layout.is_changed = is_changed.map(&mut place);
        layout.row_number = row_number.map(&mut place);
        layout.new = numbers.len()..numbers.len() + new.len();
        numbers.extend(new);
        let mut output: Vec<Output> = numbers.iter().map(|number| self.output(*number)).collect();
        layout.returning = output.len()..output.len() + returned.len();
        output.extend(returned);
        let Builder { columns, subqueries, .. } = self;
        Ok((Query { root: rel, output, columns, subqueries, ctes, parameters }, layout))
    }

    /// The query of an INSERT: its source, as rows of the table.
    fn insert(
        mut self,
        insert: Insert,
        returned: Vec<Output>,
        ctes: Vec<Cte>,
        parameters: Vec<TypeId>,
    ) -> (Query, Layout) {
        let Insert { source, row, new, returning, .. } = insert;
        let values = new.iter().zip(&row).map(|(new, from)| (*new, self.column(*from))).collect();
        let rel = self.with(source, values);
        let (returning, returned) = self.returning(returning, returned, None);
        let root = self.with(rel, returning);
        let mut output: Vec<Output> = new.iter().map(|number| self.output(*number)).collect();
        let layout = Layout {
            is_joined: false,
            assigned: Vec::new(),
            identity: 0..0,
            is_changed: None,
            row_number: None,
            action: None,
            branches: Vec::new(),
            new: 0..new.len(),
            returning: new.len()..new.len() + returned.len(),
        };
        output.extend(returned);
        let Builder { columns, subqueries, .. } = self;
        (Query { root, output, columns, subqueries, ctes, parameters }, layout)
    }

    fn output(&self, number: u32) -> Output {
        let Column { name, ty, typmod } = self.columns[number as usize].clone();
        Output { name, column: number, ty, typmod, origin: None }
    }

    /// The value, or another one in rows that are not changed.
    fn if_changed(&self, is_changed: Option<u32>, value: Expr, otherwise: Expr) -> Expr {
        let Some(is_changed) = is_changed else { return value };
        let (ty, typmod) = (value.ty, value.typmod);
        let branches = vec![(self.column(is_changed), value)];
        let kind = ExprKind::Case { operand: None, branches, otherwise: Some(Box::new(otherwise)) };
        Expr { kind, ty, typmod, at: Place(0) }
    }

    /// Columns of RETURNING, with new numbers: a value that is a column may be needed as it is, too. Values with styles of their
    /// own become texts here, because the other columns of the query must not.
    fn returning(
        &mut self,
        returning: Vec<(u32, Expr)>,
        mut returned: Vec<Output>,
        is_changed: Option<u32>,
    ) -> (Vec<(u32, Expr)>, Vec<Output>) {
        let mut values = Vec::with_capacity(returning.len());
        for (number, value) in returning {
            let null = Expr::null(value.ty, Place(0));
            let value = self.if_changed(is_changed, value, null);
            // The query keeps values as they are stored.
            let is_text = has_text_transport(value.ty.0) || (self.styled && has_styles(value.ty.0));
            let value = match is_text {
                true => Expr::new(ExprKind::ViaText(Box::new(value)), TypeId::TEXT, Place(0)),
                false => value,
            };
            let (ty, typmod) = (value.ty, value.typmod);
            let column = self.add("returning", ty);
            for output in returned.iter_mut().filter(|output| output.column == number) {
                (output.column, output.ty, output.typmod) = (column, ty, typmod);
            }
            values.push((column, value));
        }
        (values, returned)
    }

    /// Adds the columns of subqueries that give values for several columns of SET. Each column is a subquery of its own.
    fn row_queries(&mut self, rel: Rel, queries: &[RowQuery], is_changed: Option<u32>, ctes: &[Cte]) -> Result<Rel> {
        let mut values = Vec::new();
        for RowQuery { query, columns } in queries {
            let subplan = self.subqueries[*query as usize].clone();
            if columns.len() > 1 && is_volatile(&subplan.rel, &self.subqueries, ctes) {
                let text =
                    "SET of several columns by a subquery with a volatile function is not supported on columns tables";
                return Err(Error::unsupported(text).with_hint("compute the values by a subquery in FROM"));
            }
            for (from, number) in subplan.columns.iter().zip(columns) {
                let one = Subplan { rel: subplan.rel.clone(), columns: vec![*from] };
                self.subqueries.push(one);
                let query = (self.subqueries.len() - 1) as u32;
                let subquery = ExprKind::Subquery(Box::new(Subquery { query, kind: SubqueryKind::Scalar }));
                let column = self.column(*number);
                let null = Expr::null(column.ty, Place(0));
                let value = self.if_changed(is_changed, Expr { kind: subquery, ..column }, null);
                values.push((*number, value));
            }
        }
        Ok(self.with(rel, values))
    }

    /// The rows of a table without a key whose times can have changed rows, and whether each is changed. Conditions on the time
    /// alone hold for all rows of an instant, so that they limit what is read.
    fn instants(&mut self, input: Rel, old: &[u32]) -> Result<Instants> {
        let time = self.table.columns.iter().position(|column| column.role == model::ColumnRole::Time);
        let time = time.map(|at| old[at]).ok_or_else(|| Error::bug("a table without time"))?;
        let (mut conditions, mut rel) = (Vec::new(), input);
        while let Rel::Filter { input, condition } = rel {
            match condition.kind {
                ExprKind::And(parts) => conditions.extend(parts),
                _ => conditions.push(condition),
            }
            rel = *input;
        }
        let (of_time, others): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| is_of_instant(condition, time));
        let (scan, joined) = match rel {
            Rel::Join { kind: JoinKind::Inner, left, right, on: None, .. } => (*left, Some(right)),
            scan => (scan, None),
        };
        let Rel::Scan { .. } = scan else {
            return Err(Error::unsupported("UPDATE and DELETE through a view of a columns table without a key")
                .with_hint("change the table that the view reads"));
        };
        let rows = match all_of(of_time) {
            Some(condition) => Rel::Filter { input: Box::new(scan), condition },
            None => scan,
        };
        let is_changed = self.add("is_changed", TypeId::BOOL);
        let condition = all_of(others);
        let Some(joined) = joined else {
            let value = match condition {
                None => Expr::bool(true, Place(0)),
                Some(condition) => {
                    let kind = ExprKind::BooleanTest(Box::new(condition), BooleanTest::True);
                    Expr::new(kind, TypeId::BOOL, Place(0))
                }
            };
            return Ok(Instants { rel: self.with(rows, vec![(is_changed, value)]), is_changed, row_number: None });
        };
        let row_number = self.add("row_number", TypeId::INT8);
        let call = Call { function: ROW_NUMBER, operator: None, arguments: Box::new([]), result: TypeId::INT8 };
        let frame = Frame {
            unit: tree::FrameUnit::Range,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
            exclude: tree::FrameExclude::NoOthers,
        };
        let (arguments, partition_by, order_by) = (Vec::new(), Vec::new(), Vec::new());
        let call = WindowCall { call, arguments, filter: None, partition_by, order_by, frame };
        let numbered = Rel::Window { input: Box::new(rows), calls: vec![(row_number, call)] };
        let mark = self.add("is_joined", TypeId::BOOL);
        let right = self.with(*joined, vec![(mark, Expr::bool(true, Place(0)))]);
        let rel = Rel::Join {
            kind: JoinKind::Left,
            left: Box::new(numbered),
            right: Box::new(right),
            on: condition,
            lateral: false,
        };
        let value = Expr::new(ExprKind::IsNotNull(Box::new(self.column(mark))), TypeId::BOOL, Place(0));
        Ok(Instants { rel: self.with(rel, vec![(is_changed, value)]), is_changed, row_number: Some(row_number) })
    }
}

fn parts(change: Change) -> Result<Parts> {
    let (parts, current_of, checks) = match change {
        Change::Update(update) => {
            let set = Set { row_queries: update.row_queries, assignments: update.assignments, new: update.new };
            let parts = Parts { old: update.old, input: update.input, set: Some(set), returning: update.returning };
            (parts, update.current_of, update.checks)
        }
        Change::Delete(delete) => {
            let parts = Parts { old: delete.old, input: delete.input, set: None, returning: delete.returning };
            (parts, delete.current_of, Vec::new())
        }
        Change::Insert(_) | Change::Merge(_) => return Err(Error::bug("a change of another kind")),
    };
    if current_of.is_some() {
        return Err(Error::unsupported("WHERE CURRENT OF is not supported on columns tables")
            .with_hint("write a condition on the key and the time of the row"));
    }
    if let Some(check) = checks.first() {
        let text =
            format!("UPDATE through view \"{}\" with a check option is not supported on columns tables", check.view);
        return Err(Error::unsupported(text).with_hint("change the table that the view reads"));
    }
    Ok(parts)
}

/// Whether the rows of the table are joined with others.
fn joins(input: &Rel) -> bool {
    match input {
        Rel::Filter { input, .. } => joins(input),
        Rel::Scan { .. } => false,
        _ => true,
    }
}

/// Positions of the key columns, then that of the time.
fn identity(table: &model::Table) -> impl Iterator<Item = usize> + '_ {
    let of = |role| (0..table.columns.len()).filter(move |at| table.columns[*at].role == role);
    of(model::ColumnRole::Key).chain(of(model::ColumnRole::Time))
}

fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr::new(ExprKind::And(conditions), TypeId::BOOL, Place(0))),
    }
}

/// Whether a condition has the same value for all rows with one time.
fn is_of_instant(condition: &Expr, time: u32) -> bool {
    let mut is_it = true;
    condition.visit(&mut |part| match &part.kind {
        ExprKind::Column(number) => is_it &= *number == time,
        ExprKind::Subquery(_) => is_it = false,
        ExprKind::Call(call, _) => {
            let row = builtin().function_row(call.function);
            is_it &= row.is_some_and(|row| row.volatility != Volatility::Volatile);
        }
        _ => {}
    });
    is_it
}
