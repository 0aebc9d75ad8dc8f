//! Syntax of definitions that the parser does not support, rewritten at the token level.

use model::{Error, Result, SequenceBound, SequenceOptions, SqlState};
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::Notice;
use super::sequence::{self, SequenceAction, SequenceStatement};

/// Name of the foreign server of MOT and MogDB.
const SERVER: &str = "mot_server";

/// Rewrites the tokens of one statement to syntax that the parser supports; other statements are unchanged.
///
/// - `CREATE`, `ALTER` and `DROP FOREIGN TABLE` with `SERVER mot_server` and `OPTIONS (…)`: these words are
///   removed.
/// - `UNLOGGED`, `TABLESPACE name`, `USING INDEX TABLESPACE name`, `WITHOUT OIDS`: removed.
/// - Options of identity columns: put in the parser's order, without `SEQUENCE NAME name`.
///
/// # Errors
/// 42704 for another foreign server.
pub fn prepared(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    let words = heads(tokens);
    let is = |at: usize, word: &str| words.get(at).is_some_and(|token| is_word(&tokens[*token].token, word));
    if !["create", "alter", "drop"].iter().any(|word| is(0, word)) {
        return Ok(notices);
    }
    let is_create = is(0, "create");
    let alters_table = is(0, "alter") && is(1, "table");
    let is_table = (1..3).any(|at| is(at, "table") || is(at, "index")) || is(2, "index");
    if is(1, "foreign") && is(2, "table") {
        tokens.remove(words[1]);
        if is_create {
            without_server(tokens)?;
            notices.push(Notice::new("a foreign table of mot_server is a rows table here: in memory and durable"));
        }
    } else if is_create && is(1, "unlogged") {
        tokens.remove(words[1]);
        notices.push(Notice::new("UNLOGGED is ignored: every table is logged"));
    }
    if is_create && is_table {
        without_places(tokens, &mut notices, false);
    } else if alters_table {
        without_places(tokens, &mut notices, true);
    }
    order_identities(tokens, &mut notices);
    Ok(notices)
}

/// Parses CREATE SEQUENCE and ALTER SEQUENCE with options in any order; `None` for other statements.
///
/// # Errors
/// 42601 for a syntax error; 22003, 22023 for option values.
pub fn sequence(tokens: &[TokenWithSpan]) -> Result<Option<SequenceStatement>> {
    let mut cursor = Cursor::new(tokens);
    let is_create = if cursor.take("create") {
        true
    } else if cursor.take("alter") {
        false
    } else {
        return Ok(None);
    };
    let is_temporary = is_create && (cursor.take("temporary") || cursor.take("temp"));
    if !cursor.take("sequence") {
        return Ok(None);
    }
    if is_temporary {
        return Err(Error::unsupported("temporary sequences are not supported"));
    }
    let skips = if is_create { cursor.take_all(&["if", "not", "exists"]) } else { cursor.take_all(&["if", "exists"]) };
    let name = cursor.name()?;
    let mut read = Options::default();
    let mut rename = None;
    if !is_create && cursor.take_all(&["rename", "to"]) {
        rename = Some(cursor.ident()?);
    } else {
        while !cursor.is_at_end() {
            read.one(&mut cursor, is_create)?;
        }
    }
    if !cursor.is_at_end() {
        return Err(cursor.unexpected());
    }
    let action = if is_create {
        SequenceAction::Create { if_not_exists: skips }
    } else {
        SequenceAction::Alter { if_exists: skips, restart: read.restart, rename }
    };
    Ok(Some(SequenceStatement { action, name, options: read.options, owner: read.owner }))
}

/// Options after a sequence's name.
#[derive(Default)]
struct Options {
    options: SequenceOptions,
    restart: Option<Option<i64>>,
    owner: Option<ast::ObjectName>,
}

impl Options {
    fn one(&mut self, cursor: &mut Cursor<'_>, is_create: bool) -> Result<()> {
        let options = &mut self.options;
        if cursor.take("as") {
            let ty = sequence::type_named(&cursor.word()?)?;
            return once(&mut options.ty, ty);
        }
        if cursor.take("increment") {
            cursor.take("by");
            return once(&mut options.increment, cursor.number()?);
        }
        if cursor.take("minvalue") {
            return once(&mut options.min, SequenceBound::At(cursor.number()?));
        }
        if cursor.take("maxvalue") {
            return once(&mut options.max, SequenceBound::At(cursor.number()?));
        }
        if cursor.take("start") {
            cursor.take("with");
            return once(&mut options.start, cursor.number()?);
        }
        if cursor.take("cache") {
            return once(&mut options.cache, cursor.number()?);
        }
        if cursor.take("cycle") {
            return once(&mut options.cycle, true);
        }
        if cursor.take_all(&["no", "minvalue"]) {
            return once(&mut options.min, SequenceBound::Default);
        }
        if cursor.take_all(&["no", "maxvalue"]) {
            return once(&mut options.max, SequenceBound::Default);
        }
        if cursor.take_all(&["no", "cycle"]) {
            return once(&mut options.cycle, false);
        }
        if cursor.take_all(&["owned", "by"]) {
            let owner = if cursor.take("none") { ast::ObjectName(Vec::new()) } else { cursor.name()? };
            return once(&mut self.owner, owner);
        }
        if !is_create && cursor.take("restart") {
            let with = cursor.take("with");
            let value = if with || cursor.is_at_number() { Some(cursor.number()?) } else { None };
            return once(&mut self.restart, value);
        }
        Err(cursor.unexpected())
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    if place.replace(value).is_some() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
    }
    Ok(())
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF | Token::SemiColon)
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Positions of the first four significant tokens.
fn heads(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len()).filter(|at| !is_blank(&tokens[*at].token)).take(4).collect()
}

/// Position of the next significant token, from `at`.
fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at..tokens.len()).find(|at| !is_blank(&tokens[*at].token))
}

/// Removes `SERVER name [OPTIONS (…)]` at the end.
fn without_server(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut depth = 0_usize;
    for at in 0..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && is_word(token, "server") => {
                let name = next(tokens, at + 1).map(|name| tokens[name].token.to_string()).unwrap_or_default();
                let name = name.trim_matches('"');
                if name.eq_ignore_ascii_case(SERVER) {
                    tokens.truncate(at);
                    return Ok(());
                }
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("server \"{name}\" does not exist"))
                    .with_hint(format!("the only foreign server is {SERVER}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes TABLESPACE clauses after the parentheses, or after a key inside them. `of_keys`: only those of key
/// indexes.
fn without_places(tokens: &mut Vec<TokenWithSpan>, notices: &mut Vec<Notice>, of_keys: bool) {
    let (mut at, mut depth) = (0, 0_usize);
    while at < tokens.len() {
        let word = |place: usize, word: &str| next(tokens, place).filter(|at| is_word(&tokens[*at].token, word));
        let here = |name: &str| is_word(&tokens[at].token, name).then_some(at);
        let of_key =
            here("using").and_then(|using| word(using + 1, "index")).and_then(|index| word(index + 1, "tablespace"));
        // Elsewhere the word may be a column name.
        let outside = depth == 0 && !of_keys;
        let place = of_key.or(here("tablespace").filter(|_| outside)).and_then(|place| next(tokens, place + 1));
        let oids = here("without").filter(|_| outside).and_then(|without| word(without + 1, "oids"));
        if let Some(name) = place {
            let text = format!("tablespace {} is ignored: rows tables are in memory", tokens[name].token);
            notices.push(Notice::new(text));
        }
        if let Some(last) = place.or(oids) {
            tokens.drain(at..=last);
            continue;
        }
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
}

/// Puts the options of IDENTITY in the parser's order and removes SEQUENCE NAME, which dumps contain.
fn order_identities(tokens: &mut Vec<TokenWithSpan>, notices: &mut Vec<Notice>) {
    let mut at = 0;
    while at < tokens.len() {
        let open = next(tokens, at + 1).filter(|open| tokens[*open].token == Token::LParen);
        if let (true, Some(open)) = (is_word(&tokens[at].token, "identity"), open)
            && let Some(close) = (open..tokens.len()).find(|close| tokens[*close].token == Token::RParen)
        {
            let ordered = in_order(&tokens[open + 1..close], notices);
            tokens.splice(open + 1..close, ordered);
        }
        at += 1;
    }
}

fn in_order(tokens: &[TokenWithSpan], notices: &mut Vec<Notice>) -> Vec<TokenWithSpan> {
    const NAME: &str = "sequence";
    const ORDER: [&str; 7] = [NAME, "increment", "minvalue", "maxvalue", "start", "cache", "cycle"];
    // Each option with the white space after it, and its rank; NO belongs to the next word.
    let mut groups: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut negated = false;
    for token in tokens {
        let place = ORDER.iter().position(|word| is_word(&token.token, word));
        let is_no = is_word(&token.token, "no");
        match (place, groups.last_mut()) {
            (Some(place), Some(group)) if negated => group.0 = place,
            (Some(place), _) => groups.push((place, Vec::new())),
            (None, last) if is_no || last.is_none() => groups.push((ORDER.len(), Vec::new())),
            (None, _) => {}
        }
        negated = is_no || negated && place.is_none();
        if let Some((_, group)) = groups.last_mut() {
            group.push(token.clone());
        }
    }
    groups.sort_by_key(|(place, _)| *place);
    let is_name = |(place, _): &(usize, Vec<TokenWithSpan>)| ORDER.get(*place) == Some(&NAME);
    if groups.iter().any(is_name) {
        notices.push(Notice::new("SEQUENCE NAME is ignored: the sequence is named after its table and column"));
        groups.retain(|group| !is_name(group));
    }
    groups.into_iter().flat_map(|(_, group)| group).collect()
}

/// Reads significant tokens in order.
struct Cursor<'t> {
    tokens: Vec<&'t Token>,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn new(tokens: &'t [TokenWithSpan]) -> Cursor<'t> {
        Cursor { tokens: tokens.iter().map(|token| &token.token).filter(|token| !is_blank(token)).collect(), at: 0 }
    }

    fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    fn take(&mut self, word: &str) -> bool {
        self.take_all(&[word])
    }

    fn take_all(&mut self, words: &[&str]) -> bool {
        let rest = &self.tokens[self.at..];
        let all = rest.len() >= words.len() && words.iter().zip(rest).all(|(word, token)| is_word(token, word));
        if all {
            self.at += words.len();
        }
        all
    }

    fn ident(&mut self) -> Result<ast::Ident> {
        match self.tokens.get(self.at) {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(ast::Ident {
                    value: word.value.clone(),
                    quote_style: word.quote_style,
                    span: sqlparser::tokenizer::Span::empty(),
                })
            }
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self) -> Result<String> {
        self.ident().map(|ident| ident.value.to_ascii_lowercase())
    }

    fn name(&mut self) -> Result<ast::ObjectName> {
        let mut parts = vec![self.ident()?];
        while self.tokens.get(self.at) == Some(&&Token::Period) {
            self.at += 1;
            parts.push(self.ident()?);
        }
        Ok(ast::ObjectName::from(parts))
    }

    fn is_at_number(&self) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Number(..) | Token::Minus | Token::Plus))
    }

    fn number(&mut self) -> Result<i64> {
        let sign = match self.tokens.get(self.at) {
            Some(Token::Minus) => "-",
            Some(Token::Plus) => "+",
            _ => "",
        };
        self.at += sign.len();
        let Some(Token::Number(digits, _)) = self.tokens.get(self.at) else { return Err(self.unexpected()) };
        self.at += 1;
        let text = format!("{sign}{digits}");
        text.parse().map_err(|_| sequence::out_of_range(&text))
    }

    fn unexpected(&self) -> Error {
        let text = match self.tokens.get(self.at) {
            Some(token) => format!("syntax error at or near \"{token}\""),
            None => "syntax error at end of input".to_owned(),
        };
        Error::new(SqlState::SYNTAX_ERROR, text)
    }
}
