//! Rewrites SQL that DataFusion cannot plan as a join:
//!
//! - A subquery that looks up one sequence by OID becomes a function call, which may refer to columns of outer
//!   queries. SQLAlchemy sends such subqueries for identity columns.
//! - `unnest` of a catalog list in FROM becomes a hidden relation and a join condition.
//! - asyncpg's query about types becomes a hidden relation.
//! - The row before or after a range, an argument of gap-filling functions, becomes an aggregate, because only
//!   aggregating subqueries can be correlated.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};

use super::rewrite::{and, call, conjuncts, is_outer, last_name, string, when};

/// Columns of `pg_sequence`.
pub(super) const COLUMNS: [&str; 8] =
    ["seqrelid", "seqtypid", "seqstart", "seqincrement", "seqmax", "seqmin", "seqcache", "seqcycle"];

/// `SELECT … FROM pg_sequence WHERE seqrelid = x AND …`, as a value.
pub(super) fn sequence(select: &Select) -> Option<Expr> {
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return None };
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) = select.projection.first()?
    else {
        return None;
    };
    if !from.joins.is_empty() || last_name(name).as_deref() != Some("pg_sequence") {
        return None;
    }
    let table = alias.as_ref().map_or("pg_sequence", |alias| alias.name.value.as_str());
    let mut parts = Vec::new();
    conjuncts(select.selection.clone()?, &mut parts);
    let at = parts.iter().position(|part| key(part, table).is_some())?;
    let number = key(&parts.remove(at), table)?;
    if !parts.iter().all(|part| is_outer(part, &[table.to_owned()])) {
        return None;
    }
    let mut value = value.clone();
    let _ = value.visit(&mut Columns { table, number: &number });
    let there = Expr::IsNotNull(Box::new(column(&number, "seqrelid")));
    Some(when(parts.into_iter().fold(there, and), value))
}

/// Expression that `seqrelid` is compared with.
fn key(expr: &Expr, table: &str) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return None };
    let is_number =
        |expr: &Expr| matches!(expr, Expr::CompoundIdentifier(names) if names_column(names, table) == Some("seqrelid"));
    match (is_number(left), is_number(right)) {
        (true, false) => Some((**right).clone()),
        (false, true) => Some((**left).clone()),
        _ => None,
    }
}

fn names_column<'a>(names: &'a [Ident], table: &str) -> Option<&'a str> {
    let [.., of, column] = names else { return None };
    (of.value == table).then_some(column.value.as_str())
}

fn column(number: &Expr, name: &str) -> Expr {
    call("millrace_sequence", vec![number.clone(), string(name)])
}

struct Columns<'a> {
    table: &'a str,
    number: &'a Expr,
}

impl VisitorMut for Columns<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let Some(name) = names_column(names, self.table).filter(|name| COLUMNS.contains(name))
        {
            let value = column(self.number, name);
            *expr = match name {
                "seqcycle" => {
                    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
                    Expr::BinaryOp { left: Box::new(value), op: BinaryOperator::Eq, right: Box::new(one) }
                }
                _ => value,
            };
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression calls `json_build_object`. DataFusion takes the result for text, so its type must be marked
/// as JSON.
pub(super) fn makes_json(expr: &Expr) -> bool {
    let is_json = |expr: &Expr| {
        let Expr::Function(Function { name, .. }) = expr else { return false };
        last_name(name).as_deref() == Some("json_build_object")
    };
    let found = ast::visit_expressions(expr, |expr| match is_json(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Catalog lists that are unnested with ordinality: list columns, the hidden relation with their elements, and the
/// column of the owner's OID.
const UNFOLDED: [(&[&str], &str, &str); 4] = [
    (&["indkey", "indoption"], "index_columns", "indexrelid"),
    (&["indkey"], "index_keys", "indexrelid"),
    (&["conkey"], "constraint_columns", "oid"),
    (&["confkey"], "constraint_referred", "oid"),
];

/// Replaces `FROM unnest(t.list) WITH ORDINALITY a(x, n)` by a hidden relation and a WHERE condition. Django sends it
/// for columns of indexes.
pub(super) fn unfold(select: &mut Select) {
    let mut conditions = Vec::new();
    for from in &mut select.from {
        conditions.extend(unfolded(&mut from.relation));
        conditions.extend(from.joins.iter_mut().filter_map(|join| unfolded(&mut join.relation)));
    }
    select.selection = select.selection.take().into_iter().chain(conditions).reduce(and);
}

fn unfolded(factor: &mut TableFactor) -> Option<Expr> {
    let TableFactor::UNNEST { alias: Some(alias), array_exprs, with_ordinality: true, .. } = factor else {
        return None;
    };
    let mut columns = Vec::new();
    let mut of = None;
    for array in array_exprs.iter() {
        let Expr::CompoundIdentifier(names) = array else { return None };
        let [table @ .., column] = names.as_slice() else { return None };
        of = Some(table.to_vec());
        columns.push(column.value.as_str());
    }
    let (_, relation, key) = UNFOLDED.iter().find(|(lists, ..)| *lists == columns.as_slice())?;
    let ident = |name: &str| Ident::with_quote('"', name);
    let mut alias = alias.clone();
    alias.columns.insert(0, ast::TableAliasColumnDef { name: ident("millrace_of"), data_type: None });
    let own = Expr::CompoundIdentifier(vec![alias.name.clone(), ident("millrace_of")]);
    let mut outer = of?;
    outer.push(ident(key));
    *factor = hidden(relation, alias);
    let (left, right) = (Box::new(own), Box::new(Expr::CompoundIdentifier(outer)));
    Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })
}

/// Columns of asyncpg's type query, in this order.
const TYPE_INFO: [&str; 10] =
    ["oid", "ns", "name", "kind", "basetype", "elemtype", "elemdelim", "range_subtype", "attrtypoids", "attrnames"];

/// Replaces asyncpg's subquery about types, recognised by its columns, by the hidden relation with the same columns.
pub(super) fn type_info(factor: &mut TableFactor) {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &*factor else { return };
    let SetExpr::Select(select) = &*subquery.body else { return };
    let named = |(item, name): (&SelectItem, &&str)| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == **name);
    if select.projection.len() != TYPE_INFO.len() || !select.projection.iter().zip(&TYPE_INFO).all(named) {
        return;
    }
    *factor = hidden("type_info", alias.clone());
}

/// Reference to a hidden relation.
fn hidden(relation: &str, alias: ast::TableAlias) -> TableFactor {
    let ident = |name: &str| Ident::with_quote('"', name);
    TableFactor::Table {
        name: ast::ObjectName([ident("()"), ident(relation)].map(ast::ObjectNamePart::Identifier).to_vec()),
        alias: Some(alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// Rewrites arguments `(SELECT x … ORDER BY t DESC LIMIT 1)` to `(SELECT last(x, t) …)`, with ascending order to
/// `first`; and records, also those that a query returns, to calls of `struct`, which accepts any values.
pub(super) fn outermost_rows(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
            looked_up(expr);
        }
    }
}

fn looked_up(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => looked_up(inner),
        Expr::Subquery(query) => {
            let _ = outermost_row(query);
        }
        expr => record(expr),
    }
}

fn record(expr: &mut Expr) {
    if let Expr::Tuple(values) = expr {
        *expr = call("struct", std::mem::take(values));
    }
}

fn outermost_row(query: &mut Query) -> Option<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_mut_slice()
    else {
        return None;
    };
    record(item);
    let OrderByKind::Expressions(order) = &query.order_by.as_ref()?.kind else { return None };
    let [order] = order.as_slice() else { return None };
    let LimitClause::LimitOffset { limit: Some(Expr::Value(limit)), offset: None, .. } = query.limit_clause.as_ref()?
    else {
        return None;
    };
    let grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty());
    if limit.value != Value::Number("1".to_owned(), false) || grouped || select.distinct.is_some() {
        return None;
    }
    let end = if order.options.asc == Some(false) { "last" } else { "first" };
    select.projection = vec![SelectItem::UnnamedExpr(call(end, vec![item.clone(), order.expr.clone()]))];
    query.order_by = None;
    query.limit_clause = None;
    Some(())
}
