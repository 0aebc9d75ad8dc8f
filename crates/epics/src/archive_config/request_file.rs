//! Request files of autosave and BURT: a PV a line.
//!
//! ```text
//! # comment, as is a line that begins with %
//! $(P)m1.VAL                     first word of a line; words behind it are ignored
//! RO $(P)m2.RBV                  BURT: RO, RON, WO and NOT before a name are ignored
//! file motor.req P=$(P),M=m3     lines of another file with these macros, and no others
//! ```
//!
//! Macros are expanded in the whole line: `$(NAME)`, `${NAME}`, and with a default `$(NAME=TEXT)`.

use std::collections::BTreeMap;
use std::io;

use super::{Parsed, Request, decode, name_rule};

/// Values of macros by name. A value may have macros itself.
pub type Macros = BTreeMap<String, String>;

/// Returns the bytes of an included file by its name.
pub type Resolver<'a> = &'a mut dyn FnMut(&str) -> io::Result<Vec<u8>>;

/// Files that are open at a time, each included by the one before.
const DEPTH_MAX: usize = 16;
/// Files included in all.
const FILES_MAX: usize = 1_000;
/// Macros within values of macros.
const EXPANSION_DEPTH_MAX: usize = 16;
/// Macros replaced in a line, with those within values.
const EXPANSIONS_MAX: usize = 1_000;
/// Longest line with macros after expansion, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Parses a request file.
///
/// - `file`: name for problems.
/// - `resolve`: without it, included files are reported as problems.
pub fn parse_request_file(file: &str, bytes: &[u8], macros: &Macros, resolve: Option<Resolver<'_>>) -> Parsed {
    let mut parser = Parser { parsed: Parsed::default(), resolve, open: Vec::new(), files: 0 };
    parser.file(file, bytes, macros);
    parser.parsed
}

struct Parser<'a> {
    parsed: Parsed,
    resolve: Option<Resolver<'a>>,
    /// Names of the open files.
    open: Vec<String>,
    files: usize,
}

impl Parser<'_> {
    fn file(&mut self, file: &str, bytes: &[u8], macros: &Macros) {
        self.open.push(file.to_owned());
        for (line, number) in decode(bytes).lines().zip(1..) {
            self.line((file, number), line.trim(), macros);
        }
        self.open.pop();
    }

    fn line(&mut self, at: (&str, u32), line: &str, macros: &Macros) {
        if line.is_empty() || line.starts_with(['#', '%']) {
            return;
        }
        let expanded = match expand(line, macros) {
            Ok(expanded) => expanded,
            Err(Unexpanded { seen, expected }) => return self.parsed.problem(at, "macro", &seen, expected),
        };
        // A line whose macros are empty asks for nothing, as does one that they make a comment.
        let line = expanded.trim();
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        let included =
            line.strip_prefix("file").filter(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '"'));
        if let Some(rest) = included {
            return self.include(at, rest);
        }
        let name = line.split_whitespace().find(|word| !["RO", "RON", "WO", "NOT"].contains(word)).unwrap_or_default();
        match name_rule(name) {
            Some(rule) => self.parsed.problem(at, "request", line, rule),
            None => self.parsed.requests.push(Request { pv: name.to_owned(), line: at.1, ..Request::default() }),
        }
    }

    fn include(&mut self, at: (&str, u32), rest: &str) {
        let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '"');
        let end = rest.find(|c: char| c.is_whitespace() || "\"#,".contains(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let mut macros = Macros::new();
        // Quotes do not count, and spaces separate definitions like commas.
        for definition in rest.replace('"', "").split(|c: char| c.is_whitespace() || c == ',') {
            match definition.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    macros.insert(key.to_owned(), value.to_owned());
                }
                _ if definition.is_empty() => {}
                _ => return self.parsed.problem(at, "macro of an included file", definition, "NAME=TEXT"),
            }
        }
        if name.is_empty() {
            return self.parsed.problem(at, "included file", "", "a file name");
        }
        if self.open.len() >= DEPTH_MAX || self.files >= FILES_MAX || self.open.iter().any(|open| open == name) {
            return self.parsed.problem(at, "included file", name, "a file that does not include itself");
        }
        let Some(resolve) = &mut self.resolve else {
            return self.parsed.problem(at, "included file", name, "no included files: pass each file by itself");
        };
        self.files += 1;
        match resolve(name) {
            Ok(bytes) => self.file(name, &bytes, &macros),
            Err(error) => self.parsed.problem(at, "included file", name, format!("a readable file: {error}")),
        }
    }
}

/// A macro that cannot be expanded.
struct Unexpanded {
    seen: String,
    expected: &'static str,
}

fn expand(text: &str, macros: &Macros) -> Result<String, Unexpanded> {
    let mut expansion = Expansion { macros, out: String::new(), used: 0 };
    expansion.push(text, 0)?;
    Ok(expansion.out)
}

struct Expansion<'a> {
    macros: &'a Macros,
    out: String,
    /// Macros that were replaced.
    used: usize,
}

impl Expansion<'_> {
    /// Appends `text`, which is within `depth` macros.
    fn push(&mut self, text: &str, depth: usize) -> Result<(), Unexpanded> {
        let mut rest = text;
        while let Some(start) = rest.find("$(").into_iter().chain(rest.find("${")).min() {
            self.out.push_str(&rest[..start]);
            let inner = &rest[start + 2..];
            let close = if rest[start..].starts_with("$(") { ')' } else { '}' };
            let end = closing(inner, close)
                .ok_or_else(|| Unexpanded { seen: rest[start..].to_owned(), expected: "a closing bracket" })?;
            let (name, default) = match inner[..end].split_once('=') {
                Some((name, default)) => (name, Some(default)),
                None => (&inner[..end], None),
            };
            let wrong = |expected| Unexpanded { seen: name.to_owned(), expected };
            let value = self.macros.get(name.trim()).map(String::as_str).or(default);
            let value = value.ok_or_else(|| wrong("a macro with a value or a default"))?;
            self.used += 1;
            if depth == EXPANSION_DEPTH_MAX || self.used > EXPANSIONS_MAX {
                return Err(wrong("a macro that does not contain itself"));
            }
            self.push(value, depth + 1)?;
            if self.out.len() > LINE_BYTES_MAX {
                return Err(wrong("a line of up to 4096 bytes"));
            }
            rest = &inner[end + 1..];
        }
        self.out.push_str(rest);
        Ok(())
    }
}

/// Place of the bracket that ends a macro, behind those that end macros within its default.
fn closing(text: &str, close: char) -> Option<usize> {
    let open = if close == ')' { '(' } else { '{' };
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            if depth == 0 {
                return Some(at);
            }
            depth -= 1;
        }
    }
    None
}
