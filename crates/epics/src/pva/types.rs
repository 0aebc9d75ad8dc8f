//! Types of PV Access (`FieldDesc`), and the cache of types that a server announces by number.
//!
//! | first byte     | type                                                    | followed by                                          |
//! |----------------|---------------------------------------------------------|------------------------------------------------------|
//! | 0x00           | truth value                                             |                                                      |
//! | 0x20 ..= 0x23  | integer of 8, 16, 32, 64 bits                           |                                                      |
//! | 0x24 ..= 0x27  | the same without sign                                   |                                                      |
//! | 0x42, 0x43     | float of 32, 64 bits                                    |                                                      |
//! | 0x60           | text                                                    |                                                      |
//! | these + 0x08   | array of them                                           |                                                      |
//! | these + 0x10   | array with a limit                                      | size: limit                                          |
//! | these + 0x18   | array of fixed length                                   | size: length                                         |
//! | 0x80, 0x81     | structure, union                                        | id, size, and as often a name and a type             |
//! | 0x82           | anything: a type with each value                        |                                                      |
//! | 0x83           | text with a limit                                       | size: limit                                          |
//! | 0x88, 0x89     | array of structures, of unions                          | type of the elements                                 |
//! | 0x8A           | array of anything                                       |                                                      |
//! | 0xFD           | a type that gets a number                               | u16: number; the type                                |
//! | 0xFE           | the type of a number                                    | u16: number                                          |
//! | 0xFC           | as 0xFD, with a tag                                     | u16: number; i32: tag; the type                      |
//! | 0xFF           | no type                                                 |                                                      |
//!
//! Always true: a type written out has at most [`NODES_MAX`] parts in [`DEPTH_MAX`] levels, also where numbers repeat parts;
//! so whatever walks a type ends soon.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::wire::{Malformed, Reader, Writer};

/// Limit of the parts of a type: itself, its fields, their fields.
pub const NODES_MAX: usize = 1 << 14;
/// Limit of the levels of a type.
pub const DEPTH_MAX: usize = 24;
/// Limit of the parts of all types in a cache.
const CACHE_NODES_MAX: usize = 1 << 21;

pub(super) const NO_TYPE: u8 = 0xFF;
const NUMBERED: u8 = 0xFE;
const WITH_NUMBER: u8 = 0xFD;
const WITH_NUMBER_AND_TAG: u8 = 0xFC;
const STRUCTURE: u8 = 0x80;
const UNION: u8 = 0x81;
const ANY: u8 = 0x82;
const BOUNDED_TEXT: u8 = 0x83;
const ARRAY: u8 = 0x08;
const BOUNDED_ARRAY: u8 = 0x10;
const FIXED_ARRAY: u8 = 0x18;

/// The form that is expected where a number of a type is not known.
pub(super) const KNOWN_NUMBER: &str = "the number of a type that was announced before";

/// Type of a number, truth value or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ScalarType {
    Bool = 0x00,
    Int8 = 0x20,
    Int16 = 0x21,
    Int32 = 0x22,
    Int64 = 0x23,
    UInt8 = 0x24,
    UInt16 = 0x25,
    UInt32 = 0x26,
    UInt64 = 0x27,
    Float32 = 0x42,
    Float64 = 0x43,
    Text = 0x60,
}

impl ScalarType {
    /// All, by code.
    pub const ALL: [ScalarType; 12] = [
        ScalarType::Bool,
        ScalarType::Int8,
        ScalarType::Int16,
        ScalarType::Int32,
        ScalarType::Int64,
        ScalarType::UInt8,
        ScalarType::UInt16,
        ScalarType::UInt32,
        ScalarType::UInt64,
        ScalarType::Float32,
        ScalarType::Float64,
        ScalarType::Text,
    ];

    fn of(code: u8) -> Option<ScalarType> {
        ScalarType::ALL.into_iter().find(|&scalar| scalar as u8 == code)
    }

    /// Least bytes of an element in a message.
    #[must_use]
    pub fn bytes_min(self) -> usize {
        match self {
            ScalarType::Bool | ScalarType::Int8 | ScalarType::UInt8 | ScalarType::Text => 1,
            ScalarType::Int16 | ScalarType::UInt16 => 2,
            ScalarType::Int32 | ScalarType::UInt32 | ScalarType::Float32 => 4,
            ScalarType::Int64 | ScalarType::UInt64 | ScalarType::Float64 => 8,
        }
    }
}

/// Length of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Any.
    Variable,
    /// At most so many elements.
    Bounded(usize),
    /// Fixed number of elements.
    Fixed(usize),
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A number, truth value or text.
    Scalar(ScalarType),
    /// A text of limited length.
    BoundedText(usize),
    /// Numbers, truth values or texts.
    Array(ScalarType, Extent),
    /// All of these fields.
    Structure(Arc<Fields>),
    /// Structures of one type; some may be absent.
    StructureArray(Arc<Fields>),
    /// One of these fields, or none.
    Union(Arc<Fields>),
    /// Unions of one type; some may be absent.
    UnionArray(Arc<Fields>),
    /// A type with each value, or none.
    Any,
    /// The same, many times.
    AnyArray,
}

impl Type {
    /// Numbers that the type takes in the bit set of a structure: one, and one for each field of structures in it.
    #[must_use]
    pub fn bits(&self) -> usize {
        match self {
            Type::Structure(fields) => fields.bits,
            _ => 1,
        }
    }

    fn nodes(&self) -> usize {
        self.fields().map_or(1, |fields| fields.nodes)
    }

    fn depth(&self) -> usize {
        self.fields().map_or(1, |fields| fields.depth)
    }

    /// Whether values carry types.
    fn is_dynamic(&self) -> bool {
        matches!(self, Type::Any | Type::AnyArray) || self.fields().is_some_and(|fields| fields.dynamic)
    }

    fn fields(&self) -> Option<&Arc<Fields>> {
        match self {
            Type::Structure(fields) | Type::StructureArray(fields) | Type::Union(fields) | Type::UnionArray(fields) => {
                Some(fields)
            }
            _ => None,
        }
    }

    /// Reads a type; `None` for no type.
    ///
    /// # Errors
    /// The bytes are no type, or one above the limits.
    pub fn decode(reader: &mut Reader<'_>, cache: &mut TypeCache) -> Result<Option<Type>, Malformed> {
        decode(reader, cache, DEPTH_MAX)
    }

    /// Appends the type, without numbers; arrays of fixed length as those of variable length.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Type::Scalar(scalar) => writer.u8(*scalar as u8),
            Type::BoundedText(limit) => {
                writer.u8(BOUNDED_TEXT);
                writer.size(*limit);
            }
            // No element is known of an array of fixed length that never arrived: it is written as one of variable length.
            Type::Array(scalar, Extent::Variable | Extent::Fixed(_)) => writer.u8(*scalar as u8 | ARRAY),
            Type::Array(scalar, Extent::Bounded(limit)) => {
                writer.u8(*scalar as u8 | BOUNDED_ARRAY);
                writer.size(*limit);
            }
            Type::Structure(fields) => fields.encode(STRUCTURE, writer),
            Type::StructureArray(fields) => {
                writer.u8(STRUCTURE | ARRAY);
                fields.encode(STRUCTURE, writer);
            }
            Type::Union(fields) => fields.encode(UNION, writer),
            Type::UnionArray(fields) => {
                writer.u8(UNION | ARRAY);
                fields.encode(UNION, writer);
            }
            Type::Any => writer.u8(ANY),
            Type::AnyArray => writer.u8(ANY | ARRAY),
        }
    }
}

/// Fields of a structure or union.
#[derive(Debug, PartialEq)]
pub struct Fields {
    id: String,
    members: Vec<(Box<str>, Type)>,
    bits: usize,
    nodes: usize,
    depth: usize,
    dynamic: bool,
}

impl Fields {
    /// Fields with their names.
    ///
    /// - `id`: identifies the type, for example `epics:nt/NTScalar:1.0`; may be empty.
    ///
    /// Returns `None` above the limits [`NODES_MAX`] and [`DEPTH_MAX`].
    #[must_use]
    pub fn new(id: &str, members: Vec<(Box<str>, Type)>) -> Option<Arc<Fields>> {
        let types = || members.iter().map(|(_, ty)| ty);
        let bits = 1 + types().map(Type::bits).sum::<usize>();
        let nodes = 1 + types().map(Type::nodes).sum::<usize>();
        let depth = 1 + types().map(Type::depth).max().unwrap_or(0);
        let dynamic = types().any(Type::is_dynamic);
        let fields = Fields { id: id.to_owned(), members, bits, nodes, depth, dynamic };
        (nodes <= NODES_MAX && depth <= DEPTH_MAX).then(|| Arc::new(fields))
    }

    /// Identifies the type; may be empty.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Names and types.
    #[must_use]
    pub fn members(&self) -> &[(Box<str>, Type)] {
        &self.members
    }

    /// Numbers that a structure of these fields takes in a bit set.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Whether values carry types, which may have numbers of the cache.
    pub(super) fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// Index and type of a field.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(usize, &Type)> {
        self.members.iter().position(|(known, _)| **known == *name).map(|at| (at, &self.members[at].1))
    }

    fn encode(&self, code: u8, writer: &mut Writer<'_>) {
        writer.u8(code);
        writer.text(&self.id);
        writer.size(self.members.len());
        for (name, ty) in &self.members {
            writer.text(name);
            ty.encode(writer);
        }
    }
}

/// Types by the numbers that the other side gave them; one for each connection and direction.
#[derive(Debug, Default)]
pub struct TypeCache {
    types: FxHashMap<u16, Type>,
    nodes: usize,
}

impl TypeCache {
    fn insert(&mut self, number: u16, ty: &Type, reader: &Reader<'_>) -> Result<(), Malformed> {
        let nodes = self.nodes - self.types.get(&number).map_or(0, Type::nodes) + ty.nodes();
        if nodes > CACHE_NODES_MAX {
            return Err(reader.malformed("fewer or smaller types"));
        }
        self.nodes = nodes;
        self.types.insert(number, ty.clone());
        Ok(())
    }
}

fn decode(reader: &mut Reader<'_>, cache: &mut TypeCache, levels: usize) -> Result<Option<Type>, Malformed> {
    let Some(levels) = levels.checked_sub(1) else { return Err(reader.malformed("a type of fewer levels")) };
    let code = reader.u8()?;
    Ok(Some(match code {
        NO_TYPE => return Ok(None),
        NUMBERED => {
            let number = reader.u16()?;
            cache.types.get(&number).cloned().ok_or_else(|| reader.malformed(KNOWN_NUMBER))?
        }
        WITH_NUMBER | WITH_NUMBER_AND_TAG => {
            let number = reader.u16()?;
            if code == WITH_NUMBER_AND_TAG {
                reader.u32()?;
            }
            let Some(ty) = decode(reader, cache, levels)? else { return Ok(None) };
            cache.insert(number, &ty, reader)?;
            ty
        }
        STRUCTURE => Type::Structure(fields(reader, cache, levels)?),
        UNION => Type::Union(fields(reader, cache, levels)?),
        0x88 => match decode(reader, cache, levels)? {
            Some(Type::Structure(fields)) => Type::StructureArray(fields),
            _ => return Err(reader.malformed("a structure as the type of the elements")),
        },
        0x89 => match decode(reader, cache, levels)? {
            Some(Type::Union(fields)) => Type::UnionArray(fields),
            _ => return Err(reader.malformed("a union as the type of the elements")),
        },
        ANY => Type::Any,
        0x8A => Type::AnyArray,
        BOUNDED_TEXT => Type::BoundedText(reader.size()?.unwrap_or(0)),
        _ => {
            let scalar = ScalarType::of(code & !FIXED_ARRAY).ok_or_else(|| reader.malformed("the code of a type"))?;
            match code & FIXED_ARRAY {
                ARRAY => Type::Array(scalar, Extent::Variable),
                BOUNDED_ARRAY => Type::Array(scalar, Extent::Bounded(reader.size()?.unwrap_or(0))),
                FIXED_ARRAY => Type::Array(scalar, Extent::Fixed(reader.size()?.unwrap_or(0))),
                _ => Type::Scalar(scalar),
            }
        }
    }))
}

fn fields(reader: &mut Reader<'_>, cache: &mut TypeCache, levels: usize) -> Result<Arc<Fields>, Malformed> {
    let id = reader.text()?;
    let count = reader.count(2, size_of::<(Box<str>, Type)>())?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.text()?;
        let ty = decode(reader, cache, levels)?.ok_or_else(|| reader.malformed("a type of the field"))?;
        members.push((name.into(), ty));
    }
    Fields::new(&id, members).ok_or_else(|| reader.malformed("a smaller type"))
}
