//! Rows of `pg_catalog` and `information_schema` for views, and their definitions as text.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use model::{CheckOption, Materialized, ViewRef, ViewReference, ViewSpec};
use parser::ast::{
    Alias, Expr, ExprKind, Ident, Join, JoinConstraint, Relation, Statement, TableExpr, TypeName, Visitor,
};
use parser::print::{RelationText, Rewrites, view_definition};

use crate::cells::{Cell, Row, row};
use crate::classes::Class;
use crate::facts::StatementFacts;
use crate::oids::{self, Oid, Part};
use crate::row_tables::persistence;
use crate::{names, user_types};

const CLASS: Oid = 1259;
const REWRITE: Oid = 2618;

/// OID of a view.
fn oid(view: &ViewSpec) -> Oid {
    oids::of_number(view.id, Part::Table)
}

/// OID of the rule that PostgreSQL has for each view.
fn rule(view: &ViewSpec) -> Oid {
    oids::of_number(view.id, Part::Constraint)
}

/// The views whose rows are those of their queries.
pub(crate) fn plain(facts: &StatementFacts) -> impl Iterator<Item = &ViewRef> {
    facts.catalog.views().filter(|view| view.materialized.is_none())
}

/// Rows of `pg_matviews`.
pub(crate) fn materialized(facts: &StatementFacts) -> Vec<Row> {
    let view = |view: &ViewRef| {
        let rows = facts.catalog.row_table_by_id(model::TableId(view.id));
        row! {
            schemaname: view.name.schema.as_str(),
            matviewname: view.name.table.as_str(),
            matviewowner: facts.user.as_str(),
            hasindexes: rows.is_some_and(|rows| rows.primary.is_some() || !rows.secondary.is_empty()),
            ispopulated: view.materialized == Some(Materialized::Populated),
            definition: definition(facts, view),
        }
    };
    facts.catalog.views().filter(|view| view.materialized.is_some()).map(view).collect()
}

/// `YES` or `NO`.
pub(crate) fn yes(is_so: bool) -> &'static str {
    if is_so { "YES" } else { "NO" }
}

/// Rows of `pg_class`.
pub(crate) fn classes(facts: &StatementFacts) -> Vec<Row> {
    let class = |view: &ViewRef| {
        row! {
            oid: oid(view),
            relname: view.name.table.as_str(),
            relnamespace: oids::of_schema(&view.name.schema),
            reltype: oids::of_number(view.id, Part::RowType),
            relowner: oids::ROLE,
            relhasindex: false,
            relpersistence: persistence(&view.name),
            relkind: "v",
            relnatts: view.columns.len() as i64,
            relhasrules: true,
            relispopulated: true,
            relreplident: "n",
            reloptions: match view.check {
                Some(CheckOption::Local) => Cell::Texts(vec!["check_option=local".to_owned()]),
                Some(CheckOption::Cascaded) => Cell::Texts(vec!["check_option=cascaded".to_owned()]),
                None => Cell::Null,
            },
            tableoid: CLASS,
        }
    };
    plain(facts).map(class).collect()
}

/// Rows of `pg_rewrite`: the rule of each view.
pub(crate) fn rules(facts: &StatementFacts) -> Vec<Row> {
    let rule = |view: &ViewRef| {
        row! {
            oid: rule(view),
            rulename: "_RETURN",
            ev_class: oid(view),
            ev_type: "1",
            ev_enabled: "O",
            is_instead: true,
            ev_qual: "<>",
            ev_action: "<>",
            tableoid: REWRITE,
        }
    };
    facts.catalog.views().map(rule).collect()
}

/// Rows of `pg_depend`: the rule of a view depends on the columns that the view uses.
pub(crate) fn dependencies(facts: &StatementFacts) -> Vec<Row> {
    let depends = |view: &ViewSpec, on: Oid, column: i64, kind: &str| {
        row! {
            classid: REWRITE,
            objid: rule(view),
            refclassid: CLASS,
            refobjid: on,
            refobjsubid: column,
            deptype: kind,
            tableoid: 2608,
        }
    };
    let mut rows = Vec::new();
    for view in facts.catalog.views() {
        rows.push(depends(view, oid(view), 0, "i"));
        for reference in &view.references {
            let on = oids::of_number(reference.object, Part::Table);
            if reference.columns.is_empty() {
                rows.push(depends(view, on, 0, "n"));
            }
            rows.extend(reference.columns.iter().map(|column| {
                let number = attribute_number(facts, reference.object, column.number);
                depends(view, on, number, "n")
            }));
        }
    }
    rows
}

/// The number in `pg_attribute` of a column of a table or view.
fn attribute_number(facts: &StatementFacts, object: u32, column: u32) -> i64 {
    let at = match facts.catalog.table_by_id(model::TableId(object)) {
        Some(table) => table.columns.iter().position(|one| one.id.0 == column).unwrap_or(0) as i64,
        None => i64::from(column),
    };
    at + 1
}

/// Rows of `pg_views`.
pub(crate) fn views(facts: &StatementFacts) -> Vec<Row> {
    let view = |view: &ViewRef| {
        row! {
            schemaname: view.name.schema.as_str(),
            viewname: view.name.table.as_str(),
            viewowner: facts.user.as_str(),
            definition: definition(facts, view),
        }
    };
    plain(facts).map(view).collect()
}

/// The row of `information_schema.views` of a view.
pub(crate) fn standard_view(facts: &StatementFacts, view: &ViewRef) -> Row {
    let updatable = yes(facts.catalog.is_updatable(view));
    let check = match view.check {
        None => "NONE",
        Some(CheckOption::Local) => "LOCAL",
        Some(CheckOption::Cascaded) => "CASCADED",
    };
    let name = (&*view.name.schema, &*view.name.table);
    standard_row(facts, name, definition(facts, view), check, updatable)
}

/// The row of `information_schema.views` of a view of the system.
pub(crate) fn standard_system_view(facts: &StatementFacts, schema: &str, name: &str) -> Row {
    standard_row(facts, (schema, name), None, "NONE", "NO")
}

fn standard_row(
    facts: &StatementFacts,
    (schema, name): (&str, &str),
    definition: Option<String>,
    check: &str,
    updatable: &str,
) -> Row {
    row! {
        table_catalog: facts.database.as_str(),
        table_schema: schema,
        table_name: name,
        view_definition: definition,
        check_option: check,
        is_updatable: updatable,
        is_insertable_into: updatable,
        is_trigger_updatable: "NO",
        is_trigger_deletable: "NO",
        is_trigger_insertable_into: "NO",
    }
}

/// Rows of `information_schema.view_table_usage`.
pub(crate) fn table_usage(facts: &StatementFacts) -> Vec<Row> {
    let usage = |(view, reference): (&ViewRef, &ViewReference)| usage(facts, view, reference);
    all_references(facts).filter_map(usage).collect()
}

/// Rows of `information_schema.view_column_usage`.
pub(crate) fn column_usage(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (view, reference) in all_references(facts) {
        let Some(usage) = usage(facts, view, reference) else { continue };
        for column in &reference.columns {
            let Some((name, _, _)) = facts.catalog.column_of(reference.object, column.number) else { continue };
            let mut row = usage.clone();
            row.push(("column_name", name.into()));
            rows.push(row);
        }
    }
    rows
}

fn all_references(facts: &StatementFacts) -> impl Iterator<Item = (&ViewRef, &ViewReference)> {
    facts.catalog.views().flat_map(|view| view.references.iter().map(move |reference| (view, reference)))
}

fn usage(facts: &StatementFacts, view: &ViewSpec, reference: &ViewReference) -> Option<Row> {
    let name = facts.catalog.name_of(reference.object)?;
    Some(row! {
        view_catalog: facts.database.as_str(),
        view_schema: view.name.schema.as_str(),
        view_name: view.name.table.as_str(),
        table_catalog: facts.database.as_str(),
        table_schema: name.schema.as_str(),
        table_name: name.table.as_str(),
    })
}

/// Result of `pg_get_viewdef`: the query with the present names of what it reads, which have schemas unless the search
/// path finds them.
pub(crate) fn definition(facts: &StatementFacts, view: &ViewSpec) -> Option<String> {
    let statement = parser::parse_all(&view.query).ok()?.pop()?.statement;
    let Statement::Query(query) = statement else { return None };
    let names: Vec<Ident> = view.columns.iter().map(|column| Ident::new(&column.name)).collect();
    let mut present =
        PresentNames { facts, references: HashMap::new(), joined: HashMap::new(), rewrites: Rewrites::default() };
    for reference in &view.references {
        present.references.insert((&reference.name.schema, &reference.name.table), reference);
    }
    let _ = present.visit_query(&query);
    Some(view_definition(&query, &present.rewrites, &view.name.table, &names))
}

/// Notes the present names of the tables in a query.
struct PresentNames<'a> {
    facts: &'a StatementFacts,
    /// By schema and name in the text.
    references: HashMap<(&'a str, &'a str), &'a ViewReference>,
    /// Names that the joins around a table need for its columns, by the place of its name.
    joined: HashMap<u32, Joined>,
    rewrites: Rewrites,
}

/// Needs of the joins around a table for columns that the text does not know, because they were added later.
#[derive(Default)]
struct Joined {
    /// Names that they must not have: those of USING, and of the columns that an alias of a join makes its own.
    taken: HashSet<String>,
    /// Whether there must be none: the alias of a join counts the columns.
    is_counted: bool,
}

impl Visitor for PresentNames<'_> {
    type Break = ();

    fn enter_type(&mut self, ty: &TypeName) -> ControlFlow<()> {
        if let Some(oid) = model::user_types::referred(&ty.name.name) {
            self.rewrites.set_type(ty.at, user_types::shown_name(self.facts, oid));
        }
        ControlFlow::Continue(())
    }

    fn enter_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let ExprKind::Function(call) = &expr.kind
            && let Some(schema) = call.name.schema()
            && self.facts.search_path.iter().any(|other| other == schema)
            && catalog::builtin().functions_named(&call.name.name).next().is_none()
        {
            self.rewrites.set_function(call.at, names::quote_ident(&call.name.name));
        }
        ControlFlow::Continue(())
    }

    fn enter_table_expr(&mut self, table: &TableExpr) -> ControlFlow<()> {
        if let TableExpr::Join(join) = table {
            self.note_join(join);
        }
        if let TableExpr::Relation(relation) = table
            && let Some(reference) = self.reference(relation)
            && let Some(text) = self.text(relation, reference)
        {
            self.rewrites.set_relation(relation.name.at, text);
        }
        ControlFlow::Continue(())
    }
}

impl PresentNames<'_> {
    fn reference(&self, relation: &Relation) -> Option<&ViewReference> {
        self.references.get(&(relation.name.schema()?, relation.name.name.as_str())).copied()
    }

    /// Notes what a join asks of the tables below it.
    fn note_join(&mut self, join: &Join) {
        let mut below = Vec::new();
        relations(&join.left, &mut below);
        relations(&join.right, &mut below);
        let mut taken: HashSet<String> = HashSet::new();
        if let JoinConstraint::Using(names, _) = &join.constraint {
            taken.extend(names.iter().map(|name| name.as_str().to_owned()));
        }
        if join.alias.is_some() {
            let references = below.iter().filter_map(|relation| self.reference(relation));
            taken.extend(references.flat_map(|reference| reference.columns.iter().map(|column| column.name.clone())));
        }
        let is_counted = join.alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        for relation in below {
            let joined = self.joined.entry(relation.name.at.0).or_default();
            joined.taken.extend(taken.iter().cloned());
            joined.is_counted |= is_counted;
        }
    }

    fn text(&self, relation: &Relation, reference: &ViewReference) -> Option<RelationText> {
        let class = Class::by_oid(&self.facts.catalog, oids::of_number(reference.object, Part::Table))?;
        let old = &relation.name.name;
        let present: Vec<(u32, &str)> = columns(class);
        let known = |number: u32| reference.columns.iter().find(|one| one.number == number);
        let none = Joined::default();
        let joined = self.joined.get(&relation.name.at.0).unwrap_or(&none);
        let name = names::relation_name(self.facts, class);
        let is_plain = !relation.only && relation.sample.is_none() && relation.as_of.is_none();
        if joined.is_counted && is_plain && present.iter().any(|(number, _)| known(*number).is_none()) {
            let alias = relation.alias.clone().unwrap_or_else(|| Alias { name: old.clone(), columns: Vec::new() });
            return Some(RelationText { name: known_rows(&name, reference, &present), alias: Some(alias) });
        }
        let is_other = |(number, name): &(u32, &str)| match known(*number) {
            Some(column) => column.name != *name,
            None => joined.taken.contains(*name),
        };
        let mut alias = relation.alias.clone();
        if class.name() != old.as_str() && alias.is_none() {
            alias = Some(Alias { name: old.clone(), columns: Vec::new() });
        }
        if present.iter().any(is_other) {
            let mut renamed = alias.unwrap_or_else(|| Alias { name: old.clone(), columns: Vec::new() });
            renamed.columns = old_columns(&renamed.columns, reference, &present, &joined.taken);
            alias = Some(renamed);
        }
        Some(RelationText { name, alias })
    }
}

/// The tables of a tree of joins.
fn relations<'t>(table: &'t TableExpr, out: &mut Vec<&'t Relation>) {
    match table {
        TableExpr::Relation(relation) => out.push(relation),
        TableExpr::Join(join) => {
            relations(&join.left, out);
            relations(&join.right, out);
        }
        _ => {}
    }
}

/// The columns of a table that the text knows, as a derived table.
fn known_rows(table: &str, reference: &ViewReference, present: &[(u32, &str)]) -> String {
    let items = present.iter().filter_map(|(number, name)| {
        let known = reference.columns.iter().find(|one| one.number == *number)?;
        let item = names::quote_ident(name);
        Some(if known.name == *name { item } else { format!("{item} AS {}", names::quote_ident(&known.name)) })
    });
    format!("(SELECT {} FROM {table})", items.collect::<Vec<_>>().join(", "))
}

/// Numbers and names of the columns that a table or view has now.
fn columns(class: Class<'_>) -> Vec<(u32, &str)> {
    match class {
        Class::Columns(table) => table.columns.iter().map(|column| (column.id.0, column.name.as_str())).collect(),
        Class::Rows(table) => table.shown().map(|(at, column)| (at as u32, column.name.as_str())).collect(),
        Class::View(view) => (0..).zip(view.columns.iter().map(|column| column.name.as_str())).collect(),
        _ => Vec::new(),
    }
}

/// The names by which the text knows the columns. Columns that it does not know get names that it does not use.
fn old_columns(
    written: &[Ident],
    reference: &ViewReference,
    present: &[(u32, &str)],
    taken: &HashSet<String>,
) -> Vec<Ident> {
    let known = |number: u32| reference.columns.iter().find(|one| one.number == number).map(|one| one.name.as_str());
    let mut names: Vec<Ident> = Vec::with_capacity(present.len());
    for (at, (number, name)) in present.iter().enumerate() {
        let own = written.get(at).cloned().or_else(|| known(*number).map(Ident::new));
        names.push(own.unwrap_or_else(|| {
            let is_used = |name: &str| taken.contains(name) || reference.columns.iter().any(|one| one.name == name);
            let free = (0..).map(|n| if n == 0 { (*name).to_owned() } else { format!("{name}_{n}") });
            Ident::from(free.into_iter().find(|name| !is_used(name)).unwrap_or_default())
        }));
    }
    names
}
