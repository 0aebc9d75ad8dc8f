//! Conditions on columns whose values are stored in another form, as conditions on the stored values.

use arrow_schema::DataType as Arrow;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use model::Table;

/// A condition whose comparisons of casts of declared columns with constants are those of the stored numbers, so that the
/// statistics of blocks serve: these casts keep the order, and never fail.
pub(crate) fn plain(table: &Table, condition: &Expr) -> Expr {
    let rewritten = condition.clone().transform_up(|part| {
        Ok(match plain_comparison(table, &part) {
            Some(plain) => Transformed::yes(plain),
            None => Transformed::no(part),
        })
    });
    rewritten.map_or_else(|_| condition.clone(), |rewritten| rewritten.data)
}

fn plain_comparison(table: &Table, part: &Expr) -> Option<Expr> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            let (left, right) = match (number_of(table, left), number_of(table, right)) {
                (Some(column), None) => (column, constant(right)?),
                (None, Some(column)) => (constant(left)?, column),
                _ => return None,
            };
            Some(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op: *op, right: Box::new(right) }))
        }
        Expr::Between(Between { expr, negated, low, high }) => Some(Expr::Between(Between {
            expr: Box::new(number_of(table, expr)?),
            negated: *negated,
            low: Box::new(constant(low)?),
            high: Box::new(constant(high)?),
        })),
        _ => None,
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom)
}

/// The stored column under a cast.
fn number_of(table: &Table, expr: &Expr) -> Option<Expr> {
    let Expr::Cast(cast) = expr else { return None };
    let Expr::Column(column) = cast.expr.as_ref() else { return None };
    let is_number =
        matches!(cast.field.data_type(), Arrow::Date32 | Arrow::Time64(_) | Arrow::Timestamp(_, None) | Arrow::UInt32);
    let is_declared = table.column(&column.name).is_some_and(|column| table.declared(column).is_some());
    (is_number && is_declared).then(|| Expr::Column(column.clone()))
}

/// A constant of a type that is stored as a number.
fn constant(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    let stored = match value {
        ScalarValue::Date32(Some(days)) => ScalarValue::Int32(Some(*days)),
        ScalarValue::Time64Nanosecond(Some(ns)) | ScalarValue::TimestampNanosecond(Some(ns), None) => {
            ScalarValue::Int64(Some(*ns))
        }
        ScalarValue::UInt32(Some(number)) => ScalarValue::Int64(Some(i64::from(*number))),
        _ => return None,
    };
    Some(Expr::Literal(stored, metadata.clone()))
}
