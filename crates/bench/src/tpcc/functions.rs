//! Transactions in one round trip: PL/pgSQL functions, MariaDB procedures, or several statements as
//! one text, which needs no procedural language.
//!
//! Always true: each one does the same as the statements of [`super::transactions`], and takes
//! locks in the same order. A new order with an invalid item fails with [`NO_ITEM`] and is rolled
//! back.

use std::fmt::Write;

use super::Product;
use super::input::{Input, Line, Who};
use super::population::DISTRICTS;
use super::session::{Session, Value, money};
use super::statements::Statement;
use super::transactions::{Done, Order};
use crate::error::{Error, Result};
use Value::{Cents, Int, Ints, Text};

/// Custom SQLSTATE for a new order with an invalid item.
const NO_ITEM: &str = "TC001";
/// SQLSTATE of division by zero, which signals an invalid item in texts without a procedural
/// language.
const DIVISION_BY_ZERO: &str = "22012";

/// Definitions of the functions or procedures; they require the tables.
pub(super) fn definitions(product: Product) -> Vec<String> {
    let texts: &[&str] = match product {
        Product::Postgres | Product::Millrace => POSTGRES,
        Product::MariaDb => MARIADB,
    };
    let dist = (1..=DISTRICTS).fold("CASE p_d".to_owned(), |mut text, d| {
        let _ = write!(text, " WHEN {d} THEN s_dist_{d:02}");
        text
    }) + " END";
    texts.iter().map(|text| text.replace("DIST_TEXT", &dist)).collect()
}

/// Runs a transaction by calling its function or procedure.
pub(super) fn call(s: &mut Session, product: Product, input: &Input) -> Result<Done> {
    let mariadb = product == Product::MariaDb;
    let either = |function, procedure| if mariadb { procedure } else { function };
    match input {
        Input::NewOrder { warehouse, district, customer, lines } => {
            let column = |of: fn(&Line) -> i32| lines.iter().map(of).collect::<Vec<i32>>();
            let (items, supplies) = (column(|line| line.item), column(|line| line.supply));
            let quantities = column(|line| line.quantity);
            let keys = [Int(*warehouse), Int(*district), Int(*customer)];
            let values = [keys[0], keys[1], keys[2], Ints(&items), Ints(&supplies), Ints(&quantities)];
            let done = s.run(either(Statement::NewOrderFunction, Statement::NewOrderCall), &values);
            if rolled_back(s, &done) {
                return Ok(Done::RolledBack);
            }
            done?;
            let number = s.one(0, &"a new order's number")?.int()? as i32;
            Ok(Done::Ordered(Order { number, customer: *customer, lines: lines.len() as i32 }))
        }
        Input::Payment { warehouse, district, home, who, cents } => {
            let (c, last) = parts(who);
            let values = [Int(*warehouse), Int(*district), Int(home.0), Int(home.1), Int(c), Text(last), Cents(*cents)];
            s.run(either(Statement::PaymentFunction, Statement::PaymentCall), &values)?;
            s.one(0, &"a payment's customer")?.skip()?;
            Ok(Done::Paid)
        }
        Input::OrderStatus { warehouse, district, who } => {
            let (c, last) = parts(who);
            let values = [Int(*warehouse), Int(*district), Int(c), Text(last)];
            s.run(either(Statement::OrderStatusFunction, Statement::OrderStatusCall), &values)?;
            s.rows(0).try_for_each(|mut row| row.skip())?;
            Ok(Done::Looked)
        }
        Input::Delivery { warehouse, carrier } => {
            s.run(either(Statement::DeliveryFunction, Statement::DeliveryCall), &[Int(*warehouse), Int(*carrier)])?;
            Ok(Done::Delivered(s.one(0, &"delivered districts")?.int()? as u16))
        }
        Input::StockLevel { warehouse, district, threshold } => {
            let values = [Int(*warehouse), Int(*district), Int(*threshold)];
            s.run(either(Statement::StockLevelFunction, Statement::StockLevelCall), &values)?;
            s.one(0, &"a count")?.skip()?;
            Ok(Done::Looked)
        }
    }
}

/// Returns the customer's number and an empty name, or 0 and the last name.
fn parts(who: &Who) -> (i32, &str) {
    match who {
        Who::Number(number) => (*number, ""),
        Who::Name(name) => (0, name),
    }
}

/// Returns whether a new order was rolled back because of an invalid item.
fn rolled_back(s: &Session, done: &Result<()>) -> bool {
    done.is_err() && [NO_ITEM, DIVISION_BY_ZERO].contains(&s.sqlstate())
}

// ---------------------------------------------------------------------------------------------------------------------
// Several statements as one text

/// Runs a transaction as one text of ordinary statements; statements use subqueries for values that
/// earlier ones produce.
pub(super) fn text(s: &mut Session, input: &Input) -> Result<Done> {
    let done = s.text(&as_text(input));
    if matches!(input, Input::NewOrder { .. }) && rolled_back(s, &done) {
        s.rollback()?;
        return Ok(Done::RolledBack);
    }
    done?;
    let number = |s: &Session, at: usize| -> Result<Option<i64>> {
        s.text_rows(at).next().map_or(Ok(None), |mut row| row.optional_int())
    };
    match input {
        Input::NewOrder { customer, lines, .. } => {
            let missing = || Error::protocol("a new order got no order number from its district");
            let number = number(s, 1)?.ok_or_else(missing)? as i32;
            Ok(Done::Ordered(Order { number, customer: *customer, lines: lines.len() as i32 }))
        }
        Input::Payment { .. } => Ok(Done::Paid),
        Input::OrderStatus { .. } | Input::StockLevel { .. } => Ok(Done::Looked),
        Input::Delivery { .. } => {
            let mut delivered = 0;
            for d in 0..DISTRICTS as usize {
                if number(s, 1 + DELIVERY_STATEMENTS * d)?.is_some() {
                    delivered |= 1 << d;
                }
            }
            Ok(Done::Delivered(delivered))
        }
    }
}

/// Number of statements for each district of a delivery.
const DELIVERY_STATEMENTS: usize = 5;

fn as_text(input: &Input) -> String {
    let mut sql = "BEGIN; ".to_owned();
    match input {
        Input::NewOrder { warehouse, district, customer, lines } => {
            new_order_text(*warehouse, *district, *customer, lines, &mut sql);
        }
        Input::Payment { warehouse, district, home, who, cents } => {
            payment_text((*warehouse, *district), *home, who, &money(*cents), &mut sql);
        }
        Input::OrderStatus { warehouse: w, district: d, who } => {
            let c = customer((*w, *d), who);
            let last = format!("(SELECT max(o_id) FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_c_id = {c})");
            let _ = write!(
                sql,
                "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = {w} AND c_d_id = {d} \
                 AND c_id = {c}; \
                 SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {last}; \
                 SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                 WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {last} ORDER BY ol_number; "
            );
        }
        Input::Delivery { warehouse, carrier } => {
            (1..=DISTRICTS).for_each(|d| delivery_text(*warehouse, d, *carrier, &mut sql));
        }
        Input::StockLevel { warehouse, district, threshold } => {
            let _ = write!(
                sql,
                "SELECT count(DISTINCT s_i_id) FROM district JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id \
                 AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id \
                 JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                 WHERE d_w_id = {warehouse} AND d_id = {district} AND s_quantity < {threshold}; "
            );
        }
    }
    sql.push_str("COMMIT");
    sql
}

fn new_order_text(w: i32, d: i32, c: i32, lines: &[Line], sql: &mut String) {
    let district = format!("FROM district WHERE d_w_id = {w} AND d_id = {d}");
    let (count, local) = (lines.len(), i32::from(lines.iter().all(|line| line.supply == w)));
    let _ = write!(
        sql,
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = {w} AND d_id = {d} \
         RETURNING d_next_o_id - 1, d_tax; \
         SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id \
         WHERE c_w_id = {w} AND c_d_id = {d} AND c_id = {c}; \
         INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
         SELECT {w}, {d}, d_next_o_id - 1, {c}, CURRENT_TIMESTAMP, {count}, {local} {district}; \
         INSERT INTO new_order (no_w_id, no_d_id, no_o_id) SELECT {w}, {d}, d_next_o_id - 1 {district}; "
    );
    for (number, Line { item, supply, quantity }) in (1..).zip(lines) {
        let remote = i32::from(*supply != w);
        let _ = write!(
            sql,
            "UPDATE stock SET s_quantity = CASE WHEN s_quantity - {quantity} >= 10 THEN s_quantity - {quantity} \
             ELSE s_quantity - {quantity} + 91 END, s_ytd = s_ytd + {quantity}, s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + {remote} WHERE s_w_id = {supply} AND s_i_id = {item} \
             RETURNING s_quantity, s_data; \
             INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
             ol_amount, ol_dist_info) SELECT {w}, {d}, d_next_o_id - 1, {number}, i_id, {supply}, {quantity}, \
             {quantity} * i_price, s_dist_{d:02} FROM district, item, stock WHERE d_w_id = {w} AND d_id = {d} \
             AND i_id = {item} AND s_w_id = {supply} AND s_i_id = {item}; "
        );
    }
    // An invalid item is always the last one: the division by zero rolls everything back.
    let last = lines.last().map_or(0, |line| line.item);
    let _ = write!(sql, "SELECT 1 / count(*) FROM item WHERE i_id = {last}; ");
}

/// The customer's number, or a subquery that finds it.
fn customer((w, d): (i32, i32), who: &Who) -> String {
    match who {
        Who::Number(number) => number.to_string(),
        Who::Name(name) => {
            let all = format!("FROM customer WHERE c_w_id = {w} AND c_d_id = {d} AND c_last = '{name}'");
            format!("(SELECT c_id {all} ORDER BY c_first LIMIT 1 OFFSET (SELECT (count(*) - 1) / 2 {all}))")
        }
    }
}

fn payment_text((w, d): (i32, i32), home: (i32, i32), who: &Who, amount: &str, sql: &mut String) {
    let c = customer(home, who);
    let (hw, hd) = home;
    let _ = write!(
        sql,
        "UPDATE warehouse SET w_ytd = w_ytd + {amount} WHERE w_id = {w}; \
         SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = {w}; \
         UPDATE district SET d_ytd = d_ytd + {amount} WHERE d_w_id = {w} AND d_id = {d}; \
         SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = {w} AND d_id = {d}; \
         UPDATE customer SET c_balance = c_balance - {amount}, c_ytd_payment = c_ytd_payment + {amount}, \
         c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' THEN \
         substring(c_id || ' {hd} {hw} {d} {w} {amount} ' || c_data, 1, 500) ELSE c_data END \
         WHERE c_w_id = {hw} AND c_d_id = {hd} AND c_id = {c} RETURNING c_id, c_first, c_middle, c_last, c_credit, \
         c_credit_lim, c_discount, c_balance; \
         INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         SELECT {c}, {hd}, {hw}, {d}, {w}, CURRENT_TIMESTAMP, {amount}, w_name || '    ' || d_name \
         FROM warehouse, district WHERE w_id = {w} AND d_w_id = {w} AND d_id = {d}; "
    );
}

/// Locks the order as the oldest one. A transaction that waited for the lock sees the next oldest
/// order in its later statements.
fn delivery_text(w: i32, d: i32, carrier: i32, sql: &mut String) {
    let oldest = format!("(SELECT min(no_o_id) FROM new_order WHERE no_w_id = {w} AND no_d_id = {d})");
    let lines = format!("ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {oldest}");
    let _ = write!(
        sql,
        "SELECT no_o_id FROM new_order WHERE no_w_id = {w} AND no_d_id = {d} ORDER BY no_o_id LIMIT 1 FOR UPDATE; \
         UPDATE orders SET o_carrier_id = {carrier} WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {oldest}; \
         UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE {lines}; \
         UPDATE customer SET c_balance = c_balance + (SELECT sum(ol_amount) FROM order_line WHERE {lines}), \
         c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = {w} AND c_d_id = {d} AND c_id = \
         (SELECT o_c_id FROM orders WHERE o_w_id = {w} AND o_d_id = {d} AND o_id = {oldest}); \
         DELETE FROM new_order WHERE no_w_id = {w} AND no_d_id = {d} AND no_o_id = {oldest}; "
    );
}

// ---------------------------------------------------------------------------------------------------------------------
// Definitions

const POSTGRES: &[&str] = &[
    "CREATE OR REPLACE FUNCTION tpcc_new_order(p_w integer, p_d integer, p_c integer, p_items integer[], \
     p_supplies integer[], p_quantities integer[]) RETURNS TABLE (number integer, total numeric) \
     LANGUAGE plpgsql AS $body$
DECLARE
  v_d_tax numeric; v_w_tax numeric; v_discount numeric; v_price numeric; v_text text; v_q integer; v_i integer;
  v_s integer; v_local integer := 1;
BEGIN
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w AND d_id = p_d
    RETURNING d_next_o_id - 1, d_tax INTO number, v_d_tax;
  SELECT c_discount, w_tax INTO v_discount, v_w_tax FROM customer JOIN warehouse ON w_id = c_w_id
    WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
  IF p_w <> SOME (p_supplies) THEN
    v_local := 0;
  END IF;
  INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (p_w, p_d, number, p_c, CURRENT_TIMESTAMP, cardinality(p_items), v_local);
  INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (p_w, p_d, number);
  total := 0;
  FOR n IN 1 .. cardinality(p_items) LOOP
    v_i := p_items[n]; v_s := p_supplies[n]; v_q := p_quantities[n];
    SELECT i_price INTO v_price FROM item WHERE i_id = v_i;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'item % is not there', v_i USING ERRCODE = 'TC001';
    END IF;
    UPDATE stock SET s_quantity = CASE WHEN s_quantity - v_q >= 10 THEN s_quantity - v_q
        ELSE s_quantity - v_q + 91 END, s_ytd = s_ytd + v_q, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + CASE WHEN v_s <> p_w THEN 1 ELSE 0 END
      WHERE s_w_id = v_s AND s_i_id = v_i RETURNING DIST_TEXT INTO v_text;
    INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
        ol_dist_info) VALUES (p_w, p_d, number, n, v_i, v_s, v_q, v_q * v_price, v_text);
    total := total + v_q * v_price;
  END LOOP;
  total := total * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
  RETURN NEXT;
END $body$",
    "CREATE OR REPLACE FUNCTION tpcc_customer(p_w integer, p_d integer, p_c integer, p_last varchar) RETURNS integer \
     LANGUAGE plpgsql AS $body$
DECLARE
  v_ids integer[];
BEGIN
  IF p_c > 0 THEN
    RETURN p_c;
  END IF;
  SELECT array_agg(c_id ORDER BY c_first) INTO v_ids FROM customer
    WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_last;
  RETURN v_ids[(cardinality(v_ids) + 1) / 2];
END $body$",
    "CREATE OR REPLACE FUNCTION tpcc_payment(p_w integer, p_d integer, p_cw integer, p_cd integer, p_c integer, \
     p_last varchar, p_amount numeric) RETURNS TABLE (customer_number integer, balance numeric) \
     LANGUAGE plpgsql AS $body$
DECLARE
  v_w_name text; v_d_name text;
BEGIN
  UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w RETURNING w_name INTO v_w_name;
  UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w AND d_id = p_d RETURNING d_name INTO v_d_name;
  customer_number := tpcc_customer(p_cw, p_cd, p_c, p_last);
  UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
      c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' THEN
      left(concat_ws(' ', c_id, p_cd, p_cw, p_d, p_w, p_amount, c_data), 500) ELSE c_data END
    WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = customer_number RETURNING c_balance INTO balance;
  INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (customer_number, p_cd, p_cw, p_d, p_w, CURRENT_TIMESTAMP, p_amount, v_w_name || '    ' || v_d_name);
  RETURN NEXT;
END $body$",
    "CREATE OR REPLACE FUNCTION tpcc_order_status(p_w integer, p_d integer, p_c integer, p_last varchar) \
     RETURNS TABLE (item integer, supply integer, quantity integer, amount numeric, delivered timestamp) \
     LANGUAGE plpgsql AS $body$
DECLARE
  v_c integer := tpcc_customer(p_w, p_d, p_c, p_last); v_o integer;
BEGIN
  PERFORM c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = v_c;
  SELECT max(o_id) INTO v_o FROM orders WHERE o_w_id = p_w AND o_d_id = p_d AND o_c_id = v_c;
  RETURN QUERY SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id = v_o ORDER BY ol_number;
END $body$",
    "CREATE OR REPLACE FUNCTION tpcc_delivery(p_w integer, p_carrier integer) RETURNS integer \
     LANGUAGE plpgsql AS $body$
DECLARE
  v_o integer; v_c integer; v_sum numeric; v_mask integer := 0;
BEGIN
  FOR d IN 1 .. 10 LOOP
    SELECT no_o_id INTO v_o FROM new_order WHERE no_w_id = p_w AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    DELETE FROM new_order WHERE no_w_id = p_w AND no_d_id = d AND no_o_id = v_o;
    UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w AND o_d_id = d AND o_id = v_o
      RETURNING o_c_id INTO v_c;
    UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE ol_w_id = p_w AND ol_d_id = d AND ol_o_id = v_o;
    SELECT sum(ol_amount) INTO v_sum FROM order_line WHERE ol_w_id = p_w AND ol_d_id = d AND ol_o_id = v_o;
    UPDATE customer SET c_balance = c_balance + v_sum, c_delivery_cnt = c_delivery_cnt + 1
      WHERE c_w_id = p_w AND c_d_id = d AND c_id = v_c;
    v_mask := v_mask | (1 << (d - 1));
  END LOOP;
  RETURN v_mask;
END $body$",
    "CREATE OR REPLACE FUNCTION tpcc_stock_level(p_w integer, p_d integer, p_threshold integer) RETURNS bigint \
     LANGUAGE sql AS $body$
  SELECT count(DISTINCT s_i_id) FROM district
  JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id
  JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
  WHERE d_w_id = p_w AND d_id = p_d AND s_quantity < p_threshold
$body$",
];

const MARIADB: &[&str] = &[
    "CREATE OR REPLACE PROCEDURE tpcc_new_order(p_w INT, p_d INT, p_c INT, p_items VARCHAR(200), \
     p_supplies VARCHAR(200), p_quantities VARCHAR(100))
BEGIN
  DECLARE v_o, v_i, v_s, v_q, v_count INT;
  DECLARE v_n INT DEFAULT 1;
  DECLARE v_local INT DEFAULT 1;
  DECLARE v_d_tax, v_w_tax, v_discount, v_price DECIMAL(12,4);
  DECLARE v_total DECIMAL(20,8) DEFAULT 0;
  DECLARE v_text CHAR(24);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  SELECT d_tax, d_next_o_id INTO v_d_tax, v_o FROM district WHERE d_w_id = p_w AND d_id = p_d FOR UPDATE;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w AND d_id = p_d;
  SELECT c_discount, w_tax INTO v_discount, v_w_tax FROM customer JOIN warehouse ON w_id = c_w_id
    WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
  SET v_count = 1 + LENGTH(p_items) - LENGTH(REPLACE(p_items, ',', ''));
  WHILE v_n <= v_count DO
    IF CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(p_supplies, ',', v_n), ',', -1) AS INT) <> p_w THEN SET v_local = 0; END IF;
    SET v_n = v_n + 1;
  END WHILE;
  INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (p_w, p_d, v_o, p_c, CURRENT_TIMESTAMP, v_count, v_local);
  INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (p_w, p_d, v_o);
  SET v_n = 1;
  WHILE v_n <= v_count DO
    SET v_i = CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(p_items, ',', v_n), ',', -1) AS INT);
    SET v_s = CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(p_supplies, ',', v_n), ',', -1) AS INT);
    SET v_q = CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(p_quantities, ',', v_n), ',', -1) AS INT);
    SET v_price = NULL;
    SELECT i_price INTO v_price FROM item WHERE i_id = v_i;
    IF v_price IS NULL THEN SIGNAL SQLSTATE 'TC001' SET MESSAGE_TEXT = 'an item is not there'; END IF;
    SELECT DIST_TEXT INTO v_text FROM stock WHERE s_w_id = v_s AND s_i_id = v_i FOR UPDATE;
    UPDATE stock SET s_quantity = CASE WHEN s_quantity - v_q >= 10 THEN s_quantity - v_q
        ELSE s_quantity - v_q + 91 END, s_ytd = s_ytd + v_q, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + CASE WHEN v_s <> p_w THEN 1 ELSE 0 END
      WHERE s_w_id = v_s AND s_i_id = v_i;
    INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
        ol_dist_info) VALUES (p_w, p_d, v_o, v_n, v_i, v_s, v_q, v_q * v_price, v_text);
    SET v_total = v_total + v_q * v_price;
    SET v_n = v_n + 1;
  END WHILE;
  COMMIT;
  SELECT v_o, v_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
END",
    "CREATE OR REPLACE PROCEDURE tpcc_customer(p_w INT, p_d INT, p_c INT, p_last VARCHAR(16), OUT p_found INT)
BEGIN
  DECLARE v_half INT;
  IF p_c > 0 THEN
    SET p_found = p_c;
  ELSE
    SELECT (COUNT(*) - 1) DIV 2 INTO v_half FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_last;
    SELECT c_id INTO p_found FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_last
      ORDER BY c_first LIMIT v_half, 1;
  END IF;
END",
    "CREATE OR REPLACE PROCEDURE tpcc_payment(p_w INT, p_d INT, p_cw INT, p_cd INT, p_c INT, p_last VARCHAR(16), \
     p_amount DECIMAL(12,2))
BEGIN
  DECLARE v_c INT;
  DECLARE v_w_name, v_d_name VARCHAR(10);
  DECLARE v_balance DECIMAL(12,2);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w;
  SELECT w_name INTO v_w_name FROM warehouse WHERE w_id = p_w;
  UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w AND d_id = p_d;
  SELECT d_name INTO v_d_name FROM district WHERE d_w_id = p_w AND d_id = p_d;
  CALL tpcc_customer(p_cw, p_cd, p_c, p_last, v_c);
  UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
      c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' THEN
      LEFT(CONCAT_WS(' ', c_id, p_cd, p_cw, p_d, p_w, p_amount, c_data), 500) ELSE c_data END
    WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c;
  SELECT c_balance INTO v_balance FROM customer WHERE c_w_id = p_cw AND c_d_id = p_cd AND c_id = v_c;
  INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (v_c, p_cd, p_cw, p_d, p_w, CURRENT_TIMESTAMP, p_amount, CONCAT(v_w_name, '    ', v_d_name));
  COMMIT;
  SELECT v_c, v_balance;
END",
    "CREATE OR REPLACE PROCEDURE tpcc_order_status(p_w INT, p_d INT, p_c INT, p_last VARCHAR(16))
BEGIN
  DECLARE v_c, v_o INT;
  DECLARE v_balance DECIMAL(12,2);
  CALL tpcc_customer(p_w, p_d, p_c, p_last, v_c);
  SELECT c_balance INTO v_balance FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = v_c;
  SELECT MAX(o_id) INTO v_o FROM orders WHERE o_w_id = p_w AND o_d_id = p_d AND o_c_id = v_c;
  SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id = v_o ORDER BY ol_number;
  COMMIT;
END",
    "CREATE OR REPLACE PROCEDURE tpcc_delivery(p_w INT, p_carrier INT)
BEGIN
  DECLARE v_d INT DEFAULT 1;
  DECLARE v_mask INT DEFAULT 0;
  DECLARE v_o, v_c INT;
  DECLARE v_sum DECIMAL(12,2);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  WHILE v_d <= 10 DO
    SET v_o = NULL;
    SELECT no_o_id INTO v_o FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    IF v_o IS NOT NULL THEN
      DELETE FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d AND no_o_id = v_o;
      SELECT o_c_id INTO v_c FROM orders WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_o;
      UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_o;
      UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_o;
      SELECT SUM(ol_amount) INTO v_sum FROM order_line WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_o;
      UPDATE customer SET c_balance = c_balance + v_sum, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = p_w AND c_d_id = v_d AND c_id = v_c;
      SET v_mask = v_mask | (1 << (v_d - 1));
    END IF;
    SET v_d = v_d + 1;
  END WHILE;
  COMMIT;
  SELECT v_mask;
END",
    "CREATE OR REPLACE PROCEDURE tpcc_stock_level(p_w INT, p_d INT, p_threshold INT)
BEGIN
  SELECT COUNT(DISTINCT s_i_id) FROM district
  JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id
  JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
  WHERE d_w_id = p_w AND d_id = p_d AND s_quantity < p_threshold;
  COMMIT;
END",
];
