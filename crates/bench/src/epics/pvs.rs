//! The population of process variables (PVs): names, classes, rates and the parameters of their
//! values, all pure functions of [`Shape`].
//!
//! The published test states neither the number of PVs nor their types. These are assumptions:
//! rates are log-normal, so that 1 % of the PVs send 40 % of the samples, and the share of each
//! class counts samples, not PVs.
//!
//! A PV may be renamed, or change its type, at one midnight: it is then two entries of the
//! population, each with the days on which it sends.
//!
//! Always true: on every day, the sum of the rates is the rate of [`Shape`], and PV 0 sends
//! [`ONE_PV_SHARE`] of it at a fixed period. The queries of one PV read PV 0.

use std::ops::Range;

use crate::generate::{at, below, draw, mix, stream, unit_interval};

/// Samples per second of the published half hour: 1,777,600 in 1,800 s.
pub(crate) const PUBLISHED_RATE: f64 = 1_777_600.0 / 1_800.0;
/// Samples that PV 0 has in a half hour, of 1,777,600: the published query of one PV, and a few
/// more, so that the end of its range is a sample.
const ONE_PV_SHARE: f64 = 133_363.0 / 1_777_600.0;
/// Standard deviation of the logarithm of the rates. With PV 0, 1 % of the PVs send 40 %.
const RATE_SIGMA: f64 = 1.94;
/// Highest rate of a PV except PV 0, in samples per second: below that of the machine's triggers.
const RATE_MAX: f64 = 50.0;
/// One PV in this number is renamed, and one changes its type, on one of the days up to [`CHANGE_DAYS`].
const CHANGED_OF: u64 = 200;
const CHANGE_DAYS: u64 = 30;
/// PVs of an IOC (input/output controller), the computer that stamps their samples.
const PVS_PER_IOC: u32 = 50;
/// Nanoseconds between two triggers of the machine, 60 Hz.
pub(super) const TRIGGER_NANOS: i64 = 16_666_667;
/// Scan periods of EPICS records, in nanoseconds.
const SCANS: [i64; 7] =
    [100_000_000, 200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000, 10_000_000_000];

/// Class of a PV: the kind of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Class {
    /// Analog input: an ADC of 12, 16 or 18 bits, scaled linearly, with a deadband.
    Analog,
    /// Result of a calc record: noise in every bit of the mantissa.
    Calc,
    /// Single precision, stored as double precision.
    Float32,
    /// Counter or heartbeat, which restarts with its IOC.
    Counter,
    /// Enumeration with 2 to 16 states.
    Enum,
    /// Raw integer of an ADC.
    Long,
    /// 64-bit integer that double precision cannot hold.
    Int64,
    /// Text.
    Text,
    /// Array of 32 to 4096 16-bit integers or single-precision numbers.
    Waveform,
}

impl Class {
    /// All classes.
    pub(crate) const ALL: [Class; 9] = [
        Class::Analog,
        Class::Calc,
        Class::Float32,
        Class::Counter,
        Class::Enum,
        Class::Long,
        Class::Int64,
        Class::Text,
        Class::Waveform,
    ];

    /// Name in reports and of the option `--classes`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Analog => "analog",
            Class::Calc => "calc",
            Class::Float32 => "float32",
            Class::Counter => "counter",
            Class::Enum => "enum",
            Class::Long => "long",
            Class::Int64 => "int64",
            Class::Text => "text",
            Class::Waveform => "waveform",
        }
    }

    /// Share of the samples.
    pub(super) fn share(self) -> f64 {
        match self {
            Class::Analog => 0.60,
            Class::Calc => 0.15,
            Class::Float32 => 0.05,
            Class::Counter => 0.08,
            Class::Enum => 0.05,
            Class::Long => 0.04,
            Class::Int64 | Class::Text | Class::Waveform => 0.01,
        }
    }

    /// Highest rate of a PV of the class, in samples per second.
    fn rate_max(self) -> f64 {
        match self {
            Class::Text | Class::Waveform => 1.0,
            Class::Enum => 2.0,
            _ => RATE_MAX,
        }
    }

    /// Class after a change of the record's type; `None` for waveforms, whose elements change.
    fn changed(self) -> Option<Class> {
        Some(match self {
            Class::Analog => Class::Calc,
            Class::Calc => Class::Float32,
            Class::Float32 => Class::Analog,
            Class::Counter => Class::Int64,
            Class::Int64 => Class::Counter,
            Class::Long => Class::Analog,
            Class::Enum => Class::Text,
            Class::Text => Class::Enum,
            Class::Waveform => return None,
        })
    }
}

/// Size and seed of the data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    /// Number of PVs, at least 1. Excluded classes count.
    pub(crate) pvs: u32,
    /// Samples per second of all classes.
    pub(crate) rate: f64,
    /// Classes to generate; the rates of the others are left out.
    pub(crate) classes: Vec<Class>,
    /// Whether clocks step, stamps are repeated or out of order, IOCs restart, and PVs are renamed or
    /// change their type.
    pub(crate) faults: bool,
}

/// Parameters of one PV, for the generator's inner loop.
#[derive(Clone, Debug)]
pub(super) struct Pv {
    /// Number in the population; the identity of its random stream.
    pub(super) number: u32,
    /// Index in [`Population::names`].
    pub(super) name: u32,
    /// Days on which it sends.
    pub(super) days: Range<u32>,
    pub(super) class: Class,
    pub(super) ioc: u32,
    /// Stamped by the timing system, with the times of triggers; otherwise by the IOC's clock.
    pub(super) by_event: bool,
    /// A beam current: 0 while there is no beam.
    pub(super) current: bool,
    /// Clock faults and restarts do not apply: PV 0, whose count per range is exact.
    pub(super) healthy: bool,
    /// Nanoseconds between two slots, in which the record is processed.
    pub(super) period: i64,
    /// Nanoseconds of slot 0 after the start of the data.
    pub(super) phase: i64,
    /// Probability that a slot yields a sample.
    pub(super) probability: f64,
    /// Coefficient of the AR(1) process from one sample to the next, and of its innovations.
    pub(super) memory: f64,
    pub(super) innovation: f64,
    /// Deadband, in standard deviations; 0: none.
    pub(super) deadband: f64,
    /// Mean and standard deviation, in steps of the ADC where there is one.
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Noise of the ADC in steps.
    pub(super) noise: f64,
    /// Linear scale from steps to the value.
    pub(super) slope: f64,
    pub(super) offset: f64,
    pub(super) raw_max: f64,
    /// Increment per slot of a counter; number of states or texts; elements of a waveform.
    pub(super) size: u32,
    /// Waveform of single-precision numbers, not 16-bit integers.
    pub(super) floats: bool,
}

impl Pv {
    /// Samples per second.
    pub(super) fn rate(&self) -> f64 {
        self.probability * 1e9 / self.period as f64
    }

    /// Type in the archiver's column `type`: the Archiver Appliance's number, and 15 for 64-bit
    /// integers.
    pub(super) fn archived_type(&self) -> i16 {
        match self.class {
            Class::Text => 0,
            Class::Waveform if !self.floats => 8,
            Class::Waveform => 9,
            Class::Float32 => 2,
            Class::Enum => 3,
            Class::Counter | Class::Long => 5,
            Class::Analog | Class::Calc => 6,
            Class::Int64 => 15,
        }
    }
}

/// The PVs to generate: in the order of their numbers, and after these, in the same order, those
/// that begin with a new name or type on a later day.
pub(super) struct Population {
    pub(super) shape: Shape,
    pub(super) pvs: Vec<Pv>,
    /// Distinct; a PV that changes its type keeps its name.
    pub(super) names: Vec<String>,
    pub(super) iocs: u32,
}

impl Population {
    pub(super) fn new(shape: &Shape) -> Population {
        let rates = rates(shape);
        let classes = classes(&rates);
        let iocs = shape.pvs.div_ceil(PVS_PER_IOC).max(1);
        let mut population = Population { shape: shape.clone(), pvs: Vec::new(), names: Vec::new(), iocs };
        let mut waveforms = 0;
        let mut later = Vec::new();
        for (number, (rate, class)) in (0..).zip(rates.into_iter().zip(classes)) {
            waveforms += u32::from(class == Class::Waveform);
            let mut first = pv(shape, number, class, rate, iocs, waveforms);
            let text = name(&first);
            if let Some(change) = change(shape, number) {
                first.days.end = change.day;
                later.push((change, first.clone(), rate, waveforms, text.clone()));
            }
            population.add(first, text);
        }
        for (change, first, rate, waveforms, text) in later {
            let class = first.class.changed().filter(|class| rate <= class.rate_max()).unwrap_or(first.class);
            let class = if change.renamed { first.class } else { class };
            let mut second = pv(shape, first.number, class, rate, iocs, waveforms);
            second.floats = first.floats ^ !change.renamed;
            second.days = change.day..u32::MAX;
            population.add(second, if change.renamed { format!("{text}2") } else { text });
        }
        population
    }

    /// Adds a PV, unless its class is excluded.
    fn add(&mut self, mut pv: Pv, name: String) {
        if !self.shape.classes.contains(&pv.class) {
            return;
        }
        // Only a PV that changes its type has a name that exists: few, so that a search is cheap.
        let known = if pv.days.start > 0 { self.names.iter().position(|known| *known == name) } else { None };
        pv.name = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }) as u32;
        self.pvs.push(pv);
    }

    /// Name of the PV at `index` of [`Population::pvs`].
    pub(super) fn name(&self, index: u32) -> &str {
        &self.names[self.pvs[index as usize].name as usize]
    }

    /// Index of the PV with the most samples: PV 0 unless its class is excluded.
    pub(super) fn busiest(&self) -> usize {
        let fastest = |a: &(usize, &Pv), b: &(usize, &Pv)| a.1.rate().total_cmp(&b.1.rate()).then(b.0.cmp(&a.0));
        self.pvs.iter().enumerate().max_by(fastest).map_or(0, |(index, _)| index)
    }

    /// Expected samples per second of the generated classes on day 0.
    pub(super) fn rate(&self) -> f64 {
        self.pvs.iter().filter(|pv| pv.days.start == 0).map(Pv::rate).sum()
    }
}

/// A PV's new name or type.
struct Change {
    /// First day with it.
    day: u32,
    renamed: bool,
}

/// The change of a PV; PV 0 has none.
fn change(shape: &Shape, number: u32) -> Option<Change> {
    let bits = at(shape.seed, 0xC4A6, u64::from(number), 0);
    let which = bits % CHANGED_OF;
    let changes = shape.faults && number > 0 && which < 2;
    changes.then(|| Change { day: 1 + below(mix(bits), CHANGE_DAYS) as u32, renamed: which == 0 })
}

/// Rates of all PVs, PV 0 first, then in descending order.
fn rates(shape: &Shape) -> Vec<f64> {
    let others = shape.pvs.saturating_sub(1) as usize;
    if others == 0 {
        return vec![shape.rate];
    }
    let first = shape.rate * ONE_PV_SHARE;
    let rest = shape.rate - first;
    let quantile = |rank: usize| 1.0 - (rank as f64 + 0.5) / others as f64;
    let shape_of = |rank: usize| (RATE_SIGMA * inverse_normal(quantile(rank))).exp();
    let mut rates: Vec<f64> = (0..others).map(shape_of).collect();
    // Cutting the highest rates leaves less than the total; each round distributes the difference.
    let rate_max = RATE_MAX.max(1.5 * rest / others as f64);
    for _ in 0..50 {
        let factor = rest / rates.iter().sum::<f64>();
        rates.iter_mut().for_each(|rate| *rate = (*rate * factor).min(rate_max));
    }
    rates.insert(0, first);
    rates
}

/// Classes by rank. Each PV gets the class that is furthest below its share of the samples, which
/// makes the shares exact to one PV.
fn classes(rates: &[f64]) -> Vec<Class> {
    let mut given = [0.0; Class::ALL.len()];
    let mut total = 0.0;
    let mut classes = Vec::with_capacity(rates.len());
    for (rank, rate) in rates.iter().enumerate() {
        total += rate;
        let missing = |class: &Class| class.share() * total - given[*class as usize];
        let allowed = Class::ALL.into_iter().filter(|class| *rate <= class.rate_max());
        let most = allowed.max_by(|a, b| missing(a).total_cmp(&missing(b))).filter(|_| rank > 0);
        let class = most.unwrap_or(Class::Analog);
        given[class as usize] += rate;
        classes.push(class);
    }
    classes
}

fn pv(shape: &Shape, number: u32, class: Class, rate: f64, iocs: u32, waveforms: u32) -> Pv {
    let numbers = stream(shape.seed, 0xE91C, u64::from(number));
    let bits = |n: u64| draw(numbers, n);
    let unit = |n: u64| unit_interval(bits(n));
    let healthy = number == 0;
    let ioc = if healthy { 0 } else { below(bits(0), u64::from(iocs)) as u32 };
    let by_event = !healthy && (unit(1) < 0.3 || rate > 10.0);
    let (period, phase) = timing(shape, healthy, by_event, rate, ioc, bits(2));
    let probability = (rate * period as f64 / 1e9).min(1.0);
    let bits_of_adc = [12_u32, 16, 18][below(bits(4), 3) as usize];
    let raw_max = f64::from((1_u32 << bits_of_adc) - 1);
    let has_adc = matches!(class, Class::Analog | Class::Long);
    // Records with a deadband post fewer samples than they process.
    let deadband = if has_adc && probability < 0.9 { 0.05 + 0.2 * unit(6) } else { 0.0 };
    // Correlation time of 10 s to an hour, but at least a few samples: slower PVs are noise. Steps
    // are larger than the deadband, which would otherwise widen the distribution.
    let tau_s = (10.0 * 360_f64.powf(unit(3))).max(3.0 / rate);
    let memory = (-1.0 / (rate * tau_s)).exp().min((1.0 - 4.0 * deadband * deadband).sqrt());
    let waveform_elements = 32 << waveforms.trailing_zeros().min(7);
    Pv {
        number,
        name: 0,
        days: 0..u32::MAX,
        class,
        ioc,
        by_event,
        healthy,
        current: class == Class::Analog && (healthy || unit(5) < 0.25),
        period,
        phase,
        probability,
        memory,
        innovation: (1.0 - memory * memory).sqrt(),
        deadband,
        mean: if has_adc { raw_max * (0.3 + 0.4 * unit(7)) } else { 1_000.0 * (unit(7) - 0.3) },
        deviation: if has_adc { raw_max * (0.002 + 0.02 * unit(8)) } else { 1.0 + 50.0 * unit(8) },
        noise: if has_adc { 0.5 + f64::from(bits_of_adc - 12) * 0.4 } else { 0.0 },
        slope: 20.0 * (0.3 + unit(9)) / raw_max,
        offset: -5.0 * unit(10),
        raw_max,
        size: match class {
            Class::Counter if unit(11) < 0.6 => 1,
            Class::Counter => 1 + below(bits(12), 5_000) as u32,
            Class::Enum => [2, 2, 3, 4, 8, 16][below(bits(12), 6) as usize],
            Class::Waveform => waveform_elements,
            _ => 4 + below(bits(12), 12) as u32,
        },
        floats: bits(13) & 1 == 1,
    }
}

/// Period and phase in nanoseconds.
fn timing(shape: &Shape, healthy: bool, by_event: bool, rate: f64, ioc: u32, bits: u64) -> (i64, i64) {
    if healthy {
        return (((1e9 / rate) as i64).max(1), 3_000_000);
    }
    let longest = (1e9 / rate) as i64;
    let fitting = SCANS.iter().take_while(|scan| **scan <= longest).count();
    // Rates between two periods use the longer one that fits; slow PVs any of the last three.
    let scan = SCANS[fitting.saturating_sub(1 + below(bits, 3).min(fitting as u64) as usize).min(SCANS.len() - 1)];
    let of_ioc = at(shape.seed, 0x10C, u64::from(ioc), scan as u64);
    if !by_event {
        return (scan, below(of_ioc, scan as u64) as i64);
    }
    let triggers = if rate > 10.0 { 1 } else { (scan / TRIGGER_NANOS).max(1) };
    (triggers * TRIGGER_NANOS, below(of_ioc, triggers as u64) as i64 * TRIGGER_NANOS)
}

const SYSTEMS: [&str; 8] = ["Ring", "Linac", "RTBT", "HEBT", "Tgt", "CHL", "SCL", "Inj"];

fn name(pv: &Pv) -> String {
    let system = SYSTEMS[pv.ioc as usize % SYSTEMS.len()];
    let signal = match pv.class {
        Class::Analog if pv.current => "I",
        Class::Analog => "T",
        Class::Calc => "Calc",
        Class::Float32 => "P",
        Class::Counter => "Cnt",
        Class::Enum => "Sts",
        Class::Long => "Raw",
        Class::Int64 => "Id",
        Class::Text => "Msg",
        Class::Waveform => "Wf",
    };
    format!("{system}_{}{:03}:D{:05}:{signal}", &signal[..1], pv.ioc, pv.number)
}

/// Quantile of the normal distribution for 0 < p < 1, with a relative error below 1.2e-9.
///
/// Source: P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution
/// function", 2003.
fn inverse_normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.383_577_518_672_69e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] =
        [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    match p {
        low if low < 0.02425 => tail(low),
        high if high > 1.0 - 0.02425 => -tail(1.0 - high),
        middle => {
            let q = middle - 0.5;
            let r = q * q;
            polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pvs: u32) -> Shape {
        Shape { seed: 1, pvs, rate: PUBLISHED_RATE, classes: Class::ALL.to_vec(), faults: true }
    }

    #[test]
    fn rates_sum_to_the_total_and_one_percent_of_the_pvs_send_forty_percent() {
        for pvs in [1_000, 10_000, 50_000] {
            let population = Population::new(&shape(pvs));
            let total = population.rate();
            assert!((total / PUBLISHED_RATE - 1.0).abs() < 0.002, "{pvs}: {total}");
            let first = population.pvs.iter().filter(|pv| pv.days.start == 0);
            let mut rates: Vec<f64> = first.map(Pv::rate).collect();
            rates.sort_unstable_by(|a, b| b.total_cmp(a));
            let top: f64 = rates[..pvs as usize / 100].iter().sum();
            assert!((0.32..0.45).contains(&(top / total)), "{pvs}: {}", top / total);
            assert_eq!(population.busiest(), 0);
            assert!((population.pvs[0].rate() * 1_800.0 - 133_363.0).abs() < 3.0);
        }
    }

    #[test]
    fn shares_of_the_classes_are_those_declared() {
        assert!((Class::ALL.iter().map(|class| class.share()).sum::<f64>() - 1.0).abs() < 1e-9);
        for pvs in [1_000, 10_000] {
            let population = Population::new(&shape(pvs));
            for class in Class::ALL {
                let of_class = population.pvs.iter().filter(|pv| pv.class == class && pv.days.start == 0);
                let share = of_class.map(Pv::rate).sum::<f64>() / population.rate();
                assert!((share - class.share()).abs() < 0.01, "{pvs} {}: {share}", class.name());
                assert!(share > 0.5 * class.share(), "{pvs} {}: {share}", class.name());
            }
        }
    }

    #[test]
    fn names_are_distinct_and_excluded_classes_leave_the_others_unchanged() {
        let all = Population::new(&shape(2_000));
        let mut names = all.names.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.names.len());
        let some = Population::new(&Shape { classes: vec![Class::Enum, Class::Text], ..shape(2_000) });
        let described = |population: &Population, pv: &Pv| {
            (pv.number, pv.class, pv.days.clone(), population.names[pv.name as usize].clone())
        };
        let expected = all.pvs.iter().filter(|pv| [Class::Enum, Class::Text].contains(&pv.class));
        let expected = expected.map(|pv| described(&all, pv));
        assert!(some.pvs.iter().map(|pv| described(&some, pv)).eq(expected));
    }

    #[test]
    fn a_changed_pv_sends_each_day_under_one_name_and_type() {
        let population = Population::new(&shape(10_000));
        let later: Vec<&Pv> = population.pvs.iter().filter(|pv| pv.days.start > 0).collect();
        let renamed = later.iter().filter(|pv| population.names[pv.name as usize].ends_with('2')).count();
        assert!((30..80).contains(&renamed), "{renamed} renamed");
        assert_eq!(population.names.len(), 10_000 + renamed);
        assert!((30..80).contains(&(later.len() - renamed)), "{} with another type", later.len() - renamed);
        for second in later {
            let first = &population.pvs[second.number as usize];
            assert_eq!((first.number, first.days.end), (second.number, second.days.start));
            let same_type = first.class == second.class && first.floats == second.floats;
            assert_eq!(first.name == second.name, !same_type, "{second:?}");
            assert_eq!(first.rate(), second.rate());
        }
        let without = Population::new(&Shape { faults: false, ..shape(10_000) });
        assert!(without.pvs.len() == 10_000 && without.names.len() == 10_000);
    }
}
