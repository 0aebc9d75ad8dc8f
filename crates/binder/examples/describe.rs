//! Describes the results of statements: `describe SCHEMA < STATEMENTS`. A line of the file SCHEMA has fields between tabs. It is a
//! column: OID, schema and name of the table, name, type, type modifier, whether it is NOT NULL, whether it is in the primary key,
//! default, `a` or `d` for an identity column, expression of a generated column. Or it is a unique index: schema and name of the
//! table, name, whether it belongs to a constraint, condition, keys separated by `|`. Statements end with a zero byte. A line of
//! the output is `name:type,…` with the types of the parameters, or `!`, code, position, message and hint of the error.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use binder::Schema;
use binder::tree::{IndexKey, Statement, Table, TableColumn, UniqueIndex};
use catalog::TypeId;
use model::{Identity, Result};
use scalar::Session;

struct Tables {
    tables: BTreeMap<(String, String), Arc<Table>>,
    session: Session,
}

impl Schema for Tables {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        let schemas = schema.map_or(vec!["pg_catalog", "public"], |schema| vec![schema]);
        Ok(schemas.iter().find_map(|schema| self.tables.get(&((*schema).to_owned(), name.to_owned())).cloned()))
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

fn written(text: &str) -> Option<Box<str>> {
    Some(text).filter(|text| !text.is_empty()).map(Box::from)
}

fn read(text: &str) -> Tables {
    let mut tables: BTreeMap<(String, String), Table> = BTreeMap::new();
    for line in text.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [oid, schema, table, name, ty, typmod, not_null, key, default, identity, generated] => {
                let entry = tables.entry((schema.to_owned(), table.to_owned())).or_insert_with(|| Table {
                    oid: oid.parse().unwrap_or(0),
                    schema: schema.into(),
                    name: table.into(),
                    ..Table::default()
                });
                if key == "t" {
                    entry.primary_key.push(entry.columns.len());
                }
                entry.columns.push(TableColumn {
                    name: name.into(),
                    ty: TypeId(ty.parse().unwrap_or(0)),
                    typmod: typmod.parse().unwrap_or(-1),
                    not_null: not_null == "t",
                    default: written(default),
                    identity: identity.bytes().next().map(|kind| match kind {
                        b'a' => Identity::Always,
                        _ => Identity::ByDefault,
                    }),
                    generated: written(generated),
                });
            }
            [schema, table, name, is_constraint, predicate, keys] => {
                let Some(table) = tables.get_mut(&(schema.to_owned(), table.to_owned())) else { continue };
                let key = |key: &str| match table.columns.iter().position(|column| *column.name == *key) {
                    Some(column) => IndexKey::Column(column),
                    None => IndexKey::Expr(key.into()),
                };
                let keys = keys.split('|').map(key).collect();
                let (predicate, is_constraint) = (written(predicate), is_constraint == "t");
                table.unique.push(UniqueIndex {
                    name: name.into(),
                    keys,
                    predicate,
                    is_constraint,
                    is_deferrable: false,
                });
            }
            _ => {}
        }
    }
    let tables = tables.into_iter().map(|(name, table)| (name, Arc::new(table))).collect();
    Tables { tables, session: Session { database: "regression".to_owned(), ..Session::default() } }
}

fn described(schema: &Tables, sql: &str) -> String {
    let one = || -> Result<String> {
        let parsed = parser::parse_all(sql)?;
        let [one] = parsed.as_slice() else { return Ok("not one statement".to_owned()) };
        let (output, parameters) = match binder::bind_statement(schema, sql, &one.statement, &[])? {
            Statement::Query(query) => (query.output, query.parameters),
            Statement::Change(change) => (change.output, change.parameters),
        };
        let columns: Vec<String> = output.iter().map(|one| format!("{}:{}", one.name, one.ty)).collect();
        let parameters: Vec<String> = parameters.iter().map(ToString::to_string).collect();
        let parameters = if parameters.is_empty() { String::new() } else { format!(" ({})", parameters.join(",")) };
        Ok(columns.join(",") + &parameters)
    };
    match one() {
        Ok(text) => text.replace('\n', " "),
        Err(error) => {
            let (position, hint) = (error.position().unwrap_or(0), error.hint().unwrap_or_default());
            format!("!{}\t{position}\t{}\t{hint}", error.state(), error.message()).replace('\n', " ")
        }
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("a file with the tables");
    let schema = read(&std::fs::read_to_string(path).expect("a readable file"));
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("statements");
    for sql in text.split('\0').filter(|sql| !sql.trim().is_empty()) {
        println!("{}", described(&schema, sql));
    }
}
