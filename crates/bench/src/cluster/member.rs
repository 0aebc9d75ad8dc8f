//! A member: joins, meets the others, hands in its result.

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

/// Messages that may wait for the run: it reads them at points only.
const INBOX: usize = 16;
/// How long the coordinator may take to be there when a member starts first.
const JOIN_MAX: Duration = Duration::from_secs(60);

/// A place in a run of several tools.
pub(crate) struct Member {
    pub(crate) index: u64,
    pub(crate) members: u64,
    writer: Arc<Writer>,
    inbox: Mutex<Receiver<Inbound>>,
    /// Does it still meet the others?
    meets: AtomicBool,
}

/// What the run gets to see of the coordinator's messages.
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
    /// Joins the coordinator at `address`, trying for a minute. `stop` is set when the coordinator says so.
    ///
    /// # Errors
    /// Nobody answers, or refuses this member and says why.
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
            // Ends with the connection.
            while alive.send(&FromMember::Alive).is_ok() {
                std::thread::sleep(ALIVE_EVERY);
            }
        });
        Ok(Member { index, members, writer, inbox: Mutex::new(inbox), meets: AtomicBool::new(true) })
    }

    /// Waits until all members are at `point`, and then for the moment to pass it. A member that has left passes at once.
    ///
    /// # Errors
    /// The coordinator is lost.
    pub(crate) fn meet(&self, point: &str) -> Result {
        if !self.meets.load(Ordering::Relaxed) {
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
            Inbound::Go { point: passed, .. } => {
                Err(Error::protocol(format!("the coordinator said go at {passed:?}, this member is at {point:?}")))
            }
            Inbound::Thanks => Err(Error::protocol(format!("the coordinator ended the run at {point:?}"))),
            Inbound::Lost(error) => Err(error.during(format_args!("waiting for the other members at {point:?}"))),
        }
    }

    /// Meets the others no more: the run ends early here.
    pub(crate) fn leave(&self) -> Result {
        if self.meets.swap(false, Ordering::Relaxed) { self.writer.send(&FromMember::Leave) } else { Ok(()) }
    }

    /// Hands in how the run went, and waits until that has arrived.
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
                Err(Error::protocol(format!("the coordinator said go at {point:?} at the end")))
            }
            Inbound::Lost(error) => Err(error.during("handing in the result")),
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

/// Reads until the connection ends: answers at once what must be answered at once, passes the rest on.
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
            Ok(other) => Inbound::Lost(Error::protocol(format!("the coordinator sent {other:?} in the middle"))),
            Err(error) => Inbound::Lost(error),
        };
        let last = matches!(inbound, Inbound::Lost(_) | Inbound::Thanks);
        // A full inbox means that the coordinator says what nobody waits for.
        if inbox.try_send(inbound).is_err() || last {
            return;
        }
    }
}
