//! Tables, indexes, views and sequences.

use std::borrow::Cow;

use super::{
    DefinitionItem, DropBehavior, Execute, Expr, GenericOption, Ident, IndexElement, Name, OperatorName, Persistence,
    Pos, Query, RoleSpec, SequenceOption, TypeName,
};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    pub name: Name,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub shape: TableShape,
    pub elements: Vec<TableElement>,
    /// INHERITS
    pub inherits: Vec<Name>,
    pub partition_by: Option<PartitionBy>,
    /// `USING method`
    pub access_method: Option<Ident>,
    pub options: Vec<RelOption>,
    pub on_commit: Option<OnCommit>,
    pub tablespace: Option<Ident>,
    /// SERVER and OPTIONS of CREATE FOREIGN TABLE.
    pub foreign: Option<ForeignTable>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableShape {
    /// Columns and constraints, as listed.
    Plain,
    /// `OF type`
    Of(Name),
    /// `PARTITION OF parent FOR VALUES …`
    PartitionOf(Name, PartitionBound),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ForeignTable {
    pub server: Ident,
    pub options: Vec<GenericOption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    Drop,
    DeleteRows,
    PreserveRows,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableElement {
    Column(ColumnDef),
    Constraint(TableConstraint),
    Like(LikeClause),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    pub name: Ident,
    /// `None` in a table of a type or a partition.
    pub ty: Option<TypeName>,
    pub compression: Option<Ident>,
    pub options: Vec<GenericOption>,
    pub collation: Option<Name>,
    pub constraints: Vec<ColumnConstraint>,
    pub at: Pos,
}

/// A constraint of a column. DEFERRABLE and its like stand behind the one they belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnConstraint {
    pub name: Option<Ident>,
    pub kind: ColumnConstraintKind,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ColumnConstraintKind {
    NotNull,
    Null,
    Unique {
        nulls_distinct: bool,
        index: IndexParameters,
    },
    PrimaryKey {
        index: IndexParameters,
    },
    Check {
        expr: Expr,
        no_inherit: bool,
    },
    Default(Expr),
    Identity {
        always: bool,
        options: Vec<SequenceOption>,
    },
    /// `GENERATED ALWAYS AS (expr) STORED`
    Generated(Expr),
    References(Box<References>),
    Deferrable,
    NotDeferrable,
    InitiallyDeferred,
    InitiallyImmediate,
}

/// Index options of UNIQUE and PRIMARY KEY.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexParameters {
    pub include: Vec<Ident>,
    pub options: Vec<DefinitionItem>,
    pub tablespace: Option<Ident>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct References {
    pub table: Name,
    pub columns: Vec<Ident>,
    pub match_full: bool,
    pub on_update: KeyAction,
    pub on_delete: KeyAction,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    /// Columns are of ON DELETE only, and empty for all.
    SetNull(Vec<Ident>),
    SetDefault(Vec<Ident>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableConstraint {
    pub name: Option<Ident>,
    pub kind: TableConstraintKind,
    pub attributes: ConstraintAttributes,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableConstraintKind {
    Check(Expr),
    Unique { nulls_distinct: bool, columns: Vec<Ident>, index: IndexParameters },
    UniqueUsingIndex(Ident),
    PrimaryKey { columns: Vec<Ident>, index: IndexParameters },
    PrimaryKeyUsingIndex(Ident),
    Exclude(Box<Exclude>),
    ForeignKey { columns: Vec<Ident>, references: References },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Exclude {
    pub method: Option<Ident>,
    pub elements: Vec<(IndexElement, OperatorName)>,
    pub index: IndexParameters,
    pub filter: Option<Expr>,
}

/// Attributes behind a table's constraint, each if it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConstraintAttributes {
    /// DEFERRABLE or NOT DEFERRABLE.
    pub deferrable: Option<bool>,
    /// INITIALLY DEFERRED or INITIALLY IMMEDIATE.
    pub initially_deferred: Option<bool>,
    pub not_valid: bool,
    pub no_inherit: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LikeClause {
    pub table: Name,
    /// INCLUDING or EXCLUDING, in their order.
    pub options: Vec<(bool, LikeOption)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeOption {
    Comments,
    Compression,
    Constraints,
    Defaults,
    Identity,
    Generated,
    Indexes,
    Statistics,
    Storage,
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionBy {
    pub strategy: Ident,
    pub elements: Vec<IndexElement>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PartitionBound {
    Default,
    Hash { modulus: i32, remainder: i32 },
    In(Vec<Expr>),
    Range { from: Vec<Expr>, to: Vec<Expr> },
}

/// `name = value` of WITH (…).
#[derive(Clone, Debug, PartialEq)]
pub struct RelOption {
    pub namespace: Option<Ident>,
    pub name: Ident,
    pub value: Option<super::OptionValue>,
    pub at: Pos,
}

impl RelOption {
    /// The name, with its namespace.
    #[must_use]
    pub fn full_name(&self) -> Cow<'_, str> {
        match &self.namespace {
            None => Cow::Borrowed(&self.name),
            Some(namespace) => Cow::Owned(format!("{namespace}.{}", self.name)),
        }
    }
}

/// CREATE TABLE AS, and CREATE MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    pub name: Name,
    pub materialized_view: bool,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub columns: Vec<Ident>,
    pub access_method: Option<Ident>,
    pub options: Vec<RelOption>,
    pub on_commit: Option<OnCommit>,
    pub tablespace: Option<Ident>,
    pub source: CreateTableSource,
    /// WITH NO DATA
    pub no_data: bool,
}

impl CreateTableAs {
    /// The statement that SELECT … INTO is.
    #[must_use]
    pub fn of_into(into: super::Into, query: Query) -> CreateTableAs {
        CreateTableAs {
            name: into.table,
            materialized_view: false,
            persistence: into.persistence,
            if_not_exists: false,
            columns: Vec::new(),
            access_method: None,
            options: Vec::new(),
            on_commit: None,
            tablespace: None,
            source: CreateTableSource::Query(Box::new(query)),
            no_data: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum CreateTableSource {
    Query(Box<Query>),
    Execute(Execute),
}

#[derive(Clone, Debug, PartialEq)]
pub struct RefreshMaterializedView {
    pub name: Name,
    pub concurrently: bool,
    pub no_data: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    pub unique: bool,
    pub concurrently: bool,
    pub if_not_exists: bool,
    pub name: Option<Ident>,
    pub table: Name,
    pub only: bool,
    pub method: Option<Ident>,
    pub elements: Vec<IndexElement>,
    pub include: Vec<IndexElement>,
    pub nulls_distinct: bool,
    pub options: Vec<RelOption>,
    pub tablespace: Option<Ident>,
    pub filter: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    pub name: Name,
    pub replace: bool,
    pub persistence: Persistence,
    pub recursive: bool,
    pub columns: Vec<Ident>,
    pub options: Vec<RelOption>,
    pub query: Box<Query>,
    pub check: Option<CheckOption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    Local,
    Cascaded,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateSequence {
    pub name: Name,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub options: Vec<SequenceOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterSequence {
    pub name: Name,
    pub if_exists: bool,
    pub options: Vec<SequenceOption>,
}

/// ALTER of a table and of what is like one.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    pub kind: super::ObjectKind,
    pub name: Name,
    pub only: bool,
    pub if_exists: bool,
    pub actions: Vec<AlterTableAction>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableAction {
    AddColumn {
        column: Box<ColumnDef>,
        if_not_exists: bool,
    },
    DropColumn {
        name: Ident,
        if_exists: bool,
        behavior: DropBehavior,
    },
    SetDefault {
        column: Ident,
        expr: Expr,
    },
    DropDefault(Ident),
    SetNotNull(Ident),
    DropNotNull(Ident),
    DropExpression {
        column: Ident,
        if_exists: bool,
    },
    SetStatistics {
        column: ColumnRef,
        value: i32,
    },
    SetColumnOptions {
        column: Ident,
        options: Vec<RelOption>,
    },
    ResetColumnOptions {
        column: Ident,
        options: Vec<RelOption>,
    },
    SetStorage {
        column: Ident,
        storage: Ident,
    },
    SetCompression {
        column: Ident,
        method: Ident,
    },
    AddIdentity {
        column: Ident,
        always: bool,
        options: Vec<SequenceOption>,
    },
    SetIdentity {
        column: Ident,
        options: Vec<SequenceOption>,
    },
    DropIdentity {
        column: Ident,
        if_exists: bool,
    },
    AlterColumnType {
        column: Ident,
        ty: TypeName,
        collation: Option<Name>,
        using: Option<Expr>,
        at: Pos,
    },
    AlterColumnGenericOptions {
        column: Ident,
        options: Vec<GenericOption>,
    },
    AddConstraint(Box<TableConstraint>),
    AlterConstraint {
        name: Ident,
        attributes: ConstraintAttributes,
    },
    ValidateConstraint(Ident),
    DropConstraint {
        name: Ident,
        if_exists: bool,
        behavior: DropBehavior,
    },
    SetWithoutOids,
    ClusterOn(Ident),
    SetWithoutCluster,
    SetLogged,
    SetUnlogged,
    EnableTrigger {
        name: TriggerName,
        firing: Firing,
    },
    DisableTrigger(TriggerName),
    EnableRule {
        name: Ident,
        firing: Firing,
    },
    DisableRule(Ident),
    Inherit(Name),
    NoInherit(Name),
    Of(Name),
    NotOf,
    OwnerTo(RoleSpec),
    SetAccessMethod(Ident),
    SetTablespace(Ident),
    SetOptions(Vec<RelOption>),
    ResetOptions(Vec<RelOption>),
    ReplicaIdentity(ReplicaIdentity),
    EnableRowSecurity,
    DisableRowSecurity,
    ForceRowSecurity,
    NoForceRowSecurity,
    GenericOptions(Vec<GenericOption>),
    /// Without a bound: of an index.
    AttachPartition {
        name: Name,
        bound: Option<PartitionBound>,
    },
    DetachPartition {
        name: Name,
        mode: DetachMode,
    },
}

/// A column by its name or, of an index, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnRef {
    Name(Ident),
    Number(i32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerName {
    Name(Ident),
    All,
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firing {
    Origin,
    Always,
    Replica,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaIdentity {
    Nothing,
    Full,
    Default,
    Index(Ident),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachMode {
    Plain,
    Concurrently,
    Finalize,
}

/// `ALTER TABLE ALL IN TABLESPACE … SET TABLESPACE …`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTableSpaceAll {
    pub kind: super::ObjectKind,
    pub from: Ident,
    pub owners: Vec<RoleSpec>,
    pub to: Ident,
    pub nowait: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateStatistics {
    pub name: Name,
    pub if_not_exists: bool,
    pub kinds: Vec<Ident>,
    pub elements: Vec<super::IndexKey>,
    pub from: Vec<super::TableExpr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterStatistics {
    pub name: Name,
    pub if_exists: bool,
    pub target: i32,
}
