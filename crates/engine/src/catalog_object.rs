//! Objects of the catalog, in the one encoding that log records, the base of the manifest and its
//! edits share. Bytes: docs/format/record.md, pinned by the golden tests below.
//!
//! Words: a *definition* is what DDL sets; *state* is what else an object has, for example files or
//! the values of a sequence. The definition is encoded here; the state is part of commits
//! ([`NewState`]) and of the manifest.
//!
//! A new kind of object needs a variant of [`CatalogObject`] and [`ObjectKey`] with its encoding
//! here, and its place in `catalog`. Log, manifest and replay need nothing unless it has state.

mod lineage;

use std::sync::Arc;

use model::{
    Attribute, CheckOption, Column, ColumnId, ColumnRole, ColumnRule, DataType, DeclaredType, Deferral, Domain,
    DomainCheck, EnumLabel, Identity, IndexMethod, Materialized, Referential, ReplicaIdentity, Result, RoutineRef,
    RowCheck, RowColumn, RowForeignKey, RowIndex, RowIndexKey, RowSchema, RowSchemaRef, RowTrigger, SequenceOwner,
    SequenceRef, SequenceSpec, TEMPORARY_SCHEMA, Table, TableId, TableName, TableOptions, TableRef, TableRules,
    TriggerEvents, TriggerFiring, TriggerTiming, Type, TypeSpec, TypeSpecRef, UserType, ViewBase, ViewColumn, ViewRef,
    ViewReference, ViewReferenceColumn, ViewSpec, user_types,
};
use rows::RowTable;

use crate::catalog::{check_row_schema, check_rules, check_shape, check_view};
use crate::codec::{Put, Take};
use crate::routine::{decode_routine, encode_routine};
use crate::sequence::SequenceState;

const KIND_SCHEMA: u8 = 1;
const KIND_TABLE: u8 = 2;
const KIND_ROW_TABLE: u8 = 3;
const KIND_SEQUENCE: u8 = 4;
const KIND_VIEW: u8 = 5;
const KIND_TYPE: u8 = 6;
const KIND_ROUTINE: u8 = 7;
const KIND_COMMENT: u8 = 32;

/// An object of the catalog, with its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CatalogObject {
    Schema(String),
    Table(TableRef),
    RowTable(RowSchemaRef),
    Sequence(SequenceRef),
    View(ViewRef),
    Comment(CommentKey, Arc<str>),
    Type(TypeSpecRef),
    Routine(RoutineRef),
}

/// Kind and identity of an object: its number, or the name of a schema. Ordered so that an object
/// follows those that it depends on; a view may depend on a later one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectKey {
    Schema(String),
    Type(u32),
    Table(TableId),
    RowTable(TableId),
    Sequence(u32),
    View(u32),
    Routine(u32),
    Comment(CommentKey),
}

/// The object that a comment describes, by the numbers of `pg_description`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommentKey {
    /// Number of the system catalog that lists the object.
    pub class: u32,
    /// Number of the object in it.
    pub object: u32,
    /// Number of a column of the object; 0 for the object.
    pub column: u32,
}

/// State that a commit gives to the object that it creates or alters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewState {
    /// None for a new object; an altered one keeps its state.
    Kept,
    /// A `rows` table loses its rows.
    Emptied,
    /// A sequence starts, or continues, here.
    Sequence(SequenceState),
}

impl std::fmt::Display for CommentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CommentKey { class, object, column } = self;
        write!(f, "object {object} of catalog {class}, column {column}")
    }
}

impl ObjectKey {
    fn kind(&self) -> u8 {
        match self {
            ObjectKey::Schema(_) => KIND_SCHEMA,
            ObjectKey::Table(_) => KIND_TABLE,
            ObjectKey::RowTable(_) => KIND_ROW_TABLE,
            ObjectKey::Sequence(_) => KIND_SEQUENCE,
            ObjectKey::View(_) => KIND_VIEW,
            ObjectKey::Comment(_) => KIND_COMMENT,
            ObjectKey::Type(_) => KIND_TYPE,
            ObjectKey::Routine(_) => KIND_ROUTINE,
        }
    }

    /// The number, if objects of this kind have one. Numbers are unique across all kinds, except that a
    /// materialized view has that of the table with its rows.
    pub(crate) fn number(&self) -> Option<u32> {
        match self {
            ObjectKey::Schema(_) | ObjectKey::Comment(_) => None,
            ObjectKey::Table(id) | ObjectKey::RowTable(id) => Some(id.0),
            ObjectKey::Sequence(id) | ObjectKey::View(id) | ObjectKey::Type(id) | ObjectKey::Routine(id) => Some(*id),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind());
        match self {
            ObjectKey::Schema(name) => out.put_bytes(name.as_bytes()),
            ObjectKey::Table(id) | ObjectKey::RowTable(id) => out.put_bytes(&id.0.to_le_bytes()),
            ObjectKey::Sequence(id) | ObjectKey::View(id) | ObjectKey::Type(id) | ObjectKey::Routine(id) => {
                out.put_bytes(&id.to_le_bytes());
            }
            ObjectKey::Comment(CommentKey { class, object, column }) => {
                let numbers = [class.to_le_bytes(), object.to_le_bytes(), column.to_le_bytes()];
                out.put_bytes(numbers.as_flattened());
            }
        }
    }

    /// Decodes the bytes of [`ObjectKey::encode`].
    pub(crate) fn decode(take: &mut Take<'_>) -> Result<ObjectKey> {
        let kind = take.u8()?;
        let mut id = Take::new(take.bytes()?, "identity of an object");
        let key = match kind {
            KIND_SCHEMA => {
                let name =
                    std::str::from_utf8(id.rest()).map_err(|_| take.malformed("has a name that is not UTF-8"))?;
                ObjectKey::Schema(name.to_owned())
            }
            KIND_TABLE => ObjectKey::Table(TableId(id.u32()?)),
            KIND_ROW_TABLE => ObjectKey::RowTable(TableId(id.u32()?)),
            KIND_SEQUENCE => ObjectKey::Sequence(id.u32()?),
            KIND_VIEW => ObjectKey::View(id.u32()?),
            KIND_COMMENT => ObjectKey::Comment(CommentKey { class: id.u32()?, object: id.u32()?, column: id.u32()? }),
            KIND_TYPE => ObjectKey::Type(id.u32()?),
            KIND_ROUTINE => ObjectKey::Routine(id.u32()?),
            other => return Err(take.malformed(&format!("has an object of kind {other}"))),
        };
        id.end()?;
        Ok(key)
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ObjectKey::Schema(name) => write!(f, "schema {name:?}"),
            ObjectKey::Table(id) => write!(f, "table number {id}"),
            ObjectKey::RowTable(id) => write!(f, "rows table number {id}"),
            ObjectKey::Sequence(id) => write!(f, "sequence number {id}"),
            ObjectKey::View(id) => write!(f, "view number {id}"),
            ObjectKey::Comment(key) => write!(f, "comment on {key}"),
            ObjectKey::Type(id) => write!(f, "type number {id}"),
            ObjectKey::Routine(id) => write!(f, "function number {id}"),
        }
    }
}

impl std::fmt::Display for CatalogObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatalogObject::Schema(name) => write!(f, "schema {name:?}"),
            CatalogObject::Table(table) => write!(f, "table {}", table.name),
            CatalogObject::RowTable(schema) => write!(f, "rows table {}", schema.name),
            CatalogObject::Sequence(sequence) => write!(f, "sequence {}", sequence.name),
            CatalogObject::View(view) => write!(f, "view {}", view.name),
            CatalogObject::Comment(key, _) => write!(f, "comment on {key}"),
            CatalogObject::Type(spec) => write!(f, "type {}", spec.name),
            CatalogObject::Routine(routine) => write!(f, "function {}", routine.name),
        }
    }
}

impl CatalogObject {
    /// Whether it is a temporary object, or the schema of such.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            CatalogObject::Schema(name) => name.starts_with(TEMPORARY_SCHEMA),
            CatalogObject::Table(table) => table.name.is_temporary(),
            CatalogObject::RowTable(schema) => schema.name.is_temporary(),
            CatalogObject::Sequence(sequence) => sequence.name.is_temporary(),
            CatalogObject::View(view) => view.name.is_temporary(),
            CatalogObject::Type(spec) => spec.name.is_temporary(),
            CatalogObject::Routine(routine) => routine.name.is_temporary(),
            // Those on temporary objects are not stored.
            CatalogObject::Comment(..) => false,
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        match self {
            CatalogObject::Schema(name) => ObjectKey::Schema(name.clone()),
            CatalogObject::Table(table) => ObjectKey::Table(table.id),
            CatalogObject::RowTable(schema) => ObjectKey::RowTable(schema.id),
            CatalogObject::Sequence(sequence) => ObjectKey::Sequence(sequence.id),
            CatalogObject::View(view) => ObjectKey::View(view.id),
            CatalogObject::Comment(key, _) => ObjectKey::Comment(*key),
            CatalogObject::Type(spec) => ObjectKey::Type(spec.id),
            CatalogObject::Routine(routine) => ObjectKey::Routine(routine.id),
        }
    }

    /// Returns a number above those of the object and its parts.
    pub(crate) fn next_number(&self) -> u32 {
        let parts = match self {
            CatalogObject::RowTable(schema) => {
                let indexes = schema.primary.iter().chain(&schema.secondary).map(|index| index.id);
                indexes.chain(schema.triggers.iter().map(|trigger| trigger.id)).max()
            }
            _ => None,
        };
        let last = parts.into_iter().chain(self.key().number()).max();
        last.map_or(0, |last| last.saturating_add(1))
    }

    /// Encodes the key and, with its length, the definition.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.key().encode(out);
        let mut definition = Vec::new();
        match self {
            CatalogObject::Schema(_) => {}
            CatalogObject::Table(table) => encode_table(table, &mut definition),
            CatalogObject::RowTable(schema) => encode_row_schema(schema, &mut definition),
            CatalogObject::Sequence(sequence) => encode_sequence(sequence, &mut definition),
            CatalogObject::View(view) => encode_view(view, &mut definition),
            CatalogObject::Comment(_, text) => definition.extend_from_slice(text.as_bytes()),
            CatalogObject::Type(spec) => encode_type(spec, &mut definition),
            CatalogObject::Routine(routine) => encode_routine(routine, &mut definition),
        }
        out.put_bytes(&definition);
    }

    /// Decodes and validates the bytes of [`CatalogObject::encode`].
    pub(crate) fn decode(take: &mut Take<'_>) -> Result<CatalogObject> {
        let key = ObjectKey::decode(take)?;
        let mut take = Take::new(take.bytes()?, "definition");
        let object = match key {
            ObjectKey::Schema(name) => CatalogObject::Schema(name),
            ObjectKey::Table(id) => CatalogObject::Table(Arc::new(decode_table(id, &mut take)?)),
            ObjectKey::RowTable(id) => CatalogObject::RowTable(decode_row_table(id, &mut take)?),
            ObjectKey::Sequence(id) => CatalogObject::Sequence(Arc::new(decode_sequence(id, &mut take)?)),
            ObjectKey::View(id) => CatalogObject::View(Arc::new(decode_view(id, &mut take)?)),
            ObjectKey::Comment(key) => {
                let text =
                    std::str::from_utf8(take.rest()).map_err(|_| take.malformed("has a comment that is not UTF-8"))?;
                CatalogObject::Comment(key, text.into())
            }
            ObjectKey::Type(id) => CatalogObject::Type(decode_type(id, &mut take)?),
            ObjectKey::Routine(id) => CatalogObject::Routine(Arc::new(decode_routine(id, &mut take)?)),
        };
        take.end()?;
        Ok(object)
    }
}

impl NewState {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        match self {
            NewState::Kept => out.put_u8(0),
            NewState::Emptied => out.put_u8(1),
            NewState::Sequence(state) => {
                out.put_u8(2);
                state.encode(out);
            }
        }
    }

    /// Decodes the bytes of [`NewState::encode`]; refuses a state that `object` cannot have.
    pub(crate) fn decode(take: &mut Take<'_>, object: &CatalogObject, is_new: bool) -> Result<NewState> {
        let state = match take.u8()? {
            0 => NewState::Kept,
            1 => NewState::Emptied,
            2 => NewState::Sequence(SequenceState::decode(take)?),
            other => return Err(take.malformed(&format!("gives an object a state of kind {other}"))),
        };
        let is_valid = match (object, state) {
            (CatalogObject::Sequence(_), NewState::Kept) => !is_new,
            (CatalogObject::Sequence(_), NewState::Sequence(_)) | (_, NewState::Kept) => true,
            (CatalogObject::RowTable(_), NewState::Emptied) => !is_new,
            _ => false,
        };
        if is_valid { Ok(state) } else { Err(take.malformed(&format!("gives {} the state {state:?}", object.key()))) }
    }
}

/// Bits of the flags of a table.
const TABLE_KEYED: u8 = 1;
const TABLE_UNCOMPRESSED: u8 = 2;
const TABLE_RULES: u8 = 4;
const RULE_DEFAULT: u8 = 1;
const RULE_TYPE: u8 = 2;

fn encode_table(table: &Table, out: &mut Vec<u8>) {
    encode_name(&table.name, out);
    out.put_u32(table.version);
    let has_rules = !table.rules.is_empty();
    out.put_u8(
        flag(table.keyed, TABLE_KEYED)
            | flag(!table.options.compression, TABLE_UNCOMPRESSED)
            | flag(has_rules, TABLE_RULES),
    );
    out.put_u32(table.next_column_id.0);
    out.put_i64(table.options.partition_length);
    out.put_u32(table.columns.len() as u32);
    for column in &table.columns {
        out.put_u32(column.id.0);
        out.put_u8(column.ty as u8);
        out.put_u8(column.role as u8);
        out.put_u8(u8::from(column.nullable));
        out.put_bytes(column.name.as_bytes());
    }
    if has_rules {
        encode_rules(&table.rules, out);
    }
    let TableOptions { retention_ns, history, .. } = table.options;
    if retention_ns.is_some() || history {
        out.put_i64(retention_ns.unwrap_or(0));
        out.put_u8(u8::from(history));
    }
}

fn decode_table(id: TableId, take: &mut Take<'_>) -> Result<Table> {
    let name = decode_name(take)?;
    let version = take.u32()?;
    let flags = take.u8()?;
    if flags & !(TABLE_KEYED | TABLE_UNCOMPRESSED | TABLE_RULES) != 0 {
        return Err(take.malformed(&format!("has table flags {flags}")));
    }
    let keyed = flags & TABLE_KEYED != 0;
    let next_column_id = ColumnId(take.u32()?);
    let mut options = TableOptions {
        partition_length: take.i64()?,
        compression: flags & TABLE_UNCOMPRESSED == 0,
        ..TableOptions::default()
    };
    let count = take.count(11)?;
    let columns = (0..count).map(|_| decode_column(take)).collect::<Result<Vec<_>>>()?;
    let rules = if flags & TABLE_RULES == 0 { Arc::default() } else { Arc::new(decode_rules(take)?) };
    if !take.is_empty() {
        options.retention_ns = Some(take.i64()?).filter(|retention| *retention != 0);
        options.history = take.u8()? != 0;
    }
    let table = Table { id, name, version, keyed, columns, next_column_id, options, rules };
    check_table(&table).map_err(|problem| take.malformed(&problem))?;
    Ok(table)
}

/// Checks the invariants of tables that all code relies on. Limits are not checked: they may have
/// been higher when the table was created.
fn check_table(table: &Table) -> std::result::Result<(), String> {
    check_shape(table).map_err(|error| error.to_string())?;
    let mut ids = std::collections::BTreeSet::new();
    let mut names = std::collections::BTreeSet::new();
    for column in &table.columns {
        if column.id >= table.next_column_id || !ids.insert(column.id) || !names.insert(&column.name) {
            return Err(format!("has a duplicate or invalid column \"{}\", number {}", column.name, column.id));
        }
    }
    check_rules(table).map_err(|error| error.to_string())
}

fn encode_rules(rules: &TableRules, out: &mut Vec<u8>) {
    out.put_u32(rules.columns.len() as u32);
    for rule in &rules.columns {
        out.put_u32(rule.id.0);
        out.put_u8(flag(rule.default.is_some(), RULE_DEFAULT) | flag(rule.declared.is_some(), RULE_TYPE));
        if let Some(default) = &rule.default {
            out.put_bytes(default.as_bytes());
        }
        if let Some(DeclaredType { oid, typmod }) = rule.declared {
            out.put_u32(oid);
            out.put_u32(typmod.cast_unsigned());
        }
    }
    encode_checks(&rules.checks, out);
}

fn decode_rules(take: &mut Take<'_>) -> Result<TableRules> {
    let column = |take: &mut Take<'_>| {
        let id = ColumnId(take.u32()?);
        let flags = take.u8()?;
        if flags & !(RULE_DEFAULT | RULE_TYPE) != 0 {
            return Err(take.malformed(&format!("has rule flags {flags}")));
        }
        let default = (flags & RULE_DEFAULT != 0).then(|| take.text().map(str::to_owned)).transpose()?;
        let ty = |take: &mut Take<'_>| Ok(DeclaredType { oid: take.u32()?, typmod: take.u32()?.cast_signed() });
        let declared = (flags & RULE_TYPE != 0).then(|| ty(take)).transpose()?;
        Ok(ColumnRule { id, default, declared })
    };
    let columns = (0..take.count(5)?).map(|_| column(take)).collect::<Result<Vec<_>>>()?;
    Ok(TableRules { columns, checks: decode_checks(take)? })
}

fn encode_checks(checks: &[RowCheck], out: &mut Vec<u8>) {
    out.put_u32(checks.len() as u32);
    for check in checks {
        out.put_bytes(check.name.as_bytes());
        out.put_bytes(check.condition.as_bytes());
        out.put_u8(u8::from(check.not_valid));
    }
}

fn decode_checks(take: &mut Take<'_>) -> Result<Vec<RowCheck>> {
    let check = |take: &mut Take<'_>| {
        let (name, condition) = (take.text()?.to_owned(), take.text()?.to_owned());
        Ok(RowCheck { name, condition, not_valid: take.u8()? != 0 })
    };
    (0..take.count(9)?).map(|_| check(take)).collect()
}

fn decode_column(take: &mut Take<'_>) -> Result<Column> {
    let id = ColumnId(take.u32()?);
    let ty = take.u8()?;
    let role = take.u8()?;
    Ok(Column {
        id,
        ty: DataType::from_code(ty).ok_or_else(|| take.malformed(&format!("has column type {ty}")))?,
        role: ColumnRole::from_code(role).ok_or_else(|| take.malformed(&format!("has column role {role}")))?,
        nullable: take.u8()? != 0,
        name: take.text()?.to_owned(),
    })
}

const COLUMN_NOT_NULL: u8 = 1;
const COLUMN_DROPPED: u8 = 2;
const COLUMN_DEFAULT: u8 = 4;
const COLUMN_MISSING: u8 = 8;
const COLUMN_GENERATED: u8 = 16;
const COLUMN_COLLATION: u8 = 32;
const COLUMN_DOMAIN: u8 = 64;
const INDEX_UNIQUE: u8 = 1;
const INDEX_CONSTRAINT: u8 = 2;
const INDEX_METHOD: u8 = 4;
const INDEX_PREDICATE: u8 = 8;
const INDEX_KEYS: u8 = 16;
const INDEX_NULLS_NOT_DISTINCT: u8 = 32;
const INDEX_DEFERRABLE: u8 = 64;
const INDEX_PRIMARY: u8 = 128;
const KEY_DESCENDING: u8 = 1;
const KEY_NULLS_FIRST: u8 = 2;
const KEY_OPERATOR_CLASS: u8 = 4;
const KEY_COLLATION: u8 = 8;
const FOREIGN_MATCH_FULL: u8 = 1;
const FOREIGN_NOT_VALID: u8 = 2;
const FOREIGN_CHECK_DISABLED: u8 = 4;
const FOREIGN_ACTION_DISABLED: u8 = 8;
const TRIGGER_EACH_ROW: u8 = 1;
const TRIGGER_CONDITION: u8 = 2;
const TRIGGER_CONSTRAINT: u8 = 4;

/// Decodes and validates the bytes of [`encode_row_schema`].
fn decode_row_table(id: TableId, take: &mut Take<'_>) -> Result<RowSchemaRef> {
    let schema = Arc::new(decode_row_schema(id, take)?);
    let table = check_row_schema(&schema).and_then(|()| RowTable::new(Arc::clone(&schema)));
    table.map_err(|error| take.malformed(&error.to_string()))?;
    Ok(schema)
}

fn encode_row_schema(schema: &RowSchema, out: &mut Vec<u8>) {
    encode_name(&schema.name, out);
    out.put_u32(schema.version);
    out.put_u32(schema.columns.len() as u32);
    for column in &schema.columns {
        out.put_bytes(column.name.as_bytes());
        out.put_u32(column.ty.oid());
        out.put_u32(column.ty.typmod().cast_unsigned());
        out.put_u8(
            flag(column.not_null, COLUMN_NOT_NULL)
                | flag(column.dropped, COLUMN_DROPPED)
                | flag(column.default.is_some(), COLUMN_DEFAULT)
                | flag(column.missing.is_some(), COLUMN_MISSING)
                | flag(column.generated.is_some(), COLUMN_GENERATED)
                | flag(column.collation.is_some(), COLUMN_COLLATION)
                | flag(column.domain.is_some(), COLUMN_DOMAIN),
        );
        out.put_u8(column.identity.map_or(0, |identity| identity as u8));
        if let Some(default) = &column.default {
            out.put_bytes(default.as_bytes());
        }
        if let Some(missing) = &column.missing {
            out.put_bytes(missing);
        }
        if let Some(generated) = &column.generated {
            out.put_bytes(generated.as_bytes());
        }
        if let Some(collation) = &column.collation {
            out.put_bytes(collation.as_bytes());
        }
        if let Some(domain) = column.domain {
            out.put_u32(domain);
        }
    }
    out.put_u8(u8::from(schema.primary.is_some()));
    schema.primary.iter().for_each(|index| encode_index(index, out));
    out.put_u32(schema.secondary.len() as u32);
    schema.secondary.iter().for_each(|index| encode_index(index, out));
    encode_checks(&schema.checks, out);
    out.put_u32(schema.foreign_keys.len() as u32);
    for key in &schema.foreign_keys {
        out.put_bytes(key.name.as_bytes());
        encode_positions(&key.columns, out);
        out.put_u32(key.table.0);
        encode_positions(&key.referred, out);
        out.put_u8(key.on_delete as u8);
        out.put_u8(key.on_update as u8);
        encode_positions(&key.delete_columns, out);
        out.put_u8(
            flag(key.match_full, FOREIGN_MATCH_FULL)
                | flag(key.not_valid, FOREIGN_NOT_VALID)
                | flag(key.check_disabled, FOREIGN_CHECK_DISABLED)
                | flag(key.action_disabled, FOREIGN_ACTION_DISABLED),
        );
        out.put_u8(key.deferral as u8);
    }
    out.put_u32(schema.triggers.len() as u32);
    schema.triggers.iter().for_each(|trigger| encode_trigger(trigger, out));
    encode_replica_identity(schema.replica_identity, out);
    lineage::encode(&schema.lineage, out);
}

fn encode_replica_identity(identity: ReplicaIdentity, out: &mut Vec<u8>) {
    match identity {
        ReplicaIdentity::Default => out.put_u8(0),
        ReplicaIdentity::Nothing => out.put_u8(1),
        ReplicaIdentity::Full => out.put_u8(2),
        ReplicaIdentity::Index(id) => {
            out.put_u8(3);
            out.put_u32(id);
        }
    }
}

fn decode_replica_identity(take: &mut Take<'_>) -> Result<ReplicaIdentity> {
    match take.u8()? {
        0 => Ok(ReplicaIdentity::Default),
        1 => Ok(ReplicaIdentity::Nothing),
        2 => Ok(ReplicaIdentity::Full),
        3 => Ok(ReplicaIdentity::Index(take.u32()?)),
        other => Err(take.malformed(&format!("has replica identity {other}"))),
    }
}

fn encode_trigger(trigger: &RowTrigger, out: &mut Vec<u8>) {
    out.put_u32(trigger.id);
    out.put_bytes(trigger.name.as_bytes());
    out.put_u8(trigger.timing as u8);
    out.put_u8(trigger.events.code());
    out.put_u8(
        flag(trigger.each_row, TRIGGER_EACH_ROW)
            | flag(trigger.condition.is_some(), TRIGGER_CONDITION)
            | flag(trigger.constraint, TRIGGER_CONSTRAINT),
    );
    out.put_u8(trigger.firing as u8);
    encode_positions(&trigger.columns, out);
    trigger.condition.iter().for_each(|condition| out.put_bytes(condition.as_bytes()));
    out.put_u32(trigger.routine);
    out.put_u32(trigger.arguments.len() as u32);
    trigger.arguments.iter().for_each(|argument| out.put_bytes(argument.as_bytes()));
}

fn decode_trigger(take: &mut Take<'_>) -> Result<RowTrigger> {
    let (id, name) = (take.u32()?, take.text()?.to_owned());
    let timing = take.u8()?;
    let timing =
        TriggerTiming::from_code(timing).ok_or_else(|| take.malformed(&format!("has trigger timing {timing}")))?;
    let events = take.u8()?;
    let events =
        TriggerEvents::from_code(events).ok_or_else(|| take.malformed(&format!("has trigger events {events}")))?;
    let (flags, firing) = (take.u8()?, take.u8()?);
    let firing =
        TriggerFiring::from_code(firing).ok_or_else(|| take.malformed(&format!("has trigger firing {firing}")))?;
    let columns = decode_positions(take)?;
    let condition = if flags & TRIGGER_CONDITION != 0 { Some(take.text()?.to_owned()) } else { None };
    let routine = take.u32()?;
    let arguments = (0..take.count(4)?).map(|_| take.text().map(ToOwned::to_owned)).collect::<Result<Vec<_>>>()?;
    Ok(RowTrigger {
        id,
        name,
        timing,
        events,
        each_row: flags & TRIGGER_EACH_ROW != 0,
        columns,
        condition,
        routine,
        arguments,
        firing,
        constraint: flags & TRIGGER_CONSTRAINT != 0,
    })
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

fn encode_index(index: &RowIndex, out: &mut Vec<u8>) {
    out.put_u32(index.id);
    out.put_bytes(index.name.as_bytes());
    encode_positions(&index.columns, out);
    out.put_u8(
        flag(index.unique, INDEX_UNIQUE)
            | flag(index.constraint, INDEX_CONSTRAINT)
            | flag(index.method != IndexMethod::Btree, INDEX_METHOD)
            | flag(index.predicate.is_some(), INDEX_PREDICATE)
            | flag(!index.keys.is_empty(), INDEX_KEYS)
            | flag(index.nulls_not_distinct, INDEX_NULLS_NOT_DISTINCT)
            | flag(index.is_deferrable(), INDEX_DEFERRABLE)
            | flag(index.is_primary, INDEX_PRIMARY),
    );
    if index.is_deferrable() {
        out.put_u8(index.deferral as u8);
    }
    if index.method != IndexMethod::Btree {
        out.put_u8(index.method as u8);
    }
    encode_positions(&index.include, out);
    if let Some(predicate) = index.predicate {
        out.put_u32(predicate as u32);
    }
    for key in &index.keys {
        out.put_u8(
            flag(key.descending, KEY_DESCENDING)
                | flag(key.nulls_first, KEY_NULLS_FIRST)
                | flag(key.operator_class.is_some(), KEY_OPERATOR_CLASS)
                | flag(key.collation.is_some(), KEY_COLLATION),
        );
        for text in key.operator_class.iter().chain(&key.collation) {
            out.put_bytes(text.as_bytes());
        }
    }
}

fn encode_positions(positions: &[usize], out: &mut Vec<u8>) {
    out.put_u32(positions.len() as u32);
    positions.iter().for_each(|at| out.put_u32(*at as u32));
}

fn decode_row_schema(id: TableId, take: &mut Take<'_>) -> Result<RowSchema> {
    let name = decode_name(take)?;
    let version = take.u32()?;
    let columns = (0..take.count(14)?).map(|_| decode_row_column(take)).collect::<Result<Vec<_>>>()?;
    let primary = if take.u8()? != 0 { Some(decode_index(take)?) } else { None };
    let secondary = (0..take.count(13)?).map(|_| decode_index(take)).collect::<Result<Vec<_>>>()?;
    let checks = decode_checks(take)?;
    let foreign_keys = (0..take.count(24)?).map(|_| decode_foreign_key(take)).collect::<Result<Vec<_>>>()?;
    let triggers = (0..take.count(24)?).map(|_| decode_trigger(take)).collect::<Result<Vec<_>>>()?;
    let replica_identity = decode_replica_identity(take)?;
    let lineage = lineage::decode(take)?;
    Ok(RowSchema {
        id,
        name,
        version,
        lineage,
        columns,
        primary,
        secondary,
        checks,
        foreign_keys,
        triggers,
        replica_identity,
    })
}

fn decode_row_column(take: &mut Take<'_>) -> Result<RowColumn> {
    let name = take.text()?.to_owned();
    let (oid, typmod) = (take.u32()?, take.u32()?.cast_signed());
    let ty = Type::from_oid(oid, typmod);
    let flags = take.u8()?;
    let identity = match take.u8()? {
        0 => None,
        code => {
            Some(Identity::from_code(code).ok_or_else(|| take.malformed(&format!("has a column of identity {code}")))?)
        }
    };
    let default = if flags & COLUMN_DEFAULT == 0 { None } else { Some(take.text()?.to_owned()) };
    let missing = if flags & COLUMN_MISSING == 0 { None } else { Some(take.bytes()?.into()) };
    let generated = if flags & COLUMN_GENERATED == 0 { None } else { Some(take.text()?.to_owned()) };
    let collation = if flags & COLUMN_COLLATION == 0 { None } else { Some(take.text()?.to_owned()) };
    let domain = if flags & COLUMN_DOMAIN == 0 { None } else { Some(take.u32()?) };
    if domain.is_some_and(|oid| !user_types::is_constrained(oid)) {
        return Err(take.malformed("has a column of a domain that is none"));
    }
    Ok(RowColumn {
        name,
        ty: ty.ok_or_else(|| take.malformed(&format!("has a column of type {oid}, {typmod}")))?,
        not_null: flags & COLUMN_NOT_NULL != 0,
        default,
        identity,
        generated,
        collation,
        missing,
        domain,
        dropped: flags & COLUMN_DROPPED != 0,
    })
}

fn decode_index(take: &mut Take<'_>) -> Result<RowIndex> {
    let (id, name, columns) = (take.u32()?, take.text()?.to_owned(), decode_positions(take)?);
    let flags = take.u8()?;
    let has = |flag| flags & flag != 0;
    let (unique, constraint) = (has(INDEX_UNIQUE), has(INDEX_CONSTRAINT));
    let (nulls_not_distinct, is_primary) = (has(INDEX_NULLS_NOT_DISTINCT), has(INDEX_PRIMARY));
    let deferral = if has(INDEX_DEFERRABLE) { decode_deferral(take)? } else { Deferral::Never };
    let method = if has(INDEX_METHOD) { take.u8()? } else { 0 };
    let method =
        IndexMethod::from_code(method).ok_or_else(|| take.malformed(&format!("has an index of method {method}")))?;
    let include = decode_positions(take)?;
    let predicate = if has(INDEX_PREDICATE) { Some(take.u32()? as usize) } else { None };
    let keys = if has(INDEX_KEYS) { columns.len() } else { 0 };
    let keys = (0..keys).map(|_| decode_key(take)).collect::<Result<Vec<_>>>()?;
    Ok(RowIndex {
        id,
        name,
        columns,
        keys,
        include,
        predicate,
        method,
        unique,
        nulls_not_distinct,
        constraint,
        deferral,
        is_primary,
    })
}

fn decode_deferral(take: &mut Take<'_>) -> Result<Deferral> {
    let code = take.u8()?;
    Deferral::from_code(code).ok_or_else(|| take.malformed(&format!("has a constraint of deferral {code}")))
}

fn decode_key(take: &mut Take<'_>) -> Result<RowIndexKey> {
    let flags = take.u8()?;
    let mut text = |flag| if flags & flag == 0 { Ok(None) } else { take.text().map(|text| Some(text.to_owned())) };
    let (operator_class, collation) = (text(KEY_OPERATOR_CLASS)?, text(KEY_COLLATION)?);
    let (descending, nulls_first) = (flags & KEY_DESCENDING != 0, flags & KEY_NULLS_FIRST != 0);
    Ok(RowIndexKey { descending, nulls_first, operator_class, collation })
}

fn decode_positions(take: &mut Take<'_>) -> Result<Vec<usize>> {
    (0..take.count(4)?).map(|_| Ok(take.u32()? as usize)).collect()
}

fn decode_foreign_key(take: &mut Take<'_>) -> Result<RowForeignKey> {
    let name = take.text()?.to_owned();
    let columns = decode_positions(take)?;
    let table = TableId(take.u32()?);
    let referred = decode_positions(take)?;
    let action = |take: &mut Take<'_>| {
        let code = take.u8()?;
        Referential::from_code(code).ok_or_else(|| take.malformed(&format!("has foreign key action {code}")))
    };
    let (on_delete, on_update) = (action(take)?, action(take)?);
    let delete_columns = decode_positions(take)?;
    let (flags, deferral) = (take.u8()?, decode_deferral(take)?);
    let has = |flag| flags & flag != 0;
    Ok(RowForeignKey {
        name,
        columns,
        table,
        referred,
        on_delete,
        on_update,
        delete_columns,
        match_full: has(FOREIGN_MATCH_FULL),
        deferral,
        not_valid: has(FOREIGN_NOT_VALID),
        check_disabled: has(FOREIGN_CHECK_DISABLED),
        action_disabled: has(FOREIGN_ACTION_DISABLED),
    })
}

fn encode_sequence(sequence: &SequenceSpec, out: &mut Vec<u8>) {
    encode_name(&sequence.name, out);
    out.put_u32(sequence.ty.oid());
    for number in [sequence.start, sequence.increment, sequence.min, sequence.max] {
        out.put_i64(number);
    }
    out.put_i64(sequence.cache);
    out.put_u8(u8::from(sequence.cycle));
    out.put_u8(u8::from(sequence.owner.is_some()));
    let (table, column) = sequence.owner.map_or((0, 0), |owner| (owner.table.0, owner.column as u32));
    out.put_u32(table);
    out.put_u32(column);
}

fn decode_sequence(id: u32, take: &mut Take<'_>) -> Result<SequenceSpec> {
    let name = decode_name(take)?;
    let oid = take.u32()?;
    let ty = Type::from_oid(oid, -1).filter(|ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8));
    let ty = ty.ok_or_else(|| take.malformed(&format!("counts in type {oid}")))?;
    let (start, increment, min, max) = (take.i64()?, take.i64()?, take.i64()?, take.i64()?);
    let (cache, cycle, owned) = (take.i64()?, take.u8()? != 0, take.u8()? != 0);
    let owner = SequenceOwner { table: TableId(take.u32()?), column: take.u32()? as usize };
    let owner = owned.then_some(owner);
    let sequence = SequenceSpec { id, name, ty, start, increment, min, max, cache, cycle, owner };
    sequence.check().map_err(|error| take.malformed(&error.to_string()))?;
    Ok(sequence)
}

pub(crate) fn encode_type(spec: &TypeSpec, out: &mut Vec<u8>) {
    encode_name(&spec.name, out);
    out.put_u32(spec.version);
    out.put_u32(spec.oid);
    match &spec.kind {
        UserType::Enum(labels) => {
            out.put_u8(1);
            out.put_u32(labels.len() as u32);
            for label in labels {
                out.put_u32(label.number);
                out.put_u32(label.sort_order);
                out.put_bytes(label.label.as_bytes());
            }
        }
        UserType::Domain(domain) => {
            out.put_u8(2);
            out.put_u32(domain.base.oid());
            out.put_u32(domain.base.typmod().cast_unsigned());
            out.put_u32(domain.over);
            out.put_u8(u8::from(domain.not_null) | u8::from(domain.default.is_some()) << 1);
            if let Some(default) = &domain.default {
                out.put_bytes(default.as_bytes());
            }
            out.put_u32(domain.checks.len() as u32);
            for check in &domain.checks {
                out.put_bytes(check.name.as_bytes());
                out.put_bytes(check.condition.as_bytes());
                out.put_u8(check.is_valid.into());
            }
        }
        UserType::Composite(attributes) => {
            out.put_u8(3);
            out.put_u32(attributes.len() as u32);
            for attribute in attributes {
                out.put_bytes(attribute.name.as_bytes());
                out.put_u32(attribute.ty.oid());
                out.put_u32(attribute.ty.typmod().cast_unsigned());
            }
        }
    }
}

/// Decodes the bytes of [`encode_type`].
fn decode_type(id: u32, take: &mut Take<'_>) -> Result<TypeSpecRef> {
    let name = decode_name(take)?;
    let (version, oid) = (take.u32()?, take.u32()?);
    let kind = match take.u8()? {
        1 => {
            let label = |take: &mut Take<'_>| {
                Ok(EnumLabel { number: take.u32()?, sort_order: take.u32()?, label: take.text()?.to_owned() })
            };
            UserType::Enum((0..take.count(12)?).map(|_| label(take)).collect::<Result<_>>()?)
        }
        2 => UserType::Domain(decode_domain(take)?),
        3 => {
            let attribute = |take: &mut Take<'_>| {
                let name = take.text()?.to_owned();
                let (oid, typmod) = (take.u32()?, take.u32()?.cast_signed());
                let ty = Type::from_oid(oid, typmod);
                let ty = ty.ok_or_else(|| take.malformed(&format!("has an attribute of type {oid}, {typmod}")))?;
                Ok(Attribute { name, ty })
            };
            UserType::Composite((0..take.count(12)?).map(|_| attribute(take)).collect::<Result<_>>()?)
        }
        other => return Err(take.malformed(&format!("has a type of kind {other}"))),
    };
    let spec = Arc::new(TypeSpec { id, name, version, oid, kind });
    spec.check().map_err(|error| take.malformed(&error.to_string()))?;
    Ok(spec)
}

fn decode_domain(take: &mut Take<'_>) -> Result<Domain> {
    let (base, typmod) = (take.u32()?, take.u32()?.cast_signed());
    let base = Type::from_oid(base, typmod).ok_or_else(|| take.malformed("has a domain of an unknown type"))?;
    let (over, flags) = (take.u32()?, take.u8()?);
    if flags > 3 {
        return Err(take.malformed(&format!("has a domain with flags {flags}")));
    }
    let default = if flags & 2 == 0 { None } else { Some(take.text()?.to_owned()) };
    let check = |take: &mut Take<'_>| {
        let (name, condition) = (take.text()?.to_owned(), take.text()?.to_owned());
        match take.u8()? {
            valid @ 0..=1 => Ok(DomainCheck { name, condition, is_valid: valid == 1 }),
            other => Err(take.malformed(&format!("has a constraint with flag {other}"))),
        }
    };
    let checks = (0..take.count(9)?).map(|_| check(take)).collect::<Result<_>>()?;
    Ok(Domain { base, over, not_null: flags & 1 != 0, default, checks })
}

pub(crate) fn encode_view(view: &ViewSpec, out: &mut Vec<u8>) {
    encode_name(&view.name, out);
    out.put_u32(view.version);
    out.put_u32(view.columns.len() as u32);
    for column in &view.columns {
        out.put_bytes(column.name.as_bytes());
        out.put_u32(column.ty);
        out.put_u32(column.typmod.cast_unsigned());
    }
    out.put_bytes(view.query.as_bytes());
    out.put_u32(view.references.len() as u32);
    for reference in &view.references {
        encode_name(&reference.name, out);
        out.put_u32(reference.object);
        out.put_u32(reference.columns.len() as u32);
        for column in &reference.columns {
            out.put_u32(column.number);
            out.put_bytes(column.name.as_bytes());
            out.put_u32(column.ty);
            out.put_u32(column.typmod.cast_unsigned());
        }
    }
    out.put_u8(view.base.is_some().into());
    if let Some(base) = &view.base {
        out.put_u32(base.object);
        out.put_u32(base.columns.len() as u32);
        for column in &base.columns {
            out.put_u32(column.map_or(0, |column| column.saturating_add(1)));
        }
    }
    out.put_u8(view.check.map_or(0, |check| check as u8));
    out.put_u8(view.materialized.map_or(0, |one| one as u8));
}

fn decode_view(id: u32, take: &mut Take<'_>) -> Result<ViewSpec> {
    let name = decode_name(take)?;
    let version = take.u32()?;
    let column = |take: &mut Take<'_>| {
        Ok(ViewColumn { name: take.text()?.to_owned(), ty: take.u32()?, typmod: take.u32()?.cast_signed() })
    };
    let columns = (0..take.count(12)?).map(|_| column(take)).collect::<Result<Vec<_>>>()?;
    let query = take.text()?.to_owned();
    let references = (0..take.count(16)?).map(|_| decode_reference(take)).collect::<Result<Vec<_>>>()?;
    let base = match take.u8()? {
        0 => None,
        1 => {
            let object = take.u32()?;
            let columns = (0..take.count(4)?).map(|_| Ok(take.u32()?.checked_sub(1))).collect::<Result<_>>()?;
            Some(ViewBase { object, columns })
        }
        other => return Err(take.malformed(&format!("has a base with flag {other}"))),
    };
    let check = match take.u8()? {
        0 => None,
        code => Some(CheckOption::from_code(code).ok_or_else(|| take.malformed("has an unknown check option"))?),
    };
    let materialized = match take.u8()? {
        0 => None,
        code => Some(Materialized::from_code(code).ok_or_else(|| take.malformed("is materialized in an unknown way"))?),
    };
    let view = ViewSpec { id, name, version, columns, query, references, base, check, materialized };
    check_view(&view).map_err(|error| take.malformed(&error.to_string()))?;
    Ok(view)
}

fn decode_reference(take: &mut Take<'_>) -> Result<ViewReference> {
    let (name, object) = (decode_name(take)?, take.u32()?);
    let column = |take: &mut Take<'_>| {
        Ok(ViewReferenceColumn {
            number: take.u32()?,
            name: take.text()?.to_owned(),
            ty: take.u32()?,
            typmod: take.u32()?.cast_signed(),
        })
    };
    let columns = (0..take.count(16)?).map(|_| column(take)).collect::<Result<Vec<_>>>()?;
    Ok(ViewReference { name, object, columns })
}

pub(crate) fn encode_name(name: &TableName, out: &mut Vec<u8>) {
    out.put_bytes(name.schema.as_bytes());
    out.put_bytes(name.table.as_bytes());
}

pub(crate) fn decode_name(take: &mut Take<'_>) -> Result<TableName> {
    Ok(TableName { schema: take.text()?.to_owned(), table: take.text()?.to_owned() })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row_table() -> RowSchemaRef {
        let column = |name: &str, ty, not_null| RowColumn { not_null, ..RowColumn::new(name, ty) };
        let index = |id, name: &str, columns: &[usize], unique| RowIndex {
            id,
            name: name.into(),
            columns: columns.into(),
            unique,
            constraint: unique,
            ..RowIndex::default()
        };
        let schema = RowSchema {
            id: TableId(8),
            name: TableName::public("r"),
            version: 3,
            lineage: model::Lineage::default(),
            columns: vec![
                column("id", Type::Int4, true),
                RowColumn {
                    default: Some("'x'".into()),
                    identity: Some(Identity::ByDefault),
                    missing: rows::row::alone(Type::Varchar(Some(9)), &model::Datum::Text("x")).unwrap(),
                    ..column("v", Type::Varchar(Some(9)), false)
                },
                RowColumn { dropped: true, ..column("gone", Type::Numeric(None), false) },
                RowColumn { dropped: true, generated: Some("id > 1".into()), ..column("p", Type::Bool, false) },
                RowColumn { collation: Some("C".into()), ..column("t", Type::Text, false) },
            ],
            primary: Some(index(9, "r_pkey", &[0], true)),
            secondary: vec![RowIndex {
                keys: vec![
                    RowIndexKey {
                        descending: true,
                        nulls_first: true,
                        collation: Some("C".into()),
                        ..Default::default()
                    },
                    RowIndexKey { operator_class: Some("o".into()), ..Default::default() },
                ],
                include: vec![0],
                predicate: Some(3),
                method: IndexMethod::Hash,
                ..index(10, "r_v", &[1, 0], false)
            }],
            checks: vec![RowCheck { name: "c".into(), condition: "id > 0".into(), not_valid: true }],
            foreign_keys: vec![RowForeignKey {
                name: "f".into(),
                columns: vec![0],
                table: TableId(7),
                referred: vec![2],
                on_delete: Referential::Cascade,
                on_update: Referential::NoAction,
                delete_columns: vec![0],
                match_full: true,
                deferral: Deferral::Deferred,
                not_valid: false,
                check_disabled: true,
                action_disabled: true,
            }],
            triggers: vec![RowTrigger {
                id: 12,
                name: "t".into(),
                timing: TriggerTiming::After,
                events: TriggerEvents::from_code(6).unwrap(),
                each_row: true,
                columns: vec![0, 1],
                condition: Some("new.id > 0".into()),
                routine: 11,
                arguments: vec!["a".into(), String::new()],
                firing: TriggerFiring::Replica,
                constraint: false,
            }],
            replica_identity: ReplicaIdentity::Index(10),
        };
        Arc::new(schema)
    }

    pub(crate) fn sequence() -> SequenceRef {
        let name = TableName::public("s");
        let (start, increment, min, max) = (1, 1, 1, 9);
        let owner = Some(model::SequenceOwner { table: TableId(8), column: 0 });
        Arc::new(SequenceSpec {
            id: 11,
            name,
            ty: Type::Int4,
            start,
            increment,
            min,
            max,
            cache: 1,
            cycle: false,
            owner,
        })
    }

    /// A view of the `rows` table of [`row_table`].
    pub(crate) fn view() -> ViewRef {
        let column = ViewReferenceColumn { number: 0, name: "id".into(), ty: 23, typmod: -1 };
        Arc::new(ViewSpec {
            id: 12,
            name: TableName::public("w"),
            version: 1,
            columns: vec![ViewColumn { name: "a".into(), ty: 23, typmod: -1 }],
            query: "SELECT 1".into(),
            references: vec![ViewReference { name: TableName::public("r"), object: 8, columns: vec![column] }],
            base: Some(ViewBase { object: 8, columns: vec![Some(0)] }),
            check: Some(CheckOption::Cascaded),
            materialized: None,
        })
    }

    pub(crate) fn enum_type() -> TypeSpecRef {
        let label =
            |number, order: f32, label: &str| EnumLabel { number, sort_order: order.to_bits(), label: label.into() };
        let kind = UserType::Enum(vec![label(5, 1.0, "a"), label(9, 2.0, "b")]);
        Arc::new(TypeSpec { id: 13, name: TableName::public("e"), version: 2, oid: (1 << 29) + 6, kind })
    }

    pub(crate) fn domain() -> TypeSpecRef {
        let check = DomainCheck { name: "c".into(), condition: "VALUE > 1".into(), is_valid: true };
        let base = Type::Varchar(Some(4));
        let domain = Domain { base, over: 0, not_null: true, default: Some("'x'".into()), checks: vec![check] };
        let (name, kind) = (TableName::public("d"), UserType::Domain(domain));
        Arc::new(TypeSpec { id: 14, name, version: 1, oid: (5 << 27) + 2, kind })
    }

    pub(crate) fn composite() -> TypeSpecRef {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty };
        let kind = UserType::Composite(vec![attribute("x", Type::Int4), attribute("y", Type::Varchar(Some(4)))]);
        Arc::new(TypeSpec { id: 15, name: TableName::public("c"), version: 1, oid: (6 << 27) + 2, kind })
    }

    pub(crate) fn table() -> Table {
        let column = |id, name: &str, ty, role| Column {
            id: ColumnId(id),
            name: name.into(),
            ty,
            nullable: role != ColumnRole::Time,
            role,
        };
        Table {
            id: TableId(7),
            name: TableName::public("t"),
            version: 1,
            keyed: true,
            columns: vec![
                column(0, "time", DataType::Timestamp, ColumnRole::Time),
                column(1, "dev", DataType::Text, ColumnRole::Key),
                column(2, "v", DataType::Float64, ColumnRole::Field),
            ],
            next_column_id: ColumnId(3),
            options: TableOptions::default(),
            rules: Arc::default(),
        }
    }

    fn encoded(object: &CatalogObject) -> Vec<u8> {
        let mut out = Vec::new();
        object.encode(&mut out);
        out
    }

    fn decoded(object: &CatalogObject) -> Result<CatalogObject> {
        CatalogObject::decode(&mut Take::new(&encoded(object), "object"))
    }

    /// Checks the bytes of an object with a number, without its definition's name.
    fn check(object: &CatalogObject, kind: u8, number: u8, definition: &[u8]) {
        let length = (definition.len() as u32).to_le_bytes();
        let expected = [&[kind, 4, 0, 0, 0, number, 0, 0, 0], &length[..], definition].concat();
        assert_eq!(encoded(object), expected);
        assert_eq!(decoded(object).as_ref(), Ok(object));
        let mut key = Vec::new();
        object.key().encode(&mut key);
        assert_eq!(key, expected[..9]);
        assert_eq!(ObjectKey::decode(&mut Take::new(&key, "key")), Ok(object.key()));
    }

    #[test]
    fn type_bytes_are_exactly_these() {
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'e', 2, 0, 0, 0, 6, 0, 0, 0x20, 1, 2, 0, 0, 0,
            5, 0, 0, 0, 0, 0, 0x80, 0x3f, 1, 0, 0, 0, b'a', 9, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0, 0, b'b',
        ];
        check(&CatalogObject::Type(enum_type()), KIND_TYPE, 13, &definition);
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'd', 1, 0, 0, 0, 2, 0, 0, 0x28, 2,
            0x13, 4, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, b'\'', b'x', b'\'',
            1, 0, 0, 0, 1, 0, 0, 0, b'c', 9, 0, 0, 0, b'V', b'A', b'L', b'U', b'E', b' ', b'>', b' ', b'1', 1,
        ];
        check(&CatalogObject::Type(domain()), KIND_TYPE, 14, &definition);
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'c', 1, 0, 0, 0, 2, 0, 0, 0x30, 3, 2, 0, 0, 0,
            1, 0, 0, 0, b'x', 23, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0, b'y', 0x13, 4, 0, 0, 8, 0, 0, 0,
        ];
        check(&CatalogObject::Type(composite()), KIND_TYPE, 15, &definition);
    }

    #[test]
    fn row_table_bytes_are_exactly_these() {
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'r', 3, 0, 0, 0,
            5, 0, 0, 0,
            2, 0, 0, 0, b'i', b'd', 23, 0, 0, 0, 255, 255, 255, 255, 1, 0,
            1, 0, 0, 0, b'v', 0x13, 4, 0, 0, 13, 0, 0, 0, 12, 2, 3, 0, 0, 0, b'\'', b'x', b'\'',
            8, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, b'x',
            4, 0, 0, 0, b'g', b'o', b'n', b'e', 0xa4, 6, 0, 0, 255, 255, 255, 255, 2, 0,
            1, 0, 0, 0, b'p', 16, 0, 0, 0, 255, 255, 255, 255, 0x12, 0, 6, 0, 0, 0, b'i', b'd', b' ', b'>', b' ', b'1',
            1, 0, 0, 0, b't', 25, 0, 0, 0, 255, 255, 255, 255, 32, 0, 1, 0, 0, 0, b'C',
            1, 9, 0, 0, 0, 6, 0, 0, 0, b'r', b'_', b'p', b'k', b'e', b'y', 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0,
            1, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0, 0, b'r', b'_', b'v', 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 28, 1,
            1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 11, 1, 0, 0, 0, b'C', 4, 1, 0, 0, 0, b'o',
            1, 0, 0, 0, 1, 0, 0, 0, b'c', 6, 0, 0, 0, b'i', b'd', b' ', b'>', b' ', b'0', 1,
            1, 0, 0, 0, 1, 0, 0, 0, b'f', 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0,
            1, 0, 0, 0, 0, 0, 0, 0, 13, 2,
            1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, b't', 1, 6, 3, 2, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
            10, 0, 0, 0, b'n', b'e', b'w', b'.', b'i', b'd', b' ', b'>', b' ', b'0',
            11, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 0,
            3, 10, 0, 0, 0,
        ];
        check(&CatalogObject::RowTable(row_table()), 3, 8, &definition);
    }

    #[test]
    fn column_of_a_domain_has_its_oid() {
        let column = RowColumn { domain: Some(domain().oid), ..RowColumn::new("a", Type::Int4) };
        let (checks, foreign_keys) = (Vec::new(), Vec::new());
        let schema = RowSchema {
            columns: vec![column],
            primary: None,
            secondary: Vec::new(),
            checks,
            foreign_keys,
            triggers: Vec::new(),
            replica_identity: ReplicaIdentity::Default,
            ..RowSchema::clone(&row_table())
        };
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'r', 3, 0, 0, 0,
            1, 0, 0, 0,
            1, 0, 0, 0, b'a', 23, 0, 0, 0, 255, 255, 255, 255, 64, 0, 2, 0, 0, 0x28,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        check(&CatalogObject::RowTable(Arc::new(schema)), 3, 8, &definition);
    }

    #[test]
    fn table_bytes_are_exactly_these() {
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b't', 1, 0, 0, 0, 1, 3, 0, 0, 0,
            0, 0, 79, 145, 148, 78, 0, 0, 3, 0, 0, 0,
            0, 0, 0, 0, 10, 2, 0, 4, 0, 0, 0, b't', b'i', b'm', b'e',
            1, 0, 0, 0, 8, 1, 1, 3, 0, 0, 0, b'd', b'e', b'v',
            2, 0, 0, 0, 7, 3, 1, 1, 0, 0, 0, b'v',
        ];
        check(&CatalogObject::Table(Arc::new(table())), 2, 7, &definition);
    }

    #[test]
    fn rules_of_a_table_are_behind_its_columns() {
        let mut table = table();
        table.options.history = true;
        table.rules = Arc::new(TableRules {
            columns: vec![
                ColumnRule {
                    id: ColumnId(1),
                    default: None,
                    declared: Some(DeclaredType { oid: domain().oid, typmod: -1 }),
                },
                ColumnRule { id: ColumnId(2), default: Some("1".into()), declared: None },
            ],
            checks: vec![RowCheck { name: "c".into(), condition: "v > 0".into(), not_valid: true }],
        });
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b't', 1, 0, 0, 0, 5, 3, 0, 0, 0,
            0, 0, 79, 145, 148, 78, 0, 0, 3, 0, 0, 0,
            0, 0, 0, 0, 10, 2, 0, 4, 0, 0, 0, b't', b'i', b'm', b'e',
            1, 0, 0, 0, 8, 1, 1, 3, 0, 0, 0, b'd', b'e', b'v',
            2, 0, 0, 0, 7, 3, 1, 1, 0, 0, 0, b'v',
            2, 0, 0, 0, 1, 0, 0, 0, 2, 2, 0, 0, 0x28, 255, 255, 255, 255, 2, 0, 0, 0, 1, 1, 0, 0, 0, b'1',
            1, 0, 0, 0, 1, 0, 0, 0, b'c', 5, 0, 0, 0, b'v', b' ', b'>', b' ', b'0', 1,
            0, 0, 0, 0, 0, 0, 0, 0, 1,
        ];
        check(&CatalogObject::Table(Arc::new(table)), 2, 7, &definition);
    }

    #[test]
    fn sequence_and_schema_bytes_are_exactly_these() {
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b's', 23, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0,
        ];
        check(&CatalogObject::Sequence(sequence()), 4, 11, &definition);
        let schema = CatalogObject::Schema("ab".into());
        assert_eq!(encoded(&schema), [1, 2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0]);
        assert_eq!(decoded(&schema), Ok(schema));
    }

    #[test]
    fn view_bytes_are_exactly_these() {
        #[rustfmt::skip]
        let definition = [
            6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'w', 1, 0, 0, 0,
            1, 0, 0, 0, 1, 0, 0, 0, b'a', 23, 0, 0, 0, 255, 255, 255, 255,
            8, 0, 0, 0, b'S', b'E', b'L', b'E', b'C', b'T', b' ', b'1',
            1, 0, 0, 0, 6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'r', 8, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'i', b'd', 23, 0, 0, 0, 255, 255, 255, 255,
            1, 8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0,
        ];
        check(&CatalogObject::View(view()), 5, 12, &definition);
    }

    #[test]
    fn comment_bytes_are_exactly_these() {
        let key = CommentKey { class: 1259, object: 16_392, column: 2 };
        let comment = CatalogObject::Comment(key, "é".into());
        let expected = [32, 12, 0, 0, 0, 0xeb, 4, 0, 0, 8, 64, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9];
        assert_eq!(encoded(&comment), expected);
        assert_eq!(decoded(&comment), Ok(comment));
    }

    #[test]
    fn invalid_view_definitions_are_refused() {
        let refused = |change: &dyn Fn(&mut ViewSpec)| {
            let mut wrong = (*view()).clone();
            change(&mut wrong);
            decoded(&CatalogObject::View(Arc::new(wrong))).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|view| view.columns.push(view.columns[0].clone())), "a column name twice");
        assert!(refused(&|view| view.references.push(view.references[0].clone())), "a reference twice");
        assert!(refused(&|view| view.references[0].object = view.id), "a view of itself");
        assert!(
            refused(&|view| view.base = Some(ViewBase { object: 9, columns: vec![None] })),
            "a base that it does not read"
        );
    }

    /// The bug: a table was taken from the log or the manifest unchecked; one without a time column
    /// then stopped the process at the first use of that column.
    #[test]
    fn invalid_table_definitions_are_refused() {
        let refused = |change: &dyn Fn(&mut Table)| {
            let mut wrong = table();
            change(&mut wrong);
            decoded(&CatalogObject::Table(Arc::new(wrong))).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(!refused(&|table| table.options.compression = false));
        assert!(refused(&|table| drop(table.columns.remove(0))), "no time");
        assert!(refused(&|table| table.columns[2].id = table.columns[1].id), "a column number twice");
        assert!(refused(&|table| table.columns[2].name = "dev".into()), "a column name twice");
        assert!(refused(&|table| table.next_column_id = ColumnId(2)), "a column that is still to come");
        assert!(refused(&|table| table.options.partition_length = 0), "a partition of nothing");
    }
}
