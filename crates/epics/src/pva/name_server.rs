//! Searches by TCP: a task per name server that sends it the names of search datagrams and reports its answers.

use std::net::SocketAddrV4;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::circuit::{Report, Shared, accept};
use super::protocol::{Frame, Request, Response, control, first_frame};
use super::wire::Order;
use crate::client::connection::{ReadBuffer, Silence, Step, connect};
use crate::client::search::Search;

/// Time between two attempts to connect: doubles from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Searches are skipped while so many bytes wait for the name server, as a network loses datagrams.
const OUT_BYTES_MAX: usize = 256 << 10;
/// Largest payload of an answer to a search.
const PAYLOAD_BYTES_MAX: usize = 512 << 10;

/// Names of a datagram.
pub(super) type Names = Arc<[Search]>;

/// Serves searches until the client ends.
pub(super) async fn run(address: SocketAddrV4, mut searches: mpsc::Receiver<Names>, shared: Shared) {
    let mut retry = RETRY_MIN;
    while !shared.reports.is_closed() {
        if let Ok(stream) = connect(address, shared.settings.connection_timeout).await {
            let connected = Instant::now();
            let mut session =
                Session { address, shared: &shared, order: Order::Little, accepted: false, out: Vec::new() };
            session.serve(stream, &mut searches).await;
            if connected.elapsed() > RETRY_MAX {
                retry = RETRY_MIN;
            }
        }
        sleep(retry).await;
        retry = (2 * retry).min(RETRY_MAX);
        // Names that wait are searched for again; old searches are of no use.
        while searches.try_recv().is_ok() {}
    }
}

struct Session<'a> {
    address: SocketAddrV4,
    shared: &'a Shared,
    /// Byte order that the server asked for.
    order: Order,
    /// Whether the server has accepted the client.
    accepted: bool,
    out: Vec<u8>,
}

impl Session<'_> {
    /// Returns when the connection has ended.
    async fn serve(&mut self, mut stream: TcpStream, searches: &mut mpsc::Receiver<Names>) {
        let (mut reader, mut writer) = stream.split();
        let mut input = ReadBuffer::new();
        let mut silence = Silence::new(self.shared.settings.connection_timeout);
        let mut check = pin!(sleep_until(silence.due()));
        loop {
            tokio::select! {
                read = reader.read(input.space()) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => {
                        silence.heard(Instant::now());
                        input.filled(bytes);
                        if !self.messages(&mut input).await {
                            return;
                        }
                    }
                },
                written = writer.write(&self.out), if !self.out.is_empty() => match written {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => drop(self.out.drain(..bytes)),
                },
                search = searches.recv() => match search {
                    Some(names) if self.accepted && self.out.len() < OUT_BYTES_MAX => self.search(&names),
                    Some(_) => {}
                    None => return,
                },
                () = &mut check => {
                    match silence.step(Instant::now()) {
                        Step::Wait => {}
                        Step::Echo => Request::Echo.encode(self.order, &mut self.out),
                        Step::GiveUp => return,
                    }
                    check.as_mut().reset(silence.due());
                }
            }
        }
    }

    fn search(&mut self, names: &[Search]) {
        let search = Request::Search { sequence: 0, unicast: true, port: 0, names: names.to_vec() };
        search.encode(self.order, &mut self.out);
    }

    /// Handles the messages in `input`; `false` when the connection is of no more use.
    async fn messages(&mut self, input: &mut ReadBuffer) -> bool {
        loop {
            let (response, bytes) = match first_frame(input.bytes(), PAYLOAD_BYTES_MAX) {
                Ok(Frame::Message { header, bytes, .. }) if header.is_control() => {
                    if header.command == control::SET_BYTE_ORDER {
                        self.order = header.order();
                    }
                    (None, bytes)
                }
                Ok(Frame::Message { header, payload, bytes }) => {
                    (Response::decode(&header, payload).ok().flatten(), bytes)
                }
                Ok(Frame::Incomplete { bytes }) => {
                    input.make_room(bytes);
                    return true;
                }
                Ok(Frame::TooLarge { .. }) | Err(_) => return false,
            };
            let reports = match response {
                Some(Response::Validation { methods, .. }) => {
                    accept(&methods, &self.shared.settings, self.order, &mut self.out);
                    Vec::new()
                }
                Some(Response::Validated { status }) => {
                    if !status.is_success() {
                        return false;
                    }
                    self.accepted = true;
                    vec![Report::NameServerUp]
                }
                Some(Response::Found { found: true, port, address, channels, .. }) => {
                    let address = SocketAddrV4::new(address.unwrap_or(*self.address.ip()), port);
                    channels.into_iter().map(|channel| Report::Found { channel, address }).collect()
                }
                _ => Vec::new(),
            };
            input.consume(bytes as u64);
            for report in reports {
                if self.shared.reports.send(report).await.is_err() {
                    return false;
                }
            }
        }
    }
}
