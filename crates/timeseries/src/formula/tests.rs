//! Formulas: syntax, .NET's edge cases, and a reference interpreter.

use super::*;
use crate::aggregation::Aggregation;
use crate::flag::Flag;
use crate::raster::Step;

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
        ("-9 \\ 2", -4.0),
        ("9 Mod 7 \\ 2", 0.0),
        ("3 + 10 Mod 4", 5.0),
        ("3 = 1 + 2", 1.0),
        ("Not 0 And 0", 0.0),
        ("1 Or 1 And 0", 1.0),
        ("1 Xor 1 Or 1", 0.0),
        ("9007199254740993 \\ 1 - 9007199254740992", 0.0),
        ("9223372036854774784 \\ 3", 3_074_457_345_618_258_261.0),
        ("2 ^ -2 ^ 2", 0.0625),
        ("1 / (1 - 1 * -1 Mod 1)", 1.0),
        ("1 + Not 2 = 3", 2.0),
        ("3 > 2 > 1", 0.0),
        ("+-+1", -1.0),
        ("  1\n+\t2  ", 3.0),
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
        ("Acosh(1.7976931348623157e308)", Some(710.475_860_073_943_9)),
        ("Acosh(1.0000000001)", Some(1.414_213_620_867_586_2e-5)),
        ("Acosh(0.5)", Some(nan)),
        ("Acosh(1/0)", Some(infinity)),
        ("Asinh(-1.7976931348623157e308)", Some(-710.475_860_073_943_9)),
        ("Asinh(1e-20)", Some(1e-20)),
        ("1 / Asinh(-0.0)", Some(-infinity)),
        ("Atanh(1)", Some(infinity)),
        ("Atanh(-1)", Some(-infinity)),
        ("Atanh(2)", Some(nan)),
        ("Atanh(-0.9999999999)", Some(-11.859499013855018)),
        ("1 / Atanh(-0.0)", Some(-infinity)),
        ("9.3e18 \\ 1", None),
        ("9223372036854775808 \\ 1", None),
        ("-9223372036854775808 \\ -1", None),
        ("0/0 \\ 1", None),
        ("1 \\ 0.5", None),
        ("1 / (-4 Mod 2)", Some(-infinity)),
        ("1 Mod 0", Some(nan)),
        ("1 / Round(-0.5)", Some(-infinity)),
        ("1 / Ceiling(-0.5)", Some(-infinity)),
        ("Round(1e300, 2)", Some(1e300)),
        ("Round(0/0, 2)", Some(nan)),
        ("Round(-2.5, MidpointRounding.AwayFromZero)", Some(-3.0)),
        ("Round(2.5, 0, MidpointRounding.ToEven)", Some(2.0)),
        ("Round(1, -1)", None),
        ("Round(1, 0.5)", None),
        ("Sign(-0.0)", Some(0.0)),
        ("Pow(0/0, 0)", Some(1.0)),
        ("Pow(1, 0/0)", Some(1.0)),
        ("Pow(-1, 1/0)", Some(1.0)),
        ("(-8) ^ (1/3)", Some(nan)),
        ("Max(1, 0/0)", Some(nan)),
        ("MaxMagnitude(0/0, 1)", Some(nan)),
        ("MaxMagnitude(1, 0/0)", Some(nan)),
        ("MaxMagnitude(-2, 2)", Some(2.0)),
        ("MinMagnitude(1, 0/0)", Some(nan)),
        ("Log(-1)", Some(nan)),
        ("Log(0)", Some(-infinity)),
        ("Log(8, 0)", Some(nan)),
        ("Log(1, 1/0)", Some(0.0)),
        ("Sqrt(-1)", Some(nan)),
        ("Atan2(1/0, 1/0)", Some(std::f64::consts::FRAC_PI_4)),
        ("1 / Atan2(-0.0, 0)", Some(-infinity)),
        ("1 / IEEERemainder(-4, 2)", Some(-infinity)),
        ("IEEERemainder(3, 1/0)", Some(3.0)),
        ("IEEERemainder(2.5, 1)", Some(0.5)),
        ("IEEERemainder(3.5, 1)", Some(-0.5)),
        ("ILogB(1/0)", Some(2_147_483_647.0)),
        ("ILogB(-0.1)", Some(-4.0)),
        ("ScaleB(1, -2147483648)", Some(0.0)),
        ("ScaleB(1, 2147483648)", None),
        ("ScaleB(1.5, -1074)", Some(1e-323)),
        ("Clamp(0/0, 1, 3)", Some(nan)),
        ("Clamp(5, 0/0, 3)", Some(3.0)),
        ("BitIncrement(-1/0)", Some(f64::MIN)),
        ("BitIncrement(1/0)", Some(infinity)),
        ("FusedMultiplyAdd(1/0, 0, 1)", Some(nan)),
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
    use Flag::{Accounted, Estimated, Faulty, Missing, NoValue, Schedule, Valid};
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
        ("If([A], 7)", &[(None, Missing)], (Some(7.0), Valid)),
        ("If([A], 7) + [B]", &[(None, Missing), (Some(1.0), Accounted)], (Some(8.0), Valid)),
        ("If([A], 7)", &[(Some(1.0), NoValue)], (Some(1.0), NoValue)),
        ("If(True, 7, [A])", &[(Some(1.0), Missing)], (Some(7.0), Valid)),
        ("If(0, 7, [A])", &[(Some(1.0), Estimated)], (Some(1.0), Estimated)),
        ("If([A], 7, 8)", &[(Some(0.0), Accounted)], (Some(8.0), Accounted)),
        ("[A] + [B]", &[(Some(1.0), NoValue), (Some(2.0), NoValue)], (Some(3.0), NoValue)),
        ("5 - [A]", &[(None, Missing)], (Some(5.0), Missing)),
        ("-[A]", &[(None, NoValue)], (None, NoValue)),
        ("[A] AndAlso [B]", &[(Some(0.0), Valid), (None, Missing)], (None, Missing)),
        ("Sign([A] / 0) + 1", &[(Some(0.0), Missing)], (Some(1.0), Missing)),
        ("IfMissing(1 \\ 0, [A])", &[(Some(4.0), Schedule)], (Some(4.0), Schedule)),
        ("IfMissing([A], [B])", &[(None, Missing), (None, NoValue)], (None, NoValue)),
        ("IfMissing(3, [A])", &[(Some(4.0), Schedule)], (Some(3.0), Valid)),
        ("IsMissing([A] + 1)", &[(None, Missing)], (Some(0.0), Valid)),
        ("FlagOf(3)", &[], (Some(9.0), Valid)),
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
    let reference = |series: &str, count, unit: Option<&str>, aggregation, shift, position| Reference {
        series: series.to_owned(),
        offset: Offset { count, step: None },
        unit: unit.map(str::to_owned),
        aggregation,
        shift,
        position,
    };
    assert_eq!(
        formula.references(),
        [
            reference("Meter A", 0, None, None, 0, 1),
            reference("4711", 2, Some("kWh"), Some(Aggregation::Average), 0, 13),
            reference("a, \"b\" ]", 0, Some("MW"), None, 0, 37),
            reference("Meter A", 0, None, None, -4, 66),
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
fn a_bracket_in_a_name_is_doubled_or_quoted() {
    for (text, name) in [
        ("[a]]b]", "a]b"),
        ("[a]]]", "a]"),
        ("[]]]", "]"),
        ("[\"a]b\"]", "a]b"),
        ("[\"a,b\"]", "a,b"),
        ("[a\"b]", "a\"b"),
        ("[a [b]", "a [b"),
        ("[ Zähler.1 (Süd) ]", "Zähler.1 (Süd)"),
    ] {
        let formula = Formula::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(formula.references()[0].series, name, "{text}");
        let again = Formula::parse(&formula.to_string()).unwrap();
        assert_eq!(again.references()[0].series, name, "{text}");
    }
}

#[test]
fn offsets_count_intervals_or_calendar_units() {
    for (text, count, step, canonical) in [
        ("0", 0, None, "0"),
        ("+7", 7, None, "7"),
        ("-2", -2, None, "-2"),
        ("2h", 2, Some(Step::Hour), "2 h"),
        ("-1 month", -1, Some(Step::Month), "-1 m"),
        ("3 MIN", 3, Some(Step::Minute), "3 min"),
        ("3 Days", 3, Some(Step::Day), "3 d"),
        ("1 q", 1, Some(Step::Quarter), "1 q"),
        ("500ms", 500, Some(Step::Millisecond), "500 ms"),
        ("1 y", 1, Some(Step::Year), "1 y"),
        ("2 weeks", 2, Some(Step::Week), "2 w"),
        ("9 s", 9, Some(Step::Second), "9 s"),
    ] {
        let offset: Offset = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((offset, offset.to_string().as_str()), (Offset { count, step }, canonical), "{text}");
        let formula = Formula::parse(&format!("[A, {text}]")).unwrap();
        assert_eq!(formula.references()[0].offset, offset, "{text}");
    }
    for text in ["", "h", "1.5 h", "1 fortnight", "h 1", "99999999999999999999"] {
        assert!(text.parse::<Offset>().is_err(), "{text}");
    }
}

#[test]
fn positions_count_characters() {
    let formula = Formula::parse("[é] + [ñ, 1] * [é] - Shift([ü], 1)").unwrap();
    let positions: Vec<usize> = formula.references().iter().map(|reference| reference.position).collect();
    assert_eq!(positions, [1, 7, 28]);
}

#[test]
fn canonical_texts_have_nets_names_and_no_needless_brackets() {
    for (text, expected) in [
        ("((1+(2*3)))-(4-5)", "1 + 2 * 3 - (4 - 5)"),
        ("(-2)^2 + -(2^2) - -3 - (-(-3))", "(-2) ^ 2 + -2 ^ 2 - -3 - -(-3)"),
        ("2^(3^2)^1", "2 ^ (3 ^ 2) ^ 1"),
        ("not(1=2)and(not 3)or(1 xor 2)", "Not 1 = 2 And Not 3 Or (1 Xor 2)"),
        ("(Not 1) = 2", "(Not 1) = 2"),
        ("math.ROUND(1.50,1,midpointrounding.toeven)", "Round(1.5, 1, MidpointRounding.ToEven)"),
        ("round([a],system.midpointrounding.tozero)", "Round([a], MidpointRounding.ToZero)"),
        ("iif([a,,,SUM]>1e20,if([a],true),[ b ,0, kWh,])", "If([a, , , SUM] > 1e20, IfMissing([a], 1), [b, , kWh])"),
        ("shift([a, 2 hours], +3) + Shift([a], 0)", "Shift([a, 2 h], 3) + [a]"),
        ("1 andalso 2 orelse 3", "1 And 2 Or 3"),
    ] {
        let formula = Formula::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(formula.to_string(), expected, "{text}");
    }
}

#[test]
fn a_chain_of_any_length_is_computed() {
    let ones = "1".to_owned() + &"+1".repeat(30_000);
    assert_eq!(constant(&ones).0, Some(30_001.0));
    let text = (0..5_000).map(|at| format!("[{at}]")).collect::<Vec<_>>().join(" + ");
    let formula = Formula::parse(&text).unwrap();
    let column: Points = std::iter::once((Some(2.0), Flag::Valid)).collect();
    assert_eq!(formula.references().len(), 5_000);
    assert_eq!(formula.evaluate(&vec![&column; 5_000], 1).get(0), (Some(10_000.0), Flag::Valid));
    assert_eq!(formula.to_string(), text);
}

/// The height of a tree was once counted by nesting alone, so that chains within chains made trees of any height, and evaluation
/// overflowed the stack. Trees now have their heights.
#[test]
fn the_height_of_a_tree_is_limited_by_each_operator_that_adds_to_it() {
    let nested =
        |levels: usize, operators: &str| format!("{}1{}", "(".repeat(levels), format!("{operators})").repeat(levels));
    // One level is that of the root, and one that of the operand behind the innermost operator.
    let levels = HEIGHT_MAX - 2;
    assert!(Formula::parse(&nested(levels, "+1")).is_ok(), "a chain is continued");
    assert!(Formula::parse(&nested(levels, &"+1".repeat(100))).is_ok());
    for operators in ["+1*1", "^1*1\\1 Mod 1+1=1 And 1 Or 1 Xor 1", "*1+1*1", "*1-1"] {
        let text = nested(levels, operators);
        let error = Formula::parse(&text).map(|formula| formula.to_string()).expect_err(operators);
        assert!(error.message().contains("nested more than 200 deep"), "{operators}: {error}");
    }
    let high_operand = format!("(0+0+{})", nested(60, "*1+1"));
    let within = |levels: usize| format!("{}{high_operand}{}", "(".repeat(levels), "*1+1)".repeat(levels));
    assert!(Formula::parse(&within(30)).is_ok());
    assert!(Formula::parse(&within(60)).is_err());
    let text = nested(HEIGHT_MAX / 2 - 1, "*1+1");
    let formula = Formula::parse(&text).unwrap();
    assert_eq!(formula.evaluate(&[], 1).get(0), (Some(100.0), Flag::Valid));
    assert!(Formula::parse(&format!("{}1", "-".repeat(HEIGHT_MAX - 1))).is_ok());
    assert!(Formula::parse(&format!("{}1", "-".repeat(HEIGHT_MAX))).is_err());
}

#[test]
fn texts_that_are_no_formulas_name_position_and_expectation() {
    let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    let huge = "1 ".repeat(40_000);
    for (text, expected) in [
        ("", "found the end, expected a number, a reference"),
        ("1 +", "found the end, expected a number"),
        ("1 2", "found \"2\", expected an operator or the end (character 3)"),
        ("(1", "found the end, expected \")\""),
        ("é[A] + ?", "character \"?\" has no meaning in a formula (character 8)"),
        ("[A", "no closing bracket (character 1)"),
        ("[]", "names no series"),
        ("1 + [A, x]", "offset \"x\" is not known: expected a whole number of intervals, or one with ms"),
        ("1e999", "number 1e999 is too large"),
        ("2 * .", "found \".\", expected a number (character 5)"),
        ("[a]]", "the reference has no closing bracket (character 1)"),
        ("Round(1, MidpointRounding.ToEven, 2)", "found \",\", expected \")\" (character 33)"),
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
        ("1x", "found \"x\", expected an operator behind the number (character 2)"),
        ("1 = = 2", "found \"=\""),
        (deep.as_str(), "nested more than 200 deep"),
        (huge.as_str(), "80000 bytes, expected at most 65536"),
    ] {
        let error = text.parse::<Formula>().map(|formula| formula.text().len()).expect_err(text);
        let shown: String = text.chars().take(40).collect();
        assert!(error.message().contains(expected), "{shown}: {error}");
    }
}
