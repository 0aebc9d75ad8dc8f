//! Lowers groups and aggregates.

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use binder::tree::{AggregateCall, Rel};
use catalog::{TypeId, Volatility, builtin};
use datafusion::common::DFSchema;
use datafusion::functions_aggregate::{average, bool_and_or, count, first_last, min_max, sum};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::Limit;
use datafusion::logical_expr::{
    AggregateUDF, Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator as Op, cast, lit,
};
use model::{Datum, Error, Result};
use scalar::registry::signature_number;
use scalar::{Call, Expr, ExprKind, Place, Value};

use crate::arrow::key::KeyKind;
use crate::arrow::{Form, arrow_type, form};
use crate::errors::OrError;
use crate::evaluation::accumulate::{Accumulate, Order, Spec};
use crate::evaluation::evaluate::stability;
use crate::evaluation::{keys, moments};
use crate::functions;
use crate::lower::expressions::joined;
use crate::lower::lowering::Lowering;
use crate::nodes::{Groups, Made, Node, Operator};

type Keys = [(u32, Expr)];
type Calls = [(u32, AggregateCall)];
/// A plan, with keys and aggregates over its columns.
type Grouped = (LogicalPlan, Vec<(u32, Expr)>, Vec<(u32, AggregateCall)>);

impl Lowering<'_> {
    /// Groups of an input.
    pub(crate) fn aggregate(
        &self,
        input: &Rel,
        keys: &Keys,
        sets: Option<&[Vec<usize>]>,
        aggregates: &Calls,
        grouping: &[(u32, Vec<usize>)],
    ) -> Result<LogicalPlan> {
        let Some(sets) = sets else {
            let plan = self.grouped(input, keys, aggregates)?;
            return self.with_grouping(plan, keys, aggregates, grouping, None);
        };
        // A union of one aggregation for each set. It reads the input several times, and each is DataFusion's plain one.
        let mut union: Option<LogicalPlanBuilder> = None;
        for set in sets {
            let part: Vec<(u32, Expr)> = set.iter().filter_map(|at| keys.get(*at).cloned()).collect();
            let plan = self.grouped(input, &part, aggregates)?;
            let plan = self.with_grouping(plan, keys, aggregates, grouping, Some(set))?;
            union = Some(match union {
                None => LogicalPlanBuilder::from(plan),
                Some(union) => union.union(plan).or_error()?,
            });
        }
        match union {
            Some(union) => union.build().or_error(),
            None => Err(Error::unsupported("no grouping sets")),
        }
    }

    /// Adds GROUPING, and NULL for the keys that a set has not.
    fn with_grouping(
        &self,
        plan: LogicalPlan,
        keys: &Keys,
        aggregates: &Calls,
        grouping: &[(u32, Vec<usize>)],
        set: Option<&[usize]>,
    ) -> Result<LogicalPlan> {
        if set.is_none() && grouping.is_empty() {
            return Ok(plan);
        }
        let has = |at: usize| set.is_none_or(|set| set.contains(&at));
        let mut columns = Vec::new();
        for (at, (number, expr)) in keys.iter().enumerate() {
            let kind = if has(at) { ExprKind::Column(*number) } else { ExprKind::Constant(Value::NULL) };
            columns.push((*number, Expr::new(kind, expr.ty, expr.at)));
        }
        for (number, call) in aggregates {
            columns.push((*number, Expr::new(ExprKind::Column(*number), call.call.result, Place::default())));
        }
        for (number, of) in grouping {
            let bits = of.iter().fold(0_i32, |bits, at| (bits << 1) | i32::from(!has(*at)));
            let value = ExprKind::Constant(Value::Plain(Datum::Int4(bits)));
            columns.push((*number, Expr::new(value, TypeId::INT4, Place::default())));
        }
        if set.is_none() {
            return self.project(plan, &columns, false);
        }
        // The parts of the union must agree in names and types.
        let mut exprs = Vec::with_capacity(columns.len());
        let mut types = Vec::with_capacity(columns.len());
        for (number, expr) in &columns {
            let (lowered, ty) = self.canonical(expr, plan.schema())?;
            exprs.push(lowered.alias(Self::name(*number)));
            types.push((*number, ty));
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).or_error()?;
        for (number, ty) in types {
            self.computed(number, ty);
        }
        Ok(plan)
    }

    fn grouped(&self, input: &Rel, keys: &Keys, aggregates: &Calls) -> Result<LogicalPlan> {
        let plan = self.rel(input)?;
        let (plan, keys, aggregates) = self.groups_without_subqueries(plan, keys, aggregates)?;
        let (schema, rows) = (Arc::clone(plan.schema()), plan.clone());
        let (mut group, mut calls) = (Vec::new(), Vec::new());
        let (mut group_made, mut calls_made): (Vec<Made>, Vec<Made>) = (Vec::new(), Vec::new());
        let mut is_native = true;
        let parted = self.in_parts(aggregates, &schema)?;
        let aggregates = &parted.calls;
        for (number, call) in aggregates {
            let (expr, is_ours) = self.aggregate_call(call, &schema)?;
            is_native &= !is_ours;
            let ty = Self::arrow_of(&expr, &schema)?;
            calls.push(expr.alias(Self::name(*number)));
            calls_made.push(field(Self::name(*number), &ty));
        }
        let mut columns = Vec::new();
        for (number, expr) in &keys {
            let (lowered, ty) = self.expr(expr, &schema)?;
            let name = Self::name(*number);
            if keys::kind(expr.ty, &ty) == KeyKind::Bytes {
                let key = format!("k{number}");
                group.push(keys::bytes(lowered.clone(), expr.ty).alias(key.as_str()));
                group_made.push(field(key, &DataType::Binary));
                let first = aggregate_of(first_last::first_value_udaf(), vec![lowered], false, None);
                calls.push(first.alias(name.as_str()));
                calls_made.push(field(name, &ty));
                columns.push((*number, None, ty));
            } else if let DfExpr::Column(column) = &lowered
                && is_native
                && !group.contains(&lowered)
            {
                columns.push((*number, Some(column.clone()), ty.clone()));
                group_made.push(field(name, &ty));
                group.push(lowered);
            } else {
                group.push(lowered.alias(name.as_str()));
                group_made.push(field(name, &ty));
                columns.push((*number, None, ty));
            }
        }
        // DataFusion needs a key or an aggregate: `GROUPING SETS ((a), ())` and HAVING alone may have neither.
        if group.is_empty() && calls.is_empty() {
            let rows = aggregate_of(count::count_udaf(), vec![lit(1_i64)], false, None);
            calls.push(rows.alias("rows"));
            calls_made.push(field("rows".to_owned(), &DataType::Int64));
        }
        let by = group.clone();
        let plan = if is_native {
            LogicalPlanBuilder::from(plan).aggregate(group, calls).and_then(LogicalPlanBuilder::build)
        } else {
            let count = group.len();
            let exprs = group.into_iter().chain(calls).collect();
            let made = group_made.into_iter().chain(calls_made.iter().cloned()).collect();
            let in_order = aggregates.iter().any(|(_, call)| depends_on_order(call));
            let groups = Groups { keys: count, in_order };
            Node::plan(Operator::Aggregate(groups), exprs, vec![plan], false, made)
        };
        for ((number, _), (_, field)) in aggregates.iter().zip(&calls_made) {
            self.computed(*number, field.data_type().clone());
        }
        let plan = self.of_parts(plan.or_error()?, &parted)?;
        let mut plan = functions::gap_filled(plan, &by, &rows).or_error()?;
        // DataFusion moves a condition that reads no aggregate below the aggregation, which has a row for no input if it
        // has no keys. It moves none below a limit.
        if keys.is_empty() && self.is_below_condition.get() {
            plan = LogicalPlan::Limit(Limit { skip: None, fetch: Some(Box::new(lit(1_i64))), input: Arc::new(plan) });
        }
        for (number, column, ty) in columns {
            match column {
                Some(column) => self.define(number, column, ty),
                None => {
                    self.computed(number, ty);
                }
            }
        }
        Ok(plan)
    }

    /// Replaces aggregates of integers and short floats by those of which they are computed with whole columns.
    fn in_parts(&self, aggregates: Vec<(u32, AggregateCall)>, schema: &DFSchema) -> Result<Parted> {
        let mut parted = Parted::default();
        for (column, call) in aggregates {
            let name = builtin().function_row(call.call.function).map_or("", |row| row.name);
            let of = match call.arguments.as_slice() {
                [of] if ["avg", "sum"].contains(&name) && !call.distinct && call.order_by.is_empty() => of,
                _ => {
                    parted.calls.push((column, call));
                    continue;
                }
            };
            let is_whole = is_whole(&self.expr(of, schema)?.1) || self.decimal_sum(of, schema)?.is_some();
            let (value, parts) = match (name, of.ty) {
                ("avg", TypeId::INT2) if is_whole => self.average(&call, "sum(int2)", TypeId::INT8)?,
                ("avg", TypeId::INT4) if is_whole => self.average(&call, "sum(int4)", TypeId::INT8)?,
                ("avg", TypeId::INT8) if is_whole => self.average(&call, "sum(int8)", TypeId::NUMERIC)?,
                ("avg", TypeId::NUMERIC) if is_whole => self.average(&call, "sum(numeric)", TypeId::NUMERIC)?,
                // Floats of 32 bits are added in 64 bits.
                ("sum", TypeId::FLOAT4) => {
                    let wide = computed("float8(float4)", TypeId::FLOAT8, vec![of.clone()])?;
                    let sum = self.add(TypeId::FLOAT8);
                    let call =
                        AggregateCall { arguments: vec![wide], ..aggregate(&call, "sum(float8)", TypeId::FLOAT8)? };
                    (
                        computed("float4(float8)", TypeId::FLOAT4, vec![column_of(sum, TypeId::FLOAT8)])?,
                        vec![(sum, call)],
                    )
                }
                _ => {
                    parted.calls.push((column, call));
                    continue;
                }
            };
            parted.parts.extend(parts.iter().map(|(column, _)| *column));
            parted.calls.extend(parts);
            parted.values.push((column, value));
        }
        parted.share();
        Ok(parted)
    }

    /// An average as the exact quotient of a sum and a count, and these.
    fn average(&self, call: &AggregateCall, sum: &str, sum_ty: TypeId) -> Result<(Expr, Vec<(u32, AggregateCall)>)> {
        let (total, count) = (self.add(sum_ty), self.add(TypeId::INT8));
        let parts = vec![(total, aggregate(call, sum, sum_ty)?), (count, aggregate(call, "count(any)", TypeId::INT8)?)];
        let numeric = |column: u32, ty: TypeId| match ty {
            TypeId::NUMERIC => Ok(column_of(column, ty)),
            _ => computed("numeric(int8)", TypeId::NUMERIC, vec![column_of(column, ty)]),
        };
        let operands = vec![numeric(total, sum_ty)?, numeric(count, TypeId::INT8)?];
        Ok((computed("numeric_div", TypeId::NUMERIC, operands)?, parts))
    }

    /// Computes the aggregates that have parts over a plan of groups; its other columns are kept.
    fn of_parts(&self, plan: LogicalPlan, parted: &Parted) -> Result<LogicalPlan> {
        if parted.values.is_empty() {
            return Ok(plan);
        }
        let is_part = |name: &str| parted.parts.iter().any(|part| name == Self::name(*part));
        let kept = plan.schema().columns().into_iter().filter(|column| !is_part(&column.name));
        let mut columns: Vec<DfExpr> = kept.map(DfExpr::Column).collect();
        let mut made = Vec::with_capacity(parted.values.len());
        for (column, value) in &parted.values {
            let (lowered, ty) = self.expr(value, plan.schema())?;
            columns.push(lowered.alias(Self::name(*column)));
            made.push((*column, ty));
        }
        let plan = LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).or_error()?;
        for (column, ty) in made {
            self.computed(column, ty);
        }
        Ok(plan)
    }

    fn groups_without_subqueries(&self, plan: LogicalPlan, keys: &Keys, aggregates: &Calls) -> Result<Grouped> {
        let (mut keys, mut aggregates) = (keys.to_vec(), aggregates.to_vec());
        let mut slots: Vec<&mut Expr> = keys.iter_mut().map(|(_, expr)| expr).collect();
        for (_, call) in &mut aggregates {
            slots.extend(call.arguments.iter_mut().chain(call.filter.iter_mut()));
            slots.extend(call.order_by.iter_mut().map(|key| &mut key.expr));
        }
        let exprs = slots.iter().map(|expr| (**expr).clone()).collect();
        let (plan, exprs) = self.without_subqueries(plan, exprs)?;
        for (slot, expr) in slots.into_iter().zip(exprs) {
            *slot = expr;
        }
        Ok((plan, keys, aggregates))
    }

    /// An aggregate's call, and whether it is one of ours.
    fn aggregate_call(&self, call: &AggregateCall, schema: &DFSchema) -> Result<(DfExpr, bool)> {
        let filter = match &call.filter {
            Some(filter) => {
                let conditions = self.conditions(filter, schema)?;
                Some(joined(conditions, Op::And).ok_or_else(|| Error::bug("FILTER without condition"))?)
            }
            None => None,
        };
        if let Some(native) = self.native_aggregate(call, filter.clone(), schema)? {
            return Ok((native, false));
        }
        let Some(row) = builtin().function_row(call.call.function) else {
            return Err(Error::unsupported("an aggregate that is not PostgreSQL's"));
        };
        if scalar::aggregate(call.call.function).is_none() {
            return Err(Error::unsupported(format!("aggregate {} is not supported", row.name)));
        }
        let mut arguments = Vec::new();
        for expr in call.arguments.iter().chain(call.order_by.iter().map(|key| &key.expr)) {
            arguments.push(self.expr(expr, schema)?.0);
        }
        let spec = self.spec(call, row.is_strict);
        if arguments.is_empty() {
            return Err(Error::unsupported(format!("aggregate {} without arguments is not supported", row.name)));
        }
        let function = Arc::new(AggregateUDF::from(Accumulate::new(spec)));
        Ok((aggregate_of(function, arguments, false, filter), true))
    }

    /// The facts of a call.
    pub(crate) fn spec(&self, call: &AggregateCall, is_strict: bool) -> Spec {
        let order = call.order_by.iter().map(|key| Order {
            ty: key.expr.ty,
            descending: key.descending,
            nulls_first: key.nulls_first,
        });
        Spec {
            call: call.call.clone(),
            arguments: call.arguments.iter().map(|argument| argument.ty).collect(),
            order: order.collect(),
            distinct: call.distinct,
            within_group: call.within_group,
            is_strict,
            ty: call.call.result,
            session: Arc::clone(&self.session),
            zone: Arc::clone(&self.zone),
        }
    }

    /// The name of an aggregate of ours that computes a call by whole columns. The value with the greatest time is the last one.
    fn own_name(&self, name: &'static str, call: &AggregateCall, schema: &DFSchema) -> Result<&'static str> {
        let is_last = match name {
            "max_by" | "arg_max" => true,
            "min_by" | "arg_min" => false,
            name => return Ok(name),
        };
        let [_, key] = call.arguments.as_slice() else { return Ok(name) };
        // `last` reads times in nanoseconds, which others may not fit in.
        let key = self.expr(key, schema)?.1;
        let is_time = matches!(key, DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Int64);
        let is_plain = call.order_by.is_empty() && !call.distinct;
        Ok(match (is_time && is_plain, is_last) {
            (true, true) => "last",
            (true, false) => "first",
            (false, _) => name,
        })
    }

    /// The call of a statistic of floats, which is computed by whole columns.
    fn statistic(
        &self,
        call: &AggregateCall,
        name: &'static str,
        filter: Option<DfExpr>,
        schema: &DFSchema,
    ) -> Result<Option<DfExpr>> {
        let Some((function, arguments)) = moments::named(name) else { return Ok(None) };
        let is_float = |argument: &Expr| matches!(form(argument.ty), Form::Float4 | Form::Float8);
        let is_plain = !call.distinct && call.order_by.is_empty();
        if !is_plain || call.arguments.len() != arguments || !call.arguments.iter().all(is_float) {
            return Ok(None);
        }
        let mut lowered = Vec::with_capacity(arguments);
        for argument in &call.arguments {
            let (value, arrow) = self.expr(argument, schema)?;
            lowered.push(if arrow == DataType::Float64 { value } else { cast(value, DataType::Float64) });
        }
        Ok(Some(aggregate_of(function, lowered, false, filter)))
    }

    /// The call of an aggregate that DataFusion computes with the same result.
    fn native_aggregate(
        &self,
        call: &AggregateCall,
        filter: Option<DfExpr>,
        schema: &DFSchema,
    ) -> Result<Option<DfExpr>> {
        let Some(row) = builtin().function_row(call.call.function) else { return Ok(None) };
        if call.within_group {
            return Ok(None);
        }
        if row.is_own() {
            let Some(function) = functions::aggregate(self.own_name(row.name, call, schema)?) else { return Ok(None) };
            let lowered = call.arguments.iter().map(|argument| Ok(self.expr(argument, schema)?.0));
            return Ok(Some(aggregate_of(function, lowered.collect::<Result<_>>()?, call.distinct, filter)));
        }
        if let Some(statistic) = self.statistic(call, row.name, filter.clone(), schema)? {
            return Ok(Some(statistic));
        }
        let argument = match call.arguments.as_slice() {
            [] if row.name == "count" => {
                return Ok(Some(aggregate_of(count::count_udaf(), vec![lit(1_i64)], false, filter)));
            }
            [argument] => argument,
            _ => return Ok(None),
        };
        if row.name == "sum"
            && !call.distinct
            && let Some((function, decimals)) = self.decimal_sum(argument, schema)?
        {
            return Ok(Some(aggregate_of(function, vec![decimals], false, filter)));
        }
        let (lowered, arrow) = self.expr(argument, schema)?;
        let of_query = |name: &str, own: fn() -> Arc<AggregateUDF>| functions::aggregate(name).unwrap_or_else(own);
        // A sum of 64-bit integers is a numeric.
        let digits = match arrow {
            DataType::Int64 => Some(19),
            DataType::UInt64 => Some(20),
            _ => None,
        };
        if let (Some(digits), "sum", false) = (digits, row.name, call.distinct) {
            let wide = cast(lowered, DataType::Decimal128(digits, 0));
            return Ok(Some(aggregate_of(sum::sum_udaf(), vec![wide], false, filter)));
        }
        if let (Form::Float4, "avg", false, true) =
            (form(argument.ty), row.name, call.distinct, call.order_by.is_empty())
        {
            let wide = cast(lowered, DataType::Float64);
            return Ok(Some(aggregate_of(of_query("avg", average::avg_udaf), vec![wide], false, filter)));
        }
        let is_decimal = matches!(arrow, DataType::Decimal128(..) | DataType::UInt64);
        let function = match (row.name, form(argument.ty)) {
            ("count", _) if call.distinct => {
                let key = keys::keyed(lowered, argument.ty, &arrow);
                return Ok(Some(aggregate_of(count::count_udaf(), vec![key], true, filter)));
            }
            ("count", _) => count::count_udaf(),
            ("min" | "max", _) if is_decimal => {
                if row.name == "min" {
                    min_max::min_udaf()
                } else {
                    min_max::max_udaf()
                }
            }
            // NaN is the greatest float; only our aggregates know that.
            ("min" | "max", Form::Float4 | Form::Float8) => match functions::aggregate(row.name) {
                Some(function) => function,
                None => return Ok(None),
            },
            (
                "min" | "max",
                Form::Int2 | Form::Int4 | Form::Int8 | Form::Text | Form::Date | Form::Timestamp | Form::Timestamptz,
            ) if keys::kind(argument.ty, &arrow) == KeyKind::Native => {
                if row.name == "min" {
                    of_query("min", min_max::min_udaf)
                } else {
                    of_query("max", min_max::max_udaf)
                }
            }
            // Sums of fewer than 2^32 integers of 32 bits fit in 64 bits.
            ("sum", Form::Int2 | Form::Int4) if !call.distinct => of_query("sum", sum::sum_udaf),
            ("sum", Form::Float8) if !call.distinct && call.order_by.is_empty() => of_query("sum", sum::sum_udaf),
            ("avg", Form::Float8) if !call.distinct && call.order_by.is_empty() => of_query("avg", average::avg_udaf),
            ("bool_and" | "every", Form::Bool) => bool_and_or::bool_and_udaf(),
            ("bool_or", Form::Bool) => bool_and_or::bool_or_udaf(),
            _ => return Ok(None),
        };
        // The result must have the type that the statement expects.
        let expr = aggregate_of(function, vec![lowered], false, filter);
        let made = Self::arrow_of(&expr, schema);
        let is_expected =
            is_decimal || made.is_ok_and(|ty| ty == arrow_type(call.call.result, &self.zone) || ty.is_string());
        Ok(is_expected.then_some(expr))
    }
}

/// Aggregates, some of which are computed of others.
#[derive(Default)]
struct Parted {
    /// The calls of the groups.
    calls: Vec<(u32, AggregateCall)>,
    /// Columns among them that only `values` use.
    parts: Vec<u32>,
    /// Columns that are computed over the groups.
    values: Vec<(u32, Expr)>,
}

impl Parted {
    /// Computes calls once that several aggregates have as a part, or that are asked for too: `sum(x), avg(x)`.
    fn share(&mut self) {
        let mut kept: Vec<(u32, AggregateCall)> = Vec::with_capacity(self.calls.len());
        let (parts, asked): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.calls).into_iter().partition(|(column, _)| self.parts.contains(column));
        for (column, call) in asked.into_iter().chain(parts) {
            let mut exprs = call.arguments.iter().chain(&call.filter);
            let may_share = self.parts.contains(&column) && exprs.all(|expr| stability(expr) != Volatility::Volatile);
            let same = kept.iter().find(|(_, one)| may_share && *one == call).map(|(same, _)| *same);
            let Some(same) = same else {
                kept.push((column, call));
                continue;
            };
            for (_, value) in &mut self.values {
                value.visit_mut(&mut |part| {
                    if matches!(part.kind, ExprKind::Column(of) if of == column) {
                        part.kind = ExprKind::Column(same);
                    }
                });
            }
        }
        self.calls = kept;
    }
}

/// The call of another aggregate with the same arguments.
fn aggregate(call: &AggregateCall, signature: &str, result: TypeId) -> Result<AggregateCall> {
    let call_of = Call { function: number_of(signature)?, result, ..call.call.clone() };
    Ok(AggregateCall { call: call_of, ..call.clone() })
}

fn computed(signature: &str, result: TypeId, operands: Vec<Expr>) -> Result<Expr> {
    let arguments = operands.iter().map(|operand| operand.ty).collect();
    let call = Call { function: number_of(signature)?, operator: None, arguments, result };
    Ok(Expr::new(ExprKind::Call(Box::new(call), operands), result, Place::default()))
}

fn number_of(signature: &str) -> Result<u32> {
    signature_number(builtin(), signature).ok_or_else(|| Error::bug(format!("no function {signature}")))
}

fn column_of(column: u32, ty: TypeId) -> Expr {
    Expr::new(ExprKind::Column(column), ty, Place::default())
}

/// Whether values of an Arrow type are integers, of which sums are exact.
fn is_whole(ty: &DataType) -> bool {
    matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::UInt64)
}

/// Whether the result depends on the order of the rows, as those of lists and of trades at one time do, and the call names none.
fn depends_on_order(call: &AggregateCall) -> bool {
    let name = builtin().function_row(call.call.function).map_or("", |row| row.name);
    call.order_by.is_empty() && !call.distinct && (name.ends_with("_agg") || name == "candlestick")
}

fn field(name: String, ty: &DataType) -> Made {
    (None, Arc::new(Field::new(name, ty.clone(), true)))
}

fn aggregate_of(function: Arc<AggregateUDF>, arguments: Vec<DfExpr>, distinct: bool, filter: Option<DfExpr>) -> DfExpr {
    let filter = filter.map(Box::new);
    DfExpr::AggregateFunction(AggregateFunction::new_udf(function, arguments, distinct, filter, Vec::new(), None))
}
