//! The state of lowering: columns by number, outer rows, and the result's columns.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::DataType;
use binder::tree::{CteBody, Output, Query, Rel};
use catalog::TypeId;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr as DfExpr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use model::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use scalar::{Expr, ExprKind, Place, Session};

use crate::errors::OrError;
use crate::evaluation::evaluate::Evaluate;
use crate::evaluation::keys::{AskedKeys, Outer, OuterRow};
use crate::functions::with_nodes;
use crate::lower::Environment;
use crate::lower::expressions::Typed;
use crate::types::{OID_KEY, TYPMOD_KEY};

/// Maximum depth of operators, which bounds the stack.
const DEPTH_MAX: usize = 200;
/// Maximum number of operators. A query of WITH is lowered for each reference, so that their number can double with each.
const OPERATORS_MAX: usize = 2_000;

/// Name and rows of the work table of a recursive query.
pub(crate) type WorkTable = (String, Arc<dyn datafusion::logical_expr::TableSource>);

/// Lowers one query.
pub(crate) struct Lowering<'a> {
    pub(crate) query: &'a Query,
    pub(crate) env: &'a dyn Environment,
    pub(crate) session: Arc<Session>,
    pub(crate) zone: Arc<str>,
    columns: RefCell<FxHashMap<u32, (Column, DataType)>>,
    /// Digits of columns that are decimals, where fewer are known than their Arrow type has.
    digits: RefCell<FxHashMap<u32, u8>>,
    frames: RefCell<Vec<Frame>>,
    /// Types of columns that lowering adds; they are numbered after the query's.
    added: RefCell<Vec<TypeId>>,
    /// Work tables of recursive queries that are being lowered.
    pub(crate) work: RefCell<FxHashMap<usize, WorkTable>>,
    /// Whether the rows of a subquery for all outer rows are being lowered.
    pub(crate) is_keying: Cell<bool>,
    /// The column of the key that leaves out rows of that subquery; its test is IS NOT NULL.
    pub(crate) asked: RefCell<Option<(u32, Arc<AskedKeys>)>>,
    depth: Cell<usize>,
    operators: Cell<usize>,
    /// Whether the operator above keeps the order of the next one: the result, and LIMIT, which sorts fewer rows.
    pub(crate) order_is_kept: Cell<bool>,
    /// Whether an operator above has a condition, which DataFusion may move.
    pub(crate) is_below_condition: Cell<bool>,
    /// Window functions that a condition above limits: the number of the first rows of a partition that it accepts.
    pub(crate) leading: RefCell<FxHashMap<u32, usize>>,
    /// Queries of WITH that were asked for, and whether they call volatile functions.
    pub(crate) volatile_ctes: RefCell<FxHashMap<usize, bool>>,
    /// Queries of WITH with volatile functions that are lowered.
    pub(crate) lowered_ctes: RefCell<FxHashSet<usize>>,
    /// Columns that the query reads, computed when the first table asks.
    used: std::cell::OnceCell<FxHashSet<u32>>,
}

/// The outer row of a subquery that is being lowered.
struct Frame {
    schema: Arc<DFSchema>,
    row: Arc<OuterRow>,
    used: Vec<u32>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(query: &'a Query, env: &'a dyn Environment) -> Lowering<'a> {
        let session = env.session();
        let zone = session.zone_name.as_str().into();
        Lowering {
            query,
            env,
            session,
            zone,
            columns: RefCell::default(),
            digits: RefCell::default(),
            frames: RefCell::default(),
            added: RefCell::default(),
            work: RefCell::default(),
            is_keying: Cell::new(false),
            asked: RefCell::default(),
            depth: Cell::new(0),
            operators: Cell::new(0),
            order_is_kept: Cell::new(true),
            is_below_condition: Cell::new(false),
            leading: RefCell::default(),
            volatile_ctes: RefCell::default(),
            lowered_ctes: RefCell::default(),
            used: std::cell::OnceCell::new(),
        }
    }

    /// Lowers the whole query.
    pub(crate) fn query(&self) -> Result<LogicalPlan> {
        // A change runs whether its rows are read or not.
        if self.query.ctes.iter().any(|cte| matches!(cte.body, CteBody::Change(_))) {
            return Err(Error::unsupported("INSERT, UPDATE and DELETE in WITH are not supported"));
        }
        let root = self.rel(&self.query.root)?;
        let mut names: FxHashMap<String, usize> = FxHashMap::default();
        let mut columns = Vec::with_capacity(self.query.output.len());
        for output in &self.query.output {
            let (expr, ty, typmod) = self.output(output, root.schema())?;
            let mut name = output.name.to_string();
            while names.contains_key(&name) {
                let count = names.entry(output.name.to_string()).or_default();
                *count += 1;
                name = format!("{}:{count}", output.name);
            }
            names.insert(name.clone(), 0);
            let mut metadata = HashMap::from([(OID_KEY.to_owned(), ty.to_string())]);
            metadata.insert(TYPMOD_KEY.to_owned(), typmod.to_string());
            columns.push(expr.alias_with_metadata(name, Some(FieldMetadata::from(metadata))));
        }
        let plan = LogicalPlanBuilder::from(root).project(columns).and_then(LogicalPlanBuilder::build);
        with_nodes(plan.or_error()?).or_error()
    }

    /// A column of the result, with its type and modifier. Values without an Arrow type of their own become texts.
    fn output(&self, output: &Output, schema: &DFSchema) -> Result<(DfExpr, TypeId, i32)> {
        let (column, arrow) = self.column(output.column, schema)?;
        if self.env.keeps_values() {
            return Ok((column, output.ty, output.typmod));
        }
        let is_encoded = crate::arrow::is_encoded(output.ty) && arrow == DataType::Binary;
        if !is_encoded && !self.env.is_text(output.ty) && !model::user_types::is_user(output.ty.0) {
            return Ok((column, output.ty, output.typmod));
        }
        let of = |kind, ty| Expr { kind, ty, typmod: output.typmod, at: Place::default() };
        let value = of(ExprKind::Column(output.column), output.ty);
        let text = of(ExprKind::ViaText(Box::new(value)), TypeId::TEXT);
        if self.env.has_plain_texts() {
            let (mut program, arguments) = self.program(&text, schema)?;
            program.session = Arc::new(program.session.with_plain_styles());
            return Ok((Evaluate::call(program, arguments), TypeId::TEXT, -1));
        }
        let (text, _) = self.expr(&text, schema)?;
        Ok((text, TypeId::TEXT, -1))
    }

    /// Columns that the query reads, by number.
    pub(crate) fn used_columns(&self) -> &FxHashSet<u32> {
        self.used.get_or_init(|| binder::used_columns(self.query))
    }

    /// Lowers an operator.
    pub(crate) fn rel(&self, rel: &Rel) -> Result<LogicalPlan> {
        let depth = self.depth.get();
        if depth >= DEPTH_MAX {
            return Err(Error::unsupported("the query nests too deeply"));
        }
        if self.operators.replace(self.operators.get() + 1) >= OPERATORS_MAX {
            return Err(Error::unsupported(format!("a query of more than {OPERATORS_MAX} operators is not supported")));
        }
        self.depth.set(depth + 1);
        let plan = self.operator(rel);
        self.depth.set(depth);
        plan
    }

    /// Type of a column.
    pub(crate) fn type_of(&self, column: u32) -> Result<TypeId> {
        let at = column as usize;
        if let Some(column) = self.query.columns.get(at) {
            return Ok(column.ty);
        }
        let added = self.added.borrow();
        let found = at.checked_sub(self.query.columns.len()).and_then(|at| added.get(at));
        found.copied().ok_or_else(|| Error::bug(format!("no column {column}")))
    }

    /// The number of a new column.
    pub(crate) fn add(&self, ty: TypeId) -> u32 {
        let mut added = self.added.borrow_mut();
        added.push(ty);
        (self.query.columns.len() + added.len() - 1) as u32
    }

    /// The name of a computed column.
    pub(crate) fn name(column: u32) -> String {
        format!("c{column}")
    }

    /// Notes that a column is computed, with its number as name.
    pub(crate) fn computed(&self, column: u32, ty: DataType) -> String {
        let name = Self::name(column);
        self.define(column, Column::new_unqualified(name.clone()), ty);
        name
    }

    /// Notes where the values of a column are.
    pub(crate) fn define(&self, column: u32, at: Column, ty: DataType) {
        self.columns.borrow_mut().insert(column, (at, ty));
    }

    /// Notes how many digits the values of a column of decimals have.
    pub(crate) fn note_digits(&self, column: u32, digits: u8) {
        self.digits.borrow_mut().insert(column, digits);
    }

    /// The known number of digits of a column of decimals.
    pub(crate) fn decimal_digits(&self, column: u32) -> Option<u8> {
        self.digits.borrow().get(&column).copied()
    }

    /// A column of the input, or of an outer row.
    pub(crate) fn column(&self, column: u32, schema: &DFSchema) -> Result<Typed> {
        let columns = self.columns.borrow();
        let Some((at, ty)) = columns.get(&column) else {
            return Err(Error::bug(format!("column {column} is not defined")));
        };
        if schema.has_column(at) {
            return Ok((DfExpr::Column(at.clone()), ty.clone()));
        }
        for frame in self.frames.borrow_mut().iter_mut().rev() {
            if frame.schema.has_column(at) {
                let slot = frame.used.iter().position(|one| *one == column).unwrap_or_else(|| {
                    frame.used.push(column);
                    frame.used.len() - 1
                });
                return Ok((Outer::call(Arc::clone(&frame.row), slot, ty.clone()), ty.clone()));
            }
        }
        Err(Error::unsupported(format!("column {column} is not visible in this part of the query")))
    }

    /// Lowers something within rows of `schema`; with the outer row, and the numbers of its columns that are used.
    pub(crate) fn within<T>(
        &self,
        schema: &DFSchema,
        lower: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Arc<OuterRow>, Vec<u32>)> {
        let row = Arc::new(OuterRow::default());
        let frame = Frame { schema: Arc::new(schema.clone()), row: Arc::clone(&row), used: Vec::new() };
        self.frames.borrow_mut().push(frame);
        let lowered = lower();
        let used = self.frames.borrow_mut().pop().map_or_else(Vec::new, |frame| frame.used);
        Ok((lowered?, row, used))
    }

    /// Columns computed over a plan, and nothing else. A column that keeps its number stays where it is.
    pub(crate) fn project(&self, input: LogicalPlan, columns: &[(u32, Expr)], canonical: bool) -> Result<LogicalPlan> {
        let mut exprs = Vec::with_capacity(columns.len());
        let mut made = Vec::with_capacity(columns.len());
        for (number, expr) in columns {
            let is_kept = matches!(expr.kind, ExprKind::Column(column) if column == *number);
            let (lowered, ty) =
                if canonical { self.canonical(expr, input.schema())? } else { self.expr(expr, input.schema())? };
            if is_kept && matches!(lowered, DfExpr::Column(_)) {
                exprs.push(lowered);
                continue;
            }
            exprs.push(lowered.alias(Self::name(*number)));
            if matches!(ty, DataType::Decimal128(..))
                && let Some(digits) = self.digits_of(expr, input.schema())?
            {
                self.note_digits(*number, digits);
            }
            made.push((*number, ty));
        }
        let plan = LogicalPlanBuilder::from(input).project(exprs).and_then(LogicalPlanBuilder::build).or_error()?;
        for (number, ty) in made {
            self.computed(number, ty);
        }
        Ok(plan)
    }

    /// The Arrow type of an expression of DataFusion.
    pub(crate) fn arrow_of(expr: &DfExpr, schema: &DFSchema) -> Result<DataType> {
        expr.get_type(schema).or_error()
    }
}
