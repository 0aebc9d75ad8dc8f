//! A JSON value as a tree, for operations on `jsonb`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::slice::Iter;

use bumpalo::Bump;
use model::{Error, Numeric, Result, SqlState};

use super::lexer::{Escapes, Token};
use super::parse::{Container, Sink, parse};
use super::text::{unquoted, write_string};

/// Longest string in a `jsonb` value, as in PostgreSQL.
const STRING_BYTES_MAX: usize = 0x0FFF_FFFF;
/// A number with fewer digits than this is within the limits of `numeric`.
const DIGITS_UNCHECKED: usize = 10_000;

/// A value. Copying it is cheap, because its parts are in an arena.
#[derive(Clone, Copy, Debug)]
pub(super) enum Json<'t> {
    Null,
    String(&'t str),
    /// A number as `numeric` prints it.
    Number(&'t str),
    Bool(bool),
    Array(&'t [Json<'t>]),
    /// Members in the order of [`key_order`], each key once.
    Object(&'t [Member<'t>]),
}

pub(super) type Member<'t> = (&'t str, Json<'t>);

/// The order of keys in a `jsonb` object: by length, then by bytes.
pub(super) fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl<'t> Json<'t> {
    /// Parses a `jsonb` value, or a `json` value into what it is as `jsonb`.
    ///
    /// # Errors
    /// 22P02, 22P05, 22003, 54001.
    pub(super) fn parse(text: &'t str, arena: &'t Bump) -> Result<Json<'t>> {
        let mut builder = Builder { arena, values: Vec::new(), open: Vec::new() };
        parse(text, Escapes::Convert, &mut builder)?;
        Ok(builder.values.pop().unwrap_or(Json::Null))
    }

    pub(super) fn array(values: &[Json<'t>], arena: &'t Bump) -> Json<'t> {
        Json::Array(arena.alloc_slice_copy(values))
    }

    /// An object of members in any order; of two with the same key the last one counts.
    pub(super) fn object(mut members: Vec<Member<'t>>, arena: &'t Bump) -> Json<'t> {
        if !members.is_sorted_by(|a, b| key_order(a.0, b.0) == Ordering::Less) {
            members.reverse();
            members.sort_by(|a, b| key_order(a.0, b.0));
            members.dedup_by(|next, kept| next.0 == kept.0);
        }
        Json::Object(arena.alloc_slice_copy(&members))
    }

    pub(super) fn number(value: &Numeric, arena: &'t Bump) -> Json<'t> {
        Json::Number(arena.alloc_str(&value.to_string()))
    }

    pub(super) fn is_scalar(&self) -> bool {
        !matches!(self, Json::Array(_) | Json::Object(_))
    }

    /// The value of a member.
    pub(super) fn get(&self, key: &str) -> Option<Json<'t>> {
        let Json::Object(members) = self else { return None };
        let at = members.binary_search_by(|member| key_order(member.0, key)).ok()?;
        Some(members[at].1)
    }

    /// Appends the canonical text.
    pub(super) fn write(&self, out: &mut String) {
        let mut events = Events::new(*self);
        while let Some(event) = events.next() {
            if events.is_after_other {
                out.push_str(", ");
            }
            match event {
                Event::Open(Container::Array) => out.push('['),
                Event::Open(Container::Object) => out.push('{'),
                Event::Close(Container::Array) => out.push(']'),
                Event::Close(Container::Object) => out.push('}'),
                Event::Key(key) => {
                    write_string(out, key);
                    out.push_str(": ");
                }
                Event::Scalar(value) => value.write_scalar(out),
            }
        }
    }

    fn write_scalar(&self, out: &mut String) {
        match self {
            Json::String(text) => write_string(out, text),
            Json::Number(number) => out.push_str(number),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            _ => out.push_str("null"),
        }
    }

    /// PostgreSQL's order of `jsonb`: Null < String < Number < Boolean < Array < Object, where containers are
    /// compared by their number of elements before these.
    ///
    /// A scalar that is the whole value counts as an array of one, before every other array of one; hence an empty
    /// array is before every scalar.
    pub(super) fn compare(self, other: Json<'t>) -> Ordering {
        if let (Json::Array(items), true) = (self, other.is_scalar()) {
            return items.len().cmp(&1).then(Ordering::Greater);
        }
        if let (true, Json::Array(items)) = (self.is_scalar(), other) {
            return 1.cmp(&items.len()).then(Ordering::Less);
        }
        let (mut ours, mut theirs) = (Events::new(self), Events::new(other));
        loop {
            let order = match (ours.next(), theirs.next()) {
                (Some(Event::Key(a)), Some(Event::Key(b))) => a.cmp(b),
                (Some(Event::Scalar(a)), Some(Event::Scalar(b))) => compare_scalars(a, b),
                (Some(Event::Open(a)), Some(Event::Open(b))) => {
                    let kinds = (a == Container::Object).cmp(&(b == Container::Object));
                    kinds.then_with(|| ours.count().cmp(&theirs.count()))
                }
                (Some(Event::Open(_)), _) => Ordering::Greater,
                (_, Some(Event::Open(_))) => Ordering::Less,
                (None, _) => return Ordering::Equal,
                _ => Ordering::Equal,
            };
            if order != Ordering::Equal {
                return order;
            }
        }
    }
}

fn rank(value: Json<'_>) -> u8 {
    match value {
        Json::Null => 0,
        Json::String(_) => 1,
        Json::Number(_) => 2,
        Json::Bool(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    }
}

fn compare_scalars(a: Json<'_>, b: Json<'_>) -> Ordering {
    match (a, b) {
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => compare_numbers(a, b),
        (Json::Bool(a), Json::Bool(b)) => a.cmp(&b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn compare_numbers(a: &str, b: &str) -> Ordering {
    if a == b { Ordering::Equal } else { numeric(a).cmp(&numeric(b)) }
}

/// Whether two scalars are of one type and equal.
pub(super) fn equal_scalars(a: Json<'_>, b: Json<'_>) -> bool {
    a.is_scalar() && b.is_scalar() && compare_scalars(a, b) == Ordering::Equal
}

/// The value of a number in a tree.
pub(super) fn numeric(canonical: &str) -> Numeric {
    canonical.parse().unwrap_or(Numeric::NAN)
}

/// A JSON number as `numeric` prints it.
///
/// # Errors
/// 22003 for a number out of the range of `numeric`.
pub(super) fn canonical_number(written: &str) -> Result<Cow<'_, str>> {
    let has_exponent = written.bytes().any(|byte| matches!(byte, b'e' | b'E'));
    let may_be_zero = written.starts_with("-0");
    if has_exponent || may_be_zero || written.len() >= DIGITS_UNCHECKED {
        return Ok(Cow::Owned(written.parse::<Numeric>()?.to_string()));
    }
    Ok(Cow::Borrowed(written))
}

/// Checks the length of a string in a `jsonb` value.
///
/// # Errors
/// 54000
pub(super) fn check_string(text: &str) -> Result<()> {
    if text.len() <= STRING_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("Due to an implementation restriction, jsonb strings cannot exceed {STRING_BYTES_MAX} bytes.");
    let error = Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "string too long to represent as jsonb string");
    Err(error.with_detail(detail))
}

/// A part of a value.
#[derive(Clone, Copy)]
pub(super) enum Event<'t> {
    Open(Container),
    Close(Container),
    /// The state in which the value of a key follows.
    Key(&'t str),
    Scalar(Json<'t>),
}

/// The parts of a value in their order, without recursion.
pub(super) struct Events<'t> {
    /// The whole value at first, then the value of a member whose key was the last event.
    next: Option<Json<'t>>,
    open: Vec<Rest<'t>>,
    /// Whether the innermost open container has had no element yet.
    is_fresh: bool,
    /// Whether the last event follows another element of its container.
    is_after_other: bool,
}

enum Rest<'t> {
    Array(Iter<'t, Json<'t>>),
    Object(Iter<'t, Member<'t>>),
}

impl<'t> Events<'t> {
    pub(super) fn new(value: Json<'t>) -> Events<'t> {
        Events { next: Some(value), open: Vec::new(), is_fresh: true, is_after_other: false }
    }

    /// The number of elements that the innermost open container has left.
    fn count(&self) -> usize {
        self.open.last().map_or(0, |rest| match rest {
            Rest::Array(rest) => rest.len(),
            Rest::Object(rest) => rest.len(),
        })
    }

    pub(super) fn next(&mut self) -> Option<Event<'t>> {
        self.is_after_other = false;
        if let Some(value) = self.next.take() {
            return Some(self.enter(value));
        }
        let was_fresh = std::mem::take(&mut self.is_fresh);
        match self.open.last_mut()? {
            Rest::Array(rest) => match rest.next() {
                Some(value) => {
                    self.is_after_other = !was_fresh;
                    Some(self.enter(*value))
                }
                None => Some(self.leave(Container::Array)),
            },
            Rest::Object(rest) => match rest.next() {
                Some((key, value)) => {
                    self.is_after_other = !was_fresh;
                    self.next = Some(*value);
                    Some(Event::Key(key))
                }
                None => Some(self.leave(Container::Object)),
            },
        }
    }

    fn enter(&mut self, value: Json<'t>) -> Event<'t> {
        let (rest, container) = match value {
            Json::Array(items) => (Rest::Array(items.iter()), Container::Array),
            Json::Object(members) => (Rest::Object(members.iter()), Container::Object),
            scalar => return Event::Scalar(scalar),
        };
        self.open.push(rest);
        self.is_fresh = true;
        Event::Open(container)
    }

    fn leave(&mut self, container: Container) -> Event<'t> {
        self.open.pop();
        Event::Close(container)
    }
}

/// Makes a tree. The values of open containers are on one stack, those of objects behind their keys.
struct Builder<'t> {
    arena: &'t Bump,
    values: Vec<Json<'t>>,
    /// For each open container the first of its values.
    open: Vec<usize>,
}

impl<'t> Builder<'t> {
    fn string(&self, written: &'t str) -> Result<&'t str> {
        let text = unquoted(written, self.arena);
        check_string(text)?;
        Ok(text)
    }
}

impl<'t> Sink<'t> for Builder<'t> {
    fn open(&mut self, _: Container) {
        self.open.push(self.values.len());
    }

    fn key(&mut self, written: &'t str) -> Result<()> {
        let key = self.string(written)?;
        self.values.push(Json::String(key));
        Ok(())
    }

    fn scalar(&mut self, token: Token, written: &'t str) -> Result<()> {
        let value = match token {
            Token::String => Json::String(self.string(written)?),
            Token::Number => Json::Number(match canonical_number(written)? {
                Cow::Borrowed(number) => number,
                Cow::Owned(number) => self.arena.alloc_str(&number),
            }),
            Token::True => Json::Bool(true),
            Token::False => Json::Bool(false),
            _ => Json::Null,
        };
        self.values.push(value);
        Ok(())
    }

    fn close(&mut self, container: Container) {
        let first = self.open.pop().unwrap_or_default();
        let value = match container {
            Container::Array => Json::array(&self.values[first..], self.arena),
            Container::Object => {
                let members = self.values[first..].chunks_exact(2).filter_map(|pair| match pair {
                    [Json::String(key), value] => Some((*key, *value)),
                    _ => None,
                });
                Json::object(members.collect(), self.arena)
            }
        };
        self.values.truncate(first);
        self.values.push(value);
    }
}
