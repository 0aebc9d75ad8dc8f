//! `fuzz-sql`: random queries against PostgreSQL for a given time.

use crate::Result;
use crate::run::{cargo, nothing_left, passes, take_number};

/// Runs `random_queries` of the binary's tests for `--seconds`, from `--seed` if given, and prints the seed of each batch.
pub(crate) fn run(arguments: &[String]) -> Result {
    let mut arguments = arguments.to_vec();
    let seconds = take_number(&mut arguments, "--seconds")?.unwrap_or(600);
    let seed = take_number(&mut arguments, "--seed")?;
    nothing_left(&arguments)?;
    let mut command =
        cargo(&["test", "--quiet", "--locked", "--package", "millrace", "--test", "it", "random_queries"]);
    command.args(["--", "--include-ignored", "--nocapture"]);
    command.env("MILLRACE_RANDOM_SECONDS", seconds.to_string());
    command.env("MILLRACE_RANDOM_SEED", seed.map_or_else(|| "now".to_owned(), |seed| seed.to_string()));
    passes(&mut command)
}
