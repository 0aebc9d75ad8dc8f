//! UNION, INTERSECT, EXCEPT.

use catalog::{CastContext, TypeId};
use model::{Result, SqlState};
use parser::ast::{self, ExprKind as Ast, QueryBody, SetOperator};
use scalar::Expr;

use crate::binder::{Binder, at_place, error};
use crate::query::{Bound, BoundOutput, Target, limited};
use crate::scope::{Clause, Scope};
use crate::sort::start_of;
use crate::tree::{Output, Rel, SortKey, Subplan};

impl Binder<'_> {
    pub(crate) fn set_operation(
        &mut self,
        scope: &Scope<'_>,
        operation: &ast::SetOperation,
        query: &ast::Query,
    ) -> Result<Bound> {
        let bound = self.set_tree(scope, operation)?;
        let mut targets: Vec<Target> = bound
            .outputs
            .iter()
            .map(|one| Target {
                name: ast::Ident::new(&one.output.name),
                expr: self.column_expr(one.output.column, query.at),
                is_hidden: false,
            })
            .collect();
        for by in &query.order_by {
            self.check_set_order(scope, &by.expr, &targets)?;
        }
        let sort = self.sort_items(scope, &query.order_by, &mut targets)?;
        let limit = self.limit(scope, query)?;
        let keys: Vec<SortKey> = sort
            .iter()
            .map(|item| SortKey {
                expr: targets[item.target].expr.clone(),
                descending: item.descending,
                nulls_first: item.nulls_first,
            })
            .collect();
        let mut rel = bound.rel;
        if !keys.is_empty() {
            rel = Rel::Sort { input: Box::new(rel), keys: keys.clone() };
        }
        Ok(Bound { rel: limited(rel, limit, keys), outputs: bound.outputs })
    }

    /// ORDER BY of a set operation takes names and positions of result columns only.
    fn check_set_order(&self, scope: &Scope<'_>, expr: &ast::Expr, targets: &[Target]) -> Result<()> {
        let found = self.named_target(scope, expr, targets, Clause::OrderBy)?;
        if found.is_some() {
            return Ok(());
        }
        if let Ast::Column(name) = &expr.kind {
            return Err(error(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"), expr.at));
        }
        let detail = "Only result column names can be used, not expressions or functions.";
        let hint = "Add the expression/function to every SELECT, or move the UNION into a FROM clause.";
        let text = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
        Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, start_of(expr)).with_detail(detail).with_hint(hint))
    }

    fn set_tree(&mut self, scope: &Scope<'_>, operation: &ast::SetOperation) -> Result<Bound> {
        let left = self.set_operand(scope, &operation.left)?;
        let right = self.set_operand(scope, &operation.right)?;
        let name = match operation.op {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
        };
        if left.outputs.len() != right.outputs.len() {
            let text = format!("each {name} query must have the same number of columns");
            let at = right.outputs.first().map_or(operation.right.at, |one| ast::Pos(one.at.0));
            return Err(error(SqlState::SYNTAX_ERROR, text, at));
        }
        let mut types = Vec::with_capacity(left.outputs.len());
        let mut outputs = Vec::with_capacity(left.outputs.len());
        for (left, right) in left.outputs.iter().zip(&right.outputs) {
            let (one, other) = (&left.output, &right.output);
            let ty = self.catalog.common_type(&[one.ty, other.ty], name).map_err(|error| at_place(error, right.at))?;
            let same = one.ty == other.ty && one.typmod == other.typmod;
            let typmod = if same { one.typmod } else { -1 };
            if !(operation.all && operation.op == SetOperator::Union) {
                self.check_equality(ty, scalar::Place(0))?;
            }
            let column = self.column(&one.name, ty, typmod);
            let output = Output { name: one.name.clone(), column, ty, typmod, origin: None };
            outputs.push(BoundOutput { output, untyped: None, at: left.at });
            types.push(ty);
        }
        let left = Box::new(self.converted_columns(left, &types, name)?);
        let right = Box::new(self.converted_columns(right, &types, name)?);
        let columns = outputs.iter().map(|one| one.output.column).collect();
        let rel = Rel::SetOperation { op: operation.op, all: operation.all, left, right, columns };
        Ok(Bound { rel, outputs })
    }

    fn set_operand(&mut self, scope: &Scope<'_>, query: &ast::Query) -> Result<Bound> {
        let is_plain = query.with.is_none()
            && query.order_by.is_empty()
            && query.limit.is_none()
            && query.offset.is_none()
            && query.locking.is_empty();
        match &query.body {
            QueryBody::SetOperation(operation) if is_plain => self.set_tree(scope, operation),
            _ => self.query(query, Some(scope), false),
        }
    }

    /// The columns of a query, as values of these types.
    pub(crate) fn converted_columns(&mut self, bound: Bound, types: &[TypeId], name: &str) -> Result<Subplan> {
        let Bound { rel, outputs } = bound;
        let same = outputs.iter().zip(types).all(|(one, ty)| one.output.ty == *ty);
        if same {
            return Ok(Subplan { rel, columns: outputs.iter().map(|one| one.output.column).collect() });
        }
        let mut columns = Vec::with_capacity(outputs.len());
        for (one, ty) in outputs.into_iter().zip(types) {
            let value: Expr = match one.untyped {
                Some(literal) => literal,
                None => self.column_expr(one.output.column, ast::Pos(0)),
            };
            let at = value.at;
            let value = match self.coerced(value, *ty, -1, CastContext::Implicit)? {
                Some(value) => value,
                None => {
                    let (from, to) = (self.type_name(one.output.ty), self.type_name(*ty));
                    let text = format!("{name} could not convert type {from} to {to}");
                    return Err(error(SqlState::CANNOT_COERCE, text, ast::Pos(at.0)));
                }
            };
            let typmod = value.typmod;
            columns.push((self.column(&one.output.name, *ty, typmod), value));
        }
        let numbers = columns.iter().map(|(column, _)| *column).collect();
        Ok(Subplan { rel: Rel::Project { input: Box::new(rel), columns }, columns: numbers })
    }
}
