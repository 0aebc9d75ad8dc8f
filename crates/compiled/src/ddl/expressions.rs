//! CHECK and DEFAULT: expressions that a table's description keeps as SQL, in one way of writing: names folded and without the
//! table's, types as PostgreSQL calls them. What is kept has been bound, so that statements can bind it again.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use bumpalo::Bump;
use model::{Datum, Error, Result, RowSchema, SequenceRef, SqlState, TableName, Type};
use rows::row::RowLayout;
use rows::{Records, RowTable};
use sqlparser::ast::{self, VisitMut, VisitorMut};

use super::names::{quoted, shown};
use super::{Catalog, types};
use crate::bind::{Around, Bind, Binder, Refusal, Source, Subquery, Typed, folded};
use crate::exec::{Parts, Reads, World};
use crate::expr::{Expr, Frame};
use crate::statement::Session;
use crate::types::{assignable, bare};

/// The slot of the row that a formula is about.
const ROW: usize = 0;

/// A table without rows, for binding against its description.
pub(super) fn bare_table(schema: &RowSchema) -> Result<Arc<RowTable>> {
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::of(schema)?),
        records: Arc::new(Records::new()),
        primary: None,
        secondary: Vec::new(),
        schema: Arc::new(schema.clone()),
    }))
}

/// Where a formula stands, which says what cannot be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Check,
    Default,
    Using,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Check => "check constraint",
            Place::Default => "DEFAULT expression",
            Place::Using => "transform expression",
        }
    }
}

impl Around for Place {
    fn aggregate(&mut self, _: &mut Binder, _: &ast::Function) -> Bind<Typed> {
        let text = format!("aggregate functions are not allowed in {}s", self.name());
        Err(Error::new(SqlState::GROUPING_ERROR, text).into())
    }

    fn subquery(&mut self, _: &mut Binder, _: &ast::Query, _: Subquery) -> Bind<Typed> {
        Err(Error::unsupported(format!("cannot use subquery in {}", self.name())).into())
    }
}

/// Binds an expression over a row of `table`, or over nothing.
fn bound(expr: &ast::Expr, table: Option<&Arc<RowTable>>, mut place: Place) -> Result<(Binder, Typed)> {
    let source = |table: &Arc<RowTable>| Source::stored(table.schema.name.table.clone(), ROW, Arc::clone(table));
    let mut binder = Binder { sources: table.map(source).into_iter().collect(), ..Binder::default() };
    let typed = binder.expr(expr, &mut place).map_err(|refusal| refused(refusal, expr, place))?;
    if binder.params.is_empty() {
        return Ok((binder, typed));
    }
    Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"))
}

fn refused(refusal: Refusal, expr: &ast::Expr, place: Place) -> Error {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Other => Error::unsupported(format!("{} {expr} is not supported on rows tables", place.name()))
            .with_hint("only operators and functions that rows tables compile can be in it"),
    }
}

/// The condition of a CHECK, bound to a table.
///
/// # Errors
/// 42804 when it is no condition; what binding gives.
pub(super) fn condition(expr: &ast::Expr, table: &Arc<RowTable>) -> Result<Expr> {
    let (mut binder, typed) = bound(expr, Some(table), Place::Check)?;
    let typed = binder.settle(typed, Type::Bool).map_err(|refusal| refused(refusal, expr, Place::Check))?;
    match typed.ty {
        Some(Type::Bool) => Ok(typed.expr),
        ty => {
            let ty = ty.map_or("unknown", Type::sql_name);
            let text = format!("argument of CHECK must be type boolean, not type {ty}");
            Err(Error::new(SqlState::DATATYPE_MISMATCH, text))
        }
    }
}

/// What a column takes from an expression when its type changes.
///
/// # Errors
/// 42804 when its type is not assigned to the column's.
pub(super) fn transformed(expr: &ast::Expr, table: &Arc<RowTable>, column: &str, ty: Type) -> Result<Expr> {
    let (mut binder, typed) = bound(expr, Some(table), Place::Using)?;
    if typed.ty.is_some_and(|from| !assignable(from, ty)) {
        let text = format!("result of USING clause for column \"{column}\" cannot be cast automatically to type {ty}");
        let error = Error::new(SqlState::DATATYPE_MISMATCH, text);
        return Err(error.with_hint("You might need to add an explicit cast."));
    }
    binder.assigned(typed, ty, column).map_err(|refusal| refused(refusal, expr, Place::Using))
}

/// What a column without a value gets.
#[derive(Clone, Debug)]
pub(super) enum Default {
    /// The same for all rows of a statement.
    Value(Expr),
    /// The next of a sequence.
    Next(SequenceRef),
}

/// A DEFAULT, bound to its column.
///
/// # Errors
/// 0A000 for columns and subqueries in it, 42804 for a value of the wrong type; what binding gives.
pub(super) fn default(expr: &ast::Expr, column: &str, ty: Type, catalog: &dyn Catalog) -> Result<Default> {
    if let Some(name) = sequence_of(expr, catalog) {
        let sequence = catalog.sequence(&name).ok_or_else(|| {
            let text = format!("relation \"{}\" does not exist", shown(&name, catalog));
            Error::new(SqlState::UNDEFINED_TABLE, text)
        })?;
        check_assigned(Type::Int8, column, ty)?;
        return Ok(Default::Next(sequence));
    }
    if names_column(expr) {
        return Err(Error::unsupported("cannot use column reference in DEFAULT expression"));
    }
    let (mut binder, typed) = bound(expr, None, Place::Default)?;
    if let Some(from) = typed.ty {
        check_assigned(from, column, ty)?;
    }
    // Whether it fits what stands in parentheses shows when a row gets it.
    let expr = binder.assigned(typed, bare(ty), column).map_err(|refusal| refused(refusal, expr, Place::Default))?;
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

/// The value of a bound expression over no row, as a column of type `ty` keeps it.
///
/// # Errors
/// What evaluating gives: class 22.
pub(super) fn value<T>(expr: &Expr, ty: Type, session: Session<'_>, then: impl FnOnce(Datum<'_>) -> T) -> Result<T> {
    let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
    let world = World::new(&[], &arena, &guard, session, Parts::default(), Reads::Nothing);
    let frame = frame(&[], &world);
    Ok(then(rows::assign(ty, expr.eval(&frame)?)?))
}

/// What expressions over one row are evaluated in, or over none.
pub(super) fn frame<'a>(row: &'a [Cell<Option<&'a [u8]>>], world: &'a World<'a>) -> Frame<'a> {
    Frame { rows: row, world, given: Vec::new(), made: Vec::new(), element: Datum::Null }
}

/// SQL that a description holds.
///
/// # Errors
/// XX001: it was written by [`canonical`].
pub(super) fn parsed(sql: &str) -> Result<ast::Expr> {
    let parsed = crate::dialect::parser_of(sql).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::corrupt(format!("expression {sql:?} of a table: {error}")))
}

/// An expression as descriptions hold it, among columns of the table called `table`.
pub(super) fn canonical(expr: &ast::Expr, table: &str) -> ast::Expr {
    let mut expr = expr.clone();
    rewrite(&mut expr, &mut |expr| match expr {
        ast::Expr::Identifier(name) => *name = ident(&folded(name)),
        ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [first, column] if folded(first) == table => *expr = ast::Expr::Identifier(ident(&folded(column))),
            _ => {}
        },
        ast::Expr::Function(call) => {
            for part in &mut call.name.0 {
                if let ast::ObjectNamePart::Identifier(name) = part {
                    *name = ident(&folded(name));
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

/// What a description holds after a column has got another name.
///
/// # Errors
/// As [`parsed`].
pub(super) fn renamed(sql: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = parsed(sql)?;
    rewrite(&mut expr, &mut |expr| match expr {
        ast::Expr::Identifier(name) if folded(name) == old => *name = ident(new),
        _ => {}
    });
    Ok(expr.to_string())
}

/// Positions of the columns that a description's condition is about, each once.
///
/// # Errors
/// As [`parsed`].
pub(super) fn columns(sql: &str, schema: &RowSchema) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    rewrite(&mut parsed(sql)?, &mut |expr| {
        if let ast::Expr::Identifier(name) = expr
            && let Some(at) = schema.column(&folded(name))
            && !found.contains(&at)
        {
            found.push(at);
        }
    });
    Ok(found)
}

/// `nextval('sequence')`, as a default holds it.
pub(super) fn next_value(name: &TableName, catalog: &dyn Catalog) -> String {
    format!("nextval('{}'::regclass)", shown(name, catalog).replace('\'', "''"))
}

/// The sequence whose next value an expression is, if that is all it is.
pub(super) fn sequence_of(expr: &ast::Expr, catalog: &dyn Catalog) -> Option<TableName> {
    match expr {
        ast::Expr::Nested(inner) => sequence_of(inner, catalog),
        ast::Expr::Function(call) => {
            let [.., ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of))] = list.args.as_slice() else { return None };
            if folded(name) == "nextval" { named_by(of, catalog) } else { None }
        }
        _ => None,
    }
}

/// The sequence that a string names.
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

/// An identifier that is printed as it must be.
fn ident(name: &str) -> ast::Ident {
    if quoted(name).starts_with('"') { ast::Ident::with_quote('"', name) } else { ast::Ident::new(name) }
}

/// Is a column named anywhere outside subqueries?
fn names_column(expr: &ast::Expr) -> bool {
    let mut found = false;
    rewrite(&mut expr.clone(), &mut |expr| {
        found |= matches!(expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_));
    });
    found
}

/// Goes through an expression, inner ones first; subqueries are left alone, as no formula can have them.
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
