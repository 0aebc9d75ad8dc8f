//! Every query and change of the tests runs twice: bound by `bind` and `dml`, and bound by crate `binder` and lowered.

use std::sync::{Arc, LazyLock};

use binder::tree::{IndexKey, Table, TableColumn, UniqueIndex};
use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState, Type};
use scalar::{Call, Context};

use super::{Db, East, NOW, Outcome};
use crate::cast::Zone;
use crate::{Compiled, Lowered, Tables};

/// The session's zone with the facts that bound queries need.
pub(super) struct Clocks(scalar::Session);

impl Clocks {
    pub(super) fn of(db: &Db) -> Clocks {
        let objects: Arc<dyn scalar::Objects> = Arc::new(Names::of(db));
        Clocks(scalar::Session { objects: Some(objects), ..facts().clone() })
    }
}

impl Zone for Clocks {
    fn local(&self, micros: i64) -> i64 {
        East.local(micros)
    }

    fn moment(&self, local: i64) -> i64 {
        East.moment(local)
    }

    fn input(&self, text: &str, ty: Type) -> Result<Datum<'static>> {
        East.input(text, ty)
    }

    fn facts(&self) -> Option<&scalar::Session> {
        Some(&self.0)
    }
}

/// Facts of the tests' session: the zone of [`East`].
fn facts() -> &'static scalar::Session {
    static FACTS: LazyLock<scalar::Session> = LazyLock::new(|| scalar::Session {
        zone: jiff::tz::TimeZone::fixed(jiff::tz::offset(1)),
        zone_name: "Etc/GMT-1".into(),
        transaction_micros: NOW,
        statement_micros: NOW,
        ..scalar::Session::default()
    });
    &FACTS
}

/// The catalog of a database as the binder sees it.
struct Schema<'d> {
    db: &'d Db,
    session: scalar::Session,
}

pub(super) fn oid(id: u32) -> u32 {
    16_384 + 8 * id
}

impl binder::Schema for Schema<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        let Some(table) = Tables::table(self.db, schema, name) else { return Ok(None) };
        let shown: Vec<usize> = table.schema.shown().map(|(at, _)| at).collect();
        let columns = table.schema.shown().map(|(_, column)| TableColumn {
            name: column.name.as_str().into(),
            ty: TypeId(column.ty.oid()),
            typmod: column.ty.typmod(),
            not_null: column.not_null,
            default: column.default.as_deref().map(Box::from),
            identity: column.identity,
            generated: None,
        });
        let key = table.schema.primary.as_ref().map(|key| {
            key.columns.iter().filter_map(|at| shown.iter().position(|shown| shown == at)).collect::<Vec<_>>()
        });
        let indexes = table.schema.primary.iter().chain(table.schema.secondary.iter().filter(|index| index.unique));
        let place = |at: &usize| IndexKey::Column(shown.iter().position(|shown| shown == at).unwrap());
        let unique = indexes.map(|index| UniqueIndex {
            name: index.name.as_str().into(),
            keys: index.columns.iter().map(place).collect(),
            predicate: None,
            is_constraint: index.constraint,
        });
        Ok(Some(Arc::new(Table {
            oid: oid(table.id().0),
            schema: "public".into(),
            name: name.into(),
            columns: columns.collect(),
            primary_key: key.unwrap_or_default(),
            unique: unique.collect(),
            has_nanoseconds: false,
        })))
    }

    fn session(&self) -> &scalar::Session {
        &self.session
    }
}

/// Names of tables and sequences.
#[derive(Debug)]
struct Names {
    /// Name and OID.
    relations: Vec<(String, u32)>,
    /// Table, column and sequence.
    owned: Vec<(String, String, String)>,
}

impl Names {
    fn of(db: &Db) -> Names {
        let mut names = Names { relations: Vec::new(), owned: Vec::new() };
        let tables = db.tables.borrow();
        for table in tables.iter() {
            names.relations.push((table.schema.name.table.clone(), oid(table.id().0)));
        }
        for counter in db.counters.borrow().iter() {
            let spec = &counter.spec;
            names.relations.push((spec.name.table.clone(), oid(spec.id)));
            let owner = spec.owner.as_ref().and_then(|owner| {
                let table = tables.iter().find(|table| table.id() == owner.table)?;
                Some((table, table.schema.columns.get(owner.column)?.name.clone()))
            });
            if let Some((table, column)) = owner {
                let name = format!("public.{}", crate::ddl::quoted(&spec.name.table));
                names.owned.push((table.schema.name.table.clone(), column, name));
            }
        }
        names
    }
}

fn serial_function() -> u32 {
    scalar::registry::signature_number(builtin(), "pg_get_serial_sequence").unwrap()
}

/// A name without schema and quotes; `None` if it has another schema than `public`.
fn bare(name: &str) -> Option<String> {
    let name = name.strip_prefix("public.").unwrap_or(name);
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => Some(quoted.into()),
        None => (!name.contains('.')).then(|| name.to_ascii_lowercase()),
    }
}

fn no_relation(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

impl scalar::Objects for Names {
    fn has_function(&self, function: u32) -> bool {
        function == serial_function()
    }

    fn call<'a>(&self, arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let [Datum::Text(table), Datum::Text(column)] = arguments else { return Ok(Datum::Null) };
        let found = bare(table).filter(|name| self.relations.iter().any(|(other, _)| other == name));
        let name = found.ok_or_else(|| no_relation(table))?;
        let owned = self.owned.iter().find(|(table, of, _)| *table == name && of == column);
        Ok(owned.map_or(Datum::Null, |(_, _, sequence)| ctx.text(sequence)))
    }

    fn number(&self, name: &str, _: TypeId) -> Result<u32> {
        let found = bare(name).and_then(|name| self.relations.iter().find(|(other, _)| *other == name));
        found.map(|(_, oid)| *oid).ok_or_else(|| no_relation(name))
    }

    fn name(&self, number: u32, _: TypeId) -> Option<String> {
        self.relations.iter().find(|(_, oid)| *oid == number).map(|(name, _)| name.clone())
    }
}

/// Queries, or their starts, whose columns `bind` names otherwise than PostgreSQL and the binder.
const OTHER_NAMES: [&str; 15] = [
    "SELECT (timestamptz '2026-01-02 23:30:00')::date",
    "SELECT 'abcdef'::varchar(3), 'abcdef'::char(3), 'a'::char(3) || '|', 12345::text…",
    "SELECT 'infinity'::timestamp::timestamptz…",
    "SELECT 0.1::float8::numeric",
    "SELECT 1.5::integer, 2.5::integer, -1.5::integer, 2.5::float8::integer…",
    "SELECT 2.5::float8::int",
    "SELECT 3.5::float8::int",
    "SELECT CASE WHEN true THEN 1 ELSE 2.5::float8 END",
    "SELECT CAST('2026-02-28 12:00' AS timestamp), CAST(timestamp '2026-02-28 12:00' AS date)…",
    "SELECT interval '1 month 2 days'",
    "SELECT substr('abcdef', 0, 3)",
    "SELECT substr('abcdef', 5)",
    "SELECT substring('hello', 2, 3), substring('hello' FROM 2), substr('hello', -1, 3)…",
    "SELECT timestamp '0001-01-01' < timestamp '1677-01-01', timestamp '9999-12-31'::date…",
    "SELECT timestamp '2026-01-02 03:04:05'::date",
];

/// Queries, or their starts, for which the binder finds other access paths than `bind`: it has no subqueries that only
/// name columns, and computes equal aggregates once.
const OTHER_PLANS: [&str; 4] = [
    "SELECT id FROM t WHERE id NOT BETWEEN 2 AND 20…",
    "SELECT setval('s', coalesce(max(k), 0) + 1, max(k) IS NOT NULL)…",
    "SELECT x.v FROM (SELECT v FROM n WHERE id < 3) x",
    "SELECT id FROM (SELECT id FROM orders) t",
];

fn is_among(statements: &[&str], sql: &str) -> bool {
    statements.iter().any(|one| one.strip_suffix('…').map_or(sql == *one, |start| sql.starts_with(start)))
}

/// Statements, or their starts, to which `bind` does not give PostgreSQL's answer. It takes literals of INSERT … SELECT
/// for texts, and has less exact messages.
const OTHER_ANSWERS: [&str; 5] = [
    "INSERT INTO ticket (what, at) SELECT 'literal', '2026-01-02…",
    "INSERT INTO child (n) SELECT NULL",
    "INSERT INTO ticket (id, what) VALUES (1001, 'a'), (1002)",
    "UPDATE stock s SET n = 1 WHERE stock.n = 1",
    "SELECT 1 = ANY('1')",
];

/// Reasons for which queries that `bind` takes are refused.
const REFUSED: [&str; 1] = ["statement nests deeper than 100 levels"];

impl Db {
    /// Binds and lowers a query or a change; `None` for other statements.
    pub(super) fn prepared(&self, sql: &str) -> Option<Result<Lowered>> {
        self.prepared_with(sql, &[])
    }

    pub(super) fn prepared_with(&self, sql: &str, declared: &[Option<crate::ParamType>]) -> Option<Result<Lowered>> {
        let mut statements = parser::parse_all(sql).ok()?;
        use parser::ast::Statement;
        let schema = Schema { db: self, session: Clocks::of(self).0 };
        match statements.pop()?.statement {
            Statement::Query(query) => Some(crate::prepare(sql, &query, &schema, self, declared)),
            change @ (Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)) => {
                Some(crate::prepare_change(sql, &change, &schema, self, declared))
            }
            _ => None,
        }
    }

    /// The load of an INSERT, and the query of its rows.
    pub(super) fn load_of(&self, sql: &str) -> std::result::Result<(crate::Load, binder::tree::Query), String> {
        let statement = parser::parse_all(sql).unwrap().pop().unwrap().statement;
        let schema = Schema { db: self, session: Clocks::of(self).0 };
        let bound = binder::bind_statement(&schema, sql, &statement, &[]).unwrap();
        let binder::tree::Statement::Change(bound) = bound else { panic!("{sql}") };
        crate::lower_load(&bound, self, &schema.session).unwrap().map_err(|why| why.reason)
    }

    /// The plan of a query by the binder and the lowering, compared with `old`, that of `bind`. `None` for other
    /// statements, and for queries that both refuse.
    pub(super) fn lowered(&self, sql: &str, old: &Result<Compiled>) -> Option<Result<Compiled>> {
        let new = match self.prepared(sql)? {
            Ok(Lowered::Plan(compiled)) => *compiled,
            Ok(Lowered::Refused(why)) => {
                assert!(old.is_err() || REFUSED.contains(&why.reason.as_str()), "{}: {sql}", why.reason);
                return None;
            }
            Err(error) => return Some(Err(error)),
        };
        if let Ok(old) = old {
            assert_eq!(old.params(), new.params(), "{sql}");
            let is_same = old.plan() == new.plan() || has_typed_list(sql);
            assert_eq!(is_same, !is_among(&OTHER_PLANS, sql), "{sql}: {}", new.plan());
            assert_eq!(old.is_read_only(), new.is_read_only(), "{sql}");
            assert_eq!(old.columns().len(), new.columns().len(), "{sql}");
            for (old, new) in old.columns().iter().zip(new.columns()) {
                assert_eq!((old.ty, None), (new.ty, new.announced), "{sql}");
                // The binder also knows the tables behind subqueries.
                assert!(old.origin.is_none() || old.origin == new.origin, "{sql}: {old:?}, {new:?}");
            }
            let names = |compiled: &Compiled| compiled.columns().iter().map(|one| one.name.clone()).collect::<Vec<_>>();
            assert_eq!(names(old) != names(&new), is_among(&OTHER_NAMES, sql), "{sql}: {:?}", names(&new));
        }
        Some(Ok(new))
    }
}

/// `bind` compares with each value of a list by itself, PostgreSQL in the common type of the list and its left side.
fn has_typed_list(sql: &str) -> bool {
    sql.contains(" AND k IN ('") && sql.contains("'::")
}

/// Compares the results of both ways.
pub(super) fn compare(sql: &str, old: &Result<Outcome>, new: &Result<Outcome>) {
    let shown = |one: &Result<Outcome>| match one {
        Ok(Outcome::Rows(rows, count)) => format!("{count} {rows:?}"),
        Ok(Outcome::Wait(_)) => "waits".into(),
        Err(error) => format!("{} {} {:?}", error.state(), error.message(), error.detail()),
    };
    let is_unsupported = matches!(old, Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED);
    let is_other = has_typed_list(sql) || is_unsupported || is_among(&OTHER_ANSWERS, sql);
    assert!(is_other || shown(old) == shown(new), "{sql}: {} and {}", shown(old), shown(new));
}

/// Queries that `bind` does not take.
#[test]
fn bound_queries_have_functions_and_types_of_crate_scalar() {
    let db = Db::new();
    db.create("t", &["id int", "c char(4)", "v varchar", "n numeric", "ts timestamptz"], &["primary id"]);
    db.sql("INSERT INTO t VALUES (1, 'ab', 'one', 1.50, '2026-01-02 03:04:05'), (2, 'c', 'two', NULL, NULL)");
    db.check(&[
        ("SELECT array_agg(id ORDER BY id DESC) FROM t", "{2,1}"),
        ("SELECT array_agg(DISTINCT c) FROM t", "{\"ab  \",\"c   \"}"),
        ("SELECT regexp_replace(v, '[aeiou]', '*', 'g') FROM t ORDER BY id", "*n*\ntw*"),
        ("SELECT ARRAY[id, 7] FROM t WHERE id = 1", "{1,7}"),
        ("SELECT (ARRAY[id, 7])[2], id = ANY (ARRAY[id + 1, 1]) FROM t ORDER BY id", "7|true\n7|false"),
        ("SELECT jsonb_build_object('id', id) -> 'id' FROM t WHERE id = 2", "2"),
        ("SELECT id FROM t WHERE v ~ '^t' AND md5(v) = md5('two')", "2"),
        ("SELECT stddev(id), percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM t", "0.70710678118654752440|1.5"),
        ("SELECT to_char(ts, 'YYYY HH24') FROM t WHERE id = 1", "2026 03"),
        ("SELECT string_agg(DISTINCT v, ',') FROM t", "one,two"),
        ("SELECT row(id, v) FROM t WHERE id = 1", "(1,one)"),
        ("SELECT c LIKE 'ab__', length(c), c || '|', octet_length(c) FROM t WHERE id = 1", "true|2|ab||4"),
        ("SELECT coalesce(c, NULL), max(c) FROM t GROUP BY 1 ORDER BY 1", "ab  |ab  \nc   |c   "),
        ("SELECT DISTINCT ON (id % 1) id FROM t ORDER BY id % 1, id", "1"),
        ("SELECT a.id, b.id FROM t a LEFT JOIN (t b JOIN t c USING (id)) ON b.id = a.id + 1 ORDER BY 1", "1|2\n2|null"),
        ("SELECT x.id FROM t, t x FULL JOIN t y ON x.id = y.id + 1 ORDER BY 1 LIMIT 2", "1\n1"),
        ("SELECT id FROM t NATURAL JOIN (SELECT 2 AS id) x", "2"),
        ("SELECT now() - interval '1 day' < now()", "true"),
    ]);
    let announced = |sql: &str| match db.prepared(sql) {
        Some(Ok(Lowered::Plan(compiled))) => compiled.columns()[0].announced,
        _ => panic!("{sql}"),
    };
    assert_eq!(announced("SELECT array_agg(id) FROM t"), Some((1007, -1)));
    assert_eq!(announced("SELECT ts::timestamptz(0) FROM t"), Some((1184, 0)));
    assert_eq!(announced("SELECT id FROM t"), None);
}

/// Declared types of parameters, some of them unused, and locks.
#[test]
fn bound_queries_take_declared_parameters() {
    use crate::ParamType::{Array, Plain};
    let db = Db::new();
    db.create("t", &["id bigint", "v text"], &["primary id"]);
    db.sql("INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    let params = |sql: &str, declared: &[Option<crate::ParamType>]| match db.prepared_with(sql, declared) {
        Some(Ok(Lowered::Plan(compiled))) => (compiled.params().to_vec(), compiled.plan()),
        _ => panic!("{sql}"),
    };
    let point = String::from("points 1");
    let sql = "SELECT v FROM t WHERE id = $1";
    assert_eq!(params(sql, &[]), (vec![Plain(Type::Int8)], point.clone()));
    assert_eq!(params(sql, &[Some(Plain(Type::Int4))]), (vec![Plain(Type::Int4)], point.clone()));
    let declared = [None, Some(Plain(Type::Text))];
    assert_eq!(params(sql, &declared), (vec![Plain(Type::Int8), Plain(Type::Text)], point));
    let sql = "SELECT v FROM t WHERE id = ANY ($1) FOR UPDATE";
    assert_eq!(params(sql, &[Some(Array(Type::Int4))]), (vec![Array(Type::Int4)], "ranges 1 of an array".into()));
}

#[test]
fn queries_that_the_executor_does_not_run_are_refused_with_a_reason() {
    let db = Db::new();
    db.create("t", &["id int", "c char(4)"], &["primary id"]);
    for (sql, expected) in [
        ("SELECT id, rank() OVER (ORDER BY id) FROM t", "window functions"),
        ("SELECT * FROM generate_series(1, 3)", "functions in FROM"),
        ("SELECT generate_series(1, id) FROM t", "functions of sets"),
        ("WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT n FROM x", "WITH RECURSIVE"),
        ("SELECT count(*) FROM t GROUP BY ROLLUP (id)", "grouping sets"),
        ("SELECT id FROM t ORDER BY id FETCH FIRST 1 ROW WITH TIES", "FETCH FIRST WITH TIES"),
        ("SELECT DISTINCT ARRAY[id] FROM t", "DISTINCT of type integer[]"),
        ("SELECT ARRAY(SELECT id FROM t)", "ARRAY of a subquery"),
        ("SELECT c FROM t UNION SELECT 'a'::char(2)", "values of char(n) with several lengths"),
        ("SELECT clock_timestamp()", "volatile function clock_timestamp"),
        ("SELECT $1::point", "a parameter $1 of type point"),
    ] {
        match db.prepared(sql) {
            Some(Ok(Lowered::Refused(why))) => assert_eq!(why.reason, expected, "{sql}"),
            Some(Ok(Lowered::Plan(_))) => panic!("{sql}: it is lowered"),
            Some(Err(error)) => panic!("{sql}: {error}"),
            None => panic!("{sql}: it is no query"),
        }
    }
}
