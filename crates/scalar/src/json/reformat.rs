//! The same value written otherwise: without null members, or on several lines.

use bumpalo::Bump;
use model::{Datum, Result};

use super::arguments::text;
use super::lexer::{Escapes, Token};
use super::parse::{Container, Sink, parse};
use super::text::{unquoted, write_string};
use crate::context::Context;
use crate::expr::Call;

/// Blanks of a level of [`pretty`].
const INDENT: usize = 4;

/// Writes a value in the course of parsing it.
struct Writer<'t> {
    arena: &'t Bump,
    out: String,
    style: Style,
    depth: usize,
    /// Whether the innermost open container has an element.
    has_element: bool,
    /// The key whose value follows, if it is not written yet.
    key: Option<&'t str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `json` without null members.
    JsonStripped,
    /// `jsonb` without null members.
    JsonbStripped,
    Pretty,
}

pub(super) fn strip_nulls<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    written(arguments, if JSONB { Style::JsonbStripped } else { Style::JsonStripped }, ctx)
}

pub(super) fn pretty<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    written(arguments, Style::Pretty, ctx)
}

fn written<'a>(arguments: &[Datum<'a>], style: Style, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let mut writer = Writer { arena: ctx.arena, out: String::new(), style, depth: 0, has_element: false, key: None };
    parse(text(arguments, 0)?, Escapes::Convert, &mut writer)?;
    ctx.check_size(writer.out.len())?;
    Ok(ctx.text(&writer.out))
}

impl Writer<'_> {
    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', self.depth * INDENT));
    }

    /// Writes what stands before a value: a comma, and its key if it is a member's.
    fn begin_value(&mut self) {
        if self.depth > 0 {
            match self.style {
                Style::JsonStripped if self.has_element => self.out.push(','),
                Style::JsonbStripped if self.has_element => self.out.push_str(", "),
                Style::Pretty if self.has_element => {
                    self.out.push(',');
                    self.new_line();
                }
                Style::Pretty => self.new_line(),
                _ => {}
            }
        }
        if let Some(key) = self.key.take() {
            write_string(&mut self.out, unquoted(key, self.arena));
            self.out.push_str(if self.style == Style::JsonStripped { ":" } else { ": " });
        }
        self.has_element = true;
    }
}

impl<'t> Sink<'t> for Writer<'t> {
    fn open(&mut self, container: Container) {
        self.begin_value();
        self.out.push(if container == Container::Array { '[' } else { '{' });
        self.depth += 1;
        self.has_element = false;
    }

    fn key(&mut self, written: &'t str) -> Result<()> {
        self.key = Some(written);
        Ok(())
    }

    fn scalar(&mut self, token: Token, written: &'t str) -> Result<()> {
        if token == Token::Null && self.key.is_some() && self.style != Style::Pretty {
            self.key = None;
            return Ok(());
        }
        self.begin_value();
        match token {
            Token::String => write_string(&mut self.out, unquoted(written, self.arena)),
            _ => self.out.push_str(written),
        }
        Ok(())
    }

    fn close(&mut self, container: Container) {
        self.depth = self.depth.saturating_sub(1);
        if self.style == Style::Pretty {
            self.new_line();
        }
        self.out.push(if container == Container::Array { ']' } else { '}' });
        self.has_element = true;
    }
}
