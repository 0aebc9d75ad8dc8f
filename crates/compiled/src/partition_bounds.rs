//! Bounds of partitions: the partition of a key, partitions that conditions exclude, and bounds as text.

use std::cmp::Ordering;

use binder::{PartitionComparison, PartitionCondition, PartitionTest};
use model::{
    Datum, Error, PartitionBound, PartitionKey, PartitionKeyPart, PartitionKeySource, PartitionStrategy, RangeEdge,
    Result, RowSchema, RowSchemaRef, Type,
};
use rows::row::{ColumnLayout, RowLayout};

use crate::cast::{Zone, text_of};
use crate::ddl::quoted;
use crate::types::base_type;

/// Seed of the hash of a partition key. Source: PostgreSQL's `partbounds.h`.
const HASH_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// The bounds of a table's partitions, for the partition of a key. Partitions have the numbers that the caller gave them.
pub(crate) struct Bounds {
    strategy: PartitionStrategy,
    layouts: Vec<RowLayout>,
    /// Ascending; they do not overlap.
    ranges: Vec<(Vec<RangeEdge>, Vec<RangeEdge>, usize)>,
    /// Ascending.
    values: Vec<(Box<[u8]>, usize)>,
    null: Option<usize>,
    /// Modulus, remainder and number.
    hashes: Vec<(u32, u32, usize)>,
    default: Option<usize>,
}

impl Bounds {
    /// The bounds of numbered partitions.
    ///
    /// # Errors
    /// XX001 for values that cannot be read.
    pub(crate) fn new<'b>(
        key: &PartitionKey,
        partitions: impl Iterator<Item = (usize, &'b PartitionBound)>,
    ) -> Result<Bounds> {
        let mut bounds = Bounds {
            strategy: key.strategy,
            layouts: layouts(key)?,
            ranges: Vec::new(),
            values: Vec::new(),
            null: None,
            hashes: Vec::new(),
            default: None,
        };
        for (number, bound) in partitions {
            match bound {
                PartitionBound::Default => bounds.default = Some(number),
                PartitionBound::List(values) => {
                    for value in values {
                        match value {
                            None => bounds.null = Some(number),
                            Some(value) => bounds.values.push((value.clone(), number)),
                        }
                    }
                }
                PartitionBound::Range { from, to } => bounds.ranges.push((from.clone(), to.clone(), number)),
                PartitionBound::Hash { modulus, remainder } => bounds.hashes.push((*modulus, *remainder, number)),
            }
        }
        let layouts = &bounds.layouts;
        let mut failed = Ok(());
        let mut sorted = |order: Result<Ordering>| {
            order.unwrap_or_else(|error| {
                failed = Err(error);
                Ordering::Equal
            })
        };
        bounds.ranges.sort_by(|one, other| sorted(compare_edges(layouts, &one.0, &other.0)));
        bounds.values.sort_by(|one, other| sorted(compare_values(&layouts[0], &one.0, &other.0)));
        failed.map(|()| bounds)
    }

    /// The partition of a key; `None` if there is none.
    ///
    /// # Errors
    /// XX001 for values that cannot be read.
    pub(crate) fn find(&self, key: &[Datum<'_>]) -> Result<Option<usize>> {
        let found = match self.strategy {
            PartitionStrategy::List => match key.first() {
                None | Some(Datum::Null) => self.null,
                Some(value) => self.listed(value)?,
            },
            PartitionStrategy::Range if key.iter().any(Datum::is_null) => None,
            PartitionStrategy::Range => self.ranged(key)?,
            PartitionStrategy::Hash => {
                let hash = hash_of(key);
                let is_it = |entry: &&(u32, u32, usize)| hash % u64::from(entry.0) == u64::from(entry.1);
                return Ok(self.hashes.iter().find(is_it).map(|entry| entry.2));
            }
        };
        Ok(found.or(self.default))
    }

    fn listed(&self, value: &Datum<'_>) -> Result<Option<usize>> {
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (own, number) = &self.values[middle];
            match compare(&self.layouts[0].field(own, 0)?, value) {
                Ordering::Equal => return Ok(Some(*number)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn ranged(&self, key: &[Datum<'_>]) -> Result<Option<usize>> {
        let (mut low, mut high) = (0, self.ranges.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (from, to, number) = &self.ranges[middle];
            if edges_to_key(&self.layouts, from, key)? == Ordering::Greater {
                high = middle;
            } else if edges_to_key(&self.layouts, to, key)? == Ordering::Greater {
                return Ok(Some(*number));
            } else {
                low = middle + 1;
            }
        }
        Ok(None)
    }
}

fn layouts(key: &PartitionKey) -> Result<Vec<RowLayout>> {
    key.parts.iter().map(|part| RowLayout::new(&[ColumnLayout::new(part.ty, true)])).collect()
}

/// PostgreSQL's hash of a partition key. Source: `compute_partition_hash_value`.
pub(crate) fn hash_of(key: &[Datum<'_>]) -> u64 {
    key.iter().filter_map(|value| scalar::hash_extended(value, HASH_SEED)).fold(0, |hash: u64, value| {
        let mixed = value.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(hash << 54).wrapping_add(hash >> 7);
        hash ^ mixed
    })
}

/// The order of two values that are not NULL. Integers of several sizes are compared by value.
fn compare(one: &Datum<'_>, other: &Datum<'_>) -> Ordering {
    comparable(one, other).unwrap_or(Ordering::Equal)
}

/// The order of two values; `None` if they are of types that are not compared here.
fn comparable(one: &Datum<'_>, other: &Datum<'_>) -> Option<Ordering> {
    let integer = |datum: &Datum<'_>| match datum {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    };
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.compare(other),
    }
}

fn compare_values(layout: &RowLayout, one: &[u8], other: &[u8]) -> Result<Ordering> {
    Ok(compare(&layout.field(one, 0)?, &layout.field(other, 0)?))
}

/// The order of two bounds of ranges. MINVALUE and MAXVALUE decide, whatever stands behind them.
fn compare_edges(layouts: &[RowLayout], one: &[RangeEdge], other: &[RangeEdge]) -> Result<Ordering> {
    for ((layout, one), other) in layouts.iter().zip(one).zip(other) {
        let order = match (one, other) {
            (RangeEdge::Value(one), RangeEdge::Value(other)) => compare_values(layout, one, other)?,
            (RangeEdge::Min, RangeEdge::Min) | (RangeEdge::Max, RangeEdge::Max) => return Ok(Ordering::Equal),
            (RangeEdge::Min, _) | (_, RangeEdge::Max) => Ordering::Less,
            (RangeEdge::Max, _) | (_, RangeEdge::Min) => Ordering::Greater,
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// The order of a bound and a key, which may be the first part of one: then equal means that both begin alike.
fn edges_to_key(layouts: &[RowLayout], edges: &[RangeEdge], key: &[Datum<'_>]) -> Result<Ordering> {
    for ((layout, edge), value) in layouts.iter().zip(edges).zip(key) {
        let order = match edge {
            RangeEdge::Min => Ordering::Less,
            RangeEdge::Max => Ordering::Greater,
            RangeEdge::Value(edge) => compare(&layout.field(edge, 0)?, value),
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// The order of two partitions among the partitions of a table.
///
/// # Errors
/// XX001 for values that cannot be read.
pub(crate) fn order(key: &PartitionKey, one: &PartitionBound, other: &PartitionBound) -> Result<Ordering> {
    let layouts = layouts(key)?;
    Ok(match (one, other) {
        (PartitionBound::Default, PartitionBound::Default) => Ordering::Equal,
        (PartitionBound::Default, _) => Ordering::Greater,
        (_, PartitionBound::Default) => Ordering::Less,
        (PartitionBound::Range { from, .. }, PartitionBound::Range { from: other, .. }) => {
            compare_edges(&layouts, from, other)?
        }
        (PartitionBound::List(one), PartitionBound::List(other)) => {
            match (least(&layouts[0], one)?, least(&layouts[0], other)?) {
                (None, None) => Ordering::Equal,
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
                (Some(one), Some(other)) => compare_values(&layouts[0], one, other)?,
            }
        }
        (PartitionBound::Hash { modulus, remainder }, PartitionBound::Hash { modulus: other, remainder: of_other }) => {
            (modulus, remainder).cmp(&(other, of_other))
        }
        _ => Ordering::Equal,
    })
}

fn least<'v>(layout: &RowLayout, values: &'v [Option<Box<[u8]>>]) -> Result<Option<&'v [u8]>> {
    let mut least: Option<&[u8]> = None;
    for value in values.iter().flatten() {
        if least.is_none_or(|least| compare_values(layout, value, least).is_ok_and(Ordering::is_lt)) {
            least = Some(value);
        }
    }
    Ok(least)
}

/// The children of a partitioned table in the order of their bounds; of another table as they are.
///
/// # Errors
/// XX001 for bounds that cannot be read.
pub fn ordered_children(table: &RowSchema, mut children: Vec<RowSchemaRef>) -> Result<Vec<RowSchemaRef>> {
    let Some(key) = &table.lineage.key else { return Ok(children) };
    let mut failed = Ok(());
    children.sort_by(|one, other| match (&one.lineage.bound, &other.lineage.bound) {
        (Some(one), Some(other)) => order(key, one, other).unwrap_or_else(|error| {
            failed = Err(error);
            Ordering::Equal
        }),
        _ => Ordering::Equal,
    });
    failed.map(|()| children)
}

/// Whether a new bound conflicts with an existing one.
///
/// # Errors
/// XX001 for values that cannot be read.
pub(crate) fn overlaps(key: &PartitionKey, new: &PartitionBound, other: &PartitionBound) -> Result<bool> {
    let layouts = layouts(key)?;
    Ok(match (new, other) {
        (PartitionBound::Default, PartitionBound::Default) => true,
        (PartitionBound::Range { from, to }, PartitionBound::Range { from: low, to: high }) => {
            compare_edges(&layouts, from, high)?.is_lt() && compare_edges(&layouts, low, to)?.is_lt()
        }
        (PartitionBound::List(one), PartitionBound::List(other)) => {
            let mut found = false;
            for value in one {
                for known in other {
                    found |= match (value, known) {
                        (None, None) => true,
                        (Some(value), Some(known)) => compare_values(&layouts[0], value, known)?.is_eq(),
                        _ => false,
                    };
                }
            }
            found
        }
        (PartitionBound::Hash { modulus, remainder }, PartitionBound::Hash { modulus: other, remainder: of_other }) => {
            let least = (*modulus).min(*other);
            remainder % least == of_other % least
        }
        _ => false,
    })
}

/// Whether the range of a bound is empty.
///
/// # Errors
/// XX001 for values that cannot be read.
pub(crate) fn is_empty_range(key: &PartitionKey, bound: &PartitionBound) -> Result<bool> {
    let PartitionBound::Range { from, to } = bound else { return Ok(false) };
    Ok(compare_edges(&layouts(key)?, from, to)?.is_ge())
}

/// For each of a partitioned table's children, whether it can have a row that passes all tests; `None` if the tests exclude
/// none. The columns of the tests are those that are not dropped.
///
/// # Errors
/// XX001 for values that cannot be read.
pub fn unpruned(table: &RowSchema, children: &[RowSchemaRef], tests: &[PartitionTest]) -> Result<Option<Vec<bool>>> {
    let Some(key) = table.lineage.key.as_ref().filter(|_| !tests.is_empty()) else { return Ok(None) };
    let shown: Vec<usize> = table.shown().map(|(at, _)| at).collect();
    let part_of = |column: usize| {
        let is_it = |part: &PartitionKeyPart| match part.source {
            PartitionKeySource::Column(at) => shown.get(column) == Some(&at),
            PartitionKeySource::Expression(_) => false,
        };
        key.parts.iter().position(is_it)
    };
    let layouts = layouts(key)?;
    let bounds = children.iter().enumerate().filter_map(|(at, child)| Some((at, child.lineage.bound.as_ref()?)));
    let pruner = Pruner { key, layouts, part_of: &part_of, all: Bounds::new(key, bounds)? };
    let mut kept = Vec::with_capacity(children.len());
    for (at, child) in children.iter().enumerate() {
        let is_kept = match &child.lineage.bound {
            Some(bound) => pruner.can_pass(at, bound, tests)?,
            None => true,
        };
        kept.push(is_kept);
    }
    Ok(Some(kept))
}

struct Pruner<'p> {
    key: &'p PartitionKey,
    layouts: Vec<RowLayout>,
    part_of: &'p dyn Fn(usize) -> Option<usize>,
    all: Bounds,
}

impl Pruner<'_> {
    fn can_pass(&self, child: usize, bound: &PartitionBound, tests: &[PartitionTest]) -> Result<bool> {
        // Groups and lists first: one of their members must be possible together with nothing else.
        for test in tests {
            let is_possible = match &test.condition {
                PartitionCondition::Any(groups) => {
                    let mut any = false;
                    for group in groups {
                        any |= self.can_pass(child, bound, group)?;
                    }
                    any
                }
                PartitionCondition::OneOf(values) => {
                    let mut any = false;
                    for value in values {
                        let condition = PartitionCondition::Compare(PartitionComparison::Equal, value.clone());
                        let one = PartitionTest { column: test.column, condition };
                        let plain = tests.iter().filter(|test| {
                            !matches!(test.condition, PartitionCondition::Any(_) | PartitionCondition::OneOf(_))
                        });
                        let all: Vec<PartitionTest> = plain.cloned().chain([one]).collect();
                        any |= self.can_pass(child, bound, &all)?;
                    }
                    any
                }
                _ => true,
            };
            if !is_possible {
                return Ok(false);
            }
        }
        self.passes_plain(child, bound, tests)
    }

    /// Whether a row of the partition can pass the comparisons and tests for NULL.
    fn passes_plain(&self, child: usize, bound: &PartitionBound, tests: &[PartitionTest]) -> Result<bool> {
        let parts = self.key.parts.len();
        let mut equal: Vec<Option<Datum<'_>>> = vec![None; parts];
        let mut compared: Vec<Vec<(PartitionComparison, Datum<'_>)>> = vec![Vec::new(); parts];
        let (mut nulls, mut others) = (vec![false; parts], vec![false; parts]);
        for test in tests {
            let Some(part) = (self.part_of)(test.column) else { continue };
            match &test.condition {
                PartitionCondition::Compare(comparison, value) => {
                    let Some(value) = self.value(part, value.datum()) else { continue };
                    others[part] = true;
                    if *comparison == PartitionComparison::Equal {
                        equal[part].get_or_insert(value.clone());
                    }
                    compared[part].push((*comparison, value));
                }
                PartitionCondition::IsNull => nulls[part] = true,
                PartitionCondition::IsNotNull => others[part] = true,
                PartitionCondition::OneOf(_) | PartitionCondition::Any(_) => {}
            }
        }
        if (0..parts).any(|part| nulls[part] && others[part]) {
            return Ok(false);
        }
        let is_whole = (0..parts).all(|part| nulls[part] || equal[part].is_some());
        if is_whole {
            let key: Vec<Datum<'_>> = equal.iter().map(|value| value.clone().unwrap_or(Datum::Null)).collect();
            return Ok(self.all.find(&key)? == Some(child) && self.agrees(&compared, &key));
        }
        match bound {
            PartitionBound::Default | PartitionBound::Hash { .. } => Ok(true),
            PartitionBound::List(values) => {
                for value in values {
                    let passes = match value {
                        None => !others[0],
                        Some(value) => {
                            let value = self.layouts[0].field(value, 0)?;
                            !nulls[0] && compared[0].iter().all(|(test, with)| holds(*test, compare(&value, with)))
                        }
                    };
                    if passes {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            PartitionBound::Range { from, to } => {
                if nulls.iter().any(|null| *null) {
                    return Ok(false);
                }
                let prefix: Vec<Datum<'_>> = equal.iter().map_while(Clone::clone).collect();
                if !self.meets(from, to, &prefix, None)? {
                    return Ok(false);
                }
                for (comparison, value) in compared.get(prefix.len()).into_iter().flatten() {
                    let mut longer = prefix.clone();
                    longer.push(value.clone());
                    if !self.meets(from, to, &longer, Some(*comparison))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether a range has a key that begins with `key`, or whose last part compares so with that of `key`.
    fn meets(
        &self,
        from: &[RangeEdge],
        to: &[RangeEdge],
        key: &[Datum<'_>],
        last: Option<PartitionComparison>,
    ) -> Result<bool> {
        use PartitionComparison::{Equal, Greater, GreaterEqual, Less, LessEqual};
        let is_whole = key.len() == self.key.parts.len();
        let (low, high) = (edges_to_key(&self.layouts, from, key)?, edges_to_key(&self.layouts, to, key)?);
        let prefix = &key[..key.len() - usize::from(last.is_some())];
        let starts_behind = edges_to_key(&self.layouts, from, prefix)?.is_gt();
        let ends_before = edges_to_key(&self.layouts, to, prefix)?.is_lt();
        Ok(match last.unwrap_or(Equal) {
            Equal => low.is_le() && (high.is_gt() || high.is_eq() && !is_whole),
            // The lower bound must be below or at the value, the upper one not before the prefix.
            Less => !ends_before && low.is_lt(),
            LessEqual => !ends_before && low.is_le(),
            Greater | GreaterEqual => !starts_behind && (high.is_gt() || high.is_eq() && !is_whole),
        })
    }

    /// Whether a key passes comparisons that may contradict each other.
    fn agrees(&self, compared: &[Vec<(PartitionComparison, Datum<'_>)>], key: &[Datum<'_>]) -> bool {
        compared.iter().zip(key).all(|(tests, value)| {
            tests.iter().all(|(test, with)| value.is_null() || holds(*test, compare(value, with)))
        })
    }

    /// A value that can be compared with those of a part of the key.
    fn value<'v>(&self, part: usize, value: Datum<'v>) -> Option<Datum<'v>> {
        let ty = base_type(self.key.parts[part].ty);
        match (ty, value) {
            (Type::Int2 | Type::Int4 | Type::Int8, value @ (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_))) => {
                // A value that the type does not have is in no partition, and must not be hashed.
                match rows::coerce(ty, value.clone()) {
                    Ok(value) => Some(value),
                    Err(_) if self.key.strategy != PartitionStrategy::Hash => Some(value),
                    Err(_) => None,
                }
            }
            (Type::Char(_), Datum::Text(text)) => Some(Datum::Text(text.trim_end_matches(' '))),
            (Type::Text | Type::Varchar(_), value @ Datum::Text(_))
            | (Type::Bool, value @ Datum::Bool(_))
            | (Type::Float4, value @ Datum::Float4(_))
            | (Type::Float8, value @ Datum::Float8(_))
            | (Type::Numeric(_), value @ Datum::Numeric(_))
            | (Type::Date, value @ Datum::Date(_))
            | (Type::Time, value @ Datum::Time(_))
            | (Type::Timestamp, value @ Datum::Timestamp(_))
            | (Type::Timestamptz, value @ Datum::Timestamptz(_))
            | (Type::Uuid, value @ Datum::Uuid(_))
            | (Type::Bytes, value @ Datum::Bytes(_))
            | (Type::Interval, value @ Datum::Interval(_)) => Some(value),
            _ => None,
        }
    }
}

fn holds(comparison: PartitionComparison, order: Ordering) -> bool {
    match comparison {
        PartitionComparison::Equal => order.is_eq(),
        PartitionComparison::Less => order.is_lt(),
        PartitionComparison::LessEqual => order.is_le(),
        PartitionComparison::Greater => order.is_gt(),
        PartitionComparison::GreaterEqual => order.is_ge(),
    }
}

/// UTC, in which bounds are shown.
struct Utc;

impl Zone for Utc {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn input(&self, text: &str, _: Type) -> Result<Datum<'static>> {
        Err(Error::bug(format!("a bound is read from {text}")))
    }
}

/// A bound as `FOR VALUES …` or `DEFAULT`, as `pg_get_expr` shows it; times with a time zone are in UTC.
#[must_use]
pub fn bound_text(key: &PartitionKey, bound: &PartitionBound) -> String {
    let zone = &Utc;
    let shown = |part: usize, value: &[u8]| constant_text(key, part, value, zone).unwrap_or_default();
    match bound {
        PartitionBound::Default => "DEFAULT".to_owned(),
        PartitionBound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
        PartitionBound::List(values) => {
            let values = values.iter().map(|value| value.as_ref().map_or("NULL".to_owned(), |value| shown(0, value)));
            format!("FOR VALUES IN ({})", values.collect::<Vec<_>>().join(", "))
        }
        PartitionBound::Range { from, to } => {
            let edges = |edges: &[RangeEdge]| edges_text(key, edges, zone);
            format!("FOR VALUES FROM {} TO {}", edges(from), edges(to))
        }
    }
}

/// A bound of a range with parentheses.
pub(crate) fn edges_text(key: &PartitionKey, edges: &[RangeEdge], zone: &dyn Zone) -> String {
    let edge = |(part, edge): (usize, &RangeEdge)| match edge {
        RangeEdge::Min => "MINVALUE".to_owned(),
        RangeEdge::Max => "MAXVALUE".to_owned(),
        RangeEdge::Value(value) => constant_text(key, part, value, zone).unwrap_or_default(),
    };
    let all: Vec<String> = edges.iter().enumerate().map(edge).collect();
    format!("({})", all.join(", "))
}

/// A value as PostgreSQL shows constants without their type.
fn constant_text(key: &PartitionKey, part: usize, value: &[u8], zone: &dyn Zone) -> Result<String> {
    let ty = key.parts.get(part).ok_or_else(|| Error::corrupt("a bound with more values than its key"))?.ty;
    let layout = RowLayout::new(&[ColumnLayout::new(ty, true)])?;
    let datum = layout.field(value, 0)?;
    let mut text = String::new();
    if ty.is_other() {
        let (arena, session) = (bumpalo::Bump::new(), scalar::Session::default());
        let ctx = scalar::Context { arena: &arena, session: &session };
        scalar::output(&datum, catalog::TypeId(ty.oid()), &ctx, &mut text)?;
    } else {
        text = text_of(&datum, zone);
        text.push_str(&" ".repeat(ty.padding(&text)));
    }
    let is_bare = match ty {
        Type::Int4 => !text.starts_with('-'),
        Type::Numeric(_) => text.starts_with(|first: char| first.is_ascii_digit()) && text.contains('.'),
        Type::Bool => true,
        _ => false,
    };
    Ok(if is_bare { text } else { format!("'{}'", text.replace('\'', "''")) })
}

/// A partition key as `pg_get_partkeydef` shows it; `columns` leaves the strategy out.
#[must_use]
pub fn key_text(table: &RowSchema, key: &PartitionKey, columns_only: bool) -> String {
    let parts: Vec<String> = key.parts.iter().map(|part| part_text(table, part)).collect();
    let parts = parts.join(", ");
    if columns_only { parts } else { format!("{} ({parts})", key.strategy.name().to_uppercase()) }
}

fn part_text(table: &RowSchema, part: &PartitionKeyPart) -> String {
    match &part.source {
        PartitionKeySource::Column(at) => quoted(&table.columns[*at].name),
        PartitionKeySource::Expression(sql) => {
            let shown = crate::deparse::pretty(&crate::deparse::expression(sql, table));
            let is_call =
                matches!(parser::parse_expr(&shown).map(|parsed| parsed.kind), Ok(parser::ast::ExprKind::Function(_)));
            if is_call { shown } else { format!("({shown})") }
        }
    }
}
