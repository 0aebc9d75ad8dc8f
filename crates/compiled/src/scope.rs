//! Name scope of a query: its catalog, subqueries and aggregates.

use std::sync::Arc;

use model::{Error, Result, SequenceRef, SqlState, TableId, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::aggregate::{Aggregate, Kind};
use crate::bind::{Bind, Binder, ExprScope, Refusal, Source, Subquery, Typed, fold_ident};
use crate::cast::Context;
use crate::derived_tables::{self, Rows};
use crate::expr::Expr;
use crate::functions::function_name;
use crate::select::{self, Output, Select};
use crate::subquery::{self, ResultKind};

/// Catalog lookups for statements.
pub trait Tables {
    /// A `rows` table by case-folded name; without a schema it is looked up in the search path. `None` if it does
    /// not exist or is not a `rows` table.
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>>;

    /// A sequence by name, with the same rules.
    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef>;

    /// A sequence by its number in `pg_class`, as values of type regclass have it.
    fn sequence_of_oid(&self, _: u32) -> Option<SequenceRef> {
        None
    }

    /// A table by id, for foreign keys.
    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>>;

    /// Tables with a foreign key that references this one.
    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>>;
}

/// Scope of the expressions of one query.
pub(crate) struct Scope<'t> {
    pub(crate) tables: &'t dyn Tables,
    /// Aggregates found so far; `None` where aggregates are not allowed.
    pub(crate) aggregates: Option<Vec<Aggregate>>,
    /// Number of grouping columns: aggregates follow them in [`Expr::Computed`].
    pub(crate) grouped: usize,
    /// Name of the clause, for the error about an aggregate in it.
    pub(crate) clause: &'static str,
    /// Schema searched first for unqualified names: in a DEFAULT, that of its table.
    pub(crate) schema: Option<String>,
}

impl<'t> Scope<'t> {
    pub(crate) fn new(tables: &'t dyn Tables) -> Scope<'t> {
        Scope { tables, aggregates: None, grouped: 0, clause: "WHERE", schema: None }
    }
}

/// Clause name while an aggregate's argument is bound.
const NESTED: &str = "aggregate function calls cannot be nested";

impl ExprScope for Scope<'_> {
    fn aggregate(&mut self, binder: &mut Binder, call: &ast::Function) -> Bind<Typed> {
        // Taken while an aggregate's argument is bound.
        let Some(mut found) = self.aggregates.take() else {
            // It may belong to the enclosing query, which is not supported here.
            if self.clause != NESTED && binder.is_inside() {
                return Err(Refusal::Unsupported);
            }
            let text = match self.clause {
                NESTED => NESTED.to_owned(),
                clause => format!("aggregate functions are not allowed in {clause}"),
            };
            return Err(Error::new(SqlState::GROUPING_ERROR, text).into());
        };
        let clause = std::mem::replace(&mut self.clause, NESTED);
        let bound = aggregate(binder, call, self);
        self.clause = clause;
        let result = bound.map(|(aggregate, ty)| {
            found.push(aggregate);
            Typed::new(Expr::Computed(self.grouped + found.len() - 1), ty)
        });
        self.aggregates = Some(found);
        result
    }

    fn subquery(&mut self, binder: &mut Binder, query: &ast::Query, kind: Subquery) -> Bind<Typed> {
        let (mut select, given) = binder.inside(false, |binder| select::bind(binder, query, self.tables))?;
        match kind {
            Subquery::Exists { not } => {
                let found = Expr::Result { of: add(binder, ResultKind::Existence, select), given };
                Ok(Typed::new(if not { Expr::Not(Box::new(found)) } else { found }, Type::Bool))
            }
            Subquery::Scalar => {
                let ty = only_column(&select, "subquery must return only one column")?;
                Ok(Typed::new(Expr::Result { of: add(binder, ResultKind::Value, select), given }, ty))
            }
            Subquery::In { what, not } => {
                let what = match_only_column(binder, what, &mut select, "=")?;
                let of = add(binder, ResultKind::Set, select);
                Ok(Typed::new(Expr::InResult { what: Box::new(what), of, given, not }, Type::Bool))
            }
            Subquery::InRows { what, not } => {
                if what.len() != select.columns.len() {
                    let few = if what.len() < select.columns.len() { "many" } else { "few" };
                    let text = format!("subquery has too {few} columns");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, text).into());
                }
                let (mut whats, mut types) = (Vec::new(), Vec::new());
                for (at, what) in what.into_iter().enumerate() {
                    let (what, ty) = match_column(binder, what, &mut select, at, "=")?;
                    whats.push(what);
                    types.push(ty);
                }
                let of = add(binder, ResultKind::Rows, select);
                Ok(Typed::new(Expr::InRows { what: whats, types, of, given, not }, Type::Bool))
            }
            Subquery::Compared { what, comparison, all } => {
                let what = Box::new(match_only_column(binder, what, &mut select, "<")?);
                let of = add(binder, ResultKind::Set, select);
                Ok(Typed::new(Expr::ComparedResult { what, comparison, of, given, all }, Type::Bool))
            }
        }
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self.tables)
    }

    fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }
}

fn add(binder: &mut Binder, kind: ResultKind, select: Select) -> usize {
    binder.subqueries.push(subquery::Subquery { kind, select });
    binder.subqueries.len() - 1
}

/// Casts a value and the single column of a subquery to their common type.
fn match_only_column(binder: &mut Binder, what: Typed, select: &mut Select, operator: &str) -> Bind<Expr> {
    only_column(select, "subquery has too many columns")?;
    match_column(binder, what, select, 0, operator).map(|(what, _)| what)
}

/// Casts a value and a column of a subquery to their common type.
fn match_column(
    binder: &mut Binder,
    what: Typed,
    select: &mut Select,
    at: usize,
    operator: &str,
) -> Bind<(Expr, Type)> {
    let column = Typed::new(select.output[at].clone(), select.columns[at].ty);
    let ([what, column], ty) = binder.with_common_type(what, column, operator)?;
    select.output[at] = column;
    select.columns[at].ty = ty;
    Ok((what, ty))
}

fn only_column(select: &Select, otherwise: &str) -> Result<Type> {
    match select.columns.as_slice() {
        [column] => Ok(column.ty),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, otherwise)),
    }
}

fn aggregate(binder: &mut Binder, call: &ast::Function, scope: &mut Scope<'_>) -> Bind<(Aggregate, Type)> {
    let kind = function_name(&call.name).and_then(|name| Kind::from_name(&name)).ok_or(Refusal::Unsupported)?;
    let ast::FunctionArguments::List(list) = &call.args else { return Err(Refusal::Unsupported) };
    let filter = call.filter.as_ref().map(|filter| binder.condition(filter, "FILTER", scope)).transpose()?;
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    let order = match list.clauses.as_slice() {
        [] => Vec::new(),
        [ast::FunctionArgumentClause::OrderBy(order)] if !distinct => select::ordering(binder, order, scope)?,
        _ => return Err(Refusal::Unsupported),
    };
    let mut made =
        Aggregate { kind, of: None, ty: Type::Bool, distinct: false, between: None, order, filter, general: None };
    let of = match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] if kind == Kind::Count && !distinct => None,
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of))] if kind != Kind::Join => Some(of),
        [
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of)),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(between)),
        ] if kind == Kind::Join => {
            let between = binder.expr(between, scope)?;
            made.between = Some(binder.text(between)?);
            Some(of)
        }
        _ => return Err(Refusal::Unsupported),
    };
    let Some(of) = of else {
        refuse_outer(&made)?;
        return Ok((made, Type::Int8));
    };
    let of = binder.expr(of, scope)?;
    let of = binder.resolve_unknown(of, if matches!(kind, Kind::And | Kind::Or) { Type::Bool } else { Type::Text })?;
    let ty = of.ty.unwrap_or(Type::Text);
    let result = kind.result(ty).ok_or(Refusal::Unsupported)?;
    if distinct && !ty.is_ordered() {
        return Err(Refusal::Unsupported);
    }
    let made = Aggregate { of: Some(of.expr), ty, distinct, ..made };
    refuse_outer(&made)?;
    Ok((made, result))
}

/// Refuses an aggregate over columns of enclosing queries alone, which belongs to the innermost of these.
fn refuse_outer(aggregate: &Aggregate) -> Bind<()> {
    let order = aggregate.order.iter().map(|order| &order.by);
    let parts = aggregate.of.iter().chain(&aggregate.filter).chain(&aggregate.between).chain(order);
    let (mut is_outer, mut is_own) = (false, false);
    for part in parts {
        part.visit(&mut |part| {
            is_outer |= matches!(part, Expr::OuterValue(_));
            is_own |= matches!(part, Expr::Field { .. });
        });
    }
    if is_outer && !is_own { Err(Refusal::Unsupported) } else { Ok(()) }
}

/// Binds a table of FROM.
pub(crate) fn source(binder: &mut Binder, factor: &ast::TableFactor, tables: &dyn Tables) -> Bind<Source> {
    let slot = binder.sources.len();
    match factor {
        ast::TableFactor::Table {
            name,
            alias,
            args: None,
            version: None,
            with_ordinality: false,
            json_path: None,
            sample: None,
            ..
        } => {
            if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty() || alias.at.is_some()) {
                return Err(Refusal::Unsupported);
            }
            let alias = alias.as_ref().map(|alias| fold_ident(&alias.name));
            if let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() {
                let name = fold_ident(name);
                if let Some(common) = binder.common.iter().rev().find(|common| common.name == name) {
                    return Ok(Source { name: alias.unwrap_or(name), slot, ..common.clone() });
                }
            }
            let table = named(name, tables)?;
            Ok(Source::stored(alias.unwrap_or_else(|| table.schema.name.table.clone()), slot, table))
        }
        ast::TableFactor::Derived { lateral, subquery, alias, sample: None } => {
            let Some(alias) = alias else {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias").into());
            };
            let (made, given) = binder.inside(!lateral, |binder| query(binder, subquery, tables))?;
            derived_tables::source(binder, made, given, Some(alias))
        }
        _ => Err(Refusal::Unsupported),
    }
}

/// Binds the query of a derived table.
fn query(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<(Rows, Vec<Output>)> {
    let select = select::bind(binder, query, tables)?;
    let columns = select.columns.clone();
    Ok((Rows::Select(Box::new(select)), columns))
}

/// Adds the common table expressions of a WITH clause to the scope.
pub(crate) fn with(binder: &mut Binder, with: &ast::With, tables: &dyn Tables) -> Bind<()> {
    let first = binder.common.len();
    for one in &with.cte_tables {
        if one.from.is_some() {
            return Err(Refusal::Unsupported);
        }
        let name = fold_ident(&one.alias.name);
        if binder.common[first..].iter().any(|other| other.name == name) {
            let text = format!("WITH query name \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_ALIAS, text).into());
        }
        let (made, given) = binder.inside(false, |binder| query(binder, &one.query, tables))?;
        // A common table expression is evaluated once, so it cannot be correlated.
        if !given.is_empty() {
            return Err(Refusal::Unsupported);
        }
        let source = derived_tables::source(binder, made, given, Some(&one.alias))?;
        binder.common.push(source);
    }
    Ok(())
}

/// Looks up a table; unknown names are left to DataFusion, which has the other stores.
pub(crate) fn named(name: &ast::ObjectName, tables: &dyn Tables) -> Bind<Arc<RowTable>> {
    let mut parts = Vec::with_capacity(2);
    for part in &name.0 {
        let ast::ObjectNamePart::Identifier(part) = part else { return Err(Refusal::Unsupported) };
        parts.push(fold_ident(part));
    }
    let table = match parts.as_slice() {
        [table] => tables.table(None, table),
        [schema, table] => tables.table(Some(schema), table),
        _ => None,
    };
    table.ok_or(Refusal::Unsupported)
}

/// Splits a condition at AND into `out`.
pub(crate) fn cut(condition: Expr, out: &mut Vec<Expr>) {
    match condition {
        Expr::And(sides) => sides.into_iter().for_each(|side| cut(side, out)),
        other => out.push(other),
    }
}

/// Binds LIMIT or OFFSET, cast to bigint.
pub(crate) fn count(binder: &mut Binder, expr: &ast::Expr, scope: &mut Scope<'_>) -> Bind<Expr> {
    let bound = binder.expr(expr, scope)?;
    Ok(binder.cast(bound, Type::Int8, Context::Explicit)?.expr)
}
