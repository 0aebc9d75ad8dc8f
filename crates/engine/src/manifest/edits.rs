//! Edits of a manifest: differences between one manifest and the next, appended to the file of the
//! first.

use std::collections::BTreeSet;
use std::sync::Arc;

use columns::TableFiles;
use model::{Error, Lsn, Result, TableId};

use super::{Manifest, ManifestBuilder, Stored, Tail, put_schemas, take_schemas, take_sequence};
use crate::codec::{Put, Take};
use crate::record::{decode_row_table, decode_table, encode_row_table, encode_table};
use crate::rowfile::RowFiles;

/// A u32 length and a u32 checksum.
const HEADER_BYTES: usize = 8;

const TABLE: u8 = 1;
const TABLE_FILES: u8 = 2;
const TABLE_GONE: u8 = 3;
const ROW_TABLE: u8 = 4;
const ROW_FILES: u8 = 5;
const ROW_TABLE_GONE: u8 = 6;
const SEQUENCE: u8 = 7;
const SEQUENCE_GONE: u8 = 8;
const SCHEMAS: u8 = 9;

/// Encodes the edit that changes `old` to `new`; `crc` is the checksum of the bytes before it.
pub(super) fn encode(old: &Manifest, new: &Manifest, crc: u32) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    out.put_u64(new.flushed_lsn.0);
    out.put_u64(new.replay_from.0);
    out.put_u64(new.next_file);
    out.put_u32(new.next_table);
    out.put_i64(new.wall_ns);
    out.put_i64(new.retention_ns);
    if !old.catalog.schemas().eq(new.catalog.schemas()) {
        out.put_u8(SCHEMAS);
        put_schemas(&new.catalog, &mut out);
    }
    put_tables(old, new, &mut out);
    put_row_tables(old, new, &mut out);
    put_sequences(old, new, &mut out);
    let length = ((out.len() - HEADER_BYTES) as u32).to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &length), &out[HEADER_BYTES..]);
    out[..4].copy_from_slice(&length);
    out[4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Whether the edit between two manifests, applied to the first, gives the second. As expensive as a
/// new base.
pub(super) fn leads_to(old: &Manifest, new: &Manifest) -> bool {
    let base = old.encode();
    let edit = encode(old, new, super::crc_of(&base));
    Manifest::decode(&[base, edit].concat()).as_ref() == Ok(new)
}

/// The checksum of an edit, which covers everything before it.
pub(super) fn crc_of(edit: &[u8]) -> u32 {
    u32::from_le_bytes([edit[4], edit[5], edit[6], edit[7]])
}

fn put_tables(old: &Manifest, new: &Manifest, out: &mut Vec<u8>) {
    for id in old.files.keys().filter(|id| !new.files.contains_key(id)) {
        out.put_u8(TABLE_GONE);
        out.put_u32(id.0);
    }
    let none = TableFiles::default();
    for (id, files) in &new.files {
        let (before, now) = (old.catalog.table_by_id(*id), new.table(*id));
        // A table with a new definition keeps its files. Most definitions are not only equal but
        // shared.
        if before.is_none_or(|before| !Arc::ptr_eq(before, now) && before != now) {
            out.put_u8(TABLE);
            out.put_bytes(&encode_table(now));
        }
        let before = old.files.get(id).unwrap_or(&none);
        if before != files {
            out.put_u8(TABLE_FILES);
            out.put_u32(id.0);
            let mut bytes = Vec::new();
            files.encode_change(before, &mut bytes);
            out.put_bytes(&bytes);
        }
    }
}

fn put_row_tables(old: &Manifest, new: &Manifest, out: &mut Vec<u8>) {
    for id in old.row_files.keys().filter(|id| !new.row_files.contains_key(id)) {
        out.put_u8(ROW_TABLE_GONE);
        out.put_u32(id.0);
    }
    let none = RowFiles::default();
    for (id, files) in &new.row_files {
        let (before, now) = (old.catalog.row_table_by_id(*id), new.row_table(*id));
        if before.is_none_or(|before| !Arc::ptr_eq(before, now) && before != now) {
            out.put_u8(ROW_TABLE);
            out.put_bytes(&encode_row_table(now));
        }
        let before = old.row_files.get(id).unwrap_or(&none);
        if before != files {
            out.put_u8(ROW_FILES);
            out.put_u32(id.0);
            let mut bytes = Vec::new();
            files.encode_change(before, &mut bytes);
            out.put_bytes(&bytes);
        }
    }
}

fn put_sequences(old: &Manifest, new: &Manifest, out: &mut Vec<u8>) {
    for id in old.sequences.keys().filter(|id| !new.sequences.contains_key(id)) {
        out.put_u8(SEQUENCE_GONE);
        out.put_u32(*id);
    }
    for (id, state) in &new.sequences {
        let is_same = old.catalog.sequence_by_id(*id) == new.catalog.sequence_by_id(*id);
        if !is_same || old.sequences.get(id) != Some(state) {
            out.put_u8(SEQUENCE);
            out.put_bytes(&new.sequence_bytes(*id, *state));
        }
    }
}

/// Applies the edits in `bytes`, which follow the base of `stored`; afterwards `stored` covers
/// them.
///
/// - `synced`: the file was synced up to this offset, base included.
///
/// # Errors
/// XX001 for an edit that was synced and is damaged, or that does not apply to the manifest.
pub(super) fn read(parts: &mut ManifestBuilder, stored: &mut Stored, mut bytes: &[u8], synced: u64) -> Result<()> {
    while !bytes.is_empty() {
        let Some((edit, rest)) = intact(bytes, stored.crc) else { break };
        let (number, at) = (stored.edits + 1, stored.end);
        let place = |error: Error| error.context(format!("edit {number} at byte {at}"));
        apply(parts, &mut Take::new(&edit[HEADER_BYTES..], "edit")).map_err(place)?;
        *stored = stored.with_edit(edit.len(), crc_of(edit));
        bytes = rest;
    }
    if stored.end < synced {
        let (number, at) = (stored.edits + 1, stored.end);
        return Err(Error::corrupt(format!(
            "edit {number} at byte {at} is damaged or missing: the file was on disk up to byte {synced}"
        )));
    }
    stored.tail = match bytes.is_empty() {
        false => Tail::Torn,
        true if stored.end > synced => Tail::Unmarked,
        true => Tail::Synced,
    };
    Ok(())
}

/// Splits `bytes` into the first edit, if it is complete and follows bytes with checksum `crc`, and
/// the rest.
fn intact(bytes: &[u8], crc: u32) -> Option<(&[u8], &[u8])> {
    let length = bytes.first_chunk::<4>()?;
    let (edit, rest) = bytes.split_at_checked((u32::from_le_bytes(*length) as usize).checked_add(HEADER_BYTES)?)?;
    let seen = crc32c::crc32c_append(crc32c::crc32c_append(crc, length), edit.get(HEADER_BYTES..)?);
    (seen == crc_of(edit)).then_some((edit, rest))
}

fn apply(parts: &mut ManifestBuilder, take: &mut Take<'_>) -> Result<()> {
    parts.manifest.flushed_lsn = Lsn(take.u64()?);
    parts.manifest.replay_from = Lsn(take.u64()?);
    parts.manifest.next_file = take.u64()?;
    parts.manifest.next_table = take.u32()?;
    parts.manifest.wall_ns = take.i64()?;
    parts.manifest.retention_ns = take.i64()?;
    while !take.is_empty() {
        let kind = take.u8()?;
        apply_item(parts, kind, take)?;
    }
    Ok(())
}

fn apply_item(parts: &mut ManifestBuilder, kind: u8, take: &mut Take<'_>) -> Result<()> {
    let manifest = &mut parts.manifest;
    let is_known = match kind {
        TABLE => {
            let table = Arc::new(decode_table(&mut Take::new(take.bytes()?, "table"))?);
            manifest.files.entry(table.id).or_default();
            parts.tables.insert(table.id, table);
            true
        }
        TABLE_FILES => {
            let (files, mut bytes) = (manifest.files.get_mut(&TableId(take.u32()?)), take.bytes()?);
            let is_known = files.is_some();
            files.map_or(Ok(()), |files| files.apply_change(&mut bytes))?;
            is_known && bytes.is_empty()
        }
        TABLE_GONE => {
            let id = TableId(take.u32()?);
            parts.tables.remove(&id);
            manifest.files.remove(&id).is_some()
        }
        ROW_TABLE => {
            let table = decode_row_table(&mut Take::new(take.bytes()?, "table"))?;
            manifest.row_files.entry(table.id).or_default();
            parts.row_tables.insert(table.id, table);
            true
        }
        ROW_FILES => {
            let (files, bytes) = (manifest.row_files.get_mut(&TableId(take.u32()?)), take.bytes()?);
            let is_known = files.is_some();
            files.map_or(Ok(()), |files| files.apply_change(&mut Take::new(bytes, "change of files")))?;
            is_known
        }
        ROW_TABLE_GONE => {
            let id = TableId(take.u32()?);
            parts.row_tables.remove(&id);
            manifest.row_files.remove(&id).is_some()
        }
        SEQUENCE => {
            let (sequence, state) = take_sequence(take.bytes()?)?;
            manifest.sequences.insert(sequence.id, state);
            parts.sequences.insert(sequence.id, Arc::new(sequence));
            true
        }
        SEQUENCE_GONE => {
            let id = take.u32()?;
            parts.sequences.remove(&id);
            manifest.sequences.remove(&id).is_some()
        }
        SCHEMAS => {
            let schemas: BTreeSet<String> = take_schemas(take)?;
            parts.schemas = schemas;
            true
        }
        other => return Err(take.malformed(&format!("has an item of kind {other}"))),
    };
    if is_known {
        Ok(())
    } else {
        Err(take.malformed(&format!("has an item of kind {kind} for an unknown table or sequence")))
    }
}
