//! Orders of values: rows of `pg_opclass` and `pg_collation`.

use crate::cells::{Cell, Row, row};
use crate::facts::StatementFacts;
use crate::oids::{self, Oid};

/// `pg_catalog`
const SCHEMA: Oid = 11;
/// GIN operator classes of PostgreSQL 15 that indexes can have; as [`CLASSES`].
const INVERTED: &[(Oid, &str, Oid, Oid, bool, Oid)] = &[
    (10_064, "array_ops", 2745, 2277, true, 2283),
    (10_090, "jsonb_ops", 4036, 3802, true, 25),
    (10_091, "jsonb_path_ops", 4037, 3802, false, 23),
];

/// B-tree operator classes of PostgreSQL 15: number, name, family, type, whether it is the type's default, type of the key.
#[rustfmt::skip]
const CLASSES: &[(Oid, &str, Oid, Oid, bool, Oid)] = &[
    (1978, "int4_ops", 1976, 23, true, 0),
    (1979, "int2_ops", 1976, 21, true, 0),
    (1981, "oid_ops", 1989, 26, true, 0),
    (3122, "date_ops", 434, 1082, true, 0),
    (3123, "float8_ops", 1970, 701, true, 0),
    (3124, "int8_ops", 1976, 20, true, 0),
    (3125, "numeric_ops", 1988, 1700, true, 0),
    (3126, "text_ops", 1994, 25, true, 0),
    (3127, "timestamptz_ops", 434, 1184, true, 0),
    (3128, "timestamp_ops", 434, 1114, true, 0),
    (4217, "text_pattern_ops", 2095, 25, false, 0),
    (4218, "varchar_pattern_ops", 2095, 25, false, 0),
    (4219, "bpchar_pattern_ops", 2097, 1042, false, 0),
    (10_000, "array_ops", 397, 2277, true, 0),
    (10_002, "bit_ops", 423, 1560, true, 0),
    (10_003, "bool_ops", 424, 16, true, 0),
    (10_004, "bpchar_ops", 426, 1042, true, 0),
    (10_006, "bytea_ops", 428, 17, true, 0),
    (10_007, "char_ops", 429, 18, true, 0),
    (10_009, "cidr_ops", 1974, 869, false, 0),
    (10_012, "float4_ops", 1970, 700, true, 0),
    (10_015, "inet_ops", 1974, 869, true, 0),
    (10_022, "interval_ops", 1982, 1186, true, 0),
    (10_024, "macaddr_ops", 1984, 829, true, 0),
    (10_026, "macaddr8_ops", 3371, 774, true, 0),
    (10_028, "name_ops", 1994, 19, true, 2275),
    (10_032, "oidvector_ops", 1991, 30, true, 0),
    (10_034, "record_ops", 2994, 2249, true, 0),
    (10_036, "record_image_ops", 3194, 2249, false, 0),
    (10_038, "time_ops", 1996, 1083, true, 0),
    (10_041, "timetz_ops", 2000, 1266, true, 0),
    (10_043, "varbit_ops", 2002, 1562, true, 0),
    (10_044, "varchar_ops", 1994, 25, false, 0),
    (10_047, "money_ops", 2099, 790, true, 0),
    (10_065, "uuid_ops", 2968, 2950, true, 0),
    (10_069, "enum_ops", 3522, 3500, true, 0),
    (10_076, "range_ops", 3901, 3831, true, 0),
    (10_080, "multirange_ops", 4199, 4537, true, 0),
    (10_088, "jsonb_ops", 4033, 3802, true, 0),
];

/// Collations: number, name, provider, encoding, locale. All order text by its bytes.
const COLLATIONS: [(Oid, &str, &str, i64, Option<&str>); 4] = [
    (oids::COLLATION, "default", "d", -1, None),
    (oids::C_COLLATION, "C", "c", -1, Some("C")),
    (oids::POSIX_COLLATION, "POSIX", "c", -1, Some("POSIX")),
    (oids::UCS_BASIC, "ucs_basic", "c", 6, Some("C")),
];

/// Rows of `pg_opclass`.
pub(crate) fn operator_classes(_: &StatementFacts) -> Vec<Row> {
    let class = |method: Oid, (oid, name, family, ty, is_default, key): &(Oid, &str, Oid, Oid, bool, Oid)| {
        row! {
            oid: *oid,
            opcmethod: method,
            opcname: *name,
            opcnamespace: SCHEMA,
            opcowner: oids::ROLE,
            opcfamily: *family,
            opcintype: *ty,
            opcdefault: *is_default,
            opckeytype: *key,
            tableoid: 2616,
        }
    };
    let ordered = CLASSES.iter().map(|one| class(oids::BTREE, one));
    ordered.chain(INVERTED.iter().map(|one| class(oids::GIN, one))).collect()
}

/// Rows of `pg_collation`.
pub(crate) fn collations(_: &StatementFacts) -> Vec<Row> {
    let collation = |(oid, name, provider, encoding, locale): &(Oid, &str, &str, i64, Option<&str>)| {
        let locale = || locale.map_or(Cell::Null, |locale| Cell::Text(locale.to_owned()));
        row! {
            oid: *oid,
            collname: *name,
            collnamespace: SCHEMA,
            collowner: oids::ROLE,
            collprovider: *provider,
            collisdeterministic: true,
            collencoding: *encoding,
            collcollate: locale(),
            collctype: locale(),
            tableoid: 3456,
        }
    };
    COLLATIONS.iter().map(collation).collect()
}
