//! Reads a database directory without opening it, for `millrace inspect` and `millrace check`.
//! Takes no lock and changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use columns::{Segment, SegmentMeta};
use env::{Env, Open};
use model::{Error, Lsn, Result};

use crate::catalog_object::{CatalogObject, NewState};
use crate::engine::{data_dir, log_dir};
use crate::record::{Ddl, DeletedSpans, Item, Record, RowChanges};
use crate::rowfile::{read_rows, row_file_path};
use crate::{Manifest, Rows};

/// One log record as text.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// LSN of the record.
    pub lsn: Lsn,
    /// Payload bytes.
    pub bytes: usize,
    /// Description of its contents.
    pub text: String,
}

/// One problem found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The damaged file or directory.
    pub file: PathBuf,
    /// Position in the file, seen and expected value.
    pub problem: String,
}

/// Result of [`check`].
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damage; empty when the database is intact.
    pub findings: Vec<Finding>,
    /// Observations that are not damage.
    pub notes: Vec<String>,
}

/// The manifest of the database in `dir`.
///
/// # Errors
/// 22023 when there is none, 58030 or 55000 when it cannot be read, XX001 when it is damaged.
pub fn manifest(env: &dyn Env, dir: &Path) -> Result<Manifest> {
    Manifest::read(env, dir)?.ok_or_else(|| {
        Error::new(
            model::SqlState::INVALID_PARAMETER_VALUE,
            format!("{} holds no database: it has no MANIFEST", dir.display()),
        )
    })
}

/// Summary of all log files.
#[derive(Clone, Debug, Default)]
pub struct LogEnd {
    /// Files read.
    pub files: u64,
    /// Size of the log files, in bytes.
    pub bytes: u64,
    /// Records passed to the callback.
    pub records: u64,
    /// LSN of the first intact record or durable mark; `None` if there is none.
    pub first: Option<Lsn>,
    /// LSN of the last intact record or durable mark.
    pub last: Lsn,
    /// LSN of the last intact record that is not a mark; zero if there is none.
    pub last_change: Lsn,
    /// Description of a torn tail: never acknowledged, dropped at the next start.
    pub torn: Option<String>,
    /// Damage to acknowledged records, and files of another database.
    pub findings: Vec<Finding>,
}

/// Calls `each` for every intact record from `from` on, oldest first.
///
/// # Errors
/// 58030 when a file cannot be read; any error of `each`.
pub fn log(env: &Arc<dyn Env>, dir: &Path, from: Lsn, each: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<LogEnd> {
    let manifest = manifest(&**env, dir)?;
    let folder = log_dir(dir);
    let io = |what: &str, path: &Path, error| Error::io(format!("{what} {}", path.display()), &error);
    let entries = env.list(&folder).map_err(|error| io("list", &folder, error))?;
    let mut end = LogEnd::default();
    for entry in entries.into_iter().filter(|entry| entry.name.ends_with(".log")) {
        let path = folder.join(&entry.name);
        let file = env.open(&path, Open::Read).map_err(|error| io("open", &path, error))?;
        let mut bytes = vec![0; usize::try_from(entry.bytes).map_err(Error::bug)?];
        file.read_at(&mut bytes, 0).map_err(|error| io("read", &path, error))?;
        let mut outcome = Ok(());
        let check = wal::check_file_bytes(&bytes, &mut |lsn, payload| {
            end.first = end.first.or(Some(lsn));
            if !payload.is_empty() {
                end.last_change = lsn;
            }
            if lsn >= from && outcome.is_ok() {
                end.records += 1;
                outcome = each(describe_record(lsn, payload));
            }
        });
        outcome?;
        end.add(&path, &check, manifest.identity);
        end.files += 1;
        end.bytes += entry.bytes;
    }
    Ok(end)
}

impl LogEnd {
    fn add(&mut self, path: &Path, check: &wal::FileCheck, identity: u64) {
        let find = |problem: String| Finding { file: path.to_owned(), problem };
        if let Some(header) = check.header
            && header.identity != identity
        {
            let seen = header.identity;
            self.findings.push(find(format!("belongs to database {seen:016x}, not to {identity:016x}")));
        }
        // A newer file has good records, so the torn record in the older file had been
        // acknowledged.
        if let Some(torn) = self.torn.take()
            && check.last.is_some()
        {
            self.findings.push(find(format!("the previous log file has a damaged end: {torn}")));
        }
        match &check.problem {
            Some(problem) if check.is_damaged => self.findings.push(find(problem.clone())),
            Some(problem) => self.torn = Some(format!("{}: {problem}", path.display())),
            None => {}
        }
        self.last = self.last.max(check.last.unwrap_or_default());
    }
}

fn describe_record(lsn: Lsn, payload: &[u8]) -> LogRecord {
    let text = match payload {
        [] => "durable mark: everything before it is on disk".to_owned(),
        payload => Record::decode(lsn, payload).map_or_else(|error| error.to_string(), |record| describe(&record)),
    };
    LogRecord { lsn, bytes: payload.len(), text }
}

fn describe(record: &Record<'_>) -> String {
    match record {
        Record::Item { txn, item } => format!("part of transaction {txn}: {}", describe_item(item)),
        Record::Part { txn, is_last, bytes } => {
            let more = if *is_last { "the last ones of the item" } else { "more follow" };
            format!("part of transaction {txn}: {} bytes of an item larger than a record, {more}", bytes.len())
        }
        Record::Commit { txn, wall_ns, items } => {
            let items: Vec<String> = items.iter().map(describe_item).collect();
            format!("commit of transaction {txn} at {wall_ns} ns: {}", items.join("; "))
        }
    }
}

fn describe_item(item: &Item<'_>) -> String {
    match item {
        Item::Rows { table, batch, rows } => match Rows::decode(rows) {
            Ok(decoded) => format!(
                "table {table} batch {batch}: {} rows, {} columns, {} bytes",
                decoded.len(),
                decoded.columns().len(),
                rows.len()
            ),
            Err(error) => format!("table {table} batch {batch}: {error}"),
        },
        Item::Series { table, batch, ids, new_keys, .. } => {
            format!("table {table} batch {batch}: {} series, {} of them new", ids.len(), new_keys.len())
        }
        Item::Delete { table, series, times } => {
            let series = series.as_ref().map_or("all".to_owned(), |series| series.len().to_string());
            format!("delete from table {table}: {series} series, {} ..= {} ns", times.start, times.last)
        }
        Item::DeleteSpans { table, spans } => {
            let (mut count, mut times) = (0, model::TimeRange::EMPTY);
            for span in DeletedSpans::new(spans) {
                match span {
                    Ok((_, span)) => (count, times) = (count + 1, times.union(&span)),
                    Err(error) => return format!("delete from table {table}: {error}"),
                }
            }
            format!("delete from table {table}: {count} spans of single series, {} ..= {} ns", times.start, times.last)
        }
        Item::RowChanges(changes) => {
            let (mut rows, mut deleted, mut tables) = (0, 0, std::collections::BTreeSet::new());
            for change in RowChanges::new(changes) {
                match change {
                    Ok((table, _, row)) => {
                        tables.insert(table);
                        *(if row.is_some() { &mut rows } else { &mut deleted }) += 1;
                    }
                    Err(error) => return format!("rows of tables: {error}"),
                }
            }
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            format!("rows of table {}: {rows} written, {deleted} deleted", tables.join(", "))
        }
        Item::SequenceValue { id, state } => format!("sequence {id} reserved up to {}", state.last),
        Item::Ddl(Ddl::Create(object, _)) => match object.key().number() {
            Some(number) => format!("create {object} as number {number}"),
            None => format!("create {object}"),
        },
        Item::Ddl(Ddl::Alter(object, state)) => {
            let version = match object {
                CatalogObject::Table(table) => Some(table.version),
                CatalogObject::RowTable(schema) => Some(schema.version),
                CatalogObject::View(view) => Some(view.version),
                CatalogObject::Type(spec) => Some(spec.version),
                CatalogObject::Routine(routine) => Some(routine.version),
                _ => None,
            };
            let version = version.map_or_else(String::new, |version| format!(" to version {version}"));
            let rows = if *state == NewState::Emptied { ", without its rows" } else { "" };
            format!("alter {object}{version}{rows}")
        }
        Item::Ddl(Ddl::Drop(key)) => format!("drop {key}"),
    }
}

/// Opens the segment that a manifest entry describes.
#[must_use]
pub fn segment(env: &Arc<dyn Env>, dir: &Path, meta: &SegmentMeta) -> Segment {
    Segment::open(Arc::clone(env), &data_dir(dir), meta.clone())
}

/// Verifies every checksum of manifest, log, series files, segments and checkpoint files; does not
/// stop at the first problem.
///
/// # Errors
/// Only when the directory cannot be read at all.
pub fn check(env: &Arc<dyn Env>, dir: &Path, progress: &mut dyn FnMut(&Path, u64)) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let path = Manifest::path(dir);
    let manifest = match manifest(&**env, dir) {
        Ok(manifest) => manifest,
        Err(error) if error.kind() == model::ErrorKind::Corrupt => {
            report.findings.push(Finding { file: path, problem: error.to_string() });
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let bytes = env.open(&path, Open::Read).and_then(|file| file.bytes()).unwrap_or(0);
    report.count(&path, bytes, progress);
    if manifest.stored.is_torn() {
        report.notes.push(format!("torn edit at the end of {}, never relied upon", path.display()));
    }
    match log(env, dir, manifest.replay_from, &mut |_| Ok(())) {
        Ok(end) => {
            report.files += end.files;
            report.bytes += end.bytes;
            progress(&log_dir(dir), end.bytes);
            report.notes.extend(end.torn.map(|torn| format!("torn tail, never acknowledged: {torn}")));
            report.findings.extend(end.findings);
            if let Some(first) = end.first.filter(|first| *first > manifest.replay_from) {
                let needed = manifest.replay_from;
                let problem = format!("the log begins at record {first}, but records from {needed} on are needed");
                report.findings.push(Finding { file: log_dir(dir), problem });
            }
            report.notes.extend(signs_of_unclean_stop(&**env, dir, &manifest, end.last_change));
        }
        Err(error) => report.findings.push(Finding { file: log_dir(dir), problem: error.to_string() }),
    }
    let data = data_dir(dir);
    for (id, files) in &manifest.files {
        let series = columns::SeriesIndex::default();
        for file in &files.series_files {
            let path = columns::series_path(&data, file.file);
            if let Err(error) = columns::read_series_file(env, &data, file, &series) {
                report.findings.push(Finding { file: path.clone(), problem: format!("table number {id}: {error}") });
            }
            let bytes = env.open(&path, Open::Read).and_then(|file| file.bytes()).unwrap_or(0);
            report.count(&path, bytes, progress);
        }
        for meta in &files.segments {
            let path = columns::segment_path(&data, meta.file);
            match segment(env, dir, meta).check() {
                Ok(problems) => {
                    report.findings.extend(problems.into_iter().map(|problem| Finding { file: path.clone(), problem }))
                }
                Err(error) => report.findings.push(Finding { file: path.clone(), problem: error.to_string() }),
            }
            report.count(&path, meta.bytes, progress);
        }
    }
    for (id, files) in &manifest.row_files {
        for part in files.parts.iter().filter(|part| part.file != 0) {
            let path = row_file_path(&data, part.file);
            if let Err(error) = read_rows(&**env, &data, *id, part, &mut |_, _, _| Ok(())) {
                report.findings.push(Finding { file: path.clone(), problem: format!("table number {id}: {error}") });
            }
            report.count(&path, part.bytes, progress);
        }
    }
    Ok(report)
}

/// Describes signs that the database was not stopped cleanly: commits that are only in the log, and
/// files that the manifest does not name. A crash leaves both, and so does a running server; a
/// file-by-file copy of a running server has them too.
fn signs_of_unclean_stop(env: &dyn Env, dir: &Path, manifest: &Manifest, last: Lsn) -> Option<String> {
    let mut reasons = Vec::new();
    if last > manifest.flushed_lsn {
        reasons.push(format!("records {} to {last} are in the log only", manifest.flushed_lsn.next()));
    }
    let data = data_dir(dir);
    let mut named: Vec<PathBuf> = Vec::new();
    for files in manifest.files.values() {
        named.extend(files.series_files.iter().map(|file| columns::series_path(&data, file.file)));
        named.extend(files.segments.iter().map(|meta| columns::segment_path(&data, meta.file)));
    }
    named.extend(manifest.row_files.values().flat_map(|files| files.files()).map(|file| row_file_path(&data, file)));
    let named: std::collections::BTreeSet<PathBuf> = named.into_iter().collect();
    let entries = env.list(&data).unwrap_or_default();
    let unnamed = entries.iter().filter(|entry| !named.contains(&data.join(&entry.name))).count();
    if unnamed > 0 {
        reasons.push(format!("{unnamed} files in data/ are not named by the manifest"));
    }
    (!reasons.is_empty()).then(|| {
        format!(
            "not stopped cleanly ({}): a running or crashed server leaves this and recovers it. A copy made file by file \
             while a server ran also looks like this, and is not a backup",
            reasons.join("; ")
        )
    })
}

impl CheckReport {
    fn count(&mut self, path: &Path, bytes: u64, progress: &mut dyn FnMut(&Path, u64)) {
        self.files += 1;
        self.bytes += bytes;
        progress(path, bytes);
    }
}
