//! The client of PV Access against a soft IOC of EPICS 7 (QSRV of pvxs) and a server of p4p. Needs python with `softioc` and `p4p`;
//! `MILLRACE_TEST_IOC_PYTHON` names it.
//!
//! `MILLRACE_TEST_IOC_PYTHON=PYTHON cargo test -p epics -- --ignored pva_soft_ioc`

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use epics::client::{Annotations, ChannelId, Event, EventMask, Reason};
use epics::pva::data::{Data, Elements};
use epics::pva::{Client, Options, Settings, Structure};
use epics::sample::{Array, Limits, Metadata, Sample, Scalar, Severity, Value, ValueType};
use tokio::time::sleep;

use crate::soft_ioc::{Ports, SoftIoc};
use crate::watch::{Watch, count_of, now, pva_settings};

/// Ports of an IOC on 127.0.0.1; it receives searches at `searches`, and sends beacons to `beacons`.
#[derive(Clone, Copy)]
struct Place {
    server: SocketAddrV4,
    searches: SocketAddrV4,
    beacons: SocketAddrV4,
}

impl Place {
    fn free() -> Place {
        let local = |port| SocketAddrV4::new([127, 0, 0, 1].into(), port);
        let (first, second) = (Ports::free(), Ports::free());
        Place { server: first.server(), searches: local(first.beacons), beacons: local(second.beacons) }
    }

    fn settings(self) -> Settings {
        pva_settings(&[self.searches])
    }

    fn start(self, arguments: &[&str]) -> SoftIoc {
        let [server, searches] = [self.server, self.searches].map(|address| address.port().to_string());
        let (beacons, ca) = (self.beacons.to_string(), Ports::free());
        let (ca_server, ca_beacons) = (ca.server.to_string(), ca.beacons.to_string());
        let variables = [
            ("EPICS_PVAS_SERVER_PORT", &*server),
            ("EPICS_PVAS_BROADCAST_PORT", &searches),
            ("EPICS_PVAS_INTF_ADDR_LIST", "127.0.0.1"),
            ("EPICS_PVAS_BEACON_ADDR_LIST", &beacons),
            ("EPICS_PVAS_AUTO_BEACON_ADDR_LIST", "NO"),
            ("EPICS_PVA_ADDR_LIST", "127.0.0.1"),
            ("EPICS_PVA_AUTO_ADDR_LIST", "NO"),
            ("EPICS_CA_SERVER_PORT", &ca_server),
            ("EPICS_CAS_BEACON_PORT", &ca_beacons),
            ("EPICS_CA_REPEATER_PORT", &ca_beacons),
            ("EPICS_CAS_INTF_ADDR_LIST", "127.0.0.1"),
            ("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1"),
            ("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO"),
        ];
        SoftIoc::run(arguments, &variables)
    }

    fn ioc(self) -> SoftIoc {
        self.start(&["soft_ioc_pva.py", "T", "0"])
    }
}

async fn connected(watch: &mut Watch<Client>, channel: ChannelId) -> (ValueType, u32) {
    match watch.event(channel, |event| matches!(event, Event::Connected { .. })).await {
        Event::Connected { native, count, .. } => (native, count),
        other => panic!("{other:?}"),
    }
}

async fn disconnected(watch: &mut Watch<Client>, channel: ChannelId) -> Reason {
    match watch.event(channel, |event| matches!(event, Event::Disconnected(_))).await {
        Event::Disconnected(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn is_recent(sample: &Sample) -> bool {
    (now() - sample.time).abs() < 30_000_000_000
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn records_of_every_kind_arrive_with_their_type_and_value() {
    type Check = fn(&Value) -> bool;
    let place = Place::free();
    let _ioc = place.ioc();
    let mut watch = Watch::pva(place.settings());
    let three = |value: &Value, expected: Array| *value == Value::Array(expected);
    let cases: [(&str, ValueType, u32, Check); 8] = [
        ("T:AI", ValueType::Float64, 1, |v| matches!(v, Value::Scalar(Scalar::Float64(x)) if x.abs() <= 10.0)),
        ("T:CNT", ValueType::Int32, 1, |v| matches!(v, Value::Scalar(Scalar::Int32(0..)))),
        ("T:I64", ValueType::Int64, 1, |v| *v == Value::Scalar(Scalar::Int64((1 << 53) + 1))),
        ("T:STATE", ValueType::Enum, 1, |v| matches!(v, Value::Scalar(Scalar::Enum(0..3)))),
        ("T:FLAG", ValueType::Enum, 1, |v| matches!(v, Value::Scalar(Scalar::Enum(0..2)))),
        ("T:TEXT", ValueType::Text, 1, |v| matches!(v, Value::Scalar(Scalar::Text(t)) if t.starts_with("text "))),
        ("T:WF", ValueType::Float64, 0, |v| matches!(v, Value::Array(Array::Float64(x)) if (1..32).contains(&x.len()))),
        (
            "T:BIG",
            ValueType::Float64,
            0,
            |v| matches!(v, Value::Array(Array::Float64(x)) if x.len() == 200_000 && x[199_999] == 199_999.0),
        ),
    ];
    let arrays = [
        ("T:A_int8", ValueType::Int8, Array::Int8(vec![1, 2, 100])),
        ("T:A_uint8", ValueType::UInt8, Array::Int16(vec![1, 2, 100])),
        ("T:A_int16", ValueType::Int16, Array::Int16(vec![1, 2, 100])),
        ("T:A_uint16", ValueType::UInt16, Array::Int32(vec![1, 2, 100])),
        ("T:A_int32", ValueType::Int32, Array::Int32(vec![1, 2, 100])),
        ("T:A_uint32", ValueType::UInt32, Array::Int64(vec![1, 2, 100])),
        ("T:A_float32", ValueType::Float32, Array::Float32(vec![1.0, 2.0, 100.0])),
    ];
    sleep(Duration::from_millis(1_500)).await;
    for (name, native, count, expected) in cases {
        let channel = watch.subscribe_pva(name).await;
        assert_eq!(connected(&mut watch, channel).await, (native, count), "{name}");
        let sample = watch.sample(channel).await;
        assert!(expected(&sample.value) && is_recent(&sample), "{name}: {:.200}", format!("{sample:?}"));
    }
    for (name, native, expected) in arrays {
        let channel = watch.subscribe_pva(name).await;
        assert_eq!(connected(&mut watch, channel).await, (native, 0), "{name}");
        let sample = watch.sample(channel).await;
        assert!(three(&sample.value, expected), "{name}: {sample:?}");
    }
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn metadata_of_a_number_and_labels_of_enumerations_arrive() {
    let place = Place::free();
    let _ioc = place.ioc();
    let mut watch = Watch::pva(place.settings());
    let limits = Limits { display: (-10.0, 10.0), alarm: (-8.0, 8.0), warning: (-6.0, 6.0), control: (-10.0, 10.0) };
    let labels = |labels: &[&str]| Metadata {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..Metadata::default()
    };
    let cases = [
        ("T:AI", Metadata { units: Some("mA".into()), precision: Some(3), limits: Some(limits), labels: Vec::new() }),
        ("T:STATE", labels(&["OFF", "RAMP", "BEAM"])),
        ("T:FLAG", labels(&["closed", "open"])),
    ];
    for (name, expected) in cases {
        let channel = watch.subscribe_pva(name).await;
        let seen = watch.event(channel, |event| matches!(event, Event::Metadata(_))).await;
        assert_eq!(seen, Event::Metadata(Box::new(expected)), "{name}");
        let events = watch.events_within(Duration::from_millis(500)).await;
        assert!(!events.iter().any(|update| matches!(update.event, Event::Metadata(_))), "{name}: {events:?}");
    }
}

#[tokio::test]
#[ignore = "needs a soft IOC, 25 s"]
async fn no_update_of_a_counter_at_10_hz_is_lost_in_20_s_and_all_alarms_and_the_archive_deadband_are_seen() {
    let place = Place::free();
    let _ioc = place.ioc();
    let mut watch = Watch::pva(place.settings());
    let counter = watch.subscribe_pva("T:CNT").await;
    let analog = watch.subscribe_pva("T:AI").await;
    let archived = watch.subscribe_pva("T:DEAD").await;
    let value = Options { mask: EventMask::VALUE, ..Options::default() };
    let all = watch.client.subscribe("T:DEAD", value).await.unwrap();
    let mut counts = vec![count_of(&watch.sample(counter).await)];
    let mut alarms = BTreeSet::new();
    let mut times = Vec::new();
    let mut updates: HashMap<ChannelId, usize> = HashMap::new();
    for update in watch.events_within(Duration::from_secs(21)).await {
        match update.event {
            Event::Sample(sample) if update.channel == counter => {
                counts.push(count_of(&sample));
                times.push(sample.time);
            }
            Event::Sample(sample) => {
                *updates.entry(update.channel).or_default() += 1;
                if update.channel == analog {
                    alarms.insert((sample.status, sample.severity as u8));
                }
            }
            _ => {}
        }
    }
    println!("{} updates of the counter, {} and {} of the deadband", counts.len(), updates[&all], updates[&archived]);
    // The IOC counts at 10 Hz if the machine is fast enough; the rate is no property of the client.
    assert!(counts.len() > 50, "{} updates", counts.len());
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    assert!(times.is_sorted());
    let (minor, major) = (Severity::Minor as u8, Severity::Major as u8);
    let expected = [(0, 0), (3, major), (4, minor), (5, major), (6, minor)];
    assert_eq!(alarms.into_iter().collect::<Vec<_>>(), expected);
    assert!(updates[&archived] > 0 && updates[&all] > 4 * updates[&archived], "{updates:?}");
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn a_killed_ioc_is_missed_at_once_and_found_by_its_beacon_when_it_is_started_again() {
    let place = Place::free();
    let ioc = place.ioc();
    let mut watch = Watch::pva(Settings { beacons: vec![place.beacons], ..place.settings() });
    let channel = watch.subscribe_pva("T:CNT").await;
    watch.sample(channel).await;
    let killed = Instant::now();
    drop(ioc);
    assert_eq!(disconnected(&mut watch, channel).await, Reason::CircuitClosed);
    assert!(killed.elapsed() < Duration::from_secs(1));
    // By now the next search is 6.4 s away.
    sleep(Duration::from_secs(8)).await;
    let _ioc = place.ioc();
    let started = Instant::now();
    connected(&mut watch, channel).await;
    watch.sample(channel).await;
    println!("connected {:?} after the IOC served", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(watch.client.statistics().beacon_anomalies.get() > 0);
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn a_stopped_ioc_is_unresponsive_after_the_timeout_and_found_when_it_continues() {
    let place = Place::free();
    let ioc = place.ioc();
    let mut watch = Watch::pva(Settings { connection_timeout: Duration::from_secs(2), ..place.settings() });
    let channel = watch.subscribe_pva("T:CNT").await;
    watch.sample(channel).await;
    ioc.signal("-STOP");
    let stopped = Instant::now();
    assert_eq!(disconnected(&mut watch, channel).await, Reason::Unresponsive);
    assert!((1_500..3_500).contains(&stopped.elapsed().as_millis()), "{:?}", stopped.elapsed());
    ioc.signal("-CONT");
    connected(&mut watch, channel).await;
    watch.sample(channel).await;
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn an_idle_channel_is_kept_by_echoes() {
    let place = Place::free();
    let _ioc = place.ioc();
    let mut watch = Watch::pva(Settings { connection_timeout: Duration::from_secs(1), ..place.settings() });
    let channel = watch.subscribe_pva("T:I64").await;
    watch.sample(channel).await;
    let events = watch.events_within(Duration::from_secs(4)).await;
    assert!(events.iter().all(|update| !matches!(update.event, Event::Disconnected(_))), "{events:?}");
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn an_ioc_is_found_as_a_name_server() {
    let place = Place::free();
    let _ioc = place.ioc();
    let mut watch = Watch::pva(Settings { name_servers: vec![place.server], ..pva_settings(&[]) });
    let channel = watch.subscribe_pva("T:CNT").await;
    watch.sample(channel).await;
}

#[tokio::test]
#[ignore = "needs a soft IOC, 30 s"]
async fn two_thousand_channels_of_an_ioc_lose_nothing_in_20_s() {
    let place = Place::free();
    let _ioc = place.start(&["soft_ioc_pva.py", "T", "2000"]);
    let mut watch = Watch::pva(place.settings());
    let start = Instant::now();
    let mut channels = Vec::new();
    for n in 0..2_000 {
        channels.push(watch.subscribe_pva(&format!("T:N{n:05}")).await);
    }
    watch.samples_of(&channels).await;
    println!("2000 channels connected in {:?}", start.elapsed());
    let mut last = HashMap::new();
    let mut updates = 0;
    for update in watch.events_within(Duration::from_secs(20)).await {
        if let Event::Sample(sample) = update.event {
            let n = count_of(&sample);
            let before = last.insert(update.channel, n);
            assert!(before.is_none_or(|before| n == before + 1), "{before:?}, then {n}");
            updates += 1;
        }
    }
    let statistics = watch.client.statistics();
    println!(
        "{updates} updates, {} datagrams, {} circuits",
        statistics.search_datagrams.get(),
        statistics.circuits.get()
    );
    assert!(last.len() == 2_000 && updates > 4_000, "{updates} updates");
}

#[tokio::test]
#[ignore = "needs p4p"]
async fn scalars_and_arrays_of_every_type_arrive_from_p4p() {
    let place = Place::free();
    let _server = place.start(&["pva_server.py", "S"]);
    let mut watch = Watch::pva(place.settings());
    let cases = [
        ("bool", ValueType::Bool, Scalar::Int8(1), Array::Int8(vec![1, 0])),
        ("int8", ValueType::Int8, Scalar::Int8(-8), Array::Int8(vec![-8, 7])),
        ("uint8", ValueType::UInt8, Scalar::Int16(200), Array::Int16(vec![1, 200])),
        ("int16", ValueType::Int16, Scalar::Int16(-300), Array::Int16(vec![-300])),
        ("uint16", ValueType::UInt16, Scalar::Int32(65_535), Array::Int32(vec![65_535, 1])),
        ("int32", ValueType::Int32, Scalar::Int32(-70_000), Array::Int32(vec![-70_000])),
        ("uint32", ValueType::UInt32, Scalar::Int64(4_294_967_295), Array::Int64(vec![4_294_967_295])),
        ("int64", ValueType::Int64, Scalar::Int64(-(1 << 62)), Array::Int64(vec![-(1 << 62)])),
        ("uint64", ValueType::UInt64, Scalar::Int64((1 << 53) + 1), Array::Int64(vec![(1 << 53) + 1])),
        ("float32", ValueType::Float32, Scalar::Float32(0.5), Array::Float32(vec![0.5])),
        ("float64", ValueType::Float64, Scalar::Float64(1e-9), Array::Float64(vec![1e-9, 2.0])),
        ("text", ValueType::Text, Scalar::Text("äbc".into()), Array::Text(vec!["a".into(), String::new(), "c".into()])),
    ];
    for (name, native, scalar, array) in cases {
        for (name, count, value) in
            [(format!("S:{name}"), 1, Value::Scalar(scalar)), (format!("S:{name}s"), 0, Value::Array(array))]
        {
            let channel = watch.subscribe_pva(&name).await;
            assert_eq!(connected(&mut watch, channel).await, (native, count), "{name}");
            assert_eq!(watch.sample(channel).await.value, value, "{name}");
        }
    }
}

#[tokio::test]
#[ignore = "needs p4p"]
async fn structures_messages_and_numbers_without_a_place_arrive_from_p4p() {
    let place = Place::free();
    let _server = place.start(&["pva_server.py", "S"]);
    let mut watch = Watch::pva(place.settings());
    let structure = |sample: Sample| match sample.value {
        Value::Structure(bytes) => Structure::decode(&bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let huge = watch.subscribe_pva("S:HUGE").await;
    assert_eq!(structure(watch.sample(huge).await).get("value"), Some(&Data::UInt64(u64::MAX)));
    let table = watch.subscribe_pva("S:TABLE").await;
    assert_eq!(connected(&mut watch, table).await, (ValueType::Structure, 1));
    let table = structure(watch.sample(table).await);
    assert_eq!(table.fields.id(), "epics:nt/NTTable:1.0");
    assert_eq!(table.get("value.x"), Some(&Data::Array(Box::new(Elements::Float64(vec![1.5, 2.5])))));
    let any = watch.subscribe_pva("S:ANY").await;
    for _ in 0..3 {
        let any = structure(watch.sample(any).await);
        assert_eq!(any.fields.id(), "test:Dynamic:1.0");
        assert!(matches!(any.get("any"), Some(Data::Any(Some(_)))), "{any:?}");
        assert!(matches!(any.get("rows"), Some(Data::StructureArray(rows)) if rows.len() == 1), "{any:?}");
    }
    let message = watch.subscribe_pva("S:MESSAGE").await;
    for _ in 0..3 {
        let event = watch.event(message, |event| matches!(event, Event::Annotations(_))).await;
        let Event::Annotations(annotations) = event else { unreachable!() };
        let Annotations { alarm_message, user_tag } = *annotations;
        assert_eq!(alarm_message, format!("pump {user_tag} is off"));
        let sample = watch.sample(message).await;
        assert_eq!((sample.severity, sample.status), (Severity::Major, 257));
    }
}

#[tokio::test]
#[ignore = "needs p4p"]
async fn bursts_of_5_updates_from_p4p_lose_nothing() {
    let place = Place::free();
    let _server = place.start(&["pva_server.py", "S"]);
    let mut watch = Watch::pva(place.settings());
    let channel = watch.subscribe_pva("S:FAST").await;
    let mut last = count_of(&watch.sample(channel).await);
    let mut updates = 0;
    for update in watch.events_within(Duration::from_secs(5)).await {
        if let Event::Sample(sample) = update.event {
            assert_eq!(count_of(&sample), last + 1);
            last += 1;
            updates += 1;
        }
    }
    println!("{updates} updates in 5 s");
    assert!(updates > 100, "{updates} updates");
}

/// The older library numbers types, has a queue of 2 updates, whatever is asked for, and reports what it lost.
#[tokio::test]
#[ignore = "needs a soft IOC, 12 s"]
async fn an_ioc_of_pv_access_cpp_loses_nothing_at_10_hz_and_reports_the_losses_of_bursts() {
    let place = Place::free();
    let _ioc = place.start(&["soft_ioc_qsrv1.py"]);
    let mut watch = Watch::pva(place.settings());
    for (name, expected) in [
        ("T:I64", Value::Scalar(Scalar::Int64((1 << 53) + 1))),
        ("T:STATE", Value::Scalar(Scalar::Enum(0))),
        ("T:EMPTY", Value::Array(Array::Int16(Vec::new()))),
    ] {
        let channel = watch.subscribe_pva(name).await;
        assert_eq!(watch.sample(channel).await.value, expected);
    }
    let [counter, burst, group] = ["T:CNT", "T:BURST", "T:GROUP"];
    let channels =
        [watch.subscribe_pva(counter).await, watch.subscribe_pva(burst).await, watch.subscribe_pva(group).await];
    watch.samples_of(&channels).await;
    let number = |value: &Value| match value {
        Value::Scalar(Scalar::Float64(x)) => *x,
        Value::Structure(bytes) => match Structure::decode(bytes).unwrap().get("b") {
            Some(Data::Float64(x)) => *x,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let mut last = HashMap::new();
    let (mut overruns, mut updates) = (HashMap::<ChannelId, usize>::new(), HashMap::<ChannelId, usize>::new());
    let mut overrun = false;
    for update in watch.events_within(Duration::from_secs(10)).await {
        match update.event {
            Event::Overrun => {
                overrun = true;
                *overruns.entry(update.channel).or_default() += 1;
            }
            Event::Sample(sample) => {
                let n = number(&sample.value);
                let before = last.insert(update.channel, n);
                let reported = std::mem::take(&mut overrun);
                assert!(before.is_none_or(|before| n == before + 1.0 || reported), "{before:?}, then {n}");
                *updates.entry(update.channel).or_default() += 1;
            }
            _ => {}
        }
    }
    println!("{updates:?} updates, {overruns:?} overruns");
    assert!(updates[&channels[0]] > 20 && updates[&channels[2]] > 20, "{updates:?}");
    assert!(overruns[&channels[1]] >= 2 && !overruns.contains_key(&channels[0]), "{overruns:?}");
}
