//! Requests: names of PVs with or without an operator.

use super::bins::{Bounds, Empty, Optimized, Summary};
use super::select::{CaPlotBinning, Count, DeadBand, Fills, FirstSample, Flyers, Nth, Pick};
use super::statistics::{Collector, Statistic};
use super::{Bins, Input, Processed, Span, Step};
use crate::event::Event;

/// Bins of operators without a parameter, in seconds.
const INTERVAL_SECONDS: i32 = 900;
/// Points of `optimized` without a parameter.
const POINTS: i32 = 1000;
/// Standard deviations beyond which `flyers` are, without a parameter.
const DEVIATIONS: f32 = 3.0;

/// Kinds of operators.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    FirstSample,
    Statistic(Statistic),
    IgnoreFlyers,
    Flyers,
    FirstFill,
    LastFill,
    LastSample,
    NCount,
    Nth,
    OptimLastSample,
    Optimized,
    CaPlotBinning,
    DeadBand,
}

/// Operators in the order in which the Appliance looks for them. The first whose name is the beginning of what was asked
/// is taken; that is why `stdev_60` works.
const OPERATORS: [(&str, Kind); 27] = [
    ("firstSample", Kind::FirstSample),
    ("mean", Kind::Statistic(Statistic::Mean)),
    ("jitter", Kind::Statistic(Statistic::Jitter)),
    ("std", Kind::Statistic(Statistic::Deviation)),
    ("ignoreflyers", Kind::IgnoreFlyers),
    ("flyers", Kind::Flyers),
    ("linear", Kind::Statistic(Statistic::Linear)),
    ("loess", Kind::Statistic(Statistic::Loess)),
    ("median", Kind::Statistic(Statistic::Median)),
    ("variance", Kind::Statistic(Statistic::Variance)),
    ("popvariance", Kind::Statistic(Statistic::PopulationVariance)),
    ("kurtosis", Kind::Statistic(Statistic::Kurtosis)),
    ("skewness", Kind::Statistic(Statistic::Skewness)),
    ("firstFill", Kind::FirstFill),
    ("lastFill", Kind::LastFill),
    ("lastSample", Kind::LastSample),
    ("max", Kind::Statistic(Statistic::Max)),
    ("min", Kind::Statistic(Statistic::Min)),
    ("count", Kind::Statistic(Statistic::Count)),
    ("ncount", Kind::NCount),
    ("nth", Kind::Nth),
    ("stats", Kind::Statistic(Statistic::Stats)),
    ("optimLastSample", Kind::OptimLastSample),
    ("optimized", Kind::Optimized),
    ("caplotbinning", Kind::CaPlotBinning),
    ("deadBand", Kind::DeadBand),
    ("errorbar", Kind::Statistic(Statistic::ErrorBar)),
];

/// An operator with its parameters.
///
/// | spelling | parameters | value, where it is not the event's |
/// |---|---|---|
/// | `mean_N` `min_N` `max_N` | N: seconds of a bin, 900 if absent, here and below | double |
/// | `std_N` `variance_N` | | of a sample (n − 1); 0 of one value |
/// | `popvariance_N` | | of a population (n) |
/// | `jitter_N` | | `std` / `mean` |
/// | `median_N` | | the middle, or the mean of the two middle values. Keeps a bin's values. |
/// | `skewness_N` | | unbiased, NaN of fewer than 3 values or of equal ones |
/// | `kurtosis_N` | | excess, unbiased, NaN of fewer than 4 values or of equal ones |
/// | `count_N` | | double, without NaN |
/// | `errorbar_N` | | `mean`, and the field `stdz` with `std` |
/// | `stats_N` | | array of mean, std, min, max, count |
/// | `linear_N` | | at the bin's middle, in whole seconds, on the line between its neighbours in the bin; the bin's first value where it has no neighbours |
/// | `loess_N` | | the same on a natural spline through the values smoothed by local regression (Cleveland 1979; bandwidth 0.3, 2 robustness iterations); the first value in bins of fewer than 7. Keeps a bin's events. |
/// | `firstSample_N` `lastSample_N` `firstFill_N` `lastFill_N` | | |
/// | `ignoreflyers_N_K` `flyers_N_K` | K: standard deviations, 3 if absent | keep events within K of the bin's mean, or beyond; NaN is never kept. Keep a bin's events. |
/// | `caplotbinning_N` | | double: one or two events of a bin at their own whole second; else first, minimum, maximum and last at the bin's start and quarters |
/// | `nth_K` | K: every K-th event of the range, the first included; 900 if absent | |
/// | `ncount` | | 32-bit integer: events of the range |
/// | `optimized_P` | P: points, 1000 if absent | as they are if there are at most P; else `stats` with N = seconds of the range / P, at least 1. Keeps P events. |
/// | `optimLastSample_P` | as `optimized` | array of the five of `stats` and the last value; empty bins are (last, 0, last, last, 0, last) |
/// | `deadBand_X` | X: 1 if absent | events that differ by more than X from the last kept, or in severity, or of which one but not the other has `cnxlostepsecs`; NaN and infinities are kept, as is what follows them |
///
/// We differ from the Appliance where it is plainly wrong:
/// - `optimized` never returns an event twice or out of order (its issue 324); neither do others.
/// - `optimLastSample` and `caplotbinning` return the event before the range if the range has none (its issue 323),
///   `optimLastSample` also for ranges of fewer than P seconds, where the Appliance divides by zero, and repeats in empty
///   bins the severity of the event before them, not of the one behind.
/// - `caplotbinning` has different times for different events: nanoseconds are kept for the second of two events in one
///   second, and quarters of bins of less than 4 s.
/// - `loess` and `linear` count time from the bin's middle: seconds since 1970 squared leave a double no digits.
/// - `nth` has no limit of 2,147,483 events, and `ncount` counts nanoseconds of `from` and `to`.
/// - `max`, `stats` and others do not lose the events of a bin that two partitions of the store share.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    name: &'static str,
    kind: Kind,
    /// Whether the name ended in `Sample`: empty bins have no event.
    without_fill: bool,
    /// N, P or K.
    number: i32,
    /// K of flyers, X of a dead band.
    fraction: f64,
}

/// A PV and its operator, as in the parameter `pv` of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Name of the process variable.
    pub pv: String,
    /// The operator; `None` for the events as they are.
    pub operator: Option<Operator>,
}

/// Reason why a request cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// No operator has this name.
    UnknownOperator(String),
    /// A parameter is not what the operator takes.
    Parameter {
        /// Name of the operator.
        operator: &'static str,
        /// The parameter as it came.
        seen: String,
        /// Parameter that the operator takes.
        expected: &'static str,
    },
    /// Parentheses do not match.
    Unbalanced(String),
    /// An operator without a PV.
    NoName(String),
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestError::UnknownOperator(name) => {
                let known = OPERATORS.map(|(name, _)| name).join(", ");
                write!(
                    f,
                    "unknown operator \"{name}\": expected one of {known}, or a statistic with Sample behind its name"
                )
            }
            RequestError::Parameter { operator, seen, expected } => {
                write!(f, "operator {operator}: parameter \"{seen}\": expected {expected}")
            }
            RequestError::Unbalanced(text) => {
                write!(f, "unbalanced parentheses in \"{text}\": expected operator_N(PV)")
            }
            RequestError::NoName(text) => write!(f, "no PV in \"{text}\": expected operator_N(PV)"),
        }
    }
}

impl std::error::Error for RequestError {}

impl Request {
    /// Parses `PV`, `operator(PV)`, `operator_N(PV)` or `operator(PV,N)`.
    ///
    /// Names of PVs may have parentheses, colons and dots: an operator is what stands before the first parenthesis, if it
    /// is made of letters, digits, `_` and `.` only, and the last character closes that parenthesis. Where PVs such as
    /// `A(1)` exist, look for one with the whole name first.
    ///
    /// # Errors
    /// See [`RequestError`]. The Appliance takes an unknown operator for none and returns events as they are.
    pub fn parse(text: &str) -> Result<Request, RequestError> {
        let plain = || Ok(Request { pv: text.into(), operator: None });
        let Some((before, inner)) = text.split_once('(') else { return plain() };
        if !before.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)) || before.is_empty() {
            return plain();
        }
        let mut parts = before.split('_');
        let name = parts.next().unwrap_or_default();
        let Some(inner) = inner.strip_suffix(')').filter(|inner| is_balanced(inner)) else {
            return if find(name).is_some() { Err(RequestError::Unbalanced(text.into())) } else { plain() };
        };
        let (pv, arguments) = split_arguments(inner);
        if pv.is_empty() {
            return Err(RequestError::NoName(text.into()));
        }
        let parameters: Vec<&str> = parts.chain(arguments).collect();
        Ok(Request { pv: pv.into(), operator: Some(Operator::of(name, &parameters)?) })
    }
}

fn is_balanced(text: &str) -> bool {
    let mut open = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' => open += 1,
            b')' if open == 0 => return false,
            b')' => open -= 1,
            _ => {}
        }
    }
    open == 0
}

/// Splits numbers behind commas off a name.
fn split_arguments(inner: &str) -> (&str, Vec<&str>) {
    let (mut pv, mut arguments) = (inner, Vec::new());
    while let Some((head, tail)) = pv.rsplit_once(',') {
        if tail.trim().parse::<f64>().is_err() {
            break;
        }
        arguments.insert(0, tail.trim());
        pv = head;
    }
    (pv.trim_end(), arguments)
}

/// The operator whose name `text` begins with, and whether `Sample` follows it.
fn find(text: &str) -> Option<(&'static str, Kind, bool)> {
    OPERATORS.iter().find_map(|(name, kind)| {
        let rest = text.strip_prefix(name)?;
        let fills = matches!(kind, Kind::Statistic(_) | Kind::Optimized | Kind::OptimLastSample);
        Some((*name, *kind, fills && rest.starts_with("Sample")))
    })
}

/// An operator on events and parts of bins. See [`Operator::binned`].
#[derive(Clone, Debug, PartialEq)]
pub struct Binned {
    operator: Operator,
    points: usize,
    seconds: i32,
}

impl Binned {
    /// The operator gives events as they are if there are at most so many; 0: never.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points
    }

    /// Length of a bin.
    #[must_use]
    pub fn seconds(&self) -> i32 {
        self.seconds
    }

    /// Like [`Operator::run`]. The events of a part, from its first to its last, are in one bin and in the span.
    pub fn run<I, E>(&self, inputs: I, span: Span) -> Processed<I::IntoIter>
    where
        I: IntoIterator<Item = Result<Input, E>>,
    {
        Processed::new(inputs.into_iter(), self.operator.step(span), span)
    }
}

/// The spelling with all parameters, which [`Operator::parse`] reads.
impl std::fmt::Display for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        if self.without_fill {
            f.write_str("Sample")?;
        }
        match self.kind {
            Kind::NCount => Ok(()),
            Kind::DeadBand => write!(f, "_{}", self.fraction),
            Kind::Flyers | Kind::IgnoreFlyers => write!(f, "_{}_{}", self.number, self.fraction as f32),
            _ => write!(f, "_{}", self.number),
        }
    }
}

impl Operator {
    /// Parses `mean_60`, as in the parameter `pp` of a request.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn parse(text: &str) -> Result<Operator, RequestError> {
        let mut parts = text.split('_');
        let name = parts.next().unwrap_or_default();
        Operator::of(name, &parts.collect::<Vec<_>>())
    }

    fn of(name: &str, parameters: &[&str]) -> Result<Operator, RequestError> {
        let (name, kind, without_fill) = find(name).ok_or_else(|| RequestError::UnknownOperator(name.into()))?;
        let mut operator = Operator { name, kind, without_fill, number: INTERVAL_SECONDS, fraction: 0.0 };
        let mut parameters = parameters.iter();
        match kind {
            Kind::NCount => {}
            Kind::DeadBand => {
                let expected = "a difference of values, as 0.5";
                operator.fraction = operator.parameter(parameters.next(), 1.0, |x: &f64| *x >= 0.0, expected)?;
            }
            Kind::Optimized | Kind::OptimLastSample => {
                let expected = "a number of points from 1 on";
                operator.number = operator.parameter(parameters.next(), POINTS, |points| *points > 0, expected)?;
            }
            Kind::Nth => {
                let expected = "a number of events from 1 on";
                operator.number =
                    operator.parameter(parameters.next(), INTERVAL_SECONDS, |every| *every > 0, expected)?;
            }
            _ => {
                let expected = "seconds of a bin from 1 on";
                let seconds =
                    operator.parameter(parameters.next(), INTERVAL_SECONDS, |seconds| *seconds > 0, expected)?;
                operator.number = seconds;
            }
        }
        if matches!(kind, Kind::Flyers | Kind::IgnoreFlyers) {
            let expected = "a number of standard deviations, as 2.5";
            // The Appliance computes with a float's value.
            operator.fraction = operator.parameter(parameters.next(), DEVIATIONS, |k| *k >= 0.0, expected)?.into();
        }
        match parameters.next() {
            None => Ok(operator),
            Some(more) => Err(operator.error(more, "no further parameter")),
        }
    }

    fn parameter<T: std::str::FromStr>(
        &self,
        text: Option<&&str>,
        default: T,
        allowed: impl Fn(&T) -> bool,
        expected: &'static str,
    ) -> Result<T, RequestError> {
        let Some(text) = text else { return Ok(default) };
        text.parse().ok().filter(allowed).ok_or_else(|| self.error(text, expected))
    }

    fn error(&self, seen: &str, expected: &'static str) -> RequestError {
        RequestError::Parameter { operator: self.name, seen: seen.into(), expected }
    }

    /// The name, without parameters and without `Sample`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Processes the events of a PV.
    ///
    /// - `events`: the last event before the span, if any, then those of the span, by increasing time. An event that is
    ///   not later than the one before it, or that is after the span, is dropped. An error ends the processing.
    ///
    /// # Cost
    /// Memory: see [`Operator`]. Repeated events are made one by one, as they are taken: up to one per N seconds of
    /// the span.
    pub fn run<I, E>(&self, events: I, span: Span) -> Processed<I::IntoIter>
    where
        I: IntoIterator<Item = Result<Event, E>>,
    {
        Processed::new(events.into_iter(), self.step(span), span)
    }

    /// The operator on events that are summarised in units of time, if its bins can be made of these: statistics that need
    /// no single value. Bins of `optimized`, whose length nobody asked for, become a multiple of the unit, which is
    /// the nearest to theirs.
    ///
    /// - `unit`: seconds. Units begin at multiples of it.
    #[must_use]
    pub fn binned(&self, unit: i32, span: Span) -> Option<Binned> {
        let takes_moments = |statistic| {
            use Statistic::{Count, Deviation, ErrorBar, Jitter, Max, Mean, Min, PopulationVariance, Stats, Variance};
            matches!(
                statistic,
                Mean | Deviation | Jitter | Variance | PopulationVariance | Min | Max | Count | ErrorBar | Stats
            )
        };
        let (points, bins, statistic) = match self.kind {
            Kind::Statistic(statistic) if takes_moments(statistic) && self.number % unit == 0 => {
                return Some(Binned { operator: self.clone(), points: 0, seconds: self.number });
            }
            Kind::Optimized => (self.points(), self.optimized_bins(span), Statistic::Stats),
            _ => return None,
        };
        let seconds = (bins.seconds + i64::from(unit) / 2) / i64::from(unit) * i64::from(unit);
        let seconds = i32::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
        let operator = Operator { kind: Kind::Statistic(statistic), number: seconds, ..self.clone() };
        Some(Binned { operator, points, seconds })
    }

    fn optimized_bins(&self, span: Span) -> Bins {
        let range = i128::from(span.to.div_euclid(1_000_000_000)) - i128::from(span.from.div_euclid(1_000_000_000));
        Bins { seconds: (range / i128::from(self.number)).clamp(1, i128::from(i32::MAX)) as i64 }
    }

    fn step(&self, span: Span) -> Box<dyn Step> {
        let bins = Bins { seconds: i64::from(self.number) };
        let pick = |pick, fill| Box::new(Fills::new(bins, span, pick, fill));
        match self.kind {
            Kind::Statistic(statistic) => self.summary(statistic, span),
            Kind::Optimized => Box::new(Optimized::new(self.points(), self.optimized(Statistic::Stats, span))),
            Kind::OptimLastSample => {
                Box::new(Optimized::new(self.points(), self.optimized(Statistic::StatsAndLast, span)))
            }
            Kind::FirstSample => Box::new(FirstSample::new(bins, span)),
            Kind::LastSample => pick(Pick::Last, false),
            Kind::FirstFill => pick(Pick::First, true),
            Kind::LastFill => pick(Pick::Last, true),
            Kind::Flyers => Box::new(Flyers::new(bins, self.fraction, true)),
            Kind::IgnoreFlyers => Box::new(Flyers::new(bins, self.fraction, false)),
            Kind::NCount => Box::new(Count::new(span)),
            Kind::Nth => Box::new(Nth::new(self.points(), span)),
            Kind::CaPlotBinning => Box::new(CaPlotBinning::new(bins, span)),
            Kind::DeadBand => Box::new(DeadBand::new(self.fraction)),
        }
    }

    fn points(&self) -> usize {
        usize::try_from(self.number).unwrap_or(usize::MAX)
    }

    fn summary(&self, statistic: Statistic, span: Span) -> Box<dyn Step> {
        let empty = match statistic {
            _ if self.without_fill => Empty::Nothing,
            Statistic::Count => Empty::Zero,
            _ => Empty::Repeat,
        };
        let bins = Bins { seconds: i64::from(self.number) };
        let collector = Collector::new(statistic);
        Box::new(Summary::new(Bounds::new(bins, span, false), empty, collector))
    }

    fn optimized(&self, statistic: Statistic, span: Span) -> Summary {
        let bins = self.optimized_bins(span);
        let empty = match statistic {
            Statistic::StatsAndLast => Empty::Last,
            _ if self.without_fill => Empty::Nothing,
            _ => Empty::Repeat,
        };
        Summary::new(Bounds::new(bins, span, statistic == Statistic::StatsAndLast), empty, Collector::new(statistic))
    }
}
