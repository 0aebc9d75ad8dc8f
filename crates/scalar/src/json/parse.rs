//! The grammar of JSON: calls a [`Sink`] for each part of a text. No recursion.

use model::{Error, Result, SqlState};

use super::lexer::{Escapes, Lexer, Token};

/// Deepest nesting of arrays and objects. PostgreSQL has the limit of its stack, which is of the same magnitude.
pub(super) const DEPTH_MAX: usize = 6_400;

/// Receives the parts of a JSON text in their order.
pub(super) trait Sink<'t> {
    /// `{` or `[`
    fn open(&mut self, container: Container);

    /// Name of a member, as written with quotes. Its value follows.
    ///
    /// # Errors
    /// Those of the receiver.
    fn key(&mut self, written: &'t str) -> Result<()>;

    /// A string, number, boolean or null, as written.
    ///
    /// # Errors
    /// 22003 for a number out of range.
    fn scalar(&mut self, token: Token, written: &'t str) -> Result<()>;

    /// `}` or `]`
    fn close(&mut self, container: Container);
}

/// Checks only.
impl Sink<'_> for () {
    fn open(&mut self, _: Container) {}

    fn key(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn scalar(&mut self, _: Token, _: &str) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _: Container) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Object,
    Array,
}

/// Parses a text.
///
/// # Errors
/// 22P02 with detail and context for malformed text, 54001 above [`DEPTH_MAX`], those of the receiver.
///
/// # Cost
/// One pass; one byte of memory for each open container.
pub(super) fn parse<'t>(text: &'t str, escapes: Escapes, sink: &mut impl Sink<'t>) -> Result<()> {
    let lexer = &mut Lexer::new(text, escapes);
    let mut containers: Vec<Container> = Vec::new();
    let mut token = lexer.next()?;
    loop {
        // A value starts here.
        match token {
            Token::ObjectStart => {
                open(&mut containers, Container::Object, sink)?;
                token = lexer.next()?;
                if token != Token::ObjectEnd {
                    token = member_name(lexer, token, "string or \"}\"", sink)?;
                    continue;
                }
                close(&mut containers, sink);
            }
            Token::ArrayStart => {
                open(&mut containers, Container::Array, sink)?;
                token = lexer.next()?;
                if token != Token::ArrayEnd {
                    continue;
                }
                close(&mut containers, sink);
            }
            Token::String | Token::Number | Token::True | Token::False | Token::Null => {
                sink.scalar(token, lexer.token())?;
            }
            other => return Err(lexer.unexpected("JSON value", other)),
        }
        // The value ends here, and possibly its containers.
        loop {
            token = lexer.next()?;
            match (containers.last(), token) {
                (None, Token::End) => return Ok(()),
                (None, other) => return Err(lexer.unexpected("end of input", other)),
                (Some(Container::Object), Token::ObjectEnd) | (Some(Container::Array), Token::ArrayEnd) => {
                    close(&mut containers, sink);
                }
                (Some(Container::Object), Token::Comma) => {
                    let next = lexer.next()?;
                    token = member_name(lexer, next, "string", sink)?;
                    break;
                }
                (Some(Container::Array), Token::Comma) => {
                    token = lexer.next()?;
                    break;
                }
                (Some(Container::Object), other) => return Err(lexer.unexpected("\",\" or \"}\"", other)),
                (Some(Container::Array), other) => return Err(lexer.unexpected("\",\" or \"]\"", other)),
            }
        }
    }
}

fn open<'t>(containers: &mut Vec<Container>, container: Container, sink: &mut impl Sink<'t>) -> Result<()> {
    if containers.len() == DEPTH_MAX {
        return Err(too_deep());
    }
    containers.push(container);
    sink.open(container);
    Ok(())
}

fn close<'t>(containers: &mut Vec<Container>, sink: &mut impl Sink<'t>) {
    if let Some(container) = containers.pop() {
        sink.close(container);
    }
}

/// Parses a member's name, which must be `token`, and its colon; returns the token after them.
fn member_name<'t>(lexer: &mut Lexer<'t>, token: Token, expected: &str, sink: &mut impl Sink<'t>) -> Result<Token> {
    if token != Token::String {
        return Err(lexer.unexpected(expected, token));
    }
    sink.key(lexer.token())?;
    match lexer.next()? {
        Token::Colon => lexer.next(),
        other => Err(lexer.unexpected("\":\"", other)),
    }
}

/// The error of a value that nests too deeply.
pub(super) fn too_deep() -> Error {
    let detail = format!("JSON values nest at most {DEPTH_MAX} levels deep.");
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").with_detail(detail)
}
