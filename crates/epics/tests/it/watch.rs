//! A client under test, and the wait for its events.

use std::net::SocketAddrV4;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use epics::ca::{Client, Options, Settings};
use epics::client::{ChannelId, Event, Events, Update};
use epics::pva;
use epics::sample::{Nanos, Sample, Scalar, Severity, Value};
use tokio::time::timeout;

/// A wait for an event fails after so long.
const PATIENCE: Duration = Duration::from_secs(20);

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

    pub(crate) async fn subscribe_pva(&self, name: &str) -> ChannelId {
        self.client.subscribe(name, pva::Options::default()).await.unwrap()
    }
}

impl Watch {
    pub(crate) fn new(settings: Settings) -> Watch {
        let (client, events) = Client::new(settings, now).unwrap();
        Watch { client, events }
    }

    pub(crate) async fn subscribe(&self, name: &str) -> ChannelId {
        self.client.subscribe(name, Options::default()).await.unwrap()
    }
}

impl<C> Watch<C> {
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
