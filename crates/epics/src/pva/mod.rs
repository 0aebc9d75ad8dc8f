//! A PV Access client for very many channels.
//!
//! Words: a *channel* is a subscription of this client to a PV by name; a *circuit* is a TCP connection to a server (IOC or gateway)
//! that carries its channels; a *search* asks by datagrams which server has a name; a *beacon* is a server's sign of life; a
//! *monitor* is a channel's stream of updates, each of which has only the fields that changed.
//!
//! ```no_run
//! # async fn example() -> Result<(), epics::pva::Error> {
//! use epics::pva::{Client, Options, Settings};
//! let settings = Settings::from_environment()?;
//! let (client, mut events) = Client::new(settings, || 0)?; // a real clock instead of 0
//! let beam = client.subscribe("SR:BEAM:CURRENT", Options::default()).await?;
//! while let Some(update) = events.next().await {
//!     println!("{:?} {:?}", update.channel == beam, update.event);
//! }
//! # Ok(()) }
//! ```
//!
//! Modules, lowest first: `wire` (primitives), `types`, `data` (values), `normative` (samples and metadata), `protocol` (messages),
//! `settings`, `beacon`, `circuit`, `name_server`, `director` (all channels). Those up to `protocol` know no sockets.
//!
//! Always true:
//! - A sample is delivered, or counted in a [`Event::Dropped`], or its possible loss in the server is marked by [`Event::Withheld`] or
//!   [`Event::Overrun`]. Losses in a server that does not report them cannot be known: servers of pvxs 1.5 report none. They lose an
//!   update when more than twice [`Options::queue`] are posted faster than the network carries them.
//! - A sample is the whole state of its PV, also when the updates before it were dropped.
//! - Events of a channel are in order, across reconnections too.
//! - All queues are bounded: by bytes ([`Settings::queue_bytes`]) or by the number of channels.
//! - A circuit that fails or stalls stops no other.
//!
//! The client has no writing, remote procedure calls, TLS, and IPv6.

mod beacon;
mod circuit;
pub mod data;
mod director;
mod name_server;
pub mod normative;
pub mod protocol;
pub mod settings;
pub mod types;
pub mod wire;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::Clock;
use crate::client::connection::bind;
use crate::client::event::Queue;
use crate::sample::Nanos;
use circuit::Shared;
use director::{Command, Director};

pub use crate::client::{
    Access, Annotations, Batch, ChannelId, Counter, DropReason, Event, EventMask, Events, Reason, SettingError,
    Statistics, Update,
};
pub use data::Structure;
pub use protocol::NAME_BYTES_MAX;
pub use settings::Settings;

/// Commands that wait for the director.
const COMMANDS: usize = 1_024;
/// Reports that wait for the director.
const REPORTS: usize = 1_024;

/// Options of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Conditions of an update, which IOCs obey and other servers ignore; by default `LOG | ALARM`, those of an archiver.
    pub mask: EventMask,
    /// Updates that the server may send before the first of them is acknowledged, and that it keeps meanwhile; 2 or more. Some
    /// servers have a shorter queue, and report what they lose by it.
    pub queue: u32,
    /// Whether metadata are reported.
    pub metadata: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { mask: EventMask::LOG | EventMask::ALARM, queue: 64, metadata: true }
    }
}

/// An error of a client.
#[derive(Debug)]
pub enum Error {
    /// A setting cannot be used.
    Setting(SettingError),
    /// The name is no name of a PV.
    Name {
        /// The name.
        seen: String,
    },
    /// The queue is shorter than 2.
    Queue {
        /// Length that was asked for.
        seen: u32,
    },
    /// The call was made outside of a tokio runtime.
    NoRuntime,
    /// The socket for searches cannot be opened.
    Socket(io::Error),
    /// The client has ended, because its events were dropped, or has used all its channel numbers.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting(error) => error.fmt(f),
            Error::Name { seen } => {
                write!(f, "invalid PV name {seen:?}: expected 1 to {NAME_BYTES_MAX} bytes without zeros")
            }
            Error::Queue { seen } => write!(f, "invalid queue length {seen}: expected 2 or more"),
            Error::NoRuntime => write!(f, "the PV Access client was started outside of a tokio runtime"),
            Error::Socket(error) => write!(f, "cannot open the UDP socket of PV Access searches: {error}"),
            Error::Ended => write!(f, "the PV Access client has ended"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Error {
        Error::Setting(error)
    }
}

/// A PV Access client.
#[derive(Debug)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    statistics: Arc<Statistics>,
    next_channel: AtomicU32,
    director: JoinHandle<()>,
}

impl Client {
    /// Starts a client on the current tokio runtime, and returns the stream of its events.
    ///
    /// - `clock`: source of receive times; called once a read of a socket.
    ///
    /// # Errors
    /// `NoRuntime`, `Socket`.
    pub fn new(
        settings: Settings,
        clock: impl Fn() -> Nanos + Send + Sync + 'static,
    ) -> Result<(Client, Events), Error> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let destinations: Vec<_> = settings.addresses.iter().chain(&settings.broadcasts).copied().collect();
        let socket = bind(&destinations).map_err(Error::Socket)?;
        let (queue, events) = Queue::new(settings.queue_bytes);
        let (commands, command_receiver) = mpsc::channel(COMMANDS);
        let (reports, report_receiver) = mpsc::channel(REPORTS);
        let statistics = Arc::new(Statistics::default());
        let clock: Clock = Arc::new(clock);
        let shared =
            Shared { settings: Arc::new(settings), clock, queue, reports, statistics: Arc::clone(&statistics) };
        let director = Director::new(shared, socket).run(command_receiver, report_receiver);
        let director = runtime.spawn(director);
        Ok((Client { commands, statistics, next_channel: AtomicU32::new(0), director }, events))
    }

    /// Subscribes to a PV. The server is searched for until `unsubscribe`, and again whenever it is lost.
    ///
    /// # Errors
    /// `Name`, `Queue`, `Ended`.
    pub async fn subscribe(&self, name: &str, options: Options) -> Result<ChannelId, Error> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(Error::Name { seen: name.to_owned() });
        }
        if options.queue < 2 {
            return Err(Error::Queue { seen: options.queue });
        }
        let next = |n: u32| n.checked_add(1);
        let channel = self.next_channel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let channel = channel.map_err(|_| Error::Ended)?;
        let command = Command::Subscribe { channel, name: name.into(), options };
        self.commands.send(command).await.map_err(|_| Error::Ended)?;
        Ok(ChannelId(channel))
    }

    /// Ends a subscription. Events that are in the queue still arrive.
    ///
    /// # Errors
    /// `Ended`.
    pub async fn unsubscribe(&self, channel: ChannelId) -> Result<(), Error> {
        let command = Command::Unsubscribe { channel: channel.0 };
        self.commands.send(command).await.map_err(|_| Error::Ended)
    }

    /// Counters.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Ends the client: closes all circuits without further events. Updates in the queue remain for the consumer.
    pub async fn shutdown(self) {
        let Client { commands, director, .. } = self;
        drop(commands);
        let _ = director.await;
    }
}
