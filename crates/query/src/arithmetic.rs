//! Integer arithmetic that fails where PostgreSQL's does: overflow is 22003 and never wraps; dividing a float by zero is 22012.
//!
//! The planner's own operators wrap silently, also when they fold constants, so the operators are replaced while the query is planned.

use std::fmt;
use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Datum, PrimitiveArray, Scalar};
use arrow_schema::DataType as Arrow;
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use model::{Error, SqlState};

use crate::errors::external;
use crate::types::{out_of_range, sql_name};

/// Replaces `+ - * / %` of numbers.
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
        match result_type(op, &left_ty, &right_ty) {
            Some(ty) => {
                let function = ScalarUDF::from(Checked::new(op, ty));
                Ok(PlannerResult::Planned(function.call(vec![left, right])))
            }
            None => Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right })),
        }
    }
}

/// An integer literal is an `integer` where it fits.
fn demote(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(*value) {
            Ok(value) => Expr::Literal(ScalarValue::Int32(Some(value)), metadata.clone()),
            Err(_) => expr,
        },
        _ => expr,
    }
}

/// Gives a parameter without a type that of its neighbour, if the neighbour is a number.
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

/// The type both sides are brought to, where we compute ourselves.
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

/// One operator over one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    op: Op,
    ty: Arrow,
    signature: Signature,
}

impl Checked {
    fn new(op: Op, ty: Arrow) -> Checked {
        Checked { op, signature: Signature::exact(vec![ty.clone(), ty.clone()], Volatility::Immutable), ty }
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
        let result = match self.op {
            Op::Add => numeric::add(left, right),
            Op::Subtract => numeric::sub(left, right),
            Op::Multiply => numeric::mul(left, right),
            Op::Divide => {
                refuse_zero(&self.ty, right.get().0)?;
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

/// Float division gives infinity for a zero divisor; PostgreSQL refuses it.
fn refuse_zero(ty: &Arrow, divisor: &dyn Array) -> Result<()> {
    let zero = match ty {
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

    fn return_type(&self, _arguments: &[Arrow]) -> Result<Arrow> {
        Ok(self.ty.clone())
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
        match (left, right) {
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let array = self.compute(&self.scalar(left)?, &self.scalar(right)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => {
                Ok(ColumnarValue::Array(self.compute(&self.array(left)?, &self.scalar(right)?)?))
            }
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => {
                Ok(ColumnarValue::Array(self.compute(&self.scalar(left)?, &self.array(right)?)?))
            }
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
                Ok(ColumnarValue::Array(self.compute(&self.array(left)?, &self.array(right)?)?))
            }
        }
    }
}

impl Checked {
    fn scalar(&self, value: &ScalarValue) -> Result<Scalar<ArrayRef>> {
        Ok(Scalar::new(self.array(&value.to_array()?)?))
    }

    fn array(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if *array.data_type() == self.ty { Ok(Arc::clone(array)) } else { Ok(cast(array, &self.ty)?) }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
