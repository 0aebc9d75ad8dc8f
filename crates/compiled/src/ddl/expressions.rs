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
use crate::bind::{Bind, Binder, ExprScope, Refusal, Source, Subquery, Typed, fold_ident};
use crate::exec::{ExecContext, ReadSource, SubPlans};
use crate::expr::{Expr, Frame};
use crate::statement::Session;
use crate::types::{assignable, base_type};

/// Slot of the row that an expression reads.
const ROW: usize = 0;

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

/// The clause of an expression; decides which constructs it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExprKind {
    Check,
    Default,
    Using,
}

impl ExprKind {
    fn name(self) -> &'static str {
        match self {
            ExprKind::Check => "check constraint",
            ExprKind::Default => "DEFAULT expression",
            ExprKind::Using => "transform expression",
        }
    }
}

impl ExprScope for ExprKind {
    fn aggregate(&mut self, _: &mut Binder, _: &ast::Function) -> Bind<Typed> {
        let text = format!("aggregate functions are not allowed in {}s", self.name());
        Err(Error::new(SqlState::GROUPING_ERROR, text).into())
    }

    fn subquery(&mut self, _: &mut Binder, _: &ast::Query, _: Subquery) -> Bind<Typed> {
        Err(Error::unsupported(format!("cannot use subquery in {}", self.name())).into())
    }
}

/// Binds an expression over a row of `table`, or over no row.
fn bound(expr: &ast::Expr, table: Option<&Arc<RowTable>>, mut kind: ExprKind) -> Result<(Binder, Typed)> {
    let source = |table: &Arc<RowTable>| Source::stored(table.schema.name.table.clone(), ROW, Arc::clone(table));
    let mut binder = Binder { sources: table.map(source).into_iter().collect(), ..Binder::default() };
    let typed = binder.expr(expr, &mut kind).map_err(|refusal| refused(refusal, expr, kind))?;
    if binder.params.is_empty() {
        return Ok((binder, typed));
    }
    Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"))
}

fn refused(refusal: Refusal, expr: &ast::Expr, kind: ExprKind) -> Error {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Unsupported => Error::unsupported(format!("{} {expr} is not supported on rows tables", kind.name()))
            .with_hint("use only operators and functions that rows tables support"),
    }
}

/// Binds a CHECK condition.
///
/// # Errors
/// 42804 if it is not boolean; errors of the binder.
pub(super) fn condition(expr: &ast::Expr, table: &Arc<RowTable>) -> Result<Expr> {
    let (mut binder, typed) = bound(expr, Some(table), ExprKind::Check)?;
    let typed = binder.resolve_unknown(typed, Type::Bool).map_err(|refusal| refused(refusal, expr, ExprKind::Check))?;
    match typed.ty {
        Some(Type::Bool) => Ok(typed.expr),
        ty => {
            let ty = ty.map_or("unknown", Type::sql_name);
            let text = format!("argument of CHECK must be type boolean, not type {ty}");
            Err(Error::new(SqlState::DATATYPE_MISMATCH, text))
        }
    }
}

/// Binds the USING expression of a type change.
///
/// # Errors
/// 42804 if there is no assignment cast to the column's type.
pub(super) fn transformed(expr: &ast::Expr, table: &Arc<RowTable>, column: &str, ty: Type) -> Result<Expr> {
    let (mut binder, typed) = bound(expr, Some(table), ExprKind::Using)?;
    if typed.ty.is_some_and(|from| !assignable(from, ty)) {
        let text = format!("result of USING clause for column \"{column}\" cannot be cast automatically to type {ty}");
        let error = Error::new(SqlState::DATATYPE_MISMATCH, text);
        return Err(error.with_hint("You might need to add an explicit cast."));
    }
    binder.assigned(typed, ty, column).map_err(|refusal| refused(refusal, expr, ExprKind::Using))
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
    let (mut binder, typed) = bound(expr, None, ExprKind::Default)?;
    if let Some(from) = typed.ty {
        check_assigned(from, column, ty)?;
    }
    // The type modifier is checked when a row gets the value.
    let expr =
        binder.assigned(typed, base_type(ty), column).map_err(|refusal| refused(refusal, expr, ExprKind::Default))?;
    Ok(Default::Value(expr))
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
