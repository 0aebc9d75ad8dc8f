//! Values of variables, as parameters and from results of statements, and their conversions.

use std::sync::Arc;

use arrow_array::RecordBatch;
use bumpalo::Bump;
use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState, Storage, Type, user_types};
use relational::Reserved;
use relational::types::Value as Sent;
use scalar::{Expr, ExprKind, Value};

use super::interpret::Run;
use super::{Deep, Ran, ResultColumn, Returned, call};
use crate::binding;
use crate::encode::Encoder;
use crate::plan::Prepared;
use crate::routines::{REFCURSOR, Shape, Used};
use crate::session::Session;
use crate::session::facts::facts;

/// The facts by which values are read and written: those of the running statement if texts may name objects or times of it.
pub(super) fn facts_of(session: &mut Session, reads_context: impl FnOnce() -> bool) -> Arc<scalar::Session> {
    if reads_context() {
        return facts(&session.context_of_newest());
    }
    if let Some((settings, kept)) = &session.value_facts
        && Arc::ptr_eq(settings, &session.settings)
    {
        return Arc::clone(kept);
    }
    let made = Arc::new(session.settings.value_session());
    session.value_facts = Some((Arc::clone(&session.settings), Arc::clone(&made)));
    made
}

/// Whether texts of a type may name an object.
pub(super) fn has_names(ty: u32) -> bool {
    let of = builtin().element_of(TypeId(ty)).map_or(ty, |element| element.0);
    Type::from_oid(of, -1).is_none_or(|ty| matches!(ty, Type::Other(other) if other.storage() == Storage::Oid))
}

/// Whether the conversion of a value asks for the running statement: for an object that a text names, or for the clock, which
/// gives `now` and the like.
fn reads_context(from: TypeId, to: TypeId) -> bool {
    let is_text = matches!(from, TypeId::TEXT | TypeId::VARCHAR | TypeId::UNKNOWN);
    let element = builtin().element_of(to).unwrap_or(to);
    let is_time = matches!(element, TypeId::DATE | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ);
    is_text && is_time || has_names(to.0) || has_names(from.0)
}

/// A value as the parameter of a statement.
pub(super) fn sent(value: &Value, ty: TypeId, facts: &scalar::Session) -> Result<Sent> {
    Ok(match value {
        Value::Plain(Datum::Null) => Sent::Null,
        // Statements name the columns of a row, each of which is a parameter.
        _ if ty == TypeId::RECORD => Sent::Null,
        Value::Plain(Datum::Bool(value)) => Sent::Bool(*value),
        Value::Plain(Datum::Int2(value)) => Sent::Int16(*value),
        Value::Plain(Datum::Int4(value)) => Sent::Int32(*value),
        Value::Plain(Datum::Int8(value)) => Sent::Int64(*value),
        Value::Plain(Datum::Float8(value)) => Sent::Float64(*value),
        Value::Plain(Datum::Uuid(value)) => Sent::Uuid(*value),
        Value::Text(text) => Sent::Text(text.to_string()),
        Value::Bytes(bytes) => Sent::Bytes(bytes.to_vec()),
        other => Sent::Text(text_of(other, ty, facts)?),
    })
}

/// The text of a value that is not NULL.
pub(super) fn text_of(value: &Value, ty: TypeId, facts: &scalar::Session) -> Result<String> {
    let arena = Bump::new();
    let mut text = String::new();
    scalar::output(&value.datum(), ty, &scalar::Context { arena: &arena, session: facts }, &mut text)?;
    Ok(text)
}

/// Reads a value of a type.
pub(super) fn read(text: &str, ty: TypeId, typmod: i32, facts: &scalar::Session) -> Result<Value> {
    match ty {
        TypeId::TEXT | TypeId::VARCHAR => return Ok(Value::Text(text.into())),
        TypeId::INT4 => {
            if let Ok(value) = text.parse() {
                return Ok(Value::Plain(Datum::Int4(value)));
            }
        }
        TypeId::INT8 => {
            if let Ok(value) = text.parse() {
                return Ok(Value::Plain(Datum::Int8(value)));
            }
        }
        TypeId::RECORD => {
            return Err(Error::unsupported("a row as a column of a result is not supported in functions")
                .with_hint("Select its columns."));
        }
        TypeId::VOID => return Ok(Value::NULL),
        _ => {}
    }
    let arena = Bump::new();
    let typmod = if ty == TypeId::INTERVAL { typmod } else { -1 };
    let value = scalar::input(text, ty, typmod, &scalar::Context { arena: &arena, session: facts })?;
    Ok(Value::of(&value))
}

/// Rows of a result, as they are collected.
pub(super) struct Rows {
    columns: Vec<ResultColumn>,
    facts: Arc<scalar::Session>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
    held: Option<Reserved>,
    runtime: crate::session::database::Database,
}

/// Smaller results are not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;

impl Rows {
    pub(super) fn new(session: &Session, columns: &[ResultColumn], facts: Arc<scalar::Session>) -> Rows {
        let runtime = session.database.clone();
        Rows { columns: columns.to_vec(), facts, rows: Vec::new(), bytes: 0, held: None, runtime }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    fn push(&mut self, row: Vec<Value>) -> Result<()> {
        self.bytes += row.iter().map(|value| size_of::<Value>() + value.heap_size()).sum::<usize>();
        self.rows.push(row);
        if self.bytes < COUNTED_BYTES_MIN {
            return Ok(());
        }
        let runtime = &self.runtime;
        let held = self.held.get_or_insert_with(|| runtime.runtime().reserved("rows of a function"));
        held.resize(self.bytes)
    }

    fn value(&self, column: usize, text: Option<&[u8]>) -> Result<Value> {
        let Some(text) = text else { return Ok(Value::NULL) };
        let text = std::str::from_utf8(text).map_err(Error::bug)?;
        let (_, ty, typmod) = self.columns.get(column).ok_or_else(|| Error::bug("a column that was not announced"))?;
        read(text, *ty, *typmod, &self.facts)
    }

    /// Adds the rows of DataRow messages in text format.
    pub(super) fn messages(&mut self, mut bytes: &[u8]) -> Result<()> {
        let malformed = || Error::bug("a malformed row");
        while let Some((header, rest)) = bytes.split_first_chunk::<7>() {
            let count = usize::from(u16::from_be_bytes([header[5], header[6]]));
            let mut rest = rest;
            let mut row = Vec::with_capacity(count);
            for column in 0..count {
                let (length, after) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
                let length = usize::try_from(i32::from_be_bytes(*length)).ok();
                let (value, after) = after.split_at_checked(length.unwrap_or(0)).ok_or_else(malformed)?;
                row.push(self.value(column, length.map(|_| value))?);
                rest = after;
            }
            bytes = rest;
            self.push(row)?;
        }
        Ok(())
    }

    /// Adds the rows of a batch.
    pub(super) fn batch(&mut self, prepared: &Prepared, batch: &RecordBatch, zone: &str) -> Result<()> {
        let encoder = Encoder::new(prepared.columns().unwrap_or_default(), zone)?;
        let rows = encoder.batch(batch)?;
        let mut text = Vec::new();
        for row in 0..batch.num_rows() {
            let mut values = Vec::with_capacity(self.columns.len());
            for column in 0..self.columns.len() {
                text.clear();
                let is_there = rows.text(row, column, &mut text)?;
                values.push(self.value(column, is_there.then_some(text.as_slice()))?);
            }
            self.push(values)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> (Vec<Vec<Value>>, Option<Reserved>) {
        (self.rows, self.held)
    }
}

/// The values of parameters.
#[derive(Clone, Copy)]
pub(super) enum Parameters<'a> {
    Values(&'a [Value]),
    /// The arguments and variables that an expression names.
    Variables(&'a Run, &'a [Used]),
    /// Besides parameters, the columns of a function in FROM.
    Columns {
        values: &'a [Value],
        /// Numbers of the columns.
        columns: &'a [u32],
        /// Whether they are the fields of its row.
        is_record: bool,
        row: &'a Value,
    },
}

impl<'a> scalar::Row<'a> for Parameters<'a> {
    fn column(&self, column: u32) -> Datum<'a> {
        let Parameters::Columns { columns, is_record, row, .. } = *self else { return Datum::Null };
        let Some(at) = columns.iter().position(|other| *other == column) else { return Datum::Null };
        match row {
            Value::Record(_, _, fields) if is_record => fields.get(at).map_or(Datum::Null, Value::datum),
            _ if is_record => Datum::Null,
            value => value.datum(),
        }
    }

    fn parameter(&self, parameter: u32) -> Datum<'a> {
        let value = match self {
            Parameters::Values(values) | Parameters::Columns { values, .. } => values.get(parameter as usize),
            Parameters::Variables(run, used) => run.parameter(parameter as usize, used),
        };
        value.map_or(Datum::Null, Value::datum)
    }
}

/// Computes an expression that calls no function of a user.
pub(super) fn computed(expr: &Expr, parameters: Parameters<'_>, facts: &scalar::Session) -> Result<Value> {
    let arena = Bump::new();
    let ctx = scalar::Context { arena: &arena, session: facts };
    scalar::eval(expr, &parameters, &ctx).map(|value| Value::of(&value))
}

/// Whether an expression calls a function of a user.
pub(super) fn calls(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| {
        if let ExprKind::Call(call, _) = &part.kind {
            found |= call.function >= scalar::FIRST_ROUTINE;
        }
    });
    found
}

/// Computes an expression over parameters. Functions of users are called as PostgreSQL's evaluation would: operands that
/// decide a result make later ones unneeded.
pub(super) async fn evaluated(
    session: &mut Session,
    expr: &Expr,
    parameters: &[Value],
    facts: &Arc<scalar::Session>,
) -> Result<Value> {
    if !calls(expr) {
        return computed(expr, Parameters::Values(parameters), facts);
    }
    evaluated_calls(session, expr, parameters, facts).await
}

fn evaluated_calls<'a>(
    session: &'a mut Session,
    expr: &'a Expr,
    parameters: &'a [Value],
    facts: &'a Arc<scalar::Session>,
) -> Deep<'a, Result<Value>> {
    Deep::new(async move {
        if !calls(expr) {
            return computed(expr, Parameters::Values(parameters), facts);
        }
        match &expr.kind {
            ExprKind::Call(routine, operands) if routine.function >= scalar::FIRST_ROUTINE => {
                let mut values = Vec::with_capacity(operands.len());
                for operand in operands {
                    values.push(evaluated_calls(session, operand, parameters, facts).await?);
                }
                match call(session, routine, values).await? {
                    Returned::Value(value) => Ok(value),
                    Returned::Rows(_) => Err(Error::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "set-valued function called in context that cannot accept a set",
                    )),
                }
            }
            ExprKind::And(list) | ExprKind::Or(list) => {
                let decides = matches!(expr.kind, ExprKind::Or(_));
                let mut is_null = false;
                for operand in list {
                    match evaluated_calls(session, operand, parameters, facts).await? {
                        Value::Plain(Datum::Bool(value)) if value == decides => {
                            return Ok(Value::Plain(Datum::Bool(decides)));
                        }
                        Value::Plain(Datum::Bool(_)) => {}
                        _ => is_null = true,
                    }
                }
                Ok(if is_null { Value::NULL } else { Value::Plain(Datum::Bool(!decides)) })
            }
            ExprKind::Coalesce(list) => {
                for operand in list {
                    let value = evaluated_calls(session, operand, parameters, facts).await?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::NULL)
            }
            ExprKind::Case { operand, branches, otherwise } => {
                let operand = match operand {
                    None => None,
                    Some(of) => {
                        let value = evaluated_calls(session, of, parameters, facts).await?;
                        Some(Expr { kind: ExprKind::Constant(value), ..(**of).clone() })
                    }
                };
                for (condition, result) in branches {
                    let condition = match &operand {
                        None => condition.clone(),
                        Some(value) => with_placeholder(condition, value),
                    };
                    let holds = evaluated_calls(session, &condition, parameters, facts).await?;
                    if matches!(holds, Value::Plain(Datum::Bool(true))) {
                        return evaluated_calls(session, result, parameters, facts).await;
                    }
                }
                match otherwise {
                    None => Ok(Value::NULL),
                    Some(otherwise) => evaluated_calls(session, otherwise, parameters, facts).await,
                }
            }
            _ => {
                // The operands with calls, whose values take their places.
                let (mut known, mut operands) = (expr.clone(), Vec::new());
                let mut number = 0;
                known.for_each_operand_mut(&mut |operand| {
                    if calls(operand) {
                        let kind = std::mem::replace(&mut operand.kind, ExprKind::Constant(Value::NULL));
                        operands.push((number, Expr { kind, ..operand.clone() }));
                    }
                    number += 1;
                });
                let mut values = Vec::with_capacity(operands.len());
                for (at, operand) in &operands {
                    values.push((*at, evaluated_calls(session, operand, parameters, facts).await?));
                }
                let (mut values, mut number) = (values.into_iter().peekable(), 0);
                known.for_each_operand_mut(&mut |operand| {
                    if let Some((_, value)) = values.next_if(|(at, _)| *at == number) {
                        operand.kind = ExprKind::Constant(value);
                    }
                    number += 1;
                });
                computed(&known, Parameters::Values(parameters), facts)
            }
        }
    })
}

/// A condition of CASE with the value of its operand.
fn with_placeholder(condition: &Expr, value: &Expr) -> Expr {
    let mut condition = condition.clone();
    condition.visit_mut(&mut |part| {
        if matches!(part.kind, ExprKind::Placeholder) {
            part.kind = value.kind.clone();
        }
    });
    condition
}

/// A value as one of another type, as PL/pgSQL assigns it.
///
/// # Errors
/// Those of the cast.
pub(super) fn converted(session: &mut Session, value: Value, from: TypeId, to: TypeId, typmod: i32) -> Result<Value> {
    let to = if to.0 == REFCURSOR { TypeId::TEXT } else { to };
    let from = if from.0 == REFCURSOR { TypeId::TEXT } else { from };
    if from == to && typmod < 0 || to == TypeId::VOID || to == TypeId::RECORD && from == TypeId::RECORD {
        return Ok(value);
    }
    let is_constrained = user_types::is_constrained(to.0);
    if value.is_null() && !is_constrained {
        return Ok(value);
    }
    if to == TypeId::RECORD {
        let text = "cannot assign non-composite value to a record variable";
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    // The constraints of a domain may change.
    let known = session.casts.get(&(from, to, typmod)).filter(|_| !is_constrained).cloned();
    let expr = match known {
        Some(expr) => expr,
        None => {
            let context = session.context();
            let expr = Arc::new(binding::assigned(&context, from, to, typmod).map_err(Error::without_position)?);
            if session.casts.len() > CASTS_MAX {
                session.casts.clear();
            }
            if !is_constrained {
                session.casts.insert((from, to, typmod), Arc::clone(&expr));
            }
            expr
        }
    };
    let facts = facts_of(session, || is_constrained || reads_context(from, to));
    computed(&expr, Parameters::Values(&[value]), &facts).map_err(Error::without_position)
}

/// Maximum number of casts that a session keeps.
const CASTS_MAX: usize = 1_000;

/// A row of a result as a record, with the columns of a shape if it is given.
///
/// # Errors
/// 42804 for another number of columns; those of the casts.
pub(super) fn record_of(
    session: &mut Session,
    columns: &[ResultColumn],
    row: Vec<Value>,
    shape: Option<&Shape>,
) -> Result<Value> {
    let Some(shape) = shape else {
        let types = columns.iter().map(|(_, ty, _)| ty.0).collect();
        let names: Box<[Box<str>]> = columns.iter().map(|(name, ..)| name.clone()).collect();
        return Ok(Value::Record(types, Some(names.into()), row.into()));
    };
    if row.len() == 1
        && shape.len() != 1
        && let Some(Value::Record(types, _, values)) = row.first()
        && values.len() == shape.len()
    {
        let (types, values) = (types.clone(), values.to_vec());
        return shaped(session, &types, values, shape);
    }
    if row.len() != shape.len() {
        let text = "structure of query does not match function result type";
        let detail = format!(
            "Number of returned columns ({}) does not match expected column count ({}).",
            row.len(),
            shape.len()
        );
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_detail(detail));
    }
    let types: Vec<u32> = columns.iter().map(|(_, ty, _)| ty.0).collect();
    shaped(session, &types, row, shape)
}

/// Values as a record of a shape.
pub(super) fn shaped(session: &mut Session, types: &[u32], values: Vec<Value>, shape: &Shape) -> Result<Value> {
    let mut fields = Vec::with_capacity(shape.len());
    let mut values = values.into_iter();
    for (at, (_, to, typmod)) in shape.iter().enumerate() {
        let value = values.next().unwrap_or(Value::NULL);
        let from = types.get(at).map_or(TypeId::TEXT, |ty| TypeId(*ty));
        fields.push(converted(session, value, from, *to, *typmod)?);
    }
    let types = shape.iter().map(|(_, ty, _)| ty.0).collect();
    let names: Box<[Box<str>]> = shape.iter().map(|(name, ..)| name.clone()).collect();
    Ok(Value::Record(types, Some(names.into()), fields.into()))
}

/// The first value of a result and its type; NULL without rows.
pub(super) fn first_value(ran: &mut Ran) -> (Value, TypeId) {
    let ty = ran.columns.first().map_or(TypeId::TEXT, |column| column.1);
    let value = ran.rows.first_mut().and_then(|row| row.first_mut().map(|value| std::mem::replace(value, Value::NULL)));
    (value.unwrap_or(Value::NULL), ty)
}
