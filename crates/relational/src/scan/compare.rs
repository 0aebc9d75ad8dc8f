//! Comparisons of a numeric column with a constant, without the copies that DataFusion's operators make of float
//! arrays. The semantics are DataFusion's: NaN is above all other values (below them if its sign bit is set), and zeros
//! of both signs are equal.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::scalar::ScalarValue;

/// `column operator constant`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    operator: Operator,
    constant: ScalarValue,
}

impl Comparison {
    /// Recognises `column < 5` and `5 > column`; `None` for other expressions.
    pub(crate) fn of(expr: &Expr) -> Option<Comparison> {
        let Expr::BinaryExpr(both) = expr else { return None };
        let (operator, constant) = match (both.left.as_ref(), both.right.as_ref()) {
            (Expr::Column(_), Expr::Literal(constant, _)) => (both.op, constant),
            (Expr::Literal(constant, _), Expr::Column(_)) => (both.op.swap()?, constant),
            _ => return None,
        };
        use Operator as O;
        use ScalarValue as S;
        let is_number = match constant {
            S::Int16(Some(_)) | S::Int32(Some(_)) | S::Int64(Some(_)) => true,
            S::Float32(Some(value)) => !value.is_nan(),
            S::Float64(Some(value)) => !value.is_nan(),
            _ => false,
        };
        let is_comparison = matches!(operator, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq);
        (is_number && is_comparison).then(|| Comparison { operator, constant: constant.clone() })
    }

    /// Whether the constant has this type.
    pub(crate) fn is_of(&self, ty: &DataType) -> bool {
        self.constant.data_type() == *ty
    }

    /// The rows that pass, without NULLs; `None` if the array is not of the constant's type.
    pub(crate) fn passing(&self, array: &ArrayRef) -> Option<BooleanBuffer> {
        let passing = match &self.constant {
            ScalarValue::Int16(Some(value)) => self.of_values::<Int16Type>(array, *value),
            ScalarValue::Int32(Some(value)) => self.of_values::<Int32Type>(array, *value),
            ScalarValue::Int64(Some(value)) => self.of_values::<Int64Type>(array, *value),
            ScalarValue::Float32(Some(value)) => self.of_values::<Float32Type>(array, *value),
            ScalarValue::Float64(Some(value)) => self.of_values::<Float64Type>(array, *value),
            _ => None,
        }?;
        Some(match array.nulls() {
            Some(nulls) => &passing & nulls.inner(),
            None => passing,
        })
    }

    fn of_values<T: ArrowPrimitiveType<Native: Ordered>>(
        &self,
        array: &ArrayRef,
        constant: T::Native,
    ) -> Option<BooleanBuffer> {
        let values = array.as_primitive_opt::<T>()?.values();
        let constant = constant.place();
        Some(match self.operator {
            Operator::Eq => mask(values, |value| value.place() == constant),
            Operator::NotEq => mask(values, |value| value.place() != constant),
            Operator::Lt => mask(values, |value| value.place() < constant),
            Operator::LtEq => mask(values, |value| value.place() <= constant),
            Operator::Gt => mask(values, |value| value.place() > constant),
            Operator::GtEq => mask(values, |value| value.place() >= constant),
            _ => return None,
        })
    }
}

/// Numbers with a total order, given by an integer key.
trait Ordered {
    type Place: Ord + Copy;

    /// The key: equal for equal numbers, smaller for smaller ones.
    fn place(self) -> Self::Place;
}

macro_rules! ordered {
    ($($whole:ty),*; $($float:ty as $bits:ty),*) => {
        $(impl Ordered for $whole {
            type Place = $whole;

            fn place(self) -> $whole {
                self
            }
        })*
        $(impl Ordered for $float {
            type Place = $bits;

            fn place(self) -> $bits {
                // Adding zero turns -0.0 into 0.0.
                let bits = (self + 0.0).to_bits().cast_signed();
                bits ^ ((bits >> (<$bits>::BITS - 1)).cast_unsigned() >> 1).cast_signed()
            }
        })*
    };
}

ordered!(i16, i32, i64; f32 as i32, f64 as i64);

/// A bit for each value. The loop produces one byte per value and then packs eight bytes into eight bits, which
/// vectorises without instructions that old processors lack.
pub(crate) fn mask<T: Copy>(values: &[T], passes: impl Fn(T) -> bool) -> BooleanBuffer {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut bits = Vec::with_capacity(values.len().div_ceil(8));
    for values in values.chunks(64) {
        let mut bytes = [0u8; 64];
        bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte = u8::from(passes(*value)));
        let eights = bytes.as_chunks::<8>().0.iter().take(values.len().div_ceil(8));
        bits.extend(eights.map(|eight| (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) as u8));
    }
    BooleanBuffer::new(Buffer::from_vec(bits), 0, values.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float32Array, Float64Array, Int16Array, Int32Array, Int64Array};
    use arrow_schema::{Field, Schema};
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{binary_expr, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn masks_have_a_bit_for_each_value() {
        for rows in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
            let values: Vec<u32> = (0..rows).map(|row: u32| row.wrapping_mul(2_654_435_761) % 7).collect();
            let expected: Vec<bool> = values.iter().map(|value| *value < 3).collect();
            assert_eq!(mask(&values, |value| value < 3).iter().collect::<Vec<_>>(), expected, "{rows}");
        }
    }

    #[test]
    fn comparisons_pass_what_the_planners_operators_pass() {
        let special = [f64::NAN, -f64::NAN, 0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, 950.0, 951.0];
        let floats = || special.iter().map(|value| Some(*value)).chain([None]);
        let whole = || [i16::MIN, -1, 0, 1, 950, i16::MAX].into_iter().map(Some).chain([None]);
        let arrays: [ArrayRef; 5] = [
            Arc::new(floats().collect::<Float64Array>()),
            Arc::new(floats().map(|value| value.map(|value| value as f32)).collect::<Float32Array>()),
            Arc::new(whole().collect::<Int16Array>()),
            Arc::new(whole().map(|value| value.map(i32::from)).collect::<Int32Array>()),
            Arc::new(whole().map(|value| value.map(i64::from)).collect::<Int64Array>()),
        ];
        let constants = [0.0, -0.0, 950.0, 1.0, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let operators = [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
        let session = SessionContext::new();
        let mut compared = 0;
        for array in arrays {
            let schema = Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), true)]));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&array)]).unwrap();
            for (constant, operator) in constants.iter().flat_map(|of| operators.iter().map(move |by| (*of, *by))) {
                let constant = ScalarValue::Float64(Some(constant)).cast_to(array.data_type());
                let Ok(constant) = constant else { continue };
                for expr in [
                    binary_expr(col("a"), operator, lit(constant.clone())),
                    binary_expr(lit(constant.clone()), operator, col("a")),
                ] {
                    let Some(comparison) = Comparison::of(&expr) else { continue };
                    let by_planner = session
                        .create_physical_expr(expr.clone(), &DFSchema::try_from(Arc::clone(&schema)).unwrap())
                        .and_then(|expr| expr.evaluate(&batch)?.into_array(array.len()))
                        .unwrap();
                    let expected: Vec<bool> =
                        by_planner.as_boolean().iter().map(|passes| passes == Some(true)).collect();
                    let passing: Vec<bool> = comparison.passing(&array).unwrap().iter().collect();
                    assert_eq!(passing, expected, "{expr} of {array:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 300, "{compared}");
    }

    #[test]
    fn other_expressions_and_other_types_are_no_comparisons_here() {
        for expr in [col("a").eq(col("b")), col("a").gt(lit(f64::NAN)), col("a").eq(lit("x")), lit(1).eq(lit(2))] {
            assert_eq!(Comparison::of(&expr), None, "{expr}");
        }
        let comparison = Comparison::of(&col("a").gt(lit(1i64))).unwrap();
        let other: ArrayRef = Arc::new(Float32Array::from(vec![1.0]));
        assert_eq!(comparison.passing(&other), None);
    }
}
