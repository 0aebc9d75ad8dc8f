//! Describes the results of queries: `describe SCHEMA < QUERIES`. A line of the file SCHEMA is a column: OID, schema and name of
//! the table, name, type, type modifier, whether it is NOT NULL, and whether it is in the primary key, separated by tabs. Queries
//! end with a zero byte. A line of the output is `name:type,…`, or `!`, code, position and message of the error.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use binder::Schema;
use binder::tree::{Table, TableColumn};
use catalog::TypeId;
use model::Result;
use parser::ast::Statement;
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

fn read(text: &str) -> Tables {
    let mut tables: BTreeMap<(String, String), Table> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [oid, schema, table, name, ty, typmod, not_null, key, ..] = fields[..] else { continue };
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
            ..TableColumn::default()
        });
    }
    let tables = tables.into_iter().map(|(name, table)| (name, Arc::new(table))).collect();
    Tables { tables, session: Session { database: "regression".to_owned(), ..Session::default() } }
}

fn described(schema: &Tables, sql: &str) -> String {
    let one = || -> Result<String> {
        let parsed = parser::parse_all(sql)?;
        let Some(Statement::Query(query)) = parsed.first().map(|one| &one.statement) else {
            return Ok("no query".to_owned());
        };
        let bound = binder::bind(schema, sql, query, &[])?;
        let columns: Vec<String> = bound.output.iter().map(|one| format!("{}:{}", one.name, one.ty)).collect();
        Ok(columns.join(","))
    };
    match one() {
        Ok(text) => text.replace('\n', " "),
        Err(error) => {
            let position = error.position().unwrap_or(0);
            format!("!{}\t{position}\t{}", error.state(), error.message()).replace('\n', " ")
        }
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("a file with the tables");
    let schema = read(&std::fs::read_to_string(path).expect("a readable file"));
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("queries");
    for sql in text.split('\0').filter(|sql| !sql.trim().is_empty()) {
        println!("{}", described(&schema, sql));
    }
}
