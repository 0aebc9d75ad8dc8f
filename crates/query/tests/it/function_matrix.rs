//! Every function, operator, cast and aggregate of the catalog gives the same results in every executor: as a constant, in
//! the row executor, over a `rows` table outside of it, and over a `columns` table.
//!
//! The expressions are generated from the catalog, so that a new function, or a kernel that an executor has of its own, is
//! tested without a line here. A type needs sample values in [`SAMPLES`].

use std::collections::BTreeSet;
use std::fmt::Write;

use catalog::{Aggregate, CastContext, Function, FunctionKind, TypeId, TypeKind, Volatility, builtin};

use crate::client::{Client, Fixture, Storage};

/// Three values of each type, as text. The fourth row of the tables is NULL.
const SAMPLES: &[(&str, [&str; 3])] = &[
    ("bool", ["true", "false", "true"]),
    ("int2", ["7", "-3", "0"]),
    ("int4", ["42", "-7", "0"]),
    ("int8", ["5000000000", "-9", "0"]),
    ("numeric", ["12.345", "-0.50", "0"]),
    ("float4", ["1.5", "-2.25", "0"]),
    ("float8", ["2.5", "-1e10", "0"]),
    ("text", ["Hello World", "äöü€ 12", ""]),
    ("varchar", ["abc", "x,y", ""]),
    ("bpchar", ["ab ", "q", ""]),
    ("name", ["pg_class", "x", "a"]),
    ("char", ["a", "b", "c"]),
    ("bytea", ["\\xdeadbeef", "\\x00ff", "\\x"]),
    ("date", ["2024-02-29", "1999-12-31", "infinity"]),
    ("time", ["12:34:56.789", "00:00:00", "23:59:59.999999"]),
    ("timetz", ["12:34:56+02", "00:00:00-08", "23:59:59.999999+00"]),
    ("timestamp", ["2024-02-29 12:34:56.789", "1970-01-01", "-infinity"]),
    ("timestamptz", ["2024-02-29 12:34:56.789+00", "1970-01-01+00", "2100-06-30 23:59:59+00"]),
    ("interval", ["1 year 2 mons 3 days 04:05:06.789", "-1 day", "0"]),
    (
        "uuid",
        [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ],
    ),
    ("json", ["{\"a\": [1, 2, {\"b\": null}], \"c\": \"x\"}", "[1, 2, 3]", "\"s\""]),
    ("jsonb", ["{\"a\": [1, 2, {\"b\": null}], \"c\": \"x\"}", "[1, 2, 3]", "\"s\""]),
    ("jsonpath", ["$.a[*]", "$", "$.c"]),
    ("oid", ["26", "16384", "1"]),
    ("xid", ["3", "4", "5"]),
    ("inet", ["192.168.1.5/24", "::1", "10.0.0.0/8"]),
    ("cidr", ["192.168.1.0/24", "::1/128", "10.0.0.0/8"]),
    ("macaddr", ["08:00:2b:01:02:03", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"]),
    ("macaddr8", ["08:00:2b:01:02:03:04:05", "00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff"]),
    ("bit", ["1", "0", "1"]),
    ("varbit", ["10101", "", "1"]),
    ("money", ["12.34", "-5", "0"]),
    ("point", ["(1,2)", "(-1.5,0)", "(0,0)"]),
    ("box", ["(3,4),(1,2)", "(1,1),(0,0)", "(0,0),(0,0)"]),
    ("circle", ["<(1,2),3>", "<(0,0),1>", "<(0,0),0>"]),
    ("line", ["{1,-1,2}", "{0,1,0}", "{2,0,1}"]),
    ("lseg", ["[(1,2),(3,4)]", "[(0,0),(1,0)]", "[(0,0),(0,0)]"]),
    ("path", ["[(1,2),(3,4)]", "((0,0),(1,0),(1,1))", "[(0,0)]"]),
    ("polygon", ["((0,0),(4,0),(4,4))", "((0,0),(1,0),(1,1),(0,1))", "((0,0))"]),
    ("int4range", ["[1,5)", "empty", "(,3]"]),
    ("int8range", ["[1,5)", "empty", "(,3]"]),
    ("numrange", ["[1.5,5)", "empty", "(,3]"]),
    ("daterange", ["[2024-01-01,2024-02-01)", "empty", "(,2024-01-01)"]),
    ("tsrange", ["[2024-01-01,2024-02-01)", "empty", "(,2024-01-01)"]),
    ("tstzrange", ["[2024-01-01 00:00+00,2024-02-01 00:00+00)", "empty", "(,2024-01-01 00:00+00)"]),
    ("int4multirange", ["{[1,5),[7,9)}", "{}", "{(,3]}"]),
    ("pg_lsn", ["16/B374D848", "0/0", "FFFFFFFF/FFFFFFFF"]),
    ("tid", ["(0,1)", "(1,2)", "(3,4)"]),
    ("int2vector", ["1 2 3", "4", ""]),
    ("oidvector", ["1 2 3", "4", ""]),
];

/// Types of columns.
const OF_ROWS: &[&str] = &[
    "bool",
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "text",
    "varchar",
    "bpchar",
    "bytea",
    "uuid",
    "json",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
];
const OF_COLUMNS: &[&str] = &["bool", "int2", "int4", "int8", "float4", "float8", "text", "bytea", "timestamptz"];

/// Functions whose results say something about the moment, the session or the plan.
const NOT_COMPARED: &[&str] =
    &["pg_column_size", "pg_typeof", "age", "now", "transaction_timestamp", "statement_timestamp"];

/// A place in which expressions are computed.
#[derive(Clone, Copy, PartialEq)]
enum Executor {
    Constants,
    Rows,
    /// Over the `rows` table, by DataFusion.
    RowsByPlan,
    Columns,
}

impl Executor {
    const ALL: [Executor; 4] = [Executor::Constants, Executor::Rows, Executor::RowsByPlan, Executor::Columns];

    fn name(self) -> &'static str {
        match self {
            Executor::Constants => "constants",
            Executor::Rows => "the row executor",
            Executor::RowsByPlan => "DataFusion over rows",
            Executor::Columns => "DataFusion over columns",
        }
    }

    fn table(self) -> &'static str {
        if self == Executor::Columns { "of_columns" } else { "of_rows" }
    }

    /// The sample of a type in a row as an expression.
    fn argument(self, ty: TypeId, row: usize) -> Option<String> {
        let samples = samples(ty)?;
        let (name, sql) = (&builtin().type_row(ty)?.name, sql_name(ty)?);
        let native = match self {
            Executor::Constants => {
                return Some(match samples.get(row) {
                    Some(text) => format!("{}::{sql}", quoted(text)),
                    None => format!("NULL::{sql}"),
                });
            }
            Executor::Rows | Executor::RowsByPlan => OF_ROWS,
            Executor::Columns => OF_COLUMNS,
        };
        let column = format!("v_{name}");
        Some(if native.contains(name) { column } else { format!("{column}::{sql}") })
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A type's name in SQL: `char` and its like are reserved words.
fn sql_name(ty: TypeId) -> Option<String> {
    match builtin().element_of(ty) {
        Some(element) if builtin().type_row(ty)?.name.starts_with('_') => Some(format!("{}[]", sql_name(element)?)),
        _ => Some(format!("pg_catalog.\"{}\"", builtin().type_row(ty)?.name)),
    }
}

fn samples(ty: TypeId) -> Option<Vec<String>> {
    let row = builtin().type_row(ty)?;
    if let Some((_, samples)) = SAMPLES.iter().find(|(name, _)| *name == row.name) {
        return Some(samples.map(str::to_owned).to_vec());
    }
    let element = builtin().element_of(ty).filter(|_| row.name.starts_with('_'))?;
    let items: Vec<String> = samples(element)?
        .iter()
        .map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    Some(vec![format!("{{{}}}", items.join(",")), "{}".to_owned(), format!("{{NULL,{}}}", items[0])])
}

/// A type in place of a polymorphic one.
fn concrete(ty: TypeId) -> TypeId {
    let named = |name: &str| builtin().type_named(name).unwrap();
    match builtin().type_row(ty).map(|row| row.name) {
        Some("anyelement" | "anycompatible" | "anynonarray" | "anycompatiblenonarray") => TypeId::INT4,
        Some("anyarray" | "anycompatiblearray") => named("_int4"),
        Some("anyrange" | "anycompatiblerange") => named("int4range"),
        Some("anymultirange" | "anycompatiblemultirange") => named("int4multirange"),
        Some("any") => TypeId::TEXT,
        _ => ty,
    }
}

/// An expression over sample values.
struct Case {
    /// `{0}` and so on are the arguments.
    template: String,
    arguments: Vec<TypeId>,
    is_aggregate: bool,
}

impl Case {
    fn sql(&self, executor: Executor, row: usize) -> Option<String> {
        let mut sql = self.template.clone();
        for (at, ty) in self.arguments.iter().enumerate() {
            sql = sql.replace(&format!("{{{at}}}"), &executor.argument(*ty, row)?);
        }
        Some(sql)
    }

    fn is_possible(&self) -> bool {
        self.arguments.iter().all(|ty| scalar::has_type(*ty) && samples(*ty).is_some())
    }
}

fn placeholders(count: usize) -> String {
    (0..count).map(|at| format!("{{{at}}}")).collect::<Vec<_>>().join(", ")
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for function in builtin().functions() {
        cases.extend(of_function(function));
    }
    for operator in builtin().operators() {
        let Some(function) = builtin().function_row(operator.function) else { continue };
        if scalar::function(function.oid).is_none() || function.volatility == Volatility::Volatile {
            continue;
        }
        let arguments: Vec<TypeId> = operator.left.into_iter().chain([operator.right]).map(concrete).collect();
        let symbol = &operator.name;
        let template = match operator.left {
            Some(_) => format!("({{0}} OPERATOR(pg_catalog.{symbol}) {{1}})::text"),
            None => format!("(OPERATOR(pg_catalog.{symbol}) {{0}})::text"),
        };
        cases.push(Case { template, arguments, is_aggregate: false });
    }
    let types: Vec<TypeId> = SAMPLES.iter().filter_map(|(name, _)| builtin().type_named(name)).collect();
    for from in &types {
        for to in &types {
            let is_possible = builtin().cast(*from, *to, CastContext::Explicit).is_some() && scalar::has_type(*to);
            if let (true, Some(name)) = (is_possible, sql_name(*to)) {
                let template = format!("({{0}})::{name}::text");
                cases.push(Case { template, arguments: vec![*from], is_aggregate: false });
            }
        }
    }
    cases.retain(Case::is_possible);
    cases
}

fn of_function(function: &Function) -> Option<Case> {
    let is_known =
        function.volatility != Volatility::Volatile && !function.returns_set && !NOT_COMPARED.contains(&function.name);
    let implemented = match function.kind {
        FunctionKind::Scalar => scalar::function(function.oid).is_some(),
        FunctionKind::Aggregate(Aggregate::Normal) => scalar::aggregate(function.oid).is_some(),
        FunctionKind::Aggregate(_) | FunctionKind::Window => false,
    };
    let is_internal = function.parameters.iter().chain([&function.result]).any(|ty| {
        let row = builtin().type_row(*ty);
        row.is_none_or(|row| {
            row.kind == TypeKind::Pseudo && !ty.is_polymorphic() && row.name != "any" && row.name != "record"
        })
    });
    if !is_known || !implemented || is_internal {
        return None;
    }
    let arguments: Vec<TypeId> = function.parameters.iter().copied().map(concrete).collect();
    let schema = if function.is_own() { "" } else { "pg_catalog." };
    let template = format!("({schema}\"{}\"({}))::text", function.name, placeholders(arguments.len()));
    Some(Case { template, arguments, is_aggregate: function.kind != FunctionKind::Scalar })
}

/// A text or the SQLSTATE of an error.
type Answer = Result<String, String>;

struct Matrix {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Matrix {
    fn new(fixture: &Fixture, types: &BTreeSet<u32>) -> Matrix {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut matrix = Matrix { client: Client::new(fixture, Storage::Memory), runtime };
        matrix.table("of_rows", OF_ROWS, types);
        matrix.table("of_columns", OF_COLUMNS, types);
        matrix
    }

    /// A table with a column for each type, of that type if the store has it, else of its text.
    fn table(&mut self, name: &str, native: &[&str], types: &BTreeSet<u32>) {
        let is_columns = native == OF_COLUMNS;
        let mut columns =
            if is_columns { "time timestamptz NOT NULL, id int" } else { "id int PRIMARY KEY" }.to_owned();
        let mut rows = vec![String::new(); 4];
        for ty in types.iter().copied().map(TypeId) {
            let column = builtin().type_row(ty).unwrap().name;
            let stored = if native.contains(&column) { column } else { "text" };
            write!(columns, ", v_{column} {stored}").unwrap();
            let samples = samples(ty).unwrap();
            for (at, row) in rows.iter_mut().enumerate() {
                let value = samples.get(at).map_or_else(|| "NULL".to_owned(), |text| quoted(text));
                write!(row, ", {value}").unwrap();
            }
        }
        let options = if is_columns { " WITH (store = 'columns', time = 'time')" } else { "" };
        self.ask(&format!("CREATE TABLE {name} ({columns}){options}")).unwrap();
        for (at, row) in rows.iter().enumerate() {
            let time = if is_columns { format!("'2026-01-01 00:00:0{at}+00', ") } else { String::new() };
            self.ask(&format!("INSERT INTO {name} VALUES ({time}{at}{row})")).unwrap();
        }
    }

    fn ask(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let Matrix { client, runtime } = self;
        runtime.block_on(client.table(sql)).map_err(|error| error.split(':').next().unwrap_or_default().to_owned())
    }

    /// The answers of cases: for each its four rows, or its one group.
    fn answers(&mut self, cases: &[&Case], executor: Executor) -> Vec<Vec<Answer>> {
        let switch = if executor == Executor::RowsByPlan { "off" } else { "on" };
        self.ask(&format!("SET enable_rows = {switch}")).unwrap();
        cases.chunks(16).flat_map(|cases| self.of_chunk(cases, executor)).collect()
    }

    /// Asks for several cases at once, and for each alone if there is an error.
    fn of_chunk(&mut self, cases: &[&Case], executor: Executor) -> Vec<Vec<Answer>> {
        if executor == Executor::Constants {
            return cases.iter().map(|case| (0..4).map(|row| self.one(case, executor, row)).collect()).collect();
        }
        let list =
            |row: usize| cases.iter().map(|case| case.sql(executor, row).unwrap()).collect::<Vec<_>>().join(", ");
        let order = if cases[0].is_aggregate { "" } else { " ORDER BY id" };
        let sql = format!("SELECT {} FROM {}{order}", list(0), executor.table());
        match self.ask(&sql) {
            Ok(rows) => {
                let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.split('|').collect()).collect();
                if rows.iter().all(|row| row.len() == cases.len()) {
                    let column = |at: usize| rows.iter().map(|row| Ok(row[at].to_owned())).collect();
                    return (0..cases.len()).map(column).collect();
                }
                self.halves(cases, executor)
            }
            Err(_) => self.halves(cases, executor),
        }
    }

    fn halves(&mut self, cases: &[&Case], executor: Executor) -> Vec<Vec<Answer>> {
        if let [case] = cases {
            let rows = if case.is_aggregate { 0..1 } else { 0..4 };
            return vec![rows.map(|row| self.one(case, executor, row)).collect()];
        }
        let (left, right) = cases.split_at(cases.len() / 2);
        let mut answers = self.of_chunk(left, executor);
        answers.extend(self.of_chunk(right, executor));
        answers
    }

    fn one(&mut self, case: &Case, executor: Executor, row: usize) -> Answer {
        let expression = case.sql(executor, row).unwrap();
        let sql = match executor {
            Executor::Constants => format!("SELECT {expression}"),
            _ if case.is_aggregate => format!("SELECT {expression} FROM {}", executor.table()),
            _ => format!("SELECT {expression} FROM {} WHERE id = {row}", executor.table()),
        };
        self.ask(&sql).map(|rows| rows.join("\n"))
    }
}

#[test]
fn each_function_operator_and_cast_gives_the_same_in_each_executor() {
    let fixture = Fixture::new();
    let all = cases();
    let types: BTreeSet<u32> = all.iter().flat_map(|case| &case.arguments).map(|ty| ty.0).collect();
    let mut matrix = Matrix::new(&fixture, &types);
    let (aggregates, others): (Vec<&Case>, Vec<&Case>) = all.iter().partition(|case| case.is_aggregate);
    assert!(others.len() > 2_000 && aggregates.len() > 50, "{} and {} cases", others.len(), aggregates.len());
    let mut differences = Vec::new();
    for (cases, executors) in [(&others, &Executor::ALL[..]), (&aggregates, &Executor::ALL[1..])] {
        let answers: Vec<_> = executors.iter().map(|executor| matrix.answers(cases, *executor)).collect();
        for (at, case) in cases.iter().enumerate() {
            for row in 0..answers[0][at].len() {
                let of_executors = answers.iter().map(|answers| &answers[at][row]);
                if of_executors.clone().any(|answer| *answer != answers[0][at][row]) {
                    let shown = executors.iter().zip(of_executors);
                    let shown: Vec<String> =
                        shown.map(|(executor, answer)| format!("  {}: {answer:?}", executor.name())).collect();
                    differences.push(format!("{}\n{}", case.sql(executors[0], row).unwrap(), shown.join("\n")));
                }
            }
        }
    }
    let text = differences.join("\n");
    assert!(differences.is_empty(), "{} of {} cases differ:\n{text}", differences.len(), all.len());
}
