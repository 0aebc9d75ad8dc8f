//! Tests of the lock manager: grants, waits, deadlocks.

#[cfg(shuttle)]
mod model;

use super::*;

/// Locks of three rows; of a key (3), which has no lock word; and of tables (4 and above).
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
            None if at == 3 => (LockName::Key { index: 1, hash: at as u64 }, None),
            None => (LockName::Table { table: at as u32 }, None),
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

    fn lower(&self, txn: u64, at: usize, mode: LockMode) {
        let (name, word) = self.name(at);
        self.locks.lower(TxnId(txn), name, word, mode);
        self.check_queue(at);
    }

    /// Checks the queue: every waiter is blocked and registered for this lock; counts and positions
    /// match.
    fn check_queue(&self, at: usize) {
        let name = self.name(at).0;
        let queues = self.locks.shard(name).lock();
        let Some(queue) = queues.get(&name) else { return };
        for (txn, (mode, position, _)) in &queue.waiters.all {
            let by_holder = queue.holders.iter().any(|(holder, held)| holder != *txn && held.conflicts(*mode));
            let before = |(other, (held, at, _)): (&TxnId, &(LockMode, u64, Event))| {
                other != txn && at < position && held.conflicts(*mode)
            };
            assert!(by_holder || queue.waiters.all.iter().any(before), "{txn:?} waits for nobody");
            assert_eq!(self.locks.waits_of(*txn).lock().get(txn), Some(&name), "{txn:?}");
            assert_eq!(queue.waiters.positions[*mode as usize].get(position), Some(txn));
        }
        assert_eq!(queue.waiters.positions.iter().map(BTreeMap::len).sum::<usize>(), queue.waiters.all.len());
        let mut counts = [0; MODES];
        queue.holders.iter().for_each(|(_, mode)| counts[mode as usize] += 1);
        assert_eq!(queue.holders.counts, counts);
        assert!(queue.holders.iter().all(|(txn, mode)| queue.holders.get(txn) == Some(mode)));
    }

    /// Checks that no lock is held or waited for.
    fn check_idle(&self) {
        assert!(self.words.iter().all(|word| word.load(Ordering::Relaxed) == FREE));
        assert!(self.locks.shards.iter().all(|shard| shard.lock().is_empty()));
        assert!(self.locks.waits.iter().all(|waits| waits.lock().is_empty()));
        assert_eq!(self.locks.waiting(), 0);
    }
}

/// The bug: a new waiter visited all waiters of the lock, and a release rebuilt the whole wait-for
/// graph: 900 sessions that updated one row did 19 updates a second. The fix: the order of the
/// queue implies the wait-for graph.
#[test]
fn wait_and_release_cost_is_independent_of_the_number_of_waiters() {
    use LockMode::{NoKeyUpdate, Update};
    let mut each = Vec::new();
    for count in [30, 300, 900, 9_000] {
        let world = World::new();
        assert!(matches!(world.lock(1, 0, NoKeyUpdate, WaitPolicy::Wait), Ok(Request::Held { before: None })));
        let mode = |txn: u64| if txn.is_multiple_of(2) { NoKeyUpdate } else { Update };
        let events: Vec<Event> = (2..2 + count)
            .map(|txn| match world.lock(txn, 0, mode(txn), WaitPolicy::Wait) {
                Ok(Request::Wait { event, .. }) => event,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(world.locks.waiting() as u64, count);
        each.push(world.locks.steps.load(Ordering::Relaxed) as u64 / count);
        for (at, event) in events.iter().enumerate() {
            assert!(!event.is_set());
            world.release(1 + at as u64, 0);
            assert!(event.is_set(), "first come, first served");
        }
        world.release(1 + count, 0);
        world.check_idle();
    }
    assert!(each.iter().all(|steps| *steps <= 4), "{each:?} steps a wait");
}

/// A chain of transactions, each waiting for the next and the last for the first: the deadlock is
/// found at any length, at a cost proportional to it.
#[test]
fn a_long_cycle_is_a_deadlock_and_a_long_chain_is_not() {
    for length in [2, 30, 1_000] {
        let locks = Locks::new();
        let name = |at: u64| LockName::Key { index: 1, hash: at };
        for at in 0..length {
            assert!(locks.lock(TxnId(at + 1), name(at), None, LockMode::Update, WaitPolicy::Wait).is_ok());
        }
        for at in 0..length - 1 {
            let waits = locks.lock(TxnId(at + 1), name(at + 1), None, LockMode::Update, WaitPolicy::Wait);
            assert!(matches!(waits, Ok(Request::Wait { .. })), "{at} of {length}");
        }
        let before = locks.steps.load(Ordering::Relaxed);
        let closes = locks.lock(TxnId(length), name(0), None, LockMode::Update, WaitPolicy::Wait);
        assert_eq!(closes.unwrap_err().state(), SqlState::DEADLOCK_DETECTED);
        assert!(locks.steps.load(Ordering::Relaxed) - before <= 4 * length as usize);
        assert_eq!(locks.waiting() as u64, length - 1);
    }
}

/// A holder that asks for a stronger mode is inserted ahead of those it blocks, any number of
/// times.
#[test]
fn inserting_between_waiters_never_runs_out_of_positions() {
    let mut waiters = Waiters::default();
    waiters.add(TxnId(1), LockMode::Share, None);
    waiters.add(TxnId(2), LockMode::Update, None);
    for txn in 3..200 {
        waiters.add(TxnId(txn), LockMode::Update, Some(LockMode::KeyShare));
    }
    let mut positions: Vec<(u64, TxnId)> =
        waiters.all.iter().map(|(txn, (_, position, _))| (*position, *txn)).collect();
    positions.sort_unstable();
    let order: Vec<u64> = positions.iter().map(|(_, txn)| txn.0).collect();
    assert_eq!(order, [1].into_iter().chain((3..200).rev()).chain([2]).collect::<Vec<_>>());
}

/// Makes requests one after the other without waiting for events; returns their results and events.
fn outcomes(world: &World, requests: &[(u64, usize, LockMode)]) -> (Vec<String>, Vec<Event>) {
    let mut events = Vec::new();
    let mut outcomes = Vec::new();
    for (txn, at, mode) in requests {
        outcomes.push(match world.lock(*txn, *at, *mode, WaitPolicy::Wait) {
            Ok(Request::Wait { event, .. }) => {
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

/// The bug: an undetected deadlock. The mechanism: the wait-for edges of a waiter were recorded
/// when it began to wait; a holder that upgraded its mode without waiting added an edge that was
/// missing. The fix: edges are recorded again then.
#[test]
fn a_deadlock_closed_by_a_lock_upgrade_is_found() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let world = World::new();
    // 3 waits for 1. The upgrade of 2 makes 3 wait for 2 too.
    let before = [(1, 0, Share), (2, 0, KeyShare), (3, 1, Update), (3, 0, NoKeyUpdate), (2, 0, Share)];
    assert_eq!(outcomes(&world, &before).0, ["held", "held", "held", "waits", "held"]);
    assert_eq!(outcomes(&world, &[(2, 1, Update)]).0, ["40P01"]);
}

/// The bug: an undetected deadlock. The mechanism: a holder that asked for a stronger mode went
/// ahead of all waiters, which added edges from them; cycles through these edges were not searched.
/// The fix: it goes ahead of those it already blocks, which adds no edges.
#[test]
fn an_upgrade_waits_behind_waiters_it_does_not_block() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let world = World::new();
    // 2 and 3 hold the lock. 3 waits for 1 to upgrade, and would wait for 2, which waits for 3.
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

/// The bug: a transaction that nothing blocked was left in the queue, and deadlocks through it were
/// not found. The mechanism: a release granted the lock only up to the first blocked waiter. The
/// fix: every waiter that is not blocked is granted the lock.
#[test]
fn an_unblocked_waiter_is_granted_the_lock() {
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

/// The bug: a holder seemed to wait for transactions behind it: a false deadlock, or a real one
/// that was missed because another waiter's position was lost. The mechanism: a request repeated by
/// a statement that ran again was queued twice. The fix: it is queued once, in the stronger mode.
#[test]
fn a_repeated_request_is_queued_once() {
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

/// One step of a transaction on one row lock.
#[derive(Clone, Copy)]
enum Step {
    Lock(LockMode),
    Lower(LockMode),
    Release,
}

/// Runs steps one after the other: the result of each request, and the transactions that each step grants the lock.
fn trace(steps: &[(u64, Step)]) -> String {
    let (world, mut waiting, mut out) = (World::new(), Vec::<(u64, Event)>::new(), String::new());
    for (txn, step) in steps {
        assert!(waiting.iter().all(|(waiter, _)| waiter != txn), "{txn} has a step while it waits");
        match step {
            Step::Release => world.release(*txn, 0),
            Step::Lower(mode) => world.lower(*txn, 0, *mode),
            Step::Lock(mode) => match world.lock(*txn, 0, *mode, WaitPolicy::Wait) {
                Ok(Request::Held { .. }) => out += &format!("{txn} held, "),
                Ok(Request::Wait { event, .. }) => {
                    out += &format!("{txn} waits, ");
                    waiting.push((*txn, event));
                }
                other => panic!("{other:?}"),
            },
        }
        world.check_queue(0);
        for (txn, _) in waiting.extract_if(.., |(_, event)| event.is_set()) {
            out += &format!("{txn} granted, ");
        }
    }
    assert!(waiting.is_empty(), "{out}");
    world.check_idle();
    out.trim_end_matches(", ").to_owned()
}

/// The row locks of PostgreSQL's isolation tests tuplelock-upgrade-no-deadlock and delete-abort-savept-2, granted as in
/// their expected output. Transaction 4 is session s0.
#[test]
fn row_locks_are_granted_in_the_order_of_postgresql() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    use Step::{Lock, Lower, Release};
    let cases: [(&[(u64, Step)], &str); 9] = [
        (
            &[
                (1, Lock(Share)),
                (2, Lock(Update)),
                (3, Lock(Share)),
                (3, Lock(Update)),
                (1, Release),
                (3, Release),
                (2, Release),
            ],
            "1 held, 2 waits, 3 held, 3 waits, 3 granted, 2 granted",
        ),
        (
            &[
                (1, Lock(KeyShare)),
                (2, Lock(Update)),
                (3, Lock(KeyShare)),
                (1, Lock(NoKeyUpdate)),
                (3, Lock(NoKeyUpdate)),
                (1, Release),
                (3, Release),
                (2, Release),
            ],
            "1 held, 2 waits, 3 held, 1 held, 3 waits, 3 granted, 2 granted",
        ),
        (
            &[
                (1, Lock(KeyShare)),
                (2, Lock(Update)),
                (3, Lock(KeyShare)),
                (3, Lock(Update)),
                (1, Release),
                (3, Release),
                (2, Release),
            ],
            "1 held, 2 waits, 3 held, 3 waits, 3 granted, 2 granted",
        ),
        // Without an upgrade: first come, first served.
        (
            &[(1, Lock(Share)), (2, Lock(Update)), (3, Lock(Update)), (1, Release), (2, Release), (3, Release)],
            "1 held, 2 waits, 3 waits, 2 granted, 3 granted",
        ),
        (
            &[
                (1, Lock(Share)),
                (2, Lock(NoKeyUpdate)),
                (3, Lock(NoKeyUpdate)),
                (1, Release),
                (2, Release),
                (3, Release),
            ],
            "1 held, 2 waits, 3 waits, 2 granted, 3 granted",
        ),
        (
            &[
                (1, Lock(KeyShare)),
                (3, Lock(Update)),
                (2, Lock(KeyShare)),
                (1, Lock(Share)),
                (1, Lock(NoKeyUpdate)),
                (2, Lock(NoKeyUpdate)),
                (4, Lock(KeyShare)),
                (1, Lower(Share)),
                (4, Lock(KeyShare)),
                (1, Lower(KeyShare)),
                (1, Release),
                (2, Release),
                (4, Release),
                (3, Release),
            ],
            "1 held, 3 waits, 2 held, 1 held, 1 held, 2 waits, 4 held, 4 held, 2 granted, 3 granted",
        ),
        // delete-abort-savept-2.
        (
            &[
                (1, Lock(KeyShare)),
                (1, Lock(NoKeyUpdate)),
                (1, Lower(KeyShare)),
                (2, Lock(Update)),
                (1, Release),
                (2, Release),
            ],
            "1 held, 1 held, 2 waits, 2 granted",
        ),
        (
            &[
                (1, Lock(KeyShare)),
                (1, Lock(NoKeyUpdate)),
                (1, Lower(KeyShare)),
                (2, Lock(NoKeyUpdate)),
                (1, Release),
                (2, Release),
            ],
            "1 held, 1 held, 2 held",
        ),
        (
            &[
                (1, Lock(KeyShare)),
                (1, Lock(NoKeyUpdate)),
                (2, Lock(NoKeyUpdate)),
                (1, Lower(KeyShare)),
                (1, Release),
                (2, Release),
            ],
            "1 held, 1 held, 2 waits, 2 granted",
        ),
    ];
    for (steps, expected) in cases {
        assert_eq!(trace(steps), expected);
    }
}

/// A waiter keeps its place behind a conflicting waiter, even if only that one blocks it, and if it repeats its request.
#[test]
fn a_waiter_does_not_pass_an_earlier_one_that_it_conflicts_with() {
    use LockMode::{KeyShare, NoKeyUpdate, Update};
    let world = World::new();
    let (_, events) = outcomes(&world, &[(1, 0, KeyShare), (1, 0, Update), (2, 0, Update), (3, 0, KeyShare)]);
    world.lower(1, 0, KeyShare);
    assert_eq!(are_set(&events), [false, false], "3 waits behind 2");
    let (again, _) = outcomes(&world, &[(3, 0, KeyShare), (4, 0, NoKeyUpdate)]);
    assert_eq!(again, ["waits", "held"], "a new request of a compatible mode does not queue");
    [1, 4].into_iter().for_each(|txn| world.release(txn, 0));
    assert_eq!(are_set(&events), [true, false]);
    world.release(2, 0);
    assert_eq!(are_set(&events), [true, true]);
    world.release(3, 0);
    world.check_idle();
}

/// Writers share a table's lock: DDL would wait for ever if new writers passed it.
#[test]
fn a_new_request_for_a_table_queues_behind_a_conflicting_waiter() {
    let (locks, word, name) = (Locks::new(), AtomicU64::new(FREE), LockName::Table { table: 1 });
    let lock = |txn, mode| locks.lock(TxnId(txn), name, Some(&word), mode, WaitPolicy::Wait).unwrap();
    assert!(matches!(lock(1, LockMode::KeyShare), Request::Held { before: None }));
    let Request::Wait { event: ddl, .. } = lock(2, LockMode::Update) else { panic!("a writer has the table") };
    let Request::Wait { event: writer, .. } = lock(3, LockMode::KeyShare) else { panic!("DDL waits for the table") };
    locks.release(TxnId(1), name, Some(&word));
    assert!(ddl.is_set() && !writer.is_set());
    locks.release(TxnId(2), name, Some(&word));
    assert!(writer.is_set());
}

/// A new holder that passes waiters adds edges to the wait-for graph; a cycle through them is found when it waits.
#[test]
fn a_deadlock_through_a_holder_that_passed_a_waiter_is_found() {
    use LockMode::{Share, Update};
    let world = World::new();
    let requests = [(1, 0, Share), (2, 1, Update), (2, 0, Update), (3, 0, Share), (3, 1, Share)];
    assert_eq!(outcomes(&world, &requests).0, ["held", "held", "waits", "held", "40P01"]);
}

/// The cycles of PostgreSQL's isolation tests deadlock-soft and deadlock-soft-2, and one that needs two changes: waiters change
/// places, and nobody is a victim. A cycle of holders alone, and one that another order would close anew, have one.
#[test]
fn a_cycle_by_the_order_of_waiters_alone_is_no_deadlock() {
    use LockMode::{KeyShare, Share, Update};
    /// Requests, the result of the last one, the waiters that are granted the lock by it, and the transactions in the order
    /// in which they can end.
    type Case<'a> = (&'a [(u64, usize, LockMode)], &'a str, &'a [u64], &'a [u64]);
    let cases: [Case<'_>; 4] = [
        (
            &[(1, 1, KeyShare), (2, 2, KeyShare), (3, 1, Update), (4, 2, Update), (1, 2, KeyShare), (2, 1, KeyShare)],
            "waits",
            &[1],
            &[1, 3, 2, 4],
        ),
        (&[(1, 1, Share), (2, 1, Update), (3, 2, Update), (3, 1, KeyShare), (1, 2, Update)], "waits", &[3], &[3, 1, 2]),
        (&[(1, 1, Update), (2, 2, Update), (2, 1, Share), (1, 2, Share)], "40P01", &[], &[1, 2]),
        // 3 waits behind 2, and would wait for 1 in any order.
        (&[(1, 1, Share), (3, 2, Update), (2, 1, Update), (3, 1, Update), (1, 2, Update)], "40P01", &[], &[1, 2, 3]),
    ];
    for (requests, last, expected, ends) in cases {
        let (locks, words) = (Locks::new(), <[AtomicU64; 3]>::default());
        let name = |at: usize| LockName::Table { table: at as u32 };
        let (mut waiting, mut outcome) = (Vec::new(), "held");
        for (txn, at, mode) in requests {
            outcome = match locks.lock(TxnId(*txn), name(*at), Some(&words[*at]), *mode, WaitPolicy::Wait) {
                Ok(Request::Wait { event, .. }) => {
                    waiting.push((*txn, event));
                    "waits"
                }
                Ok(Request::Held { .. }) => "held",
                Ok(Request::Skipped) => "skipped",
                Err(error) if error.state() == SqlState::DEADLOCK_DETECTED => "40P01",
                Err(error) => panic!("{error}"),
            };
        }
        assert_eq!(outcome, last, "{requests:?}");
        let granted: Vec<u64> = waiting.iter().filter(|(_, event)| event.is_set()).map(|(txn, _)| *txn).collect();
        assert_eq!(granted, expected, "{requests:?}");
        for txn in ends {
            let is_waiting = waiting.iter().any(|(waiter, event)| waiter == txn && !event.is_set());
            assert!(!is_waiting, "{txn} cannot end: {requests:?}");
            for at in [1, 2].into_iter().filter(|at| requests.iter().any(|(of, on, _)| (of, on) == (txn, at))) {
                locks.release(TxnId(*txn), name(at), Some(&words[at]));
            }
        }
        assert!(locks.shards.iter().all(|shard| shard.lock().is_empty()) && locks.waiting() == 0, "{requests:?}");
    }
}

/// A lock with one holder is lowered in its lock word, without a queue.
#[test]
fn a_lock_is_lowered_in_its_word_or_in_its_queue() {
    for is_queued in [false, true] {
        let world = World::new();
        let modes = [(1, 0, LockMode::KeyShare), (1, 0, LockMode::Update)];
        assert_eq!(outcomes(&world, &modes).0, ["held", "held"]);
        if is_queued {
            assert!(matches!(world.lock(2, 0, LockMode::Share, WaitPolicy::Skip), Ok(Request::Skipped)));
        }
        assert_eq!(world.words[0].load(Ordering::Relaxed) == IN_TABLE, is_queued);
        world.lower(1, 0, LockMode::Share);
        assert!(matches!(world.lock(2, 0, LockMode::NoKeyUpdate, WaitPolicy::Skip), Ok(Request::Skipped)));
        assert!(matches!(world.lock(2, 0, LockMode::Share, WaitPolicy::Skip), Ok(Request::Held { before: None })));
        [1, 2].into_iter().for_each(|txn| world.release(txn, 0));
        world.check_idle();
    }
}
