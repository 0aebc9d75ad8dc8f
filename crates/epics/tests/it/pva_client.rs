//! The client of PV Access against the server in this process.

use std::collections::HashSet;
use std::net::SocketAddrV4;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use epics::client::{Access, Annotations, ChannelId, DropReason, Event, Reason, Update};
use epics::pva::data::{Data, Elements};
use epics::pva::protocol::{Response, command, monitor};
use epics::pva::types::{Extent, ScalarType, Type};
use epics::pva::wire::{BitSet, Order, Reader, Writer};
use epics::pva::{Client, Error, Options, Settings, Structure};
use epics::sample::{Array, Sample, Scalar, Severity, Value, ValueType};
use tokio::time::{sleep, timeout};

use crate::ioc::free_port;
use crate::pva_fake::{FakePva, Pv, STAMP, fields};
use crate::watch::{Watch, count_of, now, pva_settings as settings};

/// A timeout that is short for a test, and long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(1_000);

fn counters(n: usize) -> impl Iterator<Item = (String, Pv)> {
    (0..n).map(|i| (format!("T:CNT{i:05}"), Pv::counter(0)))
}

async fn one_counter() -> (FakePva, Watch<Client>, ChannelId) {
    let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
    let mut watch = Watch::pva(settings(&[server.address]));
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

fn sample_of(value: Value) -> Sample {
    let time = STAMP.0 * 1_000_000_000 + i64::from(STAMP.1);
    Sample { time, value, severity: Severity::None, status: 0 }
}

fn doubles(n: usize) -> Data {
    Data::Array(Box::new(Elements::Float64((0..n).map(|i| i as f64).collect())))
}

fn waveform() -> Pv {
    Pv::new(Type::Array(ScalarType::Float64, Extent::Variable), doubles(1))
}

/// A message of a monitor with a body that is written by hand.
fn monitor_message(request: u32, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    body(&mut Writer::new(&mut bytes, Order::Little));
    let body = Reader::new(&bytes, Order::Little);
    Response::Monitor { request, subcommand: 0, body }.encode(Order::Little, &mut out);
    out
}

#[tokio::test]
async fn a_value_of_every_kind_arrives_in_both_byte_orders_and_in_segments() {
    for (big_endian, segment_bytes) in [(false, 0), (true, 0), (false, 7), (true, 1)] {
        let server = FakePva::start([
            ("T:CNT", Pv::counter(-5)),
            (
                "T:WF",
                Pv::new(
                    Type::Array(ScalarType::UInt16, Extent::Variable),
                    Data::Array(Box::new(Elements::UInt16(vec![1, 65_535]))),
                ),
            ),
            ("T:STATE", Pv::choice(1, &["off", "on"])),
            ("T:TEXT", Pv::new(Type::Scalar(ScalarType::Text), Data::Text("beam on".into()))),
        ])
        .await;
        server.behaviour().big_endian.store(big_endian, Relaxed);
        server.behaviour().segment_bytes.store(segment_bytes, Relaxed);
        let mut watch = Watch::pva(settings(&[server.address]));
        for (name, native, count, value) in [
            ("T:CNT", ValueType::Int32, 1, Value::Scalar(Scalar::Int32(-5))),
            ("T:WF", ValueType::UInt16, 0, Value::Array(Array::Int32(vec![1, 65_535]))),
            ("T:STATE", ValueType::Enum, 1, Value::Scalar(Scalar::Enum(1))),
            ("T:TEXT", ValueType::Text, 1, Value::Scalar(Scalar::Text("beam on".into()))),
        ] {
            let channel = watch.subscribe(name).await;
            let access = Access { read: true, write: false };
            let expected = Event::Connected { host: server.tcp_address, native, count, access };
            assert_eq!(watch.event(channel, is_connected).await, expected);
            assert_eq!(watch.sample(channel).await, sample_of(value));
        }
        assert_eq!(server.behaviour().connections.load(Relaxed), 1);
        assert_eq!(*server.behaviour().identities.lock().unwrap(), ["ca millrace localhost"]);
    }
}

#[tokio::test]
async fn an_update_of_the_alarm_alone_is_a_sample_with_the_whole_value() {
    let server = FakePva::start([("T:WF", waveform())]).await;
    let mut watch = Watch::pva(settings(&[server.address]));
    let channel = watch.subscribe("T:WF").await;
    watch.sample(channel).await;
    server.post("T:WF", &[1], |data| data[0] = doubles(3));
    watch.sample(channel).await;
    // Bits: 2 alarm, 3 severity, 4 status, 5 message.
    server.post("T:WF", &[3, 5], |data| {
        data[1] = Data::Structure([Data::Int32(2), Data::Int32(0), Data::Text("HIHI".into())].into());
    });
    let value = Value::Array(Array::Float64(vec![0.0, 1.0, 2.0]));
    assert_eq!(watch.sample(channel).await, Sample { severity: Severity::Major, status: 3, ..sample_of(value) });
}

#[tokio::test]
async fn metadata_arrive_at_connection_and_when_they_change_and_not_otherwise() {
    let server = FakePva::start([("T:AI", Pv::analog(1.0, "A"))]).await;
    let mut watch = Watch::pva(settings(&[server.address]));
    let channel = watch.subscribe("T:AI").await;
    let mut seen = Vec::new();
    let name = |event: Event| match event {
        Event::Metadata(metadata) => metadata.units.unwrap(),
        Event::Connected { .. } => "connected".to_owned(),
        Event::Disconnected(_) => "disconnected".to_owned(),
        Event::Sample(_) => "sample".to_owned(),
        other => panic!("{other:?}"),
    };
    // Bits: 10 display, 11 limitLow, 12 limitHigh, 13 description, 14 units.
    let units = |units: &'static str| {
        server.post("T:AI", &[14], |data| {
            let Data::Structure(display) = &mut data[3] else { panic!("no structure") };
            display[3] = Data::Text(units.into());
        });
    };
    while seen.last().is_none_or(|last| last != "sample") {
        seen.push(name(watch.next().await.event));
    }
    units("mA");
    units("mA");
    server.post("T:AI", &[1, 10], |data| data[0] = Data::Float64(2.0));
    seen.extend(watch.events_within(Duration::from_millis(300)).await.into_iter().map(|update| name(update.event)));
    server.close_circuits();
    let until = seen.len() + 4;
    while seen.len() < until {
        seen.push(name(watch.next().await.event));
    }
    assert_eq!(seen, ["connected", "A", "sample", "mA", "sample", "disconnected", "connected", "mA", "sample"]);
    let events = watch.events_within(Duration::from_millis(300)).await;
    assert!(events.is_empty() && channel == ChannelId(0), "{events:?}");
}

#[tokio::test]
async fn a_message_of_an_alarm_and_a_user_tag_are_reported_when_they_change() {
    let (server, mut watch, _) = one_counter().await;
    let alarm = |message: &'static str, tag| {
        server.post("T:CNT", &[2, 6], |data| {
            data[1] = Data::Structure([Data::Int32(2), Data::Int32(1), Data::Text(message.into())].into());
            data[2] = Data::Structure([Data::Int64(1), Data::Int32(0), Data::Int32(tag)].into());
        });
    };
    for (message, tag) in [("pump", 1), ("pump", 1), ("HIGH", 1), ("HIGH", 2)] {
        alarm(message, tag);
    }
    let mut seen = Vec::new();
    while seen.len() < 7 {
        seen.push(match watch.next().await.event {
            Event::Annotations(annotations) => {
                let Annotations { alarm_message, user_tag } = *annotations;
                format!("{alarm_message} {user_tag}")
            }
            Event::Sample(sample) => sample.status.to_string(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["pump 1", "257", "257", " 1", "4", " 2", "4"]);
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_may_serve_another_type() {
    let (server, mut watch, channel) = one_counter().await;
    let port = server.address.port();
    server.stop().await;
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::CircuitClosed));
    let _server = FakePva::start_at(port, [("T:CNT", waveform())]).await;
    let connected = watch.event(channel, is_connected).await;
    assert!(matches!(connected, Event::Connected { native: ValueType::Float64, count: 0, .. }), "{connected:?}");
    assert_eq!(watch.sample(channel).await.value, Value::Array(Array::Float64(vec![0.0])));
}

#[tokio::test]
async fn a_channel_that_the_server_ends_is_searched_for_again() {
    let (server, mut watch, channel) = one_counter().await;
    server.replace("T:CNT", Pv::choice(1, &["a", "b"]));
    server.end_channels("T:CNT");
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::ChannelEnded));
    let connected = watch.event(channel, is_connected).await;
    assert!(matches!(connected, Event::Connected { native: ValueType::Enum, .. }), "{connected:?}");
    assert_eq!(server.behaviour().connections.load(Relaxed), 1, "the circuit is kept");
    server.send_raw("T:CNT", |request| {
        let (body, mut out) = ([0xFF], Vec::new());
        let body = Reader::new(&body, Order::Little);
        Response::Monitor { request, subcommand: monitor::FINISH, body }.encode(Order::Little, &mut out);
        out
    });
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::ChannelEnded));
    watch.event(channel, is_connected).await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_and_stops_no_other() {
    let stalled = FakePva::start([("T:STALLED", Pv::counter(0))]).await;
    let other = FakePva::start([("T:OTHER", Pv::counter(0))]).await;
    let addresses = [stalled.address, other.address];
    let mut watch = Watch::pva(Settings { connection_timeout: SHORT, ..settings(&addresses) });
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
    other.count("T:OTHER", 1);
    assert_eq!(count_of(&watch.sample(other_channel).await), 1);
    stalled.behaviour().stalled.store(false, Relaxed);
    watch.event(channel, is_connected).await;
}

#[tokio::test]
async fn updates_arrive_complete_and_in_order_however_they_are_cut_into_pieces() {
    for (chunk_bytes, segment_bytes) in [(1, 0), (7, 9), (1_000, 3)] {
        let (server, mut watch, channel) = one_counter().await;
        server.behaviour().chunk_bytes.store(chunk_bytes, Relaxed);
        server.behaviour().segment_bytes.store(segment_bytes, Relaxed);
        server.behaviour().ignores_acknowledgements.store(true, Relaxed);
        for n in 1..=200 {
            server.count("T:CNT", n);
        }
        for n in 1..=200 {
            assert_eq!(count_of(&watch.sample(channel).await), n);
        }
    }
}

/// The QSRV of pvAccessCPP has 2 elements, whatever the client asks for, and needs them back.
#[tokio::test]
async fn every_update_is_acknowledged_once_and_in_time_for_a_server_of_a_short_queue() {
    let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
    server.behaviour().window_max.store(2, Relaxed);
    let mut watch = Watch::pva(settings(&[server.address]));
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    for n in 1..=99 {
        server.count("T:CNT", n);
        assert_eq!(count_of(&watch.sample(channel).await), n);
    }
    sleep(Duration::from_millis(50)).await;
    assert_eq!(server.behaviour().acknowledged.load(Relaxed), 100);
}

#[tokio::test]
async fn updates_that_the_server_merged_are_reported_before_the_sample_that_has_them() {
    let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
    let mut watch = Watch::pva(settings(&[server.address]));
    let options = Options { queue: 2, ..Options::default() };
    let channel = watch.client.subscribe("T:CNT", options).await.unwrap();
    watch.sample(channel).await;
    sleep(Duration::from_millis(50)).await;
    // The client has no chance to run: of these, as many as the queue has are sent, and the others are one update.
    for n in 1..=5 {
        server.count("T:CNT", n);
    }
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(match watch.next().await.event {
            Event::Sample(sample) => count_of(&sample).to_string(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["1", "2", "Overrun", "5"]);
}

#[tokio::test]
async fn an_array_up_to_the_limit_arrives_and_a_larger_one_is_counted_and_leaves_nothing_stale() {
    for segment_bytes in [0, 100_000] {
        let server = FakePva::start([("T:WF", waveform())]).await;
        let mut watch = Watch::pva(Settings { message_bytes_max: 1 << 20, ..settings(&[server.address]) });
        server.behaviour().segment_bytes.store(segment_bytes, Relaxed);
        let channel = watch.subscribe("T:WF").await;
        watch.sample(channel).await;
        for n in [131_000, 131_080, 1 << 18] {
            server.post("T:WF", &[1], |data| data[0] = doubles(n));
        }
        assert!(matches!(&watch.sample(channel).await.value, Value::Array(Array::Float64(x)) if x.len() == 131_000));
        // The value is still the large one, and the next update has only the alarm: the monitor begins anew, in vain.
        server.post("T:WF", &[2], |data| {
            data[1] = Data::Structure([Data::Int32(2), Data::Int32(0), Data::Text("".into())].into());
        });
        sleep(Duration::from_millis(300)).await;
        server.post("T:WF", &[1], |data| data[0] = doubles(3));
        let mut dropped = 0;
        let sample = loop {
            match watch.next().await.event {
                Event::Dropped { count, reason: DropReason::TooLarge } => dropped += count,
                Event::Sample(sample) => break sample,
                other => panic!("{other:?}"),
            }
        };
        let value = Value::Array(Array::Float64(vec![0.0, 1.0, 2.0]));
        assert_eq!(sample, Sample { severity: Severity::Major, ..sample_of(value) });
        // Two arrays, the update of the alarm, the first update of the new monitor, and the one that began it anew again.
        assert_eq!(dropped, 5);
        assert_eq!(server.behaviour().monitors.load(Relaxed), 3);
    }
}

#[tokio::test]
async fn an_update_that_lies_about_its_length_is_counted_and_the_monitor_begins_anew() {
    let (server, mut watch, channel) = one_counter().await;
    server.send_raw("T:CNT", |request| {
        let one = BitSet::from_iter([1, 5]);
        let mut out = monitor_message(request, |w| {
            w.bit_set(&one);
            w.u32(7);
            w.size(1 << 30);
        });
        out.extend(monitor_message(request + 1_000, |w| w.bit_set(&one)));
        out
    });
    server.count("T:CNT", 1);
    let dropped = watch.event(channel, |event| matches!(event, Event::Dropped { .. })).await;
    assert_eq!(dropped, Event::Dropped { count: 2, reason: DropReason::Malformed });
    assert_eq!(count_of(&watch.sample(channel).await), 1);
    assert_eq!(server.behaviour().monitors.load(Relaxed), 2);
    assert_eq!(server.behaviour().connections.load(Relaxed), 1);
}

#[tokio::test]
async fn bytes_of_another_protocol_end_the_circuit_and_the_client_reconnects() {
    let (server, mut watch, channel) = one_counter().await;
    server.send_raw("T:CNT", |_| b"HTTP/1.1 400 Bad Request".to_vec());
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::Protocol));
    watch.event(channel, is_connected).await;
}

#[tokio::test]
async fn random_bytes_from_servers_never_stop_the_client() {
    let mut servers = Vec::new();
    for i in 0..50 {
        servers.push(FakePva::start([(format!("T:{i}"), Pv::counter(0))]).await);
    }
    let addresses: Vec<SocketAddrV4> = servers.iter().map(|server| server.address).collect();
    let mut watch = Watch::pva(settings(&addresses));
    let mut channels = Vec::new();
    for i in 0..50 {
        channels.push(watch.subscribe(&format!("T:{i}")).await);
    }
    watch.samples_of(&channels).await;
    let mut random = 42_u64;
    let mut byte = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random >> 40 & 1 == 0 { 0 } else { (random >> 32) as u8 % 32 }
    };
    for (i, server) in servers.iter().enumerate() {
        server.send_raw(&format!("T:{i}"), |request| {
            // Messages with random bodies, up to a byte that begins no message.
            let messages = (0..200).flat_map(|n| {
                let body: Vec<u8> = (0..n % 40).map(|_| byte()).collect();
                let mut message = monitor_message(if n % 2 == 0 { request } else { byte().into() }, |w| w.bytes(&body));
                message[2] |= if n > 150 { byte() & 0x30 } else { 0 };
                message[3] = if n % 3 == 0 { byte() } else { command::MONITOR };
                message
            });
            messages.collect::<Vec<u8>>()
        });
    }
    watch.events_within(Duration::from_millis(300)).await;
    for (i, server) in servers.iter().enumerate() {
        server.close_circuits();
        server.count(&format!("T:{i}"), 99);
    }
    let mut missing: HashSet<ChannelId> = channels.into_iter().collect();
    while !missing.is_empty() {
        let update = watch.next().await;
        if matches!(&update.event, Event::Sample(sample) if sample.value == Value::Scalar(Scalar::Int32(99))) {
            missing.remove(&update.channel);
        }
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
async fn refused_channels_and_monitors_are_reported_and_tried_again() {
    for command in [command::CONNECTION_VALIDATED, command::CREATE_CHANNEL, command::MONITOR] {
        let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
        let behaviour = server.behaviour();
        let refuses = match command {
            command::MONITOR => &behaviour.refuses_monitors,
            command::CREATE_CHANNEL => &behaviour.refuses,
            _ => &behaviour.refuses_clients,
        };
        refuses.store(true, Relaxed);
        let mut watch = Watch::pva(settings(&[server.address]));
        let channel = watch.subscribe("T:CNT").await;
        let expected = Event::Refused { command: command.into(), status: 2, text: "not today".into() };
        assert_eq!(watch.next().await.event, expected);
        assert_eq!(watch.next().await.event, expected);
        refuses.store(false, Relaxed);
        watch.event(channel, is_connected).await;
        watch.sample(channel).await;
    }
}

#[tokio::test]
async fn what_a_slow_consumer_loses_is_counted_exactly() {
    let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
    server.behaviour().ignores_acknowledgements.store(true, Relaxed);
    let mut watch = Watch::pva(Settings { queue_bytes: 64 << 10, ..settings(&[server.address]) });
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    let last = 100_000;
    for n in 1..=last {
        server.count("T:CNT", n);
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
    server.count("T:CNT", last + 1);
    assert_eq!(count_of(&watch.sample(channel).await), last + 1);
    assert_eq!(watch.client.statistics().dropped_samples.get(), dropped as u64);
}

#[tokio::test]
async fn a_slow_consumer_makes_the_server_wait_and_then_gets_the_newest() {
    let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
    let mut watch = Watch::pva(Settings { queue_bytes: 16 << 10, ..settings(&[server.address]) });
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    let mut n = 0;
    while watch.client.statistics().flow_controls.get() == 0 {
        n += 1;
        server.count("T:CNT", n);
        sleep(Duration::from_millis(1)).await;
    }
    let last = n + 10_000;
    (n + 1..=last).for_each(|n| server.count("T:CNT", n));
    sleep(Duration::from_millis(300)).await;
    let (mut withheld, mut overrun, mut samples) = (0, 0, 0);
    loop {
        match watch.next().await.event {
            Event::Sample(sample) => {
                samples += 1;
                if count_of(&sample) == last {
                    break;
                }
            }
            Event::Withheld => withheld += 1,
            Event::Overrun => overrun += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((withheld, overrun), (1, 1));
    assert!(samples < n + 200, "{samples} samples of {last}");
    assert_eq!(watch.client.statistics().dropped_samples.get(), 0);
}

#[tokio::test]
async fn a_beacon_of_a_new_server_causes_a_search_at_once_and_others_do_not() {
    let (port, beacons) = (free_port(), free_port());
    let address = SocketAddrV4::new([127, 0, 0, 1].into(), port);
    let beacons = SocketAddrV4::new([127, 0, 0, 1].into(), beacons);
    let mut watch = Watch::pva(Settings { beacons: vec![beacons], ..settings(&[address]) });
    let channel = watch.subscribe("T:CNT").await;
    // By now the next search is 3.2 s away.
    sleep(Duration::from_millis(3_300)).await;
    let server = FakePva::start_at(port, [("T:CNT", Pv::counter(0))]).await;
    let start = Instant::now();
    server.beacon(1, beacons).await;
    watch.sample(channel).await;
    assert!(start.elapsed() < Duration::from_millis(1_000), "{:?}", start.elapsed());
    for guid in [1, 1, 2] {
        server.beacon(guid, beacons).await;
    }
    sleep(Duration::from_millis(200)).await;
    let statistics = watch.client.statistics();
    assert_eq!((statistics.beacons.get(), statistics.beacon_anomalies.get()), (4, 2));
    assert!(server.behaviour().echoes.load(Relaxed) >= 1, "a new identifier is a reason to ask");
}

/// A socket at a broadcast address receives what is sent there, also when a server of the same machine has the port.
#[tokio::test]
async fn beacons_to_a_broadcast_address_arrive_and_take_no_searches_from_servers() {
    let server = FakePva::start([("T:CNT", Pv::counter(0))]).await;
    let broadcast = SocketAddrV4::new([127, 255, 255, 255].into(), server.address.port());
    let mut watch = Watch::pva(Settings { beacons: vec![broadcast], ..settings(&[server.address]) });
    let other = Watch::pva(Settings { beacons: vec![broadcast], ..settings(&[server.address]) });
    server.beacon(1, broadcast).await;
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(watch.client.statistics().beacons.get(), 1);
    assert_eq!(other.client.statistics().beacons.get(), 1);
}

#[tokio::test]
async fn a_server_is_found_as_a_name_server() {
    for big_endian in [false, true] {
        let server = FakePva::start(counters(100)).await;
        server.behaviour().big_endian.store(big_endian, Relaxed);
        let mut watch = Watch::pva(Settings { name_servers: vec![server.tcp_address], ..settings(&[]) });
        let mut channels = Vec::new();
        for i in 0..100 {
            channels.push(watch.subscribe(&format!("T:CNT{i:05}")).await);
        }
        watch.samples_of(&channels).await;
        assert_eq!(server.behaviour().search_datagrams.load(Relaxed), 0);
    }
}

#[tokio::test]
async fn thousands_of_names_are_searched_for_in_full_datagrams_and_share_a_circuit() {
    let server = FakePva::start(counters(3_000)).await;
    let mut watch = Watch::pva(settings(&[server.address]));
    let mut channels = Vec::new();
    for i in 0..3_000 {
        channels.push(watch.subscribe(&format!("T:CNT{i:05}")).await);
    }
    watch.samples_of(&channels).await;
    let behaviour = server.behaviour();
    let largest = behaviour.largest_datagram.load(Relaxed);
    assert!((1_350..=1_400).contains(&largest), "{largest} bytes");
    assert!(behaviour.search_datagrams.load(Relaxed) < 120, "{:?}", behaviour.search_datagrams);
    assert_eq!(behaviour.connections.load(Relaxed), 1);
    assert_eq!(watch.client.statistics().connected_channels.get(), 3_000);
}

#[tokio::test]
async fn an_unsubscribed_channel_is_closed_and_sends_no_more() {
    let (server, mut watch, channel) = one_counter().await;
    watch.client.unsubscribe(channel).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    server.count("T:CNT", 1);
    assert_eq!(watch.events_within(Duration::from_millis(200)).await, Vec::<Update>::new());
    assert_eq!(server.behaviour().destroyed.load(Relaxed), 1);
    let statistics = watch.client.statistics();
    assert_eq!((statistics.channels.get(), statistics.connected_channels.get()), (0, 0));
    let again = watch.subscribe("T:CNT").await;
    assert_ne!(again, channel);
    assert_eq!(count_of(&watch.sample(again).await), 1);
}

#[tokio::test]
async fn a_structure_arrives_as_bytes_that_tell_their_type() {
    let members = vec![("name", Type::Scalar(ScalarType::Text)), ("any", Type::Any)];
    let pv = Pv { fields: fields("my:type:1.0", members), data: vec![Data::Text("a".into()), Data::Any(None)] };
    let server = FakePva::start([("T:S", pv.clone())]).await;
    let mut watch = Watch::pva(settings(&[server.address]));
    let channel = watch.subscribe("T:S").await;
    let before = now();
    let connected = watch.event(channel, is_connected).await;
    assert!(matches!(connected, Event::Connected { native: ValueType::Structure, count: 1, .. }), "{connected:?}");
    watch.sample(channel).await;
    let any = Data::Any(Some(Box::new((Type::Scalar(ScalarType::Int8), Data::Int8(5)))));
    server.post("T:S", &[2], |data| data[1] = any.clone());
    let sample = watch.sample(channel).await;
    assert!((before..=now()).contains(&sample.time), "the time of reception");
    let Value::Structure(bytes) = sample.value else { panic!("not a structure") };
    let structure = Structure::decode(&bytes).unwrap();
    assert_eq!((structure.get("name"), structure.get("any")), (Some(&pv.data[0]), Some(&any)));
    // An update may announce a type, also after the channel was closed; another that has it must be understood.
    let announce = |request, bytes: &'static [u8]| {
        monitor_message(request, |w| {
            w.bit_set(&BitSet::from_iter([2]));
            w.bytes(bytes);
            w.bit_set(&BitSet::default());
        })
    };
    server.send_raw("T:S", |request| announce(request, &[0xFD, 9, 0, 0x21, 7, 0]));
    server.send_raw("T:S", |request| announce(request, &[0xFE, 9, 0, 8, 0]));
    for n in [7, 8] {
        let Value::Structure(bytes) = watch.sample(channel).await.value else { panic!("not a structure") };
        let any = Structure::decode(&bytes).unwrap().get("any").cloned();
        assert_eq!(any, Some(Data::Any(Some(Box::new((Type::Scalar(ScalarType::Int16), Data::Int16(n)))))));
    }
    server.send_raw("T:S", |request| announce(request, &[0xFE, 77, 0, 8, 0]));
    assert_eq!(watch.event(channel, is_disconnected).await, Event::Disconnected(Reason::Protocol));
}

#[tokio::test]
async fn a_client_ends_when_it_is_shut_down_and_when_nobody_listens() {
    let (server, watch, _) = one_counter().await;
    let Watch { client, mut events } = watch;
    client.shutdown().await;
    assert_eq!(events.next().await, None);
    let (client, events) = Client::new(settings(&[server.address]), now).unwrap();
    drop(events);
    let start = Instant::now();
    while !matches!(client.subscribe("T:CNT", Options::default()).await, Err(Error::Ended)) {
        assert!(start.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn names_and_queues_that_cannot_be_used_are_refused_with_a_reason() {
    let (client, _events) = Client::new(settings(&[]), now).unwrap();
    let subscribe = async |name: &str, queue| {
        let options = Options { queue, ..Options::default() };
        client.subscribe(name, options).await.map_err(|error| error.to_string())
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(subscribe("", 4).await, error("invalid PV name \"\": expected 1 to 500 bytes without zeros"));
    assert_eq!(subscribe("A", 1).await, error("invalid queue length 1: expected 2 or more"));
    assert!(subscribe(&"x".repeat(500), 2).await.is_ok());
}
