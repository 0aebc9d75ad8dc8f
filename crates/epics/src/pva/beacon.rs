//! Beacons: signs that a server has appeared, was restarted, or serves other names.
//!
//! A server has an identifier (GUID) that it draws at its start, and a number that counts the changes of its names.

use std::net::SocketAddrV4;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// Limit of servers that are tracked; beacons can be forged.
const SERVERS_MAX: usize = 20_000;
/// A server that has been silent for so long may be forgotten: twice the longest period of beacons of pvxs.
const SILENT_MAX: Duration = Duration::from_secs(360);

/// Meaning of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beacon {
    /// Nothing has changed.
    Regular,
    /// The server serves other names: search again.
    Changed,
    /// The server is new or was restarted: search again, and ask the circuit to it for an echo.
    Started,
}

#[derive(Default)]
pub(super) struct Beacons {
    servers: FxHashMap<SocketAddrV4, Server>,
    /// Time at which servers that have fallen silent were last removed.
    pruned: Option<Instant>,
}

struct Server {
    guid: [u8; 12],
    changes: u16,
    at: Instant,
}

impl Beacons {
    /// Notes a beacon of the server at `address`.
    pub(super) fn note(&mut self, address: SocketAddrV4, guid: [u8; 12], changes: u16, now: Instant) -> Beacon {
        if let Some(server) = self.servers.get_mut(&address) {
            let known = (server.guid, server.changes);
            *server = Server { guid, changes, at: now };
            return match known {
                (known, _) if known != guid => Beacon::Started,
                (_, known) if known != changes => Beacon::Changed,
                _ => Beacon::Regular,
            };
        }
        if self.servers.len() >= SERVERS_MAX && self.pruned.is_none_or(|pruned| now - pruned >= SILENT_MAX) {
            self.pruned = Some(now);
            self.servers.retain(|_, server| now - server.at < SILENT_MAX);
        }
        if self.servers.len() < SERVERS_MAX {
            self.servers.insert(address, Server { guid, changes, at: now });
        }
        Beacon::Started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_started_when_its_identifier_is_new_and_changed_when_its_number_is() {
        let mut beacons = Beacons::default();
        let now = Instant::now();
        let (first, second) =
            (SocketAddrV4::new([10, 0, 0, 1].into(), 5075), SocketAddrV4::new([10, 0, 0, 2].into(), 5075));
        let cases = [
            (first, [1; 12], 0, Beacon::Started),
            (first, [1; 12], 0, Beacon::Regular),
            (first, [1; 12], 1, Beacon::Changed),
            (first, [1; 12], 1, Beacon::Regular),
            (first, [2; 12], 1, Beacon::Started),
            (second, [2; 12], 1, Beacon::Started),
        ];
        for (address, guid, changes, expected) in cases {
            assert_eq!(beacons.note(address, guid, changes, now), expected);
        }
    }

    #[test]
    fn the_number_of_tracked_servers_is_limited() {
        let now = Instant::now();
        let mut beacons = Beacons::default();
        for n in 0..2 * SERVERS_MAX as u32 {
            beacons.note(SocketAddrV4::new(n.into(), 5075), [0; 12], 0, now);
        }
        assert_eq!(beacons.servers.len(), SERVERS_MAX);
    }
}
