//! Inheritance and partitioning of `rows` tables.

use crate::{TableId, Type};

/// Tables that a table inherits from, those that inherit from it, and its part in partitioning.
///
/// Always true: a table is in `children` of each of its `parents`, and the other way round. A partition has one parent, which
/// is partitioned; all children of a partitioned table are partitions. A partitioned table has no rows of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Direct parents, in the order of INHERITS.
    pub parents: Vec<TableId>,
    /// Direct children, in the order in which they were added.
    pub children: Vec<TableId>,
    /// PARTITION BY
    pub key: Option<PartitionKey>,
    /// FOR VALUES, of a partition.
    pub bound: Option<PartitionBound>,
    /// Columns that parents have too, by position.
    pub columns: Vec<InheritedColumn>,
    /// CHECK constraints that parents have too, or that children do not inherit.
    pub checks: Vec<InheritedCheck>,
    /// Indexes that belong to one of the parent's: their number and its number.
    pub indexes: Vec<(u32, u32)>,
    /// Names of the foreign keys that belong to one of the parent's.
    pub foreign_keys: Vec<String>,
}

/// A column that is inherited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedColumn {
    /// Position in the table.
    pub position: usize,
    /// Number of direct parents that have it.
    pub parents: u32,
    /// Whether the table declares it too, so that it remains when the parents' are dropped.
    pub local: bool,
}

/// A CHECK constraint that is inherited, or never is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedCheck {
    /// Name of the constraint.
    pub name: String,
    /// Number of direct parents that have it.
    pub parents: u32,
    /// Whether the table declares it too.
    pub local: bool,
    /// NO INHERIT
    pub no_inherit: bool,
}

/// The rule by which rows are assigned to partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartitionStrategy {
    /// Ranges of the key.
    Range = 1,
    /// Lists of values.
    List = 2,
    /// Remainders of a hash of the key.
    Hash = 3,
}

impl PartitionStrategy {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<PartitionStrategy> {
        use PartitionStrategy::{Hash, List, Range};
        [Range, List, Hash].into_iter().find(|strategy| *strategy as u8 == code)
    }

    /// Name in statements, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PartitionStrategy::Range => "range",
            PartitionStrategy::List => "list",
            PartitionStrategy::Hash => "hash",
        }
    }
}

/// PARTITION BY
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    /// Strategy.
    pub strategy: PartitionStrategy,
    /// Parts of the key, in order.
    pub parts: Vec<PartitionKeyPart>,
}

/// A column or expression of a partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKeyPart {
    /// The value.
    pub source: PartitionKeySource,
    /// Type of the value.
    pub ty: Type,
}

/// The value of a part of a partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionKeySource {
    /// The column at this position.
    Column(usize),
    /// An expression over the table's columns, as SQL.
    Expression(String),
}

/// `FOR VALUES …` of a partition. A value is encoded as a row of this one field (`rows::row`), of the type of its part of the
/// key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionBound {
    /// DEFAULT
    Default,
    /// `IN (…)`; `None` is NULL.
    List(Vec<Option<Box<[u8]>>>),
    /// `FROM (…) TO (…)`: the lower bound is inclusive, the upper one exclusive.
    Range {
        /// Lower bound.
        from: Vec<RangeEdge>,
        /// Upper bound.
        to: Vec<RangeEdge>,
    },
    /// `WITH (MODULUS …, REMAINDER …)`
    Hash {
        /// Modulus, above 0.
        modulus: u32,
        /// Remainder, below the modulus.
        remainder: u32,
    },
}

/// One value of a bound of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeEdge {
    /// MINVALUE
    Min,
    /// A value.
    Value(Box<[u8]>),
    /// MAXVALUE
    Max,
}

impl Lineage {
    /// Whether the table is neither partitioned nor a child nor a parent.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Lineage::default()
    }

    /// The entry of a column; `None` if no parent has it.
    #[must_use]
    pub fn column(&self, position: usize) -> Option<&InheritedColumn> {
        self.columns.iter().find(|column| column.position == position)
    }

    /// The entry of a CHECK constraint.
    #[must_use]
    pub fn check(&self, name: &str) -> Option<&InheritedCheck> {
        self.checks.iter().find(|check| check.name == name)
    }

    /// The number of the parent's index that an index belongs to.
    #[must_use]
    pub fn index(&self, index: u32) -> Option<u32> {
        self.indexes.iter().find(|(own, _)| *own == index).map(|(_, parent)| *parent)
    }

    /// The number of the index that belongs to an index of the parent.
    #[must_use]
    pub fn index_of(&self, parent: u32) -> Option<u32> {
        self.indexes.iter().find(|(_, of)| *of == parent).map(|(own, _)| *own)
    }
}
