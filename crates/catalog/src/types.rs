//! Types by their numbers, and the facts about them that resolution asks for.

use std::fmt;

/// A type's number in `pg_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

macro_rules! types {
    ($($name:ident = $oid:literal),* $(,)?) => {
        #[expect(missing_docs, reason = "named as in pg_type")]
        impl TypeId {
            $(pub const $name: TypeId = TypeId($oid);)*
        }
    };
}

types! {
    INVALID = 0, BOOL = 16, BYTEA = 17, CHAR = 18, NAME = 19, INT8 = 20, INT2 = 21, INT2VECTOR = 22, INT4 = 23, TEXT = 25, OID = 26, TID = 27,
    XID = 28,
    OIDVECTOR = 30, JSON = 114, POINT = 600, FLOAT4 = 700, FLOAT8 = 701, UNKNOWN = 705, BPCHAR = 1042, VARCHAR = 1043,
    DATE = 1082, TIME = 1083, TIMESTAMP = 1114, TIMESTAMPTZ = 1184, INTERVAL = 1186, TIMETZ = 1266, BIT = 1560,
    VARBIT = 1562, NUMERIC = 1700, UUID = 2950, JSONB = 3802, RECORD = 2249, CSTRING = 2275, ANY = 2276, ANYARRAY = 2277,
    VOID = 2278, ANYELEMENT = 2283, RECORD_ARRAY = 2287, ANYNONARRAY = 2776, ANYENUM = 3500, ANYRANGE = 3831,
    ANYMULTIRANGE = 4537, ANYCOMPATIBLEMULTIRANGE = 4538, ANYCOMPATIBLE = 5077, ANYCOMPATIBLEARRAY = 5078,
    ANYCOMPATIBLENONARRAY = 5079, ANYCOMPATIBLERANGE = 5080, TEXT_ARRAY = 1009, INT4_ARRAY = 1007,
    REGPROC = 24, PG_NODE_TREE = 194, REGPROCEDURE = 2202, REGCLASS = 2205, REGTYPE = 2206, REGNAMESPACE = 4089, REGROLE = 4096,
}

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TypeId {
    /// Whether it stands for whatever type the arguments have.
    #[must_use]
    pub fn is_polymorphic(self) -> bool {
        self.is_simple_polymorphic() || self.is_compatible_polymorphic()
    }

    /// Whether it stands for the type that all arguments so declared have.
    #[must_use]
    pub fn is_simple_polymorphic(self) -> bool {
        matches!(
            self,
            TypeId::ANYELEMENT
                | TypeId::ANYARRAY
                | TypeId::ANYNONARRAY
                | TypeId::ANYENUM
                | TypeId::ANYRANGE
                | TypeId::ANYMULTIRANGE
        )
    }

    /// Whether it stands for the common type of all arguments so declared.
    #[must_use]
    pub fn is_compatible_polymorphic(self) -> bool {
        matches!(
            self,
            TypeId::ANYCOMPATIBLE
                | TypeId::ANYCOMPATIBLEARRAY
                | TypeId::ANYCOMPATIBLENONARRAY
                | TypeId::ANYCOMPATIBLERANGE
                | TypeId::ANYCOMPATIBLEMULTIRANGE
        )
    }
}

/// `typtype`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A type of its own.
    Base,
    /// A row.
    Composite,
    /// Another type with constraints.
    Domain,
    /// An enumeration.
    Enum,
    /// A range of another type.
    Range,
    /// Several ranges.
    Multirange,
    /// A type of arguments and results only.
    Pseudo,
}

/// A row of `pg_type`.
#[derive(Clone, Debug)]
pub struct TypeRow {
    /// Number.
    pub id: TypeId,
    /// Name, without schema.
    pub name: &'static str,
    /// Bytes of a value; -1 if they vary.
    pub length: i16,
    /// `typtype`
    pub kind: TypeKind,
    /// `typcategory`: types of one category prefer each other.
    pub category: u8,
    /// Whether resolution prefers it to others of its category.
    pub is_preferred: bool,
    /// Type of the elements, of arrays.
    pub element: Option<TypeId>,
    /// The array of it.
    pub array: Option<TypeId>,
    /// The type that a domain constrains.
    pub base: Option<TypeId>,
}

/// The category of types that are written as text.
pub(crate) const STRING: u8 = b'S';
