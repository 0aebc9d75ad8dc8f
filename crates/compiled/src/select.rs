//! SELECT: binding and execution.

use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Datum, Error, Result, SqlState, TableId, Type};
use rows::{LockMode, RowTable, WaitPolicy};
use sqlparser::ast;

use crate::aggregate::{Aggregate, Groups, Kind};
use crate::bind::{Bind, Binder, DEPTH_MAX, Refusal, Source, Typed, fold_ident};
use crate::derived_tables;
use crate::exec::{self, Each, ExecContext, Flow, Lock, Run};
use crate::expr::Expr;
use crate::from::{From, WHERE, bind_from, joined};
use crate::plan::{self, Access, Order, Outer, Step};
use crate::scope::{self, Scope, Tables};
use crate::sort_limit::{Emit, SortLimit};

/// Qualifier that marks `FOR KEY SHARE` and `FOR NO KEY UPDATE`, which the parser does not know: they are written
/// as `FOR SHARE OF` and `FOR UPDATE OF` with this word before the table's name. An empty table name stands for all
/// tables.
pub const WEAKER_LOCK: &str = "weaker lock";

/// An output column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Column name by PostgreSQL's rules.
    pub name: String,
    /// Data type.
    pub ty: Type,
    /// The table and column it is read from unchanged, if any.
    pub origin: Option<(TableId, usize)>,
    /// OID and type modifier that clients see, if they are not those of `ty`. A value of a type that is no column type
    /// is its text.
    pub announced: Option<(u32, i32)>,
}

/// A bound SELECT.
pub(crate) struct Select {
    /// Tables by slot.
    pub(crate) tables: Vec<Arc<RowTable>>,
    pub(crate) steps: Vec<Step>,
    /// Conditions of WHERE and inner joins, evaluated again for rows that changed before they were locked.
    pub(crate) conditions: Vec<Expr>,
    groups: Option<Grouping>,
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Output>,
    /// Columns that are untyped literals, typed text by default.
    pub(crate) untyped: Vec<usize>,
    pub(crate) distinct: bool,
    /// DISTINCT ON: number of leading sort keys by which rows count as equal; 0 without it.
    pub(crate) distinct_on: usize,
    pub(crate) order: Vec<Order>,
    /// Whether rows come in that order, so no sort is needed.
    pub(crate) ordered: bool,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Row locks: slot and lock.
    pub(crate) locks: Vec<(usize, Lock)>,
    /// Whether output is computed after sorting: for rows locked then, and for volatile functions, which must run
    /// in output order.
    pub(crate) made_last: bool,
}

/// GROUP BY, or aggregates without it.
#[derive(Default)]
pub(crate) struct Grouping {
    pub(crate) by: Vec<Expr>,
    pub(crate) types: Vec<Type>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Columns functionally dependent on a grouped primary key.
    pub(crate) dependent: Vec<Expr>,
    pub(crate) having: Option<Expr>,
    /// Whether the first non-NULL value is the result: `min` or `max` of a column in index order.
    pub(crate) first_is_enough: bool,
}

/// Binds a query. An unknown name in a query without FROM is left to DataFusion, which may know it as a function.
pub(crate) fn bind(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<Select> {
    let (known, depth) = (binder.common.len(), binder.depth);
    if depth >= DEPTH_MAX {
        return Err(Refusal::Unsupported);
    }
    binder.depth += 1;
    let bound = match &query.with {
        Some(with) => scope::with(binder, with, tables),
        None => Ok(()),
    };
    let bound = bound.and_then(|()| body(binder, query, tables));
    binder.common.truncate(known);
    binder.depth = depth;
    bound
}

fn body(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<Select> {
    check_usual(query)?;
    let select = match &*query.body {
        ast::SetExpr::Select(select) => select,
        ast::SetExpr::Query(inner) if is_plain_query(query) => return bind(binder, inner, tables),
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) => {
            let error = Error::unsupported("INSERT, UPDATE and DELETE in WITH are not supported on rows tables");
            return Err(error.with_hint("run them one after the other, in a transaction").into());
        }
        _ => return over_rows(binder, query, tables),
    };
    check_usual_select(select)?;
    bind_select(binder, query, select, tables).map_err(|refusal| match refusal {
        Refusal::Error(error) if select.from.is_empty() && error.state() == SqlState::UNDEFINED_COLUMN => {
            Refusal::Unsupported
        }
        other => other,
    })
}

/// Whether the query has no clauses besides its body and WITH.
pub(crate) fn is_plain_query(query: &ast::Query) -> bool {
    query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none() && query.locks.is_empty()
}

/// UNION, INTERSECT, EXCEPT or VALUES: a SELECT over a derived table.
fn over_rows(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<Select> {
    if !query.locks.is_empty() {
        let what = if matches!(&*query.body, ast::SetExpr::Values(_)) { "VALUES" } else { "UNION/INTERSECT/EXCEPT" };
        return Err(Error::unsupported(format!("FOR UPDATE is not allowed with {what}")).into());
    }
    let (made, given) = binder.inside(false, |binder| derived_tables::bind(binder, &query.body, tables))?;
    let columns = made.1.clone();
    let source = derived_tables::source(binder, made, given, None)?;
    let output: Vec<Expr> = (0..columns.len()).map(|at| source.field(at).expr).collect();
    binder.sources.push(source);
    let mut scope = Scope::new(tables);
    let order = order_by(binder, query, &[], &output, &columns, false, &mut scope)?;
    let (limit, offset) = limits(binder, query, &mut scope)?;
    let from = From { joins: vec![Outer::None], ..From::default() };
    let draft = Draft { from, output, columns, order, limit, offset, ..Draft::default() };
    Ok(draft.planned(&binder.sources, &mut binder.hashed))
}

fn bind_select(binder: &mut Binder, query: &ast::Query, select: &ast::Select, tables: &dyn Tables) -> Bind<Select> {
    let mut scope = Scope::new(tables);
    let mut from = bind_from(binder, &select.from, &mut scope)?;
    if let Some(condition) = &select.selection {
        from.cut(WHERE, binder.condition(condition, "WHERE", &mut scope)?);
    }
    scope.clause = "GROUP BY";
    let mut by = group_by(binder, select, &mut scope)?;
    scope.clause = "LIMIT";
    scope.grouped = by.len();
    scope.aggregates = Some(Vec::new());
    let (mut output, columns, untyped) = projection(binder, &select.projection, Some(&from.star), &mut scope)?;
    let mut having = match &select.having {
        Some(having) => Some(binder.condition(having, "HAVING", &mut scope)?),
        None => None,
    };
    let (distinct, on) = match &select.distinct {
        None | Some(ast::Distinct::All) => (false, None),
        Some(ast::Distinct::Distinct) => (true, None),
        Some(ast::Distinct::On(on)) => (false, Some(on)),
    };
    if distinct && columns.iter().any(|column| !column.ty.is_ordered()) {
        return Err(Refusal::Unsupported);
    }
    let mut order = order_by(binder, query, &select.projection, &output, &columns, distinct, &mut scope)?;
    let distinct_on = match on {
        Some(on) => put_first(binder, on, (&select.projection, &output, &columns), &mut order, &mut scope)?,
        None => 0,
    };
    let aggregates = scope.aggregates.take().unwrap_or_default();
    let grouped = !by.is_empty() || !aggregates.is_empty() || having.is_some();
    let mut dependent = Vec::new();
    if grouped {
        let all = output.iter_mut().chain(&mut having).chain(order.iter_mut().map(|one| &mut one.by));
        let mut regroup = Regroup { by: &by, first: by.len() + aggregates.len(), dependent: Vec::new() };
        all.into_iter().try_for_each(|expr| regroup.expr(expr, &binder.sources))?;
        dependent = regroup.dependent;
    }
    let (limit, offset) = limits(binder, query, &mut scope)?;
    let locks = locking(binder, query, &from)?;
    if !locks.is_empty() && (grouped || distinct || distinct_on > 0) {
        let what = match (distinct || distinct_on > 0, by.is_empty(), &having) {
            (true, ..) => "DISTINCT clause",
            (_, false, _) => "GROUP BY clause",
            (.., Some(_)) => "HAVING clause",
            _ => "aggregate functions",
        };
        return Err(Error::unsupported(format!("FOR UPDATE is not allowed with {what}")).into());
    }
    let types = by.iter().map(|(_, ty)| *ty).collect();
    let by: Vec<Expr> = by.drain(..).map(|(expr, _)| expr).collect();
    let groups = grouped.then_some(Grouping { by, types, aggregates, dependent, having, first_is_enough: false });
    let draft = Draft { from, groups, output, columns, untyped, distinct, distinct_on, order, limit, offset, locks };
    Ok(draft.planned(&binder.sources, &mut binder.hashed))
}

/// A SELECT without access paths.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) from: From,
    pub(crate) groups: Option<Grouping>,
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Output>,
    pub(crate) untyped: Vec<usize>,
    pub(crate) distinct: bool,
    pub(crate) distinct_on: usize,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) locks: Vec<(usize, Lock)>,
}

impl Draft {
    /// Chooses the access paths. `hashed`: number of hash tables in the statement so far.
    pub(crate) fn planned(self, sources: &[Source], hashed: &mut usize) -> Select {
        let Draft { from, mut groups, output, columns, untyped, distinct, distinct_on, order, limit, offset, locks } =
            self;
        let joined = joined(sources, &from);
        let extreme = groups.as_ref().filter(|groups| groups.by.is_empty());
        let extreme = extreme.and_then(|groups| extreme_of(&groups.aggregates));
        let asked = if groups.is_some() { extreme.as_slice() } else { order.as_slice() };
        let (steps, in_order) = plan::steps(&joined, from.conditions.clone(), asked, hashed);
        if let Some(groups) = &mut groups {
            groups.first_is_enough = in_order && extreme.is_some();
        }
        let is_grouped = groups.is_some();
        let ordered = order.is_empty() || in_order && !is_grouped;
        let counted = !is_grouped && !distinct && distinct_on == 0 && output.iter().any(Expr::is_volatile);
        let made_last = !locks.is_empty() || counted && !order.iter().any(|one| one.by.is_volatile());
        Select {
            tables: sources.iter().map(|source| Arc::clone(&source.table)).collect(),
            steps,
            conditions: from.conditions.into_iter().map(|(_, condition)| condition).collect(),
            groups,
            output,
            columns,
            untyped,
            distinct,
            distinct_on,
            ordered,
            order,
            limit,
            offset,
            locks,
            made_last,
        }
    }
}

/// The order in which the first non-NULL value is the result of the only aggregate.
fn extreme_of(aggregates: &[Aggregate]) -> Option<Order> {
    let [Aggregate { kind, of: Some(by @ Expr::Field { .. }), filter: None, .. }] = aggregates else { return None };
    let descending = match kind {
        Kind::Min => false,
        Kind::Max => true,
        _ => return None,
    };
    Some(Order { by: by.clone(), output: None, descending, nulls_first: descending })
}

/// Refuses syntax of other SQL dialects.
fn check_usual(query: &ast::Query) -> Bind<()> {
    let usual = query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    if usual { Ok(()) } else { Err(Refusal::Unsupported) }
}

/// Refuses syntax of other SQL dialects, and clauses left to DataFusion.
fn check_usual_select(select: &ast::Select) -> Bind<()> {
    let usual = select.top.is_none()
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
    if usual { Ok(()) } else { Err(Refusal::Unsupported) }
}

/// Binds GROUP BY. Positions and output names are resolved.
fn group_by(binder: &mut Binder, select: &ast::Select, scope: &mut Scope<'_>) -> Bind<Vec<(Expr, Type)>> {
    let ast::GroupByExpr::Expressions(list, with) = &select.group_by else { return Err(Refusal::Unsupported) };
    if !with.is_empty() {
        return Err(Refusal::Unsupported);
    }
    let mut by = Vec::with_capacity(list.len());
    for one in list {
        let one = match position(one)? {
            Some(at) => match select.projection.get(at) {
                Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => expr,
                _ => return Err(Refusal::Unsupported),
            },
            None => one,
        };
        let bound = match binder.expr(one, scope) {
            // No input column has the name: try output column names.
            Err(Refusal::Error(error)) if error.state() == SqlState::UNDEFINED_COLUMN => {
                let Some(meant) = called(one, &select.projection) else { return Err(error.into()) };
                binder.expr(meant, scope)?
            }
            bound => bound?,
        };
        match (bound.expr, bound.ty) {
            (expr, Some(ty)) if ty.is_ordered() && !expr.is_volatile() => by.push((expr, ty)),
            _ => return Err(Refusal::Unsupported),
        }
    }
    Ok(by)
}

/// The output expression with this alias.
fn called<'s>(name: &ast::Expr, items: &'s [ast::SelectItem]) -> Option<&'s ast::Expr> {
    let ast::Expr::Identifier(name) = name else { return None };
    items.iter().find_map(|item| match item {
        ast::SelectItem::ExprWithAlias { expr, alias } if fold_ident(alias) == fold_ident(name) => Some(expr),
        _ => None,
    })
}

/// Replaces grouped expressions by references to group values.
struct Regroup<'s> {
    by: &'s [(Expr, Type)],
    /// Position of the first dependent column among a group's values.
    first: usize,
    dependent: Vec<Expr>,
}

impl Regroup<'_> {
    /// An ungrouped column is left to DataFusion, which reports the error.
    fn expr(&mut self, expr: &mut Expr, sources: &[Source]) -> Bind<()> {
        let mut ungrouped = false;
        expr.change(&mut |part| {
            if let Some(at) = self.by.iter().position(|(one, _)| one == part) {
                *part = Expr::Computed(at);
            } else if let Expr::Field { slot, .. } = part {
                match self.depends(*slot, sources) {
                    true => *part = Expr::Computed(self.first + self.place(part)),
                    false => ungrouped = true,
                }
            }
        });
        if ungrouped { Err(Refusal::Unsupported) } else { Ok(()) }
    }

    /// Whether the grouping columns contain the table's primary key.
    fn depends(&self, slot: usize, sources: &[Source]) -> bool {
        let Some(key) = sources.get(slot).and_then(|source| source.table.primary.as_ref()) else { return false };
        key.def().columns.iter().all(|wanted| {
            let is_it =
                |one: &Expr| matches!(one, Expr::Field { slot: of, column, .. } if (*of, column) == (slot, wanted));
            self.by.iter().any(|(one, _)| is_it(one))
        })
    }

    fn place(&mut self, column: &Expr) -> usize {
        let known = self.dependent.iter().position(|one| one == column);
        known.unwrap_or_else(|| {
            self.dependent.push(column.clone());
            self.dependent.len() - 1
        })
    }
}

/// Binds ORDER BY inside an aggregate.
pub(crate) fn ordering(binder: &mut Binder, list: &[ast::OrderByExpr], scope: &mut Scope<'_>) -> Bind<Vec<Order>> {
    let mut orders = Vec::with_capacity(list.len());
    for one in list {
        let bound = binder.expr(&one.expr, scope)?;
        let bound = binder.resolve_unknown(bound, Type::Text)?;
        if one.with_fill.is_some() || !bound.ty.is_some_and(Type::is_ordered) {
            return Err(Refusal::Unsupported);
        }
        orders.push(ordered(one, bound.expr, None));
    }
    Ok(orders)
}

fn ordered(one: &ast::OrderByExpr, by: Expr, output: Option<usize>) -> Order {
    let descending = one.options.asc == Some(false);
    Order { by, output, descending, nulls_first: one.options.nulls_first.unwrap_or(descending) }
}

/// Binds a select list or RETURNING: expressions, output columns, and positions of untyped literals.
pub(crate) fn projection(
    binder: &mut Binder,
    items: &[ast::SelectItem],
    star: Option<&[(usize, usize)]>,
    scope: &mut Scope<'_>,
) -> Bind<(Vec<Expr>, Vec<Output>, Vec<usize>)> {
    let (mut exprs, mut columns, mut untyped) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        let mut push = |typed: Typed, name: String| {
            exprs.push(typed.expr);
            columns.push(Output { name, ty: typed.ty.unwrap_or(Type::Text), origin: None, announced: None });
        };
        let (expr, name) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, output_name(expr)),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, fold_ident(alias)),
            ast::SelectItem::Wildcard(options) if is_plain(options) && !binder.sources.is_empty() => {
                let every = binder.sources.iter().flat_map(|one| one.schema().shown().map(|(at, _)| (one.slot, at)));
                let all = star.map_or_else(|| every.collect(), <[_]>::to_vec);
                for (slot, at) in all {
                    let Some(source) = binder.sources.get(slot) else { return Err(Refusal::Unsupported) };
                    push(source.field(at), source.schema().columns[at].name.clone());
                }
                continue;
            }
            ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_plain(options) =>
            {
                let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                    return Err(Refusal::Unsupported);
                };
                let name = fold_ident(name);
                let source = binder.sources.iter().find(|source| source.name == name).ok_or(Refusal::Unsupported)?;
                source.schema().shown().for_each(|(at, column)| push(source.field(at), column.name.clone()));
                continue;
            }
            _ => return Err(Refusal::Unsupported),
        };
        let bound = binder.expr(expr, scope)?;
        if bound.ty.is_none() && matches!(bound.expr, Expr::Value(_)) {
            untyped.push(exprs.len());
        }
        let settled = binder.resolve_unknown(bound, Type::Text)?;
        exprs.push(settled.expr);
        columns.push(Output { name, ty: settled.ty.unwrap_or(Type::Text), origin: None, announced: None });
    }
    columns.iter_mut().zip(&exprs).for_each(|(column, expr)| column.origin = origin(binder, expr));
    Ok((exprs, columns, untyped))
}

/// The table column that an expression reads directly.
fn origin(binder: &Binder, expr: &Expr) -> Option<(TableId, usize)> {
    let Expr::Field { slot, column, .. } = expr else { return None };
    let source = binder.sources.get(*slot).filter(|source| source.derived.is_none())?;
    Some((source.table.id(), *column))
}

fn is_plain(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}

/// Default column name by PostgreSQL's rules.
fn output_name(expr: &ast::Expr) -> String {
    name_of(expr).unwrap_or_else(|| "?column?".into())
}

fn name_of(expr: &ast::Expr) -> Option<String> {
    use ast::Expr as E;
    Some(match expr {
        E::Identifier(name) => fold_ident(name),
        E::CompoundIdentifier(parts) => fold_ident(parts.last()?),
        E::Nested(inner) => return name_of(inner),
        E::Function(call) => match call.name.0.last()? {
            ast::ObjectNamePart::Identifier(name) => fold_ident(name),
            ast::ObjectNamePart::Function(_) => return None,
        },
        E::Cast { expr, data_type, .. } => match name_of(expr) {
            Some(name) => name,
            None => type_name(data_type)?,
        },
        E::TypedString(string) => type_name(&string.data_type)?,
        E::Case { else_result, .. } => else_result.as_deref().and_then(name_of).unwrap_or_else(|| "case".into()),
        E::Extract { .. } => "extract".into(),
        E::Position { .. } => "position".into(),
        E::Ceil { .. } => "ceil".into(),
        E::Floor { .. } => "floor".into(),
        E::Substring { .. } => "substring".into(),
        E::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim".into(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".into(),
            _ => "btrim".into(),
        },
        E::Exists { negated: false, .. } => "exists".into(),
        E::Subquery(query) => {
            let ast::SetExpr::Select(select) = &*query.body else { return None };
            match select.projection.first()? {
                ast::SelectItem::UnnamedExpr(expr) => return name_of(expr),
                ast::SelectItem::ExprWithAlias { alias, .. } => fold_ident(alias),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The type's name in `pg_type`.
fn type_name(ty: &ast::DataType) -> Option<String> {
    if *ty == ast::DataType::JSONB {
        return Some("jsonb".into());
    }
    let name = match crate::types::data_type(ty).ok()? {
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

/// A position in ORDER BY or GROUP BY, converted to count from 0.
fn position(expr: &ast::Expr) -> Bind<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(text, _) = &value.value else { return Err(Refusal::Unsupported) };
    let at = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    at.map(Some).ok_or(Refusal::Unsupported)
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
    let ast::OrderByKind::Expressions(list) = &order.kind else { return Err(Refusal::Unsupported) };
    let mut orders = Vec::with_capacity(list.len());
    for one in list {
        if one.with_fill.is_some() {
            return Err(Refusal::Unsupported);
        }
        let (by, column) = sorted_by(binder, &one.expr, (items, output, columns), scope)?;
        if distinct && column.is_none() {
            let text = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).into());
        }
        orders.push(ordered(one, by, column));
    }
    Ok(orders)
}

/// A select list: parsed, bound, and its output columns.
type Listed<'l> = (&'l [ast::SelectItem], &'l [Expr], &'l [Output]);

/// Binds a sort key of ORDER BY or DISTINCT ON: an output column, with its position, or an expression.
fn sorted_by(
    binder: &mut Binder,
    expr: &ast::Expr,
    (items, output, columns): Listed<'_>,
    scope: &mut Scope<'_>,
) -> Bind<(Expr, Option<usize>)> {
    let column = output_column(expr, items, columns)?;
    let (by, ty) = match column {
        Some(at) => (output[at].clone(), columns[at].ty),
        None => {
            let bound = binder.expr(expr, scope)?;
            let bound = binder.resolve_unknown(bound, Type::Text)?;
            (bound.expr, bound.ty.unwrap_or(Type::Text))
        }
    };
    if ty.is_ordered() { Ok((by, column)) } else { Err(Refusal::Unsupported) }
}

/// Makes the expressions of DISTINCT ON the leading sort keys; returns their number. Error 42P10 if ORDER BY starts
/// with others.
fn put_first(
    binder: &mut Binder,
    on: &[ast::Expr],
    listed: Listed<'_>,
    order: &mut Vec<Order>,
    scope: &mut Scope<'_>,
) -> Bind<usize> {
    let mut named: Vec<(Expr, Option<usize>)> = Vec::with_capacity(on.len());
    for one in on {
        let one = sorted_by(binder, one, listed, scope)?;
        if !named.iter().any(|(other, _)| *other == one.0) {
            named.push(one);
        }
    }
    let is_named = |one: &Order| named.iter().any(|(by, _)| *by == one.by);
    let first = order.iter().take_while(|one| is_named(one)).count();
    let missing = named.iter().filter(|(by, _)| !order[..first].iter().any(|one| one.by == *by));
    let missing: Vec<_> = missing.cloned().collect();
    if !missing.is_empty() && first < order.len() {
        let text = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).into());
    }
    let ascending = |(by, output)| Order { by, output, descending: false, nulls_first: false };
    order.extend(missing.into_iter().map(ascending));
    Ok(order.iter().take_while(|one| named.iter().any(|(by, _)| *by == one.by)).count())
}

/// The output column that a sort key names: by position, name or equal expression.
fn output_column(expr: &ast::Expr, items: &[ast::SelectItem], columns: &[Output]) -> Bind<Option<usize>> {
    if let Some(at) = position(expr)? {
        if at < columns.len() {
            return Ok(Some(at));
        }
        let text = format!("ORDER BY position {} is not in select list", at + 1);
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).into());
    }
    if let ast::Expr::Identifier(name) = expr {
        let name = fold_ident(name);
        let mut named = columns.iter().enumerate().filter(|(_, column)| column.name == name);
        match (named.next(), named.next()) {
            (Some((at, _)), None) => return Ok(Some(at)),
            (Some(_), Some(_)) => return Err(Refusal::Unsupported),
            (None, _) => {}
        }
    }
    // Items correspond to columns only if there is no star.
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
        Some(_) => return Err(Refusal::Unsupported),
    }
    if let Some(fetch) = &query.fetch {
        match &fetch.quantity {
            Some(quantity) if !fetch.with_ties && !fetch.percent && limit.is_none() => limit = Some(quantity),
            _ => return Err(Refusal::Unsupported),
        }
    }
    let limit = limit.map(|limit| scope::count(binder, limit, scope)).transpose()?;
    let offset = offset.map(|offset| scope::count(binder, offset, scope)).transpose()?;
    Ok((limit, offset))
}

/// Row locks by slot; several clauses for one table are combined.
fn locking(binder: &Binder, query: &ast::Query, from: &From) -> Bind<Vec<(usize, Lock)>> {
    let mut locks: Vec<(usize, Lock)> = Vec::new();
    for clause in &query.locks {
        let (lock, slots) = lock_clause(binder, clause)?;
        if slots.iter().any(|slot| from.is_optional(*slot)) {
            let text = "FOR UPDATE cannot be applied to the nullable side of an outer join";
            return Err(Error::unsupported(text).into());
        }
        for slot in slots {
            match locks.iter_mut().find(|(other, _)| *other == slot) {
                // The strongest mode and the least waiting of several clauses apply.
                Some((_, other)) => {
                    other.mode = other.mode.max(lock.mode);
                    other.policy = match (other.policy, lock.policy) {
                        (WaitPolicy::NoWait, _) | (_, WaitPolicy::NoWait) => WaitPolicy::NoWait,
                        (WaitPolicy::Skip, _) | (_, WaitPolicy::Skip) => WaitPolicy::Skip,
                        (WaitPolicy::Wait, WaitPolicy::Wait) => WaitPolicy::Wait,
                    };
                }
                None => locks.push((slot, lock)),
            }
        }
    }
    Ok(locks)
}

fn lock_clause(binder: &Binder, clause: &ast::LockClause) -> Bind<(Lock, Vec<usize>)> {
    let (weaker, of) = match clause.of.as_ref().map(|name| name.0.as_slice()) {
        None => (false, None),
        Some([ast::ObjectNamePart::Identifier(name)]) => (false, Some(name)),
        Some([ast::ObjectNamePart::Identifier(mark), ast::ObjectNamePart::Identifier(name)])
            if mark.value == WEAKER_LOCK =>
        {
            (true, Some(name).filter(|name| !name.value.is_empty()))
        }
        Some(_) => return Err(Refusal::Unsupported),
    };
    let (mode, called) = match clause.lock_type {
        ast::LockType::Share if weaker => (LockMode::KeyShare, "KEY SHARE"),
        ast::LockType::Share => (LockMode::Share, "SHARE"),
        ast::LockType::Update if weaker => (LockMode::NoKeyUpdate, "NO KEY UPDATE"),
        ast::LockType::Update => (LockMode::Update, "UPDATE"),
    };
    let policy = match clause.nonblock {
        None => WaitPolicy::Wait,
        Some(ast::NonBlock::Nowait) => WaitPolicy::NoWait,
        Some(ast::NonBlock::SkipLocked) => WaitPolicy::Skip,
    };
    let is_stored = |source: &&Source| source.derived.is_none();
    let slots = match of {
        // Rows of a derived table are locked by its own query, if that has FOR UPDATE.
        None if binder.sources.iter().all(|source| is_stored(&source)) => (0..binder.sources.len()).collect(),
        None => {
            let text = "FOR UPDATE over a subquery in FROM is not supported";
            return Err(Error::unsupported(text).with_hint("name the tables to lock: FOR UPDATE OF name").into());
        }
        Some(name) => {
            let name = fold_ident(name);
            let Some(source) = binder.sources.iter().find(|source| source.name == name) else {
                let text = format!("relation \"{name}\" in FOR {called} clause not found in FROM clause");
                return Err(Error::new(SqlState::UNDEFINED_TABLE, text).into());
            };
            vec![Some(source).filter(is_stored).ok_or(Refusal::Unsupported)?.slot]
        }
    };
    Ok((Lock { mode, policy }, slots))
}

impl Select {
    pub(crate) fn locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Tables whose rows it locks.
    pub(crate) fn locked(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.locks.iter().map(|(slot, _)| &self.tables[*slot])
    }

    /// Whether it reads this table.
    pub(crate) fn reads(&self, table: TableId) -> bool {
        self.tables.iter().any(|other| other.id() == table)
    }

    /// Whether it reads a derived table.
    pub(crate) fn reads_derived(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.whole, Access::Derived { .. }))
    }

    pub(crate) fn reads_whole_tables(&self) -> bool {
        let is_first = self.groups.as_ref().is_some_and(|groups| groups.first_is_enough);
        let stops = is_first || self.limit.is_some() && self.ordered && self.groups.is_none();
        let rest = self.steps.get(usize::from(stops)..).unwrap_or_default();
        rest.iter().any(|step| step.access.is_whole())
    }

    /// Whether it can stop after any row of the first table and resume there: no state is kept across rows.
    pub(crate) fn goes_by_parts(&self) -> bool {
        let whole = self.groups.is_none()
            && self.ordered
            && !self.distinct
            && self.distinct_on == 0
            && self.limit.is_none()
            && self.offset.is_none();
        let walks = matches!(self.steps.first(), Some(step) if matches!(step.access, Access::All | Access::Range(_)));
        whole && walks && !self.steps.iter().any(|step| step.outer.all_right())
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs it with the outer values `given`; returns the number of rows emitted.
    pub(crate) fn run<'a>(
        &'a self,
        ctx: &'a ExecContext<'a>,
        given: Vec<Datum<'a>>,
        emit: Emit<'_, 'a>,
    ) -> Result<u64> {
        let mut run = Run::new(&self.tables, ctx, given);
        let mut tail = SortLimit::new(self, &run)?;
        if tail.left == 0 {
            return Ok(0);
        }
        let flow = match &self.groups {
            None => self.join(&mut run, &mut |run| tail.joined(run, emit))?,
            Some(groups) => self.grouped(groups, &mut run, &mut tail, emit)?,
        };
        if flow.is_continue() {
            let _: Flow = tail.end(&mut run, emit)?;
        }
        Ok(tail.emitted)
    }

    /// Without FROM there is one row and no step to evaluate the conditions.
    fn join<'a>(&'a self, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
        if self.steps.is_empty() {
            for condition in &self.conditions {
                if !condition.holds(&run.frame)? {
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
        exec::joined(&self.steps, run, each)
    }

    fn grouped<'a>(
        &'a self,
        grouping: &'a Grouping,
        run: &mut Run<'a>,
        tail: &mut SortLimit<'a>,
        emit: Emit<'_, 'a>,
    ) -> Result<Flow> {
        let mut groups = Groups::new(&grouping.by, &grouping.types, &grouping.aggregates, &grouping.dependent);
        let _: Flow = self.join(run, &mut |run| {
            groups.row(&run.frame)?;
            let enough = grouping.first_is_enough && groups.has_values();
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        for group in groups.results(run.ctx()) {
            run.frame.computed = group?;
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
