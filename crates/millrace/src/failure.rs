//! Errors of commands: message, hint and exit code.

use std::fmt::Display;

use crate::stdio;

/// The error that ended a command.
pub(crate) struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The work failed (exit code 1).
    pub(crate) fn new(message: impl Display) -> Failure {
        Failure { code: 1, message: message.to_string(), hint: None }
    }

    /// The command line or configuration is wrong; nothing was started (exit code 2).
    pub(crate) fn usage(message: impl Display) -> Failure {
        Failure { code: 2, message: message.to_string(), hint: None }
    }

    /// The error was already reported; only the exit code remains.
    pub(crate) fn already_reported() -> Failure {
        Failure { code: 1, message: String::new(), hint: None }
    }

    /// Adds a hint.
    pub(crate) fn with_hint(mut self, hint: impl Display) -> Failure {
        self.hint = Some(hint.to_string());
        self
    }

    /// Puts the place before the message.
    pub(crate) fn context(mut self, place: impl Display) -> Failure {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Replaces the message.
    pub(crate) fn map(mut self, change: impl FnOnce(&str) -> String) -> Failure {
        self.message = change(&self.message);
        self
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Prints message and hint to stderr.
    pub(crate) fn print(&self) {
        if !self.message.is_empty() {
            stdio::err(&format!("ERROR:  {}", self.message));
        }
        if let Some(hint) = &self.hint {
            stdio::err(&format!("HINT:   {hint}"));
        }
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.message, self.hint.as_deref().unwrap_or_default())
    }
}

impl From<model::Error> for Failure {
    fn from(error: model::Error) -> Failure {
        let detail = error.detail().map(|detail| format!("\n        {detail}")).unwrap_or_default();
        let message = format!("{}{detail}\n        (SQLSTATE {})", error.message(), error.state());
        Failure { code: 1, message, hint: error.hint().map(str::to_owned) }
    }
}
