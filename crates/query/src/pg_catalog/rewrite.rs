//! Rewrites statements of PostgreSQL's clients into SQL that DataFusion can plan, on the AST, before name resolution.
//!
//! | clients write                                   | becomes                                                             |
//! |-------------------------------------------------|---------------------------------------------------------------------|
//! | `a OPERATOR(pg_catalog.~) b`, `x COLLATE "C"`   | `a ~ b`, `x`                                                        |
//! | `pg_catalog.f(x)`, `information_schema.f(x)`    | `f(x)`                                                              |
//! | `'t'::regclass`, `x::oid`                       | `regclassin('t')`, `oidin(x)`: OIDs                                 |
//! | `x::regclass::text`, or `x::regclass` as output | `regclassout(x)`: the name                                          |
//! | `x::name`, `x::"char"`, `x::pg_catalog.int4`    | `x::text`, `x::text`, `x::int4`                                     |
//! | `v[i]`, `indkey[i]`                             | `array_element(v, i)`; vectors count from 0                         |
//! | `x = ANY('{a,b}')`                              | `x IN ('a', 'b')`                                                   |
//! | `x = ANY(SELECT …)`, `x = ANY(ARRAY(SELECT …))` | `x IN (SELECT …)`                                                   |
//! | `t.*` of `FROM s.t`                             | `s.t.*`                                                             |
//! | `array_agg(attname)`                            | `millrace_names(array_agg(attname))`: of type name[]                |
//! | `FROM f(x)` of a function with one value        | `FROM (SELECT f(x) AS f) AS f`                                      |
//! | `LEFT JOIN` of a relation without rows `ON …`   | `… ON false`                                                        |
//! | `(f(x)).n`                                      | `get_field(f(x), 'n')`                                              |
//! | `ARRAY(SELECT x …)`                             | `(SELECT array_agg(x) …)`                                           |
//! | `generate_subscripts(v, 1)`, `_pg_expandarray`  | `unnest(…)` of a list                                               |
//! | `(SELECT x FROM pg_… WHERE … = outer)`          | `(SELECT max(x) …)`, because a correlated subquery must aggregate   |
//! | the same with a condition on outer columns only | `CASE WHEN condition THEN (SELECT …) END`                           |
//! | `(SELECT … FROM pg_sequence WHERE seqrelid = x)`| `… millrace_sequence(x, 'column') …`                                |
//! | `unnest(i.indkey) WITH ORDINALITY a(x, n)`      | `"()".index_keys a(millrace_of, x, n)`, and a condition             |
//! | an item with `json_build_object(…)`             | `millrace_json(item)`: the same text, known to be JSON              |
//! | `EXISTS (SELECT … FROM pg_…)` as a value        | `(SELECT max(1) …) IS NOT NULL`                                     |
//! | `indkey::text`                                  | `array_to_string(indkey, ' ')`                                      |
//! | `typreceive::text`                              | `regprocout(typreceive)`: the name                                  |
//! | a subquery over a relation that has no rows     | NULL                                                                |
//! | `p LIKE q ESCAPE '/'`                           | `p LIKE` with the pattern in the default escape                     |
//! | `x AT TIME ZONE z`                              | `timezone(z, x)`                                                    |
//! | `interval '1-2'`, `'36:00'::interval`           | `interval '14 months 0 days 0 nanoseconds'`                         |
//! | `mod(a, b)`, `-(a - b)`                         | `a % b`, `b - a`                                                    |
//! | `generate_series(…)` as a value                 | `unnest(generate_series(…))`, a row each                            |
//! | `FROM generate_series(t1, t2, '1 hour')`        | `FROM unnest(generate_series(…))`                                   |
//! | `date_trunc('day', t, 'Europe/Berlin')`          | `millrace_date_trunc(…)`                                            |
//! | `f(x, start => y)` of `time_bucket_gapfill`     | arguments by position                                               |
//! | `locf(x, (SELECT y … ORDER BY t DESC LIMIT 1))`  | `locf(x, (SELECT last(y, t) …))`; `interpolate` likewise            |
//!
//! The rows with `max` apply only to subqueries over the catalog, which return at most one row: `max` returns that
//! row.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgOperator, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement, Subscript, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value, VisitMut,
    VisitorMut,
};

use super::{lookups, relations};
use crate::rewrite::folded;

/// Rewrites a statement in place.
pub fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut Rewriter);
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(select) = unnested_apart(query) {
            query.body = Box::new(SetExpr::Select(Box::new(select)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        qualify_wildcards(select);
        lookups::unfold(select);
        let hollow = select.from.iter().any(is_empty);
        select.from.iter_mut().flat_map(|from| &mut from.joins).for_each(joined_to_nothing);
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
            if let Some((family, inner)) = registered(expr) {
                *expr = call(&format!("{family}out"), vec![inner]);
            }
            let _ = expr.visit(&mut ExistsAsValues::default());
            if aggregates_names(expr) {
                *expr = call("millrace_names", vec![expr.clone()]);
            }
            if lookups::makes_json(expr) {
                *expr = call("millrace_json", vec![expr.clone()]);
            }
            if hollow {
                // The relation has no rows, so the expression is never evaluated and need not be plannable.
                let _ = expr.visit(&mut WithoutSubqueries);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(new) = before_children(expr) {
            *expr = new;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(new) = after_children(expr) {
            *expr = new;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        lookups::type_info(factor);
        table_function(factor);
        ControlFlow::Continue(())
    }
}

/// Splits `SELECT unnest(a) AS b, x AS y …` into a subquery with `a` and `x`, and a query around it: in a SELECT with
/// `unnest`, DataFusion may confuse an alias with a column of the same name.
fn unnested_apart(query: &Query) -> Option<Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty());
    let has_alias =
        |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { expr, .. } if array_of_unnest(expr).is_none());
    if query.order_by.is_some() || is_grouped || select.distinct.is_some() || !select.projection.iter().any(has_alias) {
        return None;
    }
    let (mut names, mut within, mut around) = (Vec::new(), Vec::new(), Vec::new());
    let mut unnests = false;
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            SelectItem::UnnamedExpr(expr @ Expr::Identifier(name)) => (expr, name.clone()),
            SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(parts)) => (expr, parts.last()?.clone()),
            _ => return None,
        };
        let value = Expr::Identifier(name.clone());
        let (expr, value) = match array_of_unnest(expr) {
            Some(array) => {
                unnests = true;
                (array.clone(), call("unnest", vec![value]))
            }
            // The function may be set-returning, and its rows must be paired with the array's elements.
            None if calls_function(expr) => return None,
            None => (expr.clone(), value),
        };
        names.push(folded(&name));
        within.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
        around.push(SelectItem::ExprWithAlias { expr: value, alias: name });
    }
    names.sort_unstable();
    let is_named_once = names.windows(2).all(|pair| pair[0] != pair[1]);
    if !unnests || !is_named_once {
        return None;
    }
    let mut inner = query.clone();
    inner.with = None;
    inner.limit_clause = None;
    inner.fetch = None;
    inner.body = Box::new(SetExpr::Select(Box::new(Select { projection: within, ..(**select).clone() })));
    let named = TableAlias { explicit: true, name: Ident::with_quote('"', "unnested"), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(inner), alias: Some(named), sample: None };
    let from = vec![TableWithJoins { relation, joins: Vec::new() }];
    Some(Select { projection: around, from, selection: None, having: None, ..(**select).clone() })
}

fn calls_function(expr: &Expr) -> bool {
    let found = ast::visit_expressions(expr, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Argument of `unnest(array)`.
fn array_of_unnest(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] if last_name(&function.name)? == "unnest" => Some(array),
        _ => None,
    }
}

/// Rewrites EXISTS outside of conditions, where DataFusion does not support it.
#[derive(Default)]
struct ExistsAsValues {
    /// Nesting depth of queries; a nested SELECT is handled on its own.
    depth: usize,
}

impl VisitorMut for ExistsAsValues {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Exists { subquery, negated } = expr
            && let Some(select) = single_select(subquery)
            && !select.from.is_empty()
            && select.from.iter().all(is_catalog)
        {
            let one = Expr::Value(Value::Number("1".to_owned(), false).into());
            select.projection = vec![SelectItem::UnnamedExpr(call("max", vec![one]))];
            let value = Box::new(Expr::Subquery(subquery.clone()));
            *expr = if *negated { Expr::IsNull(value) } else { Expr::IsNotNull(value) };
            *expr = Expr::Nested(Box::new(expr.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Replaces subqueries by NULL.
struct WithoutSubqueries;

impl VisitorMut for WithoutSubqueries {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if array_query(expr).is_some() {
            *expr = cast(null(), DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None)));
        } else if matches!(expr, Expr::Subquery(_)) {
            *expr = cast(null(), DataType::Text);
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites `t.*` to `s.t.*` where FROM has `s.t`: DataFusion resolves a wildcard only by the table's qualified name.
fn qualify_wildcards(select: &mut Select) {
    let mut tables: Vec<&ObjectName> = Vec::new();
    for from in &select.from {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            if let TableFactor::Table { name, alias: None, args: None, .. } = factor {
                tables.push(name);
            }
        }
    }
    let last = |name: &ObjectName| name.0.last().and_then(ObjectNamePart::as_ident).map(folded);
    for item in &mut select.projection {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(qualifier), _) = item else {
            continue;
        };
        if qualifier.0.len() != 1 {
            continue;
        }
        let wanted = last(qualifier);
        let mut found = tables.iter().filter(|table| last(table) == wanted);
        if let (Some(table), None) = (found.next(), found.next())
            && table.0.len() > 1
        {
            *qualifier = (*table).clone();
        }
    }
}

/// Rewrites that need the unmodified children.
fn before_children(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::Cast { expr: inner, data_type, .. } => {
            let (family, argument) = registered(inner)?;
            match type_name(data_type).as_str() {
                "text" | "varchar" | "name" => Some(call(&format!("{family}out"), vec![argument])),
                _ => Some(call(&format!("{family}in"), vec![argument])),
            }
        }
        Expr::Subquery(query) => scalar_subquery(query),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            in_list(left, right, false).or_else(|| in_query(left, right, false))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            in_list(left, right, true).or_else(|| in_query(left, right, true))
        }
        Expr::Function(_) => array_subquery(expr),
        Expr::BinaryOp { left, op, right } => {
            *op = plain_operator(op)?;
            array_comparison(left, op, right);
            None
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            let escape = match &escape_char.take()?.value {
                Value::SingleQuotedString(text) => text.clone(),
                _ => return None,
            };
            **pattern = default_escape((**pattern).clone(), &escape);
            None
        }
        _ => None,
    }
}

/// Rewrites that run after those of the children.
fn after_children(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::Collate { expr, .. } => Some((**expr).clone()),
        Expr::AtTimeZone { timestamp, time_zone } => {
            Some(call("timezone", vec![(**time_zone).clone(), (**timestamp).clone()]))
        }
        Expr::Interval(interval) => plain_interval(interval),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => negative(expr),
        Expr::Cast { .. } => plain_cast(expr),
        Expr::CompoundFieldAccess { root, access_chain } => access(root, access_chain),
        Expr::Function(function) => plain_call(function),
        _ => None,
    }
}

/// For `x::regclass` and similar casts: the type family and `x`; for `to_regclass(x)` the whole call.
fn registered(expr: &Expr) -> Option<(&'static str, Expr)> {
    match expr {
        Expr::Function(function) => {
            let family = match last_name(&function.name)?.as_str() {
                "to_regclass" => "regclass",
                "to_regtype" => "regtype",
                "to_regproc" => "regproc",
                "to_regnamespace" => "regnamespace",
                "to_regrole" => "regrole",
                _ => return None,
            };
            Some((family, expr.clone()))
        }
        Expr::Nested(inner) => registered(inner),
        Expr::Cast { expr, data_type, .. } => {
            let family = match type_name(data_type).as_str() {
                "regclass" => "regclass",
                "regtype" => "regtype",
                "regproc" | "regprocedure" => "regproc",
                "regnamespace" => "regnamespace",
                "regrole" => "regrole",
                _ => return None,
            };
            Some((family, (**expr).clone()))
        }
        _ => None,
    }
}

/// Type name without schema and quotes, in lower case.
fn type_name(ty: &DataType) -> String {
    let name = ty.to_string().to_lowercase().replace('"', "");
    name.strip_prefix("pg_catalog.").map_or(name.clone(), str::to_owned)
}

fn plain_cast(expr: &mut Expr) -> Option<Expr> {
    if let Some((family, inner)) = registered(expr) {
        return Some(call(&format!("{family}in"), vec![inner]));
    }
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return None };
    if let (DataType::Interval { .. }, Some(text)) = (&*data_type, literal(inner)) {
        return interval(text, None);
    }
    let quoted_char = data_type.to_string().contains("\"char\"");
    match type_name(data_type).as_str() {
        "oid" | "xid" => return Some(call("oidin", vec![(**inner).clone()])),
        // Catalog columns of these types are lists already.
        "int2vector" | "oidvector" => return Some((**inner).clone()),
        _ => {}
    }
    if matches!(type_name(data_type).as_str(), "text" | "varchar") && names_vector(inner) {
        return Some(call("array_to_string", vec![(**inner).clone(), string(" ")]));
    }
    if matches!(type_name(data_type).as_str(), "text" | "varchar" | "name") && names_function(inner) {
        return Some(call("regprocout", vec![(**inner).clone()]));
    }
    if let Some(elements) = array_literal(inner, data_type) {
        **inner = elements;
    }
    if let Some(plain) = plain_type(data_type, quoted_char) {
        *data_type = plain;
    }
    None
}

/// Negation of an interval or of a difference, which may be one of times: DataFusion negates neither.
fn negative(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Interval(_) => {
            let minus_one = Expr::Value(Value::Number("-1".to_owned(), false).into());
            Some(call("millrace_multiply", vec![expr.clone(), minus_one]))
        }
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::BinaryOp { left, op: op @ BinaryOperator::Minus, right } => {
                let turned = Expr::BinaryOp {
                    left: Box::new(Expr::Nested(right.clone())),
                    op: op.clone(),
                    right: Box::new(Expr::Nested(left.clone())),
                };
                Some(Expr::Nested(Box::new(turned)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Rewrites an interval's text into a form that DataFusion parses. An invalid text is left unchanged, so that
/// DataFusion reports the error.
fn plain_interval(written: &datafusion::sql::sqlparser::ast::Interval) -> Option<Expr> {
    // In `'1:30' MINUTE TO SECOND` the units differ from those of the plain text.
    let minutes = written.leading_field == Some(datafusion::sql::sqlparser::ast::DateTimeField::Minute);
    if written.last_field.is_some() {
        return if minutes { None } else { interval(literal(&written.value)?, None) };
    }
    interval(literal(&written.value)?, written.leading_field.as_ref().map(ToString::to_string).as_deref())
}

fn interval(text: &str, unit: Option<&str>) -> Option<Expr> {
    let whole = unit.map_or_else(|| text.to_owned(), |unit| format!("{text} {unit}"));
    let read = pg::time::parse_interval(&whole).or_else(|_| pg::time::parse_interval(text)).ok()?;
    let nanoseconds = read.micros.checked_mul(1_000)?;
    let plain = format!("{} months {} days {nanoseconds} nanoseconds", read.months, read.days);
    Some(Expr::Interval(datafusion::sql::sqlparser::ast::Interval {
        value: Box::new(string(&plain)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// Type known to DataFusion's parser for one of `pg_catalog`.
fn plain_type(ty: &DataType, quoted_char: bool) -> Option<DataType> {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = ty {
        let element = plain_type(element, false)?;
        return Some(DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(element), None)));
    }
    let DataType::Custom(name, _) = ty else {
        return quoted_char.then_some(DataType::Text);
    };
    let name = name.to_string().to_lowercase().replace('"', "");
    Some(match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
        "name" | "char" | "cstring" | "text" | "varchar" | "bpchar" | "pg_node_tree" | "aclitem" | "unknown"
        | "inet" => DataType::Text,
        "bool" => DataType::Boolean,
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Integer(None),
        "int8" | "oid" | "xid" | "regclass" | "regtype" => DataType::BigInt(None),
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "timestamptz" => DataType::Timestamp(None, datafusion::sql::sqlparser::ast::TimezoneInfo::Tz),
        _ => return None,
    })
}

/// Rewrites `'{a,b}'` cast to an array type into an array expression.
fn array_literal(expr: &Expr, ty: &DataType) -> Option<Expr> {
    let DataType::Array(_) = ty else { return None };
    let text = literal(expr)?.trim();
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let parsed = array_elements(inside)?;
    let elem = parsed.into_iter().map(|element| element.map_or_else(null, |text| string(&text))).collect();
    Some(Expr::Array(Array { elem, named: true }))
}

/// Rewrites `x = ANY('{a,b}')` to a list of text literals, each of which is coerced to the type of `x`.
fn in_list(expr: &Expr, array: &Expr, negated: bool) -> Option<Expr> {
    let inside = literal(array)?.trim().strip_prefix('{')?.strip_suffix('}')?;
    let list: Vec<Expr> =
        array_elements(inside)?.into_iter().map(|element| element.map_or_else(null, |text| string(&text))).collect();
    if list.is_empty() {
        return Some(Expr::Value(Value::Boolean(negated).into()));
    }
    Some(Expr::InList { expr: Box::new(expr.clone()), list, negated })
}

/// Rewrites `x = ANY(SELECT …)` and `x = ANY(ARRAY(SELECT …))` to `x IN (SELECT …)`. As the operand of ANY the query
/// would be rewritten like a scalar subquery: to one array, or to the maximum of its values.
fn in_query(expr: &Expr, set: &Expr, negated: bool) -> Option<Expr> {
    let query = match set {
        Expr::Subquery(query) => query.as_ref(),
        set => array_query(set)?,
    };
    Some(Expr::InSubquery { expr: Box::new(expr.clone()), subquery: Box::new(query.clone()), negated })
}

/// Whether it is `array_agg` of a column of type name.
fn aggregates_names(expr: &Expr) -> bool {
    const NAMES: [&str; 7] = ["attname", "relname", "conname", "nspname", "typname", "proname", "rolname"];
    let Expr::Function(function) = expr else { return false };
    if last_name(&function.name).as_deref() != Some("array_agg") {
        return false;
    }
    let is_name = |name: &Ident| NAMES.contains(&name.value.to_lowercase().as_str());
    match arguments(function).as_deref() {
        Some([Expr::Identifier(name)]) => is_name(name),
        Some([Expr::CompoundIdentifier(names)]) => names.last().is_some_and(is_name),
        _ => false,
    }
}

/// Replaces the join condition on a relation without rows, which need not be plannable, by `false`.
fn joined_to_nothing(join: &mut ast::Join) {
    use ast::{JoinConstraint, JoinOperator};
    if catalog_relation(&join.relation).is_some_and(|relation| relation.empty)
        && let JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) = &mut join.join_operator
    {
        *constraint = JoinConstraint::On(Expr::Value(Value::Boolean(false).into()));
    }
}

/// Elements of a one-dimensional array literal; an element is `None` for NULL.
fn array_elements(inside: &str) -> Option<Vec<Option<String>>> {
    let mut elements = Vec::new();
    let mut chars = inside.chars().peekable();
    if inside.trim().is_empty() {
        return Some(elements);
    }
    loop {
        let (mut element, mut quoted) = (String::new(), false);
        loop {
            match chars.next() {
                Some('{') => return None,
                Some('\\') => element.push(chars.next()?),
                Some('"') => {
                    quoted = true;
                    while let Some(next) = chars.next().filter(|next| *next != '"') {
                        element.push(if next == '\\' { chars.next()? } else { next });
                    }
                }
                Some(',') | None => break,
                Some(other) => element.push(other),
            }
        }
        let element = if quoted { element } else { element.trim().to_owned() };
        elements.push(Some(element).filter(|text| quoted || !text.eq_ignore_ascii_case("null")));
        if chars.peek().is_none() {
            return Some(elements);
        }
    }
}

/// Rewrites `OPERATOR(pg_catalog.~)` to `~`.
fn plain_operator(op: &BinaryOperator) -> Option<BinaryOperator> {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return Some(op.clone()) };
    Some(match parts.last()?.as_str() {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "||" => BinaryOperator::StringConcat,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        _ => return None,
    })
}

/// Rewrites `column = '{0}'` to compare the column's text with the literal, whose type is unknown.
fn array_comparison(left: &mut Expr, op: &BinaryOperator, right: &Expr) {
    let is_array = literal(right).is_some_and(|text| text.starts_with('{') && text.ends_with('}'));
    let is_column = matches!(left, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if is_array && is_column && matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq) {
        *left = call("array_out", vec![left.clone()]);
    }
}

/// Rewrites a pattern with escape character `escape` to one with `\`.
fn default_escape(pattern: Expr, escape: &str) -> Expr {
    if escape == "\\" {
        return pattern;
    }
    let doubled = call("replace", vec![pattern, string("\\"), string("\\\\")]);
    if escape.is_empty() {
        return doubled;
    }
    call("replace", vec![doubled, string(escape), string("\\")])
}

/// Field access and subscripts: `(x).f`, `a.b[i]`.
fn access(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let mut parts = match root {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(names) => names.clone(),
        _ => Vec::new(),
    };
    let mut current = if parts.is_empty() { Some(root.clone()) } else { None };
    for step in chain {
        match (step, &mut current) {
            (AccessExpr::Dot(Expr::Identifier(name)), None) => parts.push(name.clone()),
            (AccessExpr::Dot(Expr::Identifier(name)), Some(value)) => {
                *value = call("get_field", vec![unnested(value.clone()), string(&name.value)]);
            }
            (AccessExpr::Subscript(Subscript::Index { index }), _) => {
                let vector = parts.last().is_some_and(is_vector);
                let value = current.take().unwrap_or_else(|| identifier(&parts));
                let index = if vector { plus_one(index.clone()) } else { index.clone() };
                current = Some(call("array_element", vec![unnested(value), index]));
            }
            _ => return None,
        }
    }
    current.or_else(|| Some(identifier(&parts)))
}

fn unnested(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(inner) => *inner,
        other => other,
    }
}

fn plus_one(index: Expr) -> Expr {
    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
    Expr::BinaryOp { left: Box::new(Expr::Nested(Box::new(index))), op: BinaryOperator::Plus, right: Box::new(one) }
}

/// Whether a column is an int2vector or oidvector, whose subscripts start at 0; matches suffixes because clients'
/// aliases keep the name.
fn is_vector(name: &Ident) -> bool {
    let name = name.value.to_lowercase();
    ["indkey", "indoption", "indclass", "indcollation", "proargtypes"].iter().any(|vector| name.ends_with(vector))
}

fn names_vector(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => is_vector(name),
        Expr::CompoundIdentifier(names) => names.last().is_some_and(is_vector),
        _ => false,
    }
}

/// Whether a column has type regproc, which is a name when cast to text.
fn names_function(expr: &Expr) -> bool {
    let is_function = |name: &Ident| {
        let name = name.value.to_lowercase();
        ["typinput", "typoutput", "typreceive", "typsend", "typsubscript", "amhandler"].contains(&name.as_str())
    };
    match expr {
        Expr::Identifier(name) => is_function(name),
        Expr::CompoundIdentifier(names) => names.last().is_some_and(is_function),
        _ => false,
    }
}

fn plain_call(function: &mut Function) -> Option<Expr> {
    let name = function.name.0.last()?.as_ident()?.value.to_lowercase();
    if let [ObjectNamePart::Identifier(schema), last] = function.name.0.as_slice()
        && matches!(schema.value.as_str(), "pg_catalog" | "information_schema")
    {
        function.name = ObjectName(vec![last.clone()]);
    }
    match name.as_str() {
        "_pg_expandarray" => Some(call("unnest", vec![call("millrace_expand", arguments(function)?)])),
        "generate_subscripts" => {
            let arguments = arguments(function)?;
            let vector = arguments.first().is_some_and(names_vector);
            let name = if vector { "millrace_vector_subscripts" } else { "millrace_subscripts" };
            Some(call("unnest", vec![call(name, arguments)]))
        }
        // Millrace has no partitions: the only ancestor of a table is the table itself.
        "pg_partition_ancestors" => Some(call("oidin", arguments(function)?)),
        "coalesce" => {
            empty_arrays(function);
            None
        }
        // A quoted call is in FROM, where its rows are already unnested.
        "generate_series" if !is_quoted(function) => {
            Some(call("unnest", vec![function_of("generate_series", function.args.clone())]))
        }
        "to_timestamp" if arguments(function)?.len() == 2 => Some(call("millrace_to_timestamp", arguments(function)?)),
        "localtime" if matches!(function.args, FunctionArguments::None) => {
            Some(cast(call("now", Vec::new()), DataType::Time(None, ast::TimezoneInfo::None)))
        }
        "mod" => remainder(arguments(function)?),
        "to_date" if arguments(function)?.len() == 2 => Some(call("millrace_to_date", arguments(function)?)),
        "age" => age(arguments(function)?),
        "make_interval" => {
            by_position(function, &["years", "months", "weeks", "days", "hours", "mins", "secs"]);
            None
        }
        // DataFusion's function has no zone argument.
        "date_trunc" if arguments(function)?.len() == 3 => Some(call("millrace_date_trunc", arguments(function)?)),
        "time_bucket" => {
            by_position(function, &["bucket_width", "ts", "timezone", "origin", "offset"]);
            None
        }
        "time_bucket_gapfill" => {
            by_position(function, &["bucket_width", "ts", "timezone", "start", "finish"]);
            None
        }
        "locf" | "interpolate" => {
            let third = if name == "locf" { "treat_null_as_missing" } else { "next" };
            by_position(function, &["value", "prev", third]);
            lookups::outermost_rows(function);
            None
        }
        _ => None,
    }
}

fn is_quoted(function: &Function) -> bool {
    function.name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|name| name.quote_style.is_some())
}

fn remainder(arguments: Vec<Expr>) -> Option<Expr> {
    let [left, right] = <[Expr; 2]>::try_from(arguments).ok()?;
    let nested = |expr: Expr| Box::new(Expr::Nested(Box::new(expr)));
    let remainder = Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) };
    Some(Expr::Nested(Box::new(remainder)))
}

/// `age` of two times, or of one time and today; `age` of a transaction ID is another function.
fn age(mut arguments: Vec<Expr>) -> Option<Expr> {
    let of_transaction = match arguments.as_slice() {
        [Expr::Identifier(name)] => name.value.to_lowercase().ends_with("xid"),
        [Expr::CompoundIdentifier(names)] => names.last()?.value.to_lowercase().ends_with("xid"),
        [_] | [_, _] => false,
        _ => true,
    };
    if of_transaction {
        return None;
    }
    if arguments.len() == 1 {
        arguments.insert(0, call("current_date", Vec::new()));
    }
    Some(call("millrace_age", arguments))
}

/// Rewrites `coalesce(array, '{}')`.
fn empty_arrays(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && literal(expr) == Some("{}")
        {
            *expr = call("make_array", Vec::new());
        }
    }
}

/// Converts named arguments to positional ones in the order of `names`; omitted ones in between are NULL.
fn by_position(function: &mut Function, names: &[&str]) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let mut places: Vec<Option<FunctionArg>> = Vec::new();
    for (at, argument) in std::mem::take(&mut list.args).into_iter().enumerate() {
        let (place, argument) = match assigned(argument) {
            FunctionArg::Named { name, arg, .. } => (place_of(names, &name), FunctionArg::Unnamed(arg)),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => {
                (place_of(names, &name), FunctionArg::Unnamed(arg))
            }
            other => (Some(at), other),
        };
        let place = place.unwrap_or(at);
        places.resize((place + 1).max(places.len()), None);
        places[place] = Some(argument);
    }
    let filled =
        |place: Option<FunctionArg>| place.unwrap_or_else(|| FunctionArg::Unnamed(FunctionArgExpr::Expr(null())));
    list.args = places.into_iter().map(filled).collect();
}

/// Converts `f(x := y)`, which the parser takes for an operator, to a named argument.
fn assigned(argument: FunctionArg) -> FunctionArg {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Assignment, right })) => {
            match *left {
                Expr::Identifier(name) => {
                    let operator = FunctionArgOperator::Assignment;
                    FunctionArg::Named { name, arg: FunctionArgExpr::Expr(*right), operator }
                }
                left => {
                    let (left, op) = (Box::new(left), BinaryOperator::Assignment);
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op, right }))
                }
            }
        }
        other => other,
    }
}

fn place_of(names: &[&str], name: &Ident) -> Option<usize> {
    names.iter().position(|known| name.value.eq_ignore_ascii_case(known))
}

/// Query of `ARRAY(SELECT …)`.
fn array_query(expr: &Expr) -> Option<&Query> {
    let Expr::Function(function) = expr else { return None };
    match (&function.args, function.name.0.as_slice()) {
        (FunctionArguments::Subquery(query), [ObjectNamePart::Identifier(name)])
            if name.value.eq_ignore_ascii_case("array") =>
        {
            Some(query)
        }
        _ => None,
    }
}

fn array_subquery(expr: &Expr) -> Option<Expr> {
    let mut query = array_query(expr)?.clone();
    let order = order_of(&query);
    let select = single_select(&mut query)?;
    if let Some(over_unnest) = of_unnest(select) {
        return Some(over_unnest);
    }
    let [item] = select.projection.as_mut_slice() else { return None };
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) = item else { return None };
    let mut list = argument_list(vec![value.clone()]);
    // ORDER BY 1 refers to the value itself.
    let order: Vec<_> = order
        .into_iter()
        .map(|mut by| {
            by.expr = if matches!(by.expr, Expr::Value(_)) { value.clone() } else { by.expr };
            by
        })
        .collect();
    if !order.is_empty() {
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
    *item = SelectItem::UnnamedExpr(function("array_agg", list));
    query.order_by = None;
    Some(Expr::Subquery(Box::new(query)))
}

fn order_of(query: &Query) -> Vec<datafusion::sql::sqlparser::ast::OrderByExpr> {
    match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => order.clone(),
        _ => Vec::new(),
    }
}

/// Rewrites `SELECT x FROM unnest(a) x` to `a`; `SELECT 'p' || x FROM unnest(a) x` prefixes each element with `p`.
fn of_unnest(select: &Select) -> Option<Expr> {
    let ([from], [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }], None) =
        (select.from.as_slice(), select.projection.as_slice(), &select.selection)
    else {
        return None;
    };
    let array = match &from.relation {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.first()?.clone(),
        TableFactor::Table { name, args: Some(args), .. } if last_name(name)? == "unnest" => match args.args.first()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(array)) => array.clone(),
            _ => return None,
        },
        _ => return None,
    };
    match item {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Some(array),
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } if matches!(**right, Expr::Identifier(_)) => {
            Some(call("millrace_prefix", vec![array, (**left).clone()]))
        }
        _ => None,
    }
}

/// Rewrites a scalar subquery over the catalog: NULL if it cannot return a row, an aggregate if it may be correlated.
fn scalar_subquery(query: &mut Query) -> Option<Expr> {
    if query.limit_clause.is_some() || query.fetch.is_some() || query.with.is_some() {
        return None;
    }
    let select = single_select(query)?;
    if select.from.is_empty() || !select.from.iter().all(is_catalog) || select.projection.len() != 1 {
        return None;
    }
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) =
        select.projection.first_mut()?
    else {
        return None;
    };
    if is_aggregate(value) {
        return None;
    }
    if select.from.iter().any(is_empty) {
        return Some(cast(null(), DataType::Text));
    }
    if let Some((family, inner)) = registered(value) {
        *value = call(&format!("{family}out"), vec![inner]);
    }
    if let Some(value) = lookups::sequence(select) {
        return Some(value);
    }
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) =
        select.projection.first_mut()?
    else {
        return None;
    };
    *value = call("max", vec![value.clone()]);
    let condition = outer_condition(select);
    query.order_by = None;
    condition.map(|condition| when(condition, Expr::Subquery(Box::new(query.clone()))))
}

/// `CASE WHEN condition THEN result END`
pub(super) fn when(condition: Expr, result: Expr) -> Expr {
    let (case_token, end_token) = (AttachedToken::empty(), AttachedToken::empty());
    let conditions = vec![ast::CaseWhen { condition, result }];
    Expr::Case { case_token, end_token, operand: None, conditions, else_result: None }
}

/// Removes from WHERE, and returns, the conditions on columns of outer queries only: DataFusion decorrelates
/// equalities alone.
fn outer_condition(select: &mut Select) -> Option<Expr> {
    let mut own = Vec::new();
    for from in &select.from {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            let TableFactor::Table { name, alias, .. } = factor else { return None };
            own.push(
                alias.as_ref().map_or_else(|| last_name(name).unwrap_or_default(), |alias| alias.name.value.clone()),
            );
        }
    }
    let mut parts = Vec::new();
    conjuncts(select.selection.take()?, &mut parts);
    let (outer, inner): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(|part| is_outer(part, &own));
    select.selection = inner.into_iter().reduce(and);
    outer.into_iter().reduce(and)
}

pub(super) fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

pub(super) fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, out);
            conjuncts(*right, out);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            conjuncts(*inner, out)
        }
        other => out.push(other),
    }
}

/// Whether it has at least one column, all of its columns are qualified and of tables other than `own`, and it has no
/// subqueries.
pub(super) fn is_outer(expr: &Expr, own: &[String]) -> bool {
    let (mut outer, mut inner) = (false, false);
    let _: ControlFlow<()> = ast::visit_expressions(expr, |expr| {
        match expr {
            Expr::CompoundIdentifier(names) => match names.len().checked_sub(2).and_then(|at| names.get(at)) {
                Some(table) if !own.contains(&table.value) => outer = true,
                _ => inner = true,
            },
            Expr::Identifier(_) | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => inner = true,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    outer && !inner
}

fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.to_lowercase());
    let name = name.unwrap_or_default();
    matches!(
        name.as_str(),
        "count"
            | "max"
            | "min"
            | "sum"
            | "avg"
            | "array_agg"
            | "string_agg"
            | "bool_and"
            | "bool_or"
            | "every"
            | "json_agg"
    )
}

fn single_select(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

/// Whether the relation, or one that is inner-joined to it, never has rows.
fn is_empty(from: &TableWithJoins) -> bool {
    use datafusion::sql::sqlparser::ast::JoinOperator;
    let inner = |join: &&datafusion::sql::sqlparser::ast::Join| {
        matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
    };
    let hollow = |factor: &TableFactor| catalog_relation(factor).is_some_and(|relation| relation.empty);
    hollow(&from.relation)
        && !from.joins.iter().any(|join| {
            !inner(&join) && !matches!(join.join_operator, JoinOperator::LeftOuter(_) | JoinOperator::Left(_))
        })
        || from.joins.iter().filter(inner).any(|join| hollow(&join.relation))
}

fn is_catalog(from: &TableWithJoins) -> bool {
    let known = |factor: &TableFactor| catalog_relation(factor).is_some();
    known(&from.relation) && from.joins.iter().all(|join| known(&join.relation))
}

fn catalog_relation(factor: &TableFactor) -> Option<&'static super::cells::Relation> {
    let TableFactor::Table { name, args: None, .. } = factor else { return None };
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(table)] => relations::find("pg_catalog", &table.value),
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)] => {
            relations::find(&schema.value, &table.value)
        }
        _ => None,
    }
}

/// Removes the schema of `FROM pg_catalog.f(…)`, and converts `unnest` to the AST node that the parser creates
/// without a schema.
fn table_function(factor: &mut TableFactor) {
    if let Some(derived) = of_value(factor) {
        *factor = derived;
        return;
    }
    let TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } = factor else { return };
    if let [ObjectNamePart::Identifier(schema), last] = name.0.as_slice()
        && schema.value == "pg_catalog"
    {
        *name = ObjectName(vec![last.clone()]);
    }
    if last_name(name).as_deref() == Some("generate_series") && !*with_ordinality {
        *alias = Some(series_alias(alias.take()));
    }
    if last_name(name).as_deref() == Some("generate_series") && is_series_of_times(&args.args) {
        let array = Expr::Function(series_of_times(&args.args));
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs: vec![array],
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
        return;
    }
    if last_name(name).as_deref() == Some("generate_series") {
        for argument in &mut args.args {
            // DataFusion's function accepts bigint and no other integer type.
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(bound)) = argument
                && is_integer_to_be(bound)
            {
                *bound = cast(bound.clone(), DataType::BigInt(None));
            }
        }
    }
    if last_name(name).as_deref() == Some("unnest") {
        let argument = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        };
        let array_exprs: Vec<Expr> = args.args.iter().filter_map(argument).collect();
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
    }
}

/// Set-returning functions in FROM that DataFusion or Millrace resolves by name.
const OF_ROWS: [&str; 12] = [
    "generate_series",
    "range",
    "unnest",
    "pg_get_keywords",
    "json_each",
    "jsonb_each",
    "json_array_elements",
    "jsonb_array_elements",
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "_pg_expandarray",
];

/// Rewrites `f(x)` in FROM, for a function that returns a value, to a derived table with one row.
fn of_value(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } = factor else { return None };
    let function = last_name(name)?;
    if OF_ROWS.contains(&function.as_str())
        || crate::files::FilesTable::is_function(&function)
        || relations::find("()", &function).is_some()
    {
        return None;
    }
    let of_alias =
        |alias: &TableAlias| alias.columns.first().map_or_else(|| alias.name.clone(), |column| column.name.clone());
    let column = alias.as_ref().map_or_else(|| Ident::with_quote('"', &function), of_alias);
    let list: Vec<String> = args.args.iter().map(ToString::to_string).collect();
    let text = format!("SELECT {name}({}) AS {column}", list.join(", "));
    let dialect = compiled::PostgreSql;
    let parsed = datafusion::sql::sqlparser::parser::Parser::parse_sql(&dialect, &text).ok()?;
    let [Statement::Query(query)] = <[Statement; 1]>::try_from(parsed).ok()? else { return None };
    let named = || TableAlias {
        explicit: true,
        name: Ident::with_quote('"', function.as_str()),
        columns: Vec::new(),
        at: None,
    };
    Some(TableFactor::Derived {
        lateral: false,
        subquery: query,
        alias: Some(alias.clone().unwrap_or_else(named)),
        sample: None,
    })
}

/// Whether a bound may be an integer of a type other than bigint: a call, a parameter or an integer expression.
fn is_integer_to_be(bound: &Expr) -> bool {
    match bound {
        Expr::Function(_) => true,
        Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
        bound => is_of_integers(bound),
    }
}

/// Whether an expression consists of integers only.
fn is_of_integers(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(number, _) => number.bytes().all(|byte| byte.is_ascii_digit()),
            value => matches!(value, ast::Value::Placeholder(_)),
        },
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_of_integers(expr),
        Expr::BinaryOp { left, right, .. } => is_of_integers(left) && is_of_integers(right),
        Expr::Cast { data_type, .. } => matches!(
            data_type,
            DataType::SmallInt(_)
                | DataType::Int(_)
                | DataType::Integer(_)
                | DataType::BigInt(_)
                | DataType::Int2(_)
                | DataType::Int4(_)
                | DataType::Int8(_)
        ),
        _ => false,
    }
}

/// Whether the step is not a number.
fn is_series_of_times(args: &[FunctionArg]) -> bool {
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(step))) = args.get(2) else { return false };
    match step {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        other => literal(other).is_some(),
    }
}

fn series_of_times(args: &[FunctionArg]) -> Function {
    let step = |step: &Expr| literal(step).and_then(|text| interval(text, None)).unwrap_or_else(|| step.clone());
    let argument = |(at, argument): (usize, &FunctionArg)| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if at == 2 => {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(step(expr)))
        }
        other => other.clone(),
    };
    let args = args.iter().enumerate().map(argument).collect();
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    let mut series = plain_function("generate_series", FunctionArguments::List(list));
    series.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', "generate_series"))]);
    series
}

/// Alias for a function in FROM, which also names its column.
fn series_alias(alias: Option<TableAlias>) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new("generate_series"),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    alias
}

pub(super) fn last_name(name: &ObjectName) -> Option<String> {
    Some(name.0.last()?.as_ident()?.value.to_lowercase())
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

pub(super) fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

fn identifier(parts: &[Ident]) -> Expr {
    match parts {
        [one] => Expr::Identifier(one.clone()),
        many => Expr::CompoundIdentifier(many.to_vec()),
    }
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    function(name, argument_list(arguments))
}

fn argument_list(arguments: Vec<Expr>) -> FunctionArgumentList {
    let args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }
}

fn function(name: &str, list: FunctionArgumentList) -> Expr {
    function_of(name, FunctionArguments::List(list))
}

fn function_of(name: &str, args: FunctionArguments) -> Expr {
    Expr::Function(plain_function(name, args))
}

fn plain_function(name: &str, args: FunctionArguments) -> Function {
    Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}
