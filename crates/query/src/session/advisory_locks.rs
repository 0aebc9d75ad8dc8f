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
use std::time::Duration;

use engine::Event;
use model::{Error, Result, SqlState};
use parking_lot::Mutex;
use pg_catalog::facts::{AdvisoryKey as Key, AdvisoryLock};

use super::database::wait;

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
    pub(crate) fn name(self) -> &'static str {
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

    pub(crate) fn unlock(&mut self, key: Key, mode: Mode) -> bool {
        let Some(count) = self.session.get_mut(&(key, mode)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.session.remove(&(key, mode));
        }
        self.locks.release(self.pid, key, mode);
        true
    }
}

impl Held {
    /// Takes a lock, for the transaction's part after its first `savepoints` savepoints, or for the session. Returns false if
    /// it is not free and the caller does not wait for it.
    ///
    /// # Errors
    /// 40P01 for a deadlock; 55P03 after `patience`.
    pub(crate) async fn lock(
        &mut self,
        (key, mode): (Key, Mode),
        savepoints: Option<usize>,
        waits: bool,
        patience: Option<Duration>,
    ) -> Result<bool> {
        match self.locks.ask(self.pid, key, mode, waits)? {
            None => return Ok(false),
            Some(Asked::Granted) => {}
            Some(Asked::Wait(event)) => {
                let mut waiting = Waiting { locks: &self.locks, pid: self.pid, key, mode, event, kept: false };
                wait(&waiting.event, patience).await?;
                waiting.kept = true;
            }
        }
        match savepoints {
            Some(savepoints) => self.transaction.push((key, mode, savepoints)),
            None => *self.session.entry((key, mode)).or_default() += 1,
        }
        Ok(true)
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
}
