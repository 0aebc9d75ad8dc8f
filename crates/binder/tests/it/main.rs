//! Queries get the columns, types, parameters and errors that PostgreSQL gives them. A line of `queries.tsv` is a query and, behind a
//! tab, PostgreSQL's description: `name:type:modifier,…` with the types of the parameters in parentheses, or `!code position message`.
//! `tables.tsv` has the columns of the tables of `tables.sql`.

use std::collections::BTreeMap;
use std::sync::Arc;

use binder::Schema;
use binder::tree::{Table, TableColumn};
use catalog::TypeId;
use model::Result;
use parser::ast::Statement;
use scalar::Session;

struct Tables {
    tables: BTreeMap<String, Arc<Table>>,
    session: Session,
}

impl Schema for Tables {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.tables.get(name).filter(|_| schema.is_none_or(|schema| schema == "public")).cloned())
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

fn tables() -> Tables {
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for line in include_str!("../data/tables.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [oid, schema, table, name, ty, typmod, not_null, key] = fields[..] else { panic!("eight fields: {line}") };
        let number = |text: &str| text.parse().expect("a number");
        let entry = tables.entry(table.to_owned()).or_insert_with(|| Table {
            oid: number(oid),
            schema: schema.into(),
            name: table.into(),
            columns: Vec::new(),
            primary_key: Vec::new(),
        });
        if key == "t" {
            entry.primary_key.push(entry.columns.len());
        }
        let typmod = typmod.parse().expect("a number");
        let column = TableColumn { name: name.into(), ty: TypeId(number(ty)), typmod, not_null: not_null == "t" };
        entry.columns.push(column);
    }
    let tables = tables.into_iter().map(|(name, table)| (name, Arc::new(table))).collect();
    Tables { tables, session: Session { database: "binder".to_owned(), ..Session::default() } }
}

fn described(tables: &Tables, sql: &str) -> Result<String> {
    let parsed = parser::parse_all(sql)?;
    let Some(Statement::Query(query)) = parsed.first().map(|one| &one.statement) else { panic!("no query: {sql}") };
    let bound = binder::bind(tables, sql, query, &[])?;
    let columns: Vec<String> =
        bound.output.iter().map(|one| format!("{}:{}:{}", one.name, one.ty, one.typmod)).collect();
    let parameters: Vec<String> = bound.parameters.iter().map(ToString::to_string).collect();
    let parameters = if parameters.is_empty() { String::new() } else { format!(" ({})", parameters.join(",")) };
    Ok(columns.join(",") + &parameters)
}

#[test]
fn queries_are_described_as_by_postgresql() {
    let tables = tables();
    let mut wrong = Vec::new();
    let lines = include_str!("../data/queries.tsv").lines();
    for line in lines.clone() {
        let (sql, expected) = line.split_once('\t').expect("a query and its description");
        let seen = match described(&tables, sql) {
            Ok(seen) => seen,
            Err(error) => {
                format!("!{} {} {}", error.state(), error.position().unwrap_or(0), error.message()).replace('\n', " ")
            }
        };
        if seen != expected {
            wrong.push(format!("{sql}\n  is   {expected}\n  here {seen}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.count(), wrong.join("\n"));
}

#[test]
fn deep_statements_are_refused() {
    let tables = tables();
    for sql in [
        format!("SELECT {}true", "NOT ".repeat(300)),
        format!("SELECT 1{}", " + 1".repeat(900)),
        format!("SELECT {}1{}", "abs(".repeat(400), ")".repeat(400)),
        format!("SELECT {}1{}", "(SELECT ".repeat(200), ")".repeat(200)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(900)),
        format!("SELECT 1 FROM device d0{}", (1..10_000).map(|n| format!(", device d{n}")).collect::<String>()),
    ] {
        let error = described(&tables, &sql).unwrap_err();
        assert_eq!(error.state(), model::SqlState::STATEMENT_TOO_COMPLEX, "{}", error.message());
    }
}
