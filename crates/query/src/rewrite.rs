//! Rewrites the syntax tree before planning, so that output columns get PostgreSQL's names and types.
//!
//! - Every unnamed item of a SELECT gets PostgreSQL's name (`count`, `?column?`). If two items share a name,
//!   the later ones get a private alias, because DataFusion requires unique names; [`display_name`] restores
//!   the original name.
//! - An alias of the outermost SELECT that ORDER BY also uses as a table's column (`SELECT t.a::text … ORDER
//!   BY t.a`) becomes private too, because DataFusion would find the column's name ambiguous.
//! - A number with an exponent becomes a float: DataFusion reads it as a decimal, and few such numbers fit.
//! - Ranks, row numbers, array lengths and array positions become signed integers (DataFusion's are
//!   unsigned).
//! - `= ANY ('{a,b}')` becomes an IN list of constants, which get the type of the left operand.
//! - Integer literals that stand alone become `integer` (DataFusion reads them as `bigint`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LimitClause, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, UnaryOperator, Value, VisitMut,
    VisitorMut,
};

/// First character of a private alias; the item's number, a colon and the display name follow.
const PRIVATE: char = '\u{1}';

/// Display name of the output column that DataFusion calls `name`.
pub(crate) fn display_name(name: &str) -> &str {
    match name.strip_prefix(PRIVATE) {
        Some(rest) => rest.split_once(':').map_or(rest, |(_, shown)| shown),
        None => name,
    }
}

/// Applies all rewrites.
pub(crate) fn rewrite(statement: &mut ast::Statement) {
    let _ = statement.visit(&mut Rewriter);
    if let ast::Statement::Query(query) = statement {
        keep_order_apart(query);
    }
}

/// Makes aliases private that would make columns of ORDER BY ambiguous.
fn keep_order_apart(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else { return };
    let ast::OrderByKind::Expressions(order) = &mut order.kind else { return };
    let mut columns = QualifiedColumns::default();
    for item in order.iter_mut() {
        let _ = item.expr.visit(&mut columns);
    }
    for (number, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = folded(alias);
        if !columns.0.contains(&name) || matches!(expr, Expr::CompoundIdentifier(_)) {
            continue;
        }
        *alias = Ident::with_quote('"', private(number, &name));
        for by in order.iter_mut() {
            if matches!(&by.expr, Expr::Identifier(ident) if folded(ident) == name) {
                by.expr = Expr::Identifier(alias.clone());
            }
        }
    }
}

/// Collects the column part of qualified names such as `t.a`.
#[derive(Default)]
struct QualifiedColumns(BTreeSet<String>);

impl VisitorMut for QualifiedColumns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(last) = parts.last()
        {
            self.0.insert(folded(last));
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites `FETCH FIRST n ROWS ONLY` to `LIMIT n`.
fn limit_of_fetch(query: &mut Query) {
    let Some(fetch) = query.fetch.take_if(|fetch| !fetch.with_ties && !fetch.percent) else { return };
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let count = Some(fetch.quantity.clone().unwrap_or_else(one));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset { limit: count, offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = count,
        Some(_) => query.fetch = Some(fetch),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        demote_values(&mut query.body);
        limit_of_fetch(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_items(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter_mut().for_each(|when| demote(&mut when.result));
                if let Some(result) = else_result {
                    demote(result);
                }
            }
            Expr::Value(value) if matches!(&value.value, Value::Number(text, _) if text.contains(['e', 'E'])) => {
                let text = Value::SingleQuotedString(value.value.to_string());
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::Value(text.into())),
                    data_type: DataType::DoublePrecision,
                    array: false,
                    format: None,
                };
            }
            Expr::AnyOp { compare_op: BinaryOperator::Eq, right, .. }
            | Expr::AllOp { compare_op: BinaryOperator::NotEq, right, .. } => {
                if let Some(list) = items_of(right) {
                    among(expr, list);
                }
            }
            Expr::Function(function) if cast_by_name(function).is_some() => {
                if let Some((inner, data_type)) = cast_by_name(function) {
                    *expr = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: Box::new(inner.clone()),
                        data_type,
                        array: false,
                        format: None,
                    };
                }
            }
            Expr::Substring { expr: text, substring_from: Some(pattern), substring_for: None, .. } if matches!(&**pattern, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) =>
            {
                let null = || Expr::Value(Value::Null.into());
                let text = std::mem::replace(&mut **text, null());
                let pattern = std::mem::replace(&mut **pattern, null());
                let found = call("regexp_match", vec![text, pattern]);
                *expr = call("array_element", vec![found, Expr::Value(Value::Number("1".into(), false).into())]);
            }
            Expr::Function(function) if takes_values(&function.name) => demote_arguments(&mut function.args),
            Expr::Function(function) => {
                let is_window = function.over.is_some();
                let data_type = if is_window { rank_type(&function.name) } else { count_type(&function.name) };
                if let Some(data_type) = data_type {
                    let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                    *expr = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: Box::new(inner),
                        data_type,
                        array: false,
                        format: None,
                    };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Elements of an array literal: `'{a,b}'`.
fn items_of(array: &Expr) -> Option<Vec<Expr>> {
    let text = match array {
        Expr::Nested(inner) => return items_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return None,
        },
        _ => return None,
    };
    let item = |item: Option<Cow<'_, str>>| {
        let value = item.map_or(Value::Null, |text| Value::SingleQuotedString(text.into_owned()));
        Expr::Value(value.into())
    };
    Some(pg::array::parse_array_text(text).ok()?.into_iter().map(item).collect())
}

/// Rewrites `= ANY` and `<> ALL` of an array literal to an IN list: its items get the type of the left
/// operand, which DataFusion does not infer for an array.
fn among(expr: &mut Expr, list: Vec<Expr>) {
    let (left, negated) = match std::mem::replace(expr, Expr::Value(Value::Null.into())) {
        Expr::AnyOp { left, .. } => (left, false),
        Expr::AllOp { left, .. } => (left, true),
        other => {
            *expr = other;
            return;
        }
    };
    *expr = if list.is_empty() {
        Expr::Value(Value::Boolean(negated).into())
    } else {
        Expr::InList { expr: left, list, negated }
    };
}

/// A type name called as a function, which casts its only argument: `date('2024-01-01')`.
fn cast_by_name(function: &ast::Function) -> Option<(&Expr, DataType)> {
    use ast::{ExactNumberInfo, TimezoneInfo};
    let FunctionArguments::List(list) = &function.args else { return None };
    let ([FunctionArg::Unnamed(FunctionArgExpr::Expr(of))], [name]) = (list.args.as_slice(), &*function.name.0) else {
        return None;
    };
    let name = name.as_ident().map(folded)?;
    let to = match name.as_str() {
        "bool" => DataType::Boolean,
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Integer(None),
        "int8" => DataType::BigInt(None),
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "numeric" => DataType::Numeric(ExactNumberInfo::None),
        "text" => DataType::Text,
        "varchar" => DataType::Varchar(None),
        "bytea" => DataType::Bytea,
        "uuid" => DataType::Uuid,
        "date" => DataType::Date,
        "time" => DataType::Time(None, TimezoneInfo::None),
        "timestamp" => DataType::Timestamp(None, TimezoneInfo::None),
        "timestamptz" => DataType::Timestamp(None, TimezoneInfo::Tz),
        "interval" => DataType::Interval { fields: None, precision: None },
        _ => return None,
    };
    Some((of, to))
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into_iter().map(|one| FunctionArg::Unnamed(FunctionArgExpr::Expr(one))).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Result type of a window function that numbers rows.
fn rank_type(name: &ast::ObjectName) -> Option<DataType> {
    Some(match name.to_string().to_ascii_lowercase().as_str() {
        "row_number" | "rank" | "dense_rank" => DataType::BigInt(None),
        "ntile" => DataType::Integer(None),
        _ => return None,
    })
}

/// Result type of an array function that returns a count or a position.
fn count_type(name: &ast::ObjectName) -> Option<DataType> {
    let counts = ["cardinality", "array_length", "array_ndims", "array_position"];
    let name = name.to_string();
    counts.iter().any(|known| name.eq_ignore_ascii_case(known)).then_some(DataType::Integer(None))
}

fn takes_values(name: &ast::ObjectName) -> bool {
    let name = name.to_string();
    ["coalesce", "nullif", "greatest", "least", "max", "min"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn demote_arguments(arguments: &mut FunctionArguments) {
    let FunctionArguments::List(list) = arguments else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
            demote(expr);
        }
    }
}

fn demote_values(body: &mut SetExpr) {
    if let SetExpr::Values(values) = body {
        values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(demote);
    }
}

/// Casts a lone integer literal to `integer` if it fits.
fn demote(expr: &mut Expr) {
    if is_int4(expr) {
        let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(inner),
            data_type: DataType::Integer(None),
            array: false,
            format: None,
        };
    }
}

fn is_int4(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if text.parse::<i32>().is_ok()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_int4(expr),
        _ => false,
    }
}

fn name_items(select: &mut Select) {
    let mut taken: BTreeSet<String> = select.projection.iter().filter_map(explicit_name).collect();
    let wild = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let starred: BTreeSet<String> = select.projection.iter().filter_map(starred).collect();
    let mut seen = BTreeSet::new();
    let from = std::mem::take(&mut select.from);
    for (number, item) in select.projection.iter_mut().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let name = name_of(expr).unwrap_or_else(|| "?column?".to_owned());
                // The columns of `*` are unknown here, but a qualified column of a catalog relation that is
                // not starred is not one of them.
                let wild = wild && !(plain && is_of_catalog(expr, &from, &starred));
                let first =
                    if plain { seen.insert(name.clone()) && !wild } else { taken.insert(name.clone()) && !wild };
                demote(expr);
                // A plain column keeps its qualified name, which later clauses may use.
                if plain && first {
                    continue;
                }
                let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                let alias = if first { name } else { private(number, &name) };
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) };
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                demote(expr);
                let name = folded(alias);
                if !seen.insert(name.clone()) {
                    *alias = Ident::with_quote('"', private(number, &name));
                }
            }
            _ => {}
        }
    }
    select.from = from;
}

/// The table of `t.*`; an empty name for `*`, which includes all tables.
fn starred(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::QualifiedWildcard(kind, _) => Some(kind.to_string().trim_end_matches(".*").to_owned()),
        SelectItem::Wildcard(_) => Some(String::new()),
        _ => None,
    }
}

/// Whether the expression is a qualified column of a catalog relation that is not in `starred`.
fn is_of_catalog(expr: &Expr, from: &[TableWithJoins], starred: &BTreeSet<String>) -> bool {
    let Expr::CompoundIdentifier(names) = expr else { return false };
    let [table, _] = names.as_slice() else { return false };
    if starred.contains("") || starred.contains(&table.value) {
        return false;
    }
    let factors = from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let mut named = factors.filter_map(|factor| match factor {
        TableFactor::Table { name, alias, .. } => Some((name, alias.as_ref()?)),
        _ => None,
    });
    named.any(|(name, alias)| {
        let name = name.0.last().and_then(|part| part.as_ident());
        alias.name.value == table.value && name.is_some_and(|name| name.value.starts_with("pg_"))
    })
}

fn private(number: usize, name: &str) -> String {
    format!("{PRIVATE}{number}:{name}")
}

fn explicit_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => name_of(expr),
        _ => None,
    }
}

/// An identifier in SQL's case folding: lower case unless quoted.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// PostgreSQL's name for an expression, if it is not `?column?`.
fn name_of(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(parts) => folded(parts.last()?),
        Expr::CompoundFieldAccess { root, .. } => return name_of(root),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return name_of(inner),
        Expr::AtTimeZone { .. } => "timezone".to_owned(),
        Expr::Function(function) => function.name.0.last()?.as_ident().map(folded)?,
        Expr::Cast { expr, data_type, .. } => return name_of(expr).or_else(|| type_name(data_type)),
        Expr::TypedString(typed) => return type_name(&typed.data_type),
        Expr::Interval(_) => "interval".to_owned(),
        Expr::Case { else_result, .. } => {
            return else_result.as_deref().and_then(name_of).or_else(|| Some("case".to_owned()));
        }
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim".to_owned(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".to_owned(),
            _ => "btrim".to_owned(),
        },
        Expr::Overlay { .. } => "overlay".to_owned(),
        Expr::Ceil { .. } => "ceil".to_owned(),
        Expr::Floor { .. } => "floor".to_owned(),
        Expr::Exists { negated: false, .. } => "exists".to_owned(),
        Expr::Array(_) => "array".to_owned(),
        Expr::Tuple(_) => "row".to_owned(),
        Expr::Value(value) => match &value.value {
            Value::Boolean(_) => "bool".to_owned(),
            _ => return None,
        },
        Expr::Subquery(query) => return subquery_name(query),
        _ => return None,
    })
}

fn subquery_name(query: &Query) -> Option<String> {
    match query.body.as_ref() {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => name_of(expr),
            SelectItem::ExprWithAlias { alias, .. } => Some(display_name(&folded(alias)).to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// PostgreSQL's internal name of a type, which names the column of an unaliased cast of a literal.
fn type_name(ty: &DataType) -> Option<String> {
    Some(
        match ty {
            DataType::Integer(_) | DataType::Int(_) | DataType::Int4(_) => "int4",
            DataType::BigInt(_) | DataType::Int8(_) => "int8",
            DataType::SmallInt(_) | DataType::Int2(_) => "int2",
            DataType::Real | DataType::Float4 => "float4",
            DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => "float8",
            DataType::Boolean | DataType::Bool => "bool",
            DataType::Text => "text",
            DataType::Varchar(_) | DataType::CharacterVarying(_) => "varchar",
            DataType::Char(_) | DataType::Character(_) => "bpchar",
            DataType::Numeric(_) | DataType::Decimal(_) => "numeric",
            DataType::Date => "date",
            DataType::Bytea => "bytea",
            DataType::Uuid => "uuid",
            DataType::Interval { .. } => "interval",
            DataType::Timestamp(_, ast::TimezoneInfo::Tz | ast::TimezoneInfo::WithTimeZone) => "timestamptz",
            DataType::Timestamp(..) => "timestamp",
            DataType::Time(..) => "time",
            DataType::Custom(name, _) => return name.0.last()?.as_ident().map(folded),
            _ => return None,
        }
        .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse};

    fn names(sql: &str) -> Vec<String> {
        let parsed = parse(sql).unwrap();
        let Command::Sql(statement) = &parsed[0].0.command else { panic!("not SQL") };
        let mut statement = statement.clone();
        rewrite(&mut statement);
        let ast::Statement::Query(query) = statement else { panic!("no query") };
        let SetExpr::Select(select) = *query.body else { panic!("no select") };
        let name = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => display_name(&alias.value).to_owned(),
            SelectItem::UnnamedExpr(expr) => name_of(expr).unwrap(),
            _ => "*".to_owned(),
        };
        select.projection.iter().map(name).collect()
    }

    #[test]
    fn unnamed_columns_get_postgresqls_names() {
        let sql = "SELECT 1, 2+3, count(*), avg(t.v), Max(v) + 1, a, t.\"B\", a::int, '1'::int, now(), CASE WHEN a THEN 1 END, \
                   CASE WHEN a THEN 1 ELSE b END, extract(year from time), (SELECT x FROM y), EXISTS (SELECT 1), true, x AS \"?\"";
        let expected = [
            "?column?", "?column?", "count", "avg", "?column?", "a", "B", "a", "int4", "now", "case", "b", "extract",
            "x", "exists", "bool", "?",
        ];
        assert_eq!(names(sql), expected);
    }

    #[test]
    fn an_alias_steps_back_where_order_by_names_the_column() {
        for (sql, item, order) in [
            ("SELECT t.a::text FROM t ORDER BY t.a", "\u{1}0:a", "t.a"),
            ("SELECT f(t.a) AS a FROM t ORDER BY t.a, a", "\u{1}0:a", "t.a, \"\u{1}0:a\""),
            ("SELECT f(t.a) AS a FROM t ORDER BY a", "a", "a"),
            ("SELECT t.a AS a FROM t ORDER BY t.a", "a", "t.a"),
        ] {
            let parsed = parse(sql).unwrap();
            let Command::Sql(statement) = &parsed[0].0.command else { panic!("not SQL") };
            let mut statement = statement.clone();
            rewrite(&mut statement);
            let ast::Statement::Query(query) = statement else { panic!("no query") };
            let SetExpr::Select(select) = *query.body else { panic!("no select") };
            let SelectItem::ExprWithAlias { alias, .. } = &select.projection[0] else { panic!("no alias") };
            assert_eq!(alias.value, item, "{sql}");
            assert_eq!(query.order_by.unwrap().to_string(), format!("ORDER BY {order}"), "{sql}");
        }
    }

    #[test]
    fn ranks_and_row_numbers_are_integers() {
        for (sql, rewritten) in [
            ("SELECT row_number() OVER (ORDER BY a) AS r FROM t", "CAST(row_number() OVER (ORDER BY a) AS BIGINT)"),
            ("SELECT Dense_Rank() OVER (ORDER BY a) AS r FROM t", "CAST(Dense_Rank() OVER (ORDER BY a) AS BIGINT)"),
            ("SELECT ntile(4) OVER (ORDER BY a) AS r FROM t", "CAST(ntile(4) OVER (ORDER BY a) AS INTEGER)"),
            ("SELECT sum(a) OVER (ORDER BY a) AS r FROM t", "sum(a) OVER (ORDER BY a)"),
        ] {
            let parsed = parse(sql).unwrap();
            let Command::Sql(statement) = &parsed[0].0.command else { panic!("not SQL") };
            let mut statement = statement.clone();
            rewrite(&mut statement);
            let ast::Statement::Query(query) = statement else { panic!("no query") };
            let SetExpr::Select(select) = *query.body else { panic!("no select") };
            let SelectItem::ExprWithAlias { expr, .. } = &select.projection[0] else { panic!("no alias") };
            assert_eq!(expr.to_string(), rewritten, "{sql}");
        }
    }

    #[test]
    fn equal_names_stay_apart_for_the_planner_but_show_equal() {
        assert_eq!(names("SELECT count(*), count(*), a, a, *"), ["count", "count", "a", "a", "*"]);
    }
}
