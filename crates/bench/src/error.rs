//! Errors of this tool and of its targets, classified by what they say about the target's state.

use std::fmt;

/// Result of any fallible operation of this crate.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Class of a failure. Reports count failures by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The target refused the request: a 4xx, a constraint, a type. Nothing was applied.
    Refused,
    /// The target reported a full disk. Nothing was applied.
    DiskFull,
    /// The target is overloaded or out of memory and asks for a retry: 429, 503, 53200. Nothing was
    /// applied.
    Overloaded,
    /// An internal error of the target, such as a 5xx. The effect of the request is unknown.
    Server,
    /// No answer in time. The effect of the request is unknown.
    Timeout,
    /// The connection broke or could not be opened. The effect of the request is unknown.
    Connection,
    /// The target's response violates its protocol. The effect of the request is unknown.
    Protocol,
    /// This target does not support the operation; nothing was sent.
    Unsupported,
    /// Configuration, files or this machine prevent the run.
    Setup,
}

impl Class {
    /// Name of the class in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Refused => "refused",
            Class::DiskFull => "disk full",
            Class::Overloaded => "overloaded",
            Class::Server => "server error",
            Class::Timeout => "timeout",
            Class::Connection => "connection",
            Class::Protocol => "protocol",
            Class::Unsupported => "unsupported",
            Class::Setup => "set-up",
        }
    }

    /// Returns whether a write that failed with this class may have been applied.
    pub fn outcome_unknown(self) -> bool {
        matches!(self, Class::Server | Class::Timeout | Class::Connection | Class::Protocol)
    }
}

/// A failure: its class, and a message that names the operation, the place, and seen and expected
/// values.
#[derive(Clone, Debug)]
pub struct Error {
    /// Class under which reports count it.
    pub class: Class,
    /// Human-readable text.
    pub message: String,
}

impl Error {
    /// Creates an error of class `class`.
    pub fn new(class: Class, message: impl Into<String>) -> Error {
        Error { class, message: message.into() }
    }

    /// Creates an error that prevents the run from starting or continuing.
    pub fn setup(message: impl Into<String>) -> Error {
        Error::new(Class::Setup, message)
    }

    /// Creates an error for a response that violates the target's protocol.
    pub fn protocol(message: impl Into<String>) -> Error {
        Error::new(Class::Protocol, message)
    }

    /// Creates an error for an operation that this target does not support.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(Class::Unsupported, message)
    }

    /// Classifies an I/O error on a socket to `peer`: a timeout, or else a broken connection.
    pub fn socket(peer: &str, error: &std::io::Error) -> Error {
        let class = match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Class::Timeout,
            _ => Class::Connection,
        };
        Error::new(class, format!("{peer}: {error}"))
    }

    /// Returns the error with the operation `what` in front of its message.
    #[must_use]
    pub fn during(mut self, what: impl fmt::Display) -> Error {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
