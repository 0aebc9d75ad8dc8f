//! Rows of partitioned tables: the partition of a new row, and the check of a row that is written to a partition itself.

use std::sync::Arc;

use binder::DefinitionClause;
use model::{Datum, Error, PartitionBound, PartitionKey, PartitionKeySource, Result, RowSchema, SqlState, TableId};
use rows::row::{ColumnLayout, RowLayout};
use rows::{Put, Records, RowTable};

use crate::cast::text_of;
use crate::constraints::{TARGET, Writer};
use crate::ddl::empty_table;
use crate::exec::Run;
use crate::expr::{Expr, Frame};
use crate::foreign_keys::{ChangeKind, Changed, ForeignKeys};
use crate::lower::{Lower, refused};
use crate::partition_bounds::{Bounds, key_text};
use crate::stored_expressions::{StoredExpressions, parsed, table_column};

/// Maximum number of levels of partitions.
pub(crate) const LEVELS_MAX: usize = 64;

/// The values of a partition key for a row of a table, which is the partitioned table or one of its descendants.
pub(crate) struct KeyValues {
    parts: Vec<KeyValue>,
    /// Layout of the row for the expressions; `None` if all parts are columns. Every column of it may be NULL: a row finds
    /// its partition before its constraints are checked.
    layout: Option<Arc<RowLayout>>,
}

enum KeyValue {
    Column(usize),
    /// Over slot [`TARGET`].
    Expr(Expr),
}

impl KeyValues {
    /// Binds the key of `owner` for rows of `table`, whose columns have the same names.
    pub(crate) fn bind(
        owner: &RowSchema,
        key: &PartitionKey,
        table: &RowSchema,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<KeyValues> {
        let mut nullable: Option<Arc<RowTable>> = None;
        let mut parts = Vec::with_capacity(key.parts.len());
        for part in &key.parts {
            parts.push(match &part.source {
                PartitionKeySource::Column(at) => KeyValue::Column(column_of(owner, *at, table)?),
                PartitionKeySource::Expression(sql) => {
                    let row = match &nullable {
                        Some(row) => Arc::clone(row),
                        None => Arc::clone(nullable.insert(nullable_table(table)?)),
                    };
                    let ty = table_column(&model::RowColumn::new("", part.ty));
                    let expr = parsed(sql)?;
                    KeyValue::Expr(stored.expression(&expr, &row, DefinitionClause::Using(&ty))?)
                }
            });
        }
        Ok(KeyValues { parts, layout: nullable.map(|table| Arc::clone(&table.layout)) })
    }

    /// Positions of the columns that are parts of the key.
    fn columns(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(|part| match part {
            KeyValue::Column(at) => Some(*at),
            KeyValue::Expr(_) => None,
        })
    }

    /// The key of a row with these values. The row in slot [`TARGET`] is left as it was.
    pub(crate) fn of<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<Vec<Datum<'a>>> {
        let before = run.slot(TARGET).get();
        if let Some(layout) = &self.layout {
            let mut bytes = Vec::new();
            layout.encode(values, &mut bytes)?;
            run.slot(TARGET).set(Some(run.ctx().arena.alloc_slice_copy(&bytes)));
        }
        let value = |part: &'a KeyValue| match part {
            KeyValue::Column(at) => Ok(values[*at].clone()),
            KeyValue::Expr(expr) => expr.eval(&run.frame),
        };
        let key = self.parts.iter().map(value).collect();
        run.slot(TARGET).set(before);
        key
    }
}

/// A table of this description, for binding, in which every column may be NULL.
fn nullable_table(table: &RowSchema) -> Result<Arc<RowTable>> {
    let mut schema = table.clone();
    schema.primary = None;
    schema.columns.iter_mut().for_each(|column| column.not_null = false);
    let columns: Vec<_> = schema.columns.iter().map(|column| ColumnLayout::new(column.ty, false)).collect();
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::new(&columns)?),
        records: Arc::new(Records::new()),
        primary: None,
        secondary: Vec::new(),
        schema: Arc::new(schema),
        derived: rows::Derived::default(),
    }))
}

/// The position in `to` of a column of `from`.
fn column_of(from: &RowSchema, at: usize, to: &RowSchema) -> Result<usize> {
    let name = from.columns.get(at).map_or("", |column| column.name.as_str());
    to.column(name)
        .ok_or_else(|| Error::corrupt(format!("relation {} lacks the column {name} of {}", to.name, from.name)))
}

/// Returns for each column of `to` the position in `from` of the column of its name; `None` for dropped ones and those that
/// `from` lacks.
fn positions(from: &RowSchema, to: &RowSchema) -> Vec<Option<usize>> {
    to.columns.iter().map(|column| from.column(&column.name).filter(|_| !column.dropped)).collect()
}

/// Adds the hidden columns of `to` to their positions in `from`: those with the same expressions.
fn with_hidden(mut positions: Vec<Option<usize>>, from: &RowSchema, to: &RowSchema) -> Vec<Option<usize>> {
    for (at, column) in to.columns.iter().enumerate().filter(|(_, column)| column.is_hidden()) {
        let is_it =
            |own: &model::RowColumn| own.is_hidden() && own.ty == column.ty && own.generated == column.generated;
        positions[at] = from.columns.iter().position(is_it);
    }
    positions
}

fn mapped<'a>(values: &[Datum<'a>], positions: &[Option<usize>]) -> Vec<Datum<'a>> {
    positions.iter().map(|at| at.map_or(Datum::Null, |at| values[at].clone())).collect()
}

/// The partitions of a table down to those that have rows.
pub(crate) struct Routes {
    /// The partitioned table that the statement names.
    table: Arc<RowTable>,
    root: Node,
    pub(crate) leaves: Vec<Leaf>,
    /// Checks the table's own bounds if it is a partition itself: they hold for its partitions too.
    writer: Option<Writer>,
}

/// A partitioned table.
struct Node {
    /// Over the values of a row of the root.
    key: KeyValues,
    bounds: Bounds,
    children: Vec<Child>,
    /// Name of the table, and its key as text.
    name: String,
    key_text: String,
}

enum Child {
    Leaf(usize),
    Node(Box<Node>),
}

/// A partition with rows.
pub(crate) struct Leaf {
    pub(crate) writer: Writer,
    pub(crate) foreign: ForeignKeys,
    /// The position of each column in the root; `None` if both have the same columns.
    from_root: Option<Vec<Option<usize>>>,
    /// The position here of each column of the root.
    to_root: Vec<Option<usize>>,
    /// Whether rows have the same bytes in both.
    is_same: bool,
}

impl Leaf {
    pub(crate) fn table(&self) -> &Arc<RowTable> {
        &self.writer.table
    }

    /// Values of the root's row in the order of this table.
    pub(crate) fn values<'a>(&self, root: &[Datum<'a>]) -> Vec<Datum<'a>> {
        match &self.from_root {
            None => root.to_vec(),
            Some(positions) => mapped(root, positions),
        }
    }

    /// Values of changed columns of the root, as those of this table.
    pub(crate) fn changes<'a>(&self, root: Vec<(usize, Datum<'a>)>) -> Result<Vec<(usize, Datum<'a>)>> {
        let own = |(at, value)| {
            let at: usize = at;
            let own = self.to_root[at].ok_or_else(|| Error::bug("a partition lacks a column"))?;
            Ok((own, value))
        };
        let mut own = root.into_iter().map(own).collect::<Result<Vec<_>>>()?;
        own.sort_by_key(|(at, _)| *at);
        Ok(own)
    }

    /// Values of a row of this table in the order of the root.
    pub(crate) fn root_values<'a>(&self, own: &[Datum<'a>]) -> Vec<Datum<'a>> {
        mapped(own, &self.to_root)
    }

    /// The index here that belongs to an index of the root: `None` for the primary key, else a secondary one by position.
    pub(crate) fn index_of(&self, root: &RowTable, index: Option<usize>) -> Result<Option<usize>> {
        let missing = || Error::bug("a partition lacks an index of its parent");
        let of_root = match index {
            None => root.schema.primary.as_ref(),
            Some(at) => root.schema.secondary.get(at),
        };
        let columns: Vec<Option<usize>> =
            of_root.ok_or_else(missing)?.columns.iter().map(|at| self.to_root[*at]).collect();
        let own = &self.table().schema;
        let predicate = of_root.and_then(|index| index.predicate).map(|at| self.to_root[at]);
        let is_it = |index: &model::RowIndex| {
            index.unique
                && index.columns.iter().map(|at| Some(*at)).eq(columns.iter().copied())
                && index.predicate.map(Some) == predicate
        };
        if own.primary.as_ref().is_some_and(is_it) {
            return Ok(None);
        }
        own.secondary.iter().position(is_it).map(Some).ok_or_else(missing)
    }

    /// A row of this table as one of the root.
    pub(crate) fn root_row<'a>(&'a self, routes: &Routes, row: &'a [u8], run: &Run<'a>) -> Result<&'a [u8]> {
        if self.is_same {
            return Ok(row);
        }
        let values = mapped(&self.writer.values(row)?, &self.to_root);
        let mut bytes = Vec::new();
        routes.table.layout.encode(&values, &mut bytes)?;
        Ok(run.ctx().arena.alloc_slice_copy(&bytes))
    }
}

impl Routes {
    /// The partitions of a table; `None` for a table that is not partitioned.
    ///
    /// - `kind`: the change whose foreign keys are checked.
    pub(crate) fn of(
        table: &Arc<RowTable>,
        kind: ChangeKind<'_>,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<Option<Arc<Routes>>> {
        if table.schema.lineage.key.is_none() {
            return Ok(None);
        }
        let mut leaves = Vec::new();
        let root = Node::of(table, table, kind, stored, &mut leaves, 0)?;
        let is_partition = table.schema.lineage.bound.is_some();
        let writer = if is_partition { Some(Writer::new(Arc::clone(table), stored)?) } else { None };
        Ok(Some(Arc::new(Routes { table: Arc::clone(table), root, leaves, writer })))
    }

    /// Number of the partition of a row of the root.
    ///
    /// # Errors
    /// 23514 if there is none.
    pub(crate) fn find<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<usize> {
        if let Some(writer) = &self.writer {
            writer.check_bounds(values, run)?;
        }
        let mut node = &self.root;
        loop {
            let key = node.key.of(values, run)?;
            match node.bounds.find(&key)?.and_then(|at| node.children.get(at)) {
                Some(Child::Leaf(leaf)) => return Ok(*leaf),
                Some(Child::Node(below)) => node = below,
                None => return Err(self.no_partition(node, &key, &run.frame)),
            }
        }
    }

    fn no_partition(&self, node: &Node, key: &[Datum<'_>], frame: &Frame<'_>) -> Error {
        let value = |value: &Datum<'_>| match value {
            Datum::Null => "null".to_owned(),
            value => text_of(value, frame.ctx.session.zone),
        };
        let values: Vec<String> = key.iter().map(value).collect();
        let text = format!("no partition of relation \"{}\" found for row", node.name);
        let detail =
            format!("Partition key of the failing row contains ({}) = ({}).", node.key_text, values.join(", "));
        Error::new(SqlState::CHECK_VIOLATION, text).with_detail(detail)
    }

    /// Inserts a row of the root into its partition; returns the number of the partition. Slot [`TARGET`] then has the row, as
    /// one of the root.
    pub(crate) fn insert<'a>(
        &'a self,
        values: &[Datum<'a>],
        run: &Run<'a>,
        changed: &mut Vec<(usize, Changed<'a>)>,
    ) -> Result<usize> {
        let at = self.find(values, run)?;
        let leaf = &self.leaves[at];
        let own = leaf.values(values);
        let row = leaf.writer.make(&own, run)?;
        let put = run.txn(|txn| txn.insert(leaf.table(), row.into(), run.guard()))?;
        match put {
            Put::Done(record) => {
                if !leaf.foreign.is_empty() {
                    changed.push((at, Changed { record, old: None, new: Some(row) }));
                }
            }
            Put::Wait(event) => return Err(run.ctx().wait(event)),
            Put::Duplicate { index, .. } => return Err(leaf.writer.duplicate(index, &own, &run.frame)),
        }
        run.slot(TARGET).set(Some(leaf.root_row(self, row, run)?));
        Ok(at)
    }

    /// Checks the foreign keys of changed rows, and runs the actions that they trigger.
    pub(crate) fn follow<'a>(&'a self, changed: Vec<(usize, Changed<'a>)>, run: &mut Run<'a>) -> Result<()> {
        let mut by_leaf: Vec<Vec<Changed<'a>>> = Vec::new();
        by_leaf.resize_with(self.leaves.len(), Vec::new);
        changed.into_iter().for_each(|(leaf, change)| by_leaf[leaf].push(change));
        for (leaf, changed) in self.leaves.iter().zip(by_leaf).filter(|(_, changed)| !changed.is_empty()) {
            leaf.foreign.follow(changed, run)?;
        }
        Ok(())
    }

    /// The partitions, and the tables that foreign key actions change.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.leaves.iter().flat_map(|leaf| std::iter::once(leaf.table()).chain(leaf.foreign.written()))
    }
}

impl Node {
    fn of(
        root: &Arc<RowTable>,
        table: &RowTable,
        kind: ChangeKind<'_>,
        stored: &mut StoredExpressions<'_>,
        leaves: &mut Vec<Leaf>,
        level: usize,
    ) -> Lower<Node> {
        let schema = &table.schema;
        let Some(key) = &schema.lineage.key else { return refused("a partitioned table without a key") };
        if level >= LEVELS_MAX {
            return refused(format!("more than {LEVELS_MAX} levels of partitions"));
        }
        let mut children = Vec::with_capacity(schema.lineage.children.len());
        let mut bounds: Vec<PartitionBound> = Vec::with_capacity(schema.lineage.children.len());
        for id in &schema.lineage.children {
            let child = stored.tables.by_id(*id);
            let Some(child) = child else { return refused("a partition that does not exist") };
            bounds.extend(child.schema.lineage.bound.clone());
            children.push(if child.schema.lineage.key.is_some() {
                Child::Node(Box::new(Node::of(root, &child, kind, stored, leaves, level + 1)?))
            } else {
                leaves.push(Leaf::of(root, &child, kind, stored)?);
                Child::Leaf(leaves.len() - 1)
            });
        }
        if bounds.len() != children.len() {
            return Err(Error::corrupt(format!("a partition of {} has no bound", schema.name)).into());
        }
        Ok(Node {
            key: KeyValues::bind(schema, key, &root.schema, stored)?,
            bounds: Bounds::new(key, bounds.iter().enumerate())?,
            children,
            name: schema.name.table.clone(),
            key_text: crate::deparse::without_schemas(&key_text(schema, key, true)),
        })
    }
}

impl Leaf {
    fn of(
        root: &Arc<RowTable>,
        table: &Arc<RowTable>,
        kind: ChangeKind<'_>,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<Leaf> {
        let (from, to) = (&root.schema, &table.schema);
        let from_root = positions(from, to);
        let is_identity = from.columns.len() == to.columns.len()
            && from_root.iter().enumerate().all(|(at, column)| to.columns[at].dropped || *column == Some(at));
        let same_form = |at: usize| {
            let (from, to) = (&from.columns[at], &to.columns[at]);
            from.ty == to.ty && from.dropped == to.dropped && from.missing == to.missing
        };
        let is_same = is_identity && (0..from.columns.len()).all(same_form);
        let mut foreign = ForeignKeys::default();
        foreign.add(table, kind, stored)?;
        Ok(Leaf {
            writer: Writer::routed(Arc::clone(table), stored)?,
            foreign,
            from_root: (!is_identity).then_some(from_root),
            to_root: with_hidden(positions(to, from), to, from),
            is_same,
        })
    }
}

/// The bounds of a partition and of its partitioned ancestors, for rows that are written to it itself.
pub(crate) struct PartitionCheck {
    levels: Vec<Level>,
    /// Columns whose change may violate a bound; `None` for all.
    columns: Option<Vec<usize>>,
}

struct Level {
    key: KeyValues,
    bounds: Bounds,
    /// Number of the partition in `bounds`.
    own: usize,
}

impl PartitionCheck {
    /// The check of a table; `None` if it is no partition.
    pub(crate) fn of(table: &RowTable, stored: &mut StoredExpressions<'_>) -> Lower<Option<PartitionCheck>> {
        let mut levels = Vec::new();
        let mut below: Arc<RowSchema> = Arc::clone(&table.schema);
        while let (Some(bound), [parent]) = (below.lineage.bound.clone(), below.lineage.parents.as_slice()) {
            let Some(parent) = stored.tables.by_id(*parent) else { return refused("a partition without its parent") };
            let schema = Arc::clone(&parent.schema);
            let Some(key) = &schema.lineage.key else { return refused("a partition of a table without a key") };
            let key_values = KeyValues::bind(&schema, key, &table.schema, stored)?;
            let (bounds, own) =
                bounds_of(&schema, key, (below.id, &bound), |id| Some(Arc::clone(&stored.tables.by_id(id)?.schema)))?;
            levels.push(Level { key: key_values, bounds, own });
            if levels.len() > LEVELS_MAX {
                return refused(format!("more than {LEVELS_MAX} levels of partitions"));
            }
            below = schema;
        }
        if levels.is_empty() {
            return Ok(None);
        }
        let is_plain = levels.iter().all(|level| level.key.layout.is_none());
        let columns = is_plain.then(|| levels.iter().flat_map(|level| level.key.columns()).collect());
        Ok(Some(PartitionCheck { levels, columns }))
    }

    /// Whether a change of these columns may violate a bound.
    pub(crate) fn reads<'c>(&self, mut changed: impl Iterator<Item = &'c usize>) -> bool {
        match &self.columns {
            None => true,
            Some(columns) => changed.any(|column| columns.contains(column)),
        }
    }

    /// Whether a row with these values is within the bounds.
    pub(crate) fn holds<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<bool> {
        for level in &self.levels {
            let key = level.key.of(values, run)?;
            if level.bounds.find(&key)? != Some(level.own) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The bounds that decide whether a row is of one partition: all of the table for its default partition, else its own.
pub(crate) fn bounds_of(
    parent: &RowSchema,
    key: &PartitionKey,
    (own, bound): (TableId, &PartitionBound),
    by_id: impl Fn(TableId) -> Option<Arc<RowSchema>>,
) -> Result<(Bounds, usize)> {
    if *bound != PartitionBound::Default {
        return Ok((Bounds::new(key, std::iter::once((0, bound)))?, 0));
    }
    let mut all = vec![bound.clone()];
    for id in parent.lineage.children.iter().filter(|id| **id != own) {
        let child =
            by_id(*id).ok_or_else(|| Error::corrupt(format!("partition {id} of {} is missing", parent.name)))?;
        all.extend(child.lineage.bound.clone());
    }
    Ok((Bounds::new(key, all.iter().enumerate())?, 0))
}

/// The movement of rows that an UPDATE takes out of the bounds of their partition.
pub(crate) struct Movement {
    check: PartitionCheck,
    routes: Arc<Routes>,
    /// The position in the partition of each column of the root.
    to_root: Vec<Option<usize>>,
    /// The partition, if a foreign key references it, and the root.
    referred: Option<[String; 2]>,
}

impl Movement {
    /// The movement of rows of a partition; `None` if these columns do not matter for its bounds.
    pub(crate) fn of<'c>(
        table: &RowTable,
        routes: &Arc<Routes>,
        changed: impl Iterator<Item = &'c usize>,
        stored: &mut StoredExpressions<'_>,
    ) -> Lower<Option<Movement>> {
        let Some(check) = PartitionCheck::of(table, stored)?.filter(|check| check.reads(changed)) else {
            return Ok(None);
        };
        let to_root = positions(&table.schema, &routes.table.schema);
        let is_referred = !stored.tables.referring(table.id()).is_empty();
        let names = || [&table.schema, &routes.table.schema].map(|schema| schema.name.table.clone());
        let referred = is_referred.then(names);
        Ok(Some(Movement { check, routes: Arc::clone(routes), to_root, referred }))
    }

    /// Refuses to take a row out of a partition that a foreign key references: its key would be lost.
    ///
    /// # Errors
    /// 0A000
    pub(crate) fn check_leaving(&self) -> Result<()> {
        let Some([partition, root]) = &self.referred else { return Ok(()) };
        let text = "cannot move tuple across partitions when a non-root ancestor of the source partition is directly \
                    referenced in a foreign key";
        let detail = format!("A foreign key points to ancestor \"{partition}\" but not the root ancestor \"{root}\".");
        Err(Error::unsupported(text).with_detail(detail))
    }

    /// Whether a row with these values stays in its partition.
    pub(crate) fn stays<'a>(&'a self, values: &[Datum<'a>], run: &Run<'a>) -> Result<bool> {
        self.check.holds(values, run)
    }

    /// Inserts a row, given by its values in the partition that it leaves, into the partition of its key.
    pub(crate) fn insert<'a>(
        &'a self,
        values: &[Datum<'a>],
        run: &Run<'a>,
        changed: &mut Vec<(usize, Changed<'a>)>,
    ) -> Result<()> {
        self.routes.insert(&mapped(values, &self.to_root), run, changed).map(|_| ())
    }

    pub(crate) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }
}

/// Binds an expression of a partition key, of this type, over the rows of a table.
pub(crate) type BindKey<'b> = &'b dyn Fn(&str, model::Type, &Arc<RowTable>) -> Result<Expr>;

/// The condition that the rows of a table are within the bounds of a partition, for definitions.
pub(crate) struct RowCondition {
    parts: Vec<Expr>,
    bounds: Bounds,
    /// The partition that rows must have; `None` if they must be in none of the bounds.
    own: Option<usize>,
}

impl RowCondition {
    /// The condition for rows of `table`, which is the partition or one of its descendants.
    ///
    /// - `bind`: binds an expression of the key over the rows of the table.
    pub(crate) fn new(
        parent: &RowSchema,
        key: &PartitionKey,
        table: &RowSchema,
        (bounds, own): (Bounds, Option<usize>),
        bind: BindKey<'_>,
    ) -> Result<RowCondition> {
        let described = empty_table(table)?;
        let mut parts = Vec::with_capacity(key.parts.len());
        for part in &key.parts {
            parts.push(match &part.source {
                PartitionKeySource::Column(at) => Expr::Field {
                    slot: TARGET,
                    column: column_of(parent, *at, table)?,
                    layout: crate::expr::Layout(Arc::clone(&described.layout)),
                },
                PartitionKeySource::Expression(sql) => bind(sql, part.ty, &described)?,
            });
        }
        Ok(RowCondition { parts, bounds, own })
    }

    /// Whether the row of a frame is within the bounds.
    pub(crate) fn holds<'a>(&'a self, frame: &Frame<'a>) -> Result<bool> {
        let key: Vec<Datum<'a>> = self.parts.iter().map(|part| part.eval(frame)).collect::<Result<_>>()?;
        Ok(self.bounds.find(&key)? == self.own)
    }
}
