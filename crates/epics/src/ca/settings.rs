//! Settings of a client, by hand or from the environment variables of EPICS.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub use crate::client::variables::SettingError;
use crate::client::variables::{Variables, broadcast_addresses, remove_duplicates};

/// Port of servers, where none is named.
pub const SERVER_PORT: u16 = 5064;
/// Port of the repeater of beacons.
pub const REPEATER_PORT: u16 = 5065;

/// Settings of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Servers and broadcast addresses that receive searches (`EPICS_CA_ADDR_LIST`, `EPICS_CA_AUTO_ADDR_LIST`).
    pub addresses: Vec<SocketAddrV4>,
    /// Servers that receive searches by TCP (`EPICS_CA_NAME_SERVERS`).
    pub name_servers: Vec<SocketAddrV4>,
    /// Address at which a repeater of beacons is expected on this machine and, when there is none, run by this process
    /// (`EPICS_CA_REPEATER_PORT`). `None`: beacons are not received; a restarted server is found more slowly.
    pub repeater: Option<SocketAddrV4>,
    /// A circuit is closed after so long without an answer (`EPICS_CA_CONN_TMO`).
    pub connection_timeout: Duration,
    /// Largest payload; a larger update is dropped and counted (`EPICS_CA_MAX_ARRAY_BYTES`).
    pub max_array_bytes: usize,
    /// Longest expected time between beacons of a server (`EPICS_CA_BEACON_PERIOD`).
    pub beacon_period: Duration,
    /// Longest time between two searches for a name (`EPICS_CA_MAX_SEARCH_PERIOD`).
    pub max_search_period: Duration,
    /// Limit of search datagrams, over all addresses.
    pub search_datagrams_per_second: u32,
    /// Limit of bytes of updates that wait for the consumer.
    pub queue_bytes: usize,
    /// Name of the user, for the access rules of servers.
    pub client_name: String,
    /// Name of this machine, for the access rules of servers.
    pub host_name: String,
}

impl Default for Settings {
    /// The defaults of EPICS, with no address to search at.
    fn default() -> Settings {
        Settings {
            addresses: Vec::new(),
            name_servers: Vec::new(),
            repeater: Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, REPEATER_PORT)),
            connection_timeout: Duration::from_secs(30),
            max_array_bytes: 64 << 20,
            beacon_period: Duration::from_secs(15),
            max_search_period: Duration::from_secs(300),
            search_datagrams_per_second: 500,
            queue_bytes: 64 << 20,
            client_name: "millrace".to_owned(),
            host_name: "localhost".to_owned(),
        }
    }
}

impl Settings {
    /// Settings from the environment of this process, as `libca` reads them.
    ///
    /// `EPICS_CA_AUTO_ADDR_LIST` (by default `YES`) adds the broadcast address of each directly connected network; on systems
    /// without `/proc/net/route` it adds 255.255.255.255. Host names are resolved here, once; this may block.
    ///
    /// `EPICS_CA_MAX_ARRAY_BYTES` is a limit where it is set, and 64 MiB where not, as clients of EPICS 7 ignore its old default.
    ///
    /// # Errors
    /// The first variable that has no usable value.
    pub fn from_environment() -> Result<Settings, SettingError> {
        let routes = std::fs::read_to_string("/proc/net/route").ok();
        let mut settings = Settings::from_variables(|name| std::env::var(name).ok(), routes.as_deref())?;
        if let Some(name) = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()) {
            settings.client_name = name;
        }
        if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            settings.host_name = name.trim().to_owned();
        }
        Ok(settings)
    }

    /// Settings from `variable`, which returns the value of an environment variable. A value of spaces counts as absent.
    ///
    /// - `routes`: text of `/proc/net/route`, for the broadcast addresses.
    ///
    /// # Errors
    /// As [`Settings::from_environment`].
    pub fn from_variables(
        variable: impl Fn(&'static str) -> Option<String>,
        routes: Option<&str>,
    ) -> Result<Settings, SettingError> {
        let variables = Variables(&|name| variable(name).filter(|value| !value.trim().is_empty()));
        let mut settings = Settings::default();
        let port = variables.port("EPICS_CA_SERVER_PORT")?.unwrap_or(SERVER_PORT);
        settings.addresses = variables.addresses("EPICS_CA_ADDR_LIST", port)?;
        if variables.yes("EPICS_CA_AUTO_ADDR_LIST")? {
            settings.addresses.extend(broadcast_addresses(routes).map(|ip| SocketAddrV4::new(ip, port)));
        }
        remove_duplicates(&mut settings.addresses);
        settings.name_servers = variables.addresses("EPICS_CA_NAME_SERVERS", port)?;
        remove_duplicates(&mut settings.name_servers);
        if let Some(port) = variables.port("EPICS_CA_REPEATER_PORT")? {
            settings.repeater = Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
        }
        if let Some(timeout) = variables.seconds("EPICS_CA_CONN_TMO", 0.1, "seconds, 0.1 or more")? {
            settings.connection_timeout = timeout;
        }
        if let Some(period) = variables.seconds("EPICS_CA_BEACON_PERIOD", 0.1, "seconds, 0.1 or more")? {
            settings.beacon_period = period;
        }
        if let Some(period) = variables.seconds("EPICS_CA_MAX_SEARCH_PERIOD", 60.0, "seconds, 60 or more")? {
            settings.max_search_period = period;
        }
        if let Some(bytes) = variables.array_bytes("EPICS_CA_MAX_ARRAY_BYTES")? {
            settings.max_array_bytes = bytes;
        }
        Ok(settings)
    }
}
