//! Rounds casts of numbers to integers, and `round`, as PostgreSQL does: floats to the nearest even, decimals
//! away from zero. Also makes `sum` of `bigint` a numeric that cannot overflow, and computes window
//! aggregates of floats without residues of rows that left the frame.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, Decimal128Array};
use arrow_schema::DataType as Arrow;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    WindowFunctionDefinition,
};
use datafusion::scalar::ScalarValue;

use crate::errors::external;
use crate::functions::moving::moving;

/// Maximum number of digits of a 128-bit decimal.
const DIGITS_MAX: u8 = 38;

/// Function rewrite that adds the rounding to casts during analysis.
#[derive(Debug)]
pub(crate) struct RoundingCasts;

impl FunctionRewrite for RoundingCasts {
    fn name(&self) -> &str {
        "rounding_casts"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _config: &ConfigOptions) -> Result<Transformed<Expr>> {
        let cast = match expr {
            Expr::Cast(cast) => cast,
            Expr::ScalarFunction(call) if is_round_of_float(&call, schema) => {
                let inner = ScalarUDF::from(Round::default()).call(call.args);
                return Ok(Transformed::yes(inner));
            }
            Expr::ScalarFunction(call) if call.func.name() == "round" => {
                return Ok(match digits_of_round(&call, schema) {
                    Some(digits) => {
                        let value = call.args.into_iter().take(1).collect();
                        Transformed::yes(ScalarUDF::from(RoundTo::new(digits)).call(value))
                    }
                    None => Transformed::no(Expr::ScalarFunction(call)),
                });
            }
            Expr::AggregateFunction(mut call) if call.func.name() == "sum" => {
                let changed = widen(&mut call.params.args, schema);
                return Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed));
            }
            Expr::WindowFunction(mut call) => {
                let is_sum = call.fun.name() == "sum";
                let changed = is_sum && widen(&mut call.params.args, schema);
                let types = call.params.args.iter().map(|argument| argument.get_type(schema));
                let types = types.collect::<Result<Vec<_>>>().unwrap_or_default();
                let moving = match &call.fun {
                    WindowFunctionDefinition::AggregateUDF(inner) => moving(inner, &types),
                    WindowFunctionDefinition::WindowUDF(_) => None,
                };
                let changed = changed || moving.is_some();
                if let Some(moving) = moving {
                    call.fun = WindowFunctionDefinition::AggregateUDF(moving);
                }
                return Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed));
            }
            other => return Ok(Transformed::no(other)),
        };
        let rounds = cast.field.data_type().is_integer()
            && cast.expr.get_type(schema).is_ok_and(|ty| ty.is_floating() || matches!(ty, Arrow::Decimal128(..)))
            && !is_rounding(&cast.expr);
        if !rounds {
            return Ok(Transformed::no(Expr::Cast(cast)));
        }
        let inner = ScalarUDF::from(Round::default()).call(vec![*cast.expr]);
        Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(inner), field: cast.field })))
    }
}

/// Widens the argument of `sum` of eight-byte integers to a numeric, as in PostgreSQL; DataFusion's sum wraps
/// around.
fn widen(args: &mut [Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    let digits = match arg.get_type(schema) {
        Ok(Arrow::Int64) if !is_widened(arg, schema) => 19,
        Ok(Arrow::UInt64) => 20,
        _ => return false,
    };
    let inner = std::mem::take(arg);
    *arg = Expr::Cast(Cast::new(Box::new(inner), Arrow::Decimal128(digits, 0)));
    true
}

/// Whether this is a shorter integer that DataFusion cast to eight bytes; sums of such values fit in eight
/// bytes.
fn is_widened(arg: &Expr, schema: &DFSchema) -> bool {
    let shorter = |ty: Arrow| matches!(ty, Arrow::Int8 | Arrow::Int16 | Arrow::Int32);
    matches!(arg, Expr::Cast(cast) if cast.expr.get_type(schema).is_ok_and(shorter))
}

/// Whether the call is `round` of a float, which rounds halves to even. Decimals round halves away from zero;
/// DataFusion does so for both.
fn is_round_of_float(call: &ScalarFunction, schema: &DFSchema) -> bool {
    matches!(call.args.as_slice(), [one] if one.get_type(schema).is_ok_and(|ty| ty.is_floating()))
        && call.func.name() == "round"
}

/// The constant second argument of `round(numeric, 2)`. DataFusion's own function changes its result type
/// during planning: it looks for a literal, which is temporarily a cast.
fn digits_of_round(call: &ScalarFunction, schema: &DFSchema) -> Option<i8> {
    let [value, digits] = call.args.as_slice() else { return None };
    let Arrow::Decimal128(_, scale) = value.get_type(schema).ok()? else { return None };
    let digits = match digits {
        Expr::Literal(digits, _) => digits.cast_to(&Arrow::Int64).ok()?,
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(digits, _) => digits.cast_to(&Arrow::Int64).ok()?.arithmetic_negate().ok()?,
            _ => return None,
        },
        _ => return None,
    };
    let ScalarValue::Int64(Some(digits)) = digits else { return None };
    i8::try_from(digits.clamp(-i64::from(DIGITS_MAX), i64::from(scale))).ok()
}

/// `round(numeric, n)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundTo {
    /// Digits after the point; negative: zeros before the point. At most the scale of the argument.
    digits: i8,
    signature: Signature,
}

impl RoundTo {
    fn new(digits: i8) -> RoundTo {
        RoundTo { digits, signature: Signature::any(1, Volatility::Immutable) }
    }
}

/// Precision with one more digit for the carry: 99 rounds to 100.
fn carried(precision: u8) -> u8 {
    precision.saturating_add(1).min(DIGITS_MAX)
}

impl ScalarUDFImpl for RoundTo {
    fn name(&self) -> &str {
        "round"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        Ok(match arguments {
            [Arrow::Decimal128(precision, _)] => Arrow::Decimal128(carried(*precision), self.digits.max(0)),
            [ty] => ty.clone(),
            _ => Arrow::Null,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(arguments.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let Arrow::Decimal128(precision, scale) = *arrays[0].data_type() else {
            return Err(external(model::Error::bug(format!("round to digits of {}", arrays[0].data_type()))));
        };
        let unit = 10_i128.checked_pow(u32::from(self.digits.min(0).unsigned_abs())).unwrap_or(0);
        let rounded = |value: i128| crate::builder::round_decimal(value, scale - self.digits).saturating_mul(unit);
        let values: Decimal128Array = arrays[0].as_primitive::<Decimal128Type>().unary(rounded);
        let values: ArrayRef = Arc::new(values.with_precision_and_scale(carried(precision), self.digits.max(0))?);
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// Whether the cast is already rounded: a plan may be analyzed twice.
fn is_rounding(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.name() == Round::NAME)
}

/// Rounds a float or decimal to a whole number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    signature: Signature,
}

impl Default for Round {
    fn default() -> Round {
        Round { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Round {
    const NAME: &str = "round_for_cast";
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &str {
        Round::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        Ok(match arguments {
            [Arrow::Decimal128(..)] => Arrow::Decimal128(DIGITS_MAX, 0),
            [ty] => ty.clone(),
            _ => Arrow::Null,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(arguments.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let rounded = rounded(&arrays[0])?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?));
        }
        Ok(ColumnarValue::Array(rounded))
    }
}

/// Rounds floats and decimals to whole numbers.
pub(crate) fn rounded(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        Arrow::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even)),
        Arrow::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
        Arrow::Decimal128(_, scale) => {
            let scale = *scale;
            let values: Decimal128Array =
                array.as_primitive::<Decimal128Type>().unary(|value| crate::builder::round_decimal(value, scale));
            Arc::new(values.with_precision_and_scale(DIGITS_MAX, 0)?)
        }
        other => return Err(external(model::Error::bug(format!("a rounding cast of {other}")))),
    })
}
