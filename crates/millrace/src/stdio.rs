//! Output to stdout and stderr that may fail: full disk, closed pipe or terminal. The macros of the standard
//! library panic then, and a server must not end because its output cannot be written.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Log lines lost since the last one that was written.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes text to stdout; ignores errors.
pub(crate) fn out(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to stderr; ignores errors.
pub(crate) fn err(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes bytes to stdout. A closed pipe is not an error: its reader has read enough.
///
/// # Errors
/// Any other I/O error.
pub(crate) fn piped(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writer of log messages to stderr or nowhere. It never fails; after lost lines, the next line that can be written
/// is preceded by their number.
pub(crate) struct LogWriter<W>(pub(crate) W);

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = LOST.swap(0, Ordering::Relaxed);
        let note = if lost == 0 { Ok(()) } else { self.0.write_all(lost_line(line, lost).as_bytes()) };
        if note.and_then(|()| self.0.write_all(line)).is_err() {
            LOST.fetch_add(lost + 1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// The message about lost lines, in the format (text or JSON) of the line that follows.
fn lost_line(next: &[u8], lost: u64) -> String {
    if next.starts_with(b"{") {
        let fields = serde_json::json!({ "message": "lines of the log could not be written", "lost": lost });
        return format!("{}\n", serde_json::json!({ "level": "WARN", "fields": fields }));
    }
    format!("WARN lines of the log could not be written lost={lost}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer with limited room.
    struct Full<'a> {
        is_full: bool,
        lines: &'a mut Vec<u8>,
    }

    impl Write for Full<'_> {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.lines.extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_never_an_error() {
        let mut lines = Vec::new();
        for (is_full, line) in [(false, "a\n"), (true, "b\n"), (true, "c\n"), (false, "{}\n"), (false, "e\n")] {
            let mut writer = LogWriter(Full { is_full, lines: &mut lines });
            assert_eq!(writer.write(line.as_bytes()).unwrap(), line.len());
            writer.flush().unwrap();
        }
        let text = String::from_utf8(lines).unwrap();
        assert!(text.starts_with("a\n{") && text.ends_with("}\n{}\ne\n"), "{text}");
        assert!(text.contains("\"lost\":2"), "{text}");
    }
}
