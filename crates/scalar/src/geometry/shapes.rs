//! Arguments and results of the functions of geometric types.

use std::sync::Arc;

use model::{Datum, Error, Geometry, Point, Result};

use super::boxes::Corners;
use super::lines::{Closest, Line, Segment};

pub(super) fn of<'r>(datum: &'r Datum<'_>) -> Result<&'r Geometry> {
    match datum {
        Datum::Geometry(geometry) => Ok(geometry),
        _ => Err(Error::bug("a geometric value that is none")),
    }
}

/// A shape that an argument is.
pub(super) trait Argument<'r>: Sized {
    fn read(datum: &'r Datum<'_>) -> Option<Self>;
}

/// Points of a path, and whether it is closed.
#[derive(Clone, Copy)]
pub(super) struct Path<'r> {
    pub(super) closed: bool,
    pub(super) points: &'r [Point],
}

/// Centre and radius.
pub(super) type Circle = (Point, f64);
/// Points of a polygon.
pub(super) type Polygon<'r> = &'r [Point];

macro_rules! arguments {
    ($($ty:ty, $pattern:pat => $value:expr;)*) => {$(
        impl<'r> Argument<'r> for $ty {
            fn read(datum: &'r Datum<'_>) -> Option<Self> {
                match datum {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        }
    )*};
}

arguments! {
    f64, Datum::Float8(value) => *value;
    i32, Datum::Int4(value) => *value;
}

macro_rules! shapes {
    ($($ty:ty, $pattern:pat => $value:expr;)*) => {$(
        impl<'r> Argument<'r> for $ty {
            fn read(datum: &'r Datum<'_>) -> Option<Self> {
                match of(datum).ok()? {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        }
    )*};
}

/// Boxes and segments are both two points.
pub(super) struct BoxArgument(pub(super) Corners);

shapes! {
    Point, Geometry::Point(point) => *point;
    Line, Geometry::Line(line) => *line;
    Segment, Geometry::Segment(points) => *points;
    BoxArgument, Geometry::Box(corners) => BoxArgument(*corners);
    Path<'r>, Geometry::Path { closed, points } => Path { closed: *closed, points };
    Polygon<'r>, Geometry::Polygon(points) => points;
    Circle, Geometry::Circle(center, radius) => (*center, *radius);
}

/// An argument of a function as a shape.
pub(super) fn argument<'r, T: Argument<'r>>(arguments: &'r [Datum<'_>], at: usize) -> Result<T> {
    arguments.get(at).and_then(T::read).ok_or_else(|| Error::bug("a geometric argument of another type"))
}

pub(super) fn geometry<'a>(geometry: Geometry) -> Datum<'a> {
    Datum::Geometry(Arc::new(geometry))
}

pub(super) fn point<'a>(point: Point) -> Datum<'a> {
    geometry(Geometry::Point(point))
}

pub(super) fn optional_point<'a>(found: Option<Point>) -> Datum<'a> {
    found.map_or(Datum::Null, point)
}

/// The point that is next to something; NULL if there is none.
pub(super) fn closest<'a>((place, distance): Closest) -> Datum<'a> {
    if distance.is_nan() { Datum::Null } else { point(place) }
}
