//! Assertions: the crates that store data check their invariants. The number of assertions per 1,000 lines of product
//! code has a floor for each of them.

use std::fmt;

use super::source::is_test_file;
use super::{Finding, SourceFile, mask};

/// Crate, and fewest assertions per 1,000 lines. Raise a floor when the share has risen for good.
const FLOORS: [(&str, f64); 5] = [("wal", 15.0), ("columns", 9.0), ("rows", 8.0), ("engine", 10.0), ("env", 5.0)];

const MACROS: [&str; 3] = ["assert!", "assert_eq!", "assert_ne!"];

/// Lines of product code of a crate, without comments and blank lines, and assertions in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    lines: usize,
    assertions: usize,
}

impl Share {
    /// Counts `text` unless it is a test.
    fn add(&mut self, path: &str, text: &str) {
        if is_test_file(path) {
            return;
        }
        let code = mask::without_tests(&mask::code(text));
        let lines = || code.lines().filter(|line| !line.trim().is_empty());
        self.lines += lines().count();
        // `debug_assert!` contains `assert!`.
        let in_line = |line: &str| MACROS.iter().map(|name| line.matches(name).count()).sum::<usize>();
        self.assertions += lines().map(in_line).sum::<usize>();
    }

    fn per_thousand(self) -> f64 {
        self.assertions as f64 * 1_000.0 / self.lines.max(1) as f64
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ({} in {} lines)", self.per_thousand(), self.assertions, self.lines)
    }
}

/// The share of each crate that has a floor.
pub(super) fn shares(files: &[SourceFile]) -> Vec<(&'static str, Share)> {
    let share = |name: &'static str| {
        let folder = format!("crates/{name}/src/");
        let mut share = Share::default();
        let own = files.iter().filter(|file| file.path.starts_with(&folder) && file.path.ends_with(".rs"));
        own.for_each(|file| share.add(&file.path, file.text.as_deref().unwrap_or_default()));
        (name, share)
    };
    FLOORS.iter().map(|(name, _)| share(name)).collect()
}

/// Crates below their floor.
pub(super) fn check(shares: &[(&str, Share)]) -> Vec<Finding> {
    let below = shares.iter().zip(FLOORS).filter(|((_, share), (_, floor))| share.per_thousand() < *floor);
    let finding = |((name, share), (_, floor)): (&(&str, Share), (&str, f64))| {
        let problem = format!("{share} assertions per 1,000 lines of product code, at least {floor} expected");
        Finding::new(&format!("crates/{name}"), 0, problem)
    };
    below.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_of_product_code_are_counted_and_those_of_tests_and_texts_are_not() {
        let text = "//! assert!(doc)\nfn f() {\n    assert!(a);\n    debug_assert_eq!(a, b); // assert!(c)\n\n\
                    let s = \"assert!(x)\";\n}\n#[cfg(test)]\nmod tests {\n    fn t() { assert!(y) }\n}\n";
        let mut share = Share::default();
        share.add("crates/wal/src/lib.rs", text);
        assert_eq!(share, Share { lines: 5, assertions: 2 });
        share.add("crates/wal/src/tests/mod.rs", text);
        share.add("crates/wal/src/format_tests.rs", text);
        assert_eq!(share, Share { lines: 5, assertions: 2 });
    }

    #[test]
    fn a_crate_below_its_floor_is_found() {
        let shares = FLOORS.map(|(name, _)| (name, Share { lines: 1_000, assertions: 15 }));
        assert_eq!(check(&shares).len(), 0);
        let mut fewer = shares;
        fewer[0].1.assertions = 14;
        let text = check(&fewer)[0].to_string();
        assert!(text.contains("crates/wal: 14.0 (14 in 1000 lines) assertions per 1,000 lines"), "{text}");
    }
}
