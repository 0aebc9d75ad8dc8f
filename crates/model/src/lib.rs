//! The words of Millrace: pure data that every other crate speaks, with no I/O, no clock and no dependency.
//!
//! - [`Timestamp`], [`Lsn`], [`TableId`], [`ColumnId`], [`SeriesId`]: numbers with a meaning.
//! - [`DataType`], [`Column`], [`Table`], [`TableOptions`]: what a table looks like.
//! - [`Datum`], [`Numeric`], [`Interval`] and [`Type`]: the values of `rows` tables and their types.
//! - [`KeyValue`] and [`key`]: the canonical bytes of a series key, on which "same series" is decided.
//! - [`Error`], [`ErrorKind`], [`SqlState`]: what went wrong, for whom, and what to do.
//! - [`limits`]: every limit a user can meet, in one place.

mod error;
pub mod key;
pub mod limits;
pub mod numeric;
mod row_schema;
mod schema;
mod sequence;
mod time;
mod types;
mod value;

pub use error::{Error, ErrorKind, Part, Result, SqlState, Subject};
pub use key::{KeyRef, KeyValue};
pub use numeric::{Numeric, Precision};
pub use row_schema::{Identity, Referential, RowCheck, RowColumn, RowForeignKey, RowIndex, RowSchema, RowSchemaRef};
pub use schema::{Column, ColumnRole, DataType, Table, TableName, TableOptions, TableRef};
pub use sequence::{SequenceBound, SequenceOptions, SequenceOwner, SequenceRef, SequenceSpec};
pub use time::{TimeRange, Timestamp};
pub use types::{CHARACTERS_MAX, Type};
pub use value::{Datum, Interval};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number! {
    /// Log sequence number: the number of one record of the log. Consecutive, starting at 1; 0 is "before
    /// the first record". A commit is known by the LSN of its commit record.
    Lsn(u64)
}
number! {
    /// A table's number, never used again after the table is dropped.
    TableId(u32)
}
number! {
    /// A column's number within its table, never used again within that table.
    ColumnId(u32)
}
number! {
    /// A series' number within its table: consecutive from 0 in order of first commit.
    SeriesId(u32)
}

impl Lsn {
    /// Before the first record.
    pub const ZERO: Lsn = Lsn(0);

    /// The LSN after this one.
    #[must_use]
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}
