//! Isolation tests: scripts of interleaved statements in several sessions, with the same outcomes on PostgreSQL and
//! Millrace.
//!
//! The scripts are `data/isolation/*.txt`. A line is one of
//!
//! ```text
//! # comment
//! case description
//! levels rc rr ser           read committed, repeatable read, serializable; without this line: rc rr
//! setup SQL                  before the sessions start; `/*columns*/` as in differential.rs
//! a SQL                      session a runs it; BEGIN uses the current level
//! a ...                      session a's waiting statement must end now
//! a sleep 200ms              pause
//!   1|10, 2|20               indented: the outcome of the step above, unless it is `ok`
//!   waits                    … it waits while other sessions run their steps
//!   b: 1 row                 … the outcome of a waiting statement of session b that this step unblocked
//!   rr| 40001 could not …    … at this level only
//! ```
//!
//! Each case runs in its own schema; several run concurrently. `MILLRACE_BLESS=1` rewrites the outcomes from PostgreSQL.
//! `MILLRACE_ISOLATION` selects cases by a part of their names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::differential::for_both;
use crate::postgres::Postgres;
use crate::server::{Server, folder};

/// Cases that differ from PostgreSQL: case, level (`*`: all), reason. An entry whose case passes fails the test.
const DIFFERS: &[(&str, &str, &str)] = &[
    (
        "a table that others write is waited for, and what they wrote is seen",
        "rr",
        "the transaction's snapshot is that of the moment in which LOCK TABLE began to wait",
    ),
    (
        "a table that others write is waited for, and what they wrote is seen",
        "ser",
        "the transaction's snapshot is that of the moment in which LOCK TABLE began to wait",
    ),
    (
        "G2, two edges: a reader between two writers closes the circle",
        "ser",
        "reads are checked at COMMIT: it is refused, and not the UPDATE before it",
    ),
    (
        "a key that a snapshot still shows is free all the same",
        "rr",
        "a record is its key: the new row takes the old one's place, also in the snapshot of who writes it",
    ),
    (
        "a deleted row that came back with the same key is another row",
        "rc",
        "the new row takes the old one's place: who waited for the old one looks at the new one",
    ),
    (
        "the key changed, but the condition is on something else",
        "rc",
        "with another key it is another row: who waited for it finds it gone",
    ),
    ("a child of a parent that is not committed", "rc", "it waits for the parent, which may be committed"),
    ("a child of a parent that is not committed", "rr", "it waits for the parent, which may be committed"),
    ("TRUNCATE and a transaction that has read", "*", "readers hold nobody up: they keep their snapshot"),
    ("ALTER TABLE and a transaction that has read", "*", "readers hold nobody up: they keep their snapshot"),
    ("readers and an ALTER TABLE that is not committed", "rc", "readers wait for nobody: they see the table as it was"),
    ("two make the same table", "rc", "nobody waits for a name: the second is told at its commit"),
];

/// A statement that has not ended after this time counts as waiting.
const WAITS: Duration = Duration::from_millis(250);
/// A statement that does not wait must end within this time, even on a busy machine.
const ENDS: Duration = Duration::from_secs(10);
/// While outcomes are recorded, a statement that ends at all ends within this time.
const SETTLES: Duration = Duration::from_millis(700);
/// Cases run concurrently: most of the time is spent confirming that a statement waits.
const AT_A_TIME: usize = 8;

#[test]
fn scripts_match_postgresql() {
    let postgres = Postgres::start_with("-c deadlock_timeout=100ms -c max_connections=200");
    let bless = std::env::var_os("MILLRACE_BLESS").is_some();
    let failures = run(Product::Postgres, &postgres.url(), bless, |_, _| None);
    assert!(failures.is_empty(), "{} cases differ:\n\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn millrace_matches_the_scripts() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let differs = |case: &Case, level: Level| {
        let listed = |entry: &&(&str, &str, &'static str)| {
            [case.name.as_str(), "*"].contains(&entry.0) && [level.short(), "*"].contains(&entry.1)
        };
        DIFFERS.iter().find(listed).map(|entry| entry.2)
    };
    let failures = run(Product::Millrace, &server.url(), false, differs);
    assert!(failures.is_empty(), "{} cases differ:\n\n{}", failures.len(), failures.join("\n"));
    server.stop();
}

/// Runs all cases of all scripts at all their levels; returns those with a different outcome. `differs`: the reason
/// if a difference is expected.
fn run(
    product: Product,
    url: &str,
    bless: bool,
    differs: impl Fn(&Case, Level) -> Option<&'static str>,
) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let only = std::env::var("MILLRACE_ISOLATION").ok().filter(|_| !bless);
    let mut failures = Vec::new();
    let mut cases = 0;
    for path in scripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut script = Script::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Some(only) = &only {
            script.cases.retain(|case| case.name.contains(only.as_str()));
        }
        let at_levels: Vec<(&Case, Level)> =
            script.cases.iter().flat_map(|case| case.levels.iter().map(move |level| (case, *level))).collect();
        cases += at_levels.len();
        let runs = futures::stream::iter(&at_levels)
            .map(|(case, level)| run_case(product, url, case, *level, bless))
            .buffered(AT_A_TIME);
        let transcripts: Vec<Transcript> = runtime.block_on(runs.collect());
        for ((case, level), transcript) in at_levels.iter().zip(&transcripts) {
            match (differs(case, *level), &transcript.differs) {
                (None, true) => failures.push(transcript.shown(case, *level)),
                (Some(why), false) => failures.push(format!(
                    "{} ({}) comes out right now: it needs no excuse ({why})\n",
                    case.name,
                    level.short()
                )),
                _ => {}
            }
        }
        if bless {
            assert!(failures.is_empty(), "{}", failures.join("\n"));
            let places = at_levels.iter().map(|(case, level)| (case.line, *level));
            std::fs::write(&path, blessed(&text, &script, &places.zip(transcripts).collect())).unwrap();
        }
    }
    assert!(only.is_some() || cases > 60, "only {cases} cases");
    failures
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data/isolation");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    scripts
}

/// The product under test, in the order of [`for_both`].
#[derive(Clone, Copy)]
enum Product {
    Millrace,
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    const ALL: [Level; 3] = [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable];

    fn short(self) -> &'static str {
        ["rc", "rr", "ser"][self as usize]
    }

    fn sql(self) -> &'static str {
        ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][self as usize]
    }
}

struct Script {
    cases: Vec<Case>,
}

struct Case {
    name: String,
    /// Line in the script, from 0.
    line: usize,
    levels: Vec<Level>,
    setup: Vec<String>,
    steps: Vec<Step>,
}

struct Step {
    session: char,
    sql: String,
    line: usize,
    /// Expected outcomes, for all levels or one.
    outcomes: Vec<(Option<Level>, String)>,
}

impl Step {
    fn at(&self, level: Level) -> Vec<String> {
        let outcomes = self.outcomes.iter().filter(|(at, text)| at.is_none_or(|at| at == level) && text != "ok");
        outcomes.map(|(_, text)| text.clone()).collect()
    }
}

impl Script {
    fn parse(text: &str) -> Result<Script, String> {
        let mut cases: Vec<Case> = Vec::new();
        for (line, content) in text.lines().enumerate() {
            if content.trim().is_empty() || content.starts_with('#') {
                continue;
            }
            let error = |what: &str| format!("line {}: {what}: {content}", line + 1);
            let (word, rest) = content.split_once(' ').ok_or_else(|| error("one word"))?;
            let rest = rest.trim();
            if word == "case" {
                let levels = vec![Level::ReadCommitted, Level::RepeatableRead];
                cases.push(Case { name: rest.to_owned(), line, levels, setup: Vec::new(), steps: Vec::new() });
                continue;
            }
            let case = cases.last_mut().ok_or_else(|| error("before the first case"))?;
            match word {
                "levels" => {
                    let level = |word| Level::ALL.into_iter().find(|level| level.short() == word);
                    let levels = rest.split_whitespace().map(level).collect::<Option<_>>();
                    case.levels = levels.ok_or_else(|| error("no such level"))?;
                }
                "setup" => case.setup.push(rest.to_owned()),
                "" => {
                    let step = case.steps.last_mut().ok_or_else(|| error("an outcome before the first step"))?;
                    step.outcomes.push(outcome(rest));
                }
                session if session.len() == 1 => {
                    let session = session.chars().next().unwrap();
                    case.steps.push(Step { session, sql: rest.to_owned(), line, outcomes: Vec::new() });
                }
                _ => return Err(error("what is this")),
            }
        }
        Ok(Script { cases })
    }
}

/// `rc| text` or `text`
fn outcome(line: &str) -> (Option<Level>, String) {
    for level in Level::ALL {
        if let Some(text) = line.strip_prefix(level.short()).and_then(|rest| rest.strip_prefix("| ")) {
            return (Some(level), text.to_owned());
        }
    }
    (None, line.to_owned())
}

/// Outcomes of the steps, up to the first unexpected one.
struct Transcript {
    steps: Vec<Vec<String>>,
    differs: bool,
}

impl Transcript {
    fn shown(&self, case: &Case, level: Level) -> String {
        let mut text = format!("case {} ({})\n", case.name, level.short());
        for (step, outcomes) in case.steps.iter().zip(&self.steps) {
            let _ = writeln!(text, "{} {}", step.session, step.sql);
            if *outcomes != step.at(level) {
                let _ = writeln!(text, "  expected: {:?}\n  seen:     {outcomes:?}", step.at(level));
            } else {
                outcomes.iter().for_each(|outcome| _ = writeln!(text, "  {outcome}"));
            }
        }
        if self.steps.is_empty() {
            text.push_str("  the setup failed\n");
        }
        text
    }
}

/// The script with expected outcomes replaced by observed ones.
fn blessed(text: &str, script: &Script, seen: &BTreeMap<(usize, Level), Transcript>) -> String {
    let mut outcomes: BTreeMap<usize, String> = BTreeMap::new();
    for case in &script.cases {
        for (at, step) in case.steps.iter().enumerate() {
            let of: Vec<(Level, &Vec<String>)> =
                case.levels.iter().map(|level| (*level, &seen[&(case.line, *level)].steps[at])).collect();
            outcomes.insert(step.line, merged(&of));
        }
    }
    let mut blessed = String::new();
    for (line, content) in text.lines().enumerate().filter(|(_, content)| !content.starts_with("  ")) {
        let _ = writeln!(blessed, "{content}");
        blessed.push_str(outcomes.get(&line).map_or("", String::as_str));
    }
    blessed
}

/// The outcome lines of a step: once if all levels agree, else by level.
fn merged(of: &[(Level, &Vec<String>)]) -> String {
    let mut lines = String::new();
    if of.iter().all(|(_, outcomes)| *outcomes == of[0].1) {
        of[0].1.iter().for_each(|outcome| _ = writeln!(lines, "  {outcome}"));
        return lines;
    }
    for (level, outcomes) in of {
        // An empty outcome must be written if other levels have one.
        let ok = [String::from("ok")];
        let outcomes = if outcomes.is_empty() { &ok[..] } else { outcomes };
        outcomes.iter().for_each(|outcome| _ = writeln!(lines, "  {}| {outcome}", level.short()));
    }
    lines
}

/// A client and its running statement.
struct Session {
    client: Arc<Client>,
    /// The reason why the connection ended.
    ended: Arc<Mutex<Option<String>>>,
    pid: i32,
    pending: Option<JoinHandle<String>>,
}

impl Session {
    async fn connect(url: &str, schema: &str) -> Session {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let ended = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&ended);
        tokio::spawn(async move {
            let end = connection.await.map_or_else(|error| shown(&error), |()| "without a word".to_owned());
            *noted.lock().unwrap() = Some(end);
        });
        client.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        Session { client: Arc::new(client), ended, pid, pending: None }
    }

    fn start(&mut self, sql: String) {
        let (client, ended) = (Arc::clone(&self.client), Arc::clone(&self.ended));
        self.pending = Some(tokio::spawn(async move { answer(&client, &ended, &sql).await }));
    }

    /// Returns when the server has received the statement, as seen by `other`: statements must queue in the order
    /// in which they were sent, even on a busy machine.
    async fn arrived(&self, other: &Client) {
        let sql = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {} AND state = 'active'", self.pid);
        let began = Instant::now();
        let is_over = || self.pending.as_ref().is_none_or(JoinHandle::is_finished);
        while !is_over() && other.query(&sql, &[]).await.unwrap().is_empty() {
            assert!(began.elapsed() < ENDS, "a statement did not reach the server");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The statement may still be in planning.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    /// The statement's outcome if it ends within this time.
    async fn end(&mut self, within: Duration) -> Option<String> {
        let pending = self.pending.as_mut()?;
        let answer = tokio::time::timeout(within, pending).await.ok()?.unwrap();
        self.pending = None;
        Some(answer)
    }
}

async fn answer(client: &Client, ended: &Mutex<Option<String>>, sql: &str) -> String {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) if error.is_closed() => {
            // The connection's task reports the reason a moment later.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let why = ended.lock().unwrap().clone();
            return format!("closed: {}", why.unwrap_or_default());
        }
        Err(error) => return shown(&error),
    };
    let mut rows = None;
    let mut count = 0;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => rows = Some(Vec::new()),
            SimpleQueryMessage::Row(row) => {
                let cells: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
                rows.get_or_insert_default().push(cells.join("|"));
            }
            SimpleQueryMessage::CommandComplete(number) => count = number,
            _ => {}
        }
    }
    match rows {
        Some(rows) if rows.is_empty() => "no rows".to_owned(),
        Some(rows) => rows.join(", "),
        None if !changes_rows(sql) => "ok".to_owned(),
        None => format!("{count} {}", if count == 1 { "row" } else { "rows" }),
    }
}

fn changes_rows(sql: &str) -> bool {
    ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| sql.starts_with(verb))
}

/// SQLSTATE and text; only the SQLSTATE for 40001, whose text says deleted or updated depending on the statement.
fn shown(error: &tokio_postgres::Error) -> String {
    let Some(error) = error.as_db_error() else { return error.to_string() };
    match error.code().code() {
        "40001" => "40001".to_owned(),
        code => format!("{code} {}", error.message()),
    }
}

/// Runs a case. Expected outcomes say which statements must wait; with `discover` this is decided by time only.
async fn run_case(product: Product, url: &str, case: &Case, level: Level, discover: bool) -> Transcript {
    let schema = format!("case_{}_{}_{}", case.line, level.short(), name_hash(&case.name));
    let mut transcript = Transcript { steps: Vec::new(), differs: false };
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let first = [format!("CREATE SCHEMA {schema}"), format!("SET search_path = {schema}")];
    let setup = case.setup.iter().map(|sql| for_both(sql)[product as usize].clone());
    for sql in first.iter().cloned().chain(setup) {
        if let Err(error) = client.batch_execute(&sql).await {
            eprintln!("{} ({}): {sql}: {}", case.name, level.short(), shown(&error));
            transcript.differs = true;
            return transcript;
        }
    }
    let mut sessions: BTreeMap<char, Session> = BTreeMap::new();
    for step in &case.steps {
        if let Entry::Vacant(place) = sessions.entry(step.session) {
            place.insert(Session::connect(url, &schema).await);
        }
        let expected = (!discover).then(|| step.at(level));
        let seen = run_step(&mut sessions, &client, step, level, expected.as_deref()).await;
        transcript.differs |= expected.is_some_and(|expected| expected != seen);
        transcript.steps.push(seen);
        if transcript.differs {
            return transcript;
        }
    }
    let waiting: Vec<&char> =
        sessions.iter().filter_map(|(name, session)| session.pending.is_some().then_some(name)).collect();
    assert!(waiting.is_empty(), "case {}: {waiting:?} still wait at the end", case.name);
    transcript
}

/// Schemas of different scripts have different names.
fn name_hash(name: &str) -> u32 {
    name.bytes().fold(17, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
}

async fn run_step(
    sessions: &mut BTreeMap<char, Session>,
    other: &Client,
    step: &Step,
    level: Level,
    expected: Option<&[String]>,
) -> Vec<String> {
    let mut seen = Vec::new();
    if let Some(time) = step.sql.strip_prefix("sleep ") {
        let ms = time.trim_end_matches("ms").parse().expect("milliseconds");
        tokio::time::sleep(Duration::from_millis(ms)).await;
    } else {
        let own = sessions.get_mut(&step.session).unwrap();
        if step.sql == "..." {
            assert!(own.pending.is_some(), "line {}: {} does not wait", step.line + 1, step.session);
        } else {
            assert!(own.pending.is_none(), "line {}: {} still waits", step.line + 1, step.session);
            own.start(match step.sql.as_str() {
                "BEGIN" => format!("BEGIN ISOLATION LEVEL {}", level.sql()),
                sql => sql.to_owned(),
            });
        }
        let waits = |expected: &[String]| expected.first().is_some_and(|first| first == "waits");
        let within = match expected {
            Some(expected) if waits(expected) => WAITS,
            None if step.sql != "..." => SETTLES,
            _ => ENDS,
        };
        match own.end(within).await {
            None => {
                own.arrived(other).await;
                seen.push("waits".to_owned());
            }
            Some(outcome) if outcome == "ok" => {}
            Some(outcome) => seen.push(outcome),
        }
    }
    for (name, session) in sessions.iter_mut().filter(|(name, _)| **name != step.session) {
        let prefix = format!("{name}: ");
        let within = match expected {
            None => SETTLES,
            Some(expected) if expected.iter().any(|outcome| outcome.starts_with(&prefix)) => ENDS,
            Some(_) => Duration::ZERO,
        };
        seen.extend(session.end(within).await.map(|outcome| prefix + &outcome));
    }
    seen
}
