//! Entries of `pg_class` (tables of both stores, indexes, sequences, views and composite types), and constraints of tables.

use std::borrow::Cow;

use engine::Catalog;
use model::{
    Deferral, RowCheck, RowForeignKey, RowIndex, RowSchema, RowSchemaRef, SequenceRef, TableRef, TypeSpecRef, UserType,
    ViewRef,
};

use crate::oids::{self, Oid, Part};

/// An entry of `pg_class`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class<'a> {
    /// A `columns` table.
    Columns(&'a TableRef),
    /// Index over the key of a `columns` table.
    Key(&'a TableRef),
    /// A `rows` table.
    Rows(&'a RowSchemaRef),
    /// An index of a `rows` table.
    Index(&'a RowSchemaRef, &'a RowIndex),
    /// A sequence.
    Sequence(&'a SequenceRef),
    /// A view.
    View(&'a ViewRef),
    /// A composite type.
    Composite(&'a TypeSpecRef),
}

impl<'a> Class<'a> {
    /// Looks up an entry by OID.
    pub(crate) fn by_oid(catalog: &'a Catalog, oid: Oid) -> Option<Class<'a>> {
        let (id, part) = oids::table_of(oid)?;
        match part {
            Part::Table => {
                let columns = catalog.table_by_id(id).map(Class::Columns);
                let rows = || catalog.row_table_by_id(id).map(Class::Rows);
                let sequence = || catalog.sequence_by_id(id.0).map(Class::Sequence);
                let view = || catalog.view_by_id(id.0).map(Class::View);
                let composite = || catalog.type_by_id(id.0).and_then(Class::of_type);
                columns.or_else(rows).or_else(sequence).or_else(view).or_else(composite)
            }
            Part::Index => {
                let key = catalog.table_by_id(id).filter(|table| table.keyed).map(Class::Key);
                key.or_else(|| index_by_id(catalog, id.0).map(|(table, index)| Class::Index(table, index)))
            }
            Part::RowType | Part::RowArray | Part::Constraint => None,
        }
    }

    /// Looks up an entry by schema and name.
    pub(crate) fn by_name(catalog: &'a Catalog, schema: &str, name: &str) -> Option<Class<'a>> {
        let full = model::TableName { schema: schema.to_owned(), table: name.to_owned() };
        let key = || {
            let mut keyed = catalog.tables().filter(|table| table.keyed && table.name.schema == schema);
            keyed.find(|table| oids::key_name(table) == name).map(Class::Key)
        };
        (catalog.table(&full).map(Class::Columns))
            .or_else(|| catalog.row_table(&full).map(Class::Rows))
            .or_else(|| catalog.index(&full).and_then(|(_, index)| index_by_id(catalog, index.id)).map(Class::of_index))
            .or_else(|| catalog.sequence(&full).map(Class::Sequence))
            .or_else(|| catalog.view(&full).map(Class::View))
            .or_else(|| catalog.user_type(&full).and_then(Class::of_type))
            .or_else(key)
    }

    fn of_type(spec: &'a TypeSpecRef) -> Option<Class<'a>> {
        matches!(spec.kind, UserType::Composite(_)).then_some(Class::Composite(spec))
    }

    fn of_index((table, index): (&'a RowSchemaRef, &'a RowIndex)) -> Class<'a> {
        Class::Index(table, index)
    }

    /// OID.
    pub(crate) fn oid(&self) -> Oid {
        match self {
            Class::Columns(table) => oids::of_table(table.id, Part::Table),
            Class::Key(table) => oids::of_table(table.id, Part::Index),
            Class::Rows(table) => oids::of_table(table.id, Part::Table),
            Class::Index(_, index) => oids::of_number(index.id, Part::Index),
            Class::Sequence(sequence) => oids::of_number(sequence.id, Part::Table),
            Class::View(view) => oids::of_number(view.id, Part::Table),
            Class::Composite(spec) => oids::of_number(spec.id, Part::Table),
        }
    }

    /// Schema that contains it.
    pub(crate) fn schema(&self) -> &'a str {
        match self {
            Class::Columns(table) | Class::Key(table) => &table.name.schema,
            Class::Rows(table) | Class::Index(table, _) => &table.name.schema,
            Class::Sequence(sequence) => &sequence.name.schema,
            Class::View(view) => &view.name.schema,
            Class::Composite(spec) => &spec.name.schema,
        }
    }

    /// Name within the schema.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        match self {
            Class::Columns(table) => Cow::Borrowed(table.name.table.as_str()),
            Class::Key(table) => Cow::Owned(oids::key_name(table)),
            Class::Rows(table) => Cow::Borrowed(table.name.table.as_str()),
            Class::Index(_, index) => Cow::Borrowed(index.name.as_str()),
            Class::Sequence(sequence) => Cow::Borrowed(sequence.name.table.as_str()),
            Class::View(view) => Cow::Borrowed(view.name.table.as_str()),
            Class::Composite(spec) => Cow::Borrowed(spec.name.table.as_str()),
        }
    }
}

/// The tables of both stores that have defaults or constraints as `rows` tables have them.
pub(crate) fn with_constraints(catalog: &Catalog) -> impl Iterator<Item = &RowSchemaRef> {
    catalog.row_tables().chain(catalog.tables_with_rules())
}

/// A constraint of a `rows` table, or a CHECK constraint of a `columns` table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constraint<'a> {
    /// PRIMARY KEY or UNIQUE.
    Unique(&'a RowIndex),
    /// CHECK
    Check(&'a RowCheck),
    /// FOREIGN KEY
    Foreign(&'a RowForeignKey),
}

impl<'a> Constraint<'a> {
    /// All constraints of a table.
    pub(crate) fn all(table: &'a RowSchema) -> impl Iterator<Item = Constraint<'a>> {
        let unique = indexes(table).filter(|index| index.constraint).map(Constraint::Unique);
        let checks = table.checks.iter().map(Constraint::Check);
        unique.chain(checks).chain(table.foreign_keys.iter().map(Constraint::Foreign))
    }

    /// Looks up a constraint by OID; returns its table too.
    pub(crate) fn by_oid(catalog: &'a Catalog, oid: Oid) -> Option<(&'a RowSchemaRef, Constraint<'a>)> {
        if let Some((id, Part::Constraint)) = oids::table_of(oid) {
            let (table, index) = index_by_id(catalog, id.0).filter(|(_, index)| index.constraint)?;
            return Some((table, Constraint::Unique(index)));
        }
        let mut all = with_constraints(catalog).flat_map(|table| Constraint::all(table).map(move |one| (table, one)));
        all.find(|(table, constraint)| constraint.oid(table) == oid)
    }

    /// OID.
    pub(crate) fn oid(&self, table: &RowSchema) -> Oid {
        match self {
            Constraint::Unique(index) => oids::of_number(index.id, Part::Constraint),
            Constraint::Check(check) => oids::of_named(table.id, "check", &check.name),
            Constraint::Foreign(key) => oids::of_named(table.id, "foreign", &key.name),
        }
    }

    /// Constraint name.
    pub(crate) fn name(&self) -> &'a str {
        match self {
            Constraint::Unique(index) => &index.name,
            Constraint::Check(check) => &check.name,
            Constraint::Foreign(key) => &key.name,
        }
    }

    /// When it is checked.
    pub(crate) fn deferral(&self) -> Deferral {
        match self {
            Constraint::Unique(index) => index.deferral,
            Constraint::Check(_) => Deferral::Never,
            Constraint::Foreign(key) => key.deferral,
        }
    }

    /// Positions of the columns that it uses.
    pub(crate) fn columns(&self, table: &RowSchema) -> Vec<usize> {
        match self {
            Constraint::Unique(index) => index.columns.clone(),
            Constraint::Check(check) => compiled::deparse::columns(&check.condition, table),
            Constraint::Foreign(key) => key.columns.clone(),
        }
    }
}

/// All indexes of a table, the primary key's first.
pub(crate) fn indexes(table: &RowSchema) -> impl Iterator<Item = &RowIndex> {
    table.primary.iter().chain(&table.secondary)
}

/// Whether the index belongs to the PRIMARY KEY.
pub(crate) fn is_primary(table: &RowSchema, index: &RowIndex) -> bool {
    table.primary_key().is_some_and(|primary| primary.id == index.id)
}

fn index_by_id(catalog: &Catalog, id: u32) -> Option<(&RowSchemaRef, &RowIndex)> {
    let mut all = catalog.row_tables().flat_map(|table| indexes(table).map(move |index| (table, index)));
    all.find(|(_, index)| index.id == id)
}

/// Unique index that a foreign key references.
pub(crate) fn referred<'a>(parent: &'a RowSchema, key: &RowForeignKey) -> Option<&'a RowIndex> {
    let same = |index: &&RowIndex| {
        index.unique
            && index.predicate.is_none()
            && index.columns.len() == key.referred.len()
            && index.columns.iter().all(|at| key.referred.contains(at))
    };
    indexes(parent).find(same)
}
