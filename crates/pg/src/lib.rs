//! The PostgreSQL wire protocol at byte level: frontend and backend messages, and the text and
//! binary formats of values.
//!
//! Words: a *frame* is one whole message with its tag and length; a *form* is a format, text or
//! binary; *pg micros* are microseconds since 2000-01-01, PostgreSQL's internal timestamp.
//!
//! - [`frontend`]: messages from clients. [`frontend::frame_len`] finds the end of a message,
//!   [`frontend::parse`] decodes it without copying.
//! - [`backend`]: messages from the server, appended to a `Vec<u8>` without further allocation.
//! - [`types`]: OIDs, names and lengths of the types that clients see; [`type_functions`]: their
//!   input and output functions.
//! - [`value`]: numbers, text, bytes, uuid and arrays; [`time`]: dates, times, timestamps, intervals; [`numeric`]; [`json`].
//! - [`row_value`]: values of `rows` tables in both formats.
//! - [`decode`]: a bound parameter, in either format, as a [`Datum`].
//!
//! Always true: no input causes a panic; a malformed frame is a protocol violation (08P01) that
//! names the message and the fault.
//!
//! Not here: sockets, sessions, SQL. Source of all layouts: PostgreSQL 15 manual, chapters 8 and
//! 55.

pub mod array;
pub mod backend;
mod datum;
pub mod frontend;
pub mod json;
pub mod numeric;
pub mod row_value;
pub mod time;
mod time_parse;
pub mod type_functions;
pub mod types;
pub mod value;

pub use datum::{Datum, decode};
pub use types::{Form, Oid, Type};
