//! A second evaluation of formulas, point by point over the tree, which the first one is compared with; and canonical texts.

use proptest::prelude::*;

use super::*;
use crate::flag::Flag;

/// Value and flag. A number has no flag.
type Point = (Option<f64>, Option<Flag>);

/// Evaluates one point by walking the tree, with rules written a second time.
fn slow(node: &Node, inputs: &[(Option<f64>, Flag)]) -> Point {
    let evaluate = |node: &Node| slow(node, inputs);
    match node {
        Node::Number(value) => (Some(*value), None),
        Node::Reference(at) => (inputs[*at].0, Some(inputs[*at].1)),
        Node::Negative(operand) => strict(&[evaluate(operand)], &|v| Some(-v[0])),
        Node::Not(operand) => strict(&[evaluate(operand)], &|v| Some(number(v[0] == 0.0))),
        Node::Chain(first, rest) => {
            rest.iter().fold(evaluate(first), |left, (operator, right)| binary(*operator, left, evaluate(right)))
        }
        Node::Call(function, arguments) => {
            let arguments: Vec<Point> = arguments.iter().map(evaluate).collect();
            strict(&arguments, &|v| match function.call {
                functions::Call::One(call) => Some(call(v[0])),
                functions::Call::OneChecked(call) => call(v[0]),
                functions::Call::Two(call) => Some(call(v[0], v[1])),
                functions::Call::TwoChecked(call) => call(v[0], v[1]),
                functions::Call::Three(call) => Some(call(v[0], v[1], v[2])),
                functions::Call::ThreeChecked(call) => call(v[0], v[1], v[2]),
            })
        }
        Node::If(parts) => match evaluate(&parts[0]) {
            (None, flag) => (None, flag),
            (Some(condition), flag) => {
                let (value, other) = evaluate(&parts[if condition == 0.0 { 2 } else { 1 }]);
                (value, flag.max(other))
            }
        },
        Node::IsMissing(operand) => (Some(number(evaluate(operand).0.is_none())), Some(Flag::Valid)),
        Node::IfMissing(parts) => match (evaluate(&parts[0]), evaluate(&parts[1])) {
            ((None, _), (value, flag)) => (value, flag.or(Some(Flag::Valid))),
            (there, _) => there,
        },
        Node::FlagOf(operand) => {
            let flag = evaluate(operand).1.unwrap_or(Flag::Valid);
            (Some(flag.id().into()), Some(Flag::Valid))
        }
    }
}

fn number(is_true: bool) -> f64 {
    if is_true { 1.0 } else { 0.0 }
}

/// An operator or function of which every operand must be there.
fn strict(operands: &[Point], compute: &dyn Fn(&[f64]) -> Option<f64>) -> Point {
    let flag = operands.iter().filter_map(|operand| operand.1).max();
    let values: Option<Vec<f64>> = operands.iter().map(|operand| operand.0).collect();
    match values.map(|values| compute(&values)) {
        None => (None, flag),
        Some(Some(value)) => (Some(value), flag),
        Some(None) => (None, flag.max(Some(Flag::Faulty))),
    }
}

fn binary(operator: Operator, left: Point, right: Point) -> Point {
    if matches!(operator, Operator::Add | Operator::Subtract) {
        let sign = if operator == Operator::Add { 1.0 } else { -1.0 };
        let value = match (left.0, right.0) {
            (None, None) => None,
            (left, right) => Some(left.unwrap_or(0.0) + sign * right.unwrap_or(0.0)),
        };
        return (value, left.1.max(right.1));
    }
    strict(&[left, right], &|v| {
        let (x, y) = (v[0], v[1]);
        Some(match operator {
            Operator::Power => x.powf(y),
            Operator::Multiply => x * y,
            Operator::Divide => x / y,
            Operator::DivideWhole => return functions::divide_whole(x, y),
            Operator::Modulo => x % y,
            Operator::Equal => number(x == y),
            Operator::NotEqual => number(x != y),
            Operator::Less => number(x < y),
            Operator::Greater => number(x > y),
            Operator::LessOrEqual => number(x <= y),
            Operator::GreaterOrEqual => number(x >= y),
            Operator::And => number(x != 0.0 && y != 0.0),
            Operator::Or => number(x != 0.0 || y != 0.0),
            Operator::Xor => number((x != 0.0) ^ (y != 0.0)),
            Operator::Add | Operator::Subtract => unreachable!(),
        })
    })
}

/// Texts with and without brackets, so that precedence decides about some of them.
fn any_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        2 => prop::sample::select(vec!["[A]", "[B, 2, kWh, sum]", "Shift([\"A, ]\"], -3)", "[A]]B]"]).prop_map(str::to_owned),
        1 => (-4_i32..5).prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["0.5", "1e300", "Math.PI", "True", "3D", "5e-324"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 60, 3, |inner| {
        let operators = "+ - * / \\ ^ Mod = <> < > <= >= And Or Xor AndAlso OrElse".split(' ').collect::<Vec<_>>();
        let operator = prop::sample::select(operators);
        let sign = prop::sample::select(vec!["-", "+", "Not "]);
        let one = "Abs Sign Round IsMissing FlagOf Sqrt Math.Floor Cbrt ILogB".split(' ').collect::<Vec<_>>();
        let two = "Max Min IfMissing Log ScaleB IEEERemainder If Round".split(' ').collect::<Vec<_>>();
        let three = "If IIf Clamp FusedMultiplyAdd".split(' ').collect::<Vec<_>>();
        let two_of = (inner.clone(), inner.clone());
        prop_oneof![
            3 => (operator, two_of.clone(), any::<bool>()).prop_map(|(operator, (x, y), has_brackets)| {
                if has_brackets { format!("({x} {operator} {y})") } else { format!("{x} {operator} {y}") }
            }),
            1 => (sign, inner.clone()).prop_map(|(sign, x)| format!("{sign}{x}")),
            1 => (prop::sample::select(one), inner.clone()).prop_map(|(name, x)| format!("{name}({x})")),
            1 => (prop::sample::select(two), two_of.clone()).prop_map(|(name, (x, y))| format!("{name}({x}, {y})")),
            1 => (prop::sample::select(three), two_of, inner.clone())
                .prop_map(|(name, (x, y), z)| format!("{name}({x}, {y}, {z})")),
            1 => inner.prop_map(|x| format!("Round({x}, 1, MidpointRounding.ToZero)")),
        ]
    })
}

fn any_points(len: usize) -> impl Strategy<Value = Points> {
    let special = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 5e-324, f64::MAX, 1e19];
    let value = prop_oneof![
        4 => (-10.0..10.0).prop_map(Some),
        1 => prop::sample::select(special).prop_map(Some),
        2 => Just(None),
    ];
    prop::collection::vec((value, prop::sample::select(Flag::ALL.to_vec())), len)
        .prop_map(|all| all.into_iter().collect())
}

fn is_same(left: Option<f64>, right: Option<f64>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan()),
        (left, right) => left == right,
    }
}

/// The tree and its references as text, without positions.
fn shown(formula: &Formula) -> String {
    let references = formula.references().iter().map(|reference| Reference { position: 0, ..reference.clone() });
    format!("{:?} {:?}", formula.root, references.collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn a_formula_gives_what_the_reference_interpreter_gives(
        text in any_text(),
        columns in prop_oneof![prop::sample::select(vec![0_usize, 1, 1023, 1024, 1025, 2048]), 0_usize..3000]
            .prop_flat_map(|len| prop::collection::vec(any_points(len), 4)),
    ) {
        let formula = Formula::parse(&text).unwrap();
        let inputs: Vec<&Points> = columns.iter().take(formula.references().len()).collect();
        let len = columns[0].len();
        let computed = formula.evaluate(&inputs, len);
        prop_assert_eq!(computed.len(), len);
        for at in 0..len {
            let point: Vec<_> = inputs.iter().map(|points| points.get(at)).collect();
            let (expected, flag) = slow(&formula.root, &point);
            let flag = flag.unwrap_or(Flag::Valid);
            let (value, own_flag) = computed.get(at);
            prop_assert!(
                is_same(value, expected) && flag == own_flag,
                "{} of {:?}: {:?} {:?}, expected {:?} {:?}", text, point, value, own_flag, expected, flag
            );
            prop_assert!(value.is_some() || computed.values[at] == 0.0, "{}: an absent value is not 0", text);
        }
    }

    #[test]
    fn a_canonical_text_is_parsed_to_the_same_formula(text in any_text()) {
        let formula = Formula::parse(&text).unwrap();
        let canonical = formula.to_string();
        let again = Formula::parse(&canonical).map_err(|error| TestCaseError::fail(format!("{canonical}: {error}")))?;
        prop_assert_eq!(shown(&formula), shown(&again), "{} as {}", text, canonical);
        prop_assert_eq!(again.to_string(), canonical);
    }

    #[test]
    fn references_are_parsed_from_their_canonical_text(
        series in "[ -~é]{1,12}",
        unit in prop::option::of("[ -~]{1,5}"),
        count in any::<i64>(),
        step in prop::option::of("ms|s|min|h|d|w|m|q|y"),
        shift in -5_i64..5,
    ) {
        let offset: Offset = format!("{count}{}", step.unwrap_or_default()).parse().unwrap();
        let reference = Reference { series, offset, unit, aggregation: None, shift, position: 1 };
        let formula = Formula::parse(&reference.to_string()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let position = formula.references()[0].position;
        prop_assert_eq!(formula.references(), &[Reference { position, ..reference }]);
    }

    #[test]
    fn no_text_panics(text in "[-+*/\\\\^()\\[\\]<>=,.\" a-zA-Z0-9é]{0,40}") {
        let _ = Formula::parse(&text);
    }

    #[test]
    fn no_sequence_of_tokens_panics(tokens in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..60)) {
        if let Ok(formula) = Formula::parse(&tokens.concat()) {
            let missing = Points::missing(3);
            let inputs = vec![&missing; formula.references().len()];
            prop_assert_eq!(formula.evaluate(&inputs, 3).len(), 3);
        }
    }
}

const TOKENS: [&str; 24] = [
    "1",
    " ",
    "[A]",
    "[A,1 h]",
    "(",
    ")",
    "(",
    ")",
    "+",
    "-",
    "*",
    "^",
    " Mod ",
    " Not ",
    "If(",
    "Max(",
    ",",
    "Round(",
    "Shift(",
    "MidpointRounding.ToEven",
    "]",
    "\"",
    "Math.PI",
    "2.5R",
];
