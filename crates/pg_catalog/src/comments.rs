//! Comments: the objects that can have one, and the relations and functions that show them.

use engine::{Catalog, CommentKey};
use model::{Error, Result, RoutineSpec, RowIndex, RowSchema, SqlState, TEMPORARY_SCHEMA, TypeSpec};

use crate::cells::{Row, row};
use crate::classes::{Class, Constraint};
use crate::facts::StatementFacts;
use crate::oids::{self, Part};
use crate::{triggers, user_types};

/// `pg_type`, `pg_class`, `pg_constraint`, `pg_namespace` and `pg_database`.
const TYPE: u32 = 1247;
/// `pg_proc`.
const PROCEDURE: u32 = 1255;
const CLASS: u32 = 1259;
/// `pg_trigger`.
const TRIGGER: u32 = 2620;
const CONSTRAINT: u32 = 2606;
const NAMESPACE: u32 = 2615;
const DATABASE: u32 = 1262;

/// A kind of relation that COMMENT ON names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// A table of either store.
    Table,
    /// An index.
    Index,
    /// A sequence.
    Sequence,
    /// A view.
    View,
    /// A materialized view, whose rows are those of a table.
    MaterializedView,
}

/// The comment of a relation with this schema and name.
///
/// # Errors
/// 42P01 if there is none, 42809 if it is of another kind.
pub fn on_relation(catalog: &Catalog, schema: Option<&str>, name: &str, kind: RelationKind) -> Result<CommentKey> {
    let class = relation(catalog, schema, name)?;
    let is_it = match class {
        Class::Rows(table) if catalog.materialized_view(table.id).is_some() => kind == RelationKind::MaterializedView,
        Class::Columns(_) | Class::Rows(_) => kind == RelationKind::Table,
        Class::Key(_) | Class::Index(..) => kind == RelationKind::Index,
        Class::Sequence(_) => kind == RelationKind::Sequence,
        Class::View(_) => kind == RelationKind::View,
        Class::Composite(_) => false,
    };
    if is_it {
        return Ok(CommentKey { class: CLASS, object: class.oid(), column: 0 });
    }
    let article = match kind {
        RelationKind::Table => "a table",
        RelationKind::Index => "an index",
        RelationKind::Sequence => "a sequence",
        RelationKind::View => "a view",
        RelationKind::MaterializedView => "a materialized view",
    };
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {article}")))
}

/// The comment of a column of a table or view.
///
/// # Errors
/// 42P01, 42703; 42809 for an index or sequence.
pub fn on_column(catalog: &Catalog, schema: Option<&str>, name: &str, column: &str) -> Result<CommentKey> {
    let class = relation(catalog, schema, name)?;
    let at = match class {
        Class::Columns(table) => table.columns.iter().position(|one| one.name == column),
        Class::Rows(table) => table.column(column),
        Class::View(view) => view.columns.iter().position(|one| one.name == column),
        Class::Composite(spec) => spec.attributes().and_then(|all| all.iter().position(|one| one.name == column)),
        Class::Key(_) | Class::Index(..) | Class::Sequence(_) => {
            let text = format!("cannot set comment on relation \"{name}\"");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
    };
    let missing = || {
        let text = format!("column \"{column}\" of relation \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_COLUMN, text)
    };
    let column = at.and_then(|at| u32::try_from(at + 1).ok()).ok_or_else(missing)?;
    Ok(CommentKey { class: CLASS, object: class.oid(), column })
}

/// The comment of a constraint of a table.
///
/// # Errors
/// 42P01, 42704.
pub fn on_constraint(catalog: &Catalog, schema: Option<&str>, name: &str, constraint: &str) -> Result<CommentKey> {
    let object = match relation(catalog, schema, name)? {
        Class::Rows(table) => Constraint::all(table).find(|one| one.name() == constraint).map(|one| one.oid(table)),
        Class::Columns(table) if table.keyed && oids::key_name(table) == constraint => {
            Some(oids::of_table(table.id, Part::Constraint))
        }
        Class::Columns(table) => {
            let mut described = catalog.tables_with_rules().filter(|described| described.id == table.id);
            let found = described.next();
            found
                .and_then(|table| Constraint::all(table).find(|one| one.name() == constraint).map(|one| one.oid(table)))
        }
        _ => None,
    };
    let missing = || {
        let text = format!("constraint \"{constraint}\" for table \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, text)
    };
    Ok(CommentKey { class: CONSTRAINT, object: object.ok_or_else(missing)?, column: 0 })
}

/// The comment of a schema.
#[must_use]
pub fn on_schema(name: &str) -> CommentKey {
    CommentKey { class: NAMESPACE, object: oids::of_schema(name), column: 0 }
}

/// The comment of the database.
#[must_use]
pub fn on_database() -> CommentKey {
    CommentKey { class: DATABASE, object: oids::DATABASE, column: 0 }
}

/// The comment of a type of a user.
#[must_use]
pub fn on_type(spec: &TypeSpec) -> CommentKey {
    CommentKey { class: TYPE, object: spec.oid, column: 0 }
}

/// The comment of a function or procedure of a user.
#[must_use]
pub fn on_routine(routine: &RoutineSpec) -> CommentKey {
    CommentKey { class: PROCEDURE, object: oids::of_number(routine.id, Part::Table), column: 0 }
}

/// The comment of a trigger of a table.
///
/// # Errors
/// 42P01, 42704.
pub fn on_trigger(catalog: &Catalog, schema: Option<&str>, name: &str, trigger: &str) -> Result<CommentKey> {
    let found = match relation(catalog, schema, name)? {
        Class::Rows(table) => table.triggers.iter().find(|one| one.name == trigger),
        _ => None,
    };
    let missing = || {
        let text = format!("trigger \"{trigger}\" for table \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, text)
    };
    Ok(CommentKey { class: TRIGGER, object: triggers::oid(found.ok_or_else(missing)?), column: 0 })
}

/// The comment of a constraint of a domain.
///
/// # Errors
/// 42704.
pub fn on_domain_constraint(spec: &TypeSpec, constraint: &str) -> Result<CommentKey> {
    let domain = &spec.name.table;
    let check = spec.domain().and_then(|domain| domain.checks.iter().find(|check| check.name == constraint));
    let check = check.ok_or_else(|| {
        let text = format!("constraint \"{constraint}\" for domain {domain} does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, text)
    })?;
    Ok(CommentKey { class: CONSTRAINT, object: user_types::check_oid(spec, check), column: 0 })
}

fn relation<'a>(catalog: &'a Catalog, schema: Option<&str>, name: &str) -> Result<Class<'a>> {
    let found = schema.and_then(|schema| Class::by_name(catalog, schema, name));
    found.ok_or_else(|| Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")))
}

/// Comments on the indexes and constraints of a table that have other numbers in its next version: before and after.
#[must_use]
pub fn renumbered(before: &RowSchema, after: &RowSchema) -> Vec<(CommentKey, CommentKey)> {
    let mut moved = Vec::new();
    let key = |class, object| CommentKey { class, object, column: 0 };
    let indexes = |table: &'_ RowSchema| table.primary.iter().chain(&table.secondary).cloned().collect::<Vec<_>>();
    let (old, new) = (indexes(before), indexes(after));
    let gone: Vec<&RowIndex> = old.iter().filter(|one| new.iter().all(|other| other.id != one.id)).collect();
    let mut added: Vec<&RowIndex> = new.iter().filter(|one| old.iter().all(|other| other.id != one.id)).collect();
    for one in gone {
        // One that is built again has its name, or its columns: USING INDEX gives it the name of the constraint.
        let by_name = added.iter().position(|other| other.name == one.name);
        let at = by_name.or_else(|| added.iter().position(|other| other.columns == one.columns));
        let Some(at) = at else { continue };
        let other = added.remove(at);
        for (class, part) in [(CLASS, Part::Index), (CONSTRAINT, Part::Constraint)] {
            moved.push((key(class, oids::of_number(one.id, part)), key(class, oids::of_number(other.id, part))));
        }
    }
    for (from, to) in renamed(before, after) {
        moved.push((key(CONSTRAINT, from), key(CONSTRAINT, to)));
    }
    moved
}

/// Numbers of the CHECK constraints and foreign keys that have another name in the next version of a table.
fn renamed(before: &RowSchema, after: &RowSchema) -> Vec<(u32, u32)> {
    let has = |table: &RowSchema, name: &str| Constraint::all(table).any(|one| one.name() == name);
    let is_renamed = |from: &Constraint<'_>, to: &Constraint<'_>| {
        let is_same = match (from, to) {
            (Constraint::Check(from), Constraint::Check(to)) => from.condition == to.condition,
            (Constraint::Foreign(from), Constraint::Foreign(to)) => {
                (from.table, &from.columns, &from.referred) == (to.table, &to.columns, &to.referred)
            }
            _ => false,
        };
        is_same && !has(after, from.name()) && !has(before, to.name())
    };
    let mut renamed = Vec::new();
    for from in Constraint::all(before) {
        if let Some(to) = Constraint::all(after).find(|to| is_renamed(&from, to)) {
            renamed.push((from.oid(before), to.oid(after)));
        }
    }
    renamed
}

/// Comments whose objects do not exist any more.
#[must_use]
pub fn orphans(catalog: &Catalog) -> Vec<CommentKey> {
    catalog.comments().map(|(key, _)| *key).filter(|key| !exists(catalog, *key)).collect()
}

/// Whether a comment is on a temporary object.
#[must_use]
pub fn is_on_temporary(catalog: &Catalog, CommentKey { class, object, .. }: CommentKey) -> bool {
    let table = match class {
        CLASS => {
            return Class::by_oid(catalog, object).is_some_and(|class| class.schema().starts_with(TEMPORARY_SCHEMA));
        }
        CONSTRAINT => Constraint::by_oid(catalog, object).map(|(table, _)| table),
        _ => None,
    };
    table.is_some_and(|table| table.name.is_temporary())
}

fn exists(catalog: &Catalog, CommentKey { class, object, column }: CommentKey) -> bool {
    match class {
        CLASS => {
            let has = |count: usize| column as usize <= count;
            Class::by_oid(catalog, object).is_some_and(|found| match found {
                Class::Columns(table) => has(table.columns.len()),
                Class::Rows(table) => {
                    column == 0 || table.columns.get(column as usize - 1).is_some_and(|column| !column.dropped)
                }
                Class::View(view) => has(view.columns.len()),
                Class::Composite(spec) => has(spec.attributes().map_or(0, <[_]>::len)),
                Class::Key(_) | Class::Index(..) | Class::Sequence(_) => column == 0,
            })
        }
        CONSTRAINT => {
            let of_columns = || match oids::table_of(object) {
                Some((id, Part::Constraint)) => catalog.table_by_id(id).is_some(),
                _ => false,
            };
            Constraint::by_oid(catalog, object).is_some()
                || of_columns()
                || user_types::checks(catalog).any(|(spec, _, check)| user_types::check_oid(spec, check) == object)
        }
        TYPE => catalog.type_by_oid(object).is_some(),
        PROCEDURE => oids::table_of(object).is_some_and(|(id, _)| catalog.routine_by_id(id.0).is_some()),
        TRIGGER => catalog.row_tables().flat_map(|table| &table.triggers).any(|one| triggers::oid(one) == object),
        NAMESPACE => catalog.schemas().any(|schema| oids::of_schema(schema) == object),
        _ => true,
    }
}

/// Rows of `pg_description`.
pub(crate) fn descriptions(facts: &StatementFacts) -> Vec<Row> {
    let listed = facts.catalog.comments().filter(|(key, _)| key.class != DATABASE);
    let description = |(key, text): (&CommentKey, &std::sync::Arc<str>)| {
        row! {
            objoid: key.object,
            classoid: key.class,
            objsubid: i64::from(key.column),
            description: &**text,
            tableoid: 2609,
        }
    };
    listed.map(description).collect()
}

/// Rows of `pg_shdescription`: the comment of the database.
pub(crate) fn shared_descriptions(facts: &StatementFacts) -> Vec<Row> {
    let text = facts.catalog.comment(&on_database());
    let description = |text: &std::sync::Arc<str>| {
        row! { objoid: oids::DATABASE, classoid: DATABASE, description: &**text, tableoid: 2396 }
    };
    text.into_iter().map(description).collect()
}

/// The comment on an object, or on a column of it. `class`: the name of the system catalog that lists it; `None` for
/// any.
pub(crate) fn description(facts: &StatementFacts, object: u32, class: Option<&str>, column: u32) -> Option<String> {
    let class = match class {
        None => None,
        Some("pg_type") => Some(TYPE),
        Some("pg_proc") => Some(PROCEDURE),
        Some("pg_trigger") => Some(TRIGGER),
        Some("pg_class") => Some(CLASS),
        Some("pg_constraint") => Some(CONSTRAINT),
        Some("pg_namespace") => Some(NAMESPACE),
        Some("pg_database") => Some(DATABASE),
        Some(_) => return None,
    };
    let is_it =
        |key: &CommentKey| key.object == object && key.column == column && class.is_none_or(|class| class == key.class);
    facts.catalog.comments().find(|(key, _)| is_it(key)).map(|(_, text)| text.to_string())
}
