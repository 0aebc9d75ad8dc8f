//! Random transactions that append to lists and read them, checked by the dependency graph of
//! Adya's thesis ("Weak Consistency", MIT 1999), which Kingsbury and Alvaro's Elle (VLDB 2020)
//! infers from lists.
//!
//! Each value is appended once, so the lists give the order of writers, and each read gives the
//! writers before and after it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Durability, Engine, Event, Isolation, Options, Savepoint, Txn};
use env::sim::SimEnv;
use model::{Datum, Error, Lsn, Result, RowSchema, SqlState, TableId, TableName, Type};
use rows::{Direction, LockMode, Locked, Put, RowTable, WaitPolicy};

use crate::begin;
use crate::rows::{column, index};

const KEYS: i32 = 6;

/// Pseudo-random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn key(&mut self) -> i32 {
        self.below(KEYS as u64) as i32
    }
}

/// Operations and results of one transaction.
#[derive(Debug, Default)]
struct Transaction {
    /// Position in the serial order that the engine claims: at its commit, or just after its
    /// snapshot if it wrote nothing. `None` if it rolled back.
    place: Option<(Lsn, bool)>,
    /// Key, value, and whether the append was undone.
    appends: Vec<(i32, u64, bool)>,
    reads: Vec<(i32, Vec<u64>)>,
}

/// Anomalies, the worst first. With one of the first two the others cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Anomaly {
    /// A list that is no prefix of the final one, or lacks a committed value.
    Order,
    /// A transaction did not see its own appends.
    Own,
    /// A cycle of writes only.
    G0,
    /// A read of a rolled-back value.
    G1a,
    /// A read of a value that was not the transaction's last.
    G1b,
    /// A cycle of writes and reads of them.
    G1c,
    /// A cycle with one anti-dependency.
    GSingle,
    /// A cycle with several anti-dependencies.
    G2,
}

type Lists = BTreeMap<i32, Vec<u64>>;

/// Dependencies: write-write, write-read, and read-write (anti-dependency).
#[derive(Default)]
struct Graph {
    ww: BTreeSet<(usize, usize)>,
    wr: BTreeSet<(usize, usize)>,
    rw: BTreeSet<(usize, usize)>,
}

/// Transitive closure: pairs connected by one edge or more.
fn closure<'a>(size: usize, edges: impl Iterator<Item = &'a (usize, usize)>) -> Vec<Vec<bool>> {
    let mut reach = vec![vec![false; size]; size];
    edges.for_each(|(from, to)| reach[*from][*to] = true);
    for via in 0..size {
        let onwards = reach[via].clone();
        for row in reach.iter_mut().filter(|row| row[via]) {
            row.iter_mut().zip(&onwards).for_each(|(to, from_via)| *to |= from_via);
        }
    }
    reach
}

fn has_circle(reach: &[Vec<bool>]) -> bool {
    (0..reach.len()).any(|at| reach[at][at])
}

impl Graph {
    fn edges(&self) -> impl Iterator<Item = &(usize, usize)> {
        self.ww.iter().chain(&self.wr).chain(&self.rw)
    }

    fn circles(&self, size: usize) -> Option<Anomaly> {
        if has_circle(&closure(size, self.ww.iter())) {
            return Some(Anomaly::G0);
        }
        let reach = closure(size, self.ww.iter().chain(&self.wr));
        if has_circle(&reach) {
            return Some(Anomaly::G1c);
        }
        if self.rw.iter().any(|(from, to)| reach[*to][*from]) {
            return Some(Anomaly::GSingle);
        }
        has_circle(&closure(size, self.edges())).then_some(Anomaly::G2)
    }
}

/// All anomalies of a history, and the dependency graph of the committed transactions.
fn check(history: &[Transaction], finals: &Lists) -> (BTreeSet<Anomaly>, Graph) {
    let mut found = BTreeSet::new();
    let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
    // The last value of each transaction and key that was not undone.
    let mut last: BTreeMap<(usize, i32), u64> = BTreeMap::new();
    let mut undone: BTreeSet<u64> = BTreeSet::new();
    for (at, txn) in history.iter().enumerate() {
        for (key, value, is_undone) in &txn.appends {
            writers.insert(*value, at);
            if *is_undone || txn.place.is_none() {
                undone.insert(*value);
            } else {
                last.insert((at, *key), *value);
                let there = finals.get(key).into_iter().flatten().filter(|there| *there == value).count();
                if there != 1 {
                    found.insert(Anomaly::Order);
                }
            }
        }
    }
    let mut graph = Graph::default();
    for list in finals.values() {
        let order: Vec<usize> = list.iter().map(|value| writers[value]).collect();
        graph.ww.extend(order.windows(2).filter(|pair| pair[0] != pair[1]).map(|pair| (pair[0], pair[1])));
    }
    for (at, txn) in history.iter().enumerate().filter(|(_, txn)| txn.place.is_some()) {
        for (key, list) in &txn.reads {
            let is_own = |value: &&u64| writers[*value] == at;
            let others = &list[..list.len() - list.iter().rev().take_while(is_own).count()];
            let whole = finals.get(key).map_or(&[][..], Vec::as_slice);
            if others.iter().any(|value| undone.contains(value)) {
                found.insert(Anomaly::G1a);
                continue;
            }
            if !whole.starts_with(others) {
                found.insert(Anomaly::Order);
                continue;
            }
            if let Some(newest) = others.last() {
                let writer = writers[newest];
                if last.get(&(writer, *key)) != Some(newest) {
                    found.insert(Anomaly::G1b);
                }
                graph.wr.insert((writer, at));
            }
            if let Some(next) = whole.get(others.len())
                && writers[next] != at
            {
                graph.rw.insert((at, writers[next]));
            }
        }
    }
    found.extend(graph.circles(history.len()));
    (found, graph)
}

/// A step of a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append(i32),
    Read(i32),
    /// The keys from the first to the second, by the index.
    Range(i32, i32),
    /// All keys, by records, or outside the transaction as queries on other threads read.
    All {
        beside: bool,
    },
    Savepoint,
    RollBack,
    End {
        commits: bool,
    },
}

/// Injected faults, to prove that the checker finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Appends to the list of the snapshot instead of the locked one.
    AppendsToOldLists,
}

/// Runs transactions one after the other.
struct Client<'e> {
    engine: &'e Engine,
    isolation: Isolation,
    fault: Fault,
    random: Random,
    values: &'e AtomicU64,
    /// `None` between two transactions.
    open: Option<Open>,
    done: Vec<Transaction>,
    refused: usize,
}

struct Open {
    txn: Txn,
    /// The table as the present statement sees it.
    table: Option<Arc<RowTable>>,
    story: Transaction,
    left: Vec<Step>,
    savepoint: Option<(Savepoint, usize)>,
    /// The statement that waits for a lock, with its snapshot.
    waits: Option<(Step, u64)>,
}

/// Outcome of a step.
enum Outcome {
    On,
    Wait(Event),
}

impl<'e> Client<'e> {
    fn new(engine: &'e Engine, isolation: Isolation, fault: Fault, seed: u64, values: &'e AtomicU64) -> Client<'e> {
        Client { engine, isolation, fault, random: Random(seed), values, open: None, done: Vec::new(), refused: 0 }
    }

    fn plan(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            let (one, other) = (self.random.key(), self.random.key());
            steps.push(match self.random.below(20) {
                0..8 => Step::Append(one),
                8..14 => Step::Read(one),
                14..17 => Step::Range(one.min(other), one.max(other)),
                17 => Step::All { beside: self.random.below(2) == 0 },
                18 => Step::Savepoint,
                _ => Step::RollBack,
            });
        }
        steps.push(Step::End { commits: self.random.below(10) > 0 });
        steps.reverse();
        steps
    }

    /// Runs one step of the open transaction, or of the next one.
    fn step(&mut self) -> Outcome {
        let mut open = self.open.take().unwrap_or_else(|| Open {
            txn: self.engine.begin(self.isolation, Lsn::ZERO),
            table: None,
            story: Transaction::default(),
            left: self.plan(),
            savepoint: None,
            waits: None,
        });
        let (step, value) = match open.waits.take() {
            Some(waiting) => waiting,
            None => {
                let step = open.left.pop().expect("a transaction has an end");
                if !matches!(step, Step::End { .. }) {
                    open.table = Some(table(&mut open.txn));
                }
                (step, self.values.fetch_add(1, Ordering::Relaxed))
            }
        };
        if let Step::End { commits } = step {
            self.end(open, commits);
            return Outcome::On;
        }
        let before = open.txn.savepoint();
        match take(&mut open, step, value, self.fault) {
            Ok(None) => {
                open.txn.end_statement();
                self.open = Some(open);
                Outcome::On
            }
            Ok(Some(event)) => {
                open.txn.undo_to(&before).expect("undo");
                open.waits = Some((step, value));
                self.open = Some(open);
                Outcome::Wait(event)
            }
            Err(error) => {
                let states = [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED];
                assert!(states.contains(&error.state()), "{error:?}");
                self.refused += 1;
                self.end(open, false);
                Outcome::On
            }
        }
    }

    fn end(&mut self, open: Open, commits: bool) {
        let Open { mut txn, mut story, .. } = open;
        if commits {
            let snapshot = txn.snapshot_newest().lsn();
            let writes = story.appends.iter().any(|(_, _, is_undone)| !is_undone);
            match self.engine.finish(txn.commit(Durability::Async)) {
                Ok(lsn) => story.place = Some(if writes { (lsn, false) } else { (snapshot, true) }),
                Err(error) => {
                    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error:?}");
                    assert!(self.isolation == Isolation::Serializable && writes, "{error:?}");
                    self.refused += 1;
                }
            }
        }
        self.done.push(story);
    }
}

/// The table as the next statement sees it.
fn table(txn: &mut Txn) -> Arc<RowTable> {
    let snapshot = txn.snapshot_newest();
    Arc::clone(snapshot.row_table(&TableName::public("lists")).expect("table"))
}

/// Runs a step; returns the event that it waits for, if any.
fn take(open: &mut Open, step: Step, value: u64, fault: Fault) -> Result<Option<Event>> {
    let guard = &crossbeam_epoch::pin();
    let table = open.table.clone().ok_or_else(|| Error::bug("a step before the first"))?;
    match step {
        Step::Append(key) => {
            if let Some(event) = append(open.txn.rows(), &table, key, value, fault)? {
                return Ok(Some(event));
            }
            open.story.appends.push((key, value, false));
        }
        Step::Read(key) => {
            let found = open.txn.rows().get(&table, &key_of(&table, key), guard)?;
            let list = found.map_or(Vec::new(), |(_, row)| decode(&table, row).1);
            saw(open, key..=key, &Lists::from([(key, list)]));
        }
        Step::Range(low, high) => {
            let primary = table.primary.as_ref().expect("a primary key");
            let (first, last) = (key_of(&table, low), key_of(&table, high));
            let (from, to) = (Bound::Included(first.as_slice()), Bound::Included(last.as_slice()));
            let (mut found, mut rows) = (Lists::new(), Vec::new());
            primary.scan(from, to, Direction::Forward, guard, |_, record| {
                rows.push(record);
                ControlFlow::Continue(())
            });
            for record in rows {
                found.extend(open.txn.rows().read_walked(&table, record, guard)?.map(|row| decode(&table, row)));
            }
            open.txn.rows().note_range(&table, primary, from, to);
            saw(open, low..=high, &found);
        }
        Step::All { beside } => {
            let found = all(&mut open.txn, &table, beside)?;
            saw(open, 0..=KEYS - 1, &found);
        }
        Step::Savepoint => open.savepoint = Some((open.txn.savepoint(), open.story.appends.len())),
        Step::RollBack => {
            if let Some((savepoint, appends)) = &open.savepoint {
                open.txn.roll_back_to(savepoint)?;
                open.story.appends[*appends..].iter_mut().for_each(|append| append.2 = true);
            }
        }
        Step::End { .. } => {}
    }
    Ok(None)
}

fn all(txn: &mut Txn, table: &Arc<RowTable>, beside: bool) -> Result<Lists> {
    let guard = &crossbeam_epoch::pin();
    let mut found = Lists::new();
    if beside {
        let view = txn.rows().view();
        view.note_table(table);
        let rows = table.records.all().filter_map(|record| view.row(table, record, guard));
        found.extend(rows.map(|row| decode(table, row)));
        return Ok(found);
    }
    txn.rows().note_table(table);
    for record in table.records.all() {
        found.extend(txn.rows().read_walked(table, record, guard)?.map(|row| decode(table, row)));
    }
    Ok(found)
}

/// Records the lists read. The transaction's own appends must be in them.
fn saw(open: &mut Open, keys: std::ops::RangeInclusive<i32>, found: &Lists) {
    for key in keys {
        let list = found.get(&key).cloned().unwrap_or_default();
        let appends = open.story.appends.iter().filter(|(of, _, is_undone)| *of == key && !is_undone);
        let own: Vec<u64> = appends.map(|(_, value, _)| *value).collect();
        assert!(list.ends_with(&own), "{:?}: {own:?} of {key} were not seen: {list:?}", Anomaly::Own);
        open.story.reads.push((key, list));
    }
}

fn append(rows: &mut rows::Txn, table: &Arc<RowTable>, key: i32, value: u64, fault: Fault) -> Result<Option<Event>> {
    let guard = &crossbeam_epoch::pin();
    let found = rows.get(table, &key_of(table, key), guard)?;
    let (record, old) = match found {
        Some((record, row)) => (record, decode(table, row).1),
        None => match rows.insert(table, encode(table, key, &[value]), guard)? {
            Put::Done(_) => return Ok(None),
            Put::Wait(event) => return Ok(Some(event)),
            // The row was inserted after the snapshot.
            Put::Duplicate { record, .. } => (record, Vec::new()),
        },
    };
    let mut list = match rows.lock_row(table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard)? {
        Locked::Row { row, .. } => decode(table, row).1,
        Locked::Wait(event) => return Ok(Some(event)),
        other => panic!("{other:?}"),
    };
    if fault == Fault::AppendsToOldLists {
        list = old;
    }
    list.push(value);
    match rows.update(table, record, encode(table, key, &list), guard)? {
        Put::Done(_) => Ok(None),
        Put::Wait(event) => Ok(Some(event)),
        Put::Duplicate { .. } => Err(Error::bug("a key that was not changed is there twice")),
    }
}

fn key_of(table: &RowTable, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    let primary = table.primary.as_ref().expect("a primary key");
    rows::key::push(&mut key, &primary.keys()[0], &Datum::Int4(id)).expect("a key");
    key
}

fn encode(table: &RowTable, key: i32, list: &[u64]) -> Box<[u8]> {
    let text = list.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let mut out = Vec::new();
    table.layout.encode(&[Datum::Int4(key), Datum::Text(&text)], &mut out).expect("a row");
    out.into()
}

fn decode(table: &RowTable, row: &[u8]) -> (i32, Vec<u64>) {
    let field = |at| table.layout.field(row, at).expect("a field");
    let (Datum::Int4(key), Datum::Text(text)) = (field(0), field(1)) else { panic!("{row:?}") };
    (key, text.split_whitespace().map(|value| value.parse().expect("a number")).collect())
}

fn create(engine: &Engine) {
    let mut txn = begin(engine);
    let schema = RowSchema {
        id: TableId(txn.next_number()),
        name: TableName::public("lists"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![column("id", Type::Int4, true), column("list", Type::Text, true)],
        primary: Some(index(&txn, "lists_pkey", &[0], true)),
        secondary: vec![],
        checks: vec![],
        foreign_keys: vec![],
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    txn.create_row_table(schema).expect("create");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

/// A history and the final lists.
struct History {
    transactions: Vec<Transaction>,
    finals: Lists,
    refused: usize,
}

impl History {
    fn of(engine: &Engine, clients: Vec<Client<'_>>) -> History {
        let mut txn = begin(engine);
        let table = table(&mut txn);
        let finals = all(&mut txn, &table, false).expect("lists");
        let refused = clients.iter().map(|client| client.refused).sum();
        History { transactions: clients.into_iter().flat_map(|client| client.done).collect(), finals, refused }
    }

    /// Clients that take turns at random.
    fn interleaved(isolation: Isolation, fault: Fault, seed: u64) -> History {
        let env = SimEnv::new(seed);
        let engine = crate::rows::open(&env);
        create(&engine);
        let (mut random, values) = (Random(seed), AtomicU64::new(1));
        let client = |at| Client::new(&engine, isolation, fault, seed << 8 | at, &values);
        let mut clients: Vec<(Client<'_>, Option<Event>)> = (0..4).map(|at| (client(at), None)).collect();
        while clients.iter().any(|(client, _)| client.done.len() < 8 || client.open.is_some()) {
            let at = random.below(clients.len() as u64) as usize;
            let (client, waits) = &mut clients[at];
            let is_done = client.done.len() >= 8 && client.open.is_none();
            if is_done || waits.as_ref().is_some_and(|event| !event.is_set()) {
                continue;
            }
            *waits = match client.step() {
                Outcome::On => None,
                Outcome::Wait(event) => Some(event),
            };
        }
        History::of(&engine, clients.into_iter().map(|(client, _)| client).collect())
    }

    fn threaded(isolation: Isolation, seed: u64) -> History {
        let dir = tempfile::tempdir().expect("folder");
        let engine = crate::open_with(dir.path(), Options::default()).expect("open");
        create(&engine);
        let values = AtomicU64::new(1);
        let run = |at: u64| {
            let mut client = Client::new(&engine, isolation, Fault::None, seed << 8 | at, &values);
            while client.done.len() < 60 || client.open.is_some() {
                if let Outcome::Wait(event) = client.step() {
                    while !event.is_set() {
                        std::thread::yield_now();
                    }
                }
            }
            client
        };
        let clients = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|at| scope.spawn(move || run(at))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
        });
        History::of(&engine, clients)
    }

    fn check(&self) -> BTreeSet<Anomaly> {
        check(&self.transactions, &self.finals).0
    }

    /// Whether every dependency agrees with the claimed serial order.
    fn is_in_order(&self) -> bool {
        let (_, graph) = check(&self.transactions, &self.finals);
        let place = |at: usize| self.transactions[at].place;
        graph.edges().all(|(from, to)| place(*from) < place(*to))
    }

    fn commits(&self) -> usize {
        self.transactions.iter().filter(|txn| txn.place.is_some()).count()
    }
}

/// All anomalies of many histories, each with a seed that produces it.
fn search(isolation: Isolation, fault: Fault, seeds: u64) -> BTreeMap<Anomaly, u64> {
    let found = (0..seeds).flat_map(|seed| {
        let found = History::interleaved(isolation, fault, seed).check();
        found.into_iter().map(move |anomaly| (anomaly, seed))
    });
    found.collect()
}

#[test]
fn read_committed_shows_only_committed_rows() {
    let found = search(Isolation::ReadCommitted, Fault::None, 60);
    assert!(found.keys().all(|anomaly| *anomaly >= Anomaly::GSingle), "{found:?}");
    assert!(found.contains_key(&Anomaly::GSingle), "the search finds what is there: {found:?}");
}

/// SERIALIZABLE without validation of reads.
#[test]
fn repeatable_read_allows_write_skew_and_nothing_worse() {
    let found = search(Isolation::RepeatableRead, Fault::None, 100);
    assert!(found.keys().eq(&[Anomaly::G2]), "{found:?}");
}

#[test]
fn serializable_transactions_are_equivalent_to_their_commit_order() {
    let (mut commits, mut refused) = (0, 0);
    for seed in 0..300 {
        let history = History::interleaved(Isolation::Serializable, Fault::None, seed);
        assert_eq!(history.check(), BTreeSet::new(), "seed {seed}");
        assert!(history.is_in_order(), "seed {seed}");
        commits += history.commits();
        refused += history.refused;
    }
    assert!(commits > 3_000 && refused > 300, "{commits} commits, {refused} refused");
}

#[test]
fn serializable_transactions_on_threads_are_equivalent_to_their_commit_order() {
    for seed in 0..5 {
        let history = History::threaded(Isolation::Serializable, seed);
        assert_eq!(history.check(), BTreeSet::new(), "seed {seed}");
        assert!(history.is_in_order(), "seed {seed}");
        assert!(history.commits() > 60, "seed {seed}: {} commits", history.commits());
    }
}

#[test]
fn the_checker_finds_appends_without_a_lock() {
    let found = search(Isolation::ReadCommitted, Fault::AppendsToOldLists, 20);
    assert!(found.contains_key(&Anomaly::Order), "{found:?}");
}

/// Hand-written histories: transactions as their appends, then their reads, one digit a value.
#[test]
fn the_checker_finds_each_anomaly() {
    type Written = (&'static [(i32, u64)], &'static [(i32, &'static [u64])], bool);
    fn found(written: &[Written], finals: &[(i32, &[u64])]) -> Vec<Anomaly> {
        let transaction = |(appends, reads, commits): &Written| Transaction {
            place: commits.then_some((Lsn::ZERO, false)),
            appends: appends.iter().map(|(key, value)| (*key, *value, false)).collect(),
            reads: reads.iter().map(|(key, list)| (*key, list.to_vec())).collect(),
        };
        let history: Vec<Transaction> = written.iter().map(transaction).collect();
        let finals = finals.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        check(&history, &finals).0.into_iter().collect()
    }
    use Anomaly::{G0, G1a, G1b, G1c, G2, GSingle, Order};
    let serial: &[Written] = &[(&[(1, 1)], &[(2, &[])], true), (&[(2, 2)], &[(1, &[1])], true)];
    assert_eq!(found(serial, &[(1, &[1]), (2, &[2])]), []);
    let writes: &[Written] = &[(&[(1, 1), (2, 2)], &[], true), (&[(1, 3), (2, 4)], &[], true)];
    assert_eq!(found(writes, &[(1, &[1, 3]), (2, &[2, 4])]), []);
    assert_eq!(found(writes, &[(1, &[1, 3]), (2, &[4, 2])]), [G0]);
    let aborted: &[Written] = &[(&[(1, 1)], &[], false), (&[], &[(1, &[1])], true)];
    assert_eq!(found(aborted, &[]), [G1a]);
    let half: &[Written] = &[(&[(1, 1), (1, 2)], &[], true), (&[], &[(1, &[1])], true)];
    assert!(found(half, &[(1, &[1, 2])]).contains(&G1b));
    let mutual: &[Written] = &[(&[(1, 1)], &[(2, &[2])], true), (&[(2, 2)], &[(1, &[1])], true)];
    assert_eq!(found(mutual, &[(1, &[1]), (2, &[2])]), [G1c]);
    let skew: &[Written] = &[(&[(1, 1), (2, 2)], &[], true), (&[], &[(1, &[1]), (2, &[])], true)];
    assert_eq!(found(skew, &[(1, &[1]), (2, &[2])]), [GSingle]);
    let write_skew: &[Written] = &[(&[(1, 1)], &[(2, &[])], true), (&[(2, 2)], &[(1, &[])], true)];
    assert_eq!(found(write_skew, &[(1, &[1]), (2, &[2])]), [G2]);
    let lost: &[Written] = &[(&[(1, 1)], &[], true), (&[(1, 2)], &[], true)];
    assert_eq!(found(lost, &[(1, &[2])]), [Order]);
}
