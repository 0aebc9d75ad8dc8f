//! The tree of a parsed statement: what was written, before any name is looked up.
//!
//! It keeps every distinction that parse analysis needs, as PostgreSQL's raw parse tree does, and owns all it has. Words that
//! only have one meaning are resolved here as there: `int` is `pg_catalog.int4`, `EXTRACT(…)` a call of `pg_catalog.extract`.
//!
//! Always true: no tree is higher than [`crate::HEIGHT_MAX`], so a walk may recurse. Nodes are equal if they were written
//! alike, wherever they stand: a [`Pos`] equals every other.

#![expect(missing_docs, reason = "most fields and variants are named for the clause or word they hold")]

mod ddl;
mod dml;
mod expr;
mod query;
mod table;
mod utility;
mod visit;

use std::fmt;

pub use ddl::*;
pub use dml::*;
pub use expr::*;
pub use query::*;
pub use table::*;
pub use utility::*;
pub use visit::{Visitor, walk_cte_body, walk_expr, walk_query, walk_statement, walk_table_expr};

/// A name as it is looked up: folded unless it was quoted, at most 128 bytes (63 in PostgreSQL: line
/// protocol makes tables with long names).
pub type Ident = compact_str::CompactString;
/// The text of a constant.
pub type Text = compact_str::CompactString;

/// A place in the text, in bytes from 0. All places are equal to each other, so that trees compare by what they say.
#[derive(Clone, Copy, Default)]
pub struct Pos(pub u32);

impl PartialEq for Pos {
    fn eq(&self, _: &Pos) -> bool {
        true
    }
}

impl Eq for Pos {}

impl fmt::Debug for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that may be qualified: by a schema, or by a database and a schema. Longer ones are left to analysis, which knows
/// what kind of object they would name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Outermost first; mostly empty.
    pub qualifier: Box<[Ident]>,
    pub name: Ident,
    pub at: Pos,
}

impl Name {
    /// A name in `pg_catalog`.
    #[must_use]
    pub fn system(name: &'static str, at: Pos) -> Name {
        Name { qualifier: Box::new([Ident::const_new("pg_catalog")]), name: Ident::const_new(name), at }
    }

    /// Parts of the name, outermost first.
    pub fn parts(&self) -> impl Iterator<Item = &Ident> {
        self.qualifier.iter().chain(std::iter::once(&self.name))
    }

    /// The schema, if one was written.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.qualifier.last().map(Ident::as_str)
    }

    /// Whether it is this name of `pg_catalog`, written so.
    #[must_use]
    pub fn is_system(&self, name: &str) -> bool {
        self.name == name && matches!(&*self.qualifier, [schema] if schema == "pg_catalog")
    }
}

/// An operator's name: its symbol, behind OPERATOR(schema.…) maybe its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorName {
    pub schema: Box<[Ident]>,
    pub symbol: Ident,
}

impl OperatorName {
    #[must_use]
    pub fn plain(symbol: &str) -> OperatorName {
        OperatorName { schema: Box::default(), symbol: Ident::new(symbol) }
    }
}

/// A type as written, or the system type that its words mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeName {
    pub name: Name,
    /// `(10, 2)`; of intervals, a mask of [`interval`] fields and maybe a precision.
    pub modifiers: Vec<Expr>,
    /// One for each `[n]` or `[]`, which is -1.
    pub dimensions: Vec<i32>,
    pub is_set: bool,
    /// `table.column%TYPE`
    pub is_column_type: bool,
    pub at: Pos,
}

/// Bits of an interval's fields, as in PostgreSQL's type modifiers.
pub mod interval {
    pub const MONTH: i32 = 1 << 1;
    pub const YEAR: i32 = 1 << 2;
    pub const DAY: i32 = 1 << 3;
    pub const HOUR: i32 = 1 << 10;
    pub const MINUTE: i32 = 1 << 11;
    pub const SECOND: i32 = 1 << 12;
    pub const FULL: i32 = 0x7fff;
}

/// A parsed statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    Copy(Box<Copy>),
    Transaction(Transaction),
    Prepare(Box<Prepare>),
    Execute(Box<Execute>),
    /// `None` is ALL.
    Deallocate(Option<Ident>),
    DeclareCursor(Box<DeclareCursor>),
    Fetch(Box<Fetch>),
    /// `None` is ALL.
    CloseCursor(Option<Ident>),
    Set(Box<Set>),
    Show(Show),
    SetConstraints(Box<SetConstraints>),
    Discard(Discard),
    Listen(Ident),
    /// `None` is `*`.
    Unlisten(Option<Ident>),
    Notify(Box<Notify>),
    Lock(Box<Lock>),
    Explain(Box<Explain>),
    Vacuum(Box<Vacuum>),
    Cluster(Box<Cluster>),
    Reindex(Box<Reindex>),
    Checkpoint,
    Load(Text),
    Call(Box<FunctionCall>),
    Do(Vec<DefinitionItem>),
    CreateTable(Box<CreateTable>),
    CreateTableAs(Box<CreateTableAs>),
    CreateIndex(Box<CreateIndex>),
    CreateView(Box<CreateView>),
    RefreshMaterializedView(Box<RefreshMaterializedView>),
    CreateSequence(Box<CreateSequence>),
    AlterSequence(Box<AlterSequence>),
    CreateSchema(Box<CreateSchema>),
    CreateEnum(Box<CreateEnum>),
    CreateCompositeType(Box<CreateCompositeType>),
    CreateRangeType(Box<CreateRangeType>),
    /// CREATE AGGREGATE, OPERATOR, TYPE (base or shell) and COLLATION: a name and a list of definitions.
    Define(Box<Define>),
    CreateDomain(Box<CreateDomain>),
    AlterDomain(Box<AlterDomain>),
    AlterEnum(Box<AlterEnum>),
    CreateFunction(Box<CreateFunction>),
    AlterFunction(Box<AlterFunction>),
    CreateTrigger(Box<CreateTrigger>),
    CreateRule(Box<CreateRule>),
    CreateExtension(Box<CreateExtension>),
    AlterExtension(Box<AlterExtension>),
    AlterExtensionContents(Box<AlterExtensionContents>),
    CreateRole(Box<CreateRole>),
    AlterRole(Box<AlterRole>),
    AlterRoleSet(Box<AlterRoleSet>),
    DropRole(Box<DropRole>),
    CreateDatabase(Box<CreateDatabase>),
    AlterDatabase(Box<AlterDatabase>),
    AlterDatabaseSet(Box<AlterDatabaseSet>),
    DropDatabase(Box<DropDatabase>),
    AlterSystem(Box<Set>),
    CreatePolicy(Box<CreatePolicy>),
    AlterPolicy(Box<AlterPolicy>),
    CreateForeignDataWrapper(Box<CreateForeignDataWrapper>),
    AlterForeignDataWrapper(Box<CreateForeignDataWrapper>),
    CreateServer(Box<CreateServer>),
    AlterServer(Box<AlterServer>),
    UserMapping(Box<UserMapping>),
    ImportForeignSchema(Box<ImportForeignSchema>),
    CreateStatistics(Box<CreateStatistics>),
    AlterStatistics(Box<AlterStatistics>),
    CreateCast(Box<CreateCast>),
    CreateOperatorClass(Box<CreateOperatorClass>),
    CreateOperatorFamily(Name, Ident),
    AlterOperatorFamily(Box<AlterOperatorFamily>),
    AlterOperator(Box<AlterDefinition>),
    AlterType(Box<AlterDefinition>),
    AlterCollationRefreshVersion(Name),
    AlterTable(Box<AlterTable>),
    AlterTableSpaceAll(Box<AlterTableSpaceAll>),
    Drop(Box<Drop>),
    DropOwned(Box<DropOwned>),
    ReassignOwned(Box<ReassignOwned>),
    Truncate(Box<Truncate>),
    Rename(Box<Rename>),
    AlterOwner(Box<AlterOwner>),
    AlterSchema(Box<AlterSchema>),
    AlterDepends(Box<AlterDepends>),
    Comment(Box<Comment>),
    SecurityLabel(Box<SecurityLabel>),
    Grant(Box<Grant>),
    GrantRole(Box<GrantRole>),
    AlterDefaultPrivileges(Box<AlterDefaultPrivileges>),
    /// A command that is only recognised; its text up to the statement's end was not looked at.
    Unsupported {
        command: &'static str,
    },
    /// Millrace: SHOW TABLES.
    ShowTables,
    /// Millrace: DESCRIBE and SHOW COLUMNS FROM.
    Describe(Box<Name>),
    /// Millrace: SHOW CREATE TABLE.
    ShowCreateTable(Box<Name>),
    /// Millrace: SUMMARIZE, of a query.
    Summarize(Box<Query>),
}

/// A statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// First byte of the statement in the text.
    pub start: Pos,
    /// The byte behind its last token, without the semicolon.
    pub end: Pos,
    /// The highest n of `$n` in it; 0 if it has none.
    pub parameters: u32,
}
