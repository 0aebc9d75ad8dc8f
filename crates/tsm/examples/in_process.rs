//! HAKOM's scaling test in one process, without a wire: `cargo run --release -p tsm --example in_process [REPEATS] [DIRECTORY]`.
//!
//! 1,000 series of quarter hours, 31 days, are written and read by requests of one series and of 100, one after the other and by 10
//! tasks. Each repetition writes other values, and sums of what is read are compared with what was written. CPU is that of the
//! whole process, the log included.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use engine::{Engine, Options};
use env::{Env, RealEnv};
use model::{Error, Result};
use query::Database;
use query::client::SqlClient;
use tsm::{Flag, Points, SeriesPoints, Tsm};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SERIES: usize = 1_000;
const VALUES: usize = 31 * 96;
const TASKS: usize = 10;
const QUARTER_HOUR: i64 = 900_000_000_000;
/// 2025-01-01T00:00:00Z.
const START: i64 = 1_735_689_600_000_000_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let repeats = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(3);
    let folder = std::env::args().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).map_err(|error| Error::io("create a directory", &error))?;
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let (engine, _) = Engine::open(env, folder.path(), Options { memory_bytes: 4 << 30, ..Options::default() })?;
    let options = query::Options { memory_bytes: 4 << 30, threads: 2, files: None };
    let database = Database::new(engine.clone(), options)?;
    let tsm = Tsm::default();
    tsm.install(&database).await?;
    let define = format!(
        "INSERT INTO tsm.series (name, step, multiplier, unit) \
         SELECT 'S' || n, 'Minute', 15, 'kW' FROM generate_series(0, {}) AS n",
        SERIES - 1
    );
    SqlClient::new(&database).run(&define, &[]).await?;
    println!(
        "{:>8} {:>10} {:>8} {:>9} {:>14} {:>14}",
        "requests", "service", "", "median s", "values/s", "CPU ns/value"
    );
    let mut seed = 0;
    for (requests, bulk) in [("single", 1), ("bulk", 100)] {
        for (service, tasks) in [("serial", 1), ("parallel", TASKS)] {
            let (mut writes, mut reads) = (Vec::new(), Vec::new());
            for _ in 0..repeats {
                seed += 1;
                writes.push(run(&database, &tsm, (bulk, tasks), seed, true).await?);
                // HAKOM reads what was written before, not what is being merged.
                engine.flush()?;
                reads.push(run(&database, &tsm, (bulk, tasks), seed, false).await?);
            }
            for (name, all) in [("write", &mut writes), ("read", &mut reads)] {
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (elapsed, cpu) = all[all.len() / 2];
                let values = (SERIES * VALUES) as f64;
                let each = cpu * 1e9 / values;
                println!(
                    "{requests:>8} {service:>10} {name:>8} {elapsed:>9.3} {:>14.0} {each:>14.1}",
                    values / elapsed
                );
            }
        }
    }
    engine.close()
}

enum Request {
    Write(Vec<SeriesPoints>),
    /// Names, and the sums of their points.
    Read(Vec<String>, (i64, i64)),
}

/// Writes or reads all series by requests of `bulk` series in `tasks`: elapsed and CPU seconds.
async fn run(
    database: &Database,
    tsm: &Tsm,
    (bulk, tasks): (usize, usize),
    seed: usize,
    is_write: bool,
) -> Result<(f64, f64)> {
    let mut shares: Vec<Vec<Request>> = (0..tasks).map(|_| Vec::new()).collect();
    for (at, first) in (0..SERIES).step_by(bulk).enumerate() {
        let all: Vec<SeriesPoints> = (first..first + bulk).map(|series| points(series, seed)).collect();
        shares[at % tasks].push(if is_write {
            Request::Write(all)
        } else {
            Request::Read(all.iter().map(|series| series.name.clone()).collect(), sums(&all))
        });
    }
    let (started, cpu) = (Instant::now(), cpu_s()?);
    let running: Vec<_> = shares
        .into_iter()
        .map(|share| {
            let (database, tsm) = (database.clone(), tsm.clone());
            tokio::spawn(async move {
                let end = START + VALUES as i64 * QUARTER_HOUR;
                for request in share {
                    match request {
                        Request::Write(all) => tsm.write(&database, "default", "bench", all).await?,
                        Request::Read(names, expected) => {
                            let found = tsm.read(&database, "default", &names, (START, end)).await?;
                            assert!(sums(&found) == expected, "what is read differs from what was written");
                        }
                    }
                }
                Ok(())
            })
        })
        .collect();
    for task in running {
        task.await.map_err(Error::bug)??;
    }
    Ok((started.elapsed().as_secs_f64(), cpu_s()? - cpu))
}

fn points(series: usize, seed: usize) -> SeriesPoints {
    let value = |at: usize| ((series * 31 + seed * 7 + at * 13) % 100_000) as f64 / 100.0;
    let flag = |at: usize| if at.is_multiple_of(64) { Flag::Estimated } else { Flag::Valid };
    SeriesPoints {
        name: format!("S{series}"),
        times: (0..VALUES as i64).map(|at| START + at * QUARTER_HOUR).collect(),
        points: (0..VALUES).map(|at| (Some(value(at)), flag(at))).collect::<Points>(),
    }
}

/// Sums of values, which are exact in hundredths, and of flags.
fn sums(all: &[SeriesPoints]) -> (i64, i64) {
    let of = |series: &SeriesPoints| {
        let values: i64 = series.points.values.iter().map(|value| (value * 100.0).round() as i64).sum();
        (values, series.points.flags.iter().map(|flag| i64::from(flag.id())).sum())
    };
    all.iter().map(of).fold((0, 0), |(a, b): (i64, i64), (c, d): (i64, i64)| (a + c, b + d))
}

/// CPU of this process so far.
fn cpu_s() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").map_err(|error| Error::io("read /proc/self/stat", &error))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    Ok((ticks(11) + ticks(12)) / 100.0)
}
