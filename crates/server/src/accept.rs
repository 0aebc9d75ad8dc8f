//! Accepting connections where the process may be short of file handles.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

/// File handles that clients leave to the engine, and to health: for log files, flushes, compactions.
const KEPT_BACK: u64 = 32;
/// Of very few handles, this share.
const KEPT_BACK_SHARE: u64 = 8;
/// Pauses after an accept that failed, from the first to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a shortage is logged while it lasts.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// One listener's accepting.
pub(crate) struct Acceptor {
    /// What connects, for messages.
    name: &'static str,
    /// Connections whose handle has this number or a higher one are refused: handles are numbered from the lowest that is free.
    handles_max: u64,
    pause: Duration,
    /// When a shortage was logged last, and what happened since.
    logged: Option<Instant>,
    unlogged: u64,
}

impl Acceptor {
    /// For a process that may have so many handles.
    pub(crate) fn new(name: &'static str, handles: u64) -> Acceptor {
        let handles_max = handles - KEPT_BACK.min(handles / KEPT_BACK_SHARE);
        Acceptor { name, handles_max, pause: PAUSE_MIN, logged: None, unlogged: 0 }
    }

    /// The next connection, and whether there are handles to serve it. Can be dropped at any time.
    pub(crate) async fn accept(&mut self, listener: &TcpListener) -> (TcpStream, bool) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    tracing::debug!(%address, listener = self.name, "connection accepted");
                    let has_room = u64::try_from(stream.as_raw_fd()).is_ok_and(|handle| handle < self.handles_max);
                    if has_room {
                        self.pause = PAUSE_MIN;
                    } else {
                        self.log("all file handles that clients may have are taken");
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

    /// At once, and then once in a while with how often.
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
