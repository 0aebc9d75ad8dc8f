//! Logging of failed and slow statements.
//!
//! Internal and I/O errors are logged as errors, lack of resources as warnings, other failures as
//! information. To protect the disk from a client that repeats a failing statement, at most
//! [`LINES_PER_SECOND`] lines are logged, followed by the number of omitted ones.

use std::time::{Duration, Instant};

use model::Error;
use parking_lot::Mutex;

/// Log lines per second, for all sessions together.
const LINES_PER_SECOND: u32 = 50;
/// Bytes of a statement that are logged.
const STATEMENT_BYTES: usize = 1_000;

/// Statement log of a listener.
#[derive(Default)]
pub(super) struct StatementLog(Mutex<Second>);

/// Lines logged in the current second.
#[derive(Default)]
struct Second {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Second {
    /// Whether another line may be logged, and the number of lines omitted in the previous second
    /// if a new one starts.
    fn line(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if self.began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            left_out = self.left_out;
            *self = Second { began: Some(now), lines: 0, left_out: 0 };
        }
        self.lines += 1;
        if self.lines > LINES_PER_SECOND {
            self.left_out += 1;
            return (false, left_out);
        }
        (true, left_out)
    }
}

impl StatementLog {
    fn may_log(&self) -> bool {
        let (line, left_out) = self.0.lock().line(Instant::now());
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "statements that failed or were slow were not logged: more than {LINES_PER_SECOND} a second"
            );
        }
        line
    }

    /// Logs a failed statement.
    pub(super) fn failed(&self, pid: i32, error: &Error, statement: Option<&str>) {
        let state = error.state();
        let is_ours = matches!(&state.0[..2], "XX" | "58");
        if !is_ours && !self.may_log() {
            return;
        }
        let statement = truncated(statement.unwrap_or_default());
        match &state.0[..2] {
            _ if is_ours => tracing::error!(pid, state = %state, %error, statement, "statement failed"),
            "53" | "57" => tracing::warn!(pid, state = %state, %error, statement, "statement failed"),
            _ => tracing::info!(pid, state = %state, %error, statement, "statement failed"),
        }
    }

    /// Logs a statement that took at least `log_min_duration_statement`, from its message to its
    /// last row.
    pub(super) fn slow(&self, pid: i32, elapsed: Duration, statement: Option<&str>) {
        if self.may_log() {
            let statement = truncated(statement.unwrap_or_default());
            tracing::info!(pid, elapsed_ms = elapsed.as_millis() as u64, statement, "slow statement");
        }
    }
}

/// Truncates a statement for the log.
fn truncated(statement: &str) -> &str {
    &statement[..statement.floor_char_boundary(STATEMENT_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_line_limit_and_the_next_reports_omitted_lines() {
        let mut second = Second::default();
        let start = Instant::now();
        let logged = (0..80).filter(|_| second.line(start).0).count();
        assert_eq!(logged, LINES_PER_SECOND as usize);
        assert_eq!(second.line(start + Duration::from_secs(1)), (true, 30));
        assert_eq!(second.line(start + Duration::from_secs(2)), (true, 0));
    }

    #[test]
    fn long_statements_are_truncated_at_a_character_boundary() {
        let statement = "é".repeat(STATEMENT_BYTES);
        assert_eq!(truncated(&statement).len(), STATEMENT_BYTES);
        assert_eq!(truncated(&statement[..3 * 2]), "ééé");
        assert_eq!(truncated(&format!("x{statement}")).len(), STATEMENT_BYTES - 1);
    }
}
