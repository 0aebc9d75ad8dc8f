//! Sequential little-endian input and output for encodings and segment directories.
//!
//! A [`Reader`] never trusts its bytes: every read is bounds-checked, and errors name what ended
//! early.

use model::{Error, Result};

use super::features::Features;

/// Most bytes of the values of a chunk: the limit of 32-bit offsets.
pub(super) const TEXT_BYTES_MAX: usize = i32::MAX as usize;

/// Reads untrusted bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Limit of the text of a chunk.
    pub(crate) text_bytes_max: usize,
    /// If set, decoders append the names of the encodings they decode.
    trace: Option<String>,
    /// Features of the encodings decoded so far.
    features: Features,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader::bounded(bytes, TEXT_BYTES_MAX)
    }

    /// A reader with a lower limit of text.
    pub(crate) fn bounded(bytes: &'a [u8], text_bytes_max: usize) -> Reader<'a> {
        Reader { bytes, text_bytes_max: text_bytes_max.min(TEXT_BYTES_MAX), trace: None, features: Features::NONE }
    }

    /// A reader that records the encodings, for `describe`.
    pub(crate) fn tracing(bytes: &'a [u8]) -> Reader<'a> {
        Reader { trace: Some(String::new()), ..Reader::new(bytes) }
    }

    /// Appends to the trace; `text` is called only if there is one.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push_str(&text());
        }
    }

    /// Records the features of an encoding that is decoded.
    #[inline(always)]
    pub(crate) fn see(&mut self, features: Features) {
        self.features |= features;
    }

    pub(crate) fn features(&self) -> Features {
        self.features
    }

    pub(crate) fn into_trace(self) -> String {
        self.trace.unwrap_or_default()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The remaining bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.bytes.split_at_checked(count) else {
            return Err(corrupt(format!("{what} ends early: {count} bytes expected, {} left", self.bytes.len())));
        };
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn f64(&mut self, what: &str) -> Result<f64> {
        Ok(f64::from_bits(self.u64(what)?))
    }

    pub(crate) fn varint(&mut self, what: &str) -> Result<u64> {
        let value = self.varint_wide(what)?;
        u64::try_from(value).map_err(|_| corrupt(format!("{what} is too large: {value}")))
    }

    /// A LEB128 number of up to 128 bits.
    pub(crate) fn varint_wide(&mut self, what: &str) -> Result<u128> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.u8(what)?;
            value |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(corrupt(format!("{what} is a varint of more than 19 bytes")))
    }

    pub(crate) fn signed(&mut self, what: &str) -> Result<i64> {
        let zigzag = self.varint(what)?;
        Ok((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
    }

    /// A LEB128 number of at most `max`.
    pub(crate) fn count(&mut self, max: usize, what: &str) -> Result<usize> {
        let count = self.varint(what)?;
        match usize::try_from(count) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(corrupt(format!("{what} is {count}, at most {max} is possible"))),
        }
    }

    /// Verifies that no bytes are left.
    pub(crate) fn finish(&self, what: &str) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(corrupt(format!("{what} has {} bytes too many", self.bytes.len())))
    }
}

pub(crate) fn corrupt(message: impl Into<String>) -> Error {
    Error::corrupt(message)
}

pub(crate) fn push_varint(out: &mut Vec<u8>, value: u64) {
    push_varint_wide(out, u128::from(value));
}

pub(crate) fn push_varint_wide(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a zigzag LEB128 number: small magnitudes of either sign are short.
pub(crate) fn push_signed(out: &mut Vec<u8>, value: i64) {
    push_varint(out, zigzag(value));
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(crate) fn signed_bytes(value: i64) -> usize {
    varint_bytes(zigzag(value))
}
