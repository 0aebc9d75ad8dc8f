//! Microbenchmarks of tables: `cargo run --release --example tables -p columns [FOLDER]`.
//!
//! Measures CPU time, because wall time on a busy machine is unreliable: series lookups, small
//! commits, log encoding, flush, scans of memtable and segments, merges and compaction.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int16Array, Int64Array, StringArray};
use columns::{KeyList, Op, Ops, Rows, ScanRequest, SeriesFilter, SeriesIndex, TableState, TableView};
use env::{Env, RealEnv};
use model::{
    Column, ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, SeriesId, Table, TableId, TableName, TableOptions,
    TimeRange, key,
};

const SECOND: i64 = 1_000_000_000;
const FIELDS: u32 = 10;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = folder.join(format!("tables-{}", std::process::id()));
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    env.create_dir_all(&dir).map_err(|error| model::Error::io("make folder", &error))?;
    println!("{:<58} {:>10} {:>9}", "work", "million/s", "CPU ms");
    series()?;
    commits()?;
    log_rows()?;
    bulk(&env, &dir)?;
    for memtable in [Memtable::AsTheyArrive, Memtable::Grouped, Memtable::Consolidated] {
        sparse(&env, &dir, memtable)?;
    }
    env.remove_dir_all(&dir).map_err(|error| model::Error::io("remove folder", &error))
}

fn report(what: &str, count: u64, elapsed: Duration) {
    println!("{what:<58} {:>10.2} {:>9.2}", count as f64 / 1e6 / elapsed.as_secs_f64(), elapsed.as_secs_f64() * 1e3);
}

/// CPU time of this thread. Without Linux' scheduler statistics it stays 0, and rates are infinite.
struct Cpu(u64);

impl Cpu {
    fn now() -> Cpu {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Cpu(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Cpu::now().0 - self.0)
    }
}

fn series() -> Result<()> {
    let count = 1_000_000u32;
    let keys: Vec<Vec<u8>> =
        (0..count).map(|id| key::encode(&[KeyValue::Text(format!("site-{:03}/device-{id:07}", id % 100))])).collect();
    let index = SeriesIndex::default();
    let started = Cpu::now();
    for (id, key) in keys.iter().enumerate() {
        index.insert(SeriesId(id as u32), key)?;
    }
    report("series inserted one by one", count.into(), started.elapsed());
    let list: KeyList = keys.iter().map(Vec::as_slice).collect();
    let started = Cpu::now();
    let found = index.lookup_all(&list).into_iter().flatten().count();
    report("series looked up", found as u64, started.elapsed());
    let bytes: usize = keys.iter().map(Vec::len).sum();
    println!("  {:.1} bytes a series beyond its key", (index.memory_bytes() - bytes) as f64 / f64::from(count));
    Ok(())
}

fn table() -> Arc<Table> {
    let column =
        |id, name: String, ty, role| Column { id: ColumnId(id), name, ty, nullable: role != ColumnRole::Time, role };
    let mut columns = vec![
        column(0, "dev".into(), DataType::Text, ColumnRole::Key),
        column(1, "time".into(), DataType::Timestamp, ColumnRole::Time),
    ];
    columns.extend((2..2 + FIELDS).map(|id| column(id, format!("f{id}"), DataType::Float64, ColumnRole::Field)));
    Arc::new(Table {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        keyed: true,
        columns,
        next_column_id: ColumnId(2 + FIELDS),
        options: TableOptions::default(),
        rules: Arc::default(),
    })
}

/// `count` rows, from row `first` on, of `devices` devices that report in turn.
fn rows(devices: u32, first: u64, count: u64, op: Op) -> Arc<Rows> {
    let numbers = || first..first + count;
    let walk = |field: u32| -> ArrayRef {
        let value = |at: u64| ((at * 7 + u64::from(field) * 13) % 2_000) as f64 / 100.0 + 20.0;
        Arc::new(Float64Array::from_iter_values(numbers().map(value)))
    };
    Arc::new(Rows::new(
        numbers().map(|at| (at % u64::from(devices)) as u32).collect(),
        numbers().map(|at| (at / u64::from(devices)) as i64 * SECOND).collect(),
        Ops::All(op),
        (2..2 + FIELDS).map(|field| (ColumnId(field), walk(field))).collect(),
    ))
}

fn with_series(devices: u32) -> Result<TableState> {
    let state = TableState::empty(table());
    for id in 0..devices {
        state.series.insert(SeriesId(id), &key::encode(&[KeyValue::Text(format!("device-{id}"))]))?;
    }
    Ok(state)
}

fn commits() -> Result<()> {
    let mut state = with_series(100)?;
    let commits = 200_000u64;
    let prepared: Vec<Arc<Rows>> = (0..commits).map(|at| rows(100, at, 1, Op::Merge)).collect();
    let started = Cpu::now();
    for (at, rows) in prepared.into_iter().enumerate() {
        state = state.with_rows(Lsn(at as u64 + 1), rows, 100);
        if let Some(done) = state.consolidate(Lsn::ZERO, 1) {
            state = state.with_consolidated(&done).unwrap_or(state);
        }
    }
    report("commits of one row, consolidated after each", commits, started.elapsed());
    println!("  {} memtable entries at the end", state.entries.len());
    scan_all("scan of that memtable, 1 field", &state, ScanRequest::all(vec![ColumnId(1), ColumnId(2)]))
}

fn log_rows() -> Result<()> {
    let rows = rows(100, 0, 1_000_000, Op::Merge);
    let points = rows.len() as u64 * u64::from(FIELDS);
    let started = Cpu::now();
    let records: Vec<Vec<u8>> = rows.split(1 << 20).into_iter().map(|range| encoded(&rows, range)).collect();
    report("points encoded for the log", points, started.elapsed());
    let started = Cpu::now();
    for record in &records {
        std::hint::black_box(Rows::decode(record)?);
    }
    report("points decoded from the log", points, started.elapsed());
    println!("  {} records", records.len());
    Ok(())
}

fn encoded(rows: &Rows, range: std::ops::Range<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    rows.encode(range, &mut out);
    out
}

fn bulk(env: &Arc<dyn Env>, dir: &Path) -> Result<()> {
    let mut file = 0u64;
    let mut next = move || {
        file += 1;
        file
    };
    let mut state = with_series(100)?;
    let (batches, each) = (100u64, 20_000u64);
    for flush in 0..4 {
        for batch in 0..batches / 4 {
            let first = (flush * batches / 4 + batch) * each;
            state = state.with_rows(Lsn(flush * 100 + batch + 1), rows(100, first, each, Op::Merge), 100);
        }
        let points = batches / 4 * each * u64::from(FIELDS);
        if flush == 0 {
            let request = ScanRequest::all(vec![ColumnId(0), ColumnId(1), ColumnId(2)]);
            scan_all("scan of 25 unsorted memtable entries, key, time, 1 field", &state, request)?;
        }
        let started = Cpu::now();
        let done = state.flush(env, dir, Lsn(flush * 100 + 99), &mut next)?;
        report("points flushed", points, started.elapsed());
        state = state.with_flushed(&done);
    }
    let all = || ScanRequest::all(vec![ColumnId(0), ColumnId(1), ColumnId(2)]);
    let one = || ScanRequest { series: SeriesFilter::Only([42].into()), ..all() };
    let hour = TimeRange::half_open(5_000 * SECOND, 8_600 * SECOND);
    scan_all("scan of 4 segments, key, time, 1 field", &state, all())?;
    scan_all("scan of 4 segments, count only", &state, ScanRequest::all(vec![]))?;
    scan_all("one hour of one series, 4 segments", &state, ScanRequest { times: hour, ..one() })?;
    let picked = state.pick_compaction().ok_or_else(|| model::Error::bug("nothing to compact"))?;
    let started = Cpu::now();
    let done = picked.run(env, dir, &mut next)?;
    report("points compacted", batches * each * u64::from(FIELDS), started.elapsed());
    let state = state.with_compacted(&done);
    let bytes: u64 = state.segments.iter().map(|segment| segment.meta().bytes).sum();
    println!("  {:.2} bytes a point", bytes as f64 / (batches * each * u64::from(FIELDS)) as f64);
    scan_all("scan of the result, key, time, 1 field", &state, all())?;
    scan_all("scan of the result, count only", &state, ScanRequest::all(vec![]))?;
    scan_all("one hour of one series", &state, ScanRequest { times: hour, ..one() })
}

/// Treatment of batches before they are flushed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memtable {
    AsTheyArrive,
    Grouped,
    /// Grouped, and merged after each commit.
    Consolidated,
}

/// Batches in order of time, each with a few rows of each of many series, and fields that are mostly NULL: samples of an archiver.
fn sparse(env: &Arc<dyn Env>, dir: &Path, memtable: Memtable) -> Result<()> {
    const SERIES: u32 = 10_000;
    const BATCHES: u64 = 300;
    const EACH: u64 = 60_000;
    const TYPES: [DataType; 6] =
        [DataType::Float64, DataType::Int64, DataType::Text, DataType::Bytes, DataType::Int16, DataType::Int16];
    let table = {
        let mut table = (*table()).clone();
        table.columns.truncate(2 + TYPES.len());
        table.columns[2..].iter_mut().zip(TYPES).for_each(|(column, ty)| column.ty = ty);
        Arc::new(table)
    };
    let batch = |number: u64| -> Result<Rows> {
        let numbers = || number * EACH..(number + 1) * EACH;
        let random = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as u32;
        let is_text = |at: u64| random(at) % 100 == 7;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(
                numbers().map(|at| (!is_text(at)).then(|| f64::from(random(at)) * 0.01)).collect::<Float64Array>(),
            ),
            Arc::new(numbers().map(|at| (random(at) % 100 == 8).then_some(at as i64)).collect::<Int64Array>()),
            Arc::new(numbers().map(|at| is_text(at).then_some("Beam permit removed")).collect::<StringArray>()),
            Arc::new(numbers().map(|at| is_text(at + 1).then_some([7_u8; 64])).collect::<BinaryArray>()),
            Arc::new(Int16Array::from_iter_values(numbers().map(|at| i16::from(random(at) % 200 == 0)))),
            Arc::new(Int16Array::from_iter_values(numbers().map(|at| i16::from(random(at) % 200 == 0) * 3))),
        ];
        let columns = columns.into_iter().zip(2..).map(|(values, id)| (ColumnId(id), values)).collect();
        let series = numbers().map(|at| random(at) % SERIES).collect();
        let times = numbers().map(|at| at as i64 * 1_000_000).collect();
        Ok(Rows::new(series, times, Ops::All(Op::Replace), columns))
    };
    let mut state = TableState::empty(table);
    for id in 0..SERIES {
        state.series.insert(SeriesId(id), &key::encode(&[KeyValue::Text(format!("series-{id}"))]))?;
    }
    let (mut grouping, mut log_bytes, mut logging, mut merging) = (Duration::ZERO, 0, Duration::ZERO, Duration::ZERO);
    for number in 0..BATCHES {
        let mut rows = batch(number)?;
        if memtable != Memtable::AsTheyArrive {
            let started = Cpu::now();
            rows = rows.grouped(SERIES as usize, || (0..SERIES).collect())?;
            grouping += started.elapsed();
        }
        let started = Cpu::now();
        log_bytes += encoded(&rows, 0..rows.len()).len();
        logging += started.elapsed();
        state = state.with_rows(Lsn(number + 1), Arc::new(rows), SERIES);
        let started = Cpu::now();
        if memtable == Memtable::Consolidated
            && let Some(done) = state.consolidate(Lsn::ZERO, EACH as usize)
        {
            state = state.with_consolidated(&done).unwrap_or(state);
            merging += started.elapsed();
        }
    }
    let how = match memtable {
        Memtable::AsTheyArrive => "as they arrive",
        Memtable::Grouped => "grouped",
        Memtable::Consolidated => "consolidated",
    };
    if memtable != Memtable::AsTheyArrive {
        report("sparse rows grouped", BATCHES * EACH, grouping);
    }
    if memtable == Memtable::Consolidated {
        report("sparse rows consolidated", BATCHES * EACH, merging);
        println!("  {} memtable entries", state.entries.len());
    }
    report(&format!("sparse rows encoded for the log, {how}"), BATCHES * EACH, logging);
    println!("  {:.1} bytes a row", log_bytes as f64 / (BATCHES * EACH) as f64);
    let mut file = 1_000 * (memtable as u64 + 1);
    let mut next = move || {
        file += 1;
        file
    };
    let started = Cpu::now();
    let done = state.flush(env, dir, Lsn(BATCHES), &mut next)?;
    report(&format!("sparse rows flushed, {how}"), BATCHES * EACH, started.elapsed());
    let bytes = done.segments.iter().map(|segment| segment.meta().bytes).sum::<u64>();
    println!("  {:.2} bytes a row", bytes as f64 / (BATCHES * EACH) as f64);
    Ok(())
}

/// Prints the best of three runs.
fn scan_all(what: &str, state: &TableState, request: ScanRequest) -> Result<()> {
    let view = TableView::new(Arc::new(state.clone()));
    let mut best: Option<(u64, Duration)> = None;
    for _ in 0..3 {
        let started = Cpu::now();
        let mut rows = 0;
        for batch in view.scan(request.clone())? {
            rows += batch?.num_rows() as u64;
        }
        let elapsed = started.elapsed();
        if best.is_none_or(|best| elapsed < best.1) {
            best = Some((rows, elapsed));
        }
    }
    if let Some((rows, elapsed)) = best {
        report(what, rows, elapsed);
    }
    Ok(())
}
