//! Events of one PV from several archivers, as one sequence by increasing time.

use std::iter::Peekable;

use epics::event::{CONNECTION_LOST, CONNECTION_REGAINED, Event};
use epics::sample::Nanos;
use model::Result;

/// A sequence of events by increasing time.
pub(crate) type Sequence = Box<dyn Iterator<Item = Result<Event>>>;

/// A sequence, and a time before which it has no events but one. It is not read before.
pub(crate) struct Source {
    start: Nanos,
    events: Peekable<Sequence>,
}

impl Source {
    pub(crate) fn new(start: Nanos, events: Sequence) -> Source {
        Source { start, events: events.peekable() }
    }
}

/// Merges sequences. Of events with the same time, that of the first source is taken; of those at or before the start of the
/// range, the last.
pub(crate) struct Merged {
    sources: Vec<Source>,
    from: Nanos,
    /// Source and time of the event before.
    before: Option<(usize, Nanos)>,
    failed: bool,
}

impl Merged {
    pub(crate) fn new(sources: Vec<Source>, from: Nanos) -> Merged {
        Merged { sources, from, before: None, failed: false }
    }

    /// The source with the earliest event, and its time; an error comes before all events.
    fn earliest(&mut self) -> Option<(usize, Nanos)> {
        let mut earliest: Option<(usize, Nanos)> = None;
        // Sources that start early are read first, and others only if they may have the earliest event.
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        order.sort_by_key(|at| self.sources[*at].start);
        for at in order {
            let source = &mut self.sources[at];
            if earliest.is_some_and(|(_, first)| source.start > first) {
                break;
            }
            let time = match source.events.peek() {
                None => continue,
                Some(Err(_)) => return Some((at, Nanos::MIN)),
                Some(Ok(event)) => event.time(),
            };
            if earliest.is_none_or(|(first_at, first)| (time, at) < (first, first_at)) {
                earliest = Some((at, time));
            }
        }
        earliest
    }

    /// The earliest event that was not given already, by another source or in an overlap; others are left out.
    fn new_earliest(&mut self) -> Option<(usize, Nanos)> {
        loop {
            let (at, time) = self.earliest()?;
            let is_error = self.sources[at].events.peek().is_some_and(Result::is_err);
            if is_error || self.before.is_none_or(|(_, before)| time > before) {
                return Some((at, time));
            }
            self.sources[at].events.next();
        }
    }

    fn take(&mut self) -> Option<(usize, Result<Event>)> {
        let (at, _) = self.new_earliest()?;
        let event = self.sources[at].events.next()?;
        Some((at, event))
    }
}

/// Whether a gap that an event tells contains a time.
fn is_filled(event: &Event, time: Nanos) -> bool {
    let seconds = |name: &str| event.field(name)?.parse::<Nanos>().ok();
    match (seconds(CONNECTION_LOST), seconds(CONNECTION_REGAINED)) {
        (Some(lost), Some(regained)) => (lost..=regained).contains(&time.div_euclid(1_000_000_000)),
        _ => false,
    }
}

impl Iterator for Merged {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.failed {
            return None;
        }
        loop {
            let (source, event) = self.take()?;
            let mut event = match event {
                Ok(event) => event,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            };
            let time = event.time();
            // A gap in which another source has an event is none.
            if self.before.is_some_and(|(before, last)| before != source && is_filled(&event, last)) {
                event.fields.retain(|(name, _)| {
                    ![CONNECTION_LOST, CONNECTION_REGAINED, "startup", "resume"].contains(&name.as_str())
                });
            }
            self.before = Some((source, time));
            let is_before = time <= self.from;
            let next_is_before = is_before && self.new_earliest().is_some_and(|(_, next)| next <= self.from);
            if !next_is_before {
                return Some(Ok(event));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use epics::sample::{Sample, Scalar, Severity, Value};
    use model::{Error, SqlState};

    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn event(time: Nanos, value: f64) -> Event {
        Event::from(Sample { time, value: Value::Scalar(Scalar::Float64(value)), severity: Severity::None, status: 0 })
    }

    fn sequence(times: &[Nanos], value: f64) -> Sequence {
        let events: Vec<_> = times.iter().map(|time| Ok(event(*time, value))).collect();
        Box::new(events.into_iter())
    }

    fn merged(sources: &[&[Nanos]], from: Nanos) -> Vec<(Nanos, usize)> {
        let source = |(at, times): (usize, &&[Nanos])| Source::new(0, sequence(times, at as f64));
        let sources = sources.iter().enumerate().map(source).collect();
        Merged::new(sources, from)
            .map(|event| {
                let event = event.unwrap();
                let Value::Scalar(Scalar::Float64(source)) = event.sample.value else { panic!("{event:?}") };
                (event.time(), source as usize)
            })
            .collect()
    }

    #[test]
    fn each_time_comes_once_and_from_the_first_source_that_has_it() {
        for (sources, from, expected) in [
            (&[&[10, 20, 30][..], &[15, 20, 40]][..], 0, vec![(10, 0), (15, 1), (20, 0), (30, 0), (40, 1)]),
            // One event at or before the start: the last of all sources.
            (&[&[10, 50], &[5, 20, 60]], 30, vec![(20, 1), (50, 0), (60, 1)]),
            (&[&[30, 50], &[30]], 30, vec![(30, 0), (50, 0)]),
            (&[&[10], &[5]], 30, vec![(10, 0)]),
            (&[&[], &[1, 2], &[2, 3]], 0, vec![(1, 1), (2, 1), (3, 2)]),
            // Two ranges of one peer overlap.
            (&[&[100], &[10, 20, 20, 30]], 0, vec![(10, 1), (20, 1), (30, 1), (100, 0)]),
            (&[], 0, vec![]),
        ] {
            assert_eq!(merged(sources, from), expected, "{sources:?} from {from}");
        }
    }

    #[test]
    fn a_gap_that_a_peer_fills_is_not_told() {
        let gap = || {
            let mut event = event(30 * SECOND, 0.0);
            event.fields.push((CONNECTION_LOST.to_owned(), "15".to_owned()));
            event.fields.push((CONNECTION_REGAINED.to_owned(), "25".to_owned()));
            event
        };
        let own = || -> Sequence { Box::new([Ok(event(10 * SECOND, 0.0)), Ok(gap())].into_iter()) };
        for (peer, fields) in [(20, 0), (12, 2), (5, 2), (28, 2)] {
            let sources = vec![Source::new(0, own()), Source::new(0, sequence(&[peer * SECOND], 1.0))];
            let told = Merged::new(sources, 0).last().unwrap().unwrap().fields.len();
            assert_eq!(told, fields, "with an event of the peer at {peer} s");
        }
    }

    #[test]
    fn a_source_is_not_read_before_its_time() {
        let read = std::rc::Rc::new(std::cell::Cell::new(false));
        let is_read = std::rc::Rc::clone(&read);
        let late = std::iter::once_with(move || {
            is_read.set(true);
            Ok(event(50, 1.0))
        });
        let sources = vec![Source::new(0, sequence(&[10, 20, 60], 0.0)), Source::new(40, Box::new(late))];
        let mut merged = Merged::new(sources, 0);
        assert_eq!(merged.next().unwrap().unwrap().time(), 10);
        assert_eq!(merged.next().unwrap().unwrap().time(), 20);
        assert!(!read.get());
        let rest: Vec<Nanos> = merged.map(|event| event.unwrap().time()).collect();
        assert_eq!((rest, read.get()), (vec![50, 60], true));
    }

    #[test]
    fn an_error_of_a_source_ends_the_sequence() {
        let error = || Error::new(SqlState::CONNECTION_FAILURE, "gone");
        let broken: Sequence = Box::new([Ok(event(1, 0.0)), Err(error()), Ok(event(3, 0.0))].into_iter());
        let told: Vec<_> =
            Merged::new(vec![Source::new(0, sequence(&[2, 5], 0.0)), Source::new(0, broken)], 0).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(told[1].as_ref().unwrap_err(), &error());
    }
}
