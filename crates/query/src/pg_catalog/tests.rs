//! Every query that clients send is planned and run against a small catalog, and its rows compared.

use std::path::PathBuf;

use async_trait::async_trait;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, SchemaProvider, TableFunctionArgs, TableFunctionImpl,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use engine::{Catalog, ColumnSpec, TableSpec};
use model::{ColumnRole, DataType, TableId, TableName, TableOptions};

use super::*;

fn column(name: &str, ty: DataType, nullable: bool, role: ColumnRole) -> ColumnSpec {
    ColumnSpec { name: name.to_owned(), ty, nullable, role }
}

fn time() -> ColumnSpec {
    column("time", DataType::Timestamp, false, ColumnRole::Time)
}

fn table(schema: &str, name: &str, keyed: bool, columns: Vec<ColumnSpec>) -> TableSpec {
    let name = TableName { schema: schema.to_owned(), table: name.to_owned() };
    TableSpec { name, keyed, columns, options: TableOptions::default() }
}

/// `public.t` keyed by a nullable column (OID 16392), `public.ev` without key (16400), `plant.pump` with a primary key (16408).
fn facts() -> Arc<StatementFacts> {
    let tables = [
        table(
            "public",
            "t",
            true,
            vec![
                column("dev", DataType::Text, true, ColumnRole::Key),
                time(),
                column("v", DataType::Float64, true, ColumnRole::Field),
                column("n", DataType::Int32, true, ColumnRole::Field),
            ],
        ),
        table("public", "ev", false, vec![time(), column("msg", DataType::Text, true, ColumnRole::Field)]),
        table(
            "plant",
            "pump",
            true,
            vec![
                column("id", DataType::Int64, false, ColumnRole::Key),
                time(),
                column("count", DataType::UInt64, true, ColumnRole::Field),
            ],
        ),
    ];
    let mut catalog = Catalog::default().with_schema("plant").unwrap();
    for (id, spec) in (1..).zip(&tables) {
        catalog = catalog.with_table(Arc::new(spec.build(TableId(id)).unwrap())).unwrap();
    }
    Arc::new(StatementFacts::bare(Arc::new(catalog)))
}

#[derive(Debug)]
struct Schema(Arc<StatementFacts>, &'static str);

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        relations::RELATIONS.iter().filter(|known| known.schema == self.1).map(|known| known.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(relation(self.1, name, || Arc::clone(&self.0)))
    }

    fn table_exist(&self, name: &str) -> bool {
        relations::find(self.1, name).is_some()
    }
}

#[derive(Debug)]
struct Keywords(Arc<StatementFacts>);

impl TableFunctionImpl for Keywords {
    fn call_with_args(&self, _args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Ok(table_function("pg_get_keywords", || Arc::clone(&self.0)).unwrap())
    }
}

fn session(facts: &Arc<StatementFacts>) -> SessionContext {
    let mut config =
        SessionConfig::new().with_target_partitions(1).with_default_catalog_and_schema("millrace", "pg_catalog");
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    let session = SessionContext::new_with_config(config);
    let catalog = MemoryCatalogProvider::new();
    for name in ["pg_catalog", "information_schema"] {
        catalog.register_schema(name, Arc::new(Schema(Arc::clone(facts), name))).unwrap();
    }
    session.register_catalog("millrace", Arc::new(catalog));
    for name in functions::names() {
        session.register_udf(scalar_function(name, || Arc::clone(facts)).unwrap().as_ref().clone());
    }
    session.register_udtf("pg_get_keywords", Arc::new(Keywords(Arc::clone(facts))));
    session
}

/// The rows of a query, cells joined by `|`, NULL as `~`; or its error.
async fn run(session: &SessionContext, sql: &str) -> std::result::Result<Vec<String>, String> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|error| format!("parse: {error}"))?;
    let mut statement = statements.pop().ok_or("no statement")?;
    crate::rewrite::rewrite(&mut statement);
    rewrite(&mut statement);
    let shown = statement.to_string();
    let failed = |stage: &str, error: DataFusionError| format!("{stage}: {error}\nrewritten: {shown}");
    let plan = session.state().statement_to_plan(Statement::Statement(Box::new(statement))).await;
    let plan = plan.map_err(|error| failed("plan", error))?;
    let frame = session.execute_logical_plan(plan).await.map_err(|error| failed("plan", error))?;
    let batches = frame.collect().await.map_err(|error| failed("run", error))?;
    let options = FormatOptions::default().with_null("~");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|c| c.value(row).to_string().replace('\n', "\\n")).collect();
            rows.push(cells.join("|"));
        }
    }
    Ok(rows)
}

/// A file of queries, each with the rows expected: `=== title`, query, `---`, rows.
struct Queries {
    head: String,
    queries: Vec<(String, String, Vec<String>)>,
}

fn read(path: &PathBuf) -> Queries {
    let text = std::fs::read_to_string(path).unwrap();
    let mut parts = text.split("=== ");
    let head = parts.next().unwrap().to_owned();
    let queries = parts.map(|part| {
        let (title, rest) = part.split_once('\n').unwrap();
        let (query, rows) = rest.split_once("\n---\n").unwrap_or_else(|| panic!("{title}: no ---"));
        (title.to_owned(), query.to_owned(), rows.lines().map(str::to_owned).collect())
    });
    Queries { queries: queries.collect(), head }
}

/// Runs a file. With `MILLRACE_BLESS=1` the rows that came are written instead; read the difference before keeping it.
async fn check(file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients").join(file);
    let bless = std::env::var_os("MILLRACE_BLESS").is_some();
    let facts = facts();
    let session = session(&facts);
    let Queries { head, queries } = read(&path);
    let (mut blessed, mut failures) = (head, Vec::new());
    for (title, query, expected) in queries {
        let result = run(&session, &query).await;
        let rows = result.clone().unwrap_or_else(|_| expected.clone());
        blessed.push_str(&format!("=== {title}\n{query}\n---\n"));
        rows.iter().for_each(|row| blessed.push_str(&format!("{row}\n")));
        match result {
            Err(error) => failures.push(format!("{title}: {error}")),
            Ok(rows) if rows != expected && !bless => {
                failures.push(format!("{title}: {rows:#?}, expected {expected:#?}"))
            }
            Ok(_) => {}
        }
    }
    if bless {
        std::fs::write(&path, blessed).unwrap();
    }
    assert!(failures.is_empty(), "{} queries of {file} failed:\n{}", failures.len(), failures.join("\n\n"));
}

#[tokio::test]
async fn psql_queries_are_answered() {
    check("psql.sql").await;
}

#[tokio::test]
async fn pgjdbc_queries_are_answered() {
    check("pgjdbc.sql").await;
}

#[tokio::test]
async fn psycopg_queries_are_answered() {
    check("psycopg.sql").await;
}

#[tokio::test]
async fn sqlalchemy_queries_are_answered() {
    check("sqlalchemy.sql").await;
}

#[tokio::test]
async fn queries_of_further_clients_are_answered() {
    check("others.sql").await;
}

#[test]
fn every_relation_builds_and_every_cell_has_its_column() {
    let facts = facts();
    for relation in relations::RELATIONS.iter() {
        for row in (relation.rows)(&facts) {
            for (name, _) in &row {
                let known = relation.columns.iter().any(|column| column.name == *name);
                // Relations that share their rows leave out a column each.
                assert!(known || *name == "tableoid", "{}: no column {name}", relation.name);
            }
        }
        assert!(
            relation.columns.len() > 1 || relation.name.ends_with("name") || relation.name == "enabled_roles",
            "{}",
            relation.name
        );
    }
    let mut oids: Vec<_> = relations::RELATIONS.iter().map(|relation| relation.oid).collect();
    oids.sort_unstable();
    assert!(oids.is_sorted_by(|a, b| a < b), "an OID is used twice");
}
