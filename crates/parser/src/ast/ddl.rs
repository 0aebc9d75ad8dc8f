//! Definitions of everything but tables, and what is done to any object: DROP, RENAME, OWNER, COMMENT, GRANT and so on.

use super::{
    ColumnConstraint, ConstraintAttributes, Expr, Ident, Name, OperatorName, Pos, Set, Statement, TableConstraint,
    TableFunctionColumn, Text, TypeName,
};

/// A number as PostgreSQL's commands take it: with its sign, as an integer if it fits one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumericValue {
    Integer(i32),
    Number(Text),
}

/// A value in a list of definitions or options.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A word that may be a type, or a type.
    Type(TypeName),
    /// A key word that is no type, as `true`, `on` or `none`.
    Word(Ident),
    Operator(OperatorName),
    Number(NumericValue),
    Text(Text),
    Star,
    List(Vec<OptionValue>),
}

impl OptionValue {
    /// The text of a value, as PostgreSQL reads it: words and types are as good as strings.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            OptionValue::Text(text) | OptionValue::Word(text) => text.to_string(),
            OptionValue::Number(NumericValue::Integer(number)) => number.to_string(),
            OptionValue::Number(NumericValue::Number(number)) => number.to_string(),
            // A word is read as a type of that name.
            OptionValue::Type(ty)
                if ty.name.schema().is_none() && ty.modifiers.is_empty() && ty.dimensions.is_empty() =>
            {
                ty.name.name.to_string()
            }
            OptionValue::Type(ty) => ty.to_string(),
            OptionValue::Operator(operator) => operator.symbol.to_string(),
            OptionValue::Star => "*".to_owned(),
            OptionValue::List(list) => list.iter().map(OptionValue::text).collect::<Vec<_>>().join(", "),
        }
    }
}

/// `name = value`
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionItem {
    pub name: Ident,
    pub value: Option<OptionValue>,
    pub at: Pos,
}

/// `name 'value'` of OPTIONS (…).
#[derive(Clone, Debug, PartialEq)]
pub struct GenericOption {
    pub action: OptionAction,
    pub name: Ident,
    /// `None` of DROP.
    pub value: Option<Text>,
    pub at: Pos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionAction {
    Unspecified,
    Set,
    Add,
    Drop,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SequenceOption {
    As(TypeName),
    Cache(NumericValue),
    Cycle(bool),
    Increment(NumericValue),
    /// `None` is NO MAXVALUE.
    MaxValue(Option<NumericValue>),
    MinValue(Option<NumericValue>),
    OwnedBy(Name),
    SequenceName(Name),
    Start(NumericValue),
    Restart(Option<NumericValue>),
    Logged(bool),
    /// `SET GENERATED ALWAYS | BY DEFAULT` of ALTER COLUMN.
    Generated {
        always: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DropBehavior {
    #[default]
    Restrict,
    Cascade,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleSpec {
    Name(Ident),
    CurrentRole,
    CurrentUser,
    SessionUser,
    Public,
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    AccessMethod,
    Aggregate,
    Cast,
    Collation,
    Column,
    Conversion,
    Database,
    Domain,
    DomainConstraint,
    EventTrigger,
    Extension,
    ForeignDataWrapper,
    ForeignTable,
    Function,
    Index,
    Language,
    LargeObject,
    MaterializedView,
    Operator,
    OperatorClass,
    OperatorFamily,
    Policy,
    Procedure,
    Publication,
    Role,
    Routine,
    Rule,
    Schema,
    Sequence,
    Server,
    Statistics,
    Subscription,
    Table,
    TableConstraint,
    Tablespace,
    TextSearchConfiguration,
    TextSearchDictionary,
    TextSearchParser,
    TextSearchTemplate,
    Transform,
    Trigger,
    Type,
    View,
}

/// An object by what names it.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectName {
    /// Most.
    Name(Name),
    /// Functions, procedures, routines and aggregates.
    Function(FunctionSignature),
    Operator(OperatorSignature),
    /// Types and domains.
    Type(TypeName),
    /// Triggers, policies, rules and constraints: of a relation or domain.
    On(Ident, Name),
    Cast(TypeName, TypeName),
    /// Operator classes and families: of an index method.
    Using(Name, Ident),
    Transform(TypeName, Ident),
    LargeObject(NumericValue),
}

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSignature {
    pub name: Name,
    /// `None` if not written, which an unambiguous name allows.
    pub args: Option<Vec<FunctionParameter>>,
    /// `*`, for an aggregate.
    pub star: bool,
    /// Arguments before ORDER BY, for an ordered-set aggregate.
    pub direct_args: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OperatorSignature {
    pub name: OperatorName,
    /// `None` is NONE.
    pub left: Option<TypeName>,
    pub right: Option<TypeName>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    pub kind: ObjectKind,
    pub objects: Vec<ObjectName>,
    pub if_exists: bool,
    pub concurrently: bool,
    pub behavior: DropBehavior,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropOwned {
    pub roles: Vec<RoleSpec>,
    pub behavior: DropBehavior,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReassignOwned {
    pub roles: Vec<RoleSpec>,
    pub to: RoleSpec,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// Names, and whether with ONLY.
    pub tables: Vec<(Name, bool)>,
    pub restart_identity: bool,
    pub behavior: DropBehavior,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rename {
    pub kind: ObjectKind,
    pub object: ObjectName,
    /// With ONLY, of tables.
    pub only: bool,
    pub if_exists: bool,
    /// The renamed part: a column, attribute or constraint; `None` is the object itself.
    pub part: Option<RenamePart>,
    pub to: Ident,
    /// CASCADE or RESTRICT, for attributes.
    pub behavior: DropBehavior,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenamePart {
    Column(Ident),
    Attribute(Ident),
    Constraint(Ident),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterOwner {
    pub kind: ObjectKind,
    pub object: ObjectName,
    pub owner: RoleSpec,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterSchema {
    pub kind: ObjectKind,
    pub object: ObjectName,
    pub only: bool,
    pub if_exists: bool,
    pub schema: Ident,
}

/// `ALTER … [NO] DEPENDS ON EXTENSION name`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterDepends {
    pub kind: ObjectKind,
    pub object: ObjectName,
    pub remove: bool,
    pub extension: Ident,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    pub kind: ObjectKind,
    pub object: ObjectName,
    /// `None` is NULL, which removes it.
    pub text: Option<Text>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SecurityLabel {
    pub provider: Option<Text>,
    pub kind: ObjectKind,
    pub object: ObjectName,
    pub label: Option<Text>,
}

/// GRANT or REVOKE of privileges.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub revoke: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub grant_option: bool,
    pub privileges: Privileges,
    pub target: GrantTarget,
    pub grantees: Vec<RoleSpec>,
    pub granted_by: Option<RoleSpec>,
    pub behavior: DropBehavior,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Privileges {
    /// ALL, maybe of columns.
    All(Vec<Ident>),
    List(Vec<Privilege>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// In lower case.
    pub name: Ident,
    pub columns: Vec<Ident>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GrantTarget {
    /// Names of these; a table may be a view or sequence.
    Objects(ObjectKind, Vec<Name>),
    Functions(ObjectKind, Vec<FunctionSignature>),
    LargeObjects(Vec<NumericValue>),
    Parameters(Vec<Ident>),
    /// `ALL TABLES IN SCHEMA …`
    AllInSchema(ObjectKind, Vec<Ident>),
    /// `TABLES` of ALTER DEFAULT PRIVILEGES.
    Defaults(ObjectKind),
}

#[derive(Clone, Debug, PartialEq)]
pub struct GrantRole {
    pub revoke: bool,
    /// WITH ADMIN OPTION, or ADMIN OPTION FOR.
    pub admin_option: bool,
    pub roles: Vec<Privilege>,
    pub grantees: Vec<RoleSpec>,
    pub granted_by: Option<RoleSpec>,
    pub behavior: DropBehavior,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDefaultPrivileges {
    pub schemas: Vec<Ident>,
    pub roles: Vec<RoleSpec>,
    pub grant: Grant,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateSchema {
    pub name: Option<Ident>,
    pub owner: Option<RoleSpec>,
    pub if_not_exists: bool,
    pub elements: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateEnum {
    pub name: Name,
    pub labels: Vec<Text>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateCompositeType {
    pub name: Name,
    pub attributes: Vec<TableFunctionColumn>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRangeType {
    pub name: Name,
    pub options: Vec<DefinitionItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Define {
    pub kind: ObjectKind,
    pub name: DefineName,
    pub replace: bool,
    pub if_not_exists: bool,
    /// `None` of a shell type.
    pub definition: Option<Vec<DefinitionItem>>,
    /// `CREATE COLLATION … FROM …`
    pub from: Option<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DefineName {
    Name(Name),
    Operator(OperatorName),
    /// An aggregate; without arguments in its old syntax.
    Aggregate(FunctionSignature),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateDomain {
    pub name: Name,
    pub ty: TypeName,
    pub collation: Option<Name>,
    pub constraints: Vec<ColumnConstraint>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDomain {
    pub name: Name,
    pub action: AlterDomainAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterDomainAction {
    SetDefault(Expr),
    DropDefault,
    SetNotNull,
    DropNotNull,
    AddConstraint(TableConstraint),
    DropConstraint { name: Ident, if_exists: bool, behavior: DropBehavior },
    ValidateConstraint(Ident),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterEnum {
    pub name: Name,
    pub action: AlterEnumAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterEnumAction {
    /// A neighbour, and whether the new one comes behind it.
    Add {
        label: Text,
        if_not_exists: bool,
        beside: Option<(Text, bool)>,
    },
    Rename {
        from: Text,
        to: Text,
    },
}

/// `ALTER OPERATOR … SET (…)`, `ALTER TYPE … SET (…)`, and ALTER TYPE of a composite type's attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterDefinition {
    pub object: ObjectName,
    pub options: Vec<DefinitionItem>,
    pub attributes: Vec<AlterAttribute>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterAttribute {
    Add(TableFunctionColumn, DropBehavior),
    Drop { name: Ident, if_exists: bool, behavior: DropBehavior },
    Alter { name: Ident, ty: TypeName, collation: Option<Name>, behavior: DropBehavior },
}

/// CREATE FUNCTION or PROCEDURE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    pub procedure: bool,
    pub replace: bool,
    pub name: Name,
    pub parameters: Vec<FunctionParameter>,
    pub returns: Option<TypeName>,
    pub options: Vec<FunctionOption>,
    pub body: Option<FunctionBody>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionParameter {
    pub mode: ParameterMode,
    pub name: Option<Ident>,
    pub ty: TypeName,
    pub default: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMode {
    /// Nothing written, which is IN.
    Default,
    In,
    Out,
    InOut,
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FunctionOption {
    /// One text, or an object file and a symbol.
    As(Text, Option<Text>),
    Language(Text),
    Transform(Vec<TypeName>),
    Window,
    Strict(bool),
    Volatility(Volatility),
    SecurityDefiner(bool),
    Leakproof(bool),
    Cost(NumericValue),
    Rows(NumericValue),
    Support(Name),
    Set(Box<Set>),
    Parallel(Ident),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FunctionBody {
    /// `RETURN expr`
    Return(Expr),
    /// `BEGIN ATOMIC … END`
    Atomic(Vec<AtomicStatement>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum AtomicStatement {
    Statement(Statement),
    Return(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterFunction {
    pub kind: ObjectKind,
    pub function: FunctionSignature,
    pub options: Vec<FunctionOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTrigger {
    pub replace: bool,
    pub constraint: bool,
    pub name: Ident,
    pub timing: TriggerTiming,
    pub events: Vec<TriggerEvent>,
    pub table: Name,
    /// Options of a constraint trigger.
    pub from: Option<Name>,
    pub attributes: ConstraintAttributes,
    pub transitions: Vec<TriggerTransition>,
    pub for_each_row: bool,
    pub when: Option<Expr>,
    pub function: Name,
    /// Texts, whatever they were written as.
    pub args: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTiming {
    Before,
    After,
    InsteadOf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    Insert,
    Delete,
    /// Columns; empty for all.
    Update(Vec<Ident>),
    Truncate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerTransition {
    pub name: Ident,
    pub new: bool,
    pub table: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRule {
    pub replace: bool,
    pub name: Ident,
    pub table: Name,
    pub event: RuleEvent,
    pub filter: Option<Expr>,
    pub instead: bool,
    /// Empty is NOTHING.
    pub actions: Vec<Statement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEvent {
    Select,
    Update,
    Delete,
    Insert,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateExtension {
    pub name: Ident,
    pub if_not_exists: bool,
    pub options: Vec<ExtensionOption>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtensionOption {
    Schema(Ident),
    Version(Text),
    Cascade,
}

/// `ALTER EXTENSION … UPDATE [TO version]`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterExtension {
    pub name: Ident,
    pub versions: Vec<Text>,
}

/// `ALTER EXTENSION … ADD | DROP object`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterExtensionContents {
    pub name: Ident,
    pub add: bool,
    pub kind: ObjectKind,
    pub object: ObjectName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    Role,
    User,
    Group,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRole {
    pub kind: RoleKind,
    pub name: Ident,
    pub options: Vec<RoleOption>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleOption {
    /// `None` is NULL.
    Password(Option<Text>),
    Superuser(bool),
    CreateRole(bool),
    CreateDb(bool),
    Replication(bool),
    Login(bool),
    BypassRls(bool),
    Inherit(bool),
    ConnectionLimit(i32),
    ValidUntil(Text),
    /// ROLE or USER.
    Members(Vec<RoleSpec>),
    Admin(Vec<RoleSpec>),
    /// IN ROLE or IN GROUP.
    InRoles(Vec<RoleSpec>),
    SysId(i32),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterRole {
    pub role: RoleSpec,
    /// DROP USER of ALTER GROUP.
    pub drop_members: bool,
    pub options: Vec<RoleOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterRoleSet {
    /// `None` is ALL.
    pub role: Option<RoleSpec>,
    pub database: Option<Ident>,
    pub set: Set,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropRole {
    pub roles: Vec<RoleSpec>,
    pub if_exists: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateDatabase {
    pub name: Ident,
    pub options: Vec<DefinitionItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDatabase {
    pub name: Ident,
    pub options: Vec<DefinitionItem>,
    /// REFRESH COLLATION VERSION
    pub refresh_collation: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDatabaseSet {
    pub name: Ident,
    pub set: Set,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropDatabase {
    pub name: Ident,
    pub if_exists: bool,
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreatePolicy {
    pub name: Ident,
    pub table: Name,
    pub permissive: bool,
    pub command: PolicyCommand,
    pub roles: Vec<RoleSpec>,
    pub using: Option<Expr>,
    pub check: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyCommand {
    All,
    Select,
    Insert,
    Update,
    Delete,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterPolicy {
    pub name: Ident,
    pub table: Name,
    pub roles: Vec<RoleSpec>,
    pub using: Option<Expr>,
    pub check: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateForeignDataWrapper {
    pub name: Ident,
    pub functions: Vec<WrapperFunction>,
    pub options: Vec<GenericOption>,
}

/// `None` is NO HANDLER, NO VALIDATOR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrapperFunction {
    Handler(Option<Name>),
    Validator(Option<Name>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateServer {
    pub name: Ident,
    pub if_not_exists: bool,
    pub ty: Option<Text>,
    /// `Some(None)` is VERSION NULL.
    pub version: Option<Option<Text>>,
    pub wrapper: Ident,
    pub options: Vec<GenericOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterServer {
    pub name: Ident,
    pub version: Option<Option<Text>>,
    pub options: Vec<GenericOption>,
}

/// CREATE, ALTER and DROP USER MAPPING.
#[derive(Clone, Debug, PartialEq)]
pub struct UserMapping {
    pub action: MappingAction,
    /// IF NOT EXISTS or IF EXISTS.
    pub if_condition: bool,
    pub user: RoleSpec,
    pub server: Ident,
    pub options: Vec<GenericOption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingAction {
    Create,
    Alter,
    Drop,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ImportForeignSchema {
    pub remote_schema: Ident,
    pub tables: ImportTables,
    pub server: Ident,
    pub into: Ident,
    pub options: Vec<GenericOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ImportTables {
    All,
    LimitTo(Vec<Name>),
    Except(Vec<Name>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateCast {
    pub source: TypeName,
    pub target: TypeName,
    pub method: CastMethod,
    pub context: CastContext,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CastMethod {
    Function(FunctionSignature),
    Binary,
    InOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastContext {
    Explicit,
    Assignment,
    Implicit,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateOperatorClass {
    pub name: Name,
    pub default: bool,
    pub ty: TypeName,
    pub method: Ident,
    pub family: Option<Name>,
    pub items: Vec<OperatorClassItem>,
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "lists of them are short and rare")]
pub enum OperatorClassItem {
    /// `FOR ORDER BY` a family.
    Operator {
        number: i32,
        operator: OperatorName,
        types: Option<OperatorSignature>,
        order_by: Option<Name>,
    },
    Function {
        number: i32,
        types: Vec<TypeName>,
        function: FunctionSignature,
    },
    Storage(TypeName),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterOperatorFamily {
    pub name: Name,
    pub method: Ident,
    pub add: Vec<OperatorClassItem>,
    /// Whether an operator rather than a function, its number and types.
    pub drop: Vec<(bool, i32, Vec<TypeName>)>,
}
