//! Cost of receiving updates by PV Access. Run by hand, in release:
//! `cargo test --release -p epics -- --ignored --nocapture pva_load`

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use epics::client::Event;

use crate::load::{resident_mib, thread_time};
use crate::pva_fake::{FakePva, Pv};
use crate::watch::{Watch, count_of, pva_settings};

const PVS: usize = 2_000;
const SECONDS: i32 = 20;

fn name(pv: usize) -> String {
    format!("T:CNT{pv:05}")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Serves the PVs on a thread of its own, and counts each up at 10 Hz. `spread`: in so many parts.
fn serve(address: std::sync::mpsc::Sender<SocketAddrV4>, spread: usize) {
    runtime().block_on(async {
        let server = FakePva::start((0..PVS).map(|pv| (name(pv), Pv::counter(0)))).await;
        address.send(server.address).unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut tick = tokio::time::interval(Duration::from_millis(100) / spread as u32);
        // A server that was stopped for a while does not catch up in one burst, in which no acknowledgement would be read.
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for n in 1..=SECONDS * 10 {
            for part in 0..spread {
                tick.tick().await;
                (part..PVS).step_by(spread).for_each(|pv| server.count(&name(pv), n));
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
}

fn measure(spread: usize) {
    let (sender, address) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || serve(sender, spread));
    let address = address.recv().unwrap();
    runtime().block_on(async {
        let mut watch = Watch::pva(pva_settings(&[address]));
        let start = Instant::now();
        let mut channels = Vec::new();
        for pv in 0..PVS {
            channels.push(watch.subscribe(&name(pv)).await);
        }
        watch.samples_of(&channels).await;
        println!("{PVS} channels connected in {:?}, CPU {:?}", start.elapsed(), thread_time());
        let (start, before) = (Instant::now(), thread_time());
        let mut last = vec![0; PVS];
        let mut overrun = vec![false; PVS];
        let (mut updates, mut overruns, mut batches) = (0, 0, 0);
        while last.iter().any(|&n| n < SECONDS * 10) {
            batches += 1;
            for update in watch.events.next_batch().await.unwrap().into_updates() {
                let channel = update.channel.0 as usize;
                match update.event {
                    Event::Overrun => overrun[channel] = true,
                    Event::Sample(sample) => {
                        let n = count_of(&sample);
                        let reported = std::mem::take(&mut overrun[channel]);
                        assert_eq!(n != last[channel] + 1, reported, "{n} after {}", last[channel]);
                        last[channel] = n;
                        updates += 1;
                        overruns += usize::from(reported);
                    }
                    _ => {}
                }
            }
        }
        let cpu = thread_time() - before;
        let per_million = cpu.as_secs_f64() * 1e6 / updates as f64;
        println!(
            "{updates} updates, {overruns} after losses in the server, in {batches} batches, {:?}: CPU {cpu:?}, {per_million:.3} s a million",
            start.elapsed()
        );
    });
    server.join().unwrap();
}

#[test]
#[ignore = "a measurement of 25 s"]
fn pva_load_of_2000_pvs_at_10_hz_in_one_burst_each() {
    measure(1);
}

#[test]
#[ignore = "a measurement of 25 s"]
fn pva_load_of_2000_pvs_at_10_hz_spread_over_100_parts() {
    measure(100);
}

/// The channels of 100 servers, with the metadata of IOCs.
#[test]
#[ignore = "a measurement"]
fn pva_load_of_100_000_channels_at_100_servers() {
    let (sender, addresses) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let mut servers = Vec::new();
            for server in 0..100 {
                let pvs = (0..1_000).map(|pv| (name(server * 1_000 + pv), Pv::analog(0.0, "mA")));
                servers.push(FakePva::start(pvs).await);
                sender.send(servers[server].address).unwrap();
            }
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        });
    });
    let addresses: Vec<_> = (0..100).map(|_| addresses.recv().unwrap()).collect();
    runtime().block_on(async {
        let settings = epics::pva::Settings { search_datagrams_per_second: 20_000, ..pva_settings(&addresses) };
        let mut watch = Watch::pva(settings);
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
