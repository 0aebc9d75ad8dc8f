//! Formulas of virtual series, in the syntax of HAKOM TSM: expressions of VB.NET over numbers and series.
//!
//! ```text
//! [Meter A] * 1.05 + If([Price, 0, EUR/MWh, AVG] < 0, 0, [4711])
//! ```
//!
//! | part | forms |
//! |---|---|
//! | operators, tightest first | `^` · sign · `*` `/` · `\` · `Mod` · `+` `-` · `=` `<>` `<` `>` `<=` `>=` · `Not` · `And` `AndAlso` · `Or` `OrElse` · `Xor` |
//! | references | `[name or number, offset, unit, aggregation]`; the last three may be absent or empty; a name with `,`, `]` or `"` is quoted, with `""` for a quote |
//! | functions | those of .NET's `System.Math` on doubles, with or without `Math.` or `System.Math.`; see `functions` |
//! | conditions | `If(condition, then, else)`, `IIf`; `If(x, y)` is `IfMissing(x, y)` |
//! | absence | `IsMissing(x)` is 1 or 0; `IfMissing(x, y)` is y where x is absent; `FlagOf(x)` is the number of the flag |
//! | time | `Shift([A], n)` is the value of the reference n intervals later, or earlier if n is negative |
//!
//! Names have no case. A condition is true if it is not 0; comparisons and logical operators give 1 and 0.
//!
//! **Flags.** A result has the greatest flag of the operands that it was computed from. Numbers have no flag; a formula without
//! references is *Valid*.
//!
//! **Absent values.** In `+` and `-` an absent operand counts as nothing: absent + 10 is 10, and absent + absent is absent. In
//! every other operator and function an absent operand makes the result absent. `If` depends only on its condition and the branch
//! that is taken. A result that .NET would refuse with an exception, such as `Sign` of NaN or `\` by 0, is absent and *Faulty*.
//!
//! An *offset* extends the range that is read by so many intervals in both directions. No function here looks at the extension,
//! so that it changes nothing.

mod evaluate;
mod functions;
mod lexer;
mod parser;

use std::ops::Range;
use std::str::FromStr;

use model::{Error, Result};

use crate::aggregation::Aggregation;
use crate::points::Points;
use functions::Function;

/// Longest text of a formula in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Greatest height of the tree of a formula.
pub const HEIGHT_MAX: usize = 200;

/// A formula that was parsed.
#[derive(Clone, Debug)]
pub struct Formula {
    text: String,
    root: Node,
    references: Vec<Reference>,
    /// Places of the names in the text, each with its reference.
    names: Vec<(Range<usize>, usize)>,
}

/// A series that a formula refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Name or number of the series.
    pub series: String,
    /// Intervals by which the range that is read is extended.
    pub offset: i64,
    /// Unit of the values, if it is not that of the series.
    pub unit: Option<String>,
    /// Rule that replaces that of the series.
    pub aggregation: Option<Aggregation>,
    /// Intervals by which the values are later: those of `Shift`.
    pub shift: i64,
}

impl Formula {
    /// The text, as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The distinct references, in the order of [`Formula::evaluate`]'s inputs.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The text with other names of series.
    ///
    /// - `rename`: the new name of a reference.
    ///
    /// # Errors
    /// Those of `rename`.
    pub fn renamed(&self, mut rename: impl FnMut(&Reference) -> Result<String>) -> Result<String> {
        let (mut text, mut at) = (String::with_capacity(self.text.len()), 0);
        for (place, reference) in &self.names {
            text.push_str(&self.text[at..place.start]);
            text.push_str(&quoted(&rename(&self.references[*reference])?));
            at = place.end;
        }
        text.push_str(&self.text[at..]);
        Ok(text)
    }

    /// Computes the formula for `len` intervals. Cost: some nanoseconds for each operator and interval.
    ///
    /// - `inputs`: points of each reference.
    ///
    /// # Panics
    /// If the inputs do not fit the references or have not `len` points.
    #[must_use]
    pub fn evaluate(&self, inputs: &[&Points], len: usize) -> Points {
        assert_eq!(inputs.len(), self.references.len(), "inputs of the formula");
        assert!(inputs.iter().all(|points| points.len() == len), "points of the inputs");
        evaluate::evaluate(&self.root, inputs, len)
    }
}

impl FromStr for Formula {
    type Err = Error;

    /// # Errors
    /// 42601 naming what was found and expected, and its position; 42883 for an unknown function; 54000 for a text that is too
    /// long or nested too deeply.
    fn from_str(text: &str) -> Result<Formula> {
        parser::parse(text)
    }
}

/// A name of a series as it stands in a reference.
fn quoted(name: &str) -> String {
    let is_plain = !name.contains([',', ']', '"']) && name.trim() == name && !name.is_empty();
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A part of a formula.
#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    /// The position among the references.
    Reference(usize),
    Negative(Box<Node>),
    Not(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
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

#[cfg(test)]
mod tests;
