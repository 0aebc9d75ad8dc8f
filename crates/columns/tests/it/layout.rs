//! Extreme table shapes: the directory stays small, reopening reads almost nothing, and reading one
//! series is cheap.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, Float64Array};
use columns::{Op, Ops, Rows, ScanRequest, SegmentCache, SeriesFilter, TableFiles, TableState, TableView};
use env::{Env, RealEnv};
use model::{
    Column, ColumnId, ColumnRole, DataType, KeyValue, Lsn, SeriesId, Table, TableId, TableName, TableOptions, TableRef,
    key,
};

const SECOND: i64 = 1_000_000_000;

struct Folder {
    env: Arc<dyn Env>,
    dir: PathBuf,
}

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("millrace-layout-{}-{name}", std::process::id()));
        let env: Arc<dyn Env> = Arc::new(RealEnv::new());
        env.create_dir_all(&dir).unwrap();
        Folder { env, dir }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.env.remove_dir_all(&self.dir);
    }
}

/// `dev` text (key), `time`, and fields of double precision.
fn table(fields: u32) -> TableRef {
    let column =
        |id, name: String, ty, role| Column { id: ColumnId(id), name, ty, nullable: role != ColumnRole::Time, role };
    let mut columns = vec![
        column(0, "dev".into(), DataType::Text, ColumnRole::Key),
        column(1, "time".into(), DataType::Timestamp, ColumnRole::Time),
    ];
    columns.extend((2..2 + fields).map(|id| column(id, format!("f{id}"), DataType::Float64, ColumnRole::Field)));
    Arc::new(Table {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        keyed: true,
        columns,
        next_column_id: ColumnId(2 + fields),
        options: TableOptions::default(),
        rules: Arc::default(),
    })
}

/// A random walk with two decimals, different for each field.
fn walk(field: u32, rows: usize) -> ArrayRef {
    let mut value = i64::from(field) * 100;
    let step = |at: usize| (at as i64 * 7 + i64::from(field) * 13) % 21 - 10;
    Arc::new(Float64Array::from_iter_values((0..rows).map(|at| {
        value += step(at);
        value as f64 / 100.0
    })))
}

fn key_of(series: u32) -> Vec<u8> {
    key::encode(&[KeyValue::Text(format!("site-{:03}/device-{series:07}", series % 100))])
}

/// `each` rows for each of `series` series, in order of time, as devices write them.
fn fill(fields: u32, series: u32, each: u32) -> TableState {
    let state = TableState::empty(table(fields));
    let keys: Vec<Vec<u8>> = (0..series).map(key_of).collect();
    state.series.insert_all(SeriesId(0), keys.iter().map(Vec::as_slice)).unwrap();
    let rows = series as usize;
    let mut filled = state;
    for moment in 0..each {
        let times = vec![i64::from(moment) * SECOND; rows];
        let columns = (2..2 + fields).map(|field| (ColumnId(field), walk(field + moment, rows))).collect();
        let rows = Rows::new((0..series).collect(), times, Ops::All(Op::Merge), columns);
        filled = filled.with_rows(Lsn(u64::from(moment) + 1), Arc::new(rows), series);
    }
    filled
}

/// Flushes, reopens and reads one series; verifies sizes and bytes read.
fn check(name: &str, fields: u32, series: u32, each: u32, fields_read: u32) {
    let folder = Folder::new(name);
    let Folder { env, dir } = &folder;
    let state = fill(fields, series, each);
    let mut file = 0;
    let started = Instant::now();
    let done = state
        .flush(env, dir, Lsn(u64::from(each)), &mut || {
            file += 1;
            file
        })
        .unwrap();
    let flushed = state.with_flushed(&done);
    println!("{name}: flush {:?}", started.elapsed());
    let mut manifest = Vec::new();
    flushed.files().encode(&mut manifest);
    let table = state.table.clone();
    drop((state, flushed, done));

    let started = Instant::now();
    let files = TableFiles::decode(&mut &manifest[..], 3).unwrap();
    let bytes = files.segments[0].bytes;
    let loaded = Arc::new(TableState::load(env, dir, table, &files, &SegmentCache::default()).unwrap());
    println!("{name}: reopen {:?}", started.elapsed());
    let segment = &loaded.segments[0];
    let directory = segment.directory_bytes().unwrap();
    assert!(directory * 20 < bytes, "directory and statistics take {directory} of {bytes} bytes");

    let view = TableView::new(loaded.clone());
    let wanted = view.lookup(&key_of(series / 2)).unwrap();
    let columns: Vec<ColumnId> = (0..2 + fields_read).map(ColumnId).collect();
    let one = ScanRequest { series: SeriesFilter::Only([wanted].into()), ..ScanRequest::all(columns.clone()) };
    let started = Instant::now();
    let mut scan = view.scan(one).unwrap();
    let rows: usize = scan.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    let read = scan.stats().bytes_read;
    println!("{name}: {bytes} bytes, {directory} of directory; one series {read} bytes, {:?}", started.elapsed());
    assert_eq!(rows, each as usize);
    assert!(read * 100 < bytes, "one series reads {read} of {bytes} bytes");

    let started = Instant::now();
    let mut all = 0;
    for batch in view.scan(ScanRequest::all(vec![ColumnId(0), ColumnId(1), ColumnId(2)])).unwrap() {
        let batch = batch.unwrap();
        assert_eq!(batch.column(2).null_count(), 0);
        all += batch.num_rows();
    }
    assert_eq!(all, (series * each) as usize);
    println!("{name}: scan of key, time and one field {:?}", started.elapsed());
}

#[test]
fn a_hundred_devices_of_three_thousand_fields() {
    check("wide", 3_000, 100, 27, 10);
}

#[test]
fn a_million_series_of_four_rows() {
    check("narrow", 4, 1_000_000, 4, 4);
}

#[test]
fn one_hour_of_a_million_rows_is_read_without_the_others() {
    let folder = Folder::new("hour");
    let Folder { env, dir } = &folder;
    let mut state = TableState::empty(table(1));
    state.series.insert(SeriesId(0), &key_of(0)).unwrap();
    let times = (0..1_000_000i64).map(|at| at * SECOND).collect();
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..1_000_000).map(f64::from)));
    let rows = Rows::new(vec![0; 1_000_000], times, Ops::All(Op::Replace), vec![(ColumnId(2), values)]);
    state = state.with_rows(Lsn(1), Arc::new(rows), 1);
    let done = state.flush(env, Path::new(dir), Lsn(1), &mut || 1).unwrap();
    let view = TableView::new(Arc::new(state.with_flushed(&done)));
    let hour = model::TimeRange::half_open(500_000 * SECOND, 503_600 * SECOND);
    let mut scan = view.scan(ScanRequest { times: hour, ..ScanRequest::all(vec![ColumnId(1), ColumnId(2)]) }).unwrap();
    let rows: usize = scan.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    let stats = scan.stats();
    assert_eq!((rows, stats.blocks), (3_600, 123));
    assert!(stats.blocks_pruned >= 121, "{stats:?}");
}
