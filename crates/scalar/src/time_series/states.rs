//! `duration_in` and `state_durations`: how long a state held. A state holds from its point to the next one; the last one has
//! no end, so it counts for nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::TypeId;
use model::{Datum, Error, Interval, Numeric, Range, RangeBound, Result};
use rustc_hash::FxHashMap;

use super::points::{Point, Points};
use super::{Clock, changed, mismatch, time_of};
use crate::context::Context;
use crate::expr::Call;
use crate::json;
use crate::registry::{self, Accumulator};
use crate::value::Value;

/// `duration_in(state_value, state, time)`: seconds.
pub(super) fn duration_in(call: &Call) -> Box<dyn Accumulator> {
    Box::new(DurationIn { states: States::new(call, 1), wanted: Value::NULL, clock: Clock::of(call, 2) })
}

/// `state_durations(state, time)`: a `jsonb` object of seconds by state.
pub(super) fn state_durations(call: &Call) -> Box<dyn Accumulator> {
    let is_whole = call.arguments.get(1) == Some(&TypeId::INT8);
    Box::new(StateDurations { states: States::new(call, 0), scale: if is_whole { 0 } else { MICROS_SCALE } })
}

/// Decimals of a number of seconds that is written as microseconds.
const MICROS_SCALE: u32 = 6;

const DAY_MICROS: i128 = 86_400_000_000;
/// A month has 30 days where intervals are compared.
const MONTH_MICROS: i128 = 30 * DAY_MICROS;

/// Memory in bytes of a member of the result beside its key: the member, and the text of its number.
const MEMBER_BYTES: usize = size_of::<(String, Datum<'_>, TypeId)>() + 32;

/// Points whose values are numbers of states.
struct States {
    /// Type of the states.
    ty: TypeId,
    /// The number of each state, by its text. Equal states have one text, see [`normal`].
    numbers: FxHashMap<Box<str>, u32>,
    /// The states by their number.
    values: Vec<(Value, Box<str>)>,
    values_bytes: usize,
    /// Bytes of the texts of all states.
    texts_bytes: usize,
    points: Points<u32>,
    text: String,
}

impl States {
    fn new(call: &Call, argument: usize) -> States {
        States {
            ty: call.arguments.get(argument).copied().unwrap_or(TypeId::TEXT),
            numbers: FxHashMap::default(),
            values: Vec::new(),
            values_bytes: 0,
            texts_bytes: 0,
            points: Points::default(),
            text: String::new(),
        }
    }

    fn add(&mut self, state: &Datum<'_>, time: &Datum<'_>, ctx: &Context<'_>) -> Result<()> {
        let time = time_of(time)?;
        let number = self.number(state, ctx)?;
        let (values, ty) = (&self.values, self.ty);
        self.points.push(Point { time, value: number }, |a, b| compared(values, ty, *a, *b));
        Ok(())
    }

    /// The number of a state. Its text is that which its type's output gives.
    fn number(&mut self, state: &Datum<'_>, ctx: &Context<'_>) -> Result<u32> {
        let state = &normal(state);
        let text = match state {
            Datum::Text(text) => text,
            state => {
                self.text.clear();
                registry::output(state, self.ty, ctx, &mut self.text)?;
                self.text.as_str()
            }
        };
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        let number = u32::try_from(self.values.len()).map_err(|_| Error::bug("more than 2^32 states"))?;
        let (key, value): (Box<str>, Value) = (text.into(), Value::of(state));
        self.values_bytes += 2 * key.len() + value.heap_size() + size_of::<(Value, Box<str>, Box<str>, u32)>();
        self.texts_bytes += key.len();
        self.values.push((value, key.clone()));
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// States with the units of time in them; `None` without points. A state that only lost against a greater one of the same
    /// time is not among them.
    fn durations(&self) -> Option<impl Iterator<Item = (&Value, i128)>> {
        let points = self.points.in_order(|a, b| compared(&self.values, self.ty, *a, *b));
        let last = points.last()?;
        let mut durations = vec![None; self.values.len()];
        for pair in points.windows(2) {
            let length = i128::from(pair[1].time) - i128::from(pair[0].time);
            *durations[pair[0].value as usize].get_or_insert(0) += length;
        }
        durations[last.value as usize].get_or_insert(0);
        let states = self.values.iter().zip(durations);
        Some(states.filter_map(|((state, _), duration)| Some((state, duration?))))
    }

    fn heap_size(&self) -> usize {
        self.points.heap_size() + self.values_bytes + self.values.len() * size_of::<Option<i128>>()
    }
}

/// The form that all equal states share, whatever the order of the rows: `1` for `1.0`, `1 mon` for `30 days`.
fn normal<'a>(state: &Datum<'a>) -> Datum<'a> {
    match state {
        // Adding zero turns -0 into 0.
        Datum::Float4(value) => Datum::Float4(value + 0.0),
        Datum::Float8(value) => Datum::Float8(value + 0.0),
        Datum::Numeric(value) => Datum::Numeric(value.trim_scale()),
        Datum::Interval(value) => Datum::Interval(normal_interval(*value)),
        Datum::Range(range) => Datum::Range(Arc::new(normal_range(range))),
        Datum::Multirange(ranges) => Datum::Multirange(ranges.iter().map(normal_range).collect()),
        state => state.clone(),
    }
}

fn normal_range<'a>(range: &Range<'a>) -> Range<'a> {
    let bound = |bound: &RangeBound<'a>| RangeBound { value: normal(&bound.value), inclusive: bound.inclusive };
    match range {
        Range::Empty => Range::Empty,
        Range::Between(low, high) => Range::Between(bound(low), bound(high)),
    }
}

/// As many months and days as fit, by which all intervals of one length are the same.
fn normal_interval(interval: Interval) -> Interval {
    let part = |span: i128, unit: i128| (span / unit).clamp(i32::MIN.into(), i32::MAX.into());
    let span = interval.span_micros();
    let months = part(span, MONTH_MICROS);
    let days = part(span - months * MONTH_MICROS, DAY_MICROS);
    let micros = span - months * MONTH_MICROS - days * DAY_MICROS;
    Interval { months: months as i32, days: days as i32, micros: micros as i64 }
}

/// The order of two states; that of their texts if their type has none.
fn compared(values: &[(Value, Box<str>)], ty: TypeId, a: u32, b: u32) -> Ordering {
    let ((a, a_text), (b, b_text)) = (&values[a as usize], &values[b as usize]);
    let by_type = registry::compare(ty, &a.datum(), &b.datum()).unwrap_or(Ordering::Equal);
    by_type.then_with(|| a_text.cmp(b_text))
}

struct DurationIn {
    states: States,
    wanted: Value,
    clock: Clock,
}

impl Accumulator for DurationIn {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let [wanted, state, time] = arguments else { return Err(mismatch()) };
        if self.wanted.is_null() {
            self.wanted = Value::of(wanted);
        } else if registry::compare(self.states.ty, wanted, &self.wanted.datum())?.is_ne() {
            return Err(changed("the state to measure"));
        }
        self.states.add(state, time, ctx)
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        let Some(durations) = self.states.durations() else { return Ok(Datum::Null) };
        let mut units = 0;
        for (state, duration) in durations {
            if registry::compare(self.states.ty, &state.datum(), &self.wanted.datum())?.is_eq() {
                units += duration;
            }
        }
        Ok(Datum::Float8(units as f64 / self.clock.units_per_second))
    }

    fn heap_size(&self) -> usize {
        self.states.heap_size() + self.wanted.heap_size()
    }
}

struct StateDurations {
    states: States,
    /// Decimals of a duration.
    scale: u32,
}

impl Accumulator for StateDurations {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let [state, time] = arguments else { return Err(mismatch()) };
        self.states.add(state, time, ctx)
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let Some(durations) = self.states.durations() else { return Ok(Datum::Null) };
        // Different states may have one text.
        let mut sums = BTreeMap::new();
        for (state, duration) in durations {
            *sums.entry(json::key(&state.datum(), self.states.ty, ctx)?).or_insert(0) += duration;
        }
        let member = |(key, duration)| {
            let seconds = Numeric::new(duration, self.scale).trim_scale();
            (key, Datum::Numeric(seconds), TypeId::NUMERIC)
        };
        json::object(sums.into_iter().map(member).collect(), ctx)
    }

    /// Memory in bytes, with that of the result: each key twice, in the list of members and in the object.
    fn heap_size(&self) -> usize {
        self.states.heap_size() + 2 * self.states.texts_bytes + self.states.values.len() * MEMBER_BYTES
    }
}
