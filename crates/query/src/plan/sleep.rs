//! `SELECT pg_sleep(seconds)`, which scripts use to wait. It is implemented as a statement instead of a
//! function, so that it occupies no thread and can be cancelled immediately.

use parser::ast::{Expr, ExprKind, Query};
use pg::types::oid;
use relational::types::OutputColumn;

use crate::statement::calls::{only_call, without_casts};

/// A statement that consists only of a call of `pg_sleep`.
pub(crate) struct Sleep {
    pub(crate) seconds: Seconds,
    /// Name of the result column.
    name: String,
}

/// The argument.
pub(crate) enum Seconds {
    Known(f64),
    /// `$1`
    Parameter,
}

impl Sleep {
    /// Recognises `SELECT pg_sleep(1)` and `SELECT * FROM pg_sleep(1)`.
    pub(crate) fn of(query: &Query) -> Option<Sleep> {
        let item = only_call(query).filter(|item| item.name() == "pg_sleep")?;
        let [seconds] = item.call.args.as_slice() else { return None };
        Some(Sleep { seconds: Seconds::of(seconds)?, name: item.column.to_owned() })
    }

    pub(crate) fn columns(&self) -> Vec<OutputColumn> {
        vec![OutputColumn { name: self.name.clone(), oid: oid::VOID, typmod: -1, origin: None }]
    }

    /// Parameter types; `declared` are those of the client.
    pub(crate) fn parameters(&self, declared: &[u32]) -> Vec<u32> {
        match (&self.seconds, declared.first()) {
            (Seconds::Known(_), _) => Vec::new(),
            (Seconds::Parameter, Some(declared)) if *declared != 0 => vec![*declared],
            (Seconds::Parameter, _) => vec![oid::FLOAT8],
        }
    }
}

impl Seconds {
    fn of(expr: &Expr) -> Option<Seconds> {
        match &without_casts(expr).kind {
            ExprKind::Integer(number) => Some(Seconds::Known(f64::from(*number))),
            ExprKind::Number(text) | ExprKind::String(text) => text.trim().parse().ok().map(Seconds::Known),
            ExprKind::Parameter(1) => Some(Seconds::Parameter),
            _ => None,
        }
    }
}
