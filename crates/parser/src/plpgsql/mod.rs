//! PL/pgSQL: the bodies of functions in PostgreSQL's procedural language, as trees.
//!
//! A tree has the control structure. Expressions, queries and SQL statements within it are texts ([`Fragment`]): what they
//! mean depends on the types of the variables, which are known when they run.
//!
//! Always true: no name is looked up; nothing is nested deeper than [`model::limits::PLPGSQL_DEPTH_MAX`]; no text causes a panic.

#![expect(missing_docs, reason = "most fields and variants are named for the clause or word they hold")]

mod parse;

pub use parse::parse;

/// A body.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    pub block: Block,
    /// Number of fragments, which are numbered from 0.
    pub fragments: u32,
    /// `#variable_conflict`, if it is written.
    pub conflict: Option<Conflict>,
}

/// The meaning of a name that is both a variable and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    Error,
    Variable,
    Column,
}

/// A text of SQL within a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    pub text: String,
    /// Its number in the body.
    pub number: u32,
}

/// `[DECLARE …] BEGIN … [EXCEPTION …] END`
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub label: Option<String>,
    pub declarations: Vec<Declaration>,
    pub statements: Vec<Statement>,
    pub handlers: Vec<Handler>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    pub name: String,
    pub line: u32,
    pub kind: DeclarationKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DeclarationKind {
    Variable {
        ty: TypeText,
        constant: bool,
        not_null: bool,
        default: Option<Fragment>,
    },
    /// Another name of a variable or parameter.
    Alias(Vec<String>),
    Cursor {
        scroll: Option<bool>,
        parameters: Vec<(String, TypeText)>,
        query: Fragment,
    },
}

/// The type of a variable, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeText {
    pub text: String,
    pub kind: TypeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Named,
    /// `name%TYPE`
    Type,
    /// `name%ROWTYPE`
    RowType,
}

/// `WHEN conditions THEN …`
#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    /// Names of conditions, in lower case, or SQLSTATEs.
    pub conditions: Vec<Condition>,
    pub statements: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Name(String),
    State(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Line in the body, from 1.
    pub line: u32,
    pub kind: StatementKind,
}

/// A variable, a field of a record, or an element of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub path: Vec<String>,
    pub subscripts: Vec<Fragment>,
}

/// `INTO [STRICT] targets`
#[derive(Clone, Debug, PartialEq)]
pub struct Into {
    pub strict: bool,
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    Null,
    Block(Block),
    Assign {
        target: Target,
        value: Fragment,
    },
    If {
        branches: Vec<(Fragment, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    Case {
        operand: Option<Fragment>,
        branches: Vec<(Fragment, Vec<Statement>)>,
        /// `None` without ELSE.
        otherwise: Option<Vec<Statement>>,
    },
    Loop {
        label: Option<String>,
        body: Vec<Statement>,
    },
    While {
        label: Option<String>,
        condition: Fragment,
        body: Vec<Statement>,
    },
    ForInteger {
        label: Option<String>,
        variable: String,
        reverse: bool,
        low: Fragment,
        high: Fragment,
        step: Option<Fragment>,
        body: Vec<Statement>,
    },
    /// A query, or the name of a cursor with its arguments.
    ForQuery {
        label: Option<String>,
        targets: Vec<Target>,
        query: Fragment,
        body: Vec<Statement>,
    },
    ForExecute {
        label: Option<String>,
        targets: Vec<Target>,
        query: Fragment,
        using: Vec<Fragment>,
        body: Vec<Statement>,
    },
    ForEach {
        label: Option<String>,
        targets: Vec<Target>,
        slice: u32,
        array: Fragment,
        body: Vec<Statement>,
    },
    /// EXIT, or CONTINUE.
    Exit {
        is_continue: bool,
        label: Option<String>,
        condition: Option<Fragment>,
    },
    Return(Option<Fragment>),
    ReturnNext(Option<Fragment>),
    ReturnQuery(Fragment),
    ReturnQueryExecute {
        query: Fragment,
        using: Vec<Fragment>,
    },
    Raise(Raise),
    Assert {
        condition: Fragment,
        message: Option<Fragment>,
    },
    Perform(Fragment),
    Sql {
        statement: Fragment,
        into: Option<Into>,
    },
    Call(Fragment),
    Execute {
        query: Fragment,
        into: Option<Into>,
        using: Vec<Fragment>,
    },
    Diagnostics {
        stacked: bool,
        items: Vec<(Target, String)>,
    },
    Open {
        cursor: String,
        scroll: Option<bool>,
        how: Open,
    },
    Fetch {
        cursor: String,
        direction: Direction,
        /// `None` for MOVE.
        into: Option<Into>,
    },
    Close(String),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    /// Arguments of a cursor with a query of its own.
    Bound(Vec<(Option<String>, Fragment)>),
    Query(Fragment),
    Execute(Fragment, Vec<Fragment>),
}

/// The row that FETCH and MOVE go to.
#[derive(Clone, Debug, PartialEq)]
pub enum Direction {
    Next,
    Prior,
    First,
    Last,
    Absolute(Fragment),
    Relative(Fragment),
    /// FORWARD and BACKWARD with a number of rows; `None` is ALL.
    Forward(Option<Fragment>),
    Backward(Option<Fragment>),
}

/// RAISE; nothing but the level raises the error of a handler again.
#[derive(Clone, Debug, PartialEq)]
pub struct Raise {
    pub level: Level,
    pub condition: Option<Condition>,
    /// Format, with `%` for each parameter.
    pub message: Option<String>,
    pub parameters: Vec<Fragment>,
    /// Names of the options of USING, in lower case.
    pub options: Vec<(String, Fragment)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

impl StatementKind {
    /// Name of the statement in the context of errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        use StatementKind as S;
        match self {
            S::Null => "NULL",
            S::Block(_) => "statement block",
            S::Assign { .. } => "assignment",
            S::If { .. } => "IF",
            S::Case { .. } => "CASE",
            S::Loop { .. } => "LOOP",
            S::While { .. } => "WHILE",
            S::ForInteger { .. } => "FOR with integer loop variable",
            S::ForQuery { .. } => "FOR over SELECT rows",
            S::ForExecute { .. } => "FOR over EXECUTE statement",
            S::ForEach { .. } => "FOREACH over array",
            S::Exit { is_continue: false, .. } => "EXIT",
            S::Exit { .. } => "CONTINUE",
            S::Return(_) => "RETURN",
            S::ReturnNext(_) => "RETURN NEXT",
            S::ReturnQuery(_) | S::ReturnQueryExecute { .. } => "RETURN QUERY",
            S::Raise(_) => "RAISE",
            S::Assert { .. } => "ASSERT",
            S::Perform(_) => "PERFORM",
            S::Sql { .. } => "SQL statement",
            S::Call(_) => "CALL",
            S::Execute { .. } => "EXECUTE",
            S::Diagnostics { stacked: false, .. } => "GET DIAGNOSTICS",
            S::Diagnostics { .. } => "GET STACKED DIAGNOSTICS",
            S::Open { .. } => "OPEN",
            S::Fetch { into: Some(_), .. } => "FETCH",
            S::Fetch { .. } => "MOVE",
            S::Close(_) => "CLOSE",
            S::Commit { .. } => "COMMIT",
            S::Rollback { .. } => "ROLLBACK",
        }
    }
}
