//! Objects that a statement names, by its words: enough to know what a refusal leaves missing.

/// Words in lower case: identifiers and keywords; quoted names lose their quotes.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Whether `text` begins with one of some keywords.
pub(super) fn starts_with_any(text: &str, heads: &[&str]) -> bool {
    let text = words(text).take(3).collect::<Vec<_>>().join(" ");
    heads.iter().any(|head| text == *head || text.strip_prefix(head).is_some_and(|rest| rest.starts_with(' ')))
}

/// Kinds of objects and the words that may stand between CREATE and them.
const KINDS: [&str; 22] = [
    "table",
    "view",
    "index",
    "sequence",
    "function",
    "procedure",
    "type",
    "domain",
    "schema",
    "aggregate",
    "operator",
    "rule",
    "trigger",
    "cast",
    "role",
    "user",
    "collation",
    "extension",
    "statistics",
    "policy",
    "publication",
    "server",
];

/// The name of the object that a statement creates, without its schema.
pub(super) fn created(text: &str) -> Option<String> {
    let mut tokens = tokens(text);
    let first = tokens.next()?;
    match first.as_str() {
        "create" => {
            let kind = tokens.by_ref().take(6).find(|token| KINDS.contains(&token.as_str()))?;
            let mut name = tokens.next()?;
            while matches!(name.as_str(), "if" | "not" | "exists" | "concurrently") {
                name = tokens.next()?;
            }
            (!(kind == "index" && name == "on")).then(|| unqualified(&name))
        }
        "prepare" | "declare" => Some(unqualified(&tokens.next()?)),
        "select" | "with" => {
            let mut into = tokens.skip_while(|token| token != "into").skip(1);
            let words = ["table", "temp", "temporary", "unlogged", "local"];
            into.find(|token| !words.contains(&token.as_str())).map(|name| unqualified(&name))
        }
        _ => None,
    }
}

/// The table that an ALTER TABLE, or a statement about its parts, would have changed.
pub(super) fn altered_table(text: &str) -> Option<String> {
    let tokens: Vec<String> = tokens(text).collect();
    let name = |at: usize| {
        tokens[at..]
            .iter()
            .find(|token| !matches!(token.as_str(), "if" | "exists" | "only"))
            .map(|name| unqualified(name))
    };
    match (tokens.first()?.as_str(), tokens.get(1)?.as_str()) {
        ("alter" | "drop", "table" | "view" | "sequence" | "index" | "type" | "domain") => name(2),
        ("alter", "foreign") => name(3),
        ("create", _)
            if tokens.iter().any(|token| matches!(token.as_str(), "trigger" | "rule" | "index" | "policy")) =>
        {
            let on = tokens.iter().position(|token| token == "on" || token == "to")?;
            name(on + 1)
        }
        _ => None,
    }
}

/// Names of columns that an ALTER TABLE adds or renames to.
pub(super) fn added_columns(text: &str) -> Vec<String> {
    let tokens: Vec<String> = tokens(text).collect();
    if tokens.first().map(String::as_str) != Some("alter") {
        return Vec::new();
    }
    let at = |word: &str| tokens.iter().position(|token| token == word);
    let name = |from: usize| {
        tokens
            .iter()
            .skip(from + 1)
            .find(|token| !matches!(token.as_str(), "column" | "if" | "not" | "exists" | "constraint"))
    };
    [at("add").and_then(name), at("to").and_then(name)].into_iter().flatten().map(|name| unqualified(name)).collect()
}

/// Tables whose rows a statement changes, as it names them.
pub(super) fn changed_tables(text: &str) -> Vec<String> {
    let tokens: Vec<String> = tokens(text).collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = |skip: usize| tokens.get(at + skip).map(String::as_str);
        let name = match (token.as_str(), next(1)) {
            ("insert" | "merge", Some("into")) | ("delete", Some("from")) => {
                if next(2) == Some("only") {
                    next(3)
                } else {
                    next(2)
                }
            }
            ("update", Some("only")) => next(2),
            ("update", Some(name))
                if name != "set" && name != "of" && at.checked_sub(1).is_none_or(|at| tokens[at] != "for") =>
            {
                next(1)
            }
            ("copy", Some(_)) if at == 0 => next(1),
            ("truncate", Some("table")) if at == 0 => next(2),
            ("truncate", Some(_)) if at == 0 => next(1),
            _ => None,
        };
        found.extend(
            name.filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"'))
                .map(str::to_owned),
        );
    }
    found
}

/// Other forms of a CREATE that Millrace may accept, so that what uses the object can be compared.
pub(super) fn without_extras(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    if !lower.starts_with("create") {
        return Vec::new();
    }
    let mut form = text.to_owned();
    for extra in [" temporary ", " temp ", " global ", " local ", " unlogged "] {
        form = replace_word(&form, extra, " ");
    }
    for extra in ["match full", "on commit delete rows", "on commit preserve rows", "on commit drop"] {
        form = replace_word(&form, extra, "");
    }
    let types = ["timestamp", "timestamptz", "time", "timetz", "interval"];
    for name in types {
        for digits in 0..7 {
            form = replace_word(&form, &format!("{name}({digits})"), name);
            form = replace_word(&form, &format!("{name} ({digits})"), name);
        }
    }
    form = name_as_text(&form);
    if let Some(at) = form.to_ascii_lowercase().find(" include ") {
        let end = form[at..].find(')').map_or(form.len(), |end| at + end + 1);
        form.replace_range(at..end, "");
    }
    if form == text { Vec::new() } else { vec![form] }
}

/// Columns of type `name` become `text`: the word follows a column's name and ends there.
fn name_as_text(text: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '"';
    let (mut found, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("name") {
        let (before, after) = (&rest[..at], &rest[at + 4..]);
        let blank = before.ends_with(char::is_whitespace);
        let column = blank && before.trim_end().ends_with(is_word) && !after.starts_with(is_word);
        found.push_str(before);
        found.push_str(if column { "text" } else { "name" });
        rest = after;
    }
    found + rest
}

fn replace_word(text: &str, old: &str, new: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = text.to_ascii_lowercase().find(old) {
        text.replace_range(at..at + old.len(), new);
    }
    text
}

fn unqualified(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_lowercase()
}

/// Words with dots and quotes as they stand, in lower case outside of quotes; comments and texts are skipped.
fn tokens(text: &str) -> impl Iterator<Item = String> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\'' => {
                at += 1 + bytes[at + 1..].iter().position(|&byte| byte == b'\'').map_or(bytes.len(), |end| end + 1)
            }
            b'-' if bytes[at..].starts_with(b"--") => {
                at += bytes[at..].iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len() - at);
            }
            byte if byte == b'_' || byte == b'"' || byte.is_ascii_alphanumeric() || byte >= 0x80 => {
                while at < bytes.len() {
                    match bytes[at] {
                        b'"' => {
                            at += 1 + bytes[at + 1..]
                                .iter()
                                .position(|&byte| byte == b'"')
                                .map_or(bytes.len(), |end| end + 1);
                        }
                        byte if byte == b'_'
                            || byte == b'.'
                            || byte == b'$'
                            || byte.is_ascii_alphanumeric()
                            || byte >= 0x80 =>
                        {
                            at += 1;
                        }
                        _ => break,
                    }
                }
                at = at.min(bytes.len());
                let token = &text[start..at];
                found.push(if token.contains('"') { token.to_owned() } else { token.to_lowercase() });
            }
            _ => at += 1,
        }
        at = at.min(bytes.len());
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_in_the_text() {
        for (text, expected) in [
            ("CREATE TEMP TABLE IF NOT EXISTS s.\"Foo\" (a int)", Some("foo")),
            ("create or replace function f(int) returns int", Some("f")),
            ("create unique index on t (a)", None),
            ("select 1 into temp table x from y", Some("x")),
            ("select 1", None),
            ("declare c cursor for select 1", Some("c")),
        ] {
            assert_eq!(created(text).as_deref(), expected, "{text}");
        }
        assert_eq!(altered_table("alter table only s.t add column c int").as_deref(), Some("t"));
        assert_eq!(altered_table("create trigger g before insert on t for each row").as_deref(), Some("t"));
        assert_eq!(added_columns("alter table t add column c int"), ["c"]);
        assert_eq!(
            changed_tables("with a as (insert into t values (1)) delete from only \"U\" where 'insert into x'=b"),
            ["t", "\"U\""]
        );
        assert_eq!(changed_tables("select 1 from a for update of b"), Vec::<String>::new());
        assert_eq!(
            without_extras("create temp table t (a timestamp(3), n\tname, name int)"),
            ["create table t (a timestamp, n\ttext, name int)"]
        );
        assert!(starts_with_any("SET  TRANSACTION read only", &["set transaction"]));
        assert!(!starts_with_any("settle", &["set"]));
    }
}
