//! Changes of tables: what INSERT, UPDATE, DELETE and MERGE have in common.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{self, ExprKind as Ast, Ident, Pos};
use scalar::{Expr, Place};

use crate::binder::{Binder, error};
use crate::query::{BoundOutput, Numbered, Target};
use crate::scope::{Clause, Scope, Source, SourceKind};
use crate::tree::{Change, Generated, Table, TableColumn};

/// A bound change and its result.
pub(crate) struct BoundChange {
    pub(crate) change: Change,
    pub(crate) outputs: Vec<BoundOutput>,
}

impl Binder<'_> {
    /// The table that a statement changes as an item of its scope, with these columns.
    pub(crate) fn target_source(&self, target: &ast::TargetTable, table: &Arc<Table>, columns: &[u32]) -> Source {
        let mut source = self.table_source(table, columns, target.name.at);
        if let Some(alias) = &target.alias {
            source.name = alias.clone();
            source.has_alias = true;
        }
        Source { kind: SourceKind::Target, lateral_only: true, ..source }
    }

    /// WHERE of a change; `CURRENT OF` is the name of a cursor instead.
    pub(crate) fn change_filter(
        &mut self,
        scope: &Scope<'_>,
        filter: Option<&ast::Expr>,
    ) -> Result<(Option<Expr>, Option<Box<str>>)> {
        match filter {
            None => Ok((None, None)),
            Some(ast::Expr { kind: Ast::CurrentOf(cursor), .. }) => Ok((None, Some(cursor.as_str().into()))),
            Some(filter) => {
                let condition = self.in_clause(scope, Clause::Where, |binder| {
                    let expr = binder.expr(scope, filter)?;
                    binder.condition(expr, "WHERE")
                })?;
                Ok((Some(condition), None))
            }
        }
    }

    /// RETURNING, over the columns of the scope.
    pub(crate) fn returning(&mut self, scope: &Scope<'_>, list: &[ast::Target]) -> Result<Numbered> {
        let Some(first) = list.first() else { return Ok((Vec::new(), Vec::new())) };
        let targets = self.in_clause(scope, Clause::Returning, |binder| binder.targets(scope, list))?;
        if targets.is_empty() {
            let text = "RETURNING must have at least one column";
            return Err(error(SqlState::SYNTAX_ERROR, text, first.expr.at));
        }
        let mut known = Vec::with_capacity(targets.len());
        for target in targets {
            known.push(Target { expr: self.known(target.expr)?, ..target });
        }
        self.numbered(known, true)
    }

    /// The default of a column, as a value of its type.
    pub(crate) fn default_value(&mut self, column: &TableColumn) -> Result<Expr> {
        match &column.default {
            None => Ok(Expr { typmod: column.typmod, ..Expr::null(column.ty, Place(0)) }),
            Some(text) => {
                let scope = Scope::new(None);
                scope.clause.set(Clause::Default);
                self.stored_value(&scope, column, text)
            }
        }
    }

    /// Values of the generated columns of a row with these columns.
    pub(crate) fn generated(&mut self, table: &Arc<Table>, row: &[u32]) -> Result<Vec<Generated>> {
        let mut values = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            if let Some(text) = &column.generated {
                let scope = self.row_scope(table, row);
                values.push(Generated { column: at, value: self.stored_value(&scope, column, text)? });
            }
        }
        Ok(values)
    }

    /// A scope with the columns of a table's row.
    pub(crate) fn row_scope(&self, table: &Arc<Table>, row: &[u32]) -> Scope<'static> {
        let scope = Scope::new(None);
        scope.tables.borrow_mut().push(Source { row: None, ..self.table_source(table, row, Pos(0)) });
        scope.own.borrow_mut().extend(row);
        scope.clause.set(Clause::ValuesSingle);
        scope
    }

    fn stored_value(&mut self, scope: &Scope<'_>, column: &TableColumn, text: &str) -> Result<Expr> {
        let bound = self.stored_expr(scope, text)?;
        let value = self.assigned(bound, column).map_err(Error::without_position)?;
        Ok(placeless(value))
    }

    /// An expression of the catalog. Its places are not places in the statement.
    pub(crate) fn stored_expr(&mut self, scope: &Scope<'_>, text: &str) -> Result<Expr> {
        let bound = parser::parse_expr(text).and_then(|parsed| self.expr(scope, &parsed));
        Ok(placeless(bound.map_err(Error::without_position)?))
    }

    /// The number of a column of the table that a name in a statement means.
    pub(crate) fn target_column(table: &Table, name: &Ident, at: Pos) -> Result<usize> {
        table.columns.iter().position(|column| *column.name == *name.as_str()).ok_or_else(|| {
            let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            error(SqlState::UNDEFINED_COLUMN, text, at)
        })
    }
}

/// The expression without its places.
pub(crate) fn placeless(mut expr: Expr) -> Expr {
    expr.visit_mut(&mut |part| part.at = Place(0));
    expr
}
