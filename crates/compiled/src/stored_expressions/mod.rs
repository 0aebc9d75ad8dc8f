//! Expressions of table definitions: CHECK, DEFAULT, and USING of ALTER COLUMN TYPE. Binds them from parsed SQL: resolves
//! columns, infers types as PostgreSQL does, and inserts its implicit casts.
//!
//! - [`condition_of`], [`default_of`]: expressions that a table's description stores as SQL.
//! - [`Binder`]: any expression. `operators` and `functions` are parts of it.
//!
//! A construct that a table definition cannot have here is [`Refusal::Unsupported`]; one that is wrong is an error.

mod functions;
mod operators;

use std::sync::Arc;

use model::{Datum, Error, Numeric, Result, SequenceRef, SqlState, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::cast::{self, Context, NoZone};
use crate::dialect::{fold_ident, parser_of};
use crate::expr::{Expr, Function, Layout, Value};
use crate::statement::Tables;
use crate::types::{assignable, base_type, data_type, same_bytes};

/// The reason for not binding an expression.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The construct is not supported here.
    Unsupported,
    /// The expression is invalid.
    Error(Error),
}

pub(crate) type Bind<T> = std::result::Result<T, Refusal>;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}

/// The clause of an expression, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Check,
    Default,
    Using,
}

impl Clause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clause::Check => "check constraint",
            Clause::Default => "DEFAULT expression",
            Clause::Using => "transform expression",
        }
    }
}

/// An expression and its type. A string literal or NULL has no type yet.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Option<Type>,
}

impl Typed {
    fn new(expr: Expr, ty: Type) -> Typed {
        Typed { expr, ty: Some(ty) }
    }
}

/// Slot of the row that an expression reads.
const ROW: usize = 0;

/// Binds one expression.
pub(crate) struct Binder<'t> {
    clause: Clause,
    /// The table whose row the expression reads, if it reads one.
    row: Option<&'t RowTable>,
    /// The catalog for `nextval`, and the schema that it searches first for unqualified names. DDL has none: it treats
    /// `nextval` itself.
    sequences: Option<(&'t dyn Tables, &'t str)>,
    /// Nesting depth of the current expression.
    depth: u32,
}

/// Deeper expressions are refused: each level here uses stack of the thread.
const DEPTH_MAX: u32 = 256;

/// Binds the SQL of a CHECK constraint of `table`.
///
/// # Errors
/// As [`Binder::check`].
pub(crate) fn condition_of(sql: &str, table: &RowTable) -> Bind<Expr> {
    Binder::new(Clause::Check, Some(table)).check(&parsed(sql)?)
}

/// Binds a column's DEFAULT; NULL if it has none.
///
/// # Errors
/// 42P01 for a sequence that does not exist; those of the binder.
pub(crate) fn default_of(table: &RowTable, column: usize, tables: &dyn Tables) -> Bind<Expr> {
    let column = &table.schema.columns[column];
    let Some(sql) = &column.default else { return Ok(null()) };
    let sequences = Some((tables, table.schema.name.schema.as_str()));
    let mut binder = Binder { sequences, ..Binder::new(Clause::Default, None) };
    let bound = binder.expr(&parsed(sql)?)?;
    binder.assigned(bound, column.ty, &column.name)
}

/// Parses an expression from a table's description.
fn parsed(sql: &str) -> Bind<ast::Expr> {
    parser_of(sql).and_then(|mut parser| parser.parse_expr()).map_err(|_| Refusal::Unsupported)
}

impl<'t> Binder<'t> {
    pub(crate) fn new(clause: Clause, row: Option<&'t RowTable>) -> Binder<'t> {
        Binder { clause, row, sequences: None, depth: 0 }
    }

    /// Binds the condition of a CHECK constraint.
    ///
    /// # Errors
    /// 42804 if it is not boolean; those of the binder.
    pub(crate) fn check(&mut self, expr: &ast::Expr) -> Bind<Expr> {
        self.condition(expr, "CHECK")
    }

    /// Binds an expression of any type.
    pub(crate) fn expr(&mut self, expr: &ast::Expr) -> Bind<Typed> {
        if self.depth == DEPTH_MAX {
            return Err(Refusal::Unsupported);
        }
        self.depth += 1;
        let bound = self.any(expr);
        self.depth -= 1;
        bound
    }

    fn exprs(&mut self, list: &[ast::Expr]) -> Bind<Vec<Typed>> {
        list.iter().map(|one| self.expr(one)).collect()
    }

    fn any(&mut self, expr: &ast::Expr) -> Bind<Typed> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expr(inner),
            E::Identifier(name) => self.column(None, name),
            E::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.column(Some(table), column),
                _ => Err(Refusal::Unsupported),
            },
            E::Value(value) => self.value(&value.value),
            E::TypedString(string) => {
                let to = data_type(&string.data_type)?;
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
                let to = data_type(to)?;
                let what = self.expr(expr)?;
                self.cast(what, to, Context::Explicit)
            }
            E::IsNull(of) => self.is_null(of, false),
            E::IsNotNull(of) => self.is_null(of, true),
            E::IsTrue(of) => self.is_bool(of, true, false),
            E::IsNotTrue(of) => self.is_bool(of, true, true),
            E::IsFalse(of) => self.is_bool(of, false, false),
            E::IsNotFalse(of) => self.is_bool(of, false, true),
            E::IsDistinctFrom(left, right) => self.is_distinct(left, right, false),
            E::IsNotDistinctFrom(left, right) => self.is_distinct(left, right, true),
            E::UnaryOp { op, expr } => self.unary(*op, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right),
            E::Between { expr, negated, low, high } => self.between(expr, low, high, *negated),
            E::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            E::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false),
            E::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true),
            E::InSubquery { .. } | E::Exists { .. } | E::Subquery(_) => Err(self.subquery()),
            E::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, false)
            }
            E::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated, true)
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Function(call) => self.function(call),
            E::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let of = self.expr(expr)?;
                self.call("ceil", vec![of])
            }
            E::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let of = self.expr(expr)?;
                self.call("floor", vec![of])
            }
            E::Substring { expr, substring_from, substring_for, .. } => {
                let mut given = vec![self.expr(expr)?];
                match substring_from {
                    Some(from) => given.push(self.expr(from)?),
                    None => given.push(Typed::new(int(1), Type::Int4)),
                }
                if let Some(count) = substring_for {
                    given.push(self.expr(count)?);
                }
                self.call("substring", given)
            }
            E::Position { expr, r#in } => {
                let given = vec![self.expr(r#in)?, self.expr(expr)?];
                self.call("strpos", given)
            }
            E::Extract { field, expr, .. } => {
                let of = self.expr(expr)?;
                self.part(&field.to_string(), of)
            }
            E::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                let mut given = vec![self.expr(expr)?];
                if let Some(what) = trim_what {
                    given.push(self.expr(what)?);
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

    fn subquery(&self) -> Refusal {
        Error::unsupported(format!("cannot use subquery in {}", self.clause.name())).into()
    }

    /// Binds a boolean expression. `of` names the construct around it for the error text: "argument of CHECK must be
    /// type boolean".
    fn condition(&mut self, expr: &ast::Expr, of: &str) -> Bind<Expr> {
        let bound = self.expr(expr)?;
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

    /// Resolves a column of the row.
    fn column(&self, table: Option<&ast::Ident>, name: &ast::Ident) -> Bind<Typed> {
        let (wanted, table) = (fold_ident(name), table.map(fold_ident));
        let own = self.row.map(|row| row.schema.name.table.as_str());
        let row = self.row.filter(|_| table.is_none() || table.as_deref() == own);
        if let Some(row) = row
            && let Some(column) = row.schema.column(&wanted)
        {
            let expr = Expr::Field { slot: ROW, column, layout: Layout(Arc::clone(&row.layout)) };
            return Ok(Typed::new(expr, row.schema.columns[column].ty));
        }
        Err(match table {
            Some(table) if row.is_some() => {
                Error::new(SqlState::UNDEFINED_COLUMN, format!("column {table}.{wanted} does not exist"))
            }
            Some(table) => {
                let text = format!("missing FROM-clause entry for table \"{table}\"");
                Error::new(SqlState::UNDEFINED_TABLE, text)
            }
            // The name of a table stands for its row.
            None if own == Some(&*wanted) => return Err(Refusal::Unsupported),
            None => Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{wanted}\" does not exist")),
        }
        .into())
    }

    fn value(&self, value: &ast::Value) -> Bind<Typed> {
        Ok(match value {
            ast::Value::Number(text, _) => number(text)?,
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Typed { expr: Expr::Value(Value::Text(text.as_str().into())), ty: None }
            }
            ast::Value::Boolean(value) => Typed::new(Expr::Value(Value::Plain(Datum::Bool(*value))), Type::Bool),
            ast::Value::Null => Typed { expr: null(), ty: None },
            ast::Value::Placeholder(name) => {
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")).into());
            }
            _ => return Err(Refusal::Unsupported),
        })
    }

    /// A string literal of type `to`. It is parsed now unless the value depends on the session.
    fn literal(&self, text: &str, to: Type) -> Bind<Typed> {
        let arena = bumpalo::Bump::new();
        if cast::depends_on_session(text, to) {
            let what = Box::new(Expr::Value(Value::Text(text.into())));
            return Ok(Typed::new(Expr::Cast { what, to, by: Context::Explicit }, to));
        }
        let value = cast::cast(Datum::Text(text), to, Context::Explicit, &NoZone, &arena)?;
        Ok(Typed::new(Expr::Value(Value::of(&value)), to))
    }

    /// Gives type `ty` to an expression of unknown type; leaves others as they are.
    fn resolve_unknown(&self, bound: Typed, ty: Type) -> Bind<Typed> {
        match (bound.ty, bound.expr) {
            (None, Expr::Value(Value::Text(text))) => self.literal(&text, base_type(ty)),
            (known, expr) => Ok(Typed::new(expr, known.unwrap_or(ty))),
        }
    }

    /// Assignment cast to a column's type. Error 42804 if there is none.
    pub(crate) fn assigned(&self, bound: Typed, ty: Type, column: &str) -> Bind<Expr> {
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

    fn cast(&self, what: Typed, to: Type, by: Context) -> Bind<Typed> {
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

    /// The sequence that the argument of `nextval` names.
    fn sequence(&self, of: &ast::Expr) -> Bind<SequenceRef> {
        let (tables, near) = self.sequences.ok_or(Refusal::Unsupported)?;
        let name = parser_of(text_of(of).ok_or(Refusal::Unsupported)?);
        let name = name.and_then(|mut parser| parser.parse_object_name(false)).map_err(|_| Refusal::Unsupported)?;
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
        let (schema, name) = match parts.as_slice() {
            [name] => (None, name),
            [.., schema, name] => (Some(schema.as_str()), name),
            [] => return Err(Refusal::Unsupported),
        };
        let nearest = if schema.is_none() { tables.sequence(Some(near), name) } else { None };
        nearest.or_else(|| tables.sequence(schema, name)).ok_or_else(|| {
            let schema = schema.map(|schema| format!("{schema}.")).unwrap_or_default();
            Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{schema}{name}\" does not exist")).into()
        })
    }
}

/// The text of a string literal, possibly under casts.
fn text_of(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Nested(expr) | ast::Expr::Cast { expr, .. } => text_of(expr),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A char(n) value padded to its length; blanks at its end are not stored.
fn padded(of: Typed) -> Bind<Expr> {
    let Some(Type::Char(Some(length))) = of.ty else { return Err(Refusal::Unsupported) };
    Ok(Expr::Call(Function::PadEnd, vec![of.expr, int(i32::try_from(length).unwrap_or(i32::MAX))]))
}

fn null() -> Expr {
    Expr::Value(Value::Plain(Datum::Null))
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

fn name_of(ty: Option<Type>) -> &'static str {
    ty.map_or("unknown", Type::sql_name)
}
