//! Content of an index node: sorted keys with one value each, the node's key range, and its right
//! neighbour.
//!
//! Words: the *prefix* is shared by all keys of a content; a key's *rest* follows it; a rest's
//! *head* is its first 8 bytes as a big-endian number, zero-padded. The *low fence* is the smallest
//! key in the node's range, the *high fence* the smallest key above it.
//!
//! Always true:
//! - A content is immutable once made. Readers need no lock and never see half a change.
//! - Keys ascend strictly, so heads ascend too; the rests decide between equal heads.
//! - The first entry of an inner node (`level` > 0) has no key: its child has all keys below the
//!   second entry's key.
//!
//! One allocation of 64-bit words, ordered by how early a search needs them:
//!
//! | words          | what                                                                   |
//! |----------------|------------------------------------------------------------------------|
//! | 1              | total words: u32; entries: u32                                         |
//! | 1              | version                                                                |
//! | 1              | right neighbour: u32; length of the prefix: u16; level: u8             |
//! | 1              | lengths of low and high fence: u16, u16; run of inserts: u16, u16      |
//! | as needed      | prefix, high fence, low fence                                          |
//! | entries        | heads                                                                  |
//! | entries        | values                                                                 |
//! | entries / 2    | end offsets of the rests: u32                                          |
//! | as needed      | rests                                                                  |

use std::cmp::Ordering;
use std::ops::Range;

/// A node's number in the arena.
pub(super) type NodeId = u32;

const HEADER_WORDS: usize = 4;
/// Value of the high fence's length if there is no high fence: the range is unbounded.
const OPEN: u16 = u16::MAX;
const _: () = assert!(super::KEY_BYTES_MAX < OPEN as usize);
/// A node splits if it exceeds the target size and has at least this many entries …
const ENTRIES_MIN: usize = 8;
/// … or, with long keys, if it has this many entries and exceeds the target size by
/// [`LONG_FACTOR`].
const LONG_ENTRIES_MIN: usize = 4;
const LONG_FACTOR: usize = 8;
/// Adjacent inserts that count as a sequential pattern.
const RUN_MIN: u16 = 8;

/// An owned content.
pub(super) struct Content(Box<[u64]>);

/// A content to read.
#[derive(Clone, Copy)]
pub(super) struct View<'g> {
    words: &'g [u64],
}

/// Everything in a content except its entries.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) version: u64,
    /// 0 for leaves.
    pub(super) level: u8,
    /// Undefined without a high fence.
    pub(super) right: NodeId,
    pub(super) low: &'a [u8],
    pub(super) high: Option<&'a [u8]>,
    pub(super) run: Run,
}

/// Position of the last insert, and length of the run of adjacent inserts before it. Decides where
/// to split.
#[derive(Clone, Copy, Default)]
pub(super) struct Run {
    at: u16,
    length: u16,
}

impl Run {
    /// The run after an insert at `at`. Tolerates small gaps, because several threads may append at
    /// once.
    fn next(self, at: usize) -> Run {
        let at = u16::try_from(at).unwrap_or(u16::MAX);
        let near = at.saturating_add(2) >= self.at && at <= self.at.saturating_add(3);
        Run { at, length: if near { self.length.saturating_add(1) } else { self.length / 2 } }
    }
}

impl Content {
    /// Encodes `entries[range]`, whose keys must ascend, with their longest common prefix.
    pub(super) fn encode(frame: Frame<'_>, entries: &Entries, range: Range<usize>) -> Content {
        let count = range.len();
        debug_assert!(
            (range.start + 1..range.end)
                .all(|i| i == range.start + 1 && frame.level > 0 || entries.key(i - 1) < entries.key(i)),
            "BUG: keys of a node do not ascend"
        );
        let keyed = range.start + usize::from(frame.level > 0)..range.end;
        let prefix = if keyed.is_empty() {
            &[][..]
        } else {
            let (first, last) = (entries.key(keyed.start), entries.key(keyed.end - 1));
            &first[..shared(first, last)]
        };
        let rest_bytes = keyed.clone().map(|i| entries.key(i).len() - prefix.len()).sum();
        let high = frame.high.unwrap_or_default();
        let front = (prefix.len() + high.len() + frame.low.len()).div_ceil(8);
        let total = HEADER_WORDS + front + body_words(count, rest_bytes);

        let mut words = Vec::with_capacity(total);
        words.extend_from_slice(&frame.header(count, total, prefix.len()));
        words.resize(HEADER_WORDS + front, 0);
        let bytes = cast_mut::<u8>(&mut words[HEADER_WORDS..]);
        let (to_prefix, bytes) = bytes.split_at_mut(prefix.len());
        let (to_high, bytes) = bytes.split_at_mut(high.len());
        to_prefix.copy_from_slice(prefix);
        to_high.copy_from_slice(high);
        bytes[..frame.low.len()].copy_from_slice(frame.low);

        let keyless = range.start..keyed.start.min(range.end);
        words.extend(keyless.clone().map(|_| 0));
        words.extend(keyed.clone().map(|i| head_after(entries.key(i), prefix.len())));
        words.extend_from_slice(&entries.values[range]);
        words.resize(total, 0);
        let (ends, rests) = body_mut(&mut words, count, rest_bytes);
        let mut end = 0;
        for (to, i) in ends[keyless.len()..].iter_mut().zip(keyed) {
            let rest = &entries.key(i)[prefix.len()..];
            rests[end..end + rest.len()].copy_from_slice(rest);
            end += rest.len();
            *to = end as u32;
        }
        assert!(end == rest_bytes, "BUG: keys of a node take {end} bytes, {rest_bytes} were reserved");
        assert!(words.len() == total, "BUG: a node of {} words, {total} were reserved", words.len());
        Content(words.into_boxed_slice())
    }

    /// An empty leaf whose range is all keys.
    pub(super) fn empty() -> Content {
        let frame = Frame { version: 1, level: 0, right: 0, low: &[], high: None, run: Run::default() };
        Content::encode(frame, &Entries::default(), 0..0)
    }

    /// An empty leaf whose range is all keys, as the successor of content `old`.
    pub(super) fn empty_after(old: View<'_>) -> Content {
        let version = old.version() + 1;
        let frame = Frame { version, level: 0, right: 0, low: &[], high: None, run: Run::default() };
        Content::encode(frame, &Entries::default(), 0..0)
    }

    pub(super) fn view(&self) -> View<'_> {
        View { words: &self.0 }
    }

    /// Converts to the thin pointer that a node stores.
    pub(super) fn into_raw(self) -> *mut u64 {
        Box::into_raw(self.0).cast()
    }

    /// # Safety
    /// `raw` is from [`Content::into_raw`], was not converted back before, and no reader has it.
    pub(super) unsafe fn from_raw(raw: *mut u64) -> Content {
        // SAFETY: the first word has the length of the allocation from `into_raw`, and the pointer
        // covers all of it. The caller guarantees exclusive ownership.
        unsafe { Content(Box::from_raw(std::ptr::slice_from_raw_parts_mut(raw, words_of(*raw)))) }
    }
}

impl Frame<'_> {
    fn header(&self, count: usize, total: usize, prefix: usize) -> [u64; HEADER_WORDS] {
        let high = self.high.map_or(OPEN, |high| high.len() as u16);
        [
            total as u64 | (count as u64) << 32,
            self.version,
            u64::from(self.right) | (prefix as u64) << 32 | u64::from(self.level) << 48,
            self.low.len() as u64
                | u64::from(high) << 16
                | u64::from(self.run.at) << 32
                | u64::from(self.run.length) << 48,
        ]
    }
}

impl<'g> View<'g> {
    /// # Safety
    /// `raw` is from [`Content::into_raw`] and is not freed during `'g`.
    pub(super) unsafe fn from_raw(raw: *const u64) -> View<'g> {
        // SAFETY: see `Content::from_raw`; contents are immutable, so a shared slice is valid.
        unsafe { View { words: std::slice::from_raw_parts(raw, words_of(*raw)) } }
    }

    /// Reads words copied by [`View::copy_words`].
    pub(super) fn of(words: &'g [u64]) -> View<'g> {
        View { words }
    }

    /// Copies the content into `words`.
    #[inline]
    pub(super) fn copy_words(self, words: &mut Vec<u64>) {
        words.clear();
        words.extend_from_slice(self.words);
    }

    #[inline]
    pub(super) fn count(self) -> usize {
        (self.words[0] >> 32) as usize
    }

    #[inline]
    pub(super) fn bytes(self) -> usize {
        size_of_val(self.words)
    }

    #[inline]
    pub(super) fn version(self) -> u64 {
        self.words[1]
    }

    #[inline]
    pub(super) fn level(self) -> u8 {
        (self.words[2] >> 48) as u8
    }

    /// Next node of the level. Defined only if there is a high fence.
    #[inline]
    pub(super) fn right(self) -> NodeId {
        self.words[2] as NodeId
    }

    #[inline]
    pub(super) fn high(self) -> Option<&'g [u8]> {
        let prefix = self.prefix_len();
        self.high_len().map(|length| &self.front()[prefix..prefix + length])
    }

    /// Low fence; empty in the first node of a level, since no key is below the empty one.
    #[inline]
    pub(super) fn low(self) -> &'g [u8] {
        let start = self.prefix_len() + self.high_len().unwrap_or(0);
        &self.front()[start..start + self.low_len()]
    }

    #[inline]
    pub(super) fn prefix(self) -> &'g [u8] {
        &self.front()[..self.prefix_len()]
    }

    /// Whether `key` is beyond the high fence, in a node further right.
    #[inline]
    pub(super) fn ends_before(self, key: &[u8]) -> bool {
        self.high().is_some_and(|high| key >= high)
    }

    #[inline]
    pub(super) fn value(self, at: usize) -> u64 {
        self.values()[at]
    }

    #[inline]
    pub(super) fn values(self) -> &'g [u64] {
        let start = self.heads_start() + self.count();
        &self.words[start..start + self.count()]
    }

    /// Accessor for reading many entries in sequence.
    #[inline]
    pub(super) fn body(self) -> Body<'g> {
        Body { ends: self.ends(), rests: self.rests(), values: self.values() }
    }

    /// Position of `key`, or its insertion point. Cost: binary search over the heads; touches the
    /// rests only for equal heads longer than 8 bytes.
    #[inline]
    pub(super) fn search(self, key: &[u8]) -> Result<usize, usize> {
        let first = self.first_keyed();
        let prefix = self.prefix();
        let Some(rest) = key.strip_prefix(prefix) else {
            return Err(if key < prefix { first } else { self.count() });
        };
        let head = head_after(key, prefix.len());
        let heads = self.heads();
        let mut from = first + heads[first..].partition_point(|other| *other < head);
        let mut to = from + heads[from..].iter().take_while(|other| **other == head).count();
        while from < to {
            let middle = from.midpoint(to);
            match self.compare_rest(middle, rest) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// Number of entries below `key`; with `through`, below or equal.
    #[inline]
    pub(super) fn rank(self, key: &[u8], through: bool) -> usize {
        match self.search(key) {
            Ok(at) => at + usize::from(through),
            Err(at) => at,
        }
    }

    /// Returns the content after inserting `key` at position `at`.
    pub(super) fn inserted(self, at: usize, key: &[u8], value: u64) -> Content {
        debug_assert!(self.low() <= key && !self.ends_before(key), "BUG: a key outside of its node's range");
        let frame = Frame { version: self.version() + 1, run: self.run().next(at), ..self.frame() };
        match key.strip_prefix(self.prefix()) {
            Some(rest) if !self.is_idle() => self.spliced(frame, at, 0, Some((rest, value))),
            // The common prefix gets shorter or must be computed again.
            _ => {
                let mut entries = Entries::default();
                self.copy_to(&mut entries, 0..at);
                entries.push(key, &[], value);
                self.copy_to(&mut entries, at..self.count());
                Content::encode(frame, &entries, 0..entries.len())
            }
        }
    }

    /// Returns the content without entry `at`. Keeps the version: a removal cannot invalidate an
    /// absence seen earlier.
    pub(super) fn removed(self, at: usize) -> Content {
        assert!(at < self.count(), "BUG: entry {at} of {} is removed", self.count());
        self.spliced(self.frame(), at, 1, None)
    }

    /// Returns the content with another value in entry `at`.
    pub(super) fn replaced(self, at: usize, value: u64) -> Content {
        let mut words = self.words.to_vec();
        words[1] += 1;
        words[self.heads_start() + self.count() + at] = value;
        Content(words.into_boxed_slice())
    }

    /// Merges this content with its right neighbour's.
    pub(super) fn merged(self, right: View<'_>) -> Content {
        assert!(self.high() == Some(right.low()), "BUG: merge of nodes whose ranges are not adjacent");
        assert!(self.level() == right.level(), "BUG: merge of levels {} and {}", self.level(), right.level());
        let mut entries = Entries::default();
        self.copy_to(&mut entries, 0..self.count());
        right.copy_to(&mut entries, 0..right.count());
        let frame = Frame { high: right.high(), right: right.right(), run: Run::default(), ..self.frame() };
        Content::encode(frame, &entries, 0..entries.len())
    }

    /// Splits the content: left half with version `left_version`, right half as node `right`, and
    /// the separator key.
    pub(super) fn split(self, left_version: u64, right: Fresh) -> (Content, Content, Vec<u8>) {
        let mut entries = Entries::default();
        self.copy_to(&mut entries, 0..self.count());
        let (cut, run, frame) = (self.cut(), self.run(), self.frame());
        let separator = separator(frame.level, entries.key(cut - 1), entries.key(cut)).to_vec();
        let at = usize::from(run.at);
        let (left_run, right_run) = if at < cut {
            (run, Run::default())
        } else {
            (Run::default(), Run { at: (at - cut) as u16, length: run.length })
        };
        let left_frame =
            Frame { version: left_version, high: Some(&separator), right: right.id, run: left_run, ..frame };
        let right_frame = Frame { version: right.version, low: &separator, run: right_run, ..frame };
        let left = Content::encode(left_frame, &entries, 0..cut);
        let right = Content::encode(right_frame, &entries, cut..entries.len());
        let parts = (left.view().count(), right.view().count());
        assert!(parts.0 + parts.1 == self.count(), "BUG: {} entries were split in {parts:?}", self.count());
        debug_assert!(
            entries.key(cut - 1) < &separator[..] || frame.level > 0,
            "BUG: a separator within the left half"
        );
        (left, right, separator)
    }

    /// Whether a node with target size `node_bytes` must split.
    pub(super) fn overflows(self, node_bytes: usize) -> bool {
        let (count, bytes) = (self.count(), self.bytes());
        count >= ENTRIES_MIN && bytes > node_bytes || count >= LONG_ENTRIES_MIN && bytes > LONG_FACTOR * node_bytes
    }

    /// Whether the node is useless: a leaf without keys or an inner node with one child.
    pub(super) fn is_idle(self) -> bool {
        self.count() == self.first_keyed()
    }

    /// Whether the node is small enough to try a merge with a neighbour.
    pub(super) fn is_thin(self, node_bytes: usize) -> bool {
        self.is_idle() || self.bytes() < node_bytes / 4
    }

    /// Whether the keys around entry `at` ascend. For debug assertions.
    fn is_sorted_at(self, at: usize) -> bool {
        let body = self.body();
        let from = at.saturating_sub(1).max(self.first_keyed());
        // All keys have the same prefix.
        (from + 1..self.count().min(at + 2)).all(|at| body.entry(at - 1).0 < body.entry(at).0)
    }

    pub(super) fn frame(self) -> Frame<'g> {
        Frame {
            version: self.version(),
            level: self.level(),
            right: self.right(),
            low: self.low(),
            high: self.high(),
            run: self.run(),
        }
    }

    /// Copies entries into `entries`; the first entry of an inner node gets the low fence as its
    /// key.
    pub(super) fn copy_to(self, entries: &mut Entries, range: Range<usize>) {
        let body = self.body();
        for at in range {
            let (rest, value) = body.entry(at);
            entries.push(if at < self.first_keyed() { self.low() } else { self.prefix() }, rest, value);
        }
    }

    /// Split position. The middle by default. For sequential inserts, right after the newest key,
    /// so that the left node, which gets no more inserts, is full; at the end of the node a tenth
    /// moves right too, for keys that arrive slightly late.
    fn cut(self) -> usize {
        let (count, run) = (self.count(), self.run());
        let at = usize::from(run.at);
        let cut = if at + 1 == count {
            at.saturating_sub(count / 10)
        } else if run.length >= RUN_MIN {
            at + 1
        } else {
            let weight = |at: usize| self.start(at) + 20 * at;
            (1..count).find(|at| 2 * weight(*at) >= weight(count)).unwrap_or(1)
        };
        cut.clamp(1, count - 1)
    }

    /// Copies the content, replacing `removed` entries at `at` with `added`.
    fn spliced(self, frame: Frame<'_>, at: usize, removed: usize, added: Option<(&[u8], u64)>) -> Content {
        let (added_count, added_rest) = added.map_or((0, &[][..]), |(rest, _)| (1, rest));
        let count = self.count() - removed + added_count;
        let (old_rests, cut, resume) = (self.rests(), self.start(at), self.start(at + removed));
        let rest_bytes = old_rests.len() - (resume - cut) + added_rest.len();
        let total = self.heads_start() + body_words(count, rest_bytes);

        let mut words = Vec::with_capacity(total);
        words.extend_from_slice(&frame.header(count, total, self.prefix_len()));
        words.extend_from_slice(&self.words[HEADER_WORDS..self.heads_start()]);
        for (old, new) in [(self.heads(), added.map(|a| head_after(a.0, 0))), (self.values(), added.map(|a| a.1))] {
            words.extend_from_slice(&old[..at]);
            words.extend(new);
            words.extend_from_slice(&old[at + removed..]);
        }
        words.resize(total, 0);
        let (ends, rests) = body_mut(&mut words, count, rest_bytes);
        let old_ends = self.ends();
        let (ends_before, ends_after) = ends.split_at_mut(at);
        ends_before.copy_from_slice(&old_ends[..at]);
        if let Some(end) = ends_after[..added_count].first_mut() {
            *end = (cut + added_rest.len()) as u32;
        }
        let shift = (added_rest.len() as u32).wrapping_sub((resume - cut) as u32);
        for (end, old) in ends_after[added_count..].iter_mut().zip(&old_ends[at + removed..]) {
            *end = old.wrapping_add(shift);
        }
        rests[..cut].copy_from_slice(&old_rests[..cut]);
        rests[cut..cut + added_rest.len()].copy_from_slice(added_rest);
        rests[cut + added_rest.len()..].copy_from_slice(&old_rests[resume..]);
        assert!(words.len() == total, "BUG: a node of {} words, {total} were reserved", words.len());
        let content = Content(words.into_boxed_slice());
        debug_assert!(content.view().is_sorted_at(at), "BUG: keys around entry {at} of a node do not ascend");
        content
    }

    /// Compares the rest of entry `at` with `rest`; their heads are equal.
    #[inline]
    fn compare_rest(self, at: usize, rest: &[u8]) -> Ordering {
        let (start, end) = (self.start(at), self.start(at + 1));
        if end - start <= 8 || rest.len() <= 8 {
            // Equal including the zero padding, so the shorter is a prefix of the longer.
            (end - start).cmp(&rest.len())
        } else {
            self.rests()[start + 8..end].cmp(&rest[8..])
        }
    }

    #[inline]
    fn first_keyed(self) -> usize {
        usize::from(self.level() > 0)
    }

    fn run(self) -> Run {
        Run { at: (self.words[3] >> 32) as u16, length: (self.words[3] >> 48) as u16 }
    }

    #[inline]
    fn prefix_len(self) -> usize {
        usize::from((self.words[2] >> 32) as u16)
    }

    #[inline]
    fn low_len(self) -> usize {
        usize::from(self.words[3] as u16)
    }

    #[inline]
    fn high_len(self) -> Option<usize> {
        Some((self.words[3] >> 16) as u16).filter(|length| *length != OPEN).map(usize::from)
    }

    /// Prefix and fences.
    #[inline]
    fn front(self) -> &'g [u8] {
        cast(&self.words[HEADER_WORDS..])
    }

    #[inline]
    fn heads_start(self) -> usize {
        HEADER_WORDS + (self.prefix_len() + self.high_len().unwrap_or(0) + self.low_len()).div_ceil(8)
    }

    #[inline]
    fn heads(self) -> &'g [u64] {
        let start = self.heads_start();
        &self.words[start..start + self.count()]
    }

    #[inline]
    fn ends(self) -> &'g [u32] {
        &cast(&self.words[self.heads_start() + 2 * self.count()..])[..self.count()]
    }

    /// Start offset of the rest of entry `at`: the end of the one before it.
    #[inline]
    fn start(self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends()[before] as usize)
    }

    #[inline]
    fn rests(self) -> &'g [u8] {
        let start = self.heads_start() + 2 * self.count() + self.count().div_ceil(2);
        &cast(&self.words[start..])[..self.start(self.count())]
    }
}

/// Slices of a content's entries.
pub(super) struct Body<'g> {
    ends: &'g [u32],
    rests: &'g [u8],
    values: &'g [u64],
}

impl<'g> Body<'g> {
    /// Rest and value of entry `at`.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> (&'g [u8], u64) {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        (&self.rests[start as usize..self.ends[at] as usize], self.values[at])
    }
}

/// A node that is not reachable yet, and the version for its first content.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    pub(super) id: NodeId,
    pub(super) version: u64,
}

/// Decoded entries with whole keys, for building contents.
#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    values: Vec<u64>,
}

impl Entries {
    /// Adds the key `start` ++ `rest`.
    pub(super) fn push(&mut self, start: &[u8], rest: &[u8], value: u64) {
        self.bytes.extend_from_slice(start);
        self.bytes.extend_from_slice(rest);
        self.ends.push(self.bytes.len());
        self.values.push(value);
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.values.clear();
    }

    /// Estimated size of a content with these entries and `key`.
    pub(super) fn bytes_with(&self, key: &[u8]) -> usize {
        let count = self.len() + 1;
        let prefix = if self.len() == 0 { key.len() } else { shared(self.key(0), key) };
        8 * HEADER_WORDS + prefix + 20 * count + self.bytes.len() + key.len() - prefix * count
    }
}

/// Fence between two adjacent keys: the shortest possible for leaves; inner nodes use the whole
/// key.
pub(super) fn separator<'a>(level: u8, before: &[u8], after: &'a [u8]) -> &'a [u8] {
    if level > 0 { after } else { &after[..shared(before, after) + 1] }
}

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Head of `key` after its first `prefix` bytes.
#[inline]
fn head_after(key: &[u8], prefix: usize) -> u64 {
    if let Some(bytes) = key[prefix..].first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let left = (key.len() - prefix) as u32;
    // Load the key's last 8 bytes and shift out the prefix: needs no loop.
    let number = match key.last_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    };
    number.checked_shl(64 - 8 * left).unwrap_or(0)
}

/// Words after the fences.
fn body_words(count: usize, rest_bytes: usize) -> usize {
    2 * count + count.div_ceil(2) + rest_bytes.div_ceil(8)
}

/// The end offsets and rests of a content under construction.
fn body_mut(words: &mut [u64], count: usize, rest_bytes: usize) -> (&mut [u32], &mut [u8]) {
    let start = words.len() - count.div_ceil(2) - rest_bytes.div_ceil(8);
    let (ends, rests) = words[start..].split_at_mut(count.div_ceil(2));
    (&mut cast_mut(ends)[..count], &mut cast_mut(rests)[..rest_bytes])
}

/// Total words of a content, from its first word.
#[inline]
fn words_of(first: u64) -> usize {
    first as u32 as usize
}

/// Integers smaller than a word, without padding or invalid values.
trait Part {}
impl Part for u8 {}
impl Part for u32 {}

#[inline]
fn cast<T: Part>(words: &[u64]) -> &[T] {
    // SAFETY: same memory; a `Part`'s alignment is at most u64's, its size divides 8, and any bits
    // are valid.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words) / size_of::<T>()) }
}

fn cast_mut<T: Part>(words: &mut [u64]) -> &mut [T] {
    // SAFETY: see `cast`; the borrow is exclusive, and any value of a `Part` leaves a valid u64.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words) / size_of::<T>()) }
}
