//! Fixed-width bit packing: value `i` occupies bits `i * width ..` of the bytes, lowest bit first.
//!
//! Eight values of w bits fill w bytes, so groups are unpacked by code generated for each width, in
//! which all positions and shifts are constants.

use super::byte_io::{Reader, corrupt};
use super::cpu::multiversion;
use model::Result;

/// Values unpacked together: 8 x 8, to amortise the call through a function pointer.
pub(crate) const GROUP: usize = 64;
/// Up to this width, one load of 8 bytes contains a whole value at any bit offset.
const ONE_LOAD_BITS: usize = 57;

type Group = [u64; GROUP];

/// Number of bits needed for `value`.
pub(crate) fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Size of `count` packed values of `width` bits.
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

multiversion! {
/// Appends `values`, each below `2^width`; `width` is 0 ..= 64.
pub(crate) fn pack[I: ExactSizeIterator<Item = u64>](values: I, width: u32, out: &mut Vec<u8>) {
    assert!(width <= 64, "BUG: values of {width} bits, at most 64 are possible");
    if width == 0 {
        return;
    }
    let (start, bytes) = (out.len(), packed_bytes(values.len(), width));
    out.resize(start + bytes + 8, 0);
    let (mut word, mut used, mut at) = (0u64, 0, start);
    for value in values {
        debug_assert!(width_of(value) <= width, "BUG: the value {value} is packed in {width} bits");
        word |= value << used;
        used += width;
        if used >= 64 {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
            used -= 64;
            // The bits that did not fit. `used < width <= 64`, so the shift is in range if any are
            // left.
            word = if used == 0 { 0 } else { value >> (width - used) };
        }
    }
    assert!(at <= start + bytes, "BUG: packed {} bytes, expected {bytes}", at - start);
    out[at..at + 8].copy_from_slice(&word.to_le_bytes());
    out.truncate(start + bytes);
}
}

/// Appends `count` values to `out`, each mapped by `map`.
pub(crate) fn unpack<T>(
    reader: &mut Reader<'_>,
    width: u32,
    count: usize,
    out: &mut Vec<T>,
    map: impl Fn(u64) -> T,
) -> Result<()> {
    out.reserve(count);
    unpack_groups(reader, width, count, |_, group| out.extend(group.iter().map(|bits| map(*bits))))
}

/// Passes `count` values to `each` in groups, with the position of the group's first value.
#[inline(always)]
pub(crate) fn unpack_groups(
    reader: &mut Reader<'_>,
    width: u32,
    count: usize,
    mut each: impl FnMut(usize, &[u64]),
) -> Result<()> {
    let mut groups = Groups::new(reader, width, count)?;
    while let Some((at, group)) = groups.next() {
        each(at, group);
    }
    Ok(())
}

/// An iterator over groups of packed values. For loops that are too long to be inlined as a
/// closure, which would then be compiled without AVX2.
pub(crate) struct Groups<'a> {
    bytes: &'a [u8],
    width: u32,
    count: usize,
    /// Position of the next value.
    at: usize,
    group: Group,
}

impl<'a> Groups<'a> {
    /// Takes `count` values of `width` bits from the reader.
    #[inline(always)]
    pub(crate) fn new(reader: &mut Reader<'a>, width: u32, count: usize) -> Result<Groups<'a>> {
        if width > 64 {
            return Err(corrupt(format!("bit width is {width}, at most 64 is possible")));
        }
        let bytes = reader.take(packed_bytes(count, width), "packed values")?;
        Ok(Groups { bytes, width, count, at: 0, group: [0; GROUP] })
    }

    /// The next group, with the position of its first value.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(usize, &[u64])> {
        if self.at >= self.count {
            return None;
        }
        let (at, group_bytes) = (self.at, self.width as usize * 8);
        let rest = &self.bytes[at / GROUP * group_bytes..];
        let unpack_group = UNPACK[self.width as usize];
        // The loads of a group's last values extend beyond the group.
        if rest.len() >= group_bytes + 8 {
            unpack_group(rest, &mut self.group);
        } else {
            let mut padded = [0; GROUP * 8 + 8];
            let kept = rest.len().min(group_bytes);
            padded[..kept].copy_from_slice(&rest[..kept]);
            unpack_group(&padded, &mut self.group);
        }
        self.at += GROUP;
        Some((at, &self.group[..GROUP.min(self.count - at)]))
    }
}

/// Unpacks a group from the front of `bytes`, which must have 8 more bytes.
fn unpack_group<const W: usize>(bytes: &[u8], out: &mut Group) {
    let bytes = &bytes[..W * 8 + 8];
    let mask = if W == 0 { 0 } else { u64::MAX >> ((64 - W) & 63) };
    for (eight, out) in out.chunks_exact_mut(8).enumerate() {
        let bytes = &bytes[eight * W..eight * W + W + 8];
        for (index, out) in out.iter_mut().enumerate() {
            let (at, shift) = (index * W / 8, index * W % 8);
            let mut bits = load(bytes, at) >> shift;
            if W > ONE_LOAD_BITS && shift > 0 {
                bits |= u64::from(bytes[at + 8]) << (64 - shift);
            }
            *out = bits & mask;
        }
    }
}

/// The 8 bytes at `at`, little-endian.
#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// An array with an instance of a generic function for each width.
macro_rules! by_width {
    ($function:ident) => {
        by_width!($function 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64)
    };
    ($function:ident $($width:literal)*) => { [$($function::<$width>),*] };
}

static UNPACK: [fn(&[u8], &mut Group); 65] = by_width!(unpack_group);

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    #[test]
    fn every_width_round_trips_at_every_length() {
        let mut random = Random(1);
        for width in 0..=64u32 {
            for count in [1, 2, 63, 64, 65, 200] {
                let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
                let values: Vec<u64> = (0..count).map(|_| random.next() & mask).collect();
                let mut bytes = vec![0xa5];
                pack(values.iter().copied(), width, &mut bytes);
                assert_eq!(bytes.len(), 1 + packed_bytes(count, width), "{width} bit x {count}");
                let mut back = Vec::new();
                let mut reader = Reader::new(&bytes[1..]);
                unpack(&mut reader, width, count, &mut back, |bits| bits).unwrap();
                assert!(back == values && reader.remaining() == 0, "{width} bit x {count}");
            }
        }
        assert!(unpack(&mut Reader::new(&[0; 99]), 65, 1, &mut Vec::new(), |bits| bits).is_err());
    }
}
