//! Reads little-endian fields from bytes that may be damaged.

use std::fmt;

use model::{Error, Result};

/// A read position. Every read is bounds-checked, and every error names the position.
pub(crate) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; `what` names them in errors.
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { what, bytes, at: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some(taken) = self.bytes.get(self.at..).and_then(|rest| rest.get(..count)) else {
            return Err(self.wrong(format_args!("ends early: {count} bytes expected, {} left", self.left())));
        };
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// An unsigned LEB128 integer of at most 5 bytes.
    pub(crate) fn varint(&mut self) -> Result<u32> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| self.wrong("a length above 32 bits"));
            }
        }
        Err(self.wrong("a length above 32 bits"))
    }

    /// Number of bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Verifies that all bytes have been read.
    pub(crate) fn end(&self) -> Result<()> {
        if self.left() == 0 { Ok(()) } else { Err(self.wrong(format_args!("{} bytes too many", self.left()))) }
    }

    /// An error XX001 that names the position.
    pub(crate) fn wrong(&self, what: impl fmt::Display) -> Error {
        Error::corrupt(format!("{} at byte {}: {what}", self.what, self.at))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
}

/// Appends an unsigned LEB128 integer.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
