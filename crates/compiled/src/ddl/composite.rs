//! Plans CREATE TYPE … AS (…), and changes of the attributes of a composite type. A type with other attributes has another OID,
//! and the engine refuses it if anything depends on the old one, such as a column, whose values would not fit.

use model::user_types::{self, Attribute};
use model::{Error, Result, SqlState, TypeSpec, UserType, limits};
use parser::ast::{self, AlterAttribute, AlterDefinition, DropBehavior, Ident, Name, TableFunctionColumn, TypeName};

use super::user_types::{ALTER_TYPE, created, definition, found, next_version, no_type, type_name};
use super::{Catalog, Change, Definition, Notice, column, exists_already, is_taken, names, types};
use crate::statement::Session;

/// Plans a CREATE TYPE … AS (…).
pub(super) fn create(
    create: &ast::CreateCompositeType,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Definition> {
    let name = names::new_relation(&create.name, ast::Persistence::Permanent, catalog)?;
    if is_taken(catalog, &name) {
        return Err(exists_already(&name.table));
    }
    let mut attributes = Vec::with_capacity(create.attributes.len());
    for written in &create.attributes {
        add(&mut attributes, written, session)?;
    }
    let spec = created(&create.name, UserType::Composite(attributes), catalog)?;
    checked(&spec)?;
    Ok(definition("CREATE TYPE", Change::CreateType(spec)))
}

fn checked(spec: &TypeSpec) -> Result<()> {
    if spec.attributes().is_some_and(|attributes| attributes.len() > limits::ATTRIBUTES_MAX) {
        let text = format!("tables can have at most {} columns", limits::ATTRIBUTES_MAX);
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
    }
    spec.check()
}

/// Appends an attribute.
fn add(attributes: &mut Vec<Attribute>, written: &TableFunctionColumn, session: Session<'_>) -> Result<()> {
    let name = written.name.as_str();
    if attributes.iter().any(|other| other.name == name) {
        let text = format!("column \"{name}\" specified more than once");
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    attributes.push(attribute(&written.name, &written.ty, written.collation.as_ref(), session)?);
    Ok(())
}

fn attribute(name: &Ident, ty: &TypeName, collation: Option<&Name>, session: Session<'_>) -> Result<Attribute> {
    let declared = types::declared(ty, name, session.facts()?)?;
    if declared.is_serial {
        return Err(no_type(&ty.name));
    }
    if declared.domain.is_some() {
        let error = Error::unsupported(format!("attribute \"{name}\" of domain {} is not supported", ty.name));
        return Err(error.with_hint("Use the type that the domain constrains."));
    }
    if let Some(collation) = collation
        && let Some(other) = column::check_collation(collation, declared.ty)?
    {
        return Err(Error::unsupported(format!("collation \"{other}\" of an attribute is not supported")));
    }
    Ok(Attribute { name: name.to_string(), ty: declared.ty })
}

/// The next version of the composite type in a statement, and its attributes.
fn changed(name: &Name, catalog: &dyn Catalog) -> Result<(TypeSpec, Vec<Attribute>)> {
    let spec = found(name, catalog)?;
    match spec.attributes() {
        Some(attributes) => Ok((next_version(&spec), attributes.to_vec())),
        None => {
            let text = format!("\"{}\" is not a composite type", spec.name.table);
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text))
        }
    }
}

fn place(attributes: &[Attribute], name: &Ident, spec: &TypeSpec) -> Result<usize> {
    attributes.iter().position(|attribute| attribute.name == name.as_str()).ok_or_else(|| {
        let text = format!("column \"{name}\" of relation \"{}\" does not exist", spec.name.table);
        Error::new(SqlState::UNDEFINED_COLUMN, text)
    })
}

/// Plans an ALTER TYPE that adds, drops or changes attributes; `None` for another one.
pub(super) fn alter(
    alter: &AlterDefinition,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let Some(name) = type_name(&alter.object).filter(|_| !alter.attributes.is_empty()) else { return Ok(None) };
    let (mut spec, mut attributes) = changed(name, catalog)?;
    let mut notices = Vec::new();
    for action in &alter.attributes {
        match action {
            AlterAttribute::Add(written, _) => {
                let text = format!("column \"{}\" of relation \"{}\" already exists", written.name, spec.name.table);
                if attributes.iter().any(|other| other.name == written.name.as_str()) {
                    return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
                }
                add(&mut attributes, written, session)?;
            }
            AlterAttribute::Drop { name, if_exists, .. } => match place(&attributes, name, &spec) {
                Ok(at) => drop(attributes.remove(at)),
                Err(error) if *if_exists => notices.push(Notice::new(format!("{}, skipping", error.message()))),
                Err(error) => return Err(error),
            },
            AlterAttribute::Alter { name, ty, collation, .. } => {
                let at = place(&attributes, name, &spec)?;
                attributes[at] = attribute(name, ty, collation.as_ref(), session)?;
            }
        }
    }
    let is_of_itself = |attribute: &Attribute| contains(attribute.ty.oid(), spec.oid);
    if attributes.iter().any(is_of_itself) {
        let text = format!("composite type {} cannot be made a member of itself", spec.name.table);
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    spec.kind = UserType::Composite(attributes);
    spec.oid = user_types::new_oid(&spec.kind, catalog.random())?;
    checked(&spec)?;
    Ok(Some(Definition { notices, ..definition(ALTER_TYPE, Change::AlterType(spec)) }))
}

/// Whether values of a type have values of a composite type in them.
fn contains(ty: u32, wanted: u32) -> bool {
    let ty = ty & !1;
    let attributes = user_types::attributes(ty).unwrap_or_default();
    ty == wanted || attributes.iter().any(|attribute| contains(attribute.ty.oid(), wanted))
}

/// Plans an ALTER TYPE … RENAME ATTRIBUTE.
pub(super) fn rename(
    name: &Name,
    (from, to): (&Ident, &Ident),
    _: DropBehavior,
    catalog: &dyn Catalog,
) -> Result<Definition> {
    let (mut spec, mut attributes) = changed(name, catalog)?;
    let at = place(&attributes, from, &spec)?;
    if attributes.iter().any(|other| other.name == to.as_str()) {
        let text = format!("column \"{to}\" of relation \"{}\" already exists", spec.name.table);
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    attributes[at].name = to.to_string();
    spec.kind = UserType::Composite(attributes);
    spec.oid = user_types::new_oid(&spec.kind, catalog.random())?;
    Ok(definition(ALTER_TYPE, Change::AlterType(spec)))
}
