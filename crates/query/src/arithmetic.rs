//! Arithmetic with PostgreSQL's errors: integer overflow is 22003 and never wraps; division of a float by zero is
//! 22012.
//!
//! DataFusion's operators wrap silently, even in constant folding, so they are replaced while the query is planned.

use std::fmt;
use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Datum, Decimal128Array, PrimitiveArray, Scalar};
use arrow_schema::DataType as Arrow;
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::common::DFSchema;
use datafusion::common::cast::as_decimal128_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use model::{Error, Numeric, SqlState};

use crate::errors::external;
use crate::types::{out_of_range, sql_name};

/// Replaces the numeric operators `+ - * / %` with [`Checked`].
#[derive(Debug)]
pub(crate) struct Arithmetic;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Op {
    fn of(operator: &BinaryOperator) -> Option<Op> {
        Some(match operator {
            BinaryOperator::Plus => Op::Add,
            BinaryOperator::Minus => Op::Subtract,
            BinaryOperator::Multiply => Op::Multiply,
            BinaryOperator::Divide => Op::Divide,
            BinaryOperator::Modulo => Op::Remainder,
            _ => return None,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Subtract => "-",
            Op::Multiply => "*",
            Op::Divide => "/",
            Op::Remainder => "%",
        }
    }
}

impl ExprPlanner for Arithmetic {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(op) = Op::of(&raw.op) else {
            return Ok(PlannerResult::Original(raw));
        };
        let (left, right) = typed_alike(demote(raw.left), demote(raw.right), schema);
        let types = (left.get_type(schema), right.get_type(schema));
        let (Ok(left_ty), Ok(right_ty)) = types else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right }));
        };
        // DataFusion's own quotient has only four digits more than the dividend.
        let is_quotient = op == Op::Divide && digits(&left_ty).is_some() && digits(&right_ty).is_some();
        let quotient = Arrow::Decimal128(DIGITS_MAX, QUOTIENT_SCALE);
        match result_type(op, &left_ty, &right_ty).or(is_quotient.then_some(quotient)) {
            Some(ty) => {
                let function = ScalarUDF::from(Checked::new(op, ty));
                Ok(PlannerResult::Planned(function.call(vec![left, right])))
            }
            None => Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right })),
        }
    }
}

/// Types an integer literal as `integer` if it fits.
fn demote(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(*value) {
            Ok(value) => Expr::Literal(ScalarValue::Int32(Some(value)), metadata.clone()),
            Err(_) => expr,
        },
        _ => expr,
    }
}

/// Gives an untyped parameter the type of the other operand if that is numeric.
fn typed_alike(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let number = |expr: &Expr| expr.get_type(schema).ok().filter(Arrow::is_numeric);
    match (&left, &right) {
        (Expr::Placeholder(Placeholder { id, field: None }), other) => match number(other) {
            Some(ty) => (placeholder(id, ty), right),
            None => (left, right),
        },
        (other, Expr::Placeholder(Placeholder { id, field: None })) => match number(other) {
            Some(ty) => (left, placeholder(id, ty)),
            None => (left, right),
        },
        _ => (left, right),
    }
}

fn placeholder(id: &str, ty: Arrow) -> Expr {
    let field = Arc::new(arrow_schema::Field::new("", ty, true));
    Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), Some(field)))
}

/// The common type of both operands; `None` if DataFusion's own operator is kept.
fn result_type(op: Op, left: &Arrow, right: &Arrow) -> Option<Arrow> {
    let rank = |ty: &Arrow| match ty {
        Arrow::Int16 => Some(1),
        Arrow::Int32 => Some(2),
        Arrow::Int64 => Some(3),
        _ => None,
    };
    if let (Some(a), Some(b)) = (rank(left), rank(right)) {
        return Some(if a >= b { left.clone() } else { right.clone() });
    }
    let float = left.is_floating() || right.is_floating();
    if op != Op::Divide || !float || !left.is_numeric() || !right.is_numeric() {
        return None;
    }
    let single = matches!((left, right), (Arrow::Float32, Arrow::Float32));
    Some(if single { Arrow::Float32 } else { Arrow::Float64 })
}

/// Digits after the decimal point of a `numeric` quotient, as PostgreSQL has for quotients from 1 to 9999.
const QUOTIENT_SCALE: i8 = 16;
/// Maximum precision of a `numeric` in DataFusion.
const DIGITS_MAX: u8 = 38;

/// A checked binary operator. The operands usually have the planned type. An operand planned as an integer may turn out
/// to be a `numeric` (`sum(bigint)` is one); then the operation is computed in `numeric`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    op: Op,
    ty: Arrow,
    signature: Signature,
}

impl Checked {
    fn new(op: Op, ty: Arrow) -> Checked {
        Checked { op, signature: Signature::user_defined(Volatility::Immutable), ty }
    }

    /// The types that the operands are cast to, and the type of the result.
    fn types(&self, left: &Arrow, right: &Arrow) -> ([Arrow; 2], Arrow) {
        if let Some(ty) = result_type(self.op, left, right) {
            return ([ty.clone(), ty.clone()], ty);
        }
        let is_numeric = |ty: &Arrow| matches!(ty, Arrow::Decimal128(..));
        if (is_numeric(left) || is_numeric(right))
            && let (Some(a), Some(b)) = (digits(left), digits(right))
        {
            let (precision, scale) = self.op.digits(a, b);
            return ([Arrow::Decimal128(a.0, a.1), Arrow::Decimal128(b.0, b.1)], Arrow::Decimal128(precision, scale));
        }
        ([self.ty.clone(), self.ty.clone()], self.ty.clone())
    }

    fn written(&self, arguments: &[Expr], name: impl Fn(&Expr) -> String) -> String {
        let side = |expr: &Expr| match expr {
            Expr::BinaryExpr(_) => format!("({})", name(expr)),
            _ => name(expr),
        };
        match arguments {
            [left, right] => format!("{} {} {}", side(left), self.op.text(), side(right)),
            _ => self.op.text().to_owned(),
        }
    }

    fn compute(&self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef> {
        if let (Op::Divide, Arrow::Decimal128(..)) = (self.op, left.get().0.data_type()) {
            return quotients(left, right);
        }
        let result = match self.op {
            Op::Add => numeric::add(left, right),
            Op::Subtract => numeric::sub(left, right),
            Op::Multiply => numeric::mul(left, right),
            Op::Divide => {
                refuse_zero(right.get().0)?;
                numeric::div(left, right)
            }
            Op::Remainder => numeric::rem(left, right),
        };
        result.map_err(|error| self.error(error))
    }

    fn error(&self, error: arrow_schema::ArrowError) -> DataFusionError {
        match error {
            arrow_schema::ArrowError::ArithmeticOverflow(_) => external(out_of_range(&sql_name(&self.ty))),
            error => DataFusionError::ArrowError(Box::new(error), None),
        }
    }
}

/// PostgreSQL refuses float division by zero, where Arrow returns infinity.
fn refuse_zero(divisor: &dyn Array) -> Result<()> {
    let zero = match divisor.data_type() {
        Arrow::Float32 => has_zero::<Float32Type>(divisor),
        Arrow::Float64 => has_zero::<Float64Type>(divisor),
        _ => false,
    };
    if zero { Err(external(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"))) } else { Ok(()) }
}

fn has_zero<T: arrow_array::ArrowPrimitiveType>(array: &dyn Array) -> bool {
    let zero = T::Native::default();
    array
        .as_any()
        .downcast_ref::<PrimitiveArray<T>>()
        .is_some_and(|array| array.iter().flatten().any(|value| value == zero))
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.op.text()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[Arrow]) -> Result<Vec<Arrow>> {
        Ok(match types {
            [left, right] => self.types(left, right).0.into(),
            _ => types.to_vec(),
        })
    }

    fn return_type(&self, types: &[Arrow]) -> Result<Arrow> {
        Ok(match types {
            [left, right] => self.types(left, right).1,
            _ => self.ty.clone(),
        })
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.written(arguments, |expr| expr.human_display().to_string()))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(self.written(arguments, |expr| expr.schema_name().to_string()))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return Err(external(Error::bug(format!(
                "operator {} with {} sides",
                self.op.text(),
                arguments.args.len()
            ))));
        };
        let ([left_ty, right_ty], _) = self.types(&left.data_type(), &right.data_type());
        match (left, right) {
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let array = self.compute(&scalar(left, &left_ty)?, &scalar(right, &right_ty)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => {
                Ok(ColumnarValue::Array(self.compute(&array(left, &left_ty)?, &scalar(right, &right_ty)?)?))
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => {
                Ok(ColumnarValue::Array(self.compute(&scalar(left, &left_ty)?, &array(right, &right_ty)?)?))
            }
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
                Ok(ColumnarValue::Array(self.compute(&array(left, &left_ty)?, &array(right, &right_ty)?)?))
            }
        }
    }
}

fn scalar(value: &ScalarValue, ty: &Arrow) -> Result<Scalar<ArrayRef>> {
    Ok(Scalar::new(array(&value.to_array()?, ty)?))
}

fn array(array: &ArrayRef, ty: &Arrow) -> Result<ArrayRef> {
    if array.data_type() == ty { Ok(Arc::clone(array)) } else { Ok(cast(array, ty)?) }
}

/// Precision and scale of a `numeric` that holds every value of a type.
fn digits(ty: &Arrow) -> Option<(u8, i8)> {
    Some(match ty {
        Arrow::Int16 => (5, 0),
        Arrow::Int32 => (10, 0),
        Arrow::Int64 => (19, 0),
        Arrow::Decimal128(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}

impl Op {
    /// Precision and scale of a result: the ones that Arrow's kernels use.
    fn digits(self, (a, a_scale): (u8, i8), (b, b_scale): (u8, i8)) -> (u8, i8) {
        let scale = a_scale.max(b_scale);
        let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
        let (a_whole, b_whole) = (whole(a, a_scale), whole(b, b_scale));
        let (precision, scale) = match self {
            Op::Add | Op::Subtract => (i16::from(scale) + a_whole.max(b_whole) + 1, scale),
            Op::Multiply => (i16::from(a) + i16::from(b) + 1, a_scale.saturating_add(b_scale)),
            Op::Divide => (i16::from(DIGITS_MAX), QUOTIENT_SCALE.max(scale)),
            Op::Remainder => (i16::from(scale) + a_whole.min(b_whole), scale),
        };
        (u8::try_from(precision).unwrap_or(DIGITS_MAX).min(DIGITS_MAX), scale)
    }
}

/// Division of `numeric` values, rounded as in PostgreSQL.
fn quotients(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef> {
    let side = |datum: &dyn Datum| -> Result<(Decimal128Array, bool)> {
        let (array, is_constant) = datum.get();
        Ok((as_decimal128_array(array)?.clone(), is_constant))
    };
    let ((left, left_is_constant), (right, right_is_constant)) = (side(left)?, side(right)?);
    let rows = if left_is_constant { right.len() } else { left.len() };
    let scale = QUOTIENT_SCALE.max(left.scale()).max(right.scale());
    let value = |array: &Decimal128Array, is_constant: bool, row: usize| {
        let row = if is_constant { 0 } else { row };
        array.is_valid(row).then(|| Numeric::new(array.value(row), u32::from(array.scale().unsigned_abs())))
    };
    let quotient = |row: usize| -> model::Result<Option<i128>> {
        let both = value(&left, left_is_constant, row).zip(value(&right, right_is_constant, row));
        let Some((dividend, divisor)) = both else { return Ok(None) };
        let rounded = dividend.div(&divisor)?.round(i32::from(scale))?;
        let unscaled = rounded.unscaled(i32::from(scale)).filter(|value| value.unsigned_abs() < DECIMAL_END);
        unscaled.map(Some).ok_or_else(|| out_of_range("numeric"))
    };
    let values: Decimal128Array = (0..rows).map(quotient).collect::<model::Result<_>>().map_err(external)?;
    Ok(Arc::new(values.with_precision_and_scale(DIGITS_MAX, scale)?))
}

/// 10^38
const DECIMAL_END: u128 = 100_000_000_000_000_000_000_000_000_000_000_000_000;

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
