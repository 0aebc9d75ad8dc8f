//! Consistency of the relations. Clients' queries are tested in `tests/it/clients.rs`.

use std::sync::Arc;

use engine::{Catalog, ColumnSpec, TableSpec};
use model::{ColumnRole, DataType, TableId, TableName, TableOptions};

use super::*;
use crate::functions::StatementFacts;

fn column(name: &str, ty: DataType, nullable: bool, role: ColumnRole) -> ColumnSpec {
    ColumnSpec { name: name.to_owned(), ty, nullable, role }
}

fn time() -> ColumnSpec {
    column("time", DataType::Timestamp, false, ColumnRole::Time)
}

fn table(schema: &str, name: &str, keyed: bool, columns: Vec<ColumnSpec>) -> TableSpec {
    let name = TableName { schema: schema.to_owned(), table: name.to_owned() };
    TableSpec { name, keyed, columns, options: TableOptions::default() }
}

/// `public.t` keyed by a nullable column (OID 16392), `public.ev` without key (16400), `plant.pump` with a primary
/// key (16408).
fn facts() -> Arc<StatementFacts> {
    let tables = [
        table(
            "public",
            "t",
            true,
            vec![
                column("dev", DataType::Text, true, ColumnRole::Key),
                time(),
                column("v", DataType::Float64, true, ColumnRole::Field),
                column("n", DataType::Int32, true, ColumnRole::Field),
            ],
        ),
        table("public", "ev", false, vec![time(), column("msg", DataType::Text, true, ColumnRole::Field)]),
        table(
            "plant",
            "pump",
            true,
            vec![
                column("id", DataType::Int64, false, ColumnRole::Key),
                time(),
                column("count", DataType::UInt64, true, ColumnRole::Field),
            ],
        ),
    ];
    let mut catalog = Catalog::default().with_schema("plant").unwrap();
    for (id, spec) in (1..).zip(&tables) {
        catalog = catalog.with_table(Arc::new(spec.build(TableId(id)).unwrap())).unwrap();
    }
    Arc::new(StatementFacts::bare(Arc::new(catalog)))
}

#[test]
fn every_relation_builds_and_every_cell_has_its_column() {
    let facts = facts();
    for relation in relations::RELATIONS.iter() {
        for row in (relation.rows)(&facts) {
            for (name, _) in &row {
                let known = relation.columns.iter().any(|column| column.name == *name);
                // Relations with the same row function may lack one of its columns.
                assert!(known || *name == "tableoid", "{}: no column {name}", relation.name);
            }
        }
        assert!(
            relation.columns.len() > 1 || relation.name.ends_with("name") || relation.name == "enabled_roles",
            "{}",
            relation.name
        );
    }
    let mut oids: Vec<_> = relations::RELATIONS.iter().map(|relation| relation.oid).collect();
    oids.sort_unstable();
    assert!(oids.is_sorted_by(|a, b| a < b), "an OID is used twice");
}
