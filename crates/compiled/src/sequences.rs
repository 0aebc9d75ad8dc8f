//! Numbers of sequences, and random ones, as expressions ask for them.

use env::Event;
use model::{Datum, Error, Result, SequenceRef, SqlState, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::bind::{Around, Bind, Binder, Refusal, Typed, folded};
use crate::cast::Context;
use crate::ddl::quoted;
use crate::expr::{Expr, Frame, Value};
use crate::scope::Tables;

/// What a statement takes from its session that is other each time: numbers of sequences, and random ones.
///
/// Numbers of sequences that were taken stay taken, whatever becomes of the statement. They are not to be shown before what reserved
/// them is durable: whoever answers the client sees to that.
pub trait Numbers {
    /// The next number of the sequence with this id; from now on it is its current one in this session, and the last of all.
    ///
    /// # Errors
    /// 2200H at its end; 42P01.
    fn next(&self, sequence: u32) -> Result<std::result::Result<i64, Event>>;

    /// The number that this session had last of a sequence, if it had one.
    fn current(&self, sequence: u32) -> Option<i64>;

    /// The number that this session had last of any sequence, if it had one.
    fn last(&self) -> Option<i64>;

    /// Has a sequence go on after a number, or, unless `is_called`, with it.
    ///
    /// # Errors
    /// 22003 for a number beyond its bounds; 42P01.
    fn set(&self, sequence: u32, number: i64, is_called: bool) -> Result<std::result::Result<(), Event>>;

    /// A random number, all as likely.
    fn random(&self) -> u64;
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    /// `nextval`
    Next(SequenceRef),
    /// `currval`
    Current(SequenceRef),
    /// `lastval`
    Last,
    /// `setval`, of a number and perhaps whether it was called.
    Set(SequenceRef),
    /// `random`: from 0 on, below 1.
    Random,
    /// `gen_random_uuid`
    Uuid,
}

impl Number {
    /// Does it change a sequence?
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Number::Next(_) | Number::Set(_))
    }

    pub(crate) fn eval<'a>(&self, of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
        let numbers = frame.world.numbers()?;
        let number = match self {
            Number::Next(sequence) => numbers.next(sequence.id)?.map_err(|event| frame.world.wait(event))?,
            Number::Current(sequence) => numbers
                .current(sequence.id)
                .ok_or_else(|| not_yet(&format!("currval of sequence \"{}\"", sequence.name.table)))?,
            Number::Random => return Ok(Datum::Float8((numbers.random() >> 11) as f64 / (1_u64 << 53) as f64)),
            Number::Uuid => return Ok(Datum::Uuid(uuid(numbers.random(), numbers.random()))),
            Number::Last => numbers.last().ok_or_else(|| not_yet("lastval"))?,
            Number::Set(sequence) => {
                let (number, called) = (of.first(), of.get(1));
                let Some(Datum::Int8(number)) = number.map(|number| number.eval(frame)).transpose()? else {
                    return Ok(Datum::Null);
                };
                let is_called = match called.map(|called| called.eval(frame)).transpose()? {
                    None => true,
                    Some(Datum::Bool(called)) => called,
                    Some(_) => return Ok(Datum::Null),
                };
                numbers.set(sequence.id, number, is_called)?.map_err(|event| frame.world.wait(event))?;
                number
            }
        };
        Ok(Datum::Int8(number))
    }
}

/// A UUID of version 4.
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

/// Does this function ask for a sequence?
pub(crate) fn is_of_sequence(name: &str) -> bool {
    ["nextval", "currval", "lastval", "setval", "pg_get_serial_sequence"].contains(&name)
}

/// Binds a call of one of these functions; `None` for others.
pub(crate) fn bind(
    binder: &mut Binder,
    name: &str,
    call: &ast::Function,
    around: &mut dyn Around,
) -> Bind<Option<Typed>> {
    let Some(args) = arguments(call) else { return Ok(None) };
    let (number, more) = match (name, args.as_slice()) {
        ("random", []) => return Ok(Some(Typed::new(Expr::Number(Number::Random, Vec::new()), Type::Float8))),
        ("gen_random_uuid", []) => return Ok(Some(Typed::new(Expr::Number(Number::Uuid, Vec::new()), Type::Uuid))),
        ("lastval", []) => (Number::Last, &[][..]),
        ("nextval", [of]) => (Number::Next(sequence(of, around)?), &[][..]),
        ("currval", [of]) => (Number::Current(sequence(of, around)?), &[][..]),
        ("setval", [of, more @ ..]) if (1..=2).contains(&more.len()) => (Number::Set(sequence(of, around)?), more),
        ("pg_get_serial_sequence", [table, column]) => {
            let name = serial_sequence(table, column, around)?.map(|sequence| shown(&sequence));
            let value = name.map_or(Value::Plain(Datum::Null), |name| Value::Text(name.into()));
            return Ok(Some(Typed::new(Expr::Value(value), Type::Text)));
        }
        _ => return Ok(None),
    };
    binder.counts |= number.writes();
    let types = [Type::Int8, Type::Bool];
    let mut of = Vec::with_capacity(more.len());
    for (one, ty) in more.iter().zip(types) {
        let bound = binder.expr(one, around)?;
        of.push(binder.cast(bound, ty, Context::Explicit)?.expr);
    }
    Ok(Some(Typed::new(Expr::Number(number, of), Type::Int8)))
}

fn arguments(call: &ast::Function) -> Option<Vec<&ast::Expr>> {
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let expr =
        |arg| if let &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref arg)) = arg { Some(arg) } else { None };
    list.args.iter().map(expr).collect()
}

/// The sequence that an argument names.
fn sequence(of: &ast::Expr, around: &dyn Around) -> Bind<SequenceRef> {
    let tables = around.tables().ok_or(Refusal::Other)?;
    if let ast::Expr::Function(call) = of
        && let Some([table, column]) = arguments(call).as_deref()
        && crate::functions::function_name(&call.name).is_some_and(|name| name == "pg_get_serial_sequence")
    {
        let found = serial_sequence(table, column, around)?;
        return found.ok_or_else(|| Error::unsupported("a column without a sequence gives no number").into());
    }
    let text = text(of).ok_or_else(|| {
        Error::unsupported("a sequence whose name is not written out is not supported")
            .with_hint("write its name as a string, as in nextval('orders_id_seq')")
    })?;
    let (schema, name) = named(text)?;
    let nearest = around.schema().filter(|_| schema.is_none()).and_then(|near| tables.sequence(Some(near), &name));
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

/// A string that is written out, whatever it is cast to.
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

/// The schema and the name that a string holds as SQL would.
fn named(text: &str) -> Result<(Option<String>, String)> {
    let name = crate::dialect::parser_of(text).and_then(|mut parser| parser.parse_object_name(false));
    let parts: Option<Vec<String>> =
        name.ok().and_then(|name| name.0.iter().map(|part| part.as_ident().map(folded)).collect());
    match parts.as_deref() {
        Some([name]) => Ok((None, name.clone())),
        Some([.., schema, name]) => Ok((Some(schema.clone()), name.clone())),
        _ => Err(Error::new(SqlState::INVALID_NAME, "invalid name syntax")),
    }
}

/// The sequence that goes with a column, both named by strings: the table's as SQL has it, the column's as it is.
fn serial_sequence(table: &ast::Expr, column: &ast::Expr, around: &dyn Around) -> Bind<Option<SequenceRef>> {
    let tables = around.tables().ok_or(Refusal::Other)?;
    let (table, column) = (text(table).ok_or(Refusal::Other)?, text(column).ok_or(Refusal::Other)?);
    let (schema, name) = named(table)?;
    let table = tables.table(schema.as_deref(), &name).ok_or_else(|| no_relation(schema.as_deref(), &name))?;
    let at = table.schema.column(column).ok_or_else(|| {
        let text = format!("column \"{column}\" of relation \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_COLUMN, text)
    })?;
    Ok(of_column(&table, at, tables))
}

/// The sequence of a column, by its default.
fn of_column(table: &RowTable, column: usize, tables: &dyn Tables) -> Option<SequenceRef> {
    let default = table.schema.columns[column].default.as_ref()?;
    let parsed = crate::dialect::parser_of(default).and_then(|mut parser| parser.parse_expr());
    let Ok(ast::Expr::Function(call)) = parsed else { return None };
    let (schema, name) = named(text(arguments(&call)?.first()?)?).ok()?;
    let found = tables.sequence(schema.as_deref(), &name)?;
    let owner = found.owner?;
    (owner.table == table.id() && owner.column == column).then_some(found)
}

/// `schema.name`, quoted where that is needed.
fn shown(sequence: &SequenceRef) -> String {
    format!("{}.{}", quoted(&sequence.name.schema), quoted(&sequence.name.table))
}
