//! ON CONFLICT.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{
    self, ConflictAction, ConflictTarget, Ident, IndexElement, NullsOrder, OnConflict, Pos, SortDirection, TargetTable,
};
use scalar::{Expr, ExprKind};

use crate::binder::{Binder, error};
use crate::scope::{Clause, Scope, Source, SourceKind};
use crate::target::ChangeTarget;
use crate::tree::{Conflict, ConflictUpdate, IndexKey, Table, UniqueIndex};

impl Binder<'_> {
    /// ON CONFLICT of an INSERT into `target`, whose rows afterwards have the columns `new`. The first item of the scope is the
    /// target; `excluded` is behind it afterwards, for messages alone.
    pub(crate) fn conflict(
        &mut self,
        scope: &Scope<'_>,
        (conflict, written): (&OnConflict, &TargetTable),
        changed: &ChangeTarget,
        target: &Source,
        new: &[u32],
    ) -> Result<Conflict> {
        let table = &changed.table;
        let old = self.table_columns(scope, table);
        let (source, _) = self.row_source(written, changed, &old)?;
        scope.tables.borrow_mut()[0] = Source { columns: source.columns, row: source.row, ..target.clone() };
        let ConflictAction::Update { set, filter } = &conflict.action else {
            let arbiters = self.arbiters(scope, conflict, table, &old)?;
            return Ok(Conflict { arbiters, update: None });
        };
        let excluded = self.table_columns(scope, table);
        let source = Source {
            name: Ident::const_new("excluded"),
            has_alias: true,
            kind: SourceKind::Table,
            by_table: false,
            by_column: false,
            lateral_only: false,
            row: None,
            ..self.row_source(written, changed, &excluded)?.0
        };
        scope.tables.borrow_mut().push(source);
        let show = |is_shown: bool| {
            let mut tables = scope.tables.borrow_mut();
            tables[1].by_table = is_shown;
            tables[1].by_column = is_shown;
        };
        let arbiters = self.arbiters(scope, conflict, table, &old)?;
        show(true);
        let set = self.assignments(scope, table, &changed.assigned(set)?)?;
        let (filter, _) = self.change_filter(scope, filter.as_ref())?;
        show(false);
        let generated = self.generated(table, new)?;
        let (row_queries, assignments) = (set.row_queries, set.list);
        let system = self.outer.system.of(&old);
        let update = ConflictUpdate { old, system, excluded, filter, row_queries, assignments, generated };
        Ok(Conflict { arbiters, update: Some(update) })
    }

    /// The unique indexes that the conflict target means; `None` without one.
    fn arbiters(
        &mut self,
        scope: &Scope<'_>,
        conflict: &OnConflict,
        table: &Arc<Table>,
        row: &[u32],
    ) -> Result<Option<Vec<usize>>> {
        match &conflict.target {
            None if matches!(conflict.action, ConflictAction::Nothing) => Ok(None),
            None => {
                let text = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                let hint = "For example, ON CONFLICT (column_name).";
                Err(error(SqlState::SYNTAX_ERROR, text, conflict.at).with_hint(hint))
            }
            Some(ConflictTarget::Constraint(name)) => {
                let is_it = |index: &UniqueIndex| index.is_constraint && *index.name == *name.as_str();
                let found = table.unique.iter().position(is_it).ok_or_else(|| {
                    let text = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                    Error::new(SqlState::UNDEFINED_OBJECT, text)
                })?;
                Ok(Some(vec![found]))
            }
            Some(ConflictTarget::Index { elements, filter, at }) => {
                let mut keys = Vec::with_capacity(elements.len());
                for element in elements {
                    let key = self
                        .in_clause(scope, Clause::IndexExpression, |binder| binder.inferred_key(scope, element, *at))?;
                    keys.push(key);
                }
                let filter = match filter {
                    None => None,
                    Some(filter) => Some(self.in_clause(scope, Clause::IndexPredicate, |binder| {
                        let filter = binder.expr(scope, filter)?;
                        binder.known(filter)
                    })?),
                };
                let mut found = self.inferred_indexes(table, row, &keys, filter.as_ref())?;
                // The binder's description of an index has no operator classes: those of patterns are of other indexes.
                let is_of_patterns = |class: &ast::Name| class.name.ends_with("_pattern_ops");
                if elements.iter().any(|element| element.operator_class.as_ref().is_some_and(is_of_patterns)) {
                    found.clear();
                }
                if found.is_empty() {
                    let text = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                    self.refuse_last(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text));
                }
                Ok(Some(found))
            }
        }
    }

    fn inferred_key(&mut self, scope: &Scope<'_>, element: &IndexElement, at: Pos) -> Result<Expr> {
        let refuse = |what: &str| {
            let text = format!("{what} is not allowed in ON CONFLICT clause");
            Err(error(SqlState::INVALID_COLUMN_REFERENCE, text, at))
        };
        if element.direction != SortDirection::Default {
            return refuse("ASC/DESC");
        }
        if element.nulls != NullsOrder::Default {
            return refuse("NULLS FIRST/LAST");
        }
        match &element.key {
            ast::IndexKey::Column(name) => self.column_name(scope, name, at),
            ast::IndexKey::Expr(expr) => {
                let key = self.expr(scope, expr)?;
                self.known(key)
            }
        }
    }

    /// Unique indexes over exactly these keys, in any order, whose condition `filter` implies.
    fn inferred_indexes(
        &mut self,
        table: &Arc<Table>,
        row: &[u32],
        keys: &[Expr],
        filter: Option<&Expr>,
    ) -> Result<Vec<usize>> {
        let given = filter.map(conjuncts).unwrap_or_default();
        let mut found = Vec::new();
        for (at, index) in table.unique.iter().enumerate() {
            let mut indexed = Vec::with_capacity(index.keys.len());
            for key in &index.keys {
                indexed.push(match key {
                    IndexKey::Column(column) => self.column_expr(row[*column], Pos(0)),
                    IndexKey::Expr(text) => self.over_row(table, row, text)?,
                });
            }
            let same = keys.iter().all(|key| indexed.contains(key)) && indexed.iter().all(|key| keys.contains(key));
            let predicate = match &index.predicate {
                Some(text) if same => Some(self.over_row(table, row, text)?),
                _ => None,
            };
            let needed = predicate.as_ref().map(conjuncts).unwrap_or_default();
            if same && needed.iter().all(|condition| given.contains(condition)) {
                found.push(at);
            }
        }
        Ok(found)
    }

    /// An expression of an index over the columns of a row.
    fn over_row(&mut self, table: &Arc<Table>, row: &[u32], text: &str) -> Result<Expr> {
        let scope = self.row_scope(table, row);
        self.stored_expr(&scope, text)
    }
}

/// Conditions that hold if a condition does: it alone, or those of AND.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match &condition.kind {
        ExprKind::And(list) => list.iter().flat_map(conjuncts).collect(),
        _ => vec![condition],
    }
}
