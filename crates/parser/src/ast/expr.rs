//! Expressions.

use super::{Ident, Name, OperatorName, Pos, Query, Text, TypeName};

/// An expression. `at` is where errors point to: an operator, or the first token of anything else.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Null,
    Bool(bool),
    /// A sign before it is part of it, as in PostgreSQL.
    Integer(i32),
    /// Another number, as written.
    Number(Text),
    /// A text of unknown type.
    String(Text),
    /// `b` and its bits, or `x` and its digits.
    BitString(Text),
    /// `$n`
    Parameter(u32),
    /// A name alone: a column, or a table as a whole row.
    Column(Ident),
    /// A name of several parts, not all of which need be columns.
    Path(Box<[Ident]>),
    /// `*` and `t.*`: a target, or an argument `(t.*)` or `ROW(t.*)`. The star itself is left out.
    Wildcard(Box<[Ident]>),
    Operator(Box<OperatorExpr>),
    /// `a = ANY (array)`
    Quantified(Box<Quantified>),
    /// `a = ANY (SELECT …)`
    QuantifiedQuery(Box<QuantifiedQuery>),
    /// At least two; those nested on the left are in one list.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsNotNull(Box<Expr>),
    BooleanTest(Box<Expr>, BooleanTest),
    Distinct(Box<Distinct>),
    NullIf(Box<[Expr; 2]>),
    In(Box<In>),
    InQuery(Box<InQuery>),
    Like(Box<Like>),
    Between(Box<Between>),
    Function(Box<FunctionCall>),
    /// CURRENT_DATE and its like.
    SqlValue(SqlValue),
    Cast(Box<Cast>),
    Collate(Box<Collate>),
    Case(Box<Case>),
    /// `ROW(…)`
    Row(Vec<Expr>),
    /// `(a, b, …)`, at least two.
    ImplicitRow(Vec<Expr>),
    Array(Vec<Expr>),
    Coalesce(Vec<Expr>),
    Greatest(Vec<Expr>),
    Least(Vec<Expr>),
    /// `GROUPING(…)`
    Grouping(Vec<Expr>),
    Subquery(Box<Query>),
    Exists(Box<Query>),
    ArrayQuery(Box<Query>),
    /// `(a).b[1]`, and subscripts behind a name.
    Indirection(Box<Indirection>),
    /// `name => value`, only in the arguments of a function.
    NamedArgument(Box<NamedArgument>),
    /// DEFAULT, which analysis allows in the values of INSERT and UPDATE only.
    Default,
    /// `CURRENT OF cursor`, the whole condition of UPDATE or DELETE.
    CurrentOf(Box<Ident>),
    Xml(Box<XmlExpr>),
    XmlSerialize(Box<XmlSerialize>),
}

/// `a + b`, or `- b`: without left operand.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorExpr {
    pub op: OperatorName,
    pub left: Option<Expr>,
    pub right: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Quantified {
    pub op: OperatorName,
    /// ALL rather than ANY or SOME.
    pub all: bool,
    pub left: Expr,
    pub right: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct QuantifiedQuery {
    pub op: OperatorName,
    pub all: bool,
    pub left: Expr,
    pub query: Box<Query>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BooleanTest {
    True,
    NotTrue,
    False,
    NotFalse,
    Unknown,
    NotUnknown,
}

/// `a IS [NOT] DISTINCT FROM b`
#[derive(Clone, Debug, PartialEq)]
pub struct Distinct {
    pub not: bool,
    pub left: Expr,
    pub right: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct In {
    pub not: bool,
    pub expr: Expr,
    pub list: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InQuery {
    pub not: bool,
    pub expr: Expr,
    pub query: Box<Query>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeKind {
    Like,
    ILike,
    Similar,
}

impl LikeKind {
    /// The operator it means, without or with NOT.
    #[must_use]
    pub fn operator(self, not: bool) -> &'static str {
        match (self, not) {
            (LikeKind::Like, false) => "~~",
            (LikeKind::Like, true) => "!~~",
            (LikeKind::ILike, false) => "~~*",
            (LikeKind::ILike, true) => "!~~*",
            (LikeKind::Similar, false) => "~",
            (LikeKind::Similar, true) => "!~",
        }
    }
}

/// `a [NOT] LIKE b [ESCAPE c]`
#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    pub kind: LikeKind,
    pub not: bool,
    pub expr: Expr,
    pub pattern: Expr,
    pub escape: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    pub not: bool,
    pub symmetric: bool,
    pub expr: Expr,
    pub low: Expr,
    pub high: Expr,
}

/// A call of a function, aggregate or window function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCall {
    pub name: Name,
    pub args: Vec<Expr>,
    /// `f(*)`
    pub star: bool,
    pub distinct: bool,
    /// The last argument is VARIADIC.
    pub variadic: bool,
    /// `order_by` is that of WITHIN GROUP.
    pub within_group: bool,
    /// Written with the standard's words, as `EXTRACT(a FROM b)`; it is a function of `pg_catalog` by its meaning.
    pub sql_syntax: bool,
    pub order_by: Vec<SortBy>,
    pub filter: Option<Expr>,
    pub over: Option<Box<Over>>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    /// `OVER w`
    Window(Ident, Pos),
    /// `OVER (…)`
    Spec(WindowSpec),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowSpec {
    /// The window that it is made from.
    pub base: Option<Ident>,
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<SortBy>,
    pub frame: Option<Frame>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    /// Without BETWEEN there is none, and the frame ends at the current row.
    pub end: Option<FrameBound>,
    pub exclude: FrameExclude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Range,
    Rows,
    Groups,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclude {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SortBy {
    pub expr: Expr,
    pub direction: SortDirection,
    pub nulls: NullsOrder,
    /// Place of the operator behind USING.
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortDirection {
    Default,
    Asc,
    Desc,
    Using(Box<OperatorName>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullsOrder {
    Default,
    First,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlValue {
    CurrentDate,
    CurrentTime(Option<i32>),
    CurrentTimestamp(Option<i32>),
    LocalTime(Option<i32>),
    LocalTimestamp(Option<i32>),
    CurrentRole,
    CurrentUser,
    User,
    SessionUser,
    CurrentCatalog,
    CurrentSchema,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    pub expr: Expr,
    pub ty: TypeName,
    pub syntax: CastSyntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastSyntax {
    /// `a::type`
    Operator,
    /// `CAST(a AS type)`
    Function,
    /// `type 'text'`
    Literal,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Collate {
    pub expr: Expr,
    pub collation: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub operand: Option<Expr>,
    /// Conditions and results.
    pub branches: Vec<(Expr, Expr)>,
    pub otherwise: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Indirection {
    pub expr: Expr,
    pub steps: Vec<Step>,
}

/// A step from a value: to a field, all fields, an element or a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Field(Ident),
    /// `.*`, only at the end.
    All,
    Index(Expr),
    Slice(Option<Expr>, Option<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct NamedArgument {
    pub name: Ident,
    pub value: Expr,
}

/// XMLCONCAT and its like.
#[derive(Clone, Debug, PartialEq)]
pub struct XmlExpr {
    pub op: XmlOp,
    pub name: Option<Ident>,
    /// XMLATTRIBUTES, or the values of XMLFOREST.
    pub named: Vec<(Expr, Option<Ident>)>,
    pub args: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlOp {
    Concat,
    Element,
    Forest,
    /// XMLPARSE: whether of a document, and whether white space is preserved.
    Parse {
        document: bool,
        preserve: bool,
    },
    Pi,
    /// With `STANDALONE YES`, `NO`, `NO VALUE`, or nothing.
    Root(XmlStandalone),
    IsDocument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlStandalone {
    Yes,
    No,
    NoValue,
    Omitted,
}

#[derive(Clone, Debug, PartialEq)]
pub struct XmlSerialize {
    pub document: bool,
    pub expr: Expr,
    pub ty: TypeName,
}

const _: () = assert!(size_of::<Expr>() <= 40);

impl Expr {
    #[must_use]
    pub fn new(kind: ExprKind, at: Pos) -> Expr {
        Expr { kind, at }
    }
}
