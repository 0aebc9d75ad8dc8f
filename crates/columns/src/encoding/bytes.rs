//! Text and bytes: a dictionary if values repeat; patterns and numbers for machine-generated text
//! (`templates`); otherwise lengths and a blob of all bytes, compressed by `fsst`, Huffman codes or
//! zstd if that is smaller.

use std::cell::RefCell;

use model::Result;

use super::byte_io::{Reader, corrupt, push_varint};
use super::fsst::{Symbols, Table};
use super::huffman::{self, Code};
use super::templates::{self, SLACK, load, with_slack};
use super::{ints, kind};

/// Blob encoding: raw bytes.
pub(super) const BLOB_RAW: u8 = 0;
/// Blob encoding: length (varint), zstd frame.
const BLOB_ZSTD: u8 = 1;
/// Blob encoding: FSST symbols, number of codes (varint), codes.
const BLOB_SYMBOLS: u8 = 2;
/// Blob encoding: FSST symbols, number of codes (varint), Huffman-coded codes.
const BLOB_CODED_SYMBOLS: u8 = 3;
/// Blob encoding: Huffman-coded bytes.
const BLOB_CODED: u8 = 4;
/// Shorter blobs are not compressed: code tables would cost more than they save.
const COMPRESS_BYTES_MIN: usize = 64;
/// Shorter blobs are not compressed by FSST: training takes a fixed time.
const SYMBOLS_MIN: usize = 4 << 10;
/// Size of the sample for size estimates.
const SAMPLE_BYTES: usize = 16 << 10;
/// Number of values in the sample that detects repetition.
const REPEATS_SAMPLE: usize = 256;

/// Decoded values: all bytes, and the end of each value.
pub(crate) struct Values {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

/// Values to encode: all bytes followed by [`SLACK`] zeros, and the end of each value.
struct PaddedValues {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl PaddedValues {
    fn of(values: &[&[u8]]) -> PaddedValues {
        let (bytes, ends) = with_slack(values);
        PaddedValues { bytes, ends }
    }

    /// All bytes, without the padding.
    fn text(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - SLACK]
    }
}

/// Appends `values` uncompressed and returns this kind.
pub(crate) fn encode_plain(values: &[&[u8]], out: &mut Vec<u8>) -> u8 {
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    ints::encode_plain(&lengths, 0, 32, out);
    out.push(BLOB_RAW);
    values.iter().for_each(|value| out.extend_from_slice(value));
    kind::PLAIN
}

/// Appends `values` (at least one) in the smallest encoding and returns its kind.
pub(crate) fn encode(values: &[&[u8]], out: &mut Vec<u8>) -> u8 {
    let padded = PaddedValues::of(values);
    let start = out.len();
    let mut dictionary = None;
    if let Some((entries, indexes)) = dictionary_of(values, &padded) {
        push_varint(out, entries.len() as u64);
        let kind = out.len();
        out.push(0);
        out[kind] = encode_each(&PaddedValues::of(&entries), out);
        ints::encode(&indexes, out);
        // A dictionary that saves half is good enough; the alternatives are not tried.
        if (out.len() - start) * 2 <= padded.text().len() {
            return kind::DICTIONARY;
        }
        dictionary = Some(out.split_off(start));
    }
    let kind = encode_each(&padded, out);
    match dictionary {
        Some(dictionary) if dictionary.len() < out.len() - start => {
            out.truncate(start);
            out.extend_from_slice(&dictionary);
            kind::DICTIONARY
        }
        _ => kind,
    }
}

/// Appends values without a dictionary and returns the kind.
fn encode_each(padded: &PaddedValues, out: &mut Vec<u8>) -> u8 {
    let (start, text_bytes) = (out.len(), padded.text().len());
    if !templates::write(&padded.bytes, &padded.ends, out) {
        write_plain(padded, &SizeEstimates::of(padded.text()), out);
        return kind::PLAIN;
    }
    let fields_bytes = out.len() - start;
    // Compression of repetitions alone does not reach a sixth.
    if fields_bytes * 6 <= text_bytes {
        return kind::FIELDS;
    }
    let estimates = SizeEstimates::of_zstd(padded.text());
    if estimates.zstd.is_finite() && (fields_bytes as f64) < estimates.zstd.min(estimates.raw) {
        return kind::FIELDS;
    }
    let estimates = estimates.with_symbols(padded.text());
    let fields_end = out.len();
    write_plain(padded, &estimates, out);
    if out.len() - fields_end < fields_bytes {
        out.drain(start..fields_end);
        return kind::PLAIN;
    }
    out.truncate(fields_end);
    kind::FIELDS
}

/// The distinct values in order of first appearance and each value's index; `None` if more than
/// half of the values are distinct.
fn dictionary_of<'a>(values: &[&'a [u8]], padded: &PaddedValues) -> Option<(Vec<&'a [u8]>, Vec<i64>)> {
    if values.len() >= 4 * REPEATS_SAMPLE {
        let step = values.len() / REPEATS_SAMPLE;
        let mut sample = Distinct::new();
        (0..REPEATS_SAMPLE).for_each(|at| _ = sample.index_of(at * step, values, padded));
        if sample.entries.len() == REPEATS_SAMPLE {
            return None;
        }
    }
    let most = values.len() / 2;
    let mut distinct = Distinct::new();
    let mut indexes = vec![0; values.len()];
    for (at, index) in indexes.iter_mut().enumerate() {
        *index = distinct.index_of(at, values, padded) as i64;
        if distinct.entries.len() > most {
            return None;
        }
    }
    Some((distinct.entries, indexes))
}

/// A hash table that numbers distinct values in order of first appearance.
struct Distinct<'a> {
    entries: Vec<&'a [u8]>,
    /// Open addressing: hash and 1 + index; 0 marks a free slot.
    places: Vec<(u32, u32)>,
}

impl<'a> Distinct<'a> {
    fn new() -> Distinct<'a> {
        Distinct { entries: Vec::new(), places: vec![(0, 0); 512] }
    }

    /// The number of value `at`.
    #[inline]
    fn index_of(&mut self, at: usize, values: &[&'a [u8]], padded: &PaddedValues) -> usize {
        let value = values[at];
        let end = padded.ends[at];
        let hash = hash(&padded.bytes[end - value.len()..], value.len());
        let mask = self.places.len() - 1;
        let mut place = self.place_of(hash);
        loop {
            match self.places[place] {
                (_, 0) => break,
                (other, index) if other == hash && self.entries[index as usize - 1] == value => {
                    return index as usize - 1;
                }
                _ => place = (place + 1) & mask,
            }
        }
        self.entries.push(value);
        self.places[place] = (hash, self.entries.len() as u32);
        if self.entries.len() * 2 > self.places.len() {
            self.grow();
        }
        self.entries.len() - 1
    }

    /// The high bits of the hash depend on all bytes of a value, the low bits on the first ones
    /// only.
    #[inline(always)]
    fn place_of(&self, hash: u32) -> usize {
        (u64::from(hash) * self.places.len() as u64 >> 32) as usize
    }

    fn grow(&mut self) {
        let mask = self.places.len() * 4 - 1;
        let before = std::mem::replace(&mut self.places, vec![(0, 0); mask + 1]);
        for (hash, index) in before.into_iter().filter(|(_, index)| *index > 0) {
            let mut place = self.place_of(hash);
            while self.places[place].1 > 0 {
                place = (place + 1) & mask;
            }
            self.places[place] = (hash, index);
        }
    }
}

/// Hash of the first `length` bytes, which [`SLACK`] more bytes follow.
#[inline(always)]
fn hash(bytes: &[u8], length: usize) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = (length as u64).wrapping_mul(ODD);
    let mut at = 0;
    while at + 8 < length {
        hash = (hash ^ load(bytes, at)).wrapping_mul(ODD);
        hash ^= hash >> 32;
        at += 8;
    }
    // The last one to eight bytes.
    let last = load(bytes, at) & u64::MAX.checked_shr(64 - 8 * (length - at).min(8) as u32).unwrap_or(0);
    ((hash ^ last).wrapping_mul(ODD) >> 32) as u32
}

fn write_plain(padded: &PaddedValues, estimates: &SizeEstimates, out: &mut Vec<u8>) {
    let mut start = 0;
    let length = |end: &usize| {
        let length = end - start;
        start = *end;
        length as i64
    };
    let lengths: Vec<i64> = padded.ends.iter().map(length).collect();
    ints::encode(&lengths, out);
    write_blob(padded.text(), estimates, out);
}

/// Appends `values` for [`read_list`].
pub(super) fn write_list(values: &[&[u8]], out: &mut Vec<u8>) {
    let padded = PaddedValues::of(values);
    write_plain(&padded, &SizeEstimates::of(padded.text()), out);
}

/// Estimated sizes of a blob in each encoding, in bytes.
struct SizeEstimates {
    raw: f64,
    zstd: f64,
    /// Size of the Huffman-coded bytes.
    coded: f64,
    table: Option<Table>,
    symbols: f64,
    coded_symbols: f64,
}

impl SizeEstimates {
    fn of(text: &[u8]) -> SizeEstimates {
        SizeEstimates::of_zstd(text).with_symbols(text)
    }

    /// A sample of `text`, and the ratio of the lengths.
    fn sample(text: &[u8]) -> (&[u8], f64) {
        let from = text.len().saturating_sub(SAMPLE_BYTES) / 2;
        let sample = &text[from..][..SAMPLE_BYTES.min(text.len())];
        (sample, text.len() as f64 / sample.len() as f64)
    }

    /// Estimates for zstd and Huffman coding.
    fn of_zstd(text: &[u8]) -> SizeEstimates {
        let none = f64::INFINITY;
        let mut estimates = SizeEstimates {
            raw: text.len() as f64,
            zstd: none,
            coded: none,
            table: None,
            symbols: none,
            coded_symbols: none,
        };
        if text.len() >= COMPRESS_BYTES_MIN {
            let (sample, times) = SizeEstimates::sample(text);
            estimates.coded = Code::of(&huffman::histogram(sample)).bytes as f64 * times;
            // A sample does not show long-range repetition, which makes zstd smaller, unless the
            // sample has none at all.
            let repeats = |compressed: usize| (compressed as f64 * times) < 0.95 * estimates.coded;
            let unseen = |compressed: usize| if times > 1.0 && repeats(compressed) { 0.85 } else { 1.0 };
            estimates.zstd =
                compress(sample).map_or(none, |compressed| compressed.len() as f64 * times * unseen(compressed.len()));
        }
        estimates
    }

    fn with_symbols(mut self, text: &[u8]) -> SizeEstimates {
        if text.len() < SYMBOLS_MIN {
            return self;
        }
        let (sample, times) = SizeEstimates::sample(text);
        let table = Table::train(text);
        let codes = table.encode(sample, sample.len());
        self.symbols = codes.len() as f64 * times + table.bytes() as f64;
        let code = Code::of(&huffman::histogram(&codes));
        self.coded_symbols = code.bytes as f64 * times + table.bytes() as f64;
        self.table = Some(table);
        self
    }

    /// The smallest estimate without zstd.
    fn smallest_without_zstd(&self) -> f64 {
        [self.raw, self.coded, self.symbols, self.coded_symbols].into_iter().fold(f64::INFINITY, f64::min)
    }
}

/// Appends `text` in the best encoding: the faster one to read, unless the slower one saves 1/16.
/// At most one byte longer than `text`.
fn write_blob(text: &[u8], estimates: &SizeEstimates, out: &mut Vec<u8>) {
    let start = out.len();
    write_expected(text, estimates, out);
    // The sample may not be representative.
    if out.len() - start > text.len() {
        out.truncate(start);
        out.push(BLOB_RAW);
        out.extend_from_slice(text);
    }
}

/// Appends `text` in the encoding that the estimates favour.
fn write_expected(text: &[u8], estimates: &SizeEstimates, out: &mut Vec<u8>) {
    const WORTH: f64 = 15.0 / 16.0;
    let light = estimates.smallest_without_zstd();
    if estimates.zstd < light * WORTH
        && let Some(compressed) = compress(text).filter(|compressed| (compressed.len() as f64) < light * WORTH)
    {
        out.push(BLOB_ZSTD);
        push_varint(out, compressed.len() as u64);
        return out.extend_from_slice(&compressed);
    }
    if light >= estimates.raw * 0.9 {
        out.push(BLOB_RAW);
        return out.extend_from_slice(text);
    }
    let expected = estimates.symbols as usize;
    match &estimates.table {
        Some(table) if estimates.symbols * WORTH <= estimates.coded_symbols.min(estimates.coded) => {
            write_symbols(text, table, expected, false, out);
        }
        Some(table) if estimates.coded * WORTH > estimates.coded_symbols => {
            write_symbols(text, table, expected, true, out);
        }
        _ => {
            out.push(BLOB_CODED);
            Code::of(&huffman::histogram(text)).write(text, out);
        }
    }
}

fn write_symbols(text: &[u8], table: &Table, expected: usize, coded: bool, out: &mut Vec<u8>) {
    let codes = table.encode(text, expected);
    out.push(if coded { BLOB_CODED_SYMBOLS } else { BLOB_SYMBOLS });
    table.write(out);
    push_varint(out, codes.len() as u64);
    if coded { Code::of(&huffman::histogram(&codes)).write(&codes, out) } else { out.extend_from_slice(&codes) }
}

thread_local! {
    /// Contexts take a few hundred KiB and are slow to create, so each thread keeps one of each.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses with zstd level 1; `None` if the library fails.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = zstd::bulk::Compressor::new(1).ok();
        }
        compressor.as_mut()?.compress(bytes).ok()
    })
}

/// Decompresses to exactly `expected` bytes.
fn decompress(bytes: &[u8], expected: usize) -> Result<Vec<u8>> {
    // The highest ratio of zstd is a block of 128 KiB in 4 bytes. A larger length is corrupt and
    // refused before memory is allocated.
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
    let out = out.map_err(|error| corrupt(format!("decompression failed: {error}")))?;
    if out.len() != expected {
        return Err(corrupt(format!("{} bytes after decompression, expected {expected}", out.len())));
    }
    Ok(out)
}

/// Decodes `count` values of encoding `kind`.
pub(crate) fn decode(reader: &mut Reader<'_>, kind: u8, count: usize) -> Result<Values> {
    match kind {
        kind::DICTIONARY => decode_dictionary(reader, count),
        _ => decode_each(reader, kind, count),
    }
}

fn decode_each(reader: &mut Reader<'_>, kind: u8, count: usize) -> Result<Values> {
    match kind {
        kind::PLAIN => read_list(reader, count),
        kind::FIELDS => templates::read(reader, count),
        other => Err(corrupt(format!("text encoding is {other}, which is not known"))),
    }
}

/// Reads `count` lengths and their values.
pub(super) fn read_list(reader: &mut Reader<'_>, count: usize) -> Result<Values> {
    reader.note(|| "plain (lengths ".into());
    let lengths = ints::decode_vec(reader, count)?;
    let mut total = 0usize;
    let mut ends = Vec::with_capacity(count);
    for length in lengths {
        total = usize::try_from(length).ok().and_then(|length| total.checked_add(length)).unwrap_or(usize::MAX);
        if total > reader.text_bytes_max {
            let most = reader.text_bytes_max;
            return Err(corrupt(format!("a value is {length} bytes long, all together at most {most}")));
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
        BLOB_SYMBOLS => {
            reader.note(|| ", symbols)".into());
            let symbols = Symbols::read(reader)?;
            let count = reader.count(reader.remaining(), "number of codes")?;
            symbols.decode(reader.take(count, "codes")?, total)
        }
        BLOB_CODED => {
            reader.note(|| ", coded)".into());
            // Every byte takes at least one bit.
            if total > reader.remaining().saturating_mul(8) {
                return Err(corrupt(format!("{} bytes of codes cannot hold {total}", reader.remaining())));
            }
            huffman::decode(reader, total)
        }
        BLOB_CODED_SYMBOLS => {
            reader.note(|| ", coded symbols)".into());
            let symbols = Symbols::read(reader)?;
            // Every code takes at least one bit.
            let count = reader.count(reader.remaining().saturating_mul(8), "number of codes")?;
            symbols.decode(&huffman::decode(reader, count)?, total)
        }
        other => Err(corrupt(format!("blob encoding is {other}, at most {BLOB_CODED} is known"))),
    }
}

/// Decodes a dictionary: the distinct values, and the index of each of `count` values. Indexes are
/// not verified.
pub(crate) fn decode_coded(reader: &mut Reader<'_>, count: usize) -> Result<(Values, Vec<u32>)> {
    let distinct = reader.count(count, "dictionary size")?;
    let kind = reader.u8("encoding of the dictionary")?;
    reader.note(|| format!("dictionary of {distinct} "));
    let entries = decode_each(reader, kind, distinct)?;
    reader.note(|| ", indexes ".into());
    // Larger indexes exceed any dictionary and are mapped to one that does too.
    let index = |index: i64| u32::try_from(index).unwrap_or(u32::MAX);
    Ok((entries, ints::decode_mapped(reader, count, index)?))
}

fn decode_dictionary(reader: &mut Reader<'_>, count: usize) -> Result<Values> {
    let (mut entries, indexes) = decode_coded(reader, count)?;
    let distinct = entries.ends.len();
    // Short entries are copied in whole words, beyond their end.
    entries.bytes.resize(entries.bytes.len() + SLACK, 0);
    let spans: Vec<(usize, usize)> = (0..distinct).map(|index| entries.span(index)).collect();
    let mut total = 0;
    let mut ends = Vec::with_capacity(count);
    for index in &indexes {
        let Some((_, length)) = spans.get(*index as usize) else {
            return Err(corrupt(format!("dictionary index {index} of a dictionary of {distinct}")));
        };
        // No overflow: fewer than 2^31 bytes per value.
        total += length;
        ends.push(total);
    }
    if total > reader.text_bytes_max {
        return Err(corrupt(format!("text of a chunk is longer than {} bytes", reader.text_bytes_max)));
    }
    let mut bytes = vec![0; total + SLACK];
    let mut at = 0;
    for index in &indexes {
        let (start, length) = spans[*index as usize];
        copy(&entries.bytes[start..], length, &mut bytes[at..]);
        at += length;
    }
    bytes.truncate(total);
    Ok(Values { bytes, ends })
}

/// Copies `length` bytes; both slices must have [`SLACK`] more.
#[inline(always)]
fn copy(from: &[u8], length: usize, to: &mut [u8]) {
    match (from.first_chunk::<16>(), to.first_chunk_mut::<16>()) {
        (Some(from), Some(to)) if length <= 16 => *to = *from,
        _ => to[..length].copy_from_slice(&from[..length]),
    }
}

impl Values {
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.bytes.get(start..end)
    }

    /// Start and length of value `index`.
    fn span(&self, index: usize) -> (usize, usize) {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        (start, self.ends[index] - start)
    }
}
