//! Machine-generated text as templates: a pattern, and the numbers in it as columns.
//!
//! `pump 17 lost 10.1.4.9 after 312 ms` is the pattern `pump # lost #.#.#.# after # ms` and six
//! numbers. Patterns are few and stored once; the numbers at the same place are an integer stream,
//! which compresses counters, times and clustered values.
//!
//! Bytes: docs/format/segment.md, "Fields". Source of the idea: Rodrigues, Luo, Yuan, "CLP:
//! Efficient and Scalable Search on Compressed Text Logs", OSDI 2021. We differ: numbers of any
//! kind become integer streams, there is no dictionary of variables, and a pattern is the text
//! without its numbers.

use model::Result;
use rustc_hash::FxHasher;
use std::hash::Hasher;

use super::byte_io::{Reader, TEXT_BYTES_MAX, corrupt, push_varint};
use super::bytes::{Values, read_list, write_list};
use super::cpu::multiversion;
use super::features::Features;
use super::ints;

/// In a pattern, this digit stands for a decimal number without leading zeros.
const FREE: u8 = b'0';
/// Stands for a decimal number with as many digits as the next byte says.
const FIXED: u8 = b'1';
/// Stands for a hexadecimal number (a to f in lower case) with as many digits as the next byte
/// says.
const HEX: u8 = b'2';
/// Decimal digits that always fit a signed integer.
const DIGITS_MAX: usize = 18;
const HEX_DIGITS_MAX: usize = 16;
/// Fewest digits of a word to be recognised as hexadecimal.
const HEX_DIGITS_MIN: usize = 4;
/// Most numbers in a value.
const SLOTS_MAX: usize = 64;
/// Longer values are not parsed: other encodings find what they have in common.
const VALUE_BYTES_MAX: usize = 4_096;
/// A digit of the value may become a placeholder and a width.
const PATTERN_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;
/// Size of the sample that determines the widths of numbers and whether there are few patterns.
const SAMPLE: usize = 192;
/// Up to this many patterns are always accepted.
const PATTERNS_FREE: usize = 128;
/// Padding that loads and stores of whole words may touch.
pub(super) const SLACK: usize = 24;

const POWERS: [u64; DIGITS_MAX + 1] = {
    let mut powers = [1; DIGITS_MAX + 1];
    let mut at = 1;
    while at <= DIGITS_MAX {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Widths of the numbers at a place, learned from a sample; 0: no such number.
#[derive(Clone, Copy, Default)]
struct Slot {
    fixed: u8,
    hex: u8,
}

struct LearnedWidths {
    slots: [Slot; SLOTS_MAX],
}

/// A parsed value.
struct ParsedValue {
    /// The pattern; stores of whole words may write beyond its length.
    buffer: Box<[u8; PATTERN_BYTES_MAX + SLACK]>,
    length: usize,
    numbers: Vec<i64>,
}

impl ParsedValue {
    fn new() -> ParsedValue {
        ParsedValue { buffer: Box::new([0; PATTERN_BYTES_MAX + SLACK]), length: 0, numbers: Vec::new() }
    }

    fn pattern(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Appends the first `count` of eight bytes.
    #[inline(always)]
    fn push(&mut self, word: u64, count: usize) {
        if let Some(place) = self.buffer.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut) {
            *place = word.to_le_bytes();
        }
        self.length += count;
    }

    /// Appends `count` bytes from `at`, which [`SLACK`] more bytes follow.
    #[inline(always)]
    fn push_text(&mut self, all: &[u8], at: usize, count: usize) {
        let from = all.get(at..).and_then(<[u8]>::first_chunk::<16>);
        match (from, self.buffer.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut::<16>)) {
            (Some(from), Some(to)) if count <= 16 => *to = *from,
            _ => self.buffer[self.length..self.length + count].copy_from_slice(&all[at..at + count]),
        }
        self.length += count;
    }

    /// Appends a placeholder and its width.
    #[inline(always)]
    fn push_number(&mut self, form: u8, width: usize) {
        self.push(u64::from(form) | (width as u64) << 8, if form == FREE { 1 } else { 2 });
    }
}

/// Concatenated values, followed by [`SLACK`] bytes, and a bitmap of the digits.
#[derive(Clone, Copy)]
struct Source<'a> {
    all: &'a [u8],
    ends: &'a [usize],
    /// One bit per byte, lowest first, and at least 64 more bits.
    digits: &'a [u64],
}

/// Parses a value, from `at` to `end`.
struct Splitter<'a> {
    all: &'a [u8],
    digits: &'a [u64],
    at: usize,
    end: usize,
    /// The next `valid` bits of `digits`, from `at` on.
    window: u64,
    valid: usize,
}

impl<'a> Splitter<'a> {
    #[inline(always)]
    fn new(source: &Source<'a>, at: usize, end: usize) -> Splitter<'a> {
        Splitter { all: source.all, digits: source.digits, at, end, window: 0, valid: 0 }
    }

    /// Refills the window when fewer than 32 of its 64 bits are left. That is more than the digits
    /// of a number.
    #[inline(always)]
    fn refill(&mut self) {
        if self.valid < 32 {
            let (word, bit) = (self.at / 64, self.at % 64);
            let both = self.digits.get(word..).and_then(<[u64]>::first_chunk::<2>).copied().unwrap_or_default();
            self.window = both[0] >> bit | (both[1] << 1) << (63 - bit);
            self.valid = 64;
        }
    }

    /// Skips `count` bytes, fewer than 64.
    #[inline(always)]
    fn skip(&mut self, count: usize) {
        self.at += count;
        self.window >>= count & 63;
        self.valid = self.valid.saturating_sub(count);
    }

    /// Length of the run of bytes from `at`, up to `end`, that `marks` accepts.
    #[inline(always)]
    fn run(&self, at: usize, end: usize, marks: impl Fn(u64) -> u64) -> usize {
        let (mut count, left) = (0, end - at);
        while count < left {
            let others = !marks(load(self.all, at + count)) & MARKS;
            count += (others.trailing_zeros() / 8) as usize;
            if others != 0 {
                break;
            }
        }
        count.min(left)
    }

    /// Length of the word (letters and digits) at the current position.
    #[inline(always)]
    fn token(&self) -> usize {
        self.run(self.at, self.end, word_marks)
    }

    /// The value of the next `digits` digits, at most [`DIGITS_MAX`].
    #[inline(always)]
    fn number(&self, digits: usize) -> i64 {
        let mut number = 0;
        let (mut at, mut left) = (self.at, digits);
        while left > 0 {
            let taken = left.min(8);
            number = number * POWERS[taken] + eight_digits(load(self.all, at) << (64 - 8 * taken));
            (at, left) = (at + taken, left - taken);
        }
        number.cast_signed()
    }

    /// Parses the rest of the value; returns false if it has too many numbers.
    #[inline(always)]
    fn split(&mut self, learned: &LearnedWidths, parts: &mut ParsedValue) -> bool {
        parts.length = 0;
        for slot in 0..SLOTS_MAX {
            let slot = learned.slots[slot];
            if slot.hex > 0 && self.literal_or_hex(slot.hex.into(), parts) {
                continue;
            }
            self.literal(parts);
            if self.at == self.end {
                return true;
            }
            self.take_number(slot, parts);
        }
        self.literal(parts);
        self.at == self.end
    }

    /// Appends the text before the next digit.
    #[inline(always)]
    fn literal(&mut self, parts: &mut ParsedValue) {
        loop {
            self.refill();
            // At most 56 bytes, because `skip` takes fewer than 64.
            let before = (self.window.trailing_zeros() as usize).min(self.valid).min(56);
            let count = before.min(self.end - self.at);
            parts.push_text(self.all, self.at, count);
            self.skip(count);
            if self.at == self.end || self.window & 1 == 1 {
                return;
            }
        }
    }

    #[inline(always)]
    fn take_number(&mut self, slot: Slot, parts: &mut ParsedValue) {
        self.refill();
        let all = ((!self.window).trailing_zeros() as usize).min(self.valid).min(self.end - self.at);
        let digits = all.min(DIGITS_MAX);
        let zeros = self.all[self.at] == b'0' && digits > 1;
        if zeros || all > digits || usize::from(slot.fixed) == digits {
            parts.push_number(FIXED, digits);
        } else {
            parts.push_number(FREE, 0);
        }
        parts.numbers.push(self.number(digits));
        self.skip(digits);
    }

    /// Takes the text before the next word with a digit, and this word if it is a hexadecimal
    /// number of `hex` digits. Returns whether it is.
    fn literal_or_hex(&mut self, hex: usize, parts: &mut ParsedValue) -> bool {
        while self.at < self.end {
            let token = self.token();
            if (token == hex || (hex == HEX_DIGITS_MAX && token > hex)) && self.is_hex(hex) {
                self.take_hex(hex, parts);
                return true;
            }
            let end = self.at + token;
            let letters = self.run(self.at, end, |word| !digit_marks(word));
            // Separators are taken together with the preceding word.
            let gap = if letters < token { 0 } else { self.run(end, self.end, |word| !word_marks(word)) };
            parts.push_text(self.all, self.at, letters + gap);
            self.at += letters + gap;
            self.valid = 0;
            if letters < token {
                break;
            }
        }
        false
    }

    #[inline(always)]
    fn is_hex(&self, digits: usize) -> bool {
        self.run(self.at, self.at + digits, |word| digit_marks(word) | marks_up_to(word ^ 0x6060_6060_6060_6060, 6))
            == digits
    }

    #[inline(always)]
    fn take_hex(&mut self, digits: usize, parts: &mut ParsedValue) {
        let first = digits.min(8);
        let mut number = eight_hex_digits(load(self.all, self.at)) >> (4 * (8 - first));
        if digits > 8 {
            let rest = eight_hex_digits(load(self.all, self.at + 8)) >> (4 * (16 - digits));
            number = number << (4 * (digits - 8)) | rest;
        }
        parts.push_number(HEX, digits);
        parts.numbers.push(number.cast_signed());
        self.skip(digits);
    }
}

/// Eight bytes from `at`, little-endian; 0 if there are fewer.
#[inline(always)]
pub(super) fn load(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

const MARKS: u64 = 0x8080_8080_8080_8080;

/// Sets the top bit of each byte that is a digit.
#[inline(always)]
fn digit_marks(word: u64) -> u64 {
    let values = word ^ 0x3030_3030_3030_3030;
    // Adding seven-bit values does not carry into the next byte.
    !(((values & !MARKS) + 0x7676_7676_7676_7676) | values) & MARKS
}

/// Sets the top bit of each byte that is a letter or a digit.
#[inline(always)]
fn word_marks(word: u64) -> u64 {
    digit_marks(word) | marks_up_to((word | 0x2020_2020_2020_2020) ^ 0x6060_6060_6060_6060, 26)
}

/// Sets the top bit of each byte that is within 1 ..= `most`.
#[inline(always)]
fn marks_up_to(word: u64, most: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = word & !MARKS;
    (low + 0x7f * ONES) & !(low + (0x7f - most) * ONES) & !word & MARKS
}

/// The value of eight hexadecimal digits, the first in the lowest byte.
#[inline(always)]
fn eight_hex_digits(word: u64) -> u64 {
    let letters = word >> 6 & 0x0101_0101_0101_0101;
    let digits = ((word & 0x0f0f_0f0f_0f0f_0f0f) + letters * 9) & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours << 16 | fours >> 32) & 0xffff_ffff
}

/// The value of eight decimal digits, the first in the lowest byte; zero bytes count as zeros.
#[inline(always)]
fn eight_digits(word: u64) -> u64 {
    let ones = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (ones.wrapping_mul(10) + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
}

/// Learns from a sample the widths of numbers with leading zeros and of hexadecimal numbers.
fn learn(source: &Source<'_>) -> LearnedWidths {
    let mut learned = LearnedWidths { slots: [Slot::default(); SLOTS_MAX] };
    learn_hex(source, &mut learned);
    let mut parts = ParsedValue::new();
    let mut widths = [0; SLOTS_MAX];
    for (start, end) in sampled(source.ends).filter(|(start, end)| end - start <= VALUE_BYTES_MAX) {
        parts.numbers.clear();
        Splitter::new(source, start, end).split(&learned, &mut parts);
        let mut marks = parts.pattern().iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
        for width in &mut widths {
            let Some((at, mark)) = marks.next() else { break };
            if *mark == FIXED {
                *width = parts.pattern()[at + 1];
            }
        }
    }
    learned.slots.iter_mut().zip(widths).for_each(|(slot, width)| slot.fixed = width);
    learned
}

/// Words with both digits and letters a to f are taken as hexadecimal, with the most frequent width
/// at their place.
fn learn_hex(source: &Source<'_>, learned: &mut LearnedWidths) {
    let all = source.all;
    let mut votes = [[0u16; HEX_DIGITS_MAX + 1]; SLOTS_MAX];
    for (start, end) in sampled(source.ends) {
        let mut splitter = Splitter::new(source, start, end);
        let mut slot = 0;
        while splitter.at < end && slot < SLOTS_MAX {
            let token = splitter.token();
            let word = &all[splitter.at..splitter.at + token];
            let mixed = word.iter().any(u8::is_ascii_digit) && word.iter().any(u8::is_ascii_lowercase);
            if token >= HEX_DIGITS_MIN && mixed && splitter.is_hex(token) {
                for part in word.chunks(HEX_DIGITS_MAX) {
                    if let Some(votes) = votes.get_mut(slot) {
                        votes[part.len()] += 1;
                    }
                    slot += 1;
                }
            } else {
                // Each run of digits is a number.
                let numbers = word.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
                let numbers = numbers.filter(|part| part[0].is_ascii_digit());
                slot += numbers.map(|part| part.len().div_ceil(DIGITS_MAX)).sum::<usize>();
            }
            splitter.at += token;
            splitter.at += all[splitter.at..end].iter().take_while(|byte| !byte.is_ascii_alphanumeric()).count();
        }
    }
    for (slot, votes) in learned.slots.iter_mut().zip(votes) {
        let most = votes.iter().enumerate().max_by_key(|(_, votes)| **votes);
        slot.hex = most.filter(|(_, votes)| **votes > 1).map_or(0, |(width, _)| width as u8);
    }
}

/// Starts and ends of the sampled values.
fn sampled(ends: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let step = ends.len().div_ceil(SAMPLE);
    (0..ends.len()).step_by(step).map(|at| (if at == 0 { 0 } else { ends[at - 1] }, ends[at]))
}

/// A hash table that numbers patterns in order of first appearance.
struct Patterns {
    bytes: Vec<u8>,
    /// End in `bytes`, and number of slots.
    list: Vec<(usize, usize)>,
    /// Open addressing: hash and 1 + number; 0 marks a free slot.
    places: Vec<(u64, u32)>,
}

impl Patterns {
    fn new() -> Patterns {
        Patterns { bytes: Vec::new(), list: Vec::new(), places: vec![(0, 0); 256] }
    }

    fn get(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.list[number - 1].0 };
        &self.bytes[start..self.list[number].0]
    }

    fn number_of(&mut self, pattern: &[u8], slots: usize) -> usize {
        let hash = hash(pattern);
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            match self.places[place] {
                (_, 0) => break,
                (other, number) if other == hash && self.get(number as usize - 1) == pattern => {
                    return number as usize - 1;
                }
                _ => place = (place + 1) & mask,
            }
        }
        self.bytes.extend_from_slice(pattern);
        self.list.push((self.bytes.len(), slots));
        self.places[place] = (hash, self.list.len() as u32);
        if self.list.len() * 2 > self.places.len() {
            self.grow();
        }
        self.list.len() - 1
    }

    fn grow(&mut self) {
        let mask = self.places.len() * 2 - 1;
        let mut places = vec![(0, 0); mask + 1];
        for (hash, number) in self.places.iter().filter(|(_, number)| *number > 0) {
            let mut place = *hash as usize & mask;
            while places[place].1 > 0 {
                place = (place + 1) & mask;
            }
            places[place] = (*hash, *number);
        }
        self.places = places;
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// Appends `values` as patterns and numbers if few patterns suffice; returns the features that a reader needs, or
/// `None` if they do not suffice.
///
/// - `all`: the values, followed by [`SLACK`] bytes (see [`with_slack`]).
/// - `ends`: the end of each value.
pub(super) fn write(all: &[u8], ends: &[usize], out: &mut Vec<u8>) -> Option<Features> {
    let with_digits = sampled(ends).filter(|(start, end)| all[*start..*end].iter().any(u8::is_ascii_digit)).count();
    if with_digits * 2 < sampled(ends).count() {
        return None;
    }
    let mut digits = vec![0; all.len() / 64 + 3];
    mark_digits(all, &mut digits);
    let source = Source { all, ends, digits: &digits };
    let learned = learn(&source);
    if !few_patterns(&source, &learned) {
        return None;
    }
    let mut patterns = Patterns::new();
    let mut indexes = Vec::with_capacity(ends.len());
    let mut parts = ParsedValue::new();
    parts.numbers.reserve(ends.len() * 4);
    if !split_all(&source, &learned, &mut parts, &mut patterns, &mut indexes) {
        return None;
    }
    assert!(indexes.len() == ends.len(), "BUG: {} patterns of {} values", indexes.len(), ends.len());
    Some(write_parts(&patterns, &indexes, &parts.numbers, out))
}

multiversion! {
/// Sets a bit for each byte that is a digit.
fn mark_digits(all: &[u8], digits: &mut [u64]) {
    for (bytes, digits) in all.chunks(64).zip(digits) {
        for (eight, bytes) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            match bytes.first_chunk() {
                Some(bytes) => word = *bytes,
                None => word[..bytes.len()].copy_from_slice(bytes),
            }
            // The multiplication gathers the marks, one bit in each byte, in the top byte.
            let marks = digit_marks(u64::from_le_bytes(word)) >> 7;
            *digits |= (marks.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * eight);
        }
    }
}

/// Parses all values; returns false if there are too many patterns or a value cannot be parsed.
fn split_all(
    source: &Source<'_>, learned: &LearnedWidths, parts: &mut ParsedValue, patterns: &mut Patterns, indexes: &mut Vec<i64>,
) -> bool {
    let mut start = 0;
    for (row, end) in source.ends.iter().enumerate() {
        let before = parts.numbers.len();
        if end - start > VALUE_BYTES_MAX || !Splitter::new(source, start, *end).split(learned, parts) {
            return false;
        }
        indexes.push(patterns.number_of(parts.pattern(), parts.numbers.len() - before) as i64);
        if patterns.list.len() > PATTERNS_FREE + row / 2 {
            return false;
        }
        start = *end;
    }
    true
}
}

/// Whether the sampled values have numbers, and at most three patterns for every four values.
fn few_patterns(source: &Source<'_>, learned: &LearnedWidths) -> bool {
    let mut patterns = Patterns::new();
    let mut parts = ParsedValue::new();
    let (mut count, mut numbers) = (0, 0);
    for (start, end) in sampled(source.ends) {
        parts.numbers.clear();
        if end - start > VALUE_BYTES_MAX || !Splitter::new(source, start, end).split(learned, &mut parts) {
            return false;
        }
        patterns.number_of(parts.pattern(), parts.numbers.len());
        numbers += parts.numbers.len();
        count += 1;
    }
    numbers > 0 && patterns.list.len() * 4 <= count * 3
}

fn write_parts(patterns: &Patterns, indexes: &[i64], numbers: &[i64], out: &mut Vec<u8>) -> Features {
    push_varint(out, patterns.list.len() as u64);
    let list: Vec<&[u8]> = (0..patterns.list.len()).map(|number| patterns.get(number)).collect();
    let mut features = write_list(&list, out) | ints::encode(indexes, out);
    let slots_of = |index: &i64| patterns.list[*index as usize].1;
    let mut rows = [0usize; SLOTS_MAX + 1];
    indexes.iter().for_each(|index| rows[slots_of(index)] += 1);
    let mut columns: Vec<Vec<i64>> = rows.iter().enumerate().map(|(slots, rows)| vec![0; slots * rows]).collect();
    let mut done = [0usize; SLOTS_MAX + 1];
    let mut at = 0;
    for index in indexes {
        let slots = slots_of(index);
        let (row, all_rows) = (done[slots], rows[slots]);
        let column = &mut columns[slots];
        numbers[at..at + slots].iter().enumerate().for_each(|(slot, number)| column[slot * all_rows + row] = *number);
        done[slots] += 1;
        at += slots;
    }
    assert!(at == numbers.len(), "BUG: patterns have {at} slots for {} numbers", numbers.len());
    for (columns, rows) in columns.iter().zip(rows).skip(1).filter(|(_, rows)| *rows > 0) {
        columns.chunks(rows).for_each(|column| features |= ints::encode(column, out));
    }
    features
}

/// Concatenates `values`, adds [`SLACK`] bytes, and returns the end of each value.
pub(super) fn with_slack(values: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let total: usize = values.iter().map(|value| value.len()).sum();
    let mut all = Vec::with_capacity(total + SLACK);
    let mut ends = Vec::with_capacity(values.len());
    for value in values {
        all.extend_from_slice(value);
        ends.push(all.len());
    }
    all.resize(total + SLACK, 0);
    (all, ends)
}

/// A step of a pattern: text, then a number; the last step has no number.
#[derive(Clone, Copy)]
struct Step {
    /// Start and length of the text.
    text: (u32, u32),
    /// Index of the number within the value.
    slot: usize,
    number: Number,
}

#[derive(Clone, Copy, PartialEq)]
enum Number {
    None,
    Free,
    Fixed(u8),
    Hex(u8),
}

/// A pattern prepared for decoding.
struct Template {
    steps: std::ops::Range<usize>,
    slots: usize,
    /// Most bytes of a value.
    bytes: usize,
}

/// All templates, with shared buffers of steps and texts.
#[derive(Default)]
struct Templates {
    list: Vec<Template>,
    steps: Vec<Step>,
    texts: Vec<u8>,
}

impl Templates {
    /// Adds a pattern with `slots` numbers. Numbers that are the same in all values become text.
    fn push(&mut self, pattern: &[u8], slots: usize, columns: &Columns) -> Result<()> {
        let first = self.steps.len();
        let mut text = self.texts.len();
        let mut slot = 0;
        let mut bytes = pattern.iter();
        while let Some(byte) = bytes.next() {
            let mut width = |most: usize| match bytes.next() {
                Some(width) if (1..=most).contains(&usize::from(*width)) => Ok(*width),
                other => Err(corrupt(format!("a number of {other:?} digits in a pattern"))),
            };
            let number = match *byte {
                FREE => Number::Free,
                FIXED => Number::Fixed(width(DIGITS_MAX)?),
                HEX => Number::Hex(width(HEX_DIGITS_MAX)?),
                b'3'..=b'9' => return Err(corrupt(format!("number form {} in a pattern", byte - b'0'))),
                other => {
                    self.texts.push(other);
                    continue;
                }
            };
            match columns.constants[slots].get(slot).copied().flatten() {
                Some(constant) => self.push_constant(number, constant)?,
                None => {
                    self.steps.push(Step { text: (text as u32, (self.texts.len() - text) as u32), slot, number });
                    text = self.texts.len();
                }
            }
            slot += 1;
        }
        self.steps.push(Step { text: (text as u32, (self.texts.len() - text) as u32), slot, number: Number::None });
        let bytes = pattern.len() + slots * DIGITS_MAX;
        self.list.push(Template { steps: first..self.steps.len(), slots, bytes });
        Ok(())
    }

    fn push_constant(&mut self, number: Number, constant: i64) -> Result<()> {
        let mut out = TextWriter { bytes: vec![0; DIGITS_MAX + SLACK], at: 0, wrong: false };
        out.number(number, constant.cast_unsigned());
        self.texts.extend_from_slice(&out.bytes[..out.at]);
        out.check()
    }
}

/// Decodes `count` values.
pub(super) fn read(reader: &mut Reader<'_>, count: usize) -> Result<Values> {
    let patterns = reader.count(count, "number of patterns")?;
    reader.note(|| format!("fields of {patterns} patterns "));
    let patterns = read_list(reader, patterns)?;
    reader.note(|| ", indexes ".into());
    let indexes = ints::decode_vec(reader, count)?;
    let mut slots = Vec::with_capacity(patterns.ends.len());
    for number in 0..patterns.ends.len() {
        slots.push(slots_of(patterns.get(number).unwrap_or_default())?);
    }
    let mut rows = [0usize; SLOTS_MAX + 1];
    for index in &indexes {
        let slots = usize::try_from(*index).ok().and_then(|index| slots.get(index));
        let Some(slots) = slots else {
            return Err(corrupt(format!("pattern {index} of {}", patterns.ends.len())));
        };
        rows[*slots] += 1;
    }
    let columns = Columns::read(reader, &rows)?;
    let mut templates = Templates::default();
    for (number, slots) in slots.iter().enumerate() {
        templates.push(patterns.get(number).unwrap_or_default(), *slots, &columns)?;
    }
    templates.texts.resize(templates.texts.len() + SLACK, 0);
    fill_in(&templates, &indexes, &columns)
}

/// Number of numbers in a pattern.
fn slots_of(pattern: &[u8]) -> Result<usize> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(corrupt(format!("a pattern of {} bytes, at most {PATTERN_BYTES_MAX} are possible", pattern.len())));
    }
    let mut slots = 0;
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        if byte.is_ascii_digit() {
            slots += 1;
            if *byte != FREE {
                bytes.next();
            }
        }
    }
    if slots > SLOTS_MAX {
        return Err(corrupt(format!("a pattern of {slots} numbers, at most {SLOTS_MAX} are possible")));
    }
    Ok(slots)
}

/// The numbers, grouped by the number of numbers in a value.
struct Columns {
    rows: [usize; SLOTS_MAX + 1],
    /// By group: the first numbers of all values, then the second ones, and so on.
    numbers: Vec<Vec<i64>>,
    /// By group and slot: the number, if it is the same in all values.
    constants: Vec<Vec<Option<i64>>>,
}

impl Columns {
    fn read(reader: &mut Reader<'_>, rows: &[usize; SLOTS_MAX + 1]) -> Result<Columns> {
        let mut columns = Columns { rows: *rows, numbers: Vec::new(), constants: Vec::new() };
        for (slots, rows) in rows.iter().enumerate() {
            let slots = if *rows > 0 { slots } else { 0 };
            let mut numbers = Vec::with_capacity(slots * rows);
            let mut constants = Vec::with_capacity(slots);
            for slot in 0..slots {
                reader.note(|| format!(", {slot} of {slots} "));
                ints::decode(reader, *rows, &mut numbers)?;
                let (least, greatest) = ints::min_and_max(&numbers[slot * rows..]);
                constants.push((least == greatest).then_some(least));
            }
            columns.numbers.push(numbers);
            columns.constants.push(constants);
        }
        Ok(columns)
    }
}

multiversion! {
/// Fills the numbers into the patterns.
fn fill_in(templates: &Templates, indexes: &[i64], columns: &Columns) -> Result<Values> {
    let mut done = [0usize; SLOTS_MAX + 1];
    let mut out = TextWriter { bytes: Vec::new(), at: 0, wrong: false };
    let mut ends = Vec::with_capacity(indexes.len());
    for index in indexes {
        let template = &templates.list[*index as usize];
        let (row, rows) = (done[template.slots], columns.rows[template.slots]);
        let numbers = &columns.numbers[template.slots];
        out.reserve(template.bytes, indexes.len() - ends.len())?;
        for step in &templates.steps[template.steps.clone()] {
            out.text(&templates.texts[step.text.0 as usize..], step.text.1 as usize);
            if step.number != Number::None {
                out.number(step.number, numbers[step.slot * rows + row].cast_unsigned());
            }
        }
        ends.push(out.at);
        done[template.slots] += 1;
    }
    out.check()?;
    out.bytes.truncate(out.at);
    Ok(Values { bytes: out.bytes, ends })
}
}

/// Output buffer for text. All stores are whole words and may write beyond the text.
struct TextWriter {
    bytes: Vec<u8>,
    at: usize,
    wrong: bool,
}

impl TextWriter {
    fn check(&self) -> Result<()> {
        if self.wrong { Err(corrupt("a number has more digits than its pattern has room for")) } else { Ok(()) }
    }

    /// Ensures room for a value of up to `bytes` bytes; `left` values are still to be written.
    #[inline(always)]
    fn reserve(&mut self, bytes: usize, left: usize) -> Result<()> {
        if self.bytes.len() - self.at < bytes + SLACK {
            if self.at + bytes > TEXT_BYTES_MAX {
                return Err(corrupt(format!("text of a chunk is longer than {TEXT_BYTES_MAX} bytes")));
            }
            // Reserves for further values of the same length, within a limit.
            let more = (bytes * left.min(1_024)).min(1 << 20).max(bytes);
            self.bytes.resize(self.at + more + SLACK, 0);
        }
        Ok(())
    }

    /// Appends the first `count` bytes of `text`, which [`SLACK`] more bytes follow.
    #[inline(always)]
    fn text(&mut self, text: &[u8], count: usize) {
        if count <= 16 {
            if let (Some(out), Some(text)) = (self.bytes[self.at..].first_chunk_mut::<16>(), text.first_chunk()) {
                *out = *text;
            }
        } else {
            self.bytes[self.at..self.at + count].copy_from_slice(&text[..count]);
        }
        self.at += count;
    }

    #[inline(always)]
    fn word(&mut self, word: u64, count: usize) {
        if let Some(out) = self.bytes[self.at..].first_chunk_mut() {
            *out = word.to_le_bytes();
        }
        self.at += count;
    }

    #[inline(always)]
    fn number(&mut self, number: Number, value: u64) {
        match number {
            Number::None => {}
            // A number that is too long is not written: there may be no room for it.
            Number::Free if value >= POWERS[DIGITS_MAX] => self.wrong = true,
            Number::Free => self.free(value),
            Number::Fixed(width) => {
                self.wrong |= value >= POWERS[usize::from(width)];
                self.fixed(value, width.into());
            }
            Number::Hex(width) => {
                self.wrong |= value.checked_shr(u32::from(width) * 4).unwrap_or(0) > 0;
                self.hex(value, width.into());
            }
        }
    }

    #[inline(always)]
    fn free(&mut self, value: u64) {
        const EIGHT: u64 = POWERS[8];
        if let Some(small) = SMALL.get(value as usize) {
            return self.word((small & 0xff_ffff).into(), (small >> 24) as usize);
        }
        if value < EIGHT {
            let digits = digits_of(value);
            let zeros = (digits.trailing_zeros() / 8).min(7);
            return self.word((digits | 0x3030_3030_3030_3030) >> (8 * zeros), 8 - zeros as usize);
        }
        self.free_long(value);
    }

    fn free_long(&mut self, value: u64) {
        let digits = value.ilog10() as usize + 1;
        self.fixed(value, digits);
    }

    #[inline(always)]
    fn fixed(&mut self, value: u64, width: usize) {
        let (mut left, mut value) = (width, value);
        while left > 8 {
            left -= 8;
            self.word(digits_of(value / POWERS[left]) | 0x3030_3030_3030_3030, 8);
            value %= POWERS[left];
        }
        self.word((digits_of(value) | 0x3030_3030_3030_3030) >> (8 * (8 - left)), left);
    }

    fn hex(&mut self, value: u64, width: usize) {
        let first = width.saturating_sub(8);
        if first > 0 {
            self.word(hex_digits_of((value >> 32) as u32) >> (8 * (8 - first)), first);
        }
        let last = width - first;
        self.word(hex_digits_of(value as u32) >> (8 * (8 - last)), last);
    }
}

/// Text of the numbers below 1,000, and in the top byte its length.
static SMALL: [u32; 1_000] = {
    let mut small = [0; 1_000];
    let mut value = 0;
    while value < 1_000 {
        let digits = if value < 10 {
            1
        } else if value < 100 {
            2
        } else {
            3
        };
        let text = 0x30_3030 + ((value / 100) | ((value / 10 % 10) << 8) | ((value % 10) << 16));
        small[value as usize] = text >> (8 * (3 - digits)) | digits << 24;
        value += 1;
    }
    small
};

/// The eight digits of a number below 10^8, one per byte, the first in the lowest. Undefined for
/// larger numbers.
#[inline(always)]
fn digits_of(value: u64) -> u64 {
    let value = value % POWERS[8];
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = (fours.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = (pairs.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - tens * 10) << 8
}

/// The eight hexadecimal digits of a number as text, the first in the lowest byte.
#[inline(always)]
fn hex_digits_of(value: u32) -> u64 {
    let wide = u64::from(value.swap_bytes());
    let halves = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes >> 4 | bytes << 8) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((nibbles + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    nibbles + 0x3030_3030_3030_3030 + letters * 39
}
