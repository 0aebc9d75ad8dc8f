//! CREATE TABLE.

use model::{Error, Result, SqlState};
use parser::ast::{self, Persistence, RelOption, TableElement, TableShape};
use parser::print::quoted_name;
use rustc_hash::FxHashSet;

use super::draft::Draft;
use super::{Catalog, Definition, Notice, inheritance, is_taken, names, partition};
use crate::statement::Session;

const TAG: &str = "CREATE TABLE";

/// Storage options of PostgreSQL, MogDB and openGauss, ignored with a notice.
const IGNORED: [&str; 11] = [
    "fillfactor",
    "toast_tuple_target",
    "parallel_workers",
    "log_autovacuum_min_duration",
    "user_catalog_table",
    "compression",
    "storage_type",
    "segment",
    "init_td",
    "hasuids",
    "version",
];
/// Name of the foreign server of MOT and MogDB.
const SERVER: &str = "mot_server";
/// Prefixes of further ignored options.
const IGNORED_FAMILIES: [&str; 3] = ["autovacuum_", "vacuum_", "toast."];

/// Plans a CREATE TABLE; `None` for a table of the other store.
pub(super) fn create(
    create: &ast::CreateTable,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    if is_of_other_store(&create.options) {
        return Ok(None);
    }
    let mut notices = Vec::from_iter((create.persistence == Persistence::Unlogged).then(unlogged));
    refuse_kinds(create)?;
    notices.extend(foreign(create)?);
    let name = names::new_relation(&create.name, create.persistence, catalog)?;
    if create.on_commit.is_some() && !name.is_temporary() {
        let text = "ON COMMIT can only be used on temporary tables";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    if is_taken(catalog, &name) {
        if !create.if_not_exists {
            return Err(super::exists_already(&name.table));
        }
        notices.push(Notice::new(format!("relation \"{}\" already exists, skipping", name.table)));
        return Ok(Some(Definition { notices, ..Definition::new(TAG) }));
    }
    notices.extend(with_options(&create.options)?);
    let (mut parents, mut bound) = (inheritance::parents(&create.inherits, catalog)?, None);
    if let TableShape::PartitionOf(parent, written) = &create.shape {
        let parent = partition::partitioned(parent, catalog)?;
        bound = Some(partition::bound(written, &parent, session)?);
        parents.push(parent);
    }
    for parent in &parents {
        inheritance::check_lifetimes(&name, &parent.name, bound.is_some().then_some("create"))?;
    }
    let mut draft = Draft::new(name, catalog, session);
    draft.notices = notices;
    draft.inherit(&parents)?;
    let (mut new_constraints, mut named) = (Vec::new(), FxHashSet::default());
    for element in &create.elements {
        match element {
            TableElement::Column(column) if bound.is_some() => {
                if !named.insert(&column.name) {
                    let text = format!("column \"{}\" specified more than once", column.name);
                    return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
                }
                draft.partition_column(column, &mut new_constraints)?;
            }
            TableElement::Column(column) => draft.add_column(column, &mut new_constraints)?,
            TableElement::Constraint(constraint) => new_constraints.push(draft.new_constraint(constraint)?),
            TableElement::Like(_) => return Err(unsupported("LIKE")),
        }
    }
    draft.notices.extend(create.tablespace.as_deref().map(tablespace));
    draft.check_defaults()?;
    if let Some(by) = &create.partition_by {
        draft.partition_by(by)?;
    }
    draft.add_all(new_constraints)?;
    match (bound, parents.as_slice()) {
        (Some(bound), [parent]) => draft.become_partition(parent, bound)?,
        _ => {
            let id = draft.next.id;
            for parent in &parents {
                draft.other(parent).lineage.children.push(id);
            }
        }
    }
    draft.finish(TAG).map(Some)
}

fn is_of_other_store(options: &[RelOption]) -> bool {
    options.iter().any(|option| option.full_name() == "store" && text(option).as_deref() != Some("rows"))
}

/// Value of an option, in lower case.
fn text(option: &RelOption) -> Option<String> {
    option.value.as_ref().map(|value| value.text().to_ascii_lowercase())
}

/// Evaluates the WITH options; returns notices about ignored ones.
fn with_options(options: &[RelOption]) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    for option in options {
        let (name, value) = (option.full_name(), text(option));
        match (&*name, value.as_deref()) {
            ("store", _) | ("oids", Some("false" | "off" | "0")) | ("orientation", Some("row")) => {}
            ("oids", _) => return Err(Error::unsupported("tables declared WITH OIDS are not supported")),
            ("orientation", _) => {
                return Err(Error::unsupported(format!(
                    "orientation = {} is not supported",
                    value.unwrap_or_default()
                ))
                .with_hint("WITH (store = 'columns') creates a columns table"));
            }
            _ => notices.push(ignored_option(&name)?),
        }
    }
    Ok(notices)
}

/// A notice about an option that is ignored.
///
/// # Errors
/// 22023 for another one.
pub(super) fn ignored_option(name: &str) -> Result<Notice> {
    if !IGNORED.contains(&name) && !IGNORED_FAMILIES.iter().any(|family| name.starts_with(family)) {
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\"")));
    }
    Ok(Notice::new(format!("parameter \"{name}\" is ignored: rows tables are in memory and need no vacuum")))
}

/// A notice about TABLESPACE.
pub(super) fn tablespace(name: &str) -> Notice {
    Notice::new(format!("tablespace {} is ignored: rows tables are in memory", quoted_name(name)))
}

/// A notice about UNLOGGED.
pub(super) fn unlogged() -> Notice {
    Notice::new("UNLOGGED is ignored: every table is logged")
}

/// SERVER and OPTIONS of CREATE FOREIGN TABLE.
fn foreign(create: &ast::CreateTable) -> Result<Option<Notice>> {
    match &create.foreign {
        None => Ok(None),
        Some(foreign) if foreign.server.eq_ignore_ascii_case(SERVER) => {
            let text = "a foreign table of mot_server is a rows table here: in memory and durable";
            Ok(Some(Notice::new(text)))
        }
        Some(foreign) => {
            let text = format!("server \"{}\" does not exist", foreign.server);
            let hint = format!("the only foreign server is {SERVER}");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, text).with_hint(hint))
        }
    }
}

fn refuse_kinds(create: &ast::CreateTable) -> Result<()> {
    if !create.inherits.is_empty() && create.partition_by.is_some() {
        let text = "cannot create partitioned table as inheritance child";
        return Err(Error::new(SqlState("42P17"), text));
    }
    if matches!(create.shape, TableShape::Of(_)) {
        return Err(unsupported("OF"));
    }
    match create.access_method.as_deref() {
        None | Some("heap") => Ok(()),
        Some(method) => {
            let text = format!("access method \"{method}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, text))
        }
    }
}

/// Error for a feature that `rows` tables lack.
pub(super) fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("{what} is not supported on rows tables"))
}
