//! `postgres`: PostgreSQL's own regression and isolation tests against Millrace, statement by statement.
//!
//! Always true
//! - PostgreSQL answers beside Millrace in the same run; no expected output is stored, and no text of its tests is committed.
//! - The ratchet has one letter for each statement. A statement that was identical stays so, and rows that differ have an entry
//!   that says why they are right; everything else fails the command, also an entry for rows that differ no longer.
//!
//! Not here: EXPLAIN's text, notices and psql's descriptions (`\d`), which are not compared.

mod isolation;
mod outcome;
mod ratchet;
mod regress;
mod script;
mod servers;
mod source;
mod spec;
mod text;
mod wire;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use self::outcome::Outcome;
use self::ratchet::{Explained, Ratchet};
use self::regress::{Compared, Pair};
use self::script::Variables;
use self::servers::Millrace;
pub(crate) use self::servers::Postgres;
use self::wire::Part;
use crate::Result;
use crate::run::{cargo, nothing_left, passes, take_option, target_dir};
use crate::tools;

const USAGE: &str = "\
cargo xtask postgres [options] [SCRIPT…]

Runs PostgreSQL 15's regression scripts and isolation tests against Millrace and a private PostgreSQL and compares each
answer. Without SCRIPT: the scripts of what ordinary users need, and all isolation tests. Fails if a statement that was
identical no longer is, if rows differ without an entry in xtask/baselines/postgres-explained.txt, or if an entry's rows
no longer differ.

  --all            every regression script
  --isolation      the isolation tests alone
  --save           writes the outcomes to xtask/baselines/postgres.txt
  --binary PATH    the server (default: a debug build of this source)
  --show LETTERS   prints the statements with these outcomes and both answers: u unsupported, f follows from another refusal,
                   d names or types, o order, c other SQLSTATE, a accepted where PostgreSQL refuses, r other rows, s slow; of isolation tests: c more
                   transactions abort than in PostgreSQL, a fewer abort

Examples: cargo xtask postgres            cargo xtask postgres --show ra join isolation/two-ids";

/// Scripts of what ordinary users need; the others test what this database leaves out.
const SCRIPTS: [&str; 66] = [
    "boolean",
    "char",
    "varchar",
    "text",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "strings",
    "uuid",
    "arrays",
    "json",
    "jsonb",
    "enum",
    "select",
    "select_into",
    "select_distinct",
    "select_distinct_on",
    "select_implicit",
    "select_having",
    "join",
    "aggregates",
    "groupingsets",
    "union",
    "case",
    "window",
    "with",
    "subselect",
    "insert",
    "insert_conflict",
    "update",
    "delete",
    "returning",
    "transactions",
    "constraints",
    "foreign_key",
    "create_table",
    "alter_table",
    "create_index",
    "sequence",
    "identity",
    "generated",
    "copy",
    "copy2",
    "truncate",
    "prepare",
    "portals",
    "limit",
    "random",
    "regex",
    "create_view",
    "temp",
    "plpgsql",
    "triggers",
    "partition_join",
    "partition_prune",
    "partition_aggregate",
    "horology",
];

struct Options {
    all: bool,
    isolation: bool,
    save: bool,
    show: String,
    binary: Option<PathBuf>,
    scripts: Vec<String>,
}

/// `cargo xtask postgres`.
pub(crate) fn run(arguments: &[String]) -> Result {
    let Some(options) = options(arguments)? else {
        println!("{USAGE}");
        return Ok(());
    };
    let bin = tools::postgres()?;
    let sources = source::fetch()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => built()?,
    };
    let work = std::env::temp_dir().join(format!("millrace-postgres-{}", std::process::id()));
    let result = Run::start(&bin, &binary, &sources, &work).and_then(|run| run.scripts(&options));
    let _ = std::fs::remove_dir_all(&work);
    result
}

fn options(arguments: &[String]) -> Result<Option<Options>> {
    let mut left = arguments.to_vec();
    let mut flag = |name: &str| {
        let before = left.len();
        left.retain(|argument| argument != name);
        left.len() < before
    };
    if flag("--help") || flag("-h") {
        return Ok(None);
    }
    let (all, save, isolation) = (flag("--all"), flag("--save"), flag("--isolation"));
    let show = take_option(&mut left, "--show")?.unwrap_or_default();
    let binary = take_option(&mut left, "--binary")?.map(PathBuf::from);
    let options: Vec<String> = left.iter().filter(|argument| argument.starts_with('-')).cloned().collect();
    nothing_left(&options)?;
    if let Some(letter) = show.chars().find(|letter| Outcome::of_letter(*letter).is_none()) {
        return Err(format!("--show: no outcome has the letter {letter:?}; `cargo xtask postgres --help` lists them"));
    }
    Ok(Some(Options { all, isolation, save, show, binary, scripts: left }))
}

fn built() -> Result<PathBuf> {
    passes(&mut cargo(&["build", "--locked", "--package", "millrace"]))?;
    Ok(target_dir().join("debug/millrace"))
}

/// The two PostgreSQL servers and the folders of a run.
struct Run {
    binary: PathBuf,
    /// `src/test` of PostgreSQL's sources.
    tests: PathBuf,
    work: PathBuf,
    postgres: [Postgres; 2],
}

impl Run {
    fn start(bin: &Path, binary: &Path, sources: &Path, work: &Path) -> Result<Run> {
        // PostgreSQL's server reads these files itself, as a user who may not see the cache.
        let tests = sources.join("src/test");
        for folder in ["data", "results"] {
            let to = work.join("files").join(folder);
            std::fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
            let from = tests.join("regress").join(folder);
            for entry in from.read_dir().into_iter().flatten().flatten() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))
                    .map_err(|error| format!("{}: {error}", entry.path().display()))?;
            }
        }
        crate::run::output(std::process::Command::new("chmod").args(["-R", "a+rwX"]).arg(work))?;
        let postgres = [Postgres::start(bin, work.join("a"))?, Postgres::start(bin, work.join("b"))?];
        let run = Run { binary: binary.to_owned(), tests, work: work.to_owned(), postgres };
        run.template()?;
        Ok(run)
    }

    /// A database with the tables that all scripts read, copied for each of them.
    fn template(&self) -> Result {
        for postgres in &self.postgres {
            postgres.connect("postgres")?.run("CREATE DATABASE regression TEMPLATE template0")?;
        }
        let millrace = Millrace::start(&self.binary, self.work.join("m"), &self.work.join("files"))?;
        let mut pair = Pair::connect(millrace, [&self.postgres[0], &self.postgres[1]], "regression", self.variables())?;
        pair.run(&self.tests.join("regress/sql/test_setup.sql"))
    }

    fn variables(&self) -> Variables {
        let files = self.work.join("files").display().to_string();
        let named = [
            ("env PG_ABS_SRCDIR", files.clone()),
            ("env PG_ABS_BUILDDIR", files),
            ("env PG_LIBDIR", "/usr/lib/postgresql/15/lib".to_owned()),
            ("env PG_DLSUFFIX", ".so".to_owned()),
            ("DBNAME", "regression".to_owned()),
            ("USER", "postgres".to_owned()),
            ("HIDE_TOAST_COMPRESSION", "on".to_owned()),
            ("HIDE_TABLEAM", "on".to_owned()),
        ];
        named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn scripts(&self, options: &Options) -> Result {
        let scripts = self.chosen(options)?;
        let (mut ratchet, explained) = (Ratchet::load()?, Explained::load()?);
        let (mut failures, mut total) = (Vec::new(), vec![0; Outcome::ALL.len()]);
        println!("{}", heading());
        for script in &scripts {
            let cases = match script.strip_prefix("isolation/") {
                None => self.script(script, &mut failures)?,
                Some(spec) => self.isolation(spec, &mut failures)?,
            };
            let outcomes: Vec<Outcome> = cases.iter().map(|case| case.outcome).collect();
            let change = ratchet.change(script, &outcomes);
            let better = if change.better > 0 { format!("  +{}", change.better) } else { String::new() };
            println!("{}{better}", row(script, &outcomes, &mut total));
            show(&options.show, script, &cases);
            if change.other_script {
                failures
                    .push(format!("{script}: the ratchet has another number of statements; --save writes it again"));
            }
            for case in change.worse.iter().map(|&at| &cases[at]) {
                if explained.reason(script, case.line).is_none() {
                    let text = case.text.lines().next().unwrap_or_default();
                    failures.push(format!("{script}:{} is {} now: {text}", case.line, case.outcome.name()));
                }
            }
            if !change.other_script {
                let places: Vec<(usize, Outcome)> = cases.iter().map(|case| (case.line, case.outcome)).collect();
                for place in explained.stale(script, &places) {
                    failures.push(format!("{place} has no other rows now: remove it from postgres-explained.txt"));
                }
            }
            ratchet.scripts.insert(script.clone(), outcomes);
        }
        println!("{}", counts("all", &total));
        if options.save {
            ratchet.save()?;
        } else if !failures.is_empty() {
            return Err(format!("{} differences:\n{}", failures.len(), failures.join("\n")));
        }
        Ok(())
    }

    /// Names of scripts, and of isolation tests after `isolation/`.
    fn chosen(&self, options: &Options) -> Result<Vec<String>> {
        if !options.scripts.is_empty() {
            return Ok(options.scripts.clone());
        }
        let mut names = match (options.isolation, options.all) {
            (true, _) => Vec::new(),
            (false, false) => SCRIPTS.map(str::to_owned).to_vec(),
            (false, true) => names(&self.tests.join("regress/sql"), ".sql")?,
        };
        // It creates the tables that all scripts read.
        names.retain(|name| name != "test_setup");
        let specs = names_of_specs(&self.tests)?;
        names.extend(specs);
        Ok(names)
    }

    /// Runs one script in fresh databases.
    fn script(&self, script: &str, failures: &mut Vec<String>) -> Result<Vec<Case>> {
        for postgres in &self.postgres {
            create_database(postgres, "script", "regression")?;
        }
        let millrace = Millrace::start(&self.binary, self.work.join("m"), &self.work.join("files"))?;
        let mut pair = Pair::connect(millrace, [&self.postgres[0], &self.postgres[1]], "script", self.variables())?;
        pair.set_up(&self.tests.join("regress/sql/test_setup.sql"))?;
        if let Err(error) = pair.run(&self.tests.join("regress/sql").join(format!("{script}.sql"))) {
            failures.push(format!("{script}: {error}"));
        }
        if !pair.alive() {
            failures.push(format!("{script}: Millrace's process ended"));
        }
        Ok(pair.take_compared().into_iter().map(Case::from).collect())
    }

    /// Runs one isolation test in a fresh database.
    fn isolation(&self, spec: &str, failures: &mut Vec<String>) -> Result<Vec<Case>> {
        create_database(&self.postgres[0], "isolation", "template0")?;
        let mut millrace = Millrace::start(&self.binary, self.work.join("m"), &self.work.join("files"))?;
        let path = self.tests.join("isolation/specs").join(format!("{spec}.spec"));
        let permutations = isolation::run(&path, &millrace, &self.postgres[0])?;
        if !millrace.alive() {
            failures.push(format!("isolation/{spec}: Millrace's process ended"));
        }
        let cases = permutations.into_iter().enumerate();
        Ok(cases
            .map(|(at, one)| Case {
                line: at + 1,
                text: one.steps,
                outcome: one.outcome,
                ours: one.ours,
                theirs: one.theirs,
            })
            .collect())
    }
}

/// A statement, or a permutation of an isolation test, with both answers.
struct Case {
    /// Line of the statement, or number of the permutation.
    line: usize,
    text: String,
    outcome: Outcome,
    ours: String,
    theirs: String,
}

impl From<Compared> for Case {
    fn from(compared: Compared) -> Case {
        let (ours, theirs) = (short(&compared.ours.parts), short(&compared.theirs.parts));
        Case { line: compared.line, text: compared.text, outcome: compared.outcome, ours, theirs }
    }
}

fn create_database(postgres: &Postgres, name: &str, template: &str) -> Result {
    let mut client = postgres.connect("postgres")?;
    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    for text in [drop, format!("CREATE DATABASE {name} TEMPLATE {template}")] {
        if let Some((code, message)) = client.run(&text)?.error() {
            return Err(format!("{text}: {code} {message}"));
        }
    }
    Ok(())
}

/// Names of the files in a folder, without their ending.
fn names(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let files = folder.read_dir().map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = files.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(ending)?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Isolation tests. Left out are those of prepared transactions and of parallel workers, which PostgreSQL itself runs only
/// when configured for them.
fn names_of_specs(tests: &Path) -> Result<Vec<String>> {
    let left_out = |name: &String| name.starts_with("prepared-transactions") || name.starts_with("deadlock-parallel");
    let names = names(&tests.join("isolation/specs"), ".spec")?.into_iter().filter(|name| !left_out(name));
    Ok(names.map(|name| format!("isolation/{name}")).collect())
}

fn heading() -> String {
    let mut text = format!("{:<34}{:>11}", "script", "statements");
    for outcome in Outcome::ALL {
        let _ = write!(text, "{:>12}", outcome.name());
    }
    text
}

fn row(script: &str, outcomes: &[Outcome], total: &mut [usize]) -> String {
    let each = Outcome::ALL.map(|kind| outcomes.iter().filter(|outcome| **outcome == kind).count());
    for (sum, count) in total.iter_mut().zip(each) {
        *sum += count;
    }
    counts(script, &each)
}

fn counts(script: &str, counts: &[usize]) -> String {
    let all: usize = counts.iter().sum();
    let mut text = format!("{script:<34}{all:>11}");
    for (at, count) in counts.iter().enumerate() {
        let share = if at == 0 { format!("{count} {}%", 100 * count / all.max(1)) } else { count.to_string() };
        let _ = write!(text, "{share:>12}");
    }
    text
}

fn show(letters: &str, script: &str, cases: &[Case]) {
    for case in cases.iter().filter(|case| letters.contains(case.outcome.letter())) {
        println!("--- {script}:{} {}\n{}", case.line, case.outcome.name(), case.text);
        println!("PostgreSQL: {}\nMillrace:   {}", case.theirs, case.ours);
    }
}

/// The beginning of an answer.
fn short(parts: &[Part]) -> String {
    let field = |field: &Option<String>| field.clone().unwrap_or_else(|| "NULL".to_owned());
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Rows { columns, rows, .. } => {
                let names: Vec<String> =
                    columns.iter().map(|column| format!("{}:{}", column.name, column.oid)).collect();
                let _ = write!(text, "[{}] {} rows", names.join(", "), rows.len());
                for row in rows.iter().take(12) {
                    let _ = write!(text, "; {}", row.iter().map(field).collect::<Vec<_>>().join("|"));
                }
            }
            Part::Done { tag } => text.push_str(tag),
            Part::Copied { lines, .. } => text.push_str(&lines.iter().take(12).cloned().collect::<String>()),
            Part::Failed { code, message } => {
                let _ = write!(text, "{code} {message}");
            }
        }
        text.push(' ');
    }
    if text.len() > 1500 { text.chars().take(1500).chain("…".chars()).collect() } else { text }
}
