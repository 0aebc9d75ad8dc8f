//! Definition statements: PostgreSQL 15's answers (`testdata/definitions.txt`), and cases of our own.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock};

use model::{
    Datum, Identity, Referential, Result, RowColumn, RowSchema, RowSchemaRef, SequenceRef, SequenceSpec, SqlState,
    TableName,
};
use rows::RowTable;
use rows::row::RowLayout;

use super::*;
use crate::cast::{Zone, text_of};
use crate::stored_expressions::{self, parsed};

/// Time zone UTC.
struct Utc;

impl Zone for Utc {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn input(&self, text: &str, _: model::Type) -> Result<Datum<'static>> {
        pg::time::parse_timestamp_micros(text).map(Datum::Timestamptz)
    }

    fn facts(&self) -> Option<&scalar::Session> {
        static FACTS: LazyLock<scalar::Session> = LazyLock::new(|| scalar::Session {
            transaction_micros: NOW,
            statement_micros: NOW,
            ..scalar::Session::default()
        });
        Some(&FACTS)
    }
}

/// 2026-11-21 12:00:00 UTC.
const NOW: i64 = 1_795_262_400_000_000;

const SESSION: Session<'static> = Session { check: &|_| Ok(()), now: NOW, zone: &Utc, numbers: None };

/// A catalog without rows that applies definitions.
#[derive(Default)]
struct Db {
    tables: RefCell<Vec<RowSchemaRef>>,
    sequences: RefCell<Vec<SequenceRef>>,
    last_id: Cell<u32>,
}

impl Catalog for Db {
    fn current_schema(&self) -> String {
        "public".into()
    }

    fn is_schema(&self, name: &str) -> bool {
        ["public", "other"].contains(&name)
    }

    fn table(&self, name: &TableName) -> Option<RowSchemaRef> {
        self.tables.borrow().iter().find(|table| table.name == *name).cloned()
    }

    fn tables(&self) -> Vec<RowSchemaRef> {
        self.tables.borrow().clone()
    }

    fn sequence(&self, name: &TableName) -> Option<SequenceRef> {
        self.sequences.borrow().iter().find(|sequence| sequence.name == *name).cloned()
    }

    fn sequences(&self) -> Vec<SequenceRef> {
        self.sequences.borrow().clone()
    }

    fn is_other(&self, name: &TableName) -> bool {
        name.table == "series"
    }

    fn view(&self, _: &TableName) -> Option<model::ViewRef> {
        None
    }

    fn dependent_views(&self, _: &[u32]) -> Vec<model::ViewRef> {
        Vec::new()
    }

    fn next_id(&self, _: Object) -> u32 {
        self.last_id.set(self.last_id.get() + 1);
        self.last_id.get()
    }
}

/// Parses and plans a statement, like a session.
fn defined(sql: &str, db: &Db) -> Result<Option<Definition>> {
    let parsed = parser::parse_all(sql)?;
    let [parsed] = parsed.as_slice() else { panic!("{sql}: {parsed:?}") };
    define(&parsed.statement, db, SESSION)
}

impl Db {
    fn apply(&self, change: Change) -> Vec<String> {
        let (mut tables, mut sequences) = (self.tables.borrow_mut(), self.sequences.borrow_mut());
        match change {
            Change::Create(schema) => {
                check(&schema);
                tables.push(Arc::new(schema));
            }
            Change::Alter { next, work } => {
                check(&next);
                let old = tables.iter_mut().find(|table| table.id == next.id).unwrap();
                assert_eq!(next.version, old.version + 1, "{}", next.name.table);
                *old = Arc::new(next);
                return work.iter().map(|work| format!("{work:?}")).collect();
            }
            Change::Drop(id) => tables.retain(|table| table.id != id),
            Change::CreateSequence(sequence) => sequences.push(Arc::new(sequence)),
            Change::AlterSequence { next, .. } => {
                let old = sequences.iter_mut().find(|sequence| sequence.id == next.id).unwrap();
                *old = Arc::new(next);
            }
            Change::DropSequence(id) => sequences.retain(|sequence| sequence.id != id),
            Change::AlterView(_) | Change::DropView(_) => panic!("this database has no views"),
            Change::CreateType(_) | Change::AlterType(_) => panic!("this database has no types"),
        }
        Vec::new()
    }

    /// The notices and error of a statement, line by line, and its work on rows.
    fn run(&self, sql: &str) -> (Vec<String>, Vec<String>) {
        let mut lines = Vec::new();
        let mut work = Vec::new();
        match defined(sql, self) {
            Ok(Some(definition)) => {
                for notice in definition.notices {
                    lines.push(format!("notice {}", notice.message));
                    details(notice.detail.as_deref(), &mut lines);
                }
                for change in definition.changes {
                    work.extend(self.apply(change));
                }
            }
            Ok(None) => lines.push("not ours".into()),
            Err(error) => {
                lines.push(format!("error {} {}", error.state(), error.message()));
                details(error.detail(), &mut lines);
                lines.extend(error.hint().map(|hint| format!("hint {hint}")));
            }
        }
        (lines, work)
    }

    fn ok(&self, sql: &str) {
        assert_eq!(self.run(sql).0, [""; 0], "{sql}");
    }

    /// The catalog in the format of the golden file.
    fn state(&self) -> Vec<String> {
        let mut tables = self.tables();
        tables.sort_by(|a, b| a.name.table.cmp(&b.name.table));
        let mut lines: Vec<String> = tables.iter().flat_map(|table| self.lines(table)).collect();
        let mut sequences = self.sequences();
        sequences.sort_by(|a, b| a.name.table.cmp(&b.name.table));
        lines.extend(sequences.iter().map(|sequence| self.line(sequence)));
        lines
    }

    fn lines(&self, table: &RowSchema) -> Vec<String> {
        let names = |table: &RowSchema, columns: &[usize]| {
            columns.iter().map(|at| table.columns[*at].name.clone()).collect::<Vec<_>>().join(", ")
        };
        let columns: Vec<String> = table.columns.iter().map(column).collect();
        let mut lines = vec![format!("= table {}: {}", table.name.table, columns.join("; ")).trim_end().to_owned()];
        let mut indexes: Vec<_> = indexes(table).collect();
        indexes.sort_by(|a, b| a.name.cmp(&b.name));
        for index in indexes {
            let kind = match table.primary_key().is_some_and(|primary| primary.id == index.id) {
                true if index.deferral == model::Deferral::Deferred => "deferred primary",
                true if index.is_deferrable() => "deferrable primary",
                true => "primary",
                false if index.deferral == model::Deferral::Deferred => "deferred unique",
                false if index.is_deferrable() => "deferrable unique",
                false if index.constraint => "unique",
                false if index.unique => "unique index",
                false => "index",
            };
            lines.push(format!("= {kind} {}: {}", index.name, names(table, &index.columns)));
        }
        let mut constraints = Vec::new();
        for check in &table.checks {
            let columns = stored_expressions::columns(&check.condition, table).unwrap();
            let mut columns: Vec<_> = columns.iter().map(|at| table.columns[*at].name.clone()).collect();
            columns.sort();
            constraints
                .push((&check.name, format!("= check {}: {}", check.name, columns.join(", ")).trim_end().to_owned()));
        }
        for key in &table.foreign_keys {
            let parent = self.by_id(key.table).unwrap();
            let line = format!(
                "= foreign {}: {} -> {}({}) delete {} update {}",
                key.name,
                names(table, &key.columns),
                names::quoted(&parent.name.table),
                names(&parent, &key.referred),
                letter(key.on_delete),
                letter(key.on_update)
            );
            constraints.push((&key.name, line));
        }
        constraints.sort();
        lines.extend(constraints.into_iter().map(|(_, line)| line));
        lines
    }

    fn line(&self, sequence: &SequenceSpec) -> String {
        let owner = sequence.owner.map_or_else(String::new, |owner| {
            let table = self.by_id(owner.table).unwrap();
            format!(" owned by {}.{}", names::quoted(&table.name.table), table.columns[owner.column].name)
        });
        format!(
            "= sequence {}: {} start {} increment {} min {} max {} cache {}{}{owner}",
            sequence.name.table,
            sequence.ty,
            sequence.start,
            sequence.increment,
            sequence.min,
            sequence.max,
            sequence.cache,
            if sequence.cycle { " cycle" } else { "" }
        )
    }
}

fn details(detail: Option<&str>, lines: &mut Vec<String>) {
    // PostgreSQL lists dependents in the order in which it finds them.
    let mut details: Vec<String> =
        detail.iter().flat_map(|detail| detail.lines()).map(|line| format!("detail {line}")).collect();
    details.sort();
    lines.extend(details);
}

fn column(column: &RowColumn) -> String {
    if column.dropped {
        return "dropped".into();
    }
    let not_null = if column.not_null { " not null" } else { "" };
    let value = match (column.identity, &column.default) {
        (Some(Identity::Always), _) => " identity always",
        (Some(Identity::ByDefault), _) => " identity by default",
        (None, Some(_)) => " default",
        (None, None) => "",
    };
    format!("{} {}{not_null}{value}", column.name, column.ty)
}

fn letter(action: Referential) -> char {
    match action {
        Referential::NoAction => 'a',
        Referential::Restrict => 'r',
        Referential::Cascade => 'c',
        Referential::SetNull => 'n',
        Referential::SetDefault => 'd',
    }
}

/// Invariants of a table description.
fn check(schema: &RowSchema) {
    let shown: Vec<&str> = schema.shown().map(|(_, column)| column.name.as_str()).collect();
    assert!(shown.iter().enumerate().all(|(at, name)| !shown[..at].contains(name)), "{shown:?}");
    let is_there = |column: &usize| !schema.columns[*column].dropped;
    let is_key = |column: &usize| is_there(column) || schema.columns[*column].is_hidden();
    assert!(indexes(schema).all(|index| index.columns.iter().all(is_key)));
    assert!(schema.foreign_keys.iter().all(|key| key.columns.iter().all(is_there)));
    assert!(schema.primary.iter().all(|key| key.columns.iter().all(|column| schema.columns[*column].not_null)));
    RowLayout::of(schema).unwrap();
    // Every statement binds the stored SQL again.
    let table = expressions::empty_table(schema).unwrap();
    for check in &schema.checks {
        let parsed = parsed(&check.condition).unwrap();
        expressions::condition(&parsed, &table, SESSION).unwrap();
        assert_eq!(expressions::canonical(&parsed, SESSION).unwrap(), check.condition);
    }
}

/// A section of the golden file.
struct Scenario {
    title: &'static str,
    /// Statements with the lines after each.
    statements: Vec<(&'static str, Vec<&'static str>)>,
    state: Vec<&'static str>,
}

fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for line in include_str!("testdata/definitions.txt").lines() {
        if let Some(title) = line.strip_prefix("# ") {
            all.push(Scenario { title, statements: Vec::new(), state: Vec::new() });
        } else if let Some(scenario) = all.last_mut() {
            if let Some(sql) = line.strip_prefix("> ") {
                scenario.statements.push((sql, Vec::new()));
            } else if line.starts_with('=') {
                scenario.state.push(line);
            } else if !line.is_empty() {
                scenario.statements.last_mut().unwrap().1.push(line);
            }
        }
    }
    all
}

/// Compares answers. DETAIL lines may differ in order, and so may the parser's syntax errors in text.
fn are_same(got: &[String], expected: &[&str]) -> bool {
    let mut expected = expected.to_vec();
    let is_detail = |line: &&str| line.starts_with("detail");
    if let (Some(from), Some(to)) = (expected.iter().position(is_detail), expected.iter().rposition(is_detail)) {
        expected[from..=to].sort_unstable();
    }
    let is_syntax = |line: &&str| line.starts_with("error 42601 syntax error");
    got == expected || expected.iter().any(is_syntax) && got.iter().any(|line| line.starts_with("error 42601 "))
}

#[test]
fn definitions_are_postgresqls() {
    let mut wrong = Vec::new();
    for Scenario { title, statements, state } in scenarios() {
        let db = Db::default();
        for (sql, expected) in statements {
            let (got, _) = db.run(sql);
            if !are_same(&got, &expected) {
                wrong.push(format!("# {title}\n> {sql}\n  {got:#?}\n  expected {expected:#?}"));
            }
        }
        let got = db.state();
        if got != state {
            let missing: Vec<_> = state.iter().filter(|line| !got.iter().any(|got| got == *line)).collect();
            let more: Vec<_> = got.iter().filter(|line| !state.contains(&line.as_str())).collect();
            wrong.push(format!("# {title}: state\n  got {more:#?}\n  expected {missing:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{} wrong", wrong.join("\n"), wrong.len());
}

/// Cases: statements before, the statement, and the expected work on rows.
#[test]
fn a_change_does_only_the_necessary_work_on_rows() {
    let table = "create table t (a int primary key, b varchar(5), c numeric(5,2), d int)";
    let index = "create index i on t (b)";
    let cases: [(&[&str], &str, &[&str]); 26] = [
        (&[table], "alter table t add e int", &[]),
        (&[table], "alter table t add e int default 1 not null", &[]),
        (&[table], "alter table t add e timestamptz default now() not null", &[]),
        (&[table], "alter table t add e int not null", &["not null 4"]),
        (&[table], "alter table t add e int check (e > 0)", &["check t_e_check"]),
        (&[table], "alter table t add e int unique", &["build t_e_key"]),
        (&[table], "alter table t add e int references t", &["foreign key t_e_fkey"]),
        (&[table, index], "alter table t add e serial", &["rewrite", "build t_pkey", "build i"]),
        (&[table], "alter table t drop column b", &[]),
        (&[table, index], "alter table t drop column b", &[]),
        (&[table], "alter table t alter b set not null", &["not null 1"]),
        // Nullable columns have another key encoding.
        (&[table, index], "alter table t alter b set not null", &["not null 1", "build i"]),
        (&[table, index, "alter table t alter b set not null"], "alter table t alter b drop not null", &["build i"]),
        (&[table], "alter table t alter a set not null", &[]),
        (&[table], "alter table t alter b set default 'x'", &[]),
        (&[table, index], "alter table t alter b type varchar(9)", &[]),
        (&[table, index], "alter table t alter b type text", &[]),
        (&[table], "alter table t alter c type numeric(18,2)", &[]),
        (&[table], "alter table t alter c type numeric(19,2)", &["rewrite", "build t_pkey"]),
        (&[table], "alter table t alter c type numeric(6,3)", &["rewrite", "build t_pkey"]),
        (&[table, index], "alter table t alter b type varchar(4)", &["rewrite", "build t_pkey", "build i"]),
        (&[table], "alter table t alter d type bigint", &["rewrite", "build t_pkey"]),
        (
            &[table, "alter table t add check (d > 0), add foreign key (d) references t"],
            "alter table t alter d type bigint",
            &["rewrite", "build t_pkey", "check t_d_check", "foreign key t_d_fkey"],
        ),
        (&[table], "alter table t drop constraint t_pkey, add primary key (d)", &["not null 3", "build t_pkey"]),
        (&[table], "create unique index on t (b, c)", &["build t_b_c_idx"]),
        (&[table], "alter table t rename column b to x", &[]),
    ];
    for (before, sql, expected) in cases {
        let db = Db::default();
        before.iter().for_each(|sql| db.ok(sql));
        let (lines, work) = db.run(sql);
        assert_eq!((lines, work), (Vec::new(), expected.iter().map(|work| (*work).to_owned()).collect()), "{sql}");
    }
}

/// The changes that a statement makes to the only table.
fn altered(db: &Db, sql: &str) -> (RowSchema, Vec<Work>) {
    for change in defined(sql, db).unwrap().unwrap().changes {
        if let Change::Alter { next, work } = change {
            return (next, work);
        }
    }
    panic!("{sql}: nothing is altered");
}

fn row(schema: &RowSchema, values: &[Datum<'_>]) -> Vec<u8> {
    let mut row = Vec::new();
    RowLayout::of(schema).unwrap().encode(values, &mut row).unwrap();
    row
}

fn texts(schema: &RowSchema, row: &[u8]) -> Vec<String> {
    let layout = RowLayout::of(schema).unwrap();
    let text = |value: Datum<'_>| if value.is_null() { "null".into() } else { text_of(&value, &Utc) };
    (0..layout.columns()).map(|column| text(layout.field(row, column).unwrap())).collect()
}

#[test]
fn rows_from_before_a_column_was_added_have_its_default_of_then() {
    let db = Db::default();
    db.ok("create table t (a int)");
    let old = row(&db.tables()[0], &[Datum::Int4(1)]);
    db.ok("alter table t add b text default 'x', add c numeric(6,2) default 1.5, add d timestamptz default now(), add e int");
    db.ok("alter table t alter b set default 'y', alter e set default 7");
    db.ok("alter table t alter b type varchar, add f int default 1 + 1");
    assert_eq!(texts(&db.tables()[0], &old), ["1", "x", "1.50", "2026-11-21 12:00:00+00", "null", "2"]);
    let error = db.run("alter table t add g varchar(1) default 'long'").0;
    assert_eq!(error, ["error 22001 value too long for type character varying(1)"]);
}

#[test]
fn rows_are_rewritten_with_casts_and_sequence_values() {
    let db = Db::default();
    db.ok("create table t (a int, b text, c int)");
    db.ok("alter table t add d text default 'old', drop column c");
    let old = db.tables()[0].clone();
    let rows = [row(&old, &[Datum::Int4(1), Datum::Text("17"), Datum::Null, Datum::Text("new")]), {
        // A row from before d was added.
        let before = Db::default();
        before.ok("create table t (a int, b text, c int)");
        row(&before.tables()[0], &[Datum::Int4(2), Datum::Null, Datum::Int4(9)])
    }];
    let (next, work) =
        altered(&db, "alter table t alter a type numeric(5,1), alter b type int using b::int + 1, add e serial");
    let [Work::Rewrite(rewrite)] = work.as_slice() else { panic!("{work:?}") };
    let mut number = 0;
    let expected = [["1.0", "18", "null", "new", "1"], ["2.0", "null", "null", "old", "2"]];
    let mut next_value = |_| {
        number += 1;
        Ok(number)
    };
    for (old, expected) in rows.iter().zip(expected) {
        let mut out = Vec::new();
        rewrite.row(old, SESSION, &mut next_value, &|| 7, &mut out).unwrap();
        assert_eq!(texts(&next, &out), expected);
    }
    db.ok("create sequence s");
    let (next, work) = altered(&db, "alter table t add e text default 'x' || nextval('s') || '-' || nextval('s')");
    let Work::Rewrite(rewrite) = &work[0] else { panic!("{work:?}") };
    let mut out = Vec::new();
    rewrite.row(&rows[0], SESSION, &mut next_value, &|| 7, &mut out).unwrap();
    assert_eq!(texts(&next, &out), ["1", "17", "null", "new", "x3-4"]);
    let (_, work) = altered(&db, "alter table t alter b type int using b::int");
    let bad = row(&old, &[Datum::Null, Datum::Text("x"), Datum::Null, Datum::Null]);
    let Work::Rewrite(rewrite) = &work[0] else { panic!("{work:?}") };
    let error = rewrite.row(&bad, SESSION, &mut |_| Ok(0), &|| 7, &mut Vec::new()).unwrap_err();
    assert_eq!(error.message(), "invalid input syntax for type integer: \"x\"");
}

/// Bug: the default that stands for a missing column kept its old type when the column's type changed, and the next
/// description could not be laid out ("row has 7 bytes, expected at least 11"). Fix: rewritten rows have all
/// columns.
#[test]
fn rewritten_rows_have_columns_added_before() {
    for (old, new, expected) in [
        ("int default 5", "bigint", "5"),
        ("int default 5", "text", "5"),
        ("bigint default 5", "int", "5"),
        ("numeric(6,2) default 1.5", "numeric", "1.50"),
        ("text default '7'", "int using b::int + 1", "8"),
        ("varchar(3) default 'abc'", "varchar(2) using left(b, 2)", "ab"),
        ("date default '2026-11-22'", "timestamp", "2026-11-22 00:00:00"),
    ] {
        let db = Db::default();
        db.ok("create table t (a int)");
        let before = row(&db.tables()[0], &[Datum::Int4(1)]);
        db.ok(&format!("alter table t add b {old}, add c int default 3"));
        db.ok("alter table t alter b drop default");
        let (next, work) = altered(&db, &format!("alter table t alter b type {new}"));
        let [Work::Rewrite(rewrite)] = work.as_slice() else { panic!("{work:?}") };
        let mut out = Vec::new();
        rewrite.row(&before, SESSION, &mut |_| Ok(0), &|| 7, &mut out).unwrap();
        assert_eq!(texts(&next, &out), ["1", expected, "3"], "{old} to {new}");
        assert!(next.columns.iter().all(|column| column.missing.is_none()), "{old} to {new}");
    }
}

#[test]
fn violations_by_existing_rows_are_reported_as_in_postgresql() {
    let db = Db::default();
    db.ok("create table t (a int, b int)");
    let sql = "alter table t add check (a > b), alter a set not null, add unique (b), add constraint f foreign key (a) references t (b)";
    let (next, work) = altered(&db, sql);
    let said: Vec<String> =
        work.iter().map(|work| work.violated(&next)).map(|error| format!("{} {error}", error.state())).collect();
    assert_eq!(
        said,
        [
            "23502 column \"a\" of relation \"t\" contains null values",
            "23505 could not create unique index \"t_b_key\"",
            "23514 check constraint \"t_check\" of relation \"t\" is violated by some row",
            "23503 insert or update on table \"t\" violates foreign key constraint \"f\"",
        ]
    );
    let Work::Check(check) = &work[2] else { panic!("{work:?}") };
    let holds = |a, b| check.holds(&row(&next, &[Datum::Int4(a), b]), SESSION).unwrap();
    assert_eq!([holds(2, Datum::Int4(1)), holds(1, Datum::Int4(1)), holds(1, Datum::Null)], [true, false, true]);
}

#[test]
fn expressions_are_stored_in_canonical_form() {
    let db = Db::default();
    db.ok("create sequence s");
    let cases = [
        ("A INT CHECK (T.A > 0 AND \"a\" < 9)", "(a > 0) AND (a < 9)"),
        ("\"A b\" int CHECK (\"A b\" IS NOT NULL)", "\"A b\" IS NOT NULL"),
        ("\"select\" text CHECK (LENGTH(\"select\") > CAST('1' AS INT4))", "length(\"select\") > CAST('1' AS integer)"),
        ("a numeric CHECK ((a::NUMERIC(5,2)) IN (1, 2))", "(a::numeric(5, 2)) IN (1, 2)"),
        ("a text DEFAULT 'it''s'", "'it''s'"),
        ("a timestamptz DEFAULT CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("a int DEFAULT (1 + 2)", "1 + 2"),
        ("a int DEFAULT NEXTVAL('S')", "nextval('s'::regclass)"),
        ("a int DEFAULT nextval('public.s'::text)", "nextval('s'::regclass)"),
        ("a int DEFAULT (nextval('s') * 10)", "nextval('public.s'::regclass) * 10"),
        ("a text DEFAULT LPAD(NEXTVAL('S')::TEXT, 6, '0')", "lpad(nextval('public.s'::regclass)::text, 6, '0')"),
    ];
    for (column, expected) in cases {
        db.ok(&format!("create table t ({column})"));
        let table = db.tables()[0].clone();
        let kept = table.checks.first().map(|check| check.condition.clone()).or(table.columns[0].default.clone());
        assert_eq!(kept.as_deref(), Some(expected), "{column}");
        db.ok("drop table t");
    }
}

#[test]
fn checks_follow_the_names_of_columns() {
    let db = Db::default();
    db.ok("create table t (a int, b int, check (t.a > b), check (a + a < 9))");
    db.ok("alter table t rename a to \"Big\"");
    let checks: Vec<String> = db.tables()[0].checks.iter().map(|check| check.condition.clone()).collect();
    assert_eq!(checks, ["\"Big\" > b", "(\"Big\" + \"Big\") < 9"]);
}

#[test]
fn defaults_follow_the_names_of_sequences() {
    let db = Db::default();
    db.ok("create table t (a serial, b int)");
    db.ok("alter table t alter b set default nextval('t_a_seq')");
    db.ok("alter sequence t_a_seq rename to \"S\"");
    let defaults: Vec<_> = db.tables()[0].columns.iter().map(|column| column.default.clone().unwrap()).collect();
    assert_eq!(defaults, ["nextval('\"S\"'::regclass)"; 2]);
    assert_eq!(db.tables()[0].version, 3);
    db.ok("create sequence other");
    db.ok("alter table t alter b set default nextval('other') + nextval('\"S\"') + nextval('\"S\"')");
    db.ok("alter sequence \"S\" rename to \"it's\"");
    let default = "(nextval('public.other'::regclass) + nextval('public.\"it''s\"'::regclass)) + nextval('public.\"it''s\"'::regclass)";
    assert_eq!(db.tables()[0].columns[1].default.as_deref(), Some(default));
    let (lines, _) = db.run("drop sequence other cascade");
    assert_eq!(lines, ["notice drop cascades to default value for column b of table t"]);
    assert_eq!(db.tables()[0].columns[1].default, None);
}

#[test]
fn unsupported_features_are_named_in_the_error() {
    let db = Db::default();
    db.ok("create table t (a int, b text, c json)");
    let cases = [
        ("create table x (like t)", "LIKE is not supported on rows tables"),
        ("create table x (a xml)", "type xml is not supported on rows tables"),
        ("create table x (a tsvector[])", "type tsvector[] is not supported on rows tables"),
        ("create table x (a text collate \"de_DE\")", "collation \"de_DE\" is not supported on rows tables"),
        (
            "create table x (a timestamptz check (a < clock_timestamp()))",
            "check constraint a < clock_timestamp() is not supported on rows tables",
        ),
        (
            "create table x (a int check (x is not null))",
            "check constraint x IS NOT NULL is not supported on rows tables",
        ),
        (
            "create table x (a int check (tableoid > 0))",
            "check constraint tableoid > 0 is not supported on rows tables",
        ),
        ("create table x (a int, exclude (a with =))", "EXCLUDE is not supported on rows tables"),
        ("create table x of y", "OF is not supported on rows tables"),
        ("create sequence s restart", "RESTART of a new sequence is not supported"),
        ("create table x (a text default version())", "DEFAULT expression version() is not supported on rows tables"),
        ("alter table t add r bigint default lastval()", "volatile functions are not supported here"),
        ("create index on t using gist (a)", "access method \"gist\" is not supported on rows tables"),
        ("create unique index on t using hash (a)", "access method \"hash\" does not support unique indexes"),
        ("create index on t (b gin_trgm_ops)", "operator class gin_trgm_ops is not supported on rows tables"),
        ("create table x (a int) with (orientation = column)", "orientation = column is not supported"),
    ];
    for (sql, expected) in cases {
        let (lines, _) = db.run(sql);
        assert_eq!(lines.first(), Some(&format!("error 0A000 {expected}")), "{sql}");
    }
    assert_eq!(db.tables().len(), 1);
}

#[test]
fn an_index_with_mixed_directions_gives_a_notice() {
    let mixed = ["notice the index is ascending in all columns: ORDER BY in mixed directions needs a sort"];
    let cases: [(&str, &[&str]); 7] = [
        ("a desc", &[]),
        ("a desc nulls first, b desc", &[]),
        ("a asc nulls last, b", &[]),
        ("a, b desc", &mixed),
        ("a desc, b asc", &mixed),
        ("a desc nulls last", &mixed),
        ("a nulls first", &mixed),
    ];
    let db = Db::default();
    db.ok("create table t (a int, b int)");
    for (columns, expected) in cases {
        assert_eq!(db.run(&format!("create index on t ({columns})")).0, expected, "{columns}");
    }
    assert_eq!(db.tables()[0].secondary.len(), cases.len());
}

#[test]
fn syntax_of_other_products_is_accepted_with_a_notice() {
    let foreign = "notice a foreign table of mot_server is a rows table here: in memory and durable";
    let cases: [(&str, &[&str]); 18] = [
        ("create foreign table t (a int primary key, b varchar(10) not null) server mot_server", &[foreign]),
        ("create foreign table if not exists u (a int) server MOT_server", &[foreign]),
        ("CREATE FOREIGN TABLE v (server int) SERVER mot_server OPTIONS (x 'y')", &[foreign]),
        (
            "create foreign table w (a int) server other",
            &["error 42704 server \"other\" does not exist", "hint the only foreign server is mot_server"],
        ),
        ("alter foreign table t add c int", &[]),
        ("drop foreign table if exists t, u, v", &[]),
        ("create unlogged table t (a int)", &["notice UNLOGGED is ignored: every table is logged"]),
        (
            "create table u (tablespace int check (a > 1 and tablespace > 0), a int primary key using index tablespace fast) tablespace slow",
            &[
                "notice tablespace fast is ignored: rows tables are in memory",
                "notice tablespace slow is ignored: rows tables are in memory",
            ],
        ),
        (
            "alter table t add primary key (a) using index tablespace \"Fast\"",
            &["notice tablespace \"Fast\" is ignored: rows tables are in memory"],
        ),
        ("create unlogged sequence s", &["notice UNLOGGED is ignored: every table is logged"]),
        ("alter sequence s owner to someone", &["notice OWNER TO is ignored: every user has all privileges"]),
        ("alter index t_pkey owner to someone", &["notice OWNER TO is ignored: every user has all privileges"]),
        ("create index i on t (a) tablespace slow", &["notice tablespace slow is ignored: rows tables are in memory"]),
        (
            "create table v (a int) with (fillfactor = 70, autovacuum_enabled = false, orientation = row, oids = false)",
            &[
                "notice parameter \"fillfactor\" is ignored: rows tables are in memory and need no vacuum",
                "notice parameter \"autovacuum_enabled\" is ignored: rows tables are in memory and need no vacuum",
            ],
        ),
        ("create table w (a jsonb, b timestamp(3), c int[], d bit(3))", &[]),
        (
            "create table x (a int generated always as identity (start 5 no cycle maxvalue 9 increment 2 no minvalue cache 3))",
            &[],
        ),
        ("create table y (a int) without oids", &[]),
        (
            "alter table y set (fillfactor = 50)",
            &["notice parameter \"fillfactor\" is ignored: rows tables are in memory and need no vacuum"],
        ),
    ];
    let db = Db::default();
    for (sql, expected) in cases {
        assert_eq!(db.run(sql).0, expected, "{sql}");
    }
    let sequence = db.sequences().into_iter().find(|sequence| sequence.name.table == "x_a_seq").unwrap();
    assert_eq!(db.line(&sequence), "= sequence x_a_seq: integer start 5 increment 2 min 1 max 9 cache 3 owned by x.a");
}

#[test]
fn keys_are_deferrable_as_in_postgresql() {
    let cases: [(&str, &str, &[&str]); 12] = [
        (
            "",
            "create table x (a int primary key deferrable)",
            &["= table x: a integer not null", "= deferrable primary x_pkey: a"],
        ),
        (
            "",
            "create table x (a int, unique (a) deferrable initially deferred, unique (a))",
            &["= table x: a integer", "= deferred unique x_a_key: a", "= unique x_a_key1: a"],
        ),
        (
            "",
            "create table x (a int unique initially deferred, primary key (a) initially deferred)",
            &["= table x: a integer not null", "= deferred primary x_pkey: a"],
        ),
        (
            "",
            "create table x (a int primary key deferrable, b int, primary key (b))",
            &["error 42P16 multiple primary keys for table \"x\" are not allowed"],
        ),
        (
            "create table x (a int primary key deferrable)",
            "create table y (a int references x)",
            &["error 55000 cannot use a deferrable primary key for referenced table \"x\""],
        ),
        (
            "create table x (a int, b int unique deferrable)",
            "create table y (a int references x (b))",
            &["error 55000 cannot use a deferrable unique constraint for referenced table \"x\""],
        ),
        (
            "create table x (a int primary key deferrable)",
            "alter table x alter a drop not null",
            &["error 42P16 column \"a\" is in a primary key"],
        ),
        (
            "create table x (a int primary key deferrable)",
            "alter table x replica identity using index x_pkey",
            &["error 0A000 cannot use non-immediate index \"x_pkey\" as replica identity"],
        ),
        (
            "create table x (a int primary key deferrable)",
            "alter table x alter constraint x_pkey not deferrable",
            &["error 42809 constraint \"x_pkey\" of relation \"x\" is not a foreign key constraint"],
        ),
        (
            "create table x (a int); create unique index i on x (a)",
            "alter table x add constraint i primary key using index i deferrable",
            &[],
        ),
        (
            "create table x (a int); create unique index i on x (a); create table y (a int references x (a))",
            "alter table x add constraint i unique using index i deferrable",
            &["error 55000 cannot use a deferrable unique constraint for referenced table \"x\""],
        ),
        ("create table x (a int primary key deferrable)", "alter table x drop constraint x_pkey", &[]),
    ];
    for (before, sql, expected) in cases {
        let db = Db::default();
        before.split(';').filter(|sql| !sql.trim().is_empty()).for_each(|sql| db.ok(sql));
        let (mut lines, _) = db.run(sql);
        if sql.starts_with("create table x") && lines.is_empty() {
            lines = db.tables().iter().flat_map(|table| db.lines(table)).collect();
        }
        assert_eq!(lines, expected, "{sql}");
    }
    let db = Db::default();
    db.ok("create table p (a int, primary key (a) deferrable) partition by list (a)");
    db.ok("create table p1 partition of p for values in (1)");
    let partition = db.tables().into_iter().find(|table| table.name.table == "p1").unwrap();
    assert_eq!(db.lines(&partition)[1], "= deferrable primary p1_pkey: a");
}

/// DEFERRABLE and its like belong to the constraint before them.
#[test]
fn attributes_of_constraints_are_postgresqls() {
    let cases: [(&str, &[&str]); 10] = [
        ("int primary key not deferrable initially immediate", &[]),
        ("int references t deferrable", &[]),
        ("int references t initially deferred", &[]),
        ("int references t deferrable not null", &[]),
        ("int check (a > 0) no inherit", &[]),
        (
            "int unique deferrable not deferrable",
            &["error 42601 multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed"],
        ),
        ("int deferrable", &["error 42601 misplaced DEFERRABLE clause"]),
        ("int default 1 initially immediate", &["error 42601 misplaced INITIALLY IMMEDIATE clause"]),
        (
            "int references t not deferrable initially deferred",
            &["error 42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE"],
        ),
        ("int generated always as identity (as int)", &["error 42601 conflicting or redundant options"]),
    ];
    for (column, expected) in cases {
        let db = Db::default();
        db.ok("create table t (a int primary key)");
        assert_eq!(db.run(&format!("create table u (a {column})")).0, expected, "{column}");
    }
}

/// DISABLE TRIGGER ALL switches the checks of a referencing table, and the actions of a referenced one.
#[test]
fn all_triggers_include_those_of_foreign_keys() {
    let db = Db::default();
    db.ok("create table p (a int primary key)");
    db.ok("create table c (a int references p)");
    db.ok("create table t (a int, b int references p) partition by list (a)");
    db.ok("create table t1 partition of t for values in (1)");
    // The tables whose changes are not checked, and those whose keys have no actions.
    let disabled = || {
        let tables = db.tables();
        let named = |is_disabled: fn(&model::RowForeignKey) -> bool| -> Vec<String> {
            let has = |table: &&model::RowSchemaRef| table.foreign_keys.iter().any(is_disabled);
            let mut names: Vec<String> = tables.iter().filter(has).map(|table| table.name.table.clone()).collect();
            names.sort();
            names
        };
        [named(|key| key.check_disabled).join(" "), named(|key| key.action_disabled).join(" ")]
    };
    let cases = [
        ("alter table c disable trigger user", ["", ""]),
        ("alter table c disable trigger all", ["c", ""]),
        ("alter table p disable trigger all", ["c", "c t t1"]),
        ("create table t2 partition of t for values in (2)", ["c", "c t t1 t2"]),
        ("alter table p enable trigger user", ["c", "c t t1 t2"]),
        ("alter table p enable trigger all", ["c", ""]),
        ("alter table t disable trigger all", ["c t t1 t2", ""]),
        ("alter table only t enable trigger all", ["c t1 t2", ""]),
        ("alter table t enable trigger all", ["c", ""]),
        ("alter table t1 disable trigger all", ["c t1", ""]),
    ];
    for (sql, expected) in cases {
        db.ok(sql);
        assert_eq!(disabled(), expected, "{sql}");
    }
}

#[test]
fn constraints_and_indexes_of_partitions_are_merged() {
    let db = Db::default();
    db.ok("create table t (a int, constraint c check (a > 0)) partition by list (a)");
    db.ok("create table t1 (a int primary key, constraint c check (a > 0), constraint d check (a > 1))");
    db.ok("alter table t attach partition t1 for values in (2)");
    db.ok("create unique index t_a on t (a)");
    let partition = || db.tables().into_iter().find(|table| table.name.table == "t1").unwrap();
    let primary = partition().primary.as_ref().map(|index| index.id);
    assert_eq!(partition().lineage.indexes.iter().map(|(own, _)| Some(*own)).collect::<Vec<_>>(), [primary]);
    assert!(partition().secondary.is_empty());
    let cases: [(&str, &[&str]); 5] = [
        (
            "alter table t1 drop constraint t1_pkey",
            &[
                "error 2BP01 cannot drop index t1_pkey because index t_a requires it",
                "hint You can drop index t_a instead.",
            ],
        ),
        (
            "alter table t add constraint d check (a > 1)",
            &["notice merging constraint \"d\" with inherited definition"],
        ),
        (
            "alter table t1 add constraint d check (a > 1)",
            &["error 42710 constraint \"d\" for relation \"t1\" already exists"],
        ),
        ("alter table t drop constraint c, drop constraint d", &[]),
        ("drop index t_a cascade", &[]),
    ];
    for (sql, expected) in cases {
        assert_eq!(db.run(sql).0, expected, "{sql}");
    }
    assert!(partition().checks.is_empty());
}

#[test]
fn replica_identity_follows_its_index() {
    let db = Db::default();
    db.ok("create table t (a int not null, b int)");
    db.ok("create unique index i on t (a)");
    db.ok("alter table t replica identity using index i");
    let is_identity = || {
        let table = db.tables().remove(0);
        let named = table.indexes().find(|(index, _)| index.name == "i").map(|(index, _)| index.id);
        named.is_some_and(|id| table.replica_identity == model::ReplicaIdentity::Index(id))
    };
    assert!(is_identity());
    let refused = ["error 42P16 column \"a\" is in index used as replica identity"];
    assert_eq!(db.run("alter table t alter a drop not null").0, refused);
    for sql in ["alter table t alter a type bigint", "alter table t add primary key using index i"] {
        db.ok(sql);
        assert!(is_identity(), "{sql}");
    }
    db.ok("alter table t drop constraint i");
    assert!(!is_identity());
}

/// Constraints of a table have names in the order in which they are written, also before columns.
#[test]
fn constraints_have_names_in_their_order() {
    let db = Db::default();
    db.ok("create table t (check (a > 0), a int check (a > 1))");
    let checks: Vec<_> =
        db.tables()[0].checks.iter().map(|check| (check.name.clone(), check.condition.clone())).collect();
    let expected = [("t_a_check", "a > 0"), ("t_a_check1", "a > 1")];
    assert_eq!(checks, expected.map(|(name, condition)| (name.to_owned(), condition.to_owned())));
}

/// A catalog for statements about rows.
struct Bare(Vec<Arc<RowTable>>);

impl crate::Tables for Bare {
    fn table(&self, _: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        self.0.iter().find(|table| table.schema.name.table == name).cloned()
    }

    fn sequence(&self, _: Option<&str>, _: &str) -> Option<SequenceRef> {
        None
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.0.iter().find(|table| table.schema.id == id).cloned()
    }

    fn referring(&self, _: TableId) -> Vec<Arc<RowTable>> {
        Vec::new()
    }
}

#[test]
fn stored_expressions_can_be_bound_again() {
    let db = Db::default();
    let mut before = Vec::new();
    for Scenario { statements, .. } in scenarios() {
        statements.iter().for_each(|(sql, _)| drop(db.run(sql)));
        for table in db.tables() {
            // A sequence's `nextval` is not a plain expression.
            let is_sequence = |sql: &String| sql.starts_with("nextval");
            if !table.columns.iter().any(|column| column.default.as_ref().is_some_and(is_sequence)) {
                before.push(table);
            }
        }
        db.tables.borrow_mut().clear();
        db.sequences.borrow_mut().clear();
    }
    let tables = Bare(before.iter().map(|table| expressions::empty_table(table).unwrap()).collect());
    assert!(tables.0.len() > 50, "{}", tables.0.len());
    for table in &tables.0 {
        let one = Bare(vec![Arc::clone(table)]);
        let state = crate::Load::new(table, &[], &one, SESSION.facts().unwrap()).err().map(|error| error.state());
        // A default too long for its column fails when it is used, and so does a foreign key to a dropped table.
        let is_late = match state {
            None | Some(SqlState::STRING_TOO_LONG | SqlState::NUMERIC_OUT_OF_RANGE) => true,
            Some(SqlState::FEATURE_NOT_SUPPORTED) => !table.schema.foreign_keys.is_empty(),
            Some(_) => false,
        };
        assert!(is_late, "{state:?} {:?}", table.schema);
    }
}

/// A schema in the form that `pg_dump` writes.
#[test]
fn pg_dump_schemas_are_accepted() {
    let db = Db::default();
    let dump = [
        "CREATE TABLE public.t (a integer NOT NULL, b character varying(20) DEFAULT 'x'::character varying, c timestamp with time zone DEFAULT now() NOT NULL, \
         CONSTRAINT t_a_check CHECK ((a > 0)), CONSTRAINT t_b_check CHECK (((b)::text <> ''::text)))",
        "CREATE SEQUENCE public.t_a_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1",
        "ALTER SEQUENCE public.t_a_seq OWNED BY public.t.a",
        "CREATE TABLE public.u (id bigint NOT NULL, t integer)",
        "ALTER TABLE public.u ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME public.u_id_seq START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1)",
        "ALTER TABLE public.t OWNER TO postgres",
        "ALTER TABLE public.t_a_seq OWNER TO postgres",
        "ALTER TABLE ONLY public.t ALTER COLUMN a SET DEFAULT nextval('public.t_a_seq'::regclass)",
        "ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (a)",
        "ALTER TABLE ONLY public.u ADD CONSTRAINT u_pkey PRIMARY KEY (id)",
        "CREATE INDEX t_b_idx ON public.t USING btree (b)",
        "ALTER TABLE ONLY public.u ADD CONSTRAINT u_t_fkey FOREIGN KEY (t) REFERENCES public.t(a) ON UPDATE CASCADE ON DELETE SET NULL",
    ];
    for sql in dump {
        let lines = db.run(sql).0;
        assert!(lines.iter().all(|line| line.starts_with("notice") && line.contains("ignored")), "{sql}: {lines:?}");
    }
    assert_eq!(
        db.state(),
        [
            "= table t: a integer not null default; b character varying(20) default; c timestamp with time zone not null default",
            "= index t_b_idx: b",
            "= primary t_pkey: a",
            "= check t_a_check: a",
            "= check t_b_check: b",
            "= table u: id bigint not null identity always; t integer",
            "= primary u_pkey: id",
            "= foreign u_t_fkey: t -> t(a) delete n update c",
            "= sequence t_a_seq: integer start 1 increment 1 min 1 max 2147483647 cache 1 owned by t.a",
            "= sequence u_id_seq: bigint start 1 increment 1 min 1 max 9223372036854775807 cache 1 owned by u.id",
        ]
    );
}

#[test]
fn statements_without_effect_make_no_change() {
    let db = Db::default();
    db.ok("create table t (a int not null, b int)");
    for sql in [
        "alter table t alter a set not null",
        "alter table t add column if not exists b int",
        "alter table t alter b drop default",
    ] {
        assert_eq!(defined(sql, &db).unwrap().unwrap().changes.len(), 0, "{sql}");
    }
}

#[test]
fn other_stores_and_statements_are_left_alone() {
    let db = Db::default();
    for sql in [
        "create table c (time timestamptz) with (store = 'columns')",
        "alter table series add a int",
        "create index on series (a)",
        "drop table series",
        "drop index series",
        "create view v as select 1",
        "select 1",
    ] {
        assert_eq!(db.run(sql).0, ["not ours"], "{sql}");
    }
    assert_eq!(db.run("drop view v").0, ["error 42P01 view \"v\" does not exist"]);
    let hint = "hint Use DROP TABLE to remove a table.";
    assert_eq!(db.run("drop view series").0, ["error 42809 \"series\" is not a view", hint]);
    assert_eq!(db.run("create table series (a int)").0, ["error 42P07 relation \"series\" already exists"]);
    let (lines, _) = db.run("create table t (a int references series)");
    assert_eq!(lines, ["error 42809 referenced relation \"series\" is not a rows table"]);
}

/// The parser cuts them, as PostgreSQL's does at 63 bytes.
#[test]
fn names_beyond_128_bytes_are_cut() {
    let db = Db::default();
    let long = "x".repeat(129);
    db.ok(&format!("create table {long} ({long} int)"));
    let table = db.tables()[0].clone();
    assert_eq!([&table.name.table, &table.columns[0].name], [&long[..128]; 2]);
}

#[test]
fn stored_expressions_can_be_read_again_or_are_refused() {
    let db = Db::default();
    let chain = |operators: usize| vec!["'x'"; operators].join(" || ");
    db.ok(&format!("create table t (a text default {})", chain(400)));
    for sql in [
        format!("create table u (a text default {})", chain(700)),
        format!("create table u (a text check (a <> {}))", chain(700)),
    ] {
        assert!(db.run(&sql).0[0].starts_with("error 54001"), "{}", &sql[..60]);
    }
    let long = format!("create table u (a text default '{}')", "x".repeat(600_000));
    assert!(db.run(&long).0[0].starts_with("error 54000"));
    // The row as a whole has the name of its table, which may change.
    for row in ["u.*", "public.u.*", "row(u.*)", "u"] {
        let (lines, _) = db.run(&format!("create table u (a int, check ({row} is not null))"));
        assert!(lines[0].starts_with("error 0A000"), "{row}: {lines:?}");
    }
    db.ok("create sequence s");
    for default in ["nextval('s') + currval('s')", "currval('s')", "nextval(lower('S'))", "setval('s', 1)"] {
        let (lines, _) = db.run(&format!("create table u (a int default {default})"));
        assert!(lines[0].starts_with("error 0A000"), "{default}: {lines:?}");
    }
    for sql in
        ["create table other.public.u (a int)", "drop table other.public.t", "alter table other.public.t add b int"]
    {
        assert!(db.run(sql).0[0].starts_with("error 0A000"), "{sql}");
    }
}
