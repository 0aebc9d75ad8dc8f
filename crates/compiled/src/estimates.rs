//! Estimated numbers of rows, for the order of joins over large tables. They come from the sizes of tables and from samples of
//! indexes; shares of rows that fulfil conditions are assumed.

use rows::RowTable;

use crate::expr::{Comparison, Expr};
use crate::from::Source;
use crate::plan::{Access, IndexRef, Range};

/// Rows of a table that a join may begin with a scan of without a search for another order.
pub(crate) const SCANNED_ROWS_MAX: f64 = 10_000.0;
/// Rows of a derived table, which are not known.
const DERIVED_ROWS: f64 = 1_000.0;
/// Share of rows that equal a value.
const EQUAL: f64 = 0.02;
/// Share of rows beyond a bound; between two bounds it is smaller.
const BEYOND: f64 = 0.3;
const BETWEEN: f64 = 0.05;

/// Cost of a lookup, in units of a row that is read by a scan.
const LOOKUP: f64 = 3.0;
/// Cost of a row that is read by an index.
const FETCH: f64 = 2.0;

/// A join so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    /// Rows.
    pub(crate) rows: f64,
    /// Cost of finding them, in units of a row that is read by a scan.
    pub(crate) cost: f64,
}

impl Estimate {
    /// Nothing joined.
    pub(crate) const START: Estimate = Estimate { rows: 1.0, cost: 0.0 };

    /// The join with one more table, by an access path, with the rows that fulfil conditions. `sizes`: rows of the table in each
    /// slot.
    pub(crate) fn joined<'e>(
        self,
        source: &Source,
        access: &Access,
        conditions: impl Iterator<Item = &'e Expr>,
        sizes: &[f64],
    ) -> Estimate {
        let found = rows_found(source, access);
        let share: f64 = conditions.map(|condition| share(condition, sizes)).product();
        let read = self.rows * found;
        let cost = match access {
            Access::All | Access::Derived { .. } => read,
            // The table is read once.
            Access::Hashed { from, .. } => rows_found(source, from) * 2.0 + self.rows + read,
            _ => self.rows * LOOKUP + read * FETCH,
        };
        Estimate { rows: (read * share).max(1.0), cost: self.cost + cost }
    }
}

/// Number of rows of a table.
pub(crate) fn rows_of(source: &Source) -> f64 {
    if source.derived.is_some() { DERIVED_ROWS } else { source.table.records.bound() as f64 }
}

/// Number of rows that an access finds each time.
fn rows_found(source: &Source, access: &Access) -> f64 {
    let rows = rows_of(source);
    let found = match access {
        Access::Points(keys) => keys.len() as f64,
        Access::Range(range) => in_range(source, range),
        Access::Ranges(ranges) => ranges.iter().map(|range| in_range(source, range)).sum(),
        Access::Prefixes { index, keys, .. } => {
            let known = keys.first().map_or(0, Vec::len);
            keys.len() as f64 * with_prefix(&source.table, *index, known)
        }
        Access::ArrayPrefixes { index, key, .. } => 10.0 * with_prefix(&source.table, *index, key.len()),
        Access::SubqueryPoints { .. } | Access::Records(_) => 100.0,
        Access::Inverted { .. } => rows * EQUAL,
        // The columns have no index that tells how many values they have.
        Access::Hashed { from, .. } => rows_found(source, from).sqrt(),
        Access::Derived { .. } | Access::All => rows,
    };
    found.min(rows.max(1.0))
}

fn in_range(source: &Source, range: &Range) -> f64 {
    let share = match (&range.low, &range.high) {
        (None, None) => 1.0,
        (Some(_), Some(_)) => BETWEEN,
        _ => BEYOND,
    };
    share * with_prefix(&source.table, range.index, range.equal.len())
}

/// Number of rows with one value of the first columns of an index.
fn with_prefix(table: &RowTable, which: IndexRef, columns: usize) -> f64 {
    match which.of(table) {
        Some(index) => index.entries_of_prefix(columns),
        None => table.records.bound() as f64,
    }
}

/// Share of rows for which a condition is true.
fn share(condition: &Expr, sizes: &[f64]) -> f64 {
    let of = |part: &Expr| share(part, sizes);
    match condition {
        Expr::Compare(Comparison::Equal, _) => equal(condition, sizes),
        Expr::Compare(Comparison::NotEqual, _) => 1.0 - equal(condition, sizes),
        Expr::Compare(..) => BEYOND,
        Expr::InList { list, not: false, .. } => (equal(condition, sizes) * list.len() as f64).min(0.5),
        Expr::Like { .. } => 0.1,
        Expr::And(sides) => sides.iter().map(of).product(),
        Expr::Or(sides) => sides.iter().map(of).sum::<f64>().min(1.0),
        Expr::Not(part) => 1.0 - of(part),
        _ => 0.5,
    }
}

/// Share of rows with equal values: a table has no more values than rows, and columns that are joined have those of the smaller
/// table.
fn equal(condition: &Expr, sizes: &[f64]) -> f64 {
    let (mut slots, mut least) = (Vec::new(), f64::INFINITY);
    condition.visit(&mut |part| {
        if let Expr::Field { slot, .. } = part {
            slots.push(*slot);
            least = least.min(sizes.get(*slot).copied().unwrap_or(DERIVED_ROWS).max(1.0));
        }
    });
    slots.dedup();
    if slots.len() > 1 { 1.0 / least } else { EQUAL.max(1.0 / least) }
}
