//! Names of PVs in requests: prefixes, fields, patterns and lists.

use std::collections::HashSet;
use std::sync::Arc;

use model::{Error, Result, SqlState};
use regex::{Regex, RegexBuilder};

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

/// Patterns and names of one list, at most.
const PATTERNS_MAX: usize = 1_000;
/// Bytes that a compiled expression may take: its cost for each name grows with them.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A pattern of whole names: `*` is any text, `?` one character.
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 22023 if it is too long, here and below.
    pub(crate) fn new(pattern: &str) -> Result<Pattern> {
        let mut text = String::from("^");
        for c in pattern.chars() {
            match c {
                '*' => text.push_str(".*"),
                '?' => text.push('.'),
                c => text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            }
        }
        text.push('$');
        compile(&text).map(Pattern)
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

fn compile(text: &str) -> Result<Regex> {
    let regex = RegexBuilder::new(text).size_limit(COMPILED_BYTES_MAX).build();
    regex.map_err(|error| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("regular expression \"{text}\": {error}"))
    })
}

/// Names that a pattern matches.
///
/// # Errors
/// 22023, here and below.
pub(crate) fn matching(names: &[Arc<str>], pattern: &str) -> Result<Vec<Arc<str>>> {
    let pattern = Pattern::new(pattern)?;
    Ok(names.iter().filter(|name| pattern.matches(name)).cloned().collect())
}

/// Names that a regular expression matches as a whole. Braces that are no repetition stand for themselves: names
/// have them, and clients do not escape them.
pub(crate) fn matching_regex(names: &[Arc<str>], text: &str) -> Result<Vec<Arc<str>>> {
    let whole = |text: &str| compile(&format!("^(?:{text})$"));
    let regex = match whole(text) {
        Ok(regex) => regex,
        Err(error) => whole(&text.replace('{', r"\{").replace('}', r"\}")).map_err(|_| error)?,
    };
    Ok(names.iter().filter(|name| regex.is_match(name)).cloned().collect())
}

/// Names of a list that is separated by commas or line ends; patterns stand for those of `all` that they match.
pub(crate) fn expand(all: &[Arc<str>], list: &str) -> Result<Vec<Arc<str>>> {
    let (mut names, mut seen, mut patterns) = (Vec::new(), HashSet::new(), 0);
    for name in list.split([',', '\n', '\r']).map(str::trim).filter(|name| !name.is_empty()) {
        let found = if is_pattern(name) {
            patterns += 1;
            if patterns > PATTERNS_MAX {
                let text = format!("the list has more than {PATTERNS_MAX} patterns");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
            }
            matching(all, name)?
        } else {
            vec![name.into()]
        };
        names.extend(found.into_iter().filter(|name| seen.insert(Arc::clone(name))));
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
            assert_eq!(Pattern::new(pattern).unwrap().matches(name), expected, "{pattern} {name}");
        }
    }
}
