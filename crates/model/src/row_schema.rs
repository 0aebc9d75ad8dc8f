//! What a `rows` table looks like.

use std::sync::Arc;

use crate::{TableId, TableName, Type};

/// `GENERATED … AS IDENTITY`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Identity {
    /// An INSERT or UPDATE gives no value of its own, unless it says OVERRIDING SYSTEM VALUE.
    Always = 1,
    /// The sequence's value is a default like others.
    ByDefault = 2,
}

impl Identity {
    /// The one with this code in a file, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Identity> {
        [Identity::Always, Identity::ByDefault].into_iter().find(|identity| *identity as u8 == code)
    }
}

/// One column of a `rows` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// As the user wrote it (folded by SQL's rules before it comes here).
    pub name: String,
    /// Its type, with what stands in parentheses.
    pub ty: Type,
    /// Is NULL refused?
    pub not_null: bool,
    /// SQL of the value that a row without one gets.
    pub default: Option<String>,
    /// Is it an identity column? Its default then takes the next value of a sequence.
    pub identity: Option<Identity>,
    /// What rows have that were written before the column was added, as a row of this one field (`rows::row`); NULL if nothing. It stays
    /// what it was when the default changes.
    pub missing: Option<Box<[u8]>>,
    /// Dropped: it keeps its place in rows that exist, and nobody sees it.
    pub dropped: bool,
}

/// A primary key or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowIndex {
    /// Never used again in the database.
    pub id: u32,
    /// Its name, in the table's schema.
    pub name: String,
    /// Positions of its columns, first to last.
    pub columns: Vec<usize>,
    /// May a key be there once only?
    pub unique: bool,
    /// Was it made by PRIMARY KEY or UNIQUE, so that it is dropped with the constraint?
    pub constraint: bool,
}

/// `CHECK (…)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCheck {
    /// Its name.
    pub name: String,
    /// The condition, as SQL.
    pub condition: String,
}

/// What becomes of rows that refer to a row which goes away, or changes its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Referential {
    /// An error at the end of the statement.
    #[default]
    NoAction = 0,
    /// An error at once.
    Restrict = 1,
    /// They go away, or change, as well.
    Cascade = 2,
    /// They refer to nothing.
    SetNull = 3,
    /// They refer to the default.
    SetDefault = 4,
}

impl Referential {
    /// The action with this code in a file, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Referential> {
        use Referential::{Cascade, NoAction, Restrict, SetDefault, SetNull};
        [NoAction, Restrict, Cascade, SetNull, SetDefault].into_iter().find(|action| *action as u8 == code)
    }
}

/// `FOREIGN KEY (…) REFERENCES …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowForeignKey {
    /// Its name.
    pub name: String,
    /// Positions of the referring columns.
    pub columns: Vec<usize>,
    /// The table referred to.
    pub table: TableId,
    /// Positions of the columns there, which are those of its primary key or of a unique index, in that order.
    pub referred: Vec<usize>,
    /// ON DELETE
    pub on_delete: Referential,
    /// ON UPDATE
    pub on_update: Referential,
}

/// One `rows` table. Immutable: a change makes a new value with the next `version`.
///
/// Always true: names of columns that are not dropped are unique; positions name columns that are not dropped; columns of
/// the primary key are NOT NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSchema {
    /// Its number, from the same sequence as those of `columns` tables.
    pub id: TableId,
    /// Its name.
    pub name: TableName,
    /// Grows by one with every change of this table.
    pub version: u32,
    /// In the order of their making, dropped ones among them.
    pub columns: Vec<RowColumn>,
    /// PRIMARY KEY
    pub primary: Option<RowIndex>,
    /// Other indexes.
    pub secondary: Vec<RowIndex>,
    /// CHECK
    pub checks: Vec<RowCheck>,
    /// FOREIGN KEY
    pub foreign_keys: Vec<RowForeignKey>,
}

impl RowColumn {
    /// A column that may be NULL and has no default.
    #[must_use]
    pub fn new(name: impl Into<String>, ty: Type) -> RowColumn {
        let (not_null, dropped) = (false, false);
        RowColumn { name: name.into(), ty, not_null, default: None, identity: None, missing: None, dropped }
    }
}

impl RowSchema {
    /// The position of the column called `name`.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| !column.dropped && column.name == name)
    }

    /// Positions and columns that are not dropped.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &RowColumn)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.dropped)
    }
}

/// Schemas are shared, never copied.
pub type RowSchemaRef = Arc<RowSchema>;
