//! Compiles the most common series statements directly from the AST. Planning takes about a millisecond, and a client
//! whose column list varies sends a new statement each time.
//!
//! Only expressions whose meaning does not depend on planning are supported: columns, constants and parameters of the
//! column's type, comparisons, aggregates and time buckets. `None` stands for all others, which DataFusion plans.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, IntervalUnit, Schema, TimeUnit};
use datafusion::common::Column;
use datafusion::execution::context::SessionState;
use datafusion::functions_nested::expr_fn::array_has;
use datafusion::logical_expr::expr::{AggregateFunction, InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, SortExpr};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast;
use model::{ColumnRole, TableName, TableRef};

use super::shape::{Compiler, Condition, Count, Shape, Sort, Source, Step, Union, Wanted};
use crate::context::StatementContext;
use crate::rewrite::folded;
use crate::types::{OutputColumn, array_of, arrow_of, arrow_of_oid, oid_of_arrow, output_column};

/// A compiled statement with its result columns and parameter types.
pub(crate) struct Direct {
    pub(crate) shape: Shape,
    pub(crate) columns: Vec<OutputColumn>,
    /// Types of `$1 ..`.
    pub(crate) parameters: Vec<Arrow>,
}

/// Compiles a query without planning it; `None` if it is not supported.
///
/// - `parameters`: highest `n` of any `$n`.
/// - `declared`: OIDs of parameter types that the client declared; 0 if undeclared.
pub(crate) fn compile(
    state: &SessionState,
    context: &StatementContext,
    sql: &ast::Statement,
    parameters: usize,
    declared: &[u32],
) -> Option<Direct> {
    let ast::Statement::Query(query) = sql else { return None };
    let mut selects = Vec::new();
    let is_distinct = selects_of(query, &mut selects)?;
    let zone = context.settings.time_zone();
    let mut types: Vec<Option<Arrow>> = declared.iter().map(|oid| arrow_of_oid(*oid, &zone)).collect();
    if declared.iter().zip(&types).any(|(oid, ty)| *oid != 0 && ty.is_none()) {
        return None;
    }
    types.resize(parameters, None);
    let mut first: Option<(Shape, Vec<Field>)> = None;
    let mut others = Vec::new();
    for Select { select, query } in selects {
        let (table, alias) = table_of(context, select)?;
        let mut binder = Binder { state, context, zone: Arc::clone(&zone), table, alias, types, named: Vec::new() };
        let (shape, fields) = binder.select(query, select)?;
        types = binder.types;
        match &first {
            None => first = Some((shape, fields)),
            Some((first, _)) if first.fields() == shape.fields() => others.push(shape),
            Some(_) => return None,
        }
    }
    let (mut shape, fields) = first?;
    if !others.is_empty() {
        (!fields.is_empty()).then_some(())?;
        shape.union = Some(Union::new(others, is_distinct, &fields));
    }
    let parameters = types.into_iter().collect::<Option<_>>()?;
    Some(Direct { shape, columns: fields.iter().map(output_column).collect(), parameters })
}

/// A SELECT, and its enclosing query if it has one of its own.
struct Select<'q> {
    select: &'q ast::Select,
    query: Option<&'q ast::Query>,
}

/// Collects the members of a UNION, or the query itself. Returns whether duplicates are removed.
fn selects_of<'q>(query: &'q ast::Query, out: &mut Vec<Select<'q>>) -> Option<bool> {
    if is_usual_query(query) { selects_in(&query.body, Some(query), out) } else { None }
}

/// `query`: the query whose body this is.
fn selects_in<'q>(body: &'q ast::SetExpr, query: Option<&'q ast::Query>, out: &mut Vec<Select<'q>>) -> Option<bool> {
    use ast::SetQuantifier as Q;
    let (op, quantifier, sides) = match body {
        ast::SetExpr::Select(select) if is_usual(select) => {
            out.push(Select { select, query });
            return Some(false);
        }
        ast::SetExpr::Query(query) => return selects_of(query, out),
        ast::SetExpr::SetOperation { op, set_quantifier, left, right } => (op, set_quantifier, [left, right]),
        _ => return None,
    };
    let is_distinct = match (op, quantifier) {
        (ast::SetOperator::Union, Q::None | Q::Distinct) => true,
        (ast::SetOperator::Union, Q::All) => false,
        _ => return None,
    };
    if query.is_some_and(|query| query.order_by.is_some() || query.limit_clause.is_some()) {
        return None;
    }
    for side in sides {
        // The inner UNION removes duplicates; an outer UNION ALL keeps them.
        if selects_in(side, None, out)? && !is_distinct {
            return None;
        }
    }
    Some(is_distinct)
}

/// Whether the query has only the clauses handled here.
fn is_usual_query(query: &ast::Query) -> bool {
    query.with.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty()
}

/// Whether the SELECT has only the clauses handled here.
fn is_usual(select: &ast::Select) -> bool {
    select.optimizer_hints.is_empty()
        && select.select_modifiers.is_none()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none()
        && matches!(select.flavor, ast::SelectFlavor::Standard)
}

/// The only `columns` table of FROM, and its alias.
fn table_of(context: &StatementContext, select: &ast::Select) -> Option<(TableRef, String)> {
    let [ast::TableWithJoins { relation, joins }] = select.from.as_slice() else { return None };
    let ast::TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return None;
    };
    if !joins.is_empty() || !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
        return None;
    }
    let parts: Vec<String> = name.0.iter().map(|part| part.as_ident().map(folded)).collect::<Option<_>>()?;
    let name = match parts.as_slice() {
        // System catalog tables take precedence.
        [table] if table.starts_with("pg_") => return None,
        [table] => context.resolve(table)?,
        [schema, table] => TableName { schema: schema.clone(), table: table.clone() },
        _ => return None,
    };
    let catalog = context.snapshot.catalog();
    if catalog.row_table(&name).is_some() || ["pg_catalog", "information_schema"].contains(&name.schema.as_str()) {
        return None;
    }
    let table = Arc::clone(catalog.table(&name)?);
    let alias = match alias {
        None => name.table,
        Some(alias) if alias.columns.is_empty() => folded(&alias.name),
        Some(_) => return None,
    };
    Some((table, alias))
}

struct Binder<'a> {
    state: &'a SessionState,
    context: &'a StatementContext,
    zone: Arc<str>,
    table: TableRef,
    alias: String,
    /// Parameter types found so far.
    types: Vec<Option<Arrow>>,
    /// Columns referred to, by position in the table.
    named: Vec<usize>,
}

/// Item of the select list.
struct Item {
    name: String,
    expr: Expr,
    is_aggregate: bool,
}

impl Binder<'_> {
    fn select(&mut self, query: Option<&ast::Query>, select: &ast::Select) -> Option<(Shape, Vec<Field>)> {
        let mut items = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            self.item(item, &mut items)?;
        }
        let mut conditions = Vec::new();
        if let Some(selection) = &select.selection {
            self.conditions(selection, &mut conditions)?;
        }
        let by = self.group_by(select, &items)?;
        let order = query.map_or_else(|| Some(Vec::new()), |query| self.order_by(query))?;
        let (skip, fetch) = query.map_or(Some((Count::Of(0), None)), |query| self.limits(query))?;
        let grouped = !by.is_empty() || items.iter().any(|item| item.is_aggregate);
        match &select.distinct {
            None if grouped => self.groups(items, conditions, &by, &order, (skip, fetch)),
            None => {
                let sort = self.sort(&order, &items)?;
                let wanted = self.wanted(conditions, &items, skip, fetch)?;
                let (outputs, fields) = outputs(items, &wanted);
                Some((self.compiler().of_rows(wanted, &outputs, &sort)?, fields))
            }
            Some(ast::Distinct::On(on)) if !grouped => {
                let on: Vec<Expr> = on.iter().map(|expr| self.column(expr)).collect::<Option<_>>()?;
                let sort = self.sort(&order, &items)?;
                let wanted = self.wanted(conditions, &items, skip, fetch)?;
                let (outputs, fields) = outputs(items, &wanted);
                Some((self.compiler().of_newest(wanted, &outputs, &on, &sort)?, fields))
            }
            Some(_) => None,
        }
    }

    fn compiler(&self) -> Compiler<'_> {
        Compiler { state: self.state }
    }

    /// Builds the request; call after all columns have been bound.
    fn wanted(
        &mut self,
        conditions: Vec<Condition>,
        items: &[Item],
        skip: Count,
        fetch: Option<Count>,
    ) -> Option<Wanted> {
        let is_always = |at: &usize| self.table.columns[*at].role != ColumnRole::Field;
        self.named.extend((0..self.table.columns.len()).filter(is_always));
        self.named.sort_unstable();
        self.named.dedup();
        let field = |at: &usize| {
            let column = &self.table.columns[*at];
            Field::new(&column.name, arrow_of(column.ty, &self.zone), column.nullable)
        };
        let schema = Arc::new(Schema::new(self.named.iter().map(field).collect::<Vec<_>>()));
        let result = items.iter().map(|item| Some(Field::new(&item.name, self.type_of(&item.expr)?, true)));
        let result = Arc::new(Schema::new(result.collect::<Option<Vec<_>>>()?));
        let source = Source { table: Arc::clone(&self.table), schema, conditions };
        Some(Wanted { source, skip, fetch, result })
    }

    /// Type of an item that is not an aggregate; `Null` for an aggregate.
    fn type_of(&self, expr: &Expr) -> Option<Arrow> {
        match expr {
            Expr::Column(column) => Some(arrow_of(self.table.column(&column.name)?.ty, &self.zone)),
            Expr::ScalarFunction(call) if call.func.name() == "epoch_ns" => Some(Arrow::Int64),
            Expr::ScalarFunction(_) => Some(arrow_of(self.table.time_column().ty, &self.zone)),
            _ => Some(Arrow::Null),
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Select list

    fn item(&mut self, item: &ast::SelectItem, out: &mut Vec<Item>) -> Option<()> {
        let (expr, alias) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, None),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(folded(alias))),
            ast::SelectItem::Wildcard(options) => {
                if *options != ast::WildcardAdditionalOptions::default() {
                    return None;
                }
                let columns = self.table.columns.iter();
                let item = |column: &model::Column| Item {
                    name: column.name.clone(),
                    expr: Expr::Column(Column::new_unqualified(&column.name)),
                    is_aggregate: false,
                };
                out.extend(columns.map(item));
                self.named.extend(0..self.table.columns.len());
                return Some(());
            }
            _ => return None,
        };
        let (name, expr, is_aggregate) = match expr {
            ast::Expr::Function(call) => {
                let name = function_name(call)?;
                match name.as_str() {
                    "time_bucket" | "epoch_ns" => (name, self.of_time(call)?, false),
                    _ => {
                        let aggregate = self.aggregate(&name, call)?;
                        (name, aggregate, true)
                    }
                }
            }
            expr => {
                let Expr::Column(column) = self.column(expr)? else { return None };
                (column.name.clone(), Expr::Column(column), false)
            }
        };
        out.push(Item { name: alias.unwrap_or(name), expr, is_aggregate });
        Some(())
    }

    /// Resolves a column name.
    fn column(&mut self, expr: &ast::Expr) -> Option<Expr> {
        let name = match expr {
            ast::Expr::Identifier(name) => folded(name),
            ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] if folded(table) == self.alias => folded(name),
                _ => return None,
            },
            ast::Expr::Nested(inner) => return self.column(inner),
            _ => return None,
        };
        let at = self.table.columns.iter().position(|column| column.name == name)?;
        self.named.push(at);
        Some(Expr::Column(Column::new_unqualified(name)))
    }

    /// `time_bucket(width, time [, zone | origin | offset])` and `epoch_ns(time)`.
    fn of_time(&mut self, call: &ast::Function) -> Option<Expr> {
        let name = function_name(call)?;
        let arguments = arguments(call)?;
        let function = Arc::clone(self.state.scalar_functions().get(&name)?);
        let time = |binder: &mut Self, expr: &ast::Expr| {
            binder.column(expr).filter(|expr| {
                let Expr::Column(column) = expr else { return false };
                column.name == binder.table.time_column().name
            })
        };
        let args = match (name.as_str(), arguments.as_slice()) {
            ("epoch_ns", [of]) if !self.table.time_is_number() => vec![time(self, of)?],
            ("time_bucket", [width, of, offset @ ..]) if offset.len() <= 1 && self.table.time_is_number() => {
                let mut args = vec![self.constant(width, &Arrow::Int64)?, time(self, of)?];
                if let [offset] = offset {
                    args.push(self.constant(offset, &Arrow::Int64)?);
                }
                args
            }
            ("time_bucket", [width, of, rest @ ..]) if rest.len() <= 1 && !self.table.time_is_number() => {
                let width = ScalarValue::Utf8(Some(string(width)?.to_owned()));
                let width = width.cast_to(&Arrow::Interval(IntervalUnit::MonthDayNano)).ok()?;
                let mut args = vec![Expr::Literal(width, None), time(self, of)?];
                match rest {
                    [] => {}
                    [zone @ ast::Expr::Value(_)] => {
                        args.push(Expr::Literal(ScalarValue::Utf8(Some(string(zone)?.to_owned())), None));
                    }
                    [origin] => args.push(self.constant(origin, &self.time_type())?),
                    _ => return None,
                }
                args
            }
            _ => return None,
        };
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)))
    }

    fn time_type(&self) -> Arrow {
        arrow_of(self.table.time_column().ty, &self.zone)
    }

    fn aggregate(&mut self, name: &str, call: &ast::Function) -> Option<Expr> {
        use Arrow::{Float32, Float64, Int16, Int32, Int64, Timestamp};
        if !["count", "sum", "avg", "min", "max", "first", "last"].contains(&name) {
            return None;
        }
        let args = if name == "count" && is_star(call) {
            vec![Expr::Literal(ScalarValue::Int64(Some(1)), None)]
        } else {
            arguments(call)?.into_iter().map(|expr| self.column(expr)).collect::<Option<Vec<_>>>()?
        };
        let types: Vec<Arrow> = args.iter().map(|expr| self.type_of(expr)).collect::<Option<_>>()?;
        let is_moment = |ty: &Arrow| matches!(ty, Timestamp(TimeUnit::Nanosecond, Some(_)));
        // Same coercions as DataFusion's.
        let to = match (name, types.as_slice()) {
            ("count", [_]) => None,
            ("sum", [Int16 | Int32]) => Some(Int64),
            ("sum" | "avg", [Float64]) => None,
            ("sum", [Float32]) => Some(Float64),
            ("avg", [Int16 | Int32 | Int64 | Float32]) => Some(Float64),
            ("min" | "max", [Int16 | Int32 | Int64 | Float32 | Float64]) => None,
            ("min" | "max", [ty]) if is_moment(ty) => None,
            ("first" | "last", [_, ty]) if is_moment(ty) => None,
            _ => return None,
        };
        let args = args.into_iter().map(|arg| match &to {
            Some(ty) => Expr::Cast(Cast::new(Box::new(arg), ty.clone())),
            None => arg,
        });
        let filter = match &call.filter {
            Some(filter) => {
                let filter = self.predicate(filter)?;
                // Parameters are supported in WHERE only.
                let has = datafusion::common::tree_node::TreeNode::exists(&filter, |expr| {
                    Ok(matches!(expr, Expr::Placeholder(_)))
                });
                Some(Box::new(has.is_ok_and(|has| !has).then_some(filter)?))
            }
            None => None,
        };
        let function = Arc::clone(self.state.aggregate_functions().get(name)?);
        let call = AggregateFunction::new_udf(function, args.collect(), false, filter, Vec::new(), None);
        Some(Expr::AggregateFunction(call))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // WHERE

    fn conditions(&mut self, expr: &ast::Expr, out: &mut Vec<Condition>) -> Option<()> {
        use datafusion::common::tree_node::TreeNode;
        match expr {
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
                self.conditions(left, out)?;
                self.conditions(right, out)
            }
            ast::Expr::Nested(inner) => self.conditions(inner, out),
            expr => {
                let expr = self.predicate(expr)?;
                let is_open = expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).ok()?;
                out.push(Condition { expr, is_open });
                Some(())
            }
        }
    }

    fn predicate(&mut self, expr: &ast::Expr) -> Option<Expr> {
        use ast::BinaryOperator as B;
        match expr {
            ast::Expr::Nested(inner) => self.predicate(inner),
            ast::Expr::BinaryOp { left, op: op @ (B::And | B::Or), right } => {
                let op = if *op == B::And { Operator::And } else { Operator::Or };
                Some(binary(self.predicate(left)?, op, self.predicate(right)?))
            }
            ast::Expr::BinaryOp { left, op, right } => {
                let op = match op {
                    B::Eq => Operator::Eq,
                    B::NotEq => Operator::NotEq,
                    B::Lt => Operator::Lt,
                    B::LtEq => Operator::LtEq,
                    B::Gt => Operator::Gt,
                    B::GtEq => Operator::GtEq,
                    _ => return None,
                };
                if is_constant(left) {
                    return self.comparison(right, op.swap()?, left);
                }
                self.comparison(left, op, right)
            }
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr } => {
                Some(Expr::Not(Box::new(self.predicate(expr)?)))
            }
            ast::Expr::IsNull(of) => Some(Expr::IsNull(Box::new(self.column(of)?))),
            ast::Expr::IsNotNull(of) => Some(Expr::IsNotNull(Box::new(self.column(of)?))),
            ast::Expr::Between { expr, negated: false, low, high } => {
                let low = self.comparison(expr, Operator::GtEq, low)?;
                let high = self.comparison(expr, Operator::LtEq, high)?;
                Some(binary(low, Operator::And, high))
            }
            ast::Expr::InList { expr, list, negated: false } => {
                let column = self.column(expr)?;
                let ty = self.type_of(&column)?;
                let mut list = list.iter().map(|item| self.constant(item, &ty)).collect::<Option<Vec<_>>>()?;
                // Zeros of both signs are equal: `add_equals` adds the other zero, which it cannot do for a
                // parameter.
                if ty.is_floating() && list.iter().any(|item| !matches!(item, Expr::Literal(..))) {
                    return None;
                }
                crate::constants::add_equals(&mut list, &ty);
                Some(Expr::InList(InList::new(Box::new(column), list, false)))
            }
            ast::Expr::AnyOp { left, compare_op: B::Eq, right, .. } => {
                let column = self.column(left)?;
                let ty = self.type_of(&column)?;
                let list = self.any_of(right, ty)?;
                Some(array_has(list, column))
            }
            _ => None,
        }
    }

    fn comparison(&mut self, column: &ast::Expr, op: Operator, constant: &ast::Expr) -> Option<Expr> {
        let column = self.column(column)?;
        let ty = self.type_of(&column)?;
        Some(binary(column, op, self.constant(constant, &ty)?))
    }

    /// The array of `= ANY (…)`: a parameter that is declared as an array, or undeclared.
    fn any_of(&mut self, expr: &ast::Expr, item: Arrow) -> Option<Expr> {
        self.bound(placeholder(expr)?, &array_of(item))
    }

    /// A constant or a parameter, as a value of a type.
    fn constant(&mut self, expr: &ast::Expr, ty: &Arrow) -> Option<Expr> {
        if let ast::Expr::Nested(inner) = expr {
            return self.constant(inner, ty);
        }
        if let Some(at) = placeholder(expr) {
            return self.bound(at, ty);
        }
        let (text, is_typed) = match expr {
            ast::Expr::TypedString(typed) => {
                is_timestamptz(&typed.data_type).then_some(())?;
                let ast::Value::SingleQuotedString(text) = &typed.value.value else { return None };
                (text.as_str(), true)
            }
            ast::Expr::Cast { kind: ast::CastKind::DoubleColon, expr, data_type, array: false, format: None } => {
                is_timestamptz(data_type).then_some(())?;
                (string(expr)?, true)
            }
            expr => match string(expr) {
                Some(text) => (text, false),
                None => return number(expr, ty).map(|value| Expr::Literal(value, None)),
            },
        };
        let value = match ty {
            Arrow::Utf8 if !is_typed => ScalarValue::Utf8(Some(text.to_owned())),
            Arrow::Timestamp(TimeUnit::Nanosecond, zone @ Some(_)) => {
                // Invalid and out-of-range times are left to DataFusion.
                let time = self.context.settings.zone().parse_timestamptz(text).ok()?;
                ScalarValue::TimestampNanosecond(Some(time), zone.clone())
            }
            _ => return None,
        };
        Some(Expr::Literal(value, None))
    }

    /// A parameter of type `ty`: declared so, inferred so, or cast to it.
    fn bound(&mut self, at: usize, ty: &Arrow) -> Option<Expr> {
        let slot = self.types.get_mut(at)?;
        let own = slot.get_or_insert_with(|| ty.clone()).clone();
        // The type must survive the conversion to an OID and back.
        if arrow_of_oid(oid_of_arrow(&own), &self.zone).as_ref() != Some(&own) {
            return None;
        }
        match (&own, ty) {
            (own, ty) if own == ty => Some(parameter(at, ty)),
            (Arrow::Int16 | Arrow::Int32 | Arrow::Int64, Arrow::Float64) => {
                Some(Expr::Cast(Cast::new(Box::new(parameter(at, &own)), Arrow::Float64)))
            }
            _ => None,
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // GROUP BY, ORDER BY, LIMIT

    fn group_by(&mut self, select: &ast::Select, items: &[Item]) -> Option<Vec<Expr>> {
        let ast::GroupByExpr::Expressions(list, with) = &select.group_by else { return None };
        if !with.is_empty() {
            return None;
        }
        let mut by = Vec::with_capacity(list.len());
        for expr in list {
            let chosen = match position(expr) {
                Some(at) => items.get(at)?.expr.clone(),
                None => match self.column(expr) {
                    // Table columns take precedence over result names.
                    Some(column) => column,
                    None => match expr {
                        ast::Expr::Function(call) => self.of_time(call)?,
                        ast::Expr::Identifier(name) => {
                            let name = folded(name);
                            items.iter().find(|item| item.name == name)?.expr.clone()
                        }
                        _ => return None,
                    },
                },
            };
            if matches!(chosen, Expr::AggregateFunction(_)) {
                return None;
            }
            by.push(chosen);
        }
        Some(by)
    }

    fn order_by<'q>(&self, query: &'q ast::Query) -> Option<Vec<&'q ast::OrderByExpr>> {
        let Some(order) = &query.order_by else { return Some(Vec::new()) };
        let ast::OrderByKind::Expressions(list) = &order.kind else { return None };
        if order.interpolate.is_some() || list.iter().any(|by| by.with_fill.is_some()) {
            return None;
        }
        Some(list.iter().collect())
    }

    /// ORDER BY over the table's columns.
    fn sort(&mut self, order: &[&ast::OrderByExpr], items: &[Item]) -> Option<Vec<SortExpr>> {
        let mut sort = Vec::with_capacity(order.len());
        for by in order {
            let expr = match (item_of(&by.expr, items), &by.expr) {
                (Some(at), _) => items.get(at)?.expr.clone(),
                (None, expr) => self.column(expr)?,
            };
            let asc = by.options.asc.unwrap_or(true);
            sort.push(SortExpr { expr, asc, nulls_first: by.options.nulls_first.unwrap_or(!asc) });
        }
        Some(sort)
    }

    fn limits(&mut self, query: &ast::Query) -> Option<(Count, Option<Count>)> {
        let Some(clause) = &query.limit_clause else { return Some((Count::Of(0), None)) };
        let ast::LimitClause::LimitOffset { limit, offset, limit_by } = clause else { return None };
        if !limit_by.is_empty() {
            return None;
        }
        let mut count = |expr: &ast::Expr| match placeholder(expr) {
            Some(at) => match self.bound(at, &Arrow::Int64)? {
                Expr::Placeholder(_) => Some(Count::Parameter(at)),
                _ => None,
            },
            None => match number(expr, &Arrow::Int64)? {
                ScalarValue::Int64(Some(count)) => u64::try_from(count).ok().map(Count::Of),
                _ => None,
            },
        };
        let fetch = match limit {
            Some(limit) => Some(count(limit)?),
            None => None,
        };
        let skip = match offset {
            Some(offset) => count(&offset.value)?,
            None => Count::Of(0),
        };
        Some((skip, fetch))
    }

    /// Compiles an aggregation: grouping keys, then aggregates, then a projection to the select list.
    fn groups(
        &mut self,
        items: Vec<Item>,
        conditions: Vec<Condition>,
        by: &[Expr],
        order: &[&ast::OrderByExpr],
        limits: (Count, Option<Count>),
    ) -> Option<(Shape, Vec<Field>)> {
        let (Count::Of(skip), fetch) = limits else { return None };
        let fetch = match fetch {
            Some(Count::Of(fetch)) => Some(fetch),
            Some(Count::Parameter(_)) => return None,
            None => None,
        };
        let calls: Vec<Expr> = items.iter().filter(|item| item.is_aggregate).map(|item| item.expr.clone()).collect();
        let mut calls_seen = 0;
        let mut place = |item: &Item| {
            if item.is_aggregate {
                calls_seen += 1;
                return Some(by.len() + calls_seen - 1);
            }
            by.iter().position(|expr| *expr == item.expr)
        };
        let places: Vec<usize> = items.iter().map(&mut place).collect::<Option<_>>()?;
        let sort = order.iter().map(|by| {
            let asc = by.options.asc.unwrap_or(true);
            let options =
                arrow_schema::SortOptions { descending: !asc, nulls_first: by.options.nulls_first.unwrap_or(!asc) };
            let at = item_of(&by.expr, &items).or_else(|| {
                let Some(Expr::Column(column)) = self.column(&by.expr) else { return None };
                items.iter().position(|item| matches!(&item.expr, Expr::Column(own) if own.name == column.name))
            })?;
            let by: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(&items.get(at)?.name, at));
            Some(Sort { by, options })
        });
        let sort: Vec<Sort> = sort.collect::<Option<_>>()?;
        let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
        let mut wanted = self.wanted(conditions, &items, Count::Of(0), None)?;
        let mut result = Arc::new(Schema::empty());
        let rest = |fields: Vec<Field>| {
            let named = places.iter().zip(&names).map(|(at, name)| fields[*at].clone().with_name(name));
            result = Arc::new(Schema::new(named.collect::<Vec<_>>()));
            let column = |at: &usize| Arc::new(PhysicalColumn::new(fields[*at].name(), *at)) as Arc<dyn PhysicalExpr>;
            let mut steps = vec![Step::Project(places.iter().map(column).collect(), Arc::clone(&result))];
            if !sort.is_empty() {
                steps.push(Step::Sort(sort));
            }
            if skip > 0 || fetch.is_some() {
                steps.push(Step::Limit(skip, fetch));
            }
            (Arc::new(Schema::new(fields)), steps)
        };
        wanted.result = Arc::new(Schema::empty());
        let mut shape = self.compiler().of_groups(wanted, by, &calls, rest)?;
        shape.result = Arc::clone(&result);
        let fields = result.fields().iter().map(|field| field.as_ref().clone()).collect();
        Some((shape, fields))
    }
}

/// Expressions and fields of the select list.
fn outputs(items: Vec<Item>, wanted: &Wanted) -> (Vec<Expr>, Vec<Field>) {
    let fields = wanted.result.fields().iter().map(|field| field.as_ref().clone()).collect();
    (items.into_iter().map(|item| item.expr).collect(), fields)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn parameter(at: usize, ty: &Arrow) -> Expr {
    let field = Arc::new(Field::new("", ty.clone(), true));
    Expr::Placeholder(Placeholder::new_with_field(format!("${}", at + 1), Some(field)))
}

/// Position of `$n`, from 0.
fn placeholder(expr: &ast::Expr) -> Option<usize> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Placeholder(id) => super::shape::parameter(id),
            _ => None,
        },
        _ => None,
    }
}

fn is_constant(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(_) | ast::Expr::TypedString(_))
}

fn string(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A numeric literal as a value of a type.
fn number(expr: &ast::Expr, ty: &Arrow) -> Option<ScalarValue> {
    let (expr, sign) = match expr {
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => (expr.as_ref(), -1),
        expr => (expr, 1),
    };
    let ast::Expr::Value(value) = expr else { return None };
    let ast::Value::Number(text, false) = &value.value else { return None };
    let text: &str = text;
    if *ty == Arrow::Float64 {
        // DataFusion reads an integer literal as an integer if it fits.
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && text.len() <= 18;
        let value: f64 = text.parse().ok().filter(|_| is_plain)?;
        return Some(ScalarValue::Float64(Some(value * f64::from(sign))));
    }
    let value = text.parse::<i64>().ok()? * i64::from(sign);
    Some(match ty {
        Arrow::Int16 => ScalarValue::Int16(Some(i16::try_from(value).ok()?)),
        Arrow::Int32 => ScalarValue::Int32(Some(i32::try_from(value).ok()?)),
        Arrow::Int64 => ScalarValue::Int64(Some(value)),
        _ => return None,
    })
}

fn is_timestamptz(ty: &ast::DataType) -> bool {
    matches!(ty, ast::DataType::Timestamp(None, ast::TimezoneInfo::Tz | ast::TimezoneInfo::WithTimeZone))
}

fn function_name(call: &ast::Function) -> Option<String> {
    let [name] = call.name.0.as_slice() else { return None };
    let plain = !call.uses_odbc_syntax
        && matches!(call.parameters, ast::FunctionArguments::None)
        && call.null_treatment.is_none()
        && call.over.is_none()
        && call.within_group.is_empty();
    name.as_ident().map(folded).filter(|_| plain)
}

fn argument_list(call: &ast::Function) -> Option<&[ast::FunctionArg]> {
    match &call.args {
        ast::FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
            Some(&list.args)
        }
        _ => None,
    }
}

fn is_star(call: &ast::Function) -> bool {
    matches!(argument_list(call), Some([ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]))
}

fn arguments(call: &ast::Function) -> Option<Vec<&ast::Expr>> {
    let plain = |arg| match arg {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    argument_list(call)?.iter().map(plain).collect()
}

/// Ordinal of GROUP BY or ORDER BY, from 0.
fn position(expr: &ast::Expr) -> Option<usize> {
    match number(expr, &Arrow::Int64)? {
        ScalarValue::Int64(Some(at)) => usize::try_from(at).ok()?.checked_sub(1),
        _ => None,
    }
}

/// Select-list item that ORDER BY refers to by ordinal or name.
fn item_of(expr: &ast::Expr, items: &[Item]) -> Option<usize> {
    match expr {
        ast::Expr::Identifier(name) => {
            let name = folded(name);
            items.iter().position(|item| item.name == name)
        }
        expr => position(expr),
    }
}
