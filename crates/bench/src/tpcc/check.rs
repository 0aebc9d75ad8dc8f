//! The twelve consistency conditions (clause 3.3.2) as SQL queries in one transaction with a single
//! snapshot.
//!
//! Each query selects rows that violate its condition, so an empty result is correct. Condition 11
//! applies to the initial population; after a run it is checked against the acknowledged
//! deliveries.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Product;
use super::ledger::Ledger;
use super::session::{Admin, Connector};
use crate::error::{Error, Result};
use crate::report::format;

/// Maximum number of violating rows shown. One more is fetched, to know whether there are others.
const VIOLATIONS_MAX: usize = 5;

/// Expected state of the tables.
pub(super) enum ExpectedState<'a> {
    /// The initial population, freshly loaded.
    Initial,
    /// Unknown transactions were run on the tables.
    Consistent,
    /// The transactions in the ledger were acknowledged.
    Ledger(&'a Ledger),
}

/// A condition and its violations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// Number in the standard, or a name for a check against the ledger.
    pub(crate) name: String,
    /// The condition in words.
    pub(crate) rule: String,
    pub(crate) seconds: f64,
    /// Violations; empty if the condition holds.
    pub(crate) offending: Vec<String>,
}

/// Result of checking all conditions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) seconds: f64,
}

impl Verdict {
    /// Returns whether conditions were checked and all of them hold.
    pub(crate) fn passed(&self) -> bool {
        !self.conditions.is_empty() && self.conditions.iter().all(|condition| condition.offending.is_empty())
    }
}

/// A condition as a query.
struct ConditionQuery {
    number: u32,
    rule: &'static str,
    sql: &'static str,
    /// Names of the result's columns.
    columns: &'static [&'static str],
}

const CONDITION_QUERIES: [ConditionQuery; 11] = [
    ConditionQuery {
        number: 1,
        rule: "W_YTD = sum(D_YTD)",
        sql: "SELECT w_id, w_ytd, sum(d_ytd) FROM warehouse LEFT JOIN district ON d_w_id = w_id \
              GROUP BY w_id, w_ytd HAVING w_ytd IS NULL OR w_ytd <> coalesce(sum(d_ytd), 0) ORDER BY 1",
        columns: &["W_ID", "W_YTD", "sum(D_YTD)"],
    },
    ConditionQuery {
        number: 2,
        rule: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID), if an order is undelivered",
        sql: "SELECT d_w_id, d_id, d_next_o_id - 1, o_top, no_top FROM district \
              LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o_top FROM orders GROUP BY o_w_id, o_d_id) o \
              ON o_w_id = d_w_id AND o_d_id = d_id \
              LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS no_top FROM new_order GROUP BY no_w_id, no_d_id) n \
              ON no_w_id = d_w_id AND no_d_id = d_id \
              WHERE coalesce(o_top, 0) <> d_next_o_id - 1 OR coalesce(no_top, d_next_o_id - 1) <> d_next_o_id - 1 \
              ORDER BY 1, 2",
        columns: &["D_W_ID", "D_ID", "D_NEXT_O_ID-1", "max(O_ID)", "max(NO_O_ID)"],
    },
    ConditionQuery {
        number: 3,
        rule: "max(NO_O_ID) - min(NO_O_ID) + 1 = count(NEW-ORDER)",
        sql: "SELECT no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1, count(*) FROM new_order \
              GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*) ORDER BY 1, 2",
        columns: &["NO_W_ID", "NO_D_ID", "max-min+1", "count"],
    },
    ConditionQuery {
        number: 4,
        rule: "sum(O_OL_CNT) = count(ORDER-LINE)",
        sql: "SELECT d_w_id, d_id, o_sum, ol_count FROM district \
              LEFT JOIN (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS o_sum FROM orders GROUP BY o_w_id, o_d_id) o \
              ON o_w_id = d_w_id AND o_d_id = d_id \
              LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS ol_count FROM order_line GROUP BY ol_w_id, ol_d_id) l \
              ON ol_w_id = d_w_id AND ol_d_id = d_id \
              WHERE coalesce(o_sum, 0) <> coalesce(ol_count, 0) ORDER BY 1, 2",
        columns: &["D_W_ID", "D_ID", "sum(O_OL_CNT)", "count(ORDER-LINE)"],
    },
    ConditionQuery {
        number: 5,
        rule: "O_CARRIER_ID is null if and only if a NEW-ORDER row exists",
        sql: "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders \
              LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
              WHERE (o_carrier_id IS NULL AND no_o_id IS NULL) OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL) \
              ORDER BY 1, 2, 3",
        columns: &["O_W_ID", "O_D_ID", "O_ID", "O_CARRIER_ID", "NO_O_ID"],
    },
    ConditionQuery {
        number: 6,
        rule: "O_OL_CNT = count(ORDER-LINE) of the order",
        sql: "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, ol_count FROM orders \
              LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS ol_count FROM order_line \
              GROUP BY ol_w_id, ol_d_id, ol_o_id) l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              WHERE o_ol_cnt IS NULL OR o_ol_cnt <> coalesce(ol_count, 0) ORDER BY 1, 2, 3",
        columns: &["O_W_ID", "O_D_ID", "O_ID", "O_OL_CNT", "count(ORDER-LINE)"],
    },
    ConditionQuery {
        number: 7,
        rule: "OL_DELIVERY_D is null if and only if the order's O_CARRIER_ID is",
        sql: "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line \
              LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
              WHERE o_id IS NULL OR (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL) \
              OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL) ORDER BY 1, 2, 3, 4",
        columns: &["OL_W_ID", "OL_D_ID", "OL_O_ID", "OL_NUMBER", "OL_DELIVERY_D", "O_CARRIER_ID"],
    },
    ConditionQuery {
        number: 8,
        rule: "W_YTD = sum(H_AMOUNT)",
        sql: "SELECT w_id, w_ytd, h_sum FROM warehouse \
              LEFT JOIN (SELECT h_w_id, sum(h_amount) AS h_sum FROM history GROUP BY h_w_id) h ON h_w_id = w_id \
              WHERE w_ytd IS NULL OR w_ytd <> coalesce(h_sum, 0) ORDER BY 1",
        columns: &["W_ID", "W_YTD", "sum(H_AMOUNT)"],
    },
    ConditionQuery {
        number: 9,
        rule: "D_YTD = sum(H_AMOUNT)",
        sql: "SELECT d_w_id, d_id, d_ytd, h_sum FROM district \
              LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS h_sum FROM history GROUP BY h_w_id, h_d_id) h \
              ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd IS NULL OR d_ytd <> coalesce(h_sum, 0) ORDER BY 1, 2",
        columns: &["D_W_ID", "D_ID", "D_YTD", "sum(H_AMOUNT)"],
    },
    ConditionQuery {
        number: 10,
        rule: "C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT)",
        sql: "SELECT c_w_id, c_d_id, c_id, c_balance, ol_sum, h_sum FROM customer \
              LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS ol_sum FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o \
              ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
              LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS h_sum FROM history \
              GROUP BY h_c_w_id, h_c_d_id, h_c_id) h \
              ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
              WHERE c_balance IS NULL OR c_balance <> coalesce(ol_sum, 0) - coalesce(h_sum, 0) ORDER BY 1, 2, 3",
        columns: &["C_W_ID", "C_D_ID", "C_ID", "C_BALANCE", "sum(OL_AMOUNT)", "sum(H_AMOUNT)"],
    },
    ConditionQuery {
        number: 12,
        rule: "C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT)",
        sql: "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, ol_sum FROM customer \
              LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS ol_sum FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o \
              ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
              WHERE c_balance IS NULL OR c_ytd_payment IS NULL \
              OR c_balance + c_ytd_payment <> coalesce(ol_sum, 0) ORDER BY 1, 2, 3",
        columns: &["C_W_ID", "C_D_ID", "C_ID", "C_BALANCE", "C_YTD_PAYMENT", "sum(OL_AMOUNT)"],
    },
];

/// For every district: orders minus undelivered orders, and orders with a carrier.
pub(super) const DELIVERED: &str = "SELECT d_w_id, d_id, coalesce(o_count, 0) - coalesce(no_count, 0), \
     coalesce(o_carried, 0) FROM district \
     LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS o_count, count(o_carrier_id) AS o_carried FROM orders \
     GROUP BY o_w_id, o_d_id) o ON o_w_id = d_w_id AND o_d_id = d_id \
     LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS no_count FROM new_order GROUP BY no_w_id, no_d_id) n \
     ON no_w_id = d_w_id AND no_d_id = d_id ORDER BY 1, 2";

/// Checks all conditions.
///
/// # Errors
/// A query failed. A violated condition is not an error: it is in the verdict.
pub(super) fn check(connector: &Connector, expect: &ExpectedState<'_>) -> Result<Verdict> {
    let mut admin = Admin::connect(connector, true)?;
    let begin: &[&str] = match connector.product {
        Product::MariaDb => &[
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        ],
        Product::Postgres | Product::Millrace => &["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"],
    };
    admin.run(&begin.iter().map(|sql| (*sql).to_owned()).collect::<Vec<_>>())?;
    let mut conditions = Vec::new();
    for number in 1..=12 {
        conditions.push(condition(&mut admin, number, expect)?);
    }
    if let ExpectedState::Ledger(ledger) = expect {
        let count = format::whole(ledger.orders());
        let rule = format!("exactly the {count} acknowledged orders exist, as acknowledged");
        conditions.push(timed("ledger", &rule, || ledger.check_orders(&mut admin))?);
        let rule = "HISTORY has exactly the acknowledged payments";
        conditions.push(timed("payments", rule, || ledger.check_payments(&mut admin))?);
    }
    admin.query("COMMIT")?;
    Ok(Verdict { conditions, seconds: 0.0 })
}

/// Checks one of the twelve conditions.
pub(super) fn condition(admin: &mut Admin, number: u32, expect: &ExpectedState<'_>) -> Result<Condition> {
    let Some(query) = CONDITION_QUERIES.iter().find(|query| query.number == number) else {
        return timed(&number.to_string(), &rule_11(expect), || delivered(admin, expect));
    };
    timed(&number.to_string(), query.rule, || {
        let rows = admin.query(&format!("{} LIMIT {}", query.sql, VIOLATIONS_MAX + 1))?;
        Ok(first_violations(rows.iter().map(|row| labelled(query.columns, row))))
    })
}

fn timed(name: &str, rule: &str, ask: impl FnOnce() -> Result<Vec<String>>) -> Result<Condition> {
    let began = Instant::now();
    let offending = ask().map_err(|error| error.during(format_args!("condition {name}")))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Condition { name: name.to_owned(), rule: rule.to_owned(), seconds, offending })
}

/// Formats a row as `W_ID=1 W_YTD=300000.00 …`.
fn labelled(columns: &[&str], row: &[Option<String>]) -> String {
    let cell = |(name, value): (&&str, &Option<String>)| format!("{name}={}", value.as_deref().unwrap_or("null"));
    columns.iter().zip(row).map(cell).collect::<Vec<_>>().join(" ")
}

/// Keeps the first [`VIOLATIONS_MAX`] texts, and a remark if there are more.
pub(super) fn first_violations(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = all.take(VIOLATIONS_MAX + 1).collect();
    if texts.len() > VIOLATIONS_MAX {
        texts[VIOLATIONS_MAX] = "… and others".to_owned();
    }
    texts
}

fn rule_11(expect: &ExpectedState<'_>) -> String {
    let rule = "count(ORDER) - count(NEW-ORDER) = ";
    rule.to_owned()
        + match expect {
            ExpectedState::Initial => "2100",
            ExpectedState::Consistent => "orders with a carrier, at least 2100",
            ExpectedState::Ledger(_) => "2100 (or the number before the run) plus the acknowledged deliveries",
        }
}

fn delivered(admin: &mut Admin, expect: &ExpectedState<'_>) -> Result<Vec<String>> {
    let mut offending = Vec::new();
    for row in admin.query(DELIVERED)? {
        let [w, d, found, carried] = integers(&row)?;
        let wrong = match expect {
            ExpectedState::Initial => (found != 2100).then(|| "expected 2100".to_owned()),
            ExpectedState::Consistent => {
                (found != carried || found < 2100).then(|| format!("{carried} orders have a carrier"))
            }
            ExpectedState::Ledger(ledger) => ledger.wrong_deliveries(w as i32, d as i32, found),
        };
        offending
            .extend(wrong.map(|wrong| format!("D_W_ID={w} D_ID={d} count(ORDER)-count(NEW-ORDER)={found}: {wrong}")));
    }
    Ok(first_violations(offending.into_iter()))
}

/// Parses the cells of a row of integers.
pub(super) fn integers<const N: usize>(row: &[Option<String>]) -> Result<[i64; N]> {
    let wrong = || Error::protocol(format!("{row:?}: expected {N} integers"));
    let numbers: Option<Vec<i64>> = row.iter().map(|cell| cell.as_deref()?.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)
}
