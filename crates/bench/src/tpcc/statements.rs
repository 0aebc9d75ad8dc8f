//! The statements of the five transactions, with one text for all products: `$n` is the n-th
//! parameter, and each is used once and in order.

use std::borrow::Cow;

use super::Isolation;

/// A statement of a transaction; its discriminant is its index among the prepared statements.
/// Comments list the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Begin,
    Commit,
    Rollback,
    /// Reads and locks a district: (w, d).
    LockDistrict,
    /// Reads a customer with the warehouse: (w, d, c).
    CustomerWarehouse,
    /// Increments the district's next order number: (w, d).
    NextOrder,
    /// (w, d, o, c, number of lines, whether all lines are local).
    InsertOrder,
    /// (w, d, o).
    InsertNewOrder,
    /// (i).
    Item,
    /// Reads and locks a stock row: (w, i).
    Stock,
    /// (quantity, amount added to year to date, amount added to remote orders, w, i).
    UpdateStock,
    /// (w, d, o, number, i, supplying w, quantity, amount, text).
    InsertLine,
    /// (amount, w).
    PayWarehouse,
    /// (w).
    Warehouse,
    /// (amount, w, d).
    PayDistrict,
    /// (w, d).
    District,
    /// Customers with a last name: (w, d, name).
    ByName,
    /// Reads and locks a customer: (w, d, c).
    LockCustomer,
    /// (w, d, c).
    CustomerData,
    /// (amount, amount, w, d, c).
    PayCustomer,
    /// Like [`Statement::PayCustomer`], with new data: (amount, amount, data, w, d, c).
    PayBadCustomer,
    /// (c, c's d, c's w, d, w, amount, data).
    InsertHistory,
    /// (w, d, c).
    CustomerBalance,
    /// Last order of a customer: (w, d, c, w, d, c).
    LastOrder,
    /// (w, d, o).
    Lines,
    /// Reads and locks the oldest undelivered order: (w, d).
    OldestNewOrder,
    /// (w, d, o).
    DeleteNewOrder,
    /// (w, d, o).
    OrderCustomer,
    /// (carrier, w, d, o).
    Carry,
    /// (w, d, o).
    DeliverLines,
    /// (w, d, o).
    SumLines,
    /// (amount, w, d, c).
    Credit,
    /// (w, d, threshold).
    StockLevel,
    // Transactions as functions.
    /// (w, d, c, items, supplying warehouses, quantities).
    NewOrderFunction,
    /// (w, d, c's w, c's d, c or 0, last name, amount).
    PaymentFunction,
    /// (w, d, c or 0, last name).
    OrderStatusFunction,
    /// (w, carrier).
    DeliveryFunction,
    /// (w, d, threshold).
    StockLevelFunction,
    /// Transactions as MariaDB procedures, with the same parameters.
    NewOrderCall,
    PaymentCall,
    OrderStatusCall,
    DeliveryCall,
    StockLevelCall,
}

impl Statement {
    /// SQL text of the statement.
    pub(super) fn text(self, isolation: Isolation) -> Cow<'static, str> {
        let text = match self {
            Statement::Begin => return format!("BEGIN ISOLATION LEVEL {}", isolation.sql()).into(),
            Statement::Commit => "COMMIT",
            Statement::Rollback => "ROLLBACK",
            Statement::LockDistrict => {
                "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE"
            }
            Statement::CustomerWarehouse => {
                "SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Statement::NextOrder => "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2",
            Statement::InsertOrder => {
                "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                 VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5, $6)"
            }
            Statement::InsertNewOrder => "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)",
            Statement::Item => "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
            Statement::Stock => {
                "SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, \
                 s_dist_07, s_dist_08, s_dist_09, s_dist_10 FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE"
            }
            Statement::UpdateStock => {
                "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
                 s_remote_cnt = s_remote_cnt + $3 WHERE s_w_id = $4 AND s_i_id = $5"
            }
            Statement::InsertLine => {
                "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
                 ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            }
            Statement::PayWarehouse => "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2",
            Statement::Warehouse => {
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = $1"
            }
            Statement::PayDistrict => "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3",
            Statement::District => {
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
                 WHERE d_w_id = $1 AND d_id = $2"
            }
            Statement::ByName => {
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"
            }
            Statement::LockCustomer => {
                "SELECT c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
                 c_since, c_credit_lim, c_discount, c_balance FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE"
            }
            Statement::CustomerData => "SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            Statement::PayCustomer => {
                "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5"
            }
            Statement::PayBadCustomer => {
                "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, \
                 c_payment_cnt = c_payment_cnt + 1, c_data = $3 WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6"
            }
            Statement::InsertHistory => {
                "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                 VALUES ($1, $2, $3, $4, $5, CURRENT_TIMESTAMP, $6, $7)"
            }
            Statement::CustomerBalance => {
                "SELECT c_balance, c_first, c_middle, c_last FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Statement::LastOrder => {
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
                 AND o_id = (SELECT max(o_id) FROM orders WHERE o_w_id = $4 AND o_d_id = $5 AND o_c_id = $6)"
            }
            Statement::Lines => {
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number"
            }
            Statement::OldestNewOrder => {
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE"
            }
            Statement::DeleteNewOrder => "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
            Statement::OrderCustomer => "SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3",
            Statement::Carry => "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4",
            Statement::DeliverLines => {
                "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Statement::SumLines => {
                "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Statement::Credit => {
                "UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4"
            }
            Statement::StockLevel => {
                "SELECT count(DISTINCT s_i_id) FROM district \
                 JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id \
                 AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id \
                 JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                 WHERE d_w_id = $1 AND d_id = $2 AND s_quantity < $3"
            }
            Statement::NewOrderFunction => "SELECT * FROM tpcc_new_order($1, $2, $3, $4, $5, $6)",
            Statement::PaymentFunction => "SELECT * FROM tpcc_payment($1, $2, $3, $4, $5, $6, $7)",
            Statement::OrderStatusFunction => "SELECT * FROM tpcc_order_status($1, $2, $3, $4)",
            Statement::DeliveryFunction => "SELECT tpcc_delivery($1, $2)",
            Statement::StockLevelFunction => "SELECT tpcc_stock_level($1, $2, $3)",
            Statement::NewOrderCall => "CALL tpcc_new_order($1, $2, $3, $4, $5, $6)",
            Statement::PaymentCall => "CALL tpcc_payment($1, $2, $3, $4, $5, $6, $7)",
            Statement::OrderStatusCall => "CALL tpcc_order_status($1, $2, $3, $4)",
            Statement::DeliveryCall => "CALL tpcc_delivery($1, $2)",
            Statement::StockLevelCall => "CALL tpcc_stock_level($1, $2, $3)",
        };
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_names_its_parameters_once_and_in_order() {
        let all = [
            Statement::LockDistrict,
            Statement::CustomerWarehouse,
            Statement::InsertOrder,
            Statement::UpdateStock,
            Statement::InsertLine,
            Statement::PayCustomer,
            Statement::PayBadCustomer,
            Statement::InsertHistory,
            Statement::LastOrder,
            Statement::Carry,
            Statement::Credit,
            Statement::StockLevel,
            Statement::NewOrderCall,
            Statement::PaymentFunction,
        ];
        for statement in all {
            let text = statement.text(Isolation::ReadCommitted);
            let numbers: Vec<usize> = text
                .split('$')
                .skip(1)
                .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap())
                .collect();
            assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "{text}");
        }
    }
}
