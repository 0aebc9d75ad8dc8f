//! Generates statements from a seed whose results do not depend on the order in which rows are found.
//!
//! Therefore queries with ORDER BY order by everything; sums are over exactly representable numbers; keys are
//! changed one row at a time; no condition contains an expression that may fail for one row and be skipped for
//! another.

use std::fmt::Write as _;

/// Tables for both products.
pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE t (id int PRIMARY KEY, i int, b bigint, n numeric(8,2), d double precision, s text, v varchar(6), \
     k boolean, day date, at timestamptz, CHECK (i < 60), UNIQUE (s, i))",
    "CREATE INDEX t_i ON t (i, d)",
    "CREATE TABLE u (a int, c text, ref int REFERENCES t ON DELETE CASCADE, i int NOT NULL DEFAULT 3, n numeric, \
     PRIMARY KEY (a, c))",
    "CREATE INDEX u_ref ON u (ref)",
    "CREATE TABLE w (g int, s text, i int, r int REFERENCES t (id) ON DELETE SET NULL)",
];

/// Type class of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Big,
    Numeric,
    Float,
    Text,
    Bool,
    Date,
    Moment,
}

impl Kind {
    const ALL: [Kind; 8] =
        [Kind::Int, Kind::Big, Kind::Numeric, Kind::Float, Kind::Text, Kind::Bool, Kind::Date, Kind::Moment];

    fn sql(self) -> &'static str {
        match self {
            Kind::Int => "int",
            Kind::Big => "bigint",
            Kind::Numeric => "numeric",
            Kind::Float => "float8",
            Kind::Text => "text",
            Kind::Bool => "boolean",
            Kind::Date => "date",
            Kind::Moment => "timestamptz",
        }
    }
}

struct Table {
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    key: &'static [&'static str],
}

const T: Table = Table {
    name: "t",
    columns: &[
        ("id", Kind::Int),
        ("i", Kind::Int),
        ("b", Kind::Big),
        ("n", Kind::Numeric),
        ("d", Kind::Float),
        ("s", Kind::Text),
        ("v", Kind::Text),
        ("k", Kind::Bool),
        ("day", Kind::Date),
        ("at", Kind::Moment),
    ],
    key: &["id"],
};
const U: Table = Table {
    name: "u",
    columns: &[("a", Kind::Int), ("c", Kind::Text), ("ref", Kind::Int), ("i", Kind::Int), ("n", Kind::Numeric)],
    key: &["a", "c"],
};
const W: Table = Table {
    name: "w",
    columns: &[("g", Kind::Int), ("s", Kind::Text), ("i", Kind::Int), ("r", Kind::Int)],
    key: &["g", "s", "i", "r"],
};

/// A statement and how to compare its answers.
pub(super) struct Question {
    pub(super) sql: String,
    /// Parameter values.
    pub(super) values: Vec<Option<String>>,
    /// Whether to use the extended protocol.
    pub(super) extended: bool,
    /// Whether it changes rows or the transaction's state.
    pub(super) changes: bool,
    /// Whether ORDER BY determines the order of rows.
    pub(super) ordered: bool,
    /// Whether several rows may fail with different errors.
    pub(super) any_error: bool,
}

/// Pseudo-random numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Names that an expression may use.
#[derive(Clone, Copy)]
struct Names<'a> {
    /// Tables with their aliases.
    tables: &'a [(&'a Table, &'a str)],
}

impl Names<'_> {
    fn of(&self, kind: Kind) -> Vec<String> {
        let columns = self.tables.iter().flat_map(|(table, called)| table.columns.iter().map(move |c| (called, c)));
        let shown = |(called, column): (&&str, &(&str, Kind))| match column.0 {
            // Avoids the question whether an expression over varchar and text is varchar or text.
            "v" => format!("{called}.v::text"),
            name => format!("{called}.{name}"),
        };
        columns.filter(|(_, column)| column.1 == kind).map(shown).collect()
    }
}

/// Generator of statements.
pub(super) struct Generator {
    random: Random,
    in_block: bool,
    savepoints: usize,
    /// Parameter values of the current statement; `None` if it cannot have parameters.
    values: Option<Vec<Option<String>>>,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        Generator { random: Random(seed), in_block: false, savepoints: 0, values: None }
    }

    /// Updates the transaction state after a statement.
    pub(super) fn note(&mut self, question: &Question, _answer: &str) {
        match question.sql.split(' ').next() {
            Some("BEGIN") => self.in_block = true,
            Some("COMMIT") => (self.in_block, self.savepoints) = (false, 0),
            Some("ROLLBACK") if question.sql == "ROLLBACK" => (self.in_block, self.savepoints) = (false, 0),
            Some("SAVEPOINT") => self.savepoints += 1,
            _ => {}
        }
    }

    /// The next statement.
    pub(super) fn next(&mut self) -> Question {
        let extended = self.random.one_in(3);
        self.values = extended.then(Vec::new);
        let mut question = match self.random.below(30) {
            0..4 => self.transaction(),
            4..11 => self.insert(),
            11..16 => self.update(),
            16..18 => self.delete(),
            _ => self.select(),
        };
        question.values = self.values.take().unwrap_or_default();
        question.extended &= extended;
        question
    }

    fn change(sql: String, any_error: bool) -> Question {
        Question { sql, values: Vec::new(), extended: true, changes: true, ordered: false, any_error }
    }

    fn transaction(&mut self) -> Question {
        let sql = if !self.in_block {
            self.random.of(&["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"])
        } else {
            match self.random.below(8) {
                0..3 => "COMMIT",
                3 => "ROLLBACK",
                4 | 5 if self.savepoints > 0 => "ROLLBACK TO s",
                _ => "SAVEPOINT s",
            }
        };
        Question { extended: false, ..Generator::change(sql.to_owned(), false) }
    }

    fn insert(&mut self) -> Question {
        match self.random.below(6) {
            0..3 => self.insert_t(),
            3 => self.insert_u(),
            4 => self.insert_w(),
            _ => self.insert_select(),
        }
    }

    fn insert_t(&mut self) -> Question {
        let rows = 1 + self.random.below(3);
        let count = if self.random.one_in(4) { 1 + self.random.below(T.columns.len()) } else { T.columns.len() };
        let names: Vec<&str> = T.columns.iter().take(count).map(|column| column.0).collect();
        let mut sql = format!("INSERT INTO t ({}) VALUES ", names.join(", "));
        for row in 0..rows {
            let values: Vec<String> = T.columns[..count]
                .iter()
                .map(|(name, kind)| if *name == "id" { self.key() } else { self.literal(*kind) })
                .collect();
            let _ = write!(sql, "{}({})", if row == 0 { "" } else { ", " }, values.join(", "));
        }
        match self.random.below(5) {
            0 => sql.push_str(" ON CONFLICT DO NOTHING"),
            1 => {
                let names = Names { tables: &[(&T, "t"), (&T, "excluded")] };
                let column = self.random.of(&T.columns[1..]);
                let value = self.expr(column.1, names, 2);
                let _ = write!(sql, " ON CONFLICT (id) DO UPDATE SET {} = {value}", column.0);
                if self.random.one_in(3) {
                    let condition = self.expr(Kind::Bool, names, 1);
                    let _ = write!(sql, " WHERE {condition}");
                }
            }
            _ => {}
        }
        self.returning(&mut sql, &T);
        Generator::change(sql, true)
    }

    fn insert_u(&mut self) -> Question {
        let (a, c, refers) = (self.key(), self.literal(Kind::Text), self.key());
        let mut sql = match self.random.below(3) {
            0 => format!("INSERT INTO u (a, c, ref) VALUES ({a}, {c}, {refers})"),
            1 => format!("INSERT INTO u VALUES ({a}, {c}, {refers}, DEFAULT, {})", self.literal(Kind::Numeric)),
            _ => format!("INSERT INTO u VALUES ({a}, {c}, NULL, {}, 1)", self.literal(Kind::Int)),
        };
        if self.random.one_in(3) {
            sql.push_str(" ON CONFLICT (a, c) DO UPDATE SET i = u.i + excluded.i, ref = excluded.ref");
        }
        self.returning(&mut sql, &U);
        Generator::change(sql, true)
    }

    fn insert_w(&mut self) -> Question {
        let values = [self.literal(Kind::Int), self.literal(Kind::Text), self.literal(Kind::Int), self.key()];
        let mut sql = format!("INSERT INTO w VALUES ({})", values.join(", "));
        self.returning(&mut sql, &W);
        Generator::change(sql, true)
    }

    fn insert_select(&mut self) -> Question {
        let names = Names { tables: &[(&T, "t")] };
        let condition = self.expr(Kind::Bool, names, 2);
        let text = self.expr(Kind::Text, names, 1);
        let sql = match self.random.below(3) {
            0 => format!(
                "INSERT INTO u (a, c, ref) SELECT t.id, 'sel', t.id FROM t WHERE {condition} ON CONFLICT DO NOTHING"
            ),
            1 => format!("INSERT INTO w (g, s, r) SELECT t.i, {text}, t.id FROM t WHERE {condition}"),
            _ => format!(
                "INSERT INTO t (id, i, s) SELECT t.id + 100, t.i, t.s || 'x' FROM t WHERE {condition} AND t.id < 100"
            ),
        };
        Generator::change(sql, true)
    }

    fn update(&mut self) -> Question {
        let (table, condition_depth) = (self.random.of(&[&T, &T, &U, &W]), self.random.below(3));
        let names = Names { tables: &[(table, table.name)] };
        let mut sql = format!("UPDATE {} SET ", table.name);
        let from = table.name == "u" && self.random.one_in(3);
        let both = Names { tables: &[(&U, "u"), (&T, "t")] };
        let names = if from { both } else { names };
        let changed = 1 + self.random.below(2);
        let mut columns: Vec<&(&str, Kind)> = Vec::new();
        for _ in 0..changed {
            let column = &table.columns[self.random.below(table.columns.len())];
            let is_key = table.name != "w" && table.key.contains(&column.0);
            if !is_key && !columns.iter().any(|known| known.0 == column.0) {
                columns.push(column);
            }
        }
        if columns.is_empty() {
            columns.push(&table.columns[2]);
        }
        for (at, column) in columns.iter().enumerate() {
            let value = self.expr(column.1, names, 2);
            let _ = write!(sql, "{}{} = {value}", if at == 0 { "" } else { ", " }, column.0);
        }
        if from {
            sql.push_str(" FROM t WHERE u.ref = t.id AND ");
            sql.push_str(&self.expr(Kind::Bool, names, condition_depth));
        } else if table.name == "t" && columns.iter().any(|column| ["s", "i"].contains(&column.0)) {
            // Whether updates of several keys conflict depends on the order of rows.
            let _ = write!(sql, " WHERE t.id = {}", self.key());
        } else if self.random.one_in(6) && table.name == "t" {
            let (key, id) = (self.key(), self.key());
            let _ = write!(sql, ", id = {key} WHERE id = {id}");
        } else {
            sql.push_str(" WHERE ");
            sql.push_str(&self.condition(table, condition_depth));
        }
        if !from {
            self.returning(&mut sql, table);
        }
        Generator::change(sql, true)
    }

    fn delete(&mut self) -> Question {
        let table = self.random.of(&[&T, &U, &W]);
        let key = self.key();
        let mut sql = match self.random.below(4) {
            0 if table.name == "u" => {
                let names = Names { tables: &[(&U, "u"), (&T, "t")] };
                format!("DELETE FROM u USING t WHERE t.id = u.ref AND {}", self.expr(Kind::Bool, names, 1))
            }
            0 | 1 => format!("DELETE FROM {0} WHERE {0}.{1} = {key}", table.name, table.columns[0].0),
            _ => {
                let condition = self.condition(table, 2);
                format!("DELETE FROM {0} WHERE {0}.{1} > {key} AND {condition}", table.name, table.columns[0].0)
            }
        };
        if !sql.contains("USING") {
            self.returning(&mut sql, table);
        }
        Generator::change(sql, true)
    }

    fn returning(&mut self, sql: &mut String, table: &Table) {
        match self.random.below(4) {
            0 => sql.push_str(" RETURNING *"),
            1 => {
                let names = Names { tables: &[(table, table.name)] };
                let kind = self.random.of(&Kind::ALL);
                let value = self.expr(kind, names, 1);
                let _ = write!(sql, " RETURNING {value} AS x, {}.{}", table.name, table.key[0]);
            }
            _ => {}
        }
    }

    fn select(&mut self) -> Question {
        let (sql, ordered) = match self.random.below(11) {
            0..3 => self.select_rows(),
            3 => self.select_key(),
            4 => self.select_aggregates(),
            5 => self.select_groups(),
            6 => self.select_join(),
            7 => self.select_distinct(),
            8 => self.select_locked(),
            9 => self.select_nested(),
            _ => self.select_all(),
        };
        Question { sql, values: Vec::new(), extended: true, changes: false, ordered, any_error: true }
    }

    fn select_all(&mut self) -> (String, bool) {
        let table = self.random.of(&[&T, &U, &W]);
        (format!("SELECT * FROM {} ORDER BY {}", table.name, table.key.join(", ")), true)
    }

    fn select_rows(&mut self) -> (String, bool) {
        let table = self.random.of(&[&T, &T, &U]);
        let names = Names { tables: &[(table, table.name)] };
        let kinds = [self.random.of(&Kind::ALL), self.random.of(&Kind::ALL)];
        let (first, second) = (self.expr(kinds[0], names, 2), self.expr(kinds[1], names, 1));
        let condition = self.condition(table, 2);
        let by = self.random.of(table.columns).0;
        let direction = self.random.of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let key = table.key.join(", ");
        let mut sql = format!(
            "SELECT {first} AS x, {second} AS y, {key} FROM {} WHERE {condition} ORDER BY {}.{by}{direction}, {key}",
            table.name, table.name
        );
        if self.random.one_in(3) {
            let _ = write!(sql, " LIMIT {} OFFSET {}", self.random.below(5), self.random.below(3));
        }
        (sql, true)
    }

    /// Without concurrency row locks change no results, but the statements run like changes.
    fn select_locked(&mut self) -> (String, bool) {
        let table = self.random.of(&[&T, &U]);
        let condition = self.condition(table, 2);
        let mode =
            self.random.of(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE", "UPDATE NOWAIT", "SHARE SKIP LOCKED"]);
        let key = table.key.join(", ");
        (format!("SELECT * FROM {} WHERE {condition} ORDER BY {key} FOR {mode}", table.name), true)
    }

    /// Nested queries.
    fn select_nested(&mut self) -> (String, bool) {
        if self.random.one_in(8) {
            let number = self.literal(Kind::Int);
            let sql = format!("SELECT t.id FROM t WHERE t.id NOT IN (SELECT ref FROM u WHERE i > {number}) ORDER BY 1");
            return (sql, true);
        }
        let condition = self.condition(&T, 1);
        let sql = match self.random.below(7) {
            0 => format!(
                "SELECT t.id, (SELECT count(*) FROM u WHERE u.ref = t.id AND u.i < {}) AS c FROM t \
                 WHERE {condition} ORDER BY 1",
                self.literal(Kind::Int)
            ),
            1 => format!(
                "SELECT x.s, x.c FROM (SELECT s, count(*) AS c FROM t WHERE {condition} GROUP BY s) AS x \
                 WHERE x.c > 0 ORDER BY 1, 2"
            ),
            2 => format!("SELECT t.id FROM t WHERE {condition} UNION ALL SELECT a FROM u ORDER BY 1"),
            3 => format!("SELECT t.id FROM t WHERE {condition} EXCEPT SELECT ref FROM u ORDER BY 1"),
            4 => format!(
                "WITH x AS (SELECT id, i FROM t WHERE {condition}) SELECT u.a, u.c, x.i FROM x JOIN u ON u.ref = x.id \
                 ORDER BY 1, 2"
            ),
            5 => format!(
                "SELECT t.id, u.a, u.c FROM t FULL JOIN u ON u.ref = t.id WHERE t.id IS NULL OR {condition} \
                 ORDER BY 1, 2, 3"
            ),
            _ => {
                let low = self.random.below(60);
                format!(
                    "SELECT max(t.i) - {low} AS m, count(*) FILTER (WHERE t.i > {low}) AS f FROM t WHERE {condition}"
                )
            }
        };
        (sql, true)
    }

    fn select_key(&mut self) -> (String, bool) {
        let key = self.key();
        match self.random.below(3) {
            0 => (format!("SELECT * FROM t WHERE id = {key}"), true),
            1 => (format!("SELECT t.*, u.c FROM t JOIN u ON u.ref = t.id WHERE t.id = {key}"), false),
            _ => (format!("SELECT a, c, n FROM u WHERE a = {key} AND c >= {}", self.literal(Kind::Text)), false),
        }
    }

    fn select_aggregates(&mut self) -> (String, bool) {
        let table = self.random.of(&[&T, &U, &W]);
        let names = Names { tables: &[(table, table.name)] };
        let number = self.random.of(&[Kind::Int, Kind::Big, Kind::Numeric, Kind::Float]);
        // If numerics such as 0 and 0.00 are equal, either may be the minimum.
        let other = self.random.of(&[Kind::Int, Kind::Big, Kind::Float]);
        let (sum, most) = (self.expr(number, names, 1), self.expr(other, names, 1));
        let text = self.expr(Kind::Text, names, 1);
        let condition = self.condition(table, 2);
        let sql = format!(
            "SELECT count(*), count({text}), sum({sum}), min({most}), max({text}), avg({sum}), count(DISTINCT {most}) \
             FROM {} WHERE {condition}",
            table.name
        );
        (sql, true)
    }

    fn select_groups(&mut self) -> (String, bool) {
        let number = self.random.of(&[Kind::Int, Kind::Numeric]);
        let names = Names { tables: &[(&T, "t")] };
        let (sum, by) = (self.expr(number, names, 1), self.random.of(&["k", "s", "i", "day"]));
        let condition = self.condition(&T, 1);
        let having = if self.random.one_in(2) { " HAVING count(*) > 1" } else { "" };
        let sql = format!(
            "SELECT t.{by}, count(*) AS c, sum({sum}), max(t.b) FROM t WHERE {condition} GROUP BY t.{by}{having} ORDER BY 1"
        );
        (sql, true)
    }

    fn select_join(&mut self) -> (String, bool) {
        let names = Names { tables: &[(&T, "t"), (&U, "u")] };
        let kind = self.random.of(&Kind::ALL);
        let (value, condition) = (self.expr(kind, names, 2), self.expr(Kind::Bool, names, 2));
        let join = self.random.of(&[
            "JOIN u ON u.ref = t.id",
            "LEFT JOIN u ON u.ref = t.id",
            "JOIN u ON u.ref = t.id AND u.i > t.i",
        ]);
        let sql =
            format!("SELECT {value} AS x, t.id, u.a, u.c FROM t {join} WHERE {condition} ORDER BY t.id, u.a, u.c");
        (sql, true)
    }

    fn select_distinct(&mut self) -> (String, bool) {
        let names = Names { tables: &[(&T, "t")] };
        let kind = self.random.of(&[Kind::Int, Kind::Text, Kind::Bool, Kind::Date, Kind::Moment]);
        let (value, condition) = (self.expr(kind, names, 1), self.condition(&T, 2));
        (format!("SELECT DISTINCT {value} AS x FROM t WHERE {condition} ORDER BY 1"), true)
    }

    /// A condition on a table: an expression, or a key condition that uses an index.
    fn condition(&mut self, table: &Table, depth: usize) -> String {
        let names = Names { tables: &[(table, table.name)] };
        let first = format!("{}.{}", table.name, table.columns[0].0);
        match self.random.below(7) {
            0 => format!("{first} = {}", self.key()),
            1 => {
                format!("{first} BETWEEN {} AND {} AND {}", self.key(), self.key(), self.expr(Kind::Bool, names, depth))
            }
            2 => format!("{first} IN ({}, {}, {})", self.key(), self.key(), self.key()),
            3 if table.name == "t" => {
                let inner = Names { tables: &[(&U, "u")] };
                let not = self.random.of(&["", "NOT "]);
                format!("{not}EXISTS (SELECT 1 FROM u WHERE u.ref = t.id AND {})", self.expr(Kind::Bool, inner, 1))
            }
            4 if table.name == "t" => format!("t.id IN (SELECT u.ref FROM u WHERE u.i > {})", self.literal(Kind::Int)),
            _ => self.expr(Kind::Bool, names, depth),
        }
    }

    fn key(&mut self) -> String {
        let key = self.random.below(24).to_string();
        self.given(Some(key), Kind::Int)
    }

    /// A value as a literal or a parameter.
    fn given(&mut self, text: Option<String>, kind: Kind) -> String {
        let as_parameter = self.values.is_some() && self.random.one_in(3);
        if let Some(values) = self.values.as_mut().filter(|_| as_parameter) {
            values.push(text);
            return format!("${}::{}", values.len(), kind.sql());
        }
        match (text, kind) {
            (None, _) => format!("NULL::{}", kind.sql()),
            (Some(text), Kind::Int | Kind::Numeric) => text,
            (Some(text), Kind::Big | Kind::Float) => format!("{text}::{}", kind.sql()),
            (Some(text), Kind::Text) => format!("'{text}'"),
            (Some(text), Kind::Bool) => text,
            (Some(text), Kind::Date | Kind::Moment) => format!("{} '{text}'", kind.sql()),
        }
    }

    fn literal(&mut self, kind: Kind) -> String {
        let random = &mut self.random;
        if random.one_in(8) {
            return self.given(None, kind);
        }
        let text = match kind {
            Kind::Int => (random.below(62)).to_string(),
            Kind::Big => random.of(&["0", "7", "5000000000", "12", "9007199254740993"]).to_owned(),
            Kind::Numeric => random.of(&["0", "1.5", "2.25", "1000", "0.05", "33.333"]).to_owned(),
            // Excludes 0, and thereby -0.
            Kind::Float => random.of(&["1.5", "2.25", "1024", "0.125"]).to_owned(),
            Kind::Text => random.of(&["", "a", "b", "ab", "B", "xyz", "é"]).to_owned(),
            Kind::Bool => random.of(&["true", "false"]).to_owned(),
            Kind::Date => random.of(&["2026-01-31", "2024-02-29", "1999-12-31", "2026-06-01"]).to_owned(),
            Kind::Moment => {
                random.of(&["2026-01-31 12:00:00+00", "2026-03-29 00:30:00.25+00", "1999-12-31 23:59:59+00"]).to_owned()
            }
        };
        self.given(Some(text), kind)
    }

    fn expr(&mut self, kind: Kind, names: Names<'_>, depth: usize) -> String {
        let columns = names.of(kind);
        if depth == 0 || self.random.one_in(4) {
            return if columns.is_empty() || self.random.one_in(3) {
                self.literal(kind)
            } else {
                columns[self.random.below(columns.len())].clone()
            };
        }
        if self.random.one_in(6) {
            return self.choice(kind, names, depth - 1);
        }
        let next = depth - 1;
        match kind {
            Kind::Int => self.int(names, next),
            Kind::Big => format!("({} + {})", self.expr(Kind::Big, names, next), self.expr(Kind::Int, names, next)),
            Kind::Numeric => self.numeric(names, next),
            Kind::Float => {
                let operator = self.random.of(&["+", "-", "*"]);
                format!("({} {operator} {})", self.expr(Kind::Float, names, next), self.literal(Kind::Float))
            }
            Kind::Text => self.text(names, next),
            Kind::Bool => self.truth(names, next),
            Kind::Date => {
                let operator = self.random.of(&["+", "-"]);
                format!("({} {operator} {})", self.expr(Kind::Date, names, next), self.random.below(40))
            }
            Kind::Moment => {
                let step = self.random.of(&["1 day", "1 month", "-02:30:00", "1 year 3 days"]);
                format!("({} + interval '{step}')", self.expr(Kind::Moment, names, next))
            }
        }
    }

    /// Expressions available for every type.
    fn choice(&mut self, kind: Kind, names: Names<'_>, depth: usize) -> String {
        let (one, other) = (self.expr(kind, names, depth), self.expr(kind, names, depth));
        match self.random.below(3) {
            0 => format!("coalesce({one}, {other})"),
            1 => format!("CASE WHEN {} THEN {one} ELSE {other} END", self.expr(Kind::Bool, names, depth)),
            _ => format!("nullif({one}, {other})"),
        }
    }

    fn int(&mut self, names: Names<'_>, depth: usize) -> String {
        let one = self.expr(Kind::Int, names, depth);
        match self.random.below(6) {
            0 => format!("({one} + {})", self.expr(Kind::Int, names, depth)),
            1 => format!("({one} - {})", self.expr(Kind::Int, names, depth)),
            2 => format!("({one} * {})", self.random.below(4)),
            3 => format!("({one} / {})", 1 + self.random.below(5)),
            4 => format!("({one} % {})", 1 + self.random.below(5)),
            _ => format!("length({})", self.expr(Kind::Text, names, depth)),
        }
    }

    fn numeric(&mut self, names: Names<'_>, depth: usize) -> String {
        let one = self.expr(Kind::Numeric, names, depth);
        match self.random.below(6) {
            0 => format!("({one} + {})", self.expr(Kind::Int, names, depth)),
            1 => format!("({one} - {})", self.expr(Kind::Numeric, names, depth)),
            2 => format!("({one} * {})", self.literal(Kind::Numeric)),
            3 => format!("({one} / {})", 1 + self.random.below(7)),
            4 => format!("round({one}, {})", self.random.below(4)),
            _ => format!("abs({one})"),
        }
    }

    fn text(&mut self, names: Names<'_>, depth: usize) -> String {
        let one = self.expr(Kind::Text, names, depth);
        match self.random.below(6) {
            0 | 1 => format!("({one} || {})", self.expr(Kind::Text, names, depth)),
            2 => format!("upper({one})"),
            3 => format!("substring({one} from {})", self.random.below(3)),
            4 => format!("left({one}, {})", self.random.below(3)),
            _ => format!("({})::text", self.expr(Kind::Int, names, depth)),
        }
    }

    fn truth(&mut self, names: Names<'_>, depth: usize) -> String {
        match self.random.below(10) {
            0 => format!("({} AND {})", self.expr(Kind::Bool, names, depth), self.expr(Kind::Bool, names, depth)),
            1 => format!("({} OR {})", self.expr(Kind::Bool, names, depth), self.expr(Kind::Bool, names, depth)),
            2 => format!("(NOT {})", self.expr(Kind::Bool, names, depth)),
            3 => {
                let kind = self.random.of(&Kind::ALL);
                let not = self.random.of(&["", "NOT "]);
                format!("({} IS {not}NULL)", self.expr(kind, names, depth))
            }
            4 => {
                let pattern = self.random.of(&["a%", "%b", "_", "%", "x_z", ""]);
                format!("({} LIKE '{pattern}')", self.expr(Kind::Text, names, depth))
            }
            5 => format!(
                "({} IN ({}, {}))",
                self.expr(Kind::Int, names, depth),
                self.literal(Kind::Int),
                self.literal(Kind::Int)
            ),
            6 => format!(
                "({} {} {})",
                self.expr(Kind::Int, names, depth),
                self.random.of(&["<", "=", ">="]),
                self.expr(Kind::Numeric, names, depth)
            ),
            _ => {
                let kind = self.random.of(&Kind::ALL);
                let operator = self.random.of(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]);
                format!("({} {operator} {})", self.expr(kind, names, depth), self.expr(kind, names, depth))
            }
        }
    }
}
