//! Rows out of single series, for products that keep one series a device and field and answer series by series.

use std::collections::BTreeMap;

use crate::query::{Cell, Order, Query, Row, Rows};

/// Puts samples together that have the same device and time.
pub(crate) struct Joiner {
    /// Fields asked for, then those that only filters need.
    fields: Vec<u32>,
    asked: usize,
    /// By device, time, and how often that device and time were there before: a sample that a product gives twice
    /// makes a second row, so that duplicates are seen.
    rows: BTreeMap<(Option<u32>, Option<i64>, u32), Vec<Cell>>,
}

impl Joiner {
    pub(crate) fn new(query: &Query) -> Joiner {
        Joiner { fields: columns(query), asked: query.fields.len(), rows: BTreeMap::new() }
    }

    /// Which column a field is.
    pub(crate) fn column(&self, field: u32) -> Option<usize> {
        self.fields.iter().position(|other| *other == field)
    }

    /// Adds a sample of the field of `column`.
    pub(crate) fn put(&mut self, device: Option<u32>, time: Option<i64>, column: usize, cell: Cell) {
        let mut again = 0;
        loop {
            let row = self.rows.entry((device, time, again)).or_insert_with(|| vec![Cell::Null; self.fields.len()]);
            if row[column] == Cell::Null {
                row[column] = cell;
                return;
            }
            again += 1;
        }
    }

    /// Rows that pass the filters, in the order that was asked for.
    pub(crate) fn finish(self, query: &Query, missing: &Cell) -> Rows {
        let filters: Vec<(usize, f64)> =
            query.filters.iter().filter_map(|filter| Some((self.column(filter.field)?, filter.above))).collect();
        let passes = |cells: &[Cell]| {
            filters.iter().all(|(column, above)| match cells[*column] {
                Cell::Int(value) => value as f64 > *above,
                Cell::Float(value) => value > *above,
                _ => false,
            })
        };
        let mut rows: Vec<Row> = Vec::new();
        for ((device, time, _), mut cells) in self.rows {
            if !passes(&cells) {
                continue;
            }
            cells.truncate(self.asked);
            cells.iter_mut().filter(|cell| **cell == Cell::Null).for_each(|cell| *cell = missing.clone());
            rows.push(Row { device, time, cells });
        }
        match query.order {
            Order::Any => {}
            Order::Ascending => rows.sort_by_key(|row| row.time),
            Order::Descending => rows.sort_by_key(|row| std::cmp::Reverse(row.time)),
        }
        Rows { rows }
    }
}

/// Fields asked for, then those that only filters need.
pub(crate) fn columns(query: &Query) -> Vec<u32> {
    let mut fields = query.fields.clone();
    for filter in &query.filters {
        if !fields.contains(&filter.field) {
            fields.push(filter.field);
        }
    }
    fields
}
