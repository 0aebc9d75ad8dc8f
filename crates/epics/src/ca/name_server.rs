//! Searches by TCP: a task per name server that sends it the search datagrams and reports its answers.

use std::net::SocketAddrV4;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::circuit::{Report, Shared, greet};
use super::protocol::{Frame, Request, Response, first_frame};
use crate::client::connection::{ReadBuffer, Silence, Step, connect};

/// Time between two attempts to connect: doubles from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Searches are skipped while so many bytes wait for the name server, as a network loses datagrams.
const OUT_BYTES_MAX: usize = 256 << 10;
/// Largest payload of an answer to a search.
const PAYLOAD_BYTES_MAX: usize = 16 << 10;

/// Serves searches until the client ends.
///
/// - `searches`: search datagrams.
pub(super) async fn run(address: SocketAddrV4, mut searches: mpsc::Receiver<Arc<[u8]>>, shared: Shared) {
    let mut retry = RETRY_MIN;
    while !shared.reports.is_closed() {
        if let Ok(stream) = connect(address, shared.settings.connection_timeout).await {
            if shared.reports.send(Report::NameServerUp).await.is_err() {
                return;
            }
            let connected = Instant::now();
            serve(address, stream, &mut searches, &shared).await;
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

/// Returns when the connection has ended.
async fn serve(
    address: SocketAddrV4,
    mut stream: TcpStream,
    searches: &mut mpsc::Receiver<Arc<[u8]>>,
    shared: &Shared,
) {
    let (mut reader, mut writer) = stream.split();
    let mut input = ReadBuffer::new();
    let mut out = Vec::new();
    let mut silence = Silence::new(shared.settings.connection_timeout);
    greet(&shared.settings, 0, &mut out);
    let mut check = pin!(sleep_until(silence.due()));
    loop {
        tokio::select! {
            read = reader.read(input.space()) => match read {
                Ok(0) | Err(_) => return,
                Ok(bytes) => {
                    silence.heard(Instant::now());
                    input.filled(bytes);
                    if !answers(address, &mut input, shared).await {
                        return;
                    }
                }
            },
            written = writer.write(&out), if !out.is_empty() => match written {
                Ok(0) | Err(_) => return,
                Ok(bytes) => drop(out.drain(..bytes)),
            },
            search = searches.recv() => match search {
                Some(datagram) if out.len() < OUT_BYTES_MAX => out.extend_from_slice(&datagram),
                Some(_) => {}
                None => return,
            },
            () = &mut check => {
                match silence.step(Instant::now()) {
                    Step::Wait => {}
                    Step::Echo => Request::Echo.encode(&mut out),
                    Step::GiveUp => return,
                }
                check.as_mut().reset(silence.due());
            }
        }
    }
}

/// Reports the answers in `input`; `false` when the connection is of no more use.
async fn answers(address: SocketAddrV4, input: &mut ReadBuffer, shared: &Shared) -> bool {
    loop {
        match first_frame(input.bytes(), PAYLOAD_BYTES_MAX) {
            Frame::Message { header, payload, bytes } => {
                if let Ok(Some(Response::Found { channel, port, address: ip, minor })) =
                    Response::decode(&header, payload)
                {
                    let address = SocketAddrV4::new(ip.unwrap_or(*address.ip()), port);
                    if shared.reports.send(Report::Found { channel, address, minor }).await.is_err() {
                        return false;
                    }
                }
                input.consume(bytes as u64);
            }
            Frame::Incomplete { bytes } => {
                input.make_room(bytes);
                return true;
            }
            Frame::TooLarge { .. } => return false,
        }
    }
}
