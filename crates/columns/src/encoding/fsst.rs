//! FSST: text compressed by a table of up to 255 symbols (strings of one to eight bytes), found in
//! a sample, each replaced by a one-byte code.
//!
//! Decoding copies eight bytes for each code. Codes can be Huffman-coded in turn (`huffman`).
//!
//! Bytes: docs/format/segment.md, "Symbols". Source: Boncz, Neumann, Leis, "FSST: Fast Random
//! Access String Compression", VLDB
//! 2020. We differ: all values are compressed as one text, in interleaved parts, and pairs of
//!   symbols are counted in a small hash table.

use model::Result;

use super::byte_io::{Reader, corrupt};
use super::cpu::multiversion;
use super::templates::load;

/// The code of a byte without a symbol; the byte follows.
const ESCAPE: u8 = 255;
/// Most symbols of a table.
const SYMBOLS_MAX: usize = 255;
const SYMBOL_BYTES_MAX: usize = 8;
/// Size of the training sample, and of the pieces it consists of.
const SAMPLE_BYTES: usize = 8 << 10;
const PIECE_BYTES: usize = 256;
/// Each training round joins symbols of the previous round; this many of every eight pieces are
/// used.
const ROUNDS: [usize; 4] = [2, 4, 6, 8];
/// Slots of the hash table of symbols of three and more bytes.
const LONG: usize = 2_048;
/// Slots of the hash table of pairs.
const PAIRS: usize = 8_192;
/// Slots to probe before a pair is ignored.
const PROBES: usize = 8;
/// Parts of a text that are encoded in an interleaved loop.
const PARTS: usize = 8;

/// Up to eight bytes, the first in the lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Symbol {
    bytes: u64,
    length: u8,
}

impl Symbol {
    fn of_byte(byte: u8) -> Symbol {
        Symbol { bytes: byte.into(), length: 1 }
    }

    /// The concatenation, truncated to the maximal length.
    fn join(self, next: Symbol) -> Symbol {
        let bytes = self.bytes | next.bytes.checked_shl(8 * u32::from(self.length)).unwrap_or(0);
        Symbol { bytes, length: (self.length + next.length).min(SYMBOL_BYTES_MAX as u8) }
    }
}

/// A slot for a symbol of three and more bytes, hashed by its first three.
#[derive(Clone, Copy, Default)]
struct Long {
    bytes: u64,
    /// Number of bits of a word outside the symbol; 64 marks a free slot.
    ignored: u8,
    length: u8,
    code: u8,
}

/// Finds the longest symbol at the start of a text.
pub(super) struct Table {
    symbols: Vec<Symbol>,
    long: Box<[Long; LONG]>,
    /// By the next two bytes: code in the low byte, length, and [`IS_ESCAPE`].
    short: Box<[u16; 1 << 16]>,
}

const LENGTH_SHIFT: u32 = 8;
const IS_ESCAPE: u16 = 1 << 12;

#[inline(always)]
fn place_of(word: u64) -> usize {
    ((word & 0xff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize & (LONG - 1)
}

impl Table {
    fn empty() -> Table {
        let long = vec![Long { ignored: 64, ..Long::default() }; LONG].into_boxed_slice();
        let short = vec![0; 1 << 16].into_boxed_slice();
        match (long.try_into(), short.try_into()) {
            (Ok(long), Ok(short)) => Table { symbols: Vec::new(), long, short },
            _ => unreachable!("lengths are constants"),
        }
    }

    /// Replaces the symbols of the table. If two share a hash slot, the first one is kept, so the
    /// more useful one must come first.
    fn fill(&mut self, symbols: impl Iterator<Item = Symbol>) {
        self.symbols.clear();
        self.long.fill(Long { ignored: 64, ..Long::default() });
        for symbol in symbols {
            if self.symbols.len() == SYMBOLS_MAX {
                break;
            }
            if symbol.length > 2 {
                let place = &mut self.long[place_of(symbol.bytes)];
                if place.ignored < 64 {
                    continue;
                }
                place.ignored = 0;
            }
            self.symbols.push(symbol);
        }
        // Codes are assigned by length, the order of the format.
        self.symbols.sort_by_key(|symbol| symbol.length);
        self.long.fill(Long { ignored: 64, ..Long::default() });
        let mut first = [u16::from(ESCAPE) | 1 << LENGTH_SHIFT | IS_ESCAPE; 256];
        for (code, symbol) in self.symbols.iter().enumerate() {
            if symbol.length == 1 {
                first[symbol.bytes as usize] = code as u16 | 1 << LENGTH_SHIFT;
            }
        }
        // The first byte is the low one.
        self.short.chunks_exact_mut(256).for_each(|row| row.copy_from_slice(&first));
        for (code, symbol) in self.symbols.iter().enumerate() {
            let (code, length) = (code as u8, symbol.length);
            match length {
                0 | 1 => {}
                2 => self.short[symbol.bytes as usize] = u16::from(code) | 2 << LENGTH_SHIFT,
                _ => {
                    let place = &mut self.long[place_of(symbol.bytes)];
                    *place = Long { bytes: symbol.bytes, ignored: 64 - 8 * length, length, code };
                }
            }
        }
    }

    /// The longest symbol at the start of `word`: code, length, and 1 if it is an escape.
    #[inline(always)]
    fn find(&self, word: u64) -> (u8, usize, usize) {
        let long = &self.long[place_of(word)];
        let short = self.short[usize::from(word as u16)];
        let is_long = (long.ignored < 64) & ((word ^ long.bytes) << (long.ignored & 63) == 0);
        let (code, length) =
            if is_long { (long.code, long.length) } else { (short as u8, (short >> LENGTH_SHIFT) as u8 & 15) };
        let escapes = if is_long { 0 } else { short / IS_ESCAPE };
        (code, length.into(), escapes.into())
    }

    /// Like [`Table::find`], for a word of which only `left` bytes, 1 .. 8, are text.
    fn find_within(&self, word: u64, left: usize) -> (u8, usize, usize) {
        let found = self.find(word);
        if found.1 <= left {
            return found;
        }
        // The match extends beyond the end; try shorter symbols.
        let candidates = self.symbols.iter().enumerate().filter(|(_, symbol)| usize::from(symbol.length) <= left);
        let fits = |symbol: &Symbol| (word ^ symbol.bytes) << (64 - 8 * u32::from(symbol.length)) == 0;
        match candidates.rev().find(|(_, symbol)| fits(symbol)) {
            Some((code, symbol)) => (code as u8, symbol.length.into(), 0),
            None => (ESCAPE, 1, 1),
        }
    }

    /// Trains symbols for `text`.
    pub(super) fn train(text: &[u8]) -> Table {
        let mut table = Table::empty();
        table.fill(std::iter::empty());
        let pieces: Vec<&[u8]> = pieces(text).collect();
        let mut counts = Counts::new();
        for share in ROUNDS {
            counts.clear();
            let looked_at = pieces.iter().enumerate().filter(|(at, _)| at % 8 < share);
            looked_at.for_each(|(_, piece)| table.count(piece, &mut counts));
            let best = table.best(&counts);
            table.fill(best.into_iter());
        }
        table
    }

    /// Counts the symbols of `piece` (bytes without a symbol have numbers from 256 on) and pairs of
    /// them.
    fn count(&self, piece: &[u8], counts: &mut Counts) {
        let mut before = None;
        let mut at = 0;
        while at + 8 <= piece.len() {
            let word = load(piece, at);
            let (code, length, escapes) = self.find(word);
            let symbol = if escapes > 0 { 256 + (word & 0xff) as usize } else { code.into() };
            counts.single[symbol] += 1;
            if let Some(before) = before {
                counts.count_pair(before, symbol);
            }
            // Single bytes count too: they may become part of a longer symbol.
            before = Some(symbol);
            at += length;
        }
    }

    /// The symbols and pairs with the highest gain.
    fn best(&self, counts: &Counts) -> Vec<Symbol> {
        let symbol_of =
            |number: usize| if number >= 256 { Symbol::of_byte((number - 256) as u8) } else { self.symbols[number] };
        let mut all: Vec<(u64, Symbol)> = Vec::with_capacity(1_024);
        for (number, count) in counts.single.iter().enumerate().filter(|(_, count)| **count > 0) {
            let symbol = symbol_of(number);
            // Single bytes save an escape, and are used where no longer symbol fits.
            let weight = if symbol.length == 1 { 8 } else { symbol.length.into() };
            all.push((u64::from(*count) * weight, symbol));
        }
        for (pair, count) in counts.pairs.iter().filter(|(pair, count)| *pair > 0 && *count > 1) {
            let symbol = symbol_of((pair - 1) as usize >> 9).join(symbol_of((pair - 1) as usize & 511));
            all.push((u64::from(*count) * u64::from(symbol.length), symbol));
        }
        // Several pairs may form the same symbol. The order is deterministic.
        all.sort_unstable_by_key(|(_, symbol)| (symbol.length, symbol.bytes));
        all.dedup_by(|next, kept| {
            let same = next.1 == kept.1;
            if same {
                kept.0 += next.0;
            }
            same
        });
        all.sort_unstable_by_key(|(gain, symbol)| (std::cmp::Reverse(*gain), symbol.length, symbol.bytes));
        all.into_iter().map(|(_, symbol)| symbol).take(SYMBOLS_MAX + SYMBOLS_MAX / 4).collect()
    }

    /// Encodes `text`. `expected` is an estimate of the number of codes.
    pub(super) fn encode(&self, text: &[u8], expected: usize) -> Vec<u8> {
        let room = expected / PARTS + expected / PARTS / 8 + 64;
        let each = text.len() / PARTS;
        let mut parts: [Part<'_>; PARTS] = std::array::from_fn(|part| {
            let rest = &text[part * each..];
            Part::new(if part < PARTS - 1 { &rest[..each] } else { rest }, room)
        });
        encode_together(self, &mut parts);
        let mut codes = Vec::with_capacity(text.len() / 2 + 16);
        for mut part in parts {
            part.finish(self);
            assert!(part.at == part.text.len(), "BUG: {} of {} bytes were encoded", part.at, part.text.len());
            codes.extend_from_slice(&part.codes[..part.written]);
        }
        assert!(codes.len() <= 2 * text.len(), "BUG: {} codes for {} bytes", codes.len(), text.len());
        codes
    }

    /// Appends the symbols: the number of each length, then their bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let symbols = self.symbols.len();
        assert!(symbols <= SYMBOLS_MAX, "BUG: {symbols} symbols, at most {SYMBOLS_MAX} have a code");
        let mut counts = [0; SYMBOL_BYTES_MAX];
        self.symbols.iter().for_each(|symbol| counts[usize::from(symbol.length) - 1] += 1);
        out.extend_from_slice(&counts);
        for symbol in &self.symbols {
            out.extend_from_slice(&symbol.bytes.to_le_bytes()[..symbol.length.into()]);
        }
    }

    /// Size of the output of [`Table::write`].
    pub(super) fn bytes(&self) -> usize {
        SYMBOL_BYTES_MAX + self.symbols.iter().map(|symbol| usize::from(symbol.length)).sum::<usize>()
    }
}

/// A part of the text being encoded.
struct Part<'a> {
    text: &'a [u8],
    at: usize,
    codes: Vec<u8>,
    written: usize,
}

impl<'a> Part<'a> {
    /// `room`: initial capacity, in codes.
    fn new(text: &'a [u8], room: usize) -> Part<'a> {
        Part { text, at: 0, codes: vec![0; room], written: 0 }
    }

    /// Whether a whole word is left, and room for its codes.
    #[inline(always)]
    fn has_word(&self) -> bool {
        (self.at + 8 <= self.text.len()) & (self.written + 2 <= self.codes.len())
    }

    #[inline(always)]
    fn step(&mut self, table: &Table) {
        let word = load(self.text, self.at);
        let (code, length, escapes) = table.find(word);
        self.put(code, word, length, escapes);
    }

    #[inline(always)]
    fn put(&mut self, code: u8, word: u64, length: usize, escapes: usize) {
        // Always writes the escaped byte too; the next code overwrites it if there was no escape.
        if let Some(out) = self.codes.get_mut(self.written..).and_then(<[u8]>::first_chunk_mut) {
            *out = [code, word as u8];
        }
        self.written += 1 + escapes;
        self.at += length;
    }

    fn finish(&mut self, table: &Table) {
        let most = self.written + (self.text.len() - self.at) * 2 + 2;
        if self.codes.len() < most {
            self.codes.resize(most, 0);
        }
        while self.has_word() {
            self.step(table);
        }
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            let word = u64::from_le_bytes(word);
            let (code, length, escapes) = table.find_within(word, rest.len());
            self.put(code, word, length, escapes);
        }
    }
}

multiversion! {
/// Encodes the parts in turn, so that the processor executes several lookups at once.
fn encode_together(table: &Table, parts: &mut [Part<'_>; PARTS]) {
    while parts.iter().all(Part::has_word) {
        parts.iter_mut().for_each(|part| part.step(table));
    }
}
}

/// Frequencies of symbols and of pairs of symbols.
struct Counts {
    single: [u32; 512],
    /// Open addressing: 1 + first << 9 + second, and its count; 0 marks a free slot.
    pairs: Vec<(u32, u32)>,
}

impl Counts {
    fn new() -> Counts {
        Counts { single: [0; 512], pairs: vec![(0, 0); PAIRS] }
    }

    fn clear(&mut self) {
        self.single.fill(0);
        self.pairs.fill((0, 0));
    }

    #[inline(always)]
    fn count_pair(&mut self, first: usize, second: usize) {
        let pair = 1 + (first << 9 | second) as u32;
        let place = (pair.wrapping_mul(0x9e37_79b1) >> 19) as usize;
        for probe in 0..PROBES {
            let (other, count) = &mut self.pairs[(place + probe) & (PAIRS - 1)];
            if *other == 0 || *other == pair {
                *other = pair;
                *count += 1;
                return;
            }
        }
    }
}

/// Pieces distributed over `text`, or all of it if it is short.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let step = (text.len() * PIECE_BYTES / SAMPLE_BYTES).max(PIECE_BYTES);
    text.chunks(step).map(|chunk| &chunk[..chunk.len().min(PIECE_BYTES)])
}

/// A decoded symbol table.
pub(super) struct Symbols {
    bytes: [u64; 256],
    lengths: [u8; 256],
}

impl Symbols {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Symbols> {
        let counts = reader.take(SYMBOL_BYTES_MAX, "symbols")?;
        let all: usize = counts.iter().map(|count| usize::from(*count)).sum();
        if all > SYMBOLS_MAX {
            return Err(corrupt(format!("{all} symbols, at most {SYMBOLS_MAX} are possible")));
        }
        // Codes without a symbol have length 0; the check of the total detects them.
        let mut symbols = Symbols { bytes: [0; 256], lengths: [0; 256] };
        let mut code = 0;
        for (shorter, count) in counts.iter().enumerate() {
            for _ in 0..*count {
                let bytes = reader.take(shorter + 1, "symbol")?;
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                symbols.bytes[code] = u64::from_le_bytes(word);
                symbols.lengths[code] = shorter as u8 + 1;
                code += 1;
            }
        }
        Ok(symbols)
    }

    /// Decodes `codes` to exactly `total` bytes.
    pub(super) fn decode(&self, codes: &[u8], total: usize) -> Result<Vec<u8>> {
        // Verified before memory is allocated.
        if total > codes.len() * SYMBOL_BYTES_MAX {
            return Err(corrupt(format!("{} codes cannot hold {total} bytes", codes.len())));
        }
        let mut out = vec![0; total + SYMBOL_BYTES_MAX];
        match expand(self, codes, &mut out) {
            Some(length) if length == total => {
                out.truncate(total);
                Ok(out)
            }
            Some(length) => Err(corrupt(format!("codes decode to {length} bytes, expected {total}"))),
            None => Err(corrupt(format!("codes decode to more than {total} bytes, or end early"))),
        }
    }
}

/// Decodes `codes` into `out` and returns the length; `None` if `out`, less 8 spare bytes, is too
/// short or an escaped byte is missing.
fn expand(symbols: &Symbols, codes: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut next, mut at) = (0, 0);
    while next < codes.len() {
        // Eight codes at once if none is an escape and there is room for the longest symbols.
        let eight = codes[next..].first_chunk::<8>().filter(|eight| !has_escape(**eight));
        let room = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<64>);
        if let (Some(eight), Some(room)) = (eight, room) {
            at += expand_eight(symbols, eight, room);
            next += 8;
            continue;
        }
        let code = codes[next];
        let place = out.get_mut(at..)?.first_chunk_mut()?;
        if code == ESCAPE {
            place[0] = *codes.get(next + 1)?;
            (next, at) = (next + 2, at + 1);
        } else {
            *place = symbols.bytes[usize::from(code)].to_le_bytes();
            (next, at) = (next + 1, at + usize::from(symbols.lengths[usize::from(code)]));
        }
    }
    Some(at)
}

#[inline(always)]
fn expand_eight(symbols: &Symbols, codes: &[u8; 8], out: &mut [u8; 64]) -> usize {
    let mut at = 0;
    for code in codes {
        if let Some(place) = out[at.min(56)..].first_chunk_mut() {
            *place = symbols.bytes[usize::from(*code)].to_le_bytes();
        }
        at += usize::from(symbols.lengths[usize::from(*code)]);
    }
    at
}

#[inline(always)]
fn has_escape(codes: [u8; 8]) -> bool {
    let others = !u64::from_le_bytes(codes);
    others.wrapping_sub(0x0101_0101_0101_0101) & !others & 0x8080_8080_8080_8080 != 0
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    fn check(text: &[u8]) -> usize {
        let table = Table::train(text);
        let codes = table.encode(text, text.len() / 3);
        // In the worst case every byte is an escape and itself.
        assert!(codes.len() <= text.len() * 2);
        let mut bytes = Vec::new();
        table.write(&mut bytes);
        assert_eq!(bytes.len(), table.bytes());
        let mut reader = Reader::new(&bytes);
        let symbols = Symbols::read(&mut reader).unwrap();
        reader.finish("symbols").unwrap();
        assert!(symbols.decode(&codes, text.len()).unwrap() == text);
        // A wrong total is detected.
        assert!(symbols.decode(&codes, text.len() + 1).is_err());
        assert!(text.is_empty() || symbols.decode(&codes, text.len() - 1).is_err());
        codes.len()
    }

    #[test]
    fn any_bytes_round_trip() {
        let mut random = Random(1);
        for length in [0, 1, 2, 7, 8, 9, 31, 33, 100, 1_000, 40_000] {
            let mut of =
                |f: &mut dyn FnMut(u64) -> u8| check(&(0..length).map(|_| f(random.next())).collect::<Vec<u8>>());
            of(&mut |_| 0);
            of(&mut |_| 255);
            of(&mut |bits| bits as u8);
            of(&mut |bits| b'a' + (bits % 3) as u8);
            of(&mut |bits| [0, 255, b'x'][(bits % 3) as usize]);
        }
    }

    #[test]
    fn text_that_repeats_takes_less_than_half() {
        let text: String = (0..2_000).map(|i| format!("the pump {} was replaced by the shift\n", i % 7)).collect();
        assert!(check(text.as_bytes()) * 3 < text.len());
    }

    #[test]
    fn symbols_are_read_as_the_format_says() {
        // One symbol of one byte and two of two bytes; codes 0, 1, 2 and an escape.
        let bytes = [&[1, 2, 0, 0, 0, 0, 0, 0], &b"xabcd"[..]].concat();
        let symbols = Symbols::read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(symbols.decode(&[0, 1, 2, 1, ESCAPE, b'z'], 8).unwrap(), b"xabcdabz");
        assert!(symbols.decode(&[3], 0).is_ok(), "a code without symbol stands for nothing");
    }

    #[test]
    fn truncated_codes_and_wrong_totals_are_refused() {
        let symbols = Symbols { bytes: [0; 256], lengths: [1; 256] };
        assert!(symbols.decode(&[1, ESCAPE], 2).is_err());
        assert!(symbols.decode(&[1, 2, 3], 1 << 40).is_err());
        assert!(Symbols::read(&mut Reader::new(&[200, 200, 0, 0, 0, 0, 0, 0])).is_err());
    }
}
