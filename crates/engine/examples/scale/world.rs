//! Builds a directory with a given number of series and segments, each with few rows, and an
//! [`Env`] that counts disk requests. So growth with the number of items is measured without the
//! bytes.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::{ArrayRef, Float64Array};
use columns::{SegmentCache, SegmentMeta, TableFiles, TableState};
use engine::{
    Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Manifest, Op, Ops, Options, Rows, ScanRequest,
    ScanStats, SeriesFilter, TableSpec, TableView,
};
use env::{DirEntry, Env, Event, File, Folder, Open, RealEnv, Step, Worker};
use model::{ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, TableId, TableName, TableOptions, TimeRange, key};
use parking_lot::Mutex;

/// The time range of all segments: a year, whatever the number of series.
const SPAN_NS: i64 = 365 * 86_400 * 1_000_000_000;
/// Rows of a segment.
const SEGMENT_ROWS: u32 = 16;
/// Rows of a commit when every series gets one.
const COMMIT_ROWS: u32 = 50_000;

/// The numbers of items that grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) series: u32,
    pub(crate) segments: u32,
}

/// Counts of disk requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Files opened, and segments among them.
    pub(crate) opened: u64,
    pub(crate) segments_opened: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Bytes written to the manifest and to series files; part of all bytes written.
    pub(crate) manifest_bytes: u64,
    pub(crate) series_bytes: u64,
}

impl Counts {
    pub(crate) fn since(self, before: Counts) -> Counts {
        Counts {
            opened: self.opened - before.opened,
            segments_opened: self.segments_opened - before.segments_opened,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            manifest_bytes: self.manifest_bytes - before.manifest_bytes,
            series_bytes: self.series_bytes - before.series_bytes,
        }
    }
}

thread_local! {
    /// Whether the present step has written a manifest.
    static WROTE_MANIFEST: Cell<bool> = const { Cell::new(false) };
}

/// The real environment, with counters. Nothing is synced, because crashes are not tested here. The
/// compactor merges only on request, and would otherwise merge the many small segments that
/// represent large ones.
#[derive(Clone, Default)]
pub(crate) struct Counting {
    real: RealEnv,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    /// Segment files that are open, and the maximum so far.
    open: Mutex<(u64, u64)>,
    /// The limit of open files that the process sees; 0: the real one.
    open_files_max: AtomicU64,
    may_compact: AtomicBool,
    /// Start of the requested compaction, and the counts at that time.
    began: Mutex<Option<(u64, Counts)>>,
    /// Duration of the compaction in nanoseconds, and its counts.
    compacted: Mutex<Option<(u64, Counts)>>,
    done: Event,
}

impl Counting {
    /// An environment with a limit of open files.
    pub(crate) fn with_open_files(most: u64) -> Counting {
        let counting = Counting::default();
        counting.shared.open_files_max.store(most, Ordering::SeqCst);
        counting
    }

    /// The maximum number of segment files open at the same time.
    pub(crate) fn most_open(&self) -> u64 {
        self.shared.open.lock().1
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.shared.counts.lock()
    }

    /// Counts the disk requests of `work`.
    pub(crate) fn counted<T>(&self, work: impl FnOnce() -> T) -> (T, Counts) {
        let before = self.counts();
        let result = work();
        (result, self.counts().since(before))
    }

    /// Permits one compaction, which starts when the compactor is next woken.
    pub(crate) fn let_compact(&self) {
        self.shared.may_compact.store(true, Ordering::SeqCst);
    }

    /// Waits for that compaction and returns its duration in nanoseconds and its counts.
    pub(crate) fn compacted(&self) -> (u64, Counts) {
        self.real.wait(&self.shared.done);
        self.shared.compacted.lock().take().unwrap_or_default()
    }

    fn file(&self, path: &Path, inner: Arc<dyn File>) -> Arc<dyn File> {
        let kind = Kind::of(path);
        if kind == Kind::Segment {
            let mut open = self.shared.open.lock();
            *open = (open.0 + 1, open.1.max(open.0 + 1));
        }
        Arc::new(CountedFile { inner, kind, shared: Arc::clone(&self.shared) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Manifest,
    Series,
    Segment,
    Other,
}

impl Kind {
    fn of(path: &Path) -> Kind {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match () {
            () if name.starts_with("MANIFEST") => Kind::Manifest,
            () if name.starts_with("series-") => Kind::Series,
            () if name.starts_with("segment-") => Kind::Segment,
            () => Kind::Other,
        }
    }
}

struct CountedFile {
    inner: Arc<dyn File>,
    kind: Kind,
    shared: Arc<Shared>,
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        if self.kind == Kind::Segment {
            self.shared.open.lock().0 -= 1;
        }
    }
}

impl File for CountedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.shared.counts.lock().read_bytes += buf.len() as u64;
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let bytes = buf.len() as u64;
        let mut counts = self.shared.counts.lock();
        counts.written_bytes += bytes;
        match self.kind {
            Kind::Manifest => {
                counts.manifest_bytes += bytes;
                WROTE_MANIFEST.set(true);
            }
            Kind::Series => counts.series_bytes += bytes,
            Kind::Segment | Kind::Other => {}
        }
        drop(counts);
        self.inner.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        self.inner.bytes()
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_bytes(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.inner.allocate(bytes)
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

/// A directory whose syncs do nothing.
struct Unsynced;

impl Folder for Unsynced {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Env for Counting {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.real.open(path, how)?;
        let mut counts = self.shared.counts.lock();
        counts.opened += 1;
        counts.segments_opened += u64::from(Kind::of(path) == Kind::Segment);
        drop(counts);
        Ok(self.file(path, file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.real.remove_dir_all(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.real.list(dir)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_dir(&self, _: &Path) -> io::Result<Arc<dyn Folder>> {
        Ok(Arc::new(Unsynced))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.real.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.real.free_bytes(dir)
    }

    fn open_files_max(&self) -> u64 {
        match self.shared.open_files_max.load(Ordering::SeqCst) {
            0 => self.real.open_files_max(),
            told => told,
        }
    }

    fn now_ns(&self) -> i64 {
        self.real.now_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.real.monotonic_ns()
    }

    fn random(&self) -> u64 {
        self.real.random()
    }

    fn spawn(&self, name: &str, mut step: Box<dyn FnMut() -> Step + Send>) -> Worker {
        if !name.starts_with("compact") {
            return self.real.spawn(name, step);
        }
        let this = self.clone();
        let gated = move || {
            let shared = &this.shared;
            if !shared.may_compact.load(Ordering::SeqCst) {
                return Step::Idle;
            }
            let now = || (this.monotonic_ns(), this.counts());
            let (started, before) = *shared.began.lock().get_or_insert_with(now);
            // Flushes write manifests too, on a thread of their own.
            WROTE_MANIFEST.set(false);
            let next = step();
            if !WROTE_MANIFEST.get() {
                return next;
            }
            let counts = this.counts().since(before);
            shared.may_compact.store(false, Ordering::SeqCst);
            *shared.began.lock() = None;
            *shared.compacted.lock() = Some((this.monotonic_ns() - started, counts));
            shared.done.set();
            Step::Idle
        };
        self.real.spawn(name, Box::new(gated))
    }

    fn wait(&self, event: &Event) {
        self.real.wait(event);
    }
}

/// A database of a given size.
pub(crate) struct World {
    pub(crate) env: Counting,
    pub(crate) engine: Engine,
    pub(crate) size: Size,
    /// Number of its one table.
    table: TableId,
    /// Directory of its data files.
    data: PathBuf,
}

/// Enough memory that nothing is flushed unasked.
pub(crate) const MEMORY_BYTES: u64 = 8 << 30;

fn options() -> Options {
    Options { memory_bytes: MEMORY_BYTES, log_flush_bytes: u64::MAX, ..Options::default() }
}

fn name() -> TableName {
    TableName::public("t")
}

fn spec() -> TableSpec {
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
    let columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("device", DataType::Text, ColumnRole::Key),
        column("value", DataType::Float64, ColumnRole::Field),
    ];
    TableSpec { name: name(), keyed: true, columns, options: TableOptions::default() }
}

fn key_of(series: u32) -> Vec<u8> {
    key::encode(&[KeyValue::Text(format!("site-{:04}/device-{series:08}", series % 5_000))])
}

/// Creates the directory. Segments follow each other in time, like those of data that arrives in
/// order; each has rows of [`SEGMENT_ROWS`] series from the first to the last, always including
/// series 0.
pub(crate) fn build(dir: &Path, size: Size) -> Result<()> {
    let env = Counting::default();
    let (engine, _) = Engine::open(Arc::new(env.clone()), dir, options())?;
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    txn.create_table(&spec())?;
    engine.finish(txn.commit(Durability::Sync))?;
    engine.flush()?;
    engine.close()?;
    drop(engine);
    let env: Arc<dyn Env> = Arc::new(env);
    let Some(mut manifest) = Manifest::read(env.as_ref(), dir)? else {
        return Err(model::Error::bug("the directory has no manifest"));
    };
    fill(&env, dir, size, &mut manifest)?;
    let path = Manifest::path(dir);
    env::replace_file(env.as_ref(), &path, &manifest.encode())
        .map_err(|error| model::Error::io(format_args!("write {}", path.display()), &error))
}

/// Adds series and segments to the table of the manifest.
fn fill(env: &Arc<dyn Env>, dir: &Path, size: Size, manifest: &mut Manifest) -> Result<()> {
    let data = dir.join("data");
    let table = manifest.catalog.expect(&name())?.clone();
    let id = table.id;
    let mut next_file = manifest.next_file;
    let mut next = || {
        next_file += 1;
        next_file
    };
    let mut state = TableState { series_count: size.series, ..TableState::empty(table) };
    let keys: Vec<Vec<u8>> = (0..size.series).map(key_of).collect();
    state.series.insert_all(model::SeriesId(0), keys.iter().map(Vec::as_slice))?;
    drop(keys);
    let lsn = manifest.flushed_lsn;
    state = state.with_flushed(&state.flush(env, &data, lsn, &mut next)?);
    let mut segments = Vec::with_capacity(size.segments as usize);
    for number in 0..size.segments {
        let filled = state.with_rows(lsn, segment_rows(size, number), size.series);
        let flushed = filled.flush(env, &data, lsn, &mut next)?;
        segments.extend(flushed.segments.iter().map(|segment| segment.meta().clone()));
    }
    let files = TableFiles { segments, ..state.files() };
    manifest.files.insert(id, files);
    manifest.next_file = next_file + 1;
    Ok(())
}

/// Time range of segment `number`.
pub(crate) fn slice(size: Size, number: u32) -> TimeRange {
    let length = SPAN_NS / i64::from(size.segments);
    let start = i64::from(number) * length;
    TimeRange { start, last: start + length - 1 }
}

fn segment_rows(size: Size, number: u32) -> Arc<Rows> {
    let times = slice(size, number);
    let step = (size.series / SEGMENT_ROWS).max(1);
    let count = size.series.min(SEGMENT_ROWS);
    // Each segment has the first and the last series, so that pruning by series numbers finds
    // nothing, as with large segments.
    let series: Vec<u32> = (0..count).map(|at| if at + 1 == count { size.series - 1 } else { at * step }).collect();
    let each = (times.last - times.start) / i64::from(count);
    let moments = (0..i64::from(count)).map(|at| times.start + at * each).collect();
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..count).map(|at| f64::from(at + number))));
    Arc::new(Rows::new(series, moments, Ops::All(Op::Replace), vec![(ColumnId(2), values)]))
}

impl World {
    /// Opens the directory of [`build`]; returns the disk requests too.
    pub(crate) fn open(env: Counting, dir: &Path, size: Size, memory_bytes: u64) -> Result<(World, Counts)> {
        let options = Options { memory_bytes, ..options() };
        let (opened, counts) = env.counted(|| Engine::open(Arc::new(env.clone()), dir, options));
        let (engine, _) = opened?;
        let table = engine.snapshot(Lsn::ZERO).catalog().expect(&name())?.id;
        Ok((World { env, engine, size, table, data: dir.join("data") }, counts))
    }

    /// A view of the present table.
    pub(crate) fn view(&self) -> Result<TableView> {
        self.engine.snapshot(Lsn::ZERO).table_by_id(self.table)
    }

    /// A view of the table with segments that have not been read yet.
    pub(crate) fn unread(&self) -> Result<TableView> {
        let view = self.view()?;
        let files = TableFiles { series_files: Vec::new(), ..view.state().files() };
        let env: Arc<dyn Env> = Arc::new(self.env.clone());
        let (table, cache) = (Arc::clone(&view.state().table), &view.state().cache);
        let state = TableState::load(&env, &self.data, table, &files, cache)?;
        Ok(TableView::new(Arc::new(TableState { series_count: self.size.series, ..state })))
    }

    /// Reads one series in a time range.
    pub(crate) fn read(&self, view: &TableView, series: u32, times: TimeRange) -> Result<(ScanStats, Counts)> {
        let (stats, counts) = self.env.counted(|| -> Result<ScanStats> {
            let mut scan = view.scan(request(series, times))?;
            while scan.next_rows()?.is_some() {}
            Ok(scan.stats())
        });
        Ok((stats?, counts))
    }

    /// Writes one row for each of these series, in commits of [`COMMIT_ROWS`].
    pub(crate) fn write(&self, series: impl Iterator<Item = u32>, time: i64) -> Result<()> {
        let all: Vec<u32> = series.collect();
        for part in all.chunks(COMMIT_ROWS as usize) {
            let mut keys = KeyList::new();
            let numbers = part.iter().map(|series| keys.intern(&key_of(*series))).collect();
            let values: ArrayRef = Arc::new(Float64Array::from_iter_values(part.iter().map(|at| f64::from(*at))));
            let columns = vec![(ColumnId(2), values)];
            let rows = Rows::new(numbers, vec![time; part.len()], Ops::All(Op::Replace), columns);
            let mut txn = self.engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
            txn.write(self.table, Batch::new(keys, rows))?;
            self.engine.finish(txn.commit(Durability::Async))?;
        }
        Ok(())
    }

    /// Flushes; returns its disk requests, without log already written.
    pub(crate) fn flush(&self) -> Result<Counts> {
        let durable = self.engine.when_durable(Lsn(self.engine.stats().last_lsn))?;
        durable.iter().for_each(|event| self.env.wait(event));
        let (flushed, counts) = self.env.counted(|| self.engine.flush());
        flushed.map(|()| counts)
    }
}

/// Time and value of one series.
pub(crate) fn request(series: u32, times: TimeRange) -> ScanRequest {
    ScanRequest {
        times,
        series: SeriesFilter::Only([series].into()),
        ..ScanRequest::all(vec![ColumnId(0), ColumnId(2)])
    }
}

/// A table with segments of `bytes` each, as named by a manifest. The files do not exist.
pub(crate) fn imagined(env: &Counting, size: Size, bytes: u64) -> Result<TableState> {
    let meta = |number: u32| SegmentMeta {
        file: u64::from(number) + 1,
        lsns: (Lsn(u64::from(number) + 1), Lsn(u64::from(number) + 1)),
        times: slice(size, number),
        series: (0, size.series - 1),
        rows: bytes / 4,
        bytes,
    };
    let files = TableFiles { segments: (0..size.segments).map(meta).collect(), ..TableFiles::default() };
    let env: Arc<dyn Env> = Arc::new(env.clone());
    let table = Arc::new(spec().build(TableId(1))?);
    let state = TableState::load(&env, Path::new("nowhere"), table, &files, &SegmentCache::default())?;
    Ok(TableState { series_count: size.series, ..state })
}
