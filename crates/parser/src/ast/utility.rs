//! Commands of sessions, transactions, cursors and maintenance.

use super::{DefinitionItem, Expr, Ident, Name, NumericValue, Query, Statement, Text, TypeName};

#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub source: CopySource,
    pub from: bool,
    pub program: bool,
    /// `None` is STDIN or STDOUT.
    pub file: Option<Text>,
    /// Options of the old syntax have their new names.
    pub options: Vec<DefinitionItem>,
    pub filter: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    Table(Name, Vec<Ident>),
    /// SELECT, INSERT, UPDATE or DELETE.
    Query(Statement),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Transaction {
    Begin(Vec<TransactionMode>),
    /// START TRANSACTION
    Start(Vec<TransactionMode>),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(Ident),
    Release(Ident),
    RollbackTo(Ident),
    Prepare(Text),
    CommitPrepared(Text),
    RollbackPrepared(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionMode {
    Isolation(IsolationLevel),
    ReadOnly(bool),
    Deferrable(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    pub name: Ident,
    pub types: Vec<TypeName>,
    pub statement: Statement,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    pub name: Ident,
    pub args: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    pub name: Ident,
    pub binary: bool,
    /// SCROLL or NO SCROLL, if written.
    pub scroll: Option<bool>,
    /// INSENSITIVE or ASENSITIVE, if written.
    pub insensitive: Option<bool>,
    pub hold: bool,
    pub query: Box<Query>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    /// MOVE
    pub is_move: bool,
    pub direction: FetchDirection,
    pub cursor: Ident,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// NEXT is 1, FIRST is `Absolute(1)`, and so on.
    Forward(i32),
    Backward(i32),
    Absolute(i32),
    Relative(i32),
    ForwardAll,
    BackwardAll,
}

/// SET and RESET.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    pub scope: SetScope,
    pub action: SetAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    Session,
    Local,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SetAction {
    /// SET TIME ZONE, ROLE and other words are the variables they mean.
    Values(Ident, Vec<SetValue>),
    Default(Ident),
    /// FROM CURRENT
    Current(Ident),
    Transaction(Vec<TransactionMode>),
    /// SESSION CHARACTERISTICS AS TRANSACTION
    SessionCharacteristics(Vec<TransactionMode>),
    TransactionSnapshot(Text),
    Reset(Ident),
    ResetAll,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SetValue {
    /// A word or a text: both mean the same.
    Text(Text),
    Number(NumericValue),
    /// `TIME ZONE INTERVAL '…' HOUR TO MINUTE`
    Interval(Text, TypeName),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    Variable(Ident),
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SetConstraints {
    /// Empty for ALL.
    pub names: Vec<Name>,
    pub deferred: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    All,
    Temp,
    Plans,
    Sequences,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Notify {
    pub channel: Ident,
    pub payload: Option<Text>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Names, and whether with ONLY.
    pub tables: Vec<(Name, bool)>,
    pub mode: LockMode,
    pub nowait: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    pub options: Vec<DefinitionItem>,
    pub statement: Statement,
}

/// VACUUM and ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub struct Vacuum {
    pub analyze: bool,
    /// Words before the tables are options too.
    pub options: Vec<DefinitionItem>,
    pub tables: Vec<(Name, Vec<Ident>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub options: Vec<DefinitionItem>,
    pub table: Option<Name>,
    pub index: Option<Ident>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reindex {
    pub options: Vec<DefinitionItem>,
    pub kind: ReindexKind,
    pub name: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReindexKind {
    Index,
    Table,
    Schema,
    System,
    Database,
}
