//! Huffman coding of bytes: brings integers that cluster close to their entropy.
//!
//! Canonical codes of at most [`CODE_BITS_MAX`] bits, highest bit first, in four interleaved
//! streams, so that the processor looks up four symbols at once. Bytes: docs/format/segment.md,
//! "Coded symbols".

use model::Result;

use super::byte_io::{Reader, corrupt, push_varint, varint_bytes};
use super::cpu::multiversion;

/// Longest code: the lookup table is 4 KiB, and five codes fit the 56 bits that a refill
/// guarantees.
const CODE_BITS_MAX: usize = 11;
const TABLE: usize = 1 << CODE_BITS_MAX;
/// Symbols decoded per refill.
const STEP: usize = 5;
const STREAMS: usize = 4;

/// The frequency of each symbol.
pub(crate) type Histogram = [u32; 256];

/// Counts `symbols`.
pub(crate) fn histogram(symbols: &[u8]) -> Histogram {
    // Two tables, because consecutive equal symbols would wait for each other's increment.
    let mut counts = [[0u32; 256]; 2];
    let mut pairs = symbols.chunks_exact(2);
    for pair in &mut pairs {
        counts[0][usize::from(pair[0])] += 1;
        counts[1][usize::from(pair[1])] += 1;
    }
    pairs.remainder().iter().for_each(|symbol| counts[0][usize::from(*symbol)] += 1);
    let [mut sum, other] = counts;
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
    sum
}

/// A canonical Huffman code.
pub(crate) struct Code {
    /// Code length by symbol, up to the highest symbol used; 0: not used.
    lengths: Vec<u8>,
    /// The encoded lengths.
    head: Vec<u8>,
    /// Upper bound of the encoded size of the counted symbols, code table included.
    pub(crate) bytes: usize,
}

impl Code {
    /// The code for these frequencies, of which at least one is not 0.
    pub(crate) fn of(counts: &Histogram) -> Code {
        let mut used: Vec<(u32, u8)> =
            (0..=255).map(|symbol| (counts[usize::from(symbol)], symbol)).filter(|(count, _)| *count > 0).collect();
        used.sort_unstable();
        let highest = used.iter().map(|(_, symbol)| *symbol).max().unwrap_or(0);
        let mut lengths = vec![0; usize::from(highest) + 1];
        for ((_, symbol), length) in used.iter().zip(lengths_of(&used)) {
            lengths[usize::from(*symbol)] = length;
        }
        let bits: u64 =
            used.iter().map(|(count, symbol)| u64::from(*count) * u64::from(lengths[usize::from(*symbol)])).sum();
        let mut head = vec![highest];
        write_lengths(&lengths, &mut head);
        // Each stream ends on a byte boundary; the first three are preceded by their lengths.
        let length_bytes = varint_bytes(bits / 8).max(2);
        let bytes = head.len() + (bits / 8) as usize + STREAMS + length_bytes * (STREAMS - 1);
        Code { lengths, head, bytes }
    }

    /// Encodes `symbols`, whose histogram must be that of this code.
    pub(crate) fn write(&self, symbols: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        let (written, lengths) = EncodedStreams::of(symbols, &self.codes());
        lengths[..STREAMS - 1].iter().for_each(|length| push_varint(out, *length as u64));
        written.streams(lengths).for_each(|stream| out.extend_from_slice(stream));
        // Choices between encodings rely on it.
        let bytes = out.len() - start;
        assert!(bytes <= self.bytes, "BUG: coded symbols take {bytes} bytes, at most {} were expected", self.bytes);
    }

    /// By symbol: code, and in the low byte its length.
    fn codes(&self) -> [u32; 256] {
        debug_assert!(read_lengths(&mut Reader::new(&self.head)).as_ref() == Ok(&self.lengths), "BUG: code lengths");
        let mut codes = [0; 256];
        let mut next = 0u32;
        for length in 1..=CODE_BITS_MAX {
            next <<= 1;
            for (symbol, _) in self.lengths.iter().enumerate().filter(|(_, other)| usize::from(**other) == length) {
                codes[symbol] = next << 8 | length as u32;
                next += 1;
            }
        }
        codes
    }
}

/// Four bits per length. Values above [`CODE_BITS_MAX`] stand for 2, 4, 8 or 16 unused symbols.
fn write_lengths(lengths: &[u8], out: &mut Vec<u8>) {
    let mut halves = Vec::with_capacity(lengths.len());
    for run in lengths.chunk_by(|a, b| *a == 0 && *b == 0) {
        if run[0] > 0 {
            halves.push(run[0]);
            continue;
        }
        halves.extend(std::iter::repeat_n(15, run.len() / 16));
        let rest = run.len() % 16;
        halves.extend([3, 2, 1].into_iter().filter(|bit| rest >> bit & 1 == 1).map(|bit| 11 + bit));
        halves.extend(std::iter::repeat_n(0, rest % 2));
    }
    out.extend(halves.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |half| half << 4)));
}

fn read_lengths(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let count = usize::from(reader.u8("highest symbol")?) + 1;
    let mut lengths = Vec::with_capacity(count + 16);
    while lengths.len() < count {
        let pair = reader.u8("code lengths")?;
        for half in [pair & 15, pair >> 4] {
            match usize::from(half).checked_sub(CODE_BITS_MAX) {
                Some(zeros @ 1..) => lengths.resize(lengths.len() + (1 << zeros), 0),
                _ => lengths.push(half),
            }
        }
    }
    // The last byte may have an unused half.
    if lengths.len() > count + 1 || lengths[count..].iter().any(|length| *length > 0) {
        return Err(corrupt(format!("lengths of {} codes, expected {count}", lengths.len())));
    }
    lengths.truncate(count);
    Ok(lengths)
}

/// Code lengths for ascending frequencies: Huffman's, limited to [`CODE_BITS_MAX`].
fn lengths_of(used: &[(u32, u8)]) -> Vec<u8> {
    let count = used.len();
    if count == 1 {
        return vec![1];
    }
    // Leaves and inner nodes are both in ascending order of weight, so the two lightest nodes are
    // at the fronts.
    let mut weights: Vec<u64> = used.iter().map(|(count, _)| u64::from(*count)).collect();
    let mut parents = vec![0usize; 2 * count - 1];
    let (mut leaf, mut inner) = (0, count);
    for node in count..2 * count - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let takes_leaf = leaf < count && (inner >= node || weights[leaf] <= weights[inner]);
            let taken = if takes_leaf { &mut leaf } else { &mut inner };
            weight += weights[*taken];
            parents[*taken] = node;
            *taken += 1;
        }
        weights.push(weight);
    }
    let mut depths = vec![0u32; 2 * count - 1];
    for node in (0..2 * count - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    let mut lengths: Vec<u8> = depths[..count].iter().map(|depth| (*depth).min(CODE_BITS_MAX as u32) as u8).collect();
    repair(&mut lengths);
    lengths
}

/// Makes the code complete after lengths were limited: lengthens codes, the longest ones first,
/// until the Kraft sum fits, then shortens codes of the most frequent symbols while space is left.
/// `lengths` has ascending frequencies.
fn repair(lengths: &mut [u8]) {
    let share = |length: u8| 1usize << (CODE_BITS_MAX - usize::from(length));
    let mut taken: usize = lengths.iter().map(|length| share(*length)).sum();
    while taken > TABLE {
        let longest =
            lengths.iter_mut().filter(|length| usize::from(**length) < CODE_BITS_MAX).max_by_key(|length| **length);
        let Some(length) = longest else { break };
        taken -= share(*length) / 2;
        *length += 1;
    }
    for length in lengths.iter_mut().rev() {
        while *length > 1 && taken + share(*length) <= TABLE {
            taken += share(*length);
            *length -= 1;
        }
    }
    assert!(taken == TABLE, "BUG: codes of {} symbols fill {taken} of {TABLE} table entries", lengths.len());
}

/// Splits the symbols into the parts of the four streams.
fn streams(symbols: &[u8]) -> [&[u8]; STREAMS] {
    let each = symbols.len() / STREAMS;
    let (a, rest) = symbols.split_at(each);
    let (b, rest) = rest.split_at(each);
    let (c, d) = rest.split_at(each);
    [a, b, c, d]
}

/// Buffers of the encoded streams, one after the other in `bytes`, each large enough for the
/// longest codes.
struct EncodedStreams {
    bytes: Vec<u8>,
    /// Size of each buffer.
    room: usize,
}

/// Write position of a stream; `word` has up to 7 bits that do not fill a byte yet.
#[derive(Clone, Copy, Default)]
struct StreamWriter {
    at: usize,
    word: u64,
    bits: u32,
}

impl StreamWriter {
    /// Writes up to [`STEP`] symbols. `out` must have room for a whole word.
    #[inline(always)]
    fn write(&mut self, symbols: &[u8], codes: &[u32; 256], out: &mut [u8]) {
        for symbol in symbols {
            let code = codes[usize::from(*symbol)];
            self.word = self.word << (code & 63) | u64::from(code >> 8);
            self.bits += code & 63;
        }
        // The word has 1 to 7 + 5 * 11 bits.
        let word = (self.word << (64 - self.bits)).to_be_bytes();
        if let Some(out) = out.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            *out = word;
        }
        self.at += (self.bits / 8) as usize;
        self.bits %= 8;
    }

    fn bytes(&self) -> usize {
        self.at + usize::from(self.bits > 0)
    }
}

impl EncodedStreams {
    fn of(symbols: &[u8], codes: &[u32; 256]) -> (EncodedStreams, [usize; STREAMS]) {
        let each = symbols.len().div_ceil(STREAMS) + STREAMS;
        let room = (each * CODE_BITS_MAX).div_ceil(8) + 8;
        let mut written = EncodedStreams { bytes: vec![0; room * STREAMS], room };
        let lengths = write_together(&streams(symbols), codes, room, &mut written.bytes);
        // A stream that is longer has been cut off.
        assert!(lengths.iter().all(|length| *length <= room), "BUG: streams of {lengths:?} bytes in {room}");
        (written, lengths)
    }

    fn streams(&self, lengths: [usize; STREAMS]) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.room).zip(lengths).map(|(bytes, length)| &bytes[..length])
    }
}

multiversion! {
/// Writes `streams` to their parts of `out`, interleaved so that they do not wait for each other's
/// shifts. Returns their lengths.
fn write_together(
    streams: &[&[u8]; STREAMS], codes: &[u32; 256], room: usize, out: &mut [u8],
) -> [usize; STREAMS] {
    let [a, b, c, d] = *streams;
    let (out_a, rest) = out.split_at_mut(room);
    let (out_b, rest) = rest.split_at_mut(room);
    let (out_c, out_d) = rest.split_at_mut(room);
    let mut writers = [StreamWriter::default(); STREAMS];
    let whole = a.len() / STEP * STEP;
    let rounds = a.chunks_exact(STEP).zip(b.chunks_exact(STEP)).zip(c.chunks_exact(STEP).zip(d.chunks_exact(STEP)));
    for ((a, b), (c, d)) in rounds {
        writers[0].write(a, codes, out_a);
        writers[1].write(b, codes, out_b);
        writers[2].write(c, codes, out_c);
        writers[3].write(d, codes, out_d);
    }
    for ((writer, stream), out) in writers.iter_mut().zip(streams).zip([out_a, out_b, out_c, out_d]) {
        stream[whole..].chunks(STEP).for_each(|symbols| writer.write(symbols, codes, out));
    }
    writers.map(|writer| writer.bytes())
}
}

/// Decoding table by the next [`CODE_BITS_MAX`] bits: symbol, and in the low byte the length of its
/// code.
type Table = [u16; TABLE];

/// Reads the code lengths and builds the decoding table.
fn read_table(reader: &mut Reader<'_>, table: &mut Table) -> Result<()> {
    let lengths = read_lengths(reader)?;
    let mut starts = [0usize; CODE_BITS_MAX + 2];
    for length in lengths.iter().map(|length| usize::from(*length)).filter(|length| *length > 0) {
        starts[length + 1] += TABLE >> length;
    }
    for length in 1..starts.len() {
        starts[length] += starts[length - 1];
    }
    let total = starts[CODE_BITS_MAX + 1];
    // A code of a single symbol has one bit and uses half of the table.
    if total != TABLE && total != TABLE / 2 {
        return Err(corrupt(format!("codes fill {total} of {TABLE} table entries")));
    }
    for (symbol, length) in lengths.iter().map(|length| usize::from(*length)).enumerate() {
        if length > 0 {
            let start = starts[length];
            starts[length] += TABLE >> length;
            table[start..starts[length]].fill((symbol << 8 | length) as u16);
        }
    }
    Ok(())
}

/// Decodes `count` symbols.
pub(crate) fn decode(reader: &mut Reader<'_>, count: usize) -> Result<Vec<u8>> {
    let mut table = [1; TABLE];
    read_table(reader, &mut table)?;
    let mut lengths = [0; STREAMS];
    for length in &mut lengths[..STREAMS - 1] {
        *length = reader.count(reader.remaining(), "length of coded symbols")?;
    }
    // The length of the last stream is not stored: it follows from the number of symbols.
    let mut cursors: [Cursor<'_>; STREAMS] = [Cursor::new(&[]); STREAMS];
    for (cursor, length) in cursors.iter_mut().zip(&lengths[..STREAMS - 1]) {
        *cursor = Cursor::new(reader.take(*length, "coded symbols")?);
    }
    cursors[STREAMS - 1] = Cursor::new(reader.rest());
    let mut symbols = vec![0; count];
    let each = count / STREAMS;
    let (a, rest) = symbols.split_at_mut(each);
    let (b, rest) = rest.split_at_mut(each);
    let (c, d) = rest.split_at_mut(each);
    let done = decode_together(&mut cursors, &table, [&mut *a, &mut *b, &mut *c, &mut d[..each]]);
    for (cursor, out) in cursors.iter_mut().zip([a, b, c, d]) {
        cursor.finish(&table, &mut out[done..]);
    }
    for (cursor, length) in cursors.iter().zip(lengths).take(STREAMS - 1) {
        if cursor.consumed_bytes() != length {
            return Err(corrupt(format!("coded symbols take {} bytes, expected {length}", cursor.consumed_bytes())));
        }
    }
    reader.take(cursors[STREAMS - 1].consumed_bytes(), "coded symbols")?;
    Ok(symbols)
}

multiversion! {
/// Decodes while all streams have whole words left. Returns the number of symbols decoded per
/// stream.
fn decode_together(cursors: &mut [Cursor<'_>; STREAMS], table: &Table, outs: [&mut [u8]; STREAMS]) -> usize {
    let [a, b, c, d] = cursors;
    let [out_a, out_b, out_c, out_d] = outs;
    let mut done = 0;
    let rounds = out_a.chunks_exact_mut(STEP).zip(out_b.chunks_exact_mut(STEP));
    let rounds = rounds.zip(out_c.chunks_exact_mut(STEP).zip(out_d.chunks_exact_mut(STEP)));
    for ((out_a, out_b), (out_c, out_d)) in rounds {
        if !(a.refill() && b.refill() && c.refill() && d.refill()) {
            break;
        }
        for step in 0..STEP {
            out_a[step] = a.symbol(table);
            out_b[step] = b.symbol(table);
            out_c[step] = c.symbol(table);
            out_d[step] = d.symbol(table);
        }
        done += STEP;
    }
    done
}
}

/// Read position of a stream; the top `bits` bits of `word` precede byte `at`.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    word: u64,
    /// Between refills, only the low six bits are valid.
    bits: u32,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0, word: 0, bits: 0 }
    }

    /// Fills the word to at least 56 bits; returns false if fewer than 8 bytes are left.
    #[inline(always)]
    fn refill(&mut self) -> bool {
        let Some(next) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) else { return false };
        self.fill(u64::from_be_bytes(*next));
        true
    }

    #[inline(always)]
    fn fill(&mut self, next: u64) {
        let bits = self.bits & 63;
        self.word |= next >> bits;
        self.at += ((63 - bits) >> 3) as usize;
        self.bits = bits | 56;
    }

    #[inline(always)]
    fn symbol(&mut self, table: &Table) -> u8 {
        let entry = table[(self.word >> (64 - CODE_BITS_MAX)) as usize];
        self.word = self.word.wrapping_shl(entry.into());
        self.bits = self.bits.wrapping_sub(entry.into());
        (entry >> 8) as u8
    }

    /// Decodes the remaining symbols; bytes beyond the end read as zeros.
    fn finish(&mut self, table: &Table, out: &mut [u8]) {
        for out in out.chunks_mut(STEP) {
            let mut next = [0; 8];
            let left = self.bytes.get(self.at..).unwrap_or_default();
            let kept = left.len().min(8);
            next[..kept].copy_from_slice(&left[..kept]);
            self.fill(u64::from_be_bytes(next));
            out.iter_mut().for_each(|out| *out = self.symbol(table));
        }
    }

    /// Number of bytes consumed; beyond the end if the stream was truncated.
    fn consumed_bytes(&self) -> usize {
        self.at - (self.bits & 63) as usize / 8
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    fn check(symbols: &[u8]) -> Vec<u8> {
        let code = Code::of(&histogram(symbols));
        let mut bytes = Vec::new();
        code.write(symbols, &mut bytes);
        assert!(bytes.len() <= code.bytes, "{} bytes, {} promised", bytes.len(), code.bytes);
        // Bytes behind the codes belong to other data.
        let written = bytes.len();
        bytes.extend_from_slice(&[0xa5; 20]);
        let mut reader = Reader::new(&bytes);
        assert!(decode(&mut reader, symbols.len()).unwrap() == symbols);
        assert_eq!(reader.remaining(), 20);
        for cut in (0..written).rev().take(40) {
            assert!(decode(&mut Reader::new(&bytes[..cut]), symbols.len()).is_err(), "cut to {cut} of {written}");
        }
        bytes
    }

    #[test]
    fn symbols_round_trip_however_often_they_occur() {
        let mut random = Random(1);
        for count in [1, 2, 3, 5, 19, 20, 21, 64, 1_000, 8_192] {
            let mut of =
                |f: &mut dyn FnMut(u64) -> u8| check(&(0..count).map(|_| f(random.next())).collect::<Vec<u8>>());
            of(&mut |_| 7);
            of(&mut |_| 255);
            of(&mut |bits| bits as u8);
            of(&mut |bits| (bits & 1) as u8 * 255);
            of(&mut |bits| bits.leading_zeros() as u8);
            // Decreasing frequencies that would need codes longer than the limit.
            of(&mut |bits| (bits.leading_zeros() * 9) as u8);
        }
    }

    /// The bound counted two bytes for the length of a stream, and streams of more than 16 KiB take three: the size of
    /// large texts was underestimated. It follows from the number of bits now.
    #[test]
    fn the_bound_of_the_size_holds_for_long_streams() {
        let mut random = Random(3);
        let symbols: Vec<u8> = (0..80_000).map(|_| random.next() as u8).collect();
        let mut bytes = Vec::new();
        let code = Code::of(&histogram(&symbols));
        code.write(&symbols, &mut bytes);
        assert!(bytes.len() <= code.bytes && code.bytes < bytes.len() + 16, "{} of {}", bytes.len(), code.bytes);
    }

    #[test]
    fn codes_are_as_short_as_entropy_allows() {
        let mut random = Random(2);
        let symbols: Vec<u8> = (0..8_192).map(|_| random.next().trailing_zeros() as u8).collect();
        // Two bits per symbol.
        assert!(check(&symbols).len() < 8_192 / 4 + 60);
    }

    #[test]
    fn invalid_code_lengths_are_refused() {
        // Invalid codes: three of one bit, one of two bits, one of twelve bits.
        for bytes in [[2, 0x11, 0x01, 0], [0, 0x02, 0, 0], [1, 0x0b, 0, 0]] {
            assert!(decode(&mut Reader::new(&bytes), 1).is_err(), "{bytes:?}");
        }
    }
}
