//! The clients against IOCs that stall, vanish, come back as others, or whose clock is wrong. Each test has a client of each protocol.

use std::net::SocketAddrV4;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use epics::ca;
use epics::client::{ChannelId, Event, Reason, Update};
use epics::pva;
use epics::sample::{Array, Nanos, Scalar, Value, ValueType};
use tokio::join;
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::fake_server::FakeServer;
use crate::ioc::{Ioc, Place};
use crate::pva_fake::FakePva;
use crate::stopping_router::Router;
use crate::watch::{Subscriber, Watch, count_of, now, pva_settings, settings};

/// A timeout that is short for a test, and long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A stop that a client does not notice.
const SHORT_STOP: Duration = Duration::from_millis(1_000);

/// A client with one channel, and all events of the channel so far.
struct Observer<C> {
    watch: Watch<C>,
    channel: ChannelId,
    updates: Vec<Update>,
}

impl<C: Subscriber> Observer<C> {
    /// Subscribes to a PV and waits for its first sample.
    async fn of(watch: Watch<C>, name: &str) -> Observer<C> {
        let channel = watch.subscribe(name).await;
        let mut observer = Observer { watch, channel, updates: Vec::new() };
        observer.samples(1).await;
        observer
    }

    /// Waits for an event that is as `wanted`.
    async fn until(&mut self, wanted: impl Fn(&Event) -> bool) {
        loop {
            let update = self.watch.next().await;
            assert_eq!(update.channel, self.channel);
            let found = wanted(&update.event);
            self.updates.push(update);
            if found {
                return;
            }
        }
    }

    async fn samples(&mut self, n: usize) {
        for _ in 0..n {
            self.until(|event| matches!(event, Event::Sample(_))).await;
        }
    }

    async fn disconnected(&mut self) {
        self.until(|event| matches!(event, Event::Disconnected(_))).await;
    }

    /// Kinds of the events without metadata; samples in a row are one.
    fn story(&self) -> Vec<String> {
        let mut story: Vec<String> = Vec::new();
        for update in &self.updates {
            let kind = match &update.event {
                // A second server may answer before the first has opened the channel.
                Event::Metadata(_) | Event::AlsoAt(_) => continue,
                Event::Connected { .. } => "connected".to_owned(),
                Event::Sample(_) => "samples".to_owned(),
                other => format!("{other:?}"),
            };
            if story.last() != Some(&kind) {
                story.push(kind);
            }
        }
        story
    }

    /// Checks the samples of T:CNT: the first after a connection repeats the last or is newer, every other is one more.
    fn check_counts(&self) {
        let mut last: Option<(i32, Nanos)> = None;
        let mut is_first = false;
        for update in &self.updates {
            match &update.event {
                Event::Connected { .. } => is_first = true,
                Event::Sample(sample) => {
                    let (n, time) = (count_of(sample), sample.time);
                    let follows = match last {
                        None => true,
                        Some(last) if is_first => (n, time) == last || (n > last.0 && time > last.1),
                        Some(last) => n == last.0 + 1 && time > last.1,
                    };
                    assert!(follows, "{n} at {time} after {last:?}");
                    (last, is_first) = (Some((n, time)), false);
                }
                _ => {}
            }
        }
    }

    /// Values of the samples with the type of their connection, each once in a row.
    fn sample_values(&self) -> Vec<(ValueType, Value)> {
        let mut values = Vec::new();
        let mut ty = None;
        for update in &self.updates {
            match &update.event {
                Event::Connected { native, .. } => ty = Some(*native),
                Event::Sample(sample) => values.push((ty.expect("a connection before"), sample.value.clone())),
                _ => {}
            }
        }
        values.dedup();
        values
    }
}

fn ca_watch(settings: ca::Settings) -> Watch {
    Watch::new(ca::Settings { connection_timeout: TIMEOUT, ..settings })
}

fn pva_watch(settings: pva::Settings) -> Watch<pva::Client> {
    Watch::pva(pva::Settings { connection_timeout: TIMEOUT, ..settings })
}

/// Observers of a PV by both protocols, which hear beacons, so that they find a restarted IOC soon.
async fn observers(place: Place, name: &str) -> (Observer<ca::Client>, Observer<pva::Client>) {
    let ca = ca_watch(ca::Settings { repeater: Some(place.ca_beacons), ..place.ca_settings() });
    let pva = pva_watch(pva::Settings { beacons: vec![place.pva_beacons], ..place.pva_settings() });
    join!(Observer::of(ca, name), Observer::of(pva, name))
}

/// A short stop and then a long one of something between the clients and the counter of an IOC. The short one costs nothing, and
/// after the long one both clients have missed the IOC, found it, and seen no sample that was not.
async fn stop_and_go_on(
    (mut ca, mut pva): (Observer<ca::Client>, Observer<pva::Client>),
    stop: impl Fn(),
    go_on: impl Fn(),
) {
    join!(ca.samples(3), pva.samples(3));
    stop();
    sleep(SHORT_STOP).await;
    go_on();
    join!(ca.samples(12), pva.samples(12));
    assert_eq!(ca.story(), ["connected", "samples"]);
    assert_eq!(pva.story(), ["connected", "samples"]);
    stop();
    join!(ca.disconnected(), pva.disconnected());
    go_on();
    join!(ca.samples(5), pva.samples(5));
    let unresponsive = format!("{:?}", Event::Disconnected(Reason::Unresponsive));
    let expected = ["connected", "samples", &unresponsive, "connected", "samples"];
    assert_eq!(ca.story(), expected);
    assert_eq!(pva.story(), expected);
    ca.check_counts();
    pva.check_counts();
}

#[tokio::test]
async fn a_stalled_ioc_is_missed_after_the_timeout_and_found_when_it_goes_on() {
    let place = Place::free();
    let ioc = place.start();
    stop_and_go_on(observers(place, "T:CNT").await, || ioc.stop(), || ioc.go_on()).await;
}

#[tokio::test]
async fn an_ioc_that_vanishes_without_closing_is_missed_after_the_timeout_and_found_when_it_is_back() {
    let place = Place::free();
    let _ioc = place.start();
    let routers = (Router::to_ca(place.ca).await, Router::to_pva(place.pva).await);
    let both = join!(
        Observer::of(ca_watch(settings(&[routers.0.searches])), "T:CNT"),
        Observer::of(pva_watch(pva_settings(&[routers.1.searches])), "T:CNT")
    );
    let stop = || {
        routers.0.stop();
        routers.1.stop();
    };
    let go_on = || {
        routers.0.go_on();
        routers.1.go_on();
    };
    stop_and_go_on(both, stop, go_on).await;
}

/// Stamps of T:STEP: the table of `soft_ioc_pva.py`.
fn step_time(n: i32) -> Nanos {
    let steps = [0, -1, 10_800, -10_800, 1 - 1_068_848_000, 2_402_444_800];
    (1_700_000_000 + i64::from(n) + steps[n as usize % steps.len()]) * 1_000_000_000
}

#[tokio::test]
async fn samples_keep_the_stamps_of_a_clock_that_steps_and_arrive_in_the_order_of_their_values() {
    let place = Place::free();
    let _ioc = place.start();
    let (mut ca, mut pva) = observers(place, "T:STEP").await;
    let check = |updates: &[Update]| {
        let of = |update: &Update| match &update.event {
            Event::Sample(sample) => Some((count_of(sample), sample.time, update.received)),
            _ => None,
        };
        let mut samples: Vec<(i32, Nanos, Nanos)> = updates.iter().filter_map(of).collect();
        // Before its first stamp, the record has a value of no time.
        samples.retain(|&(n, ..)| n > 0);
        assert!(samples.len() >= 29, "{samples:?}");
        assert!(samples.iter().all(|&(n, time, _)| time == step_time(n)), "{samples:?}");
        assert!(samples.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{samples:?}");
        assert!(samples.is_sorted_by_key(|&(.., received)| received), "{samples:?}");
        assert!(samples.iter().all(|&(.., received)| (now() - received).abs() < 60_000_000_000), "{samples:?}");
    };
    join!(ca.samples(30), pva.samples(30));
    for (updates, story) in [(&ca.updates, ca.story()), (&pva.updates, pva.story())] {
        check(updates);
        assert_eq!(story, ["connected", "samples"]);
    }
}

#[tokio::test]
async fn a_pv_whose_type_changes_with_each_restart_has_samples_of_the_type_it_was_connected_with() {
    let place = Place::free();
    let start = |kind| place.run(&["soft_ioc_pva.py", "T", "0", kind]);
    let mut ioc = start("double");
    let (mut ca, mut pva) = observers(place, "T:VAR").await;
    for kind in ["string", "waveform"] {
        drop(ioc);
        join!(ca.disconnected(), pva.disconnected());
        ioc = start(kind);
        join!(ca.samples(1), pva.samples(1));
    }
    let expected = [
        (ValueType::Float64, Value::Scalar(Scalar::Float64(1.5))),
        (ValueType::Text, Value::Scalar(Scalar::Text("one and a half".into()))),
        (ValueType::Float64, Value::Array(Array::Float64(vec![1.5, 2.5]))),
    ];
    assert_eq!(ca.sample_values(), expected);
    assert_eq!(pva.sample_values(), expected);
    let closed = format!("{:?}", Event::Disconnected(Reason::CircuitClosed));
    let story = ["connected", "samples", &closed, "connected", "samples", &closed, "connected", "samples"];
    assert_eq!(ca.story(), story);
    assert_eq!(pva.story(), story);
}

/// Addresses of the connections.
fn hosts(updates: &[Update]) -> Vec<SocketAddrV4> {
    let of = |update: &Update| match update.event {
        Event::Connected { host, .. } => Some(host),
        _ => None,
    };
    updates.iter().filter_map(of).collect()
}

#[tokio::test]
async fn an_ioc_that_comes_back_at_another_port_is_found_there() {
    let place = Place::free();
    let ioc = place.start();
    let (mut ca, mut pva) = observers(place, "T:CNT").await;
    drop(ioc);
    join!(ca.disconnected(), pva.disconnected());
    // An IOC whose port is taken serves at another, and still receives searches at its own.
    let _taken = (TcpListener::bind(place.ca).await.unwrap(), TcpListener::bind(place.pva).await.unwrap());
    let _ioc = place.start();
    join!(ca.samples(5), pva.samples(5));
    for (before, updates) in [(place.ca, &ca.updates), (place.pva, &pva.updates)] {
        let hosts = hosts(updates);
        assert!(hosts.len() == 2 && hosts[0] == before && hosts[1] != before, "{hosts:?}");
    }
}

/// Two IOCs serve a name: the client keeps the one that answered first, reports the other, and changes to it when the first has
/// ended.
async fn two_iocs<C: Subscriber>(watch: Watch<C>, iocs: [(SocketAddrV4, Ioc); 2]) {
    let mut observer = Observer::of(watch, "T:CNT").await;
    observer.watch.until_counted(|statistics| statistics.duplicate_names.get() > 0).await;
    observer.samples(5).await;
    let first = hosts(&observer.updates)[0];
    let [one, other] = iocs;
    let (ended, left) = if one.0 == first { (one, other) } else { (other, one) };
    drop(ended);
    observer.disconnected().await;
    observer.samples(5).await;
    assert_eq!(hosts(&observer.updates), [first, left.0]);
    let also = observer.updates.iter().filter(|update| update.event == Event::AlsoAt(left.0)).count();
    assert_eq!(also, 1, "the other server is reported once");
    let closed = format!("{:?}", Event::Disconnected(Reason::CircuitClosed));
    assert_eq!(observer.story(), ["connected", "samples", &closed, "connected", "samples"]);
}

#[tokio::test]
async fn of_two_iocs_with_a_name_the_first_to_answer_serves_it_by_channel_access() {
    let places = [Place::free(), Place::free()];
    let [one, other] = Place::start_two(places);
    let watch = ca_watch(settings(&places.map(|place| place.ca)));
    two_iocs(watch, [(places[0].ca, one), (places[1].ca, other)]).await;
}

#[tokio::test]
async fn of_two_iocs_with_a_name_the_first_to_answer_serves_it_by_pv_access() {
    let places = [Place::free(), Place::free()];
    let [one, other] = Place::start_two(places);
    let watch = pva_watch(pva_settings(&places.map(|place| place.pva_searches)));
    two_iocs(watch, [(places[0].pva, one), (places[1].pva, other)]).await;
}

/// Names that no server has, each searched for five times.
const ABSENT: u64 = 10_000;
/// The limit of the default settings, and the datagrams that may be sent at once after a pause.
const DATAGRAMS_PER_SECOND: f64 = 500.0;
const BURST: f64 = 8.0;

async fn search_for_absent_names<C: Subscriber>(watch: Watch<C>) {
    let start = Instant::now();
    for n in 0..ABSENT {
        watch.subscribe(&format!("T:ABSENT{n:05}")).await;
    }
    let statistics = watch.statistics();
    watch
        .until_counted(|statistics| {
            let (datagrams, searches) = (statistics.search_datagrams.get(), statistics.searches.get());
            // The time is read after the counters, so that no more can have been sent in less.
            let seconds = start.elapsed().as_secs_f64();
            assert!(datagrams as f64 <= DATAGRAMS_PER_SECOND * seconds + BURST, "{datagrams} in {seconds} s");
            // The n-th search for a name follows the first after 0.1 × (2^(n-1) - 1) s.
            let each = (seconds / 0.1 + 1.0).log2().floor() as u64 + 1;
            assert!(searches <= ABSENT * each, "{searches} searches in {seconds} s");
            searches >= 5 * ABSENT
        })
        .await;
    assert_eq!((statistics.connected_channels.get(), statistics.searching_channels.get()), (0, ABSENT));
}

#[tokio::test]
async fn ten_thousand_names_that_nobody_serves_cost_few_full_datagrams() {
    let ca = FakeServer::start(Vec::<(String, _)>::new()).await;
    let pva = FakePva::start(Vec::<(String, _)>::new()).await;
    join!(
        search_for_absent_names(Watch::new(settings(&[ca.address]))),
        search_for_absent_names(Watch::pva(pva_settings(&[pva.address])))
    );
    for (behaviour, name_bytes) in [
        ((&ca.behaviour().search_datagrams, &ca.behaviour().largest_datagram), 32),
        ((&pva.behaviour().search_datagrams, &pva.behaviour().largest_datagram), 18),
    ] {
        let (datagrams, largest) = (behaviour.0.load(Relaxed), behaviour.1.load(Relaxed));
        assert!((1_300..=1_400).contains(&largest), "{largest} bytes");
        // Datagrams are full, but for the last of each round.
        let full = 5 * ABSENT as usize * name_bytes / 1_300;
        assert!(datagrams > 0 && datagrams < full * 11 / 10, "{datagrams} datagrams, {full} full ones");
    }
}
