//! Rasters in calendars.

use super::*;

fn ns(text: &str) -> i64 {
    crate::stamp::parse(text, &TimeZone::UTC).unwrap()
}

fn bounds(raster: (Step, u32), calendar: &str, from: &str, to: &str) -> Vec<i64> {
    let calendar = Calendar::parse(calendar).unwrap();
    let raster = Raster::new(raster.0, raster.1).unwrap();
    raster.intervals(&calendar).unwrap().bounds(ns(from), ns(to), usize::MAX - 1).unwrap()
}

#[test]
fn days_of_vienna_have_92_96_and_100_quarter_hours() {
    for (from, to, quarters) in [
        ("2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z", 92),
        ("2025-06-30T22:00:00Z", "2025-07-01T22:00:00Z", 96),
        ("2025-10-25T22:00:00Z", "2025-10-26T23:00:00Z", 100),
    ] {
        let day = bounds((Step::Day, 1), "Europe/Vienna", from, to);
        assert_eq!(day, [ns(from), ns(to)], "{from}");
        assert_eq!(bounds((Step::Minute, 15), "Europe/Vienna", from, to).len(), quarters + 1);
        assert_eq!(bounds((Step::Hour, 1), "Europe/Vienna", from, to).len(), quarters / 4 + 1);
    }
}

#[test]
fn gas_days_start_at_six_by_the_clock() {
    let days = bounds((Step::Day, 1), "Europe/Vienna 06:00", "2025-03-29T12:00:00Z", "2025-03-31T00:00:00Z");
    assert_eq!(days, ["2025-03-29T05:00:00Z", "2025-03-30T04:00:00Z", "2025-03-31T04:00:00Z"].map(ns));
    let months = bounds((Step::Month, 1), "Europe/Vienna+06:00", "2025-03-01T04:59:59Z", "2025-03-01T05:00:00Z");
    assert_eq!(months, ["2025-02-01T05:00:00Z", "2025-03-01T05:00:00Z"].map(ns));
}

#[test]
fn calendars_and_steps_that_are_none_are_refused() {
    for text in ["", "Europe/Wien", "Europe/Vienna 25:00", "06:00", "Europe/Vienna 6"] {
        assert!(Calendar::parse(text).is_err(), "{text}");
    }
    assert_eq!(Calendar::parse("Etc/GMT+1").unwrap().zone().iana_name(), Some("Etc/GMT+1"));
    assert_eq!("hours".parse::<Step>().unwrap(), Step::Hour);
    assert!("fortnight".parse::<Step>().unwrap_err().message().contains("expected Millisecond, Second"));
    assert!(Raster::new(Step::Day, 0).is_err());
    assert!(Raster::new(Step::Year, MULTIPLIER_MAX).unwrap().intervals(&Calendar::utc()).is_ok());
    let seconds = Raster::new(Step::Second, 1).unwrap();
    assert!(seconds.check_range(0, 53_000_000 * 1_000_000_000).is_ok());
    let refused = seconds.check_range(0, i64::MAX / 2).unwrap_err();
    assert_eq!(refused.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn bounds_are_the_starts_that_next_gives() {
    let zones = [
        "UTC",
        "Europe/Vienna",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/Havana",
        "Pacific/Apia",
        "Africa/Casablanca 06:00",
    ];
    let rasters = [
        (Step::Minute, 15),
        (Step::Minute, 45),
        (Step::Hour, 1),
        (Step::Hour, 7),
        (Step::Day, 1),
        (Step::Week, 1),
        (Step::Month, 1),
    ];
    for zone in zones {
        for raster in rasters {
            let calendar = Calendar::parse(zone).unwrap();
            let intervals = Raster::new(raster.0, raster.1).unwrap().intervals(&calendar).unwrap();
            for year in (2009..2026).step_by(2) {
                let (from, to) = (ns(&format!("{year}-03-07T01:02:03Z")), ns(&format!("{year}-12-31T11:00:00Z")));
                let mut expected = vec![intervals.start(from).unwrap()];
                while expected[expected.len() - 1] < to {
                    expected.push(intervals.next(expected[expected.len() - 1]).unwrap());
                }
                assert!(intervals.bounds(from, to, usize::MAX - 1).unwrap() == expected, "{zone} {raster:?} {year}");
                let ends: Vec<Option<i64>> = expected[1..].iter().copied().map(Some).collect();
                let starts = &expected[..expected.len() - 1];
                for max in [1, 2, 100] {
                    let some = intervals.bounds(from, to, max).unwrap();
                    assert_eq!(some, expected[..expected.len().min(max + 1)], "{zone} {raster:?} {year} {max}");
                }
                assert!(intervals.ends(starts).unwrap() == ends, "{zone} {raster:?} {year}");
                let between: Vec<i64> = starts.iter().map(|start| start + 1).collect();
                assert!(intervals.ends(&between).unwrap().iter().all(Option::is_none), "{zone} {raster:?} {year}");
            }
        }
    }
}
