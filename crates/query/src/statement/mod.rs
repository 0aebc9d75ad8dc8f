//! Splits SQL text into statements and parses them by crate `parser`; every error has a position.

pub(crate) mod calls;
pub(crate) mod copy;
pub(crate) mod cursor;
mod explain;
pub(crate) mod maintenance;
pub(crate) mod option_values;

use std::sync::Arc;

use engine::{MemoryBudget, Reservation, Work};
use model::{Error, Result, SqlState, limits};
use parser::ast as tree;

pub(crate) use self::explain::ExplainFormat;

use self::copy::CopyStatement;
use self::cursor::CursorStatement;
use self::maintenance::Maintenance;
use crate::routines::Variables;

/// Value of `offset` for statements whose errors have no position.
pub(crate) const NO_PLACE: u32 = u32::MAX;

/// Query of SHOW TABLES: all tables outside the system schemas.
const TABLES: &str = "SELECT n.nspname AS schema, c.relname AS name, \
    CASE a.amname WHEN 'heap' THEN 'rows' ELSE a.amname END AS store \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
    AND NOT pg_catalog.pg_is_other_temp_schema(n.oid) ORDER BY 1, 2";
/// Query of DESCRIBE; the table's name, as a string literal, is inserted between the two parts.
const COLUMNS: [&str; 2] = [
    "SELECT a.attname AS column, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, NOT a.attnotnull AS nullable \
     FROM pg_catalog.pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = ",
    "::regclass ORDER BY a.attnum",
];

/// Query of SHOW CREATE TABLE; `$name` is replaced by the relation's name, as a string literal.
const DEFINITION: &str = include_str!("definition.sql");

/// A parsed statement, not yet typed. Cloning is cheap.
#[derive(Clone)]
pub struct Statement(pub(crate) Arc<Parsed>);

/// A parsed statement.
pub(crate) struct Parsed {
    /// Text of the statement, without the semicolon.
    pub(crate) sql: String,
    /// Number of characters before the statement in the whole text, which error positions refer to; or
    /// [`NO_PLACE`].
    pub(crate) offset: u32,
    pub(crate) command: Command,
    /// Where the rows of a query go.
    pub(crate) purpose: Purpose,
    /// The highest `$n`.
    pub(crate) parameters: usize,
    /// Memory reserved for a long text; `None` for a short one.
    pub(crate) held: Option<Arc<Reservation>>,
    /// The variables that it may name, within a routine.
    pub(crate) variables: Option<Arc<Variables>>,
}

/// Where the rows of a query go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To the client, in the styles of the session.
    Shown,
    /// Into a `rows` table, or to the client in binary format: the server reads texts again that stand for values.
    Rows,
    /// Into a `columns` table, whose times have nanoseconds.
    Columns,
}

/// Kind of statement.
pub(crate) enum Command {
    /// SELECT, VALUES, TABLE and WITH.
    Query(Box<tree::Query>),
    /// INSERT, UPDATE, DELETE and MERGE.
    Change(tree::Statement),
    /// SUMMARIZE, which is planned as another query.
    Summarize(Box<tree::Query>),
    Explain(Explain),
    Prepare(Box<Prepare>),
    Execute(Box<tree::Execute>),
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<tree::Ident>),
    /// CREATE TABLE … AS of a query.
    CreateTableAs(Box<tree::CreateTableAs>),
    Copy(CopyStatement),
    Maintenance(Maintenance),
    /// DECLARE, FETCH, MOVE and CLOSE.
    Cursor(Box<CursorStatement>),
    Transaction(tree::Transaction),
    /// SET and RESET.
    Set(Box<tree::Set>),
    Show(tree::Show),
    Discard(tree::Discard),
    /// A definition, or a statement that is not supported.
    Definition(tree::Statement),
}

/// EXPLAIN.
pub(crate) struct Explain {
    pub(crate) analyze: bool,
    pub(crate) format: ExplainFormat,
    pub(crate) statement: Statement,
}

/// PREPARE.
pub(crate) struct Prepare {
    pub(crate) name: tree::Ident,
    pub(crate) types: Vec<tree::TypeName>,
    pub(crate) statement: Statement,
}

impl Statement {
    /// Text of the statement, without the semicolon.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.0.sql
    }

    /// Whether the statement is COMMIT or ROLLBACK; only these run in a failed block.
    #[must_use]
    pub fn ends_transaction(&self) -> bool {
        use tree::Transaction as T;
        let Command::Transaction(transaction) = &self.0.command else { return false };
        matches!(transaction, T::Commit { .. } | T::Rollback { .. } | T::RollbackTo(_))
    }

    /// Removes the error positions: the statement's text differs from what the client sent.
    pub(crate) fn without_place(mut self) -> Statement {
        if let Some(parsed) = Arc::get_mut(&mut self.0) {
            parsed.offset = NO_PLACE;
        }
        self
    }

    /// A statement within this one, such as that of EXPLAIN: positions in its tree are those in the whole text.
    pub(crate) fn within(&self, command: Command, purpose: Purpose) -> Statement {
        self.0.part(command, purpose)
    }
}

impl Parsed {
    /// A statement within this one, such as that of EXPLAIN: positions in its tree are those in the whole text.
    pub(crate) fn part(&self, command: Command, purpose: Purpose) -> Statement {
        Statement(Arc::new(Parsed {
            sql: self.sql.clone(),
            offset: self.offset,
            command,
            purpose,
            parameters: self.parameters,
            held: self.held.clone(),
            variables: self.variables.clone(),
        }))
    }
}

/// Splits and parses a text of any number of statements (an empty text gives an empty list).
///
/// # Errors
/// 42601 with the position in characters; 54000 for a text that is too long, 54001 for one that nests too deeply.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    parse_held(sql, None)
}

/// Like [`parse`], for a text that a client sent: memory of a long one is reserved while its statements
/// exist.
///
/// # Errors
/// Those of [`parse`]; 53200 if there is not enough memory for the tree.
pub(crate) fn parse_within(sql: &str, memory: &MemoryBudget) -> Result<Vec<Statement>> {
    if sql.len() < COUNTED_BYTES_MIN {
        return parse(sql);
    }
    let mut held = memory.reservation(Work::Statements);
    held.grow(tree_bytes(sql)).map_err(|error| error.with_hint("send fewer rows in one statement, or use COPY"))?;
    parse_held(sql, Some(Arc::new(held)))
}

/// Shorter texts are not counted: even one per session takes little memory.
const COUNTED_BYTES_MIN: usize = 64 << 10;
/// Bytes reserved for each comma and parenthesis of a text. The tree of short constants takes more at its
/// peak: an INSERT of 100,000 rows `(1, 'text of row 1')` reserved 89 MB, and the server peaked at 480 MiB
/// with `--memory 256MiB`, which admits one such statement at a time.
const BYTES_PER_MARK: u64 = 200;

/// Estimated bytes that a text takes while it is parsed, planned and run.
fn tree_bytes(sql: &str) -> u64 {
    let marks = sql.bytes().filter(|byte| matches!(byte, b',' | b'(' | b')')).count();
    3 * sql.len() as u64 + BYTES_PER_MARK * marks as u64
}

fn parse_held(sql: &str, held: Option<Arc<Reservation>>) -> Result<Vec<Statement>> {
    if sql.len() > limits::STATEMENT_BYTES_MAX {
        return Err(Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("statement of {} bytes; the limit is {}", sql.len(), limits::STATEMENT_BYTES_MAX),
        ));
    }
    let (mut statements, mut before, mut characters) = (Vec::new(), 0, 0);
    for range in parser::split(sql)? {
        let passed = &sql[before..range.start];
        characters += if passed.is_ascii() { passed.len() } else { passed.chars().count() };
        before = range.start;
        let offset = u32::try_from(characters).unwrap_or(u32::MAX);
        let statement = parse_one(&sql[range], offset, held.clone(), None).map_err(|error| match error.position() {
            Some(position) => error.with_position(position + offset),
            None => error,
        })?;
        statements.extend(statement);
    }
    Ok(statements)
}

/// Parses a statement of a new routine, whose errors have their position in the statement that defines it.
///
/// # Errors
/// As [`parse_within_routine`].
pub(crate) fn parse_in_definition(sql: &str, offset: u32, variables: Option<Arc<Variables>>) -> Result<Statement> {
    let parsed = parse_one(sql, offset, None, variables)?;
    parsed.ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"))
}

/// Parses the one statement of a routine. Positions of its errors are none that a client knows.
///
/// # Errors
/// Those of [`parse`]; 42601 if it is not one statement.
pub(crate) fn parse_within_routine(sql: &str, variables: Option<Arc<Variables>>) -> Result<Statement> {
    if parser::split(sql).map_err(Error::without_position)?.len() > 1 {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "one statement is expected, and the text has several"));
    }
    let parsed = parse_one(sql, NO_PLACE, None, variables).map_err(Error::without_position)?;
    parsed.ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"))
}

/// Parses one statement; `None` if there is none, but a comment. Errors have their position in the statement.
fn parse_one(
    sql: &str,
    offset: u32,
    held: Option<Arc<Reservation>>,
    variables: Option<Arc<Variables>>,
) -> Result<Option<Statement>> {
    let Some(one) = parser::parse_all(sql)?.pop() else { return Ok(None) };
    let parameters = one.parameters as usize;
    if parameters > limits::PARAMETERS_MAX {
        return Err(Error::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${parameters}"))
            .with_hint(format!("parameters are $1 to ${}", limits::PARAMETERS_MAX)));
    }
    let statement = |command, parameters| {
        let (sql, purpose, held, variables) = (sql.to_owned(), Purpose::Shown, held.clone(), variables.clone());
        Statement(Arc::new(Parsed { sql, offset, command, purpose, parameters, held, variables }))
    };
    let command = match one.statement {
        tree::Statement::ShowTables => return standing_for(TABLES.to_owned(), 0, held.clone()).map(Some),
        tree::Statement::ShowCreateTable(name) => {
            let name = name.to_string().replace('\'', "''");
            return standing_for(DEFINITION.replace("$name", &format!("'{name}'")), 0, held.clone()).map(Some);
        }
        tree::Statement::Describe(name) => {
            let name = name.to_string().replace('\'', "''");
            return standing_for(format!("{}'{name}'{}", COLUMNS[0], COLUMNS[1]), 0, held.clone()).map(Some);
        }
        tree::Statement::Prepare(prepare) => {
            let tree::Prepare { name, types, statement: of } = *prepare;
            let of = data_command(of).map_err(|_| no_part("PREPARE"))?;
            let prepare = Prepare { name, types, statement: statement(of, parameters) };
            // The statement within has the parameters.
            return Ok(Some(statement(Command::Prepare(Box::new(prepare)), 0)));
        }
        other => {
            command(other, &|command| statement(command, parameters)).map_err(|error| in_characters(error, sql))?
        }
    };
    Ok(Some(statement(command, parameters)))
}

/// The error with its place, which is a byte of the statement, in characters.
fn in_characters(error: Error, sql: &str) -> Error {
    let Some(before) = error.position().and_then(|place| sql.get(..(place as usize).checked_sub(1)?)) else {
        return error;
    };
    error.with_position(u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1))
}

/// The command of a statement. `part` makes the statement within EXPLAIN and DECLARE.
fn command(statement: tree::Statement, part: &dyn Fn(Command) -> Statement) -> Result<Command> {
    use tree::Statement as S;
    let statement = match data_command(statement) {
        Ok(command) => return Ok(command),
        Err(other) => other,
    };
    Ok(match statement {
        S::Summarize(query) => Command::Summarize(query),
        S::Explain(explain) => {
            let (analyze, format) = explain::options(&explain.options)?;
            let of = data_command(explain.statement).map_err(|_| no_part("EXPLAIN"))?;
            Command::Explain(Explain { analyze, format, statement: part(of) })
        }
        S::Deallocate(name) => Command::Deallocate(name),
        S::Copy(copy) => Command::Copy(CopyStatement::of(*copy)?),
        S::DeclareCursor(declare) => Command::Cursor(Box::new(CursorStatement::declare(*declare, part)?)),
        S::Fetch(fetch) => Command::Cursor(Box::new(CursorStatement::fetch(&fetch))),
        S::CloseCursor(name) => Command::Cursor(Box::new(CursorStatement::Close(name.map(String::from)))),
        S::Transaction(transaction) => Command::Transaction(transaction),
        S::Set(set) => Command::Set(set),
        S::Show(show) => Command::Show(show),
        S::Discard(discard) => Command::Discard(discard),
        other => match Maintenance::of(&other)? {
            Some(maintenance) => Command::Maintenance(maintenance),
            None => Command::Definition(other),
        },
    })
}

/// The command of a statement that EXPLAIN may be before; the others are returned.
fn data_command(statement: tree::Statement) -> std::result::Result<Command, tree::Statement> {
    use tree::Statement as S;
    Ok(match statement {
        S::Query(mut query) => match query.take_into() {
            Some(into) => Command::CreateTableAs(Box::new(tree::CreateTableAs::of_into(*into, *query))),
            None => Command::Query(query),
        },
        change @ (S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_)) => Command::Change(change),
        S::Execute(execute) => Command::Execute(execute),
        S::CreateTableAs(create) if !create.materialized_view => Command::CreateTableAs(create),
        other => return Err(other),
    })
}

fn no_part(of: &str) -> Error {
    Error::unsupported(format!("{of} of this statement is not supported"))
}

/// The statement of a query that stands for another text: its errors have no place in that.
pub(crate) fn standing_for(sql: String, parameters: usize, held: Option<Arc<Reservation>>) -> Result<Statement> {
    let query = match parser::parse_all(&sql)?.pop().map(|one| one.statement) {
        Some(tree::Statement::Query(query)) => query,
        _ => return Err(Error::bug("a query that is none")),
    };
    let (command, purpose) = (Command::Query(query), Purpose::Shown);
    let (offset, variables) = (NO_PLACE, None);
    Ok(Statement(Arc::new(Parsed { sql, offset, command, purpose, parameters, held, variables })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_semicolons_outside_quotes_and_comments() {
        let sql = " select ';' ; ; -- a;b\n select 2 /* ; */ ;\n";
        let found: Vec<String> = parse(sql).unwrap().iter().map(|statement| statement.sql().to_owned()).collect();
        assert_eq!(
            found,
            ["select ';'", "-- a;b\n select 2 /* ; */"].map(str::to_owned).map(|text| {
                // Comments before a statement belong to no statement.
                text.trim_start_matches("-- a;b\n ").trim_end_matches(" /* ; */").to_owned()
            })
        );
        assert!(parse(" ; -- nothing\n").unwrap().is_empty());
    }

    #[test]
    fn syntax_errors_tell_the_token_and_its_position_in_characters() {
        for (sql, message, position) in [
            ("SELEC 1", "syntax error at or near \"SELEC\"", 1),
            ("SELECT 1; SELECT a FROM t WHERE )", "syntax error at or near \")\"", 33),
            ("SELECT 'é', 1 1", "syntax error at or near \"1\"", 15),
            ("SELECT (1", "syntax error at end of input", 10),
            ("SELECT 'abc", "unterminated quoted string at or near \"'abc\"", 8),
        ] {
            let error = parse(sql).err().unwrap();
            assert_eq!(
                (error.state(), error.message(), error.position()),
                (SqlState::SYNTAX_ERROR, message, Some(position))
            );
        }
    }

    #[test]
    fn deep_and_long_statements_are_refused_with_54001() {
        for sql in [
            format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("SELECT 1{}", "+1".repeat(100_000)),
            format!("SELECT {}true", "NOT ".repeat(100_000)),
            format!("SELECT {}1{}", "abs (".repeat(100_000), ")".repeat(100_000)),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(100_000)),
            format!("SELECT {}1", "- ".repeat(100_000)),
            format!("SELECT 1{}", "::int".repeat(100_000)),
        ] {
            assert_eq!(parse(&sql).err().unwrap().state(), SqlState::STATEMENT_TOO_COMPLEX, "{}", &sql[..40]);
        }
        assert!(parse(&format!("SELECT {}", vec!["1+1"; 10_000].join(","))).is_ok());
        assert!(parse(&format!("SELECT true WHERE {}", vec!["a+b > -c"; 200].join(" OR "))).is_ok());
    }

    #[test]
    fn the_query_of_a_cursor_knows_its_place_in_the_whole_text() {
        let statements = parse("BEGIN; DECLARE c CURSOR FOR SELECT 1").unwrap();
        let Command::Cursor(cursor) = &statements[1].0.command else { panic!("not a cursor") };
        let CursorStatement::Declare { query, .. } = &**cursor else { panic!("not a DECLARE") };
        let Command::Query(tree) = &query.0.command else { panic!("not a query") };
        let tree::QueryBody::Select(select) = &tree.body else { panic!("not a SELECT") };
        let at = select.targets[0].expr.at.0 as usize;
        assert_eq!((&query.sql()[at..], query.0.offset), ("1", 7));
    }

    #[test]
    fn create_table_as_takes_queries_of_postgresql_only() {
        assert!(matches!(parse("CREATE TABLE t AS SELECT 1").unwrap()[0].0.command, Command::CreateTableAs(_)));
        // A query of another SQL.
        let error = parse("CREATE TABLE t AS SELECT TOP 3 a FROM b").err().unwrap();
        assert_eq!((error.state(), error.position()), (SqlState::SYNTAX_ERROR, Some(30)));
    }

    #[test]
    fn parameters_beyond_the_limit_are_refused() {
        assert_eq!(parse("SELECT $65536").err().unwrap().state(), SqlState::UNDEFINED_PARAMETER);
        assert_eq!(parse("SELECT $3, $1").unwrap()[0].0.parameters, 3);
    }
}
