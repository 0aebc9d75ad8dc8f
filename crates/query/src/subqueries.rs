//! Rewrites `IN (SELECT …)` and `EXISTS` where DataFusion would return wrong results or an error.
//!
//! DataFusion plans subqueries that are whole conditions of a WHERE as joins. Within a larger expression it
//! plans a mark join, whose mark column is never NULL: `NOT (x IN (…) AND …)` and `(x IN (…)) IS NULL` need
//! three-valued logic. In such expressions `x IN (SELECT y …)` becomes
//!
//! ```text
//! CASE WHEN EXISTS (SELECT … WHERE y = x) THEN true
//!      WHEN x IS NULL AND EXISTS (SELECT …) THEN NULL
//!      WHEN EXISTS (SELECT … WHERE y IS NULL) THEN NULL
//!      ELSE false END
//! ```
//!
//! Outside of a WHERE, where DataFusion plans no such joins, EXISTS becomes a count compared with zero.
//!
//! Conditions on outer rows become join conditions, in which DataFusion identifies the subquery's columns by
//! unqualified name: in `SELECT t3.id FROM t3 JOIN t4 … WHERE t4.id < outer.y` it would compare `t3.id`. The
//! rewrite therefore gives such columns unique names.
//!
//! DataFusion cannot decorrelate two further forms. A scalar subquery in a join condition that refers to one
//! side becomes a column of that side, computed before the join. The first of several rows (`LIMIT 1`)
//! becomes the aggregate `first_value`.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Spans};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, FetchType, Filter, LogicalPlan, LogicalPlanBuilder, Operator, SkipType,
    Subquery, lit,
};
use datafusion::scalar::ScalarValue;

/// Rewrites the subqueries of a plan before analysis.
pub(crate) fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut names = 0;
    let rewritten =
        plan.transform_up_with_subqueries(|node| first_rows(node)?.transform_data(|node| sides(node, &mut names)))?;
    let rewritten = rewritten.data.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => conditions(filter),
        LogicalPlan::Projection(_) | LogicalPlan::Window(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) => {
            values(node)
        }
        other => Ok(Transformed::no(other)),
    })?;
    let rewritten = rewritten.data.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => named_apart(filter, &mut names),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Moves scalar subqueries of a join condition that refer to one side into a projection of that side.
fn sides(node: LogicalPlan, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
    let Some(filter) = join.filter.take() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    let filter = filter.transform_down(|part| {
        let Expr::ScalarSubquery(subquery) = &part else { return Ok(Transformed::no(part)) };
        let is_of = |side: &LogicalPlan| {
            let column = |reference: &Expr| match reference {
                Expr::OuterReferenceColumn(_, column) => side.schema().has_column(column),
                _ => false,
            };
            !subquery.outer_ref_columns.is_empty() && subquery.outer_ref_columns.iter().all(column)
        };
        let made = match (is_of(&join.left), is_of(&join.right)) {
            (true, false) => &mut of_left,
            (false, true) => &mut of_right,
            _ => return Ok(Transformed::no(part)),
        };
        *names += 1;
        let name = format!("{OWN_NAME}{names}");
        made.push(part.alias(&name));
        Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
    })?;
    join.filter = Some(filter.data);
    if of_left.is_empty() && of_right.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let wide = |side: Arc<LogicalPlan>, made: Vec<Expr>| -> Result<Arc<LogicalPlan>> {
        if made.is_empty() {
            return Ok(side);
        }
        let kept = side.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let builder = LogicalPlanBuilder::from(Arc::unwrap_or_clone(side));
        Ok(Arc::new(builder.project(kept.into_iter().chain(made))?.build()?))
    };
    (join.left, join.right) = (wide(join.left, of_left)?, wide(join.right, of_right)?);
    let joined = LogicalPlan::Join(join).recompute_schema()?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(joined).project(columns)?.build()?))
}

/// Replaces LIMIT 1 in correlated scalar subqueries by an aggregate.
fn first_rows(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    node.map_expressions(|expr| {
        expr.transform_up(|part| {
            let Expr::ScalarSubquery(mut subquery) = part else { return Ok(Transformed::no(part)) };
            let first = match subquery.outer_ref_columns.is_empty() {
                true => None,
                false => first_row(&subquery.subquery)?,
            };
            let is_made = first.is_some();
            subquery.subquery = first.map_or(subquery.subquery, Arc::new);
            Ok(Transformed::new_transformed(Expr::ScalarSubquery(subquery), is_made))
        })
    })
}

/// Rewrites `SELECT x … [ORDER BY …] LIMIT 1` to an aggregate: without rows it returns NULL, as the subquery
/// does.
fn first_row(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Limit(limit) = plan else { return Ok(None) };
    let is_first = matches!(limit.get_skip_type()?, SkipType::Literal(0))
        && matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1..)));
    let is_aggregate = |plan: &LogicalPlan| matches!(plan, LogicalPlan::Aggregate(made) if made.group_expr.is_empty());
    let (value, under) = match limit.input.as_ref() {
        // An aggregate without GROUP BY always returns one row.
        LogicalPlan::Projection(made) if is_first && is_aggregate(&made.input) => {
            return Ok(Some(limit.input.as_ref().clone()));
        }
        LogicalPlan::Projection(made) if matches!(*made.input, LogicalPlan::Sort(_)) && made.expr.len() == 1 => {
            (made.expr[0].clone().unalias_nested().data, made.input.as_ref())
        }
        other => {
            let columns = other.schema().columns();
            let [column] = columns.as_slice() else { return Ok(None) };
            (Expr::Column(column.clone()), other)
        }
    };
    let is_one = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1)));
    if !is_first || !is_one || value.contains_outer() {
        return Ok(None);
    }
    let (order, input) = match under {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), sort.input.as_ref()),
        LogicalPlan::Sort(_) => return Ok(None),
        other => (Vec::new(), other),
    };
    let first = first_value(value, order);
    Ok(Some(LogicalPlanBuilder::from(input.clone()).aggregate(Vec::<Expr>::new(), vec![first])?.build()?))
}

/// Gives unique names to the columns of conditions on outer rows.
fn named_apart(filter: Filter, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    // The columns of HAVING are those of the aggregate, whose names are unique.
    if matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_)) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let mut copies: Vec<(Column, String)> = Vec::new();
    let mut conditions = Vec::new();
    for condition in split_conjunction(&filter.predicate) {
        let condition = condition.clone();
        if !condition.contains_outer() || has_inner_plan(&condition) {
            conditions.push(condition);
            continue;
        }
        let renamed = condition.transform(|part| {
            let Expr::Column(column) = part else { return Ok(Transformed::no(part)) };
            let known = copies.iter().find(|(of, _)| *of == column).map(|(_, name)| name.clone());
            let name = known.unwrap_or_else(|| {
                *names += 1;
                let name = format!("{OWN_NAME}{names}");
                copies.push((column, name.clone()));
                name
            });
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
        })?;
        conditions.push(renamed.data);
    }
    let Some(predicate) = conjunction(conditions).filter(|_| !copies.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let columns = || filter.input.schema().columns().into_iter().map(Expr::Column);
    let copied = copies.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(&filter.input)));
    let wide = input.project(columns().chain(copied).collect::<Vec<_>>())?.filter(predicate)?;
    Ok(Transformed::yes(wide.project(columns().collect::<Vec<_>>())?.build()?))
}

/// Prefix of these unique names; no column of a table has it.
const OWN_NAME: &str = "\u{1}outer";

fn has_inner_plan(expr: &Expr) -> bool {
    let is_one = |part: &Expr| {
        Ok(matches!(part, Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)))
    };
    expr.exists(is_one).unwrap_or(true)
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::InSubquery(_) | Expr::Exists(_)))).unwrap_or(false)
}

fn conditions(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let conjuncts = split_conjunction(&filter.predicate).into_iter().map(|one| condition(one.clone(), schema));
    let Some(predicate) = conjunction(conjuncts.collect::<Result<Vec<_>>>()?) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// Rewrites a whole condition, for which false and NULL are equivalent.
fn condition(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::Exists(_) | Expr::InSubquery(InSubquery { negated: false, .. }) => Ok(expr),
        Expr::InSubquery(ref within) if is_joined(within) => Ok(expr),
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                condition(Expr::InSubquery(InSubquery { expr, subquery, negated: !negated }), schema)
            }
            Expr::Exists(Exists { subquery, negated }) => Ok(Expr::Exists(Exists { subquery, negated: !negated })),
            inner => expanded(Expr::Not(Box::new(inner)), schema, Place::Condition),
        },
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (part(*left, schema)?, part(*right, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
        }
        other => expanded(other, schema, Place::Condition),
    }
}

/// Rewrites one side of an OR, or of an AND below one.
fn part(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::Exists(_) | Expr::InSubquery(InSubquery { negated: false, .. }) => Ok(expr),
        Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => condition(expr, schema),
        other => expanded(other, schema, Place::Condition),
    }
}

/// Whether DataFusion plans NOT IN as an anti join on its one column, which handles NULLs correctly.
fn is_joined(within: &InSubquery) -> bool {
    within.subquery.outer_ref_columns.is_empty() && !within.expr.column_refs().is_empty()
}

/// Rewrites subqueries in nodes that compute values.
fn values(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_some = false;
    node.apply_expressions(|expr| {
        has_some |= has_subquery(expr);
        Ok(if has_some { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_some {
        return Ok(Transformed::no(node));
    }
    let Some(input) = node.inputs().first().map(|input| Arc::clone(input.schema())) else {
        return Ok(Transformed::no(node));
    };
    let names = NamePreserver::new(&node);
    let mapped = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(expanded(expr, &input, Place::Value)?)))
    })?;
    Ok(Transformed::yes(mapped.data.recompute_schema()?))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a WHERE or HAVING.
    Condition,
    Value,
}

fn expanded(expr: Expr, schema: &DFSchema, place: Place) -> Result<Expr> {
    let rewritten = expr.transform_down(|part| match part {
        Expr::InSubquery(within) => match membership(&within, schema, place)? {
            Some(case) => Ok(Transformed::new(case, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(Expr::InSubquery(within))),
        },
        Expr::Exists(Exists { subquery, negated }) if place == Place::Value => {
            let Subquery { subquery: plan, outer_ref_columns, .. } = subquery;
            let exists = not_empty(Arc::unwrap_or_clone(plan), outer_ref_columns, place)?;
            Ok(Transformed::new(negate(exists, negated), true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Expands `x IN (SELECT y …)` with three-valued logic; `None` to leave it unchanged.
fn membership(within: &InSubquery, schema: &DFSchema, place: Place) -> Result<Option<Expr>> {
    let InSubquery { expr: sought, subquery, negated } = within;
    let plan = subquery.subquery.as_ref();
    let Some(found) = plan.schema().columns().into_iter().next().map(Expr::Column) else { return Ok(None) };
    let may_be_null = sought.nullable(schema)?;
    let has_null = plan.schema().field(0).is_nullable();
    if place == Place::Condition && !may_be_null && !has_null {
        return Ok(None);
    }
    let Some((outer, references)) = from_inside(sought, schema)? else { return Ok(None) };
    let among = |condition: Option<Expr>, more: &[Expr]| {
        let mut references: Vec<Expr> = more.iter().chain(&subquery.outer_ref_columns).cloned().collect();
        references.dedup();
        let plan = match condition {
            Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::clone(&subquery.subquery))?),
            None => plan.clone(),
        };
        not_empty(plan, references, place)
    };
    let unknown = || Box::new(lit(ScalarValue::Boolean(None)));
    let mut cases = vec![(Box::new(among(Some(found.clone().eq(outer)), &references)?), Box::new(lit(true)))];
    if may_be_null {
        let is_null = sought.as_ref().clone().is_null().and(among(None, &[])?);
        cases.push((Box::new(is_null), unknown()));
    }
    if has_null {
        cases.push((Box::new(among(Some(found.is_null()), &[])?), unknown()));
    }
    let case = Expr::Case(Case::new(None, cases, Some(Box::new(lit(false)))));
    Ok(Some(negate(case, *negated)))
}

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated { Expr::Not(Box::new(expr)) } else { expr }
}

/// Rewrites an expression over the outer rows for use within a subquery, and returns its outer references.
/// `None` if it refers further out or contains subqueries.
fn from_inside(expr: &Expr, schema: &DFSchema) -> Result<Option<(Expr, Vec<Expr>)>> {
    let is_strange = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    };
    if expr.exists(is_strange)? {
        return Ok(None);
    }
    let mut references = Vec::new();
    let outer = expr.clone().transform(|part| match part {
        Expr::Column(column) => {
            let (_, field) = schema.qualified_field_from_column(&column)?;
            let reference = Expr::OuterReferenceColumn(Arc::clone(field), column);
            references.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Some((outer.data, references)))
}

/// Expression for whether a subquery returns rows.
fn not_empty(plan: LogicalPlan, outer_ref_columns: Vec<Expr>, place: Place) -> Result<Expr> {
    let subquery =
        |plan, outer_ref_columns| Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() };
    if !outer_ref_columns.is_empty() && place == Place::Condition {
        return Ok(Expr::Exists(Exists { subquery: subquery(plan, outer_ref_columns), negated: false }));
    }
    let builder = LogicalPlanBuilder::from(plan);
    // One row is enough, if the subquery is uncorrelated.
    let builder = if outer_ref_columns.is_empty() { builder.limit(0, Some(1))? } else { builder };
    let count = builder.aggregate(Vec::<Expr>::new(), vec![count_all()])?.build()?;
    Ok(Expr::ScalarSubquery(subquery(count, outer_ref_columns)).gt(lit(0_i64)))
}
