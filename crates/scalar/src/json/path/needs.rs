//! What a document needs so that a path finds something in it, for inverted indexes.

use super::ast::{Accessor, Comparison, Node, NodeKind};
use crate::json::text::write_string;

/// The parts that every document has for which an operator is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathNeeds {
    /// Nothing is known of it.
    Nothing,
    /// A scalar behind object keys. Arrays between them do not count.
    Scalar {
        /// The object keys.
        path: Vec<String>,
        /// The scalar as jsonb prints it.
        value: String,
    },
    /// All of these.
    All(Vec<PathNeeds>),
    /// One of these.
    Any(Vec<PathNeeds>),
}

/// The object keys that lead to an item; `None` if they are not known.
type Place = Option<Vec<String>>;

/// Needs of `@?`: some item is found.
pub(super) fn of_exists(root: &Node) -> PathNeeds {
    // A predicate alone always has a value.
    if root.is_predicate() { PathNeeds::Nothing } else { found(root, &Some(Vec::new())).0 }
}

/// Needs of `@@`: the path is true.
pub(super) fn of_match(root: &Node) -> PathNeeds {
    let start = Some(Vec::new());
    if root.is_predicate() {
        return holds(root, &start);
    }
    let (needs, place) = found(root, &start);
    both(needs, at(place, "true"))
}

/// Needs of a path that finds something, and where it ends. `place`: that of `@`.
fn found(node: &Node, place: &Place) -> (PathNeeds, Place) {
    let mut place = match node.kind {
        NodeKind::Root => Some(Vec::new()),
        NodeKind::Current => place.clone(),
        _ => return (PathNeeds::Nothing, None),
    };
    let mut needs = PathNeeds::Nothing;
    for accessor in &node.accessors {
        match accessor {
            Accessor::Key(name) => place.iter_mut().for_each(|place| place.push(name.clone())),
            Accessor::AnyElement | Accessor::Elements(_) => {}
            Accessor::Filter(filter) => needs = both(needs, holds(filter, &place)),
            Accessor::AnyKey
            | Accessor::Descendants(..)
            | Accessor::Type
            | Accessor::Size
            | Accessor::Number(_)
            | Accessor::Double
            | Accessor::KeyValue
            | Accessor::Datetime(_) => place = None,
        }
    }
    (needs, place)
}

/// Needs of a predicate that is true.
fn holds(node: &Node, place: &Place) -> PathNeeds {
    match &node.kind {
        NodeKind::And(pair) => both(holds(&pair[0], place), holds(&pair[1], place)),
        NodeKind::Or(pair) => match (holds(&pair[0], place), holds(&pair[1], place)) {
            (PathNeeds::Nothing, _) | (_, PathNeeds::Nothing) => PathNeeds::Nothing,
            (left, right) => PathNeeds::Any(vec![left, right]),
        },
        NodeKind::Exists(of) => found(of, place).0,
        NodeKind::Compare(Comparison::Equal, pair) => {
            let [left, right] = &**pair;
            let (path, value) = match (scalar(left), scalar(right)) {
                (None, Some(value)) => (left, value),
                (Some(value), None) => (right, value),
                _ => return PathNeeds::Nothing,
            };
            let (needs, place) = found(path, place);
            both(needs, at(place, &value))
        }
        NodeKind::StartsWith(pair) => found(&pair[0], place).0,
        NodeKind::LikeRegex(of, _) => found(of, place).0,
        _ => PathNeeds::Nothing,
    }
}

fn both(one: PathNeeds, other: PathNeeds) -> PathNeeds {
    match (one, other) {
        (PathNeeds::Nothing, needs) | (needs, PathNeeds::Nothing) => needs,
        (one, other) => PathNeeds::All(vec![one, other]),
    }
}

fn at(place: Place, value: &str) -> PathNeeds {
    place.map_or(PathNeeds::Nothing, |path| PathNeeds::Scalar { path, value: value.to_owned() })
}

/// A literal as jsonb prints it. A sign is an operator, so negative numbers are none.
fn scalar(node: &Node) -> Option<String> {
    if !node.accessors.is_empty() {
        return None;
    }
    Some(match &node.kind {
        NodeKind::Null => "null".to_owned(),
        NodeKind::Bool(value) => value.to_string(),
        // jsonb has no zero with a sign.
        NodeKind::Number(number) if number.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.')) => "0".to_owned(),
        NodeKind::Number(number) => number.clone(),
        NodeKind::String(text) => {
            let mut out = String::new();
            write_string(&mut out, text);
            out
        }
        _ => return None,
    })
}
