//! Inheritance: columns and constraints that a table takes from its parents, and changes of a table that its children follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Error, InheritedCheck, InheritedColumn, Result, RowCheck, RowColumn, RowForeignKey, RowIndex, RowSchema,
    RowSchemaRef, SqlState, TableId, TableName,
};
use parser::ast::{self, Expr, Name};

use super::draft::Draft;
use super::table_constraints::has_same_columns;
use super::table_work::Field;
use super::{Catalog, Change, Definition, Notice, indexes, is_taken, names};
use crate::stored_expressions;

/// Maximum number of tables that follow a change.
const FOLLOWERS_MAX: usize = 10_000;

/// The parents that INHERITS names.
///
/// # Errors
/// 42P01, 42809, 42P07.
pub(super) fn parents(written: &[Name], catalog: &dyn Catalog) -> Result<Vec<RowSchemaRef>> {
    let mut parents: Vec<RowSchemaRef> = Vec::with_capacity(written.len());
    for name in written {
        let table = parent(name, catalog)?;
        let shown = &table.name.table;
        let wrong = |text: String| Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        if table.lineage.key.is_some() {
            return wrong(format!("cannot inherit from partitioned table \"{shown}\""));
        }
        if table.lineage.bound.is_some() {
            return wrong(format!("cannot inherit from partition \"{shown}\""));
        }
        if parents.iter().any(|other| other.id == table.id) {
            let text = format!("relation \"{shown}\" would be inherited from more than once");
            return Err(Error::new(SqlState::DUPLICATE_TABLE, text));
        }
        parents.push(table);
    }
    Ok(parents)
}

/// Checks that a table and its parent are both temporary, or both not. `partition`: the verb of messages about a partition;
/// `None` for other children.
///
/// # Errors
/// 42809; 0A000 for a temporary table with a parent that the log has.
pub(super) fn check_lifetimes(child: &TableName, parent: &TableName, partition: Option<&str>) -> Result<()> {
    let is_temporary = parent.is_temporary();
    if child.is_temporary() == is_temporary {
        return Ok(());
    }
    let kind = |is_temporary: bool| if is_temporary { "temporary" } else { "permanent" };
    let (own, of, parent) = (kind(!is_temporary), kind(is_temporary), &parent.table);
    let text = match partition {
        Some(verb) => format!("cannot {verb} a {own} relation as partition of {of} relation \"{parent}\""),
        None if is_temporary => format!("cannot inherit from temporary relation \"{parent}\""),
        None => {
            let text =
                format!("a temporary table that inherits from the permanent table \"{parent}\" is not supported");
            return Err(Error::unsupported(text).with_hint("copy its columns: CREATE TEMP TABLE … (LIKE …)"));
        }
    };
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text))
}

/// The `rows` table of a name.
pub(super) fn parent(written: &Name, catalog: &dyn Catalog) -> Result<RowSchemaRef> {
    let name = names::relation(written, catalog)?;
    if let Some(table) = catalog.table(&name).filter(|table| catalog.materialized_view(table.id).is_none()) {
        return Ok(table);
    }
    if catalog.is_other(&name) {
        return Err(super::partition::not_for_columns(&name.table));
    }
    if is_taken(catalog, &name) {
        let text = format!("inherited relation \"{}\" is not a table or foreign table", name.table);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    }
    Err(super::no_relation(&name, written))
}

impl Draft<'_> {
    /// Takes the columns and CHECK constraints of the parents of a new table, before its own ones.
    pub(super) fn inherit(&mut self, parents: &[RowSchemaRef]) -> Result<()> {
        let mut conflicting: Vec<String> = Vec::new();
        for parent in parents {
            for (_, column) in parent.shown() {
                match self.next.column(&column.name) {
                    Some(at) => {
                        let name = &column.name;
                        let text = format!("merging multiple inherited definitions of column \"{name}\"");
                        self.notices.push(Notice::new(text));
                        let own = &mut self.next.columns[at];
                        if own.declared() != column.declared() {
                            let text = format!("inherited column \"{name}\" has a type conflict");
                            return Err(type_conflict(text, own.ty, column.ty));
                        }
                        own.not_null |= column.not_null;
                        if own.generated != column.generated {
                            let text = format!("inherited column \"{name}\" has a generation conflict");
                            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
                        }
                        let default = inherited_default(parent, column, &self.next.name, self.catalog)?;
                        match (&own.default, default) {
                            (None, default @ Some(_)) => own.default = default,
                            (Some(one), Some(other)) if *one != other => conflicting.push(name.clone()),
                            _ => {}
                        }
                        let entry = self.next.lineage.columns.iter_mut().find(|entry| entry.position == at);
                        entry.into_iter().for_each(|entry| entry.parents += 1);
                    }
                    None => {
                        let position = self.next.columns.len();
                        let mut own = column.clone();
                        // Rows of the new table have all columns.
                        own.missing = None;
                        own.default = inherited_default(parent, column, &self.next.name, self.catalog)?;
                        if own.identity.take().is_some() {
                            own.default = None;
                        }
                        self.next.columns.push(own);
                        self.next.lineage.columns.push(InheritedColumn { position, parents: 1, local: false });
                    }
                }
            }
            for check in heritable(parent) {
                self.inherit_check(check)?;
            }
            self.next.lineage.parents.push(parent.id);
        }
        self.conflicting_defaults = conflicting;
        Ok(())
    }

    /// Error 42611 for columns whose parents have several defaults, if the table declares none.
    pub(super) fn check_defaults(&self) -> Result<()> {
        match self.conflicting_defaults.first() {
            None => Ok(()),
            Some(column) => {
                let text = format!("column \"{column}\" inherits conflicting default values");
                Err(Error::new(SqlState("42611"), text)
                    .with_hint("To resolve the conflict, specify a default explicitly."))
            }
        }
    }

    /// Adds a CHECK constraint of a parent, or counts it if the table has it.
    pub(super) fn inherit_check(&mut self, check: &RowCheck) -> Result<()> {
        if let Some(own) = self.next.checks.iter().find(|own| own.name == check.name) {
            if !same_condition(own, check) {
                let text = match self.old {
                    None => format!(
                        "check constraint name \"{}\" appears multiple times but with different expressions",
                        check.name
                    ),
                    Some(_) => {
                        format!(
                            "constraint \"{}\" for relation \"{}\" already exists",
                            check.name, self.next.name.table
                        )
                    }
                };
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
            }
            let name = check.name.clone();
            match self.next.lineage.checks.iter_mut().find(|entry| entry.name == name) {
                Some(entry) if entry.no_inherit => {
                    let table = &self.next.name.table;
                    let text = format!(
                        "constraint \"{name}\" conflicts with non-inherited constraint on relation \"{table}\""
                    );
                    return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
                }
                Some(entry) => entry.parents += 1,
                None => {
                    let text = format!("merging constraint \"{name}\" with inherited definition");
                    self.notices.push(Notice::new(text));
                    // Merged constraints of a partition are never its own.
                    let is_local = self.next.lineage.bound.is_none();
                    self.next.lineage.checks.push(inherited_check(name, 1, is_local));
                }
            }
            return Ok(());
        }
        self.next.checks.push(check.clone());
        if !check.not_valid {
            self.checked.push(check.name.clone());
        }
        self.next.lineage.checks.push(inherited_check(check.name.clone(), 1, false));
        Ok(())
    }

    /// A CHECK constraint of a parent is gone, or the parent itself.
    fn disinherit_check(&mut self, name: &str, keeps: bool) {
        let Some(at) = self.next.lineage.checks.iter().position(|entry| entry.name == name) else { return };
        let entry = &mut self.next.lineage.checks[at];
        if entry.parents == 0 {
            return;
        }
        entry.parents -= 1;
        entry.local |= keeps;
        if entry.parents > 0 {
            return;
        }
        if !entry.local {
            self.next.checks.retain(|check| check.name != name);
        }
        self.next.lineage.checks.remove(at);
    }

    /// A column of a parent is gone, or the parent itself.
    fn disinherit_column(&mut self, name: &str, keeps: bool, cascade: bool) -> Result<()> {
        let Some(at) = self.next.column(name) else { return Ok(()) };
        let Some(entry) = self.next.lineage.columns.iter_mut().find(|entry| entry.position == at) else {
            return Ok(());
        };
        entry.parents = entry.parents.saturating_sub(1);
        entry.local |= keeps;
        if entry.parents > 0 {
            return Ok(());
        }
        let is_local = entry.local;
        self.next.lineage.columns.retain(|entry| entry.position != at);
        if is_local { Ok(()) } else { self.drop_column(at, cascade) }
    }

    /// Makes an existing table a child of another one, which must have its columns and constraints.
    ///
    /// # Errors
    /// 42804 for a column or constraint that is missing or another one.
    pub(super) fn add_parent(&mut self, parent: &RowSchema) -> Result<()> {
        let table = self.next.name.table.clone();
        let differs = |text: String| Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        for (_, column) in parent.shown() {
            let name = &column.name;
            let Some(at) = self.next.column(name) else {
                return differs(format!("child table is missing column \"{name}\""));
            };
            let own = &self.next.columns[at];
            if own.declared() != column.declared() {
                return differs(format!("child table \"{table}\" has different type for column \"{name}\""));
            }
            if column.not_null && !own.not_null {
                return differs(format!("column \"{name}\" in child table must be marked NOT NULL"));
            }
            if column.generated.is_some() && own.generated.is_none() {
                return differs(format!("column \"{name}\" in child table must be a generated column"));
            }
            if column.generated.is_some() && own.generated != column.generated {
                let text = format!("column \"{name}\" in child table has a conflicting generation expression");
                return differs(text);
            }
            self.count_column(at);
        }
        for check in heritable(parent) {
            let name = &check.name;
            let Some(own) = self.next.checks.iter().find(|own| own.name == *name) else {
                return differs(format!("child table is missing constraint \"{name}\""));
            };
            if !same_condition(own, check) {
                let text = format!("child table \"{table}\" has different definition for check constraint \"{name}\"");
                return differs(text);
            }
            if own.not_valid && !check.not_valid {
                let text =
                    format!("constraint \"{name}\" conflicts with NOT VALID constraint on child table \"{table}\"");
                return Err(Error::new(SqlState("42P17"), text));
            }
            match self.next.lineage.checks.iter_mut().find(|entry| entry.name == *name) {
                Some(entry) if entry.no_inherit => {
                    let text = format!(
                        "constraint \"{name}\" conflicts with non-inherited constraint on child table \"{table}\""
                    );
                    return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
                }
                Some(entry) => entry.parents += 1,
                None => self.next.lineage.checks.push(inherited_check(name.clone(), 1, true)),
            }
        }
        self.next.lineage.parents.push(parent.id);
        Ok(())
    }

    fn count_column(&mut self, at: usize) {
        match self.next.lineage.columns.iter_mut().find(|entry| entry.position == at) {
            Some(entry) => entry.parents += 1,
            None => self.next.lineage.columns.push(InheritedColumn { position: at, parents: 1, local: true }),
        }
    }

    /// Ends the inheritance from a table: what came from it is now the table's own.
    pub(super) fn remove_parent(&mut self, parent: &RowSchema) -> Result<()> {
        self.next.lineage.parents.retain(|id| *id != parent.id);
        for (_, column) in parent.shown() {
            self.disinherit_column(&column.name, true, false)?;
        }
        for check in heritable(parent) {
            self.disinherit_check(&check.name, true);
        }
        Ok(())
    }

    /// Adds the indexes of a partitioned table to its partition; an index of the same columns becomes one of them.
    pub(super) fn inherit_index(&mut self, parent: &RowSchema, index: &RowIndex, primary: bool) -> Result<()> {
        let mut wanted = RowIndex { id: 0, name: String::new(), ..index.clone() };
        for at in wanted.columns.iter_mut().chain(&mut wanted.include) {
            *at = self.own_column(parent, *at, false)?;
        }
        if let Some(at) = &mut wanted.predicate {
            *at = self.own_column(parent, *at, true)?;
        }
        let lineage = &self.next.lineage;
        let is_free = |own: &RowIndex| lineage.index(own.id).is_none();
        let is_it = |own: &RowIndex| {
            let same = RowIndex { id: 0, name: String::new(), constraint: wanted.constraint, ..own.clone() };
            same == wanted && (own.constraint || !index.constraint) && is_free(own)
        };
        // The oldest one, as in PostgreSQL. A primary key is a unique index too.
        let found = match primary {
            true => self.next.primary_key().filter(|own| is_it(own)),
            false => indexes(&self.next).filter(|own| is_it(own)).min_by_key(|own| own.id),
        };
        if let Some(own) = found {
            let entry = (own.id, index.id);
            self.next.lineage.indexes.push(entry);
            return Ok(());
        }
        let before: Vec<u32> = indexes(&self.next).map(|index| index.id).collect();
        self.add_inherited_index(wanted, primary)?;
        let new = indexes(&self.next).map(|index| index.id).find(|id| !before.contains(id));
        self.next.lineage.indexes.extend(new.map(|id| (id, index.id)));
        Ok(())
    }

    /// The column of this table for one of its parent; for a hidden one the hidden column of the same expression.
    fn own_column(&mut self, parent: &RowSchema, at: usize, is_predicate: bool) -> Result<usize> {
        let column = &parent.columns[at];
        match &column.generated {
            Some(sql) if column.is_hidden() => {
                self.hidden_column(&stored_expressions::parsed(sql)?, &column.name, is_predicate)
            }
            _ => self.column(&column.name),
        }
    }

    /// Adds a foreign key of a partitioned table to its partition.
    pub(super) fn inherit_foreign(&mut self, parent: &RowSchema, key: &RowForeignKey) -> Result<()> {
        let mut columns = Vec::with_capacity(key.columns.len());
        for at in &key.columns {
            columns.push(self.column(&parent.columns[*at].name)?);
        }
        let mut delete_columns = Vec::with_capacity(key.delete_columns.len());
        for at in &key.delete_columns {
            delete_columns.push(self.column(&parent.columns[*at].name)?);
        }
        // A new key is checked, whatever DISABLE TRIGGER left of the parent's. Actions are the parent's.
        let wanted = RowForeignKey { columns, delete_columns, check_disabled: false, ..key.clone() };
        let same = |own: &RowForeignKey| {
            let RowForeignKey { check_disabled, action_disabled, .. } = *own;
            *own == RowForeignKey { name: own.name.clone(), check_disabled, action_disabled, ..wanted.clone() }
        };
        let lineage = &self.next.lineage;
        let mut own = self.next.foreign_keys.iter_mut();
        if let Some(own) = own.find(|own| same(own) && !lineage.foreign_keys.contains(&own.name)) {
            own.action_disabled = key.action_disabled;
            let name = own.name.clone();
            self.next.lineage.foreign_keys.push(name);
            return Ok(());
        }
        let mut name = key.name.clone();
        if super::constraints(&self.next).any(|one| one == name) {
            let columns: Vec<String> = wanted.columns.iter().map(|at| self.next.columns[*at].name.clone()).collect();
            let columns = names::of_columns(&columns);
            name = names::generated(&self.next.name.table, Some(&columns), "fkey", &|name| self.is_constraint(name));
        }
        self.next.foreign_keys.push(RowForeignKey { name: name.clone(), ..wanted });
        self.checked.push(name.clone());
        self.next.lineage.foreign_keys.push(name);
        Ok(())
    }

    /// Name of the foreign key that the table has from this one of its parent, which has the same columns, by their names of
    /// then.
    fn own_foreign(&self, parent: &RowSchema, key: &RowForeignKey) -> Option<String> {
        let named = |table: &RowSchema, columns: &[usize]| -> Vec<String> {
            columns.iter().map(|at| table.columns[*at].name.clone()).collect()
        };
        let wanted = named(parent, &key.columns);
        let own = self.old.as_deref().unwrap_or(&self.next);
        let is_it = |other: &&RowForeignKey| {
            self.next.lineage.foreign_keys.contains(&other.name)
                && other.table == key.table
                && other.referred == key.referred
                && named(own, &other.columns) == wanted
        };
        let mut found = self.next.foreign_keys.iter().filter(is_it);
        let first = found.next()?;
        let same_name = std::iter::once(first).chain(found).find(|other| other.name == key.name);
        Some(same_name.unwrap_or(first).name.clone())
    }

    /// A CHECK constraint of a parent was validated.
    fn validate_check(&mut self, name: &str) {
        for check in self.next.checks.iter_mut().filter(|check| check.name == name && check.not_valid) {
            check.not_valid = false;
            self.checked.push(name.to_owned());
        }
    }

    /// Makes all that belonged to the parent the table's own.
    pub(super) fn release_partition(&mut self) {
        self.next.lineage.bound = None;
        self.next.lineage.indexes.clear();
        self.next.lineage.foreign_keys.clear();
    }
}

/// The default that a column has in a child: sequences get their schema if the child is in another one.
fn inherited_default(
    parent: &RowSchema,
    column: &RowColumn,
    child: &TableName,
    catalog: &dyn Catalog,
) -> Result<Option<String>> {
    let Some(default) = &column.default else { return Ok(None) };
    if parent.name.schema == child.schema {
        return Ok(Some(default.clone()));
    }
    Ok(Some(super::expressions::with_schemas(default, &parent.name, catalog)?.unwrap_or_else(|| default.clone())))
}

/// CHECK constraints that children inherit.
fn heritable(table: &RowSchema) -> impl Iterator<Item = &RowCheck> {
    let is_own = |name: &str| table.lineage.check(name).is_some_and(|entry| entry.no_inherit);
    table.checks.iter().filter(move |check| !is_own(&check.name))
}

pub(super) fn inherited_check(name: String, parents: u32, local: bool) -> InheritedCheck {
    InheritedCheck { name, parents, local, no_inherit: false }
}

fn same_condition(one: &RowCheck, other: &RowCheck) -> bool {
    one.condition == other.condition
        || match (stored_expressions::parsed(&one.condition), stored_expressions::parsed(&other.condition)) {
            (Ok(one), Ok(other)) => one.to_string() == other.to_string(),
            _ => false,
        }
}

/// Error 42804 with both types.
pub(super) fn type_conflict(text: String, one: model::Type, other: model::Type) -> Error {
    let detail = format!("{} versus {}", one.sql_name(), other.sql_name());
    Error::new(SqlState::DATATYPE_MISMATCH, text).with_detail(detail)
}

/// The way in which the children of a table follow its change.
#[derive(Default)]
pub(super) struct Following<'s> {
    /// ONLY: they do not, and changes that they must follow are errors.
    pub(super) only: bool,
    /// USING of changed types, by column.
    pub(super) using: BTreeMap<String, Option<&'s Expr>>,
    /// Columns whose default was set or dropped.
    pub(super) defaults: Vec<String>,
    /// Columns that SET or DROP NOT NULL names.
    pub(super) nulls: Vec<String>,
    /// CASCADE
    pub(super) cascade: bool,
    /// Old and new names of a constraint.
    pub(super) renamed: Option<[String; 2]>,
}

/// Completes a change of a table and of all that inherit from it.
///
/// # Errors
/// 42P16 for a change that children must follow and do not, because of ONLY.
pub(super) fn finish(draft: Draft<'_>, tag: &'static str, following: &Following<'_>) -> Result<Definition> {
    let Some(old) = draft.old.clone().filter(|old| !old.lineage.children.is_empty()) else {
        return draft.finish(tag);
    };
    if following.only {
        check_only(&old, &draft.next)?;
    }
    let (catalog, session) = (draft.catalog, draft.session);
    let order = descendants(&old, catalog)?;
    let mut drafts: BTreeMap<TableId, Draft<'_>> = BTreeMap::from([(old.id, draft)]);
    let mut changed = vec![old.id];
    for table in &order {
        let Some(of) = drafts.get(&table.id) else { continue };
        let is_root = table.id == old.id;
        let (before, after) = (Arc::clone(table), of.next.clone());
        if after == (RowSchema { version: after.version, ..RowSchema::clone(&before) }) {
            continue;
        }
        let filled: BTreeMap<usize, super::table_work::Field> = of.filled.clone();
        for id in &after.lineage.children {
            if !before.lineage.children.contains(id) {
                continue;
            }
            let Some(child) = catalog.by_id(*id) else { continue };
            let child = drafts.entry(*id).or_insert_with(|| {
                changed.push(*id);
                Draft::of(&child, catalog, session)
            });
            let only = following.only && is_root;
            let inside =
                child.next.lineage.parents.iter().filter(|id| order.iter().any(|table| table.id == **id)).count();
            follow((&*before, &after), &filled, child, &Following { only, ..copy_of(following) }, inside as u32)?;
        }
    }
    let mut definition = Definition::new(tag);
    let mut works: BTreeMap<TableId, Vec<super::Work>> = BTreeMap::new();
    let mut others: BTreeMap<TableId, RowSchema> = BTreeMap::new();
    for id in &changed {
        let Some(draft) = drafts.get_mut(id) else { continue };
        for (of, work) in std::mem::take(&mut draft.extra_work) {
            works.entry(of).or_default().extend(work);
        }
        for (of, after) in std::mem::take(&mut draft.others) {
            let Some(before) = catalog.by_id(of) else { continue };
            let onto = match drafts.get_mut(&of) {
                Some(own) => &mut own.next,
                None => others
                    .entry(of)
                    .or_insert_with(|| RowSchema { version: before.version + 1, ..RowSchema::clone(&before) }),
            };
            apply_difference(&before, &after, onto);
        }
    }
    if let Some(root) = drafts.get_mut(&old.id) {
        root.others = others;
    }
    for (id, work) in works {
        let home = if drafts.contains_key(&id) { id } else { old.id };
        if let Some(draft) = drafts.get_mut(&home) {
            draft.extra_work.entry(id).or_default().extend(work);
        }
    }
    for id in changed {
        let Some(draft) = drafts.remove(&id) else { continue };
        let done = draft.finish(tag)?;
        definition.changes.extend(done.changes);
        definition.notices.extend(done.notices);
    }
    merge_changes(&mut definition.changes);
    Ok(definition)
}

/// Applies what one statement changed of another table: foreign keys, defaults and edges of inheritance.
fn apply_difference(before: &RowSchema, after: &RowSchema, onto: &mut RowSchema) {
    let is_gone = |name: &str| {
        let has = |table: &RowSchema| table.foreign_keys.iter().any(|key| key.name == name);
        has(before) && !has(after)
    };
    onto.foreign_keys.retain(|key| !is_gone(&key.name));
    onto.lineage.foreign_keys.retain(|name| !is_gone(name));
    for after in &after.foreign_keys {
        let named = |key: &&RowForeignKey| key.name == after.name;
        let Some(before) = before.foreign_keys.iter().find(named) else { continue };
        for key in onto.foreign_keys.iter_mut().filter(|key| key.name == after.name) {
            if before.check_disabled != after.check_disabled {
                key.check_disabled = after.check_disabled;
            }
            if before.action_disabled != after.action_disabled {
                key.action_disabled = after.action_disabled;
            }
        }
    }
    for (at, column) in onto.columns.iter_mut().enumerate() {
        if let (Some(before), Some(after)) = (before.columns.get(at), after.columns.get(at))
            && before.default != after.default
        {
            column.default.clone_from(&after.default);
        }
    }
    let edges = |before: &[TableId], after: &[TableId], onto: &mut Vec<TableId>| {
        onto.retain(|id| after.contains(id) || !before.contains(id));
        let new: Vec<TableId> = after.iter().filter(|id| !before.contains(id) && !onto.contains(id)).copied().collect();
        onto.extend(new);
    };
    edges(&before.lineage.children, &after.lineage.children, &mut onto.lineage.children);
    edges(&before.lineage.parents, &after.lineage.parents, &mut onto.lineage.parents);
}

fn copy_of<'s>(following: &Following<'s>) -> Following<'s> {
    Following {
        only: following.only,
        using: following.using.clone(),
        defaults: following.defaults.clone(),
        nulls: following.nulls.clone(),
        cascade: following.cascade,
        renamed: following.renamed.clone(),
    }
}

/// Two changes of one table become one: the later description wins, and the work of both is done. A view is dropped once.
pub(super) fn merge_changes(changes: &mut Vec<Change>) {
    let mut dropped = Vec::new();
    changes.retain(|change| {
        let Change::DropView(id) = change else { return true };
        let is_first = !dropped.contains(id);
        dropped.push(*id);
        is_first
    });
    let mut at = 0;
    while at < changes.len() {
        if let Change::Alter { next, .. } = &changes[at] {
            let id = next.id;
            let is_it = |change: &Change| matches!(change, Change::Alter { next, .. } if next.id == id);
            if let Some(later) = changes[at + 1..].iter().position(is_it) {
                let first = changes.remove(at);
                if let (Change::Alter { work: mut before, .. }, Change::Alter { work, .. }) =
                    (first, &mut changes[at + later])
                {
                    before.append(work);
                    *work = before;
                }
                continue;
            }
        }
        at += 1;
    }
}

/// A table and those that inherit from it, each after all of its parents among them.
fn descendants(root: &RowSchemaRef, catalog: &dyn Catalog) -> Result<Vec<RowSchemaRef>> {
    let mut done: Vec<RowSchemaRef> = Vec::new();
    let mut stack: Vec<(RowSchemaRef, usize)> = vec![(Arc::clone(root), 0)];
    while let Some((table, at)) = stack.last_mut() {
        match table.lineage.children.get(*at).copied() {
            Some(child) => {
                *at += 1;
                let is_known = done.iter().any(|known| known.id == child);
                if !is_known && let Some(child) = catalog.by_id(child) {
                    stack.push((child, 0));
                }
            }
            None => {
                if let Some((table, _)) = stack.pop() {
                    done.push(table);
                }
            }
        }
        if done.len() + stack.len() > FOLLOWERS_MAX {
            let text = format!("more than {FOLLOWERS_MAX} tables inherit from \"{}\"", root.name.table);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
    }
    done.reverse();
    Ok(done)
}

/// A table and all that inherit from it, parents first.
pub(super) fn with_descendants(root: &RowSchemaRef, catalog: &dyn Catalog) -> Result<Vec<RowSchemaRef>> {
    descendants(root, catalog)
}

/// Refuses changes of a table with ONLY that its children must follow.
fn check_only(old: &RowSchema, new: &RowSchema) -> Result<()> {
    let wrong = |text: String| Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    let is_partitioned = old.lineage.key.is_some();
    let added = new.columns.get(old.columns.len()..).unwrap_or_default();
    if added.iter().any(|column| !column.dropped) {
        return wrong("column must be added to child tables too".to_owned());
    }
    for (before, after) in old.columns.iter().zip(&new.columns) {
        if !before.dropped && after.dropped && is_partitioned {
            let text = "cannot drop column from only the partitioned table when partitions exist";
            return Err(
                Error::new(SqlState::INVALID_TABLE_DEFINITION, text).with_hint("Do not specify the ONLY keyword.")
            );
        }
        if !after.dropped && before.name != after.name {
            return wrong(format!("inherited column \"{}\" must be renamed in child tables too", before.name));
        }
        if !after.dropped && before.declared() != after.declared() {
            return wrong(format!("type of inherited column \"{}\" must be changed in child tables too", before.name));
        }
        if is_partitioned && !after.dropped && before.not_null && !after.not_null {
            let text = "cannot remove constraint from only the partitioned table when partitions exist";
            return Err(
                Error::new(SqlState::INVALID_TABLE_DEFINITION, text).with_hint("Do not specify the ONLY keyword.")
            );
        }
    }
    if heritable(new).any(|check| old.checks.iter().all(|other| other.name != check.name)) {
        return wrong("constraint must be added to child tables too".to_owned());
    }
    if is_partitioned && old.checks.iter().any(|check| new.checks.iter().all(|other| other.name != check.name)) {
        let text = "cannot remove constraint from only the partitioned table when partitions exist";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text).with_hint("Do not specify the ONLY keyword."));
    }
    let index_ids = |table: &RowSchema| indexes(table).map(|index| index.id).collect::<Vec<u32>>();
    let is_kept = |index: &RowIndex| index_ids(new).contains(&index.id);
    let key_is_kept = |key: &RowForeignKey| new.foreign_keys.iter().any(|other| other.name == key.name);
    if is_partitioned && (!indexes(old).all(is_kept) || !old.foreign_keys.iter().all(key_is_kept)) {
        let text = "cannot change a key of only the partitioned table when partitions exist";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text).with_hint("Do not specify the ONLY keyword."));
    }
    if is_partitioned && new.foreign_keys.len() > old.foreign_keys.len() {
        let text = format!("cannot use ONLY for foreign key on partitioned table \"{}\"", new.name.table);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    }
    Ok(())
}

/// Applies the difference of two versions of a parent to a child. `inside`: number of the child's parents that change too.
fn follow(
    (old, new): (&RowSchema, &RowSchema),
    filled: &BTreeMap<usize, super::table_work::Field>,
    child: &mut Draft<'_>,
    following: &Following<'_>,
    inside: u32,
) -> Result<()> {
    let only = following.only;
    for (at, after) in new.columns.iter().enumerate() {
        match old.columns.get(at) {
            None if after.dropped => {}
            None => follow_new_column(new, at, filled, child)?,
            Some(before) if before.dropped => {}
            Some(before) if after.dropped => {
                if let Some(own) = child.next.column(&before.name).filter(|_| !only) {
                    child.check_not_in_key(own, "drop")?;
                }
                child.disinherit_column(&before.name, only, following.cascade)?;
            }
            Some(_) if only => {}
            Some(before) => {
                let Some(own) = child.next.column(&before.name) else { continue };
                if before.declared() != after.declared() {
                    // Another parent has the column too, and keeps its type.
                    if child.next.lineage.column(own).is_some_and(|entry| entry.parents > inside) {
                        let (name, table) = (&before.name, &child.next.name.table);
                        let text = format!("cannot alter inherited column \"{name}\" of relation \"{table}\"");
                        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
                    }
                    let using = following.using.get(&before.name).copied().flatten();
                    if child.next.columns[own].declared() != after.declared() {
                        child.check_not_in_key(own, "alter")?;
                        child.set_type(own, (after.ty, after.domain), using)?;
                    }
                }
                if following.nulls.contains(&before.name) {
                    match after.not_null {
                        true => child.set_not_null(own),
                        false => child.drop_not_null(own),
                    }
                } else if after.not_null && !before.not_null && new.lineage.key.is_some() {
                    child.set_not_null(own);
                }
                if before.generated.is_some() && after.generated.is_none() {
                    child.next.columns[own].generated = None;
                }
                if following.defaults.contains(&before.name) {
                    let default = inherited_default(new, after, &child.next.name, child.catalog)?;
                    child.next.columns[own].default = default;
                }
                if before.name != after.name {
                    // Another parent has the column too, and keeps its name.
                    if child.next.lineage.column(own).is_some_and(|entry| entry.parents > inside) {
                        let text = format!("cannot rename inherited column \"{}\"", before.name);
                        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
                    }
                    child.check_new_name(&after.name)?;
                    child.rename_column(own, after.name.clone())?;
                }
            }
        }
    }
    if let Some([before, after]) = &following.renamed {
        for check in child.next.checks.iter_mut().filter(|check| check.name == *before) {
            check.name.clone_from(after);
        }
        for entry in child.next.lineage.checks.iter_mut().filter(|entry| entry.name == *before) {
            entry.name.clone_from(after);
        }
    } else {
        for check in &old.checks {
            if new.checks.iter().all(|other| other.name != check.name) {
                child.disinherit_check(&check.name, only);
            }
        }
        for check in heritable(new) {
            match old.checks.iter().find(|other| other.name == check.name) {
                None => child.inherit_check(check)?,
                Some(before) if before.not_valid && !check.not_valid && !only => child.validate_check(&check.name),
                Some(_) => {}
            }
        }
    }
    if new.lineage.key.is_some() && !only {
        follow_keys(old, new, child, following.cascade)?;
    }
    Ok(())
}

fn follow_new_column(
    new: &RowSchema,
    at: usize,
    filled: &BTreeMap<usize, super::table_work::Field>,
    child: &mut Draft<'_>,
) -> Result<()> {
    let column = &new.columns[at];
    if let Some(own) = child.next.column(&column.name) {
        let (name, table) = (&column.name, &child.next.name.table);
        if child.next.columns[own].declared() != column.declared() {
            let text = format!("child table \"{table}\" has different type for column \"{name}\"");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        let text = format!("merging definition of column \"{name}\" for child \"{table}\"");
        child.notices.push(Notice::new(text));
        child.count_column(own);
        return Ok(());
    }
    let position = child.next.columns.len();
    let mut own = column.clone();
    own.identity = None;
    own.default = inherited_default(new, column, &child.next.name, child.catalog)?;
    let is_never_null = matches!(filled.get(&at), Some(Field::Next(_) | Field::Numbered(_)));
    if own.not_null && own.missing.is_none() && !is_never_null {
        child.required.push(position);
    }
    if own.domain.is_some() {
        child.domains.push(position);
    }
    child.next.columns.push(own);
    child.next.lineage.columns.push(InheritedColumn { position, parents: 1, local: false });
    if let Some(field) = filled.get(&at) {
        child.filled.insert(position, field.clone());
    }
    Ok(())
}

/// Indexes and foreign keys of partitions follow those of the partitioned table.
fn follow_keys(old: &RowSchema, new: &RowSchema, child: &mut Draft<'_>, cascade: bool) -> Result<()> {
    let gone = indexes(old).filter(|index| indexes(new).all(|other| other.id != index.id));
    for index in gone {
        let Some(own) = child.next.lineage.index_of(index.id) else { continue };
        // An index with a new number over the same columns was built again.
        if let Some(again) = indexes(new).find(|other| other.name == index.name && has_same_columns(other, index)) {
            for entry in child.next.lineage.indexes.iter_mut().filter(|entry| entry.1 == index.id) {
                entry.1 = again.id;
            }
            continue;
        }
        child.next.lineage.indexes.retain(|entry| entry.1 != index.id);
        let own = indexes(&child.next).find(|one| one.id == own).cloned();
        if let Some(own) = own {
            if own.constraint && !index.constraint && !cascade {
                let what = format!("index {}", names::quoted(&index.name));
                let table = names::display_name(&child.next.name, child.catalog);
                let dependent = format!("constraint {} on table {table}", names::quoted(&own.name));
                return Err(super::drop::depended(&what, std::iter::once((dependent.as_str(), what.as_str()))));
            }
            child.drop_key(&own, &format!("index {}", names::quoted(&own.name)), cascade)?;
        }
    }
    for (index, primary) in new.indexes() {
        if indexes(old).any(|other| other.id == index.id) || child.next.lineage.index_of(index.id).is_some() {
            continue;
        }
        child.inherit_index(new, index, primary)?;
    }
    for key in &old.foreign_keys {
        let Some(name) = child.own_foreign(old, key) else { continue };
        // A renamed key is the same one: PostgreSQL's partitions keep the old name.
        let same = |other: &&RowForeignKey| other.name == key.name || is_renamed(key, other, old, new);
        match new.foreign_keys.iter().find(same) {
            None => {
                child.next.foreign_keys.retain(|own| own.name != name);
                child.next.lineage.foreign_keys.retain(|own| *own != name);
            }
            Some(after) => {
                for own in child.next.foreign_keys.iter_mut().filter(|own| own.name == name) {
                    own.deferral = after.deferral;
                }
            }
        }
    }
    for key in &new.foreign_keys {
        let is_known = |other: &RowForeignKey| other.name == key.name || is_renamed(other, key, old, new);
        if !old.foreign_keys.iter().any(is_known) {
            child.inherit_foreign(new, key)?;
        }
    }
    Ok(())
}

/// Whether a key of the old description is the one with another name in the new one.
fn is_renamed(before: &RowForeignKey, after: &RowForeignKey, old: &RowSchema, new: &RowSchema) -> bool {
    let is_gone = new.foreign_keys.iter().all(|key| key.name != before.name);
    let is_new = old.foreign_keys.iter().all(|key| key.name != after.name);
    let renamed = RowForeignKey { name: after.name.clone(), ..before.clone() };
    is_gone && is_new && renamed == *after
}

impl Draft<'_> {
    fn check_new_name(&self, name: &str) -> Result<()> {
        if self.next.column(name).is_none() {
            return Ok(());
        }
        let text = format!("column \"{name}\" of relation \"{}\" already exists", self.next.name.table);
        Err(Error::new(SqlState::DUPLICATE_COLUMN, text))
    }
}

/// ALTER TABLE … INHERIT: the table becomes a child of another one.
pub(super) fn add(draft: &mut Draft<'_>, written: &ast::Name) -> Result<()> {
    let parent = parent(written, draft.catalog)?;
    let name = parent.name.table.clone();
    let wrong = |text: String| Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    if draft.next.lineage.bound.is_some() {
        return wrong("cannot change inheritance of a partition".to_owned());
    }
    if draft.next.lineage.key.is_some() {
        return wrong("cannot change inheritance of partitioned table".to_owned());
    }
    if parent.lineage.key.is_some() {
        return wrong(format!("cannot inherit from partitioned table \"{name}\""));
    }
    if parent.lineage.bound.is_some() {
        return wrong("cannot inherit from a partition".to_owned());
    }
    if draft.next.lineage.parents.contains(&parent.id) {
        let text = format!("relation \"{name}\" would be inherited from more than once");
        return Err(Error::new(SqlState::DUPLICATE_TABLE, text));
    }
    check_lifetimes(&draft.next.name, &parent.name, None)?;
    check_circle(draft, &parent)?;
    draft.add_parent(&parent)?;
    let id = draft.next.id;
    draft.other(&parent).lineage.children.push(id);
    Ok(())
}

/// Error 42P07 if a table would inherit from itself.
pub(super) fn check_circle(draft: &Draft<'_>, parent: &RowSchemaRef) -> Result<()> {
    let is_below = match &draft.old {
        Some(old) => with_descendants(old, draft.catalog)?.iter().any(|table| table.id == parent.id),
        None => false,
    };
    if !is_below {
        return Ok(());
    }
    let (table, name) = (&draft.next.name.table, &parent.name.table);
    let error = Error::new(SqlState::DUPLICATE_TABLE, "circular inheritance not allowed");
    Err(error.with_detail(format!("\"{name}\" is already a child of \"{table}\".")))
}

/// ALTER TABLE … NO INHERIT.
pub(super) fn remove(draft: &mut Draft<'_>, written: &ast::Name) -> Result<()> {
    let parent = parent(written, draft.catalog)?;
    if draft.next.lineage.bound.is_some() {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot change inheritance of a partition"));
    }
    if !draft.next.lineage.parents.contains(&parent.id) {
        let text =
            format!("relation \"{}\" is not a parent of relation \"{}\"", parent.name.table, draft.next.name.table);
        return Err(Error::new(SqlState::UNDEFINED_TABLE, text));
    }
    draft.remove_parent(&parent)?;
    let id = draft.next.id;
    draft.other(&parent).lineage.children.retain(|child| *child != id);
    Ok(())
}
