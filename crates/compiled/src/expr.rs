//! Expressions that know their types: evaluated over the rows of the moment, without allocating where nothing is made.
//!
//! The binder has put casts where PostgreSQL would, so that both sides of an operator are of one type; what meets here in
//! any other pair is its mistake (XX000).

use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

use model::{Datum, Error, Numeric, Result, SqlState, Type};
use rows::row::RowLayout;

use crate::cast;
use crate::datetime::{self, Part};
use crate::exec::World;
use crate::sequences::Number;

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Anything but these two.
    Plain(Datum<'static>),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl Value {
    pub(crate) fn of(datum: &Datum<'_>) -> Value {
        match datum {
            Datum::Text(text) => Value::Text((*text).into()),
            Datum::Bytes(bytes) => Value::Bytes((*bytes).into()),
            plain => Value::Plain(plain_of(plain)),
        }
    }

    pub(crate) fn datum(&self) -> Datum<'_> {
        match self {
            Value::Plain(datum) => datum.clone(),
            Value::Text(text) => Datum::Text(text),
            Value::Bytes(bytes) => Datum::Bytes(bytes),
        }
    }
}

/// A datum that borrows nothing.
fn plain_of(datum: &Datum<'_>) -> Datum<'static> {
    match datum {
        Datum::Null | Datum::Text(_) | Datum::Bytes(_) => Datum::Null,
        Datum::Bool(value) => Datum::Bool(*value),
        Datum::Int2(value) => Datum::Int2(*value),
        Datum::Int4(value) => Datum::Int4(*value),
        Datum::Int8(value) => Datum::Int8(*value),
        Datum::Float4(value) => Datum::Float4(*value),
        Datum::Float8(value) => Datum::Float8(*value),
        Datum::Numeric(value) => Datum::Numeric(value.clone()),
        Datum::Uuid(value) => Datum::Uuid(*value),
        Datum::Date(value) => Datum::Date(*value),
        Datum::Time(value) => Datum::Time(*value),
        Datum::Timestamp(value) => Datum::Timestamp(*value),
        Datum::Timestamptz(value) => Datum::Timestamptz(*value),
        Datum::Interval(value) => Datum::Interval(*value),
    }
}

/// How fields are found in rows of a table: the same if it is the same table's.
#[derive(Clone, Debug)]
pub(crate) struct Layout(pub(crate) Arc<RowLayout>);

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Value(Value),
    /// `$n`, from 0.
    Param(usize),
    /// A column of the row in a slot.
    Field {
        slot: usize,
        column: usize,
        layout: Layout,
    },
    /// A moment and an interval, added or subtracted.
    Shift {
        what: Box<[Expr; 2]>,
        back: bool,
    },
    /// `now()` and its kin: the transaction's start.
    Now,
    Arithmetic(Operator, Box<[Expr; 2]>),
    Compare(Comparison, Box<[Expr; 2]>),
    And(Box<[Expr; 2]>),
    Or(Box<[Expr; 2]>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    IsNull {
        of: Box<Expr>,
        not: bool,
    },
    IsDistinct {
        from: Box<[Expr; 2]>,
        not: bool,
    },
    InList {
        what: Box<Expr>,
        list: Vec<Expr>,
        not: bool,
    },
    Like {
        what: Box<[Expr; 2]>,
        escape: Option<char>,
        not: bool,
        any_case: bool,
    },
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Coalesce(Vec<Expr>),
    Extreme {
        of: Vec<Expr>,
        greatest: bool,
    },
    Concat(Box<[Expr; 2]>),
    Cast {
        what: Box<Expr>,
        to: Type,
        by: cast::Context,
    },
    Call(Function, Vec<Expr>),
    /// What the query around this one gives it.
    Given(usize),
    /// What a subquery gives: one value or none, or whether there are rows. It is given values of the query it stands in.
    Result {
        of: usize,
        given: Vec<Expr>,
    },
    /// Is a value among those that a subquery gives?
    InResult {
        what: Box<Expr>,
        of: usize,
        given: Vec<Expr>,
        not: bool,
    },
    /// Is a row among those that a subquery gives?
    InRows {
        what: Vec<Expr>,
        types: Vec<Type>,
        of: usize,
        given: Vec<Expr>,
        not: bool,
    },
    /// Does a comparison with one of what a subquery gives hold, or with all?
    ComparedResult {
        what: Box<Expr>,
        comparison: Comparison,
        of: usize,
        given: Vec<Expr>,
        all: bool,
    },
    /// Is a value among the elements of an array parameter?
    InArray {
        what: Box<Expr>,
        array: usize,
        not: bool,
    },
    /// Does a comparison with one element of an array parameter hold, or with all?
    ComparedArray {
        what: Box<Expr>,
        comparison: Comparison,
        array: usize,
        all: bool,
    },
    /// The element of an array parameter by which rows are looked for.
    Element,
    /// A number of a sequence, or a random one.
    Number(Number, Vec<Expr>),
    /// A column of a group, or an aggregate.
    Made(usize),
    /// A value as the type of a key column that is cast to meet it; NULL, to which no key is equal, where there is none.
    Fitting {
        what: Box<Expr>,
        to: Type,
    },
}

/// A walk over an expression, once to see and once to change.
macro_rules! walk {
    ($(#[$doc:meta])* $name:ident, $iter:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name(&$($mut)? self, each: &mut dyn FnMut(&$($mut)? Expr)) {
            each(self);
            match self {
                Expr::Value(_)
                | Expr::Param(_)
                | Expr::Field { .. }
                | Expr::Given(_)
                | Expr::Element
                | Expr::Now
                | Expr::Made(_) => {}
                Expr::Arithmetic(_, sides)
                | Expr::Compare(_, sides)
                | Expr::And(sides)
                | Expr::Or(sides)
                | Expr::Concat(sides)
                | Expr::IsDistinct { from: sides, .. }
                | Expr::Shift { what: sides, .. }
                | Expr::Like { what: sides, .. } => sides.$iter().for_each(|side| side.$name(each)),
                Expr::Not(of)
                | Expr::Negate(of)
                | Expr::IsNull { of, .. }
                | Expr::Cast { what: of, .. }
                | Expr::InArray { what: of, .. }
                | Expr::ComparedArray { what: of, .. }
                | Expr::Fitting { what: of, .. } => of.$name(each),
                Expr::InList { what, list: more, .. }
                | Expr::InResult { what, given: more, .. }
                | Expr::ComparedResult { what, given: more, .. } => {
                    what.$name(each);
                    more.$iter().for_each(|one| one.$name(each));
                }
                Expr::Case { whens, otherwise } => {
                    for (when, then) in whens {
                        when.$name(each);
                        then.$name(each);
                    }
                    if let Some(otherwise) = otherwise {
                        otherwise.$name(each);
                    }
                }
                Expr::InRows { what, given, .. } => {
                    what.$iter().chain(given).for_each(|one| one.$name(each));
                }
                Expr::Coalesce(of)
                | Expr::Extreme { of, .. }
                | Expr::Call(_, of)
                | Expr::Number(_, of)
                | Expr::Result { given: of, .. } => of.$iter().for_each(|one| one.$name(each)),
            }
        }
    };
}

/// `+ - * / %`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// `= <> < <= > >=`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Functions that are told apart by more than their name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Sign,
    Length,
    Lower,
    Upper,
    Substring,
    Left,
    Right,
    Trim,
    TrimStart,
    TrimEnd,
    Nullif,
    Power,
    Sqrt,
    Mod,
    Trunc,
    Exp,
    Ln,
    Log,
    Position,
    Replace,
    PadStart,
    PadEnd,
    Repeat,
    Reverse,
    SplitPart,
    Ascii,
    Chr,
    Initcap,
    StartsWith,
    OctetLength,
    /// Of any number of texts, NULLs left out.
    Concat,
    /// The same, the first between the others.
    ConcatWith,
    /// The first with the others in the places that it marks.
    Format,
    /// `num_nulls`, `num_nonnulls`
    Nulls,
    NotNulls,
    WidthBucket,
    /// `interval * number`, `interval / number`
    Times,
    Over,
    DateTrunc,
    /// `extract`
    Part(Part),
}

/// What an expression is evaluated over. Rows change while it lives; what was evaluated does not.
pub(crate) struct Frame<'a> {
    /// The row of each table of the query; `None` where an outer join found none.
    pub(crate) rows: &'a [Cell<Option<&'a [u8]>>],
    pub(crate) world: &'a World<'a>,
    /// What the query around it gives.
    pub(crate) given: Vec<Datum<'a>>,
    /// The group of the moment.
    pub(crate) made: Vec<Datum<'a>>,
    /// The element of an array by which rows are looked for.
    pub(crate) element: Datum<'a>,
}

impl Comparison {
    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterEqual => order.is_ge(),
        }
    }

    /// Is it more than equal or not?
    pub(crate) fn is_order(self) -> bool {
        !matches!(self, Comparison::Equal | Comparison::NotEqual)
    }

    /// The same without what is equal.
    pub(crate) fn strict(self) -> Comparison {
        match self {
            Comparison::LessEqual => Comparison::Less,
            Comparison::GreaterEqual => Comparison::Greater,
            same => same,
        }
    }

    /// The same with what is equal.
    pub(crate) fn lax(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::LessEqual,
            Comparison::Greater => Comparison::GreaterEqual,
            same => same,
        }
    }

    /// The same with its sides exchanged.
    pub(crate) fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessEqual => Comparison::GreaterEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterEqual => Comparison::LessEqual,
            same => same,
        }
    }
}

impl Expr {
    /// Its value over the rows of the moment.
    ///
    /// # Errors
    /// What PostgreSQL's operators and functions give: 22003, 22012, 22P02 and others of class 22.
    pub(crate) fn eval<'a>(&'a self, frame: &Frame<'a>) -> Result<Datum<'a>> {
        Ok(match self {
            Expr::Value(value) => value.datum(),
            Expr::Param(at) => frame.world.params().get(*at).cloned().unwrap_or_default(),
            Expr::Field { slot, column, layout } => match frame.rows[*slot].get() {
                Some(row) => layout.0.field(row, *column)?,
                None => Datum::Null,
            },
            Expr::Now => Datum::Timestamptz(frame.world.session.now),
            Expr::Arithmetic(operator, sides) => {
                let (left, right) = (sides[0].eval(frame)?, sides[1].eval(frame)?);
                if left.is_null() || right.is_null() {
                    return Ok(Datum::Null);
                }
                arithmetic(*operator, left, right)?
            }
            Expr::Compare(comparison, sides) => match compare(&sides[0].eval(frame)?, &sides[1].eval(frame)?)? {
                Some(order) => Datum::Bool(comparison.holds(order)),
                None => Datum::Null,
            },
            Expr::And(sides) => match sides[0].eval(frame)? {
                Datum::Bool(false) => Datum::Bool(false),
                left => match (left, sides[1].eval(frame)?) {
                    (_, Datum::Bool(false)) => Datum::Bool(false),
                    (Datum::Bool(true), right) => right,
                    _ => Datum::Null,
                },
            },
            Expr::Or(sides) => match sides[0].eval(frame)? {
                Datum::Bool(true) => Datum::Bool(true),
                left => match (left, sides[1].eval(frame)?) {
                    (_, Datum::Bool(true)) => Datum::Bool(true),
                    (Datum::Bool(false), right) => right,
                    _ => Datum::Null,
                },
            },
            Expr::Not(of) => match of.eval(frame)? {
                Datum::Bool(value) => Datum::Bool(!value),
                _ => Datum::Null,
            },
            Expr::Negate(of) => negate(of.eval(frame)?)?,
            Expr::IsNull { of, not } => Datum::Bool(of.eval(frame)?.is_null() != *not),
            Expr::IsDistinct { from, not } => {
                let (left, right) = (from[0].eval(frame)?, from[1].eval(frame)?);
                let same = match (left.is_null(), right.is_null()) {
                    (false, false) => compare(&left, &right)?.is_some_and(Ordering::is_eq),
                    (left, right) => left && right,
                };
                Datum::Bool(same == *not)
            }
            Expr::InList { what, list, not } => {
                let what = what.eval(frame)?;
                among(&what, list.iter().map(|one| one.eval(frame)), *not)?
            }
            Expr::InResult { what, of, given, not } => {
                let what = what.eval(frame)?;
                let found = frame.world.answer(*of, given, frame, |answer| answer.among(&what))?;
                found.map_or(Datum::Null, |found| Datum::Bool(found != *not))
            }
            Expr::InArray { what, array, not } => {
                let what = what.eval(frame)?;
                let found = frame.world.array(*array)?.and_then(|answer| answer.among(&what));
                found.map_or(Datum::Null, |found| Datum::Bool(found != *not))
            }
            Expr::ComparedArray { what, comparison, array, all } => {
                let what = what.eval(frame)?;
                let held = match frame.world.array(*array)? {
                    Some(answer) => answer.compared(&what, *comparison, *all)?,
                    None => None,
                };
                held.map_or(Datum::Null, Datum::Bool)
            }
            Expr::Element => frame.element.clone(),
            Expr::InRows { what, types, of, given, not } => {
                let what = what.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
                let found = frame.world.answer(*of, given, frame, |answer| answer.has_row(&what, types))??;
                found.map_or(Datum::Null, |found| Datum::Bool(found != *not))
            }
            Expr::ComparedResult { what, comparison, of, given, all } => {
                let what = what.eval(frame)?;
                let held = frame.world.answer(*of, given, frame, |answer| answer.compared(&what, *comparison, *all))?;
                held?.map_or(Datum::Null, Datum::Bool)
            }
            Expr::Result { of, given } => {
                frame.world.answer(*of, given, frame, |answer| answer.values.first().cloned().unwrap_or_default())?
            }
            Expr::Given(at) => frame.given.get(*at).cloned().unwrap_or_default(),
            Expr::Number(number, of) => number.eval(of, frame)?,
            Expr::Made(at) => frame.made.get(*at).cloned().unwrap_or_default(),
            Expr::Fitting { what, to } => crate::key_cast::equal(&what.eval(frame)?, *to),
            Expr::Like { what, escape, not, any_case } => match (what[0].eval(frame)?, what[1].eval(frame)?) {
                (Datum::Text(text), Datum::Text(pattern)) => {
                    Datum::Bool(like(text, pattern, *escape, *any_case)? != *not)
                }
                _ => Datum::Null,
            },
            Expr::Case { whens, otherwise } => {
                for (when, then) in whens {
                    if when.holds(frame)? {
                        return then.eval(frame);
                    }
                }
                match otherwise {
                    Some(otherwise) => otherwise.eval(frame)?,
                    None => Datum::Null,
                }
            }
            Expr::Coalesce(of) => {
                for one in of {
                    let value = one.eval(frame)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Expr::Extreme { of, greatest } => {
                let mut best = Datum::Null;
                for one in of {
                    let value = one.eval(frame)?;
                    let better = match compare(&value, &best)? {
                        Some(order) => {
                            if *greatest {
                                order.is_gt()
                            } else {
                                order.is_lt()
                            }
                        }
                        None => best.is_null(),
                    };
                    if better {
                        best = value;
                    }
                }
                best
            }
            Expr::Concat(sides) => match (sides[0].eval(frame)?, sides[1].eval(frame)?) {
                (Datum::Text(left), Datum::Text(right)) => {
                    frame.world.room(left.len() + right.len())?;
                    let mut text =
                        bumpalo::collections::String::with_capacity_in(left.len() + right.len(), frame.world.arena);
                    text.push_str(left);
                    text.push_str(right);
                    Datum::Text(text.into_bump_str())
                }
                (Datum::Bytes(left), Datum::Bytes(right)) => {
                    frame.world.room(left.len() + right.len())?;
                    let mut bytes =
                        bumpalo::collections::Vec::with_capacity_in(left.len() + right.len(), frame.world.arena);
                    bytes.extend_from_slice(left);
                    bytes.extend_from_slice(right);
                    Datum::Bytes(bytes.into_bump_slice())
                }
                _ => Datum::Null,
            },
            Expr::Cast { what, to, by } => {
                cast::cast(what.eval(frame)?, *to, *by, frame.world.session.zone, frame.world.arena)?
            }
            Expr::Call(function, of) => crate::functions::call(*function, of, frame)?,
            Expr::Shift { what, back } => match (what[0].eval(frame)?, what[1].eval(frame)?) {
                (Datum::Null, _) | (_, Datum::Null) => Datum::Null,
                (moment, Datum::Interval(by)) => {
                    let by = if *back { datetime::negated(by)? } else { by };
                    datetime::shifted(&moment, by, frame.world.session.zone)?
                }
                (left, right) => {
                    return Err(Error::bug(format!("{} after {}", right.type_name(), left.type_name())));
                }
            },
        })
    }

    walk!(
        /// Shows it and all its parts to `each`, outermost first.
        visit, iter
    );
    walk!(
        /// Lets `each` change it and all its parts, outermost first.
        change, iter_mut, mut
    );

    /// Is it the same column of the same row, or the same of what is given?
    pub(crate) fn is_same_column(&self, other: &Expr) -> bool {
        match (self, other) {
            (Expr::Field { slot, column, .. }, Expr::Field { slot: other, column: one, .. }) => {
                (slot, column) == (other, one)
            }
            (Expr::Given(at), Expr::Given(other)) => at == other,
            _ => false,
        }
    }

    /// May it give something else the next time it is evaluated over the same rows, or does it leave a trace? Then it is evaluated
    /// where it stands, once for each row.
    pub(crate) fn is_volatile(&self) -> bool {
        let mut found = false;
        self.visit(&mut |part| found |= part.is_volatile_itself());
        found
    }

    /// Is it so whatever its parts are?
    pub(crate) fn is_volatile_itself(&self) -> bool {
        matches!(self, Expr::Number(..))
    }

    /// Is it true? NULL is not.
    pub(crate) fn holds<'a>(&'a self, frame: &Frame<'a>) -> Result<bool> {
        Ok(matches!(self.eval(frame)?, Datum::Bool(true)))
    }
}

/// The order of two values of one type; `None` if one is NULL.
pub(crate) fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Option<Ordering>> {
    if left.is_null() || right.is_null() {
        return Ok(None);
    }
    left.compare(right)
        .map(Some)
        .ok_or_else(|| Error::bug(format!("{} compared with {}", left.type_name(), right.type_name())))
}

/// `IN`: true if one is equal, else NULL if one is NULL.
fn among<'a>(what: &Datum<'a>, list: impl Iterator<Item = Result<Datum<'a>>>, not: bool) -> Result<Datum<'a>> {
    let mut unknown = what.is_null();
    let mut empty = true;
    for one in list {
        empty = false;
        match compare(what, &one?)? {
            Some(Ordering::Equal) => return Ok(Datum::Bool(!not)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown && !empty { Datum::Null } else { Datum::Bool(not) })
}

fn out_of_range(ty: &str) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range"))
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

macro_rules! integers {
    ($operator:expr, $left:expr, $right:expr, $name:literal) => {{
        let (left, right) = ($left, $right);
        if matches!($operator, Operator::Divide | Operator::Modulo) && right == 0 {
            return Err(division_by_zero());
        }
        let value = match $operator {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Divide => left.checked_div(right),
            // The least number modulo -1 is 0, whatever the machine says.
            Operator::Modulo => Some(left.checked_rem(right).unwrap_or(0)),
        };
        value.ok_or_else(|| out_of_range($name))?
    }};
}

macro_rules! floats {
    ($operator:expr, $left:expr, $right:expr) => {{
        let (left, right) = ($left, $right);
        let value = match $operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide if right == 0.0 && !left.is_nan() => return Err(division_by_zero()),
            Operator::Divide => left / right,
            Operator::Modulo => left % right,
        };
        if value.is_infinite() && left.is_finite() && right.is_finite() {
            return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow"));
        }
        let multiplied = matches!($operator, Operator::Multiply | Operator::Divide);
        if value == 0.0 && multiplied && left != 0.0 && right.is_finite() && right != 0.0 {
            return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: underflow"));
        }
        value
    }};
}

/// Two values that are not NULL, of types that the binder lets meet.
pub(crate) fn arithmetic<'a>(operator: Operator, left: Datum<'a>, right: Datum<'a>) -> Result<Datum<'a>> {
    Ok(match (left, right) {
        (Datum::Int2(left), Datum::Int2(right)) => Datum::Int2(integers!(operator, left, right, "smallint")),
        (Datum::Int4(left), Datum::Int4(right)) => Datum::Int4(integers!(operator, left, right, "integer")),
        (Datum::Int8(left), Datum::Int8(right)) => Datum::Int8(integers!(operator, left, right, "bigint")),
        (Datum::Float4(left), Datum::Float4(right)) => Datum::Float4(floats!(operator, left, right)),
        (Datum::Float8(left), Datum::Float8(right)) => Datum::Float8(floats!(operator, left, right)),
        (Datum::Numeric(left), Datum::Numeric(right)) => Datum::Numeric(numerics(operator, &left, &right)?),
        (Datum::Date(left), Datum::Date(right)) if operator == Operator::Subtract => {
            Datum::Int4(left.checked_sub(right).ok_or_else(|| out_of_range("date"))?)
        }
        (Datum::Timestamp(left), Datum::Timestamp(right)) | (Datum::Timestamptz(left), Datum::Timestamptz(right))
            if operator == Operator::Subtract =>
        {
            Datum::Interval(datetime::between(right, left)?)
        }
        (Datum::Interval(left), Datum::Interval(right)) => Datum::Interval(datetime::sum(
            left,
            if operator == Operator::Add { right } else { datetime::negated(right)? },
        )?),
        (Datum::Date(left), Datum::Int4(right)) => {
            let days = if operator == Operator::Add { left.checked_add(right) } else { left.checked_sub(right) };
            Datum::Date(days.ok_or_else(|| Error::new(SqlState::DATETIME_OVERFLOW, "date out of range"))?)
        }
        (left, right) => {
            return Err(Error::bug(format!("{} {operator:?} {}", left.type_name(), right.type_name())));
        }
    })
}

fn numerics(operator: Operator, left: &Numeric, right: &Numeric) -> Result<Numeric> {
    match operator {
        Operator::Add => left.add(right),
        Operator::Subtract => left.sub(right),
        Operator::Multiply => left.mul(right),
        Operator::Divide => left.div(right),
        Operator::Modulo => left.rem(right),
    }
}

pub(crate) fn negate(value: Datum<'_>) -> Result<Datum<'_>> {
    Ok(match value {
        Datum::Null => Datum::Null,
        Datum::Int2(value) => Datum::Int2(value.checked_neg().ok_or_else(|| out_of_range("smallint"))?),
        Datum::Int4(value) => Datum::Int4(value.checked_neg().ok_or_else(|| out_of_range("integer"))?),
        Datum::Int8(value) => Datum::Int8(value.checked_neg().ok_or_else(|| out_of_range("bigint"))?),
        Datum::Float4(value) => Datum::Float4(-value),
        Datum::Float8(value) => Datum::Float8(-value),
        Datum::Numeric(value) => Datum::Numeric(value.neg()),
        other => return Err(Error::bug(format!("- {}", other.type_name()))),
    })
}

/// SQL's LIKE. A `%` is tried at every place, longest text last; patterns are short.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>, any_case: bool) -> Result<bool> {
    if any_case {
        return like(&text.to_lowercase(), &pattern.to_lowercase(), escape, false);
    }
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        parts.push(match next {
            next if Some(next) == escape => chars.next().map_or(Piece::Nothing, Piece::Char),
            '%' => Piece::Any,
            '_' => Piece::One,
            next => Piece::Char(next),
        });
    }
    let text: Vec<char> = text.chars().collect();
    // Where the last `%` stands, and how much text it has taken: on a mismatch it takes one more.
    let (mut at, mut part, mut last) = (0, 0, None);
    while at < text.len() {
        match parts.get(part) {
            Some(Piece::Any) => {
                last = Some((part, at));
                part += 1;
            }
            // PostgreSQL finds this only if it gets there.
            Some(Piece::Nothing) => {
                let text = "LIKE pattern must not end with escape character";
                return Err(Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, text));
            }
            Some(Piece::One) => (at, part) = (at + 1, part + 1),
            Some(Piece::Char(expected)) if *expected == text[at] => (at, part) = (at + 1, part + 1),
            _ => match last {
                Some((any, taken)) => {
                    last = Some((any, taken + 1));
                    (at, part) = (taken + 1, any + 1);
                }
                None => return Ok(false),
            },
        }
    }
    Ok(parts[part..].iter().all(|part| matches!(part, Piece::Any)))
}

enum Piece {
    Any,
    One,
    Char(char),
    /// An escape character without anything to escape.
    Nothing,
}
