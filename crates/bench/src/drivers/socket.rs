//! TCP connections, also into the network namespace of a private server that binds every address.

use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::error::{Class, Error, Result};

/// Connects to `address` (`host:port`), without Nagle's delay.
///
/// - `network_of`: a process whose network namespace the socket shall live in; `None`: ours. Needs the right to enter it
///   (root, or to have made it).
/// - `timeout`: for each of the addresses that the host's name has.
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

/// A socket stays in the namespace it was made in, so a thread that enters it, connects and ends is enough: the rest of
/// this process stays where it is.
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

/// Moves the calling thread into the network namespace of `process`.
fn enter_network(process: u32) -> Result<()> {
    let path = format!("/proc/{process}/ns/net");
    let failed = |error: std::io::Error| Error::setup(format!("{path}: cannot enter that network: {error}"));
    let namespace = File::open(&path).map_err(failed)?;
    // SAFETY: the descriptor is open during the call; setns changes the calling thread's namespace and no memory.
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
    fn a_network_that_is_gone_is_named() {
        let error = connect("127.0.0.1:1", Some(u32::MAX), TIMEOUT).expect_err("no such process");
        assert_eq!(error.class, Class::Setup);
        assert!(error.message.contains("/proc/4294967295/ns/net"), "{error}");
    }
}
