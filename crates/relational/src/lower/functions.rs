//! Lowers functions of sets, in SELECT lists and in FROM.

use std::sync::Arc;

use arrow_schema::Field;
use binder::tree::{Rel, TableFunction};
use catalog::TypeId;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan};
use model::{Error, Result};
use scalar::{Call, Expr, ExprKind};

use crate::arrow::arrow_type;
use crate::errors::OrError;
use crate::lower::lowering::Lowering;
use crate::lower::relations::single;
use crate::nodes::sets::{Function, Sets};
use crate::nodes::{Made, Node, Operator};

/// Expressions that other ones are computed from, within an operator of ours.
#[derive(Default)]
pub(crate) struct Inputs {
    pub(crate) exprs: Vec<DfExpr>,
    pub(crate) types: Vec<TypeId>,
}

impl Inputs {
    /// Adds what an expression needs; gives the expression over the inputs.
    pub(crate) fn add(&mut self, lowering: &Lowering<'_>, expr: &Expr, schema: &DFSchema) -> Result<Expr> {
        let (program, arguments) = lowering.program(expr, schema)?;
        let mut places = Vec::with_capacity(arguments.len());
        for (argument, ty) in arguments.into_iter().zip(&*program.columns) {
            let same = self.exprs.iter().zip(&self.types).position(|(one, one_ty)| *one == argument && one_ty == ty);
            places.push(same.unwrap_or_else(|| {
                self.exprs.push(argument);
                self.types.push(*ty);
                self.exprs.len() - 1
            }));
        }
        let mut expr = Arc::unwrap_or_clone(program.expr);
        expr.visit_mut(&mut |part| {
            if let ExprKind::Column(column) = &mut part.kind {
                *column = places.get(*column as usize).copied().unwrap_or_default() as u32;
            }
        });
        Ok(expr)
    }
}

impl Lowering<'_> {
    /// Functions in FROM.
    pub(crate) fn functions(&self, functions: &[TableFunction], ordinality: Option<u32>) -> Result<LogicalPlan> {
        self.functions_of(single(), functions, ordinality, false, false)
    }

    /// Functions in FROM for each row of an input.
    pub(crate) fn functions_over(
        &self,
        input: LogicalPlan,
        functions: &[TableFunction],
        ordinality: Option<u32>,
        outer: bool,
    ) -> Result<LogicalPlan> {
        self.functions_of(input, functions, ordinality, true, outer)
    }

    fn functions_of(
        &self,
        mut input: LogicalPlan,
        functions: &[TableFunction],
        ordinality: Option<u32>,
        keeps: bool,
        outer: bool,
    ) -> Result<LogicalPlan> {
        let mut lowered = Vec::with_capacity(functions.len());
        for function in functions {
            let (larger, arguments) = self.without_subqueries(input, function.arguments.clone())?;
            input = larger;
            lowered.push(TableFunction { arguments, ..function.clone() });
        }
        self.sets(input, lowered, ordinality, keeps, outer)
    }

    /// Functions of sets in a SELECT list.
    pub(crate) fn project_set(&self, input: &Rel, sets: &[(u32, Call, Vec<Expr>)]) -> Result<LogicalPlan> {
        let mut input = self.rel(input)?;
        let mut lowered = Vec::with_capacity(sets.len());
        for (column, call, arguments) in sets {
            let (larger, arguments) = self.without_subqueries(input, arguments.clone())?;
            input = larger;
            let (call, columns) = (call.clone(), vec![*column]);
            lowered.push(TableFunction { call, arguments, is_set: true, is_record: false, columns });
        }
        self.sets(input, lowered, None, true, false)
    }

    fn sets(
        &self,
        input: LogicalPlan,
        functions: Vec<TableFunction>,
        ordinality: Option<u32>,
        keeps: bool,
        outer: bool,
    ) -> Result<LogicalPlan> {
        let mut inputs = Inputs::default();
        let mut lowered = Vec::with_capacity(functions.len());
        let mut columns: Vec<u32> = Vec::new();
        for TableFunction { call, arguments, is_set, is_record, columns: numbers } in functions {
            let is_known = if is_set {
                let is_routine = call.function >= scalar::FIRST_ROUTINE && self.session.routines.is_some();
                is_routine || scalar::set_function(call.function).is_some()
            } else {
                scalar::has_function(call.function, &self.session)
            };
            if !is_known {
                let name = catalog::builtin().function_row(call.function).map_or("?", |row| row.name);
                return Err(Error::unsupported(format!("function {name} is not supported")));
            }
            let arguments = arguments.iter().map(|argument| inputs.add(self, argument, input.schema()));
            let arguments = arguments.collect::<Result<_>>()?;
            let types = numbers.iter().map(|column| self.type_of(*column)).collect::<Result<_>>()?;
            columns.extend(&numbers);
            lowered.push(Function { call, arguments, is_set, is_record, types });
        }
        columns.extend(ordinality);
        let made = columns.iter().map(|column| self.made(*column)).collect::<Result<_>>()?;
        let operator = Operator::Sets(Sets {
            functions: lowered,
            columns: inputs.types,
            ordinality: ordinality.is_some(),
            outer,
            session: Arc::clone(&self.session),
            zone: Arc::clone(&self.zone),
        });
        Node::plan(operator, inputs.exprs, vec![input], keeps, made).or_error()
    }

    /// The field of a column that an operator of ours makes.
    pub(crate) fn made(&self, column: u32) -> Result<Made> {
        let arrow = arrow_type(self.type_of(column)?, &self.zone);
        let name = self.computed(column, arrow.clone());
        Ok((None, Arc::new(Field::new(name, arrow, true))))
    }
}
