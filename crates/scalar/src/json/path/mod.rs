//! `jsonpath`: input, and the functions that evaluate it.

mod ast;
mod datetime;
mod exec;
mod lexer;
mod needs;
mod parser;
mod pattern;
mod predicate;

use std::cell::RefCell;
use std::rc::Rc;

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

pub use self::needs::PathNeeds;

use self::ast::Path;
use self::exec::{Execution, Fault, Item, Outcome};
use super::arguments::{bool, text};
use super::edit::datum;
use super::tree::Json;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Rows;

pub(super) fn input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(ctx.text(&parser::parse(text)?.text()))
}

thread_local! {
    /// The path that was evaluated last, because a statement evaluates the same one for each of its rows.
    static LAST: RefCell<Option<(String, Rc<Path>)>> = const { RefCell::new(None) };
}

fn parsed(text: &str) -> Result<Rc<Path>> {
    let last = LAST.with_borrow(|last| {
        let (last_text, path) = last.as_ref()?;
        (last_text == text).then(|| Rc::clone(path))
    });
    if let Some(path) = last {
        return Ok(path);
    }
    let path = Rc::new(parser::parse(text)?);
    LAST.with_borrow_mut(|last| *last = Some((text.to_owned(), Rc::clone(&path))));
    Ok(path)
}

/// Returns the parts that a document needs so that a path finds something in it (`@?`), or is true of it (`@@`).
///
/// # Errors
/// 42601 for text that is no path.
pub fn path_needs(path: &str, is_match: bool) -> Result<PathNeeds> {
    let path = parsed(path)?;
    Ok(if is_match { needs::of_match(&path.root) } else { needs::of_exists(&path.root) })
}

/// Evaluates the path of a call: (target, path, vars, silent). `None` for an error that `silent` suppresses.
fn evaluated<T>(
    arguments: &[Datum<'_>],
    silent: bool,
    with_zone: bool,
    ctx: &Context<'_>,
    run: impl for<'t> FnOnce(&mut Execution<'t>, &'t Path) -> Outcome<T>,
) -> Result<Option<T>> {
    let path = parsed(text(arguments, 1)?)?;
    let root = Json::parse(text(arguments, 0)?, ctx.arena)?;
    let variables = match arguments.get(2) {
        None => None,
        Some(_) => Some(Json::parse(text(arguments, 2)?, ctx.arena)?),
    };
    if variables.is_some_and(|variables| !matches!(variables, Json::Object(_))) {
        let detail = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
        let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, "\"vars\" argument is not an object");
        return Err(error.with_detail(detail));
    }
    let session = with_zone.then_some(ctx.session);
    let mut execution = Execution::new(&path, root, variables, session, ctx.arena);
    match run(&mut execution, &path) {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Soft(_)) if silent => Ok(None),
        Err(Fault::Soft(error) | Fault::Hard(error)) => Err(error),
    }
}

fn is_silent(arguments: &[Datum<'_>]) -> Result<bool> {
    bool(arguments, 3, false)
}

pub(super) fn exists<'a, const TZ: bool>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let found = evaluated(arguments, is_silent(arguments)?, TZ, ctx, |execution, path| execution.any(path))?;
    Ok(found.map_or(Datum::Null, Datum::Bool))
}

/// `@?`
pub(super) fn exists_operator<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let found = evaluated(arguments, true, false, ctx, |execution, path| execution.any(path))?;
    Ok(found.map_or(Datum::Null, Datum::Bool))
}

pub(super) fn matches<'a, const TZ: bool>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    matched(arguments, is_silent(arguments)?, TZ, ctx)
}

/// `@@`
pub(super) fn matches_operator<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    matched(arguments, true, false, ctx)
}

fn matched<'a>(arguments: &[Datum<'a>], silent: bool, with_zone: bool, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let found = evaluated(arguments, silent, with_zone, ctx, |execution, path| {
        let mut found = Vec::new();
        let outcome = execution.all(path, &mut found);
        let single = match found.as_slice() {
            [Item::Json(Json::Bool(value))] => Some(Datum::Bool(*value)),
            [Item::Json(Json::Null)] => Some(Datum::Null),
            _ => None,
        };
        tolerated(outcome, silent).map(|()| single)
    })?;
    match found.flatten() {
        Some(value) => Ok(value),
        None if silent => Ok(Datum::Null),
        None => Err(Error::new(SqlState("22038"), "single boolean result is expected")),
    }
}

/// An outcome with the errors that `silent` suppresses as success: the items found before them count.
fn tolerated(outcome: Outcome<()>, silent: bool) -> Outcome<()> {
    match outcome {
        Err(Fault::Soft(_)) if silent => Ok(()),
        outcome => outcome,
    }
}

/// Items of a path as texts in the arena.
fn items<'a>(arguments: &[Datum<'a>], with_zone: bool, ctx: &Context<'a>) -> Result<Vec<Datum<'a>>> {
    let silent = is_silent(arguments)?;
    let found = evaluated(arguments, silent, with_zone, ctx, |execution, path| {
        let mut found = Vec::new();
        tolerated(execution.all(path, &mut found), silent)?;
        Ok(found.into_iter().map(|item| datum(item.json(execution.arena), ctx)).collect::<Result<Vec<_>>>())
    })?;
    found.unwrap_or_else(|| Ok(Vec::new()))
}

pub(super) fn query<'a, const TZ: bool>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Rows<'a>> {
    Ok(Box::new(items(arguments, TZ, ctx)?.into_iter().map(Ok)))
}

pub(super) fn query_first<'a, const TZ: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    Ok(items(arguments, TZ, ctx)?.into_iter().next().unwrap_or_default())
}

pub(super) fn query_array<'a, const TZ: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let mut out = String::from("[");
    for (at, item) in items(arguments, TZ, ctx)?.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        if let Datum::Text(text) = item {
            out.push_str(text);
        }
        ctx.check_size(out.len())?;
    }
    out.push(']');
    Ok(ctx.text(&out))
}
