//! OIDs of catalog objects. They are fixed for the lifetime of an object, so clients may cache them. Tables, indexes,
//! sequences and views draw their ids from one range.
//!
//! | from            | objects                                                                             |
//! |----------------:|-------------------------------------------------------------------------------------|
//! | 1 .. 16,383     | PostgreSQL's objects: its OIDs where clients know them, otherwise own ones from 10,000 |
//! | 16,384 + 8 × id | table `id`: + 0 table, + 1 row type, + 2 array of the row type, + 3 index, + 4 constraint; |
//! |                 | index `id` of a `rows` table: + 3, its constraint: + 4; sequence `id`: + 0;          |
//! |                 | view `id`: + 0, + 1 and + 2 as a table, + 4 its rule                                |
//! | 2^30 + hash     | a schema other than `public`: engine schemas have no id                              |
//! | 2^31 + hash     | a CHECK, FOREIGN KEY or default of a `rows` table, which have names but no ids       |

use model::{Table, TableId};

/// OID of an object.
pub type Oid = u32;

pub(crate) const PG_CATALOG: Oid = 11;
pub(crate) const PUBLIC: Oid = 2200;
pub(crate) const INFORMATION_SCHEMA: Oid = 13_000;
/// The only database.
pub(crate) const DATABASE: Oid = 5;
/// The only role.
pub(crate) const ROLE: Oid = 10;
pub(crate) const TABLESPACE: Oid = 1663;
/// Access methods.
pub(crate) const HEAP: Oid = 2;
pub(crate) const BTREE: Oid = 403;
pub(crate) const HASH: Oid = 405;
pub(crate) const GIN: Oid = 2742;
pub(crate) const COLUMNS: Oid = 4000;
/// Default collation of text columns.
pub(crate) const COLLATION: Oid = 100;
pub(crate) const C_COLLATION: Oid = 950;
pub(crate) const POSIX_COLLATION: Oid = 951;
pub(crate) const UCS_BASIC: Oid = 12_340;

const FIRST_TABLE: u64 = 16_384;
const PER_TABLE: u64 = 8;
const FIRST_SCHEMA: Oid = 1 << 30;
const FIRST_NAMED: Oid = 1 << 31;

/// Catalog objects that belong to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table itself.
    Table = 0,
    /// Type of its rows.
    RowType = 1,
    /// Type of arrays of its rows.
    RowArray = 2,
    /// Index over its key, or an index of a `rows` table.
    Index = 3,
    /// Constraint of that index.
    Constraint = 4,
}

/// OID of an index of a `rows` table, of its constraint, of a sequence or of a view.
pub(crate) fn of_number(number: u32, part: Part) -> Oid {
    of_table(TableId(number), part)
}

/// OID of an object of a table that has only a name.
pub(crate) fn of_named(table: TableId, kind: &str, name: &str) -> Oid {
    let bytes = table.0.to_le_bytes().into_iter().chain(kind.bytes()).chain([0]).chain(name.bytes());
    FIRST_NAMED | hash(bytes) >> 1
}

/// FNV-1a
fn hash(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// OID of a table or of an object that belongs to it.
#[must_use]
pub fn of_table(table: TableId, part: Part) -> Oid {
    let oid = FIRST_TABLE + PER_TABLE * u64::from(table.0) + part as u64;
    // Overlaps with schemas only after 2^27 tables were created; the limit on existing tables is far lower.
    u32::try_from(oid).unwrap_or(u32::MAX)
}

/// Table and part for an OID.
#[must_use]
pub fn table_of(oid: Oid) -> Option<(TableId, Part)> {
    let at = u64::from(oid).checked_sub(FIRST_TABLE).filter(|_| oid < FIRST_SCHEMA)?;
    let part = match at % PER_TABLE {
        0 => Part::Table,
        1 => Part::RowType,
        2 => Part::RowArray,
        3 => Part::Index,
        4 => Part::Constraint,
        _ => return None,
    };
    Some((TableId(u32::try_from(at / PER_TABLE).ok()?), part))
}

/// OID of a schema.
pub(crate) fn of_schema(name: &str) -> Oid {
    match name {
        "pg_catalog" => PG_CATALOG,
        "public" => PUBLIC,
        "information_schema" => INFORMATION_SCHEMA,
        // A schema's OID must not change when other schemas are created or dropped.
        name => FIRST_SCHEMA | hash(name.bytes()) >> 2,
    }
}

/// OID and type modifier of a column's type.
pub(crate) fn of_type(ty: model::DataType) -> (Oid, i32) {
    use pg::types::oid;
    match ty {
        model::DataType::Bool => (oid::BOOL, -1),
        model::DataType::Int16 => (oid::INT2, -1),
        model::DataType::Int32 => (oid::INT4, -1),
        model::DataType::Int64 => (oid::INT8, -1),
        // numeric(20,0)
        model::DataType::UInt64 => (oid::NUMERIC, (20 << 16) + 4),
        model::DataType::Float32 => (oid::FLOAT4, -1),
        model::DataType::Float64 => (oid::FLOAT8, -1),
        model::DataType::Text => (oid::TEXT, -1),
        model::DataType::Bytes => (oid::BYTEA, -1),
        model::DataType::Timestamp => (oid::TIMESTAMPTZ, -1),
    }
}

/// Whether the table's key is shown as a PRIMARY KEY. Nullable key columns rule that out: a missing tag is NULL.
#[must_use]
pub fn is_primary(table: &Table) -> bool {
    table.keyed && table.key_columns().all(|column| !column.nullable)
}

/// Name of the index and constraint over key and time, in PostgreSQL's naming scheme.
#[must_use]
pub fn key_name(table: &Table) -> String {
    let columns: Vec<&str> = key_and_time(table).into_iter().map(|(_, column)| column.name.as_str()).collect();
    let name = match is_primary(table) {
        true => format!("{}_pkey", table.name.table),
        false => format!("{}_{}_key", table.name.table, columns.join("_")),
    };
    let end = (0..=63.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name[..end].to_owned()
}

/// Key columns, then the time, each with its position from 1.
#[must_use]
pub fn key_and_time(table: &Table) -> Vec<(i64, &model::Column)> {
    let numbered = || (1_i64..).zip(table.columns.iter());
    let keys = numbered().filter(|(_, column)| column.role == model::ColumnRole::Key);
    keys.chain(numbered().filter(|(_, column)| column.role == model::ColumnRole::Time)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_tables_are_found_again() {
        for id in [0, 1, 77, 1 << 20] {
            for part in [Part::Table, Part::RowType, Part::RowArray, Part::Index, Part::Constraint] {
                assert_eq!(table_of(of_table(TableId(id), part)), Some((TableId(id), part)));
            }
        }
        assert_eq!(table_of(1259), None);
        assert_eq!(table_of(of_schema("plant")), None);
        assert_eq!(table_of(of_named(TableId(1), "check", "c")), None);
        assert_ne!(of_named(TableId(1), "check", "c"), of_named(TableId(2), "check", "c"));
    }
}
