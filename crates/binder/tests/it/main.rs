//! Statements get the columns, types, parameters and errors that PostgreSQL gives them. A line of `queries.tsv` is a query and, behind a
//! tab, PostgreSQL's description: `name:type:modifier,…` with the types of the parameters in parentheses, or `!code position message`.
//! `changes.tsv` is the same for INSERT, UPDATE, DELETE and MERGE, with ` ~ ` and the hint behind the message if there is one.
//! `tables.tsv` and `indexes.tsv` have the columns and the unique indexes of the tables of `tables.sql`.

mod definitions;
mod trees;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use binder::Schema;
use binder::tree::{IndexKey, Output, Statement, Table, TableColumn, UniqueIndex};
use catalog::TypeId;
use model::{Datum, Identity, Result};
use scalar::{Call, Context, Objects, Session};

/// Sequences, which defaults name.
#[derive(Debug)]
struct Sequences;

impl Objects for Sequences {
    fn has_function(&self, _: u32) -> bool {
        false
    }

    fn call<'a>(&self, _: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
        Err(model::Error::bug("no functions"))
    }

    fn number(&self, name: &str, _: TypeId) -> Result<u32> {
        Ok(name.len() as u32)
    }

    fn name(&self, _: u32, _: TypeId) -> Option<String> {
        None
    }
}

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

fn written(text: &str) -> Option<Box<str>> {
    Some(text).filter(|text| !text.is_empty()).map(Box::from)
}

fn tables() -> Tables {
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for line in include_str!("../data/tables.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [oid, schema, table, name, ty, typmod, not_null, key, default, identity, generated] = fields[..] else {
            panic!("eleven fields: {line}")
        };
        let number = |text: &str| text.parse().expect("a number");
        let entry = tables.entry(table.to_owned()).or_insert_with(|| Table {
            oid: number(oid),
            schema: schema.into(),
            name: table.into(),
            ..Table::default()
        });
        if key == "t" {
            entry.primary_key.push(entry.columns.len());
        }
        let typmod = typmod.parse().expect("a number");
        entry.columns.push(TableColumn {
            name: name.into(),
            ty: TypeId(number(ty)),
            typmod,
            not_null: not_null == "t",
            default: written(default),
            identity: match identity {
                "a" => Some(Identity::Always),
                "d" => Some(Identity::ByDefault),
                _ => None,
            },
            generated: written(generated),
        });
    }
    for line in include_str!("../data/indexes.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [table, name, is_constraint, predicate, keys] = fields[..] else { panic!("five fields: {line}") };
        let table = tables.get_mut(table).expect("the index's table");
        let key = |key: &str| match table.columns.iter().position(|column| *column.name == *key) {
            Some(column) => IndexKey::Column(column),
            None => IndexKey::Expr(key.into()),
        };
        let keys = keys.split('|').map(key).collect();
        let (predicate, is_constraint) = (written(predicate), is_constraint == "t");
        table.unique.push(UniqueIndex { name: name.into(), keys, predicate, is_constraint, is_deferrable: false });
    }
    let tables = tables.into_iter().map(|(name, table)| (name, Arc::new(table))).collect();
    let objects: Option<Arc<dyn Objects>> = Some(Arc::new(Sequences));
    Tables { tables, session: Session { database: "binder".to_owned(), objects, ..Session::default() } }
}

/// Binds the only statement of a text.
fn bound(tables: &Tables, sql: &str) -> Result<Statement> {
    let parsed = parser::parse_all(sql)?;
    let [one] = parsed.as_slice() else { panic!("one statement: {sql}") };
    binder::bind_statement(tables, sql, &one.statement, &[])
}

fn described(tables: &Tables, sql: &str) -> Result<String> {
    let (output, parameters): (Vec<Output>, Vec<TypeId>) = match bound(tables, sql)? {
        Statement::Query(query) => (query.output, query.parameters),
        Statement::Change(change) => (change.output, change.parameters),
    };
    let columns: Vec<String> = output.iter().map(|one| format!("{}:{}:{}", one.name, one.ty, one.typmod)).collect();
    let parameters: Vec<String> = parameters.iter().map(ToString::to_string).collect();
    let parameters = if parameters.is_empty() { String::new() } else { format!(" ({})", parameters.join(",")) };
    Ok(columns.join(",") + &parameters)
}

/// Compares the descriptions of statements with PostgreSQL's.
fn check(lines: &str, has_hints: bool) {
    let tables = tables();
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let (sql, expected) = line.split_once('\t').expect("a statement and its description");
        let seen = match described(&tables, sql) {
            Ok(seen) => seen,
            Err(error) => {
                let hint = error.hint().filter(|_| has_hints).map_or(String::new(), |hint| format!(" ~ {hint}"));
                let (state, at, text) = (error.state(), error.position().unwrap_or(0), error.message());
                format!("!{state} {at} {text}{hint}").replace('\n', " ")
            }
        };
        if seen != expected {
            wrong.push(format!("{sql}\n  is   {expected}\n  here {seen}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.lines().count(), wrong.join("\n"));
}

#[test]
fn queries_are_described_as_by_postgresql() {
    check(include_str!("../data/queries.tsv"), false);
}

#[test]
fn changes_are_described_as_by_postgresql() {
    check(include_str!("../data/changes.tsv"), true);
}

#[test]
fn deep_statements_are_refused() {
    let tables = tables();
    for sql in [
        format!("SELECT {}true", "NOT ".repeat(1_100)),
        format!("SELECT 1{}", " + 1".repeat(1_100)),
        format!("SELECT {}1{}", "abs(".repeat(1_100), ")".repeat(1_100)),
        format!("SELECT {}1{}", "(SELECT ".repeat(600), ")".repeat(600)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(1_100)),
        format!("SELECT 1 FROM device d0{}", (1..10_000).map(|n| format!(", device d{n}")).collect::<String>()),
    ] {
        let error = described(&tables, &sql).unwrap_err();
        assert_eq!(error.state(), model::SqlState::STATEMENT_TOO_COMPLEX, "{}", error.message());
    }
}
