//! Decides whether the plan of a query may serve later executions.
//!
//! Expressions that crate `scalar` computes have the facts of one execution: the transaction's time, the snapshot's objects.
//! A plan serves others as long as none of its expressions asks for these. The caller makes a new plan when settings or
//! the catalog change.

use std::sync::LazyLock;

use binder::tree::{Query, Rel};
use catalog::{TypeId, Volatility, builtin};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind};

use crate::evaluation::natives::{Native, native};

/// Stable functions whose results depend on arguments and settings only. A name stands for all its signatures.
const BY_SETTINGS: [&str; 18] = [
    "anytextcat",
    "array_to_string",
    "concat",
    "concat_ws",
    "date",
    "date_part",
    "date_trunc",
    "extract",
    "format",
    "interval_pl_timestamptz",
    "textanycat",
    "time",
    "timestamp",
    "timestamptz",
    "timestamptz_mi_interval",
    "timestamptz_pl_interval",
    "timezone",
    "to_char",
];

static REUSABLE: LazyLock<FxHashSet<u32>> = LazyLock::new(|| {
    let is_comparison = |name: &str| {
        let is_of = |first: &str, second: &str| {
            name.strip_prefix(first).and_then(|rest| rest.strip_suffix(second)).is_some_and(|middle| middle.len() == 4)
        };
        ["date", "timestamp"].iter().any(|other| is_of(other, "timestamptz") || is_of("timestamptz", other))
    };
    let is_reusable = |row: &&catalog::Function| {
        let is_own = matches!(native(row.oid), Some(Native::Own(_) | Native::Now));
        let is_by_settings = BY_SETTINGS.contains(&row.name) || is_comparison(row.name);
        is_own || row.volatility == Volatility::Immutable || row.volatility == Volatility::Stable && is_by_settings
    };
    builtin().functions().iter().filter(is_reusable).map(|row| row.oid).collect()
});

/// Whether results of a function depend on its arguments and the settings only.
pub(crate) fn serves_all(function: u32) -> bool {
    REUSABLE.contains(&function)
}

/// Whether a plan of the query serves all executions with the same settings and catalog.
#[must_use]
pub fn is_reusable(query: &Query) -> bool {
    let mut is_reusable = true;
    binder::visit(query, &mut |expr| is_reusable &= is_fixed(expr));
    binder::visit_operators(query, &mut |rel| match rel {
        Rel::Functions { functions, .. } => {
            is_reusable &= functions.iter().all(|function| REUSABLE.contains(&function.call.function));
        }
        Rel::ProjectSet { sets, .. } => {
            is_reusable &= sets.iter().all(|(_, call, _)| REUSABLE.contains(&call.function))
        }
        Rel::Aggregate { aggregates, .. } => {
            is_reusable &= aggregates.iter().all(|(_, call)| REUSABLE.contains(&call.call.function));
        }
        Rel::Window { calls, .. } => {
            is_reusable &= calls.iter().all(|(_, call)| REUSABLE.contains(&call.call.function));
        }
        Rel::Scan { as_of, .. } => is_reusable &= as_of.is_none(),
        _ => {}
    });
    is_reusable
}

/// Whether an expression, without its operands, is the same in each execution.
fn is_fixed(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Call(call, _)
        | ExprKind::Distinct(call, _)
        | ExprKind::NullIf(call, _)
        | ExprKind::Quantified { call, .. }
        | ExprKind::InList { call, .. } => REUSABLE.contains(&call.function),
        ExprKind::RowCompare { calls, .. } => calls.iter().all(|call| REUSABLE.contains(&call.function)),
        ExprKind::SqlValue(value) => crate::evaluation::natives::is_now(*value, expr.typmod),
        ExprKind::Domain(..) => false,
        // Text like `now` is the time of its execution, and names are looked up.
        ExprKind::ViaText(of) => !is_read_by_session(expr.ty) && !is_read_by_session_name(of.ty),
        _ => true,
    }
}

fn is_read_by_session(ty: TypeId) -> bool {
    matches!(ty, TypeId::DATE | TypeId::TIME | TypeId::TIMETZ | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ)
        || is_read_by_session_name(ty)
        || builtin().element_of(ty).is_some_and(is_read_by_session)
}

/// Types of numbers that are written as names of objects.
fn is_read_by_session_name(ty: TypeId) -> bool {
    matches!(ty.0, 24 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 | 4191)
}
