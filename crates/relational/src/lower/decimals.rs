//! Lowers arithmetic of numerics whose operands are decimals with known numbers of digits: whole columns are computed, and
//! nothing overflows.

use std::sync::{Arc, LazyLock};

use arrow_schema::DataType;
use catalog::{TypeId, builtin};
use datafusion::common::DFSchema;
use datafusion::functions_aggregate::sum;
use datafusion::logical_expr::{AggregateUDF, Case, Expr as DfExpr, cast};
use datafusion::scalar::ScalarValue;
use model::{Datum, Result};
use rustc_hash::FxHashMap;
use scalar::registry::signature_number;
use scalar::{Expr, ExprKind};

use crate::evaluation::decimals::{Arithmetic, DIGITS_MAX, PLAIN_SUM_DIGITS_MAX, Sum, Tree, WIDE_DIGITS_MAX};
use crate::lower::expressions::{Typed, can_fail};
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

/// Whether a function is one of these.
pub(crate) fn is_arithmetic(function: u32) -> bool {
    FUNCTIONS.contains_key(&function)
}

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

    /// The expression whose values have 128 bits; `None` if they may have more digits.
    fn lowered(self, mut arguments: Vec<DfExpr>) -> Option<DfExpr> {
        if self.digits > DIGITS_MAX || self.scale > DIGITS_MAX {
            return None;
        }
        let scale = self.scale.cast_signed();
        match self.tree {
            Tree::Constant(value) => {
                Some(DfExpr::Literal(ScalarValue::Decimal128(Some(value), DIGITS_MAX, scale), None))
            }
            _ if arguments.is_empty() => None,
            Tree::Column(0) => arguments.pop().map(|column| cast(column, DataType::Decimal128(DIGITS_MAX, scale))),
            tree => Some(Arithmetic::call(tree, arguments, self.digits, scale)),
        }
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

    /// Two expressions of decimals with one scale, of at most 38 digits; `None` for others, and for two constants.
    pub(crate) fn decimals_of_one_scale(&self, sides: [&Expr; 2], schema: &DFSchema) -> Result<Option<[DfExpr; 2]>> {
        if let [ExprKind::Column(left), ExprKind::Column(right)] = sides.map(|side| &side.kind) {
            let ((left, left_ty), (right, right_ty)) = (self.column(*left, schema)?, self.column(*right, schema)?);
            if left_ty == right_ty && matches!(left_ty, DataType::Decimal128(..)) {
                return Ok(Some([left, right]));
            }
        }
        let mut found = Vec::with_capacity(2);
        for side in sides {
            let mut arguments = Vec::new();
            let Some(decimals) = self.decimals_over(side, &mut arguments, schema)? else { return Ok(None) };
            found.push((decimals, arguments));
        }
        let scale = found.iter().map(|(decimals, _)| decimals.scale).max().unwrap_or_default();
        let made = found.into_iter().filter_map(|(decimals, arguments)| decimals.at_scale(scale)?.lowered(arguments));
        Ok(made.collect::<Vec<_>>().try_into().ok())
    }

    /// CASE with conditions that do not fail, over expressions of decimals.
    fn decimals_of_case(
        &self,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        schema: &DFSchema,
    ) -> Result<Option<(DfExpr, u8, u8)>> {
        let mut conditions = Vec::with_capacity(branches.len());
        for (condition, _) in branches {
            match self.native(condition, schema)? {
                Some((lowered, _)) if !can_fail(condition) => conditions.push(lowered),
                _ => return Ok(None),
            }
        }
        let mut results = Vec::with_capacity(branches.len() + 1);
        for result in branches.iter().map(|(_, result)| result).chain(otherwise) {
            let mut arguments = Vec::new();
            let decimals = self.decimals_over(result, &mut arguments, schema)?;
            if decimals.is_none() && !result.is_null() {
                return Ok(None);
            }
            results.push(decimals.map(|decimals| (decimals, arguments)));
        }
        let scale = results.iter().flatten().map(|(decimals, _)| decimals.scale).max().unwrap_or_default();
        let (mut digits, mut lowered) = (1, Vec::with_capacity(results.len()));
        for result in results {
            let Some((decimals, arguments)) = result else {
                let null = ScalarValue::Decimal128(None, DIGITS_MAX, scale.cast_signed());
                lowered.push(DfExpr::Literal(null, None));
                continue;
            };
            let Some(decimals) = decimals.at_scale(scale) else { return Ok(None) };
            digits = digits.max(decimals.digits);
            let Some(made) = decimals.lowered(arguments) else { return Ok(None) };
            lowered.push(cast(made, DataType::Decimal128(DIGITS_MAX, scale.cast_signed())));
        }
        let otherwise = if otherwise.is_some() { lowered.pop() } else { None };
        let branches = conditions.into_iter().zip(lowered).map(|(when, then)| (Box::new(when), Box::new(then)));
        let case = Case::new(None, branches.collect(), otherwise.map(Box::new));
        Ok(Some((DfExpr::Case(case), digits, scale)))
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
        if let (ExprKind::Case { .. }, true) = (&expr.kind, found.digits <= DIGITS_MAX) {
            return Ok(arguments.pop().map(|case| (case, found.digits, scale)));
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
            ExprKind::Case { operand: None, branches, otherwise } => {
                let Some((case, digits, scale)) = self.decimals_of_case(branches, otherwise.as_deref(), schema)? else {
                    return Ok(None);
                };
                arguments.push(case);
                Ok(Some(Decimals { tree: Tree::Column(arguments.len() - 1), digits, scale }))
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
