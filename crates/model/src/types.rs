//! The types of columns of `rows` tables, with their OIDs and names in PostgreSQL.
//!
//! A type includes its declared parameters, such as a length. PostgreSQL transmits these next to
//! the OID as the *typmod*, where -1 means none.

use std::fmt;

use crate::numeric::Precision;
use crate::other_type::OtherType;

/// Limit for n in `varchar(n)` and `char(n)`.
pub const CHARACTERS_MAX: u32 = 10_485_760;
/// PostgreSQL adds the size of a length word to most typmods.
const TYPMOD_HEADER: i32 = 4;
/// The scale of a numeric is in the lowest eleven bits of its typmod, signed.
const SCALE_BITS: u32 = 11;

/// A type of a column of a `rows` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`, `numeric(p, s)`
    Numeric(Option<Precision>),
    /// `text`
    Text,
    /// `varchar`, `varchar(n)`: at most n characters
    Varchar(Option<u32>),
    /// `char(n)`: padded to n characters, trailing blanks are insignificant; without n, `bpchar`
    Char(Option<u32>),
    /// `bytea`
    Bytes,
    /// `uuid`
    Uuid,
    /// `json`, stored as its text
    Json,
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    Timestamptz,
    /// `interval`
    Interval,
    /// Any other built-in type with values, such as `jsonb` or `integer[]`, or a type of times with a declared precision
    Other(OtherType),
}

impl Type {
    /// The OID of the type in `pg_type`.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Type::Bool => 16,
            Type::Int2 => 21,
            Type::Int4 => 23,
            Type::Int8 => 20,
            Type::Float4 => 700,
            Type::Float8 => 701,
            Type::Numeric(_) => 1700,
            Type::Text => 25,
            Type::Varchar(_) => 1043,
            Type::Char(_) => 1042,
            Type::Bytes => 17,
            Type::Uuid => 2950,
            Type::Json => 114,
            Type::Date => 1082,
            Type::Time => 1083,
            Type::Timestamp => 1114,
            Type::Timestamptz => 1184,
            Type::Interval => 1186,
            Type::Other(other) => other.oid,
        }
    }

    /// The typmod, which encodes the declared parameters.
    #[must_use]
    pub fn typmod(self) -> i32 {
        match self {
            Type::Numeric(Some(Precision { digits, scale })) => {
                (i32::from(digits) << 16 | i32::from(scale) & ((1 << SCALE_BITS) - 1)) + TYPMOD_HEADER
            }
            Type::Varchar(Some(characters)) | Type::Char(Some(characters)) => characters as i32 + TYPMOD_HEADER,
            Type::Other(other) => other.typmod,
            _ => -1,
        }
    }

    /// The type with this OID and typmod; `None` if columns cannot have it.
    #[must_use]
    pub fn from_oid(oid: u32, typmod: i32) -> Option<Type> {
        let ty = match oid {
            16 => Type::Bool,
            21 => Type::Int2,
            23 => Type::Int4,
            20 => Type::Int8,
            700 => Type::Float4,
            701 => Type::Float8,
            1700 => return Some(Type::Numeric(if typmod < 0 { None } else { Some(precision_of(typmod)?) })),
            25 => Type::Text,
            1043 => return Some(Type::Varchar(if typmod < 0 { None } else { Some(characters_of(typmod)?) })),
            1042 => return Some(Type::Char(if typmod < 0 { None } else { Some(characters_of(typmod)?) })),
            17 => Type::Bytes,
            2950 => Type::Uuid,
            114 => Type::Json,
            1082 => Type::Date,
            1083 => Type::Time,
            1114 => Type::Timestamp,
            1184 => Type::Timestamptz,
            1186 => Type::Interval,
            _ => return OtherType::new(oid, typmod).map(Type::Other),
        };
        match ty {
            _ if typmod < 0 => Some(ty),
            Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval => {
                OtherType::new(oid, typmod).map(Type::Other)
            }
            _ => None,
        }
    }

    /// The type of the same values without a declared precision, for types of times; any other type itself.
    #[must_use]
    pub fn base(self) -> Type {
        match self {
            Type::Other(OtherType { oid, typmod: 0.. }) => match oid {
                1083 => Type::Time,
                1114 => Type::Timestamp,
                1184 => Type::Timestamptz,
                1186 => Type::Interval,
                _ => self,
            },
            same => same,
        }
    }

    /// Whether it is [`Type::Other`].
    #[must_use]
    pub fn is_other(self) -> bool {
        matches!(self, Type::Other(_))
    }

    /// The SQL name without declared parameters.
    #[must_use]
    pub fn sql_name(self) -> &'static str {
        match self {
            Type::Bool => "boolean",
            Type::Int2 => "smallint",
            Type::Int4 => "integer",
            Type::Int8 => "bigint",
            Type::Float4 => "real",
            Type::Float8 => "double precision",
            Type::Numeric(_) => "numeric",
            Type::Text => "text",
            Type::Varchar(_) => "character varying",
            Type::Char(Some(_)) => "character",
            Type::Char(None) => "bpchar",
            Type::Bytes => "bytea",
            Type::Uuid => "uuid",
            Type::Json => "json",
            Type::Date => "date",
            Type::Time => "time without time zone",
            Type::Timestamp => "timestamp without time zone",
            Type::Timestamptz => "timestamp with time zone",
            Type::Interval => "interval",
            Type::Other(other) => other.sql_name(),
        }
    }

    /// Whether values have an order, so that the type can be indexed. PostgreSQL has no order for
    /// `json`, `point` and others.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        match self {
            Type::Json => false,
            Type::Other(other) => other.is_ordered(),
            _ => true,
        }
    }

    /// Number of blanks that pad `text` to the length of a `char(n)`; 0 for other types.
    #[must_use]
    pub fn padding(self, text: &str) -> usize {
        match self {
            Type::Char(Some(characters)) => (characters as usize).saturating_sub(text.chars().count()),
            _ => 0,
        }
    }
}

fn precision_of(typmod: i32) -> Option<Precision> {
    let bits = typmod.checked_sub(TYPMOD_HEADER)?;
    let unused = i32::BITS - SCALE_BITS;
    Precision::new(i64::from(bits >> 16), i64::from(bits << unused >> unused)).ok()
}

fn characters_of(typmod: i32) -> Option<u32> {
    let characters = u32::try_from(typmod.checked_sub(TYPMOD_HEADER)?).ok()?;
    (1..=CHARACTERS_MAX).contains(&characters).then_some(characters)
}

impl fmt::Display for Type {
    /// The format of `format_type`: `numeric(12,2)`, `character varying(16)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Type::Other(other) = self {
            return other.fmt(f);
        }
        f.write_str(self.sql_name())?;
        match self {
            Type::Numeric(Some(Precision { digits, scale })) => write!(f, "({digits},{scale})"),
            Type::Varchar(Some(characters)) | Type::Char(Some(characters)) => write!(f, "({characters})"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [Type; 18] = [
        Type::Bool,
        Type::Int2,
        Type::Int4,
        Type::Int8,
        Type::Float4,
        Type::Float8,
        Type::Numeric(None),
        Type::Text,
        Type::Varchar(None),
        Type::Char(None),
        Type::Bytes,
        Type::Uuid,
        Type::Json,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::Timestamptz,
        Type::Interval,
    ];

    fn numeric(digits: u16, scale: i16) -> Type {
        Type::Numeric(Some(Precision { digits, scale }))
    }

    /// The typmods are those of PostgreSQL 15 in `pg_attribute` for such columns.
    #[test]
    fn typmods_and_names_equal_postgresql() {
        for (ty, typmod, name) in [
            (numeric(12, 2), 786_438, "numeric(12,2)"),
            (numeric(5, 0), 327_684, "numeric(5,0)"),
            (numeric(3, -2), 198_658, "numeric(3,-2)"),
            (numeric(1_000, 1_000), 65_537_004, "numeric(1000,1000)"),
            (numeric(1_000, -1_000), 65_537_052, "numeric(1000,-1000)"),
            (Type::Varchar(Some(16)), 20, "character varying(16)"),
            (Type::Char(Some(24)), 28, "character(24)"),
            (Type::Char(None), -1, "bpchar"),
            (Type::Timestamptz, -1, "timestamp with time zone"),
        ] {
            assert_eq!((ty.typmod(), ty.to_string().as_str()), (typmod, name));
        }
    }

    #[test]
    fn every_type_round_trips_through_oid_and_typmod() {
        let declared = [numeric(38, 10), numeric(1, -1_000), Type::Varchar(Some(1)), Type::Char(Some(CHARACTERS_MAX))];
        for ty in PLAIN.into_iter().chain(declared) {
            assert_eq!(Type::from_oid(ty.oid(), ty.typmod()), Some(ty), "{ty}");
        }
    }

    #[test]
    fn unknown_oids_and_typmods_are_refused() {
        let cases = [
            (0, -1),
            (25, 3),
            (1_114, 7),
            (1_043, 3),
            (1_043, 4),
            (1_042, i32::MAX),
            (1_700, 4),
            (1_700, 5),
            (1_700, i32::MAX),
        ];
        for (oid, typmod) in cases {
            assert_eq!(Type::from_oid(oid, typmod), None, "{oid}, {typmod}");
        }
    }

    #[test]
    fn padding_counts_characters_not_bytes() {
        assert_eq!(Type::Char(Some(4)).padding("é"), 3);
        assert_eq!(Type::Char(Some(1)).padding("ab"), 0);
        assert_eq!(Type::Varchar(Some(4)).padding("a"), 0);
    }
}
