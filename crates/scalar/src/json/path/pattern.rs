//! Patterns of `like_regex`.

use model::{Error, Result, SqlState};
use regex::RegexBuilder;

use super::ast::Pattern;

/// Flags in the order in which they are printed.
const FLAGS: [char; 5] = ['i', 's', 'm', 'x', 'q'];
/// Largest compiled pattern in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Compiles a pattern with XQuery's flags.
///
/// # Errors
/// 42601 for an unknown flag, 0A000 for `x`, 2201B for an invalid pattern.
pub(super) fn pattern(text: String, flags: &str) -> Result<Pattern> {
    if let Some(unknown) = flags.chars().find(|flag| !FLAGS.contains(flag)) {
        let detail = format!("Unrecognized flag character \"{unknown}\" in LIKE_REGEX predicate.");
        return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid input syntax for type jsonpath").with_detail(detail));
    }
    let has = |flag: char| flags.contains(flag);
    if has('x') && !has('q') {
        let text = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(Error::unsupported(text));
    }
    let source = if has('q') { regex::escape(&text) } else { translated(&text) };
    let regex = RegexBuilder::new(&source)
        .case_insensitive(has('i'))
        .dot_matches_new_line(has('s') && !has('q'))
        .multi_line(has('m') && !has('q'))
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| invalid(&error))?;
    Ok(Pattern { text, flags: FLAGS.into_iter().filter(|flag| has(*flag)).collect(), regex })
}

/// The pattern in the syntax of the crate `regex`, which has other escapes than PostgreSQL's regular expressions.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(one) = chars.next() {
        if one != '\\' {
            out.push(one);
            continue;
        }
        match chars.next() {
            Some('b') => out.push_str("\\x08"),
            Some('B') => out.push_str("\\\\"),
            Some('e') => out.push_str("\\x1B"),
            Some('y') => out.push_str("\\b"),
            Some('Y') => out.push_str("\\B"),
            Some('m') => out.push_str("\\b{start}"),
            Some('M') => out.push_str("\\b{end}"),
            Some('Z') => out.push_str("\\z"),
            other => {
                out.push('\\');
                out.extend(other);
            }
        }
    }
    out
}

fn invalid(error: &regex::Error) -> Error {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let reason = if reason.contains("unclosed group") || reason.contains("unopened group") {
        "parentheses () not balanced"
    } else {
        reason
    };
    Error::new(SqlState("2201B"), format!("invalid regular expression: {reason}"))
}
