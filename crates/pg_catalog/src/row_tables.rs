//! Rows of `pg_catalog` for `rows` tables, their indexes and constraints, and sequences.

use model::{
    Deferral, Identity, IndexMethod, Materialized, Referential, ReplicaIdentity, RowColumn, RowForeignKey, RowIndex,
    RowSchema, SequenceSpec, TableName, Type,
};

use crate::cells::{Cell, Row, row};
use crate::classes::{Class, Constraint, indexes, is_primary, referred, with_constraints};
use crate::facts::StatementFacts;
use crate::information_schema::is_shown;
use crate::oids::{self, Oid, Part};
use crate::{names, relations, user_types};

/// Rows of `pg_class`.
pub(crate) fn classes(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in facts.catalog.row_tables() {
        rows.push(class(facts, table));
        rows.extend(indexes(table).map(|index| index_class(table, index)));
    }
    rows.extend(facts.catalog.sequences().map(|sequence| sequence_class(sequence)));
    rows
}

/// PostgreSQL has triggers on both tables of a foreign key, and clients look for foreign keys only if there are
/// triggers.
fn has_triggers(facts: &StatementFacts, table: &RowSchema) -> bool {
    let refers = |other: &model::RowSchemaRef| other.foreign_keys.iter().any(|key| key.table == table.id);
    !table.triggers.is_empty() || !table.foreign_keys.is_empty() || facts.catalog.row_tables().any(refers)
}

/// `relpersistence`: whether the object is temporary.
pub(crate) fn persistence(name: &TableName) -> &'static str {
    if name.is_temporary() { "t" } else { "p" }
}

fn class(facts: &StatementFacts, table: &RowSchema) -> Row {
    let view = facts.catalog.materialized_view(table.id);
    let lineage = &table.lineage;
    let kind = match view {
        Some(_) => "m",
        None if lineage.key.is_some() => "p",
        None => "r",
    };
    row! {
        oid: oids::of_table(table.id, Part::Table),
        relname: table.name.table.as_str(),
        relnamespace: oids::of_schema(&table.name.schema),
        reltype: oids::of_table(table.id, Part::RowType),
        relowner: oids::ROLE,
        relam: if lineage.key.is_some() { 0 } else { oids::HEAP },
        reltuples: Cell::Float(facts.server.row_table(table.id).map_or(-1.0, |size| size.rows as f64)),
        relhasindex: table.primary.is_some() || !table.secondary.is_empty(),
        relpersistence: persistence(&table.name),
        relkind: kind,
        relhasrules: view.is_some(),
        relhassubclass: !lineage.children.is_empty(),
        relispartition: lineage.bound.is_some(),
        relpartbound: bound(facts, table).map_or(Cell::Null, Cell::Text),
        relnatts: table.columns.len() as i64,
        relchecks: table.checks.len() as i64,
        relhastriggers: has_triggers(facts, table),
        relispopulated: view.is_none_or(|view| view.materialized == Some(Materialized::Populated)),
        relreplident: match table.replica_identity {
            ReplicaIdentity::Default => "d",
            ReplicaIdentity::Nothing => "n",
            ReplicaIdentity::Full => "f",
            ReplicaIdentity::Index(_) => "i",
        },
        tableoid: 1259,
    }
}

fn index_class(table: &RowSchema, index: &RowIndex) -> Row {
    row! {
        oid: oids::of_number(index.id, Part::Index),
        relname: index.name.as_str(),
        relnamespace: oids::of_schema(&table.name.schema),
        relowner: oids::ROLE,
        relam: access_method(index.method),
        relpersistence: persistence(&table.name),
        relkind: if table.lineage.key.is_some() { "I" } else { "i" },
        relispartition: table.lineage.index(index.id).is_some(),
        relnatts: (index.columns.len() + index.include.len()) as i64,
        relispopulated: true,
        relreplident: "n",
        tableoid: 1259,
    }
}

fn sequence_class(sequence: &SequenceSpec) -> Row {
    row! {
        oid: oids::of_number(sequence.id, Part::Table),
        relname: sequence.name.table.as_str(),
        relnamespace: oids::of_schema(&sequence.name.schema),
        relowner: oids::ROLE,
        reltuples: Cell::Float(1.0),
        relpersistence: persistence(&sequence.name),
        relkind: "S",
        relnatts: 3,
        relispopulated: true,
        relreplident: "n",
        tableoid: 1259,
    }
}

/// A column of `pg_attribute`.
pub(crate) struct Attribute<'a> {
    pub(crate) relation: Oid,
    pub(crate) number: i64,
    pub(crate) name: &'a str,
    pub(crate) ty: (Oid, i32),
    pub(crate) not_null: bool,
    pub(crate) has_default: bool,
    pub(crate) identity: Option<Identity>,
    pub(crate) generated: bool,
    pub(crate) dropped: bool,
    /// COLLATE, if it is not the default.
    pub(crate) collation: Option<&'a str>,
    /// Whether the table declares it, and the number of parents that have it.
    pub(crate) inherited: (bool, i64),
}

/// Calls `each` for every column of tables, indexes and sequences.
pub(crate) fn attributes(facts: &StatementFacts, mut each: impl FnMut(&Attribute<'_>)) {
    for table in facts.catalog.row_tables() {
        let relation = oids::of_table(table.id, Part::Table);
        for (number, column) in (1_i64..).zip(&table.columns) {
            let entry = table.lineage.column(number as usize - 1);
            let inherited = entry.map_or((true, 0), |entry| (entry.local, i64::from(entry.parents)));
            each(&Attribute { inherited, ..attribute(relation, number, column) });
        }
        for index in indexes(table) {
            let relation = oids::of_number(index.id, Part::Index);
            for (number, at) in (1_i64..).zip(index.columns.iter().chain(&index.include)) {
                let column = &table.columns[*at];
                each(&Attribute {
                    not_null: false,
                    has_default: false,
                    identity: None,
                    generated: false,
                    dropped: false,
                    ..attribute(relation, number, column)
                });
            }
        }
    }
    for sequence in facts.catalog.sequences() {
        let relation = oids::of_number(sequence.id, Part::Table);
        let columns = [("last_value", Type::Int8), ("log_cnt", Type::Int8), ("is_called", Type::Bool)];
        for (number, (name, ty)) in (1_i64..).zip(columns) {
            each(&Attribute { not_null: true, ..attribute(relation, number, &RowColumn::new(name, ty)) });
        }
    }
}

fn attribute(relation: Oid, number: i64, column: &RowColumn) -> Attribute<'_> {
    Attribute {
        relation,
        number,
        name: &column.name,
        ty: column.declared(),
        not_null: column.not_null,
        has_default: column.default.is_some() && column.identity.is_none(),
        identity: column.identity,
        generated: column.generated.is_some() && !column.dropped,
        dropped: column.dropped,
        collation: column.collation.as_deref(),
        inherited: (true, 0),
    }
}

/// Rows of `pg_attrdef`.
pub(crate) fn defaults(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in with_constraints(&facts.catalog) {
        for (at, column) in table.shown() {
            let generated = || compiled::deparse::generated(column, table);
            let Some(text) = compiled::deparse::default(column).or_else(generated) else { continue };
            rows.push(row! {
                oid: default_oid(table, column),
                adrelid: oids::of_table(table.id, Part::Table),
                adnum: at as i64 + 1,
                adbin: text,
                tableoid: 2604,
            });
        }
    }
    rows
}

fn default_oid(table: &RowSchema, column: &RowColumn) -> Oid {
    oids::of_named(table.id, "default", &column.name)
}

/// Rows of `pg_index`.
pub(crate) fn index_rows(facts: &StatementFacts) -> Vec<Row> {
    let of = |table: &RowSchema| indexes(table).map(|index| index_row(table, index)).collect::<Vec<_>>();
    facts.catalog.row_tables().flat_map(|table| of(table)).collect()
}

fn index_row(table: &RowSchema, index: &RowIndex) -> Row {
    let of_types =
        |of: fn(Type) -> Oid| Cell::Ints(index.columns.iter().map(|at| i64::from(of(table.columns[*at].ty))).collect());
    let key = |at: usize| index.keys.get(at).cloned().unwrap_or_default();
    let options = (0..index.columns.len()).map(key);
    let classes = index.columns.iter().enumerate().map(|(at, column)| match key(at).operator_class.as_deref() {
        Some("text_pattern_ops") => 4217,
        Some("varchar_pattern_ops") => 4218,
        Some("bpchar_pattern_ops") => 4219,
        Some("jsonb_path_ops") => 10_091,
        None if index.method == IndexMethod::Gin => inverted_class(table.columns[*column].ty),
        _ => i64::from(operator_class(table.columns[*column].ty)),
    });
    let expressions: Vec<String> = index.columns.iter().filter_map(|at| hidden_expression(table, *at)).collect();
    row! {
        indexrelid: oids::of_number(index.id, Part::Index),
        indrelid: oids::of_table(table.id, Part::Table),
        indnatts: (index.columns.len() + index.include.len()) as i64,
        indnkeyatts: index.columns.len() as i64,
        indisunique: index.is_key(),
        indnullsnotdistinct: index.nulls_not_distinct,
        indisprimary: is_primary(table, index),
        indimmediate: !index.is_deferrable(),
        indisvalid: true,
        indisready: true,
        indislive: true,
        indisreplident: table.replica_identity == ReplicaIdentity::Index(index.id),
        indkey: index_keys(table, index),
        indcollation: of_types(|ty| relations::collation(ty.oid())),
        indclass: Cell::Ints(classes.collect()),
        indoption: Cell::Ints(options.map(|key| i64::from(key.descending) | i64::from(key.nulls_first) << 1).collect()),
        indexprs: if expressions.is_empty() { Cell::Null } else { Cell::Text(expressions.join(", ")) },
        indpred: index.predicate.and_then(|at| hidden_expression(table, at)).map_or(Cell::Null, Cell::Text),
        tableoid: 2610,
    }
}

/// The expression of a hidden column; `None` for another one.
fn hidden_expression(table: &RowSchema, at: usize) -> Option<String> {
    let column = &table.columns[at];
    compiled::deparse::generated(column, table).filter(|_| column.is_hidden())
}

/// Attribute numbers of the keys and of INCLUDE; 0 for an expression.
fn index_keys(table: &RowSchema, index: &RowIndex) -> Cell {
    let number = |at: &usize| if table.columns[*at].is_hidden() { 0 } else { *at as i64 + 1 };
    Cell::Ints(index.columns.iter().chain(&index.include).map(number).collect())
}

/// Attribute numbers of column positions.
fn numbers(columns: &[usize]) -> Cell {
    Cell::Ints(columns.iter().map(|at| *at as i64 + 1).collect())
}

fn access_method(method: IndexMethod) -> Oid {
    match method {
        IndexMethod::Btree => oids::BTREE,
        IndexMethod::Hash => oids::HASH,
        IndexMethod::Gin => oids::GIN,
    }
}

/// PostgreSQL 15's default GIN operator class for jsonb or arrays.
fn inverted_class(ty: Type) -> i64 {
    if ty.oid() == 3802 { 10_090 } else { 10_064 }
}

/// PostgreSQL 15's B-tree operator class for a type; 0 for a type without order.
fn operator_class(ty: Type) -> Oid {
    match ty.base() {
        Type::Bool => 10_003,
        Type::Int2 => 1979,
        Type::Int4 => 1978,
        Type::Int8 => 3124,
        Type::Float4 => 10_012,
        Type::Float8 => 3123,
        Type::Numeric(_) => 3125,
        Type::Text | Type::Varchar(_) => 3126,
        Type::Char(_) => 10_004,
        Type::Bytes => 10_006,
        Type::Uuid => 10_065,
        Type::Json => 0,
        Type::Date => 3122,
        Type::Time => 10_038,
        Type::Timestamp => 3128,
        Type::Timestamptz => 3127,
        Type::Interval => 10_022,
        Type::Other(other) => other.operator_class(),
    }
}

/// Rows of `pg_constraint`.
pub(crate) fn constraints(facts: &StatementFacts) -> Vec<Row> {
    let of = |table: &RowSchema| {
        Constraint::all(table).map(|constraint| constraint_row(facts, table, constraint)).collect::<Vec<_>>()
    };
    with_constraints(&facts.catalog).flat_map(|table| of(table)).chain(user_types::constraints(facts)).collect()
}

fn constraint_row(facts: &StatementFacts, table: &RowSchema, constraint: Constraint<'_>) -> Row {
    let (kind, index) = match constraint {
        Constraint::Unique(index) => (if is_primary(table, index) { "p" } else { "u" }, Some(index.id)),
        Constraint::Check(_) => ("c", None),
        Constraint::Foreign(key) => ("f", parent_index(facts, key).map(|index| index.id)),
    };
    let key = match constraint {
        Constraint::Foreign(key) => Some(key),
        _ => None,
    };
    let action = |of: fn(&RowForeignKey) -> Referential| key.map_or(" ", |key| action(of(key)));
    let lineage = &table.lineage;
    let parent = lineage.bound.as_ref().and(lineage.parents.first());
    let parent = parent.and_then(|id| facts.catalog.row_table_by_id(*id));
    // An index of a constraint may belong to one that has none.
    let is_constraint =
        |of: &u32| parent.is_some_and(|parent| indexes(parent).any(|index| index.id == *of && index.constraint));
    let (inherited, no_inherit, conparent) = match constraint {
        Constraint::Check(check) => match lineage.check(&check.name) {
            Some(entry) => ((entry.local, i64::from(entry.parents)), entry.no_inherit, 0),
            None => ((true, 0), false, 0),
        },
        Constraint::Unique(index) => match lineage.index(index.id).filter(is_constraint) {
            Some(of) => ((false, 1), true, oids::of_number(of, Part::Constraint)),
            None => ((true, 0), true, 0),
        },
        Constraint::Foreign(key) if lineage.foreign_keys.contains(&key.name) => {
            let of = parent.and_then(|parent| {
                let is_it = |other: &&RowForeignKey| other.table == key.table && other.name == key.name;
                parent.foreign_keys.iter().find(is_it).map(|other| (parent, other))
            });
            let of = of.map_or(0, |(parent, other)| Constraint::Foreign(other).oid(parent));
            ((false, 1), lineage.key.is_none(), of)
        }
        Constraint::Foreign(_) => ((true, 0), lineage.key.is_none(), 0),
    };
    row! {
        oid: constraint.oid(table),
        conname: constraint.name(),
        connamespace: oids::of_schema(&table.name.schema),
        contype: kind,
        condeferrable: constraint.deferral() != Deferral::Never,
        condeferred: constraint.deferral() == Deferral::Deferred,
        convalidated: match constraint {
            Constraint::Unique(_) => true,
            Constraint::Check(check) => !check.not_valid,
            Constraint::Foreign(key) => !key.not_valid,
        },
        conrelid: oids::of_table(table.id, Part::Table),
        conindid: index.map_or(0, |id| oids::of_number(id, Part::Index)),
        confrelid: key.map_or(0, |key| oids::of_table(key.table, Part::Table)),
        confupdtype: action(|key| key.on_update),
        confdeltype: action(|key| key.on_delete),
        confmatchtype: key.map_or(" ", |key| if key.match_full { "f" } else { "s" }),
        conislocal: inherited.0,
        coninhcount: inherited.1,
        conparentid: conparent,
        connoinherit: no_inherit,
        conkey: numbers(&constraint.columns(table)),
        confkey: key.map_or(Cell::Null, |key| numbers(&key.referred)),
        conbin: match constraint {
            Constraint::Check(check) => Cell::Text(compiled::deparse::condition(&check.condition, table)),
            _ => Cell::Null,
        },
        tableoid: 2606,
    }
}

fn parent_index<'a>(facts: &'a StatementFacts, key: &RowForeignKey) -> Option<&'a RowIndex> {
    referred(facts.catalog.row_table_by_id(key.table)?, key)
}

fn action(action: Referential) -> &'static str {
    match action {
        Referential::NoAction => "a",
        Referential::Restrict => "r",
        Referential::Cascade => "c",
        Referential::SetNull => "n",
        Referential::SetDefault => "d",
    }
}

/// The bound of a partition, as `pg_get_expr` shows it.
pub(crate) fn bound(facts: &StatementFacts, table: &RowSchema) -> Option<String> {
    let bound = table.lineage.bound.as_ref()?;
    let parent = facts.catalog.row_table_by_id(*table.lineage.parents.first()?)?;
    Some(compiled::bound_text(parent.lineage.key.as_ref()?, bound))
}

/// Rows of `pg_inherits`.
pub(crate) fn inheritance(facts: &StatementFacts) -> Vec<Row> {
    let row = |child: Oid, parent: Oid, number: i64| {
        row! { inhrelid: child, inhparent: parent, inhseqno: number, inhdetachpending: false, tableoid: 2611 }
    };
    let mut rows = Vec::new();
    for table in facts.catalog.row_tables() {
        let oid = oids::of_table(table.id, Part::Table);
        for (number, parent) in (1_i64..).zip(&table.lineage.parents) {
            rows.push(row(oid, oids::of_table(*parent, Part::Table), number));
        }
        for (own, parent) in &table.lineage.indexes {
            rows.push(row(oids::of_number(*own, Part::Index), oids::of_number(*parent, Part::Index), 1));
        }
    }
    rows
}

/// Rows of `pg_partitioned_table`.
pub(crate) fn partitioned_tables(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in facts.catalog.row_tables() {
        let Some(key) = &table.lineage.key else { continue };
        let default = table.lineage.children.iter().find(|id| {
            let child = facts.catalog.row_table_by_id(**id);
            child.is_some_and(|child| child.lineage.bound == Some(model::PartitionBound::Default))
        });
        let numbers = key.parts.iter().map(|part| match part.source {
            model::PartitionKeySource::Column(at) => at as i64 + 1,
            model::PartitionKeySource::Expression(_) => 0,
        });
        let expressions = key.parts.iter().filter_map(|part| match &part.source {
            model::PartitionKeySource::Column(_) => None,
            model::PartitionKeySource::Expression(sql) => Some(compiled::deparse::expression(sql, table)),
        });
        let expressions: Vec<String> = expressions.collect();
        let of_types = |of: fn(Type) -> Oid| Cell::Ints(key.parts.iter().map(|part| i64::from(of(part.ty))).collect());
        let strategy = key.strategy.name();
        rows.push(row! {
            partrelid: oids::of_table(table.id, Part::Table),
            partstrat: &strategy[..1],
            partnatts: key.parts.len() as i64,
            partdefid: default.map_or(0, |id| oids::of_table(*id, Part::Table)),
            partattrs: Cell::Ints(numbers.collect()),
            partclass: of_types(operator_class),
            partcollation: of_types(|ty| relations::collation(ty.oid())),
            partexprs: if expressions.is_empty() { Cell::Null } else { Cell::Text(expressions.join(", ")) },
            tableoid: 3350,
        });
    }
    rows
}

/// The partitions of a table or index and itself: number, that of the parent, whether it has none below, and level; empty
/// for what is neither partitioned nor a partition.
pub(crate) fn partition_tree(facts: &StatementFacts, oid: Oid) -> Vec<(Oid, Option<Oid>, bool, i32)> {
    let mut tree = Vec::new();
    match Class::by_oid(&facts.catalog, oid) {
        Some(Class::Rows(table)) => {
            let mut queue = std::collections::VecDeque::from([(table.id, None, 0)]);
            while let Some((id, parent, level)) = queue.pop_front() {
                let Some(table) = facts.catalog.row_table_by_id(id) else { continue };
                let lineage = &table.lineage;
                if lineage.key.is_none() && lineage.bound.is_none() {
                    continue;
                }
                let own = oids::of_table(id, Part::Table);
                let parent = parent.or_else(|| lineage.bound.as_ref().and(lineage.parents.first().copied()));
                let parent = parent.map(|id| oids::of_table(id, Part::Table));
                tree.push((own, parent, lineage.key.is_none(), level));
                queue.extend(lineage.children.iter().map(|child| (*child, Some(id), level + 1)));
            }
        }
        Some(Class::Index(table, index)) => {
            let mut queue = std::collections::VecDeque::from([(table.id, index.id, 0)]);
            while let Some((id, index, level)) = queue.pop_front() {
                let Some(table) = facts.catalog.row_table_by_id(id) else { continue };
                let lineage = &table.lineage;
                let above = lineage.index(index);
                if lineage.key.is_none() && above.is_none() {
                    continue;
                }
                let number = |index| oids::of_number(index, Part::Index);
                tree.push((number(index), above.map(number), lineage.key.is_none(), level));
                for child in &lineage.children {
                    let below = facts.catalog.row_table_by_id(*child);
                    let own = below.and_then(|below| below.lineage.index_of(index));
                    queue.extend(own.map(|own| (*child, own, level + 1)));
                }
            }
        }
        _ => {}
    }
    tree
}

/// A partition or partitioned table or index, and those that it is a partition of, the innermost first.
pub(crate) fn partition_ancestors(facts: &StatementFacts, oid: Oid) -> Vec<Oid> {
    let mut ancestors = Vec::new();
    match Class::by_oid(&facts.catalog, oid) {
        Some(Class::Rows(table)) => {
            let mut next = Some(table);
            while let Some(table) = next {
                let lineage = &table.lineage;
                if lineage.key.is_none() && lineage.bound.is_none() {
                    break;
                }
                ancestors.push(oids::of_table(table.id, Part::Table));
                let above = lineage.bound.as_ref().and(lineage.parents.first());
                next = above.and_then(|id| facts.catalog.row_table_by_id(*id));
            }
        }
        Some(Class::Index(table, index)) => {
            let mut next = Some((table, index.id));
            while let Some((table, index)) = next {
                let above = table.lineage.index(index);
                if table.lineage.key.is_none() && above.is_none() {
                    break;
                }
                ancestors.push(oids::of_number(index, Part::Index));
                let parent = table.lineage.parents.first().and_then(|id| facts.catalog.row_table_by_id(*id));
                next = parent.zip(above);
            }
        }
        _ => {}
    }
    ancestors
}

/// Rows of `pg_sequence`.
pub(crate) fn sequence_rows(facts: &StatementFacts) -> Vec<Row> {
    let sequence = |sequence: &model::SequenceRef| {
        row! {
            seqrelid: oids::of_number(sequence.id, Part::Table),
            seqtypid: sequence.ty.oid(),
            seqstart: sequence.start,
            seqincrement: sequence.increment,
            seqmax: sequence.max,
            seqmin: sequence.min,
            seqcache: sequence.cache,
            seqcycle: sequence.cycle,
            tableoid: 2224,
        }
    };
    facts.catalog.sequences().map(sequence).collect()
}

/// The row of each sequence.
pub(crate) fn sequence_states(facts: &StatementFacts) -> Vec<Row> {
    let state = |sequence: &model::SequenceRef| {
        let (last, is_called) = facts.server.sequence_state(sequence.id).unwrap_or((sequence.start, false));
        row! {
            seqrelid: oids::of_number(sequence.id, Part::Table),
            last_value: last,
            log_cnt: 0,
            is_called: is_called,
        }
    };
    facts.catalog.sequences().map(state).collect()
}

/// Rows of `pg_sequences`.
pub(crate) fn sequence_view(facts: &StatementFacts) -> Vec<Row> {
    let sequence = |sequence: &model::SequenceRef| {
        row! {
            schemaname: sequence.name.schema.as_str(),
            sequencename: sequence.name.table.as_str(),
            sequenceowner: facts.user.as_str(),
            data_type: sequence.ty.oid(),
            start_value: sequence.start,
            min_value: sequence.min,
            max_value: sequence.max,
            increment_by: sequence.increment,
            cycle: sequence.cycle,
            cache_size: sequence.cache,
            last_value: facts.server.last_value(sequence.id),
        }
    };
    facts.catalog.sequences().filter(|one| is_shown(facts, &one.name)).map(sequence).collect()
}

/// Rows of `pg_depend`: the column that owns a sequence, and the index of a constraint.
pub(crate) fn dependencies(facts: &StatementFacts) -> Vec<Row> {
    const CLASS: i32 = 1259;
    let depends = |what: (i32, Oid), on: (i32, Oid, i64), kind: &str| {
        row! {
            classid: what.0,
            objid: what.1,
            refclassid: on.0,
            refobjid: on.1,
            refobjsubid: on.2,
            deptype: kind,
            tableoid: 2608,
        }
    };
    let mut rows = Vec::new();
    for sequence in facts.catalog.sequences() {
        let Some(owner) = sequence.owner else { continue };
        let Some(table) = facts.catalog.row_table_by_id(owner.table) else { continue };
        let column = table.columns.get(owner.column);
        let kind = if column.is_some_and(|column| column.identity.is_some()) { "i" } else { "a" };
        let on = (CLASS, oids::of_table(owner.table, Part::Table), owner.column as i64 + 1);
        rows.push(depends((CLASS, oids::of_number(sequence.id, Part::Table)), on, kind));
        if let Some(column) = column.filter(|column| column.default.is_some() && column.identity.is_none()) {
            let on = (CLASS, oids::of_number(sequence.id, Part::Table), 0);
            rows.push(depends((2604, default_oid(table, column)), on, "n"));
        }
    }
    for table in facts.catalog.row_tables() {
        let kind = if table.lineage.bound.is_some() { "a" } else { "n" };
        for parent in &table.lineage.parents {
            let on = (CLASS, oids::of_table(*parent, Part::Table), 0);
            rows.push(depends((CLASS, oids::of_table(table.id, Part::Table)), on, kind));
        }
        for index in indexes(table).filter(|index| index.constraint) {
            let on = (2606, oids::of_number(index.id, Part::Constraint), 0);
            rows.push(depends((CLASS, oids::of_number(index.id, Part::Index)), on, "i"));
        }
    }
    rows
}

/// Result of `pg_get_indexdef`; `short` omits the schema if the table is visible in the search path.
pub(crate) fn index_definition(
    facts: &StatementFacts,
    table: &model::RowSchemaRef,
    index: &RowIndex,
    short: bool,
) -> String {
    let on = match short {
        true => names::relation_name(facts, Class::Rows(table)),
        false => format!("{}.{}", names::quote_ident(&table.name.schema), names::quote_ident(&table.name.table)),
    };
    let keys: Vec<String> =
        (0..index.columns.len()).map(|at| names::expression(facts, &index_key(table, index, at, short))).collect();
    let mut text = format!(
        "CREATE {}INDEX {} ON {}{on} USING {} ({})",
        if index.is_key() { "UNIQUE " } else { "" },
        names::quote_ident(&index.name),
        if table.lineage.key.is_some() { "ONLY " } else { "" },
        index.method.name(),
        keys.join(", "),
    );
    text.push_str(&included(table, index));
    if index.nulls_not_distinct {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if let Some(predicate) = index.predicate.and_then(|at| hidden_expression(table, at)) {
        let predicate = if short { compiled::deparse::pretty(&predicate) } else { predicate };
        text.push_str(" WHERE ");
        text.push_str(&names::expression(facts, &predicate));
    }
    text
}

/// A key as it stands in the list of keys, with its properties.
fn index_key(table: &RowSchema, index: &RowIndex, at: usize, short: bool) -> String {
    let mut text = compiled::deparse::key(table, index.columns[at], short);
    let Some(key) = index.keys.get(at) else { return text };
    if let Some(collation) = &key.collation {
        text.push_str(&format!(" COLLATE {}", names::quote_ident(collation)));
    }
    if let Some(class) = &key.operator_class {
        text.push_str(&format!(" {class}"));
    }
    text.push_str(match (key.descending, key.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    });
    text
}

/// The INCLUDE clause of an index, if it has one.
fn included(table: &RowSchema, index: &RowIndex) -> String {
    match index.include.as_slice() {
        [] => String::new(),
        include => format!(" INCLUDE ({})", column_list(table, include)),
    }
}

/// Result of `pg_get_constraintdef`.
pub(crate) fn constraint_definition(
    facts: &StatementFacts,
    table: &RowSchema,
    constraint: Constraint<'_>,
    short: bool,
) -> String {
    match constraint {
        Constraint::Unique(index) => {
            let kind = if is_primary(table, index) { "PRIMARY KEY" } else { "UNIQUE" };
            let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
            let (columns, include) = (column_list(table, &index.columns), included(table, index));
            format!("{kind}{nulls} ({columns}){include}{}", deferral(index.deferral))
        }
        Constraint::Check(check) => {
            let condition = compiled::deparse::condition(&check.condition, table);
            let condition = if short { compiled::deparse::pretty(&condition) } else { condition };
            let condition = names::expression(facts, &condition);
            format!("CHECK ({condition}){}", if check.not_valid { " NOT VALID" } else { "" })
        }
        Constraint::Foreign(key) => {
            let own = column_list(table, &key.columns);
            let Some(parent) = facts.catalog.row_table_by_id(key.table) else { return String::new() };
            let name = names::relation_name(facts, Class::Rows(parent));
            let referred = column_list(parent, &key.referred);
            let on = |event: &str, action: Referential| match action {
                Referential::NoAction => String::new(),
                action => format!(" ON {event} {}", rule(action)),
            };
            let (update, delete) = (on("UPDATE", key.on_update), on("DELETE", key.on_delete));
            let full = if key.match_full { " MATCH FULL" } else { "" };
            let some = match key.delete_columns.as_slice() {
                [] => String::new(),
                some => format!(" ({})", column_list(table, some)),
            };
            let deferral = deferral(key.deferral);
            let not_valid = if key.not_valid { " NOT VALID" } else { "" };
            format!(
                "FOREIGN KEY ({own}) REFERENCES {name}({referred}){full}{update}{delete}{some}{deferral}{not_valid}"
            )
        }
    }
}

/// SQL syntax of the time at which a constraint is checked.
fn deferral(deferral: Deferral) -> &'static str {
    match deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// SQL syntax of a referential action.
pub(crate) fn rule(action: Referential) -> &'static str {
    match action {
        Referential::NoAction => "NO ACTION",
        Referential::Restrict => "RESTRICT",
        Referential::Cascade => "CASCADE",
        Referential::SetNull => "SET NULL",
        Referential::SetDefault => "SET DEFAULT",
    }
}

fn column_list(table: &RowSchema, columns: &[usize]) -> String {
    let names: Vec<String> = columns.iter().map(|at| names::quote_ident(&table.columns[*at].name)).collect();
    names.join(", ")
}
