//! Splits text into statements and backslash commands, at semicolons and backslashes outside quotes, dollar quotes
//! and comments; substitutes variables.

use std::collections::BTreeMap;

/// A complete statement or command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A statement, without its semicolon.
    Statement(String),
    /// A backslash command, up to the end of its line. Text before it on the line stays pending.
    Command(String),
}

/// Collects lines until statements are complete.
#[derive(Default)]
pub(super) struct Splitter {
    pending: String,
    state: State,
    /// Whether there is more than white space and comments.
    has_text: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    /// `'…'`; `escapes`: with backslash escapes, after `E`.
    Quote { escapes: bool },
    /// `"…"`
    Name,
    /// `$tag$ … $tag$`
    Dollar(String),
    /// `/* … */` at this nesting depth.
    Comment(u32),
}

impl Splitter {
    /// Whether no statement is pending.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_text && self.state == State::Plain
    }

    /// The prompt's mark for the construct that is not closed yet.
    pub(super) fn waiting_for(&self) -> &'static str {
        match self.state {
            State::Plain => "-",
            State::Quote { .. } => "'",
            State::Name => "\"",
            State::Dollar(_) => "$",
            State::Comment(_) => "*",
        }
    }

    /// Whether the text ends inside quotes or a comment.
    pub(super) fn is_inside(&self) -> bool {
        self.state != State::Plain
    }

    /// The incomplete statement.
    pub(super) fn pending(&self) -> &str {
        self.pending.trim()
    }

    /// Adds a line; returns what it completes.
    pub(super) fn push(&mut self, line: &str) -> Vec<Piece> {
        let mut done = Vec::new();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            if c == '\\' && self.state == State::Plain {
                done.push(Piece::Command(rest.trim().to_owned()));
                break;
            }
            let bytes = self.step(c, rest);
            if bytes == 0 {
                done.extend(self.take().map(Piece::Statement));
                rest = &rest[1..];
                continue;
            }
            self.pending.push_str(&rest[..bytes]);
            rest = &rest[bytes..];
        }
        self.pending.push('\n');
        done
    }

    /// Takes the pending statement; the last one needs no semicolon.
    pub(super) fn finish(&mut self) -> Option<String> {
        let text = self.take();
        self.clear();
        text
    }

    /// Discards the pending statement.
    pub(super) fn clear(&mut self) {
        *self = Splitter::default();
    }

    fn take(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.pending);
        let has_text = std::mem::take(&mut self.has_text);
        has_text.then(|| text.trim().to_owned())
    }

    /// Advances over the first construct of `rest`; returns its length in bytes, or 0 at the semicolon that ends
    /// the statement.
    fn step(&mut self, c: char, rest: &str) -> usize {
        match self.state.clone() {
            State::Plain => return self.plain(c, rest),
            State::Quote { escapes } => match c {
                '\\' if escapes => return 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                // A doubled quote closes and reopens the literal.
                '\'' => self.state = State::Plain,
                _ => {}
            },
            State::Name if c == '"' => self.state = State::Plain,
            State::Dollar(tag) if rest.starts_with(&tag) => {
                self.state = State::Plain;
                return tag.len();
            }
            State::Comment(depth) if rest.starts_with("*/") => {
                self.state = if depth > 1 { State::Comment(depth - 1) } else { State::Plain };
                return 2;
            }
            State::Comment(depth) if rest.starts_with("/*") => {
                self.state = State::Comment(depth + 1);
                return 2;
            }
            State::Name | State::Dollar(_) | State::Comment(_) => {}
        }
        c.len_utf8()
    }

    fn plain(&mut self, c: char, rest: &str) -> usize {
        if rest.starts_with("--") {
            return rest.len();
        }
        if rest.starts_with("/*") {
            self.state = State::Comment(1);
            return 2;
        }
        let in_word = self.pending.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        match c {
            ';' => return 0,
            '\'' => self.state = State::Quote { escapes: self.follows_escape_mark() },
            '"' => self.state = State::Name,
            '$' if !in_word => {
                if let Some(tag) = dollar_tag(rest) {
                    self.state = State::Dollar(tag.to_owned());
                    self.has_text = true;
                    return tag.len();
                }
            }
            _ => {}
        }
        self.has_text |= !c.is_whitespace();
        c.len_utf8()
    }

    /// Whether the text ends with a separate `E`, which starts an escape string.
    fn follows_escape_mark(&self) -> bool {
        let mut before = self.pending.chars().rev();
        matches!(before.next(), Some('e' | 'E')) && !before.next().is_some_and(|c| c.is_alphanumeric() || c == '_')
    }
}

/// Replaces `:name`, `:'name'` and `:"name"` by the variable's value, as text, literal and identifier. Unknown
/// names are left unchanged, as in psql: `a[1:n]` and `::int` are SQL.
pub(super) fn interpolate(sql: &str, variables: &BTreeMap<String, String>) -> String {
    if variables.is_empty() || !sql.contains(':') {
        return sql.to_owned();
    }
    let (mut walk, mut out, mut rest) = (Splitter::default(), String::with_capacity(sql.len()), sql);
    while let Some(c) = rest.chars().next() {
        if c == ':' && walk.state == State::Plain {
            let is_cast = rest.starts_with("::");
            if !is_cast && let Some((value, bytes)) = variable(rest, variables) {
                out.push_str(&value);
                walk.pending.push(' ');
                rest = &rest[bytes..];
                continue;
            }
            let bytes = if is_cast { 2 } else { 1 };
            out.push_str(&rest[..bytes]);
            walk.pending.push_str(&rest[..bytes]);
            rest = &rest[bytes..];
            continue;
        }
        let bytes = walk.step(c, rest).max(1);
        out.push_str(&rest[..bytes]);
        walk.pending.push_str(&rest[..bytes]);
        rest = &rest[bytes..];
    }
    out
}

/// The substitution for the variable at the start of `rest`, and the length of its reference.
fn variable(rest: &str, variables: &BTreeMap<String, String>) -> Option<(String, usize)> {
    let quote = rest[1..].chars().next().filter(|c| matches!(c, '\'' | '"'));
    let start = 1 + usize::from(quote.is_some());
    let length = rest[start..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len() - start);
    let value = variables.get(&rest[start..start + length])?;
    let end = start + length;
    match quote {
        None => Some((value.clone(), end)),
        Some(quote) => {
            let closed = rest[end..].starts_with(quote);
            let doubled = value.replace(quote, &format!("{quote}{quote}"));
            closed.then(|| (format!("{quote}{doubled}{quote}"), end + 1))
        }
    }
}

fn dollar_tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 2;
    let name = &rest[1..end - 1];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !name.starts_with(|c: char| c.is_ascii_digit())).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut splitter = Splitter::default();
        let pieces: Vec<Piece> = text.lines().flat_map(|line| splitter.push(line)).collect();
        let mut done: Vec<String> = pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Statement(text) => text,
                Piece::Command(text) => format!("command {text}"),
            })
            .collect();
        done.extend(splitter.finish());
        done
    }

    #[test]
    fn semicolons_inside_quotes_and_comments_do_not_split() {
        let cases: [(&str, &[&str]); 14] = [
            ("SELECT 1 \\gx", &["command \\gx", "SELECT 1"]),
            ("SELECT 1; \\d t\nSELECT '\\d'", &["SELECT 1", "command \\d t", "SELECT '\\d'"]),
            ("/* \\q */ SELECT $$\\q$$ -- \\q", &["/* \\q */ SELECT $$\\q$$ -- \\q"]),
            ("SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            ("SELECT ';'; x", &["SELECT ';'", "x"]),
            ("SELECT 'it''s;'; x", &["SELECT 'it''s;'", "x"]),
            (r"SELECT E'\';'; x", &[r"SELECT E'\';'", "x"]),
            (r"SELECT '\'; x", &[r"SELECT '\'", "x"]),
            ("SELECT \"a;b\"; x", &["SELECT \"a;b\"", "x"]),
            ("SELECT $$a;b$$, $q$;$$;$q$; x", &["SELECT $$a;b$$, $q$;$$;$q$", "x"]),
            ("SELECT $1; x", &["SELECT $1", "x"]),
            ("SELECT 1 -- no; end\n; x", &["SELECT 1 -- no; end", "x"]),
            ("/* a; /* b; */ c; */ SELECT 1;", &["/* a; /* b; */ c; */ SELECT 1"]),
            (" ;; -- nothing\n /* ; */ ", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn the_prompt_shows_the_open_construct_of_a_statement() {
        let mut splitter = Splitter::default();
        assert!(splitter.push("SELECT 'a").is_empty());
        assert_eq!(splitter.waiting_for(), "'");
        assert!(splitter.is_inside());
        assert_eq!(splitter.push("b';"), [Piece::Statement("SELECT 'a\nb'".to_owned())]);
        assert!(splitter.is_empty());
    }

    #[test]
    fn variables_are_replaced_outside_quotes_only() {
        let variables = BTreeMap::from([("n".to_owned(), "it's".to_owned()), ("k".to_owned(), "5".to_owned())]);
        for (sql, expected) in [
            ("SELECT :k", "SELECT 5"),
            ("SELECT :'n', :\"n\"", "SELECT 'it''s', \"it's\""),
            ("SELECT ':k' -- :k", "SELECT ':k' -- :k"),
            ("SELECT x::k, a[1:z], :other, :'k", "SELECT x::k, a[1:z], :other, :'k"),
            ("SELECT $$:k$$, E'\\':k', \"µ\" = :k", "SELECT $$:k$$, E'\\':k', \"µ\" = 5"),
        ] {
            assert_eq!(interpolate(sql, &variables), expected, "{sql}");
        }
    }
}
