//! The parser: recursive over statements, by tokens over the SQL within them.

use model::limits::PLPGSQL_DEPTH_MAX;
use model::{Error, Result, SqlState};

use super::{
    Block, Body, Condition, Conflict, Declaration, DeclarationKind, Direction, Fragment, Handler, Into, Level, Open,
    Raise, Statement, StatementKind, Target, TypeKind, TypeText,
};
use crate::lexer::{Lexer, Token, TokenKind as T, position};

/// Parses a body.
///
/// # Errors
/// 42601 with the position in the body, in characters; 54001 for statements that nest too deeply.
pub fn parse(body: &str) -> Result<Body> {
    let (conflict, start) = options(body)?;
    let mut lexer = Lexer::new(body).starting_at(start);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next().map_err(|error| error.into_error(body))?;
        tokens.push(token);
        if token.kind == T::End {
            break;
        }
    }
    let newlines = body.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32).collect();
    let mut parser = Parser { body, tokens, newlines, at: 0, fragments: 0, depth: 0 };
    let label = parser.label()?;
    let block = parser.block(label)?;
    parser.eat(T::Semicolon);
    if parser.peek().kind != T::End {
        return Err(parser.unexpected());
    }
    Ok(Body { block, fragments: parser.fragments, conflict })
}

/// The options at the start of a body, which are no tokens of SQL, and the byte behind them.
fn options(body: &str) -> Result<(Option<Conflict>, usize)> {
    let (mut conflict, mut at) = (None, 0);
    loop {
        let rest = body[at..].trim_start();
        let start = body.len() - rest.len();
        if !rest.starts_with('#') {
            return Ok((conflict, at));
        }
        let line = rest.lines().next().unwrap_or_default();
        let words: Vec<&str> = line[1..].split_whitespace().collect();
        match words.as_slice() {
            ["variable_conflict", "error"] => conflict = Some(Conflict::Error),
            ["variable_conflict", "use_variable"] => conflict = Some(Conflict::Variable),
            ["variable_conflict", "use_column"] => conflict = Some(Conflict::Column),
            ["option", "dump"] | ["print_strict_params", "on" | "off"] => {}
            _ => {
                let text = format!("syntax error at or near \"{}\"", words.first().unwrap_or(&"#"));
                return Err(Error::new(SqlState::SYNTAX_ERROR, text).with_position(position(body, start as u32)));
            }
        }
        at = start + line.len();
    }
}

struct Parser<'a> {
    body: &'a str,
    /// Ends with [`T::End`].
    tokens: Vec<Token>,
    /// Places of the line ends.
    newlines: Vec<u32>,
    at: usize,
    fragments: u32,
    depth: u32,
}

/// Words that end a fragment, and the tokens.
struct Until<'w> {
    words: &'w [&'w str],
    kinds: &'w [T],
}

/// Words with which a fragment is no expression.
const STATEMENT_WORDS: [&str; 11] =
    ["select", "with", "values", "table", "insert", "update", "delete", "explain", "show", "call", "do"];

const SEMICOLON: Until<'static> = Until { words: &[], kinds: &[T::Semicolon] };

impl Parser<'_> {
    fn peek(&self) -> Token {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + count).min(last)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, kind: T) -> bool {
        let is_there = self.peek().kind == kind;
        if is_there {
            self.next();
        }
        is_there
    }

    fn expect(&mut self, kind: T) -> Result<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_at(&self, token: Token, word: &str) -> bool {
        token.kind == T::Word && token.text(self.body).eq_ignore_ascii_case(word)
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_at(self.peek(), word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        if is_there {
            self.next();
        }
        is_there
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn error_at(&self, token: Token, text: impl std::convert::Into<String>) -> Error {
        Error::new(SqlState::SYNTAX_ERROR, text).with_position(position(self.body, token.start))
    }

    fn unexpected(&self) -> Error {
        self.unexpected_at(self.peek())
    }

    fn unexpected_at(&self, token: Token) -> Error {
        match token.kind {
            T::End => self.error_at(token, "syntax error at end of input"),
            _ => self.error_at(token, format!("syntax error at or near \"{}\"", token.text(self.body))),
        }
    }

    fn line(&self, token: Token) -> u32 {
        self.newlines.partition_point(|at| *at < token.start) as u32 + 1
    }

    /// A name.
    fn name(&mut self) -> Result<String> {
        let token = self.peek();
        if !matches!(token.kind, T::Word | T::QuotedName | T::UnicodeName) {
            return Err(self.unexpected());
        }
        self.next();
        Ok(token.name(self.body).map_err(|error| error.into_error(self.body))?.to_string())
    }

    fn string(&mut self) -> Result<String> {
        let token = self.peek();
        if !token.is_string() {
            return Err(self.unexpected());
        }
        self.next();
        Ok(token.string(self.body).map_err(|error| error.into_error(self.body))?.into_owned())
    }

    fn numbered(&mut self, text: String) -> Fragment {
        let number = self.fragments;
        self.fragments += 1;
        Fragment { text, number }
    }

    /// The text up to a token outside of parentheses, which is not read.
    fn text_until(&mut self, until: &Until<'_>) -> Result<String> {
        let first = self.peek();
        let (mut parens, mut end) = (0_usize, first.start);
        loop {
            let token = self.peek();
            if parens == 0
                && (until.kinds.contains(&token.kind) || until.words.iter().any(|word| self.is_at(token, word)))
            {
                break;
            }
            match token.kind {
                T::LeftParen | T::LeftBracket => parens += 1,
                T::RightParen | T::RightBracket if parens == 0 => {
                    return Err(self
                        .error_at(token, format!("mismatched parentheses at or near \"{}\"", token.text(self.body))));
                }
                T::RightParen | T::RightBracket => parens -= 1,
                T::End => {
                    let text =
                        if parens > 0 { "mismatched parentheses" } else { "unexpected end of function definition" };
                    return Err(self.error_at(token, format!("{text} at end of input")));
                }
                T::Semicolon => {
                    let wanted = until.words.first().copied().unwrap_or(if until.kinds.contains(&T::DotDot) {
                        ".."
                    } else {
                        ";"
                    });
                    if parens > 0 {
                        return Err(self.error_at(token, "mismatched parentheses at or near \";\""));
                    }
                    let text = format!("missing \"{}\" at end of SQL expression", wanted.to_uppercase());
                    return Err(self.error_at(token, text));
                }
                _ => {}
            }
            end = token.end;
            self.next();
        }
        Ok(self.body[first.start as usize..end as usize].to_owned())
    }

    /// An expression, which is not empty.
    fn fragment(&mut self, until: &Until<'_>) -> Result<Fragment> {
        let first = self.peek();
        let text = self.text_until(until)?;
        if text.is_empty() {
            return Err(match first.kind {
                T::Semicolon | T::End => self.error_at(first, "missing expression at or near \";\""),
                _ => self.error_at(first, format!("missing expression at or near \"{}\"", first.text(self.body))),
            });
        }
        self.check(first, &text)?;
        Ok(self.numbered(text))
    }

    /// Checks that the text at a token is an expression, or a statement.
    fn check(&self, first: Token, text: &str) -> Result<()> {
        let is_statement = STATEMENT_WORDS.iter().any(|word| self.is_at(first, word));
        let before = if is_statement { "" } else { "SELECT " };
        crate::parse_all(&format!("{before}{text}")).map(|_| ()).map_err(|error| {
            let start = position(self.body, first.start);
            match error.position() {
                Some(at) => error.with_position((start + at).saturating_sub(before.len() as u32 + 1)),
                None => error,
            }
        })
    }

    /// `<<label>>`
    fn label(&mut self) -> Result<Option<String>> {
        let token = self.peek();
        if token.kind != T::Operator || token.text(self.body) != "<<" {
            return Ok(None);
        }
        self.next();
        let name = self.name()?;
        let token = self.peek();
        if token.kind != T::Operator || token.text(self.body) != ">>" {
            return Err(self.unexpected());
        }
        self.next();
        Ok(Some(name))
    }

    /// The label behind END, which must be the one before.
    fn end_label(&mut self, label: Option<&str>) -> Result<()> {
        if matches!(self.peek().kind, T::Semicolon | T::End) {
            return Ok(());
        }
        let token = self.peek();
        let name = self.name()?;
        match label {
            Some(label) if label == name => Ok(()),
            Some(label) => {
                Err(self.error_at(token, format!("end label \"{name}\" differs from block's label \"{label}\"")))
            }
            None => Err(self.error_at(token, format!("end label \"{name}\" specified for unlabeled block"))),
        }
    }

    fn block(&mut self, label: Option<String>) -> Result<Block> {
        self.depth += 1;
        if self.depth > PLPGSQL_DEPTH_MAX {
            let text = format!("statements of a function nest deeper than {PLPGSQL_DEPTH_MAX} levels");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, text));
        }
        let mut declarations: Vec<Declaration> = Vec::new();
        while self.eat_word("declare") {
            while !self.is_word("begin") && !self.is_word("declare") {
                let token = self.peek();
                let declaration = self.declaration()?;
                if declarations.iter().any(|other| other.name == declaration.name) {
                    return Err(
                        self.error_at(token, format!("duplicate declaration at or near \"{}\"", declaration.name))
                    );
                }
                declarations.push(declaration);
            }
        }
        self.expect_word("begin")?;
        let statements = self.statements(&["exception", "end"])?;
        let mut handlers = Vec::new();
        if self.eat_word("exception") {
            while self.eat_word("when") {
                let mut conditions = vec![self.condition()?];
                while self.eat_word("or") {
                    conditions.push(self.condition()?);
                }
                self.expect_word("then")?;
                let statements = self.statements(&["when", "end"])?;
                handlers.push(Handler { conditions, statements });
            }
            if handlers.is_empty() {
                return Err(self.unexpected());
            }
        }
        self.expect_word("end")?;
        self.end_label(label.as_deref())?;
        self.depth -= 1;
        Ok(Block { label, declarations, statements, handlers })
    }

    fn condition(&mut self) -> Result<Condition> {
        if self.eat_word("sqlstate") {
            let token = self.peek();
            let state = self.string()?;
            if state.len() != 5 || !state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
                return Err(self.error_at(token, "invalid SQLSTATE code"));
            }
            return Ok(Condition::State(state));
        }
        Ok(Condition::Name(self.name()?))
    }

    fn declaration(&mut self) -> Result<Declaration> {
        let token = self.peek();
        let line = self.line(token);
        let name = self.name()?;
        let kind = self.declaration_kind()?;
        self.expect(T::Semicolon)?;
        Ok(Declaration { name, line, kind })
    }

    fn declaration_kind(&mut self) -> Result<DeclarationKind> {
        if self.eat_word("alias") {
            self.expect_word("for")?;
            if self.peek().kind == T::Parameter {
                let token = self.next();
                return Ok(DeclarationKind::Alias(vec![token.text(self.body).to_owned()]));
            }
            let mut path = vec![self.name()?];
            while self.eat(T::Dot) {
                path.push(self.name()?);
            }
            return Ok(DeclarationKind::Alias(path));
        }
        let scroll = self.scroll()?;
        if scroll.is_some() || self.is_word("cursor") {
            self.expect_word("cursor")?;
            let mut parameters = Vec::new();
            if self.eat(T::LeftParen) {
                loop {
                    let name = self.name()?;
                    let ty = self.type_text(&Until { words: &[], kinds: &[T::Comma, T::RightParen] })?;
                    parameters.push((name, ty));
                    if !self.eat(T::Comma) {
                        break;
                    }
                }
                self.expect(T::RightParen)?;
            }
            if !self.eat_word("for") {
                self.expect_word("is")?;
            }
            let query = self.fragment(&SEMICOLON)?;
            return Ok(DeclarationKind::Cursor { scroll, parameters, query });
        }
        let constant = self.eat_word("constant");
        let ends = Until { words: &["not", "default", "collate"], kinds: &[T::Semicolon, T::ColonEquals, T::Equal] };
        let ty = self.type_text(&ends)?;
        if self.eat_word("collate") {
            self.name()?;
            while self.eat(T::Dot) {
                self.name()?;
            }
        }
        let not_null = self.eat_word("not");
        if not_null {
            self.expect_word("null")?;
        }
        let has_default = self.eat_word("default") || self.eat(T::ColonEquals) || self.eat(T::Equal);
        let default = if has_default { Some(self.fragment(&SEMICOLON)?) } else { None };
        Ok(DeclarationKind::Variable { ty, constant, not_null, default })
    }

    fn scroll(&mut self) -> Result<Option<bool>> {
        if self.is_word("no") && self.is_at(self.ahead(1), "scroll") {
            self.next();
            self.next();
            return Ok(Some(false));
        }
        Ok(self.eat_word("scroll").then_some(true))
    }

    fn type_text(&mut self, until: &Until<'_>) -> Result<TypeText> {
        let first = self.peek();
        let mut text = self.text_until(until)?;
        if text.is_empty() {
            return Err(match first.kind {
                T::End => self.error_at(first, "missing data type declaration at end of input"),
                _ => self
                    .error_at(first, format!("missing data type declaration at or near \"{}\"", first.text(self.body))),
            });
        }
        let mut kind = TypeKind::Named;
        if let Some((name, suffix)) = text.rsplit_once('%') {
            kind = match suffix.trim().to_ascii_lowercase().as_str() {
                "type" => TypeKind::Type,
                "rowtype" => TypeKind::RowType,
                _ => return Err(self.unexpected_at(first)),
            };
            text = name.trim_end().to_owned();
        }
        Ok(TypeText { text, kind })
    }

    /// Statements up to one of these words, which is not read.
    fn statements(&mut self, ends: &[&str]) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            if ends.iter().any(|word| self.is_word(word)) {
                return Ok(statements);
            }
            if self.peek().kind == T::End {
                return Err(self.unexpected());
            }
            statements.push(self.statement()?);
        }
    }

    fn statement(&mut self) -> Result<Statement> {
        let token = self.peek();
        let line = self.line(token);
        let label = self.label()?;
        let is_assignment = self.is_assignment();
        self.depth += 1;
        if self.depth > PLPGSQL_DEPTH_MAX {
            let text = format!("statements of a function nest deeper than {PLPGSQL_DEPTH_MAX} levels");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, text));
        }
        let kind = if is_assignment { self.assignment()? } else { self.statement_kind(label)? };
        self.depth -= 1;
        self.expect(T::Semicolon)?;
        Ok(Statement { line, kind })
    }

    /// Whether the statement begins with a target and `:=` or `=`.
    fn is_assignment(&self) -> bool {
        let mut ahead = 0;
        if !matches!(self.peek().kind, T::Word | T::QuotedName | T::UnicodeName) {
            return false;
        }
        loop {
            ahead += 1;
            match self.ahead(ahead).kind {
                T::ColonEquals | T::Equal => return true,
                T::Dot => {
                    ahead += 1;
                    if !matches!(self.ahead(ahead).kind, T::Word | T::QuotedName | T::UnicodeName) {
                        return false;
                    }
                }
                T::LeftBracket => {
                    let mut open = 1;
                    while open > 0 {
                        ahead += 1;
                        match self.ahead(ahead).kind {
                            T::LeftBracket => open += 1,
                            T::RightBracket => open -= 1,
                            T::Semicolon | T::End => return false,
                            _ => {}
                        }
                    }
                }
                _ => return false,
            }
        }
    }

    fn assignment(&mut self) -> Result<StatementKind> {
        let target = self.target()?;
        if !self.eat(T::ColonEquals) {
            self.expect(T::Equal)?;
        }
        let value = self.fragment(&SEMICOLON)?;
        Ok(StatementKind::Assign { target, value })
    }

    fn target(&mut self) -> Result<Target> {
        let mut path = vec![self.name()?];
        while self.eat(T::Dot) {
            path.push(self.name()?);
        }
        let mut subscripts = Vec::new();
        while self.eat(T::LeftBracket) {
            subscripts.push(self.fragment(&Until { words: &[], kinds: &[T::RightBracket] })?);
            self.expect(T::RightBracket)?;
        }
        Ok(Target { path, subscripts })
    }

    fn targets(&mut self) -> Result<Vec<Target>> {
        let mut targets = vec![self.target()?];
        while self.eat(T::Comma) {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    fn statement_kind(&mut self, label: Option<String>) -> Result<StatementKind> {
        use StatementKind as S;
        let token = self.peek();
        let word = if token.kind == T::Word { token.text(self.body).to_ascii_lowercase() } else { String::new() };
        match word.as_str() {
            "begin" | "declare" => return Ok(S::Block(self.block(label)?)),
            "loop" => {
                let body = self.loop_body(label.as_deref())?;
                return Ok(S::Loop { label, body });
            }
            "while" => {
                self.next();
                let condition = self.fragment(&Until { words: &["loop"], kinds: &[] })?;
                let body = self.loop_body(label.as_deref())?;
                return Ok(S::While { label, condition, body });
            }
            "for" => return self.for_statement(label),
            "foreach" => return self.for_each(label),
            _ if label.is_some() => return Err(self.unexpected()),
            _ => {}
        }
        if word != "null" && word != "if" {
            // A name that is no word of the language begins a statement of SQL.
            match word.as_str() {
                "case" | "exit" | "continue" | "return" | "raise" | "assert" | "perform" | "execute" | "get"
                | "open" | "fetch" | "move" | "close" | "commit" | "rollback" | "call" | "do" => {}
                _ => return self.sql(),
            }
        }
        self.next();
        Ok(match word.as_str() {
            "null" => S::Null,
            "if" => self.if_statement()?,
            "case" => self.case_statement()?,
            "exit" | "continue" => {
                let named = !self.is_word("when") && self.peek().kind != T::Semicolon;
                let label = if named { Some(self.name()?) } else { None };
                let condition = if self.eat_word("when") { Some(self.fragment(&SEMICOLON)?) } else { None };
                S::Exit { is_continue: word == "continue", label, condition }
            }
            "return" => self.return_statement()?,
            "raise" => S::Raise(self.raise()?),
            "assert" => {
                let condition = self.fragment(&Until { words: &[], kinds: &[T::Comma, T::Semicolon] })?;
                let message = if self.eat(T::Comma) { Some(self.fragment(&SEMICOLON)?) } else { None };
                S::Assert { condition, message }
            }
            "perform" => {
                let Fragment { text, number } = self.fragment(&SEMICOLON)?;
                S::Perform(Fragment { text: format!("SELECT {text}"), number })
            }
            "execute" => self.execute()?,
            "get" => self.diagnostics()?,
            "open" => self.open()?,
            "fetch" => self.fetch(false)?,
            "move" => self.fetch(true)?,
            "close" => S::Close(self.name()?),
            "commit" => S::Commit { chain: self.chain()? },
            "rollback" => S::Rollback { chain: self.chain()? },
            _ => {
                self.at -= 1;
                let statement = self.fragment(&SEMICOLON)?;
                if word == "call" { S::Call(statement) } else { S::Sql { statement, into: None } }
            }
        })
    }

    fn chain(&mut self) -> Result<bool> {
        if !self.eat_word("and") {
            return Ok(false);
        }
        let chain = !self.eat_word("no");
        self.expect_word("chain")?;
        Ok(chain)
    }

    fn loop_body(&mut self, label: Option<&str>) -> Result<Vec<Statement>> {
        self.expect_word("loop")?;
        let body = self.statements(&["end"])?;
        self.expect_word("end")?;
        self.expect_word("loop")?;
        self.end_label(label)?;
        Ok(body)
    }

    fn if_statement(&mut self) -> Result<StatementKind> {
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        loop {
            let condition = self.fragment(&Until { words: &["then"], kinds: &[] })?;
            self.next();
            branches.push((condition, self.statements(&["elsif", "elseif", "else", "end"])?));
            if self.eat_word("elsif") || self.eat_word("elseif") {
                continue;
            }
            if self.eat_word("else") {
                otherwise = self.statements(&["end"])?;
            }
            self.expect_word("end")?;
            self.expect_word("if")?;
            return Ok(StatementKind::If { branches, otherwise });
        }
    }

    fn case_statement(&mut self) -> Result<StatementKind> {
        let operand =
            if self.is_word("when") { None } else { Some(self.fragment(&Until { words: &["when"], kinds: &[] })?) };
        let (mut branches, mut otherwise) = (Vec::new(), None);
        while self.eat_word("when") {
            let condition = self.fragment(&Until { words: &["then"], kinds: &[] })?;
            self.next();
            branches.push((condition, self.statements(&["when", "else", "end"])?));
        }
        if branches.is_empty() {
            return Err(self.unexpected());
        }
        if self.eat_word("else") {
            otherwise = Some(self.statements(&["end"])?);
        }
        self.expect_word("end")?;
        self.expect_word("case")?;
        Ok(StatementKind::Case { operand, branches, otherwise })
    }

    fn for_statement(&mut self, label: Option<String>) -> Result<StatementKind> {
        self.next();
        let targets = self.targets()?;
        self.expect_word("in")?;
        if self.eat_word("execute") {
            let query = self.fragment(&Until { words: &["loop", "using"], kinds: &[] })?;
            let using = self.using(&["loop"])?;
            let body = self.loop_body(label.as_deref())?;
            return Ok(StatementKind::ForExecute { label, targets, query, using, body });
        }
        let start = self.at;
        let reverse = self.eat_word("reverse");
        let first = self.peek();
        let text = self.text_until(&Until { words: &["loop"], kinds: &[T::DotDot] })?;
        if self.peek().kind != T::DotDot {
            if reverse {
                self.at = start;
                return Err(self.error_at(first, "cannot specify REVERSE in query FOR loop"));
            }
            let query = self.numbered(text);
            let body = self.loop_body(label.as_deref())?;
            return Ok(StatementKind::ForQuery { label, targets, query, body });
        }
        let low = self.numbered(text);
        self.next();
        let high = self.fragment(&Until { words: &["loop", "by"], kinds: &[] })?;
        let step =
            if self.eat_word("by") { Some(self.fragment(&Until { words: &["loop"], kinds: &[] })?) } else { None };
        let body = self.loop_body(label.as_deref())?;
        let mut targets = targets.into_iter();
        let variable = match (targets.next(), targets.next()) {
            (Some(target), None) if target.path.len() == 1 && target.subscripts.is_empty() => {
                target.path.into_iter().next().unwrap_or_default()
            }
            _ => return Err(self.error_at(first, "integer FOR loop must have only one target variable")),
        };
        Ok(StatementKind::ForInteger { label, variable, reverse, low, high, step, body })
    }

    fn for_each(&mut self, label: Option<String>) -> Result<StatementKind> {
        self.next();
        let targets = self.targets()?;
        let mut slice = 0;
        if self.eat_word("slice") {
            let token = self.next();
            slice = token.text(self.body).parse().map_err(|_| self.unexpected_at(token))?;
        }
        self.expect_word("in")?;
        self.expect_word("array")?;
        let array = self.fragment(&Until { words: &["loop"], kinds: &[] })?;
        let body = self.loop_body(label.as_deref())?;
        Ok(StatementKind::ForEach { label, targets, slice, array, body })
    }

    /// `[USING expressions]`, up to a semicolon or one of these words.
    fn using(&mut self, words: &[&str]) -> Result<Vec<Fragment>> {
        let mut using = Vec::new();
        if self.eat_word("using") {
            loop {
                using.push(self.fragment(&Until { words, kinds: &[T::Comma, T::Semicolon] })?);
                if !self.eat(T::Comma) {
                    break;
                }
            }
        }
        Ok(using)
    }

    fn return_statement(&mut self) -> Result<StatementKind> {
        use StatementKind as S;
        if self.eat_word("next") {
            let value = if self.peek().kind == T::Semicolon { None } else { Some(self.fragment(&SEMICOLON)?) };
            return Ok(S::ReturnNext(value));
        }
        if self.eat_word("query") {
            if self.eat_word("execute") {
                let query = self.fragment(&Until { words: &["using"], kinds: &[T::Semicolon] })?;
                return Ok(S::ReturnQueryExecute { query, using: self.using(&[])? });
            }
            return Ok(S::ReturnQuery(self.fragment(&SEMICOLON)?));
        }
        Ok(S::Return(if self.peek().kind == T::Semicolon { None } else { Some(self.fragment(&SEMICOLON)?) }))
    }

    fn raise(&mut self) -> Result<Raise> {
        let mut raise = Raise {
            level: Level::Exception,
            condition: None,
            message: None,
            parameters: Vec::new(),
            options: Vec::new(),
        };
        let levels = [
            ("debug", Level::Debug),
            ("log", Level::Log),
            ("info", Level::Info),
            ("notice", Level::Notice),
            ("warning", Level::Warning),
            ("exception", Level::Exception),
        ];
        for (word, level) in levels {
            if self.eat_word(word) {
                raise.level = level;
                break;
            }
        }
        let first = self.peek();
        if first.kind == T::Semicolon {
            return Ok(raise);
        }
        if first.is_string() {
            let message = self.string()?;
            let mut places = 0;
            let mut rest = message.as_str();
            while let Some(at) = rest.find('%') {
                let is_escaped = rest[at + 1..].starts_with('%');
                places += usize::from(!is_escaped);
                rest = &rest[at + 1 + usize::from(is_escaped)..];
            }
            while self.eat(T::Comma) {
                let until = Until { words: &["using"], kinds: &[T::Comma, T::Semicolon] };
                raise.parameters.push(self.fragment(&until)?);
            }
            if places != raise.parameters.len() {
                let few = if places > raise.parameters.len() { "few" } else { "many" };
                return Err(self.error_at(first, format!("too {few} parameters specified for RAISE")));
            }
            raise.message = Some(message);
        } else if !self.is_word("using") {
            raise.condition = Some(self.condition()?);
        }
        if self.eat_word("using") {
            loop {
                let token = self.peek();
                let name = self.name()?.to_ascii_lowercase();
                let known =
                    ["message", "detail", "hint", "errcode", "column", "constraint", "datatype", "table", "schema"];
                if !known.contains(&name.as_str()) {
                    let text = format!("unrecognized RAISE statement option at or near \"{}\"", token.text(self.body));
                    return Err(self.error_at(token, text));
                }
                if !self.eat(T::Equal) {
                    self.expect(T::ColonEquals)?;
                }
                let value = self.fragment(&Until { words: &[], kinds: &[T::Comma, T::Semicolon] })?;
                raise.options.push((name, value));
                if !self.eat(T::Comma) {
                    break;
                }
            }
        }
        Ok(raise)
    }

    fn into(&mut self) -> Result<Into> {
        let strict = self.eat_word("strict");
        Ok(Into { strict, targets: self.targets()? })
    }

    fn execute(&mut self) -> Result<StatementKind> {
        let query = self.fragment(&Until { words: &["into", "using"], kinds: &[T::Semicolon] })?;
        let (mut into, mut using) = (None, Vec::new());
        loop {
            if into.is_none() && self.eat_word("into") {
                into = Some(self.into()?);
            } else if using.is_empty() && self.is_word("using") {
                using = self.using(&["into"])?;
            } else {
                return Ok(StatementKind::Execute { query, into, using });
            }
        }
    }

    /// A statement of SQL, from which INTO is taken out.
    fn sql(&mut self) -> Result<StatementKind> {
        let first = self.peek();
        if !matches!(first.kind, T::Word | T::LeftParen) {
            return Err(self.unexpected());
        }
        let (mut parens, mut into, mut text) = (0_usize, None, String::new());
        let mut from = first.start;
        let mut before = first;
        let command = first.text(self.body).to_ascii_lowercase();
        // A definition may have the word within it.
        let has_into = !matches!(command.as_str(), "create" | "grant" | "alter" | "import");
        loop {
            let token = self.peek();
            match token.kind {
                T::End => return Err(self.unexpected()),
                T::Semicolon if parens == 0 => break,
                T::LeftParen => parens += 1,
                T::RightParen => parens = parens.saturating_sub(1),
                T::Word
                    if parens == 0
                        && has_into
                        && self.is_at(token, "into")
                        && !self.is_at(before, "insert")
                        && !self.is_at(before, "merge") =>
                {
                    if into.is_some() {
                        return Err(self.error_at(token, "INTO specified more than once"));
                    }
                    text.push_str(&self.body[from as usize..token.start as usize]);
                    self.next();
                    into = Some(self.into()?);
                    from = self.peek().start;
                    continue;
                }
                _ => {}
            }
            before = token;
            self.next();
        }
        text.push_str(&self.body[from as usize..self.peek().start as usize]);
        text.truncate(text.trim_end().len());
        crate::parse_all(&text).map_err(|error| {
            // A place behind INTO is not that of the text.
            let start = position(self.body, first.start);
            let at = error.position().filter(|_| into.is_none()).unwrap_or(1);
            error.with_position(start + at - 1)
        })?;
        let statement = self.numbered(text);
        Ok(StatementKind::Sql { statement, into })
    }

    fn diagnostics(&mut self) -> Result<StatementKind> {
        let stacked = self.eat_word("stacked");
        if !stacked {
            self.eat_word("current");
        }
        self.expect_word("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.eat(T::ColonEquals) {
                self.expect(T::Equal)?;
            }
            let token = self.peek();
            let item = self.name()?.to_ascii_lowercase();
            let known: &[&str] = if stacked {
                &[
                    "returned_sqlstate",
                    "message_text",
                    "pg_exception_detail",
                    "pg_exception_hint",
                    "pg_exception_context",
                    "column_name",
                    "constraint_name",
                    "pg_datatype_name",
                    "table_name",
                    "schema_name",
                ]
            } else {
                &["row_count", "pg_context", "pg_routine_oid"]
            };
            if !known.contains(&item.as_str()) {
                let text = format!("unrecognized GET DIAGNOSTICS item at or near \"{}\"", token.text(self.body));
                return Err(self.error_at(token, text));
            }
            items.push((target, item));
            if !self.eat(T::Comma) {
                return Ok(StatementKind::Diagnostics { stacked, items });
            }
        }
    }

    fn open(&mut self) -> Result<StatementKind> {
        let cursor = self.name()?;
        let scroll = self.scroll()?;
        let how = if self.eat_word("for") {
            if self.eat_word("execute") {
                let query = self.fragment(&Until { words: &["using"], kinds: &[T::Semicolon] })?;
                Open::Execute(query, self.using(&[])?)
            } else {
                Open::Query(self.fragment(&SEMICOLON)?)
            }
        } else {
            let mut arguments = Vec::new();
            if self.eat(T::LeftParen) {
                loop {
                    let is_named = matches!(self.ahead(1).kind, T::ColonEquals | T::EqualsGreater);
                    let name = if is_named { Some(self.name()?) } else { None };
                    if is_named {
                        self.next();
                    }
                    let value = self.fragment(&Until { words: &[], kinds: &[T::Comma, T::RightParen] })?;
                    arguments.push((name, value));
                    if !self.eat(T::Comma) {
                        break;
                    }
                }
                self.expect(T::RightParen)?;
            }
            Open::Bound(arguments)
        };
        Ok(StatementKind::Open { cursor, scroll, how })
    }

    fn fetch(&mut self, is_move: bool) -> Result<StatementKind> {
        let until = Until { words: &["from", "in"], kinds: &[] };
        let direction = if self.eat_word("next") {
            Direction::Next
        } else if self.eat_word("prior") {
            Direction::Prior
        } else if self.eat_word("first") {
            Direction::First
        } else if self.eat_word("last") {
            Direction::Last
        } else if self.eat_word("absolute") {
            Direction::Absolute(self.fragment(&until)?)
        } else if self.eat_word("relative") {
            Direction::Relative(self.fragment(&until)?)
        } else if self.is_word("forward") || self.is_word("backward") {
            let forward = self.is_word("forward");
            self.next();
            let count = if self.eat_word("all") {
                None
            } else if self.is_word("from") || self.is_word("in") {
                Some(self.numbered("1".to_owned()))
            } else {
                Some(self.fragment(&until)?)
            };
            if forward { Direction::Forward(count) } else { Direction::Backward(count) }
        } else if self.eat_word("all") {
            Direction::Forward(None)
        } else if !matches!(self.peek().kind, T::Word | T::QuotedName | T::UnicodeName) {
            Direction::Relative(self.fragment(&until)?)
        } else {
            Direction::Next
        };
        if !self.eat_word("from") {
            self.eat_word("in");
        }
        let cursor = self.name()?;
        let into = if is_move {
            None
        } else {
            self.expect_word("into")?;
            Some(Into { strict: false, targets: self.targets()? })
        };
        Ok(StatementKind::Fetch { cursor, direction, into })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_structure_becomes_a_tree_and_sql_stays_text() {
        let body = parse(
            "<<outer>>\nDECLARE n int := 1; r record; c CURSOR (a int) FOR SELECT a;\nBEGIN\n  n := n + 1;\n  \
             SELECT count(*) INTO STRICT n FROM t WHERE a = 1;\n  IF n > 1 THEN NULL; ELSIF n = 0 THEN RETURN n; END IF;\n  \
             FOR i IN REVERSE 10..1 BY 2 LOOP EXIT outer WHEN i = 3; END LOOP;\n  \
             FOR r IN SELECT 1 LOOP CONTINUE; END LOOP;\n  INSERT INTO t VALUES (1) RETURNING a INTO n;\n\
             EXCEPTION WHEN division_by_zero OR SQLSTATE '23505' THEN RAISE NOTICE 'n %', n USING hint = 'h';\nEND outer",
        )
        .unwrap();
        assert_eq!((body.block.label.as_deref(), body.block.declarations.len()), (Some("outer"), 3));
        assert_eq!(body.block.statements.len(), 6);
        let StatementKind::Sql { statement, into: Some(into) } = &body.block.statements[1].kind else { panic!() };
        assert_eq!(statement.text, "SELECT count(*) FROM t WHERE a = 1");
        assert!(into.strict);
        let StatementKind::Sql { statement, into: Some(_) } = &body.block.statements[5].kind else { panic!() };
        assert_eq!(statement.text, "INSERT INTO t VALUES (1) RETURNING a");
        assert_eq!(body.block.statements[1].line, 5);
        assert_eq!(body.block.handlers[0].conditions.len(), 2);
    }

    #[test]
    fn errors_name_the_token() {
        for (body, message) in [
            ("", "syntax error at end of input"),
            ("BEGIN RETURN 1", "unexpected end of function definition at end of input"),
            ("BEGIN x := ; END", "missing expression at or near \";\""),
            ("BEGIN RAISE NOTICE '%'; END", "too few parameters specified for RAISE"),
            ("BEGIN IF a; END IF; END", "missing \"THEN\" at end of SQL expression"),
            ("BEGIN PERFORM (1; END", "mismatched parentheses at or near \";\""),
            ("<<a>> BEGIN END b", "end label \"b\" differs from block's label \"a\""),
            ("DECLARE a int; a int; BEGIN END", "duplicate declaration at or near \"a\""),
        ] {
            let error = parse(body).unwrap_err();
            assert_eq!((error.state(), error.message()), (SqlState::SYNTAX_ERROR, message), "{body}");
        }
    }

    #[test]
    fn deep_and_broken_bodies_are_errors() {
        for one in ["BEGIN ", "IF a THEN ", "LOOP ", "FOR i IN 1..2 LOOP ", "DECLARE a int; BEGIN ", "<<a>> "] {
            let state = parse(&format!("BEGIN {}", one.repeat(10_000))).unwrap_err().state();
            assert!([SqlState::STATEMENT_TOO_COMPLEX, SqlState::SYNTAX_ERROR].contains(&state), "{one}");
        }
        let body = "<<l>> DECLARE a int := 1; c CURSOR FOR SELECT 1; BEGIN FOR a IN 1..2 BY 3 LOOP FETCH c INTO a; END LOOP; \
                    OPEN c(a := 1); GET STACKED DIAGNOSTICS a = message_text; EXECUTE 'a' INTO a USING 1, 2; RETURN QUERY SELECT 1; \
                    RAISE EXCEPTION 'x %', 1 USING errcode = '1'; CASE a WHEN 1 THEN NULL; ELSE NULL; END CASE; a[1] := 2; \
                    FOREACH a SLICE 1 IN ARRAY b LOOP NULL; END LOOP; EXCEPTION WHEN OTHERS THEN NULL; END";
        parse(body).unwrap();
        // Any part of a body, and a body without any of its parts, is a tree or an error.
        for at in 0..body.len() {
            let _ = parse(&body[at..]);
            let _ = parse(&body[..at]);
            let _ = parse(&format!("{}{}", &body[..at], &body[(at + 7).min(body.len())..]));
        }
    }
}
