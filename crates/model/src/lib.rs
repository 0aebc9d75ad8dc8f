//! Data types that all crates share: pure data without I/O, clock or dependencies.
//!
//! - [`Timestamp`], [`Lsn`], [`TableId`], [`ColumnId`], [`SeriesId`]: numbers with a meaning.
//! - [`DataType`], [`Column`], [`Table`], [`TableOptions`]: schemas of `columns` tables.
//! - [`Datum`], [`Numeric`], [`Interval`] and [`Type`]: the values of `rows` tables and their
//!   types.
//! - [`encoding`] and [`sort_key`]: bytes of any value, to store it and to order it.
//! - [`KeyValue`] and [`key`]: the canonical bytes of a series key, which identify the series.
//! - [`Error`], [`ErrorKind`], [`SqlState`]: the failure, its kind, and the remedy.
//! - [`limits`]: every limit that a user can reach, in one place.

pub mod encoding;
mod error;
mod json_key;
pub mod key;
pub mod limits;
mod lineage;
mod nested;
pub mod numeric;
mod other_type;
mod routine;
mod row_schema;
mod schema;
mod sequence;
pub mod sort_key;
pub mod stored;
mod table_rules;
mod time;
mod trigger;
mod types;
pub mod user_types;
mod value;
mod view;

pub use error::{Error, ErrorKind, Part, Result, SqlState, Subject};
pub use key::{KeyRef, KeyValue};
pub use lineage::{
    InheritedCheck, InheritedColumn, Lineage, PartitionBound, PartitionKey, PartitionKeyPart, PartitionKeySource,
    PartitionStrategy, RangeEdge,
};
pub use nested::{Array, ArrayDimension, Bits, Geometry, Names, Network, Point, Range, RangeBound, Record};
pub use numeric::{ExactNumeric, Numeric, Precision};
pub use other_type::{OtherType, Storage};
pub use routine::{RoutineLanguage, RoutineMode, RoutineParameter, RoutineRef, RoutineSpec, RoutineVolatility};
pub use row_schema::{
    Deferral, Identity, IndexMethod, Referential, ReplicaIdentity, RowCheck, RowColumn, RowForeignKey, RowIndex,
    RowIndexKey, RowSchema, RowSchemaRef,
};
pub use schema::{Column, ColumnRole, DataType, TEMPORARY_SCHEMA, Table, TableName, TableOptions, TableRef};
pub use sequence::{SequenceBound, SequenceOptions, SequenceOwner, SequenceRef, SequenceSpec};
pub use table_rules::{ColumnRule, DeclaredType, TableRules};
pub use time::{TimeRange, Timestamp};
pub use trigger::{RowTrigger, TriggerEvent, TriggerEvents, TriggerFiring, TriggerTiming};
pub use types::{CHARACTERS_MAX, Type};
pub use user_types::{Attribute, Domain, DomainCheck, EnumLabel, TypeSpec, TypeSpecRef, UserType};
pub use value::{Datum, Interval, TimeTz};
pub use view::{
    CheckOption, Materialized, ViewBase, ViewColumn, ViewRef, ViewReference, ViewReferenceColumn, ViewSpec,
};

/// The name of the only database.
pub const DATABASE: &str = "millrace";

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
    /// Log sequence number: the number of one record of the log. Consecutive, starting at 1; 0 is
    /// "before the first record". A commit is identified by the LSN of its commit record.
    Lsn(u64)
}
number! {
    /// Number of a table; not reused after the table is dropped.
    TableId(u32)
}
number! {
    /// Number of a column within its table; not reused within that table.
    ColumnId(u32)
}
number! {
    /// Number of a series within its table: consecutive from 0 in order of first commit.
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
