//! Beacons: signs that a server has appeared, was restarted, or was out of reach.
//!
//! A server numbers its beacons. It sends them 0.02 s after its start, then after twice the time each, up to its beacon period.
//! So a number below the last means a restart, and an interval more than three times the last ones an interruption.

use std::net::SocketAddrV4;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// Limit of servers that are tracked; beacons can be forged.
const SERVERS_MAX: usize = 20_000;
/// A beacon arrives once per network interface and repeater.
const DUPLICATE_WITHIN: u32 = 2;

/// Meaning of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beacon {
    /// Nothing has changed.
    Regular,
    /// The server is new, was restarted, or was out of reach: search again, and ask the circuits to it for an echo.
    Anomaly,
}

pub(super) struct Beacons {
    servers: FxHashMap<SocketAddrV4, Server>,
    started: Instant,
    /// Time at which servers that have fallen silent were last removed.
    pruned: Instant,
    /// Beacon period of servers.
    period: Duration,
}

struct Server {
    number: u32,
    at: Instant,
    /// Average interval, which follows longer ones at once; `None` before the second beacon.
    interval: Option<Duration>,
}

impl Beacons {
    pub(super) fn new(period: Duration, now: Instant) -> Beacons {
        Beacons { servers: FxHashMap::default(), started: now, pruned: now, period }
    }

    /// Notes a beacon of the server at `address`.
    pub(super) fn note(&mut self, address: SocketAddrV4, number: u32, now: Instant) -> Beacon {
        let known_for = now - self.started;
        if let Some(server) = self.servers.get_mut(&address) {
            return server.note(number, now);
        }
        if self.servers.len() >= SERVERS_MAX && now - self.pruned >= self.period {
            self.pruned = now;
            let oldest = 10 * self.period;
            self.servers.retain(|_, server| now - server.at < oldest);
        }
        if self.servers.len() < SERVERS_MAX {
            self.servers.insert(address, Server { number, at: now, interval: None });
        }
        // Servers that were up before this client are seen within their first period. Low numbers come from new ones.
        if number < 8 || known_for > 2 * self.period { Beacon::Anomaly } else { Beacon::Regular }
    }
}

impl Server {
    fn note(&mut self, number: u32, now: Instant) -> Beacon {
        let behind = self.number.wrapping_sub(number);
        if behind < DUPLICATE_WITHIN {
            return Beacon::Regular;
        }
        let interval = now - self.at;
        let average = self.interval.unwrap_or(interval);
        let restarted = behind < u32::MAX / 2;
        let anomaly = restarted || interval > average.mul_f64(3.25);
        self.number = number;
        self.at = now;
        self.interval =
            if restarted { None } else { Some(interval.max(average.mul_f64(0.75) + interval.mul_f64(0.25))) };
        if anomaly { Beacon::Anomaly } else { Beacon::Regular }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(15);

    /// A case, its beacons as for [`anomalies`], and the numbers of the anomalies.
    type Case = (&'static str, &'static [(f64, u32)], &'static [u32]);

    /// Beacons of one server as (seconds after the start of the client, number); returns those that are anomalies.
    fn anomalies(beacons: &[(f64, u32)]) -> Vec<u32> {
        let start = Instant::now();
        let mut tracked = Beacons::new(PERIOD, start);
        let address = SocketAddrV4::new([10, 0, 0, 1].into(), 5064);
        let at = |seconds| start + Duration::from_secs_f64(seconds);
        let anomaly = |&&(seconds, number): &&(f64, u32)| tracked.note(address, number, at(seconds)) == Beacon::Anomaly;
        beacons.iter().filter(anomaly).map(|&(_, number)| number).collect()
    }

    #[test]
    fn beacons_are_anomalies_when_a_server_is_new_restarted_or_was_out_of_reach() {
        let cases: [Case; 7] = [
            ("a server that was up before", &[(3.0, 900), (18.0, 901), (33.0, 902)], &[]),
            ("each beacon twice", &[(3.0, 900), (3.0, 900), (18.0, 901), (18.1, 901), (18.2, 900)], &[]),
            ("a new server whose intervals grow", &[(3.0, 0), (3.02, 1), (3.06, 2), (3.15, 3), (3.3, 4)], &[0]),
            ("first seen late", &[(100.0, 900), (115.0, 901)], &[900]),
            ("a restart", &[(3.0, 900), (18.0, 901), (25.0, 0), (25.02, 1)], &[0]),
            ("out of reach for a minute", &[(3.0, 900), (18.0, 901), (33.0, 902), (93.0, 906)], &[906]),
            ("numbers wrap", &[(3.0, u32::MAX), (18.0, 0), (33.0, 1)], &[]),
        ];
        for (case, beacons, expected) in cases {
            assert_eq!(anomalies(beacons), expected, "{case}");
        }
    }

    #[test]
    fn the_number_of_tracked_servers_is_limited() {
        let now = Instant::now();
        let mut tracked = Beacons::new(PERIOD, now);
        for n in 0..2 * SERVERS_MAX as u32 {
            tracked.note(SocketAddrV4::new(n.into(), 5064), 0, now);
        }
        assert_eq!(tracked.servers.len(), SERVERS_MAX);
    }
}
