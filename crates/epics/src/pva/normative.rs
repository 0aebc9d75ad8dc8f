//! Samples and metadata from structures of the normative types `NTScalar`, `NTScalarArray` and `NTEnum`.
//!
//! | field                                | becomes                                                                            |
//! |--------------------------------------|------------------------------------------------------------------------------------|
//! | `value`: number, text or array       | [`Value::Scalar`], [`Value::Array`]                                                |
//! | `value.index`, `value.choices`       | [`Scalar::Enum`], labels                                                           |
//! | `alarm.severity`                     | severity; above 3: invalid                                                         |
//! | `alarm.message`                      | status, if it is one of [`STATUS_NAMES`], as IOCs send them                        |
//! | `alarm.status`                       | otherwise status: 0, or 256 and the class (1 device, 2 driver, 3 record, ...)      |
//! | `timeStamp`                          | time; a structure without it has the time of its reception                         |
//! | `display.units`, `display.precision` | units, precision                                                                   |
//! | `display`, `control`, `valueAlarm`   | limits                                                                             |
//!
//! Integers without sign take the next larger type with sign. An array of `ulong` or a `ulong` with a number of 2^63 or more, and an
//! index that is negative or above 65535, are [`Value::Structure`]: so no value is changed. Every other structure is so too.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::data::{Data, Elements, encode_structure};
use super::types::{Fields, ScalarType, Type};
use super::wire::BitSet;
use crate::client::Annotations;
use crate::sample::{Array, Limits, Metadata, Nanos, STATUS_NAMES, Sample, Scalar, Severity, Value, ValueType};

/// Fields that a normative type of a single value may have.
const KNOWN_FIELDS: [&str; 7] = ["value", "descriptor", "alarm", "timeStamp", "display", "control", "valueAlarm"];
const NORMATIVE_IDS: [&str; 3] = ["epics:nt/NTScalar:", "epics:nt/NTScalarArray:", "epics:nt/NTEnum:"];
/// Status of the first class of PV Access that is not the name of a condition.
const STATUS_CLASS: u16 = 256;

/// A field within a field of the structure.
type Place = (usize, usize);

/// Places of the parts of a sample in structures of a type.
#[derive(Debug)]
pub struct Layout {
    fields: Arc<Fields>,
    native: ValueType,
    is_array: bool,
    /// Index of the value; `None` for another structure.
    value: Option<usize>,
    index: Option<Place>,
    choices: Option<Place>,
    severity: Option<Place>,
    status: Option<Place>,
    message: Option<Place>,
    seconds: Option<Place>,
    nanos: Option<Place>,
    user_tag: Option<Place>,
    units: Option<Place>,
    precision: Option<Place>,
    /// Lower and upper, as in [`Limits`].
    limits: [(Option<Place>, Option<Place>); 4],
    /// Fields whose change is a sample.
    sample_bits: Vec<Range<usize>>,
    /// Fields whose change is one of metadata.
    metadata_bits: Vec<Range<usize>>,
    /// Fields that are kept; `None` for all.
    wanted: Option<BitSet>,
}

impl Layout {
    /// The layout of a type.
    #[must_use]
    pub fn of(fields: Arc<Fields>) -> Layout {
        let mut layout = Layout {
            native: ValueType::Structure,
            is_array: false,
            value: None,
            index: None,
            choices: None,
            severity: place(&fields, "alarm", "severity"),
            status: place(&fields, "alarm", "status"),
            message: place(&fields, "alarm", "message"),
            seconds: place(&fields, "timeStamp", "secondsPastEpoch"),
            nanos: place(&fields, "timeStamp", "nanoseconds"),
            user_tag: place(&fields, "timeStamp", "userTag"),
            units: None,
            precision: None,
            limits: [(None, None); 4],
            sample_bits: std::iter::once(0..fields.bits()).collect(),
            metadata_bits: Vec::new(),
            wanted: None,
            fields,
        };
        layout.find_value();
        if layout.value.is_some() {
            layout.find_metadata();
        }
        layout
    }

    /// Type of the structure.
    #[must_use]
    pub fn fields(&self) -> &Arc<Fields> {
        &self.fields
    }

    /// Type of the value.
    #[must_use]
    pub fn native(&self) -> ValueType {
        self.native
    }

    /// Largest number of elements: 0, not known, for arrays.
    #[must_use]
    pub fn count(&self) -> u32 {
        if self.is_array { 0 } else { 1 }
    }

    /// Fields that are kept; `None` for all.
    #[must_use]
    pub fn wanted(&self) -> Option<&BitSet> {
        self.wanted.as_ref()
    }

    /// Whether an update of these fields is a sample.
    #[must_use]
    pub fn has_sample(&self, changed: &BitSet) -> bool {
        changed.get(0) || self.sample_bits.iter().any(|bits| changed.any_in(bits.clone()))
    }

    /// Whether an update of these fields may change metadata.
    #[must_use]
    pub fn has_metadata(&self, changed: &BitSet) -> bool {
        let all = changed.get(0) && !self.metadata_bits.is_empty();
        all || self.metadata_bits.iter().any(|bits| changed.any_in(bits.clone()))
    }

    fn find_value(&mut self) {
        let members = self.fields.members();
        let normative = NORMATIVE_IDS.iter().any(|id| self.fields.id().starts_with(id));
        if !normative && members.iter().any(|(name, _)| !KNOWN_FIELDS.contains(&&**name)) {
            return;
        }
        let Some((at, ty)) = self.fields.find("value") else { return };
        match ty {
            Type::Scalar(scalar) => self.native = native(*scalar),
            Type::BoundedText(_) => self.native = ValueType::Text,
            Type::Array(scalar, _) => {
                self.native = native(*scalar);
                self.is_array = true;
            }
            Type::Structure(inner) => {
                let index = matches!(inner.find("index"), Some((_, Type::Scalar(_))));
                let choices = matches!(inner.find("choices"), Some((_, Type::Array(ScalarType::Text, _))));
                if !(index && choices && inner.members().len() == 2) {
                    return;
                }
                self.native = ValueType::Enum;
                self.index = place(&self.fields, "value", "index");
                self.choices = place(&self.fields, "value", "choices");
            }
            _ => return,
        }
        self.value = Some(at);
    }

    fn find_metadata(&mut self) {
        let place = |outer, inner| place(&self.fields, outer, inner);
        self.units = place("display", "units");
        self.precision = place("display", "precision");
        self.limits = [
            (place("display", "limitLow"), place("display", "limitHigh")),
            (place("valueAlarm", "lowAlarmLimit"), place("valueAlarm", "highAlarmLimit")),
            (place("valueAlarm", "lowWarningLimit"), place("valueAlarm", "highWarningLimit")),
            (place("control", "limitLow"), place("control", "limitHigh")),
        ];
        let value_bits = bits_of(&self.fields, "value").unwrap_or(0..0);
        let of = |names: &[&str]| names.iter().filter_map(|name| bits_of(&self.fields, name)).collect::<Vec<_>>();
        self.sample_bits = of(&["alarm", "timeStamp"]);
        self.metadata_bits = of(&["display", "control", "valueAlarm"]);
        if let Some(choices) = self.choices {
            let bit = bit_of(&self.fields, choices);
            self.sample_bits.push(value_bits.start..bit);
            self.sample_bits.push(bit + 1..value_bits.end);
            self.metadata_bits.push(value_bits.start..value_bits.start + 1);
            self.metadata_bits.push(bit..bit + 1);
        } else {
            self.sample_bits.push(value_bits);
        }
        // They may have to be sent on as a structure.
        if !matches!(self.native, ValueType::UInt64 | ValueType::Enum) {
            let places = [self.severity, self.status, self.message, self.seconds, self.nanos, self.user_tag];
            let places = places.into_iter().chain([self.units, self.precision]);
            let limits = self.limits.iter().flat_map(|&(low, high)| [low, high]);
            let inner = places.chain(limits).flatten().map(|place| bit_of(&self.fields, place));
            self.wanted = Some(inner.chain(bits_of(&self.fields, "value").into_iter().flatten()).collect());
        }
    }

    /// The sample of a structure.
    ///
    /// - `data`: values of the fields of the layout's type.
    /// - `received`: time of a structure that has none.
    #[must_use]
    pub fn sample(&self, data: &[Data], received: Nanos) -> Sample {
        let severity = self.severity.map_or(Some(0), |place| integer(at(data, place)?)).unwrap_or(3);
        let status = self.status.and_then(|place| integer(at(data, place)?)).unwrap_or(0);
        let status = match STATUS_NAMES.iter().position(|name| *name == self.message_of(data)) {
            Some(number) => number as u16,
            None if status == 0 => 0,
            None => STATUS_CLASS + u8::try_from(status).map_or(u16::from(u8::MAX), u16::from),
        };
        Sample {
            time: self.time(data).unwrap_or(received),
            value: self.value(data).unwrap_or_else(|| Value::Structure(encode_structure(&self.fields, data))),
            severity: Severity::of(severity).unwrap_or(Severity::Invalid),
            status,
        }
    }

    /// Facts that are no part of the sample.
    #[must_use]
    pub fn annotations(&self, data: &[Data]) -> Annotations {
        let message = self.message_of(data);
        let alarm_message = if STATUS_NAMES.contains(&message) { "" } else { message };
        let user_tag = self.user_tag.and_then(|place| integer(at(data, place)?));
        let user_tag = user_tag.and_then(|tag| i32::try_from(tag).ok()).unwrap_or(0);
        Annotations { alarm_message: alarm_message.to_owned(), user_tag }
    }

    /// The metadata of a structure.
    #[must_use]
    pub fn metadata(&self, data: &[Data]) -> Metadata {
        let text = |place: Option<Place>| place.and_then(|place| text(at(data, place)?));
        let numeric = !matches!(self.native, ValueType::Text | ValueType::Enum | ValueType::Bool);
        let [display, alarm, warning, control] = self.limits.map(|(low, high)| {
            let limit = |place: Option<Place>| place.and_then(|place| number(at(data, place)?));
            (limit(low), limit(high))
        });
        let some = [display, alarm, warning, control].iter().any(|(low, high)| low.is_some() || high.is_some());
        let pair = |(low, high): (Option<f64>, Option<f64>)| (low.unwrap_or(f64::NAN), high.unwrap_or(f64::NAN));
        let precision = self.precision.and_then(|place| integer(at(data, place)?));
        Metadata {
            units: text(self.units).filter(|_| numeric).map(str::to_owned),
            precision: precision.filter(|_| numeric).and_then(|precision| i16::try_from(precision).ok()),
            limits: (some && numeric).then(|| Limits {
                display: pair(display),
                alarm: pair(alarm),
                warning: pair(warning),
                control: pair(control),
            }),
            labels: match self.choices.and_then(|place| at(data, place)) {
                Some(Data::Array(elements)) => match &**elements {
                    Elements::Text(labels) => labels.clone(),
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            },
        }
    }

    fn message_of<'d>(&self, data: &'d [Data]) -> &'d str {
        self.message.and_then(|place| text(at(data, place)?)).unwrap_or("")
    }

    fn time(&self, data: &[Data]) -> Option<Nanos> {
        let seconds = integer(at(data, self.seconds?)?)?;
        let nanos = self.nanos.and_then(|place| integer(at(data, place)?)).unwrap_or(0);
        Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// The value; `None` if it has no place in a scalar or array.
    fn value(&self, data: &[Data]) -> Option<Value> {
        if let Some(index) = self.index {
            let index = u16::try_from(integer(at(data, index)?)?).ok()?;
            return Some(Value::Scalar(Scalar::Enum(index)));
        }
        Some(Value::Scalar(match data.get(self.value?)? {
            Data::Bool(value) => Scalar::Int8((*value).into()),
            Data::Int8(value) => Scalar::Int8(*value),
            Data::Int16(value) => Scalar::Int16(*value),
            Data::Int32(value) => Scalar::Int32(*value),
            Data::Int64(value) => Scalar::Int64(*value),
            Data::UInt8(value) => Scalar::Int16((*value).into()),
            Data::UInt16(value) => Scalar::Int32((*value).into()),
            Data::UInt32(value) => Scalar::Int64((*value).into()),
            Data::UInt64(value) => Scalar::Int64(i64::try_from(*value).ok()?),
            Data::Float32(value) => Scalar::Float32(*value),
            Data::Float64(value) => Scalar::Float64(*value),
            Data::Text(value) => Scalar::Text((**value).to_owned()),
            Data::Array(elements) => return Some(Value::Array(array(elements)?)),
            _ => return None,
        }))
    }
}

/// A number for metadata that differ; unlike `==`, it takes NaN as equal to itself.
pub(super) fn hash(metadata: &Metadata) -> u64 {
    let Metadata { units, precision, limits, labels } = metadata;
    let mut hasher = DefaultHasher::new();
    (units, precision, labels).hash(&mut hasher);
    if let Some(Limits { display, alarm, warning, control }) = limits {
        for (low, high) in [display, alarm, warning, control] {
            (low.to_bits(), high.to_bits()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn native(scalar: ScalarType) -> ValueType {
    match scalar {
        ScalarType::Bool => ValueType::Bool,
        ScalarType::Int8 => ValueType::Int8,
        ScalarType::Int16 => ValueType::Int16,
        ScalarType::Int32 => ValueType::Int32,
        ScalarType::Int64 => ValueType::Int64,
        ScalarType::UInt8 => ValueType::UInt8,
        ScalarType::UInt16 => ValueType::UInt16,
        ScalarType::UInt32 => ValueType::UInt32,
        ScalarType::UInt64 => ValueType::UInt64,
        ScalarType::Float32 => ValueType::Float32,
        ScalarType::Float64 => ValueType::Float64,
        ScalarType::Text => ValueType::Text,
    }
}

fn place(fields: &Fields, outer: &str, inner: &str) -> Option<Place> {
    let (outer, ty) = fields.find(outer)?;
    let Type::Structure(fields) = ty else { return None };
    Some((outer, fields.find(inner)?.0))
}

/// Numbers of a field, and of those in it, in a bit set.
fn bits_of(fields: &Fields, name: &str) -> Option<Range<usize>> {
    let (at, ty) = fields.find(name)?;
    let start = first_bit(fields, at);
    Some(start..start + ty.bits())
}

fn bit_of(fields: &Fields, (outer, inner): Place) -> usize {
    let start = first_bit(fields, outer);
    match &fields.members()[outer].1 {
        Type::Structure(fields) => start + first_bit(fields, inner),
        _ => start,
    }
}

fn first_bit(fields: &Fields, at: usize) -> usize {
    1 + fields.members()[..at].iter().map(|(_, ty)| ty.bits()).sum::<usize>()
}

fn at(data: &[Data], (outer, inner): Place) -> Option<&Data> {
    match data.get(outer)? {
        Data::Structure(data) => data.get(inner),
        _ => None,
    }
}

fn integer(data: &Data) -> Option<i64> {
    Some(match data {
        Data::Int8(value) => (*value).into(),
        Data::Int16(value) => (*value).into(),
        Data::Int32(value) => (*value).into(),
        Data::Int64(value) => *value,
        Data::UInt8(value) => (*value).into(),
        Data::UInt16(value) => (*value).into(),
        Data::UInt32(value) => (*value).into(),
        Data::UInt64(value) => i64::try_from(*value).ok()?,
        _ => return None,
    })
}

fn number(data: &Data) -> Option<f64> {
    match data {
        Data::Float32(value) => Some((*value).into()),
        Data::Float64(value) => Some(*value),
        Data::UInt64(value) => Some(*value as f64),
        data => integer(data).map(|value| value as f64),
    }
}

fn text(data: &Data) -> Option<&str> {
    match data {
        Data::Text(text) => Some(text),
        _ => None,
    }
}

fn array(elements: &Elements) -> Option<Array> {
    Some(match elements {
        Elements::Bool(values) => Array::Int8(values.iter().map(|&value| value.into()).collect()),
        Elements::Int8(values) => Array::Int8(values.clone()),
        Elements::Int16(values) => Array::Int16(values.clone()),
        Elements::Int32(values) => Array::Int32(values.clone()),
        Elements::Int64(values) => Array::Int64(values.clone()),
        Elements::UInt8(values) => Array::Int16(values.iter().map(|&value| value.into()).collect()),
        Elements::UInt16(values) => Array::Int32(values.iter().map(|&value| value.into()).collect()),
        Elements::UInt32(values) => Array::Int64(values.iter().map(|&value| value.into()).collect()),
        Elements::UInt64(values) => {
            Array::Int64(values.iter().map(|&value| i64::try_from(value)).collect::<Result<_, _>>().ok()?)
        }
        Elements::Float32(values) => Array::Float32(values.clone()),
        Elements::Float64(values) => Array::Float64(values.clone()),
        Elements::Text(values) => Array::Text(values.clone()),
    })
}
