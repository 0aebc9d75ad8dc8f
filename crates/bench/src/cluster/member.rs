//! A member of a distributed run: joins the coordinator, waits at its points, sends its result.

use std::fmt;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::line::{self, Reader, Writer};
use super::{
    ALIVE_EVERY, FromCoordinator, FromMember, HELLO_BYTES_MAX, HELLO_WAIT, Identity, LINE_BYTES_MAX, PROTOCOL,
    SILENCE_MAX,
};
use crate::error::{Class, Error, Result};
use crate::result::RunResult;

/// Capacity of the inbox. The run reads it at points only.
const INBOX: usize = 16;
/// Longest time to retry the connection, for members that start before their coordinator.
const JOIN_MAX: Duration = Duration::from_secs(60);

/// This tool's membership in a distributed run.
pub(crate) struct Member {
    pub(crate) index: u64,
    pub(crate) members: u64,
    writer: Arc<Writer>,
    inbox: Mutex<Receiver<Inbound>>,
    /// Whether this member still takes part in points.
    participates: AtomicBool,
}

/// Messages of the coordinator that the run receives.
enum Inbound {
    Go { point: String, at: Instant },
    Thanks,
    Lost(Error),
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("index", &self.index).field("members", &self.members).finish_non_exhaustive()
    }
}

impl Member {
    /// Joins the coordinator at `address`; retries the connection for [`JOIN_MAX`]. `stop` is set
    /// when the coordinator ends the run.
    ///
    /// # Errors
    /// The coordinator cannot be reached, or refuses this member; the message has its reason.
    pub(crate) fn join(address: &str, token: &str, identity: &Identity, stop: &'static AtomicBool) -> Result<Member> {
        let stream = connect(address)?;
        let (writer, mut reader) = line::split(stream, &format!("coordinator {address}"))?;
        let (token, identity) = (token.to_owned(), identity.clone());
        writer.send(&FromMember::Hello { protocol: PROTOCOL, token, identity })?;
        let (index, members) = match reader.next(HELLO_BYTES_MAX, HELLO_WAIT)? {
            FromCoordinator::Welcome { index, members } => (index, members),
            FromCoordinator::Refused { why } => {
                return Err(Error::setup(format!("coordinator {address} refuses this member: {why}")));
            }
            other => return Err(Error::protocol(format!("coordinator {address}: expected a welcome, seen {other:?}"))),
        };
        let writer = Arc::new(writer);
        let (sender, inbox) = sync_channel(INBOX);
        let answering = Arc::clone(&writer);
        std::thread::spawn(move || listen(&mut reader, &answering, &sender, stop));
        let alive = Arc::clone(&writer);
        std::thread::spawn(move || {
            // The thread ends with the connection.
            while alive.send(&FromMember::Alive).is_ok() {
                std::thread::sleep(ALIVE_EVERY);
            }
        });
        Ok(Member { index, members, writer, inbox: Mutex::new(inbox), participates: AtomicBool::new(true) })
    }

    /// Waits until all members have reached `point` and for the common time to pass it. Returns at
    /// once after [`Member::leave`].
    ///
    /// # Errors
    /// The coordinator is lost.
    pub(crate) fn wait_at(&self, point: &str) -> Result {
        if !self.participates.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.writer.send(&FromMember::At { point: point.to_owned() })?;
        match self.receive()? {
            Inbound::Go { point: passed, at } if passed == point => {
                if let Some(left) = at.checked_duration_since(Instant::now()) {
                    std::thread::sleep(left);
                }
                self.writer.send(&FromMember::Started { point: passed })
            }
            Inbound::Go { point: passed, .. } => Err(Error::protocol(format!(
                "the coordinator released point {passed:?}, this member waits at {point:?}"
            ))),
            Inbound::Thanks => Err(Error::protocol(format!("the coordinator ended the run at {point:?}"))),
            Inbound::Lost(error) => Err(error.during(format_args!("waiting for the other members at {point:?}"))),
        }
    }

    /// Takes part in no later point: the run ends early here.
    pub(crate) fn leave(&self) -> Result {
        if self.participates.swap(false, Ordering::Relaxed) { self.writer.send(&FromMember::Leave) } else { Ok(()) }
    }

    /// Sends the result or the error of the run, and waits for the acknowledgement.
    pub(crate) fn finish(&self, outcome: &Result<RunResult>) -> Result {
        self.writer.send(&match outcome {
            Ok(result) => FromMember::Result { result: Box::new(result.clone()) },
            Err(error) => FromMember::Failed { message: error.to_string() },
        })?;
        match self.receive()? {
            Inbound::Thanks => {
                self.writer.close();
                Ok(())
            }
            Inbound::Go { point, .. } => {
                Err(Error::protocol(format!("the coordinator released point {point:?} after this member had finished")))
            }
            Inbound::Lost(error) => Err(error.during("sending the result")),
        }
    }

    fn receive(&self) -> Result<Inbound> {
        let inbox = self.inbox.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inbox.recv().map_err(|_| Error::new(Class::Connection, "the coordinator is lost"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.writer.close();
    }
}

fn connect(address: &str) -> Result<TcpStream> {
    let cannot = |error: &std::io::Error| Error::socket(&format!("coordinator {address}"), error);
    let addresses: Vec<_> = address.to_socket_addrs().map_err(|error| cannot(&error))?.collect();
    let first = addresses.first().ok_or_else(|| Error::setup(format!("coordinator {address}: no such address")))?;
    let began = Instant::now();
    loop {
        match TcpStream::connect_timeout(first, HELLO_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > JOIN_MAX => return Err(cannot(&error)),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Receives until the connection ends. Answers pings itself; queues the other messages for the run.
fn listen(reader: &mut Reader, writer: &Writer, inbox: &SyncSender<Inbound>, stop: &AtomicBool) {
    loop {
        let message = reader.next(LINE_BYTES_MAX, SILENCE_MAX);
        let now = Instant::now();
        let inbound = match message {
            Ok(FromCoordinator::Ping { number }) => match writer.send(&FromMember::Pong { number }) {
                Ok(()) => continue,
                Err(error) => Inbound::Lost(error),
            },
            Ok(FromCoordinator::Go { point, in_us }) => Inbound::Go { point, at: now + Duration::from_micros(in_us) },
            Ok(FromCoordinator::Stop { why }) => {
                eprintln!("the coordinator ends the run: {why}");
                stop.store(true, Ordering::Relaxed);
                continue;
            }
            Ok(FromCoordinator::Thanks) => Inbound::Thanks,
            Ok(FromCoordinator::Alive) => continue,
            Ok(other) => Inbound::Lost(Error::protocol(format!(
                "unexpected message of the coordinator during the run: {other:?}"
            ))),
            Err(error) => Inbound::Lost(error),
        };
        let last = matches!(inbound, Inbound::Lost(_) | Inbound::Thanks);
        // A full inbox means that the coordinator sends messages that no point waits for.
        if inbox.try_send(inbound).is_err() || last {
            return;
        }
    }
}
