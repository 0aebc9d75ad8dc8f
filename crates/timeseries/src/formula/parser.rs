//! From tokens to trees, by precedence.

use std::collections::HashMap;
use std::f64::consts::{E, PI, TAU};
use std::ops::Range;

use model::{Error, Result, SqlState};

use super::functions::{self, Function};
use super::lexer::{Kind, Token, syntax, tokens};
use super::{Formula, HEIGHT_MAX, NOT, Node, OPERATORS, Operator, Reference, SIGN, TEXT_BYTES_MAX};

/// # Errors
/// See [`Formula::parse`].
pub(super) fn parse(text: &str) -> Result<Formula> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("formula: {} bytes, expected at most {TEXT_BYTES_MAX}", text.len());
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        references: Vec::new(),
        known: HashMap::new(),
        names: Vec::new(),
    };
    let root = parser.expression(0)?.node;
    if parser.kind() != &Kind::End {
        return Err(parser.unexpected("an operator or the end"));
    }
    let Parser { mut references, names, .. } = parser;
    place(text, &mut references, &names);
    Ok(Formula { text: text.to_owned(), root, references, names })
}

/// Sets the positions of references, which are in the order of their first names.
fn place(text: &str, references: &mut [Reference], names: &[(Range<usize>, usize)]) {
    let (mut byte, mut character, mut next) = (0, 1, 0);
    for (name, reference) in names {
        if *reference == next {
            let bracket = text[..name.start].rfind('[').unwrap_or(name.start);
            character += text[byte..bracket].chars().count();
            byte = bracket;
            references[next].position = character;
            next += 1;
        }
    }
}

/// A tree with its height, which is limited because evaluation, printing and dropping recurse.
struct Tree {
    node: Node,
    height: usize,
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Calls of [`Parser::expression`] that have not returned.
    depth: usize,
    references: Vec<Reference>,
    /// Places of references, whose position is 0 here.
    known: HashMap<Reference, usize>,
    names: Vec<(Range<usize>, usize)>,
}

impl Parser<'_> {
    fn kind(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn place(&self) -> Range<usize> {
        self.tokens[self.at].place.clone()
    }

    /// The token, and the next one becomes the current. The end is not passed.
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

    fn too_high(&self) -> Error {
        let position = self.text[..self.place().start].chars().count() + 1;
        let message = format!("formula: nested more than {HEIGHT_MAX} deep (character {position})");
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    }

    /// A node above operands.
    fn above(&self, node: Node, operands_height: usize) -> Result<Tree> {
        let height = operands_height + 1;
        if height > HEIGHT_MAX { Err(self.too_high()) } else { Ok(Tree { node, height }) }
    }

    /// An expression of operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Tree> {
        if self.depth == HEIGHT_MAX {
            return Err(self.too_high());
        }
        self.depth += 1;
        let mut left = self.operand()?;
        while let Some((operator, precedence)) = self.operator().filter(|(_, precedence)| *precedence >= least) {
            self.advance();
            // All operators of VB.NET are left-associative, also the power.
            let right = self.expression(precedence + 1)?;
            left = self.chain(left, operator, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// An operator behind a tree, in the tree's chain if that is of the same precedence.
    fn chain(&self, left: Tree, operator: Operator, right: Tree) -> Result<Tree> {
        match left.node {
            Node::Chain(first, mut rest) if rest[0].0.precedence() == operator.precedence() => {
                rest.push((operator, right.node));
                self.above(Node::Chain(first, rest), right.height.max(left.height - 1))
            }
            node => {
                let chain = Node::Chain(Box::new(node), vec![(operator, right.node)]);
                self.above(chain, left.height.max(right.height))
            }
        }
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        let is_own = |(name, ..): &&(&str, Operator, u8)| self.is_symbol(name) || self.is_name(name);
        OPERATORS.iter().find(is_own).map(|(_, operator, precedence)| (*operator, *precedence))
    }

    fn operand(&mut self) -> Result<Tree> {
        if self.is_symbol("-") || self.is_symbol("+") {
            let is_negative = self.is_symbol("-");
            self.advance();
            let Tree { node, height } = self.expression(SIGN)?;
            let node = if is_negative { Node::Negative(Box::new(node)) } else { return Ok(Tree { node, height }) };
            return self.above(node, height);
        }
        if self.is_name("Not") {
            self.advance();
            let Tree { node, height } = self.expression(NOT)?;
            return self.above(Node::Not(Box::new(node)), height);
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
                self.above(Node::Number(number), 0)
            }
            Kind::Reference(_) => {
                let at = self.reference(0)?;
                self.above(Node::Reference(at), 0)
            }
            Kind::Name(_) => self.named(),
            _ => Err(self.unexpected("a number, a reference such as [Meter A], a function or \"(\"")),
        }
    }

    /// A constant or a call.
    fn named(&mut self) -> Result<Tree> {
        let place = self.place();
        let Kind::Name(name) = self.advance() else { return Err(self.unexpected("a name")) };
        let lower = name.to_ascii_lowercase();
        let plain = lower.strip_prefix("system.").unwrap_or(&lower);
        let (is_math, plain) = plain.strip_prefix("math.").map_or((false, plain), |plain| (true, plain));
        if let Some(number) = constant(plain, is_math) {
            return self.above(Node::Number(number), 0);
        }
        if !self.is_symbol("(") {
            let expected = "expected True, False, Math.PI, Math.E, Math.Tau or a function with \"(\"";
            let problem = format!("\"{name}\" is neither a constant nor a call: {expected}");
            return Err(syntax(self.text, place.start, &problem));
        }
        self.advance();
        if plain == "shift" {
            return self.shift();
        }
        let (arguments, height) = self.arguments(plain == "round")?;
        let node = self.call(&name, plain, arguments, place.start)?;
        self.above(node, height)
    }

    /// Arguments behind the bracket, up to and with the closing one, and the greatest of their heights.
    ///
    /// - `is_round`: the last argument may be a rounding mode.
    fn arguments(&mut self, is_round: bool) -> Result<(Arguments, usize)> {
        let (mut arguments, mut height) = (Arguments { values: Vec::new(), mode: None }, 0);
        while !self.is_symbol(")") {
            arguments.mode = if is_round { self.rounding_mode() } else { None };
            if arguments.mode.is_some() {
                self.expect(")")?;
                return Ok((arguments, height));
            }
            let Tree { node, height: own } = self.expression(0)?;
            height = height.max(own);
            arguments.values.push(node);
            if !self.is_symbol(")") {
                self.expect(",")?;
                if self.is_symbol(")") {
                    return Err(self.unexpected("an argument"));
                }
            }
        }
        self.advance();
        Ok((arguments, height))
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

    fn call(&self, name: &str, plain: &str, arguments: Arguments, at: usize) -> Result<Node> {
        let count = arguments.values.len();
        let values = arguments.values;
        let wrong = |expected: &str| {
            syntax(self.text, at, &format!("function {name} has {count} arguments, expected {expected}"))
        };
        match plain {
            "if" if count == 2 => self.call(name, "ifmissing", Arguments { values, mode: None }, at),
            "if" | "iif" => {
                let three = <[Node; 3]>::try_from(values);
                let expected = if plain == "if" { "2 or 3" } else { "3" };
                three.map(|three| Node::If(Box::new(three))).map_err(|_| wrong(expected))
            }
            "ifmissing" => {
                <[Node; 2]>::try_from(values).map(|two| Node::IfMissing(Box::new(two))).map_err(|_| wrong("2"))
            }
            "ismissing" | "flagof" => {
                let [operand] = <[Node; 1]>::try_from(values).map_err(|_| wrong("1"))?;
                let operand = Box::new(operand);
                Ok(if plain == "flagof" { Node::FlagOf(operand) } else { Node::IsMissing(operand) })
            }
            _ => self.math(name, plain, Arguments { values, ..arguments }, at),
        }
    }

    /// A call of a function of `System.Math`.
    fn math(&self, name: &str, plain: &str, arguments: Arguments, at: usize) -> Result<Node> {
        let Arguments { mut values, mode } = arguments;
        let count = values.len();
        let found: &'static Function = functions::find(plain, count, mode.is_some()).map_err(|counts| {
            if counts.is_empty() {
                let position = self.text[..at].chars().count() + 1;
                let message = format!("formula: function {name} does not exist (character {position})");
                return Error::new(SqlState::UNDEFINED_FUNCTION, message)
                    .with_hint("functions are those of System.Math, If, IIf, IsMissing, IfMissing, FlagOf and Shift");
            }
            let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
            let expected = counts.join(" or ");
            syntax(self.text, at, &format!("function {name} has {count} arguments, expected {expected}"))
        })?;
        values.extend(mode.map(|mode| Node::Number(mode.into())));
        Ok(Node::Call(found, values))
    }

    /// The arguments of `Shift`, behind the bracket: a reference and a whole number.
    fn shift(&mut self) -> Result<Tree> {
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
        self.above(Node::Reference(at), 0)
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
        let series = part(0).ok_or_else(|| wrong("the reference names no series"))?.to_owned();
        let offset = part(1).map(|text| {
            text.parse().map_err(|expected| wrong(&format!("offset \"{text}\" is not known: expected {expected}")))
        });
        let offset = offset.transpose()?.unwrap_or_default();
        let aggregation = part(3).map(str::parse).transpose().map_err(|error: Error| wrong(error.message()))?;
        let unit = part(2).map(str::to_owned);
        let reference = Reference { series, offset, unit, aggregation, shift, position: 0 };
        let next = self.references.len();
        let at = *self.known.entry(reference).or_insert_with_key(|reference| {
            self.references.push(reference.clone());
            next
        });
        self.names.push((parts[0].1.clone(), at));
        Ok(at)
    }
}

/// Arguments of a call.
struct Arguments {
    values: Vec<Node>,
    /// Number of a rounding mode behind the values.
    mode: Option<u8>,
}

/// The constant with a name in lower case, without its prefix.
fn constant(name: &str, is_math: bool) -> Option<f64> {
    match name {
        "true" => Some(1.0),
        "false" => Some(0.0),
        "pi" if is_math => Some(PI),
        "e" if is_math => Some(E),
        "tau" if is_math => Some(TAU),
        _ => None,
    }
}
