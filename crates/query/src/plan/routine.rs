//! Planning of queries whose rows one evaluation gives: expressions without tables, and one function of a user in FROM. The
//! session computes them itself; DataFusion would call the functions from its threads.

use std::sync::Arc;

use binder::tree::Rel;
use engine::Catalog;
use model::{Error, Result};
use parking_lot::Mutex;
use relational::types::OutputColumn;
use scalar::{Call, Expr, ExprKind, FIRST_ROUTINE};

use crate::binding::Bound;
use crate::session::context::StatementContext;
use crate::settings::Settings;

/// A query that the session computes.
pub(crate) struct RowPlan {
    pub(crate) columns: Vec<OutputColumn>,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// The bound query, and the catalog and settings by which it was bound.
    kept: Mutex<(Arc<Computed>, Arc<Catalog>, Arc<Settings>)>,
}

/// A bound query that the session computes.
pub(crate) struct Computed {
    /// The function in FROM; without one the query has one row.
    pub(crate) from: Option<FromCall>,
    /// The columns of the result.
    pub(crate) exprs: Vec<Expr>,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
}

/// A function in FROM.
pub(crate) struct FromCall {
    pub(crate) call: Call,
    pub(crate) arguments: Vec<Expr>,
    /// Whether its columns are the fields of a row.
    pub(crate) is_record: bool,
    /// Numbers of its columns, by which the expressions name them.
    pub(crate) columns: Vec<u32>,
}

impl RowPlan {
    /// The plan of a query that the session computes and that calls functions of users; `None` for other queries.
    pub(crate) fn of(bound: &Bound, context: &StatementContext) -> Option<RowPlan> {
        if !bound.calls_routines() {
            return None;
        }
        let computed = Computed::of(bound)?;
        let columns = bound.query().output.iter().map(|one| OutputColumn {
            name: one.name.to_string(),
            oid: one.ty.0,
            typmod: one.typmod,
            origin: None,
        });
        let (catalog, settings) = (Arc::clone(context.reads.snapshot.catalog()), Arc::clone(&context.settings));
        let parameters = computed.parameters.clone();
        Some(RowPlan {
            columns: columns.collect(),
            parameters,
            kept: Mutex::new((Arc::new(computed), catalog, settings)),
        })
    }

    /// The query, bound by this catalog and these settings. `bind` binds it again if they are others.
    ///
    /// # Errors
    /// Those of `bind`; 0A000 if the columns are others now.
    pub(crate) fn computed(
        &self,
        context: &StatementContext,
        bind: impl FnOnce() -> Result<Bound>,
    ) -> Result<Arc<Computed>> {
        let mut kept = self.kept.lock();
        let (catalog, settings) = (context.reads.snapshot.catalog(), &context.settings);
        if Arc::ptr_eq(&kept.1, catalog) && Arc::ptr_eq(&kept.2, settings) {
            return Ok(Arc::clone(&kept.0));
        }
        let bound = bind()?;
        let same = bound.query().output.iter().map(|one| one.ty.0).eq(self.columns.iter().map(|column| column.oid));
        let computed = Computed::of(&bound).filter(|_| same);
        let computed = computed.ok_or_else(|| Error::unsupported("cached plan must not change result type"))?;
        *kept = (Arc::new(computed), Arc::clone(catalog), Arc::clone(settings));
        Ok(Arc::clone(&kept.0))
    }
}

impl Computed {
    fn of(bound: &Bound) -> Option<Computed> {
        let parameters = bound.parameters().to_vec();
        if let Some(exprs) = single_row(bound) {
            return Some(Computed { from: None, exprs, parameters });
        }
        let query = bound.query();
        if !query.subqueries.is_empty() || !query.ctes.is_empty() {
            return None;
        }
        let Rel::Project { input, columns } = &query.root else { return None };
        let Rel::Functions { functions, ordinality: None } = &**input else { return None };
        let [function] = functions.as_slice() else { return None };
        if function.call.function < FIRST_ROUTINE {
            return None;
        }
        let exprs = outputs(bound, columns)?;
        let is_own = |column: u32| function.columns.contains(&column);
        let is_plain = function.arguments.iter().all(|expr| is_computed(expr, bound, &|_| false))
            // A function beside the columns would be called for each row.
            && exprs.iter().all(|expr| is_computed(expr, bound, &is_own) && !calls_routine(expr));
        is_plain.then(|| Computed {
            from: Some(FromCall {
                call: function.call.clone(),
                arguments: function.arguments.clone(),
                is_record: function.is_record,
                columns: function.columns.clone(),
            }),
            exprs,
            parameters,
        })
    }
}

/// The expressions of the query's columns.
fn outputs(bound: &Bound, columns: &[(u32, Expr)]) -> Option<Vec<Expr>> {
    let find = |number: u32| columns.iter().find(|(column, _)| *column == number).map(|(_, expr)| expr.clone());
    bound.query().output.iter().map(|output| find(output.column)).collect()
}

fn calls_routine(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| {
        if let ExprKind::Call(call, _) = &part.kind {
            found |= call.function >= FIRST_ROUTINE;
        }
    });
    found
}

/// Whether crate `scalar` computes an expression over these columns.
fn is_computed(expr: &Expr, bound: &Bound, is_own: &dyn Fn(u32) -> bool) -> bool {
    let mut is_plain = true;
    expr.visit(&mut |part| match &part.kind {
        ExprKind::Call(call, _)
        | ExprKind::Distinct(call, _)
        | ExprKind::NullIf(call, _)
        | ExprKind::Quantified { call, .. }
        | ExprKind::InList { call, .. } => {
            is_plain &= scalar::has_function(call.function, bound.session());
        }
        ExprKind::RowCompare { calls, .. } => {
            is_plain &= calls.iter().all(|call| scalar::has_function(call.function, bound.session()));
        }
        ExprKind::Column(column) => is_plain &= is_own(*column),
        ExprKind::Subquery(_) => is_plain = false,
        _ => {}
    });
    is_plain
}

/// The expressions of a query of one row, if neither a table nor a subquery is in it.
pub(crate) fn single_row(bound: &Bound) -> Option<Vec<Expr>> {
    let query = bound.query();
    if !query.subqueries.is_empty() || !query.ctes.is_empty() {
        return None;
    }
    let Rel::Project { input, columns } = &query.root else { return None };
    if !matches!(**input, Rel::Single) {
        return None;
    }
    let exprs = outputs(bound, columns)?;
    exprs.iter().all(|expr| is_computed(expr, bound, &|_| false)).then_some(exprs)
}
