//! Sequence functions and random numbers.

use env::Event;
use model::{Datum, Error, Result, SequenceRef, SqlState, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::bind::{Bind, Binder, ExprScope, Refusal, Typed, fold_ident};
use crate::cast::Context;
use crate::ddl::quoted;
use crate::expr::{Expr, Frame, Value};
use crate::scope::Tables;

/// Session state behind volatile functions: sequences and random numbers.
///
/// Sequence values that were taken stay taken, whatever happens to the statement. The caller must not send them to
/// a client before their reservation is durable.
pub trait Numbers {
    /// `nextval`. `Ok(Err(event))`: wait, then run the statement again.
    ///
    /// # Errors
    /// 2200H at the end of the sequence; 42P01.
    fn next(&self, sequence: u32) -> Result<std::result::Result<i64, Event>>;

    /// `currval`: the last value this session took from the sequence.
    fn current(&self, sequence: u32) -> Option<i64>;

    /// `lastval`: the last value this session took from any sequence.
    fn last(&self) -> Option<i64>;

    /// `setval`: the next value follows `number`, or is `number` unless `is_called`.
    ///
    /// # Errors
    /// 22003 for a number beyond the sequence's bounds; 42P01.
    fn set(&self, sequence: u32, number: i64, is_called: bool) -> Result<std::result::Result<(), Event>>;

    /// A uniformly distributed random number.
    fn random(&self) -> u64;
}

/// A function of session state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SessionFunction {
    /// `nextval`
    Next(SequenceRef),
    /// `currval`
    Current(SequenceRef),
    /// `lastval`
    Last,
    /// `setval`; arguments: the value, and optionally `is_called`.
    Set(SequenceRef),
    /// `random`: in [0, 1).
    Random,
    /// `gen_random_uuid`
    Uuid,
}

impl SessionFunction {
    /// Whether it changes a sequence.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, SessionFunction::Next(_) | SessionFunction::Set(_))
    }

    pub(crate) fn eval<'a>(&self, of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
        let numbers = frame.ctx.numbers()?;
        let number = match self {
            SessionFunction::Next(sequence) => numbers.next(sequence.id)?.map_err(|event| frame.ctx.wait(event))?,
            SessionFunction::Current(sequence) => numbers
                .current(sequence.id)
                .ok_or_else(|| not_yet(&format!("currval of sequence \"{}\"", sequence.name.table)))?,
            SessionFunction::Random => {
                return Ok(Datum::Float8((numbers.random() >> 11) as f64 / (1_u64 << 53) as f64));
            }
            SessionFunction::Uuid => return Ok(Datum::Uuid(uuid(numbers.random(), numbers.random()))),
            SessionFunction::Last => numbers.last().ok_or_else(|| not_yet("lastval"))?,
            SessionFunction::Set(sequence) => {
                let (number, called) = (of.first(), of.get(1));
                let Some(Datum::Int8(number)) = number.map(|number| number.eval(frame)).transpose()? else {
                    return Ok(Datum::Null);
                };
                let is_called = match called.map(|called| called.eval(frame)).transpose()? {
                    None => true,
                    Some(Datum::Bool(called)) => called,
                    Some(_) => return Ok(Datum::Null),
                };
                numbers.set(sequence.id, number, is_called)?.map_err(|event| frame.ctx.wait(event))?;
                number
            }
        };
        Ok(Datum::Int8(number))
    }
}

/// A random UUID, version 4.
fn uuid(high: u64, low: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

fn not_yet(what: &str) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("{what} is not yet defined in this session"))
}

/// Whether the function takes a sequence.
#[must_use]
pub fn is_of_sequence(name: &str) -> bool {
    ["nextval", "currval", "lastval", "setval", "pg_get_serial_sequence"].contains(&name)
}

/// Binds a call of one of these functions; `None` for other functions.
pub(crate) fn bind(
    binder: &mut Binder,
    name: &str,
    call: &ast::Function,
    scope: &mut dyn ExprScope,
) -> Bind<Option<Typed>> {
    let Some(args) = arguments(call) else { return Ok(None) };
    let (number, more) = match (name, args.as_slice()) {
        ("random", []) => {
            return Ok(Some(Typed::new(Expr::SessionCall(SessionFunction::Random, Vec::new()), Type::Float8)));
        }
        ("gen_random_uuid", []) => {
            return Ok(Some(Typed::new(Expr::SessionCall(SessionFunction::Uuid, Vec::new()), Type::Uuid)));
        }
        ("lastval", []) => (SessionFunction::Last, &[][..]),
        ("nextval", [of]) => (SessionFunction::Next(sequence(of, scope)?), &[][..]),
        ("currval", [of]) => (SessionFunction::Current(sequence(of, scope)?), &[][..]),
        ("setval", [of, more @ ..]) if (1..=2).contains(&more.len()) => {
            (SessionFunction::Set(sequence(of, scope)?), more)
        }
        ("pg_get_serial_sequence", [table, column]) => {
            let name = serial_sequence(table, column, scope)?.map(|sequence| display_name(&sequence));
            let value = name.map_or(Value::Plain(Datum::Null), |name| Value::Text(name.into()));
            return Ok(Some(Typed::new(Expr::Value(value), Type::Text)));
        }
        _ => return Ok(None),
    };
    binder.counts |= number.writes();
    let types = [Type::Int8, Type::Bool];
    let mut of = Vec::with_capacity(more.len());
    for (one, ty) in more.iter().zip(types) {
        let bound = binder.expr(one, scope)?;
        of.push(binder.cast(bound, ty, Context::Explicit)?.expr);
    }
    Ok(Some(Typed::new(Expr::SessionCall(number, of), Type::Int8)))
}

fn arguments(call: &ast::Function) -> Option<Vec<&ast::Expr>> {
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let expr =
        |arg| if let &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref arg)) = arg { Some(arg) } else { None };
    list.args.iter().map(expr).collect()
}

/// The sequence named by an argument.
fn sequence(of: &ast::Expr, scope: &dyn ExprScope) -> Bind<SequenceRef> {
    let tables = scope.tables().ok_or(Refusal::Unsupported)?;
    if let ast::Expr::Function(call) = of
        && let Some([table, column]) = arguments(call).as_deref()
        && crate::functions::function_name(&call.name).is_some_and(|name| name == "pg_get_serial_sequence")
    {
        let found = serial_sequence(table, column, scope)?;
        return found.ok_or_else(|| Error::unsupported("the column has no sequence").into());
    }
    let text = text(of).ok_or_else(|| {
        Error::unsupported("the name of a sequence must be a string literal")
            .with_hint("write the name as in nextval('orders_id_seq')")
    })?;
    let (schema, name) = named(text)?;
    let nearest = scope.schema().filter(|_| schema.is_none()).and_then(|near| tables.sequence(Some(near), &name));
    if let Some(found) = nearest.or_else(|| tables.sequence(schema.as_deref(), &name)) {
        return Ok(found);
    }
    Err(match tables.table(schema.as_deref(), &name) {
        Some(_) => Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")),
        None => no_relation(schema.as_deref(), &name),
    }
    .into())
}

fn no_relation(schema: Option<&str>, name: &str) -> Error {
    let schema = schema.map(|schema| format!("{schema}.")).unwrap_or_default();
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{schema}{name}\" does not exist"))
}

/// A string literal, possibly under casts.
fn text(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Nested(inner) => text(inner),
        ast::Expr::Cast { expr, .. } => text(expr),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Parses a qualified name in a string literal.
fn named(text: &str) -> Result<(Option<String>, String)> {
    let name = crate::dialect::parser_of(text).and_then(|mut parser| parser.parse_object_name(false));
    let parts: Option<Vec<String>> =
        name.ok().and_then(|name| name.0.iter().map(|part| part.as_ident().map(fold_ident)).collect());
    match parts.as_deref() {
        Some([name]) => Ok((None, name.clone())),
        Some([.., schema, name]) => Ok((Some(schema.clone()), name.clone())),
        _ => Err(Error::new(SqlState::INVALID_NAME, "invalid name syntax")),
    }
}

/// `pg_get_serial_sequence(table, column)`: the table is parsed as an identifier, the column is taken literally.
fn serial_sequence(table: &ast::Expr, column: &ast::Expr, scope: &dyn ExprScope) -> Bind<Option<SequenceRef>> {
    let tables = scope.tables().ok_or(Refusal::Unsupported)?;
    let (table, column) = (text(table).ok_or(Refusal::Unsupported)?, text(column).ok_or(Refusal::Unsupported)?);
    let (schema, name) = named(table)?;
    let table = tables.table(schema.as_deref(), &name).ok_or_else(|| no_relation(schema.as_deref(), &name))?;
    let at = table.schema.column(column).ok_or_else(|| {
        let text = format!("column \"{column}\" of relation \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_COLUMN, text)
    })?;
    Ok(of_column(&table, at, tables))
}

/// The sequence owned by a column, found through its default.
fn of_column(table: &RowTable, column: usize, tables: &dyn Tables) -> Option<SequenceRef> {
    let default = table.schema.columns[column].default.as_ref()?;
    let parsed = crate::dialect::parser_of(default).and_then(|mut parser| parser.parse_expr());
    let Ok(ast::Expr::Function(call)) = parsed else { return None };
    let (schema, name) = named(text(arguments(&call)?.first()?)?).ok()?;
    let found = tables.sequence(schema.as_deref(), &name)?;
    let owner = found.owner?;
    (owner.table == table.id() && owner.column == column).then_some(found)
}

/// `schema.name`, quoted where necessary.
fn display_name(sequence: &SequenceRef) -> String {
    format!("{}.{}", quoted(&sequence.name.schema), quoted(&sequence.name.table))
}
