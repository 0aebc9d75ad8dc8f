//! Embeds the commit in the binary: `MILLRACE_COMMIT` if a package sets it, else from git, else nothing (a source
//! archive has no history). Uses no network.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MILLRACE_COMMIT");
    let profile = std::env::var("PROFILE").unwrap_or_default();
    // Only in release builds: a development build would be rebuilt at every commit.
    let commit = std::env::var("MILLRACE_COMMIT").ok().or_else(|| if profile == "release" { commit() } else { None });
    let commit = commit.map(|commit| format!("{commit}, ")).unwrap_or_default();
    println!("cargo:rustc-env=MILLRACE_BUILD={commit}{profile}");
}

/// Abbreviated hash and date of the commit of this repository, not of one that contains an unpacked source archive.
fn commit() -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    if !folder.join(".git").exists() {
        return None;
    }
    let log = git(folder, &["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo:rerun-if-changed={}", folder.join(log).display());
    git(folder, &["log", "-1", "--format=commit %h of %cs", "--abbrev=10"])
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
