//! SELECT: bound once, run often.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use env::Event;
use model::{Datum, Error, Result, SqlState, Type};
use rows::{LockMode, RowTable, Txn, WaitPolicy, key};
use rustc_hash::FxHashSet;
use sqlparser::ast;

use crate::aggregate::{Aggregate, Groups, Kind, nullable};
use crate::bind::{Bind, Binder, Refusal, Typed, folded};
use crate::exec::{self, Each, Flow, Given, Held, Lock, Run, Stop};
use crate::expr::{Answer, Expr};
use crate::plan::{self, Joined, Order, Step};
use crate::scope::{self, Before, Scope, Tables, Wanted};

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// As PostgreSQL would name it.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// A SELECT, ready to run.
pub(crate) struct Select {
    /// By slot.
    tables: Vec<Arc<RowTable>>,
    steps: Vec<Step>,
    /// All conditions of WHERE and inner joins, looked at again where a row has changed.
    conditions: Vec<Expr>,
    groups: Option<Grouping>,
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Output>,
    distinct: bool,
    order: Vec<Order>,
    /// Rows come in that order already.
    ordered: bool,
    limit: Option<Expr>,
    offset: Option<Expr>,
    lock: Option<(Vec<usize>, Lock)>,
    before: Vec<Before>,
}

/// GROUP BY, or aggregates without it.
struct Grouping {
    by: Vec<Expr>,
    types: Vec<Type>,
    aggregates: Vec<Aggregate>,
    having: Option<Expr>,
    /// Rows come so that the first with a value decides: `min` or `max` of what an index is in order of.
    first_is_enough: bool,
}

/// Tables and conditions of FROM.
#[derive(Default)]
pub(crate) struct From {
    /// By slot: the conditions of LEFT JOIN.
    pub(crate) optional: Vec<Option<Vec<Expr>>>,
    pub(crate) conditions: Vec<Expr>,
}

/// Binds a query. A name in one without tables may be a function of the other tier's.
pub(crate) fn bind(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<Select> {
    let select = plain(query)?;
    bind_select(binder, query, select, tables).map_err(|refusal| match refusal {
        Refusal::Error(error) if select.from.is_empty() && error.state() == SqlState::UNDEFINED_COLUMN => {
            Refusal::Other
        }
        other => other,
    })
}

fn bind_select(binder: &mut Binder, query: &ast::Query, select: &ast::Select, tables: &dyn Tables) -> Bind<Select> {
    let mut scope = Scope::new(tables);
    let mut from = bind_from(binder, &select.from, &mut scope)?;
    if let Some(condition) = &select.selection {
        scope::cut(binder.condition(condition, "WHERE", &mut scope)?, &mut from.conditions);
    }
    scope.clause = "GROUP BY";
    let mut by = group_by(binder, select, &mut scope)?;
    scope.clause = "LIMIT";
    scope.grouped = by.len();
    scope.aggregates = Some(Vec::new());
    let (mut output, columns) = projection(binder, &select.projection, &mut scope)?;
    let mut having = match &select.having {
        Some(having) => Some(binder.condition(having, "HAVING", &mut scope)?),
        None => None,
    };
    let distinct = match &select.distinct {
        None | Some(ast::Distinct::All) => false,
        Some(ast::Distinct::Distinct) => true,
        Some(ast::Distinct::On(_)) => return Err(Refusal::Other),
    };
    if distinct && columns.iter().any(|column| !column.ty.is_ordered()) {
        return Err(Refusal::Other);
    }
    let mut order = order_by(binder, query, &select.projection, &output, &columns, distinct, &mut scope)?;
    let aggregates = scope.aggregates.take().unwrap_or_default();
    let grouped = !by.is_empty() || !aggregates.is_empty() || having.is_some();
    if grouped {
        let all = output.iter_mut().chain(&mut having).chain(order.iter_mut().map(|one| &mut one.by));
        all.into_iter().try_for_each(|expr| regroup(expr, &by))?;
    }
    let (limit, offset) = limits(binder, query, &mut scope)?;
    let lock = locking(binder, query, &from)?;
    if lock.is_some() && (grouped || distinct) {
        let what = match (distinct, by.is_empty(), &having) {
            (true, ..) => "DISTINCT clause",
            (_, false, _) => "GROUP BY clause",
            (.., Some(_)) => "HAVING clause",
            _ => "aggregate functions",
        };
        return Err(Error::unsupported(format!("FOR UPDATE is not allowed with {what}")).into());
    }
    let types = by.iter().map(|(_, ty)| *ty).collect();
    let by: Vec<Expr> = by.drain(..).map(|(expr, _)| expr).collect();
    let joined: Vec<Joined<'_>> = binder
        .sources
        .iter()
        .zip(&from.optional)
        .map(|(source, optional)| Joined { source, optional: optional.clone() })
        .collect();
    let extreme = if by.is_empty() { extreme(&aggregates) } else { None };
    let asked = if grouped { extreme.as_slice() } else { order.as_slice() };
    let (steps, in_order) = plan::steps(&joined, from.conditions.clone(), asked);
    let first_is_enough = in_order && extreme.is_some();
    let ordered = order.is_empty() || in_order && !grouped;
    Ok(Select {
        tables: binder.sources.iter().map(|source| Arc::clone(&source.table)).collect(),
        steps,
        conditions: from.conditions,
        groups: grouped.then_some(Grouping { by, types, aggregates, having, first_is_enough }),
        output,
        columns,
        distinct,
        ordered,
        order,
        limit,
        offset,
        lock,
        before: scope.before,
    })
}

/// The order in which the first row with a value is what the only aggregate gives.
fn extreme(aggregates: &[Aggregate]) -> Option<Order> {
    let [Aggregate { kind, of: Some(by @ Expr::Field { .. }), .. }] = aggregates else { return None };
    let descending = match kind {
        Kind::Min => false,
        Kind::Max => true,
        _ => return None,
    };
    Some(Order { by: by.clone(), descending, nulls_first: descending })
}

/// The SELECT of a query that has nothing else about it.
fn plain(query: &ast::Query) -> Bind<&ast::Select> {
    let ast::SetExpr::Select(select) = &*query.body else { return Err(Refusal::Other) };
    let usual = query.with.is_none()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none()
        && select.select_modifiers.is_none();
    if usual { Ok(select) } else { Err(Refusal::Other) }
}

pub(crate) fn bind_from(binder: &mut Binder, from: &[ast::TableWithJoins], scope: &mut Scope<'_>) -> Bind<From> {
    let mut bound = From::default();
    for one in from {
        add(binder, &one.relation, None, &mut bound, scope)?;
        let first = binder.sources.len() - 1;
        for join in &one.joins {
            if join.global {
                return Err(Refusal::Other);
            }
            add_join(binder, join, first, &mut bound, scope)?;
        }
    }
    Ok(bound)
}

fn add(
    binder: &mut Binder,
    factor: &ast::TableFactor,
    optional: Option<Vec<Expr>>,
    bound: &mut From,
    scope: &Scope<'_>,
) -> Bind<()> {
    let source = scope::source(factor, binder.sources.len(), scope.tables)?;
    if binder.sources.iter().any(|other| other.name == source.name) {
        return Err(Refusal::Other);
    }
    binder.sources.push(source);
    bound.optional.push(optional);
    Ok(())
}

/// `first` is the first table of the join: a condition sees no tables before it.
fn add_join(binder: &mut Binder, join: &ast::Join, first: usize, bound: &mut From, scope: &mut Scope<'_>) -> Bind<()> {
    use ast::{JoinConstraint as C, JoinOperator as J};
    add(binder, &join.relation, None, bound, scope)?;
    let (on, outer) = match &join.join_operator {
        J::Join(C::On(on)) | J::Inner(C::On(on)) => (on, false),
        J::Left(C::On(on)) | J::LeftOuter(C::On(on)) => (on, true),
        J::CrossJoin(C::None) => return Ok(()),
        _ => return Err(Refusal::Other),
    };
    let outside: Vec<_> = binder.sources.drain(..first).collect();
    let clause = std::mem::replace(&mut scope.clause, "JOIN conditions");
    let condition = binder.condition(on, "JOIN/ON", scope);
    scope.clause = clause;
    binder.sources.splice(..0, outside);
    let mut conditions = Vec::new();
    scope::cut(condition?, &mut conditions);
    if outer {
        *bound.optional.last_mut().ok_or(Refusal::Other)? = Some(conditions);
    } else {
        bound.conditions.append(&mut conditions);
    }
    Ok(())
}

/// Columns to group by; of expressions, only those that are columns are done here.
fn group_by(binder: &mut Binder, select: &ast::Select, scope: &mut Scope<'_>) -> Bind<Vec<(Expr, Type)>> {
    let ast::GroupByExpr::Expressions(list, with) = &select.group_by else { return Err(Refusal::Other) };
    if !with.is_empty() {
        return Err(Refusal::Other);
    }
    let mut by = Vec::with_capacity(list.len());
    for one in list {
        let one = match position(one)? {
            Some(at) => match select.projection.get(at) {
                Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => expr,
                _ => return Err(Refusal::Other),
            },
            None => one,
        };
        let bound = match binder.expr(one, scope) {
            // What no table has may be what the SELECT list calls something.
            Err(Refusal::Error(error)) if error.state() == SqlState::UNDEFINED_COLUMN => {
                let Some(meant) = called(one, &select.projection) else { return Err(error.into()) };
                binder.expr(meant, scope)?
            }
            bound => bound?,
        };
        match (bound.expr, bound.ty) {
            (expr @ Expr::Field { .. }, Some(ty)) if ty.is_ordered() => by.push((expr, ty)),
            _ => return Err(Refusal::Other),
        }
    }
    Ok(by)
}

/// The expression that a SELECT list gives this name to.
fn called<'s>(name: &ast::Expr, items: &'s [ast::SelectItem]) -> Option<&'s ast::Expr> {
    let ast::Expr::Identifier(name) = name else { return None };
    items.iter().find_map(|item| match item {
        ast::SelectItem::ExprWithAlias { expr, alias } if folded(alias) == folded(name) => Some(expr),
        _ => None,
    })
}

/// Puts the group's columns for the rows'. A column that is not grouped is left to who knows about functional dependency.
fn regroup(expr: &mut Expr, by: &[(Expr, Type)]) -> Bind<()> {
    let mut ungrouped = false;
    expr.change(&mut |part| {
        let Expr::Field { slot, column, .. } = part else { return };
        let at = by
            .iter()
            .position(|(one, _)| matches!(one, Expr::Field { slot: s, column: c, .. } if (s, c) == (&*slot, &*column)));
        match at {
            Some(at) => *part = Expr::Made(at),
            None => ungrouped = true,
        }
    });
    if ungrouped { Err(Refusal::Other) } else { Ok(()) }
}

/// The columns of a SELECT list or RETURNING.
pub(crate) fn projection(
    binder: &mut Binder,
    items: &[ast::SelectItem],
    scope: &mut Scope<'_>,
) -> Bind<(Vec<Expr>, Vec<Output>)> {
    let (mut exprs, mut columns) = (Vec::new(), Vec::new());
    let mut push = |typed: Typed, name: String| {
        exprs.push(typed.expr);
        columns.push(Output { name, ty: typed.ty.unwrap_or(Type::Text) });
    };
    for item in items {
        let (expr, name) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, output_name(expr)),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, folded(alias)),
            ast::SelectItem::Wildcard(options) if is_bare(options) && !binder.sources.is_empty() => {
                for source in &binder.sources {
                    source.schema().shown().for_each(|(at, column)| push(source.field(at), column.name.clone()));
                }
                continue;
            }
            ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_bare(options) =>
            {
                let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Other) };
                let name = folded(name);
                let source = binder.sources.iter().find(|source| source.name == name).ok_or(Refusal::Other)?;
                source.schema().shown().for_each(|(at, column)| push(source.field(at), column.name.clone()));
                continue;
            }
            _ => return Err(Refusal::Other),
        };
        let bound = binder.expr(expr, scope)?;
        push(binder.settle(bound, Type::Text)?, name);
    }
    Ok((exprs, columns))
}

fn is_bare(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}

/// What PostgreSQL calls a column without an alias.
fn output_name(expr: &ast::Expr) -> String {
    name_of(expr).unwrap_or_else(|| "?column?".into())
}

fn name_of(expr: &ast::Expr) -> Option<String> {
    use ast::Expr as E;
    Some(match expr {
        E::Identifier(name) => folded(name),
        E::CompoundIdentifier(parts) => folded(parts.last()?),
        E::Nested(inner) => return name_of(inner),
        E::Function(call) => match call.name.0.last()? {
            ast::ObjectNamePart::Identifier(name) => folded(name),
            ast::ObjectNamePart::Function(_) => return None,
        },
        E::Cast { expr, data_type, .. } => match name_of(expr) {
            Some(name) => name,
            None => type_name(data_type)?,
        },
        E::TypedString(string) => type_name(&string.data_type)?,
        E::Case { else_result, .. } => else_result.as_deref().and_then(name_of).unwrap_or_else(|| "case".into()),
        E::Ceil { .. } => "ceil".into(),
        E::Floor { .. } => "floor".into(),
        E::Substring { .. } => "substring".into(),
        E::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim".into(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".into(),
            _ => "btrim".into(),
        },
        E::Exists { .. } => "exists".into(),
        E::Subquery(query) => {
            let ast::SetExpr::Select(select) = &*query.body else { return None };
            match select.projection.first()? {
                ast::SelectItem::UnnamedExpr(expr) => return name_of(expr),
                ast::SelectItem::ExprWithAlias { alias, .. } => folded(alias),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// A type by the name it has in `pg_type`.
fn type_name(ty: &ast::DataType) -> Option<String> {
    let name = match crate::bind::data_type(ty).ok()? {
        Type::Bool => "bool",
        Type::Int2 => "int2",
        Type::Int4 => "int4",
        Type::Int8 => "int8",
        Type::Float4 => "float4",
        Type::Float8 => "float8",
        Type::Varchar(_) => "varchar",
        Type::Char(_) => "bpchar",
        Type::Time => "time",
        Type::Timestamp => "timestamp",
        Type::Timestamptz => "timestamptz",
        ty => ty.sql_name(),
    };
    Some(name.into())
}

/// `2` as the second column, counted from 0.
fn position(expr: &ast::Expr) -> Bind<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(text, _) = &value.value else { return Err(Refusal::Other) };
    let at = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    at.map(Some).ok_or(Refusal::Other)
}

fn order_by(
    binder: &mut Binder,
    query: &ast::Query,
    items: &[ast::SelectItem],
    output: &[Expr],
    columns: &[Output],
    distinct: bool,
    scope: &mut Scope<'_>,
) -> Bind<Vec<Order>> {
    let Some(order) = &query.order_by else { return Ok(Vec::new()) };
    let ast::OrderByKind::Expressions(list) = &order.kind else { return Err(Refusal::Other) };
    let mut orders = Vec::with_capacity(list.len());
    for one in list {
        if one.with_fill.is_some() {
            return Err(Refusal::Other);
        }
        let (by, ty) = match output_column(&one.expr, items, columns)? {
            Some(at) => (output[at].clone(), columns[at].ty),
            None if distinct => {
                return Err(Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                )
                .into());
            }
            None => {
                let bound = binder.expr(&one.expr, scope)?;
                let bound = binder.settle(bound, Type::Text)?;
                (bound.expr, bound.ty.unwrap_or(Type::Text))
            }
        };
        if !ty.is_ordered() {
            return Err(Refusal::Other);
        }
        let descending = one.options.asc == Some(false);
        orders.push(Order { by, descending, nulls_first: one.options.nulls_first.unwrap_or(descending) });
    }
    Ok(orders)
}

/// The column of the result that ORDER BY means: by its number, its name, or what it is.
fn output_column(expr: &ast::Expr, items: &[ast::SelectItem], columns: &[Output]) -> Bind<Option<usize>> {
    if let Some(at) = position(expr)? {
        if at < columns.len() {
            return Ok(Some(at));
        }
        let text = format!("ORDER BY position {} is not in select list", at + 1);
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).into());
    }
    if let ast::Expr::Identifier(name) = expr {
        let name = folded(name);
        let mut named = columns.iter().enumerate().filter(|(_, column)| column.name == name);
        match (named.next(), named.next()) {
            (Some((at, _)), None) => return Ok(Some(at)),
            (Some(_), Some(_)) => return Err(Refusal::Other),
            (None, _) => {}
        }
    }
    // Items and columns match one to one unless there is a star.
    let same = items.iter().position(|item| match item {
        ast::SelectItem::UnnamedExpr(one) | ast::SelectItem::ExprWithAlias { expr: one, .. } => one == expr,
        _ => false,
    });
    Ok(same.filter(|_| items.len() == columns.len()))
}

fn limits(binder: &mut Binder, query: &ast::Query, scope: &mut Scope<'_>) -> Bind<(Option<Expr>, Option<Expr>)> {
    let (mut limit, mut offset) = (None, None);
    match &query.limit_clause {
        None => {}
        Some(ast::LimitClause::LimitOffset { limit: some, offset: skip, limit_by }) if limit_by.is_empty() => {
            limit = some.as_ref();
            offset = skip.as_ref().map(|skip| &skip.value);
        }
        Some(_) => return Err(Refusal::Other),
    }
    if let Some(fetch) = &query.fetch {
        match &fetch.quantity {
            Some(quantity) if !fetch.with_ties && !fetch.percent && limit.is_none() => limit = Some(quantity),
            _ => return Err(Refusal::Other),
        }
    }
    let limit = limit.map(|limit| scope::count(binder, limit, scope)).transpose()?;
    let offset = offset.map(|offset| scope::count(binder, offset, scope)).transpose()?;
    Ok((limit, offset))
}

fn locking(binder: &Binder, query: &ast::Query, from: &From) -> Bind<Option<(Vec<usize>, Lock)>> {
    let [clause] = query.locks.as_slice() else {
        return if query.locks.is_empty() { Ok(None) } else { Err(Refusal::Other) };
    };
    let mode = match clause.lock_type {
        ast::LockType::Share => LockMode::Share,
        ast::LockType::Update => LockMode::Update,
    };
    let policy = match clause.nonblock {
        None => WaitPolicy::Wait,
        Some(ast::NonBlock::Nowait) => WaitPolicy::NoWait,
        Some(ast::NonBlock::SkipLocked) => WaitPolicy::Skip,
    };
    let slots: Vec<usize> = match &clause.of {
        None => (0..binder.sources.len()).collect(),
        Some(name) => {
            let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Other) };
            let name = folded(name);
            vec![binder.sources.iter().position(|source| source.name == name).ok_or(Refusal::Other)?]
        }
    };
    if slots.iter().any(|slot| from.optional[*slot].is_some()) {
        let text = "FOR UPDATE cannot be applied to the nullable side of an outer join";
        return Err(Error::unsupported(text).into());
    }
    Ok(Some((slots, Lock { mode, policy })))
}

/// Where rows of a result go.
pub(crate) type Emit<'f, 'a> = &'f mut dyn FnMut(&[Datum<'a>]) -> Result<Flow>;

/// What lies between joined rows, or groups, and the result: DISTINCT, ORDER BY, LIMIT.
struct Tail<'a> {
    select: &'a Select,
    skip: i64,
    left: i64,
    seen: FxHashSet<Vec<u8>>,
    kept: Vec<Kept<'a>>,
    /// So many sorted rows are enough.
    most: usize,
    /// Are the first `most` of those kept sorted, and better than all that went?
    cut: bool,
    row: bumpalo::collections::Vec<'a, Datum<'a>>,
    emitted: u64,
}

/// A row that waits to be sorted: its result, or the rows it is made of if they are locked only then.
struct Kept<'a> {
    keys: Vec<Datum<'a>>,
    made: Vec<Datum<'a>>,
    held: Option<Held<'a>>,
}

/// How a run ended: with so many rows, or not yet.
pub(crate) type Ended = std::result::Result<u64, Event>;

/// Do subqueries look at every row of a table?
pub(crate) fn read_whole_tables(before: &[Before]) -> bool {
    before.iter().any(|one| one.kind != Wanted::Existence && one.select.reads_whole_tables())
}

impl Select {
    pub(crate) fn locks(&self) -> bool {
        self.lock.is_some()
    }

    pub(crate) fn reads_whole_tables(&self) -> bool {
        let is_first = self.groups.as_ref().is_some_and(|groups| groups.first_is_enough);
        let stops = is_first || self.limit.is_some() && self.ordered && self.groups.is_none();
        let rest = self.steps.get(usize::from(stops)..).unwrap_or_default();
        rest.iter().any(|step| step.access.is_whole()) || read_whole_tables(&self.before)
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
        let mut tail = Tail::new(self, &run)?;
        if tail.left == 0 {
            return Ok(Ok(0));
        }
        let flow = match &self.groups {
            None => self.join(&mut run, &mut |run| tail.joined(run, emit))?,
            Some(groups) => self.grouped(groups, &mut run, &mut tail, emit)?,
        };
        let flow = if flow.is_continue() { tail.end(&mut run, emit)? } else { flow };
        Ok(match flow {
            ControlFlow::Break(Stop::Wait(event)) => Err(event),
            ControlFlow::Continue(()) | ControlFlow::Break(Stop::Done) => Ok(tail.emitted),
        })
    }

    /// Without tables there is one row, and no step that has the conditions.
    fn join<'a, 't>(&'a self, run: &mut Run<'a, 't>, each: Each<'_, 'a, 't>) -> Result<Flow> {
        if self.steps.is_empty() {
            for condition in &self.conditions {
                if !condition.holds(&run.frame)? {
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
        exec::join(&self.steps, run, each)
    }

    fn grouped<'a>(
        &'a self,
        grouping: &'a Grouping,
        run: &mut Run<'a, '_>,
        tail: &mut Tail<'a>,
        emit: Emit<'_, 'a>,
    ) -> Result<Flow> {
        let mut groups = Groups::new(&grouping.by, &grouping.types, &grouping.aggregates);
        // Nothing is locked on the way, so that only this stops it.
        let _: Flow = self.join(run, &mut |run| {
            groups.row(&run.frame)?;
            let enough = grouping.first_is_enough && groups.has_values();
            Ok(if enough { ControlFlow::Break(Stop::Done) } else { ControlFlow::Continue(()) })
        })?;
        for group in groups.results() {
            run.frame.made = group?;
            if let Some(having) = &grouping.having
                && !having.holds(&run.frame)?
            {
                continue;
            }
            let flow = tail.row(run, emit)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Runs the subqueries of a statement.
pub(crate) fn answers<'a>(
    before: &'a [Before],
    txn: &mut Txn,
    given: Given<'a>,
) -> Result<std::result::Result<Vec<Answer<'a>>, Event>> {
    let mut answers = Vec::with_capacity(before.len());
    for one in before {
        match answer(one, txn, given)? {
            Ok(answer) => answers.push(answer),
            Err(event) => return Ok(Err(event)),
        }
    }
    Ok(Ok(answers))
}

fn answer<'a>(before: &'a Before, txn: &mut Txn, given: Given<'a>) -> Result<std::result::Result<Answer<'a>, Event>> {
    let mut answer = Answer::default();
    let mut rows = 0;
    let ended = before.select.run(txn, given, &mut |row| {
        rows += 1;
        match before.kind {
            Wanted::Existence => return Ok(ControlFlow::Break(Stop::Done)),
            Wanted::Value if rows > 1 => {
                let text = "more than one row returned by a subquery used as an expression";
                return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text));
            }
            Wanted::Value => answer.values.extend(row.first().cloned()),
            Wanted::Set => match row.first() {
                None | Some(Datum::Null) => answer.has_null = true,
                Some(value) => answer.values.push(value.clone()),
            },
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let Err(event) = ended {
        return Ok(Err(event));
    }
    match before.kind {
        Wanted::Existence => answer.values.push(Datum::Bool(rows > 0)),
        Wanted::Value => {}
        Wanted::Set => {
            answer.values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
            answer.values.dedup_by(|a, b| a.compare(b) == Some(Ordering::Equal));
        }
    }
    Ok(Ok(answer))
}

impl<'a> Tail<'a> {
    fn new(select: &'a Select, run: &Run<'a, '_>) -> Result<Tail<'a>> {
        let number = |expr: &'a Option<Expr>, state, what: &str| {
            let Some(expr) = expr else { return Ok(None) };
            match expr.eval(&run.frame)? {
                Datum::Int8(..0) => Err(Error::new(state, format!("{what} must not be negative"))),
                Datum::Int8(value) => Ok(Some(value)),
                _ => Ok(None),
            }
        };
        let left = number(&select.limit, SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")?.unwrap_or(i64::MAX);
        let skip = number(&select.offset, SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")?.unwrap_or(0);
        // Of rows that are locked after sorting, some may turn out not to be there.
        let most = if select.lock.is_some() {
            usize::MAX
        } else {
            usize::try_from(skip.saturating_add(left)).unwrap_or(usize::MAX)
        };
        Ok(Tail {
            select,
            left,
            skip,
            seen: FxHashSet::default(),
            kept: Vec::new(),
            most,
            cut: false,
            row: bumpalo::collections::Vec::with_capacity_in(select.output.len(), run.frame.arena),
            emitted: 0,
        })
    }

    /// Takes a joined row, which is locked first, unless the order of rows decides which ones are.
    fn joined(&mut self, run: &mut Run<'a, '_>, emit: Emit<'_, 'a>) -> Result<Flow> {
        match &self.select.lock {
            Some(_) if !self.select.ordered => {
                let keys = self.keys(run)?;
                self.kept.push(Kept { keys, made: Vec::new(), held: Some(run.held()) });
                Ok(ControlFlow::Continue(()))
            }
            Some((slots, lock)) => match exec::lock(slots, *lock, &self.select.conditions, run)? {
                Ok(true) => self.row(run, emit),
                Ok(false) => Ok(ControlFlow::Continue(())),
                Err(event) => Ok(ControlFlow::Break(Stop::Wait(event))),
            },
            None => self.row(run, emit),
        }
    }

    fn keys(&self, run: &Run<'a, '_>) -> Result<Vec<Datum<'a>>> {
        self.select.order.iter().map(|one| one.by.eval(&run.frame)).collect()
    }

    /// Takes the row that the frame makes.
    fn row(&mut self, run: &mut Run<'a, '_>, emit: Emit<'_, 'a>) -> Result<Flow> {
        // PostgreSQL too makes rows that are skipped, and finds their errors.
        self.make(run)?;
        if self.select.distinct && !self.is_new()? {
            return Ok(ControlFlow::Continue(()));
        }
        if self.select.ordered {
            return self.emit(emit);
        }
        let keys = self.keys(run)?;
        self.keep(keys);
        Ok(ControlFlow::Continue(()))
    }

    /// Keeps the row that was made, if it can be among the first `most`. Of equal rows the earlier one stays.
    fn keep(&mut self, keys: Vec<Datum<'a>>) {
        let order = &self.select.order;
        if self.cut && in_order(order, &keys, &self.kept[self.most - 1].keys).is_ge() {
            return;
        }
        self.kept.push(Kept { keys, made: self.row.to_vec(), held: None });
        if self.kept.len() >= self.most.saturating_mul(2) {
            self.kept.sort_by(|a, b| in_order(order, &a.keys, &b.keys));
            self.kept.truncate(self.most);
            self.cut = true;
        }
    }

    fn make(&mut self, run: &Run<'a, '_>) -> Result<()> {
        self.row.clear();
        for expr in &self.select.output {
            self.row.push(expr.eval(&run.frame)?);
        }
        Ok(())
    }

    fn is_new(&mut self) -> Result<bool> {
        let mut bytes = Vec::new();
        for (value, column) in self.row.iter().zip(&self.select.columns) {
            key::push(&mut bytes, &nullable(column.ty), value)?;
        }
        Ok(self.seen.insert(bytes))
    }

    fn emit(&mut self, emit: Emit<'_, 'a>) -> Result<Flow> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.left -= 1;
        self.emitted += 1;
        let flow = emit(&self.row)?;
        Ok(if flow.is_continue() && self.left == 0 { ControlFlow::Break(Stop::Done) } else { flow })
    }

    /// Sorts what was kept, and hands it on.
    fn end(&mut self, run: &mut Run<'a, '_>, emit: Emit<'_, 'a>) -> Result<Flow> {
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_by(|a, b| in_order(&self.select.order, &a.keys, &b.keys));
        for one in kept {
            let flow = match (&self.select.lock, one.held) {
                (Some((slots, lock)), Some(held)) => {
                    run.put_back(held);
                    match exec::lock(slots, *lock, &self.select.conditions, run)? {
                        Ok(true) => {
                            self.make(run)?;
                            self.emit(emit)?
                        }
                        Ok(false) => ControlFlow::Continue(()),
                        Err(event) => ControlFlow::Break(Stop::Wait(event)),
                    }
                }
                _ => {
                    self.row.clear();
                    self.row.extend(one.made);
                    self.emit(emit)?
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn in_order(order: &[Order], left: &[Datum<'_>], right: &[Datum<'_>]) -> Ordering {
    for ((one, left), right) in order.iter().zip(left).zip(right) {
        let found = match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if one.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if one.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {
                let found = left.compare(right).unwrap_or(Ordering::Equal);
                if one.descending { found.reverse() } else { found }
            }
        };
        if found.is_ne() {
            return found;
        }
    }
    Ordering::Equal
}
