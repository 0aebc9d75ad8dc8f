//! Lowers recursive queries of WITH to DataFusion's.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use binder::tree::Subplan;
use catalog::TypeId;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder};
use model::{Error, Result};

use crate::arrow::arrow_type;
use crate::arrow::key::{self, KeyKind};
use crate::errors::OrError;
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
        let fields = cte.columns.iter().zip(&types);
        let fields = fields.map(|(column, ty)| Field::new(Self::name(*column), arrow_type(*ty, &self.zone), true));
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
        let plan = LogicalPlanBuilder::from(base).to_recursive_query(name, step?, !all);
        let plan = plan.and_then(LogicalPlanBuilder::build).or_error()?;
        for (column, ty) in cte.columns.iter().zip(&types) {
            self.computed(*column, arrow_type(*ty, &self.zone));
        }
        self.renamed(plan, &cte.columns, columns)
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
