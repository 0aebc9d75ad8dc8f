//! The grammar of `jsonpath`, by recursive descent.

use model::{Error, Numeric, Result, SqlState};

use super::ast::{Accessor, Arithmetic, Comparison, LEVEL_LAST, Node, NodeKind, NumberMethod, Path};
use super::lexer::{Lexer, Token};
use super::pattern::pattern;

/// Limit of nested parentheses, filters, operators and accessors, because parsing and evaluation are recursive.
const DEPTH_MAX: usize = 256;

/// Parses a path.
///
/// # Errors
/// 42601 for malformed text, 22P02 for none, 54001 if it nests too deeply.
pub(super) fn parse(text: &str) -> Result<Path> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    if token == Token::End {
        let text = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text));
    }
    let mut parser = Parser { lexer, token, depth: 0, filters: 0, subscripts: 0 };
    let is_strict = parser.take_word("strict")?;
    if !is_strict {
        parser.take_word("lax")?;
    }
    let root = parser.expression()?;
    if parser.token != Token::End {
        return Err(parser.unexpected());
    }
    Ok(Path { is_strict, root })
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The next token, which is not parsed yet.
    token: Token,
    /// Nested constructs around the next token, and those of them that are filters and subscripts.
    depth: usize,
    filters: usize,
    subscripts: usize,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<()> {
        self.token = self.lexer.next()?;
        Ok(())
    }

    fn unexpected(&self) -> Error {
        self.lexer.error("syntax error")
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(found) if found == sign)
    }

    fn take(&mut self, sign: &str) -> Result<bool> {
        let found = self.is_sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.take(sign)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> Result<bool> {
        let found = self.is_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word)? { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Enters a construct that may contain itself.
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return Ok(());
        }
        let detail = format!("A jsonpath nests at most {DEPTH_MAX} levels deep.");
        Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").with_detail(detail))
    }

    /// An expression or predicate.
    fn expression(&mut self) -> Result<Node> {
        self.enter()?;
        let node = self.binary_predicates("||", NodeKind::Or, |parser| {
            parser.binary_predicates("&&", NodeKind::And, Parser::comparison)
        })?;
        self.depth -= 1;
        Ok(node)
    }

    fn value(&mut self) -> Result<Node> {
        let node = self.expression()?;
        self.check_value(&node)?;
        Ok(node)
    }

    fn predicate(&mut self) -> Result<Node> {
        let node = self.expression()?;
        self.check_predicate(&node)?;
        Ok(node)
    }

    /// The next token is not expected behind a predicate, where a value must be.
    fn check_value(&self, node: &Node) -> Result<()> {
        if node.is_predicate() { Err(self.unexpected()) } else { Ok(()) }
    }

    fn check_predicate(&self, node: &Node) -> Result<()> {
        if node.is_predicate() { Ok(()) } else { Err(self.unexpected()) }
    }

    fn binary_predicates(
        &mut self,
        sign: &str,
        kind: fn(Box<[Node; 2]>) -> NodeKind,
        operand: impl Fn(&mut Self) -> Result<Node>,
    ) -> Result<Node> {
        let depth = self.depth;
        let mut left = operand(self)?;
        while self.is_sign(sign) {
            self.check_predicate(&left)?;
            self.enter()?;
            self.advance()?;
            let right = operand(self)?;
            self.check_predicate(&right)?;
            left = Node::new(kind(Box::new([left, right])));
        }
        self.depth = depth;
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Node> {
        let left = self.sum()?;
        let operator = match self.token {
            Token::Sign("==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::NotEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterEqual,
            _ if self.is_word("starts") => return self.starts_with(left),
            _ if self.is_word("like_regex") => return self.like_regex(left),
            _ => return Ok(left),
        };
        self.check_value(&left)?;
        self.advance()?;
        let right = self.sum()?;
        self.check_value(&right)?;
        Ok(Node::new(NodeKind::Compare(operator, Box::new([left, right]))))
    }

    fn starts_with(&mut self, left: Node) -> Result<Node> {
        self.check_value(&left)?;
        self.advance()?;
        self.expect_word("with")?;
        let initial = match &mut self.token {
            Token::String(text) => NodeKind::String(std::mem::take(text)),
            Token::Variable(name) => NodeKind::Variable(std::mem::take(name)),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(Node::new(NodeKind::StartsWith(Box::new([left, Node::new(initial)]))))
    }

    fn like_regex(&mut self, left: Node) -> Result<Node> {
        self.check_value(&left)?;
        self.advance()?;
        let text = self.string()?;
        let flags = if self.take_word("flag")? { self.string()? } else { String::new() };
        Ok(Node::new(NodeKind::LikeRegex(Box::new(left), Box::new(pattern(text, &flags)?))))
    }

    fn string(&mut self) -> Result<String> {
        let Token::String(text) = &mut self.token else { return Err(self.unexpected()) };
        let text = std::mem::take(text);
        self.advance()?;
        Ok(text)
    }

    fn sum(&mut self) -> Result<Node> {
        let operator = |token: &Token| match token {
            Token::Sign("+") => Some(Arithmetic::Add),
            Token::Sign("-") => Some(Arithmetic::Subtract),
            _ => None,
        };
        self.arithmetic(operator, Parser::product)
    }

    fn product(&mut self) -> Result<Node> {
        let operator = |token: &Token| match token {
            Token::Sign("*") => Some(Arithmetic::Multiply),
            Token::Sign("/") => Some(Arithmetic::Divide),
            Token::Sign("%") => Some(Arithmetic::Modulo),
            _ => None,
        };
        self.arithmetic(operator, Parser::signed)
    }

    fn arithmetic(
        &mut self,
        operator: fn(&Token) -> Option<Arithmetic>,
        operand: fn(&mut Self) -> Result<Node>,
    ) -> Result<Node> {
        let depth = self.depth;
        let mut left = operand(self)?;
        while let Some(operator) = operator(&self.token) {
            self.check_value(&left)?;
            self.enter()?;
            self.advance()?;
            let right = operand(self)?;
            self.check_value(&right)?;
            left = Node::new(NodeKind::Arithmetic(operator, Box::new([left, right])));
        }
        self.depth = depth;
        Ok(left)
    }

    fn signed(&mut self) -> Result<Node> {
        let negative = match self.token {
            Token::Sign("-") => true,
            Token::Sign("+") => false,
            _ => return self.primary(),
        };
        self.enter()?;
        self.advance()?;
        let of = self.signed()?;
        self.check_value(&of)?;
        self.depth -= 1;
        Ok(match of.kind {
            NodeKind::Number(number) if of.accessors.is_empty() => {
                let value: Numeric = number.parse()?;
                Node::new(NodeKind::Number(if negative { value.neg() } else { value }.to_string()))
            }
            kind => Node::new(NodeKind::Sign { negative, of: Box::new(Node { kind, accessors: of.accessors }) }),
        })
    }

    fn primary(&mut self) -> Result<Node> {
        let mut node = match &self.token {
            Token::Sign("(") => {
                self.advance()?;
                let node = self.expression()?;
                self.expect(")")?;
                if node.is_predicate() && self.take_word("is")? {
                    self.expect_word("unknown")?;
                    return Ok(Node::new(NodeKind::IsUnknown(Box::new(node))));
                }
                node
            }
            Token::Sign("!") => {
                self.advance()?;
                let is_exists = self.is_word("exists");
                if !is_exists && !self.is_sign("(") {
                    return Err(self.unexpected());
                }
                let of = if is_exists { self.exists()? } else { self.enclosed(Parser::predicate)? };
                return Ok(Node::new(NodeKind::Not(Box::new(of))));
            }
            Token::Word(_) if self.is_word("exists") => return self.exists(),
            _ => Node::new(self.leaf()?),
        };
        let depth = self.depth;
        loop {
            // An accessor is evaluated within the one before it.
            self.enter()?;
            match self.accessor()? {
                Some(accessor) => node.accessors.push(accessor),
                None => break,
            }
        }
        self.depth = depth;
        Ok(node)
    }

    fn exists(&mut self) -> Result<Node> {
        self.advance()?;
        let of = self.enclosed(Parser::value)?;
        Ok(Node::new(NodeKind::Exists(Box::new(of))))
    }

    fn enclosed(&mut self, inner: fn(&mut Self) -> Result<Node>) -> Result<Node> {
        self.expect("(")?;
        let node = inner(self)?;
        self.expect(")")?;
        Ok(node)
    }

    fn leaf(&mut self) -> Result<NodeKind> {
        let not_here = |text: &str| Err(Error::new(SqlState::SYNTAX_ERROR, text));
        let kind = match &mut self.token {
            Token::Sign("$") => NodeKind::Root,
            Token::Sign("@") if self.filters > 0 => NodeKind::Current,
            Token::Sign("@") => return not_here("@ is not allowed in root expressions"),
            Token::String(text) => NodeKind::String(std::mem::take(text)),
            Token::Variable(name) => NodeKind::Variable(std::mem::take(name)),
            Token::Integer(number) | Token::Decimal(number) => NodeKind::Number(number.parse::<Numeric>()?.to_string()),
            Token::Word(word) => match word.as_str() {
                "null" => NodeKind::Null,
                "true" => NodeKind::Bool(true),
                "false" => NodeKind::Bool(false),
                word if word.eq_ignore_ascii_case("last") && self.subscripts > 0 => NodeKind::Last,
                word if word.eq_ignore_ascii_case("last") => {
                    return not_here("LAST is allowed only in array subscripts");
                }
                _ => return Err(self.unexpected()),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(kind)
    }

    fn accessor(&mut self) -> Result<Option<Accessor>> {
        if self.take(".")? {
            return self.member().map(Some);
        }
        if self.take("[")? {
            return self.elements().map(Some);
        }
        if !self.take("?")? {
            return Ok(None);
        }
        self.filters += 1;
        let predicate = self.enclosed(Parser::predicate)?;
        self.filters -= 1;
        Ok(Some(Accessor::Filter(Box::new(predicate))))
    }

    fn elements(&mut self) -> Result<Accessor> {
        if self.take("*")? {
            self.expect("]")?;
            return Ok(Accessor::AnyElement);
        }
        self.subscripts += 1;
        let mut list = Vec::new();
        loop {
            let from = self.value()?;
            let to = if self.take_word("to")? { Some(self.value()?) } else { None };
            list.push((from, to));
            if !self.take(",")? {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(Accessor::Elements(list))
    }

    /// Parses the accessor behind a dot.
    fn member(&mut self) -> Result<Accessor> {
        let (name, is_word) = match &mut self.token {
            Token::Sign("*") => {
                self.advance()?;
                return Ok(Accessor::AnyKey);
            }
            Token::Sign("**") => {
                self.advance()?;
                return self.levels();
            }
            Token::Word(name) => (std::mem::take(name), true),
            Token::String(name) => (std::mem::take(name), false),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        if is_word && self.is_sign("(") {
            return self.method(&name);
        }
        Ok(Accessor::Key(name))
    }

    fn method(&mut self, name: &str) -> Result<Accessor> {
        let method = match name.to_ascii_lowercase().as_str() {
            "type" => Accessor::Type,
            "size" => Accessor::Size,
            "abs" => Accessor::Number(NumberMethod::Abs),
            "floor" => Accessor::Number(NumberMethod::Floor),
            "ceiling" => Accessor::Number(NumberMethod::Ceiling),
            "double" => Accessor::Double,
            "keyvalue" => Accessor::KeyValue,
            "datetime" => Accessor::Datetime(None),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        let method = match (method, &self.token) {
            (Accessor::Datetime(_), Token::String(_)) => Accessor::Datetime(Some(self.string()?)),
            (method, _) => method,
        };
        self.expect(")")?;
        Ok(method)
    }

    /// Levels of `.**`: all, one, or a range.
    fn levels(&mut self) -> Result<Accessor> {
        if !self.take("{")? {
            return Ok(Accessor::Descendants(0, LEVEL_LAST));
        }
        let first = self.level()?;
        let last = if self.take_word("to")? { self.level()? } else { first };
        self.expect("}")?;
        Ok(Accessor::Descendants(first, last))
    }

    fn level(&mut self) -> Result<u32> {
        let level = match &self.token {
            Token::Integer(text) => {
                let value: Option<i32> = text.parse().ok();
                value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| {
                    let text = format!("value \"{text}\" is out of range for type integer");
                    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text)
                })?
            }
            Token::Word(word) if word.eq_ignore_ascii_case("last") => LEVEL_LAST,
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(level)
    }
}
