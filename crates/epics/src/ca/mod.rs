//! A Channel Access client for very many channels.
//!
//! Words: a *channel* is a subscription of this client to a PV by name; a *circuit* is a TCP connection to a server (IOC or gateway)
//! that carries its channels; a *search* asks by datagrams which server has a name; a *beacon* is a server's sign of life.
//!
//! ```no_run
//! # async fn example() -> Result<(), epics::ca::Error> {
//! use epics::ca::{Client, Options, Settings};
//! let settings = Settings::from_environment()?;
//! let (client, mut events) = Client::new(settings, || 0)?; // a real clock instead of 0
//! let beam = client.subscribe("SR:BEAM:CURRENT", Options::default()).await?;
//! while let Some(update) = events.next().await {
//!     println!("{:?} {:?}", update.channel == beam, update.event);
//! }
//! # Ok(()) }
//! ```
//!
//! Modules, lowest first: `protocol` (messages), `dbr` (payloads), `settings`, `beacon`, `repeater`, `circuit`, `name_server`, `director` (all channels).
//!
//! Always true:
//! - A sample is delivered, or counted in a [`Event::Dropped`], or its possible loss in the server is marked by [`Event::Withheld`]. Losses
//!   in a server that was not asked to withhold cannot be known: it keeps only the newest update of a channel while its connection is full.
//! - Events of a channel are in order, across reconnections too.
//! - All queues are bounded: by bytes ([`Settings::queue_bytes`]) or by the number of channels.
//! - A circuit that fails or stalls stops no other.
//!
//! The client has no writing, and IPv6, which Channel Access does not have.

mod beacon;
mod circuit;
pub mod dbr;
mod director;
mod name_server;
pub mod protocol;
mod repeater;
pub mod settings;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::connection::bind;
use crate::client::event::Queue;
use crate::sample::Nanos;
use circuit::Shared;
use director::{Command, Director};

pub use dbr::NativeType;
pub use protocol::NAME_BYTES_MAX;
pub use settings::Settings;

pub use crate::client::{
    Access, Annotations, Batch, ChannelId, Counter, DropReason, Event, EventMask, Events, Reason, SettingError,
    Statistics, Update,
};

use crate::client::Clock;

/// Commands that wait for the director.
const COMMANDS: usize = 1_024;
/// Reports that wait for the director.
const REPORTS: usize = 1_024;
/// A subscription has a number twice that of its channel, or one more.
const CHANNELS_MAX: u32 = u32::MAX / 2;

/// Options of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Conditions of an update; by default `LOG | ALARM`, those of an archiver.
    pub mask: EventMask,
    /// Priority of the circuit, 0 ..= 99.
    pub priority: u8,
    /// Whether metadata are read and followed.
    pub metadata: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { mask: EventMask::LOG | EventMask::ALARM, priority: 0, metadata: true }
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
    /// The priority is above 99.
    Priority {
        /// The priority.
        seen: u8,
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
            Error::Priority { seen } => write!(f, "invalid priority {seen}: expected 0 to 99"),
            Error::NoRuntime => write!(f, "the Channel Access client was started outside of a tokio runtime"),
            Error::Socket(error) => write!(f, "cannot open the UDP socket of Channel Access searches: {error}"),
            Error::Ended => write!(f, "the Channel Access client has ended"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Error {
        Error::Setting(error)
    }
}

/// A Channel Access client.
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
        let socket = bind(&settings.addresses).map_err(Error::Socket)?;
        let (queue, events) = Queue::new(settings.queue_bytes);
        let (commands, command_receiver) = mpsc::channel(COMMANDS);
        let (reports, report_receiver) = mpsc::channel(REPORTS);
        let statistics = Arc::new(Statistics::default());
        let shared = Shared {
            settings: Arc::new(settings),
            clock: Arc::new(clock),
            queue,
            reports,
            statistics: Arc::clone(&statistics),
        };
        let director = Director::new(shared, socket).run(command_receiver, report_receiver);
        let director = runtime.spawn(director);
        Ok((Client { commands, statistics, next_channel: AtomicU32::new(0), director }, events))
    }

    /// Subscribes to a PV. The server is searched for until `unsubscribe`, and again whenever it is lost.
    ///
    /// # Errors
    /// `Name`, `Priority`, `Ended`.
    pub async fn subscribe(&self, name: &str, options: Options) -> Result<ChannelId, Error> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(Error::Name { seen: name.to_owned() });
        }
        if options.priority > 99 {
            return Err(Error::Priority { seen: options.priority });
        }
        let next = |n| (n < CHANNELS_MAX).then_some(n + 1);
        let channel = self.next_channel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let channel = channel.map_err(|_| Error::Ended)?;
        let command = Command::Subscribe { channel, name: name.into(), options };
        self.commands.send(command).await.map_err(|_| Error::Ended)?;
        Ok(ChannelId(channel))
    }

    /// Ends a subscription. Its updates that are in the queue still arrive. A channel that does not exist is ignored.
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
