//! MERGE.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast;

use crate::binder::{Binder, error};
use crate::change::BoundChange;
use crate::scope::{Clause, Scope, SourceKind};
use crate::tree::{Assignment, Change, JoinKind, Merge, MergeAction, MergeBranch, Rel, Table};

impl Binder<'_> {
    pub(crate) fn merge(&mut self, merge: &ast::Merge, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        self.nested(merge.table.name.at, |binder| binder.merge_at_level(merge, parent))
    }

    fn merge_at_level(&mut self, merge: &ast::Merge, parent: Option<&Scope<'_>>) -> Result<BoundChange> {
        let scope = Scope::new(parent);
        if let Some(with) = &merge.with {
            if with.recursive {
                let text = "WITH RECURSIVE is not supported for MERGE statement";
                return Err(Error::new(SqlState::SYNTAX_ERROR, text));
            }
            self.with(&scope, with)?;
        }
        check_reachable(&merge.branches)?;
        let table = self.table(&merge.table.name)?;
        Self::refuse_view(&table, merge.table.name.at)?;
        let old = self.table_columns(&scope, &table);
        let target = self.target_source(&merge.table, &table, &old);
        let name = target.name.clone();
        scope.tables.borrow_mut().push(target);
        show_target(&scope, false);
        let source = self.from(&scope, std::slice::from_ref(&merge.source))?;
        if scope.tables.borrow()[1..].iter().any(|other| other.by_table && other.name == name) {
            let text = format!("name \"{name}\" specified more than once");
            let detail = "The name is used both as MERGE target table and data source.";
            return Err(Error::new(SqlState::DUPLICATE_ALIAS, text).with_detail(detail));
        }
        show_target(&scope, true);
        let on = self.in_clause(&scope, Clause::JoinOn, |binder| {
            let expr = binder.expr(&scope, &merge.on)?;
            binder.condition(expr, "JOIN/ON")
        })?;
        let mut branches = Vec::with_capacity(merge.branches.len());
        for branch in &merge.branches {
            branches.push(self.merge_branch(&scope, &table, branch)?);
        }
        let is_outer = branches.iter().any(|branch| !branch.matched);
        let kind = if is_outer { JoinKind::Left } else { JoinKind::Inner };
        let scan = Rel::Scan { table: Arc::clone(&table), columns: old.clone(), system: Vec::new(), as_of: None };
        let mut input = self.join(kind, source, scan, Some(on));
        self.outer.system.place(&mut input);
        let merge = Merge { table, old, input, branches };
        Ok(BoundChange { change: Change::Merge(merge), outputs: Vec::new() })
    }

    fn merge_branch(
        &mut self,
        scope: &Scope<'_>,
        table: &Arc<Table>,
        branch: &ast::MergeBranch,
    ) -> Result<MergeBranch> {
        show_target(scope, branch.matched);
        let condition = match &branch.condition {
            None => None,
            Some(condition) => Some(self.in_clause(scope, Clause::MergeWhen, |binder| {
                let expr = binder.expr(scope, condition)?;
                binder.condition(expr, "WHEN")
            })?),
        };
        let action = match &branch.action {
            ast::MergeAction::Nothing => MergeAction::Nothing,
            ast::MergeAction::Delete => MergeAction::Delete,
            ast::MergeAction::Update(set) => {
                let set = self.assignments(scope, table, set)?;
                let new = self.table_columns(scope, table);
                let generated = self.generated(table, &new)?;
                MergeAction::Update { row_queries: set.row_queries, assignments: set.list, new, generated }
            }
            ast::MergeAction::Insert { columns, overriding, values } => {
                let all: Vec<usize> = (0..table.columns.len()).collect();
                let columns = self.insert_columns(table, columns, &all, *overriding)?;
                let values = values.as_deref().unwrap_or_default();
                let values = self.in_clause(scope, Clause::ValuesSingle, |binder| binder.value_list(scope, values))?;
                if let Some(at) = scope.set_places.borrow().first() {
                    let text = "set-returning functions are not allowed in VALUES";
                    return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, *at));
                }
                let row = if values.is_empty() { Vec::new() } else { self.slot_values(scope, values, &columns)? };
                let mut rows = self.complete_rows(&columns, vec![row])?;
                let row = rows.pop().ok_or_else(|| Error::bug("a row that was bound"))?;
                let part = |(column, subscripts, value)| Assignment { column, subscripts, value };
                let new = self.table_columns(scope, table);
                let generated = self.generated(table, &new)?;
                MergeAction::Insert {
                    values: row.values,
                    parts: row.parts.into_iter().map(part).collect(),
                    new,
                    generated,
                }
            }
        };
        Ok(MergeBranch { matched: branch.matched, condition, action })
    }
}

/// Makes the columns of the table visible, or hides them.
fn show_target(scope: &Scope<'_>, is_shown: bool) {
    for source in scope.tables.borrow_mut().iter_mut().filter(|source| source.kind == SourceKind::Target) {
        source.by_table = is_shown;
        source.by_column = is_shown;
    }
}

/// Refuses branches behind one without condition.
fn check_reachable(branches: &[ast::MergeBranch]) -> Result<()> {
    for (at, branch) in branches.iter().enumerate() {
        let ends = |before: &&ast::MergeBranch| before.matched == branch.matched && before.condition.is_none();
        if branches[..at].iter().any(|before| ends(&before)) {
            let text = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(Error::new(SqlState::SYNTAX_ERROR, text));
        }
    }
    Ok(())
}
