//! Foreign keys: checks and actions (CASCADE, SET NULL, SET DEFAULT). They run at the end of the statement, as in
//! PostgreSQL, and read the newest committed rows whatever the snapshot shows. Checks of deferred constraints run at
//! COMMIT ([`check_postponed`]), for the rows that the transaction has changed by then.
//!
//! The referenced row is locked `KeyShare` until the transaction ends. Deleting it or changing its key takes
//! `Update`, so no new reference appears in the meantime.
//!
//! Changes are processed in order. Rows changed by an action join the end of the queue, as PostgreSQL queues its
//! triggers, so chains and cycles of actions need no stack. The queue ends: a row is deleted only once, and setting
//! a key to its old value queues nothing. An equal key of another form, such as 0 for -0, is a new value.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Deferral, Error, Referential, Result, RowForeignKey, SqlState, TableId, TriggerEvent, Type};
use rows::{Direction, IndexData, Isolation, LockMode, Locked, Put, RecordId, RowTable, Txn, WaitPolicy, key};

use crate::cast::text_of_column;
use crate::constraints::Writer;
use crate::exec::{ExecContext, ReadSource, Run, SubPlans};
use crate::expr::Expr;
use crate::lower::{Lower, refused};
use crate::partitions::{Movement, PartitionCheck, Routes};
use crate::statement::{Session, Tables};
use crate::stored_expressions::StoredExpressions;

/// The foreign keys that a statement must check.
#[derive(Default)]
pub(crate) struct ForeignKeys {
    /// The statement's table first, then every table that actions can change.
    tables: Vec<Node>,
    /// Partitioned tables between whose partitions actions can move rows.
    routes: Vec<(TableId, Arc<Routes>)>,
}

/// The foreign keys of one table.
#[derive(Default)]
struct Node {
    /// Keys from this table to others.
    own: Vec<Reference>,
    /// Keys from other tables to this one.
    others: Vec<ReferencingKey>,
    /// Encodes rows changed by an action; `None` for the statement's own table.
    writer: Option<Writer>,
}

/// A foreign key and its two tables.
struct Reference {
    def: RowForeignKey,
    child: Arc<RowTable>,
    parent: Arc<RowTable>,
    /// The parent's unique index over the referenced columns: `None` for the primary key, else a secondary index by
    /// position.
    index: Option<usize>,
}

/// A foreign key that references the table, and its action.
struct ReferencingKey {
    reference: Reference,
    /// Position of the child in `tables` if an action can change it.
    child: Option<usize>,
    /// Values of SET DEFAULT for the referencing columns.
    defaults: Vec<Expr>,
    /// The movement of the child's rows to other partitions, if the key is one of the partitioned table and an action can
    /// change its partition key.
    movement: Option<Movement>,
}

/// A changed row: `old` is `None` for an insert, `new` is `None` for a delete.
pub(crate) struct Changed<'a> {
    pub(crate) record: RecordId,
    pub(crate) old: Option<&'a [u8]>,
    pub(crate) new: Option<&'a [u8]>,
}

/// The kind of change a statement makes to a table.
#[derive(Clone, Copy)]
pub(crate) enum ChangeKind<'s> {
    Insert,
    /// Only these columns.
    Update(&'s [(usize, Expr)]),
    Delete,
    /// Any change: the table is reached by actions.
    All,
}

impl ChangeKind<'_> {
    /// Whether it may change one of these columns of the table. Any change may change a generated column.
    fn touches(self, table: &RowTable, columns: &[usize]) -> bool {
        match self {
            ChangeKind::Insert | ChangeKind::Delete | ChangeKind::All => true,
            ChangeKind::Update(set) => {
                let is_generated = |column: &usize| table.schema.columns[*column].generated.is_some();
                set.iter().any(|(column, _)| columns.contains(column)) || columns.iter().any(is_generated)
            }
        }
    }

    /// Whether the change can trigger CASCADE, SET NULL or SET DEFAULT.
    fn acts(self, def: &RowForeignKey) -> bool {
        let acts = |action| !matches!(action, Referential::NoAction | Referential::Restrict);
        match self {
            ChangeKind::Insert => false,
            ChangeKind::Update(_) => acts(def.on_update),
            ChangeKind::Delete => acts(def.on_delete),
            ChangeKind::All => acts(def.on_update) || acts(def.on_delete),
        }
    }
}

impl ForeignKeys {
    /// Adds the foreign keys that this kind of change to `table` can violate or trigger.
    pub(crate) fn add(
        &mut self,
        table: &Arc<RowTable>,
        change: ChangeKind<'_>,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<()> {
        let mut known = Vec::new();
        if self.tables.is_empty() {
            self.tables.push(Node::default());
        }
        self.fill(0, table, change, &mut known, stored)
    }

    /// `known`: tables that actions reach, with their positions.
    fn fill(
        &mut self,
        at: usize,
        table: &Arc<RowTable>,
        change: ChangeKind<'_>,
        known: &mut Vec<(TableId, usize)>,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<()> {
        if !matches!(change, ChangeKind::Delete) {
            let is_checked = |def: &&RowForeignKey| !def.check_disabled && change.touches(table, &def.columns);
            for def in table.schema.foreign_keys.iter().filter(is_checked) {
                let is_own = def.table == table.id();
                let parent = if is_own { Some(Arc::clone(table)) } else { stored.tables.by_id(def.table) };
                let Some(parent) = parent else { return refused("a foreign key to a table that does not exist") };
                self.tables[at].own.push(Reference::new(def, Arc::clone(table), parent)?);
            }
        }
        if matches!(change, ChangeKind::Insert) {
            return Ok(());
        }
        for child in stored.tables.referring(table.id()) {
            let is_active = |def: &&RowForeignKey| def.table == table.id() && !def.action_disabled;
            for def in child.schema.foreign_keys.iter().filter(is_active) {
                if !change.touches(table, &def.referred) {
                    continue;
                }
                let reference = Reference::new(def, Arc::clone(&child), Arc::clone(table))?;
                let mut referencing = ReferencingKey { reference, child: None, defaults: Vec::new(), movement: None };
                if change.acts(def) {
                    referencing.child = Some(self.node(&child, known, stored)?);
                    let defaults = def.columns.iter().map(|column| stored.default(&child, *column));
                    referencing.defaults = defaults.collect::<Lower<_>>()?;
                    referencing.movement = self.movement(&child, def, stored)?;
                }
                self.tables[at].others.push(referencing);
            }
        }
        Ok(())
    }

    /// Adds a table that actions can change; returns its position.
    fn node(
        &mut self,
        table: &Arc<RowTable>,
        known: &mut Vec<(TableId, usize)>,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<usize> {
        if let Some((_, at)) = known.iter().find(|(id, _)| *id == table.id()) {
            return Ok(*at);
        }
        let at = self.tables.len();
        known.push((table.id(), at));
        let writer = Some(Writer::new(Arc::clone(table), stored)?);
        self.tables.push(Node { writer, ..Node::default() });
        self.fill(at, table, ChangeKind::All, known, stored)?;
        Ok(at)
    }

    /// The movement of rows that an action takes out of the bounds of their partition; `None` if it cannot, or if the key is the
    /// partition's own.
    fn movement(
        &mut self,
        child: &Arc<RowTable>,
        def: &RowForeignKey,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<Option<Movement>> {
        let is_partition_key = |check: &PartitionCheck| check.reads(def.columns.iter());
        if child.schema.lineage.key.is_some()
            || !PartitionCheck::of(child, stored)?.as_ref().is_some_and(is_partition_key)
        {
            return Ok(None);
        }
        let Some(root) = declared_in(child, def, stored.tables) else { return Ok(None) };
        let known = self.routes.iter().find(|(id, _)| *id == root.id()).map(|(_, routes)| Arc::clone(routes));
        let routes = match known {
            Some(routes) => routes,
            None => {
                let Some(routes) = Routes::of(&root, ChangeKind::Insert, stored)? else { return Ok(None) };
                self.routes.push((root.id(), Arc::clone(&routes)));
                routes
            }
        };
        Movement::of(child, &routes, def.columns.iter(), stored)
    }

    /// Tables that actions can change.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.tables.iter().filter_map(|node| node.writer.as_ref()).map(|writer| &writer.table)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|node| node.own.is_empty() && node.others.is_empty())
    }

    /// Checks all changes and runs the actions they trigger.
    pub(crate) fn follow<'a>(&'a self, changed: Vec<Changed<'a>>, run: &mut Run<'a>) -> Result<()> {
        let mut queue: VecDeque<(usize, Changed<'a>)> = changed.into_iter().map(|one| (0, one)).collect();
        while let Some((at, change)) = queue.pop_front() {
            run.ctx().look()?;
            let Some(node) = self.tables.get(at) else { continue };
            if let Some(old) = change.old {
                for referencing in &node.others {
                    self.parent_changed(referencing, old, change.new, run, &mut queue)?;
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

    /// Handles the delete or key change of a row that others may reference.
    fn parent_changed<'a>(
        &'a self,
        referencing: &'a ReferencingKey,
        old: &'a [u8],
        new: Option<&'a [u8]>,
        run: &mut Run<'a>,
        queue: &mut VecDeque<(usize, Changed<'a>)>,
    ) -> Result<()> {
        let ReferencingKey { reference, child, .. } = referencing;
        let def = &reference.def;
        let values = fields(&reference.parent, old, &def.referred)?;
        let new = new.map(|new| fields(&reference.parent, new, &def.referred)).transpose()?;
        if values.iter().any(Datum::is_null) || new.as_ref().is_some_and(|new| identical(&values, new)) {
            return Ok(());
        }
        let action = if new.is_some() { def.on_update } else { def.on_delete };
        let (Some(node), Referential::Cascade | Referential::SetNull | Referential::SetDefault) = (*child, action)
        else {
            return reference.refuse(&values, action, run);
        };
        for record in reference.children(&values, run)? {
            self.act((referencing, node), action, record, (&values, new.as_deref()), run, queue)?;
        }
        // Rows that already hold the default values reference the removed row.
        if action == Referential::SetDefault {
            reference.refuse_now(&values, Referential::NoAction, run)
        } else {
            Ok(())
        }
    }

    /// Applies an action to one referencing row, unless it no longer references the old key, and queues the change.
    fn act<'a>(
        &'a self,
        (referencing, node): (&'a ReferencingKey, usize),
        action: Referential,
        record: RecordId,
        (old_key, new_key): (&[Datum<'a>], Option<&[Datum<'a>]>),
        run: &mut Run<'a>,
        queue: &mut VecDeque<(usize, Changed<'a>)>,
    ) -> Result<()> {
        let ReferencingKey { reference, defaults, movement, .. } = referencing;
        let (table, guard) = (&reference.child, run.guard());
        let deletes = action == Referential::Cascade && new_key.is_none();
        let mode = if deletes { LockMode::Update } else { LockMode::NoKeyUpdate };
        let locked = run.txn(|txn| txn.lock_row(table, record, mode, WaitPolicy::Wait, guard))?;
        let row = match locked {
            Locked::Row { row, .. } => row,
            Locked::Gone | Locked::Skipped => return Ok(()),
            Locked::Wait(event) => return Err(run.ctx().wait(event)),
        };
        if !reference.is_child(Some(row), old_key)? {
            return Ok(());
        }
        let writer = self.tables.get(node).and_then(|node| node.writer.as_ref());
        let writer = writer.ok_or_else(|| Error::bug("a foreign key action on a table without a writer"))?;
        if deletes {
            if !writer.before_delete(row, run)? {
                return Ok(());
            }
            if let Some(event) = run.txn(|txn| txn.delete(table, record, guard))? {
                return Err(run.ctx().wait(event));
            }
            writer.note_change(TriggerEvent::Delete, (Some(row), None), &[], run)?;
            queue.push_back((node, Changed { record, old: Some(row), new: None }));
            return Ok(());
        }
        let mut set = Vec::new();
        let chosen = &reference.def.delete_columns;
        let is_set = |column: &usize| new_key.is_some() || chosen.is_empty() || chosen.contains(column);
        for (at, column) in reference.def.columns.iter().enumerate().filter(|(_, column)| is_set(column)) {
            let value = match (action, new_key) {
                (Referential::Cascade, Some(key)) => rows::coerce(table.schema.columns[*column].ty, key[at].clone())?,
                (Referential::SetDefault, _) => defaults[at].eval(&run.frame)?,
                _ => Datum::Null,
            };
            set.push((*column, value));
        }
        let Some(changes) = writer.before_update(row, &set, run)? else { return Ok(()) };
        let all: Vec<usize> = (0..table.schema.columns.len()).collect();
        let mut values = fields(table, row, &all)?;
        changes.iter().for_each(|(at, value)| values[*at] = value.clone());
        if let Some(movement) = movement
            && !movement.stays(&values, run)?
        {
            return self.move_row(movement, (node, table), (record, row), &values, run, queue);
        }
        let new = writer.make(&values, run)?;
        let put = run.txn(|txn| txn.update(table, record, new.into(), guard))?;
        match put {
            // A row with another primary key is in another record.
            Put::Done(record) => {
                writer.note_change(TriggerEvent::Update, (Some(row), Some(new)), &set, run)?;
                queue.push_back((node, Changed { record, old: Some(row), new: Some(new) }));
                Ok(())
            }
            Put::Wait(event) => Err(run.ctx().wait(event)),
            Put::Duplicate { index, .. } => Err(writer.duplicate(index, &writer.values(new)?, &run.frame)),
        }
    }

    /// Moves a row, which is locked, to the partition of its new values. Partitions have no row triggers.
    fn move_row<'a>(
        &'a self,
        movement: &'a Movement,
        (node, table): (usize, &Arc<RowTable>),
        (record, row): (RecordId, &'a [u8]),
        values: &[Datum<'a>],
        run: &mut Run<'a>,
        queue: &mut VecDeque<(usize, Changed<'a>)>,
    ) -> Result<()> {
        movement.check_leaving()?;
        let guard = run.guard();
        match run.txn(|txn| txn.lock_row(table, record, LockMode::Update, WaitPolicy::Wait, guard))? {
            Locked::Row { .. } => {}
            Locked::Wait(event) => return Err(run.ctx().wait(event)),
            Locked::Gone | Locked::Skipped => return Err(Error::bug("a locked row is gone")),
        }
        if let Some(event) = run.txn(|txn| txn.delete(table, record, guard))? {
            return Err(run.ctx().wait(event));
        }
        queue.push_back((node, Changed { record, old: Some(row), new: None }));
        let mut inserted = Vec::new();
        movement.insert(values, run, &mut inserted)?;
        for (leaf, change) in inserted {
            let id = movement.routes().leaves[leaf].table().id();
            let is_it = |node: &Node| node.writer.as_ref().is_some_and(|writer| writer.table.id() == id);
            let node = self.tables.iter().position(is_it);
            let node = node.ok_or_else(|| Error::bug("a partition without the foreign key of its table"))?;
            queue.push_back((node, change));
        }
        Ok(())
    }
}

/// The outermost partitioned table that has a foreign key of a partition; `None` if the key is the partition's own.
fn declared_in(table: &Arc<RowTable>, def: &RowForeignKey, tables: &dyn Tables) -> Option<Arc<RowTable>> {
    let names = |table: &RowTable, key: &RowForeignKey| -> Vec<String> {
        key.columns.iter().map(|at| table.schema.columns[*at].name.clone()).collect()
    };
    let columns = names(table, def);
    let (mut below, mut name, mut found) = (Arc::clone(table), def.name.clone(), None);
    while below.schema.lineage.foreign_keys.contains(&name) {
        let Some(parent) = below.schema.lineage.parents.first().and_then(|id| tables.by_id(*id)) else { break };
        let is_it = |key: &&RowForeignKey| {
            key.table == def.table && key.referred == def.referred && names(&parent, key) == columns
        };
        let mut keys = parent.schema.foreign_keys.iter().filter(is_it);
        let Some(first) = keys.next() else { break };
        name = std::iter::once(first).chain(keys).find(|key| key.name == name).unwrap_or(first).name.clone();
        found = Some(Arc::clone(&parent));
        below = parent;
    }
    found
}

/// Foreign keys of one changed table, for [`check_postponed`].
struct Postponed {
    own: Vec<Reference>,
    others: Vec<Reference>,
    records: Vec<RecordId>,
    table: Arc<RowTable>,
}

/// Checks deferrable foreign keys for all rows that the transaction has changed. `Ok(Err(event))`: wait, then call again.
///
/// - `which`: whether to check the constraint of a table.
///
/// # Errors
/// 23503 for a row that violates one; those of locks.
pub fn check_postponed(
    txn: &mut Txn,
    tables: &dyn Tables,
    which: &dyn Fn(TableId, &RowForeignKey) -> bool,
    session: Session<'_>,
    guard: &Guard,
) -> Result<std::result::Result<(), Event>> {
    let mut all = Vec::new();
    for (table, records) in txn.changed_records() {
        let is_due = |child: TableId, def: &&RowForeignKey| def.deferral != Deferral::Never && which(child, def);
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for def in table.schema.foreign_keys.iter().filter(|def| !def.check_disabled && is_due(table.id(), def)) {
            let parent = if def.table == table.id() { Some(Arc::clone(&table)) } else { tables.by_id(def.table) };
            let Some(parent) = parent else { continue };
            own.push(Reference::of(def, Arc::clone(&table), parent)?);
        }
        for child in tables.referring(table.id()) {
            let child = if child.id() == table.id() { Arc::clone(&table) } else { child };
            let refers =
                |def: &&RowForeignKey| def.table == table.id() && !def.action_disabled && is_due(child.id(), def);
            for def in child.schema.foreign_keys.iter().filter(refers) {
                others.push(Reference::of(def, Arc::clone(&child), Arc::clone(&table))?);
            }
        }
        if !own.is_empty() || !others.is_empty() {
            all.push(Postponed { own, others, records, table });
        }
    }
    if all.is_empty() {
        return Ok(Ok(()));
    }
    let arena = Bump::new();
    let ctx = ExecContext::new(&[], &arena, guard, session, SubPlans::default(), ReadSource::of(txn));
    let mut run = Run::new(&[], &ctx, Vec::new());
    let checked = all.iter().try_for_each(|one| one.check(&mut run));
    match (checked, ctx.waits()) {
        (Ok(()), _) => Ok(Ok(())),
        (Err(_), Some(event)) => Ok(Err(event)),
        (Err(error), None) => Err(error),
    }
}

impl Postponed {
    fn check<'a>(&'a self, run: &mut Run<'a>) -> Result<()> {
        for record in self.records.iter().copied() {
            run.ctx().look()?;
            let (old, new) = run.txn(|txn| txn.row_change(&self.table, record, run.guard()))?;
            if let Some(old) = old {
                for reference in &self.others {
                    let values = fields(&self.table, old, &reference.def.referred)?;
                    let after = new.map(|new| fields(&self.table, new, &reference.def.referred)).transpose()?;
                    let is_kept = after.as_ref().is_some_and(|after| identical(&values, after));
                    if !is_kept && !values.iter().any(Datum::is_null) {
                        reference.refuse_now(&values, Referential::NoAction, run)?;
                    }
                }
            }
            if let Some(new) = new {
                for reference in &self.own {
                    reference.check_now(&Changed { record, old, new: Some(new) }, new, run)?;
                }
            }
        }
        Ok(())
    }
}

impl ForeignKeys {
    /// Filters out the new rows whose referenced row exists.
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
    /// Like [`Reference::new`], of keys that a statement has used before.
    fn of(def: &RowForeignKey, child: Arc<RowTable>, parent: Arc<RowTable>) -> Result<Reference> {
        let unknown = || Error::bug("a foreign key without an index that it refers to");
        Reference::new(def, child, parent).map_err(|stop| stop.into_error(unknown))
    }

    fn new(def: &RowForeignKey, child: Arc<RowTable>, parent: Arc<RowTable>) -> Lower<Reference> {
        let over = |index: &Arc<IndexData>| {
            let columns = &index.def().columns;
            index.def().unique
                && index.def().predicate.is_none()
                && columns.len() == def.referred.len()
                && columns.iter().all(|at| def.referred.contains(at))
        };
        let index = if parent.primary.as_ref().is_some_and(over) {
            None
        } else {
            match parent.secondary.iter().position(over) {
                Some(at) => Some(at),
                None => return refused("a foreign key without an index"),
            }
        };
        Ok(Reference { def: def.clone(), child, parent, index })
    }

    fn index(&self) -> Result<&IndexData> {
        let index = match self.index {
            None => self.parent.primary.as_ref(),
            Some(at) => self.parent.secondary.get(at),
        };
        index.map(|index| &**index).ok_or_else(|| Error::bug("the index referenced by a foreign key does not exist"))
    }

    /// Encodes the parent's key, given values in the foreign key's order. `None` if one is NULL or out of range for
    /// the parent's column.
    fn key(&self, values: &[Datum<'_>]) -> Result<Option<Vec<u8>>> {
        let index = self.index()?;
        let mut bytes = Vec::new();
        for (column, part) in index.def().columns.iter().zip(index.keys()) {
            let at = self.def.referred.iter().position(|referred| referred == column);
            let value = at.and_then(|at| values.get(at)).cloned().unwrap_or_default();
            match rows::coerce(part.ty, value) {
                Ok(Datum::Null) | Err(_) => return Ok(None),
                Ok(value) => key::push(&mut bytes, part, &value)?,
            }
        }
        Ok(Some(bytes))
    }

    /// Whether the check of a changed row of `table`, one of the two, is left to the end of the transaction.
    fn is_postponed(&self, table: &RowTable, run: &Run<'_>) -> Result<bool> {
        if self.def.deferral == Deferral::Never {
            return Ok(false);
        }
        run.txn(|txn| {
            let initially = self.def.deferral == Deferral::Deferred;
            let is_deferred = txn.is_deferred(self.child.id(), &self.def.name, initially);
            if is_deferred {
                txn.postpone(table.id());
            }
            Ok(is_deferred)
        })
    }

    /// Checks a new or changed row, unless that is left to the end of the transaction.
    fn check<'a>(&'a self, change: &Changed<'a>, new: &'a [u8], run: &mut Run<'a>) -> Result<()> {
        if self.is_postponed(&self.child, run)? { Ok(()) } else { self.check_now(change, new, run) }
    }

    /// Error 23503 if the referenced row of a new or changed row does not exist; else locks it.
    fn check_now<'a>(&'a self, change: &Changed<'a>, new: &'a [u8], run: &mut Run<'a>) -> Result<()> {
        let values = fields(&self.child, new, &self.def.columns)?;
        if values.iter().any(Datum::is_null) {
            if !self.def.match_full || values.iter().all(Datum::is_null) {
                return Ok(());
            }
            let table = &self.child.schema.name.table;
            let text =
                format!("insert or update on table \"{table}\" violates foreign key constraint \"{}\"", self.def.name);
            return Err(self.violated(text, "MATCH FULL does not allow mixing of null and nonnull key values.".into()));
        }
        if let Some(old) = change.old
            && self.is_same(&fields(&self.child, old, &self.def.columns)?, &values)?
        {
            return Ok(());
        }
        // The row was deleted, or its key was changed again: then that change is checked instead.
        let Some(newest) = run.txn(|txn| txn.newest(&self.child, change.record, run.guard()))? else { return Ok(()) };
        if newest != new && !self.is_same(&fields(&self.child, newest, &self.def.columns)?, &values)? {
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
            Locked::Wait(event) => Err(run.ctx().wait(event)),
            Locked::Gone | Locked::Skipped => {
                if let Some(key) = &key {
                    self.check_snapshot(key, run)?;
                }
                let text = format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    self.child.schema.name.table, self.def.name
                );
                let key = key_text(&self.child, &self.def.columns, &values, run);
                let detail = format!("Key {key} is not present in table \"{}\".", self.parent.schema.name.table);
                Err(self.violated(text, detail))
            }
        }
    }

    /// Error 40001 if the snapshot still shows the referenced row: the transaction may succeed when it is run
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

    /// Refuses the removal of a key, unless that is left to the end of the transaction.
    fn refuse<'a>(&'a self, values: &[Datum<'a>], action: Referential, run: &mut Run<'a>) -> Result<()> {
        if action != Referential::Restrict && self.is_postponed(&self.parent, run)? {
            return Ok(());
        }
        self.refuse_now(values, action, run)
    }

    /// Error 23503 if a row still references the removed key.
    fn refuse_now<'a>(&'a self, values: &[Datum<'a>], action: Referential, run: &mut Run<'a>) -> Result<()> {
        let Some(key) = self.key(values)? else { return Ok(()) };
        // NO ACTION is satisfied if the key exists again.
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
        let key = key_text(&self.parent, &self.def.referred, values, run);
        let detail = format!("Key {key} is still referenced from table \"{}\".", self.child.schema.name.table);
        Err(self.violated(text, detail))
    }

    fn violated(&self, text: String, detail: String) -> Error {
        let error = Error::new(SqlState::FOREIGN_KEY_VIOLATION, text).with_detail(detail);
        error.about_constraint(&self.child.schema.name, &self.def.name)
    }

    /// Records of the rows that reference these values. Uses an index whose first columns are the referencing
    /// columns, if there is one.
    fn children<'a>(&'a self, values: &[Datum<'a>], run: &mut Run<'a>) -> Result<Vec<RecordId>> {
        let (ctx, guard) = (run.ctx(), run.guard());
        let mut found = Vec::new();
        let mut look = |record| {
            ctx.look()?;
            let row = ctx.txn(|txn| txn.newest(&self.child, record, guard))?;
            if self.is_child(row, values)? {
                found.push(record);
            }
            Ok(())
        };
        let columns = &self.def.columns;
        let mut indexes = self.child.primary.iter().chain(&self.child.secondary);
        let index = indexes.find(|index| {
            let first = index
                .def()
                .columns
                .get(..columns.len())
                .filter(|_| index.def().predicate.is_none() && !index.is_inverted());
            first.is_some_and(|first| first.iter().all(|column| columns.contains(column)))
        });
        let Some(index) = index else {
            ctx.note_table(&self.child);
            self.child.records.all().try_for_each(look)?;
            return Ok(found);
        };
        let mut low = Vec::new();
        for (column, part) in index.def().columns.iter().zip(index.keys()).take(columns.len()) {
            let at = columns.iter().position(|other| other == column);
            let value = at.and_then(|at| values.get(at)).cloned().unwrap_or_default();
            // A value out of range for the child's column is in no child row.
            let Ok(value) = rows::coerce(part.ty, value) else { return Ok(found) };
            key::push(&mut low, part, &value)?;
        }
        let mut high = low.clone();
        let to = if key::prefix_end(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
        let mut ended = Ok(());
        ctx.note_range(&self.child, index, Bound::Included(&low), to);
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
            // A value out of range for the child's column is in no child row.
            let Ok(value) = rows::coerce(ty, value.clone()) else { return Ok(false) };
            if own.is_null() || !is_equal(ty, &own, &value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether values of the referencing columns are equal.
    fn is_same(&self, left: &[Datum<'_>], right: &[Datum<'_>]) -> Result<bool> {
        for ((column, left), right) in self.def.columns.iter().zip(left).zip(right) {
            if !is_equal(self.child.schema.columns[*column].ty, left, right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether two values of a type are equal. Some types have their equality in the keys of indexes only: `1.0` and `1.00` are
/// equal as `jsonb`.
fn is_equal(ty: Type, left: &Datum<'_>, right: &Datum<'_>) -> Result<bool> {
    let is_direct = match ty {
        Type::Other(other) => other.is_compared_directly(),
        _ => true,
    };
    if is_direct || left.is_null() || right.is_null() {
        return Ok(left.compare(right).is_some_and(std::cmp::Ordering::is_eq));
    }
    let part = key::KeyColumn::new(ty);
    let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
    key::push(&mut left_key, &part, left)?;
    key::push(&mut right_key, &part, right)?;
    Ok(left_key == right_key)
}

fn fields<'a>(table: &'a RowTable, row: &'a [u8], columns: &[usize]) -> Result<Vec<Datum<'a>>> {
    columns.iter().map(|column| table.layout.field(row, *column)).collect()
}

/// Whether no value differs in any way, as -0 and 0, numerics of other scale, and a month and 30 days do.
fn identical(left: &[Datum<'_>], right: &[Datum<'_>]) -> bool {
    left.iter().zip(right).all(|(left, right)| match (left, right) {
        (Datum::Float4(left), Datum::Float4(right)) => left.to_bits() == right.to_bits(),
        (Datum::Float8(left), Datum::Float8(right)) => left.to_bits() == right.to_bits(),
        (Datum::Numeric(left), Datum::Numeric(right)) => left == right && left.scale() == right.scale(),
        _ => left == right,
    })
}

/// The key in an error's detail: `(a, b)=(1, 2)`.
fn key_text(table: &RowTable, columns: &[usize], values: &[Datum<'_>], run: &Run<'_>) -> String {
    let names: Vec<&str> = columns.iter().map(|at| table.schema.columns[*at].name.as_str()).collect();
    let shown =
        |(value, at): (&Datum<'_>, &usize)| text_of_column(value, table.schema.columns[*at].ty, run.ctx().session.zone);
    let values: Vec<String> = values.iter().zip(columns).map(shown).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}
