//! Payloads of log records, replayed by opening a database whose log holds them in valid frames: payloads from the
//! fuzzer, or those of a real database with some bytes changed. The database opens or returns an error; its rows
//! survive a flush, a compaction and a restart.
#![no_main]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, Float64Array};
use engine::{
    Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Op, Ops, Options, Rows, ScanRequest, SeriesFilter,
    TableSpec,
};
use env::sim::SimEnv;
use env::{Env, Open};
use libfuzzer_sys::fuzz_target;
use model::{
    ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, TableName, TableOptions, TimeRange, ViewColumn, ViewReference,
    ViewReferenceColumn, ViewSpec, key,
};
use wal::{Appended, Space, Wal, WalOptions};

const DIR: &str = "/d";
/// Log files grow up to twice the preallocated size.
const LOG_FILE_BYTES: u64 = 9 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let payloads = if choice & 1 == 0 { made_up(bytes) } else { changed(bytes) };
    let env = SimEnv::new(1);
    drop(open(&env).expect("an empty database"));
    if write_log(&env, &payloads).is_err() {
        return;
    }
    let Ok(engine) = open(&env) else { return };
    let Ok(before) = rows(&engine) else { return };
    engine.flush().expect("there is room");
    engine.settle().expect("there is room");
    assert_eq!(rows(&engine).expect("rows"), before);
    drop(engine);
    assert_eq!(rows(&open(&env).expect("it did open")).expect("rows"), before);
});

/// Payloads, each after its length in two bytes.
fn made_up(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    while let Some((length, rest)) = bytes.split_at_checked(2) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
        payloads.push(rest[..length].to_vec());
        bytes = &rest[length..];
    }
    payloads
}

/// Real payloads with changes. Each change is four bytes: record, offset, new value.
fn changed(changes: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = GOOD.clone();
    for change in changes.chunks_exact(4) {
        let payload = &mut payloads[usize::from(change[0]) % GOOD.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % payload.len();
        payload[at] = change[3];
    }
    payloads
}

fn open(env: &SimEnv) -> Result<Engine> {
    let options = Options { memory_bytes: 64 << 20, log_file_bytes: LOG_FILE_BYTES, ..Options::default() };
    Engine::open(Arc::new(env.clone()), Path::new(DIR), options).map(|(engine, _)| engine)
}

fn write_log(env: &SimEnv, payloads: &[Vec<u8>]) -> Result<()> {
    let identity = engine::inspect::manifest(env, Path::new(DIR))?.identity;
    let options = WalOptions::with_file_bytes(LOG_FILE_BYTES);
    let log = Path::new(DIR).join("log");
    let (wal, _) = Wal::open(Arc::new(env.clone()), &log, identity, options, Lsn(1), &mut |_, _| Ok(()))?;
    for payload in payloads.iter().filter(|payload| !payload.is_empty()) {
        if let Appended::Busy(_) = wal.append(&[&[payload]], Space::Ordinary)? {
            break;
        }
    }
    wal.close(&|_| {})
}

/// Number of rows of each table.
fn rows(engine: &Engine) -> Result<BTreeMap<String, usize>> {
    let snapshot = engine.snapshot(Lsn::ZERO);
    let mut counts = BTreeMap::new();
    for table in snapshot.catalog().tables() {
        let view = snapshot.table(&table.name)?;
        let request = ScanRequest {
            columns: table.columns.iter().map(|column| column.id).collect(),
            times: TimeRange::ALL,
            series: SeriesFilter::All,
            ranges: Vec::new(),
            batch_rows: 1_024,
            limit: None,
            coded: false,
            columns_only: false,
        };
        let mut count = 0;
        for batch in view.scan(request)? {
            count += batch?.num_rows();
        }
        counts.insert(table.name.to_string(), count);
    }
    Ok(counts)
}

static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let env = SimEnv::new(1);
    write_good(&open(&env).expect("an empty database")).expect("a few commits");
    let log = Path::new(DIR).join("log");
    let mut payloads = Vec::new();
    for entry in env.list(&log).expect("the log").into_iter().filter(|entry| entry.name.ends_with(".log")) {
        let mut bytes = vec![0; entry.bytes as usize];
        let file = env.open(&log.join(entry.name), Open::Read).expect("a log file");
        file.read_at(&mut bytes, 0).expect("its bytes");
        wal::check_file_bytes(&bytes, &mut |_, payload| payloads.push(payload.to_vec()));
    }
    payloads.retain(|payload| !payload.is_empty());
    assert!(payloads.len() >= 6);
    payloads
});

fn write_good(engine: &Engine) -> Result<()> {
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
    let columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("dev", DataType::Text, ColumnRole::Key),
        column("v", DataType::Float64, ColumnRole::Field),
    ];
    let spec = |name: &str| TableSpec {
        name: TableName::public(name),
        keyed: true,
        columns: columns.clone(),
        options: TableOptions::default(),
    };
    let begin = || engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let mut txn = begin();
    let table = txn.create_table(&spec("t"))?.id;
    txn.create_table(&spec("gone"))?;
    txn.create_schema("s")?;
    engine.finish(txn.commit(Durability::Sync))?;
    // The last record is compressed.
    for (round, rows) in [(0, 6), (1, 6), (2, 6), (3, 400)] {
        let mut txn = begin();
        txn.write(table, batch(round, rows))?;
        engine.finish(txn.commit(Durability::Sync))?;
    }
    let mut txn = begin();
    let view = txn.snapshot().table_by_id(table)?;
    txn.delete(&view, Some(&[0]), TimeRange::half_open(2, 4))?;
    txn.write(table, batch(9, 6))?;
    engine.finish(txn.commit(Durability::Sync))?;
    let mut txn = begin();
    txn.add_columns(&TableName::public("t"), &[column("w", DataType::Int64, ColumnRole::Field)])?;
    txn.drop_table(&TableName::public("gone"))?;
    let time = ViewReferenceColumn { number: 0, name: "time".into(), ty: DataType::Timestamp as u32, typmod: -1 };
    txn.create_view(Arc::new(ViewSpec {
        id: txn.next_number(),
        name: TableName::public("w"),
        version: 1,
        columns: vec![ViewColumn { name: "time".into(), ty: 1184, typmod: -1 }],
        query: "SELECT t.time FROM public.t".into(),
        references: vec![ViewReference { name: TableName::public("t"), object: table.0, columns: vec![time] }],
    }))?;
    engine.finish(txn.commit(Durability::Sync)).map(drop)
}

fn batch(round: i64, rows: i64) -> Batch {
    let mut keys = KeyList::new();
    let name = |row: i64| key::encode(&[KeyValue::Text(format!("d{}", (row + round) % 4).into())]);
    let series = (0..rows).map(|row| keys.intern(&name(row))).collect();
    let value = |row: i64| (row % 100 != 3).then_some(row as f64 / 4.0);
    let values: ArrayRef = Arc::new((0..rows).map(value).collect::<Float64Array>());
    Batch::new(keys, Rows::new(series, (0..rows).collect(), Ops::All(Op::Replace), vec![(ColumnId(2), values)]))
}
