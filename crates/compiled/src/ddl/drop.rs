//! DROP TABLE, DROP INDEX, DROP SEQUENCE, DROP VIEW and their dependencies.

use std::collections::BTreeMap;

use model::{
    Error, Result, RowIndex, RowSchema, RowSchemaRef, SequenceOwner, SequenceSpec, SqlState, TableId, TableName,
    ViewRef,
};
use parser::ast;

use super::draft::Draft;
use super::{Catalog, Change, Definition, Notice, expressions, is_taken, names};
use crate::statement::Session;

/// PostgreSQL's term for several objects in dependency messages.
const SEVERAL: &str = "desired object(s)";

/// Error 2BP01. `dependents`: pairs of a dependent object and the object it depends on.
pub(super) fn depended<'d>(what: &str, dependents: impl Iterator<Item = (&'d str, &'d str)>) -> Error {
    let lines = dependents.map(|(dependent, needed)| format!("{dependent} depends on {needed}"));
    let detail = lines.collect::<Vec<_>>().join("\n");
    let it = if what == SEVERAL { "them" } else { "it" };
    let text = format!("cannot drop {what} because other objects depend on {it}");
    Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
        .with_detail(detail)
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// NOTICE text for the objects that CASCADE also drops; `dependents` is not empty.
pub(super) fn cascades(dependents: &[String]) -> Notice {
    if let [only] = dependents {
        return Notice::new(format!("drop cascades to {only}"));
    }
    let lines: Vec<String> = dependents.iter().map(|one| format!("drop cascades to {one}")).collect();
    let message = format!("drop cascades to {} other objects", dependents.len());
    Notice { message, detail: Some(lines.join("\n")) }
}

/// Objects of other tables that depend on a dropped object.
struct DependentObjects<'c> {
    catalog: &'c dyn Catalog,
    /// The other tables, without the dependent objects.
    others: BTreeMap<TableId, RowSchema>,
    /// Pairs of a dependent object and the object it depends on.
    dependents: Vec<(String, String)>,
    /// The dependent views.
    views: Vec<ViewRef>,
}

impl DependentObjects<'_> {
    fn new(catalog: &dyn Catalog) -> DependentObjects<'_> {
        DependentObjects { catalog, others: BTreeMap::new(), dependents: Vec::new(), views: Vec::new() }
    }

    fn other(&mut self, table: &RowSchema) -> &mut RowSchema {
        let changed = || RowSchema { version: table.version + 1, ..table.clone() };
        self.others.entry(table.id).or_insert_with(changed)
    }

    /// Collects foreign keys that reference dropped tables.
    fn keys(&mut self, gone: &[RowSchemaRef]) {
        let is_gone = |id: TableId| gone.iter().any(|table| table.id == id);
        for table in self.catalog.tables().iter().filter(|table| !is_gone(table.id)) {
            let shown = names::display_name(&table.name, self.catalog);
            for key in &table.foreign_keys {
                let Some(parent) = gone.iter().find(|parent| parent.id == key.table) else { continue };
                let needed = format!("table {}", names::display_name(&parent.name, self.catalog));
                self.dependents.push((format!("constraint {} on table {shown}", key.name), needed));
                self.other(table).foreign_keys.retain(|other| other.name != key.name);
            }
        }
    }

    /// Adds the children of dropped tables: partitions are dropped silently, other children are dependent objects. Parents
    /// that are not dropped lose their child.
    fn children(&mut self, gone: &mut Vec<RowSchemaRef>) {
        let mut at = 0;
        while let Some(table) = gone.get(at).cloned() {
            at += 1;
            for id in &table.lineage.children {
                if gone.iter().any(|other| other.id == *id) {
                    continue;
                }
                let Some(child) = self.catalog.by_id(*id) else { continue };
                if child.lineage.bound.is_none() {
                    let shown = |table: &RowSchema| format!("table {}", names::display_name(&table.name, self.catalog));
                    self.dependents.push((shown(&child), shown(&table)));
                }
                gone.push(child);
            }
        }
        for table in gone.iter() {
            for id in &table.lineage.parents {
                if gone.iter().any(|other| other.id == *id) {
                    continue;
                }
                let Some(parent) = self.catalog.by_id(*id) else { continue };
                self.other(&parent).lineage.children.retain(|child| *child != table.id);
            }
        }
    }

    /// Collects views that read dropped tables.
    fn views(&mut self, gone: &[RowSchemaRef]) {
        let ids: Vec<u32> = gone.iter().map(|table| table.id.0).collect();
        self.views = self.catalog.dependent_views(&ids);
        self.dependents.extend(dependent_views(&self.views, self.catalog, &|view| {
            let table = gone.iter().find(|table| view.reference(table.id.0).is_some())?;
            Some(format!("table {}", names::display_name(&table.name, self.catalog)))
        }));
    }

    /// Collects defaults that use a sequence, except in the tables `but`.
    fn defaults(&mut self, sequence: &SequenceSpec, but: &[TableId]) -> Result<()> {
        let (catalog, name) = (self.catalog, &sequence.name);
        let needed = format!("sequence {}", names::display_name(name, catalog));
        for table in catalog.tables().iter().filter(|table| !but.contains(&table.id)) {
            let shown = names::display_name(&table.name, catalog);
            for (at, column) in table.shown() {
                let Some(default) = &column.default else { continue };
                if expressions::renamed_sequence(default, &table.name, [name, name], catalog)?.is_some() {
                    let what = format!("default value for column {} of table {shown}", column.name);
                    self.dependents.push((what, needed.clone()));
                    self.other(table).columns[at].default = None;
                }
            }
        }
        Ok(())
    }

    /// Adds the dropped dependents to the definition, with the views that the statement names; without CASCADE error 2BP01.
    fn apply(self, what: &str, cascade: bool, named: Vec<ViewRef>, definition: &mut Definition) -> Result<()> {
        if !cascade && !self.dependents.is_empty() {
            return Err(depended(what, self.dependents.iter().map(|(one, needed)| (one.as_str(), needed.as_str()))));
        }
        let dependents: Vec<String> = self.dependents.into_iter().map(|(one, _)| one).collect();
        if !dependents.is_empty() {
            definition.notices.push(cascades(&dependents));
        }
        definition.changes.extend(dropped_views([self.views, named].concat()));
        definition.changes.extend(self.others.into_values().map(|next| Change::Alter { next, work: Vec::new() }));
        Ok(())
    }
}

/// Pairs of a view and what it depends on: what `first` says of it, or another of the views.
pub(super) fn dependent_views(
    views: &[ViewRef],
    catalog: &dyn Catalog,
    first: &dyn Fn(&ViewRef) -> Option<String>,
) -> Vec<(String, String)> {
    let shown = |view: &ViewRef| {
        let kind = if view.materialized.is_some() { "materialized view" } else { "view" };
        format!("{kind} {}", names::display_name(&view.name, catalog))
    };
    let needed = |view: &ViewRef| {
        let other = || views.iter().find(|other| view.reference(other.id).is_some()).map(shown);
        first(view).or_else(other).unwrap_or_default()
    };
    views.iter().map(|view| (shown(view), needed(view))).collect()
}

/// Drops views, each before those that it reads, with the tables of materialized ones.
pub(super) fn dropped_views(mut views: Vec<ViewRef>) -> Vec<Change> {
    let mut changes = Vec::with_capacity(views.len());
    while let Some(last) = views.iter().rposition(|view| views.iter().all(|other| other.reference(view.id).is_none())) {
        let view = views.swap_remove(last);
        changes.push(Change::DropView(view.id));
        changes.extend(view.materialized.map(|_| Change::Drop(TableId(view.id))));
    }
    changes
}

/// The dropped objects, for messages.
fn called(kind: &str, names: &[&TableName], catalog: &dyn Catalog) -> String {
    match names {
        [only] => format!("{kind} {}", names::display_name(only, catalog)),
        _ => SEVERAL.to_owned(),
    }
}

/// The names in a DROP of relations.
fn written(drop: &ast::Drop) -> impl Iterator<Item = &ast::Name> {
    drop.objects.iter().filter_map(|object| match object {
        ast::ObjectName::Name(name) => Some(name),
        _ => None,
    })
}

fn is_cascade(drop: &ast::Drop) -> bool {
    drop.behavior == ast::DropBehavior::Cascade
}

/// Plans a DROP TABLE or DROP MATERIALIZED VIEW; `None` if a table belongs to the other store.
pub(super) fn tables(drop: &ast::Drop, catalog: &dyn Catalog) -> Result<Option<Definition>> {
    let is_view = drop.kind == ast::ObjectKind::MaterializedView;
    let (tag, kind) = match is_view {
        true => ("DROP MATERIALIZED VIEW", "materialized view"),
        false => ("DROP TABLE", "table"),
    };
    let mut definition = Definition::new(tag);
    let mut gone: Vec<RowSchemaRef> = Vec::new();
    for written in written(drop) {
        let name = names::relation(written, catalog)?;
        match catalog.table(&name) {
            Some(table) if catalog.materialized_view(table.id).is_some() != is_view => {
                return Err(not_a(kind, &name, catalog));
            }
            Some(table) if gone.iter().any(|other| other.id == table.id) => {}
            Some(table) => gone.push(table),
            None if catalog.is_other(&name) && !is_view => return Ok(None),
            None if is_taken(catalog, &name) => return Err(not_a(kind, &name, catalog)),
            None => {
                let text = format!("{kind} \"{}\" does not exist", name.table);
                missing(SqlState::UNDEFINED_TABLE, text, drop.if_exists, &mut definition)?;
            }
        }
    }
    let named: Vec<TableName> = gone.iter().map(|table| table.name.clone()).collect();
    let mut dependents = DependentObjects::new(catalog);
    dependents.children(&mut gone);
    let ids: Vec<TableId> = gone.iter().map(|table| table.id).collect();
    let owned = |owner: SequenceOwner| ids.contains(&owner.table);
    let sequences = catalog.sequences().into_iter().filter(|sequence| sequence.owner.is_some_and(owned));
    let sequences: Vec<_> = sequences.collect();
    dependents.views(&gone);
    dependents.keys(&gone);
    sequences.iter().try_for_each(|sequence| dependents.defaults(sequence, &ids))?;
    let names: Vec<&TableName> = named.iter().collect();
    let own: Vec<ViewRef> = ids.iter().filter_map(|id| catalog.materialized_view(*id)).collect();
    dependents.apply(&called(kind, &names, catalog), is_cascade(drop), own, &mut definition)?;
    let ids = ids.into_iter().filter(|_| !is_view).collect::<Vec<_>>();
    definition.changes.extend(ids.iter().map(|id| Change::Drop(*id)));
    definition.changes.extend(sequences.iter().map(|sequence| Change::DropSequence(sequence.id)));
    Ok(Some(definition))
}

/// Plans a DROP INDEX; `None` if an index belongs to the other store.
pub(super) fn indexes(drop: &ast::Drop, catalog: &dyn Catalog, session: Session<'_>) -> Result<Option<Definition>> {
    let mut definition = Definition::new("DROP INDEX");
    let mut drafts: BTreeMap<TableId, Draft<'_>> = BTreeMap::new();
    let cascade = is_cascade(drop);
    if cascade && drop.objects.len() > 1 {
        let error = Error::unsupported("DROP INDEX of several indexes with CASCADE is not supported on rows tables");
        return Err(error.with_hint("drop them one by one"));
    }
    for written in written(drop) {
        let name = names::relation(written, catalog)?;
        let Some(table) = catalog.index(&name) else {
            if catalog.is_other(&name) {
                return Ok(None);
            }
            if is_taken(catalog, &name) {
                return Err(not_a("index", &name, catalog));
            }
            let text = format!("index \"{}\" does not exist", name.table);
            missing(SqlState::UNDEFINED_OBJECT, text, drop.if_exists, &mut definition)?;
            continue;
        };
        let draft = drafts.entry(table.id).or_insert_with(|| Draft::of(&table, catalog, session));
        drop_index(draft, &name, cascade, catalog)?;
    }
    for draft in drafts.into_values() {
        let following = super::inheritance::Following { cascade, ..Default::default() };
        let done = super::inheritance::finish(draft, "DROP INDEX", &following)?;
        definition.changes.extend(done.changes);
        definition.notices.extend(done.notices);
    }
    Ok(Some(definition))
}

/// The index of the partitioned table that an index of its partition belongs to.
pub(super) fn parent_index(draft: &Draft<'_>, index: u32) -> Option<RowIndex> {
    let of = draft.next.lineage.index(index)?;
    let parent = draft.next.lineage.parents.first().and_then(|id| draft.catalog.by_id(*id))?;
    super::indexes(&parent).find(|index| index.id == of).cloned()
}

/// Error 2BP01 for an index, described by `what`, that belongs to an index of the partitioned table.
pub(super) fn required_by(what: &str, of: &RowIndex) -> Error {
    let of = format!("index {}", names::quoted(&of.name));
    let text = format!("cannot drop {what} because {of} requires it");
    Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text).with_hint(format!("You can drop {of} instead."))
}

fn drop_index(draft: &mut Draft<'_>, name: &TableName, cascade: bool, catalog: &dyn Catalog) -> Result<()> {
    let index = super::indexes(&draft.next).find(|index| index.name == name.table).cloned();
    // The statement named it twice.
    let Some(index) = index else { return Ok(()) };
    let what = format!("index {}", names::display_name(name, catalog));
    if index.constraint {
        let constraint =
            format!("constraint {} on table {}", index.name, names::display_name(&draft.next.name, catalog));
        let text = format!("cannot drop {what} because {constraint} requires it");
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_hint(format!("You can drop {constraint} instead.")));
    }
    if let Some(of) = parent_index(draft, index.id) {
        return Err(required_by(&what, &of));
    }
    draft.drop_key(&index, &what, cascade)
}

/// Plans a DROP SEQUENCE.
pub(super) fn sequences(drop: &ast::Drop, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new("DROP SEQUENCE");
    let mut gone = Vec::new();
    for written in written(drop) {
        let name = names::relation(written, catalog)?;
        match catalog.sequence(&name) {
            Some(sequence) => gone.push(sequence),
            None if is_taken(catalog, &name) => return Err(not_a("sequence", &name, catalog)),
            None => {
                let text = format!("sequence \"{}\" does not exist", name.table);
                missing(SqlState::UNDEFINED_TABLE, text, drop.if_exists, &mut definition)?;
            }
        }
    }
    let mut dependents = DependentObjects::new(catalog);
    for sequence in &gone {
        refuse_identity(sequence, catalog)?;
        dependents.defaults(sequence, &[])?;
    }
    let names: Vec<&TableName> = gone.iter().map(|sequence| &sequence.name).collect();
    dependents.apply(&called("sequence", &names, catalog), is_cascade(drop), Vec::new(), &mut definition)?;
    definition.changes.extend(gone.iter().map(|sequence| Change::DropSequence(sequence.id)));
    Ok(definition)
}

/// Plans a DROP VIEW.
pub(super) fn views(drop: &ast::Drop, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new("DROP VIEW");
    let mut gone: Vec<ViewRef> = Vec::new();
    for written in written(drop) {
        let name = names::relation(written, catalog)?;
        match catalog.view(&name) {
            Some(view) if gone.iter().any(|other| other.id == view.id) => {}
            Some(view) => gone.push(view),
            None if is_taken(catalog, &name) => return Err(not_a("view", &name, catalog)),
            None => {
                let text = format!("view \"{}\" does not exist", names::as_written(&name, written));
                missing(SqlState::UNDEFINED_TABLE, text, drop.if_exists, &mut definition)?;
            }
        }
    }
    let ids: Vec<u32> = gone.iter().map(|view| view.id).collect();
    let mut dependents = DependentObjects::new(catalog);
    dependents.views = catalog.dependent_views(&ids);
    dependents.dependents = dependent_views(&dependents.views, catalog, &|view| {
        let of = gone.iter().find(|of| view.reference(of.id).is_some())?;
        Some(format!("view {}", names::display_name(&of.name, catalog)))
    });
    let names: Vec<&TableName> = gone.iter().map(|view| &view.name).collect();
    let text = called("view", &names, catalog);
    dependents.apply(&text, is_cascade(drop), gone, &mut definition)?;
    Ok(definition)
}

/// The sequence of an identity column can only be dropped with the column.
fn refuse_identity(sequence: &SequenceSpec, catalog: &dyn Catalog) -> Result<()> {
    let Some(owner) = sequence.owner else { return Ok(()) };
    let Some(table) = catalog.by_id(owner.table) else { return Ok(()) };
    let column = &table.columns[owner.column];
    if column.identity.is_none() {
        return Ok(());
    }
    let column = format!("column {} of table {}", column.name, names::display_name(&table.name, catalog));
    let text =
        format!("cannot drop sequence {} because {column} requires it", names::display_name(&sequence.name, catalog));
    Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text).with_hint(format!("You can drop {column} instead.")))
}

/// Error 42809 with a hint to the right DROP statement.
fn not_a(kind: &str, name: &TableName, catalog: &dyn Catalog) -> Error {
    let article = if kind == "index" { "an" } else { "a" };
    let table = catalog.table(name);
    let instead = if table.as_ref().is_some_and(|table| catalog.materialized_view(table.id).is_some()) {
        "MATERIALIZED VIEW to remove a materialized view"
    } else if table.is_some() || catalog.is_other(name) {
        "TABLE to remove a table"
    } else if catalog.index(name).is_some() {
        "INDEX to remove an index"
    } else if catalog.view(name).is_some() {
        "VIEW to remove a view"
    } else {
        "SEQUENCE to remove a sequence"
    };
    let text = format!("\"{}\" is not {article} {kind}", name.table);
    Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_hint(format!("Use DROP {instead}."))
}

/// The object does not exist: an error or, with IF EXISTS, a notice.
fn missing(state: SqlState, text: String, if_exists: bool, definition: &mut Definition) -> Result<()> {
    if !if_exists {
        return Err(Error::new(state, text));
    }
    definition.notices.push(Notice::new(format!("{text}, skipping")));
    Ok(())
}
