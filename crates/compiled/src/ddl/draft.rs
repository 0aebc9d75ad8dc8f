//! A table description while a statement changes it, together with the work on its rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Datum, Error, Result, RowColumn, RowSchema, RowSchemaRef, SequenceSpec, SqlState, TableId, TableName, user_types,
};
use parser::ast;
use rows::RowTable;
use rows::row::{ColumnLayout, RowLayout};

use super::table_work::{Condition, Field, Generated, Rewrite, Work};
use super::{Catalog, Change, Definition, Notice, Object, constraints, expressions, indexes, is_taken};
use crate::expr::{Expr, Layout, Value};
use crate::statement::Session;
use crate::stored_expressions::{self, domain_check};

/// The next version of one table.
pub(super) struct Draft<'c> {
    pub(super) catalog: &'c dyn Catalog,
    pub(super) session: Session<'c>,
    pub(super) next: RowSchema,
    /// The version before; `None` for a new table.
    pub(super) old: Option<RowSchemaRef>,
    /// Other tables changed by the statement.
    pub(super) others: BTreeMap<TableId, RowSchema>,
    /// Sequence changes to apply before and after the table's.
    pub(super) before: Vec<Change>,
    pub(super) after: Vec<Change>,
    /// Sequences that the statement creates.
    pub(super) sequences: Vec<SequenceSpec>,
    pub(super) notices: Vec<Notice>,
    /// Columns whose existing rows get new values, with their source.
    pub(super) filled: BTreeMap<usize, Field>,
    /// Generated columns of the statement whose expressions are not bound yet.
    pub(super) generated: Vec<(usize, ast::Expr)>,
    /// Columns whose existing rows must be checked for NULL.
    pub(super) required: Vec<usize>,
    /// Columns whose existing rows must satisfy the constraints of their domains.
    pub(super) domains: Vec<usize>,
    /// Ids of indexes to build.
    pub(super) built: Vec<u32>,
    /// Names of CHECK and foreign key constraints to validate.
    pub(super) checked: Vec<String>,
    /// Work on rows of tables, this one or others, that is not part of the description.
    pub(super) extra_work: BTreeMap<TableId, Vec<Work>>,
    /// Columns whose parents have several defaults.
    pub(super) conflicting_defaults: Vec<String>,
}

impl<'c> Draft<'c> {
    /// A new table.
    pub(super) fn new(name: TableName, catalog: &'c dyn Catalog, session: Session<'c>) -> Draft<'c> {
        let next = RowSchema {
            id: TableId(catalog.next_id(Object::Table)),
            name,
            version: 1,
            lineage: model::Lineage::default(),
            columns: Vec::new(),
            primary: None,
            secondary: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: model::ReplicaIdentity::default(),
        };
        Draft::from(next, None, catalog, session)
    }

    /// An existing table.
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
            generated: Vec::new(),
            required: Vec::new(),
            domains: Vec::new(),
            built: Vec::new(),
            checked: Vec::new(),
            extra_work: BTreeMap::new(),
            conflicting_defaults: Vec::new(),
        }
    }

    /// Completes the draft.
    pub(super) fn finish(mut self, tag: &'static str) -> Result<Definition> {
        self.drop_unused();
        let mut work = self.work()?;
        work.extend(self.extra_work.remove(&self.next.id).unwrap_or_default());
        for id in self.extra_work.keys() {
            if let (false, Some(table)) = (self.others.contains_key(id), self.catalog.by_id(*id)) {
                self.others.insert(*id, RowSchema { version: table.version + 1, ..RowSchema::clone(&table) });
            }
        }
        let mut changes = self.before;
        for (id, next) in self.others {
            let work = self.extra_work.remove(&id).unwrap_or_default();
            changes.push(Change::Alter { next, work });
        }
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

    /// Work on existing rows.
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
        let table = expressions::empty_table(&self.next)?;
        for check in checks {
            work.push(Work::Check(Condition::new(&check.name, &check.condition, &table, self.session)?));
        }
        for column in &self.domains {
            work.extend(self.domain_work(*column, &table)?);
        }
        let keys = self.next.foreign_keys.iter().filter(|key| self.checked.contains(&key.name));
        work.extend(keys.cloned().map(Work::ForeignKey));
        Ok(work)
    }

    /// Checks of existing rows by the constraints of a column's domain.
    fn domain_work(&self, at: usize, table: &Arc<RowTable>) -> Result<Vec<Work>> {
        let column = &self.next.columns[at];
        let Some(domain) = column.domain.filter(|_| !column.dropped) else { return Ok(Vec::new()) };
        let levels = binder::domain_levels(self.session.facts()?, domain)?;
        let name = levels.first().map_or("", |spec| spec.name.table.as_str());
        let mut work = Vec::new();
        if user_types::is_array(domain) {
            // The cast refuses wrong elements.
            let expr = format!("{} IS NULL IS NOT NULL", stored_expressions::domain_cast(column, domain));
            let condition = Condition::new(name, &expr, table, self.session)?;
            return Ok(vec![Work::Domain(condition, scalar::domain_null(name))]);
        }
        for domain in levels.iter().rev().filter_map(|spec| spec.domain()) {
            if domain.not_null {
                work.push(Work::DomainNull(at, scalar::domain_null(name)));
            }
            for check in &domain.checks {
                let expr = domain_check(&check.condition, &column.name)?;
                let condition = Condition::of(&check.name, &expr, table, self.session)?;
                work.push(Work::Domain(condition, scalar::domain_violation(name, &check.name)));
            }
        }
        Ok(work)
    }

    /// Rewrites all rows: columns in `filled` get new values, the others keep theirs.
    fn rewrite(&mut self, old: &RowSchemaRef) -> Result<Rewrite> {
        let from = expressions::empty_table(old)?;
        let mut fields = Vec::with_capacity(self.next.columns.len());
        for (at, column) in self.next.columns.iter_mut().enumerate() {
            let field = match self.filled.remove(&at) {
                Some(field) => field,
                None if column.generated.is_some() => Field::Generated,
                None if column.dropped => Field::Expr(null()),
                None if at < old.columns.len() => {
                    Field::Expr(Expr::Field { slot: 0, column: at, layout: Layout(Arc::clone(&from.layout)) })
                }
                None => Field::Expr(added(column)?),
            };
            fields.push((column.ty, field));
            // After the rewrite no row lacks the column.
            column.missing = None;
        }
        // NOT NULL is checked after the rewrite, with a proper error.
        let columns: Vec<_> = self.next.columns.iter().map(|column| ColumnLayout::new(column.ty, false)).collect();
        let table = expressions::empty_table(&self.next)?;
        let generated = stored_expressions::all_generated(&table).map_err(|stop| {
            stop.into_error(|| Error::bug("an expression of a generated column that was bound before is not supported"))
        })?;
        let with_predicates = |(column, value)| {
            let predicates = stored_expressions::predicates_of(&self.next, column);
            Generated { column, predicates, value }
        };
        let (mut hidden, shown): (Vec<Generated>, Vec<Generated>) =
            generated.into_iter().map(with_predicates).partition(|one| self.next.columns[one.column].is_hidden());
        hidden.sort_by_key(|one| !one.predicates.is_empty());
        Ok(Rewrite { layout: RowLayout::new(&columns)?, fields, generated: [shown, hidden] })
    }

    /// The next version of another table.
    pub(super) fn other(&mut self, table: &RowSchemaRef) -> &mut RowSchema {
        let changed = || RowSchema { version: table.version + 1, ..RowSchema::clone(table) };
        self.others.entry(table.id).or_insert_with(changed)
    }

    /// The current state as a table, for binding.
    pub(super) fn table(&self) -> Result<Arc<RowTable>> {
        expressions::empty_table(&self.next)
    }

    /// Position of a column; 42703 if it does not exist.
    pub(super) fn column(&self, name: &str) -> Result<usize> {
        self.next.column(name).ok_or_else(|| super::no_column(name, &self.next.name.table))
    }

    /// The column's name, for messages.
    pub(super) fn name_of(&self, column: usize) -> &str {
        &self.next.columns[column].name
    }

    /// Whether a relation with this name exists in the table's schema, given the changes so far.
    pub(super) fn is_relation(&self, name: &str) -> bool {
        let own = name == self.next.name.table || super::has_index(&self.next, name);
        if own || self.sequences.iter().any(|sequence| sequence.name.table == name) {
            return true;
        }
        let gone = self.old.as_ref().is_some_and(|old| super::has_index(old, name) || old.name.table == name);
        !gone && is_taken(self.catalog, &TableName { schema: self.next.name.schema.clone(), table: name.to_owned() })
    }

    /// Whether a constraint with this name exists in the table's schema, given the changes so far.
    pub(super) fn is_constraint(&self, name: &str) -> bool {
        if constraints(&self.next).any(|one| one == name) {
            return true;
        }
        let gone = self.old.as_ref().is_some_and(|old| constraints(old).any(|one| one == name));
        !gone && self.catalog.is_constraint(&self.next.name.schema, name)
    }

    /// 42P07 if the relation name is taken.
    pub(super) fn check_relation(&self, name: &str) -> Result<()> {
        if self.is_relation(name) { Err(super::exists_already(name)) } else { Ok(()) }
    }

    /// 42710 if the table has a constraint with this name.
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

/// The value of a column added without a rewrite, for rows that lack it.
fn added(column: &RowColumn) -> Result<Expr> {
    let Some(missing) = &column.missing else { return Ok(null()) };
    let layout = RowLayout::new(&[ColumnLayout::new(column.ty, false)])?;
    let value = layout.field(missing, 0)?;
    Ok(Expr::Value(Value::of(&value)))
}
