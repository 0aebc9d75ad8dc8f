//! Signals, on a thread of their own: the server may be asked to end however busy its other threads are.
//!
//! | signal | effect |
//! |---|---|
//! | SIGTERM, SIGINT | a clean end; the second one ends the process at once |
//! | SIGQUIT | ends the process at once |
//! | SIGHUP | a clean end where the server runs in a terminal, which was closed; ignored elsewhere, and under nohup |
//! | SIGUSR1, SIGUSR2 | ignored |

use std::fs;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// How long after the grace connections and statements may take to end, before the process ends without them.
const SECOND_GRACE: Duration = Duration::from_secs(3);

/// What the thread of signals and the server share.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: watch::Receiver<bool>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What is closed if the server does not come to it.
    engine: OnceLock<Engine>,
    /// Does somebody close it already?
    is_closing: AtomicBool,
}

impl Stop {
    /// Starts the thread: from here on signals are ours. What runs when an end is asked for gets `grace` to finish.
    pub(crate) fn listen(grace: Duration) -> Result<Stop, Failure> {
        let cannot = |error: io::Error| Failure::new(format!("cannot listen to signals: {error}"));
        // Asked before we listen, which changes it.
        let hangup_ends = !is_hangup_ignored() && (io::stdin().is_terminal() || io::stderr().is_terminal());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen(hangup_ends).map_err(cannot)?
        };
        let (ask, asked) = watch::channel(false);
        let shared = Arc::<Shared>::default();
        let stop = Stop { asked, shared: Arc::clone(&shared) };
        let body = move || runtime.block_on(watch_signals(signals, ask, shared, grace));
        std::thread::Builder::new().name("signals".to_owned()).spawn(body).map_err(cannot)?;
        Ok(stop)
    }

    /// Says what is to be closed when the server is too busy to do it.
    pub(crate) fn opened(&self, engine: &Engine) {
        let _ = self.shared.engine.set(engine.clone());
    }

    /// Until an end is asked for.
    pub(crate) async fn wait(mut self) {
        let _ = self.asked.wait_for(|asked| *asked).await;
    }

    /// Whether the caller is to close the database: the first who asks is.
    pub(crate) fn may_close(&self) -> bool {
        !self.shared.is_closing.swap(true, Ordering::SeqCst)
    }
}

/// Waits for the signal to end, and then sees to it that the process ends.
async fn watch_signals(mut signals: Signals, ask: watch::Sender<bool>, shared: Arc<Shared>, grace: Duration) {
    let name = signals.next_end().await;
    let grace_s = grace.as_secs();
    tracing::info!(signal = name, grace_s, "stopping: no new statements begin, running ones may finish");
    ask.send_replace(true);
    let stuck = async {
        tokio::time::sleep(grace + SECOND_GRACE).await;
        end_without_the_server(&shared);
        std::future::pending::<&str>().await
    };
    let name = tokio::select! {
        name = signals.next_end() => name,
        name = stuck => name,
    };
    tracing::warn!(signal = name, "stopped at once; the log is recovered at the next start");
    std::process::exit(1);
}

/// Closes the database and ends the process, on a thread of its own, unless the server has begun to do that.
fn end_without_the_server(shared: &Shared) {
    if shared.is_closing.swap(true, Ordering::SeqCst) {
        tracing::info!("still flushing");
        return;
    }
    let engine = shared.engine.get().cloned();
    match &engine {
        Some(_) => tracing::warn!("statements that compute did not end when cancelled; the server ends without them"),
        None => tracing::warn!("the directory was still being opened; the next start begins anew"),
    }
    let end = move || {
        let closed = engine.map_or(Ok(()), |engine| engine.flush().and_then(|()| engine.close()));
        if let Err(error) = &closed {
            tracing::error!(%error, "not flushed; the log has what was acknowledged, and is recovered at the next start");
        }
        std::process::exit(i32::from(closed.is_err()));
    };
    if std::thread::Builder::new().name("end".to_owned()).spawn(end).is_err() {
        std::process::exit(1);
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user: [Signal; 2],
    hangup_ends: bool,
}

impl Signals {
    fn listen(hangup_ends: bool) -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user: [signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?],
            hangup_ends,
        })
    }

    /// The name of the next signal that asks for an end.
    async fn next_end(&mut self) -> &'static str {
        loop {
            let [user1, user2] = &mut self.user;
            let ignored = tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.quit.recv() => {
                    tracing::warn!(signal = "SIGQUIT", "stopped at once; the log is recovered at the next start");
                    std::process::exit(1);
                }
                _ = self.hangup.recv() => match self.hangup_ends {
                    true => return "SIGHUP",
                    false => "SIGHUP",
                },
                _ = user1.recv() => "SIGUSR1",
                _ = user2.recv() => "SIGUSR2",
            };
            tracing::info!(
                signal = ignored,
                "ignored: settings are read at the start, and the log goes to standard error"
            );
        }
    }
}

/// Whether whoever started this process had it ignore SIGHUP, as nohup does.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
