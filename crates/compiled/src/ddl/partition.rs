//! Partitions: PARTITION BY, bounds, ATTACH and DETACH PARTITION.

use std::sync::Arc;

use model::{
    Error, PartitionBound, PartitionKey, PartitionKeyPart, PartitionKeySource, PartitionStrategy, RangeEdge, Result,
    RowColumn, RowIndex, RowSchema, RowSchemaRef, SqlState, Type,
};
use parser::ast::{self, ExprKind, IndexKey, PartitionBound as Written, PartitionBy};
use rows::row::alone;

use super::column::{SYSTEM_COLUMNS, check_collation};
use super::draft::Draft;
use super::inheritance::{check_circle, parent, with_descendants};
use super::table_work::PartitionCheck;
use super::{Catalog, Work, expressions, indexes, names};
use crate::expr::Expr;
use crate::partition_bounds::{Bounds, edges_text, is_empty_range, overlaps};
use crate::partitions::{LEVELS_MAX, RowCondition, bounds_of};
use crate::statement::Session;

/// Maximum number of columns and expressions of a partition key, as in PostgreSQL.
const KEY_PARTS_MAX: usize = 32;

/// Error for PARTITION BY and inheritance of `columns` tables.
pub(super) fn not_for_columns(name: &str) -> Error {
    Error::unsupported(format!("table \"{name}\" is a columns table, which no table inherits from"))
        .with_hint("a columns table partitions its rows by time by itself")
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_TABLE_DEFINITION, text.into())
}

fn wrong_type(text: impl Into<String>) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, text.into())
}

/// Error 42P17
fn wrong_object(text: impl Into<String>) -> Error {
    Error::new(SqlState("42P17"), text.into())
}

/// Whether an operator class is the default one of a type.
fn is_default_class(class: &ast::Name, ty: Type) -> bool {
    let is_it = super::types::default_operator_class(ty) == Some(class.name.as_str())
        || matches!(ty, Type::Varchar(_)) && class.name == "varchar_ops";
    is_it && class.qualifier.iter().all(|schema| schema == "pg_catalog")
}

/// Refuses a key of a type whose values are not compared, or not hashed, as its indexes do.
fn check_key_type(ty: Type, strategy: PartitionStrategy) -> Result<()> {
    /// `name` and `oid`, which have hashes.
    const HASHED: [u32; 2] = [19, 26];
    let Type::Other(other) = ty.base() else { return Ok(()) };
    let is_refused = match strategy {
        PartitionStrategy::Hash => !HASHED.contains(&other.oid),
        PartitionStrategy::Range | PartitionStrategy::List => other.is_ordered() && !other.is_compared_directly(),
    };
    if !is_refused {
        return Ok(());
    }
    Err(super::create::unsupported(&format!("a partition key of type {}", ty.sql_name()))
        .with_hint("use a key of a number, text, date or time"))
}

/// The partitioned table that PARTITION OF names.
///
/// # Errors
/// 42P01; 42809 for a table that is not partitioned.
pub(super) fn partitioned(written: &ast::Name, catalog: &dyn Catalog) -> Result<RowSchemaRef> {
    let table = parent(written, catalog)?;
    match table.lineage.key {
        Some(_) => Ok(table),
        None => Err(wrong_type(format!("\"{}\" is not partitioned", table.name.table))),
    }
}

impl Draft<'_> {
    /// PARTITION BY of a new table.
    pub(super) fn partition_by(&mut self, by: &PartitionBy) -> Result<()> {
        let strategy = match by.strategy.to_ascii_lowercase().as_str() {
            "range" => PartitionStrategy::Range,
            "list" => PartitionStrategy::List,
            "hash" => PartitionStrategy::Hash,
            other => {
                let text = format!("unrecognized partitioning strategy \"{other}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
            }
        };
        if strategy == PartitionStrategy::List && by.elements.len() > 1 {
            return Err(wrong_object("cannot use \"list\" partition strategy with more than one column"));
        }
        if by.elements.len() > KEY_PARTS_MAX {
            let text = format!("cannot partition using more than {KEY_PARTS_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
        }
        let mut parts = Vec::with_capacity(by.elements.len());
        for element in &by.elements {
            let part = match &element.key {
                IndexKey::Column(name) => self.key_column(name)?,
                IndexKey::Expr(expr) => match &expr.kind {
                    ExprKind::Column(name) => self.key_column(name)?,
                    _ => self.key_expression(expr)?,
                },
            };
            // Another class than that of the type may have another order or hash.
            if let Some(class) = element.operator_class.as_ref().filter(|class| !is_default_class(class, part.ty)) {
                return Err(super::create::unsupported(&format!("operator class {class}")));
            }
            if let Some(collation) = &element.collation {
                check_collation(collation, part.ty)?;
            }
            check_key_type(part.ty, strategy)?;
            if !part.ty.is_ordered() {
                let method = if strategy == PartitionStrategy::Hash { "hash" } else { "btree" };
                let text = format!(
                    "data type {} has no default operator class for access method \"{method}\"",
                    part.ty.sql_name()
                );
                let hint = format!(
                    "You must specify a {method} operator class or define a default {method} operator class for the data type."
                );
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, text).with_hint(hint));
            }
            parts.push(part);
        }
        self.next.lineage.key = Some(PartitionKey { strategy, parts });
        Ok(())
    }

    fn key_column(&self, name: &str) -> Result<PartitionKeyPart> {
        let Some(at) = self.next.column(name) else {
            if SYSTEM_COLUMNS.contains(&name) {
                return Err(wrong_object(format!("cannot use system column \"{name}\" in partition key")));
            }
            let text = format!("column \"{name}\" named in partition key does not exist");
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
        };
        self.check_key_column(at)?;
        Ok(PartitionKeyPart { source: PartitionKeySource::Column(at), ty: self.next.columns[at].ty })
    }

    /// Refuses a generated column: a row finds its partition before these are computed.
    fn check_key_column(&self, at: usize) -> Result<()> {
        if self.next.columns[at].generated.is_none() {
            return Ok(());
        }
        let detail = format!("Column \"{}\" is a generated column.", self.next.columns[at].name);
        Err(wrong_object("cannot use generated column in partition key").with_detail(detail))
    }

    fn key_expression(&self, expr: &ast::Expr) -> Result<PartitionKeyPart> {
        let table = self.table()?;
        let (ty, is_constant) = expressions::key_type(expr, &table, self.session)?;
        if is_constant {
            return Err(wrong_object("cannot use constant expression as partition key"));
        }
        let sql = expressions::canonical(expr, self.session)?;
        for at in crate::stored_expressions::columns(&sql, &self.next)? {
            self.check_key_column(at)?;
        }
        Ok(PartitionKeyPart { source: PartitionKeySource::Expression(sql), ty })
    }

    /// Refuses a unique key of a partitioned table that lacks parts of the partition key: partitions could not check it.
    pub(super) fn check_unique_key(&self, columns: &[usize], kind: &str) -> Result<()> {
        let Some(key) = &self.next.lineage.key else { return Ok(()) };
        let table = &self.next.name.table;
        for part in &key.parts {
            match part.source {
                PartitionKeySource::Column(at) if columns.contains(&at) => {}
                PartitionKeySource::Column(at) => {
                    let text = "unique constraint on partitioned table must include all partitioning columns";
                    let column = &self.next.columns[at].name;
                    let detail = format!(
                        "{kind} constraint on table \"{table}\" lacks column \"{column}\" which is part of the partition key."
                    );
                    return Err(Error::unsupported(text).with_detail(detail));
                }
                PartitionKeySource::Expression(_) => {
                    let text = format!("unsupported {kind} constraint with partition key definition");
                    let detail = format!("{kind} constraints cannot be used when partition keys include expressions.");
                    return Err(Error::unsupported(text).with_detail(detail));
                }
            }
        }
        Ok(())
    }

    /// The column is no part of the partition key; `what` is the verb of the error.
    pub(super) fn check_not_in_key(&self, at: usize, what: &str) -> Result<()> {
        let Some(key) = &self.next.lineage.key else { return Ok(()) };
        let name = &self.next.columns[at].name;
        let is_in = key.parts.iter().any(|part| match &part.source {
            PartitionKeySource::Column(column) => *column == at,
            PartitionKeySource::Expression(sql) => {
                crate::stored_expressions::columns(sql, &self.next).is_ok_and(|columns| columns.contains(&at))
            }
        });
        if !is_in {
            return Ok(());
        }
        let table = &self.next.name.table;
        Err(invalid(format!(
            "cannot {what} column \"{name}\" because it is part of the partition key of relation \"{table}\""
        )))
    }

    /// Makes the table, whose name is `name`, a partition of another one: checks the bound against the other partitions and
    /// the rows of the default one, and adds indexes and foreign keys of the parent.
    pub(super) fn become_partition(&mut self, parent: &RowSchemaRef, bound: PartitionBound) -> Result<()> {
        let Some(key) = &parent.lineage.key else { return Err(Error::bug("a parent that is not partitioned")) };
        let default = check_bound(parent, key, &bound, &self.next.name.table, self.catalog, self.session)?;
        self.check_levels(parent)?;
        self.next.lineage.bound = Some(bound.clone());
        // A partition's own copies go with those of the table.
        let inherited = self.next.lineage.checks.iter_mut().filter(|entry| entry.parents > 0);
        inherited.for_each(|entry| entry.local = false);
        for (index, primary) in parent.indexes() {
            self.inherit_index(parent, index, primary)?;
        }
        for foreign in &parent.foreign_keys {
            self.inherit_foreign(parent, foreign)?;
        }
        if let Some(default) = default {
            self.check_default_rows(parent, key, &bound, &default)?;
        }
        let id = self.next.id;
        self.other(parent).lineage.children.push(id);
        Ok(())
    }

    /// Checks the number of levels of partitions.
    fn check_levels(&self, parent: &RowSchemaRef) -> Result<()> {
        let (mut levels, mut above) = (2, Arc::clone(parent));
        while let Some(next) = above.lineage.parents.first().and_then(|id| self.catalog.by_id(*id)) {
            (levels, above) = (levels + 1, next);
            if levels > LEVELS_MAX {
                break;
            }
        }
        let below = |table: &RowSchema| -> Vec<RowSchemaRef> {
            table.lineage.children.iter().filter_map(|id| self.catalog.by_id(*id)).collect()
        };
        let mut level = below(&self.next);
        while !level.is_empty() && levels <= LEVELS_MAX {
            levels += 1;
            level = level.iter().flat_map(|table| below(table)).collect();
        }
        if levels <= LEVELS_MAX {
            return Ok(());
        }
        let text = format!("partitions can have at most {LEVELS_MAX} levels");
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
    }

    /// Checks that the default partition has no row of a new partition.
    fn check_default_rows(
        &mut self,
        parent: &RowSchema,
        key: &PartitionKey,
        bound: &PartitionBound,
        default: &RowSchemaRef,
    ) -> Result<()> {
        let session = self.session;
        for table in with_descendants(default, self.catalog)?.iter().filter(|table| table.lineage.key.is_none()) {
            let bounds = Bounds::new(key, std::iter::once((0, bound)))?;
            let condition = row_condition(parent, key, table, (bounds, None), session)?;
            let text = format!(
                "updated partition constraint for default partition \"{}\" would be violated by some row",
                default.name.table
            );
            self.extra_work.entry(table.id).or_default().push(Work::Partition(PartitionCheck { condition, text }));
        }
        Ok(())
    }

    /// Checks that rows of this table, or of its partitions, are within the bounds of its new partition, and of the
    /// partitioned ancestors.
    fn check_rows(&mut self, parent: &RowSchemaRef, bound: &PartitionBound) -> Result<()> {
        let (catalog, session) = (self.catalog, self.session);
        let tables = match &self.old {
            Some(old) => with_descendants(old, catalog)?,
            None => return Ok(()),
        };
        let mut levels = vec![(Arc::clone(parent), self.next.id, bound.clone())];
        let mut below = Arc::clone(parent);
        while let (Some(bound), [above]) = (below.lineage.bound.clone(), below.lineage.parents.as_slice()) {
            let Some(above) = catalog.by_id(*above) else { break };
            levels.push((Arc::clone(&above), below.id, bound));
            below = above;
        }
        let text = format!("partition constraint of relation \"{}\" is violated by some row", self.next.name.table);
        for table in tables.iter().filter(|table| table.lineage.key.is_none()) {
            for (above, own, bound) in &levels {
                let Some(key) = &above.lineage.key else { continue };
                let (bounds, own) = bounds_of(above, key, (*own, bound), |id| catalog.by_id(id))?;
                let condition = row_condition(above, key, table, (bounds, Some(own)), session)?;
                let text = match table.id == self.next.id {
                    true => text.clone(),
                    false => {
                        let name = &table.name.table;
                        format!("partition constraint of relation \"{name}\" is violated by some row")
                    }
                };
                self.extra_work.entry(table.id).or_default().push(Work::Partition(PartitionCheck { condition, text }));
            }
        }
        Ok(())
    }
}

fn row_condition(
    parent: &RowSchema,
    key: &PartitionKey,
    table: &RowSchema,
    (bounds, own): (Bounds, Option<usize>),
    session: Session<'_>,
) -> Result<RowCondition> {
    RowCondition::new(parent, key, table, (bounds, own), &|sql, ty, table| -> Result<Expr> {
        let parsed = crate::stored_expressions::parsed(sql)?;
        expressions::transformed(&parsed, table, "", ty, session)
    })
}

/// Checks a new bound against the other partitions; returns the default partition if its rows must be checked.
fn check_bound(
    parent: &RowSchema,
    key: &PartitionKey,
    bound: &PartitionBound,
    name: &str,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<RowSchemaRef>> {
    let siblings: Vec<RowSchemaRef> = parent.lineage.children.iter().filter_map(|id| catalog.by_id(*id)).collect();
    let default = siblings.iter().find(|sibling| sibling.lineage.bound == Some(PartitionBound::Default)).cloned();
    if *bound == PartitionBound::Default {
        return match default {
            None => Ok(None),
            Some(other) => {
                let other = &other.name.table;
                Err(wrong_object(format!("partition \"{name}\" conflicts with existing default partition \"{other}\"")))
            }
        };
    }
    if is_empty_range(key, bound)?
        && let PartitionBound::Range { from, to } = bound
    {
        let zone = session.zone;
        let (from, to) = (edges_text(key, from, zone), edges_text(key, to, zone));
        let detail = format!("Specified lower bound {from} is greater than or equal to upper bound {to}.");
        let text = format!("empty range bound specified for partition \"{name}\"");
        return Err(wrong_object(text).with_detail(detail));
    }
    if let PartitionBound::Hash { modulus, .. } = bound {
        check_modulus(*modulus, &siblings)?;
    }
    let in_order = crate::partition_bounds::ordered_children(parent, siblings)?;
    for sibling in &in_order {
        let Some(other) = &sibling.lineage.bound else { continue };
        if overlaps(key, bound, other)? {
            let other = &sibling.name.table;
            return Err(wrong_object(format!("partition \"{name}\" would overlap partition \"{other}\"")));
        }
    }
    Ok(default)
}

/// Each modulus must be a factor of the next larger one.
fn check_modulus(modulus: u32, siblings: &[RowSchemaRef]) -> Result<()> {
    let mut known: Vec<(u32, &str)> = Vec::with_capacity(siblings.len());
    for sibling in siblings {
        if let Some(PartitionBound::Hash { modulus, .. }) = sibling.lineage.bound {
            known.push((modulus, &sibling.name.table));
        }
    }
    known.sort_unstable();
    let text = "every hash partition modulus must be a factor of the next larger modulus";
    let below = known.iter().rev().find(|(other, _)| *other <= modulus);
    if let Some((other, name)) = below.filter(|(other, _)| !modulus.is_multiple_of(*other)) {
        let detail = format!(
            "The new modulus {modulus} is not divisible by {other}, the modulus of existing partition \"{name}\"."
        );
        return Err(wrong_object(text).with_detail(detail));
    }
    let above = known.iter().find(|(other, _)| *other > modulus);
    if let Some((other, name)) = above.filter(|(other, _)| other % modulus != 0) {
        let detail = format!(
            "The new modulus {modulus} is not a factor of {other}, the modulus of existing partition \"{name}\"."
        );
        return Err(wrong_object(text).with_detail(detail));
    }
    Ok(())
}

/// The bound of a partition of `parent`.
///
/// # Errors
/// 42P16 for a bound of another strategy, or with another number of values.
pub(super) fn bound(written: &Written, parent: &RowSchema, session: Session<'_>) -> Result<PartitionBound> {
    let Some(key) = &parent.lineage.key else { return Err(Error::bug("a bound of a table that is not partitioned")) };
    let other = || invalid(format!("invalid bound specification for a {} partition", key.strategy.name()));
    match (written, key.strategy) {
        (Written::Default, PartitionStrategy::Hash) => {
            Err(invalid("a hash-partitioned table may not have a default partition"))
        }
        (Written::Default, _) => Ok(PartitionBound::Default),
        (Written::Hash { modulus, remainder }, PartitionStrategy::Hash) => {
            let Some(modulus) = u32::try_from(*modulus).ok().filter(|modulus| *modulus > 0) else {
                return Err(invalid("modulus for hash partition must be an integer value greater than zero"));
            };
            let Ok(remainder) = u32::try_from(*remainder) else {
                let text = "remainder for hash partition must be an integer value greater than or equal to zero";
                return Err(invalid(text));
            };
            if remainder >= modulus {
                return Err(invalid("remainder for hash partition must be less than modulus"));
            }
            Ok(PartitionBound::Hash { modulus, remainder })
        }
        (Written::In(list), PartitionStrategy::List) => {
            let mut values: Vec<Option<Box<[u8]>>> = Vec::with_capacity(list.len());
            for expr in list {
                let value = constant(expr, parent, &key.parts[0], session)?;
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            Ok(PartitionBound::List(values))
        }
        (Written::Range { from, to }, PartitionStrategy::Range) => {
            for (list, word) in [(from, "FROM"), (to, "TO")] {
                if list.len() != key.parts.len() {
                    return Err(invalid(format!("{word} must specify exactly one value per partitioning column")));
                }
            }
            Ok(PartitionBound::Range { from: edges(from, parent, key, session)?, to: edges(to, parent, key, session)? })
        }
        _ => Err(other()),
    }
}

fn edges(list: &[ast::Expr], parent: &RowSchema, key: &PartitionKey, session: Session<'_>) -> Result<Vec<RangeEdge>> {
    let mut edges = Vec::with_capacity(list.len());
    for (expr, part) in list.iter().zip(&key.parts) {
        let edge = match &expr.kind {
            ExprKind::Column(name) if name == "minvalue" => RangeEdge::Min,
            ExprKind::Column(name) if name == "maxvalue" => RangeEdge::Max,
            _ => match constant(expr, parent, part, session)? {
                Some(value) => RangeEdge::Value(value),
                None => return Err(wrong_object("cannot specify NULL in range bound")),
            },
        };
        let word = |edge: &RangeEdge| match edge {
            RangeEdge::Min => Some("MINVALUE"),
            RangeEdge::Max => Some("MAXVALUE"),
            RangeEdge::Value(_) => None,
        };
        if let Some(before) = edges.last().and_then(word)
            && word(&edge) != Some(before)
        {
            let text = format!("every bound following {before} must also be {before}");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        edges.push(edge);
    }
    Ok(edges)
}

/// A constant of a bound; `None` for NULL.
fn constant(
    expr: &ast::Expr,
    parent: &RowSchema,
    part: &PartitionKeyPart,
    session: Session<'_>,
) -> Result<Option<Box<[u8]>>> {
    let name = match &part.source {
        PartitionKeySource::Column(at) => parent.columns[*at].name.clone(),
        PartitionKeySource::Expression(sql) => sql.clone(),
    };
    let column = RowColumn::new(name, part.ty);
    let value = expressions::bound_value(expr, &column, session)?;
    let ty: Type = part.ty;
    expressions::value(&value, ty, session, |value| alone(ty, &value))?
}

/// ALTER TABLE … ATTACH PARTITION. `draft` is the partition's; the parent is the table that the statement names.
pub(super) fn attach(
    parent: &RowSchemaRef,
    name: &ast::Name,
    written: &Written,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<super::Definition> {
    if parent.lineage.key.is_none() {
        return Err(wrong_type(format!("table \"{}\" is not partitioned", parent.name.table)));
    }
    let child = table_of(name, catalog)?;
    let table = &child.name.table;
    if child.lineage.bound.is_some() {
        return Err(wrong_type(format!("\"{table}\" is already a partition")));
    }
    if !child.lineage.parents.is_empty() {
        return Err(wrong_type("cannot attach inheritance child as partition"));
    }
    if !child.lineage.children.is_empty() && child.lineage.key.is_none() {
        return Err(wrong_type("cannot attach inheritance parent as partition"));
    }
    if child.triggers.iter().any(|trigger| trigger.each_row) {
        let text = format!("table \"{table}\" has triggers FOR EACH ROW, which partitions do not support");
        return Err(Error::unsupported(text));
    }
    let mut draft = Draft::of(&child, catalog, session);
    super::inheritance::check_lifetimes(&child.name, &parent.name, Some("attach"))?;
    check_circle(&draft, parent)?;
    for (_, column) in child.shown() {
        if parent.column(&column.name).is_none() {
            let (name, of) = (&column.name, &parent.name.table);
            let text = format!("table \"{table}\" contains column \"{name}\" not found in parent \"{of}\"");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text)
                .with_detail("The new partition may contain only the columns present in parent."));
        }
    }
    let bound = bound(written, parent, session)?;
    draft.add_parent(parent)?;
    draft.next.lineage.columns.iter_mut().for_each(|entry| entry.local = false);
    draft.become_partition(parent, bound.clone())?;
    draft.check_rows(parent, &bound)?;
    let following = super::inheritance::Following::default();
    super::inheritance::finish(draft, "ALTER TABLE", &following)
}

/// ALTER TABLE … DETACH PARTITION.
pub(super) fn detach(
    parent: &RowSchemaRef,
    name: &ast::Name,
    mode: ast::DetachMode,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<super::Definition> {
    if parent.lineage.key.is_none() {
        return Err(wrong_type(format!("table \"{}\" is not partitioned", parent.name.table)));
    }
    let child = table_of(name, catalog)?;
    let (table, of) = (&child.name.table, &parent.name.table);
    if !child.lineage.parents.contains(&parent.id) || child.lineage.bound.is_none() {
        let text = format!("relation \"{table}\" is not a partition of relation \"{of}\"");
        return Err(Error::new(SqlState::UNDEFINED_TABLE, text));
    }
    match mode {
        ast::DetachMode::Plain => {}
        ast::DetachMode::Finalize => {
            // A partition is detached at once, also CONCURRENTLY.
            let text = format!("partition \"{table}\" in partitioned table \"{of}\" is not pending detach");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
        }
        ast::DetachMode::Concurrently => {
            let siblings = parent.lineage.children.iter().filter_map(|id| catalog.by_id(*id));
            if siblings.into_iter().any(|sibling| sibling.lineage.bound == Some(PartitionBound::Default)) {
                let text = "cannot detach partitions concurrently when a default partition exists";
                return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
            }
        }
    }
    let mut draft = Draft::of(&child, catalog, session);
    draft.remove_parent(parent)?;
    draft.release_partition();
    let id = child.id;
    draft.other(parent).lineage.children.retain(|child| *child != id);
    draft.finish("ALTER TABLE")
}

fn table_of(written: &ast::Name, catalog: &dyn Catalog) -> Result<RowSchemaRef> {
    let name = names::relation(written, catalog)?;
    match catalog.table(&name) {
        Some(table) if catalog.materialized_view(table.id).is_some() => {
            Err(wrong_type(format!("\"{}\" is not a table", name.table)))
        }
        Some(table) => Ok(table),
        None if catalog.is_other(&name) => Err(not_for_columns(&name.table)),
        None => Err(super::no_relation(&name, written)),
    }
}

/// Whether two indexes of two tables are the same but for their names.
fn is_same_index((table, index): (&RowSchema, &RowIndex), (other, of_other): (&RowSchema, &RowIndex)) -> bool {
    let described = |table: &RowSchema, at: usize| -> (bool, String) {
        let column = &table.columns[at];
        match &column.generated {
            Some(sql) if column.is_hidden() => (true, sql.clone()),
            _ => (false, column.name.clone()),
        }
    };
    let all = |table: &RowSchema, index: &RowIndex| -> Vec<(bool, String)> {
        index.columns.iter().chain(&index.include).chain(&index.predicate).map(|at| described(table, *at)).collect()
    };
    let shape = |index: &RowIndex| {
        let flags = (index.predicate.is_some(), index.unique, index.deferral, index.nulls_not_distinct, index.method);
        (index.columns.len(), index.include.len(), flags)
    };
    shape(index) == shape(of_other) && index.keys == of_other.keys && all(table, index) == all(other, of_other)
}

/// ALTER INDEX … ATTACH PARTITION: an index of a partition becomes one of the partitioned table's.
pub(super) fn attach_index(
    table: &RowSchemaRef,
    index: &str,
    written: &ast::Name,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<super::Definition> {
    let name = names::relation(written, catalog)?;
    let Some(child) = catalog.index(&name) else {
        let text = format!("relation \"{}\" does not exist", names::as_written(&name, written));
        return Err(Error::new(SqlState::UNDEFINED_TABLE, text));
    };
    let parent = indexes(table).find(|one| one.name == index).cloned();
    let own = indexes(&child).find(|one| one.name == name.table).cloned();
    let (Some(parent), Some(own)) = (parent, own) else { return Err(Error::bug("an index of another table")) };
    let text = format!("cannot attach index \"{}\" as a partition of index \"{index}\"", name.table);
    let refused =
        |detail: String| Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text.clone()).with_detail(detail));
    if !table.lineage.children.contains(&child.id) || child.lineage.bound.is_none() {
        return refused(format!(
            "Index \"{}\" is not an index on any partition of table \"{}\".",
            name.table, table.name.table
        ));
    }
    if !is_same_index((table, &parent), (&child, &own)) {
        return refused("The index definitions do not match.".to_owned());
    }
    let mut draft = Draft::of(&child, catalog, session);
    match draft.next.lineage.index_of(parent.id) {
        Some(known) if known == own.id => {}
        Some(_) => {
            let partition = &child.name.table;
            return refused(format!("Another index is already attached for partition \"{partition}\"."));
        }
        None => draft.next.lineage.indexes.push((own.id, parent.id)),
    }
    draft.finish("ALTER INDEX")
}
