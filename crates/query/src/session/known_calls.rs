//! Values of the functions of users that a statement of the row executor calls.
//!
//! The executor holds the transaction while it runs, and a call needs the transaction. So a call without a known value is
//! noted, and the row that needs the value is skipped. The session undoes the statement, makes the calls, and runs the
//! statement again, until all values are known.
//!
//! Always true:
//! - All runs take the same numbers from sequences and the same random numbers, in the same order, so that they make the
//!   same calls.
//! - No run sees what the functions wrote: [`KnownCalls::seen_writes`].
//! - A statement whose runs keep needing other calls fails.

use std::any::Any;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use model::{Datum, Error, Result, RoutineVolatility, SqlState};
use parking_lot::Mutex;
use relational::Reserved;
use rustc_hash::FxHashMap;
use scalar::{Call, Value};

use super::database::Database;
use crate::routines::{RoutineCalls, TRIGGER};

/// The calls of users' functions that a statement makes, and their values.
pub(crate) struct KnownCalls {
    calls: Arc<RoutineCalls>,
    database: Database,
    state: Mutex<Known>,
}

/// Number of a function, and its arguments.
type CallKey = (u32, String);

#[derive(Default)]
struct Known {
    /// Values of equal calls, in the order in which a run makes them: each may be another one. A function that is not
    /// volatile has one.
    values: FxHashMap<CallKey, Vec<Value>>,
    /// Calls that this run has made so far.
    made: FxHashMap<CallKey, usize>,
    wanted: Vec<WantedCall>,
    wanted_bytes: usize,
    /// Whether a call had no value since the executor last asked.
    has_missed: bool,
    /// Calls of this run whose value was known.
    found: usize,
    /// The most of them in a run before, and the number of runs since that did not have more.
    most_found: usize,
    idle_runs: usize,
    /// Numbers taken from each sequence; under `None` random numbers.
    numbers: FxHashMap<Option<u32>, Vec<i64>>,
    /// Number of those that this run has taken.
    taken: FxHashMap<Option<u32>, usize>,
    /// Calls of triggers that this run makes when it is complete.
    noted: Vec<(Call, Vec<Value>)>,
    noted_bytes: usize,
    /// Writes of the transaction before the statement.
    seen_writes: Option<usize>,
    bytes: usize,
    held: Option<Reserved>,
}

/// A call whose value a statement needs.
pub(crate) struct WantedCall {
    key: CallKey,
    pub(crate) call: Call,
    pub(crate) arguments: Vec<Value>,
}

/// Memory of fewer bytes is not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;
/// Bytes of the calls that are noted before the statement runs again.
const WANTED_BYTES_MAX: usize = 64 << 20;
/// Runs without progress: a row that another transaction changed may need other calls.
const IDLE_RUNS_MAX: usize = 10;

impl KnownCalls {
    pub(crate) fn new(calls: Arc<RoutineCalls>, database: &Database) -> KnownCalls {
        KnownCalls { calls, database: database.clone(), state: Mutex::default() }
    }

    /// Starts a run of the statement.
    pub(crate) fn start(&self) {
        let state = &mut *self.state.lock();
        state.made.clear();
        state.wanted.clear();
        state.taken.clear();
        state.noted.clear();
        (state.found, state.wanted_bytes, state.noted_bytes, state.has_missed) = (0, 0, 0, false);
    }

    /// Forgets everything: the next run is that of other rows.
    pub(crate) fn finish(&self) {
        *self.state.lock() = Known::default();
    }

    /// The transaction's writes before the statement, which now has `writes` of them. The runs see no later ones.
    pub(crate) fn seen_writes(&self, writes: usize) -> usize {
        *self.state.lock().seen_writes.get_or_insert(writes)
    }

    /// The next number of a sequence, or a random one: that of the run before, or a new one.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn number<E>(
        &self,
        sequence: Option<u32>,
        make: impl FnOnce() -> Result<std::result::Result<i64, E>>,
    ) -> Result<std::result::Result<i64, E>> {
        let state = &mut *self.state.lock();
        let (numbers, taken) = (state.numbers.entry(sequence).or_default(), state.taken.entry(sequence).or_default());
        let number = match numbers.get(*taken) {
            Some(number) => *number,
            None => match make()? {
                Ok(number) => {
                    numbers.push(number);
                    state.bytes += size_of::<i64>();
                    number
                }
                wait => return Ok(wait),
            },
        };
        *taken += 1;
        Ok(Ok(number))
    }

    /// Whether the run made calls without a known value, so that it is void.
    pub(crate) fn lacks_values(&self) -> bool {
        !self.state.lock().wanted.is_empty()
    }

    /// The calls of the last run without a known value.
    ///
    /// # Errors
    /// 55000 if the runs do not use the values of the calls before.
    pub(crate) fn take_wanted(&self) -> Result<Vec<WantedCall>> {
        let state = &mut *self.state.lock();
        if state.found > state.most_found || state.values.is_empty() {
            (state.most_found, state.idle_runs) = (state.found, 0);
        } else {
            state.idle_runs += 1;
        }
        if state.idle_runs > IDLE_RUNS_MAX {
            let text = "the statement calls functions with other arguments each time it runs";
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .with_hint("Let the functions change other tables than those that the statement reads."));
        }
        Ok(std::mem::take(&mut state.wanted))
    }

    /// Takes the value of a call.
    ///
    /// # Errors
    /// 53200 if there is not enough memory for all of them.
    pub(crate) fn put(&self, wanted: WantedCall, value: Value) -> Result<()> {
        let state = &mut *self.state.lock();
        state.bytes += size_of::<WantedCall>() + wanted.key.1.len() + value.heap_size();
        state.values.entry(wanted.key).or_default().push(value);
        state.hold(&self.database)
    }

    /// Whether the run, which is complete, made calls of triggers.
    pub(crate) fn has_noted(&self) -> bool {
        !self.state.lock().noted.is_empty()
    }

    /// The calls of triggers that the run, which is complete, has left to its session.
    pub(crate) fn take_noted(&self) -> Vec<(Call, Vec<Value>)> {
        std::mem::take(&mut self.state.lock().noted)
    }
}

/// Appends an argument to the key of a call: without the types and names of a row, which are those of other calls too.
fn write_key(argument: &Datum<'_>, key: &mut String) {
    match argument {
        Datum::Record(record) => {
            key.push('(');
            record.values.iter().for_each(|value| write_key(value, key));
            key.push(')');
        }
        value => {
            let _ = write!(key, "{value:?},");
        }
    }
}

impl Known {
    fn hold(&mut self, database: &Database) -> Result<()> {
        let bytes = self.bytes + self.noted_bytes + self.wanted_bytes;
        if bytes < COUNTED_BYTES_MIN && self.held.is_none() {
            return Ok(());
        }
        self.held.get_or_insert_with(|| database.runtime().reserved("results of functions")).resize(bytes)
    }
}

impl fmt::Debug for KnownCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownCalls")
    }
}

impl scalar::Routines for KnownCalls {
    fn named(&self, schema: Option<&str>, name: &str) -> Vec<Arc<dyn Any + Send + Sync>> {
        self.calls.named(schema, name)
    }

    fn missed(&self) -> bool {
        std::mem::take(&mut self.state.lock().has_missed)
    }

    fn value(&self, call: &Call, arguments: &[Datum<'_>]) -> Result<Value> {
        let state = &mut *self.state.lock();
        // An argument of a later call may be the value that is missing.
        if state.has_missed {
            return Ok(Value::NULL);
        }
        let mut text = String::new();
        arguments.iter().for_each(|argument| write_key(argument, &mut text));
        let key = (call.function, text);
        let made = state.made.entry(key.clone()).or_default();
        let number = *made;
        *made += 1;
        let is_volatile = call.result == TRIGGER || self.calls.volatility(call.function) == RoutineVolatility::Volatile;
        let values = state.values.get(&key);
        if let Some(value) = values.and_then(|values| values.get(if is_volatile { number } else { 0 })) {
            state.found += 1;
            return Ok(value.clone());
        }
        state.has_missed = true;
        let is_noted = !is_volatile && number > 0;
        if !is_noted && (state.wanted_bytes < WANTED_BYTES_MAX || state.wanted.is_empty()) {
            let arguments: Vec<Value> = arguments.iter().map(Value::of).collect();
            let heap: usize = arguments.iter().map(|value| size_of::<Value>() + value.heap_size()).sum();
            state.wanted_bytes += size_of::<WantedCall>() + 2 * key.1.len() + heap;
            state.wanted.push(WantedCall { key, call: call.clone(), arguments });
            state.hold(&self.database)?;
        }
        Ok(Value::NULL)
    }

    fn note(&self, call: &Call, arguments: &[Datum<'_>]) -> Result<()> {
        let state = &mut *self.state.lock();
        let arguments: Vec<Value> = arguments.iter().map(Value::of).collect();
        let bytes: usize = arguments.iter().map(|value| size_of::<Value>() + value.heap_size()).sum();
        state.noted_bytes += size_of::<Call>() + bytes;
        state.noted.push((call.clone(), arguments));
        state.hold(&self.database)
    }

    fn rows(&self, _: &Call, _: &[Datum<'_>]) -> Result<Vec<Value>> {
        Err(Error::unsupported("a function that returns a set is not supported in this place"))
    }
}
