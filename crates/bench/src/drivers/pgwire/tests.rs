//! Messages, errors and answers, from bytes and from a private server.

use std::net::TcpListener;

use proptest::prelude::*;

use super::*;
use crate::drivers::copy;
use crate::peers::{self, Options, Product, Server};

const TIMEOUT: Duration = Duration::from_secs(20);

fn login(address: &str) -> Login {
    Login {
        address: address.to_owned(),
        network_of: None,
        user: "postgres".to_owned(),
        password: None,
        database: "postgres".to_owned(),
        parameters: Vec::new(),
    }
}

fn postgres() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("directory");
    let options = Options { memory_mib: Some(32), ..Options::default() };
    let server = peers::start(Product::Postgres, dir.path(), options).expect("PostgreSQL");
    (dir, server)
}

/// Columns of a row as text, `-` for null.
fn texts(row: Row) -> Vec<String> {
    let mut row = row;
    let mut texts = Vec::new();
    while !row.is_empty() {
        let column = row.column().expect("whole");
        texts.push(column.map_or("-".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned()));
    }
    texts
}

fn all_texts(pg: &Pg, result: usize) -> Vec<Vec<String>> {
    pg.rows(result).map(texts).collect()
}

#[test]
fn texts_parameters_pipelines_and_copies_work_on_a_private_server() {
    let (_dir, server) = postgres();
    let mut pg = Pg::new(login(&server.address("pg").expect("port")));
    pg.open().expect("connects");
    assert!(pg.setting("server_version").expect("reported").starts_with("15"), "{:?}", pg.setting("server_version"));
    texts_of_several_statements(&mut pg);
    parameters_of_every_type(&mut pg);
    pipelines(&mut pg);
    copies(&mut pg);
    answers_longer_than_any_buffer(&mut pg);
    more_statements_than_are_kept(&mut pg);
}

fn texts_of_several_statements(pg: &mut Pg) {
    let sql = "DO $$ BEGIN RAISE NOTICE 'not asked for'; END $$; SELECT 1 AS a, NULL AS b UNION ALL SELECT 2, 'x'; SELECT 'z'";
    pg.simple(sql, TIMEOUT).expect("valid");
    assert_eq!(pg.results(), 3);
    assert_eq!((pg.row_count(0), pg.row_count(1), pg.row_count(2)), (0, 2, 1));
    assert_eq!(all_texts(pg, 1), [["1", "-"], ["2", "x"]]);
    assert_eq!(pg.columns(1).expect("described").as_ref(), [oid::INT4, oid::TEXT]);
    assert_eq!(pg.affected(1), 2);
    let error = pg.simple("SELECT 1; SELECT 1 / 0; SELECT 2", TIMEOUT).expect_err("divides by zero");
    assert_eq!((error.class, pg.sqlstate()), (Class::Refused, b"22012"), "{error}");
    pg.simple("SELECT 3", TIMEOUT).expect("still usable");
    assert_eq!((all_texts(pg, 0), pg.sqlstate()), (vec![vec!["3".to_owned()]], b"00000"));
    let error = pg.simple("COPY pg_class FROM STDIN", TIMEOUT).expect_err("without data");
    assert!(error.message.contains("no data") || error.class == Class::Refused, "{error}");
    pg.simple("SELECT 4", TIMEOUT).expect("still usable");
}

fn parameters_of_every_type(pg: &mut Pg) {
    let sql = "SELECT $1 + 1, $2 * 2, $3 || '!', $4, cardinality($5), $5[2]";
    let types = [oid::INT8, oid::FLOAT8, oid::TEXT, oid::TIMESTAMPTZ, oid::TEXT_ARRAY];
    for round in 0..3 {
        let statement = pg.prepare(sql, &types);
        pg.begin().expect("connected");
        pg.bind(statement, Format::Text, |values| {
            values.int8(41);
            values.float8(1.25);
            values.text("hé");
            values.int8(1_000_000);
            values.texts(["a", "b"].into_iter());
        });
        pg.finish(TIMEOUT).expect("valid");
        let time = "2000-01-01 00:00:01+00";
        assert_eq!(all_texts(pg, 0), [["42", "2.5", "hé!", time, "2", "b"]], "round {round}");
    }
    assert_eq!(pg.statements.len(), 1, "one text is one statement");
    let exact = pg.prepare("SELECT $1::text, $2 + 1, $3[2]", &[oid::NUMERIC, oid::INT4, oid::INT4_ARRAY]);
    let amounts = [
        (0, "0.00"),
        (5, "0.05"),
        (-99, "-0.99"),
        (100, "1.00"),
        (1_000_000, "10000.00"),
        (-12_345_678_901, "-123456789.01"),
        (i64::MAX, "92233720368547758.07"),
    ];
    for (hundredths, text) in amounts {
        pg.begin().expect("connected");
        pg.bind(exact, Format::Text, |values| {
            values.hundredths(hundredths);
            values.int4(-8);
            values.int4s(&[1, -2, 3]);
        });
        pg.finish(TIMEOUT).expect("valid");
        assert_eq!(all_texts(pg, 0), [[text, "-7", "-2"]]);
    }
    let none = pg.prepare("SELECT cardinality($1)", &[oid::TEXT_ARRAY]);
    pg.begin().expect("connected");
    pg.bind(none, Format::Binary, |values| values.texts([].into_iter()));
    pg.finish(TIMEOUT).expect("valid");
    assert_eq!(pg.rows(0).next().expect("a row").column().expect("whole"), Some(&[0, 0, 0, 0][..]));
    assert_eq!(pg.columns(0).expect("described").as_ref(), [oid::INT4]);
}

fn pipelines(pg: &mut Pg) {
    pg.simple("CREATE TABLE numbers (n bigint PRIMARY KEY)", TIMEOUT).expect("valid");
    let insert = pg.prepare("INSERT INTO numbers VALUES ($1)", &[oid::INT8]);
    let count = pg.prepare("SELECT count(*) FROM numbers", &[]);
    pg.begin().expect("connected");
    for n in 0..3 {
        pg.bind(insert, Format::Binary, |values| values.int8(n));
    }
    pg.bind(count, Format::Text, |_| {});
    pg.finish(TIMEOUT).expect("valid");
    assert_eq!((pg.results(), pg.affected(2), all_texts(pg, 3)), (4, 1, vec![vec!["3".to_owned()]]));
    pg.begin().expect("connected");
    pg.bind(insert, Format::Binary, |values| values.int8(7));
    pg.bind(insert, Format::Binary, |values| values.int8(1));
    pg.bind(insert, Format::Binary, |values| values.int8(8));
    let error = pg.finish(TIMEOUT).expect_err("1 is there");
    assert_eq!((error.class, pg.sqlstate(), pg.results()), (Class::Refused, b"23505", 1), "{error}");
    pg.begin().expect("connected");
    pg.bind(count, Format::Text, |_| {});
    pg.finish(TIMEOUT).expect("still usable");
    assert_eq!(all_texts(pg, 0), [["3"]], "the failed request was one transaction");
}

/// Rows (time, device, value) in binary COPY format.
fn copy_rows(values: &[i64], out: &mut Vec<u8>) {
    out.extend_from_slice(copy::HEADER);
    for value in values {
        out.extend_from_slice(&[0, 1, 0, 0, 0, 8]);
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.extend_from_slice(&copy::TRAILER);
}

fn copies(pg: &mut Pg) {
    let mut buffer = Vec::new();
    let mut copy = |pg: &mut Pg, table: &str, values: &[i64]| {
        buffer.clear();
        push_copy(&format!("COPY {table} FROM STDIN (FORMAT binary)"), |out| copy_rows(values, out), &mut buffer);
        pg.send(&buffer, 1, TIMEOUT)
    };
    let many: Vec<i64> = (100..200_100).collect();
    copy(pg, "numbers", &many).expect("valid");
    assert_eq!(pg.affected(0), many.len() as u64);
    let error = copy(pg, "numbers", &many).expect_err("all are there");
    assert_eq!((error.class, pg.sqlstate()), (Class::Refused, b"23505"), "{error}");
    let error = copy(pg, "no_such_table", &many).expect_err("no such table");
    assert_eq!((error.class, pg.sqlstate()), (Class::Refused, b"42P01"), "{error}");
    copy(pg, "numbers", &[-1]).expect("still usable");
    let mut buffer = Vec::new();
    push_query("BEGIN", &mut buffer);
    for value in [-2, -3] {
        let sql = "COPY numbers FROM STDIN (FORMAT binary)";
        push_copy(sql, |out| copy_rows(&[value], out), &mut buffer);
    }
    push_query("COMMIT", &mut buffer);
    pg.send(&buffer, 4, TIMEOUT).expect("several in one write");
    assert_eq!((pg.results(), pg.affected(1), pg.affected(2)), (4, 1, 1));
    pg.simple("SELECT count(*) FROM numbers", TIMEOUT).expect("valid");
    assert_eq!(all_texts(pg, 0), [["200006"]]);
}

fn answers_longer_than_any_buffer(pg: &mut Pg) {
    pg.simple("SELECT n, repeat('x', 100) FROM generate_series(1, 50000) n", TIMEOUT).expect("valid");
    assert_eq!(pg.row_count(0), 50_000);
    let sum: u64 = pg.rows(0).map(|row| texts(row)[0].parse::<u64>().expect("number")).sum();
    assert_eq!(sum, 50_000 * 50_001 / 2);
}

fn more_statements_than_are_kept(pg: &mut Pg) {
    for n in 0..STATEMENTS_MAX + 50 {
        let statement = pg.prepare(&format!("SELECT {n}"), &[]);
        pg.begin().expect("connected");
        pg.bind(statement, Format::Text, |_| {});
        pg.finish(TIMEOUT).expect("valid");
        assert_eq!(all_texts(pg, 0), [[n.to_string()]]);
    }
    assert_eq!((pg.statements.len(), pg.by_text.len()), (STATEMENTS_MAX, STATEMENTS_MAX));
    pg.simple("SELECT count(*) FROM pg_prepared_statements", TIMEOUT).expect("valid");
    assert_eq!(all_texts(pg, 0), [[STATEMENTS_MAX.to_string()]]);
}

#[test]
fn next_request_after_a_time_out_or_crash_reconnects_and_parses_again() {
    let (_dir, mut server) = postgres();
    let mut pg = Pg::new(login(&server.address("pg").expect("port")));
    let statement = pg.prepare("SELECT $1 + 1", &[oid::INT8]);
    let ask = |pg: &mut Pg| {
        pg.begin()?;
        pg.bind(statement, Format::Text, |values| values.int8(1));
        pg.finish(TIMEOUT)
    };
    ask(&mut pg).expect("valid");
    let error = pg.simple("SELECT pg_sleep(100)", Duration::from_millis(300)).expect_err("too slow");
    assert_eq!(error.class, Class::Timeout, "{error}");
    ask(&mut pg).expect("a new connection");
    let sleepers = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(100)' AND state = 'active'";
    let deadline = Instant::now() + TIMEOUT;
    loop {
        pg.simple(sleepers, TIMEOUT).expect("valid");
        if all_texts(&pg, 0) == [["0"]] {
            break;
        }
        assert!(Instant::now() < deadline, "the statement was not cancelled");
        std::thread::sleep(Duration::from_millis(20));
    }
    pg.simple("SET statement_timeout = 200", TIMEOUT).expect("valid");
    let error = pg.simple("SELECT pg_sleep(100)", TIMEOUT).expect_err("too slow");
    assert_eq!((error.class, pg.sqlstate()), (Class::Timeout, b"57014"), "{error}");
    ask(&mut pg).expect("the same connection");
    let error = pg.simple("SELECT pg_terminate_backend(pg_backend_pid())", TIMEOUT).expect_err("we are thrown out");
    assert_eq!((error.class, pg.sqlstate()), (Class::Connection, b"57P01"), "{error}");
    ask(&mut pg).expect("a new connection");
    server.kill9().expect("killed");
    assert_eq!(ask(&mut pg).expect_err("nobody there").class, Class::Connection);
    assert_eq!(ask(&mut pg).expect_err("nobody there").class, Class::Connection);
    server.restart().expect("restarted");
    ask(&mut pg).expect("a new connection");
    assert_eq!(all_texts(&pg, 0), [["2"]]);
}

#[test]
fn every_kind_of_password_is_accepted_and_a_wrong_one_refused() {
    let (dir, server) = postgres();
    let address = server.address("pg").expect("port");
    let mut admin = Pg::new(login(&address));
    for (role, encryption) in [("plain", "scram-sha-256"), ("md5", "md5"), ("scram", "scram-sha-256")] {
        let sql = format!("SET password_encryption = '{encryption}'; CREATE ROLE {role} LOGIN PASSWORD 's€cret'");
        admin.simple(&sql, TIMEOUT).expect("role");
    }
    let rule = |role: &str, method: &str| format!("host all {role} 127.0.0.1/32 {method}\n");
    let rules = [("plain", "password"), ("md5", "md5"), ("scram", "scram-sha-256"), ("postgres", "trust")];
    let file: String = rules.iter().map(|(role, method)| rule(role, method)).collect();
    std::fs::write(dir.path().join("data/pg_hba.conf"), file).expect("rules");
    admin.simple("SELECT pg_reload_conf()", TIMEOUT).expect("read again");
    std::thread::sleep(Duration::from_millis(300));
    for role in ["plain", "md5", "scram"] {
        let with = |password: Option<&str>| {
            let password = password.map(str::to_owned);
            Pg::new(Login { user: role.to_owned(), password, ..login(&address) }).open()
        };
        with(Some("s€cret")).unwrap_or_else(|error| panic!("{role}: {error}"));
        assert_eq!(with(Some("wrong")).expect_err(role).class, Class::Refused);
        assert_eq!(with(None).expect_err(role).class, Class::Setup);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// A server that sends arbitrary bytes

/// Accepts every log-in, answers the first request with `answer`, and closes the connection.
fn scripted(answer: Vec<u8>) -> Login {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let login = login(&listener.local_addr().expect("address").to_string());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("client");
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).expect("start-up") > 0);
        stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").expect("welcome");
        assert!(stream.read(&mut request).expect("request") > 0);
        let _ = stream.write_all(&answer);
    });
    login
}

fn answered(answer: &[u8]) -> (Result<()>, Pg) {
    let mut pg = Pg::new(scripted(answer.to_vec()));
    let outcome = pg.simple("SELECT", TIMEOUT);
    (outcome, pg)
}

#[test]
fn malformed_bytes_are_an_error_and_do_not_panic() {
    let cases: &[(&[u8], Class, &str)] = &[
        (b"", Class::Connection, "closed"),
        (b"D\0\0", Class::Connection, "closed"),
        (b"Z\0\0\0\x03", Class::Protocol, "length 3"),
        (b"D\xff\xff\xff\xff", Class::Protocol, "expected at most"),
        (b"?\0\0\0\x04", Class::Protocol, "'?'"),
        (b"E\0\0\0\x04", Class::Server, "SQLSTATE"),
        (b"E\0\0\0\x1aSFATAL\0C57P03\0Mwait\0\0\0\0\0", Class::Overloaded, "FATAL: wait (SQLSTATE 57P03)"),
    ];
    for (answer, class, text) in cases {
        let error = answered(answer).0.expect_err("not an answer");
        assert!(error.class == *class && error.message.contains(text), "{answer:?}: {:?} {error}", error.class);
    }
}

#[test]
fn rows_that_end_too_early_are_an_error_where_they_are_read() {
    let (outcome, pg) = answered(b"D\0\0\0\x0c\0\x01\0\0\0\x09abD\0\0\0\x05\0C\0\0\0\x06X\0Z\0\0\0\x05I");
    outcome.expect("well-formed messages");
    assert_eq!(pg.row_count(0), 2);
    for mut row in pg.rows(0) {
        assert_eq!(row.column().expect_err("too short").class, Class::Protocol);
    }
    let (outcome, pg) = answered(b"T\0\0\0\x08\0\x02x\0C\0\0\0\x06X\0Z\0\0\0\x05I");
    outcome.expect("well-formed messages");
    assert_eq!(pg.columns(0).expect_err("truncated").class, Class::Protocol);
    assert_eq!(pg.columns(1).expect_err("no such result").class, Class::Protocol);
}

#[test]
fn errors_have_the_class_of_their_sqlstate() {
    for (sqlstate, class) in [
        ("53100", Class::DiskFull),
        ("53200", Class::Overloaded),
        ("53300", Class::Overloaded),
        ("57P03", Class::Overloaded),
        ("57014", Class::Timeout),
        ("40001", Class::Refused),
        ("23505", Class::Refused),
        ("22P02", Class::Refused),
        ("42P01", Class::Refused),
        ("58030", Class::Server),
        ("XX001", Class::Server),
        ("40003", Class::Server),
        ("57P01", Class::Connection),
        ("", Class::Server),
        ("é", Class::Server),
    ] {
        assert_eq!(class_of(sqlstate), class, "{sqlstate}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_readers_of_answers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = column_types(&bytes);
        let _ = affected(&bytes);
        for mut row in (Rows { messages: &bytes }) {
            while !row.is_empty() && row.column().is_ok() {}
        }
    }
}
