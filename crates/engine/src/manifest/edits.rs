//! Edits of a manifest: differences between one manifest and the next, appended to the file of the
//! first.

use model::{Error, Result};

use super::{Manifest, ManifestBuilder, Stored, Tail};
use crate::catalog_object::{CatalogObject, ObjectKey};
use crate::codec::{Put, Take};

/// A u32 length and a u32 checksum.
const HEADER_BYTES: usize = 8;

/// A new object, or the next version of one.
const PUT: u8 = 1;
const DROP: u8 = 2;
/// A change of an object's state.
const CHANGE: u8 = 3;

/// Encodes the edit that changes `old` to `new`; `crc` is the checksum of the bytes before it.
pub(super) fn encode(old: &Manifest, new: &Manifest, crc: u32) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    new.put_numbers(&mut out);
    // Most catalogs are not only equal but shared.
    let is_same = std::sync::Arc::ptr_eq(&old.catalog, &new.catalog);
    for object in old.catalog.objects().filter(|_| !is_same) {
        let key = object.key();
        if new.catalog.object(&key).is_none() {
            out.put_u8(DROP);
            key.encode(&mut out);
        }
    }
    for object in new.catalog.objects() {
        let key = object.key();
        let before = old.catalog.object(&key);
        if before.as_ref() != Some(&object) {
            out.put_u8(PUT);
            object.encode(&mut out);
        }
        if let Some(change) = new.state_change(old, &key) {
            out.put_u8(CHANGE);
            key.encode(&mut out);
            out.put_bytes(&change);
        }
    }
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
    parts.take_numbers(take)?;
    while !take.is_empty() {
        apply_item(parts, take)?;
    }
    Ok(())
}

fn apply_item(parts: &mut ManifestBuilder, take: &mut Take<'_>) -> Result<()> {
    let ManifestBuilder { manifest, objects } = parts;
    let unknown = |take: &Take<'_>, key| take.malformed(&format!("changes or drops {key}, which does not exist"));
    match take.u8()? {
        PUT => {
            let object = CatalogObject::decode(take)?;
            let key = object.key();
            manifest.add_state(&key);
            objects.insert(key, object);
        }
        DROP => {
            let key = ObjectKey::decode(take)?;
            objects.remove(&key).ok_or_else(|| unknown(take, &key))?;
            manifest.remove_state(&key);
        }
        CHANGE => {
            let key = ObjectKey::decode(take)?;
            let change = take.bytes()?;
            if !objects.contains_key(&key) {
                return Err(unknown(take, &key));
            }
            manifest.change_state(&key, change)?;
        }
        other => return Err(take.malformed(&format!("has an item of kind {other}"))),
    }
    Ok(())
}
