//! Settings of a client, by hand or from the environment variables of EPICS.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::time::Duration;

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

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Name of the environment variable.
    pub variable: &'static str,
    /// Its value.
    pub seen: String,
    /// A value that can be used.
    pub expected: &'static str,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: invalid value \"{}\": expected {}", self.variable, self.seen, self.expected)
    }
}

impl std::error::Error for SettingError {}

const ADDRESS_LIST: &str = "addresses, HOST or HOST:PORT, separated by spaces, whose hosts have an IPv4 address";
const PORT: &str = "a port, 1 to 65535";
const YES_OR_NO: &str = "YES or NO";

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

struct Variables<'a>(&'a dyn Fn(&'static str) -> Option<String>);

impl Variables<'_> {
    fn parse<T>(
        &self,
        variable: &'static str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SettingError> {
        let Some(seen) = (self.0)(variable) else { return Ok(None) };
        match parse(seen.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(SettingError { variable, seen, expected }),
        }
    }

    fn port(&self, variable: &'static str) -> Result<Option<u16>, SettingError> {
        self.parse(variable, PORT, |text| text.parse().ok().filter(|&port| port != 0))
    }

    fn yes(&self, variable: &'static str) -> Result<bool, SettingError> {
        let yes = self.parse(variable, YES_OR_NO, |text| match text.to_ascii_uppercase().as_str() {
            "YES" => Some(true),
            "NO" => Some(false),
            _ => None,
        })?;
        Ok(yes.unwrap_or(true))
    }

    fn seconds(
        &self,
        variable: &'static str,
        min: f64,
        expected: &'static str,
    ) -> Result<Option<Duration>, SettingError> {
        self.parse(variable, expected, |text| {
            let seconds: f64 = text.parse().ok()?;
            (seconds >= min && seconds <= 1e9).then(|| Duration::from_secs_f64(seconds))
        })
    }

    fn array_bytes(&self, variable: &'static str) -> Result<Option<usize>, SettingError> {
        let expected = "bytes, 16384 to 2147483647";
        self.parse(variable, expected, |text| text.parse().ok().filter(|bytes| (16_384..1 << 31).contains(bytes)))
    }

    fn addresses(&self, variable: &'static str, port: u16) -> Result<Vec<SocketAddrV4>, SettingError> {
        let list = (self.0)(variable).unwrap_or_default();
        list.split_whitespace()
            .map(|item| {
                resolve(item, port).ok_or_else(|| SettingError {
                    variable,
                    seen: item.to_owned(),
                    expected: ADDRESS_LIST,
                })
            })
            .collect()
    }
}

fn resolve(item: &str, port: u16) -> Option<SocketAddrV4> {
    let (host, port) = match item.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|&port| port != 0)?),
        None => (item, port),
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        let IpAddr::V4(ip) = ip else { return None };
        return Some(SocketAddrV4::new(ip, port));
    }
    (host, port).to_socket_addrs().ok()?.find_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    })
}

/// Broadcast addresses of the networks that `/proc/net/route` shows without a gateway.
fn broadcast_addresses(routes: Option<&str>) -> impl Iterator<Item = Ipv4Addr> {
    let connected = routes.unwrap_or("").lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let address = |at: usize| Some(u32::from_str_radix(fields.get(at)?, 16).ok()?.swap_bytes());
        let (network, gateway, mask) = (address(1)?, address(2)?, address(7)?);
        (gateway == 0 && mask != 0 && mask < u32::MAX - 1).then(|| Ipv4Addr::from(network | !mask))
    });
    let fallback = routes.is_none().then_some(Ipv4Addr::BROADCAST);
    connected.collect::<Vec<_>>().into_iter().chain(fallback)
}

fn remove_duplicates(addresses: &mut Vec<SocketAddrV4>) {
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|&address| seen.insert(address));
}
