//! SELECT: plan and execution.

use std::ops::ControlFlow;
use std::sync::Arc;

use catalog::TypeId;
use model::{Datum, Result, TableId, Type};
use rows::RowTable;

use crate::aggregate::{Aggregate, Groups, Kind};
use crate::exec::{self, Each, ExecContext, Flow, Lock, Run};
use crate::expr::Expr;
use crate::from::{From, Source, joined};
use crate::plan::{self, Access, Order, Step};
use crate::sort_limit::{Emit, SortLimit};

/// An output column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Column name by PostgreSQL's rules.
    pub name: String,
    /// Data type.
    pub ty: Type,
    /// The table and column it is read from unchanged, if any.
    pub origin: Option<(TableId, usize)>,
    /// OID and type modifier that clients see, if they are not those of `ty`. A value of a type that is no column type
    /// is its text.
    pub announced: Option<(u32, i32)>,
}

/// The plan of a SELECT.
pub(crate) struct Select {
    /// Tables by slot.
    pub(crate) tables: Vec<Arc<RowTable>>,
    pub(crate) steps: Vec<Step>,
    /// Conditions of WHERE and inner joins, evaluated again for rows that changed before they were locked.
    pub(crate) conditions: Vec<Expr>,
    groups: Option<Grouping>,
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Output>,
    /// Output columns whose values leave as texts.
    pub(crate) texts: Vec<TextColumn>,
    pub(crate) distinct: bool,
    /// DISTINCT ON: number of leading sort keys by which rows count as equal; 0 without it.
    pub(crate) distinct_on: usize,
    pub(crate) order: Vec<Order>,
    /// Whether rows come in that order, so no sort is needed.
    pub(crate) ordered: bool,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Row locks: slot and lock.
    pub(crate) locks: Vec<(usize, Lock)>,
    /// Whether output is computed after sorting: for rows locked then, and for volatile functions, which must run
    /// in output order.
    pub(crate) made_last: bool,
}

/// An output column whose values leave as texts. Sorting and DISTINCT compare the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextColumn {
    /// Position in the select list.
    pub(crate) at: usize,
    /// Type of the values.
    pub(crate) ty: TypeId,
}

/// GROUP BY, or aggregates without it.
#[derive(Default)]
pub(crate) struct Grouping {
    pub(crate) by: Vec<Expr>,
    pub(crate) types: Vec<Type>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Columns functionally dependent on a grouped primary key.
    pub(crate) dependent: Vec<Expr>,
    pub(crate) having: Option<Expr>,
    /// Whether the first non-NULL value is the result: `min` or `max` of a column in index order.
    pub(crate) first_is_enough: bool,
}

/// A SELECT without access paths.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) from: From,
    pub(crate) groups: Option<Grouping>,
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Output>,
    pub(crate) texts: Vec<TextColumn>,
    pub(crate) distinct: bool,
    pub(crate) distinct_on: usize,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) locks: Vec<(usize, Lock)>,
}

impl Draft {
    /// Chooses the access paths. `hashed`: number of hash tables in the statement so far.
    pub(crate) fn planned(self, sources: &[Source], hashed: &mut usize) -> Select {
        let Draft { from, mut groups, output, columns, texts, distinct, distinct_on, order, limit, offset, locks } =
            self;
        let joined = joined(sources, &from);
        let extreme = groups.as_ref().filter(|groups| groups.by.is_empty());
        let extreme = extreme.and_then(|groups| extreme_of(&groups.aggregates));
        let asked = if groups.is_some() { extreme.as_slice() } else { order.as_slice() };
        let (steps, in_order) = plan::steps(&joined, from.conditions.clone(), asked, hashed);
        if let Some(groups) = &mut groups {
            groups.first_is_enough = in_order && extreme.is_some();
        }
        let is_grouped = groups.is_some();
        let ordered = order.is_empty() || in_order && !is_grouped;
        let counted = !is_grouped && !distinct && distinct_on == 0 && output.iter().any(Expr::is_volatile);
        let made_last = !locks.is_empty() || counted && !order.iter().any(|one| one.by.is_volatile());
        Select {
            tables: sources.iter().map(|source| Arc::clone(&source.table)).collect(),
            steps,
            conditions: from.conditions.into_iter().map(|(_, condition)| condition).collect(),
            groups,
            output,
            columns,
            texts,
            distinct,
            distinct_on,
            ordered,
            order,
            limit,
            offset,
            locks,
            made_last,
        }
    }
}

/// The order in which the first non-NULL value is the result of the only aggregate.
fn extreme_of(aggregates: &[Aggregate]) -> Option<Order> {
    let [Aggregate { kind, of: Some(by @ Expr::Field { .. }), filter: None, .. }] = aggregates else { return None };
    let descending = match kind {
        Kind::Min => false,
        Kind::Max => true,
        _ => return None,
    };
    Some(Order { by: by.clone(), output: None, descending, nulls_first: descending })
}

impl Select {
    pub(crate) fn locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Tables whose rows it locks.
    pub(crate) fn locked(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.locks.iter().map(|(slot, _)| &self.tables[*slot])
    }

    /// Whether it reads this table.
    pub(crate) fn reads(&self, table: TableId) -> bool {
        self.tables.iter().any(|other| other.id() == table)
    }

    /// Whether it reads a derived table.
    pub(crate) fn reads_derived(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.whole, Access::Derived { .. }))
    }

    /// Whether it can stop after any row of the first table and resume there: no state is kept across rows.
    pub(crate) fn goes_by_parts(&self) -> bool {
        let whole = self.groups.is_none()
            && self.ordered
            && !self.distinct
            && self.distinct_on == 0
            && self.limit.is_none()
            && self.offset.is_none();
        let walks = matches!(self.steps.first(), Some(step) if matches!(step.access, Access::All | Access::Range(_)));
        whole && walks && !self.steps.iter().any(|step| step.outer.all_right())
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs it with the outer values `given`; returns the number of rows emitted.
    pub(crate) fn run<'a>(
        &'a self,
        ctx: &'a ExecContext<'a>,
        given: Vec<Datum<'a>>,
        emit: Emit<'_, 'a>,
    ) -> Result<u64> {
        let mut run = Run::new(&self.tables, ctx, given);
        let mut tail = SortLimit::new(self, &run)?;
        if tail.left == 0 {
            return Ok(0);
        }
        let flow = match &self.groups {
            None => self.join(&mut run, &mut |run| tail.joined(run, emit))?,
            Some(groups) => self.grouped(groups, &mut run, &mut tail, emit)?,
        };
        if flow.is_continue() {
            let _: Flow = tail.end(&mut run, emit)?;
        }
        Ok(tail.emitted)
    }

    /// Without FROM there is one row and no step to evaluate the conditions.
    fn join<'a>(&'a self, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
        if self.steps.is_empty() {
            for condition in &self.conditions {
                if !condition.holds(&run.frame)? {
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
        exec::joined(&self.steps, run, each)
    }

    fn grouped<'a>(
        &'a self,
        grouping: &'a Grouping,
        run: &mut Run<'a>,
        tail: &mut SortLimit<'a>,
        emit: Emit<'_, 'a>,
    ) -> Result<Flow> {
        let mut groups = Groups::new(&grouping.by, &grouping.types, &grouping.aggregates, &grouping.dependent);
        let _: Flow = self.join(run, &mut |run| {
            groups.row(&run.frame)?;
            let enough = grouping.first_is_enough && groups.has_values();
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        for group in groups.results(run.ctx()) {
            run.frame.computed = group?;
            if let Some(having) = &grouping.having
                && !having.holds(&run.frame)?
            {
                continue;
            }
            let flow = tail.row(run, emit)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
