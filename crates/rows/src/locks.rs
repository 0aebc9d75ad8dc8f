//! Row locks, and locks on keys: PostgreSQL's four modes, first come first served, deadlocks found at once.
//!
//! A lock that one transaction holds alone is a word beside its record, taken and let go with one compare-and-swap. Only
//! when a second transaction comes does it move to a table of queues, and back to nothing when the last one leaves.
//! Nothing here blocks: who must wait gets an [`Event`] that is set when the lock is his.
//!
//! Always true:
//! - A word says [`IN_TABLE`] exactly when its queue exists.
//! - Who waits is in `waits` with everybody he waits for, and whoever has nobody to wait for has the lock. So a cycle is
//!   closed only by the one who begins to wait last, who looks for it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;

use env::Event;
use model::{Error, Result, SqlState};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::sync::{AtomicU64, Mutex};

/// Queues are spread over this many maps, so that waiting for different rows does not mean waiting for each other.
const SHARDS: usize = 64;

/// A transaction's number, never used again while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnId(pub(crate) u64);

/// How strong a lock is: PostgreSQL's row-level modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// `FOR KEY SHARE`: the row stays, with its keys. Foreign keys take it.
    KeyShare,
    /// `FOR SHARE`: the row stays as it is.
    Share,
    /// `FOR NO KEY UPDATE`: taken by updates that leave the keys alone.
    NoKeyUpdate,
    /// `FOR UPDATE`: taken by deletes and updates of keys.
    Update,
}

impl LockMode {
    const ALL: [LockMode; 4] = [LockMode::KeyShare, LockMode::Share, LockMode::NoKeyUpdate, LockMode::Update];

    /// May two transactions not have these at a time?
    #[must_use]
    pub fn conflicts(self, other: LockMode) -> bool {
        use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
        match (self.min(other), self.max(other)) {
            (_, Update) | (NoKeyUpdate, NoKeyUpdate) | (Share, NoKeyUpdate) => true,
            (KeyShare, _) | (Share, _) | (NoKeyUpdate, _) | (Update, _) => false,
        }
    }
}

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockName {
    /// A record of a table.
    Record { table: u32, record: u64 },
    /// A key of a unique index, by its hash: two keys of the same hash only wait for each other.
    Key { index: u32, hash: u64 },
    /// A table as a whole: who writes to it shares it, who changes what it is has it alone.
    Table { table: u32 },
}

/// What to do when somebody else has the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Wait.
    #[default]
    Wait,
    /// `NOWAIT`: 55P03.
    NoWait,
    /// `SKIP LOCKED`: leave the row out.
    Skip,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Request {
    /// It is held. `fresh` if it was not before: then it must be released once.
    Held { fresh: bool },
    /// It will be held when the event is set, and must be released once, whether it is by then or not.
    Wait(Event),
    /// It is not held, as `SKIP LOCKED` asks for.
    Skipped,
}

/// Nobody holds it.
const FREE: u64 = 0;
/// Who holds it and who waits is in its queue.
const IN_TABLE: u64 = 1;

/// The word of a lock that one transaction holds alone. Numbers of transactions begin at 1, so it is no other word.
fn alone(txn: TxnId, mode: LockMode) -> u64 {
    txn.0 << 3 | (mode as u64) << 1
}

/// Who holds a lock by such a word.
fn holder(word: u64) -> (TxnId, LockMode) {
    (TxnId(word >> 3), LockMode::ALL[(word >> 1 & 3) as usize])
}

/// Who holds a lock, and who waits for it in which order.
#[derive(Default)]
struct Queue {
    holders: Vec<(TxnId, LockMode)>,
    waiters: VecDeque<Waiter>,
}

struct Waiter {
    txn: TxnId,
    mode: LockMode,
    granted: Event,
}

type Queues = FxHashMap<LockName, Queue>;
/// Whom each waiting transaction waits for.
type Waits = FxHashMap<TxnId, Vec<TxnId>>;

/// All locks of one database.
pub(crate) struct Locks {
    shards: Box<[Mutex<Queues>]>,
    /// Taken after a shard's lock, never before.
    waits: Mutex<Waits>,
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), waits: Mutex::default() }
    }

    fn shard(&self, name: LockName) -> &Mutex<Queues> {
        &self.shards[(FxBuildHasher.hash_one(name) >> 58) as usize % SHARDS]
    }

    /// Asks for a lock whose word is `word`; locks on keys have none. Who holds it already in a weaker mode gets the stronger
    /// one, before those who wait.
    ///
    /// # Errors
    /// 40P01 if waiting would never end; 55P03 under `NOWAIT`. Nothing has changed then.
    pub(crate) fn lock(
        &self,
        txn: TxnId,
        name: LockName,
        word: Option<&AtomicU64>,
        mode: LockMode,
        policy: WaitPolicy,
    ) -> Result<Request> {
        if let Some(word) = word
            && let Some(done) = lock_alone(txn, word, mode)
        {
            return Ok(done);
        }
        let mut queues = self.shard(name).lock();
        let queue = queues.entry(name).or_default();
        if let Some(word) = word
            && let Some(done) = move_to_table(txn, word, mode, queue)
        {
            queues.remove(&name);
            return Ok(done);
        }
        let result = self.enqueue(txn, mode, policy, queue);
        // A word says `IN_TABLE` exactly when there is a queue with somebody in it.
        debug_assert!(!queue.holders.is_empty(), "BUG: a lock in the table that nobody holds");
        result
    }

    fn enqueue(&self, txn: TxnId, mode: LockMode, policy: WaitPolicy, queue: &mut Queue) -> Result<Request> {
        let held = queue.holders.iter().position(|(holder, _)| *holder == txn);
        let waiting = queue.waiters.iter().position(|waiter| waiter.txn == txn);
        let mode = held.map_or(mode, |at| mode.max(queue.holders[at].1));
        let mode = waiting.map_or(mode, |at| mode.max(queue.waiters[at].mode));
        if queue.blockers(txn, mode, if held.is_some() { 0 } else { queue.waiters.len() }).is_empty() {
            match held {
                Some(at) => {
                    queue.holders[at].1 = mode;
                    // Others may wait for it only now.
                    queue.note_waits(0, &mut self.waits.lock());
                }
                None => queue.holders.push((txn, mode)),
            }
            return Ok(Request::Held { fresh: held.is_none() });
        }
        match policy {
            WaitPolicy::Skip => return Ok(Request::Skipped),
            WaitPolicy::NoWait => {
                return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on row"));
            }
            WaitPolicy::Wait => {}
        }
        let (place, before) = match waiting {
            // Asked for again, maybe for more, it keeps its place.
            Some(at) => (at, Some(std::mem::replace(&mut queue.waiters[at].mode, mode))),
            None => {
                // Before those who wait for what it has, or it would wait for them; behind all others.
                let place = held.map_or(queue.waiters.len(), |at| queue.first_waiting_for(queue.holders[at].1));
                queue.waiters.insert(place, Waiter { txn, mode, granted: Event::new() });
                (place, None)
            }
        };
        let mut waits = self.waits.lock();
        queue.note_waits(place, &mut waits);
        if waits_for_itself(&waits, txn) {
            match before {
                Some(mode) => queue.waiters[place].mode = mode,
                None => {
                    queue.waiters.remove(place);
                    waits.remove(&txn);
                }
            }
            queue.note_waits(place, &mut waits);
            return Err(Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                .with_detail("the other transactions go on when this one has ended")
                .with_hint("run the transaction again"));
        }
        Ok(Request::Wait(queue.waiters[place].granted.clone()))
    }

    /// Lets go of a lock, or of the place in its queue, once for each time it was asked for afresh.
    pub(crate) fn release(&self, txn: TxnId, name: LockName, word: Option<&AtomicU64>) {
        if let Some(word) = word {
            let seen = word.load(Ordering::Relaxed);
            if seen != IN_TABLE
                && seen != FREE
                && holder(seen).0 == txn
                && word.compare_exchange(seen, FREE, Ordering::Release, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
        let mut granted = Vec::new();
        {
            let mut queues = self.shard(name).lock();
            let Some(queue) = queues.get_mut(&name) else { return };
            queue.holders.retain(|(holder, _)| *holder != txn);
            let before = queue.waiters.len();
            queue.waiters.retain(|waiter| waiter.txn != txn);
            if queue.waiters.len() != before {
                self.waits.lock().remove(&txn);
            }
            self.grant(queue, &mut granted);
            if queue.holders.is_empty() {
                queues.remove(&name);
                if let Some(word) = word {
                    word.store(FREE, Ordering::Release);
                }
            }
        }
        // Outside the lock: call-backs run on this thread.
        for event in granted {
            event.set();
        }
    }

    /// Gives up waiting for more of a lock than `txn` has; what it has it keeps.
    pub(crate) fn give_up(&self, txn: TxnId, name: LockName) {
        let mut granted = Vec::new();
        {
            let mut queues = self.shard(name).lock();
            let Some(queue) = queues.get_mut(&name) else { return };
            let before = queue.waiters.len();
            queue.waiters.retain(|waiter| waiter.txn != txn);
            if queue.waiters.len() != before {
                self.waits.lock().remove(&txn);
            }
            self.grant(queue, &mut granted);
        }
        for event in granted {
            event.set();
        }
    }

    /// Gives the lock to those who need not wait any more for holders, nor for others before them.
    fn grant(&self, queue: &mut Queue, granted: &mut Vec<Event>) {
        let mut at = 0;
        while let Some(next) = queue.waiters.get(at) {
            if !queue.blockers(next.txn, next.mode, at).is_empty() {
                at += 1;
                continue;
            }
            let Some(Waiter { txn, mode, granted: event }) = queue.waiters.remove(at) else { break };
            match queue.holders.iter_mut().find(|(holder, _)| *holder == txn) {
                Some(held) => held.1 = mode,
                None => queue.holders.push((txn, mode)),
            }
            self.waits.lock().remove(&txn);
            granted.push(event);
        }
        if !queue.waiters.is_empty() {
            queue.note_waits(0, &mut self.waits.lock());
        }
    }

    /// How many transactions wait for a lock.
    pub(crate) fn waiting(&self) -> usize {
        self.waits.lock().len()
    }
}

impl Queue {
    /// The place of the first waiter who cannot have the lock because of somebody who has it in this mode.
    fn first_waiting_for(&self, mode: LockMode) -> usize {
        self.waiters.iter().position(|waiter| waiter.mode.conflicts(mode)).unwrap_or(self.waiters.len())
    }

    /// Writes down anew whom those in the queue wait for, from a place on.
    fn note_waits(&self, place: usize, waits: &mut Waits) {
        for (at, waiter) in self.waiters.iter().enumerate().skip(place) {
            waits.insert(waiter.txn, self.blockers(waiter.txn, waiter.mode, at));
        }
    }

    /// Whom `txn` would wait for: holders it cannot share with, and such among the first `ahead` waiters.
    fn blockers(&self, txn: TxnId, mode: LockMode, ahead: usize) -> Vec<TxnId> {
        let holders = self.holders.iter().filter(|(holder, held)| *holder != txn && held.conflicts(mode));
        let waiters = self.waiters.iter().take(ahead).filter(|waiter| waiter.txn != txn && waiter.mode.conflicts(mode));
        holders.map(|(holder, _)| *holder).chain(waiters.map(|waiter| waiter.txn)).collect()
    }
}

/// The quick way: nobody has it, or nobody but `txn`.
fn lock_alone(txn: TxnId, word: &AtomicU64, mode: LockMode) -> Option<Request> {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let (next, fresh) = if seen == FREE {
            (alone(txn, mode), true)
        } else {
            let (holder, held) = if seen == IN_TABLE { return None } else { holder(seen) };
            if holder != txn {
                return None;
            }
            if held >= mode {
                return Some(Request::Held { fresh: false });
            }
            (alone(txn, mode), false)
        };
        match word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(Request::Held { fresh }),
            Err(now) => seen = now,
        }
    }
}

/// Moves a lock from its word to its queue, under the shard's lock; gives what became of the request if it was free or one's own after all.
fn move_to_table(txn: TxnId, word: &AtomicU64, mode: LockMode, queue: &mut Queue) -> Option<Request> {
    loop {
        if let Some(done) = lock_alone(txn, word, mode) {
            return Some(done);
        }
        let seen = word.load(Ordering::Relaxed);
        if seen == IN_TABLE {
            return None;
        }
        if seen != FREE && word.compare_exchange(seen, IN_TABLE, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            queue.holders.push(holder(seen));
            return None;
        }
    }
}

/// Does anybody that a waiting transaction waits for wait for it, by however many others?
fn waits_for_itself(waits: &Waits, txn: TxnId) -> bool {
    let (mut todo, mut seen) = (vec![txn], Vec::new());
    while let Some(next) = todo.pop() {
        for blocker in waits.get(&next).into_iter().flatten() {
            if *blocker == txn {
                return true;
            }
            if !seen.contains(blocker) {
                seen.push(*blocker);
                todo.push(*blocker);
            }
        }
    }
    false
}
