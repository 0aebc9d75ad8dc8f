//! Sequences: each value is returned once, even if the transaction that took it rolls back.
//!
//! The log reserves values before their use, [`AHEAD`] at a time; a crash skips reserved values
//! that were not used.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use env::Event;
use model::{Error, Lsn, Result, SequenceSpec, SqlState};
use parking_lot::Mutex;

use crate::codec::{Put, Take};
use crate::db_version::dropped_sequence;
use crate::{Catalog, Engine};

/// Values reserved at a time, unless CACHE is higher: one log record for all of them.
const AHEAD: u32 = 32;

/// State of a sequence, as PostgreSQL shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// The last value returned or, unless `is_called`, the next one.
    pub last: i64,
    /// Whether `last` has been returned.
    pub is_called: bool,
}

/// Result of a request for a value.
#[derive(Debug)]
pub enum NextValue {
    /// The value, and the commit that reserved it: do not show the value before that commit is
    /// durable.
    Value {
        /// The next value of the sequence.
        value: i64,
        /// LSN of the commit.
        lsn: Lsn,
    },
    /// The log is busy: ask again after the event.
    Wait(Event),
}

/// The values that one session received, for `currval` and `lastval`.
#[derive(Debug, Default)]
pub struct SessionSequences {
    /// By sequence: the value, and the commit that must be durable before the value is shown.
    numbers: BTreeMap<u32, (i64, Lsn)>,
    /// The sequence that returned the last value.
    last: Option<u32>,
}

/// Access to sequences for one statement of a transaction, used together with its access to rows:
/// see [`crate::Txn::rows_and_sequences`].
pub struct SequenceAccess<'t> {
    pub(crate) engine: &'t Engine,
    /// The catalog that the statement sees.
    pub(crate) catalog: Arc<Catalog>,
    /// Sequences created or restarted by the transaction.
    pub(crate) own: &'t BTreeMap<u32, Arc<Counter>>,
    pub(crate) had: RefCell<&'t mut SessionSequences>,
    pub(crate) seen: Cell<Lsn>,
}

impl SequenceAccess<'_> {
    /// Returns the next value of a sequence: never returned twice, even after a rollback or a
    /// crash.
    ///
    /// # Errors
    /// 42P01, 2200H at the end of the sequence; those of [`crate::Committing::poll`].
    pub fn next(&self, id: u32) -> Result<std::result::Result<i64, Event>> {
        let sequence = self.catalog.sequence_by_id(id).ok_or_else(|| dropped_sequence(id))?;
        let next = match self.own.get(&id) {
            // Only this transaction knows the sequence; its commit logs the state.
            Some(own) => own.next(sequence, |_| Ok(Ok(Lsn::ZERO)))?,
            None => match self.engine.next_value_of(sequence)? {
                NextValue::Value { value, lsn } => Ok((value, lsn)),
                NextValue::Wait(event) => Err(event),
            },
        };
        Ok(next.map(|(value, lsn)| {
            let mut had = self.had.borrow_mut();
            had.numbers.insert(id, (value, lsn));
            had.last = Some(id);
            self.note_seen(value, lsn)
        }))
    }

    /// The last value that this session received from a sequence, if any.
    #[must_use]
    pub fn current(&self, id: u32) -> Option<i64> {
        let (value, lsn) = *self.had.borrow().numbers.get(&id)?;
        Some(self.note_seen(value, lsn))
    }

    /// The last value that this session received from any existing sequence, if any.
    #[must_use]
    pub fn last(&self) -> Option<i64> {
        let id = self.had.borrow().last?;
        self.catalog.sequence_by_id(id)?;
        self.current(id)
    }

    /// Sets the state of a sequence: `setval`. Not undone by a rollback, as in PostgreSQL.
    ///
    /// # Errors
    /// 42P01; 22003 for a value out of bounds; those of [`crate::Committing::poll`].
    pub fn set(&self, id: u32, state: SequenceState) -> Result<std::result::Result<(), Event>> {
        let sequence = self.catalog.sequence_by_id(id).ok_or_else(|| dropped_sequence(id))?;
        let set = match self.own.get(&id) {
            Some(own) => {
                check_bounds(sequence, state)?;
                own.set(state, |_| Ok(Ok(Lsn::ZERO)))?
            }
            None => self.engine.set_value(id, state)?,
        };
        Ok(set.map(|lsn| {
            if state.is_called {
                self.had.borrow_mut().numbers.insert(id, (state.last, lsn));
            }
            self.note_seen(state.last, lsn);
        }))
    }

    /// The newest commit that must be durable before the returned values are shown; pass it to
    /// `note_commit_seen`.
    #[must_use]
    pub fn seen(&self) -> Lsn {
        self.seen.get()
    }

    fn note_seen(&self, value: i64, lsn: Lsn) -> i64 {
        self.seen.set(self.seen.get().max(lsn));
        value
    }
}

/// State of a sequence in this process.
#[derive(Debug)]
pub(crate) struct Counter(Mutex<CounterState>);

#[derive(Clone, Copy, Debug)]
struct CounterState {
    now: SequenceState,
    /// The state after a crash.
    logged: SequenceState,
    /// LSN of the commit that logged it.
    lsn: Lsn,
    /// Values after `now` that may be returned before the next log record.
    ahead: u32,
    /// Increment, bounds and cycle of the definition by which they were reserved.
    reserved_by: (i64, i64, i64, bool),
}

/// The parts of a definition that determine the order of values.
fn order(sequence: &SequenceSpec) -> (i64, i64, i64, bool) {
    (sequence.increment, sequence.min, sequence.max, sequence.cycle)
}

/// Operations on the definition of a sequence.
pub(crate) trait SequenceOps {
    /// The state before the first value.
    fn initial(&self) -> SequenceState;
    /// The value after a state.
    fn after(&self, state: SequenceState) -> Result<i64>;
    /// Reserves values after `state`: returns the last reserved state and the number of values, at
    /// least one.
    fn reserve(&self, state: SequenceState) -> Result<(SequenceState, u32)>;
}

impl SequenceOps for SequenceSpec {
    fn initial(&self) -> SequenceState {
        SequenceState { last: self.start, is_called: false }
    }

    fn after(&self, state: SequenceState) -> Result<i64> {
        if !state.is_called {
            return Ok(state.last);
        }
        match state.last.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next)) {
            Some(next) => Ok(next),
            None if self.cycle => Ok(if self.increment > 0 { self.min } else { self.max }),
            None => {
                let (what, bound) = if self.increment > 0 { ("maximum", self.max) } else { ("minimum", self.min) };
                let text = format!("nextval: reached {what} value of sequence \"{}\" ({bound})", self.name.table);
                Err(Error::new(SqlState::SEQUENCE_LIMIT_EXCEEDED, text))
            }
        }
    }

    fn reserve(&self, state: SequenceState) -> Result<(SequenceState, u32)> {
        let mut reserved = SequenceState { last: self.after(state)?, is_called: true };
        let mut count = 1;
        while count < AHEAD.max(u32::try_from(self.cache).unwrap_or(u32::MAX)) {
            // Values beyond the end, or after a cycle, are left to a later call.
            let Some(next) = reserved.last.checked_add(self.increment) else { break };
            if !(self.min..=self.max).contains(&next) {
                break;
            }
            reserved.last = next;
            count += 1;
        }
        Ok((reserved, count))
    }
}

impl Engine {
    /// Returns the next value of a sequence: never returned twice, even after a crash. For callers
    /// without a transaction; see [`crate::Txn::next_value`].
    ///
    /// # Errors
    /// 42P01, 2200H at the end of the sequence; those of [`crate::Committing::poll`].
    pub fn next_value(&self, id: u32) -> Result<NextValue> {
        let db = self.inner.versions.newest();
        let sequence = db.catalog.sequence_by_id(id).ok_or_else(|| dropped_sequence(id))?;
        self.next_value_of(sequence)
    }

    pub(crate) fn next_value_of(&self, sequence: &SequenceSpec) -> Result<NextValue> {
        let counter = self.counter(sequence.id)?;
        let next = counter.next(sequence, |state| self.log_sequence(sequence, &counter, state))?;
        Ok(next.map_or_else(NextValue::Wait, |(value, lsn)| NextValue::Value { value, lsn }))
    }

    /// Returns the present state of a sequence.
    ///
    /// # Errors
    /// 42P01.
    pub fn sequence_state(&self, id: u32) -> Result<SequenceState> {
        self.counter(id).map(|counter| counter.now())
    }

    /// Sets the state of a sequence: `setval`. Not undone by a rollback, as in PostgreSQL. Returns
    /// the LSN of its commit.
    ///
    /// # Errors
    /// 42P01; 22003 for a value out of bounds; those of [`crate::Committing::poll`].
    pub fn set_value(&self, id: u32, state: SequenceState) -> Result<std::result::Result<Lsn, Event>> {
        let db = self.inner.versions.newest();
        let sequence = db.catalog.sequence_by_id(id).ok_or_else(|| dropped_sequence(id))?;
        check_bounds(sequence, state)?;
        let counter = self.counter(id)?;
        counter.set(state, |state| self.log_sequence(sequence, &counter, state))
    }

    fn counter(&self, id: u32) -> Result<Arc<Counter>> {
        let db = self.inner.versions.newest();
        db.counters.get(&id).cloned().ok_or_else(|| dropped_sequence(id))
    }
}

fn check_bounds(sequence: &SequenceSpec, state: SequenceState) -> Result<()> {
    if (sequence.min..=sequence.max).contains(&state.last) {
        return Ok(());
    }
    let text = format!(
        "setval: value {} is out of bounds for sequence \"{}\" ({}..{})",
        state.last, sequence.name.table, sequence.min, sequence.max
    );
    Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text))
}

impl SequenceState {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.put_i64(self.last);
        out.put_u8(u8::from(self.is_called));
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<SequenceState> {
        Ok(SequenceState { last: take.i64()?, is_called: take.u8()? != 0 })
    }
}

impl CounterState {
    /// A logged state, with no value reserved.
    fn at(state: SequenceState, lsn: Lsn) -> CounterState {
        CounterState { now: state, logged: state, lsn, ahead: 0, reserved_by: (0, 0, 0, false) }
    }
}

impl Counter {
    pub(crate) fn new(state: SequenceState) -> Counter {
        Counter(Mutex::new(CounterState::at(state, Lsn::ZERO)))
    }

    /// The state after a crash.
    pub(crate) fn logged(&self) -> SequenceState {
        self.0.lock().logged
    }

    /// Notes that a commit has logged the present state.
    pub(crate) fn note_logged(&self) {
        let mut counting = self.0.lock();
        counting.logged = counting.now;
        counting.ahead = 0;
    }

    pub(crate) fn now(&self) -> SequenceState {
        self.0.lock().now
    }

    /// Returns the next value and the commit that reserved it. Calls `log` with the reserved state
    /// when no value is left; if `log` fails or is busy, nothing changes.
    pub(crate) fn next<T>(
        &self,
        sequence: &SequenceSpec,
        log: impl FnOnce(SequenceState) -> Result<std::result::Result<Lsn, T>>,
    ) -> Result<std::result::Result<(i64, Lsn), T>> {
        let mut counting = self.0.lock();
        let next = sequence.after(counting.now)?;
        // Values reserved by another definition are not those that this one returns.
        if counting.ahead == 0 || counting.reserved_by != order(sequence) {
            let (reserved, count) = sequence.reserve(counting.now)?;
            match log(reserved)? {
                Ok(lsn) => (counting.logged, counting.lsn, counting.ahead) = (reserved, lsn, count),
                Err(busy) => return Ok(Err(busy)),
            }
            counting.reserved_by = order(sequence);
        }
        assert!(counting.ahead > 0, "BUG: value {next} of sequence {} is not reserved", sequence.name);
        counting.ahead -= 1;
        counting.now = SequenceState { last: next, is_called: true };
        assert!(
            counting.ahead > 0 || counting.now == counting.logged,
            "BUG: sequence {} returns {next}, values up to {} are reserved",
            sequence.name,
            counting.logged.last
        );
        Ok(Ok((next, counting.lsn)))
    }

    /// Continues from another state, once it is logged.
    pub(crate) fn set<T>(
        &self,
        state: SequenceState,
        log: impl FnOnce(SequenceState) -> Result<std::result::Result<Lsn, T>>,
    ) -> Result<std::result::Result<Lsn, T>> {
        let mut counting = self.0.lock();
        let lsn = match log(state)? {
            Ok(lsn) => lsn,
            Err(busy) => return Ok(Err(busy)),
        };
        *counting = CounterState::at(state, lsn);
        Ok(Ok(lsn))
    }
}

#[cfg(test)]
mod tests {
    use model::{TableName, Type};

    use super::*;

    /// The bug: after ALTER SEQUENCE … INCREMENT BY 10, values were still counted against the 32
    /// values that the old increment had reserved; they exceeded the logged state, and a crash
    /// repeated them. The fix: another definition reserves anew.
    #[test]
    fn values_after_an_alter_sequence_are_reserved_before_they_are_returned() {
        let (old, logged) = (sequence(1, 1, 1_000, false), Cell::new(0));
        let counter = Counter::new(old.initial());
        let next = |sequence: &SequenceSpec| {
            let logs = |state: SequenceState| {
                logged.set(state.last);
                Ok(Ok::<Lsn, ()>(Lsn(1)))
            };
            counter.next(sequence, logs).unwrap().unwrap().0
        };
        assert_eq!((next(&old), logged.get()), (1, 32));
        for (altered, expected) in [
            (sequence(10, 1, 1_000, false), [11, 21, 31, 41, 51]),
            (sequence(-3, 1, 1_000, false), [48, 45, 42, 39, 36]),
            (sequence(1, 1, 38, true), [37, 38, 1, 2, 3]),
        ] {
            for value in expected {
                assert_eq!(next(&altered), value, "{altered:?}");
                let is_reserved = if altered.increment > 0 { value <= logged.get() } else { value >= logged.get() };
                assert!(is_reserved, "{value} is beyond {}: {altered:?}", logged.get());
            }
        }
    }

    fn sequence(increment: i64, min: i64, max: i64, cycle: bool) -> SequenceSpec {
        let start = if increment > 0 { min } else { max };
        let name = TableName::public("s");
        SequenceSpec { id: 1, name, ty: Type::Int8, start, increment, min, max, cache: 1, cycle, owner: None }
    }

    #[test]
    fn values_equal_postgresql_and_never_exceed_the_logged_reservation() {
        for (sequence, expected) in [
            (sequence(1, 1, 3, false), vec![Some(1), Some(2), Some(3), None, None]),
            (sequence(1, 1, 3, true), vec![Some(1), Some(2), Some(3), Some(1), Some(2)]),
            (sequence(-2, -4, -1, false), vec![Some(-1), Some(-3), None]),
            (sequence(i64::MAX, 1, i64::MAX, true), vec![Some(1), Some(1)]),
        ] {
            let counter = Counter::new(sequence.initial());
            let mut logged = sequence.initial();
            let mut crashed_at = Vec::new();
            for want in &expected {
                let got = counter.next(&sequence, |state| {
                    logged = state;
                    Ok(Ok::<Lsn, ()>(Lsn(1)))
                });
                assert_eq!(got.as_ref().ok().map(|got| got.unwrap().0), *want, "{sequence:?}");
                assert_eq!(counter.logged(), logged);
                crashed_at.push(logged);
            }
            if !sequence.cycle {
                let after = crashed_at.into_iter().filter_map(|state| sequence.after(state).ok());
                assert!(after.into_iter().all(|next| !expected.contains(&Some(next))));
            }
        }
    }

    #[test]
    fn a_hundred_values_take_four_log_records() {
        let sequence = sequence(5, 1, i64::MAX, false);
        let counter = Counter::new(sequence.initial());
        let mut records = 0;
        for at in 0..100 {
            let next = counter.next(&sequence, |_| {
                records += 1;
                Ok(Ok::<Lsn, ()>(Lsn(7)))
            });
            assert_eq!(next.unwrap(), Ok((1 + 5 * at, Lsn(7))));
        }
        assert_eq!(records, 4);
    }

    #[test]
    fn a_busy_log_leaves_the_sequence_unchanged() {
        let sequence = sequence(1, 1, 10, false);
        let counter = Counter::new(sequence.initial());
        assert_eq!(counter.next(&sequence, |_| Ok(Err("busy"))).unwrap(), Err("busy"));
        assert_eq!(counter.now(), sequence.initial());
        assert_eq!(counter.next(&sequence, |_| Ok(Ok::<Lsn, ()>(Lsn(7)))).unwrap(), Ok((1, Lsn(7))));
    }
}
