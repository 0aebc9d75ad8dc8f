//! UPDATE and DELETE.

use std::sync::Arc;

use model::Result;
use parser::ast::{self, TableExpr, TargetTable};
use scalar::Expr;

use crate::binder::Binder;
use crate::change::BoundChange;
use crate::scope::{Scope, Source};
use crate::target::{ChangeTarget, Verb};
use crate::tree::{Change, Delete, JoinKind, Rel, Update};

/// The rows that a statement changes.
struct Found {
    target: ChangeTarget,
    old: Vec<u32>,
    input: Rel,
    current_of: Option<Box<str>>,
}

impl Binder<'_> {
    pub(crate) fn update(&mut self, update: &ast::Update, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        self.nested(update.table.name.at, |binder| binder.update_at_level(update, parent))
    }

    fn update_at_level(&mut self, update: &ast::Update, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        let scope = Scope::new(parent);
        let filter = update.filter.as_ref();
        let found =
            self.changed_rows(&scope, Verb::Update, update.with.as_deref(), (&update.table, &update.from, filter))?;
        let Found { target, old, mut input, current_of } = found;
        let table = Arc::clone(&target.table);
        let new = self.table_columns(&scope, &table);
        // In RETURNING the table's columns are those after the change.
        let after = self.row_source(&update.table, &target, &new)?.0;
        let before = {
            let changed = &mut scope.tables.borrow_mut()[0];
            let after = Source { columns: after.columns, row: after.row, ..changed.clone() };
            std::mem::replace(changed, after)
        };
        let (returning, outputs) = self.returning(&scope, &update.returning)?;
        scope.tables.borrow_mut()[0] = before;
        let set = self.assignments(&scope, &table, &target.assigned(&update.set)?)?;
        let generated = self.generated(&table, &new)?;
        let checks = self.row_checks(&target, &new)?;
        let (row_queries, assignments) = (set.row_queries, set.list);
        self.outer.system.place(&mut input);
        let system = self.outer.system.of(&new);
        let update = Update {
            table,
            old,
            input,
            current_of,
            row_queries,
            assignments,
            generated,
            checks,
            new,
            system,
            returning,
        };
        Ok(BoundChange { change: Change::Update(update), outputs })
    }

    pub(crate) fn delete(&mut self, delete: &ast::Delete, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        self.nested(delete.table.name.at, |binder| binder.delete_at_level(delete, parent))
    }

    fn delete_at_level(&mut self, delete: &ast::Delete, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        let scope = Scope::new(parent);
        let filter = delete.filter.as_ref();
        let found =
            self.changed_rows(&scope, Verb::Delete, delete.with.as_deref(), (&delete.table, &delete.using, filter))?;
        let Found { target, old, mut input, current_of } = found;
        let table = target.table;
        let (returning, outputs) = self.returning(&scope, &delete.returning)?;
        self.outer.system.place(&mut input);
        let delete = Delete { table, old, input, current_of, returning };
        Ok(BoundChange { change: Change::Delete(delete), outputs })
    }

    /// WITH, the table, FROM or USING, and WHERE. The table is the first item of the scope.
    fn changed_rows(
        &mut self,
        scope: &Scope<'_>,
        verb: Verb,
        with: Option<&ast::With>,
        (written, from, filter): (&TargetTable, &[TableExpr], Option<&ast::Expr>),
    ) -> Result<Found> {
        if let Some(with) = with {
            self.with(scope, with)?;
        }
        let target = self.change_target(&written.name, verb)?;
        let table = Arc::clone(&target.table);
        let old = self.table_columns(scope, &table);
        let (mut source, conditions) = self.row_source(written, &target, &old)?;
        let tableoid = self.note_family(&table, &old, target.is_only(written));
        scope.own.borrow_mut().extend(tableoid);
        if !target.is_view() {
            source.tableoid = tableoid;
        }
        scope.tables.borrow_mut().push(source);
        self.scans.push((Arc::clone(&table), old.clone()));
        let others = self.from(scope, from)?;
        let scan = Rel::Scan { table, columns: old.clone(), system: Vec::new(), as_of: None };
        let mut input = conditions.into_iter().fold(scan, |input, condition| filtered(input, Some(condition)));
        if !from.is_empty() {
            input = self.join(JoinKind::Inner, input, others, None);
        }
        let (condition, current_of) = self.change_filter(scope, filter)?;
        Ok(Found { target, old, input: filtered(input, condition), current_of })
    }
}

fn filtered(input: Rel, condition: Option<Expr>) -> Rel {
    match condition {
        Some(condition) => Rel::Filter { input: Box::new(input), condition },
        None => input,
    }
}
