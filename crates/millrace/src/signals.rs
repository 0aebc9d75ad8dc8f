//! Signal handling on a separate thread, so that shutdown works however busy the other threads are.
//!
//! | signal | effect |
//! |---|---|
//! | SIGTERM, SIGINT | clean shutdown; the second one exits at once |
//! | SIGQUIT | exits at once |
//! | SIGHUP | clean shutdown if the server runs in a terminal, which was closed; ignored otherwise and under nohup |
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

/// Time after the grace period for connections and statements to end, before the process exits without them.
const SECOND_GRACE: Duration = Duration::from_secs(3);

/// State shared by the signal thread and the server.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: watch::Receiver<bool>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The engine to close if the server does not.
    engine: OnceLock<Engine>,
    /// Whether it is already being closed.
    is_closing: AtomicBool,
}

impl Stop {
    /// Starts the signal thread. After a shutdown request, running work gets `grace` to finish.
    pub(crate) fn listen(grace: Duration) -> Result<Stop, Failure> {
        let cannot = |error: io::Error| Failure::new(format!("cannot install signal handlers: {error}"));
        // Read before our handler is installed, which changes it.
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

    /// Registers the engine to close if the server is too busy to do it.
    pub(crate) fn opened(&self, engine: &Engine) {
        let _ = self.shared.engine.set(engine.clone());
    }

    /// Waits for a shutdown request.
    pub(crate) async fn wait(mut self) {
        let _ = self.asked.wait_for(|asked| *asked).await;
    }

    /// Whether the caller must close the engine: true for the first caller.
    pub(crate) fn may_close(&self) -> bool {
        !self.shared.is_closing.swap(true, Ordering::SeqCst)
    }
}

/// Waits for a shutdown signal, then makes sure that the process ends.
async fn watch_signals(mut signals: Signals, ask: watch::Sender<bool>, shared: Arc<Shared>, grace: Duration) {
    let name = signals.next_end().await;
    let grace_s = grace.as_secs();
    tracing::info!(signal = name, grace_s, "stopping: no new statements are accepted, running ones may finish");
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

/// Closes the engine and exits, on another thread, unless the server has started to do so.
fn end_without_the_server(shared: &Shared) {
    if shared.is_closing.swap(true, Ordering::SeqCst) {
        tracing::info!("still flushing");
        return;
    }
    let engine = shared.engine.get().cloned();
    match &engine {
        Some(_) => tracing::warn!("some statements did not stop when cancelled; exiting without them"),
        None => tracing::warn!("the directory was still being opened; the next start repeats the recovery"),
    }
    let end = move || {
        let closed = engine.map_or(Ok(()), |engine| engine.flush().and_then(|()| engine.close()));
        if let Err(error) = &closed {
            tracing::error!(%error, "not flushed; acknowledged changes are in the log and are recovered at the next start");
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

    /// Waits for the next shutdown signal; returns its name.
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

/// Whether the parent process had SIGHUP ignored, as nohup does.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
