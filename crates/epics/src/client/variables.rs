//! Values of environment variables.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::time::Duration;

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Name of the environment variable.
    pub variable: &'static str,
    /// Value that was seen.
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

/// Reads environment variables of EPICS.
pub(crate) struct Variables<'a>(pub(crate) &'a dyn Fn(&'static str) -> Option<String>);

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

    pub(crate) fn port(&self, variable: &'static str) -> Result<Option<u16>, SettingError> {
        self.parse(variable, PORT, |text| text.parse().ok().filter(|&port| port != 0))
    }

    pub(crate) fn yes(&self, variable: &'static str) -> Result<bool, SettingError> {
        let yes = self.parse(variable, YES_OR_NO, |text| match text.to_ascii_uppercase().as_str() {
            "YES" => Some(true),
            "NO" => Some(false),
            _ => None,
        })?;
        Ok(yes.unwrap_or(true))
    }

    pub(crate) fn seconds(
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

    pub(crate) fn array_bytes(&self, variable: &'static str) -> Result<Option<usize>, SettingError> {
        let expected = "bytes, 16384 to 2147483647";
        self.parse(variable, expected, |text| text.parse().ok().filter(|bytes| (16_384..1 << 31).contains(bytes)))
    }

    pub(crate) fn addresses(&self, variable: &'static str, port: u16) -> Result<Vec<SocketAddrV4>, SettingError> {
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
pub(crate) fn broadcast_addresses(routes: Option<&str>) -> impl Iterator<Item = Ipv4Addr> {
    let connected = routes.unwrap_or("").lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let address = |at: usize| Some(u32::from_str_radix(fields.get(at)?, 16).ok()?.swap_bytes());
        let (network, gateway, mask) = (address(1)?, address(2)?, address(7)?);
        (gateway == 0 && mask != 0 && mask < u32::MAX - 1).then(|| Ipv4Addr::from(network | !mask))
    });
    let fallback = routes.is_none().then_some(Ipv4Addr::BROADCAST);
    connected.collect::<Vec<_>>().into_iter().chain(fallback)
}

pub(crate) fn remove_duplicates(addresses: &mut Vec<SocketAddrV4>) {
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|&address| seen.insert(address));
}
