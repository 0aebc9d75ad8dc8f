//! Primitives of PV Access: numbers, sizes, texts, bit sets and statuses, in both byte orders.
//!
//! | primitive | bytes                                                                                                    |
//! |-----------|----------------------------------------------------------------------------------------------------------|
//! | size      | 0 ..= 253: that byte; larger: 0xFE and an i32; none: 0xFF                                                |
//! | text      | size and UTF-8                                                                                           |
//! | bit set   | size in bytes; whole words of 64 bits in the byte order of the message; the rest with the low byte first |
//! | status    | 0xFF: success; else type (0 success, 1 warning, 2 error, 3 fatal error), text of a message, text of a call tree |
//!
//! Source: "pvAccess Protocol Specification", and the bytes that pvxs 1.5 sends.
//!
//! Always true: a size is compared with the bytes that are there before anything is allocated, and a [`Reader`] permits at most
//! [`MEMORY_PER_BYTE`] times the bytes of its message, and 64 KiB more.

use std::fmt;
use std::ops::Range;

/// Limit of memory that is allocated for each byte of a message: an empty text takes one byte there, and 24 in memory.
pub const MEMORY_PER_BYTE: usize = 32;
/// Memory that even a small message may need.
const MEMORY_MIN: usize = 64 << 10;
/// Largest size that can be sent.
const SIZE_MAX: usize = i32::MAX as usize - 1;

/// Order of the bytes of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Low byte first.
    Little,
    /// High byte first.
    #[default]
    Big,
}

/// Bytes that do not have the form of their message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The form that was expected.
    pub expected: &'static str,
    /// Bytes that were left.
    pub left: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message of PV Access, {} bytes before its end: expected {}", self.left, self.expected)
    }
}

impl std::error::Error for Malformed {}

/// Outcome of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// 0 success, 1 warning, 2 error, 3 fatal error.
    pub kind: u8,
    /// Text of the server; often empty.
    pub message: String,
}

impl Status {
    /// Whether the request was executed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.kind < 2
    }
}

/// Numbers of fields of a structure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitSet(Vec<u64>);

impl BitSet {
    /// Whether `bit` is set.
    #[must_use]
    pub fn get(&self, bit: usize) -> bool {
        self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// Sets `bit`.
    pub fn set(&mut self, bit: usize) {
        if self.0.len() <= bit / 64 {
            self.0.resize(bit / 64 + 1, 0);
        }
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// Whether no bit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Whether one of the bits is set.
    #[must_use]
    pub fn any_in(&self, bits: Range<usize>) -> bool {
        let end = bits.end.min(self.0.len() * 64);
        (bits.start..end).any(|bit| self.get(bit))
    }
}

impl FromIterator<usize> for BitSet {
    fn from_iter<I: IntoIterator<Item = usize>>(bits: I) -> BitSet {
        let mut set = BitSet::default();
        bits.into_iter().for_each(|bit| set.set(bit));
        set
    }
}

/// Reads a message from its start to its end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    order: Order,
    /// Memory that may still be allocated.
    memory: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], order: Order) -> Reader<'a> {
        Reader { bytes, order, memory: bytes.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_MIN) }
    }

    /// Byte order of the message.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Bytes that have not been read.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed { expected, left: self.bytes.len() }
    }

    /// Notes that `bytes` will be allocated.
    ///
    /// # Errors
    /// The limit is reached.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.memory = self.memory.checked_sub(bytes).ok_or_else(|| self.malformed("less data than would fit here"))?;
        Ok(())
    }

    /// The next `bytes` bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(bytes).ok_or_else(|| self.malformed("more bytes"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next `N` bytes, with the low byte first.
    fn number<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.malformed("more bytes of a number"))?;
        self.bytes = rest;
        let mut taken = *taken;
        if self.order == Order::Big {
            taken.reverse();
        }
        Ok(taken)
    }

    /// A byte.
    ///
    /// # Errors
    /// There is none.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.number()?))
    }

    /// A 16-bit number.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.number()?))
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.number()?))
    }

    /// A 64-bit number.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.number()?))
    }

    /// A size; `None` for none.
    ///
    /// # Errors
    /// The bytes end before, or the size is negative or 2 GiB or more.
    pub fn size(&mut self) -> Result<Option<usize>, Malformed> {
        Ok(match self.u8()? {
            0xFF => None,
            0xFE => {
                let size = self.u32()? as usize;
                if size > SIZE_MAX {
                    return Err(self.malformed("a size below 2 GiB"));
                }
                Some(size)
            }
            size => Some(size.into()),
        })
    }

    /// A number of elements that follow, each of at least `bytes_min` bytes; none counts as 0. `memory`: bytes of each in memory.
    ///
    /// # Errors
    /// As [`Reader::size`], or the elements cannot be there.
    pub fn count(&mut self, bytes_min: usize, memory: usize) -> Result<usize, Malformed> {
        let count = self.size()?.unwrap_or(0);
        if count.checked_mul(bytes_min).is_none_or(|bytes| bytes > self.bytes.len()) {
            return Err(self.malformed("as many elements as were announced"));
        }
        self.allocate(count.saturating_mul(memory))?;
        Ok(count)
    }

    /// A text. Bytes that are not UTF-8 are Latin-1, which IOCs use for units such as °C; none counts as empty.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn text(&mut self) -> Result<String, Malformed> {
        let bytes = self.count(1, 2)?;
        let bytes = self.take(bytes)?;
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|&b| char::from(b)).collect(),
        })
    }

    /// A bit set.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn bit_set(&mut self) -> Result<BitSet, Malformed> {
        let bytes = self.count(1, 2)?;
        let mut words = Vec::with_capacity(bytes.div_ceil(8));
        for _ in 0..bytes / 8 {
            words.push(self.u64()?);
        }
        let rest = self.take(bytes % 8)?;
        if !rest.is_empty() {
            words.push(rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
        Ok(BitSet(words))
    }

    /// A status.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn status(&mut self) -> Result<Status, Malformed> {
        let kind = self.u8()?;
        if kind == 0xFF {
            return Ok(Status::default());
        }
        let message = self.text()?;
        self.text()?;
        Ok(Status { kind, message })
    }
}

/// Appends the parts of a message.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    order: Order,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, order: Order) -> Writer<'a> {
        Writer { out, order }
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a number that is given with its low byte first.
    pub(super) fn number<const N: usize>(&mut self, mut bytes: [u8; N]) {
        if self.order == Order::Big {
            bytes.reverse();
        }
        self.out.extend_from_slice(&bytes);
    }

    /// Appends a byte.
    pub fn u8(&mut self, number: u8) {
        self.out.push(number);
    }

    /// Appends a 16-bit number.
    pub fn u16(&mut self, number: u16) {
        self.number(number.to_le_bytes());
    }

    /// Appends a 32-bit number.
    pub fn u32(&mut self, number: u32) {
        self.number(number.to_le_bytes());
    }

    /// Appends a 64-bit number.
    pub fn u64(&mut self, number: u64) {
        self.number(number.to_le_bytes());
    }

    /// Appends a size; sizes of 2 GiB or more do not occur, because messages are smaller.
    pub fn size(&mut self, size: usize) {
        match u8::try_from(size) {
            Ok(small @ 0..=0xFD) => self.u8(small),
            _ => {
                self.u8(0xFE);
                self.u32(size.min(SIZE_MAX) as u32);
            }
        }
    }

    /// Appends the size of nothing.
    pub fn none(&mut self) {
        self.u8(0xFF);
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.size(text.len());
        self.bytes(text.as_bytes());
    }

    /// Appends a bit set, without zeros at its end.
    pub fn bit_set(&mut self, set: &BitSet) {
        let words = set.0.iter().rposition(|&word| word != 0).map_or(&[][..], |last| &set.0[..=last]);
        let Some((&last, whole)) = words.split_last() else { return self.size(0) };
        let last_bytes = 8 - last.leading_zeros() as usize / 8;
        self.size(whole.len() * 8 + last_bytes);
        whole.iter().for_each(|&word| self.u64(word));
        match last_bytes {
            8 => self.u64(last),
            bytes => self.bytes(&last.to_le_bytes()[..bytes]),
        }
    }

    /// Appends a status.
    pub fn status(&mut self, status: &Status) {
        if *status == Status::default() {
            return self.u8(0xFF);
        }
        self.u8(status.kind);
        self.text(&status.message);
        self.text("");
    }
}
