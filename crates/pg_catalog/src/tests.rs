//! Consistency of the relations. Clients' queries are tested in `crates/query/tests/it/clients.rs`.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::{TypeId, builtin};
use engine::{Catalog, ColumnSpec, TableSpec};
use model::{ColumnRole, DataType, Datum, TableId, TableName, TableOptions};
use scalar::{Call, Context, Objects, Session};

use super::*;
use crate::facts::{AdvisoryKey, AdvisoryLock, ServerFacts, Setting, StatementFacts};

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
    Arc::new(StatementFacts {
        catalog: Arc::new(catalog),
        user: "millrace".to_owned(),
        database: "millrace".to_owned(),
        backend_pid: 7,
        trigger_depth: 0,
        search_path: vec!["public".to_owned()],
        creation_path: vec!["public".to_owned()],
        temporary: None,
        server: Arc::new(TestServer),
    })
}

struct TestServer;

impl ServerFacts for TestServer {
    fn settings(&self) -> Vec<Setting> {
        let value = || "90s".to_owned();
        let row = catalog::setting("statement_timeout");
        let timeout = Setting { name: "statement_timeout".to_owned(), value: value(), row, ..Setting::default() };
        vec![timeout, Setting { name: "my.setting".to_owned(), value: value(), ..Setting::default() }]
    }

    fn locks(&self) -> Vec<AdvisoryLock> {
        let lock = |key| AdvisoryLock { key, pid: 7, mode: "ShareLock", granted: true };
        vec![lock(AdvisoryKey::One(-1)), lock(AdvisoryKey::Pair(-1, 2))]
    }

    fn started_ns(&self) -> i64 {
        1_500
    }
}

fn session(facts: &Arc<StatementFacts>) -> Arc<Session> {
    let objects = StatementObjects::new(Arc::clone(facts));
    Arc::new(Session { objects: Some(Arc::new(objects)), ..Session::default() })
}

/// Texts of a column, `~` for NULL.
fn column_texts(relation: &str, column: &str) -> Vec<String> {
    let facts = facts();
    let relation = system_relation("pg_catalog", relation).unwrap();
    let session = session(&facts);
    let table = SystemTable::new(relation, facts, Arc::clone(&session));
    let (at, (_, ty)) = table.columns().enumerate().find(|(_, (name, _))| *name == column).unwrap();
    let mut texts = Vec::new();
    let push = |value: &Datum<'_>| {
        texts.push(shown(value, ty, &session));
        Ok(())
    };
    table.rows().for_each_value(at, push).unwrap();
    texts
}

fn shown(value: &Datum<'_>, ty: TypeId, session: &Session) -> String {
    let mut text = String::new();
    if value.is_null() {
        return "~".to_owned();
    }
    scalar::output(value, ty, &Context { arena: &Bump::new(), session }, &mut text).unwrap();
    text
}

/// Text of the function's result, `~` for NULL, or the SQLSTATE of its error.
fn called(signature: &str, arguments: &[Datum<'_>]) -> String {
    let facts = facts();
    let session = session(&facts);
    let objects = StatementObjects::new(facts);
    let function = scalar::registry::signature_number(builtin(), signature).unwrap();
    assert!(objects.has_function(function), "{signature}");
    let result = builtin().function_row(function).unwrap().result;
    let call = Call { function, operator: None, arguments: Box::default(), result };
    let arena = Bump::new();
    match objects.call(arguments, &call, &Context { arena: &arena, session: &session }) {
        Ok(value) => shown(&value, result, &session),
        Err(error) => error.state().0.to_owned(),
    }
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

#[test]
fn every_column_of_every_relation_has_values_of_its_type() {
    let facts = facts();
    for relation in relations::RELATIONS.iter() {
        let session = session(&facts);
        let table = SystemTable::new(relation, Arc::clone(&facts), Arc::clone(&session));
        let mut rows = table.rows();
        for (at, (name, ty)) in table.columns().enumerate() {
            let mut count = 0;
            let read = rows.for_each_value(at, |value| {
                let _: String = shown(value, ty, &session);
                count += 1;
                Ok(())
            });
            assert_eq!(read, Ok(()), "{}.{name}", relation.name);
            assert_eq!(count, rows.row_count());
        }
    }
}

#[test]
fn cells_are_shown_as_postgresql_shows_them() {
    for (relation, column, expected) in [
        ("pg_settings", "setting", &["90000", "90s"][..]),
        ("pg_settings", "unit", &["ms", "~"]),
        ("pg_settings", "category", &["Client Connection Defaults / Statement Behavior", "Customized Options"]),
        ("pg_settings", "vartype", &["integer", "string"]),
        ("pg_locks", "classid", &["4294967295", "4294967295"]),
        ("pg_locks", "objid", &["4294967295", "2"]),
        ("pg_locks", "granted", &["t", "t"]),
        ("pg_locks", "waitstart", &["~", "~"]),
        ("pg_index", "indkey", &["1 2", "1 2"]),
        ("pg_index", "indisprimary", &["t", "f"]),
        ("pg_constraint", "conkey", &["{1,2}", "{1,2}"]),
        ("pg_am", "amhandler", &["-", "-", "-", "-", "-"]),
        ("pg_stat_database", "stats_reset", &["1970-01-01 00:00:00.000001+00"]),
    ] {
        assert_eq!(column_texts(relation, column), expected, "{relation}.{column}");
    }
    let abbreviations = column_texts("pg_timezone_abbrevs", "abbrev");
    let at = |name: &str| abbreviations.iter().position(|one| one == name).unwrap();
    let of = |column| [at("CEST"), at("NFT")].map(|at| column_texts("pg_timezone_abbrevs", column)[at].clone());
    assert_eq!(of("utc_offset"), ["02:00:00", "-03:30:00"]);
    assert_eq!(of("is_dst"), ["t", "f"]);
}

#[test]
fn functions_return_values_of_their_type() {
    for (function, arguments, expected) in [
        ("pg_backend_pid", &[][..], "7"),
        ("pg_current_xact_id", &[], "0"),
        ("pg_postmaster_start_time", &[], "1970-01-01 00:00:00.000001+00"),
        ("inet_server_addr", &[], "~"),
        ("current_schemas", &[Datum::Bool(true)], "{pg_catalog,public}"),
        ("to_regclass", &[Datum::Text("plant.pump")], "plant.pump"),
        ("to_regclass", &[Datum::Text("nothing")], "~"),
        ("pg_get_indexdef(oid,int4,bool)", &[Datum::Oid(16_411), Datum::Int4(2), Datum::Bool(false)], "\"time\""),
        ("pg_table_is_visible", &[Datum::Oid(16_408)], "f"),
        ("pg_get_serial_sequence", &[Datum::Text("nothing"), Datum::Text("id")], "42P01"),
        ("current_setting(text)", &[Datum::Text("statement_timeout")], "90s"),
        ("current_setting(text)", &[Datum::Text("nothing")], "42704"),
        ("current_setting(text,bool)", &[Datum::Text("nothing"), Datum::Bool(true)], "~"),
        ("pg_get_userbyid", &[Datum::Oid(10)], "millrace"),
        ("pg_terminate_backend", &[Datum::Int4(8), Datum::Int8(0)], "f"),
    ] {
        assert_eq!(called(function, arguments), expected, "{function}");
    }
}
