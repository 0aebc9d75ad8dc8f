//! A parsed `jsonpath`, and its text.

use std::fmt::Write;

use super::pattern::Pattern;
use crate::json::text::write_string;

/// The last of the levels of `.**`.
pub(super) const LEVEL_LAST: u32 = u32::MAX;

pub(super) struct Path {
    /// Errors of structure are not ignored, and arrays are neither unwrapped nor made.
    pub(super) is_strict: bool,
    pub(super) root: Node,
}

/// An expression or predicate, and the accessors that follow it.
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) accessors: Vec<Accessor>,
}

pub(super) enum NodeKind {
    Null,
    Bool(bool),
    /// A number as `numeric` prints it.
    Number(String),
    String(String),
    Variable(String),
    /// `$`
    Root,
    /// `@`
    Current,
    Last,
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    /// `-`, or `+`.
    Sign {
        negative: bool,
        of: Box<Node>,
    },
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    IsUnknown(Box<Node>),
    Exists(Box<Node>),
    Compare(Comparison, Box<[Node; 2]>),
    StartsWith(Box<[Node; 2]>),
    LikeRegex(Box<Node>, Box<Pattern>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterEqual => ">=",
        }
    }
}

pub(super) enum Accessor {
    Key(String),
    AnyKey,
    AnyElement,
    /// Single subscripts and ranges.
    Elements(Vec<(Node, Option<Node>)>),
    /// `.**` with the first and last level.
    Descendants(u32, u32),
    Filter(Box<Node>),
    Type,
    Size,
    Number(NumberMethod),
    Double,
    KeyValue,
    /// With its template.
    Datetime(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberMethod {
    Abs,
    Floor,
    Ceiling,
}

impl NumberMethod {
    pub(super) fn name(self) -> &'static str {
        match self {
            NumberMethod::Abs => "abs",
            NumberMethod::Floor => "floor",
            NumberMethod::Ceiling => "ceiling",
        }
    }
}

impl Node {
    pub(super) fn new(kind: NodeKind) -> Node {
        Node { kind, accessors: Vec::new() }
    }

    pub(super) fn is_predicate(&self) -> bool {
        let kinds = matches!(
            self.kind,
            NodeKind::And(_)
                | NodeKind::Or(_)
                | NodeKind::Not(_)
                | NodeKind::IsUnknown(_)
                | NodeKind::Exists(_)
                | NodeKind::Compare(..)
                | NodeKind::StartsWith(_)
                | NodeKind::LikeRegex(..)
        );
        kinds && self.accessors.is_empty()
    }

    fn priority(&self) -> u8 {
        match &self.kind {
            NodeKind::Or(_) => 0,
            NodeKind::And(_) => 1,
            NodeKind::Compare(..) | NodeKind::StartsWith(_) => 2,
            NodeKind::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, _) => 3,
            NodeKind::Arithmetic(..) => 4,
            NodeKind::Sign { .. } => 5,
            _ => 6,
        }
    }
}

impl Path {
    /// The text as PostgreSQL prints it. PostgreSQL omits some parentheses before accessors, so that its text may be
    /// another path: `exists ($."a").type()`. Here the text is the value, so they are written.
    pub(super) fn text(&self) -> String {
        let mut out = String::from(if self.is_strict { "strict " } else { "" });
        write_node(&mut out, &self.root, true);
        out
    }
}

fn write_node(out: &mut String, node: &Node, in_parentheses: bool) {
    let has_accessors = !node.accessors.is_empty();
    let in_parentheses = in_parentheses || has_accessors;
    match &node.kind {
        NodeKind::Null => out.push_str("null"),
        NodeKind::Bool(value) => drop(write!(out, "{value}")),
        NodeKind::Number(number) if has_accessors => drop(write!(out, "({number})")),
        NodeKind::Number(number) => out.push_str(number),
        NodeKind::String(text) => write_string(out, text),
        NodeKind::Variable(name) => {
            out.push('$');
            write_string(out, name);
        }
        NodeKind::Root => out.push('$'),
        NodeKind::Current => out.push('@'),
        NodeKind::Last => out.push_str("last"),
        NodeKind::Arithmetic(operator, pair) => write_binary(out, node, operator.sign(), pair, in_parentheses),
        NodeKind::And(pair) => write_binary(out, node, "&&", pair, in_parentheses),
        NodeKind::Or(pair) => write_binary(out, node, "||", pair, in_parentheses),
        NodeKind::Compare(operator, pair) => write_binary(out, node, operator.sign(), pair, in_parentheses),
        NodeKind::StartsWith(pair) => write_binary(out, node, "starts with", pair, in_parentheses),
        NodeKind::Sign { negative, of } => {
            out.push_str(if in_parentheses { "(" } else { "" });
            out.push(if *negative { '-' } else { '+' });
            write_node(out, of, of.priority() <= node.priority());
            out.push_str(if in_parentheses { ")" } else { "" });
        }
        NodeKind::LikeRegex(of, pattern) => {
            out.push_str(if in_parentheses { "(" } else { "" });
            write_node(out, of, of.priority() <= node.priority());
            out.push_str(" like_regex ");
            write_string(out, &pattern.text);
            if !pattern.flags.is_empty() {
                let _ = write!(out, " flag \"{}\"", pattern.flags);
            }
            out.push_str(if in_parentheses { ")" } else { "" });
        }
        NodeKind::Not(of) if has_accessors => write_enclosed(out, "(!(", of, "))"),
        NodeKind::IsUnknown(of) if has_accessors => write_enclosed(out, "((", of, ") is unknown)"),
        NodeKind::Exists(of) if has_accessors => write_enclosed(out, "(exists (", of, "))"),
        NodeKind::Not(of) => write_enclosed(out, "!(", of, ")"),
        NodeKind::IsUnknown(of) => write_enclosed(out, "(", of, ") is unknown"),
        NodeKind::Exists(of) => write_enclosed(out, "exists (", of, ")"),
    }
    for accessor in &node.accessors {
        write_accessor(out, accessor);
    }
}

fn write_enclosed(out: &mut String, before: &str, node: &Node, after: &str) {
    out.push_str(before);
    write_node(out, node, false);
    out.push_str(after);
}

fn write_binary(out: &mut String, node: &Node, sign: &str, pair: &[Node; 2], in_parentheses: bool) {
    out.push_str(if in_parentheses { "(" } else { "" });
    write_node(out, &pair[0], pair[0].priority() <= node.priority());
    let _ = write!(out, " {sign} ");
    write_node(out, &pair[1], pair[1].priority() <= node.priority());
    out.push_str(if in_parentheses { ")" } else { "" });
}

fn write_accessor(out: &mut String, accessor: &Accessor) {
    match accessor {
        Accessor::Key(key) => {
            out.push('.');
            write_string(out, key);
        }
        Accessor::AnyKey => out.push_str(".*"),
        Accessor::AnyElement => out.push_str("[*]"),
        Accessor::Elements(list) => {
            out.push('[');
            for (at, (from, to)) in list.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write_node(out, from, false);
                if let Some(to) = to {
                    out.push_str(" to ");
                    write_node(out, to, false);
                }
            }
            out.push(']');
        }
        Accessor::Descendants(first, last) => {
            let level = |level: u32| if level == LEVEL_LAST { "last".to_owned() } else { level.to_string() };
            let _ = match (*first, *last) {
                (0, LEVEL_LAST) => write!(out, ".**"),
                (first, last) if first == last => write!(out, ".**{{{}}}", level(first)),
                (first, last) => write!(out, ".**{{{} to {}}}", level(first), level(last)),
            };
        }
        Accessor::Filter(predicate) => write_enclosed(out, "?(", predicate, ")"),
        Accessor::Type => out.push_str(".type()"),
        Accessor::Size => out.push_str(".size()"),
        Accessor::Number(method) => drop(write!(out, ".{}()", method.name())),
        Accessor::Double => out.push_str(".double()"),
        Accessor::KeyValue => out.push_str(".keyvalue()"),
        Accessor::Datetime(template) => {
            out.push_str(".datetime(");
            if let Some(template) = template {
                write_string(out, template);
            }
            out.push(')');
        }
    }
}
