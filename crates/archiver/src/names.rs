//! Names of PVs in requests: prefixes, fields, patterns and lists.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use regex::Regex;

use crate::registry::Registry;

/// Bytes of a PV's name, at most: a channel name of an IOC has 60, one with a field or modifier more.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A name without `ca://`, `pva://` and `.VAL`.
pub(crate) fn normal(name: &str) -> &str {
    let name = name.trim();
    let name = name.strip_prefix("ca://").or_else(|| name.strip_prefix("pva://")).unwrap_or(name);
    name.strip_suffix(".VAL").unwrap_or(name)
}

/// Checks a name that is to be archived.
///
/// # Errors
/// 22023 with the name and what is wrong with it.
pub(crate) fn check(name: &str) -> Result<()> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "*?,\"'".contains(c);
    let wrong = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!("it has {} bytes, at most {NAME_BYTES_MAX} are allowed", name.len())
    } else if let Some(odd) = name.chars().find(|c| is_odd(*c)) {
        format!("it has the character {odd:?}")
    } else {
        return Ok(());
    };
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{name}\" is no name of a PV: {wrong}")))
}

/// Whether a name is a pattern.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// A regular expression for whole names that a pattern matches: `*` is any text, `?` one character.
fn of_pattern(pattern: &str) -> Result<Regex> {
    let mut text = String::from("^");
    for c in pattern.chars() {
        match c {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            c => text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    text.push('$');
    compile(&text)
}

fn compile(text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|error| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("regular expression \"{text}\": {error}"))
    })
}

/// Whether a pattern matches a name.
///
/// # Errors
/// 22023 if the pattern is too long.
pub(crate) fn matches(pattern: &str, name: &str) -> Result<bool> {
    if !is_pattern(pattern) {
        return Ok(pattern == name);
    }
    Ok(of_pattern(pattern)?.is_match(name))
}

/// Names and aliases of archived PVs that a pattern matches, sorted.
///
/// # Errors
/// 22023, here and below.
pub(crate) fn matching(registry: &Registry, pattern: &str) -> Result<Vec<Arc<str>>> {
    filter(registry, &of_pattern(pattern)?)
}

/// Names and aliases of archived PVs that a regular expression matches as a whole, sorted. Braces that are no repetition
/// stand for themselves: names have them, and clients do not escape them.
pub(crate) fn matching_regex(registry: &Registry, text: &str) -> Result<Vec<Arc<str>>> {
    let whole = |text: &str| compile(&format!("^(?:{text})$"));
    let regex = match whole(text) {
        Ok(regex) => regex,
        Err(error) => whole(&text.replace('{', r"\{").replace('}', r"\}")).map_err(|_| error)?,
    };
    filter(registry, &regex)
}

fn filter(registry: &Registry, regex: &Regex) -> Result<Vec<Arc<str>>> {
    let aliases = registry.aliases.keys().map(|alias| Arc::from(alias.as_str()));
    let mut names: Vec<Arc<str>> = registry.names().into_iter().chain(aliases).collect();
    names.retain(|name| regex.is_match(name));
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Names of a list that is separated by commas or line ends; patterns stand for the PVs that they match.
pub(crate) fn expand(registry: &Registry, list: &str) -> Result<Vec<Arc<str>>> {
    let mut names = Vec::new();
    for name in list.split([',', '\n', '\r']).map(str::trim).filter(|name| !name.is_empty()) {
        if is_pattern(name) {
            names.extend(matching(registry, name)?);
        } else {
            names.push(name.into());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_val_are_not_part_of_a_name() {
        for (name, expected) in
            [("A:B.VAL", "A:B"), ("ca://A", "A"), ("pva://A.VAL", "A"), ("A.HIHI", "A.HIHI"), (" A ", "A")]
        {
            assert_eq!(normal(name), expected);
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["SR:01:BPM-X_3.A[0]", "a{b}<c>;d", "A.B$"] {
            check(name).unwrap();
        }
        for (name, wrong) in [("", "empty"), ("a b", "' '"), ("a*", "'*'"), (&"a".repeat(256), "256 bytes")] {
            assert!(check(name).unwrap_err().message().contains(wrong), "{name}");
        }
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, expected) in [
            ("*", "x", true),
            ("A:*", "A:b", true),
            ("A:*", "xA:b", false),
            ("A?", "A1", true),
            ("A?", "A", false),
            ("a.b*", "axb", false),
        ] {
            assert_eq!(matches(pattern, name).unwrap(), expected, "{pattern} {name}");
        }
    }
}
