//! The catalog: schemas, types, tables, indexes, sequences and views at one LSN.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use model::{
    Column, ColumnId, ColumnRole, ColumnRule, DataType, Error, IndexMethod, PartitionKeySource, Result, RoutineRef,
    RoutineSpec, RowColumn, RowIndex, RowSchema, RowSchemaRef, SequenceRef, SqlState, TEMPORARY_SCHEMA, Table, TableId,
    TableName, TableOptions, TableRef, Type, TypeSpec, TypeSpecRef, ViewRef, ViewSpec, limits, user_types,
};

use crate::catalog_object::{CatalogObject, CommentKey, ObjectKey, encode_type, encode_view};

/// A `columns` table as one of `rows`.
#[derive(Debug)]
struct Described {
    table: TableRef,
    /// Made when it is asked for: in recovery, tables enter the catalog before the types of their columns are known.
    schema: OnceLock<RowSchemaRef>,
}

impl Described {
    fn new(table: &TableRef) -> Described {
        Described { table: Arc::clone(table), schema: OnceLock::new() }
    }

    fn schema(&self) -> &RowSchemaRef {
        self.schema.get_or_init(|| Arc::new(self.table.as_row_schema()))
    }
}

impl PartialEq for Described {
    fn eq(&self, other: &Described) -> bool {
        self.table == other.table
    }
}

impl Eq for Described {}

/// Schemas, tables, indexes, sequences and views. Immutable; a change returns a new catalog.
///
/// Always true: relation names are unique within a schema, across all kinds of relations. In every catalog of a
/// database version, the tables and views that a view reads exist, with the columns that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    schemas: BTreeSet<String>,
    tables: BTreeMap<TableName, TableRef>,
    by_id: BTreeMap<TableId, TableRef>,
    /// The `columns` tables with rules.
    with_rules: BTreeMap<TableId, Arc<Described>>,
    row_tables: BTreeMap<TableId, RowSchemaRef>,
    sequences: BTreeMap<u32, SequenceRef>,
    views: BTreeMap<u32, ViewRef>,
    comments: BTreeMap<CommentKey, Arc<str>>,
    types: BTreeMap<u32, TypeSpecRef>,
    /// Numbers of user types by name.
    type_names: BTreeMap<TableName, u32>,
    /// Numbers of user types by OID.
    type_oids: BTreeMap<u32, u32>,
    pub(crate) routines: BTreeMap<u32, RoutineRef>,
    /// Numbers of the routines of a name, ascending.
    pub(crate) routine_names: BTreeMap<TableName, Vec<u32>>,
    /// Names of all relations except `columns` tables.
    relations: BTreeMap<TableName, Relation>,
}

/// A relation that is not a `columns` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    RowTable(TableId),
    /// An index of this table.
    Index(TableId),
    Sequence(u32),
    View(u32),
}

/// Definition of a `columns` table to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Schema and name of the table.
    pub name: TableName,
    /// Whether (key, time) is unique.
    pub keyed: bool,
    /// Exactly one with role `Time`.
    pub columns: Vec<ColumnSpec>,
    /// Options of the `WITH (…)` clause.
    pub options: TableOptions,
}

/// Definition of a column to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Name, unique within the table.
    pub name: String,
    /// Type of its values.
    pub ty: DataType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Time, key or field.
    pub role: ColumnRole,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog {
            schemas: BTreeSet::from(["public".to_owned()]),
            tables: BTreeMap::new(),
            by_id: BTreeMap::new(),
            with_rules: BTreeMap::new(),
            row_tables: BTreeMap::new(),
            sequences: BTreeMap::new(),
            views: BTreeMap::new(),
            comments: BTreeMap::new(),
            types: BTreeMap::new(),
            type_names: BTreeMap::new(),
            type_oids: BTreeMap::new(),
            routines: BTreeMap::new(),
            routine_names: BTreeMap::new(),
            relations: BTreeMap::new(),
        }
    }
}

impl Catalog {
    /// The `columns` table called `name`.
    #[must_use]
    pub fn table(&self, name: &TableName) -> Option<&TableRef> {
        self.tables.get(name)
    }

    /// The `columns` table with this number.
    #[must_use]
    pub fn table_by_id(&self, id: TableId) -> Option<&TableRef> {
        self.by_id.get(&id)
    }

    /// The `columns` tables that have defaults, user types or CHECK constraints, described as tables of `rows`: see
    /// [`Table::as_row_schema`].
    pub fn tables_with_rules(&self) -> impl Iterator<Item = &RowSchemaRef> {
        self.with_rules.values().map(|described| described.schema())
    }

    /// All `columns` tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &TableRef> {
        self.tables.values()
    }

    /// The `rows` table called `name`.
    #[must_use]
    pub fn row_table(&self, name: &TableName) -> Option<&RowSchemaRef> {
        match self.relations.get(name)? {
            Relation::RowTable(id) => self.row_tables.get(id),
            _ => None,
        }
    }

    /// The `rows` table with this number.
    #[must_use]
    pub fn row_table_by_id(&self, id: TableId) -> Option<&RowSchemaRef> {
        self.row_tables.get(&id)
    }

    /// All `rows` tables, by number.
    pub fn row_tables(&self) -> impl Iterator<Item = &RowSchemaRef> {
        self.row_tables.values()
    }

    /// The index called `name`, and its table.
    #[must_use]
    pub fn index(&self, name: &TableName) -> Option<(&RowSchemaRef, &RowIndex)> {
        let Relation::Index(table) = self.relations.get(name)? else { return None };
        let table = self.row_tables.get(table)?;
        let index = indexes(table).find(|index| index.name == name.table)?;
        Some((table, index))
    }

    /// The sequence called `name`.
    #[must_use]
    pub fn sequence(&self, name: &TableName) -> Option<&SequenceRef> {
        match self.relations.get(name)? {
            Relation::Sequence(id) => self.sequences.get(id),
            _ => None,
        }
    }

    /// The sequence with this number.
    #[must_use]
    pub fn sequence_by_id(&self, id: u32) -> Option<&SequenceRef> {
        self.sequences.get(&id)
    }

    /// All sequences, by number.
    pub fn sequences(&self) -> impl Iterator<Item = &SequenceRef> {
        self.sequences.values()
    }

    /// The view called `name`.
    #[must_use]
    pub fn view(&self, name: &TableName) -> Option<&ViewRef> {
        match self.relations.get(name)? {
            Relation::View(id) => self.views.get(id),
            _ => None,
        }
    }

    /// The view with this number.
    #[must_use]
    pub fn view_by_id(&self, id: u32) -> Option<&ViewRef> {
        self.views.get(&id)
    }

    /// All views, by number.
    pub fn views(&self) -> impl Iterator<Item = &ViewRef> {
        self.views.values()
    }

    /// The comment on an object.
    #[must_use]
    pub fn comment(&self, key: &CommentKey) -> Option<&Arc<str>> {
        self.comments.get(key)
    }

    /// All comments. An object that was dropped may still have one.
    pub fn comments(&self) -> impl Iterator<Item = (&CommentKey, &Arc<str>)> {
        self.comments.iter()
    }

    /// The type of a user called `name`.
    #[must_use]
    pub fn user_type(&self, name: &TableName) -> Option<&TypeSpecRef> {
        self.types.get(self.type_names.get(name)?)
    }

    /// All types of users, by number.
    pub fn types(&self) -> impl Iterator<Item = &TypeSpecRef> {
        self.types.values()
    }

    /// The type of a user with a number.
    #[must_use]
    pub fn type_by_id(&self, id: u32) -> Option<&TypeSpecRef> {
        self.types.get(&id)
    }

    /// The type of a user with an OID.
    #[must_use]
    pub fn type_by_oid(&self, oid: u32) -> Option<&TypeSpecRef> {
        self.types.get(self.type_oids.get(&oid)?)
    }

    /// Columns of `rows` tables that have a user type or an array of it: table and position.
    pub fn columns_of_type(&self, oid: u32) -> impl Iterator<Item = (&RowSchemaRef, usize)> {
        let is_it =
            move |column: &RowColumn| (!column.dropped || column.is_hidden()) && column.user_type() == Some(oid);
        let of = move |table: &'_ RowSchemaRef| {
            table.columns.iter().enumerate().filter(|(_, column)| is_it(column)).map(|(at, _)| at).collect::<Vec<_>>()
        };
        self.row_tables.values().flat_map(move |table| of(table).into_iter().map(move |at| (table, at)))
    }

    /// Schema and name of a table or view.
    #[must_use]
    pub fn name_of(&self, object: u32) -> Option<&TableName> {
        let id = TableId(object);
        let rows = || self.row_tables.get(&id).map(|table| &table.name);
        let view = || self.views.get(&object).map(|view| &view.name);
        self.by_id.get(&id).map(|table| &table.name).or_else(rows).or_else(view)
    }

    /// Name, type and type modifier of a column of a table or view, as [`model::ViewReferenceColumn`] has them.
    /// `None` if there is no such column.
    #[must_use]
    pub fn column_of(&self, object: u32, column: u32) -> Option<(&str, u32, i32)> {
        let (id, at) = (TableId(object), column as usize);
        if let Some(table) = self.by_id.get(&id) {
            let column = table.columns.iter().find(|one| one.id.0 == column)?;
            return Some((&column.name, column.ty as u32, -1));
        }
        if let Some(table) = self.row_tables.get(&id) {
            let column = table.columns.get(at).filter(|column| !column.dropped)?;
            return Some((&column.name, column.ty.oid(), column.ty.typmod()));
        }
        let column = self.views.get(&object)?.columns.get(at)?;
        Some((&column.name, column.ty, column.typmod))
    }

    /// Numbers of `columns` tables, `rows` tables and sequences.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.by_id.len(), self.row_tables.len(), self.sequences.len())
    }

    /// Asserts that each relation has one name, and each name one relation.
    fn check(self) -> Catalog {
        assert!(self.tables.len() == self.by_id.len(), "BUG: a table has two names, or a name two tables");
        debug_assert!(
            self.relations.len()
                == self.row_tables.values().map(|table| 1 + indexes(table).count()).sum::<usize>()
                    + self.sequences.len()
                    + self.views.values().filter(|view| view.materialized.is_none()).count(),
            "BUG: a relation has two names, or a name two relations"
        );
        debug_assert!(
            self.tables.keys().chain(self.relations.keys()).all(|name| self.schemas.contains(&name.schema)),
            "BUG: a relation in a schema that does not exist"
        );
        self
    }

    /// Whether a relation of any kind has this name.
    #[must_use]
    pub fn has_relation(&self, name: &TableName) -> bool {
        self.tables.contains_key(name) || self.relations.contains_key(name)
    }

    /// All schemas, by name; includes `public` always.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.schemas.iter().map(String::as_str)
    }

    /// Whether the schema exists.
    #[must_use]
    pub fn has_schema(&self, name: &str) -> bool {
        self.schemas.contains(name)
    }

    /// The table called `name`, or 42P01.
    pub fn expect(&self, name: &TableName) -> Result<&TableRef> {
        self.table(name).ok_or_else(|| Error::new(SqlState::UNDEFINED_TABLE, format!("relation {name} does not exist")))
    }

    /// All objects except schema `public`, which always exists; each after those that it depends
    /// on, except that views are ordered by number.
    pub(crate) fn objects(&self) -> impl Iterator<Item = CatalogObject> {
        let schemas = self.schemas.iter().filter(|name| *name != "public").cloned().map(CatalogObject::Schema);
        let tables = self.by_id.values().cloned().map(CatalogObject::Table);
        let row_tables = self.row_tables.values().cloned().map(CatalogObject::RowTable);
        let sequences = self.sequences.values().cloned().map(CatalogObject::Sequence);
        let views = self.views.values().cloned().map(CatalogObject::View);
        let types = self.types.values().cloned().map(CatalogObject::Type);
        let comments = self.comments.iter().map(|(key, text)| CatalogObject::Comment(*key, Arc::clone(text)));
        let routines = self.routines.values().cloned().map(CatalogObject::Routine);
        let relations = schemas.chain(types).chain(tables).chain(row_tables).chain(sequences).chain(views);
        relations.chain(routines).chain(comments)
    }

    /// The object with this key, if it exists.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<CatalogObject> {
        match key {
            ObjectKey::Schema(name) => self.schemas.get(name).cloned().map(CatalogObject::Schema),
            ObjectKey::Table(id) => self.by_id.get(id).cloned().map(CatalogObject::Table),
            ObjectKey::RowTable(id) => self.row_tables.get(id).cloned().map(CatalogObject::RowTable),
            ObjectKey::Sequence(id) => self.sequences.get(id).cloned().map(CatalogObject::Sequence),
            ObjectKey::View(id) => self.views.get(id).cloned().map(CatalogObject::View),
            ObjectKey::Comment(key) => self.comment(key).map(|text| CatalogObject::Comment(*key, Arc::clone(text))),
            ObjectKey::Type(id) => self.types.get(id).cloned().map(CatalogObject::Type),
            ObjectKey::Routine(id) => self.routines.get(id).cloned().map(CatalogObject::Routine),
        }
    }

    /// Whether another object has the number of a new one. A materialized view has the number of the table with its rows.
    pub(crate) fn has_number_of(&self, new: &CatalogObject) -> bool {
        match (new, new.key().number()) {
            (CatalogObject::View(view), _) if view.materialized.is_some() => {
                self.views.contains_key(&view.id) || !self.row_tables.contains_key(&TableId(view.id))
            }
            (_, number) => number.is_some_and(|number| self.has_number(number)),
        }
    }

    fn has_number(&self, number: u32) -> bool {
        let id = TableId(number);
        self.by_id.contains_key(&id)
            || self.row_tables.contains_key(&id)
            || self.sequences.contains_key(&number)
            || self.views.contains_key(&number)
            || self.types.contains_key(&number)
            || self.routines.contains_key(&number)
    }

    /// Returns a catalog with an object added, or replaced by its next version.
    ///
    /// # Errors
    /// 42P06, 42P07, 3F000, 54000.
    pub(crate) fn with_object(&self, object: CatalogObject) -> Result<Catalog> {
        match object {
            CatalogObject::Schema(name) => self.with_schema(&name),
            CatalogObject::Table(table) => self.with_table(table),
            CatalogObject::RowTable(schema) => self.with_row_table(schema),
            CatalogObject::Sequence(sequence) => self.with_sequence(sequence),
            CatalogObject::View(view) => self.with_view(view),
            CatalogObject::Comment(key, text) => {
                let mut next = self.clone();
                next.comments.insert(key, text);
                Ok(next)
            }
            CatalogObject::Type(spec) => self.with_type(spec),
            CatalogObject::Routine(routine) => self.with_routine(routine),
        }
    }

    /// Returns a catalog with an object removed.
    ///
    /// # Errors
    /// 3F000, 55000 for a schema that does not exist or is not empty.
    pub(crate) fn without_object(&self, key: &ObjectKey) -> Result<Catalog> {
        match key {
            ObjectKey::Schema(name) => self.without_schema(name),
            ObjectKey::Table(id) | ObjectKey::RowTable(id) => Ok(self.without_table(*id)),
            ObjectKey::Sequence(id) => Ok(self.without_sequence(*id)),
            ObjectKey::View(id) => Ok(self.without_view(*id)),
            ObjectKey::Comment(key) => {
                let mut next = self.clone();
                next.comments.remove(key);
                Ok(next)
            }
            ObjectKey::Type(id) => self.without_type(*id),
            ObjectKey::Routine(id) => Ok(self.without_routine(*id)),
        }
    }

    /// The catalog without temporary objects; `None` if there are none.
    pub(crate) fn lasting(&self) -> Option<Catalog> {
        if !self.schemas.iter().any(|schema| schema.starts_with(TEMPORARY_SCHEMA)) {
            return None;
        }
        let mut next = self.clone();
        let is_temporary = |number: u32| self.name_of(number).is_some_and(TableName::is_temporary);
        next.views.retain(|id, _| !is_temporary(*id));
        next.row_tables.retain(|id, _| !is_temporary(id.0));
        next.sequences.retain(|_, sequence| !sequence.name.is_temporary());
        next.types.retain(|_, spec| !spec.name.is_temporary());
        next.type_names.retain(|name, _| !name.is_temporary());
        next.type_oids.retain(|_, id| next.types.contains_key(id));
        next.relations.retain(|name, _| !name.is_temporary());
        next.routines.retain(|_, routine| !routine.name.is_temporary());
        next.routine_names.retain(|name, _| !name.is_temporary());
        next.schemas.retain(|schema| !schema.starts_with(TEMPORARY_SCHEMA));
        Some(next.check())
    }

    /// Returns a catalog with a schema added.
    pub fn with_schema(&self, name: &str) -> Result<Catalog> {
        check_name("schema", name)?;
        let mut next = self.clone();
        if !next.schemas.insert(name.to_owned()) {
            return Err(Error::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
        }
        Ok(next)
    }

    /// Returns a catalog with an empty schema removed.
    pub(crate) fn without_schema(&self, name: &str) -> Result<Catalog> {
        let mut next = self.clone();
        if name == "public" || !next.schemas.remove(name) {
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" cannot be dropped")));
        }
        if let Some(table) = self.tables.keys().chain(self.relations.keys()).find(|table| table.schema == name) {
            return Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("schema \"{name}\" still holds relation {table}"),
            )
            .with_kind(model::ErrorKind::Invalid));
        }
        if let Some(name) = self.type_names.keys().find(|one| one.schema == name) {
            let text = format!("schema \"{}\" still holds type {name}", name.schema);
            let error = Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
            return Err(error.with_kind(model::ErrorKind::Invalid));
        }
        if let Some(routine) = self.routines.values().find(|routine| routine.name.schema == name) {
            let text = format!("schema \"{name}\" still holds function {}", routine.name);
            let error = Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
            return Err(error.with_kind(model::ErrorKind::Invalid));
        }
        Ok(next)
    }

    /// Returns a catalog with a type of a user added or changed.
    ///
    /// # Errors
    /// 42710, 3F000, 54000; 42704 if the type that a domain constrains does not exist.
    pub(crate) fn with_type(&self, spec: TypeSpecRef) -> Result<Catalog> {
        let mut next = self.clone();
        if let Some(old) = next.types.remove(&spec.id) {
            next.type_names.remove(&old.name);
            next.type_oids.remove(&old.oid);
            // Attributes of a composite type change with its OID, so that nothing has values of the old form.
            if old.oid != spec.oid
                && let Some(dependent) = self.dependent_on(&old)
            {
                let text = format!("cannot alter type \"{}\" because {dependent} uses it", old.name.table);
                return Err(Error::unsupported(text));
            }
        }
        next.check_schema(&spec.name)?;
        if next.type_names.contains_key(&spec.name) || next.is_row_type(&spec.name) {
            return Err(type_exists(&spec.name));
        }
        if next.types.len() >= limits::TABLES_MAX {
            let text = format!("type {} would be one more than the limit of {}", spec.name, limits::TABLES_MAX);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        next.check_named(below(&spec))?;
        let mut definition = Vec::new();
        encode_type(&spec, &mut definition);
        if definition.len() > limits::VIEW_BYTES_MAX {
            let (bytes, limit) = (definition.len(), limits::VIEW_BYTES_MAX);
            let text = format!("the definition of type {} has {bytes} bytes; the limit is {limit}", spec.name);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        next.type_names.insert(spec.name.clone(), spec.id);
        next.type_oids.insert(spec.oid, spec.id);
        next.types.insert(spec.id, spec);
        Ok(next)
    }

    /// Returns a catalog with a type of a user removed.
    ///
    /// # Errors
    /// 2BP01 if a column has the type, a domain constrains it, a function has it as a parameter or result, or a
    /// stored expression names it.
    pub(crate) fn without_type(&self, id: u32) -> Result<Catalog> {
        let mut next = self.clone();
        let Some(spec) = next.types.remove(&id) else { return Ok(next) };
        next.type_names.remove(&spec.name);
        next.type_oids.remove(&spec.oid);
        let Some(dependent) = self.dependent_on(&spec) else { return Ok(next) };
        let text = format!("cannot drop type {} because other objects depend on it", spec.name.table);
        let error = Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text);
        Err(error
            .with_detail(format!("{dependent} depends on type {}", spec.name.table))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }

    /// An object that depends on a type, as messages name it.
    fn dependent_on(&self, spec: &TypeSpec) -> Option<String> {
        let column = self
            .columns_of_type(spec.oid)
            .next()
            .map(|(table, at)| format!("column {} of table {}", table.columns[at].name, table.name.table));
        let columns_table = || {
            let has = |table: &&TableRef| table.rules.user_types().any(|oid| oid == spec.oid);
            Some(format!("table {}", self.by_id.values().find(has)?.name.table))
        };
        let is_named = |sql: &str| user_types::is_named_in(spec.oid, sql);
        let domain = || {
            let is_of = |other: &&TypeSpecRef| below(other).any(|oid| oid == spec.oid) || other.texts().any(is_named);
            Some(format!("type {}", self.types.values().find(is_of)?.name.table))
        };
        let table = || {
            let rows = self.row_tables.values().find(|table| table.texts().any(is_named)).map(|table| &table.name);
            let columns =
                || self.by_id.values().find(|table| table.rules.texts().any(is_named)).map(|table| &table.name);
            Some(format!("table {}", rows.or_else(columns)?.table))
        };
        let view = || {
            let has =
                |view: &&ViewRef| is_named(&view.query) || view.columns.iter().any(|column| column.ty & !1 == spec.oid);
            let view = self.views.values().find(has)?;
            Some(format!("view {}", view.name.table))
        };
        let routine = || {
            let routine = self.routines.values().find(|routine| routine.types().any(|oid| oid & !1 == spec.oid))?;
            Some(format!("function {}", routine.name.table))
        };
        column.or_else(columns_table).or_else(domain).or_else(table).or_else(view).or_else(routine)
    }

    /// Whether a table or view of this name has a type of rows.
    fn is_row_type(&self, name: &TableName) -> bool {
        let relation = self.relations.get(name);
        self.tables.contains_key(name) || matches!(relation, Some(Relation::RowTable(_) | Relation::View(_)))
    }

    /// Checks that the user types of a routine exist.
    ///
    /// # Errors
    /// 42704
    pub(crate) fn check_routine_types(&self, routine: &RoutineSpec) -> Result<()> {
        self.check_named(routine.types().filter(|oid| user_types::is_user(*oid)).map(|oid| oid & !1))
    }

    /// Checks that the user types of a table's columns and expressions exist.
    fn check_types(&self, table: &RowSchema) -> Result<()> {
        let columns = table.columns.iter().filter(|column| !column.dropped || column.is_hidden());
        self.check_named(columns.filter_map(RowColumn::user_type).chain(table.texts().flat_map(user_types::named_in)))
    }

    /// Checks that user types with these OIDs exist.
    fn check_named(&self, mut oids: impl Iterator<Item = u32>) -> Result<()> {
        oids.find(|oid| !self.type_oids.contains_key(oid)).map_or(Ok(()), |oid| Err(no_type(oid)))
    }

    /// Returns a catalog with a table added, or replaced by its next version.
    ///
    /// # Errors
    /// 42P07 when another relation has the name; 3F000; 54000.
    pub fn with_table(&self, table: TableRef) -> Result<Catalog> {
        let is_same_table = self.tables.get(&table.name).is_some_and(|other| other.id == table.id);
        if !is_same_table {
            self.check_free(&table.name)?;
        }
        self.check_schema(&table.name)?;
        self.check_count(&table.name, self.by_id.contains_key(&table.id))?;
        self.check_named(table.rules.user_types().chain(table.rules.texts().flat_map(user_types::named_in)))?;
        let mut next = self.clone();
        if let Some(old) = next.by_id.insert(table.id, Arc::clone(&table)) {
            next.tables.remove(&old.name);
        }
        match table.rules.is_empty() {
            true => next.with_rules.remove(&table.id),
            false => next.with_rules.insert(table.id, Arc::new(Described::new(&table))),
        };
        next.tables.insert(table.name.clone(), table);
        Ok(next.check())
    }

    fn check_free(&self, name: &TableName) -> Result<()> {
        if self.type_names.contains_key(name) {
            return Err(type_exists(name));
        }
        if !self.has_relation(name) {
            return Ok(());
        }
        Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation {name} already exists")))
    }

    pub(crate) fn check_schema(&self, name: &TableName) -> Result<()> {
        if self.has_schema(&name.schema) {
            return Ok(());
        }
        let text = format!("schema \"{}\" does not exist", name.schema);
        Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text))
    }

    fn check_count(&self, name: &TableName, is_there: bool) -> Result<()> {
        let count = self.by_id.len() + self.row_tables.len() + self.views.len();
        if is_there || count < limits::TABLES_MAX {
            return Ok(());
        }
        let text =
            format!("relation {name} would be the {}th table or view; the limit is {}", count + 1, limits::TABLES_MAX);
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
    }

    /// Returns a catalog with a `rows` table and its indexes added, or replaced by its next
    /// version, which may have another name.
    ///
    /// # Errors
    /// 42P07 when another relation has one of the names; 3F000; 54000.
    pub(crate) fn with_row_table(&self, table: RowSchemaRef) -> Result<Catalog> {
        let mut next = self.without_table(table.id);
        next.check_schema(&table.name)?;
        next.check_types(&table)?;
        next.check_count(&table.name, false)?;
        next.check_free(&table.name)?;
        next.relations.insert(table.name.clone(), Relation::RowTable(table.id));
        for index in indexes(&table) {
            let name = TableName { schema: table.name.schema.clone(), table: index.name.clone() };
            next.check_free(&name)?;
            next.relations.insert(name, Relation::Index(table.id));
        }
        next.row_tables.insert(table.id, table);
        Ok(next.check())
    }

    /// Returns a catalog with a sequence added or changed.
    ///
    /// # Errors
    /// 42P07, 3F000.
    pub(crate) fn with_sequence(&self, sequence: SequenceRef) -> Result<Catalog> {
        let mut next = self.without_sequence(sequence.id);
        next.check_schema(&sequence.name)?;
        next.check_free(&sequence.name)?;
        next.relations.insert(sequence.name.clone(), Relation::Sequence(sequence.id));
        next.sequences.insert(sequence.id, sequence);
        Ok(next.check())
    }

    /// Returns a catalog with a sequence removed.
    pub(crate) fn without_sequence(&self, id: u32) -> Catalog {
        let mut next = self.clone();
        if let Some(sequence) = next.sequences.remove(&id) {
            next.relations.remove(&sequence.name);
        }
        next
    }

    /// Returns a catalog with a view added or changed. What it reads is checked by [`Catalog::check_views`].
    ///
    /// # Errors
    /// 42P07, 3F000, 54000.
    pub(crate) fn with_view(&self, view: ViewRef) -> Result<Catalog> {
        let mut next = self.without_view(view.id);
        next.check_schema(&view.name)?;
        next.check_count(&view.name, false)?;
        next.check_named(user_types::named_in(&view.query))?;
        // The name of a materialized view is that of the table with its rows.
        if view.materialized.is_none() {
            next.check_free(&view.name)?;
            next.relations.insert(view.name.clone(), Relation::View(view.id));
        }
        next.views.insert(view.id, view);
        Ok(next.check())
    }

    /// Returns a catalog with a view removed.
    pub(crate) fn without_view(&self, id: u32) -> Catalog {
        let mut next = self.clone();
        if let Some(view) = next.views.remove(&id)
            && view.materialized.is_none()
        {
            next.relations.remove(&view.name);
        }
        next
    }

    /// Checks that what the views read exists, and that they are not nested too deeply.
    ///
    /// # Errors
    /// 2BP01 for a table or view that is missing, or a column that is missing or of another type; 42P17 for a view
    /// that reads itself; 54001 for more than [`limits::VIEW_LEVELS_MAX`] levels.
    pub(crate) fn check_views(&self) -> Result<()> {
        for view in self.views.values() {
            self.check_references(view)?;
        }
        let mut levels = BTreeMap::new();
        for view in self.views.values() {
            self.check_levels(view, &mut levels, 1)?;
        }
        Ok(())
    }

    fn check_references(&self, view: &ViewSpec) -> Result<()> {
        let missing = |what: String| {
            let text = format!("{what} cannot be dropped or altered because view {} depends on it", view.name);
            Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text).with_hint("run the transaction again"))
        };
        if view.materialized.is_some() && !self.row_tables.contains_key(&TableId(view.id)) {
            return missing("the table of its rows".to_owned());
        }
        for reference in &view.references {
            if self.name_of(reference.object).is_none() {
                return missing(format!("relation {}", reference.name));
            }
            for column in &reference.columns {
                let is_same = |(_, ty, typmod)| (ty, typmod) == (column.ty, column.typmod);
                if !self.column_of(reference.object, column.number).is_some_and(is_same) {
                    return missing(format!("column \"{}\" of relation {}", column.name, reference.name));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of levels of a view, which `above` others read; `levels` has those that are known.
    fn check_levels(&self, view: &ViewSpec, levels: &mut BTreeMap<u32, usize>, above: usize) -> Result<usize> {
        if let Some(known) = levels.get(&view.id).filter(|known| above + **known - 1 <= limits::VIEW_LEVELS_MAX) {
            return Ok(*known);
        }
        if above > limits::VIEW_LEVELS_MAX {
            return Err(self.nested_too_deeply(view));
        }
        let mut below = 0;
        for reference in &view.references {
            if let Some(view) = self.views.get(&reference.object) {
                below = below.max(self.check_levels(view, levels, above + 1)?);
            }
        }
        levels.insert(view.id, below + 1);
        Ok(below + 1)
    }

    fn nested_too_deeply(&self, view: &ViewSpec) -> Error {
        let mut seen = BTreeSet::new();
        let mut next = vec![view.id];
        while let Some(id) = next.pop() {
            let references = self.views.get(&id).into_iter().flat_map(|view| &view.references);
            for reference in references.filter(|reference| self.views.contains_key(&reference.object)) {
                if reference.object == view.id {
                    let text = format!("infinite recursion detected in rules for relation \"{}\"", view.name.table);
                    return Error::new(SqlState("42P17"), text);
                }
                if seen.insert(reference.object) {
                    next.push(reference.object);
                }
            }
        }
        let text = format!("views are nested deeper than {} levels at view {}", limits::VIEW_LEVELS_MAX, view.name);
        Error::new(SqlState::STATEMENT_TOO_COMPLEX, text)
    }

    /// The materialized view whose rows a table has.
    #[must_use]
    pub fn materialized_view(&self, table: TableId) -> Option<&ViewRef> {
        self.views.get(&table.0).filter(|view| view.materialized.is_some())
    }

    /// Whether INSERT, UPDATE and DELETE of a view change a `rows` table.
    #[must_use]
    pub fn is_updatable(&self, view: &ViewSpec) -> bool {
        let mut below = view.base.as_ref();
        while let Some(base) = below {
            if self.row_tables.contains_key(&TableId(base.object)) {
                return true;
            }
            below = self.views.get(&base.object).and_then(|view| view.base.as_ref());
        }
        false
    }

    /// Whether a column of a view, by its position, is a column of the `rows` table that changes of the view change.
    #[must_use]
    pub fn is_updatable_column(&self, view: &ViewSpec, column: usize) -> bool {
        let (mut base, mut at) = (view.base.as_ref(), column);
        while let Some(below) = base {
            let Some(Some(number)) = below.columns.get(at) else { return false };
            if self.row_tables.contains_key(&TableId(below.object)) {
                return true;
            }
            base = self.views.get(&below.object).and_then(|view| view.base.as_ref());
            at = *number as usize;
        }
        false
    }

    /// Views that read one of these tables and views, directly or through others; each before those that read it.
    #[must_use]
    pub fn dependent_views(&self, objects: &[u32]) -> Vec<ViewRef> {
        let mut found: Vec<ViewRef> = Vec::new();
        let mut known: BTreeSet<u32> = objects.iter().copied().collect();
        loop {
            // A view may read one with a higher number.
            let reads = |view: &&ViewRef| {
                !known.contains(&view.id) && view.references.iter().any(|one| known.contains(&one.object))
            };
            let more: Vec<ViewRef> = self.views.values().filter(reads).cloned().collect();
            if more.is_empty() {
                return found;
            }
            known.extend(more.iter().map(|view| view.id));
            found.extend(more);
        }
    }

    /// Returns a catalog with a table of either kind removed.
    pub(crate) fn without_table(&self, id: TableId) -> Catalog {
        let mut next = self.clone();
        if let Some(table) = next.by_id.remove(&id) {
            next.tables.remove(&table.name);
            next.with_rules.remove(&id);
        }
        if let Some(table) = next.row_tables.remove(&id) {
            next.relations
                .retain(|_, other| !matches!(other, Relation::RowTable(of) | Relation::Index(of) if *of == id));
            drop(table);
        }
        next.check()
    }
}

/// OIDs of the user types that a domain or composite type is made of.
fn below(spec: &TypeSpec) -> impl Iterator<Item = u32> {
    let attributes = spec.attributes().into_iter().flatten().map(|attribute| attribute.ty.oid());
    let attributes = attributes.filter(|oid| user_types::is_user(*oid)).map(|oid| oid & !1);
    let domain = spec.domain();
    let over = domain.map(|domain| domain.over).filter(|over| *over != 0);
    let base = domain.map(|domain| domain.base.oid() & !1).filter(|oid| user_types::is_user(*oid));
    over.into_iter().chain(base).chain(attributes)
}

fn no_type(oid: u32) -> Error {
    let name = user_types::name(oid).map_or_else(|| format!("with OID {oid}"), |name| format!("\"{name}\""));
    Error::new(SqlState::UNDEFINED_OBJECT, format!("type {name} does not exist"))
}

/// PostgreSQL's error for the name of a type that exists.
fn type_exists(name: &TableName) -> Error {
    Error::new(SqlState::DUPLICATE_OBJECT, format!("type \"{}\" already exists", name.table))
}

/// All indexes of a table.
fn indexes(table: &RowSchema) -> impl Iterator<Item = &RowIndex> {
    table.primary.iter().chain(&table.secondary)
}

/// Checks the invariants of views that all code relies on.
///
/// # Errors
/// 42602, 42701, 42P16, 54000, 54011.
pub(crate) fn check_view(view: &ViewSpec) -> Result<()> {
    check_name("view", &view.name.table)?;
    if view.columns.len() > limits::COLUMNS_PER_TABLE_MAX {
        let text = format!("view {} has more columns than the {} allowed", view.name, limits::COLUMNS_PER_TABLE_MAX);
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
    }
    let mut names = BTreeSet::new();
    for column in &view.columns {
        check_name("column", &column.name)?;
        if !names.insert(&column.name) {
            let text = format!("column \"{}\" specified more than once", column.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
        }
    }
    let mut objects = BTreeSet::from([view.id]);
    if let Some(twice) = view.references.iter().find(|reference| !objects.insert(reference.object)) {
        let text =
            format!("view {} has relation {} twice, or itself, among those that it reads", view.name, twice.name);
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    if let Some(base) = &view.base
        && (view.reference(base.object).is_none() || base.columns.len() != view.columns.len())
    {
        let text = format!("view {} is changed by changes of a relation that it does not read", view.name);
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    let mut definition = Vec::new();
    encode_view(view, &mut definition);
    if definition.len() > limits::VIEW_BYTES_MAX {
        let text = format!(
            "the definition of view {} has {} bytes; the limit is {}",
            view.name,
            definition.len(),
            limits::VIEW_BYTES_MAX
        );
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    Ok(())
}

/// Checks the invariants of `rows` tables that all code relies on.
///
/// # Errors
/// 42602, 42701, 42P16, 54000, 54011, naming the column or index.
pub(crate) fn check_row_schema(table: &RowSchema) -> Result<()> {
    check_name("table", &table.name.table)?;
    if table.columns.len() > limits::COLUMNS_PER_TABLE_MAX {
        let text =
            format!("relation {} has more columns than the {} allowed", table.name, limits::COLUMNS_PER_TABLE_MAX);
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
    }
    let mut names = BTreeSet::new();
    for (_, column) in table.shown() {
        check_name("column", &column.name)?;
        if !names.insert(&column.name) {
            let text = format!("column \"{}\" of relation {} already exists", column.name, table.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
        }
    }
    if table.secondary.len() > rows::SECONDARY_INDEXES_MAX {
        let text = format!("relation {} has more indexes than the {} allowed", table.name, rows::SECONDARY_INDEXES_MAX);
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    let mut ids = BTreeSet::new();
    for index in indexes(table) {
        check_name("index", &index.name)?;
        check_index_columns(table, index)?;
        if index.columns.is_empty() || !ids.insert(index.id) {
            return Err(invalid(table, &format!("has index \"{}\" twice or without columns", index.name)));
        }
        let unordered = index.columns.iter().find(|at| !table.columns[**at].ty.is_ordered());
        if let Some(at) = unordered {
            let column = &table.columns[*at];
            return Err(invalid(table, &format!("has column \"{}\" of type {} in an index", column.name, column.ty)));
        }
    }
    if let Some(primary) = &table.primary
        && (!primary.unique || primary.columns.iter().any(|at| !table.columns[*at].not_null))
    {
        return Err(invalid(table, "has a primary key that is not unique, or has a column that may be NULL"));
    }
    let is_inverted = |index: &&RowIndex| index.method == IndexMethod::Gin;
    let has_keys = |index: &RowIndex| {
        let has_class = |at: &usize| rows::inverted::Class::of(table.columns[*at].ty, None).is_some();
        !index.unique && !index.constraint && index.columns.iter().all(has_class)
    };
    if let Some(index) = table.secondary.iter().chain(&table.primary).filter(is_inverted).find(|one| !has_keys(one)) {
        let text = format!("has inverted index \"{}\" that is unique or over a type without keys", index.name);
        return Err(invalid(table, &text));
    }
    check_deferrable_keys(table)?;
    for key in &table.foreign_keys {
        check_positions(table, &key.name, &key.columns)?;
    }
    check_triggers(table)?;
    check_lineage(table)
}

/// Checks the deferrable keys of a table, one of which may be its primary key.
fn check_deferrable_keys(table: &RowSchema) -> Result<()> {
    let is_plain = |index: &RowIndex| !index.is_deferrable() && !index.is_primary;
    let is_key = |index: &RowIndex| {
        index.is_deferrable()
            && index.constraint
            && !index.unique
            && index.method == IndexMethod::Btree
            && index.predicate.is_none()
    };
    let is_null = |index: &RowIndex| index.columns.iter().any(|at| !table.columns[*at].not_null);
    if !table.primary.iter().all(is_plain)
        || !table.secondary.iter().all(|index| is_plain(index) || is_key(index))
        || table.indexes().filter(|(_, is_primary)| *is_primary).count() > 1
        || table.secondary.iter().any(|index| index.is_primary && is_null(index))
    {
        return Err(invalid(table, "has a deferrable key that is none, or several primary keys"));
    }
    Ok(())
}

/// Checks the triggers of a table.
fn check_triggers(table: &RowSchema) -> Result<()> {
    if table.triggers.len() > limits::TRIGGERS_PER_TABLE_MAX {
        let text =
            format!("relation {} has more triggers than the {} allowed", table.name, limits::TRIGGERS_PER_TABLE_MAX);
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    for (at, trigger) in table.triggers.iter().enumerate() {
        check_name("trigger", &trigger.name)?;
        check_positions(table, &trigger.name, &trigger.columns)?;
        if at > 0 && table.triggers[at - 1].name >= trigger.name {
            return Err(invalid(table, &format!("has trigger \"{}\" twice or out of order", trigger.name)));
        }
    }
    Ok(())
}

/// Checks the inheritance and partitioning of a table, as far as it alone shows them.
fn check_lineage(table: &RowSchema) -> Result<()> {
    let lineage = &table.lineage;
    let inherited: Vec<usize> = lineage.columns.iter().map(|column| column.position).collect();
    check_positions(table, "inheritance", &inherited)?;
    let mut relatives = BTreeSet::new();
    if !lineage.parents.iter().chain(&lineage.children).all(|id| *id != table.id && relatives.insert(*id)) {
        return Err(invalid(table, "inherits from a table twice, or from itself"));
    }
    if lineage.bound.is_some() && lineage.parents.len() != 1 {
        return Err(invalid(table, "is a partition without one parent"));
    }
    for part in lineage.key.iter().flat_map(|key| &key.parts) {
        if let PartitionKeySource::Column(at) = part.source {
            check_positions(table, "the partition key", &[at])?;
        }
    }
    Ok(())
}

/// Keys and columns of INCLUDE are columns with names or hidden ones; the predicate is a hidden boolean.
fn check_index_columns(table: &RowSchema, index: &RowIndex) -> Result<()> {
    let is_there = |at: &usize| table.columns.get(*at).is_some_and(|column| !column.dropped || column.is_hidden());
    if let Some(at) = index.uses().find(|at| !is_there(at)) {
        return Err(invalid(table, &format!("has no column {at}, which \"{}\" uses", index.name)));
    }
    let is_bool = |at: usize| table.columns[at].is_hidden() && table.columns[at].ty == Type::Bool;
    let has_keys = index.keys.is_empty() || index.keys.len() == index.columns.len();
    if index.predicate.is_some_and(|at| !is_bool(at)) || !has_keys {
        return Err(invalid(table, &format!("has an invalid index \"{}\"", index.name)));
    }
    Ok(())
}

fn check_positions(table: &RowSchema, what: &str, positions: &[usize]) -> Result<()> {
    match positions.iter().find(|at| table.columns.get(**at).is_none_or(|column| column.dropped)) {
        None => Ok(()),
        Some(at) => Err(invalid(table, &format!("has no column {at}, which \"{what}\" uses"))),
    }
}

fn invalid(table: &RowSchema, what: &str) -> Error {
    Error::new(SqlState::INVALID_TABLE_DEFINITION, format!("relation {} {what}", table.name))
}

impl TableSpec {
    /// Builds the first version of the table, with number `id`.
    ///
    /// # Errors
    /// 42P16 naming the column: no or several time columns, a nullable or wrongly typed time, a key
    /// of float type, a key on an unkeyed table; 42701 for a duplicate name; 54011 for too many
    /// columns; 22023 for an invalid option.
    pub fn build(&self, id: TableId) -> Result<Table> {
        check_name("table", &self.name.table)?;
        let mut table = Table {
            id,
            name: self.name.clone(),
            version: 1,
            keyed: self.keyed,
            columns: Vec::with_capacity(self.columns.len()),
            next_column_id: ColumnId(0),
            options: self.options.clone(),
            rules: Arc::default(),
        };
        for column in &self.columns {
            push_column(&mut table, column)?;
        }
        check_shape(&table)?;
        Ok(table)
    }
}

/// Returns the next version of `table`, with columns added.
pub(crate) fn with_columns(table: &Table, columns: &[ColumnSpec]) -> Result<Table> {
    let mut next = table.clone();
    for column in columns {
        if column.role == ColumnRole::Time {
            return Err(invalid_table(&next, &column.name, "is a second time column"));
        }
        if !column.nullable {
            return Err(invalid_table(&next, &column.name, "is NOT NULL, but existing rows would have no value"));
        }
        push_column(&mut next, column)?;
    }
    next.version += 1;
    check_shape(&next)?;
    Ok(next)
}

/// Returns the next version of `table`, with other options.
pub(crate) fn with_options(table: &Table, options: TableOptions) -> Result<Table> {
    let next = Table { options, version: table.version + 1, ..table.clone() };
    check_shape(&next)?;
    Ok(next)
}

fn push_column(table: &mut Table, spec: &ColumnSpec) -> Result<()> {
    check_name("column", &spec.name)?;
    if table.column(&spec.name).is_some() {
        return Err(Error::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" of relation {} already exists", spec.name, table.name),
        ));
    }
    if table.columns.len() >= limits::COLUMNS_PER_TABLE_MAX {
        return Err(Error::new(
            SqlState::TOO_MANY_COLUMNS,
            format!(
                "column \"{}\" would be number {} of relation {}; the limit is {}",
                spec.name,
                table.columns.len() + 1,
                table.name,
                limits::COLUMNS_PER_TABLE_MAX
            ),
        ));
    }
    table.columns.push(Column {
        id: table.next_column_id,
        name: spec.name.clone(),
        ty: spec.ty,
        nullable: spec.nullable,
        role: spec.role,
    });
    table.next_column_id.0 += 1;
    Ok(())
}

/// Checks the names and the shape of a `columns` table.
pub(crate) fn check_table(table: &Table) -> Result<()> {
    check_name("table", &table.name.table)?;
    let mut names = BTreeSet::new();
    for column in &table.columns {
        check_name("column", &column.name)?;
        if !names.insert(column.name.as_str()) {
            let text = format!("column \"{}\" of relation {} already exists", column.name, table.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
        }
    }
    check_rules(table)?;
    check_shape(table)
}

/// Checks that the rules of a `columns` table are about its columns, and that there are not too many.
pub(crate) fn check_rules(table: &Table) -> Result<()> {
    let invalid = |what: &str| Err(invalid_table(table, what, "has an invalid rule"));
    let rules = &table.rules;
    if !rules.columns.is_sorted_by(|one, other| one.id < other.id) {
        return invalid("");
    }
    if let Some(unknown) = rules.columns.iter().find(|rule| table.column_by_id(rule.id).is_none()) {
        return invalid(&unknown.id.to_string());
    }
    let is_stored_otherwise = |rule: &&ColumnRule| {
        let built_in = rule.declared.filter(|ty| !user_types::is_user(ty.oid));
        let stored = built_in.map(|ty| Type::from_oid(ty.oid, ty.typmod).and_then(Type::stored));
        stored.is_some_and(|stored| stored != table.column_by_id(rule.id).map(|column| column.ty))
    };
    if let Some(wrong) = rules.columns.iter().find(is_stored_otherwise) {
        return invalid(&wrong.id.to_string());
    }
    let names: BTreeSet<&str> = rules.checks.iter().map(|check| check.name.as_str()).collect();
    if names.len() < rules.checks.len() {
        let text = format!("relation {} has two constraints of one name", table.name);
        return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
    }
    let bytes: usize = rules.texts().map(str::len).sum();
    if bytes > limits::VIEW_BYTES_MAX {
        let text = format!(
            "the defaults and constraints of relation {} have {bytes} bytes; the limit is {}",
            table.name,
            limits::VIEW_BYTES_MAX
        );
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    Ok(())
}

pub(crate) fn check_shape(table: &Table) -> Result<()> {
    let mut times = table.columns.iter().filter(|column| column.role == ColumnRole::Time);
    let Some(time) = times.next() else {
        return Err(Error::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!(
                "relation {} has no time column; a columns table needs one of type timestamptz NOT NULL",
                table.name
            ),
        ));
    };
    if let Some(second) = times.next() {
        return Err(invalid_table(table, &second.name, "is a second time column"));
    }
    if !matches!(time.ty, DataType::Timestamp | DataType::Int64) {
        return Err(invalid_table(table, &time.name, "is the time, and must be timestamptz or bigint"));
    }
    if table.time_is_number() && table.options.retention_ns.is_some() {
        let text = format!("retention is not supported for relation {}, whose time column is bigint", table.name);
        return Err(
            Error::unsupported(text).with_hint("DELETE old rows instead; a bigint time has no relation to the clock")
        );
    }
    if time.nullable {
        return Err(invalid_table(table, &time.name, "is the time, and must be NOT NULL"));
    }
    for key in table.key_columns() {
        if !table.keyed {
            return Err(invalid_table(table, &key.name, "is a key column of a table without key"));
        }
        if !key.ty.can_be_key() {
            return Err(invalid_table(table, &key.name, "is of a float type, which cannot be a key"));
        }
    }
    let TableOptions { partition_length, retention_ns, .. } = table.options;
    for (what, length) in [("partition", Some(partition_length)), ("retention", retention_ns)] {
        if let Some(length) = length.filter(|length| *length <= 0) {
            let text = format!("{what} of relation {} is {length}; it must be positive", table.name);
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
    }
    Ok(())
}

fn invalid_table(table: &Table, column: &str, what: &str) -> Error {
    Error::new(SqlState::INVALID_TABLE_DEFINITION, format!("column \"{column}\" of relation {} {what}", table.name))
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::new(SqlState::INVALID_NAME, format!("{what} name {name:?} is empty or holds a zero byte")));
    }
    if name.len() > limits::NAME_BYTES_MAX {
        let start: String = name.chars().take(40).collect();
        return Err(Error::new(
            SqlState::INVALID_NAME,
            format!("{what} name \"{start}…\" has {} bytes; the limit is {}", name.len(), limits::NAME_BYTES_MAX),
        ));
    }
    Ok(())
}
