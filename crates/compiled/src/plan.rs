//! Which rows a statement looks at, in which order, by which index.
//!
//! Conditions are cut at AND. Tables are joined by nested loops: next comes the one that the rows so far lead to by the
//! shortest way: whole keys, the beginning of a key, anything. Every condition is checked as soon as the rows it needs are
//! there, but for those that say what a key is equal to: a row is found by its key only if it has it. (When a row turns out to
//! have changed before it was locked, its statement checks all conditions anew.)

use std::fmt;

use model::Type;
use rows::RowTable;

use crate::bind::{Source, all_of, any_of};
use crate::expr::{Comparison, Expr};
use crate::key_cast::{self, Behind};

/// One table of a join, and how its rows are found.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) slot: usize,
    pub(crate) access: Access,
    /// What must hold for a row once it is there.
    pub(crate) filter: Vec<Expr>,
    /// How it is joined to the tables before it.
    pub(crate) outer: Outer,
    /// How all its rows are found, for those that no row before fits.
    pub(crate) whole: Access,
}

/// An outer join, and on what; `None` for an inner one, whose conditions are among the others.
#[derive(Clone, Debug, Default)]
pub(crate) enum Outer {
    #[default]
    None,
    /// Where no row holds this, one of NULLs goes on.
    Left(Vec<Expr>),
    /// Rows that this holds with no row before come last, with NULLs for those before.
    Right(Vec<Expr>),
    /// Both.
    Full(Vec<Expr>),
}

impl Outer {
    /// What rows are joined on.
    pub(crate) fn on(&self) -> &[Expr] {
        match self {
            Outer::None => &[],
            Outer::Left(on) | Outer::Right(on) | Outer::Full(on) => on,
        }
    }

    /// Do all rows come of the tables before?
    pub(crate) fn all_left(&self) -> bool {
        matches!(self, Outer::Left(_) | Outer::Full(_))
    }

    /// Do all rows come of this table?
    pub(crate) fn all_right(&self) -> bool {
        matches!(self, Outer::Right(_) | Outer::Full(_))
    }

    fn is_inner(&self) -> bool {
        matches!(self, Outer::None)
    }
}

/// Which index: the primary, or a secondary one by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Primary,
    Secondary(usize),
}

/// How rows of a table are found.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// By whole primary keys.
    Points(Vec<Vec<Expr>>),
    /// By the primary key's last column, which is among what a subquery gave, after it was made this type if it has another.
    PointsOf { before: Vec<Expr>, of: usize, given: Vec<Expr>, to: Option<Type> },
    /// By the beginning of an index, in its order.
    Range(Range),
    /// By several beginnings of one index, in the order of a list.
    Beginnings { index: Which, keys: Vec<Vec<Expr>>, tests: Vec<KeyTest> },
    /// By the beginning of an index, or a whole primary key, that has each element of an array parameter in it.
    EachOf { index: Which, key: Vec<Expr>, array: usize, tests: Vec<KeyTest> },
    /// By several parts of one index, which may overlap.
    Ranges(Vec<Range>),
    /// By expressions of no index: a table of these is made, once for the statement, which has this number, of the rows that `from`
    /// finds. `columns` are those of them that are columns, the first ones.
    /// Only rows that `filter` holds for are in it.
    Hashed { of: usize, columns: Vec<usize>, by: Vec<Expr>, keys: Vec<Expr>, filter: Vec<Expr>, from: Box<Access> },
    /// Those that a query makes.
    Made { of: usize, given: Vec<Expr> },
    /// All of them.
    All,
}

impl Access {
    /// Does it find all rows?
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Access::All => true,
            Access::Hashed { from, .. } => from.is_whole(),
            Access::Range(range) => range.equal.is_empty() && range.low.is_none() && range.high.is_none(),
            Access::Points(_)
            | Access::PointsOf { .. }
            | Access::Beginnings { .. }
            | Access::Ranges(_)
            | Access::EachOf { .. }
            | Access::Made { .. } => false,
        }
    }
}

/// A part of an index.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) index: Which,
    /// The first columns.
    pub(crate) equal: Vec<Expr>,
    /// The next one.
    pub(crate) low: Option<End>,
    pub(crate) high: Option<End>,
    pub(crate) backwards: bool,
    pub(crate) tests: Vec<KeyTest>,
}

/// An end of a range of a column.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) value: Expr,
    /// Does the value belong to the range?
    pub(crate) inclusive: bool,
    /// Is it of another type than the column, and to be made one of that ([`key_cast::end`])?
    pub(crate) fit: bool,
}

/// A condition on a later column of an index: tested on its keys before their rows are read. The rows are tested as well.
#[derive(Clone, Debug)]
pub(crate) struct KeyTest {
    /// Which column of the index.
    pub(crate) at: usize,
    pub(crate) what: Tested,
}

/// The condition on one column of a key.
#[derive(Clone, Debug)]
pub(crate) enum Tested {
    /// One of these.
    OneOf(Vec<Expr>),
    /// An element of an array, each of which the expression makes one of the column's type.
    ElementOf(usize, Expr),
    /// Between these.
    Between(Option<End>, Option<End>),
}

/// What ORDER BY asks of one column.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) by: Expr,
    /// The column of the result that it is, if it is one.
    pub(crate) output: Option<usize>,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// A table that is to be joined.
pub(crate) struct Joined<'s> {
    pub(crate) source: &'s Source,
    pub(crate) outer: Outer,
}

/// Puts the tables in order; also says whether rows come in the order asked for.
///
/// - `conditions`: each with the slot behind which it stands, as [`crate::from::From`] has it.
/// - `hashed`: how many tables the statement makes of columns without index.
pub(crate) fn steps(
    joined: &[Joined<'_>],
    mut conditions: Vec<(usize, Expr)>,
    order: &[Order],
    hashed: &mut usize,
) -> (Vec<Step>, bool) {
    // Rows without a match come when those before are through: what is asked of both must wait for them.
    let rights: Vec<usize> = joined.iter().filter(|one| one.outer.all_right()).map(|one| one.source.slot).collect();
    let may_ask = |slot: usize, stands: usize| !rights.iter().any(|right| slot < *right && *right <= stands);
    conditions.extend(implied(joined, &conditions));
    let mut bound = Vec::with_capacity(joined.len());
    let mut left: Vec<usize> = (0..joined.len()).collect();
    let mut steps: Vec<Step> = Vec::with_capacity(joined.len());
    let mut ordered = order.is_empty();
    while !left.is_empty() {
        // Are rows looked for more than once?
        let again = !steps.iter().all(|step| matches!(&step.access, Access::Points(keys) if keys.len() == 1));
        // Rows of the largest table that is gone through before, for each of whose rows others are looked for.
        let is_whole = |step: &&Step| matches!(step.access, Access::Hashed { .. }) || step.access.is_whole();
        let rows = |step: &Step| joined.iter().find(|one| one.source.slot == step.slot).map(|one| rows_of(one.source));
        let around = steps.iter().filter(is_whole).filter_map(rows).max();
        let again = (again, around);
        // An outer join waits for all tables before it.
        let allowed = left.iter().take_while(|at| joined[**at].outer.is_inner()).count().max(1);
        let first = steps.is_empty();
        let choice = left[..allowed].iter().enumerate().filter_map(|(place, at)| {
            let one = &joined[*at];
            let asked = conditions.iter().filter(|(stands, _)| may_ask(one.source.slot, *stands)).map(|(_, one)| one);
            let usable: Vec<&Expr> = asked.chain(one.outer.on()).collect();
            let found = access(one.source, &usable, &bound, if first { order } else { &[] }, again)?;
            Some((found.cost, place, found))
        });
        // The order of FROM decides between equals.
        let Some((_, place, mut found)) = choice.min_by_key(|(cost, place, _)| (*cost, *place)) else { break };
        let one = &joined[left.remove(place)];
        if let Access::Hashed { of, .. } = &mut found.access {
            *of = *hashed;
            *hashed += 1;
        }
        // Rows of the first table stay in order, however many others follow each.
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
        // WHERE is asked after an outer join, of NULLs as well.
        let (now, later): (Vec<_>, Vec<_>) = conditions
            .into_iter()
            .partition(|(stands, condition)| may_ask(slot, *stands) && needs_only(condition, &bound));
        conditions = later;
        let now = now.into_iter().map(|(_, condition)| condition);
        // What is asked of the table alone is asked once for each row, before an expression is evaluated that it may guard.
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
        let whole = whole(one.source);
        steps.push(Step { slot, access: found.access, filter, outer: one.outer.clone(), whole });
    }
    if let Some(last) = steps.last_mut() {
        last.filter.extend(conditions.into_iter().map(|(_, condition)| condition));
    }
    (steps, ordered)
}

/// What alternatives over several tables say of each of them: of `a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4` that `a.x = 1 OR a.x = 3`.
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

fn has_field(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| found |= matches!(part, Expr::Field { .. }));
    found
}

/// How all rows of a table are found.
fn whole(source: &Source) -> Access {
    match &source.made {
        None => Access::All,
        Some(made) => Access::Made { of: made.of, given: made.given.clone() },
    }
}

/// Positions of the conditions that hold for every row found this way: one for each column that the key has from it.
fn answered(source: &Source, access: &Access, conditions: &[&Expr], bound: &[usize]) -> Vec<usize> {
    let columns = match access {
        Access::Points(keys) if keys.len() == 1 => columns_of(&source.table, Which::Primary),
        Access::Range(range) => &columns_of(&source.table, range.index)[..range.equal.len()],
        // By expressions rows are found too; these are asked again.
        Access::Hashed { columns, .. } => columns,
        _ => return Vec::new(),
    };
    let first = |column: &usize| conditions.iter().position(|one| equal_to(source, *column, &[one], bound).is_some());
    columns.iter().filter_map(first).collect()
}

/// What a unique key costs that is known as a whole.
const ONE_ROW: u32 = 3;

struct Found {
    access: Access,
    /// Less is better.
    cost: u32,
    ordered: bool,
}

/// The best way to a table's rows, given those in `bound`; nothing if it is made of others.
///
/// - `again`: are rows looked for more than once, and for each row of a whole table, which has so many?
fn access(
    source: &Source,
    conditions: &[&Expr],
    bound: &[usize],
    order: &[Order],
    again: (bool, Option<u64>),
) -> Option<Found> {
    if source.made.as_ref().is_some_and(|made| !made.given.iter().all(|one| needs_only(one, bound))) {
        return None;
    }
    let mut best = stored(source, conditions, bound, order);
    if matches!(best.access, Access::All) {
        best.access = whole(source);
    }
    Some(hashed(source, &best, conditions, bound, again).unwrap_or(best))
}

/// By equal columns that no index has, if rows are looked for more than once, and the best way would be through the same rows
/// each time. Not where they come in order: who asked for that may need the first only.
///
/// - `again`: do rows in `bound` come more than once? What a query around this one gives does.
/// - `around`: rows of a whole table among those in `bound`.
fn hashed(
    source: &Source,
    best: &Found,
    conditions: &[&Expr],
    bound: &[usize],
    (again, around): (bool, Option<u64>),
) -> Option<Found> {
    let fixed = |keys: &[Expr]| !keys.iter().any(|key| changes(key, true));
    let fixed_range = |range: &Range| {
        fixed(&range.equal) && range.low.iter().chain(&range.high).all(|end| !changes(&end.value, true))
    };
    let (same, cost) = match &best.access {
        Access::All => (true, 900),
        Access::Made { given, .. } => (given.is_empty(), 200),
        Access::Range(range) => (best.cost > ONE_ROW && !best.ordered && fixed_range(range), best.cost),
        Access::Beginnings { keys, .. } => (keys.iter().all(|key| fixed(key)), best.cost),
        Access::Ranges(ranges) => (ranges.iter().all(fixed_range), best.cost),
        Access::Points(_) | Access::PointsOf { .. } | Access::EachOf { .. } | Access::Hashed { .. } => (false, 0),
    };
    // The beginning of a key leads to much of the table when several of its columns are open.
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
    let mut by: Vec<Expr> = columns.iter().map(|column| source.field(*column).expr).collect();
    for (one, key) in conditions.iter().filter_map(|condition| expression_equal(source, condition, bound)) {
        by.push(one.clone());
        keys.push(key.clone());
    }
    // What was found by a test of keys before may be found by the hashed key now.
    let from = Box::new(match broad {
        true => whole(source),
        false => without_tests(&best.access, |expr| changes(expr, true)),
    });
    let changes = keys.iter().any(|key| changes(key, again));
    let access = Access::Hashed { of: 0, columns, by, keys, filter: Vec::new(), from };
    changes.then_some(Found { access, cost, ordered: false })
}

/// For one row of what is around it, so many rows of a table may be put into a hash table rather than be looked for by the beginning of
/// a key: about as many as are read for it then.
const BROAD_ROWS: u64 = 50;

/// About how many rows a table has; nothing is known of one that a query makes.
fn rows_of(source: &Source) -> u64 {
    source.table.records.bound()
}

/// An expression over the table's columns alone, which is not one of them, and what it is equal to, known from rows in `bound`.
fn expression_equal<'e>(source: &Source, condition: &'e Expr, bound: &[usize]) -> Option<(&'e Expr, &'e Expr)> {
    let Expr::Compare(Comparison::Equal, sides) = condition else { return None };
    let [left, right] = &**sides;
    [(left, right), (right, left)].into_iter().find(|(one, other)| {
        let is_column = matches!(one, Expr::Field { .. }) || cast_column(one).is_some_and(|at| exact(source, at, one));
        // What is given stays the same while the table is made, but not the next time.
        !is_column
            && has_field(one)
            && !changes(one, false)
            && needs_only(one, &[source.slot])
            && needs_only(other, bound)
    })
}

/// Is it the cast of a column by which the column itself is looked up?
fn exact(source: &Source, column: usize, expr: &Expr) -> bool {
    column_behind(expr, source, column) == Some(Behind::Exact)
}

/// The column that is cast.
fn cast_column(expr: &Expr) -> Option<usize> {
    let Expr::Cast { what, .. } = expr else { return None };
    if let Expr::Field { column, .. } = &**what { Some(*column) } else { None }
}

/// An access without the tests of keys that need more than is fixed: it is made once for the statement.
fn without_tests(access: &Access, changes: impl Fn(&Expr) -> bool) -> Access {
    let mut access = access.clone();
    let keep = |test: &KeyTest| match &test.what {
        Tested::OneOf(list) => !list.iter().any(&changes),
        Tested::ElementOf(..) => true,
        Tested::Between(low, high) => !low.iter().chain(high).any(|end| changes(&end.value)),
    };
    match &mut access {
        Access::Range(range) => range.tests.retain(keep),
        Access::Ranges(ranges) => ranges.iter_mut().for_each(|range| range.tests.retain(keep)),
        Access::Beginnings { tests, .. } | Access::EachOf { tests, .. } => tests.retain(keep),
        _ => {}
    }
    access
}

/// May an expression have another value the next time that rows are looked for?
fn changes(expr: &Expr, fields: bool) -> bool {
    let mut changes = false;
    expr.visit(&mut |part| changes |= matches!(part, Expr::Given(_)) || fields && matches!(part, Expr::Field { .. }));
    changes
}

fn stored(source: &Source, conditions: &[&Expr], bound: &[usize], order: &[Order]) -> Found {
    let table = &source.table;
    if let Some(points) = points(source, conditions, bound) {
        let one = points.len() == 1;
        let ordered = one && order.iter().all(|order| needs_only(&order.by, &[source.slot]));
        return Found { access: Access::Points(points), cost: u32::from(!one), ordered };
    }
    if let Some(access) = points_of(source, conditions, bound) {
        return Found { access, cost: 2, ordered: false };
    }
    let whole = columns_of(table, Which::Primary);
    if let Some((key, array)) = each_of(source, whole, conditions, bound).filter(|(key, _)| key.len() == whole.len()) {
        let access = Access::EachOf { index: Which::Primary, key, array, tests: Vec::new() };
        return Found { access, cost: 2, ordered: false };
    }
    let mut best = Found { access: Access::All, cost: 1_000, ordered: false };
    let primary = table.primary.as_ref().map(|_| Which::Primary);
    for which in primary.into_iter().chain((0..table.secondary.len()).map(Which::Secondary)) {
        let columns = columns_of(table, which);
        let lists = [beginnings(source, columns, conditions, bound), rows_in(source, columns, conditions, bound)];
        for keys in lists.into_iter().flatten() {
            // Each is as good as a range of as many columns, but there are several.
            let cost = 1 + cost_of(keys[0].len(), columns.len());
            if cost < best.cost {
                best = Found {
                    access: Access::Beginnings { index: which, keys, tests: Vec::new() },
                    cost,
                    ordered: false,
                };
            }
        }
        if let Some((key, array)) = each_of(source, columns, conditions, bound) {
            let cost = 1 + cost_of(key.len(), columns.len());
            if cost < best.cost {
                let access = Access::EachOf { index: which, key, array, tests: Vec::new() };
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
        if equal.is_empty() && low.is_none() && high.is_none() && !ordered {
            continue;
        }
        let ranges = u32::from(low.is_some()) + u32::from(high.is_some());
        let whole = equal.len() == columns.len() && unique(table, which);
        let cost = match (whole, equal.len(), ranges) {
            (true, ..) => ONE_ROW,
            (_, equal, ranges) => cost_of(equal, columns.len()) - 2 * ranges - u32::from(ordered),
        };
        if cost < best.cost {
            let range = Range { index: which, equal, low, high, backwards, tests: Vec::new() };
            best = Found { access: Access::Range(range), cost, ordered };
        }
    }
    // How many columns of the index are known already.
    let (index, known) = match &best.access {
        Access::Range(range) => {
            let ends = usize::from(range.low.is_some() || range.high.is_some());
            (range.index, range.equal.len() + ends)
        }
        Access::Ranges(ranges) => (ranges[0].index, ranges[0].equal.len()),
        Access::Beginnings { index, keys, .. } => (*index, keys.iter().map(Vec::len).min().unwrap_or(0)),
        Access::EachOf { index, key, .. } => (*index, key.len()),
        _ => return best,
    };
    let found = key_tests(source, index, known, conditions, bound);
    match &mut best.access {
        Access::Range(range) => range.tests = found,
        Access::Ranges(ranges) => ranges.iter_mut().for_each(|range| range.tests.clone_from(&found)),
        Access::Beginnings { tests, .. } | Access::EachOf { tests, .. } => *tests = found,
        _ => {}
    }
    best
}

/// What the conditions say of the columns of an index from the one at `known` on.
fn key_tests(source: &Source, which: Which, known: usize, conditions: &[&Expr], bound: &[usize]) -> Vec<KeyTest> {
    let mut tests = Vec::new();
    for (at, column) in columns_of(&source.table, which).iter().enumerate().skip(known) {
        let ty = source.schema().columns[*column].ty;
        let what = if let Some(value) = equal_to(source, *column, conditions, bound) {
            Tested::OneOf(vec![value])
        } else if let Some((behind, list)) = list_of(source, *column, conditions, bound) {
            Tested::OneOf(list.iter().filter_map(|one| sought(behind, one.clone(), ty)).collect())
        } else if let Some((behind, array)) = array_of(source, *column, conditions)
            && let Some(element) = sought(behind, Expr::Element, ty)
        {
            Tested::ElementOf(array, element)
        } else {
            match bounds_of(source, *column, conditions, bound) {
                (None, None) => continue,
                (low, high) => Tested::Between(low, high),
            }
        };
        tests.push(KeyTest { at, what });
    }
    tests
}

/// What it costs to go by this many known columns of an index that has `all`. Nothing is known of values: more columns are better, and of
/// as many those that are a whole key.
fn cost_of(known: usize, all: usize) -> u32 {
    100 - 10 * (known.min(8) as u32) - if known == all { 4 } else { 0 }
}

fn unique(table: &RowTable, which: Which) -> bool {
    match which {
        Which::Primary => true,
        Which::Secondary(at) => table.secondary[at].def().unique,
    }
}

fn columns_of(table: &RowTable, which: Which) -> &[usize] {
    match which {
        Which::Primary => table.primary.as_ref().map_or(&[], |index| &index.def().columns),
        Which::Secondary(at) => &table.secondary[at].def().columns,
    }
}

/// Whole primary keys, if the conditions give them: one, or those of one IN list.
fn points(source: &Source, conditions: &[&Expr], bound: &[usize]) -> Option<Vec<Vec<Expr>>> {
    let columns = columns_of(&source.table, Which::Primary);
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
    let (behind, list) = list_of(source, columns[at], conditions, bound)?;
    let ty = source.schema().columns[columns[at]].ty;
    let key = |one: &Expr| equal.iter().map(|part| part.clone().or_else(|| sought(behind, one.clone(), ty))).collect();
    list.iter().map(key).collect()
}

/// The first columns of an index, if the conditions give several values for one of them: those of one IN list.
fn beginnings(source: &Source, columns: &[usize], conditions: &[&Expr], bound: &[usize]) -> Option<Vec<Vec<Expr>>> {
    let known = |column: &usize| equal_to(source, *column, conditions, bound);
    let before: Vec<Expr> = columns.iter().map_while(known).collect();
    let listed = *columns.get(before.len())?;
    let (behind, list) = list_of(source, listed, conditions, bound)?;
    let after: Vec<Expr> = columns[before.len() + 1..].iter().map_while(known).collect();
    let ty = source.schema().columns[listed].ty;
    let key = |one: &Expr| {
        let one = sought(behind, one.clone(), ty)?;
        Some(before.iter().cloned().chain([one]).chain(after.iter().cloned()).collect())
    };
    let keys: Vec<_> = list.iter().map(key).collect::<Option<_>>()?;
    (!keys.is_empty()).then_some(keys)
}

/// The values of a column in an IN list, and how it is compared with them.
fn list_of<'e>(
    source: &Source,
    column: usize,
    conditions: &[&'e Expr],
    bound: &[usize],
) -> Option<(Behind, &'e [Expr])> {
    conditions.iter().find_map(|condition| match condition {
        Expr::InList { what, list, not: false } if list.iter().all(|one| needs_only(one, bound)) => {
            let behind = column_behind(what, source, column).filter(|behind| *behind != Behind::Near)?;
            Some((behind, list.as_slice()))
        }
        _ => None,
    })
}

/// The array parameter that must have a column among its elements, and how it is compared with them.
fn array_of(source: &Source, column: usize, conditions: &[&Expr]) -> Option<(Behind, usize)> {
    conditions.iter().find_map(|condition| match condition {
        Expr::InArray { what, array, not: false } => Some((column_behind(what, source, column)?, *array)),
        _ => None,
    })
}

/// The first columns of an index, if one of them is among the elements of an array parameter and the others are known; and which array.
fn each_of(source: &Source, columns: &[usize], conditions: &[&Expr], bound: &[usize]) -> Option<(Vec<Expr>, usize)> {
    let known = |column: &usize| equal_to(source, *column, conditions, bound);
    let mut key: Vec<Expr> = columns.iter().map_while(known).collect();
    let listed = *columns.get(key.len())?;
    let (behind, array) = array_of(source, listed, conditions)?;
    key.push(sought(behind, Expr::Element, source.schema().columns[listed].ty)?);
    key.extend(columns[key.len()..].iter().map_while(known));
    Some((key, array))
}

/// The first columns of an index by `(a, b) IN ((1, 2), (3, 4))`, which the binder made ANDs under ORs of; other columns may be given
/// beside it. All have as many columns as the least of them, so that two are the same or have no row in common.
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

/// Parts of an index by `k BETWEEN 1 AND 2 OR k > 5`, its columns before `k` being known.
fn ranges(
    source: &Source,
    index: Which,
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
                    let end = End { value, inclusive: true, fit: false };
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

/// Cuts a condition at AND.
pub(crate) fn conjuncts<'e>(condition: &'e Expr, out: &mut Vec<&'e Expr>) {
    match condition {
        Expr::And(sides) => sides.iter().for_each(|side| conjuncts(side, out)),
        other => out.push(other),
    }
}

/// A primary key whose last column is among what a subquery gave, the others being known.
fn points_of(source: &Source, conditions: &[&Expr], bound: &[usize]) -> Option<Access> {
    let (last, before) = columns_of(&source.table, Which::Primary).split_last()?;
    // The known ones need not stand first in the key: they are put where they belong when it is made.
    let before: Vec<Expr> =
        before.iter().map(|column| equal_to(source, *column, conditions, bound)).collect::<Option<_>>()?;
    conditions.iter().find_map(|condition| match condition {
        Expr::InResult { what, of, given, not: false } if given.iter().all(|one| needs_only(one, bound)) => {
            let to = match column_behind(what, source, *last)? {
                Behind::Itself => None,
                Behind::Exact => Some(source.schema().columns[*last].ty),
                Behind::Near => return None,
            };
            Some(Access::PointsOf { before: before.clone(), of: *of, given: given.clone(), to })
        }
        _ => None,
    })
}

fn is_field(expr: &Expr, source: &Source, wanted: usize) -> bool {
    matches!(expr, Expr::Field { slot, column, .. } if *slot == source.slot && *column == wanted)
}

/// How a column of `source` stands in an expression that is it, or casts it to a type that keeps its order.
fn column_behind(expr: &Expr, source: &Source, wanted: usize) -> Option<Behind> {
    if is_field(expr, source, wanted) {
        return Some(Behind::Itself);
    }
    let Expr::Cast { what, to, .. } = expr else { return None };
    if is_field(what, source, wanted) { key_cast::behind(source.schema().columns[wanted].ty, *to) } else { None }
}

/// What a column of a type must be to be equal to a value that it is compared with.
fn sought(behind: Behind, value: Expr, to: Type) -> Option<Expr> {
    match behind {
        Behind::Itself => Some(value),
        Behind::Exact => Some(Expr::Fitting { what: Box::new(value), to }),
        Behind::Near => None,
    }
}

/// What a column must be equal to, if that is known from rows in `bound`.
fn equal_to(source: &Source, column: usize, conditions: &[&Expr], bound: &[usize]) -> Option<Expr> {
    let ty = source.schema().columns[column].ty;
    conditions.iter().find_map(|condition| {
        let Expr::Compare(Comparison::Equal, sides) = condition else { return None };
        let [left, right] = &**sides;
        [(left, right), (right, left)].into_iter().find_map(|(one, other)| {
            let behind = column_behind(one, source, column)?;
            if needs_only(other, bound) { sought(behind, other.clone(), ty) } else { None }
        })
    })
}

/// A comparison of a column with something that is known, the column being on the left.
fn compared<'e>(
    condition: &'e Expr,
    source: &Source,
    column: usize,
    bound: &[usize],
) -> Option<(Comparison, &'e Expr, Behind)> {
    let Expr::Compare(comparison, sides) = condition else { return None };
    let [left, right] = &**sides;
    let known = |one: &Expr, other: &Expr| column_behind(one, source, column).filter(|_| needs_only(other, bound));
    if let Some(behind) = known(left, right) {
        return Some((*comparison, right, behind));
    }
    known(right, left).map(|behind| (comparison.mirrored(), left, behind))
}

/// The least and the greatest value that a column can have.
fn bounds_of(source: &Source, column: usize, conditions: &[&Expr], bound: &[usize]) -> (Option<End>, Option<End>) {
    let (mut low, mut high) = (None, None);
    let mut parts = Vec::new();
    conditions.iter().for_each(|condition| conjuncts(condition, &mut parts));
    for condition in parts {
        let Some((comparison, other, behind)) = compared(condition, source, column, bound) else { continue };
        let end = |inclusive| Some(End { value: other.clone(), inclusive, fit: behind != Behind::Itself });
        match comparison {
            Comparison::Greater if low.is_none() => low = end(false),
            Comparison::GreaterEqual if low.is_none() => low = end(true),
            Comparison::Less if high.is_none() => high = end(false),
            Comparison::LessEqual if high.is_none() => high = end(true),
            // Of a near value no one value of the column is known, but between which it must be.
            Comparison::Equal if behind == Behind::Near => {
                low = low.or_else(|| end(true));
                high = high.or_else(|| end(true));
            }
            _ => {}
        }
    }
    (low, high)
}

/// Do rows come in the order asked for by an index whose columns from here on are `rest`, those in `fixed` having one value? And must it be
/// read backwards?
fn in_order(source: &Source, rest: &[usize], fixed: &[usize], order: &[Order]) -> (bool, bool) {
    let mut rest = rest.iter();
    let mut backwards = None;
    for one in order {
        // A column that has one value only orders nothing.
        if fixed.iter().any(|column| is_field(&one.by, source, *column)) {
            continue;
        }
        // NULLs stand last in an index.
        let fits = one.nulls_first == one.descending && *backwards.get_or_insert(one.descending) == one.descending;
        if !fits || !rest.next().is_some_and(|column| is_field(&one.by, source, *column)) {
            return (false, false);
        }
    }
    (!order.is_empty(), backwards.unwrap_or(false))
}

/// Can an expression be evaluated with rows in these slots only, and as often as wanted?
pub(crate) fn needs_only(expr: &Expr, slots: &[usize]) -> bool {
    let mut enough = true;
    expr.visit(&mut |part| {
        enough &= match part {
            Expr::Field { slot, .. } => slots.contains(slot),
            part => !part.is_volatile_itself(),
        }
    });
    enough
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tests = match self {
            Access::Points(keys) => return write!(f, "points {}", keys.len()),
            Access::PointsOf { .. } => return f.write_str("points of a subquery"),
            Access::Hashed { by, .. } => return write!(f, "hashed {}", by.len()),
            Access::Made { .. } => return f.write_str("made"),
            Access::All => return f.write_str("all"),
            Access::Range(range) => {
                write!(f, "range {}{}", range.equal.len(), if range.backwards { " backwards" } else { "" })?;
                &range.tests
            }
            Access::Beginnings { keys, tests, .. } => {
                write!(f, "{} ranges {}", keys.len(), keys[0].len())?;
                tests
            }
            Access::EachOf { key, tests, .. } => {
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
