//! Files in statements: COPY from and to Parquet and Arrow, `read_parquet`, `read_arrow`, and access control.

use std::path::Path;

use futures::StreamExt;
use query::{Outcome, Session};

use crate::client::{Client, Fixture, Storage};

/// A database with a directory for files.
struct Place {
    fixture: Fixture,
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        Place { fixture: Fixture::with_files(Some(dir.path().to_owned())), dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn client(&self) -> Client {
        Client::new(&self.fixture, Storage::Memory)
    }

    /// Names of the files in the directory.
    fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = std::fs::read_dir(self.path()).unwrap().map(name).collect();
        names.sort();
        names
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work)
}

/// Rows of the last statement; panics if a statement fails.
async fn rows(client: &mut Client, statements: &[&str]) -> Vec<String> {
    let mut rows = Vec::new();
    for sql in statements {
        rows = client.table(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    rows
}

async fn error(client: &mut Client, sql: &str) -> String {
    client.table(sql).await.err().unwrap_or_else(|| panic!("{sql} did not fail"))
}

/// All types of a `columns` table, with extreme values, NULLs and nanoseconds.
const WIDE: &[&str] = &[
    "CREATE TABLE wide (time timestamptz NOT NULL, k text, b boolean, i2 smallint, i4 integer, i8 bigint, u numeric(20), \
     f4 real, f8 double precision, t text, y bytea, m timestamptz) WITH (store = 'columns', key = 'k')",
    "INSERT INTO wide VALUES \
     ('2024-01-01 00:00:00.123456789+00', 'a', true, -32768, -2147483648, -9223372036854775808, 18446744073709551615, \
      '-3.4028235e38', '-1.7976931348623157e308', '', '\\x', '1677-09-21 00:12:44+00'), \
     ('2262-04-11 23:47:16.854775807+00', NULL, false, 32767, 2147483647, 9223372036854775807, 0, \
      'NaN', '-0', E'tab\\tline\\nquote\"é', '\\x00ff', '2262-04-11 23:47:16.854775807+00'), \
     ('1969-12-31 23:59:59.999999999+00', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
     ('2024-01-01 00:00:00.123456790+00', 'a', true, 1, 1, 1, 1, 'Infinity', 'NaN', 'x', '\\x78', '1970-01-01 00:00:00+00')",
];

/// Query for all values, timestamps in nanoseconds.
fn all_of(table: &str) -> String {
    format!(
        "SELECT epoch_ns(time), k, b, i2, i4, i8, u, f4, f8, t, encode(y, 'hex'), epoch_ns(m) FROM {table} ORDER BY 1"
    )
}

#[test]
fn all_values_of_columns_tables_come_back_from_all_formats() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        rows(&mut client, WIDE).await;
        let expected = rows(&mut client, &[&all_of("wide")]).await;
        assert_eq!(expected.len(), 4);
        for (at, (file, options)) in [
            ("a.parquet", ""),
            ("b.parquet", "(COMPRESSION snappy)"),
            ("c.parquet", "(COMPRESSION gzip, ROW_GROUP_SIZE 1)"),
            ("d.parquet", "(COMPRESSION lz4)"),
            ("e.parquet", "(COMPRESSION none)"),
            ("f.arrow", ""),
            ("g.arrow", "(COMPRESSION lz4)"),
            ("h.arrows", ""),
        ]
        .into_iter()
        .enumerate()
        {
            let zone = ["UTC", "America/New_York"][at % 2];
            let copy = format!("COPY wide TO '{file}' {options}");
            let make = WIDE[0].replace("TABLE wide", &format!("TABLE w{at}"));
            let load = format!("COPY w{at} FROM '{file}'");
            let set = format!("SET TimeZone = '{zone}'");
            rows(&mut client, &[&set, &copy, &make, &load]).await;
            let all = all_of(&format!("w{at}"));
            assert_eq!(rows(&mut client, &[&all]).await, expected, "{file} {options}");
            let function = if file.ends_with("parquet") { "read_parquet" } else { "read_arrow" };
            let all = all_of(&format!("{function}('{file}')"));
            assert_eq!(rows(&mut client, &[&all]).await, expected, "{function} {file}");
        }
    });
}

#[test]
fn all_values_of_rows_tables_come_back() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        let make = "CREATE TABLE r (id bigint PRIMARY KEY, n numeric(12, 3), d date, t time, ts timestamp, tz timestamptz, \
                    v varchar(10), c char(3), u uuid, j json, y bytea, b boolean, f real)";
        let insert = "INSERT INTO r VALUES (1, -123456789.125, '2024-02-29', '23:59:59.999999', '1999-12-31 23:59:59.5', \
                      '2000-01-01 00:00:00.000001+00', 'abc', 'x', '00112233-4455-6677-8899-aabbccddeeff', '{\"a\": 1}', \
                      '\\x00ff', true, 1.5), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";
        let expected = rows(&mut client, &[make, insert, "SELECT * FROM r ORDER BY id"]).await;
        for file in ["r.parquet", "r.arrow"] {
            let (out, back) = (format!("COPY r TO '{file}'"), format!("COPY r FROM '{file}'"));
            let again = [out.as_str(), "DELETE FROM r", back.as_str(), "SELECT * FROM r ORDER BY id"];
            assert_eq!(rows(&mut client, &again).await, expected, "{file}");
        }
        // COPY is atomic: the second row is a duplicate, so the first is not inserted either.
        rows(&mut client, &["DELETE FROM r WHERE id = 1"]).await;
        let refused = error(&mut client, "COPY r FROM 'r.parquet'").await;
        assert!(refused.starts_with("23505"), "{refused}");
        assert_eq!(rows(&mut client, &["SELECT id FROM r"]).await, ["2"]);
    });
}

/// Sends bytes as a client does, in chunks.
async fn send(session: &mut Session, sql: &str, bytes: &[u8]) -> model::Result<String> {
    let Outcome::CopyIn(mut copy) = run(session, sql).await? else { panic!("{sql} wants no data") };
    for piece in bytes.chunks(1000) {
        copy.data(session, piece).await?;
    }
    copy.done(session).await
}

async fn run(session: &mut Session, sql: &str) -> model::Result<Outcome> {
    let prepared = session.prepare(&query::parse(sql)?[0], &[]).await?;
    session.execute(&prepared, &[]).await
}

async fn taken(session: &mut Session, sql: &str) -> Vec<u8> {
    let Outcome::CopyOut { mut chunks, .. } = run(session, sql).await.unwrap() else { panic!("{sql} gives no data") };
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        bytes.extend(chunk.unwrap().bytes);
    }
    bytes
}

#[test]
fn clients_send_and_are_sent_whole_files_without_a_folder() {
    let fixture = Fixture::new();
    block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        rows(&mut client, WIDE).await;
        let mut session = fixture.database.session("millrace");
        for (at, format) in ["parquet", "arrow", "arrow_stream"].into_iter().enumerate() {
            let bytes = taken(&mut session, &format!("COPY (SELECT * FROM wide) TO STDOUT (FORMAT {format})")).await;
            rows(&mut client, &[&WIDE[0].replace("TABLE wide", &format!("TABLE w{at}"))]).await;
            let copy = format!("COPY w{at} FROM STDIN (FORMAT {format})");
            assert_eq!(send(&mut session, &copy, &bytes).await.unwrap(), "COPY 4", "{format}");
            let different = format!(
                "SELECT epoch_ns(time), k, i8, u, t FROM wide EXCEPT SELECT epoch_ns(time), k, i8, u, t FROM w{at}"
            );
            assert_eq!(rows(&mut client, &[&different]).await, [""; 0], "{format}");
            // Truncated, empty, or of another format.
            for wrong in [&bytes[..bytes.len() / 2], b"", b"time,k\n2024-01-01,a\n"] {
                let refused = send(&mut session, &copy, wrong).await.unwrap_err();
                assert_eq!(refused.state().0, "22P04", "{format}: {refused}");
                session.reset();
            }
            let count = format!("SELECT count(*) FROM w{at}");
            assert_eq!(rows(&mut client, &[&count]).await, ["4"], "{format}");
        }
        let spilled = fixture.database.engine().spill_dir();
        let left = std::fs::read_dir(spilled)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("copy-"));
        assert_eq!(left.count(), 0);
    });
}

#[test]
fn conditions_skip_row_groups_and_change_no_answer() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        let make = "COPY (SELECT n, n * 0.5 AS half, 'k' || n AS k, to_timestamp(n) AS t, \
                    CASE WHEN n % 100 = 7 THEN NULL ELSE n END AS maybe, \
                    CASE WHEN n = 150 THEN 'NaN'::float8 ELSE n::float8 END AS f \
                    FROM generate_series(1, 1000) AS s(n)) TO 'n.parquet' (ROW_GROUP_SIZE 100)";
        rows(&mut client, &[make]).await;
        for (condition, pruned) in [
            ("n < 150", 8),
            ("n BETWEEN 450 AND 460", 9),
            ("n = 1001", 10),
            ("n IN (1, 1000)", 8),
            ("k = 'k77'", 7),
            ("t < '1970-01-01 00:03:00+00'", 8),
            ("maybe IS NULL", 0),
            ("n IS NULL", 10),
            ("f < 50", 9),
            // NaN is greater than all numbers, and statistics do not include it.
            ("f > 990", 0),
            ("n % 2 = 0 AND n > 900", 9),
            ("n < 150 OR n > 950", 7),
        ] {
            let explain = format!("EXPLAIN SELECT n FROM read_parquet('n.parquet') WHERE {condition}");
            let plan = rows(&mut client, &[&explain]).await.join("\n");
            assert!(plan.contains(&format!("row groups=10 pruned={pruned}")), "{condition}: {plan}");
            let asked = format!("SELECT count(*), sum(n) FROM read_parquet('n.parquet') WHERE {condition}");
            // LIMIT prevents filter push-down.
            let all = format!(
                "SELECT count(*), sum(n) FROM (SELECT * FROM read_parquet('n.parquet') LIMIT 1000000) AS q WHERE {condition}"
            );
            assert_eq!(rows(&mut client, &[&asked]).await, rows(&mut client, &[&all]).await, "{condition}");
        }
        let explain = "EXPLAIN SELECT k FROM read_parquet('n.parquet') LIMIT 5";
        let plan = rows(&mut client, &[explain]).await.join("\n");
        assert!(plan.contains("columns=[k], limit=5"), "{plan}");
        assert_eq!(rows(&mut client, &["SELECT count(*) FROM read_parquet('n.parquet')"]).await, ["1000"]);
        let explain = rows(&mut client, &["EXPLAIN SELECT count(*) FROM read_parquet('n.parquet')"]).await.join("\n");
        assert!(!explain.contains("FilesScan"), "counting reads the end of the file only: {explain}");
    });
}

#[test]
fn several_files_are_one_table_if_their_columns_agree() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        std::fs::create_dir(place.path().join("2024")).unwrap();
        let out = [
            "COPY (SELECT 1::smallint AS a, 'x' AS b) TO '2024/1.parquet'",
            "COPY (SELECT 'y' AS b, 2::smallint AS a, true AS c) TO '2024/2.parquet'",
            "COPY (SELECT 3::int AS a, 'z' AS b) TO '3.parquet'",
            "COPY (SELECT 4::int AS a) TO '4.parquet'",
        ];
        rows(&mut client, &out).await;
        for (files, expected) in [
            ("'2024/*.parquet'", "1|x 2|y"),
            ("'2024/2.parquet', '2024/1.parquet'", "2|y|t 1|x"),
            ("ARRAY['2024/1.parquet', '2024/2.parquet']", "1|x 2|y"),
            ("'**/[12].parquet'", "1|x 2|y"),
        ] {
            let sql = format!("SELECT a, b FROM read_parquet({files})");
            if files.starts_with("'2024/2") {
                let refused = error(&mut client, &sql).await;
                let expected = "42703: file \"2024/1.parquet\" has no column \"c\", which the first file has";
                assert!(refused.starts_with(expected), "{refused}");
                continue;
            }
            assert_eq!(rows(&mut client, &[&sql]).await.join(" "), expected, "{files}");
        }
        for (files, expected) in [
            (
                "'2024/1.parquet', '3.parquet'",
                "42804: column \"a\" of file \"3.parquet\" is integer, but in the first file it is smallint",
            ),
            ("'*.parquet'", "42703: file \"4.parquet\" has no column \"b\""),
            ("'none.parquet'", "58P01: could not open file \"none.parquet\" for reading: No such file or directory"),
            ("'none/*.parquet'", "58P01: no file matches \"none/*.parquet\""),
            ("'/etc/passwd'", "42501: "),
            ("'../x.parquet'", "42501: "),
            ("", "22023: "),
            ("5", "22023: "),
        ] {
            let refused = error(&mut client, &format!("SELECT a FROM read_parquet({files})")).await;
            assert!(refused.starts_with(expected), "{files}: {refused}");
        }
        rows(&mut client, &["CREATE TABLE ab (a int, b text)", "COPY ab FROM '2024/*.parquet' (FORMAT parquet)"]).await;
        assert_eq!(rows(&mut client, &["SELECT a, b FROM ab ORDER BY a"]).await, ["1|x", "2|y"]);
    });
}

#[test]
fn without_a_folder_no_file_is_touched() {
    let fixture = Fixture::new();
    block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        rows(&mut client, &["CREATE TABLE t (a int)"]).await;
        for sql in [
            "COPY t TO '/tmp/x.parquet'",
            "COPY t FROM '/etc/passwd'",
            "COPY (SELECT 1) TO '/tmp/x.csv' CSV",
            "SELECT * FROM read_parquet('/tmp/x.parquet')",
            "SELECT * FROM read_arrow('/tmp/x.arrow')",
        ] {
            let refused = error(&mut client, sql).await;
            assert!(refused.starts_with("42501: this server reads and writes no files"), "{sql}: {refused}");
        }
        let hidden = error(&mut client, "SELECT * FROM \"source of copy\"()").await;
        assert!(hidden.starts_with("42883"), "{hidden}");
    });
}

#[test]
fn a_failed_copy_leaves_no_file_and_no_row() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        std::fs::write(place.path().join("old.csv"), "old").unwrap();
        for file in ["x.parquet", "x.arrow", "x.csv", "old.csv"] {
            let sql = format!("COPY (SELECT 10 / (50000 - n) FROM generate_series(1, 100000) AS s(n)) TO '{file}'");
            let refused = error(&mut client, &sql).await;
            assert!(refused.starts_with("22012"), "{file}: {refused}");
            assert_eq!(place.names(), ["old.csv"], "{file}");
        }
        assert_eq!(std::fs::read(place.path().join("old.csv")).unwrap(), b"old");
        for (sql, expected) in [
            ("COPY (SELECT interval '1 day' AS i) TO 'x.parquet'", "0A000: column \"i\" is of type interval"),
            ("COPY (SELECT 1 AS a, 2 AS a) TO 'x.parquet'", "42701: column \"a\" specified more than once"),
            ("COPY (SELECT 1) TO 'none/x.parquet'", "58P01: "),
            ("COPY (SELECT 1) TO '../x.parquet'", "42501: "),
            ("COPY nothing TO 'x.parquet'", "42P01: "),
        ] {
            let refused = error(&mut client, sql).await;
            assert!(refused.starts_with(expected), "{sql}: {refused}");
        }
        let make = "CREATE TABLE c (time timestamptz NOT NULL, k text, v int) WITH (store = 'columns', key = 'k')";
        let source = "COPY (SELECT to_timestamp(n) AS time, 'k' AS k, CASE WHEN n = 20000 THEN 3000000000 ELSE n END AS v \
                      FROM generate_series(1, 20000) AS s(n)) TO 'big.parquet'";
        let other = "COPY (SELECT true AS time, 'k' AS k) TO 'bool.parquet'";
        let more = "COPY (SELECT now() AS time, 'k' AS k, 1 AS v, 2 AS w) TO 'more.parquet'";
        rows(&mut client, &[make, source, other, more]).await;
        for (sql, expected) in [
            ("COPY c FROM 'big.parquet'", "22003"),
            (
                "COPY c FROM 'bool.parquet'",
                "42804: column \"time\" is of type timestamp with time zone but expression is of type boolean",
            ),
            ("COPY c FROM 'more.parquet'", "42703: column \"w\" of relation c does not exist"),
            ("COPY c (time, nothing) FROM 'more.parquet'", "42703: column \"nothing\" is not in the file"),
            ("COPY c (k, v) FROM 'more.parquet'", "23502"),
            ("COPY c FROM 'big.parquet' (FORMAT arrow)", "22P04"),
        ] {
            let refused = error(&mut client, sql).await;
            assert!(refused.starts_with(expected), "{sql}: {refused}");
            assert_eq!(rows(&mut client, &["SELECT count(*) FROM c"]).await, ["0"], "{sql}");
        }
        rows(&mut client, &["COPY c (time, k, v) FROM 'more.parquet'"]).await;
        assert_eq!(rows(&mut client, &["SELECT k, v FROM c"]).await, ["k|1"]);
    });
}

#[test]
fn text_csv_and_binary_go_to_files_of_the_server_too() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        let make = ["CREATE TABLE a (n int, t text)", "CREATE TABLE b (n int, t text)"];
        rows(&mut client, &make).await;
        rows(&mut client, &["INSERT INTO a SELECT n, 'x' || n FROM generate_series(1, 50000) AS s(n)"]).await;
        for options in ["(FORMAT text)", "(FORMAT csv, HEADER)", "(FORMAT binary)"] {
            let (out, back) = (format!("COPY a TO 'a' {options}"), format!("COPY b FROM 'a' {options}"));
            rows(&mut client, &[&out, "TRUNCATE b", &back]).await;
            let same = "SELECT count(*), sum(n), min(t), max(t) FROM b";
            let expected = rows(&mut client, &[&same.replace("FROM b", "FROM a")]).await;
            assert_eq!(rows(&mut client, &[same]).await, expected, "{options}");
        }
        assert_eq!(place.names(), ["a"]);
    });
}

/// Reading an arbitrarily damaged file returns rows or an error.
#[test]
fn damaged_files_give_errors_and_no_panics() {
    let place = Place::new();
    block_on(async {
        let mut client = place.client();
        let make =
            "SELECT n, 'text' || n % 7 AS t, n * 0.25 AS d, ARRAY[n, NULL] AS l FROM generate_series(1, 300) AS s(n)";
        for (file, function, options) in [
            ("whole.parquet", "read_parquet", "(ROW_GROUP_SIZE 100, COMPRESSION none)"),
            ("whole.arrow", "read_arrow", "(FORMAT arrow)"),
            ("whole.arrows", "read_arrow", "(FORMAT arrow_stream)"),
        ] {
            rows(&mut client, &[&format!("COPY ({make}) TO '{file}' {options}")]).await;
            let whole = std::fs::read(place.path().join(file)).unwrap();
            let read = format!("SELECT count(t), sum(d), count(l) FROM {function}('damaged')");
            let step = (whole.len() / 50).max(1);
            for at in (0..whole.len()).step_by(step).chain(whole.len() - 20..whole.len()) {
                for change in [0xff_u8, 0x01] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= change;
                    std::fs::write(place.path().join("damaged"), &bytes).unwrap();
                    if let Err(error) = client.table(&read).await {
                        let state = error.split(':').next().unwrap();
                        assert!(
                            ["22P04", "22021", "22003", "22008", "42703", "42702", "42883", "42804"].contains(&state),
                            "byte {at}: {error}"
                        );
                    }
                }
                std::fs::write(place.path().join("damaged"), &whole[..at]).unwrap();
                let cut = client.table(&read).await;
                assert!(cut.is_err() || file.ends_with("arrows"), "{file} cut at {at}: {cut:?}");
            }
        }
    });
}

#[test]
fn a_running_copy_shows_how_far_it_is() {
    let fixture = Fixture::new();
    block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        rows(&mut client, &["CREATE TABLE t (a int)"]).await;
        let mut session = fixture.database.session("millrace");
        let look = "SELECT command, type, bytes_processed, tuples_processed FROM pg_stat_progress_copy";
        let Outcome::CopyIn(mut copy) = run(&mut session, "COPY t FROM STDIN").await.unwrap() else { panic!() };
        copy.data(&mut session, b"1\n2\n3\n").await.unwrap();
        assert_eq!(rows(&mut client, &[look]).await, ["COPY FROM|PIPE|6|3"]);
        copy.done(&mut session).await.unwrap();
        assert_eq!(rows(&mut client, &[look]).await, [""; 0]);
        let Outcome::CopyOut { mut chunks, .. } = run(&mut session, "COPY t TO STDOUT").await.unwrap() else {
            panic!()
        };
        chunks.next().await.unwrap().unwrap();
        assert_eq!(rows(&mut client, &[look]).await, ["COPY TO|PIPE|6|3"]);
        drop(chunks);
        assert_eq!(rows(&mut client, &[look]).await, [""; 0]);
    });
}
