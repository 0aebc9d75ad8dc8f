//! Lock requests in any order end in a grant or in exactly one victim: programs for the model
//! checker (`sync::tests`).

use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng, thread_rng};

use super::*;
use crate::sync::tests::{check, join, spawn, wait};

/// The locks, and the modes that transactions believe to hold.
struct Seen {
    world: World,
    held: Mutex<Vec<(usize, u64, LockMode)>>,
}

/// One transaction.
struct Party<'a> {
    seen: &'a Seen,
    txn: u64,
    /// Locks to release, each once.
    locks: Vec<usize>,
}

impl Seen {
    fn new() -> Arc<Seen> {
        Arc::new(Seen { world: World::new(), held: Mutex::default() })
    }

    fn party(&self, txn: u64, locks: &[(usize, LockMode)]) -> Party<'_> {
        let mut party = Party { seen: self, txn, locks: Vec::new() };
        locks.iter().for_each(|(at, mode)| assert_eq!(party.lock(*at, *mode), Ok(true)));
        party
    }
}

impl Party<'_> {
    fn lock(&mut self, at: usize, mode: LockMode) -> Result<bool, SqlState> {
        self.lock_by(at, mode, WaitPolicy::Wait)
    }

    /// Requests a lock and waits for it, possibly repeating the request first; whether it is held
    /// then.
    fn lock_by(&mut self, at: usize, mode: LockMode, policy: WaitPolicy) -> Result<bool, SqlState> {
        let request = || self.seen.world.lock(self.txn, at, mode, policy).map_err(|error| error.state());
        let held = self.mode(at);
        match request()? {
            Request::Skipped => return Ok(false),
            Request::Held { before } => assert_eq!(before, held),
            first @ Request::Wait { before, .. } => {
                assert_eq!(before, held);
                let again = if thread_rng().gen_range(0..4) == 0 { request()? } else { first };
                match again {
                    Request::Wait { event, .. } => wait(&event),
                    // Granted meanwhile, or an upgrade that waited behind another waiter only.
                    other => assert!(matches!(other, Request::Held { before: Some(_) }), "{other:?}"),
                }
            }
        }
        self.note(at, mode);
        Ok(true)
    }

    /// Requests a lock but gives up waiting; whether it was granted without a wait.
    fn try_briefly(&mut self, at: usize, mode: LockMode) -> Result<bool, SqlState> {
        let request = self.seen.world.lock(self.txn, at, mode, WaitPolicy::Wait).map_err(|error| error.state())?;
        if let Request::Wait { before, .. } = request {
            match before {
                Some(mode) => self.seen.world.lower(self.txn, at, mode),
                None => self.seen.world.release(self.txn, at),
            }
            return Ok(false);
        }
        self.note(at, mode);
        Ok(true)
    }

    /// The mode that the transaction holds.
    fn mode(&self, at: usize) -> Option<LockMode> {
        let held = self.seen.held.lock().unwrap();
        held.iter().filter(|(lock, txn, _)| (*lock, *txn) == (at, self.txn)).map(|(_, _, mode)| *mode).max()
    }

    /// Lowers a lock to a mode that it had before, if it is held.
    fn lower(&self, at: usize, mode: LockMode) {
        if self.mode(at) > Some(mode) {
            let mut held = self.seen.held.lock().unwrap();
            held.retain(|(lock, txn, _)| (*lock, *txn) != (at, self.txn));
            held.push((at, self.txn, mode));
            drop(held);
            self.seen.world.lower(self.txn, at, mode);
        }
    }

    fn note(&mut self, at: usize, mode: LockMode) {
        self.seen.world.check_queue(at);
        let mut held = self.seen.held.lock().unwrap();
        for (_, txn, other) in held.iter().filter(|(lock, txn, _)| *lock == at && *txn != self.txn) {
            assert!(!other.conflicts(mode), "{txn} has {other:?} of {at}, and {} has {mode:?}", self.txn);
        }
        held.push((at, self.txn, mode));
        if !self.locks.contains(&at) {
            self.locks.push(at);
        }
    }

    fn release(&mut self, at: usize) {
        self.locks.retain(|lock| *lock != at);
        self.seen.held.lock().unwrap().retain(|(lock, txn, _)| (*lock, *txn) != (at, self.txn));
        self.seen.world.release(self.txn, at);
    }

    fn end(mut self) {
        while let Some(at) = self.locks.last() {
            self.release(*at);
        }
    }
}

fn any_mode() -> LockMode {
    LockMode::ALL[thread_rng().gen_range(0..4)]
}

/// Runs transactions 1, 2, …, each on its thread, and returns their results. At the end no lock is
/// held.
fn run<T: Send + 'static>(count: u64, work: impl Fn(&Seen, u64) -> T + Clone + Send + 'static) -> Vec<T> {
    let seen = Seen::new();
    let outcomes = join((1..=count).map(|txn| {
        let work = work.clone();
        spawn(&seen, move |seen| work(seen, txn))
    }));
    seen.world.check_idle();
    outcomes
}

#[test]
fn model_all_transactions_end_and_conflicting_locks_are_never_held_together() {
    check(|| {
        run(4, |seen, txn| {
            let mut party = seen.party(txn, &[]);
            for _ in 0..3 {
                let (at, mode) = ([0, 3, 4][thread_rng().gen_range(0..3)], any_mode());
                if thread_rng().gen_range(0..4) == 0 {
                    party.lower(at, any_mode());
                }
                let outcome = match thread_rng().gen_range(0..8) {
                    0 => party.lock_by(at, mode, WaitPolicy::Skip),
                    1 => party.lock_by(at, mode, WaitPolicy::NoWait),
                    2 => party.try_briefly(at, mode),
                    _ => party.lock(at, mode),
                };
                match outcome {
                    Ok(_) | Err(SqlState::LOCK_NOT_AVAILABLE) => {}
                    Err(state) => {
                        assert_eq!(state, SqlState::DEADLOCK_DETECTED);
                        break;
                    }
                }
            }
            party.end();
        });
    });
}

#[test]
fn model_locking_in_one_order_never_deadlocks() {
    check(|| {
        run(4, |seen, txn| {
            let mut party = seen.party(txn, &[]);
            for at in [0, 1, 3] {
                if thread_rng().gen_range(0..4) > 0 {
                    assert_eq!(party.lock(at, any_mode()), Ok(true));
                }
            }
            party.end();
        });
    });
}

#[test]
fn model_a_cycle_of_two_or_three_has_one_victim() {
    for count in [2, 3] {
        check(move || {
            let seen = Seen::new();
            // Rows only, or a key and rows.
            let lock = move |txn: u64| (txn % count) as usize + usize::from(count == 3);
            for txn in 1..=count {
                // Each transaction is ended by its thread.
                std::mem::forget(seen.party(txn, &[(lock(txn), LockMode::Update)]));
            }
            let outcomes = join((1..=count).map(|txn| {
                spawn(&seen, move |seen| {
                    let mut party = Party { seen, txn, locks: vec![lock(txn)] };
                    let outcome = party.lock(lock(txn + 1), LockMode::NoKeyUpdate);
                    party.end();
                    outcome
                })
            }));
            let victims = outcomes.iter().filter(|outcome| **outcome == Err(SqlState::DEADLOCK_DETECTED)).count();
            assert_eq!((victims, outcomes.len() - victims), (1, count as usize - 1), "{outcomes:?}");
            seen.world.check_idle();
        });
    }
}

#[test]
fn model_a_cycle_by_the_order_of_waiters_has_no_victim() {
    check(|| {
        let seen = Seen::new();
        (1..=2).for_each(|txn| std::mem::forget(seen.party(txn, &[(3 + txn as usize, LockMode::KeyShare)])));
        // 1 and 2 ask for each other's table, 3 and 4 for one of them alone.
        let outcomes = join((1..=4).map(|txn| {
            spawn(&seen, move |seen| {
                let is_reader = txn <= 2;
                let (own, other) = (3 + txn as usize, 6 - txn as usize);
                let mut party = Party { seen, txn, locks: if is_reader { vec![own] } else { Vec::new() } };
                let outcome = match is_reader {
                    true => party.lock(other, LockMode::KeyShare),
                    false => party.lock(1 + txn as usize, LockMode::Update),
                };
                party.end();
                outcome
            })
        }));
        assert!(outcomes.iter().all(|outcome| *outcome == Ok(true)), "{outcomes:?}");
        seen.world.check_idle();
    });
}

#[test]
fn model_two_sharers_that_upgrade_have_one_victim() {
    check(|| {
        for mode in [LockMode::KeyShare, LockMode::Share] {
            let seen = Seen::new();
            (1..=2).for_each(|txn| std::mem::forget(seen.party(txn, &[(0, mode)])));
            let outcomes = join((1..=2).map(|txn| {
                spawn(&seen, move |seen| {
                    let mut party = Party { seen, txn, locks: vec![0] };
                    let outcome = party.lock(0, LockMode::Update);
                    party.end();
                    outcome.is_ok()
                })
            }));
            assert!(outcomes[0] != outcomes[1], "{outcomes:?}");
            seen.world.check_idle();
        }
    });
}

#[test]
fn model_a_released_lock_blocks_no_waiter() {
    check(|| {
        let seen = Seen::new();
        (1..=2).for_each(|txn| std::mem::forget(seen.party(txn, &[(txn as usize, LockMode::Update)])));
        join([
            spawn(&seen, |seen| {
                let mut party = Party { seen, txn: 1, locks: vec![1] };
                assert_eq!(party.lock(2, LockMode::Share), Ok(true));
                party.end();
            }),
            spawn(&seen, |seen| {
                let mut party = Party { seen, txn: 2, locks: vec![2] };
                party.release(2);
                assert_eq!(party.lock(1, LockMode::Share), Ok(true));
                party.end();
            }),
        ]);
        seen.world.check_idle();
    });
}
