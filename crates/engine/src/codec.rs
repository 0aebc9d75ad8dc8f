//! Encoding of little-endian integers and length-prefixed bytes; the decoder checks every length.

use model::{Error, Result};

/// Encoder that appends to a byte vector.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_i64(&mut self, value: i64);
    /// LEB128: seven bits a byte, lowest first; all bytes but the last have the highest bit set.
    fn put_varint(&mut self, value: u64);
    /// A u32 length, then the bytes.
    fn put_bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_i64(&mut self, value: i64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_bytes(&mut self, value: &[u8]) {
        let len = u32::try_from(value.len()).expect("BUG: a field of a record is shorter than 4 GiB");
        self.put_u32(len);
        self.extend_from_slice(value);
    }
}

/// Decoder of a byte slice; `what` names the slice in errors.
pub(crate) struct Take<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

macro_rules! take_number {
    ($name:ident, $ty:ty) => {
        pub(crate) fn $name(&mut self) -> Result<$ty> {
            let bytes = self.take(size_of::<$ty>())?;
            Ok(<$ty>::from_le_bytes(bytes.try_into().map_err(|_| self.malformed("ends early"))?))
        }
    };
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Take<'a> {
        Take { bytes, what }
    }

    take_number!(u8, u8);
    take_number!(u32, u32);
    take_number!(u64, u64);
    take_number!(i64, i64);

    /// Reads the encoding of [`Put::put_varint`].
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(self.u8()?);
            value |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte holds only one more bit.
                if shift == 63 && byte > 1 {
                    break;
                }
                return Ok(value);
            }
        }
        Err(self.malformed("has a number of more than 64 bits"))
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(count).ok_or_else(|| {
            self.malformed(&format!("ends early: {count} bytes expected, {} are left", self.bytes.len()))
        })?;
        self.bytes = rest;
        Ok(head)
    }

    /// A u32 length, then the bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// A u32 length, then UTF-8 text.
    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("holds text that is not UTF-8"))
    }

    /// Reads a count of entries of at least `each` bytes and checks it against the bytes left,
    /// before the caller allocates.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count.saturating_mul(each) > self.bytes.len() {
            return Err(self.malformed(&format!("counts {count} entries in {} bytes", self.bytes.len())));
        }
        Ok(count)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(self.malformed(&format!("has {} bytes too many", self.bytes.len())))
    }

    pub(crate) fn malformed(&self, problem: &str) -> Error {
        Error::corrupt(format!("{} {problem}", self.what))
    }
}

/// Maps signed numbers near zero to small unsigned ones.
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_any_length_round_trip() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            let mut take = Take::new(&bytes, "number");
            assert_eq!(take.varint().unwrap(), value);
            assert!(take.is_empty());
            assert!((0..bytes.len()).all(|cut| Take::new(&bytes[..cut], "number").varint().is_err()));
            assert_eq!(zigzag(unzigzag(value)), value);
        }
        assert!(Take::new(&[0xff; 10], "number").varint().is_err());
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
    }
}
