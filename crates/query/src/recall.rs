//! Compiled statements that a session had before: found again by their text, without parsing or planning them.
//!
//! A text of the simple protocol has its constants in it, so it is *stripped* first: constants that are operands become parameters of the
//! types they have as constants, and what is left is looked up. Constants on which a plan could depend stay: those of ORDER BY, GROUP BY
//! and LIMIT, of calls, types and patterns. Whether a stripped text means the same is seen when it is planned: it must give the same
//! columns by the same way to the rows.

use std::borrow::Cow;

use pg::Form;
use pg::types::oid;
use rustc_hash::FxHashMap;

use crate::rows::Bound;
use crate::session::{Plan, Prepared, Session, TxnStatus};

/// Texts that a session keeps. When there are more it begins anew.
const TEXTS_MAX: usize = 256;
/// Longer texts are not kept, nor those with more constants: they are not sent again and again.
const TEXT_BYTES_MAX: usize = 4 << 10;
const CONSTANTS_MAX: usize = 128;

/// What a session remembers of texts.
#[derive(Default)]
pub(crate) struct Texts {
    /// With the types that the client declared last.
    whole: FxHashMap<Box<str>, (Box<[u32]>, Prepared)>,
    stripped: FxHashMap<Box<str>, Known>,
}

enum Known {
    /// It came once. Most texts do.
    Once,
    /// It does not mean the same without its constants.
    Never,
    Planned(Prepared),
}

impl Session {
    /// The statement that a text is, if it was [remembered](Session::remember) and is compiled, and nothing changed since that it depends on.
    pub fn recall(&mut self, text: &str, types: &[u32]) -> Option<Prepared> {
        let (declared, prepared) = self.texts.whole.get(text)?;
        if **declared != *types {
            return None;
        }
        let prepared = prepared.clone();
        if self.is_in_force(&prepared) {
            return Some(prepared);
        }
        self.texts.whole.remove(text);
        None
    }

    /// Remembers a statement, if it is compiled.
    pub fn remember(&mut self, text: &str, types: &[u32], prepared: &Prepared) {
        if matches!(prepared.0.plan, Plan::Rows(_)) && text.len() <= TEXT_BYTES_MAX {
            if self.texts.whole.len() >= TEXTS_MAX {
                self.texts.whole.clear();
            }
            self.texts.whole.insert(text.into(), (types.into(), prepared.clone()));
        }
    }

    /// As [`Session::recall`], of a text with constants: the statement with parameters in their places, and the constants.
    pub fn recall_stripped(&mut self, text: &str) -> Option<(Prepared, Bound)> {
        if self.texts.stripped.is_empty() {
            return None;
        }
        let stripped = Stripped::of(text)?;
        let Known::Planned(prepared) = self.texts.stripped.get(stripped.text.as_str())? else { return None };
        let prepared = prepared.clone();
        if !self.is_in_force(&prepared) {
            self.texts.stripped.remove(stripped.text.as_str());
            return None;
        }
        let Plan::Rows(plan) = &prepared.0.plan else { return None };
        let constants = stripped.constants.iter().map(|(_, text)| (Form::Text, Some(text.as_bytes())));
        // What cannot be read is an error with its place, which only the whole text has.
        let bound = plan.bind(constants, &self.settings).ok()?;
        Some((prepared, bound))
    }

    /// Notes that a text came, which is this statement; when it came before, but for its constants, it will be found by
    /// [`Session::recall_stripped`].
    pub fn remember_stripped(&mut self, text: &str, prepared: &Prepared) {
        let Plan::Rows(plan) = &prepared.0.plan else { return };
        let Some(stripped) = Stripped::of(text) else { return };
        let known = match self.texts.stripped.get(stripped.text.as_str()) {
            None => Known::Once,
            Some(Known::Once) => {
                self.planned(&stripped, prepared, &plan.describe()).map_or(Known::Never, Known::Planned)
            }
            Some(Known::Never | Known::Planned(_)) => return,
        };
        if self.texts.stripped.len() >= TEXTS_MAX {
            self.texts.stripped.clear();
        }
        self.texts.stripped.insert(stripped.text.into(), known);
    }

    /// A stripped text as a statement, if it is the same as the whole one.
    fn planned(&mut self, stripped: &Stripped<'_>, whole: &Prepared, way: &[String]) -> Option<Prepared> {
        let statements = crate::statement::parse(&stripped.text).ok()?;
        let [statement] = statements.as_slice() else { return None };
        let types: Vec<u32> = stripped.constants.iter().map(|(ty, _)| *ty).collect();
        let prepared = self.plan_statement(statement, &types).ok()?;
        let Plan::Rows(plan) = &prepared.0.plan else { return None };
        (prepared.0.columns == whole.0.columns && plan.describe() == way).then_some(prepared)
    }

    fn is_in_force(&mut self, prepared: &Prepared) -> bool {
        let Plan::Rows(plan) = &prepared.0.plan else { return false };
        if self.status() == TxnStatus::Failed {
            return false;
        }
        let newest = self.newest();
        plan.holds(&newest, &self.settings)
    }
}

/// A text without its constants.
struct Stripped<'a> {
    /// With `$1` and so on in their places.
    text: String,
    /// Type (0: not known) and text of each.
    constants: Vec<(u32, Cow<'a, str>)>,
}

/// What stands before a constant decides whether it is an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, or a word that takes an operand.
    Operand,
    /// The beginning of a list of operands, or a comma in it.
    List,
    Other,
}

impl<'a> Stripped<'a> {
    /// `None` for what is no single statement that reads or changes rows, or has something that is not understood here.
    fn of(sql: &'a str) -> Option<Stripped<'a>> {
        if sql.len() > TEXT_BYTES_MAX {
            return None;
        }
        let sql = sql.trim().trim_end_matches(';').trim_end();
        let first = sql.split(|c: char| !c.is_ascii_alphabetic()).next()?;
        if !["select", "insert", "update", "delete"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
            return None;
        }
        let mut lexer = Lexer { sql, at: 0, before: Before::Other, lists: Vec::new(), keeps: false };
        let mut stripped = Stripped { text: String::with_capacity(sql.len()), constants: Vec::new() };
        while lexer.at < sql.len() {
            let from = lexer.at;
            let constant = lexer.token()?;
            match constant {
                Some(constant) => {
                    if stripped.constants.len() == CONSTANTS_MAX {
                        return None;
                    }
                    stripped.constants.push(constant);
                    stripped.text.push('$');
                    stripped.text.push_str(&stripped.constants.len().to_string());
                }
                None => stripped.text.push_str(&sql[from..lexer.at]),
            }
        }
        (!stripped.constants.is_empty()).then_some(stripped)
    }
}

struct Lexer<'a> {
    sql: &'a str,
    at: usize,
    before: Before,
    /// Of each open parenthesis: is it a list of operands?
    lists: Vec<bool>,
    /// Constants stay from here on.
    keeps: bool,
}

impl<'a> Lexer<'a> {
    /// Takes the next token; `Some` of it if it is a constant that goes. `None` for what is not understood.
    fn token(&mut self) -> Option<Option<(u32, Cow<'a, str>)>> {
        let rest = &self.sql[self.at..];
        let first = rest.chars().next()?;
        match first {
            c if c.is_whitespace() => self.at += c.len_utf8(),
            '\'' => return self.string(rest),
            '0'..='9' => return self.number(rest),
            '"' => {
                let end = rest[1..].find('"')? + 2;
                self.at += end;
                self.before = Before::Other;
            }
            c if c.is_alphabetic() || c == '_' => self.word(rest)?,
            '(' => {
                let is_list = self.before != Before::Other;
                self.lists.push(is_list);
                self.before = if is_list { Before::List } else { Before::Other };
                self.at += 1;
            }
            ')' => {
                let was_list = self.lists.pop()?;
                // `), (` between rows of VALUES.
                self.before = if was_list { Before::List } else { Before::Other };
                self.at += 1;
            }
            ',' => {
                let in_list = self.lists.last().copied().unwrap_or(self.before == Before::List);
                self.before = if in_list { Before::List } else { Before::Other };
                self.at += 1;
            }
            '=' | '<' | '>' | '+' | '*' | '%' | '!' => self.operator(),
            '-' | '/' if !rest.starts_with("--") && !rest.starts_with("/*") => self.operator(),
            '|' if rest.starts_with("||") => {
                self.operator();
                self.at += 1;
            }
            ':' if rest.starts_with("::") => {
                self.at += 2;
                self.before = Before::Other;
            }
            '.' => {
                self.at += 1;
                self.before = Before::Other;
            }
            // Parameters, comments, semicolons, arrays, further operators.
            _ => return None,
        }
        Some(None)
    }

    fn operator(&mut self) {
        self.at += 1;
        self.before = Before::Operand;
    }

    fn word(&mut self, rest: &str) -> Option<()> {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        // Another kind of string: E'…', B'…', U&'…'.
        if rest[end..].starts_with(['\'', '&']) {
            return None;
        }
        let is = |words: &[&str]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
        self.keeps |= is(&["order", "group", "limit", "offset", "fetch", "like", "ilike", "similar", "partition"]);
        let takes_operand = is(&["and", "or", "not", "between", "where", "in", "values", "on", "having"]);
        self.before = if takes_operand { Before::Operand } else { Before::Other };
        self.at += end;
        Some(())
    }

    fn is_operand(&self) -> bool {
        !self.keeps && self.before != Before::Other
    }

    fn number(&mut self, rest: &'a str) -> Option<Option<(u32, Cow<'a, str>)>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let text = &rest[..end];
        let goes = self.is_operand();
        self.at += end;
        self.before = Before::Other;
        let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            && text.bytes().filter(|byte| *byte == b'.').count() == 1;
        if !goes || !(is_whole || is_decimal) {
            return Some(None);
        }
        let ty = match text.parse::<i64>() {
            Ok(value) if i32::try_from(value).is_ok() => oid::INT4,
            Ok(_) => oid::INT8,
            Err(_) => oid::NUMERIC,
        };
        Some(Some((ty, Cow::Borrowed(text))))
    }

    fn string(&mut self, rest: &'a str) -> Option<Option<(u32, Cow<'a, str>)>> {
        let mut end = 1;
        loop {
            end += rest[end..].find('\'')? + 1;
            if !rest[end..].starts_with('\'') {
                break;
            }
            end += 1;
        }
        let goes = self.is_operand();
        self.at += end;
        self.before = Before::Other;
        let text = &rest[1..end - 1];
        let text = if text.contains('\'') { Cow::Owned(text.replace("''", "'")) } else { Cow::Borrowed(text) };
        Some(goes.then_some((0, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(sql: &str) -> String {
        match Stripped::of(sql) {
            Some(Stripped { text, constants }) => {
                let constants = constants.iter().map(|(ty, text)| format!("{ty} {text}"));
                format!("{text} | {}", constants.collect::<Vec<_>>().join(", "))
            }
            None => "as it is".to_owned(),
        }
    }

    #[test]
    fn operands_go_and_what_a_plan_may_depend_on_stays() {
        for (sql, expected) in [
            ("SELECT abalance FROM a WHERE aid = 77;", "SELECT abalance FROM a WHERE aid = $1 | 23 77"),
            ("update a set b = b + -5 where id=3", "update a set b = b + -$1 where id=$2 | 23 5, 23 3"),
            (
                "INSERT INTO h (a, b) VALUES (1, 'it''s', 2.50), (3000000000, '', NULL)",
                "INSERT INTO h (a, b) VALUES ($1, $2, $3), ($4, $5, NULL) | 23 1, 0 it's, 1700 2.50, 20 3000000000, 0 ",
            ),
            (
                "DELETE FROM t WHERE a IN (1, 2) AND b BETWEEN 3 AND 4",
                "DELETE FROM t WHERE a IN ($1, $2) AND b BETWEEN $3 AND $4 | 23 1, 23 2, 23 3, 23 4",
            ),
            (
                "SELECT 1, f(2), x FROM t WHERE a = 3 ORDER BY 2 LIMIT 4",
                "SELECT 1, f(2), x FROM t WHERE a = $1 ORDER BY 2 LIMIT 4 | 23 3",
            ),
            (
                "SELECT x FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
                "SELECT x FROM t WHERE (a, b) IN (($1, $2), ($3, $4)) | 23 1, 23 2, 23 3, 23 4",
            ),
            ("SELECT x FROM t WHERE d > date '2020-01-01' AND n = round(1.5, 1)", "as it is"),
            (
                "SELECT x::numeric(12, 2) FROM t WHERE n = 1.5::numeric(5, 1)",
                "SELECT x::numeric(12, 2) FROM t WHERE n = $1::numeric(5, 1) | 1700 1.5",
            ),
            ("SELECT x FROM t WHERE s LIKE 'a%' AND n = 1", "as it is"),
            ("SELECT x FROM \"t 1\" WHERE \"a'b\" = 'q'", "SELECT x FROM \"t 1\" WHERE \"a'b\" = $1 | 0 q"),
            ("SELECT x FROM t1 WHERE a1 = 1e5", "as it is"),
            ("SELECT x FROM t WHERE a = E'x'", "as it is"),
            ("SELECT x FROM t WHERE a = $1 AND b = 2", "as it is"),
            ("SELECT 1; SELECT 2", "as it is"),
            ("SELECT x FROM t WHERE a = 1 -- that is all", "as it is"),
            ("SELECT x FROM t WHERE a = /* one */ 1", "as it is"),
            ("SELECT x FROM t WHERE a = ANY(ARRAY[1, 2])", "as it is"),
            ("SELECT x FROM t WHERE a = 'open", "as it is"),
            ("BEGIN", "as it is"),
            ("VACUUM t", "as it is"),
            ("SELECT x FROM t", "as it is"),
        ] {
            assert_eq!(stripped(sql), expected, "{sql}");
        }
    }

    #[test]
    fn texts_cut_anywhere_are_understood_or_left() {
        let texts = [
            "SELECT „ä“ FROM \"tä\" WHERE ä1 = 'ö''' AND n >= 12.5 -- ü",
            "insert into t values (1, 'zwölf', -3.), ('''', .5, 1.2.3) on conflict do nothing",
            "update t set a = a || 'é' || 7::text where b[1] = '{\"x\": 1}' -> 'x'",
            "delete from t where a in ('\u{1F600}', '') and (b, c) = (1, 2) limit 1",
        ];
        for text in texts {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let Some(stripped) = Stripped::of(&text[..cut]) else { continue };
                let mut whole = stripped.text;
                for (at, (ty, constant)) in stripped.constants.iter().enumerate().rev() {
                    let quoted = format!("'{}'", constant.replace('\'', "''"));
                    let constant = if *ty == 0 { quoted.as_str() } else { constant };
                    whole = whole.replacen(&format!("${}", at + 1), constant, 1);
                }
                assert_eq!(whole, text[..cut].trim_end());
            }
        }
    }
}
