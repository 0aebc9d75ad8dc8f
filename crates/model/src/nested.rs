//! Values that are made of other values, and the rarer kinds of values.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::value::Datum;

/// An array, of any number of dimensions. Elements are in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<'a> {
    /// OID of the elements' type.
    pub element: u32,
    /// Dimensions, outermost first; none for an empty array. The product of their lengths is the number of elements.
    pub dimensions: Box<[ArrayDimension]>,
    /// Elements, which may be NULL.
    pub items: Box<[Datum<'a>]>,
}

/// A dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayDimension {
    /// Number of elements.
    pub length: i32,
    /// Subscript of the first one; 1 unless the array was written with bounds.
    pub lower: i32,
}

impl<'a> Array<'a> {
    /// An array of one dimension with subscripts from 1; without items it is the empty array.
    #[must_use]
    pub fn of(element: u32, items: Vec<Datum<'a>>) -> Array<'a> {
        let dimension = ArrayDimension { length: items.len() as i32, lower: 1 };
        let dimensions = if items.is_empty() { Box::default() } else { Box::from([dimension]) };
        Array { element, dimensions, items: items.into() }
    }

    /// Bytes of the array and of all that its elements own.
    pub(crate) fn heap_size(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.dimensions) + heap_size_of(&self.items)
    }

    /// PostgreSQL's order: elements, then number of dimensions, then lengths and lower bounds.
    #[must_use]
    pub fn compare(&self, other: &Array<'_>) -> Option<Ordering> {
        let elements = compare_all(&self.items, &other.items)?;
        let count = self.dimensions.len().cmp(&other.dimensions.len());
        let dimensions = self.dimensions.iter().zip(&other.dimensions);
        let lengths = dimensions.clone().map(|(a, b)| a.length.cmp(&b.length));
        let lowers = dimensions.map(|(a, b)| a.lower.cmp(&b.lower));
        Some(lengths.chain(lowers).fold(elements.then(count), Ordering::then))
    }
}

/// Bytes of values, with all that they own.
fn heap_size_of(values: &[Datum<'_>]) -> usize {
    size_of_val(values) + values.iter().map(Datum::heap_size).sum::<usize>()
}

/// Compares element by element, then by length. NULL is equal to NULL and after everything else.
fn compare_all(a: &[Datum<'_>], b: &[Datum<'_>]) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        match a.compare(b)? {
            Ordering::Equal => {}
            order => return Some(order),
        }
    }
    Some(a.len().cmp(&b.len()))
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// OIDs of the columns' types.
    pub types: Box<[u32]>,
    /// Names of the columns.
    pub names: Names,
    /// Values of the columns.
    pub values: Box<[Datum<'a>]>,
}

/// Names of a row's columns; those of `ROW(…)`, which has none, are `f1`, `f2` and so on.
pub type Names = Option<Arc<[Box<str>]>>;

impl Record<'_> {
    /// Bytes of the row and of all that its values own. The names are shared by all rows.
    pub(crate) fn heap_size(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.types) + heap_size_of(&self.values)
    }

    /// The order of two rows with the same columns.
    #[must_use]
    pub fn compare(&self, other: &Record<'_>) -> Option<Ordering> {
        compare_all(&self.values, &other.values)
    }
}

/// A range of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Range<'a> {
    /// No value.
    Empty,
    /// The values between two bounds.
    Between(RangeBound<'a>, RangeBound<'a>),
}

/// A bound of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeBound<'a> {
    /// NULL is infinite.
    pub value: Datum<'a>,
    /// Whether the value belongs to the range; never if it is infinite.
    pub inclusive: bool,
}

impl Range<'_> {
    /// Bytes that the bounds own.
    pub(crate) fn heap_size(&self) -> usize {
        match self {
            Range::Empty => 0,
            Range::Between(low, high) => low.value.heap_size() + high.value.heap_size(),
        }
    }

    /// PostgreSQL's order: empty ranges, then by lower bound, then by upper bound.
    #[must_use]
    pub fn compare(&self, other: &Range<'_>) -> Option<Ordering> {
        match (self, other) {
            (Range::Empty, Range::Empty) => Some(Ordering::Equal),
            (Range::Empty, _) => Some(Ordering::Less),
            (_, Range::Empty) => Some(Ordering::Greater),
            (Range::Between(low, high), Range::Between(other_low, other_high)) => {
                Some(low.compare_lower(other_low)?.then(high.compare_upper(other_high)?))
            }
        }
    }

    /// The order of two multiranges.
    pub(crate) fn compare_all(a: &[Range<'_>], b: &[Range<'_>]) -> Option<Ordering> {
        for (a, b) in a.iter().zip(b) {
            match a.compare(b)? {
                Ordering::Equal => {}
                order => return Some(order),
            }
        }
        Some(a.len().cmp(&b.len()))
    }
}

impl RangeBound<'_> {
    /// The order of two lower bounds: the infinite one first, an inclusive one before an exclusive one of the same value.
    #[must_use]
    pub fn compare_lower(&self, other: &RangeBound<'_>) -> Option<Ordering> {
        Some(match (self.value.is_null(), other.value.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.value.compare(&other.value)?.then(other.inclusive.cmp(&self.inclusive)),
        })
    }

    /// The order of two upper bounds: the infinite one last, an inclusive one behind an exclusive one of the same value.
    #[must_use]
    pub fn compare_upper(&self, other: &RangeBound<'_>) -> Option<Ordering> {
        Some(match (self.value.is_null(), other.value.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.value.compare(&other.value)?.then(self.inclusive.cmp(&other.inclusive)),
        })
    }
}

/// A string of bits. The unused bits of the last byte are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits<'a> {
    /// Number of bits.
    pub length: u32,
    /// The bits, the first one highest.
    pub bytes: &'a [u8],
}

impl Bits<'_> {
    pub(crate) fn cmp(&self, other: &Bits<'_>) -> Ordering {
        self.bytes.cmp(other.bytes).then(self.length.cmp(&other.length))
    }
}

/// An address of the internet with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// The address.
    pub address: std::net::IpAddr,
    /// Bits of the network: at most 32, or 128 for IPv6.
    pub prefix: u8,
}

impl Network {
    /// PostgreSQL's order: IPv4 first, then the common bits of both networks, the shorter prefix, the address.
    pub(crate) fn cmp(&self, other: &Network) -> Ordering {
        let bytes = |network: &Network| match network.address {
            std::net::IpAddr::V4(address) => (false, u128::from(address.to_bits()) << 96),
            std::net::IpAddr::V6(address) => (true, address.to_bits()),
        };
        let ((is_v6, bits), (other_is_v6, other_bits)) = (bytes(self), bytes(other));
        let common = u32::from(self.prefix.min(other.prefix));
        let masked = |bits: u128| if common == 0 { 0 } else { bits >> (128 - common) };
        is_v6
            .cmp(&other_is_v6)
            .then(masked(bits).cmp(&masked(other_bits)))
            .then(self.prefix.cmp(&other.prefix))
            .then(bits.cmp(&other_bits))
    }
}

/// A point of the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
}

/// A geometric object.
#[derive(Clone, Debug, PartialEq)]
pub enum Geometry {
    /// `point`
    Point(Point),
    /// `line`: the points with ax + by + c = 0
    Line([f64; 3]),
    /// `lseg`
    Segment([Point; 2]),
    /// `box`: the upper right and the lower left corner
    Box([Point; 2]),
    /// `path`
    Path {
        /// Whether the last point is joined with the first one.
        closed: bool,
        /// At least one.
        points: Box<[Point]>,
    },
    /// `polygon`
    Polygon(Box<[Point]>),
    /// `circle`: centre and radius
    Circle(Point, f64),
}

impl Geometry {
    /// Bytes of the value and of its points.
    pub(crate) fn heap_size(&self) -> usize {
        let points = match self {
            Geometry::Path { points, .. } | Geometry::Polygon(points) => size_of_val(&**points),
            _ => 0,
        };
        size_of_val(self) + points
    }

    /// The SQL name of the type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Geometry::Point(_) => "point",
            Geometry::Line(_) => "line",
            Geometry::Segment(_) => "lseg",
            Geometry::Box(_) => "box",
            Geometry::Path { .. } => "path",
            Geometry::Polygon(_) => "polygon",
            Geometry::Circle(..) => "circle",
        }
    }
}
