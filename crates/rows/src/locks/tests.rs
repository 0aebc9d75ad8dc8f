//! Locks alone: who gets one, who waits, and for whom.

#[cfg(shuttle)]
mod model;

use super::*;

/// Locks of three rows and of a key, which has no word.
struct World {
    locks: Locks,
    words: [AtomicU64; 3],
}

impl World {
    fn new() -> World {
        World { locks: Locks::new(), words: Default::default() }
    }

    fn name(&self, at: usize) -> (LockName, Option<&AtomicU64>) {
        match self.words.get(at) {
            Some(word) => (LockName::Record { table: 1, record: at as u64 }, Some(word)),
            None => (LockName::Key { index: 1, hash: at as u64 }, None),
        }
    }

    fn lock(&self, txn: u64, at: usize, mode: LockMode, policy: WaitPolicy) -> Result<Request> {
        let (name, word) = self.name(at);
        self.locks.lock(TxnId(txn), name, word, mode, policy)
    }

    fn release(&self, txn: u64, at: usize) {
        let (name, word) = self.name(at);
        self.locks.release(TxnId(txn), name, word);
    }

    /// Whoever waits waits for somebody, and for exactly those that it is known to wait for.
    fn check_queue(&self, at: usize) {
        let name = self.name(at).0;
        let queues = self.locks.shard(name).lock();
        let Some(queue) = queues.get(&name) else { return };
        let waits = self.locks.waits.lock();
        for (place, waiter) in queue.waiters.iter().enumerate() {
            let blockers = queue.blockers(waiter.txn, waiter.mode, place);
            assert!(!blockers.is_empty(), "{:?} waits for nobody", waiter.txn);
            assert_eq!(waits.get(&waiter.txn), Some(&blockers), "{:?}", waiter.txn);
        }
    }

    /// Nobody holds anything, and nobody waits.
    fn check_idle(&self) {
        assert!(self.words.iter().all(|word| word.load(Ordering::Relaxed) == FREE));
        assert!(self.locks.shards.iter().all(|shard| shard.lock().is_empty()));
        assert_eq!(self.locks.waiting(), 0);
    }
}

/// Requests one after the other, none of which waits for its event: what came of each, and the events.
fn outcomes(world: &World, requests: &[(u64, usize, LockMode)]) -> (Vec<String>, Vec<Event>) {
    let mut events = Vec::new();
    let mut outcomes = Vec::new();
    for (txn, at, mode) in requests {
        outcomes.push(match world.lock(*txn, *at, *mode, WaitPolicy::Wait) {
            Ok(Request::Wait(event)) => {
                events.push(event);
                "waits".to_owned()
            }
            Ok(Request::Held { .. }) => "held".to_owned(),
            Ok(Request::Skipped) => "skipped".to_owned(),
            Err(error) => error.state().to_string(),
        });
        world.check_queue(*at);
    }
    (outcomes, events)
}

fn are_set(events: &[Event]) -> Vec<bool> {
    events.iter().map(Event::is_set).collect()
}

/// The bug: two transactions waited for each other for ever, without 40P01. The mechanism: whom a waiter waits for was
/// written down when it began to wait, and a holder's lock that became stronger at once later was missing there. The fix:
/// it is written down anew then.
#[test]
fn a_deadlock_by_a_lock_that_became_stronger_is_found() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let world = World::new();
    // 3 waits for 1. Then 2 gets a stronger lock, and 3 waits for 2 too.
    let before = [(1, 0, Share), (2, 0, KeyShare), (3, 1, Update), (3, 0, NoKeyUpdate), (2, 0, Share)];
    assert_eq!(outcomes(&world, &before).0, ["held", "held", "held", "waits", "held"]);
    assert_eq!(outcomes(&world, &[(2, 1, Update)]).0, ["40P01"]);
}

/// The bug: as above. The mechanism: who had a lock and wanted a stronger one went before everybody who waited, who now
/// waited for it too; a way from it to itself by one of them was not looked for. The fix: it goes before those who wait for
/// what it has; there is no new way then.
#[test]
fn who_wants_a_stronger_lock_goes_behind_those_who_do_not_wait_for_it() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let world = World::new();
    // 2 and 3 have the lock. 3 waits for 1 to get more, and would wait for 2, which waits for 3.
    let before = [(1, 0, Share), (2, 0, KeyShare), (3, 0, KeyShare), (3, 0, NoKeyUpdate), (2, 0, Update)];
    let (outcomes, events) = outcomes(&world, &before);
    assert_eq!(outcomes, ["held", "held", "held", "waits", "waits"]);
    world.release(1, 0);
    assert_eq!(are_set(&events), [true, false]);
    world.release(3, 0);
    assert_eq!(are_set(&events), [true, true]);
    world.release(2, 0);
    world.check_idle();
}

/// The bug: a transaction waited for nobody, so that no deadlock with it was found. The mechanism: the queue was gone through
/// up to the first who could not have the lock. The fix: whoever waits for nobody has it.
#[test]
fn who_waits_for_nobody_has_the_lock() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let world = World::new();
    let (_, events) = outcomes(&world, &[(1, 0, Update), (2, 0, Share), (3, 0, NoKeyUpdate), (4, 0, KeyShare)]);
    world.release(1, 0);
    assert_eq!(are_set(&events), [true, false, true]);
    world.release(2, 0);
    assert_eq!(are_set(&events), [true, true, true]);
    [3, 4].into_iter().for_each(|txn| world.release(txn, 0));
    world.check_idle();
}

/// The bug: a transaction that had the lock was believed to wait for those behind it: a deadlock that was none, or, since
/// somebody else's place was lost, one that was not found. The mechanism: asked for again while it was waited for, as by a
/// statement that is run again, the lock was waited for twice. The fix: once, in the stronger mode.
#[test]
fn a_lock_that_is_asked_for_again_is_waited_for_once() {
    use LockMode::{NoKeyUpdate, Share, Update};
    let world = World::new();
    let before = [(1, 0, Update), (4, 1, Update), (2, 0, Share), (3, 0, NoKeyUpdate), (2, 0, Share), (2, 0, Update)];
    let (outcomes, events) = outcomes(&world, &before);
    assert_eq!(outcomes, ["held", "held", "waits", "waits", "waits", "waits"]);
    world.release(1, 0);
    assert_eq!((are_set(&events), world.locks.waiting()), (vec![true, false, true, true], 1));
    [2, 3].into_iter().for_each(|txn| world.release(txn, 0));
    world.release(4, 1);
    world.check_idle();
}
