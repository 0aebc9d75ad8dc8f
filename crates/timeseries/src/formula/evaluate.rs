//! Evaluation of formulas, some thousand values at a time: each node works on columns in buffers that are used again.

use super::functions::{Call, divide_whole};
use super::{Node, Operator};
use crate::flag::Flag;
use crate::points::Points;

/// Values that a node computes at once: the columns of a few nodes fit a core's first cache.
const CHUNK: usize = 1024;

/// Computes a formula; see [`Formula::evaluate`](super::Formula::evaluate).
pub(super) fn evaluate(root: &Node, inputs: &[&Points], len: usize) -> Points {
    let mut all = Points::with_capacity(len);
    let mut evaluation = Evaluation { inputs, from: 0, len: 0, pool: Vec::new() };
    while evaluation.from < len {
        evaluation.len = CHUNK.min(len - evaluation.from);
        let column = evaluation.column(root);
        all.values.extend_from_slice(&column.values);
        all.present.extend_from_slice(&column.present);
        all.flags.extend_from_slice(&column.flags);
        evaluation.pool.push(column);
        evaluation.from += evaluation.len;
    }
    if inputs.is_empty() {
        all.flags.iter_mut().filter(|flag| **flag == Flag::NoValue).for_each(|flag| *flag = Flag::Valid);
    }
    all
}

struct Evaluation<'a> {
    inputs: &'a [&'a Points],
    /// Range of the chunk.
    from: usize,
    len: usize,
    /// Columns that are not in use.
    pool: Vec<Points>,
}

impl Evaluation<'_> {
    /// Computes a node for the chunk. The tree has a limited height.
    fn column(&mut self, node: &Node) -> Points {
        match node {
            Node::Number(number) => self.constant(*number),
            Node::Reference(at) => self.input(*at),
            Node::Negative(operand) => self.unary(operand, |value| Some(-value)),
            Node::Not(operand) => self.unary(operand, |value| Some(truth(value == 0.0))),
            Node::Binary(operator, left, right) => {
                let (mut left, right) = (self.column(left), self.column(right));
                binary(*operator, &mut left, &right);
                self.pool.push(right);
                left
            }
            Node::Call(function, arguments) => self.call(function.call, arguments),
            Node::If(parts) => self.condition(parts),
            Node::IsMissing(operand) => {
                let mut column = self.column(operand);
                for at in 0..self.len {
                    column.set(at, Some(truth(!column.present[at])), Flag::Valid);
                }
                column
            }
            Node::IfMissing(parts) => {
                let (mut first, second) = (self.column(&parts[0]), self.column(&parts[1]));
                for at in (0..self.len).filter(|at| !first.present[*at]).collect::<Vec<_>>() {
                    let (value, flag) = second.get(at);
                    first.set(at, value, flag);
                }
                self.pool.push(second);
                first
            }
            Node::FlagOf(operand) => {
                let mut column = self.column(operand);
                for at in 0..self.len {
                    column.set(at, Some(f64::from(column.flags[at].id())), Flag::Valid);
                }
                column
            }
        }
    }

    /// A column of the chunk's length, with any contents.
    fn free(&mut self) -> Points {
        let mut column = self.pool.pop().unwrap_or_default();
        column.values.resize(self.len, 0.0);
        column.present.resize(self.len, false);
        column.flags.resize(self.len, Flag::NoValue);
        column
    }

    fn constant(&mut self, number: f64) -> Points {
        let mut column = self.free();
        column.values.fill(number);
        column.present.fill(true);
        // The least flag: it changes none.
        column.flags.fill(Flag::NoValue);
        column
    }

    fn input(&mut self, at: usize) -> Points {
        let (input, range) = (self.inputs[at], self.from..self.from + self.len);
        let mut column = self.free();
        column.values.copy_from_slice(&input.values[range.clone()]);
        column.present.copy_from_slice(&input.present[range.clone()]);
        column.flags.copy_from_slice(&input.flags[range]);
        column
    }

    fn unary(&mut self, operand: &Node, compute: impl Fn(f64) -> Option<f64>) -> Points {
        let mut column = self.column(operand);
        for at in 0..self.len {
            if let (Some(value), flag) = column.get(at) {
                set(&mut column, at, compute(value), flag);
            }
        }
        column
    }

    fn call(&mut self, call: Call, arguments: &[Node]) -> Points {
        match (call, arguments) {
            (Call::One(function), [operand]) => self.unary(operand, |value| Some(function(value))),
            (Call::OneChecked(function), [operand]) => self.unary(operand, function),
            (Call::Two(function), [left, right]) => {
                let (mut left, right) = (self.column(left), self.column(right));
                both(&mut left, &right, function);
                self.pool.push(right);
                left
            }
            (Call::TwoChecked(function), [left, right]) => {
                let (mut left, right) = (self.column(left), self.column(right));
                both_checked(&mut left, &right, function);
                self.pool.push(right);
                left
            }
            (Call::Three(function), [first, second, third]) => {
                self.three(first, second, third, |x, y, z| Some(function(x, y, z)))
            }
            (Call::ThreeChecked(function), [first, second, third]) => self.three(first, second, third, function),
            _ => unreachable!("BUG: a call with another number of arguments than its function"),
        }
    }

    fn three(
        &mut self,
        first: &Node,
        second: &Node,
        third: &Node,
        compute: impl Fn(f64, f64, f64) -> Option<f64>,
    ) -> Points {
        let (mut first, second, third) = (self.column(first), self.column(second), self.column(third));
        for at in 0..self.len {
            let flag = first.flags[at].max(second.flags[at]).max(third.flags[at]);
            match (first.get(at).0, second.get(at).0, third.get(at).0) {
                (Some(x), Some(y), Some(z)) => set(&mut first, at, compute(x, y, z), flag),
                _ => first.set(at, None, flag),
            }
        }
        self.pool.extend([second, third]);
        first
    }

    fn condition(&mut self, parts: &[Node; 3]) -> Points {
        let (mut condition, then, otherwise) = (self.column(&parts[0]), self.column(&parts[1]), self.column(&parts[2]));
        for at in 0..self.len {
            if let (Some(value), flag) = condition.get(at) {
                let (value, other) = if value == 0.0 { otherwise.get(at) } else { then.get(at) };
                condition.set(at, value, flag.max(other));
            }
        }
        self.pool.extend([then, otherwise]);
        condition
    }
}

/// Sets a computed value; nothing is *Faulty*.
fn set(column: &mut Points, at: usize, value: Option<f64>, flag: Flag) {
    column.set(at, value, if value.is_some() { flag } else { flag.max(Flag::Faulty) });
}

fn truth(is_true: bool) -> f64 {
    f64::from(u8::from(is_true))
}

fn binary(operator: Operator, left: &mut Points, right: &Points) {
    match operator {
        Operator::Add => sum(left, right, |x, y| x + y),
        Operator::Subtract => sum(left, right, |x, y| x - y),
        Operator::Multiply => both(left, right, |x, y| x * y),
        Operator::Divide => both(left, right, |x, y| x / y),
        Operator::DivideWhole => both_checked(left, right, divide_whole),
        Operator::Power => both(left, right, f64::powf),
        Operator::Modulo => both(left, right, |x, y| x % y),
        Operator::Equal => both(left, right, |x, y| truth(x == y)),
        Operator::NotEqual => both(left, right, |x, y| truth(x != y)),
        Operator::Less => both(left, right, |x, y| truth(x < y)),
        Operator::Greater => both(left, right, |x, y| truth(x > y)),
        Operator::LessOrEqual => both(left, right, |x, y| truth(x <= y)),
        Operator::GreaterOrEqual => both(left, right, |x, y| truth(x >= y)),
        Operator::And => both(left, right, |x, y| truth(x != 0.0 && y != 0.0)),
        Operator::Or => both(left, right, |x, y| truth(x != 0.0 || y != 0.0)),
        Operator::Xor => both(left, right, |x, y| truth((x != 0.0) != (y != 0.0))),
    }
}

/// An absent value is 0 in its column, so that it counts as nothing. Loops over slices of equal length have no checks.
fn sum(left: &mut Points, right: &Points, compute: impl Fn(f64, f64) -> f64) {
    for (x, y) in left.values.iter_mut().zip(&right.values) {
        *x = compute(*x, *y);
    }
    for (x, y) in left.present.iter_mut().zip(&right.present) {
        *x |= y;
    }
    greatest(&mut left.flags, &right.flags);
    // 0 - 0 is 0, but 0 + -0 has a sign that absence has not.
    absent_is_zero(left);
}

fn both(left: &mut Points, right: &Points, compute: impl Fn(f64, f64) -> f64) {
    for (x, y) in left.values.iter_mut().zip(&right.values) {
        *x = compute(*x, *y);
    }
    for (x, y) in left.present.iter_mut().zip(&right.present) {
        *x &= y;
    }
    greatest(&mut left.flags, &right.flags);
    absent_is_zero(left);
}

fn both_checked(left: &mut Points, right: &Points, compute: impl Fn(f64, f64) -> Option<f64>) {
    for at in 0..left.len() {
        let flag = left.flags[at].max(right.flags[at]);
        match (left.get(at).0, right.get(at).0) {
            (Some(x), Some(y)) => set(left, at, compute(x, y), flag),
            _ => left.set(at, None, flag),
        }
    }
}

fn greatest(flags: &mut [Flag], others: &[Flag]) {
    for (flag, other) in flags.iter_mut().zip(others) {
        *flag = (*flag).max(*other);
    }
}

fn absent_is_zero(column: &mut Points) {
    for (value, present) in column.values.iter_mut().zip(&column.present) {
        *value = if *present { *value } else { 0.0 };
    }
}
