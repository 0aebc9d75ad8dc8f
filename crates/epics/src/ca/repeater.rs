//! The repeater of beacons: servers send beacons to one port of each machine, and the one process that has that port forwards
//! them to the clients that registered with it.
//!
//! It serves other clients of the machine too, as `caRepeater` does, because it has taken the port from them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use rustc_hash::FxHashMap;
use tokio::net::UdpSocket;

use super::protocol::{Request, Response, frames};

/// Limit of registered clients.
const CLIENTS_MAX: usize = 1_024;

/// Forwards beacons until it is dropped.
///
/// # Errors
/// The port is taken, most often by another repeater, or reading from the socket fails.
pub(super) async fn run(address: SocketAddrV4) -> io::Result<()> {
    let socket = UdpSocket::bind(address).await?;
    let mut clients: FxHashMap<SocketAddrV4, UdpSocket> = FxHashMap::default();
    let mut datagram = vec![0; 64 << 10];
    loop {
        let (bytes, sender) = socket.recv_from(&mut datagram).await?;
        let SocketAddr::V4(sender) = sender else { continue };
        let mut forwarded = Vec::new();
        let mut registers = bytes == 0;
        for (header, payload) in frames(&datagram[..bytes]) {
            registers |= matches!(Request::decode(&header, payload), Ok(Some(Request::RepeaterRegister { .. })));
            if let Ok(Some(Response::Beacon { minor, port, number, address })) = Response::decode(&header, payload) {
                let address = address.or(Some(*sender.ip()));
                Response::Beacon { minor, port, number, address }.encode(&mut forwarded);
            }
        }
        if registers {
            register(&socket, &mut clients, sender).await;
        }
        if !forwarded.is_empty() {
            // A refused datagram means that the client has ended.
            clients.retain(|_, client| match client.try_send(&forwarded) {
                Err(error) => error.kind() != io::ErrorKind::ConnectionRefused,
                Ok(_) => true,
            });
        }
    }
}

/// Adds a client of this machine and confirms it. Clients elsewhere are refused: they have repeaters of their own.
async fn register(socket: &UdpSocket, clients: &mut FxHashMap<SocketAddrV4, UdpSocket>, client: SocketAddrV4) {
    // Only an address of this machine can be bound.
    let Ok(to_client) = UdpSocket::bind(SocketAddrV4::new(*client.ip(), 0)).await else { return };
    if clients.len() >= CLIENTS_MAX || to_client.connect(client).await.is_err() {
        return;
    }
    let mut confirm = Vec::new();
    let address = if client.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { *client.ip() };
    Response::RepeaterConfirm { address }.encode(&mut confirm);
    let _ = socket.send_to(&confirm, SocketAddr::V4(client)).await;
    clients.insert(client, to_client);
}
