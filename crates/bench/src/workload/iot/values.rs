//! Values of a sensor by slot.

use crate::config::{Config, Function, Numeric, Shape};
use crate::error::{Error, Result};
use crate::generate::{at, below, draw, mix, stream, unit_interval};
use crate::java_random::JavaRandom;
use crate::schema::{Kind, POWERS};

/// Streams of random numbers that assign functions to sensors.
const CLASS: u64 = u64::MAX - 3;
const ENTRY: u64 = u64::MAX - 4;
/// Number of intervals in the sine table.
const SINE_POINTS: usize = 4_096;

/// Generator of a sensor's values, the same for all devices.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) kind: Kind,
    function: Function,
    convert: Convert,
    /// Factor from slots to periods of the function.
    periods_per_slot: f64,
}

/// Conversion from a number to units.
#[derive(Clone, Copy, Debug)]
enum Convert {
    /// Multiply by this factor and round.
    Round(f64),
    /// Truncate to an integer within these bounds.
    Trunc(i64, i64),
    /// Boolean: whether the number is greater than this.
    Above(f64),
    /// Days: the low 16 bits.
    Day,
    /// Texts are random, not computed from a function.
    Text,
}

/// Sources of all sensors of a device, by index.
pub(super) fn sources(config: &Config) -> Result<Vec<Source>> {
    let count = config.sensor_number;
    if count > 1 << 20 {
        return Err(Error::setup(format!("SENSOR_NUMBER={count}: expected at most {}", 1 << 20)));
    }
    if config.double_length > 9 {
        return Err(Error::setup(format!("DOUBLE_LENGTH={}: expected at most 9 decimals", config.double_length)));
    }
    let (catalogue, _) = config.functions().map_err(|error| Error::setup(error.to_string()))?;
    let kinds = kinds(config)?;
    let mut classes = JavaRandom::new(config.data_seed);
    let source = |sensor: u64| {
        let u =
            if config.compat { classes.double() } else { unit_interval(at(config.data_seed as u64, CLASS, sensor, 0)) };
        let function = function(config, &catalogue, sensor, class(config, u))?;
        let kind = kinds[sensor as usize];
        let convert = convert(kind, &function)?;
        let cycle = if function.shape == Shape::Sin { function.cycle * 1_000.0 } else { function.cycle };
        // Periods are in milliseconds of the default precision. With other precisions the same
        // number counts in their unit, as in the original.
        Ok(Source { kind, convert, periods_per_slot: config.point_step as f64 / cycle, function })
    };
    (0..count).map(source).collect()
}

/// Types of all sensors: each type is a contiguous range whose size follows its share.
fn kinds(config: &Config) -> Result<Vec<Kind>> {
    let decimals = config.double_length as u8;
    let length = u16::try_from(config.string_length)
        .map_err(|_| Error::setup(format!("STRING_LENGTH={}: expected at most 65535", config.string_length)))?;
    let object = u16::try_from(config.object_length)
        .map_err(|_| Error::setup(format!("OBJECT_LENGTH={}: expected at most 65535", config.object_length)))?;
    let kinds = [
        Kind::Bool,
        Kind::Int32,
        Kind::Int64,
        Kind::Float { decimals },
        Kind::Double { decimals },
        Kind::Text { length },
        Kind::String { length },
        Kind::Blob { length },
        Kind::Timestamp,
        Kind::Date,
        Kind::Blob { length: object },
    ];
    let shares = &config.insert_datatype_proportion;
    let sum: f64 = shares.iter().sum();
    if sum <= 0.0 {
        return Err(Error::setup("INSERT_DATATYPE_PROPORTION: expected at least one share above 0".to_owned()));
    }
    let of = |sensor: u64| {
        let place = (sensor + 1) as f64 / config.sensor_number as f64;
        let mut reached = 0.0;
        for (kind, share) in kinds.iter().zip(shares) {
            reached += share / sum;
            // Sums of shares may differ from 1 by a rounding error.
            if *share > 0.0 && place <= reached + 1e-9 {
                return *kind;
            }
        }
        kinds[shares.iter().rposition(|share| *share > 0.0).unwrap_or(0)]
    };
    Ok((0..config.sensor_number).map(of).collect())
}

fn class(config: &Config, u: f64) -> Shape {
    let ratios = [
        (Shape::Constant, config.constant_ratio),
        (Shape::Line, config.line_ratio),
        (Shape::Random, config.random_ratio),
        (Shape::Sin, config.sin_ratio),
        (Shape::Square, config.square_ratio),
    ];
    let sum: f64 = ratios.iter().map(|(_, ratio)| ratio).sum();
    let mut reached = 0.0;
    for (shape, ratio) in ratios {
        reached += ratio / sum;
        if ratio > 0.0 && u <= reached + 1e-12 {
            return shape;
        }
    }
    Shape::Random
}

fn function(config: &Config, catalogue: &[Function], sensor: u64, shape: Shape) -> Result<Function> {
    let entries: Vec<&Function> = catalogue.iter().filter(|function| function.shape == shape).collect();
    if entries.is_empty() {
        return Err(Error::setup(format!("function.xml has no {shape:?}, but its ratio is above 0")));
    }
    let index = if config.compat {
        // The first draws of similar seeds are nearly equal, so the original uses few of its
        // functions.
        let mut random = JavaRandom::new(config.data_seed + 1 + sensor as i64);
        (random.double() * entries.len() as f64) as usize
    } else {
        below(at(config.data_seed as u64, ENTRY, sensor, 0), entries.len() as u64) as usize
    };
    Ok(entries[index.min(entries.len() - 1)].clone())
}

fn convert(kind: Kind, function: &Function) -> Result<Convert> {
    Ok(match kind {
        Kind::Bool => Convert::Above((function.max + function.min) / 2.0),
        Kind::Int32 => Convert::Trunc(i32::MIN.into(), i32::MAX.into()),
        Kind::Int64 | Kind::Timestamp => Convert::Trunc(i64::MIN, i64::MAX),
        Kind::Float { decimals } | Kind::Double { decimals } => {
            let scale = POWERS[usize::from(decimals)];
            let largest = function.max.abs().max(function.min.abs()) * scale;
            if largest >= (1u64 << 53) as f64 {
                return Err(Error::setup(format!(
                    "DOUBLE_LENGTH={decimals}: values up to {} with that many decimals are not exact in 64 bits",
                    function.max
                )));
            }
            Convert::Round(scale)
        }
        Kind::Date => Convert::Day,
        Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. } => Convert::Text,
    })
}

impl Source {
    /// Computes the units at `slots`. Cost: a few nanoseconds for each value.
    pub(super) fn fill(&self, seed: u64, device: u64, field: u64, slots: &[u64], out: &mut [i64]) {
        let stream = stream(seed, device, field);
        let values = slots.iter().zip(out);
        if matches!(self.convert, Convert::Text) {
            return values.for_each(|(slot, out)| *out = draw(stream, *slot) as i64);
        }
        let Function { shape, min, max, .. } = self.function;
        let width = max - min;
        // Each device has a different phase.
        let phase = unit_interval(mix(stream));
        let part = |slot: u64| {
            let periods = slot as f64 * self.periods_per_slot + phase;
            periods - (periods as u64) as f64
        };
        match shape {
            Shape::Constant => {
                let units = self.units(min);
                values.for_each(|(_, out)| *out = units);
            }
            Shape::Random => {
                values.for_each(|(slot, out)| *out = self.units(min + unit_interval(draw(stream, *slot)) * width));
            }
            Shape::Line => values.for_each(|(slot, out)| *out = self.units(min + part(*slot) * width)),
            Shape::Square => {
                let (low, high) = (self.units(min), self.units(max));
                values.for_each(|(slot, out)| *out = if part(*slot) < 0.5 { high } else { low });
            }
            Shape::Sin => {
                let half = width / 2.0;
                values.for_each(|(slot, out)| *out = self.units(half * sine(part(*slot)) + half + min));
            }
        }
    }

    /// Computes units like the original: values repeat after `WORKLOAD_BUFFER_SIZE`, and device d
    /// reads them with stride d + 1.
    pub(super) fn fill_compat(
        &self,
        config: &Config,
        start: i64,
        step: i64,
        device: u64,
        slots: &[u64],
        out: &mut [i64],
    ) {
        let buffer = config.workload_buffer_size;
        let per_unit = self.periods_per_slot / config.point_step as f64;
        let stream = stream(config.data_seed as u64, u64::MAX, self.kind.decimals().into());
        for (slot, out) in slots.iter().zip(out) {
            let index = (u128::from(*slot) * u128::from(device + 1) % u128::from(buffer)) as u64;
            if matches!(self.convert, Convert::Text) {
                *out = draw(stream, index) as i64;
                continue;
            }
            let Function { shape, min, max, .. } = self.function;
            let periods = (start + step * (index as i64 + 1)) as f64 * per_unit;
            let part = periods - periods.floor();
            let value = match shape {
                Shape::Constant => min,
                Shape::Random => min + unit_interval(draw(stream, index)) * (max - min),
                Shape::Line => min + part * (max - min),
                Shape::Square => {
                    if part < 0.5 {
                        max
                    } else {
                        min
                    }
                }
                Shape::Sin => (max - min) / 2.0 * (sine(part) + 1.0) + min,
            };
            *out = self.units(value);
        }
    }

    #[inline]
    fn units(&self, value: f64) -> i64 {
        let value = match self.function.numeric {
            Numeric::Int => (value as i64) as f64,
            Numeric::Float => f64::from(value as f32),
            Numeric::Double => value,
        };
        match self.convert {
            Convert::Round(scale) => {
                let scaled = value * scale;
                (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i64
            }
            Convert::Trunc(least, greatest) => (value as i64).clamp(least, greatest),
            Convert::Above(middle) => i64::from(value > middle),
            Convert::Day => i64::from(value as i64 as i16),
            Convert::Text => 0,
        }
    }
}

/// Sine of a fraction of a period, 0 ..< 1, by linear interpolation in a table: the error is below
/// 3e-7, and the bits are the same on every machine, which the standard library's sine does not
/// guarantee.
#[inline]
fn sine(part: f64) -> f64 {
    static TABLE: std::sync::LazyLock<Vec<f64>> = std::sync::LazyLock::new(|| {
        let point = |n: usize| (n as f64 * std::f64::consts::TAU / SINE_POINTS as f64).sin();
        // Rounded to 2^-40, far coarser than differences between libraries.
        (0..=SINE_POINTS).map(|n| (point(n) * (1u64 << 40) as f64).round() / (1u64 << 40) as f64).collect()
    });
    let table = &*TABLE;
    let place = part * SINE_POINTS as f64;
    let n = (place as usize).min(SINE_POINTS - 1);
    table[n] + (table[n + 1] - table[n]) * (place - n as f64)
}

#[cfg(test)]
impl Source {
    /// Returns whether the values spread over more than 10 units.
    pub(super) fn wide(&self) -> bool {
        self.function.max - self.function.min > 10.0
    }
}
