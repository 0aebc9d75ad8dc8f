//! Joins single series into rows, for products that have one series per device and field.

use std::collections::BTreeMap;

use crate::query::{Cell, Order, Query, Row, Rows, Shape};
use crate::schema::Schema;

/// Joins samples with the same device and time into rows.
pub(crate) struct Joiner {
    /// Selected fields, then those needed for filters only.
    fields: Vec<u32>,
    selected: usize,
    /// Key: device, time, and number of earlier duplicates. A duplicate sample makes a second row,
    /// so that verification finds it.
    rows: BTreeMap<(Option<u32>, Option<i64>, u32), Vec<Cell>>,
}

impl Joiner {
    pub(crate) fn new(query: &Query) -> Joiner {
        Joiner { fields: columns(query), selected: query.fields.len(), rows: BTreeMap::new() }
    }

    /// Column of a field.
    pub(crate) fn column(&self, field: u32) -> Option<usize> {
        self.fields.iter().position(|other| *other == field)
    }

    /// Adds a sample of the field in `column`.
    pub(crate) fn put(&mut self, device: Option<u32>, time: Option<i64>, column: usize, cell: Cell) {
        let mut duplicates = 0;
        loop {
            let row =
                self.rows.entry((device, time, duplicates)).or_insert_with(|| vec![Cell::Null; self.fields.len()]);
            if row[column] == Cell::Null {
                row[column] = cell;
                return;
            }
            duplicates += 1;
        }
    }

    /// Returns the rows in the query's order; raw rows only if they pass the filters.
    pub(crate) fn finish(self, query: &Query, missing: &Cell) -> Rows {
        let filters = if query.shape == Shape::Rows { query.filters.as_slice() } else { &[] };
        let filters: Vec<(usize, f64)> =
            filters.iter().filter_map(|filter| Some((self.column(filter.field)?, filter.above))).collect();
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
            cells.truncate(self.selected);
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

/// Selected fields, then those needed for filters only.
pub(crate) fn columns(query: &Query) -> Vec<u32> {
    let mut fields = query.fields.clone();
    for filter in &query.filters {
        if !fields.contains(&filter.field) {
            fields.push(filter.field);
        }
    }
    fields
}

/// The devices of a query.
pub(crate) fn devices(schema: &Schema, query: &Query) -> Vec<u32> {
    let all =
        || (0..schema.devices.len() as u32).filter(|device| schema.devices[*device as usize].table == query.table);
    query.devices.clone().unwrap_or_else(|| all().collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::sample_schema;
    use super::*;
    use crate::query::{Aggregate, Filter};

    #[test]
    fn samples_become_rows_and_duplicates_are_seen() {
        let query = Query { order: Order::Descending, ..sample_schema().1 };
        let mut joiner = Joiner::new(&query);
        joiner.put(Some(0), Some(1), 0, Cell::Int(1));
        joiner.put(Some(0), Some(2), 1, Cell::Float(2.5));
        joiner.put(Some(0), Some(1), 1, Cell::Float(1.5));
        joiner.put(Some(0), Some(1), 1, Cell::Float(1.5));
        let rows = joiner.finish(&query, &Cell::Null).rows;
        let cells: Vec<&[Cell]> = rows.iter().map(|row| row.cells.as_slice()).collect();
        let expected: [&[Cell]; 3] =
            [&[Cell::Null, Cell::Float(2.5)], &[Cell::Int(1), Cell::Float(1.5)], &[Cell::Null, Cell::Float(1.5)]];
        assert_eq!(cells, expected);
    }

    #[test]
    fn filters_are_for_raw_rows_and_a_missing_value_does_not_pass() {
        let query = Query { fields: vec![0], filters: vec![Filter { field: 1, above: 1.0 }], ..sample_schema().1 };
        let filled = |query: &Query| {
            let mut joiner = Joiner::new(query);
            for (time, value) in [(1, 1.0), (2, 1.5)] {
                joiner.put(None, Some(time), 0, Cell::Int(time));
                joiner.put(None, Some(time), 1, Cell::Float(value));
            }
            joiner.put(None, Some(3), 0, Cell::Int(3));
            joiner.finish(query, &Cell::Null).rows
        };
        let rows = filled(&query);
        assert_eq!(rows, [Row { device: None, time: Some(2), cells: vec![Cell::Int(2)] }]);
        let shape = Shape::Aggregate { aggregate: Aggregate::Count, by_device: true };
        assert_eq!(filled(&Query { shape, ..query }).len(), 3);
    }
}
