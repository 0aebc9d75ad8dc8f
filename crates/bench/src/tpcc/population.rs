//! TPC-C's initial population (clause 4.3.3) as text rows in `COPY`'s format, which `LOAD DATA`
//! also accepts.
//!
//! A pure function of the seed, the load time and the unit: any thread can generate units in any
//! order. No text contains a character that requires escaping.

use super::random::{CUSTOMERS, Constants, ITEMS, NAMES, Random, last_name};
use super::schema::Table;

/// Districts of each warehouse.
pub(super) const DISTRICTS: i32 = 10;
/// Orders of each district; the first [`ORDERS_DELIVERED`] are delivered.
pub(super) const ORDERS: i32 = CUSTOMERS;
pub(super) const ORDERS_DELIVERED: i32 = 2100;
/// Rows of stock or items in a unit.
const SLICE: i32 = 10_000;

/// Rows that are generated and loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// `SLICE` items, starting with this one.
    Items(i32),
    /// A warehouse and its districts.
    Warehouse(i32),
    /// `SLICE` stock rows of a warehouse, starting with this item.
    Stock(i32, i32),
    /// The customers of a district, and one payment for each.
    Customers(i32, i32),
    /// The orders of a district with their lines, and the rows of undelivered orders.
    Orders(i32, i32),
}

/// All units of this number of warehouses.
pub(super) fn units(warehouses: i32) -> Vec<Unit> {
    let slices = || (1..=ITEMS).step_by(SLICE as usize);
    let mut units: Vec<Unit> = slices().map(Unit::Items).collect();
    for warehouse in 1..=warehouses {
        units.push(Unit::Warehouse(warehouse));
        units.extend(slices().map(|first| Unit::Stock(warehouse, first)));
        units.extend((1..=DISTRICTS).map(|district| Unit::Customers(warehouse, district)));
        units.extend((1..=DISTRICTS).map(|district| Unit::Orders(warehouse, district)));
    }
    units
}

/// Approximate number of rows: the number of lines in an order is random.
pub(super) fn rows_expected(warehouses: i32) -> u64 {
    let district = i64::from(CUSTOMERS) * 2 + i64::from(ORDERS) * 11 + i64::from(ORDERS - ORDERS_DELIVERED);
    (i64::from(ITEMS) + i64::from(warehouses) * (i64::from(ITEMS) + 1 + i64::from(DISTRICTS) * (district + 1))) as u64
}

/// Rows of one table as text: columns separated by tabs, `\N` for null.
pub(super) struct Rows {
    pub(super) table: Table,
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
}

impl Rows {
    fn new(table: Table) -> Rows {
        Rows { table, bytes: Vec::new(), count: 0 }
    }

    fn int(&mut self, value: i32) -> &mut Rows {
        push_int(i64::from(value), &mut self.bytes);
        self.bytes.push(b'\t');
        self
    }

    /// Appends `value / 10^decimals` as a decimal number.
    fn decimal(&mut self, value: i64, decimals: u32) -> &mut Rows {
        if value < 0 {
            self.bytes.push(b'-');
        }
        let scale = 10_u64.pow(decimals);
        push_int((value.unsigned_abs() / scale) as i64, &mut self.bytes);
        self.bytes.push(b'.');
        let fraction = value.unsigned_abs() % scale;
        for digit in (0..decimals).rev() {
            self.bytes.push(b'0' + (fraction / 10_u64.pow(digit) % 10) as u8);
        }
        self.bytes.push(b'\t');
        self
    }

    fn money(&mut self, whole: i64) -> &mut Rows {
        self.decimal(whole * 100, 2)
    }

    fn text(&mut self, text: &str) -> &mut Rows {
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(b'\t');
        self
    }

    fn null(&mut self) -> &mut Rows {
        self.text("\\N")
    }

    /// Appends random letters and digits.
    fn letters(&mut self, random: &mut Random, low: i32, high: i32) -> &mut Rows {
        random.letters(low, high, &mut self.bytes);
        self.bytes.push(b'\t');
        self
    }

    /// Appends random letters and digits; one row of ten contains ORIGINAL.
    fn data(&mut self, random: &mut Random) -> &mut Rows {
        let at = self.bytes.len();
        random.letters(26, 50, &mut self.bytes);
        if random.one_of(10) {
            const WORD: &[u8; 8] = b"ORIGINAL";
            let room = self.bytes.len() - at - WORD.len();
            let offset = at + random.within(0, room as i32) as usize;
            self.bytes[offset..offset + WORD.len()].copy_from_slice(WORD);
        }
        self.bytes.push(b'\t');
        self
    }

    /// Appends an address: two streets, city, state and zip code.
    fn address(&mut self, random: &mut Random) -> &mut Rows {
        self.letters(random, 10, 20).letters(random, 10, 20).letters(random, 10, 20).letters(random, 2, 2);
        random.digits(4, &mut self.bytes);
        self.text("11111")
    }

    fn end(&mut self) {
        self.bytes.pop();
        self.bytes.push(b'\n');
        self.count += 1;
    }
}

fn push_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Parameters of the population.
#[derive(Clone)]
pub(super) struct Population {
    pub(super) seed: u64,
    /// Entry time of customers and orders: `2026-11-21 12:00:00`.
    pub(super) loaded_at: String,
}

impl Population {
    /// Generates the rows of a unit, by table.
    pub(super) fn rows(&self, unit: Unit) -> Vec<Rows> {
        match unit {
            Unit::Items(first) => vec![self.items(first)],
            Unit::Warehouse(warehouse) => self.warehouse(warehouse),
            Unit::Stock(warehouse, first) => vec![self.stock(warehouse, first)],
            Unit::Customers(warehouse, district) => self.customers(warehouse, district),
            Unit::Orders(warehouse, district) => self.orders(warehouse, district),
        }
    }

    fn random(&self, table: Table, major: i32, minor: i32) -> Random {
        Random::new(self.seed, table as u64 + 1, (major as u64) << 20 | minor as u64)
    }

    fn items(&self, first: i32) -> Rows {
        let (mut random, mut rows) = (self.random(Table::Item, 0, first), Rows::new(Table::Item));
        for item in first..first + SLICE {
            rows.int(item).int(random.within(1, 10_000)).letters(&mut random, 14, 24);
            rows.decimal(i64::from(random.within(100, 10_000)), 2).data(&mut random).end();
        }
        rows
    }

    fn warehouse(&self, warehouse: i32) -> Vec<Rows> {
        let mut random = self.random(Table::Warehouse, warehouse, 0);
        let mut rows = Rows::new(Table::Warehouse);
        rows.int(warehouse).letters(&mut random, 6, 10).address(&mut random);
        rows.decimal(i64::from(random.within(0, 2000)), 4).money(300_000).end();
        let mut districts = Rows::new(Table::District);
        for district in 1..=DISTRICTS {
            districts.int(warehouse).int(district).letters(&mut random, 6, 10).address(&mut random);
            districts.decimal(i64::from(random.within(0, 2000)), 4).money(30_000).int(ORDERS + 1).end();
        }
        vec![rows, districts]
    }

    fn stock(&self, warehouse: i32, first: i32) -> Rows {
        let (mut random, mut rows) = (self.random(Table::Stock, warehouse, first), Rows::new(Table::Stock));
        rows.bytes.reserve(SLICE as usize * 340);
        for item in first..first + SLICE {
            rows.int(warehouse).int(item).int(random.within(10, 100));
            for _ in 0..DISTRICTS {
                rows.letters(&mut random, 24, 24);
            }
            rows.int(0).int(0).int(0).data(&mut random).end();
        }
        rows
    }

    fn customers(&self, warehouse: i32, district: i32) -> Vec<Rows> {
        let constants = Constants::of_load(self.seed);
        let mut random = self.random(Table::Customer, warehouse, district);
        let (mut rows, mut history) = (Rows::new(Table::Customer), Rows::new(Table::History));
        rows.bytes.reserve(CUSTOMERS as usize * 600);
        for customer in 1..=CUSTOMERS {
            let name = if customer <= NAMES { customer - 1 } else { constants.last_name(&mut random) };
            rows.int(warehouse).int(district).int(customer);
            rows.letters(&mut random, 8, 16).text("OE").text(&last_name(name)).address(&mut random);
            random.digits(16, &mut rows.bytes);
            rows.text("").text(&self.loaded_at).text(if random.one_of(10) { "BC" } else { "GC" });
            rows.money(50_000).decimal(i64::from(random.within(0, 5000)), 4).money(-10);
            rows.money(10).int(1).int(0).letters(&mut random, 300, 500).end();
            history.int(customer).int(district).int(warehouse).int(district).int(warehouse).text(&self.loaded_at);
            history.money(10).letters(&mut random, 12, 24).end();
        }
        vec![rows, history]
    }

    fn orders(&self, warehouse: i32, district: i32) -> Vec<Rows> {
        let mut random = self.random(Table::Orders, warehouse, district);
        let mut customers: Vec<i32> = (1..=CUSTOMERS).collect();
        random.shuffle(&mut customers);
        let (mut rows, mut lines) = (Rows::new(Table::Orders), Rows::new(Table::OrderLine));
        let mut open = Rows::new(Table::NewOrder);
        lines.bytes.reserve(ORDERS as usize * 900);
        for (order, customer) in (1..).zip(customers) {
            let delivered = order <= ORDERS_DELIVERED;
            let count = random.within(5, 15);
            rows.int(warehouse).int(district).int(order).int(customer).text(&self.loaded_at);
            if delivered {
                rows.int(random.within(1, 10))
            } else {
                rows.null()
            };
            rows.int(count).int(1).end();
            for line in 1..=count {
                lines.int(warehouse).int(district).int(order).int(line).int(random.within(1, ITEMS)).int(warehouse);
                if delivered {
                    lines.text(&self.loaded_at)
                } else {
                    lines.null()
                };
                let amount = if delivered { 0 } else { i64::from(random.within(1, 999_999)) };
                lines.int(5).decimal(amount, 2).letters(&mut random, 24, 24).end();
            }
            if !delivered {
                open.int(warehouse).int(district).int(order).end();
            }
        }
        vec![rows, lines, open]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::LazyLock;

    use super::*;

    fn population() -> Population {
        Population { seed: 7, loaded_at: "2026-11-21 12:00:00".to_owned() }
    }

    /// One warehouse as text, by table; generated once for all tests.
    static TEXTS: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
        let population = population();
        let mut tables: BTreeMap<&'static str, String> = BTreeMap::new();
        for rows in units(1).into_iter().flat_map(|unit| population.rows(unit)) {
            let text = String::from_utf8(rows.bytes).unwrap();
            assert_eq!(text.lines().count() as u64, rows.count);
            tables.entry(rows.table.name()).or_default().push_str(&text);
        }
        tables
    });

    type Cells = Vec<&'static str>;

    /// Cells of the rows in [`TEXTS`], by table.
    fn cells() -> BTreeMap<&'static str, Vec<Cells>> {
        let rows = |text: &'static String| text.lines().map(|line| line.split('\t').collect()).collect();
        TEXTS.iter().map(|(table, text)| (*table, rows(text))).collect()
    }

    fn number(cell: &str) -> f64 {
        cell.parse().unwrap_or_else(|_| panic!("{cell:?} is no number"))
    }

    /// Share of the rows that satisfy `holds`.
    fn share(rows: &[Cells], holds: impl Fn(&[&str]) -> bool) -> f64 {
        rows.iter().filter(|row| holds(row)).count() as f64 / rows.len() as f64
    }

    #[test]
    fn one_warehouse_has_the_standards_cardinalities_and_every_row_its_columns() {
        let tables = cells();
        let exact = [
            ("warehouse", 1),
            ("district", 10),
            ("customer", 30_000),
            ("history", 30_000),
            ("orders", 30_000),
            ("new_order", 9_000),
            ("item", 100_000),
            ("stock", 100_000),
        ];
        for (table, count) in exact {
            assert_eq!(tables[table].len(), count, "{table}");
        }
        let lines = tables["order_line"].len();
        assert!((298_000..302_000).contains(&lines), "{lines}");
        let rows: u64 = tables.values().map(|rows| rows.len() as u64).sum();
        assert!(rows.abs_diff(rows_expected(1)) < 3_000, "{rows}: {} were announced", rows_expected(1));
        for table in Table::ALL {
            let columns = table.columns().count();
            assert!(tables[table.name()].iter().all(|row| row.len() == columns), "{}", table.name());
        }
    }

    #[test]
    fn values_are_in_the_standards_ranges() {
        let tables = cells();
        let lengths = |table: &str, column: usize, low: usize, high: usize| {
            let lengths: BTreeSet<usize> = tables[table].iter().map(|row| row[column].len()).collect();
            assert!(lengths.first() >= Some(&low) && lengths.last() <= Some(&high), "{table}.{column}: {lengths:?}");
        };
        let between = |table: &str, column: usize, low: f64, high: f64| {
            let outside = tables[table].iter().find(|row| !(low..=high).contains(&number(row[column])));
            assert!(outside.is_none(), "{table}.{column}: {outside:?}");
        };
        lengths("item", 2, 14, 24);
        between("item", 3, 1.0, 100.0);
        lengths("item", 4, 26, 50);
        between("stock", 2, 10.0, 100.0);
        lengths("stock", 3, 24, 24);
        lengths("customer", 3, 8, 16);
        lengths("customer", 10, 9, 9);
        lengths("customer", 11, 16, 16);
        between("customer", 15, 0.0, 0.5);
        between("customer", 16, -10.0, -10.0);
        lengths("customer", 20, 300, 500);
        between("orders", 6, 5.0, 15.0);
        between("district", 8, 0.0, 0.2);
        between("district", 9, 30_000.0, 30_000.0);
        lengths("history", 7, 12, 24);
        let original = share(&tables["stock"], |row| row[16].contains("ORIGINAL"));
        assert!((0.09..0.11).contains(&original), "{original}");
        let bad = share(&tables["customer"], |row| row[13] == "BC");
        assert!((0.09..0.11).contains(&bad), "{bad}");
        assert!(tables["customer"].iter().all(|row| ["BC", "GC"].contains(&row[13]) && row[4] == "OE"));
    }

    #[test]
    fn each_district_has_every_last_name_and_orders_of_every_customer_once() {
        let tables = cells();
        for district in 1..=DISTRICTS {
            let of = |table: &str| {
                tables[table].iter().filter(|row| row[1] == district.to_string()).cloned().collect::<Vec<Cells>>()
            };
            let names: BTreeSet<&str> = of("customer").iter().map(|row| row[5]).collect();
            assert_eq!(names.len(), 1000);
            let customers: Vec<i32> = of("orders").iter().map(|row| row[3].parse().unwrap()).collect();
            assert!(!customers.is_sorted(), "the order of customers is random");
            let distinct: BTreeSet<i32> = customers.into_iter().collect();
            assert_eq!(distinct, (1..=CUSTOMERS).collect());
        }
    }

    #[test]
    fn orders_up_to_2100_are_delivered_and_the_others_are_not() {
        let tables = cells();
        for row in &tables["orders"] {
            assert_eq!(row[5] != "\\N", number(row[2]) <= 2100.0, "{row:?}");
        }
        for row in &tables["order_line"] {
            let delivered = number(row[2]) <= 2100.0;
            assert_eq!((row[6] != "\\N", number(row[8]) == 0.0), (delivered, delivered), "{row:?}");
        }
        assert!(tables["new_order"].iter().all(|row| number(row[2]) > 2100.0));
    }

    #[test]
    fn equal_seeds_give_equal_rows_and_other_seeds_other_rows() {
        for unit in [Unit::Items(1), Unit::Warehouse(3), Unit::Customers(2, 7), Unit::Orders(1, 1), Unit::Stock(9, 1)] {
            let bytes = |seed: u64| -> Vec<Vec<u8>> {
                let rows = Population { seed, ..population() }.rows(unit);
                rows.into_iter().map(|rows| rows.bytes).collect()
            };
            assert!(bytes(7) == bytes(7) && bytes(7) != bytes(8), "{unit:?}");
        }
    }

    #[test]
    fn decimals_are_written_with_all_their_digits() {
        let mut rows = Rows::new(Table::Item);
        rows.money(-10).decimal(5, 4).decimal(0, 2).decimal(12_345_678, 2).int(-5).end();
        assert_eq!(rows.bytes, b"-10.00\t0.0005\t0.00\t123456.78\t-5\n");
    }
}
