//! Lock manager for rows, unique keys and tables: PostgreSQL's four row-lock modes, wait queues,
//! immediate deadlock detection.
//!
//! A lock held by one transaction is a word in its record, acquired and released with one
//! compare-and-swap. When a second transaction requests it, the lock moves to a queue in a hash
//! table; it moves back when the last holder leaves. No call blocks: a request that must wait
//! returns an [`Event`], which is set when the lock is granted.
//!
//! The order of grants is PostgreSQL's (heap_lock_tuple, heap_update and heap_delete of version 15):
//! - A new request for a row is compared with the holders only. It does not queue behind waiters, so
//!   `FOR KEY SHARE` of foreign key checks passes a waiting delete. A stream of such requests can
//!   starve the delete, as in PostgreSQL. A new request for a table does queue behind the waiters it
//!   conflicts with: DDL is not starved by writers.
//! - A holder that must wait for a stronger mode queues ahead of the waiters that it blocks.
//!   PostgreSQL's holder skips the tuple's heavyweight lock, which is the queue there.
//! - Other requests queue last, and a waiter is not granted the lock before an earlier waiter that it
//!   conflicts with.
//!
//! A transaction waits for at most one lock. It waits for the conflicting holders of that lock and
//! for the conflicting waiters ahead of it in the queue. A transaction that starts to wait, or asks
//! for a stronger mode while waiting, searches the wait-for graph for a cycle through itself,
//! *after* it has joined the queue. The last transaction of a cycle to do so always finds it: edges
//! that are added later lead to a transaction that was just granted a lock, and therefore waits for
//! nothing. The search locks one shard at a time and may see an inconsistent graph; a cycle found is
//! verified with all shards locked. This excludes false positives and picks one victim if several
//! transactions find the same cycle. If the cycle exists only by the order of a queue, waiters change
//! places instead ([`soft`]).
//!
//! Always true:
//! - A lock word is [`IN_TABLE`] exactly while its queue exists.
//! - Every waiting transaction is in `waits`, and a transaction that nothing blocks holds its lock.
//!
//! Costs, with `n` waiters for a lock and `h` holders:
//!
//! | operation                                 | cost                                                                          |
//! |-------------------------------------------|-------------------------------------------------------------------------------|
//! | lock, release without contention          | one compare-and-swap                                                          |
//! | lock that waits                           | O(log n), and the deadlock search                                             |
//! | deadlock search                           | O(h + log n) per lock on the path; it ends at holders that do not wait        |
//! | release, lower                            | O(log n) per transaction that is granted the lock; other waiters are not visited |

mod soft;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;

use env::Event;
use model::{Error, Result, SqlState};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use self::soft::Rearrangement;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard};

/// Shards of the queue table, so that waits for different rows rarely contend.
const SHARDS: usize = 64;

/// Transaction number, unique in the lifetime of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TxnId(pub(crate) u64);

/// Lock strength: PostgreSQL's row-level modes, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// `FOR KEY SHARE`: blocks deletes and key changes. Taken by foreign key checks.
    KeyShare,
    /// `FOR SHARE`: blocks all changes of the row.
    Share,
    /// `FOR NO KEY UPDATE`: taken by updates that do not change a key.
    NoKeyUpdate,
    /// `FOR UPDATE`: taken by deletes and by updates that change a key.
    Update,
}

impl LockMode {
    const ALL: [LockMode; MODES] = [LockMode::KeyShare, LockMode::Share, LockMode::NoKeyUpdate, LockMode::Update];

    /// Whether two transactions cannot hold these modes at the same time.
    #[must_use]
    pub fn conflicts(self, other: LockMode) -> bool {
        use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
        match (self.min(other), self.max(other)) {
            (_, Update) | (NoKeyUpdate, NoKeyUpdate) | (Share, NoKeyUpdate) => true,
            (KeyShare, _) | (Share, _) | (NoKeyUpdate, _) | (Update, _) => false,
        }
    }
}

/// Number of modes.
const MODES: usize = 4;

/// Identity of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockName {
    /// A record of a table.
    Record { table: u32, record: u64 },
    /// A key of a unique index, by its hash. Two keys with the same hash share a lock, which only
    /// costs waiting.
    Key { index: u32, hash: u64 },
    /// A whole table: shared by its writers, exclusive for DDL.
    Table { table: u32 },
}

/// Behaviour on a lock conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Wait until the lock is granted.
    #[default]
    Wait,
    /// `NOWAIT`: fail with 55P03.
    NoWait,
    /// `SKIP LOCKED`: skip the row.
    Skip,
}

/// Result of a lock request.
#[derive(Debug)]
pub(crate) enum Request {
    /// The lock is held. `before` is the mode held before the request, which may be stronger; if
    /// `None`, the lock must be released once.
    Held { before: Option<LockMode> },
    /// The lock is granted when the event is set. `before` is the mode held meanwhile; if `None`, the
    /// lock must be released once, granted or not.
    Wait { event: Event, before: Option<LockMode> },
    /// The lock is not held: a conflict under [`WaitPolicy::Skip`].
    Skipped,
}

/// Lock word: free.
const FREE: u64 = 0;
/// Lock word: holders and waiters are in the queue table.
const IN_TABLE: u64 = 1;

/// Lock word of a single holder. Transaction numbers start at 1, so it differs from [`FREE`] and
/// [`IN_TABLE`].
fn single_holder_word(txn: TxnId, mode: LockMode) -> u64 {
    let word = txn.0 << 3 | (mode as u64) << 1;
    debug_assert!(decode_word(word) == (txn, mode) && word > IN_TABLE, "BUG: {txn:?} has no lock word");
    word
}

/// Decodes the lock word of a single holder.
fn decode_word(word: u64) -> (TxnId, LockMode) {
    (TxnId(word >> 3), LockMode::ALL[(word >> 1 & 3) as usize])
}

/// The lock that each waiting transaction waits for; the lock's queue has the rest.
type Waits = FxHashMap<TxnId, LockName>;
type Queues = FxHashMap<LockName, Queue>;

/// Lock manager of one database.
pub(crate) struct Locks {
    /// Queue table. Several shards are locked in this order.
    shards: Box<[Mutex<Queues>]>,
    /// Locked after a shard, never before.
    waits: Box<[Mutex<Waits>]>,
    waiting: AtomicUsize,
    /// Steps of all deadlock searches, for tests.
    #[cfg(test)]
    steps: AtomicUsize,
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waits: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waiting: AtomicUsize::new(0),
            #[cfg(test)]
            steps: AtomicUsize::new(0),
        }
    }

    fn shard_of(name: LockName) -> usize {
        (FxBuildHasher.hash_one(name) >> 58) as usize % SHARDS
    }

    fn shard(&self, name: LockName) -> &Mutex<Queues> {
        &self.shards[Locks::shard_of(name)]
    }

    fn waits_of(&self, txn: TxnId) -> &Mutex<Waits> {
        &self.waits[txn.0 as usize % SHARDS]
    }

    /// Requests a lock; `word` is its lock word, `None` for locks on keys. A transaction waits for
    /// at most one lock.
    ///
    /// # Errors
    /// 40P01 if the request would close a deadlock; 55P03 for a conflict under `NOWAIT`. The state
    /// is unchanged.
    pub(crate) fn lock(
        &self,
        txn: TxnId,
        name: LockName,
        word: Option<&AtomicU64>,
        mode: LockMode,
        policy: WaitPolicy,
    ) -> Result<Request> {
        if let Some(word) = word
            && let Some(done) = lock_uncontended(txn, word, mode)
        {
            return Ok(done);
        }
        let mut queues = self.shard(name).lock();
        let queue = queues.entry(name).or_default();
        if let Some(word) = word
            && let Some(done) = move_to_queue(txn, word, mode, queue)
        {
            queues.remove(&name);
            return Ok(done);
        }
        let is_table = matches!(name, LockName::Table { .. });
        let asked = queue.request(txn, mode, policy, is_table);
        // A word is `IN_TABLE` exactly while its queue has a holder.
        assert!(!queue.holders.is_empty(), "BUG: the queue of {name:?} has no holder");
        let (event, before, waited) = match asked? {
            QueueResult::Answered(request) => {
                if matches!(request, Request::Held { .. }) {
                    // The transaction may have waited behind other waiters; they do not block this
                    // new request.
                    self.forget_wait(queue, txn);
                }
                return Ok(request);
            }
            QueueResult::Waits { event, before, waited } => (event, before, waited),
        };
        if waited.is_none() {
            let other = self.waits_of(txn).lock().insert(txn, name);
            assert!(other.is_none(), "BUG: {txn:?} waits for {name:?} and {other:?}");
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        drop(queues);
        // First without a consistent view: deadlocks are rare.
        if self.closes_cycle(txn, name, |locks, name, look| look(locks.shard(name).lock().get(&name)))
            && self.is_victim(txn, name, waited)
        {
            return Err(Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                .with_detail("the other transactions continue after this one is rolled back")
                .with_hint("run the transaction again"));
        }
        Ok(Request::Wait { event, before })
    }

    /// Verifies, with all shards locked, that the last request of `txn` closes a cycle which no other
    /// order of the waiters breaks. If it does, takes the request back and returns true. `waited` is the mode that `txn` already waited for:
    /// a cycle that exists with that mode too is left to the transaction that closed it.
    fn is_victim(&self, txn: TxnId, name: LockName, waited: Option<LockMode>) -> bool {
        let mut granted = Vec::new();
        let is_victim = 'locked: {
            let mut shards: Vec<MutexGuard<'_, Queues>> = self.shards.iter().map(Mutex::lock).collect();
            let at = Locks::shard_of(name);
            let is_circle = |shards: &[MutexGuard<'_, Queues>]| {
                self.closes_cycle(txn, name, |_, name, look| look(shards[Locks::shard_of(name)].get(&name)))
            };
            if !is_circle(&shards) {
                break 'locked false;
            }
            let change = |shards: &mut [MutexGuard<'_, Queues>], mode| {
                shards[at].get_mut(&name).map(|queue| queue.waiters.change(txn, mode))
            };
            if let Some(old) = waited {
                let asked =
                    shards[at].get(&name).and_then(|queue| queue.waiters.get(txn)).map_or(old, |(mode, _)| mode);
                change(&mut shards, old);
                if is_circle(&shards) {
                    change(&mut shards, asked);
                    break 'locked false;
                }
                change(&mut shards, asked);
            }
            if Rearrangement::new(self, &mut shards, txn).breaks_cycles(&mut granted) {
                break 'locked false;
            }
            if let Some(old) = waited {
                change(&mut shards, old);
            }
            let Some(queue) = shards[at].get_mut(&name) else { break 'locked false };
            if waited.is_none() {
                self.forget_wait(queue, txn);
            }
            // Other requests may have queued behind this one.
            self.grant(queue, &mut granted);
            true
        };
        granted.iter().for_each(Event::set);
        is_victim
    }

    fn forget_wait(&self, queue: &mut Queue, txn: TxnId) {
        if queue.waiters.remove(txn).is_some() {
            let wait = self.waits_of(txn).lock().remove(&txn);
            assert!(wait.is_some(), "BUG: {txn:?} is in a queue, but does not wait");
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Releases a lock or its place in the queue, once per fresh request.
    pub(crate) fn release(&self, txn: TxnId, name: LockName, word: Option<&AtomicU64>) {
        if let Some(word) = word {
            let seen = word.load(Ordering::Relaxed);
            if seen != IN_TABLE
                && seen != FREE
                && decode_word(seen).0 == txn
                && word.compare_exchange(seen, FREE, Ordering::Release, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
        let mut granted = Vec::new();
        {
            let mut queues = self.shard(name).lock();
            let Some(queue) = queues.get_mut(&name) else { return };
            queue.holders.remove(txn);
            self.forget_wait(queue, txn);
            self.grant(queue, &mut granted);
            if queue.holders.is_empty() {
                // Otherwise `grant` would have given the lock to a waiter.
                assert!(queue.waiters.all.is_empty(), "BUG: {} wait for a free lock", queue.waiters.all.len());
                queues.remove(&name);
                if let Some(word) = word {
                    let seen = word.load(Ordering::Relaxed);
                    assert!(seen == IN_TABLE, "BUG: the lock word of {name:?} is {seen}, and it has a queue");
                    word.store(FREE, Ordering::Release);
                }
            }
        }
        // After unlocking: callbacks of the events run on this thread.
        granted.iter().for_each(Event::set);
    }

    /// Lowers the mode that `txn` holds to `mode`, or keeps it if it is `mode`, and stops waiting for a
    /// stronger one. The lock must still be released once.
    pub(crate) fn lower(&self, txn: TxnId, name: LockName, word: Option<&AtomicU64>, mode: LockMode) {
        if let Some(word) = word {
            let seen = word.load(Ordering::Relaxed);
            if seen != IN_TABLE {
                let (holder, held) = decode_word(seen);
                assert!(holder == txn && held >= mode, "BUG: {txn:?} lowers {held:?} of {holder:?} to {mode:?}");
                let next = single_holder_word(txn, mode);
                // Fails if another transaction moves the lock to its queue meanwhile.
                if word.compare_exchange(seen, next, Ordering::Release, Ordering::Relaxed).is_ok() {
                    return;
                }
            }
        }
        let mut granted = Vec::new();
        {
            let mut queues = self.shard(name).lock();
            let Some(queue) = queues.get_mut(&name) else { return };
            let held = queue.holders.get(txn);
            assert!(held >= Some(mode), "BUG: {txn:?} lowers {name:?} from {held:?} to {mode:?}");
            queue.holders.put(txn, mode);
            self.forget_wait(queue, txn);
            self.grant(queue, &mut granted);
        }
        granted.iter().for_each(Event::set);
    }

    /// Grants the lock to the waiters that no holder and no earlier waiter blocks.
    fn grant(&self, queue: &mut Queue, granted: &mut Vec<Event>) {
        while let Some((txn, mode)) = queue.next() {
            let Some(event) = queue.waiters.remove(txn) else { return };
            let wait = self.waits_of(txn).lock().remove(&txn);
            assert!(wait.is_some(), "BUG: {txn:?} gets a lock that it does not wait for");
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(!queue.holders.conflicts_with(txn, mode), "BUG: {txn:?} gets {mode:?} against a holder");
            queue.holders.put(txn, mode);
            granted.push(event);
        }
    }

    /// Number of transactions that wait for a lock.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether the waiting transaction `txn` transitively waits for itself. `queue` gives access to
    /// a lock's queue.
    ///
    /// Within a queue it is enough to know the last reached waiter of each mode: earlier waiters
    /// that conflict are reached too, and all wait for the same holders. The cost does not depend
    /// on the number of waiters.
    fn closes_cycle(
        &self,
        txn: TxnId,
        name: LockName,
        mut queue: impl FnMut(&Locks, LockName, &mut dyn FnMut(Option<&Queue>)),
    ) -> bool {
        let mut reached: FxHashMap<LockName, Reached> = FxHashMap::default();
        let mut seen: FxHashSet<TxnId> = FxHashSet::default();
        let mut todo = vec![(txn, name)];
        let (mut holders, mut is_cycle) = (Vec::new(), false);
        while let Some((waiter, name)) = todo.pop() {
            let reached = reached.entry(name).or_default();
            queue(self, name, &mut |queue| {
                if let Some(queue) = queue {
                    is_cycle |= queue.reach(waiter, txn, reached, &mut holders);
                }
            });
            if is_cycle {
                return true;
            }
            #[cfg(test)]
            self.steps.fetch_add(1 + holders.len(), Ordering::Relaxed);
            for holder in holders.drain(..) {
                if seen.insert(holder)
                    && let Some(name) = self.waits_of(holder).lock().get(&holder)
                {
                    todo.push((holder, *name));
                }
            }
        }
        false
    }
}

/// Holders of a lock, and its waiters in queue order.
#[derive(Default)]
struct Queue {
    holders: Holders,
    waiters: Waiters,
}

/// Result of a request while its shard is locked.
enum QueueResult {
    Answered(Request),
    /// The request waits. The transaction holds the mode `before`, and already waited for `waited`.
    Waits {
        event: Event,
        before: Option<LockMode>,
        waited: Option<LockMode>,
    },
}

/// Per mode, the position of the last waiter of a queue that a search has reached.
type Reached = [Option<u64>; MODES];

impl Queue {
    fn request(&mut self, txn: TxnId, mode: LockMode, policy: WaitPolicy, is_table: bool) -> Result<QueueResult> {
        let held = self.holders.get(txn);
        let waiting = self.waiters.get(txn);
        let mode = mode.max(held.unwrap_or(mode)).max(waiting.map_or(mode, |(mode, _)| mode));
        // A holder does not wait behind waiters. Nor does a new request for a row; one that is repeated
        // while it waits keeps its place.
        let queues = held.is_none() && (is_table || waiting.is_some());
        let is_blocked = queues && self.waiters.conflicts_with(txn, mode);
        if !is_blocked && !self.holders.conflicts_with(txn, mode) {
            self.holders.put(txn, mode);
            return Ok(QueueResult::Answered(Request::Held { before: held }));
        }
        match policy {
            WaitPolicy::Skip => return Ok(QueueResult::Answered(Request::Skipped)),
            WaitPolicy::NoWait => {
                return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on row"));
            }
            WaitPolicy::Wait => {}
        }
        let waited = waiting.map(|(mode, _)| mode);
        let event = match waited {
            // A repeated request, even for a stronger mode, keeps its place.
            Some(_) => {
                self.waiters.change(txn, mode);
                self.waiters.event(txn)
            }
            // A holder queues ahead of those who wait for its lock, since each would wait for the other
            // otherwise; anybody else queues last.
            None => self.waiters.add(txn, mode, held),
        };
        Ok(QueueResult::Waits { event, before: held, waited })
    }

    /// The next waiter that nothing blocks.
    fn next(&self) -> Option<(TxnId, LockMode)> {
        LockMode::ALL.into_iter().find_map(|mode| {
            let (position, txn) = self.waiters.first(mode)?;
            // Only the first waiter of each mode can be next: a holder that waits for a stronger
            // mode is ahead of those who wait for its lock.
            let is_blocked = LockMode::ALL.into_iter().any(|other| {
                other.conflicts(mode) && self.waiters.first(other).is_some_and(|(first, _)| first < position)
            });
            (!is_blocked && !self.holders.conflicts_with(txn, mode)).then_some((txn, mode))
        })
    }

    /// Adds what `waiter` waits for: holders to `found`, waiters to `reached`. True if `origin` is
    /// among them.
    fn reach(&self, waiter: TxnId, origin: TxnId, reached: &mut Reached, found: &mut Vec<TxnId>) -> bool {
        let Some((mode, position)) = self.waiters.get(waiter) else { return false };
        let own = self.waiters.get(origin);
        let mut todo = vec![(waiter, mode, position)];
        while let Some((waiter, mode, position)) = todo.pop() {
            // The origin is not marked: earlier waiters of the same mode may wait for a lock it
            // holds.
            if waiter != origin {
                let at = &mut reached[mode as usize];
                if at.is_some_and(|at| at >= position) {
                    continue;
                }
                *at = Some(position);
            }
            for (holder, held) in self.holders.iter() {
                if holder != waiter && held.conflicts(mode) {
                    if holder == origin {
                        return true;
                    }
                    found.push(holder);
                }
            }
            for other in LockMode::ALL.into_iter().filter(|other| other.conflicts(mode)) {
                if own.is_some_and(|(own, at)| own == other && at < position) {
                    return true;
                }
                if let Some((before, txn)) = self.waiters.last_before(other, position) {
                    todo.push((txn, other, before));
                }
            }
        }
        false
    }
}

/// Holders of a lock: usually few, but a table lock is shared by all its writers.
#[derive(Default)]
struct Holders {
    all: Vec<(TxnId, LockMode)>,
    /// Number of holders in each mode.
    counts: [u32; MODES],
    /// Index into `all` by transaction, only above [`HOLDERS_LINEAR_MAX`] holders.
    positions: FxHashMap<TxnId, usize>,
}

/// Above this number of holders, `positions` is maintained.
const HOLDERS_LINEAR_MAX: usize = 8;

impl Holders {
    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (TxnId, LockMode)> {
        self.all.iter().copied()
    }

    fn position(&self, txn: TxnId) -> Option<usize> {
        if self.all.len() <= HOLDERS_LINEAR_MAX {
            return self.all.iter().position(|(holder, _)| *holder == txn);
        }
        self.positions.get(&txn).copied()
    }

    fn get(&self, txn: TxnId) -> Option<LockMode> {
        self.position(txn).map(|at| self.all[at].1)
    }

    /// Whether another holder has a conflicting mode.
    fn conflicts_with(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.get(txn).filter(|own| own.conflicts(mode));
        conflicting(&self.counts, mode) > u32::from(own.is_some())
    }

    /// Adds a holder, or changes its mode.
    fn put(&mut self, txn: TxnId, mode: LockMode) {
        debug_assert!(self.counts.iter().sum::<u32>() as usize == self.all.len(), "BUG: counts {:?}", self.counts);
        self.counts[mode as usize] += 1;
        if let Some(at) = self.position(txn) {
            self.counts[self.all[at].1 as usize] -= 1;
            self.all[at].1 = mode;
            return;
        }
        self.all.push((txn, mode));
        if self.all.len() == HOLDERS_LINEAR_MAX + 1 {
            self.positions = self.all.iter().enumerate().map(|(at, (txn, _))| (*txn, at)).collect();
        } else if self.all.len() > HOLDERS_LINEAR_MAX {
            self.positions.insert(txn, self.all.len() - 1);
        }
    }

    fn remove(&mut self, txn: TxnId) {
        let Some(at) = self.position(txn) else { return };
        let (_, mode) = self.all.swap_remove(at);
        self.counts[mode as usize] -= 1;
        if self.all.len() >= HOLDERS_LINEAR_MAX && !self.positions.is_empty() {
            self.positions.remove(&txn);
            if let Some((moved, _)) = self.all.get(at) {
                self.positions.insert(*moved, at);
            }
        }
        if self.all.len() <= HOLDERS_LINEAR_MAX {
            self.positions.clear();
        }
    }
}

/// Waiters of a lock, in queue order.
#[derive(Default)]
struct Waiters {
    /// Mode, position and event of each waiter.
    all: FxHashMap<TxnId, (LockMode, u64, Event)>,
    /// Waiters by position, one map per mode.
    positions: [BTreeMap<u64, TxnId>; MODES],
}

/// Distance between the positions of consecutive waiters.
const POSITION_STEP: u64 = 1 << 20;

impl Waiters {
    fn get(&self, txn: TxnId) -> Option<(LockMode, u64)> {
        self.all.get(&txn).map(|(mode, position, _)| (*mode, *position))
    }

    fn event(&self, txn: TxnId) -> Event {
        self.all.get(&txn).map_or_else(Event::new, |(_, _, event)| event.clone())
    }

    /// Whether another waiter has a conflicting mode.
    fn conflicts_with(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.get(txn).map(|(own, _)| own);
        LockMode::ALL
            .into_iter()
            .filter(|other| other.conflicts(mode))
            .any(|other| self.positions[other as usize].len() > usize::from(own == Some(other)))
    }

    fn first(&self, mode: LockMode) -> Option<(u64, TxnId)> {
        self.positions[mode as usize].first_key_value().map(|(position, txn)| (*position, *txn))
    }

    fn last_before(&self, mode: LockMode, position: u64) -> Option<(u64, TxnId)> {
        self.positions[mode as usize].range(..position).next_back().map(|(position, txn)| (*position, *txn))
    }

    /// The waiters in `mode` before a position.
    fn before(&self, mode: LockMode, position: u64) -> impl Iterator<Item = TxnId> {
        self.positions[mode as usize].range(..position).map(|(_, txn)| *txn)
    }

    /// All waiters from the first to the last.
    fn order(&self) -> Vec<TxnId> {
        let mut all: Vec<(u64, TxnId)> = self.all.iter().map(|(txn, (_, position, _))| (*position, *txn)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, txn)| txn).collect()
    }

    /// Gives the waiters new positions in this order.
    fn set_order(&mut self, order: &[TxnId]) {
        debug_assert!(order.len() == self.all.len(), "BUG: {} of {} waiters", order.len(), self.all.len());
        self.positions = Default::default();
        for (txn, position) in order.iter().zip((1..).map(|at| at * POSITION_STEP)) {
            if let Some((mode, own, _)) = self.all.get_mut(txn) {
                *own = position;
                self.positions[*mode as usize].insert(position, *txn);
            }
        }
    }

    /// Moves a waiter just ahead of another one.
    fn move_ahead(&mut self, txn: TxnId, other: TxnId) {
        let Some((_, next)) = self.get(other) else { return };
        let position = self.position_before(next);
        if let Some((mode, own, _)) = self.all.get_mut(&txn) {
            self.positions[*mode as usize].remove(own);
            self.positions[*mode as usize].insert(position, txn);
            *own = position;
        }
    }

    /// Adds a waiter at the end, or, if the transaction holds the lock in mode `held`, ahead of the
    /// waiters that this mode blocks.
    fn add(&mut self, txn: TxnId, mode: LockMode, held: Option<LockMode>) -> Event {
        let next = held.and_then(|held| {
            let waiting = LockMode::ALL.into_iter().filter(|other| other.conflicts(held));
            waiting.filter_map(|other| self.first(other)).map(|(position, _)| position).min()
        });
        let position = match next {
            None => self.last_before_any(u64::MAX).map_or(0, |last| last + POSITION_STEP),
            Some(next) => self.position_before(next),
        };
        let event = Event::new();
        self.all.insert(txn, (mode, position, event.clone()));
        self.positions[mode as usize].insert(position, txn);
        event
    }

    fn last_before_any(&self, position: u64) -> Option<u64> {
        LockMode::ALL
            .into_iter()
            .filter_map(|mode| self.last_before(mode, position))
            .map(|(position, _)| position)
            .max()
    }

    /// Returns a free position just before `next`.
    fn position_before(&mut self, next: u64) -> u64 {
        let low = self.last_before_any(next).map_or(0, |last| last + 1);
        if low < next {
            return low.midpoint(next);
        }
        // No gap left before this position: renumber all waiters.
        let order = self.order();
        let after = order.iter().position(|txn| self.get(*txn).is_some_and(|(_, position)| position == next));
        self.set_order(&order);
        after.map_or(next, |at| (at as u64 + 1) * POSITION_STEP) - POSITION_STEP / 2
    }

    /// Changes the mode of a waiter, at the same position.
    fn change(&mut self, txn: TxnId, mode: LockMode) {
        if let Some((own, position, _)) = self.all.get_mut(&txn) {
            self.positions[*own as usize].remove(position);
            self.positions[mode as usize].insert(*position, txn);
            *own = mode;
        }
    }

    fn remove(&mut self, txn: TxnId) -> Option<Event> {
        let (mode, position, event) = self.all.remove(&txn)?;
        self.positions[mode as usize].remove(&position);
        Some(event)
    }
}

/// Number of holders whose mode conflicts with `mode`, given the number in each mode.
fn conflicting(counts: &[u32; MODES], mode: LockMode) -> u32 {
    LockMode::ALL.into_iter().filter(|other| other.conflicts(mode)).map(|other| counts[other as usize]).sum()
}

/// Fast path: the lock is free, or `txn` is its single holder.
fn lock_uncontended(txn: TxnId, word: &AtomicU64, mode: LockMode) -> Option<Request> {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let (next, before) = if seen == FREE {
            (single_holder_word(txn, mode), None)
        } else {
            let (holder, held) = if seen == IN_TABLE { return None } else { decode_word(seen) };
            if holder != txn {
                return None;
            }
            if held >= mode {
                return Some(Request::Held { before: Some(held) });
            }
            (single_holder_word(txn, mode), Some(held))
        };
        match word.compare_exchange_weak(seen, next, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(Request::Held { before }),
            Err(now) => seen = now,
        }
    }
}

/// Moves a lock from its word to its queue, while the shard is locked. Returns the request's result
/// if the lock became free or is the transaction's own.
fn move_to_queue(txn: TxnId, word: &AtomicU64, mode: LockMode, queue: &mut Queue) -> Option<Request> {
    loop {
        if let Some(done) = lock_uncontended(txn, word, mode) {
            return Some(done);
        }
        let seen = word.load(Ordering::Relaxed);
        if seen == IN_TABLE {
            return None;
        }
        if seen != FREE && word.compare_exchange(seen, IN_TABLE, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let (txn, mode) = decode_word(seen);
            queue.holders.put(txn, mode);
            return None;
        }
    }
}
