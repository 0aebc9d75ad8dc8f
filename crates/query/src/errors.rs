//! Positions of errors in the client's text, and similar names for hints.

use model::{Error, SqlState};

use crate::statement::{NO_PLACE, Parsed};

/// Adds the position of the name that the message quotes, if it occurs in the statement.
pub(crate) fn locate(error: Error, parsed: &Parsed) -> Error {
    let names_something = matches!(
        error.state(),
        SqlState::UNDEFINED_COLUMN
            | SqlState::UNDEFINED_TABLE
            | SqlState::UNDEFINED_FUNCTION
            | SqlState::AMBIGUOUS_COLUMN
            | SqlState::GROUPING_ERROR
            | SqlState::INVALID_TEXT_REPRESENTATION
            | SqlState::INVALID_DATETIME_FORMAT
            | SqlState::DUPLICATE_COLUMN
    );
    if error.position().is_some() || !names_something || parsed.offset == NO_PLACE {
        return error;
    }
    match quoted(error.message()).and_then(|name| find_name(&parsed.sql, &name)) {
        Some(at) => error.with_position(parsed.offset + at + 1),
        None => error,
    }
}

/// The text in quotes, without its qualifier; or the name before the parenthesis ("function f(integer) does not
/// exist").
fn quoted(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("function ") {
        return rest.split('(').next().map(str::to_owned);
    }
    let start = message.find('"')?;
    let rest = &message[start + 1..];
    let name = rest[..rest.rfind('"')?].to_owned();
    Some(name.rsplit("\".\"").next().unwrap_or(&name).to_owned())
}

/// The number of characters before the first occurrence of `name` as a whole word.
fn find_name(sql: &str, name: &str) -> Option<u32> {
    if name.is_empty() {
        return None;
    }
    let lower = sql.to_ascii_lowercase();
    let needle = name.to_ascii_lowercase();
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    lower.match_indices(&needle).find_map(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + needle.len()..].chars().next();
        let whole = !inside(before) && !inside(after);
        whole.then(|| u32::try_from(lower[..at].chars().count()).unwrap_or(u32::MAX))
    })
}

/// The most similar of `names`, if it differs from `name` by at most 1 to 3 edits, depending on its length.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 2).clamp(1, 3);
    names.map(|other| (distance(name, other), other)).filter(|(far, _)| *far <= limit).min().map(|(_, other)| other)
}

/// Levenshtein distance of two names, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["time", "temperature", "dev"];
        assert_eq!(nearest("tempertaure", names.into_iter()), Some("temperature"));
        assert_eq!(nearest("tiem", names.into_iter()), Some("time"));
        assert_eq!(nearest("pressure", names.into_iter()), None);
    }

    #[test]
    fn positions_point_at_whole_words() {
        assert_eq!(find_name("SELECT abc, é, ab FROM t", "ab"), Some(15));
        assert_eq!(quoted("relation \"s\".\"t\" does not exist").as_deref(), Some("t"));
    }
}
