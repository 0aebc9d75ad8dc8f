//! Trees as SQL text.
//!
//! The text is canonical: fully determined by the tree, with parentheses around every operator that is an operand of another
//! one, and names quoted where they are no plain words. It parses back to the same tree. [`sexpr`] writes the structure for
//! tests.

mod alter;
mod ddl;
mod dml;
mod expr;
mod query;
pub mod sexpr;
mod table;
mod utility;
mod view;

pub use view::{RelationText, Rewrites, rewritten, rewritten_expr, view_definition};

use std::fmt;

use crate::ast::{AlterTableAction, Expr, Ident, Name, OperatorName, Query, Statement, TypeName, interval};
use crate::ast::{ExprKind, Persistence, RoleSpec};
use crate::keyword::{Category, Keyword};

/// Unreserved words that, as names, would be taken for the words of a clause in some place.
const AMBIGUOUS: &[Keyword] = &[
    Keyword::By,
    Keyword::Current,
    Keyword::Double,
    Keyword::Groups,
    Keyword::Local,
    Keyword::No,
    Keyword::Nulls,
    Keyword::Operator,
    Keyword::Partition,
    Keyword::Prepared,
    Keyword::Range,
    Keyword::Recursive,
    Keyword::Rows,
    Keyword::Savepoint,
    Keyword::Session,
    Keyword::Set,
    Keyword::Transaction,
    Keyword::Unbounded,
];

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        printer.statement(self);
        f.write_str(&printer.out)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        printer.query(self);
        f.write_str(&printer.out)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        printer.expr(self);
        f.write_str(&printer.out)
    }
}

impl fmt::Display for AlterTableAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        printer.action(self);
        f.write_str(&printer.out)
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        printer.type_name(self);
        f.write_str(&printer.out)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        printer.name(self);
        f.write_str(&printer.out)
    }
}

/// A name as it is written: quoted unless it is a plain word.
#[must_use]
pub fn quoted_name(name: &str) -> String {
    let mut printer = Printer::default();
    printer.ident(name);
    printer.out
}

/// A text constant.
#[must_use]
pub fn quoted_text(text: &str) -> String {
    let mut printer = Printer::default();
    printer.text(text);
    printer.out
}

#[derive(Default)]
struct Printer<'r> {
    out: String,
    /// Texts in place of some nodes.
    rewrites: Option<&'r Rewrites>,
    /// The query to be printed is that of a view, in lines.
    layout: Option<view::Layout<'r>>,
    /// The item of FROM to be printed is one of that query: its joins begin lines.
    breaks_joins: bool,
}

impl Printer<'_> {
    /// Writes words as they are.
    fn put(&mut self, words: &str) {
        self.out.push_str(words);
    }

    /// Writes words, if so.
    fn put_if(&mut self, is: bool, words: &str) {
        if is {
            self.put(words);
        }
    }

    fn number(&mut self, number: impl fmt::Display) {
        use fmt::Write;
        // Writing to a text does not fail.
        let _ = write!(self.out, "{number}");
    }

    fn list<R>(&mut self, items: &[R], item: impl FnMut(&mut Self, &R)) {
        self.separated(items, ", ", item);
    }

    fn separated<R>(&mut self, items: &[R], separator: &str, mut item: impl FnMut(&mut Self, &R)) {
        for (at, one) in items.iter().enumerate() {
            self.put_if(at > 0, separator);
            item(self, one);
        }
    }

    /// `(a, b)`
    fn parens<R>(&mut self, items: &[R], item: impl FnMut(&mut Self, &R)) {
        self.put("(");
        self.list(items, item);
        self.put(")");
    }

    /// `words(a, b)`, if there is an item.
    fn opt_parens<R>(&mut self, words: &str, items: &[R], item: impl FnMut(&mut Self, &R)) {
        if !items.is_empty() {
            self.put(words);
            self.parens(items, item);
        }
    }

    /// `words a, b`, if there is an item.
    fn opt_list<R>(&mut self, words: &str, items: &[R], item: impl FnMut(&mut Self, &R)) {
        if !items.is_empty() {
            self.put(words);
            self.list(items, item);
        }
    }

    /// Words before something that may be there.
    fn opt<R>(&mut self, words: &str, value: Option<&R>, write: impl FnOnce(&mut Self, &R)) {
        if let Some(value) = value {
            self.put(words);
            write(self, value);
        }
    }

    fn ident(&mut self, name: &str) {
        let is_plain = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        let is_free = || match Keyword::find(name.as_bytes()) {
            None => true,
            Some(keyword) => keyword.category() == Category::Unreserved && !AMBIGUOUS.contains(&keyword),
        };
        if is_plain && is_free() {
            self.put(name);
        } else {
            self.put("\"");
            self.out.push_str(&name.replace('"', "\"\""));
            self.put("\"");
        }
    }

    fn idents(&mut self, names: &[Ident]) {
        self.list(names, |out, name| out.ident(name));
    }

    fn text(&mut self, text: &str) {
        self.put("'");
        self.out.push_str(&text.replace('\'', "''"));
        self.put("'");
    }

    fn name(&mut self, name: &Name) {
        for part in &name.qualifier {
            self.ident(part);
            self.put(".");
        }
        self.ident(&name.name);
    }

    /// A variable, whose points separate names.
    fn variable(&mut self, name: &str) {
        let parts: Vec<&str> = name.split('.').collect();
        self.separated(&parts, ".", |out, part| out.ident(part));
    }

    fn role(&mut self, role: &RoleSpec) {
        match role {
            RoleSpec::Name(name) => self.ident(name),
            RoleSpec::CurrentRole => self.put("CURRENT_ROLE"),
            RoleSpec::CurrentUser => self.put("CURRENT_USER"),
            RoleSpec::SessionUser => self.put("SESSION_USER"),
            RoleSpec::Public => self.put("PUBLIC"),
        }
    }

    fn roles(&mut self, roles: &[RoleSpec]) {
        self.list(roles, Self::role);
    }

    fn persistence(&mut self, persistence: Persistence) {
        match persistence {
            Persistence::Permanent => {}
            Persistence::Temporary => self.put("TEMPORARY "),
            Persistence::Unlogged => self.put("UNLOGGED "),
        }
    }

    /// An operator where any may stand.
    fn operator(&mut self, op: &OperatorName) {
        if op.schema.is_empty() {
            return self.put(&op.symbol);
        }
        self.put("OPERATOR(");
        self.plain_operator(op);
        self.put(")");
    }

    /// An operator without OPERATOR around it.
    fn plain_operator(&mut self, op: &OperatorName) {
        for part in &op.schema {
            self.ident(part);
            self.put(".");
        }
        self.put(&op.symbol);
    }

    fn type_name(&mut self, ty: &TypeName) {
        self.put_if(ty.is_set, "SETOF ");
        self.simple_type(ty);
        self.put_if(ty.is_column_type, "%TYPE");
        for dimension in &ty.dimensions {
            self.put("[");
            if *dimension >= 0 {
                self.number(dimension);
            }
            self.put("]");
        }
    }

    /// A type without its dimensions: system types by the standard's words, where these mean the same.
    fn simple_type(&mut self, ty: &TypeName) {
        let is_system = matches!(&*ty.name.qualifier, [schema] if schema == "pg_catalog");
        let integers = ty.modifiers.iter().all(|one| matches!(one.kind, ExprKind::Integer(_)));
        let count = ty.modifiers.len();
        let (words, tail) = match ty.name.name.as_str() {
            _ if !is_system || ty.is_column_type => ("", ""),
            "int4" if count == 0 => ("integer", ""),
            "int2" if count == 0 => ("smallint", ""),
            "int8" if count == 0 => ("bigint", ""),
            "float4" if count == 0 => ("real", ""),
            "float8" if count == 0 => ("double precision", ""),
            "bool" if count == 0 => ("boolean", ""),
            "numeric" => ("numeric", ""),
            "varchar" if count <= 1 && integers => ("character varying", ""),
            "bpchar" if count == 1 && integers => ("character", ""),
            "varbit" => ("bit varying", ""),
            "bit" if count > 0 => ("bit", ""),
            "timestamp" if count <= 1 && integers => ("timestamp", " without time zone"),
            "timestamptz" if count <= 1 && integers => ("timestamp", " with time zone"),
            "time" if count <= 1 && integers => ("time", " without time zone"),
            "timetz" if count <= 1 && integers => ("time", " with time zone"),
            "interval" => {
                if let Some((precision, fields)) = interval_words(&ty.modifiers) {
                    self.put("interval");
                    self.put(&precision);
                    self.put(&fields);
                    return;
                }
                ("", "")
            }
            _ => ("", ""),
        };
        if let Some(text) = self.rewrites.and_then(|rewrites| rewrites.type_name(ty.at)) {
            self.put(text);
        } else if words.is_empty() {
            self.name(&ty.name);
        } else {
            self.put(words);
        }
        self.opt_parens("", &ty.modifiers, Self::expr);
        self.put(tail);
    }
}

/// `(p)` and the fields of an interval type, if its modifiers are what words make.
fn interval_words(modifiers: &[Expr]) -> Option<(String, String)> {
    use interval::{DAY, FULL, HOUR, MINUTE, MONTH, SECOND, YEAR};
    let value = |expr: &Expr| match expr.kind {
        ExprKind::Integer(value) => Some(value),
        _ => None,
    };
    let (mask, precision) = match modifiers {
        [] => return Some((String::new(), String::new())),
        [mask] => (value(mask)?, None),
        [mask, precision] => (value(mask)?, Some(value(precision)?)),
        _ => return None,
    };
    if mask == FULL {
        return precision.map(|precision| (format!("({precision})"), String::new()));
    }
    let fields = match mask {
        YEAR => " year",
        MONTH => " month",
        DAY => " day",
        HOUR => " hour",
        MINUTE => " minute",
        SECOND => " second",
        _ if mask == YEAR | MONTH => " year to month",
        _ if mask == DAY | HOUR => " day to hour",
        _ if mask == DAY | HOUR | MINUTE => " day to minute",
        _ if mask == DAY | HOUR | MINUTE | SECOND => " day to second",
        _ if mask == HOUR | MINUTE => " hour to minute",
        _ if mask == HOUR | MINUTE | SECOND => " hour to second",
        _ if mask == MINUTE | SECOND => " minute to second",
        _ => return None,
    };
    let precision = match precision {
        Some(_) if mask & SECOND == 0 => return None,
        Some(precision) => format!("({precision})"),
        None => String::new(),
    };
    Some((String::new(), format!("{fields}{precision}")))
}
