//! Soft IOCs of EPICS 7 and servers of p4p for the tests, each a process on free ports of 127.0.0.1.
//!
//! They need a python with softioc and p4p, which `cargo xtask tools` installs; `MILLRACE_TEST_IOC_PYTHON` names another one.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use epics::{ca, pva};

use crate::watch::{pva_settings, settings};

/// Ports that tests use: below those that Linux gives to sockets without a port, so that no such socket takes one meanwhile.
const FIRST_PORT: u32 = 12_000;
const PORTS: u32 = 20_000;

/// A port of 127.0.0.1 that is free by TCP and UDP. No other test of this process gets it; tests of another one begin elsewhere.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(7_919);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < PORTS, "no port of {FIRST_PORT} to {} is free", FIRST_PORT + PORTS - 1);
        let port = (FIRST_PORT + start.wrapping_add(step) % PORTS) as u16;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        if tcp.is_ok() && UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}

fn local(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// Addresses of an IOC; it can be started there again.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Channel Access: searches and circuits.
    pub(crate) ca: SocketAddrV4,
    /// Channel Access: the repeater that the IOC sends beacons to.
    pub(crate) ca_beacons: SocketAddrV4,
    /// PV Access: circuits.
    pub(crate) pva: SocketAddrV4,
    /// PV Access: searches.
    pub(crate) pva_searches: SocketAddrV4,
    /// PV Access: beacons.
    pub(crate) pva_beacons: SocketAddrV4,
}

impl Place {
    pub(crate) fn free() -> Place {
        let [ca, ca_beacons, pva, pva_searches, pva_beacons] = std::array::from_fn(|_| local(free_port()));
        Place { ca, ca_beacons, pva, pva_searches, pva_beacons }
    }

    pub(crate) fn ca_settings(self) -> ca::Settings {
        settings(&[self.ca])
    }

    pub(crate) fn pva_settings(self) -> pva::Settings {
        pva_settings(&[self.pva_searches])
    }

    /// Starts the IOC of `soft_ioc.py`, which serves by Channel Access only.
    pub(crate) fn start_ca(self) -> Ioc {
        self.run(&["soft_ioc.py", "T"])
    }

    /// Starts the IOC of `soft_ioc_pva.py`, which serves by both protocols.
    pub(crate) fn start(self) -> Ioc {
        self.run(&["soft_ioc_pva.py", "T", "0"])
    }

    /// Runs a script of this folder and waits until it serves.
    pub(crate) fn run(self, arguments: &[&str]) -> Ioc {
        self.launch(arguments).serving()
    }

    /// Starts both IOCs at once, as [`Place::start`].
    pub(crate) fn start_two(places: [Place; 2]) -> [Ioc; 2] {
        places.map(|place| place.launch(&["soft_ioc_pva.py", "T", "0"])).map(Ioc::serving)
    }

    fn launch(self, arguments: &[&str]) -> Ioc {
        let port = |address: SocketAddrV4| address.port().to_string();
        let here = || Ipv4Addr::LOCALHOST.to_string();
        let no = || "NO".to_owned();
        let variables = [
            ("EPICS_CA_SERVER_PORT", port(self.ca)),
            ("EPICS_CAS_BEACON_PORT", port(self.ca_beacons)),
            ("EPICS_CA_REPEATER_PORT", port(self.ca_beacons)),
            ("EPICS_CAS_INTF_ADDR_LIST", here()),
            ("EPICS_CAS_BEACON_ADDR_LIST", here()),
            ("EPICS_CAS_AUTO_BEACON_ADDR_LIST", no()),
            ("EPICS_CA_MAX_ARRAY_BYTES", "10000000".to_owned()),
            ("EPICS_PVAS_SERVER_PORT", port(self.pva)),
            ("EPICS_PVAS_BROADCAST_PORT", port(self.pva_searches)),
            ("EPICS_PVAS_INTF_ADDR_LIST", here()),
            ("EPICS_PVAS_BEACON_ADDR_LIST", self.pva_beacons.to_string()),
            ("EPICS_PVAS_AUTO_BEACON_ADDR_LIST", no()),
            ("EPICS_PVA_ADDR_LIST", here()),
            ("EPICS_PVA_AUTO_ADDR_LIST", no()),
        ];
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ioc-{}.log", self.ca.port()));
        let child = Command::new(python())
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it"))
            .args(arguments)
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Ioc { child, log }
    }
}

fn python() -> PathBuf {
    let python = std::env::var_os("MILLRACE_TEST_IOC_PYTHON").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        cache.unwrap_or_default().join("millrace/tools/epics/bin/python")
    });
    assert!(python.exists(), "{} is missing; install it: cargo xtask tools", python.display());
    python
}

/// A running IOC or other server; dropping it kills it.
pub(crate) struct Ioc {
    child: Child,
    /// Its standard error.
    log: PathBuf,
}

impl Ioc {
    /// Waits until it serves.
    pub(crate) fn serving(mut self) -> Ioc {
        let output = BufReader::new(self.child.stdout.take().unwrap());
        let serves = output.lines().map_while(Result::ok).any(|line| line == "up");
        assert!(serves, "the IOC ended before it served: {}", std::fs::read_to_string(&self.log).unwrap());
        self
    }

    /// Stops the process, so that it does nothing, but the kernel keeps its sockets.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped process go on.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Ioc {
    fn drop(&mut self) {
        // All fail if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}
