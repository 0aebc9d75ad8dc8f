//! `check`: all checks of the sources that run no tests.

use crate::run::{cargo, in_path, passes};
use crate::{Result, tidy};

/// Formatting, clippy, tidy, rustdoc, and licences if cargo-deny is installed.
pub(crate) fn run() -> Result {
    passes(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::run()?;
    passes(&mut cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--locked"]);
    passes(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    if in_path("cargo-deny") {
        passes(&mut cargo(&["deny", "--log-level", "error", "check"]))?;
    } else {
        println!("check: licences and advisories not checked: cargo install --locked cargo-deny");
    }
    println!("check: fmt, tidy, clippy and rustdoc passed");
    Ok(())
}
