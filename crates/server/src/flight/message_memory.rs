//! Accounts for the bytes of incoming messages in the memory budget.
//!
//! The gRPC library assembles a message before this crate sees it, and a message may be large. The
//! bytes of a call's body are therefore tracked on their way to the library: the incomplete message
//! and the latest piece are reserved.

use axum::body::Body;
use engine::{MemoryBudget, Reservation, Work};
use futures::StreamExt;
use tonic::Status;

use super::status::status;

/// Wraps a call's body with accounting.
pub(super) fn account(body: tonic::body::Body, memory: &MemoryBudget) -> tonic::body::Body {
    let mut message = Message { held: memory.reservation(Work::Requests), head: [0; HEAD_BYTES], read: 0, left: 0 };
    let pieces = Body::new(body).into_data_stream().map(move |piece| {
        let piece = piece.map_err(|error| Status::from_error(Box::new(error)))?;
        message.pass(&piece)?;
        Ok::<_, Status>(piece)
    });
    tonic::body::Body::new(Body::from_stream(pieces))
}

/// Prefix of each message: a flag, and its length, big-endian.
const HEAD_BYTES: usize = 5;

/// The incomplete message.
struct Message {
    held: Reservation,
    head: [u8; HEAD_BYTES],
    /// Bytes read, including the prefix.
    read: u64,
    /// Bytes to come, once the prefix is read.
    left: u64,
}

impl Message {
    /// Tracks a piece of the body.
    fn pass(&mut self, piece: &[u8]) -> Result<(), Status> {
        self.held.resize(self.read + piece.len() as u64).map_err(|error| status(&error))?;
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = match HEAD_BYTES.checked_sub(self.read as usize) {
                Some(missing @ 1..) => {
                    let taken = missing.min(rest.len());
                    self.head[self.read as usize..][..taken].copy_from_slice(&rest[..taken]);
                    taken
                }
                _ => self.left.min(rest.len() as u64) as usize,
            };
            let was_in_head = self.read < HEAD_BYTES as u64;
            self.read += taken as u64;
            if was_in_head {
                let [_, length @ ..] = self.head;
                self.left = u32::from_be_bytes(length).into();
            } else {
                self.left -= taken as u64;
            }
            if self.read >= HEAD_BYTES as u64 && self.left == 0 {
                self.read = 0;
            }
            rest = &rest[taken..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use env::RealEnv;

    use super::*;

    fn memory(dir: &tempfile::TempDir) -> MemoryBudget {
        let opened = engine::Engine::open(Arc::new(RealEnv::new()), dir.path(), engine::Options::default());
        opened.unwrap().0.memory().clone()
    }

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&(length as u32).to_be_bytes());
        bytes.resize(HEAD_BYTES + length, 7);
        bytes
    }

    #[test]
    fn bytes_are_reserved_until_their_message_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory(&dir);
        let lengths = [0, 1, 4, 5, 6, 300, 0, 0, 70_000, 2];
        let bytes: Vec<u8> = lengths.iter().flat_map(|length| message(*length)).collect();
        let ends: Vec<usize> = lengths
            .iter()
            .scan(0, |end, length| {
                *end += HEAD_BYTES + length;
                Some(*end)
            })
            .collect();
        for cut in [1, 2, 3, 7, 64, 1_000, bytes.len()] {
            let mut passed =
                Message { held: memory.reservation(Work::Requests), head: [0; HEAD_BYTES], read: 0, left: 0 };
            let mut at = 0;
            for piece in bytes.chunks(cut) {
                let begun = at - ends.iter().rfind(|end| **end <= at).unwrap_or(&0);
                passed.pass(piece).unwrap();
                assert_eq!(memory.used(Work::Requests), (begun + piece.len()) as u64, "at {at} by {cut}");
                at += piece.len();
            }
            assert_eq!(passed.read, 0);
        }
        assert_eq!(memory.used(Work::Requests), 0);
    }

    #[test]
    fn a_message_beyond_the_memory_budget_is_refused_early() {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory(&dir);
        let mut passed = Message { held: memory.reservation(Work::Requests), head: [0; HEAD_BYTES], read: 0, left: 0 };
        passed.pass(&[0, 0xff, 0xff, 0xff, 0xff]).unwrap();
        let piece = vec![0; 1 << 20];
        let refused = (0..1 << 20).find_map(|_| passed.pass(&piece).err()).unwrap();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("(SQLSTATE 53200)"), "{}", refused.message());
        assert!(memory.used(Work::Requests) <= memory.max_of(Work::Requests));
    }
}
