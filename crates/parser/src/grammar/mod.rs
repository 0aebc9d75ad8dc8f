//! PostgreSQL 15's grammar by recursive descent; operators by precedence climbing.
//!
//! A [`Parser`] walks the tokens of a whole text, which were found before. Functions are named for the rule they parse; one
//! that begins with `opt_` takes nothing if its first word is not there. An error is at the token that fits no rule, which is
//! where PostgreSQL's parser, too, cannot go on.
//!
//! Always true: recursion is bounded by [`HEIGHT_MAX`] and runs on a stack that grows, and so is the height of every tree.

mod alter;
mod alter_table;
mod copy;
mod create;
mod dml;
mod expr;
mod from;
mod function;
mod maintenance;
mod name;
mod object;
mod options;
mod query;
mod role;
mod session;
mod special;
mod statement;
mod table;
mod transaction;
mod types;

use model::{Error, Result, SqlState};

use crate::ast::{Expr, Parsed, Pos, TypeName};
use crate::keyword::Keyword;
use crate::lexer::{LexError, Lexer, Token, TokenKind, position};

/// Highest tree, and deepest nesting of a text.
pub const HEIGHT_MAX: u32 = 1_000;
/// Levels of nesting between two looks at how much stack is left, and the stack that these take at most.
const LEVELS_PER_LOOK: u32 = 4;
const STACK_LEFT_BYTES: usize = 256 << 10;
const STACK_GROWTH_BYTES: usize = 1 << 20;

type K = Keyword;
type T = TokenKind;

/// Parses a text of any number of statements, none of which is run before all are parsed.
///
/// # Errors
/// Those of PostgreSQL's scanner and grammar: mostly 42601, with the position in characters; 54001 for what nests too deeply.
pub fn parse_all(sql: &str) -> Result<Vec<Parsed>> {
    let mut parser = Parser::new(sql);
    let mut statements = Vec::new();
    loop {
        while parser.eat(T::Semicolon) {}
        if parser.peek().kind == T::End {
            return parser.finished(statements);
        }
        statements.push(parser.parsed()?);
        if !matches!(parser.peek().kind, T::Semicolon | T::End) {
            return Err(parser.unexpected());
        }
    }
}

/// Parses a text that is one expression.
///
/// # Errors
/// As [`parse_all`].
pub fn parse_expr(sql: &str) -> Result<Expr> {
    let mut parser = Parser::new(sql);
    let expr = parser.a_expr()?;
    parser.finished(expr)
}

/// Parses a text that is the name of a type.
///
/// # Errors
/// As [`parse_all`].
pub fn parse_type(sql: &str) -> Result<TypeName> {
    let mut parser = Parser::new(sql);
    let ty = parser.type_name()?;
    parser.finished(ty)
}

/// The statements of a text, as ranges of bytes without semicolons, by its tokens alone: one may be no valid statement.
/// Semicolons within parentheses, and within BEGIN ATOMIC … END, separate nothing.
///
/// # Errors
/// 42601 for a text that is not made of tokens.
pub fn split(sql: &str) -> Result<Vec<std::ops::Range<usize>>> {
    let mut lexer = Lexer::new(sql);
    let (mut ranges, mut parens, mut blocks) = (Vec::new(), 0_usize, 0_usize);
    let mut current: Option<std::ops::Range<usize>> = None;
    let mut before = None;
    loop {
        let token = lexer.next().map_err(|error| error.into_error(sql))?;
        let (start, end) = (token.start as usize, token.end as usize);
        match (token.kind, token.keyword) {
            (T::LeftParen, _) => parens += 1,
            (T::RightParen, _) => parens = parens.saturating_sub(1),
            (_, Some(K::Atomic)) if before == Some(K::Begin) => blocks += 1,
            (_, Some(K::Case)) if blocks > 0 => blocks += 1,
            (_, Some(K::End)) => blocks = blocks.saturating_sub(1),
            _ => {}
        }
        let ends = token.kind == T::End || token.kind == T::Semicolon && parens == 0 && blocks == 0;
        if ends {
            ranges.extend(current.take());
        } else {
            current = Some(current.map_or(start, |range| range.start)..end);
        }
        if token.kind == T::End {
            return Ok(ranges);
        }
        before = token.keyword;
    }
}

/// A text, its tokens, and where in them it is.
pub(crate) struct Parser<'a> {
    sql: &'a str,
    /// Ends with [`TokenKind::End`], again and again.
    tokens: Vec<Token>,
    at: usize,
    /// Lexical error at which the tokens end before the text does.
    lex_error: Option<LexError>,
    /// Rules entered by recursion.
    depth: u32,
    /// Height of the highest tree that was parsed since the expression, query or join around it began.
    height: u32,
    /// The highest `$n` of the statement.
    parameters: u32,
    /// The depth at which the expression of a target is parsed: a word of an operator may be its label there.
    target_depth: u32,
    /// Whether the right table of an ASOF JOIN is parsed: MATCH_CONDITION is then no alias.
    after_as_of: bool,
}

impl<'a> Parser<'a> {
    fn new(sql: &'a str) -> Parser<'a> {
        let mut lexer = Lexer::new(sql);
        let mut tokens = Vec::with_capacity(sql.len() / 4 + 8);
        let mut lex_error = None;
        loop {
            match lexer.next() {
                Ok(token) => {
                    tokens.push(token);
                    if token.kind == T::End {
                        break;
                    }
                }
                Err(error) => {
                    lex_error = Some(error);
                    let end = sql.len() as u32;
                    tokens.push(Token { kind: T::End, has_escapes: false, keyword: None, start: end, end });
                    break;
                }
            }
        }
        Parser {
            sql,
            tokens,
            at: 0,
            lex_error,
            depth: 0,
            height: 0,
            parameters: 0,
            target_depth: 0,
            after_as_of: false,
        }
    }

    /// A result, if the text is at its end.
    fn finished<R>(&self, result: R) -> Result<R> {
        let is_whole = self.peek().kind == T::End && self.lex_error.is_none() && self.sql.len() < u32::MAX as usize;
        if is_whole { Ok(result) } else { Err(self.unexpected()) }
    }

    fn parsed(&mut self) -> Result<Parsed> {
        let start = self.pos();
        (self.depth, self.height, self.parameters) = (0, 0, 0);
        let statement = self.top_statement()?;
        Ok(Parsed { statement, start, end: Pos(self.end_before()), parameters: self.parameters })
    }

    /// The byte behind the token before.
    fn end_before(&self) -> u32 {
        self.at.checked_sub(1).map_or(0, |at| self.tokens[at].end)
    }

    #[inline]
    fn peek(&self) -> Token {
        self.tokens[self.at]
    }

    #[inline]
    fn peek_at(&self, ahead: usize) -> Token {
        self.tokens.get(self.at + ahead).copied().unwrap_or(self.tokens[self.tokens.len() - 1])
    }

    #[inline]
    fn kind(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    #[inline]
    fn keyword(&self) -> Option<Keyword> {
        self.tokens[self.at].keyword
    }

    fn keyword_at(&self, ahead: usize) -> Option<Keyword> {
        self.peek_at(ahead).keyword
    }

    fn pos(&self) -> Pos {
        Pos(self.tokens[self.at].start)
    }

    /// Goes to the next token, and stays at the last.
    #[inline]
    fn advance(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    #[inline]
    fn at(&self, keyword: Keyword) -> bool {
        self.keyword() == Some(keyword)
    }

    /// Whether the next tokens are these words.
    fn at_words(&self, keywords: &[Keyword]) -> bool {
        keywords.iter().enumerate().all(|(ahead, keyword)| self.keyword_at(ahead) == Some(*keyword))
    }

    fn at_any(&self, keywords: &[Keyword]) -> bool {
        self.keyword().is_some_and(|keyword| keywords.contains(&keyword))
    }

    /// Whether the token `ahead` is this word, which is no key word, unquoted.
    fn at_word(&self, ahead: usize, word: &str) -> bool {
        let token = self.peek_at(ahead);
        token.kind == T::Word && token.text(self.sql).eq_ignore_ascii_case(word)
    }

    #[inline]
    fn eat(&mut self, kind: TokenKind) -> bool {
        let is = self.kind() == kind;
        if is {
            self.advance();
        }
        is
    }

    #[inline]
    fn take(&mut self, keyword: Keyword) -> bool {
        let is = self.at(keyword);
        if is {
            self.advance();
        }
        is
    }

    /// Takes all of these words, or none.
    fn take_words(&mut self, keywords: &[Keyword]) -> bool {
        let is = self.at_words(keywords);
        if is {
            self.at += keywords.len();
        }
        is
    }

    #[inline]
    fn expect(&mut self, kind: TokenKind) -> Result<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.unexpected()) }
    }

    #[inline]
    fn need(&mut self, keyword: Keyword) -> Result<()> {
        if self.take(keyword) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn need_words(&mut self, keywords: &[Keyword]) -> Result<()> {
        keywords.iter().try_for_each(|keyword| self.need(*keyword))
    }

    /// `IF EXISTS`, if it is there.
    fn opt_if_exists(&mut self) -> bool {
        self.take_words(&[K::If, K::Exists])
    }

    fn opt_if_not_exists(&mut self) -> bool {
        self.take_words(&[K::If, K::Not, K::Exists])
    }

    /// One or more of them, between commas.
    fn list<R>(&mut self, mut item: impl FnMut(&mut Self) -> Result<R>) -> Result<Vec<R>> {
        let mut items = vec![item(self)?];
        while self.eat(T::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(…)`
    fn in_parens<R>(&mut self, inside: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.expect(T::LeftParen)?;
        let result = inside(self)?;
        self.expect(T::RightParen)?;
        Ok(result)
    }

    /// A list in parentheses.
    fn paren_list<R>(&mut self, item: impl FnMut(&mut Self) -> Result<R>) -> Result<Vec<R>> {
        self.in_parens(|parser| parser.list(item))
    }

    /// The error of a token that fits no rule.
    #[cold]
    fn unexpected(&self) -> Error {
        self.error_near("syntax error")
    }

    /// A message about the next token.
    #[cold]
    fn error_near(&self, message: &str) -> Error {
        let token = self.peek();
        if token.kind == T::End {
            if let Some(error) = &self.lex_error {
                return error.clone().into_error(self.sql);
            }
            return self.error(format!("{message} at end of input"), Pos(token.start));
        }
        // A string with a wrong escape, say, is met by PostgreSQL's scanner before its grammar sees it.
        if let Err(error) = token.string(self.sql).map(drop).and_then(|()| token.name(self.sql).map(drop)) {
            return error.into_error(self.sql);
        }
        self.error(format!("{message} at or near \"{}\"", token.text(self.sql)), Pos(token.start))
    }

    /// A syntax error at a place.
    #[cold]
    fn error(&self, message: impl Into<String>, at: Pos) -> Error {
        self.error_of(SqlState::SYNTAX_ERROR, message, at)
    }

    #[cold]
    fn error_of(&self, state: SqlState, message: impl Into<String>, at: Pos) -> Error {
        Error::new(state, message).with_position(position(self.sql, at.0))
    }

    #[cold]
    fn unsupported(&self, message: impl Into<String>, at: Pos) -> Error {
        self.error_of(SqlState::FEATURE_NOT_SUPPORTED, message, at)
    }

    /// Enters a rule that may enter itself.
    fn nested<R>(&mut self, rule: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.depth += 1;
        if self.depth > HEIGHT_MAX {
            return Err(self.too_deep());
        }
        let result = if self.depth.is_multiple_of(LEVELS_PER_LOOK) {
            stacker::maybe_grow(STACK_LEFT_BYTES, STACK_GROWTH_BYTES, || rule(self))
        } else {
            rule(self)
        };
        self.depth -= 1;
        result
    }

    /// Parses a tree, one higher than the highest of those in it.
    #[inline]
    fn tree<R>(&mut self, rule: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let around = std::mem::take(&mut self.height);
        let result = self.nested(rule)?;
        self.grow()?;
        self.height = self.height.max(around);
        Ok(result)
    }

    /// Counts a node on top of all that was parsed since the tree around it began.
    #[inline]
    fn grow(&mut self) -> Result<()> {
        self.height += 1;
        if self.height > HEIGHT_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    #[cold]
    fn too_deep(&self) -> Error {
        Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_detail(format!("A statement may nest, or chain operators, {HEIGHT_MAX} times."))
            .with_hint("write long alternatives as `x IN (…)` or join a VALUES list")
            .with_position(position(self.sql, self.peek().start))
    }
}
