//! FROM: tables, joins and the columns of `*`.

use model::{Error, SqlState};
use sqlparser::ast;

use crate::bind::{Bind, Binder, Refusal, Source, column_of, fold_ident};
use crate::expr::{Comparison, Expr};
use crate::plan::{Joined, Outer};
use crate::scope::{self, Scope};

/// Bound FROM clause.
#[derive(Default)]
pub(crate) struct From {
    /// Join type of each slot.
    pub(crate) joins: Vec<Outer>,
    /// Conditions, each with the last slot of the clause it stands in: it is evaluated before outer joins to later
    /// slots.
    pub(crate) conditions: Vec<(usize, Expr)>,
    /// Columns of `*`: slot and column.
    pub(crate) star: Vec<(usize, usize)>,
}

/// Slot of WHERE conditions: after all joins.
pub(crate) const WHERE: usize = usize::MAX;

impl From {
    /// Whether an outer join can leave this slot without a row.
    pub(crate) fn is_optional(&self, slot: usize) -> bool {
        let full = self.joins[slot + 1..].iter().any(|join| join.all_right());
        full || !matches!(self.joins[slot], Outer::None | Outer::Right(_))
    }
}

pub(crate) fn bind_from(binder: &mut Binder, from: &[ast::TableWithJoins], scope: &mut Scope<'_>) -> Bind<From> {
    let mut bound = From::default();
    for one in from {
        add(binder, &one.relation, &mut bound, scope)?;
        let first = binder.sources.len() - 1;
        let stars = bound.star.len() - binder.sources[first].schema().shown().count();
        for join in &one.joins {
            if join.global {
                return Err(Refusal::Unsupported);
            }
            add_join(binder, join, (first, stars), &mut bound, scope)?;
        }
    }
    Ok(bound)
}

/// The tables of FROM in the planner's form.
pub(crate) fn joined<'s>(sources: &'s [Source], from: &From) -> Vec<Joined<'s>> {
    sources.iter().zip(&from.joins).map(|(source, outer)| Joined { source, outer: outer.clone() }).collect()
}

impl From {
    /// Splits a condition at AND and adds the parts.
    pub(crate) fn cut(&mut self, slot: usize, condition: Expr) {
        let mut parts = Vec::new();
        scope::cut(condition, &mut parts);
        self.conditions.extend(parts.into_iter().map(|part| (slot, part)));
    }
}

fn add(binder: &mut Binder, factor: &ast::TableFactor, bound: &mut From, scope: &Scope<'_>) -> Bind<()> {
    let source = scope::source(binder, factor, scope.tables)?;
    if let Some(other) = binder.sources.iter().find(|other| other.name == source.name) {
        let text = format!("table name \"{}\" specified more than once", other.name);
        return Err(Error::new(SqlState::DUPLICATE_ALIAS, text).into());
    }
    bound.star.extend(source.schema().shown().map(|(at, _)| (source.slot, at)));
    binder.sources.push(source);
    bound.joins.push(Outer::None);
    Ok(())
}

/// Constructor of an outer join from its ON conditions.
type OuterOn = fn(Vec<Expr>) -> Outer;

/// `first`: the leftmost table of the join, whose ON cannot reference earlier tables, and the position in `*` of
/// its first column.
fn add_join(
    binder: &mut Binder,
    join: &ast::Join,
    first: (usize, usize),
    bound: &mut From,
    scope: &mut Scope<'_>,
) -> Bind<()> {
    use ast::JoinOperator as J;
    add(binder, &join.relation, bound, scope)?;
    let (constraint, outer): (_, Option<OuterOn>) = match &join.join_operator {
        J::Join(constraint) | J::Inner(constraint) => (constraint, None),
        J::Left(constraint) | J::LeftOuter(constraint) => (constraint, Some(Outer::Left)),
        J::Right(constraint) | J::RightOuter(constraint) => (constraint, Some(Outer::Right)),
        J::FullOuter(constraint) => (constraint, Some(Outer::Full)),
        J::CrossJoin(ast::JoinConstraint::None) => return Ok(()),
        _ => return Err(Refusal::Unsupported),
    };
    let slot = binder.sources.len() - 1;
    // A RIGHT or FULL join must return each right-side row once, not once for each row of an earlier table.
    let all_right = outer.is_some_and(|outer| outer(Vec::new()).all_right());
    if all_right && first.0 > 0 {
        return Err(Refusal::Unsupported);
    }
    let outside: Vec<_> = binder.sources.drain(..first.0).collect();
    let clause = std::mem::replace(&mut scope.clause, "JOIN conditions");
    let condition = match constraint {
        ast::JoinConstraint::On(on) => binder.condition(on, "JOIN/ON", scope),
        ast::JoinConstraint::Using(names) if !all_right => using(binder, names, first.1, bound),
        _ => Err(Refusal::Unsupported),
    };
    scope.clause = clause;
    binder.sources.splice(..0, outside);
    let Some(outer) = outer else {
        bound.cut(slot, condition?);
        return Ok(());
    };
    let mut conditions = Vec::new();
    scope::cut(condition?, &mut conditions);
    bound.joins[slot] = outer(conditions);
    Ok(())
}

/// `USING (a, b)`: equality with the newly added table; `*` has these columns once, and first.
fn using(binder: &mut Binder, names: &[ast::ObjectName], star: usize, bound: &mut From) -> Bind<Expr> {
    let Some(mut right) = binder.sources.pop() else { return Err(Refusal::Unsupported) };
    let (mut all, mut merged) = (None, Vec::new());
    for name in names {
        let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Err(Refusal::Unsupported) };
        let name = fold_ident(name);
        let missing = |side: &str| {
            let text = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            Error::new(SqlState::UNDEFINED_COLUMN, text)
        };
        let left = column_of(&binder.sources, None, &name)?.ok_or_else(|| missing("left"))?;
        let at = right.schema().column(&name).ok_or_else(|| missing("right"))?;
        if let Expr::Field { slot, column, .. } = &left.expr {
            merged.push((*slot, *column));
        }
        let one = Expr::Compare(Comparison::Equal, Box::new(binder.same_type(left, right.field(at), "=")?));
        all = Some(match all {
            None => one,
            Some(all) => Expr::And(Box::new([all, one])),
        });
        right.hidden.push(at);
    }
    let rest = bound.star.split_off(star);
    let is_rest =
        |one: &(usize, usize)| !(merged.contains(one) || one.0 == right.slot && right.hidden.contains(&one.1));
    let rest: Vec<_> = rest.into_iter().filter(is_rest).collect();
    bound.star.extend(merged);
    bound.star.extend(rest);
    binder.sources.push(right);
    all.ok_or(Refusal::Unsupported)
}
