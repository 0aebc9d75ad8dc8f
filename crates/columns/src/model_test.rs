//! Model test: random histories of one table, compared with a map. After any merges, flushes,
//! compactions and reloads, a scan returns the contents of the map. `COLUMNS_SEED=n` replays one
//! history, `COLUMNS_SEEDS=n` runs n histories.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use env::Env;
use model::{Column, ColumnId, ColumnRole, DataType, KeyValue, Lsn, SeriesId, SqlState, Table, TimeRange, key};

use crate::block_statistics::WholeBlock;
use crate::encoding::tests::Random;
use crate::scan::{
    ColumnRange, OwnDelete, OwnEntry, OwnRowDeletes, OwnWrites, ScanRequest, Scanned, SeriesFilter, TableView,
};
use crate::segment::{BLOCK_ROWS_MAX, ColumnStats, LONG_BYTES_MIN, StatSum, StatValue};
use crate::state::{Entry, TableState, Tombstone};
use crate::tests::table_of;
use crate::{Batch, Compacted, Flushed, KeyList, Op, Ops, Rows, SegmentCache, TableFiles};

const TIMES: i64 = 400;

/// A value; floats by their bits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Int(i64),
    Float(u64),
    Text(String),
}

type Fields = BTreeMap<ColumnId, Value>;

/// The expected contents of the table.
#[derive(Clone, Default)]
struct Model {
    /// Series keys in order of first commit.
    keys: Vec<Vec<u8>>,
    /// By (series, time); an unkeyed table may have several rows with the same key.
    rows: BTreeMap<(u32, i64), Vec<Fields>>,
}

impl Model {
    fn number(&mut self, key: &[u8]) -> u32 {
        if let Some(at) = self.keys.iter().position(|known| known == key) {
            return at as u32;
        }
        self.keys.push(key.to_vec());
        (self.keys.len() - 1) as u32
    }

    fn write(&mut self, table: &Table, batch: &Batch) {
        for row in 0..batch.len() {
            let series = self.number(batch.keys.get(batch.rows.series[row]));
            let new = fields_of(&batch.rows, row);
            let old = self.rows.entry((series, batch.rows.times[row])).or_default();
            if !table.keyed || old.is_empty() {
                old.push(new);
                continue;
            }
            match batch.rows.ops.get(row) {
                Op::Replace => old[0] = new,
                Op::Merge => old[0].extend(new),
                Op::Keep => {}
                Op::Update(columns) => {
                    for id in columns.iter() {
                        old[0].remove(id);
                        old[0].extend(new.get(id).map(|value| (*id, value.clone())));
                    }
                }
            }
        }
    }

    fn delete(&mut self, keys: Option<&KeyList>, times: &TimeRange) {
        let is_deleted =
            |model: &Model, series: u32| keys.is_none_or(|keys| keys.find(&model.keys[series as usize]).is_some());
        let kept: Vec<bool> = (0..self.keys.len() as u32).map(|series| !is_deleted(self, series)).collect();
        self.rows.retain(|(series, time), _| kept[*series as usize] || !times.contains(*time));
    }
}

fn fields_of(rows: &Rows, row: usize) -> Fields {
    rows.columns().iter().filter_map(|(id, values)| Some((*id, value_of(values, row)?))).collect()
}

fn value_of(values: &ArrayRef, row: usize) -> Option<Value> {
    if values.is_null(row) {
        return None;
    }
    Some(match values.data_type() {
        arrow_schema::DataType::Int64 => Value::Int(values.as_primitive::<Int64Type>().value(row)),
        arrow_schema::DataType::Float64 => Value::Float(values.as_primitive::<Float64Type>().value(row).to_bits()),
        arrow_schema::DataType::Utf8 => Value::Text(values.as_string::<i32>().value(row).to_owned()),
        arrow_schema::DataType::Dictionary(..) => {
            return value_of(&crate::uncoded(&values.slice(row, 1)).unwrap(), 0);
        }
        other => panic!("{other}"),
    })
}

/// One change of a commit.
enum Change {
    Rows(Batch),
    Delete(Option<KeyList>, TimeRange),
}

/// The table under test with its model, files and old snapshots.
struct World {
    random: Random,
    env: Arc<dyn Env>,
    state: TableState,
    model: Model,
    lsn: u64,
    next_file: u64,
    /// Writers use times near this; `None` = any time.
    focus: Option<i64>,
    flushing: Option<Flushed>,
    compacting: Option<Compacted>,
    snapshots: Vec<(TableState, Model)>,
    /// The model after each commit since the start of the history, with the commit's time.
    past: Vec<(i64, Model)>,
    /// Whether retention is tested.
    retains: bool,
    /// Whether a few rows have times that are far from all others.
    has_wrong_clocks: bool,
    /// One in this many changes is a delete.
    delete_one_in: u64,
}

fn dir() -> &'static Path {
    Path::new("/data")
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let keyed = random.below(5) > 0;
        let env: Arc<dyn Env> = Arc::new(env::sim::SimEnv::new(seed));
        env.create_dir_all(dir()).unwrap();
        let mut world = World {
            random,
            env,
            // A small cache, so that files and directories are evicted.
            state: TableState {
                cache: SegmentCache::new(2, 2_000),
                ..TableState::empty(table_of(keyed, !seed.is_multiple_of(3)))
            },
            model: Model::default(),
            lsn: 0,
            next_file: 0,
            focus: seed.is_multiple_of(2).then_some(0),
            flushing: None,
            compacting: None,
            snapshots: Vec::new(),
            past: Vec::new(),
            retains: seed.is_multiple_of(5),
            has_wrong_clocks: seed / 4 % 2 == 1,
            delete_one_in: [8, 2][(seed / 2 % 2) as usize],
        };
        if seed % 3 == 1 {
            world.toggle_history();
        }
        world
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn step(&mut self) {
        match self.below(100) {
            0..40 => self.commit(),
            40..50 => self.consolidate(),
            50..58 => self.flush(),
            58..68 => self.compact(),
            68..71 => self.reload(),
            71..73 => self.add_column(),
            73 => match self.below(3) {
                0 => self.toggle_history(),
                _ => self.retain(),
            },
            74..77 => self.snapshots.push((self.state.clone(), self.model.clone())),
            77..82 => self.check_snapshot(),
            82..87 => self.check_own_writes(),
            87..91 => self.check_past(),
            _ => self.check_now(),
        }
    }

    // ---- writes

    /// Wall time of the last commit.
    fn committed(&self) -> i64 {
        self.lsn.cast_signed() * 1_000
    }

    fn commit(&mut self) {
        self.lsn += 1;
        let committed = self.committed();
        let changes = self.changes();
        let mut entries = Vec::new();
        for change in &changes {
            entries.push(match change {
                Change::Rows(batch) => {
                    let numbers: Vec<u32> = batch.keys.iter().map(|key| self.model.number(key)).collect();
                    for (number, key) in numbers.iter().zip(batch.keys.iter()) {
                        self.state.series.insert(SeriesId(*number), key).unwrap();
                    }
                    self.model.write(&self.state.table, batch);
                    let mut bytes = Vec::new();
                    let rows = batch.numbered(&numbers);
                    rows.encode(0..rows.len(), &mut bytes);
                    let rows = Arc::new(Rows::decode(&bytes).unwrap());
                    Entry::Rows { lsns: (Lsn(self.lsn), Lsn(self.lsn)), committed, rows }
                }
                Change::Delete(keys, times) => {
                    self.model.delete(keys.as_ref(), times);
                    let series = keys.as_ref().map(|keys| self.numbers(keys));
                    Entry::delete(Tombstone { lsn: Lsn(self.lsn), committed, series, times: *times })
                }
            });
        }
        self.state = self.state.with_entries(entries, self.model.keys.len() as u32);
        self.remember();
    }

    fn remember(&mut self) {
        if self.state.keeps_history() {
            self.past.push((self.committed(), self.model.clone()));
        }
    }

    fn toggle_history(&mut self) {
        self.lsn += 1;
        let mut table = Table::clone(&self.state.table);
        table.options.history = !table.options.history;
        self.state = self.state.altered(Arc::new(table), self.committed());
        self.past.clear();
        self.remember();
    }

    fn retain(&mut self) {
        if !self.retains {
            return;
        }
        // Inputs of a running compaction must not be dropped.
        if self.compacting.is_some() {
            self.compact();
        }
        let kept_from = self.state.kept_from.max(self.below(4) as i64 * 30);
        self.state.segments_before(kept_from).iter().for_each(|segment| segment.remove_when_unused());
        self.state = self.state.with_retention(kept_from);
    }

    fn numbers(&self, keys: &KeyList) -> Arc<[u32]> {
        let mut numbers: Vec<u32> =
            keys.iter().filter_map(|key| self.state.series.lookup(key)).map(|id| id.0).collect();
        numbers.sort_unstable();
        numbers.into()
    }

    fn changes(&mut self) -> Vec<Change> {
        (0..1 + self.below(3) / 2).map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Change {
        if self.below(self.delete_one_in) == 0 {
            let all = !self.state.table.keyed || self.below(2) == 0;
            let keys = (!all).then(|| (0..1 + self.below(3)).map(|_| self.key()).collect::<Vec<_>>());
            let keys = keys.map(|keys| keys.iter().map(Vec::as_slice).collect());
            return Change::Delete(keys, self.range());
        }
        let batch = self.batch();
        batch.check(&self.state.table).unwrap();
        Change::Rows(batch)
    }

    fn key(&mut self) -> Vec<u8> {
        if !self.state.table.keyed {
            return Vec::new();
        }
        match self.below(9) {
            0 => key::encode(&[]),
            number => key::encode(&[KeyValue::Text(format!("dev{number}"))]),
        }
    }

    fn range(&mut self) -> TimeRange {
        let start = self.below(TIMES as u64) as i64 - 10;
        match self.below(4) {
            0 => TimeRange::ALL,
            1 => TimeRange { start, last: start },
            _ => TimeRange { start, last: start + self.below(TIMES as u64 / 2) as i64 },
        }
    }

    fn batch(&mut self) -> Batch {
        let rows = match self.below(4) {
            0 => 1,
            1 => 2 + self.below(5) as usize,
            _ => 1 + self.below(60) as usize,
        };
        let mut keys = KeyList::new();
        let (mut series, mut times) = (Vec::new(), Vec::new());
        let one_key = (self.below(2) == 0).then(|| self.key());
        let step = self.below(4) as i64;
        let start = match self.focus {
            Some(focus) => focus + self.below(20) as i64,
            None => self.below(TIMES as u64) as i64,
        };
        for row in 0..rows {
            let key = one_key.clone().unwrap_or_else(|| self.key());
            series.push(keys.intern(&key));
            let sorted = start + row as i64 * step;
            if self.has_wrong_clocks && self.below(30) == 0 {
                times.push([-100_000, -99_990, 40_000][self.below(3) as usize]);
                continue;
            }
            times.push(match (step, self.focus) {
                (3, None) => self.below(TIMES as u64) as i64,
                (3, Some(focus)) => focus + self.below(20) as i64,
                _ => sorted,
            });
        }
        let fields: Vec<Column> = self.state.table.field_columns().cloned().collect();
        let mut columns = Vec::new();
        for column in fields {
            if self.below(5) > 0 {
                columns.push((column.id, self.values(column.ty, rows)));
            }
        }
        let rows = Rows::new(series, times, self.ops(rows), columns);
        Batch::new(keys, if self.below(2) == 0 { rows.pack_if_small() } else { rows })
    }

    fn ops(&mut self, rows: usize) -> Ops {
        if !self.state.table.keyed {
            return Ops::All(Op::Replace);
        }
        let list: Vec<Op> = (0..1 + self.below(3)).map(|_| self.op()).collect();
        if list.len() == 1 {
            return Ops::All(list[0].clone());
        }
        let of = (0..rows).map(|_| self.below(list.len() as u64) as u8).collect();
        Ops::Each { list, of }
    }

    fn op(&mut self) -> Op {
        match self.below(6) {
            0 | 1 => Op::Replace,
            2 | 3 => Op::Merge,
            4 => Op::Keep,
            _ => {
                let fields: Vec<ColumnId> = self.state.table.field_columns().map(|column| column.id).collect();
                Op::Update(fields.into_iter().filter(|_| self.below(2) == 0).collect())
            }
        }
    }

    fn values(&mut self, ty: DataType, rows: usize) -> ArrayRef {
        let null_share = [0, 2, 5][self.below(3) as usize];
        let base = self.below(1_000) as i64;
        let mut numbers = (0..rows).map(|_| (self.below(10) >= null_share).then(|| base + self.below(20) as i64));
        match ty {
            DataType::Int64 => Arc::new(numbers.collect::<Int64Array>()),
            DataType::Text => {
                let length = |n: i64| if n % 197 == 0 { LONG_BYTES_MIN + 1 } else { (n % 40) as usize };
                Arc::new(numbers.map(|n| n.map(|n| "x".repeat(length(n)) + &n.to_string())).collect::<StringArray>())
            }
            _ => {
                let float = |n: i64| if n % 97 == 0 { f64::NAN } else { n as f64 / 4.0 };
                Arc::new(numbers.by_ref().map(|n| n.map(float)).collect::<Float64Array>())
            }
        }
    }

    fn add_column(&mut self) {
        if self.state.table.columns.len() >= 9 {
            return;
        }
        let mut table = Table::clone(&self.state.table);
        let id = table.next_column_id;
        let ty = [DataType::Int64, DataType::Float64, DataType::Text][self.below(3) as usize];
        let name = format!("x{id}");
        table.columns.push(Column { id, name, ty, nullable: true, role: ColumnRole::Field });
        table.next_column_id = ColumnId(id.0 + 1);
        self.state = self.state.with_table(Arc::new(table));
    }

    // ---- operations that must not change the contents

    fn consolidate(&mut self) {
        let barrier = self.flushing.as_ref().map_or(Lsn::ZERO, |flushing| flushing.upto);
        let rows = [1, usize::MAX][self.below(2) as usize];
        let done = match self.below(2) {
            0 => self.state.consolidate(barrier, rows),
            _ => {
                let (start, len) = (self.below(4) as usize, 1 + self.below(6) as usize);
                self.state.consolidate_any(barrier, start, len)
            }
        };
        if let Some(done) = done {
            if self.below(2) == 0 {
                self.commit();
            }
            self.state = self.state.with_consolidated(&done).unwrap();
        }
    }

    fn flush(&mut self) {
        if let Some(done) = self.flushing.take() {
            self.state = self.state.with_flushed(&done);
            return;
        }
        // Creates segments that overlap in time and others that do not.
        self.focus = self.focus.map(|_| self.random.below(6) as i64 * 60);
        let World { env, state, next_file, .. } = self;
        let done = state.flush(env, dir(), Lsn(self.lsn), &mut || next(next_file)).unwrap();
        FLUSHES_CUT.fetch_add(usize::from(done.segments.len() > 1), Ordering::Relaxed);
        self.flushing = Some(done);
        if self.below(2) == 0 {
            self.flush();
        }
    }

    fn compact(&mut self) {
        if let Some(done) = self.compacting.take() {
            self.state = self.state.with_compacted(&done);
            done.inputs.iter().for_each(|input| input.remove_when_unused());
            return;
        }
        let picked = match self.below(4) {
            0 => self.state.pick_settling().unwrap(),
            1 => self.state.pick_compaction(),
            _ => {
                let count = self.state.segments.len() as u64;
                let start = if count > 0 { self.below(count) as usize } else { return };
                self.state.pick_any(start, 1 + self.random.below(4))
            }
        };
        let Some(picked) = picked else { return };
        let World { env, next_file, random, state, .. } = self;
        assert!(picked.is_of(state));
        let mut compacting = picked.start(env, dir()).unwrap();
        while compacting.step(random.below(400), &mut || next(next_file)).unwrap() {
            if random.below(200) == 0 {
                // Abandoned before it is complete.
                return;
            }
        }
        self.compacting = Some(compacting.finish());
        if self.below(2) == 0 {
            self.compact();
        }
    }

    fn reload(&mut self) {
        // A restart: old snapshots are gone.
        self.snapshots.clear();
        self.flushing = None;
        self.compacting = None;
        self.flush();
        if self.flushing.is_some() {
            self.flush();
        }
        assert!(self.state.entries.is_empty());
        let mut bytes = Vec::new();
        self.state.files().encode(&mut bytes);
        let files = TableFiles::decode(&mut &bytes[..], 3).unwrap();
        assert_eq!(files, self.state.files());
        let cache = SegmentCache::new(2, 2_000);
        self.state = TableState::load(&self.env, dir(), self.state.table.clone(), &files, &cache).unwrap();
    }

    // ---- checks

    fn check_now(&mut self) {
        let view = TableView::new(Arc::new(self.state.clone()));
        let model = self.model.clone();
        self.check(&view, &model);
    }

    fn check_snapshot(&mut self) {
        if !self.snapshots.is_empty() {
            let at = self.below(self.snapshots.len() as u64) as usize;
            let (state, model) = self.snapshots[at].clone();
            self.check(&TableView::new(Arc::new(state)), &model);
        }
    }

    /// Time travel: the table as of one of its commits, and of a time before the next.
    fn check_past(&mut self) {
        let view = TableView::new(Arc::new(self.state.clone()));
        if !self.state.keeps_history() {
            assert_eq!(view.as_of(0).err().unwrap().state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
            return;
        }
        let (first, _) = self.past[0];
        assert_eq!(view.as_of(first - 1).err().unwrap().state(), SqlState::INVALID_PARAMETER_VALUE);
        let at = self.below(self.past.len() as u64) as usize;
        let (committed, model) = self.past[at].clone();
        let later = [0, 999, i64::MAX / 2][self.below(if at + 1 == self.past.len() { 3 } else { 2 }) as usize];
        self.check(&view.as_of(committed + later).unwrap(), &model);
    }

    fn check_own_writes(&mut self) {
        let mut own = OwnWrites::default();
        let (state, mut model) = match self.snapshots.last() {
            Some(older) if self.lsn.is_multiple_of(2) => older.clone(),
            _ => (self.state.clone(), self.model.clone()),
        };
        for _ in 0..1 + self.below(4) {
            let entry = match self.change() {
                Change::Rows(batch) => {
                    model.write(&state.table, &batch);
                    OwnEntry::Rows(Arc::new(batch))
                }
                Change::Delete(keys, times) => {
                    model.delete(keys.as_ref(), &times);
                    let is_short = times.last.checked_sub(times.start).is_some_and(|length| (0..4).contains(&length));
                    match keys {
                        Some(keys) if is_short && self.below(2) == 0 => {
                            let number = 0..keys.len() as u32;
                            let rows = number.flat_map(|key| (times.start..=times.last).map(move |time| (key, time)));
                            let rows = rows.collect();
                            OwnEntry::DeleteRows(Arc::new(OwnRowDeletes { keys, rows, read_lsn: None }))
                        }
                        keys => OwnEntry::Delete(Arc::new(OwnDelete { series: keys.map(Arc::new), times })),
                    }
                }
            };
            own.entries = own.entries.with([entry]);
        }
        let view = TableView::with_own_writes(Arc::new(state), &own);
        assert_eq!(view.series_count() as usize, model.keys.len());
        for (number, key) in model.keys.iter().enumerate() {
            assert_eq!(view.lookup(key), Some(number as u32));
        }
        self.check(&view, &model);
    }

    fn check(&mut self, view: &TableView, model: &Model) {
        let mut request = self.request(view);
        if self.below(4) == 0 {
            let fields = |id: &ColumnId| view.state().table.field_columns().any(|column| column.id == *id);
            request.columns.retain(fields);
            request.batch_rows = [request.batch_rows, BLOCK_ROWS_MAX][self.below(2) as usize];
            request.columns_only = true;
        }
        let mut expected = expected(view, model, &request);
        if self.below(4) == 0 && request.ranges.is_empty() {
            let parts = view.split(&request, 1 + self.below(4) as usize).unwrap();
            let mut seen: Vec<Vec<Option<Value>>> = parts.iter().flat_map(|part| scan(view, part)).collect();
            seen.sort();
            expected.sort();
            assert_eq!(seen, expected, "{} parts of {request:?}", parts.len());
            return;
        }
        if !request.ranges.is_empty() {
            let within = |row: &Vec<Option<Value>>| within(&request, row);
            let mut seen = scan(view, &request);
            seen.retain(within);
            expected.retain(within);
            in_any_order(&request, &mut seen, &mut expected);
            assert_eq!(seen, expected, "{request:?}");
            return;
        }
        if self.below(4) == 0 {
            self.check_summaries(view, &request, &expected);
        }
        if self.below(3) == 0 {
            return self.check_filtered(view, &request, &expected);
        }
        if self.below(5) == 0 && !request.columns_only {
            request.limit = Some(self.below(20));
        }
        expected.truncate(request.limit.unwrap_or(u64::MAX).min(expected.len() as u64) as usize);
        let mut seen = scan(view, &request);
        in_any_order(&request, &mut seen, &mut expected);
        assert_eq!(seen, expected, "{request:?}");
    }

    /// Late materialisation: the predicate has any of the columns, requested or not, and any
    /// selectivity.
    fn check_filtered(&mut self, view: &TableView, request: &ScanRequest, expected: &[Vec<Option<Value>>]) {
        let early: Vec<ColumnId> = request.columns.iter().copied().filter(|_| self.below(2) == 0).collect();
        let positions: Vec<usize> =
            (0..request.columns.len()).filter(|at| early.contains(&request.columns[*at])).collect();
        let wanted: Vec<usize> = match self.below(2) {
            0 => (0..request.columns.len()).collect(),
            _ => (0..request.columns.len()).filter(|_| self.below(2) == 0).collect(),
        };
        let columns = wanted.iter().map(|at| request.columns[*at]).collect();
        let request = &ScanRequest { columns, ..request.clone() };
        let (salt, one_of) = (self.below(1 << 40), [1, 2, 7, 40, u64::MAX][self.below(5) as usize]);
        let passes = |cells: &[Option<Value>]| {
            let mut hasher = rustc_hash::FxHasher::default();
            (salt, format!("{cells:?}")).hash(&mut hasher);
            // NULL does not pass.
            (!hasher.finish().is_multiple_of(8)).then_some((hasher.finish() >> 8).is_multiple_of(one_of))
        };
        let cells = |batch: &RecordBatch, row: usize| {
            batch.columns().iter().map(|values| cell(values, row)).collect::<Vec<_>>()
        };
        let mut keep = |batch: &RecordBatch| {
            assert_eq!(batch.num_columns(), positions.len());
            Ok((0..batch.num_rows()).map(|row| passes(&cells(batch, row))).collect::<BooleanArray>())
        };
        let mut scan = view.scan_late(request.clone(), &early).unwrap();
        let mut seen = Vec::new();
        while let Some(Scanned { series, times, batch }) = scan.next_filtered(&mut keep).unwrap() {
            let is_columns_only = request.columns_only && series.is_empty();
            COLUMN_ONLY_ROWS.fetch_add(if is_columns_only { batch.num_rows() } else { 0 }, Ordering::Relaxed);
            assert!(is_columns_only || series.len() == batch.num_rows());
            assert_eq!(series.len(), times.len());
            seen.extend((0..batch.num_rows()).map(|row| cells(&batch, row)));
        }
        let only = |row: &Vec<Option<Value>>, of: &[usize]| of.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
        let kept = expected.iter().filter(|row| passes(&only(row, &positions)) == Some(true));
        let mut kept: Vec<_> = kept.map(|row| only(row, &wanted)).collect();
        in_any_order(request, &mut seen, &mut kept);
        assert_eq!(seen, kept, "{early:?} of {request:?}");
        assert_eq!(scan.stats().rows, expected.len() as u64);
    }

    /// Statistics of complete blocks plus the rows of all others equal the statistics of all rows.
    fn check_summaries(&mut self, view: &TableView, request: &ScanRequest, expected: &[Vec<Option<Value>>]) {
        let fields: Vec<Option<ColumnId>> = request
            .columns
            .iter()
            .map(|id| view.state().table.field_columns().any(|column| column.id == *id).then_some(*id))
            .collect();
        let mut seen = vec![Summary::default(); fields.len()];
        let mut taken = 0;
        let mut take = |block: &WholeBlock<'_>| {
            if self.random.below(4) == 0 {
                return Ok(false);
            }
            taken += block.meta().rows as usize;
            for (summary, id) in seen.iter_mut().zip(&fields) {
                if let Some(stats) = id.map(|id| block.stats(id)).transpose()?.flatten() {
                    summary.add_stats(&stats, block.meta().rows);
                }
            }
            Ok(true)
        };
        let mut scan = view.scan_without(request.clone(), &mut take).unwrap();
        let most = scan.rows_max();
        let mut rows = 0;
        for batch in scan.by_ref() {
            let batch = batch.unwrap();
            rows += batch.num_rows();
            for (summary, values) in seen.iter_mut().zip(batch.columns()) {
                (0..batch.num_rows()).for_each(|row| summary.add(cell(values, row).as_ref()));
            }
        }
        assert!(rows as u64 <= most, "{rows} rows, at most {most}");
        assert_eq!(taken + rows, expected.len(), "{request:?}");
        for (at, id) in fields.iter().enumerate().filter(|(_, id)| id.is_some()) {
            let mut whole = Summary::default();
            expected.iter().for_each(|row| whole.add(row[at].as_ref()));
            assert_eq!(seen[at], whole, "{id:?} of {request:?}");
        }
        STATISTICS_ROWS.fetch_add(taken, Ordering::Relaxed);
        let longest = expected.iter().flatten().map(|value| match value {
            Some(Value::Text(text)) if text.len() >= LONG_BYTES_MIN => text.len(),
            _ => 0,
        });
        assert!(longest.max().unwrap_or(0) <= view.longest_value(request).unwrap(), "{request:?}");
        let pieces = view.pieces(request).unwrap();
        assert!(pieces.iter().all(|piece| piece.rows > 0));
        if let Some(time) = request.columns.iter().position(|id| *id == view.state().table.time_column().id) {
            let within = |row: &Vec<Option<Value>>| {
                let Some(Value::Int(time)) = row[time] else { panic!("a row without time") };
                pieces.iter().any(|piece| piece.times.contains(time))
            };
            assert!(expected.iter().all(within), "{request:?}");
        }
    }

    fn request(&mut self, view: &TableView) -> ScanRequest {
        let table = &view.state().table;
        let mut columns: Vec<ColumnId> = table.columns.iter().map(|column| column.id).collect();
        if self.below(2) == 0 {
            columns.retain(|_| self.below(2) == 0);
            if self.below(2) == 0 {
                columns.reverse();
            }
        }
        let count = u64::from(view.series_count()) + 1;
        let series = match self.below(5) {
            0 => {
                let start = self.below(count) as u32;
                SeriesFilter::Range(start..start + self.below(count) as u32)
            }
            1 | 2 => {
                let mut list: Vec<u32> = (0..self.below(4)).map(|_| self.below(count) as u32).collect();
                list.sort_unstable();
                list.dedup();
                SeriesFilter::Only(list.into())
            }
            _ => SeriesFilter::All,
        };
        let times = if self.below(3) == 0 { self.range() } else { TimeRange::ALL };
        let mut request =
            ScanRequest { times, series, batch_rows: 1 + self.below(40) as usize, ..ScanRequest::all(columns) };
        for column in table.field_columns() {
            if self.below(6) == 0 && column.ty != DataType::Text && request.columns.contains(&column.id) {
                let bound = self.below(1_000) as i64;
                let value = |n: i64| match column.ty {
                    DataType::Int64 => StatValue::Int(n),
                    _ => StatValue::Float(n as f64 / 4.0),
                };
                let min = (self.below(3) > 0).then(|| value(bound));
                let max = (self.below(3) > 0).then(|| value(bound + self.below(200) as i64));
                request.ranges.push(ColumnRange { column: column.id, min, max });
            }
        }
        request.coded = self.below(3) == 0;
        request
    }
}

/// Rows of blocks answered from statistics, over all histories.
static STATISTICS_ROWS: AtomicUsize = AtomicUsize::new(0);

/// Rows of blocks read as columns only, over all histories.
static COLUMN_ONLY_ROWS: AtomicUsize = AtomicUsize::new(0);
/// Flushes that wrote several segments.
static FLUSHES_CUT: AtomicUsize = AtomicUsize::new(0);

/// Statistics of a column.
#[derive(Clone, Debug, Default, PartialEq)]
struct Summary {
    count: usize,
    has_nan: bool,
    range: Option<(f64, f64)>,
    sum: i128,
}

impl Summary {
    fn add_number(&mut self, number: f64) {
        let (min, max) = self.range.unwrap_or((number, number));
        self.range = Some((min.min(number), max.max(number)));
    }

    fn add(&mut self, value: Option<&Value>) {
        let Some(value) = value else { return };
        self.count += 1;
        match value {
            Value::Int(number) => {
                self.sum += i128::from(*number);
                self.add_number(*number as f64);
            }
            Value::Float(bits) if f64::from_bits(*bits).is_nan() => self.has_nan = true,
            Value::Float(bits) => self.add_number(f64::from_bits(*bits)),
            Value::Text(_) => {}
        }
    }

    fn add_stats(&mut self, stats: &ColumnStats, rows: u32) {
        self.count += (rows - stats.nulls) as usize;
        self.has_nan |= stats.has_nan;
        if let Some(StatSum::Int(sum)) = stats.sum {
            self.sum += sum;
        }
        let number = |value: &StatValue| match value {
            StatValue::Int(number) => Some(*number as f64),
            StatValue::Float(number) => Some(*number),
            StatValue::UInt(_) | StatValue::Bytes(_) => None,
        };
        let range = stats.range.as_ref().and_then(|(min, max)| Some([number(min)?, number(max)?]));
        range.into_iter().flatten().for_each(|number| self.add_number(number));
    }
}

fn next(file: &mut u64) -> u64 {
    *file += 1;
    *file
}

/// The caller's own filter by bounds. NaN is above every number.
fn within(request: &ScanRequest, row: &[Option<Value>]) -> bool {
    request.ranges.iter().all(|range| {
        let at = request.columns.iter().position(|id| *id == range.column).unwrap();
        let number = match &row[at] {
            None => return false,
            Some(Value::Int(n)) => *n as f64,
            Some(Value::Float(bits)) => f64::from_bits(*bits),
            Some(Value::Text(_)) => panic!("no bounds on text here"),
        };
        let bound = |value: &StatValue| match value {
            StatValue::Int(n) => *n as f64,
            StatValue::Float(n) => *n,
            other => panic!("{other:?}"),
        };
        let nan = number.is_nan();
        range.min.as_ref().is_none_or(|min| nan || number >= bound(min))
            && range.max.as_ref().is_none_or(|max| !nan && number <= bound(max))
    })
}

fn expected(view: &TableView, model: &Model, request: &ScanRequest) -> Vec<Vec<Option<Value>>> {
    let mut rows = Vec::new();
    for ((series, time), versions) in &model.rows {
        if !request.times.contains(*time) || *time < view.state().kept_from || !request.series.any_in(*series, *series)
        {
            continue;
        }
        for fields in versions {
            let value = |id: &ColumnId| match view.state().table.column_by_id(*id).unwrap().role {
                ColumnRole::Time => Some(Value::Int(*time)),
                ColumnRole::Field => fields.get(id).cloned(),
                ColumnRole::Key => match &key::decode(&model.keys[*series as usize], &[DataType::Text]).unwrap()[0] {
                    KeyValue::Text(text) => Some(Value::Text(text.clone())),
                    _ => None,
                },
            };
            rows.push(request.columns.iter().map(value).collect());
        }
    }
    rows
}

/// Sorts both sides if the request allows any order.
fn in_any_order(request: &ScanRequest, seen: &mut [Vec<Option<Value>>], expected: &mut [Vec<Option<Value>>]) {
    if request.columns_only {
        seen.sort();
        expected.sort();
    }
}

fn scan(view: &TableView, request: &ScanRequest) -> Vec<Vec<Option<Value>>> {
    let mut rows = Vec::new();
    let mut scan = view.scan(request.clone()).unwrap();
    for batch in scan.by_ref() {
        let batch: RecordBatch = batch.unwrap();
        assert!(batch.num_rows() > 0 && batch.num_rows() <= request.batch_rows, "{} rows", batch.num_rows());
        for row in 0..batch.num_rows() {
            rows.push(batch.columns().iter().map(|values| cell(values, row)).collect());
        }
    }
    assert_eq!(scan.stats().rows, rows.len() as u64);
    rows
}

fn cell(values: &ArrayRef, row: usize) -> Option<Value> {
    match values.data_type() {
        arrow_schema::DataType::Timestamp(_, _) => {
            Some(Value::Int(values.as_primitive::<TimestampNanosecondType>().value(row)))
        }
        _ => value_of(values, row),
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..20 + seed % 60 {
        world.step();
    }
    world.check_now();
    while let Some(picked) = world.state.pick_settling().unwrap() {
        let World { env, next_file, .. } = &mut world;
        let done = picked.run(env, dir(), &mut || next(next_file)).unwrap();
        world.state = world.state.with_compacted(&done);
    }
    let entries = world.state.entries.iter().any(|entry| matches!(entry, Entry::Delete(_)));
    assert!(entries || world.state.tombstones.is_empty());
    world.check_now();
    for (state, model) in world.snapshots.clone() {
        world.check(&TableView::new(Arc::new(state)), &model);
    }
    world.check_past();
    world.reload();
    world.check_now();
    (0..5).for_each(|_| world.check_past());
}

#[test]
fn scans_equal_a_map_after_any_history() {
    if let Ok(seed) = std::env::var("COLUMNS_SEED") {
        return run(seed.parse().unwrap());
    }
    let seeds = std::env::var("COLUMNS_SEEDS").map_or(400, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("COLUMNS_SEED={seed} replays this history");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(STATISTICS_ROWS.load(Ordering::Relaxed) > 0, "no block was answered from statistics");
    assert!(FLUSHES_CUT.load(Ordering::Relaxed) > 0, "no flush wrote several segments");
    assert!(COLUMN_ONLY_ROWS.load(Ordering::Relaxed) > 0, "no block was read as columns only");
}
