//! Opening: finds the files, hands over the records, tells a torn tail from corruption, makes the tail safe to
//! append to.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, File, Open};
use model::{Error, Lsn, Result};
use parking_lot::Mutex;

use crate::flush::{Current, Flusher, file_name, is_prepared};
use crate::format::{self, Decoded, FILE_HEADER_BYTES, FileHeader};
use crate::{LogFile, Opened, Room, Shared, State, Wal, WalOptions};

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
    let Files { mut found, mut needless } = find_files(&*env, dir)?;
    for file in &found {
        file.check_identity(identity)?;
    }
    needless.extend(take_below_gap(&mut found, from));
    let mut replay = Replay { env: &*env, from, each, opened: Opened::default(), tail: Tail::default() };
    replay.run(&found)?;
    let (opened, tail) = (replay.opened, replay.tail);
    // Only now: a log that is refused is left as it was.
    for path in &needless {
        env.remove(path).map_err(|e| io_error("remove", path, &e))?;
    }
    let current = make_tail_safe(&*env, found.last(), &tail)?;
    sync_dir(&*env, dir)?;
    let shared = |state| Shared { env, dir: dir.to_owned(), folder, options, state: Mutex::new(state) };
    Ok((assemble(shared, identity, &found, &tail, current), opened))
}

/// What replay learned about the end of the log.
#[derive(Default)]
struct Tail {
    /// The last intact record.
    last: Lsn,
    /// The last that is not a mark.
    data: Lsn,
    /// Highest durable LSN that the files tell of.
    recorded: Lsn,
    /// In the last file: end of the records that are recorded as durable, of the intact ones, of everything not zero.
    recorded_end: usize,
    end: usize,
    written_end: usize,
    /// The last file's bytes `recorded_end .. end`.
    unrecorded: Vec<u8>,
}

fn assemble(
    shared: impl FnOnce(State) -> Shared,
    identity: u64,
    found: &[Found],
    tail: &Tail,
    current: Option<(Current, u64)>,
) -> Wal {
    let (current, remaining) = current.map_or((None, 0), |(current, remaining)| (Some(current), remaining));
    let state = State {
        last: tail.last,
        last_record: tail.last,
        durable: tail.last,
        queue: VecDeque::new(),
        pending_bytes: 0,
        room: Room { remaining, prepared: VecDeque::new() },
        no_space: None,
        wanted_bytes: 0,
        waiters: BTreeMap::new(),
        busy: None,
        failure: None,
        files: found.iter().map(Found::log_file).collect(),
        spare_buffer: Vec::new(),
    };
    let shared = shared(state);
    let mut flusher = Flusher {
        identity,
        current,
        number: found.last().map_or(0, |file| file.header.number),
        prepared: VecDeque::new(),
        prepared_names: 0,
        needless_below: None,
        recorded: tail.recorded,
        data: tail.data,
        flushed_at_ns: shared.env.monotonic_ns(),
        retry_space_at_ns: 0,
    };
    flusher.prepare_files(&shared);
    Wal { shared: Arc::new(shared), flusher: Mutex::new(flusher), notify: Mutex::new(None) }
}

/// A log file and its header.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) header: FileHeader,
}

impl Found {
    fn check_identity(&self, identity: u64) -> Result<()> {
        if self.header.identity == identity {
            return Ok(());
        }
        let seen = self.header.identity;
        Err(Error::corrupt(format!(
            "log file {}: it belongs to database {seen:016x}, this one is {identity:016x}",
            self.path.display()
        ))
        .with_hint("move the file out of the log folder, or restore the log of this database"))
    }

    /// Its space was reserved, and the length was durable, before it got its name: no crash leaves it shorter.
    fn cut_short(&self, next: Lsn) -> Error {
        let (path, bytes, reserved) = (self.path.display(), self.bytes, self.header.reserved);
        Error::corrupt(format!("log file {path}: {bytes} bytes, {reserved} expected: it was cut short"))
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

/// What is in the folder.
struct Files {
    /// The log files with their headers, by LSN.
    found: Vec<Found>,
    /// Files that never got their name.
    needless: Vec<PathBuf>,
}

fn find_files(env: &dyn Env, dir: &Path) -> Result<Files> {
    let entries = env.list(dir).map_err(|e| io_error("list folder", dir, &e))?;
    let prepared = entries.iter().filter(|entry| is_prepared(&entry.name));
    let needless = prepared.map(|entry| dir.join(&entry.name)).collect();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    let found = logs.map(|entry| find_file(env, dir.join(&entry.name), entry.bytes)).collect::<Result<_>>()?;
    Ok(Files { found, needless })
}

pub(crate) fn find_file(env: &dyn Env, path: PathBuf, bytes: u64) -> Result<Found> {
    let file = env.open(&path, Open::Read).map_err(|e| io_error("open", &path, &e))?;
    let mut start = vec![0; bytes.min(FILE_HEADER_BYTES as u64) as usize];
    file.read_at(&mut start, 0).map_err(|e| io_error("read", &path, &e))?;
    let bad = |what: String| Error::corrupt(format!("log file {}: {what}", path.display()));
    let header = FileHeader::decode(&start).map_err(bad)?;
    if path.file_name().is_none_or(|name| name.to_string_lossy() != file_name(header.first_lsn)) {
        return Err(bad(format!("its header says {}", file_name(header.first_lsn))));
    }
    Ok(Found { path, bytes, header })
}

/// Removing old files is not atomic, so a crash may leave some of them with others gone between. Those below a gap that
/// lies below `from` are not needed; takes them out, so that their removal is finished. A gap at or above `from` is an
/// error, later.
fn take_below_gap(found: &mut Vec<Found>, from: Lsn) -> Vec<PathBuf> {
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
    fn run(&mut self, found: &[Found]) -> Result<()> {
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

    /// No file reaches down to `from`: fine only for a log that was never written.
    fn check_nothing_missing(&self, oldest: Option<&Found>) -> Result<()> {
        let from = self.from;
        let has = match oldest {
            None if from == Lsn(1) => return Ok(()),
            None => "there is no log file".to_owned(),
            Some(file) => format!("the oldest log file, {}, starts at {}", file.path.display(), file.header.first_lsn),
        };
        Err(Error::corrupt(format!("log records from {from} on are missing: {has}"))
            .with_hint("put the missing log files back, or restore a backup"))
    }

    fn file(&mut self, file: &Found, next: Option<&Found>, bytes: &[u8]) -> Result<()> {
        let seed = file.header.seed();
        let tail = &mut self.tail;
        // The name of a file is durable only after all records below it.
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
                        self.hand_over(record.lsn, record.payload)?;
                    }
                }
                Decoded::End => return self.file_end(file, next, bytes, None),
                Decoded::Bad(what) => return self.file_end(file, next, bytes, Some(what)),
            }
        }
    }

    fn hand_over(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        if lsn < self.from {
            return Ok(());
        }
        self.opened.records += 1;
        self.opened.bytes += payload.len() as u64;
        (self.each)(lsn, payload)
    }

    /// The record after `tail.last` is not there: `bad` says what is, if it is not zeros. Is that right?
    fn file_end(&mut self, file: &Found, next: Option<&Found>, bytes: &[u8], bad: Option<String>) -> Result<()> {
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
            let why = format!("the database had taken in records up to {}", self.from.0 - 1);
            return Err(damaged(file, at, lsn, &what, &why));
        }
        if file.bytes < file.header.reserved {
            return Err(file.cut_short(lsn));
        }
        self.tail.written_end = at + format::written_bytes(&bytes[at..]);
        self.tail.unrecorded = bytes[self.tail.recorded_end..at].to_vec();
        self.opened.torn_bytes = (self.tail.written_end - at) as u64;
        Ok(())
    }
}

/// A file that is not the last must end right where the next begins.
fn check_next(file: &Found, next: &Found, at: usize, lsn: Lsn, what: &str) -> Result<()> {
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

fn damaged(file: &Found, at: usize, lsn: Lsn, what: &str, why: &str) -> Error {
    Error::corrupt(format!("log file {}: record {lsn} at byte {at}: {what}", file.path.display()))
        .with_detail(format!("{}; {why}, so the database will not open", intact(lsn)))
        .with_hint("restore a backup")
}

fn intact(bad: Lsn) -> String {
    format!("Records up to {} are intact", bad.0 - 1)
}

fn read_whole(env: &dyn Env, found: &Found, buffer: &mut Vec<u8>) -> Result<()> {
    let path = &found.path;
    let bytes = usize::try_from(found.bytes).unwrap_or(usize::MAX);
    if bytes > buffer.len() && buffer.try_reserve_exact(bytes - buffer.len()).is_err() {
        return Err(Error::corrupt(format!("log file {}: {bytes} bytes do not fit into memory", path.display())));
    }
    buffer.resize(bytes, 0);
    let file = env.open(path, Open::Read).map_err(|e| io_error("read", path, &e))?;
    file.read_at(buffer, 0).map_err(|e| io_error("read", path, &e))
}

/// Opens the last file for appending. docs/format/wal.md, "The tail", says what is rewritten and why.
fn make_tail_safe(env: &dyn Env, last: Option<&Found>, tail: &Tail) -> Result<Option<(Current, u64)>> {
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
    Ok(Some((Current { file, seed: found.header.seed(), at }, remaining)))
}

fn rewrite_and_sync(file: &dyn File, rewrite: &[u8], at: u64) -> io::Result<()> {
    if !rewrite.is_empty() {
        file.write_at(rewrite, at)?;
    }
    file.sync()
}

/// Reserves the file's space once more, because a copied file may have holes. Without space its rest stays unused.
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
