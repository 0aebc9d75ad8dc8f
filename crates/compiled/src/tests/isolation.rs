//! Concurrent transactions: waits, rechecks, conflicts.

use std::collections::BTreeMap;

use env::Event;
use model::{Lsn, SqlState};
use rows::{Isolation, Savepoint, Txn};

use super::random::Random;
use super::{Db, Outcome, state};

fn numbers() -> Db {
    let db = Db::new();
    db.ddl("CREATE TABLE n (id integer PRIMARY KEY, v integer, tag text); CREATE INDEX n_v ON n (v)");
    db.sql("INSERT INTO n VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b')");
    db
}

/// The outcome of a statement in one word or SQLSTATE.
fn outcome(db: &Db, txn: &mut Txn, sql: &str) -> String {
    match db.run(txn, sql, &[]) {
        Ok(Outcome::Rows(rows, count)) if rows.is_empty() => format!("{count} rows"),
        Ok(Outcome::Rows(rows, _)) => rows.join(", "),
        Ok(Outcome::Wait(_)) => "waits".into(),
        Err(error) => error.state().to_string(),
    }
}

/// The second transaction's statement waits for the first; the first commits or rolls back, and the second runs its
/// statement again.
#[test]
fn a_waiting_statement_rechecks_the_newest_row() {
    for (first, second, committed, undone) in [
        // Expressions use the newest row.
        ("UPDATE n SET v = v + 1 WHERE id = 1", "UPDATE n SET v = v * 2 WHERE id = 1 RETURNING v", "22", "20"),
        // A row that no longer matches is skipped.
        ("UPDATE n SET tag = 'z' WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 1 AND tag = 'a'", "0 rows", "1 rows"),
        ("UPDATE n SET v = 99 WHERE id = 1", "DELETE FROM n WHERE v = 10", "0 rows", "1 rows"),
        ("DELETE FROM n WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 1", "0 rows", "1 rows"),
        ("DELETE FROM n WHERE id = 1", "SELECT id FROM n WHERE tag = 'a' ORDER BY id LIMIT 1 FOR UPDATE", "2", "1"),
        ("UPDATE n SET v = 5 WHERE id = 3", "SELECT v FROM n WHERE id = 3 FOR SHARE", "5", "30"),
        // A row that did not match the snapshot is not found, even if it matches now.
        (
            "UPDATE n SET tag = 'a' WHERE id IN (2, 3)",
            "UPDATE n SET v = 0 WHERE tag = 'a' RETURNING id",
            "1, 2",
            "1, 2",
        ),
        // Unique keys are checked against the newest rows.
        ("INSERT INTO n VALUES (4, 0, 'x')", "INSERT INTO n VALUES (4, 1, 'y')", "23505", "1 rows"),
        ("DELETE FROM n WHERE id = 1", "INSERT INTO n VALUES (1, 1, 'y')", "1 rows", "23505"),
        (
            "INSERT INTO n VALUES (4, 7, 'x')",
            "INSERT INTO n VALUES (4, 1, 'y') ON CONFLICT (id) DO UPDATE SET v = n.v + excluded.v RETURNING v",
            "8",
            "1",
        ),
        (
            "INSERT INTO n VALUES (4, 7, 'x')",
            "INSERT INTO n VALUES (4, 1, 'y') ON CONFLICT DO NOTHING",
            "0 rows",
            "1 rows",
        ),
        (
            "UPDATE n SET v = 11 WHERE id = 1",
            "INSERT INTO n VALUES (1, 5, 'y') ON CONFLICT (id) DO UPDATE SET v = n.v + 1 RETURNING v",
            "12",
            "11",
        ),
    ] {
        for commits in [true, false] {
            let db = numbers();
            let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
            assert!(!outcome(&db, &mut one, first).contains("waits"), "{first}");
            assert_eq!(outcome(&db, &mut two, second), "waits", "{first}; {second}");
            if commits {
                db.commit(one)
            } else {
                drop(one)
            }
            let expected = if commits { committed } else { undone };
            assert_eq!(outcome(&db, &mut two, second), expected, "{first}; {second}; commits: {commits}");
            drop(two);
            assert_eq!(db.store.waiting(), 0);
        }
    }
}

/// No wait: the first transaction commits after the second's snapshot.
#[test]
fn repeatable_read_refuses_what_changed_since_its_snapshot() {
    for (first, second, expected) in [
        ("UPDATE n SET v = 11 WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 1", "40001"),
        ("UPDATE n SET v = 11 WHERE id = 1", "DELETE FROM n WHERE id = 1", "40001"),
        ("DELETE FROM n WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 1", "40001"),
        ("UPDATE n SET v = 11 WHERE id = 1", "SELECT v FROM n WHERE id = 1 FOR UPDATE", "40001"),
        ("UPDATE n SET v = 11 WHERE id = 1", "SELECT v FROM n WHERE id = 1 FOR UPDATE NOWAIT", "40001"),
        ("UPDATE n SET v = 11 WHERE id = 1", "SELECT v FROM n WHERE id = 1", "10"),
        ("UPDATE n SET v = 11 WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 2", "1 rows"),
        ("INSERT INTO n VALUES (4, 0, 'x')", "SELECT count(*) FROM n", "3"),
        ("INSERT INTO n VALUES (4, 0, 'x')", "INSERT INTO n VALUES (4, 0, 'y')", "23505"),
        ("INSERT INTO n VALUES (4, 0, 'x')", "INSERT INTO n VALUES (4, 0, 'y') ON CONFLICT DO NOTHING", "40001"),
        (
            "INSERT INTO n VALUES (4, 0, 'x')",
            "INSERT INTO n VALUES (4, 0, 'y') ON CONFLICT (id) DO UPDATE SET v = 1",
            "40001",
        ),
        ("UPDATE n SET v = 11 WHERE id = 2", "INSERT INTO n VALUES (1, 0, 'y') ON CONFLICT DO NOTHING", "0 rows"),
    ] {
        let db = numbers();
        let mut two = db.begin(Isolation::RepeatableRead);
        let mut three = db.begin(Isolation::Serializable);
        db.sql(first);
        assert_eq!(outcome(&db, &mut two, second), expected, "{first}; {second}");
        drop(two);
        assert_eq!(outcome(&db, &mut three, second), expected, "{first}; {second}, serializable");
    }
}

/// One case for each access path. A row skipped by a filter is in the read set too.
#[test]
fn serializable_refuses_a_commit_after_a_read_write_conflict() {
    let family = "CREATE TABLE p (id integer PRIMARY KEY, x integer); CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p);
        CREATE TABLE i (id integer PRIMARY KEY, p integer REFERENCES p); CREATE INDEX i_p ON i (p)";
    for (statement, write, conflicts) in [
        ("SELECT 1", "DELETE FROM n", false),
        // Full keys.
        ("SELECT v FROM n WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 1", true),
        ("SELECT v FROM n WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 2", false),
        ("SELECT v FROM n WHERE id = 7", "INSERT INTO n VALUES (7, 0, 'x')", true),
        ("SELECT v FROM n WHERE id = 7", "INSERT INTO n VALUES (8, 0, 'x')", false),
        ("SELECT v FROM n WHERE id IN (1, 7)", "INSERT INTO n VALUES (7, 0, 'x')", true),
        ("SELECT v FROM n WHERE id IN (1, 7)", "DELETE FROM n WHERE id = 2", false),
        // Ranges of the primary key.
        ("SELECT sum(v) FROM n WHERE id BETWEEN 1 AND 2", "DELETE FROM n WHERE id = 2", true),
        ("SELECT sum(v) FROM n WHERE id BETWEEN 1 AND 2", "UPDATE n SET id = 0 WHERE id = 3", false),
        ("SELECT sum(v) FROM n WHERE id > 2", "INSERT INTO n VALUES (9, 0, 'x')", true),
        ("SELECT v FROM n WHERE id > 0 ORDER BY id LIMIT 1", "UPDATE n SET v = 0 WHERE id = 1", true),
        ("SELECT v FROM n WHERE id > 0 ORDER BY id LIMIT 1", "UPDATE n SET v = 0 WHERE id = 2", false),
        ("SELECT v FROM n WHERE id > 1 ORDER BY id DESC LIMIT 1", "INSERT INTO n VALUES (4, 0, 'x')", true),
        ("SELECT v FROM n WHERE id > 1 ORDER BY id DESC LIMIT 1", "DELETE FROM n WHERE id = 2", false),
        // Ranges and prefixes of a secondary index.
        ("SELECT id FROM n WHERE v > 15 AND v < 25", "UPDATE n SET v = 22 WHERE id = 1", true),
        ("SELECT id FROM n WHERE v > 15 AND v < 25", "UPDATE n SET v = 40 WHERE id = 2", true),
        ("SELECT id FROM n WHERE v > 15 AND v < 25", "UPDATE n SET v = 26 WHERE id = 3", false),
        ("SELECT id FROM n WHERE v = 25", "INSERT INTO n VALUES (4, 25, 'x')", true),
        ("SELECT id FROM n WHERE v IN (10, 30)", "UPDATE n SET v = 30 WHERE id = 2", true),
        ("SELECT id FROM n WHERE v IN (10, 30)", "UPDATE n SET v = 21 WHERE id = 2", false),
        // Full scans.
        ("SELECT count(*) FROM n WHERE tag = 'a'", "INSERT INTO n VALUES (4, 0, 'x')", true),
        (
            "SELECT count(*) FROM n one JOIN n two ON one.tag = two.tag WHERE one.id = 1",
            "DELETE FROM n WHERE id = 3",
            true,
        ),
        // Subqueries.
        ("SELECT id FROM n WHERE id = (SELECT max(id) FROM n WHERE v > 25)", "UPDATE n SET v = 26 WHERE id = 1", true),
        ("SELECT id FROM n WHERE id = (SELECT max(id) FROM n WHERE v > 25)", "UPDATE n SET v = 24 WHERE id = 1", false),
        ("SELECT x.v FROM (SELECT v FROM n WHERE id < 3) x", "INSERT INTO n VALUES (0, 0, 'x')", true),
        // Rows changed by UPDATE and DELETE were read first.
        ("UPDATE n SET v = v WHERE tag = 'b'", "INSERT INTO n VALUES (4, 0, 'b')", true),
        ("DELETE FROM n WHERE id = 7", "INSERT INTO n VALUES (7, 0, 'x')", true),
        ("UPDATE n SET v = v + 1 WHERE id = 1", "UPDATE n SET v = 0 WHERE id = 2", false),
        ("INSERT INTO n VALUES (1, 0, 'y') ON CONFLICT DO NOTHING", "UPDATE n SET v = 0 WHERE id = 1", true),
        ("INSERT INTO n VALUES (1, 0, 'y') ON CONFLICT DO NOTHING", "UPDATE n SET v = 0 WHERE id = 2", false),
        ("INSERT INTO n VALUES (1, 0, 'y')", "DELETE FROM n WHERE id = 1", true),
        // Foreign keys: other columns of a locked parent may change; a missing parent or child must not appear.
        ("INSERT INTO c VALUES (9, 1)", "UPDATE p SET x = 1 WHERE id = 1", false),
        ("INSERT INTO c VALUES (9, 7)", "INSERT INTO p VALUES (7, 0)", true),
        ("INSERT INTO c VALUES (9, 7)", "INSERT INTO p VALUES (8, 0)", false),
        ("DELETE FROM p WHERE id = 3", "INSERT INTO c VALUES (9, 1)", true),
        ("DELETE FROM p WHERE id = 2", "DELETE FROM i WHERE id = 2", true),
    ] {
        let db = numbers();
        db.ddl(family);
        db.sql("INSERT INTO p VALUES (1, 0), (2, 0), (3, 0)");
        db.sql("INSERT INTO i VALUES (1, 1), (2, 2)");
        let mut txn = db.begin(Isolation::Serializable);
        outcome(&db, &mut txn, statement);
        db.sql(write);
        assert_eq!(outcome(&db, &mut txn, "INSERT INTO n VALUES (99, 0, 'own')"), "1 rows");
        let validated = txn.validate().map_err(|error| error.state());
        let expected = if conflicts { Err(SqlState::SERIALIZATION_FAILURE) } else { Ok(()) };
        assert_eq!(validated, expected, "{statement}; {write}");
    }
}

/// Foreign keys are checked against the newest rows; the snapshot decides only between 23503 and 40001.
#[test]
fn repeatable_read_fails_if_a_referenced_row_was_deleted_after_its_snapshot() {
    for (first, second, expected) in [
        ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "40001"),
        ("UPDATE p SET id = 20 WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "40001"),
        ("UPDATE p SET u = 20 WHERE id = 1", "INSERT INTO c VALUES (1, NULL, 1)", "40001"),
        ("DELETE FROM p WHERE id = 1", "UPDATE c SET p = 1 WHERE id = 9", "40001"),
        ("UPDATE p SET v = 20 WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "1 rows"),
        ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 77)", "23503"),
        ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 2)", "1 rows"),
    ] {
        let db = Db::new();
        db.create("p", &["id int", "u int", "v int"], &["primary id", "unique u"]);
        db.ddl("CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, q int REFERENCES p (u))");
        db.sql("INSERT INTO p VALUES (1, 1, 1), (2, 2, 2)");
        db.sql("INSERT INTO c VALUES (9, 2)");
        let mut two = db.begin(Isolation::RepeatableRead);
        db.sql(first);
        assert_eq!(outcome(&db, &mut two, second), expected, "{first}; {second}");
    }
    // A transaction's own changes are not conflicts.
    let db = Db::new();
    db.ddl("CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (p int REFERENCES p)");
    db.sql("INSERT INTO p VALUES (1)");
    let mut own = db.begin(Isolation::RepeatableRead);
    assert_eq!(outcome(&db, &mut own, "DELETE FROM p WHERE id = 1"), "1 rows");
    assert_eq!(outcome(&db, &mut own, "INSERT INTO c VALUES (1)"), "23503");
}

#[test]
fn row_locks_conflict_as_in_postgresql() {
    let (share, update) = ("SELECT v FROM n WHERE id = 1 FOR SHARE", "SELECT v FROM n WHERE id = 1 FOR UPDATE");
    let (change, delete) = ("UPDATE n SET v = 0 WHERE id = 1", "DELETE FROM n WHERE id = 1");
    for (first, second, expected) in [
        (share, share, "10"),
        (share, change, "waits"),
        (update, share, "waits"),
        (update, "SELECT v FROM n WHERE id = 1", "10"),
        (change, share, "waits"),
        (change, "SELECT v FROM n WHERE id = 1 FOR UPDATE NOWAIT", "55P03"),
        (delete, "SELECT id FROM n WHERE id < 3 ORDER BY id FOR UPDATE SKIP LOCKED", "2"),
        (update, "SELECT id FROM n ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", "2"),
        (change, "INSERT INTO n VALUES (1, 0, 'x')", "23505"),
    ] {
        let db = numbers();
        let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
        outcome(&db, &mut one, first);
        assert_eq!(outcome(&db, &mut two, second), expected, "{first}; {second}");
    }
}

#[test]
fn the_transaction_that_closes_a_cycle_gets_the_deadlock_error() {
    let db = numbers();
    let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    outcome(&db, &mut one, "UPDATE n SET v = 0 WHERE id = 1");
    outcome(&db, &mut two, "UPDATE n SET v = 0 WHERE id = 2");
    assert_eq!(outcome(&db, &mut one, "UPDATE n SET v = 0 WHERE id = 2"), "waits");
    assert_eq!(outcome(&db, &mut two, "UPDATE n SET v = 0 WHERE id = 1"), SqlState::DEADLOCK_DETECTED.to_string());
    drop(two);
    assert_eq!(outcome(&db, &mut one, "UPDATE n SET v = 0 WHERE id = 2"), "1 rows");
}

/// Interleaved transactions; a waiting statement runs again when its event is set.
struct Script {
    db: Db,
    txns: BTreeMap<char, Txn>,
    savepoints: BTreeMap<(char, String), Savepoint>,
    waiting: Vec<(char, String, Event)>,
}

impl Script {
    fn new() -> Script {
        Script { db: numbers(), txns: BTreeMap::new(), savepoints: BTreeMap::new(), waiting: Vec::new() }
    }

    /// Runs one step of a transaction. The result of its statement, and of the waiting ones that go on then.
    fn step(&mut self, session: char, step: &str) -> String {
        let txn = self.txns.remove(&session);
        let mut txn = txn.unwrap_or_else(|| self.db.begin(Isolation::ReadCommitted));
        let mut out = match step.split_once(' ') {
            None if step == "commit" => {
                self.db.commit(txn);
                String::new()
            }
            None if step == "rollback" => {
                drop(txn);
                String::new()
            }
            Some(("savepoint", name)) => {
                self.savepoints.insert((session, name.to_owned()), txn.savepoint());
                self.txns.insert(session, txn);
                String::new()
            }
            Some(("back", name)) => {
                let savepoint = self.savepoints[&(session, name.to_owned())];
                txn.roll_back_to(savepoint, &crossbeam_epoch::pin()).unwrap();
                self.txns.insert(session, txn);
                String::new()
            }
            _ => self.statement(session, txn, step),
        };
        for (session, step, _) in self.waiting.extract_if(.., |(_, _, event)| event.is_set()).collect::<Vec<_>>() {
            let txn = self.txns.remove(&session).unwrap();
            out += &format!("; {session}: {}", self.statement(session, txn, &step));
        }
        out.trim_start_matches("; ").to_owned()
    }

    fn statement(&mut self, session: char, mut txn: Txn, step: &str) -> String {
        let sql = match step {
            "update" => "UPDATE n SET tag = 'z' WHERE id = 1".to_owned(),
            "delete" => "DELETE FROM n WHERE id = 1".to_owned(),
            mode => format!("SELECT id FROM n WHERE id = 1 {mode}"),
        };
        let ran = self.db.run(&mut txn, &sql, &[]);
        self.txns.insert(session, txn);
        match ran.unwrap_or_else(|error| panic!("{session} {step}: {error}")) {
            Outcome::Wait(event) => {
                self.waiting.push((session, step.to_owned(), event));
                "waits".to_owned()
            }
            Outcome::Rows(_, count) => count.to_string(),
        }
    }

    fn check(steps: &[(char, &str, &str)]) {
        let mut script = Script::new();
        for (at, (session, step, expected)) in steps.iter().enumerate() {
            assert_eq!(script.step(*session, step), *expected, "step {at}, {session} {step}, of {steps:?}");
        }
        assert_eq!((script.waiting.len(), script.txns.len(), script.db.store.waiting()), (0, 0, 0));
    }
}

/// PostgreSQL's isolation test tuplelock-upgrade-no-deadlock and its expected results. The bug: `FOR SHARE` waited behind a
/// waiting `FOR UPDATE`, although no holder conflicted. The fix: new requests for a row are compared with the holders only.
#[test]
fn a_lock_upgrade_passes_the_waiters_that_it_blocks() {
    let (key_share, share, update) = ("FOR KEY SHARE", "FOR SHARE", "FOR UPDATE");
    let no_key_update = "FOR NO KEY UPDATE";
    Script::check(&[
        ('1', share, "1"),
        ('2', update, "waits"),
        ('3', share, "1"),
        ('3', update, "waits"),
        ('1', "rollback", "3: 1"),
        ('3', "rollback", "2: 1"),
        ('2', "rollback", ""),
    ]);
    for end in ["rollback", "commit"] {
        Script::check(&[
            ('1', key_share, "1"),
            ('2', update, "waits"),
            ('3', key_share, "1"),
            ('1', "update", "1"),
            ('3', "update", "waits"),
            ('1', end, "3: 1"),
            ('3', "rollback", "2: 1"),
            ('2', "rollback", ""),
        ]);
    }
    for (end, left) in [("rollback", "2: 1"), ("commit", "2: 0")] {
        Script::check(&[
            ('1', key_share, "1"),
            ('2', update, "waits"),
            ('3', key_share, "1"),
            ('3', "delete", "waits"),
            ('1', "rollback", "3: 1"),
            ('3', end, left),
            ('2', "rollback", ""),
        ]);
    }
    for change in [update, "update", "delete"] {
        Script::check(&[
            ('1', share, "1"),
            ('2', change, "waits"),
            ('3', change, "waits"),
            ('1', "rollback", "2: 1"),
            ('2', "rollback", "3: 1"),
            ('3', "rollback", ""),
        ]);
    }
    Script::check(&[
        ('1', key_share, "1"),
        ('3', update, "waits"),
        ('2', key_share, "1"),
        ('1', "savepoint e", ""),
        ('1', share, "1"),
        ('1', "savepoint f", ""),
        ('1', no_key_update, "1"),
        ('2', no_key_update, "waits"),
        ('0', key_share, "1"),
        ('1', "back f", ""),
        ('0', key_share, "1"),
        ('1', "back e", "2: 1"),
        ('1', "rollback", ""),
        ('2', "rollback", ""),
        ('0', "rollback", "3: 1"),
        ('3', "rollback", ""),
    ]);
}

/// PostgreSQL's isolation test delete-abort-savept-2, and other statements that need a stronger lock; PostgreSQL 15 gives
/// the same results.
#[test]
fn rollback_to_a_savepoint_leaves_the_row_lock_of_before() {
    let (key_share, share) = ("FOR KEY SHARE", "FOR SHARE");
    for (before, stronger, other, ends_after_rollback_to) in [
        (key_share, "FOR NO KEY UPDATE", "FOR UPDATE", false),
        (key_share, "FOR NO KEY UPDATE", "FOR NO KEY UPDATE", true),
        (key_share, "update", "update", true),
        (key_share, "delete", "update", true),
        (share, "update", "delete", false),
        (share, "delete", share, true),
        ("FOR UPDATE", "delete", "FOR KEY SHARE", false),
    ] {
        let (rolled_back, ended) = if ends_after_rollback_to { ("2: 1", "") } else { ("", "2: 1") };
        Script::check(&[
            ('1', before, "1"),
            ('1', "savepoint f", ""),
            ('1', stronger, "1"),
            ('2', other, "waits"),
            ('1', "back f", rolled_back),
            ('1', "commit", ended),
            ('2', "commit", ""),
        ]);
        Script::check(&[
            ('1', before, "1"),
            ('1', "savepoint f", ""),
            ('1', stronger, "1"),
            ('1', "back f", ""),
            ('2', other, if ends_after_rollback_to { "1" } else { "waits" }),
            ('1', "commit", ended),
            ('2', "commit", ""),
        ]);
    }
}

/// Four concurrent transactions of both isolation levels, one row for each statement, compared with a model: values
/// read, waits, errors.
#[test]
fn random_histories_equal_a_map() {
    for seed in 0..60 {
        History::new(seed).run();
    }
}

type Map = BTreeMap<i32, i32>;

struct History {
    db: Db,
    random: Random,
    seed: u64,
    committed: Map,
    /// Commit number of a key's last change.
    changed: BTreeMap<i32, u64>,
    open: Vec<Open>,
}

struct Open {
    txn: Txn,
    isolation: Isolation,
    began: u64,
    /// Snapshot: committed values at the start.
    snapshot: Map,
    /// The transaction's own changes; `None` is a deleted row.
    own: BTreeMap<i32, Option<i32>>,
}

impl Open {
    fn sees(&self, committed: &Map) -> Map {
        let mut map = if self.isolation == Isolation::ReadCommitted { committed } else { &self.snapshot }.clone();
        for (key, value) in &self.own {
            match value {
                Some(value) => map.insert(*key, *value),
                None => map.remove(key),
            };
        }
        map
    }
}

impl History {
    fn new(seed: u64) -> History {
        let db = Db::new();
        db.ddl("CREATE TABLE n (id integer PRIMARY KEY, v integer); CREATE INDEX n_v ON n (v)");
        let (committed, changed) = (Map::new(), BTreeMap::new());
        History { db, random: Random(seed), seed, committed, changed, open: Vec::new() }
    }

    fn run(mut self) {
        for _ in 0..200 {
            while self.open.len() < 4 {
                let isolation = [Isolation::ReadCommitted, Isolation::RepeatableRead][self.random.below(2) as usize];
                let began = self.db.newest.get();
                let (txn, snapshot) = (self.db.begin(isolation), self.committed.clone());
                self.open.push(Open { txn, isolation, began, snapshot, own: BTreeMap::new() });
            }
            let at = self.random.below(4) as usize;
            match self.random.below(10) {
                0 => self.commit(at),
                1 => drop(self.open.remove(at)),
                _ => self.statement(at),
            }
            self.compare();
        }
    }

    fn commit(&mut self, at: usize) {
        let one = self.open.remove(at);
        self.db.commit(one.txn);
        for (key, value) in one.own {
            self.changed.insert(key, self.db.newest.get());
            match value {
                Some(value) => self.committed.insert(key, value),
                None => self.committed.remove(&key),
            };
        }
    }

    /// Runs one statement on one row; rolls back if it must wait or fails.
    fn statement(&mut self, at: usize) {
        let (key, value) = (self.random.number(), self.random.number());
        let (kind, others) = (self.random.below(3), self.others(at, key));
        let one = &mut self.open[at];
        let now = Lsn(if one.isolation == Isolation::ReadCommitted { self.db.newest.get() } else { one.began });
        one.txn.set_snapshot(now);
        let sees = one.sees(&self.committed).get(&key).copied();
        let is_stale = one.isolation == Isolation::RepeatableRead
            && !one.own.contains_key(&key)
            && self.changed.get(&key).is_some_and(|changed| *changed > one.began);
        let (sql, after) = match kind {
            0 => (format!("INSERT INTO n VALUES ({key}, {value})"), Some(value)),
            1 => (format!("UPDATE n SET v = v + {value} WHERE id = {key}"), sees.map(|old| old + value)),
            _ => (format!("DELETE FROM n WHERE id = {key}"), None),
        };
        let newest = one.own.get(&key).copied().unwrap_or(self.committed.get(&key).copied());
        let expected = match (kind, others) {
            // Another transaction inserts or deletes the row.
            (0, Some(change)) if change.is_none() || newest.is_none() => "waits",
            (0, _) if newest.is_some() => "23505",
            (0, _) => "1 rows",
            _ if sees.is_none() => "0 rows",
            (_, Some(_)) => "waits",
            _ if is_stale => "40001",
            _ => "1 rows",
        };
        assert_eq!(outcome(&self.db, &mut one.txn, &sql), expected, "seed {}: {sql} in {at}", self.seed);
        match expected {
            "1 rows" => {
                one.own.insert(key, after);
            }
            "0 rows" => {}
            _ => drop(self.open.remove(at)),
        }
    }

    /// The uncommitted change that another transaction made to a row.
    fn others(&self, at: usize, key: i32) -> Option<Option<i32>> {
        let others = self.open.iter().enumerate().filter(|(other, _)| *other != at);
        others.filter_map(|(_, other)| other.own.get(&key)).next().copied()
    }

    fn compare(&mut self) {
        for one in &mut self.open {
            if one.isolation == Isolation::ReadCommitted {
                one.txn.set_snapshot(Lsn(self.db.newest.get()));
            }
            let expected: Vec<String> = one.sees(&self.committed).iter().map(|(id, v)| format!("{id}|{v}")).collect();
            for sql in ["SELECT id, v FROM n ORDER BY id", "SELECT id, v FROM n WHERE v >= 0 ORDER BY id"] {
                let found = self.db.run(&mut one.txn, sql, &[]).unwrap().rows();
                assert_eq!(found, expected, "seed {}: {sql}", self.seed);
            }
        }
    }
}

/// Rows changed by an action are locked like rows named in the statement.
#[test]
fn actions_of_foreign_keys_wait_for_the_rows_they_change() {
    let db = Db::new();
    db.ddl(
        "CREATE TABLE p (id int PRIMARY KEY);
        CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, note text)",
    );
    db.sql("INSERT INTO p VALUES (1), (2)");
    db.sql("INSERT INTO c VALUES (10, 1), (20, 2)");
    for sql in ["DELETE FROM p WHERE id = 1", "UPDATE p SET id = 5 WHERE id = 1"] {
        let mut first = db.begin(Isolation::ReadCommitted);
        assert!(matches!(db.run(&mut first, "UPDATE c SET note = 'x' WHERE id = 10", &[]), Ok(Outcome::Rows(_, 1))));
        let mut second = db.begin(Isolation::ReadCommitted);
        assert!(matches!(db.run(&mut second, sql, &[]), Ok(Outcome::Wait(_))), "{sql}");
        // The row references another parent now, so the second transaction does not need it.
        assert!(matches!(db.run(&mut first, "UPDATE c SET p = 2 WHERE id = 10", &[]), Ok(Outcome::Rows(_, 1))));
        db.commit(first);
        assert!(matches!(db.run(&mut second, sql, &[]), Ok(Outcome::Rows(_, 1))), "{sql}");
        drop(second);
        db.check(&[("SELECT id, p FROM c ORDER BY id", "10|2\n20|2"), ("UPDATE c SET p = 1 WHERE id = 10", "")]);
    }
    let mut old = db.begin(Isolation::RepeatableRead);
    db.sql("UPDATE c SET note = 'y' WHERE id = 10");
    let failed = db.run(&mut old, "DELETE FROM p WHERE id = 1", &[]);
    assert_eq!(state(failed), SqlState::SERIALIZATION_FAILURE);
}
