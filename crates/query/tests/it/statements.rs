//! Results of a session other than rows: parameter types, column names and types, notices, snapshots, limits.

use futures::StreamExt;
use query::{Outcome, PlanCache, Session, TxnStatus, Value};

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

const TABLE: &str = "CREATE TABLE m (time timestamptz NOT NULL, dev text, v float8, n int, u numeric(20), ok bool) \
                     WITH (store = 'columns', key = 'dev')";

fn with_session<T>(test: impl AsyncFnOnce(Session) -> T) -> T {
    let fixture = Fixture::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut session = fixture.database.session("millrace");
        run(&mut session, TABLE, &[]).await.unwrap();
        test(session).await
    })
}

async fn run(session: &mut Session, sql: &str, values: &[Value]) -> model::Result<Outcome> {
    let parsed = query::parse(sql)?;
    let prepared = session.prepare(&parsed[0], &[]).await?;
    session.execute(&prepared, values).await
}

async fn count(session: &mut Session) -> i64 {
    let Outcome::Rows { mut batches, .. } = run(session, "SELECT count(*) FROM m", &[]).await.unwrap() else {
        panic!("no rows");
    };
    let batch = batches.next().await.unwrap().unwrap();
    use arrow_array::cast::AsArray;
    batch.column(0).as_primitive::<arrow_array::types::Int64Type>().value(0)
}

#[test]
fn parameters_get_the_types_of_their_surroundings() {
    with_session(async |mut session| {
        for (sql, expected) in [
            ("SELECT * FROM m WHERE dev = $1 AND time >= $2 AND v > $3", vec![25, 1184, 701]),
            ("SELECT n + $1 FROM m LIMIT $2 OFFSET $3", vec![23, 20, 20]),
            ("SELECT $1::int, $2::float8, $3", vec![23, 701, 25]),
            ("SELECT 1 FROM m WHERE n IN ($1, $2) AND u = $3", vec![23, 23, 1700]),
            ("INSERT INTO m VALUES ($1, $2, $3, $4, $5, $6)", vec![1184, 25, 701, 23, 1700, 16]),
            ("INSERT INTO m (dev, time) SELECT $1, $2", vec![25, 1184]),
            ("INSERT INTO m (time, n, v) VALUES (to_timestamp($1), $2, $3)", vec![701, 23, 701]),
            ("DELETE FROM m WHERE dev = $1 AND time < $2", vec![25, 1184]),
            ("SELECT 1 FROM m WHERE time BETWEEN $1 AND $2", vec![1184, 1184]),
            ("SELECT 1 FROM m WHERE dev = ANY($1) AND n <> ALL($2) AND v < ANY(($3))", vec![1009, 1007, 1022]),
            ("SELECT n + $3 FROM m WHERE u = ANY($1) AND ok = ANY($2) LIMIT 1", vec![1231, 1000, 23]),
            ("SELECT n + 1 FROM m WHERE time = ANY($2) AND n + 1 = ANY($1) AND n = $3", vec![1007, 1185, 23]),
            ("SELECT 1 FROM m WHERE $1 IS NULL OR dev = ANY($1)", vec![1009]),
            (
                "SELECT n + 1 FROM m WHERE dev = ANY($1::text[]) AND n = ANY($2) AND $3 = ANY($4)",
                vec![1009, 1007, 25, 1009],
            ),
            ("DELETE FROM m WHERE dev = ANY($1) AND time < $2", vec![1009, 1184]),
            ("INSERT INTO m (time, dev) SELECT time, dev FROM m WHERE n = ANY($1)", vec![1007]),
        ] {
            let parsed = query::parse(sql).unwrap();
            let prepared = session.prepare(&parsed[0], &[]).await.unwrap();
            assert_eq!(prepared.parameters(), expected, "{sql}");
        }
    });
}

/// psycopg, asyncpg, JDBC and Django send arrays this way and let the server infer their types.
#[test]
fn arrays_of_any_and_all_have_the_types_of_what_they_are_compared_with() {
    let texts = |items: &[Option<&str>]| {
        Value::Array(items.iter().map(|item| item.map_or(Value::Null, |item| Value::Text(item.to_owned()))).collect())
    };
    let ints = |items: &[i32]| Value::Array(items.iter().map(|item| Value::Int32(*item)).collect());
    let floats = |items: &[f64]| Value::Array(items.iter().map(|item| Value::Float64(*item)).collect());
    let cases: Vec<(&str, u32, Value, &str)> = vec![
        ("t = ANY($1)", 1009, texts(&[Some("a"), Some("d"), None]), "1 4"),
        ("t = ANY($1)", 1009, texts(&[]), ""),
        ("t = ANY($1)", 1009, Value::Null, ""),
        ("NOT t = ANY($1)", 1009, texts(&[Some("a")]), "2 4"),
        ("t <> ALL($1)", 1009, texts(&[Some("a")]), "2 4"),
        ("t <> ALL($1)", 1009, texts(&[Some("a"), None]), ""),
        ("t <> ALL($1)", 1009, texts(&[]), "1 2 3 4"),
        ("n = ANY($1)", 1007, ints(&[2, 9]), "2"),
        ("n < ANY($1)", 1007, ints(&[1, 2]), "1"),
        ("n >= ALL($1)", 1007, ints(&[2, 1]), "2 4"),
        ("v = ANY($1)", 1022, floats(&[1.5, f64::NAN]), "1 4"),
        ("t = 'a' OR v = ANY($1)", 1022, floats(&[2.5]), "1 2"),
    ];
    let fixture = Fixture::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        let columns = "(id int NOT NULL, time timestamptz NOT NULL, t text, n int, v float8";
        let rows = "(1, '2026-01-01', 'a', 1, 1.5), (2, '2026-01-01', 'b', 2, 2.5), (3, '2026-01-01', NULL, NULL, NULL), \
                    (4, '2026-01-01', 'd', 4, 1.5)";
        for sql in [
            format!("CREATE TABLE c {columns}) WITH (store = 'columns', key = 't')"),
            format!("CREATE TABLE r {columns}, PRIMARY KEY (id))"),
            format!("INSERT INTO c VALUES {rows}"),
            format!("INSERT INTO r VALUES {rows}"),
        ] {
            client.run(&sql).await.unwrap();
        }
        for (condition, ty, value, expected) in &cases {
            for query in [
                format!("SELECT id FROM c WHERE {condition} ORDER BY id"),
                format!("SELECT id FROM r WHERE {condition} ORDER BY id"),
                // Window functions and joins, which DataFusion executes.
                format!("SELECT max(id) OVER (PARTITION BY id) FROM c WHERE {condition} ORDER BY 1"),
                format!("SELECT max(id) OVER (PARTITION BY id) FROM r WHERE {condition} ORDER BY 1"),
                format!("SELECT a.id FROM r a, (SELECT id AS other FROM c WHERE {condition}) b WHERE a.id = b.other ORDER BY 1"),
            ] {
                let described = client.described(&query, &[]).await.unwrap_or_else(|e| panic!("{query}: {e}"));
                assert_eq!(described.1, [*ty], "{query}");
                let found = client.bound_cells(&query, &[], std::slice::from_ref(value)).await;
                let found = found.unwrap_or_else(|e| panic!("{query}: {e}"));
                let ids: Vec<&str> = found.iter().map(|row| row[0].as_deref().unwrap_or("NULL")).collect();
                assert_eq!(ids.join(" "), *expected, "{query}, {value:?}");
            }
        }
    });
}

#[test]
fn columns_have_postgresqls_names_and_types() {
    with_session(async |mut session| {
        let sql = "SELECT 1, count(*), avg(v), dev, n + 1, sum(n), v > 1, time, u, NULL, 'x', 1.5, n::bigint FROM m \
                   GROUP BY dev, n, v, time, u";
        let parsed = query::parse(sql).unwrap();
        let prepared = session.prepare(&parsed[0], &[]).await.unwrap();
        let found: Vec<(String, u32)> =
            prepared.columns().unwrap().iter().map(|column| (column.name.clone(), column.oid)).collect();
        let expected = [
            ("?column?", 23),
            ("count", 20),
            ("avg", 701),
            ("dev", 25),
            ("?column?", 23),
            ("sum", 20),
            ("?column?", 16),
            ("time", 1184),
            ("u", 1700),
            ("?column?", 25),
            ("?column?", 25),
            ("?column?", 1700),
            ("n", 20),
        ];
        assert_eq!(found, expected.map(|(name, oid)| (name.to_owned(), oid)));
    });
}

#[test]
fn a_prepared_insert_binds_its_values_each_time() {
    with_session(async |mut session| {
        let parsed = query::parse("INSERT INTO m (time, dev, v) VALUES ($1, $2, $3), ($1, 'x', NULL)").unwrap();
        let prepared = session.prepare(&parsed[0], &[]).await.unwrap();
        for at in 0..10 {
            let values = [Value::Timestamptz(at), Value::Text(format!("d{at}")), Value::Float64(0.5)];
            let outcome = session.execute(&prepared, &values).await.unwrap();
            assert!(matches!(outcome, Outcome::Command { tag } if tag == "INSERT 0 2"));
        }
        assert_eq!(count(&mut session).await, 20);
    });
}

#[test]
fn a_prepared_statement_survives_a_change_of_its_table() {
    with_session(async |mut session| {
        let insert = query::parse("INSERT INTO m (time, dev) VALUES ($1, $2)").unwrap();
        let insert = session.prepare(&insert[0], &[]).await.unwrap();
        let select = query::parse("SELECT dev FROM m").unwrap();
        let select = session.prepare(&select[0], &[]).await.unwrap();
        run(&mut session, "ALTER TABLE m ADD COLUMN w int", &[]).await.unwrap();
        session.execute(&insert, &[Value::Timestamptz(1), Value::Text("a".into())]).await.unwrap();
        assert!(matches!(session.execute(&select, &[]).await.unwrap(), Outcome::Rows { .. }));
        run(&mut session, "DROP TABLE m", &[]).await.unwrap();
        let error = session.execute(&insert, &[Value::Timestamptz(1), Value::Text("a".into())]).await.err().unwrap();
        assert_eq!(error.state(), model::SqlState::UNDEFINED_TABLE);
    });
}

#[test]
fn an_error_in_a_block_fails_it_until_rollback() {
    with_session(async |mut session| {
        run(&mut session, "BEGIN", &[]).await.unwrap();
        run(&mut session, "INSERT INTO m (time, dev) VALUES (now(), 'a')", &[]).await.unwrap();
        assert!(run(&mut session, "SELECT 1/0", &[]).await.is_err() || session.status() == TxnStatus::InBlock);
        session.fail();
        assert_eq!(session.status(), TxnStatus::Failed);
        let error = run(&mut session, "SELECT 1", &[]).await.err().unwrap();
        assert_eq!(error.state(), model::SqlState::IN_FAILED_SQL_TRANSACTION);
        let outcome = run(&mut session, "COMMIT", &[]).await.unwrap();
        assert!(matches!(outcome, Outcome::Command { tag } if tag == "ROLLBACK"));
        assert_eq!(count(&mut session).await, 0);
    });
}

#[test]
fn begin_in_a_block_and_commit_outside_warn() {
    with_session(async |mut session| {
        run(&mut session, "BEGIN", &[]).await.unwrap();
        run(&mut session, "BEGIN", &[]).await.unwrap();
        assert_eq!(session.notices()[0].message(), "there is already a transaction in progress");
        run(&mut session, "COMMIT", &[]).await.unwrap();
        run(&mut session, "COMMIT", &[]).await.unwrap();
        assert_eq!(session.notices()[0].message(), "there is no transaction in progress");
    });
}

#[test]
fn changed_settings_are_told_once() {
    with_session(async |mut session| {
        assert!(session.changed_settings().is_empty());
        run(&mut session, "SET TIME ZONE 'Europe/Berlin'", &[]).await.unwrap();
        assert_eq!(session.changed_settings()["TimeZone"], "Europe/Berlin");
        assert!(session.changed_settings().is_empty());
        run(&mut session, "BEGIN", &[]).await.unwrap();
        run(&mut session, "SET LOCAL application_name = 'x'", &[]).await.unwrap();
        assert_eq!(session.changed_settings()["application_name"], "x");
        run(&mut session, "COMMIT", &[]).await.unwrap();
        assert_eq!(session.changed_settings()["application_name"], "");
    });
}

#[test]
fn a_dropped_copy_leaves_nothing() {
    with_session(async |mut session| {
        let Outcome::CopyIn(mut copy) = run(&mut session, "COPY m (time, dev) FROM STDIN", &[]).await.unwrap() else {
            panic!("no copy");
        };
        copy.data(&mut session, b"2024-01-01\ta\n").await.unwrap();
        drop(copy);
        assert_eq!(count(&mut session).await, 0);
        assert_eq!(session.status(), TxnStatus::Idle);
    });
}

#[test]
fn a_dropped_result_stops_and_the_session_goes_on() {
    with_session(async |mut session| {
        run(
            &mut session,
            "INSERT INTO m (time, dev) SELECT to_timestamp(g), 'a' FROM generate_series(1, 50000) g",
            &[],
        )
        .await
        .unwrap();
        let Outcome::Rows { mut batches, .. } = run(&mut session, "SELECT * FROM m", &[]).await.unwrap() else {
            panic!("no rows");
        };
        assert!(batches.next().await.unwrap().unwrap().num_rows() > 0);
        drop(batches);
        assert_eq!(count(&mut session).await, 50_000);
    });
}

#[test]
fn a_sort_beyond_the_memory_spills_and_one_far_beyond_fails_with_53200() {
    let fixture = Fixture::with_memory(200 << 10);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut session = fixture.database.session("millrace");
        let sql = "SELECT array_agg(repeat('x', 100) || value::text) FROM generate_series(1, 200000) AS g(value)";
        let outcome = run(&mut session, sql, &[]).await;
        let error = match outcome {
            Err(error) => error,
            Ok(Outcome::Rows { mut batches, .. }) => loop {
                match batches.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("20 MB fit into 200 KiB"),
                }
            },
            Ok(_) => panic!("no rows"),
        };
        assert_eq!(error.state(), model::SqlState::OUT_OF_MEMORY, "{error}");
        assert!(!error.to_string().contains("DataFusion"), "{error}");
    });
}

#[test]
fn a_cursor_that_keeps_more_rows_than_there_is_memory_fails_with_53200_and_one_that_passes_them_does_not() {
    let fixture = Fixture::with_memory(200 << 10);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut session = fixture.database.session("millrace");
        let query = "SELECT repeat('x', 100) || value::text FROM generate_series(1, 200000) AS g(value)";
        run(&mut session, "BEGIN", &[]).await.unwrap();
        run(&mut session, &format!("DECLARE passes CURSOR FOR {query}"), &[]).await.unwrap();
        for expected in ["MOVE 150000", "MOVE 50000", "MOVE 0", "MOVE 0"] {
            let Outcome::Command { tag } = run(&mut session, "MOVE 150000 FROM passes", &[]).await.unwrap() else {
                panic!("no tag");
            };
            assert_eq!(tag, expected);
        }
        let error = run(&mut session, &format!("DECLARE keeps SCROLL CURSOR FOR {query}"), &[]).await.err().unwrap();
        assert_eq!(error.state(), model::SqlState::OUT_OF_MEMORY, "{error}");
        run(&mut session, "ROLLBACK", &[]).await.unwrap();
        let error = run(&mut session, "FETCH passes", &[]).await.err().unwrap();
        assert_eq!(error.state(), model::SqlState::INVALID_CURSOR_NAME, "{error}");
    });
}

#[test]
fn statements_at_the_limits_of_depth_are_planned_and_run() {
    let fixture = Fixture::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(query::STACK_BYTES)
        .enable_all()
        .build()
        .unwrap();
    let run_all = runtime.spawn(async move {
        let mut session = fixture.database.session("millrace");
        run(&mut session, TABLE, &[]).await.unwrap();
        for sql in [
            format!("SELECT n{} FROM m", " + n".repeat(100)),
            format!("SELECT {}n{} FROM m", "(".repeat(98), ")".repeat(98)),
            format!("SELECT {}n{} FROM m", "abs(".repeat(16), ")".repeat(16)),
            format!("SELECT count(*) FROM m WHERE n = 1{}", " OR n = 1".repeat(450)),
            format!("SELECT dev{} FROM m", " || dev".repeat(900)),
            format!("SELECT count(*) FROM m WHERE {}ok", "NOT ".repeat(90)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(400)),
        ] {
            let outcome = run(&mut session, &sql, &[]).await.unwrap_or_else(|error| panic!("{}: {error}", &sql[..60]));
            let Outcome::Rows { mut batches, .. } = outcome else { panic!("no rows") };
            while let Some(batch) = batches.next().await {
                batch.unwrap();
            }
        }
    });
    runtime.block_on(run_all).unwrap();
}

#[test]
fn checkpoint_and_vacuum_full_leave_one_segment_and_nothing_in_memory() {
    with_session(async |mut session| {
        for (sql, segments) in [("CHECKPOINT", 1), ("CHECKPOINT", 2), ("VACUUM FULL m", 1)] {
            run(&mut session, "INSERT INTO m VALUES ('2026-01-01', 'a', 1), ('2026-01-02', 'b', 2)", &[])
                .await
                .unwrap();
            run(&mut session, "INSERT INTO m VALUES ('2026-01-01', 'c', 1), ('2026-01-02', 'd', 2)", &[])
                .await
                .unwrap();
            let outcome = run(&mut session, sql, &[]).await.unwrap();
            let word = sql.split(' ').next().unwrap();
            assert!(matches!(&outcome, Outcome::Command { tag, .. } if tag == word), "{sql}");
            let stats = session.database().engine().stats();
            assert_eq!((stats.segments, stats.memtable_bytes), (segments, 0), "{sql}");
        }
        assert_eq!(count(&mut session).await, 4);
    });
}

#[test]
fn vacuum_runs_outside_of_blocks_and_on_tables_that_exist() {
    with_session(async |mut session| {
        let error = run(&mut session, "VACUUM FULL m, nothing", &[]).await.err().unwrap();
        assert_eq!((error.state().0, error.message()), ("42P01", "relation \"nothing\" does not exist"));
        run(&mut session, "VACUUM (ANALYZE) m", &[]).await.unwrap();
        run(&mut session, "BEGIN", &[]).await.unwrap();
        run(&mut session, "CHECKPOINT", &[]).await.unwrap();
        assert_eq!(run(&mut session, "VACUUM", &[]).await.err().unwrap().state().0, "25001");
    });
}

/// DataFusion's table schema has only the columns that a statement names.
#[test]
fn a_table_of_many_columns_answers_as_one_of_few_does() {
    with_session(async |mut session| {
        let fields: Vec<String> = (0..100).map(|field| format!("F_{field}")).collect();
        let definitions: Vec<String> = fields.iter().map(|field| format!("{field} float8")).collect();
        let with = "WITH (store = 'columns', key = 'dev')";
        let sql = format!(
            "CREATE TABLE wide (time timestamptz NOT NULL, dev text, {}, \"Odd\" int) {with}",
            definitions.join(", ")
        );
        run(&mut session, &sql, &[]).await.unwrap();
        run(
            &mut session,
            "CREATE TABLE few (time timestamptz NOT NULL, dev text, f_7 float8) WITH (store = 'columns', key = 'dev')",
            &[],
        )
        .await
        .unwrap();
        let values: Vec<String> = (0..100).map(|value| value.to_string()).collect();
        for dev in ["a", "b"] {
            let sql = format!("INSERT INTO wide VALUES ('2026-01-01', '{dev}', {}, 7)", values.join(", "));
            run(&mut session, &sql, &[]).await.unwrap();
        }
        run(&mut session, "INSERT INTO few SELECT time, dev, f_7 FROM wide", &[]).await.unwrap();
        for (sql, columns, rows) in [
            ("SELECT * FROM wide", 103, 2),
            ("SELECT DISTINCT ON (dev) * FROM wide", 103, 2),
            ("SELECT - -1 AS k, * FROM wide", 104, 2),
            ("SELECT w.* FROM wide AS w", 103, 2),
            ("SELECT F_7, \"Odd\", count(*) OVER () FROM wide WHERE f_8 = 8 AND \"Odd\" = 7", 3, 2),
            ("SELECT dev FROM wide WHERE f_7 = (SELECT max(f_7) FROM few) AND F_99 > f_98", 1, 2),
            ("SELECT few.dev FROM few NATURAL JOIN wide", 1, 2),
            ("SELECT w.f_3 FROM few JOIN wide AS w USING (dev, time) WHERE w.f_7 = few.f_7", 1, 2),
            ("SELECT sum(f_1 * f_2) FROM wide GROUP BY dev HAVING max(f_3) = 3 ORDER BY min(f_4)", 1, 2),
            ("SELECT (SELECT max(f_7) FROM few WHERE few.dev = wide.dev) FROM wide WHERE f_50 = 50", 1, 2),
        ] {
            let outcome = run(&mut session, sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let Outcome::Rows { columns: found, mut batches, .. } = outcome else { panic!("{sql}: no rows") };
            let mut count = 0;
            while let Some(batch) = batches.next().await {
                count += batch.unwrap().num_rows();
            }
            assert_eq!((found.len(), count), (columns, rows), "{sql}");
        }
        let error = run(&mut session, "SELECT f_100 FROM wide", &[]).await.err().unwrap();
        assert_eq!(error.state().0, "42703", "{error}");
        run(&mut session, "DELETE FROM wide WHERE dev = 'a'", &[]).await.unwrap();
        let error = run(&mut session, "SELECT f_7 FROM wide AS w(a, b, f_7)", &[]).await.err();
        assert!(error.is_some(), "columns are not counted from those that are named");
    });
}

#[test]
fn a_change_of_many_rows_stops_when_it_is_told_to_and_changes_nothing() {
    with_session(async |mut session| {
        run(&mut session, "CREATE TABLE r (id int PRIMARY KEY, n int)", &[]).await.unwrap();
        let fill = "INSERT INTO r SELECT i, 0 FROM generate_series(1, 5000) g(i)";
        run(&mut session, fill, &[]).await.unwrap();
        let stop = session.stop_flag();
        for sql in ["UPDATE r SET n = 1", "DELETE FROM r", "INSERT INTO r SELECT id + 10000, 2 FROM r"] {
            stop.cancel();
            let error = run(&mut session, sql, &[]).await.err().unwrap();
            assert_eq!(error.state(), model::SqlState::QUERY_CANCELED, "{sql}: {error}");
            stop.arm(None);
            let Outcome::Rows { mut batches, .. } =
                run(&mut session, "SELECT count(*), sum(n) FROM r", &[]).await.unwrap()
            else {
                panic!("no rows");
            };
            let batch = batches.next().await.unwrap().unwrap();
            use arrow_array::cast::AsArray;
            let number = |at: usize| batch.column(at).as_primitive::<arrow_array::types::Int64Type>().value(0);
            assert_eq!((number(0), number(1)), (5_000, 0), "{sql}");
        }
    });
}

/// Prepares and executes a text, and records it in the plan cache, as the server does for the simple protocol.
async fn came(session: &mut Session, plans: &mut PlanCache, sql: &str) {
    for statement in query::parse(sql).unwrap() {
        let prepared = session.prepare(&statement, &[]).await.unwrap();
        plans.remember_stripped(session, &prepared);
        session.execute(&prepared, &[]).await.unwrap();
    }
}

#[test]
fn texts_that_came_twice_are_known_until_what_they_name_changes() {
    with_session(async |mut session| {
        let mut plans = PlanCache::default();
        came(&mut session, &mut plans, "CREATE TABLE r (id int PRIMARY KEY, n int, s text)").await;
        for text in [
            "SELECT n FROM r WHERE id = 1",
            "SELECT n FROM r",
            "BEGIN; UPDATE r SET n = 5 WHERE id = 1; COMMIT",
            "INSERT INTO r SELECT 7, n, s FROM r WHERE id = 1",
        ] {
            assert!(plans.recall_text(&mut session, text).is_none(), "{text}");
            came(&mut session, &mut plans, text).await;
            assert!(plans.recall_text(&mut session, text).is_none(), "once: {text}");
            came(&mut session, &mut plans, text).await;
            assert!(plans.recall_text(&mut session, text).is_some(), "twice: {text}");
        }
        // Other constants of the same types hit the cache, also in a text with other cached statements.
        assert!(plans.recall_text(&mut session, "SELECT n FROM r WHERE id = 77;").is_some());
        assert!(plans.recall_text(&mut session, "SELECT n FROM r WHERE id = 3000000000").is_none());
        assert!(
            plans
                .recall_text(&mut session, "BEGIN; SELECT n FROM r WHERE id = 2; UPDATE r SET n = 6 WHERE id = 8")
                .is_some()
        );
        assert!(plans.recall_text(&mut session, "BEGIN; SELECT s FROM r WHERE id = 2").is_none());
        // LIKE patterns are part of the cache key; other kinds of statements are not cached.
        for text in [
            "SELECT n FROM r WHERE s LIKE 'a%'",
            "SHOW application_name",
            "SELECT n FROM m WHERE n = 1",
            "SELECT v FROM m WHERE v > 1.5",
            "SELECT v FROM m WHERE n > 1.5",
        ] {
            came(&mut session, &mut plans, text).await;
            came(&mut session, &mut plans, text).await;
        }
        assert!(plans.recall_text(&mut session, "SELECT n FROM r WHERE s LIKE 'a%'").is_some());
        assert!(plans.recall_text(&mut session, "SELECT n FROM r WHERE s LIKE 'b%'").is_none());
        assert!(plans.recall_text(&mut session, "SHOW application_name").is_none());
        // Series statements are cached too; a numeric constant is a float for them.
        assert!(plans.recall_text(&mut session, "SELECT n FROM m WHERE n = 2").is_some());
        assert!(plans.recall_text(&mut session, "SELECT v FROM m WHERE v > 2.25").is_some());
        assert!(plans.recall_text(&mut session, "SELECT v FROM m WHERE n > 1.5").is_none());
        came(&mut session, &mut plans, "ALTER TABLE r ADD COLUMN t text").await;
        assert!(plans.recall_text(&mut session, "SELECT n FROM r WHERE id = 77").is_none());
        assert!(plans.recall_text(&mut session, "BEGIN").is_some());
    });
}

#[test]
fn statements_of_parse_are_known_by_text_and_types() {
    with_session(async |mut session| {
        let mut plans = PlanCache::default();
        came(&mut session, &mut plans, "CREATE TABLE r (id int PRIMARY KEY, n int)").await;
        let sql = "SELECT n FROM r WHERE id = $1";
        let parsed = query::parse(sql).unwrap();
        let prepared = session.prepare(&parsed[0], &[23]).await.unwrap();
        plans.remember(&mut session, sql, &[23], &prepared);
        assert!(plans.recall(&mut session, sql, &[23]).is_some());
        assert!(plans.recall(&mut session, sql, &[20]).is_none());
        came(&mut session, &mut plans, "ALTER TABLE r ADD COLUMN t text").await;
        assert!(plans.recall(&mut session, sql, &[23]).is_none());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_why_the_row_executor_does_not_run_a_query() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    for sql in [TABLE, "CREATE TABLE r (id int PRIMARY KEY)"] {
        client.run(sql).await.unwrap();
    }
    for (sql, last) in [
        ("EXPLAIN SELECT id FROM r WHERE id = 1", "  points 1: r by r_pkey"),
        ("EXPLAIN SELECT row_number() OVER () FROM r", "Not on the row executor: window functions"),
        ("EXPLAIN SELECT 1 FROM r, m", "Not on the row executor: table public.m, which is no rows table"),
        ("EXPLAIN INSERT INTO r SELECT generate_series(1, 2)", "Not on the row executor: functions of sets"),
    ] {
        assert_eq!(client.table(sql).await.unwrap().last().map(String::as_str), Some(last), "{sql}");
    }
    client.run("SET enable_rows = off").await.unwrap();
    let lines = client.table("EXPLAIN SELECT id FROM r WHERE id = 1").await.unwrap();
    assert_eq!(lines.last().map(String::as_str), Some("Not on the row executor: enable_rows is off"));
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_joined_by_and_or_or_are_limited_outside_of_the_row_executor() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    for sql in [TABLE, "CREATE TABLE r (n int)"] {
        client.run(sql).await.unwrap();
    }
    let query = |table: &str, word: &str, count: i32| {
        let conditions: Vec<String> = (0..count).map(|number| format!("n <> {number}")).collect();
        format!("SELECT count(*) FROM {table} WHERE {}", conditions.join(word))
    };
    for word in [" AND ", " OR "] {
        assert_eq!(client.table(&query("r", word, 5_000)).await.unwrap(), ["0"]);
        assert_eq!(client.table(&query("m", word, 100)).await.unwrap(), ["0"]);
        let error = client.table(&query("m", word, 1_001)).await.unwrap_err();
        assert!(error.starts_with("54001: AND or OR of 1001 conditions"), "{error}");
    }
}
