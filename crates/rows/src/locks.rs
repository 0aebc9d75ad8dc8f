//! Row locks, and locks on keys: PostgreSQL's four modes, first come first served, deadlocks found at once.
//!
//! A lock that one transaction holds alone is a word beside its record, taken and let go with one compare-and-swap. Only
//! when a second transaction comes does it move to a table of queues, and back to nothing when the last one leaves.
//! Nothing here blocks: who must wait gets an [`Event`] that is set when the lock is his.
//!
//! A transaction waits for one lock at a time, and the queue of that lock says for whom: holders that exclude it, and waiters before it that
//! do. Whoever begins to wait, or asks for more while it waits, looks for a way from itself to itself *after* it is in the queue: of those
//! in a circle the last to come finds it, as what the others wait for does not change any more. The search takes the lock of one shard at a
//! time; what it finds is looked at again with all shards locked, so that nothing is taken for a circle that was none at any moment, and
//! one of several who find the same circle is the victim.
//!
//! Always true:
//! - A word says [`IN_TABLE`] exactly when its queue exists.
//! - Who waits is in `waits`, and whoever has nobody to wait for has the lock.
//!
//! Costs, with `n` waiters for a lock and `h` holders:
//!
//! | operation                                 | cost                                                                          |
//! |-------------------------------------------|-------------------------------------------------------------------------------|
//! | lock, release without others              | one compare-and-swap                                                          |
//! | lock that waits                           | O(log n), and the search                                                      |
//! | search for a deadlock                     | O(h + log n) for each lock on the way: holders that do not wait end it        |
//! | release, give up                          | O(log n) for each who gets the lock by it; nobody else is looked at           |

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;

use env::Event;
use model::{Error, Result, SqlState};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard};

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
    const ALL: [LockMode; MODES] = [LockMode::KeyShare, LockMode::Share, LockMode::NoKeyUpdate, LockMode::Update];

    /// Whether two transactions cannot have these at a time.
    #[must_use]
    pub fn conflicts(self, other: LockMode) -> bool {
        use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
        match (self.min(other), self.max(other)) {
            (_, Update) | (NoKeyUpdate, NoKeyUpdate) | (Share, NoKeyUpdate) => true,
            (KeyShare, _) | (Share, _) | (NoKeyUpdate, _) | (Update, _) => false,
        }
    }
}

/// How many modes there are.
const MODES: usize = 4;

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

/// Whom each waiting transaction waits for: the lock, of which its queue says the rest.
type Waits = FxHashMap<TxnId, LockName>;
type Queues = FxHashMap<LockName, Queue>;

/// All locks of one database.
pub(crate) struct Locks {
    /// Whoever takes several takes them in this order.
    shards: Box<[Mutex<Queues>]>,
    /// Taken after a shard's lock, never before.
    waits: Box<[Mutex<Waits>]>,
    waiting: AtomicUsize,
    /// Steps of all searches for deadlocks, for tests.
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

    /// Asks for a lock whose word is `word`; locks on keys have none. Who holds it already in a weaker mode gets the stronger
    /// one, before those who wait. A transaction waits for one lock at a time.
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
        let asked = queue.ask(txn, mode, policy);
        // A word says `IN_TABLE` exactly when there is a queue with somebody in it.
        debug_assert!(!queue.holders.is_empty(), "BUG: a lock in the table that nobody holds");
        let (event, before) = match asked? {
            Asked::Answered(request) => {
                if matches!(request, Request::Held { .. }) {
                    // It may have waited for others that wait, who count no more when it asks again.
                    self.forget_wait(queue, txn);
                }
                return Ok(request);
            }
            Asked::Waits { event, before } => (event, before),
        };
        if before.is_none() {
            self.waits_of(txn).lock().insert(txn, name);
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        drop(queues);
        // Without a lock at first: there seldom is a deadlock.
        if self.waits_for_itself(txn, name, |locks, name, look| look(locks.shard(name).lock().get(&name)))
            && self.is_victim(txn, name, before)
        {
            return Err(Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                .with_detail("the other transactions go on when this one has ended")
                .with_hint("run the transaction again"));
        }
        Ok(Request::Wait(event))
    }

    /// Is it true that a transaction waits for itself, by what it asked for last? Nothing changes meanwhile. Then that is taken back.
    /// `before` is the mode that it waited for already: a circle that is there with that one is for whoever closed it to find.
    fn is_victim(&self, txn: TxnId, name: LockName, before: Option<LockMode>) -> bool {
        let mut granted = Vec::new();
        {
            let mut shards: Vec<MutexGuard<'_, Queues>> = self.shards.iter().map(Mutex::lock).collect();
            let at = Locks::shard_of(name);
            let is_circle = |shards: &[MutexGuard<'_, Queues>]| {
                self.waits_for_itself(txn, name, |_, name, look| look(shards[Locks::shard_of(name)].get(&name)))
            };
            if !is_circle(&shards) {
                return false;
            }
            let change = |shards: &mut [MutexGuard<'_, Queues>], mode| {
                shards[at].get_mut(&name).map(|queue| queue.waiters.change(txn, mode))
            };
            if let Some(old) = before {
                let asked =
                    shards[at].get(&name).and_then(|queue| queue.waiters.get(txn)).map_or(old, |(mode, _)| mode);
                change(&mut shards, old);
                if is_circle(&shards) {
                    change(&mut shards, asked);
                    return false;
                }
            }
            let Some(queue) = shards[at].get_mut(&name) else { return false };
            if before.is_none() {
                self.forget_wait(queue, txn);
            }
            // Others may have come behind it.
            self.grant(queue, &mut granted);
        }
        granted.iter().for_each(Event::set);
        true
    }

    fn forget_wait(&self, queue: &mut Queue, txn: TxnId) {
        if queue.waiters.remove(txn).is_some() {
            self.waits_of(txn).lock().remove(&txn);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
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
            queue.holders.remove(txn);
            self.forget_wait(queue, txn);
            self.grant(queue, &mut granted);
            if queue.holders.is_empty() {
                queues.remove(&name);
                if let Some(word) = word {
                    word.store(FREE, Ordering::Release);
                }
            }
        }
        // Outside the lock: call-backs run on this thread.
        granted.iter().for_each(Event::set);
    }

    /// Gives up waiting for more of a lock than `txn` has; what it has it keeps.
    pub(crate) fn give_up(&self, txn: TxnId, name: LockName) {
        let mut granted = Vec::new();
        {
            let mut queues = self.shard(name).lock();
            let Some(queue) = queues.get_mut(&name) else { return };
            self.forget_wait(queue, txn);
            self.grant(queue, &mut granted);
        }
        granted.iter().for_each(Event::set);
    }

    /// Gives the lock to those who need not wait any more for holders, nor for others before them.
    fn grant(&self, queue: &mut Queue, granted: &mut Vec<Event>) {
        while let Some((txn, mode)) = queue.next() {
            let Some(event) = queue.waiters.remove(txn) else { return };
            self.waits_of(txn).lock().remove(&txn);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            queue.holders.put(txn, mode);
            granted.push(event);
        }
    }

    /// How many transactions wait for a lock.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Does anybody that a waiting transaction waits for wait for it, by however many others? `queue` shows a lock's queue.
    ///
    /// Within one queue it is enough to know for each mode the last waiter that is reached: whoever is before it and excludes it is reached
    /// too, and all wait for the same holders. So it does not matter how many wait.
    fn waits_for_itself(
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

/// Who holds a lock, and who waits for it in which order.
#[derive(Default)]
struct Queue {
    holders: Holders,
    waiters: Waiters,
}

/// What became of a request under the lock of its shard.
enum Asked {
    Answered(Request),
    /// It waits; `before` is the mode that it waited for already.
    Waits {
        event: Event,
        before: Option<LockMode>,
    },
}

/// The last place in a queue of a waiter of each mode that a search has come to.
type Reached = [Option<u64>; MODES];

impl Queue {
    fn ask(&mut self, txn: TxnId, mode: LockMode, policy: WaitPolicy) -> Result<Asked> {
        let held = self.holders.get(txn);
        let waiting = self.waiters.get(txn);
        let mode = mode.max(held.unwrap_or(mode)).max(waiting.map_or(mode, |(mode, _)| mode));
        // Who has it already need not wait for those who wait.
        let is_behind = held.is_none() && self.waiters.exclude(txn, mode);
        if !is_behind && !self.holders.exclude(txn, mode) {
            self.holders.put(txn, mode);
            return Ok(Asked::Answered(Request::Held { fresh: held.is_none() }));
        }
        match policy {
            WaitPolicy::Skip => return Ok(Asked::Answered(Request::Skipped)),
            WaitPolicy::NoWait => {
                return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on row"));
            }
            WaitPolicy::Wait => {}
        }
        let before = waiting.map(|(mode, _)| mode);
        let event = match before {
            // Asked for again, maybe for more, it keeps its place.
            Some(_) => {
                self.waiters.change(txn, mode);
                self.waiters.event(txn)
            }
            // Before those who wait for what it has, or it would wait for them; behind all others.
            None => self.waiters.add(txn, mode, held),
        };
        Ok(Asked::Waits { event, before })
    }

    /// A waiter that waits for nobody any more.
    fn next(&self) -> Option<(TxnId, LockMode)> {
        LockMode::ALL.into_iter().find_map(|mode| {
            let (place, txn) = self.waiters.first(mode)?;
            // Of one mode the first can go on if any can: whoever has the lock and wants more is before those who wait for it.
            let is_behind = LockMode::ALL.into_iter().any(|other| {
                other.conflicts(mode) && self.waiters.first(other).is_some_and(|(first, _)| first < place)
            });
            (!is_behind && !self.holders.exclude(txn, mode)).then_some((txn, mode))
        })
    }

    /// Adds whom a waiter waits for: holders to `found`, waiters to `reached`. True if `origin` is among them.
    fn reach(&self, waiter: TxnId, origin: TxnId, reached: &mut Reached, found: &mut Vec<TxnId>) -> bool {
        let Some((mode, place)) = self.waiters.get(waiter) else { return false };
        let own = self.waiters.get(origin);
        let mut todo = vec![(waiter, mode, place)];
        while let Some((waiter, mode, place)) = todo.pop() {
            // Where it all began is not noted: others of its mode that wait before it may wait for what it has.
            if waiter != origin {
                let at = &mut reached[mode as usize];
                if at.is_some_and(|at| at >= place) {
                    continue;
                }
                *at = Some(place);
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
                if own.is_some_and(|(own, at)| own == other && at < place) {
                    return true;
                }
                if let Some((before, txn)) = self.waiters.last_before(other, place) {
                    todo.push((txn, other, before));
                }
            }
        }
        false
    }
}

/// Who has a lock: mostly few, of a table all who write to it.
#[derive(Default)]
struct Holders {
    all: Vec<(TxnId, LockMode)>,
    /// How many have it in each mode.
    counts: [u32; MODES],
    /// Their places in `all`, when there are many.
    places: FxHashMap<TxnId, usize>,
}

/// With more holders their places are kept.
const HOLDERS_FEW: usize = 8;

impl Holders {
    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (TxnId, LockMode)> {
        self.all.iter().copied()
    }

    fn place(&self, txn: TxnId) -> Option<usize> {
        if self.all.len() <= HOLDERS_FEW {
            return self.all.iter().position(|(holder, _)| *holder == txn);
        }
        self.places.get(&txn).copied()
    }

    fn get(&self, txn: TxnId) -> Option<LockMode> {
        self.place(txn).map(|at| self.all[at].1)
    }

    /// Has anybody else it in a mode that excludes this one?
    fn exclude(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.get(txn).filter(|own| own.conflicts(mode));
        count_of(&self.counts, mode) > u32::from(own.is_some())
    }

    /// It has the lock in this mode.
    fn put(&mut self, txn: TxnId, mode: LockMode) {
        self.counts[mode as usize] += 1;
        if let Some(at) = self.place(txn) {
            self.counts[self.all[at].1 as usize] -= 1;
            self.all[at].1 = mode;
            return;
        }
        self.all.push((txn, mode));
        if self.all.len() == HOLDERS_FEW + 1 {
            self.places = self.all.iter().enumerate().map(|(at, (txn, _))| (*txn, at)).collect();
        } else if self.all.len() > HOLDERS_FEW {
            self.places.insert(txn, self.all.len() - 1);
        }
    }

    fn remove(&mut self, txn: TxnId) {
        let Some(at) = self.place(txn) else { return };
        let (_, mode) = self.all.swap_remove(at);
        self.counts[mode as usize] -= 1;
        if self.all.len() >= HOLDERS_FEW && !self.places.is_empty() {
            self.places.remove(&txn);
            if let Some((moved, _)) = self.all.get(at) {
                self.places.insert(*moved, at);
            }
        }
        if self.all.len() <= HOLDERS_FEW {
            self.places.clear();
        }
    }
}

/// Who waits for a lock, in order.
#[derive(Default)]
struct Waiters {
    /// By transaction: its mode, and its place.
    all: FxHashMap<TxnId, (LockMode, u64, Event)>,
    /// By place, for each mode.
    places: [BTreeMap<u64, TxnId>; MODES],
}

/// Places of waiters that came one after the other are this far apart.
const PLACES_APART: u64 = 1 << 20;

impl Waiters {
    fn get(&self, txn: TxnId) -> Option<(LockMode, u64)> {
        self.all.get(&txn).map(|(mode, place, _)| (*mode, *place))
    }

    fn event(&self, txn: TxnId) -> Event {
        self.all.get(&txn).map_or_else(Event::new, |(_, _, event)| event.clone())
    }

    /// Waits anybody else for it in a mode that excludes this one?
    fn exclude(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.get(txn).map(|(own, _)| own);
        LockMode::ALL
            .into_iter()
            .filter(|other| other.conflicts(mode))
            .any(|other| self.places[other as usize].len() > usize::from(own == Some(other)))
    }

    fn first(&self, mode: LockMode) -> Option<(u64, TxnId)> {
        self.places[mode as usize].first_key_value().map(|(place, txn)| (*place, *txn))
    }

    fn last_before(&self, mode: LockMode, place: u64) -> Option<(u64, TxnId)> {
        self.places[mode as usize].range(..place).next_back().map(|(place, txn)| (*place, *txn))
    }

    /// Adds a waiter at the end, or, if it has the lock already, before those who wait for what it has.
    fn add(&mut self, txn: TxnId, mode: LockMode, held: Option<LockMode>) -> Event {
        let next = held.and_then(|held| {
            let waiting = LockMode::ALL.into_iter().filter(|other| other.conflicts(held));
            waiting.filter_map(|other| self.first(other)).map(|(place, _)| place).min()
        });
        let place = match next {
            None => self.last_before_any(u64::MAX).map_or(0, |last| last + PLACES_APART),
            Some(next) => self.between(next),
        };
        let event = Event::new();
        self.all.insert(txn, (mode, place, event.clone()));
        self.places[mode as usize].insert(place, txn);
        event
    }

    fn last_before_any(&self, place: u64) -> Option<u64> {
        LockMode::ALL.into_iter().filter_map(|mode| self.last_before(mode, place)).map(|(place, _)| place).max()
    }

    /// A free place just before another.
    fn between(&mut self, next: u64) -> u64 {
        let low = self.last_before_any(next).map_or(0, |last| last + 1);
        if low < next {
            return low.midpoint(next);
        }
        // So many have come before this one that there is no room left: all get new places.
        let mut all: Vec<(u64, TxnId)> = self.all.iter().map(|(txn, (_, place, _))| (*place, *txn)).collect();
        all.sort_unstable();
        self.places = Default::default();
        let mut moved = next;
        for ((old, txn), place) in all.into_iter().zip((1..).map(|at| at * PLACES_APART)) {
            if let Some((mode, own, _)) = self.all.get_mut(&txn) {
                *own = place;
                self.places[*mode as usize].insert(place, txn);
            }
            if old == next {
                moved = place;
            }
        }
        moved - PLACES_APART / 2
    }

    /// The same place, for another mode.
    fn change(&mut self, txn: TxnId, mode: LockMode) {
        if let Some((own, place, _)) = self.all.get_mut(&txn) {
            self.places[*own as usize].remove(place);
            self.places[mode as usize].insert(*place, txn);
            *own = mode;
        }
    }

    fn remove(&mut self, txn: TxnId) -> Option<Event> {
        let (mode, place, event) = self.all.remove(&txn)?;
        self.places[mode as usize].remove(&place);
        Some(event)
    }
}

/// How many of those that are counted by mode exclude this mode.
fn count_of(counts: &[u32; MODES], mode: LockMode) -> u32 {
    LockMode::ALL.into_iter().filter(|other| other.conflicts(mode)).map(|other| counts[other as usize]).sum()
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
            let (txn, mode) = holder(seen);
            queue.holders.put(txn, mode);
            return None;
        }
    }
}
