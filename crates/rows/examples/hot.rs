//! CPU cost of updating one contended row from many sessions: `cargo run --release --example hot -p
//! rows [UPDATES]`.
//!
//! Sessions behave like SQL sessions: take a snapshot, find the row, request its lock, wait, and
//! rerun everything once the lock is granted. One thread runs all sessions.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_epoch::pin;
use env::Event;
use model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, TableId, TableName, Type};
use rows::{Isolation, LockMode, Locked, Put, Readers, RowTable, Store, Txn, WaitPolicy};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Db {
    store: Arc<Store>,
    table: Arc<RowTable>,
    key: Vec<u8>,
    newest: Lsn,
}

impl Db {
    fn new() -> Result<Db> {
        let column = |name: &str| RowColumn { not_null: true, ..RowColumn::new(name, Type::Int8) };
        let primary = RowIndex {
            id: 1,
            name: "pkey".into(),
            columns: [0].into(),
            unique: true,
            constraint: true,
            ..RowIndex::default()
        };
        let schema = RowSchema {
            id: TableId(1),
            name: TableName::public("t"),
            version: 1,
            lineage: model::Lineage::default(),
            columns: vec![column("id"), column("n")],
            primary: Some(primary),
            secondary: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: model::ReplicaIdentity::default(),
        };
        let table = Arc::new(RowTable::new(Arc::new(schema))?);
        let mut key = Vec::new();
        let column = table.primary.as_ref().map(|index| &index.keys()[0]).ok_or_else(|| Error::bug("no key"))?;
        rows::key::push(&mut key, column, &Datum::Int8(1))?;
        let mut db = Db { store: Arc::new(Store::default()), table, key, newest: Lsn::ZERO };
        let mut txn = db.begin();
        txn.insert(&db.table, db.row(0)?, &pin())?;
        db.commit(txn)?;
        Ok(db)
    }

    fn begin(&self) -> Txn {
        let mut txn = self.store.begin(Isolation::ReadCommitted);
        txn.set_snapshot(self.newest);
        txn
    }

    fn row(&self, n: i64) -> Result<Box<[u8]>> {
        let mut out = Vec::new();
        self.table.layout.encode(&[Datum::Int8(1), Datum::Int8(n)], &mut out)?;
        Ok(out.into())
    }

    /// Runs the statement from its start; returns the event to wait for, if any.
    fn update(&self, txn: &mut Txn) -> Result<Option<Event>> {
        let guard = &pin();
        let record = txn.get(&self.table, &self.key, guard)?.ok_or_else(|| Error::bug("no row"))?.0;
        let locked = txn.lock_row(&self.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard)?;
        let n = match locked {
            Locked::Wait(event) => return Ok(Some(event)),
            Locked::Row { row, .. } => match self.table.layout.field(row, 1)? {
                Datum::Int8(n) => n,
                _ => return Err(Error::bug("no number")),
            },
            Locked::Gone | Locked::Skipped => return Err(Error::bug("no row")),
        };
        match txn.update(&self.table, record, self.row(n + 1)?, guard)? {
            Put::Done(_) => Ok(None),
            _ => Err(Error::bug("not updated")),
        }
    }

    fn commit(&mut self, mut txn: Txn) -> Result<()> {
        self.newest = Lsn(self.newest.0 + 1);
        txn.prepare(&pin())?;
        txn.commit(self.newest, &pin());
        Ok(())
    }
}

/// CPU time of this thread, the only one.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() -> Result<()> {
    let updates: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(50_000);
    println!("{:>8} {:>14}", "sessions", "CPU µs/update");
    for sessions in [1, 16, 300, 900] {
        let mut db = Db::new()?;
        let mut waiting: VecDeque<(Txn, Event)> = VecDeque::new();
        let mut running = Some(db.begin());
        let start = cpu_ns();
        for at in 0..updates {
            // The others arrive while the first one holds the row lock.
            while running.is_none() || waiting.len() + 1 < sessions {
                let mut txn = db.begin();
                match db.update(&mut txn)? {
                    Some(event) => waiting.push_back((txn, event)),
                    None => running = Some(txn),
                }
            }
            let Some(mut txn) = running.take() else { break };
            if txn.is_empty() && db.update(&mut txn)?.is_some() {
                return Err(Error::bug("it waits"));
            }
            db.commit(txn)?;
            if at % 64 == 0 {
                let oldest = waiting.front().map_or(db.newest, |(txn, _)| txn.snapshot());
                db.store.collect(&Readers::since(oldest), 130)?;
            }
            if let Some((mut txn, event)) = waiting.pop_front() {
                if !event.is_set() {
                    return Err(Error::bug("the first was not woken"));
                }
                if db.update(&mut txn)?.is_some() {
                    return Err(Error::bug("it waits again"));
                }
                running = Some(txn);
            }
        }
        println!("{sessions:>8} {:>14.2}", (cpu_ns() - start) as f64 / 1e3 / updates as f64);
    }
    Ok(())
}
