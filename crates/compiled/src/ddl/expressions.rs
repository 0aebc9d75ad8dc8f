//! CHECK and DEFAULT expressions. A table description stores them as SQL in canonical form: names folded and
//! unqualified, types by PostgreSQL's names. A stored expression has been bound once, so statements can bind it
//! again.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use bumpalo::Bump;
use model::{Datum, Error, Result, RowSchema, SequenceRef, SqlState, TableName, Type};
use rows::row::RowLayout;
use rows::{Records, RowTable};
use sqlparser::ast::{self, VisitMut, VisitorMut};

use super::names::{display_name, quoted};
use super::{Catalog, types};
use crate::dialect::fold_ident;
use crate::exec::{ExecContext, ReadSource, SubPlans};
use crate::expr::{Expr, Frame};
use crate::statement::Session;
use crate::stored_expressions::{Binder, Clause, Refusal};
use crate::types::{assignable, base_type};

/// An empty table with this description, for binding.
pub(super) fn empty_table(schema: &RowSchema) -> Result<Arc<RowTable>> {
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::of(schema)?),
        records: Arc::new(Records::new()),
        primary: None,
        secondary: Vec::new(),
        schema: Arc::new(schema.clone()),
    }))
}

fn refused(refusal: Refusal, expr: &ast::Expr, clause: Clause) -> Error {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Unsupported => Error::unsupported(format!("{} {expr} is not supported on rows tables", clause.name()))
            .with_hint("use only operators and functions that rows tables support"),
    }
}

/// Binds a CHECK condition.
///
/// # Errors
/// 42804 if it is not boolean; errors of the binder.
pub(super) fn condition(expr: &ast::Expr, table: &RowTable) -> Result<Expr> {
    let bound = Binder::new(Clause::Check, Some(table)).check(expr);
    bound.map_err(|refusal| refused(refusal, expr, Clause::Check))
}

/// Binds the USING expression of a type change.
///
/// # Errors
/// 42804 if there is no assignment cast to the column's type.
pub(super) fn transformed(expr: &ast::Expr, table: &RowTable, column: &str, ty: Type) -> Result<Expr> {
    let refused = |refusal| refused(refusal, expr, Clause::Using);
    let mut binder = Binder::new(Clause::Using, Some(table));
    let typed = binder.expr(expr).map_err(refused)?;
    if typed.ty.is_some_and(|from| !assignable(from, ty)) {
        let text = format!("result of USING clause for column \"{column}\" cannot be cast automatically to type {ty}");
        let error = Error::new(SqlState::DATATYPE_MISMATCH, text);
        return Err(error.with_hint("You might need to add an explicit cast."));
    }
    binder.assigned(typed, ty, column).map_err(refused)
}

/// A bound DEFAULT.
#[derive(Clone, Debug)]
pub(super) enum Default {
    /// Constant within a statement.
    Value(Expr),
    /// `nextval` of a sequence.
    Next(SequenceRef),
}

/// Binds a DEFAULT.
///
/// # Errors
/// 0A000 for column references and subqueries; 42804 for a wrong type; errors of the binder.
pub(super) fn default(expr: &ast::Expr, column: &str, ty: Type, catalog: &dyn Catalog) -> Result<Default> {
    if let Some(name) = sequence_of(expr, catalog) {
        let sequence = catalog.sequence(&name).ok_or_else(|| {
            let text = format!("relation \"{}\" does not exist", display_name(&name, catalog));
            Error::new(SqlState::UNDEFINED_TABLE, text)
        })?;
        check_assigned(Type::Int8, column, ty)?;
        return Ok(Default::Next(sequence));
    }
    if names_column(expr) {
        return Err(Error::unsupported("cannot use column reference in DEFAULT expression"));
    }
    let refused = |refusal| refused(refusal, expr, Clause::Default);
    let mut binder = Binder::new(Clause::Default, None);
    let typed = binder.expr(expr).map_err(refused)?;
    if let Some(from) = typed.ty {
        check_assigned(from, column, ty)?;
    }
    // The type modifier is checked when a row gets the value.
    Ok(Default::Value(binder.assigned(typed, base_type(ty), column).map_err(refused)?))
}

fn check_assigned(from: Type, column: &str, ty: Type) -> Result<()> {
    if assignable(from, ty) {
        return Ok(());
    }
    let text = format!(
        "column \"{column}\" is of type {} but default expression is of type {}",
        ty.sql_name(),
        from.sql_name()
    );
    let error = Error::new(SqlState::DATATYPE_MISMATCH, text);
    Err(error.with_hint("You will need to rewrite or cast the expression."))
}

/// Evaluates an expression without a row and converts it to type `ty`.
///
/// # Errors
/// Those of evaluation, class 22.
pub(super) fn value<T>(expr: &Expr, ty: Type, session: Session<'_>, then: impl FnOnce(Datum<'_>) -> T) -> Result<T> {
    let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
    let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
    let frame = frame(&[], &ctx);
    Ok(then(rows::coerce(ty, expr.eval(&frame)?)?))
}

/// A frame for expressions over one row or none.
pub(super) fn frame<'a>(row: &'a [Cell<Option<&'a [u8]>>], ctx: &'a ExecContext<'a>) -> Frame<'a> {
    Frame { rows: row, ctx, outer_values: Vec::new(), computed: Vec::new(), element: Datum::Null }
}

/// Parses an expression stored in a table description.
///
/// # Errors
/// XX001, because [`canonical`] wrote it.
pub(super) fn parsed(sql: &str) -> Result<ast::Expr> {
    let parsed = crate::dialect::parser_of(sql).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::corrupt(format!("expression {sql:?} of a table: {error}")))
}

/// Canonical form of an expression over columns of `table`.
pub(super) fn canonical(expr: &ast::Expr, table: &str) -> ast::Expr {
    let mut expr = expr.clone();
    rewrite(&mut expr, &mut |expr| match expr {
        ast::Expr::Identifier(name) => *name = ident(&fold_ident(name)),
        ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [first, column] if fold_ident(first) == table => *expr = ast::Expr::Identifier(ident(&fold_ident(column))),
            _ => {}
        },
        ast::Expr::Function(call) => {
            for part in &mut call.name.0 {
                if let ast::ObjectNamePart::Identifier(name) = part {
                    *name = ident(&fold_ident(name));
                }
            }
        }
        ast::Expr::Cast { data_type, .. } => {
            if let Ok(declared) = types::declared(data_type, &mut Vec::new()) {
                *data_type = types::written(declared.ty);
            }
        }
        _ => {}
    });
    expr
}

/// Renames a column in a stored expression.
///
/// # Errors
/// As [`parsed`].
pub(super) fn renamed(sql: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = parsed(sql)?;
    rewrite(&mut expr, &mut |expr| match expr {
        ast::Expr::Identifier(name) if fold_ident(name) == old => *name = ident(new),
        _ => {}
    });
    Ok(expr.to_string())
}

/// Positions of the columns in a stored condition, each once.
///
/// # Errors
/// As [`parsed`].
pub(super) fn columns(sql: &str, schema: &RowSchema) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    rewrite(&mut parsed(sql)?, &mut |expr| {
        if let ast::Expr::Identifier(name) = expr
            && let Some(at) = schema.column(&fold_ident(name))
            && !found.contains(&at)
        {
            found.push(at);
        }
    });
    Ok(found)
}

/// Canonical DEFAULT of a serial column: `nextval('sequence'::regclass)`.
pub(super) fn next_value(name: &TableName, catalog: &dyn Catalog) -> String {
    format!("nextval('{}'::regclass)", display_name(name, catalog).replace('\'', "''"))
}

/// The sequence, if the expression is just a `nextval` call.
pub(super) fn sequence_of(expr: &ast::Expr, catalog: &dyn Catalog) -> Option<TableName> {
    match expr {
        ast::Expr::Nested(inner) => sequence_of(inner, catalog),
        ast::Expr::Function(call) => {
            let [.., ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of))] = list.args.as_slice() else { return None };
            if fold_ident(name) == "nextval" { named_by(of, catalog) } else { None }
        }
        _ => None,
    }
}

/// The sequence named by a string literal.
fn named_by(expr: &ast::Expr, catalog: &dyn Catalog) -> Option<TableName> {
    match expr {
        ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) => named_by(expr, catalog),
        ast::Expr::Value(value) => {
            let ast::Value::SingleQuotedString(text) = &value.value else { return None };
            let name = crate::dialect::parser_of(text).and_then(|mut parser| parser.parse_object_name(false)).ok()?;
            super::names::relation(&name, catalog).ok()
        }
        _ => None,
    }
}

/// An identifier, quoted where necessary.
fn ident(name: &str) -> ast::Ident {
    if quoted(name).starts_with('"') { ast::Ident::with_quote('"', name) } else { ast::Ident::new(name) }
}

/// Whether there is a column reference outside subqueries.
fn names_column(expr: &ast::Expr) -> bool {
    let mut found = false;
    rewrite(&mut expr.clone(), &mut |expr| {
        found |= matches!(expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_));
    });
    found
}

/// Calls `each` for all subexpressions, innermost first. Subqueries are skipped: such expressions cannot contain
/// them.
fn rewrite(expr: &mut ast::Expr, each: &mut dyn FnMut(&mut ast::Expr)) {
    struct Each<'e> {
        each: &'e mut dyn FnMut(&mut ast::Expr),
        depth: usize,
    }
    impl VisitorMut for Each<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if self.depth == 0 {
                (self.each)(expr);
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = expr.visit(&mut Each { each, depth: 0 });
}
