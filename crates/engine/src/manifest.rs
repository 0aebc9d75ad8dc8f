//! The manifest: which files make up the database at the last flush. One file, replaced whole.
//! Bytes: docs/format/manifest.md, pinned by the golden test below.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use columns::TableFiles;
use env::{Env, Open};
use model::{Error, Lsn, Result, SequenceSpec, TableId};

use crate::Catalog;
use crate::codec::{Put, Take};
use crate::record::{decode_row_table, decode_table, encode_row_table, encode_table};
use crate::rowfile::RowFiles;
use crate::sequence::{Counts, SequenceState};

/// "millrace" as bytes.
const MAGIC: &[u8; 8] = b"MILLRACE";
/// The format of directories that this version writes.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// The oldest it reads: version 1 has no `rows` tables and no sequences; versions 1 and 2 have no retention and no history.
const FORMAT_VERSION_MIN: u32 = 1;

/// Which files make up the database, and from where the log goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The database's number, drawn when it was made; every file of the log carries it.
    pub identity: u64,
    /// All commits up to here are in the files below.
    pub flushed_lsn: Lsn,
    /// The log is needed from here: `flushed_lsn + 1`, or the first record of a transaction that was open at the flush.
    pub replay_from: Lsn,
    /// No file has this number or a higher one.
    pub next_file: u64,
    /// No table, index or sequence has this number or a higher one.
    pub next_table: u32,
    /// Wall time of the last commit, so that time never goes back.
    pub wall_ns: i64,
    /// Schemas and tables at `flushed_lsn`.
    pub catalog: Arc<Catalog>,
    /// Files of each `columns` table of the catalog.
    pub files: BTreeMap<TableId, TableFiles>,
    /// Files of each `rows` table of the catalog.
    pub row_files: BTreeMap<TableId, RowFiles>,
    /// Where each sequence of the catalog goes on.
    pub sequences: BTreeMap<u32, SequenceState>,
    /// Retention believes the clock up to here, see `retention::Clock`; 0 = there was none yet.
    pub retention_ns: i64,
    /// The format it was read in.
    pub(crate) version: Version,
}

/// The version of the format that a manifest was read in. It says nothing of the database, so that all are equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version(pub(crate) u32);

impl Default for Version {
    fn default() -> Version {
        Version(FORMAT_VERSION)
    }
}

impl PartialEq for Version {
    fn eq(&self, _: &Version) -> bool {
        true
    }
}

impl Eq for Version {}

impl Manifest {
    /// Where it lies.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    /// Reads it; `None` when there is none.
    ///
    /// # Errors
    /// XX001 when damaged, 55000 when of another version, 58030.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Option<Manifest>> {
        let path = Manifest::path(dir);
        let fail = |what: &str, error: &std::io::Error| Error::io(format!("{what} {}", path.display()), error);
        let file = match env.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail("open", &error)),
        };
        let mut bytes = vec![0; file.bytes().map_err(|error| fail("length of", &error))? as usize];
        file.read_at(&mut bytes, 0).map_err(|error| fail("read", &error))?;
        Manifest::decode(&bytes).map(Some).map_err(|error| error.context(format!("manifest {}", path.display())))
    }

    /// Replaces it: after a crash either the old or the new one is there.
    pub(crate) fn write(&self, env: &dyn Env, dir: &Path) -> Result<()> {
        let path = Manifest::path(dir);
        env::replace_file(env, &path, &self.encode())
            .map_err(|error| Error::io(format!("replace {}", path.display()), &error))
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_u64(self.identity);
        body.put_u64(self.flushed_lsn.0);
        body.put_u64(self.replay_from.0);
        body.put_u64(self.next_file);
        body.put_u32(self.next_table);
        body.put_i64(self.wall_ns);
        let schemas: Vec<&str> = self.catalog.schemas().collect();
        body.put_u32(schemas.len() as u32);
        for schema in schemas {
            body.put_bytes(schema.as_bytes());
        }
        body.put_u32(self.files.len() as u32);
        for (id, files) in &self.files {
            let table = self.catalog.table_by_id(*id).expect("BUG: files of a table that the catalog does not have");
            body.put_bytes(&encode_table(table));
            let mut bytes = Vec::new();
            files.encode(&mut bytes);
            body.put_bytes(&bytes);
        }
        body.put_u32(self.row_files.len() as u32);
        for (id, files) in &self.row_files {
            let table =
                self.catalog.row_table_by_id(*id).expect("BUG: files of a table that the catalog does not have");
            body.put_bytes(&encode_row_table(table));
            let mut bytes = Vec::new();
            files.encode(&mut bytes);
            body.put_bytes(&bytes);
        }
        body.put_u32(self.sequences.len() as u32);
        for (id, state) in &self.sequences {
            let sequence = self.catalog.sequence_by_id(*id).expect("BUG: a sequence that the catalog does not have");
            let mut bytes = Vec::new();
            sequence.encode(&mut bytes);
            state.encode(&mut bytes);
            body.put_bytes(&bytes);
        }
        body.put_i64(self.retention_ns);
        let mut out = Vec::with_capacity(body.len() + 16);
        out.extend_from_slice(MAGIC);
        out.put_u32(FORMAT_VERSION);
        out.put_u32(crc32c::crc32c(&body));
        out.extend_from_slice(&body);
        out
    }

    /// Reads what [`Manifest::encode`] wrote; bytes are checked, never trusted.
    ///
    /// # Errors
    /// XX001, or 55000 for another version, naming both.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        let mut take = Take::new(bytes, "manifest");
        if take.take(8)? != MAGIC {
            return Err(take.malformed("does not begin with MILLRACE"));
        }
        let version = take.u32()?;
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
            return Err(Error::new(
                model::SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "the directory has format version {version}; this program reads versions {FORMAT_VERSION_MIN} to \
                     {FORMAT_VERSION}"
                ),
            ));
        }
        let expected = take.u32()?;
        let body = take.rest();
        let seen = crc32c::crc32c(body);
        if seen != expected {
            return Err(take.malformed(&format!("has checksum {seen:08x}, expected {expected:08x}")));
        }
        decode_body(body, version)
    }
}

fn decode_body(body: &[u8], version: u32) -> Result<Manifest> {
    let mut take = Take::new(body, "manifest");
    let mut manifest = Manifest {
        identity: take.u64()?,
        flushed_lsn: Lsn(take.u64()?),
        replay_from: Lsn(take.u64()?),
        next_file: take.u64()?,
        next_table: take.u32()?,
        wall_ns: take.i64()?,
        version: Version(version),
        ..Manifest::default()
    };
    let mut catalog = Catalog::default();
    for _ in 0..take.count(4)? {
        let schema = take.text()?;
        if !catalog.has_schema(schema) {
            catalog = catalog.with_schema(schema)?;
        }
    }
    for _ in 0..take.count(8)? {
        let table = Arc::new(decode_table(&mut Take::new(take.bytes()?, "table"))?);
        let mut bytes = take.bytes()?;
        let files = TableFiles::decode(&mut bytes, version)?;
        if !bytes.is_empty() || catalog.table_by_id(table.id).is_some() || catalog.table(&table.name).is_some() {
            return Err(take.malformed(&format!("has table {} twice, or too many bytes of it", table.name)));
        }
        manifest.files.insert(table.id, files);
        catalog = catalog.with_table(table)?;
    }
    if version >= 2 {
        for _ in 0..take.count(8)? {
            let table = decode_row_table(&mut Take::new(take.bytes()?, "table"))?;
            let files = RowFiles::decode(&mut Take::new(take.bytes()?, "files of a table"))?;
            if catalog.table_by_id(table.id).is_some() || catalog.row_table_by_id(table.id).is_some() {
                return Err(take.malformed(&format!("has table {} twice", table.name)));
            }
            manifest.row_files.insert(table.id, files);
            catalog = catalog.with_row_table(table)?;
        }
        for _ in 0..take.count(4)? {
            let mut bytes = Take::new(take.bytes()?, "sequence");
            let (sequence, state) = (SequenceSpec::decode(&mut bytes)?, SequenceState::decode(&mut bytes)?);
            bytes.end()?;
            if manifest.sequences.insert(sequence.id, state).is_some() {
                return Err(take.malformed(&format!("has sequence {} twice", sequence.name)));
            }
            catalog = catalog.with_sequence(Arc::new(sequence))?;
        }
    }
    if version >= 3 {
        manifest.retention_ns = take.i64()?;
    }
    take.end()?;
    manifest.catalog = Arc::new(catalog);
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_bytes_are_exactly_these() {
        let manifest = Manifest {
            identity: 0x0102_0304_0506_0708,
            flushed_lsn: Lsn(9),
            replay_from: Lsn(10),
            next_file: 11,
            next_table: 12,
            wall_ns: -1,
            retention_ns: 13,
            ..Manifest::default()
        };
        let bytes = manifest.encode();
        #[rustfmt::skip]
        let body = [
            8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0,
            12, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
            1, 0, 0, 0, 6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..12], *b"MILLRACE\x03\0\0\0");
        assert_eq!(bytes[16..], body);
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        // Version 2 ends before the clock of retention, version 1 before the tables that it does not have.
        for (version, missing) in [(2, 8), (1, 16)] {
            let mut old = bytes[..bytes.len() - missing].to_vec();
            old[8] = version;
            let sum = crc32c::crc32c(&old[16..]).to_le_bytes();
            old[12..16].copy_from_slice(&sum);
            assert_eq!(Manifest::decode(&old).unwrap(), Manifest { retention_ns: 0, ..manifest.clone() });
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_refused() {
        let bytes = Manifest::default().encode();
        for cut in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut wild = bytes.clone();
            wild[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&wild).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_table_that_is_there_twice_is_refused() {
        let column =
            |id, ty, role| model::Column { id: model::ColumnId(id), name: format!("c{id}"), ty, nullable: false, role };
        let table = model::Table {
            id: TableId(1),
            name: model::TableName::public("t"),
            version: 1,
            keyed: true,
            columns: vec![column(0, model::DataType::Timestamp, model::ColumnRole::Time)],
            next_column_id: model::ColumnId(1),
            options: model::TableOptions::default(),
        };
        let catalog = Catalog::default().with_table(Arc::new(table)).unwrap();
        let files = BTreeMap::from([(TableId(1), TableFiles::default())]);
        let manifest = Manifest { catalog: Arc::new(catalog), files, ..Manifest::default() };
        let once = manifest.encode();
        assert_eq!(Manifest::decode(&once).unwrap(), manifest);
        let count_at = Manifest::default().encode().len() - 20;
        let table = count_at + 4..once.len() - 16;
        let mut twice = [&once[..table.end], &once[table.start..]].concat();
        twice[count_at] = 2;
        let sum = crc32c::crc32c(&twice[16..]).to_le_bytes();
        twice[12..16].copy_from_slice(&sum);
        assert!(Manifest::decode(&twice).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn unknown_version_is_refused_and_both_versions_named() {
        let mut bytes = Manifest::default().encode();
        bytes[8] = 9;
        let error = Manifest::decode(&bytes).unwrap_err();
        assert!(error.message().contains("version 9") && error.message().contains("versions 1 to 3"), "{error}");
    }
}
