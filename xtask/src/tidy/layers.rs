//! The rule of layers: in a crate whose `lib.rs` lists its modules from the lowest to the highest, none uses a later one.
//!
//! The list stands in the documentation of the crate, behind [`LIST`], with the names in backticks and a full stop at its end.

use std::collections::BTreeMap;

use super::source::is_test_file;
use super::{Finding, SourceFile, mask};

/// The words before the list.
const LIST: &str = "Modules, lowest first, none of which uses a later one:";

/// Checks the crates that have a list.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for lib in files.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs")) {
        let Some(text) = &lib.text else { continue };
        let Some(layers) = layers(text) else { continue };
        let places: BTreeMap<&str, usize> = layers.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        for module in modules(text).filter(|module| !places.contains_key(module)) {
            findings.push(Finding::new(&lib.path, 0, format!("module `{module}` is missing in the list of modules")));
        }
        let folder = lib.path.trim_end_matches("lib.rs");
        for file in files.iter().filter(|file| file.path.ends_with(".rs") && !is_test_file(&file.path)) {
            let (Some(inside), Some(text)) = (file.path.strip_prefix(folder), &file.text) else { continue };
            let module = inside.split(['/', '.']).next().unwrap_or(inside);
            let Some(place) = places.get(module) else { continue };
            let code = mask::without_tests(&mask::code(text));
            for (line, used) in
                uses(&code).into_iter().filter(|(_, used)| places.get(used).is_some_and(|at| at > place))
            {
                let problem = format!("`{module}` uses `{used}`, which the list of modules in lib.rs has after it");
                findings.push(Finding::new(&file.path, line, problem));
            }
        }
    }
    findings
}

/// The list in the documentation of a crate.
fn layers(lib: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = lib.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let documentation = lines.join(" ");
    let (_, list) = documentation.split_once(LIST)?;
    let list = list.split('.').next()?;
    Some(list.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// The modules that a crate declares.
fn modules(lib: &str) -> impl Iterator<Item = &str> {
    let declared = lib.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    declared.filter(|module| *module != "tests")
}

/// The modules of the own crate that code names, with their lines: `crate::a::…` and `crate::{a::…, b}`.
fn uses(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        // `pub(in crate::a)` and `$crate::` are rare enough; a longer word, such as `other_crate::`, is another name.
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.push((line, word(rest))),
            Some(group) => found.extend(members(group).into_iter().map(|member| (line, member))),
        }
    }
    found
}

/// First words of the members of a group, up to its closing brace.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.push(word(group[start..at].trim_start()));
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found.retain(|member| !member.is_empty());
    found
}

fn word(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! A crate.\n//!\n//! Modules, lowest first, none of which uses a later one: `low`,\n//! `middle`, `high`.\n\nmod high;\nmod low;\npub mod middle;\n";

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), full: path.into(), text: Some(text.to_owned()), bytes: 0 }
    }

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![file("crates/a/src/lib.rs", LIB)];
        all.extend(files.iter().map(|(path, text)| file(path, text)));
        check(&all).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_module_that_uses_a_later_one_is_found_with_its_line() {
        let files = [
            ("crates/a/src/high.rs", "use crate::low::A;\nuse crate::middle::B;\n"),
            ("crates/a/src/middle/part.rs", "// crate::high\nuse crate::{low::A, high::{C, D}};\n"),
            ("crates/a/src/low.rs", "fn f() { crate::middle::f() }\n#[cfg(test)]\nmod tests { use crate::high::D; }\n"),
            ("crates/b/src/low.rs", "use crate::high::D;\n"),
        ];
        assert_eq!(
            problems(&files),
            [
                "crates/a/src/middle/part.rs:2: `middle` uses `high`, which the list of modules in lib.rs has after it",
                "crates/a/src/low.rs:1: `low` uses `middle`, which the list of modules in lib.rs has after it",
            ]
        );
    }

    #[test]
    fn a_module_that_the_list_lacks_is_found() {
        let lib = LIB.replace("`middle`, ", "");
        let found: Vec<String> = check(&[file("crates/a/src/lib.rs", &lib)]).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["crates/a/src/lib.rs: module `middle` is missing in the list of modules"]);
    }
}
