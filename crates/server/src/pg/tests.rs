//! Tests of the listener over real sockets, at the level of protocol messages.
//!
//! Responses are compared as transcripts, one line per message: `T a:23` RowDescription with type
//! OIDs, `D 1|NULL` DataRow, `C tag`, `E state message`, `N …`, `A channel=payload` NotificationResponse,
//! `Z status`, and the bare tag for
//! messages without content.

use std::net::SocketAddr;
use std::time::Instant;

use env::RealEnv;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;

mod long;
mod notifications;
mod texts;

/// A server with a new database.
struct Server {
    address: SocketAddr,
    context: Arc<Context>,
    serving: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

fn options() -> Options {
    Options::for_memory(2 << 30)
}

impl Server {
    async fn start() -> Server {
        Server::with(options()).await
    }

    async fn with(options: Options) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let (engine, _) =
            engine::Engine::open(Arc::new(RealEnv::new()), dir.path(), engine::Options::default()).unwrap();
        let runtime = query::Options { memory_bytes: 64 << 20, threads: 2, files: None };
        let context = Context::new(Database::new(engine, runtime).unwrap(), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve_pg(listener, Arc::clone(&context)));
        Server { address, context, serving, _dir: dir }
    }

    async fn connect(&self) -> Client {
        let mut client = self.open().await;
        let greeting = client.start_up(b"user\0ann\0database\0millrace\0").await;
        assert_eq!(greeting.last().map(String::as_str), Some("Z I"), "{greeting:?}");
        client
    }

    /// Opens a connection without sending anything.
    async fn open(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), key: (0, 0) }
    }
}

struct Client {
    stream: TcpStream,
    key: (u32, u32),
}

impl Client {
    async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, messages: &[(u8, &[u8])]) {
        let mut bytes = Vec::new();
        for (tag, body) in messages {
            bytes.push(*tag);
            bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            bytes.extend_from_slice(body);
        }
        self.send_bytes(&bytes).await;
    }

    async fn start_up(&mut self, parameters: &[u8]) -> Vec<String> {
        let mut packet = (parameters.len() as u32 + 9).to_be_bytes().to_vec();
        packet.extend_from_slice(&196_608u32.to_be_bytes());
        packet.extend_from_slice(parameters);
        packet.push(0);
        self.send_bytes(&packet).await;
        self.transcript().await
    }

    /// Receives a message; `None` if the server closed the connection.
    async fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        tokio::time::timeout(Duration::from_secs(20), self.stream.read_exact(&mut head))
            .await
            .expect("an answer in time")
            .ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.ok()?;
        Some((head[0], body))
    }

    /// Receives messages up to ReadyForQuery or the end of the connection.
    async fn transcript(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some((tag, body)) = self.receive().await {
            if tag == b'K' {
                let word = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
                self.key = (word(0), word(4));
                continue;
            }
            lines.push(line(tag, &body));
            if tag == b'Z' {
                return lines;
            }
        }
        lines.push("closed".into());
        lines
    }

    async fn query(&mut self, sql: &str) -> Vec<String> {
        self.send(&[(b'Q', format!("{sql}\0").as_bytes())]).await;
        self.transcript().await
    }

    async fn check(&mut self, sql: &str, expected: &[&str]) {
        assert_eq!(self.query(sql).await, expected, "{sql}");
    }

    /// Sends a CancelRequest for this session over a separate connection.
    async fn cancel(server: &Server, (process, secret): (u32, u32)) {
        let mut socket = server.open().await;
        let words = [16u32, 80_877_102, process, secret];
        socket.send_bytes(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>()).await;
        assert_eq!(socket.receive().await, None, "a CancelRequest gets no answer");
    }
}

/// Formats a message as a line of a transcript.
fn line(tag: u8, body: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let content = match tag {
        b'D' => values(body),
        b'T' => columns(body),
        b't' => body[2..]
            .chunks(4)
            .map(|oid| u32::from_be_bytes(oid.try_into().unwrap()).to_string())
            .collect::<Vec<_>>()
            .join(","),
        b'E' | b'N' => {
            let field = |code: u8| {
                body.split(|byte| *byte == 0).find(|field| field.first() == Some(&code)).map(|field| text(&field[1..]))
            };
            format!("{} {}", field(b'C').unwrap_or_default(), field(b'M').unwrap_or_default())
        }
        b'A' => text(&body[4..]).replace('\0', "="),
        b'S' => text(body).replace('\0', "="),
        b'G' | b'H' => format!("{} {}", body[0], body[2]),
        _ => text(body),
    };
    format!("{} {content}", char::from(tag)).trim_end().to_owned()
}

fn values(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut values = Vec::new();
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        rest = &rest[4..];
        match usize::try_from(length) {
            Ok(length) => {
                values.push(rest[..length].escape_ascii().to_string());
                rest = &rest[length..];
            }
            Err(_) => values.push("NULL".into()),
        }
    }
    values.join("|")
}

fn columns(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).unwrap();
        let oid = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
        columns.push(format!("{}:{oid}", String::from_utf8_lossy(&rest[..end])));
        rest = &rest[end + 19..];
    }
    columns.join(" ")
}

const TABLE: &str =
    "CREATE TABLE m (time timestamptz NOT NULL, dev text, v float8, n int) WITH (store = 'columns', key = 'dev')";

async fn with_table(server: &Server) -> Client {
    let mut client = server.connect().await;
    client.check(TABLE, &["C CREATE TABLE", "Z I"]).await;
    client
}

/// Inserts `n` rows into table `m`.
async fn fill(client: &mut Client, n: usize) {
    let rows: Vec<_> =
        (0..n).map(|i| format!("('2024-01-01'::timestamptz + interval '{i} seconds', 'd', {i}, {i})")).collect();
    let answer = client.query(&format!("INSERT INTO m VALUES {}", rows.join(","))).await;
    assert_eq!(answer, [&format!("C INSERT 0 {n}"), "Z I"]);
}

/// Parse and Bind of the unnamed statement and portal, with text parameters.
fn bound<'a>(
    parse: &'a mut Vec<u8>,
    bind: &'a mut Vec<u8>,
    sql: &str,
    values: &[&str],
    binary_result: bool,
) -> [(u8, &'a [u8]); 2] {
    *parse = format!("\0{sql}\0\0\0").into_bytes();
    *bind = b"\0\0\0\0".to_vec();
    bind.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        bind.extend_from_slice(&(value.len() as u32).to_be_bytes());
        bind.extend_from_slice(value.as_bytes());
    }
    bind.extend_from_slice(if binary_result { b"\0\x01\0\x01" } else { b"\0\0" });
    [(b'P', parse), (b'B', bind)]
}

const EXECUTE_ALL: (u8, &[u8]) = (b'E', b"\0\0\0\0\0");
const EXECUTE_TWO: (u8, &[u8]) = (b'E', b"\0\0\0\0\x02");
const SYNC: (u8, &[u8]) = (b'S', b"");
const FLUSH: (u8, &[u8]) = (b'H', b"");
const DESCRIBE_PORTAL: (u8, &[u8]) = (b'D', b"P\0");
const DESCRIBE_STATEMENT: (u8, &[u8]) = (b'D', b"S\0");

#[tokio::test]
async fn startup_reports_the_settings_that_drivers_need() {
    let server = Server::start().await;
    let mut client = server.open().await;
    let lines = client.start_up(b"user\0ann\0database\0ann\0application_name\0test\0client_encoding\0UTF8\0").await;
    assert_eq!(lines.first().map(String::as_str), Some("R"));
    for expected in [
        "S server_encoding=UTF8",
        "S client_encoding=UTF8",
        "S application_name=test",
        "S DateStyle=ISO, MDY",
        "S IntervalStyle=postgres",
        "S TimeZone=UTC",
        "S integer_datetimes=on",
        "S standard_conforming_strings=on",
        "S session_authorization=ann",
        "S is_superuser=on",
        "S in_hot_standby=off",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} in {lines:?}");
    }
    let version = lines.iter().find_map(|line| line.strip_prefix("S server_version=")).unwrap();
    assert!(version.split('.').next().unwrap().parse::<u32>().unwrap() >= 14, "{version}");
    assert_ne!(client.key.0, 0);
}

#[tokio::test]
async fn encryption_is_refused_by_one_byte_and_the_session_continues() {
    let server = Server::start().await;
    let mut client = server.open().await;
    for code in [80_877_104u32, 80_877_103] {
        client.send_bytes(&[8u32.to_be_bytes(), code.to_be_bytes()].concat()).await;
        assert_eq!(client.stream.read_u8().await.unwrap(), b'N');
    }
    assert_eq!(client.start_up(b"user\0ann\0").await.last().unwrap(), "Z I");
}

#[tokio::test]
async fn bytes_of_other_protocols_get_an_error_and_a_disconnect() {
    let server = Server::start().await;
    for (bytes, says) in [
        (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"\0\0\0\x04", "4 bytes"),
        (b"\xff\xff\xff\xff\xff\xff", "4294967295 bytes"),
    ] {
        let mut client = server.open().await;
        client.send_bytes(bytes).await;
        let lines = client.transcript().await;
        assert!(lines[0].starts_with("E 08P01") && lines[0].contains(says), "{lines:?}");
        assert_eq!(lines[1], "closed");
    }
    server.connect().await.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn an_incomplete_startup_times_out() {
    let server = Server::with(Options { startup_timeout: Duration::from_millis(100), ..options() }).await;
    let mut client = server.open().await;
    client.send_bytes(b"\0\0\0\x40\0\x03").await;
    let lines = client.transcript().await;
    assert!(lines[0].starts_with("E 08006 no startup packet"), "{lines:?}");
    assert_eq!(lines[1], "closed");
}

#[tokio::test]
async fn unknown_database_and_missing_user_are_refused() {
    let server = Server::start().await;
    let lines = server.open().await.start_up(b"user\0ann\0database\0other\0").await;
    assert_eq!(lines, ["E 3D000 database \"other\" does not exist", "closed"]);
    let lines = server.open().await.start_up(b"database\0millrace\0").await;
    assert!(lines[0].starts_with("E 28000"), "{lines:?}");
    let lines = server.open().await.start_up(b"user\0ann\0client_encoding\0LATIN1\0").await;
    assert!(lines[0].starts_with("E 22023"), "{lines:?}");
}

#[tokio::test]
async fn a_connection_above_the_limit_gets_53300_until_a_slot_is_free() {
    let server =
        Server::with(Options { limits: Limits { connections_max: 1, ..Limits::default() }, ..options() }).await;
    let mut first = server.connect().await;
    let lines = server.open().await.start_up(b"user\0ann\0").await;
    assert!(lines[0].starts_with("E 53300"), "{lines:?}");
    first.send(&[(b'X', b"")]).await;
    assert_eq!(first.receive().await, None);
    for _ in 0..100 {
        if server.open().await.start_up(b"user\0ann\0").await.last().unwrap() == "Z I" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the slot was not given back");
}

#[tokio::test]
async fn several_statements_of_one_query_commit_together_or_not_at_all() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let insert = |n: u32| format!("INSERT INTO m VALUES ('2024-01-0{n}', 'd', {n}, {n})");
    let lines = client.query(&format!("{}; SELECT * FROM nowhere; {}", insert(1), insert(2))).await;
    assert_eq!(lines[0], "C INSERT 0 1");
    assert!(lines[1].starts_with("E 42P01"), "{lines:?}");
    assert_eq!(lines[2], "Z I");
    client.check("SELECT n FROM m", &["T n:23", "C SELECT 0", "Z I"]).await;
    let two = format!("{}; {}; SELECT count(*) AS c FROM m", insert(1), insert(2));
    client.check(&two, &["C INSERT 0 1", "C INSERT 0 1", "T c:20", "D 2", "C SELECT 1", "Z I"]).await;
    client.check("", &["I", "Z I"]).await;
    client.check(" ; -- nothing", &["I", "Z I"]).await;
}

#[tokio::test]
async fn a_failed_block_accepts_only_its_end() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    client.check("BEGIN", &["C BEGIN", "Z T"]).await;
    let lines = client.query("SELECT * FROM nowhere").await;
    assert!(lines[0].starts_with("E 42P01") && lines[1] == "Z E", "{lines:?}");
    let lines = client.query("SELECT 1").await;
    assert!(lines[0].starts_with("E 25P02") && lines[1] == "Z E", "{lines:?}");
    client.check("COMMIT", &["C ROLLBACK", "Z I"]).await;
}

#[tokio::test]
async fn extended_protocol_describes_binds_and_sends_binary() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    fill(&mut client, 3).await;
    let (mut parse, mut bind) = (Vec::new(), Vec::new());
    let [p, b] = bound(&mut parse, &mut bind, "SELECT n, dev FROM m WHERE n >= $1 ORDER BY n", &["1"], true);
    client.send(&[p, DESCRIBE_STATEMENT, b, DESCRIBE_PORTAL, EXECUTE_ALL, SYNC]).await;
    let expected = [
        "1",
        "t 23",
        "T n:23 dev:25",
        "2",
        "T n:23 dev:25",
        "D \\x00\\x00\\x00\\x01|d",
        "D \\x00\\x00\\x00\\x02|d",
        "C SELECT 2",
        "Z I",
    ];
    assert_eq!(client.transcript().await, expected);
}

#[tokio::test]
async fn a_row_limit_suspends_the_portal_and_the_next_execute_continues() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    fill(&mut client, 5).await;
    client.check("BEGIN", &["C BEGIN", "Z T"]).await;
    let (mut parse, mut bind) = (Vec::new(), Vec::new());
    let [p, b] = bound(&mut parse, &mut bind, "SELECT n FROM m ORDER BY n", &[], false);
    client.send(&[p, b, EXECUTE_TWO, SYNC]).await;
    assert_eq!(client.transcript().await, ["1", "2", "D 0", "D 1", "s", "Z T"]);
    client.send(&[EXECUTE_TWO, SYNC]).await;
    assert_eq!(client.transcript().await, ["D 2", "D 3", "s", "Z T"]);
    client.send(&[EXECUTE_ALL, EXECUTE_ALL, SYNC]).await;
    assert_eq!(client.transcript().await, ["D 4", "C SELECT 1", "C SELECT 0", "Z T"]);
    client.check("COMMIT", &["C COMMIT", "Z I"]).await;
    client.send(&[EXECUTE_ALL, SYNC]).await;
    assert_eq!(client.transcript().await, ["E 34000 portal \"\" does not exist", "Z I"]);
}

#[tokio::test]
async fn after_an_error_everything_up_to_sync_is_skipped() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let (mut parse, mut bind) = (Vec::new(), Vec::new());
    let [p, b] = bound(&mut parse, &mut bind, "SELECT * FROM nowhere", &[], false);
    client.send(&[p, b, DESCRIBE_PORTAL, EXECUTE_ALL, (b'Q', b"SELECT 1\0"), SYNC]).await;
    let lines = client.transcript().await;
    assert!(lines[0].starts_with("E 42P01") && lines.len() == 2 && lines[1] == "Z I", "{lines:?}");
    client.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn a_pipeline_commits_at_its_sync_and_an_error_undoes_all_of_it() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let (mut p1, mut b1, mut p2, mut b2) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let insert = "INSERT INTO m VALUES ($1, 'd', 1, 1)";
    let good = bound(&mut p1, &mut b1, insert, &["2024-01-01"], false);
    let bad = bound(&mut p2, &mut b2, insert, &["2024-99-01"], false);
    client.send(&[good[0], good[1], EXECUTE_ALL, bad[0], bad[1], EXECUTE_ALL, SYNC]).await;
    let lines = client.transcript().await;
    assert_eq!(lines[..3], ["1", "2", "C INSERT 0 1"]);
    assert!(lines.iter().any(|line| line.starts_with("E 22008")), "{lines:?}");
    client.check("SELECT count(*) AS c FROM m", &["T c:20", "D 0", "C SELECT 1", "Z I"]).await;
    client.send(&[good[0], good[1], EXECUTE_ALL, good[1], EXECUTE_ALL, SYNC]).await;
    assert_eq!(client.transcript().await, ["1", "2", "C INSERT 0 1", "2", "C INSERT 0 1", "Z I"]);
    client.check("SELECT count(*) AS c FROM m", &["T c:20", "D 1", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn responses_of_a_batch_wait_for_its_end_unless_flushed_or_large_or_an_error() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let (mut parse, mut bind) = (Vec::new(), Vec::new());
    let [p, b] = bound(&mut parse, &mut bind, "SELECT 1 AS a", &[], false);
    client.send(&[p, b, EXECUTE_ALL]).await;
    let early = tokio::time::timeout(Duration::from_millis(200), client.stream.read_u8()).await;
    assert!(early.is_err(), "an answer nobody asked for: {early:?}");
    client.send(&[FLUSH]).await;
    for tag in [b'1', b'2', b'D', b'C'] {
        assert_eq!(client.receive().await.unwrap().0, tag);
    }
    let [p, b] = bound(&mut parse, &mut bind, "SELECT * FROM nowhere", &[], false);
    client.send(&[p, b]).await;
    assert_eq!(client.receive().await.unwrap().0, b'E');
    client.send(&[SYNC]).await;
    assert_eq!(client.transcript().await, ["Z I"]);
    fill(&mut client, 2_000).await;
    let [p, b] = bound(&mut parse, &mut bind, "SELECT * FROM m", &[], false);
    client.send(&[p, b, EXECUTE_ALL]).await;
    assert_eq!(client.receive().await.unwrap().0, b'1');
    client.send(&[SYNC]).await;
    assert_eq!(client.transcript().await.len(), 2_003);
}

#[tokio::test]
async fn vacuum_runs_if_sync_arrives_later_but_not_after_another_statement() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let (mut p1, mut b1, mut p2, mut b2) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let vacuum = bound(&mut p1, &mut b1, "VACUUM", &[], false);
    client.send(&[vacuum[0], vacuum[1], EXECUTE_ALL, (b'H', b"")]).await;
    // Answered before Sync arrives.
    for tag in [b'1', b'2', b'C'] {
        assert_eq!(client.receive().await.map(|(tag, _)| tag), Some(tag));
    }
    client.send(&[SYNC]).await;
    assert_eq!(client.transcript().await, ["Z I"]);
    let insert = bound(&mut p2, &mut b2, "INSERT INTO m VALUES ('2024-01-01', 'd', 1, 1)", &[], false);
    client.send(&[insert[0], insert[1], EXECUTE_ALL, vacuum[0], vacuum[1], EXECUTE_ALL, SYNC]).await;
    let lines = client.transcript().await;
    assert!(lines.iter().any(|line| line.starts_with("E 25001")), "{lines:?}");
}

#[tokio::test]
async fn begin_in_a_pipeline_opens_a_block_that_outlives_its_sync() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let (mut p1, mut b1, mut p2, mut b2) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let begin = bound(&mut p1, &mut b1, "BEGIN", &[], false);
    let insert = bound(&mut p2, &mut b2, "INSERT INTO m VALUES ('2024-01-01', 'd', 1, 1)", &[], false);
    client.send(&[begin[0], begin[1], EXECUTE_ALL, insert[0], insert[1], EXECUTE_ALL, SYNC]).await;
    assert_eq!(client.transcript().await, ["1", "2", "C BEGIN", "1", "2", "C INSERT 0 1", "Z T"]);
    client.check("ROLLBACK", &["C ROLLBACK", "Z I"]).await;
    client.check("SELECT count(*) AS c FROM m", &["T c:20", "D 0", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn statements_and_portals_exist_by_name_until_closed() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let parse: (u8, &[u8]) = (b'P', b"s1\0SELECT 1 AS a\0\0\0");
    let bind: (u8, &[u8]) = (b'B', b"p1\0s1\0\0\0\0\0\0\0");
    client.send(&[parse, bind, bind, SYNC]).await;
    assert_eq!(client.transcript().await, ["1", "2", "E 42P03 cursor \"p1\" already exists", "Z I"]);
    client.send(&[parse, SYNC]).await;
    assert_eq!(client.transcript().await, ["E 42P05 prepared statement \"s1\" already exists", "Z I"]);
    client.send(&[(b'C', b"Ss1\0"), (b'C', b"Pnone\0"), bind, SYNC]).await;
    assert_eq!(client.transcript().await, ["3", "3", "E 26000 prepared statement \"s1\" does not exist", "Z I"]);
    client.send(&[parse, SYNC]).await;
    client.transcript().await;
    client.check("DEALLOCATE s1", &["C DEALLOCATE", "Z I"]).await;
    client.send(&[bind, SYNC]).await;
    assert_eq!(client.transcript().await, ["E 26000 prepared statement \"s1\" does not exist", "Z I"]);
}

#[tokio::test]
async fn malformed_messages_fail_only_their_batch() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let parse: (u8, &[u8]) = (b'P', b"\0SELECT $1::int4 AS a\0\0\0");
    for (messages, state) in [
        (vec![parse, (b'B', &b"\0\0\0\0\0\0\0\0"[..])], "08P01"),
        (vec![parse, (b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\0\0")], "22P02"),
        (vec![parse, (b'B', b"\0\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\0")], "22P03"),
        (vec![parse, (b'B', b"\0\0\0\0\0\x01\0\0\0\x017\0\x02\0\0\0\0")], "08P01"),
        (vec![(b'D', b"X\0")], "08P01"),
        (vec![(b'B', b"\0")], "08P01"),
        (vec![(b'P', b"\0SELECT 1; SELECT 2\0\0\0")], "42601"),
        (vec![(b'P', b"\0SELECT '\xff'\0\0\0")], "22021"),
    ] {
        let mut messages = messages;
        messages.push(SYNC);
        client.send(&messages).await;
        let lines = client.transcript().await;
        let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("E ")).collect();
        assert!(errors.len() == 1 && errors[0].starts_with(&format!("E {state}")), "{state}: {lines:?}");
        assert_eq!(lines.last().unwrap(), "Z I");
    }
    client.send(&[(b'F', b"\0\0\0\x01")]).await;
    assert!(client.transcript().await[0].starts_with("E 0A000"));
    client.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
    client.send_bytes(b"z\0\0\0\x04").await;
    assert_eq!(client.transcript().await, ["E 08P01 unknown message type 0x7a", "closed"]);
}

#[tokio::test]
async fn copy_in_accepts_rows_split_anywhere() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    client.send(&[(b'Q', b"COPY m FROM STDIN\0")]).await;
    assert_eq!(client.receive().await.map(|(tag, body)| line(tag, &body)).unwrap(), "G 0 4");
    client
        .send(&[(b'd', b"2024-01-01\td\t1.5\t"), (b'd', b"7\n2024-01-02\te\t\\N"), (b'd', b"\t\\N\n"), (b'c', b"")])
        .await;
    assert_eq!(client.transcript().await, ["C COPY 2", "Z I"]);
    let expected = ["T dev:25 v:701 n:23", "D d|1.5|7", "D e|NULL|NULL", "C SELECT 2", "Z I"];
    client.check("SELECT dev, v, n FROM m ORDER BY time", &expected).await;
}

#[tokio::test]
async fn a_failed_copy_stores_nothing_and_the_rest_of_it_is_ignored() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    client.send(&[(b'Q', b"COPY m FROM STDIN\0"), (b'd', b"2024-01-01\td\t1\t1\n"), (b'f', b"no more\0")]).await;
    assert_eq!(client.transcript().await, ["G 0 4", "E 57014 COPY from stdin failed: no more", "Z I"]);
    let (good, bad): (&[u8], &[u8]) = (b"2024-01-01\td\t1\t1\n", b"2024-01-01\td\tx\t1\n");
    client.send(&[(b'Q', b"COPY m FROM STDIN\0"), (b'd', good), (b'd', bad), (b'd', good), (b'c', b"")]).await;
    let lines = client.transcript().await;
    assert!(lines[1].starts_with("E 22P02") && lines[2] == "Z I", "{lines:?}");
    client.check("SELECT count(*) AS c FROM m", &["T c:20", "D 0", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn copy_out_sends_each_row_in_its_own_message() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    fill(&mut client, 2).await;
    let rows = ["H 0 2", "d d\t0\n", "d d\t1\n", "c", "C COPY 2", "Z I"].map(|line| line.trim_end().to_owned());
    assert_eq!(client.query("COPY (SELECT dev, n FROM m ORDER BY n) TO STDOUT").await, rows);
}

/// psycopg's `rows()`, rust-postgres' `BinaryCopyOutStream` (connectorx) and ADBC expect the header
/// and the first row in the first message; with the header in a message of its own they failed
/// ("fields number truncated", "unexpected EOF", "expected 2 bytes but found 0").
#[tokio::test]
async fn the_header_of_a_binary_copy_is_in_the_first_rows_message() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    fill(&mut client, 2).await;
    client.check("CREATE TABLE r (id int)", &["C CREATE TABLE", "Z I"]).await;
    for (sql, rows) in [
        ("COPY (SELECT n FROM m ORDER BY n) TO STDOUT (FORMAT binary)", 2),
        ("COPY (SELECT n FROM m WHERE n < 0) TO STDOUT (FORMAT binary)", 0),
        ("COPY (SELECT 1) TO STDOUT (FORMAT binary)", 1),
        ("COPY m (n) TO STDOUT (FORMAT binary)", 2),
        ("COPY r TO STDOUT (FORMAT binary)", 0),
        ("COPY (SELECT id FROM r) TO STDOUT (FORMAT binary)", 0),
    ] {
        client.send(&[(b'Q', format!("{sql}\0").as_bytes())]).await;
        let mut data = Vec::new();
        while let Some((tag, body)) = client.receive().await {
            match tag {
                b'd' => data.push(body),
                b'Z' => break,
                tag => assert!(b"HcC".contains(&tag), "{sql}: {}", line(tag, &body)),
            }
        }
        let (row, trailer) = (2 + 4 + 4, 2);
        let lengths: Vec<usize> = data.iter().map(Vec::len).collect();
        let expected = match rows {
            0 => vec![19 + trailer],
            rows => [vec![19 + row], vec![row; rows - 1], vec![trailer]].concat(),
        };
        assert_eq!(lengths, expected, "{sql}");
        assert!(data[0].starts_with(b"PGCOPY\n\xff\r\n\0"), "{sql}");
    }
}

#[tokio::test]
async fn startup_accepts_time_zones_of_jvms() {
    let server = Server::start().await;
    let mut client = server.open().await;
    let greeting = client.start_up(b"user\0ann\0database\0millrace\0TimeZone\0GMT-08:00\0").await;
    assert!(greeting.contains(&"S TimeZone=GMT-08:00".to_owned()), "{greeting:?}");
    let lines = client.query("SELECT timestamptz '2024-07-01 00:00Z'").await;
    assert_eq!(lines[1], "D 2024-07-01 08:00:00+08");
}

#[tokio::test]
async fn cancel_stops_the_running_statement_and_nothing_else() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    fill(&mut client, 2_000).await;
    let endless = "SELECT count(a.v + b.v + c.v + d.v) FROM m a, m b, m c, m d";
    // Returns no row, so nothing is sent before the end.
    let fruitless = "SELECT count(*) FROM m a, m b, m c WHERE a.n + b.n + c.n < -1";
    Client::cancel(&server, client.key).await;
    client.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
    client.send(&[(b'Q', format!("{endless}\0").as_bytes())]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    Client::cancel(&server, (client.key.0, client.key.1 ^ 1)).await;
    let waiting = Instant::now();
    Client::cancel(&server, client.key).await;
    let lines = client.transcript().await;
    assert!(lines.iter().any(|line| line == "E 57014 canceling statement due to user request"), "{lines:?}");
    assert!(waiting.elapsed() < Duration::from_secs(5), "{:?}", waiting.elapsed());
    // More often than there are threads: a cancelled statement must stop computing, too.
    for endless in [endless, fruitless, endless, fruitless] {
        client.check("SET statement_timeout = 200", &["C SET", "Z I"]).await;
        let lines = client.query(endless).await;
        assert!(lines.iter().any(|line| line == "E 57014 canceling statement due to statement timeout"), "{lines:?}");
        client.check("SET statement_timeout = 0", &["C SET", "Z I"]).await;
    }
    client.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn shutdown_ends_idle_sessions_and_lets_running_statements_finish() {
    let server = Server::start().await;
    let mut idle = server.connect().await;
    let mut busy = with_table(&server).await;
    busy.send(&[(b'Q', b"COPY m FROM STDIN\0")]).await;
    busy.receive().await.unwrap();
    server.context.shut_down();
    let lines = idle.transcript().await;
    assert_eq!(lines, ["E 57P01 terminating connection due to administrator command", "closed"]);
    busy.send(&[(b'd', b"2024-01-01\td\t1\t1\n"), (b'c', b"")]).await;
    assert_eq!(busy.transcript().await, ["C COPY 1", "Z I"]);
    assert!(busy.transcript().await[0].starts_with("E 57P01"));
    server.serving.await.unwrap();
}

#[tokio::test]
async fn shutdown_stops_statements_that_take_longer_than_the_grace() {
    let server = Server::with(Options {
        limits: Limits { shutdown_grace: Duration::from_millis(100), ..Limits::default() },
        ..options()
    })
    .await;
    let mut busy = with_table(&server).await;
    busy.send(&[(b'Q', b"COPY m FROM STDIN\0"), (b'd', b"2024-01-01\td\t1\t1\n")]).await;
    busy.receive().await.unwrap();
    server.context.shut_down();
    server.serving.await.unwrap();
    assert!(busy.transcript().await[0].starts_with("E 57P01"));
}

#[tokio::test]
async fn a_disconnect_leaves_no_partial_write() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    let mut doomed = server.connect().await;
    doomed.check("BEGIN", &["C BEGIN", "Z T"]).await;
    doomed.query("INSERT INTO m VALUES ('2024-01-01', 'd', 1, 1)").await;
    drop(doomed);
    let mut copying = server.connect().await;
    copying.send(&[(b'Q', b"COPY m FROM STDIN\0"), (b'd', b"2024-01-01\td\t1\t1\n2024")]).await;
    copying.receive().await.unwrap();
    drop(copying);
    while server.context.counters.sessions.get() > 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client.check("SELECT count(*) AS c FROM m", &["T c:20", "D 0", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn a_statement_beyond_the_limit_is_refused_and_the_session_continues() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let long = format!("SELECT 1 {}", " ".repeat(model::limits::STATEMENT_BYTES_MAX));
    let lines = client.query(&long).await;
    assert!(lines[0].starts_with("E 54000") && lines[1] == "Z I", "{lines:?}");
    client.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn changed_settings_are_reported_to_the_client() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.check("SET TIME ZONE 'Europe/Berlin'", &["C SET", "S TimeZone=Europe/Berlin", "Z I"]).await;
    let sql = "SELECT '2024-07-01 12:00:00+00'::timestamptz AS t";
    client.check(sql, &["T t:1184", "D 2024-07-01 14:00:00+02", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn a_large_result_arrives_completely_and_in_order() {
    let server = Server::start().await;
    let mut client = with_table(&server).await;
    fill(&mut client, 5_000).await;
    let lines = client.query("SELECT n, dev, v, time FROM m ORDER BY n").await;
    assert_eq!(lines.len(), 5_003);
    assert!(
        lines[1..=5_000].iter().enumerate().all(|(at, line)| line.starts_with(&format!("D {at}|d|{at}|2024-01-01 ")))
    );
}

#[tokio::test]
async fn incomplete_messages_share_a_memory_limit() {
    let server = Server::with(Options { input_bytes_max: 3 << 20, ..options() }).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = server.connect().await;
        let mut half = vec![b'Q'];
        half.extend_from_slice(&16_000_000_u32.to_be_bytes());
        half.extend_from_slice(&vec![b' '; 1 << 20]);
        // The last client may be disconnected before all of it is sent.
        let _ = client.stream.write_all(&half).await;
        clients.push(client);
    }
    let mut refused = 0;
    for client in &mut clients {
        let answer = tokio::time::timeout(Duration::from_millis(500), client.transcript()).await;
        refused += usize::from(answer.is_ok_and(|lines| lines[0].starts_with("E 53200")));
    }
    assert!((1..4).contains(&refused), "{refused} of 4 refused");
    drop(clients);
    let mut next = server.connect().await;
    next.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
}
