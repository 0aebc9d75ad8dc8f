//! Functions and procedures of users: their rows in the catalog, and their definitions as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use catalog::{TypeId, builtin};
use model::{
    Error, Result, RoutineLanguage, RoutineMode, RoutineParameter, RoutineSpec, RoutineVolatility, SqlState,
    TEMPORARY_SCHEMA, TableId, TableName, user_types,
};

use crate::cells::{Cell, Row, row};
use crate::facts::StatementFacts;
use crate::information_schema;
use crate::names::{self, quote_ident};
use crate::oids::{self, Oid, Part};

/// OID of PL/pgSQL.
const PLPGSQL: Oid = 13_610;
/// OID of SQL.
const SQL: Oid = 14;

fn oid(routine: &RoutineSpec) -> Oid {
    oids::of_table(TableId(routine.id), Part::Table)
}

/// The routine with this OID.
pub(crate) fn by_oid(facts: &StatementFacts, oid: Oid) -> Option<&RoutineSpec> {
    let (id, part) = oids::table_of(oid)?;
    if part != Part::Table {
        return None;
    }
    facts.catalog.routine_by_id(id.0).map(|routine| &**routine)
}

/// Whether the search path finds it by its name.
pub(crate) fn is_visible(facts: &StatementFacts, routine: &RoutineSpec) -> bool {
    let is_hidden = |schema: &str| {
        let name = TableName { schema: schema.to_owned(), table: routine.name.table.clone() };
        facts.catalog.routines_named(&name).any(|other| other.input_types() == routine.input_types())
    };
    searched(facts).find(|schema| is_hidden(schema)) == Some(&routine.name.schema)
}

/// Schemas in which functions are looked for: not that of temporary objects.
fn searched(facts: &StatementFacts) -> impl Iterator<Item = &String> {
    facts.search_path.iter().filter(|schema| !schema.starts_with(TEMPORARY_SCHEMA))
}

/// Its name as a `regproc`, or with the types of its parameters as a `regprocedure`.
pub(crate) fn name(facts: &StatementFacts, routine: &RoutineSpec, with_parameters: bool) -> String {
    let mut text = match is_visible(facts, routine) {
        true => quote_ident(&routine.name.table),
        false => format!("{}.{}", quote_ident(&routine.name.schema), quote_ident(&routine.name.table)),
    };
    if with_parameters {
        let types: Vec<String> = routine.input_types().iter().map(|ty| type_name(facts, *ty)).collect();
        let _ = write!(text, "({})", types.join(","));
    }
    text
}

/// The number of the function with a name, or with a name and the types of its parameters.
///
/// # Errors
/// 42883 if there is none, 42725 if there are several; 42704 for an unknown type.
pub(crate) fn number(facts: &StatementFacts, text: &str, with_parameters: bool) -> Result<Oid> {
    let missing = || Error::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"));
    let (name, types) = match (with_parameters, text.trim().split_once('(')) {
        (false, _) => (text, None),
        (true, Some((name, rest))) => {
            let list = rest.trim_end().strip_suffix(')').ok_or_else(missing)?;
            let types = list.split(',').map(str::trim).filter(|ty| !ty.is_empty());
            (name, Some(types.map(|ty| type_named(facts, ty)).collect::<Result<Vec<Oid>>>()?))
        }
        (true, None) => {
            return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected a left parenthesis"));
        }
    };
    let parts = names::split_name(name).ok_or_else(missing)?;
    let (schemas, name) = match parts.as_slice() {
        [name] => (searched(facts).cloned().collect(), name),
        [schema, name] => (vec![schema.clone()], name),
        _ => return Err(missing()),
    };
    if let Some(types) = &types
        && (parts.len() == 1 || schemas.iter().any(|schema| schema == "pg_catalog"))
    {
        let has_them = |row: &&catalog::Function| row.parameters.iter().map(|ty| ty.0).eq(types.iter().copied());
        if let Some(found) = builtin().functions_named(name).find(has_them) {
            return Ok(found.oid);
        }
    }
    let mut found = Vec::new();
    for schema in schemas {
        let name = TableName { schema, table: name.clone() };
        let fits = |one: &&model::RoutineRef| types.as_ref().is_none_or(|types| one.input_types() == *types);
        found.extend(facts.catalog.routines_named(&name).filter(fits));
        if types.is_some() && !found.is_empty() {
            break;
        }
    }
    match found.as_slice() {
        [] => Err(missing()),
        [one] => Ok(oid(one)),
        _ => Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("more than one function named \"{text}\""))),
    }
}

/// OID of a type by its name in a `regprocedure`.
fn type_named(facts: &StatementFacts, text: &str) -> Result<Oid> {
    if let Some(oid) = names::row_type_oid(facts, text) {
        return Ok(oid);
    }
    let missing = || Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist"));
    let parsed = parser::parse_type(text).map_err(Error::without_position)?;
    let ty = builtin().type_named(&parsed.name.name).ok_or_else(missing)?;
    let ty = if parsed.dimensions.is_empty() { Some(ty) } else { builtin().array_of(ty) };
    ty.map(|ty| ty.0).ok_or_else(missing)
}

fn type_name(facts: &StatementFacts, ty: Oid) -> String {
    match builtin().type_row(TypeId(ty)) {
        Some(_) if !model::user_types::is_user(ty) => builtin().type_name(TypeId(ty)),
        _ => names::format_type(facts, ty, -1),
    }
}

/// `pg_get_function_arguments`, or with `is_identity` without defaults.
pub(crate) fn arguments(facts: &StatementFacts, routine: &RoutineSpec, is_identity: bool) -> String {
    let shown = routine.parameters.iter().filter(|one| one.mode != RoutineMode::Table);
    let one = |parameter: &RoutineParameter| {
        let mode = match parameter.mode {
            RoutineMode::In if routine.is_procedure => "IN ",
            RoutineMode::In | RoutineMode::Table => "",
            RoutineMode::Out => "OUT ",
            RoutineMode::InOut => "INOUT ",
            RoutineMode::Variadic => "VARIADIC ",
        };
        let name = match parameter.name.as_str() {
            "" => String::new(),
            name => format!("{} ", quote_ident(name)),
        };
        let default = match &parameter.default {
            Some(default) if !is_identity => format!(" DEFAULT {default}"),
            _ => String::new(),
        };
        format!("{mode}{name}{}{default}", type_name(facts, parameter.ty))
    };
    shown.map(one).collect::<Vec<_>>().join(", ")
}

/// `pg_get_function_result`; `None` for a procedure.
pub(crate) fn result(facts: &StatementFacts, routine: &RoutineSpec) -> Option<String> {
    if routine.is_procedure {
        return None;
    }
    let columns: Vec<String> = routine
        .parameters
        .iter()
        .filter(|one| one.mode == RoutineMode::Table)
        .map(|one| format!("{} {}", quote_ident(&one.name), type_name(facts, one.ty)))
        .collect();
    if !columns.is_empty() {
        return Some(format!("TABLE({})", columns.join(", ")));
    }
    let set = if routine.returns_set { "SETOF " } else { "" };
    Some(format!("{set}{}", type_name(facts, routine.result)))
}

/// `pg_get_functiondef`
pub(crate) fn definition(facts: &StatementFacts, routine: &RoutineSpec) -> String {
    let kind = if routine.is_procedure { "PROCEDURE" } else { "FUNCTION" };
    let name = format!("{}.{}", quote_ident(&routine.name.schema), quote_ident(&routine.name.table));
    let mut text = format!("CREATE OR REPLACE {kind} {name}({})\n", arguments(facts, routine, false));
    if let Some(result) = result(facts, routine) {
        let _ = writeln!(text, " RETURNS {result}");
    }
    let _ = writeln!(text, " LANGUAGE {}", routine.language.name());
    let mut attributes: Vec<String> = Vec::new();
    match routine.volatility {
        RoutineVolatility::Immutable => attributes.push("IMMUTABLE".into()),
        RoutineVolatility::Stable => attributes.push("STABLE".into()),
        RoutineVolatility::Volatile => {}
    }
    match routine.parallel {
        b's' => attributes.push("PARALLEL SAFE".into()),
        b'r' => attributes.push("PARALLEL RESTRICTED".into()),
        _ => {}
    }
    let flags =
        [(routine.is_strict, "STRICT"), (routine.is_definer, "SECURITY DEFINER"), (routine.is_leakproof, "LEAKPROOF")];
    attributes.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()));
    attributes.extend(routine.cost.iter().filter(|cost| *cost != "100").map(|cost| format!("COST {cost}")));
    attributes.extend(routine.rows.iter().filter(|rows| *rows != "1000").map(|rows| format!("ROWS {rows}")));
    if !attributes.is_empty() {
        let _ = writeln!(text, " {}", attributes.join(" "));
    }
    for (name, value) in &routine.settings {
        let _ = writeln!(text, " SET {} TO '{}'", quote_ident(name), value.replace('\'', "''"));
    }
    if routine.is_unquoted {
        let _ = writeln!(text, "{}", unquoted_body(routine));
        return text;
    }
    let mut tag = kind.to_lowercase();
    // The body may end with the tag without its last sign.
    while routine.body.contains(&format!("${tag}")) {
        tag.push('x');
    }
    let _ = writeln!(text, "AS ${tag}${}${tag}$", routine.body);
    text
}

/// The body of a routine in SQL that is not quoted: RETURN, or BEGIN ATOMIC, whose statements end with semicolons.
pub(crate) fn unquoted_body(routine: &RoutineSpec) -> String {
    let is_atomic = routine.body.ends_with(';');
    match routine.body.strip_prefix("SELECT ").filter(|_| !is_atomic) {
        Some(expr) => format!("RETURN {expr}"),
        None => format!("BEGIN ATOMIC\n {}\nEND", routine.body),
    }
}

/// Rows of `pg_proc`.
pub(crate) fn procedures(facts: &StatementFacts) -> Vec<Row> {
    let one = |routine: &model::RoutineRef| {
        let inputs: Vec<i64> = routine.input_types().into_iter().map(i64::from).collect();
        let has_others = routine.parameters.iter().any(|one| !matches!(one.mode, RoutineMode::In));
        let has_names = routine.parameters.iter().any(|one| !one.name.is_empty());
        let all = routine.parameters.iter().map(|one| i64::from(one.ty)).collect();
        let modes = routine.parameters.iter().map(|one| char::from(one.mode as u8).to_string()).collect();
        let parameter_names = routine.parameters.iter().map(|one| one.name.clone()).collect();
        let defaults: Vec<&str> = routine.inputs().filter_map(|one| one.default.as_deref()).collect();
        let variadic = routine.inputs().last().filter(|one| one.mode == RoutineMode::Variadic);
        let element = variadic.and_then(|one| builtin().element_of(TypeId(one.ty)));
        let settings: Vec<String> = routine.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let number =
            |text: &Option<String>, default: f64| text.as_ref().and_then(|text| text.parse().ok()).unwrap_or(default);
        row! {
            oid: oid(routine),
            proname: routine.name.table.as_str(),
            pronamespace: oids::of_schema(&routine.name.schema),
            proowner: oids::ROLE,
            prolang: match routine.language { RoutineLanguage::Sql => SQL, RoutineLanguage::PlPgSql => PLPGSQL },
            procost: Cell::Float(number(&routine.cost, 100.0)),
            prorows: Cell::Float(if routine.returns_set { number(&routine.rows, 1_000.0) } else { 0.0 }),
            provariadic: element.map_or(0, |element| element.0),
            prokind: if routine.is_procedure { "p" } else { "f" },
            prosecdef: routine.is_definer,
            proleakproof: routine.is_leakproof,
            proisstrict: routine.is_strict,
            proretset: routine.returns_set,
            provolatile: char::from(routine.volatility as u8).to_string(),
            proparallel: char::from(routine.parallel).to_string(),
            pronargs: inputs.len() as i64,
            pronargdefaults: defaults.len() as i64,
            prorettype: routine.result,
            proargtypes: Cell::Ints(inputs),
            proallargtypes: if has_others { Cell::Ints(all) } else { Cell::Null },
            proargmodes: if has_others { Cell::Texts(modes) } else { Cell::Null },
            proargnames: if has_names { Cell::Texts(parameter_names) } else { Cell::Null },
            proargdefaults: if defaults.is_empty() { Cell::Null } else { Cell::Text(defaults.join(", ")) },
            prosrc: if routine.is_unquoted { String::new() } else { routine.body.clone() },
            prosqlbody: if routine.is_unquoted { Cell::Text(routine.body.clone()) } else { Cell::Null },
            proconfig: if settings.is_empty() { Cell::Null } else { Cell::Texts(settings) },
            tableoid: 1255,
        }
    };
    facts.catalog.routines().map(one).collect()
}

/// Rows of `pg_depend`: the types of users and rows of tables that a routine takes and returns, and the tables of these rows.
/// `pg_dump` orders definitions by them.
pub(crate) fn dependencies(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row_types = BTreeSet::new();
    for routine in facts.catalog.routines() {
        let mut types: Vec<Oid> = routine.types().filter(|ty| builtin().type_row(TypeId(*ty)).is_none()).collect();
        types.sort_unstable();
        types.dedup();
        let of_rows = types.iter().filter(|ty| !user_types::is_user(**ty)).filter_map(|ty| oids::table_of(*ty));
        row_types.extend(of_rows.map(|(table, _)| table));
        let one = |ty: Oid| row! { classid: 1255, objid: oid(routine), refclassid: 1247, refobjid: ty, deptype: "n" };
        rows.extend(types.into_iter().map(one));
    }
    for table in row_types {
        let [of, row_type, array] =
            [Part::Table, Part::RowType, Part::RowArray].map(|part| oids::of_table(table, part));
        rows.push(row! { classid: 1247, objid: row_type, refclassid: 1259, refobjid: of, deptype: "i" });
        rows.push(row! { classid: 1247, objid: array, refclassid: 1247, refobjid: row_type, deptype: "i" });
    }
    rows
}

/// Rows of `pg_language`.
pub(crate) fn languages(_: &StatementFacts) -> Vec<Row> {
    vec![
        row! { oid: 12, lanname: "internal", lanowner: oids::ROLE, tableoid: 2612 },
        row! { oid: SQL, lanname: "sql", lanowner: oids::ROLE, lanpltrusted: true, tableoid: 2612 },
        row! {
            oid: PLPGSQL,
            lanname: "plpgsql",
            lanowner: oids::ROLE,
            lanispl: true,
            lanpltrusted: true,
            tableoid: 2612,
        },
    ]
}

fn specific_name(routine: &RoutineSpec) -> String {
    format!("{}_{}", routine.name.table, oid(routine))
}

/// Rows of `information_schema.routines`.
pub(crate) fn routines(facts: &StatementFacts) -> Vec<Row> {
    let yes = |is_so: bool| if is_so { "YES" } else { "NO" };
    let one = |routine: &model::RoutineRef| {
        let is_sql = routine.language == RoutineLanguage::Sql;
        let mut row = row! {
            specific_catalog: facts.database.as_str(),
            specific_schema: routine.name.schema.as_str(),
            specific_name: specific_name(routine),
            routine_catalog: facts.database.as_str(),
            routine_schema: routine.name.schema.as_str(),
            routine_name: routine.name.table.as_str(),
            routine_type: if routine.is_procedure { "PROCEDURE" } else { "FUNCTION" },
            dtd_identifier: "0",
            routine_body: if is_sql && routine.is_unquoted { "SQL" } else { "EXTERNAL" },
            routine_definition: routine.body.as_str(),
            external_language: routine.language.name().to_uppercase(),
            parameter_style: "GENERAL",
            is_deterministic: yes(routine.volatility == RoutineVolatility::Immutable),
            sql_data_access: "MODIFIES",
            is_null_call: if routine.is_procedure { None } else { Some(yes(routine.is_strict)) },
            schema_level_routine: "YES",
            max_dynamic_result_sets: 0,
            security_type: if routine.is_definer { "DEFINER" } else { "INVOKER" },
            as_locator: "NO",
            is_udt_dependent: "NO",
        };
        if !routine.is_procedure {
            let udt = ["type_udt_catalog", "type_udt_schema", "type_udt_name"];
            row.extend(information_schema::routine_type(facts, routine.result, udt));
        }
        row
    };
    facts.catalog.routines().map(one).collect()
}

/// Rows of `information_schema.parameters`.
pub(crate) fn parameters(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for routine in facts.catalog.routines() {
        for (at, parameter) in routine.parameters.iter().enumerate() {
            let mode = match parameter.mode {
                RoutineMode::In | RoutineMode::Variadic => "IN",
                RoutineMode::InOut => "INOUT",
                RoutineMode::Out | RoutineMode::Table => "OUT",
            };
            let name = Some(parameter.name.as_str()).filter(|name| !name.is_empty());
            let number = at as i64 + 1;
            let mut row = row! {
                specific_catalog: facts.database.as_str(),
                specific_schema: routine.name.schema.as_str(),
                specific_name: specific_name(routine),
                ordinal_position: number,
                parameter_mode: mode,
                is_result: "NO",
                as_locator: "NO",
                parameter_name: name,
                dtd_identifier: number.to_string(),
                parameter_default: parameter.default.as_deref(),
            };
            row.extend(information_schema::routine_type(
                facts,
                parameter.ty,
                ["udt_catalog", "udt_schema", "udt_name"],
            ));
            rows.push(row);
        }
    }
    rows
}
