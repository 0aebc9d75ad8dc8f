//! `tidy`: checks the project's rules.
//!
//! There are six kinds: dependencies between crates, from `cargo metadata` (`deps`); the order of a crate's modules
//! (`layers`); names that only some files may use (`source`); rules about texts (`text`); comments that name their subject (`prose`); the share of assertions
//! (`assertions`). A finding contains file, line, rule and reason.

mod assertions;
mod deps;
mod layers;
mod mask;
mod prose;
mod source;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::run::{output, root};

/// A violation of a rule.
pub(crate) struct Finding {
    path: String,
    /// Line from 1; 0 for the whole file.
    line: usize,
    problem: String,
}

impl Finding {
    fn new(path: &str, line: usize, problem: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, problem: problem.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.problem),
            line => write!(f, "{}:{line}: {}", self.path, self.problem),
        }
    }
}

/// A file that git tracks or would add.
struct SourceFile {
    /// Path from the root, with `/`.
    path: String,
    full: PathBuf,
    /// Content; `None` if it is not UTF-8.
    text: Option<String>,
    bytes: u64,
}

/// Checks everything and prints the findings.
pub(crate) fn run() -> Result {
    let files = files(&root())?;
    let mut findings = deps::check()?;
    findings.extend(layers::check(&files));
    findings.extend(source::check(&files));
    findings.extend(text::check(&files));
    findings.extend(prose::check(&files));
    let shares = assertions::shares(&files);
    findings.extend(assertions::check(&shares));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            let shares: Vec<String> = shares.iter().map(|(name, share)| format!("{name} {share}")).collect();
            println!("tidy: assertions per 1,000 lines: {}", shares.join(", "));
            println!("tidy: {} files, no findings", files.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} findings")),
    }
}

fn files(root: &Path) -> Result<Vec<SourceFile>> {
    let listed =
        output(Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root))?;
    let mut files = Vec::new();
    for path in listed.lines() {
        let full = root.join(path);
        // Deleted but not committed, or a symbolic link.
        let Ok(metadata) = std::fs::symlink_metadata(&full) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let contents = std::fs::read(&full).map_err(|error| format!("cannot read {path}: {error}"))?;
        let text = String::from_utf8(contents).ok();
        files.push(SourceFile { path: path.to_owned(), full, text, bytes: metadata.len() });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
