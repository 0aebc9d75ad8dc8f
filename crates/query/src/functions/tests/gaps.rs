//! `locf` and `interpolate`.

use std::collections::BTreeMap;

use super::super::bucket::{Buckets, Interval};
use super::*;

const T: &str = "Timestamp(ns, \"+00:00\")";
const HOUR: i64 = 3_600_000_000_000;
/// 2026-01-01T00:00:00Z
const NEW_YEAR: i64 = 1_767_225_600_000_000_000;

/// Results of `items` for hours 0 to 4 of a day, from rows `(hour, value)`: one line per hour.
async fn hours(items: &str, values: &str) -> Vec<String> {
    rows(&session().await, &hours_query(items, values)).await
}

fn hours_query(items: &str, values: &str) -> String {
    let bucket =
        "time_bucket_gapfill('1 hour', time, start => '2026-01-01T00:00:00Z', finish => '2026-01-01T05:00:00Z')";
    format!(
        "select (epoch_ns({bucket}) - {NEW_YEAR}) / {HOUR} as hour, {items}
         from (select arrow_cast({NEW_YEAR} + column1 * {HOUR}, '{T}') as time, column2 as v from (values {values}))
         group by {bucket} order by 1"
    )
}

#[tokio::test]
async fn interpolate_draws_lines_between_the_nearest_values() {
    let cases: [(&str, &str, [&str; 6]); 6] = [
        // A row after the range is used, as in TimescaleDB.
        ("interpolate(min(v))", "(0, 1), (5, 6)", ["0|1", "1|2", "2|3", "3|4", "4|5", "5|6"]),
        // Integers round to the nearest, halves away from zero; real and double do not round.
        ("interpolate(min(v))", "(0, -3), (5, 3)", ["0|-3", "1|-2", "2|-1", "3|1", "4|2", "5|3"]),
        ("interpolate(min(v::smallint))", "(0, -3), (5, 3)", ["0|-3", "1|-2", "2|-1", "3|1", "4|2", "5|3"]),
        ("interpolate(min(v::int))", "(0, -3), (5, 3)", ["0|-3", "1|-2", "2|-1", "3|1", "4|2", "5|3"]),
        ("interpolate(min(v::real))", "(0, -3), (5, 3)", ["0|-3.0", "1|-1.8", "2|-0.6", "3|0.6", "4|1.8", "5|3.0"]),
        ("interpolate(avg(v))", "(0, -3), (5, 3)", ["0|-3.0", "1|-1.8", "2|-0.6", "3|0.6", "4|1.8", "5|3.0"]),
    ];
    for (items, values, expected) in cases {
        assert_eq!(hours(items, values).await, expected, "{items} of {values}");
    }
}

#[tokio::test]
async fn interpolate_leaves_the_ends_null_and_fills_nulls_between() {
    let cases: [(&str, &str, [&str; 5]); 5] = [
        ("interpolate(min(v))", "(1, 10), (3, 30)", ["0|-", "1|10", "2|20", "3|30", "4|-"]),
        ("interpolate(min(v))", "(1, 10)", ["0|-", "1|10", "2|-", "3|-", "4|-"]),
        ("interpolate(min(v))", "(0, 1), (2, null), (4, 5)", ["0|1", "1|2", "2|3", "3|4", "4|5"]),
        ("interpolate(min(v))", "(0, null), (1, 1), (3, null), (4, null)", ["0|-", "1|1", "2|-", "3|-", "4|-"]),
        ("interpolate(min(v::int)), count(*)", "(0, null), (4, null)", ["0|-|1", "1|-|-", "2|-|-", "3|-|-", "4|-|1"]),
    ];
    for (items, values, expected) in cases {
        assert_eq!(hours(items, values).await, expected, "{items} of {values}");
    }
}

#[tokio::test]
async fn interpolate_looks_beyond_the_range_for_the_ends() {
    let before = "(timestamptz '2025-12-31T23:00:00Z', 0)";
    let after = "(timestamptz '2026-01-01T06:00:00Z', 60)";
    let cases: [(String, [&str; 5]); 7] = [
        (format!("interpolate(min(v), {before}, {after})"), ["0|10", "1|20", "2|25", "3|30", "4|40"]),
        (format!("interpolate(min(v), next => {after})"), ["0|-", "1|20", "2|25", "3|30", "4|40"]),
        (format!("interpolate(min(v), prev := row{before})"), ["0|10", "1|20", "2|25", "3|30", "4|-"]),
        (format!("interpolate(min(v), (select {before}), (select {after}))"), ["0|10", "1|20", "2|25", "3|30", "4|40"]),
        // NULL, or a time on the wrong side, is ignored.
        (format!("interpolate(min(v), null, {before})"), ["0|-", "1|20", "2|25", "3|30", "4|-"]),
        (
            format!("interpolate(min(v), (select {before} where false), (timestamptz '2026-01-01T06:00:00Z', null))"),
            ["0|-", "1|20", "2|25", "3|30", "4|-"],
        ),
        (format!("interpolate(avg(v), {before})"), ["0|10.0", "1|20.0", "2|25.0", "3|30.0", "4|-"]),
    ];
    for (items, expected) in cases {
        assert_eq!(hours(&items, "(1, 20), (3, 30)").await, expected, "{items}");
    }
}

/// Example of TimescaleDB's manual: the newest row before the range, separately for each device.
#[tokio::test]
async fn the_row_before_the_range_may_be_looked_up_for_each_group() {
    let lookups = "
        round(interpolate(max(v), (select (time, v) from p q where q.dev = p.dev and q.time < '2026-03-29T10:00:00Z'
                             order by time desc limit 1)), 2) as line,
        locf(max(v), prev => (select v from p q where q.dev = p.dev and q.time < '2026-03-29T10:00:00Z'
                              order by q.time desc limit 1)) as step";
    check(
        &format!(
            "select dev, time_bucket_gapfill('6 hours', time) as bucket, {lookups} from p where time >= '2026-03-29T10:00:00Z'
             and time < '2026-03-30T00:00:00Z' group by dev, bucket order by dev, bucket"
        ),
        &[
            "a|2026-03-29T06:00:00Z|2.35|2.0",
            "a|2026-03-29T12:00:00Z|2.68|2.0",
            "a|2026-03-29T18:00:00Z|3.0|3.0",
            "b|2026-03-29T06:00:00Z|-|4.0",
            "b|2026-03-29T12:00:00Z|5.0|5.0",
            "b|2026-03-29T18:00:00Z|-|5.0",
        ],
    )
    .await;
}

#[tokio::test]
async fn interpolate_goes_by_true_time_where_a_day_has_23_hours() {
    // From 23:00Z of the 27th the days of Berlin have 24, 23 and 24 hours.
    let rows = "(select arrow_cast(column1, 'Timestamp(ns, \"+00:00\")') as time, column2 as x
                 from (values ('2026-03-27T23:30:00Z', 0.0), ('2026-03-30T22:30:00Z', 71.0)))";
    check(
        &format!(
            "select time_bucket_gapfill('1 day', time, 'Europe/Berlin') as day, interpolate(max(x)) from {rows}
             where time >= '2026-03-27T23:00:00Z' and time < '2026-03-31T22:00:00Z' group by day order by day"
        ),
        &[
            "2026-03-27T23:00:00Z|0.0",
            "2026-03-28T23:00:00Z|24.0",
            "2026-03-29T22:00:00Z|47.0",
            "2026-03-30T22:00:00Z|71.0",
        ],
    )
    .await;
}

#[tokio::test]
async fn locf_takes_nulls_for_gaps_where_asked_and_a_value_from_before() {
    let nulls = "(1, 9), (2, 3), (3, null), (5, 6)";
    let leading = "(0, null), (3, null), (5, 6)";
    let cases: [(&str, &str, [&str; 6]); 6] = [
        ("locf(min(v))", nulls, ["0|-", "1|9", "2|3", "3|-", "4|-", "5|6"]),
        ("locf(min(v), treat_null_as_missing => false)", nulls, ["0|-", "1|9", "2|3", "3|-", "4|-", "5|6"]),
        ("locf(min(v), treat_null_as_missing := null)", nulls, ["0|-", "1|9", "2|3", "3|-", "4|-", "5|6"]),
        ("locf(min(v), treat_null_as_missing := true)", nulls, ["0|-", "1|9", "2|3", "3|3", "4|3", "5|6"]),
        ("locf(min(v), (select 100), true)", leading, ["0|100", "1|100", "2|100", "3|100", "4|100", "5|6"]),
        ("locf(min(v), prev => 100)", leading, ["0|-", "1|-", "2|-", "3|-", "4|-", "5|6"]),
    ];
    for (items, values, expected) in cases {
        assert_eq!(hours(items, values).await, expected, "{items} of {values}");
    }
    let both = hours("locf(min(v), prev => 1.5), interpolate(min(v)) + locf(min(v))", "(1, 9), (3, 3)").await;
    assert_eq!(both, ["0|1|-", "1|9|18", "2|9|15", "3|3|6", "4|3|-"]);
}

#[tokio::test]
async fn what_cannot_be_filled_is_refused() {
    use model::SqlState;
    let in_hours = |items: &str| hours_query(items, "(1, 20)");
    let cases = [
        ("select interpolate(v) from p".to_owned(), SqlState::GROUPING_ERROR),
        (in_hours("interpolate(interpolate(min(v)))"), SqlState::GROUPING_ERROR),
        (in_hours("interpolate(min(v), (1, 2, 3))"), SqlState::INVALID_PARAMETER_VALUE),
        (in_hours("interpolate(min(v), 5)"), SqlState::INVALID_PARAMETER_VALUE),
        (in_hours("locf(min(v), 5, 1)"), SqlState::INVALID_PARAMETER_VALUE),
        (in_hours("locf(min(v), 5, min(v) > 0)"), SqlState::INVALID_PARAMETER_VALUE),
    ];
    for (sql, state) in cases {
        assert_eq!(state_of(&sql).await, state, "{sql}");
    }
}

/// Buckets by group, each with the values of two columns.
type Model = BTreeMap<char, BTreeMap<i64, [Option<i64>; 2]>>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Random rows of some groups in some buckets; values are often NULL.
fn random_model(random: &mut Random, buckets: &[i64]) -> Model {
    let mut model = Model::new();
    for group in "abcd".chars().take(1 + random.below(4) as usize) {
        let (rare, nulls) = (1 + random.below(6), 1 + random.below(4));
        for bucket in buckets {
            if random.below(rare) == 0 {
                let mut value = || (random.below(4) < nulls).then(|| random.below(2_000) as i64 - 1_000);
                model.entry(group).or_default().insert(*bucket, [value(), value()]);
            }
        }
    }
    model
}

/// Expected values of a column at `at`: interpolated, carried, carried over NULLs.
fn shown(rows: &BTreeMap<i64, [Option<i64>; 2]>, column: usize, at: i64) -> [Option<i64>; 3] {
    let known = |(time, values): (&i64, &[Option<i64>; 2])| values[column].map(|value| (*time, value));
    let left = rows.range(..=at).rev().find_map(known);
    let right = rows.range(at..).find_map(known);
    let line = left.zip(right).map(|((x0, y0), (x1, y1))| {
        let (whole, y0, y1) = (i128::from(x1 - x0).max(1), i128::from(y0), i128::from(y1));
        let (left, right) = if x0 == x1 { (1, 0) } else { (i128::from(x1 - at), i128::from(at - x0)) };
        let doubled = 2 * (y0 * left + y1 * right);
        (((doubled.abs() + whole) / (2 * whole)) * doubled.signum()) as i64
    });
    let carried = rows.range(..=at).next_back().and_then(|(_, values)| values[column]);
    [line, carried, left.map(|(_, value)| value)]
}

/// Batches of 1 to 7 rows, so that groups and gaps span batches.
#[tokio::test]
async fn filled_columns_are_those_of_a_simple_model() {
    let mut random = Random(2_026);
    for round in 0..60 {
        let (width, zone) = [("1 hour", "UTC"), ("1 day", "Europe/Berlin"), ("6 hours", "Europe/Berlin")][round % 3];
        let interval = match width {
            "1 day" => Interval { days: 1, ..Interval::default() },
            _ => Interval { nanoseconds: if width == "1 hour" { HOUR } else { 6 * HOUR }, ..Interval::default() },
        };
        // After March's clock change.
        let start = NEW_YEAR + if width == "1 hour" { 0 } else { 80 * 24 * HOUR };
        let grid = Buckets::new(interval, Some(zone), None, Interval::default()).unwrap();
        let mut buckets = vec![grid.start(start).unwrap()];
        for _ in 0..random.below(40) {
            buckets.push(grid.next(*buckets.last().unwrap()).unwrap());
        }
        let finish = grid.next(*buckets.last().unwrap()).unwrap();
        let model = random_model(&mut random, &buckets);
        let mut values = vec![format!("('a', {start}, null::bigint, null::bigint, false)")];
        let mut expected = Vec::new();
        let text = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
        for (group, rows) in &model {
            for (bucket, [v, w]) in rows {
                let null = |value: &Option<i64>| value.map_or("null".to_owned(), |value| value.to_string());
                values.push(format!("('{group}', {}, {}, {}, true)", bucket + HOUR / 2, null(v), null(w)));
            }
            for bucket in &buckets {
                let [v, w] = [0, 1].map(|column| shown(rows, column, *bucket).map(text));
                expected.push(format!("{group}|{bucket}|{}|{}|{}|{}|{}", v[0], v[1], v[2], w[0], w[2]));
            }
        }
        let query = format!(
            "select column1 as dev, epoch_ns(time_bucket_gapfill('{width}', time, '{zone}', arrow_cast({start}, '{T}'), arrow_cast({finish}, '{T}'))) as b,
                    interpolate(max(column3)), locf(max(column3)), locf(max(column3), treat_null_as_missing => true),
                    interpolate(max(column4)), locf(max(column4), null, true)
             from (select *, arrow_cast(column2, '{T}') as time from (values {})) where column5
             group by 1, time_bucket_gapfill('{width}', time, '{zone}', arrow_cast({start}, '{T}'), arrow_cast({finish}, '{T}')) order by 1, 2",
            values.join(", ")
        );
        let session = session_of_batches(1 + random.below(7) as usize).await;
        assert_eq!(rows(&session, &query).await, expected, "round {round}");
    }
}
