//! FROM: tables, joins and conditions, before the planner orders them.

use std::sync::Arc;

use model::RowSchema;
use rows::RowTable;

use crate::expr::{Expr, Layout};
use crate::plan::{Joined, Outer};

/// A table of FROM, in its slot.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) slot: usize,
    pub(crate) table: Arc<RowTable>,
    /// Set for a derived table.
    pub(crate) derived: Option<DerivedRef>,
    /// Expressions of the table's hidden columns, by position, over the row in this slot.
    pub(crate) hidden: Vec<(usize, Expr)>,
}

/// Reference to a derived table: its number, and the outer values that its query takes.
#[derive(Clone, Debug)]
pub(crate) struct DerivedRef {
    pub(crate) of: usize,
    pub(crate) given: Vec<Expr>,
}

impl Source {
    /// A stored table.
    pub(crate) fn stored(slot: usize, table: Arc<RowTable>) -> Source {
        Source { slot, table, derived: None, hidden: Vec::new() }
    }

    /// The expression of a hidden column.
    pub(crate) fn hidden(&self, column: usize) -> Option<&Expr> {
        self.hidden.iter().find(|(at, _)| *at == column).map(|(_, expr)| expr)
    }

    pub(crate) fn schema(&self) -> &RowSchema {
        &self.table.schema
    }

    pub(crate) fn field(&self, column: usize) -> Expr {
        Expr::Field { slot: self.slot, column, layout: Layout(Arc::clone(&self.table.layout)) }
    }
}

/// The joins and conditions of FROM and WHERE.
#[derive(Default)]
pub(crate) struct From {
    /// Join type of each slot.
    pub(crate) joins: Vec<Outer>,
    /// Conditions, each with the last slot of the clause it stands in: it is evaluated before outer joins to later
    /// slots.
    pub(crate) conditions: Vec<(usize, Expr)>,
}

/// Slot of WHERE conditions: after all joins.
pub(crate) const WHERE: usize = usize::MAX;

impl From {
    /// Whether an outer join can leave this slot without a row.
    pub(crate) fn is_optional(&self, slot: usize) -> bool {
        let full = self.joins[slot + 1..].iter().any(|join| join.all_right());
        full || !matches!(self.joins[slot], Outer::None | Outer::Right(_))
    }

    /// Splits a condition at AND and adds the parts.
    pub(crate) fn cut(&mut self, slot: usize, condition: Expr) {
        let mut parts = Vec::new();
        cut(condition, &mut parts);
        self.conditions.extend(parts.into_iter().map(|part| (slot, part)));
    }
}

/// The tables of FROM in the planner's form.
pub(crate) fn joined<'s>(sources: &'s [Source], from: &From) -> Vec<Joined<'s>> {
    sources.iter().zip(&from.joins).map(|(source, outer)| Joined { source, outer: outer.clone() }).collect()
}

/// Splits a condition at AND into `out`.
pub(crate) fn cut(condition: Expr, out: &mut Vec<Expr>) {
    match condition {
        Expr::And(sides) => sides.into_iter().for_each(|side| cut(side, out)),
        other => out.push(other),
    }
}
