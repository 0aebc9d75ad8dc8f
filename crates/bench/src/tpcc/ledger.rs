//! The ledger of acknowledged transactions: every new order by its number, deliveries by district,
//! payments by count.
//!
//! A transaction whose connection broke after COMMIT was sent may have been committed; every other
//! transaction without an acknowledgement must not be in the tables.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::check::{DELIVERED, first_violations, integers};
use super::input::Input;
use super::population::DISTRICTS;
use super::session::Admin;
use super::transactions::{Done, Order};
use crate::error::{Error, Result};

/// Acknowledged transactions of all clients.
pub(super) struct Ledger {
    districts: Vec<District>,
    /// Rows of HISTORY before the run.
    payments_before: i64,
    payments: AtomicI64,
    payments_unknown: AtomicI64,
}

#[derive(Default)]
struct District {
    /// Number of the first order that this run can create.
    first: i64,
    orders: Mutex<Vec<Order>>,
    orders_unknown: AtomicI64,
    delivered_before: i64,
    delivered: AtomicI64,
    delivered_unknown: AtomicI64,
}

impl District {
    fn orders(&self) -> MutexGuard<'_, Vec<Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Creates an empty ledger, based on the current tables.
    pub(super) fn begin(admin: &mut Admin, warehouses: i32) -> Result<Ledger> {
        let mut districts = Vec::new();
        districts.resize_with((warehouses * DISTRICTS) as usize, District::default);
        let mut ledger = Ledger {
            districts,
            payments_before: count_of(admin, "SELECT count(*) FROM history")?,
            payments: AtomicI64::new(0),
            payments_unknown: AtomicI64::new(0),
        };
        for row in admin.query("SELECT d_w_id, d_id, d_next_o_id FROM district")? {
            let [w, d, next] = integers(&row)?;
            ledger.district_mut(w, d)?.first = next;
        }
        for row in admin.query(DELIVERED)? {
            let [w, d, delivered, _] = integers(&row)?;
            ledger.district_mut(w, d)?.delivered_before = delivered;
        }
        Ok(ledger)
    }

    fn district_mut(&mut self, w: i64, d: i64) -> Result<&mut District> {
        let at = district_index(w as i32, d as i32);
        self.districts.get_mut(at).ok_or_else(|| Error::protocol(format!("district ({w}, {d}): not in this database")))
    }

    fn district(&self, w: i32, d: i32) -> &District {
        &self.districts[district_index(w, d)]
    }

    /// Records an acknowledged transaction.
    pub(super) fn acknowledge(&self, input: &Input, done: Done) {
        match (input, done) {
            (Input::NewOrder { warehouse, district, .. }, Done::Ordered(order)) => {
                self.district(*warehouse, *district).orders().push(order);
            }
            (Input::Payment { .. }, _) => {
                self.payments.fetch_add(1, Ordering::Relaxed);
            }
            (Input::Delivery { warehouse, .. }, Done::Delivered(mask)) => {
                for d in (1..=DISTRICTS).filter(|d| mask >> (d - 1) & 1 == 1) {
                    self.district(*warehouse, d).delivered.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// Records a transaction with an unknown outcome.
    pub(super) fn unknown(&self, input: &Input) {
        match input {
            Input::NewOrder { warehouse, district, .. } => {
                self.district(*warehouse, *district).orders_unknown.fetch_add(1, Ordering::Relaxed);
            }
            Input::Payment { .. } => {
                self.payments_unknown.fetch_add(1, Ordering::Relaxed);
            }
            Input::Delivery { warehouse, .. } => {
                for d in 1..=DISTRICTS {
                    self.district(*warehouse, d).delivered_unknown.fetch_add(1, Ordering::Relaxed);
                }
            }
            Input::OrderStatus { .. } | Input::StockLevel { .. } => {}
        }
    }

    /// Number of acknowledged orders so far.
    pub(super) fn orders(&self) -> u64 {
        self.districts.iter().map(|district| district.orders().len() as u64).sum()
    }

    /// Replaces the acknowledged transactions by the contents of the tables, without unknown
    /// outcomes: later checks require exactly these. Requires tables that agree with the ledger and
    /// that no transaction changes meanwhile.
    pub(super) fn accept_tables(&self, admin: &mut Admin) -> Result<()> {
        for (w, d, district) in self.numbered() {
            let sql = format!(
                "SELECT o_id, o_c_id, o_ol_cnt FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id >= {}",
                district.first
            );
            let order = |row: &Vec<Option<String>>| {
                let [number, customer, lines] = integers(row)?.map(|value: i64| value as i32);
                Ok(Order { number, customer, lines })
            };
            let found = admin.query(&sql)?.iter().map(order).collect::<Result<Vec<Order>>>()?;
            *district.orders() = found;
            district.orders_unknown.store(0, Ordering::Relaxed);
        }
        for row in admin.query(DELIVERED)? {
            let [w, d, delivered, _] = integers(&row)?;
            let district = self.district(w as i32, d as i32);
            district.delivered.store(delivered - district.delivered_before, Ordering::Relaxed);
            district.delivered_unknown.store(0, Ordering::Relaxed);
        }
        let payments = count_of(admin, "SELECT count(*) FROM history")? - self.payments_before;
        self.payments.store(payments, Ordering::Relaxed);
        self.payments_unknown.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Returns violations: acknowledged orders that are missing, different or duplicated, and
    /// orders that no client made.
    pub(super) fn check_orders(&self, admin: &mut Admin) -> Result<Vec<String>> {
        let mut offending = Vec::new();
        for (w, d, district) in self.numbered() {
            let range = format!("FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id >= {}", district.first);
            let rows = admin.query(&format!("SELECT o_id, o_c_id, o_ol_cnt {range} ORDER BY o_id"))?;
            let found = rows.iter().map(|row| integers(row)).collect::<Result<Vec<[i64; 3]>>>()?;
            offending.extend(district.compare(&found).into_iter().map(|text| format!("({w}, {d}): {text}")));
            // Compare with aggregates computed by the server too: an index and its table may
            // disagree.
            let sums = admin.query(&format!(
                "SELECT count(*), coalesce(sum(o_id), 0), coalesce(sum(o_c_id), 0), coalesce(sum(o_ol_cnt), 0) {range}"
            ))?;
            let sums: [i64; 4] = integers(sums.first().map_or(&[][..], Vec::as_slice))?;
            let mut expected = [found.len() as i64, 0, 0, 0];
            found.iter().for_each(|row| (0..3).for_each(|n| expected[n + 1] += row[n]));
            if sums != expected {
                offending.push(format!("({w}, {d}): count and sums are {sums:?}, of its rows they are {expected:?}"));
            }
        }
        Ok(first_violations(offending.into_iter()))
    }

    /// Returns violations: missing or surplus rows of HISTORY.
    pub(super) fn check_payments(&self, admin: &mut Admin) -> Result<Vec<String>> {
        let found = count_of(admin, "SELECT count(*) FROM history")? - self.payments_before;
        let (sure, unknown) = (self.payments.load(Ordering::Relaxed), self.payments_unknown.load(Ordering::Relaxed));
        let wrong = !(sure..=sure + unknown).contains(&found);
        let text =
            || format!("{found} payments were made; {sure} were acknowledged and {unknown} have an unknown outcome");
        Ok(wrong.then(text).into_iter().collect())
    }

    /// Returns a violation if the number of a district's delivered orders is wrong.
    pub(super) fn wrong_deliveries(&self, w: i32, d: i32, found: i64) -> Option<String> {
        let district = self.districts.get(district_index(w, d))?;
        let sure = district.delivered_before + district.delivered.load(Ordering::Relaxed);
        let unknown = district.delivered_unknown.load(Ordering::Relaxed);
        let wrong = !(sure..=sure + unknown).contains(&found);
        wrong.then(|| format!("expected {sure}; {unknown} deliveries have an unknown outcome"))
    }

    fn numbered(&self) -> impl Iterator<Item = (i32, i32, &District)> {
        let number = |at: usize| (at as i32 / DISTRICTS + 1, at as i32 % DISTRICTS + 1);
        self.districts.iter().enumerate().map(move |(at, district)| (number(at).0, number(at).1, district))
    }
}

impl District {
    /// Compares `found` (number, customer, lines; sorted) with the acknowledged orders.
    fn compare(&self, found: &[[i64; 3]]) -> Vec<String> {
        let mut acknowledged = self.orders().clone();
        acknowledged.sort_unstable();
        let mut wrong = Vec::new();
        for twice in acknowledged.windows(2).filter(|pair| pair[0].number == pair[1].number) {
            wrong.push(format!("order {} was acknowledged twice", twice[0].number));
        }
        let mut there = 0;
        for order in &acknowledged {
            let expected = [i64::from(order.number), i64::from(order.customer), i64::from(order.lines)];
            match found.binary_search_by_key(&expected[0], |row| row[0]) {
                Err(_) => wrong.push(format!("acknowledged order {} is LOST", order.number)),
                Ok(at) if found[at] != expected => {
                    wrong
                        .push(format!("order (number, customer, lines) is {:?}, acknowledged {expected:?}", found[at]));
                    there += 1;
                }
                Ok(_) => there += 1,
            }
        }
        let (surplus, unknown) = (found.len() as i64 - there, self.orders_unknown.load(Ordering::Relaxed));
        if surplus > unknown {
            wrong.push(format!("{surplus} orders were never acknowledged; the outcome of {unknown} is unknown"));
        }
        wrong
    }
}

fn district_index(w: i32, d: i32) -> usize {
    ((w - 1) * DISTRICTS + d - 1) as usize
}

fn count_of(admin: &mut Admin, sql: &str) -> Result<i64> {
    let rows = admin.query(sql)?;
    integers::<1>(rows.first().map_or(&[][..], Vec::as_slice)).map(|[count]| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn district(numbers: &[i32], unknown: i64) -> District {
        let orders = numbers.iter().map(|number| Order { number: *number, customer: 7, lines: 5 }).collect();
        District { orders: Mutex::new(orders), orders_unknown: AtomicI64::new(unknown), ..District::default() }
    }

    /// Acknowledged numbers, number of unknown outcomes, orders found, and the expected message.
    type Case = (&'static [i32], i64, &'static [[i64; 3]], &'static str);

    #[test]
    fn lost_duplicated_changed_and_invented_orders_are_found() {
        const FOUND: [[i64; 3]; 3] = [[3001, 7, 5], [3002, 7, 5], [3003, 7, 5]];
        assert!(district(&[3002, 3001, 3003], 0).compare(&FOUND).is_empty());
        let cases: [Case; 4] = [
            (&[3001, 3002, 3003, 3004], 0, &FOUND, "acknowledged order 3004 is LOST"),
            (&[3001, 3002, 3003, 3003], 0, &FOUND, "order 3003 was acknowledged twice"),
            (&[3001], 0, &[[3001, 7, 6]], "order (number, customer, lines) is [3001, 7, 6], acknowledged [3001, 7, 5]"),
            (&[3001], 1, &FOUND, "2 orders were never acknowledged; the outcome of 1 is unknown"),
        ];
        for (acknowledged, unknown, found, expected) in cases {
            assert!(district(acknowledged, unknown).compare(found).contains(&expected.to_owned()), "{expected}");
        }
    }

    #[test]
    fn an_order_of_unknown_outcome_may_or_may_not_exist() {
        assert!(district(&[3001], 1).compare(&[[3001, 7, 5], [3002, 9, 6]]).is_empty());
        assert!(district(&[3001], 1).compare(&[[3001, 7, 5]]).is_empty());
    }
}
