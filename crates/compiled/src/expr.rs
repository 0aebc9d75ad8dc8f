//! Typed expressions and their evaluation. Evaluation allocates only for computed text and bytes, in the run's
//! arena.
//!
//! The binder has inserted casts, so both sides of an operator have the same type; any other combination is a bug
//! of the binder (XX000).

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use binder::tree::SystemColumn;
use catalog::TypeId;
use model::{Datum, Error, Numeric, Result, SqlState, Type};
use rows::row::RowLayout;
use rows::{RecordId, RowTable};

use crate::cast;
use crate::exec::ExecContext;
use crate::sequences::SessionFunction;

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Any type except text and bytes.
    Plain(Datum<'static>),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    /// A value that owns more than one piece of memory, such as an array.
    Other(Box<scalar::Value>),
}

impl Value {
    pub(crate) fn of(datum: &Datum<'_>) -> Value {
        match datum {
            Datum::Text(text) => Value::Text((*text).into()),
            Datum::Bytes(bytes) => Value::Bytes((*bytes).into()),
            other => Value::from(scalar::Value::of(other)),
        }
    }

    pub(crate) fn datum(&self) -> Datum<'_> {
        match self {
            Value::Plain(datum) => datum.clone(),
            Value::Text(text) => Datum::Text(text),
            Value::Bytes(bytes) => Datum::Bytes(bytes),
            Value::Other(value) => value.datum(),
        }
    }
}

impl From<scalar::Value> for Value {
    fn from(value: scalar::Value) -> Value {
        match value {
            scalar::Value::Plain(datum) => Value::Plain(datum),
            scalar::Value::Text(text) => Value::Text(text),
            scalar::Value::Bytes(bytes) => Value::Bytes(bytes),
            other => Value::Other(Box::new(other)),
        }
    }
}

/// The row layout of a table; equal only if it is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Layout(pub(crate) Arc<RowLayout>);

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A stored table; equal only if it is the same one.
#[derive(Clone)]
pub(crate) struct StoredTable(pub(crate) Arc<RowTable>);

impl PartialEq for StoredTable {
    fn eq(&self, other: &StoredTable) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for StoredTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.schema.name)
    }
}

/// A bound expression. Where a boolean operand is NULL, the result follows three-valued logic.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Value(Value),
    /// `$n`; the number is n - 1.
    Param(usize),
    /// A column of the row in a slot.
    Field {
        slot: usize,
        column: usize,
        layout: Layout,
    },
    /// A system column of the row in a slot, which was read.
    System {
        slot: usize,
        column: SystemColumn,
        table: StoredTable,
    },
    /// A system column of the row in a slot, which the statement has written.
    WrittenSystem {
        slot: usize,
        column: SystemColumn,
    },
    /// `now()`, `current_timestamp`: start of the transaction.
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
    /// NULLIF of two values of one type.
    NullIf(Box<[Expr; 2]>),
    /// A value of char(n) with its blanks at the end, which are not stored.
    Padded {
        what: Box<Expr>,
        /// In characters.
        length: u32,
    },
    /// A function of crate `scalar`.
    Scalar(Box<ScalarCall>, Vec<Expr>),
    /// Another expression of crate `scalar`; its columns are the values of the operands.
    Computation(Box<scalar::Expr>, Vec<Expr>),
    /// An array parameter as a value, with the type of its elements.
    ArrayParam {
        param: usize,
        element: Type,
    },
    /// A value passed in from the enclosing query, by position.
    OuterValue(usize),
    /// Result of a scalar subquery or EXISTS. `given`: outer values for a correlated one.
    Result {
        of: usize,
        given: Vec<Expr>,
    },
    /// `what IN (subquery)`.
    InResult {
        what: Box<Expr>,
        of: usize,
        given: Vec<Expr>,
        not: bool,
    },
    /// `(a, b) IN (subquery)`.
    InRows {
        what: Vec<Expr>,
        types: Vec<Type>,
        of: usize,
        given: Vec<Expr>,
        not: bool,
    },
    /// `what < ANY (subquery)`, `what < ALL (subquery)`.
    ComparedResult {
        what: Box<Expr>,
        comparison: Comparison,
        of: usize,
        given: Vec<Expr>,
        all: bool,
    },
    /// `what = ANY (array parameter)`.
    InArray {
        what: Box<Expr>,
        array: usize,
        not: bool,
    },
    /// `what < ANY (array parameter)`, `what < ALL (array parameter)`.
    ComparedArray {
        what: Box<Expr>,
        comparison: Comparison,
        array: usize,
        all: bool,
    },
    /// The array element that an index scan currently looks up.
    Element,
    /// A function of the session's state: sequences and random numbers.
    SessionCall(SessionFunction, Vec<Expr>),
    /// A value computed below: a grouping column, an aggregate, or a column of an INSERT's source.
    Computed(usize),
    /// The value of a column after an assignment to parts of it. Operands: the value before, the new value, subscripts.
    AssignPart(Box<PartAssignment>, Vec<Expr>),
    /// A value converted to the type of a key column; NULL if no value of that type equals it.
    ToKeyType {
        what: Box<Expr>,
        to: Type,
    },
}

/// An assignment to an element or slice of an array, to a path in jsonb, or to a field of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PartAssignment {
    /// Type of the column.
    pub(crate) ty: TypeId,
    /// Whether each subscript is an index, or which bounds a slice has.
    pub(crate) steps: Vec<StepKind>,
}

/// Form of a subscript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    Index,
    /// A slice with a lower and an upper bound, if they are given.
    Slice(bool, bool),
    /// The place of an attribute.
    Field(usize),
}

impl PartAssignment {
    fn eval<'a>(&'a self, of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
        let mut values = of.iter().map(|one| one.eval(frame));
        let mut next = || values.next().unwrap_or(Ok(Datum::Null));
        let (target, value) = (next()?, next()?);
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut bound = |is_given: bool| if is_given { next().map(Some) } else { Ok(None) };
            steps.push(match step {
                StepKind::Index => scalar::Part::Index(bound(true)?.unwrap_or_default()),
                StepKind::Slice(low, high) => scalar::Part::Slice(bound(*low)?, bound(*high)?),
                StepKind::Field(at) => scalar::Part::Field(*at),
            });
        }
        scalar::assign_part(target, self.ty, &steps, value, frame.ctx.values()?)
    }
}

/// A call of a function of crate `scalar`.
#[derive(Clone, Debug)]
pub(crate) struct ScalarCall {
    call: scalar::Call,
    /// The implementation, and whether it is never called with NULL; `None` for a function of the session's objects.
    function: Option<(scalar::registry::Function, bool)>,
}

impl PartialEq for ScalarCall {
    fn eq(&self, other: &ScalarCall) -> bool {
        self.call == other.call
    }
}

impl ScalarCall {
    pub(crate) fn new(call: scalar::Call) -> ScalarCall {
        let is_strict = || catalog::builtin().function_row(call.function).is_none_or(|row| row.is_strict);
        let function = scalar::function(call.function).map(|function| (function, is_strict()));
        ScalarCall { call, function }
    }

    /// Number in `pg_proc`.
    pub(crate) fn function(&self) -> u32 {
        self.call.function
    }

    fn eval<'a>(&'a self, of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
        match of {
            [one] => self.apply(&[one.eval(frame)?], frame),
            [one, two] => self.apply(&[one.eval(frame)?, two.eval(frame)?], frame),
            [one, two, three] => self.apply(&[one.eval(frame)?, two.eval(frame)?, three.eval(frame)?], frame),
            more => {
                let values = more.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
                self.apply(&values, frame)
            }
        }
    }

    fn apply<'a>(&self, values: &[Datum<'a>], frame: &Frame<'a>) -> Result<Datum<'a>> {
        match self.function {
            Some((_, true)) if values.iter().any(Datum::is_null) => Ok(Datum::Null),
            Some((function, _)) => function(values, &self.call, frame.ctx.values()?),
            None => scalar::eval::apply(&self.call, values, frame.ctx.values()?),
        }
    }
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

/// Inputs of an evaluation. The row slots change during a query; values already computed stay valid.
pub(crate) struct Frame<'a> {
    /// Current row by slot; `None` is a NULL row of an outer join.
    pub(crate) rows: &'a [Cell<Option<&'a [u8]>>],
    /// Record number of each slot's row; empty where rows have none.
    pub(crate) records: &'a [Cell<RecordId>],
    pub(crate) ctx: &'a ExecContext<'a>,
    /// Values from the enclosing query, for [`Expr::OuterValue`].
    pub(crate) outer_values: Vec<Datum<'a>>,
    /// Values for [`Expr::Computed`].
    pub(crate) computed: Vec<Datum<'a>>,
    /// Value for [`Expr::Element`].
    pub(crate) element: Datum<'a>,
}

/// A system column of a row that was read: a version of the slot's record.
fn read_system(slot: usize, column: SystemColumn, table: &RowTable, frame: &Frame<'_>) -> Result<Datum<'static>> {
    let Some(row) = frame.rows[slot].get() else { return Ok(Datum::Null) };
    let record = frame.records[slot].get();
    if column == SystemColumn::Xmax {
        return Ok(Datum::Oid(0));
    }
    let stamp = table.stamp(record, row, frame.ctx.guard);
    let stamp =
        stamp.ok_or_else(|| Error::bug(format!("no version of record {} has the row that was read", record.0)))?;
    Ok(match column {
        SystemColumn::Ctid => Datum::Int8(scalar::tid_of(record.0, stamp)),
        _ => Datum::Oid(stamp),
    })
}

/// A system column of a row that this transaction has written.
fn written_system(slot: usize, column: SystemColumn, frame: &Frame<'_>) -> Result<Datum<'static>> {
    let number = frame.ctx.txn(|txn| Ok(txn.number()))?;
    Ok(match column {
        SystemColumn::Ctid => Datum::Int8(scalar::tid_of(frame.records[slot].get().0, number)),
        SystemColumn::Xmin => Datum::Oid(number),
        SystemColumn::Xmax => Datum::Oid(if frame.ctx.met_conflict() { number } else { 0 }),
    })
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

    /// `<` for `<=`, `>` for `>=`.
    pub(crate) fn strict(self) -> Comparison {
        match self {
            Comparison::LessEqual => Comparison::Less,
            Comparison::GreaterEqual => Comparison::Greater,
            same => same,
        }
    }

    /// `<=` for `<`, `>=` for `>`.
    pub(crate) fn lax(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::LessEqual,
            Comparison::Greater => Comparison::GreaterEqual,
            same => same,
        }
    }

    /// The comparison with its sides exchanged.
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
    /// Evaluates the expression.
    ///
    /// # Errors
    /// Those of PostgreSQL's operators and functions: 22003, 22012, 22P02 and others of class 22.
    pub(crate) fn eval<'a>(&'a self, frame: &Frame<'a>) -> Result<Datum<'a>> {
        Ok(match self {
            Expr::Value(value) => value.datum(),
            Expr::Param(at) => frame.ctx.params().get(*at).cloned().unwrap_or_default(),
            Expr::Field { slot, column, layout } => match frame.rows[*slot].get() {
                Some(row) => layout.0.field(row, *column)?,
                None => Datum::Null,
            },
            Expr::System { slot, column, table } => read_system(*slot, *column, &table.0, frame)?,
            Expr::WrittenSystem { slot, column } => written_system(*slot, *column, frame)?,
            Expr::Now => Datum::Timestamptz(frame.ctx.session.now),
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
                let found = frame.ctx.subquery_result(*of, given, frame, |answer| answer.among(&what))?;
                found.map_or(Datum::Null, |found| Datum::Bool(found != *not))
            }
            Expr::InArray { what, array, not } => {
                let what = what.eval(frame)?;
                let found = frame.ctx.array(*array)?.and_then(|answer| answer.among(&what));
                found.map_or(Datum::Null, |found| Datum::Bool(found != *not))
            }
            Expr::ComparedArray { what, comparison, array, all } => {
                let what = what.eval(frame)?;
                let held = match frame.ctx.array(*array)? {
                    Some(answer) => answer.compared(&what, *comparison, *all)?,
                    None => None,
                };
                held.map_or(Datum::Null, Datum::Bool)
            }
            Expr::Element => frame.element.clone(),
            Expr::InRows { what, types, of, given, not } => {
                let what = what.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
                let found = frame.ctx.subquery_result(*of, given, frame, |answer| answer.has_row(&what, types))??;
                found.map_or(Datum::Null, |found| Datum::Bool(found != *not))
            }
            Expr::ComparedResult { what, comparison, of, given, all } => {
                let what = what.eval(frame)?;
                let held =
                    frame.ctx.subquery_result(*of, given, frame, |answer| answer.compared(&what, *comparison, *all))?;
                held?.map_or(Datum::Null, Datum::Bool)
            }
            Expr::Result { of, given } => frame
                .ctx
                .subquery_result(*of, given, frame, |answer| answer.values.first().cloned().unwrap_or_default())?,
            Expr::OuterValue(at) => frame.outer_values.get(*at).cloned().unwrap_or_default(),
            Expr::SessionCall(number, of) => number.eval(of, frame)?,
            Expr::Computed(at) => frame.computed.get(*at).cloned().unwrap_or_default(),
            Expr::ToKeyType { what, to } => crate::key_cast::equal(&what.eval(frame)?, *to),
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
                    frame.ctx.room(left.len() + right.len())?;
                    let mut text =
                        bumpalo::collections::String::with_capacity_in(left.len() + right.len(), frame.ctx.arena);
                    text.push_str(left);
                    text.push_str(right);
                    Datum::Text(text.into_bump_str())
                }
                (Datum::Bytes(left), Datum::Bytes(right)) => {
                    frame.ctx.room(left.len() + right.len())?;
                    let mut bytes =
                        bumpalo::collections::Vec::with_capacity_in(left.len() + right.len(), frame.ctx.arena);
                    bytes.extend_from_slice(left);
                    bytes.extend_from_slice(right);
                    Datum::Bytes(bytes.into_bump_slice())
                }
                _ => Datum::Null,
            },
            Expr::Cast { what, to, by } => {
                cast::cast(what.eval(frame)?, *to, *by, frame.ctx.session.zone, frame.ctx.arena)?
            }
            Expr::NullIf(pair) => {
                let (left, right) = (pair[0].eval(frame)?, pair[1].eval(frame)?);
                match compare(&left, &right)? {
                    Some(Ordering::Equal) => Datum::Null,
                    _ => left,
                }
            }
            Expr::Padded { what, length } => match what.eval(frame)? {
                Datum::Text(text) => {
                    let missing = (*length as usize).saturating_sub(text.chars().count());
                    frame.ctx.room(text.len() + missing)?;
                    Datum::Text(frame.ctx.arena.alloc_str(&format!("{text}{:missing$}", "")))
                }
                value => value,
            },
            Expr::Scalar(call, of) => {
                let value = call.eval(of, frame)?;
                frame.ctx.room(0)?;
                value
            }
            Expr::Computation(expr, of) => {
                let values = of.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
                let value = scalar::eval(expr, values.as_slice(), frame.ctx.values()?)?;
                frame.ctx.room(0)?;
                value
            }
            Expr::AssignPart(part, of) => {
                let value = part.eval(of, frame)?;
                frame.ctx.room(0)?;
                value
            }
            Expr::ArrayParam { param, element } => match frame.ctx.params().get(*param) {
                Some(Datum::Bytes(bytes)) => crate::array::value_of(bytes, *element)?,
                _ => Datum::Null,
            },
        })
    }

    /// Calls `each` with the expression and all subexpressions, outermost first.
    pub(crate) fn visit(&self, each: &mut dyn FnMut(&Expr)) {
        each(self);
        match self {
            Expr::Value(_)
            | Expr::Param(_)
            | Expr::Field { .. }
            | Expr::System { .. }
            | Expr::WrittenSystem { .. }
            | Expr::OuterValue(_)
            | Expr::Element
            | Expr::Now
            | Expr::ArrayParam { .. }
            | Expr::Computed(_) => {}
            Expr::Arithmetic(_, sides)
            | Expr::Compare(_, sides)
            | Expr::And(sides)
            | Expr::Or(sides)
            | Expr::Concat(sides)
            | Expr::IsDistinct { from: sides, .. }
            | Expr::NullIf(sides)
            | Expr::Like { what: sides, .. } => sides.iter().for_each(|side| side.visit(each)),
            Expr::Not(of)
            | Expr::Negate(of)
            | Expr::IsNull { of, .. }
            | Expr::Cast { what: of, .. }
            | Expr::Padded { what: of, .. }
            | Expr::InArray { what: of, .. }
            | Expr::ComparedArray { what: of, .. }
            | Expr::ToKeyType { what: of, .. } => of.visit(each),
            Expr::InList { what, list: more, .. }
            | Expr::InResult { what, given: more, .. }
            | Expr::ComparedResult { what, given: more, .. } => {
                what.visit(each);
                more.iter().for_each(|one| one.visit(each));
            }
            Expr::Case { whens, otherwise } => {
                for (when, then) in whens {
                    when.visit(each);
                    then.visit(each);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.visit(each);
                }
            }
            Expr::InRows { what, given, .. } => {
                what.iter().chain(given).for_each(|one| one.visit(each));
            }
            Expr::Coalesce(of)
            | Expr::Extreme { of, .. }
            | Expr::Scalar(_, of)
            | Expr::Computation(_, of)
            | Expr::AssignPart(_, of)
            | Expr::SessionCall(_, of)
            | Expr::Result { given: of, .. } => of.iter().for_each(|one| one.visit(each)),
        }
    }

    /// Whether it contains a volatile function, which must be evaluated exactly once for each row.
    pub(crate) fn is_volatile(&self) -> bool {
        let mut found = false;
        self.visit(&mut |part| found |= part.is_volatile_itself());
        found
    }

    /// Whether the root of the expression is volatile, whatever its operands are.
    pub(crate) fn is_volatile_itself(&self) -> bool {
        matches!(self, Expr::SessionCall(..))
    }

    /// Evaluates a condition; NULL counts as false.
    pub(crate) fn holds<'a>(&'a self, frame: &Frame<'a>) -> Result<bool> {
        Ok(matches!(self.eval(frame)?, Datum::Bool(true)))
    }
}

/// Orders two values of one type; `None` if one is NULL.
pub(crate) fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Option<Ordering>> {
    if left.is_null() || right.is_null() {
        return Ok(None);
    }
    left.compare(right)
        .map(Some)
        .ok_or_else(|| Error::bug(format!("{} compared with {}", left.type_name(), right.type_name())))
}

/// `IN`: true if an element is equal, else NULL if an operand is NULL.
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
            // The minimum modulo -1 is 0, although the division overflows.
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

/// Precondition: no operand is NULL, and the binder has made the types agree.
pub(crate) fn arithmetic<'a>(operator: Operator, left: Datum<'a>, right: Datum<'a>) -> Result<Datum<'a>> {
    Ok(match (left, right) {
        (Datum::Int2(left), Datum::Int2(right)) => Datum::Int2(integers!(operator, left, right, "smallint")),
        (Datum::Int4(left), Datum::Int4(right)) => Datum::Int4(integers!(operator, left, right, "integer")),
        (Datum::Int8(left), Datum::Int8(right)) => Datum::Int8(integers!(operator, left, right, "bigint")),
        (Datum::Float4(left), Datum::Float4(right)) => Datum::Float4(floats!(operator, left, right)),
        (Datum::Float8(left), Datum::Float8(right)) => Datum::Float8(floats!(operator, left, right)),
        (Datum::Numeric(left), Datum::Numeric(right)) => Datum::Numeric(numerics(operator, &left, &right)?),
        (Datum::Date(left), Datum::Date(right)) if operator == Operator::Subtract => {
            scalar::date_difference(left, right)?
        }
        (Datum::Date(left), Datum::Int4(right)) => {
            let days = i64::from(right);
            scalar::date_plus_days(left, if operator == Operator::Add { days } else { -days })?
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

/// LIKE by backtracking to the last `%`; patterns are short.
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
    // Position of the last `%` and the text it has consumed; on a mismatch it consumes one more character.
    let (mut at, mut part, mut last) = (0, 0, None);
    while at < text.len() {
        match parts.get(part) {
            Some(Piece::Any) => {
                last = Some((part, at));
                part += 1;
            }
            // PostgreSQL reports this only if matching reaches it.
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
    /// An escape character at the end of the pattern.
    Nothing,
}

/// Comparison of rows by pairs of their columns; `None` without any.
pub(crate) fn rows_compared(comparison: Comparison, sides: &[[Expr; 2]]) -> Option<Expr> {
    let compare = |by: Comparison, sides: &[Expr; 2]| Expr::Compare(by, Box::new(sides.clone()));
    let (last, first) = sides.split_last()?;
    let decided = |rest: Expr, one: &[Expr; 2]| match comparison {
        Comparison::Equal => Expr::And(Box::new([compare(Comparison::Equal, one), rest])),
        Comparison::NotEqual => Expr::Or(Box::new([compare(Comparison::NotEqual, one), rest])),
        _ => {
            let equal = Expr::And(Box::new([compare(Comparison::Equal, one), rest]));
            let decided = Expr::Or(Box::new([compare(comparison.strict(), one), equal]));
            // This redundant condition on the first column allows an index range scan.
            Expr::And(Box::new([compare(comparison.lax(), one), decided]))
        }
    };
    Some(first.iter().rev().fold(compare(comparison, last), decided))
}

/// Disjunction as a balanced tree, so that long lists do not nest deeply. `None` if empty.
pub(crate) fn any_of(mut all: Vec<Expr>) -> Option<Expr> {
    let rest = all.split_off(all.len().div_ceil(2));
    if rest.is_empty() {
        return all.pop();
    }
    Some(Expr::Or(Box::new([any_of(all)?, any_of(rest)?])))
}

/// Conjunction as a balanced tree. `None` if empty.
pub(crate) fn all_of(mut all: Vec<Expr>) -> Option<Expr> {
    let rest = all.split_off(all.len().div_ceil(2));
    if rest.is_empty() {
        return all.pop();
    }
    Some(Expr::And(Box::new([all_of(all)?, all_of(rest)?])))
}
