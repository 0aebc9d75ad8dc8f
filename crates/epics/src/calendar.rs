//! Years and dates of the proleptic Gregorian calendar in UTC, without leap seconds.

use crate::sample::Nanos;

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// Years whose every instant fits in [`Nanos`].
pub(crate) const YEARS: std::ops::RangeInclusive<i32> = 1678..=2261;

/// Days from 1970-01-01 to the first day of March of `year`, the month in which the leap day has passed.
///
/// Years of the computation start in March, so that the leap day is the last day of a year.
fn days_to_march(year: i64) -> i64 {
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) - 719_468
}

/// Time of the first instant of `year`.
///
/// - `year`: in [`YEARS`].
pub(crate) fn start_of_year(year: i32) -> Nanos {
    debug_assert!(YEARS.contains(&year));
    // January and February belong to the year before: the first of January is 306 days after that year's March.
    (days_to_march(i64::from(year) - 1) + 306) * 86_400 * SECOND
}

/// The year of a time.
pub(crate) fn year_of(time: Nanos) -> i32 {
    date_of(time.div_euclid(86_400 * SECOND)).0
}

/// Year, month (1 to 12) and day (1 to 31) of a number of days since 1970-01-01.
pub(crate) fn date_of(days: i64) -> (i32, usize, u32) {
    // A year of 365.2425 days is at most one off, in either direction.
    let mut year = (days * 400).div_euclid(146_097) + 1970;
    while days < days_to_march(year) {
        year -= 1;
    }
    while days >= days_to_march(year + 1) {
        year += 1;
    }
    let day = days - days_to_march(year);
    // Months from March on have 31, 30, 31, 30, 31 days, twice and a half: 153 days in five months.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year as i32, month as usize, day as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_start_where_leap_years_put_them() {
        for (year, seconds) in [
            (1970, 0),
            (1972, 63_072_000),
            (1973, 94_694_400),
            (1990, crate::sample::EPICS_EPOCH_SECONDS),
            (2000, 946_684_800),
            (2001, 978_307_200),
            (2012, 1_325_376_000),
            (2101, 4_133_980_800),
            (1969, -31_536_000),
        ] {
            assert_eq!(start_of_year(year), seconds * SECOND, "{year}");
        }
    }

    #[test]
    fn every_day_of_every_year_has_its_date() {
        const DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut day = start_of_year(*YEARS.start()) / SECOND / 86_400;
        for year in YEARS {
            assert_eq!(start_of_year(year) / SECOND / 86_400, day);
            let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            for (month, days) in DAYS.iter().enumerate() {
                for of_month in 1..=*days + u32::from(leap && month == 1) {
                    assert_eq!(date_of(day), (year, month + 1, of_month));
                    day += 1;
                }
            }
        }
    }

    #[test]
    fn year_changes_at_the_last_nanosecond() {
        let start = start_of_year(2024);
        assert_eq!((year_of(start - 1), year_of(start)), (2023, 2024));
        assert_eq!((year_of(i64::MIN), year_of(i64::MAX)), (1677, 2262));
    }
}
