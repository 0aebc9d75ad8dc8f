//! Ports of a server: free ones at its first start, the same ones at every restart.
//!
//! Ports are below the system's ephemeral range, so an outgoing connection cannot take one between
//! the check and the server's start. A process never assigns the same port twice.

use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::{Error, Product, Result, at};

const FIRST: u16 = 10_240;
const COUNT: u16 = 20_000;

const FILE: &str = "peer.txt";

/// Returns the ports of the server in `dir`: the stored ones, or new ones, which are stored in
/// `dir`.
///
/// # Errors
/// The directory belongs to another product, its file cannot be read or written, or no port is
/// free.
pub(super) fn of_directory(dir: &Path, product: Product, names: &[&str]) -> Result<BTreeMap<String, u16>> {
    let file = dir.join(FILE);
    match std::fs::read_to_string(&file) {
        Ok(text) => parse(&text, product, names).map_err(|what| Error::setup(format!("{}: {what}", file.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let ports = free(names)?;
            std::fs::write(&file, render(product, &ports)).map_err(|error| at(&file, error))?;
            Ok(ports)
        }
        Err(error) => Err(at(&file, error)),
    }
}

fn render(product: Product, ports: &BTreeMap<String, u16>) -> String {
    let lines = ports.iter().map(|(name, port)| format!("{name}={port}\n"));
    format!("product={}\n", product.name()) + &lines.collect::<String>()
}

fn parse(text: &str, product: Product, names: &[&str]) -> std::result::Result<BTreeMap<String, u16>, String> {
    let lines: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let owner = lines.get("product").copied().unwrap_or("nobody");
    if owner != product.name() {
        return Err(format!("the directory belongs to {owner}, not to {}; use an empty one", product.name()));
    }
    let port = |name: &str| lines.get(name).and_then(|value| value.parse().ok());
    names.iter().map(|name| Ok(((*name).to_owned(), port(name).ok_or_else(|| format!("no port {name:?}"))?))).collect()
}

fn free(names: &[&str]) -> Result<BTreeMap<String, u16>> {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Processes start at different offsets, so concurrent runs seldom try the same port.
    let start = (std::process::id() as u64).wrapping_mul(7_919) as u16 % COUNT;
    let mut candidates = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
    let mut take =
        || candidates.find(|port| !given.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    let mut ports = BTreeMap::new();
    for name in names {
        let port = take().ok_or_else(|| Error::setup(format!("no port of {FIRST}..{} is free", FIRST + COUNT)))?;
        ports.insert((*name).to_owned(), port);
    }
    given.extend(ports.values());
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_ports_and_its_product() {
        let dir = tempfile::tempdir().unwrap();
        let first = of_directory(dir.path(), Product::QuestDb, &["pg", "http"]).unwrap();
        assert_eq!(first, of_directory(dir.path(), Product::QuestDb, &["pg", "http"]).unwrap());
        let other = of_directory(dir.path(), Product::InfluxDb, &["http"]).unwrap_err().message;
        assert!(other.contains("belongs to questdb, not to influxdb"), "{other}");
        let more = of_directory(dir.path(), Product::QuestDb, &["ilp"]).unwrap_err().message;
        assert!(more.contains("no port \"ilp\""), "{more}");
    }

    #[test]
    fn no_port_is_assigned_twice() {
        let mut seen = HashSet::new();
        for _ in 0..20 {
            for port in free(&["a", "b", "c"]).unwrap().into_values() {
                assert!(seen.insert(port), "{port} twice");
            }
        }
    }

    #[test]
    fn a_port_in_use_is_not_assigned() {
        let port = free(&["a"]).unwrap()["a"];
        let next = (port - FIRST + 1) % COUNT + FIRST;
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        assert!(!free(&["a", "b"]).unwrap().values().any(|port| *port == next));
    }
}
