//! Fixed-width bit-packing: value `i` occupies bits `i * width ..` of the bytes, lowest bit first.

use super::wire::{Reader, corrupt};
use model::Result;

/// Bits that hold `value`.
pub(crate) fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Bytes of `count` values of `width` bits.
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends `values`, each below `2^width`; `width` is 0 ..= 64.
pub(crate) fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut word = 0u64;
    let mut used = 0;
    for value in values {
        word |= value << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            used -= 64;
            // What did not fit. `used < width <= 64`, so the shift is in range unless nothing is left over.
            word = if used == 0 { 0 } else { value >> (width - used) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..used.div_ceil(8) as usize]);
}

/// Appends `count` values to `out`, each passed through `map`.
pub(crate) fn unpack<T>(
    reader: &mut Reader<'_>,
    width: u32,
    count: usize,
    out: &mut Vec<T>,
    map: impl Fn(u64) -> T,
) -> Result<()> {
    if width > 64 {
        return Err(corrupt(format!("bit width is {width}, at most 64 is possible")));
    }
    let bytes = reader.take(packed_bytes(count, width), "packed values")?;
    out.reserve(count);
    if width == 0 {
        out.extend((0..count).map(|_| map(0)));
    } else {
        unpack_some(bytes, width as usize, count, out, map);
    }
    Ok(())
}

fn unpack_some<T>(bytes: &[u8], width: usize, count: usize, out: &mut Vec<T>, map: impl Fn(u64) -> T) {
    let mask = u64::MAX >> (64 - width);
    // A value of up to 57 bits lies within the 8 bytes from its first byte, so one unaligned load gets it. The last few
    // values, whose 8 bytes would reach beyond the end, and wider ones take the general road.
    let fast = if width <= 57 && bytes.len() >= 8 { ((bytes.len() - 8) * 8 / width + 1).min(count) } else { 0 };
    out.extend((0..fast).map(|index| {
        let bit = index * width;
        map(load(bytes, bit >> 3) >> (bit & 7) & mask)
    }));
    out.extend((fast..count).map(|index| map(unpack_one(bytes, index * width) & mask)));
}

/// The 8 bytes from `at`, which the caller knows to be there.
#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// 64 bits from bit `bit`, zeros beyond the end.
fn unpack_one(bytes: &[u8], bit: usize) -> u64 {
    let tail = &bytes[bit >> 3..];
    let kept = tail.len().min(9);
    let mut wide = [0; 16];
    wide[..kept].copy_from_slice(&tail[..kept]);
    (u128::from_le_bytes(wide) >> (bit & 7)) as u64
}
