//! Views: the text of a view has the columns of the query that it was made from, and its meaning does not depend on what
//! was added to its tables or on settings.

use std::sync::Arc;

use binder::tree::{Statement, Table, TableColumn};
use binder::{NewView, Schema, ViewQuery, ViewTable};
use catalog::TypeId;
use model::Result;
use parser::ast;
use parser::print::{Rewrites, view_definition};
use scalar::Session;

use crate::{Tables, tables};

/// The tables, and a view `v`.
struct WithView<'t> {
    tables: &'t Tables,
    view: Arc<Table>,
    query: ViewQuery,
}

impl Schema for WithView<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        match name {
            "the_view" => Ok(Some(Arc::clone(&self.view))),
            _ => self.tables.table(schema, name),
        }
    }

    fn view(&self, _: &Table) -> Result<ViewQuery> {
        Ok(self.query.clone())
    }

    fn session(&self) -> &Session {
        self.tables.session()
    }
}

fn query_of(sql: &str) -> ast::Query {
    match parser::parse_all(sql).expect(sql).pop().expect("a statement").statement {
        ast::Statement::Query(query) => *query,
        other => panic!("no query: {other:?}"),
    }
}

fn made(tables: &Tables, sql: &str) -> Result<NewView> {
    binder::bind_view(tables, sql, &query_of(sql))
}

/// The text of a view, or the code and text of the error.
fn text(sql: &str) -> String {
    match made(&tables(), sql) {
        Ok(view) => view.query,
        Err(error) => format!("{} {}", error.state(), error.message()),
    }
}

/// The view of a new view's query. Its tables have a further column in front of the others, as if they were new tables.
fn view_of<'t>(tables: &'t Tables, new: &NewView) -> WithView<'t> {
    let columns = new.output.iter().map(|one| TableColumn {
        name: one.name.clone(),
        ty: one.ty,
        typmod: one.typmod,
        ..TableColumn::default()
    });
    let view = Table { name: "the_view".into(), columns: columns.collect(), is_view: true, ..Table::default() };
    let changed = |(table, used): &(Arc<Table>, Vec<usize>)| {
        let mut now = (**table).clone();
        (now.name, now.primary_key, now.unique) = ("renamed".into(), Vec::new(), Vec::new());
        now.columns.iter_mut().for_each(|column| column.name = format!("new {}", column.name).into());
        let added = TableColumn { name: "id".into(), ty: TypeId::TEXT, typmod: -1, ..TableColumn::default() };
        now.columns.insert(0, added);
        ViewTable {
            schema: table.schema.clone(),
            name: table.name.clone(),
            table: Arc::new(now),
            columns: used.iter().map(|at| (at + 1, table.columns[*at].name.clone())).collect(),
        }
    };
    let query =
        ViewQuery { query: query_of(&new.query), tables: new.tables.iter().map(changed).collect(), check: None };
    WithView { tables, view: Arc::new(view), query }
}

/// Every query of the corpus that can be a view has the same columns as a view, after its tables got other names, and its
/// text is the text of a view of itself.
#[test]
fn texts_of_views_mean_what_the_queries_meant() {
    let tables = tables();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in include_str!("../data/queries.tsv").lines() {
        let (sql, _) = line.split_once('\t').expect("a query and its description");
        let Ok(parsed) = parser::parse_all(sql) else { continue };
        let [ast::Parsed { statement: ast::Statement::Query(query), parameters: 0, .. }] = &parsed[..] else {
            continue;
        };
        let Ok(new) = binder::bind_view(&tables, sql, query) else { continue };
        // The names of a view's columns differ.
        let mut names = std::collections::BTreeSet::new();
        if !new.output.iter().all(|one| names.insert(&one.name)) {
            continue;
        }
        // Columns depend on the primary key there.
        if sql.to_lowercase().contains("group by") && binder_refuses_without_keys(&tables, &new) {
            continue;
        }
        let view = view_of(&tables, &new);
        let select = "SELECT * FROM the_view";
        let seen = match binder::bind_statement(&view, select, &ast::Statement::Query(Box::new(query_of(select))), &[])
        {
            Ok(Statement::Query(bound)) => bound.output.iter().map(|one| (one.name.clone(), one.ty)).collect(),
            Ok(_) => Vec::new(),
            Err(error) => {
                wrong.push(format!("{sql}\n  {}\n  {error}", new.query));
                continue;
            }
        };
        count += 1;
        let expected: Vec<_> = new.output.iter().map(|one| (one.name.clone(), one.ty)).collect();
        if seen != expected {
            wrong.push(format!("{sql}\n  {}\n  expected {expected:?}\n  seen     {seen:?}", new.query));
        }
        let names: Vec<ast::Ident> = (0..new.output.len()).map(|at| ast::Ident::from(format!("c{at}"))).collect();
        let shown = view_definition(&query_of(&new.query), &Rewrites::default(), "v", &names);
        match made(&tables, &shown) {
            Ok(again) => {
                let renamed: Vec<_> = again.output.iter().map(|one| (&*one.name, one.ty)).collect();
                let expected: Vec<_> =
                    names.iter().map(ast::Ident::as_str).zip(expected.iter().map(|one| one.1)).collect();
                if renamed != expected {
                    wrong.push(format!("{sql}\n  {shown}\n  {renamed:?}"));
                }
            }
            Err(error) => wrong.push(format!("{sql}\n  {shown}\n  {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(count > 80, "{count} queries of the corpus can be views");
}

/// Whether a query needs the primary keys of its tables.
fn binder_refuses_without_keys(tables: &Tables, new: &NewView) -> bool {
    let without = tables.tables.iter().map(|(name, table)| {
        (name.clone(), Arc::new(Table { primary_key: Vec::new(), unique: Vec::new(), ..(**table).clone() }))
    });
    let keyless = Tables { tables: without.collect(), session: tables.session.clone() };
    made(&keyless, &new.query).is_err()
}

#[test]
fn names_are_complete_and_stars_are_written_out() {
    let columns = |table: &str| -> Vec<String> {
        tables().tables[table].columns.iter().map(|column| column.name.to_string()).collect()
    };
    let name = tables().tables.keys().next().expect("a table").clone();
    let list = |of: &str| columns(&name).iter().map(|column| format!("{of}.{column}")).collect::<Vec<_>>().join(", ");
    let first = columns(&name)[0].clone();
    for (sql, expected) in [
        (format!("SELECT * FROM {name}"), format!("SELECT {} FROM public.{name}", list(&name))),
        (format!("TABLE {name}"), format!("SELECT {} FROM public.{name}", list(&name))),
        (format!("SELECT x.* FROM {name} x"), format!("SELECT {} FROM public.{name} AS x", list("x"))),
        (
            format!("SELECT {first} FROM {name} WHERE {first} IS NULL ORDER BY {first}"),
            format!("SELECT {name}.{first} FROM public.{name} WHERE {name}.{first} IS NULL ORDER BY {first}"),
        ),
        (
            format!("SELECT count(*), 1 FROM public.{name}"),
            format!("SELECT count(*) AS count, 1 AS \"?column?\" FROM public.{name}"),
        ),
        (
            format!("WITH c AS (SELECT {first} FROM {name}) SELECT * FROM c"),
            format!("WITH c AS (SELECT {name}.{first} FROM public.{name}) SELECT c.{first} FROM c"),
        ),
        // An item of FROM inside hides the one outside: the name stays as it was.
        (
            format!("SELECT (SELECT x.{first} FROM (SELECT 1 AS one) y) FROM {name} x"),
            format!("SELECT (SELECT x.{first} FROM (SELECT 1 AS one) AS y) AS {first} FROM public.{name} AS x"),
        ),
    ] {
        assert_eq!(text(&sql), expected, "{sql}");
    }
}

#[test]
fn merged_columns_have_a_name_where_another_item_has_theirs() {
    let full = "(VALUES (1)) AS a(i) FULL JOIN (VALUES (2)) AS b(i) USING (i)";
    for (sql, expected) in [
        (format!("SELECT * FROM {full}"), format!("SELECT i FROM {full}")),
        (
            format!("SELECT * FROM {full}, (VALUES (3)) AS c(i)"),
            format!("SELECT joined_1.i, c.i FROM {full} AS joined_1, (VALUES (3)) AS c(i)"),
        ),
        (
            format!("SELECT j.*, joined.* FROM ({full}) AS j, (VALUES (3)) AS joined(i)"),
            format!("SELECT j.i, joined.i FROM ({full}) AS j, (VALUES (3)) AS joined(i)"),
        ),
        (
            format!("SELECT * FROM (VALUES (3)) AS joined(i), {full}"),
            format!("SELECT joined.i, joined__1.i FROM (VALUES (3)) AS joined(i), {full} AS joined__1"),
        ),
    ] {
        assert_eq!(text(&sql), expected, "{sql}");
    }
}

#[test]
fn stars_of_rows_are_written_out() {
    let name = tables().tables.keys().next().expect("a table").clone();
    let first = tables().tables[&name].columns[0].name.to_string();
    let of = format!("jsonb_each(to_jsonb({name}.{first}))");
    assert_eq!(
        text(&format!("SELECT (jsonb_each(to_jsonb({first}))).* FROM {name}")),
        format!("SELECT ({of}).key, ({of}).value FROM public.{name}")
    );
}

#[test]
fn constants_of_times_do_not_depend_on_settings() {
    for (sql, expected) in [
        ("SELECT date '2024-02-01' AS d", "SELECT date '2024-02-01' AS d"),
        ("SELECT '2024-02-01 10:00+02'::timestamptz AS t", "SELECT '2024-02-01 08:00:00+00'::timestamptz AS t"),
        ("SELECT interval '90 minutes' AS i", "SELECT interval '01:30:00' AS i"),
        ("SELECT 'x' AS t", "SELECT 'x' AS t"),
        ("SELECT now() > '2024-02-01 10:00+02' AS b", "SELECT now() > '2024-02-01 08:00:00+00' AS b"),
    ] {
        assert_eq!(text(sql), expected);
    }
    assert_eq!(text("SELECT 'x'::regclass"), "0A000 a constant of type regclass in a view is not supported");
    assert_eq!(text("SELECT $1 + 1"), "42P02 there is no parameter $1");
}
