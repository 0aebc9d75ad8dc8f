//! Planner: join order and access paths.
//!
//! Conditions are split at AND. Tables are joined by nested loops; the next table is always the one with the
//! cheapest access path given the tables already joined: full key, key prefix, scan. If that begins with all rows of a large
//! table, other orders are tried, each beginning with another table and going on with the one that gives the fewest rows, and the
//! cheapest by estimated rows is taken ([`crate::estimates`]). A condition is evaluated as
//! soon as the rows it needs are available. Equalities used for a key lookup are not evaluated again: every row
//! found by the key satisfies them. (If a row changed before it was locked, the statement evaluates all conditions
//! again.)

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use binder::tree::SystemColumn;
use model::Type;
use rows::{IndexData, RowTable};

use crate::estimates::{self, Estimate};
use crate::expr::{Comparison, Expr, all_of, any_of};
use crate::from::Source;
use crate::inverted::Seek;
use crate::key_cast::{self, ColumnCast};
use crate::predicate;

/// One table of a join and its access path.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) slot: usize,
    pub(crate) access: Access,
    /// Conditions evaluated for each row found.
    pub(crate) filter: Vec<Expr>,
    /// Join type.
    pub(crate) outer: Outer,
    /// Access path to all rows of the table, for a right or full join's rows without a match.
    pub(crate) whole: Access,
}

/// Join type and ON conditions of an outer join. The conditions of an inner join are with those of WHERE.
#[derive(Clone, Debug, Default)]
pub(crate) enum Outer {
    #[default]
    None,
    /// A left row without a match is joined with NULLs.
    Left(Vec<Expr>),
    /// Right rows without a match come last, joined with NULLs.
    Right(Vec<Expr>),
    /// Both of the above.
    Full(Vec<Expr>),
}

impl Outer {
    /// ON conditions.
    pub(crate) fn on(&self) -> &[Expr] {
        match self {
            Outer::None => &[],
            Outer::Left(on) | Outer::Right(on) | Outer::Full(on) => on,
        }
    }

    /// Whether left rows without a match are kept.
    pub(crate) fn all_left(&self) -> bool {
        matches!(self, Outer::Left(_) | Outer::Full(_))
    }

    /// Whether right rows without a match are kept.
    pub(crate) fn all_right(&self) -> bool {
        matches!(self, Outer::Right(_) | Outer::Full(_))
    }

    fn is_inner(&self) -> bool {
        matches!(self, Outer::None)
    }
}

/// An index: the primary key, or a secondary index by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexRef {
    Primary,
    Secondary(usize),
}

impl IndexRef {
    /// The index of a table.
    pub(crate) fn of(self, table: &RowTable) -> Option<&Arc<IndexData>> {
        match self {
            IndexRef::Primary => table.primary.as_ref(),
            IndexRef::Secondary(at) => table.secondary.get(at),
        }
    }
}

/// An access path.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// By full primary keys.
    Points(Vec<Vec<Expr>>),
    /// By full primary keys whose last column takes each value of a subquery, cast to type `to` if given; `before`
    /// are the other columns.
    SubqueryPoints { before: Vec<Expr>, of: usize, given: Vec<Expr>, to: Option<Type> },
    /// By a key prefix and bounds of one index, in index order.
    Range(Range),
    /// By several key prefixes of one index, in list order.
    Prefixes { index: IndexRef, keys: Vec<Vec<Expr>>, tests: Vec<KeyTest> },
    /// By a key prefix, or a full primary key, for each element of an array parameter ([`Expr::Element`]).
    ArrayPrefixes { index: IndexRef, key: Vec<Expr>, array: usize, tests: Vec<KeyTest> },
    /// By several ranges of one index, which may overlap.
    Ranges(Vec<Range>),
    /// By keys of an inverted index; by another path if the operands give no keys.
    Inverted { index: IndexRef, seek: Seek, otherwise: Box<Access> },
    /// By hash table number `of`, built once for each run from the rows of `from` that pass `filter`. The key is
    /// `by` when it is built and `keys` when it is probed; `columns`: those of `by` that are plain columns, which
    /// come first.
    Hashed { of: usize, columns: Vec<usize>, by: Vec<Expr>, keys: Vec<Expr>, filter: Vec<Expr>, from: Box<Access> },
    /// By `ctid`.
    Records(RecordKeys),
    /// The rows of a derived table.
    Derived { of: usize, given: Vec<Expr> },
    /// A full scan.
    All,
}

/// The values of `ctid` that a condition names.
#[derive(Clone, Debug)]
pub(crate) enum RecordKeys {
    Values(Vec<Expr>),
    /// `ctid IN (subquery)`
    Subquery {
        of: usize,
        given: Vec<Expr>,
    },
    /// `ctid = ANY (array parameter)`, by number.
    Array(usize),
}

impl Access {
    /// The index that it looks into.
    pub(crate) fn index(&self) -> Option<IndexRef> {
        match self {
            Access::Points(_) | Access::SubqueryPoints { .. } => Some(IndexRef::Primary),
            Access::Range(range) => Some(range.index),
            Access::Ranges(ranges) => ranges.first().map(|range| range.index),
            Access::Prefixes { index, .. } | Access::ArrayPrefixes { index, .. } | Access::Inverted { index, .. } => {
                Some(*index)
            }
            Access::Hashed { from, .. } => from.index(),
            Access::Records(_) | Access::Derived { .. } | Access::All => None,
        }
    }

    /// Conditions on the rows of a hash table.
    fn filter(&self) -> &[Expr] {
        match self {
            Access::Hashed { filter, .. } => filter,
            _ => &[],
        }
    }

    /// Whether it reads the whole table.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Access::All => true,
            Access::Hashed { from, .. } => from.is_whole(),
            Access::Range(range) => range.equal.is_empty() && range.low.is_none() && range.high.is_none(),
            Access::Points(_)
            | Access::SubqueryPoints { .. }
            | Access::Prefixes { .. }
            | Access::Ranges(_)
            | Access::ArrayPrefixes { .. }
            | Access::Inverted { .. }
            | Access::Records(_)
            | Access::Derived { .. } => false,
        }
    }
}

/// A range of one index.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) index: IndexRef,
    /// Equality prefix: values of the first columns.
    pub(crate) equal: Vec<Expr>,
    /// Bounds of the next column.
    pub(crate) low: Option<RangeEnd>,
    pub(crate) high: Option<RangeEnd>,
    pub(crate) backwards: bool,
    pub(crate) tests: Vec<KeyTest>,
}

/// A bound of a range.
#[derive(Clone, Debug)]
pub(crate) struct RangeEnd {
    pub(crate) value: Expr,
    /// Whether the bound itself belongs to the range.
    pub(crate) inclusive: bool,
    /// Whether the value has another type than the column and must be converted ([`key_cast::end`]).
    pub(crate) fit: bool,
}

/// A filter on a later column of an index, evaluated on index entries before rows are fetched. The condition is
/// evaluated on the row as well.
#[derive(Clone, Debug)]
pub(crate) struct KeyTest {
    /// Position of the column in the index.
    pub(crate) at: usize,
    pub(crate) what: KeyCondition,
}

/// The condition of a [`KeyTest`].
#[derive(Clone, Debug)]
pub(crate) enum KeyCondition {
    /// Equal to one of these values.
    OneOf(Vec<Expr>),
    /// Equal to an element of the array with this number; the expression converts the element to the column's type.
    ElementOf(usize, Expr),
    /// Between these bounds.
    Between(Option<RangeEnd>, Option<RangeEnd>),
}

/// One sort key of ORDER BY.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) by: Expr,
    /// Position in the select list if it is an output column.
    pub(crate) output: Option<usize>,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// A table to be joined.
pub(crate) struct Joined<'s> {
    pub(crate) source: &'s Source,
    pub(crate) outer: Outer,
}

/// Chooses join order and access paths. Also returns whether rows come in the order `order`.
///
/// - `conditions`: each with the last slot of its clause, see [`crate::from::From`].
/// - `hashed`: number of hash tables in the statement so far.
pub(crate) fn steps(
    joined: &[Joined<'_>],
    mut conditions: Vec<(usize, Expr)>,
    order: &[Order],
    hashed: &mut usize,
) -> (Vec<Step>, bool) {
    conditions.extend(implied(joined, &conditions));
    let inner = joined.iter().take_while(|one| one.outer.is_inner()).count();
    let is_large = |one: &Joined<'_>| estimates::rows_of(one.source) > estimates::SCANNED_ROWS_MAX;
    let kept = (inner > 1 && joined.iter().any(is_large)).then(|| conditions.clone());
    // Estimates read indexes, so that most statements do without.
    let mut best = planned(joined, conditions, order, *hashed, Begin::Cheapest, None);
    let scans_much = best.steps.first().is_some_and(|step| {
        step.access.is_whole() && joined.iter().any(|one| one.source.slot == step.slot && is_large(one))
    });
    if let Some(conditions) = kept
        && scans_much
        && (order.is_empty() || !best.ordered)
    {
        let estimated = |begin| planned(joined, conditions.clone(), order, *hashed, begin, Some(Estimate::START));
        let cost = |plan: &Planned| plan.estimate.map_or(f64::INFINITY, |estimate| estimate.cost);
        let mut wanted = cost(&estimated(Begin::Cheapest)) * BETTER;
        for first in 0..inner {
            let other = estimated(Begin::With(first));
            if cost(&other) < wanted {
                wanted = cost(&other);
                best = other;
            }
        }
    }
    *hashed = best.hashed;
    (best.steps, best.ordered)
}

/// Another order must cost less than this share: estimates are rough.
const BETTER: f64 = 0.5;

/// How an order of joins begins, and which table is next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// The cheapest access path is always the next.
    Cheapest,
    /// Begins with this table; the one that gives the fewest rows is next.
    With(usize),
}

/// Access paths in the order of joins.
struct Planned {
    steps: Vec<Step>,
    /// Whether rows come in the order that was asked for.
    ordered: bool,
    estimate: Option<Estimate>,
    /// Number of hash tables in the statement.
    hashed: usize,
}

/// `estimate`: that of nothing joined, if the order is to be estimated.
fn planned(
    joined: &[Joined<'_>],
    mut conditions: Vec<(usize, Expr)>,
    order: &[Order],
    mut hashed: usize,
    begin: Begin,
    mut estimate: Option<Estimate>,
) -> Planned {
    // Right rows without a match come after the others, so a condition on both sides must wait for the join.
    let rights: Vec<usize> = joined.iter().filter(|one| one.outer.all_right()).map(|one| one.source.slot).collect();
    let may_ask = |slot: usize, stands: usize| !rights.iter().any(|right| slot < *right && *right <= stands);
    let mut sizes = vec![0.0; if estimate.is_some() { joined.len() } else { 0 }];
    for one in joined {
        if let Some(size) = sizes.get_mut(one.source.slot) {
            *size = estimates::rows_of(one.source);
        }
    }
    let mut bound = Vec::with_capacity(joined.len());
    let mut left: Vec<usize> = (0..joined.len()).collect();
    let mut steps: Vec<Step> = Vec::with_capacity(joined.len());
    let mut ordered = order.is_empty();
    while !left.is_empty() {
        // Whether this table is accessed more than once.
        let again = !steps.iter().all(|step| matches!(&step.access, Access::Points(keys) if keys.len() == 1));
        // Size of the largest table scanned so far: this table is accessed once for each of its rows.
        let is_whole = |step: &&Step| matches!(step.access, Access::Hashed { .. }) || step.access.is_whole();
        let rows = |step: &Step| joined.iter().find(|one| one.source.slot == step.slot).map(|one| rows_of(one.source));
        let around = steps.iter().filter(is_whole).filter_map(rows).max();
        let again = (again, around);
        // An outer join must come after all tables before it in FROM.
        let allowed = left.iter().take_while(|at| joined[**at].outer.is_inner()).count().max(1);
        let first = steps.is_empty();
        let choice = left[..allowed].iter().enumerate().filter_map(|(place, at)| {
            let one = &joined[*at];
            // A row of an outer join that WHERE rejects may still be the match that keeps its partner from a row of NULLs.
            let is_safe = |condition: &Expr| one.outer.is_inner() || rejects_nulls(condition, one.source.slot);
            let asked = conditions.iter().filter(|(stands, _)| may_ask(one.source.slot, *stands)).map(|(_, one)| one);
            let asked = asked.filter(|condition| is_safe(condition));
            let usable: Vec<&Expr> = asked.chain(one.outer.on()).collect();
            let found = access(one.source, &usable, &bound, if first { order } else { &[] }, again)?;
            Some((found.cost, place, found))
        });
        // Ties are decided by the order of FROM.
        let chosen = match begin {
            Begin::With(place) if first => choice.into_iter().find(|(_, at, _)| *at == place),
            Begin::With(_) => {
                let after = |place: usize, found: &Found| {
                    let one = &joined[left[place]];
                    let tested = tested(one.source, &found.access, &conditions, &bound);
                    estimate.unwrap_or(Estimate::START).joined(one.source, &found.access, tested, &sizes)
                };
                choice
                    .map(|(cost, place, found)| (after(place, &found), cost, place, found))
                    .min_by(|a, b| (a.0.rows, a.0.cost).partial_cmp(&(b.0.rows, b.0.cost)).unwrap_or(Ordering::Equal))
                    .map(|(_, cost, place, found)| (cost, place, found))
            }
            Begin::Cheapest => choice.min_by_key(|(cost, place, _)| (*cost, *place)),
        };
        let Some((_, place, mut found)) = chosen else { break };
        let one = &joined[left.remove(place)];
        if let Access::Hashed { of, .. } = &mut found.access {
            *of = hashed;
            hashed += 1;
        }
        // Rows of the first table stay in order, however many rows they are joined with.
        if first && !order.is_empty() {
            ordered = found.ordered && rights.is_empty();
        }
        let slot = one.source.slot;
        if one.outer.is_inner() {
            let all: Vec<&Expr> = conditions.iter().map(|(_, condition)| condition).collect();
            let mut answered = answered(one.source, &found.access, &all, &bound);
            answered.retain(|at| may_ask(slot, conditions[*at].0));
            let mut at = 0;
            conditions.retain(|_| {
                at += 1;
                !answered.contains(&(at - 1))
            });
        }
        bound.push(slot);
        // WHERE is evaluated after an outer join, for its NULL rows too.
        let (now, later): (Vec<_>, Vec<_>) = conditions
            .into_iter()
            .partition(|(stands, condition)| may_ask(slot, *stands) && needs_only(condition, &bound));
        conditions = later;
        let now = now.into_iter().map(|(_, condition)| condition);
        // Conditions on this table alone come first: they may guard others against errors.
        let (own, filter) = now.partition(|condition| {
            one.outer.is_inner() && !changes(condition, false) && needs_only(condition, &[slot])
        });
        let filter = match &mut found.access {
            Access::Hashed { filter: first, .. } => {
                *first = own;
                filter
            }
            _ => own.into_iter().chain(filter).collect(),
        };
        estimate = estimate.map(|before| {
            let tested = filter.iter().chain(found.access.filter());
            before.joined(one.source, &found.access, tested, &sizes)
        });
        let whole = whole(one.source);
        steps.push(Step { slot, access: found.access, filter, outer: one.outer.clone(), whole });
    }
    if let Some(last) = steps.last_mut() {
        last.filter.extend(conditions.into_iter().map(|(_, condition)| condition));
    }
    Planned { steps, ordered, estimate, hashed }
}

/// Conditions that are evaluated on the rows that an access path finds: those that can be from then on, and that it does not answer.
fn tested<'c>(
    source: &Source,
    access: &Access,
    conditions: &'c [(usize, Expr)],
    bound: &[usize],
) -> impl Iterator<Item = &'c Expr> {
    let all: Vec<&Expr> = conditions.iter().map(|(_, condition)| condition).collect();
    let answered = answered(source, access, &all, bound);
    let with: Vec<usize> = bound.iter().copied().chain([source.slot]).collect();
    let is_new = |condition: &Expr| needs_only(condition, &with) && !needs_only(condition, bound);
    let tested: Vec<&Expr> = all
        .into_iter()
        .enumerate()
        .filter(|(at, one)| !answered.contains(at) && is_new(one))
        .map(|(_, one)| one)
        .collect();
    tested.into_iter()
}

/// Derives conditions on single tables from an OR over several: from `a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4`
/// follows `a.x = 1 OR a.x = 3`.
fn implied(joined: &[Joined<'_>], conditions: &[(usize, Expr)]) -> Vec<(usize, Expr)> {
    let mut found = Vec::new();
    if joined.len() < 2 {
        return found;
    }
    for (stands, condition) in conditions.iter().filter(|(_, condition)| matches!(condition, Expr::Or(_))) {
        let mut parts = Vec::new();
        alternatives(condition, &mut parts);
        for one in joined {
            let slot = one.source.slot;
            if needs_only(condition, &[slot]) {
                continue;
            }
            let own = |part: &&Expr| -> Option<Expr> {
                let mut all = Vec::new();
                conjuncts(part, &mut all);
                let own = all.into_iter().filter(|one| has_field(one) && needs_only(one, &[slot]));
                all_of(own.cloned().collect())
            };
            let alternatives = parts.iter().map(own).collect::<Option<Vec<_>>>();
            found.extend(alternatives.and_then(any_of).map(|any| (*stands, any)));
        }
    }
    found
}

/// Whether a condition is never true for a row of NULLs in a slot. Such a condition on a row that an outer join adds
/// decides the same with and without the match, so that it may select the rows to match.
fn rejects_nulls(condition: &Expr, slot: usize) -> bool {
    let is_field = |expr: &Expr| match expr {
        Expr::Field { slot: of, .. } => *of == slot,
        Expr::Cast { what, .. } => matches!(&**what, Expr::Field { slot: of, .. } if *of == slot),
        _ => false,
    };
    match condition {
        Expr::Compare(_, sides) => sides.iter().any(is_field),
        Expr::Like { what, .. } => is_field(&what[0]),
        Expr::InList { what, .. } => is_field(what),
        Expr::InArray { what, not: false, .. } | Expr::InResult { what, not: false, .. } => is_field(what),
        Expr::InRows { what, not: false, .. } => what.iter().any(is_field),
        Expr::And(sides) => sides.iter().any(|side| rejects_nulls(side, slot)),
        Expr::Or(sides) => sides.iter().all(|side| rejects_nulls(side, slot)),
        _ => false,
    }
}

fn has_field(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| found |= matches!(part, Expr::Field { .. } | Expr::System { .. }));
    found
}

/// Access path to all rows of a table.
fn whole(source: &Source) -> Access {
    match &source.derived {
        None => Access::All,
        Some(derived) => Access::Derived { of: derived.of, given: derived.given.clone() },
    }
}

/// Positions of the equalities and IN lists that every row of this access path satisfies, one for each key column used.
fn answered(source: &Source, access: &Access, conditions: &[&Expr], bound: &[usize]) -> Vec<usize> {
    let columns = match access {
        Access::Points(keys) if keys.len() == 1 => columns_of(&source.table, IndexRef::Primary),
        Access::Points(keys) => return listed(source, (IndexRef::Primary, keys), conditions, bound),
        Access::Prefixes { index, keys, .. } => return listed(source, (*index, keys), conditions, bound),
        Access::Range(range) => &columns_of(&source.table, range.index)[..range.equal.len()],
        // Expressions in `by` are not included: their conditions are evaluated again.
        Access::Hashed { columns, .. } => columns,
        _ => return Vec::new(),
    };
    let first = |column: &usize| conditions.iter().position(|one| equal_to(source, *column, &[one], bound).is_some());
    columns.iter().filter_map(first).collect()
}

/// As [`answered`], for keys of which one column takes each value of an IN list.
fn listed(
    source: &Source,
    (index, keys): (IndexRef, &[Vec<Expr>]),
    conditions: &[&Expr],
    bound: &[usize],
) -> Vec<usize> {
    let Some(columns) = keys.first().and_then(|key| columns_of(&source.table, index).get(..key.len())) else {
        return Vec::new();
    };
    // Keys of lists of rows come first.
    if rows_in(source, columns_of(&source.table, index), conditions, bound).is_some() {
        return Vec::new();
    }
    let position = |column: &usize| {
        let is_equal = |one: &&Expr| equal_to(source, *column, &[one], bound).is_some();
        let is_list =
            |one: &&Expr| list_of(source, *column, &[one], bound).is_some_and(|(_, list)| list.len() == keys.len());
        conditions.iter().position(is_equal).or_else(|| conditions.iter().position(is_list))
    };
    columns.iter().filter_map(position).collect()
}

/// Cost of a lookup by a full unique key.
const ONE_ROW: u32 = 3;

struct Found {
    access: Access,
    /// Relative; lower is better.
    cost: u32,
    ordered: bool,
}

/// The best access path given the joined tables `bound`; `None` if the table is a lateral derived table whose outer
/// values are not bound yet.
///
/// - `again`: whether the table is accessed more than once; if so, for each row of how large a table.
fn access(
    source: &Source,
    conditions: &[&Expr],
    bound: &[usize],
    order: &[Order],
    again: (bool, Option<u64>),
) -> Option<Found> {
    if source.derived.as_ref().is_some_and(|derived| !derived.given.iter().all(|one| needs_only(one, bound))) {
        return None;
    }
    let mut best = stored(source, conditions, bound, order);
    if matches!(best.access, Access::All) {
        best.access = whole(source);
    }
    if INVERTED < best.cost
        && let Some((index, seek)) = inverted(source, conditions, bound)
    {
        let otherwise = Box::new(best.access);
        best = Found { access: Access::Inverted { index, seek, otherwise }, cost: INVERTED, ordered: false };
    }
    Some(hashed(source, &best, conditions, bound, again).unwrap_or(best))
}

/// A hash table on columns without an index, if the table is accessed repeatedly and the best path would scan the
/// same rows each time. Never replaces an ordered path: with LIMIT only its first rows may be needed.
///
/// - `again`: whether rows of `bound` come more than once; outer values of a correlated query do.
/// - `around`: size of the largest table scanned among `bound`.
fn hashed(
    source: &Source,
    best: &Found,
    conditions: &[&Expr],
    bound: &[usize],
    (again, around): (bool, Option<u64>),
) -> Option<Found> {
    let cost = match &best.access {
        Access::All => 900,
        Access::Derived { .. } => 200,
        _ => best.cost,
    };
    let is_kept = matches!(&best.access, Access::Range(_)) && (best.cost <= ONE_ROW || best.ordered);
    let same = !is_kept && is_same(&best.access);
    // A key prefix with several columns left open may match much of the table.
    let is_broad = |range: &Range| {
        let columns = columns_of(&source.table, range.index);
        let is_known = |column: &usize| equal_to(source, *column, conditions, bound).is_some();
        let known = source.schema().shown().filter(|(column, _)| is_known(column)).count();
        range.equal.len() + 1 < columns.len() && known > range.equal.len()
    };
    let many = around.is_some_and(|rows| rows.saturating_mul(BROAD_ROWS) >= rows_of(source));
    let broad = matches!(&best.access, Access::Range(range) if many && !same && !best.ordered && is_broad(range));
    if !same && !broad {
        return None;
    }
    let columns = source.schema().shown().map(|(at, _)| at);
    let keys = columns.filter_map(|column| Some((column, equal_to(source, column, conditions, bound)?)));
    let (columns, mut keys): (Vec<usize>, Vec<Expr>) = keys.unzip();
    let mut by: Vec<Expr> = columns.iter().map(|column| source.field(*column)).collect();
    for (one, key) in conditions.iter().filter_map(|condition| expression_equal(source, condition, bound)) {
        by.push(one.clone());
        keys.push(key.clone());
    }
    // Conditions that were key filters before may now be part of the hash key.
    let from = Box::new(match broad {
        true => whole(source),
        false => without_tests(&best.access, |expr| changes(expr, true)),
    });
    let changes = keys.iter().any(|key| changes(key, again));
    let access = Access::Hashed { of: 0, columns, by, keys, filter: Vec::new(), from };
    changes.then_some(Found { access, cost, ordered: false })
}

/// Whether an access path finds the same rows each time.
fn is_same(access: &Access) -> bool {
    let fixed = |keys: &[Expr]| !keys.iter().any(|key| changes(key, true));
    let fixed_range = |range: &Range| {
        fixed(&range.equal) && range.low.iter().chain(&range.high).all(|end| !changes(&end.value, true))
    };
    match access {
        Access::All => true,
        Access::Derived { given, .. } => given.is_empty(),
        Access::Range(range) => fixed_range(range),
        Access::Prefixes { keys, .. } => keys.iter().all(|key| fixed(key)),
        Access::Ranges(ranges) => ranges.iter().all(fixed_range),
        Access::Inverted { seek, otherwise, .. } => {
            !seek.any_value(&|value| changes(value, true)) && is_same(otherwise)
        }
        Access::Points(_)
        | Access::SubqueryPoints { .. }
        | Access::ArrayPrefixes { .. }
        | Access::Records(_)
        | Access::Hashed { .. } => false,
    }
}

/// Rows of the table that may be hashed for each row of the outer table, instead of being looked up by a key
/// prefix; about the number of rows such a lookup reads.
const BROAD_ROWS: u64 = 50;

/// Estimated number of rows; unknown (0) for derived tables.
fn rows_of(source: &Source) -> u64 {
    source.table.records.bound()
}

/// An equality of an expression over columns of this table with a value known from `bound`; plain columns are
/// excluded.
fn expression_equal<'e>(source: &Source, condition: &'e Expr, bound: &[usize]) -> Option<(&'e Expr, &'e Expr)> {
    let Expr::Compare(Comparison::Equal, sides) = condition else { return None };
    let [left, right] = &**sides;
    [(left, right), (right, left)].into_iter().find(|(one, other)| {
        let is_column = matches!(one, Expr::Field { .. }) || cast_column(one).is_some_and(|at| exact(source, at, one));
        // Outer values are constant while the table is built, but change between runs of the subquery.
        !is_column
            && has_field(one)
            && !changes(one, false)
            && needs_only(one, &[source.slot])
            && needs_only(other, bound)
    })
}

/// Whether it is a cast of the column for which the column's own index can be used.
fn exact(source: &Source, column: usize, expr: &Expr) -> bool {
    column_cast_of(expr, source, column) == Some(ColumnCast::Exact)
}

/// The column under a cast.
fn cast_column(expr: &Expr) -> Option<usize> {
    let Expr::Cast { what, .. } = expr else { return None };
    if let Expr::Field { column, .. } = &**what { Some(*column) } else { None }
}

/// Removes key filters that depend on changing values: the hash table is built once for each run.
fn without_tests(access: &Access, changes: impl Fn(&Expr) -> bool) -> Access {
    let mut access = access.clone();
    let keep = |test: &KeyTest| match &test.what {
        KeyCondition::OneOf(list) => !list.iter().any(&changes),
        KeyCondition::ElementOf(..) => true,
        KeyCondition::Between(low, high) => !low.iter().chain(high).any(|end| changes(&end.value)),
    };
    match &mut access {
        Access::Range(range) => range.tests.retain(keep),
        Access::Ranges(ranges) => ranges.iter_mut().for_each(|range| range.tests.retain(keep)),
        Access::Prefixes { tests, .. } | Access::ArrayPrefixes { tests, .. } => tests.retain(keep),
        Access::Inverted { otherwise, .. } => **otherwise = without_tests(otherwise, changes),
        _ => {}
    }
    access
}

/// Whether a value may change between lookups. `fields`: count columns of other tables as changing.
fn changes(expr: &Expr, fields: bool) -> bool {
    let mut changes = false;
    expr.visit(&mut |part| {
        changes |=
            matches!(part, Expr::OuterValue(_)) || fields && matches!(part, Expr::Field { .. } | Expr::System { .. })
    });
    changes
}

/// The values that a condition gives `ctid`, if they are known from `bound`.
fn record_keys(source: &Source, condition: &Expr, bound: &[usize]) -> Option<RecordKeys> {
    let is_ctid =
        |expr: &Expr| matches!(expr, Expr::System { slot, column: SystemColumn::Ctid, .. } if *slot == source.slot);
    match condition {
        Expr::Compare(Comparison::Equal, sides) => {
            let [left, right] = &**sides;
            let mut pairs = [(left, right), (right, left)].into_iter();
            let (_, value) = pairs.find(|(one, other)| is_ctid(one) && needs_only(other, bound))?;
            Some(RecordKeys::Values(vec![value.clone()]))
        }
        Expr::InList { what, list, not: false } => {
            let is_known = is_ctid(what) && list.iter().all(|value| needs_only(value, bound));
            is_known.then(|| RecordKeys::Values(list.clone()))
        }
        Expr::InResult { what, of, given, not: false } => {
            let is_known = is_ctid(what) && given.iter().all(|value| needs_only(value, bound));
            is_known.then(|| RecordKeys::Subquery { of: *of, given: given.clone() })
        }
        Expr::InArray { what, array, not: false } => is_ctid(what).then_some(RecordKeys::Array(*array)),
        _ => None,
    }
}

fn stored(source: &Source, conditions: &[&Expr], bound: &[usize], order: &[Order]) -> Found {
    let table = &source.table;
    if let Some(keys) = conditions.iter().find_map(|condition| record_keys(source, condition, bound)) {
        return Found { access: Access::Records(keys), cost: 0, ordered: order.is_empty() };
    }
    if let Some(points) = points(source, conditions, bound) {
        let one = points.len() == 1;
        let ordered = one && order.iter().all(|order| needs_only(&order.by, &[source.slot]));
        return Found { access: Access::Points(points), cost: u32::from(!one), ordered };
    }
    if let Some(access) = subquery_points(source, conditions, bound) {
        return Found { access, cost: 2, ordered: false };
    }
    let whole = columns_of(table, IndexRef::Primary);
    if let Some((key, array)) =
        array_prefixes(source, whole, conditions, bound).filter(|(key, _)| key.len() == whole.len())
    {
        let access = Access::ArrayPrefixes { index: IndexRef::Primary, key, array, tests: Vec::new() };
        return Found { access, cost: 2, ordered: false };
    }
    let mut best = Found { access: Access::All, cost: 1_000, ordered: false };
    let primary = table.primary.as_ref().map(|_| IndexRef::Primary);
    for which in primary.into_iter().chain((0..table.secondary.len()).map(IndexRef::Secondary)) {
        let Some(is_partial) = serves(source, which, conditions) else { continue };
        if which.of(table).is_some_and(|index| index.is_inverted()) {
            continue;
        }
        let columns = columns_of(table, which);
        let lists = [prefixes(source, columns, conditions, bound), rows_in(source, columns, conditions, bound)];
        for keys in lists.into_iter().flatten() {
            // One more than a range with as many columns, because there are several lookups.
            let cost = 1 + cost_of(keys[0].len(), columns.len());
            if cost < best.cost {
                best =
                    Found { access: Access::Prefixes { index: which, keys, tests: Vec::new() }, cost, ordered: false };
            }
        }
        if let Some((key, array)) = array_prefixes(source, columns, conditions, bound) {
            let cost = 1 + cost_of(key.len(), columns.len());
            if cost < best.cost {
                let access = Access::ArrayPrefixes { index: which, key, array, tests: Vec::new() };
                best = Found { access, cost, ordered: false };
            }
        }
        if let Some(ranges) = ranges(source, which, columns, conditions, bound) {
            let cost = 1 + cost_of(ranges[0].equal.len(), columns.len()) - 2;
            if cost < best.cost {
                best = Found { access: Access::Ranges(ranges), cost, ordered: false };
            }
        }
        let equal: Vec<Expr> =
            columns.iter().map_while(|column| equal_to(source, *column, conditions, bound)).collect();
        let next = columns.get(equal.len());
        let (low, high) = match next {
            Some(next) => bounds_of(source, *next, conditions, bound),
            None => (None, None),
        };
        let (ordered, backwards) = in_order(source, &columns[equal.len()..], &columns[..equal.len()], order);
        let is_open = equal.is_empty() && low.is_none() && high.is_none() && !ordered;
        if is_open && !is_partial {
            continue;
        }
        let ranges = u32::from(low.is_some()) + u32::from(high.is_some());
        let whole = equal.len() == columns.len() && unique(table, which);
        let cost = match (whole, equal.len(), ranges) {
            (true, ..) => ONE_ROW,
            _ if is_open => PARTIAL,
            (_, equal, ranges) => cost_of(equal, columns.len()) - 2 * ranges - u32::from(ordered),
        };
        if cost < best.cost {
            let range = Range { index: which, equal, low, high, backwards, tests: Vec::new() };
            best = Found { access: Access::Range(range), cost, ordered };
        }
    }
    // Number of index columns that the access path already uses.
    let (index, known) = match &best.access {
        Access::Range(range) => {
            let ends = usize::from(range.low.is_some() || range.high.is_some());
            (range.index, range.equal.len() + ends)
        }
        Access::Ranges(ranges) => (ranges[0].index, ranges[0].equal.len()),
        Access::Prefixes { index, keys, .. } => (*index, keys.iter().map(Vec::len).min().unwrap_or(0)),
        Access::ArrayPrefixes { index, key, .. } => (*index, key.len()),
        _ => return best,
    };
    let found = key_tests(source, index, known, conditions, bound);
    match &mut best.access {
        Access::Range(range) => range.tests = found,
        Access::Ranges(ranges) => ranges.iter_mut().for_each(|range| range.tests.clone_from(&found)),
        Access::Prefixes { tests, .. } | Access::ArrayPrefixes { tests, .. } => *tests = found,
        _ => {}
    }
    best
}

/// Cost of the rows that an inverted index finds: more than those of a whole key of an ordered one, less than those of a part.
const INVERTED: u32 = 88;

/// The inverted index that serves the most of the conditions, and what they seek in it.
fn inverted(source: &Source, conditions: &[&Expr], bound: &[usize]) -> Option<(IndexRef, Seek)> {
    let indexes = source.table.secondary.iter().enumerate().filter(|(_, index)| index.is_inverted());
    let found = indexes.filter_map(|(at, index)| {
        let which = IndexRef::Secondary(at);
        serves(source, which, conditions)?;
        Some((which, Seek::of(source, index, conditions, bound)?))
    });
    // The first one of equals.
    found.reduce(|best, other| if other.1.tests() > best.1.tests() { other } else { best })
}

/// Cost of all rows of a partial index.
const PARTIAL: u32 = 900;

/// Whether an index is partial; `None` if it may lack rows that fulfil the conditions.
fn serves(source: &Source, which: IndexRef, conditions: &[&Expr]) -> Option<bool> {
    let IndexRef::Secondary(at) = which else { return Some(false) };
    let Some(column) = source.table.secondary[at].def().predicate else { return Some(false) };
    source.hidden(column).is_some_and(|predicate| predicate::implies(conditions, predicate)).then_some(true)
}

/// Filters on the index columns from position `known`.
fn key_tests(source: &Source, which: IndexRef, known: usize, conditions: &[&Expr], bound: &[usize]) -> Vec<KeyTest> {
    let mut tests = Vec::new();
    for (at, column) in columns_of(&source.table, which).iter().enumerate().skip(known) {
        let ty = source.schema().columns[*column].ty;
        let what = if let Some(value) = equal_to(source, *column, conditions, bound) {
            KeyCondition::OneOf(vec![value])
        } else if let Some((cast, list)) = list_of(source, *column, conditions, bound) {
            KeyCondition::OneOf(list.iter().filter_map(|one| key_value(cast, one.clone(), ty)).collect())
        } else if let Some((cast, array)) = array_of(source, *column, conditions)
            && let Some(element) = key_value(cast, Expr::Element, ty)
        {
            KeyCondition::ElementOf(array, element)
        } else {
            match bounds_of(source, *column, conditions, bound) {
                (None, None) => continue,
                (low, high) => KeyCondition::Between(low, high),
            }
        };
        tests.push(KeyTest { at, what });
    }
    tests
}

/// Cost of a lookup by the first `known` of `all` index columns. There are no statistics: more columns are better,
/// and a full key is better than a prefix of the same length.
fn cost_of(known: usize, all: usize) -> u32 {
    100 - 10 * (known.min(8) as u32) - if known == all { 4 } else { 0 }
}

fn unique(table: &RowTable, which: IndexRef) -> bool {
    match which {
        IndexRef::Primary => true,
        IndexRef::Secondary(at) => table.secondary[at].def().unique,
    }
}

fn columns_of(table: &RowTable, which: IndexRef) -> &[usize] {
    match which {
        IndexRef::Primary => table.primary.as_ref().map_or(&[], |index| &index.def().columns),
        IndexRef::Secondary(at) => &table.secondary[at].def().columns,
    }
}

/// Full primary keys: one from equalities, or one for each element of an IN list.
fn points(source: &Source, conditions: &[&Expr], bound: &[usize]) -> Option<Vec<Vec<Expr>>> {
    let columns = columns_of(&source.table, IndexRef::Primary);
    if columns.is_empty() {
        return None;
    }
    let equal: Vec<Option<Expr>> = columns.iter().map(|column| equal_to(source, *column, conditions, bound)).collect();
    if equal.iter().all(Option::is_some) {
        return Some(vec![equal.into_iter().flatten().collect()]);
    }
    if let Some(keys) = rows_in(source, columns, conditions, bound).filter(|keys| keys[0].len() == columns.len()) {
        return Some(keys);
    }
    let mut open = equal.iter().enumerate().filter(|(_, one)| one.is_none());
    let (at, None) = (open.next()?.0, open.next()) else { return None };
    let (cast, list) = list_of(source, columns[at], conditions, bound)?;
    let ty = source.schema().columns[columns[at]].ty;
    let key = |one: &Expr| equal.iter().map(|part| part.clone().or_else(|| key_value(cast, one.clone(), ty))).collect();
    list.iter().map(key).collect()
}

/// Key prefixes, one for each element of an IN list on one of the columns.
fn prefixes(source: &Source, columns: &[usize], conditions: &[&Expr], bound: &[usize]) -> Option<Vec<Vec<Expr>>> {
    let known = |column: &usize| equal_to(source, *column, conditions, bound);
    let before: Vec<Expr> = columns.iter().map_while(known).collect();
    let listed = *columns.get(before.len())?;
    let (cast, list) = list_of(source, listed, conditions, bound)?;
    let after: Vec<Expr> = columns[before.len() + 1..].iter().map_while(known).collect();
    let ty = source.schema().columns[listed].ty;
    let key = |one: &Expr| {
        let one = key_value(cast, one.clone(), ty)?;
        Some(before.iter().cloned().chain([one]).chain(after.iter().cloned()).collect())
    };
    let keys: Vec<_> = list.iter().map(key).collect::<Option<_>>()?;
    (!keys.is_empty()).then_some(keys)
}

/// The IN list of a column, and how the column is cast for the comparison.
fn list_of<'e>(
    source: &Source,
    column: usize,
    conditions: &[&'e Expr],
    bound: &[usize],
) -> Option<(ColumnCast, &'e [Expr])> {
    conditions.iter().find_map(|condition| match condition {
        Expr::InList { what, list, not: false } if list.iter().all(|one| needs_only(one, bound)) => {
            let cast = column_cast_of(what, source, column).filter(|cast| *cast != ColumnCast::Monotonic)?;
            Some((cast, list.as_slice()))
        }
        _ => None,
    })
}

/// The array parameter in `column = ANY (…)`, and how the column is cast for the comparison.
fn array_of(source: &Source, column: usize, conditions: &[&Expr]) -> Option<(ColumnCast, usize)> {
    conditions.iter().find_map(|condition| match condition {
        Expr::InArray { what, array, not: false } => Some((column_cast_of(what, source, column)?, *array)),
        _ => None,
    })
}

/// A key prefix with one column from `= ANY (array parameter)`; returns also the array's number.
fn array_prefixes(
    source: &Source,
    columns: &[usize],
    conditions: &[&Expr],
    bound: &[usize],
) -> Option<(Vec<Expr>, usize)> {
    let known = |column: &usize| equal_to(source, *column, conditions, bound);
    let mut key: Vec<Expr> = columns.iter().map_while(known).collect();
    let listed = *columns.get(key.len())?;
    let (cast, array) = array_of(source, listed, conditions)?;
    key.push(key_value(cast, Expr::Element, source.schema().columns[listed].ty)?);
    key.extend(columns[key.len()..].iter().map_while(known));
    Some((key, array))
}

/// Key prefixes from `(a, b) IN ((1, 2), (3, 4))`, which the binder turned into ANDs under ORs, and from equalities
/// next to it. All have the length of the shortest, so two of them are equal or disjoint.
fn rows_in(source: &Source, columns: &[usize], conditions: &[&Expr], bound: &[usize]) -> Option<Vec<Vec<Expr>>> {
    conditions.iter().find_map(|condition| {
        let mut rows = Vec::new();
        alternatives(condition, &mut rows);
        if rows.len() < 2 {
            return None;
        }
        let key = |row: &&Expr| -> Vec<Expr> {
            let mut parts = Vec::new();
            conjuncts(row, &mut parts);
            let known = |column: &usize| {
                equal_to(source, *column, &parts, bound).or_else(|| equal_to(source, *column, conditions, bound))
            };
            columns.iter().map_while(known).collect()
        };
        let mut keys: Vec<Vec<Expr>> = rows.iter().map(key).collect();
        let least = keys.iter().map(Vec::len).min().filter(|least| *least > 0)?;
        keys.iter_mut().for_each(|key| key.truncate(least));
        Some(keys)
    })
}

/// Ranges of an index from `k BETWEEN 1 AND 2 OR k > 5`, with equalities on the columns before `k`.
fn ranges(
    source: &Source,
    index: IndexRef,
    columns: &[usize],
    conditions: &[&Expr],
    bound: &[usize],
) -> Option<Vec<Range>> {
    let equal: Vec<Expr> = columns.iter().map_while(|column| equal_to(source, *column, conditions, bound)).collect();
    let next = *columns.get(equal.len())?;
    conditions.iter().find_map(|condition| {
        let mut parts = Vec::new();
        alternatives(condition, &mut parts);
        let range = |part: &&Expr| {
            let mut all = Vec::new();
            conjuncts(part, &mut all);
            let (low, high) = match equal_to(source, next, &all, bound) {
                Some(value) => {
                    let end = RangeEnd { value, inclusive: true, fit: false };
                    (Some(end.clone()), Some(end))
                }
                None => bounds_of(source, next, &all, bound),
            };
            let found = low.is_some() || high.is_some();
            found.then(|| Range { index, equal: equal.clone(), low, high, backwards: false, tests: Vec::new() })
        };
        if parts.len() < 2 { None } else { parts.iter().map(range).collect() }
    })
}

fn alternatives<'e>(condition: &'e Expr, out: &mut Vec<&'e Expr>) {
    match condition {
        Expr::Or(sides) => sides.iter().for_each(|side| alternatives(side, out)),
        other => out.push(other),
    }
}

/// Splits a condition at AND.
pub(crate) fn conjuncts<'e>(condition: &'e Expr, out: &mut Vec<&'e Expr>) {
    match condition {
        Expr::And(sides) => sides.iter().for_each(|side| conjuncts(side, out)),
        other => out.push(other),
    }
}

/// A primary key whose last column is compared by `IN (subquery)`, with equalities on the others.
fn subquery_points(source: &Source, conditions: &[&Expr], bound: &[usize]) -> Option<Access> {
    let (last, before) = columns_of(&source.table, IndexRef::Primary).split_last()?;
    // All columns but the last are known, in key order.
    let before: Vec<Expr> =
        before.iter().map(|column| equal_to(source, *column, conditions, bound)).collect::<Option<_>>()?;
    conditions.iter().find_map(|condition| match condition {
        Expr::InResult { what, of, given, not: false } if given.iter().all(|one| needs_only(one, bound)) => {
            let to = match column_cast_of(what, source, *last)? {
                ColumnCast::Identity => None,
                ColumnCast::Exact => Some(source.schema().columns[*last].ty),
                ColumnCast::Monotonic => return None,
            };
            Some(Access::SubqueryPoints { before: before.clone(), of: *of, given: given.clone(), to })
        }
        _ => None,
    })
}

/// Whether it is the column, or the expression that a hidden column holds.
pub(crate) fn is_field(expr: &Expr, source: &Source, wanted: usize) -> bool {
    if source.hidden(wanted).is_some_and(|hidden| hidden == expr) {
        return true;
    }
    matches!(expr, Expr::Field { slot, column, .. } if *slot == source.slot && *column == wanted)
}

/// The cast that an expression applies to a column of `source`; `None` if it is not that column, or the cast prevents index use.
fn column_cast_of(expr: &Expr, source: &Source, wanted: usize) -> Option<ColumnCast> {
    if is_field(expr, source, wanted) {
        return Some(ColumnCast::Identity);
    }
    let Expr::Cast { what, to, .. } = expr else { return None };
    if is_field(what, source, wanted) { key_cast::column_cast(source.schema().columns[wanted].ty, *to) } else { None }
}

/// Converts a value to a key column's type; `None` if no single key value corresponds to it.
fn key_value(cast: ColumnCast, value: Expr, to: Type) -> Option<Expr> {
    match cast {
        ColumnCast::Identity => Some(value),
        ColumnCast::Exact => Some(Expr::ToKeyType { what: Box::new(value), to }),
        ColumnCast::Monotonic => None,
    }
}

/// The value that an equality gives a column, if it is known from `bound`.
fn equal_to(source: &Source, column: usize, conditions: &[&Expr], bound: &[usize]) -> Option<Expr> {
    let ty = source.schema().columns[column].ty;
    conditions.iter().find_map(|condition| {
        let Expr::Compare(Comparison::Equal, sides) = condition else { return None };
        let [left, right] = &**sides;
        [(left, right), (right, left)].into_iter().find_map(|(one, other)| {
            let cast = column_cast_of(one, source, column)?;
            if needs_only(other, bound) { key_value(cast, other.clone(), ty) } else { None }
        })
    })
}

/// A comparison of the column with a known value, normalised to have the column on the left.
fn compared<'e>(
    condition: &'e Expr,
    source: &Source,
    column: usize,
    bound: &[usize],
) -> Option<(Comparison, &'e Expr, ColumnCast)> {
    let Expr::Compare(comparison, sides) = condition else { return None };
    let [left, right] = &**sides;
    let known = |one: &Expr, other: &Expr| column_cast_of(one, source, column).filter(|_| needs_only(other, bound));
    if let Some(cast) = known(left, right) {
        return Some((*comparison, right, cast));
    }
    known(right, left).map(|cast| (comparison.mirrored(), left, cast))
}

/// Lower and upper bound of a column.
fn bounds_of(
    source: &Source,
    column: usize,
    conditions: &[&Expr],
    bound: &[usize],
) -> (Option<RangeEnd>, Option<RangeEnd>) {
    let (mut low, mut high) = (None, None);
    let mut parts = Vec::new();
    conditions.iter().for_each(|condition| conjuncts(condition, &mut parts));
    for condition in parts {
        let Some((comparison, other, cast)) = compared(condition, source, column, bound) else { continue };
        let end = |inclusive| Some(RangeEnd { value: other.clone(), inclusive, fit: cast != ColumnCast::Identity });
        match comparison {
            Comparison::Greater if low.is_none() => low = end(false),
            Comparison::GreaterEqual if low.is_none() => low = end(true),
            Comparison::Less if high.is_none() => high = end(false),
            Comparison::LessEqual if high.is_none() => high = end(true),
            // For a monotonic cast, equality gives a range instead of one key.
            Comparison::Equal if cast == ColumnCast::Monotonic => {
                low = low.or_else(|| end(true));
                high = high.or_else(|| end(true));
            }
            _ => {}
        }
    }
    (low, high)
}

/// Whether an index scan returns the order `order`, and whether it must be backwards. `fixed`: columns with a
/// single value; `rest`: the index columns after them.
fn in_order(source: &Source, rest: &[usize], fixed: &[usize], order: &[Order]) -> (bool, bool) {
    let mut rest = rest.iter();
    let mut backwards = None;
    for one in order {
        // A column with a single value does not affect the order.
        if fixed.iter().any(|column| is_field(&one.by, source, *column)) {
            continue;
        }
        // Indexes store NULLs last.
        let fits = one.nulls_first == one.descending && *backwards.get_or_insert(one.descending) == one.descending;
        if !fits || !rest.next().is_some_and(|column| is_field(&one.by, source, *column)) {
            return (false, false);
        }
    }
    (!order.is_empty(), backwards.unwrap_or(false))
}

/// Whether an expression needs no rows but those of `slots` and may be evaluated any number of times.
pub(crate) fn needs_only(expr: &Expr, slots: &[usize]) -> bool {
    let mut enough = true;
    expr.visit(&mut |part| {
        enough &= match part {
            Expr::Field { slot, .. } | Expr::System { slot, .. } => slots.contains(slot),
            part => !part.is_volatile_itself(),
        }
    });
    enough
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tests = match self {
            Access::Points(keys) => return write!(f, "points {}", keys.len()),
            Access::SubqueryPoints { .. } => return f.write_str("points of a subquery"),
            Access::Hashed { by, .. } => return write!(f, "hashed {}", by.len()),
            Access::Records(_) => return f.write_str("records by ctid"),
            Access::Derived { .. } => return f.write_str("made"),
            Access::All => return f.write_str("all"),
            Access::Inverted { seek, .. } => return write!(f, "inverted {}", seek.tests()),
            Access::Range(range) => {
                write!(f, "range {}{}", range.equal.len(), if range.backwards { " backwards" } else { "" })?;
                &range.tests
            }
            Access::Prefixes { keys, tests, .. } => {
                write!(f, "{} ranges {}", keys.len(), keys[0].len())?;
                tests
            }
            Access::ArrayPrefixes { key, tests, .. } => {
                write!(f, "ranges {} of an array", key.len())?;
                tests
            }
            Access::Ranges(ranges) => {
                write!(f, "{} ranges {}", ranges.len(), ranges[0].equal.len())?;
                &ranges[0].tests
            }
        };
        match tests.len() {
            0 => Ok(()),
            count => write!(f, " with {count} tested in the index"),
        }
    }
}
