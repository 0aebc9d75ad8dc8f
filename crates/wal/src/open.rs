//! Opening a log: finds the files, replays the records, distinguishes a torn tail from corruption,
//! and makes the tail safe to append to.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, File, Open};
use model::{Error, Lsn, Result};
use parking_lot::Mutex;

use crate::flush::{Current, Flusher, file_name, is_prepared};
use crate::format::{self, Decoded, FILE_HEADER_BYTES, FileHeader};
use crate::{LogFile, Opened, ReservedSpace, Shared, State, Wal, WalOptions};

type Each<'a> = &'a mut dyn FnMut(Lsn, &[u8]) -> Result<()>;

pub(crate) fn open(
    env: Arc<dyn Env>,
    dir: &Path,
    identity: u64,
    options: WalOptions,
    from: Lsn,
    each: Each<'_>,
) -> Result<(Wal, Opened)> {
    let from = from.max(Lsn(1));
    prepare_dir(&*env, dir)?;
    let folder = env.open_dir(dir).map_err(|e| io_error("open folder", dir, &e))?;
    let Files { mut found, mut unused } = find_files(&*env, dir)?;
    for file in &found {
        file.check_identity(identity)?;
    }
    unused.extend(split_off_below_gap(&mut found, from));
    let mut replay = Replay { env: &*env, from, each, opened: Opened::default(), tail: Tail::default() };
    replay.run(&found)?;
    let (opened, tail) = (replay.opened, replay.tail);
    // Files are removed only now: a log that is refused is left unchanged.
    for path in &unused {
        env.remove(path).map_err(|e| io_error("remove", path, &e))?;
    }
    let current = make_tail_safe(&*env, found.last(), &tail)?;
    sync_dir(&*env, dir)?;
    let shared = |state| Shared { env, dir: dir.to_owned(), folder, options, state: Mutex::new(state) };
    Ok((assemble(shared, identity, &found, &tail, current), opened))
}

/// The end of the log, as found by replay.
#[derive(Default)]
struct Tail {
    /// LSN of the last intact record.
    last: Lsn,
    /// LSN of the last record that is not a mark.
    data: Lsn,
    /// Highest durable LSN stated by the records.
    recorded: Lsn,
    /// Offsets in the last file: end of the records stated to be durable, of the intact records,
    /// and of all nonzero bytes.
    recorded_end: usize,
    end: usize,
    written_end: usize,
    /// Bytes `recorded_end .. end` of the last file.
    unrecorded: Vec<u8>,
}

fn assemble(
    shared: impl FnOnce(State) -> Shared,
    identity: u64,
    found: &[FoundFile],
    tail: &Tail,
    current: Option<(Current, u64)>,
) -> Wal {
    let Tail { last, data, recorded, recorded_end, end, .. } = *tail;
    assert!(recorded <= last, "BUG: the log ends with record {last}, and states that {recorded} is durable");
    assert!(data <= last, "BUG: the log ends with record {last}, and has the record {data}");
    assert!(recorded_end <= end, "BUG: durable records end at {recorded_end}, after all records at {end}");
    let (current, remaining) = current.map_or((None, 0), |(current, remaining)| (Some(current), remaining));
    debug_assert!(found.is_sorted_by_key(|file| file.header.number), "BUG: log files are not in order");
    let state = State {
        last: tail.last,
        last_record: tail.last,
        durable: tail.last,
        queue: VecDeque::new(),
        pending_bytes: 0,
        reserved_space: ReservedSpace { remaining, prepared: VecDeque::new() },
        no_space: None,
        requested_bytes: 0,
        waiters: BTreeMap::new(),
        busy: None,
        failure: None,
        files: found.iter().map(FoundFile::log_file).collect(),
        spare_buffer: Vec::new(),
    };
    let shared = shared(state);
    let mut flusher = Flusher {
        identity,
        current,
        number: found.last().map_or(0, |file| file.header.number),
        prepared: VecDeque::new(),
        prepared_names: 0,
        obsolete_below: None,
        recorded: tail.recorded,
        data: tail.data,
        flushed_at_ns: shared.env.monotonic_ns(),
        retry_space_at_ns: 0,
    };
    flusher.prepare_files(&shared);
    Wal { shared: Arc::new(shared), flusher: Mutex::new(flusher), notify: Mutex::new(None) }
}

/// A log file and its header.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) header: FileHeader,
}

impl FoundFile {
    fn check_identity(&self, identity: u64) -> Result<()> {
        if self.header.identity == identity {
            return Ok(());
        }
        let seen = self.header.identity;
        Err(Error::corrupt(format!(
            "log file {}: it belongs to database {seen:016x}, this one is {identity:016x}",
            self.path.display()
        ))
        .with_hint("move the file out of the log directory, or restore the log of this database"))
    }

    /// The error for a file that is too short. Its space was reserved, and its size was durable,
    /// before it got its name, so no crash shortens it.
    fn truncated(&self, next: Lsn) -> Error {
        let (path, bytes, reserved) = (self.path.display(), self.bytes, self.header.reserved);
        Error::corrupt(format!("log file {path}: {bytes} bytes, {reserved} expected: the file was truncated"))
            .with_detail(format!("{}; there may have been more, so the database will not open", intact(next)))
            .with_hint("restore a backup")
    }

    fn log_file(&self) -> LogFile {
        let FileHeader { number, first_lsn, .. } = self.header;
        LogFile { path: self.path.clone(), number, first_lsn, bytes: self.bytes }
    }
}

fn prepare_dir(env: &dyn Env, dir: &Path) -> Result<()> {
    env.create_dir_all(dir).map_err(|e| io_error("make folder", dir, &e))?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(env, parent),
        _ => Ok(()),
    }
}

fn sync_dir(env: &dyn Env, dir: &Path) -> Result<()> {
    env.sync_dir(dir).map_err(|e| io_error("sync folder", dir, &e))
}

/// Files in the log directory.
struct Files {
    /// Log files with their headers, by LSN.
    found: Vec<FoundFile>,
    /// Prepared files that never got their final name.
    unused: Vec<PathBuf>,
}

fn find_files(env: &dyn Env, dir: &Path) -> Result<Files> {
    let entries = env.list(dir).map_err(|e| io_error("list folder", dir, &e))?;
    let prepared = entries.iter().filter(|entry| is_prepared(&entry.name));
    let unused = prepared.map(|entry| dir.join(&entry.name)).collect();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    let found = logs.map(|entry| find_file(env, dir.join(&entry.name), entry.bytes)).collect::<Result<_>>()?;
    Ok(Files { found, unused })
}

pub(crate) fn find_file(env: &dyn Env, path: PathBuf, bytes: u64) -> Result<FoundFile> {
    let file = env.open(&path, Open::Read).map_err(|e| io_error("open", &path, &e))?;
    let mut start = vec![0; bytes.min(FILE_HEADER_BYTES as u64) as usize];
    file.read_at(&mut start, 0).map_err(|e| io_error("read", &path, &e))?;
    let bad = |what: String| Error::corrupt(format!("log file {}: {what}", path.display()));
    let header = FileHeader::decode(&start).map_err(bad)?;
    if path.file_name().is_none_or(|name| name.to_string_lossy() != file_name(header.first_lsn)) {
        return Err(bad(format!("its header belongs to {}", file_name(header.first_lsn))));
    }
    Ok(FoundFile { path, bytes, header })
}

/// Removes from `found`, and returns, the files below a gap that lies below `from`. Removing old
/// files is not atomic, so a crash may leave some of them; they are not needed, and their removal
/// is completed. A gap at or above `from` is reported later.
fn split_off_below_gap(found: &mut Vec<FoundFile>, from: Lsn) -> Vec<PathBuf> {
    let needed = found.partition_point(|file| file.header.first_lsn <= from).saturating_sub(1);
    let gap = (1..=needed.min(found.len().saturating_sub(1)))
        .rev()
        .find(|at| found[*at].header.number != found[at - 1].header.number + 1);
    found.drain(..gap.unwrap_or(0)).map(|file| file.path).collect()
}

struct Replay<'a> {
    env: &'a dyn Env,
    from: Lsn,
    each: Each<'a>,
    opened: Opened,
    tail: Tail,
}

impl Replay<'_> {
    fn run(&mut self, found: &[FoundFile]) -> Result<()> {
        let from = self.from;
        let start = found.partition_point(|file| file.header.first_lsn <= from);
        let Some(start) = start.checked_sub(1) else {
            return self.check_nothing_missing(found.first());
        };
        self.tail.last = Lsn(found[start].header.first_lsn.0 - 1);
        let mut buffer = Vec::new();
        for (at, file) in found.iter().enumerate().skip(start) {
            read_whole(self.env, file, &mut buffer)?;
            self.file(file, found.get(at + 1), &buffer)?;
            self.opened.files += 1;
        }
        Ok(())
    }

    /// No file reaches down to `from`: correct only for a log that was never written.
    fn check_nothing_missing(&self, oldest: Option<&FoundFile>) -> Result<()> {
        let from = self.from;
        let has = match oldest {
            None if from == Lsn(1) => return Ok(()),
            None => "there is no log file".to_owned(),
            Some(file) => format!("the oldest log file, {}, starts at {}", file.path.display(), file.header.first_lsn),
        };
        Err(Error::corrupt(format!("log records from {from} on are missing: {has}"))
            .with_hint("put the missing log files back, or restore a backup"))
    }

    fn file(&mut self, file: &FoundFile, next: Option<&FoundFile>, bytes: &[u8]) -> Result<()> {
        let seed = file.header.seed();
        let tail = &mut self.tail;
        // A file gets its durable name only after all records before it are durable.
        tail.recorded = tail.recorded.max(tail.last);
        (tail.recorded_end, tail.end) = (FILE_HEADER_BYTES, FILE_HEADER_BYTES);
        let mut ends = VecDeque::new();
        loop {
            let tail = &mut self.tail;
            match format::decode(bytes, tail.end, seed, tail.last.next()) {
                Decoded::Record(record) => {
                    tail.end += record.bytes();
                    tail.last = record.lsn;
                    tail.recorded = tail.recorded.max(record.durable);
                    ends.push_back((record.lsn, tail.end));
                    while ends.front().is_some_and(|(lsn, _)| *lsn <= tail.recorded) {
                        tail.recorded_end = ends.pop_front().map_or(tail.recorded_end, |(_, end)| end);
                    }
                    if !record.payload.is_empty() {
                        tail.data = record.lsn;
                        self.deliver(record.lsn, record.payload)?;
                    }
                }
                Decoded::End => return self.file_end(file, next, bytes, None),
                Decoded::Bad(what) => return self.file_end(file, next, bytes, Some(what)),
            }
        }
    }

    fn deliver(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        if lsn < self.from {
            return Ok(());
        }
        self.opened.records += 1;
        self.opened.bytes += payload.len() as u64;
        (self.each)(lsn, payload)
    }

    /// Handles the missing record after `tail.last`: a torn tail is accepted, damage is an error.
    /// `bad` describes the bytes found, if they are not zeros.
    fn file_end(
        &mut self,
        file: &FoundFile,
        next: Option<&FoundFile>,
        bytes: &[u8],
        bad: Option<String>,
    ) -> Result<()> {
        let (at, lsn) = (self.tail.end, self.tail.last.next());
        let what = bad.unwrap_or_else(|| "zeros instead of a record".to_owned());
        if let Some(next) = next {
            return check_next(file, next, at, lsn, &what);
        }
        if let Some((good_at, good)) = format::find_acknowledgement(bytes, at, file.header.seed(), lsn) {
            let why = format!("record {good} at byte {good_at} says that record {lsn} had been acknowledged");
            return Err(damaged(file, at, lsn, &what, &why));
        }
        if lsn < self.from {
            let why = format!("the database had already stored records up to {}", self.from.0 - 1);
            return Err(damaged(file, at, lsn, &what, &why));
        }
        if file.bytes < file.header.reserved {
            return Err(file.truncated(lsn));
        }
        self.tail.written_end = at + format::written_bytes(&bytes[at..]);
        self.tail.unrecorded = bytes[self.tail.recorded_end..at].to_vec();
        self.opened.torn_bytes = (self.tail.written_end - at) as u64;
        Ok(())
    }
}

/// Checks that a file ends where the next one starts.
fn check_next(file: &FoundFile, next: &FoundFile, at: usize, lsn: Lsn, what: &str) -> Result<()> {
    let (number, first) = (file.header.number, next.header.first_lsn);
    if next.header.number == number + 1 && first == lsn {
        return Ok(());
    }
    if next.header.number == number + 1 {
        let why = format!("the next log file, {}, starts at record {first}", next.path.display());
        return Err(damaged(file, at, lsn, what, &why));
    }
    Err(Error::corrupt(format!(
        "log file {} of {} is missing: {} ends with record {}, {} starts with record {first}",
        number + 1,
        next.header.number,
        file.path.display(),
        lsn.0 - 1,
        next.path.display(),
    ))
    .with_detail(intact(lsn))
    .with_hint("put the missing log file back, or restore a backup"))
}

fn damaged(file: &FoundFile, at: usize, lsn: Lsn, what: &str, why: &str) -> Error {
    Error::corrupt(format!("log file {}: record {lsn} at byte {at}: {what}", file.path.display()))
        .with_detail(format!("{}; {why}, so the database will not open", intact(lsn)))
        .with_hint("restore a backup")
}

fn intact(bad: Lsn) -> String {
    format!("Records up to {} are intact", bad.0 - 1)
}

fn read_whole(env: &dyn Env, found: &FoundFile, buffer: &mut Vec<u8>) -> Result<()> {
    let path = &found.path;
    let bytes = usize::try_from(found.bytes).unwrap_or(usize::MAX);
    if bytes > buffer.len() && buffer.try_reserve_exact(bytes - buffer.len()).is_err() {
        return Err(Error::corrupt(format!("log file {}: {bytes} bytes do not fit into memory", path.display())));
    }
    buffer.resize(bytes, 0);
    let file = env.open(path, Open::Read).map_err(|e| io_error("read", path, &e))?;
    file.read_at(buffer, 0).map_err(|e| io_error("read", path, &e))
}

/// Opens the last file for appending. docs/format/wal.md, "The tail", explains which bytes are
/// rewritten and why.
fn make_tail_safe(env: &dyn Env, last: Option<&FoundFile>, tail: &Tail) -> Result<Option<(Current, u64)>> {
    let Some(found) = last else {
        return Ok(None);
    };
    let file = env.open(&found.path, Open::ReadWrite).map_err(|e| io_error("open", &found.path, &e))?;
    let mut rewrite = tail.unrecorded.clone();
    rewrite.resize(tail.written_end.max(tail.end) - tail.recorded_end, 0);
    let rewritten = rewrite_and_sync(&*file, &rewrite, tail.recorded_end as u64);
    rewritten.map_err(|e| io_error("make the tail safe of", &found.path, &e))?;
    let remaining = reserve_again(&*file, found.bytes).map_err(|e| io_error("reserve", &found.path, &e))?;
    let at = tail.end as u64;
    let remaining = if remaining { found.bytes - at } else { 0 };
    Ok(Some((Current { file, seed: found.header.seed(), at, bytes: found.bytes }, remaining)))
}

fn rewrite_and_sync(file: &dyn File, rewrite: &[u8], at: u64) -> io::Result<()> {
    if !rewrite.is_empty() {
        file.write_at(rewrite, at)?;
    }
    file.sync()
}

/// Reserves the space of the file again, because a copied file may have holes. On a full disk the
/// rest of the file is not used.
fn reserve_again(file: &dyn File, bytes: u64) -> io::Result<bool> {
    match file.allocate(bytes) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn io_error(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{what} {}", path.display()), error)
}
