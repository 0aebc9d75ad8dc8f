//! Values of PV Access, with their encoding, and structures with their type.
//!
//! | type                    | bytes                                                                        |
//! |-------------------------|------------------------------------------------------------------------------|
//! | truth value             | 0 or 1                                                                       |
//! | number                  | in the byte order of the message                                             |
//! | text                    | size, UTF-8                                                                  |
//! | array                   | size, elements; without the size if its length is fixed                      |
//! | structure               | its fields                                                                   |
//! | union                   | size: number of the field, or none; its value                                |
//! | anything                | type, value; 0xFF for none                                                   |
//! | array of the last three | size, and as often 0 for absent, or 1 and the value                          |
//!
//! An update of a structure has the fields whose bits are set. The structure itself is bit 0, its first field bit 1; a structure
//! takes its own bit and those of its fields. The bit of a structure stands for all its fields.

use std::sync::Arc;

use super::types::{Extent, Fields, NO_TYPE, ScalarType, Type, TypeCache};
use super::wire::{BitSet, Malformed, Order, Reader, Writer};

/// Limit of values in values; a union or `any` may contain itself.
const DEPTH_MAX: usize = 64;

/// Index and value of a field of a union.
pub type Choice = Box<(usize, Data)>;
/// A value with its type.
pub type Typed = Box<(Type, Data)>;

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the types")]
pub enum Data {
    Bool(bool),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    UInt8(u8),
    UInt16(u16),
    UInt32(u32),
    UInt64(u64),
    Float32(f32),
    Float64(f64),
    Text(Box<str>),
    Array(Box<Elements>),
    Structure(Box<[Data]>),
    StructureArray(Box<[Option<Box<[Data]>>]>),
    Union(Option<Choice>),
    UnionArray(Box<[Option<Choice>]>),
    Any(Option<Typed>),
    AnyArray(Box<[Option<Typed>]>),
}

/// Elements of an array.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the types")]
pub enum Elements {
    Bool(Vec<bool>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Text(Vec<String>),
}

impl Data {
    /// The value of a type that has not arrived: 0, false, empty, none.
    #[must_use]
    pub fn default_of(ty: &Type) -> Data {
        match ty {
            Type::Scalar(ScalarType::Bool) => Data::Bool(false),
            Type::Scalar(ScalarType::Int8) => Data::Int8(0),
            Type::Scalar(ScalarType::Int16) => Data::Int16(0),
            Type::Scalar(ScalarType::Int32) => Data::Int32(0),
            Type::Scalar(ScalarType::Int64) => Data::Int64(0),
            Type::Scalar(ScalarType::UInt8) => Data::UInt8(0),
            Type::Scalar(ScalarType::UInt16) => Data::UInt16(0),
            Type::Scalar(ScalarType::UInt32) => Data::UInt32(0),
            Type::Scalar(ScalarType::UInt64) => Data::UInt64(0),
            Type::Scalar(ScalarType::Float32) => Data::Float32(0.0),
            Type::Scalar(ScalarType::Float64) => Data::Float64(0.0),
            Type::Scalar(ScalarType::Text) | Type::BoundedText(_) => Data::Text(Box::default()),
            Type::Array(scalar, _) => Data::Array(Box::new(Elements::empty(*scalar))),
            Type::Structure(fields) => Data::Structure(Data::defaults(fields)),
            Type::StructureArray(_) => Data::StructureArray(Box::default()),
            Type::Union(_) => Data::Union(None),
            Type::UnionArray(_) => Data::UnionArray(Box::default()),
            Type::Any => Data::Any(None),
            Type::AnyArray => Data::AnyArray(Box::default()),
        }
    }

    /// The values of fields that have not arrived.
    #[must_use]
    pub fn defaults(fields: &Fields) -> Box<[Data]> {
        fields.members().iter().map(|(_, ty)| Data::default_of(ty)).collect()
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The bytes are not of the type.
    pub fn decode(reader: &mut Reader<'_>, ty: &Type, cache: &mut TypeCache) -> Result<Data, Malformed> {
        decode(reader, ty, cache, DEPTH_MAX)
    }

    /// Appends the value; of a type other than `ty`, nothing.
    pub fn encode(&self, ty: &Type, writer: &mut Writer<'_>) {
        match (self, ty) {
            (Data::Bool(value), _) => writer.u8((*value).into()),
            (Data::Int8(value), _) => writer.number(value.to_le_bytes()),
            (Data::Int16(value), _) => writer.number(value.to_le_bytes()),
            (Data::Int32(value), _) => writer.number(value.to_le_bytes()),
            (Data::Int64(value), _) => writer.number(value.to_le_bytes()),
            (Data::UInt8(value), _) => writer.number(value.to_le_bytes()),
            (Data::UInt16(value), _) => writer.number(value.to_le_bytes()),
            (Data::UInt32(value), _) => writer.number(value.to_le_bytes()),
            (Data::UInt64(value), _) => writer.number(value.to_le_bytes()),
            (Data::Float32(value), _) => writer.number(value.to_le_bytes()),
            (Data::Float64(value), _) => writer.number(value.to_le_bytes()),
            (Data::Text(value), _) => writer.text(value),
            (Data::Array(elements), _) => elements.encode(writer),
            (Data::Structure(data), Type::Structure(fields)) => encode_fields(data, fields, writer),
            (Data::StructureArray(elements), Type::StructureArray(fields)) => {
                encode_elements(elements, writer, |data, writer| encode_fields(data, fields, writer));
            }
            (Data::Union(value), Type::Union(fields)) => match value {
                Some(value) => encode_choice(value, fields, writer),
                None => writer.none(),
            },
            (Data::UnionArray(elements), Type::UnionArray(fields)) => {
                encode_elements(elements, writer, |value, writer| encode_choice(value, fields, writer));
            }
            (Data::Any(Some(value)), _) => encode_any(value, writer),
            (Data::Any(None), _) => writer.u8(NO_TYPE),
            (Data::AnyArray(elements), _) => {
                encode_elements(elements, writer, |value, writer| encode_any(value, writer))
            }
            _ => {}
        }
    }
}

impl Elements {
    /// No elements.
    #[must_use]
    pub fn empty(scalar: ScalarType) -> Elements {
        match scalar {
            ScalarType::Bool => Elements::Bool(Vec::new()),
            ScalarType::Int8 => Elements::Int8(Vec::new()),
            ScalarType::Int16 => Elements::Int16(Vec::new()),
            ScalarType::Int32 => Elements::Int32(Vec::new()),
            ScalarType::Int64 => Elements::Int64(Vec::new()),
            ScalarType::UInt8 => Elements::UInt8(Vec::new()),
            ScalarType::UInt16 => Elements::UInt16(Vec::new()),
            ScalarType::UInt32 => Elements::UInt32(Vec::new()),
            ScalarType::UInt64 => Elements::UInt64(Vec::new()),
            ScalarType::Float32 => Elements::Float32(Vec::new()),
            ScalarType::Float64 => Elements::Float64(Vec::new()),
            ScalarType::Text => Elements::Text(Vec::new()),
        }
    }

    fn decode(reader: &mut Reader<'_>, scalar: ScalarType, extent: Extent) -> Result<Elements, Malformed> {
        let bytes_min = scalar.bytes_min();
        let memory = if scalar == ScalarType::Text { size_of::<String>() } else { bytes_min };
        let count = match extent {
            Extent::Fixed(count) => {
                if count.checked_mul(bytes_min).is_none_or(|bytes| bytes > reader.left()) {
                    return Err(reader.malformed("as many elements as the array has"));
                }
                reader.allocate(count.saturating_mul(memory))?;
                count
            }
            Extent::Variable | Extent::Bounded(_) => reader.count(bytes_min, memory)?,
        };
        let order = reader.order();
        if scalar == ScalarType::Text {
            return Ok(Elements::Text((0..count).map(|_| reader.text()).collect::<Result<_, _>>()?));
        }
        let bytes = reader.take(count * bytes_min)?;
        Ok(match scalar {
            ScalarType::Bool => Elements::Bool(bytes.iter().map(|&byte| byte != 0).collect()),
            ScalarType::Int8 => Elements::Int8(bytes.iter().map(|&byte| byte.cast_signed()).collect()),
            ScalarType::UInt8 => Elements::UInt8(bytes.to_vec()),
            ScalarType::Int16 => Elements::Int16(numbers(bytes, order, i16::from_le_bytes)),
            ScalarType::UInt16 => Elements::UInt16(numbers(bytes, order, u16::from_le_bytes)),
            ScalarType::Int32 => Elements::Int32(numbers(bytes, order, i32::from_le_bytes)),
            ScalarType::UInt32 => Elements::UInt32(numbers(bytes, order, u32::from_le_bytes)),
            ScalarType::Int64 => Elements::Int64(numbers(bytes, order, i64::from_le_bytes)),
            ScalarType::UInt64 => Elements::UInt64(numbers(bytes, order, u64::from_le_bytes)),
            ScalarType::Float32 => Elements::Float32(numbers(bytes, order, f32::from_le_bytes)),
            ScalarType::Float64 | ScalarType::Text => Elements::Float64(numbers(bytes, order, f64::from_le_bytes)),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        fn all<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N], writer: &mut Writer<'_>) {
            writer.size(values.len());
            values.iter().for_each(|&value| writer.number(bytes(value)));
        }
        match self {
            Elements::Bool(values) => all(values, |value| [u8::from(value)], writer),
            Elements::Int8(values) => all(values, i8::to_le_bytes, writer),
            Elements::Int16(values) => all(values, i16::to_le_bytes, writer),
            Elements::Int32(values) => all(values, i32::to_le_bytes, writer),
            Elements::Int64(values) => all(values, i64::to_le_bytes, writer),
            Elements::UInt8(values) => all(values, u8::to_le_bytes, writer),
            Elements::UInt16(values) => all(values, u16::to_le_bytes, writer),
            Elements::UInt32(values) => all(values, u32::to_le_bytes, writer),
            Elements::UInt64(values) => all(values, u64::to_le_bytes, writer),
            Elements::Float32(values) => all(values, f32::to_le_bytes, writer),
            Elements::Float64(values) => all(values, f64::to_le_bytes, writer),
            Elements::Text(values) => {
                writer.size(values.len());
                values.iter().for_each(|value| writer.text(value));
            }
        }
    }
}

fn numbers<T, const N: usize>(bytes: &[u8], order: Order, of: fn([u8; N]) -> T) -> Vec<T> {
    let chunks = bytes.as_chunks::<N>().0.iter();
    match order {
        Order::Little => chunks.map(|&chunk| of(chunk)).collect(),
        Order::Big => chunks
            .map(|&(mut chunk)| {
                chunk.reverse();
                of(chunk)
            })
            .collect(),
    }
}

fn decode(reader: &mut Reader<'_>, ty: &Type, cache: &mut TypeCache, levels: usize) -> Result<Data, Malformed> {
    let Some(levels) = levels.checked_sub(1) else { return Err(reader.malformed("a value of fewer levels")) };
    Ok(match ty {
        Type::Scalar(ScalarType::Bool) => Data::Bool(reader.u8()? != 0),
        Type::Scalar(ScalarType::Int8) => Data::Int8(reader.u8()?.cast_signed()),
        Type::Scalar(ScalarType::Int16) => Data::Int16(reader.u16()?.cast_signed()),
        Type::Scalar(ScalarType::Int32) => Data::Int32(reader.u32()?.cast_signed()),
        Type::Scalar(ScalarType::Int64) => Data::Int64(reader.u64()?.cast_signed()),
        Type::Scalar(ScalarType::UInt8) => Data::UInt8(reader.u8()?),
        Type::Scalar(ScalarType::UInt16) => Data::UInt16(reader.u16()?),
        Type::Scalar(ScalarType::UInt32) => Data::UInt32(reader.u32()?),
        Type::Scalar(ScalarType::UInt64) => Data::UInt64(reader.u64()?),
        Type::Scalar(ScalarType::Float32) => Data::Float32(f32::from_bits(reader.u32()?)),
        Type::Scalar(ScalarType::Float64) => Data::Float64(f64::from_bits(reader.u64()?)),
        Type::Scalar(ScalarType::Text) | Type::BoundedText(_) => Data::Text(reader.text()?.into()),
        Type::Array(scalar, extent) => Data::Array(Box::new(Elements::decode(reader, *scalar, *extent)?)),
        Type::Structure(fields) => Data::Structure(decode_fields(reader, fields, cache, levels)?),
        Type::StructureArray(fields) => {
            Data::StructureArray(elements(reader, |reader| Ok(Some(decode_fields(reader, fields, cache, levels)?)))?)
        }
        Type::Union(fields) => Data::Union(decode_choice(reader, fields, cache, levels)?),
        Type::UnionArray(fields) => {
            Data::UnionArray(elements(reader, |reader| decode_choice(reader, fields, cache, levels))?)
        }
        Type::Any => Data::Any(decode_any(reader, cache, levels)?),
        Type::AnyArray => Data::AnyArray(elements(reader, |reader| decode_any(reader, cache, levels))?),
    })
}

fn decode_fields(
    reader: &mut Reader<'_>,
    fields: &Fields,
    cache: &mut TypeCache,
    levels: usize,
) -> Result<Box<[Data]>, Malformed> {
    reader.allocate(fields.members().len() * size_of::<Data>())?;
    fields.members().iter().map(|(_, ty)| decode(reader, ty, cache, levels)).collect()
}

fn decode_choice(
    reader: &mut Reader<'_>,
    fields: &Fields,
    cache: &mut TypeCache,
    levels: usize,
) -> Result<Option<Choice>, Malformed> {
    let Some(choice) = reader.size()? else { return Ok(None) };
    let (_, ty) = fields.members().get(choice).ok_or_else(|| reader.malformed("the number of a field of the union"))?;
    reader.allocate(size_of::<(usize, Data)>())?;
    Ok(Some(Box::new((choice, decode(reader, ty, cache, levels)?))))
}

fn decode_any(reader: &mut Reader<'_>, cache: &mut TypeCache, levels: usize) -> Result<Option<Typed>, Malformed> {
    let Some(ty) = Type::decode(reader, cache)? else { return Ok(None) };
    reader.allocate(size_of::<(Type, Data)>())?;
    let data = decode(reader, &ty, cache, levels)?;
    Ok(Some(Box::new((ty, data))))
}

/// Elements that may be absent.
fn elements<T>(
    reader: &mut Reader<'_>,
    mut element: impl FnMut(&mut Reader<'_>) -> Result<Option<T>, Malformed>,
) -> Result<Box<[Option<T>]>, Malformed> {
    let count = reader.count(1, size_of::<Option<T>>())?;
    (0..count).map(|_| if reader.u8()? == 0 { Ok(None) } else { element(reader) }).collect()
}

fn encode_fields(data: &[Data], fields: &Fields, writer: &mut Writer<'_>) {
    fields.members().iter().zip(data).for_each(|((_, ty), data)| data.encode(ty, writer));
}

fn encode_choice((choice, data): &(usize, Data), fields: &Fields, writer: &mut Writer<'_>) {
    if let Some((_, ty)) = fields.members().get(*choice) {
        writer.size(*choice);
        data.encode(ty, writer);
    }
}

fn encode_any((ty, data): &(Type, Data), writer: &mut Writer<'_>) {
    ty.encode(writer);
    data.encode(ty, writer);
}

fn encode_elements<T>(elements: &[Option<T>], writer: &mut Writer<'_>, encode: impl Fn(&T, &mut Writer<'_>)) {
    writer.size(elements.len());
    for element in elements {
        writer.u8(element.is_some().into());
        if let Some(element) = element {
            encode(element, writer);
        }
    }
}

/// Reads the fields of an update into `data`.
///
/// - `changed`: the fields that the update has.
/// - `wanted`: fields that are kept; others are read and thrown away.
///
/// # Errors
/// The bytes are not of the type. Some fields may have been read.
pub fn update(
    reader: &mut Reader<'_>,
    fields: &Fields,
    data: &mut [Data],
    changed: &BitSet,
    wanted: Option<&BitSet>,
    cache: &mut TypeCache,
) -> Result<(), Malformed> {
    update_fields(reader, fields, data, (0, false), changed, wanted, cache)
}

/// - `(bit, whole)`: number of the structure, and whether all of it is in the update.
fn update_fields(
    reader: &mut Reader<'_>,
    fields: &Fields,
    data: &mut [Data],
    (mut bit, whole): (usize, bool),
    changed: &BitSet,
    wanted: Option<&BitSet>,
    cache: &mut TypeCache,
) -> Result<(), Malformed> {
    let whole = whole || changed.get(bit);
    bit += 1;
    for ((_, ty), data) in fields.members().iter().zip(data) {
        match (ty, &mut *data) {
            (Type::Structure(inner), Data::Structure(data)) if whole || changed.any_in(bit..bit + inner.bits()) => {
                update_fields(reader, inner, data, (bit, whole), changed, wanted, cache)?;
            }
            _ if whole || changed.get(bit) => {
                let arrived = Data::decode(reader, ty, cache)?;
                if wanted.is_none_or(|wanted| wanted.get(bit)) {
                    *data = arrived;
                }
            }
            _ => {}
        }
        bit += ty.bits();
    }
    Ok(())
}

/// Appends the fields of an update.
pub fn encode_update(fields: &Fields, data: &[Data], changed: &BitSet, writer: &mut Writer<'_>) {
    encode_update_fields(fields, data, (0, false), changed, writer);
}

fn encode_update_fields(
    fields: &Fields,
    data: &[Data],
    (mut bit, whole): (usize, bool),
    changed: &BitSet,
    writer: &mut Writer<'_>,
) {
    let whole = whole || changed.get(bit);
    bit += 1;
    for ((_, ty), data) in fields.members().iter().zip(data) {
        match (ty, data) {
            (Type::Structure(inner), Data::Structure(data)) => {
                encode_update_fields(inner, data, (bit, whole), changed, writer);
            }
            _ if whole || changed.get(bit) => data.encode(ty, writer),
            _ => {}
        }
        bit += ty.bits();
    }
}

/// A structure with its type: what the bytes of [`crate::sample::Value::Structure`] mean.
///
/// The bytes are the type, as in [`super::types`] and without numbers of a cache, and the values of all its fields, as in
/// [`super::data`]; both big-endian. They can be read without anything else.
#[derive(Clone, Debug, PartialEq)]
pub struct Structure {
    /// Names and types.
    pub fields: Arc<Fields>,
    /// Values, as many as there are fields.
    pub data: Box<[Data]>,
}

impl Structure {
    /// Reads a structure.
    ///
    /// # Errors
    /// The bytes are none, or more than one.
    pub fn decode(bytes: &[u8]) -> Result<Structure, Malformed> {
        let mut reader = Reader::new(bytes, Order::Big);
        let cache = &mut TypeCache::default();
        let Some(Type::Structure(fields)) = Type::decode(&mut reader, cache)? else {
            return Err(reader.malformed("the type of a structure"));
        };
        // Values of an update are counted from the field in which they are.
        let data = decode_fields(&mut reader, &fields, cache, DEPTH_MAX + super::types::DEPTH_MAX)?;
        if reader.left() > 0 {
            return Err(reader.malformed("the end"));
        }
        Ok(Structure { fields, data })
    }

    /// The bytes of a structure.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode_structure(&self.fields, &self.data)
    }

    /// The value of a field; `path`: names of fields, with points between them.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Data> {
        let (mut fields, mut data) = (&self.fields, &self.data);
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let (at, ty) = fields.find(name)?;
            let value = data.get(at)?;
            if names.peek().is_none() {
                return Some(value);
            }
            let (Type::Structure(inner), Data::Structure(values)) = (ty, value) else { return None };
            (fields, data) = (inner, values);
        }
        None
    }
}

/// The bytes of a structure, as in [`Structure`].
pub(super) fn encode_structure(fields: &Arc<Fields>, data: &[Data]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Order::Big);
    Type::Structure(Arc::clone(fields)).encode(&mut writer);
    encode_fields(data, fields, &mut writer);
    out
}
