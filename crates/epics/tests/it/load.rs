//! Cost of receiving updates. Run by hand, in release:
//! `cargo test --release -p epics -- --ignored --nocapture load`

use std::time::{Duration, Instant};

use epics::ca::Event;

use crate::fake_server::{FakeServer, Pv};
use crate::watch::{Watch, count_of, counter, settings};

const PVS: usize = 2_000;
const SECONDS: i32 = 20;

/// Processor time of this thread. Linux only.
pub(crate) fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

fn name(pv: usize) -> String {
    format!("T:CNT{pv:05}")
}

/// Serves the PVs on a thread of its own, and counts each up at 10 Hz. `spread`: in ten parts, one each 10 ms.
fn serve(address: std::sync::mpsc::Sender<std::net::SocketAddrV4>, spread: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = FakeServer::start((0..PVS).map(|pv| (name(pv), Pv::new(counter(0), 1)))).await;
        address.send(server.address).unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut tick = tokio::time::interval(Duration::from_millis(100) / spread as u32);
        for n in 1..=SECONDS * 10 {
            for part in 0..spread {
                tick.tick().await;
                (part..PVS).step_by(spread).for_each(|pv| server.post(&name(pv), counter(n)));
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
}

fn measure(spread: usize) {
    let (sender, address) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || serve(sender, spread));
    let address = address.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut watch = Watch::new(settings(&[address]));
        let start = Instant::now();
        let mut channels = Vec::new();
        for pv in 0..PVS {
            channels.push(watch.subscribe(&name(pv)).await);
        }
        watch.samples_of(&channels).await;
        println!("{PVS} channels connected in {:?}, CPU {:?}", start.elapsed(), thread_time());
        let (start, before) = (Instant::now(), thread_time());
        let mut last = vec![0; PVS];
        let (mut updates, mut batches) = (0, 0);
        while updates < PVS * SECONDS as usize * 10 {
            batches += 1;
            for update in watch.events.next_batch().await.unwrap().into_updates() {
                let Event::Sample(sample) = update.event else { continue };
                let n = count_of(&sample);
                let last = &mut last[update.channel.0 as usize];
                assert_eq!(n, *last + 1, "nothing is lost");
                *last = n;
                updates += 1;
            }
        }
        let cpu = thread_time() - before;
        let per_million = cpu.as_secs_f64() * 1e6 / updates as f64;
        println!(
            "{updates} updates in {batches} batches, {:?}: CPU {cpu:?}, {per_million:.3} s a million",
            start.elapsed()
        );
    });
    server.join().unwrap();
}

#[test]
#[ignore = "a measurement of 25 s"]
fn load_of_2000_pvs_at_10_hz_in_one_burst_each() {
    measure(1);
}

#[test]
#[ignore = "a measurement of 25 s"]
fn load_of_2000_pvs_at_10_hz_spread_over_100_parts() {
    measure(100);
}

/// Resident memory of this process in MiB. Linux only.
pub(crate) fn resident_mib() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1_024
}

#[test]
#[ignore = "a measurement"]
fn load_of_100_000_channels_at_100_servers() {
    let (sender, addresses) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut servers = Vec::new();
            for server in 0..100 {
                let pvs = (0..1_000).map(|pv| (name(server * 1_000 + pv), Pv::new(counter(0), 1)));
                servers.push(FakeServer::start(pvs).await);
                sender.send(servers[server].address).unwrap();
            }
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        });
    });
    let addresses: Vec<_> = (0..100).map(|_| addresses.recv().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut watch = Watch::new(epics::ca::Settings { search_datagrams_per_second: 20_000, ..settings(&addresses) });
        let (start, before, resident) = (Instant::now(), thread_time(), resident_mib());
        let mut channels = Vec::new();
        for pv in 0..100_000 {
            channels.push(watch.subscribe(&name(pv)).await);
        }
        watch.samples_of(&channels).await;
        let (elapsed, cpu) = (start.elapsed(), thread_time() - before);
        let resident = resident_mib() - resident;
        println!("100000 channels connected in {elapsed:?}, CPU {cpu:?}, {resident} MiB with the servers' share");
        let statistics = watch.client.statistics();
        println!("{} searches in {} datagrams", statistics.searches.get(), statistics.search_datagrams.get());
        let before = thread_time();
        tokio::time::sleep(Duration::from_secs(20)).await;
        println!("idle for 20 s: CPU {:?}", thread_time() - before);
    });
}
