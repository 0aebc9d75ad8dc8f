//! Reads a script as psql does: statements, backslash commands, variables, conditions and the data of COPY.
//!
//! Always true
//! - A script is read step by step, because `\gset` sets variables that later text uses, and because the lines after a COPY
//!   are data only if the server asks for them.
//! - A step's line is where its text begins, counted from 1.

use std::collections::HashMap;
use std::mem::take;

/// psql's variables.
pub(super) type Variables = HashMap<String, String>;

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A text for the server. Its results go to `then`.
    Query { text: String, line: usize, then: Then },
    /// A backslash command with its arguments, after variables.
    Command { name: String, arguments: Vec<String> },
}

/// psql's use of a query's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Print it.
    Show,
    /// `\gset`: each column becomes a variable of its name after a prefix.
    Set(String),
    /// `\gexec`: each field is a statement to run.
    Execute,
    /// `\gdesc`, which describes the result instead of running the query.
    Describe,
}

/// A script and the place that reading has reached.
pub(super) struct Script {
    text: Vec<u8>,
    at: usize,
    line: usize,
    /// One entry for each open `\if`.
    conditions: Vec<Condition>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// This branch runs.
    Active,
    /// No branch was taken yet.
    Waiting,
    /// An earlier branch was taken.
    Over,
}

/// Text gathered up to here, and what it is within.
#[derive(Default)]
struct Gathered {
    text: Vec<u8>,
    line: usize,
    parentheses: usize,
    /// Depth of `BEGIN ATOMIC … END` in the body of a function.
    bodies: usize,
    words: Vec<String>,
}

impl Script {
    pub(super) fn new(text: &str) -> Script {
        Script { text: text.as_bytes().to_vec(), at: 0, line: 1, conditions: Vec::new() }
    }

    /// The next step, or `None` at the end.
    pub(super) fn next(&mut self, variables: &Variables) -> Option<Step> {
        let mut gathered = Gathered::default();
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                let text = take(&mut gathered.text);
                return self.query(&gathered, text, Then::Show);
            };
            if byte == b'\\' {
                if self.text.get(self.at + 1) == Some(&b';') {
                    self.at += 2;
                    gathered.text.push(b';');
                    continue;
                }
                let text = take(&mut gathered.text);
                if let Some(step) = self.backslash(&mut gathered, text, variables) {
                    return Some(step);
                }
                continue;
            }
            if byte == b';' && gathered.parentheses == 0 && gathered.bodies == 0 {
                self.at += 1;
                let text = take(&mut gathered.text);
                match self.query(&gathered, text, Then::Show) {
                    Some(step) => return Some(step),
                    None => gathered = Gathered::default(),
                }
                continue;
            }
            self.gather(&mut gathered, variables);
        }
    }

    /// The lines up to `\.`, which COPY … FROM STDIN reads.
    pub(super) fn copy_data(&mut self) -> String {
        self.skip_line();
        let mut data = String::new();
        while self.at < self.text.len() {
            let line = self.take_line();
            if line == "\\." {
                break;
            }
            data.push_str(&line);
            data.push('\n');
        }
        data
    }

    fn active(&self) -> bool {
        self.conditions.iter().all(|condition| *condition == Condition::Active)
    }

    fn query(&self, gathered: &Gathered, text: Vec<u8>, then: Then) -> Option<Step> {
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        (!text.is_empty() && self.active()).then_some(Step::Query { text, line: gathered.line, then })
    }

    /// A backslash command; `text` is the query buffer before it.
    fn backslash(&mut self, gathered: &mut Gathered, text: Vec<u8>, variables: &Variables) -> Option<Step> {
        self.at += 1;
        let line = self.rest_of_command();
        let (name, rest) = match line.find(|letter: char| letter.is_whitespace()) {
            Some(end) => line.split_at(end),
            None => (line.as_str(), ""),
        };
        let arguments = arguments(rest, variables);
        if self.condition(name, &arguments) || !self.active() {
            gathered.text = text;
            return None;
        }
        let then = match name {
            "g" | "gx" | "crosstabview" => Then::Show,
            "gset" => Then::Set(arguments.first().cloned().unwrap_or_default()),
            "gexec" => Then::Execute,
            "gdesc" => Then::Describe,
            "r" | "reset" => {
                *gathered = Gathered::default();
                return None;
            }
            _ => {
                gathered.text = text;
                // A command in the middle of a query leaves the buffer; all of these scripts print or set something there.
                return gathered.text.is_empty().then(|| Step::Command { name: name.to_owned(), arguments });
            }
        };
        let step = self.query(gathered, text, then);
        *gathered = Gathered::default();
        step
    }

    /// Follows `\if` and its kin; whether `name` is one of them.
    fn condition(&mut self, name: &str, arguments: &[String]) -> bool {
        let holds = || {
            arguments
                .first()
                .is_some_and(|word| matches!(word.to_lowercase().as_str(), "1" | "t" | "true" | "on" | "y" | "yes"))
        };
        match name {
            "if" => self.conditions.push(if holds() { Condition::Active } else { Condition::Waiting }),
            "elif" | "else" => {
                if let Some(last) = self.conditions.last_mut() {
                    *last = match *last {
                        Condition::Waiting if name == "else" || holds() => Condition::Active,
                        Condition::Waiting => Condition::Waiting,
                        Condition::Active | Condition::Over => Condition::Over,
                    };
                }
            }
            "endif" => {
                self.conditions.pop();
            }
            _ => return false,
        }
        true
    }

    /// Copies one token of SQL into the buffer.
    fn gather(&mut self, gathered: &mut Gathered, variables: &Variables) {
        let start = self.at;
        let byte = self.text[start];
        if gathered.text.is_empty() {
            if byte.is_ascii_whitespace() {
                self.advance(1);
                return;
            }
            if self.text[start..].starts_with(b"--") {
                self.skip_line();
                return;
            }
            gathered.line = self.line;
        }
        let rest = &self.text[start..];
        match byte {
            b'\'' => {
                let escapes = matches!(gathered.text.last(), Some(b'e' | b'E'))
                    && !gathered.text.len().checked_sub(2).is_some_and(|at| is_word(gathered.text[at]));
                self.advance(quoted(rest, b'\'', escapes));
            }
            b'"' => self.advance(quoted(rest, b'"', false)),
            b'-' if rest.starts_with(b"--") => {
                let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                self.advance(end);
            }
            b'/' if rest.starts_with(b"/*") => self.advance(comment(rest)),
            b'$' if !gathered.text.last().is_some_and(|&byte| is_word(byte)) => {
                let length = dollar_quoted(rest).unwrap_or(1);
                self.advance(length);
            }
            b':' => {
                if let Some((value, length)) = variable(rest, variables) {
                    self.advance(length);
                    gathered.text.extend_from_slice(value.as_bytes());
                    return;
                }
                let length = rest.iter().take_while(|&&byte| byte == b':').count();
                self.advance(length);
            }
            _ if is_word(byte) => {
                let length = rest.iter().take_while(|&&byte| is_word(byte) || byte == b'$').count();
                gathered.word(&rest[..length]);
                self.advance(length);
            }
            _ => {
                match byte {
                    b'(' => gathered.parentheses += 1,
                    b')' => gathered.parentheses = gathered.parentheses.saturating_sub(1),
                    _ => {}
                }
                self.advance(1);
            }
        }
        gathered.text.extend_from_slice(&self.text[start..self.at]);
    }

    fn advance(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        self.line += self.text[self.at..end].iter().filter(|&&byte| byte == b'\n').count();
        self.at = end;
    }

    fn skip_line(&mut self) {
        self.take_line();
    }

    fn take_line(&mut self) -> String {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.advance(end + 1);
        line
    }

    /// A backslash command's text: up to the line's end or the next backslash outside of quotes.
    fn rest_of_command(&mut self) -> String {
        let rest = &self.text[self.at..];
        let mut end = 0;
        while end < rest.len() && rest[end] != b'\n' {
            match rest[end] {
                quote @ (b'\'' | b'"') => end += quoted(&rest[end..], quote, false).max(1),
                b'\\' if end > 0 => break,
                _ => end += 1,
            }
        }
        let line = String::from_utf8_lossy(&rest[..end.min(rest.len())]).into_owned();
        // `\\` ends a command's arguments.
        let separator = if rest[end.min(rest.len())..].starts_with(b"\\\\") { 2 } else { 0 };
        self.advance(end + separator);
        line
    }
}

impl Gathered {
    /// Follows the bodies of functions in SQL's own syntax, whose semicolons do not end the statement.
    fn word(&mut self, word: &[u8]) {
        let word = String::from_utf8_lossy(word).to_ascii_lowercase();
        let first = self.words.first().map(String::as_str);
        let makes = first == Some("create") && self.words.iter().take(4).any(|w| w == "function" || w == "procedure");
        if makes {
            match word.as_str() {
                "atomic" if self.words.last().is_some_and(|last| last == "begin") => self.bodies += 1,
                "case" if self.bodies > 0 => self.bodies += 1,
                "end" => self.bodies = self.bodies.saturating_sub(1),
                _ => {}
            }
        }
        self.words.push(word);
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Length of a quoted text, the quotes included.
fn quoted(text: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < text.len() {
        if escapes && text[at] == b'\\' {
            at += 2;
        } else if text[at] == quote {
            if text.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    text.len()
}

fn comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < text.len() && depth > 0 {
        if text[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if text[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
        } else {
            at += 1;
        }
    }
    at
}

fn dollar_quoted(text: &[u8]) -> Option<usize> {
    let end = 1 + text[1..].iter().position(|&byte| !is_word(byte))?;
    if text[end] != b'$' || text[1].is_ascii_digit() {
        return None;
    }
    let tag = &text[..=end];
    let close = text[tag.len()..].windows(tag.len()).position(|window| window == tag)?;
    Some(tag.len() + close + tag.len())
}

/// The value for `:name`, `:'name'`, `:"name"` or `:{?name}`, and the length of that text.
fn variable(text: &[u8], variables: &Variables) -> Option<(String, usize)> {
    let rest = &text[1..];
    match rest.first()? {
        quote @ (b'\'' | b'"') => {
            let end = rest[1..].iter().position(|byte| byte == quote)?;
            let value = variables.get(std::str::from_utf8(&rest[1..=end]).ok()?)?;
            let quote = char::from(*quote);
            let doubled = value.replace(quote, &format!("{quote}{quote}"));
            Some((format!("{quote}{doubled}{quote}"), end + 3))
        }
        b'{' if rest.get(1) == Some(&b'?') => {
            let end = rest.iter().position(|&byte| byte == b'}')?;
            let known = variables.contains_key(std::str::from_utf8(&rest[2..end]).ok()?);
            Some((if known { "TRUE" } else { "FALSE" }.to_owned(), end + 2))
        }
        _ => {
            let length = rest.iter().take_while(|&&byte| is_word(byte)).count();
            let value = variables.get(std::str::from_utf8(&rest[..length]).ok()?)?;
            Some((value.clone(), length + 1))
        }
    }
}

/// A backslash command's arguments: words and quoted texts, variables replaced.
fn arguments(text: &str, variables: &Variables) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at].is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let mut word = String::new();
        while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
            let length = match bytes[at] {
                b'\'' => {
                    let length = quoted(&bytes[at..], b'\'', false);
                    let inner = &text[at + 1..(at + length).saturating_sub(1).max(at + 1)];
                    word.push_str(&inner.replace("''", "'"));
                    length
                }
                b':' => match variable(&bytes[at..], variables) {
                    Some((value, length)) => {
                        word.push_str(value.trim_matches(|quote| quote == '\'' || quote == '"'));
                        length
                    }
                    None => {
                        word.push(':');
                        1
                    }
                },
                _ => {
                    let length = text[at..].chars().next().map_or(1, char::len_utf8);
                    word.push_str(&text[at..at + length]);
                    length
                }
            };
            at += length;
        }
        found.push(word);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str, variables: &Variables) -> Vec<String> {
        let mut script = Script::new(text);
        std::iter::from_fn(|| script.next(variables))
            .map(|step| match step {
                Step::Query { text, line, then } => format!("{line} {text} {then:?}"),
                Step::Command { name, arguments } => format!("\\{name} {arguments:?}"),
            })
            .collect()
    }

    #[test]
    fn scripts_are_split_as_psql_does() {
        let variables = Variables::from([("v".to_owned(), "a'b".to_owned()), ("n".to_owned(), "7".to_owned())]);
        for (text, expected) in [
            ("select 1;\n-- a comment; x\nselect 2;", vec!["1 select 1 Show", "3 select 2 Show"]),
            (
                "select ';', \"a;b\", $$x;y$$, $t$;$t$, E'\\';', /* ; /* ; */ */ 1;",
                vec!["1 select ';', \"a;b\", $$x;y$$, $t$;$t$, E'\\';', /* ; /* ; */ */ 1 Show"],
            ),
            ("create rule r as do (select 1; select 2);", vec!["1 create rule r as do (select 1; select 2) Show"]),
            ("select :'v', :n, :n::int, a[1:2], :unknown;", vec!["1 select 'a''b', 7, 7::int, a[1:2], :unknown Show"]),
            (
                "select 1 as x \\gset p_\nselect 2\\gexec\n\\d t",
                vec!["1 select 1 as x Set(\"p_\")", "2 select 2 Execute", "\\d [\"t\"]"],
            ),
            ("begin\\; commit;", vec!["1 begin; commit Show"]),
            (
                "\\if :{?n}\nselect 1;\n\\else\nselect 2;\n\\endif\n\\if false\nselect 3;\n\\endif\nselect 4;",
                vec!["2 select 1 Show", "9 select 4 Show"],
            ),
            (
                "create function f() returns int begin atomic select 1; select case when true then 1 end; end;\nselect 5;",
                vec![
                    "1 create function f() returns int begin atomic select 1; select case when true then 1 end; end Show",
                    "2 select 5 Show",
                ],
            ),
        ] {
            assert_eq!(steps(text, &variables), expected, "{text}");
        }
    }

    #[test]
    fn data_of_copy_ends_at_its_mark() {
        let mut script = Script::new("copy t from stdin;\n1\t2\n3\t;\n\\.\nselect 1;");
        let none = Variables::new();
        assert!(matches!(script.next(&none), Some(Step::Query { .. })));
        assert_eq!(script.copy_data(), "1\t2\n3\t;\n");
        assert!(matches!(script.next(&none), Some(Step::Query { line: 5, .. })));
    }
}
