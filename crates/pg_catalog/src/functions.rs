//! Catalog and session functions of PostgreSQL that ask the statement's facts; all others are those of crate `scalar`. They are
//! defined in one table and evaluated row by row: none is performance-critical.

use model::{Datum, Error, Result, SqlState, TEMPORARY_SCHEMA};

use crate::cells::Cell;
use crate::classes::{Class, Constraint};
use crate::facts::{Signal, StatementFacts};
use crate::oids::{self, Oid, Part};
use crate::{SERVER_VERSION, comments, names, relations, routines, row_tables, triggers, user_types, views};

/// The definition of the function with a name and a number of arguments.
pub(crate) fn spec_of(name: &str, arguments: usize) -> Option<&'static Spec> {
    let spec = SPECS.iter().find(|spec| spec.names.split(' ').any(|one| one == name))?;
    (spec.count.0..=spec.count.1).contains(&arguments).then_some(spec)
}

/// Definition of a function, or of several with the same result.
pub(crate) struct Spec {
    names: &'static str,
    /// Minimum and maximum number of arguments.
    count: (usize, usize),
    eval: fn(&Call<'_>) -> Result<Cell>,
}

impl Spec {
    /// Calls the function, for a statement.
    pub(crate) fn call(&self, facts: &StatementFacts, args: &[Datum<'_>]) -> Result<Cell> {
        (self.eval)(&Call { facts, args })
    }
}

/// Arguments of one invocation.
struct Call<'a> {
    facts: &'a StatementFacts,
    args: &'a [Datum<'a>],
}

impl Call<'_> {
    fn text(&self, at: usize) -> Option<&str> {
        match self.args.get(at)? {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    fn int(&self, at: usize) -> Option<i64> {
        match *self.args.get(at)? {
            Datum::Int2(value) => Some(value.into()),
            Datum::Int4(value) => Some(value.into()),
            Datum::Int8(value) => Some(value),
            Datum::Oid(value) => Some(value.into()),
            _ => None,
        }
    }

    /// OID, given as a number or in digits.
    fn oid(&self, at: usize) -> Option<Oid> {
        let number = self.int(at).or_else(|| self.text(at)?.trim().parse().ok())?;
        u32::try_from(number).ok()
    }

    /// OID of a relation, given by OID or by name.
    fn class(&self, at: usize) -> Option<Oid> {
        self.oid(at).or_else(|| names::class_oid(self.facts, self.text(at)?))
    }

    /// Whether the argument is true: not false, NULL or omitted.
    fn truth(&self, at: usize) -> bool {
        self.args.get(at) == Some(&Datum::Bool(true))
    }

    /// User-created relation in the first argument.
    fn found(&self, at: usize) -> Option<Class<'_>> {
        Class::by_oid(&self.facts.catalog, self.class(at)?)
    }
}

type Evaluated = Result<Cell>;

/// A function's result.
fn result(value: impl Into<Cell>) -> Evaluated {
    Ok(value.into())
}

/// Signals the session whose PID is in the first argument; false if there is none.
fn signal(call: &Call<'_>, signal: Signal) -> bool {
    let pid = call.int(0).and_then(|pid| i32::try_from(pid).ok());
    pid.is_some_and(|pid| call.facts.server.signal(pid, signal))
}

const fn spec(names: &'static str, count: (usize, usize), eval: fn(&Call<'_>) -> Evaluated) -> Spec {
    Spec { names, count, eval }
}

const SPECS: &[Spec] = &[
    // Session.
    spec("version", (0, 0), |_| result(format!("PostgreSQL {SERVER_VERSION}"))),
    spec("current_database current_catalog", (0, 0), |call| result(call.facts.database.as_str())),
    spec("current_user session_user current_role user getpgusername", (0, 0), |call| result(call.facts.user.as_str())),
    spec("current_schema", (0, 0), |call| result(existing(call, &call.facts.creation_path).into_iter().next())),
    spec("current_schemas", (1, 1), current_schemas),
    spec("pg_backend_pid", (0, 0), |call| result(call.facts.backend_pid)),
    spec("pg_trigger_depth", (0, 0), |call| result(call.facts.trigger_depth)),
    spec("current_query", (0, 0), |call| {
        let sessions = call.facts.server.activity();
        result(sessions.into_iter().find(|session| session.pid == call.facts.backend_pid).map(|session| session.query))
    }),
    spec("pg_cancel_backend", (1, 1), |call| result(signal(call, Signal::Cancel))),
    spec("pg_terminate_backend", (1, 2), |call| result(signal(call, Signal::Terminate))),
    spec("current_setting", (1, 2), current_setting),
    spec("set_config", (3, 3), set_config),
    spec("pg_notify", (2, 2), |call| {
        call.facts.server.notify(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default())?;
        result("")
    }),
    spec("pg_notification_queue_usage", (0, 0), |call| Ok(Cell::Float(call.facts.server.notifications_used()))),
    spec("pg_client_encoding getdatabaseencoding", (0, 0), |_| result("UTF8")),
    spec("pg_is_in_recovery pg_is_wal_replay_paused", (0, 0), |_| result(false)),
    spec("txid_current pg_current_xact_id", (0, 0), |call| result(call.facts.server.lsn().cast_signed())),
    spec("txid_current_if_assigned", (0, 0), |_| Ok(Cell::Null)),
    spec("inet_server_addr inet_client_addr", (0, 0), |_| Ok(Cell::Null)),
    spec("inet_server_port inet_client_port", (0, 0), |_| Ok(Cell::Null)),
    spec("pg_postmaster_start_time pg_conf_load_time", (0, 0), |call| result(call.facts.server.started_ns())),
    spec("pg_my_temp_schema", (0, 0), |call| result(call.facts.temporary.as_deref().map_or(0, oids::of_schema))),
    spec("pg_is_other_temp_schema", (1, 1), |call| {
        let is_it =
            |schema: &&str| schema.starts_with(TEMPORARY_SCHEMA) && Some(oids::of_schema(schema)) == call.oid(0);
        let schema = call.facts.catalog.schemas().find(is_it);
        result(schema.is_some_and(|schema| Some(schema) != call.facts.temporary.as_deref()))
    }),
    // Names and OIDs of objects.
    spec("pg_get_userbyid", (1, 1), |call| match call.oid(0) {
        Some(oids::ROLE) => result(call.facts.user.as_str()),
        other => result(format!("unknown (OID={})", other.unwrap_or(0))),
    }),
    spec("to_regclass", (1, 1), |call| result(call.class(0))),
    spec("to_regnamespace", (1, 1), |call| result(call.text(0).and_then(|name| schema_oid(call.facts, name)))),
    spec("to_regproc", (1, 1), |call| result(call.text(0).and_then(names::procedure).map(|found| found.oid))),
    spec("to_regrole", (1, 1), |call| result(call.text(0).and_then(|name| role_oid(call.facts, name)))),
    // Definitions.
    spec("pg_get_expr", (2, 3), |call| {
        let text = |sql| if call.truth(2) { compiled::deparse::pretty(sql) } else { str::to_owned(sql) };
        result(call.text(0).map(|sql| names::expression(call.facts, &text(sql))))
    }),
    spec("pg_get_partkeydef", (1, 1), |call| {
        let Some(Class::Rows(table)) = call.found(0) else { return Ok(Cell::Null) };
        let key = table.lineage.key.as_ref();
        result(key.map(|key| names::expression(call.facts, &compiled::partition_key_text(table, key, false))))
    }),
    spec("pg_partition_root", (1, 1), |call| {
        let ancestors = call.class(0).map(|oid| row_tables::partition_ancestors(call.facts, oid));
        result(ancestors.and_then(|ancestors| ancestors.last().copied()))
    }),
    spec("pg_get_viewdef", (1, 2), |call| {
        let view = match call.found(0) {
            Some(Class::View(view)) => Some(view),
            Some(Class::Rows(rows)) => call.facts.catalog.materialized_view(rows.id),
            _ => None,
        };
        result(view.and_then(|view| views::definition(call.facts, view)))
    }),
    spec("pg_relation_is_updatable", (2, 2), |call| {
        // INSERT, UPDATE and DELETE.
        let all = 1_i64 << 3 | 1 << 2 | 1 << 4;
        result(match call.found(0) {
            Some(Class::Rows(rows)) if call.facts.catalog.materialized_view(rows.id).is_none() => all,
            Some(Class::View(view)) if call.facts.catalog.is_updatable(view) => all,
            Some(Class::Columns(_)) => all,
            _ => 0,
        })
    }),
    spec("pg_column_is_updatable", (3, 3), |call| {
        let at = call.int(1).and_then(|number| usize::try_from(number - 1).ok());
        result(match (call.found(0), at) {
            (Some(Class::View(view)), Some(at)) => call.facts.catalog.is_updatable_column(view, at),
            (Some(Class::Rows(rows)), Some(_)) => call.facts.catalog.materialized_view(rows.id).is_none(),
            (Some(Class::Columns(_)), Some(_)) => true,
            _ => false,
        })
    }),
    spec("pg_get_indexdef", (1, 3), |call| result(index_definition(call))),
    spec("pg_get_constraintdef", (1, 2), |call| result(constraint_definition(call))),
    spec("pg_get_triggerdef", (1, 2), |call| {
        result(call.oid(0).and_then(|oid| triggers::definition(call.facts, oid, call.truth(1))))
    }),
    spec("pg_get_serial_sequence", (2, 2), serial_sequence),
    spec("pg_sequence_last_value", (1, 1), |call| {
        let Some(Class::Sequence(sequence)) = call.found(0) else { return Ok(Cell::Null) };
        result(call.facts.server.last_value(sequence.id))
    }),
    spec("pg_get_function_result", (1, 1), |call| {
        if let Some(routine) = call.oid(0).and_then(|oid| routines::by_oid(call.facts, oid)) {
            return result(routines::result(call.facts, routine));
        }
        result(procedure(call).map(|found| names::type_name(call.facts, found.result)))
    }),
    spec("pg_get_function_arguments", (1, 1), |call| {
        if let Some(routine) = call.oid(0).and_then(|oid| routines::by_oid(call.facts, oid)) {
            return result(routines::arguments(call.facts, routine, false));
        }
        result(procedure(call).map(|found| found.argument_types(call.facts)))
    }),
    spec("pg_get_functiondef", (1, 1), |call| {
        let routine = call.oid(0).and_then(|oid| routines::by_oid(call.facts, oid));
        result(routine.map(|routine| routines::definition(call.facts, routine)))
    }),
    spec("pg_get_function_sqlbody", (1, 1), |call| {
        let routine = call.oid(0).and_then(|oid| routines::by_oid(call.facts, oid));
        result(routine.filter(|one| one.is_unquoted).map(routines::unquoted_body))
    }),
    spec("pg_get_function_identity_arguments", (1, 1), |call| {
        if let Some(routine) = call.oid(0).and_then(|oid| routines::by_oid(call.facts, oid)) {
            return result(routines::arguments(call.facts, routine, true));
        }
        result(procedure(call).map(|found| found.argument_types(call.facts)))
    }),
    spec(ALWAYS_NULL, (1, 3), |_| Ok(Cell::Null)),
    // Visibility and privileges: the only role has all of them.
    spec("pg_table_is_visible", (1, 1), |call| result(is_visible(call))),
    spec(VISIBLE, (1, 1), |call| result(type_is_visible(call))),
    spec("pg_function_is_visible", (1, 1), |call| {
        let is_visible =
            |oid| routines::by_oid(call.facts, oid).is_none_or(|one| routines::is_visible(call.facts, one));
        result(is_visible(call.oid(0).unwrap_or(0)))
    }),
    spec(PRIVILEGES, (2, 4), |_| result(true)),
    spec("row_security_active pg_relation_is_publishable", (1, 1), |_| result(false)),
    // Sizes.
    spec("pg_relation_size pg_table_size", (1, 2), |call| result(size(call, false))),
    spec("pg_total_relation_size", (1, 1), |call| result(size(call, true))),
    spec("pg_indexes_size", (1, 1), |call| {
        result(size(call, true).zip(size(call, false)).map(|(whole, table)| whole - table))
    }),
    spec("pg_tablespace_size", (1, 1), |_| result(0_i32)),
    spec("pg_database_size", (1, 1), |call| result(call.facts.server.database_bytes())),
    spec("pg_stat_get_numscans pg_stat_get_tuples_inserted pg_stat_get_live_tuples", (1, 1), |_| result(0_i32)),
    spec("age", (1, 1), |_| result(0_i32)),
    // Comments.
    spec("obj_description", (1, 2), |call| result(description(call, call.text(1), None))),
    spec("shobj_description", (2, 2), |call| result(description(call, call.text(1), None))),
    spec("col_description", (2, 2), |call| result(description(call, Some("pg_class"), call.int(1)))),
    // Encodings.
    spec("pg_encoding_to_char", (1, 1), |call| result(if call.int(0) == Some(6) { "UTF8" } else { "" })),
    spec("pg_char_to_encoding", (1, 1), |call| {
        let known =
            call.text(0).is_some_and(|name| name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8"));
        result(if known { 6 } else { -1 })
    }),
];

/// Functions about features that Millrace lacks, whose result is NULL.
const ALWAYS_NULL: &str = "pg_get_ruledef \
    pg_get_statisticsobjdef \
    pg_get_statisticsobjdef_columns pg_tablespace_location pg_get_partition_constraintdef";
const VISIBLE: &str = "pg_type_is_visible pg_operator_is_visible pg_opclass_is_visible pg_opfamily_is_visible \
    pg_collation_is_visible pg_conversion_is_visible pg_statistics_obj_is_visible pg_ts_config_is_visible pg_ts_dict_is_visible \
    pg_ts_parser_is_visible pg_ts_template_is_visible";
const PRIVILEGES: &str = "has_table_privilege has_any_column_privilege has_column_privilege has_database_privilege has_schema_privilege \
    has_function_privilege has_sequence_privilege has_language_privilege has_tablespace_privilege has_type_privilege \
    has_server_privilege has_foreign_data_wrapper_privilege pg_has_role";

/// Bytes of a relation, `None` for the number of none; `whole` includes its indexes.
fn size(call: &Call<'_>, whole: bool) -> Option<i64> {
    let (server, found, oid) = (&call.facts.server, call.found(0), call.class(0)?);
    if found.is_none() && !relations::RELATIONS.iter().any(|relation| relation.oid == oid) {
        return None;
    }
    let bytes = match found {
        Some(Class::Columns(table)) => server.table_bytes(table.id),
        Some(Class::Rows(table)) => {
            server.row_table(table.id).map(|size| if whole { size.bytes } else { size.bytes - size.index_bytes() })
        }
        Some(Class::Index(table, index)) => server.row_table(table.id).and_then(|size| size.index(index.id)),
        Some(Class::Key(_) | Class::Sequence(_) | Class::View(_) | Class::Composite(_)) | None => None,
    };
    Some(bytes.unwrap_or(0))
}

fn index_definition(call: &Call<'_>) -> Option<String> {
    let whole = call.int(1).unwrap_or(0) == 0;
    let at = || usize::try_from(call.int(1)? - 1).ok();
    match call.found(0)? {
        Class::Key(table) if whole => Some(names::index_definition(table)),
        Class::Key(table) => names::index_column(table, call.int(1)?),
        Class::Index(table, index) if whole => {
            Some(row_tables::index_definition(call.facts, table, index, call.truth(2)))
        }
        Class::Index(table, index) => {
            let column = *index.columns.iter().chain(&index.include).nth(at()?)?;
            Some(names::expression(call.facts, &compiled::deparse::key(table, column, call.truth(2))))
        }
        _ => None,
    }
}

/// The comment on an object, or on a column of it.
fn description(call: &Call<'_>, class: Option<&str>, column: Option<i64>) -> Option<String> {
    let column = u32::try_from(column.unwrap_or(0)).ok()?;
    comments::description(call.facts, call.oid(0)?, class, column)
}

fn constraint_definition(call: &Call<'_>) -> Option<String> {
    let oid = call.oid(0)?;
    if let Some((table, constraint)) = Constraint::by_oid(&call.facts.catalog, oid) {
        return Some(row_tables::constraint_definition(call.facts, table, constraint, call.truth(1)));
    }
    if let Some(definition) = user_types::constraint_definition(call.facts, oid, call.truth(1)) {
        return Some(definition);
    }
    let (id, part) = oids::table_of(oid)?;
    let table = call.facts.catalog.table_by_id(id).filter(|_| part == Part::Constraint)?;
    Some(names::constraint_definition(table))
}

/// Quoted name of the sequence that a column owns.
fn serial_sequence(call: &Call<'_>) -> Evaluated {
    let (relation, column) = (call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default());
    if names::class_oid(call.facts, relation).is_none() {
        return Err(undefined(SqlState::UNDEFINED_TABLE, "relation", relation));
    }
    let Some(Class::Rows(table)) = call.found(0) else { return Ok(Cell::Null) };
    let Some(at) = table.column(column) else {
        let text = format!("column \"{column}\" of relation \"{}\" does not exist", table.name.table);
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
    };
    let owner = model::SequenceOwner { table: table.id, column: at };
    let sequence = call.facts.catalog.sequences().find(|sequence| sequence.owner == Some(owner));
    result(sequence.map(|sequence| {
        format!("{}.{}", names::quote_ident(&sequence.name.schema), names::quote_ident(&sequence.name.table))
    }))
}

/// Those of a list of schemas that exist.
fn existing(call: &Call<'_>, path: &[String]) -> Vec<String> {
    path.iter().filter(|schema| call.facts.catalog.has_schema(schema)).cloned().collect()
}

fn current_schemas(call: &Call<'_>) -> Evaluated {
    if !call.truth(0) {
        return Ok(Cell::Texts(existing(call, &call.facts.creation_path)));
    }
    let mut schemas = existing(call, &call.facts.search_path);
    let is_first = !schemas.is_empty() && schemas.first() == call.facts.temporary.as_ref();
    schemas.insert(usize::from(is_first), "pg_catalog".to_owned());
    Ok(Cell::Texts(schemas))
}

fn current_setting(call: &Call<'_>) -> Evaluated {
    let name = call.text(0).unwrap_or_default();
    match call.facts.server.setting(name) {
        None if !call.truth(1) => {
            Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
        }
        found => result(found),
    }
}

fn set_config(call: &Call<'_>) -> Evaluated {
    let local = call.truth(2);
    result(call.facts.server.set(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default(), local)?)
}

pub(crate) fn schema_oid(facts: &StatementFacts, name: &str) -> Option<Oid> {
    let name = names::split_name(name)?.pop()?;
    names::schemas(facts).contains(&name).then(|| oids::of_schema(&name))
}

pub(crate) fn role_oid(facts: &StatementFacts, name: &str) -> Option<Oid> {
    (names::split_name(name)?.pop()? == facts.user).then_some(oids::ROLE)
}

fn procedure(call: &Call<'_>) -> Option<&'static names::Procedure> {
    let oid = call.oid(0)?;
    names::PROCEDURES.iter().find(|procedure| procedure.oid == oid)
}

/// The error that an object does not exist.
pub(crate) fn undefined(state: SqlState, kind: &str, name: &str) -> Error {
    Error::new(state, format!("{kind} \"{name}\" does not exist"))
}

fn is_visible(call: &Call<'_>) -> bool {
    let Some(class) = call.class(0) else { return false };
    if let Some(relation) = relations::RELATIONS.iter().find(|relation| relation.oid == class) {
        return relation.schema == "pg_catalog";
    }
    call.found(0).is_some_and(|class| names::is_visible(call.facts, class))
}

/// Whether the schema of a user type, or of a table's row type, is in the search path. All other objects are visible.
fn type_is_visible(call: &Call<'_>) -> bool {
    if let Some(spec) = call.oid(0).and_then(|oid| user_types::by_oid(call.facts, oid)) {
        return call.facts.search_path.contains(&spec.name.schema);
    }
    let Some((id, _)) = call.oid(0).and_then(oids::table_of) else { return true };
    let found = Class::by_oid(&call.facts.catalog, oids::of_table(id, Part::Table));
    found.is_some_and(|class| call.facts.search_path.iter().any(|schema| schema == class.schema()))
}
