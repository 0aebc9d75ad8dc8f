//! A running COPY FROM STDIN.

use std::sync::Arc;

use async_trait::async_trait;
use model::Result;

use crate::session::Session;
use crate::session::activity::{CopyProgress, Copying};

/// A running COPY FROM STDIN. Dropping it abandons the rows.
pub struct CopyIn {
    target: Box<dyn CopyTarget>,
    progress: Arc<CopyProgress>,
    _copying: Copying,
}

/// Bytes that a target decodes at once.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The destination of the data of a COPY FROM STDIN.
#[async_trait]
pub(crate) trait CopyTarget: Send {
    /// Whether the data is binary.
    fn binary(&self) -> bool;

    /// Number of columns; 0 for a file, which has its own schema.
    fn columns(&self) -> usize;

    /// Rows decoded so far; 0 for a file.
    fn rows(&self) -> u64;

    /// Takes at most [`PIECE_BYTES`] of the stream, cut at any byte. Clients send a row a message, so that this does not wait;
    /// true if [`CopyTarget::write`] must be called before the next piece.
    fn decode(&mut self, session: &mut Session, piece: &[u8]) -> Result<bool>;

    /// Writes what is buffered.
    async fn write(&mut self, session: &mut Session) -> Result<()>;

    /// Writes the remaining rows; returns the number of all rows.
    async fn finish(&mut self, session: &mut Session, progress: &CopyProgress) -> Result<u64>;
}

impl CopyIn {
    pub(crate) fn new(session: &Session, target: impl CopyTarget + 'static) -> CopyIn {
        let progress = Arc::new(CopyProgress::taking());
        let copying = session.entered.copying(Arc::clone(&progress));
        CopyIn { target: Box::new(target), progress, _copying: copying }
    }

    /// The progress, which other sessions can see.
    pub(crate) fn progress(&self) -> &CopyProgress {
        &self.progress
    }

    /// Whether the data is binary.
    #[must_use]
    pub fn binary(&self) -> bool {
        self.target.binary()
    }

    /// Number of columns; 0 for a file, which has its own schema.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.target.columns()
    }

    /// Decodes a chunk of the stream; chunks may end anywhere. An error fails the transaction.
    ///
    /// # Errors
    /// 22P02, 22P04 and others naming line and column; those of INSERT; 53200 if the rows exceed the transaction's
    /// memory.
    pub async fn data(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        let result = self.take(session, bytes).await;
        self.progress.taken(bytes.len() as u64, self.target.rows());
        if result.is_err() {
            session.fail();
        }
        result
    }

    async fn take(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            if self.target.decode(session, piece)? {
                self.target.write(session).await?;
            }
        }
        Ok(())
    }

    /// Ends the COPY; commits unless in a transaction block. Returns the tag "COPY n".
    ///
    /// # Errors
    /// Those of [`CopyIn::data`] and of COMMIT.
    pub async fn done(mut self, session: &mut Session) -> Result<String> {
        match self.target.finish(session, &self.progress).await {
            Ok(rows) => {
                session.end_single().await?;
                Ok(format!("COPY {rows}"))
            }
            Err(error) => {
                session.fail();
                Err(error)
            }
        }
    }
}
