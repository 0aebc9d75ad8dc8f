//! Bulk loads.

use model::{SqlState, Type};
use pg::Form;
use rows::{Isolation, RecordId, Txn};

use super::schema::facts;
use super::{Db, East, NOW};
use crate::{Incoming, Load, Loaded, Refused, Session, Tables};

/// Rows of text; `~` is NULL.
struct Text(Vec<Vec<&'static str>>);

impl Incoming for Text {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn form(&self, _: usize) -> Form {
        Form::Text
    }

    fn field(&self, row: usize, field: usize) -> Option<&[u8]> {
        Some(self.0[row][field]).filter(|text| *text != "~").map(str::as_bytes)
    }
}

fn session() -> Session<'static> {
    Session { check: &|_| Ok(()), now: NOW, zone: &East, numbers: None }
}

fn load(db: &Db, txn: &mut Txn, table: &str, columns: &[usize], rows: &[&[&'static str]]) -> Result<Loaded, Refused> {
    let table = db.table(None, table).unwrap();
    let load = Load::new(&table, columns, db, facts()).unwrap();
    let rows = Text(rows.iter().map(|row| row.to_vec()).collect());
    load.run(txn, &rows, session(), &crossbeam_epoch::pin(), &mut |_| Ok(()))
}

fn dangling(loaded: Result<Loaded, Refused>) -> Vec<(RecordId, Box<[u8]>)> {
    match loaded {
        Ok(Loaded::All { dangling, .. }) => dangling,
        other => panic!("{other:?}"),
    }
}

#[test]
fn loaded_rows_are_those_of_an_insert() {
    let db = Db::new();
    let columns = ["id int", "name varchar(4) not null default 'none'", "price numeric(6,2)", "at timestamptz"];
    db.create("t", &columns, &["primary id", "check price >= 0"]);
    let mut txn = db.begin(Isolation::ReadCommitted);
    let rows: [&[&str]; 2] = [&["1", "1.005", "2026-01-01 00:00"], &["2", "~", "infinity"]];
    assert!(dangling(load(&db, &mut txn, "t", &[0, 2, 3], &rows)).is_empty());
    db.commit(txn);
    assert_eq!(db.sql("SELECT * FROM t WHERE id = 1"), ["1|none|1.01|2026-01-01 00:00:00+01"]);
    assert_eq!(db.sql("SELECT name, price, at FROM t WHERE id = 2"), ["none|null|infinity"]);
    let refused: [(&[usize], &[&str], _); 5] = [
        (&[0, 1], &["x", "a"], (SqlState::INVALID_TEXT_REPRESENTATION, Some(0))),
        (&[0, 1], &["4", "too long"], (SqlState::STRING_TOO_LONG, Some(1))),
        (&[0, 1], &["4", "~"], (SqlState::NOT_NULL_VIOLATION, None)),
        (&[0, 2], &["4", "-1"], (SqlState::CHECK_VIOLATION, None)),
        (&[0, 1], &["1", "a"], (SqlState::UNIQUE_VIOLATION, None)),
    ];
    for (columns, wrong, expected) in refused {
        let mut txn = db.begin(Isolation::ReadCommitted);
        let good: &[&str] = if columns == [0, 1] { &["3", "ok"] } else { &["3", "3"] };
        let refused = load(&db, &mut txn, "t", columns, &[good, wrong]).unwrap_err();
        assert_eq!((refused.error.state(), refused.field), expected, "{wrong:?}");
        assert_eq!(refused.row, 1);
    }
}

/// Functions of crate `scalar` ask for the session's facts when they run.
#[test]
fn constraints_and_defaults_may_call_functions() {
    let db = Db::new();
    let columns =
        ["id int default length('four')", "name text default upper(current_user)", "at date default current_date"];
    db.create("t", &columns, &["check name ~ '^[A-Z]*$' and at > '2026-01-01'"]);
    db.create("plain", &["id int default 4", "name text"], &["check id > 0"]);
    let needs = |table: &str| {
        let table = db.table(None, table).unwrap();
        let load = Load::new(&table, &[0], &db, facts()).unwrap();
        let insert = db.plan(&format!("INSERT INTO {} (name) VALUES ('A')", table.schema.name.table)).unwrap();
        [load.needs_facts(), insert.needs_facts(), insert.has_session_constants()]
    };
    // The constant time in the CHECK is none of the clock.
    assert_eq!((needs("t"), needs("plain")), ([true, true, false], [false; 3]));
    assert_eq!(db.sql("INSERT INTO t (name) VALUES ('A') RETURNING *"), ["4|A|2026-11-21"]);
    let zone = super::schema::Clocks::of(&db);
    let session = Session { zone: &zone, ..session() };
    let table = db.table(None, "t").unwrap();
    let load = Load::new(&table, &[1], &db, facts()).unwrap();
    let mut states = Vec::new();
    for name in ["B", "b"] {
        let mut txn = db.begin(Isolation::ReadCommitted);
        let rows = Text(vec![vec![name]]);
        let loaded = load.run(&mut txn, &rows, session, &crossbeam_epoch::pin(), &mut |_| Ok(()));
        states.push(loaded.err().map(|refused| refused.error.state()));
    }
    assert_eq!(states, [None, Some(SqlState::CHECK_VIOLATION)]);
}

#[test]
fn loads_take_the_numbers_of_defaults() {
    let db = Db::new();
    db.ddl("CREATE SEQUENCE s; CREATE TABLE t (a int2, b text DEFAULT 'x' || nextval('s') * 10, c int DEFAULT nextval('s'))");
    let (table, zone) = (db.table(None, "t").unwrap(), super::schema::Clocks::of(&db));
    let load = Load::new(&table, &[0], &db, facts()).unwrap();
    let mut txn = db.begin(Isolation::ReadCommitted);
    let session = Session { numbers: Some(&db), zone: &zone, ..session() };
    for rows in [Text(vec![vec!["1"]]), Text(vec![vec!["99999"]]), Text(vec![vec!["2"]])] {
        drop(load.run(&mut txn, &rows, session, &crossbeam_epoch::pin(), &mut |_| Ok(())));
    }
    db.commit(txn);
    assert_eq!(db.sql("SELECT * FROM t ORDER BY a"), ["1|x10|2", "2|x30|4"]);
}

/// Foreign keys are checked at the end of the statement, as in PostgreSQL.
#[test]
fn loaded_rows_may_reference_later_rows() {
    let db = Db::new();
    db.create("tree", &["id int", "parent int"], &["primary id", "references parent to tree(id)"]);
    let mut txn = db.begin(Isolation::ReadCommitted);
    let mut left = dangling(load(&db, &mut txn, "tree", &[0, 1], &[&["1", "2"], &["5", "5"]]));
    assert_eq!(left.len(), 1);
    left.extend(dangling(load(&db, &mut txn, "tree", &[0, 1], &[&["2", "~"], &["3", "9"]])));
    assert_eq!(left.len(), 2);
    let table = db.table(None, "tree").unwrap();
    let load = Load::new(&table, &[0, 1], &db, facts()).unwrap();
    let guard = &crossbeam_epoch::pin();
    assert!(load.finish(&mut txn, &left[..1], session(), guard).unwrap().is_ok());
    let error = load.finish(&mut txn, &left, session(), guard).unwrap_err();
    assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION);
    assert_eq!(error.detail(), Some("Key (parent)=(9) is not present in table \"tree\"."));
}

/// The query runs elsewhere; its values are cast to the types of the columns here.
#[test]
fn an_insert_takes_the_rows_of_a_query_that_runs_elsewhere() {
    let db = Db::new();
    db.ddl("CREATE TABLE t (id serial PRIMARY KEY, a int DEFAULT 5, n numeric(6,1), c char(3) UNIQUE)");
    let sql = "INSERT INTO t (n, a, c) SELECT rank() OVER (ORDER BY id), sum(a), 'x' FROM t GROUP BY id
        ON CONFLICT (c) DO UPDATE SET a = excluded.a + 1 RETURNING id, a, n, c";
    let (load, query) = db.load_of(sql).unwrap();
    assert_eq!(load.types(), [Type::Int8, Type::Int8]);
    assert_eq!(query.output.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["rank", "sum"]);
    assert_eq!(load.columns().len(), 4);
    let mut txn = db.begin(Isolation::ReadCommitted);
    let rows = Text(vec![vec!["1", "10"], vec!["2", "~"]]);
    let mut returned = Vec::new();
    let zone = super::schema::Clocks::of(&db);
    let session = Session { zone: &zone, numbers: Some(&db), ..session() };
    let loaded = load.run(&mut txn, &rows, session, &crossbeam_epoch::pin(), &mut |row| {
        returned.push(format!("{row:?}"));
        Ok(())
    });
    // The same row a second time.
    let refused = loaded.unwrap_err();
    assert_eq!((refused.row, refused.error.state()), (1, SqlState::CARDINALITY_VIOLATION));
    assert_eq!(returned.len(), 1);
    for (sql, expected) in [
        ("INSERT INTO t (a) SELECT id + $1 FROM t", None),
        ("INSERT INTO t (a) SELECT id FROM t RETURNING a + $1", Some("a parameter outside of the query of INSERT")),
        ("INSERT INTO t (c) SELECT xmlcomment(c) FROM t", Some("a query with a column of type xml")),
        ("INSERT INTO t VALUES (1)", Some("an INSERT without a query")),
        ("UPDATE t SET a = 1", Some("no INSERT")),
    ] {
        assert_eq!(db.load_of(sql).err().as_deref(), expected, "{sql}");
    }
}
