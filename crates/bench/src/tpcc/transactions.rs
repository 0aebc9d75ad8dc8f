//! The five transactions, in three ways: statement by statement as the common kits do, in as few
//! round trips as the data dependencies allow, or as one call.
//!
//! *Interactive* has the round trips of the JDBC kit: BEGIN is sent with the first statement, each
//! further statement takes a trip, stock updates and order lines are a batch each, and COMMIT takes
//! a trip. An order of ten lines takes 28 trips, a payment 8.7 on average, Order-Status 4.6, a
//! delivery 71, Stock-Level 2.
//!
//! *Pipelined* sends statements together unless one depends on the answer of another: 2 trips for
//! an order, 2 to 4 for a payment, 3 for a delivery.

use super::functions;
use super::input::{Input, Line, Who};
use super::population::DISTRICTS;
use super::session::{Session, Value, money};
use super::statements::Statement;
use super::{Mode, Product};
use crate::error::{Class, Error, Result};
use Value::{Cents, Int, Text};

/// Effect of a transaction, for the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Ordered(Order),
    /// A new order with an invalid item, rolled back as required.
    RolledBack,
    Paid,
    Looked,
    /// Bit mask of the warehouse's districts in which an order was delivered; bit 0 is district 1.
    Delivered(u16),
}

/// A committed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) number: i32,
    pub(super) customer: i32,
    pub(super) lines: i32,
}

/// An order line with data of its item and stock.
struct Filled {
    line: Line,
    /// Quantity in stock after this line.
    quantity_left: i64,
    cents: i64,
    text: String,
}

/// Runs transactions in a session. A failed transaction was not committed, unless `committing` is
/// set and the server sent no error.
pub(super) struct Client<'a> {
    pub(super) session: &'a mut Session,
    pub(super) product: Product,
    pub(super) mode: Mode,
    /// Whether COMMIT was sent. From then on, a broken connection leaves the outcome unknown.
    pub(super) committing: bool,
}

impl Client<'_> {
    /// Runs `input` once.
    pub(super) fn run(&mut self, input: &Input) -> Result<Done> {
        self.committing = false;
        match self.mode {
            Mode::Interactive => self.interactive(input),
            Mode::Pipelined => self.pipelined(input),
            Mode::OneTrip => {
                self.committing = true;
                functions::call(self.session, self.product, input)
            }
            Mode::OneTripText => {
                self.committing = true;
                functions::text(self.session, input)
            }
        }
    }

    fn commit(&mut self) -> Result<()> {
        self.committing = true;
        self.session.commit()
    }

    /// Sends the trip with COMMIT at its end.
    fn trip_and_commit(&mut self) -> Result<()> {
        self.session.add_end(Statement::Commit)?;
        self.committing = true;
        self.session.trip()
    }

    // -----------------------------------------------------------------------------------------------------------------
    // One trip for each statement

    fn interactive(&mut self, input: &Input) -> Result<Done> {
        match input {
            Input::NewOrder { warehouse, district, customer, lines } => {
                self.new_order(*warehouse, *district, *customer, lines)
            }
            Input::Payment { warehouse, district, home, who, cents } => {
                self.payment((*warehouse, *district), *home, who, *cents)
            }
            Input::OrderStatus { warehouse, district, who } => self.order_status(*warehouse, *district, who),
            Input::Delivery { warehouse, carrier } => self.delivery(*warehouse, *carrier),
            Input::StockLevel { warehouse, district, threshold } => {
                self.session.add_begin()?;
                self.session.add(Statement::StockLevel, &[Int(*warehouse), Int(*district), Int(*threshold)])?;
                self.session.trip()?;
                self.stock_level(self.session.after_begin())?;
                self.commit()?;
                Ok(Done::Looked)
            }
        }
    }

    fn new_order(&mut self, w: i32, d: i32, c: i32, lines: &[Line]) -> Result<Done> {
        let s = &mut *self.session;
        s.add_begin()?;
        s.add(Statement::LockDistrict, &[Int(w), Int(d)])?;
        s.trip()?;
        let (d_tax, number) = district(s, s.after_begin(), (w, d))?;
        s.run(Statement::CustomerWarehouse, &[Int(w), Int(d), Int(c)])?;
        let (discount, w_tax) = customer_warehouse(s, 0, (w, d, c))?;
        s.run(Statement::NextOrder, &[Int(w), Int(d)])?;
        s.run(Statement::InsertOrder, &order_values(w, d, number, c, lines))?;
        s.run(Statement::InsertNewOrder, &[Int(w), Int(d), Int(number)])?;
        let mut filled: Vec<Filled> = Vec::with_capacity(lines.len());
        for line in lines {
            s.run(Statement::Item, &[Int(line.item)])?;
            let Some(price) = item_price(s, 0)? else { break };
            s.run(Statement::Stock, &[Int(line.supply), Int(line.item)])?;
            let one = fill(s, 0, *line, d, price, filled.last())?;
            filled.push(one);
        }
        let order = (w, d, number);
        add_stock_updates(s, w, &filled)?;
        s.trip()?;
        add_lines(s, order, &filled)?;
        s.trip()?;
        if filled.len() < lines.len() {
            s.rollback()?;
            return Ok(Done::RolledBack);
        }
        self.commit()?;
        show_total(&filled, discount, w_tax, d_tax);
        Ok(Done::Ordered(Order { number, customer: c, lines: lines.len() as i32 }))
    }

    fn payment(&mut self, at: (i32, i32), home: (i32, i32), who: &Who, cents: i64) -> Result<Done> {
        let s = &mut *self.session;
        let (w, d) = at;
        s.add_begin()?;
        s.add(Statement::PayWarehouse, &[Cents(cents), Int(w)])?;
        s.trip()?;
        s.run(Statement::Warehouse, &[Int(w)])?;
        let w_name = name(s, 0)?;
        s.run(Statement::PayDistrict, &[Cents(cents), Int(w), Int(d)])?;
        s.run(Statement::District, &[Int(w), Int(d)])?;
        let d_name = name(s, 0)?;
        let c = match who {
            Who::Number(c) => *c,
            Who::Name(last) => {
                s.run(Statement::ByName, &[Int(home.0), Int(home.1), Text(last)])?;
                middle_customer(s, 0, home, last)?
            }
        };
        let key = [Int(home.0), Int(home.1), Int(c)];
        s.run(Statement::LockCustomer, &key)?;
        let bad = bad_credit(s, 0)?;
        let data = if bad {
            s.run(Statement::CustomerData, &key)?;
            Some(new_data(s, 0, at, home, c, cents)?)
        } else {
            None
        };
        add_customer_payment(s, home, c, cents, data.as_deref())?;
        s.trip()?;
        let text = format!("{w_name}    {d_name}");
        s.run(Statement::InsertHistory, &history_values(at, home, c, cents, &text))?;
        self.commit()?;
        Ok(Done::Paid)
    }

    fn order_status(&mut self, w: i32, d: i32, who: &Who) -> Result<Done> {
        let s = &mut *self.session;
        s.add_begin()?;
        let mut at = s.after_begin();
        let c = match who {
            Who::Number(c) => *c,
            Who::Name(last) => {
                s.run(Statement::ByName, &[Int(w), Int(d), Text(last)])?;
                middle_customer(s, std::mem::take(&mut at), (w, d), last)?
            }
        };
        s.run(Statement::CustomerBalance, &[Int(w), Int(d), Int(c)])?;
        read_all(s, at)?;
        s.run(Statement::LastOrder, &[Int(w), Int(d), Int(c), Int(w), Int(d), Int(c)])?;
        let order = last_order(s, 0, (w, d, c))?;
        s.run(Statement::Lines, &[Int(w), Int(d), Int(order)])?;
        read_all(s, 0)?;
        self.commit()?;
        Ok(Done::Looked)
    }

    fn delivery(&mut self, w: i32, carrier: i32) -> Result<Done> {
        let s = &mut *self.session;
        let mut delivered = 0;
        s.add_begin()?;
        let mut at = s.after_begin();
        for d in 1..=DISTRICTS {
            let Some(number) = take_oldest(s, std::mem::take(&mut at), w, d)? else { continue };
            let key = [Int(w), Int(d), Int(number)];
            s.run(Statement::OrderCustomer, &key)?;
            let c = s.one(0, &"the customer of an order")?.int()? as i32;
            s.run(Statement::Carry, &[Int(carrier), Int(w), Int(d), Int(number)])?;
            s.run(Statement::DeliverLines, &key)?;
            s.run(Statement::SumLines, &key)?;
            let cents = s.one(0, &"the sum of an order's lines")?.cents()?;
            s.run(Statement::Credit, &[Cents(cents), Int(w), Int(d), Int(c)])?;
            delivered |= 1 << (d - 1);
        }
        self.commit()?;
        Ok(Done::Delivered(delivered))
    }

    fn stock_level(&self, at: usize) -> Result<()> {
        std::hint::black_box(self.session.one(at, &"a count")?.int()?);
        Ok(())
    }

    // -----------------------------------------------------------------------------------------------------------------
    // As few trips as the data dependencies allow

    fn pipelined(&mut self, input: &Input) -> Result<Done> {
        match input {
            Input::NewOrder { warehouse, district, customer, lines } => {
                self.new_order_pipelined(*warehouse, *district, *customer, lines)
            }
            Input::Payment { warehouse, district, home, who, cents } => {
                self.payment_pipelined((*warehouse, *district), *home, who, *cents)
            }
            Input::OrderStatus { warehouse, district, who } => self.order_status_pipelined(*warehouse, *district, who),
            Input::Delivery { warehouse, carrier } => self.delivery_pipelined(*warehouse, *carrier),
            Input::StockLevel { warehouse, district, threshold } => {
                self.session.add_begin()?;
                self.session.add(Statement::StockLevel, &[Int(*warehouse), Int(*district), Int(*threshold)])?;
                self.trip_and_commit()?;
                self.stock_level(self.session.after_begin())?;
                Ok(Done::Looked)
            }
        }
    }

    fn new_order_pipelined(&mut self, w: i32, d: i32, c: i32, lines: &[Line]) -> Result<Done> {
        let s = &mut *self.session;
        s.add_begin()?;
        s.add(Statement::LockDistrict, &[Int(w), Int(d)])?;
        s.add(Statement::CustomerWarehouse, &[Int(w), Int(d), Int(c)])?;
        s.add(Statement::NextOrder, &[Int(w), Int(d)])?;
        for line in lines {
            s.add(Statement::Item, &[Int(line.item)])?;
            s.add(Statement::Stock, &[Int(line.supply), Int(line.item)])?;
        }
        s.trip()?;
        let at = s.after_begin();
        let (d_tax, number) = district(s, at, (w, d))?;
        let (discount, w_tax) = customer_warehouse(s, at + 1, (w, d, c))?;
        let mut filled: Vec<Filled> = Vec::with_capacity(lines.len());
        for (n, line) in lines.iter().enumerate() {
            let Some(price) = item_price(s, at + 3 + 2 * n)? else { break };
            let one = fill(s, at + 4 + 2 * n, *line, d, price, filled.last())?;
            filled.push(one);
        }
        s.add(Statement::InsertOrder, &order_values(w, d, number, c, lines))?;
        s.add(Statement::InsertNewOrder, &[Int(w), Int(d), Int(number)])?;
        add_stock_updates(s, w, &filled)?;
        add_lines(s, (w, d, number), &filled)?;
        if filled.len() < lines.len() {
            s.add_end(Statement::Rollback)?;
            s.trip()?;
            return Ok(Done::RolledBack);
        }
        self.trip_and_commit()?;
        show_total(&filled, discount, w_tax, d_tax);
        Ok(Done::Ordered(Order { number, customer: c, lines: lines.len() as i32 }))
    }

    fn payment_pipelined(&mut self, at: (i32, i32), home: (i32, i32), who: &Who, cents: i64) -> Result<Done> {
        let s = &mut *self.session;
        let (w, d) = at;
        s.add_begin()?;
        s.add(Statement::PayWarehouse, &[Cents(cents), Int(w)])?;
        s.add(Statement::Warehouse, &[Int(w)])?;
        s.add(Statement::PayDistrict, &[Cents(cents), Int(w), Int(d)])?;
        s.add(Statement::District, &[Int(w), Int(d)])?;
        match who {
            Who::Number(c) => s.add(Statement::LockCustomer, &[Int(home.0), Int(home.1), Int(*c)])?,
            Who::Name(last) => s.add(Statement::ByName, &[Int(home.0), Int(home.1), Text(last)])?,
        }
        s.trip()?;
        let first = s.after_begin();
        let text = format!("{}    {}", name(s, first + 1)?, name(s, first + 3)?);
        let (c, customer_at) = match who {
            Who::Number(c) => (*c, first + 4),
            Who::Name(last) => {
                let c = middle_customer(s, first + 4, home, last)?;
                s.run(Statement::LockCustomer, &[Int(home.0), Int(home.1), Int(c)])?;
                (c, 0)
            }
        };
        let data = if bad_credit(s, customer_at)? {
            s.run(Statement::CustomerData, &[Int(home.0), Int(home.1), Int(c)])?;
            Some(new_data(s, 0, at, home, c, cents)?)
        } else {
            None
        };
        add_customer_payment(s, home, c, cents, data.as_deref())?;
        s.add(Statement::InsertHistory, &history_values(at, home, c, cents, &text))?;
        self.trip_and_commit()?;
        Ok(Done::Paid)
    }

    fn order_status_pipelined(&mut self, w: i32, d: i32, who: &Who) -> Result<Done> {
        let s = &mut *self.session;
        s.add_begin()?;
        let mut at = s.after_begin();
        let c = match who {
            Who::Number(c) => *c,
            Who::Name(last) => {
                s.run(Statement::ByName, &[Int(w), Int(d), Text(last)])?;
                middle_customer(s, std::mem::take(&mut at), (w, d), last)?
            }
        };
        s.add(Statement::CustomerBalance, &[Int(w), Int(d), Int(c)])?;
        s.add(Statement::LastOrder, &[Int(w), Int(d), Int(c), Int(w), Int(d), Int(c)])?;
        s.trip()?;
        read_all(s, at)?;
        let order = last_order(s, at + 1, (w, d, c))?;
        s.add(Statement::Lines, &[Int(w), Int(d), Int(order)])?;
        self.trip_and_commit()?;
        read_all(self.session, 0)?;
        Ok(Done::Looked)
    }

    fn delivery_pipelined(&mut self, w: i32, carrier: i32) -> Result<Done> {
        let s = &mut *self.session;
        s.add_begin()?;
        for d in 1..=DISTRICTS {
            s.add(Statement::OldestNewOrder, &[Int(w), Int(d)])?;
        }
        s.trip()?;
        let at = s.after_begin();
        let mut orders = Vec::with_capacity(DISTRICTS as usize);
        for d in 1..=DISTRICTS {
            if let Some(mut row) = s.row(at + d as usize - 1) {
                orders.push((d, row.int()? as i32));
            }
        }
        for (d, number) in &orders {
            let key = [Int(w), Int(*d), Int(*number)];
            s.add(Statement::DeleteNewOrder, &key)?;
            s.add(Statement::OrderCustomer, &key)?;
            s.add(Statement::Carry, &[Int(carrier), Int(w), Int(*d), Int(*number)])?;
            s.add(Statement::DeliverLines, &key)?;
            s.add(Statement::SumLines, &key)?;
        }
        let mut credits = Vec::with_capacity(orders.len());
        if !orders.is_empty() {
            s.trip()?;
            for (n, (d, _)) in orders.iter().enumerate() {
                if s.affected(5 * n) != 1 {
                    return Err(Error::new(Class::Server, "an order that was locked for delivery was gone"));
                }
                let c = s.one(5 * n + 1, &"the customer of an order")?.int()? as i32;
                credits.push((*d, c, s.one(5 * n + 4, &"the sum of an order's lines")?.cents()?));
            }
        }
        for (d, c, cents) in &credits {
            s.add(Statement::Credit, &[Cents(*cents), Int(w), Int(*d), Int(*c)])?;
        }
        self.trip_and_commit()?;
        Ok(Done::Delivered(orders.iter().fold(0, |mask, (d, _)| mask | (1 << (d - 1)))))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Shared by both

/// Reads tax and next order number of a district.
fn district(s: &Session, at: usize, key: (i32, i32)) -> Result<(i64, i32)> {
    let mut row = s.one(at, &format_args!("district {key:?}"))?;
    Ok((row.decimal()?, row.int()? as i32))
}

/// Reads the customer's discount and the warehouse's tax.
fn customer_warehouse(s: &Session, at: usize, key: (i32, i32, i32)) -> Result<(i64, i64)> {
    let mut row = s.one(at, &format_args!("customer {key:?}"))?;
    let discount = row.decimal()?;
    row.text()?;
    row.text()?;
    Ok((discount, row.decimal()?))
}

/// Reads all rows completely, like a terminal that displays them.
fn read_all(s: &Session, at: usize) -> Result<()> {
    s.rows(at).try_for_each(|mut row| row.skip())
}

fn order_values<'a>(w: i32, d: i32, number: i32, c: i32, lines: &[Line]) -> [Value<'a>; 6] {
    let local = lines.iter().all(|line| line.supply == w);
    [Int(w), Int(d), Int(number), Int(c), Int(lines.len() as i32), Int(i32::from(local))]
}

/// Reads an item's price in cents; `None` if the item does not exist.
fn item_price(s: &Session, at: usize) -> Result<Option<i64>> {
    let Some(mut row) = s.row(at) else { return Ok(None) };
    let price = row.cents()?;
    row.skip()?;
    Ok(Some(price))
}

/// Completes a line from its stock row. `before`: the previous line, which has already reduced the
/// quantity if it used the same stock row.
fn fill(s: &Session, at: usize, line: Line, d: i32, price: i64, before: Option<&Filled>) -> Result<Filled> {
    let mut row = s.one(at, &format_args!("stock of item {} in warehouse {}", line.item, line.supply))?;
    let read = row.int()?;
    let same = before.filter(|before| (before.line.item, before.line.supply) == (line.item, line.supply));
    let quantity = same.map_or(read, |before| before.quantity_left);
    row.text()?;
    for _ in 1..d {
        row.bytes()?;
    }
    let text = row.text()?.to_owned();
    row.skip()?;
    let left = quantity - i64::from(line.quantity);
    let quantity_left = if left >= 10 { left } else { left + 91 };
    Ok(Filled { line, quantity_left, cents: price * i64::from(line.quantity), text })
}

fn add_stock_updates(s: &mut Session, w: i32, filled: &[Filled]) -> Result<()> {
    filled.iter().try_for_each(|one| {
        let line = one.line;
        let remote = i32::from(line.supply != w);
        let left = Int(one.quantity_left as i32);
        s.add(Statement::UpdateStock, &[left, Int(line.quantity), Int(remote), Int(line.supply), Int(line.item)])
    })
}

fn add_lines(s: &mut Session, (w, d, number): (i32, i32, i32), filled: &[Filled]) -> Result<()> {
    (1..).zip(filled).try_for_each(|(n, one)| {
        let line = one.line;
        let key = [Int(w), Int(d), Int(number), Int(n)];
        let what = [Int(line.item), Int(line.supply), Int(line.quantity), Cents(one.cents), Text(&one.text)];
        let [a, b, c, e] = key;
        let [f, g, h, i, j] = what;
        s.add(Statement::InsertLine, &[a, b, c, e, f, g, h, i, j])
    })
}

/// Computes the order's total in cents that the terminal would display; rates are in units of
/// 0.0001.
fn show_total(filled: &[Filled], discount: i64, w_tax: i64, d_tax: i64) {
    let sum: i64 = filled.iter().map(|one| one.cents).sum();
    std::hint::black_box(sum * (10_000 - discount) / 10_000 * (10_000 + w_tax + d_tax) / 10_000);
}

/// Reads the name, which precedes the address.
fn name(s: &Session, at: usize) -> Result<String> {
    let mut row = s.one(at, &"a warehouse or district")?;
    let name = row.text()?.to_owned();
    row.skip()?;
    Ok(name)
}

/// Number of the middle customer with a last name, rounded up: the second of three, the second of
/// four.
fn middle_customer(s: &Session, at: usize, home: (i32, i32), last: &str) -> Result<i32> {
    let count = s.row_count(at) as usize;
    let mut row = s.rows(at).nth(count.div_ceil(2).saturating_sub(1)).ok_or_else(|| {
        Error::new(Class::Server, format!("district {home:?} has no customer {last}, and must have one of every name"))
    })?;
    Ok(row.int()? as i32)
}

/// Returns whether the customer has bad credit.
fn bad_credit(s: &Session, at: usize) -> Result<bool> {
    let mut row = s.one(at, &"a customer")?;
    let bad = row.text()? == "BC";
    row.skip()?;
    Ok(bad)
}

/// New data of a customer with bad credit: this payment followed by the old data, cut to the
/// column's length.
fn new_data(s: &Session, at: usize, (w, d): (i32, i32), home: (i32, i32), c: i32, cents: i64) -> Result<String> {
    let mut row = s.one(at, &"a customer's data")?;
    let mut data = format!("{c} {} {} {d} {w} {} {}", home.1, home.0, money(cents), row.text()?);
    data.truncate(500);
    Ok(data)
}

fn add_customer_payment(s: &mut Session, home: (i32, i32), c: i32, cents: i64, data: Option<&str>) -> Result<()> {
    let (amount, key) = (Cents(cents), [Int(home.0), Int(home.1), Int(c)]);
    match data {
        None => s.add(Statement::PayCustomer, &[amount, amount, key[0], key[1], key[2]]),
        Some(data) => s.add(Statement::PayBadCustomer, &[amount, amount, Text(data), key[0], key[1], key[2]]),
    }
}

fn history_values<'a>(at: (i32, i32), home: (i32, i32), c: i32, cents: i64, text: &'a str) -> [Value<'a>; 7] {
    [Int(c), Int(home.1), Int(home.0), Int(at.1), Int(at.0), Cents(cents), Text(text)]
}

/// Reads the number of a customer's last order.
fn last_order(s: &Session, at: usize, key: (i32, i32, i32)) -> Result<i32> {
    let mut row = s.one(at, &format_args!("an order of customer {key:?}"))?;
    let order = row.int()? as i32;
    row.skip()?;
    Ok(order)
}

/// Deletes the oldest undelivered order of a district and returns its number; `None` if there is
/// none. Retries if another transaction was faster.
fn take_oldest(s: &mut Session, mut at: usize, w: i32, d: i32) -> Result<Option<i32>> {
    loop {
        s.run(Statement::OldestNewOrder, &[Int(w), Int(d)])?;
        let Some(mut row) = s.row(std::mem::take(&mut at)) else { return Ok(None) };
        let number = row.int()? as i32;
        s.run(Statement::DeleteNewOrder, &[Int(w), Int(d), Int(number)])?;
        if s.affected(0) == 1 {
            return Ok(Some(number));
        }
    }
}
