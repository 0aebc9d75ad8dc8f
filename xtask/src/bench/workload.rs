//! One run: a fixed amount of writes and reads, the same for every binary.

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::http::Client;
use super::server::Server;
use crate::Result;

const ROWS_PER_REQUEST: u64 = 1_000;
const FIELDS: u64 = 10;
const DEVICES: u64 = 100;
/// 2026-01-01T00:00:00Z; a request contains one second: ten readings of every device.
const START_NS: u64 = 1_767_225_600_000_000_000;
const STEP_NS: u64 = 100_000_000;

/// Size of a run.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) requests: u64,
    pub(super) connections: u64,
    pub(super) queries: u64,
}

/// Measurements of a run.
pub(super) struct Figures {
    points_per_second: f64,
    cpu_per_million_points: f64,
    select_ms: f64,
    select_cpu_ms: f64,
}

/// Name of a figure, whether higher or lower is better, and its getter.
type Figure = (&'static str, &'static str, fn(&Figures) -> f64);

impl Figures {
    pub(super) const ALL: [Figure; 4] = [
        ("points/s written", "more", |figures| figures.points_per_second),
        ("server CPU s per million points", "less", |figures| figures.cpu_per_million_points),
        ("median select, ms", "less", |figures| figures.select_ms),
        ("server CPU ms per select", "less", |figures| figures.select_cpu_ms),
    ];
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} points/s, {:.3} CPU s per million points, select {:.2} ms median, {:.2} CPU ms",
            self.points_per_second, self.cpu_per_million_points, self.select_ms, self.select_cpu_ms
        )
    }
}

/// Starts `binary`, writes, reads, stops it.
pub(super) fn run(binary: &Path, size: Size) -> Result<Figures> {
    let server = Server::start(binary)?;
    let started = Instant::now();
    write_all(&server.http, size)?;
    let written = started.elapsed().as_secs_f64();
    let before_selects = server.cpu()?;
    let select_ms = read_all(&server.http, size)?;
    let select_cpu = server.cpu()? - before_selects;
    let total_cpu = server.stop()?;
    let points = (size.requests * ROWS_PER_REQUEST * FIELDS) as f64;
    Ok(Figures {
        points_per_second: points / written,
        cpu_per_million_points: (total_cpu - select_cpu) / points * 1e6,
        select_ms,
        // The kernel counts in units of 10 ms; less than one tick is reported as one tick, not as 0.
        select_cpu_ms: (select_cpu * 1e3).max(10.0) / size.queries as f64,
    })
}

fn write_all(host: &str, size: Size) -> Result {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..size.connections).map(|_| scope.spawn(|| writer(host, &next, size.requests))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| "a writer panicked".to_owned())?)
    })
}

fn writer(host: &str, next: &AtomicU64, requests: u64) -> Result {
    let mut client = Client::connect(host)?;
    let mut body = String::new();
    loop {
        let request = next.fetch_add(1, Ordering::Relaxed);
        if request >= requests {
            return Ok(());
        }
        fill(&mut body, request);
        let (code, reply) = client.send("POST", "/write?precision=ns", body.as_bytes())?;
        if code != 204 {
            return Err(format!("write answered {code}: {}", String::from_utf8_lossy(&reply)));
        }
    }
}

/// Readings of all devices for one second: random walks with two decimals, which compress like sensor data.
fn fill(body: &mut String, request: u64) {
    body.clear();
    let mut noise = request.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for row in 0..ROWS_PER_REQUEST {
        let (device, step) = (row % DEVICES, request * (ROWS_PER_REQUEST / DEVICES) + row / DEVICES);
        // Writing to a String cannot fail.
        let _ = write!(body, "bench,device=d{device:03} ");
        for field in 0..FIELDS {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let value = (device * 100 + field * 10 + step % 50) * 100 + noise % 200;
            let comma = if field == 0 { "" } else { "," };
            let _ = write!(body, "{comma}f{field}={}.{:02}", value / 100, value % 100);
        }
        let _ = writeln!(body, " {}", START_NS + step * STEP_NS);
    }
}

/// Alternates a count over one series and a grouped aggregate, and checks the results. Returns the median in ms.
fn read_all(host: &str, size: Size) -> Result<f64> {
    let mut client = Client::connect(host)?;
    let rows = size.requests * ROWS_PER_REQUEST / DEVICES;
    let mut times = Vec::new();
    for query in 0..size.queries {
        let device = query % DEVICES;
        let sql = if query % 2 == 0 {
            format!("SELECT count(f0) AS n FROM bench WHERE device = 'd{device:03}'")
        } else {
            "SELECT min(n) AS n FROM (SELECT device, count(f1) AS n, avg(f2) AS m FROM bench GROUP BY device) t"
                .to_owned()
        };
        let started = Instant::now();
        let (code, reply) = client.send("POST", "/sql?format=csv", sql.as_bytes())?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        let reply = String::from_utf8_lossy(&reply);
        if code != 200 || reply.split_whitespace().nth(1) != Some(rows.to_string().as_str()) {
            return Err(format!("{sql}\nanswered {code}, expected {rows}: {reply}"));
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
