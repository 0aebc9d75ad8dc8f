//! From tokens to trees, by precedence.

use std::ops::Range;

use model::{Error, Result, SqlState};

use super::functions::{self, Function};
use super::lexer::{Kind, Token, syntax, tokens};
use super::{Formula, HEIGHT_MAX, Node, Operator, Reference, TEXT_BYTES_MAX};

/// # Errors
/// See [`Formula::from_str`](std::str::FromStr).
pub(super) fn parse(text: &str) -> Result<Formula> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("formula: {} bytes, expected at most {TEXT_BYTES_MAX}", text.len());
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut parser =
        Parser { text, tokens: tokens(text)?, at: 0, height: 0, references: Vec::new(), names: Vec::new() };
    let root = parser.expression(0)?;
    if parser.kind() != &Kind::End {
        return Err(parser.unexpected("an operator or the end"));
    }
    let Parser { references, names, .. } = parser;
    Ok(Formula { text: text.to_owned(), root, references, names })
}

/// Binary operators with their precedence, by symbol or name. Greater binds tighter; a sign is between 80 and 90.
const OPERATORS: [(&str, Operator, u8); 18] = [
    ("^", Operator::Power, 90),
    ("*", Operator::Multiply, 70),
    ("/", Operator::Divide, 70),
    ("\\", Operator::DivideWhole, 60),
    ("Mod", Operator::Modulo, 50),
    ("+", Operator::Add, 45),
    ("-", Operator::Subtract, 45),
    ("=", Operator::Equal, 40),
    ("<>", Operator::NotEqual, 40),
    ("<", Operator::Less, 40),
    (">", Operator::Greater, 40),
    ("<=", Operator::LessOrEqual, 40),
    (">=", Operator::GreaterOrEqual, 40),
    ("And", Operator::And, 20),
    ("AndAlso", Operator::And, 20),
    ("Or", Operator::Or, 15),
    ("OrElse", Operator::Or, 15),
    ("Xor", Operator::Xor, 10),
];
const SIGN: u8 = 80;
const NOT: u8 = 30;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    height: usize,
    references: Vec<Reference>,
    names: Vec<(Range<usize>, usize)>,
}

impl Parser<'_> {
    fn kind(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn place(&self) -> Range<usize> {
        self.tokens[self.at].place.clone()
    }

    /// The token, and the next one becomes the current. The end stays.
    fn advance(&mut self) -> Kind {
        let kind = self.kind().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.kind(), Kind::Symbol(own) if *own == symbol)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.kind(), Kind::Name(own) if own.eq_ignore_ascii_case(name))
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if !self.is_symbol(symbol) {
            return Err(self.unexpected(&format!("\"{symbol}\"")));
        }
        self.advance();
        Ok(())
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.kind() {
            Kind::End => "the end".to_owned(),
            _ => format!("\"{}\"", &self.text[self.place()]),
        };
        syntax(self.text, self.place().start, &format!("found {found}, expected {expected}"))
    }

    /// An expression of operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Node> {
        self.height += 1;
        if self.height > HEIGHT_MAX {
            let message = format!("formula: nested more than {HEIGHT_MAX} deep");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let mut left = self.operand()?;
        let mut operators = 0;
        while let Some((operator, precedence)) = self.operator().filter(|(_, precedence)| *precedence >= least) {
            self.advance();
            // A long sum leans to the left: each operator makes the tree higher by one.
            operators += 1;
            self.height += 1;
            // All operators of VB.NET are left-associative, also the power.
            let right = self.expression(precedence + 1)?;
            left = Node::Binary(operator, Box::new(left), Box::new(right));
        }
        self.height -= 1 + operators;
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        let is_own = |(name, ..): &&(&str, Operator, u8)| self.is_symbol(name) || self.is_name(name);
        OPERATORS.iter().find(is_own).map(|(_, operator, precedence)| (*operator, *precedence))
    }

    fn operand(&mut self) -> Result<Node> {
        if self.is_symbol("-") || self.is_symbol("+") {
            let is_negative = self.is_symbol("-");
            self.advance();
            let operand = self.expression(SIGN)?;
            return Ok(if is_negative { Node::Negative(Box::new(operand)) } else { operand });
        }
        if self.is_name("Not") {
            self.advance();
            return Ok(Node::Not(Box::new(self.expression(NOT)?)));
        }
        if self.is_symbol("(") {
            self.advance();
            let inner = self.expression(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        match self.kind() {
            Kind::Number(number) => {
                let number = *number;
                self.advance();
                Ok(Node::Number(number))
            }
            Kind::Reference(_) => {
                let at = self.reference(0)?;
                Ok(Node::Reference(at))
            }
            Kind::Name(_) => self.named(),
            _ => Err(self.unexpected("a number, a reference such as [Meter A], a function or \"(\"")),
        }
    }

    /// A constant or a call.
    fn named(&mut self) -> Result<Node> {
        let place = self.place();
        let Kind::Name(name) = self.advance() else { return Err(self.unexpected("a name")) };
        let lower = name.to_ascii_lowercase();
        let plain = lower.strip_prefix("system.").unwrap_or(&lower);
        let (is_math, plain) = plain.strip_prefix("math.").map_or((false, plain), |plain| (true, plain));
        match plain {
            "true" => return Ok(Node::Number(1.0)),
            "false" => return Ok(Node::Number(0.0)),
            "pi" if is_math => return Ok(Node::Number(std::f64::consts::PI)),
            "e" if is_math => return Ok(Node::Number(std::f64::consts::E)),
            "tau" if is_math => return Ok(Node::Number(std::f64::consts::TAU)),
            _ => {}
        }
        if !self.is_symbol("(") {
            return Err(syntax(self.text, place.start, &format!("\"{name}\" is neither a constant nor a call")));
        }
        self.advance();
        if plain == "shift" {
            return self.shift();
        }
        let mut arguments = Vec::new();
        let mut mode = None;
        while !self.is_symbol(")") {
            if mode.is_some() {
                return Err(self.unexpected("\")\" behind a rounding mode"));
            }
            mode = if plain == "round" { self.rounding_mode() } else { None };
            if mode.is_none() {
                arguments.push(self.expression(0)?);
            }
            if !self.is_symbol(")") {
                self.expect(",")?;
                if self.is_symbol(")") {
                    return Err(self.unexpected("an argument"));
                }
            }
        }
        self.advance();
        self.call(&name, plain, arguments, mode, place.start)
    }

    /// A mode of `Round`, such as `MidpointRounding.ToEven`: its number in .NET.
    fn rounding_mode(&mut self) -> Option<u8> {
        let Kind::Name(name) = self.kind() else { return None };
        let lower = name.to_ascii_lowercase();
        let lower = lower.strip_prefix("system.").unwrap_or(&lower);
        let mode = functions::rounding_mode(lower.strip_prefix("midpointrounding.")?)?;
        self.advance();
        Some(mode)
    }

    fn call(&self, name: &str, plain: &str, arguments: Vec<Node>, mode: Option<u8>, at: usize) -> Result<Node> {
        let count = arguments.len();
        let wrong = |expected: &str| {
            syntax(self.text, at, &format!("function {name} has {count} arguments, expected {expected}"))
        };
        let boxed = |arguments: Vec<Node>| arguments.into_iter().map(Box::new).next();
        match plain {
            "if" | "iif" => match (<[Node; 3]>::try_from(arguments), plain) {
                (Ok(three), _) => Ok(Node::If(Box::new(three))),
                (Err(rest), "if") => {
                    <[Node; 2]>::try_from(rest).map(|two| Node::IfMissing(Box::new(two))).map_err(|_| wrong("2 or 3"))
                }
                _ => Err(wrong("3")),
            },
            "ifmissing" => {
                <[Node; 2]>::try_from(arguments).map(|two| Node::IfMissing(Box::new(two))).map_err(|_| wrong("2"))
            }
            "ismissing" if count == 1 => boxed(arguments).map(Node::IsMissing).ok_or_else(|| wrong("1")),
            "flagof" if count == 1 => boxed(arguments).map(Node::FlagOf).ok_or_else(|| wrong("1")),
            "ismissing" | "flagof" => Err(wrong("1")),
            _ => {
                let mut arguments = arguments;
                arguments.extend(mode.map(|mode| Node::Number(mode.into())));
                let found: &'static Function = functions::find(plain, count, mode.is_some()).map_err(|counts| {
                    if counts.is_empty() {
                        let message = format!("formula: function {name} does not exist (character {})", at + 1);
                        return Error::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(
                            "functions are those of System.Math, If, IsMissing, IfMissing, FlagOf and Shift",
                        );
                    }
                    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
                    wrong(&counts.join(" or "))
                })?;
                Ok(Node::Call(found, arguments))
            }
        }
    }

    /// The arguments of `Shift`, behind the bracket: a reference and a whole number.
    fn shift(&mut self) -> Result<Node> {
        if !matches!(self.kind(), Kind::Reference(_)) {
            return Err(self.unexpected("a reference such as [Meter A]"));
        }
        let reference = self.at;
        self.advance();
        self.expect(",")?;
        let is_negative = self.is_symbol("-");
        if is_negative || self.is_symbol("+") {
            self.advance();
        }
        let whole = match self.kind() {
            Kind::Number(number) if number.fract() == 0.0 && *number <= f64::from(i32::MAX) => *number as i64,
            _ => return Err(self.unexpected("a whole number of intervals")),
        };
        self.advance();
        let end = self.at;
        self.at = reference;
        let at = self.reference(if is_negative { -whole } else { whole })?;
        self.at = end;
        self.expect(")")?;
        Ok(Node::Reference(at))
    }

    /// The reference at the current token: its position among the references.
    fn reference(&mut self, shift: i64) -> Result<usize> {
        let place = self.place();
        let Kind::Reference(parts) = self.advance() else { return Err(self.unexpected("a reference")) };
        let wrong = |problem: &str| syntax(self.text, place.start, problem);
        if parts.len() > 4 {
            return Err(wrong("a reference has at most four parts: series, offset, unit and aggregation"));
        }
        let part = |at: usize| parts.get(at).map(|(text, _)| text.as_str()).filter(|text| !text.is_empty());
        let series = part(0).ok_or_else(|| wrong("the reference names no series"))?;
        let offset = part(1).map_or(Ok(0), |text| {
            text.parse().map_err(|_| wrong(&format!("offset \"{text}\" is not a whole number of intervals")))
        })?;
        let aggregation = part(3).map(str::parse).transpose().map_err(|error: Error| wrong(error.message()))?;
        let unit = part(2).map(str::to_owned);
        let reference = Reference { series: series.to_owned(), offset, unit, aggregation, shift };
        let known = self.references.iter().position(|known| *known == reference);
        let at = known.unwrap_or(self.references.len());
        if known.is_none() {
            self.references.push(reference);
        }
        self.names.push((parts[0].1.clone(), at));
        Ok(at)
    }
}
