//! Plans CREATE TYPE … AS ENUM, CREATE DOMAIN, ALTER TYPE and ALTER DOMAIN. Crate `query` runs DROP, which may need several statements.

use std::sync::Arc;

use catalog::{TypeKind, builtin};
use model::{Domain, DomainCheck, Error, Result, RowColumn, SqlState, TypeSpec, TypeSpecRef, UserType, user_types};
use parser::ast::{
    self, AlterDomainAction as Action, AlterEnumAction, ColumnConstraintKind as Constraint, ConstraintAttributes, Expr,
    Name, ObjectKind, ObjectName, Persistence, RenamePart, TableConstraintKind,
};
use parser::lexer::{Lexer, TokenKind};
use rustc_hash::FxHashSet;

use super::draft::Draft;
use super::expressions::{self, Default};
use super::table_work::{Condition, Work};
use super::{Catalog, Change, Definition, Notice, alter, column, composite, names, types};
use crate::expr::{Expr as Lowered, Value};
use crate::statement::Session;
use crate::stored_expressions::{domain_check, named_type};

/// Command tags.
pub(super) const ALTER_TYPE: &str = "ALTER TYPE";
const ALTER_DOMAIN: &str = "ALTER DOMAIN";

/// The name in a statement about a type.
pub(super) fn type_name(object: &ObjectName) -> Option<&Name> {
    match object {
        ObjectName::Name(name) | ObjectName::On(_, name) => Some(name),
        ObjectName::Type(ty) => Some(&ty.name),
        _ => None,
    }
}

fn written(name: &Name) -> String {
    name.parts().map(ast::Ident::as_str).collect::<Vec<_>>().join(".")
}

/// Error for the name of no type.
#[must_use]
pub fn no_type(name: &Name) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", written(name)))
}

/// The type of a user with a name, looked for along the search path if it has no schema.
pub fn find_type(name: &Name, catalog: &dyn Catalog) -> Option<TypeSpecRef> {
    let of = |schema: String| catalog.user_type(&model::TableName { schema, table: name.name.to_string() });
    match name.schema() {
        Some(schema) => of(catalog.schema(schema)),
        None => catalog.search_path().into_iter().find_map(of),
    }
}

/// Whether a name is that of a type of the system.
#[must_use]
pub fn is_system_type(name: &Name) -> bool {
    name.schema().is_none_or(|schema| schema == "pg_catalog") && builtin().type_named(&name.name).is_some()
}

/// The table or view whose rows have the type of a name.
pub fn row_type(name: &Name, catalog: &dyn Catalog) -> Option<String> {
    let relation = names::relation(name, catalog).ok()?;
    let shown = names::display_name(&relation, catalog);
    if catalog.view(&relation).is_some() {
        return Some(format!("view {shown}"));
    }
    (catalog.table(&relation).is_some() || catalog.is_other(&relation)).then(|| format!("table {shown}"))
}

pub(super) fn found(name: &Name, catalog: &dyn Catalog) -> Result<TypeSpecRef> {
    find_type(name, catalog).ok_or_else(|| no_type(name))
}

/// The domain of a name.
fn found_domain(name: &Name, catalog: &dyn Catalog) -> Result<(TypeSpecRef, Domain)> {
    let wrong = |name: &str| Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{name} is not a domain"));
    match find_type(name, catalog) {
        Some(spec) => match spec.domain() {
            Some(domain) => Ok((Arc::clone(&spec), domain.clone())),
            None => Err(wrong(&spec.name.table)),
        },
        None if is_system_type(name) => {
            let id = builtin().type_named(&name.name).unwrap_or_default();
            Err(wrong(&builtin().type_name(id)))
        }
        None => Err(no_type(name)),
    }
}

pub(super) fn next_version(spec: &TypeSpec) -> TypeSpec {
    TypeSpec { version: spec.version + 1, ..spec.clone() }
}

pub(super) fn created(name: &Name, kind: UserType, catalog: &dyn Catalog) -> Result<TypeSpec> {
    let name = names::new_relation(name, Persistence::Permanent, catalog)?;
    if name.is_temporary() {
        let error = Error::unsupported("temporary types are not supported");
        return Err(error.with_hint("Create the type in another schema."));
    }
    if catalog.user_type(&name).is_some() {
        return Err(Error::new(SqlState::DUPLICATE_OBJECT, format!("type \"{}\" already exists", name.table)));
    }
    let oid = user_types::new_oid(&kind, catalog.random())?;
    Ok(TypeSpec { id: catalog.next_id(super::Object::Type), name, version: 1, oid, kind })
}

pub(super) fn definition(tag: &'static str, change: Change) -> Definition {
    Definition { changes: vec![change], ..Definition::new(tag) }
}

/// Plans a CREATE TYPE … AS ENUM.
pub(super) fn create_enum(create: &ast::CreateEnum, catalog: &dyn Catalog) -> Result<Definition> {
    let spec = created(&create.name, user_types::enumeration(create.labels.iter().map(|label| &**label)), catalog)?;
    spec.check()?;
    let mut labels = FxHashSet::default();
    if spec.labels().iter().any(|label| !labels.insert(&label.label)) {
        let text = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
        return Err(Error::new(SqlState::UNIQUE_VIOLATION, text));
    }
    Ok(definition("CREATE TYPE", Change::CreateType(spec)))
}

/// Plans an ALTER TYPE that adds or renames a label.
pub(super) fn alter_enum(alter: &ast::AlterEnum, catalog: &dyn Catalog) -> Result<Definition> {
    let old = match find_type(&alter.name, catalog) {
        None if is_system_type(&alter.name) => {
            let id = builtin().type_named(&alter.name.name).unwrap_or_default();
            let text = format!("{} is not an enum", builtin().type_name(id));
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        Some(spec) if !matches!(spec.kind, UserType::Enum(_)) => {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", spec.name.table)));
        }
        found => found.ok_or_else(|| no_type(&alter.name))?,
    };
    let mut next = next_version(&old);
    let place = |label: &str| {
        old.labels().iter().position(|one| one.label == label).ok_or_else(|| {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{label}\" is not an existing enum label"))
        })
    };
    let exists = |label: &str| Error::new(SqlState::DUPLICATE_OBJECT, format!("enum label \"{label}\" already exists"));
    match &alter.action {
        AlterEnumAction::Add { label, if_not_exists, beside } => {
            if old.number(label).is_some() {
                if !if_not_exists {
                    return Err(exists(label));
                }
                let notice = Notice::new(format!("enum label \"{label}\" already exists, skipping"));
                return Ok(Definition { notices: vec![notice], ..Definition::new(ALTER_TYPE) });
            }
            let at = match beside {
                Some((other, is_behind)) => place(other)? + usize::from(*is_behind),
                None => old.labels().len(),
            };
            next.add(at, label, beside.as_ref().is_some_and(|(_, is_behind)| *is_behind))?;
        }
        AlterEnumAction::Rename { from, to } => {
            let at = place(from)?;
            if old.number(to).is_some() {
                return Err(exists(to));
            }
            // Stored expressions have labels as texts.
            if let Some(what) = label_use(from, &old, catalog) {
                let text = format!("renaming a value is not supported while {what} may name it");
                let error = Error::unsupported(text);
                return Err(error.with_hint(format!("drop {what}, rename the value, and create it again")));
            }
            if let UserType::Enum(labels) = &mut next.kind {
                labels[at].label = to.to_string();
            }
        }
    }
    next.check()?;
    Ok(definition(ALTER_TYPE, Change::AlterType(next)))
}

/// A stored expression or view that may have a label as a constant of the type.
fn label_use(label: &str, spec: &TypeSpec, catalog: &dyn Catalog) -> Option<String> {
    let has = |sql: &str| has_constant(sql, label);
    for table in catalog.tables() {
        let columns = table.columns.iter().filter(|column| !column.dropped || column.is_hidden());
        let has_type = columns.map(RowColumn::user_type).any(|oid| oid == Some(spec.oid));
        if table.texts().any(|sql| has(sql) && (has_type || user_types::is_named_in(spec.oid, sql))) {
            return Some(format!("an expression of table \"{}\"", table.name.table));
        }
    }
    for other in catalog.user_types() {
        let has_type = other.domain().is_some_and(|domain| domain.base.oid() & !1 == spec.oid);
        if other.texts().any(|sql| has(sql) && (has_type || user_types::is_named_in(spec.oid, sql))) {
            return Some(format!("domain \"{}\"", other.name.table));
        }
    }
    // A constant of a view may be compared with a column of the type.
    let view = catalog.views().into_iter().find(|view| has(&view.query));
    view.map(|view| format!("view \"{}\"", view.name.table))
}

/// Whether a constant of a text is a label, or an array that may have it.
fn has_constant(sql: &str, label: &str) -> bool {
    let mut lexer = Lexer::new(sql);
    while let Ok(token) = lexer.next() {
        if token.kind == TokenKind::End {
            break;
        }
        if !token.is_string() {
            continue;
        }
        let Ok(text) = token.string(sql) else { continue };
        let has_parts = || label.split(['"', '\\']).all(|part| text.contains(part));
        if text == label || text.trim_start().starts_with(['{', '[']) && has_parts() {
            return true;
        }
    }
    false
}

/// Plans an ALTER TYPE or ALTER DOMAIN … RENAME.
pub(super) fn rename(rename: &ast::Rename, catalog: &dyn Catalog) -> Result<Option<Definition>> {
    let is_domain = rename.kind == ObjectKind::Domain;
    let Some(name) = type_name(&rename.object) else { return Ok(None) };
    let tag = if is_domain { ALTER_DOMAIN } else { ALTER_TYPE };
    let spec = match is_domain {
        true => found_domain(name, catalog)?.0,
        false => found(name, catalog)?,
    };
    let mut next = next_version(&spec);
    match &rename.part {
        None => {
            next.name.table = rename.to.to_string();
            check_name(&next, &spec, catalog)?;
        }
        Some(RenamePart::Constraint(old)) => {
            let UserType::Domain(domain) = &mut next.kind else { return Ok(None) };
            let shown = &spec.name.table;
            let position = |name: &str| domain.checks.iter().position(|check| check.name == name);
            let Some(at) = position(old) else {
                let text = format!("constraint \"{old}\" for domain {shown} does not exist");
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
            };
            if position(&rename.to).is_some() {
                let text = format!("constraint \"{}\" for domain {shown} already exists", rename.to);
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
            }
            domain.checks[at].name = rename.to.to_string();
            sort(domain);
        }
        Some(RenamePart::Attribute(from)) => {
            return composite::rename(name, (from, &rename.to), rename.behavior, catalog).map(Some);
        }
        Some(_) => return Ok(None),
    }
    // Messages of checks have the name of the domain.
    let changes = std::iter::once(Change::AlterType(next)).chain(renewed(&spec, catalog)).collect();
    Ok(Some(Definition { changes, ..Definition::new(tag) }))
}

/// Plans an ALTER TYPE or ALTER DOMAIN … OWNER TO, which changes nothing: objects have no owners.
pub(super) fn set_owner(change: &ast::AlterOwner, catalog: &dyn Catalog) -> Result<Option<Definition>> {
    let Some(name) = type_name(&change.object) else { return Ok(None) };
    let tag = match change.kind {
        ObjectKind::Domain => found_domain(name, catalog).map(|_| ALTER_DOMAIN)?,
        _ => found(name, catalog).map(|_| ALTER_TYPE)?,
    };
    Ok(Some(Definition { notices: vec![Notice::new(alter::NO_OWNERS)], ..Definition::new(tag) }))
}

/// Plans an ALTER TYPE or ALTER DOMAIN … SET SCHEMA.
pub(super) fn set_schema(change: &ast::AlterSchema, catalog: &dyn Catalog) -> Result<Option<Definition>> {
    let Some(name) = type_name(&change.object) else { return Ok(None) };
    let (tag, spec) = match change.kind {
        ObjectKind::Domain => (ALTER_DOMAIN, found_domain(name, catalog)?.0),
        _ => (ALTER_TYPE, found(name, catalog)?),
    };
    names::check_move(&spec.name, &change.schema, catalog)?;
    let mut next = next_version(&spec);
    next.name.schema = change.schema.to_string();
    if next.name == spec.name {
        return Ok(Some(Definition::new(tag)));
    }
    check_name(&next, &spec, catalog)?;
    Ok(Some(definition(tag, Change::AlterType(next))))
}

fn check_name(next: &TypeSpec, old: &TypeSpec, catalog: &dyn Catalog) -> Result<()> {
    if catalog.user_type(&next.name).is_none() && next.name != old.name {
        return Ok(());
    }
    let text = match next.name.schema == old.name.schema {
        true => format!("type \"{}\" already exists", next.name.table),
        false => format!("type \"{}\" already exists in schema \"{}\"", next.name.table, next.name.schema),
    };
    Err(Error::new(SqlState::DUPLICATE_OBJECT, text))
}

/// New versions of the tables with columns of a domain, or of one that constrains it further: they have its constraints
/// compiled.
fn renewed(spec: &TypeSpec, catalog: &dyn Catalog) -> Vec<Change> {
    let domains = constrained(spec, catalog);
    let is_of =
        |column: &RowColumn| !column.dropped && column.domain.is_some_and(|domain| domains.contains(&(domain & !1)));
    let tables = catalog.tables().into_iter().filter(|table| table.columns.iter().any(is_of));
    let next = |table: model::RowSchemaRef| model::RowSchema { version: table.version + 1, ..(*table).clone() };
    tables.map(|table| Change::Alter { next: next(table), work: Vec::new() }).collect()
}

/// A domain and those that constrain it further.
fn constrained(spec: &TypeSpec, catalog: &dyn Catalog) -> Vec<u32> {
    let mut domains = vec![spec.oid];
    // A domain has a higher number than those that it constrains, so one pass in this order finds all.
    let mut all = catalog.user_types();
    all.sort_by_key(|one| one.id);
    for other in all {
        if other.domain().is_some_and(|domain| domains.contains(&domain.over)) {
            domains.push(other.oid);
        }
    }
    domains
}

fn sort(domain: &mut Domain) {
    domain.checks.sort_by(|one, other| one.name.cmp(&other.name));
}

/// Plans a CREATE DOMAIN.
pub(super) fn create_domain(
    create: &ast::CreateDomain,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Definition> {
    let (id, _) = named_type(&create.ty, session.facts()?)?;
    if builtin().type_row(id).is_some_and(|row| row.kind == TypeKind::Pseudo) {
        let text = format!("\"{}\" is not a valid base type for a domain", create.ty.name.name);
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    let declared = types::declared(&create.ty, "", session.facts()?)?;
    if declared.is_serial {
        return Err(no_type(&create.ty.name));
    }
    if let Some(collation) = &create.collation {
        column::check_collation(collation, declared.ty)?;
    }
    if user_types::is_composite(declared.ty.oid() & !1) {
        return Err(Error::unsupported("domains over composite types are not supported"));
    }
    let over = declared.domain.unwrap_or(0);
    if user_types::is_array(over) {
        return Err(Error::unsupported("domains over arrays of domains are not supported"));
    }
    let mut domain = Domain { base: declared.ty, over, not_null: false, default: None, checks: Vec::new() };
    let mut null: Option<bool> = None;
    let mut default = None;
    let refused =
        |what: &str| Err(Error::new(SqlState::SYNTAX_ERROR, format!("{what} constraints not possible for domains")));
    let name = create.name.name.as_str();
    for one in &create.constraints {
        match &one.kind {
            Constraint::NotNull | Constraint::Null => {
                let says = matches!(one.kind, Constraint::Null);
                if null.is_some_and(|null| null != says) {
                    let text = "conflicting NULL/NOT NULL constraints";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, text));
                }
                null = Some(says);
            }
            Constraint::Default(expr) => {
                if default.replace(expr).is_some() {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "multiple default expressions"));
                }
            }
            Constraint::Check { no_inherit: true, .. } => {
                let text = "check constraints for domains cannot be marked NO INHERIT";
                return Err(Error::new(SqlState("42P17"), text));
            }
            Constraint::Check { expr, .. } => {
                let given = one.name.as_ref().map(ast::Ident::as_str);
                let check = new_check(given, expr, name, &domain, session)?;
                domain.checks.push(check);
            }
            Constraint::Unique { .. } => return refused("unique"),
            Constraint::PrimaryKey { .. } => return refused("primary key"),
            Constraint::References(_) => return refused("foreign key"),
            Constraint::Identity { .. } | Constraint::Generated(_) => return refused("generated"),
            Constraint::Deferrable
            | Constraint::NotDeferrable
            | Constraint::InitiallyDeferred
            | Constraint::InitiallyImmediate => {
                return Err(Error::unsupported("specifying constraint deferrability not supported for domains"));
            }
        }
    }
    domain.not_null = null == Some(false);
    if let Some(expr) = default {
        domain.default = default_text(expr, name, &domain, catalog, session)?;
    }
    sort(&mut domain);
    let spec = created(&create.name, UserType::Domain(domain), catalog)?;
    spec.check()?;
    Ok(definition("CREATE DOMAIN", Change::CreateType(spec)))
}

/// A CHECK constraint of a domain.
fn new_check(
    name: Option<&str>,
    condition: &Expr,
    domain_name: &str,
    domain: &Domain,
    session: Session<'_>,
) -> Result<DomainCheck> {
    let value = RowColumn::new(binder::VALUE, domain.base);
    let table = expressions::empty_table(&model::RowSchema {
        id: model::TableId(0),
        name: model::TableName::public(domain_name),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![value],
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    })?;
    expressions::condition(condition, &table, session)?;
    let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
    let name = match name {
        Some(name) if is_taken(name) => {
            let text = format!("constraint \"{name}\" for domain \"{domain_name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
        }
        Some(name) => name.to_owned(),
        None => names::generated(domain_name, None, "check", &is_taken),
    };
    Ok(DomainCheck { name, condition: expressions::canonical(condition, session)?, is_valid: true })
}

/// The stored text of a default; `None` for NULL, unless that hides the default of another domain.
fn default_text(
    expr: &Expr,
    name: &str,
    domain: &Domain,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<String>> {
    let column = RowColumn::new(name, domain.base);
    Ok(match expressions::default(expr, &column, catalog, session)? {
        Default::Next(_) => return Err(with_sequence()),
        Default::Value(Lowered::Value(Value::Plain(model::Datum::Null))) if domain.over == 0 => None,
        Default::Value(_) if expressions::calls_sequence(expr) => return Err(with_sequence()),
        Default::Value(_) => Some(expressions::canonical_default(expr, catalog, session)?),
    })
}

fn with_sequence() -> Error {
    let error = Error::unsupported("a default of a domain with a sequence is not supported");
    error.with_hint("Give the columns of the domain this default.")
}

/// Plans an ALTER DOMAIN. Rows with values of the domain are checked.
pub(super) fn alter_domain(
    alter: &ast::AlterDomain,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Definition> {
    let (spec, mut domain) = found_domain(&alter.name, catalog)?;
    let name = &spec.name.table;
    let no_constraint = |constraint: &str| {
        let text = format!("constraint \"{constraint}\" of domain \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, text)
    };
    let mut test = None;
    match &alter.action {
        Action::SetDefault(expr) => domain.default = default_text(expr, name, &domain, catalog, session)?,
        Action::DropDefault => domain.default = None,
        Action::SetNotNull if !domain.not_null => {
            domain.not_null = true;
            test = Some(Test::NotNull);
        }
        Action::SetNotNull => {}
        Action::DropNotNull => domain.not_null = false,
        Action::AddConstraint(constraint) => {
            let expr = checked_constraint(&constraint.kind, constraint.attributes)?;
            let given = constraint.name.as_ref().map(ast::Ident::as_str);
            let mut check = new_check(given, expr, name, &domain, session)?;
            check.is_valid = !constraint.attributes.not_valid;
            if check.is_valid {
                test = Some(Test::Check(check.clone()));
            }
            domain.checks.push(check);
            sort(&mut domain);
        }
        Action::DropConstraint { name: constraint, if_exists, .. } => {
            let before = domain.checks.len();
            domain.checks.retain(|check| check.name != constraint.as_str());
            if domain.checks.len() == before {
                let error = no_constraint(constraint);
                if !if_exists {
                    return Err(error);
                }
                let notice = Notice::new(format!("{}, skipping", error.message()));
                return Ok(Definition { notices: vec![notice], ..Definition::new(ALTER_DOMAIN) });
            }
        }
        Action::ValidateConstraint(constraint) => {
            let check = domain.checks.iter_mut().find(|check| check.name == constraint.as_str());
            let check = check.ok_or_else(|| no_constraint(constraint))?;
            if !check.is_valid {
                test = Some(Test::Check(check.clone()));
            }
            check.is_valid = true;
        }
    }
    let next = TypeSpec { kind: UserType::Domain(domain), ..next_version(&spec) };
    let mut changes = vec![Change::AlterType(next)];
    changes.extend(tested(&spec, test.as_ref(), catalog, session)?);
    Ok(Definition { changes, ..Definition::new(ALTER_DOMAIN) })
}

/// The condition of a constraint that ALTER DOMAIN adds.
fn checked_constraint(kind: &TableConstraintKind, attributes: ConstraintAttributes) -> Result<&Expr> {
    if attributes.deferrable.is_some() || attributes.initially_deferred.is_some() {
        return Err(Error::unsupported("specifying constraint deferrability not supported for domains"));
    }
    let refused =
        |what: &str| Err(Error::new(SqlState::SYNTAX_ERROR, format!("{what} constraints not possible for domains")));
    match kind {
        TableConstraintKind::Check(_) if attributes.no_inherit => {
            let text = "check constraints for domains cannot be marked NO INHERIT";
            Err(Error::new(SqlState("42P17"), text))
        }
        TableConstraintKind::Check(expr) => Ok(expr),
        TableConstraintKind::Unique { .. } | TableConstraintKind::UniqueUsingIndex(_) => refused("unique"),
        TableConstraintKind::PrimaryKey { .. } | TableConstraintKind::PrimaryKeyUsingIndex(_) => refused("primary key"),
        TableConstraintKind::Exclude(_) => refused("exclusion"),
        TableConstraintKind::ForeignKey { .. } => refused("foreign key"),
    }
}

/// A new constraint of a domain.
enum Test {
    NotNull,
    Check(DomainCheck),
}

/// New versions of the tables with columns of a domain, whose rows are checked by a new constraint.
fn tested(spec: &TypeSpec, test: Option<&Test>, catalog: &dyn Catalog, session: Session<'_>) -> Result<Vec<Change>> {
    let Some(test) = test else { return Ok(renewed(spec, catalog)) };
    let domains = constrained(spec, catalog);
    let mut changes = Vec::new();
    for table in catalog.tables() {
        let is_of = |column: &RowColumn| column.domain.is_some_and(|domain| domains.contains(&(domain & !1)));
        let columns: Vec<usize> = table.shown().filter(|(_, column)| is_of(column)).map(|(at, _)| at).collect();
        if columns.is_empty() {
            continue;
        }
        let draft = Draft::of(&table, catalog, session);
        let described = draft.table()?;
        let mut work = Vec::new();
        for at in columns {
            let (column, shown) = (&table.columns[at].name, &table.name.table);
            if table.columns[at].domain.is_some_and(user_types::is_array) {
                let text =
                    format!("cannot alter type \"{}\" because column \"{shown}.{column}\" uses it", spec.name.table);
                return Err(Error::unsupported(text));
            }
            work.push(match test {
                Test::NotNull => {
                    let text = format!("column \"{column}\" of table \"{shown}\" contains null values");
                    Work::DomainNull(at, Error::new(SqlState::NOT_NULL_VIOLATION, text))
                }
                Test::Check(check) => {
                    let text = format!(
                        "column \"{column}\" of table \"{shown}\" contains values that violate the new constraint"
                    );
                    let condition = domain_check(&check.condition, column)?;
                    let condition = Condition::of(&check.name, &condition, &described, session)?;
                    Work::Domain(condition, Error::new(SqlState::CHECK_VIOLATION, text))
                }
            });
        }
        changes.push(Change::Alter { next: draft.next, work });
    }
    Ok(changes)
}
