//! Which schemas and tables there are, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnRole, DataType, Error, Result, SqlState, Table, TableId, TableName, TableOptions, TableRef,
    limits,
};

/// Which schemas and tables there are. Immutable; a change makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    schemas: BTreeSet<String>,
    tables: BTreeMap<TableName, TableRef>,
    by_id: BTreeMap<TableId, TableRef>,
}

/// A table to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name.
    pub name: TableName,
    /// Is (key, time) unique?
    pub keyed: bool,
    /// Exactly one with role `Time`.
    pub columns: Vec<ColumnSpec>,
    /// What `WITH (…)` said.
    pub options: TableOptions,
}

/// A column to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: DataType,
    /// May it be NULL?
    pub nullable: bool,
    /// What it is for.
    pub role: ColumnRole,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog { schemas: BTreeSet::from(["public".to_owned()]), tables: BTreeMap::new(), by_id: BTreeMap::new() }
    }
}

impl Catalog {
    /// The table called `name`.
    #[must_use]
    pub fn table(&self, name: &TableName) -> Option<&TableRef> {
        self.tables.get(name)
    }

    /// The table with this number.
    #[must_use]
    pub fn table_by_id(&self, id: TableId) -> Option<&TableRef> {
        self.by_id.get(&id)
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &TableRef> {
        self.tables.values()
    }

    /// All schemas, by name; `public` is always there.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.schemas.iter().map(String::as_str)
    }

    /// Is there such a schema?
    #[must_use]
    pub fn has_schema(&self, name: &str) -> bool {
        self.schemas.contains(name)
    }

    /// The table called `name`, or 42P01.
    pub fn expect(&self, name: &TableName) -> Result<&TableRef> {
        self.table(name).ok_or_else(|| Error::new(SqlState::UNDEFINED_TABLE, format!("relation {name} does not exist")))
    }

    /// With a schema added.
    pub fn with_schema(&self, name: &str) -> Result<Catalog> {
        check_name("schema", name)?;
        let mut next = self.clone();
        if !next.schemas.insert(name.to_owned()) {
            return Err(Error::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
        }
        Ok(next)
    }

    /// Without an empty schema.
    pub(crate) fn without_schema(&self, name: &str) -> Result<Catalog> {
        let mut next = self.clone();
        if name == "public" || !next.schemas.remove(name) {
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" cannot be dropped")));
        }
        if let Some(table) = self.tables.keys().find(|table| table.schema == name) {
            return Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("schema \"{name}\" still holds table {table}"),
            )
            .with_kind(model::ErrorKind::Invalid));
        }
        Ok(next)
    }

    /// With a table added or replaced by a newer version of itself.
    ///
    /// # Errors
    /// 42P07 when another table has the name; 3F000; 54000.
    pub fn with_table(&self, table: TableRef) -> Result<Catalog> {
        if let Some(other) = self.tables.get(&table.name)
            && other.id != table.id
        {
            return Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation {} already exists", table.name)));
        }
        if !self.has_schema(&table.name.schema) {
            return Err(Error::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{}\" does not exist", table.name.schema),
            ));
        }
        if self.tables.len() >= limits::TABLES_MAX && !self.tables.contains_key(&table.name) {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!(
                    "table {} would be the {}th; the limit is {}",
                    table.name,
                    self.tables.len() + 1,
                    limits::TABLES_MAX
                ),
            ));
        }
        let mut next = self.clone();
        next.by_id.insert(table.id, Arc::clone(&table));
        next.tables.insert(table.name.clone(), table);
        Ok(next)
    }

    /// Without a table.
    pub(crate) fn without_table(&self, id: TableId) -> Catalog {
        let mut next = self.clone();
        if let Some(table) = next.by_id.remove(&id) {
            next.tables.remove(&table.name);
        }
        next
    }
}

impl TableSpec {
    /// The table this makes, with number `id`.
    ///
    /// # Errors
    /// 42P16 and friends, naming the column: no or several time columns, a nullable or wrongly typed time, a key of float type, a
    /// key on an unkeyed table; 42701 for a name twice; 54011 for too many columns.
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
        };
        for column in &self.columns {
            push_column(&mut table, column)?;
        }
        check_shape(&table)?;
        Ok(table)
    }
}

/// `table` with columns added, as its next version.
pub(crate) fn with_columns(table: &Table, columns: &[ColumnSpec]) -> Result<Table> {
    let mut next = table.clone();
    for column in columns {
        if column.role == ColumnRole::Time {
            return Err(invalid_table(&next, &column.name, "is a second time column"));
        }
        if !column.nullable {
            return Err(invalid_table(&next, &column.name, "is NOT NULL, but rows that exist would have none"));
        }
        push_column(&mut next, column)?;
    }
    next.version += 1;
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
    if time.ty != DataType::Timestamp {
        return Err(invalid_table(table, &time.name, "is the time, and must be timestamptz"));
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
    if table.options.partition_ns <= 0 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("partition of relation {} is {} ns; it must be positive", table.name, table.options.partition_ns),
        ));
    }
    Ok(())
}

fn invalid_table(table: &Table, column: &str, what: &str) -> Error {
    Error::new(SqlState::INVALID_TABLE_DEFINITION, format!("column \"{column}\" of relation {} {what}", table.name))
}

fn check_name(what: &str, name: &str) -> Result<()> {
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
