//! Settings of a client, by hand or from the environment variables of EPICS.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub use crate::client::variables::SettingError;
use crate::client::variables::{Variables, broadcast_addresses, remove_duplicates};

/// Port for connections, where none is named.
pub const SERVER_PORT: u16 = 5075;
/// Port for searches and beacons.
pub const BROADCAST_PORT: u16 = 5076;

/// Settings of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Servers that receive searches (`EPICS_PVA_ADDR_LIST`). A server passes a search on to the others of its machine.
    pub addresses: Vec<SocketAddrV4>,
    /// Broadcast and multicast addresses that receive searches (`EPICS_PVA_ADDR_LIST`, `EPICS_PVA_AUTO_ADDR_LIST`).
    pub broadcasts: Vec<SocketAddrV4>,
    /// Local addresses at which beacons are received; those that cannot be opened are left out. From the environment they are the
    /// broadcast addresses: a socket at such an address takes no search away from a server on this machine.
    pub beacons: Vec<SocketAddrV4>,
    /// Servers that receive searches by TCP (`EPICS_PVA_NAME_SERVERS`).
    pub name_servers: Vec<SocketAddrV4>,
    /// A circuit is closed after so long without an answer (`EPICS_PVA_CONN_TMO`).
    pub connection_timeout: Duration,
    /// Largest message; a larger update is dropped and counted.
    pub message_bytes_max: usize,
    /// Longest time between two searches for a name. Servers announce themselves by few beacons, so it is short.
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
            broadcasts: Vec::new(),
            beacons: Vec::new(),
            name_servers: Vec::new(),
            connection_timeout: Duration::from_secs(30),
            message_bytes_max: 64 << 20,
            max_search_period: Duration::from_secs(30),
            search_datagrams_per_second: 500,
            queue_bytes: 64 << 20,
            client_name: "millrace".to_owned(),
            host_name: "localhost".to_owned(),
        }
    }
}

impl Settings {
    /// Settings from the environment of this process, as `pvxs` reads them.
    ///
    /// `EPICS_PVA_AUTO_ADDR_LIST` (by default `YES`) adds the broadcast address of each directly connected network; on systems
    /// without `/proc/net/route` it adds 255.255.255.255. Host names are resolved here, once; this may block.
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
        let port = variables.port("EPICS_PVA_BROADCAST_PORT")?.unwrap_or(BROADCAST_PORT);
        let server_port = variables.port("EPICS_PVA_SERVER_PORT")?.unwrap_or(SERVER_PORT);
        let networks: Vec<Ipv4Addr> = broadcast_addresses(routes).collect();
        let is_broadcast = |ip: &Ipv4Addr| networks.contains(ip) || ip.is_broadcast() || ip.is_multicast();
        (settings.broadcasts, settings.addresses) = variables
            .addresses("EPICS_PVA_ADDR_LIST", port)?
            .into_iter()
            .partition(|address| is_broadcast(address.ip()));
        if variables.yes("EPICS_PVA_AUTO_ADDR_LIST")? {
            settings.broadcasts.extend(networks.iter().map(|&ip| SocketAddrV4::new(ip, port)));
        }
        settings.name_servers = variables.addresses("EPICS_PVA_NAME_SERVERS", server_port)?;
        for list in [&mut settings.addresses, &mut settings.broadcasts, &mut settings.name_servers] {
            remove_duplicates(list);
        }
        settings.beacons = settings.broadcasts.iter().copied().filter(|address| !address.ip().is_multicast()).collect();
        if let Some(timeout) = variables.seconds("EPICS_PVA_CONN_TMO", 0.1, "seconds, 0.1 or more")? {
            settings.connection_timeout = timeout;
        }
        Ok(settings)
    }
}
