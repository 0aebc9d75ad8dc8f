//! FOR UPDATE and its variants.

use model::{Error, SqlState};
use parser::ast::{self, LockStrength, LockWait, QueryBody, TableExpr};
use rows::{LockMode, WaitPolicy};

use super::{Lower, refused};
use crate::bind::Source;
use crate::exec::Lock;
use crate::select::Draft;

/// Row locks by slot; several clauses for one table are combined. `written` is the query as it was parsed: the tree of
/// the binder has no names of tables.
pub(super) fn locks(written: &ast::Query, draft: &Draft, sources: &[Source]) -> Lower<Vec<(usize, Lock)>> {
    let select = match &written.body {
        QueryBody::Select(select) => select,
        QueryBody::Values(_) => return not_allowed("VALUES"),
        QueryBody::SetOperation(_) => return not_allowed("UNION/INTERSECT/EXCEPT"),
    };
    if draft.distinct || draft.distinct_on > 0 {
        return not_allowed("DISTINCT clause");
    }
    if let Some(groups) = &draft.groups {
        return not_allowed(match (groups.by.is_empty(), &groups.having) {
            (false, _) => "GROUP BY clause",
            (true, Some(_)) => "HAVING clause",
            (true, None) => "aggregate functions",
        });
    }
    let mut names = Vec::new();
    select.from.iter().for_each(|item| names_of(item, &mut names));
    if names.len() != sources.len() {
        return refused("FOR UPDATE of joined tables that are one side of an outer join");
    }
    let mut locks: Vec<(usize, Lock)> = Vec::new();
    for clause in &written.locking {
        let lock = Lock { mode: mode(clause.strength), policy: policy(clause.wait) };
        for slot in slots(clause, &names, sources)? {
            if draft.from.is_optional(slot) {
                let text = "FOR UPDATE cannot be applied to the nullable side of an outer join";
                return Err(Error::unsupported(text).into());
            }
            match locks.iter_mut().find(|(other, _)| *other == slot) {
                // The strongest mode and the least waiting of several clauses apply.
                Some((_, other)) => {
                    other.mode = other.mode.max(lock.mode);
                    other.policy = least_waiting(other.policy, lock.policy);
                }
                None => locks.push((slot, lock)),
            }
        }
    }
    Ok(locks)
}

fn not_allowed<T>(what: &str) -> Lower<T> {
    Err(Error::unsupported(format!("FOR UPDATE is not allowed with {what}")).into())
}

/// Names of the items of FROM, in the order of their slots; items without name are empty.
fn names_of<'t>(item: &'t TableExpr, names: &mut Vec<&'t str>) {
    let alias = |alias: &'t Option<ast::Alias>| alias.as_ref().map(|alias| alias.name.as_str());
    match item {
        TableExpr::Relation(relation) => {
            names.push(alias(&relation.alias).unwrap_or(relation.name.name.as_str()));
        }
        TableExpr::Subquery(derived) => names.push(alias(&derived.alias).unwrap_or_default()),
        TableExpr::Function(function) => names.push(alias(&function.alias).unwrap_or_default()),
        TableExpr::XmlTable(table) => names.push(alias(&table.alias).unwrap_or_default()),
        TableExpr::Join(join) => {
            names_of(&join.left, names);
            names_of(&join.right, names);
        }
    }
}

/// The tables that a clause locks.
fn slots(clause: &ast::Locking, names: &[&str], sources: &[Source]) -> Lower<Vec<usize>> {
    let is_stored = |slot: &usize| sources[*slot].derived.is_none();
    if clause.of.is_empty() {
        if (0..sources.len()).all(|slot| is_stored(&slot)) {
            return Ok((0..sources.len()).collect());
        }
        // Rows of a derived table are locked by its own query, if that has FOR UPDATE.
        let text = "FOR UPDATE over a subquery in FROM is not supported";
        return Err(Error::unsupported(text).with_hint("name the tables to lock: FOR UPDATE OF name").into());
    }
    let mut slots = Vec::with_capacity(clause.of.len());
    for name in &clause.of {
        let Some(slot) = names.iter().position(|one| *one == name.name.as_str()) else {
            let (name, called) = (&name.name, called(clause.strength));
            let text = format!("relation \"{name}\" in FOR {called} clause not found in FROM clause");
            return Err(Error::new(SqlState::UNDEFINED_TABLE, text).into());
        };
        match Some(slot).filter(is_stored) {
            Some(slot) => slots.push(slot),
            None => return refused("FOR UPDATE of a subquery in FROM"),
        }
    }
    Ok(slots)
}

fn mode(strength: LockStrength) -> LockMode {
    match strength {
        LockStrength::KeyShare => LockMode::KeyShare,
        LockStrength::Share => LockMode::Share,
        LockStrength::NoKeyUpdate => LockMode::NoKeyUpdate,
        LockStrength::Update => LockMode::Update,
    }
}

fn called(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "KEY SHARE",
        LockStrength::Share => "SHARE",
        LockStrength::NoKeyUpdate => "NO KEY UPDATE",
        LockStrength::Update => "UPDATE",
    }
}

fn policy(wait: LockWait) -> WaitPolicy {
    match wait {
        LockWait::Wait => WaitPolicy::Wait,
        LockWait::SkipLocked => WaitPolicy::Skip,
        LockWait::NoWait => WaitPolicy::NoWait,
    }
}

fn least_waiting(one: WaitPolicy, other: WaitPolicy) -> WaitPolicy {
    match (one, other) {
        (WaitPolicy::NoWait, _) | (_, WaitPolicy::NoWait) => WaitPolicy::NoWait,
        (WaitPolicy::Skip, _) | (_, WaitPolicy::Skip) => WaitPolicy::Skip,
        (WaitPolicy::Wait, WaitPolicy::Wait) => WaitPolicy::Wait,
    }
}
