//! CHECKPOINT, VACUUM and LOCK TABLE: background work done synchronously, and explicit locks. REINDEX, CLUSTER and
//! COMMENT have no effect and send a NOTICE that says so.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use engine::Pending;
use model::{Error, Result, SqlState};

use crate::insert::find_table;
use crate::rows::Named;
use crate::session::{Outcome, Session};
use crate::statement::{Text, is_word};
use crate::syntax_rewrites::folded;

/// A maintenance statement. None of them changes the contents of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// Flushes all memtables to segments and truncates the log.
    Checkpoint,
    /// With `full`: flushes, and then compacts all segments to their final form. Without `full`: no effect; tools send
    /// it unasked.
    Vacuum { full: bool, tables: Vec<ObjectName> },
    /// SET CONSTRAINTS: constraints are always immediate.
    Constraints { deferred: bool },
    /// ALTER TABLE … SET (timescaledb…): TimescaleDB's compression settings. Tables are compressed anyway.
    Compress { table: ObjectName },
    /// REINDEX, CLUSTER: indexes and rows are always in order. `tables`: the tables named.
    Reorder { tag: &'static str, tables: Vec<ObjectName> },
    /// COMMENT ON: comments are not stored. `table`: the table named, or the table of the column named.
    Comment { table: Option<ObjectName> },
    /// LOCK TABLE.
    Lock { tables: Vec<ObjectName>, mode: LockMode, nowait: bool },
}

/// Lock strength of LOCK TABLE: PostgreSQL's eight modes are mapped to three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// ACCESS SHARE, the lock of a reader.
    AccessShare,
    /// ROW SHARE and ROW EXCLUSIVE: other transactions may write to the table, but not alter it.
    Shared,
    /// SHARE UPDATE EXCLUSIVE and stronger: no other transaction may write to the table or alter it.
    Alone,
}

/// The words allowed between VACUUM and the tables.
const WORDS: &[&str] = &["full", "freeze", "verbose", "analyze"];
/// The options allowed in parentheses, each with an optional value. Only FULL has an effect.
const OPTIONS: &[&str] = &[
    "full",
    "freeze",
    "verbose",
    "analyze",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_main",
    "process_toast",
    "truncate",
    "parallel",
    "skip_database_stats",
    "only_database_stats",
    "buffer_usage_limit",
];

/// Parses a maintenance statement; `None` for other statements.
///
/// # Errors
/// 42601 at an unexpected token.
pub(crate) fn parse(tokens: &[TokenWithSpan], text: &Text<'_>) -> Result<Option<Maintenance>> {
    if let Some(found) = constraints(tokens).or_else(|| compress(tokens)) {
        return Ok(Some(found));
    }
    let is_checkpoint = is_word(&tokens[0], "checkpoint");
    let is_lock = is_word(&tokens[0], "lock");
    let others = ["vacuum", "reindex", "cluster", "comment"];
    let other = others.into_iter().find(|word| is_word(&tokens[0], word)).unwrap_or_default();
    if !is_checkpoint && !is_lock && other.is_empty() {
        return Ok(None);
    }
    let rest = tokens[1..].iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).cloned();
    let end = tokens[tokens.len() - 1].span.end;
    let unexpected = |token: &TokenWithSpan| {
        text.unexpected(&token.token, if token.token == Token::EOF { end } else { token.span.start })
    };
    let mut parser = compiled::parser(rest.collect());
    let read = match (is_checkpoint, other) {
        (true, _) => Ok(Maintenance::Checkpoint),
        (_, "vacuum") => vacuum(&mut parser),
        (_, "reindex") => reindex(&mut parser),
        (_, "cluster") => cluster(&mut parser),
        (_, "comment") => comment(&mut parser),
        _ => lock(&mut parser),
    };
    match read {
        Ok(maintenance) if parser.peek_token_ref().token == Token::EOF => Ok(Some(maintenance)),
        Err(Refused::Option(error)) => Err(error),
        _ => Err(unexpected(parser.peek_token_ref())),
    }
}

/// `SET CONSTRAINTS { ALL | names } { IMMEDIATE | DEFERRED }`
fn constraints(tokens: &[TokenWithSpan]) -> Option<Maintenance> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    if !is_word(words.next()?, "set") || !is_word(words.next()?, "constraints") {
        return None;
    }
    let last = words.next_back()?;
    let deferred = is_word(last, "deferred");
    (deferred || is_word(last, "immediate")).then_some(Maintenance::Constraints { deferred })
}

/// `ALTER TABLE name SET (timescaledb.…)`
fn compress(tokens: &[TokenWithSpan]) -> Option<Maintenance> {
    let words: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    if !is_word(words.first()?, "alter") || !is_word(words.get(1)?, "table") {
        return None;
    }
    let set = words.iter().position(|token| is_word(token, "set"))?;
    let is_theirs = words.get(set + 1)?.token == Token::LParen && is_word(words.get(set + 2)?, "timescaledb");
    if !is_theirs || words.last()?.token != Token::RParen {
        return None;
    }
    let named = words.get(2..set)?.iter().map(|token| (*token).clone()).collect();
    let mut parser = compiled::parser(named);
    let table = parser.parse_object_name(false).ok()?;
    (parser.peek_token_ref().token == Token::EOF).then_some(Maintenance::Compress { table })
}

/// The reason why a statement cannot be parsed.
enum Refused {
    /// The next token is unexpected.
    Token,
    Option(Error),
}

fn vacuum(parser: &mut Parser<'_>) -> std::result::Result<Maintenance, Refused> {
    let mut full = false;
    if parser.consume_token(&Token::LParen) {
        loop {
            full = option(parser)?.unwrap_or(full);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen).map_err(|_| Refused::Token)?;
    } else {
        while let Some(word) = WORDS.iter().find(|word| is_word(parser.peek_token_ref(), word)) {
            parser.next_token();
            full |= *word == "full";
        }
    }
    let tables = if parser.peek_token_ref().token == Token::EOF { Vec::new() } else { table_names(&mut *parser)? };
    Ok(Maintenance::Vacuum { full, tables })
}

/// Consumes the next token if it is this word.
fn take(parser: &mut Parser<'_>, word: &str) -> bool {
    let found = is_word(parser.peek_token_ref(), word);
    if found {
        parser.advance_token();
    }
    found
}

/// Skips options in parentheses.
fn skip_options(parser: &mut Parser<'_>) {
    if parser.consume_token(&Token::LParen) {
        while !matches!(parser.next_token().token, Token::RParen | Token::EOF) {}
    }
}

/// Parses the rest of `REINDEX`. `REINDEX INDEX` names no table.
fn reindex(parser: &mut Parser<'_>) -> std::result::Result<Maintenance, Refused> {
    skip_options(parser);
    let of_table = take(parser, "table");
    if !of_table && !["index", "schema", "database", "system"].iter().any(|word| take(parser, word)) {
        return Err(Refused::Token);
    }
    take(parser, "concurrently");
    let names = table_names(parser)?;
    Ok(Maintenance::Reorder { tag: "REINDEX", tables: if of_table { names } else { Vec::new() } })
}

/// Parses the rest of `CLUSTER`.
fn cluster(parser: &mut Parser<'_>) -> std::result::Result<Maintenance, Refused> {
    skip_options(parser);
    take(parser, "verbose");
    let mut tables = Vec::new();
    if parser.peek_token_ref().token != Token::EOF {
        tables = table_names(parser)?;
    }
    if take(parser, "using") {
        table_names(parser)?;
    }
    Ok(Maintenance::Reorder { tag: "CLUSTER", tables })
}

/// Parses the rest of `COMMENT`.
fn comment(parser: &mut Parser<'_>) -> std::result::Result<Maintenance, Refused> {
    if !take(parser, "on") {
        return Err(Refused::Token);
    }
    let of_column = take(parser, "column");
    let of_table = !of_column && take(parser, "table");
    let mut table = None;
    if of_column || of_table {
        let mut name = parser.parse_object_name(false).map_err(|_| Refused::Token)?;
        if of_column {
            name.0.pop();
        }
        table = Some(name).filter(|name| !name.0.is_empty());
    }
    while !take(parser, "is") {
        if parser.next_token().token == Token::EOF {
            return Err(Refused::Token);
        }
    }
    match parser.next_token().token {
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_) => {}
        Token::Word(word) if word.value.eq_ignore_ascii_case("null") => {}
        _ => return Err(Refused::Token),
    }
    Ok(Maintenance::Comment { table })
}

/// Checks that the tables exist, in either store.
///
/// # Errors
/// 42P01.
fn check_tables<'a>(session: &mut Session, tables: impl IntoIterator<Item = &'a ObjectName>) -> Result<()> {
    // Dropped before any wait: a snapshot keeps files and memory alive.
    let context = session.context();
    let named = Named { snapshot: &context.snapshot, settings: &context.settings };
    let columns = tables.into_iter().filter(|table| named.find(table).is_none());
    columns.map(|table| find_table(&context, table)).try_for_each(|found| found.map(drop))
}

/// Whether a name means a relation of `pg_catalog` or `information_schema`. `pg_catalog` is searched first.
fn is_system(name: &ObjectName) -> bool {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    let (schema, table) = match parts.as_slice() {
        [table] => ("pg_catalog", table),
        [schema, table] if schema == "pg_catalog" || schema == "information_schema" => (schema.as_str(), table),
        _ => return false,
    };
    crate::pg_catalog::system_relation(schema, table).is_some()
}

/// PostgreSQL's modes of LOCK TABLE. Of two modes with a common prefix the longer one comes first.
const LOCK_MODES: &[(&[&str], LockMode)] = &[
    (&["access", "share"], LockMode::AccessShare),
    (&["row", "share"], LockMode::Shared),
    (&["row", "exclusive"], LockMode::Shared),
    (&["share", "update", "exclusive"], LockMode::Alone),
    (&["share", "row", "exclusive"], LockMode::Alone),
    (&["share"], LockMode::Alone),
    (&["exclusive"], LockMode::Alone),
    (&["access", "exclusive"], LockMode::Alone),
];

/// Parses the rest of `LOCK`.
fn lock(parser: &mut Parser<'_>) -> std::result::Result<Maintenance, Refused> {
    let take = |parser: &mut Parser<'_>, words: &[&str]| {
        let found = words.iter().enumerate().all(|(at, word)| is_word(parser.peek_nth_token_ref(at), word));
        (0..if found { words.len() } else { 0 }).for_each(|_| parser.advance_token());
        found
    };
    take(parser, &["table"]);
    take(parser, &["only"]);
    let tables = table_names(parser)?;
    let mut mode = LockMode::Alone;
    if take(parser, &["in"]) {
        let found = LOCK_MODES.iter().find(|(words, _)| take(parser, words));
        mode = found.ok_or(Refused::Token)?.1;
        if !take(parser, &["mode"]) {
            return Err(Refused::Token);
        }
    }
    let nowait = take(parser, &["nowait"]);
    Ok(Maintenance::Lock { tables, mode, nowait })
}

/// A comma-separated list of names.
fn table_names(parser: &mut Parser<'_>) -> std::result::Result<Vec<ObjectName>, Refused> {
    let mut tables = Vec::new();
    loop {
        if !matches!(parser.peek_token_ref().token, Token::Word(_)) {
            return Err(Refused::Token);
        }
        let mut name = parser.parse_object_name(false).map_err(|_| Refused::Token)?;
        crate::syntax_rewrites::local(&mut name).map_err(Refused::Option)?;
        tables.push(name);
        if !parser.consume_token(&Token::Comma) {
            return Ok(tables);
        }
    }
}

/// Parses one option in parentheses; returns the value if the option is FULL.
fn option(parser: &mut Parser<'_>) -> std::result::Result<Option<bool>, Refused> {
    let Token::Word(name) = &parser.peek_token_ref().token else { return Err(Refused::Token) };
    let name = name.value.to_ascii_lowercase();
    if !OPTIONS.contains(&name.as_str()) {
        let message = format!("unrecognized VACUUM option \"{name}\"");
        return Err(Refused::Option(Error::new(SqlState::SYNTAX_ERROR, message)));
    }
    parser.next_token();
    let value = match &parser.peek_token_ref().token {
        Token::Comma | Token::RParen | Token::EOF => "true".to_owned(),
        token => token.to_string().trim_matches('\'').to_ascii_lowercase(),
    };
    if !matches!(parser.peek_token_ref().token, Token::Comma | Token::RParen | Token::EOF) {
        parser.next_token();
    }
    if name != "full" {
        return Ok(None);
    }
    match value.as_str() {
        "true" | "on" | "1" => Ok(Some(true)),
        "false" | "off" | "0" => Ok(Some(false)),
        _ => Err(Refused::Option(Error::new(SqlState::SYNTAX_ERROR, "full requires a Boolean value"))),
    }
}

/// Runs a maintenance statement.
///
/// # Errors
/// The error of the flush or compaction, whose inputs are kept; 42P01 for a table that does not exist; 25001 for VACUUM
/// in a transaction block.
pub(crate) async fn execute(session: &mut Session, maintenance: &Maintenance) -> Result<Outcome> {
    let database = session.database().clone();
    let engine = database.engine();
    match maintenance {
        Maintenance::Constraints { deferred } => {
            if *deferred {
                session.notice("SET CONSTRAINTS is ignored: constraints are looked at when a statement ends");
            }
            Ok(Outcome::command("SET CONSTRAINTS"))
        }
        Maintenance::Compress { table } => {
            find_table(&session.context(), table)?;
            session.notice(format!("hypertable \"{table}\" is always compressed: its options are ignored"));
            Ok(Outcome::command("ALTER TABLE"))
        }
        Maintenance::Reorder { tag, tables } => {
            check_tables(session, tables)?;
            session.notice(format!("{tag} is ignored: rows and indexes are in order at all times"));
            Ok(Outcome::command(*tag))
        }
        Maintenance::Comment { table } => {
            check_tables(session, table)?;
            session.notice("COMMENT is ignored: comments are not stored");
            Ok(Outcome::command("COMMENT"))
        }
        Maintenance::Checkpoint => {
            finished(engine.start_flush()).await?;
            Ok(Outcome::command("CHECKPOINT"))
        }
        Maintenance::Lock { tables, mode, nowait } => {
            crate::rows::lock_tables(session, tables, *mode, *nowait).await?;
            Ok(Outcome::command("LOCK TABLE"))
        }
        Maintenance::Vacuum { full, tables } => {
            if session.block.is_some() {
                let message = "VACUUM cannot run inside a transaction block";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            // vacuumdb also names system catalogs, which are not stored.
            let stored: Vec<&ObjectName> = tables.iter().filter(|table| !is_system(table)).collect();
            check_tables(session, stored)?;
            if *full {
                finished(engine.start_flush()).await?;
                finished(engine.start_settle()).await?;
            }
            Ok(Outcome::command("VACUUM"))
        }
    }
}

/// Waits without holding a thread.
async fn finished(pending: Pending) -> Result<()> {
    crate::database::when_set(&pending.event).await;
    pending.result()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse};

    #[test]
    fn lock_table_is_read_with_its_modes_and_refused_without() {
        for (sql, names, expected) in [
            ("LOCK a", "a", (LockMode::Alone, false)),
            ("lock table only s.a, b in share mode nowait", "s.a,b", (LockMode::Alone, true)),
            ("LOCK TABLE a IN ROW EXCLUSIVE MODE", "a", (LockMode::Shared, false)),
            ("LOCK TABLE a IN ACCESS SHARE MODE", "a", (LockMode::AccessShare, false)),
            ("LOCK a IN ACCESS EXCLUSIVE MODE", "a", (LockMode::Alone, false)),
            ("LOCK a IN SHARE ROW EXCLUSIVE MODE", "a", (LockMode::Alone, false)),
            ("LOCK a NOWAIT", "a", (LockMode::Alone, true)),
        ] {
            let parsed = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let Command::Maintenance(Maintenance::Lock { tables, mode, nowait }) = &parsed[0].0.command else {
                panic!("{sql}")
            };
            let found: Vec<String> = tables.iter().map(ToString::to_string).collect();
            assert_eq!((found.join(",").as_str(), (*mode, *nowait)), (names, expected), "{sql}");
        }
        for sql in
            ["LOCK", "LOCK TABLE", "LOCK a,", "LOCK a IN MODE", "LOCK a IN SHARE", "LOCK a IN UPDATE MODE", "LOCK a b"]
        {
            let error = parse(sql).err().unwrap_or_else(|| panic!("{sql}"));
            assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{sql}: {error}");
        }
    }

    #[test]
    fn maintenance_is_read_as_postgresql_reads_it() {
        for (sql, full, names) in [
            ("VACUUM", false, ""),
            ("vacuum full", true, ""),
            ("VACUUM FULL VERBOSE plant.readings", true, "plant.readings"),
            ("VACUUM (ANALYZE, FULL) a, b", true, "a,b"),
            ("VACUUM (FULL false, PARALLEL 2) a", false, "a"),
            ("VACUUM (FULL on)", true, ""),
            ("vacuum analyze pgbench_history;", false, "pgbench_history"),
        ] {
            let parsed = parse(sql).unwrap();
            let Command::Maintenance(Maintenance::Vacuum { full: found, tables }) = &parsed[0].0.command else {
                panic!("{sql} is something else");
            };
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            assert_eq!((*found, tables.join(",").as_str()), (full, names), "{sql}");
        }
        let parsed = parse("/* now */ Checkpoint;").unwrap();
        assert!(matches!(parsed[0].0.command, Command::Maintenance(Maintenance::Checkpoint)));
    }

    #[test]
    fn what_does_not_belong_there_is_named_with_its_place() {
        for (sql, message, position) in [
            ("CHECKPOINT now", "syntax error at or near \"now\"", 12),
            ("VACUUM (FULL", "syntax error at end of input", 13),
            ("VACUUM a b", "syntax error at or near \"b\"", 10),
            ("VACUUM (FULL,)", "syntax error at or near \")\"", 14),
            ("VACUUM a,", "syntax error at end of input", 10),
        ] {
            let error = parse(sql).err().unwrap();
            assert_eq!((error.message(), error.position()), (message, Some(position)), "{sql}");
        }
        for (sql, message) in [
            ("VACUUM (FASTER)", "unrecognized VACUUM option \"faster\""),
            ("VACUUM (FULL perhaps)", "full requires a Boolean value"),
        ] {
            assert_eq!(parse(sql).err().unwrap().message(), message);
        }
    }
}
