//! What a statement's expressions are bound among: its tables, its subqueries, its aggregates.

use std::sync::Arc;

use model::{Error, Result, SqlState, TableId, Type};
use rows::RowTable;
use sqlparser::ast;

use crate::aggregate::{Aggregate, Kind};
use crate::bind::{Around, Bind, Binder, Refusal, Source, Subquery, Typed, folded};
use crate::cast::Context;
use crate::expr::Expr;
use crate::select::{self, Select};

/// Where tables are looked up.
pub trait Tables {
    /// The table that a statement names, as names are folded; without a schema it is in the search path. `None` if it is not a `rows`
    /// table.
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>>;

    /// The table with this number, which a foreign key refers to.
    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>>;

    /// The tables with foreign keys that refer to this one.
    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>>;
}

/// A subquery that stands alone: it is run once, before the statement.
pub(crate) struct Before {
    pub(crate) kind: Wanted,
    pub(crate) select: Select,
}

/// What is wanted of a subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Value,
    Existence,
    Set,
}

/// Around the expressions of one query.
pub(crate) struct Scope<'t> {
    pub(crate) tables: &'t dyn Tables,
    pub(crate) before: Vec<Before>,
    /// Where aggregates can be: those found so far.
    pub(crate) aggregates: Option<Vec<Aggregate>>,
    /// How many columns of groups stand before the aggregates.
    pub(crate) grouped: usize,
    /// What an aggregate would be in, where there can be none.
    pub(crate) clause: &'static str,
}

impl<'t> Scope<'t> {
    pub(crate) fn new(tables: &'t dyn Tables) -> Scope<'t> {
        Scope { tables, before: Vec::new(), aggregates: None, grouped: 0, clause: "WHERE" }
    }

    fn answer(&mut self, kind: Wanted, select: Select) -> usize {
        self.before.push(Before { kind, select });
        self.before.len() - 1
    }
}

/// Where the argument of an aggregate is bound.
const NESTED: &str = "aggregate function calls cannot be nested";

impl Around for Scope<'_> {
    fn aggregate(&mut self, binder: &mut Binder, call: &ast::Function) -> Bind<Typed> {
        // While its argument is bound there is no place for another.
        let Some(mut found) = self.aggregates.take() else {
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
        let mut select = inner(binder, query, self.tables)?;
        match kind {
            Subquery::Exists { not } => {
                let of = self.answer(Wanted::Existence, select);
                let found = Expr::Result(of);
                Ok(Typed::new(if not { Expr::Not(Box::new(found)) } else { found }, Type::Bool))
            }
            Subquery::Scalar => {
                let ty = only_column(&select, "subquery must return only one column")?;
                Ok(Typed::new(Expr::Result(self.answer(Wanted::Value, select)), ty))
            }
            Subquery::In { what, not } => {
                let ty = only_column(&select, "subquery has too many columns")?;
                let column = Typed::new(select.output.remove(0), ty);
                let [what, column] = binder.same_type(what, column, "=")?;
                if let Expr::Cast { to, .. } = &column {
                    select.columns[0].ty = *to;
                }
                select.output.push(column);
                let of = self.answer(Wanted::Set, select);
                Ok(Typed::new(Expr::InResult { what: Box::new(what), of, not }, Type::Bool))
            }
        }
    }
}

fn only_column(select: &Select, otherwise: &str) -> Result<Type> {
    match select.columns.as_slice() {
        [column] => Ok(column.ty),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, otherwise)),
    }
}

/// A query within another. One that refers to the outer one is another tier's: here its names are unknown.
fn inner(binder: &mut Binder, query: &ast::Query, tables: &dyn Tables) -> Bind<Select> {
    let mut inside = Binder { params: std::mem::take(&mut binder.params), sources: Vec::new(), depth: binder.depth };
    let select = select::bind(&mut inside, query, tables);
    binder.params = inside.params;
    select.map_err(|refusal| match refusal {
        Refusal::Error(error) if [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE].contains(&error.state()) => {
            Refusal::Other
        }
        other => other,
    })
}

fn aggregate(binder: &mut Binder, call: &ast::Function, scope: &mut Scope<'_>) -> Bind<(Aggregate, Type)> {
    let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return Err(Refusal::Other) };
    let kind = Kind::named(&folded(name)).ok_or(Refusal::Other)?;
    let ast::FunctionArguments::List(list) = &call.args else { return Err(Refusal::Other) };
    if call.filter.is_some() || !list.clauses.is_empty() {
        return Err(Refusal::Other);
    }
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    let of = match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] if kind == Kind::Count && !distinct => None,
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of))] => Some(binder.expr(of, scope)?),
        _ => return Err(Refusal::Other),
    };
    let Some(of) = of else {
        return Ok((Aggregate { kind, of: None, ty: Type::Bool, distinct: false }, Type::Int8));
    };
    let of = binder.settle(of, Type::Text)?;
    let ty = of.ty.unwrap_or(Type::Text);
    let result = kind.result(ty).ok_or(Refusal::Other)?;
    if distinct && !ty.is_ordered() {
        return Err(Refusal::Other);
    }
    Ok((Aggregate { kind, of: Some(of.expr), ty, distinct }, result))
}

/// A table of FROM, and what the statement calls it.
pub(crate) fn source(factor: &ast::TableFactor, slot: usize, tables: &dyn Tables) -> Bind<Source> {
    let ast::TableFactor::Table {
        name,
        alias,
        args: None,
        version: None,
        with_ordinality: false,
        json_path: None,
        sample: None,
        ..
    } = factor
    else {
        return Err(Refusal::Other);
    };
    let table = named(name, tables)?;
    let name = match alias {
        Some(alias) if !alias.columns.is_empty() || alias.at.is_some() => return Err(Refusal::Other),
        Some(alias) => folded(&alias.name),
        None => table.schema.name.table.clone(),
    };
    Ok(Source { name, slot, table })
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
