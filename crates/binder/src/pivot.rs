//! PIVOT, which makes columns of the values of one column, and UNPIVOT, which makes rows of columns. Both are bound as the query
//! that they stand for: a GROUP BY with filtered aggregates, and a lateral join with VALUES.

use model::{Error, Result, SqlState};
use parser::ast::{
    self, Alias, DerivedTable, Expr as Ast, ExprKind, GroupItem, Ident, OperatorExpr, OperatorName, Pivot, PivotKind,
    Pos, Query, QueryBody, Select, TableExpr, Target, Visitor,
};
use std::ops::ControlFlow;

use crate::binder::{Binder, error, unsupported};
use crate::scope::{Scope, Source};
use crate::tree::Rel;

/// Maximum number of columns that PIVOT makes.
const COLUMNS_MAX: usize = 1_600;

impl Binder<'_> {
    /// PIVOT or UNPIVOT as an item of FROM.
    pub(crate) fn pivot(&mut self, scope: &Scope<'_>, pivot: &Pivot) -> Result<(Rel, Vec<Source>)> {
        if self.notes.is_some() {
            return Err(unsupported("PIVOT in the query of a view", pivot.at));
        }
        let inner = Scope::new(Some(scope));
        let mut items = vec![pivot.source.clone()];
        if let PivotKind::Rows { value, name, columns, .. } = &pivot.kind {
            items.push(rows_of_columns(value, name, columns, pivot.at));
        }
        let rel = self.from(&inner, &items)?;
        let select = match &pivot.kind {
            PivotKind::Columns { aggregates, by, values } => {
                let named = names(aggregates.iter().map(|target| &target.expr).chain([by]));
                let mut select = others(&inner, &named, pivot.at);
                select.group_by = select.targets.iter().map(|target| GroupItem::Expr(target.expr.clone())).collect();
                select.targets.extend(columns_of_values(aggregates, by, values, pivot.at)?);
                select
            }
            PivotKind::Rows { nulls, value, columns, .. } => {
                let mut select = others(&inner, &names(columns.iter().map(|(column, _)| column)), pivot.at);
                if !nulls {
                    select.filter = Some(Ast::new(ExprKind::IsNotNull(Box::new(column(value, pivot.at))), pivot.at));
                }
                select
            }
        };
        let query = Query::of(QueryBody::Values(Vec::new()), pivot.at);
        let bound = self.select_of(&inner, rel, &select, &query, true)?;
        self.source_of(scope, bound, pivot.alias.as_ref(), pivot.at)
    }
}

fn column(name: &Ident, at: Pos) -> Ast {
    Ast::new(ExprKind::Column(name.clone()), at)
}

/// The columns that expressions name.
fn names<'e>(exprs: impl Iterator<Item = &'e Ast>) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl Visitor for Names {
        type Break = ();

        fn enter_expr(&mut self, expr: &Ast) -> ControlFlow<()> {
            match &expr.kind {
                ExprKind::Column(name) => self.0.push(name.clone()),
                ExprKind::Path(parts) => self.0.extend(parts.last().cloned()),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut found = Names(Vec::new());
    for expr in exprs {
        let _: ControlFlow<()> = found.visit_expr(expr);
    }
    found.0
}

/// A select list of the columns of FROM that are not `named`.
fn others(scope: &Scope<'_>, named: &[Ident], at: Pos) -> Select {
    let mut targets = Vec::new();
    for source in scope.tables.borrow().iter().filter(|source| source.by_column) {
        for one in source.columns.iter().filter(|one| !one.is_added && !named.contains(&one.name)) {
            let kind = match source.name.is_empty() {
                true => ExprKind::Column(one.name.clone()),
                false => ExprKind::Path(Box::new([source.name.clone(), one.name.clone()])),
            };
            targets.push(Target { expr: Ast::new(kind, at), alias: Some(one.name.clone()) });
        }
    }
    Select { targets, ..Select::default() }
}

/// A target for each value and aggregate: the aggregate of the rows with the value.
fn columns_of_values(aggregates: &[Target], by: &Ast, values: &[Target], at: Pos) -> Result<Vec<Target>> {
    if values.len().saturating_mul(aggregates.len()) > COLUMNS_MAX {
        let text = format!("PIVOT can make at most {COLUMNS_MAX} columns");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
    }
    let mut targets = Vec::new();
    for value in values {
        for aggregate in aggregates {
            let ExprKind::Function(call) = &aggregate.expr.kind else {
                return Err(error(SqlState::SYNTAX_ERROR, "PIVOT needs calls of aggregates", aggregate.expr.at));
            };
            let mut call = call.clone();
            let is_value = match value.expr.kind {
                ExprKind::Null => ExprKind::IsNull(Box::new(by.clone())),
                _ => ExprKind::Operator(Box::new(OperatorExpr {
                    op: OperatorName::plain("="),
                    left: Some(by.clone()),
                    right: value.expr.clone(),
                })),
            };
            let is_value = Ast::new(is_value, value.expr.at);
            call.filter = Some(match call.filter.take() {
                Some(filter) => Ast::new(ExprKind::And(vec![filter, is_value]), at),
                None => is_value,
            });
            let name = match (&aggregate.alias, aggregates.len()) {
                (None, 1) => name_of(value),
                (Some(alias), _) => Ident::new(format!("{}_{alias}", name_of(value).as_str())),
                (None, _) => Ident::new(format!("{}_{}", name_of(value).as_str(), call.name.name.as_str())),
            };
            let expr = Ast::new(ExprKind::Function(call), aggregate.expr.at);
            targets.push(Target { expr, alias: Some(name) });
        }
    }
    Ok(targets)
}

/// Name of the column of a value: its alias, or what was written.
fn name_of(value: &Target) -> Ident {
    if let Some(alias) = &value.alias {
        return alias.clone();
    }
    match &value.expr.kind {
        ExprKind::String(text) => Ident::new(text),
        _ => Ident::new(value.expr.to_string()),
    }
}

/// `LATERAL (VALUES ('a', a), ('b', b)) AS unpivot (name, value)`
fn rows_of_columns(value: &Ident, name: &Ident, columns: &[(Ast, ast::Text)], at: Pos) -> TableExpr {
    let row = |(column, label): &(Ast, ast::Text)| vec![Ast::new(ExprKind::String(label.clone()), at), column.clone()];
    let query = Box::new(Query::of(QueryBody::Values(columns.iter().map(row).collect()), at));
    let alias = Alias { name: Ident::new("unpivot"), columns: vec![name.clone(), value.clone()] };
    TableExpr::Subquery(Box::new(DerivedTable { lateral: true, query, alias: Some(alias) }))
}
