//! Units and conversion between them.
//!
//! Units with the same base unit convert by `base = (value + offset) · factor`, as in HAKOM TSM. A unit may have an *integral unit*: the quantity
//! that it makes in an hour, as kW make kWh. Conversion between a unit and an integral unit needs the length of each interval.

use model::{Error, Result, SqlState};

use crate::aggregation::Aggregation;
use crate::points::Points;

const NS_PER_HOUR: f64 = 3_600e9;

/// A unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Unique name, such as `kW`.
    pub name: String,
    /// Name of the base unit; the unit itself if it is one.
    pub base: String,
    /// Value in the base unit of 1 in this unit, without the offset. Not 0.
    pub factor: f64,
    /// Number that is added to a value before it is multiplied by the factor: 459.67 for °F with the base K.
    pub offset: f64,
    /// Name of the unit that this one makes in an hour.
    pub integral: Option<String>,
    /// Rule by which values of the unit are combined.
    pub aggregation: Aggregation,
}

/// Conversion of values from one unit to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversion {
    /// Power of the interval's hours by which the value is multiplied between the two linear steps: -1, 0 or 1.
    hours: i8,
    before: Linear,
    after: Linear,
}

/// `(value · multiplier + addend) / divisor`: the division keeps 1 kW = 0.001 MW exact, where a factor would be rounded twice.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linear {
    multiplier: f64,
    addend: f64,
    divisor: f64,
}

impl Linear {
    fn new(from: &Unit, to: &Unit) -> Linear {
        if from.name == to.name {
            return Linear { multiplier: 1.0, addend: 0.0, divisor: 1.0 };
        }
        let addend = from.offset * from.factor - to.offset * to.factor;
        Linear { multiplier: from.factor, addend, divisor: to.factor }
    }

    fn apply(self, value: f64) -> f64 {
        (value * self.multiplier + self.addend) / self.divisor
    }

    fn is_identity(self) -> bool {
        self.multiplier == self.divisor && self.addend == 0.0
    }
}

impl Conversion {
    /// Finds the conversion between two of the known units.
    ///
    /// # Errors
    /// 22023 if there is none.
    pub fn find(units: &[Unit], from: &Unit, to: &Unit) -> Result<Conversion> {
        if from.base == to.base {
            return Ok(Conversion { hours: 0, before: Linear::new(from, to), after: Linear::new(to, to) });
        }
        if let Some((level, quantity)) = integral_pair(units, from, to) {
            return Ok(Conversion { hours: 1, before: Linear::new(from, level), after: Linear::new(quantity, to) });
        }
        if let Some((level, quantity)) = integral_pair(units, to, from) {
            return Ok(Conversion { hours: -1, before: Linear::new(from, quantity), after: Linear::new(level, to) });
        }
        Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unit \"{}\" cannot be converted to \"{}\"", from.name, to.name),
        )
        .with_detail(format!(
            "Their base units are \"{}\" and \"{}\", and no unit of one is the integral unit of the other.",
            from.base, to.base
        )))
    }

    /// The conversion before and after the values of several intervals are combined by a rule. As much as possible comes
    /// after, because a sum of converted values is rounded more often; an offset, or a negative factor under MIN and MAX, must
    /// come before.
    #[must_use]
    pub fn split(self, rule: Aggregation) -> (Conversion, Conversion) {
        let same = Linear { multiplier: 1.0, addend: 0.0, divisor: 1.0 };
        let identity = Conversion { hours: 0, before: same, after: same };
        let (has_offset, is_negative) =
            [self.before, self.after].iter().fold((false, false), |(has_offset, is_negative), linear| {
                (has_offset | (linear.addend != 0.0), is_negative ^ (linear.multiplier / linear.divisor < 0.0))
            });
        match rule {
            Aggregation::Count => (identity, identity),
            Aggregation::Minimum | Aggregation::Maximum if is_negative => (self, identity),
            Aggregation::Sum if has_offset => (self, identity),
            _ if has_offset && self.hours != 0 => (self, identity),
            _ => (Conversion { hours: self.hours, ..identity }, Conversion { hours: 0, ..self }),
        }
    }

    /// Whether values stay as they are.
    #[must_use]
    pub fn is_identity(self) -> bool {
        self.hours == 0 && self.before.is_identity() && self.after.is_identity()
    }

    /// Whether values of an interval depend on its length.
    #[must_use]
    pub fn needs_length(self) -> bool {
        self.hours != 0
    }

    /// Converts the points of intervals.
    ///
    /// - `starts`, `ends`: of the intervals, in nanoseconds; not used unless [`Conversion::needs_length`].
    ///
    /// # Panics
    /// If intervals are needed and do not fit.
    pub fn apply(self, points: &mut Points, starts: &[i64], ends: &[i64]) {
        if self.is_identity() {
            return;
        }
        if self.hours == 0 {
            for value in &mut points.values {
                *value = self.after.apply(self.before.apply(*value));
            }
            return;
        }
        assert_eq!((starts.len(), ends.len()), (points.len(), points.len()), "intervals of the points");
        for ((value, start), end) in points.values.iter_mut().zip(starts).zip(ends) {
            let hours = (end - start) as f64 / NS_PER_HOUR;
            let level = self.before.apply(*value);
            *value = self.after.apply(if self.hours > 0 { level * hours } else { level / hours });
        }
    }
}

/// A unit with the base of `level`, and its integral unit, which has the base of `quantity`.
fn integral_pair<'a>(units: &'a [Unit], level: &Unit, quantity: &Unit) -> Option<(&'a Unit, &'a Unit)> {
    let pair = |unit: &'a Unit| {
        let integral = units.iter().find(|other| Some(&other.name) == unit.integral.as_ref())?;
        (unit.base == level.base && integral.base == quantity.base).then_some((unit, integral))
    };
    // The unit itself is the shortest way.
    units.iter().filter(|unit| unit.name == level.name).find_map(pair).or_else(|| units.iter().find_map(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::Flag;

    fn unit(name: &str, base: &str, factor: f64, offset: f64, integral: Option<&str>) -> Unit {
        let aggregation = Aggregation::Average;
        Unit {
            name: name.to_owned(),
            base: base.to_owned(),
            factor,
            offset,
            integral: integral.map(str::to_owned),
            aggregation,
        }
    }

    fn units() -> Vec<Unit> {
        vec![
            unit("W", "W", 1.0, 0.0, None),
            unit("kW", "W", 1e3, 0.0, Some("kWh")),
            unit("MW", "W", 1e6, 0.0, None),
            unit("kWh", "Wh", 1e3, 0.0, None),
            unit("MWh", "Wh", 1e6, 0.0, None),
            unit("K", "K", 1.0, 0.0, None),
            unit("°C", "K", 1.0, 273.15, None),
            unit("°F", "K", 5.0 / 9.0, 459.67, None),
        ]
    }

    fn converted(from: &str, to: &str, value: f64, hours: f64) -> Result<f64> {
        let units = units();
        let find = |name: &str| units.iter().find(|unit| unit.name == name).unwrap();
        let conversion = Conversion::find(&units, find(from), find(to))?;
        let mut points: Points = [(Some(value), Flag::Valid)].into_iter().collect();
        conversion.apply(&mut points, &[0], &[(hours * NS_PER_HOUR) as i64]);
        Ok(points.values[0])
    }

    #[test]
    fn values_are_converted_by_base_offset_and_hours() {
        for (from, to, value, hours, expected) in [
            ("kW", "MW", 4.0, 1.0, 0.004),
            ("kW", "kW", 0.1, 1.0, 0.1),
            ("MW", "W", 0.3, 1.0, 300_000.0),
            ("°C", "K", 20.0, 1.0, 293.15),
            ("kW", "kWh", 4.0, 0.25, 1.0),
            ("kW", "kWh", 4.0, 25.0, 100.0),
            ("MW", "kWh", 4.0, 0.25, 1000.0),
            ("kWh", "kW", 1.0, 0.25, 4.0),
            ("MWh", "W", 1.0, 0.5, 2e6),
        ] {
            assert_eq!(converted(from, to, value, hours).unwrap(), expected, "{value} {from} in {to}, {hours} h");
        }
        assert!((converted("°F", "°C", 212.0, 1.0).unwrap() - 100.0).abs() < 1e-9);
        let error = converted("kW", "°C", 1.0, 1.0).unwrap_err();
        assert!(error.message().contains("\"kW\" cannot be converted to \"°C\""), "{error}");
    }

    #[test]
    fn a_conversion_that_is_split_gives_the_same_values() {
        let units = units();
        let find = |name: &str| units.iter().find(|unit| unit.name == name).unwrap();
        let (starts, ends) = ([0, 900_000_000_000], [900_000_000_000, 1_800_000_000_000]);
        let points: Points = [(Some(2.0), Flag::Valid), (Some(6.0), Flag::Valid)].into_iter().collect();
        for (from, to) in [("kW", "MWh"), ("°C", "°F"), ("MWh", "kW"), ("W", "kW")] {
            let conversion = Conversion::find(&units, find(from), find(to)).unwrap();
            for rule in [Aggregation::Sum, Aggregation::Average, Aggregation::Minimum, Aggregation::Last] {
                let combined = |points: &Points| {
                    crate::conversion::convert(
                        &[0, 900_000_000_000, 1_800_000_000_000],
                        points,
                        &[0, 1_800_000_000_000],
                        rule,
                    )
                };
                let mut whole = points.clone();
                conversion.apply(&mut whole, &starts, &ends);
                let whole = combined(&whole).values[0];
                let (before, after) = conversion.split(rule);
                let mut parts = points.clone();
                before.apply(&mut parts, &starts, &ends);
                let mut parts = combined(&parts);
                after.apply(&mut parts, &[], &[]);
                assert!((parts.values[0] - whole).abs() <= 1e-12 * whole.abs(), "{from} to {to}, {rule:?}");
            }
        }
    }

    #[test]
    fn there_and_back_is_the_same_value() {
        for (from, to) in [("kW", "MWh"), ("kWh", "W"), ("MW", "W"), ("°F", "K"), ("°C", "°F")] {
            for value in [0.1, -7.25, 1e9, 3.3] {
                let there = converted(from, to, value, 0.25).unwrap();
                let back = converted(to, from, there, 0.25).unwrap();
                assert!((back - value).abs() <= 1e-12 * value.abs().max(1e3), "{value} {from} by {to}: {back}");
            }
        }
    }
}
