//! GROUP BY and HAVING: grouping sets, and the check that other columns are aggregated.

use model::{Error, Result, SqlState};
use parser::ast::{self, ExprKind as Ast, GroupItem};
use rustc_hash::{FxHashMap, FxHashSet};
use scalar::{Expr, ExprKind, Place};

use crate::binder::{Binder, at_place, error};
use crate::query::Target;
use crate::scope::{Clause, Scope};
use crate::tree::{AggregateCall, Bound, Rel};
use crate::walk::for_each_expr;

/// Maximum number of grouping sets, as in PostgreSQL.
const SETS_MAX: usize = 4_096;

/// A grouping expression.
pub(crate) struct Key {
    pub(crate) expr: Expr,
    /// The item of the select list that it is. With grouping sets, equal items are keys of their own.
    pub(crate) target: Option<usize>,
}

/// GROUP BY.
pub(crate) struct Grouping {
    pub(crate) keys: Vec<Key>,
    /// Grouping sets by positions of keys; `None` is one set of all keys.
    pub(crate) sets: Option<Vec<Vec<usize>>>,
}

impl Binder<'_> {
    /// GROUP BY of a query; `None` without.
    pub(crate) fn grouping(
        &mut self,
        scope: &Scope<'_>,
        select: &ast::Select,
        targets: &[Target],
    ) -> Result<Option<Grouping>> {
        if select.group_by.is_empty() {
            return Ok(None);
        }
        let mut keys = Vec::new();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let is_plain = select.group_by.iter().all(|item| matches!(item, GroupItem::Expr(_)));
        for item in &select.group_by {
            let of_item = self.group_item(scope, item, targets, &mut keys)?;
            if sets.len().saturating_mul(of_item.len()) > SETS_MAX {
                let text = format!("too many grouping sets present (maximum {SETS_MAX})");
                return Err(Error::new(SqlState("54001"), text));
            }
            sets = sets.iter().flat_map(|set| of_item.iter().map(|more| union(set, more))).collect();
        }
        if select.group_distinct {
            let sorted = |set: &[usize]| {
                let mut set = set.to_vec();
                set.sort_unstable();
                set
            };
            let mut seen = FxHashSet::default();
            sets.retain(|set| seen.insert(sorted(set)));
        }
        Ok(Some(Grouping { keys, sets: (!is_plain).then_some(sets) }))
    }

    /// The grouping sets of an item.
    fn group_item(
        &mut self,
        scope: &Scope<'_>,
        item: &GroupItem,
        targets: &[Target],
        keys: &mut Vec<Key>,
    ) -> Result<Vec<Vec<usize>>> {
        Ok(match item {
            GroupItem::Empty => vec![Vec::new()],
            GroupItem::Expr(expr) => vec![self.group_exprs(scope, expr, targets, keys)?],
            GroupItem::Rollup(exprs) => {
                let parts = self.group_parts(scope, exprs, targets, keys)?;
                (0..=parts.len()).rev().map(|count| joined(&parts[..count])).collect()
            }
            GroupItem::Cube(exprs) => {
                let parts = self.group_parts(scope, exprs, targets, keys)?;
                if parts.len() > 12 {
                    let at = exprs.first().map_or(ast::Pos(0), |expr| expr.at);
                    return Err(error(SqlState("54011"), "CUBE is limited to 12 elements", at));
                }
                let subset = |mask: usize| {
                    let chosen = parts.iter().enumerate().filter(|(at, _)| mask >> (parts.len() - 1 - at) & 1 == 1);
                    joined(&chosen.map(|(_, part)| part.clone()).collect::<Vec<_>>())
                };
                (0..1_usize << parts.len()).rev().map(subset).collect()
            }
            GroupItem::Sets(items) => {
                let mut sets = Vec::new();
                for item in items {
                    sets.extend(self.group_item(scope, item, targets, keys)?);
                }
                sets
            }
        })
    }

    fn group_parts(
        &mut self,
        scope: &Scope<'_>,
        exprs: &[ast::Expr],
        targets: &[Target],
        keys: &mut Vec<Key>,
    ) -> Result<Vec<Vec<usize>>> {
        exprs.iter().map(|expr| self.group_exprs(scope, expr, targets, keys)).collect()
    }

    /// The keys of an expression; a row in parentheses is several.
    fn group_exprs(
        &mut self,
        scope: &Scope<'_>,
        expr: &ast::Expr,
        targets: &[Target],
        keys: &mut Vec<Key>,
    ) -> Result<Vec<usize>> {
        if let Ast::ImplicitRow(items) = &expr.kind {
            let mut all = Vec::new();
            for item in items {
                all = union(&all, &self.group_exprs(scope, item, targets, keys)?);
            }
            return Ok(all);
        }
        let named = self.named_target(scope, expr, targets, Clause::GroupBy)?;
        let key = match named {
            Some(target) => {
                let key = targets[target].expr.clone();
                self.check_groupable(scope, &key, expr.at)?;
                key
            }
            None => self.in_clause(scope, Clause::GroupBy, |binder| binder.expr(scope, expr))?,
        };
        let key = self.known(key)?;
        self.check_equality(key.ty, Place(expr.at.0))?;
        let target = named.or_else(|| targets.iter().position(|target| target.expr == key));
        let at = keys.iter().position(|other| other.expr == key && other.target == target).unwrap_or_else(|| {
            keys.push(Key { expr: key, target });
            keys.len() - 1
        });
        Ok(vec![at])
    }

    /// A target that GROUP BY refers to has no aggregates and no window functions.
    fn check_groupable(&self, scope: &Scope<'_>, key: &Expr, at: ast::Pos) -> Result<()> {
        let mut read = FxHashSet::default();
        self.outer.of_expr(key, &mut read);
        if scope.aggregates.borrow().iter().any(|(column, _)| read.contains(column)) {
            return Err(error(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY", at));
        }
        if scope.windows.borrow().iter().any(|(column, _)| read.contains(column)) {
            return Err(error(SqlState("42P20"), "window functions are not allowed in GROUP BY", at));
        }
        if scope.sets.borrow().iter().any(|(column, ..)| read.contains(column)) {
            return Err(crate::binder::unsupported("GROUP BY of a set-returning function", at));
        }
        Ok(())
    }

    /// Groups the rows of FROM and WHERE. What comes later then reads keys and aggregates.
    pub(crate) fn aggregated(
        &mut self,
        scope: &Scope<'_>,
        input: Rel,
        grouping: Grouping,
        targets: &mut [Target],
        having: Option<&mut Expr>,
    ) -> Result<Rel> {
        let has_sets = grouping.sets.is_some();
        let mut keys: Vec<(u32, Expr)> = Vec::with_capacity(grouping.keys.len());
        let mut of_targets: FxHashMap<usize, u32> = FxHashMap::default();
        for Key { expr, target } in grouping.keys {
            // Without grouping sets equal keys have equal values.
            if !has_sets && keys.iter().any(|(_, other)| *other == expr) {
                continue;
            }
            let column = self.group_column("group", &expr);
            of_targets.extend(target.map(|target| (target, column)));
            keys.push((column, expr));
        }
        let listed = self.grouping_calls(scope, &keys)?;
        let mut regroup = Regroup { keys, scope_own: scope.own.borrow().clone(), has_sets };
        for (at, target) in targets.iter_mut().enumerate() {
            match of_targets.get(&at) {
                Some(column) => target.expr.kind = ExprKind::Column(*column),
                None => regroup.change(self, scope, &mut target.expr, false)?,
            }
        }
        if let Some(having) = having {
            regroup.change(self, scope, having, false)?;
        }
        let mut windows = scope.windows.take();
        for (_, call) in &mut windows {
            let offsets = [&mut call.frame.start, &mut call.frame.end].into_iter().filter_map(|bound| match bound {
                Bound::Preceding(offset) | Bound::Following(offset) => Some(offset),
                _ => None,
            });
            let keys = call.order_by.iter_mut().map(|key| &mut key.expr);
            let exprs = call.arguments.iter_mut().chain(&mut call.filter).chain(&mut call.partition_by);
            for expr in exprs.chain(keys).chain(offsets) {
                regroup.change(self, scope, expr, false)?;
            }
        }
        scope.windows.replace(windows);
        let mut sets = scope.sets.take();
        for expr in sets.iter_mut().flat_map(|(_, _, arguments)| arguments) {
            regroup.change(self, scope, expr, false)?;
        }
        scope.sets.replace(sets);
        let aggregates: Vec<(u32, AggregateCall)> = scope.aggregates.take();
        // Direct arguments have one value in each group.
        for direct in aggregates.iter().filter(|(_, call)| call.within_group).flat_map(|(_, call)| &call.arguments) {
            regroup.change(self, scope, &mut direct.clone(), false)?;
        }
        let mut keys = regroup.keys;
        let input = self.session_windows(input, &mut keys, has_sets)?;
        Ok(Rel::Aggregate { input: Box::new(input), keys, sets: grouping.sets, aggregates, grouping: listed })
    }

    /// The number of a key's column. A key that is a table's column stays one.
    fn group_column(&mut self, name: &str, key: &Expr) -> u32 {
        let number = self.column(name, key.ty, key.typmod);
        if let ExprKind::Column(column) = key.kind
            && let Some(origin) = self.origins.get(&column).copied()
        {
            self.origins.insert(number, origin);
        }
        number
    }

    /// GROUPING(…) by positions of keys.
    fn grouping_calls(&self, scope: &Scope<'_>, keys: &[(u32, Expr)]) -> Result<Vec<(u32, Vec<usize>)>> {
        let one = |(column, arguments, at): &(u32, Vec<Expr>, ast::Pos)| {
            let place = |argument: &Expr| {
                keys.iter().position(|(_, key)| key == argument).ok_or_else(|| {
                    let text = "arguments to GROUPING must be grouping expressions of the associated query level";
                    let place = if argument.at.0 == 0 { Place(at.0) } else { argument.at };
                    at_place(Error::new(SqlState::GROUPING_ERROR, text), place)
                })
            };
            Ok((*column, arguments.iter().map(place).collect::<Result<_>>()?))
        };
        scope.grouping.take().iter().map(one).collect()
    }

    /// The name of a column of FROM in messages: `table.column`.
    fn shown_column(&self, scope: &Scope<'_>, column: u32) -> String {
        let tables = scope.tables.borrow();
        for source in tables.iter().filter(|source| source.by_table && !source.name.is_empty()) {
            let is_it = |expr: &Expr| matches!(expr.kind, ExprKind::Column(other) if other == column);
            if let Some(found) = source.columns.iter().find(|one| is_it(&one.expr)) {
                return format!("{}.{}", source.name, found.name);
            }
        }
        self.columns[column as usize].name.to_string()
    }
}

fn union(set: &[usize], more: &[usize]) -> Vec<usize> {
    let mut all = set.to_vec();
    for key in more {
        if !all.contains(key) {
            all.push(*key);
        }
    }
    all
}

fn joined(parts: &[Vec<usize>]) -> Vec<usize> {
    parts.iter().fold(Vec::new(), |all, part| union(&all, part))
}

/// Replaces grouping expressions by the columns of the groups.
struct Regroup {
    keys: Vec<(u32, Expr)>,
    /// Columns of FROM.
    scope_own: FxHashSet<u32>,
    has_sets: bool,
}

impl Regroup {
    fn change(&mut self, binder: &mut Binder<'_>, scope: &Scope<'_>, expr: &mut Expr, in_subquery: bool) -> Result<()> {
        if let Some((column, key)) = self.keys.iter().find(|(_, key)| key == expr) {
            *expr = Expr { kind: ExprKind::Column(*column), ty: key.ty, typmod: key.typmod, at: expr.at };
            return Ok(());
        }
        match &expr.kind {
            ExprKind::Column(column) if self.scope_own.contains(column) => {
                let column = *column;
                if self.is_determined(binder, column) {
                    let key = expr.clone();
                    let grouped = binder.group_column(&binder.columns[column as usize].name.clone(), &key);
                    self.keys.push((grouped, key));
                    expr.kind = ExprKind::Column(grouped);
                    return Ok(());
                }
                let shown = binder.shown_column(scope, column);
                let text = if in_subquery {
                    format!("subquery uses ungrouped column \"{shown}\" from outer query")
                } else {
                    format!("column \"{shown}\" must appear in the GROUP BY clause or be used in an aggregate function")
                };
                return Err(at_place(Error::new(SqlState::GROUPING_ERROR, text), expr.at));
            }
            ExprKind::Subquery(subquery) => {
                let query = subquery.query as usize;
                self.change_subquery(binder, scope, query)?;
            }
            _ => {}
        }
        let mut result = Ok(());
        expr.for_each_operand_mut(&mut |operand| {
            if result.is_ok() {
                result = self.change(binder, scope, operand, in_subquery);
            }
        });
        result
    }

    fn change_subquery(&mut self, binder: &mut Binder<'_>, scope: &Scope<'_>, query: usize) -> Result<()> {
        if binder.outer.subqueries[query].is_disjoint(&self.scope_own) {
            return Ok(());
        }
        let mut rel = std::mem::replace(&mut binder.subqueries[query].rel, Rel::Single);
        let mut result = Ok(());
        for_each_expr(&mut rel, &mut |expr| {
            if result.is_ok() {
                result = self.change(binder, scope, expr, true);
            }
        });
        binder.outer.subqueries[query] = binder.outer.of_rel(&mut rel);
        binder.subqueries[query].rel = rel;
        result
    }

    /// Whether a column has one value in each group because the table's primary key is grouped by.
    fn is_determined(&self, binder: &Binder<'_>, column: u32) -> bool {
        if self.has_sets {
            return false;
        }
        let column = binder.outer.system.row_of(column).unwrap_or(column);
        let Some((table, columns)) = binder.scans.iter().find(|(_, columns)| columns.contains(&column)) else {
            return false;
        };
        let is_key = |at: &usize| {
            let part = columns[*at];
            self.keys.iter().any(|(_, key)| matches!(key.kind, ExprKind::Column(other) if other == part))
        };
        !table.primary_key.is_empty() && table.primary_key.iter().all(is_key)
    }
}
