//! Backslash commands, after psql's.

use std::fs::File;
use std::io::{BufReader, BufWriter};

use clap::ValueEnum;

use super::format::Format;
use super::session::{Session, Trouble, print_error};
use crate::failure::Failure;

/// What to do after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Quit,
}

const HELP: &str = "\
\\d [TABLE]            tables, or the columns of one
\\dt                   tables
\\l                    databases
\\copy T FROM 'FILE'   load a file (COPY's options after it); \\copy T TO 'FILE' writes one
\\format [FORMAT]      table, csv, json or ndjson
\\timing [on|off]      how long each statement takes
\\i FILE               run statements from a file
\\?                    this
\\q                    leave

Everything else is SQL; a statement ends with a semicolon. Ctrl-C cancels, Ctrl-D leaves.";

const TABLES: &str = "\
SELECT table_schema AS schema, table_name AS name, table_type AS type FROM information_schema.tables \
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2";

/// Runs one backslash command.
pub(super) async fn run(session: &mut Session, line: &str) -> Result<Next, Failure> {
    let line = line.trim_end_matches(';');
    let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    match (command, argument) {
        ("\\q", _) => return Ok(Next::Quit),
        ("\\?", _) => println!("{HELP}"),
        ("\\dt", _) | ("\\d", "") => session.run(TABLES).await?,
        ("\\d", table) => session.run(&columns(table)).await?,
        ("\\l", _) => session.run("SELECT datname AS name FROM pg_catalog.pg_database ORDER BY 1").await?,
        ("\\timing", argument) => timing(session, argument)?,
        ("\\format", argument) => format(session, argument)?,
        ("\\copy", argument) => copy(session, argument).await?,
        ("\\i", path) => {
            let text = std::fs::read_to_string(path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
            Box::pin(super::run_text(session, &text, false)).await?;
        }
        _ => return Err(Failure::new(format!("{command} is no command; \\? lists them"))),
    }
    Ok(Next::Go)
}

fn columns(table: &str) -> String {
    let (schema, name) = table.split_once('.').unwrap_or(("", table));
    // Unquoted names are lower case, as in SQL.
    let literal = |name: &str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\"").replace('\'', "''"),
        None => name.to_lowercase().replace('\'', "''"),
    };
    let in_schema = match schema {
        "" => "table_schema = ANY (current_schemas(false))".to_owned(),
        schema => format!("table_schema = '{}'", literal(schema)),
    };
    format!(
        "SELECT column_name AS column, data_type AS type, is_nullable AS nullable FROM information_schema.columns \
         WHERE table_name = '{}' AND {in_schema} ORDER BY ordinal_position",
        literal(name)
    )
}

fn timing(session: &mut Session, argument: &str) -> Result<(), Failure> {
    session.timing = match argument {
        "" => !session.timing,
        "on" => true,
        "off" => false,
        other => return Err(Failure::new(format!("\\timing {other:?}: on or off"))),
    };
    println!("Timing is {}.", if session.timing { "on" } else { "off" });
    Ok(())
}

fn format(session: &mut Session, argument: &str) -> Result<(), Failure> {
    if !argument.is_empty() {
        session.format = Format::from_str(argument, true)
            .map_err(|_| Failure::new(format!("\\format {argument:?}: table, csv, json or ndjson")))?;
    }
    println!("Format is {}.", format!("{:?}", session.format).to_lowercase());
    Ok(())
}

/// `T FROM 'file' …` becomes `COPY T FROM STDIN …`, fed from the file; `TO` likewise.
async fn copy(session: &mut Session, argument: &str) -> Result<(), Failure> {
    let (sql, path, into) = parse_copy(argument)
        .ok_or_else(|| Failure::new("write it like: \\copy table FROM 'file' WITH (FORMAT csv, HEADER)"))?;
    let open = |error: std::io::Error| Failure::new(format!("{path}: {error}"));
    let result = if into {
        let mut file = BufReader::new(File::open(&path).map_err(open)?);
        session.copy_in(&sql, &mut file).await
    } else {
        let mut file = BufWriter::new(File::create(&path).map_err(open)?);
        session.copy_out(&sql, &mut file).await
    };
    session.print_notices();
    match result {
        Ok(()) => Ok(()),
        Err(Trouble::Server(error)) => {
            print_error(&sql, &error);
            Err(Failure::told())
        }
        Err(Trouble::Output(error)) => Err(open(error)),
    }
}

/// The statement to send, the file, and whether data goes in.
fn parse_copy(argument: &str) -> Option<(String, String, bool)> {
    let lower = argument.to_ascii_lowercase();
    let from = lower.find(" from ").map(|at| (at, at + 6, true));
    let to = lower.rfind(" to ").map(|at| (at, at + 4, false));
    // `(SELECT … FROM t) TO 'f'` has both; its file follows TO.
    let (end, start, into) = if argument.starts_with('(') { to? } else { from.or(to)? };
    let rest = argument.get(start..)?.trim_start();
    let (path, options) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'')?,
        None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
    };
    let stream = if into { "FROM STDIN" } else { "TO STDOUT" };
    let sql = format!("COPY {} {stream} {}", &argument[..end], options.trim());
    (!path.is_empty()).then(|| (sql.trim_end().to_owned(), path.to_owned(), into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_becomes_the_statement_for_a_stream() {
        let parsed = |text: &str| parse_copy(text).map(|(sql, path, into)| format!("{sql} | {path} | {into}"));
        let cases = [
            ("t FROM 'a b.csv' WITH (FORMAT csv)", Some("COPY t FROM STDIN WITH (FORMAT csv) | a b.csv | true")),
            ("t (a, b) from x.tsv", Some("COPY t (a, b) FROM STDIN | x.tsv | true")),
            ("(SELECT 1 FROM t) TO 'o.csv' CSV", Some("COPY (SELECT 1 FROM t) TO STDOUT CSV | o.csv | false")),
            ("t", None),
            ("t FROM ''", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_table_name_cannot_break_out_of_its_query() {
        assert!(columns("T'x").contains("table_name = 't''x'"));
        assert!(columns("s.\"T\"").contains("table_name = 'T' AND table_schema = 's'"));
    }
}
