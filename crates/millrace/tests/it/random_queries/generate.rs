//! Generates queries from a seed, over tables of both stores with equal column names. Their results do not depend
//! on the order in which rows are found.
//!
//! Therefore LIMIT comes with ORDER BY over all output columns; sums are over exactly representable numbers; no
//! expression may fail for one row and be skipped for another; floats are output with 0 added, because either zero
//! may represent both.

use crate::random_rows::generate::Random;

/// Tables for both products.
pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE ra (id int PRIMARY KEY, x int, y int, f float8, s text, k boolean)",
    "CREATE TABLE rb (id int PRIMARY KEY, x int, y int, f float8, s text, k boolean)",
    "CREATE TABLE ca (time timestamptz NOT NULL, id int NOT NULL, x int, y int, f float8, s text, k boolean\
     /*columns*/ WITH (store = 'columns', key = 'id')",
    "CREATE TABLE cb (time timestamptz NOT NULL, id int NOT NULL, x int, y int, f float8, s text, k boolean\
     /*columns*/ WITH (store = 'columns', key = 'id')",
];

const NAMES: [&str; 4] = ["ra", "rb", "ca", "cb"];
const INTS: [&str; 3] = ["id", "x", "y"];
const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

/// A query, UPDATE or DELETE.
pub(super) struct Question {
    pub(super) sql: String,
    /// Whether ORDER BY determines the order of rows.
    pub(super) ordered: bool,
    /// Whether it must be rolled back.
    pub(super) changes: bool,
}

/// Generator of queries.
pub(super) struct Generator {
    random: Random,
    /// Number of table aliases used in the current statement.
    named: usize,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        Generator { random: Random::new(seed), named: 0 }
    }

    /// INSERT statements for all tables.
    pub(super) fn rows(&mut self) -> Vec<String> {
        let mut statements = Vec::new();
        for name in NAMES {
            for id in 0..3 + self.random.below(9) {
                let time = if name.starts_with('c') { "'2024-01-01', " } else { "" };
                let values = [
                    self.random.of(&["NULL", "0", "1", "1", "2", "3"]),
                    self.random.of(&["NULL", "0", "1", "2", "3", "5"]),
                    self.random.of(&["NULL", "0", "'-0'", "1.5", "2", "'NaN'", "'Infinity'", "1e20"]),
                    self.random.of(&["NULL", "''", "'a'", "'b'", "'ab'"]),
                    self.random.of(&["NULL", "true", "false"]),
                ];
                statements.push(format!("INSERT INTO {name} VALUES ({time}{id}, {})", values.join(", ")));
            }
        }
        statements
    }

    /// The next statement.
    pub(super) fn next(&mut self) -> Question {
        self.named = 0;
        let (sql, ordered, changes) = match self.random.below(16) {
            0..6 => (self.select_rows(), false, false),
            6 | 7 => (self.set_operation(2), false, false),
            8 | 9 => (self.groups(), false, false),
            10 | 11 => (self.windows(), false, false),
            12 => (self.limited(), true, false),
            13 => (self.values_of_subqueries(), false, false),
            14 => (self.distinct(), false, false),
            _ => (self.change(), false, true),
        };
        Question { sql, ordered, changes }
    }

    fn new_name(&mut self) -> String {
        self.named += 1;
        format!("t{}", self.named)
    }

    /// A FROM clause, and the aliases in it.
    fn from(&mut self, depth: usize) -> (String, Vec<String>) {
        if depth > 0 && self.random.below(3) > 0 {
            let (left, mut names) = self.from(depth - 1);
            let (right, more) = self.from(0);
            let join = self.random.of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT JOIN", "RIGHT JOIN"]);
            let column = self.random.of(&INTS);
            let mut on = format!("{}.{} = {}.{column}", self.one_of(&names), self.random.of(&INTS), more[0]);
            names.extend(more);
            // PostgreSQL supports FULL JOIN only on equalities.
            if join != "FULL JOIN" && self.random.one_in(3) {
                on = format!("{on} AND {}", self.condition(&names, 1, 0));
            }
            return (format!("{left} {join} {right} ON {on}"), names);
        }
        let name = self.new_name();
        if depth > 0 && self.random.one_in(3) {
            return (format!("({}) AS {name}", self.whole(depth - 1)), vec![name]);
        }
        (format!("{} AS {name}", self.random.of(&NAMES)), vec![name])
    }

    /// A query with the columns of a table.
    fn whole(&mut self, depth: usize) -> String {
        let (from, names) = self.from(depth.min(1));
        let columns = ["id", "x", "y", "f", "s", "k"].map(|column| format!("{}.{column}", self.one_of(&names)));
        let condition = self.condition(&names, 1, 0);
        format!("SELECT {} FROM {from} WHERE {condition}", columns.join(", "))
    }

    fn one_of(&mut self, names: &[String]) -> String {
        names[self.random.below(names.len())].clone()
    }

    fn int_column(&mut self, names: &[String]) -> String {
        format!("{}.{}", self.one_of(names), self.random.of(&INTS))
    }

    fn int(&mut self, names: &[String]) -> String {
        match self.random.below(6) {
            0 => self.random.below(5).to_string(),
            1 => format!("({} + {})", self.int_column(names), self.int_column(names)),
            2 => format!("coalesce({}, {})", self.int_column(names), self.int_column(names)),
            _ => self.int_column(names),
        }
    }

    fn float(&mut self, names: &[String]) -> String {
        format!("{}.f", self.one_of(names))
    }

    /// A condition; `subqueries`: maximum nesting of subqueries.
    fn condition(&mut self, names: &[String], depth: usize, subqueries: usize) -> String {
        if depth > 0 && self.random.below(3) > 0 {
            let one = self.condition(names, depth - 1, subqueries);
            let other = self.condition(names, depth - 1, subqueries);
            return match self.random.below(6) {
                0..3 => format!("({one} AND {other})"),
                3 | 4 => format!("({one} OR {other})"),
                _ => format!("NOT ({one} AND {other})"),
            };
        }
        if subqueries > 0 && self.random.one_in(3) {
            return self.subquery_condition(names, subqueries - 1);
        }
        let not = self.random.of(&["", "NOT "]);
        match self.random.below(13) {
            0 => format!("{} IS {not}NULL", self.int_column(names)),
            1 => format!("{}.s IS {not}NULL", self.one_of(names)),
            2 => {
                format!("{} {not}IN ({}, {}, 2)", self.int(names), self.random.of(&["0", "NULL", "1"]), self.int(names))
            }
            3 => format!("{} IS {not}DISTINCT FROM {}", self.int_column(names), self.int(names)),
            4 => format!("{} {not}BETWEEN {} AND {}", self.int(names), self.int(names), self.random.below(5)),
            5 => {
                let operator = self.random.of(&COMPARISONS);
                let row = |this: &mut Generator| format!("({}, {})", this.int_column(names), this.int(names));
                format!("{} {operator} {}", row(self), row(self))
            }
            6 => format!("{} {} {}", self.float(names), self.random.of(&COMPARISONS), self.float(names)),
            7 => format!("{} {not}IN (0, 1.5, 'NaN')", self.float(names)),
            8 => format!("{}.k", self.one_of(names)),
            9 => format!("({} = {}) IS {not}NULL", self.int_column(names), self.int_column(names)),
            _ => format!("{} {} {}", self.int(names), self.random.of(&COMPARISONS), self.int(names)),
        }
    }

    /// A condition with a subquery, which may be correlated.
    fn subquery_condition(&mut self, outer: &[String], subqueries: usize) -> String {
        let depth = self.random_depth();
        let (from, names) = self.from(depth);
        let mut condition = self.condition(&names, 1, subqueries);
        if self.random.one_in(2) {
            let column = self.int_column(&names);
            let operator = if self.random.one_in(4) { self.random.of(&COMPARISONS) } else { "=" };
            condition = format!("{condition} AND {column} {operator} {}", self.int_column(outer));
        }
        let not = self.random.of(&["", "NOT "]);
        let sought = self.int(outer);
        let found = self.int_column(&names);
        match self.random.below(7) {
            0 | 1 => format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {condition})"),
            2 => {
                format!("{sought} {} (SELECT max({found}) FROM {from} WHERE {condition})", self.random.of(&COMPARISONS))
            }
            3 => {
                let quantifier = self.random.of(&["ALL", "ANY"]);
                let operator = self.random.of(&COMPARISONS);
                format!("{sought} {operator} {quantifier} (SELECT {found} FROM {from} WHERE {condition})")
            }
            4 => format!("({sought} {not}IN (SELECT {found} FROM {from} WHERE {condition})) IS NULL"),
            _ => format!("{sought} {not}IN (SELECT {found} FROM {from} WHERE {condition})"),
        }
    }

    fn random_depth(&mut self) -> usize {
        usize::from(self.random.one_in(3))
    }

    fn shown(&mut self, names: &[String]) -> String {
        let columns = (0..1 + self.random.below(4)).map(|_| match self.random.below(6) {
            0 => format!("{}.s", self.one_of(names)),
            1 => format!("{} + 0", self.float(names)),
            2 => self.int(names),
            _ => self.int_column(names),
        });
        let columns: Vec<String> = columns.collect();
        columns.join(", ")
    }

    fn select_rows(&mut self) -> String {
        let (from, names) = self.from(2);
        format!("SELECT {} FROM {from} WHERE {}", self.shown(&names), self.condition(&names, 2, 2))
    }

    fn distinct(&mut self) -> String {
        let (from, names) = self.from(1);
        let (float, int) = (self.float(&names), self.int(&names));
        let condition = self.condition(&names, 1, 1);
        match self.random.below(3) {
            0 => format!("SELECT DISTINCT {int} FROM {from} WHERE {condition}"),
            1 => format!("SELECT count(DISTINCT {float}), count(DISTINCT {int}) FROM {from} WHERE {condition}"),
            _ => format!("SELECT {float} + 0, count(*) FROM {from} WHERE {condition} GROUP BY {float}"),
        }
    }

    fn limited(&mut self) -> String {
        let (from, names) = self.from(1);
        let columns: Vec<String> = (0..3).map(|_| self.int_column(&names)).collect();
        let columns = columns.join(", ");
        let direction = self.random.of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let condition = self.condition(&names, 1, 1);
        let order = if self.random.one_in(3) { format!("{}, ", self.float(&names)) } else { String::new() };
        format!(
            "SELECT {columns} FROM {from} WHERE {condition} ORDER BY {order}1{direction}, 2, 3 LIMIT {} OFFSET {}",
            1 + self.random.below(6),
            self.random.below(3)
        )
    }

    fn set_operation(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.one_in(4) {
            let (from, names) = self.from(1);
            return format!(
                "SELECT {}, {} FROM {from} WHERE {}",
                self.int_column(&names),
                self.int(&names),
                self.condition(&names, 1, 1)
            );
        }
        let operation = self.random.of(&["UNION", "INTERSECT", "EXCEPT"]);
        let all = self.random.of(&["", " ALL"]);
        format!("({}) {operation}{all} ({})", self.set_operation(depth - 1), self.set_operation(depth - 1))
    }

    fn groups(&mut self) -> String {
        let (from, names) = self.from(1);
        let by = self.int_column(&names);
        let (int, float) = (self.int(&names), self.float(&names));
        let condition = self.condition(&names, 1, 1);
        let filter = self.condition(&names, 1, 0);
        let having = match self.random.below(4) {
            0 => " HAVING count(*) > 1".to_owned(),
            1 => format!(" HAVING sum({int}) IS NOT NULL AND max({int}) <> 2"),
            2 => format!(" HAVING max({int}) IN (SELECT x FROM {})", self.random.of(&NAMES)),
            _ => String::new(),
        };
        format!(
            "SELECT {by}, count(*), count({int}), sum({int}), min({float}) + 0, max({float}) + 0, \
             count(*) FILTER (WHERE {filter}) FROM {from} WHERE {condition} GROUP BY {by}{having}"
        )
    }

    /// Window functions under a LIMIT, and the first rows of each partition.
    fn limited_windows(&mut self) -> String {
        let table = self.random.of(&NAMES);
        let name = vec![table.to_owned()];
        let (condition, by) = (self.condition(&name, 1, 1), self.random.of(&["x", "y", "f", "s"]));
        let (direction, most) = (self.random.of(&["", " DESC"]), 1 + self.random.below(4));
        if self.random.one_in(2) {
            return format!(
                "SELECT id, x FROM (SELECT id, x, row_number() OVER (PARTITION BY {by} ORDER BY y{direction}, id) AS n \
                 FROM {table} WHERE {condition}) AS q WHERE n <= {most}"
            );
        }
        let call =
            self.random.of(&["sum(y)", "max(x)", "count(*)", "lag(x)", "lead(y)", "first_value(y)", "last_value(x)"]);
        let frame = self.random.of(&["", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"]);
        format!(
            "SELECT id, {call} OVER (ORDER BY id{frame}) FROM {table} WHERE {condition} \
             ORDER BY id{direction} LIMIT {most} OFFSET {}",
            self.random.below(3)
        )
    }

    fn windows(&mut self) -> String {
        if self.random.one_in(4) {
            return self.limited_windows();
        }
        let (from, names) = self.from(1);
        let ids: Vec<String> = names.iter().map(|name| format!("{name}.id")).collect();
        let condition = self.condition(&names, 1, 1);
        let partition = match self.random.below(3) {
            0 => format!("PARTITION BY {} ", self.float(&names)),
            1 => format!("PARTITION BY {} ", self.int_column(&names)),
            _ => String::new(),
        };
        let first = self.random.of(&["", "x", "f", "y"]);
        let first = if first.is_empty() { String::new() } else { format!("{}.{first}, ", self.one_of(&names)) };
        let order = format!("{first}{}", ids.join(", "));
        let (low, high) = (self.random.below(3), self.random.below(3));
        let frame = match self.random.below(6) {
            0 => String::new(),
            1 => "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW".to_owned(),
            2 => "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING".to_owned(),
            3 => format!("GROUPS BETWEEN {low} PRECEDING AND {high} FOLLOWING"),
            _ => format!("ROWS BETWEEN {low} PRECEDING AND {high} FOLLOWING"),
        };
        let (int, float) = (self.int(&names), self.float(&names));
        let call = match self.random.below(9) {
            0 => format!("sum({int})"),
            1 => format!("count({float})"),
            2 => format!("min({float})"),
            3 => format!("max({int})"),
            4 => format!("avg({float})"),
            5 => return self.ranks(&from, &names, &condition, &partition),
            _ => format!("sum({float})"),
        };
        format!(
            "SELECT {}, {call} OVER ({partition}ORDER BY {order} {frame}) + 0 FROM {from} WHERE {condition}",
            ids.join(", ")
        )
    }

    /// Rank functions, whose results do not depend on the order of equal rows.
    fn ranks(&mut self, from: &str, names: &[String], condition: &str, partition: &str) -> String {
        let ids: Vec<String> = names.iter().map(|name| format!("{name}.id")).collect();
        let call = self.random.of(&["rank()", "dense_rank()", "count(*)"]);
        let by = if self.random.one_in(2) { self.float(names) } else { self.int_column(names) };
        format!("SELECT {}, {call} OVER ({partition}ORDER BY {by}) FROM {from} WHERE {condition}", ids.join(", "))
    }

    /// Scalar subqueries.
    fn values_of_subqueries(&mut self) -> String {
        let (from, names) = self.from(1);
        let condition = self.condition(&names, 1, 0);
        let value = match self.random.below(3) {
            0 => {
                let inner = self.new_name();
                let table = self.random.of(&NAMES);
                let call = self.random.of(&["count(*)", "sum(x)", "max(y)", "min(id)"]);
                let column = self.random.of(&INTS);
                format!("(SELECT {call} FROM {table} AS {inner} WHERE {inner}.{column} = {})", self.int_column(&names))
            }
            _ => self.subquery_condition(&names, 0),
        };
        format!("SELECT {}, {value} FROM {from} WHERE {condition}", self.int_column(&names))
    }

    fn change(&mut self) -> String {
        let table = self.random.of(&["ra", "rb", "ca", "cb"]);
        let name = vec![table.to_owned()];
        let condition = if table.starts_with('c') && self.random.below(3) > 0 {
            let time = self.random.of(&["time >= '2024-01-01'", "time < '2024-01-01'", "time <= '2024-01-01' OR k"]);
            let not = self.random.of(&["", "NOT "]);
            format!("{not}({table}.id {} {}) AND {time}", self.random.of(&COMPARISONS), self.random.below(9))
        } else {
            self.condition(&name, 2, 1)
        };
        if table.starts_with('r') && self.random.one_in(2) {
            return format!("UPDATE {table} SET x = {}, y = {} WHERE {condition}", self.int(&name), self.int(&name));
        }
        format!("DELETE FROM {table} WHERE {condition}")
    }
}
