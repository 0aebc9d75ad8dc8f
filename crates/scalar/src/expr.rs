//! Typed expressions, as the binder makes them.

use std::sync::Arc;

use catalog::TypeId;
use model::Names;

use crate::value::Value;

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The computation.
    pub kind: ExprKind,
    /// Type of the result.
    pub ty: TypeId,
    /// Type modifier of the result; -1 for none.
    pub typmod: i32,
    /// Place in the statement that errors point to.
    pub at: Place,
}

/// A byte in the statement. All places are equal, so that expressions compare by what they compute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(pub u32);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

/// A call of a function, or of the function of an operator, with the types that were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number in `pg_proc`.
    pub function: u32,
    /// Number in `pg_operator`, if it was written as an operator.
    pub operator: Option<u32>,
    /// Actual types of the arguments, after casts; where a parameter is polymorphic, the type it stands for.
    pub arguments: Box<[TypeId]>,
    /// Actual type of the result.
    pub result: TypeId,
}

/// Constraints of a domain, and of the domains that it constrains further.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainTest {
    /// Name of the domain, for messages.
    pub name: String,
    /// Whether the value is an array whose elements are of the domain.
    pub is_array: bool,
    /// NOT NULL
    pub not_null: bool,
    /// Names and conditions of CHECK constraints. Column 0 is the value.
    pub checks: Vec<(String, Expr)>,
}

/// The computation of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Constant(Value),
    /// A column by its number in the statement.
    Column(u32),
    /// `$n`; the number is n - 1.
    Parameter(u32),
    /// A function or operator.
    Call(Box<Call>, Vec<Expr>),
    /// A cast by output and input.
    ViaText(Box<Expr>),
    /// A cast that changes the type only.
    Relabel(Box<Expr>),
    /// The value of a cast to a domain, which satisfies its constraints; its type is the base type.
    Domain(Box<Expr>, Arc<DomainTest>),
    /// A cast of each element of an array; the second one is computed over [`ExprKind::Placeholder`].
    Elements(Box<[Expr; 2]>),
    /// The element of an array that is cast, or the operand of CASE.
    Placeholder,
    /// At least two.
    And(Vec<Expr>),
    /// At least two.
    Or(Vec<Expr>),
    /// NOT
    Not(Box<Expr>),
    /// IS NULL; of a row, whether all its columns are NULL.
    IsNull(Box<Expr>),
    /// IS NOT NULL; of a row, whether none of its columns is NULL.
    IsNotNull(Box<Expr>),
    /// `IS TRUE` and its like.
    BooleanTest(Box<Expr>, BooleanTest),
    /// `IS DISTINCT FROM`, by an equality operator.
    Distinct(Box<Call>, Box<[Expr; 2]>),
    /// NULLIF, by an equality operator.
    NullIf(Box<Call>, Box<[Expr; 2]>),
    /// `left operator ANY (array)`, `left operator ALL (array)`
    Quantified {
        /// ALL rather than ANY.
        all: bool,
        /// Compares with an element.
        call: Box<Call>,
        /// Left operand and array.
        operands: Box<[Expr; 2]>,
    },
    /// `left IN (list)` with `=`, or `left NOT IN (list)` with `<>` and `all`.
    InList {
        /// Whether all comparisons must hold rather than one.
        all: bool,
        /// Compares with an item.
        call: Box<Call>,
        /// Left operand.
        left: Box<Expr>,
        /// Items, of the type of the right operand.
        list: Vec<Expr>,
    },
    /// CASE. With an operand, the conditions are over [`ExprKind::Placeholder`].
    Case {
        /// Operand.
        operand: Option<Box<Expr>>,
        /// Conditions and results.
        branches: Vec<(Expr, Expr)>,
        /// ELSE
        otherwise: Option<Box<Expr>>,
    },
    /// COALESCE
    Coalesce(Vec<Expr>),
    /// GREATEST or LEAST.
    Extreme {
        /// GREATEST
        greatest: bool,
        /// Arguments, of one type.
        list: Vec<Expr>,
    },
    /// `ROW(…)`, or the row of an item of FROM, whose columns have names.
    Row(Vec<Expr>, Names),
    /// `ARRAY[…]`; if nested, of arrays, which become one with another dimension.
    Array {
        /// Elements or arrays.
        elements: Vec<Expr>,
        /// Whether the elements are arrays.
        nested: bool,
    },
    /// Subscripts of an array or of jsonb.
    Subscript(Box<Expr>, Vec<Subscript>),
    /// A column of a row, from 0.
    Field(Box<Expr>, usize),
    /// `<`, `<=`, `>` or `>=` of two rows. The calls are `<` or `>` of each pair of columns.
    RowCompare {
        /// The comparison.
        comparison: Comparison,
        /// The comparison of each pair.
        calls: Vec<Call>,
        /// Columns on the left.
        left: Vec<Expr>,
        /// Columns on the right.
        right: Vec<Expr>,
    },
    /// CURRENT_DATE and its like.
    SqlValue(SqlValue),
    /// A subquery.
    Subquery(Box<Subquery>),
}

/// A subscript: an index, or the bounds of a slice; in an assignment also a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscript {
    /// `[n]`
    Index(Expr),
    /// `[n:m]`
    Slice(Option<Expr>, Option<Expr>),
    /// The place of an attribute of a composite type.
    Field(usize),
}

/// A test of a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BooleanTest {
    /// `IS TRUE`
    True,
    /// `IS NOT TRUE`
    NotTrue,
    /// `IS FALSE`
    False,
    /// `IS NOT FALSE`
    NotFalse,
    /// `IS UNKNOWN`
    Unknown,
    /// `IS NOT UNKNOWN`
    NotUnknown,
}

/// A comparison of rows by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

/// A value that the session knows, written without parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlValue {
    /// CURRENT_DATE
    CurrentDate,
    /// CURRENT_TIME
    CurrentTime,
    /// CURRENT_TIMESTAMP
    CurrentTimestamp,
    /// LOCALTIME
    LocalTime,
    /// LOCALTIMESTAMP
    LocalTimestamp,
    /// CURRENT_USER, CURRENT_ROLE, USER, SESSION_USER
    User,
    /// CURRENT_CATALOG
    Catalog,
    /// CURRENT_SCHEMA
    Schema,
}

/// A subquery in an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// Number among the statement's subqueries.
    pub query: u32,
    /// The value that the rows become.
    pub kind: SubqueryKind,
}

/// The value that the rows of a subquery become.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryKind {
    /// The value of its only row, or NULL.
    Scalar,
    /// Whether there is one.
    Exists,
    /// An array of them.
    Array,
    /// `left = ANY (subquery)`, or with ALL. A row on the left is compared column by column.
    Quantified {
        /// ALL rather than ANY.
        all: bool,
        /// Left operands.
        left: Vec<Expr>,
        /// The comparison of each pair.
        calls: Vec<Call>,
        /// Whether one column decides: `<>` holds if it holds for one column, the others if they hold for all.
        any_column: bool,
        /// Comparison of whole rows by order, if it is one.
        order: Option<Comparison>,
    },
}

impl Expr {
    /// An expression without type modifier.
    #[must_use]
    pub fn new(kind: ExprKind, ty: TypeId, at: Place) -> Expr {
        Expr { kind, ty, typmod: -1, at }
    }

    /// NULL of a type.
    #[must_use]
    pub fn null(ty: TypeId, at: Place) -> Expr {
        Expr::new(ExprKind::Constant(Value::NULL), ty, at)
    }

    /// A boolean constant.
    #[must_use]
    pub fn bool(value: bool, at: Place) -> Expr {
        Expr::new(ExprKind::Constant(Value::Plain(model::Datum::Bool(value))), TypeId::BOOL, at)
    }

    /// Whether it is the constant NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, ExprKind::Constant(value) if value.is_null())
    }
}

/// Generates a walk over the direct operands, shared or mutable.
macro_rules! operands {
    ($(#[$doc:meta])* $name:ident, $iter:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        pub fn $name(&$($mut)? self, each: &mut dyn FnMut(&$($mut)? Expr)) {
            match &$($mut)? self.kind {
                ExprKind::Constant(_)
                | ExprKind::Column(_)
                | ExprKind::Parameter(_)
                | ExprKind::Placeholder
                | ExprKind::SqlValue(_) => {}
                ExprKind::Call(_, list)
                | ExprKind::And(list)
                | ExprKind::Or(list)
                | ExprKind::Coalesce(list)
                | ExprKind::Extreme { list, .. }
                | ExprKind::Row(list, _)
                | ExprKind::Array { elements: list, .. } => list.$iter().for_each(each),
                ExprKind::ViaText(of)
                | ExprKind::Relabel(of)
                | ExprKind::Domain(of, _)
                | ExprKind::Not(of)
                | ExprKind::IsNull(of)
                | ExprKind::IsNotNull(of)
                | ExprKind::BooleanTest(of, _)
                | ExprKind::Field(of, _) => each(of),
                ExprKind::Elements(pair)
                | ExprKind::Distinct(_, pair)
                | ExprKind::NullIf(_, pair)
                | ExprKind::Quantified { operands: pair, .. } => pair.$iter().for_each(each),
                ExprKind::InList { left, list, .. } => {
                    each(left);
                    list.$iter().for_each(each);
                }
                ExprKind::Case { operand, branches, otherwise } => {
                    operand.$iter().for_each(|operand| each(operand));
                    for (condition, result) in branches {
                        each(condition);
                        each(result);
                    }
                    otherwise.$iter().for_each(|otherwise| each(otherwise));
                }
                ExprKind::Subscript(of, subscripts) => {
                    each(of);
                    for subscript in subscripts {
                        match subscript {
                            Subscript::Index(index) => each(index),
                            Subscript::Slice(low, high) => low.$iter().chain(high).for_each(&mut *each),
                            Subscript::Field(_) => {}
                        }
                    }
                }
                ExprKind::RowCompare { left, right, .. } => left.$iter().chain(right).for_each(each),
                ExprKind::Subquery(subquery) => {
                    if let SubqueryKind::Quantified { left, .. } = &$($mut)? subquery.kind {
                        left.$iter().for_each(each);
                    }
                }
            }
        }
    };
}

impl Expr {
    operands!(
        /// Calls `each` with every direct operand.
        for_each_operand, iter
    );
    operands!(
        /// Calls `each` with every direct operand, which it may change.
        for_each_operand_mut, iter_mut, mut
    );

    /// Calls `each` with the expression and everything below it, outermost first; not with the queries of subqueries.
    pub fn visit(&self, each: &mut dyn FnMut(&Expr)) {
        each(self);
        self.for_each_operand(&mut |operand| operand.visit(each));
    }

    /// Like [`Expr::visit`], with changes.
    pub fn visit_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        each(self);
        self.for_each_operand_mut(&mut |operand| operand.visit_mut(each));
    }
}
