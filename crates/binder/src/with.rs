//! WITH.

use model::{Error, Result, SqlState};
use parser::ast::{self, Alias, CteBody as Ast, Ident, Pos, QueryBody, SetOperator};

use scalar::Place;

use crate::binder::{Binder, error};
use crate::change::BoundChange;
use crate::query::Bound;
use crate::recursion::{INVALID_RECURSION, check_references, dependency_order, refers};
use crate::scope::{CteName, Scope, Source, SourceKind};
use crate::sort::start_of;
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
        let order = match with.recursive {
            true => dependency_order(&with.ctes)?,
            false => (0..with.ctes.len()).collect(),
        };
        for cte in order.into_iter().map(|at| &with.ctes[at]) {
            let is_recursive = with.recursive && refers(&cte.body, &cte.name);
            if !is_recursive && (cte.search.is_some() || cte.cycle.is_some()) {
                return Err(error(SqlState::SYNTAX_ERROR, "WITH query is not recursive", cte.at));
            }
            match &cte.body {
                Ast::Query(query) if is_recursive => self.recursive_cte(scope, cte, query)?,
                Ast::Query(query) => {
                    let bound = self.query(query, Some(scope), true)?;
                    self.plain_cte(scope, cte, bound)?;
                }
                _ if is_recursive => {
                    let text = format!("recursive query \"{}\" must not contain data-modifying statements", cte.name);
                    return Err(error(INVALID_RECURSION, text, cte.at));
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
        let name =
            CteName { name: cte.name.clone(), columns, cte: number, is_recursing: false, has_no_rows, hidden: 0 };
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
        let name = CteName {
            name: cte.name.clone(),
            columns: names,
            cte: number,
            is_recursing: false,
            has_no_rows: false,
            hidden: 0,
        };
        scope.ctes.borrow_mut().push(name);
        Ok(())
    }

    fn recursive_cte(&mut self, scope: &Scope<'_>, cte: &ast::Cte, query: &ast::Query) -> Result<()> {
        let form = || {
            let text = format!(
                "recursive query \"{}\" does not have the form non-recursive-term UNION [ALL] recursive-term",
                cte.name
            );
            error(INVALID_RECURSION, text, cte.at)
        };
        let QueryBody::SetOperation(operation) = &query.body else { return Err(form()) };
        if operation.op != SetOperator::Union {
            return Err(form());
        }
        check_references(&cte.name, query, operation)?;
        check_plain_union(query)?;
        let inner = Scope::new(Some(scope));
        if let Some(with) = &query.with {
            self.with(&inner, with)?;
        }
        let base = self.query(&operation.left, Some(&inner), true)?;
        let mut names = cte_names(cte, base.outputs.iter().map(|one| Ident::new(&one.output.name)).collect())?;
        let mut added = self.added_columns(&inner, cte, operation, &names)?;
        let hidden = added.names.len();
        names.extend(added.names.iter().cloned());
        let number = self.ctes.len();
        let columns: Vec<u32> = base.outputs.iter().map(|one| one.output.column).collect();
        let places: Vec<Place> = base.outputs.iter().map(|one| one.at).collect();
        let mut base = self.added_to_base(Subplan { rel: base.rel, columns }, &added);
        // The columns are known before the body is, for the references in the step.
        let columns: Vec<u32> = base.columns.iter().map(|column| self.copy_column(*column)).collect();
        let body = CteBody::Plain(Rel::Single);
        let name = cte.name.as_str().into();
        self.ctes.push(Cte { name, columns: columns.clone(), body, materialized: cte.materialized, references: 0 });
        self.outer.ctes.push(Default::default());
        let entry = CteName {
            name: cte.name.clone(),
            columns: names,
            cte: number,
            is_recursing: true,
            has_no_rows: false,
            hidden,
        };
        scope.ctes.borrow_mut().push(entry);
        let step = self.query(&operation.right, Some(&inner), false)?;
        if let Some(error) = added.refusal.take() {
            return Err(error);
        }
        let selected: Vec<u32> = step.outputs.iter().map(|one| one.output.column).collect();
        let step = self.recursive_step(cte, &columns[..columns.len() - hidden], step, &places)?;
        let is_converted = step.columns != selected;
        let mut step = self.added_to_step(cte, step, number, is_converted, &added)?;
        let mut outer = self.outer.of_rel(&mut step.rel);
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
        source.kind = if cte.is_recursing { SourceKind::Recursion } else { SourceKind::Cte };
        if cte.is_recursing {
            let own = source.columns.len() - cte.hidden;
            source.columns.iter_mut().skip(own).for_each(|column| column.is_added = true);
        }
        let rel = if cte.is_recursing {
            Rel::WorkTable { cte: cte.cte, columns }
        } else {
            Rel::Cte { cte: cte.cte, columns }
        };
        Ok((rel, vec![source]))
    }
}

/// Refuses clauses behind the union of a recursive query.
fn check_plain_union(query: &ast::Query) -> Result<()> {
    let limit = match &query.limit {
        Some(ast::Limit::Count(count) | ast::Limit::WithTies(count)) => Some(count),
        Some(ast::Limit::All) | None => None,
    };
    let clauses =
        [("ORDER BY", query.order_by.first().map(|by| &by.expr)), ("OFFSET", query.offset.as_ref()), ("LIMIT", limit)];
    for (clause, expr) in clauses {
        if let Some(expr) = expr {
            let text = format!("{clause} in a recursive query is not implemented");
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, start_of(expr)));
        }
    }
    if !query.locking.is_empty() {
        let text = "FOR UPDATE/SHARE in a recursive query is not implemented";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text));
    }
    Ok(())
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
