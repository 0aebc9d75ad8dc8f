//! Tables and columns by the names in statements.

use std::ops::ControlFlow;
use std::sync::Arc;

use compiled::Tables;
use engine::Snapshot;
use model::{Error, Result, SequenceRef, SqlState, Table, TableId, TableName, TableRef, ViewRef};
use parser::ast as tree;
use pg_catalog::oids::{Part, table_of};
use rows::RowTable;

use crate::errors::nearest;
use crate::session::Session;
use crate::session::context::{DATABASE, StatementContext};
use crate::settings::Settings;

/// Resolves the name of a `columns` table in the statement's snapshot.
///
/// # Errors
/// 42P01 if it does not exist; 42809 for a view; 42501 for a system catalog; 0A000 for another database.
pub(crate) fn find_table(context: &StatementContext, name: &tree::Name) -> Result<TableRef> {
    let parts: Vec<String> = name.parts().map(ToString::to_string).collect();
    if parts.len() == 3 && parts[0] != DATABASE {
        return Err(Error::unsupported(format!(
            "cross-database references are not implemented: \"{}\"",
            parts.join(".")
        )));
    }
    let found = match parts.as_slice() {
        [table] => context.resolve(table),
        [schema, table] | [_, schema, table] => {
            Some(TableName { schema: context.settings.schema(schema).to_owned(), table: table.clone() })
        }
        _ => None,
    };
    if let Some(table) = found.as_ref().and_then(|name| context.reads.snapshot.catalog().table(name)) {
        return Ok(Arc::clone(table));
    }
    let shown = parts.join(".");
    if found.as_ref().is_some_and(|name| context.reads.snapshot.catalog().view(name).is_some()) {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a table")));
    }
    if matches!(parts.as_slice(), [schema, _] if schema == "pg_catalog" || schema == "information_schema") {
        return Err(Error::new(SqlState("42501"), format!("permission denied: \"{shown}\" is a system catalog")));
    }
    let error = Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"));
    Err(match parts.last().and_then(|last| context.nearest_table(last)) {
        Some(near) => error.with_hint(format!("perhaps you meant the table \"{near}\"")),
        None => error,
    })
}

/// The view that a name refers to.
pub(crate) fn find_view(context: &StatementContext, name: &tree::Name) -> Option<ViewRef> {
    Named { snapshot: &context.reads.snapshot, settings: &context.settings }.view(name)
}

/// The position of a column; 42703 with the most similar name as a hint.
pub(crate) fn column_at(table: &Table, name: &str) -> Result<usize> {
    table.columns.iter().position(|column| column.name == name).ok_or_else(|| {
        let error = Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" of relation {} does not exist", table.name.table),
        );
        match nearest(name, table.columns.iter().map(|column| column.name.as_str())) {
            Some(near) => error.with_hint(format!("perhaps you meant the column \"{near}\"")),
            None => error,
        }
    })
}

/// Whether rows that give a column no value may get another one than NULL.
pub(crate) fn may_default(table: &Table, column: &model::Column) -> bool {
    table.default(column).is_some() || table.domain(column).is_some()
}

/// The `rows` table that a name refers to.
pub(crate) fn table(session: &mut Session, name: &tree::Name) -> Option<Arc<RowTable>> {
    let context = session.context();
    Named { snapshot: &context.reads.snapshot, settings: &context.settings }.find(name)
}

/// Refuses to write rows into a materialized view.
///
/// # Errors
/// 42809.
pub(crate) fn refuse_materialized(session: &mut Session, table: &RowTable) -> Result<()> {
    match session.newest().catalog().materialized_view(table.id()) {
        None => Ok(()),
        Some(view) => {
            let text = format!("cannot change materialized view \"{}\"", view.name.table);
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text))
        }
    }
}

/// Whether a query reads a `rows` table, maybe through views, changes tables in WITH, or calls sequence functions.
///
/// The lookup does not use the newest commit: under REPEATABLE READ it would bind a transaction on `columns`
/// tables to it.
pub(crate) fn names_any(session: &mut Session, query: &tree::Query) -> bool {
    let context = session.context();
    Named { snapshot: &context.reads.snapshot, settings: &context.settings }.any_of(query)
}

/// The `rows` tables of a snapshot, by names resolved with the session's settings.
pub(crate) struct Named<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) settings: &'a Settings,
}

/// The kind of relation that an INSERT, UPDATE or DELETE of a name changes.
pub(crate) enum Changed {
    /// A `rows` table, maybe through views.
    Rows(Arc<RowTable>),
    /// A `columns` table, through a view.
    ViewOfColumns,
    /// None: the name is that of a view which cannot be changed.
    View,
    /// Another relation, or none.
    Other,
}

impl Named<'_> {
    /// The `rows` table that a name refers to.
    pub(crate) fn find(&self, name: &tree::Name) -> Option<Arc<RowTable>> {
        match &*name.qualifier {
            [] => self.unqualified(&name.name),
            [schema] => self.table(Some(schema), &name.name),
            [database, schema] if database == DATABASE => self.table(Some(schema), &name.name),
            _ => None,
        }
    }

    /// The view that a name refers to.
    pub(crate) fn view(&self, name: &tree::Name) -> Option<ViewRef> {
        let catalog = self.snapshot.catalog();
        let schemas = match &*name.qualifier {
            [] => self.settings.search_path(),
            [schema] => vec![self.settings.schema(schema).to_owned()],
            [database, schema] if database == DATABASE => vec![self.settings.schema(schema).to_owned()],
            _ => return None,
        };
        let mut names = schemas.into_iter().map(|schema| TableName { schema, table: name.name.to_string() });
        names.find(|name| catalog.has_relation(name)).and_then(|name| catalog.view(&name).cloned())
    }

    /// The table that changes of a name change: a view is changed by changing the table that it selects from.
    pub(crate) fn changed(&self, name: &tree::Name) -> Changed {
        if let Some(table) = self.find(name) {
            return Changed::Rows(table);
        }
        let catalog = self.snapshot.catalog();
        let Some(view) = self.view(name) else { return Changed::Other };
        let mut below = Some(&view);
        while let Some(view) = below {
            // Its error comes from the binder.
            let Some(base) = &view.base else { return Changed::View };
            let id = TableId(base.object);
            if let Some(table) = self.by_id(id) {
                return Changed::Rows(table);
            }
            if catalog.table_by_id(id).is_some() {
                return Changed::ViewOfColumns;
            }
            below = catalog.view_by_id(base.object);
        }
        Changed::View
    }

    /// Whether a view reads a `rows` table, or this one, directly or through other views.
    fn reads_rows(&self, view: &ViewRef, only: Option<TableId>) -> bool {
        let catalog = self.snapshot.catalog();
        let (mut views, mut at) = (vec![Arc::clone(view)], 0);
        while let Some(view) = views.get(at).cloned() {
            for reference in &view.references {
                let id = TableId(reference.object);
                // Rows of a table with parents or children are those of other tables too.
                let is_it =
                    |table: &model::RowSchemaRef| only.is_none_or(|only| only == id || !table.lineage.is_plain());
                if catalog.row_table_by_id(id).is_some_and(is_it) {
                    return true;
                }
                let below = catalog.view_by_id(reference.object);
                views.extend(below.filter(|below| views.iter().all(|known| known.id != below.id)).cloned());
            }
            at += 1;
        }
        false
    }

    fn unqualified(&self, table: &str) -> Option<Arc<RowTable>> {
        let catalog = self.snapshot.catalog();
        let names = self.settings.search_path().into_iter();
        let mut names = names.map(|schema| TableName { schema, table: table.to_owned() });
        names.find(|name| catalog.has_relation(name)).and_then(|name| self.exactly(&name))
    }

    fn exactly(&self, name: &TableName) -> Option<Arc<RowTable>> {
        self.snapshot.row_table(name).ok().cloned()
    }

    /// Whether a query reads a `rows` table, or asks for a sequence.
    fn any_of(&self, query: &tree::Query) -> bool {
        use tree::Visitor;
        Relations { named: self, only: None }.visit_query(query).is_break()
    }

    /// Whether a query reads this table, or asks for a sequence.
    pub(crate) fn names_in(&self, query: &tree::Query, table: TableId) -> bool {
        use tree::Visitor;
        Relations { named: self, only: Some(table) }.visit_query(query).is_break()
    }
}

/// Breaks at a `rows` table, or at one of them, and at a function of sequences.
struct Relations<'a> {
    named: &'a Named<'a>,
    only: Option<TableId>,
}

impl tree::Visitor for Relations<'_> {
    type Break = ();

    fn enter_query(&mut self, query: &tree::Query) -> ControlFlow<()> {
        // The tables of changes in WITH are no items of FROM.
        let mut ctes = query.with.iter().flat_map(|with| &with.ctes);
        if ctes.any(|cte| !matches!(cte.body, tree::CteBody::Query(_))) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn enter_table_expr(&mut self, table: &tree::TableExpr) -> ControlFlow<()> {
        let tree::TableExpr::Relation(relation) = table else { return ControlFlow::Continue(()) };
        let reads = match self.named.find(&relation.name) {
            Some(table) => self.only.is_none_or(|only| table.id() == only || !table.schema.lineage.is_plain()),
            None => self.named.view(&relation.name).is_some_and(|view| self.named.reads_rows(&view, self.only)),
        };
        if reads { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn enter_expr(&mut self, expr: &tree::Expr) -> ControlFlow<()> {
        match &expr.kind {
            tree::ExprKind::Function(call) if compiled::is_of_sequence(&call.name.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Tables for Named<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        match schema {
            None => self.unqualified(name),
            Some(schema) => {
                let schema = self.settings.schema(schema).to_owned();
                self.exactly(&TableName { schema, table: name.to_owned() })
            }
        }
    }

    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef> {
        let catalog = self.snapshot.catalog();
        let within = |schema| vec![self.settings.schema(schema).to_owned()];
        let schemas = schema.map_or_else(|| self.settings.search_path(), within);
        let mut names = schemas.into_iter().map(|schema| TableName { schema, table: name.to_owned() });
        names.find(|name| catalog.has_relation(name)).and_then(|name| catalog.sequence(&name).cloned())
    }

    fn sequence_of_oid(&self, oid: u32) -> Option<SequenceRef> {
        let (TableId(id), Part::Table) = table_of(oid)? else { return None };
        let sequence = self.snapshot.catalog().sequence_by_id(id)?;
        let is_own = || self.settings.temporary().is_some_and(|schema| **schema == *sequence.name.schema);
        (!sequence.name.is_temporary() || is_own()).then(|| Arc::clone(sequence))
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.snapshot.row_table_by_id(id).ok().cloned()
    }

    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>> {
        let refers = |schema: &&model::RowSchemaRef| schema.foreign_keys.iter().any(|key| key.table == id);
        self.snapshot.catalog().row_tables().filter(refers).filter_map(|schema| self.by_id(schema.id)).collect()
    }
}
