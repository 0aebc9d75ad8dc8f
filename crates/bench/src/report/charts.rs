//! Charts as inline SVG: lines over time, distributions, bars. They need no library, and no script
//! for reading.
//!
//! Colours, dashes and the visibility of series are CSS classes; the page's style sheet defines
//! them for light, dark and print. Values under the pointer come from a JSON block next to each
//! chart, which only the page's script reads.

use std::fmt::Write;

use super::format::{self, escape};

/// Number of colours in the style sheet; further series repeat them dashed.
const COLORS: usize = 8;
/// Margins in pixels for axis labels: left, right, top and bottom.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 36.0;
/// Maximum number of points of a line whose points get markers.
const MARKED_POINTS_MAX: usize = 12;
/// Maximum number of bands in a chart; more would hide each other.
const BANDS_MAX: usize = 3;
/// Estimated width in pixels of a label's character, to decide whether the label fits.
const CHARACTER: f64 = 6.2;

/// Unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Number,
    PerSecond,
    Bytes,
    BytesPerSecond,
    Milliseconds,
    Seconds,
    Percent,
}

impl Unit {
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Unit::Number => format::short(value),
            Unit::PerSecond => format!("{}/s", format::short(value)),
            Unit::Bytes => format::bytes(value),
            Unit::BytesPerSecond => format!("{}/s", format::bytes(value)),
            Unit::Milliseconds => format::milliseconds(value),
            Unit::Seconds => clock(value),
            Unit::Percent => percentage(value),
        }
    }

    /// Code of the unit in the JSON block of the page's script.
    fn code(self) -> &'static str {
        match self {
            Unit::Number => "n",
            Unit::PerSecond => "n/s",
            Unit::Bytes => "B",
            Unit::BytesPerSecond => "B/s",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Percent => "%",
        }
    }
}

/// Formats a time within a run: `45 s`, `2:05 min`, `1:30 h`.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        long if long >= 7200.0 && whole.is_multiple_of(3600) => format!("{} h", whole / 3600),
        long if long >= 7200.0 => format!("{}:{:02} h", whole / 3600, whole % 3600 / 60),
        long if long > 120.0 && whole.is_multiple_of(60) => format!("{} min", whole / 60),
        long if long > 120.0 => format!("{}:{:02} min", whole / 60, whole % 60),
        short if short.fract() == 0.0 => format!("{short} s"),
        short => format!("{short:.1} s"),
    }
}

/// Formats a share with as many decimals as needed: `0.999` as `99.9 %`.
fn percentage(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Mapping from numbers to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// Equal ratios have equal distances; values ≤ 0 are placed at the lower end.
    Log,
    /// For shares below 1: 90 %, 99 %, 99.9 % … have equal distances.
    Nines,
}

impl Scale {
    fn position(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Nines => -(1.0 - value).max(1e-12).log10(),
        }
    }

    fn code(self) -> &'static str {
        match self {
            Scale::Linear => "lin",
            Scale::Log => "log",
            Scale::Nines => "nines",
        }
    }
}

/// One axis of a chart.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) scale: Scale,
    /// Range of the axis; `None`: derived from the values.
    pub(super) range: Option<(f64, f64)>,
}

impl Axis {
    pub(super) fn new(label: &str, unit: Unit, scale: Scale) -> Axis {
        Axis { label: label.to_owned(), unit, scale, range: None }
    }

    /// Sets the range `low ..= high`, for which the scale must be defined.
    pub(super) fn over(mut self, low: f64, high: f64) -> Axis {
        self.range = Some((low, high));
        self
    }
}

/// A value and, if it summarises several, their minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    /// NaN: the line has a gap here.
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Point {
    pub(super) fn new(x: f64, y: f64) -> Point {
        Point { x, y, low: y, high: y }
    }
}

/// A series.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// Index of colour and dash; any number is valid.
    pub(super) color: usize,
    /// Drawn faint, for less important series.
    pub(super) thin: bool,
    pub(super) points: Vec<Point>,
}

/// A named interval of the x axis: a phase of the run.
#[derive(Clone, Debug)]
pub(super) struct Shade {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) label: String,
}

/// A chart of lines.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// Width and height in pixels, before the page scales it.
    pub(super) size: (f64, f64),
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    pub(super) shades: Vec<Shade>,
}

/// Returns a linear scale, or a logarithmic one if the series differ so much that small ones would
/// lie on the axis.
pub(super) fn fitting_scale(lines: &[Line]) -> Scale {
    let greatest = |line: &Line| line.points.iter().map(|point| point.y).filter(|y| *y > 0.0).fold(0.0, f64::max);
    let tops: Vec<f64> = lines.iter().map(greatest).filter(|top| *top > 0.0).collect();
    let (low, high) = (tops.iter().copied().fold(f64::MAX, f64::min), tops.iter().copied().fold(0.0, f64::max));
    if high > low * 30.0 { Scale::Log } else { Scale::Linear }
}

/// An axis with its range, ticks and pixel interval.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Pixels at `low` and `high`.
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Ruler {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        // Labels are wider than they are high.
        let apart = if to > from { 75.0 } else { 38.0 };
        let room = ((to - from).abs() / apart).clamp(2.0, 10.0);
        let (low, high) = axis.range.unwrap_or_else(|| range_of(axis.scale, values));
        let (low, high, ticks) = match axis.scale {
            Scale::Linear => linear_ticks(low, high, room, axis),
            Scale::Log => log_ticks(low, high, room, axis.range.is_some()),
            Scale::Nines => (low, high, nines(low, high)),
        };
        Ruler { scale: axis.scale, low, high, from, to, ticks }
    }

    fn pixel(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.position(self.low), self.scale.position(self.high));
        let share = (self.scale.position(value) - low) / (high - low);
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }
}

/// Range from zero (on a logarithmic axis, from the minimum) to the maximum.
fn range_of(scale: Scale, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for value in values.filter(|value| value.is_finite() && (scale != Scale::Log || *value > 0.0)) {
        (low, high) = (low.min(value), high.max(value));
    }
    match scale {
        _ if low > high => (if scale == Scale::Log { 0.1 } else { 0.0 }, 1.0),
        Scale::Log => (low, high),
        Scale::Linear | Scale::Nines => (low.min(0.0), high.max(0.0)),
    }
}

/// Ticks at multiples of 1, 2 or 5 times a power of ten (for bytes: of a power of two), at most
/// `room` of them. The range is extended to whole steps unless it was given.
fn linear_ticks(low: f64, high: f64, room: f64, axis: &Axis) -> (f64, f64, Vec<f64>) {
    let span = if high > low { high - low } else { 1.0 };
    let step = match axis.unit {
        Unit::Seconds => time_step(span / room),
        Unit::Bytes | Unit::BytesPerSecond => (span / room).max(1.0).log2().ceil().exp2(),
        _ => decimal_step(span / room),
    };
    let (low, high) = match axis.range {
        Some(_) => (low, low + span),
        None => ((low / step).floor() * step, ((low + span) / step).ceil() * step),
    };
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (low, high, (first..=last).map(|count| count as f64 * step).collect())
}

/// Returns the smallest of 1, 2, 5, 10, 20 … that is at least `least`.
fn decimal_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(power * 10.0)
}

/// Returns the smallest round step of time that is at least `least`.
fn time_step(least: f64) -> f64 {
    const STEPS: [f64; 12] = [10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0];
    if least <= 5.0 {
        return decimal_step(least);
    }
    STEPS.into_iter().find(|step| *step >= least).unwrap_or_else(|| (least / 86_400.0).ceil() * 86_400.0)
}

/// Ticks at powers of ten, with their doubles and fivefolds if there is room.
fn log_ticks(low: f64, high: f64, room: f64, exact: bool) -> (f64, f64, Vec<f64>) {
    const DIGITS: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let ticks_of = |digits: &[f64], every: i32| -> Vec<f64> {
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power))).collect()
    };
    let (low, high) = if exact {
        (low, high)
    } else {
        let fine = ticks_of(DIGITS[0], 1);
        let below = fine.iter().copied().filter(|tick| *tick <= low * 1.001).fold(10f64.powi(first), f64::max);
        let above = fine.iter().copied().filter(|tick| *tick >= high * 0.999).fold(10f64.powi(last), f64::min);
        (below, if above > below { above } else { below * 10.0 })
    };
    let inside = |ticks: Vec<f64>| -> Vec<f64> {
        ticks.into_iter().filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001).collect()
    };
    let choices = DIGITS.iter().map(|digits| ticks_of(digits, 1)).chain((2..12).map(|every| ticks_of(&[1.0], every)));
    let ticks = choices.map(inside).find(|ticks| ticks.len() as f64 <= room + 1.0).unwrap_or_default();
    (low, high, ticks)
}

fn nines(low: f64, high: f64) -> Vec<f64> {
    [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999]
        .into_iter()
        .filter(|share| *share >= low && *share <= high)
        .collect()
}

/// Returns the title, with a remark if the axis is logarithmic.
fn titled(title: &str, scale: Scale) -> String {
    match scale {
        Scale::Log => format!("{title} (logarithmic axis)"),
        Scale::Linear | Scale::Nines => title.to_owned(),
    }
}

impl Chart {
    /// Returns whether some value is neither zero nor missing.
    pub(super) fn has_values(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.points).any(|point| point.y.is_finite() && point.y != 0.0)
    }

    /// Renders the chart with its legend as HTML. `id` must be unique in the page.
    pub(super) fn render(&self, id: &str, html: &mut String) {
        let (width, height) = self.size;
        let xs = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.x));
        let ys = self.lines.iter().flat_map(|line| line.points.iter().flat_map(|point| [point.low, point.high]));
        let x = Ruler::new(&self.x, xs, LEFT, width - RIGHT);
        let y = Ruler::new(&self.y, ys, height - BOTTOM, TOP);
        let _ = write!(
            html,
            "<figure class=\"chart\" id=\"{id}\"><figcaption>{}</figcaption>",
            escape(&titled(&self.title, self.y.scale))
        );
        if self.lines.len() > 1 {
            legend(id, self.lines.iter().map(|line| (line.name.as_str(), line.color)), html);
        }
        let _ = write!(
            html,
            "<svg{} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
            style_of_width(width),
            escape(&format!("{}: {}", self.title, self.y.label))
        );
        self.shades(&x, html);
        grid(&x, &y, &self.x, &self.y, (width, height), html);
        for (number, line) in self.lines.iter().enumerate() {
            line.render(number, self.lines.len() <= BANDS_MAX, &x, &y, html);
        }
        html.push_str("<g class=\"cross\"></g></svg>");
        self.values(&x, &y, html);
        html.push_str("</figure>\n");
    }

    fn shades(&self, x: &Ruler, html: &mut String) {
        for (number, shade) in self.shades.iter().enumerate() {
            let (from, to) = (x.pixel(shade.from), x.pixel(shade.to));
            let (label, height) = (escape(&shade.label), self.size.1 - BOTTOM - TOP);
            let _ = write!(
                html,
                "<rect class=\"shade{}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{height}\"><title>{label}</title></rect>",
                number % 2,
                (to - from).max(0.5),
            );
            if shade.label.chars().count() as f64 * CHARACTER < to - from {
                let middle = f64::midpoint(from, to);
                let _ = write!(html, "<text class=\"phase\" x=\"{middle:.1}\" y=\"{}\">{label}</text>", TOP - 6.0);
            }
        }
    }

    /// Writes the values that the script shows under the pointer.
    fn values(&self, x: &Ruler, y: &Ruler, html: &mut String) {
        let _ = write!(
            html,
            "<script type=\"application/json\">{{\"l\":{LEFT},\"r\":{},\"t\":{TOP},\"b\":{},\"x\":[\"{}\",\"{}\",{},{}],\"y\":\"{}\",\"s\":[",
            x.to,
            y.from,
            self.x.unit.code(),
            self.x.scale.code(),
            compact(x.low),
            compact(x.high),
            self.y.unit.code(),
        );
        let mut before: Option<&Line> = None;
        for line in &self.lines {
            let separator = if before.is_some() { "," } else { "" };
            let same =
                |other: &Line| other.points.iter().map(|point| point.x).eq(line.points.iter().map(|point| point.x));
            let xs = if before.is_some_and(same) {
                "0".to_owned()
            } else {
                numbers(line.points.iter().map(|point| point.x))
            };
            let ys = numbers(line.points.iter().map(|point| point.y));
            let _ = write!(html, "{separator}[{},{},{xs},{ys}]", json_text(&line.name), line.color);
            before = Some(line);
        }
        html.push_str("]}</script>");
    }
}

fn numbers(values: impl Iterator<Item = f64>) -> String {
    let texts: Vec<String> = values.map(compact).collect();
    format!("[{}]", texts.join(","))
}

/// Formats a number as JSON with the digits that a reader of a chart can use.
fn compact(number: f64) -> String {
    if !number.is_finite() {
        return "null".to_owned();
    }
    if number == number.trunc() && number.abs() < 1e6 {
        return format!("{number}");
    }
    let text = format!("{number:.3e}");
    // `1234` is shorter than `1.234e3`.
    let plain = text.parse::<f64>().map(|rounded| format!("{rounded}")).unwrap_or_default();
    if plain.len() <= text.len() { plain } else { text }
}

/// Encodes a text as a JSON string that is safe inside a `script` element.
fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Writes a checkbox for each series. The boxes must precede the drawing in the document, so that
/// the style sheet can select it.
fn legend<'a>(id: &str, names: impl Iterator<Item = (&'a str, usize)>, html: &mut String) {
    for (number, (name, color)) in names.enumerate() {
        let dash = if color >= COLORS { " dash" } else { "" };
        let _ = write!(
            html,
            "<input type=\"checkbox\" checked class=\"t{number}\" id=\"{id}-{number}\"><label for=\"{id}-{number}\" class=\"c{}{dash}\">{}</label>",
            color % COLORS,
            escape(name)
        );
    }
}

/// Smallest scale of a chart, so that texts of all charts have similar sizes; on a smaller screen
/// it scrolls.
const SHRINK_MIN: f64 = 0.86;

/// Limits the width: a chart is drawn at its own size or slightly smaller, never larger.
fn style_of_width(width: f64) -> String {
    format!(" style=\"max-width:{width}px;min-width:{:.0}px\"", width * SHRINK_MIN)
}

fn grid(x: &Ruler, y: &Ruler, x_axis: &Axis, y_axis: &Axis, (width, height): (f64, f64), html: &mut String) {
    for tick in &y.ticks {
        let at = y.pixel(*tick);
        let text = y_axis.unit.text(*tick);
        let _ = write!(
            html,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/><text class=\"y\" x=\"{}\" y=\"{:.1}\">{text}</text>",
            width - RIGHT,
            LEFT - 7.0,
            at + 3.5
        );
    }
    for tick in &x.ticks {
        let at = x.pixel(*tick);
        let text = x_axis.unit.text(*tick);
        let _ = write!(
            html,
            "<path class=\"tick\" d=\"M{at:.1} {}v4\"/><text class=\"x\" x=\"{at:.1}\" y=\"{}\">{text}</text>",
            height - BOTTOM,
            height - BOTTOM + 16.0
        );
    }
    let _ = write!(
        html,
        "<path class=\"axis\" d=\"M{LEFT} {}H{}\"/><text class=\"x label\" x=\"{}\" y=\"{}\">{}</text>",
        height - BOTTOM,
        width - RIGHT,
        f64::midpoint(LEFT, width - RIGHT),
        height - 4.0,
        escape(&titled(&x_axis.label, x_axis.scale))
    );
}

impl Line {
    fn render(&self, number: usize, banded: bool, x: &Ruler, y: &Ruler, html: &mut String) {
        let color = self.color % COLORS;
        let mut class = format!("s s{number} c{color}");
        class.push_str(if self.color >= COLORS { " dash" } else { "" });
        class.push_str(if self.thin { " thin" } else { "" });
        if banded && self.points.iter().any(|point| point.high > point.low) {
            let _ = write!(html, "<path class=\"band s{number} c{color}\" d=\"{}\"/>", self.band(x, y));
        }
        let _ = write!(html, "<path class=\"{class}\" d=\"{}\"/>", self.path(x, y));
        // With few points, each gets a marker; a point between two gaps has no line and always gets
        // one.
        let few = self.points.len() <= MARKED_POINTS_MAX && !self.thin;
        for point in self.runs().filter(|run| few || run.len() == 1).flatten() {
            let (x, y) = (x.pixel(point.x), y.pixel(point.y));
            let _ = write!(html, "<circle class=\"dot s{number} c{color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>");
        }
    }

    /// Number of points of the longest piece between two gaps.
    pub(super) fn longest_piece(&self) -> usize {
        self.runs().map(<[Point]>::len).max().unwrap_or(0)
    }

    /// Pieces of the line between gaps.
    fn runs(&self) -> impl Iterator<Item = &[Point]> {
        self.points.split(|point| !point.y.is_finite()).filter(|run| !run.is_empty())
    }

    fn path(&self, x: &Ruler, y: &Ruler) -> String {
        let mut path = String::new();
        for run in self.runs().filter(|run| run.len() > 1) {
            trace(&mut path, run.iter().map(|point| (x.pixel(point.x), y.pixel(point.y))));
        }
        path
    }

    fn band(&self, x: &Ruler, y: &Ruler) -> String {
        let mut path = String::new();
        for run in self.runs() {
            let there = run.iter().map(|point| (x.pixel(point.x), y.pixel(point.high)));
            let back = run.iter().rev().map(|point| (x.pixel(point.x), y.pixel(point.low)));
            trace(&mut path, there.chain(back));
            path.push('Z');
        }
        path
    }
}

/// Appends a line to an SVG path: an absolute start, then relative steps, which take fewer bytes.
/// Steps are differences of rounded positions, so that rounding errors do not accumulate.
fn trace(path: &mut String, points: impl Iterator<Item = (f64, f64)>) {
    let mut before = None;
    for (x, y) in points {
        let (x, y) = ((x * 10.0).round() as i64, (y * 10.0).round() as i64);
        let (command, step) = match before {
            None => ("M", (x, y)),
            Some(same) if same == (x, y) => continue,
            Some((x0, y0)) => ("l", (x - x0, y - y0)),
        };
        let separator = if step.1 < 0 { "" } else { " " };
        let _ = write!(path, "{command}{}{separator}{}", tenths(step.0), tenths(step.1));
        before = Some((x, y));
    }
}

/// Formats a number of tenths in SVG's shortest form.
fn tenths(number: i64) -> String {
    let (sign, size) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
    match (size / 10, size % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (0, tenth) => format!("{sign}.{tenth}"),
        (whole, tenth) => format!("{sign}{whole}.{tenth}"),
    }
}

/// Horizontal bars in groups: for example kinds of operations on several targets.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) unit: Unit,
    /// Names for the legend; empty if the group labels suffice.
    pub(super) names: Vec<String>,
    pub(super) groups: Vec<Group>,
}

/// The bars of one label.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) label: String,
    /// One for each name; `None`: no figure.
    pub(super) bars: Vec<Option<Bar>>,
}

/// One value drawn as a bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) value: f64,
    /// Index of the colour, as in [`Line::color`].
    pub(super) color: usize,
    /// Text after the value, such as a ratio.
    pub(super) remark: String,
    /// Confidence interval of the value, if known.
    pub(super) interval: Option<(f64, f64)>,
}

const BAR: f64 = 15.0;
const BAR_GAP: f64 = 11.0;
/// Maximum characters of a group's label, and the width of one in pixels: kinds of operations are
/// in capitals.
const BAR_LABEL: usize = 28;
const CAPITAL: f64 = 7.4;

impl Bars {
    /// Renders the bars with their legend as HTML. `id` must be unique in the page.
    pub(super) fn render(&self, id: &str, html: &mut String) {
        let left = 12.0
            + CAPITAL
                * self.groups.iter().map(|group| group.label.chars().count()).max().unwrap_or(0).min(BAR_LABEL) as f64;
        let group_height = BAR * self.groups.iter().map(|group| group.bars.len()).max().unwrap_or(0) as f64 + BAR_GAP;
        let height = group_height * self.groups.len() as f64 + BOTTOM;
        let axis = Axis::new("", self.unit, self.scale());
        let ends = |bar: &Bar| [bar.value, bar.interval.map_or(bar.value, |interval| interval.1)];
        let values = self.groups.iter().flat_map(|group| group.bars.iter().flatten().flat_map(ends));
        // Leave room for the text after the longest bar.
        let mut ruler = Ruler::new(&axis, values, left, self.width - 150.0);
        if ruler.scale == Scale::Log {
            // The shortest bar must have a visible length.
            ruler.low /= 2.0;
        }
        let _ = write!(
            html,
            "<figure class=\"chart bars\" id=\"{id}\"><figcaption>{}</figcaption>",
            escape(&titled(&self.title, axis.scale))
        );
        if self.names.len() > 1 {
            legend(id, self.names.iter().enumerate().map(|(number, name)| (name.as_str(), number)), html);
        }
        let _ = write!(
            html,
            "<svg{} viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\">",
            style_of_width(self.width),
            self.width,
            escape(&self.title)
        );
        for tick in &ruler.ticks {
            let (at, foot) = (ruler.pixel(*tick), height - BOTTOM);
            let _ = write!(
                html,
                "<path class=\"grid\" d=\"M{at:.1} 0V{foot}\"/><text class=\"x\" x=\"{at:.1}\" y=\"{}\">{}</text>",
                foot + 16.0,
                self.unit.text(*tick)
            );
        }
        for (number, group) in self.groups.iter().enumerate() {
            group.render(self.unit, &ruler, group_height * number as f64, html);
        }
        html.push_str("</svg></figure>\n");
    }

    /// Returns a linear scale from zero, or a logarithmic one if the shortest bar would be
    /// invisible.
    fn scale(&self) -> Scale {
        let values = || {
            self.groups
                .iter()
                .flat_map(|group| group.bars.iter().flatten().map(|bar| bar.value))
                .filter(|value| *value > 0.0)
        };
        let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        if high > low * 100.0 { Scale::Log } else { Scale::Linear }
    }
}

impl Group {
    fn render(&self, unit: Unit, ruler: &Ruler, top: f64, html: &mut String) {
        let middle = top + BAR_GAP / 2.0 + BAR * self.bars.len() as f64 / 2.0 + 3.5;
        let mut label: String = self.label.chars().take(BAR_LABEL).collect();
        if label.len() < self.label.len() {
            label.pop();
            label.push('…');
        }
        let _ =
            write!(html, "<text class=\"y\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>", ruler.from - 7.0, escape(&label));
        for (number, bar) in self.bars.iter().enumerate() {
            let y = top + BAR_GAP / 2.0 + BAR * number as f64;
            let Some(bar) = bar else {
                let _ = write!(
                    html,
                    "<text class=\"s{number} value\" x=\"{:.1}\" y=\"{:.1}\">–</text>",
                    ruler.from + 4.0,
                    y + 11.0
                );
                continue;
            };
            bar.render(number, unit, ruler, y, html);
        }
    }
}

impl Bar {
    fn render(&self, number: usize, unit: Unit, ruler: &Ruler, y: f64, html: &mut String) {
        let end = ruler.pixel(self.value);
        let _ = write!(
            html,
            "<rect class=\"bar s{number} c{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            self.color % COLORS,
            ruler.from,
            y + 1.0,
            (end - ruler.from).max(1.0),
            BAR - 2.0
        );
        let mut behind = end;
        if let Some((low, high)) = self.interval {
            let (low, high) = (ruler.pixel(low), ruler.pixel(high));
            let middle = y + BAR / 2.0;
            let _ = write!(
                html,
                "<path class=\"whisker s{number}\" d=\"M{low:.1} {:.1}v6m0 -3H{high:.1}m0 -3v6\"/>",
                middle - 3.0
            );
            behind = behind.max(high);
        }
        let _ = write!(
            html,
            "<text class=\"s{number} value\" x=\"{:.1}\" y=\"{:.1}\">{}<tspan class=\"remark\">{}{}</tspan></text>",
            behind + 5.0,
            y + 11.0,
            unit.text(self.value),
            if self.remark.is_empty() { "" } else { " · " },
            escape(&self.remark)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, lines: Vec<Line>) -> Chart {
        Chart {
            title: "A <chart>".to_owned(),
            size: (600.0, 200.0),
            x: Axis::new("seconds", Unit::Seconds, Scale::Linear).over(0.0, 60.0),
            y: Axis::new("points/s", Unit::PerSecond, scale),
            lines,
            shades: vec![Shade { from: 0.0, to: 30.0, label: "write & <more>".to_owned() }],
        }
    }

    fn line(name: &str, ys: &[f64]) -> Line {
        let points = ys.iter().enumerate().map(|(x, y)| Point::new(x as f64, *y)).collect();
        Line { name: name.to_owned(), color: 0, thin: false, points }
    }

    fn rendered(chart: &Chart) -> String {
        let mut html = String::new();
        chart.render("c1", &mut html);
        html
    }

    /// Absolute positions of the points of all paths.
    fn positions(html: &str) -> Vec<(f64, f64)> {
        let paths = html.split("d=\"M").skip(1).filter_map(|rest| rest.split('"').next());
        let lines =
            paths.filter(|path| path.contains('l')).flat_map(|path| path.split('M')).filter(|line| !line.is_empty());
        lines.flat_map(along).collect()
    }

    /// Absolute positions of one path of relative steps.
    fn along(line: &str) -> Vec<(f64, f64)> {
        let step = |text: &str| {
            let at = 1 + text[1..].find([' ', '-']).expect("two numbers");
            let number = |text: &str| text.trim().parse::<f64>().expect("a number");
            (number(&text[..at]), number(&text[at..]))
        };
        let steps = line.trim_end_matches('Z').split('l').map(step);
        let add = |at: &mut (f64, f64), (x, y): (f64, f64)| {
            *at = (at.0 + x, at.1 + y);
            Some(((at.0 * 10.0).round() / 10.0, (at.1 * 10.0).round() / 10.0))
        };
        steps.scan((0.0, 0.0), add).collect()
    }

    #[test]
    fn lines_stay_inside_the_axes() {
        for scale in [Scale::Linear, Scale::Log] {
            let html =
                rendered(&chart(scale, vec![line("a", &[0.0, 5.0, 123.0, 1e9, 0.001, -4.0]), line("b", &[7.0; 90])]));
            let positions = positions(&html);
            // Points of the second line beyond the axis' end coincide.
            assert_eq!(positions.len(), 6 + 61, "{html}");
            for (x, y) in positions {
                assert!((LEFT..=600.0 - RIGHT).contains(&x) && (TOP..=200.0 - BOTTOM).contains(&y), "{x} {y}");
            }
        }
    }

    #[test]
    fn relative_steps_sum_to_the_positions() {
        let positions: Vec<(f64, f64)> =
            (0..300).map(|at| (f64::from(at) * 0.333, (f64::from(at) * 0.7).sin() * 40.0 + 50.0)).collect();
        let mut path = String::new();
        trace(&mut path, positions.iter().copied());
        for (seen, (x, y)) in along(&path[1..]).into_iter().zip(positions) {
            assert!((seen.0 - x).abs() < 0.051 && (seen.1 - y).abs() < 0.051, "{seen:?} for {x} {y}");
        }
        let mut path = String::new();
        trace(&mut path, [(1.0, 2.0), (1.04, 1.96), (0.5, 2.5), (0.5, 0.0)].into_iter());
        assert_eq!(path, "M1 2l-.5 .5l0-2.5");
    }

    #[test]
    fn a_gap_is_not_bridged_and_a_single_point_is_visible() {
        // More points than get markers, so that only the single one between gaps has a marker.
        let mut ys = vec![1.0, 2.0, f64::NAN, 4.0, f64::NAN];
        ys.extend((5..=5 + MARKED_POINTS_MAX).map(|y| y as f64));
        let html = rendered(&chart(Scale::Linear, vec![line("a", &ys)]));
        assert_eq!(positions(&html).len(), 2 + MARKED_POINTS_MAX + 1, "{html}");
        assert_eq!(html.matches("<circle").count(), 1);
        assert!(html.contains("[1,2,null,4,null,5,6,"), "{html}");
    }

    #[test]
    fn only_lines_of_few_points_have_markers() {
        let circles = |points: usize| {
            let ys: Vec<f64> = (0..points).map(|y| y as f64).collect();
            rendered(&chart(Scale::Linear, vec![line("a", &ys)])).matches("<circle").count()
        };
        assert_eq!([2, MARKED_POINTS_MAX, MARKED_POINTS_MAX + 1].map(circles), [2, MARKED_POINTS_MAX, 0]);
        let faint = Line { thin: true, ..line("a", &[1.0, 2.0]) };
        assert_eq!(rendered(&chart(Scale::Linear, vec![faint])).matches("<circle").count(), 0, "a faint line");
    }

    #[test]
    fn larger_values_are_higher() {
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            let axis = Axis::new("", Unit::Number, scale).over(if scale == Scale::Log { 0.1 } else { 0.0 }, 0.999);
            let ruler = Ruler::new(&axis, std::iter::empty(), 180.0, 20.0);
            let pixels = [0.1, 0.5, 0.9, 0.99].map(|value| ruler.pixel(value));
            assert!(pixels.windows(2).all(|pair| pair[0] > pair[1]), "{scale:?} {pixels:?}");
        }
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        let axis = |unit, scale| Axis::new("", unit, scale);
        let ticks = |axis: Axis, values: &[f64]| Ruler::new(&axis, values.iter().copied(), 200.0, 0.0).ticks;
        assert_eq!(ticks(axis(Unit::Number, Scale::Linear), &[0.0, 4.1]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(
            ticks(axis(Unit::Bytes, Scale::Linear), &[3.0 * 1024.0 * 1024.0]),
            [0.0, 1048576.0, 2097152.0, 3145728.0]
        );
        assert_eq!(ticks(axis(Unit::Milliseconds, Scale::Log), &[0.3, 900.0]), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(axis(Unit::Milliseconds, Scale::Log), &[1.1, 4.0]), [1.0, 2.0, 5.0]);
        assert_eq!(ticks(axis(Unit::Percent, Scale::Nines).over(0.0, 0.999), &[]), [0.0, 0.5, 0.9, 0.99, 0.999]);
        assert_eq!(
            ticks(axis(Unit::Seconds, Scale::Linear).over(0.0, 3600.0), &[]),
            [0.0, 900.0, 1800.0, 2700.0, 3600.0]
        );
        for values in [&[][..], &[0.0], &[7.0], &[-3.0, 2.0], &[f64::NAN], &[1e-12, 1e15]] {
            for scale in [Scale::Linear, Scale::Log] {
                let ticks = ticks(axis(Unit::Number, scale), values);
                assert!((1..=9).contains(&ticks.len()), "{values:?} {scale:?} {ticks:?}");
            }
        }
    }

    #[test]
    fn series_far_apart_get_a_logarithmic_axis() {
        assert_eq!(fitting_scale(&[line("a", &[5e6]), line("b", &[200.0])]), Scale::Log);
        assert_eq!(fitting_scale(&[line("a", &[100.0, 0.0]), line("b", &[20.0])]), Scale::Linear);
        assert_eq!(fitting_scale(&[]), Scale::Linear);
    }

    #[test]
    fn names_are_text_and_not_markup() {
        let html = rendered(&chart(Scale::Linear, vec![line("</script><b>", &[1.0]), line("b", &[1.0])]));
        assert_eq!(html.matches("</script>").count(), 1, "{html}");
        assert!(!html.contains("<b>") && !html.contains("<more>") && !html.contains("<chart>"), "{html}");
    }

    #[test]
    fn numbers_of_the_block_are_short_json() {
        let cases =
            [(0.0, "0"), (12.0, "12"), (12.345_678, "12.35"), (1.234_56e7, "1.235e7"), (0.000_012_3, "1.230e-5")];
        for (number, text) in cases {
            assert_eq!(compact(number), text);
            assert!(serde_json::from_str::<f64>(&compact(number)).is_ok());
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value| Some(Bar { value, color: 0, remark: String::new(), interval: None });
        let groups = vec![Group { label: "write".to_owned(), bars: vec![bar(10.0), bar(20.0), None] }];
        let bars = Bars {
            title: "t".into(),
            width: 600.0,
            unit: Unit::Number,
            names: vec!["a".into(), "b".into(), "c".into()],
            groups,
        };
        let mut html = String::new();
        bars.render("b1", &mut html);
        let widths: Vec<f64> = html
            .split("<rect")
            .skip(1)
            .map(|rect| rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!((widths[1] / widths[0] - 2.0).abs() < 0.01, "{widths:?}");
        assert_eq!(widths.len(), 2);
    }

    #[test]
    fn times_and_shares_are_readable() {
        assert_eq!(
            [0.0, 0.5, 45.0, 125.0, 5400.0, 9000.0].map(clock),
            ["0 s", "0.5 s", "45 s", "2:05 min", "90 min", "2:30 h"]
        );
        assert_eq!([0.0, 0.5, 0.999, 0.999_99].map(percentage), ["0 %", "50 %", "99.9 %", "99.999 %"]);
    }
}
