//! Foreign keys: every row has the row it refers to. They are looked at when a statement has changed all it changes, as
//! PostgreSQL does it, and as of the newest commits, whatever the snapshot shows.
//!
//! The row referred to is locked `KeyShare`, so that it stays until the transaction ends; deleting it, or changing its key,
//! takes `Update`, so that nobody comes to refer to it meanwhile.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use env::Event;
use model::{Datum, Error, Referential, Result, RowForeignKey, SqlState};
use rows::{Direction, IndexData, LockMode, Locked, RowTable, key};

use crate::bind::{Bind, Refusal};
use crate::cast::text_of;
use crate::exec::Run;
use crate::expr::Expr;
use crate::scope::Tables;

/// The keys that a statement has to look at.
#[derive(Default)]
pub(crate) struct Foreign {
    /// Of its table to others.
    own: Vec<Reference>,
    /// Of others to its table.
    others: Vec<Reference>,
}

/// One foreign key, with both tables.
struct Reference {
    def: RowForeignKey,
    child: Arc<RowTable>,
    parent: Arc<RowTable>,
    /// The parent's index over the columns referred to: the primary one, or a secondary one by position.
    index: Option<usize>,
}

/// Which rows a statement made and unmade.
#[derive(Default)]
pub(crate) struct Changed<'a> {
    pub(crate) new: Vec<&'a [u8]>,
    pub(crate) old: Vec<&'a [u8]>,
}

/// What a statement does to rows of a table.
#[derive(Clone, Copy)]
pub(crate) enum Does<'s> {
    Insert,
    /// Some columns get new values.
    Update(&'s [Option<Expr>]),
    Delete,
}

impl Does<'_> {
    fn touches(self, columns: &[usize]) -> bool {
        match self {
            Does::Insert | Does::Delete => true,
            Does::Update(set) => columns.iter().any(|column| set[*column].is_some()),
        }
    }
}

impl Foreign {
    /// Adds what a statement has to look at that does this. Actions beyond refusing are another tier's.
    pub(crate) fn add(&mut self, table: &Arc<RowTable>, does: Does<'_>, tables: &dyn Tables) -> Bind<()> {
        if !matches!(does, Does::Delete) {
            for def in table.schema.foreign_keys.iter().filter(|def| does.touches(&def.columns)) {
                let parent = if def.table == table.id() { Some(Arc::clone(table)) } else { tables.by_id(def.table) };
                self.own.push(Reference::new(def, Arc::clone(table), parent.ok_or(Refusal::Other)?)?);
            }
        }
        if matches!(does, Does::Insert) {
            return Ok(());
        }
        for child in tables.referring(table.id()) {
            for def in child.schema.foreign_keys.iter().filter(|def| def.table == table.id()) {
                if !does.touches(&def.referred) {
                    continue;
                }
                let action = if matches!(does, Does::Delete) { def.on_delete } else { def.on_update };
                if !matches!(action, Referential::NoAction | Referential::Restrict) {
                    return Err(Refusal::Other);
                }
                self.others.push(Reference::new(def, Arc::clone(&child), Arc::clone(table))?);
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty()
    }

    /// Looks at what has changed; what must be waited for if that cannot be told yet.
    pub(crate) fn check<'a>(
        &'a self,
        changed: &Changed<'a>,
        run: &mut Run<'a, '_>,
    ) -> Result<std::result::Result<(), Event>> {
        for reference in &self.own {
            for row in &changed.new {
                if let Err(event) = reference.refers(row, run)? {
                    return Ok(Err(event));
                }
            }
        }
        for reference in &self.others {
            for row in &changed.old {
                reference.is_free(row, run)?;
            }
        }
        Ok(Ok(()))
    }
}

impl Reference {
    fn new(def: &RowForeignKey, child: Arc<RowTable>, parent: Arc<RowTable>) -> Bind<Reference> {
        let over = |index: &Arc<IndexData>| {
            let columns = &index.def().columns;
            index.def().unique
                && columns.len() == def.referred.len()
                && columns.iter().all(|at| def.referred.contains(at))
        };
        let index = if parent.primary.as_ref().is_some_and(over) {
            None
        } else {
            Some(parent.secondary.iter().position(over).ok_or(Refusal::Other)?)
        };
        Ok(Reference { def: def.clone(), child, parent, index })
    }

    fn index(&self) -> Result<&IndexData> {
        let index = match self.index {
            None => self.parent.primary.as_ref(),
            Some(at) => self.parent.secondary.get(at),
        };
        index.map(|index| &**index).ok_or_else(|| Error::bug("the index that a foreign key refers to is not there"))
    }

    /// The parent's key for values in the order of the foreign key; `None` where one is NULL or nothing the parent can have.
    fn key(&self, values: &[Datum<'_>]) -> Result<Option<Vec<u8>>> {
        let index = self.index()?;
        let mut bytes = Vec::new();
        for (column, part) in index.def().columns.iter().zip(index.keys()) {
            let at = self.def.referred.iter().position(|referred| referred == column);
            let value = at.and_then(|at| values.get(at)).cloned().unwrap_or_default();
            match rows::assign(part.ty, value) {
                Ok(Datum::Null) | Err(_) => return Ok(None),
                Ok(value) => key::push(&mut bytes, part, &value)?,
            }
        }
        Ok(Some(bytes))
    }

    /// Is there the row that a new row refers to? It is locked.
    fn refers<'a>(&'a self, row: &'a [u8], run: &mut Run<'a, '_>) -> Result<std::result::Result<(), Event>> {
        let values = fields(&self.child, row, &self.def.columns)?;
        if values.iter().any(Datum::is_null) {
            return Ok(Ok(()));
        }
        let found = match self.key(&values)? {
            Some(key) => run.txn.lock_key_row(&self.parent, self.index, &key, LockMode::KeyShare, run.guard)?,
            None => Locked::Gone,
        };
        match found {
            Locked::Row { .. } => Ok(Ok(())),
            Locked::Wait(event) => Ok(Err(event)),
            Locked::Gone | Locked::Skipped => {
                let text = format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    self.child.schema.name.table, self.def.name
                );
                let key = shown(&self.child, &self.def.columns, &values, run);
                let detail = format!("Key {key} is not present in table \"{}\".", self.parent.schema.name.table);
                Err(Error::new(SqlState::FOREIGN_KEY_VIOLATION, text).with_detail(detail))
            }
        }
    }

    /// Does nobody refer to a row that went away or changed?
    fn is_free<'a>(&'a self, row: &'a [u8], run: &mut Run<'a, '_>) -> Result<()> {
        let values = fields(&self.parent, row, &self.def.referred)?;
        let Some(key) = self.key(&values)? else { return Ok(()) };
        // The key is still there, or there again.
        if run.txn.has_key(&self.parent, self.index, &key, run.guard)? || !self.is_referred(&values, run)? {
            return Ok(());
        }
        let text = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            self.parent.schema.name.table, self.def.name, self.child.schema.name.table
        );
        let key = shown(&self.parent, &self.def.referred, &values, run);
        let detail = format!("Key {key} is still referenced from table \"{}\".", self.child.schema.name.table);
        Err(Error::new(SqlState::FOREIGN_KEY_VIOLATION, text).with_detail(detail))
    }

    /// Is there a child with these values? By an index that begins with its columns, if there is one.
    fn is_referred<'a>(&'a self, values: &[Datum<'a>], run: &mut Run<'a, '_>) -> Result<bool> {
        let columns = &self.def.columns;
        let mut indexes = self.child.primary.iter().chain(&self.child.secondary);
        let index = indexes.find(|index| {
            let first = index.def().columns.get(..columns.len());
            first.is_some_and(|first| first.iter().all(|column| columns.contains(column)))
        });
        let Some(index) = index else {
            for record in self.child.records.all() {
                if self.is_child(run.txn.newest(&self.child, record, run.guard)?, values)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        };
        let mut low = Vec::new();
        for (column, part) in index.def().columns.iter().zip(index.keys()).take(columns.len()) {
            let at = columns.iter().position(|other| other == column);
            let value = at.and_then(|at| values.get(at)).cloned().unwrap_or_default();
            // What a child's column cannot hold no child has.
            let Ok(value) = rows::assign(part.ty, value) else { return Ok(false) };
            key::push(&mut low, part, &value)?;
        }
        let mut high = low.clone();
        let to = if key::prefix_end(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
        let mut found = Ok(false);
        index.scan(Bound::Included(&low), to, Direction::Forward, run.guard, |_, record| {
            let row = run.txn.newest(&self.child, record, run.guard);
            found = row.and_then(|row| self.is_child(row, values));
            if matches!(found, Ok(false)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    fn is_child(&self, row: Option<&[u8]>, values: &[Datum<'_>]) -> Result<bool> {
        let Some(row) = row else { return Ok(false) };
        for (column, value) in self.def.columns.iter().zip(values) {
            let own = self.child.layout.field(row, *column)?;
            let ty = self.child.schema.columns[*column].ty;
            let same = rows::assign(ty, value.clone())
                .is_ok_and(|value| !own.is_null() && own.compare(&value).is_some_and(std::cmp::Ordering::is_eq));
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn fields<'a>(table: &'a RowTable, row: &'a [u8], columns: &[usize]) -> Result<Vec<Datum<'a>>> {
    columns.iter().map(|column| table.layout.field(row, *column)).collect()
}

/// `(a, b)=(1, 2)`
fn shown(table: &RowTable, columns: &[usize], values: &[Datum<'_>], run: &Run<'_, '_>) -> String {
    let names: Vec<&str> = columns.iter().map(|at| table.schema.columns[*at].name.as_str()).collect();
    let values: Vec<String> = values.iter().map(|value| text_of(value, run.frame.zone)).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}
