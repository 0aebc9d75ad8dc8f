//! Subqueries in expressions.

use catalog::TypeId;
use model::{Result, SqlState};
use parser::ast::{self, Pos};
use scalar::{Comparison, Expr, ExprKind, Place, Subquery, SubqueryKind};

use crate::binder::{Binder, error, unsupported};
use crate::query::Bound;
use crate::scope::Scope;
use crate::tree::{Rel, Subplan};

impl Binder<'_> {
    /// Adds a subquery to the statement's; its number.
    pub(crate) fn add_subquery(&mut self, mut subplan: Subplan) -> u32 {
        self.outer.subqueries.push(self.outer.of_rel(&mut subplan.rel));
        self.subqueries.push(subplan);
        self.subqueries.len() as u32 - 1
    }

    /// Expressions of definitions have no subqueries.
    fn check_subquery(scope: &Scope<'_>, at: Pos) -> Result<()> {
        match scope.clause.get().definition() {
            None => Ok(()),
            Some(clause) => Err(error(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot use subquery in {clause}"), at)),
        }
    }

    fn subquery(&mut self, scope: &Scope<'_>, query: &ast::Query, at: Pos) -> Result<(u32, Vec<(TypeId, i32)>)> {
        Self::check_subquery(scope, at)?;
        let Bound { rel, outputs } = self.query(query, Some(scope), true)?;
        let types = outputs.iter().map(|one| (one.output.ty, one.output.typmod)).collect();
        let columns = outputs.iter().map(|one| one.output.column).collect();
        Ok((self.add_subquery(Subplan { rel, columns }), types))
    }

    fn one_column(&mut self, scope: &Scope<'_>, query: &ast::Query, at: Pos) -> Result<(u32, TypeId, i32)> {
        let (number, types) = self.subquery(scope, query, at)?;
        match types.as_slice() {
            [(ty, typmod)] => Ok((number, *ty, *typmod)),
            _ => Err(error(SqlState::SYNTAX_ERROR, "subquery must return only one column", at)),
        }
    }

    pub(crate) fn scalar_subquery(&mut self, scope: &Scope<'_>, query: &ast::Query, at: Pos) -> Result<Expr> {
        let (number, ty, typmod) = self.one_column(scope, query, at)?;
        let subquery = Subquery { query: number, kind: SubqueryKind::Scalar };
        Ok(Expr { kind: ExprKind::Subquery(Box::new(subquery)), ty, typmod, at: Place(at.0) })
    }

    pub(crate) fn exists(&mut self, scope: &Scope<'_>, query: &ast::Query, at: Pos) -> Result<Expr> {
        let (number, _) = self.subquery(scope, query, at)?;
        let subquery = Subquery { query: number, kind: SubqueryKind::Exists };
        Ok(Expr::new(ExprKind::Subquery(Box::new(subquery)), TypeId::BOOL, Place(at.0)))
    }

    pub(crate) fn array_query(&mut self, scope: &Scope<'_>, query: &ast::Query, at: Pos) -> Result<Expr> {
        let (number, ty, _) = self.one_column(scope, query, at)?;
        let array = if self.is_array(ty) { Some(ty) } else { self.catalog.array_of(ty) };
        let array = array.ok_or_else(|| {
            let text = format!("could not find array type for data type {}", self.type_name(ty));
            error(SqlState::UNDEFINED_OBJECT, text, at)
        })?;
        let subquery = Subquery { query: number, kind: SubqueryKind::Array };
        Ok(Expr::new(ExprKind::Subquery(Box::new(subquery)), array, Place(at.0)))
    }

    pub(crate) fn in_query(&mut self, scope: &Scope<'_>, query: &ast::InQuery, at: Pos) -> Result<Expr> {
        Self::check_subquery(scope, at)?;
        let left = self.expr(scope, &query.expr)?;
        let any = self.quantified_subquery(scope, "=", false, left, &query.query, at)?;
        if !query.not {
            return Ok(any);
        }
        Ok(Expr::new(ExprKind::Not(Box::new(any)), TypeId::BOOL, Place(at.0)))
    }

    /// A comparison of a row with the only row of a subquery: the subquery makes it.
    pub(crate) fn compared_with_query(
        &mut self,
        scope: &Scope<'_>,
        symbol: &str,
        left: &ast::Expr,
        query: &ast::Query,
        at: Pos,
    ) -> Result<Expr> {
        Self::check_subquery(scope, at)?;
        let ExprKind::Row(left, _) = self.expr(scope, left)?.kind else {
            return Err(model::Error::bug("a row that is none"));
        };
        let Bound { rel, outputs } = self.query(query, Some(scope), true)?;
        check_count(outputs.len(), left.len(), at)?;
        let values = outputs.into_iter().map(|one| match one.untyped {
            Some(literal) => literal,
            None => self.column_expr(one.output.column, at),
        });
        let values = values.collect();
        let compared = self.row_operator(symbol, left, values, at)?;
        let column = self.column("?column?", compared.ty, compared.typmod);
        let rel = Rel::Project { input: Box::new(rel), columns: vec![(column, compared)] };
        let subquery =
            Subquery { query: self.add_subquery(Subplan { rel, columns: vec![column] }), kind: SubqueryKind::Scalar };
        Ok(Expr::new(ExprKind::Subquery(Box::new(subquery)), TypeId::BOOL, Place(at.0)))
    }

    pub(crate) fn quantified_query(
        &mut self,
        scope: &Scope<'_>,
        quantified: &ast::QuantifiedQuery,
        at: Pos,
    ) -> Result<Expr> {
        self.check_operator_schema(&quantified.op, at)?;
        Self::check_subquery(scope, at)?;
        let left = self.expr(scope, &quantified.left)?;
        self.quantified_subquery(scope, &quantified.op.symbol, quantified.all, left, &quantified.query, at)
    }

    fn quantified_subquery(
        &mut self,
        scope: &Scope<'_>,
        symbol: &str,
        all: bool,
        left: Expr,
        query: &ast::Query,
        at: Pos,
    ) -> Result<Expr> {
        let left = match left.kind {
            ExprKind::Row(columns, _) => columns,
            kind => vec![Expr { kind, ..left }],
        };
        let bound = self.query(query, Some(scope), true)?;
        check_count(bound.outputs.len(), left.len(), at)?;
        let order = match symbol {
            "<" => Some(Comparison::Less),
            "<=" => Some(Comparison::LessEqual),
            ">" => Some(Comparison::Greater),
            ">=" => Some(Comparison::GreaterEqual),
            _ => None,
        };
        let order = order.filter(|_| left.len() > 1);
        if order.is_some() {
            return Err(unsupported("an ordered comparison of rows with a subquery", at));
        }
        let (mut calls, mut values, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for (value, column) in left.into_iter().zip(&bound.outputs) {
            let (call, _) = self.operator_call(symbol, value.ty, column.output.ty, at)?;
            if call.result != TypeId::BOOL {
                let text = format!(
                    "row comparison operator must yield type boolean, not type {}",
                    self.type_name(call.result)
                );
                return Err(error(SqlState::DATATYPE_MISMATCH, text, at));
            }
            values.push(self.argument(value, call.arguments[0])?);
            types.push(call.arguments[1]);
            calls.push(call);
        }
        let subplan = self.converted_columns(bound, &types, "IN")?;
        let number = self.add_subquery(subplan);
        let any_column = symbol == "<>";
        let kind = SubqueryKind::Quantified { all, left: values, calls, any_column, order };
        let subquery = Subquery { query: number, kind };
        Ok(Expr::new(ExprKind::Subquery(Box::new(subquery)), TypeId::BOOL, Place(at.0)))
    }
}

/// Checks that a subquery has as many columns as the row that it is compared with.
fn check_count(columns: usize, row: usize, at: Pos) -> Result<()> {
    if columns == row {
        return Ok(());
    }
    let few = if columns < row { "few" } else { "many" };
    Err(error(SqlState::SYNTAX_ERROR, format!("subquery has too {few} columns"), at))
}
