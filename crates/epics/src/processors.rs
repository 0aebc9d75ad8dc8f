//! Post-processors of the Appliance: operators that reduce the events of a request, as `mean_60(PV)` does.
//!
//! An operator is a streaming adapter over the events of one PV: the last event before the range, if there is one, and
//! those of the range `[from, to]`, by increasing time. It keeps a bin's state, or its events where the operator says
//! so, and never the range's.
//!
//! A *bin* is the seconds since 1970 divided by N, without remainder. The first bin has `from`, the last has `to`.
//! [`Operator::run`] returns what the Appliance replies, in these terms:
//!
//! | operators | one event per | time | fields | if a bin has no event |
//! |---|---|---|---|---|
//! | statistics (below) | bin | middle: bin·N + N/2, half a second later if N is odd | `connectionChange`, `stdz` | the event before is repeated up to the last bin; `count` is 0 |
//! | the same with `Sample`, as `meanSample_60` | bin | as above | as above | nothing |
//! | `firstSample` | bin: the first | its own | kept | nothing |
//! | `lastSample` | bin: the last | its own | dropped | nothing |
//! | `firstFill` `lastFill` | bin: the first or last | middle, whole seconds | dropped | repeated up to the last bin |
//! | `caplotbinning` | bin: 1, 2 or 4 | see [`Operator`] | `connectionChange` | nothing |
//! | `ignoreflyers` `flyers` `deadBand` | event kept | its own | kept | nothing |
//! | `nth` | K-th event | its own | dropped | nothing |
//! | `ncount` | range | `from`, in milliseconds | none | 0 |
//! | `optimized` `optimLastSample` | event, or bin as `stats` if there are more than P | | | |
//!
//! Statistics are `mean` `std` `jitter` `variance` `popvariance` `median` `kurtosis` `skewness` `min` `max` `count` `linear` `loess`
//! `errorbar` `stats`.
//!
//! Facts (from the Appliance's source, for all operators unless said):
//! - The event before the range is a bin of its own, the one before the first, for statistics and fills. Its severity and
//!   connection change are not looked at. If an event has exactly the time `from`, statistics leave the event before out.
//!   `firstSample`, fills and `caplotbinning` count by bins: an event before `from` in the first bin is the first bin's.
//! - Severity of a bin is the highest of its events; status is 0. A repeated event repeats both.
//! - `connectionChange` is `true` in a bin with an event that has the field `cnxregainedepsecs`.
//! - NaN is skipped by statistics; a bin of nothing else is NaN, its count 0. `linear` and `loess` take NaN as a value.
//! - A waveform counts by its first element, an enumeration by its index. Texts and structures are refused by
//!   operators that compute; `firstSample`, `lastSample`, fills, `nth` and `ncount` take any type.
//! - Repetition goes up to the bin of `to`, even where `to` is in the future.
//! - An event that is not later than the one before it is dropped, here by all operators.
//! - A reply has at most one event at or before `from`, the last of them, whatever the operator: so the bin before the
//!   first is only seen if the first bin's middle is after `from`.

mod bins;
mod request;
mod select;
mod statistics;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;

pub use request::{Binned, Operator, Request, RequestError};
pub use statistics::Moments;

use crate::calendar::SECOND;
use crate::event::Event;
use crate::sample::{Nanos, Severity};

/// Events or values that an operator keeps at most: of a bin, or of `optimized` before it knows that there are too many.
pub const KEPT_MAX: usize = 1 << 20;
/// Events of a bin of `loess`, whose time grows with their square.
pub const LOESS_EVENTS_MAX: usize = 1 << 13;

/// The times of a request, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First time.
    pub from: Nanos,
    /// Last time; not before `from`.
    pub to: Nanos,
}

/// Events of a part of a bin, summarised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Time of the first event.
    pub first: Nanos,
    /// Time of the last event.
    pub last: Nanos,
    /// Moments of their values.
    pub moments: Moments,
    /// Value of the last event that is not NaN.
    pub last_value: f64,
    /// The highest severity.
    pub severity: Severity,
    /// Severity of the last event.
    pub last_severity: Severity,
    /// Whether an event has the field `cnxregainedepsecs`.
    pub connection_changed: bool,
}

/// Input of [`Binned::run`].
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// An event.
    Event(Event),
    /// Several events of one bin.
    Part(Part),
}

impl From<Event> for Input {
    fn from(event: Event) -> Input {
        Input::Event(event)
    }
}

/// Reason why an operator ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessError<E> {
    /// The source of events failed.
    Source(E),
    /// The operator computes, and an event has a text or a structure. The Appliance replies nothing then.
    NotNumeric {
        /// Time of the event.
        time: Nanos,
    },
    /// More events are in a bin, or in the range of `optimized`, than are kept.
    TooMany {
        /// The limit.
        kept_max: usize,
    },
}

impl<E: std::fmt::Display> std::fmt::Display for ProcessError<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProcessError::Source(error) => error.fmt(f),
            ProcessError::NotNumeric { time } => {
                write!(
                    f,
                    "operator needs numbers, and the event at {time} ns has none: use nth, firstSample or lastSample"
                )
            }
            ProcessError::TooMany { kept_max } => {
                write!(f, "operator keeps at most {kept_max} events: use shorter bins or a shorter range")
            }
        }
    }
}

impl<E: std::error::Error> std::error::Error for ProcessError<E> {}

/// The errors of operators themselves.
type Refusal = ProcessError<std::convert::Infallible>;

/// An operator at work. Events come by increasing time, none after the end of the span.
trait Step: Send {
    fn push(&mut self, event: Event, out: &mut Output) -> Result<(), Refusal>;
    /// Only statistics of bins take parts.
    fn push_part(&mut self, part: Part, _: &mut Output) -> Result<(), Refusal> {
        Err(ProcessError::NotNumeric { time: part.first })
    }
    fn finish(&mut self, out: &mut Output) -> Result<(), Refusal>;
}

/// Events that were produced and not yet taken.
#[derive(Default)]
struct Output {
    queue: VecDeque<Run>,
}

/// An event, or the same event in each of several bins, as many as there are empty bins in the range.
struct Run {
    event: Event,
    /// Repetitions and their times; without, the event is taken once as it is.
    repeated: Option<(Range<i64>, Middle)>,
}

impl Output {
    fn event(&mut self, event: Event) {
        self.queue.push_back(Run { event, repeated: None });
    }

    /// Adds an event at the middle of each bin.
    fn repeat(&mut self, event: Event, bins: Range<i64>, middle: Middle) {
        if !bins.is_empty() {
            self.queue.push_back(Run { event, repeated: Some((bins, middle)) });
        }
    }

    fn take(&mut self) -> Option<Event> {
        let run = self.queue.front_mut()?;
        if let Some((bins, middle)) = &mut run.repeated {
            run.event.sample.time = middle.of(bins.start);
            bins.start += 1;
            if !bins.is_empty() {
                return Some(run.event.clone());
            }
        }
        self.queue.pop_front().map(|run| run.event)
    }
}

/// Division of time into bins.
#[derive(Clone, Copy)]
struct Bins {
    /// N, at least 1.
    seconds: i64,
}

impl Bins {
    fn of(self, time: Nanos) -> i64 {
        time.div_euclid(SECOND).div_euclid(self.seconds)
    }

    /// First time of a bin; the latest or earliest there is, for bins beyond.
    fn start(self, bin: i64) -> Nanos {
        bin.saturating_mul(self.seconds).saturating_mul(SECOND)
    }

    /// Half of N seconds in nanoseconds: whole seconds, and the rest of them.
    fn half(self) -> (i64, i64) {
        (self.seconds / 2 * SECOND, self.seconds % 2 * (SECOND / 2))
    }
}

/// Times of bins' middles.
#[derive(Clone, Copy)]
struct Middle {
    bins: Bins,
    /// Whether half a second is added where N is odd: statistics have it, fills do not.
    half: bool,
}

impl Middle {
    fn of(self, bin: i64) -> Nanos {
        let (whole, rest) = self.bins.half();
        self.bins.start(bin).saturating_add(if self.half { whole + rest } else { whole })
    }
}

/// Events of a range, processed. See [`Operator::run`].
pub struct Processed<I> {
    events: I,
    step: Box<dyn Step>,
    span: Span,
    /// Time of the last event of `events` that was not dropped.
    previous: Option<Nanos>,
    out: Output,
    trim: Trim,
    ended: bool,
}

impl<I> Processed<I> {
    fn new(events: I, step: Box<dyn Step>, span: Span) -> Processed<I> {
        Processed {
            events,
            step,
            span,
            previous: None,
            out: Output::default(),
            trim: Trim { from: span.from, held: None, after: None },
            ended: false,
        }
    }

    /// Gives an event or a part to the operator, unless it is out of order or out of range.
    fn push(&mut self, input: Input) -> Result<(), Refusal> {
        let (first, last) = match &input {
            Input::Event(event) => (event.time(), event.time()),
            Input::Part(part) => (part.first, part.last),
        };
        if self.previous.is_some_and(|previous| first <= previous) || last > self.span.to {
            return Ok(());
        }
        self.previous = Some(last);
        match input {
            Input::Event(event) => self.step.push(event, &mut self.out),
            Input::Part(part) => self.step.push_part(part, &mut self.out),
        }
    }
}

impl<I: Iterator<Item = Result<T, E>>, T: Into<Input>, E> Iterator for Processed<I> {
    type Item = Result<Event, ProcessError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.trim.after.take() {
                return Some(Ok(event));
            }
            if let Some(event) = self.out.take() {
                match self.trim.push(event) {
                    Some(event) => return Some(Ok(event)),
                    None => continue,
                }
            }
            if self.ended {
                return self.trim.held.take().map(Ok);
            }
            let pushed = match self.events.next() {
                Some(Ok(input)) => self.push(input.into()),
                Some(Err(error)) => {
                    self.ended = true;
                    self.trim.held = None;
                    return Some(Err(ProcessError::Source(error)));
                }
                None => {
                    self.ended = true;
                    self.step.finish(&mut self.out)
                }
            };
            if let Err(refusal) = pushed {
                self.ended = true;
                self.out = Output::default();
                self.trim.held = None;
                return Some(Err(widen(refusal)));
            }
        }
    }
}

fn widen<E>(refusal: Refusal) -> ProcessError<E> {
    match refusal {
        ProcessError::Source(never) => match never {},
        ProcessError::NotNumeric { time } => ProcessError::NotNumeric { time },
        ProcessError::TooMany { kept_max } => ProcessError::TooMany { kept_max },
    }
}

/// Keeps of the events at or before `from` only the last.
struct Trim {
    from: Nanos,
    held: Option<Event>,
    /// The event that comes after the one that was held.
    after: Option<Event>,
}

impl Trim {
    fn push(&mut self, event: Event) -> Option<Event> {
        if event.time() <= self.from {
            self.held = Some(event);
            return None;
        }
        match self.held.take() {
            Some(held) => {
                self.after = Some(event);
                Some(held)
            }
            None => Some(event),
        }
    }
}

/// The value of an event for an operator that computes.
fn number(event: &Event) -> Result<f64, Refusal> {
    event.number().ok_or(ProcessError::NotNumeric { time: event.time() })
}
