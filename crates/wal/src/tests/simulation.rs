//! Random histories on the simulated disk: acknowledged records survive any crash, the records
//! found are a prefix of those appended, and a mere power cut never makes the log refuse to open.

use std::cell::Cell;
use std::collections::BTreeMap;

use env::Env;
use env::sim::{Faults, SimEnv};
use model::{ErrorKind, Lsn, SqlState};

use super::{Records, flush, open, small, world};
use crate::{Appended, Space, Wal};

/// Expected state of the log.
struct Ledger {
    /// Payloads by LSN, without durable marks.
    appended: BTreeMap<u64, Vec<u8>>,
    /// Highest LSN that was acknowledged as durable.
    acknowledged: Cell<u64>,
    /// Records below this LSN may be removed.
    removed_below: u64,
}

impl Ledger {
    fn new() -> Ledger {
        Ledger { appended: BTreeMap::new(), acknowledged: Cell::new(0), removed_below: 1 }
    }

    /// Checks the records found by opening from `from`, and continues from that state.
    fn check(&mut self, wal: &Wal, from: u64, records: &Records) {
        let last = wal.last().0;
        assert!(last >= self.acknowledged.get(), "acknowledged {}, found {last}", self.acknowledged.get());
        assert_eq!(wal.durable().0, last);
        self.appended.split_off(&(last + 1));
        let expected: Records = self.appended.range(from..).map(|(lsn, payload)| (*lsn, payload.clone())).collect();
        assert!(
            *records == expected,
            "found {} records from {from} to {last}, expected {}",
            records.len(),
            expected.len()
        );
        self.acknowledged.set(last);
    }

    fn advanced(&self, lsn: Lsn) {
        assert!(lsn.0 > self.acknowledged.get(), "durable went from {} to {lsn}", self.acknowledged.get());
        self.acknowledged.set(lsn.0);
    }
}

struct History {
    env: SimEnv,
    ledger: Ledger,
}

impl History {
    fn new(seed: u64) -> History {
        History { env: world(seed), ledger: Ledger::new() }
    }

    fn below(&self, end: u64) -> u64 {
        self.env.random() % end
    }

    fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            if self.below(3) == 0 {
                self.try_to_open_with_faults();
            }
            let wal = self.open();
            for _ in 0..self.below(60) {
                self.step(&wal);
            }
            self.end(wal);
        }
        self.open();
    }

    /// Without faults opening must succeed.
    fn open(&mut self) -> Wal {
        self.env.heal();
        self.env.set_capacity(u64::MAX);
        let from =
            self.ledger.removed_below + self.below(self.ledger.acknowledged.get() + 2 - self.ledger.removed_below);
        let (wal, records, _) =
            open(&self.env, from).unwrap_or_else(|error| panic!("cannot open from {from}: {error}"));
        self.ledger.check(&wal, from, &records);
        wal
    }

    /// Opening may fail with faults, but not with a corruption error, and must not do damage.
    fn try_to_open_with_faults(&mut self) {
        self.break_something();
        let from = self.ledger.removed_below;
        match open(&self.env, from) {
            Ok((wal, records, _)) => {
                self.ledger.check(&wal, from, &records);
                self.end(wal);
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Unavailable), "{error:?}");
                self.env.crash();
            }
        }
    }

    fn step(&mut self, wal: &Wal) {
        match self.below(12) {
            0..5 => self.append(wal),
            5..9 => {
                wal.flush_step(&|lsn| self.ledger.advanced(lsn));
            }
            9 => self.env.advance(self.below(15_000_000)),
            10 => self.remove(wal),
            _ if self.below(8) == 0 => self.break_something(),
            _ => self.read(wal),
        }
        if let Some(failure) = wal.failure() {
            assert_eq!(failure.state(), SqlState::IO_ERROR);
            assert!(wal.append(&[&[b"x"]], Space::Reserve).is_err());
        }
        assert_eq!(wal.durable().0, self.ledger.acknowledged.get());
    }

    fn append(&mut self, wal: &Wal) {
        // Few lengths, so that a remainder of a torn tail could fit directly after a new record.
        let lengths = [1, 20, 20, 600, 600, 600, 3000];
        let payloads: Vec<Vec<u8>> =
            (0..1 + self.below(3)).map(|_| vec![self.below(255) as u8 + 1; lengths[self.below(7) as usize]]).collect();
        let parts: Vec<[&[u8]; 1]> = payloads.iter().map(|payload| [&payload[..]]).collect();
        let records: Vec<&[&[u8]]> = parts.iter().map(|parts| &parts[..]).collect();
        let space = if self.below(4) == 0 { Space::Reserve } else { Space::Ordinary };
        match wal.append(&records, space) {
            Ok(Appended::At(last)) => {
                let first = last.0 + 1 - payloads.len() as u64;
                self.ledger.appended.extend((first..).zip(payloads));
            }
            Ok(Appended::Busy(event)) => assert!(!event.is_set()),
            Err(error) => assert!(
                error.state() == SqlState::DISK_FULL || wal.failure().is_some() || wal.out_of_space().is_some(),
                "{error}"
            ),
        }
    }

    fn remove(&mut self, wal: &Wal) {
        if self.ledger.acknowledged.get() > 0 {
            // Up to all existing records.
            let below = self.ledger.removed_below.max(self.below(self.ledger.acknowledged.get() + 2));
            self.ledger.removed_below = below;
            let _ = wal.remove_below(Lsn(below));
        }
    }

    fn read(&mut self, wal: &Wal) {
        let from = self.ledger.removed_below;
        let mut expected = self.ledger.appended.range(from..from.max(self.ledger.acknowledged.get() + 1));
        let Ok(mut reader) = wal.read(Lsn(from)) else {
            return;
        };
        loop {
            match reader.next() {
                Ok(Some((lsn, payload))) => assert_eq!(expected.next(), Some((&lsn.0, &payload.to_vec()))),
                Ok(None) => break assert_eq!(expected.next(), None),
                Err(error) => break assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
            }
        }
    }

    fn break_something(&mut self) {
        let chance = [0.02, 0.2, 1.0][self.below(3) as usize];
        match self.below(6) {
            0 => self.env.set_faults(Faults { sync_error: chance, ..Faults::default() }),
            1 => self.env.set_faults(Faults { write_error: chance, ..Faults::default() }),
            2 => self.env.set_faults(Faults { name_error: chance, read_error: chance, ..Faults::default() }),
            3 => self.env.fail_at(self.env.io_calls() + self.below(10)),
            4 => self.env.fail_from(self.env.io_calls() + self.below(10)),
            _ => self.env.set_capacity(self.env.used_bytes() + self.below(3) * small().file_bytes),
        }
    }

    /// Ends the process in one of four ways.
    fn end(&mut self, wal: Wal) {
        let how = self.below(4);
        if how == 0 {
            let closed = wal.close(&|lsn| self.ledger.advanced(lsn));
            assert!(closed.is_err() || wal.durable() == wal.last());
        }
        drop(wal);
        match how {
            0 | 1 => self.env.kill(),
            _ => self.env.crash(),
        }
    }
}

fn run_seed(seed: u64) {
    let result = std::panic::catch_unwind(|| History::new(seed).run(8));
    if let Err(panic) = result {
        eprintln!("SIM_SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}

/// `SIM_SEED=n` replays one history; `SIM_SEEDS=n` runs n of them.
#[test]
fn acknowledged_records_survive_any_crash() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SIM_SEED") {
        Some(seed) => run_seed(seed),
        None => (0..number("SIM_SEEDS").unwrap_or(3_000)).for_each(run_seed),
    }
}

/// A short run of a log: opens, appends over rollovers, removes, reads, marks, closes. Continues
/// after errors.
fn short_life(env: &SimEnv, ledger: &mut Ledger) {
    let Ok((wal, records, _)) = open(env, ledger.removed_below) else {
        return;
    };
    ledger.check(&wal, ledger.removed_below, &records);
    for n in 1..=30u8 {
        let payload = vec![n; 700];
        if let Ok(Appended::At(lsn)) = wal.append(&[&[&payload]], Space::Ordinary) {
            ledger.appended.insert(lsn.0, payload);
        }
        wal.flush_step(&|lsn| ledger.advanced(lsn));
        if n == 20 && ledger.acknowledged.get() > 15 {
            ledger.removed_below = 15;
            let _ = wal.remove_below(Lsn(15));
        }
    }
    let _ = wal.close(&|lsn| ledger.advanced(lsn));
}

#[test]
fn acknowledged_records_survive_failing_io_calls() {
    for (all_after, kill) in [(false, false), (false, true), (true, false), (true, true)] {
        for call in 1.. {
            let (env, mut ledger) = (world(call), Ledger::new());
            let start = env.io_calls();
            if all_after {
                env.fail_from(start + call)
            } else {
                env.fail_at(start + call)
            };
            short_life(&env, &mut ledger);
            let calls = env.io_calls() - start;
            env.heal();
            if kill {
                env.kill()
            } else {
                env.crash()
            };
            let from = ledger.removed_below;
            let (wal, records, _) = open(&env, from).unwrap_or_else(|error| panic!("call {call}: {error}"));
            ledger.check(&wal, from, &records);
            if calls < call {
                assert!(call > 60, "the workload is too short to mean anything");
                break;
            }
        }
    }
}

/// Appends a record for which there is space.
fn append_to(wal: &Wal, ledger: &mut Ledger, payload: Vec<u8>) {
    match wal.append(&[&[&payload]], Space::Ordinary).unwrap() {
        Appended::At(lsn) => ledger.appended.insert(lsn.0, payload),
        Appended::Busy(_) => panic!("there is room"),
    };
}

#[test]
fn acknowledged_records_survive_a_crash_while_the_tail_is_made_safe() {
    for seed in 0..300 {
        for call in 1.. {
            let (env, mut ledger) = (world(seed), Ledger::new());
            short_life(&env, &mut ledger);
            env.crash();
            {
                let (wal, records, _) = open(&env, 15).unwrap();
                ledger.check(&wal, 15, &records);
                (0..4).for_each(|n| append_to(&wal, &mut ledger, vec![n; 400]));
                // The write succeeds, but the sync fails after persisting an arbitrary part.
                env.fail_at(env.io_calls() + 2);
                wal.flush_step(&|lsn| ledger.advanced(lsn));
            }
            env.crash();
            env.fail_from(env.io_calls() + call);
            let opened = open(&env, 15).is_ok();
            env.heal();
            env.crash();
            let (wal, records, _) = open(&env, 15).unwrap();
            ledger.check(&wal, 15, &records);
            // Equal in length to the lost record: a remainder of the torn tail would follow this
            // one seamlessly.
            append_to(&wal, &mut ledger, vec![9; 400]);
            wal.flush_step(&|lsn| ledger.advanced(lsn));
            drop(wal);
            env.crash();
            let (wal, records, _) = open(&env, 15).unwrap();
            ledger.check(&wal, 15, &records);
            if opened {
                break;
            }
        }
    }
}

#[test]
fn records_recovered_after_a_failed_sync_are_really_on_the_disk() {
    // After the failed sync the system shows bytes that are not on disk. The restart takes them for
    // recovered, so it must write them before a power cut.
    for seed in 0..300 {
        let (env, mut ledger) = (world(seed), Ledger::new());
        let (wal, ..) = open(&env, 1).unwrap();
        (1..=4).for_each(|n| append_to(&wal, &mut ledger, vec![n; 500]));
        flush(&wal);
        append_to(&wal, &mut ledger, vec![9; 500]);
        env.set_faults(Faults { sync_error: 1.0, ..Faults::default() });
        wal.flush_step(&|_| {});
        assert!(wal.failure().is_some());
        drop(wal);
        env.heal();
        env.kill();
        let (wal, records, _) = open(&env, 1).unwrap();
        assert_eq!(wal.last(), Lsn(5), "a kill loses nothing that was written");
        ledger.check(&wal, 1, &records);
        drop(wal);
        env.crash();
        let (wal, records, _) = open(&env, 1).unwrap();
        ledger.check(&wal, 1, &records);
    }
}
