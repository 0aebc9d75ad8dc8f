//! SQL's prepared statements: PREPARE, EXECUTE and DEALLOCATE.

use datafusion::sql::sqlparser::ast::{self, Expr, ObjectName};
use model::{Error, Result, SqlState};
use parser::ast as tree;

use crate::binding;
use crate::errors::locate;
use crate::rows::{Arguments, Executed, Messages};
use crate::session::{Outcome, Plan, Prepared, Session};
use crate::statement::{Parsed, Statement};
use crate::syntax_rewrites::folded;
use crate::types::Value;

/// Runs PREPARE or DEALLOCATE.
pub(crate) async fn define(session: &mut Session, statement: &Statement, sql: &ast::Statement) -> Result<Outcome> {
    match sql {
        ast::Statement::Prepare { name, statement: inner, .. } => {
            prepare(session, &statement.0, &folded(name), inner).await
        }
        ast::Statement::Deallocate { name, .. } => deallocate(session, &folded(name)),
        _ => Err(Error::bug("not a prepared statement's command")),
    }
}

fn key(name: Option<&ObjectName>) -> String {
    name.and_then(|name| name.0.last()).and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, format!("prepared statement \"{name}\" does not exist"))
}

async fn prepare(session: &mut Session, parsed: &Parsed, name: &str, inner: &ast::Statement) -> Result<Outcome> {
    if session.named.contains_key(name) {
        return Err(Error::new(
            SqlState::DUPLICATE_PREPARED_STATEMENT,
            format!("prepared statement \"{name}\" already exists"),
        ));
    }
    let tree::Statement::Prepare(tree) = binding::innermost(parsed)? else {
        return Err(Error::bug("a PREPARE that is none"));
    };
    let oids = binding::types(&session.context(), &tree.types).map_err(|error| locate(error, parsed))?;
    let statement = Statement::within(inner.clone(), parsed.sql.clone(), parsed.offset);
    // Errors in the statement are reported by PREPARE, not by the first EXECUTE.
    session.prepare(&statement, &oids).await?;
    session.named.insert(name.to_owned(), (statement, oids));
    Ok(Outcome::command("PREPARE"))
}

/// Plans the statement of an EXECUTE again, because the tables that it names may have changed.
pub(crate) fn inner(session: &mut Session, name: Option<&ObjectName>) -> Result<Prepared> {
    let name = key(name);
    let (statement, types) = session.named.get(&name).cloned().ok_or_else(|| unknown(&name))?;
    session.plan_statement(&statement, &types)
}

/// Runs EXECUTE with the statement that [`inner`] returned.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    name: Option<&ObjectName>,
    arguments: &[Expr],
    messages: Option<Messages<'_>>,
) -> Result<Executed> {
    if prepared.parameters().len() != arguments.len() {
        let text = format!("wrong number of parameters for prepared statement \"{}\"", key(name));
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
    let Some(evaluated) = crate::rows::evaluated(session, &exprs, &types).await? else {
        return constants.into_iter().collect();
    };
    let mut evaluated = evaluated.into_iter();
    constants.into_iter().map(|value| value.or_else(|error| evaluated.next().ok_or(error))).collect()
}

/// The value of a constant argument; a text is later parsed as the parameter's type.
fn constant(argument: &Expr) -> Result<Value> {
    use datafusion::sql::sqlparser::ast::{UnaryOperator, Value as Literal};
    Ok(match argument {
        Expr::Value(value) => match &value.value {
            Literal::Null => Value::Null,
            Literal::Boolean(value) => Value::Bool(*value),
            Literal::Number(text, _) => number(text)?,
            Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => Value::Text(text.clone()),
            other => return Err(not_constant(&other.to_string())),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Literal::Number(text, _) => number(&format!("-{text}"))?,
                other => return Err(not_constant(&other.to_string())),
            },
            other => return Err(not_constant(&other.to_string())),
        },
        Expr::Cast { expr, .. } => return constant(expr),
        other => return Err(not_constant(&other.to_string())),
    })
}

fn number(text: &str) -> Result<Value> {
    if let Ok(value) = text.parse::<i32>() {
        return Ok(Value::Int32(value));
    }
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

fn deallocate(session: &mut Session, name: &str) -> Result<Outcome> {
    if name == "all" {
        session.named.clear();
        return Ok(Outcome::command("DEALLOCATE ALL"));
    }
    session.named.remove(name).map(|_| Outcome::command("DEALLOCATE")).ok_or_else(|| unknown(name))
}
