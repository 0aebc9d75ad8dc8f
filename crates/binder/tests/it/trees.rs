//! Bound changes are complete: each expression reads columns that are there, and each value has its column's type and modifier.

use std::collections::BTreeSet;

use binder::tree::{
    Assignment, Change, ChangeStatement, Column, CteBody, Generated, MergeAction, Rel, RowQuery, Statement, Subplan,
    Table,
};
use scalar::{Expr, ExprKind};

/// Checks a change of a statement. The fields are those of the statement.
struct Checker<'s> {
    columns: &'s [Column],
    subqueries: &'s [Subplan],
}

type Set = BTreeSet<u32>;

fn set(columns: &[u32]) -> Set {
    columns.iter().copied().collect()
}

impl Checker<'_> {
    fn reads(&self, expr: &Expr, visible: &Set, place: &str) {
        expr.visit(&mut |part| match &part.kind {
            ExprKind::Column(column) => assert!(visible.contains(column), "{place}: column {column} is not there"),
            ExprKind::Subquery(subquery) => {
                let of = &self.subqueries[subquery.query as usize];
                self.rel(&of.rel, visible, place);
            }
            _ => {}
        });
    }

    /// An operator reads columns of its inputs and, within a subquery, of those around it.
    fn rel(&self, rel: &Rel, outer: &Set, place: &str) {
        let mut inner = outer.clone();
        let mut outputs = Vec::new();
        match rel {
            Rel::Project { input, columns } => {
                self.rel(input, outer, place);
                input.outputs(&mut outputs);
                inner.extend(&outputs);
                columns.iter().for_each(|(_, expr)| self.reads(expr, &inner, place));
            }
            Rel::Filter { input, condition } => {
                self.rel(input, outer, place);
                input.outputs(&mut outputs);
                inner.extend(&outputs);
                self.reads(condition, &inner, place);
            }
            Rel::Join { left, right, on, lateral, .. } => {
                self.rel(left, outer, place);
                left.outputs(&mut outputs);
                let mut around = outer.clone();
                if *lateral {
                    around.extend(&outputs);
                }
                self.rel(right, &around, place);
                right.outputs(&mut outputs);
                inner.extend(&outputs);
                on.iter().for_each(|on| self.reads(on, &inner, place));
            }
            Rel::Values { rows, columns } => {
                for row in rows {
                    assert_eq!(row.len(), columns.len(), "{place}: values for all columns");
                    row.iter().for_each(|expr| self.reads(expr, outer, place));
                }
            }
            _ => {}
        }
    }

    fn has_type(&self, value: &Expr, column: usize, table: &Table, place: &str) {
        let column = &table.columns[column];
        let is_null = matches!(&value.kind, ExprKind::Constant(value) if value.is_null());
        assert_eq!(value.ty, column.ty, "{place}: type of {}", column.name);
        assert!(is_null || value.typmod == column.typmod || column.typmod < 0, "{place}: modifier of {}", column.name);
    }

    fn assignments(&self, list: &[Assignment], queries: &[RowQuery], table: &Table, visible: &Set, place: &str) {
        let mut visible = visible.clone();
        for query in queries {
            let of = &self.subqueries[query.query as usize];
            assert_eq!(of.columns.len(), query.columns.len(), "{place}");
            self.rel(&of.rel, &visible, place);
            visible.extend(&query.columns);
        }
        for Assignment { column, subscripts, value } in list {
            self.reads(value, &visible, place);
            if subscripts.is_empty() {
                self.has_type(value, *column, table, place);
            }
        }
    }

    fn generated(&self, list: &[Generated], table: &Table, new: &[u32], place: &str) {
        let expected: Vec<usize> =
            (0..table.columns.len()).filter(|at| table.columns[*at].generated.is_some()).collect();
        assert_eq!(list.iter().map(|one| one.column).collect::<Vec<_>>(), expected, "{place}");
        for Generated { column, value } in list {
            self.reads(value, &set(new), place);
            assert_eq!(value.ty, table.columns[*column].ty, "{place}");
        }
    }

    fn returning(&self, list: &[(u32, Expr)], visible: &Set, place: &str) {
        for (column, value) in list {
            self.reads(value, visible, place);
            assert_eq!(self.columns[*column as usize].ty, value.ty, "{place}");
        }
    }

    fn row(&self, row: &[u32], table: &Table, place: &str) {
        assert_eq!(row.len(), table.columns.len(), "{place}");
        for (number, column) in row.iter().zip(&table.columns) {
            let of = &self.columns[*number as usize];
            assert_eq!((of.ty, of.typmod), (column.ty, column.typmod), "{place}: {}", column.name);
        }
    }

    fn change(&self, change: &Change, place: &str) {
        let nothing = Set::new();
        match change {
            Change::Insert(insert) => {
                let table = &insert.table;
                self.row(&insert.row, table, place);
                self.row(&insert.new, table, place);
                self.rel(&insert.source, &nothing, place);
                let mut made = Vec::new();
                insert.source.outputs(&mut made);
                let made = set(&made);
                assert!(set(&insert.row).is_subset(&made), "{place}");
                self.values(&insert.source, table, place);
                self.assignments(&insert.parts, &[], table, &made, place);
                self.generated(&insert.generated, table, &insert.new, place);
                if let Some(update) = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref()) {
                    self.row(&update.old, table, place);
                    self.row(&update.excluded, table, place);
                    let visible: Set = update.old.iter().chain(&update.excluded).copied().collect();
                    self.assignments(&update.assignments, &update.row_queries, table, &visible, place);
                    update.filter.iter().for_each(|filter| self.reads(filter, &visible, place));
                    self.generated(&update.generated, table, &insert.new, place);
                }
                self.returning(&insert.returning, &set(&insert.new), place);
            }
            Change::Update(update) => {
                let table = &update.table;
                self.row(&update.old, table, place);
                self.row(&update.new, table, place);
                self.rel(&update.input, &nothing, place);
                let mut found = Vec::new();
                update.input.outputs(&mut found);
                assert!(found.starts_with(&update.old), "{place}: the table's columns come first");
                let found = set(&found);
                self.assignments(&update.assignments, &update.row_queries, table, &found, place);
                self.generated(&update.generated, table, &update.new, place);
                let after: Set = found.difference(&set(&update.old)).chain(&update.new).copied().collect();
                self.returning(&update.returning, &after, place);
            }
            Change::Delete(delete) => {
                self.row(&delete.old, &delete.table, place);
                self.rel(&delete.input, &nothing, place);
                let mut found = Vec::new();
                delete.input.outputs(&mut found);
                self.returning(&delete.returning, &set(&found), place);
            }
            Change::Merge(merge) => {
                let table = &merge.table;
                self.row(&merge.old, table, place);
                self.rel(&merge.input, &nothing, place);
                let mut all = Vec::new();
                merge.input.outputs(&mut all);
                let all = set(&all);
                let source: Set = all.difference(&set(&merge.old)).copied().collect();
                for branch in &merge.branches {
                    let visible = if branch.matched { &all } else { &source };
                    branch.condition.iter().for_each(|condition| self.reads(condition, visible, place));
                    match &branch.action {
                        MergeAction::Nothing | MergeAction::Delete => {}
                        MergeAction::Update { row_queries, assignments, new, generated } => {
                            self.row(new, table, place);
                            self.assignments(assignments, row_queries, table, visible, place);
                            self.generated(generated, table, new, place);
                        }
                        MergeAction::Insert { values, parts, new, generated } => {
                            self.row(new, table, place);
                            for (at, value) in values.iter().enumerate() {
                                self.reads(value, visible, place);
                                self.has_type(value, at, table, place);
                            }
                            self.assignments(parts, &[], table, visible, place);
                            self.generated(generated, table, new, place);
                        }
                    }
                }
            }
        }
    }

    /// Values of the rows of an INSERT have the columns' types.
    fn values(&self, source: &Rel, table: &Table, place: &str) {
        let rows: Vec<Vec<&Expr>> = match source {
            Rel::Values { rows, .. } => rows.iter().map(|row| row.iter().collect()).collect(),
            Rel::Project { columns, .. } => vec![columns.iter().map(|(_, expr)| expr).collect()],
            other => panic!("{place}: rows of {other:?}"),
        };
        for (at, value) in rows.iter().flat_map(|row| row.iter().take(table.columns.len()).enumerate()) {
            self.has_type(value, at, table, place);
        }
    }
}

#[test]
fn expressions_of_changes_read_columns_that_are_there_and_have_the_types_of_their_columns() {
    let tables = crate::tables();
    let (mut changes, mut in_with) = (0, 0);
    for line in include_str!("../data/changes.tsv").lines() {
        let (sql, _) = line.split_once('\t').expect("a statement and its description");
        let Ok(bound) = crate::bound(&tables, sql) else { continue };
        let ctes = match &bound {
            Statement::Query(query) => &query.ctes,
            Statement::Change(change) => &change.ctes,
        };
        let (columns, subqueries) = match &bound {
            Statement::Query(query) => (&query.columns, &query.subqueries),
            Statement::Change(change) => (&change.columns, &change.subqueries),
        };
        let checker = Checker { columns, subqueries };
        for cte in ctes {
            if let CteBody::Change(change) = &cte.body {
                checker.change(change, sql);
                in_with += 1;
            }
        }
        if let Statement::Change(statement) = &bound {
            let ChangeStatement { change, .. } = &**statement;
            checker.change(change, sql);
            changes += 1;
        }
    }
    assert!(changes > 150 && in_with > 10, "{changes} changes, {in_with} in WITH");
}

#[test]
fn equal_items_of_grouping_sets_are_keys_of_their_own() {
    let tables = crate::tables();
    let keys = |sql: &str| {
        let Ok(Statement::Query(query)) = crate::bound(&tables, sql) else { panic!("a query: {sql}") };
        let Rel::Project { input, columns } = query.root else { panic!("a select list: {sql}") };
        let Rel::Aggregate { keys, sets, .. } = *input else { panic!("groups: {sql}") };
        let columns: Vec<usize> = columns
            .iter()
            .map(|(_, expr)| match expr.kind {
                ExprKind::Column(column) => keys.iter().position(|(key, _)| *key == column).expect("a key"),
                _ => panic!("a key: {sql}"),
            })
            .collect();
        (columns, sets)
    };
    assert_eq!(
        keys("SELECT id AS a, id AS b FROM device GROUP BY a, ROLLUP (b)"),
        (vec![0, 1], Some(vec![vec![0, 1], vec![0]]))
    );
    assert_eq!(
        keys("SELECT id AS a, id AS b FROM device GROUP BY b, ROLLUP (b)"),
        (vec![0, 0], Some(vec![vec![0], vec![0]]))
    );
    assert_eq!(keys("SELECT id AS a, id AS b FROM device GROUP BY a, b"), (vec![0, 0], None));
    // Several items are multiplied; a key is once in each set, and equal sets are kept without DISTINCT.
    for (items, expected) in [
        ("ROLLUP (id, name), CUBE (id)", &[&[0, 1][..], &[0, 1], &[0], &[0], &[0], &[]][..]),
        ("DISTINCT ROLLUP (id, name), CUBE (id)", &[&[0, 1], &[0], &[]]),
        ("CUBE (id, name), CUBE (name)", &[&[0, 1], &[0, 1], &[0, 1], &[0], &[1], &[1], &[1], &[]]),
        ("name, ROLLUP (id, name)", &[&[0, 1], &[0, 1], &[0]]),
        ("GROUPING SETS (ROLLUP (id, name), CUBE (id), ()), id", &[&[0, 1], &[0], &[0], &[0], &[0], &[0]]),
    ] {
        let (_, sets) = keys(&format!("SELECT id, name FROM device GROUP BY {items}"));
        let mut sets = sets.expect("grouping sets");
        sets.iter_mut().for_each(|set| set.sort_unstable());
        sets.sort_unstable_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        assert_eq!(sets, expected, "{items}");
    }
}

#[test]
fn locks_name_the_scans_of_their_tables() {
    let tables = crate::tables();
    let sql = "SELECT d.id FROM device d, site s, (SELECT device FROM reading LIMIT 1) r ORDER BY 1 LIMIT 1
               FOR UPDATE OF d, r NOWAIT FOR SHARE OF d FOR KEY SHARE OF s SKIP LOCKED";
    let Ok(Statement::Query(query)) = crate::bound(&tables, sql) else { panic!("a query") };
    let Rel::Limit { input, .. } = &query.root else { panic!("LIMIT is above: {:?}", query.root) };
    let Rel::Lock { input, locks } = &**input else { panic!("then come the locks: {input:?}") };
    assert!(matches!(**input, Rel::Sort { .. }), "ORDER BY is below");
    let shown: Vec<String> =
        locks.iter().map(|lock| format!("{} {:?} {:?}", lock.table.name, lock.strength, lock.wait)).collect();
    assert_eq!(shown, ["device Update NoWait", "site KeyShare SkipLocked"]);
    let name = |column: u32| &*query.columns[column as usize].name;
    assert_eq!(
        locks[1].columns.iter().map(|column| name(*column)).collect::<Vec<_>>(),
        ["id", "name", "location", "parent"]
    );
    assert!(format!("{:?}", input).contains("Lock"), "the subquery locks its own table");
}

#[test]
fn a_step_with_search_and_cycle_follows_rows_that_close_no_cycle_and_carries_their_path() {
    let tables = crate::tables();
    let sql = "WITH RECURSIVE t(n) AS (SELECT id::bigint FROM site UNION ALL SELECT s.id FROM site s JOIN t ON s.parent = t.n)
               SEARCH DEPTH FIRST BY n SET ord CYCLE n SET looped USING path SELECT * FROM t";
    let Ok(Statement::Query(query)) = crate::bound(&tables, sql) else { panic!("a query") };
    let CteBody::Recursive { base, step, .. } = &query.ctes[0].body else { panic!("a recursive query") };
    assert_eq!((base.columns.len(), step.columns.len()), (4, 4));
    let (columns, subqueries) = (&query.columns, &query.subqueries);
    let checker = Checker { columns, subqueries };
    checker.rel(&base.rel, &Set::new(), sql);
    checker.rel(&step.rel, &Set::new(), sql);
    let types = |part: &Subplan| part.columns.iter().map(|column| columns[*column as usize].ty.0).collect::<Vec<_>>();
    assert_eq!(types(base), [20, 2287, 16, 2287]);
    assert_eq!(types(step), [20, 2287, 16, 2287]);
    // The added columns, then the conversion to bigint, then the SELECT with the condition of the mark.
    let Rel::Project { input, .. } = &step.rel else { panic!("the added columns") };
    let Rel::Project { input, .. } = &**input else { panic!("the conversion") };
    let Rel::Project { input, .. } = &**input else { panic!("the SELECT") };
    assert!(matches!(&**input, Rel::Filter { input, .. } if matches!(**input, Rel::Join { .. })), "{input:?}");
}

#[test]
fn locf_and_interpolate_with_over_are_functions_of_windows() {
    let tables = super::tables();
    for (sql, expected) in [
        ("SELECT locf(price) OVER (ORDER BY id) FROM device", "locf_over"),
        ("SELECT interpolate(price, bought) OVER (ORDER BY bought) FROM device", "interpolate_over"),
    ] {
        let Statement::Query(query) = super::bound(&tables, sql).expect(sql) else { panic!("a query: {sql}") };
        let text = format!("{query:?}");
        let number = catalog::builtin().functions_named(expected).map(|row| format!("function: {}", row.oid));
        assert!(number.into_iter().any(|call| text.contains(&call)), "{sql}: {text}");
    }
    // Without OVER they fill the gaps of a query's groups.
    for sql in ["SELECT locf(price) FROM device", "SELECT interpolate(price::float8) FROM device"] {
        assert!(super::bound(&tables, sql).is_ok(), "{sql}");
    }
    let error =
        super::described(&tables, "SELECT interpolate(price, bought) FILTER (WHERE active) OVER () FROM device");
    assert_eq!(error.expect_err("no FILTER").state().0, "0A000");
}
