//! Catalog and session functions of PostgreSQL. They are defined in one table and evaluated row by row: none is
//! performance-critical.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use model::{Error, SqlState};
use pg::types::{Type, oid};

use super::cells::field;
use super::classes::{Class, Constraint};
use super::oids::{self, Oid, Part};
use super::{formulas, names, row_tables};
use crate::functions::{Signal, StatementFacts, external};

/// Looks up a function by name (lower case, without schema) and binds it to the statement.
pub(crate) fn function(name: &str, facts: impl FnOnce() -> Arc<StatementFacts>) -> Option<Arc<ScalarUDF>> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Spec>> =
        LazyLock::new(|| SPECS.iter().flat_map(|spec| spec.names.split(' ').map(move |name| (name, spec))).collect());
    let (name, spec) = BY_NAME.get_key_value(name)?;
    Some(Arc::new(ScalarUDF::new_from_impl(CatalogFunction::new(name, spec, &facts()))))
}

/// The definition of the function with a name and a number of arguments, for bound queries, which have their own
/// functions of arrays and of names of types.
pub(crate) fn spec_of(name: &str, arguments: usize) -> Option<&'static Spec> {
    let spec = SPECS.iter().find(|spec| spec.names.split(' ').any(|one| one == name))?;
    let is_plain = matches!(spec.result, Gives::Type(_)) && !spec.arguments.starts_with('a') && spec.names != ADVISORY;
    let is_io = name.starts_with("reg") || name.ends_with("in") || name.ends_with("out");
    (is_plain && !is_io && (spec.count.0..=spec.count.1).contains(&arguments)).then_some(spec)
}

/// Definition of a function, or of several with the same result.
pub(crate) struct Spec {
    names: &'static str,
    /// Minimum and maximum number of arguments.
    count: (usize, usize),
    /// Argument types, one letter each; the last one applies to all that follow: `o` oid or name, `i` integer, `t`
    /// text, `b` boolean, `a` any.
    arguments: &'static str,
    result: Gives,
    /// Whether a NULL argument makes the result NULL.
    strict: bool,
    volatile: bool,
    eval: fn(&Call<'_>) -> model::Result<ScalarValue>,
}

impl Spec {
    /// Calls the function, for a statement.
    pub(crate) fn call(&self, facts: &StatementFacts, args: &[ScalarValue]) -> Evaluated {
        (self.eval)(&Call { facts, args })
    }
}

/// Result type.
#[derive(Clone, Copy)]
enum Gives {
    /// OID in `pg_type`.
    Type(Oid),
    /// Integers, one for each element of the first argument.
    Subscripts,
    /// Records `(x, n)`, one for each element of the first argument.
    Expanded,
    /// Type of the first argument.
    Same,
}

/// Arguments of one invocation.
struct Call<'a> {
    facts: &'a StatementFacts,
    args: &'a [ScalarValue],
}

impl Call<'_> {
    fn text(&self, at: usize) -> Option<&str> {
        match self.args.get(at)? {
            ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text.as_deref(),
            _ => None,
        }
    }

    fn int(&self, at: usize) -> Option<i64> {
        match self.args.get(at)? {
            ScalarValue::Int64(value) => *value,
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

    fn truth(&self, at: usize) -> bool {
        self.args.get(at) == Some(&ScalarValue::Boolean(Some(true)))
    }

    /// User-created relation in the first argument.
    fn found(&self, at: usize) -> Option<Class<'_>> {
        Class::by_oid(&self.facts.catalog, self.class(at)?)
    }

    fn list(&self) -> Option<ArrayRef> {
        match self.args.first()? {
            ScalarValue::List(list) if list.is_valid(0) => Some(list.value(0)),
            _ => None,
        }
    }
}

type Evaluated = model::Result<ScalarValue>;

fn text(value: impl Into<String>) -> Evaluated {
    Ok(ScalarValue::Utf8(Some(value.into())))
}

fn maybe_text(value: Option<String>) -> Evaluated {
    Ok(ScalarValue::Utf8(value))
}

fn boolean(value: bool) -> Evaluated {
    Ok(ScalarValue::Boolean(Some(value)))
}

fn bigint(value: i64) -> Evaluated {
    Ok(ScalarValue::Int64(Some(value)))
}

fn number(value: Option<Oid>) -> Evaluated {
    Ok(ScalarValue::UInt32(value))
}

fn texts(values: &[String]) -> Evaluated {
    let values: Vec<ScalarValue> = values.iter().map(|value| ScalarValue::Utf8(Some(value.clone()))).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Utf8)))
}

/// Signals the session whose PID is in the first argument; false if there is none.
fn signal(call: &Call<'_>, signal: Signal) -> bool {
    let pid = call.int(0).and_then(|pid| i32::try_from(pid).ok());
    pid.is_some_and(|pid| call.facts.server.signal(pid, signal))
}

const TEXT: Gives = Gives::Type(oid::TEXT);
const NAME: Gives = Gives::Type(oid::NAME);
const BOOL: Gives = Gives::Type(oid::BOOL);
const INT4: Gives = Gives::Type(oid::INT4);
const INT8: Gives = Gives::Type(oid::INT8);
const OID: Gives = Gives::Type(oid::OID);
const JSON: Gives = Gives::Type(oid::JSON);
const NAMES: Gives = Gives::Type(1003);
const TIME: Gives = Gives::Type(oid::TIMESTAMPTZ);

/// A stable and strict function, the usual case.
const fn spec(
    names: &'static str,
    count: (usize, usize),
    arguments: &'static str,
    result: Gives,
    eval: fn(&Call<'_>) -> Evaluated,
) -> Spec {
    Spec { names, count, arguments, result, strict: true, volatile: false, eval }
}

const fn lenient(spec: Spec) -> Spec {
    Spec { strict: false, ..spec }
}

const SPECS: &[Spec] = &[
    // Session.
    spec("version", (0, 0), "", TEXT, |_| text(super::version_text())),
    spec("current_database current_catalog", (0, 0), "", NAME, |call| text(call.facts.database.as_str())),
    spec("current_user session_user current_role user", (0, 0), "", NAME, |call| text(call.facts.user.as_str())),
    spec("current_schema", (0, 0), "", NAME, |call| maybe_text(search_path(call.facts).into_iter().next())),
    spec("current_schemas", (1, 1), "b", NAMES, current_schemas),
    spec("pg_backend_pid", (0, 0), "", INT4, |call| Ok(ScalarValue::Int32(Some(call.facts.backend_pid)))),
    Spec {
        volatile: true,
        ..spec("pg_cancel_backend", (1, 1), "i", BOOL, |call| boolean(signal(call, Signal::Cancel)))
    },
    Spec {
        volatile: true,
        ..spec("pg_terminate_backend", (1, 2), "i", BOOL, |call| boolean(signal(call, Signal::Terminate)))
    },
    spec("current_setting", (1, 2), "tb", TEXT, current_setting),
    Spec { volatile: true, ..spec("set_config", (3, 3), "ttb", TEXT, set_config) },
    spec("pg_client_encoding getdatabaseencoding", (0, 0), "", NAME, |_| text("UTF8")),
    spec("pg_is_in_recovery pg_is_wal_replay_paused", (0, 0), "", BOOL, |_| boolean(false)),
    spec("txid_current pg_current_xact_id", (0, 0), "", INT8, |call| bigint(call.facts.server.lsn().cast_signed())),
    spec("txid_current_if_assigned", (0, 0), "", INT8, |_| Ok(ScalarValue::Int64(None))),
    spec("inet_server_addr inet_client_addr", (0, 0), "", TEXT, |_| maybe_text(None)),
    spec("inet_server_port inet_client_port", (0, 0), "", INT4, |_| Ok(ScalarValue::Int32(None))),
    spec("pg_postmaster_start_time pg_conf_load_time", (0, 0), "", TIME, |call| {
        Ok(ScalarValue::TimestampNanosecond(Some(call.facts.server.started_ns()), Some("UTC".into())))
    }),
    spec("pg_my_temp_schema", (0, 0), "", OID, |_| number(Some(0))),
    spec("pg_is_other_temp_schema", (1, 1), "o", BOOL, |_| boolean(false)),
    spec(ADVISORY, (0, 2), "i", BOOL, |_| {
        Err(Error::unsupported("advisory locks are taken and released by statements of their own")
            .with_hint("write SELECT pg_advisory_lock(…), with nothing else but such calls in the statement"))
    }),
    // NULL, which clients treat as the default privileges.
    spec("acldefault", (2, 2), "to", Gives::Type(1034), |_| Ok(ScalarValue::new_null_list(DataType::Utf8, true, 1))),
    // Names and OIDs of objects.
    spec("pg_get_userbyid", (1, 1), "o", NAME, |call| match call.oid(0) {
        Some(oids::ROLE) => text(call.facts.user.as_str()),
        other => text(format!("unknown (OID={})", other.unwrap_or(0))),
    }),
    lenient(spec("format_type", (2, 2), "oi", TEXT, |call| match call.oid(0) {
        Some(ty) => text(names::format_type(call.facts, ty, call.int(1).unwrap_or(-1))),
        None => maybe_text(None),
    })),
    spec("pg_typeof", (1, 1), "a", TEXT, |call| text(type_name(call))),
    spec("to_regclass", (1, 1), "t", OID, |call| number(call.class(0))),
    spec("to_regtype", (1, 1), "t", OID, |call| {
        number(call.text(0).and_then(|name| names::type_oid(call.facts, name)))
    }),
    spec("to_regnamespace", (1, 1), "t", OID, |call| {
        number(call.text(0).and_then(|name| schema_oid(call.facts, name)))
    }),
    spec("to_regproc", (1, 1), "t", OID, |call| number(call.text(0).and_then(names::procedure).map(|found| found.oid))),
    spec("to_regrole", (1, 1), "t", OID, |call| number(call.text(0).and_then(|name| role_oid(call.facts, name)))),
    spec("regclassin", (1, 1), "o", OID, |call| known(call, call.class(0), SqlState::UNDEFINED_TABLE, "relation")),
    spec("regtypein", (1, 1), "o", OID, |call| {
        let found = call.oid(0).or_else(|| names::type_oid(call.facts, call.text(0)?));
        known(call, found, SqlState::UNDEFINED_OBJECT, "type")
    }),
    spec("regnamespacein", (1, 1), "o", OID, |call| {
        let found = call.oid(0).or_else(|| schema_oid(call.facts, call.text(0)?));
        known(call, found, SqlState::INVALID_SCHEMA_NAME, "schema")
    }),
    spec("regprocin", (1, 1), "o", OID, |call| {
        let found = call.oid(0).or_else(|| names::procedure(call.text(0)?).map(|found| found.oid));
        known(call, found, SqlState::UNDEFINED_FUNCTION, "function")
    }),
    spec("regrolein", (1, 1), "o", OID, |call| {
        let found = call.oid(0).or_else(|| role_oid(call.facts, call.text(0)?));
        known(call, found, SqlState::UNDEFINED_OBJECT, "role")
    }),
    spec("oidin", (1, 1), "o", OID, |call| known(call, call.oid(0), SqlState::INVALID_TEXT_REPRESENTATION, "oid")),
    spec("regclassout", (1, 1), "o", TEXT, |call| shown(call, call.class(0), |oid| names::class_name(call.facts, oid))),
    spec("regtypeout", (1, 1), "o", TEXT, |call| {
        let found = call.oid(0).or_else(|| names::type_oid(call.facts, call.text(0)?));
        shown(call, found, |oid| Some(names::format_type(call.facts, oid, -1)).filter(|name| name != "???"))
    }),
    spec("regnamespaceout", (1, 1), "o", TEXT, |call| {
        let found = call.oid(0).or_else(|| schema_oid(call.facts, call.text(0)?));
        shown(call, found, |oid| names::schemas(call.facts).into_iter().find(|name| oids::of_schema(name) == oid))
    }),
    spec("regprocout", (1, 1), "o", TEXT, |call| {
        let found = call.oid(0).or_else(|| names::procedure(call.text(0)?).map(|found| found.oid));
        shown(call, found, |oid| {
            names::PROCEDURES.iter().find(|known| known.oid == oid).map(|known| known.name.to_owned())
        })
    }),
    spec("regroleout", (1, 1), "o", TEXT, |call| {
        let found = call.oid(0).or_else(|| role_oid(call.facts, call.text(0)?));
        shown(call, found, |oid| (oid == oids::ROLE).then(|| call.facts.user.clone()))
    }),
    spec("quote_ident", (1, 1), "t", TEXT, |call| maybe_text(call.text(0).map(names::quote_ident))),
    spec("parse_ident", (1, 2), "tb", Gives::Type(1009), |call| match call.text(0).and_then(names::split_name) {
        Some(parts) => texts(&parts),
        None => known(call, None, SqlState::INVALID_PARAMETER_VALUE, "identifier"),
    }),
    spec("quote_literal", (1, 1), "t", TEXT, |call| maybe_text(call.text(0).map(quote_literal))),
    lenient(spec("quote_nullable", (1, 1), "t", TEXT, |call| {
        text(call.text(0).map_or("NULL".to_owned(), quote_literal))
    })),
    // Definitions.
    spec("pg_get_expr", (2, 3), "tob", TEXT, |call| {
        maybe_text(call.text(0).map(|sql| if call.truth(2) { formulas::pretty(sql) } else { sql.to_owned() }))
    }),
    spec("pg_get_indexdef", (1, 3), "oib", TEXT, |call| maybe_text(index_definition(call))),
    spec("pg_get_constraintdef", (1, 2), "ob", TEXT, |call| maybe_text(constraint_definition(call))),
    spec("pg_get_serial_sequence", (2, 2), "tt", TEXT, serial_sequence),
    spec("pg_sequence_last_value", (1, 1), "o", INT8, |call| {
        let Some(Class::Sequence(sequence)) = call.found(0) else { return Ok(ScalarValue::Int64(None)) };
        Ok(ScalarValue::Int64(call.facts.server.last_value(sequence.id)))
    }),
    spec("millrace_sequence", (2, 2), "ot", INT8, |call| {
        let Some(Class::Sequence(sequence)) = call.found(0) else { return Ok(ScalarValue::Int64(None)) };
        let number = match call.text(1).unwrap_or_default() {
            "seqrelid" => i64::from(oids::of_number(sequence.id, Part::Table)),
            "seqtypid" => i64::from(sequence.ty.oid()),
            "seqstart" => sequence.start,
            "seqincrement" => sequence.increment,
            "seqmax" => sequence.max,
            "seqmin" => sequence.min,
            "seqcache" => sequence.cache,
            _ => i64::from(sequence.cycle),
        };
        bigint(number)
    }),
    lenient(spec("json_build_object", (0, 100), "a", JSON, |call| maybe_text(json_object(call)))),
    spec("millrace_json", (1, 1), "t", JSON, |call| maybe_text(call.text(0).map(str::to_owned))),
    spec("pg_get_function_result", (1, 1), "o", TEXT, |call| {
        maybe_text(procedure(call).map(|found| names::format_type(call.facts, found.result, -1)))
    }),
    spec("pg_get_function_arguments pg_get_function_identity_arguments", (1, 1), "o", TEXT, |call| {
        let types = |found: &names::Procedure| {
            let types: Vec<String> = found.arguments.iter().map(|ty| names::format_type(call.facts, *ty, -1)).collect();
            types.join(", ")
        };
        maybe_text(procedure(call).map(types))
    }),
    spec(NOTHING, (1, 3), "oaa", TEXT, |_| maybe_text(None)),
    // Visibility and privileges: the only role has all of them.
    spec("pg_table_is_visible", (1, 1), "o", BOOL, |call| boolean(is_visible(call))),
    spec(VISIBLE, (1, 1), "o", BOOL, |call| {
        boolean(oids::table_of(call.oid(0).unwrap_or(0)).is_none() || type_is_visible(call))
    }),
    lenient(spec(PRIVILEGES, (2, 4), "oooo", BOOL, |_| boolean(true))),
    spec("row_security_active pg_relation_is_publishable", (1, 1), "o", BOOL, |_| boolean(false)),
    // Sizes.
    spec("pg_relation_size pg_table_size", (1, 2), "ot", INT8, |call| bigint(size(call, false))),
    spec("pg_total_relation_size", (1, 1), "o", INT8, |call| bigint(size(call, true))),
    spec("pg_indexes_size", (1, 1), "o", INT8, |call| bigint(size(call, true) - size(call, false))),
    spec("pg_tablespace_size", (1, 1), "o", INT8, |_| bigint(0)),
    spec("pg_database_size", (1, 1), "o", INT8, |call| bigint(call.facts.server.database_bytes())),
    spec("pg_size_pretty", (1, 1), "i", TEXT, |call| text(size_pretty(call.int(0).unwrap_or(0)))),
    spec("pg_stat_get_numscans pg_stat_get_tuples_inserted pg_stat_get_live_tuples", (1, 1), "o", INT8, |_| bigint(0)),
    spec("age", (1, 1), "o", INT4, |_| Ok(ScalarValue::Int32(Some(0)))),
    // Encodings.
    spec("pg_encoding_to_char", (1, 1), "i", NAME, |call| text(if call.int(0) == Some(6) { "UTF8" } else { "" })),
    spec("pg_char_to_encoding", (1, 1), "t", INT4, |call| {
        let known =
            call.text(0).is_some_and(|name| name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8"));
        Ok(ScalarValue::Int32(Some(if known { 6 } else { -1 })))
    }),
    // Arrays, with PostgreSQL's subscripts.
    spec("array_upper", (2, 2), "ai", INT4, |call| array_bound(call, |len| len)),
    spec("array_lower", (2, 2), "ai", INT4, |call| array_bound(call, |_| 1)),
    spec("millrace_subscripts", (2, 2), "ai", Gives::Subscripts, |call| subscripts(call, 1)),
    spec("millrace_vector_subscripts", (2, 2), "ai", Gives::Subscripts, |call| subscripts(call, 0)),
    spec("millrace_expand", (1, 1), "a", Gives::Expanded, expand),
    lenient(spec("millrace_names", (1, 1), "a", NAMES, |call| Ok(call.args[0].clone()))),
    spec("millrace_prefix", (2, 2), "at", Gives::Same, prefix),
    lenient(spec("array_out", (1, 1), "a", TEXT, |call| maybe_text(call.list().map(|list| array_text(&list))))),
];

const ADVISORY: &str = "pg_advisory_lock pg_advisory_lock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared \
    pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared \
    pg_advisory_unlock pg_advisory_unlock_shared pg_advisory_unlock_all";
const NOTHING: &str = "obj_description col_description shobj_description pg_get_viewdef pg_get_ruledef pg_get_triggerdef \
    pg_get_functiondef pg_get_function_sqlbody pg_get_partkeydef pg_get_statisticsobjdef \
    pg_get_statisticsobjdef_columns pg_tablespace_location pg_get_partition_constraintdef";
const VISIBLE: &str = "pg_type_is_visible pg_function_is_visible pg_operator_is_visible pg_opclass_is_visible pg_opfamily_is_visible \
    pg_collation_is_visible pg_conversion_is_visible pg_statistics_obj_is_visible pg_ts_config_is_visible pg_ts_dict_is_visible \
    pg_ts_parser_is_visible pg_ts_template_is_visible";
const PRIVILEGES: &str = "has_table_privilege has_any_column_privilege has_column_privilege has_database_privilege has_schema_privilege \
    has_function_privilege has_sequence_privilege has_language_privilege has_tablespace_privilege has_type_privilege \
    has_server_privilege has_foreign_data_wrapper_privilege pg_has_role";

/// JSON text of alternating names and values, in PostgreSQL's format; `None` if a name is NULL.
fn json_object(call: &Call<'_>) -> Option<String> {
    let mut parts = Vec::with_capacity(call.args.len() / 2);
    for at in (0..call.args.len()).step_by(2) {
        let value = match call.args.get(at + 1)? {
            value if value.is_null() => "null".to_owned(),
            ScalarValue::Boolean(Some(value)) => value.to_string(),
            value if value.data_type().is_numeric() => value.to_string(),
            value => json_string(call.text(at + 1).unwrap_or(&value.to_string())),
        };
        parts.push(format!("{} : {value}", json_string(call.text(at)?)));
    }
    Some(format!("{{{}}}", parts.join(", ")))
}

fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Bytes of a relation; `whole` includes its indexes.
fn size(call: &Call<'_>, whole: bool) -> i64 {
    let server = &call.facts.server;
    let bytes = match call.found(0) {
        Some(Class::Columns(table)) => server.table_bytes(table.id),
        Some(Class::Rows(table)) => {
            server.row_table(table.id).map(|size| if whole { size.bytes } else { size.bytes - size.index_bytes() })
        }
        Some(Class::Index(table, index)) => server.row_table(table.id).and_then(|size| size.index(index.id)),
        Some(Class::Key(_) | Class::Sequence(_)) | None => None,
    };
    bytes.unwrap_or(0)
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
            index.columns.get(at()?).map(|column| names::quote_ident(&table.columns[*column].name))
        }
        _ => None,
    }
}

fn constraint_definition(call: &Call<'_>) -> Option<String> {
    let oid = call.oid(0)?;
    if let Some((table, constraint)) = Constraint::by_oid(&call.facts.catalog, oid) {
        return Some(row_tables::constraint_definition(call.facts, table, constraint, call.truth(1)));
    }
    let (id, part) = oids::table_of(oid)?;
    let table = call.facts.catalog.table_by_id(id).filter(|_| part == Part::Constraint)?;
    Some(names::constraint_definition(table))
}

/// Quoted name of the sequence that a column owns.
fn serial_sequence(call: &Call<'_>) -> Evaluated {
    let (relation, column) = (call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default());
    let found = names::class_oid(call.facts, relation);
    known(call, found, SqlState::UNDEFINED_TABLE, "relation")?;
    let Some(Class::Rows(table)) = call.found(0) else { return maybe_text(None) };
    let Some(at) = table.column(column) else {
        let text = format!("column \"{column}\" of relation \"{}\" does not exist", table.name.table);
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
    };
    let owner = model::SequenceOwner { table: table.id, column: at };
    let sequence = call.facts.catalog.sequences().find(|sequence| sequence.owner == Some(owner));
    maybe_text(sequence.map(|sequence| {
        format!("{}.{}", names::quote_ident(&sequence.name.schema), names::quote_ident(&sequence.name.table))
    }))
}

/// Existing schemas of the search path.
fn search_path(facts: &StatementFacts) -> Vec<String> {
    facts.search_path.iter().filter(|schema| facts.catalog.has_schema(schema)).cloned().collect()
}

fn current_schemas(call: &Call<'_>) -> Evaluated {
    let mut schemas = search_path(call.facts);
    if call.args.first() == Some(&ScalarValue::Boolean(Some(true))) {
        schemas.insert(0, "pg_catalog".to_owned());
    }
    texts(&schemas)
}

fn current_setting(call: &Call<'_>) -> Evaluated {
    let name = call.text(0).unwrap_or_default();
    match call.facts.server.setting(name) {
        None if call.args.get(1) != Some(&ScalarValue::Boolean(Some(true))) => {
            Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
        }
        found => maybe_text(found),
    }
}

fn set_config(call: &Call<'_>) -> Evaluated {
    let local = call.args.get(2) == Some(&ScalarValue::Boolean(Some(true)));
    text(call.facts.server.set(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default(), local)?)
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

/// OID, or the error that the object does not exist.
fn known(call: &Call<'_>, found: Option<Oid>, state: SqlState, what: &str) -> Evaluated {
    match found {
        Some(oid) => number(Some(oid)),
        None => {
            let name = call.text(0).map_or_else(|| call.args[0].to_string(), str::to_owned);
            Err(Error::new(state, format!("{what} \"{name}\" does not exist")))
        }
    }
}

/// Name of an object, or its OID if it has no name.
fn shown(call: &Call<'_>, found: Option<Oid>, name: impl Fn(Oid) -> Option<String>) -> Evaluated {
    match found {
        Some(0) => text("-"),
        Some(oid) => text(name(oid).unwrap_or_else(|| oid.to_string())),
        None => known(call, None, SqlState::UNDEFINED_OBJECT, "object"),
    }
}

fn quote_literal(value: &str) -> String {
    let escape = if value.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

fn type_name(call: &Call<'_>) -> String {
    let name = |ty: Oid| names::format_type(call.facts, ty, -1);
    match call.args[0].data_type() {
        DataType::Boolean => name(oid::BOOL),
        DataType::Int16 => name(oid::INT2),
        DataType::Int32 => name(oid::INT4),
        DataType::Int64 => name(oid::INT8),
        DataType::UInt32 => name(oid::OID),
        DataType::Float32 => name(oid::FLOAT4),
        DataType::Float64 => name(oid::FLOAT8),
        DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..) => name(oid::NUMERIC),
        DataType::Timestamp(_, Some(_)) => name(oid::TIMESTAMPTZ),
        DataType::Timestamp(_, None) => name(oid::TIMESTAMP),
        DataType::Date32 | DataType::Date64 => name(oid::DATE),
        DataType::Time32(_) | DataType::Time64(_) => name(oid::TIME),
        DataType::Interval(_) | DataType::Duration(_) => name(oid::INTERVAL),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => name(oid::BYTEA),
        DataType::Null => "unknown".to_owned(),
        _ => name(oid::TEXT),
    }
}

fn is_visible(call: &Call<'_>) -> bool {
    let Some(class) = call.class(0) else { return false };
    if let Some(relation) = super::relations::RELATIONS.iter().find(|relation| relation.oid == class) {
        return relation.schema == "pg_catalog";
    }
    call.found(0).is_some_and(|class| names::is_visible(call.facts, class))
}

fn type_is_visible(call: &Call<'_>) -> bool {
    let table = call.oid(0).and_then(oids::table_of).map(|(id, _)| oids::of_table(id, Part::Table));
    let found = table.and_then(|oid| Class::by_oid(&call.facts.catalog, oid));
    found.is_some_and(|class| call.facts.search_path.iter().any(|schema| schema == class.schema()))
}

/// PostgreSQL's format: bytes up to 10 kB, then units with at most five digits, rounded half away from zero.
fn size_pretty(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // Twice the size in the unit, so that the last bit decides the rounding.
    let mut twice = bytes / 512;
    for unit in UNITS {
        if twice.unsigned_abs() < 20 * 1024 - 1 || unit == "PB" {
            return format!("{} {unit}", (twice + twice.signum()) / 2);
        }
        twice /= 1024;
    }
    format!("{bytes} bytes")
}

fn array_bound(call: &Call<'_>, bound: fn(i64) -> i64) -> Evaluated {
    let list = call.list().filter(|list| !list.is_empty() && call.int(1) == Some(1));
    Ok(ScalarValue::Int32(list.and_then(|list| i32::try_from(bound(list.len() as i64)).ok())))
}

fn element_type(ty: &DataType) -> DataType {
    match ty {
        DataType::List(item) | DataType::LargeList(item) => item.data_type().clone(),
        _ => DataType::Null,
    }
}

fn subscripts(call: &Call<'_>, first: i32) -> Evaluated {
    let count = call.list().map_or(0, |list| list.len());
    let numbers: Vec<ScalarValue> = (first..).take(count).map(|number| ScalarValue::Int32(Some(number))).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &DataType::Int32)))
}

fn expanded_fields(ty: &DataType) -> Fields {
    vec![Field::new("x", element_type(ty), true), Field::new("n", DataType::Int32, true)].into()
}

/// Elements of `information_schema._pg_expandarray`: each element with its position from 1.
fn expand(call: &Call<'_>) -> Evaluated {
    let fields = expanded_fields(&call.args[0].data_type());
    let list = call.list().unwrap_or_else(|| arrow_array::new_empty_array(fields[0].data_type()));
    let numbers = arrow_array::Int32Array::from_iter_values((1..).take(list.len()));
    let rows = StructArray::try_new(fields.clone(), vec![list, Arc::new(numbers)], None).map_err(Error::bug)?;
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let ends = datafusion::arrow::buffer::OffsetBuffer::from_lengths([rows.len()]);
    let list = arrow_array::ListArray::try_new(item, ends, Arc::new(rows), None).map_err(Error::bug)?;
    Ok(ScalarValue::List(Arc::new(list)))
}

fn prefix(call: &Call<'_>) -> Evaluated {
    let (Some(list), Some(before)) = (call.list(), call.text(1)) else { return texts(&[]) };
    let values =
        (0..list.len()).map(|at| ScalarValue::try_from_array(&list, at).map(|value| format!("{before}{value}")));
    texts(&values.collect::<Result<Vec<_>>>().map_err(Error::bug)?)
}

fn array_text(list: &ArrayRef) -> String {
    let values = (0..list.len())
        .map(|at| ScalarValue::try_from_array(list, at).map_or_else(|_| String::new(), |value| value.to_string()));
    format!("{{{}}}", values.collect::<Vec<_>>().join(","))
}

/// Implementation of a [`Spec`] as a DataFusion function.
#[derive(Debug)]
struct CatalogFunction {
    name: &'static str,
    spec: &'static Spec,
    facts: Arc<StatementFacts>,
    signature: Signature,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.names)
    }
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.facts, &other.facts)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl CatalogFunction {
    fn new(name: &'static str, spec: &'static Spec, facts: &Arc<StatementFacts>) -> CatalogFunction {
        let volatility = if spec.volatile { Volatility::Volatile } else { Volatility::Stable };
        let types = if spec.count.1 == 0 { TypeSignature::Nullary } else { TypeSignature::UserDefined };
        CatalogFunction { name, spec, facts: Arc::clone(facts), signature: Signature::new(types, volatility) }
    }

    fn argument(&self, at: usize, ty: &DataType) -> Option<DataType> {
        let letters = self.spec.arguments.as_bytes();
        let is_text = matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        match letters.get(at).or(letters.last())? {
            b'o' if ty.is_integer() => Some(DataType::Int64),
            b'o' if is_text || ty.is_null() => Some(DataType::Utf8),
            b'i' if ty.is_numeric() || ty.is_null() || is_text => Some(DataType::Int64),
            b't' if !ty.is_nested() => Some(DataType::Utf8),
            b'b' if *ty == DataType::Boolean || ty.is_null() || is_text => Some(DataType::Boolean),
            b'a' => Some(ty.clone()),
            _ => None,
        }
    }

    fn eval(&self, args: &[ScalarValue], null: &ScalarValue) -> Result<ScalarValue> {
        if self.spec.strict && args.iter().any(ScalarValue::is_null) {
            return Ok(null.clone());
        }
        (self.spec.eval)(&Call { facts: &self.facts, args }).map_err(external)
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.spec.count;
        let coerced: Option<Vec<DataType>> = types.iter().enumerate().map(|(at, ty)| self.argument(at, ty)).collect();
        coerced.filter(|_| (least..=most).contains(&types.len())).ok_or_else(|| {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            let message = format!("function {}({}) does not exist", self.name, types.join(", "));
            external(Error::new(SqlState::UNDEFINED_FUNCTION, message))
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fields: Vec<FieldRef> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
        let values = vec![None; fields.len()];
        let args = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &values };
        Ok(self.return_field_from_args(args)?.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let first = args.arg_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        let plain = |ty: DataType| Field::new(self.name, ty, true);
        let list = |ty: DataType| plain(DataType::List(Arc::new(Field::new_list_field(ty, true))));
        Ok(Arc::new(match self.spec.result {
            Gives::Type(ty) => Type::by_oid(ty).map_or_else(|| plain(DataType::Utf8), |ty| field(self.name, ty)),
            Gives::Same => plain(first),
            Gives::Subscripts => list(DataType::Int32),
            Gives::Expanded => list(DataType::Struct(expanded_fields(&first))),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let null = ScalarValue::try_from(args.return_field.data_type())?;
        if let Some(constants) = constants(&args.args) {
            return Ok(ColumnarValue::Scalar(self.eval(&constants, &null)?));
        }
        let mut values = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let cells: Vec<ScalarValue> = args.args.iter().map(|arg| cell(arg, row)).collect::<Result<_>>()?;
            values.push(self.eval(&cells, &null)?);
        }
        if values.is_empty() {
            return Ok(ColumnarValue::Array(null.to_array_of_size(0)?));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
    }
}

fn constants(args: &[ColumnarValue]) -> Option<Vec<ScalarValue>> {
    let constant = |arg: &ColumnarValue| match arg {
        ColumnarValue::Scalar(value) => Some(value.clone()),
        ColumnarValue::Array(_) => None,
    };
    args.iter().map(constant).collect()
}

fn cell(arg: &ColumnarValue, row: usize) -> Result<ScalarValue> {
    match arg {
        ColumnarValue::Scalar(value) => Ok(value.clone()),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(values, row),
    }
}
