//! Extensions of PostgreSQL whose functions are built in.

use crate::cells::{Row, row};
use crate::facts::StatementFacts;
use crate::oids::{self, Oid};

/// An extension that is there without being created.
#[derive(Clone, Copy, Debug)]
pub struct Extension {
    /// Name for CREATE EXTENSION.
    pub name: &'static str,
    /// The version of PostgreSQL's.
    pub version: &'static str,
    /// The functions of it that are built in.
    pub contents: &'static str,
    schema: Oid,
}

/// All of them, by name. Their OIDs follow from the order.
pub const BUILT_IN: [Extension; 3] = [
    Extension {
        name: "pgcrypto",
        version: "1.3",
        contents: "digest, hmac, gen_random_bytes, gen_random_uuid",
        schema: oids::PUBLIC,
    },
    Extension { name: "plpgsql", version: "1.0", contents: "the language PL/pgSQL", schema: oids::PG_CATALOG },
    Extension {
        name: "uuid-ossp",
        version: "1.1",
        contents: "uuid_generate_v1, _v1mc, _v3, _v4, _v5, uuid_nil, uuid_ns_dns, _url, _oid, _x500",
        schema: oids::PUBLIC,
    },
];

/// The extension with a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Extension> {
    BUILT_IN.iter().find(|extension| extension.name == name)
}

/// Rows of `pg_extension`.
pub(crate) fn installed(_: &StatementFacts) -> Vec<Row> {
    let one = |(oid, extension): (Oid, &Extension)| {
        row! {
            oid: oid,
            extname: extension.name,
            extowner: oids::ROLE,
            extnamespace: extension.schema,
            extrelocatable: false,
            extversion: extension.version,
            tableoid: 3079,
        }
    };
    (13_500..).zip(&BUILT_IN).map(one).collect()
}

/// Rows of `pg_available_extensions`.
pub(crate) fn available(_: &StatementFacts) -> Vec<Row> {
    let one = |extension: &Extension| {
        row! {
            name: extension.name,
            default_version: extension.version,
            installed_version: extension.version,
            comment: extension.contents,
        }
    };
    BUILT_IN.iter().map(one).collect()
}
