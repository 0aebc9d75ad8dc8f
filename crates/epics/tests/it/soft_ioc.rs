//! The clients against a soft IOC of EPICS 7: the kinds of records by Channel Access, and the tests that are the same for both
//! protocols.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use epics::ca::{NativeType, Options, Settings};
use epics::client::{ChannelId, Event, EventMask, Reason, Update};
use epics::pva;
use epics::sample::{Array, Limits, Metadata, Scalar, Severity, Value};
use tokio::join;
use tokio::time::sleep;

use crate::ioc::Place;
use crate::watch::{Subscriber, Watch, count_of, pva_settings, settings};

/// Status and severity of a record that goes through all alarms.
const ALARMS: [(u16, u8); 5] = [
    (0, Severity::None as u8),
    (3, Severity::Major as u8),
    (4, Severity::Minor as u8),
    (5, Severity::Major as u8),
    (6, Severity::Minor as u8),
];

/// Whether a value is the expected one.
type Check = fn(&Value) -> bool;

#[tokio::test]
async fn records_of_every_kind_arrive_with_their_type_and_value() {
    let place = Place::free();
    let _ioc = place.start_ca();
    let mut watch = Watch::new(place.ca_settings());
    let cases: [(&str, NativeType, u32, Check); 8] = [
        ("T:AI", NativeType::Double, 1, |v| matches!(v, Value::Scalar(Scalar::Float64(x)) if x.abs() <= 10.0)),
        ("T:CNT", NativeType::Long, 1, |v| matches!(v, Value::Scalar(Scalar::Int32(0..)))),
        ("T:STATE", NativeType::Enum, 1, |v| matches!(v, Value::Scalar(Scalar::Enum(0..3)))),
        ("T:FLAG", NativeType::Enum, 1, |v| matches!(v, Value::Scalar(Scalar::Enum(0..2)))),
        ("T:TEXT", NativeType::String, 1, |v| matches!(v, Value::Scalar(Scalar::Text(t)) if t.starts_with("text "))),
        (
            "T:WF",
            NativeType::Double,
            32,
            |v| matches!(v, Value::Array(Array::Float64(x)) if (1..32).contains(&x.len())),
        ),
        ("T:CHARS", NativeType::Char, 64, |v| *v == Value::Array(Array::Int8(vec![1, 2, -56]))),
        (
            "T:BIG",
            NativeType::Double,
            200_000,
            |v| matches!(v, Value::Array(Array::Float64(x)) if x.len() == 200_000 && x[199_999] == 199_999.0),
        ),
    ];
    for (name, native, count, expected) in cases {
        let channel = watch.subscribe(name).await;
        assert_eq!(watch.connected(channel).await, (place.ca, native.into(), count), "{name}");
        watch.recent(channel, expected).await;
    }
}

async fn metadata_arrive_once<C: Subscriber>(mut watch: Watch<C>) {
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
    let mut metadata: HashMap<ChannelId, Vec<Metadata>> = HashMap::new();
    let mut samples: HashMap<ChannelId, usize> = HashMap::new();
    let mut channels = Vec::new();
    for (name, _) in &cases {
        channels.push(watch.subscribe(name).await);
    }
    while channels.iter().any(|channel| samples.get(channel).is_none_or(|&n| n < 3)) {
        let update = watch.next().await;
        match update.event {
            Event::Metadata(seen) => metadata.entry(update.channel).or_default().push(*seen),
            Event::Sample(_) => *samples.entry(update.channel).or_default() += 1,
            _ => {}
        }
    }
    for (channel, (name, expected)) in channels.iter().zip(cases) {
        assert_eq!(metadata[channel], [expected], "{name}");
    }
}

#[tokio::test]
async fn metadata_of_a_number_and_labels_of_enumerations_arrive_once() {
    let place = Place::free();
    let _ioc = place.start();
    join!(
        metadata_arrive_once(Watch::new(place.ca_settings())),
        metadata_arrive_once(Watch::pva(place.pva_settings()))
    );
}

/// - `all`: a channel of the deadband's PV without the deadband.
async fn nothing_is_lost<C: Subscriber>(mut watch: Watch<C>, all: ChannelId) {
    let counter = watch.subscribe("T:CNT").await;
    let analog = watch.subscribe("T:AI").await;
    let archived = watch.subscribe("T:DEAD").await;
    let mut counts = Vec::new();
    let mut alarms = BTreeSet::new();
    let mut times = Vec::new();
    let mut updates: HashMap<ChannelId, usize> = HashMap::new();
    while counts.len() < 40 || alarms.len() < ALARMS.len() || updates.get(&archived).is_none_or(|&n| n < 8) {
        let update = watch.next().await;
        let Event::Sample(sample) = update.event else { continue };
        *updates.entry(update.channel).or_default() += 1;
        if update.channel == counter {
            counts.push(count_of(&sample));
            times.push(sample.time);
        } else if update.channel == analog {
            alarms.insert((sample.status, sample.severity as u8));
        }
    }
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    assert!(times.is_sorted());
    assert_eq!(alarms.into_iter().collect::<Vec<_>>(), ALARMS);
    // Of 20 values in a row, every sixth passes the deadband, and the first again.
    assert!(updates[&all] > 3 * updates[&archived], "{updates:?}");
}

#[tokio::test]
async fn no_update_of_a_counter_at_10_hz_is_lost_and_all_alarms_and_the_archive_deadband_are_seen() {
    let place = Place::free();
    let _ioc = place.start();
    let (ca, pva) = (Watch::new(place.ca_settings()), Watch::pva(place.pva_settings()));
    let mask = EventMask::VALUE;
    let all = (
        ca.client.subscribe("T:DEAD", Options { mask, ..Options::default() }).await.unwrap(),
        pva.client.subscribe("T:DEAD", pva::Options { mask, ..pva::Options::default() }).await.unwrap(),
    );
    join!(nothing_is_lost(ca, all.0), nothing_is_lost(pva, all.1));
}

#[tokio::test]
async fn a_killed_ioc_is_missed_and_found_by_its_beacon_when_it_is_started_again() {
    let place = Place::free();
    let ioc = place.start();
    let mut ca = Watch::new(Settings { repeater: Some(place.ca_beacons), ..place.ca_settings() });
    let mut pva = Watch::pva(pva::Settings { beacons: vec![place.pva_beacons], ..place.pva_settings() });
    let channels = (ca.subscribe("T:CNT").await, pva.subscribe("T:CNT").await);
    join!(ca.sample(channels.0), pva.sample(channels.1));
    let searches = (ca.statistics().searches.get(), pva.statistics().searches.get());
    drop(ioc);
    let reasons = join!(ca.disconnected(channels.0), pva.disconnected(channels.1));
    assert_eq!(reasons, (Reason::CircuitClosed, Reason::CircuitClosed));
    let lost = Instant::now();
    // Searches follow the loss after 0.4, 1.2, 2.8, 6 and 12.4 s.
    join!(
        ca.until_counted(|statistics| statistics.searches.get() >= searches.0 + 4),
        pva.until_counted(|statistics| statistics.searches.get() >= searches.1 + 4)
    );
    let _ioc = place.start();
    let served = lost.elapsed();
    join!(ca.connected(channels.0), pva.connected(channels.1));
    let found = lost.elapsed();
    join!(ca.sample(channels.0), pva.sample(channels.1));
    assert!(ca.statistics().beacon_anomalies.get() > 0 && pva.statistics().beacon_anomalies.get() > 0);
    // On a machine so slow that the fifth search was near, the beacon need not be the reason.
    let in_time = Duration::from_secs(10);
    assert!(served > in_time || found < Duration::from_secs(12), "served after {served:?}, found after {found:?}");
}

#[tokio::test]
async fn an_idle_channel_is_kept_by_echoes() {
    let place = Place::free();
    let _ioc = place.start();
    let connection_timeout = Duration::from_secs(1);
    let mut ca = Watch::new(Settings { connection_timeout, ..place.ca_settings() });
    let mut pva = Watch::pva(pva::Settings { connection_timeout, ..place.pva_settings() });
    let channels = (ca.subscribe("T:I64").await, pva.subscribe("T:I64").await);
    join!(ca.sample(channels.0), pva.sample(channels.1));
    sleep(3 * connection_timeout).await;
    // An event of the loss would be in the queue.
    let events = join!(ca.events_within(Duration::ZERO), pva.events_within(Duration::ZERO));
    let lost = |updates: &[Update]| updates.iter().any(|update| matches!(update.event, Event::Disconnected(_)));
    assert!(!lost(&events.0) && !lost(&events.1), "{events:?}");
    assert_eq!((ca.statistics().circuits.get(), pva.statistics().circuits.get()), (1, 1));
}

#[tokio::test]
async fn an_ioc_is_found_as_a_name_server() {
    let place = Place::free();
    let _ioc = place.start();
    let mut ca = Watch::new(Settings { name_servers: vec![place.ca], ..settings(&[]) });
    let mut pva = Watch::pva(pva::Settings { name_servers: vec![place.pva], ..pva_settings(&[]) });
    let channels = (ca.subscribe("T:CNT").await, pva.subscribe("T:CNT").await);
    join!(ca.sample(channels.0), pva.sample(channels.1));
}
