//! Interface of the measured products.

use super::plan::{Part, Seen, Shape};
use crate::error::Result;

/// A product, and the place where it keeps the series.
pub(super) trait Store: Sync {
    /// Version that the product reports.
    fn version(&self) -> Result<String>;

    /// Creates the series of a set, or the table for them.
    fn create(&self, shape: &Shape) -> Result<()>;

    /// Removes the series of a set from a running server.
    fn drop_series(&self, shape: &Shape) -> Result<()>;

    /// Asks the product for its final form on disk. May return before it is done.
    fn settle(&self) -> Result<()>;

    /// Connects client `client` (from 0) to servers, among which it spreads its requests.
    ///
    /// - `servers`: `HOST:PORT` of each; if empty, requests are sent to the store itself.
    fn connect(&self, client: usize, servers: &[String]) -> Result<Box<dyn Client>>;

    /// Replaces `body` by the values of a request; not timed.
    fn encode(&self, shape: &Shape, part: &Part, version: u32, body: &mut Vec<u8>) -> Result<()>;

    /// Adds the values of an answer to `seen`; not timed.
    ///
    /// # Errors
    /// A finding: the answer is malformed, or has a value that was not requested.
    fn check(&self, answer: &[u8], seen: &mut Seen<'_>) -> std::result::Result<(), String>;
}

/// A client with its connections. Its calls are timed.
pub(super) trait Client: Send {
    /// Writes an encoded body of version `version` and waits for the acknowledgement.
    fn write(&mut self, shape: &Shape, part: &Part, version: u32, body: &[u8]) -> Result<()>;

    /// Reads an answer completely. `answer` is replaced, and its memory reused.
    fn read(&mut self, shape: &Shape, part: &Part, answer: &mut Vec<u8>) -> Result<()>;
}
