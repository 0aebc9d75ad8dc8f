//! `sim`: runs the simulation for a given time.

use crate::Result;
use crate::run::{cargo, nothing_left, passes, take_number};

/// Builds the simulation with optimisation and assertions, and runs it for `--minutes`, from `--seed` if given.
pub(crate) fn run(arguments: &[String]) -> Result {
    let mut arguments = arguments.to_vec();
    let minutes = take_number(&mut arguments, "--minutes")?.unwrap_or(5);
    let seed = take_number(&mut arguments, "--seed")?;
    nothing_left(&arguments)?;
    let mut command = cargo(&["run", "--quiet", "--release", "--locked", "--package", "sim", "--"]);
    command.args(["--minutes", &minutes.to_string()]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    // Without it, optimised arithmetic would not detect overflows.
    command.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    passes(&mut command)
}
