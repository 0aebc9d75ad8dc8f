//! Schemas of `rows` tables.

use std::sync::Arc;

use crate::{Lineage, PartitionKeySource, RowTrigger, TableId, TableName, Type, user_types};

/// `GENERATED … AS IDENTITY`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Identity {
    /// INSERT and UPDATE must not provide a value, unless OVERRIDING SYSTEM VALUE is given.
    Always = 1,
    /// The sequence provides an ordinary default.
    ByDefault = 2,
}

impl Identity {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Identity> {
        [Identity::Always, Identity::ByDefault].into_iter().find(|identity| *identity as u8 == code)
    }
}

/// One column of a `rows` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// Name, folded by SQL's rules.
    pub name: String,
    /// Type with its declared parameters; of a domain its base type.
    pub ty: Type,
    /// OID of the domain, or of the array of a domain, that was declared, whose constraints its values satisfy.
    pub domain: Option<u32>,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// SQL expression for rows that provide no value.
    pub default: Option<String>,
    /// Kind of identity column, if it is one. Its default takes the next value of a sequence.
    pub identity: Option<Identity>,
    /// SQL expression over the other columns whose value is stored with every row: GENERATED ALWAYS AS (…) STORED. A
    /// dropped column with one is hidden: it holds a key or the predicate of an index.
    pub generated: Option<String>,
    /// COLLATE, if it is not the default. Text is ordered by its bytes, whatever it says.
    pub collation: Option<String>,
    /// Value in rows written before the column was added, encoded as a row of this one field
    /// (`rows::row`); `None` for NULL. A later change of the default does not change it.
    pub missing: Option<Box<[u8]>>,
    /// Whether the column was dropped: it keeps its position in existing rows, and is invisible.
    pub dropped: bool,
}

/// Properties of an index key that indexes keep for the catalog. Text is ordered by its bytes and NULLs come last in
/// every index, whatever they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowIndexKey {
    /// DESC
    pub descending: bool,
    /// NULLS FIRST, or DESC without NULLS LAST.
    pub nulls_first: bool,
    /// Name of the operator class, if it is not the type's default.
    pub operator_class: Option<String>,
    /// COLLATE, if it is not the default.
    pub collation: Option<String>,
}

/// Access method of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum IndexMethod {
    /// Ordered keys.
    #[default]
    Btree = 0,
    /// A tree too: the catalog keeps that it was declared so.
    Hash = 1,
    /// An inverted index: several keys for each row.
    Gin = 2,
}

impl IndexMethod {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<IndexMethod> {
        use IndexMethod::{Btree, Gin, Hash};
        [Btree, Hash, Gin].into_iter().find(|method| *method as u8 == code)
    }

    /// Name in `pg_am`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IndexMethod::Btree => "btree",
            IndexMethod::Hash => "hash",
            IndexMethod::Gin => "gin",
        }
    }
}

/// A primary key or an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowIndex {
    /// Number of the index; not reused in the database.
    pub id: u32,
    /// Name in the table's schema.
    pub name: String,
    /// Positions of the key columns, in key order. A hidden column stands for an expression.
    pub columns: Vec<usize>,
    /// Properties of the keys, in the same order; empty if all have the defaults.
    pub keys: Vec<RowIndexKey>,
    /// Positions of the columns of INCLUDE.
    pub include: Vec<usize>,
    /// Position of the hidden column that is true for the rows of a partial index.
    pub predicate: Option<usize>,
    /// USING
    pub method: IndexMethod,
    /// Whether keys are unique at all times. False for a deferrable constraint, whose keys may repeat until it is checked.
    pub unique: bool,
    /// NULLS NOT DISTINCT: whether keys with NULLs are unique too.
    pub nulls_not_distinct: bool,
    /// Whether PRIMARY KEY or UNIQUE created it, so that it is dropped with the constraint.
    pub constraint: bool,
    /// DEFERRABLE
    pub deferral: Deferral,
    /// Whether it is a deferrable PRIMARY KEY. That is a secondary index, because a primary one maps a key to one record.
    pub is_primary: bool,
}

/// `CHECK (…)`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCheck {
    /// Name, unique within the table.
    pub name: String,
    /// The condition, as SQL.
    pub condition: String,
    /// NOT VALID: rows from before the constraint may violate it.
    pub not_valid: bool,
}

/// Action on referring rows when the referenced row is deleted or its key changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Referential {
    /// Error at the end of the statement.
    #[default]
    NoAction = 0,
    /// Error immediately.
    Restrict = 1,
    /// The referring rows are deleted or changed too.
    Cascade = 2,
    /// The referring columns become NULL.
    SetNull = 3,
    /// The referring columns get their defaults.
    SetDefault = 4,
}

impl Referential {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Referential> {
        use Referential::{Cascade, NoAction, Restrict, SetDefault, SetNull};
        [NoAction, Restrict, Cascade, SetNull, SetDefault].into_iter().find(|action| *action as u8 == code)
    }
}

/// The time at which a constraint is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Deferral {
    /// NOT DEFERRABLE: foreign keys at the end of each statement, keys at each row.
    #[default]
    Never = 0,
    /// DEFERRABLE INITIALLY IMMEDIATE: at COMMIT after SET CONSTRAINTS … DEFERRED.
    Immediate = 1,
    /// DEFERRABLE INITIALLY DEFERRED: at COMMIT, unless SET CONSTRAINTS … IMMEDIATE.
    Deferred = 2,
}

impl Deferral {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Deferral> {
        [Deferral::Never, Deferral::Immediate, Deferral::Deferred].into_iter().find(|one| *one as u8 == code)
    }
}

/// `FOREIGN KEY (…) REFERENCES …`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowForeignKey {
    /// Name, unique within the table.
    pub name: String,
    /// Positions of the referring columns.
    pub columns: Vec<usize>,
    /// The referenced table.
    pub table: TableId,
    /// Positions of the referenced columns, which form its primary key or a unique index, in that
    /// order.
    pub referred: Vec<usize>,
    /// ON DELETE
    pub on_delete: Referential,
    /// ON UPDATE
    pub on_update: Referential,
    /// Columns that ON DELETE SET NULL and SET DEFAULT change; empty for all.
    pub delete_columns: Vec<usize>,
    /// MATCH FULL: either all columns are NULL or none.
    pub match_full: bool,
    /// DEFERRABLE
    pub deferral: Deferral,
    /// NOT VALID: rows from before the constraint may violate it.
    pub not_valid: bool,
    /// Whether changes of the referring table are not checked: DISABLE TRIGGER ALL of that table.
    pub check_disabled: bool,
    /// Whether changes of the referenced table are neither checked nor followed by actions: DISABLE TRIGGER ALL of that table.
    pub action_disabled: bool,
}

/// Columns by which logical replication would identify rows. Stored for dumps and tools; nothing reads it here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// The primary key.
    #[default]
    Default,
    /// No columns.
    Nothing,
    /// All columns.
    Full,
    /// The index of this number. If it was dropped, none.
    Index(u32),
}

/// Schema of a `rows` table. Immutable: a change makes a new value with the next `version`.
///
/// Always true: names of columns that are not dropped are unique; indexes and constraints refer to
/// columns that are not dropped; columns of the primary key are NOT NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSchema {
    /// Number, unique among tables of both kinds.
    pub id: TableId,
    /// Schema and name.
    pub name: TableName,
    /// Incremented by every change of this table.
    pub version: u32,
    /// Inheritance and partitioning.
    pub lineage: Lineage,
    /// Columns in order of creation, including dropped ones.
    pub columns: Vec<RowColumn>,
    /// PRIMARY KEY, unless it is deferrable.
    pub primary: Option<RowIndex>,
    /// Other indexes, also that of a deferrable PRIMARY KEY.
    pub secondary: Vec<RowIndex>,
    /// CHECK
    pub checks: Vec<RowCheck>,
    /// FOREIGN KEY
    pub foreign_keys: Vec<RowForeignKey>,
    /// Triggers, in the order of their names.
    pub triggers: Vec<RowTrigger>,
    /// REPLICA IDENTITY
    pub replica_identity: ReplicaIdentity,
}

impl RowColumn {
    /// Creates a nullable column without a default.
    #[must_use]
    pub fn new(name: impl Into<String>, ty: Type) -> RowColumn {
        let (not_null, dropped) = (false, false);
        RowColumn {
            name: name.into(),
            ty,
            domain: None,
            not_null,
            default: None,
            identity: None,
            generated: None,
            collation: None,
            missing: None,
            dropped,
        }
    }

    /// Whether the column holds a key or the predicate of an index, and has no name in SQL.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.dropped && self.generated.is_some()
    }

    /// OID and typmod of the declared type.
    #[must_use]
    pub fn declared(&self) -> (u32, i32) {
        self.domain.map_or((self.ty.oid(), self.ty.typmod()), |domain| (domain, -1))
    }

    /// SQL that names the declared type in a definition, with every search path.
    #[must_use]
    pub fn type_sql(&self) -> String {
        user_types::type_sql(self.declared().0, self.ty)
    }

    /// OID of the type of a user that the column, or each element of its arrays, has.
    #[must_use]
    pub fn user_type(&self) -> Option<u32> {
        let oid = self.domain.unwrap_or(self.ty.oid());
        user_types::is_user(oid).then_some(oid & !1)
    }
}

impl RowIndex {
    /// Whether keys are unique, at all times or whenever the constraint is checked.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.unique || self.is_deferrable()
    }

    /// Whether the index belongs to a deferrable constraint.
    #[must_use]
    pub fn is_deferrable(&self) -> bool {
        self.deferral != Deferral::Never
    }

    /// Positions of all columns: keys, INCLUDE and predicate.
    pub fn uses(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().chain(&self.include).copied().chain(self.predicate)
    }
}

impl RowSchema {
    /// The index of the PRIMARY KEY, deferrable or not.
    #[must_use]
    pub fn primary_key(&self) -> Option<&RowIndex> {
        self.primary.as_ref().or_else(|| self.secondary.iter().find(|index| index.is_primary))
    }

    /// All indexes, and whether each is that of the PRIMARY KEY; a primary index is the first.
    pub fn indexes(&self) -> impl Iterator<Item = (&RowIndex, bool)> {
        let primary = self.primary.iter().map(|index| (index, true));
        primary.chain(self.secondary.iter().map(|index| (index, index.is_primary)))
    }

    /// The position of the column called `name`.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| !column.dropped && column.name == name)
    }

    /// Positions and columns, without dropped ones.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &RowColumn)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.dropped)
    }

    /// All stored expressions, as SQL: defaults, generated columns, CHECK constraints, conditions of
    /// triggers and the partition key.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().filter(|column| !column.dropped || column.is_hidden());
        let columns = columns.flat_map(|column| column.default.iter().chain(&column.generated));
        let checks = self.checks.iter().map(|check| &check.condition);
        let key = self.lineage.key.iter().flat_map(|key| &key.parts).filter_map(|part| match &part.source {
            PartitionKeySource::Expression(sql) => Some(sql),
            PartitionKeySource::Column(_) => None,
        });
        let conditions = self.triggers.iter().filter_map(|trigger| trigger.condition.as_ref());
        columns.chain(checks).chain(conditions).chain(key).map(String::as_str)
    }
}

/// Schemas are shared, never copied.
pub type RowSchemaRef = Arc<RowSchema>;
