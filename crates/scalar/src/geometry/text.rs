//! Text forms of geometric types.
//!
//! A list of points may have parentheses or brackets around it and around each point. Parentheses around the list are
//! optional, also where they cannot be told from those of a point by the first character.

use std::sync::Arc;

use catalog::TypeId;
use model::{Datum, Error, Geometry, Point, Result, SqlState};

use super::lines::line_through;
use super::{BOX, CIRCLE, LINE, LSEG, PATH, POINT, POLYGON};
use super::{boxes, shapes};
use crate::context::Context;
use crate::registry;

/// Reads a value of a geometric type.
pub(super) fn input<'a>(text: &str, ty: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let name = catalog::builtin().type_name(ty);
    let mut reader = Reader { name: &name, text, rest: text };
    let geometry = match ty {
        POINT => reader.whole(|reader| reader.point()).map(Geometry::Point)?,
        LINE => reader.line()?,
        LSEG => Geometry::Segment(pair(&reader.whole(|reader| reader.list(2, true))?.0)),
        BOX => {
            let [a, b] = pair(&reader.whole(|reader| reader.list(2, false))?.0);
            Geometry::Box(boxes::of_corners(a, b))
        }
        PATH => reader.path()?,
        POLYGON => {
            let count = reader.count()?;
            let (points, _) = reader.whole(|reader| reader.list(count, false))?;
            Geometry::Polygon(points.into())
        }
        CIRCLE => reader.circle()?,
        _ => return Err(Error::bug("a geometric type that is none")),
    };
    Ok(Datum::Geometry(Arc::new(geometry)))
}

fn pair(points: &[Point]) -> [Point; 2] {
    [points.first().copied().unwrap_or_default(), points.get(1).copied().unwrap_or_default()]
}

fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

struct Reader<'t> {
    name: &'t str,
    text: &'t str,
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn invalid(&self) -> Error {
        let text = format!("invalid input syntax for type {}: \"{}\"", self.name, self.text);
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    /// Whether the next character is this one, which is read then, with white space on both sides.
    fn take(&mut self, one: char) -> bool {
        self.skip_spaces();
        match self.rest.strip_prefix(one) {
            Some(rest) => {
                self.rest = rest;
                self.skip_spaces();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, one: char) -> Result<()> {
        if self.take(one) { Ok(()) } else { Err(self.invalid()) }
    }

    /// The value that `read` reads, which must be all of the text.
    fn whole<T>(&mut self, read: impl FnOnce(&mut Reader<'t>) -> Result<T>) -> Result<T> {
        let value = read(self)?;
        self.skip_spaces();
        if self.rest.is_empty() { Ok(value) } else { Err(self.invalid()) }
    }

    fn number(&mut self) -> Result<f64> {
        self.skip_spaces();
        let ends = |one: char| is_space(one) || matches!(one, ',' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>');
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        let value = pg::value::parse_float8(number).map_err(|error| match error.state() {
            SqlState::NUMERIC_OUT_OF_RANGE => error,
            _ => self.invalid(),
        })?;
        self.rest = rest;
        self.skip_spaces();
        Ok(value)
    }

    fn point(&mut self) -> Result<Point> {
        let has_parenthesis = self.take('(');
        let x = self.number()?;
        self.expect(',')?;
        let y = self.number()?;
        if has_parenthesis {
            self.expect(')')?;
        }
        Ok(Point { x, y })
    }

    /// Whether the rest has one parenthesis only, at its start, so that it is not that of a point.
    fn has_only_parenthesis(&self) -> bool {
        self.rest.rfind('(') == Some(0)
    }

    /// A number of points, and whether they are in brackets.
    fn list(&mut self, count: usize, may_be_open: bool) -> Result<(Vec<Point>, bool)> {
        self.skip_spaces();
        let is_open = may_be_open && self.take('[');
        let inner = self.rest.strip_prefix('(').map(|inner| inner.trim_start_matches(is_space));
        let is_closed = match inner {
            Some(inner) if !is_open && (inner.starts_with('(') || self.has_only_parenthesis()) => {
                self.rest = inner;
                true
            }
            _ => false,
        };
        let mut points = Vec::with_capacity(count.min(self.text.len()));
        for _ in 0..count {
            points.push(self.point()?);
            self.take(',');
        }
        if is_open {
            if !self.take(']') {
                self.expect(')')?;
            }
        } else if is_closed {
            self.expect(')')?;
        }
        Ok((points, is_open))
    }

    /// The number of points by the commas between all coordinates.
    fn count(&self) -> Result<usize> {
        let commas = self.text.matches(',').count();
        if commas % 2 == 1 { Ok(commas.div_ceil(2)) } else { Err(self.invalid()) }
    }

    fn path(&mut self) -> Result<Geometry> {
        let count = self.count()?;
        self.skip_spaces();
        let (points, is_open) = self.whole(|reader| {
            let is_wrapped = reader.has_only_parenthesis() && reader.take('(');
            let list = reader.list(count, true)?;
            if is_wrapped {
                reader.expect(')')?;
            }
            Ok(list)
        })?;
        Ok(Geometry::Path { closed: !is_open, points: points.into() })
    }

    fn line(&mut self) -> Result<Geometry> {
        let invalid = |text: &str| Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text);
        self.skip_spaces();
        if self.rest.starts_with('{') {
            let line = self.whole(|reader| {
                reader.expect('{')?;
                let a = reader.number()?;
                reader.expect(',')?;
                let b = reader.number()?;
                reader.expect(',')?;
                let c = reader.number()?;
                reader.expect('}')?;
                Ok([a, b, c])
            })?;
            if super::float::is_zero(line[0]) && super::float::is_zero(line[1]) {
                return Err(invalid("invalid line specification: A and B cannot both be zero"));
            }
            return Ok(Geometry::Line(line));
        }
        let [a, b] = pair(&self.whole(|reader| reader.list(2, true))?.0);
        if super::points::same(a, b) {
            return Err(invalid("invalid line specification: must be two distinct points"));
        }
        line_through(a, b).map(Geometry::Line)
    }

    fn circle(&mut self) -> Result<Geometry> {
        let (center, radius) = self.whole(|reader| {
            let is_angled = reader.take('<');
            let inner = reader.rest.strip_prefix('(').map(|inner| inner.trim_start_matches(is_space));
            let is_wrapped = !is_angled && inner.is_some_and(|inner| inner.starts_with('('));
            if is_wrapped {
                reader.take('(');
            }
            let center = reader.point()?;
            reader.take(',');
            let radius = reader.number()?;
            if is_angled || is_wrapped {
                // Either closing mark fits either opening one.
                if !reader.take('>') {
                    reader.expect(')')?;
                }
            }
            Ok((center, radius))
        })?;
        if radius < 0.0 { Err(self.invalid()) } else { Ok(Geometry::Circle(center, radius)) }
    }
}

/// Writes a value of a geometric type.
pub(super) fn output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    match shapes::of(datum)? {
        Geometry::Point(point) => write_point(*point, ctx, text),
        Geometry::Line(numbers) => {
            text.push('{');
            write_numbers(numbers, ctx, text)?;
            text.push('}');
            Ok(())
        }
        Geometry::Segment(points) => write_list(points, ["[", "]"], ctx, text),
        Geometry::Box(points) => write_list(points, ["", ""], ctx, text),
        Geometry::Path { closed: false, points } => write_list(points, ["[", "]"], ctx, text),
        Geometry::Path { points, .. } | Geometry::Polygon(points) => write_list(points, ["(", ")"], ctx, text),
        Geometry::Circle(center, radius) => {
            text.push('<');
            write_point(*center, ctx, text)?;
            text.push(',');
            write_numbers(&[*radius], ctx, text)?;
            text.push('>');
            Ok(())
        }
    }
}

fn write_list(points: &[Point], marks: [&str; 2], ctx: &Context<'_>, text: &mut String) -> Result<()> {
    text.push_str(marks[0]);
    for (at, point) in points.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_point(*point, ctx, text)?;
    }
    text.push_str(marks[1]);
    Ok(())
}

fn write_point(point: Point, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    text.push('(');
    write_numbers(&[point.x, point.y], ctx, text)?;
    text.push(')');
    Ok(())
}

fn write_numbers(numbers: &[f64], ctx: &Context<'_>, text: &mut String) -> Result<()> {
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        registry::output(&Datum::Float8(*number), TypeId::FLOAT8, ctx, text)?;
    }
    Ok(())
}
