//! Excel's dates: days since an epoch, with the time of day as their fraction.
//!
//! | system | day 1      | peculiarity                                                         |
//! |-------:|------------|---------------------------------------------------------------------|
//! |   1900 | 1900-01-01 | day 60 is 1900-02-29, which never was; later days are one too great |
//! |   1904 | 1904-01-02 | none                                                                |
//!
//! A number below 1 is a time of a day without a date.

const MS_PER_DAY: i64 = 86_400_000;
/// 1970-01-01 in the system of 1900.
const UNIX_DAY: i64 = 25_569;
/// Days between the epochs of the two systems.
const EPOCHS_APART: i64 = 1_462;
/// Day of the system of 1900 after its day that never was.
const MARCH_1900: i64 = 61;
/// 10000-01-01 in the system of 1900.
const END: i64 = 2_958_466;

/// Whether a clock time can be a date of Excel: from 1900-03-01 to 9999-12-31.
#[must_use]
pub fn holds(clock_ms: i64) -> bool {
    let day = clock_ms.div_euclid(MS_PER_DAY) + UNIX_DAY;
    (MARCH_1900..END).contains(&day)
}

/// The date of a clock time in the system of 1900.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of 8000 years are below 2^53")]
pub(crate) fn of_clock(clock_ms: i64) -> f64 {
    (clock_ms + UNIX_DAY * MS_PER_DAY) as f64 / MS_PER_DAY as f64
}

/// The clock time of a date, rounded to the millisecond: an f64 of this size is exact to a microsecond. `None` for a time without a
/// date, a day that never was, and one after 9999.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the range is checked")]
pub(crate) fn to_clock(serial: f64, is_1904: bool) -> Option<i64> {
    if !(1.0..END as f64).contains(&serial) {
        return None;
    }
    let ms = (serial * MS_PER_DAY as f64).round() as i64;
    let ms = if is_1904 { ms + EPOCHS_APART * MS_PER_DAY } else { ms };
    let day = ms.div_euclid(MS_PER_DAY);
    if day >= END || day == MARCH_1900 - 1 {
        return None;
    }
    let shift = if day < MARCH_1900 { UNIX_DAY - 1 } else { UNIX_DAY };
    Some(ms - shift * MS_PER_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_of_both_systems_are_clock_times() {
        for (serial, is_1904, expected) in [
            (25_569.0, false, Some(0)),
            (24_107.0, true, Some(0)),
            (45_943.5, false, Some(1_760_356_800_000)),
            (44_481.5, true, Some(1_760_356_800_000)),
            // 1900-01-01 and 1900-03-01.
            (1.0, false, Some(-2_208_988_800_000)),
            (61.0, false, Some(-2_203_891_200_000)),
            (60.5, false, None),
            (0.25, false, None),
            (-1.0, false, None),
            (f64::NAN, false, None),
            (2_958_466.0, false, None),
            (2_958_000.0, true, None),
            // Excel stores 00:15 of a day like this.
            (45_658.010_416_666_664, false, Some(1_735_690_500_000)),
            (45_658.010_416_67, false, Some(1_735_690_500_000)),
        ] {
            assert_eq!(to_clock(serial, is_1904), expected, "{serial} {is_1904}");
        }
    }

    #[test]
    fn every_millisecond_survives() {
        // The step is no multiple of anything.
        let mut clock = -2_203_891_200_000;
        while holds(clock) {
            assert_eq!(to_clock(of_clock(clock), false), Some(clock));
            clock += 998_877_661;
        }
        assert!(clock > 253_402_000_000_000);
        assert!(!holds(-2_203_891_200_001));
    }
}
