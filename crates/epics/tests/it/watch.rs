//! A client under test, and the wait for its events.

use std::net::SocketAddrV4;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use epics::ca::{Client, Options, Settings};
use epics::client::{ChannelId, Event, Events, Reason, Statistics, Update};
use epics::pva;
use epics::sample::{Nanos, Sample, Scalar, Severity, Value, ValueType};
use tokio::time::{sleep, timeout};

/// A wait for an event fails after so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as Nanos
}

pub(crate) fn settings(addresses: &[SocketAddrV4]) -> Settings {
    Settings { addresses: addresses.to_vec(), repeater: None, ..Settings::default() }
}

/// Settings of PV Access, with servers on this machine.
pub(crate) fn pva_settings(addresses: &[SocketAddrV4]) -> pva::Settings {
    pva::Settings { addresses: addresses.to_vec(), ..pva::Settings::default() }
}

/// A client of either protocol.
pub(crate) trait Subscriber {
    /// Subscribes with the default options.
    async fn subscribe_to(&self, name: &str) -> ChannelId;
    fn counters(&self) -> &Statistics;
}

impl Subscriber for Client {
    async fn subscribe_to(&self, name: &str) -> ChannelId {
        self.subscribe(name, Options::default()).await.unwrap()
    }

    fn counters(&self) -> &Statistics {
        self.statistics()
    }
}

impl Subscriber for pva::Client {
    async fn subscribe_to(&self, name: &str) -> ChannelId {
        self.subscribe(name, pva::Options::default()).await.unwrap()
    }

    fn counters(&self) -> &Statistics {
        self.statistics()
    }
}

/// A client of either protocol with its events.
pub(crate) struct Watch<C = Client> {
    pub(crate) client: C,
    pub(crate) events: Events,
}

impl Watch<pva::Client> {
    pub(crate) fn pva(settings: pva::Settings) -> Watch<pva::Client> {
        let (client, events) = pva::Client::new(settings, now).unwrap();
        Watch { client, events }
    }
}

impl Watch {
    pub(crate) fn new(settings: Settings) -> Watch {
        let (client, events) = Client::new(settings, now).unwrap();
        Watch { client, events }
    }
}

impl<C: Subscriber> Watch<C> {
    pub(crate) async fn subscribe(&self, name: &str) -> ChannelId {
        self.client.subscribe_to(name).await
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        self.client.counters()
    }

    /// Waits until a counter of the client satisfies `reached`, which its events do not show.
    pub(crate) async fn until_counted(&self, reached: impl Fn(&Statistics) -> bool) {
        let waiting = async {
            while !reached(self.statistics()) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("the count in time");
    }

    /// Address, type and count of the next connection.
    pub(crate) async fn connected(&mut self, channel: ChannelId) -> (SocketAddrV4, ValueType, u32) {
        match self.event(channel, |event| matches!(event, Event::Connected { .. })).await {
            Event::Connected { host, native, count, .. } => (host, native, count),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn disconnected(&mut self, channel: ChannelId) -> Reason {
        match self.event(channel, |event| matches!(event, Event::Disconnected(_))).await {
            Event::Disconnected(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn next(&mut self) -> Update {
        timeout(PATIENCE, self.events.next()).await.expect("an event in time").expect("the client runs")
    }

    /// The first event that `wanted` takes.
    pub(crate) async fn until<T>(&mut self, wanted: impl Fn(&Update) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(&self.next().await) {
                return found;
            }
        }
    }

    pub(crate) async fn sample(&mut self, channel: ChannelId) -> Sample {
        self.until(|update| match &update.event {
            Event::Sample(sample) if update.channel == channel => Some(sample.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for a sample of the last 30 s whose value is as `expected`.
    pub(crate) async fn recent(&mut self, channel: ChannelId, expected: impl Fn(&Value) -> bool) {
        let mut last = None;
        let waiting = async {
            loop {
                let sample = last.insert(self.sample(channel).await);
                if expected(&sample.value) && (now() - sample.time).abs() < 30_000_000_000 {
                    return;
                }
            }
        };
        let waited = timeout(PATIENCE / 2, waiting).await;
        assert!(waited.is_ok(), "the last sample was {:.200}", format!("{last:?}"));
    }

    /// Waits until all channels have had a sample.
    pub(crate) async fn samples_of(&mut self, channels: &[ChannelId]) {
        let mut missing: std::collections::HashSet<ChannelId> = channels.iter().copied().collect();
        while !missing.is_empty() {
            let update = self.next().await;
            if matches!(update.event, Event::Sample(_)) {
                missing.remove(&update.channel);
            }
        }
    }

    /// Waits until an event of a channel is like `wanted`.
    pub(crate) async fn event(&mut self, channel: ChannelId, wanted: impl Fn(&Event) -> bool) -> Event {
        self.until(|update| (update.channel == channel && wanted(&update.event)).then(|| update.event.clone())).await
    }

    /// Events that arrive within `time`.
    pub(crate) async fn events_within(&mut self, time: Duration) -> Vec<Update> {
        let mut events = Vec::new();
        let _ = timeout(time, async {
            while let Some(update) = self.events.next().await {
                events.push(update);
            }
        })
        .await;
        events
    }
}

/// A sample of a counter, one second a count.
pub(crate) fn counter(n: i32) -> Sample {
    of(Value::Scalar(Scalar::Int32(n)))
}

pub(crate) fn of(value: Value) -> Sample {
    Sample { time: 1_700_000_000_123_456_789, value, severity: Severity::None, status: 0 }
}

pub(crate) fn count_of(sample: &Sample) -> i32 {
    match sample.value {
        Value::Scalar(Scalar::Int32(n)) => n,
        _ => panic!("not a counter: {sample:?}"),
    }
}
