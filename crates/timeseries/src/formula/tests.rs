//! Formulas: syntax, .NET's edge cases, and a reference interpreter.

use proptest::prelude::*;

use super::*;
use crate::flag::Flag;

fn constant(text: &str) -> (Option<f64>, Flag) {
    let formula: Formula = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    formula.evaluate(&[], 1).get(0)
}

fn with(text: &str, inputs: &[(Option<f64>, Flag)]) -> (Option<f64>, Flag) {
    let formula: Formula = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let columns: Vec<Points> = inputs.iter().map(|input| std::iter::once(*input).collect()).collect();
    formula.evaluate(&columns.iter().collect::<Vec<_>>(), 1).get(0)
}

#[test]
fn operators_have_the_precedence_of_vb_net() {
    for (text, expected) in [
        ("3 + 5 * 2", 13.0),
        ("(3 + 5) * 2", 16.0),
        ("2 ^ 3 ^ 2", 64.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("-2 * -3", 6.0),
        ("7 Mod 4 * 2", 7.0),
        ("17 \\ 5 * 2", 1.0),
        ("10 \\ 3 Mod 2", 1.0),
        ("1 + 10 mod 4", 3.0),
        ("-7 Mod 3", -1.0),
        ("6 - 2 - 1", 3.0),
        ("1 + 1 = 2", 1.0),
        ("Not 1 = 2", 1.0),
        ("1 < 2 And 2 < 1 Or True", 1.0),
        ("1 <> 1 Xor 3 >= 3", 1.0),
        ("True AndAlso Not False OrElse False", 1.0),
        ("1.5R + 2D + 3F + 1L + .5 + 1e2 + 1E-1", 108.1),
        ("If(1 > 2, 10, 20) + IIf(2 > 1, 1, 2)", 21.0),
        ("Math.PI - System.Math.PI + math.e / MATH.E", 1.0),
        ("12.5 \\ 2.5", 6.0),
        ("2.5 \\ 1", 2.0),
        ("3.5 \\ 1", 4.0),
    ] {
        assert_eq!(constant(text), (Some(expected), Flag::Valid), "{text}");
    }
}

#[test]
fn functions_have_the_results_of_net() {
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    for (text, expected) in [
        ("Abs(-2)", Some(2.0)),
        ("Round(2.5)", Some(2.0)),
        ("Round(3.5)", Some(4.0)),
        ("Round(-2.5)", Some(-2.0)),
        ("Round(2.125, 2)", Some(2.12)),
        ("Round(2.5, MidpointRounding.AwayFromZero)", Some(3.0)),
        ("Math.Round(1.25, 1, System.MidpointRounding.AwayFromZero)", Some(1.3)),
        ("Round(-1.7, MidpointRounding.ToZero)", Some(-1.0)),
        ("Round(1.2, MidpointRounding.ToPositiveInfinity)", Some(2.0)),
        ("Round(-1.2, MidpointRounding.ToNegativeInfinity)", Some(-2.0)),
        ("Round(1, 16)", None),
        ("Sign(-3)", Some(-1.0)),
        ("Sign(0/0)", None),
        ("Pow(0, 0)", Some(1.0)),
        ("0 / 0", Some(nan)),
        ("1 / 0", Some(infinity)),
        ("1 \\ 0", None),
        ("Max(0/0, 1)", Some(nan)),
        ("Min(1, 0/0)", Some(nan)),
        ("1 / Max(-0.0, 0.0)", Some(infinity)),
        ("1 / Min(0.0, -0.0)", Some(-infinity)),
        ("MaxMagnitude(-3, 2)", Some(-3.0)),
        ("MinMagnitude(-2, 2)", Some(-2.0)),
        ("Log(8, 2)", Some(3.0)),
        ("Log(8, 1)", Some(nan)),
        ("Log(1, 0)", Some(-0.0)),
        ("Log10(1000)", Some(3.0)),
        ("Log2(8)", Some(3.0)),
        ("Atan2(0, -1)", Some(std::f64::consts::PI)),
        ("Atan2(-0.0, -1)", Some(-std::f64::consts::PI)),
        ("IEEERemainder(3, 2)", Some(-1.0)),
        ("IEEERemainder(4, 2)", Some(0.0)),
        ("IEEERemainder(10, 3)", Some(1.0)),
        ("IEEERemainder(11, 3)", Some(-1.0)),
        ("IEEERemainder(27, 4)", Some(-1.0)),
        ("IEEERemainder(28, 5)", Some(-2.0)),
        ("IEEERemainder(17.8, 4)", Some(1.800_000_000_000_000_7)),
        ("IEEERemainder(1, 0)", Some(nan)),
        ("ILogB(0)", Some(-2_147_483_648.0)),
        ("ILogB(8)", Some(3.0)),
        ("ILogB(5e-324)", Some(-1074.0)),
        ("ILogB(0/0)", Some(2_147_483_647.0)),
        ("ScaleB(1, 10)", Some(1024.0)),
        ("ScaleB(1, -1074)", Some(5e-324)),
        ("ScaleB(1, -1075)", Some(0.0)),
        ("ScaleB(5e-324, 1074)", Some(1.0)),
        ("ScaleB(1, 5000)", Some(infinity)),
        ("ScaleB(1, 0.5)", None),
        ("Clamp(5, 1, 3)", Some(3.0)),
        ("Clamp(5, 3, 1)", None),
        ("BitIncrement(0)", Some(5e-324)),
        ("BitDecrement(0)", Some(-5e-324)),
        ("CopySign(3, -0.0)", Some(-3.0)),
        ("FusedMultiplyAdd(2, 3, 4)", Some(10.0)),
        ("Cbrt(27) + Ceiling(1.2) + Floor(1.8) + Truncate(-1.8)", Some(5.0)),
        ("Sqrt(16) + Exp(0) + Cos(0) + Cosh(0) + Sin(0) + Tan(0) + Sinh(0) + Tanh(0)", Some(7.0)),
        ("Acos(1) + Asin(0) + Atan(0) + Acosh(1) + Asinh(0) + Atanh(0)", Some(0.0)),
        ("ReciprocalEstimate(4) + ReciprocalSqrtEstimate(4)", Some(0.75)),
    ] {
        let (value, flag) = constant(text);
        let is_equal = match (value, expected) {
            (Some(value), Some(expected)) => value == expected || (value.is_nan() && expected.is_nan()),
            (value, expected) => value == expected,
        };
        assert!(is_equal, "{text}: {value:?}, expected {expected:?}");
        assert_eq!(flag, if expected.is_some() { Flag::Valid } else { Flag::Faulty }, "{text}");
    }
}

#[test]
fn flags_and_absent_values_follow_the_rules() {
    use Flag::{Accounted, Estimated, Faulty, Missing, NoValue, Valid};
    for (text, inputs, expected) in [
        ("[A] + [B]", &[(Some(10.0), Valid), (Some(0.0), Missing)][..], (Some(10.0), Missing)),
        ("[A] + [B]", &[(Some(20.0), Valid), (Some(20.0), Accounted)], (Some(40.0), Valid)),
        ("[A] + [B]", &[(Some(30.0), Valid), (Some(30.0), Valid)], (Some(60.0), Valid)),
        ("[A] + [B]", &[(Some(10.0), Valid), (None, Missing)], (Some(10.0), Missing)),
        ("[A] - [B]", &[(None, Missing), (Some(10.0), Valid)], (Some(-10.0), Missing)),
        ("[A] + [B]", &[(None, Missing), (None, NoValue)], (None, Missing)),
        ("[A] * [B]", &[(None, Missing), (Some(10.0), Valid)], (None, Missing)),
        ("[A] + 5", &[(Some(1.0), Estimated)], (Some(6.0), Estimated)),
        ("Max([A], 5)", &[(None, Missing)], (None, Missing)),
        ("If([A] > 1, [B], 7)", &[(Some(2.0), Valid), (Some(3.0), Estimated)], (Some(3.0), Estimated)),
        ("If([A] > 1, [B], 7)", &[(Some(1.0), Valid), (None, Missing)], (Some(7.0), Valid)),
        ("If([A] > 1, [B], 7)", &[(None, Missing), (Some(3.0), Valid)], (None, Missing)),
        ("If([A], 7)", &[(None, Missing)], (Some(7.0), NoValue)),
        ("IfMissing([A], [B])", &[(None, Missing), (Some(3.0), Estimated)], (Some(3.0), Estimated)),
        ("IsMissing([A])", &[(None, Missing)], (Some(1.0), Valid)),
        ("FlagOf([A])", &[(None, Missing)], (Some(19.0), Valid)),
        ("[A] \\ 0", &[(Some(1.0), Valid)], (None, Faulty)),
    ] {
        assert_eq!(with(text, inputs), expected, "{text} {inputs:?}");
    }
}

#[test]
fn references_have_up_to_four_parts() {
    let formula: Formula =
        "[Meter A] + [ 4711 , 2, kWh, avg] - [\"a, \"\"b\"\" ]\", , MW] + Shift([Meter A], -4) + [Meter A]"
            .parse()
            .unwrap();
    let reference = |series: &str, offset, unit: Option<&str>, aggregation, shift| Reference {
        series: series.to_owned(),
        offset,
        unit: unit.map(str::to_owned),
        aggregation,
        shift,
    };
    assert_eq!(
        formula.references(),
        [
            reference("Meter A", 0, None, None, 0),
            reference("4711", 2, Some("kWh"), Some(Aggregation::Average), 0),
            reference("a, \"b\" ]", 0, Some("MW"), None, 0),
            reference("Meter A", 0, None, None, -4),
        ]
    );
    let renamed = formula.renamed(|reference| Ok(format!("<{}", reference.series))).unwrap();
    assert_eq!(
        renamed,
        "[<Meter A] + [ <4711 , 2, kWh, avg] - [\"<a, \"\"b\"\" ]\", , MW] + Shift([<Meter A], -4) + [<Meter A]"
    );
    assert_eq!(formula.renamed(|reference| Ok(reference.series.clone())).unwrap(), formula.text());
}

#[test]
fn texts_that_are_no_formulas_name_position_and_expectation() {
    let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    let long = "1+".repeat(300) + "1";
    let huge = "1 ".repeat(40_000);
    for (text, expected) in [
        ("", "found the end, expected a number, a reference"),
        ("1 +", "found the end, expected a number"),
        ("1 2", "found \"2\", expected an operator or the end (character 3)"),
        ("(1", "found the end, expected \")\""),
        ("é[A] + ?", "character \"?\" has no meaning in a formula (character 8)"),
        ("[A", "no closing bracket (character 1)"),
        ("[]", "names no series"),
        ("[A, x]", "offset \"x\" is not a whole number"),
        ("[A,0,kW,median]", "aggregation \"median\" is not known: expected SUM, AVG"),
        ("[A,0,kW,sum,1]", "at most four parts"),
        ("[\"A\"x]", "expected \",\" or \"]\""),
        ("Foo(1)", "function Foo does not exist"),
        ("Max(1)", "function Max has 1 arguments, expected 2"),
        ("Round(1, 2, 3)", "function Round has 3 arguments, expected 1 or 2"),
        ("If(1)", "expected 2 or 3"),
        ("IIf(1, 2)", "expected 3"),
        ("PI", "\"PI\" is neither a constant nor a call"),
        ("Shift(1, 2)", "expected a reference such as [Meter A]"),
        ("Shift([A], 1.5)", "expected a whole number of intervals"),
        ("Max(1,)", "expected an argument"),
        ("1x", "expected an operator behind the number"),
        ("1 = = 2", "found \"=\""),
        (deep.as_str(), "nested more than 200 deep"),
        (long.as_str(), "nested more than 200 deep"),
        (huge.as_str(), "80000 bytes, expected at most 65536"),
    ] {
        let error = text.parse::<Formula>().map(|formula| formula.text().len()).expect_err(text);
        let shown: String = text.chars().take(40).collect();
        assert!(error.message().contains(expected), "{shown}: {error}");
    }
}

/// Evaluates one point by walking the tree, with rules written a second time.
fn slow(node: &Node, inputs: &[(Option<f64>, Flag)]) -> (Option<f64>, Flag) {
    let all = |nodes: &[&Node]| nodes.iter().map(|node| slow(node, inputs)).collect::<Vec<_>>();
    let worst = |points: &[(Option<f64>, Flag)]| points.iter().map(|point| point.1).max().unwrap_or(Flag::NoValue);
    let strict = |nodes: &[&Node], compute: &dyn Fn(&[f64]) -> Option<f64>| {
        let points = all(nodes);
        let flag = worst(&points);
        let values: Option<Vec<f64>> = points.iter().map(|point| point.0).collect();
        match values.map(|values| compute(&values)) {
            None => (None, flag),
            Some(Some(value)) => (Some(value), flag),
            Some(None) => (None, flag.max(Flag::Faulty)),
        }
    };
    let number = |is_true: bool| if is_true { 1.0 } else { 0.0 };
    match node {
        Node::Number(value) => (Some(*value), Flag::NoValue),
        Node::Reference(at) => inputs[*at],
        Node::Negative(operand) => strict(&[operand], &|v| Some(-v[0])),
        Node::Not(operand) => strict(&[operand], &|v| Some(number(v[0] == 0.0))),
        Node::Binary(operator @ (Operator::Add | Operator::Subtract), left, right) => {
            let points = all(&[left, right]);
            let sign = if *operator == Operator::Add { 1.0 } else { -1.0 };
            let value = match (points[0].0, points[1].0) {
                (None, None) => None,
                (left, right) => Some(left.unwrap_or(0.0) + sign * right.unwrap_or(0.0)),
            };
            (value, worst(&points))
        }
        Node::Binary(operator, left, right) => strict(&[left, right], &|v| {
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
        }),
        Node::Call(function, arguments) => strict(&arguments.iter().collect::<Vec<_>>(), &|v| match function.call {
            functions::Call::One(call) => Some(call(v[0])),
            functions::Call::OneChecked(call) => call(v[0]),
            functions::Call::Two(call) => Some(call(v[0], v[1])),
            functions::Call::TwoChecked(call) => call(v[0], v[1]),
            functions::Call::Three(call) => Some(call(v[0], v[1], v[2])),
            functions::Call::ThreeChecked(call) => call(v[0], v[1], v[2]),
        }),
        Node::If(parts) => match slow(&parts[0], inputs) {
            (None, flag) => (None, flag),
            (Some(condition), flag) => {
                let (value, other) = slow(&parts[if condition == 0.0 { 2 } else { 1 }], inputs);
                (value, flag.max(other))
            }
        },
        Node::IsMissing(operand) => (Some(number(slow(operand, inputs).0.is_none())), Flag::Valid),
        Node::IfMissing(parts) => match slow(&parts[0], inputs) {
            (None, _) => slow(&parts[1], inputs),
            there => there,
        },
        Node::FlagOf(operand) => (Some(slow(operand, inputs).1.id().into()), Flag::Valid),
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("[A]".to_owned()),
        Just("[B]".to_owned()),
        (-4_i32..5).prop_map(|number| number.to_string()),
        Just("0.5".to_owned())
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "\\", "^", "Mod", "=", "<>", "<", ">", "<=", ">=", "And", "Or", "Xor",
        ]);
        let one = prop::sample::select(vec!["-", "Not ", "Abs", "Sign", "Round", "IsMissing", "FlagOf", "Sqrt"]);
        let two = prop::sample::select(vec!["Max", "Min", "IfMissing", "Log", "ScaleB", "IEEERemainder", "If"]);
        prop_oneof![
            (operator, inner.clone(), inner.clone()).prop_map(|(operator, x, y)| format!("({x} {operator} {y})")),
            (one, inner.clone()).prop_map(|(name, x)| format!("({name}({x}))")),
            (two, inner.clone(), inner.clone()).prop_map(|(name, x, y)| format!("{name}({x}, {y})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(x, y, z)| format!("If({x}, {y}, {z})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(x, y, z)| format!("Clamp({x}, {y}, {z})")),
        ]
    })
}

fn any_points(len: usize) -> impl Strategy<Value = Points> {
    let value = prop_oneof![
        4 => (-10.0..10.0).prop_map(Some),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]).prop_map(Some),
        2 => Just(None),
    ];
    prop::collection::vec((value, 0_usize..9), len)
        .prop_map(|all| all.into_iter().map(|(value, flag)| (value, Flag::ALL[flag])).collect())
}

proptest! {
    #[test]
    fn a_formula_gives_what_the_reference_interpreter_gives(
        text in any_text(),
        (left, right) in prop::sample::select(vec![0_usize, 1, 7, 1024, 1025, 3000])
            .prop_flat_map(|len| (any_points(len), any_points(len))),
    ) {
        let formula: Formula = text.parse().unwrap();
        let named: Vec<&Points> = formula.references().iter()
            .map(|reference| if reference.series == "A" { &left } else { &right }).collect();
        let computed = formula.evaluate(&named, left.len());
        prop_assert_eq!(computed.len(), left.len());
        for at in 0..left.len() {
            let inputs: Vec<_> = named.iter().map(|points| points.get(at)).collect();
            let (expected, mut flag) = slow(&formula.root, &inputs);
            if named.is_empty() && flag == Flag::NoValue {
                flag = Flag::Valid;
            }
            let (value, own_flag) = computed.get(at);
            let is_equal = match (value, expected) {
                (Some(value), Some(expected)) => value == expected || (value.is_nan() && expected.is_nan()),
                (value, expected) => value == expected,
            };
            prop_assert!(is_equal && flag == own_flag, "{}: {:?} {:?}, expected {:?} {:?}", text, value, own_flag, expected, flag);
        }
    }

    #[test]
    fn no_text_panics(text in "[-+*/\\\\^()\\[\\]<>=,.\" a-zA-Z0-9é]{0,40}") {
        let _ = text.parse::<Formula>();
    }
}
