//! COPY FROM STDIN and COPY TO STDOUT.

use std::pin::pin;

use ::pg::Form;
use ::pg::backend::{self, CopyDirection};
use ::pg::frontend::{self, Frontend};
use futures::{Stream, StreamExt};
use model::{Error, Result, SqlState};
use query::{Chunk, CopyForm, CopyIn, computing};

use super::connection::Connection;
use super::statement_watchdog::Fault;

/// Signature of binary COPY; followed by flags and an extension's length.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Signature, flags, extension length.
const BINARY_HEADER_BYTES: usize = 19;
/// Larger pieces are decoded on a thread of their own.
const LONG_DATA_BYTES: usize = 8 << 10;

fn form(binary: bool) -> Form {
    if binary { Form::Binary } else { Form::Text }
}

impl Connection<'_> {
    /// Decodes the client's data. The next piece is read after the previous one was processed:
    /// back-pressure on the client.
    pub(super) async fn copy_in(&mut self, mut copy: CopyIn) -> Result<(), Fault> {
        backend::copy_response(&mut self.wire.output, CopyDirection::In, form(copy.binary()), copy.columns());
        loop {
            let frame = self.wire.message().await?;
            match frontend::parse(&frame)? {
                Frontend::CopyData(bytes) if bytes.len() > LONG_DATA_BYTES => {
                    computing(pin!(copy.data(&mut self.session, bytes))).await?;
                }
                Frontend::CopyData(bytes) => {
                    copy.data(&mut self.session, bytes).await?;
                    self.yield_if_due().await;
                }
                Frontend::CopyDone => break,
                Frontend::CopyFail(reason) => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Error::new(SqlState::QUERY_CANCELED, message).into());
                }
                // Clients that send Sync with Execute do not know yet that a COPY started.
                Frontend::Sync | Frontend::Flush => (),
                _ => {
                    let message = format!("message type {:#04x} during COPY from stdin", frame[0]);
                    return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message).into());
                }
            }
        }
        let tag = computing(pin!(copy.done(&mut self.session))).await?;
        self.complete(&tag);
        Ok(())
    }

    /// Sends encoded rows, one message per row because some clients count rows; file chunks are
    /// sent unchanged.
    pub(super) async fn copy_out(
        &mut self,
        made_of: CopyForm,
        columns: usize,
        mut chunks: impl Stream<Item = Result<Chunk>> + Unpin,
    ) -> Result<(), Fault> {
        let binary = made_of != CopyForm::Text;
        backend::copy_response(&mut self.wire.output, CopyDirection::Out, form(binary), columns);
        let mut rows = 0;
        while let Some(chunk) = self.next_or_flush(&mut chunks).await? {
            let chunk = chunk?;
            rows += chunk.rows;
            let mut rest = chunk.bytes.as_slice();
            while !rest.is_empty() {
                let length = match made_of {
                    CopyForm::Text => text_row_len(rest),
                    CopyForm::Binary => binary_row_len(rest),
                    CopyForm::File => rest.len(),
                };
                let (row, tail) = rest.split_at(length);
                let before = self.wire.output.len();
                backend::copy_data(&mut self.wire.output, |out| out.extend_from_slice(row));
                self.wire.hold_output(before)?;
                self.wire.flush_if_full().await?;
                rest = tail;
            }
        }
        backend::copy_done(&mut self.wire.output);
        self.complete(&format!("COPY {rows}"));
        Ok(())
    }

    /// Returns the next item of a stream; flushes the output before it waits.
    pub(super) async fn next_or_flush<S: Stream + Unpin>(&mut self, stream: &mut S) -> Result<Option<S::Item>, Fault> {
        match futures::poll!(stream.next()) {
            std::task::Poll::Ready(item) => Ok(item),
            std::task::Poll::Pending => {
                self.wire.flush().await?;
                Ok(stream.next().await)
            }
        }
    }
}

/// Bytes of the first row in text or CSV. Splits a row at a line break inside CSV quotes, which CSV
/// parsers tolerate.
fn text_row_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

/// Bytes of the first binary row, including the file header or trailer; all bytes if the row is
/// incomplete.
fn binary_row_len(bytes: &[u8]) -> usize {
    let start = if bytes.starts_with(SIGNATURE) { BINARY_HEADER_BYTES } else { 0 };
    row_end(bytes, start).unwrap_or(bytes.len())
}

fn row_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 2;
    let count = i16::from_be_bytes(bytes.get(start..at)?.try_into().ok()?);
    for _ in 0..count {
        let length = i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        at += 4 + usize::try_from(length).unwrap_or(0);
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_in_text_and_binary() {
        assert_eq!(text_row_len(b"1\t2\n3\t4\n"), 4);
        assert_eq!(text_row_len(b"1"), 1);
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(b"\0\x02\0\0\0\x01a\xff\xff\xff\xff");
        assert_eq!(binary_row_len(&bytes), 30);
        bytes.extend_from_slice(b"\xff\xff");
        assert_eq!(binary_row_len(&bytes), 30);
        assert_eq!(binary_row_len(b"\xff\xff"), 2);
        for cut in 0..bytes.len() {
            assert!(binary_row_len(&bytes[..cut]) <= cut);
        }
    }
}
