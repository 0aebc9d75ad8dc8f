//! `tid`: the place of a row version, a block and an offset. Here the block is the number of a row's record, and the offset
//! tells its versions apart ([`tid_of`]).

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::TypeId;
use model::{Datum, Error, Result};

use super::call::{binary, compared, comparisons, functions, invalid_input, unary};
use super::hash::hash_bytes;
use super::integer::order;
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[(TypeId::TID, TypeSupport { input, output, compare: None })];

const OFFSET_BITS: u32 = 16;
const OFFSET_MAX: i64 = (1 << OFFSET_BITS) - 1;

/// The value of type `tid` of a block and an offset. Values are ordered as their numbers.
#[must_use]
pub(crate) fn tid(block: u32, offset: u16) -> i64 {
    i64::from(block) << OFFSET_BITS | i64::from(offset)
}

/// The `ctid` of a row version. Another version of the record has another one, unless the numbers of their transactions are
/// equal modulo 65,535; an offset is at least 1, as in PostgreSQL.
///
/// - `record`: number of the record, below 2^32.
/// - `stamp`: number of the transaction that made the version.
#[must_use]
pub fn tid_of(record: u64, stamp: u32) -> i64 {
    tid(record as u32, (stamp % u32::from(u16::MAX)) as u16 + 1)
}

/// The number of the record that a `ctid` names.
#[must_use]
pub fn record_of(tid: i64) -> u64 {
    (tid >> OFFSET_BITS).cast_unsigned()
}

/// Block and offset.
pub(crate) fn parts(tid: i64) -> (u32, u16) {
    ((tid >> OFFSET_BITS) as u32, (tid & OFFSET_MAX) as u16)
}

fn input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let inner = text.trim_ascii().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let parts = inner.and_then(|inner| inner.split_once(','));
    let numbers = parts.and_then(|(block, offset)| {
        Some((block.trim_ascii_start().parse().ok()?, offset.trim_ascii_start().parse().ok()?))
    });
    let (block, offset) = numbers.ok_or_else(|| invalid_input("tid", text))?;
    Ok(Datum::Int8(tid(block, offset)))
}

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Int8(value) = datum else { return Err(Error::bug("output of another type as tid")) };
    let (block, offset) = parts(*value);
    // Writing to a String cannot fail.
    let _ = write!(text, "({block},{offset})");
    Ok(())
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! { "tid", "bttidcmp": order::<i64, i64>; };

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "tidlarger" => binary(<i64 as Ord>::max),
    "tidsmaller" => binary(<i64 as Ord>::min),
    "hashtid" => unary(|value: i64| hashed(value, 0) as i32),
    "hashtidextended" => binary(|value: i64, seed: i64| hashed(value, seed as u64) as i64),
};

/// PostgreSQL's hash, of its form in memory: the upper and the lower half of the block, and the offset.
fn hashed(value: i64, seed: u64) -> u64 {
    let (block, offset) = parts(value);
    let mut bytes = [0; 6];
    let halves = [(block >> 16) as u16, block as u16, offset];
    bytes.chunks_exact_mut(2).zip(halves).for_each(|(place, half)| place.copy_from_slice(&half.to_le_bytes()));
    hash_bytes(&bytes, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_postgresql() {
        assert_eq!(hashed(tid(1, 2), 0) as i32, -1_827_449_972);
    }

    #[test]
    fn a_ctid_names_its_record_and_changes_with_the_version() {
        for (record, stamp) in [(0, 3), (u64::from(u32::MAX), u32::MAX), (7, 65_535), (7, 65_534)] {
            let tid = tid_of(record, stamp);
            assert_eq!(record_of(tid), record);
            assert!(parts(tid).1 >= 1 && tid != tid_of(record, stamp - 1), "{record} {stamp}");
        }
    }
}
