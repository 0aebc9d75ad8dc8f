//! The client against a soft IOC of EPICS 7. Needs python with `softioc`; `MILLRACE_TEST_IOC_PYTHON` names it.
//!
//! They are ignored in CI, because they take a minute and some depend on the speed of the machine; the tests of the archiver use
//! a soft IOC there. To run them:
//! `MILLRACE_TEST_IOC_PYTHON=PYTHON cargo test -p epics -- --ignored soft_ioc`

use std::io::{BufRead, BufReader};
use std::net::SocketAddrV4;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use epics::ca::{ChannelId, Event, NativeType, Reason, Settings};
use epics::sample::{Array, Limits, Metadata, Sample, Scalar, Severity, Value, ValueType};
use tokio::time::sleep;

use crate::watch::{Watch, count_of, now, settings};

const PYTHON: &str = "MILLRACE_TEST_IOC_PYTHON";

/// Ports of an IOC on 127.0.0.1.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) server: u16,
    pub(crate) beacons: u16,
}

impl Ports {
    /// Ports that are free by TCP and UDP.
    pub(crate) fn free() -> Ports {
        let free = || loop {
            let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = tcp.local_addr().unwrap().port();
            if std::net::UdpSocket::bind(("0.0.0.0", port)).is_ok() {
                return port;
            }
        };
        Ports { server: free(), beacons: free() }
    }

    pub(crate) fn server(self) -> SocketAddrV4 {
        SocketAddrV4::new([127, 0, 0, 1].into(), self.server)
    }

    fn settings(self) -> Settings {
        settings(&[self.server()])
    }
}

/// A running soft IOC or other server; dropping it kills it.
pub(crate) struct SoftIoc(Child);

impl SoftIoc {
    /// Starts an IOC and waits until it serves.
    fn start(ports: Ports) -> SoftIoc {
        let (server, beacons) = (ports.server.to_string(), ports.beacons.to_string());
        let variables = [
            ("EPICS_CA_SERVER_PORT", &*server),
            ("EPICS_CAS_BEACON_PORT", &beacons),
            ("EPICS_CA_REPEATER_PORT", &beacons),
            ("EPICS_CAS_INTF_ADDR_LIST", "127.0.0.1"),
            ("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1"),
            ("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO"),
            ("EPICS_CA_MAX_ARRAY_BYTES", "10000000"),
        ];
        SoftIoc::run(&["soft_ioc.py", "T"], &variables)
    }

    /// Runs a script of this folder and waits until it serves.
    pub(crate) fn run(arguments: &[&str], variables: &[(&str, &str)]) -> SoftIoc {
        let Ok(python) = std::env::var(PYTHON) else {
            panic!(
                "{PYTHON} is not set: expected a python that has softioc and p4p. Install one with \
                 `python3 -m venv DIR && DIR/bin/pip install softioc epicscorelibs p4p`, and set {PYTHON}=DIR/bin/python"
            )
        };
        let mut child = Command::new(&python)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"))
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {PYTHON}={python}: {error}"));
        let output = BufReader::new(child.stdout.take().unwrap());
        let ioc = SoftIoc(child);
        assert!(output.lines().map_while(Result::ok).any(|line| line == "up"), "the IOC ended before it served");
        ioc
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for SoftIoc {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a value is the expected one.
type Check = fn(&Value) -> bool;

async fn connected(watch: &mut Watch, channel: ChannelId) -> (ValueType, u32) {
    match watch.event(channel, |event| matches!(event, Event::Connected { .. })).await {
        Event::Connected { native, count, .. } => (native, count),
        other => panic!("{other:?}"),
    }
}

async fn disconnected(watch: &mut Watch, channel: ChannelId) -> Reason {
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
    let ports = Ports::free();
    let _ioc = SoftIoc::start(ports);
    let mut watch = Watch::new(ports.settings());
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
    sleep(Duration::from_millis(1_500)).await;
    for (name, native, count, expected) in cases {
        let channel = watch.subscribe(name).await;
        assert_eq!(connected(&mut watch, channel).await, (native.into(), count), "{name}");
        let sample = watch.sample(channel).await;
        assert!(expected(&sample.value) && is_recent(&sample), "{name}: {:.200}", format!("{sample:?}"));
    }
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn metadata_of_a_number_and_labels_of_enumerations_arrive() {
    let ports = Ports::free();
    let _ioc = SoftIoc::start(ports);
    let mut watch = Watch::new(ports.settings());
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
        let channel = watch.subscribe(name).await;
        let seen = watch.event(channel, |event| matches!(event, Event::Metadata(_))).await;
        assert_eq!(seen, Event::Metadata(Box::new(expected)), "{name}");
        let events = watch.events_within(Duration::from_millis(500)).await;
        assert!(!events.iter().any(|update| matches!(update.event, Event::Metadata(_))), "{name}: {events:?}");
    }
}

#[tokio::test]
#[ignore = "needs a soft IOC, 25 s"]
async fn no_update_of_a_counter_at_10_hz_is_lost_in_20_s_and_all_alarms_are_seen() {
    let ports = Ports::free();
    let _ioc = SoftIoc::start(ports);
    let mut watch = Watch::new(ports.settings());
    let counter = watch.subscribe("T:CNT").await;
    let analog = watch.subscribe("T:AI").await;
    let mut counts = vec![count_of(&watch.sample(counter).await)];
    let mut alarms = std::collections::BTreeSet::new();
    let mut times = Vec::new();
    for update in watch.events_within(Duration::from_secs(21)).await {
        match update.event {
            Event::Sample(sample) if update.channel == counter => {
                counts.push(count_of(&sample));
                times.push(sample.time);
            }
            Event::Sample(sample) if update.channel == analog => {
                alarms.insert((sample.status, sample.severity as u8));
            }
            _ => {}
        }
    }
    assert!(counts.len() > 180, "{} updates", counts.len());
    assert!(counts.windows(2).all(|pair| pair[1] == pair[0] + 1), "{counts:?}");
    assert!(times.is_sorted());
    let (minor, major) = (Severity::Minor as u8, Severity::Major as u8);
    let expected = [(0, 0), (3, major), (4, minor), (5, major), (6, minor)];
    assert_eq!(alarms.into_iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn a_killed_ioc_is_missed_at_once_and_found_by_its_beacon_when_it_is_started_again() {
    let ports = Ports::free();
    let ioc = SoftIoc::start(ports);
    let repeater = SocketAddrV4::new([127, 0, 0, 1].into(), ports.beacons);
    let mut watch = Watch::new(Settings { repeater: Some(repeater), ..ports.settings() });
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
    let killed = Instant::now();
    drop(ioc);
    assert_eq!(disconnected(&mut watch, channel).await, Reason::CircuitClosed);
    assert!(killed.elapsed() < Duration::from_secs(1));
    // By now the next search is 6.4 s away.
    sleep(Duration::from_secs(8)).await;
    let _ioc = SoftIoc::start(ports);
    let started = Instant::now();
    connected(&mut watch, channel).await;
    watch.sample(channel).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(watch.client.statistics().beacon_anomalies.get() > 0);
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn a_stopped_ioc_is_unresponsive_after_the_timeout_and_found_when_it_continues() {
    let ports = Ports::free();
    let ioc = SoftIoc::start(ports);
    let mut watch = Watch::new(Settings { connection_timeout: Duration::from_secs(2), ..ports.settings() });
    let channel = watch.subscribe("T:CNT").await;
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
    let ports = Ports::free();
    let _ioc = SoftIoc::start(ports);
    let mut watch = Watch::new(Settings { connection_timeout: Duration::from_secs(1), ..ports.settings() });
    let channel = watch.subscribe("T:CHARS").await;
    watch.sample(channel).await;
    let events = watch.events_within(Duration::from_secs(4)).await;
    assert!(events.iter().all(|update| !matches!(update.event, Event::Disconnected(_))), "{events:?}");
}

#[tokio::test]
#[ignore = "needs a soft IOC"]
async fn an_ioc_is_found_as_a_name_server() {
    let ports = Ports::free();
    let _ioc = SoftIoc::start(ports);
    let mut watch = Watch::new(Settings { name_servers: vec![ports.server()], ..settings(&[]) });
    let channel = watch.subscribe("T:CNT").await;
    watch.sample(channel).await;
}
