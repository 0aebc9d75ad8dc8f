//! Evaluation of formulas, a thousand values at a time.
//!
//! Each node turns the operands of a chunk into an operand: a number, a part of an input that is not copied, or a column. Columns
//! are taken from a pool and returned to it, so that only the first chunk allocates.
//!
//! Always true: an absent value is 0, as in [`Points`]; all flags of inputs and columns are flags of series, and only numbers have
//! none.

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
        let result = evaluation.operand(root);
        append(&mut all, &result, evaluation.len);
        evaluation.release([result]);
        evaluation.from += evaluation.len;
    }
    all
}

/// Appends the result of a chunk. A number is *Valid*.
fn append(all: &mut Points, result: &Operand<'_>, count: usize) {
    if let Operand::Number(number) = result {
        let len = all.len() + count;
        all.values.resize(len, *number);
        all.present.resize(len, true);
        all.flags.resize(len, Flag::Valid);
        return;
    }
    let View { values, present, flags, .. } = result.view();
    all.values.extend_from_slice(values);
    all.present.extend_from_slice(present);
    all.flags.extend_from_slice(flags);
}

/// Value and flag; an absent value is `None`.
type Point = (Option<f64>, Flag);

/// Values of a node for a chunk.
enum Operand<'a> {
    /// The same value for all points, present and without a flag.
    Number(f64),
    /// Part of an input.
    Input(View<'a>),
    Column(Points),
}

/// Values, presence and flags of points.
#[derive(Clone, Copy)]
struct View<'a> {
    values: &'a [f64],
    present: &'a [bool],
    flags: &'a [Flag],
    /// All bits; 0 for a number, whose slices have one element.
    mask: usize,
}

impl View<'_> {
    fn get(&self, at: usize) -> Point {
        let at = at & self.mask;
        (self.present[at].then_some(self.values[at]), self.flags[at])
    }
}

impl Operand<'_> {
    /// A number has the least flag here: it changes none.
    fn view(&self) -> View<'_> {
        match self {
            Operand::Number(number) => {
                View { values: std::slice::from_ref(number), present: &[true], flags: &[Flag::NoValue], mask: 0 }
            }
            Operand::Input(view) => *view,
            Operand::Column(Points { values, present, flags }) => View { values, present, flags, mask: usize::MAX },
        }
    }

    fn number(&self) -> Option<f64> {
        if let Operand::Number(number) = self { Some(*number) } else { None }
    }
}

/// Effect of an absent operand of an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// It counts as 0, and the result is absent if both are.
    Nothing,
    /// The result is absent.
    Spreads,
}

struct Evaluation<'a> {
    inputs: &'a [&'a Points],
    /// Range of the chunk.
    from: usize,
    len: usize,
    /// Columns that are not in use.
    pool: Vec<Points>,
}

impl<'a> Evaluation<'a> {
    /// Computes a node for the chunk. The tree has a limited height.
    fn operand(&mut self, node: &Node) -> Operand<'a> {
        match node {
            Node::Number(number) => Operand::Number(*number),
            Node::Reference(at) => self.input(*at),
            Node::Negative(operand) => self.unary(operand, |value| -value),
            Node::Not(operand) => self.unary(operand, |value| truth(value == 0.0)),
            Node::Chain(first, rest) => {
                let mut left = self.operand(first);
                for (operator, right) in rest {
                    let right = self.operand(right);
                    left = self.binary(*operator, left, right);
                }
                left
            }
            Node::Call(function, arguments) => self.call(function.call, arguments),
            Node::If(parts) => self.condition(parts),
            Node::IsMissing(operand) => {
                let operand = self.operand(operand);
                self.points([operand], |[(value, _)]| (Some(truth(value.is_none())), Flag::Valid))
            }
            Node::IfMissing(parts) => self.if_missing(parts),
            Node::FlagOf(operand) => {
                let operand = self.operand(operand);
                let is_number = operand.number().is_some();
                self.points([operand], |[(_, flag)]| {
                    let flag = if is_number { Flag::Valid } else { flag };
                    (Some(flag.id().into()), Flag::Valid)
                })
            }
        }
    }

    fn input(&self, at: usize) -> Operand<'a> {
        let (input, range) = (self.inputs[at], self.from..self.from + self.len);
        Operand::Input(View {
            values: &input.values[range.clone()],
            present: &input.present[range.clone()],
            flags: &input.flags[range],
            mask: usize::MAX,
        })
    }

    /// A column of the chunk's length, with any contents.
    fn column(&mut self) -> Points {
        let mut column = self.pool.pop().unwrap_or_default();
        column.values.resize(self.len, 0.0);
        column.present.resize(self.len, false);
        column.flags.resize(self.len, Flag::NoValue);
        column
    }

    /// Returns the columns of operands to the pool.
    fn release<const N: usize>(&mut self, operands: [Operand<'_>; N]) {
        for operand in operands {
            if let Operand::Column(column) = operand {
                self.pool.push(column);
            }
        }
    }

    fn unary(&mut self, operand: &Node, compute: impl Fn(f64) -> f64) -> Operand<'a> {
        let operand = self.operand(operand);
        if let Operand::Number(number) = operand {
            return Operand::Number(compute(number));
        }
        let mut result = self.column();
        let view = operand.view();
        map(&mut result.values, view.values, compute);
        result.present.copy_from_slice(view.present);
        result.flags.copy_from_slice(view.flags);
        absent_is_zero(&mut result);
        self.release([operand]);
        Operand::Column(result)
    }

    fn binary(&mut self, operator: Operator, left: Operand<'a>, right: Operand<'a>) -> Operand<'a> {
        use Absence::{Nothing, Spreads};
        match operator {
            Operator::Add => self.arithmetic(left, right, Nothing, |x, y| x + y),
            Operator::Subtract => self.arithmetic(left, right, Nothing, |x, y| x - y),
            Operator::Multiply => self.arithmetic(left, right, Spreads, |x, y| x * y),
            Operator::Divide => self.arithmetic(left, right, Spreads, |x, y| x / y),
            Operator::DivideWhole => self.strict([left, right], |[x, y]| divide_whole(x, y)),
            Operator::Power => self.arithmetic(left, right, Spreads, f64::powf),
            Operator::Modulo => self.arithmetic(left, right, Spreads, |x, y| x % y),
            Operator::Equal => self.arithmetic(left, right, Spreads, |x, y| truth(x == y)),
            Operator::NotEqual => self.arithmetic(left, right, Spreads, |x, y| truth(x != y)),
            Operator::Less => self.arithmetic(left, right, Spreads, |x, y| truth(x < y)),
            Operator::Greater => self.arithmetic(left, right, Spreads, |x, y| truth(x > y)),
            Operator::LessOrEqual => self.arithmetic(left, right, Spreads, |x, y| truth(x <= y)),
            Operator::GreaterOrEqual => self.arithmetic(left, right, Spreads, |x, y| truth(x >= y)),
            Operator::And => self.arithmetic(left, right, Spreads, |x, y| truth(x != 0.0 && y != 0.0)),
            Operator::Or => self.arithmetic(left, right, Spreads, |x, y| truth(x != 0.0 || y != 0.0)),
            Operator::Xor => self.arithmetic(left, right, Spreads, |x, y| truth((x != 0.0) != (y != 0.0))),
        }
    }

    /// An operator that has a value for all operands. One loop for each part of the points: loops over slices of equal length have
    /// no checks, so that the compiler computes several values at once.
    fn arithmetic(
        &mut self,
        left: Operand<'a>,
        right: Operand<'a>,
        absence: Absence,
        compute: impl Fn(f64, f64) -> f64,
    ) -> Operand<'a> {
        let mut result = match (&left, &right) {
            (Operand::Number(x), Operand::Number(y)) => return Operand::Number(compute(*x, *y)),
            _ => self.column(),
        };
        let (x, y) = (left.view(), right.view());
        match (left.number(), right.number()) {
            (_, Some(number)) => map(&mut result.values, x.values, |x| compute(x, number)),
            (Some(number), _) => map(&mut result.values, y.values, |y| compute(number, y)),
            _ => {
                for (result, (x, y)) in result.values.iter_mut().zip(x.values.iter().zip(y.values)) {
                    *result = compute(*x, *y);
                }
            }
        }
        combine(&mut result, x, y, absence);
        self.release([left, right]);
        Operand::Column(result)
    }

    fn call(&mut self, call: Call, arguments: &[Node]) -> Operand<'a> {
        match (call, arguments) {
            (Call::One(function), [x]) => self.unary(x, function),
            (Call::OneChecked(function), [x]) => {
                let operands = [self.operand(x)];
                self.strict(operands, |[x]| function(x))
            }
            (Call::Two(function), [x, y]) => {
                let (x, y) = (self.operand(x), self.operand(y));
                self.arithmetic(x, y, Absence::Spreads, function)
            }
            (Call::TwoChecked(function), [x, y]) => {
                let operands = [self.operand(x), self.operand(y)];
                self.strict(operands, |[x, y]| function(x, y))
            }
            (Call::Three(function), [x, y, z]) => {
                let operands = [self.operand(x), self.operand(y), self.operand(z)];
                self.strict(operands, |[x, y, z]| Some(function(x, y, z)))
            }
            (Call::ThreeChecked(function), [x, y, z]) => {
                let operands = [self.operand(x), self.operand(y), self.operand(z)];
                self.strict(operands, |[x, y, z]| function(x, y, z))
            }
            _ => unreachable!("BUG: a call with another number of arguments than its function"),
        }
    }

    /// A function that has no value for some operands: the result is then *Faulty*.
    fn strict<const N: usize>(
        &mut self,
        operands: [Operand<'a>; N],
        compute: impl Fn([f64; N]) -> Option<f64>,
    ) -> Operand<'a> {
        if operands.iter().all(|operand| operand.number().is_some()) {
            let numbers = operands.each_ref().map(|operand| operand.number().unwrap_or(0.0));
            if let Some(number) = compute(numbers) {
                return Operand::Number(number);
            }
        }
        self.points(operands, |points| {
            let flag = points.iter().map(|point| point.1).fold(Flag::NoValue, Flag::max);
            if points.iter().any(|point| point.0.is_none()) {
                return (None, flag);
            }
            let value = compute(points.map(|point| point.0.unwrap_or(0.0)));
            (value, if value.is_some() { flag } else { flag.max(Flag::Faulty) })
        })
    }

    /// A column that is computed point by point.
    fn points<const N: usize>(
        &mut self,
        operands: [Operand<'a>; N],
        compute: impl Fn([Point; N]) -> Point,
    ) -> Operand<'a> {
        let mut result = self.column();
        let views = operands.each_ref().map(Operand::view);
        for at in 0..self.len {
            let (value, flag) = compute(views.map(|view| view.get(at)));
            result.set(at, value, flag);
        }
        self.release(operands);
        Operand::Column(result)
    }

    fn condition(&mut self, [condition, then, otherwise]: &[Node; 3]) -> Operand<'a> {
        let condition = self.operand(condition);
        if let Operand::Number(number) = condition {
            return self.operand(if number == 0.0 { otherwise } else { then });
        }
        let (then, otherwise) = (self.operand(then), self.operand(otherwise));
        let (then, otherwise) = (self.spread(then), self.spread(otherwise));
        let mut result = self.column();
        choose(&mut result, condition.view(), then.view(), otherwise.view());
        self.release([condition, then, otherwise]);
        Operand::Column(result)
    }

    /// An operand that has as many elements as the chunk: a number becomes a column.
    fn spread(&mut self, operand: Operand<'a>) -> Operand<'a> {
        let Operand::Number(number) = operand else { return operand };
        let mut column = self.column();
        column.values.fill(number);
        column.present.fill(true);
        column.flags.fill(Flag::NoValue);
        Operand::Column(column)
    }

    fn if_missing(&mut self, [first, second]: &[Node; 2]) -> Operand<'a> {
        let first = self.operand(first);
        if first.number().is_some() {
            return first;
        }
        let second = self.operand(second);
        let number = second.number();
        self.points([first, second], |[first, second]| match (first.0, number) {
            (Some(_), _) => first,
            (None, None) => second,
            (None, number) => (number, Flag::Valid),
        })
    }
}

fn truth(is_true: bool) -> f64 {
    f64::from(u8::from(is_true))
}

fn map(results: &mut [f64], values: &[f64], compute: impl Fn(f64) -> f64) {
    for (result, value) in results.iter_mut().zip(values) {
        *result = compute(*value);
    }
}

/// Sets presence and flags of a result from those of operands, of which one at most is a number.
fn combine(result: &mut Points, x: View<'_>, y: View<'_>, absence: Absence) {
    let is_number = |view: View<'_>| view.mask == 0;
    if is_number(x) || is_number(y) {
        let series = if is_number(x) { y } else { x };
        result.flags.copy_from_slice(series.flags);
        match absence {
            Absence::Nothing => result.present.fill(true),
            Absence::Spreads => result.present.copy_from_slice(series.present),
        }
    } else {
        for (result, (x, y)) in result.flags.iter_mut().zip(x.flags.iter().zip(y.flags)) {
            *result = (*x).max(*y);
        }
        let is_sum = absence == Absence::Nothing;
        for (result, (x, y)) in result.present.iter_mut().zip(x.present.iter().zip(y.present)) {
            *result = if is_sum { x | y } else { x & y };
        }
    }
    if absence == Absence::Spreads {
        absent_is_zero(result);
    }
}

/// Sets points to those of the branches that a condition takes. Loops of their own, because a loop over all parts has branches.
fn choose(result: &mut Points, condition: View<'_>, then: View<'_>, otherwise: View<'_>) {
    let is_taken = condition.values.iter().map(|condition| *condition != 0.0);
    let branches = is_taken.clone().zip(then.values.iter().zip(otherwise.values));
    for (result, (is_taken, (x, y))) in result.values.iter_mut().zip(branches) {
        *result = if is_taken { *x } else { *y };
    }
    let branches = is_taken.clone().zip(then.present.iter().zip(otherwise.present)).zip(condition.present);
    for (result, ((is_taken, (x, y)), is_known)) in result.present.iter_mut().zip(branches) {
        *result = *is_known & if is_taken { *x } else { *y };
    }
    let branches =
        is_taken.zip(then.flags.iter().zip(otherwise.flags)).zip(condition.present.iter().zip(condition.flags));
    for (result, ((is_taken, (x, y)), (is_known, own))) in result.flags.iter_mut().zip(branches) {
        let branch = if is_taken { *x } else { *y };
        *result = (*own).max(if *is_known { branch } else { Flag::NoValue });
    }
    absent_is_zero(result);
}

/// Clears values that were computed from absent ones.
fn absent_is_zero(column: &mut Points) {
    // Most chunks are complete. This loop reads 16 values at once, the next one two.
    if column.present.iter().fold(true, |all, present| all & present) {
        return;
    }
    for (value, present) in column.values.iter_mut().zip(&column.present) {
        *value = if *present { *value } else { 0.0 };
    }
}
