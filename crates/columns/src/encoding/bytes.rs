//! Text and bytes: a dictionary when values repeat, else lengths and all bytes in a row, compressed where that helps.

use std::cell::RefCell;

use model::Result;
use rustc_hash::FxHashMap;

use super::wire::{Reader, corrupt, push_varint};
use super::{ints, kind};

/// Bytes in a row are kept as they are.
const BLOB_RAW: u8 = 0;
/// ... or follow as varint length and zstd frame.
const BLOB_ZSTD: u8 = 1;
/// Below this compression cannot win back its frame header.
const COMPRESS_BYTES_MIN: usize = 64;
/// Most bytes of all values of a chunk: what 32-bit offsets reach.
const TOTAL_BYTES_MAX: usize = i32::MAX as usize;

/// Values as they come out: all bytes, and where each value ends in them.
pub(crate) struct Values {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

/// Appends `values` (at least one) in the smallest form and returns its kind.
pub(crate) fn encode(values: &[&[u8]], out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    let dictionary = dictionary_of(values);
    if let Some((entries, indexes)) = &dictionary {
        write_plain(entries, out);
        ints::encode(indexes, out);
        let raw_bytes: usize = values.iter().map(|value| value.len()).sum();
        // Half of the bare bytes is good enough not to try compressing them.
        if (out.len() - start) * 2 <= raw_bytes {
            prepend_count(entries.len(), start, out);
            return kind::DICTIONARY;
        }
    }
    let mut plain = Vec::new();
    write_plain(values, &mut plain);
    if let Some((entries, _)) = &dictionary
        && out.len() - start < plain.len()
    {
        prepend_count(entries.len(), start, out);
        return kind::DICTIONARY;
    }
    out.truncate(start);
    out.extend_from_slice(&plain);
    kind::PLAIN
}

/// Appends `values` as they are and returns that kind.
pub(crate) fn encode_plain(values: &[&[u8]], out: &mut Vec<u8>) -> u8 {
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    ints::encode_plain(&lengths, 0, 32, out);
    out.push(BLOB_RAW);
    values.iter().for_each(|value| out.extend_from_slice(value));
    kind::PLAIN
}

fn prepend_count(count: usize, start: usize, out: &mut Vec<u8>) {
    let mut head = Vec::new();
    push_varint(&mut head, count as u64);
    out.splice(start..start, head);
}

/// The distinct values in order of appearance and each value's index, if at most half of the values are distinct.
fn dictionary_of<'a>(values: &[&'a [u8]]) -> Option<(Vec<&'a [u8]>, Vec<i64>)> {
    let most = values.len() / 2;
    let mut index_of: FxHashMap<&[u8], i64> = FxHashMap::default();
    let mut entries = Vec::new();
    let mut indexes = Vec::with_capacity(values.len());
    for value in values {
        let index = *index_of.entry(value).or_insert(entries.len() as i64);
        if index == entries.len() as i64 {
            entries.push(*value);
        }
        if entries.len() > most {
            return None;
        }
        indexes.push(index);
    }
    Some((entries, indexes))
}

fn write_plain(values: &[&[u8]], out: &mut Vec<u8>) {
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    ints::encode(&lengths, out);
    let all = values.concat();
    if all.len() >= COMPRESS_BYTES_MIN
        && let Some(compressed) = compress(&all)
        && compressed.len() < all.len() - all.len() / 10
    {
        out.push(BLOB_ZSTD);
        push_varint(out, compressed.len() as u64);
        out.extend_from_slice(&compressed);
    } else {
        out.push(BLOB_RAW);
        out.extend_from_slice(&all);
    }
}

thread_local! {
    /// Contexts are a few hundred KiB and slow to make, so each thread keeps one of each.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// `bytes` compressed by zstd level 1, if the library can.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = zstd::bulk::Compressor::new(1).ok();
        }
        compressor.as_mut()?.compress(bytes).ok()
    })
}

/// The `expected` bytes that `bytes` were compressed from.
fn decompress(bytes: &[u8], expected: usize) -> Result<Vec<u8>> {
    // zstd's densest form is a block of 128 KiB in 4 bytes: more is a wild length, refused before memory is taken for
    // it.
    if expected > (bytes.len() << 15) + (128 << 10) {
        return Err(corrupt(format!("{} compressed bytes cannot hold {expected}", bytes.len())));
    }
    let out = DECOMPRESSOR.with_borrow_mut(|decompressor| {
        if decompressor.is_none() {
            *decompressor = Some(zstd::bulk::Decompressor::new()?);
        }
        match decompressor {
            Some(decompressor) => decompressor.decompress(bytes, expected),
            None => Err(std::io::Error::other("no decompressor")),
        }
    });
    let out = out.map_err(|error| corrupt(format!("compressed bytes cannot be read: {error}")))?;
    if out.len() != expected {
        return Err(corrupt(format!("{} bytes after decompression, expected {expected}", out.len())));
    }
    Ok(out)
}

/// Reads `count` values written as `kind`.
pub(crate) fn decode(reader: &mut Reader<'_>, kind: u8, count: usize) -> Result<Values> {
    match kind {
        kind::PLAIN => decode_plain(reader, count),
        kind::DICTIONARY => decode_dictionary(reader, count),
        other => Err(corrupt(format!("text encoding is {other}, which is not known"))),
    }
}

fn decode_plain(reader: &mut Reader<'_>, count: usize) -> Result<Values> {
    reader.note(|| "plain (lengths ".into());
    let lengths = ints::decode_vec(reader, count)?;
    let mut total = 0usize;
    let mut ends = Vec::with_capacity(count);
    for length in lengths {
        total = usize::try_from(length).ok().and_then(|length| total.checked_add(length)).unwrap_or(usize::MAX);
        if total > TOTAL_BYTES_MAX {
            return Err(corrupt(format!("a value is {length} bytes long, all together at most {TOTAL_BYTES_MAX}")));
        }
        ends.push(total);
    }
    let bytes = decode_blob(reader, total)?;
    Ok(Values { bytes, ends })
}

fn decode_blob(reader: &mut Reader<'_>, total: usize) -> Result<Vec<u8>> {
    match reader.u8("blob encoding")? {
        BLOB_RAW => {
            reader.note(|| ")".into());
            Ok(reader.take(total, "text")?.to_vec())
        }
        BLOB_ZSTD => {
            reader.note(|| ", zstd)".into());
            let length = reader.count(reader.remaining(), "compressed length")?;
            decompress(reader.take(length, "compressed text")?, total)
        }
        other => Err(corrupt(format!("blob encoding is {other}, at most {BLOB_ZSTD} is known"))),
    }
}

fn decode_dictionary(reader: &mut Reader<'_>, count: usize) -> Result<Values> {
    let distinct = reader.count(count, "dictionary size")?;
    reader.note(|| format!("dictionary of {distinct} "));
    let entries = decode_plain(reader, distinct)?;
    reader.note(|| ", indexes ".into());
    let indexes = ints::decode_vec(reader, count)?;
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(count);
    for index in indexes {
        let entry = usize::try_from(index).ok().and_then(|index| entries.get(index));
        let Some(entry) = entry else {
            return Err(corrupt(format!("dictionary index {index} of a dictionary of {distinct}")));
        };
        if bytes.len() + entry.len() > TOTAL_BYTES_MAX {
            return Err(corrupt(format!("text of a chunk is longer than {TOTAL_BYTES_MAX} bytes")));
        }
        bytes.extend_from_slice(entry);
        ends.push(bytes.len());
    }
    Ok(Values { bytes, ends })
}

impl Values {
    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.bytes.get(start..end)
    }
}
