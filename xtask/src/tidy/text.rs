//! Text rules: line lengths, links, the manual against the code, forbidden content.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Finding, SourceFile};

/// rustfmt limits code to 120; comments and tables may be wider where a break would not help the reader.
const LINE_CHARS_MAX: usize = 240;
/// Larger files do not belong in the repository, except data under `data`.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The source file with all limits, and the manual's page about them.
const LIMITS_SOURCE: &str = "crates/model/src/limits.rs";
const LIMITS_PAGE: &str = "docs/manual/limits.md";

/// Checks all rules about texts.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.bytes > FILE_BYTES_MAX && !file.path.split('/').any(|part| part == "data") && file.path != "Cargo.lock"
        {
            findings.push(Finding::new(
                &file.path,
                0,
                format!("has {} bytes; the limit is {FILE_BYTES_MAX}", file.bytes),
            ));
        }
        let Some(text) = &file.text else { continue };
        match file.path.rsplit('.').next() {
            Some("rs") => check_lines(&file.path, text, true, &mut findings),
            Some("toml" | "sh" | "yml" | "py" | "java") => check_lines(&file.path, text, false, &mut findings),
            Some("md") => {
                check_lines(&file.path, text, false, &mut findings);
                check_links(file, text, &mut findings);
            }
            _ => {}
        }
        if file.path.ends_with("Cargo.toml") {
            check_manifest(&file.path, text, &mut findings);
        }
    }
    check_limits(files, &mut findings);
    check_licence(files, &mut findings);
    findings
}

fn check_lines(path: &str, text: &str, length: bool, findings: &mut Vec<Finding>) {
    // Split in two, because this file is checked too.
    let absolute = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];
    for (number, line) in text.lines().enumerate() {
        let chars = line.chars().count();
        if length && chars > LINE_CHARS_MAX {
            findings.push(Finding::new(
                path,
                number + 1,
                format!("has {chars} characters; the limit is {LINE_CHARS_MAX}"),
            ));
        }
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(path, number + 1, "ends in white space"));
        }
        if let Some(found) = absolute.iter().find(|absolute| names_path(line, absolute)) {
            findings.push(Finding::new(path, number + 1, format!("contains {found}…, a path of one machine")));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::new(path, 0, "does not end with a line break"));
    }
}

/// `absolute` as the start of a path, not in the middle of one (`a/work/b`) or of an address.
fn names_path(line: &str, absolute: &str) -> bool {
    line.match_indices(absolute).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '.' | '-' | '_' | '$' | '}' | '~'))
    })
}

fn check_manifest(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let is_crate = path.starts_with("crates/") || path.starts_with("xtask/");
    if is_crate && !text.contains("[lints]\nworkspace = true") {
        findings.push(Finding::new(path, 0, "does not take the workspace's lints"));
    }
    let mut in_dependencies = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies]");
        } else if is_crate && in_dependencies && line.contains('=') && !line.contains("workspace = true") {
            findings.push(Finding::new(
                path,
                number + 1,
                "states a version; versions are the workspace's Cargo.toml's",
            ));
        }
    }
}

/// Every `[text](target)` outside code must lead to a file, and its `#part` to a heading.
fn check_links(file: &SourceFile, text: &str, findings: &mut Vec<Finding>) {
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if let Err(problem) = check_link(&file.full, text, target) {
                findings.push(Finding::new(&file.path, number + 1, problem));
            }
        }
    }
}

fn check_link(from: &Path, own_text: &str, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, part) = target.split_once('#').map_or((target, None), |(path, part)| (path, Some(part)));
    let to = from.parent().unwrap_or(from).join(path);
    if !path.is_empty() && !to.exists() {
        return Err(format!("links to {target}, which does not exist"));
    }
    let Some(part) = part else { return Ok(()) };
    let text = if path.is_empty() { own_text.to_owned() } else { std::fs::read_to_string(&to).unwrap_or_default() };
    let found = text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == part);
    if found { Ok(()) } else { Err(format!("links to {target}, but there is no such heading")) }
}

/// The anchor of a heading on common forges.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>().replace(' ', "-")
}

/// The manual's page must list every limit with its value.
fn check_limits(files: &[SourceFile], findings: &mut Vec<Finding>) {
    let text_of = |path: &str| files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref());
    let Some(source) = text_of(LIMITS_SOURCE) else {
        findings.push(Finding::new(LIMITS_SOURCE, 0, "is missing"));
        return;
    };
    let Some(page) = text_of(LIMITS_PAGE) else {
        findings.push(Finding::new(LIMITS_PAGE, 0, "is missing"));
        return;
    };
    let stated = table(page);
    let limits = constants(source);
    for (name, value) in &limits {
        match stated.get(name.as_str()) {
            Some(seen) if seen == value => {}
            Some(seen) => {
                findings.push(Finding::new(LIMITS_PAGE, 0, format!("says {name} is {seen}; the code says {value}")));
            }
            None => findings.push(Finding::new(LIMITS_PAGE, 0, format!("does not state {name}, which is {value}"))),
        }
    }
    for name in stated.keys().filter(|name| !limits.contains_key(**name)) {
        findings.push(Finding::new(LIMITS_PAGE, 0, format!("states {name}, which the code does not have")));
    }
}

/// Name and number of table rows like ``| … | `NAME` | 1,234 |``.
fn table(page: &str) -> BTreeMap<&str, u64> {
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.iter().position(|cell| cell.len() > 2 && cell.starts_with('`') && cell.ends_with('`'));
        let Some(at) = name else { continue };
        let name = cells[at].trim_matches('`');
        let number = cells[at..].iter().find_map(|cell| cell.replace(',', "").parse::<u64>().ok());
        if let Some(number) = number {
            rows.insert(name, number);
        }
    }
    rows
}

fn constants(source: &str) -> BTreeMap<String, u64> {
    source.lines().filter_map(constant).collect()
}

/// Name and value of `pub const NAME: T = EXPRESSION;` with numbers, `<<`, `*`.
fn constant(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
    let expression = rest.split_once('=')?.1.trim().trim_end_matches(';');
    Some((name.to_owned(), value(expression)?))
}

fn value(expression: &str) -> Option<u64> {
    if let Some((left, right)) = expression.split_once("<<") {
        return Some(value(left)? << value(right)?);
    }
    if let Some((left, right)) = expression.split_once('*') {
        return value(left)?.checked_mul(value(right)?);
    }
    expression.trim().replace('_', "").parse().ok()
}

/// One licence for all files, stated once; a header in some files would suggest that others differ.
fn check_licence(files: &[SourceFile], findings: &mut Vec<Finding>) {
    for needed in ["LICENSE", "NOTICE"] {
        if !files.iter().any(|file| file.path == needed) {
            findings.push(Finding::new(needed, 0, "is missing"));
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let top = file.text.as_deref().unwrap_or_default().lines().take(5);
        for (number, line) in top.enumerate() {
            if line.contains(concat!("SPDX-", "License")) || line.contains(concat!("Copyright", " (")) {
                findings.push(Finding::new(
                    &file.path,
                    number + 1,
                    "has a licence header; LICENSE speaks for all files",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_compared_with_the_values_of_the_code() {
        let source =
            "/// Doc.\npub const A_MAX: usize = 4_096;\npub const B_MAX: usize = 960 << 10;\nconst C: u8 = 1;\n";
        let expected = [("A_MAX".to_owned(), 4096), ("B_MAX".to_owned(), 983_040)];
        assert_eq!(constants(source), BTreeMap::from(expected));
        assert_eq!(table("| what | `A_MAX` | 4,096 | 54000 |\n| - | - | - |\n"), BTreeMap::from([("A_MAX", 4096)]));
    }

    #[test]
    fn a_machine_path_is_found_and_a_part_of_a_path_is_not() {
        let path = concat!("/", "work/");
        for (line, expected) in [("cd @x", true), ("`@y`", true), ("a@x", false), ("http://h.x@", false)] {
            assert_eq!(names_path(&line.replace('@', path), path), expected, "{line}");
        }
    }

    #[test]
    fn headings_become_the_anchors_forges_give_them() {
        assert_eq!(anchor("## Full disk: what happens?"), "full-disk-what-happens");
    }
}
