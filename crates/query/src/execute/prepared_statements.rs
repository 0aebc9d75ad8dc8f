//! SQL's prepared statements: PREPARE, EXECUTE and DEALLOCATE.

use model::{Error, Result, SqlState, Type};
use parser::ast::{Expr, ExprKind};
use relational::types::Value;

use crate::binding;
use crate::errors::locate;
use crate::execute::rows::{Argument, evaluated};
use crate::plan::{Plan, Prepared, unknown_name};
use crate::result::{Arguments, Executed, Messages, Outcome};
use crate::session::Session;
use crate::statement::calls::without_casts;
use crate::statement::{Parsed, Prepare};

/// Runs PREPARE.
///
/// # Errors
/// 42P05 for a name that is taken; errors of planning the statement.
pub(crate) async fn prepare(session: &mut Session, parsed: &Parsed, prepare: &Prepare) -> Result<Outcome> {
    let Prepare { name, types, statement } = prepare;
    if session.named.contains_key(name.as_str()) {
        return Err(Error::new(
            SqlState::DUPLICATE_PREPARED_STATEMENT,
            format!("prepared statement \"{name}\" already exists"),
        ));
    }
    let oids = binding::types(&session.context(), types).map_err(|error| locate(error, parsed))?;
    // Errors in the statement are reported by PREPARE, not by the first EXECUTE.
    session.prepare(statement, &oids).await?;
    session.named.insert(name.to_string(), (statement.clone(), oids));
    Ok(Outcome::command("PREPARE"))
}

/// Runs EXECUTE with the statement that [`Session::plan_named`] returned.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    name: &str,
    arguments: &[Expr],
    messages: Option<Messages<'_>>,
) -> Result<Executed> {
    let values = values(session, prepared, name, arguments).await?;
    run(session, prepared, &values, messages).await
}

/// Runs a statement with values of its parameters.
pub(super) async fn run(
    session: &mut Session,
    prepared: &Prepared,
    values: &[Value],
    messages: Option<Messages<'_>>,
) -> Result<Executed> {
    match &prepared.0.plan {
        Plan::Rows(plan) if !plan.has_external_queries() => {
            let bound = plan.constants(session, values)?;
            session.execute_into(prepared, Arguments::Bound(&bound), messages).await
        }
        _ => session.execute_into(prepared, Arguments::Values(values), messages).await,
    }
}

/// The values of the arguments of EXECUTE: most constants are taken directly, expressions are evaluated and cast.
///
/// # Errors
/// 42601 for another number of arguments than the statement has parameters; those of evaluating and casting.
pub(super) async fn values(
    session: &mut Session,
    prepared: &Prepared,
    name: &str,
    arguments: &[Expr],
) -> Result<Vec<Value>> {
    let types = prepared.parameters();
    if types.len() != arguments.len() {
        let text = format!("wrong number of parameters for prepared statement \"{name}\"");
        let (expected, given) = (types.len(), arguments.len());
        return Err(Error::new(SqlState::SYNTAX_ERROR, text)
            .with_detail(format!("expected {expected} parameters but got {given}")));
    }
    let constants: Vec<Result<Value>> = arguments.iter().zip(types).map(|(expr, ty)| constant(expr, *ty)).collect();
    let numbered = arguments.iter().zip(types).enumerate();
    let open: Vec<Argument<'_>> = constants
        .iter()
        .zip(numbered)
        .filter(|(value, _)| value.is_err())
        .map(|(_, (at, (expr, ty)))| Argument { number: at + 1, expr, ty: *ty })
        .collect();
    if open.is_empty() {
        return constants.into_iter().collect();
    }
    let mut evaluated = evaluated(session, &open).await?.into_iter();
    constants.into_iter().map(|value| value.or_else(|error| evaluated.next().ok_or(error))).collect()
}

/// The value of a constant argument; a text is later parsed as the parameter's type. Other constants are taken for
/// parameters of their kind: whether they can be assigned to one of another type is a question of its casts.
fn constant(argument: &Expr, ty: u32) -> Result<Value> {
    let ty = Type::from_oid(ty, -1);
    let argument = if ty.is_none_or(|ty| ty.is_other()) { argument } else { without_casts(argument) };
    let is_whole = matches!(ty, Some(Type::Int2 | Type::Int4 | Type::Int8));
    let is_numeric = matches!(ty, Some(Type::Numeric(_)));
    Ok(match &argument.kind {
        ExprKind::Bool(_) if ty != Some(Type::Bool) => return Err(not_constant(&argument.to_string())),
        ExprKind::Integer(_) if !is_whole && !is_numeric => return Err(not_constant(&argument.to_string())),
        ExprKind::Number(_) if !is_numeric => return Err(not_constant(&argument.to_string())),
        ExprKind::Null => Value::Null,
        ExprKind::Bool(value) => Value::Bool(*value),
        ExprKind::Integer(value) => Value::Int32(*value),
        ExprKind::Number(text) => number(text)?,
        ExprKind::String(text) => Value::Text(text.to_string()),
        _ => return Err(not_constant(&argument.to_string())),
    })
}

fn number(text: &str) -> Result<Value> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Value::Int64(value));
    }
    match pg::numeric::decimal128(&text.parse()?)? {
        Some((value, scale)) => Ok(Value::Numeric(value, scale)),
        None => Err(not_constant(text)),
    }
}

fn not_constant(text: &str) -> Error {
    Error::unsupported(format!("EXECUTE takes constants and expressions over no table as arguments, not {text}"))
}

/// Runs DEALLOCATE; `None` is ALL.
///
/// # Errors
/// 26000 for an unknown name.
pub(crate) fn deallocate(session: &mut Session, name: Option<&str>) -> Result<Outcome> {
    let Some(name) = name else {
        session.named.clear();
        return Ok(Outcome::command("DEALLOCATE ALL"));
    };
    session.named.remove(name).map(|_| Outcome::command("DEALLOCATE")).ok_or_else(|| unknown_name(name))
}
