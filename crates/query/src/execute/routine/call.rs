//! CALL, DO, and queries of one row that call functions.

use std::sync::Arc;

use catalog::TypeId;
use futures::StreamExt;
use model::{Error, Result, SqlState};
use parser::ast::{self, DefinitionItem, OptionValue};
use pg_catalog::oids::{Part, of_table};
use relational::types::Value as Sent;
use scalar::Value;

use super::batch::batch_of;
use super::interpret::Run;
use super::trigger::Fired;
use super::values::{Parameters, computed as evaluated_now, converted, evaluated};
use super::{Deep, Returned, call_routine, language};
use crate::binding;
use crate::plan::Prepared;
use crate::plan::call::Planned;
use crate::plan::routine::{RowPlan, single_row};
use crate::result::Outcome;
use crate::routines::{Body, Code, TRIGGER, row_shape, value_type};
use crate::session::Session;
use crate::session::facts::facts;
use crate::statement::{Command, Parsed};

/// Runs the procedure; the result is the row of its OUT parameters.
pub(super) async fn run(
    planned: &Planned,
    session: &mut Session,
    values: &[Value],
    facts: &Arc<scalar::Session>,
    is_atomic: bool,
) -> Result<Value> {
    let (mut arguments, mut types) = (Vec::new(), Vec::new());
    let parameters = planned.routine.parameters.iter().zip(&planned.types);
    for ((parameter, to), expr) in parameters.zip(&planned.exprs) {
        if !parameter.mode.is_input() {
            continue;
        }
        let to = value_type(to.0);
        let (value, from) = match expr {
            Some((expr, from)) => (evaluated(session, expr, values, facts).await?, *from),
            None => default(session, parameter.default.as_deref().unwrap_or("NULL"), facts).await?,
        };
        arguments.push(converted(session, value, from, to, -1)?);
        types.push(to);
    }
    let result = if planned.shape.is_some() { TypeId::RECORD } else { TypeId::VOID };
    match call_routine(session, &planned.routine, &types, result, arguments, is_atomic).await? {
        Returned::Value(value) => Ok(value),
        Returned::Rows(_) => Err(Error::bug("a procedure that returns a set")),
    }
}

/// The value of a parameter's default, and its type.
async fn default(session: &mut Session, text: &str, facts: &Arc<scalar::Session>) -> Result<(Value, TypeId)> {
    let statement = crate::statement::parse_within_routine(&format!("SELECT {text}"), None)?;
    let Command::Query(query) = &statement.0.command else { return Err(Error::bug("a default that is no expression")) };
    let context = session.context_of_newest();
    let bound = binding::bind_query(&context, &statement.0, query, &[]).map_err(Error::without_position)?;
    let exprs = single_row(&bound).and_then(|exprs| exprs.into_iter().next());
    let expr = exprs.ok_or_else(|| Error::unsupported("a default of a parameter with a subquery is not supported"))?;
    let ty = expr.ty;
    Ok((evaluated(session, &expr, &[], facts).await?, ty))
}

/// Runs CALL.
pub(crate) async fn execute(
    session: &mut Session,
    parsed: &Parsed,
    written: &ast::FunctionCall,
    declared: &[u32],
    values: &[Sent],
    is_atomic: bool,
) -> Result<Outcome> {
    let planned = Planned::new(session, parsed, written, None, declared)?;
    let context = session.context_of_newest();
    let values = binding::values(values, &planned.parameters, &context)?;
    let facts = facts(&context);
    let returned = run(&planned, session, &values, &facts, is_atomic).await?;
    let Some(columns) = planned.columns() else { return Ok(Outcome::command("CALL")) };
    let row: Vec<Value> = match returned {
        Value::Record(_, _, values) => values.into(),
        _ => vec![Value::NULL; columns.len()],
    };
    let batch = batch_of(&[row], &columns, &session.settings, &facts)?;
    Ok(Outcome::Rows { columns, batches: Box::pin(futures::stream::iter([Ok(batch)])), tag: "CALL".into() })
}

/// Runs DO.
pub(crate) async fn execute_do(session: &mut Session, items: &[DefinitionItem], is_atomic: bool) -> Result<Outcome> {
    let text = |name: &str| {
        let item = items.iter().find(|item| *item.name == *name)?;
        item.value.as_ref().map(OptionValue::text)
    };
    let code = text("as").ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "no inline code specified"))?;
    let named = text("language").unwrap_or_else(|| "plpgsql".to_owned());
    let language = language(&named)?;
    if language == model::RoutineLanguage::Sql {
        return Err(Error::unsupported(format!("language \"{named}\" does not support inline code execution")));
    }
    let body = Arc::new(Body::new(None, language, &code).map_err(Error::without_position)?);
    if let Code::PlPgSql(code) = &body.code {
        super::check::body(code, None, &session.context_of_newest())?;
    }
    let mut run = Run::new(&body, &[], TypeId::VOID, None, is_atomic);
    session.routine_depth += 1;
    let ran = super::Deep::new(async { run.routine(session, Vec::new()).await }).await;
    session.routine_depth = session.routine_depth.saturating_sub(1);
    ran?;
    Ok(Outcome::command("DO"))
}

/// Calls the function of a trigger. The value is the row that it returns.
pub(super) fn trigger(session: &mut Session, fired: Fired) -> Deep<'_, Result<Value>> {
    Deep::new(async move {
        let routine = super::routine_of(session, fired.trigger.routine)?;
        super::check_depth(session)?;
        session.stop.check()?;
        super::breathe(session).await;
        let row_type = TypeId(of_table(fired.table.id, Part::RowType));
        let body = session.bodies.of(&routine, &[row_type, TypeId(fired.trigger.id)])?;
        if !matches!(body.code, Code::PlPgSql(_)) {
            return Err(Error::unsupported("trigger functions in SQL are not supported"));
        }
        let shape = row_shape(row_type.0, session.newest().catalog());
        let before = Arc::clone(&session.settings);
        super::set_all(session, &routine)?;
        let mut run = Run::new(&body, &[], TRIGGER, shape, true);
        session.routine_depth += 1;
        let depth = session.trigger_depth;
        let returned = run.trigger(session, fired).await;
        session.trigger_depth = depth;
        session.routine_depth = session.routine_depth.saturating_sub(1);
        super::restore(session, &routine, &before)?;
        returned
    })
}

/// Rows of a result in one batch.
const BATCH_ROWS: usize = 8_192;

/// Runs a query that calls functions of users and that the session computes itself.
pub(crate) async fn execute_rows(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowPlan,
    values: &[Sent],
) -> Result<Outcome> {
    let context = session.context_of_newest();
    let parsed = &prepared.0.statement.0;
    let computed = plan.computed(&context, || binding::bind(&context, parsed, &prepared.0.declared))?;
    let columns = plan.columns.clone();
    let values = binding::values(values, &computed.parameters, &context)?;
    let facts = facts(&context);
    let held = session.database.runtime().reserved("result of functions");
    let settings = Arc::clone(&session.settings);
    let (mut batches, mut bytes) = (Vec::new(), 0);
    let mut add = |rows: &mut Vec<Vec<Value>>| {
        let batch = batch_of(rows, &columns, &settings, &facts)?;
        rows.clear();
        bytes += batch.get_array_memory_size();
        // A small result is not counted.
        if bytes >= COUNTED_BYTES_MIN {
            held.resize(bytes)?;
        }
        batches.push(Ok(batch));
        Ok::<(), Error>(())
    };
    let mut rows = Vec::new();
    match &computed.from {
        None => {
            let mut row = Vec::with_capacity(computed.exprs.len());
            for expr in &computed.exprs {
                row.push(evaluated(session, expr, &values, &facts).await?);
            }
            rows.push(row);
        }
        Some(from) => {
            let mut arguments = Vec::with_capacity(from.arguments.len());
            for argument in &from.arguments {
                arguments.push(evaluated(session, argument, &values, &facts).await?);
            }
            let found = match super::call(session, &from.call, arguments).await? {
                Returned::Value(value) => vec![value],
                Returned::Rows(rows) => rows,
            };
            for value in found {
                let given = Parameters::Columns {
                    values: &values,
                    columns: &from.columns,
                    is_record: from.is_record,
                    row: &value,
                };
                rows.push(computed.exprs.iter().map(|expr| evaluated_now(expr, given, &facts)).collect::<Result<_>>()?);
                if rows.len() >= BATCH_ROWS {
                    add(&mut rows)?;
                }
            }
        }
    }
    add(&mut rows)?;
    let batches = futures::stream::iter(batches).inspect(move |_| {
        let _ = &held;
    });
    Ok(Outcome::Rows { columns, batches: Box::pin(batches), tag: "SELECT".into() })
}

/// Smaller results are not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;
