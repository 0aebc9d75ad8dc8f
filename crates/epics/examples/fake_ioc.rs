//! A fake IOC in a process of its own, to load an archiver: PVs that count up.
//!
//! `cargo run --release -p epics --example fake_ioc -- PORT PVS HZ SECONDS [PREFIX]` serves `PREFIX00000` … on 127.0.0.1:PORT. It
//! counts from 1 a few seconds after its start, and stays when it has counted for SECONDS, so that each PV ends at HZ · SECONDS.

#![allow(clippy::unwrap_used, reason = "a tool for tests")]
#![allow(dead_code, reason = "the tests use more of the server")]

#[path = "../tests/it/fake_server.rs"]
mod fake_server;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use epics::sample::{Sample, Scalar, Severity, Value};
use fake_server::{FakeServer, Pv};

/// Parts of a period in which PVs are posted.
const PARTS: usize = 20;
/// Time for the archiver to find all PVs.
const WARM_UP: Duration = Duration::from_secs(10);

fn sample(count: i32) -> Sample {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    Sample { time, value: Value::Scalar(Scalar::Int32(count)), severity: Severity::None, status: 0 }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, pvs, hz, seconds] = [0, 1, 2, 3].map(|at| arguments[at].parse::<u32>().expect("a number"));
    let prefix = arguments.get(4).map_or("F:", String::as_str);
    let names: Vec<String> = (0..pvs).map(|pv| format!("{prefix}{pv:05}")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let all = names.iter().map(|name| (name.clone(), Pv::new(sample(0), 1)));
        let server = FakeServer::start_at(port as u16, all).await;
        println!("serves {pvs} PVs at {}", server.address);
        tokio::time::sleep(WARM_UP).await;
        let mut tick = tokio::time::interval(Duration::from_secs(1) / hz / PARTS as u32);
        for count in 1..=(hz * seconds) as i32 {
            for part in 0..PARTS {
                tick.tick().await;
                names.iter().skip(part).step_by(PARTS).for_each(|name| server.post(name, sample(count)));
            }
        }
        println!("counted to {}", hz * seconds);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
    });
}
