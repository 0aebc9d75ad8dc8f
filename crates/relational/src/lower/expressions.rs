//! Lowers scalar expressions: what DataFusion computes as PostgreSQL does becomes an expression of DataFusion, everything
//! else a call of [`Evaluate`] on the largest possible part.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use catalog::{TypeId, Volatility};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{BinaryExpr, Expr as DfExpr, Like, Operator, cast, when};
use datafusion::scalar::ScalarValue;
use model::{Datum, Error, Numeric, Result, SqlState, user_types};
use rustc_hash::FxHashSet;
use scalar::{BooleanTest, Expr, ExprKind, Session, Value};

use crate::arrow::{Form, arrow_type, form};
use crate::evaluation::evaluate::{Evaluate, Program, constant, has_exact_items, in_list, stability};
use crate::evaluation::keys::{self, IsAsked};
use crate::evaluation::natives::{self, Native, is_equality, native};
use crate::evaluation::points::Points;
use crate::functions;
use crate::lower::lowering::Lowering;

/// A lowered expression and its Arrow type.
pub(crate) type Typed = (DfExpr, DataType);

impl Lowering<'_> {
    /// Lowers an expression without subqueries.
    pub(crate) fn expr(&self, expr: &Expr, schema: &DFSchema) -> Result<Typed> {
        match self.native(expr, schema)? {
            Some(found) => Ok(found),
            None => self.evaluated(expr, schema),
        }
    }

    /// Lowers an expression to the Arrow type of computed values, for operators whose inputs must agree.
    pub(crate) fn canonical(&self, expr: &Expr, schema: &DFSchema) -> Result<Typed> {
        let (lowered, ty) = self.expr(expr, schema)?;
        if ty == arrow_type(expr.ty, &self.zone) {
            return Ok((lowered, ty));
        }
        self.evaluated(expr, schema)
    }

    /// The expression whose native order and equality are those of an expression's values.
    pub(crate) fn key(&self, expr: &Expr, schema: &DFSchema) -> Result<DfExpr> {
        let (lowered, arrow) = self.expr(expr, schema)?;
        Ok(keys::keyed(lowered, expr.ty, &arrow))
    }

    fn evaluated(&self, expr: &Expr, schema: &DFSchema) -> Result<Typed> {
        let (program, arguments) = self.program(expr, schema)?;
        let ty = arrow_type(expr.ty, &self.zone);
        Ok((Evaluate::call(program, arguments), ty))
    }

    /// An expression over columns numbered from 0, and what these columns are.
    pub(crate) fn program(&self, expr: &Expr, schema: &DFSchema) -> Result<(Program, Vec<DfExpr>)> {
        let (mut columns, mut arguments, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let mut own_calls = i64::MIN / 2;
        let mut expr = expr.clone();
        let mut failure = None;
        expr.visit_mut(&mut |part| {
            let lowered = match &part.kind {
                ExprKind::Call(call, operands) if let Some(Native::Own(name)) = native(call.function) => {
                    own_calls -= 1;
                    self.own_call(name, operands, part.ty, schema).map(|(expr, _)| (own_calls, expr))
                }
                ExprKind::Column(column) => self.column(*column, schema).map(|(expr, _)| (*column as i64, expr)),
                ExprKind::Parameter(number) => Ok((-1 - i64::from(*number), self.parameter(*number, part.ty))),
                ExprKind::Call(call, _) if native(call.function) == Some(Native::Now) => match self.now() {
                    Ok(Some((now, _))) => Ok((i64::MIN, now)),
                    _ => return,
                },
                ExprKind::SqlValue(value) if natives::is_now(*value, part.typmod) => match self.now() {
                    Ok(Some((now, _))) => Ok((i64::MIN, now)),
                    _ => return,
                },
                ExprKind::Subquery(_) => Err(Error::bug("a subquery that was not replaced by a column")),
                _ => return,
            };
            match lowered {
                Ok((number, argument)) => {
                    let at = numbers.iter().position(|one| *one == number).unwrap_or_else(|| {
                        numbers.push(number);
                        columns.push(part.ty);
                        arguments.push(argument);
                        numbers.len() - 1
                    });
                    part.kind = ExprKind::Column(at as u32);
                }
                Err(error) => failure = Some(error),
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        check_functions(&expr, &self.session)?;
        let program = Program {
            expr: Arc::new(expr),
            columns: columns.into(),
            session: Arc::clone(&self.session),
            zone: Arc::clone(&self.zone),
        };
        Ok((program, arguments))
    }

    fn parameter(&self, number: u32, ty: TypeId) -> DfExpr {
        let field = Arc::new(Field::new("", arrow_type(ty, &self.zone), true));
        let name = format!("${}", i64::from(number) + 1);
        DfExpr::Placeholder(Placeholder::new_with_field(name, Some(field)))
    }

    /// The native form of an expression, which fails for no values; `None` if there is none.
    pub(crate) fn native(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Typed>> {
        let boolean = |expr: DfExpr| Some((expr, DataType::Boolean));
        Ok(match &expr.kind {
            ExprKind::Constant(value) => {
                let Ok(literal) = constant(&value.datum(), expr.ty, &self.zone) else { return Ok(None) };
                Some((DfExpr::Literal(literal, None), arrow_type(expr.ty, &self.zone)))
            }
            ExprKind::Column(column) => Some(self.column(*column, schema)?),
            ExprKind::Parameter(number) => Some((self.parameter(*number, expr.ty), arrow_type(expr.ty, &self.zone))),
            ExprKind::And(list) => {
                check_chain(list.len())?;
                self.natives(list, schema)?.and_then(|list| boolean(joined(list, Operator::And)?))
            }
            ExprKind::Or(list) => {
                check_chain(list.len())?;
                self.natives(list, schema)?.and_then(|list| boolean(joined(list, Operator::Or)?))
            }
            ExprKind::Not(of) => self.native(of, schema)?.and_then(|(of, _)| boolean(DfExpr::Not(Box::new(of)))),
            // IS NULL of a row and of a record is about its columns.
            ExprKind::IsNull(of) if form(of.ty) != Form::Encoded || of.ty == TypeId::NUMERIC => {
                self.native(of, schema)?.and_then(|(of, _)| boolean(DfExpr::IsNull(Box::new(of))))
            }
            ExprKind::IsNotNull(of) if let Some(keys) = self.asked_keys(of) => {
                let (column, _) = self.expr(of, schema)?;
                boolean(IsAsked::call(keys, column))
            }
            ExprKind::IsNotNull(of) if form(of.ty) != Form::Encoded || of.ty == TypeId::NUMERIC => {
                self.native(of, schema)?.and_then(|(of, _)| boolean(DfExpr::IsNotNull(Box::new(of))))
            }
            ExprKind::BooleanTest(of, test) => self.native(of, schema)?.and_then(|(of, _)| {
                let of = Box::new(of);
                boolean(match test {
                    BooleanTest::True => DfExpr::IsTrue(of),
                    BooleanTest::NotTrue => DfExpr::IsNotTrue(of),
                    BooleanTest::False => DfExpr::IsFalse(of),
                    BooleanTest::NotFalse => DfExpr::IsNotFalse(of),
                    BooleanTest::Unknown => DfExpr::IsUnknown(of),
                    BooleanTest::NotUnknown => DfExpr::IsNotUnknown(of),
                })
            }),
            ExprKind::Relabel(of) => {
                let gets_names = expr.ty == TypeId::RECORD && user_types::is_composite(of.ty.0);
                let is_same = form(of.ty) == form(expr.ty) && keys_agree(of.ty, expr.ty);
                if is_same && !gets_names { self.native(of, schema)? } else { None }
            }
            ExprKind::Call(call, arguments) => match (native(call.function), arguments.as_slice()) {
                (Some(Native::Compare(operator)), [left, right]) => self.comparison(operator, left, right, schema)?,
                (Some(Native::CompareNumeric(operator)), [left, right]) => {
                    self.numeric_comparison(operator, left, right, schema)?
                }
                (Some(Native::CompareDay(operator)), [left, right]) => {
                    self.day_comparison(operator, left, right, schema)?
                }
                (Some(Native::Cast(to)), [of]) => self.native(of, schema)?.map(|(of, _)| {
                    let to = arrow_type(to, &self.zone);
                    (cast(of, to.clone()), to)
                }),
                (Some(Native::Like { negated }), [left, right]) => self.like(negated, left, right, schema)?,
                (Some(Native::Shift { back }), [left, right]) => self.shift(back, left, right, schema)?,
                (Some(Native::Call(name)), arguments) => self.native_call(name, arguments, schema)?,
                (Some(Native::Now), []) => self.now()?,
                (Some(Native::Own(name)), arguments) => Some(self.own_call(name, arguments, expr.ty, schema)?),
                (None, _) if expr.ty == TypeId::NUMERIC => self.decimal_arithmetic(expr, schema)?,
                _ => None,
            },
            ExprKind::Distinct(call, operands) if native(call.function) == Some(Native::Compare(Operator::Eq)) => {
                let [left, right] = operands.as_ref();
                match form(left.ty) {
                    // Equal floats may have other bits.
                    Form::Float4 | Form::Float8 => None,
                    _ => self.comparison(Operator::IsDistinctFrom, left, right, schema)?,
                }
            }
            ExprKind::InList { all, call, left, list } => {
                let Some(items) = constants(list) else { return Ok(None) };
                self.in_list(*all, call, left, &items, call.arguments.get(1).copied(), schema)?
            }
            ExprKind::Quantified { all, call, operands } => match constant_items(&operands[1].kind) {
                Some(items) if !items.is_empty() => {
                    self.in_list(*all, call, &operands[0], &items, call.arguments.get(1).copied(), schema)?
                }
                _ => None,
            },
            ExprKind::Case { operand: None, branches, otherwise } => {
                self.case(branches, otherwise.as_deref(), expr.ty, schema)?
            }
            ExprKind::Coalesce(list) => self.coalesce(list, schema)?,
            ExprKind::SqlValue(value) if natives::is_now(*value, expr.typmod) => self.now()?,
            _ => None,
        })
    }

    /// The time of the transaction.
    fn now(&self) -> Result<Option<Typed>> {
        // Not by `scalar`, which rounds its nanoseconds.
        let function = functions::scalar("now").ok_or_else(|| Error::bug("now() is not registered"))?;
        let ty = arrow_type(TypeId::TIMESTAMPTZ, &self.zone);
        Ok(Some((cast(function.call(Vec::new()), ty.clone()), ty)))
    }

    fn natives(&self, list: &[Expr], schema: &DFSchema) -> Result<Option<Vec<DfExpr>>> {
        let mut lowered = Vec::with_capacity(list.len());
        for item in list {
            let Some((item, _)) = self.native(item, schema)? else { return Ok(None) };
            lowered.push(item);
        }
        Ok(Some(lowered))
    }

    fn comparison(&self, operator: Operator, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Typed>> {
        if let Some(found) = self.comparison_beyond_range(operator, left, right, schema)? {
            return Ok(Some(found));
        }
        let (Some((left, left_ty)), Some((right, right_ty))) =
            (self.native(left, schema)?, self.native(right, schema)?)
        else {
            return Ok(None);
        };
        let is_moment = |ty: &DataType| matches!(ty, DataType::Timestamp(..));
        let agree = left_ty == right_ty
            || (left_ty.is_integer() && right_ty.is_integer())
            || (left_ty.is_floating() && right_ty.is_floating())
            || (left_ty.is_string() && right_ty.is_string())
            || (is_moment(&left_ty) && is_moment(&right_ty));
        Ok(agree.then(|| (binary(left, operator, right), DataType::Boolean)))
    }

    /// Compares times with a constant beyond the range of nanoseconds, such as `infinity` or the year 9999: with the end of
    /// the range instead, so that scans can use the condition.
    fn comparison_beyond_range(
        &self,
        operator: Operator,
        left: &Expr,
        right: &Expr,
        schema: &DFSchema,
    ) -> Result<Option<Typed>> {
        let Some((times, operator, value)) = beside_constant(operator, left, right) else { return Ok(None) };
        let (Datum::Timestamptz(micros) | Datum::Timestamp(micros)) = value.datum() else { return Ok(None) };
        if micros.checked_mul(1_000).is_some() {
            return Ok(None);
        }
        let Some((times, DataType::Timestamp(TimeUnit::Nanosecond, zone))) = self.native(times, schema)? else {
            return Ok(None);
        };
        let is_future = micros > 0;
        let (operator, end) = match (operator, is_future) {
            (Operator::Lt | Operator::LtEq | Operator::NotEq, true) => (Operator::LtEq, i64::MAX),
            (Operator::Gt | Operator::GtEq | Operator::Eq, true) => (Operator::Gt, i64::MAX),
            (Operator::Gt | Operator::GtEq | Operator::NotEq, false) => (Operator::GtEq, i64::MIN),
            (Operator::Lt | Operator::LtEq | Operator::Eq, false) => (Operator::Lt, i64::MIN),
            _ => return Ok(None),
        };
        let end = DfExpr::Literal(ScalarValue::TimestampNanosecond(Some(end), zone), None);
        Ok(Some((binary(times, operator, end), DataType::Boolean)))
    }

    /// Compares dates with a constant timestamp as with a constant date, and timestamps with a constant date as with a constant
    /// timestamp, so that scans can use the condition.
    fn day_comparison(
        &self,
        operator: Operator,
        left: &Expr,
        right: &Expr,
        schema: &DFSchema,
    ) -> Result<Option<Typed>> {
        const DAY: i64 = 86_400_000_000;
        let Some((of, operator, value)) = beside_constant(operator, left, right) else { return Ok(None) };
        let Some((of, ty)) = self.native(of, schema)? else { return Ok(None) };
        let (operator, literal) = match (ty, value.datum()) {
            (DataType::Date32, Datum::Timestamp(micros)) if !matches!(micros, i64::MIN | i64::MAX) => {
                let Ok(day) = i32::try_from(micros.div_euclid(DAY)) else { return Ok(None) };
                let Some(operator) = beside_floor(operator, micros.rem_euclid(DAY) == 0) else { return Ok(None) };
                (operator, ScalarValue::Date32(Some(day)))
            }
            (DataType::Timestamp(TimeUnit::Nanosecond, None), Datum::Date(day)) => {
                let Some(nanos) = i64::from(day).checked_mul(DAY * 1_000) else { return Ok(None) };
                (operator, ScalarValue::TimestampNanosecond(Some(nanos), None))
            }
            _ => return Ok(None),
        };
        Ok(Some((binary(of, operator, DfExpr::Literal(literal, None)), DataType::Boolean)))
    }

    /// Compares a column of decimals with a constant of its scale, so that scans can use the condition; or two expressions of
    /// decimals.
    fn numeric_comparison(
        &self,
        operator: Operator,
        left: &Expr,
        right: &Expr,
        schema: &DFSchema,
    ) -> Result<Option<Typed>> {
        if let Some((of, operator, value)) = beside_constant(operator, left, right)
            && let ExprKind::Column(column) = of.kind
            && let (column, DataType::Decimal128(precision, scale)) = self.column(column, schema)?
            && let Datum::Numeric(value) = value.datum()
            && let Some((unscaled, is_exact)) = floor(&value, scale)
            && let Some(operator) = beside_floor(operator, is_exact)
            && 10_i128.checked_pow(precision.into()).is_some_and(|end| unscaled.abs() < end)
        {
            let literal = ScalarValue::Decimal128(Some(unscaled), precision, scale);
            return Ok(Some((binary(column, operator, DfExpr::Literal(literal, None)), DataType::Boolean)));
        }
        let sides = self.decimals_of_one_scale([left, right], schema)?;
        Ok(sides.map(|[left, right]| (binary(left, operator, right), DataType::Boolean)))
    }

    /// LIKE with a constant pattern. A backslash escapes the next character, and its rules differ.
    fn like(&self, negated: bool, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Typed>> {
        let ExprKind::Constant(Value::Text(pattern)) = &right.kind else { return Ok(None) };
        if pattern.contains('\\') {
            return Ok(None);
        }
        let (Some((left, left_ty)), Some((right, _))) = (self.native(left, schema)?, self.native(right, schema)?)
        else {
            return Ok(None);
        };
        if !left_ty.is_string() {
            return Ok(None);
        }
        let like = Like::new(negated, Box::new(left), Box::new(right), None, false);
        Ok(Some((DfExpr::Like(like), DataType::Boolean)))
    }

    /// A timestamp and a constant interval without months and days: the same in every zone, exact to the nanosecond.
    fn shift(&self, back: bool, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Typed>> {
        let is_now = match &left.kind {
            ExprKind::Call(call, _) => native(call.function) == Some(Native::Now),
            ExprKind::SqlValue(value) => natives::is_now(*value, left.typmod),
            _ => false,
        };
        let ExprKind::Constant(value) = &right.kind else { return Ok(None) };
        if !is_now && !matches!(left.kind, ExprKind::Column(_)) {
            return Ok(None);
        }
        let Datum::Interval(interval) = value.datum() else { return Ok(None) };
        if (interval.months, interval.days) != (0, 0) {
            return Ok(None);
        }
        let (Some((left, ty)), Some((right, _))) = (self.native(left, schema)?, self.native(right, schema)?) else {
            return Ok(None);
        };
        let operator = if back { Operator::Minus } else { Operator::Plus };
        Ok(Some((binary(left, operator, right), ty)))
    }

    fn native_call(&self, name: &str, arguments: &[Expr], schema: &DFSchema) -> Result<Option<Typed>> {
        let Some(function) = functions::scalar(name).filter(|_| has_native_unit(name, arguments)) else {
            return Ok(None);
        };
        // The functions take the other arguments as constants.
        let columns = arguments.iter().filter(|argument| !matches!(argument.kind, ExprKind::Constant(_)));
        if columns.clone().count() != 1 || !columns.clone().all(|one| matches!(one.kind, ExprKind::Column(_))) {
            return Ok(None);
        }
        let Some(ty) = columns.map(|column| arrow_type(column.ty, &self.zone)).next() else { return Ok(None) };
        let Some(arguments) = self.natives(arguments, schema)? else { return Ok(None) };
        Ok(Some((function.call(arguments), ty)))
    }

    /// A call of one of the functions that PostgreSQL lacks.
    fn own_call(&self, name: &str, arguments: &[Expr], ty: TypeId, schema: &DFSchema) -> Result<Typed> {
        if let ([argument], Some(unit)) = (arguments, epoch_unit(name)) {
            return self.of_epoch(argument, unit, schema);
        }
        let missing = || Error::unsupported(format!("function {name} is not supported"));
        let function = functions::scalar(name).ok_or_else(missing)?;
        let value = arguments.first().map_or(TypeId::UNKNOWN, |value| value.ty);
        let lowered = arguments.iter().map(|argument| self.own_argument(argument, value, schema));
        let mut lowered = lowered.collect::<Result<Vec<_>>>()?;
        // A value of `locf` and the one before it have one type; a stored value may have another form than a computed one.
        if let ("locf", [of, before, ..]) = (name, arguments)
            && !before.is_null()
            && Self::arrow_of(&lowered[0], schema)? != Self::arrow_of(&lowered[1], schema)?
        {
            lowered[0] = self.canonical(of, schema)?.0;
            lowered[1] = self.canonical(before, schema)?.0;
        }
        let arguments = lowered;
        let call = function.call(arguments);
        let (made, wanted) = (Self::arrow_of(&call, schema)?, arrow_type(ty, &self.zone));
        // These functions make the largest integers, and moments of dates.
        let is_narrower = matches!(wanted, DataType::Int16 | DataType::Int32 | DataType::Date32) && made != wanted;
        Ok(if is_narrower { (cast(call, wanted.clone()), wanted) } else { (call, made) })
    }

    /// A count of units since 1970 as a moment.
    fn of_epoch(&self, count: &Expr, unit: TimeUnit, schema: &DFSchema) -> Result<Typed> {
        let zone = Some(Arc::clone(&self.zone));
        let ty = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
        if let (ExprKind::Constant(value), TimeUnit::Nanosecond) = (&count.kind, unit)
            && let Datum::Int8(nanos) = value.datum()
        {
            return Ok((DfExpr::Literal(ScalarValue::TimestampNanosecond(Some(nanos), zone), None), ty));
        }
        let counted = cast(self.expr(count, schema)?.0, DataType::Timestamp(unit, zone));
        Ok((cast(counted, ty.clone()), ty))
    }

    /// An argument of a function of crate `query`, where rows are structs of a moment and a value.
    fn own_argument(&self, argument: &Expr, value: TypeId, schema: &DFSchema) -> Result<DfExpr> {
        let (lowered, _) = self.expr(argument, schema)?;
        if argument.ty != TypeId::RECORD || argument.is_null() {
            return Ok(lowered);
        }
        Ok(Points::call(lowered, value, &self.zone))
    }

    /// A comparison with a list of constants. `all`: `<>` with each, else `=` with one of them.
    fn in_list(
        &self,
        all: bool,
        call: &scalar::Call,
        left: &Expr,
        items: &[&Value],
        item_ty: Option<TypeId>,
        schema: &DFSchema,
    ) -> Result<Option<Typed>> {
        let wanted = if all { Operator::NotEq } else { Operator::Eq };
        let Some(item_ty) = item_ty.filter(|_| native(call.function) == Some(Native::Compare(wanted))) else {
            return Ok(None);
        };
        let Some((lowered, ty)) = self.native(left, schema)?.filter(|_| has_exact_items(item_ty) && left.ty == item_ty)
        else {
            return Ok(None);
        };
        let is_stored_otherwise = ty != arrow_type(item_ty, &self.zone) && !ty.is_string();
        if is_stored_otherwise {
            return Ok(None);
        }
        let items: Vec<Datum<'_>> = items.iter().map(|item| item.datum()).collect();
        Ok(in_list(lowered, all, &items, item_ty, &self.zone).map(|among| (among, DataType::Boolean)))
    }

    fn case(
        &self,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        ty: TypeId,
        schema: &DFSchema,
    ) -> Result<Option<Typed>> {
        let wanted = arrow_type(ty, &self.zone);
        let same = |found: Option<Typed>| found.filter(|(_, ty)| *ty == wanted).map(|(expr, _)| expr);
        let mut builder = None;
        for (condition, result) in branches {
            if can_fail(condition) || can_fail(result) {
                return Ok(None);
            }
            let condition = self.native(condition, schema)?.map(|(expr, _)| expr);
            let (Some(condition), Some(result)) = (condition, same(self.native(result, schema)?)) else {
                return Ok(None);
            };
            builder = Some(match builder {
                None => when(condition, result),
                Some(mut builder) => datafusion::logical_expr::conditional_expressions::CaseBuilder::when(
                    &mut builder,
                    condition,
                    result,
                ),
            });
        }
        let Some(mut builder) = builder else { return Ok(None) };
        let made = match otherwise {
            Some(otherwise) if can_fail(otherwise) => return Ok(None),
            Some(otherwise) => match same(self.native(otherwise, schema)?) {
                Some(otherwise) => builder.otherwise(otherwise),
                None => return Ok(None),
            },
            None => builder.end(),
        };
        Ok(made.ok().map(|expr| (expr, wanted)))
    }

    fn coalesce(&self, list: &[Expr], schema: &DFSchema) -> Result<Option<Typed>> {
        if list.iter().any(can_fail) {
            return Ok(None);
        }
        let mut lowered = Vec::with_capacity(list.len());
        let mut ty = None;
        for item in list {
            let Some((item, item_ty)) = self.native(item, schema)? else { return Ok(None) };
            if *ty.get_or_insert(item_ty.clone()) != item_ty {
                return Ok(None);
            }
            lowered.push(item);
        }
        let Some(mut result) = lowered.pop() else { return Ok(None) };
        while let Some(item) = lowered.pop() {
            let is_known = DfExpr::IsNotNull(Box::new(item.clone()));
            let Ok(made) = when(is_known, item).otherwise(result) else { return Ok(None) };
            result = made;
        }
        Ok(ty.map(|ty| (result, ty)))
    }

    /// Lowers a condition to conjuncts, in an order and with guards so that none fails for a row that an earlier one
    /// excludes. `separate`: sides of a join, whose equalities become keys.
    pub(crate) fn conditions(&self, condition: &Expr, schema: &DFSchema) -> Result<Vec<DfExpr>> {
        let condition = factored(condition);
        let mut parts = Vec::new();
        split(&condition, &mut parts);
        check_chain(parts.len())?;
        let mut lowered = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            if let Some((native, _)) = self.native(part, schema)? {
                lowered.push(native);
                continue;
            }
            if let Some(equality) = self.equality(part, schema)? {
                lowered.push(equality);
                continue;
            }
            // DataFusion may compute conjuncts of a row that another one excludes, so those before are tested again.
            let columns = columns_of(part);
            let mut guarded: Vec<Expr> = parts[..at]
                .iter()
                .filter(|guard| !columns_of(guard).is_empty() && columns_of(guard).is_subset(&columns))
                .map(|guard| {
                    let kind = ExprKind::BooleanTest(Box::new((*guard).clone()), BooleanTest::True);
                    Expr::new(kind, TypeId::BOOL, guard.at)
                })
                .collect();
            let whole = if guarded.is_empty() {
                (*part).clone()
            } else {
                guarded.push((*part).clone());
                Expr::new(ExprKind::And(guarded), TypeId::BOOL, part.at)
            };
            lowered.push(self.evaluated(&whole, schema)?.0);
        }
        Ok(lowered)
    }

    /// An equality of expressions over different columns, by which joins can hash.
    fn equality(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<DfExpr>> {
        let ExprKind::Call(call, arguments) = &expr.kind else { return Ok(None) };
        let [left, right] = arguments.as_slice() else { return Ok(None) };
        let (left_columns, right_columns) = (columns_of(left), columns_of(right));
        let is_join = !left_columns.is_empty() && !right_columns.is_empty() && left_columns.is_disjoint(&right_columns);
        if !is_join || !is_equality(call) {
            return Ok(None);
        }
        let ((left_expr, left_ty), (right_expr, right_ty)) = (self.expr(left, schema)?, self.expr(right, schema)?);
        if left_ty == right_ty {
            let left_key = keys::keyed(left_expr, left.ty, &left_ty);
            return Ok(Some(binary(left_key, Operator::Eq, keys::keyed(right_expr, right.ty, &right_ty))));
        }
        let left_key = keys::bytes(left_expr, left.ty);
        Ok(Some(binary(left_key, Operator::Eq, keys::bytes(right_expr, right.ty))))
    }
}

/// The largest number of units of a digit that is at most a value, and whether it is that value.
fn floor(value: &Numeric, scale: i8) -> Option<(i128, bool)> {
    if let Some(unscaled) = value.unscaled(scale.into()) {
        return Some((unscaled, true));
    }
    let (value, own) = value.as_decimal()?;
    let unit = 10_i128.checked_pow(own.checked_sub(u32::try_from(scale).ok()?)?)?;
    Some((value.div_euclid(unit), false))
}

/// The comparison of whole numbers with the largest one that is at most a value, which is the same as with the value; `None` for
/// equality with a value that is no whole number.
fn beside_floor(operator: Operator, is_exact: bool) -> Option<Operator> {
    match operator {
        operator if is_exact => Some(operator),
        Operator::Lt | Operator::LtEq => Some(Operator::LtEq),
        Operator::Gt | Operator::GtEq => Some(Operator::Gt),
        _ => None,
    }
}

/// The sides of a comparison of an expression with a constant, the constant on the right.
fn beside_constant<'e>(operator: Operator, left: &'e Expr, right: &'e Expr) -> Option<(&'e Expr, Operator, &'e Value)> {
    match (&left.kind, &right.kind) {
        (ExprKind::Constant(_), ExprKind::Constant(_)) => None,
        (_, ExprKind::Constant(value)) => Some((left, operator, value)),
        (ExprKind::Constant(value), _) => Some((right, operator.swap()?, value)),
        _ => None,
    }
}

/// Numbers of the columns in an expression.
pub(crate) fn columns_of(expr: &Expr) -> FxHashSet<u32> {
    let mut columns = FxHashSet::default();
    expr.visit(&mut |part| {
        if let ExprKind::Column(column) = part.kind {
            columns.insert(column);
        }
    });
    columns
}

/// Maximum number of conditions that AND or OR joins: DataFusion plans them in quadratic time, which no timeout ends.
const CHAIN_MAX: usize = 1_000;

fn check_chain(conditions: usize) -> Result<()> {
    if conditions <= CHAIN_MAX {
        return Ok(());
    }
    let text = format!("AND or OR of {conditions} conditions; the limit of this query is {CHAIN_MAX}");
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, text)
        .with_hint("write long alternatives as `x IN (…)` or join a VALUES list"))
}

/// The conjuncts of a condition.
pub(crate) fn split<'e>(condition: &'e Expr, into: &mut Vec<&'e Expr>) {
    match &condition.kind {
        ExprKind::And(list) => list.iter().for_each(|part| split(part, into)),
        _ => into.push(condition),
    }
}

/// Parts of a condition joined by AND; `None` without any.
pub(crate) fn all_of(parts: &[&Expr]) -> Option<Expr> {
    match parts {
        [] => None,
        [only] => Some(Expr::clone(only)),
        [first, ..] => {
            let all = parts.iter().copied().cloned().collect();
            Some(Expr::new(ExprKind::And(all), TypeId::BOOL, first.at))
        }
    }
}

/// Takes conditions that all alternatives of an OR have out of it: an equality of two tables among them makes the join a hash
/// join. `(a AND b) OR (a AND c)` becomes `a AND (b OR c)`, which is the same in three-valued logic.
fn factored(condition: &Expr) -> Cow<'_, Expr> {
    let mut parts = Vec::new();
    split(condition, &mut parts);
    if !parts.iter().any(|part| matches!(part.kind, ExprKind::Or(_))) {
        return Cow::Borrowed(condition);
    }
    let mut all = Vec::with_capacity(parts.len());
    let mut is_changed = false;
    for part in parts {
        match common_parts(part) {
            Some((common, rest)) => {
                is_changed = true;
                all.extend(common);
                all.extend(rest);
            }
            None => all.push(part.clone()),
        }
    }
    if is_changed {
        Cow::Owned(Expr::new(ExprKind::And(all), TypeId::BOOL, condition.at))
    } else {
        Cow::Borrowed(condition)
    }
}

/// The conditions that all alternatives of an OR have, and what is left of it; `None` if there are none.
fn common_parts(or: &Expr) -> Option<(Vec<Expr>, Option<Expr>)> {
    let ExprKind::Or(list) = &or.kind else { return None };
    let alternatives = list.iter().map(|one| {
        let mut parts = Vec::new();
        split(one, &mut parts);
        parts
    });
    let alternatives: Vec<Vec<&Expr>> = alternatives.collect();
    let (first, others) = alternatives.split_first()?;
    let is_common =
        |part: &&&Expr| stability(part) != Volatility::Volatile && others.iter().all(|other| other.contains(*part));
    let common: Vec<&Expr> = first.iter().filter(is_common).copied().collect();
    if common.is_empty() {
        return None;
    }
    let own = |parts: &Vec<&Expr>| {
        let own: Vec<&Expr> = parts.iter().filter(|part| !common.contains(part)).copied().collect();
        all_of(&own)
    };
    // An alternative that has nothing else makes the others superfluous.
    let rest = alternatives.iter().map(own).collect::<Option<Vec<Expr>>>();
    let rest = rest.map(|rest| Expr::new(ExprKind::Or(rest), TypeId::BOOL, or.at));
    Some((common.into_iter().cloned().collect(), rest))
}

/// The elements of an array that are constants: `'{1,2}'`, `ARRAY[1, 2]`.
fn constant_items(array: &ExprKind) -> Option<Vec<&Value>> {
    match array {
        ExprKind::Constant(Value::Array { items, .. }) => Some(items.iter().collect()),
        ExprKind::Array { elements, .. } => constants(elements),
        _ => None,
    }
}

/// The values of expressions that are constants.
fn constants(list: &[Expr]) -> Option<Vec<&Value>> {
    list.iter().map(|item| if let ExprKind::Constant(value) = &item.kind { Some(value) } else { None }).collect()
}

/// Expressions joined by an operator; `None` without any.
pub(crate) fn joined(list: Vec<DfExpr>, operator: Operator) -> Option<DfExpr> {
    list.into_iter().reduce(|left, right| binary(left, operator, right))
}

pub(crate) fn binary(left: DfExpr, operator: Operator, right: DfExpr) -> DfExpr {
    DfExpr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// The unit of a function that makes moments of counts since 1970.
fn epoch_unit(name: &str) -> Option<TimeUnit> {
    Some(match name {
        "to_timestamp_nanos" => TimeUnit::Nanosecond,
        "to_timestamp_micros" => TimeUnit::Microsecond,
        "to_timestamp_millis" => TimeUnit::Millisecond,
        "to_timestamp_seconds" => TimeUnit::Second,
        _ => return None,
    })
}

/// Units that the native `date_trunc` knows; crate `scalar` knows the others, such as `mon` and `decade`.
const NATIVE_UNITS: [&str; 8] = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];

/// Whether a call of a native function is not one of `date_trunc` with another unit.
fn has_native_unit(name: &str, arguments: &[Expr]) -> bool {
    if name == "date_bin" {
        return true;
    }
    let unit = arguments.first().map(|argument| &argument.kind);
    matches!(unit, Some(ExprKind::Constant(Value::Text(unit))) if NATIVE_UNITS.contains(&&**unit))
}

/// Whether the native form can fail: the functions of crate `query` and sums of timestamps.
pub(crate) fn can_fail(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| {
        if let ExprKind::Call(call, _) = &part.kind {
            found |= matches!(native(call.function), Some(Native::Call(_) | Native::Own(_) | Native::Shift { .. }));
        }
    });
    found
}

/// Whether equal values of one type are equal values of the other.
fn keys_agree(from: TypeId, to: TypeId) -> bool {
    crate::arrow::key::kind(from) == crate::arrow::key::kind(to)
}

/// Refuses functions without implementation while the statement is planned, so that the caller can run it otherwise.
fn check_functions(expr: &Expr, session: &Session) -> Result<()> {
    let mut missing = None;
    let mut check = |call: &scalar::Call| {
        if !scalar::has_function(call.function, session) {
            missing = Some(call.function);
        }
    };
    expr.visit(&mut |part| match &part.kind {
        ExprKind::Call(call, _)
        | ExprKind::Distinct(call, _)
        | ExprKind::NullIf(call, _)
        | ExprKind::Quantified { call, .. }
        | ExprKind::InList { call, .. } => check(call),
        ExprKind::RowCompare { calls, .. } => calls.iter().for_each(&mut check),
        _ => {}
    });
    match missing {
        None => Ok(()),
        Some(function) => {
            let name = catalog::builtin().function_row(function).map_or("?", |row| row.name);
            Err(Error::unsupported(format!("function {name} is not supported")))
        }
    }
}
