//! `scale`: costs that grow with the number of series and segments (`crates/engine/examples/scale`).

use crate::Result;
use crate::run::{cargo, nothing_left, passes};

/// Builds and runs the optimised example, in a folder if one is given.
pub(crate) fn run(arguments: &[String]) -> Result {
    let (folder, rest) = arguments.split_at(arguments.len().min(1));
    nothing_left(rest)?;
    let mut command = cargo(&["run", "--quiet", "--release", "--locked", "--package", "engine", "--example", "scale"]);
    passes(command.arg("--").args(folder))
}
