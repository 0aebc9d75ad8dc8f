//! The PostgreSQL protocol as bytes: messages in and out, and values in their text and binary forms.
//!
//! Words: a *frame* is one whole message with its tag and length; a *form* is text or binary; *pg micros* are
//! microseconds since 2000-01-01, PostgreSQL's own count of time.
//!
//! - [`frontend`]: what clients send. [`frontend::frame_len`] asks "is a whole message here?", [`frontend::parse`] reads it
//!   without copying.
//! - [`backend`]: what servers send, appended to a `Vec<u8>` without further allocation.
//! - [`types`]: the OIDs, names and lengths that clients see; [`type_functions`]: what reads and writes them.
//! - [`value`]: numbers, text, bytes, uuid and arrays; [`time`]: dates, times, timestamps, intervals; [`numeric`]; [`json`].
//! - [`row_value`]: values of `rows` tables in both forms.
//! - [`decode`]: a bound parameter, in either form, as a [`Datum`].
//!
//! Always true: no input panics; a malformed frame is a violation (08P01) that names the message and what was wrong.
//!
//! Not here: sockets, sessions, SQL. Source of every layout: PostgreSQL 15 manual, chapters 8 and 55.

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
