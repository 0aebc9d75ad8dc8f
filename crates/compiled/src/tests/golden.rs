//! Statements with the answers of PostgreSQL 15, in `golden*.txt`. A statement ends with `;`, its answer with an
//! empty line. Each file starts with an empty database.
//!
//! To ask PostgreSQL again after adding statements: `PGHOST=… PGUSER=… cargo test -p compiled -- --ignored ask`,
//! with `psql` in the path and a database whose schema `public` may be dropped. `GOLDEN=path` selects another file.

use std::io::Write;
use std::process::{Command, Stdio};

use model::{Error, Result, Type};
use parser::ast::Statement;

use super::{Db, shown};

const FILES: [&str; 10] = [
    "golden.txt",
    "golden_calls.txt",
    "golden_changes.txt",
    "golden_constants.txt",
    "golden_functions.txt",
    "golden_foreign.txt",
    "golden_queries.txt",
    "golden_random.txt",
    "golden_sequences.txt",
    "golden_shapes.txt",
];

fn files() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests");
    match std::env::var("GOLDEN") {
        Ok(file) => vec![file],
        Err(_) => FILES.iter().map(|file| format!("{folder}/{file}")).collect(),
    }
}

/// Comments, statements and answers.
struct Case {
    /// Lines before the statement.
    comment: String,
    sql: String,
    answer: String,
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut lines = text.lines().peekable();
    let mut comment = String::new();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with("--") {
            comment += &format!("{line}\n");
            continue;
        }
        let mut sql = line.to_owned();
        while !sql.ends_with(';') {
            sql += "\n";
            sql += lines.next().unwrap_or_else(|| panic!("no end: {sql}"));
        }
        let mut answer = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty()) {
            answer.push(line);
        }
        lines.next();
        cases.push(Case { comment: std::mem::take(&mut comment), sql, answer: answer.join("\n") });
    }
    cases
}

/// Output in psql's format: rows, then the command tag.
fn answer(db: &Db, sql: &str) -> String {
    let parsed = parser::parse_all(sql).map(|mut statements| statements.pop().map(|one| one.statement));
    let tag = match &parsed {
        Ok(Some(Statement::Insert(_))) => Some("INSERT 0"),
        Ok(Some(Statement::Update(_))) => Some("UPDATE"),
        Ok(Some(Statement::Delete(_))) => Some("DELETE"),
        Ok(Some(Statement::Query(_)) | None) | Err(_) => None,
        Ok(Some(definition)) => {
            return match db.define(definition) {
                Ok(tag) => tag.into(),
                Err(error) => failed(&error),
            };
        }
    };
    match ran(db, sql) {
        Ok((rows, count)) => {
            let tag = tag.map(|tag| format!("{tag} {count}"));
            rows.into_iter().map(line).chain(tag).collect::<Vec<_>>().join("\n")
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> String {
    let detail = error.detail().map_or(String::new(), |detail| format!("\nDETAIL:  {detail}"));
    format!("ERROR:  {}: {}{detail}", error.state(), error.message())
}

/// A line of an answer; an empty line would end the answer.
fn line(text: String) -> String {
    if text.is_empty() { "\"\"".into() } else { text }
}

fn ran(db: &Db, sql: &str) -> Result<(Vec<String>, u64)> {
    db.try_shown(sql.trim_end_matches(';'), &[], |value, ty| {
        let text = shown(value, ty);
        if ty == Type::Bool && !value.is_null() { text[..1].to_owned() } else { text }
    })
}

/// Rows without ORDER BY are compared as a set.
fn comparable(sql: &str, answer: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    if !sql.to_ascii_lowercase().contains("order by") && !answer.starts_with("ERROR") {
        lines.sort();
    }
    lines
}

#[test]
fn answers_are_those_of_postgresql() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in files() {
        let db = Db::new();
        for case in cases(&std::fs::read_to_string(file).expect("the file")) {
            let found = answer(&db, &case.sql);
            if comparable(&case.sql, &found) != comparable(&case.sql, &case.answer) {
                wrong.push(format!("{}\nexpected:\n{}\nfound:\n{found}\n", case.sql, case.answer));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
#[ignore = "asks a PostgreSQL server and writes its answers"]
fn ask_postgresql() {
    files().iter().for_each(|file| ask(file));
}

fn ask(file: &str) {
    const MARK: &str = "=====";
    let cases = cases(&std::fs::read_to_string(file).expect("the file"));
    let mut script = String::from("\\set VERBOSITY verbose\nDROP SCHEMA IF EXISTS public CASCADE;\n");
    script += "CREATE SCHEMA public;\nSET TimeZone TO 'Etc/GMT-1';\n";
    cases.iter().for_each(|case| script += &format!("\\echo {MARK}\n{}\n", case.sql));
    let mut psql = Command::new("sh")
        .args(["-c", "exec psql -X -A -t -F '|' -P null=null 2>&1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("psql");
    let mut input = psql.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = psql.wait_with_output().expect("psql");
    writer.join().expect("a thread").expect("psql listens");
    let output = String::from_utf8(output.stdout).expect("UTF-8");
    let mut text = String::new();
    let answers: Vec<&str> = output.split(&format!("{MARK}\n")).skip(1).collect();
    assert_eq!(answers.len(), cases.len(), "{output}");
    for (case, answer) in cases.iter().zip(answers) {
        let told = |line: &&str| {
            !["LOCATION:", "HINT:", "LINE ", "CONTEXT:", "CONSTRAINT", "SCHEMA", "TABLE", "COLUMN"]
                .iter()
                .any(|word| line.starts_with(word))
                && !line.trim_start().starts_with('^')
        };
        let answer: Vec<String> = answer.lines().filter(told).map(|text| line(text.into())).collect();
        text += &format!("{}{}\n{}\n\n", case.comment, case.sql, answer.join("\n"));
    }
    std::fs::write(file, text.replace("\n\n\n", "\n\n")).expect("the file is written");
}
