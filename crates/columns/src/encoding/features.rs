//! Features of the format: the set of encodings that a segment uses, one bit each.
//!
//! The footer of a segment has the set, so a reader knows before it reads a block whether it can read all of them.
//! Policy, and the list of bits: docs/format/segment.md, "Versions and features".

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of features.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// The empty set.
    pub const NONE: Features = Features(0);

    /// Feature number `number`, below 64. A number is never reused.
    pub(crate) const fn bit(number: u32) -> Features {
        Features(1 << number)
    }

    pub(crate) const fn from_bits(bits: u64) -> Features {
        Features(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn union(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// Whether no feature is in both sets.
    pub(crate) const fn is_disjoint(self, other: Features) -> bool {
        self.0 & other.0 == 0
    }

    /// The features that are not in `other`.
    pub(crate) const fn minus(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Features::NONE
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        self.union(other)
    }
}

impl BitOrAssign for Features {
    fn bitor_assign(&mut self, other: Features) {
        *self = self.union(other);
    }
}

/// The numbers, separated by commas; `none` for the empty set.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = (0..64).filter(|bit| self.0 >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
        f.write_str(if numbers.is_empty() { "none" } else { "" })?;
        f.write_str(&numbers.join(", "))
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({self})")
    }
}
