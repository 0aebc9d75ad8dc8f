//! Views: a view in FROM is its query as a derived table, and the query of a new view becomes text whose meaning stays.
//!
//! The text of a view was written by [`bind_view`]: its relations have schemas, its columns qualifiers and its `*` are
//! written out. It sees each table as it was when the view was created: the columns that it uses, by their names of that
//! time.

use std::sync::Arc;

use catalog::TypeId;
use model::{Error, Result, SqlState, limits, user_types};
use parser::ast::{self, Alias, Ident, Pos};
use parser::print::{RelationText, Rewrites, quoted_name, quoted_text, rewritten, rewritten_expr};
use scalar::{Context, ExprKind, Place, Session, Value};

use crate::binder::{Binder, Schema, error, placed_in};
use crate::from::{rename, source_column};
use crate::routine::Routine;
use crate::scope::{Scope, Source, SourceColumn};
use crate::target;
use crate::tree::{CteBody, Output, Query, Rel, Table};
use crate::walk::{for_each_expr, used_columns};

/// The query of a view, and the tables and views that it names.
#[derive(Clone, Debug)]
pub struct ViewQuery {
    /// The parsed text.
    pub query: ast::Query,
    /// The tables and views of the database among its relations; others are those of the system.
    pub tables: Vec<ViewTable>,
    /// WITH CHECK OPTION.
    pub check: Option<ViewCheck>,
}

/// WITH CHECK OPTION of a view: the conditions for rows that are changed through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewCheck {
    /// The condition of the view.
    Local,
    /// Also those of the views below it.
    Cascaded,
}

/// A table or view in the query of a view.
#[derive(Clone, Debug)]
pub struct ViewTable {
    /// Schema in the text.
    pub schema: Box<str>,
    /// Name in the text.
    pub name: Box<str>,
    /// The table as it is now.
    pub table: Arc<Table>,
    /// The columns that the query sees: positions in the table, in ascending order, and names in the text.
    pub columns: Vec<(usize, Box<str>)>,
}

/// The table or view that is changed by changes of a view, with the column of it that each column of the view is; else
/// PostgreSQL's reason why the view cannot be changed.
pub type ViewBase = std::result::Result<(Arc<Table>, Vec<Option<usize>>), &'static str>;

/// The query of a new view.
#[derive(Clone, Debug)]
pub struct NewView {
    /// Text of the query.
    pub query: String,
    /// Columns of the result.
    pub output: Vec<Output>,
    /// Tables and views that it names, with the positions of the columns that it uses, in ascending order.
    pub tables: Vec<(Arc<Table>, Vec<usize>)>,
    /// The table or view that is changed by changes of the view.
    pub base: ViewBase,
}

/// Notes about the query of a new view, taken while it is bound.
#[derive(Default)]
pub(crate) struct ViewNotes {
    rewrites: Rewrites,
    /// Tables and views, also those whose rows functions return, with the numbers of their columns, and how many columns an
    /// alias names.
    tables: Vec<(Arc<Table>, Vec<u32>, usize)>,
    /// Whether a join around the current item of FROM has an alias with names of columns.
    is_below_names: bool,
    /// Names for merged columns of joins: they begin with what the statement nowhere contains, and are counted.
    using_prefix: String,
    using_count: usize,
    refusal: Option<Error>,
}

/// Binds the query of a new view.
///
/// # Errors
/// As [`crate::bind`]; 42P02 for a parameter; 0A000 for what a text cannot keep: constants of type `regclass`.
pub fn bind_view(schema: &dyn Schema, sql: &str, query: &ast::Query) -> Result<NewView> {
    let mut binder = Binder::new(schema, &[]);
    let mut using_prefix = "joined".to_owned();
    while sql.contains(&using_prefix) {
        using_prefix.push('_');
    }
    binder.notes = Some(ViewNotes { using_prefix, ..ViewNotes::default() });
    binder.defines_view = true;
    binder.new_view(query).map_err(|error| placed_in(error, sql))
}

impl Binder<'_> {
    fn new_view(&mut self, query: &ast::Query) -> Result<NewView> {
        let bound: Query = self.statement(query)?;
        let notes = self.notes.take().unwrap_or_default();
        if let Some(refusal) = notes.refusal {
            return Err(refusal);
        }
        let used = used_columns(&bound);
        let mut tables: Vec<(Arc<Table>, Vec<usize>)> = Vec::new();
        for (table, columns, named) in notes.tables {
            let positions = columns.iter().enumerate().filter(|(at, column)| *at < named || used.contains(column));
            let at = tables.iter().position(|(other, _)| other.oid == table.oid).unwrap_or_else(|| {
                tables.push((table, Vec::new()));
                tables.len() - 1
            });
            tables[at].1.extend(positions.map(|(at, _)| at));
        }
        for (_, columns) in &mut tables {
            columns.sort_unstable();
            columns.dedup();
        }
        let base = target::base(self.schema, query);
        Ok(NewView { query: rewritten(query, &notes.rewrites), output: bound.output, tables, base })
    }

    /// The table of a name; in the query of a view with what the text knows of it.
    pub(crate) fn visible_table(&self, name: &ast::Name) -> Result<(Arc<Table>, Option<ViewTable>)> {
        if let (Some(view), [schema]) = (self.views.last(), &*name.qualifier) {
            let is_meant = |one: &&ViewTable| *one.schema == *schema.as_str() && *one.name == *name.name.as_str();
            if let Some(found) = view.tables.iter().find(is_meant) {
                return Ok((Arc::clone(&found.table), Some(found.clone())));
            }
        }
        Ok((self.table(name)?, None))
    }

    /// Gives the columns of a function that returns rows of a table the names by which the text of a view knows them.
    pub(crate) fn name_as_then(&self, table: &Table, names: &mut [Ident]) {
        let view = self.views.last();
        let reference = view.and_then(|view| view.tables.iter().find(|one| one.table.oid == table.oid));
        for (at, name) in reference.iter().flat_map(|reference| &reference.columns) {
            if let Some(column) = names.get_mut(*at) {
                *column = Ident::new(name);
            }
        }
    }

    /// A view as an item of FROM.
    pub(crate) fn view(
        &mut self,
        scope: &Scope<'_>,
        table: Arc<Table>,
        shown: Option<&ViewTable>,
        alias: Option<&Alias>,
        at: Pos,
    ) -> Result<(Rel, Vec<Source>)> {
        self.views_read += 1;
        if self.views_read > limits::VIEWS_PER_STATEMENT_MAX {
            let text = format!("statement reads more than {} views", limits::VIEWS_PER_STATEMENT_MAX);
            return Err(error(SqlState::STATEMENT_TOO_COMPLEX, text, at));
        }
        let view = Arc::new(self.schema.view(&table)?);
        let name = Alias { name: Ident::new(&table.name), columns: Vec::new() };
        let locking = Self::subquery_locking(scope, Some(alias.unwrap_or(&name)));
        let notes = self.notes.take();
        let has_nanoseconds = std::mem::replace(&mut self.has_nanoseconds, self.schema.keeps_nanoseconds());
        let (scans, subqueries, ctes) = (self.scans.len(), self.subqueries.len(), self.ctes.len());
        self.views.push(Arc::clone(&view));
        let bound = self.locked_query(&view.query, None, true, locking);
        self.views.pop();
        self.notes = notes;
        self.has_nanoseconds |= has_nanoseconds;
        // Columns of a view do not depend on the primary keys of its tables.
        self.scans.truncate(scans);
        let mut bound = bound.map_err(Error::without_position)?;
        self.take_places(&mut bound.rel, subqueries, ctes);
        let outputs: Vec<&Output> = bound.outputs.iter().map(|one| &one.output).collect();
        check_types(&table, &outputs)?;
        let outputs: Vec<u32> = outputs.iter().map(|output| output.column).collect();
        let (mut rel, columns) = without_renames(bound.rel, outputs);
        self.outer.system.place(&mut rel);
        // The first of two names of one column counts.
        for (at, column) in columns.iter().enumerate().rev() {
            self.origins.insert(*column, (table.oid, i16::try_from(at + 1).unwrap_or(i16::MAX)));
        }
        let mut made = Vec::new();
        rel.outputs(&mut made);
        scope.own.borrow_mut().extend(made);
        self.note_table(&table, &columns, alias);
        let source = self.shown_source(&table, &columns, shown, alias, at)?;
        Ok((rel, vec![source]))
    }

    /// The names of a table or view in FROM.
    pub(crate) fn shown_source(
        &self,
        table: &Arc<Table>,
        columns: &[u32],
        shown: Option<&ViewTable>,
        alias: Option<&Alias>,
        at: Pos,
    ) -> Result<Source> {
        let mut source = self.table_source(table, columns, at);
        if let Some(shown) = shown {
            source.name = Ident::new(&shown.name);
            let named = |(at_column, name): &(usize, Box<str>)| {
                source_column(Ident::new(name), self.column_expr(columns[*at_column], at))
            };
            source.columns = shown.columns.iter().map(named).collect();
        }
        source.has_alias = alias.is_some();
        rename(&mut source, alias)?;
        Ok(source)
    }

    /// Takes the places off what was bound from the text of a view: they are none in the statement.
    fn take_places(&mut self, rel: &mut Rel, subqueries: usize, ctes: usize) {
        let mut take = |expr: &mut scalar::Expr| expr.visit_mut(&mut |part| part.at = Place(0));
        for_each_expr(rel, &mut take);
        for subquery in &mut self.subqueries[subqueries..] {
            for_each_expr(&mut subquery.rel, &mut take);
        }
        for cte in &mut self.ctes[ctes..] {
            match &mut cte.body {
                CteBody::Plain(rel) => for_each_expr(rel, &mut take),
                CteBody::Recursive { base, step, .. } => {
                    for_each_expr(&mut base.rel, &mut take);
                    for_each_expr(&mut step.rel, &mut take);
                }
                CteBody::Change(_) => {}
            }
        }
    }

    /// Notes a table or view that the query of a new view names, or whose rows a function in it returns.
    pub(crate) fn note_table(&mut self, table: &Arc<Table>, columns: &[u32], alias: Option<&Alias>) {
        let Some(notes) = &mut self.notes else { return };
        if table.is_of_system() {
            return;
        }
        // The columns that an alias renames are counted from the first one.
        let named = if notes.is_below_names { columns.len() } else { alias.map_or(0, |alias| alias.columns.len()) };
        notes.tables.push((Arc::clone(table), columns.to_vec(), named));
    }

    /// Notes the schema of a relation.
    pub(crate) fn note_relation(&mut self, name: &ast::Name, table: &Table) {
        let Some(notes) = &mut self.notes else { return };
        let name_text = format!("{}.{}", quoted_name(&table.schema), quoted_name(&table.name));
        notes.rewrites.set_relation(name.at, RelationText { name: name_text, alias: None });
    }

    /// Notes the schema of a user's function.
    pub(crate) fn note_function(&mut self, at: Pos, routine: &Routine) {
        let Some(notes) = &mut self.notes else { return };
        notes.rewrites.set_function(at, format!("{}.{}", quoted_name(&routine.schema), quoted_name(&routine.name)));
    }

    /// Binds an item of FROM within a join.
    pub(crate) fn below_names<T>(&mut self, has_names: bool, bind: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.notes.as_ref().is_some_and(|notes| notes.is_below_names);
        if let Some(notes) = &mut self.notes {
            notes.is_below_names |= has_names;
        }
        let bound = bind(self);
        if let Some(notes) = &mut self.notes {
            notes.is_below_names = before;
        }
        bound
    }

    /// Notes the name of a type that a user created: the text refers to it by its OID.
    pub(crate) fn note_type(&mut self, id: TypeId, at: Pos) {
        if let Some(notes) = &mut self.notes {
            let name = quoted_name(&user_types::reference(id.0));
            notes.rewrites.set_type(at, format!("pg_catalog.{name}"));
        }
    }

    /// Notes the item of FROM that a column is of.
    pub(crate) fn note_column(&mut self, scope: &Scope<'_>, column: &SourceColumn, at: Pos) {
        if self.notes.is_none() {
            return;
        }
        let text = self.qualified(scope, column);
        if let Some(notes) = &mut self.notes {
            notes.rewrites.set_expr(at, text);
        }
    }

    /// Notes the item of FROM whose system column a name is.
    pub(crate) fn note_system_column(&mut self, source: &Source, name: &Ident, at: Pos) {
        if let Some(notes) = self.notes.as_mut().filter(|_| source.by_table && !source.name.is_empty()) {
            notes.rewrites.set_expr(at, format!("{}.{}", quoted_name(&source.name), quoted_name(name)));
        }
    }

    /// Notes the columns that a star stands for.
    pub(crate) fn note_star(&mut self, scope: &Scope<'_>, star: &ast::Expr, columns: &[(Ident, scalar::Expr)]) {
        if self.notes.is_none() {
            return;
        }
        let source_columns = columns.iter().map(|(name, expr)| source_column(name.clone(), expr.clone()));
        let items: Vec<String> = source_columns.map(|column| self.qualified(scope, &column)).collect();
        if let Some(notes) = &mut self.notes {
            notes.rewrites.set_star(star, &items);
        }
    }

    /// Notes the fields that the star of a row stands for.
    pub(crate) fn note_fields(&mut self, star: &ast::Expr, row: &ast::Expr, fields: &[(Ident, scalar::Expr)]) {
        let Some(notes) = &mut self.notes else { return };
        let row = rewritten_expr(row, &notes.rewrites);
        let items: Vec<String> = fields.iter().map(|(name, _)| format!("({row}).{}", quoted_name(name))).collect();
        notes.rewrites.set_star(star, &items);
    }

    /// Notes the name of an item of a select list that has none in the text.
    pub(crate) fn note_target(&mut self, target: &ast::Target, name: &Ident) {
        let is_named =
            target.alias.is_some() || matches!(target.expr.kind, ast::ExprKind::Column(_) | ast::ExprKind::Path(_));
        if let Some(notes) = self.notes.as_mut().filter(|_| !is_named) {
            notes.rewrites.set_alias(target, name);
        }
    }

    /// Notes the columns of a NATURAL join.
    pub(crate) fn note_natural(&mut self, join: &ast::Join, common: &[Ident]) {
        if let Some(notes) = &mut self.notes {
            notes.rewrites.set_common_columns(join, common.to_vec());
        }
    }

    /// A name for the merged columns of a join, by which the text calls those that have no other.
    pub(crate) fn note_using(&mut self, join: &ast::Join) -> Option<Ident> {
        let notes = self.notes.as_mut()?;
        notes.using_count += 1;
        let alias = Ident::from(format!("{}_{}", notes.using_prefix, notes.using_count));
        notes.rewrites.set_using_alias(join, alias.clone());
        Some(alias)
    }

    /// Notes a constant that was read by settings of the session.
    pub(crate) fn note_constant(&mut self, value: &Value, ty: TypeId, at: Place) {
        let Some(notes) = &mut self.notes else { return };
        if ty == REGCLASS {
            let text = "a constant of type regclass in a view is not supported";
            let refusal = Error::unsupported(text).with_position(at.0).with_hint("look for the name in pg_class");
            notes.refusal.get_or_insert(refusal);
            return;
        }
        if !READ_BY_SETTINGS.contains(&ty) || at.0 == 0 {
            return;
        }
        let (arena, session) = (bumpalo::Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        let mut text = String::new();
        if scalar::output(&value.datum(), ty, &ctx, &mut text).is_ok() {
            notes.rewrites.set_expr(Pos(at.0), quoted_text(&text));
        }
    }

    /// Notes a constant with nanoseconds since 1970.
    pub(crate) fn note_nanoseconds(&mut self, nanos: i64, at: Place) {
        if let Some(notes) = &mut self.notes {
            notes.rewrites.set_expr(Pos(at.0), format!("to_timestamp_nanos({nanos})"));
        }
    }

    /// A column with its item of FROM, as text; without it where another item hides that name, or none has it.
    fn qualified(&mut self, scope: &Scope<'_>, column: &SourceColumn) -> String {
        let name = quoted_name(&column.name);
        let ExprKind::Column(number) = column.expr.kind else { return self.merged(scope, column) };
        let has = |source: &Source| {
            let is_it = |one: &&SourceColumn| one.name == column.name;
            let mut named = source.columns.iter().filter(is_it);
            let found = named.next().is_some_and(|one| matches!(one.expr.kind, ExprKind::Column(of) if of == number));
            found && named.next().is_none()
        };
        // Aliases that this statement gave to joins are for columns of no table.
        let is_given = |source: &Source| {
            self.notes.as_ref().is_some_and(|notes| source.name.as_str().starts_with(&notes.using_prefix))
        };
        for level in scope.levels() {
            let tables = level.tables.borrow();
            let is_named = |source: &&Source| source.by_table && !source.name.is_empty() && !is_given(source);
            let mut of = tables.iter().filter(|source| is_named(source) && has(source));
            if let Some(source) = of.next() {
                let is_seen = scope.source(None, &source.name, Pos(0)).ok().flatten().is_some_and(|seen| has(&seen));
                return if is_seen { format!("{}.{name}", quoted_name(&source.name)) } else { name };
            }
        }
        name
    }

    /// A column that joins merge and that is of no table: with the alias of a join where the name alone has several meanings.
    fn merged(&mut self, scope: &Scope<'_>, column: &SourceColumn) -> String {
        let name = quoted_name(&column.name);
        let is_named = |one: &&SourceColumn| one.name == column.name;
        let tables = scope.tables.borrow();
        let visible = tables.iter().filter(|source| source.by_column).flat_map(|source| &source.columns);
        if visible.filter(is_named).count() < 2 {
            return name;
        }
        let has = |source: &&Source| source.columns.iter().any(|one| is_named(&one) && one.expr == column.expr);
        let Some(join) = tables.iter().filter(|source| source.by_table && !source.name.is_empty()).find(has) else {
            return name;
        };
        if let Some(notes) = &mut self.notes {
            notes.rewrites.need_using_alias(&join.name);
        }
        format!("{}.{name}", quoted_name(&join.name))
    }
}

/// Leaves out a projection that only renames columns of joined tables: a view of this kind is its tables. Returns also the
/// columns of the result.
fn without_renames(rel: Rel, outputs: Vec<u32>) -> (Rel, Vec<u32>) {
    fn is_joined_rows(rel: &Rel) -> bool {
        match rel {
            Rel::Scan { .. } | Rel::Join { .. } | Rel::AsOfJoin { .. } => true,
            Rel::Filter { input, .. } => is_joined_rows(input),
            _ => false,
        }
    }
    let Rel::Project { columns, .. } = &rel else { return (rel, outputs) };
    let renamed = |output: &u32| {
        let (_, value) = columns.iter().find(|(column, _)| column == output)?;
        match value.kind {
            ExprKind::Column(of) => Some(of),
            _ => None,
        }
    };
    let below: Option<Vec<u32>> = outputs.iter().map(renamed).collect();
    match (below, rel) {
        (Some(below), Rel::Project { input, .. }) if is_joined_rows(&input) => (*input, below),
        (_, rel) => (rel, outputs),
    }
}

const REGCLASS: TypeId = TypeId(2205);

/// Types whose constants depend on TimeZone, DateStyle or the clock.
const READ_BY_SETTINGS: [TypeId; 6] =
    [TypeId::DATE, TypeId::TIME, TypeId::TIMETZ, TypeId::TIMESTAMP, TypeId::TIMESTAMPTZ, TypeId::INTERVAL];

/// Checks that the query has the types that the view was created with.
fn check_types(view: &Table, outputs: &[&Output]) -> Result<()> {
    let is_same = outputs.len() == view.columns.len()
        && outputs.iter().zip(&view.columns).all(|(output, column)| output.ty == column.ty);
    if is_same {
        return Ok(());
    }
    let text = format!("the query of view {}.{} has other columns than when it was created", view.schema, view.name);
    Err(Error::unsupported(text).with_hint("drop the view and create it again"))
}
