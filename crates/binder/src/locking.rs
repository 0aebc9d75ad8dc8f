//! FOR UPDATE and its like.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{self, Alias, Ident, LockWait, Locking};

use crate::binder::{Binder, error};
use crate::scope::{Scope, SourceKind};
use crate::tree::{RowLock, Table};

impl Binder<'_> {
    /// Notes the locks that the clauses of a query put on an item of its FROM that is a table.
    pub(crate) fn lock_table(&self, scope: &Scope<'_>, name: &Ident, table: &Arc<Table>, columns: &[u32]) {
        let mut lock: Option<RowLock> = None;
        for clause in scope.locking.iter().filter(|clause| names(clause, name)) {
            let (strength, wait) = (clause.strength, clause.wait);
            match &mut lock {
                Some(lock) => {
                    lock.strength = lock.strength.max(strength);
                    lock.wait = stricter(lock.wait, wait);
                }
                None => {
                    lock = Some(RowLock { table: Arc::clone(table), columns: columns.to_vec(), strength, wait });
                }
            }
        }
        if let Some(lock) = lock {
            scope.locked_names.borrow_mut().push(name.clone());
            scope.locks.borrow_mut().push(lock);
        }
    }

    /// The clauses that lock all tables of a subquery in FROM.
    pub(crate) fn subquery_locking(scope: &Scope<'_>, alias: Option<&Alias>) -> Vec<Locking> {
        let name = alias.map(|alias| alias.name.clone()).unwrap_or_default();
        let clauses = scope.locking.iter().filter(|clause| names(clause, &name));
        let clauses: Vec<Locking> = clauses.map(|clause| Locking { of: Vec::new(), ..clause.clone() }).collect();
        if !clauses.is_empty() {
            scope.locked_names.borrow_mut().push(name);
        }
        clauses
    }
}

/// Whether a clause locks the item of FROM of a name.
fn names(clause: &Locking, name: &Ident) -> bool {
    clause.of.is_empty() || clause.of.iter().any(|of| of.name == *name)
}

fn stricter(one: LockWait, other: LockWait) -> LockWait {
    match (one, other) {
        (LockWait::NoWait, _) | (_, LockWait::NoWait) => LockWait::NoWait,
        (LockWait::SkipLocked, _) | (_, LockWait::SkipLocked) => LockWait::SkipLocked,
        _ => LockWait::Wait,
    }
}

/// Refuses locking clauses where there can be none.
pub(crate) fn check_no_locking(clauses: &[Locking], text: &str) -> Result<()> {
    match clauses.first() {
        None => Ok(()),
        Some(clause) => {
            let text = format!("{} {text}", clause.strength.words());
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text))
        }
    }
}

/// Refuses locking clauses of a SELECT whose rows are not those of its tables, and clauses that name no table of it.
pub(crate) fn check_locking(scope: &Scope<'_>, select: &ast::Select) -> Result<()> {
    let obstacles = [
        (select.distinct.is_some(), "is not allowed with DISTINCT clause"),
        (!select.group_by.is_empty(), "is not allowed with GROUP BY clause"),
        (select.having.is_some(), "is not allowed with HAVING clause"),
        (scope.has_aggregates(), "is not allowed with aggregate functions"),
        (!scope.windows.borrow().is_empty(), "is not allowed with window functions"),
        (!scope.sets.borrow().is_empty(), "is not allowed with set-returning functions in the target list"),
    ];
    if let Some((_, text)) = obstacles.iter().find(|(is_there, _)| *is_there) {
        check_no_locking(&scope.locking, text)?;
    }
    for clause in &scope.locking {
        for name in &clause.of {
            check_name(scope, clause, name)?;
        }
    }
    Ok(())
}

fn check_name(scope: &Scope<'_>, clause: &Locking, name: &ast::Name) -> Result<()> {
    let clause = clause.strength.words();
    if !name.qualifier.is_empty() {
        return Err(error(
            SqlState::SYNTAX_ERROR,
            format!("{clause} must specify unqualified relation names"),
            name.at,
        ));
    }
    if scope.locked_names.borrow().contains(&name.name) {
        return Ok(());
    }
    let tables = scope.tables.borrow();
    let kind = tables.iter().find(|source| source.name == name.name).map(|source| source.kind);
    let what = match kind {
        Some(SourceKind::Join) => "a join",
        Some(SourceKind::Function) => "a function",
        Some(SourceKind::Cte | SourceKind::Recursion) => "a WITH query",
        Some(SourceKind::Table | SourceKind::Target | SourceKind::Subquery) | None => {
            let text = format!("relation \"{}\" in {clause} clause not found in FROM clause", name.name);
            return Err(error(SqlState::UNDEFINED_TABLE, text, name.at));
        }
    };
    let text = format!("{clause} cannot be applied to {what}");
    Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, name.at))
}
