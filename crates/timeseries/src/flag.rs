//! Quality flags of values, by the numbers and priorities of HAKOM TSM.

/// Quality of a value, in ascending priority: where values are combined, the result has the greatest flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Flag {
    /// No value is expected.
    NoValue,
    /// The value was invoiced.
    Accounted,
    /// A person replaced the value.
    ManuallyReplaced,
    /// A valid value.
    #[default]
    Valid,
    /// A planned value.
    Schedule,
    /// An estimated value.
    Estimated,
    /// The value is known to be wrong.
    Faulty,
    /// The value was interpolated.
    Interpolated,
    /// A value is expected and absent, or a part of the value is.
    Missing,
}

impl Flag {
    /// All flags, in ascending priority.
    pub const ALL: [Flag; 9] = [
        Flag::NoValue,
        Flag::Accounted,
        Flag::ManuallyReplaced,
        Flag::Valid,
        Flag::Schedule,
        Flag::Estimated,
        Flag::Faulty,
        Flag::Interpolated,
        Flag::Missing,
    ];

    /// The flag with a number of HAKOM TSM.
    #[must_use]
    pub fn from_id(id: i64) -> Option<Flag> {
        Some(match id {
            0 => Flag::NoValue,
            20 => Flag::Accounted,
            5 => Flag::ManuallyReplaced,
            9 => Flag::Valid,
            12 => Flag::Schedule,
            21 => Flag::Estimated,
            7 => Flag::Faulty,
            22 => Flag::Interpolated,
            19 => Flag::Missing,
            _ => return None,
        })
    }

    /// Whether all of some numbers are those of flags. A small part of a nanosecond for each.
    #[must_use]
    pub fn are_ids(ids: &[i16]) -> bool {
        // Without jumps, so that several are compared at once.
        ids.iter().fold(true, |are_known, id| {
            let is_known = Flag::ALL.iter().fold(false, |is_known, flag| is_known | (flag.id() == *id));
            are_known & is_known
        })
    }

    /// Number of the flag in HAKOM TSM, which is stored and sent.
    #[must_use]
    pub fn id(self) -> i16 {
        match self {
            Flag::NoValue => 0,
            Flag::Accounted => 20,
            Flag::ManuallyReplaced => 5,
            Flag::Valid => 9,
            Flag::Schedule => 12,
            Flag::Estimated => 21,
            Flag::Faulty => 7,
            Flag::Interpolated => 22,
            Flag::Missing => 19,
        }
    }

    /// Name of the flag.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flag::NoValue => "NoValue",
            Flag::Accounted => "Accounted",
            Flag::ManuallyReplaced => "ManuallyReplaced",
            Flag::Valid => "Valid",
            Flag::Schedule => "Schedule",
            Flag::Estimated => "Estimated",
            Flag::Faulty => "Faulty",
            Flag::Interpolated => "Interpolated",
            Flag::Missing => "Missing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_priorities_ascend() {
        for (at, flag) in Flag::ALL.into_iter().enumerate() {
            assert_eq!(flag as usize, at);
            assert_eq!(Flag::from_id(flag.id().into()), Some(flag));
        }
        assert_eq!(Flag::from_id(1), None);
    }
}
