//! Derived tables: subqueries in FROM, common table expressions, VALUES, UNION, INTERSECT and EXCEPT.
//!
//! Their rows are encoded like rows of stored tables, so that expressions read both alike. An uncorrelated query
//! runs once for each run of the statement, on first use.

use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Datum, Error, Result, RowColumn, RowSchema, SqlState, TableId, TableName, Type};
use rows::key::{self, KeyColumn};
use rows::row::RowLayout;
use rows::{Records, RowTable};
use rustc_hash::{FxHashMap, FxHashSet};
use sqlparser::ast;

use crate::aggregate::nullable;
use crate::bind::{Bind, Binder, DEPTH_MAX, DerivedRef, Refusal, Source, Typed, fold_ident};
use crate::cast::Context;
use crate::exec::{ExecContext, Flow, Run};
use crate::expr::{Expr, Value};
use crate::scope::{Scope, Tables};
use crate::select::{self, Output, Select};
use crate::sort_limit::Emit;
use crate::types::{base_type, union};

/// A derived table.
pub(crate) struct Derived {
    pub(crate) rows: Rows,
    pub(crate) layout: Arc<RowLayout>,
}

/// The source of its rows.
pub(crate) enum Rows {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set(Box<Set>),
}

/// UNION, INTERSECT or EXCEPT, with or without ALL.
pub(crate) struct Set {
    pub(crate) kind: Kind,
    pub(crate) all: bool,
    pub(crate) sides: [Rows; 2],
    /// Key columns for duplicate elimination.
    pub(crate) columns: Vec<KeyColumn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Union,
    Intersect,
    Except,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Union => "UNION",
            Kind::Intersect => "INTERSECT",
            Kind::Except => "EXCEPT",
        }
    }
}

impl Derived {
    /// Runs the query; returns its rows, encoded, in the arena.
    pub(crate) fn make<'a>(&'a self, ctx: &'a ExecContext<'a>, given: Vec<Datum<'a>>) -> Result<&'a [&'a [u8]]> {
        let (mut made, mut bytes) = (Vec::new(), Vec::new());
        self.rows.run(ctx, &given, &mut |row| {
            ctx.look()?;
            bytes.clear();
            self.layout.encode(row, &mut bytes)?;
            made.push(&*ctx.arena.alloc_slice_copy(&bytes));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(ctx.arena.alloc_slice_copy(&made))
    }
}

impl Rows {
    fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, given: &[Datum<'a>], emit: Emit<'_, 'a>) -> Result<()> {
        match self {
            Rows::Select(select) => select.run(ctx, given.to_vec(), emit).map(drop),
            Rows::Values(rows) => {
                let run = Run::new(&[], ctx, given.to_vec());
                for row in rows {
                    let row = row.iter().map(|one| one.eval(&run.frame)).collect::<Result<Vec<_>>>()?;
                    if emit(&row)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Rows::Set(set) => set.run(ctx, given, emit),
        }
    }

    /// Whether it scans a whole table.
    pub(crate) fn reads_whole_tables(&self) -> bool {
        match self {
            Rows::Select(select) => select.reads_whole_tables(),
            Rows::Values(_) => false,
            Rows::Set(set) => set.sides.iter().any(Rows::reads_whole_tables),
        }
    }

    /// Appends the SELECTs it consists of.
    pub(crate) fn selects<'s>(&'s self, out: &mut Vec<&'s Select>) {
        match self {
            Rows::Select(select) => out.push(select),
            Rows::Values(_) => {}
            Rows::Set(set) => set.sides.iter().for_each(|side| side.selects(out)),
        }
    }
}

impl Set {
    fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, given: &[Datum<'a>], emit: Emit<'_, 'a>) -> Result<()> {
        let [left, right] = &self.sides;
        if self.kind == Kind::Union {
            let mut seen = FxHashSet::default();
            let mut each = |row: &[Datum<'a>]| -> Result<Flow> {
                if self.all {
                    return emit(row);
                }
                let key = self.key(row)?;
                ctx.keep(key.len() + size_of::<Vec<u8>>());
                if seen.insert(key) { emit(row) } else { Ok(ControlFlow::Continue(())) }
            };
            left.run(ctx, given, &mut each)?;
            return right.run(ctx, given, &mut each);
        }
        // For each row: its count on the right side, less the matches on the left.
        let mut counts: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
        right.run(ctx, given, &mut |row| {
            let key = self.key(row)?;
            ctx.keep(key.len() + size_of::<(Vec<u8>, u64)>());
            *counts.entry(key).or_default() += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut seen = FxHashSet::default();
        left.run(ctx, given, &mut |row| {
            let key = self.key(row)?;
            let count = counts.get_mut(&key).filter(|count| **count > 0);
            let found = count.is_some();
            if let Some(count) = count
                && self.all
            {
                *count -= 1;
            }
            let wanted = found == (self.kind == Kind::Intersect) && (self.all || seen.insert(key));
            if wanted { emit(row) } else { Ok(ControlFlow::Continue(())) }
        })
    }

    fn key(&self, row: &[Datum<'_>]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (value, column) in row.iter().zip(&self.columns) {
            key::push(&mut bytes, column, value)?;
        }
        Ok(bytes)
    }
}

/// A column while the query is bound; string literals and NULL have no type yet.
struct Column {
    name: String,
    ty: Option<Type>,
}

/// Binds a query body other than a plain SELECT.
pub(crate) fn bind(binder: &mut Binder, body: &ast::SetExpr, tables: &dyn Tables) -> Bind<(Rows, Vec<Output>)> {
    let (mut rows, mut columns) = parts(binder, body, tables)?;
    for (at, column) in columns.iter_mut().enumerate() {
        if column.ty.is_none() {
            become_type(binder, &mut rows, at, None, Type::Text)?;
            column.ty = Some(Type::Text);
        }
    }
    let output = |column: Column| Output {
        name: column.name,
        ty: column.ty.unwrap_or(Type::Text),
        origin: None,
        announced: None,
    };
    Ok((rows, columns.into_iter().map(output).collect()))
}

fn parts(binder: &mut Binder, body: &ast::SetExpr, tables: &dyn Tables) -> Bind<(Rows, Vec<Column>)> {
    binder.sources.clear();
    let select = match body {
        ast::SetExpr::Select(_) => select::bind(binder, &query_of(body.clone()), tables)?,
        ast::SetExpr::Query(query) => select::bind(binder, query, tables)?,
        ast::SetExpr::Values(list) => return values(binder, list, tables),
        ast::SetExpr::SetOperation { op, set_quantifier, left, right } => {
            return set(binder, (*op, *set_quantifier), left, right, tables);
        }
        _ => return Err(Refusal::Unsupported),
    };
    binder.sources.clear();
    let column = |(at, column): (usize, &Output)| Column {
        name: column.name.clone(),
        ty: (!select.untyped.contains(&at)).then_some(column.ty),
    };
    let columns = select.columns.iter().enumerate().map(column).collect();
    Ok((Rows::Select(Box::new(select)), columns))
}

/// A query with this body and no other clauses.
fn query_of(body: ast::SetExpr) -> ast::Query {
    ast::Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

fn values(binder: &mut Binder, list: &ast::Values, tables: &dyn Tables) -> Bind<(Rows, Vec<Column>)> {
    let mut scope = Scope::new(tables);
    scope.clause = "VALUES";
    let width = list.rows.first().map_or(0, |row| row.content.len());
    if list.rows.iter().any(|row| row.content.len() != width) {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length").into());
    }
    let mut rows: Vec<Vec<Expr>> = list.rows.iter().map(|_| Vec::with_capacity(width)).collect();
    let mut columns = Vec::with_capacity(width);
    for at in 0..width {
        let bound = list.rows.iter().map(|row| binder.expr(&row.content[at], &mut scope)).collect::<Bind<Vec<_>>>()?;
        let (all, ty) = binder.one_type(bound, "VALUES")?;
        rows.iter_mut().zip(all).for_each(|(row, expr)| row.push(expr));
        columns.push(Column { name: format!("column{}", at + 1), ty: Some(ty) });
    }
    Ok((Rows::Values(rows), columns))
}

fn set(
    binder: &mut Binder,
    (op, quantifier): (ast::SetOperator, ast::SetQuantifier),
    left: &ast::SetExpr,
    right: &ast::SetExpr,
    tables: &dyn Tables,
) -> Bind<(Rows, Vec<Column>)> {
    let kind = match op {
        ast::SetOperator::Union => Kind::Union,
        ast::SetOperator::Intersect => Kind::Intersect,
        ast::SetOperator::Except => Kind::Except,
        ast::SetOperator::Minus => return Err(Refusal::Unsupported),
    };
    let all = match quantifier {
        ast::SetQuantifier::All => true,
        ast::SetQuantifier::Distinct | ast::SetQuantifier::None => false,
        _ => return Err(Refusal::Unsupported),
    };
    // Each level uses stack of the thread, here and at run time.
    if binder.depth >= DEPTH_MAX {
        return Err(Refusal::Unsupported);
    }
    binder.depth += 1;
    let (mut left, mut columns) = parts(binder, left, tables)?;
    let (mut right, others) = parts(binder, right, tables)?;
    binder.depth -= 1;
    if columns.len() != others.len() {
        let text = format!("each {} query must have the same number of columns", kind.name());
        return Err(Error::new(SqlState::SYNTAX_ERROR, text).into());
    }
    let mut keys = Vec::with_capacity(columns.len());
    for (at, (column, other)) in columns.iter_mut().zip(others).enumerate() {
        let ty = match (column.ty, other.ty) {
            (Some(one), Some(other)) if one == other => Some(one),
            (Some(one), Some(other)) => Some(union(one, other).ok_or_else(|| {
                let (name, one, other) = (kind.name(), one.sql_name(), other.sql_name());
                let text = format!("{name} types {one} and {other} cannot be matched");
                Error::new(SqlState::DATATYPE_MISMATCH, text)
            })?),
            // Duplicate elimination needs a type.
            (None, None) if !all => Some(Type::Text),
            (Some(one), None) => Some(type_next_to_unknown(one, &right, at)),
            (None, Some(other)) => Some(type_next_to_unknown(other, &left, at)),
            (None, None) => None,
        };
        if let Some(ty) = ty {
            become_type(binder, &mut left, at, column.ty, ty)?;
            become_type(binder, &mut right, at, other.ty, ty)?;
            if !all && !ty.is_ordered() {
                let text = format!("could not identify an equality operator for type {}", ty.sql_name());
                return Err(Error::new(SqlState::UNDEFINED_FUNCTION, text).into());
            }
        }
        column.ty = ty;
        keys.push(nullable(ty.unwrap_or(Type::Text)));
    }
    Ok((Rows::Set(Box::new(Set { kind, all, sides: [left, right], columns: keys })), columns))
}

/// Column type where the other side has none: without modifier. (Next to NULL, char(n) may keep its padding.)
fn type_next_to_unknown(ty: Type, other: &Rows, at: usize) -> Type {
    if matches!(ty, Type::Char(_)) && is_null(other, at) { ty } else { base_type(ty) }
}

/// Whether a column is a NULL literal in all rows.
fn is_null(rows: &Rows, at: usize) -> bool {
    let is = |expr: &Expr| matches!(expr, Expr::Value(Value::Plain(Datum::Null)));
    match rows {
        Rows::Select(select) => is(&select.output[at]),
        Rows::Values(rows) => rows.iter().all(|row| is(&row[at])),
        Rows::Set(set) => set.sides.iter().all(|side| is_null(side, at)),
    }
}

/// Casts a column of all rows to another type.
fn become_type(binder: &mut Binder, rows: &mut Rows, at: usize, from: Option<Type>, to: Type) -> Bind<()> {
    if from == Some(to) {
        return Ok(());
    }
    // Values would be padded on one side and not on the other: leave it to DataFusion.
    if matches!((from, to), (Some(Type::Char(Some(_))), Type::Char(None))) {
        return Err(Refusal::Unsupported);
    }
    let mut cast = |expr: &mut Expr| -> Bind<()> {
        let what = Typed { expr: std::mem::replace(expr, Expr::Now), ty: from };
        *expr = binder.cast(what, to, Context::Explicit)?.expr;
        Ok(())
    };
    match rows {
        Rows::Select(select) => {
            select.columns[at].ty = to;
            cast(&mut select.output[at])
        }
        Rows::Values(rows) => rows.iter_mut().try_for_each(|row| cast(&mut row[at])),
        Rows::Set(set) => {
            set.columns[at].ty = to;
            set.sides.iter_mut().try_for_each(|side| become_type(binder, side, at, from, to))
        }
    }
}

/// A source for a derived table, with the name and column names of its alias.
pub(crate) fn source(
    binder: &mut Binder,
    (rows, columns): (Rows, Vec<Output>),
    given: Vec<Expr>,
    alias: Option<&ast::TableAlias>,
) -> Bind<Source> {
    let name = alias.map(|alias| fold_ident(&alias.name)).unwrap_or_default();
    let called = alias.map_or(&[][..], |alias| &alias.columns);
    if called.len() > columns.len() {
        let (there, named) = (columns.len(), called.len());
        let text = format!("table \"{name}\" has {there} columns available but {named} columns specified");
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).into());
    }
    let mut own: Vec<RowColumn> = columns.into_iter().map(|one| RowColumn::new(one.name, one.ty)).collect();
    own.iter_mut().zip(called).for_each(|(column, name)| column.name = fold_ident(&name.name));
    let table = table_of(name.clone(), own)?;
    binder.derived.push(Derived { rows, layout: Arc::clone(&table.layout) });
    let derived = DerivedRef { of: binder.derived.len() - 1, given };
    Ok(Source { name, slot: binder.sources.len(), table, derived: Some(derived), hidden: Vec::new() })
}

/// The description of a derived table's rows, as of a stored table without rows.
pub(crate) fn table_of(name: String, columns: Vec<RowColumn>) -> Result<Arc<RowTable>> {
    let schema = RowSchema {
        id: TableId(0),
        name: TableName { schema: String::new(), table: name },
        version: 0,
        columns,
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
    };
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::of(&schema)?),
        records: Arc::new(Records::new()),
        primary: None,
        secondary: Vec::new(),
        schema: Arc::new(schema),
    }))
}
