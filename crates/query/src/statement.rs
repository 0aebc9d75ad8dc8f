//! Splits SQL text into statements and parses them; every error has a position.
//!
//! Our parser (crate `parser`) reads queries, changes of data and the statements around them. Definitions, settings and
//! transactions are still read by sqlparser, from its tokens.
//!
//! Always true: no text makes a parser recurse deeper than its limit or build a tree that is too deep, so neither planning nor
//! dropping the tree can exhaust the stack.

use std::sync::Arc;

use compiled::{Notice, SequenceStatement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};
use engine::{MemoryBudget, Reservation, Work};
use model::{Error, Result, SqlState, limits};
use parser::ast as tree;
use parser::lexer::{Lexer, TokenKind};

use crate::copy::CopyStatement;
use crate::cursor::CursorStatement;
use crate::maintenance::Maintenance;

/// Maximum nesting of parentheses, subqueries and the like.
const DEPTH_MAX: usize = 100;
/// Maximum nesting of function calls: the parser reads the first argument of each twice, in case it is a
/// name.
const CALLS_MAX: usize = 16;
/// Recursion limit of the parser, which enters some of its functions two or three times per level.
const PARSER_DEPTH_MAX: usize = 3 * DEPTH_MAX;
/// Maximum length of a chain of operators (`1 + 1 + 1 …`, `a OR b OR c …`): each makes the tree one level
/// deeper.
const CHAIN_MAX: usize = 1_000;
/// Maximum length of a chain of arithmetic operators: type inference takes cubic time, because each operator
/// is typed together with all before it.
const ARITHMETIC_MAX: usize = 100;

/// Value of `offset` for statements whose errors have no position.
pub(crate) const NO_PLACE: u32 = u32::MAX;

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
    /// Notices about clauses that were ignored.
    pub(crate) notices: Vec<Notice>,
    /// Memory reserved for a long text; `None` for a short one.
    pub(crate) held: Option<Arc<Reservation>>,
}

/// Where the rows of a query go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To the client, in the styles of the session.
    Shown,
    /// Into a `rows` table.
    Rows,
    /// Into a `columns` table, whose times have nanoseconds.
    Columns,
}

/// Kind of statement.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for a statement, and a box would cost an allocation for each"
)]
pub(crate) enum Command {
    /// SELECT, VALUES, TABLE and WITH.
    Query(Box<tree::Query>),
    /// INSERT, UPDATE, DELETE and MERGE.
    Change(tree::Statement),
    Explain(Explain),
    Prepare(Box<Prepare>),
    Execute(Box<tree::Execute>),
    /// DEALLOCATE; `None` is ALL.
    Deallocate(Option<tree::Ident>),
    /// CREATE TABLE … AS of a query.
    CreateTableAs(Box<tree::CreateTableAs>),
    Copy(CopyStatement),
    /// CHECKPOINT, VACUUM and LOCK TABLE.
    Maintenance(Maintenance),
    /// DECLARE, FETCH, MOVE and CLOSE.
    Cursor(Box<CursorStatement>),
    /// CREATE and ALTER SEQUENCE.
    Sequence(SequenceStatement),
    /// Another statement, as sqlparser gives it.
    Sql(ast::Statement),
}

/// EXPLAIN.
pub(crate) struct Explain {
    pub(crate) analyze: bool,
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
        matches!(&self.0.command, Command::Sql(ast::Statement::Commit { .. } | ast::Statement::Rollback { .. }))
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
            notices: Vec::new(),
            held: self.held.clone(),
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
        let statement = parse_one(&sql[range], offset, held.clone()).map_err(|error| match error.position() {
            Some(position) => error.with_position(position + offset),
            None => error,
        })?;
        statements.extend(statement);
    }
    Ok(statements)
}

/// Parses one statement; `None` if there is none, but a comment. Errors have their position in the statement.
fn parse_one(sql: &str, offset: u32, held: Option<Arc<Reservation>>) -> Result<Option<Statement>> {
    let statement = |command, parameters, notices| {
        let (sql, purpose, held) = (sql.to_owned(), Purpose::Shown, held.clone());
        Statement(Arc::new(Parsed { sql, offset, command, purpose, parameters, notices, held }))
    };
    if is_of_our_parser(sql)?
        && let Some((command, parameters)) =
            parse_tree(sql, &|command, parameters| statement(command, parameters, Vec::new()))?
    {
        return Ok(Some(statement(command, parameters, Vec::new())));
    }
    let text = Text::new(sql);
    let tokens = compiled::tokenize(sql).map_err(|error| text.token_error(&error))?;
    let tokens = trim(&tokens);
    if tokens.is_empty() {
        return Ok(None);
    }
    if let Some(query) = crate::syntax_rewrites::listing(tokens) {
        return listed(query, held.clone()).map(Some);
    }
    check_depth(tokens)?;
    let (command, notices) = parse_tokens(tokens, &text, offset)?;
    if matches!(&command, Command::Sql(ast::Statement::CreateTable(create)) if create.query.is_some()) {
        // Its query is not PostgreSQL's.
        parser::parse_all(sql)?;
        return Err(Error::unsupported("this form of CREATE TABLE … AS is not supported"));
    }
    Ok(Some(statement(command, highest_parameter(tokens)?, notices)))
}

/// Whether our parser reads a statement that begins so, or may do.
fn is_of_our_parser(sql: &str) -> Result<bool> {
    use parser::keyword::Keyword as K;
    let first = Lexer::new(sql).next().map_err(|error| error.into_error(sql))?;
    let words = [
        K::Select,
        K::Values,
        K::Table,
        K::With,
        K::Insert,
        K::Update,
        K::Delete,
        K::Merge,
        K::Explain,
        K::Prepare,
        K::Execute,
        K::Deallocate,
        K::Create,
    ];
    Ok(first.kind == TokenKind::LeftParen || first.keyword.is_some_and(|word| words.contains(&word)))
}

/// Parses a statement by our parser: its command and the highest `$n`; `None` if it is one of those that sqlparser reads.
/// `part` makes the statement within EXPLAIN and PREPARE.
fn parse_tree(sql: &str, part: &dyn Fn(Command, usize) -> Statement) -> Result<Option<(Command, usize)>> {
    let is_definition = sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("create"));
    let one = match parser::parse_all(sql) {
        Ok(mut statements) => statements.pop().ok_or_else(|| Error::bug("no statement"))?,
        // Tables have options that PostgreSQL's grammar does not have.
        Err(_) if is_definition => return Ok(None),
        Err(error) => return Err(error),
    };
    let parameters = one.parameters as usize;
    if parameters > limits::PARAMETERS_MAX {
        return Err(no_parameter(&format!("${parameters}")));
    }
    let within = |what: &str, statement| match data_command(statement) {
        Some(command) => Ok(part(command, parameters)),
        None => Err(Error::unsupported(format!("{what} of this statement is not supported"))),
    };
    Ok(match one.statement {
        tree::Statement::Explain(explain) => {
            let analyze = crate::explain::analyzes(&explain.options)?;
            let statement = within("EXPLAIN", explain.statement)?;
            Some((Command::Explain(Explain { analyze, statement }), parameters))
        }
        tree::Statement::Prepare(prepare) => {
            let tree::Prepare { name, types, statement } = *prepare;
            let statement = within("PREPARE", statement)?;
            // Its parameters are those of the statement within.
            Some((Command::Prepare(Box::new(Prepare { name, types, statement })), 0))
        }
        tree::Statement::Deallocate(name) => Some((Command::Deallocate(name), parameters)),
        statement => data_command(statement).map(|command| (command, parameters)),
    })
}

/// The command of a statement that EXPLAIN may be before; `None` for others.
fn data_command(statement: tree::Statement) -> Option<Command> {
    Some(match statement {
        tree::Statement::Query(query) => Command::Query(query),
        change @ (tree::Statement::Insert(_)
        | tree::Statement::Update(_)
        | tree::Statement::Delete(_)
        | tree::Statement::Merge(_)) => Command::Change(change),
        tree::Statement::Execute(execute) => Command::Execute(execute),
        tree::Statement::CreateTableAs(create)
            if !create.materialized_view && matches!(create.source, tree::CreateTableSource::Query(_)) =>
        {
            Command::CreateTableAs(create)
        }
        _ => return None,
    })
}

/// The statement of a query of the catalog, which stands for another text.
fn listed(sql: String, held: Option<Arc<Reservation>>) -> Result<Statement> {
    let query = match parser::parse_all(&sql)?.pop().map(|one| one.statement) {
        Some(parser::ast::Statement::Query(query)) => query,
        _ => return Err(Error::bug("a query of the catalog that is none")),
    };
    let (command, purpose, notices) = (Command::Query(query), Purpose::Shown, Vec::new());
    Ok(Statement(Arc::new(Parsed { sql, offset: NO_PLACE, command, purpose, parameters: 0, notices, held })))
}

fn trim(mut tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
    while let Some((first, rest)) = tokens.split_first()
        && blank(first)
    {
        tokens = rest;
    }
    while let Some((last, rest)) = tokens.split_last()
        && blank(last)
    {
        tokens = rest;
    }
    tokens
}

/// Parses a statement of `offset` characters into the whole text by its tokens.
fn parse_tokens(tokens: &[TokenWithSpan], text: &Text<'_>, offset: u32) -> Result<(Command, Vec<Notice>)> {
    if is_word(&tokens[0], "copy") {
        return Ok((Command::Copy(crate::copy::parse(tokens, text)?), Vec::new()));
    }
    if let Some(maintenance) = crate::maintenance::parse(tokens, text)? {
        return Ok((Command::Maintenance(maintenance), Vec::new()));
    }
    if let Some(cursor) = crate::cursor::parse(tokens, text, |query| query_of(query, text, offset))? {
        return Ok((Command::Cursor(Box::new(cursor)), Vec::new()));
    }
    // The parser does not know these statements and would report a syntax error.
    let unknown = ["do", "refresh", "reassign", "security", "import", "notify", "listen"];
    if let Some(word) = unknown.iter().find(|word| is_word(&tokens[0], word)) {
        return Err(Error::unsupported(format!("{} is not supported", word.to_uppercase())));
    }
    let mut tokens = prepared(tokens);
    let notices = compiled::prepared(&mut tokens)?;
    if let Some(sequence) = compiled::sequence(&tokens)? {
        return Ok((Command::Sequence(sequence), notices));
    }
    let mut parser = Parser::new(&compiled::PostgreSql)
        .with_recursion_limit(PARSER_DEPTH_MAX)
        .with_tokens_with_locations(tokens.clone());
    let mut statement = parser.parse_statement().map_err(|error| text.parse_error(&error, &tokens))?;
    let next = parser.peek_token();
    if next.token == Token::EOF {
        crate::syntax_rewrites::without_database(&tokens, &mut statement)?;
        Ok((Command::Sql(statement), notices))
    } else {
        Err(text.unexpected(&next.token, next.span.start))
    }
}

/// Parses the query of a cursor declaration.
fn query_of(tokens: &[TokenWithSpan], text: &Text<'_>, before: u32) -> Result<Statement> {
    let unexpected = || match trim(tokens).first() {
        Some(first) => text.unexpected(&first.token, first.span.start),
        None => text.unexpected(&Token::EOF, tokens[tokens.len() - 1].span.end),
    };
    let (Some(first), Some(last)) = (trim(tokens).first(), trim(tokens).last()) else { return Err(unexpected()) };
    let (from, offset) = text.at(first.span.start);
    let (to, _) = text.at(last.span.end);
    let statement = parse_one(&text.sql[from..to], before + offset, None).map_err(|error| match error.position() {
        Some(position) => error.with_position(position + offset),
        None => error,
    })?;
    statement.filter(|statement| matches!(statement.0.command, Command::Query(_))).ok_or_else(unexpected)
}

/// Rewrites the tokens of PostgreSQL syntax that the parser does not support.
fn prepared(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    if is_word(&tokens[0], "abort") {
        tokens[0].token = Token::Word(Word { value: "ROLLBACK".into(), quote_style: None, keyword: Keyword::ROLLBACK });
    }
    reset_time_zone(&mut tokens);
    extension_alone(&mut tokens);
    crate::syntax_rewrites::prepare(&mut tokens);
    tokens
}

pub(crate) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Removes CASCADE from `CREATE EXTENSION … CASCADE`, which the parser does not accept there: extensions have
/// no dependencies here.
fn extension_alone(tokens: &mut Vec<TokenWithSpan>) {
    let words: Vec<usize> = (0..tokens.len()).filter(|at| !is_blank(&tokens[*at])).collect();
    let is = |at: Option<&usize>, word: &str| at.is_some_and(|at| is_word(&tokens[*at], word));
    if is(words.first(), "create") && is(words.get(1), "extension") && is(words.last(), "cascade") {
        tokens.remove(words[words.len() - 1]);
    }
}

/// Rewrites `RESET TIME ZONE` to `RESET TimeZone`.
fn reset_time_zone(tokens: &mut Vec<TokenWithSpan>) {
    let words: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).take(4).collect();
    if let [reset, time, zone] = words[..]
        && is_word(&tokens[reset], "reset")
        && is_word(&tokens[time], "time")
        && is_word(&tokens[zone], "zone")
    {
        let value = "timezone".into();
        tokens[time].token = Token::Word(Word { value, quote_style: None, keyword: Keyword::NoKeyword });
        tokens.truncate(zone);
    }
}

/// Whether the token is this unquoted word, in any case.
pub(crate) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn highest_parameter(tokens: &[TokenWithSpan]) -> Result<usize> {
    let mut highest = 0;
    for token in tokens {
        if let Token::Placeholder(name) = &token.token {
            highest = highest.max(parameter_number(name)?);
        }
    }
    Ok(highest)
}

/// The n of `$n`.
pub(crate) fn parameter_number(name: &str) -> Result<usize> {
    match name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok()) {
        Some(number) if (1..=limits::PARAMETERS_MAX).contains(&number) => Ok(number),
        _ => Err(no_parameter(name)),
    }
}

fn no_parameter(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"))
        .with_hint(format!("parameters are $1 to ${}", limits::PARAMETERS_MAX))
}

/// Refuses statements whose tree would be too deep, before the tree is built.
fn check_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Chain::default()];
    let mut after_name = false;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => levels.push(Chain { is_call: after_name, ..Chain::default() }),
            Token::RParen | Token::RBracket if levels.len() > 1 => {
                levels.pop();
            }
            token => levels.last_mut().expect("one level is always there").add(token),
        }
        if levels.len() > DEPTH_MAX || levels.last().is_some_and(Chain::is_too_long) {
            return Err(too_complex().with_position(1));
        }
        if after_name && levels.iter().filter(|level| level.is_call).count() > CALLS_MAX {
            return Err(too_complex().with_position(1));
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            after_name = is_name(&token.token);
        }
    }
    Ok(())
}

/// Chain of operators between two parentheses or commas.
#[derive(Default)]
struct Chain {
    /// The chain is in the arguments of a function.
    is_call: bool,
    operators: usize,
    /// Arithmetic operators since the last AND or OR.
    arithmetic: usize,
}

impl Chain {
    fn add(&mut self, token: &Token) {
        match token {
            Token::Comma => *self = Chain { is_call: self.is_call, ..Chain::default() },
            Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod => self.arithmetic += 1,
            Token::Word(word) if matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::FROM) => {
                self.arithmetic = 0;
            }
            _ => {}
        }
        self.operators += usize::from(deepens(token));
    }

    fn is_too_long(&self) -> bool {
        self.operators > CHAIN_MAX || self.arithmetic > ARITHMETIC_MAX
    }
}

/// Whether a parenthesis after this token may start the arguments of a function. Keywords that are never
/// function names are excluded.
fn is_name(token: &Token) -> bool {
    use Keyword as K;
    let Token::Word(word) = token else { return false };
    let never = [
        K::ALL,
        K::AND,
        K::ANY,
        K::AS,
        K::BETWEEN,
        K::BY,
        K::CASE,
        K::DISTINCT,
        K::ELSE,
        K::EXCEPT,
        K::EXISTS,
        K::FILTER,
        K::FROM,
        K::HAVING,
        K::IN,
        K::INTERSECT,
        K::INTO,
        K::JOIN,
        K::LATERAL,
        K::LIKE,
        K::LIMIT,
        K::NOT,
        K::OFFSET,
        K::ON,
        K::OR,
        K::OVER,
        K::RETURNING,
        K::SELECT,
        K::SOME,
        K::THEN,
        K::UNION,
        K::USING,
        K::VALUES,
        K::WHEN,
        K::WHERE,
        K::WITH,
    ];
    word.quote_style.is_some() || !never.contains(&word.keyword)
}

/// Whether the token is an operator or a keyword that extends a chain.
fn deepens(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_none()
                && matches!(
                    word.keyword,
                    Keyword::AND
                        | Keyword::OR
                        | Keyword::NOT
                        | Keyword::UNION
                        | Keyword::EXCEPT
                        | Keyword::INTERSECT
                        | Keyword::JOIN
                        | Keyword::CASE
                        | Keyword::IS
                        | Keyword::SELECT
                        | Keyword::COLLATE
                        | Keyword::AT
                )
        }
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Placeholder(_)
        | Token::EscapedStringLiteral(_)
        | Token::Period
        | Token::RParen
        | Token::RBracket
        | Token::EOF => false,
        _ => true,
    }
}

fn too_complex() -> Error {
    Error::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        format!(
            "statement nests deeper than {DEPTH_MAX} levels ({CALLS_MAX} of function calls) or chains more than {CHAIN_MAX} \
             operators ({ARITHMETIC_MAX} of arithmetic)"
        ),
    )
    .with_hint("write long alternatives as `x IN (…)` or join a VALUES list")
}

/// A text with a line index, to locate positions in it.
pub(crate) struct Text<'a> {
    sql: &'a str,
    ascii: bool,
    /// Byte and character offset of each line start.
    lines: Vec<(usize, u32)>,
}

impl<'a> Text<'a> {
    /// The whole text.
    pub(crate) fn sql(&self) -> &'a str {
        self.sql
    }

    pub(crate) fn new(sql: &'a str) -> Text<'a> {
        let ascii = sql.is_ascii();
        let mut lines = vec![(0, 0)];
        let mut characters = 0_u32;
        for line in sql.split_inclusive('\n') {
            let (byte, _) = *lines.last().expect("never empty");
            characters += u32::try_from(if ascii { line.len() } else { line.chars().count() }).unwrap_or(u32::MAX);
            lines.push((byte + line.len(), characters));
        }
        Text { sql, ascii, lines }
    }

    /// Byte and character offset (both from 0) of a location.
    pub(crate) fn at(&self, place: Location) -> (usize, u32) {
        let line = usize::try_from(place.line.saturating_sub(1)).unwrap_or(usize::MAX).min(self.lines.len() - 1);
        let (byte, character) = self.lines[line];
        let column = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let bytes = if self.ascii {
            column.min(self.sql.len() - byte)
        } else {
            self.sql[byte..].char_indices().nth(column).map_or(self.sql.len() - byte, |(at, _)| at)
        };
        let columns = u32::try_from(column).unwrap_or(u32::MAX);
        (byte + bytes, character.saturating_add(columns))
    }

    fn token_error(&self, error: &datafusion::sql::sqlparser::tokenizer::TokenizerError) -> Error {
        let (_, position) = self.at(error.location);
        let message = if error.message.contains("Unterminated string") {
            "unterminated quoted string".to_owned()
        } else {
            format!("syntax error: {}", lower_first(&error.message))
        };
        Error::new(SqlState::SYNTAX_ERROR, message).with_position(position + 1)
    }

    fn parse_error(&self, error: &ParserError, tokens: &[TokenWithSpan]) -> Error {
        let message = match error {
            ParserError::RecursionLimitExceeded => return too_complex(),
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
        };
        let (message, place) = split_place(message);
        let place = place.or_else(|| message.ends_with("found: EOF").then(|| tokens[tokens.len() - 1].span.end));
        let Some(place) = place else {
            return Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {}", lower_first(message)))
                .with_position(self.at(tokens[0].span.start).1 + 1);
        };
        let found = tokens.iter().find(|token| token.span.start == place);
        let error = self.unexpected(found.map_or(&Token::EOF, |token| &token.token), place);
        match message.strip_prefix("Expected: ").and_then(|rest| rest.split(", found").next()) {
            Some(expected) => error.with_detail(format!("expected {expected}")),
            None => error.with_detail(lower_first(message)),
        }
    }

    pub(crate) fn unexpected(&self, token: &Token, place: Location) -> Error {
        let near = match token {
            Token::EOF => "syntax error at end of input".to_owned(),
            token => format!("syntax error at or near \"{}\"", short(&token.to_string())),
        };
        Error::new(SqlState::SYNTAX_ERROR, near).with_position(self.at(place).1 + 1)
    }
}

/// Splits " at Line: 1, Column: 8" from the end of a message.
fn split_place(message: &str) -> (&str, Option<Location>) {
    let Some((head, tail)) = message.rsplit_once(" at Line: ") else {
        return (message, None);
    };
    let place = tail.split_once(", Column: ").and_then(|(line, column)| {
        Some(Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
    });
    (head, place)
}

fn short(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).chain("…".chars()).collect() }
}

pub(crate) fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    // A word in capitals is an SQL keyword.
    if text.chars().nth(1).is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
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
        assert_eq!((query.sql(), query.0.offset), ("SELECT 1", 28));
    }

    #[test]
    fn create_table_as_takes_queries_of_postgresql_only() {
        assert!(matches!(parse("CREATE TABLE t AS SELECT 1").unwrap()[0].0.command, Command::CreateTableAs(_)));
        // sqlparser accepts this query.
        let error = parse("CREATE TABLE t AS SELECT TOP 3 a FROM b").err().unwrap();
        assert_eq!((error.state(), error.position()), (SqlState::SYNTAX_ERROR, Some(30)));
    }

    #[test]
    fn parameters_beyond_the_limit_are_refused() {
        assert_eq!(parse("SELECT $65536").err().unwrap().state(), SqlState::UNDEFINED_PARAMETER);
        assert_eq!(parse("SELECT $3, $1").unwrap()[0].0.parameters, 3);
    }
}
