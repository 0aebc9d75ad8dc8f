//! Scalar expressions as functions of DataFusion: their columns are arguments, and crate `scalar` computes each row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use bumpalo::Bump;
use catalog::{TypeId, Volatility as Stability, builtin};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr as DfExpr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    binary_expr,
};
use datafusion::scalar::ScalarValue;
use model::{Datum, Error, Result, SqlState};
use scalar::{Context, Expr, ExprKind, Row, Session};

use crate::arrow::{Builder, Form, arrow_type, datum, form};
use crate::errors::OrError;
use crate::errors::external;
use crate::evaluation::kernels;
use crate::evaluation::natives::{Native, native};

/// Rows whose computed values share an arena, which bounds the memory of a batch.
const CHUNK_ROWS: usize = 1_024;
/// Bytes of computed values above which an arena is given back.
const ARENA_BYTES: usize = 1 << 20;
/// Largest values that a batch of computed texts may take.
const BATCH_VALUES: usize = 2;

/// A scalar expression over columns that are numbered from 0 and have types.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) expr: Arc<Expr>,
    /// Types of the columns.
    pub(crate) columns: Arc<[TypeId]>,
    pub(crate) session: Arc<Session>,
    pub(crate) zone: Arc<str>,
}

impl Program {
    /// Computes the rows of some columns.
    pub(crate) fn run(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if let Some(computed) = kernels::computed(&self.expr, columns, rows) {
            return Ok(computed);
        }
        let mut builder = Builder::new(self.expr.ty, &self.zone, rows);
        let mut arena = Bump::new();
        let (mut from, mut bytes) = (0, 0);
        while from < rows {
            from = self.run_chunk(columns, from..rows.min(from + CHUNK_ROWS), &arena, &mut builder, &mut bytes)?;
            if arena.allocated_bytes() > ARENA_BYTES { arena = Bump::new() } else { arena.reset() }
        }
        Ok(builder.finish())
    }

    /// Computes some rows, fewer if their values become large; returns the first row that is left.
    fn run_chunk(
        &self,
        columns: &[ArrayRef],
        rows: std::ops::Range<usize>,
        arena: &Bump,
        builder: &mut Builder,
        bytes: &mut usize,
    ) -> Result<usize> {
        let ctx = Context { arena, session: &self.session };
        let mut values: Vec<Datum<'_>> = Vec::with_capacity(columns.len());
        let end = rows.end;
        for row in rows {
            values.clear();
            for (column, ty) in columns.iter().zip(&*self.columns) {
                values.push(datum(column.as_ref(), row, *ty)?);
            }
            let value = scalar::eval(&self.expr, values.as_slice(), &ctx)?;
            if let Datum::Text(text) = value {
                *bytes += text.len();
                if *bytes / BATCH_VALUES > self.session.value_bytes_max {
                    let text = "the computed texts of a batch are longer than the memory allows";
                    return Err(Error::new(SqlState::OUT_OF_MEMORY, text));
                }
            }
            builder.push(&value)?;
            if arena.allocated_bytes() > ARENA_BYTES {
                return Ok(row + 1);
            }
        }
        Ok(end)
    }

    /// Computes the expression for values.
    pub(crate) fn eval<'a>(&'a self, row: &(impl Row<'a> + ?Sized), ctx: &Context<'a>) -> Result<Datum<'a>> {
        scalar::eval(&self.expr, row, ctx)
    }
}

/// The least stable function of an expression.
pub(crate) fn stability(expr: &Expr) -> Stability {
    let mut worst = Stability::Immutable;
    expr.visit(&mut |part| {
        let of = |function: u32| builtin().function_row(function).map_or(Stability::Volatile, |row| row.volatility);
        let found = match &part.kind {
            ExprKind::Call(call, _)
            | ExprKind::Distinct(call, _)
            | ExprKind::NullIf(call, _)
            | ExprKind::Quantified { call, .. }
            | ExprKind::InList { call, .. } => of(call.function),
            ExprKind::RowCompare { calls, .. } => {
                calls.iter().map(|call| of(call.function)).max().unwrap_or(Stability::Immutable)
            }
            ExprKind::ViaText(of) if has_one_text(of.ty) && has_one_text(part.ty) => Stability::Immutable,
            ExprKind::Domain(_, test) => {
                test.checks.iter().map(|(_, check)| stability(check)).max().unwrap_or(Stability::Immutable)
            }
            ExprKind::ViaText(_) | ExprKind::SqlValue(_) => Stability::Stable,
            _ => Stability::Immutable,
        };
        worst = worst.max(found);
    });
    worst
}

/// Whether values of a type are written and read in the same way in every session, unlike dates and floats.
fn has_one_text(ty: TypeId) -> bool {
    matches!(
        ty,
        TypeId::BOOL
            | TypeId::INT2
            | TypeId::INT4
            | TypeId::INT8
            | TypeId::NUMERIC
            | TypeId::TEXT
            | TypeId::VARCHAR
            | TypeId::UUID
    )
}

/// Functions whose results may be much longer than their arguments, in the order of the alphabet.
const GROWING: [&str; 20] = [
    "anytextcat",
    "array_append",
    "array_cat",
    "array_fill",
    "array_prepend",
    "array_to_string",
    "byteacat",
    "concat",
    "concat_ws",
    "format",
    "lpad",
    "overlay",
    "regexp_replace",
    "repeat",
    "replace",
    "rpad",
    "string_to_array",
    "textanycat",
    "textcat",
    "translate",
];

/// Whether values of a function of this crate may be much longer than its arguments.
#[must_use]
pub(crate) fn may_grow(function: &ScalarUDF) -> bool {
    let Some(evaluate) = function.inner().downcast_ref::<Evaluate>() else { return false };
    let mut found = false;
    evaluate.program.expr.visit(&mut |part| {
        if let ExprKind::Call(call, _) = &part.kind {
            let name = builtin().function_row(call.function).map_or("", |row| row.name);
            found |= GROWING.binary_search(&name).is_ok();
        }
    });
    found
}

/// The function that runs a [`Program`].
#[derive(Debug)]
pub(crate) struct Evaluate {
    program: Program,
    /// Text by which equal functions are recognised.
    identity: Box<str>,
    signature: Signature,
}

impl Evaluate {
    /// A call with arguments for the program's columns.
    pub(crate) fn call(program: Program, arguments: Vec<DfExpr>) -> DfExpr {
        let volatility = match stability(&program.expr) {
            Stability::Immutable => Volatility::Immutable,
            Stability::Stable => Volatility::Stable,
            Stability::Volatile => Volatility::Volatile,
        };
        let identity = format!("{:?} {:?}", program.expr, program.columns).into();
        let function = Evaluate { program, identity, signature: signature(arguments.len(), volatility) };
        ScalarUDF::from(function).call(arguments)
    }
}

/// The signature of any arguments.
pub(crate) fn signature(count: usize, volatility: Volatility) -> Signature {
    if count == 0 { Signature::nullary(volatility) } else { Signature::any(count, volatility) }
}

impl PartialEq for Evaluate {
    fn eq(&self, other: &Evaluate) -> bool {
        self.identity == other.identity && Arc::ptr_eq(&self.program.session, &other.program.session)
    }
}

impl Eq for Evaluate {}

impl Hash for Evaluate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl ScalarUDFImpl for Evaluate {
    fn name(&self) -> &str {
        "evaluate"
    }

    fn schema_name(&self, arguments: &[DfExpr]) -> DfResult<String> {
        let mut hasher = rustc_hash::FxHasher::default();
        self.identity.hash(&mut hasher);
        let arguments: Vec<String> = arguments.iter().map(|argument| argument.schema_name().to_string()).collect();
        Ok(format!("evaluate {:016x}({})", hasher.finish(), arguments.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(self.program.expr.ty, &self.program.zone))
    }

    /// `column = ANY ($1)` becomes `column IN (…)` once the parameter has its value: scans look such columns up.
    fn simplify(&self, arguments: Vec<DfExpr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        let list = among(&self.program, &arguments, |argument| info.get_data_type(argument).ok());
        Ok(list.map_or(ExprSimplifyResult::Original(arguments), ExprSimplifyResult::Simplified))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_volatile = self.signature.volatility == Volatility::Volatile;
        compute(&arguments, is_volatile, |columns, rows| self.program.run(columns, rows))
    }
}

/// The list form of a comparison of an argument with each item of another, which is an array that is known. `None` if the program
/// is something else, or DataFusion compares otherwise than PostgreSQL.
fn among(program: &Program, arguments: &[DfExpr], type_of: impl Fn(&DfExpr) -> Option<DataType>) -> Option<DfExpr> {
    let ExprKind::Quantified { all, call, operands } = &program.expr.kind else { return None };
    let [ExprKind::Column(left), ExprKind::Column(right)] = [&operands[0].kind, &operands[1].kind] else { return None };
    let (left, right) = (*left as usize, *right as usize);
    let DfExpr::Literal(array, _) = arguments.get(right)? else { return None };
    let item = call.arguments.get(1).copied().filter(|item| *item == operands[0].ty && has_exact_items(*item))?;
    let wanted = if *all { Operator::NotEq } else { Operator::Eq };
    if native(call.function) != Some(Native::Compare(wanted)) {
        return None;
    }
    let found = type_of(arguments.get(left)?)?;
    if found != arrow_type(item, &program.zone) && !found.is_string() {
        return None;
    }
    let array = array.to_array().ok()?;
    let Datum::Array(array) = datum(array.as_ref(), 0, *program.columns.get(right)?).ok()? else { return None };
    in_list(arguments[left].clone(), *all, &array.items, item, &program.zone)
}

/// Whether DataFusion's lists of values of a type compare as PostgreSQL does.
pub(crate) fn has_exact_items(ty: TypeId) -> bool {
    matches!(
        form(ty),
        Form::Bool
            | Form::Int2
            | Form::Int4
            | Form::Int8
            | Form::Text
            | Form::Date
            | Form::Timestamp
            | Form::Timestamptz
    )
}

/// `value IN (items)` or, with `all`, `value NOT IN (items)`; `None` without an item that is not NULL.
pub(crate) fn in_list(value: DfExpr, all: bool, items: &[Datum<'_>], ty: TypeId, zone: &Arc<str>) -> Option<DfExpr> {
    let there = items.iter().filter(|item| !item.is_null());
    let literal = |item| constant(item, ty, zone).ok().map(|literal| DfExpr::Literal(literal, None));
    let list: Vec<DfExpr> = there.map(literal).collect::<Option<_>>()?;
    if list.is_empty() {
        return None;
    }
    let has_null = list.len() < items.len();
    let among = DfExpr::InList(InList::new(Box::new(value), list, all));
    // DataFusion joins lists about one column as sets of values that are not NULL.
    let unknown = DfExpr::Literal(ScalarValue::Boolean(None), None);
    let operator = if all { Operator::And } else { Operator::Or };
    Some(if has_null { binary_expr(among, operator, unknown) } else { among })
}

/// Computes rows; of constants only one.
pub(crate) fn compute(
    arguments: &ScalarFunctionArgs,
    is_volatile: bool,
    run: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> DfResult<ColumnarValue> {
    let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_constant && !is_volatile { 1 } else { arguments.number_rows };
    let columns: Vec<ArrayRef> = arguments.args.iter().map(|value| value.to_array(rows)).collect::<DfResult<_>>()?;
    let computed = run(&columns, rows).map_err(external)?;
    if is_constant && !is_volatile {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?));
    }
    Ok(ColumnarValue::Array(computed))
}

/// A constant of a type.
pub(crate) fn constant(value: &Datum<'_>, ty: TypeId, zone: &Arc<str>) -> Result<ScalarValue> {
    let mut builder = Builder::new(ty, zone, 1);
    builder.push(value)?;
    ScalarValue::try_from_array(&builder.finish(), 0).or_error()
}
