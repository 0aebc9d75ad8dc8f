//! Progress on stderr: one line that is overwritten on a terminal, otherwise a line per interval.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::engine::{Plan, Progress};
use crate::run::Show;

pub(super) struct Terminal {
    quiet: bool,
    /// Whether stderr is a terminal, so that the line can be overwritten.
    live: bool,
    interval: Duration,
    last: Option<(Instant, Progress)>,
    last_live: Option<Instant>,
    /// Whether the current line lacks its newline.
    open: bool,
}

impl Terminal {
    pub(super) fn new(quiet: bool, interval_s: u64) -> Terminal {
        let live = std::io::stderr().is_terminal();
        let interval = if live { Duration::from_millis(500) } else { Duration::from_secs(interval_s) };
        Terminal { quiet, live, interval, last: None, last_live: None, open: false }
    }

    /// Ends the line that is being overwritten.
    pub(super) fn finish(&mut self) {
        if std::mem::take(&mut self.open) {
            eprintln!();
        }
    }

    fn line(&mut self, text: &str) {
        if self.live {
            eprint!("\r\x1b[2K{text}");
            let _ = std::io::stderr().flush();
            self.open = true;
        } else {
            eprintln!("{text}");
        }
    }
}

impl Show for Terminal {
    fn stage(&mut self, text: &str) {
        if !self.quiet {
            self.finish();
            self.line(text);
            self.last = None;
        }
    }

    fn live(&mut self, text: &dyn Fn() -> String) {
        if !self.quiet && self.last_live.is_none_or(|last| last.elapsed() >= self.interval) {
            self.last_live = Some(Instant::now());
            self.line(&text());
        }
    }

    fn progress(&mut self, plan: &Plan, progress: &Progress) {
        if self.quiet {
            return;
        }
        let (since, before) = match &self.last {
            None => (progress.elapsed, Progress::default()),
            Some((at, before)) => (at.elapsed(), before.clone()),
        };
        if since < self.interval {
            return;
        }
        let seconds = since.as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let left = match progress.share {
            share if share > 0.001 => {
                let left = progress.elapsed.as_secs_f64() * (1.0 - share) / share;
                format!(", {} left", duration(left))
            }
            _ => String::new(),
        };
        let failed = if progress.failed > 0 { format!(", {} FAILED", progress.failed) } else { String::new() };
        self.line(&format!(
            "{}: {:5.1} %  {} operations/s  {} points/s{failed}  {} elapsed{left}",
            plan.name,
            progress.share * 100.0,
            short(rate(progress.operations, before.operations)),
            short(rate(progress.points, before.points)),
            duration(progress.elapsed.as_secs_f64()),
        ));
        self.last = Some((Instant::now(), progress.clone()));
    }
}

/// Formats a rate with a unit prefix, such as `12.34 M`.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

fn duration(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60),
    }
}
