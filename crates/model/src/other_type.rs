//! Types of columns of `rows` tables without a variant of their own in [`Type`]: all other built-in types of PostgreSQL
//! that have values here, arrays, and types of times with a declared precision.

use std::fmt;

use crate::types::Type;
use crate::user_types;

/// A type by its OID in `pg_type` and its typmod.
///
/// Invariant: no other variant of [`Type`] is this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OtherType {
    /// OID in `pg_type`.
    pub oid: u32,
    /// Declared parameters as PostgreSQL encodes them, -1 without any.
    pub typmod: i32,
}

/// Representation of values in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// [`crate::Datum::Oid`]
    Oid,
    /// [`crate::Datum::Text`]
    Text,
    /// Any other value, by [`crate::encoding`].
    Encoded,
}

/// Order of values in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// [`crate::Datum::compare`]
    Datum,
    /// [`crate::sort_key`] only.
    Key,
    /// PostgreSQL has no B-tree operator class.
    None,
}

fn order_of(ty: Type) -> Order {
    match ty {
        Type::Other(other) => other.order(),
        Type::Json => Order::None,
        _ => Order::Datum,
    }
}

struct Row {
    oid: u32,
    /// OID of the array type.
    array: u32,
    /// Names of the type and of its array.
    names: [&'static str; 2],
    storage: Storage,
    order: Order,
    /// OID of the default B-tree operator class, 0 without order.
    operator_class: u32,
}

macro_rules! rows {
    ($($oid:literal, $array:literal, $name:literal, $storage:ident, $order:ident, $class:literal;)*) => {
        &[$(Row {
            oid: $oid,
            array: $array,
            names: [$name, concat!($name, "[]")],
            storage: Storage::$storage,
            order: Order::$order,
            operator_class: $class,
        },)*]
    };
}

/// OID, array, name, storage, order, operator class: ascending by OID. Types with a variant of [`Type`] are here for their
/// arrays.
const ROWS: &[Row] = rows! {
    16, 1000, "boolean", Encoded, Datum, 10_003;
    17, 1001, "bytea", Encoded, Datum, 10_006;
    18, 1002, "\"char\"", Text, Datum, 10_007;
    19, 1003, "name", Text, Datum, 10_028;
    20, 1016, "bigint", Encoded, Datum, 3124;
    21, 1005, "smallint", Encoded, Datum, 1979;
    22, 1006, "int2vector", Encoded, None, 0;
    23, 1007, "integer", Encoded, Datum, 1978;
    24, 1008, "regproc", Oid, Datum, 1981;
    25, 1009, "text", Encoded, Datum, 3126;
    26, 1028, "oid", Oid, Datum, 1981;
    27, 1010, "tid", Encoded, Datum, 10_050;
    28, 1011, "xid", Oid, None, 0;
    29, 1012, "cid", Oid, None, 0;
    30, 1013, "oidvector", Encoded, Key, 10_032;
    114, 199, "json", Encoded, None, 0;
    600, 1017, "point", Encoded, None, 0;
    601, 1018, "lseg", Encoded, None, 0;
    602, 1019, "path", Encoded, None, 0;
    603, 1020, "box", Encoded, None, 0;
    604, 1027, "polygon", Encoded, None, 0;
    628, 629, "line", Encoded, None, 0;
    650, 651, "cidr", Encoded, Datum, 10_015;
    700, 1021, "real", Encoded, Datum, 10_012;
    701, 1022, "double precision", Encoded, Datum, 3123;
    718, 719, "circle", Encoded, None, 0;
    774, 775, "macaddr8", Encoded, Datum, 10_026;
    790, 791, "money", Encoded, Datum, 10_047;
    829, 1040, "macaddr", Encoded, Datum, 10_024;
    869, 1041, "inet", Encoded, Datum, 10_015;
    1042, 1014, "bpchar", Encoded, Key, 10_004;
    1043, 1015, "character varying", Encoded, Datum, 3126;
    1082, 1182, "date", Encoded, Datum, 3122;
    1083, 1183, "time without time zone", Encoded, Datum, 10_038;
    1114, 1115, "timestamp without time zone", Encoded, Datum, 3128;
    1184, 1185, "timestamp with time zone", Encoded, Datum, 3127;
    1186, 1187, "interval", Encoded, Datum, 10_022;
    1266, 1270, "time with time zone", Encoded, Datum, 10_041;
    1560, 1561, "bit", Encoded, Datum, 10_002;
    1562, 1563, "bit varying", Encoded, Datum, 10_043;
    1700, 1231, "numeric", Encoded, Datum, 3125;
    2202, 2207, "regprocedure", Oid, Datum, 1981;
    2205, 2210, "regclass", Oid, Datum, 1981;
    2206, 2211, "regtype", Oid, Datum, 1981;
    2950, 2951, "uuid", Encoded, Datum, 10_065;
    3734, 3735, "regconfig", Oid, Datum, 1981;
    3769, 3770, "regdictionary", Oid, Datum, 1981;
    3802, 3807, "jsonb", Text, Key, 10_088;
    3904, 3905, "int4range", Encoded, Datum, 10_076;
    3906, 3907, "numrange", Encoded, Datum, 10_076;
    3908, 3909, "tsrange", Encoded, Datum, 10_076;
    3910, 3911, "tstzrange", Encoded, Datum, 10_076;
    3912, 3913, "daterange", Encoded, Datum, 10_076;
    3926, 3927, "int8range", Encoded, Datum, 10_076;
    4072, 4073, "jsonpath", Text, None, 0;
    4089, 4090, "regnamespace", Oid, Datum, 1981;
    4096, 4097, "regrole", Oid, Datum, 1981;
    4191, 4192, "regcollation", Oid, Datum, 1981;
    4451, 6150, "int4multirange", Encoded, Datum, 10_080;
    4532, 6151, "nummultirange", Encoded, Datum, 10_080;
    4533, 6152, "tsmultirange", Encoded, Datum, 10_080;
    4534, 6153, "tstzmultirange", Encoded, Datum, 10_080;
    4535, 6155, "datemultirange", Encoded, Datum, 10_080;
    4536, 6157, "int8multirange", Encoded, Datum, 10_080;
};

/// OID of `enum_ops`.
const ENUM_OPERATOR_CLASS: u32 = 10_069;
/// OID of `array_ops`.
const ARRAY_OPERATOR_CLASS: u32 = 10_000;
/// All fields of an interval, in the upper half of its typmod.
const INTERVAL_FULL: i32 = 0x7fff;
/// The lower half of the typmod of an interval without a declared precision.
const INTERVAL_DIGITS_NONE: i32 = 0xffff;

/// Fields of an interval, as bits of its typmod.
const INTERVAL_FIELDS: [(i32, &str); 13] = [
    (1 << 2, " year"),
    (1 << 1, " month"),
    (1 << 3, " day"),
    (1 << 10, " hour"),
    (1 << 11, " minute"),
    (1 << 12, " second"),
    (1 << 2 | 1 << 1, " year to month"),
    (1 << 3 | 1 << 10, " day to hour"),
    (1 << 3 | 1 << 10 | 1 << 11, " day to minute"),
    (1 << 3 | 1 << 10 | 1 << 11 | 1 << 12, " day to second"),
    (1 << 10 | 1 << 11, " hour to minute"),
    (1 << 10 | 1 << 11 | 1 << 12, " hour to second"),
    (1 << 11 | 1 << 12, " minute to second"),
];

fn row(oid: u32) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&oid, |row| row.oid).ok().map(|at| &ROWS[at])
}

fn row_of_element(array: u32) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.array == array)
}

impl OtherType {
    /// The type with this OID and typmod; `None` if columns cannot have it. Precondition: no variant of [`Type`] without
    /// parameters is it.
    pub(crate) fn new(oid: u32, typmod: i32) -> Option<OtherType> {
        let has_typmod = typmod >= 0;
        let of = |oid| match oid {
            1042 | 1043 | 1700 => Type::from_oid(oid, typmod).is_some(),
            1083 | 1114 | 1184 | 1266 => !has_typmod || typmod <= 6,
            1186 => !has_typmod || matches!(typmod & 0xffff, 0..=6 | INTERVAL_DIGITS_NONE),
            // `bit` is `bit(1)`, but the type of an expression has no length.
            1560 | 1562 => true,
            _ => !has_typmod,
        };
        let found = match row(oid) {
            _ if user_types::is_user(oid) => !has_typmod && !user_types::is_constrained(oid),
            Some(_) => of(oid),
            None => row_of_element(oid).is_some_and(|row| of(row.oid)),
        };
        found.then_some(OtherType { oid, typmod: typmod.max(-1) })
    }

    /// The type of the elements of an array.
    #[must_use]
    pub fn element(self) -> Option<Type> {
        if user_types::is_array(self.oid) {
            return Some(Type::Other(OtherType { oid: self.oid - 1, typmod: -1 }));
        }
        if row(self.oid).is_some() {
            return None;
        }
        Type::from_oid(row_of_element(self.oid)?.oid, self.typmod)
    }

    /// The SQL name without declared parameters.
    #[must_use]
    pub fn sql_name(self) -> &'static str {
        match (row(self.oid), row_of_element(self.oid)) {
            (Some(row), _) => row.names[0],
            // `char(n)[]` is `character[]`.
            (None, Some(row)) if row.oid == 1042 && self.typmod >= 0 => "character[]",
            (None, Some(row)) => row.names[1],
            (None, None) => user_types::name(self.oid).unwrap_or("unknown"),
        }
    }

    /// Representation of values in a row.
    #[must_use]
    pub fn storage(self) -> Storage {
        match row(self.oid) {
            Some(row) => row.storage,
            None if user_types::is_enum(self.oid) => Storage::Oid,
            None => Storage::Encoded,
        }
    }

    /// Whether PostgreSQL has an order, so that the type can be indexed.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        self.order() != Order::None
    }

    /// Whether [`crate::Datum::compare`] is the order of the type.
    #[must_use]
    pub fn is_compared_directly(self) -> bool {
        self.order() == Order::Datum
    }

    fn order(self) -> Order {
        match row(self.oid).or_else(|| row_of_element(self.oid)) {
            Some(row) => row.order,
            None => match user_types::attributes(self.oid & !1) {
                Some(attributes) => {
                    attributes.iter().map(|attribute| order_of(attribute.ty)).max().unwrap_or(Order::Datum)
                }
                None if user_types::is_user(self.oid) => Order::Datum,
                None => Order::None,
            },
        }
    }

    /// OID of PostgreSQL 15's default B-tree operator class; 0 without order.
    #[must_use]
    pub fn operator_class(self) -> u32 {
        match row(self.oid) {
            Some(row) => row.operator_class,
            None if self.storage() == Storage::Oid => ENUM_OPERATOR_CLASS,
            None if self.is_ordered() => ARRAY_OPERATOR_CLASS,
            None => 0,
        }
    }

    /// All types without declared parameters, arrays included.
    pub fn all() -> impl Iterator<Item = OtherType> {
        let oids = ROWS.iter().flat_map(|row| [row.oid, row.array]);
        oids.filter_map(|oid| match Type::from_oid(oid, -1) {
            Some(Type::Other(other)) => Some(other),
            _ => None,
        })
    }
}

impl fmt::Display for OtherType {
    /// The format of `format_type`: `timestamp(3) without time zone`, `bit(8)`, `integer[]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(element) = self.element() {
            return write!(f, "{element}[]");
        }
        let typmod = self.typmod;
        if typmod < 0 {
            // Unquoted, `bit` is `bit(1)`.
            return f.write_str(if self.oid == 1560 { "\"bit\"" } else { self.sql_name() });
        }
        match self.oid {
            1083 | 1114 | 1184 | 1266 => {
                let (name, zone) = self.sql_name().split_once(' ').unwrap_or((self.sql_name(), ""));
                write!(f, "{name}({typmod}) {zone}")
            }
            1186 => {
                let (fields, digits) = (typmod >> 16, typmod & 0xffff);
                let fields = match fields {
                    INTERVAL_FULL => "",
                    fields => INTERVAL_FIELDS.iter().find(|(bits, _)| *bits == fields).map_or("", |(_, name)| name),
                };
                write!(f, "interval{fields}")?;
                if digits == INTERVAL_DIGITS_NONE { Ok(()) } else { write!(f, "({digits})") }
            }
            _ => write!(f, "{}({typmod})", self.sql_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_arrays_are_unique() {
        assert!(ROWS.is_sorted_by(|a, b| a.oid < b.oid));
        let mut oids: Vec<_> = ROWS.iter().flat_map(|row| [row.oid, row.array]).collect();
        oids.sort_unstable();
        assert!(oids.is_sorted_by(|a, b| a < b));
    }

    /// The names are those of `format_type(oid, typmod)`.
    #[test]
    fn names_equal_postgresql() {
        for (oid, typmod, name) in [
            (3802, -1, "jsonb"),
            (1007, -1, "integer[]"),
            (1015, 14, "character varying(10)[]"),
            (1014, 14, "character(10)[]"),
            (1014, -1, "bpchar[]"),
            (1231, 655_366, "numeric(10,2)[]"),
            (1114, 3, "timestamp(3) without time zone"),
            (1184, 0, "timestamp(0) with time zone"),
            (1266, -1, "time with time zone"),
            (1266, 2, "time(2) with time zone"),
            (1186, 0x7fff_0003, "interval(3)"),
            (1186, 0x0006_ffff, "interval year to month"),
            (1186, 0x1000_0002, "interval second(2)"),
            (1560, 3, "bit(3)"),
            (1560, -1, "\"bit\""),
            (1561, -1, "\"bit\"[]"),
            (1561, 3, "bit(3)[]"),
            (1562, 5, "bit varying(5)"),
            (18, -1, "\"char\""),
            (3905, -1, "int4range[]"),
        ] {
            let ty = Type::from_oid(oid, typmod).unwrap();
            assert!(matches!(ty, Type::Other(_)), "{ty}");
            assert_eq!((ty.to_string().as_str(), ty.oid(), ty.typmod()), (name, oid, typmod));
        }
    }

    #[test]
    fn types_without_values_and_wrong_parameters_are_refused() {
        for (oid, typmod) in [(142, -1), (3614, -1), (2249, -1), (1114, 7), (3802, 1), (1007, 4), (1015, 3), (25, 5)] {
            assert_eq!(Type::from_oid(oid, typmod), None, "{oid}, {typmod}");
        }
    }
}
