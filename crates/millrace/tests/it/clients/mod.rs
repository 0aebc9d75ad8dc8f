//! Real clients with default settings: psql, psycopg 3, SQLAlchemy, Django, pgjdbc, tokio-postgres; in `oltp`
//! transaction benchmarks, in `flight` ADBC and pyarrow.

mod catalog;
mod flight;
mod oltp;

use std::path::PathBuf;
use std::process::{Command, Output};

use futures::{SinkExt, TryStreamExt};
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{IsolationLevel, NoTls};

use crate::server::{Server, folder};

/// Path of a tool installed by `cargo xtask tools`: from the environment variable, else its default place.
pub(crate) fn tool(variable: &str, default: &str) -> PathBuf {
    let found = std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        cache.unwrap_or_default().join("millrace/tools").join(default)
    });
    assert!(found.exists(), "{} is missing; fetch it: cargo xtask tools", found.display());
    found
}

/// PostgreSQL's JDBC driver.
pub(crate) fn pgjdbc() -> PathBuf {
    tool("MILLRACE_TEST_PGJDBC", "postgresql-42.7.4.jar")
}

pub(crate) fn printed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

fn psql(server: &Server, arguments: &[&str]) -> Output {
    let (host, port) = server.pg_host_port();
    let mut command = Command::new("psql");
    command.args(["-X", "-h", host, "-p", port, "-U", "millrace", "-v", "ON_ERROR_STOP=1", "millrace"]).args(arguments);
    command.env("PGCONNECT_TIMEOUT", "10").env_remove("PGOPTIONS").env("PAGER", "cat");
    command.output().unwrap_or_else(|error| panic!("psql: {error}; fetch it: cargo xtask tools"))
}

fn with_table(server: &Server) {
    server.sql(
        "CREATE TABLE readings (time timestamptz NOT NULL, device text, value float8, count bigint, ok boolean, note text) \
         WITH (store = 'columns', key = 'device')",
    );
}

#[test]
fn psql_describes_tables_and_copies_files() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    with_table(&server);
    let file = folder.path().join("in.csv");
    std::fs::write(&file, "2026-01-01 00:00:00+00,a,1.5,1,t,x\n2026-01-01 00:00:01+00,b,,2,f,\"y, z\"\n").unwrap();
    let copy = format!("\\copy readings FROM '{}' WITH (FORMAT csv)", file.display());
    let back = folder.path().join("out.csv");
    let copy_back = format!("\\copy readings TO '{}' WITH (FORMAT csv)", back.display());
    let cases: [(&str, &[&str]); 9] = [
        ("\\dt", &["public", "readings", "table", "millrace", "(1 row)"]),
        ("\\d", &["public", "readings"]),
        ("\\d readings", &["Table \"public.readings\"", "timestamp with time zone", "not null", "double precision"]),
        ("\\l", &["millrace", "UTF8"]),
        ("\\dn", &["public"]),
        ("\\du", &["millrace"]),
        (&copy, &["COPY 2"]),
        ("SELECT device, value, note FROM readings ORDER BY device", &["a      |   1.5 | x", "y, z", "(2 rows)"]),
        (&copy_back, &["COPY 2"]),
    ];
    for (command, expected) in cases {
        let output = psql(&server, &["-c", command]);
        let text = printed(&output);
        assert!(output.status.success(), "{command}: {text}");
        for part in expected {
            assert!(text.contains(part), "{command}: no {part:?} in\n{text}");
        }
    }
    assert_eq!(std::fs::read_to_string(&back).unwrap(), std::fs::read_to_string(&file).unwrap());
    // With FETCH_COUNT psql uses a cursor.
    let output = psql(&server, &["-v", "FETCH_COUNT=7", "-Atc", "SELECT n FROM generate_series(2 * 5, 29) AS g(n)"]);
    let expected: String = (10..30).map(|n| format!("{n}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", printed(&output));
    server.stop();
}

#[test]
fn psql_shows_the_position_of_an_error_and_continues() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let output = psql(&server, &["-v", "ON_ERROR_STOP=0", "-c", "SELECT x FROM nowhere", "-c", "SELECT 41 + 1 AS n"]);
    let text = printed(&output);
    assert!(text.contains("relation \"nowhere\" does not exist"), "{text}");
    assert!(text.contains("LINE 1: SELECT x FROM nowhere\n                      ^"), "{text}");
    assert!(text.contains("42"), "{text}");
    server.stop();
}

/// Runs a Python program that prints a closing line on success.
fn python(script: &str) {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let python = tool("MILLRACE_TEST_PYTHON", "python/bin/python");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(format!("{script}_client.py"));
    let output = Command::new(python).arg(path).arg(server.url()).arg(&server.flight).output().unwrap();
    let text = printed(&output);
    assert!(
        output.status.success() && text.contains(&format!("{script}: all passed")),
        "{text}\nserver log:\n{}",
        server.log_text()
    );
    server.stop();
}

#[test]
fn psycopg_3_connects_prepares_fetches_and_copies() {
    python("psycopg");
}

#[test]
fn sqlalchemy_maps_classes_and_reflects_tables() {
    python("sqlalchemy");
}

#[test]
fn django_migrates_and_queries() {
    python("django");
}

#[test]
fn duckdb_and_pyarrow_read_our_files_and_we_read_theirs() {
    let (folder, data) = folder();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let server = Server::start_with(&data, |command| _ = command.arg("--files").arg(&files));
    let python = tool("MILLRACE_TEST_PYTHON", "python/bin/python");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/files_client.py");
    let output = Command::new(python).arg(path).arg(server.url()).arg(&files).output().unwrap();
    let text = printed(&output);
    let is_through = output.status.success() && text.contains("files: all passed");
    assert!(is_through, "{text}\nserver log:\n{}", server.log_text());
    server.stop();
}

#[test]
fn psql_redirects_a_table_into_a_parquet_file_and_back() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    with_table(&server);
    server.sql("INSERT INTO readings VALUES ('2026-01-01 00:00:00+00', 'a', 1.5, 1, true, 'x')");
    let file = folder.path().join("t.parquet");
    let output = psql(&server, &["-c", "COPY readings TO STDOUT (FORMAT parquet)"]);
    assert!(output.status.success() && output.stdout.starts_with(b"PAR1"), "{}", printed(&output));
    std::fs::write(&file, &output.stdout).unwrap();
    server.sql("DELETE FROM readings");
    let copy = format!("\\copy readings from '{}' with (format parquet)", file.display());
    let output = psql(&server, &["-c", &copy, "-Atc", "SELECT * FROM readings"]);
    let text = printed(&output);
    assert!(text.contains("COPY 1\n2026-01-01 00:00:00+00|a|1.5|1|t|x\n"), "{text}");
    let refused = psql(&server, &["-c", "COPY readings TO 'x.parquet'"]);
    let text = printed(&refused);
    assert!(!refused.status.success() && text.contains("HINT:  start it with --files DIR"), "{text}");
    server.stop();
}

/// Runs a Java program that prints a closing line on success.
fn java(class: &str, closing: &str) {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let driver = pgjdbc();
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(format!("{class}.java"));
    // `java` compiles a source file in memory.
    let mut java = Command::new("java");
    java.arg("-cp").arg(driver).arg(program).arg(format!("jdbc:postgresql://{}/millrace", server.pg));
    let output = java.output().unwrap_or_else(|error| panic!("java: {error}; fetch it: cargo xtask tools"));
    let text = printed(&output);
    assert!(output.status.success() && text.contains(closing), "{text}\nserver log:\n{}", server.log_text());
    server.stop();
}

#[test]
fn pgjdbc_connects_prepares_fetches_and_reads_metadata() {
    java("JdbcClient", "pgjdbc: all passed");
}

#[test]
fn pgjdbc_behaves_on_rows_tables_as_on_postgresql() {
    java("JdbcRows", "rows over pgjdbc: all passed");
}

#[test]
fn transactions_over_pgjdbc_leave_tpccs_conditions_true() {
    java("JdbcTpcc", "tpcc over pgjdbc: all passed");
}

#[test]
fn tokio_postgres_connects_prepares_fetches_and_copies() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    with_table(&server);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (mut client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        prepared_statements(&mut client).await;
        isolation(&mut client, &server.url()).await;
        copy_binary(&client).await;
        cancelled(&client).await;
    });
    server.stop();
}

async fn prepared_statements(client: &mut tokio_postgres::Client) {
    let insert = "INSERT INTO readings (time, device, value, count, ok) VALUES (to_timestamp($1), $2, $3, $4, $5)";
    let insert = client.prepare(insert).await.unwrap();
    assert_eq!(insert.params(), [Type::FLOAT8, Type::TEXT, Type::FLOAT8, Type::INT8, Type::BOOL]);
    for n in 0..10_i64 {
        let value = (n % 2 == 0).then_some(n as f64 / 4.0);
        let rows = client.execute(&insert, &[&(n as f64), &"a", &value, &n, &(n % 3 == 0)]).await.unwrap();
        assert_eq!(rows, 1);
    }
    let select =
        client.prepare("SELECT count, value, ok FROM readings WHERE device = $1 AND count >= $2 ORDER BY count");
    let select = select.await.unwrap();
    let names: Vec<_> = select.columns().iter().map(|column| (column.name(), column.type_().clone())).collect();
    assert_eq!(names, [("count", Type::INT8), ("value", Type::FLOAT8), ("ok", Type::BOOL)]);
    let rows = client.query(&select, &[&"a", &8_i64]).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, [(8_i64, Some(2.0), false), (9, None::<f64>, true)]);
    // A portal read in several pieces.
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT count FROM readings ORDER BY count", &[]).await.unwrap();
    let mut pieces = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 4).await.unwrap();
        if rows.is_empty() {
            break;
        }
        pieces.push(rows.len());
    }
    assert_eq!(pieces, [4, 4, 2]);
    transaction.rollback().await.unwrap();
}

/// A parameter in text format.
#[derive(Debug)]
struct Written(&'static str);

impl ToSql for Written {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// The binary format of a value.
#[derive(Debug, PartialEq)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[tokio::test]
async fn binary_format_does_not_depend_on_the_styles_of_the_session() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    for store in ["rows", "columns"] {
        let create = format!(
            "CREATE TABLE {store} (time timestamptz, d date, span interval, number float8, bytes bytea, days date[])
             WITH (store = '{store}')"
        );
        client.batch_execute(&create).await.unwrap();
        let insert = format!(
            "INSERT INTO {store} VALUES ('2024-03-02 01:02:03.5Z', '2024-03-02', '1 mon -3 days 04:05', 0.1 + 0.2, '\\x00ff',
             '{{2024-03-02,2024-04-05}}')"
        );
        client.batch_execute(&insert).await.unwrap();
        let usual = binary(&client, store).await;
        let styles = "SET datestyle = 'SQL, DMY'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'escape';
                      SET extra_float_digits = -3; SET timezone = 'Asia/Tokyo'";
        client.batch_execute(styles).await.unwrap();
        assert_eq!(binary(&client, store).await, usual, "{store}");
        client.batch_execute("RESET ALL").await.unwrap();
    }
    server.stop();
}

/// A row of a table, of a query over it that another executor may run, and its copy, in binary format.
async fn binary(client: &tokio_postgres::Client, table: &str) -> (Vec<Raw>, Vec<Raw>, Vec<u8>) {
    let row = client.query_one(&format!("SELECT * FROM {table}"), &[]).await.unwrap();
    let values = (0..row.len()).map(|at| row.get(at)).collect();
    let maxima = format!("SELECT max(time), max(d), max(span), max(number), count(*) OVER () FROM {table}");
    let row = client.query_one(&maxima, &[]).await.unwrap();
    let maxima = (0..row.len()).map(|at| row.get(at)).collect();
    let copy = client.copy_out(&format!("COPY {table} TO STDOUT (FORMAT binary)")).await.unwrap();
    let copy: Vec<bytes::Bytes> = copy.try_collect().await.unwrap();
    (values, maxima, copy.concat())
}

#[tokio::test]
async fn tokio_postgres_binds_names_of_objects_and_texts_in_the_styles_of_the_session() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let (mut client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE t (r regclass, d date[], o oid)").await.unwrap();
    let number: u32 = client.query_one("SELECT 't'::regclass::oid", &[]).await.unwrap().get(0);
    let cast = client.query_one("SELECT $1::regclass::oid", &[&Written("t")]).await.unwrap();
    assert_eq!(cast.get::<_, u32>(0), number);
    client.batch_execute("SET datestyle = 'SQL, DMY'; SET timezone = 'Europe/Berlin'").await.unwrap();
    let insert = "INSERT INTO t VALUES ($1, $2, $3) RETURNING r, d, o";
    let row = client.query_one(insert, &[&Written("t"), &Written("{02/03/2024}"), &7_u32]).await.unwrap();
    assert_eq!(row.get::<_, Raw>(0), Raw(number.to_be_bytes().to_vec()));
    // Days since 2000 of 2024-03-02.
    assert!(row.get::<_, Raw>(1).0.ends_with(&8_827_i32.to_be_bytes()));
    assert_eq!(row.get::<_, u32>(2), 7);
    let transaction = client.transaction().await.unwrap();
    let query = "SELECT d, r FROM t WHERE o = $1";
    let portal = transaction.bind(query, &[&7_u32]).await.unwrap();
    let rows = transaction.query_portal(&portal, 1).await.unwrap();
    assert!(rows[0].get::<_, Raw>(0).0.ends_with(&8_827_i32.to_be_bytes()));
    assert_eq!(rows[0].get::<_, Raw>(1), Raw(number.to_be_bytes().to_vec()));
    // DataFusion runs these.
    let query = "SELECT $1::money, $2::inet[], $3::regclass[], count(*) OVER ()";
    let parameters: [&(dyn ToSql + Sync); 3] =
        [&Written("1.25"), &Written("{10.0.0.1,NULL}"), &Written("{t,pg_class}")];
    let row = transaction.query_one(query, &parameters).await.unwrap();
    assert_eq!(row.get::<_, Raw>(0), Raw(125_i64.to_be_bytes().to_vec()));
    assert!(row.get::<_, Raw>(1).0.ends_with(&[4, 10, 0, 0, 1, 255, 255, 255, 255]));
    assert!(row.get::<_, Raw>(2).0.ends_with(&1_259_u32.to_be_bytes()));
    transaction.rollback().await.unwrap();
    server.stop();
}

async fn isolation(client: &mut tokio_postgres::Client, url: &str) {
    let (other, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = "SELECT count(*) FROM readings";
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
        let before: i64 = transaction.query_one(count, &[]).await.unwrap().get(0);
        let insert = format!("INSERT INTO readings (time, device) VALUES ('2026-01-01', 'z{before}')");
        other.batch_execute(&insert).await.unwrap();
        let during: i64 = transaction.query_one(count, &[]).await.unwrap().get(0);
        transaction.commit().await.unwrap();
        let after: i64 = client.query_one(count, &[]).await.unwrap().get(0);
        assert_eq!((during, after), (before, before + 1));
    }
}

async fn copy_binary(client: &tokio_postgres::Client) {
    let sink = client.copy_in("COPY readings (time, device, value) FROM STDIN (FORMAT binary)").await.unwrap();
    let writer =
        tokio_postgres::binary_copy::BinaryCopyInWriter::new(sink, &[Type::TIMESTAMPTZ, Type::TEXT, Type::FLOAT8]);
    futures::pin_mut!(writer);
    for n in 0..1_000_u64 {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_micros(n);
        writer.as_mut().write(&[&time, &"binary", &(n as f64)]).await.unwrap();
    }
    assert_eq!(writer.finish().await.unwrap(), 1_000);
    let row = client.query_one("SELECT count(*), sum(value), max(time) FROM readings WHERE device = 'binary'", &[]);
    let row = row.await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>(1)), (1_000, 499_500.0));
    assert_eq!(row.get::<_, std::time::SystemTime>(2), std::time::UNIX_EPOCH + std::time::Duration::from_micros(999));
    // An aborted COPY stores nothing.
    let sink = client.copy_in::<_, bytes::Bytes>("COPY readings (time, device) FROM STDIN").await.unwrap();
    futures::pin_mut!(sink);
    sink.send(bytes::Bytes::from("2026-01-01\tbroken\n")).await.unwrap();
    sink.send(bytes::Bytes::from("no time\tbroken\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap_err().code().map(|code| code.code()), Some("22007"));
    let broken = client.query_one("SELECT count(*) FROM readings WHERE device = 'broken'", &[]).await.unwrap();
    assert_eq!(broken.get::<_, i64>(0), 0);
}

async fn cancelled(client: &tokio_postgres::Client) {
    let token = client.cancel_token();
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        token.cancel_query(NoTls).await
    });
    let long =
        "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 100000) b(y) WHERE x * y % 7 = 3";
    let error = client.simple_query(long).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{error}");
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
}
