//! SQL tests of the functions, on a plain `SessionContext`.

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::{SessionConfig, SessionContext};

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::common::Result;
use datafusion::sql::parser::Statement;

use super::*;

mod gaps;

/// A session with Millrace's functions and the table `p (dev, time, v)`.
async fn session() -> SessionContext {
    session_of_batches(8_192).await
}

/// Same session with a maximum batch size.
async fn session_of_batches(rows: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(rows);
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;

    let state = datafusion::execution::SessionStateBuilder::new_with_default_features().with_config(config);
    let session = SessionContext::new_with_state(state.with_query_planner(Arc::new(Planner)).build());
    register(&session);
    let rows = "create table p as select column1 as dev, arrow_cast(column2, 'Timestamp(ns, \"+00:00\")') as time, column3 as v from (values
        ('a', '2026-03-28T22:30:00Z', 1.0), ('a', '2026-03-28T23:30:00Z', 2.0), ('a', '2026-03-29T21:30:00Z', 3.0),
        ('a', '2026-03-29T22:30:00Z', null), ('b', '2026-03-29T12:00:00Z', 5.0), ('b', '2026-03-29T08:00:00Z', 4.0))";
    session.sql(rows).await.unwrap().collect().await.unwrap();
    session
}

async fn run(session: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    let mut statement = compiled::parser_of(sql)?.parse_statements()?.pop().unwrap();
    crate::rewrite::rewrite(&mut statement);
    crate::pg_catalog::rewrite(&mut statement);
    let plan = session.state().statement_to_plan(Statement::Statement(Box::new(statement))).await?;
    session.execute_logical_plan(rewrite_plan(plan)?).await?.collect().await
}

/// SQLSTATE of the error of `sql`.
async fn state_of(sql: &str) -> model::SqlState {
    let error = run(&session().await, sql).await.unwrap_err();
    let DataFusionError::External(error) = error.find_root() else { panic!("{sql}: {error}") };
    error.downcast_ref::<model::Error>().unwrap().state()
}

/// Rows of `sql`, cells joined by `|`, NULL as `-`.
async fn rows(session: &SessionContext, sql: &str) -> Vec<String> {
    let batches = run(session, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

async fn check(sql: &str, expected: &[&str]) {
    assert_eq!(rows(&session().await, sql).await, expected, "{sql}");
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
    check("select time_bucket('1 day', null)", &["-"]).await;
}

#[tokio::test]
async fn first_and_last_take_the_value_of_the_extreme_time() {
    check(
        "select dev, first(v, time), last(v, time), last(time, time) from p group by dev order by dev",
        &["a|1.0|-|2026-03-29T22:30:00Z", "b|4.0|5.0|2026-03-29T12:00:00Z"],
    )
    .await;
    check("select last(dev, time), first(v, time) from p where v > 2", &["a|4.0"]).await;
    check("select last(v, time) filter (where v < 3) from p", &["2.0"]).await;
    check("select last(v, time) from p where v > 20", &["-"]).await;
}

#[tokio::test]
async fn epoch_ns_is_exact() {
    check("select epoch_ns(timestamptz '2026-03-29 12:00:00.123456789Z')", &["1774785600123456789"]).await;
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
            "b|2026-03-29T06:00:00Z|1|4.0",
            "b|2026-03-29T12:00:00Z|1|5.0",
            "b|2026-03-29T18:00:00Z|-|5.0",
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
            "2026-03-27T23:00:00Z|1|1.0",
            "2026-03-28T23:00:00Z|2|5.0",
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
            "2026-03-28T23:00:00Z|4.0",
            "2026-03-29T10:00:00Z|5.0",
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
        locf(max(v)) as v from p where time >= '2026-03-28T22:30:00Z' and time < '2026-03-29T22:30:00Z' group by b, dev)";
    check(sql, &["172800|5|2026-03-29T22:29:59Z|1.0|5.0"]).await;
}

#[tokio::test]
async fn gap_fill_without_bounds_is_refused() {
    let missing =
        "select time_bucket_gapfill('1 day', time) as day from p where time > '2026-03-28T22:30:00Z' group by day";
    assert_eq!(state_of(missing).await, model::SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(state_of("select locf(v) from p").await, model::SqlState::GROUPING_ERROR);
}

#[tokio::test]
async fn date_trunc_takes_a_zone() {
    let trunc = |unit, zone| format!("select date_trunc('{unit}', max(time), '{zone}') from p where dev = 'b'");
    check(&trunc("day", "Europe/Berlin"), &["2026-03-28T23:00:00Z"]).await;
    check(&trunc("week", "Asia/Tokyo"), &["2026-03-22T15:00:00Z"]).await;
    check(&trunc("quarter", "America/New_York"), &["2026-01-01T05:00:00Z"]).await;
    check(&trunc("century", "UTC"), &["2001-01-01T00:00:00Z"]).await;
    assert_eq!(state_of(&trunc("fortnight", "UTC")).await, model::SqlState::INVALID_PARAMETER_VALUE);
}
