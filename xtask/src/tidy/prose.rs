//! The rule that comments name their subject: none begins with a headless clause, a pronoun or a question.
//!
//! A share is checked rather than each comment, because a word such as `None` or `Where` can begin a good sentence.

use std::collections::BTreeMap;

use super::{Finding, SourceFile};

/// Comments of a crate that may begin otherwise, in percent.
const SHARE_MAX: usize = 1;
/// Places that a finding lists.
const LISTED: usize = 8;

/// First words of comments without a subject.
const HEADLESS: &[&str] = &[
    "What", "Who", "Whom", "Whose", "Whoever", "Of", "Its", "Their", "How", "As", "So", "Which", "That", "Then",
    "Where", "When", "Why", "None", "Are", "Is", "Does", "Do", "May", "Has", "Have", "Was", "Were", "Will", "Can",
    "Must", "Such", "Told", "Not", "Those", "These", "Here", "There", "And", "Or", "But", "Nor",
];

/// Comments of a crate: all, and where the headless ones are.
#[derive(Default)]
struct Count {
    all: usize,
    headless: Vec<(String, usize)>,
}

/// Checks each crate's share.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut crates: BTreeMap<String, Count> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some(text) = &file.text else { continue };
        let count = crates.entry(crate_of(&file.path)).or_default();
        for (line, opening) in openings(text) {
            count.all += 1;
            if is_headless(opening) {
                count.headless.push((file.path.clone(), line));
            }
        }
    }
    let too_many = crates.iter().filter(|(_, count)| count.headless.len() * 100 > count.all * SHARE_MAX);
    too_many.map(|(name, count)| finding(name, count)).collect()
}

fn crate_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    if parts[0] == "crates" { parts.iter().take(2).copied().collect::<Vec<_>>().join("/") } else { parts[0].to_owned() }
}

fn finding(name: &str, count: &Count) -> Finding {
    let places: Vec<String> = count.headless.iter().take(LISTED).map(|(path, line)| format!("{path}:{line}")).collect();
    let problem = format!(
        "{} of {} comments begin without a subject (What, Who, Of, Its, How, a question …); at most {SHARE_MAX} % may: {}",
        count.headless.len(),
        count.all,
        places.join(", ")
    );
    Finding::new(name, 0, problem)
}

/// First lines of comments with their numbers.
fn openings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut before = None;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let line = line.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| line.starts_with(kind));
        let words = kind.and_then(|kind| line[kind.len()..].strip_prefix(' ')).unwrap_or_default();
        let opens = kind.is_some() && before != kind && !words.is_empty();
        // An empty comment line ends a paragraph, and the next one opens again.
        before = kind.filter(|_| !words.is_empty());
        opens.then_some((at + 1, words))
    })
}

fn is_headless(opening: &str) -> bool {
    let words: Vec<&str> = opening.trim_start_matches(['`', '*']).split_whitespace().take(2).collect();
    let first = words.first().map_or("", |word| word.trim_end_matches([',', ':', '?', '.']));
    let second = words.get(1).copied().unwrap_or_default();
    HEADLESS.contains(&first)
        || matches!((first, second), ("By" | "From" | "To" | "In" | "With" | "For" | "At" | "On", "which" | "whom"))
        || (first, second) == ("The", "same")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headless_comments_are_found_where_a_comment_begins() {
        let text = "//! Rows.\n//!\n//! What they are.\n/// Its name.\n/// What follows.\nfn f() {} // Of no account\n// By which it goes.\n// Sum.\n";
        let found: Vec<usize> = openings(text).filter(|(_, words)| is_headless(words)).map(|(line, _)| line).collect();
        assert_eq!(found, [3, 4, 7]);
        assert!(!is_headless("Whether it is one."));
        assert!(is_headless("May two transactions have it?"));
    }

    #[test]
    fn a_crate_may_have_one_in_a_hundred() {
        let file = |comments: usize, headless: usize| SourceFile {
            path: "crates/a/src/lib.rs".to_owned(),
            full: std::path::PathBuf::new(),
            bytes: 0,
            text: Some(
                "/// A name.\nfn f() {}\n".repeat(comments - headless) + &"/// Its name.\nfn f() {}\n".repeat(headless),
            ),
        };
        assert!(check(&[file(100, 1)]).is_empty());
        assert_eq!(check(&[file(100, 2)]).len(), 1);
    }
}
