//! Canonical text of formulas.

use std::fmt;

use super::functions::{Function, ROUNDING_MODES};
use super::{Formula, NOT, Node, OPERATORS, Operator, Reference, SIGN};

impl Operator {
    /// Canonical spelling and precedence.
    fn entry(self) -> (&'static str, u8) {
        let entry = OPERATORS.iter().find(|(_, operator, _)| *operator == self);
        entry.map(|(name, _, precedence)| (*name, *precedence)).expect("BUG: an operator without a precedence")
    }

    pub(super) fn precedence(self) -> u8 {
        self.entry().1
    }
}

impl Node {
    /// Precedence of the operator at the top of the node.
    fn precedence(&self) -> u8 {
        match self {
            Node::Negative(_) => SIGN,
            Node::Not(_) => NOT,
            Node::Chain(_, rest) => rest.first().map_or(u8::MAX, |(operator, _)| operator.precedence()),
            _ => u8::MAX,
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out, references: &self.references }.node(&self.root, 0)
    }
}

struct Printer<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    references: &'a [Reference],
}

impl Printer<'_, '_> {
    /// Prints a node, in brackets if it binds less tightly than `least`.
    fn node(&mut self, node: &Node, least: u8) -> fmt::Result {
        if node.precedence() >= least {
            return self.bare(node);
        }
        self.out.write_str("(")?;
        self.bare(node)?;
        self.out.write_str(")")
    }

    fn bare(&mut self, node: &Node) -> fmt::Result {
        match node {
            Node::Number(number) => self.number(*number),
            Node::Reference(at) => write!(self.out, "{}", self.references[*at]),
            Node::Negative(operand) => {
                self.out.write_str("-")?;
                self.node(operand, SIGN + 1)
            }
            Node::Not(operand) => {
                self.out.write_str("Not ")?;
                self.node(operand, NOT)
            }
            Node::Chain(first, rest) => self.chain(first, rest, node.precedence()),
            Node::Call(function, arguments) => self.function(function, arguments),
            Node::If(parts) => self.call("If", parts.as_slice()),
            Node::IsMissing(operand) => self.call("IsMissing", std::slice::from_ref(&**operand)),
            Node::IfMissing(parts) => self.call("IfMissing", parts.as_slice()),
            Node::FlagOf(operand) => self.call("FlagOf", std::slice::from_ref(&**operand)),
        }
    }

    fn chain(&mut self, first: &Node, rest: &[(Operator, Node)], precedence: u8) -> fmt::Result {
        self.node(first, precedence)?;
        for (operator, operand) in rest {
            write!(self.out, " {} ", operator.entry().0)?;
            self.node(operand, precedence + 1)?;
        }
        Ok(())
    }

    /// The shortest digits that are read as the same number.
    fn number(&mut self, number: f64) -> fmt::Result {
        let text = format!("{number:?}");
        self.out.write_str(text.strip_suffix(".0").unwrap_or(&text))
    }

    fn call(&mut self, name: &str, arguments: &[Node]) -> fmt::Result {
        self.out.write_str(name)?;
        self.arguments(arguments)?;
        self.out.write_str(")")
    }

    fn arguments(&mut self, arguments: &[Node]) -> fmt::Result {
        for (at, argument) in arguments.iter().enumerate() {
            self.out.write_str(if at == 0 { "(" } else { ", " })?;
            self.node(argument, 0)?;
        }
        Ok(())
    }

    fn function(&mut self, function: &Function, arguments: &[Node]) -> fmt::Result {
        match arguments {
            [values @ .., Node::Number(mode)] if function.has_mode => {
                self.out.write_str(function.name)?;
                self.arguments(values)?;
                write!(self.out, ", MidpointRounding.{})", ROUNDING_MODES[*mode as usize])
            }
            _ => self.call(function.name, arguments),
        }
    }
}
