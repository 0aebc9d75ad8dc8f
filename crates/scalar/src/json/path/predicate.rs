//! Predicates of a `jsonpath`.

use std::cmp::Ordering;

use super::ast::{Comparison, Node, NodeKind};
use super::datetime::compare_moments;
use super::exec::{Execution, Fault, Item, Outcome};
use crate::json::tree::{Json, numeric};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Truth {
        if value { Truth::True } else { Truth::False }
    }
}

/// The outcome without an error that may be suppressed.
fn tolerated<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Soft(_)) => Ok(None),
        Err(hard) => Err(hard),
    }
}

impl<'t> Execution<'t> {
    pub(super) fn predicate(&mut self, node: &'t Node, item: Item<'t>) -> Outcome<Truth> {
        match &node.kind {
            NodeKind::And(pair) => match self.predicate(&pair[0], item)? {
                Truth::False => Ok(Truth::False),
                left => Ok(match self.predicate(&pair[1], item)? {
                    Truth::True => left,
                    right => right,
                }),
            },
            NodeKind::Or(pair) => match self.predicate(&pair[0], item)? {
                Truth::True => Ok(Truth::True),
                left => Ok(match self.predicate(&pair[1], item)? {
                    Truth::False => left,
                    right => right,
                }),
            },
            NodeKind::Not(of) => Ok(match self.predicate(of, item)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            }),
            NodeKind::IsUnknown(of) => Ok(Truth::from(self.predicate(of, item)? == Truth::Unknown)),
            NodeKind::Exists(of) if self.is_lax => {
                let found = self.node(of, item, None);
                Ok(tolerated(found)?.map_or(Truth::Unknown, Truth::from))
            }
            NodeKind::Exists(of) => {
                let found = self.operand(of, item, false);
                Ok(tolerated(found)?.map_or(Truth::Unknown, |items| Truth::from(!items.is_empty())))
            }
            NodeKind::Compare(operator, pair) => {
                self.for_pairs(item, &pair[0], Some((&pair[1], true)), |this, left, right| {
                    this.compare(*operator, left, right)
                })
            }
            NodeKind::StartsWith(pair) => {
                self.for_pairs(item, &pair[0], Some((&pair[1], false)), |_, left, right| match (left, right) {
                    (Item::Json(Json::String(text)), Item::Json(Json::String(initial))) => {
                        Ok(Truth::from(text.starts_with(initial)))
                    }
                    _ => Ok(Truth::Unknown),
                })
            }
            NodeKind::LikeRegex(of, pattern) => self.for_pairs(item, of, None, |_, left, _| match left {
                Item::Json(Json::String(text)) => Ok(Truth::from(pattern.regex.is_match(text))),
                _ => Ok(Truth::Unknown),
            }),
            _ => Err(Fault::Hard(model::Error::bug("a jsonpath value in place of a predicate"))),
        }
    }

    /// Whether a test holds for one item of the left operand and one of the right. In lax mode the first one decides;
    /// in strict mode every pair must be comparable.
    fn for_pairs(
        &mut self,
        item: Item<'t>,
        left: &'t Node,
        right: Option<(&'t Node, bool)>,
        test: impl Fn(&Self, Item<'t>, Item<'t>) -> Outcome<Truth>,
    ) -> Outcome<Truth> {
        let lefts = self.operand(left, item, true);
        let Some(lefts) = tolerated(lefts)? else { return Ok(Truth::Unknown) };
        let rights = match right {
            None => vec![item],
            Some((node, unwraps)) => {
                let rights = self.operand(node, item, unwraps);
                let Some(rights) = tolerated(rights)? else { return Ok(Truth::Unknown) };
                rights
            }
        };
        let mut result = Truth::False;
        for left in &lefts {
            for right in &rights {
                match test(self, *left, *right)? {
                    Truth::Unknown if !self.is_lax => return Ok(Truth::Unknown),
                    Truth::True if self.is_lax => return Ok(Truth::True),
                    Truth::False => {}
                    other => result = other,
                }
            }
        }
        Ok(result)
    }

    fn compare(&self, operator: Comparison, left: Item<'t>, right: Item<'t>) -> Outcome<Truth> {
        let order = match (left, right) {
            (Item::Json(left), Item::Json(right)) => match (left, right) {
                (Json::Null, Json::Null) => Ordering::Equal,
                (Json::Bool(a), Json::Bool(b)) => a.cmp(&b),
                (Json::Number(a), Json::Number(b)) => numeric(a).cmp(&numeric(b)),
                (Json::String(a), Json::String(b)) => a.cmp(b),
                (Json::Null, _) | (_, Json::Null) => return Ok(Truth::from(operator == Comparison::NotEqual)),
                _ => return Ok(Truth::Unknown),
            },
            (Item::Moment(left), Item::Moment(right)) => match compare_moments(left, right, self.session) {
                Ok(Some(order)) => order,
                Ok(None) => return Ok(Truth::Unknown),
                Err(error) => return Err(Fault::Hard(error)),
            },
            (Item::Json(Json::Null), _) | (_, Item::Json(Json::Null)) => {
                return Ok(Truth::from(operator == Comparison::NotEqual));
            }
            _ => return Ok(Truth::Unknown),
        };
        Ok(Truth::from(match operator {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterEqual => order.is_ge(),
        }))
    }
}
