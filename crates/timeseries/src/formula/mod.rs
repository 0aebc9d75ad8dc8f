//! Formulas of virtual series, in the syntax of HAKOM TSM: expressions of VB.NET over numbers and series.
//!
//! ```text
//! [Meter A] * 1.05 + If([Price, 0, EUR/MWh, AVG] < 0, 0, [4711])
//! ```
//!
//! | part | forms |
//! |---|---|
//! | operators, tightest first | `^` · sign · `*` `/` · `\` · `Mod` · `+` `-` · `=` `<>` `<` `>` `<=` `>=` · `Not` · `And` `AndAlso` · `Or` `OrElse` · `Xor`; all binary ones are left-associative |
//! | numbers | `1.5`, `2e-3`, with VB.NET's type letters (`1.5R`, `2D`, `3F`, `1L`); `True` and `False`; `Math.PI`, `Math.E`, `Math.Tau` |
//! | references | `[name or number, offset, unit, aggregation]`; the last three may be absent or empty |
//! | names in references | `]` is written `]]`, or the name is quoted: `["a, b"]`, with `""` for a quote |
//! | offsets | a whole number of intervals of the series, as in HAKOM, or one with a calendar unit: `2 h`, `-1 month`; see [`Offset`] |
//! | functions | those of .NET's `System.Math` on doubles, with or without `Math.` or `System.Math.`; see `functions` |
//! | conditions | `If(condition, then, else)`, `IIf`; `If(x, y)` is `IfMissing(x, y)` |
//! | absence | `IsMissing(x)` is 1 or 0; `IfMissing(x, y)` is y where x is absent; `FlagOf(x)` is the number of the flag |
//! | time | `Shift([A], n)` is the value of the reference n intervals later, or earlier if n is negative |
//!
//! Names have no case. A condition is true if it is not 0; comparisons and logical operators give 1 and 0, because the result of a
//! formula is a number. (A conversion in VB.NET would give -1 for true, and its `And` of two numbers would be bitwise.)
//!
//! **Flags.** A result has the greatest flag of the operands that it was computed from. Numbers have no flag; a result of numbers
//! alone is *Valid*, and so is a number that stands for a missing value.
//!
//! **Absent values.** In `+` and `-` an absent operand counts as nothing: absent + 10 is 10, and absent + absent is absent. In
//! every other operator and function an absent operand makes the result absent, also in `AndAlso` and `OrElse`. `If` depends only
//! on its condition and the branch that is taken; an absent condition makes it absent. A result that .NET would refuse with an
//! exception, such as `Sign` of NaN or `\` by 0, is absent and *Faulty*. Division by 0 gives infinity or NaN.
//!
//! An *offset* extends the range that is read by so many intervals in both directions. No function here looks at the extension,
//! so that it changes nothing.
//!
//! Limits: [`TEXT_BYTES_MAX`] and [`HEIGHT_MAX`]. The number of operators in a row has no limit of its own, because a chain such
//! as `[a] + [b] + [c]` is one node.

mod evaluate;
mod functions;
mod lexer;
mod parser;
mod print;
mod reference;

use std::ops::Range;
use std::str::FromStr;

use model::{Error, Result};

use crate::points::Points;
use functions::Function;
pub use reference::{Offset, Reference};

/// Longest text of a formula in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Greatest height of the tree of a formula, and the deepest nesting of its text. Both bound recursion.
pub const HEIGHT_MAX: usize = 200;

/// A formula that was parsed.
///
/// `Display` prints the canonical text: .NET's spelling of names, single spaces, and no bracket that precedence makes needless.
/// The canonical text is parsed to the same formula.
#[derive(Clone, Debug)]
pub struct Formula {
    text: String,
    root: Node,
    references: Vec<Reference>,
    /// Places of the names in the text, each with its reference.
    names: Vec<(Range<usize>, usize)>,
}

impl Formula {
    /// Parses a text.
    ///
    /// # Errors
    /// 42601 naming the text seen, the text expected and the position; 42883 for an unknown function; 54000 for a text that is
    /// too long or nested too deeply.
    ///
    /// # Cost
    /// Some 100 ns for each operator and reference.
    pub fn parse(text: &str) -> Result<Formula> {
        parser::parse(text)
    }

    /// The text, as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The distinct references by their first position, in the order of [`Formula::evaluate`]'s inputs.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The text with other names of series, and otherwise as it was written.
    ///
    /// - `rename`: the new name of a reference.
    ///
    /// # Errors
    /// Those of `rename`.
    pub fn renamed(&self, mut rename: impl FnMut(&Reference) -> Result<String>) -> Result<String> {
        let (mut text, mut at) = (String::with_capacity(self.text.len()), 0);
        for (place, reference) in &self.names {
            text.push_str(&self.text[at..place.start]);
            text.push_str(&reference::quoted(&rename(&self.references[*reference])?));
            at = place.end;
        }
        text.push_str(&self.text[at..]);
        Ok(text)
    }

    /// Computes the formula for `len` intervals.
    ///
    /// - `inputs`: points of each reference.
    ///
    /// # Panics
    /// If the inputs do not fit the references or have not `len` points.
    ///
    /// # Cost
    /// Some 1 ns for each operator and interval, 2 to 20 ns for each call. Memory for the result, and 10 kB for each level of
    /// the tree.
    #[must_use]
    pub fn evaluate(&self, inputs: &[&Points], len: usize) -> Points {
        assert_eq!(inputs.len(), self.references.len(), "inputs of the formula");
        assert!(inputs.iter().all(|points| points.len() == len), "points of the inputs");
        evaluate::evaluate(&self.root, inputs, len)
    }
}

impl FromStr for Formula {
    type Err = Error;

    /// See [`Formula::parse`].
    fn from_str(text: &str) -> Result<Formula> {
        Formula::parse(text)
    }
}

/// A part of a formula.
#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    /// The position among the references.
    Reference(usize),
    Negative(Box<Node>),
    Not(Box<Node>),
    /// Binary operators of one precedence, applied from left to right. A chain is one node, so that the tree of a sum of 5,000
    /// series is not 5,000 high.
    Chain(Box<Node>, Vec<(Operator, Node)>),
    Call(&'static Function, Vec<Node>),
    If(Box<[Node; 3]>),
    IsMissing(Box<Node>),
    IfMissing(Box<[Node; 2]>),
    FlagOf(Box<Node>),
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Power,
    Multiply,
    Divide,
    DivideWhole,
    Modulo,
    Add,
    Subtract,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    And,
    Or,
    Xor,
}

/// Operators with their symbol or name and their precedence, of which the greater binds tighter. The first spelling of an operator
/// is the canonical one.
const OPERATORS: [(&str, Operator, u8); 18] = [
    ("^", Operator::Power, 90),
    ("*", Operator::Multiply, 70),
    ("/", Operator::Divide, 70),
    ("\\", Operator::DivideWhole, 60),
    ("Mod", Operator::Modulo, 50),
    ("+", Operator::Add, 45),
    ("-", Operator::Subtract, 45),
    ("=", Operator::Equal, 40),
    ("<>", Operator::NotEqual, 40),
    ("<", Operator::Less, 40),
    (">", Operator::Greater, 40),
    ("<=", Operator::LessOrEqual, 40),
    (">=", Operator::GreaterOrEqual, 40),
    ("And", Operator::And, 20),
    ("AndAlso", Operator::And, 20),
    ("Or", Operator::Or, 15),
    ("OrElse", Operator::Or, 15),
    ("Xor", Operator::Xor, 10),
];
/// Precedence of a sign.
const SIGN: u8 = 80;
/// Precedence of `Not`.
const NOT: u8 = 30;

#[cfg(test)]
mod interpreter_tests;
#[cfg(test)]
mod tests;
