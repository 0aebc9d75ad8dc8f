//! TCP connections, optionally in the network namespace of a private server that binds all
//! addresses.

use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::error::{Class, Error, Result};

/// Connects to `address` (`host:port`), without Nagle's algorithm.
///
/// - `network_of`: a process whose network namespace the socket is created in; `None`: the own one.
///   Requires permission to enter it (root, or being its creator).
/// - `timeout`: applies to each address of the host name.
pub(crate) fn connect(address: &str, network_of: Option<u32>, timeout: Duration) -> Result<TcpStream> {
    let stream = match network_of {
        None => connect_here(address, timeout),
        Some(process) => connect_within(address, process, timeout),
    }?;
    stream.set_nodelay(true).map_err(|error| Error::socket(address, &error))?;
    Ok(stream)
}

fn connect_here(address: &str, timeout: Duration) -> Result<TcpStream> {
    let unresolved = |error: &dyn std::fmt::Display| {
        Error::new(Class::Connection, format!("{address}: cannot resolve the host's name: {error}"))
    };
    let mut last = unresolved(&"it has no address");
    for place in address.to_socket_addrs().map_err(|error| unresolved(&error))? {
        match TcpStream::connect_timeout(&place, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Error::socket(address, &error).during("cannot connect"),
        }
    }
    Err(last)
}

/// Connects in a thread that enters the namespace and ends. A socket stays in the namespace it was
/// created in; the other threads of this process are not affected.
fn connect_within(address: &str, process: u32, timeout: Duration) -> Result<TcpStream> {
    let entered = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter_network(process)?;
            connect_here(address, timeout)
        });
        inside.join()
    });
    entered.unwrap_or_else(|_| Err(Error::setup(format!("{address}: the connecting thread panicked"))))
}

/// Moves the calling thread to the network namespace of `process`.
fn enter_network(process: u32) -> Result<()> {
    let path = format!("/proc/{process}/ns/net");
    let failed = |error: std::io::Error| Error::setup(format!("{path}: cannot enter that network: {error}"));
    let namespace = File::open(&path).map_err(failed)?;
    // SAFETY: the descriptor is open during the call; setns changes the calling thread's namespace
    // and no memory.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(failed(std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn a_socket_into_our_own_namespace_connects_and_a_refused_one_is_a_connection_error() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let address = listener.local_addr().expect("address").to_string();
        connect(&address, None, TIMEOUT).expect("connects");
        drop(listener);
        let refused = connect(&address, None, TIMEOUT).expect_err("nobody listens");
        assert_eq!(refused.class, Class::Connection, "{refused}");
    }

    #[test]
    fn missing_namespace_is_reported() {
        let error = connect("127.0.0.1:1", Some(u32::MAX), TIMEOUT).expect_err("no such process");
        assert_eq!(error.class, Class::Setup);
        assert!(error.message.contains("/proc/4294967295/ns/net"), "{error}");
    }
}
