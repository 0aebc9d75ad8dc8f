//! From parsed SQL to typed expressions: names are looked up, types inferred as PostgreSQL infers them, casts put where it
//! would put them.
//!
//! What this tier does not do is [`Refusal::Other`], and goes to the second tier; what nobody could do is an error.

use std::sync::Arc;

use model::{Datum, Error, Numeric, Result, RowSchema, SqlState, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::array::{Array, ParamType};
use crate::cast::{self, Context, Zone};
use crate::derived_tables::Derived;
use crate::expr::{Comparison, Expr, Function, Layout, Operator, Value};
use crate::scope::Tables;
use crate::subquery;
use crate::types::{
    assignable, bare, category, common_number, comparable, data_type, is_moment, is_text, rank, same_bytes, union,
};

/// Why a statement is not compiled.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Another tier may do it.
    Other,
    /// It is wrong.
    Error(Error),
}

pub(crate) type Bind<T> = std::result::Result<T, Refusal>;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}

/// A table of the statement, in its slot.
#[derive(Clone)]
pub(crate) struct Source {
    /// What the statement calls it.
    pub(crate) name: String,
    pub(crate) slot: usize,
    pub(crate) table: Arc<RowTable>,
    /// The query that makes it, if one does.
    pub(crate) made: Option<Made>,
    /// Columns that are meant only with the table's name: those that USING has from the other table.
    pub(crate) hidden: Vec<usize>,
}

/// A table that a query makes: which, and what the query around it gives it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) of: usize,
    pub(crate) given: Vec<Expr>,
}

impl Source {
    /// A table that is stored.
    pub(crate) fn stored(name: String, slot: usize, table: Arc<RowTable>) -> Source {
        Source { name, slot, table, made: None, hidden: Vec::new() }
    }

    pub(crate) fn schema(&self) -> &RowSchema {
        &self.table.schema
    }

    pub(crate) fn field(&self, column: usize) -> Typed {
        let expr = Expr::Field { slot: self.slot, column, layout: Layout(Arc::clone(&self.table.layout)) };
        Typed { expr, ty: Some(self.schema().columns[column].ty) }
    }
}

/// An expression and its type, which a bare string, NULL or a parameter does not have yet.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Option<Type>,
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: Type) -> Typed {
        Typed { expr, ty: Some(ty) }
    }
}

/// What the binder asks of the statement around an expression.
pub(crate) trait Around {
    /// An aggregate function, where there can be one.
    fn aggregate(&mut self, binder: &mut Binder, call: &ast::Function) -> Bind<Typed>;
    /// A subquery: a value, EXISTS, or the right side of IN, ANY or ALL.
    fn subquery(&mut self, binder: &mut Binder, query: &ast::Query, kind: Subquery) -> Bind<Typed>;
    /// Where tables and sequences are looked up; nothing where none can be named.
    fn tables(&self) -> Option<&dyn Tables> {
        None
    }
    /// Where names without a schema are looked for first.
    fn schema(&self) -> Option<&str> {
        None
    }
}

/// What a subquery is there for.
pub(crate) enum Subquery {
    Scalar,
    Exists { not: bool },
    In { what: Typed, not: bool },
    InRows { what: Vec<Typed>, not: bool },
    Compared { what: Typed, comparison: Comparison, all: bool },
}

/// Casts done while binding are not of moments, so no zone has a say in them.
struct NoZone;

impl Zone for NoZone {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn parse(&self, _: &str) -> Result<i64> {
        Err(Error::bug("a moment was read while binding"))
    }
}

/// Binds the expressions of one statement.
#[derive(Default)]
pub(crate) struct Binder {
    /// By number; `None` while nothing said what it is.
    pub(crate) params: Vec<Option<ParamType>>,
    /// The tables of the query at hand.
    pub(crate) sources: Vec<Source>,
    /// What the query around it gives it, as expressions there.
    pub(crate) given: Vec<Expr>,
    /// The queries around the one at hand, outermost first.
    pub(crate) outer: Vec<Level>,
    /// How many expressions the one at hand is in.
    pub(crate) depth: u32,
    /// The queries in expressions found so far.
    pub(crate) subqueries: Vec<subquery::Subquery>,
    /// The tables that queries make.
    pub(crate) derived: Vec<Derived>,
    /// Common tables in sight, outermost first: what WITH calls them, and which of `derived` they are.
    pub(crate) common: Vec<Source>,
    /// How many tables are hashed.
    pub(crate) hashed: usize,
    /// The array parameters that expressions use.
    pub(crate) arrays: Vec<Array>,
    /// Does it take or set numbers of sequences?
    pub(crate) counts: bool,
    /// Is any expression a time of day, a moment or an interval?
    pub(crate) moments: bool,
    /// Is it an INSERT, UPDATE or DELETE?
    pub(crate) writes: bool,
}

/// A query while one within it is bound.
pub(crate) struct Level {
    sources: Vec<Source>,
    given: Vec<Expr>,
    /// Are its tables out of sight?
    hidden: bool,
}

/// Expressions deeper than this are left to the other tier, which is ready for them: here each level takes of the thread's stack.
pub(crate) const DEPTH_MAX: u32 = 256;

impl Binder {
    /// An expression of whatever type it has.
    pub(crate) fn expr(&mut self, expr: &ast::Expr, around: &mut dyn Around) -> Bind<Typed> {
        if self.depth == DEPTH_MAX {
            return Err(Refusal::Other);
        }
        self.depth += 1;
        let bound = self.any(expr, around);
        self.depth -= 1;
        self.moments |= matches!(&bound, Ok(Typed { ty: Some(ty), .. }) if is_moment(*ty));
        bound
    }

    fn any(&mut self, expr: &ast::Expr, around: &mut dyn Around) -> Bind<Typed> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expr(inner, around),
            E::Identifier(name) => self.column(None, name),
            E::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.column(Some(table), column),
                _ => Err(Refusal::Other),
            },
            E::Value(value) => self.value(&value.value),
            E::TypedString(string) => {
                let to = self.data_type(&string.data_type)?;
                let ast::Value::SingleQuotedString(text) = &string.value.value else { return Err(Refusal::Other) };
                self.literal(text, to)
            }
            E::Interval(interval) => {
                let E::Value(value) = &*interval.value else { return Err(Refusal::Other) };
                match &value.value {
                    ast::Value::SingleQuotedString(text) if interval.leading_field.is_none() => {
                        self.literal(text, Type::Interval)
                    }
                    _ => Err(Refusal::Other),
                }
            }
            E::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type: to,
                array: false,
                format: None,
            } => {
                let to = self.data_type(to)?;
                let what = self.expr(expr, around)?;
                self.cast(what, to, Context::Explicit)
            }
            E::IsNull(of) => self.is_null(of, false, around),
            E::IsNotNull(of) => self.is_null(of, true, around),
            E::IsTrue(of) => self.is_bool(of, true, false, around),
            E::IsNotTrue(of) => self.is_bool(of, true, true, around),
            E::IsFalse(of) => self.is_bool(of, false, false, around),
            E::IsNotFalse(of) => self.is_bool(of, false, true, around),
            E::IsDistinctFrom(left, right) => self.is_distinct(left, right, false, around),
            E::IsNotDistinctFrom(left, right) => self.is_distinct(left, right, true, around),
            E::UnaryOp { op, expr } => self.unary(*op, expr, around),
            E::BinaryOp { left, op, right } => self.binary(left, op, right, around),
            E::Between { expr, negated, low, high } => self.between(expr, low, high, *negated, around),
            E::InList { expr, list, negated } => self.in_list(expr, list, *negated, around),
            E::InSubquery { expr, subquery, negated } => {
                if let E::Tuple(parts) = &**expr {
                    let what = parts.iter().map(|part| self.expr(part, around)).collect::<Bind<_>>()?;
                    return around.subquery(self, subquery, Subquery::InRows { what, not: *negated });
                }
                let what = self.expr(expr, around)?;
                around.subquery(self, subquery, Subquery::In { what, not: *negated })
            }
            E::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false, around),
            E::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, around),
            E::Exists { subquery, negated } => around.subquery(self, subquery, Subquery::Exists { not: *negated }),
            E::Subquery(query) => around.subquery(self, query, Subquery::Scalar),
            E::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, false, around)
            }
            E::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, true, around)
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), around)
            }
            E::Function(call) => self.function(call, around),
            E::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let of = self.expr(expr, around)?;
                self.call("ceil", vec![of])
            }
            E::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let of = self.expr(expr, around)?;
                self.call("floor", vec![of])
            }
            E::Substring { expr, substring_from, substring_for, .. } => {
                let mut given = vec![self.expr(expr, around)?];
                match substring_from {
                    Some(from) => given.push(self.expr(from, around)?),
                    None => given.push(Typed::new(int(1), Type::Int4)),
                }
                if let Some(count) = substring_for {
                    given.push(self.expr(count, around)?);
                }
                self.call("substring", given)
            }
            E::Position { expr, r#in } => {
                let given = vec![self.expr(r#in, around)?, self.expr(expr, around)?];
                self.call("strpos", given)
            }
            E::Extract { field, expr, .. } => {
                let of = self.expr(expr, around)?;
                self.part(&field.to_string(), of)
            }
            E::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let mut given = vec![self.expr(expr, around)?];
                if let Some(what) = trim_what {
                    given.push(self.expr(what, around)?);
                }
                self.call(
                    match trim_where {
                        Some(ast::TrimWhereField::Leading) => "ltrim",
                        Some(ast::TrimWhereField::Trailing) => "rtrim",
                        Some(ast::TrimWhereField::Both) | None => "btrim",
                    },
                    given,
                )
            }
            _ => Err(Refusal::Other),
        }
    }

    /// An expression that must be true or false; `of` is what PostgreSQL calls it the argument of.
    pub(crate) fn condition(&mut self, expr: &ast::Expr, of: &str, around: &mut dyn Around) -> Bind<Expr> {
        let bound = self.expr(expr, around)?;
        let bound = self.settle(bound, Type::Bool)?;
        match bound.ty {
            Some(Type::Bool) => Ok(bound.expr),
            ty => Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {of} must be type boolean, not type {}", name_of(ty)),
            )
            .into()),
        }
    }

    /// Binds a query inside the one at hand, whose tables it sees unless they are `hidden`; also what that gives it.
    pub(crate) fn inside<T>(
        &mut self,
        hidden: bool,
        bind: impl FnOnce(&mut Binder) -> Bind<T>,
    ) -> Bind<(T, Vec<Expr>)> {
        let (sources, given) = (std::mem::take(&mut self.sources), std::mem::take(&mut self.given));
        self.outer.push(Level { sources, given, hidden });
        let bound = bind(self);
        let given = std::mem::take(&mut self.given);
        if let Some(Level { sources, given, .. }) = self.outer.pop() {
            (self.sources, self.given) = (sources, given);
        }
        Ok((bound?, given))
    }

    /// Is there a query around the one at hand, whose tables it sees?
    pub(crate) fn is_inside(&self) -> bool {
        self.outer.iter().any(|level| !level.hidden && !level.sources.is_empty())
    }

    /// The type that a cast names. Columns keep `jsonb` as `json`, so a statement that writes casts to `json`; a query does not, because
    /// its result would be described as `json`.
    fn data_type(&self, ty: &ast::DataType) -> Bind<Type> {
        match ty {
            ast::DataType::JSONB if self.writes => Ok(Type::Json),
            ty => data_type(ty),
        }
    }

    /// A column of the query at hand, or of the nearest around it that has one of the name.
    fn column(&mut self, table: Option<&ast::Ident>, name: &ast::Ident) -> Bind<Typed> {
        let wanted = folded(name);
        let table = table.map(folded);
        if let Some(found) = column_of(&self.sources, table.as_deref(), &wanted)? {
            return Ok(found);
        }
        for level in (0..self.outer.len()).rev().filter(|level| !self.outer[*level].hidden).collect::<Vec<_>>() {
            if let Some(found) = column_of(&self.outer[level].sources, table.as_deref(), &wanted)? {
                return Ok(self.handed_in(level, found));
            }
        }
        Err(match table {
            Some(table) => {
                let text = format!("missing FROM-clause entry for table \"{table}\"");
                Error::new(SqlState::UNDEFINED_TABLE, text)
            }
            None => Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{wanted}\" does not exist")),
        }
        .into())
    }

    /// A value of a query around the one at hand, given on by each between.
    fn handed_in(&mut self, level: usize, mut value: Typed) -> Typed {
        for inner in level + 1..=self.outer.len() {
            let given = match self.outer.get_mut(inner) {
                Some(level) => &mut level.given,
                None => &mut self.given,
            };
            let known = given.iter().position(|one| one.is_same_column(&value.expr));
            let at = known.unwrap_or_else(|| {
                given.push(value.expr);
                given.len() - 1
            });
            value.expr = Expr::Given(at);
        }
        value
    }

    fn value(&mut self, value: &ast::Value) -> Bind<Typed> {
        Ok(match value {
            ast::Value::Number(text, _) => number(text)?,
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Typed { expr: Expr::Value(Value::Text(text.as_str().into())), ty: None }
            }
            ast::Value::Boolean(value) => Typed::new(Expr::Value(Value::Plain(Datum::Bool(*value))), Type::Bool),
            ast::Value::Null => Typed { expr: Expr::Value(Value::Plain(Datum::Null)), ty: None },
            ast::Value::Placeholder(_) => match self.placeholder(value)? {
                (at, None) => Typed { expr: Expr::Param(at), ty: None },
                (at, Some(ParamType::Plain(ty))) => Typed::new(param(at, ty), ty),
                (_, Some(ParamType::Array(_))) => return Err(Refusal::Other),
            },
            _ => return Err(Refusal::Other),
        })
    }

    /// Which parameter it is, from 0, and its type as far as that is known.
    pub(crate) fn placeholder(&mut self, value: &ast::Value) -> Bind<(usize, Option<ParamType>)> {
        let ast::Value::Placeholder(name) = value else { return Err(Refusal::Other) };
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let at = number.and_then(|number| number.checked_sub(1)).ok_or(Refusal::Other)?;
        if self.params.len() <= at {
            self.params.resize(at + 1, None);
        }
        Ok((at, self.params[at]))
    }

    /// A string as a value of a type, read now where that does not depend on the session.
    pub(crate) fn literal(&self, text: &str, to: Type) -> Bind<Typed> {
        let arena = bumpalo::Bump::new();
        if to == Type::Timestamptz {
            let what = Box::new(Expr::Value(Value::Text(text.into())));
            return Ok(Typed::new(Expr::Cast { what, to, by: Context::Explicit }, to));
        }
        let value = cast::cast(Datum::Text(text), to, Context::Explicit, &NoZone, &arena)?;
        Ok(Typed::new(Expr::Value(Value::of(&value)), to))
    }

    /// Gives a type to what has none; leaves all else as it is.
    pub(crate) fn settle(&mut self, bound: Typed, ty: Type) -> Bind<Typed> {
        if bound.ty.is_some() {
            return Ok(bound);
        }
        match bound.expr {
            Expr::Param(at) => {
                // What stands in parentheses is not part of a parameter's type.
                let ty = bare(ty);
                match self.params[at] {
                    None => self.params[at] = Some(ParamType::Plain(ty)),
                    Some(ParamType::Array(_)) => return Err(Refusal::Other),
                    // Another use of it said so already.
                    Some(ParamType::Plain(known)) => {
                        return self.cast(Typed::new(param(at, known), known), ty, Context::Explicit);
                    }
                }
                Ok(Typed::new(param(at, ty), ty))
            }
            Expr::Value(Value::Text(text)) => self.literal(&text, bare(ty)),
            expr => Ok(Typed::new(expr, ty)),
        }
    }

    /// As a column takes it.
    pub(crate) fn assigned(&mut self, bound: Typed, ty: Type, column: &str) -> Bind<Expr> {
        let bound = self.settle(bound, ty)?;
        let from = bound.ty.unwrap_or(ty);
        if !assignable(from, ty) {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{column}\" is of type {} but expression is of type {}",
                    ty.sql_name(),
                    from.sql_name()
                ),
            )
            .with_hint("You will need to rewrite or cast the expression.")
            .into());
        }
        Ok(self.cast(bound, ty, Context::Assignment)?.expr)
    }

    pub(crate) fn cast(&mut self, what: Typed, to: Type, by: Context) -> Bind<Typed> {
        let what = self.settle(what, to)?;
        let from = what.ty.unwrap_or(to);
        if same_bytes(from, to) {
            return Ok(Typed::new(what.expr, to));
        }
        if !cast::exists(from, to) {
            return Err(Error::new(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {}", from.sql_name(), to.sql_name()),
            )
            .into());
        }
        // A value that is known now is cast now, unless the session has a say in it.
        if let Expr::Value(value) = &what.expr
            && from != Type::Timestamptz
            && to != Type::Timestamptz
        {
            let arena = bumpalo::Bump::new();
            let value = cast::cast(value.datum(), to, by, &NoZone, &arena)?;
            return Ok(Typed::new(Expr::Value(Value::of(&value)), to));
        }
        Ok(Typed::new(Expr::Cast { what: Box::new(what.expr), to, by }, to))
    }

    fn is_null(&mut self, of: &ast::Expr, not: bool, around: &mut dyn Around) -> Bind<Typed> {
        let of = self.expr(of, around)?;
        let of = self.settle(of, Type::Text)?;
        Ok(Typed::new(Expr::IsNull { of: Box::new(of.expr), not }, Type::Bool))
    }

    fn is_bool(&mut self, of: &ast::Expr, value: bool, not: bool, around: &mut dyn Around) -> Bind<Typed> {
        let name = format!("IS {}{}", if not { "NOT " } else { "" }, if value { "TRUE" } else { "FALSE" });
        let of = self.condition(of, &name, around)?;
        let value = Expr::Value(Value::Plain(Datum::Bool(value)));
        Ok(Typed::new(Expr::IsDistinct { from: Box::new([of, value]), not: !not }, Type::Bool))
    }

    fn is_distinct(&mut self, left: &ast::Expr, right: &ast::Expr, not: bool, around: &mut dyn Around) -> Bind<Typed> {
        let (left, right) = (self.expr(left, around)?, self.expr(right, around)?);
        let sides = self.same_type(left, right, "=")?;
        Ok(Typed::new(Expr::IsDistinct { from: Box::new(sides), not }, Type::Bool))
    }

    fn unary(&mut self, op: ast::UnaryOperator, of: &ast::Expr, around: &mut dyn Around) -> Bind<Typed> {
        match op {
            ast::UnaryOperator::Not => {
                Ok(Typed::new(Expr::Not(Box::new(self.condition(of, "NOT", around)?)), Type::Bool))
            }
            ast::UnaryOperator::Minus => {
                // The sign is not part of the literal: -2147483648 is a bigint.
                if let ast::Expr::Value(value) = of
                    && let ast::Value::Number(text, _) = &value.value
                {
                    let Typed { expr, ty } = number(text)?;
                    let Expr::Value(value) = expr else { return Err(Refusal::Other) };
                    let value = Value::of(&crate::expr::negate(value.datum())?);
                    return Ok(Typed { expr: Expr::Value(value), ty });
                }
                let of = self.expr(of, around)?;
                let of = self.settle(of, Type::Float8)?;
                let ty = of.ty.filter(|ty| rank(*ty).is_some()).ok_or(Refusal::Other)?;
                Ok(Typed::new(Expr::Negate(Box::new(of.expr)), bare(ty)))
            }
            ast::UnaryOperator::Plus => self.expr(of, around),
            _ => Err(Refusal::Other),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        around: &mut dyn Around,
    ) -> Bind<Typed> {
        use ast::BinaryOperator as B;
        match op {
            B::And | B::Or => {
                let name = if *op == B::And { "AND" } else { "OR" };
                let sides = Box::new([self.condition(left, name, around)?, self.condition(right, name, around)?]);
                return Ok(Typed::new(if *op == B::And { Expr::And(sides) } else { Expr::Or(sides) }, Type::Bool));
            }
            _ => {}
        }
        if let (Some(comparison), ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (comparison(op), left, right) {
            return self.compare_rows(comparison, left, right, around);
        }
        let (left, right) = (self.expr(left, around)?, self.expr(right, around)?);
        if let Some(comparison) = comparison(op) {
            let sides = self.same_type(left, right, &op.to_string())?;
            return Ok(Typed::new(Expr::Compare(comparison, Box::new(sides)), Type::Bool));
        }
        match op {
            B::Plus => self.arithmetic(Operator::Add, left, right),
            B::Minus => self.arithmetic(Operator::Subtract, left, right),
            B::Multiply => self.arithmetic(Operator::Multiply, left, right),
            B::Divide => self.arithmetic(Operator::Divide, left, right),
            B::Modulo => self.arithmetic(Operator::Modulo, left, right),
            B::StringConcat => self.concat(left, right),
            _ => Err(Refusal::Other),
        }
    }

    /// `(a, b) = (c, d)`, `(a, b) < (c, d)`: by the first columns that are not equal.
    fn compare_rows(
        &mut self,
        comparison: Comparison,
        left: &[ast::Expr],
        right: &[ast::Expr],
        around: &mut dyn Around,
    ) -> Bind<Typed> {
        if left.len() != right.len() || left.is_empty() {
            return Err(Refusal::Other);
        }
        let (mut sides, operator) = (Vec::with_capacity(left.len()), if comparison.is_order() { "<" } else { "=" });
        for (left, right) in left.iter().zip(right) {
            let (left, right) = (self.expr(left, around)?, self.expr(right, around)?);
            sides.push(self.same_type(left, right, operator)?);
        }
        let compare = |by: Comparison, sides: &[Expr; 2]| Expr::Compare(by, Box::new(sides.clone()));
        let mut sides = sides.iter().rev();
        let last = sides.next().ok_or(Refusal::Other)?;
        let all = sides.fold(compare(comparison, last), |rest, one| match comparison {
            Comparison::Equal => Expr::And(Box::new([compare(Comparison::Equal, one), rest])),
            Comparison::NotEqual => Expr::Or(Box::new([compare(Comparison::NotEqual, one), rest])),
            _ => {
                let equal = Expr::And(Box::new([compare(Comparison::Equal, one), rest]));
                let decided = Expr::Or(Box::new([compare(comparison.strict(), one), equal]));
                // What follows from it anyway leads to a range of an index.
                Expr::And(Box::new([compare(comparison.lax(), one), decided]))
            }
        });
        Ok(Typed::new(all, Type::Bool))
    }

    fn arithmetic(&mut self, operator: Operator, left: Typed, right: Typed) -> Bind<Typed> {
        match (left.ty, operator, right.ty) {
            (Some(Type::Date), Operator::Add | Operator::Subtract, Some(Type::Int2 | Type::Int4)) => {
                let right = self.cast(right, Type::Int4, Context::Explicit)?;
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Date));
            }
            (
                Some(Type::Date | Type::Timestamp | Type::Timestamptz),
                Operator::Add | Operator::Subtract,
                Some(Type::Interval),
            ) => {
                return self.shift(left, right, operator == Operator::Subtract);
            }
            (Some(Type::Interval), Operator::Add, Some(Type::Date | Type::Timestamp | Type::Timestamptz)) => {
                return self.shift(right, left, false);
            }
            (Some(Type::Interval), Operator::Add | Operator::Subtract, Some(Type::Interval)) => {
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Interval));
            }
            (Some(one @ (Type::Timestamp | Type::Timestamptz)), Operator::Subtract, Some(other)) if one == other => {
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Interval));
            }
            (Some(Type::Interval), Operator::Multiply | Operator::Divide, Some(by)) if rank(by).is_some() => {
                let function = if operator == Operator::Multiply { Function::Times } else { Function::Over };
                let by = self.cast(right, Type::Float8, Context::Explicit)?.expr;
                return Ok(Typed::new(Expr::Call(function, vec![left.expr, by]), Type::Interval));
            }
            (Some(by), Operator::Multiply, Some(Type::Interval)) if rank(by).is_some() => {
                let by = self.cast(left, Type::Float8, Context::Explicit)?.expr;
                return Ok(Typed::new(Expr::Call(Function::Times, vec![right.expr, by]), Type::Interval));
            }
            (None, Operator::Multiply, Some(Type::Interval)) if matches!(left.expr, Expr::Param(_)) => {
                let by = self.cast(left, Type::Float8, Context::Explicit)?.expr;
                return Ok(Typed::new(Expr::Call(Function::Times, vec![right.expr, by]), Type::Interval));
            }
            (Some(Type::Date), Operator::Subtract, Some(Type::Date)) => {
                return Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left.expr, right.expr])), Type::Int4));
            }
            _ => {}
        }
        let ty = match (left.ty, right.ty) {
            (Some(left), Some(right)) => common_number(left, right),
            (Some(known), None) | (None, Some(known)) => rank(known).map(|_| bare(known)),
            (None, None) => None,
        };
        let ty = ty.filter(|ty| operator != Operator::Modulo || !matches!(ty, Type::Float4 | Type::Float8));
        let ty = ty.ok_or(Refusal::Other)?;
        let left = self.cast(left, ty, Context::Explicit)?.expr;
        let right = self.cast(right, ty, Context::Explicit)?.expr;
        Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left, right])), ty))
    }

    /// A moment and an interval; a date is its midnight.
    fn shift(&mut self, moment: Typed, by: Typed, back: bool) -> Bind<Typed> {
        let ty = if moment.ty == Some(Type::Timestamptz) { Type::Timestamptz } else { Type::Timestamp };
        let moment = self.cast(moment, ty, Context::Explicit)?;
        Ok(Typed::new(Expr::Shift { what: Box::new([moment.expr, by.expr]), back }, ty))
    }

    fn concat(&mut self, left: Typed, right: Typed) -> Bind<Typed> {
        if left.ty == Some(Type::Bytes) || right.ty == Some(Type::Bytes) {
            let left = self.settle(left, Type::Bytes)?;
            let right = self.settle(right, Type::Bytes)?;
            return match (left.ty, right.ty) {
                (Some(Type::Bytes), Some(Type::Bytes)) => {
                    Ok(Typed::new(Expr::Concat(Box::new([left.expr, right.expr])), Type::Bytes))
                }
                _ => Err(Refusal::Other),
            };
        }
        // One of them must be text for `||` to be this one.
        if !left.ty.is_none_or(is_text) && !right.ty.is_none_or(is_text) {
            return Err(Refusal::Other);
        }
        let left = self.cast(left, Type::Text, Context::Explicit)?.expr;
        let right = self.cast(right, Type::Text, Context::Explicit)?.expr;
        Ok(Typed::new(Expr::Concat(Box::new([left, right])), Type::Text))
    }

    /// Both as the type in which they are compared.
    pub(crate) fn same_type(&mut self, left: Typed, right: Typed, operator: &str) -> Bind<[Expr; 2]> {
        let (sides, _) = self.meeting(left, right, operator)?;
        Ok(sides)
    }

    /// The same, and that type.
    pub(crate) fn meeting(&mut self, left: Typed, right: Typed, operator: &str) -> Bind<([Expr; 2], Type)> {
        let ty = match (left.ty, right.ty) {
            (Some(left), Some(right)) => comparable(left, right),
            // varchar has no operators of its own.
            (Some(Type::Varchar(_)), None) | (None, Some(Type::Varchar(_)) | None) => Some(Type::Text),
            (Some(known), None) | (None, Some(known)) => Some(bare(known)),
        };
        let ty = ty.filter(|ty| ty.is_ordered()).ok_or_else(|| {
            let text = format!("operator does not exist: {} {operator} {}", name_of(left.ty), name_of(right.ty));
            Error::new(SqlState::UNDEFINED_FUNCTION, text).with_hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            )
        })?;
        let sides = [self.cast(left, ty, Context::Explicit)?.expr, self.cast(right, ty, Context::Explicit)?.expr];
        Ok((sides, ty))
    }

    fn between(
        &mut self,
        what: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        not: bool,
        around: &mut dyn Around,
    ) -> Bind<Typed> {
        let what = self.expr(what, around)?;
        let (low, high) = (self.expr(low, around)?, self.expr(high, around)?);
        let low = self.same_type(what.clone(), low, ">=")?;
        let high = self.same_type(what, high, "<=")?;
        let both = Expr::And(Box::new([
            Expr::Compare(Comparison::GreaterEqual, Box::new(low)),
            Expr::Compare(Comparison::LessEqual, Box::new(high)),
        ]));
        Ok(Typed::new(if not { Expr::Not(Box::new(both)) } else { both }, Type::Bool))
    }

    fn in_list(&mut self, what: &ast::Expr, list: &[ast::Expr], not: bool, around: &mut dyn Around) -> Bind<Typed> {
        if let ast::Expr::Tuple(left) = what {
            let mut rows = Vec::with_capacity(list.len());
            for one in list {
                let ast::Expr::Tuple(right) = one else { return Err(Refusal::Other) };
                rows.push(self.compare_rows(Comparison::Equal, left, right, around)?.expr);
            }
            let any = any_of(rows).ok_or(Refusal::Other)?;
            return Ok(Typed::new(if not { Expr::Not(Box::new(any)) } else { any }, Type::Bool));
        }
        let what = self.expr(what, around)?;
        let list = list.iter().map(|one| self.expr(one, around)).collect::<Bind<Vec<_>>>()?;
        self.among(what, list, not)
    }

    /// `IN` of expressions.
    pub(crate) fn among(&mut self, what: Typed, list: Vec<Typed>, not: bool) -> Bind<Typed> {
        // PostgreSQL looks for one type for all of them.
        let mut ty = what.ty;
        for one in list.iter().filter_map(|one| one.ty) {
            ty = Some(match ty {
                None => one,
                Some(ty) => comparable(ty, one).ok_or(Refusal::Other)?,
            });
        }
        let ty = bare(ty.unwrap_or(Type::Text));
        if !ty.is_ordered() {
            return Err(Refusal::Other);
        }
        let what = Box::new(self.cast(what, ty, Context::Explicit)?.expr);
        let list =
            list.into_iter().map(|one| Ok(self.cast(one, ty, Context::Explicit)?.expr)).collect::<Bind<Vec<_>>>()?;
        Ok(Typed::new(Expr::InList { what, list, not }, Type::Bool))
    }

    fn like(
        &mut self,
        what: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        not: bool,
        any_case: bool,
        around: &mut dyn Around,
    ) -> Bind<Typed> {
        let escape = match escape.map(|escape| &escape.value) {
            None => Some('\\'),
            Some(ast::Value::SingleQuotedString(text)) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (escape, None) => escape,
                    _ => {
                        let error = Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
                        return Err(error.with_hint("Escape string must be empty or one character.").into());
                    }
                }
            }
            Some(_) => return Err(Refusal::Other),
        };
        let what = self.expr(what, around)?;
        let pattern = self.expr(pattern, around)?;
        let what = match what.ty {
            Some(Type::Char(_)) => padded(what)?,
            _ => self.text(what)?,
        };
        let pattern = self.text(pattern)?;
        Ok(Typed::new(Expr::Like { what: Box::new([what, pattern]), escape, not, any_case }, Type::Bool))
    }

    pub(crate) fn text(&mut self, bound: Typed) -> Bind<Expr> {
        let bound = self.settle(bound, Type::Text)?;
        if bound.ty.is_some_and(is_text) { Ok(bound.expr) } else { Err(Refusal::Other) }
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        around: &mut dyn Around,
    ) -> Bind<Typed> {
        let operand = operand.map(|operand| self.expr(operand, around)).transpose()?;
        let mut whens = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for one in conditions {
            whens.push(match &operand {
                None => self.condition(&one.condition, "CASE/WHEN", around)?,
                Some(operand) => {
                    let value = self.expr(&one.condition, around)?;
                    Expr::Compare(Comparison::Equal, Box::new(self.same_type(operand.clone(), value, "=")?))
                }
            });
            results.push(self.expr(&one.result, around)?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.expr(otherwise, around)?);
        }
        // What ELSE gives is the first that is asked for its type.
        if otherwise.is_some() {
            results.rotate_right(1);
        }
        let (mut results, ty) = self.one_type(results, "CASE")?;
        // Without ELSE it is NULL.
        let ty = if otherwise.is_some() || matches!(ty, Type::Char(_)) { ty } else { bare(ty) };
        let otherwise = otherwise.map(|_| Box::new(results.remove(0)));
        Ok(Typed::new(Expr::Case { whens: whens.into_iter().zip(results).collect(), otherwise }, ty))
    }

    /// All as one type, which the first decides where it can: that of CASE, COALESCE and their kin, one of which `of` is.
    pub(crate) fn one_type(&mut self, all: Vec<Typed>, of: &str) -> Bind<(Vec<Expr>, Type)> {
        let mut ty: Option<Type> = None;
        for one in all.iter().filter_map(|one| one.ty) {
            ty = Some(match ty {
                None => one,
                Some(ty) if ty == one => ty,
                Some(ty) if category(ty) != category(one) => {
                    let text = format!("{of} types {} and {} cannot be matched", ty.sql_name(), one.sql_name());
                    return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).into());
                }
                Some(ty) => union(ty, one).ok_or(Refusal::Other)?,
            });
        }
        // What stands in parentheses stays if all have it. (Beside NULL, char(n) may keep its blanks.)
        let is_null = |one: &Typed| matches!(one.expr, Expr::Value(Value::Plain(Datum::Null)));
        let keeps = |one: &Typed, ty| one.ty == Some(ty) || matches!(ty, Type::Char(_)) && is_null(one);
        let ty = match ty {
            Some(ty) if all.iter().all(|one| keeps(one, ty)) => ty,
            other => bare(other.unwrap_or(Type::Text)),
        };
        // Some of these would be shown with blanks at their ends, others not.
        if ty == Type::Char(None) && all.iter().any(|one| matches!(one.ty, Some(Type::Char(Some(_))))) {
            return Err(Refusal::Other);
        }
        let all =
            all.into_iter().map(|one| Ok(self.cast(one, ty, Context::Explicit)?.expr)).collect::<Bind<Vec<_>>>()?;
        Ok((all, ty))
    }
}

/// The column of this name among tables, if one has it.
pub(crate) fn column_of(sources: &[Source], table: Option<&str>, wanted: &str) -> Bind<Option<Typed>> {
    let mut found: Option<Typed> = None;
    let mut named = sources.iter().filter(|source| table.is_none_or(|table| table == source.name)).peekable();
    let is_table = table.is_some() && named.peek().is_some();
    for source in named {
        let Some(column) = source.schema().column(wanted) else { continue };
        if table.is_none() && source.hidden.contains(&column) {
            continue;
        }
        if found.is_some() {
            let text = format!("column reference \"{wanted}\" is ambiguous");
            return Err(Error::new(SqlState::AMBIGUOUS_COLUMN, text).into());
        }
        found = Some(source.field(column));
    }
    match table {
        Some(table) if is_table && found.is_none() => {
            let text = format!("column {table}.{wanted} does not exist");
            Err(Error::new(SqlState::UNDEFINED_COLUMN, text).into())
        }
        _ => Ok(found),
    }
}

/// A parameter. Of char, blanks at its end are not kept anywhere, and so must not be compared.
fn param(at: usize, ty: Type) -> Expr {
    match ty {
        Type::Char(_) => Expr::Cast { what: Box::new(Expr::Param(at)), to: ty, by: Context::Explicit },
        _ => Expr::Param(at),
    }
}

/// The text of a char(n) where blanks at its end count, which are kept nowhere.
pub(crate) fn padded(of: Typed) -> Bind<Expr> {
    let Some(Type::Char(Some(length))) = of.ty else { return Err(Refusal::Other) };
    Ok(Expr::Call(Function::PadEnd, vec![of.expr, int(i32::try_from(length).unwrap_or(i32::MAX))]))
}

fn int(value: i32) -> Expr {
    Expr::Value(Value::Plain(Datum::Int4(value)))
}

/// A number as PostgreSQL types it: the smallest of integer, bigint and numeric that holds it.
fn number(text: &str) -> Result<Typed> {
    if let Ok(value) = text.parse::<i32>() {
        return Ok(Typed::new(int(value), Type::Int4));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Typed::new(Expr::Value(Value::Plain(Datum::Int8(value))), Type::Int8));
    }
    let value: Numeric = text.parse()?;
    Ok(Typed::new(Expr::Value(Value::Plain(Datum::Numeric(value))), Type::Numeric(None)))
}

/// A name as SQL folds it.
pub(crate) fn folded(name: &ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// One of them holds. Long lists do not make deep trees.
pub(crate) fn any_of(mut all: Vec<Expr>) -> Option<Expr> {
    let rest = all.split_off(all.len().div_ceil(2));
    if rest.is_empty() {
        return all.pop();
    }
    Some(Expr::Or(Box::new([any_of(all)?, any_of(rest)?])))
}

/// All of them hold.
pub(crate) fn all_of(mut all: Vec<Expr>) -> Option<Expr> {
    let rest = all.split_off(all.len().div_ceil(2));
    if rest.is_empty() {
        return all.pop();
    }
    Some(Expr::And(Box::new([all_of(all)?, all_of(rest)?])))
}

fn name_of(ty: Option<Type>) -> &'static str {
    ty.map_or("unknown", Type::sql_name)
}

pub(crate) fn comparison(op: &ast::BinaryOperator) -> Option<Comparison> {
    use ast::BinaryOperator as B;
    Some(match op {
        B::Eq => Comparison::Equal,
        B::NotEq => Comparison::NotEqual,
        B::Lt => Comparison::Less,
        B::LtEq => Comparison::LessEqual,
        B::Gt => Comparison::Greater,
        B::GtEq => Comparison::GreaterEqual,
        _ => return None,
    })
}
