//! Statistics per bin, and `optimized`, which falls back on them.

use std::ops::Range;

use super::statistics::Collector;
use super::{Bins, KEPT_MAX, Middle, Output, Part, ProcessError, Refusal, Span, Step, number};
use crate::event::{CONNECTION_REGAINED, Event};
use crate::numerals::text_of;
use crate::sample::{Nanos, Sample, Scalar, Severity, Value};

/// Bins of a span, and what is before it.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bins: Bins,
    pub(super) first: i64,
    pub(super) last: i64,
    /// Events before this time are before the range.
    start: Nanos,
    /// Whether an event at exactly `start` stands for the one before the range.
    start_is_enough: bool,
}

impl Bounds {
    /// - `by_bin`: the range starts with the first bin rather than with the span.
    pub(super) fn new(bins: Bins, span: Span, by_bin: bool) -> Bounds {
        let first = bins.of(span.from);
        let start = if by_bin { bins.start(first) } else { span.from };
        Bounds { bins, first, last: bins.of(span.to), start, start_is_enough: !by_bin }
    }

    pub(super) fn is_before(&self, time: Nanos) -> bool {
        time < self.start
    }
}

/// Events of bins without samples.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Empty {
    Nothing,
    /// The event of the bin before.
    Repeat,
    /// 0 without an alarm, from the first bin with samples on.
    Zero,
    /// Statistics of the last value.
    Last,
}

/// A statistic of each bin.
pub(super) struct Summary {
    bounds: Bounds,
    empty: Empty,
    collector: Collector,
    middle: Middle,
    /// Last event before the range.
    before: Option<(Nanos, f64)>,
    /// The present bin, and its times.
    bin: Option<(i64, Range<Nanos>)>,
    severity: Severity,
    connection_changed: bool,
    /// Severity of the last sample.
    last_severity: Severity,
    /// Bin that came out last, and the event of the empty bins behind it.
    emitted: Option<(i64, Option<Event>)>,
}

impl Summary {
    pub(super) fn new(bounds: Bounds, empty: Empty, collector: Collector) -> Summary {
        Summary {
            bounds,
            empty,
            collector,
            middle: Middle { bins: bounds.bins, half: true },
            before: None,
            bin: None,
            severity: Severity::None,
            connection_changed: false,
            last_severity: Severity::None,
            emitted: None,
        }
    }

    fn add(&mut self, time: Nanos, value: f64, event: &Event, out: &mut Output) -> Result<(), Refusal> {
        if self.bounds.is_before(time) {
            self.before = Some((time, value));
            return Ok(());
        }
        self.enter(time, out)?;
        self.collector.add(time, value)?;
        self.severity = self.severity.max(event.sample.severity);
        self.last_severity = event.sample.severity;
        self.connection_changed |= event.field(CONNECTION_REGAINED).is_some();
        Ok(())
    }

    /// Opens the bin of a time in the range, if another one is open.
    fn enter(&mut self, time: Nanos, out: &mut Output) -> Result<(), Refusal> {
        if self.bounds.start_is_enough && time == self.bounds.start {
            self.before = None;
        }
        self.add_before()?;
        if !self.bin.as_ref().is_some_and(|(_, times)| times.contains(&time)) {
            self.close(out);
            self.open(self.bounds.bins.of(time));
        }
        Ok(())
    }

    /// Makes the event before the range a bin, the one before the first.
    fn add_before(&mut self) -> Result<(), Refusal> {
        let Some((time, value)) = self.before.take() else { return Ok(()) };
        self.open(self.bounds.first - 1);
        self.collector.add(time, value)
    }

    fn open(&mut self, bin: i64) {
        let bins = self.bounds.bins;
        self.bin = Some((bin, bins.start(bin)..bins.start(bin + 1)));
        self.collector.start(bins.start(bin).saturating_add(bins.half().0));
        self.severity = Severity::None;
        self.connection_changed = false;
    }

    /// Emits the present bin, and the empty ones before it.
    fn close(&mut self, out: &mut Output) {
        let Some((bin, _)) = self.bin.take() else { return };
        self.fill(bin, out);
        let event = self.event(bin);
        self.emitted = Some((bin, self.filler(bin, &event)));
        out.event(event);
    }

    /// The event of empty bins behind a bin with samples.
    fn filler(&self, bin: i64, event: &Event) -> Option<Event> {
        match self.empty {
            Empty::Nothing => None,
            Empty::Repeat => Some(event.clone()),
            Empty::Zero => Some(self.event_of(bin, Value::Scalar(Scalar::Float64(0.0)), Severity::None)),
            Empty::Last => Some(self.event_of(bin, self.collector.of_last(), self.last_severity)),
        }
    }

    /// Emits empty bins up to `end`.
    fn fill(&mut self, end: i64, out: &mut Output) {
        if let Some((bin, Some(event))) = self.emitted.take() {
            out.repeat(event, bin + 1..end, self.middle);
        }
    }

    fn event(&mut self, bin: i64) -> Event {
        let value = self.collector.value();
        let mut event = self.event_of(bin, value, self.severity);
        if self.connection_changed {
            event.fields.push(("connectionChange".into(), "true".into()));
        }
        if let Some(deviation) = self.collector.error_bar() {
            event.fields.push(("stdz".into(), text_of(deviation)));
        }
        event
    }

    fn event_of(&self, bin: i64, value: Value, severity: Severity) -> Event {
        Sample { time: self.middle.of(bin), value, severity, status: 0 }.into()
    }
}

impl Step for Summary {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        self.add(event.time(), number(&event)?, &event, out)
    }

    fn push_part(&mut self, part: Part, out: &mut Output) -> Result<(), Refusal> {
        self.enter(part.first, out)?;
        if !self.collector.merge(&part.moments, part.last_value) {
            return Err(ProcessError::NotNumeric { time: part.first });
        }
        self.severity = self.severity.max(part.severity);
        self.last_severity = part.last_severity;
        self.connection_changed |= part.connection_changed;
        Ok(())
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        self.add_before()?;
        self.close(out);
        self.fill(self.bounds.last + 1, out);
        Ok(())
    }
}

/// Events as they are, or a summary if there are more than `points`.
pub(super) struct Optimized {
    points: usize,
    /// Events so far, of those before the range the last. Empty once there are too many.
    kept: Vec<Event>,
    too_many: bool,
    summary: Summary,
}

impl Optimized {
    pub(super) fn new(points: usize, summary: Summary) -> Optimized {
        Optimized { points, kept: Vec::new(), too_many: false, summary }
    }

    /// Whether the only event kept gives way to one at `time`: it is before the range, and is not needed.
    fn replaces(&self, time: Nanos) -> bool {
        let bounds = &self.summary.bounds;
        let only_before = self.kept.len() == 1 && bounds.is_before(self.kept[0].time());
        only_before && (bounds.is_before(time) || bounds.start_is_enough && time == bounds.start)
    }
}

impl Step for Optimized {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        if self.too_many {
            return self.summary.push(event, out);
        }
        number(&event)?;
        if self.replaces(event.time()) {
            self.kept.clear();
        }
        if self.kept.len() < self.points {
            if self.kept.len() == KEPT_MAX {
                return Err(ProcessError::TooMany { kept_max: KEPT_MAX });
            }
            self.kept.push(event);
            return Ok(());
        }
        self.too_many = true;
        for event in std::mem::take(&mut self.kept) {
            self.summary.push(event, out)?;
        }
        self.summary.push(event, out)
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        if self.too_many {
            return self.summary.finish(out);
        }
        std::mem::take(&mut self.kept).into_iter().for_each(|event| out.event(event));
        Ok(())
    }
}
