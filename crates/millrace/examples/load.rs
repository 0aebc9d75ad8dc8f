//! A small load generator for the figures of the README and of closing notes, until `millrace bench` exists.
//!
//! It starts the release binary on free ports in a fresh directory, writes devices' data through one path, stops the server, and prints points a
//! second and the server's CPU per million points, counted to the server's exit so that flush and compaction are paid too.
//!
//! ```text
//! cargo build --release && cargo run --release --example load -- line sync     (also: copy, insert; async)
//! cargo run --release --example load -- commits      p50/p99 of one-row commits, alone and next to a bulk load
//! cargo run --release --example load -- select       median and p99 of a single-key one-hour select
//! cargo run --release --example load -- recovery     kill -9 after 1 GB of log, then the start-up line
//! cargo run --release --example load -- mixed 60     minutes of mixed load under --memory 1GiB; resident size every minute
//!                                                    (200,000 points/s, up to 50 one-row commits/s, two grouped selects/s)
//! ```

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::SinkExt;
use tokio_postgres::{Client, NoTls};

const CONNECTIONS: usize = 8;
const ROWS_PER_REQUEST: usize = 1_000;
const FIELDS: usize = 10;
const DEVICES: u64 = 100;
const START_NS: i64 = 1_750_000_000_000_000_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match words.as_slice() {
        [path @ ("line" | "copy" | "insert"), level @ ("sync" | "async"), rest @ ..] => {
            let requests = rest.first().map_or(Ok(1_000), |text| text.parse())?;
            ingest(&runtime, path, *level == "sync", requests)
        }
        ["commits"] => commits(&runtime),
        ["select"] => select(&runtime),
        ["recovery"] => recovery(&runtime),
        ["mixed", minutes] => mixed(&runtime, minutes.parse()?),
        _ => {
            Err("usage: load (line|copy|insert) (sync|async) [requests] | commits | select | recovery | mixed MINUTES"
                .into())
        }
    }
}

/// A running server.
struct Server {
    child: Child,
    pg: String,
    http: String,
    log: Arc<std::sync::Mutex<String>>,
}

impl Server {
    fn start(dir: &Path, more: &[&str]) -> Result<Server, Failure> {
        let binary =
            std::env::current_exe()?.parent().and_then(Path::parent).ok_or("no target folder")?.join("millrace");
        let [pg, http] = [free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
        let mut child = Command::new(&binary)
            .envs(server::LISTENERS.map(|listener| (listener.env, "127.0.0.1:0")))
            .args(["serve", "--pg", &pg, "--http", &http, "--data"])
            .arg(dir)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}; build it with cargo build --release", binary.display()))?;
        let log = Arc::new(std::sync::Mutex::new(String::new()));
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().ok_or("no stdout")?), Box::new(child.stderr.take().ok_or("no stderr")?)];
        for output in outputs {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let mut log = log.lock().expect("the log");
                    log.push_str(&line);
                    log.push('\n');
                }
            });
        }
        let server = Server { child, pg, http, log };
        let deadline = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(&server.pg).is_err() {
            if Instant::now() > deadline {
                return Err(format!("the server did not start:\n{}", server.log.lock().expect("the log")).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }

    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// Sends SIGTERM; returns the processor time up to the exit.
    fn stop(mut self) -> Result<f64, Failure> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let mut cpu = self.cpu_seconds();
        while self.child.try_wait()?.is_none() {
            cpu = cpu.max(self.cpu_seconds());
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(cpu)
    }

    fn kill(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    async fn client(&self) -> Result<Client, Failure> {
        connect(&self.pg).await
    }
}

async fn connect(address: &str) -> Result<Client, Failure> {
    let (host, port) = address.split_once(':').ok_or("no port")?;
    let (client, connection) =
        tokio_postgres::connect(&format!("host={host} port={port} user=millrace dbname=millrace"), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn free_port() -> Result<u16, Failure> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    let ticks: u64 = after.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn fresh_dir(name: &str) -> Result<PathBuf, Failure> {
    let dir = std::env::temp_dir().join(format!("millrace-load-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    Ok(dir)
}

/// Random walks with two decimals: value of field `field` in row `row` of a device, computed from a counter.
fn value(device: u64, field: u64, row: u64) -> f64 {
    let mut hash = (device << 40) ^ (field << 32) ^ (row / 16);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let base = (hash % 2_000) as f64;
    (base + ((row * 7 + field * 3) % 100) as f64) / 100.0
}

/// Rows `from .. from + 1000` of a connection's stream, device by device.
fn row_of(request: u64, at: usize) -> (u64, u64) {
    let number = request * ROWS_PER_REQUEST as u64 + at as u64;
    (number % DEVICES, number / DEVICES)
}

fn time_of(row: u64) -> i64 {
    START_NS + row as i64 * 1_000_000_000
}

fn line_body(request: u64) -> String {
    let mut body = String::with_capacity(160 * ROWS_PER_REQUEST);
    for at in 0..ROWS_PER_REQUEST {
        let (device, row) = row_of(request, at);
        let _ = write!(body, "cpu,dev=d{device} ");
        for field in 0..FIELDS as u64 {
            let comma = if field == 0 { "" } else { "," };
            let _ = write!(body, "{comma}f{field}={:.2}", value(device, field, row));
        }
        let _ = writeln!(body, " {}", time_of(row));
    }
    body
}

/// A persistent HTTP connection.
struct Http {
    reader: BufReader<TcpStream>,
    host: String,
}

impl Http {
    fn connect(address: &str) -> Result<Http, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Http { reader: BufReader::new(stream), host: address.to_owned() })
    }

    fn post(&mut self, path: &str, body: &[u8]) -> Result<u16, Failure> {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n", self.host, body.len());
        let stream = self.reader.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let (mut line, mut length) = (String::new(), 0);
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no status")?;
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let lower = line.trim_end().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if lower.is_empty() {
                break;
            }
        }
        let mut rest = vec![0; length];
        self.reader.read_exact(&mut rest)?;
        if status >= 300 && status != 503 {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&rest)).into());
        }
        Ok(status)
    }
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS cpu (time timestamptz NOT NULL, dev text, \
    f0 float8, f1 float8, f2 float8, f3 float8, f4 float8, f5 float8, f6 float8, f7 float8, f8 float8, f9 float8) \
    WITH (store = 'columns', key = 'dev')";

/// Writes `requests` requests by one path.
fn ingest(runtime: &tokio::runtime::Runtime, path: &str, sync: bool, requests: u64) -> Result<(), Failure> {
    let dir = fresh_dir("ingest")?;
    let server = Server::start(&dir, &[])?;
    let next = AtomicU64::new(0);
    // Bodies are prepared before the clock starts: formatting them costs the client more than ingesting costs the
    // server.
    let bodies: Vec<String> = if path == "line" { (0..requests).map(line_body).collect() } else { Vec::new() };
    let started = Instant::now();
    let client_cpu = cpu_seconds(std::process::id());
    match path {
        "line" => std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..CONNECTIONS).map(|_| scope.spawn(|| line_writer(&server.http, sync, &bodies, &next))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a writer panicked")?)
        })?,
        _ => runtime.block_on(sql_writers(&server, path, sync, requests, &next))?,
    }
    let elapsed = started.elapsed().as_secs_f64();
    let client_cpu = cpu_seconds(std::process::id()) - client_cpu;
    let at_ack = server.cpu_seconds();
    let total = server.stop()?;
    let points = (requests * (ROWS_PER_REQUEST * FIELDS) as u64) as f64;
    let bytes = directory_bytes(&dir.join("data"))?;
    println!(
        "{path} {}: {:.2} M points in {elapsed:.1} s = {:.2} M points/s; server CPU {:.3} s per M points to the acknowledgement, \
         {:.3} s to exit ({:.2} M points per CPU-second); client CPU {client_cpu:.1} s; {:.2} bytes/point in segments",
        if sync { "sync" } else { "async" },
        points / 1e6,
        points / elapsed / 1e6,
        at_ack / points * 1e6,
        total / points * 1e6,
        points / total / 1e6,
        bytes as f64 / points
    );
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn directory_bytes(dir: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn line_writer(address: &str, sync: bool, bodies: &[String], next: &AtomicU64) -> Result<(), Failure> {
    let mut http = Http::connect(address)?;
    let path = if sync { "/api/v2/write" } else { "/api/v2/write?no_sync=true" };
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
        while http.post(path, body.as_bytes())? == 503 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

async fn sql_writers(server: &Server, path: &str, sync: bool, requests: u64, next: &AtomicU64) -> Result<(), Failure> {
    server.client().await?.batch_execute(CREATE).await?;
    let writers = (0..CONNECTIONS).map(|_| async {
        let client = server.client().await?;
        if !sync {
            client.batch_execute("SET synchronous_commit = off").await?;
        }
        if path == "copy" {
            copy_writer(&client, requests, next).await
        } else {
            insert_writer(&client, requests, next).await
        }
    });
    futures::future::try_join_all(writers).await?;
    Ok(())
}

async fn copy_writer(client: &Client, requests: u64, next: &AtomicU64) -> Result<(), Failure> {
    loop {
        let request = next.fetch_add(1, Ordering::Relaxed);
        if request >= requests {
            return Ok(());
        }
        let sink = client.copy_in("COPY cpu FROM STDIN (FORMAT binary)").await?;
        futures::pin_mut!(sink);
        sink.send(bytes::Bytes::from(copy_body(request))).await?;
        sink.close().await?;
    }
}

fn copy_body(request: u64) -> Vec<u8> {
    let mut body = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for at in 0..ROWS_PER_REQUEST {
        let (device, row) = row_of(request, at);
        body.extend_from_slice(&(FIELDS as u16 + 2).to_be_bytes());
        body.extend_from_slice(&8u32.to_be_bytes());
        body.extend_from_slice(&(time_of(row) / 1_000 - 946_684_800_000_000).to_be_bytes());
        let name = format!("d{device}");
        body.extend_from_slice(&(name.len() as u32).to_be_bytes());
        body.extend_from_slice(name.as_bytes());
        for field in 0..FIELDS as u64 {
            body.extend_from_slice(&8u32.to_be_bytes());
            body.extend_from_slice(&value(device, field, row).to_be_bytes());
        }
    }
    body.extend_from_slice(&(-1i16).to_be_bytes());
    body
}

fn insert_statement(rows: usize) -> String {
    let width = FIELDS + 2;
    let tuples: Vec<String> = (0..rows)
        .map(|row| {
            let places: Vec<String> = (1..=width).map(|place| format!("${}", row * width + place)).collect();
            format!("({})", places.join(", "))
        })
        .collect();
    format!("INSERT INTO cpu VALUES {}", tuples.join(", "))
}

async fn insert_writer(client: &Client, requests: u64, next: &AtomicU64) -> Result<(), Failure> {
    let statement = client.prepare(&insert_statement(ROWS_PER_REQUEST)).await?;
    loop {
        let request = next.fetch_add(1, Ordering::Relaxed);
        if request >= requests {
            return Ok(());
        }
        let rows: Vec<_> = (0..ROWS_PER_REQUEST).map(|at| row_values(request, at)).collect();
        let values: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = rows
            .iter()
            .flat_map(|(time, name, fields)| {
                [time as &(dyn tokio_postgres::types::ToSql + Sync), name]
                    .into_iter()
                    .chain(fields.iter().map(|field| field as &(dyn tokio_postgres::types::ToSql + Sync)))
            })
            .collect();
        client.execute(&statement, &values).await?;
    }
}

fn row_values(request: u64, at: usize) -> (std::time::SystemTime, String, [f64; FIELDS]) {
    let (device, row) = row_of(request, at);
    let time = std::time::UNIX_EPOCH + Duration::from_nanos(time_of(row).cast_unsigned());
    (time, format!("d{device}"), std::array::from_fn(|field| value(device, field as u64, row)))
}

fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let at = ((sorted.len() as f64 - 1.0) * share).round() as usize;
    sorted.get(at).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
}

fn print_latencies(what: &str, mut latencies: Vec<Duration>) {
    latencies.sort();
    println!(
        "{what}: {} samples, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        latencies.len(),
        percentile(&latencies, 0.5),
        percentile(&latencies, 0.9),
        percentile(&latencies, 0.99),
        percentile(&latencies, 1.0)
    );
}

async fn one_row_commits(client: &Client, seconds: u64) -> Result<Vec<Duration>, Failure> {
    let statement = client.prepare(&insert_statement(1).replace("cpu", "orders")).await?;
    let (started, mut latencies) = (Instant::now(), Vec::new());
    let mut row = 0;
    while started.elapsed() < Duration::from_secs(seconds) {
        let (time, name, fields) = row_values(row, 0);
        let mut values: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&time, &name];
        values.extend(fields.iter().map(|field| field as &(dyn tokio_postgres::types::ToSql + Sync)));
        let start = Instant::now();
        client.execute(&statement, &values).await?;
        latencies.push(start.elapsed());
        row += 1;
    }
    Ok(latencies)
}

/// One-row commits at `sync`, alone and next to line protocol at full speed over four connections.
fn commits(runtime: &tokio::runtime::Runtime) -> Result<(), Failure> {
    let dir = fresh_dir("commits")?;
    let server = Server::start(&dir, &[])?;
    let client = runtime.block_on(server.client())?;
    runtime.block_on(client.batch_execute(&CREATE.replace("cpu", "orders")))?;
    print_latencies("one-row commits alone", runtime.block_on(one_row_commits(&client, 20))?);
    let stop = AtomicBool::new(false);
    let bodies: Vec<String> = (0..500).map(line_body).collect();
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| -> Result<(), Failure> {
        for _ in 0..4 {
            scope.spawn(|| bulk_until(&server.http, &bodies, &stop, &sent));
        }
        let latencies = runtime.block_on(one_row_commits(&client, 20));
        stop.store(true, Ordering::Relaxed);
        print_latencies("one-row commits next to a bulk load", latencies?);
        Ok(())
    })?;
    println!(
        "the bulk load wrote {:.2} M points/s at the same time",
        sent.load(Ordering::Relaxed) as f64 / 100.0 / 20.0
    );
    server.stop()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn bulk_until(address: &str, bodies: &[String], stop: &AtomicBool, sent: &AtomicU64) {
    let Ok(mut http) = Http::connect(address) else { return };
    while !stop.load(Ordering::Relaxed) {
        let at = sent.fetch_add(1, Ordering::Relaxed) as usize % bodies.len();
        if http.post("/api/v2/write", bodies[at].as_bytes()).is_err() {
            return;
        }
    }
}

/// A single-key one-hour select over ten million points in segments.
fn select(runtime: &tokio::runtime::Runtime) -> Result<(), Failure> {
    let dir = fresh_dir("select")?;
    let server = Server::start(&dir, &[])?;
    let bodies: Vec<String> = (0..1_000).map(line_body).collect();
    line_writer(&server.http, true, &bodies, &AtomicU64::new(0))?;
    server.stop()?;
    let server = Server::start(&dir, &[])?;
    let client = runtime.block_on(server.client())?;
    let latencies = runtime.block_on(async {
        let statement = client.prepare("SELECT time, f0 FROM cpu WHERE dev = $1 AND time >= $2 AND time < $3").await?;
        let mut latencies = Vec::new();
        for round in 0..500u64 {
            let from = std::time::UNIX_EPOCH + Duration::from_nanos(time_of((round * 37) % 6_000).cast_unsigned());
            let started = Instant::now();
            let rows = client
                .query(&statement, &[&format!("d{}", round % DEVICES), &from, &(from + Duration::from_secs(3_600))])
                .await?;
            latencies.push(started.elapsed());
            if rows.len() != 3_600 {
                return Err(format!("{} rows, 3600 expected", rows.len()).into());
            }
        }
        Ok::<_, Failure>(latencies)
    })?;
    print_latencies("single-key one-hour select (3,600 rows)", latencies);
    println!("server CPU per select: {:.2} ms", server.cpu_seconds() / 500.0 * 1e3);
    server.stop()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Duration of a start after kill -9 with 1 GB of log to replay.
fn recovery(runtime: &tokio::runtime::Runtime) -> Result<(), Failure> {
    let dir = fresh_dir("recovery")?;
    let server = Server::start(&dir, &["--memory", "16GiB"])?;
    let bodies: Vec<String> = (0..500).map(line_body).collect();
    let mut http = Http::connect(&server.http)?;
    let log_bytes = || directory_bytes(&dir.join("log"));
    let mut at = 0;
    while log_bytes()? < 1_070_000_000 {
        http.post("/api/v2/write", bodies[at % bodies.len()].as_bytes())?;
        at += 1;
    }
    server.kill()?;
    println!("{} log bytes on disk after {at} requests", log_bytes()?);
    let started = Instant::now();
    let server = Server::start(&dir, &["--memory", "16GiB"])?;
    let rows: i64 = runtime.block_on(async {
        Ok::<_, Failure>(server.client().await?.query_one("SELECT count(*) FROM cpu", &[]).await?.get(0))
    })?;
    println!("counted {rows} rows {:.2} s after the start; the server said:", started.elapsed().as_secs_f64());
    println!("{}", server.log.lock().expect("the log"));
    server.stop()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Line protocol, one-row commits and grouped selects together under a small memory budget.
fn mixed(runtime: &tokio::runtime::Runtime, minutes: u64) -> Result<(), Failure> {
    let dir = fresh_dir("mixed")?;
    let server = Server::start(&dir, &["--memory", "1GiB"])?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    runtime.block_on(async {
        let both = format!("{CREATE}; {}", CREATE.replace("cpu", "orders"));
        server.client().await?.batch_execute(&both).await.map_err(Failure::from)
    })?;
    std::thread::scope(|scope| -> Result<(), Failure> {
        scope.spawn(|| {
            let Ok(mut http) = Http::connect(&server.http) else { return };
            let started = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                let request = sent.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = http.post("/api/v2/write", line_body(request).as_bytes()) {
                    eprintln!("line protocol: {error}");
                    return;
                }
                let due = Duration::from_millis(request * 50);
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
        });
        let watcher = scope.spawn(|| {
            let mut highest = 0;
            for minute in 1..=minutes {
                std::thread::sleep(Duration::from_secs(60));
                highest = highest.max(server.resident_bytes());
                let points = sent.load(Ordering::Relaxed) * 10_000;
                println!(
                    "minute {minute}: resident {} MiB, {} M points",
                    server.resident_bytes() >> 20,
                    points / 1_000_000
                );
            }
            highest
        });
        let load = runtime.block_on(async {
            let (writer, reader) = (server.client().await?, server.client().await?);
            let reads = async {
                while !watcher.is_finished() {
                    let from = std::time::UNIX_EPOCH + Duration::from_nanos(START_NS.cast_unsigned());
                    let until = from + Duration::from_secs(sent.load(Ordering::Relaxed) * 10);
                    let sql = "SELECT dev, time_bucket('1 hour', time) AS hour, avg(f0), max(f1) FROM cpu \
                               WHERE time >= $1 AND time < $2 GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 10";
                    let rows = reader.query(sql, &[&(until - Duration::from_secs(7_200)), &until]).await?;
                    if rows.is_empty() && sent.load(Ordering::Relaxed) > 100 {
                        return Err("a select of the newest rows found none".into());
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Ok::<_, Failure>(())
            };
            let writes = async {
                let statement = writer.prepare(&insert_statement(1).replace("cpu", "orders")).await?;
                for row in 0.. {
                    if watcher.is_finished() {
                        break;
                    }
                    let (time, name, fields) = row_values(row, 0);
                    let mut values: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&time, &name];
                    values.extend(fields.iter().map(|field| field as &(dyn tokio_postgres::types::ToSql + Sync)));
                    writer.execute(&statement, &values).await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(())
            };
            futures::future::try_join(reads, writes).await
        });
        let highest = watcher.join().map_err(|_| "the watcher panicked")?;
        stop.store(true, Ordering::Relaxed);
        load?;
        println!("highest resident size {} MiB", highest >> 20);
        Ok(())
    })?;
    server.stop()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
