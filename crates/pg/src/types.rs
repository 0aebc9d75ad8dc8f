//! Types that clients see: OIDs, names, lengths and array types, as in PostgreSQL 15's `pg_type`.

/// Object identifier: here, a type's key in `pg_type`.
pub type Oid = u32;

/// Format of a value on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Text, as `psql` prints it.
    #[default]
    Text,
    /// Binary, as written by the type's send function, big-endian.
    Binary,
}

impl Form {
    /// Format code in protocol messages.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Form::Text => 0,
            Form::Binary => 1,
        }
    }
}

/// A row of `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type's OID.
    pub oid: Oid,
    /// `typname`.
    pub name: &'static str,
    /// `typlen`: bytes of the binary format; -1: variable, -2: C string.
    pub len: i16,
    /// `typarray`: the array type of this type; 0 if there is none.
    pub array: Oid,
    /// `typelem`: the element type; 0 if this is not an array.
    pub element: Oid,
}

macro_rules! types {
    ($($id:ident = $oid:literal, $name:literal, $len:literal, $array:literal $(, $array_name:literal)?;)*) => {
        /// OIDs by type name.
        pub mod oid {
            use super::Oid;
            $(#[doc = concat!("`", $name, "`")] pub const $id: Oid = $oid;)*
        }

        /// All scalar types, sorted by OID.
        const SCALARS: &[Type] = &[$(Type { oid: $oid, name: $name, len: $len, array: $array, element: element($oid) },)*];
        /// All array types.
        const ARRAYS: &[Type] = &[$($(Type { oid: $array, name: $array_name, len: -1, array: 0, element: $oid },)?)*];
    };
}

types! {
    BOOL = 16, "bool", 1, 1000, "_bool";
    BYTEA = 17, "bytea", -1, 1001, "_bytea";
    CHAR = 18, "char", 1, 1002, "_char";
    NAME = 19, "name", 64, 1003, "_name";
    INT8 = 20, "int8", 8, 1016, "_int8";
    INT2 = 21, "int2", 2, 1005, "_int2";
    INT2VECTOR = 22, "int2vector", -1, 1006, "_int2vector";
    INT4 = 23, "int4", 4, 1007, "_int4";
    REGPROC = 24, "regproc", 4, 1008, "_regproc";
    TEXT = 25, "text", -1, 1009, "_text";
    OID = 26, "oid", 4, 1028, "_oid";
    TID = 27, "tid", 6, 1010, "_tid";
    XID = 28, "xid", 4, 1011, "_xid";
    CID = 29, "cid", 4, 1012, "_cid";
    OIDVECTOR = 30, "oidvector", -1, 1013, "_oidvector";
    JSON = 114, "json", -1, 199, "_json";
    PG_NODE_TREE = 194, "pg_node_tree", -1, 0;
    POINT = 600, "point", 16, 1017, "_point";
    LSEG = 601, "lseg", 32, 1018, "_lseg";
    PATH = 602, "path", -1, 1019, "_path";
    BOX = 603, "box", 32, 1020, "_box";
    POLYGON = 604, "polygon", -1, 1027, "_polygon";
    LINE = 628, "line", 24, 629, "_line";
    CIDR = 650, "cidr", -1, 651, "_cidr";
    FLOAT4 = 700, "float4", 4, 1021, "_float4";
    FLOAT8 = 701, "float8", 8, 1022, "_float8";
    UNKNOWN = 705, "unknown", -2, 0;
    CIRCLE = 718, "circle", 24, 719, "_circle";
    MACADDR8 = 774, "macaddr8", 8, 775, "_macaddr8";
    MONEY = 790, "money", 8, 791, "_money";
    MACADDR = 829, "macaddr", 6, 1040, "_macaddr";
    INET = 869, "inet", -1, 1041, "_inet";
    ACLITEM = 1033, "aclitem", 12, 1034, "_aclitem";
    BPCHAR = 1042, "bpchar", -1, 1014, "_bpchar";
    VARCHAR = 1043, "varchar", -1, 1015, "_varchar";
    DATE = 1082, "date", 4, 1182, "_date";
    TIME = 1083, "time", 8, 1183, "_time";
    TIMESTAMP = 1114, "timestamp", 8, 1115, "_timestamp";
    TIMESTAMPTZ = 1184, "timestamptz", 8, 1185, "_timestamptz";
    INTERVAL = 1186, "interval", 16, 1187, "_interval";
    TIMETZ = 1266, "timetz", 12, 1270, "_timetz";
    BIT = 1560, "bit", -1, 1561, "_bit";
    VARBIT = 1562, "varbit", -1, 1563, "_varbit";
    NUMERIC = 1700, "numeric", -1, 1231, "_numeric";
    REGPROCEDURE = 2202, "regprocedure", 4, 2207, "_regprocedure";
    REGCLASS = 2205, "regclass", 4, 2210, "_regclass";
    REGTYPE = 2206, "regtype", 4, 2211, "_regtype";
    RECORD = 2249, "record", -1, 2287, "_record";
    CSTRING = 2275, "cstring", -2, 1263, "_cstring";
    ANY = 2276, "any", 4, 0;
    ANYARRAY = 2277, "anyarray", -1, 0;
    VOID = 2278, "void", 4, 0;
    TRIGGER = 2279, "trigger", 4, 0;
    UUID = 2950, "uuid", 16, 2951, "_uuid";
    REGCONFIG = 3734, "regconfig", 4, 3735, "_regconfig";
    REGDICTIONARY = 3769, "regdictionary", 4, 3770, "_regdictionary";
    JSONB = 3802, "jsonb", -1, 3807, "_jsonb";
    INT4RANGE = 3904, "int4range", -1, 3905, "_int4range";
    NUMRANGE = 3906, "numrange", -1, 3907, "_numrange";
    TSRANGE = 3908, "tsrange", -1, 3909, "_tsrange";
    TSTZRANGE = 3910, "tstzrange", -1, 3911, "_tstzrange";
    DATERANGE = 3912, "daterange", -1, 3913, "_daterange";
    INT8RANGE = 3926, "int8range", -1, 3927, "_int8range";
    JSONPATH = 4072, "jsonpath", -1, 4073, "_jsonpath";
    REGNAMESPACE = 4089, "regnamespace", 4, 4090, "_regnamespace";
    REGROLE = 4096, "regrole", 4, 4097, "_regrole";
    REGCOLLATION = 4191, "regcollation", 4, 4192, "_regcollation";
    INT4MULTIRANGE = 4451, "int4multirange", -1, 6150, "_int4multirange";
    NUMMULTIRANGE = 4532, "nummultirange", -1, 6151, "_nummultirange";
    TSMULTIRANGE = 4533, "tsmultirange", -1, 6152, "_tsmultirange";
    TSTZMULTIRANGE = 4534, "tstzmultirange", -1, 6153, "_tstzmultirange";
    DATEMULTIRANGE = 4535, "datemultirange", -1, 6155, "_datemultirange";
    INT8MULTIRANGE = 4536, "int8multirange", -1, 6157, "_int8multirange";
}

/// The two vector types have elements, but are not named like arrays.
const fn element(oid: Oid) -> Oid {
    match oid {
        22 => 21,
        30 => 26,
        _ => 0,
    }
}

impl Type {
    /// Looks a type up by OID.
    #[must_use]
    pub fn by_oid(oid: Oid) -> Option<&'static Type> {
        match SCALARS.binary_search_by_key(&oid, |ty| ty.oid) {
            Ok(at) => SCALARS.get(at),
            Err(_) => ARRAYS.iter().find(|ty| ty.oid == oid),
        }
    }

    /// Looks a type up by its `pg_type` name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Type> {
        Type::all().find(|ty| ty.name == name)
    }

    /// All types: scalars, then arrays, each in a fixed order.
    pub fn all() -> impl Iterator<Item = &'static Type> {
        SCALARS.iter().chain(ARRAYS)
    }

    /// Type length for RowDescription; -1 for an unknown type.
    #[must_use]
    pub fn len_of(oid: Oid) -> i16 {
        Type::by_oid(oid).map_or(-1, |ty| ty.len)
    }

    /// The array type with elements of type `oid`.
    #[must_use]
    pub fn array_of(oid: Oid) -> Option<Oid> {
        Type::by_oid(oid).map(|ty| ty.array).filter(|array| *array != 0)
    }

    /// SQL name of the type, for messages.
    #[must_use]
    pub fn sql_name(oid: Oid) -> &'static str {
        match oid {
            oid::BOOL => "boolean",
            oid::INT2 => "smallint",
            oid::INT4 => "integer",
            oid::INT8 => "bigint",
            oid::FLOAT4 => "real",
            oid::FLOAT8 => "double precision",
            oid::BPCHAR => "character",
            oid::VARCHAR => "character varying",
            oid::TIME => "time without time zone",
            oid::TIMESTAMP => "timestamp without time zone",
            oid::TIMESTAMPTZ => "timestamp with time zone",
            oid::TIMETZ => "time with time zone",
            oid::VARBIT => "bit varying",
            _ => Type::by_oid(oid).map_or("unknown", |ty| ty.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oids_are_unique_sorted_and_arrays_point_back() {
        assert!(SCALARS.is_sorted_by(|a, b| a.oid < b.oid));
        for array in ARRAYS {
            assert_eq!(Type::array_of(array.element), Some(array.oid), "{}", array.name);
            assert_eq!(Type::by_oid(array.oid), Some(array));
        }
        let mut oids: Vec<_> = Type::all().map(|ty| ty.oid).collect();
        oids.sort_unstable();
        assert!(oids.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn types_of_columns_have_the_numbers_and_names_clients_see() {
        let plain = |oid| model::Type::from_oid(oid, -1).filter(|ty| !ty.is_other());
        for oid in SCALARS.iter().map(|ty| ty.oid) {
            let Some(ty) = plain(oid) else { continue };
            // `char` without a length is `bpchar`.
            let name = if oid == oid::BPCHAR { "bpchar" } else { Type::sql_name(oid) };
            assert_eq!((ty.oid(), ty.sql_name()), (oid, name));
        }
        assert_eq!(SCALARS.iter().filter(|ty| plain(ty.oid).is_some()).count(), 18);
    }

    #[test]
    fn a_type_is_found_by_oid_and_by_name() {
        assert_eq!(Type::by_name("timestamptz").map(|ty| ty.oid), Some(oid::TIMESTAMPTZ));
        assert_eq!(Type::by_oid(1009).map(|ty| ty.name), Some("_text"));
        assert_eq!(Type::by_oid(4_000_000), None);
        assert_eq!(Type::sql_name(oid::FLOAT8), "double precision");
    }
}
