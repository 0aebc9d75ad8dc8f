//! CREATE, ALTER and DROP of functions and procedures.

use std::sync::Arc;

use catalog::{CastContext, TypeId, builtin};
use engine::Catalog;
use model::{
    Error, Result, RoutineMode, RoutineParameter, RoutineRef, RoutineSpec, RoutineVolatility, SqlState, TableName,
};
use parser::ast::{
    AlterFunction, AtomicStatement, CreateFunction, Drop, DropBehavior, Expr, FunctionBody, FunctionOption,
    FunctionParameter, FunctionSignature, NumericValue, ObjectKind, ObjectName, ParameterMode, Persistence, SetAction,
    SetValue, Statement, Volatility,
};

use super::dependents::{self, refuse_renaming};
use super::{check, language};
use crate::binding;
use crate::plan::routine::single_row;
use crate::result::Outcome;
use crate::routines::{Body, TRIGGER, Variables, result_shape, row_shape, value_type};
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::{Command, Parsed, parse_in_definition, parse_within_routine};

/// `anyarray` and `anycompatiblearray`
const ANY_ARRAYS: [u32; 2] = [2277, 5078];
const INVALID_FUNCTION: SqlState = SqlState("42P13");

/// Runs a definition of a function or procedure; `None` for other statements.
pub(crate) async fn define(session: &mut Session, parsed: &Parsed, statement: &Statement) -> Result<Option<Outcome>> {
    let is_routine =
        |kind: ObjectKind| matches!(kind, ObjectKind::Function | ObjectKind::Procedure | ObjectKind::Routine);
    match statement {
        Statement::CreateFunction(create) => self::create(session, parsed, create).map(Some),
        Statement::AlterFunction(alter) => self::alter(session, alter).map(Some),
        Statement::Drop(drop) if is_routine(drop.kind) => self::drop(session, parsed, drop).await.map(Some),
        Statement::Rename(rename) if is_routine(rename.kind) => {
            let ObjectName::Function(signature) = &rename.object else { return Ok(None) };
            let old = find(session, rename.kind, signature)?;
            refuse_renaming(session, &old)?;
            let name = TableName { table: rename.to.to_string(), ..old.name.clone() };
            replace(session, RoutineSpec { name, ..(*old).clone() })?;
            Ok(Some(Outcome::command(format!("ALTER {}", word(rename.kind).to_uppercase()))))
        }
        Statement::AlterSchema(alter) if is_routine(alter.kind) => {
            let ObjectName::Function(signature) = &alter.object else { return Ok(None) };
            let old = find(session, alter.kind, signature)?;
            let schema = alter.schema.to_string();
            if !session.newest().catalog().has_schema(&schema) {
                let text = format!("schema \"{schema}\" does not exist");
                return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text));
            }
            refuse_renaming(session, &old)?;
            let name = TableName { schema, ..old.name.clone() };
            replace(session, RoutineSpec { name, ..(*old).clone() })?;
            Ok(Some(Outcome::command(format!("ALTER {}", word(alter.kind).to_uppercase()))))
        }
        Statement::AlterOwner(alter) if is_routine(alter.kind) => {
            let ObjectName::Function(signature) = &alter.object else { return Ok(None) };
            // There is one role, which owns everything.
            find(session, alter.kind, signature)?;
            Ok(Some(Outcome::command(format!("ALTER {}", word(alter.kind).to_uppercase()))))
        }
        _ => Ok(None),
    }
}

fn word(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Procedure => "procedure",
        ObjectKind::Routine => "routine",
        _ => "function",
    }
}

fn replace(session: &mut Session, next: RoutineSpec) -> Result<()> {
    let version = next.version + 1;
    session.writer()?.alter_routine(Arc::new(RoutineSpec { version, ..next }))
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(INVALID_FUNCTION, text)
}

fn mode(mode: ParameterMode) -> RoutineMode {
    match mode {
        ParameterMode::Default | ParameterMode::In => RoutineMode::In,
        ParameterMode::Out => RoutineMode::Out,
        ParameterMode::InOut => RoutineMode::InOut,
        ParameterMode::Variadic => RoutineMode::Variadic,
        ParameterMode::Table => RoutineMode::Table,
    }
}

fn parameters(
    context: &Arc<StatementContext>,
    written: &[FunctionParameter],
    is_procedure: bool,
) -> Result<Vec<RoutineParameter>> {
    let what = if is_procedure { "procedure" } else { "function" };
    let mut parameters: Vec<RoutineParameter> = Vec::with_capacity(written.len());
    for one in written {
        if one.ty.is_set {
            return Err(invalid(format!("{what}s cannot accept set arguments")));
        }
        let (ty, _) = binding::data_type(context, &one.ty)?;
        let mode = mode(one.mode);
        let name = one.name.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_array = builtin().element_of(TypeId(ty)).is_some() || ANY_ARRAYS.contains(&ty);
        if mode == RoutineMode::Variadic && !is_array {
            return Err(invalid("VARIADIC parameter must be an array"));
        }
        let is_same = |other: &&RoutineParameter| {
            // A name may stand for an input and, in the result, for an output.
            other.name == name
                && (other.mode.is_input() && mode.is_input() || other.mode.is_output() && mode.is_output())
        };
        if !name.is_empty() && parameters.iter().any(|other| is_same(&other)) {
            return Err(invalid(format!("parameter name \"{name}\" used more than once")));
        }
        if mode.is_input() && parameters.iter().any(|other| other.mode == RoutineMode::Variadic) {
            return Err(invalid("VARIADIC parameter must be the last input parameter"));
        }
        let default = one.default.as_ref().map(|default| checked_default(context, default, ty)).transpose()?;
        if default.is_some() && !mode.is_input() {
            return Err(invalid("only input parameters can have default values"));
        }
        let had_default = parameters.iter().any(|other| other.default.is_some());
        if mode.is_input() && default.is_none() && had_default {
            return Err(invalid("input parameters after one with a default value must also have defaults"));
        }
        parameters.push(RoutineParameter { name, mode, ty, default });
    }
    Ok(parameters)
}

/// The text of a parameter's default, which has no names of columns or variables.
///
/// # Errors
/// Those of the binder; 42804 for a value of another type; 0A000 for a subquery.
fn checked_default(context: &Arc<StatementContext>, default: &Expr, ty: u32) -> Result<String> {
    let text = default.to_string();
    let statement = parse_within_routine(&format!("SELECT {text}"), None)?;
    let Command::Query(query) = &statement.0.command else { return Err(Error::bug("a default that is no expression")) };
    let bound = binding::bind_query(context, &statement.0, query, &[]).map_err(Error::without_position)?;
    if !bound.parameters().is_empty() {
        return Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    let exprs = single_row(&bound).and_then(|exprs| exprs.into_iter().next());
    let expr = exprs.ok_or_else(|| Error::unsupported("a default of a parameter with a subquery is not supported"))?;
    let to = value_type(ty);
    let fits = expr.ty == to
        || matches!(expr.kind, scalar::ExprKind::Constant(_)) && matches!(expr.ty, TypeId::TEXT | TypeId::UNKNOWN)
        || to.is_polymorphic()
        || builtin().cast(expr.ty, to, CastContext::Assignment).is_some();
    if !fits {
        let (from, to) = (builtin().type_name(expr.ty), builtin().type_name(to));
        let text = format!("argument of DEFAULT must be type {to}, not type {from}");
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    Ok(text)
}

/// Refuses an attribute that procedures do not have.
fn check_attribute(option: &FunctionOption, is_procedure: bool) -> Result<()> {
    let is_of_functions = matches!(
        option,
        FunctionOption::Strict(_)
            | FunctionOption::Volatility(_)
            | FunctionOption::Leakproof(_)
            | FunctionOption::Cost(_)
            | FunctionOption::Rows(_)
            | FunctionOption::Parallel(_)
            | FunctionOption::Window
    );
    if is_procedure && is_of_functions { Err(invalid("invalid attribute in procedure definition")) } else { Ok(()) }
}

/// Options of CREATE and ALTER FUNCTION.
fn apply(spec: &mut RoutineSpec, option: &FunctionOption) -> Result<()> {
    let number = |value: &NumericValue| match value {
        NumericValue::Integer(value) => value.to_string(),
        NumericValue::Number(text) => text.to_string(),
    };
    match option {
        FunctionOption::Strict(strict) => spec.is_strict = *strict,
        FunctionOption::Volatility(volatility) => {
            spec.volatility = match volatility {
                Volatility::Immutable => RoutineVolatility::Immutable,
                Volatility::Stable => RoutineVolatility::Stable,
                Volatility::Volatile => RoutineVolatility::Volatile,
            };
        }
        FunctionOption::SecurityDefiner(definer) => spec.is_definer = *definer,
        FunctionOption::Leakproof(leakproof) => spec.is_leakproof = *leakproof,
        FunctionOption::Cost(value) => {
            let text = number(value);
            if text.parse::<f64>().is_ok_and(|cost| cost <= 0.0) {
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "COST must be positive"));
            }
            spec.cost = Some(text);
        }
        FunctionOption::Rows(value) => {
            let text = number(value);
            if text.parse::<f64>().is_ok_and(|rows| rows <= 0.0) {
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "ROWS must be positive"));
            }
            if !spec.returns_set {
                let text = "ROWS is not applicable when function does not return a set";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
            }
            spec.rows = Some(text);
        }
        FunctionOption::Parallel(word) => {
            spec.parallel = match word.as_str() {
                "safe" => b's',
                "restricted" => b'r',
                "unsafe" => b'u',
                _ => {
                    let text = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, text));
                }
            };
        }
        FunctionOption::Set(set) => match &set.action {
            SetAction::Values(name, values) => {
                let text = |value: &SetValue| match value {
                    SetValue::Text(text) => text.to_string(),
                    SetValue::Number(value) => number(value),
                    SetValue::Interval(text, _) => text.to_string(),
                };
                let value: Vec<String> = values.iter().map(text).collect();
                let name = name.to_string();
                spec.settings.retain(|(other, _)| *other != name);
                spec.settings.push((name, value.join(", ")));
            }
            SetAction::Reset(name) | SetAction::Default(name) => {
                spec.settings.retain(|(other, _)| *other != *name.as_str());
            }
            SetAction::ResetAll => spec.settings.clear(),
            _ => return Err(Error::unsupported("this SET of a function is not supported")),
        },
        FunctionOption::Window => return Err(Error::unsupported("window functions of users are not supported")),
        FunctionOption::Support(_) | FunctionOption::Transform(_) => {
            return Err(Error::unsupported("SUPPORT and TRANSFORM of functions are not supported"));
        }
        FunctionOption::As(..) | FunctionOption::Language(_) => {}
    }
    Ok(())
}

fn create(session: &mut Session, parsed: &Parsed, create: &CreateFunction) -> Result<Outcome> {
    let context = session.context_of_newest();
    let name = crate::execute::rows::new_relation(session, &create.name, Persistence::Permanent)?;
    let tag = if create.procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" };
    let parameters = parameters(&context, &create.parameters, create.procedure)?;
    let (mut named_language, mut text) = (None, None);
    for option in &create.options {
        match option {
            FunctionOption::Language(name) => named_language = Some(name.to_string()),
            FunctionOption::As(body, None) => text = Some(body.to_string()),
            FunctionOption::As(_, Some(_)) => {
                return Err(Error::unsupported("functions in object files are not supported")
                    .with_hint("Write the function in SQL or PL/pgSQL."));
            }
            _ => {}
        }
    }
    let language = match (&named_language, &create.body) {
        (Some(name), _) => language(name)?,
        (None, Some(_)) => model::RoutineLanguage::Sql,
        (None, None) => return Err(invalid("no language specified")),
    };
    let (body, is_unquoted) = match (text, &create.body) {
        (Some(text), None) => (text, false),
        (None, Some(body)) => (unquoted(body), true),
        (Some(_), Some(_)) => return Err(invalid("duplicate function body specified")),
        (None, None) => return Err(invalid("no function body specified")),
    };
    if is_unquoted && language != model::RoutineLanguage::Sql {
        return Err(invalid("inline SQL function body only valid for language SQL"));
    }
    let outputs: Vec<u32> = parameters.iter().filter(|one| one.mode.is_output()).map(|one| one.ty).collect();
    let is_table = parameters.iter().any(|one| one.mode == RoutineMode::Table);
    let from_outputs = match outputs.as_slice() {
        [] => None,
        [one] if !create.procedure => Some(*one),
        _ => Some(TypeId::RECORD.0),
    };
    let (result, returns_set) = match &create.returns {
        Some(ty) => {
            let (result, _) = binding::data_type(&context, ty)?;
            if let Some(wanted) = from_outputs.filter(|wanted| *wanted != result) {
                let text = format!(
                    "function result type must be {} because of OUT parameters",
                    builtin().type_name(TypeId(wanted))
                );
                return Err(invalid(text));
            }
            (result, ty.is_set)
        }
        None if create.procedure => (from_outputs.unwrap_or(TypeId::VOID.0), false),
        None => match from_outputs {
            Some(result) => (result, is_table),
            None => return Err(invalid("function result type must be specified")),
        },
    };
    let polymorphic_inputs = parameters.iter().any(|one| one.mode.is_input() && TypeId(one.ty).is_polymorphic());
    if TypeId(result).is_polymorphic() && !polymorphic_inputs {
        let name = builtin().type_name(TypeId(result));
        return Err(invalid("cannot determine result data type").with_detail(format!(
            "A result of type {name} requires at least one input of type anyelement, anyarray, anynonarray, anyenum, anyrange, \
             or anymultirange."
        )));
    }
    let mut spec = RoutineSpec {
        id: 0,
        name,
        version: 1,
        is_procedure: create.procedure,
        parameters,
        result,
        returns_set: returns_set || is_table,
        language,
        body,
        is_unquoted,
        volatility: RoutineVolatility::Volatile,
        is_strict: false,
        is_definer: false,
        is_leakproof: false,
        parallel: b'u',
        cost: None,
        rows: None,
        settings: Vec::new(),
    };
    if spec.result == TRIGGER.0 && !spec.parameters.is_empty() {
        return Err(invalid("trigger functions cannot have declared arguments")
            .with_hint("The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead."));
    }
    for option in &create.options {
        check_attribute(option, spec.is_procedure)?;
        apply(&mut spec, option)?;
    }
    if session.setting("check_function_bodies").as_deref() != Some("off") {
        check_body(&spec, parsed, &context)?;
    }
    let catalog = context.reads.snapshot.catalog();
    let types = spec.input_types();
    let old = catalog.routines_named(&spec.name).find(|other| other.input_types() == types).cloned();
    match old {
        None => {
            let txn = session.writer()?;
            spec.id = txn.next_number();
            txn.create_routine(Arc::new(spec.clone()))?;
        }
        Some(old) if create.replace => {
            check_replacement(&old, &spec)?;
            replace(session, RoutineSpec { id: old.id, version: old.version, ..spec.clone() })?;
        }
        Some(_) => {
            let text = format!("function \"{}\" already exists with same argument types", spec.name.table);
            return Err(Error::new(SqlState("42723"), text));
        }
    }
    // The body may call the function itself.
    if session.setting("check_function_bodies").as_deref() != Some("off") {
        check_statements(session, &spec, parsed)?;
    }
    Ok(Outcome::command(tag))
}

/// Checks that a function may become another one, on which views may depend.
fn check_replacement(old: &RoutineSpec, new: &RoutineSpec) -> Result<()> {
    if old.is_procedure != new.is_procedure {
        let what = if old.is_procedure { "procedure" } else { "function" };
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot change routine kind")
            .with_detail(format!("\"{}\" is a {what}.", old.name.table)));
    }
    let hint = || {
        let types: Vec<String> = old.input_types().iter().map(|ty| builtin().type_name(value_type(*ty))).collect();
        let what = if old.is_procedure { "PROCEDURE" } else { "FUNCTION" };
        format!("Use DROP {what} {}({}) first.", old.name.table, types.join(","))
    };
    if (old.result, old.returns_set) != (new.result, new.returns_set) {
        let text = if old.is_procedure {
            "cannot change whether a procedure has output parameters"
        } else {
            "cannot change return type of existing function"
        };
        return Err(invalid(text).with_hint(hint()));
    }
    let outputs =
        |spec: &RoutineSpec| -> Vec<(String, u32)> { spec.outputs().map(|one| (one.name.clone(), one.ty)).collect() };
    if outputs(old) != outputs(new) {
        return Err(invalid("cannot change return type of existing function")
            .with_detail("Row type defined by OUT parameters is different.")
            .with_hint(hint()));
    }
    for (old_one, new_one) in old.inputs().zip(new.inputs()) {
        if !old_one.name.is_empty() && old_one.name != new_one.name {
            let text = format!("cannot change name of input parameter \"{}\"", old_one.name);
            return Err(invalid(text).with_hint(hint()));
        }
        if old_one.default.is_some() && new_one.default.is_none() {
            return Err(invalid("cannot remove parameter defaults from existing function").with_hint(hint()));
        }
    }
    Ok(())
}

/// The statements of a body that is not quoted, as text.
fn unquoted(body: &FunctionBody) -> String {
    match body {
        FunctionBody::Return(expr) => format!("SELECT {expr}"),
        FunctionBody::Atomic(statements) => {
            let one = |statement: &AtomicStatement| match statement {
                AtomicStatement::Statement(statement) => format!("{statement};"),
                AtomicStatement::Return(expr) => format!("SELECT {expr};"),
            };
            statements.iter().map(one).collect::<Vec<_>>().join("\n ")
        }
    }
}

/// Parses a body, and checks what can be checked without its tables.
fn check_body(spec: &RoutineSpec, parsed: &Parsed, context: &Arc<StatementContext>) -> Result<()> {
    let body = Body::new(None, spec.language, &spec.body).map_err(|error| in_statement(error, spec, parsed))?;
    if let crate::routines::Code::PlPgSql(code) = &body.code {
        return check::body(code, Some(spec), context);
    }
    if let crate::routines::Code::Sql(fragments) = &body.code {
        for fragment in fragments {
            parser::parse_all(&fragment.text).map_err(|error| {
                let start = spec.body.find(&fragment.text).unwrap_or(0);
                let before = spec.body[..start].chars().count() as u32;
                let error = match error.position() {
                    Some(position) => error.with_position(position + before),
                    None => error,
                };
                in_statement(error, spec, parsed)
            })?;
        }
    }
    Ok(())
}

/// Plans the statements of a function in SQL, and compares the result of the last one with that of the function.
///
/// # Errors
/// Those of analysis, with the function as their context; 42P13 for another result.
fn check_statements(session: &mut Session, spec: &RoutineSpec, parsed: &Parsed) -> Result<()> {
    let is_polymorphic = |ty: u32| TypeId(ty).is_polymorphic();
    if spec.language != model::RoutineLanguage::Sql || spec.parameters.iter().any(|one| is_polymorphic(one.ty)) {
        return Ok(());
    }
    let body = Body::new(None, spec.language, &spec.body)?;
    let crate::routines::Code::Sql(fragments) = &body.code else { return Ok(()) };
    let in_context = |error: Error| super::with_context(error, &format!("SQL function \"{}\"", spec.name.table));
    let types: Vec<TypeId> = spec.inputs().map(|one| value_type(one.ty)).collect();
    let declared: Vec<u32> = types.iter().map(|ty| ty.0).collect();
    let body_start = if spec.is_unquoted { None } else { parsed.sql.find(&spec.body) };
    let mut last = None;
    for fragment in fragments {
        let visible = super::visible_in_sql(spec, &types, session.newest().catalog());
        let variables = Arc::new(Variables::new(
            binder::NameConflict::Column,
            visible,
            (0..declared.len()).collect(),
            &fragment.text,
        ));
        let offset = match (body_start, spec.body.find(&fragment.text)) {
            (Some(start), Some(at)) if parsed.offset != crate::statement::NO_PLACE => {
                parsed.offset + parsed.sql[..start + at].chars().count() as u32
            }
            _ => crate::statement::NO_PLACE,
        };
        let statement = parse_in_definition(&fragment.text, offset, Some(variables));
        let statement = statement.map_err(|error| in_context(error.without_position()))?;
        super::refuse_transaction(&statement, "SQL").map_err(in_context)?;
        // An error with a place in the definition needs no other context.
        let planned = session.plan_statement(&statement, &declared);
        last = Some(planned.map_err(|error| if error.position().is_some() { error } else { in_context(error) })?);
    }
    if spec.is_procedure && spec.outputs().next().is_none() || spec.result == TypeId::VOID.0 {
        return Ok(());
    }
    let snapshot = session.newest();
    let catalog = snapshot.catalog();
    let shape = result_shape(spec, catalog);
    let shown = type_shown(spec.result, catalog);
    let mismatch = |detail: String| {
        let text = format!("return type mismatch in function declared to return {shown}");
        Err(in_context(invalid(text).with_detail(detail)))
    };
    let Some(columns) = last.as_ref().and_then(|last| last.columns()) else {
        return mismatch("Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.".to_owned());
    };
    let casts = |from: u32, to: TypeId| {
        from == to.0 || from == TypeId::UNKNOWN.0 || to == TypeId::RECORD && from == TypeId::RECORD.0 || {
            builtin().cast(TypeId(from), to, CastContext::Assignment).is_some()
        }
    };
    let name = |ty: u32| type_shown(ty, catalog);
    match shape {
        None if spec.result == TypeId::RECORD.0 => Ok(()),
        None => match columns {
            [one] if casts(one.oid, value_type(spec.result)) => Ok(()),
            [one] => mismatch(format!("Actual return type is {}.", name(one.oid))),
            _ => mismatch("Final statement must return exactly one column.".to_owned()),
        },
        // The row as one column.
        Some(_) if matches!(columns, [one] if one.oid == TypeId::RECORD.0 || row_shape(one.oid, catalog).is_some()) => {
            Ok(())
        }
        Some(shape) => {
            for (at, column) in columns.iter().enumerate() {
                let Some((_, to, _)) = shape.get(at) else {
                    return mismatch("Final statement returns too many columns.".to_owned());
                };
                if !casts(column.oid, *to) {
                    let (from, to) = (name(column.oid), name(to.0));
                    return mismatch(format!("Final statement returns {from} instead of {to} at column {}.", at + 1));
                }
            }
            match columns.len() < shape.len() {
                true => mismatch("Final statement returns too few columns.".to_owned()),
                false => Ok(()),
            }
        }
    }
}

/// The error of a body with its position in the statement.
fn in_statement(error: Error, spec: &RoutineSpec, parsed: &Parsed) -> Error {
    let Some(position) = error.position() else { return error };
    match parsed.sql.find(&spec.body) {
        Some(start) if parsed.offset != crate::statement::NO_PLACE => {
            let before = parsed.sql[..start].chars().count() as u32;
            error.with_position(parsed.offset + before + position)
        }
        _ => error.without_position(),
    }
}

fn alter(session: &mut Session, alter: &AlterFunction) -> Result<Outcome> {
    let old = find(session, alter.kind, &alter.function)?;
    let mut spec = (*old).clone();
    for option in &alter.options {
        check_attribute(option, spec.is_procedure)?;
        apply(&mut spec, option)?;
    }
    replace(session, spec)?;
    Ok(Outcome::command(format!("ALTER {}", word(alter.kind).to_uppercase())))
}

async fn drop(session: &mut Session, parsed: &Parsed, drop: &Drop) -> Result<Outcome> {
    for object in &drop.objects {
        let ObjectName::Function(signature) = object else { return Err(Error::bug("a function that has no name")) };
        let routine = match find(session, drop.kind, signature) {
            Ok(routine) => routine,
            Err(error)
                if drop.if_exists
                    && matches!(
                        error.state(),
                        SqlState::UNDEFINED_FUNCTION | SqlState::UNDEFINED_OBJECT | SqlState::INVALID_SCHEMA_NAME
                    ) =>
            {
                session.notice(format!("{}, skipping", error.message()));
                continue;
            }
            Err(error) => return Err(error),
        };
        drop_one(session, parsed, &routine, drop.behavior == DropBehavior::Cascade).await?;
    }
    Ok(Outcome::command(format!("DROP {}", word(drop.kind).to_uppercase())))
}

/// Drops a function or procedure, with CASCADE what calls it too.
///
/// # Errors
/// 2BP01 without CASCADE if something calls it.
pub(crate) async fn drop_one(
    session: &mut Session,
    parsed: &Parsed,
    routine: &RoutineRef,
    is_cascade: bool,
) -> Result<()> {
    dependents::remove(session, parsed, routine, is_cascade).await?;
    session.writer()?.drop_routine(routine.id)
}

/// Name of a type, which may be the row type of a table.
fn type_shown(ty: u32, catalog: &Catalog) -> String {
    match row_shape(ty, catalog) {
        Some(_) => pg_catalog::oids::table_of(ty)
            .and_then(|(table, _)| catalog.name_of(table.0).map(|name| name.table.clone()))
            .unwrap_or_default(),
        None => builtin().type_name(TypeId(ty)),
    }
}

/// Name and types of the input parameters.
pub(crate) fn shown(routine: &RoutineSpec, catalog: &Catalog) -> String {
    let types: Vec<String> = routine.input_types().iter().map(|ty| type_shown(*ty, catalog)).collect();
    format!("{}({})", routine.name.table, types.join(","))
}

/// The function or procedure that a definition names.
///
/// # Errors
/// 42883 if there is none, 42725 if the name alone fits several, 42809 for one of the other kind.
pub(crate) fn find(session: &mut Session, kind: ObjectKind, signature: &FunctionSignature) -> Result<RoutineRef> {
    let context = session.context_of_newest();
    let catalog = context.reads.snapshot.catalog();
    let schemas = match signature.name.schema() {
        Some(schema) => vec![context.settings.schema(schema).to_owned()],
        None => context.settings.function_path(),
    };
    let what = word(kind);
    let types = match &signature.args {
        None => None,
        Some(written) => {
            let inputs = written.iter().filter(|one| mode(one.mode).is_input());
            let types: Result<Vec<u32>> =
                inputs.map(|one| binding::data_type(&context, &one.ty).map(|ty| ty.0)).collect();
            Some(types?)
        }
    };
    // A procedure may be named by all of its parameters too.
    let all_types = match &signature.args {
        None => None,
        Some(written) => {
            let types: Result<Vec<u32>> =
                written.iter().map(|one| binding::data_type(&context, &one.ty).map(|ty| ty.0)).collect();
            Some(types?)
        }
    };
    let name = &signature.name;
    let is_kind = |routine: &RoutineSpec| match kind {
        ObjectKind::Procedure => routine.is_procedure,
        ObjectKind::Routine => true,
        _ => !routine.is_procedure,
    };
    let mut of_other_kind = None;
    for schema in schemas {
        let qualified = TableName { schema, table: name.name.to_string() };
        let fits = |routine: &&RoutineRef| {
            let all: Vec<u32> = routine.parameters.iter().map(|one| one.ty).collect();
            types.as_ref().is_none_or(|types| {
                routine.input_types() == *types
                    || routine.is_procedure && all_types.as_ref().is_some_and(|types| *types == all)
            })
        };
        let found: Vec<&RoutineRef> = catalog.routines_named(&qualified).filter(fits).collect();
        let (right, wrong): (Vec<&RoutineRef>, Vec<&RoutineRef>) =
            found.into_iter().partition(|routine| is_kind(routine));
        of_other_kind = of_other_kind.or(wrong.first().map(|routine| Arc::clone(routine)));
        match right.as_slice() {
            [] => {}
            [one] => return Ok(Arc::clone(one)),
            _ => {
                let text = format!("{what} name \"{name}\" is not unique");
                return Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, text)
                    .with_hint(format!("Specify the argument list to select the {what} unambiguously.")));
            }
        }
    }
    let shown_types = types
        .as_ref()
        .map(|types| types.iter().map(|ty| builtin().type_name(value_type(*ty))).collect::<Vec<_>>().join(","));
    if let Some(other) = of_other_kind.filter(|_| types.is_some()) {
        let shown = shown(&other, catalog);
        let text = format!("{shown} is not a {what}");
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    }
    let text = match shown_types {
        Some(types) => format!("{what} {name}({types}) does not exist"),
        None => format!("could not find a {what} named \"{name}\""),
    };
    Err(Error::new(SqlState::UNDEFINED_FUNCTION, text))
}
