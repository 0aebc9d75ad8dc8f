//! Row locks, and locks on keys: PostgreSQL's four modes, first come first served, deadlocks found at once.
//!
//! A lock that one transaction holds alone is a word beside its record, taken and let go with one compare-and-swap. Only
//! when a second transaction comes does it move to a table of queues, and back to nothing when the last one leaves.
//! Nothing here blocks: who must wait gets an [`Event`] that is set when the lock is his.
//!
//! Always true: a word says [`IN_TABLE`] exactly when its queue exists; who waits is in `waits` with everybody he waits
//! for, so that a cycle is closed only by the one who begins to wait last, who looks for it.

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

/// All locks of one database.
pub(crate) struct Locks {
    shards: Box<[Mutex<Queues>]>,
    /// Whom each waiting transaction waits for. Taken after a shard's lock, never before.
    waits: Mutex<FxHashMap<TxnId, Vec<TxnId>>>,
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
        let mode = held.map_or(mode, |at| mode.max(queue.holders[at].1));
        let blockers = queue.blockers(txn, mode, if held.is_some() { 0 } else { queue.waiters.len() });
        if blockers.is_empty() {
            match held {
                Some(at) => queue.holders[at].1 = mode,
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
        {
            let mut waits = self.waits.lock();
            if reaches(&waits, &blockers, txn) {
                return Err(Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                    .with_detail("the other transactions go on when this one has ended")
                    .with_hint("run the transaction again"));
            }
            waits.insert(txn, blockers);
        }
        let granted = Event::new();
        let waiter = Waiter { txn, mode, granted: granted.clone() };
        if held.is_some() {
            queue.waiters.push_front(waiter);
            // Who waited already now waits for it as well.
            self.note_waits(queue);
        } else {
            queue.waiters.push_back(waiter);
        }
        Ok(Request::Wait(granted))
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

    /// Gives the lock to those first in the queue who can have it together.
    fn grant(&self, queue: &mut Queue, granted: &mut Vec<Event>) {
        while let Some(first) = queue.waiters.front() {
            if !queue.blockers(first.txn, first.mode, 0).is_empty() {
                break;
            }
            let Some(Waiter { txn, mode, granted: event }) = queue.waiters.pop_front() else { break };
            match queue.holders.iter_mut().find(|(holder, _)| *holder == txn) {
                Some(held) => held.1 = mode,
                None => queue.holders.push((txn, mode)),
            }
            self.waits.lock().remove(&txn);
            granted.push(event);
        }
        self.note_waits(queue);
    }

    /// Writes down anew whom those in the queue wait for.
    fn note_waits(&self, queue: &Queue) {
        if queue.waiters.is_empty() {
            return;
        }
        let mut waits = self.waits.lock();
        for (at, waiter) in queue.waiters.iter().enumerate() {
            waits.insert(waiter.txn, queue.blockers(waiter.txn, waiter.mode, at));
        }
    }

    /// How many transactions wait for a lock.
    pub(crate) fn waiting(&self) -> usize {
        self.waits.lock().len()
    }
}

impl Queue {
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

/// Does anybody of `from` wait for `txn`, by however many others?
fn reaches(waits: &FxHashMap<TxnId, Vec<TxnId>>, from: &[TxnId], txn: TxnId) -> bool {
    let (mut todo, mut seen) = (from.to_vec(), Vec::new());
    while let Some(next) = todo.pop() {
        if next == txn {
            return true;
        }
        if !seen.contains(&next) {
            seen.push(next);
            todo.extend(waits.get(&next).into_iter().flatten());
        }
    }
    false
}
