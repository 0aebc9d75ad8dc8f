//! The comparison of two answers: one letter a statement.

use super::text;
use super::wire::{Answer, Part};

/// Relation of Millrace's answer to PostgreSQL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Rows, names, types and tags, or the SQLSTATE of the error.
    Identical,
    /// Millrace refuses what PostgreSQL runs, or refuses it for another reason: the feature is missing.
    Unsupported,
    /// Refusal or other rows that follow from the refusal of an earlier statement.
    Follows,
    /// The rows are equal; names or types of columns, or the command tag, are not.
    Described,
    /// The rows are equal but for their order, in a statement with ORDER BY.
    Order,
    /// Both refuse it, with other SQLSTATEs.
    Code,
    /// Millrace runs what PostgreSQL refuses.
    Accepted,
    /// Other rows.
    Rows,
    /// Millrace was cancelled after 30 seconds.
    Slow,
    /// The text of EXPLAIN is not compared.
    Explain,
    /// PostgreSQL itself answers otherwise each time.
    Volatile,
}

impl Outcome {
    pub(super) const ALL: [Outcome; 11] = [
        Outcome::Identical,
        Outcome::Unsupported,
        Outcome::Follows,
        Outcome::Described,
        Outcome::Order,
        Outcome::Code,
        Outcome::Accepted,
        Outcome::Rows,
        Outcome::Slow,
        Outcome::Explain,
        Outcome::Volatile,
    ];

    /// The letter that stands for it in the ratchet's file.
    pub(super) fn letter(self) -> char {
        match self {
            Outcome::Identical => '=',
            Outcome::Unsupported => 'u',
            Outcome::Follows => 'f',
            Outcome::Described => 'd',
            Outcome::Order => 'o',
            Outcome::Code => 'c',
            Outcome::Accepted => 'a',
            Outcome::Rows => 'r',
            Outcome::Slow => 's',
            Outcome::Explain => 'e',
            Outcome::Volatile => 'v',
        }
    }

    pub(super) fn of_letter(letter: char) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.letter() == letter)
    }

    /// A column's heading.
    pub(super) fn name(self) -> &'static str {
        match self {
            Outcome::Identical => "identical",
            Outcome::Unsupported => "unsupported",
            Outcome::Follows => "follows",
            Outcome::Described => "names",
            Outcome::Order => "order",
            Outcome::Code => "SQLSTATE",
            Outcome::Accepted => "accepted",
            Outcome::Rows => "rows",
            Outcome::Slow => "slow",
            Outcome::Explain => "explain",
            Outcome::Volatile => "volatile",
        }
    }
}

/// Compares the answers to `text`; `again` is PostgreSQL's answer in a second database. `follows` says whether a difference
/// can follow from an earlier refusal.
pub(super) fn compare(text: &str, ours: &Answer, theirs: &Answer, again: &Answer, follows: bool) -> Outcome {
    let consequence = |outcome| if follows { Outcome::Follows } else { outcome };
    if ours.cancelled {
        return Outcome::Slow;
    }
    match (ours.error(), theirs.error()) {
        (Some((ours, _)), Some((theirs, _))) if ours == theirs => Outcome::Identical,
        (Some((code, _)), Some(_)) => match code {
            "0A000" | "42601" => consequence(Outcome::Unsupported),
            _ => consequence(Outcome::Code),
        },
        (Some(_), None) => consequence(Outcome::Unsupported),
        (None, Some(_)) => consequence(Outcome::Accepted),
        (None, None) if is_explain(text) => Outcome::Explain,
        (None, None) => match parts(text, &ours.parts, &theirs.parts) {
            Outcome::Identical => Outcome::Identical,
            _ if theirs.parts != again.parts => Outcome::Volatile,
            outcome => consequence(outcome),
        },
    }
}

/// Whether a statement is an EXPLAIN, after comments.
fn is_explain(text: &str) -> bool {
    let mut text = text.trim_start();
    while let Some(end) =
        [("--", "\n"), ("/*", "*/")].into_iter().find_map(|(open, close)| text.starts_with(open).then_some(close))
    {
        text = text.split_once(end).map_or("", |(_, rest)| rest.trim_start());
    }
    text.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("explain"))
}

fn parts(text: &str, ours: &[Part], theirs: &[Part]) -> Outcome {
    if ours.len() != theirs.len() {
        return Outcome::Rows;
    }
    ours.iter()
        .zip(theirs)
        .map(|(ours, theirs)| part(text, ours, theirs))
        .max_by_key(|outcome| weight(*outcome))
        .unwrap_or(Outcome::Identical)
}

/// The gravest difference of several results counts.
fn weight(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Identical => 0,
        Outcome::Described => 1,
        Outcome::Order => 2,
        _ => 3,
    }
}

fn part(text: &str, ours: &Part, theirs: &Part) -> Outcome {
    match (ours, theirs) {
        (Part::Rows { columns: c1, rows: r1, tag: t1 }, Part::Rows { columns: c2, rows: r2, tag: t2 }) => {
            let described = c1 == c2 && t1 == t2;
            match rows(text, r1, r2) {
                Outcome::Identical if !described && c1.len() == c2.len() => Outcome::Described,
                Outcome::Identical if !described => Outcome::Rows,
                outcome => outcome,
            }
        }
        (Part::Copied { lines: l1, .. }, Part::Copied { lines: l2, .. }) => rows(text, l1, l2),
        (Part::Done { tag: t1 }, Part::Done { tag: t2 }) => match (t1 == t2, count(t1) == count(t2)) {
            (true, _) => Outcome::Identical,
            (false, true) => Outcome::Described,
            (false, false) => Outcome::Rows,
        },
        _ => Outcome::Rows,
    }
}

/// The number of rows in a command tag.
fn count(tag: &str) -> Option<u64> {
    tag.rsplit(' ').next()?.parse().ok()
}

/// Rows are a multiset where nothing orders them.
fn rows<T: Ord + Clone>(text: &str, ours: &[T], theirs: &[T]) -> Outcome {
    if ours == theirs {
        return Outcome::Identical;
    }
    let (mut ours, mut theirs) = (ours.to_vec(), theirs.to_vec());
    ours.sort();
    theirs.sort();
    match ours == theirs {
        true if is_ordered(text) => Outcome::Order,
        true => Outcome::Identical,
        false => Outcome::Rows,
    }
}

/// Whether the statement has an ORDER BY outside of parentheses, which hold subqueries, windows and arguments.
fn is_ordered(text: &str) -> bool {
    let mut depth = 0usize;
    let outside = text.chars().filter(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    let words: Vec<String> = text::words(&outside.collect::<String>()).collect();
    words.windows(2).any(|pair| pair[0] == "order" && pair[1] == "by")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::wire::Column;

    fn rows_of(values: &[&str], oid: u32) -> Answer {
        let columns = vec![Column { name: "x".to_owned(), oid }];
        let rows = values.iter().map(|value| vec![Some((*value).to_owned())]).collect();
        Answer { parts: vec![Part::Rows { columns, rows, tag: format!("SELECT {}", values.len()) }], cancelled: false }
    }

    fn failed(code: &str) -> Answer {
        Answer { parts: vec![Part::Failed { code: code.to_owned(), message: String::new() }], cancelled: false }
    }

    #[test]
    fn answers_are_compared_by_rows_then_description_then_code() {
        let one = rows_of(&["1", "2"], 23);
        for (text, ours, theirs, expected) in [
            ("select", one.clone(), one.clone(), Outcome::Identical),
            ("select", rows_of(&["2", "1"], 23), one.clone(), Outcome::Identical),
            ("select (order by)", rows_of(&["2", "1"], 23), one.clone(), Outcome::Identical),
            ("select order by", rows_of(&["2", "1"], 23), one.clone(), Outcome::Order),
            ("select", rows_of(&["1", "2"], 20), one.clone(), Outcome::Described),
            ("select", rows_of(&["1", "3"], 23), one.clone(), Outcome::Rows),
            ("select", failed("22003"), failed("22003"), Outcome::Identical),
            ("select", failed("22003"), failed("22012"), Outcome::Code),
            ("select", failed("0A000"), failed("22012"), Outcome::Unsupported),
            ("select", failed("42883"), one.clone(), Outcome::Unsupported),
            ("select", one.clone(), failed("22012"), Outcome::Accepted),
            ("explain select", rows_of(&["a"], 25), rows_of(&["b"], 25), Outcome::Explain),
            ("/* a */ -- b\nexplain select", rows_of(&["a"], 25), rows_of(&["b"], 25), Outcome::Explain),
        ] {
            assert_eq!(compare(text, &ours, &theirs, &theirs, false), expected, "{text} {ours:?} {theirs:?}");
        }
        let other = rows_of(&["9"], 23);
        assert_eq!(compare("select", &other, &one, &rows_of(&["8"], 23), false), Outcome::Volatile);
        assert_eq!(compare("select", &other, &one, &one, true), Outcome::Follows);
    }

    #[test]
    fn each_outcome_has_a_letter_of_its_own() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::of_letter(outcome.letter()), Some(outcome));
        }
    }
}
