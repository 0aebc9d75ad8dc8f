//! A router between a client and an IOC that can stop: connections stay open and no byte passes, as when a cable is cut.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use epics::ca::protocol as ca;
use epics::pva::protocol as pva;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The answer to a datagram of searches: all names are served at a port.
type Answer = fn(&[u8], u16) -> Vec<u8>;

pub(crate) struct Router {
    /// Address for searches.
    pub(crate) searches: SocketAddrV4,
    /// Whether datagrams and bytes pass.
    passes: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Router {
    /// A router to a server of Channel Access.
    pub(crate) async fn to_ca(server: SocketAddrV4) -> Router {
        Router::start(server, answer_ca).await
    }

    /// A router to a server of PV Access.
    pub(crate) async fn to_pva(server: SocketAddrV4) -> Router {
        Router::start(server, answer_pva).await
    }

    async fn start(server: SocketAddrV4, answer: Answer) -> Router {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let SocketAddr::V4(searches) = udp.local_addr().unwrap() else { panic!("not IPv4") };
        let port = tcp.local_addr().unwrap().port();
        let (passes, open) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_searches(udp, port, answer, open.clone()));
        tasks.spawn(forward_connections(tcp, server, open));
        Router { searches, passes, _tasks: tasks }
    }

    /// Stops: datagrams are lost, and bytes of connections wait.
    pub(crate) fn stop(&self) {
        self.passes.send_replace(false);
    }

    pub(crate) fn go_on(&self) {
        self.passes.send_replace(true);
    }
}

async fn answer_searches(socket: UdpSocket, port: u16, answer: Answer, open: watch::Receiver<bool>) {
    let mut datagram = vec![0; 64 << 10];
    loop {
        // Datagrams to a client that has ended come back as errors.
        let Ok((bytes, client)) = socket.recv_from(&mut datagram).await else { continue };
        if *open.borrow() {
            let _ = socket.send_to(&answer(&datagram[..bytes], port), client).await;
        }
    }
}

async fn forward_connections(listener: TcpListener, server: SocketAddrV4, mut open: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        open.wait_for(|open| *open).await.unwrap();
        // An IOC that has ended refuses; the client's connection is then closed too.
        let Ok(server) = TcpStream::connect(server).await else { continue };
        let (client, server) = (client.into_split(), server.into_split());
        tasks.spawn(forward(client.0, server.1, open.clone()));
        tasks.spawn(forward(server.0, client.1, open.clone()));
    }
}

/// Passes bytes on until a side closes the connection; a close waits like bytes.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        if open.wait_for(|open| *open).await.is_err() || read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

fn answer_ca(datagram: &[u8], port: u16) -> Vec<u8> {
    let mut answer = Vec::new();
    ca::Response::Version { minor: ca::MINOR_VERSION }.encode(&mut answer);
    for (header, payload) in ca::frames(datagram) {
        if let Ok(Some(ca::Request::Search { channel, .. })) = ca::Request::decode(&header, payload) {
            ca::Response::Found { channel, port, address: None, minor: ca::MINOR_VERSION }.encode(&mut answer);
        }
    }
    answer
}

fn answer_pva(datagram: &[u8], port: u16) -> Vec<u8> {
    let mut answer = Vec::new();
    for (header, payload) in pva::frames(datagram) {
        if let Ok(Some(pva::Request::Search { sequence, names, .. })) = pva::Request::decode(&header, payload) {
            let channels = names.iter().map(|(channel, _)| *channel).collect();
            pva::Response::Found { guid: [7; 12], sequence, address: None, port, found: true, channels }
                .encode(header.order(), &mut answer);
        }
    }
    answer
}
