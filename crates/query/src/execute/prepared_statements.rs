//! SQL's prepared statements: PREPARE, EXECUTE and DEALLOCATE.

use model::{Error, Result, SqlState};
use parser::ast::{Expr, ExprKind};
use relational::types::Value;

use crate::binding;
use crate::errors::locate;
use crate::execute::rows::evaluated;
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
    if prepared.parameters().len() != arguments.len() {
        let text = format!("wrong number of parameters for prepared statement \"{name}\"");
        let (expected, given) = (prepared.parameters().len(), arguments.len());
        return Err(Error::new(SqlState::SYNTAX_ERROR, text)
            .with_detail(format!("expected {expected} parameters but got {given}")));
    }
    let values = values(session, arguments, prepared.parameters()).await?;
    let Plan::Rows(plan) = &prepared.0.plan else {
        return session.execute_into(prepared, Arguments::Values(&values), messages).await;
    };
    let bound = plan.constants(session, &values)?;
    session.execute_into(prepared, Arguments::Bound(&bound), messages).await
}

/// The values of the arguments for parameters of these types: constants are taken directly, expressions are evaluated.
async fn values(session: &mut Session, arguments: &[Expr], types: &[u32]) -> Result<Vec<Value>> {
    let constants: Vec<Result<Value>> = arguments.iter().map(constant).collect();
    let open = constants.iter().zip(arguments.iter().zip(types)).filter(|(value, _)| value.is_err());
    let (exprs, types): (Vec<&Expr>, Vec<u32>) = open.map(|(_, (expr, ty))| (expr, *ty)).unzip();
    if exprs.is_empty() {
        return constants.into_iter().collect();
    }
    let mut evaluated = evaluated(session, &exprs, &types).await?.into_iter();
    constants.into_iter().map(|value| value.or_else(|error| evaluated.next().ok_or(error))).collect()
}

/// The value of a constant argument; a text is later parsed as the parameter's type.
fn constant(argument: &Expr) -> Result<Value> {
    Ok(match &without_casts(argument).kind {
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
