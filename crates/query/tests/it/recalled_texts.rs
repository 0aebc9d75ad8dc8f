//! INSERTs that differ only in constants: executing them through the plan cache has the same effect as executing the
//! whole text.

use query::{PlanCache, Session};

use crate::client::{Client, Fixture, Storage};

/// Column types, and constants that some of them accept and others reject.
const ROWS: [&str; 12] = [
    "bool",
    "smallint",
    "int",
    "bigint",
    "real",
    "float8",
    "numeric(8,2)",
    "numeric",
    "text",
    "varchar(5)",
    "date",
    "timestamptz",
];
const COLUMNS: [&str; 8] = ["bool", "smallint", "int", "bigint", "real", "float8", "text", "timestamptz"];
const CONSTANTS: [&str; 34] = [
    "1",
    "-1",
    "0",
    "-0",
    "-0.0",
    "7.",
    ".5",
    "2.5",
    "-2.5",
    "1e3",
    "-1.25E-2",
    "1e5x",
    "99999",
    "3000000000",
    "-9223372036854775808",
    "123456789012345678901",
    "'5'",
    "' 6 '",
    "'-0'",
    "'7.5'",
    "'it''s'",
    "''",
    "'longer than five'",
    "'2024-02-29'",
    "'2024-02-29 12:34:56.5+02'",
    "'t'",
    "true",
    "FALSE",
    "NULL",
    "null",
    "default",
    "2 + 3",
    "- 4",
    "'1' || '2'",
];

/// Clauses after the rows of an INSERT into a table with a primary key `k`.
const TAILS: [&str; 6] = [
    "",
    "",
    " ON CONFLICT DO NOTHING",
    " ON CONFLICT (k) DO UPDATE SET c2 = excluded.c2",
    " RETURNING k, c0",
    " ON CONFLICT (k) DO UPDATE SET c2 = 7 WHERE a.c2 > 1",
];

/// Deterministic pseudo-random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % count as u64) as usize
    }
}

/// A client as the server has it.
struct Cached {
    session: Session,
    plans: PlanCache,
}

impl Cached {
    fn new(fixture: &Fixture) -> Cached {
        Cached { session: fixture.database.session("millrace"), plans: PlanCache::default() }
    }
}

async fn whole(client: &mut Cached, sql: &str) -> Result<(), String> {
    let Cached { session, plans } = client;
    let said = |error: model::Error| format!("{} {error}", error.state().0);
    for statement in query::parse(sql).map_err(said)? {
        let prepared = session.prepare(&statement, &[]).await.map_err(said)?;
        plans.remember_stripped(session, &prepared);
        session.execute(&prepared, &[]).await.map_err(said)?;
    }
    Ok(())
}

/// Executes a text as the server does for the simple protocol. The flag says whether the plan cache had it.
async fn recalled(client: &mut Cached, sql: &str) -> (Result<(), String>, bool) {
    let Some(text) = client.plans.recall_text(&mut client.session, sql) else {
        return (whole(client, sql).await, false);
    };
    for statement in &text.statements {
        if let Err(error) = client.session.execute_into(&statement.prepared, statement.arguments(), None).await {
            return (Err(format!("{} {error}", error.state().0)), true);
        }
    }
    (Ok(()), true)
}

/// Number of texts that hit the cache, by their number of rows.
#[derive(Debug, Default)]
struct Found {
    of_one_row: usize,
    of_several_rows: usize,
}

/// Inserts random rows into `a` through the cache, and into the identical table `b` through a session without a
/// cache.
async fn compare(
    fixture: &Fixture,
    tables: &str,
    types: &[&str],
    tails: &[&str],
    texts: usize,
    first: impl Fn(usize) -> String,
) -> Found {
    let (mut cached, mut plain) = (Cached::new(fixture), Cached::new(fixture));
    for name in ["a", "b"] {
        whole(&mut cached, &tables.replace("TABLE x", &format!("TABLE {name}"))).await.unwrap();
    }
    let (mut random, mut found, mut key) = (Random(types.len() as u64), Found::default(), 0);
    for _ in 0..texts {
        // Usually one column, so that an error in one column does not hide the behaviour of others.
        let mut targets: Vec<usize> = (0..types.len()).filter(|_| random.below(types.len()) == 0).collect();
        targets.push(random.below(types.len()));
        targets.sort_unstable();
        targets.dedup();
        let names: Vec<String> = targets.iter().map(|at| format!("c{at}")).collect();
        let rows = if random.below(3) == 0 { 2 + random.below(4) } else { 1 };
        // Most rows are like the first, so that not all are rejected.
        let usual: Vec<&str> = targets.iter().map(|_| CONSTANTS[random.below(CONSTANTS.len())]).collect();
        let rows = (0..rows).map(|_| {
            let other = random.below(4) == 0;
            let value = |usual: &&'static str| if other { CONSTANTS[random.below(CONSTANTS.len())] } else { usual };
            let values: Vec<&str> = usual.iter().map(value).collect();
            // Occasionally a duplicate key.
            key += usize::from(tails.is_empty() || random.below(20) > 0);
            format!("({}, {})", first(key), values.join(",  "))
        });
        let rows: Vec<String> = rows.collect();
        let tail = if tails.is_empty() { "" } else { tails[random.below(tails.len())] };
        let sql = |table: &str| {
            let tail = tail.replace("a.", &format!("{table}."));
            format!("INSERT INTO {table} (k, {}) VALUES {}{tail}", names.join(", "), rows.join(", "))
        };
        let (given, was_found) = recalled(&mut cached, &sql("a")).await;
        // The trailing blank makes the text a cache miss.
        let expected = whole(&mut plain, &format!("{} ", sql("b"))).await;
        // Errors name the primary key.
        let given = given.map_err(|error| error.replace("a_pkey", "b_pkey"));
        assert_eq!(given, expected, "{}", sql("a"));
        if was_found && given.is_ok() {
            match rows.len() {
                1 => found.of_one_row += 1,
                _ => found.of_several_rows += 1,
            }
        }
    }
    let all = |table: &str| format!("SELECT * FROM {table} ORDER BY k");
    let mut client = Client::new(fixture, Storage::Memory);
    let (ours, theirs) = (client.table(&all("a")).await.unwrap(), client.table(&all("b")).await.unwrap());
    assert!(ours.len() > 1_000, "{}", ours.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    found
}

fn columns(types: &[&str]) -> String {
    let columns: Vec<String> = types.iter().enumerate().map(|(at, ty)| format!("c{at} {ty}")).collect();
    columns.join(", ")
}

#[test]
fn values_of_an_insert_are_those_of_its_text_whatever_was_inserted_before() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let table = format!("CREATE TABLE x (k int PRIMARY KEY, {})", columns(&ROWS));
        let found = compare(&fixture, &table, &ROWS, &TAILS, 6_000, |number| number.to_string()).await;
        assert!(found.of_one_row > 200 && found.of_several_rows > 100, "{found:?}");
        let fixture = Fixture::new();
        let table = format!(
            "CREATE TABLE x (k timestamptz NOT NULL, {}) WITH (store = 'columns', time = 'k')",
            columns(&COLUMNS)
        );
        let moment = |number: usize| format!("'2024-01-01 {:02}:{:02}:00'", number / 60 % 24, number % 60);
        let day = |number: usize| moment(number).replace("01-01", &format!("01-{:02}", number / 1_440 + 1));
        let found = compare(&fixture, &table, &COLUMNS, &[], 3_000, day).await;
        assert!(found.of_one_row > 150 && found.of_several_rows > 50, "{found:?}");
    });
}

#[test]
fn rows_of_constants_are_found_whatever_their_number_once_one_of_them_was() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let mut session = Cached::new(&fixture);
        whole(&mut session, "CREATE TABLE a (k int PRIMARY KEY, s text)").await.unwrap();
        for (text, expected) in [
            ("INSERT INTO a VALUES (1, 'x')", false),
            // After a text with one row, texts with any number of constant rows hit the cache.
            ("INSERT INTO a VALUES (2, 'y'), (3, NULL)", true),
            ("INSERT INTO a VALUES (4, 'z')", true),
            ("INSERT INTO a VALUES (5, 'u'), (6, 'v'), (7, 'w'); INSERT INTO a VALUES (8, ''), (9, '')", true),
            ("INSERT INTO a VALUES (10, 'u'), (11, 'v' || 'w')", false),
        ] {
            let (done, was_found) = recalled(&mut session, text).await;
            assert_eq!((done, was_found), (Ok(()), expected), "{text}");
        }
        let mut client = Client::new(&fixture, Storage::Memory);
        assert_eq!(client.table("SELECT k FROM a").await.unwrap().len(), 11);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_with_a_constant_of_the_clock_is_planned_each_time() {
    let fixture = Fixture::new();
    let mut session = Cached::new(&fixture);
    whole(&mut session, "CREATE TABLE moments (t timestamptz)").await.unwrap();
    for _ in 0..4 {
        let (inserted, _) = recalled(&mut session, "INSERT INTO moments SELECT 'now'::timestamptz").await;
        inserted.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let mut client = Client::new(&fixture, Storage::Memory);
    assert_eq!(client.table("SELECT count(DISTINCT t) FROM moments").await.unwrap(), ["4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_on_a_table_with_a_check_of_times_is_recalled_until_the_zone_changes() {
    let fixture = Fixture::new();
    let mut session = Cached::new(&fixture);
    let table = "CREATE TABLE kept (t timestamptz CHECK (t > '2026-01-01 00:00'), d date CHECK (d <> 'today'))";
    whole(&mut session, table).await.unwrap();
    whole(&mut session, "CREATE TABLE dated (t timestamptz CHECK (t > '2026-01-01 00:00'))").await.unwrap();
    for (insert, is_recalled) in [("INSERT INTO kept VALUES", false), ("INSERT INTO dated VALUES", true)] {
        for day in 1..=3 {
            recalled(&mut session, &format!("{insert} ('2026-02-0{day} 00:00')")).await.0.unwrap();
        }
        let (inserted, was_recalled) = recalled(&mut session, &format!("{insert} ('2026-02-09 00:00')")).await;
        assert_eq!((inserted, was_recalled), (Ok(()), is_recalled), "{insert}");
    }
    // Midnight there is five hours later.
    whole(&mut session, "SET TimeZone = 'America/New_York'").await.unwrap();
    let (refused, _) = recalled(&mut session, "INSERT INTO dated VALUES ('2026-01-01 00:00+00')").await;
    assert!(refused.unwrap_err().starts_with("23514"));
    let (refused, _) = recalled(&mut session, "INSERT INTO dated VALUES ('2026-01-01 00:00+00')").await;
    assert!(refused.unwrap_err().starts_with("23514"));
}
