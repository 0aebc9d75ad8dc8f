//! Lowers arithmetic of numerics whose operands are decimals with known numbers of digits: whole columns are computed, and
//! nothing overflows.

use std::sync::{Arc, LazyLock};

use arrow_schema::DataType;
use catalog::{TypeId, builtin};
use datafusion::common::DFSchema;
use datafusion::functions_aggregate::sum;
use datafusion::logical_expr::{AggregateUDF, Expr as DfExpr};
use model::{Datum, Result};
use rustc_hash::FxHashMap;
use scalar::registry::signature_number;
use scalar::{Expr, ExprKind};

use crate::evaluation::decimals::{Arithmetic, DIGITS_MAX, PLAIN_SUM_DIGITS_MAX, Sum, Tree, WIDE_DIGITS_MAX};
use crate::lower::expressions::Typed;
use crate::lower::lowering::Lowering;

/// A function of numerics that decimals have.
#[derive(Clone, Copy)]
enum Function {
    Add,
    Subtract,
    Multiply,
    Negate,
    /// A cast of an integer.
    OfInteger,
}

static FUNCTIONS: LazyLock<FxHashMap<u32, Function>> = LazyLock::new(|| {
    let functions = [
        ("numeric_add", Function::Add),
        ("numeric_sub", Function::Subtract),
        ("numeric_mul", Function::Multiply),
        ("numeric_uminus", Function::Negate),
        ("numeric(int2)", Function::OfInteger),
        ("numeric(int4)", Function::OfInteger),
        ("numeric(int8)", Function::OfInteger),
    ];
    functions.into_iter().filter_map(|(name, function)| Some((signature_number(builtin(), name)?, function))).collect()
});

/// An expression of decimals: the absolute values are less than 10^`digits` units of the last digit.
struct Decimals {
    tree: Tree,
    digits: u8,
    scale: u8,
}

impl Decimals {
    /// The same values in units of a further digit.
    fn at_scale(self, scale: u8) -> Option<Decimals> {
        let more = scale.checked_sub(self.scale)?;
        if more == 0 {
            return Some(self);
        }
        let power = 10_i128.checked_pow(more.into())?;
        let tree = match self.tree {
            Tree::Constant(value) => Tree::Constant(value.checked_mul(power)?),
            tree => Tree::Multiply(Box::new(tree), Box::new(Tree::Constant(power))),
        };
        Some(Decimals { tree, digits: self.digits.checked_add(more)?, scale })
    }

    /// A sum or difference.
    fn sum(self, other: Decimals, make: fn(Box<Tree>, Box<Tree>) -> Tree) -> Option<Decimals> {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.at_scale(scale)?, other.at_scale(scale)?);
        let digits = left.digits.max(right.digits).checked_add(1)?;
        Some(Decimals { tree: make(Box::new(left.tree), Box::new(right.tree)), digits, scale })
    }

    fn product(self, other: Decimals) -> Option<Decimals> {
        let digits = self.digits.checked_add(other.digits)?;
        let scale = self.scale.checked_add(other.scale)?;
        Some(Decimals { tree: Tree::Multiply(Box::new(self.tree), Box::new(other.tree)), digits, scale })
    }
}

impl Lowering<'_> {
    /// Arithmetic of numerics of which the result has at most 38 digits; `None` for everything else.
    pub(crate) fn decimal_arithmetic(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Typed>> {
        let ExprKind::Call(call, _) = &expr.kind else { return Ok(None) };
        match FUNCTIONS.get(&call.function) {
            None | Some(Function::OfInteger) => return Ok(None),
            Some(_) => {}
        }
        let Some((lowered, _, scale)) = self.decimals(expr, DIGITS_MAX, schema)? else { return Ok(None) };
        Ok(Some((lowered, DataType::Decimal128(DIGITS_MAX, scale))))
    }

    /// The number of digits of an expression of decimals, if it is one.
    pub(crate) fn digits_of(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<u8>> {
        Ok(self.decimals(expr, DIGITS_MAX, schema)?.map(|(_, digits, _)| digits))
    }

    /// `sum` of decimals: the aggregate, and its argument; `None` for other arguments.
    pub(crate) fn decimal_sum(
        &self,
        argument: &Expr,
        schema: &DFSchema,
    ) -> Result<Option<(Arc<AggregateUDF>, DfExpr)>> {
        if argument.ty != TypeId::NUMERIC {
            return Ok(None);
        }
        let Some((lowered, digits, scale)) = self.decimals(argument, WIDE_DIGITS_MAX, schema)? else { return Ok(None) };
        let function = if digits <= PLAIN_SUM_DIGITS_MAX { sum::sum_udaf() } else { Sum::udf(scale) };
        Ok(Some((function, lowered)))
    }

    /// An expression of decimals with at most `digits_max` digits, the number of its digits, and its scale.
    fn decimals(&self, expr: &Expr, digits_max: u8, schema: &DFSchema) -> Result<Option<(DfExpr, u8, i8)>> {
        let mut arguments = Vec::new();
        let Some(found) = self.decimals_over(expr, &mut arguments, schema)? else { return Ok(None) };
        let fits = found.digits <= digits_max && found.scale <= digits_max;
        let Ok(scale) = i8::try_from(found.scale) else { return Ok(None) };
        if !fits || arguments.is_empty() {
            return Ok(None);
        }
        if let ExprKind::Column(column) = expr.kind
            && let (column, DataType::Decimal128(..)) = self.column(column, schema)?
        {
            return Ok(Some((column, found.digits, scale)));
        }
        Ok(Some((Arithmetic::call(found.tree, arguments, found.digits, scale), found.digits, scale)))
    }

    /// The tree of an expression; its columns are appended to the arguments.
    fn decimals_over(&self, expr: &Expr, arguments: &mut Vec<DfExpr>, schema: &DFSchema) -> Result<Option<Decimals>> {
        match &expr.kind {
            ExprKind::Constant(value) => Ok(constant(&value.datum())),
            ExprKind::Column(column) => {
                let (lowered, ty) = self.column(*column, schema)?;
                let (digits, scale) = match ty {
                    DataType::Int16 => (5, 0),
                    DataType::Int32 => (10, 0),
                    DataType::Int64 => (19, 0),
                    DataType::Decimal128(digits, scale) => match u8::try_from(scale) {
                        Ok(scale) => (self.decimal_digits(*column).unwrap_or(digits), scale),
                        Err(_) => return Ok(None),
                    },
                    _ => return Ok(None),
                };
                let at = arguments.iter().position(|one| *one == lowered).unwrap_or_else(|| {
                    arguments.push(lowered);
                    arguments.len() - 1
                });
                Ok(Some(Decimals { tree: Tree::Column(at), digits, scale }))
            }
            ExprKind::Call(call, operands) => {
                let Some(function) = FUNCTIONS.get(&call.function) else { return Ok(None) };
                let mut found = Vec::with_capacity(operands.len());
                for operand in operands {
                    let Some(operand) = self.decimals_over(operand, arguments, schema)? else { return Ok(None) };
                    found.push(operand);
                }
                let mut found = found.into_iter();
                let (Some(left), right) = (found.next(), found.next()) else { return Ok(None) };
                Ok(match (function, right) {
                    (Function::OfInteger, None) => Some(left),
                    (Function::Negate, None) => {
                        let zero = Decimals { tree: Tree::Constant(0), digits: 1, scale: left.scale };
                        let digits = left.digits;
                        zero.sum(left, Tree::Subtract).map(|negated| Decimals { digits, ..negated })
                    }
                    (Function::Add, Some(right)) => left.sum(right, Tree::Add),
                    (Function::Subtract, Some(right)) => left.sum(right, Tree::Subtract),
                    (Function::Multiply, Some(right)) => left.product(right),
                    _ => None,
                })
            }
            _ => Ok(None),
        }
    }
}

/// A constant of integers or decimals.
fn constant(value: &Datum<'_>) -> Option<Decimals> {
    let (value, scale) = match value {
        Datum::Int2(value) => (i128::from(*value), 0),
        Datum::Int4(value) => (i128::from(*value), 0),
        Datum::Int8(value) => (i128::from(*value), 0),
        Datum::Numeric(value) => value.as_decimal()?,
        _ => return None,
    };
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    Some(Decimals { tree: Tree::Constant(value), digits: digits as u8, scale: u8::try_from(scale).ok()? })
}
