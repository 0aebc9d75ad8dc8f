//! Lowers recursive queries of WITH to DataFusion's.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use binder::tree::Subplan;
use catalog::TypeId;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, col};
use model::{Error, Result};
use scalar::{Expr, ExprKind, Place};

use crate::arrow::arrow_type;
use crate::arrow::key::{self, KeyKind};
use crate::errors::OrError;
use crate::evaluation::evaluate::Evaluate;
use crate::lower::lowering::Lowering;

impl Lowering<'_> {
    /// A reference to a recursive query.
    pub(crate) fn recursive(
        &self,
        number: usize,
        all: bool,
        base: &Subplan,
        step: &Subplan,
        columns: &[u32],
    ) -> Result<LogicalPlan> {
        let Some(cte) = self.query.ctes.get(number) else { return Err(Error::bug("no such query of WITH")) };
        let types: Vec<TypeId> = cte.columns.iter().map(|column| self.type_of(*column)).collect::<Result<_>>()?;
        // DataFusion finds repeated rows by Arrow's equality.
        if !all && types.iter().any(|ty| key::kind(*ty) != KeyKind::Native) {
            return Err(Error::unsupported("UNION in a recursive query is not supported for these types"));
        }
        let base = self.side(base, &cte.columns, &types)?;
        let metadata = base.schema().fields().iter().map(|field| field.metadata().clone());
        let fields = cte.columns.iter().zip(&types).zip(metadata);
        let fields = fields.map(|((column, ty), metadata)| {
            Field::new(Self::name(*column), arrow_type(*ty, &self.zone), true).with_metadata(metadata)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        // Two references are two recursions, so their work tables need two names.
        let name = format!("w{number}_{}", columns.first().copied().unwrap_or_default());
        let table = provider_as_source(Arc::new(CteWorkTable::new(&name, schema)));
        let outer = self.work.borrow_mut().insert(number, (name.clone(), table));
        let step = self.side(step, &cte.columns, &types);
        match outer {
            Some(outer) => self.work.borrow_mut().insert(number, outer),
            None => self.work.borrow_mut().remove(&number),
        };
        for (column, ty) in cte.columns.iter().zip(&types) {
            self.computed(*column, arrow_type(*ty, &self.zone));
        }
        let [base, step] = self.with_equal_metadata([base, step?], &cte.columns, &types)?;
        let plan = LogicalPlanBuilder::from(base).to_recursive_query(name, step, !all);
        let plan = plan.and_then(LogicalPlanBuilder::build).or_error()?;
        self.renamed(plan, &cte.columns, columns)
    }

    /// Takes the metadata from columns in which both sides have another: DataFusion wants them to be equal. A column of a table has
    /// some, and a computed one has none.
    fn with_equal_metadata(
        &self,
        sides: [LogicalPlan; 2],
        columns: &[u32],
        types: &[TypeId],
    ) -> Result<[LogicalPlan; 2]> {
        let [base, step] = &sides;
        let fields = base.schema().fields().iter().zip(step.schema().fields());
        let differs: Vec<bool> = fields.map(|(base, step)| base.metadata() != step.metadata()).collect();
        if !differs.contains(&true) {
            return Ok(sides);
        }
        let plain = |plan: LogicalPlan| {
            let mut exprs = Vec::with_capacity(columns.len());
            for ((column, ty), differs) in columns.iter().zip(types).zip(&differs) {
                let name = Self::name(*column);
                if !differs {
                    exprs.push(col(name));
                    continue;
                }
                let value = Expr::new(ExprKind::Column(*column), *ty, Place::default());
                let (program, arguments) = self.program(&value, plan.schema())?;
                exprs.push(Evaluate::call(program, arguments).alias(name));
            }
            LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).or_error()
        };
        let [base, step] = sides;
        Ok([plain(base)?, plain(step)?])
    }

    /// The rows of a recursive query's last step.
    pub(crate) fn work_table(&self, number: usize, columns: &[u32]) -> Result<LogicalPlan> {
        let found = self.work.borrow().get(&number).cloned();
        let (Some((name, table)), Some(cte)) = (found, self.query.ctes.get(number)) else {
            return Err(Error::bug("a work table outside of its query"));
        };
        let mut exprs = Vec::with_capacity(columns.len());
        for (from, to) in cte.columns.iter().zip(columns) {
            let at = Column::new(Some(name.clone()), Self::name(*from));
            exprs.push(DfExpr::Column(at).alias(Self::name(*to)));
        }
        let plan = LogicalPlanBuilder::scan(name, table, None).and_then(|plan| plan.project(exprs));
        let plan = plan.and_then(LogicalPlanBuilder::build).or_error()?;
        for (from, to) in cte.columns.iter().zip(columns) {
            self.computed(*to, arrow_type(self.type_of(*from)?, &self.zone));
        }
        Ok(plan)
    }
}
