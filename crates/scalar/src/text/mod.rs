//! Texts, names, bytes, bit strings and uuids: their functions, patterns and regular expressions.
//!
//! Texts are UTF-8 and compare by bytes (collation C). `char(n)` is held without its trailing blanks.

pub(crate) mod aggregates;
mod arguments;
pub(crate) mod bits;
pub(crate) mod bytes;
pub(crate) mod casts;
mod characters;
pub(crate) mod compare;
pub(crate) mod crypto;
mod digits;
pub(crate) mod encoding;
pub(crate) mod format;
pub(crate) mod io;
pub(crate) mod like;
pub(crate) mod regexp;
pub(crate) mod regexp_functions;
pub(crate) mod split;
pub(crate) mod strings;
