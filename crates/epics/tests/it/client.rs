//! The client against the server in this process.

use std::collections::HashSet;
use std::net::SocketAddrV4;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use epics::ca::protocol::{Header, Response, command};
use epics::ca::{
    Access, ChannelId, Client, DropReason, Error, Event, EventMask, NativeType, Options, Reason, Settings,
};
use epics::sample::{Array, Limits, Metadata, Scalar, Value, ValueType};
use tokio::time::{sleep, timeout};

use crate::fake_server::{FakeServer, NO_READ_ACCESS, Pv};
use crate::watch::{Watch, count_of, counter, now, of, settings};

/// A timeout that is short for a test, and long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(1_000);

fn counters(n: usize) -> impl Iterator<Item = (String, Pv)> {
    (0..n).map(|i| (format!("T:CNT{i:05}"), Pv::new(counter(0), 1)))
}

async fn one_counter() -> (FakeServer, Watch, ChannelId) {
    let server = FakeServer::start([("T:CNT", Pv::new(counter(0), 1))]).await;
    let mut watch = Watch::new(settings(&[server.address]));
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    (server, watch, channel)
}

fn is_connected(event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

fn is_disconnected(event: &Event) -> bool {
    matches!(event, Event::Disconnected(_))
}

#[tokio::test]
async fn a_value_of_every_type_arrives_as_it_was_sent() {
    let values = [
        (NativeType::String, Value::Scalar(Scalar::Text("beam on".into()))),
        (NativeType::Short, Value::Scalar(Scalar::Int16(-5))),
        (NativeType::Float, Value::Scalar(Scalar::Float32(0.5))),
        (NativeType::Enum, Value::Scalar(Scalar::Enum(1))),
        (NativeType::Char, Value::Scalar(Scalar::Int8(7))),
        (NativeType::Long, Value::Scalar(Scalar::Int32(-70_000))),
        (NativeType::Double, Value::Scalar(Scalar::Float64(1e-9))),
        (NativeType::Double, Value::Array(Array::Float64(vec![1.0, 2.0]))),
        (NativeType::Float, Value::Array(Array::Float32(vec![]))),
        (NativeType::String, Value::Array(Array::Text(vec!["a".into(), "b".into()]))),
    ];
    let pvs = values.iter().enumerate().map(|(i, (_, value))| {
        let count = if matches!(value, Value::Scalar(_)) { 1 } else { 32 };
        (format!("T:{i}"), Pv::new(of(value.clone()), count))
    });
    let server = FakeServer::start(pvs).await;
    let mut watch = Watch::new(settings(&[server.address]));
    for (i, (native, value)) in values.into_iter().enumerate() {
        let channel = watch.subscribe(&format!("T:{i}")).await;
        let Event::Connected { host, native: seen, access, .. } = watch.event(channel, is_connected).await else {
            unreachable!()
        };
        assert_eq!((host, seen), (server.tcp_address, native.into()));
        assert_eq!(access, Access { read: true, write: true });
        assert_eq!(watch.sample(channel).await, of(value));
    }
    assert_eq!(server.behaviour().connections.load(Relaxed), 1);
}

#[tokio::test]
async fn metadata_arrive_at_connection_and_when_they_change_and_not_otherwise() {
    let limits = Limits { display: (0.0, 9.0), alarm: (f64::NAN, 8.0), warning: (2.0, 7.0), control: (3.0, 6.0) };
    let metadata = |units: &str| Metadata {
        units: Some(units.to_owned()),
        precision: Some(2),
        limits: Some(limits),
        labels: Vec::new(),
    };
    let mut pv = Pv::new(of(Value::Scalar(Scalar::Float64(1.0))), 1);
    pv.metadata = metadata("A");
    let server = FakeServer::start([("T:AI", pv)]).await;
    let mut watch = Watch::new(settings(&[server.address]));
    let channel = watch.subscribe("T:AI").await;
    watch.sample(channel).await;
    watch.events_within(Duration::from_millis(200)).await;
    server.post_metadata("T:AI", metadata("mA"));
    server.post_metadata("T:AI", metadata("mA"));
    let changed = watch.events_within(Duration::from_millis(300)).await;
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0].channel, channel);
    server.close_circuits();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "sample") {
        seen.push(match watch.next().await.event {
            Event::Metadata(metadata) => metadata.units.unwrap(),
            Event::Connected { .. } => "connected".to_owned(),
            Event::Disconnected(_) => "disconnected".to_owned(),
            Event::Sample(_) => "sample".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["disconnected", "connected", "mA", "sample"]);
    assert_eq!(watch.events_within(Duration::from_millis(300)).await, []);
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_may_serve_another_type() {
    let (server, mut watch, channel) = one_counter().await;
    let port = server.address.port();
    server.stop().await;
    let lost = watch.event(channel, |event| !matches!(event, Event::Metadata(_))).await;
    assert_eq!(lost, Event::Disconnected(Reason::CircuitClosed));
    let array = of(Value::Array(Array::Float64(vec![1.0, 2.0])));
    let _server = FakeServer::start_at(port, [("T:CNT", Pv::new(array.clone(), 32))]).await;
    let connected = watch.event(channel, is_connected).await;
    assert!(matches!(connected, Event::Connected { native: ValueType::Float64, count: 32, .. }), "{connected:?}");
    assert_eq!(watch.sample(channel).await, array);
}

#[tokio::test]
async fn a_channel_that_the_server_ends_is_searched_for_again() {
    let (server, mut watch, channel) = one_counter().await;
    server.replace("T:CNT", Pv::new(of(Value::Scalar(Scalar::Enum(2))), 1));
    server.end_channels("T:CNT");
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::ChannelEnded));
    let connected = watch.event(channel, is_connected).await;
    assert!(matches!(connected, Event::Connected { native: ValueType::Enum, .. }), "{connected:?}");
    assert_eq!(server.behaviour().connections.load(Relaxed), 1, "the circuit is kept");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_and_stops_no_other() {
    let stalled = FakeServer::start([("T:STALLED", Pv::new(counter(0), 1))]).await;
    let other = FakeServer::start([("T:OTHER", Pv::new(counter(0), 1))]).await;
    let addresses = [stalled.address, other.address];
    let mut watch = Watch::new(Settings { connection_timeout: SHORT, ..settings(&addresses) });
    let channel = watch.subscribe("T:STALLED").await;
    watch.sample(channel).await;
    let other_channel = watch.subscribe("T:OTHER").await;
    watch.sample(other_channel).await;
    // An idle circuit is kept alive by echoes.
    sleep(2 * SHORT).await;
    assert!(stalled.behaviour().echoes.load(Relaxed) >= 2);
    let start = Instant::now();
    stalled.behaviour().stalled.store(true, Relaxed);
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::Unresponsive));
    assert!(start.elapsed() < 2 * SHORT, "{:?}", start.elapsed());
    other.post("T:OTHER", counter(1));
    assert_eq!(watch.sample(other_channel).await, counter(1));
    stalled.behaviour().stalled.store(false, Relaxed);
    watch.event(channel, is_connected).await;
}

#[tokio::test]
async fn updates_arrive_complete_and_in_order_however_they_are_cut_into_pieces() {
    for chunk_bytes in [1, 7, 1_000] {
        let (server, mut watch, channel) = one_counter().await;
        server.behaviour().chunk_bytes.store(chunk_bytes, Relaxed);
        for n in 1..=200 {
            server.post("T:CNT", counter(n));
        }
        for n in 1..=200 {
            assert_eq!(count_of(&watch.sample(channel).await), n);
        }
    }
}

#[tokio::test]
async fn an_array_up_to_the_limit_arrives_and_a_larger_one_is_counted() {
    let array = |n: usize| of(Value::Array(Array::Float64((0..n).map(|i| i as f64).collect())));
    let server = FakeServer::start([("T:WF", Pv::new(array(1), 1 << 20))]).await;
    let mut watch = Watch::new(Settings { max_array_bytes: 1 << 20, ..settings(&[server.address]) });
    let channel = watch.subscribe("T:WF").await;
    assert_eq!(watch.sample(channel).await, array(1));
    for n in [131_070, 131_071, 1 << 20, 3] {
        server.post("T:WF", array(n));
    }
    assert_eq!(watch.sample(channel).await, array(131_070));
    let mut dropped = 0;
    loop {
        match watch.next().await.event {
            Event::Dropped { count, reason: DropReason::TooLarge } => dropped += count,
            Event::Sample(sample) => {
                assert_eq!(sample, array(3));
                break;
            }
            _ => {}
        }
    }
    assert_eq!(dropped, 2);
}

#[tokio::test]
async fn an_update_that_lies_about_its_length_is_counted_and_costs_nothing_else() {
    let (server, mut watch, channel) = one_counter().await;
    server.send_raw("T:CNT", |subscription| {
        let mut out = Vec::new();
        let lie = |count| Response::Event { subscription, data_type: 19, count, status: 1, payload: &[1; 16] };
        lie(u32::MAX).encode(&mut out);
        lie(70_000).encode(&mut out);
        Response::Event { subscription, data_type: 20, count: 1, status: 1, payload: &[1; 24] }.encode(&mut out);
        Response::Event { subscription: 77_777, data_type: 20, count: 1, status: 1, payload: &[1; 24] }
            .encode(&mut out);
        Header { command: 99, ..Header::default() }.encode(&mut out);
        out
    });
    server.post("T:CNT", counter(1));
    let dropped = watch.event(channel, |event| matches!(event, Event::Dropped { .. })).await;
    assert_eq!(dropped, Event::Dropped { count: 3, reason: DropReason::Malformed });
    assert_eq!(watch.sample(channel).await, counter(1));
}

#[tokio::test]
async fn a_message_of_4_gib_that_is_no_update_ends_the_circuit_and_the_client_reconnects() {
    let (server, mut watch, channel) = one_counter().await;
    server.send_raw("T:CNT", |_| {
        let mut out = Vec::new();
        Header { command: command::ACCESS_RIGHTS, payload_bytes: u32::MAX, ..Header::default() }.encode(&mut out);
        out
    });
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::Protocol));
    watch.event(channel, is_connected).await;
}

#[tokio::test]
async fn random_bytes_from_servers_never_stop_the_client() {
    let mut servers = Vec::new();
    for i in 0..50 {
        servers.push(FakeServer::start([(format!("T:{i}"), Pv::new(counter(0), 1))]).await);
    }
    let addresses: Vec<SocketAddrV4> = servers.iter().map(|server| server.address).collect();
    let mut watch = Watch::new(settings(&addresses));
    let mut channels = Vec::new();
    for i in 0..50 {
        channels.push(watch.subscribe(&format!("T:{i}")).await);
    }
    watch.samples_of(&channels).await;
    let mut random = Random(42);
    for (i, server) in servers.iter().enumerate() {
        let garbage: Vec<u8> = (0..20_000).map(|_| random.byte()).collect();
        server.send_raw(&format!("T:{i}"), |_| garbage.clone());
    }
    watch.events_within(Duration::from_millis(300)).await;
    for (i, server) in servers.iter().enumerate() {
        server.close_circuits();
        server.post(&format!("T:{i}"), counter(99));
    }
    let mut missing: HashSet<ChannelId> = channels.into_iter().collect();
    while !missing.is_empty() {
        let update = watch.next().await;
        if matches!(&update.event, Event::Sample(sample) if *sample == counter(99)) {
            missing.remove(&update.channel);
        }
    }
}

/// A generator of bytes, half of them zero as in headers: xorshift.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if self.0 >> 40 & 1 == 0 { 0 } else { (self.0 >> 32) as u8 % 32 }
    }
}

#[tokio::test]
async fn a_server_that_keeps_closing_its_circuits_is_reconnected_to_ever_more_seldom() {
    let (server, mut watch, _) = one_counter().await;
    let closing = async {
        loop {
            server.close_circuits();
            sleep(Duration::from_millis(20)).await;
        }
    };
    let _: Result<(), _> = timeout(Duration::from_secs(5), closing).await;
    let connections = server.behaviour().connections.load(Relaxed);
    assert!((3..=6).contains(&connections), "{connections} connections in 5 s");
    watch.events_within(Duration::from_millis(10)).await;
}

#[tokio::test]
async fn what_a_slow_consumer_loses_is_counted_exactly() {
    let server = FakeServer::start([("T:CNT", Pv::new(counter(0), 1))]).await;
    server.behaviour().ignores_events_off.store(true, Relaxed);
    let mut watch = Watch::new(Settings { queue_bytes: 64 << 10, ..settings(&[server.address]) });
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    let last = 100_000;
    for n in 1..=last {
        server.post("T:CNT", counter(n));
    }
    while server.unsent_bytes() > 0 {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(500)).await;
    let (mut samples, mut dropped, mut newest) = (0, 0, 0);
    while samples + dropped < i64::from(last) {
        match watch.next().await.event {
            Event::Sample(sample) => {
                let n = count_of(&sample);
                assert!(n > newest, "in order");
                newest = n;
                samples += 1;
            }
            Event::Dropped { count, reason: DropReason::ConsumerSlow } => dropped += count as i64,
            _ => {}
        }
    }
    assert_eq!(samples + dropped, i64::from(last));
    assert!(dropped > 0 && samples > 1_000, "{samples} samples, {dropped} dropped");
    server.post("T:CNT", counter(last + 1));
    assert_eq!(count_of(&watch.sample(channel).await), last + 1);
    assert_eq!(watch.client.statistics().dropped_samples.get(), dropped as u64);
}

#[tokio::test]
async fn a_slow_consumer_makes_the_server_withhold_updates_and_then_gets_the_newest() {
    let server = FakeServer::start([("T:CNT", Pv::new(counter(0), 1))]).await;
    let mut watch = Watch::new(Settings { queue_bytes: 16 << 10, ..settings(&[server.address]) });
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    let mut n = 0;
    while server.behaviour().events_off.load(Relaxed) == 0 {
        n += 1;
        server.post("T:CNT", counter(n));
        sleep(Duration::from_micros(100)).await;
    }
    for _ in 0..1_000 {
        n += 1;
        server.post("T:CNT", counter(n));
    }
    assert_eq!(server.behaviour().events_on.load(Relaxed), 0);
    watch.event(channel, |event| *event == Event::Withheld).await;
    assert_eq!(count_of(&watch.sample(channel).await), n);
    assert_eq!(watch.client.statistics().dropped_samples.get(), 0);
}

#[tokio::test]
async fn a_consumer_that_stops_reading_gets_the_disconnection_in_its_place_later() {
    let server = FakeServer::start([("T:CNT", Pv::new(counter(0), 1))]).await;
    let port = server.address.port();
    let mut watch = Watch::new(Settings { queue_bytes: 4 << 10, ..settings(&[server.address]) });
    let channel = watch.subscribe("T:CNT").await;
    (1..=1_000).for_each(|n| server.post("T:CNT", counter(n)));
    sleep(Duration::from_millis(500)).await;
    server.stop().await;
    let _server = FakeServer::start_at(port, [("T:CNT", Pv::new(counter(-1), 1))]).await;
    sleep(Duration::from_millis(1_500)).await;
    let mut kinds = String::new();
    while !kinds.ends_with('n') {
        kinds.push(match watch.next().await.event {
            Event::Connected { .. } => 'c',
            Event::Disconnected(_) => 'd',
            Event::Sample(sample) if count_of(&sample) == -1 => 'n',
            _ => continue,
        });
    }
    assert_eq!(kinds, "cdcn");
    assert_eq!(channel, ChannelId(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_channels_share_one_circuit_and_are_found_with_full_datagrams() {
    let n = 5_000;
    let server = FakeServer::start(counters(n)).await;
    let mut watch = Watch::new(settings(&[server.address]));
    let mut channels = Vec::new();
    for (name, _) in counters(n) {
        channels.push(watch.subscribe(&name).await);
    }
    watch.samples_of(&channels).await;
    let behaviour = server.behaviour();
    assert_eq!(behaviour.connections.load(Relaxed), 1);
    let (datagrams, searches) = (behaviour.search_datagrams.load(Relaxed), behaviour.searches.load(Relaxed));
    assert!(behaviour.largest_datagram.load(Relaxed) <= 1_400);
    assert!(searches < 2 * n && datagrams < searches / 20, "{searches} searches in {datagrams} datagrams");
    assert_eq!(watch.client.statistics().connected_channels.get(), n as u64);
}

#[tokio::test]
async fn names_are_found_by_tcp_name_servers() {
    let server = FakeServer::start(counters(200)).await;
    let mut watch = Watch::new(Settings { name_servers: vec![server.tcp_address], ..settings(&[]) });
    let mut channels = Vec::new();
    for (name, _) in counters(200) {
        channels.push(watch.subscribe(&name).await);
    }
    watch.samples_of(&channels).await;
    assert_eq!(server.behaviour().search_datagrams.load(Relaxed), 0);
    assert_eq!(server.behaviour().connections.load(Relaxed), 2, "one for searches, one for channels");
}

/// A free UDP port of 127.0.0.1.
async fn free_port() -> SocketAddrV4 {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    SocketAddrV4::new([127, 0, 0, 1].into(), socket.local_addr().unwrap().port())
}

#[tokio::test]
async fn a_beacon_of_a_new_server_starts_the_search_at_once_in_all_clients_of_the_machine() {
    let repeater = free_port().await;
    let address = free_port().await;
    let mut watches: Vec<Watch> =
        (0..2).map(|_| Watch::new(Settings { repeater: Some(repeater), ..settings(&[address]) })).collect();
    let mut channels = Vec::new();
    for watch in &watches {
        channels.push(watch.subscribe("T:CNT").await);
    }
    // By now the next search is 3.2 s or 6.4 s away.
    sleep(Duration::from_millis(6_600)).await;
    let server = FakeServer::start_at(address.port(), [("T:CNT", Pv::new(counter(0), 1))]).await;
    let start = Instant::now();
    server.beacon(0, repeater).await;
    for (watch, channel) in watches.iter_mut().zip(channels) {
        watch.sample(channel).await;
        assert_eq!(watch.client.statistics().beacon_anomalies.get(), 1);
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn no_update_follows_the_end_of_a_subscription() {
    let (server, mut watch, channel) = one_counter().await;
    watch.client.unsubscribe(channel).await.unwrap();
    while server.behaviour().cleared.load(Relaxed) == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    watch.events_within(Duration::from_millis(50)).await;
    server.post("T:CNT", counter(1));
    assert_eq!(watch.events_within(Duration::from_millis(300)).await, []);
    assert_eq!(watch.client.statistics().connected_channels.get(), 0);
    let again = watch.subscribe("T:CNT").await;
    assert_ne!(again, channel);
    assert_eq!(watch.sample(again).await, counter(1));
}

#[tokio::test]
async fn a_channel_that_its_server_refuses_is_tried_again_ever_more_seldom() {
    let server = FakeServer::start([("T:CNT", Pv::new(counter(0), 1))]).await;
    server.behaviour().refuses.store(true, Relaxed);
    let mut watch = Watch::new(settings(&[server.address]));
    let channel = watch.subscribe("T:CNT").await;
    assert_eq!(watch.events_within(Duration::from_secs(3)).await, []);
    let searches = server.behaviour().searches.load(Relaxed);
    assert!((2..8).contains(&searches), "{searches} searches");
    server.behaviour().refuses.store(false, Relaxed);
    watch.sample(channel).await;
}

#[tokio::test]
async fn a_channel_without_the_right_to_read_is_refused_until_it_is_given() {
    let mut pv = Pv::new(counter(0), 1);
    pv.access = Access { read: false, write: true };
    let server = FakeServer::start([("T:CNT", pv)]).await;
    let mut watch = Watch::new(settings(&[server.address]));
    let channel = watch.subscribe("T:CNT").await;
    let refused = watch.event(channel, |event| matches!(event, Event::Refused { .. })).await;
    assert!(matches!(refused, Event::Refused { status: NO_READ_ACCESS, .. }), "{refused:?}");
    let access = Access { read: true, write: false };
    server.set_access("T:CNT", access);
    watch.event(channel, |event| *event == Event::AccessChanged(access)).await;
    server.post("T:CNT", counter(1));
    assert_eq!(watch.sample(channel).await, counter(1));
}

#[tokio::test]
async fn channels_of_two_priorities_have_two_circuits() {
    let server = FakeServer::start(counters(2)).await;
    let mut watch = Watch::new(settings(&[server.address]));
    let options = Options { priority: 50, ..Options::default() };
    let channels = [watch.subscribe("T:CNT00000").await, watch.client.subscribe("T:CNT00001", options).await.unwrap()];
    watch.samples_of(&channels).await;
    assert_eq!(server.behaviour().connections.load(Relaxed), 2);
}

#[tokio::test]
async fn a_name_that_two_servers_have_is_connected_once_and_counted() {
    let servers = [FakeServer::start(counters(1)).await, FakeServer::start(counters(1)).await];
    let mut watch = Watch::new(settings(&[servers[0].address, servers[1].address]));
    let channel = watch.subscribe("T:CNT00000").await;
    watch.sample(channel).await;
    let events = watch.events_within(Duration::from_millis(500)).await;
    assert!(events.iter().all(|update| !is_connected(&update.event)), "{events:?}");
    assert_eq!(watch.client.statistics().duplicate_names.get(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_left_alone_for_a_while_and_then_found() {
    let address = free_port().await;
    let nobody = free_port().await;
    let socket = tokio::net::UdpSocket::bind(address).await.unwrap();
    let mut watch = Watch::new(settings(&[address]));
    let channel = watch.subscribe("T:CNT").await;
    let answer = async {
        let mut buffer = vec![0; 2_000];
        loop {
            let (_, client) = socket.recv_from(&mut buffer).await.unwrap();
            let mut out = Vec::new();
            Response::Found { channel: channel.0, port: nobody.port(), address: None, minor: 13 }.encode(&mut out);
            socket.send_to(&out, client).await.unwrap();
        }
    };
    let _: Result<(), _> = timeout(Duration::from_secs(2), answer).await;
    drop(socket);
    assert_eq!(watch.events_within(Duration::from_millis(10)).await, []);
    let _server = FakeServer::start_at(address.port(), [("T:CNT", Pv::new(counter(0), 1))]).await;
    watch.sample(channel).await;
}

#[tokio::test]
async fn arguments_that_cannot_be_used_are_refused() {
    let watch = Watch::new(settings(&[]));
    for name in ["", "a\0b", &"x".repeat(501)] {
        let error = watch.client.subscribe(name, Options::default()).await.unwrap_err();
        assert!(error.to_string().ends_with("expected 1 to 500 bytes without zeros"), "{error}");
    }
    let options = Options { priority: 100, mask: EventMask::VALUE, metadata: false };
    let error = watch.client.subscribe("T", options).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid priority 100: expected 0 to 99");
}

#[test]
fn a_client_outside_of_a_runtime_is_refused() {
    assert!(matches!(Client::new(settings(&[]), now), Err(Error::NoRuntime)));
}

#[tokio::test]
async fn shutdown_closes_the_circuits_and_ends_the_events() {
    let (server, watch, _) = one_counter().await;
    let Watch { client, mut events } = watch;
    client.shutdown().await;
    while timeout(SHORT, events.next()).await.unwrap().is_some() {}
    drop(server);
}

#[tokio::test]
async fn a_client_without_a_consumer_ends() {
    let (server, watch, _) = one_counter().await;
    drop(watch.events);
    server.post("T:CNT", counter(1));
    sleep(Duration::from_millis(200)).await;
    let error = watch.client.subscribe("T:CNT", Options::default()).await.unwrap_err();
    assert!(matches!(error, Error::Ended));
}
