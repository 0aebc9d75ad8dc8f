//! Statements that only call functions of advisory locks, such as `SELECT pg_advisory_lock(17)`.

use model::{Error, Result, SqlState};
use parser::ast::{Expr, Query};
use pg::types::oid;
use relational::types::OutputColumn;

use crate::plan::Prepared;
use crate::session::Session;
use crate::session::advisory_locks::Mode;
use crate::statement::{calls, parse};

/// The operation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Lock { mode: Mode, waits: bool, transaction: bool },
    Unlock(Mode),
    UnlockAll,
}

impl Act {
    fn of(name: &str) -> Option<Act> {
        let (rest, waits) = match name.strip_prefix("pg_try_advisory_") {
            Some(rest) => (rest, false),
            None => (name.strip_prefix("pg_advisory_")?, true),
        };
        let (rest, mode) = match rest.strip_suffix("_shared") {
            Some(rest) => (rest, Mode::Shared),
            None => (rest, Mode::Exclusive),
        };
        Some(match (rest, waits) {
            ("lock", _) => Act::Lock { mode, waits, transaction: false },
            ("xact_lock", _) => Act::Lock { mode, waits, transaction: true },
            ("unlock", true) => Act::Unlock(mode),
            ("unlock_all", true) if mode == Mode::Exclusive => Act::UnlockAll,
            _ => return None,
        })
    }

    /// Whether the function returns a boolean (success) rather than void.
    pub(crate) fn answers(self) -> bool {
        matches!(self, Act::Lock { waits: false, .. } | Act::Unlock(_))
    }
}

/// A statement that consists only of calls of advisory lock functions.
pub(crate) struct Calls {
    pub(crate) calls: Vec<Call>,
    /// The query that computes the arguments of all calls; `None` if no call has arguments.
    pub(crate) arguments: Option<Prepared>,
}

/// One call.
pub(crate) struct Call {
    pub(crate) act: Act,
    /// Name of the result column.
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expr>,
}

impl Calls {
    /// Plans the calls of a statement; `None` if the statement has anything other than such calls.
    ///
    /// # Errors
    /// Those of planning the arguments; 42883 for a wrong number of arguments.
    pub(crate) fn plan(session: &mut Session, query: &Query, types: &[u32]) -> Result<Option<Calls>> {
        let Some(calls) = calls_of(query) else { return Ok(None) };
        let mut texts = Vec::new();
        for call in &calls {
            let ty = match (call.act, call.arguments.len()) {
                (Act::UnlockAll, 0) => continue,
                (Act::Lock { .. } | Act::Unlock(_), 1) => "bigint",
                (Act::Lock { .. } | Act::Unlock(_), 2) => "integer",
                _ => {
                    let text = format!("function {}() does not exist with these arguments", call.name);
                    return Err(Error::new(SqlState::UNDEFINED_FUNCTION, text)
                        .with_hint("advisory locks take a bigint or two integers"));
                }
            };
            texts.extend(call.arguments.iter().map(|argument| format!("CAST(({argument}) AS {ty})")));
        }
        let arguments = if texts.is_empty() {
            None
        } else {
            let inner = parse(&format!("SELECT {}", texts.join(", ")))?.into_iter().next();
            let inner = inner.ok_or_else(|| Error::bug("arguments of advisory locks that are no query"))?;
            Some(session.plan_statement(&inner.without_place(), types)?)
        };
        Ok(Some(Calls { calls, arguments }))
    }

    pub(crate) fn parameters(&self) -> Vec<u32> {
        self.arguments.as_ref().map_or_else(Vec::new, |arguments| arguments.parameters().to_vec())
    }

    pub(crate) fn columns(&self) -> Vec<OutputColumn> {
        let column = |call: &Call| {
            let oid = if call.act.answers() { oid::BOOL } else { oid::VOID };
            OutputColumn { name: call.name.clone(), oid, typmod: -1, origin: None }
        };
        self.calls.iter().map(column).collect()
    }
}

fn calls_of(query: &Query) -> Option<Vec<Call>> {
    let one = |item: calls::CallItem<'_>| {
        let (act, arguments) = (Act::of(item.name())?, item.call.args.clone());
        Some(Call { act, name: item.column.to_owned(), arguments })
    };
    calls::calls(query)?.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_known_by_its_name() {
        for (name, known) in [
            ("pg_advisory_lock", true),
            ("pg_advisory_xact_lock_shared", true),
            ("pg_try_advisory_lock_shared", true),
            ("pg_try_advisory_xact_lock", true),
            ("pg_advisory_unlock_shared", true),
            ("pg_advisory_unlock_all", true),
            ("pg_try_advisory_unlock", false),
            ("pg_advisory_unlock_all_shared", false),
            ("pg_advisory", false),
        ] {
            assert_eq!(Act::of(name).is_some(), known, "{name}");
        }
    }
}
