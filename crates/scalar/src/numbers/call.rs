//! Reads arguments and makes results, so that a function of the table is an expression over Rust's types.

use std::cmp::Ordering;

use model::{Datum, Error, Numeric, Result, SqlState};

/// A Rust type that an argument can be read as.
pub(crate) trait Argument<'d>: Sized {
    fn read(datum: &'d Datum<'_>) -> Option<Self>;
}

/// A Rust type that a function can return: a value or its `Result`.
pub(crate) trait Returned {
    fn returned(self) -> Result<Datum<'static>>;
}

macro_rules! plain {
    ($($ty:ty = $variant:ident,)*) => { $(
        impl Argument<'_> for $ty {
            fn read(datum: &Datum<'_>) -> Option<$ty> {
                if let Datum::$variant(value) = datum { Some(*value) } else { None }
            }
        }

        impl Returned for $ty {
            fn returned(self) -> Result<Datum<'static>> {
                Ok(Datum::$variant(self))
            }
        }
    )* };
}

plain! { bool = Bool, i16 = Int2, i32 = Int4, i64 = Int8, f32 = Float4, f64 = Float8, u32 = Oid, }

impl<'d> Argument<'d> for &'d Numeric {
    fn read(datum: &'d Datum<'_>) -> Option<&'d Numeric> {
        if let Datum::Numeric(value) = datum { Some(value) } else { None }
    }
}

impl<'d> Argument<'d> for &'d str {
    fn read(datum: &'d Datum<'_>) -> Option<&'d str> {
        if let Datum::Text(value) = datum { Some(value) } else { None }
    }
}

impl Returned for Numeric {
    fn returned(self) -> Result<Datum<'static>> {
        Ok(Datum::Numeric(self))
    }
}

/// `None` is NULL.
impl<T: Returned> Returned for Option<T> {
    fn returned(self) -> Result<Datum<'static>> {
        self.map_or(Ok(Datum::Null), T::returned)
    }
}

impl<T: Returned> Returned for Result<T> {
    fn returned(self) -> Result<Datum<'static>> {
        self?.returned()
    }
}

/// The argument at a position.
pub(crate) fn argument<'d, T: Argument<'d>>(arguments: &'d [Datum<'_>], at: usize) -> Result<T> {
    arguments
        .get(at)
        .and_then(T::read)
        .ok_or_else(|| Error::bug(format_args!("argument {at} is missing or of another type")))
}

pub(crate) fn unary<'d, A: Argument<'d>, R: Returned>(
    arguments: &'d [Datum<'_>],
    apply: impl FnOnce(A) -> R,
) -> Result<Datum<'static>> {
    apply(argument(arguments, 0)?).returned()
}

pub(crate) fn binary<'d, A: Argument<'d>, B: Argument<'d>, R: Returned>(
    arguments: &'d [Datum<'_>],
    apply: impl FnOnce(A, B) -> R,
) -> Result<Datum<'static>> {
    apply(argument(arguments, 0)?, argument(arguments, 1)?).returned()
}

/// Compares two arguments by `order` and tests the result.
pub(crate) fn compared<'d, A: Argument<'d>, B: Argument<'d>>(
    arguments: &'d [Datum<'_>],
    order: impl FnOnce(A, B) -> Ordering,
    test: impl FnOnce(Ordering) -> bool,
) -> Result<Datum<'static>> {
    binary(arguments, |left, right| test(order(left, right)))
}

/// A table of functions: `"signature" => unary(closure)`.
macro_rules! functions {
    ($($signature:expr => $arity:ident($apply:expr)),* $(,)?) => {
        &[$(($signature, |arguments, _, _| $arity(arguments, $apply))),*]
    };
}

/// The six comparison functions of two types, whose names begin with a prefix, and the function that returns -1, 0 or
/// 1.
macro_rules! comparisons {
    ($($prefix:literal $(, $compare:literal)?: $order:expr;)*) => {
        &[$(
            (concat!($prefix, "eq"), |arguments, _, _| compared(arguments, $order, Ordering::is_eq)),
            (concat!($prefix, "ne"), |arguments, _, _| compared(arguments, $order, Ordering::is_ne)),
            (concat!($prefix, "lt"), |arguments, _, _| compared(arguments, $order, Ordering::is_lt)),
            (concat!($prefix, "le"), |arguments, _, _| compared(arguments, $order, Ordering::is_le)),
            (concat!($prefix, "gt"), |arguments, _, _| compared(arguments, $order, Ordering::is_gt)),
            (concat!($prefix, "ge"), |arguments, _, _| compared(arguments, $order, Ordering::is_ge)),
            $(($compare, |arguments, _, _| binary(arguments, |left, right| $order(left, right) as i32)),)?
        )*]
    };
}

pub(crate) use {comparisons, functions};

/// 22003 `… out of range`.
pub(crate) fn out_of_range(ty: &str) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range"))
}

pub(crate) fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// 22P02 of a type's input.
pub(crate) fn invalid_input(ty: &str, text: &str) -> Error {
    let message = format!("invalid input syntax for type {ty}: \"{text}\"");
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

/// The text without surrounding white space, as C's `isspace` defines it.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}
