//! Foreign keys: every row has the row it refers to. They are looked at when a statement has changed all it changes, as
//! PostgreSQL does it, and as of the newest commits, whatever the snapshot shows.
//!
//! The row referred to is locked `KeyShare`, so that it stays until the transaction ends; deleting it, or changing its key,
//! takes `Update`, so that nobody comes to refer to it meanwhile.
//!
//! Changes are looked at in the order of their making. What an action (CASCADE, SET NULL, SET DEFAULT) changes joins the end of
//! that line, as PostgreSQL queues its triggers, so that chains and circles of them need no stack. They end: a row is deleted once,
//! and a key that is changed to what it is changes nothing.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use model::{Datum, Error, Referential, Result, RowForeignKey, SqlState, TableId};
use rows::{Direction, IndexData, Isolation, LockMode, Locked, Put, RecordId, RowTable, WaitPolicy, key};

use crate::bind::{Bind, Binder, Refusal};
use crate::cast::text_of;
use crate::constraints::{Writer, default_of};
use crate::exec::Run;
use crate::expr::Expr;
use crate::scope::Scope;

/// The keys that a statement has to look at.
#[derive(Default)]
pub(crate) struct Foreign {
    /// The statement's table first; then those that actions come to, each once.
    tables: Vec<Node>,
}

/// One table, and its keys.
#[derive(Default)]
struct Node {
    /// Of this table to others.
    own: Vec<Reference>,
    /// Of others to this table.
    others: Vec<Incoming>,
    /// For rows that an action changes; the statement's own it changes itself.
    writer: Option<Writer>,
}

/// One foreign key, with both tables.
struct Reference {
    def: RowForeignKey,
    child: Arc<RowTable>,
    parent: Arc<RowTable>,
    /// The parent's index over the columns referred to: the primary one, or a secondary one by position.
    index: Option<usize>,
}

/// A key by which rows of another table refer to a table's.
struct Incoming {
    reference: Reference,
    /// The other table, if an action may change it.
    child: Option<usize>,
    /// What SET DEFAULT gives the referring columns.
    defaults: Vec<Expr>,
}

/// A row of a statement's table before and after; nothing where there was none, or is none.
pub(crate) struct Changed<'a> {
    pub(crate) record: RecordId,
    pub(crate) old: Option<&'a [u8]>,
    pub(crate) new: Option<&'a [u8]>,
}

/// What a statement does to rows of a table.
#[derive(Clone, Copy)]
pub(crate) enum Does<'s> {
    Insert,
    /// Some columns get new values.
    Update(&'s [(usize, Expr)]),
    Delete,
    /// Any of it.
    All,
}

impl Does<'_> {
    fn touches(self, columns: &[usize]) -> bool {
        match self {
            Does::Insert | Does::Delete | Does::All => true,
            Does::Update(set) => set.iter().any(|(column, _)| columns.contains(column)),
        }
    }

    /// May it come to an action other than refusing?
    fn acts(self, def: &RowForeignKey) -> bool {
        let acts = |action| !matches!(action, Referential::NoAction | Referential::Restrict);
        match self {
            Does::Insert => false,
            Does::Update(_) => acts(def.on_update),
            Does::Delete => acts(def.on_delete),
            Does::All => acts(def.on_update) || acts(def.on_delete),
        }
    }
}

impl Foreign {
    /// Adds what a statement has to look at that does this to its table.
    pub(crate) fn add(
        &mut self,
        binder: &mut Binder,
        table: &Arc<RowTable>,
        does: Does<'_>,
        scope: &mut Scope<'_>,
    ) -> Bind<()> {
        let mut known = Vec::new();
        if self.tables.is_empty() {
            self.tables.push(Node::default());
        }
        self.fill(0, binder, table, does, &mut known, scope)
    }

    /// `known` says which tables that actions come to are there already.
    fn fill(
        &mut self,
        at: usize,
        binder: &mut Binder,
        table: &Arc<RowTable>,
        does: Does<'_>,
        known: &mut Vec<(TableId, usize)>,
        scope: &mut Scope<'_>,
    ) -> Bind<()> {
        if !matches!(does, Does::Delete) {
            for def in table.schema.foreign_keys.iter().filter(|def| does.touches(&def.columns)) {
                let is_own = def.table == table.id();
                let parent = if is_own { Some(Arc::clone(table)) } else { scope.tables.by_id(def.table) };
                self.tables[at].own.push(Reference::new(def, Arc::clone(table), parent.ok_or(Refusal::Other)?)?);
            }
        }
        if matches!(does, Does::Insert) {
            return Ok(());
        }
        for child in scope.tables.referring(table.id()) {
            for def in child.schema.foreign_keys.iter().filter(|def| def.table == table.id()) {
                if !does.touches(&def.referred) {
                    continue;
                }
                let reference = Reference::new(def, Arc::clone(&child), Arc::clone(table))?;
                let mut incoming = Incoming { reference, child: None, defaults: Vec::new() };
                if does.acts(def) {
                    incoming.child = Some(self.node(binder, &child, known, scope)?);
                    let defaults = def.columns.iter().map(|column| default_of(binder, &child, *column, scope));
                    incoming.defaults = defaults.collect::<Bind<_>>()?;
                }
                self.tables[at].others.push(incoming);
            }
        }
        Ok(())
    }

    /// The table that an action comes to.
    fn node(
        &mut self,
        binder: &mut Binder,
        table: &Arc<RowTable>,
        known: &mut Vec<(TableId, usize)>,
        scope: &mut Scope<'_>,
    ) -> Bind<usize> {
        if let Some((_, at)) = known.iter().find(|(id, _)| *id == table.id()) {
            return Ok(*at);
        }
        let at = self.tables.len();
        known.push((table.id(), at));
        let writer = Some(Writer::new(Arc::clone(table), scope)?);
        self.tables.push(Node { writer, ..Node::default() });
        self.fill(at, binder, table, Does::All, known, scope)?;
        Ok(at)
    }

    /// The tables whose rows actions change.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.tables.iter().filter_map(|node| node.writer.as_ref()).map(|writer| &writer.table)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|node| node.own.is_empty() && node.others.is_empty())
    }

    /// Looks at what has changed, and does what follows from it.
    pub(crate) fn follow<'a>(&'a self, changed: Vec<Changed<'a>>, run: &mut Run<'a>) -> Result<()> {
        let mut queue: VecDeque<(usize, Changed<'a>)> = changed.into_iter().map(|one| (0, one)).collect();
        while let Some((at, change)) = queue.pop_front() {
            run.world().look()?;
            let Some(node) = self.tables.get(at) else { continue };
            if let Some(old) = change.old {
                for incoming in &node.others {
                    self.parent_changed(incoming, old, change.new, run, &mut queue)?;
                }
            }
            if let Some(new) = change.new {
                for reference in &node.own {
                    reference.check(&change, new, run)?;
                }
            }
        }
        Ok(())
    }

    /// A row that others may refer to went away, or changed.
    fn parent_changed<'a>(
        &'a self,
        incoming: &'a Incoming,
        old: &'a [u8],
        new: Option<&'a [u8]>,
        run: &mut Run<'a>,
        queue: &mut VecDeque<(usize, Changed<'a>)>,
    ) -> Result<()> {
        let Incoming { reference, child, .. } = incoming;
        let def = &reference.def;
        let values = fields(&reference.parent, old, &def.referred)?;
        let new = new.map(|new| fields(&reference.parent, new, &def.referred)).transpose()?;
        if values.iter().any(Datum::is_null) || new.as_ref().is_some_and(|new| same(&values, new)) {
            return Ok(());
        }
        let action = if new.is_some() { def.on_update } else { def.on_delete };
        let (Some(node), Referential::Cascade | Referential::SetNull | Referential::SetDefault) = (*child, action)
        else {
            return reference.refuse(&values, action, run);
        };
        for record in reference.children(&values, run)? {
            let change = self.act(incoming, node, action, record, (&values, new.as_deref()), run)?;
            queue.extend(change.map(|change| (node, change)));
        }
        // Who has the default already refers to the row that is gone.
        if action == Referential::SetDefault { reference.refuse(&values, Referential::NoAction, run) } else { Ok(()) }
    }

    /// What becomes of a row that referred to one which went away, or changed; nothing if it does so no more.
    fn act<'a>(
        &'a self,
        incoming: &'a Incoming,
        node: usize,
        action: Referential,
        record: RecordId,
        (old_key, new_key): (&[Datum<'a>], Option<&[Datum<'a>]>),
        run: &mut Run<'a>,
    ) -> Result<Option<Changed<'a>>> {
        let Incoming { reference, defaults, .. } = incoming;
        let (table, guard) = (&reference.child, run.guard());
        let deletes = action == Referential::Cascade && new_key.is_none();
        let mode = if deletes { LockMode::Update } else { LockMode::NoKeyUpdate };
        let locked = run.txn(|txn| txn.lock_row(table, record, mode, WaitPolicy::Wait, guard))?;
        let row = match locked {
            Locked::Row { row, .. } => row,
            Locked::Gone | Locked::Skipped => return Ok(None),
            Locked::Wait(event) => return Err(run.world().wait(event)),
        };
        if !reference.is_child(Some(row), old_key)? {
            return Ok(None);
        }
        if deletes {
            let waits = run.txn(|txn| txn.delete(table, record, guard))?;
            return match waits {
                Some(event) => Err(run.world().wait(event)),
                None => Ok(Some(Changed { record, old: Some(row), new: None })),
            };
        }
        let writer = self.tables.get(node).and_then(|node| node.writer.as_ref());
        let writer = writer.ok_or_else(|| Error::bug("an action on a table that is not written"))?;
        let all: Vec<usize> = (0..table.schema.columns.len()).collect();
        let mut values = fields(table, row, &all)?;
        for (at, column) in reference.def.columns.iter().enumerate() {
            values[*column] = match (action, new_key) {
                (Referential::Cascade, Some(key)) => rows::assign(table.schema.columns[*column].ty, key[at].clone())?,
                (Referential::SetDefault, _) => defaults[at].eval(&run.frame)?,
                _ => Datum::Null,
            };
        }
        let new = writer.make(&values, run)?;
        let put = run.txn(|txn| txn.update(table, record, new.into(), guard))?;
        match put {
            Put::Done(_) => Ok(Some(Changed { record, old: Some(row), new: Some(new) })),
            Put::Wait(event) => Err(run.world().wait(event)),
            Put::Duplicate { index, .. } => Err(writer.duplicate(index, &values, &run.frame)),
        }
    }
}

impl Foreign {
    /// Of new rows those that refer to rows which are not there.
    pub(crate) fn dangling<'a>(&'a self, changed: Vec<Changed<'a>>, run: &mut Run<'a>) -> Result<Vec<Changed<'a>>> {
        let mut found = Vec::new();
        for change in changed {
            let (Some(node), Some(new)) = (self.tables.first(), change.new) else { continue };
            match node.own.iter().try_for_each(|reference| reference.check(&change, new, run)) {
                Ok(()) => {}
                Err(error) if error.state() == SqlState::FOREIGN_KEY_VIOLATION => found.push(change),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
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

    /// Is there the row that a new or changed row refers to? It is locked.
    fn check<'a>(&'a self, change: &Changed<'a>, new: &'a [u8], run: &mut Run<'a>) -> Result<()> {
        let values = fields(&self.child, new, &self.def.columns)?;
        if values.iter().any(Datum::is_null) {
            return Ok(());
        }
        if let Some(old) = change.old
            && same(&fields(&self.child, old, &self.def.columns)?, &values)
        {
            return Ok(());
        }
        // What was changed again, or deleted, is looked at there.
        if run.txn(|txn| txn.newest(&self.child, change.record, run.guard()))? != Some(new) {
            return Ok(());
        }
        let key = self.key(&values)?;
        let found = match &key {
            Some(key) => {
                run.txn(|txn| txn.lock_key_row(&self.parent, self.index, key, LockMode::KeyShare, run.guard()))?
            }
            None => Locked::Gone,
        };
        match found {
            Locked::Row { .. } => Ok(()),
            Locked::Wait(event) => Err(run.world().wait(event)),
            Locked::Gone | Locked::Skipped => {
                if let Some(key) = &key {
                    self.check_snapshot(key, run)?;
                }
                let text = format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    self.child.schema.name.table, self.def.name
                );
                let key = shown(&self.child, &self.def.columns, &values, run);
                let detail = format!("Key {key} is not present in table \"{}\".", self.parent.schema.name.table);
                Err(self.violated(text, detail))
            }
        }
    }

    /// An error if the row referred to, which is not there, is there for a snapshot that stays: the transaction may find it if it is run
    /// again.
    fn check_snapshot(&self, key: &[u8], run: &Run<'_>) -> Result<()> {
        let (parent, guard) = (&self.parent, run.guard());
        let was_there = run.txn(|txn| {
            Ok(txn.isolation() >= Isolation::RepeatableRead && txn.saw_key(parent, self.index, key, guard)?)
        })?;
        if !was_there {
            return Ok(());
        }
        let text = "could not serialize access due to concurrent update";
        Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again"))
    }

    /// An error if somebody refers to a row that went away or changed.
    fn refuse<'a>(&'a self, values: &[Datum<'a>], action: Referential, run: &mut Run<'a>) -> Result<()> {
        let Some(key) = self.key(values)? else { return Ok(()) };
        // The key may be there again, which is good enough for NO ACTION.
        if action != Referential::Restrict && run.txn(|txn| txn.has_key(&self.parent, self.index, &key, run.guard()))? {
            return Ok(());
        }
        if self.children(values, run)?.is_empty() {
            return Ok(());
        }
        let text = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            self.parent.schema.name.table, self.def.name, self.child.schema.name.table
        );
        let key = shown(&self.parent, &self.def.referred, values, run);
        let detail = format!("Key {key} is still referenced from table \"{}\".", self.child.schema.name.table);
        Err(self.violated(text, detail))
    }

    fn violated(&self, text: String, detail: String) -> Error {
        let error = Error::new(SqlState::FOREIGN_KEY_VIOLATION, text).with_detail(detail);
        error.about_constraint(&self.child.schema.name, &self.def.name)
    }

    /// The children with these values. By an index that begins with their columns, if there is one.
    fn children<'a>(&'a self, values: &[Datum<'a>], run: &mut Run<'a>) -> Result<Vec<RecordId>> {
        let (world, guard) = (run.world(), run.guard());
        let mut found = Vec::new();
        let mut look = |record| {
            world.look()?;
            let row = world.txn(|txn| txn.newest(&self.child, record, guard))?;
            if self.is_child(row, values)? {
                found.push(record);
            }
            Ok(())
        };
        let columns = &self.def.columns;
        let mut indexes = self.child.primary.iter().chain(&self.child.secondary);
        let index = indexes.find(|index| {
            let first = index.def().columns.get(..columns.len());
            first.is_some_and(|first| first.iter().all(|column| columns.contains(column)))
        });
        let Some(index) = index else {
            world.note_table(&self.child);
            self.child.records.all().try_for_each(look)?;
            return Ok(found);
        };
        let mut low = Vec::new();
        for (column, part) in index.def().columns.iter().zip(index.keys()).take(columns.len()) {
            let at = columns.iter().position(|other| other == column);
            let value = at.and_then(|at| values.get(at)).cloned().unwrap_or_default();
            // What a child's column cannot hold no child has.
            let Ok(value) = rows::assign(part.ty, value) else { return Ok(found) };
            key::push(&mut low, part, &value)?;
        }
        let mut high = low.clone();
        let to = if key::prefix_end(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
        let mut ended = Ok(());
        world.note_range(&self.child, index, Bound::Included(&low), to);
        index.scan(Bound::Included(&low), to, Direction::Forward, guard, |_, record| {
            ended = look(record);
            if ended.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        ended.map(|()| found)
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

/// Are keys the same?
fn same(left: &[Datum<'_>], right: &[Datum<'_>]) -> bool {
    left.iter().zip(right).all(|(left, right)| left.compare(right).is_some_and(std::cmp::Ordering::is_eq))
}

/// `(a, b)=(1, 2)`
fn shown(table: &RowTable, columns: &[usize], values: &[Datum<'_>], run: &Run<'_>) -> String {
    let names: Vec<&str> = columns.iter().map(|at| table.schema.columns[*at].name.as_str()).collect();
    let values: Vec<String> = values.iter().map(|value| text_of(value, run.world().session.zone)).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}
