//! Calls of aggregates, and GROUPING.

use catalog::{Function, TypeId};
use model::{Error, Result, SqlState};
use parser::ast::{self, FunctionCall, Pos};
use rustc_hash::FxHashSet;
use scalar::{Call, Expr, Place};

use crate::binder::{Binder, at_place, error, unsupported};
use crate::scope::{Clause, Scope};
use crate::tree::{AggregateCall, SortKey};

impl Binder<'_> {
    /// A call of an aggregate without OVER: it becomes a column of the groups of the query that it belongs to.
    pub(crate) fn aggregate(
        &mut self,
        scope: &Scope<'_>,
        function: &Function,
        call: Call,
        arguments: Vec<Expr>,
        written: &FunctionCall,
        order_by: Vec<SortKey>,
    ) -> Result<Expr> {
        let at = written.at;
        let filter = self.aggregate_filter(scope, written)?;
        if written.distinct {
            self.check_distinct(&arguments, &order_by, written)?;
        }
        let within_group = written.within_group;
        let aggregate = AggregateCall { call, arguments, distinct: written.distinct, order_by, within_group, filter };
        let owner = self.check_aggregate(scope, &aggregate, at)?;
        let result = aggregate.call.result;
        let mut aggregates = owner.aggregates.borrow_mut();
        let is_same = |other: &&(u32, AggregateCall)| other.1 == aggregate;
        let is_volatile = function.volatility == catalog::Volatility::Volatile;
        let known = aggregates.iter().find(is_same).filter(|_| !is_volatile).map(|(column, _)| *column);
        let column = match known {
            Some(column) => column,
            None => {
                let column = self.column(function.name, result, -1);
                aggregates.push((column, aggregate));
                column
            }
        };
        drop(aggregates);
        Ok(self.column_expr(column, at))
    }

    /// FILTER of an aggregate.
    pub(crate) fn aggregate_filter(&mut self, scope: &Scope<'_>, written: &FunctionCall) -> Result<Option<Expr>> {
        let Some(filter) = &written.filter else { return Ok(None) };
        let bound = self.in_clause(scope, Clause::Filter, |binder| {
            let expr = binder.expr(scope, filter)?;
            binder.condition(expr, "FILTER")
        })?;
        Ok(Some(bound))
    }

    /// With DISTINCT, values can be compared, and ORDER BY sorts by them alone.
    fn check_distinct(&self, arguments: &[Expr], order_by: &[SortKey], written: &FunctionCall) -> Result<()> {
        for argument in arguments {
            self.check_equality(argument.ty, argument.at)?;
        }
        match order_by.iter().find(|key| !arguments.contains(&key.expr)) {
            Some(key) if !written.within_group => {
                let text = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                Err(at_place(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text), key.expr.at))
            }
            _ => Ok(()),
        }
    }

    /// The query that an aggregate belongs to: the innermost one whose columns it reads, else the one it is in.
    fn check_aggregate<'s, 'p>(
        &self,
        scope: &'s Scope<'p>,
        aggregate: &AggregateCall,
        at: Pos,
    ) -> Result<&'s Scope<'p>> {
        let mut read = FxHashSet::default();
        let keys = aggregate.order_by.iter().map(|key| &key.expr);
        let exprs = aggregate.arguments.iter().chain(keys).chain(&aggregate.filter);
        exprs.for_each(|expr| self.outer.of_expr(expr, &mut read));
        let owner = scope.owner(&read).unwrap_or(scope);
        let nested = owner.aggregates.borrow().iter().any(|(column, _)| read.contains(column));
        if nested {
            return Err(error(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested", at));
        }
        if owner.windows.borrow().iter().any(|(column, _)| read.contains(column)) {
            let text = "aggregate function calls cannot contain window function calls";
            return Err(error(SqlState::GROUPING_ERROR, text, at));
        }
        let set = owner.sets.borrow().iter().position(|(column, ..)| read.contains(column));
        if let Some(set) = set {
            let at = owner.set_places.borrow().get(set).copied().unwrap_or(at);
            let text = "aggregate function calls cannot contain set-returning function calls";
            let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at).with_hint(hint));
        }
        self.check_aggregate_clause(scope, owner, at)?;
        Ok(owner)
    }

    /// Aggregates are allowed in the select list, HAVING, ORDER BY, and in windows.
    pub(crate) fn check_aggregate_clause(&self, scope: &Scope<'_>, owner: &Scope<'_>, at: Pos) -> Result<()> {
        let clause = owner.clause.get();
        let text = match clause {
            Clause::SelectList
            | Clause::Having
            | Clause::OrderBy
            | Clause::DistinctOn
            | Clause::WindowPartition
            | Clause::WindowOrder
            | Clause::WindowArgument => return Ok(()),
            Clause::AggregateArgument => "aggregate function calls cannot be nested".to_owned(),
            Clause::From if !std::ptr::eq(owner, scope) => {
                "aggregate functions are not allowed in FROM clause of their own query level".to_owned()
            }
            Clause::From => "aggregate functions are not allowed in functions in FROM".to_owned(),
            Clause::WindowFrame => "aggregate functions are not allowed in window frames".to_owned(),
            other => format!("aggregate functions are not allowed in {}", other.name()),
        };
        Err(error(SqlState::GROUPING_ERROR, text, at))
    }

    /// `GROUPING(…)`
    pub(crate) fn grouping_call(&mut self, scope: &Scope<'_>, arguments: &[ast::Expr], at: Pos) -> Result<Expr> {
        if arguments.len() > 31 {
            return Err(error(SqlState("54023"), "GROUPING must have fewer than 32 arguments", at));
        }
        let bound: Vec<Expr> = arguments.iter().map(|argument| self.expr(scope, argument)).collect::<Result<_>>()?;
        let mut read = FxHashSet::default();
        bound.iter().for_each(|expr| self.outer.of_expr(expr, &mut read));
        let owner = scope.owner(&read).unwrap_or(scope);
        if !std::ptr::eq(owner, scope) {
            return Err(unsupported("GROUPING of an outer query", at));
        }
        match owner.clause.get() {
            Clause::SelectList
            | Clause::Having
            | Clause::OrderBy
            | Clause::DistinctOn
            | Clause::WindowOrder
            | Clause::WindowPartition
            | Clause::WindowArgument => {}
            other => {
                let text = format!("grouping operations are not allowed in {}", other.name());
                return Err(error(SqlState::GROUPING_ERROR, text, at));
            }
        }
        let column = self.column("grouping", TypeId::INT4, -1);
        owner.grouping.borrow_mut().push((column, bound, at));
        Ok(Expr { at: Place(at.0), ..self.column_expr(column, at) })
    }
}
