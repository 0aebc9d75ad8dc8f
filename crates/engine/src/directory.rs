//! The database directory: recognising it, locking it, and removing files that an earlier process
//! left.
//!
//! Always true:
//! - Nothing in a directory is created, changed or removed before the directory is known to be
//!   ours: its MANIFEST begins with `MILLRACE`, or it is empty, or it contains only files of an
//!   interrupted creation.
//! - Files are removed only after the whole database was recovered, and only if their names have
//!   one of our forms. A file that a lost, older or damaged MANIFEST would have named still exists
//!   when opening fails.

use std::collections::BTreeSet;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};

use env::{DirEntry, Env, LockedBy, Open};
use model::{Error, Lsn, Result, SqlState};

use crate::engine::{data_dir, log_dir, spill_dir};
use crate::manifest::{MAGIC, Manifest};
use crate::rowfile::row_file_path;

/// Entries allowed in a directory without a MANIFEST in which a database is created: a directory of
/// the file system, and the marker file of `millrace demo`.
const HARMLESS: [&str; 2] = ["lost+found", "MILLRACE-DEMO"];
/// Upper limit for the size of the first manifest of a database.
const FIRST_MANIFEST_BYTES_MAX: u64 = 4_096;
/// Size of a process id and a line end.
const LOCK_BYTES_MAX: u64 = 20;
/// Limit for the directory entries that an error message names.
const NAMES_MAX: usize = 5;

/// Contents of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Empty, or only files of an interrupted creation: a database may be created here.
    Empty,
    /// A database.
    Database,
}

/// A directory that is ours, and locked.
pub(crate) struct Claimed {
    pub(crate) contents: Contents,
    pub(crate) lock: Box<dyn Send + Sync>,
}

/// Locks the directory if it is a database or may become one. Any other directory is left
/// unchanged.
///
/// # Errors
/// 22023 for a directory with other contents, XX001 for an incomplete database, 55P03 when another
/// process has it open, 58030.
pub(crate) fn claim(env: &dyn Env, dir: &Path) -> Result<Claimed> {
    classify(env, dir)?;
    env.create_dir_all(dir).map_err(|error| failed("create directory", dir, &error))?;
    let lock = lock(env, dir)?;
    // Another process may have created a database here before the lock was taken.
    Ok(Claimed { contents: classify(env, dir)?, lock })
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("{what} {}", path.display()), error)
}

fn lock(env: &dyn Env, dir: &Path) -> Result<Box<dyn Send + Sync>> {
    let path = dir.join("LOCK");
    env.lock(&path).map_err(|error| {
        if error.kind() != Io::WouldBlock {
            return failed("lock", &path, &error);
        }
        let holder = error.get_ref().and_then(|error| error.downcast_ref::<LockedBy>());
        let process = holder.map_or_else(|| "another process".to_owned(), |by| format!("process {}", by.process));
        Error::new(SqlState::LOCK_NOT_AVAILABLE, format!("{process} has {} open", dir.display()))
            .with_hint("stop it, or name another directory with --data")
    })
}

/// Classifies the contents of a directory without changing it.
fn classify(env: &dyn Env, dir: &Path) -> Result<Contents> {
    let entries = match env.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == Io::NotFound => return Ok(Contents::Empty),
        Err(error) => return Err(failed("list directory", dir, &error)),
    };
    if entries.iter().any(|entry| entry.name == "MANIFEST") {
        return check_marker(env, dir).map(|()| Contents::Database);
    }
    let mut foreign = Vec::new();
    for entry in &entries {
        if !is_allowed_in_new(env, dir, entry)? {
            foreign.push(entry);
        }
    }
    if foreign.is_empty() { Ok(Contents::Empty) } else { Err(foreign_contents(env, dir, &foreign)) }
}

fn check_marker(env: &dyn Env, dir: &Path) -> Result<()> {
    let path = Manifest::path(dir);
    let start = read_start(env, &path, MAGIC.len() as u64).map_err(|error| failed("read", &path, &error))?;
    if start == MAGIC {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{} begins with \"{}\", expected \"MILLRACE\": it is damaged, or not a Millrace database",
        path.display(),
        start.escape_ascii()
    ))
    .with_detail("Nothing in the directory was changed")
    .with_hint("restore the whole directory from a backup, or name another directory with --data"))
}

/// Reads the first bytes of a file, or all of a shorter one.
fn read_start(env: &dyn Env, path: &Path, bytes: u64) -> std::io::Result<Vec<u8>> {
    let file = env.open(path, Open::Read)?;
    let mut start = vec![0; file.bytes()?.min(bytes) as usize];
    file.read_at(&mut start, 0)?;
    Ok(start)
}

/// Whether an entry of a directory without MANIFEST permits creating a database: a file of an
/// interrupted creation, or a harmless one.
fn is_allowed_in_new(env: &dyn Env, dir: &Path, entry: &DirEntry) -> Result<bool> {
    let path = dir.join(&entry.name);
    let start = |bytes| read_start(env, &path, bytes).map_err(|error| failed("read", &path, &error));
    Ok(match entry.name.as_str() {
        name if HARMLESS.contains(&name) => true,
        "data" | "log" | "tmp" => match env.list(&path) {
            Ok(inside) => inside.is_empty(),
            Err(error) if matches!(error.kind(), Io::NotADirectory | Io::NotFound) => false,
            Err(error) => return Err(failed("list directory", &path, &error)),
        },
        "LOCK" if !entry.is_dir && entry.bytes <= LOCK_BYTES_MAX => {
            start(LOCK_BYTES_MAX)?.iter().all(|byte| byte.is_ascii_digit() || *byte == b'\n' || *byte == 0)
        }
        // A power cut may have persisted any subset of its sectors.
        "MANIFEST.tmp" if !entry.is_dir && entry.bytes <= FIRST_MANIFEST_BYTES_MAX => {
            let start = start(MAGIC.len() as u64)?;
            MAGIC.starts_with(&start) || start.iter().all(|byte| *byte == 0)
        }
        _ => false,
    })
}

/// The error for a directory with other contents, which it names.
fn foreign_contents(env: &dyn Env, dir: &Path, foreign: &[&DirEntry]) -> Error {
    let list = |dir: &Path| env.list(dir).unwrap_or_default();
    let data = list(&data_dir(dir)).iter().filter(|entry| is_data_file(&entry.name)).count();
    let log = list(&log_dir(dir)).iter().filter(|entry| is_log_file(&entry.name)).count();
    if data + log > 0 {
        return Error::corrupt(format!(
            "{} is part of a Millrace database: it has {data} files in data and {log} in log, but no MANIFEST",
            dir.display()
        ))
        .with_detail("Nothing in the directory was changed")
        .with_hint(
            "MANIFEST, data and log belong together: restore all of them from one backup, or name an empty directory",
        );
    }
    let mut names: Vec<String> = foreign.iter().take(NAMES_MAX).map(|entry| format!("\"{}\"", entry.name)).collect();
    if foreign.len() > NAMES_MAX {
        names.push(format!("{} more", foreign.len() - NAMES_MAX));
    }
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!(
            "{} is not empty and holds no Millrace database: it contains {}; expected a MANIFEST or an empty directory",
            dir.display(),
            names.join(", ")
        ),
    )
    .with_detail("Nothing in the directory was changed")
    .with_hint("name an empty directory, or one that does not exist yet, with --data")
}

/// Checks that the directories exist that were created before the MANIFEST, and that their files
/// match it.
///
/// # Errors
/// XX001 when a directory is missing, or when there are data files but the MANIFEST is that of an
/// empty database and so belongs to another directory.
pub(crate) fn check_parts(env: &dyn Env, dir: &Path, manifest: &Manifest) -> Result<()> {
    let list = |folder: PathBuf| match env.list(&folder) {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == Io::NotFound => {
            Err(broken(format!("{} is missing: the database is incomplete", folder.display())))
        }
        Err(error) => Err(failed("list directory", &folder, &error)),
    };
    let (data, log) = (list(data_dir(dir))?, list(log_dir(dir))?);
    let files = data.iter().filter(|entry| is_data_file(&entry.name)).count();
    let has_log = log.iter().any(|entry| is_log_file(&entry.name));
    // Data files are written by flushes, and flushed commits are in the log first.
    if manifest.flushed_lsn == Lsn::ZERO && !has_log && files > 0 {
        return Err(broken(format!(
            "{} holds {files} files of a database, but MANIFEST and log are those of an empty one",
            data_dir(dir).display()
        )));
    }
    Ok(())
}

fn broken(message: String) -> Error {
    Error::corrupt(message)
        .with_detail("Nothing in the directory was removed")
        .with_hint("MANIFEST, data and log belong together: restore all of them from one backup")
}

/// Removes files of an earlier process: files not named by the manifest, which an interrupted flush
/// or compaction left, and spill files. Call it only after the database was recovered. Returns a
/// number above that of any file that still exists. A file that cannot be removed is left until the
/// next start.
pub(crate) fn remove_leftovers(env: &dyn Env, dir: &Path, manifest: &Manifest) -> Result<u64> {
    let data = data_dir(dir);
    let named = named_files(&data, manifest);
    let entries = env.list(&data).map_err(|error| failed("list directory", &data, &error))?;
    let unnamed = entries.iter().filter(|entry| !entry.is_dir && !named.contains(&data.join(&entry.name)));
    let (ours, others): (Vec<&DirEntry>, Vec<&DirEntry>) = unnamed.partition(|entry| is_data_file(&entry.name));
    let kept = remove(&data, &ours, |path| env.remove(path));
    let next_file = kept.iter().filter_map(|name| file_number(name)).map(|number| number + 1).max().unwrap_or(0);

    let spill = spill_dir(dir);
    let entries = env.list(&spill).map_err(|error| failed("list directory", &spill, &error))?;
    let (spilled, more): (Vec<&DirEntry>, Vec<&DirEntry>) = entries.iter().partition(|entry| is_spilled(entry));
    remove(&spill, &spilled, |path| if is_dir(&spilled, path) { env.remove_dir_all(path) } else { env.remove(path) });
    for (folder, left) in [(&data, others), (&spill, more)] {
        if let Some(first) = left.first() {
            let (folder, first) = (folder.display(), &first.name);
            tracing::warn!(%folder, files = left.len(), first, "files that do not belong to Millrace were not removed");
        }
    }
    Ok(next_file)
}

fn is_dir(entries: &[&DirEntry], path: &Path) -> bool {
    entries.iter().any(|entry| entry.is_dir && path.ends_with(&entry.name))
}

/// Removes entries of a directory, logs them, and returns the names of those that remain. If a
/// crash undoes a removal, the next start repeats it.
fn remove(folder: &Path, entries: &[&DirEntry], each: impl Fn(&Path) -> std::io::Result<()>) -> Vec<String> {
    let mut kept = Vec::new();
    for entry in entries {
        let path = folder.join(&entry.name);
        if let Err(error) = each(&path) {
            tracing::warn!(path = %path.display(), %error, "an unused file could not be removed; the next start will retry");
            kept.push(entry.name.clone());
        }
    }
    if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
        let (folder, removed) = (folder.display(), entries.len() - kept.len());
        let (first, last) = (&first.name, &last.name);
        tracing::info!(%folder, removed, first, last, "removed unused files of an earlier process");
    }
    kept
}

fn named_files(data: &Path, manifest: &Manifest) -> BTreeSet<PathBuf> {
    let columns = manifest.files.values().flat_map(|files| {
        let segments = files.segments.iter().map(|meta| columns::segment_path(data, meta.file));
        segments.chain(files.series_files.iter().map(|file| columns::series_path(data, file.file)))
    });
    let rows = manifest.row_files.values().flat_map(|files| files.files().map(|file| row_file_path(data, file)));
    columns.chain(rows).collect()
}

/// The file number in the name of a data file, complete or temporary.
fn file_number(name: &str) -> Option<u64> {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let (name, form) = name.split_once('-').and_then(|(form, name)| Some((name.split_once('.')?, form)))?;
    let (digits, ending) = name;
    let is_form = matches!((form, ending), ("segment", "seg") | ("series", "ser") | ("rows", "row"));
    let is_hex = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_form && is_hex).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

fn is_data_file(name: &str) -> bool {
    file_number(name).is_some()
}

fn is_log_file(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether an entry of the spill directory has a name that statements use: directories of sorts and
/// joins, files of COPY.
fn is_spilled(entry: &DirEntry) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if entry.is_dir {
        return entry.name.starts_with("datafusion-");
    }
    entry.name.strip_prefix("copy-").is_some_and(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_names_of_our_own_forms_are_recognised() {
        for (name, number) in [
            ("segment-000000000000001f.seg", Some(31)),
            ("series-0000000000000002.ser", Some(2)),
            ("rows-0000000000000003.row", Some(3)),
            ("segment-000000000000001f.seg.tmp", Some(31)),
            ("segment-000000000000001F.seg", None),
            ("segment-1f.seg", None),
            ("segment-000000000000001f.ser", None),
            ("report.csv", None),
            ("report-2026.csv", None),
            ("thesis.tmp", None),
        ] {
            assert_eq!(file_number(name), number, "{name}");
        }
        assert!(is_log_file("0000000000000001.log") && !is_log_file("app.log") && !is_log_file("0000000000000001.txt"));
        let entry = |name: &str, is_dir| DirEntry { name: name.to_owned(), bytes: 0, is_dir };
        assert!(is_spilled(&entry("datafusion-Ab3", true)) && is_spilled(&entry("copy-17", false)));
        for (name, is_dir) in
            [("datafusion-notes.txt", false), ("copy-of-thesis", false), ("copy-", false), ("a", true)]
        {
            assert!(!is_spilled(&entry(name, is_dir)), "{name}");
        }
    }
}
