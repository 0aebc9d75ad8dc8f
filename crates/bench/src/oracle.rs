//! Computes the correct answer of every query from the workload and the acknowledged writes, and
//! checks a target's answer against it.
//!
//! Always true: the only state is which units were sent and acknowledged ([`crate::ledger`]);
//! values, times and order come from the generator. An answer is wrong only if no possible state of
//! the target explains it.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
use crate::ledger::{State, View};
use crate::query::{Aggregate, Cell, Order, Query, Row, Rows, SetOperator, Shape};
use crate::schema::{Kind, POWERS, text_of};
use crate::workload::Workload;

/// Result of checking an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The answer agrees with the data.
    Right,
    /// The answer contradicts the data: seen and expected values.
    Wrong(String),
    /// Writes with an unknown outcome affect the answer, and the check cannot rule it out.
    Undecided,
}

/// A value that the target must or may have.
#[derive(Clone, Copy, Debug)]
struct TrueValue {
    units: i64,
    certain: bool,
}

/// A row that the target must or may have.
struct Truth {
    device: u32,
    time: i64,
    /// One cell for each field of the query; `None`: the target must not have a value.
    cells: Vec<Option<TrueValue>>,
    /// Whether the row passes all filters for certain.
    passes: bool,
}

/// Position of a row in the generated data.
struct RowPosition {
    slot: u64,
    time: i64,
    /// Whether the row passes all filters for certain.
    passes: bool,
}

/// The rows of one group of an aggregate, summarised.
#[derive(Default)]
struct Group {
    /// One summary for each field of the query.
    columns: Vec<Summary>,
    /// Whether some row of the group is not certain to exist.
    uncertain: bool,
}

/// Inputs of all aggregate functions over some values, so that the values themselves need not be
/// kept.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    /// Number of values that must exist.
    certain: u64,
    /// Number of values that must or may exist.
    all: u64,
    least: i64,
    greatest: i64,
    /// (time, units) of the oldest value and of the newest.
    oldest: (i64, i64),
    newest: (i64, i64),
    sum: i128,
    magnitude: i128,
}

impl Summary {
    fn add(&mut self, time: i64, units: i64, certain: bool) {
        if self.all == 0 {
            (self.least, self.greatest) = (units, units);
            (self.oldest, self.newest) = ((time, units), (time, units));
        }
        self.all += 1;
        self.certain += u64::from(certain);
        self.least = self.least.min(units);
        self.greatest = self.greatest.max(units);
        // Ties in time do not matter: a device has one value for each time, and no query asks for
        // first or last over several devices.
        if time < self.oldest.0 {
            self.oldest = (time, units);
        }
        if time >= self.newest.0 {
            self.newest = (time, units);
        }
        self.sum += i128::from(units);
        self.magnitude += i128::from(units.unsigned_abs());
    }
}

impl Group {
    fn add(&mut self, position: &RowPosition, cells: &[Option<TrueValue>]) {
        self.columns.resize(cells.len(), Summary::default());
        for (summary, known) in self.columns.iter_mut().zip(cells) {
            let Some(known) = known else { continue };
            let certain = known.certain && position.passes;
            summary.add(position.time, known.units, certain);
            self.uncertain |= !certain;
        }
    }
}

/// Rows that are generated at a time.
const CHUNK: usize = 1_024;
/// Maximum number of rows in an error message.
const ROWS_IN_MESSAGE_MAX: usize = 3;
/// Relative difference allowed between sums of 64-bit floats that were added in different orders.
const TOLERANCE: f64 = 1e-9;
/// Relative difference allowed for 32-bit floats.
const TOLERANCE_FLOAT: f64 = 1e-5;

/// Checks an answer to `query`.
///
/// Cost: generates every value in the query's window; values that are only aggregated are not
/// stored.
pub(crate) fn check(workload: &dyn Workload, query: &Query, answer: &Rows, view: &View<'_>) -> Verdict {
    let oracle = Oracle { workload, query, view, kinds: kinds(workload, query) };
    if let Some(problem) = oracle.out_of_order(answer) {
        return Verdict::Wrong(problem);
    }
    match (&query.shape, &query.set) {
        (_, Some(_)) => oracle.check_set(answer),
        (Shape::Rows, None) => oracle.check_rows(answer),
        (Shape::Aggregate { aggregate, by_device }, None) => oracle.check_aggregate(*aggregate, *by_device, answer),
        (Shape::Buckets { aggregate, width, origin, by_device }, None) => {
            oracle.check_buckets(*aggregate, (*width, *origin), *by_device, answer)
        }
        (Shape::Latest, None) => oracle.check_latest(answer),
    }
}

/// Types of the query's fields.
fn kinds(workload: &dyn Workload, query: &Query) -> Vec<Kind> {
    let table = &workload.schema().tables[query.table as usize];
    query.fields.iter().map(|field| table.fields[*field as usize].kind).collect()
}

struct Oracle<'a> {
    workload: &'a dyn Workload,
    query: &'a Query,
    view: &'a View<'a>,
    kinds: Vec<Kind>,
}

impl Oracle<'_> {
    fn devices(&self) -> Vec<u32> {
        match &self.query.devices {
            Some(devices) => devices.clone(),
            None => {
                let all = self.workload.schema().devices.iter().enumerate();
                all.filter(|(_, device)| device.table == self.query.table).map(|(number, _)| number as u32).collect()
            }
        }
    }

    /// Rows of a device in the window, oldest first, that may pass the filters and may have a
    /// value.
    fn truth(&self, device: u32) -> Vec<Truth> {
        let mut rows = Vec::new();
        self.for_each_row(device, &mut |position, cells| {
            rows.push(Truth { device, time: position.time, cells: cells.to_vec(), passes: position.passes });
        });
        rows
    }

    /// Calls `visit` for each row of [`Oracle::truth`] without storing them: a query may read the
    /// whole data set.
    fn for_each_row(&self, device: u32, visit: &mut dyn FnMut(&RowPosition, &[Option<TrueValue>])) {
        let window = self.query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let bound = self.workload.slot_bound(device, self.view.bound(device));
        let slots = self.workload.slots_in(device, window.clone());
        let end = slots.end.min(bound);
        let mut cells = Vec::with_capacity(self.query.fields.len());
        for from in (slots.start..end).step_by(CHUNK) {
            let position = |slot| RowPosition { slot, time: self.workload.time(device, slot), passes: true };
            let positions = (from..end.min(from + CHUNK as u64)).map(position);
            let mut positions: Vec<RowPosition> =
                positions.filter(|position| window.contains(&position.time)).collect();
            self.filter(device, &mut positions);
            let columns: Vec<_> =
                self.query.fields.iter().map(|field| self.column(device, *field, &positions)).collect();
            for (row, position) in positions.iter().enumerate() {
                cells.clear();
                cells.extend(columns.iter().map(|column| column[row]));
                if cells.iter().any(Option::is_some) {
                    visit(position, &cells);
                }
            }
        }
    }

    /// Removes rows that cannot pass the filters, and marks those that pass only for some outcomes.
    fn filter(&self, device: u32, positions: &mut Vec<RowPosition>) {
        for filter in &self.query.filters {
            let kind = self.workload.schema().tables[self.query.table as usize].fields[filter.field as usize].kind;
            let mut column = self.column(device, filter.field, positions).into_iter();
            positions.retain_mut(|position| match column.next().flatten() {
                Some(known) if kind.number(known.units) > filter.above => {
                    position.passes &= known.certain;
                    true
                }
                _ => false,
            });
        }
    }

    /// Values of one field in some rows.
    fn column(&self, device: u32, field: u32, positions: &[RowPosition]) -> Vec<Option<TrueValue>> {
        let slots: Vec<u64> = positions.iter().map(|position| position.slot).collect();
        let mut values = vec![0; slots.len()];
        self.workload.fill(device, field, &slots, &mut values);
        let mut units = Vec::new();
        // Consecutive slots mostly belong to one unit, so the last state is cached.
        let mut last = (u64::MAX, State::Unsent);
        let mut state = |slot: u64| {
            units.clear();
            self.workload.units_of(device, slot, field, &mut units);
            match units.as_slice() {
                [unit] => {
                    if last.0 != *unit {
                        last = (*unit, self.view.state(device, *unit));
                    }
                    last.1
                }
                units => self.state(device, units),
            }
        };
        let known = |(slot, units): (&u64, i64)| match state(*slot) {
            State::Unsent => None,
            state => Some(TrueValue { units, certain: state == State::Acked }),
        };
        slots.iter().zip(values).map(known).collect()
    }

    /// State of a value that several units write: the most certain of their states.
    fn state(&self, device: u32, units: &[u64]) -> State {
        let mut seen = State::Unsent;
        for unit in units {
            match self.view.state(device, *unit) {
                State::Acked => seen = State::Acked,
                State::Unknown if seen == State::Unsent => seen = State::Unknown,
                _ => {}
            }
        }
        seen
    }

    /// Builds one row, if it may pass the filters and may have a value.
    fn row(&self, device: u32, slot: u64, time: i64) -> Option<Truth> {
        let mut positions = vec![RowPosition { slot, time, passes: true }];
        self.filter(device, &mut positions);
        let passes = positions.first()?.passes;
        let cells: Vec<_> = self.query.fields.iter().map(|field| self.column(device, *field, &positions)[0]).collect();
        cells.iter().any(Option::is_some).then_some(Truth { device, time, cells, passes })
    }

    /// Returns a description of the first row that violates the query's order.
    fn out_of_order(&self, answer: &Rows) -> Option<String> {
        let sign = match self.query.order {
            Order::Any => return None,
            Order::Ascending => 1,
            Order::Descending => -1,
        };
        let mut last: HashMap<Option<u32>, i64> = HashMap::new();
        for (number, row) in answer.rows.iter().enumerate() {
            let Some(time) = row.time else { continue };
            if let Some(before) = last.insert(row.device, time)
                && (time as i128 - before as i128) * sign < 0
            {
                return Some(format!("row {number}: time {time} after {before}, but the order is by time"));
            }
        }
        None
    }

    fn check_rows(&self, answer: &Rows) -> Verdict {
        let truth: Vec<Truth> = self.devices().into_iter().flat_map(|device| self.truth(device)).collect();
        let certain = truth.iter().filter(|row| row.is_certain()).count();
        if let Some(limit) = self.query.limit {
            return self.check_limited(answer, &truth, limit as usize);
        }
        match self.matched(answer, &truth) {
            Err(problem) => Verdict::Wrong(problem),
            Ok(used) => {
                let missing: Vec<&Truth> =
                    truth.iter().zip(&used).filter(|(row, used)| row.is_certain() && !**used).map(|(r, _)| r).collect();
                match missing.first() {
                    None if certain < truth.len() => Verdict::Undecided,
                    None => Verdict::Right,
                    Some(first) => Verdict::Wrong(format!(
                        "{} of {certain} rows are missing, the first: {}",
                        missing.len(),
                        self.format_row(first)
                    )),
                }
            }
        }
    }

    /// Checks rows like [`Oracle::check_rows`], for a query with a limit.
    fn check_limited(&self, answer: &Rows, truth: &[Truth], limit: usize) -> Verdict {
        let uncertain = truth.iter().any(|row| !row.is_certain());
        let used = match self.matched(answer, truth) {
            Err(problem) => return Verdict::Wrong(problem),
            Ok(used) => used,
        };
        if uncertain {
            return Verdict::Undecided;
        }
        let expected = truth.len().min(limit);
        let seen = used.iter().filter(|used| **used).count();
        if seen != expected {
            return Verdict::Wrong(format!("seen {seen} rows, expected {expected} by the limit and the data"));
        }
        let times =
            |which: bool| truth.iter().zip(&used).filter(move |(_, used)| **used == which).map(|(row, _)| row.time);
        let wrong_end = match self.query.order {
            Order::Any => false,
            Order::Ascending => times(true).max() > times(false).min() && times(false).next().is_some(),
            Order::Descending => times(true).min() < times(false).max() && times(true).next().is_some(),
        };
        if wrong_end { Verdict::Wrong("the limit did not keep the first rows".to_owned()) } else { Verdict::Right }
    }

    /// Matches each row of the answer with a row of the truth; returns which rows of the truth were
    /// matched.
    fn matched(&self, answer: &Rows, truth: &[Truth]) -> std::result::Result<Vec<bool>, String> {
        let mut by_time: HashMap<i64, Vec<usize>> = HashMap::new();
        for (number, row) in truth.iter().enumerate() {
            by_time.entry(row.time).or_default().push(number);
        }
        let mut used = vec![false; truth.len()];
        for row in answer.rows.iter().filter(|row| row.cells.iter().any(|cell| *cell != Cell::Null)) {
            let time = row.time.ok_or_else(|| format!("a row without a time: {row:?}"))?;
            let candidates = by_time.get(&time).map_or(&[][..], Vec::as_slice);
            let fits = |number: &&usize| {
                let truth = &truth[**number];
                !used[**number] && row.device.is_none_or(|device| device == truth.device) && self.same(truth, row)
            };
            match candidates.iter().find(fits) {
                Some(number) => used[*number] = true,
                None => return Err(self.unexpected(row, candidates.iter().map(|number| &truth[*number]))),
            }
        }
        Ok(used)
    }

    fn same(&self, truth: &Truth, row: &Row) -> bool {
        truth.cells.len() == row.cells.len() && self.differing(truth, row).is_none()
    }

    /// Returns the first column in which `row` differs from `truth`.
    fn differing(&self, truth: &Truth, row: &Row) -> Option<usize> {
        let mut cells = truth.cells.iter().zip(&row.cells).zip(&self.kinds);
        cells.position(|((known, cell), kind)| match known {
            None => *cell != Cell::Null,
            Some(known) => !((!known.certain && *cell == Cell::Null) || equals(*kind, known.units, cell)),
        })
    }

    fn unexpected<'t>(&self, row: &Row, candidates: impl Iterator<Item = &'t Truth>) -> String {
        let candidates: Vec<&Truth> = candidates.collect();
        let own = candidates.iter().find(|truth| row.device == Some(truth.device));
        if let Some((truth, column)) = own.and_then(|truth| Some((truth, self.differing(truth, row)?))) {
            let field = self.query.fields[column] as usize;
            return format!(
                "{} {} {}: seen {:?}, expected {}",
                self.device_name(truth.device),
                truth.time,
                self.workload.schema().tables[self.query.table as usize].fields[field].name,
                row.cells[column],
                truth.cells[column].map_or("null".to_owned(), |known| format_value(self.kinds[column], known.units))
            );
        }
        let there: Vec<String> =
            candidates.into_iter().take(ROWS_IN_MESSAGE_MAX).map(|truth| self.format_row(truth)).collect();
        let there = if there.is_empty() { "no row at that time".to_owned() } else { there.join("; ") };
        let device = row.device.map_or_else(String::new, |device| format!("{} ", self.device_name(device)));
        format!("seen {device}{:?} {:?}, expected {there}", row.time, row.cells)
    }

    fn device_name(&self, device: u32) -> &str {
        self.workload.schema().device_name(device)
    }

    fn format_row(&self, truth: &Truth) -> String {
        let cells: Vec<String> = truth
            .cells
            .iter()
            .zip(&self.kinds)
            .map(|(known, kind)| known.map_or("null".to_owned(), |known| format_value(*kind, known.units)))
            .take(8)
            .collect();
        format!("{} {} [{}]", self.device_name(truth.device), truth.time, cells.join(", "))
    }

    fn check_aggregate(&self, aggregate: Aggregate, by_device: bool, answer: &Rows) -> Verdict {
        let mut groups: BTreeMap<Option<u32>, Group> = BTreeMap::new();
        for device in self.devices() {
            let group = groups.entry(by_device.then_some(device)).or_default();
            self.for_each_row(device, &mut |position, cells| group.add(position, cells));
        }
        let mut seen: HashMap<Option<u32>, &Row> = HashMap::new();
        for row in &answer.rows {
            let group = if by_device { row.device } else { None };
            if by_device && group.is_none() {
                return Verdict::Wrong(format!("a row without a device: {row:?}"));
            }
            if !groups.contains_key(&group) || seen.insert(group, row).is_some() {
                return Verdict::Wrong(format!("an unexpected row: {row:?}"));
            }
        }
        let mut verdict = Verdict::Right;
        for (group, rows) in &groups {
            let cells = seen.get(group).map(|row| row.cells.as_slice());
            match self.check_group(aggregate, rows, cells) {
                Verdict::Right => {}
                Verdict::Undecided => verdict = Verdict::Undecided,
                Verdict::Wrong(problem) => {
                    let device_label = group.map_or("all devices", |device| self.device_name(device));
                    return Verdict::Wrong(format!("{device_label}: {problem}"));
                }
            }
        }
        verdict
    }

    fn check_buckets(
        &self,
        aggregate: Aggregate,
        (width, origin): (i64, i64),
        by_device: bool,
        answer: &Rows,
    ) -> Verdict {
        let mut groups: BTreeMap<(i64, Option<u32>), Group> = BTreeMap::new();
        for device in self.devices() {
            self.for_each_row(device, &mut |position, cells| {
                let bucket = origin + (position.time - origin).div_euclid(width) * width;
                groups.entry((bucket, by_device.then_some(device))).or_default().add(position, cells);
            });
        }
        if let Some(limit) = self.query.limit {
            if groups.values().any(|group| group.uncertain) {
                return Verdict::Undecided;
            }
            keep_first(&mut groups, limit as usize, self.query.order);
        }
        let mut seen: HashMap<(i64, Option<u32>), &Row> = HashMap::new();
        for row in &answer.rows {
            let Some(time) = row.time else { return Verdict::Wrong(format!("a bucket without a time: {row:?}")) };
            let group = (time, if by_device { row.device } else { None });
            let empty = row.cells.iter().all(is_nothing);
            if seen.insert(group, row).is_some() || (!groups.contains_key(&group) && !empty) {
                return Verdict::Wrong(format!("an unexpected or duplicate bucket: {row:?}"));
            }
        }
        let mut verdict = Verdict::Right;
        for ((bucket, device), rows) in &groups {
            let cells = seen.get(&(*bucket, *device)).map(|row| row.cells.as_slice());
            match self.check_group(aggregate, rows, cells) {
                Verdict::Right => {}
                Verdict::Undecided => verdict = Verdict::Undecided,
                Verdict::Wrong(problem) => {
                    let device_label = device.map_or("", |device| self.device_name(device));
                    return Verdict::Wrong(format!("bucket {bucket} {device_label}: {problem}"));
                }
            }
        }
        verdict
    }

    /// Checks one row of aggregates; `cells` is `None` if the answer has no such row.
    fn check_group(&self, aggregate: Aggregate, group: &Group, cells: Option<&[Cell]>) -> Verdict {
        let mut verdict = Verdict::Right;
        for (column, kind) in self.kinds.iter().enumerate() {
            let cell = match cells {
                None => &Cell::Null,
                Some(cells) => match cells.get(column) {
                    Some(cell) => cell,
                    None => return Verdict::Wrong(format!("{} columns, expected {}", cells.len(), self.kinds.len())),
                },
            };
            let values = group.columns.get(column).copied().unwrap_or_default();
            match check_value(aggregate, *kind, &values, cell) {
                Verdict::Right => {}
                Verdict::Undecided => verdict = Verdict::Undecided,
                Verdict::Wrong(problem) => {
                    let table = &self.workload.schema().tables[self.query.table as usize];
                    let field = &table.fields[self.query.fields[column] as usize].name;
                    return Verdict::Wrong(format!("{}({field}): {problem}", aggregate.name()));
                }
            }
        }
        verdict
    }

    fn check_latest(&self, answer: &Rows) -> Verdict {
        let mut verdict = Verdict::Right;
        let devices = self.devices();
        for device in &devices {
            let rows: Vec<&Row> = answer
                .rows
                .iter()
                .filter(|row| row.device == Some(*device) || (row.device.is_none() && devices.len() == 1))
                .filter(|row| row.cells.iter().any(|cell| *cell != Cell::Null))
                .collect();
            let newest = self.newest(*device);
            let certain = newest.last().is_some_and(Truth::is_certain);
            match (rows.as_slice(), newest.is_empty()) {
                ([], true) => {}
                ([], false) if !certain => verdict = Verdict::Undecided,
                ([row], false) if self.is_one_of(row, &newest) => {
                    if newest.len() > 1 {
                        verdict = Verdict::Undecided;
                    }
                }
                _ => {
                    let expected = newest.last().map_or("nothing".to_owned(), |row| self.format_row(row));
                    return Verdict::Wrong(format!(
                        "{}: seen {rows:?}, expected {expected}",
                        self.device_name(*device)
                    ));
                }
            }
        }
        if answer.rows.iter().any(|row| row.device.is_some_and(|device| !devices.contains(&device))) {
            return Verdict::Wrong("a row of an unexpected device".to_owned());
        }
        verdict
    }

    /// Rows that may be the newest, from the latest back to the first that is certain.
    fn newest(&self, device: u32) -> Vec<Truth> {
        let bound = self.workload.slot_bound(device, self.view.bound(device));
        let mut rows = Vec::new();
        for slot in (0..bound).rev() {
            if let Some(row) = self.row(device, slot, self.workload.time(device, slot)) {
                let certain = row.is_certain() && row.cells.iter().all(Option::is_some);
                rows.push(row);
                if certain {
                    break;
                }
            }
        }
        rows
    }

    /// Returns whether the row equals one of `newest`, or combines the newest value of each field.
    fn is_one_of(&self, row: &Row, newest: &[Truth]) -> bool {
        let time_fits = |truth: &Truth| row.time.is_none_or(|time| time == truth.time);
        let whole = newest.iter().any(|truth| time_fits(truth) && self.same(truth, row));
        whole
            || newest.iter().any(time_fits)
                && row.cells.iter().enumerate().all(|(column, cell)| {
                    let of_field = newest.iter().filter_map(|truth| truth.cells[column]);
                    *cell == Cell::Null
                        || of_field.into_iter().any(|known| equals(self.kinds[column], known.units, cell))
                })
    }

    fn check_set(&self, answer: &Rows) -> Verdict {
        let Some(set) = &self.query.set else { return Verdict::Right };
        let own = self.query.devices.clone().unwrap_or_default();
        let mut children = Vec::new();
        for devices in std::iter::once(&own).chain(&set.others) {
            let rows: Vec<Truth> = devices.iter().flat_map(|device| self.truth(*device)).collect();
            if rows.iter().any(|row| !row.is_certain()) {
                return Verdict::Undecided;
            }
            let mut counts: BTreeMap<String, i64> = BTreeMap::new();
            for row in rows {
                *counts.entry(self.identity_of_truth(&row)).or_default() += 1;
            }
            children.push(counts);
        }
        let expected = combined(&children, set.operator, set.all);
        let mut seen: BTreeMap<String, i64> = BTreeMap::new();
        for row in answer.rows.iter().filter(|row| row.cells.iter().any(|cell| *cell != Cell::Null)) {
            *seen.entry(self.identity(row)).or_default() += 1;
        }
        let different = expected
            .iter()
            .chain(&seen)
            .find(|(row, _)| expected.get(*row).copied().unwrap_or(0) != seen.get(*row).copied().unwrap_or(0));
        match different {
            None => Verdict::Right,
            Some((row, _)) => Verdict::Wrong(format!(
                "row {row}: seen {} times, expected {}",
                seen.get(row).unwrap_or(&0),
                expected.get(row).unwrap_or(&0)
            )),
        }
    }

    fn identity_of_truth(&self, row: &Truth) -> String {
        let cells = row.cells.iter().zip(&self.kinds);
        let cells: Vec<String> = cells
            .map(|(known, kind)| known.map_or("null".to_owned(), |known| format_value(*kind, known.units)))
            .collect();
        format!("{} [{}]", row.time, cells.join(", "))
    }

    /// Text that is equal for equal values, within the precision of the type.
    fn identity(&self, row: &Row) -> String {
        let cells = row.cells.iter().zip(&self.kinds).map(|(cell, kind)| format_cell(*kind, cell));
        format!("{} [{}]", row.time.unwrap_or(i64::MIN), cells.collect::<Vec<_>>().join(", "))
    }
}

impl Truth {
    fn is_certain(&self) -> bool {
        self.passes && self.cells.iter().flatten().all(|known| known.certain)
    }
}

/// Keeps the first `limit` groups in the query's order.
fn keep_first<T>(groups: &mut BTreeMap<(i64, Option<u32>), T>, limit: usize, order: Order) {
    while groups.len() > limit {
        match order {
            Order::Descending => drop(groups.pop_first()),
            _ => drop(groups.pop_last()),
        }
    }
}

fn combined(children: &[BTreeMap<String, i64>], operator: SetOperator, all: bool) -> BTreeMap<String, i64> {
    let mut result = children[0].clone();
    for child in &children[1..] {
        for (row, count) in child {
            let sum = result.entry(row.clone()).or_default();
            match operator {
                SetOperator::Union => *sum += count,
                SetOperator::Intersect => *sum = (*sum).min(*count),
                // EXCEPT without ALL: one row on the right removes all equal rows on the left.
                SetOperator::Except => *sum = if all { *sum - count } else { 0 },
            }
        }
        if operator == SetOperator::Intersect {
            result.retain(|row, _| child.contains_key(row));
        }
    }
    result.retain(|_, count| *count > 0);
    if !all {
        result.values_mut().for_each(|count| *count = 1);
    }
    result
}

fn is_nothing(cell: &Cell) -> bool {
    match cell {
        Cell::Null => true,
        Cell::Int(n) => *n == 0,
        Cell::Float(x) => *x == 0.0,
        _ => false,
    }
}

/// Checks one aggregate over some values.
fn check_value(aggregate: Aggregate, kind: Kind, values: &Summary, cell: &Cell) -> Verdict {
    if aggregate == Aggregate::Count {
        let seen = match cell {
            Cell::Null => 0,
            Cell::Int(n) => *n,
            Cell::Float(x) if x.fract() == 0.0 => *x as i64,
            _ => return Verdict::Wrong(format!("seen {cell:?}, expected a count")),
        };
        return if !(values.certain as i64..=values.all as i64).contains(&seen) {
            Verdict::Wrong(format!("seen {seen}, expected {}", range(values.certain, values.all)))
        } else if values.certain == values.all {
            Verdict::Right
        } else {
            Verdict::Undecided
        };
    }
    if values.certain < values.all {
        return Verdict::Undecided;
    }
    let right = match (expected(aggregate, kind, values), cell) {
        (None, cell) => is_nothing(cell),
        (Some(Expected::Exactly(units)), cell) => equals(kind, units, cell),
        (Some(Expected::About { value, scale }), Cell::Int(_) | Cell::Float(_)) => {
            let tolerance = if matches!(kind, Kind::Float { .. }) { TOLERANCE_FLOAT } else { TOLERANCE };
            (number(cell) - value).abs() <= tolerance * scale.max(1.0)
        }
        _ => false,
    };
    if right {
        return Verdict::Right;
    }
    let expected = match expected(aggregate, kind, values) {
        None => "nothing".to_owned(),
        Some(Expected::Exactly(units)) => format_value(kind, units),
        Some(Expected::About { value, .. }) => value.to_string(),
    };
    Verdict::Wrong(format!("seen {cell:?}, expected {expected} over {} values", values.all))
}

fn range(least: u64, most: u64) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Int(n) => *n as f64,
        Cell::Float(x) => *x,
        _ => f64::NAN,
    }
}

enum Expected {
    /// Exactly this value.
    Exactly(i64),
    /// A sum or mean; `scale` is the sum (or mean) of the magnitudes, which bounds the rounding
    /// error.
    About { value: f64, scale: f64 },
}

fn expected(aggregate: Aggregate, kind: Kind, values: &Summary) -> Option<Expected> {
    if values.all == 0 {
        return None;
    }
    Some(match aggregate {
        Aggregate::Count => return None,
        Aggregate::Min => Expected::Exactly(values.least),
        Aggregate::Max => Expected::Exactly(values.greatest),
        Aggregate::First => Expected::Exactly(values.oldest.1),
        Aggregate::Last => Expected::Exactly(values.newest.1),
        Aggregate::Sum | Aggregate::Avg => {
            let n = if aggregate == Aggregate::Sum { 1.0 } else { values.all as f64 };
            let scale = POWERS[usize::from(kind.decimals())] * n;
            Expected::About { value: values.sum as f64 / scale, scale: values.magnitude as f64 / scale }
        }
    })
}

/// Returns whether `cell` is the value that `units` encode.
pub(crate) fn equals(kind: Kind, units: i64, cell: &Cell) -> bool {
    match (kind, cell) {
        (Kind::Bool, Cell::Bool(value)) => i64::from(*value) == units,
        // Products without booleans store 0 and 1.
        (Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Timestamp | Kind::Date, Cell::Int(value)) => *value == units,
        (Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Date, Cell::Float(value)) => *value == units as f64,
        (Kind::Double { .. }, Cell::Float(value)) => *value == kind.number(units),
        // Some products store the decimal number that they received as a 64-bit float.
        (Kind::Float { .. }, Cell::Float(value)) => *value as f32 == kind.number(units) as f32,
        (Kind::Float { .. } | Kind::Double { .. }, Cell::Int(value)) => *value as f64 == kind.number(units),
        (_, Cell::Text(text)) => kind.text_length().is_some_and(|length| {
            let mut expected = Vec::new();
            text_of(units, length, &mut expected);
            expected == *text
        }),
        _ => false,
    }
}

fn format_value(kind: Kind, units: i64) -> String {
    match kind.text_length() {
        Some(length) => {
            let mut text = Vec::new();
            text_of(units, length, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
        None if matches!(kind, Kind::Float { .. }) => (kind.number(units) as f32).to_string(),
        None if matches!(kind, Kind::Double { .. }) => kind.number(units).to_string(),
        None => units.to_string(),
    }
}

fn format_cell(kind: Kind, cell: &Cell) -> String {
    match cell {
        Cell::Null => "null".to_owned(),
        Cell::Bool(value) => i64::from(*value).to_string(),
        Cell::Int(value) if matches!(kind, Kind::Float { .. } | Kind::Double { .. }) => (*value as f64).to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Float(value) if matches!(kind, Kind::Float { .. }) => (*value as f32).to_string(),
        Cell::Float(value) => value.to_string(),
        Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

/// Counts and sums of all values that one device must have.
pub(crate) struct Totals {
    /// One element for each field of the device's table.
    pub(crate) fields: Vec<Total>,
}

/// Count and sum of one field of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    /// Number of values that must exist.
    pub(crate) certain: u64,
    /// Number of further values that may exist.
    pub(crate) unknown: u64,
    /// Sum of the certain values, in units; meaningful only if `unknown` is 0.
    pub(crate) sum: i128,
    /// Sum of the magnitudes of the certain values.
    pub(crate) magnitude: i128,
}

/// Computes the totals of a device. `replaces`: whether the target keeps one row for a slot that is
/// written twice, or one row for each write.
///
/// Cost: a few nanoseconds a value, 16 bytes a slot of memory.
///
/// # Errors
/// The device has more slots than fit into memory.
pub(crate) fn totals(workload: &dyn Workload, device: u32, view: &View<'_>, replaces: bool) -> Result<Totals> {
    let table = workload.schema().table_of(device);
    let bound = workload.slot_bound(device, view.bound(device));
    if bound > 1 << 32 {
        return Err(Error::setup(format!("{bound} rows of one device: too many to sum up in memory")));
    }
    let mut fields = vec![Total::default(); table.fields.len()];
    let aligned = workload.unit_fields(device, 0) == (0..table.fields.len() as u32);
    let mut slots = Presence::default();
    for (field, total) in fields.iter_mut().enumerate() {
        if field == 0 || !aligned {
            slots = presence(workload, device, field as u32, bound, view, replaces);
        }
        total.unknown = slots.unknown;
        total.certain = slots.certain.len() as u64;
        if table.fields[field].kind.is_number() {
            let mut units = vec![0i64; slots.certain.len()];
            workload.fill(device, field as u32, &slots.certain, &mut units);
            total.sum = units.iter().map(|units| i128::from(*units)).sum();
            total.magnitude = units.iter().map(|units| i128::from(units.unsigned_abs())).sum();
        }
    }
    Ok(Totals { fields })
}

#[derive(Default)]
struct Presence {
    /// Slots that must exist; a slot occurs once for each write if the target keeps every write.
    certain: Vec<u64>,
    unknown: u64,
}

fn presence(workload: &dyn Workload, device: u32, field: u32, bound: u64, view: &View<'_>, replaces: bool) -> Presence {
    let mut presence = Presence::default();
    let mut units = Vec::new();
    for slot in 0..bound {
        units.clear();
        workload.units_of(device, slot, field, &mut units);
        let acked = units.iter().filter(|unit| view.state(device, **unit) == State::Acked).count();
        let unknown = units.iter().filter(|unit| view.state(device, **unit) == State::Unknown).count();
        let (certain, maybe) =
            if replaces { (acked.min(1), if acked == 0 { unknown.min(1) } else { 0 }) } else { (acked, unknown) };
        presence.certain.extend(std::iter::repeat_n(slot, certain));
        presence.unknown += maybe as u64;
    }
    presence
}

#[cfg(test)]
mod tests;
