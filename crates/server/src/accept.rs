//! Accepts connections under a limit of file handles.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

/// File handles reserved for the engine and the health listener: log files, flushes, compactions.
const RESERVED_HANDLES: u64 = 32;
/// With few handles, one in this many is reserved instead.
const RESERVED_SHARE: u64 = 8;
/// Pause after a failed accept: initial and longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Log interval while a shortage lasts.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Accept loop of one listener.
pub(crate) struct Acceptor {
    /// Protocol name, for messages.
    name: &'static str,
    /// Connections with this handle number or a higher one are refused. The system assigns the
    /// lowest free number.
    handles_max: u64,
    pause: Duration,
    /// Time of the last log line about a shortage; failures since then.
    logged: Option<Instant>,
    unlogged: u64,
}

impl Acceptor {
    /// An acceptor for a process with this limit of handles.
    pub(crate) fn new(name: &'static str, handles: u64) -> Acceptor {
        let handles_max = handles - RESERVED_HANDLES.min(handles / RESERVED_SHARE);
        Acceptor { name, handles_max, pause: PAUSE_MIN, logged: None, unlogged: 0 }
    }

    /// Accepts a connection; the flag tells whether a handle is available to serve it.
    /// Cancellation-safe.
    pub(crate) async fn accept(&mut self, listener: &TcpListener) -> (TcpStream, bool) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    tracing::debug!(%address, listener = self.name, "connection accepted");
                    let has_room = u64::try_from(stream.as_raw_fd()).is_ok_and(|handle| handle < self.handles_max);
                    if has_room {
                        self.pause = PAUSE_MIN;
                    } else {
                        self.log("no file handle is free for clients");
                    }
                    return (stream, has_room);
                }
                Err(error) => {
                    self.log(&error.to_string());
                    let pause = self.pause;
                    self.pause = (pause * 2).min(PAUSE_MAX);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Logs the first failure at once, later ones at most every [`LOG_EVERY`], with their number.
    fn log(&mut self, error: &str) {
        self.unlogged += 1;
        if self.logged.is_some_and(|at| at.elapsed() < LOG_EVERY) {
            return;
        }
        self.logged = Some(Instant::now());
        let times = std::mem::take(&mut self.unlogged);
        tracing::warn!(
            listener = self.name,
            error,
            times,
            "cannot accept connections; close some, or raise the limit of open files (ulimit -n)"
        );
    }
}
