//! Operators that choose events, and those that count them.

use std::mem;

use super::bins::Bounds;
use super::statistics::Moments;
use super::{Bins, KEPT_MAX, Middle, Output, ProcessError, Refusal, Span, Step, number};
use crate::calendar::SECOND;
use crate::event::{CONNECTION_LOST, CONNECTION_REGAINED, Event};
use crate::sample::{Nanos, Sample, Scalar, Severity, Value};

/// Drops what the Appliance does not copy into a new event.
fn without_fields(mut event: Event) -> Event {
    event.fields.clear();
    Event { actual_change: None, repeat_count: None, user_tag: None, ..event }
}

/// `firstSample`: the first event of each bin.
pub(super) struct FirstSample {
    bounds: Bounds,
    bin: Option<i64>,
    before: Option<Event>,
}

impl FirstSample {
    pub(super) fn new(bins: Bins, span: Span) -> FirstSample {
        FirstSample { bounds: Bounds::new(bins, span, true), bin: None, before: None }
    }
}

impl Step for FirstSample {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        if self.bounds.is_before(event.time()) {
            self.before = Some(event);
            return Ok(());
        }
        let bin = Some(self.bounds.bins.of(event.time()));
        if mem::replace(&mut self.bin, bin) != bin {
            self.finish(out)?;
            out.event(event);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        if let Some(before) = self.before.take() {
            out.event(before);
        }
        Ok(())
    }
}

/// Event that stands for a bin.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pick {
    First,
    Last,
}

/// `lastSample`, `firstFill` and `lastFill`: one event of each bin.
pub(super) struct Fills {
    bounds: Bounds,
    middle: Middle,
    pick: Pick,
    /// Whether events are at the middle of their bin, and are repeated in empty bins.
    fill: bool,
    before: Option<Event>,
    /// The present bin, and its event.
    chosen: Option<(i64, Event)>,
}

impl Fills {
    pub(super) fn new(bins: Bins, span: Span, pick: Pick, fill: bool) -> Fills {
        let middle = Middle { bins, half: false };
        Fills { bounds: Bounds::new(bins, span, true), middle, pick, fill, before: None, chosen: None }
    }

    /// Emits the bin, with repetitions up to `end`.
    fn close(&mut self, end: i64, out: &mut Output) {
        let Some((bin, event)) = self.chosen.take() else { return };
        let event = without_fields(event);
        if self.fill {
            out.repeat(event, bin..end, self.middle);
        } else {
            out.event(event);
        }
    }

    fn choose_before(&mut self) {
        if let Some(before) = self.before.take() {
            self.chosen = Some((self.bounds.first - 1, before));
        }
    }
}

impl Step for Fills {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        if self.bounds.is_before(event.time()) {
            self.before = Some(event);
            return Ok(());
        }
        self.choose_before();
        let bin = self.bounds.bins.of(event.time());
        match &mut self.chosen {
            Some((present, chosen)) if *present == bin => {
                if self.pick == Pick::Last {
                    *chosen = event;
                }
            }
            _ => {
                self.close(bin, out);
                self.chosen = Some((bin, event));
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        self.choose_before();
        self.close(self.bounds.last + 1, out);
        Ok(())
    }
}

/// `flyers` and `ignoreflyers`: events far from their bin's mean, or near it.
pub(super) struct Flyers {
    bins: Bins,
    deviations: f64,
    far: bool,
    bin: Option<i64>,
    events: Vec<(Event, f64)>,
    moments: Moments,
}

impl Flyers {
    pub(super) fn new(bins: Bins, deviations: f64, far: bool) -> Flyers {
        Flyers { bins, deviations, far, bin: None, events: Vec::new(), moments: Moments::default() }
    }
}

impl Step for Flyers {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        let value = number(&event)?;
        let bin = Some(self.bins.of(event.time()));
        if mem::replace(&mut self.bin, bin) != bin {
            self.finish(out)?;
        }
        if self.events.len() == KEPT_MAX {
            return Err(ProcessError::TooMany { kept_max: KEPT_MAX });
        }
        if !value.is_nan() {
            self.moments.add(value);
            self.events.push((event, value));
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        let moments = mem::take(&mut self.moments);
        let (mean, cutoff) = (moments.mean(), self.deviations * moments.deviation());
        for (event, value) in self.events.drain(..) {
            let distance = (value - mean).abs();
            // A distance that is not a number, as between infinities, is neither far nor near.
            let chosen = if self.far { distance > cutoff } else { distance <= cutoff };
            if chosen {
                out.event(event);
            }
        }
        Ok(())
    }
}

/// `ncount`: the number of events in the range.
pub(super) struct Count {
    span: Span,
    count: i32,
}

impl Count {
    pub(super) fn new(span: Span) -> Count {
        Count { span, count: 0 }
    }
}

impl Step for Count {
    fn push(&mut self, event: Event, _: &mut Output) -> Result<(), Refusal> {
        self.count = self.count.saturating_add(i32::from(event.time() >= self.span.from));
        Ok(())
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        let milliseconds = self.span.from.div_euclid(1_000_000).saturating_mul(1_000_000);
        let value = Value::Scalar(Scalar::Int32(self.count));
        out.event(Sample { time: milliseconds, value, severity: Severity::None, status: 0 }.into());
        Ok(())
    }
}

/// `nth`: every K-th event of the range, the first included.
pub(super) struct Nth {
    every: usize,
    from: Nanos,
    seen: usize,
}

impl Nth {
    pub(super) fn new(every: usize, span: Span) -> Nth {
        Nth { every, from: span.from, seen: 0 }
    }
}

impl Step for Nth {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        if event.time() >= self.from {
            if self.seen.is_multiple_of(self.every) {
                out.event(without_fields(event));
            }
            self.seen += 1;
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Output) -> Result<(), Refusal> {
        Ok(())
    }
}

/// `deadBand`: events that differ from the last one kept.
pub(super) struct DeadBand {
    difference: f64,
    kept: Option<Kept>,
}

struct Kept {
    value: f64,
    severity: Severity,
    connection_lost: bool,
}

impl DeadBand {
    pub(super) fn new(difference: f64) -> DeadBand {
        DeadBand { difference, kept: None }
    }
}

impl Step for DeadBand {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        let value = number(&event)?;
        let severity = event.sample.severity;
        let connection_lost = event.field(CONNECTION_LOST).is_some();
        let same = self.kept.as_ref().is_some_and(|kept| {
            // A difference that is not a number or infinite is none that a band could hold.
            let within = (value - kept.value).abs() <= self.difference && value.is_finite() && kept.value.is_finite();
            within && severity == kept.severity && connection_lost == kept.connection_lost
        });
        if !same {
            self.kept = Some(Kept { value, severity, connection_lost });
            out.event(event);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Output) -> Result<(), Refusal> {
        Ok(())
    }
}

/// `caplotbinning`: the first, lowest, highest and last value of each bin.
pub(super) struct CaPlotBinning {
    bounds: Bounds,
    before: Option<(Nanos, f64)>,
    bin: Option<PlotBin>,
}

struct PlotBin {
    number: i64,
    count: u64,
    first: (Nanos, f64),
    last: (Nanos, f64),
    min: f64,
    max: f64,
    severity: Severity,
    connection_changed: bool,
}

impl PlotBin {
    fn new(number: i64, first: (Nanos, f64)) -> PlotBin {
        PlotBin {
            number,
            count: 1,
            first,
            last: first,
            min: first.1,
            max: first.1,
            severity: Severity::None,
            connection_changed: false,
        }
    }

    fn add(&mut self, point: (Nanos, f64)) {
        self.count += 1;
        self.last = point;
        self.min = self.min.min(point.1);
        self.max = self.max.max(point.1);
    }

    fn emit(&self, bins: Bins, out: &mut Output) {
        let second = |time: Nanos| time.div_euclid(SECOND).saturating_mul(SECOND);
        let (first, last) = (second(self.first.0), second(self.last.0));
        match self.count {
            1 => self.event(first, self.first.1, out),
            2 => {
                self.event(first, self.first.1, out);
                self.event(if last == first { self.last.0 } else { last }, self.last.1, out);
            }
            _ => {
                let values = [self.first.1, self.min, self.max, self.last.1];
                for (quarter, value) in (0..).zip(values) {
                    self.event(self.quarter(bins, quarter), value, out);
                }
            }
        }
    }

    fn quarter(&self, bins: Bins, quarter: i64) -> Nanos {
        // Whole seconds, where bins have a second for each.
        let unit = if bins.seconds >= 4 { SECOND } else { 1 };
        bins.start(self.number).saturating_add(bins.seconds * quarter * (SECOND / 4) / unit * unit)
    }

    fn event(&self, time: Nanos, value: f64, out: &mut Output) {
        let value = Value::Scalar(Scalar::Float64(value));
        let mut event = Event::from(Sample { time, value, severity: self.severity, status: 0 });
        if self.connection_changed {
            event.fields.push(("connectionChange".into(), "true".into()));
        }
        out.event(event);
    }
}

impl CaPlotBinning {
    pub(super) fn new(bins: Bins, span: Span) -> CaPlotBinning {
        CaPlotBinning { bounds: Bounds::new(bins, span, true), before: None, bin: None }
    }

    fn close(&mut self, out: &mut Output) {
        if let Some(before) = self.before.take() {
            self.bin = Some(PlotBin::new(self.bounds.first - 1, before));
        }
        if let Some(bin) = self.bin.take() {
            bin.emit(self.bounds.bins, out);
        }
    }
}

impl Step for CaPlotBinning {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal> {
        let point = (event.time(), number(&event)?);
        if self.bounds.is_before(point.0) {
            self.before = Some(point);
            return Ok(());
        }
        let number = self.bounds.bins.of(point.0);
        if self.bin.as_ref().is_none_or(|bin| bin.number != number) {
            self.close(out);
            self.bin = Some(PlotBin::new(number, point));
        } else if let Some(bin) = &mut self.bin {
            bin.add(point);
        }
        if let Some(bin) = &mut self.bin {
            bin.severity = bin.severity.max(event.sample.severity);
            bin.connection_changed |= event.field(CONNECTION_REGAINED).is_some();
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal> {
        self.close(out);
        Ok(())
    }
}
