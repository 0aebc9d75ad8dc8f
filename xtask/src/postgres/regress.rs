//! PostgreSQL's regression scripts, statement by statement, in both servers.
//!
//! One refusal must not hide what comes after it, so Millrace is kept in step: a savepoint before each statement of a block, a
//! second try without what only PostgreSQL has, and the rows of tables whose change was refused are copied from PostgreSQL.
//! What then still fails because of an earlier refusal is counted apart, by the names that the refusals left missing.

use std::collections::HashSet;
use std::path::Path;

use super::outcome::{Outcome, compare};
use super::script::{Script, Step, Then, Variables};
use super::servers::{Millrace, Postgres};
use super::text;
use super::wire::{Answer, Client, Part};
use crate::Result;

/// Statements around a savepoint of ours that would change what they mean.
const UNGUARDED: [&str; 13] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "prepare transaction",
    "set transaction",
    "set session",
    "set local",
    "set constraints",
];
const GUARD: &str = "xtask_guard";

/// A statement and the comparison of its answers.
pub(super) struct Compared {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) outcome: Outcome,
    pub(super) ours: Answer,
    pub(super) theirs: Answer,
}

/// The servers of one script.
pub(super) struct Pair {
    millrace: Millrace,
    ours: Client,
    theirs: Client,
    again: Client,
    variables: Variables,
    /// Names of objects that Millrace refused to create; an older one may answer in their place.
    missing: HashSet<String>,
    /// Columns that it refused to add.
    columns: HashSet<String>,
    /// Tables that differ because a change was refused.
    tainted: HashSet<String>,
    compared: Vec<Compared>,
}

impl Pair {
    /// Connects to a database of each of `postgres`, and to a Millrace of its own.
    pub(super) fn connect(
        millrace: Millrace,
        postgres: [&Postgres; 2],
        database: &str,
        variables: Variables,
    ) -> Result<Pair> {
        let ours = millrace.connect()?;
        let (theirs, again) = (postgres[0].connect(database)?, postgres[1].connect(database)?);
        let (missing, columns, tainted) = (HashSet::new(), HashSet::new(), HashSet::new());
        let compared = Vec::new();
        Ok(Pair { millrace, ours, theirs, again, variables, missing, columns, tainted, compared })
    }

    /// Runs a script; statements compared so far are kept if a server fails.
    pub(super) fn run(&mut self, path: &Path) -> Result {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut script = Script::new(&String::from_utf8_lossy(&bytes));
        while let Some(step) = script.next(&self.variables) {
            match step {
                Step::Query { text, line, then } => self.query(&text, line, &then, &mut script)?,
                Step::Command { name, arguments } if name == "q" || name == "quit" => {
                    let _ = arguments;
                    break;
                }
                Step::Command { name, arguments } => self.command(&name, &arguments),
            }
        }
        Ok(())
    }

    /// Creates in Millrace alone the tables that PostgreSQL's database has from its template.
    pub(super) fn set_up(&mut self, path: &Path) -> Result {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut script = Script::new(&String::from_utf8_lossy(&bytes));
        while let Some(step) = script.next(&self.variables) {
            match step {
                Step::Query { text, .. } => {
                    let answer = self.ours.run(&text)?;
                    if answer.error().is_some()
                        && !text::without_extras(&text)
                            .iter()
                            .any(|text| self.ours.run(text).is_ok_and(|answer| answer.error().is_none()))
                    {
                        self.missing.extend(text::created(&text));
                        for table in text::changed_tables(&text) {
                            self.copy_rows(&table)?;
                        }
                    }
                }
                Step::Command { name, arguments } => self.command(&name, &arguments),
            }
        }
        Ok(())
    }

    /// Takes the statements compared up to here.
    pub(super) fn take_compared(&mut self) -> Vec<Compared> {
        std::mem::take(&mut self.compared)
    }

    /// Whether Millrace's process still runs.
    pub(super) fn alive(&mut self) -> bool {
        self.millrace.alive()
    }

    fn command(&mut self, name: &str, arguments: &[String]) {
        match (name, arguments) {
            ("set", [name, value @ ..]) => {
                self.variables.insert(name.clone(), value.concat());
            }
            ("unset", [name]) => {
                self.variables.remove(name);
            }
            ("getenv", [name, source]) => {
                if let Some(value) = self.variables.get(&format!("env {source}")).cloned() {
                    self.variables.insert(name.clone(), value);
                }
            }
            // Descriptions and formats of psql are not compared.
            _ => {}
        }
    }

    fn query(&mut self, text: &str, line: usize, then: &Then, script: &mut Script) -> Result {
        if *then == Then::Describe {
            return Ok(());
        }
        let theirs = self.both(text, line, script)?;
        let Some(Part::Rows { columns, rows, .. }) = theirs.parts.last() else { return Ok(()) };
        match then {
            Then::Show | Then::Describe => {}
            Then::Set(prefix) => {
                let values = rows.first().into_iter().flatten();
                for (column, value) in columns.iter().zip(values) {
                    self.variables.insert(format!("{prefix}{}", column.name), value.clone().unwrap_or_default());
                }
            }
            Then::Execute => {
                for text in rows.iter().flatten().flatten() {
                    self.both(text, line, script)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a statement on all servers and compares; PostgreSQL's answer.
    fn both(&mut self, text: &str, line: usize, script: &mut Script) -> Result<Answer> {
        let mut data: Option<String> = None;
        let in_block = self.theirs.status == b'T';
        let theirs = self.theirs.query(text, &mut || Some(data.get_or_insert_with(|| script.copy_data()).clone()))?;
        let again = self.again.query(text, &mut || Some(data.clone().unwrap_or_default()))?;
        let guarded = in_block && self.ours.status == b'T' && !text::starts_with_any(text, &UNGUARDED);
        if guarded {
            self.ours.run(&format!("SAVEPOINT {GUARD}"))?;
        }
        let ours = self.ours.query(text, &mut || data.clone())?;
        let follows = self.follows(text, &ours);
        let outcome = compare(text, &ours, &theirs, &again, follows);
        self.keep_step(text, &ours, &theirs, guarded, data.as_deref())?;
        self.compared.push(Compared { line, text: text.to_owned(), outcome, ours, theirs: theirs.clone() });
        Ok(theirs)
    }

    /// Whether a difference can come from an earlier refusal: the error names an object that is missing because of one, or
    /// the statement reads a table that differs because of one.
    fn follows(&self, text: &str, ours: &Answer) -> bool {
        let names = |text: &str, set: &HashSet<String>| text::words(text).any(|word| set.contains(&word));
        match ours.error() {
            Some(("0A000" | "42601", _)) => false,
            Some((code, message)) if code.starts_with("42") || code.starts_with("26") || code.starts_with("34") => {
                names(message, &self.missing) || names(message, &self.columns) || names(text, &self.tainted)
            }
            _ => names(text, &self.tainted) || names(text, &self.missing),
        }
    }

    fn keep_step(&mut self, text: &str, ours: &Answer, theirs: &Answer, guarded: bool, data: Option<&str>) -> Result {
        let (refused, failed) = (ours.error().is_some(), theirs.error().is_some());
        let diverged = refused != failed;
        if guarded && self.ours.status != b'I' {
            if diverged {
                self.ours.run(&format!("ROLLBACK TO {GUARD}"))?;
            }
            if self.ours.status == b'T' {
                self.ours.run(&format!("RELEASE {GUARD}"))?;
            }
        }
        self.align_transaction(theirs)?;
        if refused && !failed {
            self.make_up_for(text, data)?;
        } else if !refused && failed && !guarded {
            for table in text::changed_tables(text) {
                self.copy_rows(&table)?;
            }
        } else if !refused && let Some(name) = text::created(text) {
            self.missing.remove(&name);
            self.tainted.remove(&name);
        }
        Ok(())
    }

    /// Brings Millrace's transaction to the state that PostgreSQL's is in.
    fn align_transaction(&mut self, theirs: &Answer) -> Result {
        match (self.theirs.status, self.ours.status) {
            (b'E', b'T') => drop(self.ours.run("SELECT 1/0")?),
            (b'E' | b'T', b'I') => {
                self.ours.run("BEGIN")?;
                if self.theirs.status == b'E' {
                    self.ours.run("SELECT 1/0")?;
                }
            }
            (b'T', b'E') => {
                self.ours.run("ROLLBACK")?;
                self.ours.run("BEGIN")?;
            }
            (b'I', b'T' | b'E') => {
                let committed = matches!(theirs.parts.last(), Some(Part::Done { tag }) if tag == "COMMIT");
                self.ours.run(if committed && self.ours.status == b'T' { "COMMIT" } else { "ROLLBACK" })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// After a refusal: another form of the statement, PostgreSQL's rows, or a note of what is missing now.
    fn make_up_for(&mut self, text: &str, data: Option<&str>) -> Result {
        for other in text::without_extras(text) {
            if self.guarded(&other, data)? {
                return Ok(());
            }
        }
        self.missing.extend(text::created(text));
        self.columns.extend(text::added_columns(text));
        self.tainted.extend(text::altered_table(text));
        for table in text::changed_tables(text) {
            self.copy_rows(&table)?;
        }
        Ok(())
    }

    /// Runs `text` on Millrace alone, undone if it fails; whether it succeeded.
    fn guarded(&mut self, text: &str, data: Option<&str>) -> Result<bool> {
        let in_block = self.ours.status == b'T';
        if in_block {
            self.ours.run(&format!("SAVEPOINT {GUARD}"))?;
        }
        let answer = self.ours.query(text, &mut || data.map(str::to_owned))?;
        let done = answer.error().is_none();
        if in_block {
            if !done {
                self.ours.run(&format!("ROLLBACK TO {GUARD}"))?;
            }
            self.ours.run(&format!("RELEASE {GUARD}"))?;
        }
        Ok(done)
    }

    /// Replaces Millrace's rows of `table`, and of the tables below it, by PostgreSQL's.
    fn copy_rows(&mut self, table: &str) -> Result {
        if self.theirs.status == b'E' || !self.copied(table)? {
            self.tainted.insert(table.rsplit('.').next().unwrap_or(table).to_owned());
        }
        Ok(())
    }

    /// Copies all rows or changes nothing: a foreign key, for example, may refuse them.
    fn copied(&mut self, table: &str) -> Result<bool> {
        let dumps = self.dumps(table)?;
        let (begin, commit, undo) = match self.ours.status {
            b'T' => ("SAVEPOINT xtask_copy", "RELEASE xtask_copy", "ROLLBACK TO xtask_copy"),
            _ => ("BEGIN", "COMMIT", "ROLLBACK"),
        };
        self.ours.run(begin)?;
        let mut done = !dumps.is_empty();
        for (table, rows) in &dumps {
            done = done
                && self.guarded(&format!("DELETE FROM ONLY {table}"), None)?
                && self.guarded(&format!("COPY {table} FROM STDIN"), Some(rows))?;
        }
        self.ours.run(if done { commit } else { undo })?;
        Ok(done)
    }

    /// PostgreSQL's rows of `table` and of the tables below it, by the table that stores them.
    fn dumps(&mut self, table: &str) -> Result<Vec<(String, String)>> {
        let in_block = self.theirs.status == b'T';
        if in_block {
            self.theirs.run(&format!("SAVEPOINT {GUARD}"))?;
        }
        let tables = self.theirs.run(&format!(
            "WITH RECURSIVE tree (oid) AS (SELECT '{table}'::regclass::oid
               UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.oid)
             SELECT oid::regclass FROM tree JOIN pg_class USING (oid) WHERE relkind = 'r'"
        ))?;
        let mut dumps = Vec::new();
        if let [Part::Rows { rows, .. }] = tables.parts.as_slice() {
            for table in rows.iter().flatten().flatten() {
                let dump = self.theirs.run(&format!("COPY {table} TO STDOUT"))?;
                let [Part::Copied { lines, .. }] = dump.parts.as_slice() else { continue };
                dumps.push((table.clone(), lines.concat()));
            }
        }
        if in_block {
            self.theirs.run(&format!("ROLLBACK TO {GUARD}"))?;
            self.theirs.run(&format!("RELEASE {GUARD}"))?;
        }
        Ok(dumps)
    }
}
