//! Definitions of views.

use std::sync::Arc;

use crate::TableName;

/// A view: a query with a name. Immutable: a change makes a new value.
///
/// The query is canonical text whose meaning does not depend on anything that may change: every relation has its
/// schema, every `*` is written out, and constants are in a form that no setting changes. Relations are found by
/// [`ViewReference`], so that their names and columns may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewSpec {
    /// Number of the view; not reused in the database.
    pub id: u32,
    /// Schema and name.
    pub name: TableName,
    /// 1 when created; each change adds 1.
    pub version: u32,
    /// Columns, fixed when the view was created. Later versions only rename them and add some at the end.
    pub columns: Vec<ViewColumn>,
    /// The query.
    pub query: String,
    /// The tables and views that the query reads.
    pub references: Vec<ViewReference>,
    /// The relation that changes of the view change; `None` if it cannot be changed.
    pub base: Option<ViewBase>,
    /// WITH CHECK OPTION
    pub check: Option<CheckOption>,
    /// Whether it is a materialized view: the `rows` table of the same number and name has its rows.
    pub materialized: Option<Materialized>,
}

/// The table or view that a view selects from: each row of the view shows one of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewBase {
    /// Number of the table or view.
    pub object: u32,
    /// For each column of the view, the number of the column that it is, as in [`ViewReferenceColumn`]; `None` for other
    /// expressions.
    pub columns: Vec<Option<u32>>,
}

/// WITH CHECK OPTION: the conditions for rows that are changed through a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CheckOption {
    /// The condition of the view.
    Local = 1,
    /// Also those of the views below it.
    Cascaded = 2,
}

/// Whether a materialized view can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Materialized {
    /// It was created or refreshed WITH NO DATA.
    Unpopulated = 1,
    /// Its rows are those of the query at some time.
    Populated = 2,
}

impl CheckOption {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<CheckOption> {
        [CheckOption::Local, CheckOption::Cascaded].into_iter().find(|option| *option as u8 == code)
    }
}

impl Materialized {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Materialized> {
        [Materialized::Unpopulated, Materialized::Populated].into_iter().find(|one| *one as u8 == code)
    }
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewColumn {
    /// Name, unique within the view.
    pub name: String,
    /// Number of the type in `pg_type`.
    pub ty: u32,
    /// Type modifier; -1 for none.
    pub typmod: i32,
}

/// A table or view that the query of a view names, or whose rows a function in it returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewReference {
    /// The name in the text of the query. It is the name when the view was created.
    pub name: TableName,
    /// Number of the table or view.
    pub object: u32,
    /// The columns that the query uses. It sees no others.
    pub columns: Vec<ViewReferenceColumn>,
}

/// A column of a table or view that the query of a view uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewReferenceColumn {
    /// Its number: `columns` tables have their own, in `rows` tables and views it is the position.
    pub number: u32,
    /// The name in the text of the query.
    pub name: String,
    /// Type, as the definition of the table or view encodes it.
    pub ty: u32,
    /// Type modifier; -1 for none.
    pub typmod: i32,
}

/// Views are shared, never copied.
pub type ViewRef = Arc<ViewSpec>;

impl ViewSpec {
    /// The reference to a table or view; `None` if the query does not read it.
    #[must_use]
    pub fn reference(&self, object: u32) -> Option<&ViewReference> {
        self.references.iter().find(|reference| reference.object == object)
    }

    /// Whether the query uses a column of a table or view.
    #[must_use]
    pub fn uses(&self, object: u32, column: u32) -> bool {
        self.reference(object).is_some_and(|of| of.columns.iter().any(|one| one.number == column))
    }
}
