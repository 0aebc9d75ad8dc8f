//! Frames of window functions: the rows around each row of a partition.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use bumpalo::Bump;
use catalog::{TypeId, builtin};
use model::{Datum, Error, Numeric, Result, SqlState};
use parser::ast::{FrameExclude, FrameUnit};
use scalar::{Call, Context, Value};

use crate::arrow::datum;
use crate::evaluation::evaluate::Program;

/// A frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: Edge,
    pub(crate) end: Edge,
    pub(crate) exclude: FrameExclude,
    /// The sort key that offsets of RANGE are added to.
    pub(crate) range: Option<RangeKey>,
}

/// The sort key of a RANGE frame.
#[derive(Debug)]
pub(crate) struct RangeKey {
    pub(crate) value: Program,
    pub(crate) descending: bool,
}

/// A bound.
#[derive(Debug)]
pub(crate) enum Edge {
    UnboundedPreceding,
    Preceding(Program),
    CurrentRow,
    Following(Program),
    UnboundedFollowing,
}

/// A bound with the value of its offset.
enum Bound {
    UnboundedPreceding,
    /// A distance; below 0 are rows before.
    Rows(i64),
    /// An offset of a sort key, and whether it is subtracted in the direction of the order.
    Value {
        offset: Value,
        is_before: bool,
    },
    Current,
    UnboundedFollowing,
}

/// Peers of a partition's rows: rows that the order does not distinguish.
pub(crate) struct Peers {
    /// The first row of each group of peers, and the number of rows at the end.
    pub(crate) starts: Vec<usize>,
    /// The group of each row.
    pub(crate) group: Vec<usize>,
}

impl Peers {
    pub(crate) fn of(&self, row: usize) -> Range<usize> {
        let group = self.group[row];
        self.starts[group]..self.starts[group + 1]
    }

    fn groups(&self) -> usize {
        self.starts.len() - 1
    }
}

/// The frames of a partition.
pub(crate) struct Frames<'p> {
    unit: FrameUnit,
    start: Bound,
    end: Bound,
    exclude: FrameExclude,
    peers: &'p Peers,
    rows: usize,
    range: Option<Keys>,
    ctx_session: &'p scalar::Session,
}

/// Values of the sort key of a RANGE frame.
struct Keys {
    values: Vec<Key>,
    ty: TypeId,
    descending: bool,
    /// Rows whose key is not NULL.
    known: Range<usize>,
}

/// A value that an offset is added to.
#[derive(Clone, Debug)]
enum Key {
    Null,
    Whole(i128),
    Float(f64),
    Numeric(Numeric),
    Timestamp(i64),
    Timestamptz(i64),
}

impl<'p> Frames<'p> {
    /// `keys`: values of the sort key, for RANGE with offsets.
    pub(crate) fn new(
        frame: &'p Frame,
        peers: &'p Peers,
        rows: usize,
        keys: Option<&ArrayRef>,
        session: &'p scalar::Session,
    ) -> Result<Frames<'p>> {
        let is_value = frame.range.is_some();
        let start = frame.start.bound(is_value, "starting", session)?;
        let end = frame.end.bound(is_value, "ending", session)?;
        let range = match (&frame.range, keys) {
            (Some(range), Some(keys)) => Some(Keys::new(range, keys)?),
            _ => None,
        };
        Ok(Frames { unit: frame.unit, start, end, exclude: frame.exclude, peers, rows, range, ctx_session: session })
    }

    /// The rows of a row's frame, in order.
    pub(crate) fn of(&self, row: usize) -> Result<Vec<Range<usize>>> {
        let start = self.edge(row, &self.start, true)?;
        let end = self.edge(row, &self.end, false)?.max(start);
        let whole = start..end;
        let without = |left_out: Range<usize>, whole: Range<usize>| {
            let before = whole.start..left_out.start.clamp(whole.start, whole.end);
            let behind = left_out.end.clamp(whole.start, whole.end)..whole.end;
            [before, behind]
        };
        let mut parts = match self.exclude {
            FrameExclude::NoOthers => vec![whole],
            FrameExclude::CurrentRow => without(row..row + 1, whole).into(),
            FrameExclude::Group => without(self.peers.of(row), whole).into(),
            FrameExclude::Ties => {
                let [before, behind] = without(self.peers.of(row), whole.clone());
                let current = if whole.contains(&row) { row..row + 1 } else { 0..0 };
                vec![before, current, behind]
            }
        };
        parts.retain(|part| !part.is_empty());
        Ok(parts)
    }

    /// The first row of the frame, or the row behind its last one.
    fn edge(&self, row: usize, bound: &Bound, is_start: bool) -> Result<usize> {
        let side = |rows: Range<usize>| if is_start { rows.start } else { rows.end };
        Ok(match bound {
            Bound::UnboundedPreceding => 0,
            Bound::UnboundedFollowing => self.rows,
            Bound::Current if self.unit == FrameUnit::Rows => side(row..row + 1),
            Bound::Current => side(self.peers.of(row)),
            Bound::Rows(distance) if self.unit == FrameUnit::Groups => {
                let group = (self.peers.group[row] as i64).saturating_add(*distance);
                match usize::try_from(group) {
                    Err(_) => 0,
                    Ok(group) if group >= self.peers.groups() => self.rows,
                    Ok(group) => side(self.peers.starts[group]..self.peers.starts[group + 1]),
                }
            }
            Bound::Rows(distance) => {
                let at = (row as i64).saturating_add(*distance).saturating_add(i64::from(!is_start));
                usize::try_from(at).unwrap_or(0).min(self.rows)
            }
            Bound::Value { offset, is_before } => match &self.range {
                Some(keys) => keys.edge(row, offset, *is_before, is_start, self.peers, self.ctx_session)?,
                None => return Err(Error::bug("a RANGE frame without its sort key")),
            },
        })
    }
}

impl Edge {
    fn bound(&self, is_value: bool, which: &str, session: &scalar::Session) -> Result<Bound> {
        let (program, is_before) = match self {
            Edge::UnboundedPreceding => return Ok(Bound::UnboundedPreceding),
            Edge::UnboundedFollowing => return Ok(Bound::UnboundedFollowing),
            Edge::CurrentRow => return Ok(Bound::Current),
            Edge::Preceding(program) => (program, true),
            Edge::Following(program) => (program, false),
        };
        let arena = Bump::new();
        let value = program.eval(&(), &Context { arena: &arena, session })?;
        if value.is_null() {
            return Err(Error::new(SqlState("22004"), format!("frame {which} offset must not be null")));
        }
        let invalid = SqlState("22013");
        if is_value {
            if is_negative(&value) {
                return Err(Error::new(invalid, "invalid preceding or following size in window function"));
            }
            return Ok(Bound::Value { offset: Value::of(&value), is_before });
        }
        let Datum::Int8(count) = value else { return Err(Error::bug("an offset of rows that is no bigint")) };
        if count < 0 {
            return Err(Error::new(invalid, format!("frame {which} offset must not be negative")));
        }
        Ok(Bound::Rows(if is_before { -count } else { count }))
    }
}

fn is_negative(value: &Datum<'_>) -> bool {
    match value {
        Datum::Int2(value) => *value < 0,
        Datum::Int4(value) => *value < 0,
        Datum::Int8(value) => *value < 0,
        Datum::Float4(value) => value.is_nan() || *value < 0.0,
        Datum::Float8(value) => value.is_nan() || *value < 0.0,
        Datum::Numeric(value) => value.is_nan() || *value < Numeric::ZERO,
        Datum::Interval(value) => value.span_micros() < 0,
        _ => false,
    }
}

impl Keys {
    fn new(range: &RangeKey, array: &ArrayRef) -> Result<Keys> {
        let ty = builtin().base_type(range.value.expr.ty);
        let values = (0..array.len()).map(|row| Key::of(&datum(array.as_ref(), row, ty)?));
        let values: Vec<Key> = values.collect::<Result<_>>()?;
        let is_known = |key: &Key| !matches!(key, Key::Null);
        let from = values.iter().position(is_known).unwrap_or(0);
        let to = values.iter().rposition(is_known).map_or(0, |last| last + 1);
        Ok(Keys { values, ty, descending: range.descending, known: from..to })
    }

    fn edge(
        &self,
        row: usize,
        offset: &Value,
        is_before: bool,
        is_start: bool,
        peers: &Peers,
        session: &scalar::Session,
    ) -> Result<usize> {
        let base = &self.values[row];
        if matches!(base, Key::Null) {
            let peers = peers.of(row);
            return Ok(if is_start { peers.start } else { peers.end });
        }
        // In a descending order, rows before have larger values.
        let is_less = is_before != self.descending;
        // An infinite offset from the same infinity takes in every number.
        let is_low = is_start != self.descending;
        let limit = base.shifted(&offset.datum(), (is_less, is_low), self.ty, session)?;
        let is_outside = |key: &Key| {
            let order = key.compare(&limit);
            let order = if self.descending { order.reverse() } else { order };
            if is_start { order == Ordering::Less } else { order != Ordering::Greater }
        };
        Ok(self.known.start + self.values[self.known.clone()].partition_point(is_outside))
    }
}

impl Key {
    fn of(value: &Datum<'_>) -> Result<Key> {
        Ok(match value {
            Datum::Null => Key::Null,
            Datum::Int2(value) => Key::Whole((*value).into()),
            Datum::Int4(value) => Key::Whole((*value).into()),
            Datum::Int8(value) | Datum::Time(value) => Key::Whole((*value).into()),
            Datum::Interval(value) => Key::Whole(value.span_micros()),
            Datum::Float4(value) => Key::Float((*value).into()),
            Datum::Float8(value) => Key::Float(*value),
            Datum::Numeric(value) => Key::Numeric(value.clone()),
            Datum::Date(i32::MIN) => Key::Timestamp(i64::MIN),
            Datum::Date(i32::MAX) => Key::Timestamp(i64::MAX),
            Datum::Date(days) => Key::Timestamp(i64::from(*days).saturating_mul(86_400_000_000)),
            Datum::Timestamp(value) => Key::Timestamp(*value),
            Datum::Timestamptz(value) => Key::Timestamptz(*value),
            other => {
                let text = format!("a RANGE frame with an offset is not supported for {}", other.type_name());
                return Err(Error::unsupported(text));
            }
        })
    }

    fn compare(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Whole(a), Key::Whole(b)) => a.cmp(b),
            (Key::Float(a), Key::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
            (Key::Numeric(a), Key::Numeric(b)) => a.cmp(b),
            (Key::Timestamp(a), Key::Timestamp(b)) | (Key::Timestamptz(a), Key::Timestamptz(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }

    /// The value less or more an offset. `is_low`: whether the limit is the lowest number if it is not defined.
    fn shifted(
        &self,
        offset: &Datum<'_>,
        (is_less, is_low): (bool, bool),
        ty: TypeId,
        session: &scalar::Session,
    ) -> Result<Key> {
        let sign = if is_less { -1 } else { 1 };
        let whole = |offset: i128, base: i128| Ok(Key::Whole(base.saturating_add(offset.saturating_mul(sign))));
        match (self, offset) {
            (Key::Whole(base), Datum::Int2(offset)) => whole((*offset).into(), *base),
            (Key::Whole(base), Datum::Int4(offset)) => whole((*offset).into(), *base),
            (Key::Whole(base), Datum::Int8(offset)) => whole((*offset).into(), *base),
            // Days and months of an offset of a time do not count.
            (Key::Whole(base), Datum::Interval(offset)) if ty == TypeId::TIME => whole(offset.micros.into(), *base),
            (Key::Whole(base), Datum::Interval(offset)) => whole(offset.span_micros(), *base),
            (Key::Float(base), Datum::Float8(offset)) => Ok(Key::Float(shifted_float(*base, *offset, is_less, is_low))),
            (Key::Float(base), Datum::Float4(offset)) => {
                Ok(Key::Float(shifted_float(*base, (*offset).into(), is_less, is_low)))
            }
            (Key::Numeric(base), Datum::Numeric(offset)) => {
                let limit = if is_less { base.sub(offset)? } else { base.add(offset)? };
                let is_lost = limit.is_nan() && !base.is_nan();
                let infinite = if is_low { Numeric::MINUS_INFINITY } else { Numeric::PLUS_INFINITY };
                Ok(Key::Numeric(if is_lost { infinite } else { limit }))
            }
            (Key::Timestamp(i64::MIN | i64::MAX) | Key::Timestamptz(i64::MIN | i64::MAX), Datum::Interval(_)) => {
                Ok(self.clone())
            }
            (Key::Timestamp(base), Datum::Interval(_)) => {
                shifted_moment(&Datum::Timestamp(*base), TypeId::TIMESTAMP, offset, is_less, session)
            }
            (Key::Timestamptz(base), Datum::Interval(_)) => {
                shifted_moment(&Datum::Timestamptz(*base), TypeId::TIMESTAMPTZ, offset, is_less, session)
            }
            _ => Err(Error::unsupported("a RANGE frame with an offset is not supported for these types")),
        }
    }
}

fn shifted_float(base: f64, offset: f64, is_less: bool, is_low: bool) -> f64 {
    let limit = if is_less { base - offset } else { base + offset };
    match limit.is_nan() && !base.is_nan() {
        true if is_low => f64::NEG_INFINITY,
        true => f64::INFINITY,
        false => limit,
    }
}

fn shifted_moment(
    base: &Datum<'_>,
    ty: TypeId,
    offset: &Datum<'_>,
    is_less: bool,
    session: &scalar::Session,
) -> Result<Key> {
    let operator = builtin().operator(if is_less { "-" } else { "+" }, Some(ty), TypeId::INTERVAL)?;
    let call = Call {
        function: operator.operator.function,
        operator: None,
        arguments: Box::new([ty, TypeId::INTERVAL]),
        result: ty,
    };
    let arena = Bump::new();
    let ctx = Context { arena: &arena, session };
    let values = [scalar::value::copied(base, &arena), scalar::value::copied(offset, &arena)];
    Key::of(&scalar::eval::apply(&call, &values, &ctx)?)
}
