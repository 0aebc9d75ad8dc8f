//! Changes of `jsonb` values: concatenation, deletion, and values at paths.

use bumpalo::Bump;
use model::{Datum, Error, Result, SqlState};

use super::access::path_index;
use super::arguments::{bool, int, text, texts};
use super::scan::{Kind, elements, kind, members};
use super::tree::{Json, Member, equal_scalars, key_order, numeric};
use crate::context::Context;
use crate::expr::Call;

/// The canonical text of a value.
pub(super) fn datum<'a>(value: Json<'_>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let mut out = String::new();
    value.write(&mut out);
    ctx.check_size(out.len())?;
    Ok(ctx.text(&out))
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// `||`: the members of two objects, of which those of the right one count; else an array of the elements of both,
/// where anything but an array is one element.
pub(super) fn concat<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = [Json::parse(text(arguments, 0)?, ctx.arena)?, Json::parse(text(arguments, 1)?, ctx.arena)?];
    let joined = match (left, right) {
        (Json::Object(left), Json::Object(right)) => Json::object([left, right].concat(), ctx.arena),
        _ => Json::array(&[as_elements(&left), as_elements(&right)].concat(), ctx.arena),
    };
    datum(joined, ctx)
}

fn as_elements<'r, 't>(value: &'r Json<'t>) -> &'r [Json<'t>] {
    match value {
        Json::Array(items) => items,
        other => std::slice::from_ref(other),
    }
}

/// `jsonb - key` and `jsonb - keys`: without the members of these keys, or the elements that are these strings.
pub(super) fn delete_keys<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let keys = texts(&arguments[1..])?;
    let is_deleted = |text: &str| keys.iter().flatten().any(|key| *key == text);
    let rest = match Json::parse(text(arguments, 0)?, ctx.arena)? {
        Json::Object(members) => {
            let rest: Vec<Member<'_>> = members.iter().filter(|member| !is_deleted(member.0)).copied().collect();
            Json::Object(ctx.arena.alloc_slice_copy(&rest))
        }
        Json::Array(items) => {
            let kept = |item: &&Json<'_>| !matches!(item, Json::String(text) if is_deleted(text));
            let rest: Vec<Json<'_>> = items.iter().filter(kept).copied().collect();
            Json::array(&rest, ctx.arena)
        }
        _ => return Err(refused("cannot delete from scalar")),
    };
    datum(rest, ctx)
}

pub(super) fn delete_index<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let index = i64::from(int(arguments, 1)?);
    let items = match Json::parse(text(arguments, 0)?, ctx.arena)? {
        Json::Array(items) => items,
        Json::Object(_) => return Err(refused("cannot delete from object using integer index")),
        _ => return Err(refused("cannot delete from scalar")),
    };
    let index = if index < 0 { index + items.len() as i64 } else { index };
    let mut rest = items.to_vec();
    match usize::try_from(index) {
        Ok(index) if index < rest.len() => drop(rest.remove(index)),
        _ => return Ok(arguments[0].clone()),
    }
    datum(Json::array(&rest, ctx.arena), ctx)
}

/// A change at the end of a path.
#[derive(Clone, Copy)]
enum Change<'t> {
    Replace(Json<'t>),
    /// Replaces, or adds a member or element.
    Set(Json<'t>),
    InsertBefore(Json<'t>),
    InsertAfter(Json<'t>),
    /// Like [`Change::Set`]; also creates the objects on the path.
    Assign(Json<'t>),
    Delete,
}

pub(super) fn delete_path<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let target = Json::parse(text(arguments, 0)?, ctx.arena)?;
    if target.is_scalar() {
        return Err(refused("cannot delete path in scalar"));
    }
    changed(target, &texts(&arguments[1..2])?, Change::Delete, ctx)
}

pub(super) fn set<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let target = Json::parse(text(arguments, 0)?, ctx.arena)?;
    let value = Json::parse(text(arguments, 2)?, ctx.arena)?;
    let creates = bool(arguments, 3, true)?;
    if target.is_scalar() {
        return Err(refused("cannot set path in scalar"));
    }
    let change = if creates { Change::Set(value) } else { Change::Replace(value) };
    changed(target, &texts(&arguments[1..2])?, change, ctx)
}

pub(super) fn insert<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let target = Json::parse(text(arguments, 0)?, ctx.arena)?;
    let value = Json::parse(text(arguments, 2)?, ctx.arena)?;
    if target.is_scalar() {
        return Err(refused("cannot set path in scalar"));
    }
    let after = bool(arguments, 3, false)?;
    let change = if after { Change::InsertAfter(value) } else { Change::InsertBefore(value) };
    changed(target, &texts(&arguments[1..2])?, change, ctx)
}

/// `jsonb_set_lax`: not strict, because its last argument says what becomes of a new value that is NULL.
pub(super) fn set_lax<'a>(arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let is_null = |at: usize| arguments.get(at).is_some_and(Datum::is_null);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Datum::Null);
    }
    let treatment = match arguments.get(4) {
        None => "use_json_null",
        Some(Datum::Text(text)) => text,
        Some(_) => "",
    };
    if is_null(4) {
        return Err(unknown_treatment());
    }
    if !is_null(2) {
        return set(&arguments[..arguments.len().min(4)], call, ctx);
    }
    match treatment {
        "raise_exception" => Err(Error::new(SqlState("22004"), "JSON value must not be null")
            .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .with_hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
            )),
        "use_json_null" => {
            let mut values = arguments[..arguments.len().min(4)].to_vec();
            values[2] = Datum::Text("null");
            set(&values, call, ctx)
        }
        "delete_key" => delete_path(&arguments[..2], call, ctx),
        "return_target" => Ok(arguments[0].clone()),
        _ => Err(unknown_treatment()),
    }
}

fn unknown_treatment() -> Error {
    refused("null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"")
}

/// The value after `target[key][…] = value`; keys are texts or integers. A NULL target is an empty object or array.
///
/// # Errors
/// 22004 for a NULL key; 22023 for a path through a scalar and for an index before the first element.
pub fn assign<'a>(target: &Datum<'a>, keys: &[Datum<'_>], value: &Datum<'a>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let numbers: Vec<Option<String>> = keys
        .iter()
        .map(|key| match key {
            Datum::Int4(index) => Some(index.to_string()),
            Datum::Text(key) => Some((*key).to_owned()),
            _ => None,
        })
        .collect();
    if numbers.contains(&None) {
        return Err(Error::new(SqlState("22004"), "jsonb subscript in assignment must not be null"));
    }
    let path: Vec<Option<&str>> = numbers.iter().map(Option::as_deref).collect();
    let target = match (target, keys.first()) {
        (Datum::Text(target), _) => Json::parse(target, ctx.arena)?,
        (_, Some(Datum::Int4(_))) => Json::Array(&[]),
        _ => Json::Object(&[]),
    };
    let value = match value {
        Datum::Text(value) => Json::parse(value, ctx.arena)?,
        _ => Json::Null,
    };
    if target.is_scalar() {
        return Err(through_scalar());
    }
    changed(target, &path, Change::Assign(value), ctx)
}

fn through_scalar() -> Error {
    refused("cannot replace existing key")
        .with_detail("The path assumes key is a composite object, but it is a scalar value.")
}

/// A container on the path, and the place in it that the path goes through.
struct Level<'t> {
    container: Json<'t>,
    at: usize,
}

/// The text of a value after a change at a path; the value as it is if the path leads nowhere.
fn changed<'a>(target: Json<'_>, path: &[Option<&str>], change: Change<'_>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let arena = ctx.arena;
    let is_empty = matches!(target, Json::Array([]) | Json::Object([]));
    let Some((last, through)) = path.split_last() else { return datum(target, ctx) };
    if is_empty && matches!(change, Change::Delete | Change::Replace(_)) {
        return datum(target, ctx);
    }
    let mut levels: Vec<Level<'_>> = Vec::with_capacity(through.len());
    let mut value = target;
    for (number, step) in through.iter().enumerate() {
        let at = match (find(value, *step, number + 1, change, ctx)?, change) {
            (Place::At(at), _) => at,
            (place, Change::Assign(new)) => {
                let inner = nested(new, &path[number + 1..], ctx)?;
                let value = put(value, (*step).unwrap_or_default(), place, Change::Assign(inner), arena)?;
                return datum(rebuilt(value, levels, arena), ctx);
            }
            _ => return datum(target, ctx),
        };
        levels.push(Level { container: value, at });
        value = match value {
            Json::Array(items) => items[at],
            Json::Object(members) => members[at].1,
            scalar => scalar,
        };
        if value.is_scalar() {
            if path[number + 1].is_none() {
                return Err(null_step(number + 2));
            }
            let assigns = matches!(change, Change::Assign(_));
            return if assigns { Err(through_scalar()) } else { datum(target, ctx) };
        }
    }
    let place = find(value, *last, path.len(), change, ctx)?;
    let value = put(value, (*last).unwrap_or_default(), place, change, arena)?;
    datum(rebuilt(value, levels, arena), ctx)
}

/// The whole value around a changed part.
fn rebuilt<'t>(value: Json<'t>, levels: Vec<Level<'t>>, arena: &'t Bump) -> Json<'t> {
    levels.into_iter().rev().fold(value, |value, level| match level.container {
        Json::Array(items) => {
            let items = arena.alloc_slice_copy(items);
            items[level.at] = value;
            Json::Array(items)
        }
        Json::Object(members) => {
            let members = arena.alloc_slice_copy(members);
            members[level.at].1 = value;
            Json::Object(members)
        }
        scalar => scalar,
    })
}

/// Checks the memory of elements that an assignment creates in front of its own.
fn check_gap(gap: usize, ctx: &Context<'_>) -> Result<()> {
    ctx.check_size(gap.saturating_mul(size_of::<Json<'_>>()))
}

/// A value inside of the arrays and objects that the rest of an assigned path names.
fn nested<'t>(value: Json<'t>, path: &[Option<&str>], ctx: &Context<'t>) -> Result<Json<'t>> {
    path.iter().rev().flatten().try_fold(value, |value, step| match path_index(step) {
        Some(index) => {
            let gap = usize::try_from(index).unwrap_or(0);
            check_gap(gap, ctx)?;
            let mut items = vec![Json::Null; gap];
            items.push(value);
            Ok(Json::array(&items, ctx.arena))
        }
        None => Ok(Json::Object(ctx.arena.alloc_slice_copy(&[(&*ctx.arena.alloc_str(step), value)]))),
    })
}

/// The place in a container that a step of a path names.
#[derive(Clone, Copy)]
enum Place {
    At(usize),
    /// No element. It would be at `at`, behind `gap` others that do not exist either.
    Missing {
        at: usize,
        gap: usize,
    },
}

fn null_step(position: usize) -> Error {
    Error::new(SqlState("22004"), format!("path element at position {position} is null"))
}

fn find(
    container: Json<'_>,
    step: Option<&str>,
    position: usize,
    change: Change<'_>,
    ctx: &Context<'_>,
) -> Result<Place> {
    let Some(step) = step else {
        return Err(null_step(position));
    };
    let items = match container {
        Json::Array(items) => items,
        Json::Object(members) => {
            let found = members.binary_search_by(|member| key_order(member.0, step));
            return Ok(found.map_or_else(|at| Place::Missing { at, gap: 0 }, Place::At));
        }
        _ => return Err(through_scalar()),
    };
    let Some(index) = path_index(step) else {
        let text = format!("path element at position {position} is not an integer: \"{step}\"");
        return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text));
    };
    let from_start = if index < 0 { i64::from(index) + items.len() as i64 } else { i64::from(index) };
    match usize::try_from(from_start) {
        Ok(at) if at < items.len() => Ok(Place::At(at)),
        Ok(at) => {
            let gap = at - items.len();
            if matches!(change, Change::Assign(_)) {
                check_gap(gap, ctx)?;
            }
            Ok(Place::Missing { at: items.len(), gap })
        }
        Err(_) if matches!(change, Change::Assign(_)) => {
            Err(refused(format!("path element at position {position} is out of range: {index}")))
        }
        Err(_) => Ok(Place::Missing { at: 0, gap: 0 }),
    }
}

/// A container after the change of its element or member at a place.
fn put<'t>(container: Json<'t>, key: &str, place: Place, change: Change<'t>, arena: &'t Bump) -> Result<Json<'t>> {
    Ok(match container {
        Json::Array(items) => {
            let mut items = items.to_vec();
            match (place, change) {
                (Place::At(at), Change::Delete) => drop(items.remove(at)),
                (Place::At(at), Change::InsertBefore(value)) => items.insert(at, value),
                (Place::At(at), Change::InsertAfter(value)) => items.insert(at + 1, value),
                (Place::At(at), Change::Replace(value) | Change::Set(value) | Change::Assign(value)) => {
                    items[at] = value;
                }
                (Place::Missing { .. }, Change::Delete | Change::Replace(_)) => {}
                (Place::Missing { at, .. }, Change::Set(value))
                | (Place::Missing { at, .. }, Change::InsertBefore(value) | Change::InsertAfter(value)) => {
                    items.insert(at, value);
                }
                (Place::Missing { gap, .. }, Change::Assign(value)) => {
                    items.extend(std::iter::repeat_n(Json::Null, gap));
                    items.push(value);
                }
            }
            Json::array(&items, arena)
        }
        Json::Object(members) => {
            let mut members = members.to_vec();
            match (place, change) {
                (Place::At(at), Change::Delete) => drop(members.remove(at)),
                (Place::At(_), Change::InsertBefore(_) | Change::InsertAfter(_)) => {
                    let hint = "Try using the function jsonb_set to replace key value.";
                    return Err(refused("cannot replace existing key").with_hint(hint));
                }
                (Place::At(at), Change::Replace(value) | Change::Set(value) | Change::Assign(value)) => {
                    members[at].1 = value;
                }
                (Place::Missing { .. }, Change::Delete | Change::Replace(_)) => {}
                (
                    Place::Missing { at, .. },
                    Change::Set(value)
                    | Change::Assign(value)
                    | Change::InsertBefore(value)
                    | Change::InsertAfter(value),
                ) => members.insert(at, (arena.alloc_str(key), value)),
            }
            Json::Object(arena.alloc_slice_copy(&members))
        }
        scalar => scalar,
    })
}

/// `@>`: whether `left` has every member or element of `right`, at any depth of these.
///
/// # Errors
/// 54001 for values that nest deeper than the recursion may go.
pub(super) fn contains<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Bool(holds(text(arguments, 0)?, text(arguments, 1)?, ctx)?))
}

/// `<@`
pub(super) fn contained<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Bool(holds(text(arguments, 1)?, text(arguments, 0)?, ctx)?))
}

/// Limit of the recursion of `@>`.
const CONTAINS_DEPTH_MAX: usize = 1_000;

/// Levels that are compared as texts: each of them reads the text of those within it.
const TEXT_LEVELS_MAX: usize = 16;

/// Both texts are canonical: members are in one order, and equal strings have equal texts. So they are compared as texts, without
/// trees, and what is behind the last member that is asked for is not read.
fn holds(left: &str, right: &str, ctx: &Context<'_>) -> Result<bool> {
    match (kind(left), kind(right)) {
        // An array has a scalar, although it is no array.
        (Kind::Array, Kind::String | Kind::Number | Kind::Bool | Kind::Null) => {
            Ok(elements(left).any(|item| equal_texts(item, right)))
        }
        _ => has_all(left, right, TEXT_LEVELS_MAX, ctx),
    }
}

fn has_all(left: &str, right: &str, levels: usize, ctx: &Context<'_>) -> Result<bool> {
    match (kind(left), kind(right)) {
        (Kind::Object, Kind::Object) | (Kind::Array, Kind::Array) if levels == 0 => {
            let depth = CONTAINS_DEPTH_MAX - TEXT_LEVELS_MAX;
            tree_has_all(Json::parse(left, ctx.arena)?, Json::parse(right, ctx.arena)?, depth)
        }
        (Kind::Object, Kind::Object) => {
            let mut ours = members(left);
            for (key, wanted) in members(right) {
                let Some((_, value)) = ours.find(|(own, _)| *own == key) else { return Ok(false) };
                if !has_all(value, wanted, levels - 1, ctx)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Kind::Array, Kind::Array) => {
            for wanted in elements(right) {
                let mut found = false;
                for item in elements(left) {
                    // An array in an array has no scalar that stands alone.
                    found = has_all(item, wanted, levels - 1, ctx)?;
                    if found {
                        break;
                    }
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(equal_texts(left, right)),
    }
}

/// Whether two scalars are equal; false for containers.
fn equal_texts(left: &str, right: &str) -> bool {
    match (kind(left), kind(right)) {
        (Kind::Number, Kind::Number) => left == right || numeric(left) == numeric(right),
        (Kind::Object | Kind::Array, _) | (_, Kind::Object | Kind::Array) => false,
        _ => left == right,
    }
}

/// As [`has_all`], of trees.
fn tree_has_all(left: Json<'_>, right: Json<'_>, depth: usize) -> Result<bool> {
    if depth == 0 {
        return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
    }
    match (left, right) {
        (Json::Object(ours), Json::Object(theirs)) => {
            if ours.len() < theirs.len() {
                return Ok(false);
            }
            for (key, wanted) in theirs {
                let Some(value) = left.get(key) else { return Ok(false) };
                if !tree_has_all(value, *wanted, depth - 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Array(ours), Json::Array(theirs)) => {
            for wanted in theirs {
                let mut found = false;
                for item in ours {
                    found = found || tree_has_all(*item, *wanted, depth - 1)?;
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (left, right) => Ok(equal_scalars(left, right)),
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::context::Session;

    #[test]
    fn texts_contain_what_their_trees_contain() {
        let values = [
            "1",
            "1.0",
            "\"a\"",
            "null",
            "[]",
            "{}",
            "[1]",
            "[1, \"a\"]",
            "[[1]]",
            "[{\"a\": 1}]",
            "{\"a\": 1}",
            "{\"a\": 1.00}",
            "{\"a\": 1, \"b\": [1, 2]}",
            "{\"b\": [2]}",
            "{\"a\": {\"a\": 1, \"é\": \"]\\\"\"}}",
            "{\"a\": {\"é\": \"]\\\"\"}}",
            "[null, true]",
            "{\"b\": 1, \"aa\": 2}",
            "{\"aa\": 2}",
            "[[], {}]",
        ];
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        for (left, right) in values.iter().flat_map(|left| values.iter().map(move |right| (*left, *right))) {
            let trees = [left, right].map(|text| Json::parse(text, &arena).unwrap());
            for levels in [0, 1, TEXT_LEVELS_MAX] {
                let expected = tree_has_all(trees[0], trees[1], 100).unwrap();
                assert_eq!(has_all(left, right, levels, &ctx).unwrap(), expected, "{left} @> {right}, {levels}");
            }
        }
    }
}
