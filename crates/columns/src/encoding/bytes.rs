//! Text and bytes: a dictionary if values repeat; patterns and numbers for machine-generated text
//! (`templates`); otherwise lengths and a blob of all bytes, compressed by `fsst`, Huffman codes or
//! zstd if that is smaller.

use std::cell::RefCell;

use model::Result;

use super::byte_io::{Reader, corrupt, push_varint};
use super::features::Features;
use super::fsst::{Symbols, Table};
use super::huffman::{self, Code};
use super::templates::{self, SLACK, load, with_slack};
use super::{ints, kind};

/// An encoding of text and bytes, for the decoder. [`encode`] chooses.
struct Encoding {
    /// In the first byte of a chunk.
    kind: u8,
    /// Name in errors.
    name: &'static str,
    feature: Features,
    /// Whether a dictionary's entries may have it.
    in_dictionary: bool,
    /// Reads this many values.
    decode: fn(&mut Reader<'_>, usize) -> Result<Values>,
}

const PLAIN: Encoding =
    Encoding { kind: kind::PLAIN, name: "plain", feature: Features::bit(13), in_dictionary: true, decode: read_list };
const DICTIONARY: Encoding = Encoding {
    kind: kind::DICTIONARY,
    name: "dictionary",
    feature: Features::bit(14),
    in_dictionary: false,
    decode: decode_dictionary,
};
const FIELDS: Encoding = Encoding {
    kind: kind::FIELDS,
    name: "fields",
    feature: Features::bit(15),
    in_dictionary: true,
    decode: templates::read,
};
const ENCODINGS: &[Encoding] = &[PLAIN, DICTIONARY, FIELDS];

/// An encoding of a blob, for the decoder. [`write_blob`] chooses.
struct Blob {
    /// First byte.
    form: u8,
    name: &'static str,
    feature: Features,
    /// Reads a blob of this many bytes.
    decode: fn(&mut Reader<'_>, usize) -> Result<Vec<u8>>,
}

const RAW: Blob = Blob { form: 0, name: "raw", feature: Features::bit(16), decode: decode_raw };
/// Length (varint), zstd frame.
const ZSTD: Blob = Blob { form: 1, name: "zstd", feature: Features::bit(17), decode: decode_zstd };
/// FSST symbols, number of codes (varint), codes.
const SYMBOLS: Blob = Blob { form: 2, name: "symbols", feature: Features::bit(18), decode: decode_symbols };
/// FSST symbols, number of codes (varint), Huffman-coded codes.
const CODED_SYMBOLS: Blob =
    Blob { form: 3, name: "coded symbols", feature: Features::bit(19), decode: decode_coded_symbols };
/// Huffman-coded bytes.
const CODED: Blob = Blob { form: 4, name: "coded", feature: Features::bit(20), decode: decode_coded_bytes };
const BLOBS: &[Blob] = &[RAW, ZSTD, SYMBOLS, CODED_SYMBOLS, CODED];

/// The form of a raw blob, for the log.
pub(super) const BLOB_RAW: u8 = RAW.form;

/// The features of all encodings of text and blobs.
pub(super) const FEATURES: Features = {
    let (mut all, mut at) = (Features::NONE, 0);
    while at < ENCODINGS.len() + BLOBS.len() {
        let feature = if at < ENCODINGS.len() { ENCODINGS[at].feature } else { BLOBS[at - ENCODINGS.len()].feature };
        assert!(all.is_disjoint(feature), "two encodings of text have the same feature");
        all = all.union(feature);
        at += 1;
    }
    all
};

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

/// Appends `values` uncompressed; returns this kind and the features that a reader needs.
pub(crate) fn encode_plain(values: &[&[u8]], out: &mut Vec<u8>) -> (u8, Features) {
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    let features = PLAIN.feature | ints::encode_plain(&lengths, 0, 32, out) | RAW.feature;
    out.push(RAW.form);
    values.iter().for_each(|value| out.extend_from_slice(value));
    (PLAIN.kind, features)
}

/// Appends `values` (at least one) in the smallest encoding; returns its kind and the features that a reader needs.
pub(crate) fn encode(values: &[&[u8]], out: &mut Vec<u8>) -> (u8, Features) {
    assert!(!values.is_empty(), "BUG: no text to encode");
    let padded = PaddedValues::of(values);
    let start = out.len();
    let mut dictionary = None;
    if let Some((entries, indexes)) = dictionary_of(values, &padded) {
        push_varint(out, entries.len() as u64);
        let kind = out.len();
        out.push(0);
        let (entries_kind, features) = encode_each(&PaddedValues::of(&entries), out);
        out[kind] = entries_kind;
        let features = DICTIONARY.feature | features | ints::encode(&indexes, out);
        // A dictionary that saves half is good enough; the alternatives are not tried.
        if (out.len() - start) * 2 <= padded.text().len() {
            return (DICTIONARY.kind, features);
        }
        dictionary = Some((out.split_off(start), features));
    }
    let each = encode_each(&padded, out);
    match dictionary {
        Some((dictionary, features)) if dictionary.len() < out.len() - start => {
            out.truncate(start);
            out.extend_from_slice(&dictionary);
            (DICTIONARY.kind, features)
        }
        _ => each,
    }
}

/// Appends values without a dictionary; returns the kind and the features that a reader needs.
fn encode_each(padded: &PaddedValues, out: &mut Vec<u8>) -> (u8, Features) {
    let (start, text_bytes) = (out.len(), padded.text().len());
    let Some(features) = templates::write(&padded.bytes, &padded.ends, out) else {
        let features = write_plain(padded, &SizeEstimates::of(padded.text()), out);
        return (PLAIN.kind, PLAIN.feature | features);
    };
    let fields = (FIELDS.kind, FIELDS.feature | features);
    let fields_bytes = out.len() - start;
    // Compression of repetitions alone does not reach a sixth.
    if fields_bytes * 6 <= text_bytes {
        return fields;
    }
    let estimates = SizeEstimates::of_zstd(padded.text());
    if estimates.zstd.is_finite() && (fields_bytes as f64) < estimates.zstd.min(estimates.raw) {
        return fields;
    }
    let estimates = estimates.with_symbols(padded.text());
    let fields_end = out.len();
    let features = write_plain(padded, &estimates, out);
    if out.len() - fields_end < fields_bytes {
        out.drain(start..fields_end);
        return (PLAIN.kind, PLAIN.feature | features);
    }
    out.truncate(fields_end);
    fields
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
        ((u64::from(hash) * self.places.len() as u64) >> 32) as usize
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

fn write_plain(padded: &PaddedValues, estimates: &SizeEstimates, out: &mut Vec<u8>) -> Features {
    let mut start = 0;
    let length = |end: &usize| {
        let length = end - start;
        start = *end;
        length as i64
    };
    let lengths: Vec<i64> = padded.ends.iter().map(length).collect();
    ints::encode(&lengths, out) | write_blob(padded.text(), estimates, out)
}

/// Appends `values` for [`read_list`].
pub(super) fn write_list(values: &[&[u8]], out: &mut Vec<u8>) -> Features {
    let padded = PaddedValues::of(values);
    write_plain(&padded, &SizeEstimates::of(padded.text()), out)
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
fn write_blob(text: &[u8], estimates: &SizeEstimates, out: &mut Vec<u8>) -> Features {
    let start = out.len();
    let mut blob = write_expected(text, estimates, out);
    // The sample may not be representative.
    if out.len() - start > text.len() {
        out.truncate(start);
        blob = write_raw(text, out);
    }
    let bytes = out.len() - start;
    assert!(bytes <= text.len() + 1, "BUG: a {} blob of {bytes} bytes for {} bytes", blob.name, text.len());
    debug_assert!(
        decode_blob(&mut Reader::new(&out[start..]), text.len()).is_ok_and(|decoded| decoded == text),
        "BUG: a {} blob that differs from its {} bytes",
        blob.name,
        text.len()
    );
    blob.feature
}

fn write_raw(text: &[u8], out: &mut Vec<u8>) -> &'static Blob {
    out.push(RAW.form);
    out.extend_from_slice(text);
    &RAW
}

/// Appends `text` in the encoding that the estimates favour.
fn write_expected(text: &[u8], estimates: &SizeEstimates, out: &mut Vec<u8>) -> &'static Blob {
    const WORTH: f64 = 15.0 / 16.0;
    let light = estimates.smallest_without_zstd();
    if estimates.zstd < light * WORTH
        && let Some(compressed) = compress(text).filter(|compressed| (compressed.len() as f64) < light * WORTH)
    {
        out.push(ZSTD.form);
        push_varint(out, compressed.len() as u64);
        out.extend_from_slice(&compressed);
        return &ZSTD;
    }
    if light >= estimates.raw * 0.9 {
        return write_raw(text, out);
    }
    let expected = estimates.symbols as usize;
    match &estimates.table {
        Some(table) if estimates.symbols * WORTH <= estimates.coded_symbols.min(estimates.coded) => {
            write_symbols(text, table, expected, out)
        }
        Some(table) if estimates.coded * WORTH > estimates.coded_symbols => {
            write_coded_symbols(text, table, expected, out)
        }
        _ => {
            out.push(CODED.form);
            Code::of(&huffman::histogram(text)).write(text, out);
            &CODED
        }
    }
}

fn write_symbols(text: &[u8], table: &Table, expected: usize, out: &mut Vec<u8>) -> &'static Blob {
    let codes = table.encode(text, expected);
    out.push(SYMBOLS.form);
    table.write(out);
    push_varint(out, codes.len() as u64);
    out.extend_from_slice(&codes);
    &SYMBOLS
}

fn write_coded_symbols(text: &[u8], table: &Table, expected: usize, out: &mut Vec<u8>) -> &'static Blob {
    let codes = table.encode(text, expected);
    out.push(CODED_SYMBOLS.form);
    table.write(out);
    push_varint(out, codes.len() as u64);
    Code::of(&huffman::histogram(&codes)).write(&codes, out);
    &CODED_SYMBOLS
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
    decode_as(of_kind(kind)?, reader, count)
}

fn decode_as(encoding: &Encoding, reader: &mut Reader<'_>, count: usize) -> Result<Values> {
    reader.see(encoding.feature);
    let values = (encoding.decode)(reader, count)?;
    assert!(values.ends.len() == count, "BUG: {} {} values, expected {count}", values.ends.len(), encoding.name);
    let end = values.ends.last().copied().unwrap_or(0);
    assert!(end == values.bytes.len(), "BUG: {} values end at {end} of {} bytes", encoding.name, values.bytes.len());
    Ok(values)
}

fn of_kind(kind: u8) -> Result<&'static Encoding> {
    ENCODINGS.iter().find(|encoding| encoding.kind == kind).ok_or_else(|| {
        let known = ENCODINGS.iter().map(|encoding| format!("{} ({})", encoding.kind, encoding.name));
        corrupt(format!("text encoding is {kind}, known are {}", known.collect::<Vec<_>>().join(", ")))
    })
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
    let form = reader.u8("blob encoding")?;
    let Some(blob) = BLOBS.iter().find(|blob| blob.form == form) else {
        let known = BLOBS.iter().map(|blob| format!("{} ({})", blob.form, blob.name)).collect::<Vec<_>>();
        return Err(corrupt(format!("blob encoding is {form}, known are {}", known.join(", "))));
    };
    reader.see(blob.feature);
    reader.note(|| if blob.form == RAW.form { ")".into() } else { format!(", {})", blob.name) });
    let bytes = (blob.decode)(reader, total)?;
    assert!(bytes.len() == total, "BUG: a {} blob of {} bytes, expected {total}", blob.name, bytes.len());
    Ok(bytes)
}

fn decode_raw(reader: &mut Reader<'_>, total: usize) -> Result<Vec<u8>> {
    Ok(reader.take(total, "text")?.to_vec())
}

fn decode_zstd(reader: &mut Reader<'_>, total: usize) -> Result<Vec<u8>> {
    let length = reader.count(reader.remaining(), "compressed length")?;
    decompress(reader.take(length, "compressed text")?, total)
}

fn decode_symbols(reader: &mut Reader<'_>, total: usize) -> Result<Vec<u8>> {
    let symbols = Symbols::read(reader)?;
    let count = reader.count(reader.remaining(), "number of codes")?;
    symbols.decode(reader.take(count, "codes")?, total)
}

fn decode_coded_symbols(reader: &mut Reader<'_>, total: usize) -> Result<Vec<u8>> {
    let symbols = Symbols::read(reader)?;
    // Every code takes at least one bit.
    let count = reader.count(reader.remaining().saturating_mul(8), "number of codes")?;
    symbols.decode(&huffman::decode(reader, count)?, total)
}

fn decode_coded_bytes(reader: &mut Reader<'_>, total: usize) -> Result<Vec<u8>> {
    // Every byte takes at least one bit.
    if total > reader.remaining().saturating_mul(8) {
        return Err(corrupt(format!("{} bytes of codes cannot hold {total}", reader.remaining())));
    }
    huffman::decode(reader, total)
}

/// Decodes a dictionary: the distinct values, and the index of each of `count` values. Indexes are
/// not verified.
pub(crate) fn decode_coded(reader: &mut Reader<'_>, count: usize) -> Result<(Values, Vec<u32>)> {
    reader.see(DICTIONARY.feature);
    let distinct = reader.count(count, "dictionary size")?;
    let kind = reader.u8("encoding of the dictionary")?;
    reader.note(|| format!("dictionary of {distinct} "));
    let encoding = of_kind(kind)?;
    if !encoding.in_dictionary {
        return Err(corrupt(format!("entries of a dictionary have encoding {kind} ({})", encoding.name)));
    }
    let entries = decode_as(encoding, reader, distinct)?;
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
