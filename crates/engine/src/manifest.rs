//! The manifest: the files that make up the database at the last flush. One file: a complete base,
//! and edits after it, each with the difference from the previous manifest. Bytes:
//! docs/format/manifest.md, pinned by the golden tests below and in `edits`.
//!
//! Always true:
//! - A base is written to a temporary file and renamed: after a crash the old or the new file
//!   exists, complete.
//! - An edit is synced before it is relied upon, and the next one is appended only after that. So
//!   all edits but the last must be intact, and the mark in the header tells whether the last one
//!   was synced. A damaged edit beyond the mark was never relied upon.
//! - An edit that frees space fits on a full disk: some space is reserved after the end of the
//!   file, and if a new base does not fit, edits may grow beyond the size of the base.
//! - After a failed append nothing more is appended: the contents on disk are unknown, and the next
//!   manifest is a new base.

mod edits;
mod states;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use columns::TableFiles;
use env::{Env, File, Open};
use model::{Error, Lsn, Result, TableId};

use crate::Catalog;
use crate::catalog_object::{CatalogObject, ObjectKey};
use crate::codec::{Put, Take};
use crate::rowfile::RowFiles;
use crate::sequence::SequenceState;

/// The first bytes of the file.
pub(crate) const MAGIC: &[u8; 8] = b"MILLRACE";
/// The format of directories, which covers all their files.
const FORMAT_VERSION: u32 = 8;
/// Bytes before the base.
const HEADER_BYTES: usize = 36;
/// Offset of the mark: the synced size of the file, and a checksum.
const MARK_AT: u64 = 24;
/// Edits may always reach this size, and otherwise the size of the base: a new base costs two syncs
/// and a rename.
const EDITS_BYTES: u64 = 64 << 10;
/// Bytes reserved after the end of the file, for edits on a full disk.
const RESERVE_BYTES: u64 = 64 << 10;
/// Limit for the number of edits, which bounds the time to open.
const EDITS_MAX: u32 = 16_384;

/// The files that make up the database, and the LSN at which log replay starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Random number drawn when the database was created; every log file carries it.
    pub identity: u64,
    /// All commits up to here are in the files below.
    pub flushed_lsn: Lsn,
    /// The log is needed from here: `flushed_lsn + 1`, or the first record of a transaction that
    /// was open at the flush.
    pub replay_from: Lsn,
    /// Above the number of every file.
    pub next_file: u64,
    /// Above the number of every table, index, sequence and view.
    pub next_table: u32,
    /// Wall time of the last commit, so that commit times never decrease, in nanoseconds.
    pub wall_ns: i64,
    /// Schemas and tables at `flushed_lsn`.
    pub catalog: Arc<Catalog>,
    /// Files of each `columns` table of the catalog.
    pub files: BTreeMap<TableId, TableFiles>,
    /// Files of each `rows` table of the catalog.
    pub row_files: BTreeMap<TableId, RowFiles>,
    /// State of each sequence of the catalog.
    pub sequences: BTreeMap<u32, SequenceState>,
    /// The trusted time of retention, see `retention::Clock`, in nanoseconds; 0 = none yet.
    pub retention_ns: i64,
    /// The file that holds this manifest.
    pub(crate) stored: Stored,
}

/// The file that a manifest was read from or written to. Not part of the database, so all values
/// compare equal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    /// Bytes of header and base.
    base_bytes: u64,
    /// Offset of the next edit.
    end: u64,
    /// Checksum of the file up to `end`: each checksum continues the previous one.
    crc: u32,
    edits: u32,
    tail: Tail,
    /// The file has reserved space up to this offset, as far as this process knows.
    reserved: u64,
}

/// State of the end of a manifest file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tail {
    /// Unknown: nothing may be appended.
    #[default]
    Unknown,
    /// The whole file is synced.
    Synced,
    /// The whole file is intact, but the mark does not cover the last edit.
    Unmarked,
    /// The last edit is incomplete. It was never relied upon.
    Torn,
}

impl PartialEq for Stored {
    fn eq(&self, _: &Stored) -> bool {
        true
    }
}

impl Eq for Stored {}

impl Stored {
    /// Whether the manifest must be rewritten before it is relied upon, because a crash could undo
    /// part of it.
    pub(crate) fn needs_rewrite(&self) -> bool {
        matches!(self.tail, Tail::Unknown | Tail::Unmarked)
    }

    /// Whether the file ends with an incomplete edit.
    pub(crate) fn is_torn(&self) -> bool {
        self.tail == Tail::Torn
    }

    /// Whether an edit may be appended.
    fn takes_edits(&self) -> bool {
        self.tail == Tail::Synced && self.edits < EDITS_MAX
    }

    /// Whether an edit of `bytes` is cheaper than a new base.
    fn has_room(&self, bytes: usize) -> bool {
        let edits = self.end - self.base_bytes + bytes as u64;
        self.takes_edits() && edits <= self.base_bytes.max(EDITS_BYTES)
    }

    /// Returns the state after a synced edit with this checksum.
    fn with_edit(self, bytes: usize, crc: u32) -> Stored {
        Stored { end: self.end + bytes as u64, crc, edits: self.edits + 1, ..self }
    }

    /// The bytes written at [`MARK_AT`] once the file is synced.
    fn mark(&self) -> [u8; 12] {
        let mut mark = [0; 12];
        mark[..8].copy_from_slice(&self.end.to_le_bytes());
        let crc = crc32c::crc32c(&mark[..8]);
        mark[8..].copy_from_slice(&crc.to_le_bytes());
        mark
    }
}

impl Manifest {
    /// The path of the manifest.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    /// Reads the manifest; `None` when there is none.
    ///
    /// # Errors
    /// XX001 when damaged, 55000 for another format version, 58030.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Option<Manifest>> {
        let path = Manifest::path(dir);
        let fail = |what: &str, error: &std::io::Error| Error::io(format!("{what} {}", path.display()), error);
        let file = match env.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail("open", &error)),
        };
        let length = || file.bytes().map_err(|error| fail("length of", &error));
        let mut bytes = Vec::new();
        // Another process that has the database open may be appending an edit.
        while bytes.len() as u64 != length()? {
            bytes.resize(length()? as usize, 0);
            file.read_at(&mut bytes, 0).map_err(|error| fail("read", &error))?;
        }
        Manifest::decode(&bytes).map(Some).map_err(|error| error.context(format!("manifest {}", path.display())))
    }

    /// Replaces the file by one with this base and no edits: after a crash either the old or the
    /// new file exists.
    pub(crate) fn write(&mut self, env: &dyn Env, dir: &Path) -> Result<()> {
        let stored = self.write_temporary(env, dir)?;
        self.put_in_place(stored, env, dir)
    }

    /// Writes a base to a temporary file; the present file is unchanged.
    fn write_temporary(&self, env: &dyn Env, dir: &Path) -> Result<Stored> {
        let path = Manifest::path(dir);
        let bytes = self.encode();
        debug_assert!(Manifest::decode(&bytes).as_ref() == Ok(self), "BUG: the manifest is unreadable");
        env::write_temporary(env, &path, &bytes)
            .map_err(|error| Error::io(format!("replace {}", path.display()), &error))?;
        let end = bytes.len() as u64;
        Ok(Stored { base_bytes: end, end, crc: crc_of(&bytes), edits: 0, tail: Tail::Synced, reserved: 0 })
    }

    fn put_in_place(&mut self, mut stored: Stored, env: &dyn Env, dir: &Path) -> Result<()> {
        let path = Manifest::path(dir);
        env::put_in_place(env, &path).map_err(|error| Error::io(format!("replace {}", path.display()), &error))?;
        if let Ok(file) = env.open(&path, Open::ReadWrite) {
            reserve(&mut stored, 0, &*file);
        }
        self.stored = stored;
        Ok(())
    }

    /// Replaces this manifest by `next` on disk: by an edit, or by a new base when the edits have
    /// reached the size of the base. The amortised cost is proportional to the change.
    ///
    /// # Errors
    /// 58030, 53100: either manifest may be on disk.
    pub(crate) fn replace_by(&mut self, next: &mut Manifest, env: &dyn Env, dir: &Path) -> Result<()> {
        let stored = std::mem::take(&mut self.stored);
        let edit = (stored.tail == Tail::Synced).then(|| edits::encode(self, next, stored.crc));
        debug_assert!(edits::leads_to(self, next), "BUG: the edit of the manifest does not lead to its successor");
        if let Some(edit) = edit.as_ref().filter(|edit| stored.has_room(edit.len())) {
            next.stored = append(stored, edit, env, dir)?;
            return Ok(());
        }
        match next.write_temporary(env, dir) {
            Ok(written) => next.put_in_place(written, env, dir),
            Err(error) => {
                // The present file is unchanged.
                let edit = edit.filter(|_| error.state() == model::SqlState::DISK_FULL && stored.takes_edits());
                let Some(edit) = edit else {
                    self.stored = stored;
                    return Err(error);
                };
                next.stored = append(stored, &edit, env, dir)?;
                Ok(())
            }
        }
    }

    /// Encodes a file with this base and no edits.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_u64(self.identity);
        self.put_numbers(&mut body);
        body.put_u32(self.catalog.objects().count() as u32);
        for object in self.catalog.objects() {
            object.encode(&mut body);
            body.put_bytes(&self.state(&object.key()));
        }
        let mut out = Vec::with_capacity(body.len() + HEADER_BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u32(FORMAT_VERSION);
        let length = (body.len() as u64).to_le_bytes();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&length), &body);
        out.put_u32(crc);
        out.extend_from_slice(&length);
        let end = (HEADER_BYTES + body.len()) as u64;
        out.extend_from_slice(&Stored { end, ..Stored::default() }.mark());
        out.extend_from_slice(&body);
        out
    }

    /// Encodes the fields that base and edits begin with.
    fn put_numbers(&self, out: &mut Vec<u8>) {
        out.put_u64(self.flushed_lsn.0);
        out.put_u64(self.replay_from.0);
        out.put_u64(self.next_file);
        out.put_u32(self.next_table);
        out.put_i64(self.wall_ns);
        out.put_i64(self.retention_ns);
    }

    /// Decodes a file, base and edits; all bytes are validated.
    ///
    /// # Errors
    /// XX001, or 55000 naming both versions.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        let mut take = Take::new(bytes, "manifest");
        if take.take(8)? != MAGIC {
            return Err(take.malformed("does not begin with MILLRACE"));
        }
        let version = take.u32()?;
        if version != FORMAT_VERSION {
            return Err(Error::new(
                model::SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the directory has format version {version}; this program reads version {FORMAT_VERSION}"),
            ));
        }
        let crc = take.u32()?;
        let length = take.take(8)?;
        let mark = take.take(12)?;
        let body = take.take(usize::try_from(u64_of(length)).unwrap_or(usize::MAX))?;
        check_crc(&take, crc32c::crc32c_append(crc32c::crc32c(length), body), crc)?;
        let mut parts = ManifestBuilder::decode(body)?;
        let base_bytes = (HEADER_BYTES + body.len()) as u64;
        let mut stored = Stored { base_bytes, end: base_bytes, crc, edits: 0, tail: Tail::Synced, reserved: 0 };
        // A damaged mark is ignored: it was being written when a crash occurred, and edits have
        // checksums of their own.
        let is_mark = crc32c::crc32c(&mark[..8]).to_le_bytes() == mark[8..];
        let synced = if is_mark { u64_of(mark) } else { base_bytes };
        edits::read(&mut parts, &mut stored, take.rest(), synced)?;
        Ok(Manifest { stored, ..parts.finish()? })
    }
}

/// Reserves space after the end for later edits, when half of the reserved space is used. If that
/// fails, the space reserved before remains.
fn reserve(stored: &mut Stored, bytes: usize, file: &dyn File) {
    let end = stored.end + bytes as u64;
    if stored.reserved < end + RESERVE_BYTES / 2 && file.reserve(end + RESERVE_BYTES).is_ok() {
        stored.reserved = end + RESERVE_BYTES;
    }
}

/// Appends an edit and syncs it.
fn append(mut stored: Stored, edit: &[u8], env: &dyn Env, dir: &Path) -> Result<Stored> {
    assert!(stored.takes_edits(), "BUG: an edit is appended to a manifest in state {:?}", stored.tail);
    let path = Manifest::path(dir);
    let fail = |what: &str, error: &std::io::Error| Error::io(format!("{what} {}", path.display()), error);
    let file = env.open(&path, Open::ReadWrite).map_err(|error| fail("open", &error))?;
    reserve(&mut stored, edit.len(), &*file);
    file.write_at(edit, stored.end).map_err(|error| fail("append to", &error))?;
    file.sync().map_err(|error| fail("sync", &error))?;
    let next = stored.with_edit(edit.len(), edits::crc_of(edit));
    // The edit is durable without the mark, which is synced with the next edit at the latest.
    match file.write_at(&next.mark(), MARK_AT) {
        Ok(()) => Ok(next),
        Err(_) => Ok(Stored { tail: Tail::Unknown, ..next }),
    }
}

/// The checksum of the base, from the header.
fn crc_of(file: &[u8]) -> u32 {
    u32::from_le_bytes([file[12], file[13], file[14], file[15]])
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn check_crc(take: &Take<'_>, seen: u32, expected: u32) -> Result<()> {
    if seen == expected {
        return Ok(());
    }
    Err(take.malformed(&format!("has checksum {seen:08x}, expected {expected:08x}")))
}

/// A manifest while it is decoded. Its catalog is built at the end, because two objects may have one
/// name between edits.
#[derive(Default)]
struct ManifestBuilder {
    /// The manifest with an empty catalog.
    manifest: Manifest,
    objects: BTreeMap<ObjectKey, CatalogObject>,
}

impl ManifestBuilder {
    /// Decodes a base.
    fn decode(body: &[u8]) -> Result<ManifestBuilder> {
        let mut take = Take::new(body, "manifest");
        let identity = take.u64()?;
        let mut parts = ManifestBuilder::default();
        parts.manifest.identity = identity;
        parts.take_numbers(&mut take)?;
        for _ in 0..take.count(13)? {
            let object = CatalogObject::decode(&mut take)?;
            let key = object.key();
            parts.manifest.set_state(&key, take.bytes()?)?;
            if parts.objects.insert(key, object).is_some() {
                return Err(take.malformed("has an object twice"));
            }
        }
        take.end()?;
        Ok(parts)
    }

    /// Decodes the fields that base and edits begin with.
    fn take_numbers(&mut self, take: &mut Take<'_>) -> Result<()> {
        let manifest = &mut self.manifest;
        manifest.flushed_lsn = Lsn(take.u64()?);
        manifest.replay_from = Lsn(take.u64()?);
        manifest.next_file = take.u64()?;
        manifest.next_table = take.u32()?;
        manifest.wall_ns = take.i64()?;
        manifest.retention_ns = take.i64()?;
        Ok(())
    }

    fn finish(self) -> Result<Manifest> {
        let ManifestBuilder { mut manifest, objects } = self;
        let mut numbers = BTreeSet::new();
        let mut catalog = Catalog::default();
        for (key, object) in objects {
            let is_new = key.number().is_none_or(|number| numbers.insert(number));
            if !is_new && catalog.has_number_of(&object) {
                return Err(Error::corrupt(format!("manifest has {key}, and another object with this number")));
            }
            catalog = catalog.with_object(object).map_err(|error| Error::corrupt(format!("manifest: {error}")))?;
        }
        catalog.check_views().map_err(|error| Error::corrupt(format!("manifest: {error}")))?;
        manifest.catalog = Arc::new(catalog);
        Ok(manifest)
    }
}
