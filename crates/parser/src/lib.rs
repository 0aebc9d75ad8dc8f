//! PostgreSQL 15's grammar: from a text to the tree of each of its statements, and back to text.
//!
//! [`parse_all`] gives [`ast::Statement`]s; names are not looked up and nothing is typed. [`lexer::Lexer`] walks the tokens of a
//! text, for whoever needs no tree. [`print`](mod@print) writes trees as text that parses to the same tree.
//!
//! Always true: what PostgreSQL 15 parses is parsed to a tree of the same meaning, and what it refuses is refused with its
//! SQLSTATE and position. Exceptions are Millrace's own (`ASOF JOIN`, `FOR SYSTEM_TIME AS OF`, SHOW TABLES, DESCRIBE, `row` as an option) and
//! commands that are only recognised ([`ast::Statement::Unsupported`]). No text panics or exhausts the stack.
//!
//! Not here: what names mean, types, defaults of settings.

pub mod ast;
mod grammar;
pub mod keyword;
pub mod lexer;
pub mod plpgsql;
pub mod print;

pub use grammar::{HEIGHT_MAX, parse_all, parse_expr, parse_type, split};
