//! A table's description while a statement changes it, and what rows have to go through, collected on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Datum, Error, Result, RowColumn, RowSchema, RowSchemaRef, SequenceSpec, SqlState, TableId, TableName};
use rows::RowTable;
use rows::row::{ColumnLayout, RowLayout};

use super::table_work::{Condition, Field, Rewrite, Work};
use super::{Catalog, Change, Definition, Notice, Object, constraints, expressions, indexes, is_taken};
use crate::expr::{Expr, Layout, Value};
use crate::statement::Session;

/// One table's next description.
pub(super) struct Draft<'c> {
    pub(super) catalog: &'c dyn Catalog,
    pub(super) session: Session<'c>,
    pub(super) next: RowSchema,
    /// What it was; `None` for a new table.
    pub(super) old: Option<RowSchemaRef>,
    /// Other tables that change with it.
    pub(super) others: BTreeMap<TableId, RowSchema>,
    /// What is to be done with sequences before the table, and after it.
    pub(super) before: Vec<Change>,
    pub(super) after: Vec<Change>,
    /// Sequences that this statement makes.
    pub(super) sequences: Vec<SequenceSpec>,
    pub(super) notices: Vec<Notice>,
    /// Columns that get values of their own in rows that are there.
    pub(super) filled: BTreeMap<usize, Field>,
    /// Columns that must not be NULL in rows that are there.
    pub(super) required: Vec<usize>,
    /// Indexes to be built, by number.
    pub(super) built: Vec<u32>,
    /// Checks and foreign keys to be looked at, by name.
    pub(super) checked: Vec<String>,
}

impl<'c> Draft<'c> {
    /// A new table.
    pub(super) fn new(name: TableName, catalog: &'c dyn Catalog, session: Session<'c>) -> Draft<'c> {
        let next = RowSchema {
            id: TableId(catalog.next_id(Object::Table)),
            name,
            version: 1,
            columns: Vec::new(),
            primary: None,
            secondary: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
        };
        Draft::from(next, None, catalog, session)
    }

    /// A table that is there.
    pub(super) fn of(old: &RowSchemaRef, catalog: &'c dyn Catalog, session: Session<'c>) -> Draft<'c> {
        let next = RowSchema { version: old.version + 1, ..RowSchema::clone(old) };
        Draft::from(next, Some(Arc::clone(old)), catalog, session)
    }

    fn from(next: RowSchema, old: Option<RowSchemaRef>, catalog: &'c dyn Catalog, session: Session<'c>) -> Draft<'c> {
        Draft {
            catalog,
            session,
            next,
            old,
            others: BTreeMap::new(),
            before: Vec::new(),
            after: Vec::new(),
            sequences: Vec::new(),
            notices: Vec::new(),
            filled: BTreeMap::new(),
            required: Vec::new(),
            built: Vec::new(),
            checked: Vec::new(),
        }
    }

    /// What the statement comes to.
    pub(super) fn finish(mut self, tag: &'static str) -> Result<Definition> {
        let work = self.work()?;
        let mut changes = self.before;
        changes.extend(self.others.into_values().map(|next| Change::Alter { next, work: Vec::new() }));
        changes.extend(self.sequences.into_iter().map(Change::CreateSequence));
        match self.old {
            None => changes.push(Change::Create(self.next)),
            Some(old) => {
                let as_it_was = RowSchema { version: self.next.version, ..RowSchema::clone(&old) };
                if !work.is_empty() || self.next != as_it_was {
                    changes.push(Change::Alter { next: self.next, work });
                }
            }
        }
        changes.extend(self.after);
        Ok(Definition { tag, changes, notices: self.notices })
    }

    /// What rows that are there go through.
    fn work(&mut self) -> Result<Vec<Work>> {
        let Some(old) = self.old.clone() else { return Ok(Vec::new()) };
        let mut work = Vec::new();
        if !self.filled.is_empty() {
            work.push(Work::Rewrite(self.rewrite(&old)?));
        }
        let rewritten = !work.is_empty();
        for column in &self.required {
            let column_is = &self.next.columns[*column];
            if column_is.not_null && !column_is.dropped {
                work.push(Work::NotNull(*column));
            }
        }
        let built = indexes(&self.next).filter(|index| rewritten || self.built.contains(&index.id));
        work.extend(built.cloned().map(Work::Build));
        let checks = self.next.checks.iter().filter(|check| self.checked.contains(&check.name));
        let table = expressions::bare_table(&self.next)?;
        for check in checks {
            work.push(Work::Check(Condition::new(&check.name, &check.condition, &table)?));
        }
        let keys = self.next.foreign_keys.iter().filter(|key| self.checked.contains(&key.name));
        work.extend(keys.cloned().map(Work::ForeignKey));
        Ok(work)
    }

    /// Rows are written anew: columns with values of their own get those, all others keep theirs.
    fn rewrite(&mut self, old: &RowSchemaRef) -> Result<Rewrite> {
        let from = expressions::bare_table(old)?;
        let mut fields = Vec::with_capacity(self.next.columns.len());
        for (at, column) in self.next.columns.iter_mut().enumerate() {
            let field = match self.filled.remove(&at) {
                Some(field) => field,
                None if column.dropped => Field::Expr(null()),
                None if at < old.columns.len() => {
                    Field::Expr(Expr::Field { slot: 0, column: at, layout: Layout(Arc::clone(&from.layout)) })
                }
                None => Field::Expr(added(column)?),
            };
            fields.push((column.ty, field));
            // No row lacks it any more.
            column.missing = None;
        }
        // Whether NULLs are refused is looked at afterwards, when it can be said in words.
        let columns: Vec<_> = self.next.columns.iter().map(|column| ColumnLayout::new(column.ty, false)).collect();
        Ok(Rewrite { layout: RowLayout::new(&columns)?, fields })
    }

    /// The table as it is by now, for binding.
    pub(super) fn table(&self) -> Result<Arc<RowTable>> {
        expressions::bare_table(&self.next)
    }

    /// The position of a column.
    pub(super) fn column(&self, name: &str) -> Result<usize> {
        self.next.column(name).ok_or_else(|| super::no_column(name, &self.next.name.table))
    }

    /// A column's name in messages.
    pub(super) fn name_of(&self, column: usize) -> &str {
        &self.next.columns[column].name
    }

    /// Is there anything called this in the table's schema, by now?
    pub(super) fn is_relation(&self, name: &str) -> bool {
        let own = name == self.next.name.table || super::has_index(&self.next, name);
        if own || self.sequences.iter().any(|sequence| sequence.name.table == name) {
            return true;
        }
        let gone = self.old.as_ref().is_some_and(|old| super::has_index(old, name) || old.name.table == name);
        !gone && is_taken(self.catalog, &TableName { schema: self.next.name.schema.clone(), table: name.to_owned() })
    }

    /// Is a constraint of the table's schema called this, by now?
    pub(super) fn is_constraint(&self, name: &str) -> bool {
        if constraints(&self.next).any(|one| one == name) {
            return true;
        }
        let gone = self.old.as_ref().is_some_and(|old| constraints(old).any(|one| one == name));
        !gone && self.catalog.is_constraint(&self.next.name.schema, name)
    }

    /// Refuses a relation's name that is taken.
    pub(super) fn check_relation(&self, name: &str) -> Result<()> {
        if self.is_relation(name) { Err(super::exists_already(name)) } else { Ok(()) }
    }

    /// Refuses a constraint's name that the table has already.
    pub(super) fn check_constraint(&self, name: &str) -> Result<()> {
        if constraints(&self.next).all(|one| one != name) {
            return Ok(());
        }
        let text = format!("constraint \"{name}\" for relation \"{}\" already exists", self.next.name.table);
        Err(Error::new(SqlState::DUPLICATE_OBJECT, text))
    }
}

fn null() -> Expr {
    Expr::Value(Value::Plain(Datum::Null))
}

/// What a column has that was added without values of its own.
fn added(column: &RowColumn) -> Result<Expr> {
    let Some(missing) = &column.missing else { return Ok(null()) };
    let layout = RowLayout::new(&[ColumnLayout::new(column.ty, false)])?;
    let value = layout.field(missing, 0)?;
    Ok(Expr::Value(Value::of(&value)))
}
