//! Soft deadlocks: cycles that exist only because waiters stand in a queue in their order of arrival.
//!
//! A wait for a holder is hard: it ends when the holder releases the lock. A wait for an earlier waiter is soft: the two may
//! change places. A cycle with a soft wait is broken by moving the later waiter ahead of the earlier one, if that closes no
//! other cycle; its transactions all go on, as in PostgreSQL (DeadLockCheck in deadlock.c). PostgreSQL looks after
//! `deadlock_timeout`; here the request that closes the cycle does.
//!
//! All shards are locked meanwhile. That is rare: a search without them has found a cycle before.

use env::Event;
use rustc_hash::FxHashMap;

use super::{LockMode, LockName, Locks, Queues, TxnId};
use crate::sync::MutexGuard;

/// Changes of order that are tried before a cycle counts as a deadlock. Cycles of several soft waits need a few.
const TRIES_MAX: usize = 32;

/// `waiter` waits for a transaction that is ahead of it in the queue of `name`.
struct SoftWait {
    waiter: TxnId,
    ahead: TxnId,
    name: LockName,
}

/// The wait by which a search reached a transaction.
struct Step {
    waiter: TxnId,
    is_soft: bool,
}

/// Changes the order of waiters until nothing of a cycle through one transaction is left.
pub(super) struct Rearrangement<'a, 'b> {
    locks: &'a Locks,
    shards: &'a mut Vec<MutexGuard<'b, Queues>>,
    /// The transaction whose request closed the cycle, and the waiters that were moved: a cycle goes through one of them.
    through: Vec<TxnId>,
    changed: Vec<LockName>,
    tries: usize,
}

impl<'a, 'b> Rearrangement<'a, 'b> {
    pub(super) fn new(locks: &'a Locks, shards: &'a mut Vec<MutexGuard<'b, Queues>>, txn: TxnId) -> Self {
        Rearrangement { locks, shards, through: vec![txn], changed: Vec::new(), tries: TRIES_MAX }
    }

    /// Breaks the cycles and gives the locks that became free for a waiter, whose events are added to `granted`. If that
    /// cannot be done, returns false, and the queues are as before.
    pub(super) fn breaks_cycles(mut self, granted: &mut Vec<Event>) -> bool {
        if !self.search() {
            return false;
        }
        for name in &self.changed {
            if let Some(queue) = self.shards[Locks::shard_of(*name)].get_mut(name) {
                self.locks.grant(queue, granted);
            }
        }
        true
    }

    fn search(&mut self) -> bool {
        let Some(soft) = self.through.iter().find_map(|txn| self.soft_waits_of_cycle(*txn)) else { return true };
        // The waits farthest from the request first, as in PostgreSQL.
        for SoftWait { waiter, ahead, name } in soft.into_iter().rev() {
            if self.tries == 0 {
                return false;
            }
            self.tries -= 1;
            let Some(queue) = self.shards[Locks::shard_of(name)].get_mut(&name) else { continue };
            let order = queue.waiters.order();
            queue.waiters.move_ahead(waiter, ahead);
            self.through.push(waiter);
            self.changed.push(name);
            if self.search() {
                return true;
            }
            self.changed.pop();
            self.through.pop();
            if let Some(queue) = self.shards[Locks::shard_of(name)].get_mut(&name) {
                queue.waiters.set_order(&order);
            }
        }
        false
    }

    /// The soft waits of a shortest cycle through `txn`, from it on; `None` if there is no cycle.
    fn soft_waits_of_cycle(&self, txn: TxnId) -> Option<Vec<SoftWait>> {
        let mut steps: FxHashMap<TxnId, Step> = FxHashMap::default();
        let mut todo = vec![txn];
        let mut at = 0;
        while let Some(waiter) = todo.get(at).copied() {
            at += 1;
            for (other, is_soft) in self.waits_for(waiter) {
                if steps.contains_key(&other) {
                    continue;
                }
                steps.insert(other, Step { waiter, is_soft });
                if other == txn {
                    return Some(self.path(txn, &steps));
                }
                todo.push(other);
            }
        }
        None
    }

    /// The soft waits on the path by which `txn` was reached from itself.
    fn path(&self, txn: TxnId, steps: &FxHashMap<TxnId, Step>) -> Vec<SoftWait> {
        let mut soft = Vec::new();
        let mut ahead = txn;
        while let Some(Step { waiter, is_soft }) = steps.get(&ahead) {
            if *is_soft && let Some(name) = self.awaited(*waiter) {
                soft.push(SoftWait { waiter: *waiter, ahead, name });
            }
            ahead = *waiter;
            if ahead == txn {
                break;
            }
        }
        soft.reverse();
        soft
    }

    fn awaited(&self, txn: TxnId) -> Option<LockName> {
        self.locks.waits_of(txn).lock().get(&txn).copied()
    }

    /// The transactions that `waiter` waits for, and whether it waits only for their place in the queue.
    fn waits_for(&self, waiter: TxnId) -> Vec<(TxnId, bool)> {
        let Some(name) = self.awaited(waiter) else { return Vec::new() };
        let Some(queue) = self.shards[Locks::shard_of(name)].get(&name) else { return Vec::new() };
        let Some((mode, position)) = queue.waiters.get(waiter) else { return Vec::new() };
        let holders = queue.holders.iter().filter(|(holder, held)| *holder != waiter && held.conflicts(mode));
        let mut found: Vec<(TxnId, bool)> = holders.map(|(holder, _)| (holder, false)).collect();
        for other in LockMode::ALL.into_iter().filter(|other| other.conflicts(mode)) {
            found.extend(queue.waiters.before(other, position).map(|ahead| (ahead, true)));
        }
        found
    }
}
