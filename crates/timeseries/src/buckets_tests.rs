//! Buckets across changes of the clocks.

use super::*;

const HOUR: i64 = 3_600_000_000_000;

fn ns(text: &str) -> i64 {
    i64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
}

fn hours(n: i64) -> Interval {
    Interval { nanoseconds: n * HOUR, ..Interval::default() }
}

fn days(n: i32) -> Interval {
    Interval { days: n, ..Interval::default() }
}

fn months(n: i32) -> Interval {
    Interval { months: n, ..Interval::default() }
}

fn in_zone(width: Interval, zone: &str) -> Buckets {
    Buckets::new(width, Some(zone), None, Interval::default()).unwrap()
}

fn check(buckets: &Buckets, time: &str, expected: &str) {
    assert_eq!(buckets.start(ns(time)).unwrap(), ns(expected), "bucket of {time}, expected {expected}");
}

/// Lengths in hours of the buckets in `[from, to)`.
fn lengths(buckets: &Buckets, from: &str, to: &str) -> Vec<f64> {
    let (mut start, to) = (buckets.start(ns(from)).unwrap(), ns(to));
    let mut lengths = Vec::new();
    while start < to {
        let next = buckets.next(start).unwrap();
        lengths.push((next - start) as f64 / HOUR as f64);
        start = next;
    }
    lengths
}

#[test]
fn weeks_start_on_monday_and_months_on_the_first() {
    let plain = |width| Buckets::new(width, None, None, Interval::default()).unwrap();
    check(&plain(days(7)), "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z");
    check(&plain(days(7)), "1999-12-31T00:00:00Z", "1999-12-27T00:00:00Z");
    check(&plain(months(1)), "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z");
    check(&plain(months(3)), "2024-06-30T12:00:00Z", "2024-04-01T00:00:00Z");
    check(&plain(months(12)), "1969-06-30T12:00:00Z", "1969-01-01T00:00:00Z");
    check(&plain(hours(1)), "1969-12-31T23:59:59.999999999Z", "1969-12-31T23:00:00Z");
}

#[test]
fn origin_and_offset_shift_the_buckets() {
    let origin = Some(ns("2024-01-01T00:07:00Z"));
    check(
        &Buckets::new(hours(1), None, origin, Interval::default()).unwrap(),
        "2024-05-01T10:06:00Z",
        "2024-05-01T09:07:00Z",
    );
    check(&Buckets::new(days(1), None, None, hours(6)).unwrap(), "2024-05-01T05:00:00Z", "2024-04-30T06:00:00Z");
    check(&Buckets::new(months(1), None, None, days(14)).unwrap(), "2024-05-14T00:00:00Z", "2024-04-15T00:00:00Z");
    check(&Buckets::new(months(12), None, None, months(6)).unwrap(), "2024-05-14T00:00:00Z", "2023-07-01T00:00:00Z");
}

#[test]
fn berlin_days_last_23_24_and_25_hours() {
    let buckets = in_zone(days(1), "Europe/Berlin");
    check(&buckets, "2026-03-29T21:59:59Z", "2026-03-28T23:00:00Z");
    assert_eq!(lengths(&buckets, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"), [24.0, 23.0, 24.0, 24.0]);
    assert_eq!(lengths(&buckets, "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z"), [24.0, 25.0, 24.0]);
}

#[test]
fn hours_below_a_day_follow_the_wall_clock() {
    let buckets = in_zone(hours(6), "Europe/Berlin");
    assert_eq!(lengths(&buckets, "2026-03-28T23:00:00Z", "2026-03-30T00:00:00Z"), [5.0, 6.0, 6.0, 6.0, 6.0]);
    assert_eq!(lengths(&buckets, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"), [7.0, 6.0, 6.0, 6.0]);
    check(&buckets, "2026-07-01T12:00:00Z", "2026-07-01T10:00:00Z");
    check(&buckets, "2026-12-01T12:00:00Z", "2026-12-01T11:00:00Z");
}

#[test]
fn repeated_and_skipped_hours_have_buckets_of_their_own() {
    let hourly = in_zone(hours(1), "Europe/Berlin");
    assert!(lengths(&hourly, "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z").iter().all(|length| *length == 1.0));
    check(&hourly, "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z");
    check(&hourly, "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z");
    let two = in_zone(hours(2), "Europe/Berlin");
    assert_eq!(lengths(&two, "2026-10-24T22:00:00Z", "2026-10-25T05:00:00Z"), [2.0, 1.0, 2.0, 2.0]);
    assert_eq!(lengths(&two, "2026-03-28T23:00:00Z", "2026-03-29T04:00:00Z"), [2.0, 1.0, 2.0]);
}

#[test]
fn half_hour_changes_make_one_longer_and_one_shorter_bucket() {
    let buckets = in_zone(hours(1), "Australia/Lord_Howe");
    let autumn = lengths(&buckets, "2026-04-04T13:00:00Z", "2026-04-04T17:30:00Z");
    assert_eq!(autumn, [1.0, 1.5, 1.0, 1.0], "02:00 goes back to 01:30");
    let spring = lengths(&buckets, "2026-10-03T14:30:00Z", "2026-10-03T17:00:00Z");
    assert_eq!(spring, [1.0, 0.5, 1.0], "02:00 goes to 02:30");
}

#[test]
fn midnight_that_is_skipped_or_repeated_starts_one_day() {
    let havana = in_zone(days(1), "America/Havana");
    assert_eq!(lengths(&havana, "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z"), [24.0, 23.0, 24.0]);
    assert_eq!(lengths(&havana, "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z"), [24.0, 25.0, 24.0]);
    let apia = in_zone(days(1), "Pacific/Apia");
    // 29 and 31 December, 1 and 2 January: Samoa skipped the 30th.
    assert_eq!(lengths(&apia, "2011-12-29T12:00:00Z", "2012-01-01T12:00:00Z"), [24.0; 4]);
    assert_eq!(apia.next(ns("2011-12-29T10:00:00Z")).unwrap(), ns("2011-12-30T10:00:00Z"));
    assert_eq!(apia.start(ns("2011-12-31T09:59:59Z")).unwrap(), ns("2011-12-30T10:00:00Z"));
}

#[test]
fn bad_arguments_are_refused_with_22023() {
    let refused = |width, zone, offset| Buckets::new(width, zone, None, offset).unwrap_err().state();
    let none = Interval::default();
    for width in [none, days(-1), months(-1), Interval { months: 1, days: 1, nanoseconds: 0 }] {
        assert_eq!(refused(width, None, none), SqlState::INVALID_PARAMETER_VALUE, "{width:?}");
    }
    assert_eq!(refused(days(1), Some("Mars/Olympus"), none), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(refused(days(1), None, months(1)), SqlState::INVALID_PARAMETER_VALUE);
}

#[test]
fn buckets_outside_the_range_are_refused_with_22008() {
    for zone in [None, Some("Europe/Berlin")] {
        for width in [hours(5), days(3), months(2)] {
            let buckets = Buckets::new(width, zone, None, Interval::default()).unwrap();
            assert_eq!(buckets.start(i64::MIN + 1).unwrap_err().state(), SqlState::DATETIME_OVERFLOW);
            assert!(buckets.start(i64::MAX).is_ok());
            assert!(buckets.next(buckets.start(i64::MAX).unwrap()).is_err());
        }
    }
}

/// Small pseudo-random generator (splitmix64), so that a failure can be reproduced by its case number.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((x ^ (x >> 31)) % n.unsigned_abs()).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as i64)).unwrap()]
    }

    fn buckets(&mut self) -> (String, Buckets) {
        let small = |n: i64| i32::try_from(n).unwrap();
        let width = match self.below(4) {
            0 => Interval { nanoseconds: (1 + self.below(47)) * HOUR / 4, ..Interval::default() },
            1 => Interval { nanoseconds: (1 + self.below(86_399)) * 1_000_000_000, ..Interval::default() },
            2 => days(1 + small(self.below(19))),
            _ => months(1 + small(self.below(29))),
        };
        let zone = self.pick(&ZONES);
        let origin = [None, Some((self.below(2_900_000_000) - 1_000_000_000) * 1_000_000_000)];
        let origin = self.pick(&origin);
        let told = format!("{width:?} {zone:?} {origin:?}");
        (told, Buckets::new(width, zone, origin, Interval::default()).unwrap())
    }

    /// Two of three times are within three hours of a change of some zone's offset.
    fn time(&mut self) -> i64 {
        match self.below(3) {
            0 => ns("1900-01-01T00:00:00Z") + self.below(6_300_000_000) * 1_000_000_000,
            _ => ns(self.pick(&CHANGES)) + self.below(6 * HOUR) - 3 * HOUR,
        }
    }
}

const ZONES: [Option<&str>; 10] = [
    None,
    Some("Europe/Berlin"),
    Some("America/New_York"),
    Some("America/Havana"),
    Some("America/St_Johns"),
    Some("Australia/Lord_Howe"),
    Some("Pacific/Apia"),
    Some("Asia/Kathmandu"),
    Some("Africa/Casablanca"),
    Some("Antarctica/Troll"),
];

const CHANGES: [&str; 11] = [
    "2026-03-29T01:00:00Z",
    "2026-10-25T01:00:00Z",
    "2026-03-08T07:00:00Z",
    "2026-11-01T05:00:00Z",
    "2006-10-29T02:31:00Z",
    "2006-04-02T03:31:00Z",
    "2026-04-04T15:00:00Z",
    "2026-10-03T15:30:00Z",
    "2011-12-30T10:00:00Z",
    "2026-02-15T02:00:00Z",
    "2026-03-22T02:00:00Z",
];

#[test]
fn every_moment_is_in_exactly_one_bucket() {
    for case in 0..20_000 {
        let mut random = Random(case);
        let (told, buckets) = random.buckets();
        let time = random.time();
        let start = buckets.start(time).unwrap();
        let next = buckets.next(start).unwrap();
        let told = format!("case {case}: {told}, time {time}, bucket {start} .. {next}");
        assert!(start <= time && time < next, "{told}");
        assert_eq!(buckets.start(start).unwrap(), start, "{told}: of its start");
        assert_eq!(buckets.start(next - 1).unwrap(), start, "{told}: of its last moment");
        assert_eq!(buckets.start(next).unwrap(), next, "{told}: of the next start");
        let before = buckets.start(start - 1).unwrap();
        assert!(before < start, "{told}: {before} before it");
        assert_eq!(buckets.next(before).unwrap(), start, "{told}: after {before}");
    }
}

#[test]
fn buckets_never_go_back() {
    for case in 0..20_000 {
        let mut random = Random(case);
        let (told, buckets) = random.buckets();
        let time = random.time();
        let later = time + random.below(4 * HOUR);
        assert!(buckets.start(time).unwrap() <= buckets.start(later).unwrap(), "case {case}: {told}: {time}, {later}");
    }
}
