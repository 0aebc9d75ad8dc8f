//! No text exhausts the stack: what nests or chains too deeply is refused with 54001, what does not is parsed, walked,
//! printed, compared and dropped on a thread of 2 MiB, as a server's has.

use std::ops::ControlFlow;

use parser::ast::{Expr, Visitor, walk_statement};
use parser::{HEIGHT_MAX, parse_all};

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    thread.expect("a thread starts").join().expect("its work does not panic");
}

/// Texts that nest or chain n times.
fn nested(n: usize) -> Vec<String> {
    vec![
        format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n)),
        format!("SELECT 1{}", " + 1".repeat(n)),
        format!("SELECT {}1", "- ".repeat(n) + "@ "),
        format!("SELECT {}true", "NOT ".repeat(n)),
        format!("SELECT {}1{}", "f(".repeat(n), ")".repeat(n)),
        format!("SELECT 1{}", "::int".repeat(n)),
        format!("SELECT a{}", " IS NULL".repeat(n)),
        format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(n), " END".repeat(n)),
        format!("SELECT {}1{}", "ARRAY[".repeat(n), "]".repeat(n)),
        format!("SELECT {}1{}", "(SELECT ".repeat(n), ")".repeat(n)),
        format!("{}SELECT 1{}", "(".repeat(n), ")".repeat(n)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(n)),
        format!("SELECT 1{}", " UNION (SELECT 1".repeat(n) + &")".repeat(n)),
        format!("SELECT * FROM t{}", " JOIN t ON true".repeat(n)),
        format!("SELECT * FROM {}t{}", "(t JOIN ".repeat(n), " ON true)".repeat(n)),
        format!("SELECT * FROM {}SELECT 1{}", "(SELECT * FROM (".repeat(n), ") q) q".repeat(n)),
        format!("WITH a AS ({}SELECT 1{}) SELECT 1", "WITH a AS (".repeat(n), ") SELECT 1".repeat(n)),
        format!("{}SELECT 1", "EXPLAIN ".repeat(n)),
        format!("SELECT 1 GROUP BY {}a{}", "GROUPING SETS (".repeat(n), ")".repeat(n)),
        format!("SELECT {}1{}", "xmlexists(".repeat(n), " PASSING a)".repeat(n)),
    ]
}

#[test]
fn what_nests_too_deeply_is_refused() {
    on_a_small_stack(|| {
        for sql in nested(100_000) {
            let error = parse_all(&sql).expect_err(&sql[..60]);
            assert!(matches!(error.state().0, "54001" | "42601"), "{}: {error}", &sql[..60]);
        }
    });
}

struct Count(usize);

impl Visitor for Count {
    type Break = ();

    fn enter_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

#[test]
fn the_highest_trees_are_walked_printed_and_dropped() {
    on_a_small_stack(|| {
        let mut highest = 0;
        for n in [HEIGHT_MAX as usize / 4, HEIGHT_MAX as usize / 2 - 8, HEIGHT_MAX as usize - 8] {
            for sql in nested(n) {
                let Ok(parsed) = parse_all(&sql) else { continue };
                highest = highest.max(n);
                let mut count = Count(0);
                let _ = walk_statement(&mut count, &parsed[0].statement);
                let again = parse_all(&parsed[0].statement.to_string());
                // Parentheses that printing adds nest too.
                if let Ok(again) = again {
                    assert_eq!(again[0].statement, parsed[0].statement);
                }
                drop(parsed.clone());
            }
        }
        assert!(highest > 900);
    });
}

#[test]
fn lists_may_be_long() {
    let wide = 20_000;
    for sql in [
        format!("SELECT {}", vec!["1 + 1"; wide].join(", ")),
        format!("SELECT a{}", " OR a = 1".repeat(wide)),
        format!("SELECT a IN ({})", vec!["1"; wide].join(", ")),
        format!("INSERT INTO t VALUES {}", vec!["(1, 'a')"; wide].join(", ")),
        format!("SELECT * FROM {}", vec!["t"; wide].join(", ")),
        "SELECT 1;".repeat(wide),
    ] {
        assert!(parse_all(&sql).is_ok(), "{}", &sql[..40]);
    }
}
