//! Users' functions in generated columns and indexes: their bodies stand in the stored expression, which every session
//! and the start of the server must compute alike without the function.

use std::sync::Arc;

use binder::{DefinitionClause, Routine};
use catalog::{TypeId, Volatility, builtin};
use model::limits::DEFINITION_BYTES_MAX;
use model::{Error, Result, SqlState};
use parser::ast::{self, ExprKind, Ident};

use crate::statement::Session;

/// An expression with the bodies of users' functions in place of their calls.
///
/// # Errors
/// 42P17 for a function that is not immutable; 0A000 for one whose body is not one expression in SQL; 54000 if the text
/// becomes too long.
pub(super) fn with_bodies(expr: &ast::Expr, clause: DefinitionClause<'_>, session: Session<'_>) -> Result<ast::Expr> {
    let mut expr = expr.clone();
    let Some(routines) = &session.facts()?.routines else { return Ok(expr) };
    let mut failure = None;
    expr.visit_mut(&mut |part| {
        let ExprKind::Function(call) = &part.kind else { return };
        if failure.is_some() || call.name.schema().is_none() && is_builtin(&call.name.name) {
            return;
        }
        let named = routines.named(call.name.schema(), &call.name.name).into_iter();
        let named: Vec<Arc<Routine>> = named.filter_map(|one| one.downcast().ok()).collect();
        let Some(first) = named.first() else { return };
        let fits = |routine: &&Arc<Routine>| routine.signature.parameters.len() == call.args.len();
        let mut fitting = named.iter().filter(fits);
        let (found, others) = (fitting.next(), fitting.next());
        let replaced = match (found, others) {
            (Some(routine), None) => replacement(routine, call, clause),
            _ => Err(refused(first)),
        };
        match replaced {
            Ok(kind) => part.kind = kind,
            Err(error) => failure = Some(error),
        }
    });
    failure.map_or(Ok(expr), Err)
}

fn is_builtin(name: &str) -> bool {
    builtin().functions_named(name).next().is_some()
}

fn refused(routine: &Routine) -> Error {
    let text = format!("function {} is not supported in generated columns and indexes", routine.name);
    Error::unsupported(text).with_hint("Use an immutable function in SQL whose body is one expression.")
}

/// The body of a function with the arguments of a call.
fn replacement(routine: &Routine, call: &ast::FunctionCall, clause: DefinitionClause<'_>) -> Result<ExprKind> {
    if routine.volatility != Volatility::Immutable {
        let text = match clause {
            DefinitionClause::IndexKey => "functions in index expression must be marked IMMUTABLE",
            DefinitionClause::IndexPredicate => "functions in index predicate must be marked IMMUTABLE",
            _ => "generation expression is not immutable",
        };
        return Err(Error::new(SqlState("42P17"), text));
    }
    let is_named = |argument: &ast::Expr| matches!(argument.kind, ExprKind::NamedArgument(_));
    let Some(body) = &routine.inline else { return Err(refused(routine)) };
    if call.variadic || routine.signature.variadic.is_some() || call.args.iter().any(is_named) {
        return Err(refused(routine));
    }
    let arguments = call.args.iter().zip(&routine.signature.parameters);
    let arguments = arguments.map(|(argument, ty)| cast(argument, *ty)).collect::<Result<Vec<_>>>()?;
    let number = |kind: &ExprKind| match kind {
        ExprKind::Parameter(number) => (*number as usize).checked_sub(1),
        ExprKind::Column(name) => position(routine, name),
        ExprKind::Path(parts) => match &parts[..] {
            [function, name] if *function.as_str() == *routine.name => position(routine, name),
            _ => None,
        },
        _ => None,
    };
    let mut bytes = 0;
    let mut body = body.clone();
    body.visit_mut(&mut |part| {
        if let Some(argument) = number(&part.kind).and_then(|at| arguments.get(at)) {
            bytes += argument.to_string().len();
            if bytes <= DEFINITION_BYTES_MAX {
                *part = argument.clone();
            }
        }
    });
    if bytes > DEFINITION_BYTES_MAX {
        let text = format!("expression of {bytes} bytes is too long; the limit is {DEFINITION_BYTES_MAX}");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    let value = cast(&body, routine.signature.result)?;
    if !routine.is_strict || arguments.is_empty() {
        return Ok(value.kind);
    }
    let tests: Vec<String> = arguments.iter().map(|argument| format!("({argument}) IS NULL")).collect();
    parsed(&format!("CASE WHEN {} THEN NULL ELSE {value} END", tests.join(" OR "))).map(|expr| expr.kind)
}

fn position(routine: &Routine, name: &Ident) -> Option<usize> {
    routine.signature.names.iter().position(|other| **other == *name.as_str())
}

fn cast(expr: &ast::Expr, ty: TypeId) -> Result<ast::Expr> {
    parsed(&format!("CAST(({expr}) AS {})", builtin().type_name(ty)))
}

fn parsed(sql: &str) -> Result<ast::Expr> {
    parser::parse_expr(sql).map_err(Error::without_position)
}
