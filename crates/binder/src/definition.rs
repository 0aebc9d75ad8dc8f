//! Expressions of definitions: CHECK, DEFAULT, USING of ALTER COLUMN … TYPE, generated columns, indexes, and keys and bounds of
//! partitions.

use std::sync::Arc;

use catalog::{CastContext, TypeId, TypeKind, Volatility, builtin};
use model::{Error, Result, SqlState};
use parser::ast::{self, Pos};
use scalar::{Expr, ExprKind};

use crate::binder::{Binder, Schema, at_place, placed_in};
use crate::change::placeless;
use crate::coerce::start_of;
use crate::scope::{Clause, Scope};
use crate::tree::{Expression, Table, TableColumn};

/// The clause of a definition, and the column that gets the value of its expression.
#[derive(Clone, Copy, Debug)]
pub enum DefinitionClause<'c> {
    /// The condition of a CHECK constraint.
    Check,
    /// The default of a column.
    Default(&'c TableColumn),
    /// USING of ALTER COLUMN … TYPE; the column has its next type.
    Using(&'c TableColumn),
    /// The expression of a generated column.
    Generated(&'c TableColumn),
    /// A key of an index.
    IndexKey,
    /// The predicate of a partial index.
    IndexPredicate,
    /// An expression of a partition key, of any type.
    PartitionKey,
    /// A value of the bound of a partition; the column has the name and type of the key.
    PartitionBound(&'c TableColumn),
}

/// Binds an expression of a definition. A condition becomes boolean, a value gets the type of its column by an
/// assignment cast.
///
/// - `sql`: the text in which the expression was written; empty if it is not the client's: then nothing has a place.
/// - `table`: the table whose row it reads; `None` for a default.
///
/// # Errors
/// Those of PostgreSQL's parse analysis: 0A000 for subqueries, set-returning functions and columns in defaults, 42803
/// for aggregates, 42P20 for window functions, 42P02 for parameters, 42804 for a wrong type, 42P17 for functions that are not
/// immutable in generated columns and indexes, and others.
pub fn bind_expression(
    schema: &dyn Schema,
    sql: &str,
    expr: &ast::Expr,
    table: Option<&Arc<Table>>,
    clause: DefinitionClause<'_>,
) -> Result<Expression> {
    match Binder::new(schema, &[]).definition(expr, table, clause) {
        Ok(bound) if sql.is_empty() => Ok(Expression { expr: placeless(bound.expr), ..bound }),
        Ok(bound) => Ok(bound),
        Err(error) if sql.is_empty() => Err(error.without_position()),
        Err(error) => Err(placed_in(error, sql)),
    }
}

impl Binder<'_> {
    fn definition(
        &mut self,
        expr: &ast::Expr,
        table: Option<&Arc<Table>>,
        clause: DefinitionClause<'_>,
    ) -> Result<Expression> {
        let scope = Scope::new(None);
        let mut row = Vec::new();
        if let Some(table) = table {
            row = self.table_columns(&scope, table);
            scope.tables.borrow_mut().push(self.table_source(table, &row, Pos(0)));
        }
        scope.clause.set(match clause {
            DefinitionClause::Check => Clause::Check,
            DefinitionClause::Default(_) => Clause::Default,
            DefinitionClause::Using(_) => Clause::Using,
            DefinitionClause::Generated(_) => Clause::Generated,
            DefinitionClause::IndexKey => Clause::IndexExpression,
            DefinitionClause::IndexPredicate => Clause::IndexPredicate,
            DefinitionClause::PartitionKey => Clause::PartitionKey,
            DefinitionClause::PartitionBound(_) => Clause::PartitionBound,
        });
        let bound = self.expr(&scope, expr)?;
        let expr = match clause {
            DefinitionClause::Check => self.condition(bound, "CHECK")?,
            DefinitionClause::Default(column) => self.assigned_as("default expression", bound, column)?,
            DefinitionClause::Using(column) => self.transformed(bound, column)?,
            DefinitionClause::Generated(column) => self.assigned_as("default expression", bound, column)?,
            DefinitionClause::IndexKey => self.known(bound)?,
            DefinitionClause::IndexPredicate => self.condition(bound, "WHERE")?,
            DefinitionClause::PartitionKey => self.known(bound)?,
            DefinitionClause::PartitionBound(column) => self.bound_value(bound, column)?,
        };
        let must_last = match clause {
            DefinitionClause::Generated(_) => Some("generation expression is not immutable"),
            DefinitionClause::IndexKey => Some("functions in index expression must be marked IMMUTABLE"),
            DefinitionClause::IndexPredicate => Some("functions in index predicate must be marked IMMUTABLE"),
            DefinitionClause::PartitionKey => Some("functions in partition key expression must be marked IMMUTABLE"),
            _ => None,
        };
        if let Some(text) = must_last.filter(|_| !is_immutable(&expr)) {
            return Err(Error::new(SqlState("42P17"), text));
        }
        self.finished()?;
        Ok(Expression { expr, row, columns: std::mem::take(&mut self.columns) })
    }

    /// A value of a partition's bound as one of the key's type.
    fn bound_value(&mut self, value: Expr, column: &TableColumn) -> Result<Expr> {
        let at = start_of(&value);
        match self.coerced(value, column.ty, column.typmod, CastContext::Assignment)? {
            Some(cast) => self.with_typmod(cast, column.typmod, false),
            None => {
                let (name, to) = (&column.name, self.type_name(column.ty));
                let text = format!("specified value cannot be cast to type {to} for column \"{name}\"");
                Err(at_place(Error::new(SqlState::DATATYPE_MISMATCH, text), at))
            }
        }
    }

    /// The value of USING as one of the column's next type.
    fn transformed(&mut self, value: Expr, column: &TableColumn) -> Result<Expr> {
        let at = start_of(&value);
        match self.coerced(value, column.ty, column.typmod, CastContext::Assignment)? {
            Some(cast) => self.with_typmod(cast, column.typmod, false),
            None => {
                let (name, to) = (&column.name, self.type_name(column.ty));
                let text =
                    format!("result of USING clause for column \"{name}\" cannot be cast automatically to type {to}");
                let hint = "You might need to add an explicit cast.";
                Err(at_place(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint), at))
            }
        }
    }
}

/// `text || any` and `any || text`.
const APPENDED: [u32; 2] = [2003, 2004];

/// Whether an expression has the same value in all sessions and at all times.
fn is_immutable(expr: &Expr) -> bool {
    let function = |number| builtin().function_row(number).is_some_and(|row| row.volatility == Volatility::Immutable);
    let mut all = true;
    expr.visit(&mut |part| {
        all &= match &part.kind {
            // PostgreSQL inlines these: a cast to text, and an immutable function.
            ExprKind::Call(call, _) if APPENDED.contains(&call.function) => {
                call.arguments.iter().all(|ty| is_output_immutable(*ty))
            }
            ExprKind::Call(call, _)
            | ExprKind::Distinct(call, _)
            | ExprKind::NullIf(call, _)
            | ExprKind::Quantified { call, .. }
            | ExprKind::InList { call, .. } => function(call.function),
            ExprKind::RowCompare { calls, .. } => calls.iter().all(|call| function(call.function)),
            ExprKind::ViaText(of) => is_input_immutable(part.ty) && is_output_immutable(of.ty),
            ExprKind::SqlValue(_) => false,
            _ => true,
        }
    });
    all
}

/// Whether the input function of a type is immutable. Those of times are not.
fn is_input_immutable(ty: TypeId) -> bool {
    let is_time = matches!(
        ty,
        TypeId::DATE | TypeId::TIME | TypeId::TIMETZ | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ | TypeId::INTERVAL
    );
    !is_time && !depends_on_session(ty)
}

/// Whether the output function of a type is immutable.
fn is_output_immutable(ty: TypeId) -> bool {
    let is_time = matches!(ty, TypeId::DATE | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ);
    !is_time && !depends_on_session(ty)
}

/// `money` and `aclitem`, and the types that name objects, such as `regclass`.
const OF_SESSION: [u32; 13] = [790, 1033, 24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191];

/// Whether the text of a type's values depends on the settings or objects of the session, or on the types of its parts.
fn depends_on_session(ty: TypeId) -> bool {
    let has_parts = builtin().type_row(ty).is_none_or(|row| {
        let is_row = row.kind == TypeKind::Pseudo && row.name == "record";
        is_row || !matches!(row.kind, TypeKind::Base | TypeKind::Pseudo)
    });
    has_parts || OF_SESSION.contains(&ty.0) || builtin().type_name(ty).ends_with("[]")
}
