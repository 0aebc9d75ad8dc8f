//! Kernels for `cargo xtask bench-instructions`: encodings by class of data, keys, log rows, flush,
//! blocks, statistics, merges. A separate program from `encodings`, with the same data.

#[allow(dead_code, reason = "what no encoding can beat is for people to read")]
mod data;

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array};
use columns::encoding::{decode, encode};
use columns::segment::StatValue;
use columns::{
    ColumnRange, KeyList, Op, Ops, Rows, ScanRequest, Segment, SeriesFilter, SeriesIndex, TableState, TableView,
};
use env::{Env, RealEnv};
use model::{
    Column, ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, SeriesId, Table, TableId, TableName, TableOptions,
    TimeRange, key,
};

#[path = "../../../../xtask/counted.rs"]
mod counted;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SECOND: i64 = 1_000_000_000;
const FIELDS: u32 = 10;
const SERIES: u32 = 100;

fn main() -> Result<()> {
    let kernels = counted::Kernels::from_arguments();
    for class in data::classes() {
        let rows = class.values.len();
        let mut bytes = Vec::new();
        kernels.run(&format!("encode {}", class.name), rows, || {
            bytes.clear();
            encode(class.ty, &class.values, &mut bytes);
        });
        bytes.clear();
        encode(class.ty, &class.values, &mut bytes);
        kernels.run(&format!("decode {}", class.name), rows, || {
            assert_eq!(must(decode(class.ty, rows, &bytes)).len(), rows);
        });
    }
    keys(&kernels);
    log_rows(&kernels);
    let bench = Bench::new()?;
    bench.memtable(&kernels)?;
    bench.flush(&kernels)?;
    bench.blocks(&kernels)?;
    bench.merge(&kernels)?;
    bench.env.remove_dir_all(&bench.dir).map_err(|error| model::Error::io("remove folder", &error))
}

/// Panics on an error: kernels cannot return one.
fn must<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("BUG: {error}"),
    }
}

fn keys(kernels: &counted::Kernels) {
    let (all, some) = (50_000_usize, 10_000_usize);
    let name = |id: usize| KeyValue::Text(format!("site-{:03}/device-{id:07}", id % 100));
    let keys: Vec<Vec<u8>> = (0..all).map(|id| key::encode(&[name(id)])).collect();
    let index = SeriesIndex::default();
    must(index.insert_all(SeriesId(0), keys.iter().map(Vec::as_slice)));
    let step = |at: usize| keys[at * 7 % all].as_slice();
    let list: KeyList = (0..some).map(step).collect();
    kernels.run("keys looked up", some, || {
        assert_eq!(index.lookup_all(&list).iter().flatten().count(), some);
    });
    kernels.run("keys inserted", some, || {
        let fresh = SeriesIndex::default();
        must(fresh.insert_all(SeriesId(0), keys[..some].iter().map(Vec::as_slice)));
    });
    kernels.run("keys collected, each 10 times", some, || {
        let list: KeyList = (0..some).map(|at| keys[at % (some / 10)].as_slice()).collect();
        assert_eq!(list.len(), some / 10);
    });
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

/// `count` rows, from row `first` on, of all series in turn.
fn rows(first: u64, count: u64, op: Op) -> Arc<Rows> {
    let numbers = || first..first + count;
    let walk = |field: u32| -> ArrayRef {
        let value = |at: u64| ((at * 7 + u64::from(field) * 13) % 2_000) as f64 / 100.0 + 20.0;
        Arc::new(Float64Array::from_iter_values(numbers().map(value)))
    };
    Arc::new(Rows::new(
        numbers().map(|at| (at % u64::from(SERIES)) as u32).collect(),
        numbers().map(|at| (at / u64::from(SERIES)) as i64 * SECOND).collect(),
        Ops::All(op),
        (2..2 + FIELDS).map(|field| (ColumnId(field), walk(field))).collect(),
    ))
}

fn log_rows(kernels: &counted::Kernels) {
    let rows = rows(0, 10_000, Op::Merge);
    let points = rows.len() * FIELDS as usize;
    let mut record = Vec::new();
    kernels.run("points encoded for the log", points, || {
        record.clear();
        rows.encode(0..rows.len(), &mut record);
    });
    record.clear();
    rows.encode(0..rows.len(), &mut record);
    kernels.run("points decoded from the log", points, || {
        black_box(must(Rows::decode(&record)));
    });
}

/// A folder for segments.
struct Bench {
    env: Arc<dyn Env>,
    dir: PathBuf,
}

impl Bench {
    fn new() -> Result<Bench> {
        let dir = std::env::temp_dir().join(format!("columns-kernels-{}", std::process::id()));
        let env: Arc<dyn Env> = Arc::new(RealEnv::new());
        env.create_dir_all(&dir).map_err(|error| model::Error::io("make folder", &error))?;
        Ok(Bench { env, dir })
    }

    fn empty(&self) -> TableState {
        let state = TableState::empty(table());
        let keys: Vec<_> = (0..SERIES).map(|id| key::encode(&[KeyValue::Text(format!("device-{id}"))])).collect();
        must(state.series.insert_all(SeriesId(0), keys.iter().map(Vec::as_slice)));
        state
    }

    /// A table with a segment for each of `parts`; file numbers start at `file`.
    fn flushed(&self, parts: &[Arc<Rows>], file: u64) -> Result<TableState> {
        let (mut state, mut file) = (self.empty(), file);
        let mut next = || {
            file += 1;
            file
        };
        for (at, rows) in parts.iter().enumerate() {
            let lsn = Lsn(at as u64 + 1);
            state = state.with_rows(lsn, Arc::clone(rows), SERIES);
            state = state.with_flushed(&state.flush(&self.env, &self.dir, lsn, &mut next)?);
        }
        Ok(state)
    }

    /// Like [`Kernels::run`](counted::Kernels::run), for a scan; counts instructions per row
    /// returned.
    fn scan(&self, kernels: &counted::Kernels, name: &str, state: &TableState, request: &ScanRequest) {
        let view = TableView::new(Arc::new(state.clone()));
        let count = || must(view.scan(request.clone())).map(|batch| must(batch).num_rows()).sum::<usize>();
        let rows = count();
        kernels.run(name, rows.max(1), || assert_eq!(count(), rows));
    }

    fn memtable(&self, kernels: &counted::Kernels) -> Result<()> {
        let mut state = self.empty();
        let prepared: Vec<Arc<Rows>> = (0..1_000).map(|at| rows(at, 1, Op::Merge)).collect();
        kernels.run("commit of one row, consolidated", prepared.len(), || {
            state = self.empty();
            for (at, rows) in prepared.iter().enumerate() {
                state = state.with_rows(Lsn(at as u64 + 1), Arc::clone(rows), SERIES);
                if let Some(done) = state.consolidate(Lsn::ZERO, 1) {
                    state = state.with_consolidated(&done).unwrap_or_else(|| state.clone());
                }
            }
        });
        for part in 0..10 {
            state = state.with_rows(Lsn(2_000 + part), rows(part * 1_000, 1_000, Op::Merge), SERIES);
        }
        let request = ScanRequest::all(vec![ColumnId(0), ColumnId(1), ColumnId(2)]);
        self.scan(kernels, "scan of 10 memtable entries", &state, &request);
        Ok(())
    }

    fn flush(&self, kernels: &counted::Kernels) -> Result<()> {
        let mut state = self.empty();
        for part in 0..4 {
            state = state.with_rows(Lsn(part + 1), rows(part * 5_000, 5_000, Op::Replace), SERIES);
        }
        let points = 20_000 * FIELDS as usize;
        let mut file = 0;
        let mut next = || {
            file += 1;
            file
        };
        kernels.run("point flushed", points, || {
            black_box(must(state.flush(&self.env, &self.dir, Lsn(4), &mut next)).segments.len());
        });
        Ok(())
    }

    fn blocks(&self, kernels: &counted::Kernels) -> Result<()> {
        let one = self.flushed(&[rows(0, 8_000, Op::Replace)], 1_000)?;
        let all = |fields: u32| ScanRequest::all((0..2 + fields).map(ColumnId).collect());
        let times = ScanRequest::all(vec![ColumnId(1)]);
        self.scan(kernels, "scan of a block: time", &one, &times);
        self.scan(kernels, "scan of a block: key, time, 1 field", &one, &all(1));
        self.scan(kernels, "scan of a block: key, time, 10 fields", &one, &all(10));
        let series = ScanRequest { series: SeriesFilter::Only([42].into()), ..all(1) };
        self.scan(kernels, "scan of a block: one series of 100", &one, &series);
        let newest = ScanRequest { times: TimeRange { start: 79 * SECOND, last: i64::MAX }, ..series };
        self.scan(kernels, "scan of a block: newest row of one series", &one, &newest);
        self.statistics(kernels)
    }

    fn statistics(&self, kernels: &counted::Kernels) -> Result<()> {
        let many = self.flushed(&[rows(0, 200_000, Op::Replace)], 2_000)?;
        let meta = many.segments[0].meta().clone();
        let opened = || Segment::open(Arc::clone(&self.env), &self.dir, meta.clone());
        let blocks = opened().blocks()?.len();
        kernels.run("block index read, a block", blocks, || {
            assert_eq!(must(opened().blocks()).len(), blocks);
        });
        kernels.run("statistics read, a block", blocks, || {
            assert!(must(opened().column_stats(ColumnId(2))).is_some());
        });
        let range = ColumnRange { column: ColumnId(2), min: Some(StatValue::Float(1e6)), max: None };
        let request = ScanRequest { ranges: vec![range], ..ScanRequest::all(vec![ColumnId(1)]) };
        let view = TableView::new(Arc::new(many));
        kernels.run("block skipped by statistics", blocks, || {
            let scan = must(view.scan(request.clone()));
            assert_eq!(scan.stats().blocks_pruned, blocks as u64);
        });
        Ok(())
    }

    fn merge(&self, kernels: &counted::Kernels) -> Result<()> {
        let beside = |file, op: fn() -> Op, step: u64| {
            let parts: Vec<_> = (0..4).map(|part| rows(part * step, 4_000, op())).collect();
            self.flushed(&parts, file)
        };
        let request = ScanRequest::all(vec![ColumnId(0), ColumnId(1), ColumnId(2)]);
        let apart = beside(3_000, || Op::Replace, 4_000)?;
        self.scan(kernels, "merge of 4 segments, times apart", &apart, &request);
        let replaced = beside(4_000, || Op::Replace, 0)?;
        self.scan(kernels, "merge of 4 segments, 4 versions of each row replaced", &replaced, &request);
        let merged = beside(5_000, || Op::Merge, 1_000)?;
        self.scan(kernels, "merge of 4 segments, versions overlaid", &merged, &request);
        let Some(picked) = merged.pick_compaction() else { return Err(model::Error::bug("nothing to compact")) };
        let points =
            picked.inputs().iter().map(|segment| segment.meta().rows as usize).sum::<usize>() * FIELDS as usize;
        let mut file = 6_000;
        let mut next = || {
            file += 1;
            file
        };
        kernels.run("point compacted", points, || {
            must(picked.run(&self.env, &self.dir, &mut next));
        });
        Ok(())
    }
}
