//! Access by inverted indexes: which conditions ask one for keys, and for which.

use std::sync::LazyLock;

use catalog::builtin;
use model::{Datum, Error, Result, Type};
use rows::IndexData;
use rows::inverted::{Class, Column, Sought};
use rustc_hash::FxHashMap;
use scalar::json::{PathNeeds, path_needs};
use scalar::registry::signature_number;

use crate::expr::{Comparison, Expr, Frame};
use crate::from::Source;
use crate::plan::{is_field, needs_only};

/// The search that conditions make in an inverted index. The rows that it finds must still be tested.
#[derive(Clone, Debug)]
pub(crate) enum Seek {
    /// A test of a column of the index.
    Test {
        /// Position of the column in the index.
        at: usize,
        test: Test,
        /// The operand.
        value: Expr,
    },
    All(Vec<Seek>),
    Any(Vec<Seek>),
}

/// An operator that an inverted index serves, with the column on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// `@>`
    Contains,
    /// `<@`, of arrays.
    Contained,
    /// `&&`, of arrays.
    Overlaps,
    /// `=`, of arrays.
    Equals,
    /// `?`
    Named,
    /// `?|`
    NamedAny,
    /// `?&`
    NamedAll,
    /// `@?`
    PathExists,
    /// `@@`
    PathMatches,
}

/// Functions of operators: the test if the column is the left operand, and if it is the right one.
static TESTS: LazyLock<FxHashMap<u32, [Option<Test>; 2]>> = LazyLock::new(|| {
    let tests = [
        ("jsonb_contains", Some(Test::Contains), None),
        ("jsonb_contained", None, Some(Test::Contains)),
        ("jsonb_exists", Some(Test::Named), None),
        ("jsonb_exists_any", Some(Test::NamedAny), None),
        ("jsonb_exists_all", Some(Test::NamedAll), None),
        ("jsonb_path_exists_opr", Some(Test::PathExists), None),
        ("jsonb_path_match_opr", Some(Test::PathMatches), None),
        ("arraycontains", Some(Test::Contains), Some(Test::Contained)),
        ("arraycontained", Some(Test::Contained), Some(Test::Contains)),
        ("arrayoverlap", Some(Test::Overlaps), Some(Test::Overlaps)),
    ];
    let number = |name| signature_number(builtin(), name).unwrap_or_else(|| panic!("BUG: the catalog lacks {name}"));
    tests.into_iter().map(|(name, left, right)| (number(name), [left, right])).collect()
});

impl Seek {
    /// Returns the search of the conditions in an inverted index, given the tables of `bound`; `None` if they ask it for nothing.
    pub(crate) fn of(source: &Source, index: &IndexData, conditions: &[&Expr], bound: &[usize]) -> Option<Seek> {
        let mut parts: Vec<Seek> =
            conditions.iter().filter_map(|one| Seek::of_condition(source, index, one, bound)).collect();
        if parts.len() < 2 { parts.pop() } else { Some(Seek::All(parts)) }
    }

    fn of_condition(source: &Source, index: &IndexData, condition: &Expr, bound: &[usize]) -> Option<Seek> {
        match condition {
            Expr::And(sides) => Seek::of(source, index, &[&sides[0], &sides[1]], bound),
            Expr::Or(sides) => {
                let side = |side| Seek::of_condition(source, index, side, bound);
                Some(Seek::Any(vec![side(&sides[0])?, side(&sides[1])?]))
            }
            Expr::Scalar(call, sides) => {
                let tests = TESTS.get(&call.function())?;
                let [left, right] = sides.as_slice() else { return None };
                Seek::of_operands(source, index, (tests[0], left, right), bound)
                    .or_else(|| Seek::of_operands(source, index, (tests[1], right, left), bound))
            }
            Expr::Compare(Comparison::Equal, sides) => {
                let [left, right] = &**sides;
                let test = Some(Test::Equals);
                Seek::of_operands(source, index, (test, left, right), bound)
                    .or_else(|| Seek::of_operands(source, index, (test, right, left), bound))
            }
            _ => None,
        }
    }

    fn of_operands(
        source: &Source,
        index: &IndexData,
        (test, operand, value): (Option<Test>, &Expr, &Expr),
        bound: &[usize],
    ) -> Option<Seek> {
        let test = test?;
        let at = index.def().columns.iter().position(|column| is_field(operand, source, *column))?;
        let class = index.inverted_column(at)?.class;
        let is_served = match test {
            Test::Contains => true,
            Test::Contained | Test::Overlaps | Test::Equals => class == Class::Array,
            Test::Named | Test::NamedAny | Test::NamedAll => class == Class::Json,
            Test::PathExists | Test::PathMatches => class != Class::Array,
        };
        (is_served && needs_only(value, bound)).then(|| Seek::Test { at, test, value: value.clone() })
    }

    /// Whether an operand fulfils a condition.
    pub(crate) fn any_value(&self, is_such: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            Seek::Test { value, .. } => is_such(value),
            Seek::All(parts) | Seek::Any(parts) => parts.iter().any(|part| part.any_value(is_such)),
        }
    }

    /// Number of tests.
    pub(crate) fn tests(&self) -> usize {
        match self {
            Seek::Test { .. } => 1,
            Seek::All(parts) | Seek::Any(parts) => parts.iter().map(Seek::tests).sum(),
        }
    }

    /// The keys that rows have which fulfil the conditions.
    pub(crate) fn sought<'a>(&'a self, index: &IndexData, frame: &Frame<'a>) -> Result<Sought> {
        let all = |parts: &'a [Seek]| parts.iter().map(|part| part.sought(index, frame)).collect::<Result<Vec<_>>>();
        match self {
            Seek::All(parts) => Ok(Sought::all(all(parts)?)),
            Seek::Any(parts) => Ok(Sought::any(all(parts)?)),
            Seek::Test { at, test, value } => {
                let column = index.inverted_column(*at);
                let column = column.ok_or_else(|| Error::bug("a column of an inverted index does not exist"))?;
                test.sought(column, &value.eval(frame)?)
            }
        }
    }
}

impl Test {
    fn sought(self, column: Column, value: &Datum<'_>) -> Result<Sought> {
        match (self, value) {
            (_, Datum::Null) => Ok(Sought::NOTHING),
            (Test::Contains, value) => column.containing(value),
            (Test::Contained, value) => column.contained(value),
            (Test::Overlaps, value) => column.overlapping(value),
            (Test::Equals, value) => column.all_of(value),
            (Test::Named, Datum::Text(name)) => Ok(column.named(name).unwrap_or(Sought::Every)),
            (Test::NamedAny | Test::NamedAll, Datum::Array(names)) => {
                let named = names.items.iter().filter_map(|name| match name {
                    Datum::Text(name) => Some(column.named(name).unwrap_or(Sought::Every)),
                    _ => None,
                });
                let named = named.collect();
                Ok(if self == Test::NamedAny { Sought::any(named) } else { Sought::all(named) })
            }
            (Test::PathExists | Test::PathMatches, Datum::Text(path)) => {
                needed(&path_needs(path, self == Test::PathMatches)?, column)
            }
            (test, value) => Err(Error::bug(format!("{value:?} as operand of {test:?} of an inverted index"))),
        }
    }
}

fn needed(needs: &PathNeeds, column: Column) -> Result<Sought> {
    let all = |parts: &[PathNeeds]| parts.iter().map(|part| needed(part, column)).collect::<Result<Vec<_>>>();
    match needs {
        PathNeeds::Nothing => Ok(Sought::Every),
        PathNeeds::Scalar { path, value } => column.at_path(path.iter().map(String::as_str), value),
        PathNeeds::All(parts) => Ok(Sought::all(all(parts)?)),
        PathNeeds::Any(parts) => Ok(Sought::any(all(parts)?)),
    }
}

/// The class of an inverted index over a type; `None` if there is none.
pub(crate) fn class_of(ty: Type) -> Option<Class> {
    Class::of(ty, None).filter(|_| ty.is_ordered())
}
