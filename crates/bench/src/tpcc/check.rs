//! The twelve consistency conditions (clause 3.3.2) as SQL, in one transaction that sees one state of the tables.
//!
//! Each question asks for what contradicts its condition, so no row is the right answer. Condition 11 is about the
//! initial population; after a run it is held against the deliveries that were acknowledged.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Product;
use super::ledger::Ledger;
use super::session::{Admin, Connector};
use crate::error::{Error, Result};
use crate::report::format;

/// Offending rows that are shown; one more is asked for, to know whether there are others.
const SHOWN: usize = 5;

/// What is known about the tables.
pub(super) enum Expect<'a> {
    /// They were just loaded.
    Initial,
    /// Somebody ran transactions on them.
    Consistent,
    /// This was acknowledged since.
    Ledger(&'a Ledger),
}

/// A condition and whether it holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// Its number in the standard, or a name of ours for what the ledger says.
    pub(crate) name: String,
    /// What must be.
    pub(crate) rule: String,
    pub(crate) seconds: f64,
    /// What contradicts; nothing: it holds.
    pub(crate) offending: Vec<String>,
}

/// All conditions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) seconds: f64,
}

impl Verdict {
    /// Were they asked, and do all hold?
    pub(crate) fn passed(&self) -> bool {
        !self.conditions.is_empty() && self.conditions.iter().all(|condition| condition.offending.is_empty())
    }
}

/// A condition as a question.
struct Question {
    number: u32,
    rule: &'static str,
    sql: &'static str,
    /// Names of the answer's columns.
    columns: &'static [&'static str],
}

const QUESTIONS: [Question; 11] = [
    Question {
        number: 1,
        rule: "W_YTD = sum(D_YTD)",
        sql: "SELECT w_id, w_ytd, sum(d_ytd) FROM warehouse LEFT JOIN district ON d_w_id = w_id \
              GROUP BY w_id, w_ytd HAVING w_ytd IS NULL OR w_ytd <> coalesce(sum(d_ytd), 0) ORDER BY 1",
        columns: &["W_ID", "W_YTD", "sum(D_YTD)"],
    },
    Question {
        number: 2,
        rule: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID), where an order waits",
        sql: "SELECT d_w_id, d_id, d_next_o_id - 1, o_top, no_top FROM district \
              LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o_top FROM orders GROUP BY o_w_id, o_d_id) o \
              ON o_w_id = d_w_id AND o_d_id = d_id \
              LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS no_top FROM new_order GROUP BY no_w_id, no_d_id) n \
              ON no_w_id = d_w_id AND no_d_id = d_id \
              WHERE coalesce(o_top, 0) <> d_next_o_id - 1 OR coalesce(no_top, d_next_o_id - 1) <> d_next_o_id - 1 \
              ORDER BY 1, 2",
        columns: &["D_W_ID", "D_ID", "D_NEXT_O_ID-1", "max(O_ID)", "max(NO_O_ID)"],
    },
    Question {
        number: 3,
        rule: "max(NO_O_ID) - min(NO_O_ID) + 1 = count(NEW-ORDER)",
        sql: "SELECT no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1, count(*) FROM new_order \
              GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*) ORDER BY 1, 2",
        columns: &["NO_W_ID", "NO_D_ID", "max-min+1", "count"],
    },
    Question {
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
    Question {
        number: 5,
        rule: "O_CARRIER_ID is null exactly where a NEW-ORDER row exists",
        sql: "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders \
              LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
              WHERE (o_carrier_id IS NULL AND no_o_id IS NULL) OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL) \
              ORDER BY 1, 2, 3",
        columns: &["O_W_ID", "O_D_ID", "O_ID", "O_CARRIER_ID", "NO_O_ID"],
    },
    Question {
        number: 6,
        rule: "O_OL_CNT = count(ORDER-LINE) of the order",
        sql: "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, ol_count FROM orders \
              LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS ol_count FROM order_line \
              GROUP BY ol_w_id, ol_d_id, ol_o_id) l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
              WHERE o_ol_cnt IS NULL OR o_ol_cnt <> coalesce(ol_count, 0) ORDER BY 1, 2, 3",
        columns: &["O_W_ID", "O_D_ID", "O_ID", "O_OL_CNT", "count(ORDER-LINE)"],
    },
    Question {
        number: 7,
        rule: "OL_DELIVERY_D is null exactly where the order's O_CARRIER_ID is",
        sql: "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line \
              LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
              WHERE o_id IS NULL OR (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL) \
              OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL) ORDER BY 1, 2, 3, 4",
        columns: &["OL_W_ID", "OL_D_ID", "OL_O_ID", "OL_NUMBER", "OL_DELIVERY_D", "O_CARRIER_ID"],
    },
    Question {
        number: 8,
        rule: "W_YTD = sum(H_AMOUNT)",
        sql: "SELECT w_id, w_ytd, h_sum FROM warehouse \
              LEFT JOIN (SELECT h_w_id, sum(h_amount) AS h_sum FROM history GROUP BY h_w_id) h ON h_w_id = w_id \
              WHERE w_ytd IS NULL OR w_ytd <> coalesce(h_sum, 0) ORDER BY 1",
        columns: &["W_ID", "W_YTD", "sum(H_AMOUNT)"],
    },
    Question {
        number: 9,
        rule: "D_YTD = sum(H_AMOUNT)",
        sql: "SELECT d_w_id, d_id, d_ytd, h_sum FROM district \
              LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS h_sum FROM history GROUP BY h_w_id, h_d_id) h \
              ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd IS NULL OR d_ytd <> coalesce(h_sum, 0) ORDER BY 1, 2",
        columns: &["D_W_ID", "D_ID", "D_YTD", "sum(H_AMOUNT)"],
    },
    Question {
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
    Question {
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

/// Orders less those that wait, and orders with a carrier, of every district.
pub(super) const DELIVERED: &str = "SELECT d_w_id, d_id, coalesce(o_count, 0) - coalesce(no_count, 0), \
     coalesce(o_carried, 0) FROM district \
     LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS o_count, count(o_carrier_id) AS o_carried FROM orders \
     GROUP BY o_w_id, o_d_id) o ON o_w_id = d_w_id AND o_d_id = d_id \
     LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS no_count FROM new_order GROUP BY no_w_id, no_d_id) n \
     ON no_w_id = d_w_id AND no_d_id = d_id ORDER BY 1, 2";

/// Asks all of them.
///
/// # Errors
/// A question could not be asked. A condition that does not hold is in the verdict.
pub(super) fn check(connector: &Connector, expect: &Expect<'_>) -> Result<Verdict> {
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
    if let Expect::Ledger(ledger) = expect {
        let count = format::whole(ledger.orders());
        let rule = format!("all {count} acknowledged orders are there, as they were acknowledged, and no other one");
        conditions.push(timed("ledger", &rule, || ledger.check_orders(&mut admin))?);
        let rule = "every acknowledged payment is in HISTORY, and no other one";
        conditions.push(timed("payments", rule, || ledger.check_payments(&mut admin))?);
    }
    admin.query("COMMIT")?;
    Ok(Verdict { conditions, seconds: 0.0 })
}

/// Asks for one of the twelve.
pub(super) fn condition(admin: &mut Admin, number: u32, expect: &Expect<'_>) -> Result<Condition> {
    let Some(question) = QUESTIONS.iter().find(|question| question.number == number) else {
        return timed(&number.to_string(), &rule_11(expect), || delivered(admin, expect));
    };
    timed(&number.to_string(), question.rule, || {
        let rows = admin.query(&format!("{} LIMIT {}", question.sql, SHOWN + 1))?;
        Ok(shown(rows.iter().map(|row| labelled(question.columns, row))))
    })
}

fn timed(name: &str, rule: &str, ask: impl FnOnce() -> Result<Vec<String>>) -> Result<Condition> {
    let began = Instant::now();
    let offending = ask().map_err(|error| error.during(format_args!("condition {name}")))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Condition { name: name.to_owned(), rule: rule.to_owned(), seconds, offending })
}

/// `W_ID=1 W_YTD=300000.00 …`.
fn labelled(columns: &[&str], row: &[Option<String>]) -> String {
    let cell = |(name, value): (&&str, &Option<String>)| format!("{name}={}", value.as_deref().unwrap_or("null"));
    columns.iter().zip(row).map(cell).collect::<Vec<_>>().join(" ")
}

/// The first ones, and whether there are others.
pub(super) fn shown(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = all.take(SHOWN + 1).collect();
    if texts.len() > SHOWN {
        texts[SHOWN] = "… and others".to_owned();
    }
    texts
}

fn rule_11(expect: &Expect<'_>) -> String {
    let rule = "count(ORDER) - count(NEW-ORDER) = ";
    rule.to_owned()
        + match expect {
            Expect::Initial => "2100",
            Expect::Consistent => "orders with a carrier, at least 2100",
            Expect::Ledger(_) => "2100 or what it was, and the acknowledged deliveries",
        }
}

fn delivered(admin: &mut Admin, expect: &Expect<'_>) -> Result<Vec<String>> {
    let mut offending = Vec::new();
    for row in admin.query(DELIVERED)? {
        let [w, d, found, carried] = integers(&row)?;
        let wrong = match expect {
            Expect::Initial => (found != 2100).then(|| "expected 2100".to_owned()),
            Expect::Consistent => {
                (found != carried || found < 2100).then(|| format!("{carried} orders have a carrier"))
            }
            Expect::Ledger(ledger) => ledger.wrong_deliveries(w as i32, d as i32, found),
        };
        offending
            .extend(wrong.map(|wrong| format!("D_W_ID={w} D_ID={d} count(ORDER)-count(NEW-ORDER)={found}: {wrong}")));
    }
    Ok(shown(offending.into_iter()))
}

/// The cells of a row, all of which are integers.
pub(super) fn integers<const N: usize>(row: &[Option<String>]) -> Result<[i64; N]> {
    let wrong = || Error::protocol(format!("{row:?}: expected {N} integers"));
    let numbers: Option<Vec<i64>> = row.iter().map(|cell| cell.as_deref()?.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)
}
