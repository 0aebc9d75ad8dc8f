//! Which rows a statement looks at, in which order, by which index.
//!
//! Conditions are cut at AND. Tables are joined by nested loops: next comes the one that the rows so far lead to by the
//! shortest way: whole keys, the beginning of a key, anything. Every condition is checked as soon as the rows it needs are
//! there, but for those that say what a key is equal to: a row is found by its key only if it has it. (When a row turns out to
//! have changed before it was locked, its statement checks all conditions anew.)

use std::fmt;

use model::Type;
use rows::RowTable;

use crate::bind::Source;
use crate::expr::{Comparison, Expr};

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
    /// By the primary key's only column, which is among what a subquery gave.
    PointsOf { before: Vec<Expr>, of: usize, given: Vec<Expr> },
    /// By the beginning of an index, in its order.
    Range(Range),
    /// By several beginnings of one index, in the order of a list.
    Beginnings { index: Which, keys: Vec<Vec<Expr>> },
    /// By the beginning of an index, or a whole primary key, that has each element of an array parameter in it.
    EachOf { index: Which, key: Vec<Expr>, array: usize },
    /// By several parts of one index, which may overlap.
    Ranges(Vec<Range>),
    /// By columns of no index: a table of these is made, once for the statement, which has this number, of the rows that `from`
    /// finds.
    Hashed { of: usize, columns: Vec<usize>, keys: Vec<Expr>, from: Box<Access> },
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
    /// The next one: bound, and whether it belongs to the range.
    pub(crate) low: Option<(Expr, bool)>,
    pub(crate) high: Option<(Expr, bool)>,
    pub(crate) backwards: bool,
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
    let mut bound = Vec::with_capacity(joined.len());
    let mut left: Vec<usize> = (0..joined.len()).collect();
    let mut steps: Vec<Step> = Vec::with_capacity(joined.len());
    let mut ordered = order.is_empty();
    while !left.is_empty() {
        // Are rows looked for more than once?
        let again = !steps.iter().all(|step| matches!(&step.access, Access::Points(keys) if keys.len() == 1));
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
        let filter = now.into_iter().map(|(_, condition)| condition).collect();
        let whole = whole(one.source);
        steps.push(Step { slot, access: found.access, filter, outer: one.outer.clone(), whole });
    }
    if let Some(last) = steps.last_mut() {
        last.filter.extend(conditions.into_iter().map(|(_, condition)| condition));
    }
    (steps, ordered)
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
fn access(source: &Source, conditions: &[&Expr], bound: &[usize], order: &[Order], again: bool) -> Option<Found> {
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
fn hashed(source: &Source, best: &Found, conditions: &[&Expr], bound: &[usize], again: bool) -> Option<Found> {
    let fixed = |keys: &[Expr]| !keys.iter().any(|key| changes(key, true));
    let fixed_range =
        |range: &Range| fixed(&range.equal) && range.low.iter().chain(&range.high).all(|(end, _)| !changes(end, true));
    let (same, cost) = match &best.access {
        Access::All => (true, 900),
        Access::Made { given, .. } => (given.is_empty(), 200),
        Access::Range(range) => (best.cost > ONE_ROW && !best.ordered && fixed_range(range), best.cost),
        Access::Beginnings { keys, .. } => (keys.iter().all(|key| fixed(key)), best.cost),
        Access::Ranges(ranges) => (ranges.iter().all(fixed_range), best.cost),
        Access::Points(_) | Access::PointsOf { .. } | Access::EachOf { .. } | Access::Hashed { .. } => (false, 0),
    };
    if !same {
        return None;
    }
    let columns = source.schema().shown().map(|(at, _)| at);
    let keys = columns.filter_map(|column| Some((column, equal_to(source, column, conditions, bound)?)));
    let (columns, keys): (Vec<usize>, Vec<Expr>) = keys.unzip();
    let from = Box::new(best.access.clone());
    let changes = keys.iter().any(|key| changes(key, again));
    changes.then_some(Found { access: Access::Hashed { of: 0, columns, keys, from }, cost, ordered: false })
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
        return Found { access: Access::EachOf { index: Which::Primary, key, array }, cost: 2, ordered: false };
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
                best = Found { access: Access::Beginnings { index: which, keys }, cost, ordered: false };
            }
        }
        if let Some((key, array)) = each_of(source, columns, conditions, bound) {
            let cost = 1 + cost_of(key.len(), columns.len());
            if cost < best.cost {
                best = Found { access: Access::EachOf { index: which, key, array }, cost, ordered: false };
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
            let range = Range { index: which, equal, low, high, backwards };
            best = Found { access: Access::Range(range), cost, ordered };
        }
    }
    best
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
    let (fit, list) = list_of(source, columns[at], conditions, bound)?;
    let ty = source.schema().columns[columns[at]].ty;
    let key = |one: &Expr| equal.iter().map(|part| part.clone().unwrap_or_else(|| fit(one.clone(), ty))).collect();
    Some(list.iter().map(key).collect())
}

/// The first columns of an index, if the conditions give several values for one of them: those of one IN list.
fn beginnings(source: &Source, columns: &[usize], conditions: &[&Expr], bound: &[usize]) -> Option<Vec<Vec<Expr>>> {
    let known = |column: &usize| equal_to(source, *column, conditions, bound);
    let before: Vec<Expr> = columns.iter().map_while(known).collect();
    let listed = *columns.get(before.len())?;
    let (fit, list) = list_of(source, listed, conditions, bound)?;
    let after: Vec<Expr> = columns[before.len() + 1..].iter().map_while(known).collect();
    let ty = source.schema().columns[listed].ty;
    let key = |one: &Expr| before.iter().cloned().chain([fit(one.clone(), ty)]).chain(after.iter().cloned()).collect();
    let keys: Vec<_> = list.iter().map(key).collect();
    (!keys.is_empty()).then_some(keys)
}

/// The values of a column in an IN list, and what makes them comparable to it.
fn list_of<'e>(source: &Source, column: usize, conditions: &[&'e Expr], bound: &[usize]) -> Option<(Fit, &'e [Expr])> {
    conditions.iter().find_map(|condition| match condition {
        Expr::InList { what, list, not: false } if list.iter().all(|one| needs_only(one, bound)) => {
            Some((column_behind(what, source, column)?, list.as_slice()))
        }
        _ => None,
    })
}

/// The first columns of an index, if one of them is among the elements of an array parameter and the others are known; and which array.
fn each_of(source: &Source, columns: &[usize], conditions: &[&Expr], bound: &[usize]) -> Option<(Vec<Expr>, usize)> {
    let known = |column: &usize| equal_to(source, *column, conditions, bound);
    let mut key: Vec<Expr> = columns.iter().map_while(known).collect();
    let listed = *columns.get(key.len())?;
    let (fit, array) = conditions.iter().find_map(|condition| match condition {
        Expr::InArray { what, array, not: false } => Some((column_behind(what, source, listed)?, *array)),
        _ => None,
    })?;
    key.push(fit(Expr::Element, source.schema().columns[listed].ty));
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
                Some(value) => (Some((value.clone(), true)), Some((value, true))),
                None => bounds_of(source, next, &all, bound),
            };
            let found = low.is_some() || high.is_some();
            found.then(|| Range { index, equal: equal.clone(), low, high, backwards: false })
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
        Expr::InResult { what, of, given, not: false }
            if is_field(what, source, *last) && given.iter().all(|one| needs_only(one, bound)) =>
        {
            Some(Access::PointsOf { before: before.clone(), of: *of, given: given.clone() })
        }
        _ => None,
    })
}

fn is_field(expr: &Expr, source: &Source, wanted: usize) -> bool {
    matches!(expr, Expr::Field { slot, column, .. } if *slot == source.slot && *column == wanted)
}

/// Makes a value comparable to a column of a type.
type Fit = fn(Expr, Type) -> Expr;

/// Is an expression a column of `source`, or an integer column made wider? Then with what makes a value comparable to the column of it.
fn column_behind(expr: &Expr, source: &Source, wanted: usize) -> Option<Fit> {
    if is_field(expr, source, wanted) {
        return Some(|value, _| value);
    }
    let Expr::Cast { what, to, .. } = expr else { return None };
    let column = source.schema().columns[wanted].ty;
    let widened = matches!((column, to), (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8));
    (widened && is_field(what, source, wanted)).then_some(|value, to| Expr::Fitting { what: Box::new(value), to })
}

/// What a column must be equal to, if that is known from rows in `bound`.
fn equal_to(source: &Source, column: usize, conditions: &[&Expr], bound: &[usize]) -> Option<Expr> {
    let ty = source.schema().columns[column].ty;
    conditions.iter().find_map(|condition| {
        let Expr::Compare(Comparison::Equal, sides) = condition else { return None };
        let [left, right] = &**sides;
        [(left, right), (right, left)].into_iter().find_map(|(one, other)| {
            let fit = column_behind(one, source, column)?;
            needs_only(other, bound).then(|| fit(other.clone(), ty))
        })
    })
}

/// A comparison of a column with something that is known, the column being on the left.
fn compared<'e>(
    condition: &'e Expr,
    source: &Source,
    column: usize,
    bound: &[usize],
) -> Option<(Comparison, &'e Expr)> {
    let Expr::Compare(comparison, sides) = condition else { return None };
    let [left, right] = &**sides;
    if is_field(left, source, column) && needs_only(right, bound) {
        return Some((*comparison, right));
    }
    (is_field(right, source, column) && needs_only(left, bound)).then(|| (comparison.mirrored(), left))
}

type Bound = Option<(Expr, bool)>;

/// The least and the greatest value that a column can have.
fn bounds_of(source: &Source, column: usize, conditions: &[&Expr], bound: &[usize]) -> (Bound, Bound) {
    let (mut low, mut high) = (None, None);
    let mut parts = Vec::new();
    conditions.iter().for_each(|condition| conjuncts(condition, &mut parts));
    for condition in parts {
        let Some((comparison, other)) = compared(condition, source, column, bound) else { continue };
        match comparison {
            Comparison::Greater if low.is_none() => low = Some((other.clone(), false)),
            Comparison::GreaterEqual if low.is_none() => low = Some((other.clone(), true)),
            Comparison::Less if high.is_none() => high = Some((other.clone(), false)),
            Comparison::LessEqual if high.is_none() => high = Some((other.clone(), true)),
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
        match self {
            Access::Points(keys) => write!(f, "points {}", keys.len()),
            Access::PointsOf { .. } => f.write_str("points of a subquery"),
            Access::Range(range) => {
                write!(f, "range {}{}", range.equal.len(), if range.backwards { " backwards" } else { "" })
            }
            Access::Beginnings { keys, .. } => write!(f, "{} ranges {}", keys.len(), keys[0].len()),
            Access::EachOf { key, .. } => write!(f, "ranges {} of an array", key.len()),
            Access::Ranges(ranges) => write!(f, "{} ranges {}", ranges.len(), ranges[0].equal.len()),
            Access::Hashed { columns, .. } => write!(f, "hashed {}", columns.len()),
            Access::Made { .. } => f.write_str("made"),
            Access::All => f.write_str("all"),
        }
    }
}
