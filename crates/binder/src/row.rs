//! Rows, and operators between them.

use catalog::TypeId;
use model::{Result, SqlState};
use parser::ast::{self, Pos};
use scalar::{Comparison, Expr, ExprKind, Place};

use crate::binder::{Binder, error};
use crate::scope::Scope;

impl Binder<'_> {
    /// `ROW(…)`
    pub(crate) fn row(&mut self, scope: &Scope<'_>, items: &[ast::Expr], at: Place) -> Result<Expr> {
        let mut columns = Vec::with_capacity(items.len());
        for item in items {
            if let ast::ExprKind::Wildcard(qualifier) = &item.kind {
                columns.extend(self.star(scope, qualifier, item.at)?.into_iter().map(|(_, expr)| expr));
            } else {
                columns.push(self.expr(scope, item)?);
            }
        }
        Ok(Expr::new(ExprKind::Row(columns, None), TypeId::RECORD, at))
    }

    /// An operator between two rows: `=` and `<>` hold for the columns, the others for the first columns that differ.
    pub(crate) fn row_operator(&mut self, symbol: &str, left: Vec<Expr>, right: Vec<Expr>, at: Pos) -> Result<Expr> {
        if left.len() != right.len() {
            return Err(error(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions", at));
        }
        if left.is_empty() {
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length", at));
        }
        let comparison = match symbol {
            "=" | "<>" => None,
            "<" => Some(Comparison::Less),
            "<=" => Some(Comparison::LessEqual),
            ">" => Some(Comparison::Greater),
            ">=" => Some(Comparison::GreaterEqual),
            _ => {
                let text = format!("could not determine interpretation of row comparison operator {symbol}");
                let hint = "Row comparison operators must be associated with btree operator families.";
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at).with_hint(hint));
            }
        };
        if left.len() == 1 {
            let (left, right) = (left.into_iter().next(), right.into_iter().next());
            let missing = || error(SqlState::SYNTAX_ERROR, "a row without columns", at);
            return self.compared(symbol, left.ok_or_else(missing)?, right.ok_or_else(missing)?, at);
        }
        let Some(comparison) = comparison else {
            let pairs = left.into_iter().zip(right);
            let tests: Vec<Expr> =
                pairs.map(|(left, right)| self.compared(symbol, left, right, at)).collect::<Result<_>>()?;
            let kind = if symbol == "=" { ExprKind::And(tests) } else { ExprKind::Or(tests) };
            return Ok(Expr::new(kind, TypeId::BOOL, Place(at.0)));
        };
        let strict = &symbol[..1];
        let (mut calls, mut lefts, mut rights) = (Vec::new(), Vec::new(), Vec::new());
        for (left, right) in left.into_iter().zip(right) {
            // Both sides of a pair have one type, so that they can also be tested for equality.
            let (pair, ty) = self.unified(vec![left, right], "row comparison")?;
            let (call, _) = self.operator_call(strict, ty, ty, at)?;
            for (side, (value, wanted)) in pair.into_iter().zip(call.arguments.iter().copied()).enumerate() {
                let value = self.argument(value, wanted)?;
                if side == 0 { lefts.push(value) } else { rights.push(value) }
            }
            calls.push(call);
        }
        let kind = ExprKind::RowCompare { comparison, calls, left: lefts, right: rights };
        Ok(Expr::new(kind, TypeId::BOOL, Place(at.0)))
    }
}
