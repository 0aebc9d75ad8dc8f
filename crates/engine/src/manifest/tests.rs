//! Tests of manifests: their bytes, edits between them, and failing disks.

use std::ops::Range;

use columns::{SegmentMeta, SeriesFile, Tombstone};
use env::sim::{Faults, SimEnv};
use model::{
    Column, ColumnId, ColumnRole, DataType, RowColumn, RowSchema, SequenceSpec, Table, TableName, TableOptions,
    TimeRange, Type, ViewColumn, ViewReference, ViewReferenceColumn, ViewSpec,
};

use super::*;
use crate::rowfile::RowPart;

/// A file with this base and no edits.
fn with_body(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u64).to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&length), body);
    let mark = Stored { end: (HEADER_BYTES + body.len()) as u64, ..Stored::default() }.mark();
    [&MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &crc.to_le_bytes(), &length, &mark, body].concat()
}

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
        catalog: Arc::new(Catalog::default().with_schema("s").unwrap()),
        ..Manifest::default()
    };
    let bytes = manifest.encode();
    #[rustfmt::skip]
    let body = [
        8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0,
        12, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
        13, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 1, 1, 0, 0, 0, b's', 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(bytes[..8], *b"MILLRACE");
    assert_eq!(bytes[8..12], FORMAT_VERSION.to_le_bytes());
    assert_eq!(bytes[16..32], [70, 0, 0, 0, 0, 0, 0, 0, 106, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[36..], body);
    assert_eq!(bytes, with_body(&body));
    assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
}

#[test]
fn every_truncation_and_flipped_bit_outside_the_mark_is_refused() {
    let bytes = Manifest::default().encode();
    for cut in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mark = MARK_AT as usize..HEADER_BYTES;
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let read = Manifest::decode(&damaged).ok();
        assert_eq!(read, mark.contains(&(bit / 8)).then(Manifest::default), "bit {bit}");
    }
}

#[test]
fn a_duplicate_table_is_refused() {
    let table = table(1, "t");
    let catalog = Catalog::default().with_table(Arc::new(table)).unwrap();
    let files = BTreeMap::from([(TableId(1), TableFiles::default())]);
    let manifest = Manifest { catalog: Arc::new(catalog), files, ..Manifest::default() };
    let once = manifest.encode();
    assert_eq!(Manifest::decode(&once).unwrap(), manifest);
    let count_at = Manifest::default().encode().len() - 4;
    let mut twice = [&once[..], &once[count_at + 4..]].concat();
    twice[count_at] = 2;
    let twice = with_body(&twice[HEADER_BYTES..]);
    assert!(Manifest::decode(&twice).unwrap_err().to_string().contains("twice"));
}

#[test]
fn unknown_version_is_refused_and_both_versions_named() {
    let mut bytes = Manifest::default().encode();
    bytes[8] = 0xee;
    let error = Manifest::decode(&bytes).unwrap_err();
    assert!(error.message().contains(&format!("version {}", bytes[8])), "{error}");
    assert!(error.message().contains(&format!("version {FORMAT_VERSION}")), "{error}");
}

/// A table with only a time column.
fn table(id: u32, name: &str) -> Table {
    let column = Column {
        id: ColumnId(0),
        name: "time".into(),
        ty: DataType::Timestamp,
        nullable: false,
        role: ColumnRole::Time,
    };
    Table {
        id: TableId(id),
        name: TableName::public(name),
        version: 1,
        keyed: true,
        columns: vec![column],
        next_column_id: ColumnId(1),
        options: TableOptions::default(),
        rules: Arc::default(),
    }
}

fn row_table(id: u32, name: &str) -> RowSchema {
    RowSchema {
        id: TableId(id),
        name: TableName::public(name),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![RowColumn::new("a", Type::Int4)],
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    }
}

fn sequence(id: u32, name: &str) -> SequenceSpec {
    let (min, max) = (1, 1_000);
    let name = TableName::public(name);
    SequenceSpec { id, name, ty: Type::Int8, start: 1, increment: 1, min, max, cache: 1, cycle: false, owner: None }
}

fn view(id: u32, name: &str) -> ViewSpec {
    let columns = vec![ViewColumn { name: "a".into(), ty: 23, typmod: -1 }];
    let (name, query) = (TableName::public(name), "SELECT 1 AS a".to_owned());
    ViewSpec {
        id,
        name,
        version: 1,
        columns,
        query,
        references: Vec::new(),
        base: None,
        check: None,
        materialized: None,
    }
}

/// A manifest with a view of something that does not exist would be a database that no statement can repair.
#[test]
fn a_view_of_a_missing_table_is_refused() {
    let column = ViewReferenceColumn { number: 0, name: "a".into(), ty: 23, typmod: -1 };
    let of = |object, column| {
        let reference = ViewReference { name: TableName::public("r"), object, columns: vec![column] };
        let view = ViewSpec { references: vec![reference], ..view(9, "v") };
        let catalog = Catalog::default().with_row_table(Arc::new(row_table(8, "r"))).unwrap();
        let catalog = Arc::new(catalog.with_view(Arc::new(view)).unwrap());
        let row_files = BTreeMap::from([(TableId(8), RowFiles::default())]);
        Manifest::decode(&Manifest { catalog, row_files, ..Manifest::default() }.encode())
    };
    assert!(of(8, column.clone()).is_ok());
    assert!(of(7, column.clone()).unwrap_err().message().contains("depends on it"));
    assert!(of(8, ViewReferenceColumn { number: 1, ..column.clone() }).is_err());
    assert!(of(8, ViewReferenceColumn { ty: 20, ..column }).is_err());
}

/// Random numbers by SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 31) % end
    }

    fn segment(&mut self) -> SegmentMeta {
        let file = self.below(1 << 40);
        let times = TimeRange { start: 1, last: 2 };
        SegmentMeta { file, lsns: (Lsn(1), Lsn(2)), times, series: (0, 1), rows: 1, bytes: 100 }
    }

    fn change_files(&mut self, files: &mut TableFiles) {
        for _ in 0..self.below(3) {
            let segment = self.segment();
            let at = self.below(files.segments.len() as u64 + 1) as usize;
            files.segments.insert(if self.below(4) == 0 { at } else { files.segments.len() }, segment);
        }
        if self.below(4) == 0 && !files.segments.is_empty() {
            let from = self.below(files.segments.len() as u64) as usize;
            let to = files.segments.len().min(from + 3);
            files.segments.drain(from..to);
        }
        match self.below(4) {
            0 => files.tombstones.clear(),
            1 => files.tombstones.push(Tombstone {
                lsn: Lsn(self.below(100)),
                committed: 5,
                series: None,
                times: TimeRange::ALL,
            }),
            2 => {
                let from = files.series_count();
                files.series_files.push(SeriesFile { file: self.below(1 << 40), from, to: from + 1 });
            }
            _ => files.kept_from = self.below(1_000).cast_signed(),
        }
    }

    fn change_row_files(&mut self, files: &mut RowFiles) {
        if self.below(5) == 0 {
            *files = RowFiles { since: files.since + 1, parts: Vec::new() };
        }
        let part = self.below(6);
        files.parts.retain(|other| other.part != part);
        let file = self.below(1 << 40);
        let at = files.parts.partition_point(|other| other.part < part);
        files.parts.insert(at, RowPart { part, file, lsn: Lsn(self.below(100)), bytes: 7, rows: 8 });
        if self.below(3) == 0 {
            files.parts.truncate(2);
        }
    }

    /// A successor of `old` with random additions, changes and removals.
    fn next(&mut self, old: &Manifest) -> Manifest {
        let mut next = old.clone();
        next.flushed_lsn = Lsn(old.flushed_lsn.0 + self.below(10));
        next.replay_from = next.flushed_lsn.next();
        (next.next_file, next.wall_ns) = (old.next_file + 3, old.wall_ns + 5);
        next.retention_ns = old.retention_ns + self.below(2).cast_signed();
        let mut catalog = (*old.catalog).clone();
        let id = self.below(4) as u32;
        // Names are reused by other tables.
        let name = format!("t{}", self.below(5));
        let is_free = |catalog: &Catalog| !catalog.has_relation(&TableName::public(&*name));
        match self.below(14) {
            0 => {
                catalog = catalog.without_table(TableId(id));
                next.files.remove(&TableId(id));
            }
            1 => {
                catalog = catalog.without_table(TableId(10 + id));
                next.row_files.remove(&TableId(10 + id));
            }
            2 => {
                catalog = catalog.without_sequence(20 + id);
                next.sequences.remove(&(20 + id));
            }
            3 | 4 if is_free(&catalog) && catalog.table_by_id(TableId(id)).is_none() => {
                catalog = catalog.with_table(Arc::new(table(id, &name))).unwrap();
                next.files.entry(TableId(id)).or_default();
            }
            5 if is_free(&catalog) => {
                catalog = catalog.with_row_table(Arc::new(row_table(10 + id, &name))).unwrap();
                next.row_files.entry(TableId(10 + id)).or_default();
            }
            6 if is_free(&catalog) => {
                catalog = catalog.with_sequence(Arc::new(sequence(20 + id, &name))).unwrap();
                next.sequences.insert(20 + id, SequenceState { last: 1, is_called: false });
            }
            7 if !catalog.has_schema(&name) => catalog = catalog.with_schema(&name).unwrap(),
            8 if catalog.has_schema(&name) => catalog = catalog.without_schema(&name).unwrap(),
            9 if is_free(&catalog) => catalog = catalog.with_view(Arc::new(view(30 + id, &name))).unwrap(),
            10 => catalog = catalog.without_view(30 + id),
            11 => {
                if let Some(old) = catalog.table_by_id(TableId(id)) {
                    let changed = Table { version: old.version + 1, ..(**old).clone() };
                    catalog = catalog.with_table(Arc::new(changed)).unwrap();
                }
            }
            _ => {}
        }
        next.catalog = Arc::new(catalog);
        next.files.values_mut().for_each(|files| self.change_files(files));
        next.row_files.values_mut().for_each(|files| self.change_row_files(files));
        for state in next.sequences.values_mut().filter(|state| state.last < 500) {
            *state = SequenceState { last: state.last + 1, is_called: true };
        }
        next
    }
}

const DIR: &str = "/db";

fn disk(seed: u64) -> SimEnv {
    let env = SimEnv::new(seed);
    env.create_dir_all(Path::new(DIR)).unwrap();
    env.sync_dir(Path::new("/")).unwrap();
    env
}

fn read(env: &SimEnv) -> Manifest {
    Manifest::read(env, Path::new(DIR)).unwrap().unwrap()
}

fn bytes_of(env: &SimEnv) -> Vec<u8> {
    let file = env.open(&Manifest::path(Path::new(DIR)), Open::Read).unwrap();
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn successive_edits_decode_like_a_complete_base() {
    for seed in 0..20 {
        let (env, mut random) = (disk(seed), Random(seed));
        let mut manifest = Manifest { identity: 5, ..Manifest::default() };
        manifest.write(&env, Path::new(DIR)).unwrap();
        let (mut edits, mut bases) = (0, 0);
        for _ in 0..400 {
            let mut next = random.next(&manifest);
            manifest.replace_by(&mut next, &env, Path::new(DIR)).unwrap();
            manifest = next;
            let whole = Manifest::decode(&manifest.encode()).unwrap();
            assert_eq!((&whole, &read(&env)), (&manifest, &manifest), "seed {seed}");
            *(if manifest.stored.edits == 0 { &mut bases } else { &mut edits }) += 1;
            let stored = manifest.stored;
            assert!(stored.end <= 2 * stored.base_bytes.max(EDITS_BYTES), "{stored:?}");
        }
        assert!(edits > 300, "seed {seed}: {edits} edits and {bases} bases");
    }
}

#[test]
fn a_new_base_is_written_when_edits_reach_its_size() {
    let (env, mut random) = (disk(1), Random(1));
    let catalog = Catalog::default().with_table(Arc::new(table(1, "t"))).unwrap();
    let segments: Vec<SegmentMeta> = (0..2_000).map(|_| random.segment()).collect();
    let files = BTreeMap::from([(TableId(1), TableFiles { segments, ..TableFiles::default() })]);
    let mut manifest = Manifest { catalog: Arc::new(catalog), files, ..Manifest::default() };
    manifest.write(&env, Path::new(DIR)).unwrap();
    let base = manifest.stored.base_bytes;
    assert!(base > EDITS_BYTES);
    let mut written = 0;
    for _ in 0..1_000 {
        let mut next = manifest.clone();
        next.files.get_mut(&TableId(1)).unwrap().segments.push(random.segment());
        let before = manifest.stored.end;
        manifest.replace_by(&mut next, &env, Path::new(DIR)).unwrap();
        let stored = next.stored;
        written += if stored.edits == 0 { stored.base_bytes } else { stored.end - before };
        manifest = next;
    }
    assert!(written < 1_000 * 500, "{} bytes a time", written / 1_000);
    assert_eq!(read(&env), manifest);
}

#[test]
fn edit_bytes_are_exactly_these() {
    let (old, files) =
        (Manifest::default(), TableFiles { segments: vec![Random(1).segment()], ..TableFiles::default() });
    let catalog = Catalog::default().with_table(Arc::new(table(3, "t"))).unwrap();
    let new = Manifest {
        flushed_lsn: Lsn(9),
        replay_from: Lsn(10),
        next_file: 11,
        next_table: 12,
        wall_ns: -1,
        retention_ns: 13,
        catalog: Arc::new(catalog),
        files: BTreeMap::from([(TableId(3), files.clone())]),
        ..Manifest::default()
    };
    let edit = edits::encode(&old, &new, 0x0102_0304);
    let mut payload = vec![9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0];
    payload.extend([255; 8]);
    payload.extend([13, 0, 0, 0, 0, 0, 0, 0, 1]);
    new.catalog.object(&ObjectKey::Table(TableId(3))).unwrap().encode(&mut payload);
    let mut change = Vec::new();
    files.encode_change(&TableFiles::default(), &mut change);
    payload.extend([3, 2, 4, 0, 0, 0, 3, 0, 0, 0]);
    payload.put_bytes(&change);
    assert_eq!(edit[..4], (payload.len() as u32).to_le_bytes());
    assert_eq!(edit[8..], payload);
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(0x0102_0304, &edit[..4]), &payload);
    assert_eq!(edit[4..8], crc.to_le_bytes());
}

/// A file with a base and edits; the manifest after each of them, and the offset of each end, the
/// base first.
fn edited(count: usize) -> (Vec<u8>, Vec<Manifest>, Vec<usize>) {
    let (env, mut random) = (disk(3), Random(3));
    let mut manifest = Manifest { identity: 7, ..Manifest::default() };
    manifest.write(&env, Path::new(DIR)).unwrap();
    let (mut manifests, mut ends) = (vec![manifest.clone()], vec![manifest.stored.end as usize]);
    for _ in 0..count {
        let mut next = random.next(&manifest);
        manifest.replace_by(&mut next, &env, Path::new(DIR)).unwrap();
        manifest = next;
        manifests.push(manifest.clone());
        ends.push(manifest.stored.end as usize);
    }
    (bytes_of(&env), manifests, ends)
}

/// Replaces the mark of a file by one at offset `synced`.
fn marked(mut file: Vec<u8>, synced: usize) -> Vec<u8> {
    let mark = Stored { end: synced as u64, ..Stored::default() }.mark();
    file[MARK_AT as usize..HEADER_BYTES].copy_from_slice(&mark);
    file
}

#[test]
fn unsynced_edits_may_be_truncated_anywhere_and_synced_ones_may_not() {
    let (file, manifests, ends) = edited(20);
    for cut in ends[0]..file.len() {
        let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
        for synced in [ends[0], ends[whole]] {
            let read = Manifest::decode(&marked(file[..cut].to_vec(), synced)).unwrap();
            assert_eq!(read, manifests[whole], "cut at {cut}");
            assert_eq!(read.stored.is_torn(), cut > ends[whole]);
            assert_eq!(read.stored.needs_rewrite(), cut == ends[whole] && synced < cut);
        }
        let error = Manifest::decode(&marked(file[..cut].to_vec(), ends[whole + 1])).unwrap_err();
        assert!(error.message().contains("damaged or missing"), "cut at {cut}: {error}");
    }
}

#[test]
fn flipped_bits_are_refused_in_synced_edits_and_drop_unsynced_ones() {
    let (file, manifests, ends) = edited(4);
    for bit in ends[0] * 8..file.len() * 8 {
        let edit_at = ends.iter().rposition(|end| *end <= bit / 8).unwrap();
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&damaged).is_err(), "bit {bit}");
        assert_eq!(Manifest::decode(&marked(damaged, ends[edit_at])).unwrap(), manifests[edit_at], "bit {bit}");
    }
}

#[test]
fn edits_of_another_file_or_out_of_order_are_ignored() {
    let (file, manifests, ends) = edited(3);
    let edit = |number: usize| &file[ends[number - 1]..ends[number]];
    let twice = marked([&file[..ends[1]], edit(1)].concat(), ends[1]);
    assert_eq!(Manifest::decode(&twice).unwrap(), manifests[1]);
    let skipped = marked([&file[..ends[0]], edit(2), edit(3)].concat(), ends[0]);
    assert_eq!(Manifest::decode(&skipped).unwrap(), manifests[0]);
}

/// Writes successive manifests on a failing disk, as the engine does: after a failed write comes
/// another. After a crash the disk has the last one written, or one of the failed ones after it.
fn survives(seed: u64, faults: Faults, fail: Range<u64>) -> u64 {
    let (env, mut random, dir) = (disk(seed), Random(seed), Path::new(DIR));
    let mut manifest = Manifest { identity: 5, ..Manifest::default() };
    manifest.write(&env, dir).unwrap();
    env.set_faults(faults);
    let (mut failed, mut candidates) = (0, vec![manifest.clone()]);
    for round in 0..30 {
        let mut next = random.next(&manifest);
        if fail.contains(&round) {
            env.fail_at(env.io_calls() + 1 + random.below(5));
        }
        if manifest.replace_by(&mut next, &env, dir).is_ok() {
            candidates.clear();
            manifest = next.clone();
        } else {
            failed += 1;
        }
        candidates.push(next);
        if random.below(4) == 0 {
            env.heal();
            if random.below(2) == 0 {
                env.crash()
            } else {
                env.kill()
            }
            // The engine does this before it reads.
            env.sync_dir(dir).unwrap();
            manifest = read(&env);
            assert!(candidates.contains(&manifest), "seed {seed}, round {round}");
            if manifest.stored.needs_rewrite() {
                manifest.write(&env, dir).unwrap();
            }
            // From here on files that this manifest does not name may be removed, so no crash may
            // undo it.
            env.crash();
            assert_eq!(read(&env), manifest, "seed {seed}, round {round}");
            manifest = read(&env);
            candidates = vec![manifest.clone()];
            env.set_faults(faults);
        }
    }
    failed
}

#[test]
fn a_crash_leaves_the_last_manifest_or_the_one_that_was_being_written() {
    let syncs = Faults { sync_error: 0.2, ..Faults::default() };
    let all = Faults { write_error: 0.1, sync_error: 0.1, name_error: 0.05, ..Faults::default() };
    for seed in 0..100 {
        assert_eq!(survives(seed, Faults::default(), 0..0), 0);
        let failed: u64 = [(syncs, 0..0), (all, 0..0), (Faults::default(), 5..20)]
            .map(|(faults, fail)| survives(seed, faults, fail))
            .iter()
            .sum();
        assert!(failed > 3, "seed {seed}");
    }
}
