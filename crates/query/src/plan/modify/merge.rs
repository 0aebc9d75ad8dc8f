//! The query of a MERGE into a `columns` table with a key: the rows that a branch acts on, with the number of the branch and the
//! row after it.

use binder::tree::{Cte, Merge, MergeAction, MergeBranch, Query, Rel};
use catalog::TypeId;
use model::{Datum, Error, Result};
use scalar::{BooleanTest, Expr, ExprKind, Place, Value};

use super::{Branch, Builder, Layout, identity};

impl Builder<'_> {
    pub(super) fn merge(mut self, merge: Merge, ctes: Vec<Cte>, parameters: Vec<TypeId>) -> Result<(Query, Layout)> {
        if !self.table.keyed {
            let name = &self.table.name.table;
            let text = format!("MERGE into table \"{name}\", a columns table without a key, is not supported");
            return Err(Error::unsupported(text).with_hint("UPDATE, DELETE and INSERT … SELECT change such tables"));
        }
        let Merge { old, input, branches, .. } = merge;
        let time = self.table.columns.iter().position(|column| column.role == model::ColumnRole::Time);
        let time = time.map(|at| old[at]).ok_or_else(|| Error::bug("a table without time"))?;
        let (mut rel, acts) = self.acting(input, &branches, time);
        let action = self.add("action", TypeId::INT4);
        let numbers = (0..).zip(branches.iter().zip(&acts)).filter_map(|(number, (branch, acts))| {
            let constant = Value::Plain(Datum::Int4(number));
            let number = Expr::new(ExprKind::Constant(constant), TypeId::INT4, Place(0));
            (!matches!(branch.action, MergeAction::Nothing)).then(|| (self.column(*acts), number))
        });
        let value = case(numbers.collect(), Expr::null(TypeId::INT4, Place(0)));
        let with_action = self.with(rel, vec![(action, value)]);
        let is_changed = Expr::new(ExprKind::IsNotNull(Box::new(self.column(action))), TypeId::BOOL, Place(0));
        rel = Rel::Filter { input: Box::new(with_action), condition: is_changed };
        let mut values: Vec<Vec<(Expr, Expr)>> = vec![Vec::new(); old.len()];
        let mut kinds = Vec::with_capacity(branches.len());
        for (branch, acts) in branches.into_iter().zip(&acts) {
            let mut add = |builder: &Self, at: usize, value: Expr| values[at].push((builder.column(*acts), value));
            kinds.push(match branch.action {
                MergeAction::Nothing => Branch::Nothing,
                MergeAction::Delete => Branch::Delete,
                MergeAction::Update { row_queries, assignments, .. } => {
                    rel = self.row_queries(rel, &row_queries, Some(*acts), &ctes)?;
                    let mut assigned = Vec::new();
                    for assignment in assignments {
                        assigned.push(assignment.column);
                        add(&self, assignment.column, assignment.value);
                    }
                    assigned.sort_unstable();
                    assigned.dedup();
                    Branch::Update(assigned)
                }
                MergeAction::Insert { values, .. } => {
                    values.into_iter().enumerate().for_each(|(at, value)| add(&self, at, value));
                    Branch::Insert
                }
            });
        }
        let mut new = Vec::with_capacity(old.len());
        let mut columns = Vec::with_capacity(old.len());
        for (old, values) in old.iter().zip(values) {
            let old = self.column(*old);
            let number = self.add("new", old.ty);
            self.columns[number as usize].typmod = old.typmod;
            new.push(number);
            columns.push((number, case(values, old)));
        }
        let root = self.with(rel, columns);
        let mut numbers: Vec<u32> = identity(self.table).map(|at| old[at]).collect();
        let layout = Layout {
            is_joined: true,
            assigned: Vec::new(),
            identity: 0..numbers.len(),
            is_changed: None,
            row_number: None,
            action: Some(numbers.len()),
            branches: kinds,
            new: numbers.len() + 1..numbers.len() + 1 + new.len(),
            returning: 0..0,
        };
        numbers.push(action);
        numbers.extend(new);
        let output = numbers.iter().map(|number| self.output(*number)).collect();
        let Builder { columns, subqueries, .. } = self;
        Ok((Query { root, output, columns, subqueries, ctes, parameters }, layout))
    }

    /// Adds a column for each branch: whether it acts on the row. A condition is computed only where no branch before acts.
    fn acting(&mut self, input: Rel, branches: &[MergeBranch], time: u32) -> (Rel, Vec<u32>) {
        let (mut rel, mut acts) = (input, Vec::with_capacity(branches.len()));
        for (number, branch) in branches.iter().enumerate() {
            let time = Box::new(self.column(time));
            let kind = if branch.matched { ExprKind::IsNotNull(time) } else { ExprKind::IsNull(time) };
            let mut guard = vec![Expr::new(kind, TypeId::BOOL, Place(0))];
            for (before, acts) in branches[..number].iter().zip(&acts) {
                if before.matched == branch.matched {
                    let kind = ExprKind::Not(Box::new(self.column(*acts)));
                    guard.push(Expr::new(kind, TypeId::BOOL, Place(0)));
                }
            }
            let guard = match guard.len() {
                1 => guard.remove(0),
                _ => Expr::new(ExprKind::And(guard), TypeId::BOOL, Place(0)),
            };
            let value = match &branch.condition {
                None => guard,
                Some(condition) => {
                    let test = ExprKind::BooleanTest(Box::new(condition.clone()), BooleanTest::True);
                    case(vec![(guard, Expr::new(test, TypeId::BOOL, Place(0)))], Expr::bool(false, Place(0)))
                }
            };
            let column = self.add("acts", TypeId::BOOL);
            rel = self.with(rel, vec![(column, value)]);
            acts.push(column);
        }
        (rel, acts)
    }
}

/// CASE with these conditions and results; `otherwise` without any.
fn case(branches: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    if branches.is_empty() {
        return otherwise;
    }
    let (ty, typmod) = (otherwise.ty, otherwise.typmod);
    let kind = ExprKind::Case { operand: None, branches, otherwise: Some(Box::new(otherwise)) };
    Expr { kind, ty, typmod, at: Place(0) }
}
