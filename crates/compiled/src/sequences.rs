//! Sequence functions and random numbers.

use env::Event;
use model::{Datum, Error, Result, SequenceRef, SqlState};

use crate::expr::{Expr, Frame};

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
    /// `gen_random_uuid`, `uuid_generate_v4`
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
