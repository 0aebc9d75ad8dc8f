//! Lowers relational operators: scans, projections, filters, sorts, limits, and those of other modules.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::Field;
use binder::tree::{CteBody, Rel, SortKey, SystemColumn, Table};
use catalog::TypeId;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::logical_plan::{EmptyRelation, Limit, Sort, Values};
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator as Op, SortExpr, lit};
use datafusion::scalar::ScalarValue;
use model::{Datum, Error, Result, SqlState, Type};
use scalar::{Expr, ExprKind, Place, Value};

use crate::arrow::arrow_type;
use crate::arrow::stored::Shown;
use crate::errors::OrError;
use crate::evaluation::evaluate::stability;
use crate::evaluation::stored::shown;
use crate::lower::expressions::{all_of, columns_of, joined, split};
use crate::lower::lowering::Lowering;
use crate::nodes::{Node, Operator};

impl Lowering<'_> {
    /// Lowers an operator; [`Lowering::rel`] counts the depth.
    pub(crate) fn operator(&self, rel: &Rel) -> Result<LogicalPlan> {
        let order_is_kept = self.order_is_kept.replace(false);
        match rel {
            Rel::Single => Ok(single()),
            Rel::Scan { table, columns, system, as_of } => self.scan(table, (columns, system), as_of.as_deref()),
            Rel::Values { rows, columns } => self.values(rows, columns),
            Rel::Functions { functions, ordinality } => self.functions(functions, *ordinality),
            Rel::Cte { cte, columns } => self.cte(*cte, columns),
            Rel::WorkTable { cte, columns } => self.work_table(*cte, columns),
            Rel::Project { input, columns } => {
                self.order_is_kept.set(order_is_kept);
                let input = self.rel(input)?;
                let (numbers, exprs): (Vec<u32>, Vec<Expr>) = columns.iter().cloned().unzip();
                let (input, exprs) = self.without_subqueries(input, exprs)?;
                let columns: Vec<(u32, Expr)> = numbers.into_iter().zip(exprs).collect();
                self.project(input, &columns, false)
            }
            Rel::ProjectSet { input, sets } => self.project_set(input, sets),
            Rel::Filter { input, condition } => self.below_conditions(|| {
                self.note_leading(input, condition);
                match before_lateral(input, condition) {
                    Some((input, Some(condition))) => self.filter(self.rel(&input)?, &condition),
                    Some((input, None)) => self.rel(&input),
                    None => match self.before_joins(input, condition) {
                        Some((input, Some(condition))) => self.filter(self.rel(&input)?, &condition),
                        Some((input, None)) => self.rel(&input),
                        None => self.filter(self.rel(input)?, condition),
                    },
                }
            }),
            Rel::Join { kind, left, right, on, lateral } => {
                self.below_conditions(|| self.join(*kind, left, right, on.as_ref(), *lateral))
            }
            Rel::Lock { .. } => Err(Error::unsupported("FOR UPDATE and FOR SHARE are not supported here")),
            Rel::AsOfJoin { kind, left, right, on, matching } => {
                self.below_conditions(|| self.as_of_join(*kind, left, right, on.as_ref(), matching))
            }
            Rel::Aggregate { input, keys, sets, aggregates, grouping } => {
                self.aggregate(input, keys, sets.as_deref(), aggregates, grouping)
            }
            Rel::Window { input, calls } => self.window(input, calls),
            Rel::Distinct { input, columns } => self.distinct(input, columns),
            Rel::Sort { input, keys } => {
                let input = self.rel(input)?;
                let plan = self.sort(input, keys)?;
                if order_is_kept { Ok(plan) } else { ordered(plan) }
            }
            Rel::Limit { input, limit, offset, ties } => {
                self.order_is_kept.set(true);
                let plan = self.rel(input)?;
                self.limit(plan, limit.as_ref(), offset.as_ref(), ties.as_deref())
            }
            Rel::SetOperation { op, all, left, right, columns } => self.set_operation(*op, *all, left, right, columns),
        }
    }

    /// Lowers operators whose rows a condition selects.
    fn below_conditions(&self, lower: impl FnOnce() -> Result<LogicalPlan>) -> Result<LogicalPlan> {
        let before = self.is_below_condition.replace(true);
        let plan = lower();
        self.is_below_condition.set(before);
        plan
    }

    fn scan(
        &self,
        table: &Arc<Table>,
        (columns, system): (&[u32], &[(SystemColumn, u32)]),
        as_of: Option<&Expr>,
    ) -> Result<LogicalPlan> {
        let as_of = as_of.map(|moment| self.micros(moment)).transpose()?;
        let is_used = |name: &str| {
            let number = table.columns.iter().zip(columns).find(|(column, _)| *column.name == *name);
            match number {
                Some((_, number)) => self.used_columns().contains(number),
                None => system.iter().any(|(column, _)| column.name() == name),
            }
        };
        let source = self.env.table(table, as_of, &is_used)?.0;
        let alias = format!("t{}", columns.first().copied().unwrap_or_default());
        let fields = source.schema();
        let plan = LogicalPlanBuilder::scan(table.name.to_string(), source, None);
        let plan = plan.and_then(|plan| plan.alias(alias.as_str())).and_then(LogicalPlanBuilder::build).or_error()?;
        // A column with the name of a computed one would be ambiguous.
        let is_like_ours = |name: &str| {
            name.strip_prefix('c')
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        // `columns` tables store values of some types in another form.
        let stored_by = |column: &binder::tree::TableColumn, field: &arrow_schema::Field| {
            Shown::of(column.ty, column.typmod, field.data_type())
        };
        let is_stored_otherwise = |(column, number): (&binder::tree::TableColumn, &u32)| {
            let field = fields.field_with_name(&column.name);
            self.used_columns().contains(number) && field.is_ok_and(|field| stored_by(column, field).is_some())
        };
        let is_renamed = fields.fields().iter().any(|field| is_like_ours(field.name()))
            || table.columns.iter().zip(columns).any(is_stored_otherwise);
        let mut exprs = Vec::new();
        for (column, number) in system {
            let field = fields.field_with_name(column.name()).map_err(|error| crate::errors::arrow(&error))?;
            let (at, ty) = (Column::new(Some(alias.clone()), column.name()), field.data_type().clone());
            if is_renamed {
                exprs.push(DfExpr::Column(at).alias(Self::name(*number)));
                self.computed(*number, ty);
            } else {
                self.define(*number, at, ty);
            }
        }
        for (column, number) in table.columns.iter().zip(columns) {
            let Ok(field) = fields.field_with_name(&column.name) else { continue };
            if let Some(Type::Numeric(Some(of))) = Type::from_oid(column.ty.0, column.typmod)
                && let Ok(digits) = u8::try_from(of.digits)
            {
                self.note_digits(*number, digits);
            }
            let at = Column::new(Some(alias.clone()), column.name.to_string());
            if !is_renamed {
                self.define(*number, at, field.data_type().clone());
                continue;
            }
            let (value, ty) = match stored_by(column, field) {
                Some(by) => (shown(DfExpr::Column(at), &by), by.arrow()),
                None => (DfExpr::Column(at), field.data_type().clone()),
            };
            exprs.push(value.alias(Self::name(*number)));
            self.computed(*number, ty);
        }
        if !is_renamed {
            return Ok(plan);
        }
        LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).or_error()
    }

    /// The value of a timestamptz without columns, in microseconds since 1970 UTC.
    fn micros(&self, moment: &Expr) -> Result<i64> {
        let mut is_open = false;
        moment.visit(&mut |part| {
            let is_unknown = matches!(part.kind, ExprKind::Column(_) | ExprKind::Parameter(_) | ExprKind::Subquery(_));
            is_open |= is_unknown;
        });
        if is_open {
            let text = "FOR SYSTEM_TIME AS OF takes no columns, parameters and subqueries";
            return Err(Error::unsupported(text).with_hint("give a time, or now() less an interval"));
        }
        let arena = bumpalo::Bump::new();
        let ctx = scalar::Context { arena: &arena, session: &self.session };
        match scalar::eval(moment, &(), &ctx)? {
            Datum::Timestamptz(micros) => Ok(micros),
            Datum::Null => Err(Error::new(SqlState("22004"), "FOR SYSTEM_TIME AS OF must not be NULL")),
            _ => Err(Error::bug("a moment that is no timestamptz")),
        }
    }

    fn values(&self, rows: &[Vec<Expr>], columns: &[u32]) -> Result<LogicalPlan> {
        let types: Vec<TypeId> = columns.iter().map(|column| self.type_of(*column)).collect::<Result<_>>()?;
        let is_constant = |expr: &Expr| matches!(expr.kind, ExprKind::Constant(_));
        if rows.is_empty() || columns.is_empty() || !rows.iter().flatten().all(is_constant) {
            return self.rows(rows, columns);
        }
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            let row = row.iter().zip(&types).map(|(expr, ty)| {
                let ExprKind::Constant(value) = &expr.kind else {
                    return Err(Error::bug("a value that is no constant"));
                };
                Ok(DfExpr::Literal(crate::evaluation::evaluate::constant(&value.datum(), *ty, &self.zone)?, None))
            });
            values.push(row.collect::<Result<_>>()?);
        }
        let field = |(column, ty): (&u32, &TypeId)| {
            let ty = arrow_type(*ty, &self.zone);
            (None, Arc::new(Field::new(self.computed(*column, ty.clone()), ty, true)))
        };
        let fields = columns.iter().zip(&types).map(field).collect();
        let schema = DFSchema::new_with_metadata(fields, Default::default()).or_error()?;
        Ok(LogicalPlan::Values(Values { schema: Arc::new(schema), values }))
    }

    /// Rows of expressions that are not constant: a projection each, one after the other.
    fn rows(&self, rows: &[Vec<Expr>], columns: &[u32]) -> Result<LogicalPlan> {
        let mut plan: Option<LogicalPlanBuilder> = None;
        for row in rows {
            let (input, exprs) = self.without_subqueries(single(), row.clone())?;
            let row: Vec<(u32, Expr)> = columns.iter().copied().zip(exprs).collect();
            let row = self.project(input, &row, true)?;
            plan = Some(match plan {
                None => LogicalPlanBuilder::from(row),
                Some(plan) => plan.union(row).or_error()?,
            });
        }
        let Some(plan) = plan else { return Err(Error::unsupported("VALUES without rows")) };
        let plan = plan.build().or_error()?;
        // A join would read them in any order.
        if rows.len() > 1 { ordered(plan) } else { Ok(plan) }
    }

    fn cte(&self, number: usize, columns: &[u32]) -> Result<LogicalPlan> {
        let Some(cte) = self.query.ctes.get(number) else { return Err(Error::bug("no such query of WITH")) };
        let plan = match &cte.body {
            // Each reference computes the query, which must give the same rows.
            CteBody::Plain(_) if self.is_volatile_cte(number) && !self.lowered_ctes.borrow_mut().insert(number) => {
                let text = "a query of WITH that calls a volatile function and is read more than once is not supported";
                return Err(Error::unsupported(text));
            }
            CteBody::Plain(rel) => self.rel(rel)?,
            CteBody::Change(_) => {
                return Err(Error::unsupported("INSERT, UPDATE and DELETE in WITH are not supported"));
            }
            CteBody::Recursive { all, base, step } => return self.recursive(number, *all, base, step, columns),
        };
        self.renamed(plan, &cte.columns, columns)
    }

    /// Some columns of a plan under other numbers.
    pub(crate) fn renamed(&self, plan: LogicalPlan, from: &[u32], to: &[u32]) -> Result<LogicalPlan> {
        let mut columns = Vec::with_capacity(to.len());
        for (from, to) in from.iter().zip(to) {
            columns.push((*to, Expr::new(ExprKind::Column(*from), self.type_of(*from)?, Place::default())));
        }
        self.project(plan, &columns, false)
    }

    /// Rows for which a condition is true. Subqueries run for rows that fulfil the parts without subqueries: those are often the
    /// conditions of joins, without which the rows of FROM are all combinations.
    pub(crate) fn filter(&self, input: LogicalPlan, condition: &Expr) -> Result<LogicalPlan> {
        let (input, condition) = match apart(condition) {
            Some((plain, rest)) => (self.filter_one(input, &plain)?, Cow::Owned(rest)),
            None => (input, Cow::Borrowed(condition)),
        };
        self.filter_one(input, &condition)
    }

    fn filter_one(&self, input: LogicalPlan, condition: &Expr) -> Result<LogicalPlan> {
        let (input, condition) = self.semi_joins(input, condition)?;
        let Some(condition) = condition else { return Ok(input) };
        let output = input.schema().columns();
        let count = output.len();
        let (input, mut conditions) = self.without_subqueries(input, vec![condition])?;
        let has_more = input.schema().fields().len() > count;
        let Some(condition) = conditions.pop() else { return Ok(input) };
        let conditions = self.conditions(&condition, input.schema())?;
        let Some(predicate) = joined(conditions, Op::And) else { return Ok(input) };
        let mut plan = LogicalPlanBuilder::from(input).filter(predicate).or_error()?;
        if has_more {
            plan = plan.project(output.into_iter().map(DfExpr::Column)).or_error()?;
        }
        plan.build().or_error()
    }

    /// Sort keys over a plan, without subqueries.
    pub(crate) fn sort_keys(&self, keys: &[SortKey], schema: &DFSchema) -> Result<Vec<SortExpr>> {
        let one = |key: &SortKey| {
            let expr = self.key(&key.expr, schema)?;
            Ok(SortExpr { expr, asc: !key.descending, nulls_first: key.nulls_first })
        };
        keys.iter().map(one).collect()
    }

    /// Keys whose subqueries are columns of the plan.
    pub(crate) fn keys_without_subqueries(
        &self,
        input: LogicalPlan,
        keys: &[SortKey],
    ) -> Result<(LogicalPlan, Vec<SortKey>)> {
        let exprs = keys.iter().map(|key| key.expr.clone()).collect();
        let (input, exprs) = self.without_subqueries(input, exprs)?;
        let keys = exprs.into_iter().zip(keys).map(|(expr, key)| SortKey { expr, ..key.clone() }).collect();
        Ok((input, keys))
    }

    fn sort(&self, input: LogicalPlan, keys: &[SortKey]) -> Result<LogicalPlan> {
        let (input, keys) = self.keys_without_subqueries(input, keys)?;
        // A constant orders nothing.
        let keys: Vec<SortKey> = keys.into_iter().filter(|key| !is_constant(&key.expr)).collect();
        if keys.is_empty() {
            return Ok(input);
        }
        let keys = self.sort_keys(&keys, input.schema())?;
        Ok(sorted(input, keys))
    }

    fn limit(
        &self,
        input: LogicalPlan,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
        ties: Option<&[SortKey]>,
    ) -> Result<LogicalPlan> {
        let limit = self.counted_rows(limit, SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")?;
        let offset = self.counted_rows(offset, SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")?;
        let (limit, offset) = (limit.as_ref(), offset.as_ref());
        if let Some(keys) = ties {
            return self.limit_with_ties(input, limit, offset, keys);
        }
        let count = |expr: Option<&Expr>| -> Result<Option<Box<DfExpr>>> {
            let Some(expr) = expr.filter(|expr| !expr.is_null()) else { return Ok(None) };
            let mut has_query = false;
            expr.visit(&mut |part| has_query |= matches!(part.kind, ExprKind::Subquery(_) | ExprKind::Column(_)));
            let mut has_call = false;
            expr.visit(&mut |part| {
                has_call |= matches!(&part.kind, ExprKind::Call(call, _) if call.function >= scalar::FIRST_ROUTINE);
            });
            if has_call {
                return Err(Error::unsupported("a function of a user in LIMIT or OFFSET is not supported"));
            }
            if has_query {
                return Err(Error::unsupported("a subquery in LIMIT or OFFSET is not supported here"));
            }
            // A cast of a constant is a constant.
            Ok(Some(Box::new(self.expr(expr, &DFSchema::empty())?.0)))
        };
        let (skip, fetch) = (count(offset)?, count(limit)?);
        Ok(LogicalPlan::Limit(Limit { skip, fetch, input: Arc::new(input) }))
    }

    /// A number of rows, computed if it is constant.
    fn counted_rows(&self, count: Option<&Expr>, state: SqlState, name: &str) -> Result<Option<Expr>> {
        let Some(count) = count else { return Ok(None) };
        let mut is_open = stability(count) != catalog::Volatility::Immutable;
        count.visit(&mut |part| {
            let is_unknown = matches!(part.kind, ExprKind::Column(_) | ExprKind::Parameter(_) | ExprKind::Subquery(_));
            is_open |= is_unknown;
        });
        if is_open {
            return Ok(Some(count.clone()));
        }
        let arena = bumpalo::Bump::new();
        let ctx = scalar::Context { arena: &arena, session: &self.session };
        let value = scalar::eval(count, &(), &ctx)?;
        if matches!(value, Datum::Int8(rows) if rows < 0) {
            return Err(Error::new(state, format!("{name} must not be negative")));
        }
        Ok(Some(Expr { kind: ExprKind::Constant(Value::of(&value)), ..count.clone() }))
    }

    fn limit_with_ties(
        &self,
        input: LogicalPlan,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
        keys: &[SortKey],
    ) -> Result<LogicalPlan> {
        let (input, keys) = self.keys_without_subqueries(input, keys)?;
        let order = self.sort_keys(&keys, input.schema())?;
        let mut exprs: Vec<DfExpr> = order.iter().map(|key| key.expr.clone()).collect();
        for count in [limit, offset] {
            exprs.push(match count {
                Some(count) => self.expr(count, &DFSchema::empty())?.0,
                None => lit(ScalarValue::Int64(None)),
            });
        }
        let plan = Node::plan(Operator::Ties, exprs, vec![input], true, Vec::new()).or_error()?;
        Ok(sorted(plan, order))
    }

    fn distinct(&self, input: &Rel, columns: &[u32]) -> Result<LogicalPlan> {
        self.order_is_kept.set(true);
        let plan = self.rel(input)?;
        let schema = plan.schema();
        let mut outputs = Vec::new();
        input.outputs(&mut outputs);
        let mut keys = Vec::with_capacity(columns.len());
        let mut is_native = true;
        for column in columns {
            let (expr, arrow) = self.column(*column, schema)?;
            let key = crate::evaluation::keys::keyed(expr.clone(), self.type_of(*column)?, &arrow);
            is_native &= key == expr;
            keys.push(key);
        }
        let order = match input {
            Rel::Sort { keys, .. } => keys.as_slice(),
            _ => &[],
        };
        let is_whole = order.is_empty() && schema.fields().len() == columns.len() && !columns.is_empty();
        if is_native && is_whole {
            return LogicalPlanBuilder::from(plan).distinct().and_then(LogicalPlanBuilder::build).or_error();
        }
        if is_native && let Some(plan) = self.newest(&plan, columns, order)? {
            return Ok(plan);
        }
        let plan = self.first_of_each(plan, &keys)?;
        let plan = if order.is_empty() { plan } else { ordered(plan)? };
        let plan = Node::plan(Operator::Distinct, keys, vec![plan], true, Vec::new()).or_error()?;
        let is_prefix = columns.len() <= order.len();
        if !is_prefix || order.is_empty() {
            return Ok(plan);
        }
        // The first columns of the order are those that must differ, so that it is the order of the result.
        let order = self.sort_keys(order, plan.schema())?;
        Ok(sorted(plan, order))
    }

    /// DISTINCT ON expressions over one table in their order, which scans of `columns` tables can answer.
    fn newest(&self, plan: &LogicalPlan, columns: &[u32], order: &[SortKey]) -> Result<Option<LogicalPlan>> {
        let LogicalPlan::Sort(sort) = plan else { return Ok(None) };
        let LogicalPlan::Projection(projection) = sort.input.as_ref() else { return Ok(None) };
        let mut below = projection.input.as_ref();
        while let LogicalPlan::Filter(filter) = below {
            below = &filter.input;
        }
        let LogicalPlan::SubqueryAlias(_) = below else { return Ok(None) };
        let is_column =
            |(key, column): (&SortKey, &u32)| matches!(key.expr.kind, ExprKind::Column(at) if at == *column);
        let is_prefix = order.len() == sort.expr.len() && order.iter().zip(columns).all(is_column);
        if order.len() < columns.len() || !is_prefix || sort.fetch.is_some() {
            return Ok(None);
        }
        // The sort keys are over the projection, and become those over the table.
        let inner = |expr: DfExpr| {
            Ok(match &expr {
                DfExpr::Column(column) => match projection.schema.maybe_index_of_column(column) {
                    Some(at) => Transformed::yes(projection.expr[at].clone().unalias()),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        };
        let mut keys = Vec::with_capacity(sort.expr.len());
        for key in &sort.expr {
            let expr = key.expr.clone().transform_up(inner).or_error()?.data;
            keys.push(SortExpr { expr, ..key.clone() });
        }
        let on: Vec<DfExpr> = keys.iter().take(columns.len()).map(|key| key.expr.clone()).collect();
        let input = LogicalPlanBuilder::from(projection.input.as_ref().clone());
        let distinct = input.distinct_on(on, projection.expr.clone(), Some(keys)).and_then(LogicalPlanBuilder::build);
        let distinct = distinct.or_error()?;
        // The rows are sorted by the columns that differ, which is the whole order.
        Ok((distinct.schema().columns() == plan.schema().columns()).then_some(distinct))
    }
}

/// Moves the conditions on the left side of a lateral join below it, so that the right side is computed for fewer rows, and
/// not for rows for which it may fail. Returns the join and the other conditions; `None` if nothing is moved.
fn before_lateral(input: &Rel, condition: &Expr) -> Option<(Rel, Option<Expr>)> {
    let Rel::Join { kind, left, right, on, lateral: true } = input else { return None };
    let (mut columns, mut parts) = (Vec::new(), Vec::new());
    left.outputs(&mut columns);
    split(condition, &mut parts);
    let is_of_left = |part: &&Expr| {
        let (mut fits, mut reads) = (stability(part) != catalog::Volatility::Volatile, false);
        part.visit(&mut |one| match &one.kind {
            ExprKind::Column(column) => {
                reads = true;
                fits &= columns.contains(column);
            }
            ExprKind::Subquery(_) => fits = false,
            _ => {}
        });
        fits && reads
    };
    let (own, rest): (Vec<&Expr>, Vec<&Expr>) = parts.into_iter().partition(is_of_left);
    let left = Box::new(Rel::Filter { input: left.clone(), condition: all_of(&own)? });
    let join = Rel::Join { kind: *kind, left, right: right.clone(), on: on.clone(), lateral: true };
    Some((join, all_of(&rest)))
}

/// The parts of a condition without subqueries and volatile functions, and the other ones; `None` if either are missing.
fn apart(condition: &Expr) -> Option<(Expr, Expr)> {
    let mut parts = Vec::new();
    split(condition, &mut parts);
    let (rest, plain): (Vec<&Expr>, Vec<&Expr>) = parts.into_iter().partition(|part| {
        let mut has_subquery = false;
        part.visit(&mut |one| has_subquery |= matches!(one.kind, ExprKind::Subquery(_)));
        has_subquery || stability(part) == catalog::Volatility::Volatile
    });
    Some((all_of(&plain)?, all_of(&rest)?))
}

/// Keeps the order of a sorted subquery, which PostgreSQL's users rely on though SQL does not promise it.
fn ordered(plan: LogicalPlan) -> Result<LogicalPlan> {
    Node::plan(Operator::Ordered, Vec::new(), vec![plan], true, Vec::new()).or_error()
}

/// A sort. DataFusion's builder would replace keys by columns of the same text, which operators of ours do not have.
pub(crate) fn sorted(input: LogicalPlan, expr: Vec<SortExpr>) -> LogicalPlan {
    LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: None })
}

/// One row without columns.
pub(crate) fn single() -> LogicalPlan {
    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) })
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Constant(_)) && columns_of(expr).is_empty()
}
