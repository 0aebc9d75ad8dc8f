//! The ratchet: one letter a statement, kept in the repository, which only gets better.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use super::outcome::Outcome;
use crate::Result;
use crate::run::root;

/// Letters in a line of the file.
const WIDTH: usize = 100;

/// Outcomes of each script's statements.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Ratchet {
    pub(super) scripts: BTreeMap<String, Vec<Outcome>>,
}

/// The change of a script since the ratchet was saved.
#[derive(Default)]
pub(super) struct Change {
    /// Indexes of statements that were identical and are not, or that have other rows now and had not.
    pub(super) worse: Vec<usize>,
    pub(super) better: usize,
    /// The script has another number of statements than then: PostgreSQL's version differs.
    pub(super) other_script: bool,
}

fn path() -> PathBuf {
    root().join("xtask/baselines/postgres.txt")
}

impl Ratchet {
    pub(super) fn load() -> Result<Ratchet> {
        match std::fs::read_to_string(path()) {
            Ok(text) => Ratchet::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ratchet::default()),
            Err(error) => Err(format!("{}: {error}", path().display())),
        }
    }

    pub(super) fn save(&self) -> Result {
        std::fs::write(path(), self.print()).map_err(|error| format!("{}: {error}", path().display()))
    }

    fn parse(text: &str) -> Result<Ratchet> {
        let mut ratchet = Ratchet::default();
        let mut script = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            match line.strip_prefix("  ") {
                None => script = Some(ratchet.scripts.entry(line.to_owned()).or_default()),
                Some(letters) => {
                    let outcomes: Option<Vec<Outcome>> = letters.chars().map(Outcome::of_letter).collect();
                    let (Some(script), Some(outcomes)) = (script.as_mut(), outcomes) else {
                        return Err(format!("postgres.txt, line {}: expected a script's name or letters", at + 1));
                    };
                    script.extend(outcomes);
                }
            }
        }
        Ok(ratchet)
    }

    fn print(&self) -> String {
        let mut text = String::from(
            "# Answers to the statements of PostgreSQL's regression scripts, one letter each; written by `cargo xtask postgres --save`.\n#",
        );
        for outcome in Outcome::ALL {
            let _ = write!(text, " {} {}", outcome.letter(), outcome.name());
        }
        text.push('\n');
        for (script, outcomes) in &self.scripts {
            let _ = writeln!(text, "{script}");
            for line in outcomes.chunks(WIDTH) {
                let _ = writeln!(text, "  {}", line.iter().map(|outcome| outcome.letter()).collect::<String>());
            }
        }
        text
    }

    /// The change of `script` to `now`.
    pub(super) fn change(&self, script: &str, now: &[Outcome]) -> Change {
        let Some(before) = self.scripts.get(script) else { return Change::default() };
        if before.len() != now.len() {
            return Change { other_script: true, ..Change::default() };
        }
        let mut change = Change::default();
        for (at, (before, now)) in before.iter().zip(now).enumerate() {
            match (before, now) {
                (before, now) if before == now => {}
                (_, Outcome::Identical) => change.better += 1,
                (Outcome::Identical, Outcome::Volatile) => {}
                (Outcome::Identical, _) | (_, Outcome::Rows | Outcome::Slow) => change.worse.push(at),
                _ => {}
            }
        }
        change
    }
}

/// Reasons for answers with other rows that are right, by script and line: `script:line reason`.
pub(super) struct Explained(BTreeMap<String, String>);

impl Explained {
    pub(super) fn load() -> Result<Explained> {
        let path = root().join("xtask/baselines/postgres-explained.txt");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let entries = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let split =
            entries.map(|line| line.split_once(' ').map(|(place, reason)| (place.to_owned(), reason.to_owned())));
        let entries: Option<BTreeMap<_, _>> = split.collect();
        entries.map(Explained).ok_or_else(|| format!("{}: expected lines of `script:line reason`", path.display()))
    }

    pub(super) fn reason(&self, script: &str, line: usize) -> Option<&str> {
        self.0.get(&format!("{script}:{line}")).map(String::as_str)
    }

    /// Places in `script` with a reason although none of the statements there, in `cases` by line, has other rows now. A
    /// reason that begins with "sometimes" is never stale.
    pub(super) fn stale(&self, script: &str, cases: &[(usize, Outcome)]) -> Vec<&str> {
        // An isolation test also differs in which transactions abort. A volatile answer may have other rows next time.
        let needed = |outcome| match outcome {
            Outcome::Identical => false,
            Outcome::Rows | Outcome::Volatile => true,
            _ => script.starts_with("isolation/"),
        };
        let needed: BTreeSet<String> =
            cases.iter().filter(|(_, outcome)| needed(*outcome)).map(|(line, _)| format!("{script}:{line}")).collect();
        let of_script = |place: &str| place.rsplit_once(':').is_some_and(|(of, _)| of == script);
        let always = self.0.iter().filter(|(_, reason)| !reason.starts_with("sometimes"));
        let places = always.map(|(place, _)| place.as_str()).filter(|place| of_script(place));
        places.filter(|place| !needed.contains(*place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let outcomes: Vec<Outcome> = Outcome::ALL.into_iter().cycle().take(250).collect();
        let ratchet = Ratchet { scripts: [("a".to_owned(), outcomes), ("b".to_owned(), Vec::new())].into() };
        assert_eq!(Ratchet::parse(&ratchet.print()).unwrap(), ratchet);
        assert!(Ratchet::parse("a\n  =?").is_err());
        assert!(Ratchet::parse("  ==").is_err());
    }

    #[test]
    fn what_was_identical_stays_so() {
        let letters = |text: &str| text.chars().filter_map(Outcome::of_letter).collect::<Vec<_>>();
        let ratchet = Ratchet { scripts: [("a".to_owned(), letters("==uru"))].into() };
        let change = ratchet.change("a", &letters("=u=r="));
        assert_eq!((change.worse, change.better), (vec![1], 2));
        assert_eq!(ratchet.change("a", &letters("==urr")).worse, [4]);
        assert!(ratchet.change("a", &letters("=")).other_script);
    }

    #[test]
    fn a_reason_without_other_rows_is_stale() {
        let places = ["a:1", "a:2", "a:3", "a:4", "b:1", "isolation/a:1"];
        let mut explained = Explained(places.map(|place| (place.to_owned(), String::new())).into());
        explained.0.insert("a:5".to_owned(), "sometimes other rows".to_owned());
        let cases = [(1, Outcome::Identical), (1, Outcome::Rows), (2, Outcome::Identical), (3, Outcome::Accepted)];
        assert_eq!(explained.stale("a", &cases), ["a:2", "a:3", "a:4"]);
        assert!(explained.stale("isolation/a", &[(1, Outcome::Accepted)]).is_empty());
    }
}
