//! What can go wrong between this tool and a target, classed by what it says about the target.

use std::fmt;

/// Result of anything that can fail here.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Why an operation failed. Reports count failures by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The target understood and refused: a 4xx, a constraint, a type. Nothing was applied.
    Refused,
    /// The target's disk is full, and it said so. Nothing was applied.
    DiskFull,
    /// The target is out of memory or overloaded and asks to come back: 429, 503, 53200. Nothing was applied.
    Overloaded,
    /// The target failed inside: a 5xx, an internal error. What it applied is unknown.
    Server,
    /// No answer in time. What was applied is unknown.
    Timeout,
    /// The connection broke or could not be made. What was applied is unknown.
    Connection,
    /// The target's bytes do not follow its protocol.
    Protocol,
    /// This target cannot do what was asked of it; nothing was sent.
    Unsupported,
    /// Configuration, files, or this machine: the run cannot go on.
    Setup,
}

impl Class {
    /// The name in reports.
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

    /// May a write that failed so have been applied nevertheless?
    pub fn outcome_unknown(self) -> bool {
        matches!(self, Class::Server | Class::Timeout | Class::Connection | Class::Protocol)
    }
}

/// A failure: its class, and a message that says what, where, seen and expected.
#[derive(Clone, Debug)]
pub struct Error {
    /// Which kind of failure.
    pub class: Class,
    /// For a person.
    pub message: String,
}

impl Error {
    /// A failure of `class`.
    pub fn new(class: Class, message: impl Into<String>) -> Error {
        Error { class, message: message.into() }
    }

    /// The run cannot begin or go on.
    pub fn setup(message: impl Into<String>) -> Error {
        Error::new(Class::Setup, message)
    }

    /// The target's bytes do not follow its protocol.
    pub fn protocol(message: impl Into<String>) -> Error {
        Error::new(Class::Protocol, message)
    }

    /// The target cannot do this.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(Class::Unsupported, message)
    }

    /// A failed call on a socket to `whom`: a timeout or a broken connection.
    pub fn socket(whom: &str, error: &std::io::Error) -> Error {
        let class = match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Class::Timeout,
            _ => Class::Connection,
        };
        Error::new(class, format!("{whom}: {error}"))
    }

    /// The same failure with what was being done in front.
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
