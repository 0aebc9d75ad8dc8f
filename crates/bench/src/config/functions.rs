//! The catalogue of value generators: IoT-benchmark's `function.xml`, or a built-in one of the same
//! composition.

use std::path::Path;

use super::properties;
use crate::error::{Error, Result};

/// Curve of a generated value over time `t` (in timestamp units), between `min` and `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Saw-tooth: rises from `min` to `max` in `cycle` units.
    Line,
    /// Sine of period 1000 · `cycle`.
    Sin,
    /// `max` in the first half of `cycle`, `min` in the second.
    Square,
    /// Uniform between `min` and `max`.
    Random,
    /// Always `min`.
    Constant,
}

/// Type to which a generated value is converted before the sensor's own type applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numeric {
    /// 32-bit integer.
    Int,
    /// `f32`.
    Float,
    /// `f64`.
    Double,
}

/// An entry of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name in the file; may not be unique.
    pub id: String,
    /// Curve.
    pub shape: Shape,
    /// Intermediate type of the values.
    pub numeric: Numeric,
    /// Maximum; at least `min`.
    pub max: f64,
    /// Minimum.
    pub min: f64,
    /// Period, see [`Shape`]; positive if the shape uses it.
    pub cycle: f64,
}

/// Loads the XML file at `path`: its entries in file order, and notes about skipped ones.
pub(crate) fn load(path: &Path) -> Result<(Vec<Function>, Vec<String>)> {
    let bytes =
        std::fs::read(path).map_err(|error| Error::setup(format!("{}: cannot be read: {error}", path.display())))?;
    parse(&properties::decode(&bytes))
        .map_err(|(line, message)| Error::setup(format!("{}:{line}: {message}", path.display())))
}

pub(super) type At<T> = std::result::Result<T, (usize, String)>;

pub(super) fn parse(text: &str) -> At<(Vec<Function>, Vec<String>)> {
    let (mut functions, mut notes) = (Vec::new(), Vec::new());
    for element in elements(text)?.iter().filter(|element| element.name == "function") {
        let function = function(element).map_err(|message| (element.line, message))?;
        if function.shape == Shape::Constant && function.min != function.max {
            let Function { id, min, max, .. } = &function;
            notes.push(format!("function {id:?} is constant but min {min} differs from max {max}: skipped"));
        } else {
            functions.push(function);
        }
    }
    if functions.is_empty() {
        return Err((1, "no <function> element with a usable type: expected at least one".to_owned()));
    }
    Ok((functions, notes))
}

fn function(element: &Element) -> std::result::Result<Function, String> {
    let kind = element.attribute("function-type").or_else(|| element.attribute("type"));
    let kind = kind.ok_or("<function> has neither \"function-type\" nor \"type\"")?;
    let (numeric, shape) = match kind.split_once('_') {
        Some(("int", shape)) => (Numeric::Int, shape),
        Some(("float", shape)) => (Numeric::Float, shape),
        Some(("double", shape)) => (Numeric::Double, shape),
        _ => (Numeric::Double, kind),
    };
    let shape = match shape {
        "mono_k" => Shape::Line,
        "sin" => Shape::Sin,
        "square" => Shape::Square,
        "random" => Shape::Random,
        "mono" => Shape::Constant,
        _ => {
            return Err(format!(
                "function type {kind:?}: expected {{int,float,double}}_{{sin,mono,random,square,mono_k}}"
            ));
        }
    };
    let (max, min) = (element.number("max")?, element.number("min")?);
    let needs_cycle = matches!(shape, Shape::Line | Shape::Sin | Shape::Square);
    let cycle = if needs_cycle { element.number("cycle")? } else { element.number("cycle").unwrap_or(1.0) };
    if max < min {
        return Err(format!("max {max} is below min {min}"));
    }
    if needs_cycle && cycle <= 0.0 {
        return Err(format!("cycle {cycle}: expected above 0"));
    }
    Ok(Function { id: element.attribute("id").unwrap_or_default().to_owned(), shape, numeric, max, min, cycle })
}

/// A start tag with its attributes.
struct Element {
    line: usize,
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> std::result::Result<f64, String> {
        let text = self.attribute(name).ok_or_else(|| format!("<function> has no \"{name}\""))?;
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("{name}={text:?}: expected a finite number"))
    }
}

/// Parses the start tags of `text`. Skips everything else: the catalogue has all its data in
/// attributes.
fn elements(text: &str) -> At<Vec<Element>> {
    let mut found = Vec::new();
    let mut rest = text;
    let line_of = |rest: &str| 1 + text[..text.len() - rest.len()].matches('\n').count();
    while let Some(open) = rest.find('<') {
        let tag = &rest[open..];
        let line = line_of(tag);
        let unclosed = |what: &str| (line, format!("{what} is not closed"));
        rest = if tag.starts_with("<!--") {
            after(tag, "-->").ok_or_else(|| unclosed("comment"))?
        } else if tag.starts_with("<?") {
            after(tag, "?>").ok_or_else(|| unclosed("declaration"))?
        } else if tag.starts_with("<!") || tag.starts_with("</") {
            after(tag, ">").ok_or_else(|| unclosed("tag"))?
        } else {
            let (element, rest) = start_tag(line, &tag[1..]).map_err(|message| (line, message))?;
            found.push(element);
            rest
        };
    }
    Ok(found)
}

fn after<'a>(text: &'a str, end: &str) -> Option<&'a str> {
    text.find(end).map(|at| &text[at + end.len()..])
}

fn start_tag(line: usize, text: &str) -> std::result::Result<(Element, &str), String> {
    let is_name = |c: char| !c.is_whitespace() && !"=/><\"'".contains(c);
    let name_end = text.find(|c| !is_name(c)).ok_or("tag is not closed")?;
    let mut element = Element { line, name: text[..name_end].to_owned(), attributes: Vec::new() };
    let mut rest = &text[name_end..];
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix("/>").or_else(|| rest.strip_prefix('>')) {
            return Ok((element, rest));
        }
        let end = rest.find(|c| !is_name(c)).filter(|&end| end > 0);
        let end = end.ok_or_else(|| format!("<{}> is not closed: expected an attribute or '>'", element.name))?;
        let (key, after_key) = rest.split_at(end);
        let quoted = after_key.trim_start().strip_prefix('=').map(str::trim_start);
        let quote = quoted.and_then(|text| text.chars().next()).filter(|c| *c == '"' || *c == '\'');
        let (Some(quoted), Some(quote)) = (quoted, quote) else {
            return Err(format!("attribute {key:?} has no quoted value"));
        };
        let (value, after_value) =
            quoted[1..].split_once(quote).ok_or_else(|| format!("value of attribute {key:?} is not closed"))?;
        element.attributes.push((key.to_owned(), unescape(value)));
        rest = after_value;
    }
}

/// Replaces XML's five named entities. Only ids can have one.
fn unescape(text: &str) -> String {
    const ENTITIES: [(&str, &str); 5] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    ENTITIES.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}

/// The built-in catalogue: as many entries of each shape as IoT-benchmark's (9 lines, 6 sines, 9
/// squares, 86 random, 58 constants), with ranges typical of vehicles and wind turbines.
pub(crate) fn builtin() -> Vec<Function> {
    let mut all = Vec::with_capacity(168);
    let mut add = |shape, numeric, min: f64, max: f64, cycle| {
        let id = format!("{shape:?}{}", all.len()).to_lowercase();
        all.push(Function { id, shape, numeric, max: round_to_cents(max), min: round_to_cents(min), cycle });
    };
    // Wrapping counters: a narrow range at a high level.
    for (i, width) in [5.0, 8.0, 12.0, 20.0, 50.0, 100.0, 200.0, 400.0, 800.0].into_iter().enumerate() {
        let min = 6_000.0 + 3_500.0 * i as f64;
        let cycle = [350_000.0, 420_000.0, 1_400_000.0, 3_500_000.0, 7_000_000.0][i % 5];
        add(Shape::Line, Numeric::Double, min, min + width, cycle);
    }
    // Daily cycles, compressed to half an hour.
    for i in 0..6 {
        let shift = 0.05 * f64::from(i);
        add(Shape::Sin, Numeric::Double, 3.3 + shift, 6.6 - shift / 2.0, 1_754.0 + 9.0 * f64::from(i));
    }
    // Switches and steps.
    let steps: [(f64, f64); 9] = [
        (0.0, 1.0),
        (2.0, 5.0),
        (0.0, 6.0),
        (0.0, 0.99),
        (25.9, 36.7),
        (780.0, 788.5),
        (1_474.0, 1_483.5),
        (-1.0, 1.0),
        (0.0, 2.0),
    ];
    for (i, (min, max)) in steps.into_iter().enumerate() {
        let cycle = [182_000.0, 210_000.0, 320_000.0, 1_120_000.0, 3_360_000.0, 4_200_000.0][i % 6];
        add(Shape::Square, Numeric::Double, min, max, cycle);
    }
    // Noisy readings: from nearly constant grid frequencies to pressures, currents and powers.
    for i in 0..80 {
        let width = 0.07 * 30_000_f64.powf(f64::from(i) / 79.0);
        let centre = [50.0, 20.0, -15.0, 0.0, width / 2.0, 500.0, -width / 2.0][i as usize % 7];
        let numeric = if width > 20.0 && i % 5 == 0 { Numeric::Int } else { Numeric::Double };
        add(Shape::Random, numeric, centre - width / 2.0, centre + width / 2.0, 18_200.0);
    }
    for (min, max) in [(0.0, 5e4), (49_800.0, 50_550.0), (1.13e7, 1.14e7), (0.0, 1e6), (-2e5, 2e5), (0.0, 9.3e8)] {
        add(Shape::Random, Numeric::Double, min, max, 18_200.0);
    }
    // Constant parameters; about half are zero.
    for _ in 0..30 {
        add(Shape::Constant, Numeric::Int, 0.0, 0.0, 3_600.0);
    }
    const LEVELS: [f64; 28] = [
        1.0,
        2.0,
        3.1,
        4.0,
        6.7,
        10.0,
        12.5,
        16.0,
        24.0,
        28.25,
        47.0,
        50.0,
        60.0,
        64.5,
        100.0,
        120.0,
        200.0,
        230.0,
        400.0,
        690.0,
        750.5,
        1_013.25,
        1_500.0,
        3_000.0,
        21_122.0,
        65_535.0,
        1_000_000.0,
        112_000_000.0,
    ];
    for level in LEVELS {
        let numeric = if level.fract() == 0.0 { Numeric::Int } else { Numeric::Double };
        add(Shape::Constant, numeric, level, level, 3_600.0);
    }
    all
}

fn round_to_cents(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_and_comments_skipped() {
        let text = "<?xml version=\"1.0\"?>\n<!-- <function type='no'/> -->\n<functions>\n\
            <function id=\"a&amp;b\" function-type=\"int_mono_k\" max=\"10\" min=\"-1.5\" cycle='350000'></function>\n\
            \t<function id = 'r'\n type='random' min=\"0\" max = \"900\"><baseLine lower=\"1\"/></function>\n\
            <function id=\"c\" function-type=\"float_mono\" max=\"2\" min=\"1\"/>\n</functions>";
        let (functions, notes) = parse(text).unwrap();
        let line = Function {
            id: "a&b".to_owned(),
            shape: Shape::Line,
            numeric: Numeric::Int,
            max: 10.0,
            min: -1.5,
            cycle: 350_000.0,
        };
        let random = Function {
            id: "r".to_owned(),
            shape: Shape::Random,
            numeric: Numeric::Double,
            max: 900.0,
            min: 0.0,
            cycle: 1.0,
        };
        assert_eq!(functions, [line, random]);
        assert_eq!(notes, ["function \"c\" is constant but min 1 differs from max 2: skipped"]);
    }

    #[test]
    fn a_broken_catalogue_names_line_and_reason() {
        let cases = [
            ("<functions>\n<function id='a' type='sin' max='1'/>", 2, "no \"min\""),
            ("<function type='sin' max='1' min='0' cycle='0'/>", 1, "cycle 0: expected above 0"),
            ("<function type='cos' max='1' min='0' cycle='1'/>", 1, "expected {int,float,double}_"),
            ("<function type='random' max='1' min='2'/>", 1, "max 1 is below min 2"),
            ("<function type='random' max='inf' min='2'/>", 1, "expected a finite number"),
            ("\n\n<function type='random", 3, "is not closed"),
            ("<function type=random max='1'/>", 1, "no quoted value"),
            ("<function", 1, "not closed"),
            ("\n<!-- x", 2, "comment is not closed"),
            ("", 1, "no <function>"),
        ];
        for (text, line, reason) in cases {
            let (at, message) = parse(text).unwrap_err();
            assert!(at == line && message.contains(reason), "{text:?}: {at}: {message}");
        }
    }

    #[test]
    fn built_in_catalogue_has_iot_benchmarks_number_of_each_shape() {
        let all = builtin();
        let count = |shape| all.iter().filter(|function| function.shape == shape).count();
        let counts = [Shape::Line, Shape::Sin, Shape::Square, Shape::Random, Shape::Constant].map(count);
        assert_eq!((counts, all.len()), ([9, 6, 9, 86, 58], 168));
        for f in &all {
            let usable = f.cycle > 0.0 && if f.shape == Shape::Constant { f.min == f.max } else { f.min < f.max };
            assert!(usable, "{f:?}");
        }
    }
}
