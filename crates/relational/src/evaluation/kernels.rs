//! Arithmetic of whole columns by Arrow's kernels.
//!
//! A kernel that fails computes nothing: the rows are then computed one by one, which gives PostgreSQL's error, or its
//! result where Arrow refuses one.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int16Array, Int32Array, Int64Array};
use arrow_schema::DataType;
use catalog::{TypeId, builtin};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::{cmp, numeric};
use model::Datum;
use rustc_hash::FxHashMap;
use scalar::registry::signature_number;
use scalar::{Expr, ExprKind, Value};

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    /// A cast that keeps the value.
    Widen,
    Compare(Comparison),
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Comparisons by the ends of their names.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("eq", Comparison::Equal),
    ("ne", Comparison::NotEqual),
    ("lt", Comparison::Less),
    ("le", Comparison::LessEqual),
    ("gt", Comparison::Greater),
    ("ge", Comparison::GreaterEqual),
];

/// Operations by the numbers of their functions.
static OPERATIONS: LazyLock<FxHashMap<u32, Operation>> = LazyLock::new(|| {
    let mut operations = FxHashMap::default();
    let mut add = |signature: &str, operation: Operation| {
        if let Some(number) = signature_number(builtin(), signature) {
            operations.insert(number, operation);
        }
    };
    let arithmetic =
        [("pl", Operation::Add), ("mi", Operation::Subtract), ("mul", Operation::Multiply), ("div", Operation::Divide)];
    for types in ["int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84", "float8"] {
        for (suffix, operation) in arithmetic {
            add(&format!("{types}{suffix}"), operation);
        }
    }
    // Floats are left out: their order in Arrow has two zeros.
    for types in ["int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84"] {
        for (suffix, comparison) in COMPARISONS {
            add(&format!("{types}{suffix}"), Operation::Compare(comparison));
        }
    }
    for ty in ["int2", "int4", "int8"] {
        add(&format!("{ty}mod"), Operation::Remainder);
        add(&format!("mod({ty},{ty})"), Operation::Remainder);
        add(&format!("float8({ty})"), Operation::Widen);
    }
    for cast in ["int4(int2)", "int8(int2)", "int8(int4)", "float8(float4)"] {
        add(cast, Operation::Widen);
    }
    operations
});

/// Computes an expression of numbers for all rows; `None` if it has other parts, or if a row needs more care.
pub(crate) fn computed(expr: &Expr, columns: &[ArrayRef], rows: usize) -> Option<ArrayRef> {
    match &expr.kind {
        ExprKind::Column(column) => {
            let column = columns.get(*column as usize)?;
            (*column.data_type() == number_type(expr.ty)?).then(|| Arc::clone(column))
        }
        ExprKind::Constant(Value::Plain(value)) => repeated(value, rows),
        ExprKind::Call(call, arguments) => {
            let operation = *OPERATIONS.get(&call.function)?;
            if let (Operation::Compare(comparison), [left, right]) = (operation, arguments.as_slice()) {
                return compared(comparison, &computed(left, columns, rows)?, &computed(right, columns, rows)?);
            }
            let result = number_type(expr.ty)?;
            let operand = |argument: &Expr| {
                let array = computed(argument, columns, rows)?;
                if *array.data_type() == result { Some(array) } else { cast(&array, &result).ok() }
            };
            match (operation, arguments.as_slice()) {
                (Operation::Widen, [of]) => operand(of),
                (operation, [left, right]) => applied(operation, &operand(left)?, &operand(right)?),
                _ => None,
            }
        }
        _ => None,
    }
}

fn number_type(ty: TypeId) -> Option<DataType> {
    Some(match ty {
        TypeId::INT2 => DataType::Int16,
        TypeId::INT4 => DataType::Int32,
        TypeId::INT8 => DataType::Int64,
        TypeId::FLOAT8 => DataType::Float64,
        _ => return None,
    })
}

fn repeated(value: &Datum<'_>, rows: usize) -> Option<ArrayRef> {
    Some(match value {
        Datum::Int2(value) => Arc::new(Int16Array::from_value(*value, rows)),
        Datum::Int4(value) => Arc::new(Int32Array::from_value(*value, rows)),
        Datum::Int8(value) => Arc::new(Int64Array::from_value(*value, rows)),
        Datum::Float8(value) => Arc::new(Float64Array::from_value(*value, rows)),
        _ => return None,
    })
}

fn applied(operation: Operation, left: &ArrayRef, right: &ArrayRef) -> Option<ArrayRef> {
    let result = match operation {
        Operation::Add => numeric::add(left, right),
        Operation::Subtract => numeric::sub(left, right),
        Operation::Multiply => numeric::mul(left, right),
        Operation::Divide => numeric::div(left, right),
        Operation::Remainder => numeric::rem(left, right),
        Operation::Widen | Operation::Compare(_) => return None,
    };
    let result = result.ok()?;
    (*result.data_type() != DataType::Float64 || is_plain(operation, left, right, &result)).then_some(result)
}

/// Compares integers, of several sizes as the largest ones.
fn compared(comparison: Comparison, left: &ArrayRef, right: &ArrayRef) -> Option<ArrayRef> {
    let wide = |array: &ArrayRef| cast(array, &DataType::Int64).ok();
    let is_same = left.data_type() == right.data_type();
    let (left, right) = if is_same { (Arc::clone(left), Arc::clone(right)) } else { (wide(left)?, wide(right)?) };
    let result = match comparison {
        Comparison::Equal => cmp::eq(&left, &right),
        Comparison::NotEqual => cmp::neq(&left, &right),
        Comparison::Less => cmp::lt(&left, &right),
        Comparison::LessEqual => cmp::lt_eq(&left, &right),
        Comparison::Greater => cmp::gt(&left, &right),
        Comparison::GreaterEqual => cmp::gt_eq(&left, &right),
    };
    Some(Arc::new(result.ok()?))
}

/// Whether no float overflowed, became zero, or was divided by zero.
fn is_plain(operation: Operation, left: &ArrayRef, right: &ArrayRef, result: &ArrayRef) -> bool {
    let values = |array: &ArrayRef| array.as_primitive::<Float64Type>().values().clone();
    let (left, right, result) = (values(left), values(right), values(result));
    let products = matches!(operation, Operation::Multiply | Operation::Divide);
    left.iter().zip(&right).zip(&result).all(|((left, right), result)| {
        result.is_finite() && !(products && *result == 0.0 && *left != 0.0 && *right != 0.0)
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::BooleanArray;
    use scalar::{Call, Place};

    use super::*;

    fn call(name: &str, ty: TypeId, arguments: Vec<Expr>) -> Expr {
        let function = signature_number(builtin(), name).unwrap();
        let types = arguments.iter().map(|argument| argument.ty).collect();
        let call = Call { function, operator: None, arguments: types, result: ty };
        Expr::new(ExprKind::Call(Box::new(call), arguments), ty, Place(0))
    }

    #[test]
    fn columns_are_computed_unless_a_row_fails() {
        let column = |number: u32, ty: TypeId| Expr::new(ExprKind::Column(number), ty, Place(0));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int32Array::from(vec![Some(7), None, Some(-3)])), Arc::new(Int64Array::from(vec![2, 0, 5]))];
        let product = call("int48mul", TypeId::INT8, vec![column(0, TypeId::INT4), column(1, TypeId::INT8)]);
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![Some(14), None, Some(-15)]));
        assert_eq!(computed(&product, &columns, 3).as_deref(), Some(expected.as_ref()));
        let largest = Expr::new(ExprKind::Constant(Value::Plain(Datum::Int8(i64::MAX))), TypeId::INT8, Place(0));
        let beyond = call("int8pl", TypeId::INT8, vec![column(1, TypeId::INT8), largest]);
        assert!(computed(&beyond, &columns, 3).is_none());
        let divided = call("int84div", TypeId::INT8, vec![column(1, TypeId::INT8), column(0, TypeId::INT4)]);
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), None, Some(-1)]));
        assert_eq!(computed(&divided, &columns, 3).as_deref(), Some(expected.as_ref()));
        let less = call("int84lt", TypeId::BOOL, vec![column(1, TypeId::INT8), column(0, TypeId::INT4)]);
        let expected: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
        assert_eq!(computed(&less, &columns, 3).as_deref(), Some(expected.as_ref()));
    }
}
