//! Dates and times, compared with the output and input of PostgreSQL 15 (`testdata/`), and round
//! trips.

use super::*;
use proptest::prelude::*;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn cases(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().map(|line| line.split('\t').collect())
}

/// The two zones of the cases, with the rules of 2024; the session's zone is New York in winter.
fn zones(name: Option<&str>, local_seconds: i64) -> Option<i32> {
    let summer = (1_711_000_000..1_730_000_000).contains(&local_seconds);
    match name.map(str::to_ascii_lowercase).as_deref() {
        None => Some(-5 * 3_600),
        Some("europe/berlin") => Some(if summer { 2 } else { 1 } * 3_600),
        Some("america/new_york") => Some(if summer { -4 } else { -5 } * 3_600),
        _ => None,
    }
}

/// A result as in the case tables: the value or the SQLSTATE.
fn shown<T: ToString>(result: Result<T>) -> String {
    result.map_or_else(|error| error.state().to_string(), |value| value.to_string())
}

#[test]
fn timestamp_text_equals_postgresqls() {
    for case in cases(include_str!("testdata/timestamp.tsv")) {
        assert_eq!(text(|out| timestamp_text(out, case[0].parse().unwrap())), case[1]);
    }
}

#[test]
fn microsecond_timestamps_have_a_wider_range_than_nanosecond_ones() {
    for (text, shown) in [
        ("4713-01-01 00:00:00 BC", "4713-01-01 00:00:00 BC"),
        ("0001-01-01", "0001-01-01 00:00:00"),
        ("1677-09-21 00:12:43.1452244", "1677-09-21 00:12:43.145224"),
        ("1969-12-31 23:59:59.9999996", "1970-01-01 00:00:00"),
        ("2026-11-22 01:02:03.0000005", "2026-11-22 01:02:03.000001"),
        ("294246-12-31 23:59:59.999999", "294246-12-31 23:59:59.999999"),
    ] {
        let micros = parse_timestamp_micros(text).unwrap();
        let mut out = Vec::new();
        timestamp_text(&mut out, micros - EPOCH_MICROS);
        assert_eq!(String::from_utf8(out).unwrap(), shown, "{text}");
        let zoned = parse_timestamptz_micros(&format!("{text} +01"), &|_, _| None);
        if !text.ends_with("BC") {
            assert_eq!(zoned.unwrap(), micros - 3_600_000_000, "{text}");
        }
    }
    for text in ["294248-01-01", "294276-12-31 23:59:59", "294277-01-01"] {
        assert_eq!(parse_timestamp_micros(text).unwrap_err().state().0, "22008", "{text}");
    }
    assert!(parse_timestamp("0001-01-01").is_err());
}

#[test]
fn timestamps_and_dates_are_read_as_postgresql_reads_them() {
    for case in cases(include_str!("testdata/timestamp_input.tsv")) {
        let micros = |ns: i64| ns.div_euclid(1_000);
        assert_eq!(shown(parse_timestamptz(case[0], &zones).map(micros)), case[1], "timestamptz {:?}", case[0]);
        assert_eq!(shown(parse_timestamp(case[0]).map(micros)), case[2], "timestamp {:?}", case[0]);
        assert_eq!(shown(parse_date(case[0])), case[3], "date {:?}", case[0]);
    }
}

#[test]
fn offsets_show_minutes_and_seconds_only_when_they_have_any() {
    let micros = micros_of_ns(1_706_695_200_000_000_000);
    for (offset, expected) in [
        (0, "2024-01-31 10:00:00+00"),
        (7_200, "2024-01-31 12:00:00+02"),
        (19_800, "2024-01-31 15:30:00+05:30"),
        (-12_600, "2024-01-31 06:30:00-03:30"),
        (1_172, "2024-01-31 10:19:32+00:19:32"),
        (50_400, "2024-02-01 00:00:00+14"),
    ] {
        assert_eq!(text(|out| timestamptz_text(out, micros, offset)), expected);
    }
}

#[test]
fn times_before_christ_and_the_infinities_are_written() {
    let noon = days_of_date(-43, 3, 15) * DAY_MICROS + DAY_MICROS / 2 - EPOCH_MICROS;
    assert_eq!(text(|out| timestamptz_text(out, noon, 0)), "0044-03-15 12:00:00+00 BC");
    assert_eq!(text(|out| timestamp_text(out, i64::MAX)), "infinity");
    assert_eq!(text(|out| timestamptz_text(out, i64::MIN, 0)), "-infinity");
    assert_eq!(text(|out| date_text(out, i32::MAX)), "infinity");
    assert_eq!(text(|out| date_text(out, (days_of_date(0, 1, 1)) as i32 - EPOCH_DAYS)), "0001-01-01 BC");
    assert_eq!(text(|out| date_text(out, -1)), "1999-12-31");
    assert_eq!(text(|out| time_text(out, DAY_MICROS)), "24:00:00");
    assert_eq!(text(|out| time_text(out, 14_706_700_000)), "04:05:06.7");
}

#[test]
fn nanoseconds_are_kept_on_input_and_rounded_down_on_output() {
    assert_eq!(parse_timestamp("1970-01-01 00:00:00.123456789").unwrap(), 123_456_789);
    assert_eq!(parse_timestamp("1970-01-01 00:00:00.1234567895").unwrap(), 123_456_790);
    assert_eq!(micros_of_ns(1_999), -EPOCH_MICROS + 1);
    assert_eq!(micros_of_ns(-1), -EPOCH_MICROS - 1);
}

#[test]
fn timestamps_beyond_nanoseconds_are_refused_with_22008() {
    assert_eq!(parse_timestamp("2262-04-11 23:47:16.854775807").unwrap(), i64::MAX);
    assert_eq!(parse_timestamp("1677-09-21 00:12:43.145224192").unwrap(), i64::MIN);
    for input in
        ["2262-04-11 23:47:16.854775808", "1677-09-21 00:12:43.145224191", "infinity", "9999-12-31", "4713-01-01 BC"]
    {
        let error = parse_timestamptz(input, &|_, _| Some(0)).unwrap_err();
        assert_eq!(error.state(), SqlState::DATETIME_OVERFLOW, "{input}");
    }
    assert_eq!(ns_of_micros(i64::MAX).unwrap_err().state(), SqlState::DATETIME_OVERFLOW);
    assert_eq!(ns_of_micros(-EPOCH_MICROS).unwrap(), 0);
}

#[test]
fn times_of_day_are_read() {
    for (input, expected) in [
        ("04:05:06.7", "14706700000"),
        ("T04:05", "14700000000"),
        ("24:00", "86400000000"),
        ("040506", "14706000000"),
        ("04:05 PM", "57900000000"),
        ("04:05+02", "14700000000"),
        ("23:59:59.9999999", "86400000000"),
        ("25:00", "22008"),
        ("04", "22007"),
        ("", "22007"),
    ] {
        assert_eq!(shown(parse_time(input)), expected, "{input}");
    }
}

#[test]
fn interval_formats_equal_postgresqls() {
    for case in cases(include_str!("testdata/interval.tsv")) {
        let interval = Interval {
            months: case[0].parse().unwrap(),
            days: case[1].parse().unwrap(),
            micros: case[2].parse().unwrap(),
        };
        assert_eq!(text(|out| interval_text(out, interval)), case[3]);
        let hex: String = interval_binary(interval).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, case[4]);
        assert_eq!(parse_interval(case[3]).unwrap(), interval);
    }
}

#[test]
fn intervals_are_read_as_postgresql_reads_them() {
    for case in cases(include_str!("testdata/interval_input.tsv")) {
        let written = parse_interval(case[0]).map(|interval| text(|out| interval_text(out, interval)));
        assert_eq!(shown(written), case[1], "{:?}", case[0]);
    }
}

proptest! {
    #[test]
    fn days_and_dates_are_inverse(days in -1_000_000_000i64..1_000_000_000) {
        let (year, month, day) = date_of_days(days);
        prop_assert!(day >= 1 && day <= days_in_month(year, month));
        prop_assert_eq!(days_of_date(year, month, day), days);
    }

    #[test]
    fn timestamps_read_back(ns in any::<i64>(), offset in -50_000i32..50_000) {
        let ns = ns / 1_000 * 1_000;
        let micros = micros_of_ns(ns);
        prop_assert_eq!(ns_of_micros(micros).unwrap(), ns);
        prop_assert_eq!(parse_timestamp(&text(|out| timestamp_text(out, micros))).unwrap(), ns);
        let with_zone = text(|out| timestamptz_text(out, micros, offset));
        prop_assert_eq!(parse_timestamptz(&with_zone, &|_, _| None).unwrap(), ns, "{}", with_zone);
    }

    #[test]
    fn intervals_read_back(months in any::<i32>(), days in any::<i32>(), micros in any::<i64>()) {
        let interval = Interval { months, days, micros };
        prop_assert_eq!(parse_interval_binary(&interval_binary(interval)).unwrap(), interval);
        prop_assert_eq!(parse_interval(&text(|out| interval_text(out, interval))).unwrap(), interval);
    }

    #[test]
    fn no_text_panics(input in "[-+0-9:TZ/. APMBC]{0,30}", words in "\\PC{0,24}", span in "P?[-0-9.YMWDHST]{0,20}") {
        for input in [&input, &words, &span] {
            let _ = (parse_timestamptz(input, &zones), parse_timestamp(input), parse_date(input), parse_time(input), parse_interval(input));
        }
    }

    #[test]
    fn no_number_panics(micros in any::<i64>(), days in any::<i32>(), offset in any::<i32>()) {
        let _ = text(|out| timestamp_text(out, micros));
        let _ = text(|out| timestamptz_text(out, micros, offset));
        let _ = text(|out| date_text(out, days));
        let _ = text(|out| time_text(out, micros));
    }
}
