//! What a statement's expressions are bound among: its tables, its subqueries, its aggregates.

use std::sync::Arc;

use model::{Error, Result, SequenceRef, SqlState, TableId, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::aggregate::{Aggregate, Kind};
use crate::bind::{Around, Bind, Binder, Refusal, Source, Subquery, Typed, folded};
use crate::cast::Context;
use crate::derived_tables::{self, Rows};
use crate::expr::Expr;
use crate::functions::function_name;
use crate::select::{self, Output, Select};
use crate::subquery::{self, Wanted};

/// Where tables are looked up.
pub trait Tables {
    /// The table that a statement names, as names are folded; without a schema it is in the search path. `None` if it is not a `rows`
    /// table.
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>>;

    /// The sequence that a statement names, as [`Tables::table`] finds tables.
    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef>;

    /// The table with this number, which a foreign key refers to.
    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>>;

    /// The tables with foreign keys that refer to this one.
    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>>;
}

/// Around the expressions of one query.
pub(crate) struct Scope<'t> {
    pub(crate) tables: &'t dyn Tables,
    /// Where aggregates can be: those found so far.
    pub(crate) aggregates: Option<Vec<Aggregate>>,
    /// How many columns of groups stand before the aggregates.
    pub(crate) grouped: usize,
    /// What an aggregate would be in, where there can be none.
    pub(crate) clause: &'static str,
    /// Where names without a schema are looked for first: in a default, that of its table.
    pub(crate) schema: Option<String>,
}

impl<'t> Scope<'t> {
    pub(crate) fn new(tables: &'t dyn Tables) -> Scope<'t> {
        Scope { tables, aggregates: None, grouped: 0, clause: "WHERE", schema: None }
    }
}

/// Where the argument of an aggregate is bound.
const NESTED: &str = "aggregate function calls cannot be nested";

impl Around for Scope<'_> {
    fn aggregate(&mut self, binder: &mut Binder, call: &ast::Function) -> Bind<Typed> {
        // While its argument is bound there is no place for another.
        let Some(mut found) = self.aggregates.take() else {
            // It may be one of the query around this one.
            if self.clause != NESTED && binder.is_inside() {
                return Err(Refusal::Other);
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
            Typed::new(Expr::Made(self.grouped + found.len() - 1), ty)
        });
        self.aggregates = Some(found);
        result
    }

    fn subquery(&mut self, binder: &mut Binder, query: &ast::Query, kind: Subquery) -> Bind<Typed> {
        let (mut select, given) = binder.inside(false, |binder| select::bind(binder, query, self.tables))?;
        match kind {
            Subquery::Exists { not } => {
                let found = Expr::Result { of: add(binder, Wanted::Existence, select), given };
                Ok(Typed::new(if not { Expr::Not(Box::new(found)) } else { found }, Type::Bool))
            }
            Subquery::Scalar => {
                let ty = only_column(&select, "subquery must return only one column")?;
                Ok(Typed::new(Expr::Result { of: add(binder, Wanted::Value, select), given }, ty))
            }
            Subquery::In { what, not } => {
                let what = one_of(binder, what, &mut select, "=")?;
                let of = add(binder, Wanted::Set, select);
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
                    let (what, ty) = met(binder, what, &mut select, at, "=")?;
                    whats.push(what);
                    types.push(ty);
                }
                let of = add(binder, Wanted::Rows, select);
                Ok(Typed::new(Expr::InRows { what: whats, types, of, given, not }, Type::Bool))
            }
            Subquery::Compared { what, comparison, all } => {
                let what = Box::new(one_of(binder, what, &mut select, "<")?);
                let of = add(binder, Wanted::Set, select);
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

fn add(binder: &mut Binder, kind: Wanted, select: Select) -> usize {
    binder.subqueries.push(subquery::Subquery { kind, select });
    binder.subqueries.len() - 1
}

/// What is compared with the only column of a query; both become of one type.
fn one_of(binder: &mut Binder, what: Typed, select: &mut Select, operator: &str) -> Bind<Expr> {
    only_column(select, "subquery has too many columns")?;
    met(binder, what, select, 0, operator).map(|(what, _)| what)
}

/// What is compared with a column of a query; both become of one type.
fn met(binder: &mut Binder, what: Typed, select: &mut Select, at: usize, operator: &str) -> Bind<(Expr, Type)> {
    let column = Typed::new(select.output[at].clone(), select.columns[at].ty);
    let ([what, column], ty) = binder.meeting(what, column, operator)?;
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
    let kind = function_name(&call.name).and_then(|name| Kind::named(&name)).ok_or(Refusal::Other)?;
    let ast::FunctionArguments::List(list) = &call.args else { return Err(Refusal::Other) };
    let filter = call.filter.as_ref().map(|filter| binder.condition(filter, "FILTER", scope)).transpose()?;
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    let order = match list.clauses.as_slice() {
        [] => Vec::new(),
        [ast::FunctionArgumentClause::OrderBy(order)] if !distinct => select::ordering(binder, order, scope)?,
        _ => return Err(Refusal::Other),
    };
    let mut made = Aggregate { kind, of: None, ty: Type::Bool, distinct: false, between: None, order, filter };
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
        _ => return Err(Refusal::Other),
    };
    let Some(of) = of else { return Ok((made, Type::Int8)) };
    let of = binder.expr(of, scope)?;
    let of = binder.settle(of, if matches!(kind, Kind::And | Kind::Or) { Type::Bool } else { Type::Text })?;
    let ty = of.ty.unwrap_or(Type::Text);
    let result = kind.result(ty).ok_or(Refusal::Other)?;
    if distinct && !ty.is_ordered() {
        return Err(Refusal::Other);
    }
    Ok((Aggregate { of: Some(of.expr), ty, distinct, ..made }, result))
}

/// A table of FROM, and what the statement calls it.
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
                return Err(Refusal::Other);
            }
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            if let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() {
                let name = folded(name);
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
        _ => Err(Refusal::Other),
    }
}

/// A query as a table: where its rows come from, and their columns.
fn query(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<(Rows, Vec<Output>)> {
    let select = select::bind(binder, query, tables)?;
    let columns = select.columns.clone();
    Ok((Rows::Select(Box::new(select)), columns))
}

/// Has the tables of WITH in sight.
pub(crate) fn with(binder: &mut Binder, with: &ast::With, tables: &dyn Tables) -> Bind<()> {
    let first = binder.common.len();
    for one in &with.cte_tables {
        if one.from.is_some() {
            return Err(Refusal::Other);
        }
        let name = folded(&one.alias.name);
        if binder.common[first..].iter().any(|other| other.name == name) {
            let text = format!("WITH query name \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_ALIAS, text).into());
        }
        let (made, given) = binder.inside(false, |binder| query(binder, &one.query, tables))?;
        // It is made once, whoever names it.
        if !given.is_empty() {
            return Err(Refusal::Other);
        }
        let source = derived_tables::source(binder, made, given, Some(&one.alias))?;
        binder.common.push(source);
    }
    Ok(())
}

/// The table of this name. One that is not here may be another tier's.
pub(crate) fn named(name: &ast::ObjectName, tables: &dyn Tables) -> Bind<Arc<RowTable>> {
    let mut parts = Vec::with_capacity(2);
    for part in &name.0 {
        let ast::ObjectNamePart::Identifier(part) = part else { return Err(Refusal::Other) };
        parts.push(folded(part));
    }
    let table = match parts.as_slice() {
        [table] => tables.table(None, table),
        [schema, table] => tables.table(Some(schema), table),
        _ => None,
    };
    table.ok_or(Refusal::Other)
}

/// A condition cut at AND, added to others.
pub(crate) fn cut(condition: Expr, out: &mut Vec<Expr>) {
    match condition {
        Expr::And(sides) => sides.into_iter().for_each(|side| cut(side, out)),
        other => out.push(other),
    }
}

/// LIMIT and OFFSET: a bigint.
pub(crate) fn count(binder: &mut Binder, expr: &ast::Expr, scope: &mut Scope<'_>) -> Bind<Expr> {
    let bound = binder.expr(expr, scope)?;
    Ok(binder.cast(bound, Type::Int8, Context::Explicit)?.expr)
}
