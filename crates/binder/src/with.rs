//! WITH.

use model::{Error, Result, SqlState};
use parser::ast::{self, Alias, CteBody as Ast, Ident, Pos, QueryBody, SetOperator, Visitor};

use scalar::Place;

use crate::binder::{Binder, error, unsupported};
use crate::change::BoundChange;
use crate::query::Bound;
use crate::scope::{CteName, Scope, Source, SourceKind};
use crate::tree::{Cte, CteBody, Rel, Subplan};

impl Binder<'_> {
    /// The queries of WITH; their names are then in the scope.
    pub(crate) fn with(&mut self, scope: &Scope<'_>, with: &ast::With) -> Result<()> {
        for (at, cte) in with.ctes.iter().enumerate() {
            if with.ctes[..at].iter().any(|other| other.name == cte.name) {
                let text = format!("WITH query name \"{}\" specified more than once", cte.name);
                return Err(error(SqlState::DUPLICATE_ALIAS, text, cte.at));
            }
            if matches!(cte.body, Ast::Merge(_)) {
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "MERGE not supported in WITH query", cte.at));
            }
        }
        for (at, cte) in with.ctes.iter().enumerate() {
            if cte.search.is_some() || cte.cycle.is_some() {
                return Err(unsupported("SEARCH and CYCLE", cte.at));
            }
            if with.recursive && with.ctes[at + 1..].iter().any(|later| body_mentions(&cte.body, &later.name)) {
                return Err(unsupported("a reference to a later query of WITH", cte.at));
            }
            let is_recursive = with.recursive && body_mentions(&cte.body, &cte.name);
            match &cte.body {
                Ast::Query(query) if is_recursive => self.recursive_cte(scope, cte, query)?,
                Ast::Query(query) => {
                    let bound = self.query(query, Some(scope), true)?;
                    self.plain_cte(scope, cte, bound)?;
                }
                _ if is_recursive => {
                    let text = format!("recursive query \"{}\" must not contain data-modifying statements", cte.name);
                    return Err(error(SqlState("42P19"), text, cte.at));
                }
                Ast::Insert(insert) => {
                    let change = self.insert(insert, Some(scope))?;
                    self.change_cte(scope, cte, change)?;
                }
                Ast::Update(update) => {
                    let change = self.update(update, Some(scope))?;
                    self.change_cte(scope, cte, change)?;
                }
                Ast::Delete(delete) => {
                    let change = self.delete(delete, Some(scope))?;
                    self.change_cte(scope, cte, change)?;
                }
                Ast::Merge(merge) => {
                    self.merge(merge, Some(scope))?;
                }
            }
        }
        Ok(())
    }

    fn change_cte(&mut self, scope: &Scope<'_>, cte: &ast::Cte, change: BoundChange) -> Result<()> {
        if scope.parent.is_some() {
            let text = "WITH clause containing a data-modifying statement must be at the top level";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, cte.at));
        }
        let has_no_rows = change.outputs.is_empty();
        let columns = cte_names(cte, change.outputs.iter().map(|one| Ident::new(&one.output.name)).collect())?;
        self.outer.ctes.push(Default::default());
        self.ctes.push(Cte {
            name: cte.name.as_str().into(),
            columns: change.outputs.iter().map(|one| one.output.column).collect(),
            body: CteBody::Change(Box::new(change.change)),
            materialized: cte.materialized,
            references: 0,
        });
        let number = self.ctes.len() - 1;
        let name = CteName { name: cte.name.clone(), columns, cte: number, is_recursing: false, has_no_rows };
        scope.ctes.borrow_mut().push(name);
        Ok(())
    }

    fn plain_cte(&mut self, scope: &Scope<'_>, cte: &ast::Cte, bound: Bound) -> Result<()> {
        let Bound { mut rel, outputs } = bound;
        let names = cte_names(cte, outputs.iter().map(|one| Ident::new(&one.output.name)).collect())?;
        let columns = outputs.iter().map(|one| one.output.column).collect();
        let number = self.ctes.len();
        self.outer.ctes.push(self.outer.of_rel(&mut rel));
        let body = CteBody::Plain(rel);
        self.ctes.push(Cte {
            name: cte.name.as_str().into(),
            columns,
            body,
            materialized: cte.materialized,
            references: 0,
        });
        let name =
            CteName { name: cte.name.clone(), columns: names, cte: number, is_recursing: false, has_no_rows: false };
        scope.ctes.borrow_mut().push(name);
        Ok(())
    }

    fn recursive_cte(&mut self, scope: &Scope<'_>, cte: &ast::Cte, query: &ast::Query) -> Result<()> {
        let form = || {
            let text = format!(
                "recursive query \"{}\" does not have the form non-recursive-term UNION [ALL] recursive-term",
                cte.name
            );
            error(SqlState("42P19"), text, cte.at)
        };
        let QueryBody::SetOperation(operation) = &query.body else { return Err(form()) };
        if operation.op != SetOperator::Union {
            return Err(form());
        }
        if mentions(&operation.left, &cte.name) {
            let text =
                format!("recursive reference to query \"{}\" must not appear within its non-recursive term", cte.name);
            return Err(error(SqlState("42P19"), text, cte.at));
        }
        let clauses = [
            ("WITH", query.with.is_some()),
            ("ORDER BY", !query.order_by.is_empty()),
            ("OFFSET", query.offset.is_some()),
            ("LIMIT", query.limit.is_some()),
        ];
        if let Some((clause, _)) = clauses.iter().find(|(_, is_there)| *is_there) {
            let text = format!("{clause} in a recursive query is not implemented");
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, cte.at));
        }
        let base = self.query(&operation.left, Some(scope), true)?;
        let names = cte_names(cte, base.outputs.iter().map(|one| Ident::new(&one.output.name)).collect())?;
        let number = self.ctes.len();
        let columns: Vec<u32> = base.outputs.iter().map(|one| one.output.column).collect();
        let places: Vec<Place> = base.outputs.iter().map(|one| one.at).collect();
        let base = Subplan { rel: base.rel, columns };
        // The columns are known before the body is, for the references in the step.
        let columns: Vec<u32> = base.columns.iter().map(|column| self.copy_column(*column)).collect();
        let body = CteBody::Plain(Rel::Single);
        let name = cte.name.as_str().into();
        self.ctes.push(Cte { name, columns: columns.clone(), body, materialized: cte.materialized, references: 0 });
        self.outer.ctes.push(Default::default());
        let name =
            CteName { name: cte.name.clone(), columns: names, cte: number, is_recursing: true, has_no_rows: false };
        scope.ctes.borrow_mut().push(name);
        let step = self.query(&operation.right, Some(scope), false)?;
        let mut step = self.recursive_step(cte, &columns, step, &places)?;
        let mut outer = self.outer.of_rel(&mut step.rel);
        let mut base = base;
        outer.extend(self.outer.of_rel(&mut base.rel));
        self.outer.ctes[number] = outer;
        self.ctes[number].body = CteBody::Recursive { all: operation.all, base, step };
        for cte in scope.ctes.borrow_mut().iter_mut().filter(|cte| cte.cte == number) {
            cte.is_recursing = false;
        }
        Ok(())
    }

    /// The step of a recursive query, with columns of the types that the other part has.
    fn recursive_step(&mut self, cte: &ast::Cte, columns: &[u32], step: Bound, places: &[Place]) -> Result<Subplan> {
        if step.outputs.len() != columns.len() {
            let text = "each UNION query must have the same number of columns";
            return Err(error(SqlState::SYNTAX_ERROR, text, cte.at));
        }
        let wanted: Vec<_> = columns.iter().map(|column| self.columns[*column as usize].ty).collect();
        for (at, (one, ty)) in step.outputs.iter().zip(&wanted).enumerate() {
            let common = self.catalog.common_type(&[*ty, one.output.ty], "UNION")?;
            if common != *ty {
                let text = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    cte.name,
                    at + 1,
                    self.type_name(*ty),
                    self.type_name(common)
                );
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(error(SqlState::DATATYPE_MISMATCH, text, Pos(places[at].0)).with_hint(hint));
            }
        }
        self.converted_columns(step, &wanted, "UNION")
    }

    fn copy_column(&mut self, column: u32) -> u32 {
        let copy = self.columns[column as usize].clone();
        self.columns.push(copy);
        self.columns.len() as u32 - 1
    }

    /// A reference to a query of WITH in FROM.
    pub(crate) fn cte_reference(
        &mut self,
        scope: &Scope<'_>,
        cte: &CteName,
        alias: Option<&Alias>,
        at: Pos,
    ) -> Result<(Rel, Vec<Source>)> {
        if cte.has_no_rows {
            let text = format!("WITH query \"{}\" does not have a RETURNING clause", cte.name);
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
        }
        self.ctes[cte.cte].references += 1;
        let columns: Vec<u32> = self.ctes[cte.cte].columns.clone();
        let columns: Vec<u32> = columns.into_iter().map(|column| self.copy_column(column)).collect();
        let named = cte.columns.iter().cloned().zip(columns.iter().copied()).collect();
        let mut source = self.named_source(scope, &cte.name, named, alias, at)?;
        source.kind = SourceKind::Cte;
        let rel = if cte.is_recursing {
            Rel::WorkTable { cte: cte.cte, columns }
        } else {
            Rel::Cte { cte: cte.cte, columns }
        };
        Ok((rel, vec![source]))
    }
}

/// The names of a query's columns, those behind its name first.
fn cte_names(cte: &ast::Cte, mut names: Vec<Ident>) -> Result<Vec<Ident>> {
    if cte.columns.len() > names.len() {
        let text = format!(
            "WITH query \"{}\" has {} columns available but {} columns specified",
            cte.name,
            names.len(),
            cte.columns.len()
        );
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).with_position(cte.at.0));
    }
    for (name, alias) in names.iter_mut().zip(&cte.columns) {
        *name = alias.clone();
    }
    Ok(names)
}

/// Whether a query has a table of this unqualified name in it.
fn mentions(query: &ast::Query, name: &Ident) -> bool {
    ast::walk_query(&mut Finder(name), query).is_break()
}

/// Whether a statement of WITH has a table of this unqualified name in it.
fn body_mentions(body: &Ast, name: &Ident) -> bool {
    ast::walk_cte_body(&mut Finder(name), body).is_break()
}

/// Looks for a table of an unqualified name.
struct Finder<'n>(&'n Ident);
impl Visitor for Finder<'_> {
    type Break = ();

    fn enter_table_expr(&mut self, table: &ast::TableExpr) -> std::ops::ControlFlow<()> {
        match table {
            ast::TableExpr::Relation(relation)
                if relation.name.qualifier.is_empty() && relation.name.name == *self.0 =>
            {
                std::ops::ControlFlow::Break(())
            }
            _ => std::ops::ControlFlow::Continue(()),
        }
    }
}
