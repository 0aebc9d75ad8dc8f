//! Defaults and constraints of `columns` tables, in the form that `rows` tables have them in.

use crate::numeric::Precision;
use crate::{Column, ColumnId, DataType, Lineage, RowCheck, RowColumn, RowSchema, Table, Type, user_types};

/// Defaults, declared types and CHECK constraints of a `columns` table.
///
/// Always true: `columns` is sorted by number, without duplicates, and has no entry that says nothing; the names of the
/// checks are unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRules {
    /// Columns with a default or a declared type.
    pub columns: Vec<ColumnRule>,
    /// CHECK constraints over the names of columns.
    pub checks: Vec<RowCheck>,
}

/// A type that was declared for a column: its OID and typmod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredType {
    /// OID in `pg_type`, also of a domain.
    pub oid: u32,
    /// Declared parameters as PostgreSQL encodes them, -1 without any.
    pub typmod: i32,
}

/// Default and declared type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRule {
    /// The column.
    pub id: ColumnId,
    /// SQL expression for rows that provide no value.
    pub default: Option<String>,
    /// The type that was declared, if the stored one does not tell it: see [`crate::stored`]. Values of an enum type are stored as
    /// the numbers of its labels ([`crate::EnumLabel::number`]): their order is that of the labels, and a label may be renamed.
    pub declared: Option<DeclaredType>,
}

impl TableRules {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.checks.is_empty()
    }

    /// The rule of a column.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&ColumnRule> {
        self.columns.iter().find(|rule| rule.id == id)
    }

    /// All stored expressions, as SQL.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let defaults = self.columns.iter().filter_map(|rule| rule.default.as_ref());
        defaults.chain(self.checks.iter().map(|check| &check.condition)).map(String::as_str)
    }

    /// OIDs of the enum types and domains that columns have.
    pub fn user_types(&self) -> impl Iterator<Item = u32> {
        self.columns.iter().filter_map(|rule| rule.declared).map(|ty| ty.oid).filter(|oid| user_types::is_user(*oid))
    }
}

impl DataType {
    /// The type of the same values in `rows` tables.
    #[must_use]
    pub fn row_type(self) -> Type {
        match self {
            DataType::Bool => Type::Bool,
            DataType::Int16 => Type::Int2,
            DataType::Int32 => Type::Int4,
            DataType::Int64 => Type::Int8,
            DataType::UInt64 => Type::Numeric(Some(Precision { digits: 20, scale: 0 })),
            DataType::Float32 => Type::Float4,
            DataType::Float64 => Type::Float8,
            DataType::Text => Type::Text,
            DataType::Bytes => Type::Bytes,
            DataType::Timestamp => Type::Timestamptz,
        }
    }
}

impl Table {
    /// The default of a column, as SQL.
    #[must_use]
    pub fn default(&self, column: &Column) -> Option<&str> {
        self.rules.column(column.id)?.default.as_deref()
    }

    /// OID and typmod of a column's type in `pg_type`, if they are not those of its stored type.
    #[must_use]
    pub fn declared_type(&self, column: &Column) -> Option<DeclaredType> {
        self.rules.column(column.id)?.declared
    }

    /// OID of the enum type or domain of a column.
    #[must_use]
    pub fn user_type(&self, column: &Column) -> Option<u32> {
        self.declared_type(column).map(|ty| ty.oid).filter(|oid| user_types::is_user(*oid))
    }

    /// OID of the domain of a column.
    #[must_use]
    pub fn domain(&self, column: &Column) -> Option<u32> {
        self.user_type(column).filter(|oid| user_types::is_constrained(*oid))
    }

    /// The type of a column's values if they are stored in another form: see [`crate::stored`]. Of a domain it is the base type.
    #[must_use]
    pub fn declared(&self, column: &Column) -> Option<Type> {
        let declared = self.declared_type(column)?;
        let ty = match user_types::is_domain(declared.oid) {
            true => user_types::find(declared.oid)?.domain()?.base,
            false => Type::from_oid(declared.oid, declared.typmod)?,
        };
        Some(ty).filter(|ty| ty.is_declared())
    }

    /// The type of a column's values in `rows` tables; of a domain its base type.
    #[must_use]
    pub fn row_type(&self, column: &Column) -> Type {
        self.declared(column).unwrap_or_else(|| column.ty.row_type())
    }

    /// The table as one of `rows`, without key and indexes: its columns have the same positions.
    #[must_use]
    pub fn as_row_schema(&self) -> RowSchema {
        let columns = self.columns.iter().map(|column| RowColumn {
            not_null: !column.nullable,
            default: self.default(column).map(str::to_owned),
            domain: self.domain(column),
            ..RowColumn::new(&column.name, self.row_type(column))
        });
        RowSchema {
            id: self.id,
            name: self.name.clone(),
            version: self.version,
            lineage: Lineage::default(),
            columns: columns.collect(),
            primary: None,
            secondary: Vec::new(),
            checks: self.rules.checks.clone(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: crate::ReplicaIdentity::default(),
        }
    }

    /// Whether rows that satisfy the constraints of this version satisfy those of a later one. A constraint that is not
    /// valid yet holds for rows that are written.
    #[must_use]
    pub fn implies(&self, later: &Table) -> bool {
        let is_kept = |column: &Column| match self.column_by_id(column.id) {
            // A condition names its columns.
            Some(before) => {
                (column.nullable || !before.nullable)
                    && self.declared_type(before) == later.declared_type(column)
                    && (later.rules.checks.is_empty() || before.name == column.name)
            }
            // Rows that were written before lack the values of a new column, also of one that replaces another.
            None => column.nullable && later.rules.column(column.id).is_none() && self.column(&column.name).is_none(),
        };
        let has = |check: &RowCheck| {
            self.rules.checks.iter().any(|one| (&one.name, &one.condition) == (&check.name, &check.condition))
        };
        // The constraints of a domain are not part of the table, which gets another version with them.
        let has_domain = later.rules.user_types().any(user_types::is_constrained);
        // A change that was rolled back had the number of the next one.
        (self.version == later.version && self == later)
            || (!has_domain && later.columns.iter().all(is_kept) && later.rules.checks.iter().all(has))
    }
}
