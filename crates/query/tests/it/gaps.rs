//! Time buckets, gap filling, `first` and `last`.

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

/// The table `p (dev, time, v)`.
const ROWS: &str = "INSERT INTO p VALUES
    ('a', '2026-03-28T22:30:00Z', 1.0), ('a', '2026-03-28T23:30:00Z', 2.0), ('a', '2026-03-29T21:30:00Z', 3.0),
    ('a', '2026-03-29T22:30:00Z', null), ('b', '2026-03-29T12:00:00Z', 5.0), ('b', '2026-03-29T08:00:00Z', 4.0)";
const HOUR: i64 = 3_600_000_000_000;
/// 2026-01-01T00:00:00Z
const NEW_YEAR: i64 = 1_767_225_600_000_000_000;

async fn client(fixture: &Fixture) -> Client {
    let mut client = Client::new(fixture, Storage::Memory);
    let table = "CREATE TABLE p (dev text, time timestamptz NOT NULL, v float8) WITH (store = 'columns', key = 'dev')";
    for sql in [table, ROWS] {
        client.run(sql).await.unwrap();
    }
    client
}

/// Rows of a statement; NULL is `-`, and times are in the form of `2026-03-29T00:00:00Z`.
async fn rows(sql: &str) -> Vec<String> {
    let fixture = Fixture::new();
    let mut client = client(&fixture).await;
    let rows = client.table(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let cell = |cell: &str| match cell {
        "~" => "-".to_owned(),
        cell => match cell.strip_suffix("+00") {
            Some(time) => time.replace(' ', "T") + "Z",
            None => cell.to_owned(),
        },
    };
    rows.iter().map(|row| row.split('|').map(cell).collect::<Vec<_>>().join("|")).collect()
}

/// SQLSTATE of the error of `sql`.
async fn state_of(sql: &str) -> String {
    let fixture = Fixture::new();
    let error = client(&fixture).await.table(sql).await.unwrap_err();
    error.split(':').next().unwrap_or_default().to_owned()
}

async fn check(sql: &str, expected: &[&str]) {
    assert_eq!(rows(sql).await, expected, "{sql}");
}

#[tokio::test]
async fn time_bucket_groups_by_the_days_of_a_zone() {
    check(
        "select time_bucket('1 day', time, 'Europe/Berlin') as day, count(*) from p where dev = 'a' group by day order by day",
        &["2026-03-27T23:00:00Z|1", "2026-03-28T23:00:00Z|2", "2026-03-29T22:00:00Z|1"],
    )
    .await;
    check(
        "select time_bucket(interval '1 day', time) as day, count(*) from p group by 1 order by 1",
        &["2026-03-28T00:00:00Z|2", "2026-03-29T00:00:00Z|4"],
    )
    .await;
}

#[tokio::test]
async fn time_bucket_takes_an_origin_an_offset_and_integers() {
    check(
        "select time_bucket('2 hours', max(time), timestamptz '2000-01-01 01:00:00Z') from p",
        &["2026-03-29T21:00:00Z"],
    )
    .await;
    check("select time_bucket('1 day', max(time), interval '6 hours') from p", &["2026-03-29T06:00:00Z"]).await;
    check("select time_bucket('1 day', max(time), 'Europe/Berlin', null, '6 hours') from p", &["2026-03-29T04:00:00Z"])
        .await;
    check("select time_bucket(10, -1), time_bucket(10, 17, 4)", &["-10|14"]).await;
    check("select time_bucket('1 day', null::timestamptz)", &["-"]).await;
}

#[tokio::test]
async fn first_and_last_take_the_value_of_the_extreme_time() {
    check(
        "select dev, first(v, time), last(v, time), last(time, time) from p group by dev order by dev",
        &["a|1|-|2026-03-29T22:30:00Z", "b|4|5|2026-03-29T12:00:00Z"],
    )
    .await;
    check("select last(dev, time), first(v, time) from p where v > 2", &["a|4"]).await;
    check("select last(v, time) filter (where v < 3) from p", &["2"]).await;
    check("select last(v, time) from p where v > 20", &["-"]).await;
}

#[tokio::test]
async fn epoch_ns_is_exact() {
    check("select epoch_ns(to_timestamp_nanos(1774785600123456789))", &["1774785600123456789"]).await;
}

#[tokio::test]
async fn gap_fill_adds_the_missing_buckets_of_every_group() {
    check(
        "select dev, time_bucket_gapfill('6 hours', time) as bucket, count(*) as n, locf(last(v, time)) as v from p
         where time >= '2026-03-29T00:00:00Z' and time < '2026-03-30T00:00:00Z' group by dev, bucket order by dev, bucket",
        &[
            "a|2026-03-29T00:00:00Z|-|-",
            "a|2026-03-29T06:00:00Z|-|-",
            "a|2026-03-29T12:00:00Z|-|-",
            "a|2026-03-29T18:00:00Z|2|-",
            "b|2026-03-29T00:00:00Z|-|-",
            "b|2026-03-29T06:00:00Z|1|4",
            "b|2026-03-29T12:00:00Z|1|5",
            "b|2026-03-29T18:00:00Z|-|5",
        ],
    )
    .await;
}

#[tokio::test]
async fn gap_fill_across_a_change_of_clocks_has_the_buckets_rows_would_have() {
    check(
        "select time_bucket_gapfill('1 day', time, 'Europe/Berlin', '2026-03-27T23:00:00Z', '2026-03-31T22:00:00Z') as day,
                count(*), locf(sum(v)) from p where dev = 'a' group by 1 order by 1",
        &[
            "2026-03-27T23:00:00Z|1|1",
            "2026-03-28T23:00:00Z|2|5",
            "2026-03-29T22:00:00Z|1|-",
            "2026-03-30T22:00:00Z|-|-",
        ],
    )
    .await;
    check(
        "select time_bucket_gapfill('12 hours', time, timezone => 'Europe/Berlin', start => '2026-03-28T10:00:00Z',
                finish => '2026-03-30T00:00:00Z') as half, min(v) from p where dev = 'b' group by half order by half",
        &[
            "2026-03-27T23:00:00Z|-",
            "2026-03-28T11:00:00Z|-",
            "2026-03-28T23:00:00Z|4",
            "2026-03-29T10:00:00Z|5",
            "2026-03-29T22:00:00Z|-",
        ],
    )
    .await;
}

#[tokio::test]
async fn having_judges_groups_and_not_gaps() {
    check(
        "select time_bucket_gapfill('12 hours', time) as half, count(*) + 1 from p where time between '2026-03-28T22:00:00Z'
         and '2026-03-29T23:00:00Z' group by half having count(*) > 1 order by half desc",
        &["2026-03-29T12:00:00Z|4", "2026-03-29T00:00:00Z|-", "2026-03-28T12:00:00Z|3"],
    )
    .await;
}

#[tokio::test]
async fn gap_fill_of_many_buckets_comes_in_batches() {
    let sql = "select count(*), count(n), max(b), min(v), max(v) from (select time_bucket_gapfill('1 second', time) as b, dev, count(*) as n,
        locf(max(v)) as v from p where time >= '2026-03-28T22:30:00Z' and time < '2026-03-29T22:30:00Z' group by b, dev) as s";
    check(sql, &["172800|5|2026-03-29T22:29:59Z|1|5"]).await;
}

#[tokio::test]
async fn gap_fill_without_bounds_is_refused() {
    let missing =
        "select time_bucket_gapfill('1 day', time) as day from p where time > '2026-03-28T22:30:00Z' group by day";
    assert_eq!(state_of(missing).await, "22023");
    assert_eq!(state_of("select locf(v) from p").await, "42803");
}

#[tokio::test]
async fn date_trunc_takes_a_zone() {
    let trunc = |unit, zone| format!("select date_trunc('{unit}', max(time), '{zone}') from p where dev = 'b'");
    check(&trunc("day", "Europe/Berlin"), &["2026-03-28T23:00:00Z"]).await;
    check(&trunc("week", "Asia/Tokyo"), &["2026-03-22T15:00:00Z"]).await;
    check(&trunc("quarter", "America/New_York"), &["2026-01-01T05:00:00Z"]).await;
    check(&trunc("century", "UTC"), &["2001-01-01T00:00:00Z"]).await;
    assert_eq!(state_of(&trunc("fortnight", "UTC")).await, "22023");
}

/// Results of `items` for hours 0 to 4 of a day, from rows `(hour, value)`: one line per hour.
async fn hours(items: &str, values: &str) -> Vec<String> {
    rows(&hours_query(items, values)).await
}

fn hours_query(items: &str, values: &str) -> String {
    let bucket =
        "time_bucket_gapfill('1 hour', time, start => '2026-01-01T00:00:00Z', finish => '2026-01-01T05:00:00Z')";
    format!(
        "select (epoch_ns({bucket}) - {NEW_YEAR}) / {HOUR} as hour, {items}
         from (select to_timestamp_nanos({NEW_YEAR} + column1 * {HOUR}) as time, column2 as v from (values {values}) as t) as s
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
        ("interpolate(min(v::real))", "(0, -3), (5, 3)", ["0|-3", "1|-1.8", "2|-0.6", "3|0.6", "4|1.8", "5|3"]),
        ("interpolate(avg(v))", "(0, -3), (5, 3)", ["0|-3", "1|-1.8", "2|-0.6", "3|0.6", "4|1.8", "5|3"]),
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
        (format!("interpolate(avg(v), {before})"), ["0|10", "1|20", "2|25", "3|30", "4|-"]),
    ];
    for (items, expected) in cases {
        assert_eq!(hours(&items, "(1, 20), (3, 30)").await, expected, "{items}");
    }
}

/// Example of TimescaleDB's manual: the newest row before the range, separately for each device.
#[tokio::test]
async fn the_row_before_the_range_may_be_looked_up_for_each_group() {
    let lookups = "
        round((interpolate(max(v), (select (time, v) from p q where q.dev = p.dev and q.time < '2026-03-29T10:00:00Z'
                             order by time desc limit 1)))::numeric, 2) as line,
        locf(max(v), prev => (select v from p q where q.dev = p.dev and q.time < '2026-03-29T10:00:00Z'
                              order by q.time desc limit 1)) as step";
    check(
        &format!(
            "select dev, time_bucket_gapfill('6 hours', time) as bucket, {lookups} from p where time >= '2026-03-29T10:00:00Z'
             and time < '2026-03-30T00:00:00Z' group by dev, bucket order by dev, bucket"
        ),
        &[
            "a|2026-03-29T06:00:00Z|2.35|2",
            "a|2026-03-29T12:00:00Z|2.68|2",
            "a|2026-03-29T18:00:00Z|3.00|3",
            "b|2026-03-29T06:00:00Z|-|4",
            "b|2026-03-29T12:00:00Z|5.00|5",
            "b|2026-03-29T18:00:00Z|-|5",
        ],
    )
    .await;
}

#[tokio::test]
async fn interpolate_goes_by_true_time_where_a_day_has_23_hours() {
    // From 23:00Z of the 27th the days of Berlin have 24, 23 and 24 hours.
    let rows = "(select column1::timestamptz as time, column2 as x
                 from (values ('2026-03-27T23:30:00Z', 0.0), ('2026-03-30T22:30:00Z', 71.0)) as t) as s";
    check(
        &format!(
            "select time_bucket_gapfill('1 day', time, 'Europe/Berlin') as day, interpolate(max(x)) from {rows}
             where time >= '2026-03-27T23:00:00Z' and time < '2026-03-31T22:00:00Z' group by day order by day"
        ),
        &["2026-03-27T23:00:00Z|0", "2026-03-28T23:00:00Z|24", "2026-03-29T22:00:00Z|47", "2026-03-30T22:00:00Z|71"],
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
    let both = hours("locf(min(v), prev => 2), interpolate(min(v)) + locf(min(v))", "(1, 9), (3, 3)").await;
    assert_eq!(both, ["0|2|-", "1|9|18", "2|9|15", "3|3|6", "4|3|-"]);
}

#[tokio::test]
async fn what_cannot_be_filled_is_refused() {
    let in_hours = |items: &str| hours_query(items, "(1, 20)");
    let cases = [
        ("select interpolate(v) from p".to_owned(), "42803"),
        (in_hours("interpolate(interpolate(min(v)))"), "42803"),
        (in_hours("interpolate(min(v), (1, 2, 3))"), "22023"),
        (in_hours("interpolate(min(v), 5)"), "42883"),
        (in_hours("locf(min(v), 5, 1)"), "42883"),
        (in_hours("locf(min(v), 5, min(v) > 0)"), "22023"),
    ];
    for (sql, state) in cases {
        assert_eq!(state_of(&sql).await, state, "{sql}");
    }
}
