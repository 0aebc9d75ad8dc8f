//! Binder: from parsed SQL to typed expressions. Resolves names, infers types as PostgreSQL does, and inserts its
//! implicit casts.
//!
//! A construct that this crate does not run is [`Refusal::Unsupported`], and DataFusion gets the statement; a
//! construct that is wrong is an error.

use std::sync::Arc;

use model::{Datum, Error, Numeric, Result, RowSchema, SqlState, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::array::{Array, ParamType};
use crate::cast::{self, Context, NoZone};
use crate::derived_tables::Derived;
use crate::expr::{Comparison, Expr, Function, Layout, Operator, Value};
use crate::scope::Tables;
use crate::subquery;
use crate::types::{
    assignable, base_type, category, common_number, comparable, data_type, is_moment, is_text, rank, same_bytes, union,
};

/// The reason for not compiling a statement.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// DataFusion may run it.
    Unsupported,
    /// The statement is invalid.
    Error(Error),
}

pub(crate) type Bind<T> = std::result::Result<T, Refusal>;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}

/// A table of FROM, in its slot.
#[derive(Clone)]
pub(crate) struct Source {
    /// Table name or alias.
    pub(crate) name: String,
    pub(crate) slot: usize,
    pub(crate) table: Arc<RowTable>,
    /// Set for a derived table.
    pub(crate) derived: Option<DerivedRef>,
    /// Columns that need a qualified name: USING merged them into the other table's columns.
    pub(crate) hidden: Vec<usize>,
}

/// Reference to a derived table: its number, and the outer values that its query takes.
#[derive(Clone, Debug)]
pub(crate) struct DerivedRef {
    pub(crate) of: usize,
    pub(crate) given: Vec<Expr>,
}

impl Source {
    /// A stored table.
    pub(crate) fn stored(name: String, slot: usize, table: Arc<RowTable>) -> Source {
        Source { name, slot, table, derived: None, hidden: Vec::new() }
    }

    pub(crate) fn schema(&self) -> &RowSchema {
        &self.table.schema
    }

    pub(crate) fn field(&self, column: usize) -> Typed {
        let expr = Expr::Field { slot: self.slot, column, layout: Layout(Arc::clone(&self.table.layout)) };
        Typed { expr, ty: Some(self.schema().columns[column].ty) }
    }
}

/// An expression and its type. A string literal, NULL or an untyped parameter has no type yet.
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

/// Constructs whose meaning depends on the clause or statement around an expression.
pub(crate) trait ExprScope {
    /// Binds an aggregate call, or refuses it where aggregates are not allowed.
    fn aggregate(&mut self, binder: &mut Binder, call: &ast::Function) -> Bind<Typed>;
    /// Binds a subquery: a scalar, EXISTS, or the right-hand side of IN, ANY or ALL.
    fn subquery(&mut self, binder: &mut Binder, query: &ast::Query, kind: Subquery) -> Bind<Typed>;
    /// Catalog for tables and sequences; `None` where an expression cannot name any.
    fn tables(&self) -> Option<&dyn Tables> {
        None
    }
    /// Schema searched first for unqualified names.
    fn schema(&self) -> Option<&str> {
        None
    }
}

/// The construct that a subquery is part of.
pub(crate) enum Subquery {
    Scalar,
    Exists { not: bool },
    In { what: Typed, not: bool },
    InRows { what: Vec<Typed>, not: bool },
    Compared { what: Typed, comparison: Comparison, all: bool },
}

/// Binds the expressions of one statement.
#[derive(Default)]
pub(crate) struct Binder {
    /// Types by parameter number; `None` until the type is known.
    pub(crate) params: Vec<Option<ParamType>>,
    /// Tables of the query being bound.
    pub(crate) sources: Vec<Source>,
    /// Outer values that the query being bound takes, as expressions of the enclosing query.
    pub(crate) given: Vec<Expr>,
    /// The enclosing queries, outermost first.
    pub(crate) outer: Vec<Level>,
    /// Nesting depth of the current expression.
    pub(crate) depth: u32,
    /// Subqueries in expressions, by number.
    pub(crate) subqueries: Vec<subquery::Subquery>,
    /// Derived tables, by number.
    pub(crate) derived: Vec<Derived>,
    /// Common table expressions in scope, outermost first.
    pub(crate) common: Vec<Source>,
    /// Number of hash tables in the plan.
    pub(crate) hashed: usize,
    /// Array parameters used in expressions, by number.
    pub(crate) arrays: Vec<Array>,
    /// Whether the statement changes a sequence.
    pub(crate) counts: bool,
    /// Whether any expression has type time, timestamp, timestamptz or interval.
    pub(crate) moments: bool,
    /// Whether the statement is an INSERT, UPDATE or DELETE.
    pub(crate) writes: bool,
}

/// State of an enclosing query while a nested one is bound.
pub(crate) struct Level {
    sources: Vec<Source>,
    given: Vec<Expr>,
    /// Whether the nested query cannot reference this level's tables.
    hidden: bool,
}

/// Deeper expressions are left to DataFusion: each level here uses stack of the thread.
pub(crate) const DEPTH_MAX: u32 = 256;

impl Binder {
    /// Binds an expression of any type.
    pub(crate) fn expr(&mut self, expr: &ast::Expr, scope: &mut dyn ExprScope) -> Bind<Typed> {
        if self.depth == DEPTH_MAX {
            return Err(Refusal::Unsupported);
        }
        self.depth += 1;
        let bound = self.any(expr, scope);
        self.depth -= 1;
        self.moments |= matches!(&bound, Ok(Typed { ty: Some(ty), .. }) if is_moment(*ty));
        bound
    }

    fn any(&mut self, expr: &ast::Expr, scope: &mut dyn ExprScope) -> Bind<Typed> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expr(inner, scope),
            E::Identifier(name) => self.column(None, name),
            E::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.column(Some(table), column),
                _ => Err(Refusal::Unsupported),
            },
            E::Value(value) => self.value(&value.value),
            E::TypedString(string) => {
                let to = self.data_type(&string.data_type)?;
                let ast::Value::SingleQuotedString(text) = &string.value.value else {
                    return Err(Refusal::Unsupported);
                };
                self.literal(text, to)
            }
            E::Interval(interval) => {
                let E::Value(value) = &*interval.value else { return Err(Refusal::Unsupported) };
                match &value.value {
                    ast::Value::SingleQuotedString(text) if interval.leading_field.is_none() => {
                        self.literal(text, Type::Interval)
                    }
                    _ => Err(Refusal::Unsupported),
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
                let what = self.expr(expr, scope)?;
                self.cast(what, to, Context::Explicit)
            }
            E::IsNull(of) => self.is_null(of, false, scope),
            E::IsNotNull(of) => self.is_null(of, true, scope),
            E::IsTrue(of) => self.is_bool(of, true, false, scope),
            E::IsNotTrue(of) => self.is_bool(of, true, true, scope),
            E::IsFalse(of) => self.is_bool(of, false, false, scope),
            E::IsNotFalse(of) => self.is_bool(of, false, true, scope),
            E::IsDistinctFrom(left, right) => self.is_distinct(left, right, false, scope),
            E::IsNotDistinctFrom(left, right) => self.is_distinct(left, right, true, scope),
            E::UnaryOp { op, expr } => self.unary(*op, expr, scope),
            E::BinaryOp { left, op, right } => self.binary(left, op, right, scope),
            E::Between { expr, negated, low, high } => self.between(expr, low, high, *negated, scope),
            E::InList { expr, list, negated } => self.in_list(expr, list, *negated, scope),
            E::InSubquery { expr, subquery, negated } => {
                if let E::Tuple(parts) = &**expr {
                    let what = parts.iter().map(|part| self.expr(part, scope)).collect::<Bind<_>>()?;
                    return scope.subquery(self, subquery, Subquery::InRows { what, not: *negated });
                }
                let what = self.expr(expr, scope)?;
                scope.subquery(self, subquery, Subquery::In { what, not: *negated })
            }
            E::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false, scope),
            E::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, scope),
            E::Exists { subquery, negated } => scope.subquery(self, subquery, Subquery::Exists { not: *negated }),
            E::Subquery(query) => scope.subquery(self, query, Subquery::Scalar),
            E::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, false, scope)
            }
            E::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, true, scope)
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), scope)
            }
            E::Function(call) => self.function(call, scope),
            E::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let of = self.expr(expr, scope)?;
                self.call("ceil", vec![of])
            }
            E::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let of = self.expr(expr, scope)?;
                self.call("floor", vec![of])
            }
            E::Substring { expr, substring_from, substring_for, .. } => {
                let mut given = vec![self.expr(expr, scope)?];
                match substring_from {
                    Some(from) => given.push(self.expr(from, scope)?),
                    None => given.push(Typed::new(int(1), Type::Int4)),
                }
                if let Some(count) = substring_for {
                    given.push(self.expr(count, scope)?);
                }
                self.call("substring", given)
            }
            E::Position { expr, r#in } => {
                let given = vec![self.expr(r#in, scope)?, self.expr(expr, scope)?];
                self.call("strpos", given)
            }
            E::Extract { field, expr, .. } => {
                let of = self.expr(expr, scope)?;
                self.part(&field.to_string(), of)
            }
            E::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let mut given = vec![self.expr(expr, scope)?];
                if let Some(what) = trim_what {
                    given.push(self.expr(what, scope)?);
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
            _ => Err(Refusal::Unsupported),
        }
    }

    /// Binds a boolean expression. `of` names the clause for the error text: "argument of WHERE must be type
    /// boolean".
    pub(crate) fn condition(&mut self, expr: &ast::Expr, of: &str, scope: &mut dyn ExprScope) -> Bind<Expr> {
        let bound = self.expr(expr, scope)?;
        let bound = self.resolve_unknown(bound, Type::Bool)?;
        match bound.ty {
            Some(Type::Bool) => Ok(bound.expr),
            ty => Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {of} must be type boolean, not type {}", name_of(ty)),
            )
            .into()),
        }
    }

    /// Binds a nested query; returns also the outer values it takes. With `hidden` it cannot reference tables of
    /// the current query.
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

    /// Whether there is an enclosing query whose tables can be referenced.
    pub(crate) fn is_inside(&self) -> bool {
        self.outer.iter().any(|level| !level.hidden && !level.sources.is_empty())
    }

    /// The type that a cast names. Columns store `jsonb` as `json`, so a statement that writes casts to `json`. A
    /// query must not: its result would be described as `json`.
    fn data_type(&self, ty: &ast::DataType) -> Bind<Type> {
        match ty {
            ast::DataType::JSONB if self.writes => Ok(Type::Json),
            ty => data_type(ty),
        }
    }

    /// Resolves a column: in the current query, then in the enclosing ones, innermost first.
    fn column(&mut self, table: Option<&ast::Ident>, name: &ast::Ident) -> Bind<Typed> {
        let wanted = fold_ident(name);
        let table = table.map(fold_ident);
        if let Some(found) = column_of(&self.sources, table.as_deref(), &wanted)? {
            return Ok(found);
        }
        for level in (0..self.outer.len()).rev().filter(|level| !self.outer[*level].hidden).collect::<Vec<_>>() {
            if let Some(found) = column_of(&self.outer[level].sources, table.as_deref(), &wanted)? {
                return Ok(self.handed_in(level, found));
            }
        }
        // The name of a table stands for its row.
        let levels = self.outer.iter().filter(|level| !level.hidden).flat_map(|level| &level.sources);
        if table.is_none() && self.sources.iter().chain(levels).any(|source| source.name == wanted) {
            return Err(Refusal::Unsupported);
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

    /// Passes a value of an enclosing query inwards, level by level. Returns the expression that reads it in the
    /// current query.
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
            value.expr = Expr::OuterValue(at);
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
                (_, Some(ParamType::Array(_))) => return Err(Refusal::Unsupported),
            },
            _ => return Err(Refusal::Unsupported),
        })
    }

    /// Parameter number, from 0, and its type if it is known.
    pub(crate) fn placeholder(&mut self, value: &ast::Value) -> Bind<(usize, Option<ParamType>)> {
        let ast::Value::Placeholder(name) = value else { return Err(Refusal::Unsupported) };
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let at = number.and_then(|number| number.checked_sub(1)).ok_or(Refusal::Unsupported)?;
        if self.params.len() <= at {
            self.params.resize(at + 1, None);
        }
        Ok((at, self.params[at]))
    }

    /// A string literal of type `to`. It is parsed now unless the value depends on the session.
    pub(crate) fn literal(&self, text: &str, to: Type) -> Bind<Typed> {
        let arena = bumpalo::Bump::new();
        if cast::depends_on_session(text, to) {
            let what = Box::new(Expr::Value(Value::Text(text.into())));
            return Ok(Typed::new(Expr::Cast { what, to, by: Context::Explicit }, to));
        }
        let value = cast::cast(Datum::Text(text), to, Context::Explicit, &NoZone, &arena)?;
        Ok(Typed::new(Expr::Value(Value::of(&value)), to))
    }

    /// Gives type `ty` to an expression of unknown type; leaves others as they are.
    pub(crate) fn resolve_unknown(&mut self, bound: Typed, ty: Type) -> Bind<Typed> {
        if bound.ty.is_some() {
            return Ok(bound);
        }
        match bound.expr {
            Expr::Param(at) => {
                // A parameter's type has no modifier.
                let ty = base_type(ty);
                match self.params[at] {
                    None => self.params[at] = Some(ParamType::Plain(ty)),
                    Some(ParamType::Array(_)) => return Err(Refusal::Unsupported),
                    // Another use of the parameter fixed its type.
                    Some(ParamType::Plain(known)) => {
                        return self.cast(Typed::new(param(at, known), known), ty, Context::Explicit);
                    }
                }
                Ok(Typed::new(param(at, ty), ty))
            }
            Expr::Value(Value::Text(text)) => self.literal(&text, base_type(ty)),
            expr => Ok(Typed::new(expr, ty)),
        }
    }

    /// Assignment cast to a column's type. Error 42804 if there is none.
    pub(crate) fn assigned(&mut self, bound: Typed, ty: Type, column: &str) -> Bind<Expr> {
        let bound = self.resolve_unknown(bound, ty)?;
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
        let what = self.resolve_unknown(what, to)?;
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
        // Constants are cast now, unless the result depends on the session.
        let is_open = |value: &Value| matches!(value.datum(), Datum::Text(text) if cast::depends_on_session(text, to));
        if let Expr::Value(value) = &what.expr
            && from != Type::Timestamptz
            && to != Type::Timestamptz
            && !is_open(value)
        {
            let arena = bumpalo::Bump::new();
            let value = cast::cast(value.datum(), to, by, &NoZone, &arena)?;
            return Ok(Typed::new(Expr::Value(Value::of(&value)), to));
        }
        Ok(Typed::new(Expr::Cast { what: Box::new(what.expr), to, by }, to))
    }

    fn is_null(&mut self, of: &ast::Expr, not: bool, scope: &mut dyn ExprScope) -> Bind<Typed> {
        let of = self.expr(of, scope)?;
        let of = self.resolve_unknown(of, Type::Text)?;
        Ok(Typed::new(Expr::IsNull { of: Box::new(of.expr), not }, Type::Bool))
    }

    fn is_bool(&mut self, of: &ast::Expr, value: bool, not: bool, scope: &mut dyn ExprScope) -> Bind<Typed> {
        let name = format!("IS {}{}", if not { "NOT " } else { "" }, if value { "TRUE" } else { "FALSE" });
        let of = self.condition(of, &name, scope)?;
        let value = Expr::Value(Value::Plain(Datum::Bool(value)));
        Ok(Typed::new(Expr::IsDistinct { from: Box::new([of, value]), not: !not }, Type::Bool))
    }

    fn is_distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        not: bool,
        scope: &mut dyn ExprScope,
    ) -> Bind<Typed> {
        let (left, right) = (self.expr(left, scope)?, self.expr(right, scope)?);
        let sides = self.same_type(left, right, "=")?;
        Ok(Typed::new(Expr::IsDistinct { from: Box::new(sides), not }, Type::Bool))
    }

    fn unary(&mut self, op: ast::UnaryOperator, of: &ast::Expr, scope: &mut dyn ExprScope) -> Bind<Typed> {
        match op {
            ast::UnaryOperator::Not => {
                Ok(Typed::new(Expr::Not(Box::new(self.condition(of, "NOT", scope)?)), Type::Bool))
            }
            ast::UnaryOperator::Minus => {
                // The literal's type ignores the sign, as in PostgreSQL: -2147483648 is a bigint.
                if let ast::Expr::Value(value) = of
                    && let ast::Value::Number(text, _) = &value.value
                {
                    let Typed { expr, ty } = number(text)?;
                    let Expr::Value(value) = expr else { return Err(Refusal::Unsupported) };
                    let value = Value::of(&crate::expr::negate(value.datum())?);
                    return Ok(Typed { expr: Expr::Value(value), ty });
                }
                let of = self.expr(of, scope)?;
                let of = self.resolve_unknown(of, Type::Float8)?;
                let ty = of.ty.filter(|ty| rank(*ty).is_some()).ok_or(Refusal::Unsupported)?;
                Ok(Typed::new(Expr::Negate(Box::new(of.expr)), base_type(ty)))
            }
            ast::UnaryOperator::Plus => self.expr(of, scope),
            _ => Err(Refusal::Unsupported),
        }
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        scope: &mut dyn ExprScope,
    ) -> Bind<Typed> {
        use ast::BinaryOperator as B;
        match op {
            B::And | B::Or => {
                let name = if *op == B::And { "AND" } else { "OR" };
                let sides = Box::new([self.condition(left, name, scope)?, self.condition(right, name, scope)?]);
                return Ok(Typed::new(if *op == B::And { Expr::And(sides) } else { Expr::Or(sides) }, Type::Bool));
            }
            _ => {}
        }
        if let (Some(comparison), ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (comparison(op), left, right) {
            return self.compare_rows(comparison, left, right, scope);
        }
        let (left, right) = (self.expr(left, scope)?, self.expr(right, scope)?);
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
            _ => Err(Refusal::Unsupported),
        }
    }

    /// Row comparison, `(a, b) = (c, d)` or `(a, b) < (c, d)`: decided by the first columns that differ.
    fn compare_rows(
        &mut self,
        comparison: Comparison,
        left: &[ast::Expr],
        right: &[ast::Expr],
        scope: &mut dyn ExprScope,
    ) -> Bind<Typed> {
        if left.len() != right.len() || left.is_empty() {
            return Err(Refusal::Unsupported);
        }
        let (mut sides, operator) = (Vec::with_capacity(left.len()), if comparison.is_order() { "<" } else { "=" });
        for (left, right) in left.iter().zip(right) {
            let (left, right) = (self.expr(left, scope)?, self.expr(right, scope)?);
            sides.push(self.same_type(left, right, operator)?);
        }
        let all = rows_compared(comparison, &sides).ok_or(Refusal::Unsupported)?;
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
            (Some(known), None) | (None, Some(known)) => rank(known).map(|_| base_type(known)),
            (None, None) => None,
        };
        let ty = ty.filter(|ty| operator != Operator::Modulo || !matches!(ty, Type::Float4 | Type::Float8));
        let ty = ty.ok_or(Refusal::Unsupported)?;
        let left = self.cast(left, ty, Context::Explicit)?.expr;
        let right = self.cast(right, ty, Context::Explicit)?.expr;
        Ok(Typed::new(Expr::Arithmetic(operator, Box::new([left, right])), ty))
    }

    /// Timestamp plus or minus interval; a date is taken as its midnight.
    fn shift(&mut self, moment: Typed, by: Typed, back: bool) -> Bind<Typed> {
        let ty = if moment.ty == Some(Type::Timestamptz) { Type::Timestamptz } else { Type::Timestamp };
        let moment = self.cast(moment, ty, Context::Explicit)?;
        Ok(Typed::new(Expr::Shift { what: Box::new([moment.expr, by.expr]), back }, ty))
    }

    fn concat(&mut self, left: Typed, right: Typed) -> Bind<Typed> {
        if left.ty == Some(Type::Bytes) || right.ty == Some(Type::Bytes) {
            let left = self.resolve_unknown(left, Type::Bytes)?;
            let right = self.resolve_unknown(right, Type::Bytes)?;
            return match (left.ty, right.ty) {
                (Some(Type::Bytes), Some(Type::Bytes)) => {
                    Ok(Typed::new(Expr::Concat(Box::new([left.expr, right.expr])), Type::Bytes))
                }
                _ => Err(Refusal::Unsupported),
            };
        }
        // `||` is text concatenation only if at least one side is text.
        if !left.ty.is_none_or(is_text) && !right.ty.is_none_or(is_text) {
            return Err(Refusal::Unsupported);
        }
        let left = self.cast(left, Type::Text, Context::Explicit)?.expr;
        let right = self.cast(right, Type::Text, Context::Explicit)?.expr;
        Ok(Typed::new(Expr::Concat(Box::new([left, right])), Type::Text))
    }

    /// Casts both sides to the type in which they are compared.
    pub(crate) fn same_type(&mut self, left: Typed, right: Typed, operator: &str) -> Bind<[Expr; 2]> {
        let (sides, _) = self.with_common_type(left, right, operator)?;
        Ok(sides)
    }

    /// Like [`Binder::same_type`], and returns the type.
    pub(crate) fn with_common_type(&mut self, left: Typed, right: Typed, operator: &str) -> Bind<([Expr; 2], Type)> {
        let ty = match (left.ty, right.ty) {
            (Some(left), Some(right)) => comparable(left, right),
            // varchar has no operators of its own; PostgreSQL uses those of text.
            (Some(Type::Varchar(_)), None) | (None, Some(Type::Varchar(_)) | None) => Some(Type::Text),
            (Some(known), None) | (None, Some(known)) => Some(base_type(known)),
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
        scope: &mut dyn ExprScope,
    ) -> Bind<Typed> {
        let what = self.expr(what, scope)?;
        let (low, high) = (self.expr(low, scope)?, self.expr(high, scope)?);
        let low = self.same_type(what.clone(), low, ">=")?;
        let high = self.same_type(what, high, "<=")?;
        let both = Expr::And(Box::new([
            Expr::Compare(Comparison::GreaterEqual, Box::new(low)),
            Expr::Compare(Comparison::LessEqual, Box::new(high)),
        ]));
        Ok(Typed::new(if not { Expr::Not(Box::new(both)) } else { both }, Type::Bool))
    }

    fn in_list(&mut self, what: &ast::Expr, list: &[ast::Expr], not: bool, scope: &mut dyn ExprScope) -> Bind<Typed> {
        if let ast::Expr::Tuple(left) = what {
            let mut rows = Vec::with_capacity(list.len());
            for one in list {
                let ast::Expr::Tuple(right) = one else { return Err(Refusal::Unsupported) };
                rows.push(self.compare_rows(Comparison::Equal, left, right, scope)?.expr);
            }
            let any = any_of(rows).ok_or(Refusal::Unsupported)?;
            return Ok(Typed::new(if not { Expr::Not(Box::new(any)) } else { any }, Type::Bool));
        }
        let what = self.expr(what, scope)?;
        let list = list.iter().map(|one| self.expr(one, scope)).collect::<Bind<Vec<_>>>()?;
        self.among(what, list, not)
    }

    /// `IN` with a list of expressions.
    pub(crate) fn among(&mut self, what: Typed, list: Vec<Typed>, not: bool) -> Bind<Typed> {
        // PostgreSQL selects one common type for the whole list.
        let mut ty = what.ty;
        for one in list.iter().filter_map(|one| one.ty) {
            ty = Some(match ty {
                None => one,
                Some(ty) => comparable(ty, one).ok_or(Refusal::Unsupported)?,
            });
        }
        let ty = base_type(ty.unwrap_or(Type::Text));
        if !ty.is_ordered() {
            return Err(Refusal::Unsupported);
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
        scope: &mut dyn ExprScope,
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
            Some(_) => return Err(Refusal::Unsupported),
        };
        let what = self.expr(what, scope)?;
        let pattern = self.expr(pattern, scope)?;
        let what = match what.ty {
            Some(Type::Char(_)) => padded(what)?,
            _ => self.text(what)?,
        };
        let pattern = self.text(pattern)?;
        Ok(Typed::new(Expr::Like { what: Box::new([what, pattern]), escape, not, any_case }, Type::Bool))
    }

    pub(crate) fn text(&mut self, bound: Typed) -> Bind<Expr> {
        let bound = self.resolve_unknown(bound, Type::Text)?;
        if bound.ty.is_some_and(is_text) { Ok(bound.expr) } else { Err(Refusal::Unsupported) }
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        scope: &mut dyn ExprScope,
    ) -> Bind<Typed> {
        let operand = operand.map(|operand| self.expr(operand, scope)).transpose()?;
        let mut whens = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for one in conditions {
            whens.push(match &operand {
                None => self.condition(&one.condition, "CASE/WHEN", scope)?,
                Some(operand) => {
                    let value = self.expr(&one.condition, scope)?;
                    Expr::Compare(Comparison::Equal, Box::new(self.same_type(operand.clone(), value, "=")?))
                }
            });
            results.push(self.expr(&one.result, scope)?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.expr(otherwise, scope)?);
        }
        // PostgreSQL considers the ELSE result first when it selects the type.
        if otherwise.is_some() {
            results.rotate_right(1);
        }
        let (mut results, ty) = self.one_type(results, "CASE")?;
        // A missing ELSE is NULL, which has no type modifier.
        let ty = if otherwise.is_some() || matches!(ty, Type::Char(_)) { ty } else { base_type(ty) };
        let otherwise = otherwise.map(|_| Box::new(results.remove(0)));
        Ok(Typed::new(Expr::Case { whens: whens.into_iter().zip(results).collect(), otherwise }, ty))
    }

    /// Casts all to their common type, by the rules for CASE, COALESCE and UNION. `of` names the construct for the
    /// error text.
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
                Some(ty) => union(ty, one).ok_or(Refusal::Unsupported)?,
            });
        }
        // The type modifier is kept if all agree on it. (Next to NULL, char(n) may keep its padding.)
        let is_null = |one: &Typed| matches!(one.expr, Expr::Value(Value::Plain(Datum::Null)));
        let keeps = |one: &Typed, ty| one.ty == Some(ty) || matches!(ty, Type::Char(_)) && is_null(one);
        let ty = match ty {
            Some(ty) if all.iter().all(|one| keeps(one, ty)) => ty,
            other => base_type(other.unwrap_or(Type::Text)),
        };
        // The result would be padded for some branches and not for others: leave it to DataFusion.
        if ty == Type::Char(None) && all.iter().any(|one| matches!(one.ty, Some(Type::Char(Some(_))))) {
            return Err(Refusal::Unsupported);
        }
        let all =
            all.into_iter().map(|one| Ok(self.cast(one, ty, Context::Explicit)?.expr)).collect::<Bind<Vec<_>>>()?;
        Ok((all, ty))
    }
}

/// Finds a column by name among tables. Error 42702 if several have it.
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

/// A parameter. For char(n) a cast removes trailing blanks, which are not significant and never stored.
fn param(at: usize, ty: Type) -> Expr {
    match ty {
        Type::Char(_) => Expr::Cast { what: Box::new(Expr::Param(at)), to: ty, by: Context::Explicit },
        _ => Expr::Param(at),
    }
}

/// A char(n) value padded to its length; blanks at its end are not stored.
pub(crate) fn padded(of: Typed) -> Bind<Expr> {
    let Some(Type::Char(Some(length))) = of.ty else { return Err(Refusal::Unsupported) };
    Ok(Expr::Call(Function::PadEnd, vec![of.expr, int(i32::try_from(length).unwrap_or(i32::MAX))]))
}

fn int(value: i32) -> Expr {
    Expr::Value(Value::Plain(Datum::Int4(value)))
}

/// A numeric literal: the smallest of integer, bigint and numeric that holds it.
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

/// An identifier after case folding: unquoted names become lower case.
pub(crate) fn fold_ident(name: &ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
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
