//! Advisory locks: `SELECT pg_advisory_lock(17)` and its variants, which migration tools and schedulers use for mutual
//! exclusion.
//!
//! The call is a statement, not a scalar function of a query. A waiting statement holds no thread and can be cancelled.
//!
//! Always true:
//! - The holders of a key have compatible modes. Waiters queue in order of arrival; a new request waits behind the
//!   queue.
//! - A session waits for one key at a time. A request that would close a cycle of waiting sessions fails with 40P01 at
//!   once. Cycles that include row locks are not detected here; `lock_timeout` ends those.
//! - Session-level locks are released when the session ends, transaction-level locks when the transaction ends.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use engine::Event;
use futures::StreamExt;
use model::{Error, Result, SqlState};
use parking_lot::Mutex;
use parser::ast::{Expr, Query};
use pg::types::oid;
use pg_catalog::facts::{AdvisoryKey as Key, AdvisoryLock};

use crate::call_statement;
use crate::session::{Outcome, Prepared, Session};
use crate::statement::parse;
use relational::types::{OutputColumn, Value};

/// Most keys that may be locked or waited for at a time, in the whole database.
const ADVISORY_LOCKS_MAX: usize = 100_000;

/// Whether other sessions may hold the lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Compatible with other shared locks.
    Shared,
    /// Compatible with no other lock.
    Exclusive,
}

impl Mode {
    fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// The name in messages and in `pg_locks`.
    fn name(self) -> &'static str {
        match self {
            Mode::Shared => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        }
    }
}

/// The advisory locks of a database. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    locks: HashMap<Key, Lock>,
    /// The key that each waiting session waits for, by process id.
    waiting: HashMap<i32, Key>,
}

#[derive(Default)]
struct Lock {
    /// Number of holds per session and mode.
    holders: BTreeMap<(i32, Mode), u32>,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    pid: i32,
    mode: Mode,
    granted: Event,
}

impl Lock {
    /// Whether another session holds the lock in a conflicting mode.
    fn is_held_against(&self, pid: i32, mode: Mode) -> bool {
        self.holders.keys().any(|(holder, held)| *holder != pid && held.conflicts(mode))
    }

    /// Whether a new request must wait: for holders, or for earlier conflicting requests in the queue.
    fn must_wait(&self, pid: i32, mode: Mode) -> bool {
        if self.holders.contains_key(&(pid, mode)) {
            return false;
        }
        self.is_held_against(pid, mode) || self.queue.iter().any(|waiter| waiter.mode.conflicts(mode))
    }

    fn hold(&mut self, pid: i32, mode: Mode) {
        *self.holders.entry((pid, mode)).or_default() += 1;
    }
}

impl State {
    /// Grants a key to the waiters at the head of its queue that no longer conflict. Returns their events, to be set
    /// without the mutex held.
    fn grant(&mut self, key: Key) -> Vec<Event> {
        let mut granted = Vec::new();
        let Some(lock) = self.locks.get_mut(&key) else { return granted };
        while let Some(waiter) = lock.queue.front()
            && !lock.is_held_against(waiter.pid, waiter.mode)
        {
            let (pid, mode, event) = (waiter.pid, waiter.mode, waiter.granted.clone());
            lock.queue.pop_front();
            lock.hold(pid, mode);
            self.waiting.remove(&pid);
            granted.push(event);
        }
        if lock.holders.is_empty() && lock.queue.is_empty() {
            self.locks.remove(&key);
        }
        granted
    }

    /// Whether session `pid` would deadlock if it waited for `key`: follows the waits-for graph back to `pid`.
    fn is_circle(&self, pid: i32, key: Key, mode: Mode) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![(pid, key, mode)];
        while let Some((waiter, key, mode)) = next.pop() {
            let Some(lock) = self.locks.get(&key) else { continue };
            let holders = lock.holders.keys().filter(|(_, held)| held.conflicts(mode)).map(|(holder, _)| *holder);
            let before = lock.queue.iter().take_while(|other| other.pid != waiter);
            let before = before.filter(|other| other.mode.conflicts(mode)).map(|other| other.pid);
            for other in holders.chain(before).filter(|other| *other != waiter) {
                if other == pid {
                    return true;
                }
                if seen.insert(other)
                    && let Some(waits_for) = self.waiting.get(&other)
                    && let Some(lock) = self.locks.get(waits_for)
                    && let Some(own) = lock.queue.iter().find(|own| own.pid == other)
                {
                    next.push((other, *waits_for, own.mode));
                }
            }
        }
        false
    }
}

/// The answer to a request for a lock.
enum Asked {
    Granted,
    Wait(Event),
}

impl Locks {
    fn ask(&self, pid: i32, key: Key, mode: Mode, waits: bool) -> Result<Option<Asked>> {
        let mut state = self.0.lock();
        if state.locks.len() >= ADVISORY_LOCKS_MAX && !state.locks.contains_key(&key) {
            let text = format!("{ADVISORY_LOCKS_MAX} advisory locks are held; there can be no more");
            return Err(Error::new(SqlState::OUT_OF_MEMORY, text).with_hint("release some by pg_advisory_unlock"));
        }
        let lock = state.locks.entry(key).or_default();
        if !lock.must_wait(pid, mode) {
            lock.hold(pid, mode);
            return Ok(Some(Asked::Granted));
        }
        if !waits {
            return Ok(None);
        }
        if state.is_circle(pid, key, mode) {
            let detail = format!("session {pid} waits for advisory lock {key:?} behind sessions that wait for it");
            return Err(Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(detail));
        }
        let granted = Event::new();
        state.waiting.insert(pid, key);
        if let Some(lock) = state.locks.get_mut(&key) {
            lock.queue.push_back(Waiter { pid, mode, granted: granted.clone() });
        }
        Ok(Some(Asked::Wait(granted)))
    }

    fn release(&self, pid: i32, key: Key, mode: Mode) {
        let granted = {
            let mut state = self.0.lock();
            if let Some(lock) = state.locks.get_mut(&key)
                && let Some(count) = lock.holders.get_mut(&(pid, mode))
            {
                *count -= 1;
                if *count == 0 {
                    lock.holders.remove(&(pid, mode));
                }
            }
            state.grant(key)
        };
        granted.iter().for_each(Event::set);
    }

    /// Withdraws a request: releases the lock if it was granted meanwhile.
    fn give_up(&self, pid: i32, key: Key, mode: Mode, event: &Event) {
        if event.is_set() {
            return self.release(pid, key, mode);
        }
        let granted = {
            let mut state = self.0.lock();
            let found = state.locks.get_mut(&key).and_then(|lock| {
                let at = lock.queue.iter().position(|waiter| waiter.pid == pid)?;
                lock.queue.remove(at)
            });
            if found.is_none() {
                // The lock was granted after the event was read and before the mutex was taken.
                drop(state);
                return self.release(pid, key, mode);
            }
            state.waiting.remove(&pid);
            state.grant(key)
        };
        granted.iter().for_each(Event::set);
    }

    /// All locks that are held or waited for, as rows of `pg_locks`.
    pub(crate) fn list(&self) -> Vec<AdvisoryLock> {
        let state = self.0.lock();
        let mut shown = Vec::new();
        for (key, lock) in &state.locks {
            let holders = lock.holders.keys().map(|(pid, mode)| (*pid, *mode, true));
            let queue = lock.queue.iter().map(|waiter| (waiter.pid, waiter.mode, false));
            shown.extend(holders.chain(queue).map(|(pid, mode, granted)| AdvisoryLock {
                key: *key,
                pid,
                mode: mode.name(),
                granted,
            }));
        }
        shown.sort_unstable_by_key(|shown| (shown.key, !shown.granted, shown.pid));
        shown
    }
}

/// The advisory locks of one session.
pub(crate) struct Held {
    locks: Locks,
    pid: i32,
    session: BTreeMap<(Key, Mode), u32>,
    /// Transaction-level locks in order of acquisition, each with the number of savepoints at that time.
    transaction: Vec<(Key, Mode, usize)>,
}

impl Held {
    pub(crate) fn new(locks: Locks, pid: i32) -> Held {
        Held { locks, pid, session: BTreeMap::new(), transaction: Vec::new() }
    }

    /// Releases the locks that the transaction took while it had `savepoints` savepoints or more.
    pub(crate) fn end_transaction(&mut self, savepoints: usize) {
        while let Some((key, mode, _)) = self.transaction.pop_if(|(.., taken)| *taken >= savepoints) {
            self.locks.release(self.pid, key, mode);
        }
    }

    /// Assigns the locks taken since to the enclosing savepoint after RELEASE left `savepoints` savepoints.
    pub(crate) fn release_savepoint(&mut self, savepoints: usize) {
        self.transaction.iter_mut().for_each(|(.., taken)| *taken = savepoints.min(*taken));
    }

    /// Releases all session-level locks.
    pub(crate) fn unlock_all(&mut self) {
        for ((key, mode), count) in std::mem::take(&mut self.session) {
            (0..count).for_each(|_| self.locks.release(self.pid, key, mode));
        }
    }

    fn unlock(&mut self, key: Key, mode: Mode) -> bool {
        let Some(count) = self.session.get_mut(&(key, mode)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.session.remove(&(key, mode));
        }
        self.locks.release(self.pid, key, mode);
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end_transaction(0);
        self.unlock_all();
    }
}

/// A request in the queue. Dropping it withdraws the request unless `kept` was set after the grant.
struct Waiting<'a> {
    locks: &'a Locks,
    pid: i32,
    key: Key,
    mode: Mode,
    event: Event,
    kept: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.locks.give_up(self.pid, self.key, self.mode, &self.event);
        }
    }
}

/// The operation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Lock { mode: Mode, waits: bool, transaction: bool },
    Unlock(Mode),
    UnlockAll,
}

impl Act {
    fn of(name: &str) -> Option<Act> {
        let (rest, waits) = match name.strip_prefix("pg_try_advisory_") {
            Some(rest) => (rest, false),
            None => (name.strip_prefix("pg_advisory_")?, true),
        };
        let (rest, mode) = match rest.strip_suffix("_shared") {
            Some(rest) => (rest, Mode::Shared),
            None => (rest, Mode::Exclusive),
        };
        Some(match (rest, waits) {
            ("lock", _) => Act::Lock { mode, waits, transaction: false },
            ("xact_lock", _) => Act::Lock { mode, waits, transaction: true },
            ("unlock", true) => Act::Unlock(mode),
            ("unlock_all", true) if mode == Mode::Exclusive => Act::UnlockAll,
            _ => return None,
        })
    }

    /// Whether the function returns a boolean (success) rather than void.
    fn answers(self) -> bool {
        matches!(self, Act::Lock { waits: false, .. } | Act::Unlock(_))
    }
}

/// A statement that consists only of calls of advisory lock functions.
pub(crate) struct Calls {
    calls: Vec<Call>,
    /// The query that computes the arguments of all calls; `None` if no call has arguments.
    arguments: Option<Prepared>,
}

struct Call {
    act: Act,
    name: String,
    arguments: Vec<Expr>,
}

impl Calls {
    /// Plans the calls of a statement; `None` if the statement has anything other than such calls.
    ///
    /// # Errors
    /// Those of planning the arguments; 42883 for a wrong number of arguments.
    pub(crate) fn plan(session: &mut Session, query: &Query, types: &[u32]) -> Result<Option<Calls>> {
        let Some(calls) = calls(query) else { return Ok(None) };
        let mut texts = Vec::new();
        for call in &calls {
            let ty = match (call.act, call.arguments.len()) {
                (Act::UnlockAll, 0) => continue,
                (Act::Lock { .. } | Act::Unlock(_), 1) => "bigint",
                (Act::Lock { .. } | Act::Unlock(_), 2) => "integer",
                _ => {
                    let text = format!("function {}() does not exist with these arguments", call.name);
                    return Err(Error::new(SqlState::UNDEFINED_FUNCTION, text)
                        .with_hint("advisory locks take a bigint or two integers"));
                }
            };
            texts.extend(call.arguments.iter().map(|argument| format!("CAST(({argument}) AS {ty})")));
        }
        let arguments = if texts.is_empty() {
            None
        } else {
            let inner = parse(&format!("SELECT {}", texts.join(", ")))?.into_iter().next();
            let inner = inner.ok_or_else(|| Error::bug("arguments of advisory locks that are no query"))?;
            Some(session.plan_statement(&inner.without_place(), types)?)
        };
        Ok(Some(Calls { calls, arguments }))
    }

    pub(crate) fn parameters(&self) -> Vec<u32> {
        self.arguments.as_ref().map_or_else(Vec::new, |arguments| arguments.parameters().to_vec())
    }

    pub(crate) fn columns(&self) -> Vec<OutputColumn> {
        let column = |call: &Call| {
            let oid = if call.act.answers() { oid::BOOL } else { oid::VOID };
            OutputColumn { name: call.name.clone(), oid, typmod: -1, origin: None }
        };
        self.calls.iter().map(column).collect()
    }

    /// Runs the calls in order.
    ///
    /// # Errors
    /// 40P01 for a deadlock; 55P03 after `lock_timeout`; errors of computing an argument.
    pub(crate) async fn execute(&self, session: &mut Session, values: &[Value]) -> Result<Outcome> {
        let mut numbers = match &self.arguments {
            Some(arguments) => numbers(session, arguments, values).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let (mut arrays, mut fields): (Vec<ArrayRef>, Vec<Field>) = (Vec::new(), Vec::new());
        for call in &self.calls {
            let given: Vec<Option<i64>> = numbers.by_ref().take(call.arguments.len()).collect();
            let answer = match given.as_slice() {
                [] => call.run(session, None).await?,
                [Some(one)] => call.run(session, Some(Key::One(*one))).await?,
                [Some(first), Some(second)] => {
                    let part = |number: i64| i32::try_from(number).map_err(Error::bug);
                    call.run(session, Some(Key::Pair(part(*first)?, part(*second)?))).await?
                }
                // The functions are strict: a NULL argument takes no lock.
                _ => None,
            };
            let array: ArrayRef = if call.act.answers() {
                Arc::new(BooleanArray::from(vec![answer]))
            } else {
                Arc::new(StringArray::from(vec![Some("")]))
            };
            fields.push(Field::new(&call.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        if session.block.is_none() {
            // A single-statement transaction ends here.
            session.advisory.end_transaction(0);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)?;
        let batches = Box::pin(futures::stream::iter([Ok(batch)]));
        Ok(Outcome::Rows { columns: self.columns(), batches, tag: "SELECT".into() })
    }
}

impl Call {
    async fn run(&self, session: &mut Session, key: Option<Key>) -> Result<Option<bool>> {
        let (mode, waits, transaction, key) = match (self.act, key) {
            (Act::UnlockAll, _) => {
                session.advisory.unlock_all();
                return Ok(None);
            }
            (Act::Unlock(mode), Some(key)) => {
                let found = session.advisory.unlock(key, mode);
                if !found {
                    session.warn(SqlState("01000"), format!("you don't own a lock of type {}", mode.name()));
                }
                return Ok(Some(found));
            }
            (Act::Lock { mode, waits, transaction }, Some(key)) => (mode, waits, transaction, key),
            (Act::Lock { .. } | Act::Unlock(_), None) => return Err(Error::bug("a lock of nothing")),
        };
        let patience = session.settings.lock_timeout();
        let held = &mut session.advisory;
        match held.locks.ask(held.pid, key, mode, waits)? {
            None => return Ok(Some(false)),
            Some(Asked::Granted) => {}
            Some(Asked::Wait(event)) => {
                let mut waiting = Waiting { locks: &held.locks, pid: held.pid, key, mode, event, kept: false };
                crate::rows::wait(&waiting.event, patience).await?;
                waiting.kept = true;
            }
        }
        if transaction {
            let savepoints = session.block.as_ref().map_or(0, |block| block.savepoints.len());
            held.transaction.push((key, mode, savepoints));
        } else {
            *held.session.entry((key, mode)).or_default() += 1;
        }
        Ok(Some(true))
    }
}

/// Runs the query of the arguments and returns its only row.
async fn numbers(session: &mut Session, arguments: &Prepared, values: &[Value]) -> Result<Vec<Option<i64>>> {
    let Outcome::Rows { mut batches, .. } = Box::pin(session.execute(arguments, values)).await? else {
        return Err(Error::bug("arguments of advisory locks without a row"));
    };
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        let number = |array: &ArrayRef| {
            if let Some(array) = array.as_primitive_opt::<Int64Type>() {
                return Ok(array.is_valid(0).then(|| array.value(0)));
            }
            let array = array.as_primitive_opt::<Int32Type>();
            let array = array.ok_or_else(|| Error::bug("an advisory lock that is no integer"))?;
            Ok(array.is_valid(0).then(|| i64::from(array.value(0))))
        };
        return batch.columns().iter().map(number).collect();
    }
    Err(Error::bug("arguments of advisory locks without a row"))
}

fn calls(query: &Query) -> Option<Vec<Call>> {
    let one = |item: call_statement::CallItem<'_>| {
        let (act, arguments) = (Act::of(item.name())?, item.call.args.clone());
        Some(Call { act, name: item.column.to_owned(), arguments })
    };
    call_statement::calls(query)?.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Key = Key::One(1);
    const B: Key = Key::Pair(0, 1);

    /// Requests a lock. `t`: granted, `f`: refused, `w`: waits, else the SQLSTATE.
    fn ask(locks: &Locks, pid: i32, key: Key, mode: Mode, waits: bool) -> (&'static str, Option<Event>) {
        match locks.ask(pid, key, mode, waits) {
            Ok(None) => ("f", None),
            Ok(Some(Asked::Granted)) => ("t", None),
            Ok(Some(Asked::Wait(event))) => ("w", Some(event)),
            Err(error) => (error.state().0, None),
        }
    }

    #[test]
    fn modes_conflict_as_in_postgresql_and_the_queue_is_fair() {
        use Mode::{Exclusive, Shared};
        let locks = Locks::default();
        assert_eq!(ask(&locks, 1, A, Shared, true).0, "t");
        assert_eq!(ask(&locks, 2, A, Shared, true).0, "t");
        assert_eq!(ask(&locks, 1, B, Exclusive, true).0, "t", "a pair is another key");
        let (waits, third) = ask(&locks, 3, A, Exclusive, true);
        assert_eq!(waits, "w");
        assert_eq!(ask(&locks, 4, A, Shared, false).0, "f", "nobody overtakes who waits");
        assert_eq!(ask(&locks, 2, A, Shared, false).0, "t", "a holder has it again");
        locks.release(1, A, Shared);
        locks.release(2, A, Shared);
        assert!(!third.as_ref().unwrap().is_set());
        locks.release(2, A, Shared);
        assert!(third.unwrap().is_set());
        assert_eq!(ask(&locks, 1, A, Shared, false).0, "f");
        locks.release(3, A, Exclusive);
        locks.release(1, B, Exclusive);
        assert_eq!(locks.list(), []);
    }

    #[test]
    fn a_circle_of_waiting_sessions_is_refused_and_giving_up_lets_others_on() {
        use Mode::Exclusive;
        let locks = Locks::default();
        assert_eq!(ask(&locks, 1, A, Exclusive, true).0, "t");
        assert_eq!(ask(&locks, 2, B, Exclusive, true).0, "t");
        let (_, first) = ask(&locks, 1, B, Exclusive, true);
        assert_eq!(ask(&locks, 2, A, Exclusive, true).0, "40P01");
        let (_, third) = ask(&locks, 3, B, Exclusive, true);
        locks.give_up(1, B, Exclusive, &first.unwrap());
        locks.release(2, B, Exclusive);
        assert!(third.unwrap().is_set());
        locks.release(3, B, Exclusive);
        locks.release(1, A, Exclusive);
        assert_eq!(locks.list(), []);
    }

    #[test]
    fn locks_of_a_transaction_end_with_their_savepoint() {
        let locks = Locks::default();
        let mut held = Held::new(locks.clone(), 1);
        for (number, savepoints) in [(1, 0), (2, 1), (3, 2)] {
            assert_eq!(ask(&locks, 1, Key::One(number), Mode::Exclusive, true).0, "t");
            held.transaction.push((Key::One(number), Mode::Exclusive, savepoints));
        }
        let keys = |locks: &Locks| locks.list().iter().map(|shown| shown.key).collect::<Vec<_>>();
        held.end_transaction(2);
        assert_eq!(keys(&locks), [Key::One(1), Key::One(2)]);
        held.release_savepoint(0);
        held.end_transaction(1);
        assert_eq!(keys(&locks), [Key::One(1), Key::One(2)]);
        held.end_transaction(0);
        assert_eq!(keys(&locks), []);
    }

    #[test]
    fn every_function_is_known_by_its_name() {
        for (name, known) in [
            ("pg_advisory_lock", true),
            ("pg_advisory_xact_lock_shared", true),
            ("pg_try_advisory_lock_shared", true),
            ("pg_try_advisory_xact_lock", true),
            ("pg_advisory_unlock_shared", true),
            ("pg_advisory_unlock_all", true),
            ("pg_try_advisory_unlock", false),
            ("pg_advisory_unlock_all_shared", false),
            ("pg_advisory", false),
        ] {
            assert_eq!(Act::of(name).is_some(), known, "{name}");
        }
    }
}
