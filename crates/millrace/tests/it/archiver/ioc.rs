//! Soft IOCs of EPICS 7, each a process on free ports of 127.0.0.1.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};

use crate::clients::tool;

/// A running soft IOC; dropping it kills it.
pub(super) struct Ioc {
    child: Child,
    ports: Ports,
}

/// Ports of an IOC.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    server: u16,
    beacons: u16,
    pva_server: u16,
    pva_searches: u16,
}

impl Ports {
    /// Ports that are free by TCP and UDP.
    pub(super) fn free() -> Ports {
        let free = || loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = tcp.local_addr().unwrap().port();
            if UdpSocket::bind(("0.0.0.0", port)).is_ok() {
                return port;
            }
        };
        Ports { server: free(), beacons: free(), pva_server: free(), pva_searches: free() }
    }

    /// Makes a server find PVs at these ports.
    pub(super) fn tell(self, command: &mut Command) -> &mut Command {
        command
            .env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{}", self.server))
            .env("EPICS_CA_AUTO_ADDR_LIST", "NO")
            .env("EPICS_CA_REPEATER_PORT", self.beacons.to_string())
            .env("EPICS_CA_MAX_ARRAY_BYTES", "10000000")
            .env("EPICS_PVA_ADDR_LIST", format!("127.0.0.1:{}", self.pva_searches))
            .env("EPICS_PVA_AUTO_ADDR_LIST", "NO")
            .env("EPICS_PVA_BROADCAST_PORT", self.beacons.to_string())
    }
}

impl Ioc {
    /// Starts the IOC of `crates/epics`, whose PVs begin with `T:`, and waits until it serves.
    pub(super) fn start(ports: Ports) -> Ioc {
        Ioc::run(ports, &["soft_ioc.py", "T"])
    }

    /// Starts the one that serves by PV Access too.
    pub(super) fn start_pva(ports: Ports) -> Ioc {
        Ioc::run(ports, &["soft_ioc_pva.py", "T", "0"])
    }

    fn run(ports: Ports, arguments: &[&str]) -> Ioc {
        let python = tool("MILLRACE_TEST_IOC_PYTHON", "epics/bin/python");
        let mut child = Command::new(python)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../epics/tests/it"))
            .args(arguments)
            .env("EPICS_PVAS_SERVER_PORT", ports.pva_server.to_string())
            .env("EPICS_PVAS_BROADCAST_PORT", ports.pva_searches.to_string())
            .env("EPICS_PVAS_INTF_ADDR_LIST", "127.0.0.1")
            .env("EPICS_PVAS_BEACON_ADDR_LIST", "127.0.0.1")
            .env("EPICS_PVAS_AUTO_BEACON_ADDR_LIST", "NO")
            .env("EPICS_PVA_ADDR_LIST", "127.0.0.1")
            .env("EPICS_PVA_AUTO_ADDR_LIST", "NO")
            .env("EPICS_CA_SERVER_PORT", ports.server.to_string())
            .env("EPICS_CAS_BEACON_PORT", ports.beacons.to_string())
            .env("EPICS_CA_REPEATER_PORT", ports.beacons.to_string())
            .env("EPICS_CAS_INTF_ADDR_LIST", "127.0.0.1")
            .env("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1")
            .env("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO")
            .env("EPICS_CA_MAX_ARRAY_BYTES", "10000000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let ioc = Ioc { child, ports };
        assert!(output.lines().map_while(Result::ok).any(|line| line == "up"), "the IOC ended before it served");
        ioc
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    /// Kills the process.
    pub(super) fn kill(mut self) -> Ports {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ports
    }
}

impl Drop for Ioc {
    fn drop(&mut self) {
        // Both fail if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
