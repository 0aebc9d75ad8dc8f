//! Evaluation of a `jsonpath`.
//!
//! An error of evaluation may be suppressed: it makes a predicate unknown, and with `silent` the result NULL or
//! empty. Other errors, such as an unknown variable, are always raised.

use bumpalo::Bump;
use model::{Error, Numeric, SqlState};

use super::ast::{Accessor, Arithmetic, LEVEL_LAST, Node, NodeKind, NumberMethod, Path};
use super::datetime::{Moment, parse_moment};
use super::predicate::Truth;
use crate::context::Session;
use crate::json::layout::Offsets;
use crate::json::tree::{Json, numeric};

/// Identifiers of `.keyvalue()` for the parts of each object that is not in the value itself.
const OBJECT_IDS: i64 = 10_000_000_000;

/// An item of a sequence: a JSON value, or a date or time, which JSON has no values of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'t> {
    Json(Json<'t>),
    Moment(Moment),
}

pub(super) enum Fault {
    /// An error that may be suppressed.
    Soft(Error),
    /// An error that is always raised.
    Hard(Error),
}

pub(super) type Outcome<T> = Result<T, Fault>;

/// The items found. Without it, evaluation stops at the first one.
pub(super) type Found<'f, 't> = Option<&'f mut Vec<Item<'t>>>;

pub(super) struct Execution<'t> {
    pub(super) arena: &'t Bump,
    pub(super) root: Json<'t>,
    /// An object; `None` for the operators.
    pub(super) variables: Option<Json<'t>>,
    pub(super) is_lax: bool,
    /// The session whose zone dates and times without one have; `None` if these may not be compared with those that
    /// have one.
    pub(super) session: Option<&'t Session>,
    /// Whether errors of structure count as nothing found.
    ignores_structure: bool,
    /// `@`
    current: Item<'t>,
    /// Length of the array whose subscripts are evaluated, for `last`.
    length: Option<usize>,
    /// The object whose parts have the offsets of `.keyvalue()`, and its identifier.
    base: (Json<'t>, i64),
    generated_objects: i64,
    offsets: Option<Offsets>,
}

pub(super) fn soft<T>(state: &'static str, message: impl Into<String>) -> Outcome<T> {
    Err(Fault::Soft(Error::new(SqlState(state), message)))
}

// SQLSTATEs of SQL/JSON: the operand of an operator or accessor is not of the kind that is needed.
const NOT_SINGLETON: &str = "22038";
const NOT_ARRAY: &str = "22039";
const NOT_OBJECT: &str = "2203C";
const NOT_NUMERIC: &str = "22036";
const NOT_SIGNABLE: &str = "2203B";
const NO_MEMBER: &str = "2203A";
const INVALID_SUBSCRIPT: &str = "22033";
const NOT_DATETIME: &str = "22031";

impl<'t> Execution<'t> {
    pub(super) fn new(
        path: &Path,
        root: Json<'t>,
        variables: Option<Json<'t>>,
        session: Option<&'t Session>,
        arena: &'t Bump,
    ) -> Execution<'t> {
        Execution {
            arena,
            root,
            variables,
            is_lax: !path.is_strict,
            session,
            ignores_structure: !path.is_strict,
            current: Item::Json(root),
            length: None,
            base: (root, 0),
            // The first number is that of the value itself, the second one that of the variables.
            generated_objects: if variables.is_some() { 2 } else { 1 },
            offsets: None,
        }
    }

    /// Adds all items of a path; those before an error are found.
    pub(super) fn all(&mut self, path: &'t Path, found: &mut Vec<Item<'t>>) -> Outcome<()> {
        self.node(&path.root, Item::Json(self.root), Some(found)).map(|_| ())
    }

    /// Whether a path has an item. In strict mode the whole path is evaluated, because an error has precedence.
    pub(super) fn any(&mut self, path: &'t Path) -> Outcome<bool> {
        if self.is_lax {
            return self.node(&path.root, Item::Json(self.root), None);
        }
        let mut found = Vec::new();
        self.all(path, &mut found)?;
        Ok(!found.is_empty())
    }

    /// Evaluates a node and its accessors; returns whether there is an item.
    pub(super) fn node(&mut self, node: &'t Node, item: Item<'t>, found: Found<'_, 't>) -> Outcome<bool> {
        let then = node.accessors.as_slice();
        let value = match &node.kind {
            NodeKind::Null => Item::Json(Json::Null),
            NodeKind::Bool(value) => Item::Json(Json::Bool(*value)),
            NodeKind::Number(number) => Item::Json(Json::Number(number)),
            NodeKind::String(text) => Item::Json(Json::String(text)),
            NodeKind::Variable(name) => return self.variable(name, then, found),
            NodeKind::Root => {
                return self.with_base((self.root, 0), |this| this.then(then, Item::Json(this.root), found));
            }
            NodeKind::Current => self.current,
            NodeKind::Last => match self.length {
                Some(length) => self.number(&Numeric::from(length as i64 - 1)),
                None => {
                    return Err(Fault::Hard(Error::bug("evaluating jsonpath LAST outside of array subscript")));
                }
            },
            NodeKind::Arithmetic(operator, pair) => self.arithmetic(*operator, pair, item)?,
            NodeKind::Sign { negative, of } => return self.signed(*negative, of, item, then, found),
            _ => match self.predicate(node, item)? {
                Truth::True => Item::Json(Json::Bool(true)),
                Truth::False => Item::Json(Json::Bool(false)),
                Truth::Unknown => Item::Json(Json::Null),
            },
        };
        self.then(then, value, found)
    }

    /// Evaluates with another base of identifiers.
    fn with_base<T>(&mut self, base: (Json<'t>, i64), run: impl FnOnce(&mut Self) -> T) -> T {
        let saved = std::mem::replace(&mut self.base, base);
        let saved_offsets = if base.1 == saved.1 { None } else { Some(self.offsets.take()) };
        let result = run(self);
        self.base = saved;
        if let Some(offsets) = saved_offsets {
            self.offsets = offsets;
        }
        result
    }

    fn number(&self, value: &Numeric) -> Item<'t> {
        Item::Json(Json::number(value, self.arena))
    }

    fn variable(&mut self, name: &str, then: &'t [Accessor], found: Found<'_, 't>) -> Outcome<bool> {
        // The operators have no variables, so that all of them are null.
        let Some(variables) = self.variables else { return self.then(then, Item::Json(Json::Null), found) };
        let Some(value) = variables.get(name) else {
            let text = format!("could not find jsonpath variable \"{name}\"");
            return Err(Fault::Hard(Error::new(SqlState::UNDEFINED_OBJECT, text)));
        };
        self.with_base((variables, 1), |this| this.then(then, Item::Json(value), found))
    }

    /// Applies accessors to an item.
    fn then(&mut self, accessors: &'t [Accessor], item: Item<'t>, found: Found<'_, 't>) -> Outcome<bool> {
        self.apply(accessors, item, self.is_lax, found)
    }

    /// Applies accessors to an item; to the elements of an array if `unwraps` and the first one is not for arrays.
    fn apply(
        &mut self,
        accessors: &'t [Accessor],
        item: Item<'t>,
        unwraps: bool,
        found: Found<'_, 't>,
    ) -> Outcome<bool> {
        let Some((accessor, then)) = accessors.split_first() else {
            if let Some(found) = found {
                found.push(item);
            }
            return Ok(true);
        };
        let is_for_arrays = matches!(
            accessor,
            Accessor::AnyElement | Accessor::Elements(_) | Accessor::Descendants(..) | Accessor::Type | Accessor::Size
        );
        if let (true, false, Item::Json(Json::Array(elements))) = (unwraps, is_for_arrays, item) {
            return self.each(elements.iter().copied(), accessors, false, found);
        }
        match accessor {
            Accessor::Key(key) => self.member(key, item, then, found),
            Accessor::AnyKey => match item {
                Item::Json(Json::Object(members)) => {
                    self.each(members.iter().map(|member| member.1), then, self.is_lax, found)
                }
                _ => self.misfit(NOT_OBJECT, "jsonpath wildcard member accessor can only be applied to an object"),
            },
            Accessor::AnyElement => match item {
                Item::Json(Json::Array(elements)) => self.each(elements.iter().copied(), then, self.is_lax, found),
                _ if self.is_lax => self.then(then, item, found),
                _ => self.misfit(NOT_ARRAY, "jsonpath wildcard array accessor can only be applied to an array"),
            },
            Accessor::Elements(list) => self.elements(list, item, then, found),
            Accessor::Descendants(first, last) => self.descendants([*first, *last], item, then, found),
            Accessor::Filter(predicate) => {
                let saved = std::mem::replace(&mut self.current, item);
                let truth = self.predicate(predicate, item);
                self.current = saved;
                if truth? == Truth::True { self.then(then, item, found) } else { Ok(false) }
            }
            Accessor::Type => self.then(then, Item::Json(Json::String(type_name(item))), found),
            Accessor::Size => match item {
                Item::Json(Json::Array(elements)) => {
                    let size = self.number(&Numeric::from(elements.len() as i64));
                    self.then(then, size, found)
                }
                _ if self.is_lax => self.then(then, Item::Json(Json::Number("1")), found),
                _ => self.misfit(NOT_ARRAY, "jsonpath item method .size() can only be applied to an array"),
            },
            Accessor::Number(method) => {
                let Item::Json(Json::Number(number)) = item else {
                    let name = method.name();
                    let text = format!("jsonpath item method .{name}() can only be applied to a numeric value");
                    return soft(NOT_NUMERIC, text);
                };
                let value = numeric(number);
                let value = match method {
                    NumberMethod::Abs => Ok(value.abs()),
                    NumberMethod::Floor => value.floor(),
                    NumberMethod::Ceiling => value.ceil(),
                };
                let value = self.number(&value.map_err(Fault::Soft)?);
                self.then(then, value, found)
            }
            Accessor::Double => {
                let value = self.double(item)?;
                self.then(then, value, found)
            }
            Accessor::KeyValue => self.key_values(item, then, found),
            Accessor::Datetime(template) => {
                let Item::Json(Json::String(text)) = item else {
                    return soft(NOT_DATETIME, "jsonpath item method .datetime() can only be applied to a string");
                };
                let moment = parse_moment(text, template.as_deref()).map_err(Fault::Soft)?;
                self.then(then, Item::Moment(moment), found)
            }
        }
    }

    /// The outcome of an accessor for a value of another structure.
    fn misfit(&self, state: &'static str, message: &str) -> Outcome<bool> {
        if self.ignores_structure { Ok(false) } else { soft(state, message) }
    }

    fn each(
        &mut self,
        values: impl Iterator<Item = Json<'t>>,
        then: &'t [Accessor],
        unwraps: bool,
        mut found: Found<'_, 't>,
    ) -> Outcome<bool> {
        let mut any = false;
        for value in values {
            any |= self.apply(then, Item::Json(value), unwraps, found.as_deref_mut())?;
            if any && found.is_none() {
                break;
            }
        }
        Ok(any)
    }

    fn member(&mut self, key: &str, item: Item<'t>, then: &'t [Accessor], found: Found<'_, 't>) -> Outcome<bool> {
        let Item::Json(object @ Json::Object(_)) = item else {
            return self.misfit(NO_MEMBER, "jsonpath member accessor can only be applied to an object");
        };
        match object.get(key) {
            Some(value) => self.then(then, Item::Json(value), found),
            None if self.ignores_structure => Ok(false),
            None => soft(NO_MEMBER, format!("JSON object does not contain key \"{key}\"")),
        }
    }

    fn elements(
        &mut self,
        list: &'t [(Node, Option<Node>)],
        item: Item<'t>,
        then: &'t [Accessor],
        found: Found<'_, 't>,
    ) -> Outcome<bool> {
        let size = match item {
            Item::Json(Json::Array(elements)) => elements.len(),
            _ if self.is_lax => 1,
            _ => {
                return self.misfit(NOT_ARRAY, "jsonpath array accessor can only be applied to an array");
            }
        };
        let saved = self.length.replace(size);
        let any = self.elements_of(size as i64, list, item, then, found);
        self.length = saved;
        any
    }

    fn elements_of(
        &mut self,
        size: i64,
        list: &'t [(Node, Option<Node>)],
        item: Item<'t>,
        then: &'t [Accessor],
        mut found: Found<'_, 't>,
    ) -> Outcome<bool> {
        let element = |at: i64| match item {
            Item::Json(Json::Array(elements)) => Item::Json(elements[at as usize]),
            single => single,
        };
        let mut any = false;
        for (from, to) in list {
            let from = self.subscript(from, item)?;
            let to = to.as_ref().map_or(Ok(from), |to| self.subscript(to, item))?;
            if !self.ignores_structure && (from < 0 || from > to || to >= size) {
                return soft(INVALID_SUBSCRIPT, "jsonpath array subscript is out of bounds");
            }
            for at in from.max(0)..=to.min(size - 1) {
                any |= self.then(then, element(at), found.as_deref_mut())?;
                if any && found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(any)
    }

    fn subscript(&mut self, node: &'t Node, item: Item<'t>) -> Outcome<i64> {
        let mut found = Vec::new();
        self.node(node, item, Some(&mut found))?;
        let [Item::Json(Json::Number(number))] = found.as_slice() else {
            return soft(INVALID_SUBSCRIPT, "jsonpath array subscript is not a single numeric value");
        };
        let index = numeric(number).trunc(0).and_then(|index| index.to_i32());
        match index {
            Ok(index) => Ok(index.into()),
            Err(_) => soft(INVALID_SUBSCRIPT, "jsonpath array subscript is out of integer range"),
        }
    }

    /// `.**`: the values of some levels below, in the order of the text.
    fn descendants(
        &mut self,
        [first, last]: [u32; 2],
        item: Item<'t>,
        then: &'t [Accessor],
        mut found: Found<'_, 't>,
    ) -> Outcome<bool> {
        let mut any = false;
        if first == 0 {
            any |= self.tolerant(|this| this.then(then, item, found.as_deref_mut()))?;
        }
        let Item::Json(value) = item else { return Ok(any) };
        let mut open = vec![(value, 0)];
        while let Some((container, next)) = open.last_mut() {
            if any && found.is_none() {
                break;
            }
            let child = match container {
                Json::Array(elements) => elements.get(*next).copied(),
                Json::Object(members) => members.get(*next).map(|member| member.1),
                _ => None,
            };
            *next += 1;
            let level = u32::try_from(open.len()).unwrap_or(LEVEL_LAST);
            let Some(child) = child.filter(|_| level <= last) else {
                open.pop();
                continue;
            };
            let leaves_only = first == LEVEL_LAST && last == LEVEL_LAST;
            if level >= first || (leaves_only && child.is_scalar()) {
                any |= self.tolerant(|this| this.then(then, Item::Json(child), found.as_deref_mut()))?;
            }
            if !child.is_scalar() {
                open.push((child, 0));
            }
        }
        Ok(any)
    }

    /// Evaluates without errors of structure.
    fn tolerant<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let saved = std::mem::replace(&mut self.ignores_structure, true);
        let result = run(self);
        self.ignores_structure = saved;
        result
    }

    /// The items of an operand; in lax mode the elements of arrays.
    pub(super) fn operand(&mut self, node: &'t Node, item: Item<'t>, unwraps: bool) -> Outcome<Vec<Item<'t>>> {
        let mut found = Vec::new();
        self.node(node, item, Some(&mut found))?;
        let has_array = found.iter().any(|item| matches!(item, Item::Json(Json::Array(_))));
        if !(unwraps && self.is_lax && has_array) {
            return Ok(found);
        }
        let mut items = Vec::with_capacity(found.len());
        for item in found {
            match item {
                Item::Json(Json::Array(elements)) => items.extend(elements.iter().map(|one| Item::Json(*one))),
                item => items.push(item),
            }
        }
        Ok(items)
    }

    fn arithmetic(&mut self, operator: Arithmetic, pair: &'t [Node; 2], item: Item<'t>) -> Outcome<Item<'t>> {
        let [left, right] = [self.operand(&pair[0], item, true)?, self.operand(&pair[1], item, true)?];
        let single = |items: &[Item<'t>], side: &str| match items {
            [Item::Json(Json::Number(number))] => Ok(numeric(number)),
            _ => {
                let sign = operator.sign();
                let text = format!("{side} operand of jsonpath operator {sign} is not a single numeric value");
                soft(NOT_SINGLETON, text)
            }
        };
        let [left, right] = [single(&left, "left")?, single(&right, "right")?];
        let value = match operator {
            Arithmetic::Add => left.add(&right),
            Arithmetic::Subtract => left.sub(&right),
            Arithmetic::Multiply => left.mul(&right),
            Arithmetic::Divide => left.div(&right),
            Arithmetic::Modulo => left.rem(&right),
        };
        Ok(self.number(&value.map_err(Fault::Soft)?))
    }

    fn signed(
        &mut self,
        negative: bool,
        of: &'t Node,
        item: Item<'t>,
        then: &'t [Accessor],
        mut found: Found<'_, 't>,
    ) -> Outcome<bool> {
        let mut any = false;
        for operand in self.operand(of, item, true)? {
            match operand {
                Item::Json(Json::Number(_)) if found.is_none() && then.is_empty() => return Ok(true),
                Item::Json(Json::Number(number)) => {
                    let value = if negative { self.number(&numeric(number).neg()) } else { operand };
                    any |= self.then(then, value, found.as_deref_mut())?;
                    if any && found.is_none() {
                        break;
                    }
                }
                _ if found.is_none() && then.is_empty() => {}
                _ => {
                    let sign = if negative { "-" } else { "+" };
                    let text = format!("operand of unary jsonpath operator {sign} is not a numeric value");
                    return soft(NOT_SIGNABLE, text);
                }
            }
        }
        Ok(any)
    }

    fn double(&self, item: Item<'t>) -> Outcome<Item<'t>> {
        match item {
            Item::Json(Json::Number(number)) => {
                let text =
                    "numeric argument of jsonpath item method .double() is out of range for type double precision";
                match numeric(number).to_f64() {
                    Ok(_) => Ok(item),
                    Err(_) => soft(NOT_NUMERIC, text),
                }
            }
            Item::Json(Json::String(text)) => match pg::value::parse_float8(text) {
                Ok(value) if value.is_finite() => Ok(self.number(&Numeric::from(value))),
                _ => soft(
                    NOT_NUMERIC,
                    "string argument of jsonpath item method .double() is not a valid representation of a double \
                     precision number",
                ),
            },
            _ => soft(NOT_NUMERIC, "jsonpath item method .double() can only be applied to a string or numeric value"),
        }
    }

    /// `.keyvalue()`: an object of key, value and identifier for each member. The identifier tells members of one
    /// object from those of others; it is the object's offset in PostgreSQL's binary form.
    fn key_values(&mut self, item: Item<'t>, then: &'t [Accessor], mut found: Found<'_, 't>) -> Outcome<bool> {
        let Item::Json(object @ Json::Object(members)) = item else {
            return soft(NOT_OBJECT, "jsonpath item method .keyvalue() can only be applied to an object");
        };
        if members.is_empty() {
            return Ok(false);
        }
        let (base, base_id) = self.base;
        let offset = self.offsets.get_or_insert_with(|| Offsets::of(base)).get(object);
        let id = self.arena.alloc_str(&base_id.saturating_mul(OBJECT_IDS).saturating_add(offset).to_string());
        let mut any = false;
        for (key, value) in members {
            let pair = [("id", Json::Number(&*id)), ("key", Json::String(key)), ("value", *value)];
            let pair = Json::Object(self.arena.alloc_slice_copy(&pair));
            let base = (pair, self.generated_objects);
            self.generated_objects += 1;
            any |= self.with_base(base, |this| this.then(then, Item::Json(pair), found.as_deref_mut()))?;
            if any && found.is_none() {
                break;
            }
        }
        Ok(any)
    }
}

fn type_name(item: Item<'_>) -> &'static str {
    match item {
        Item::Json(Json::Null) => "null",
        Item::Json(Json::Bool(_)) => "boolean",
        Item::Json(Json::Number(_)) => "number",
        Item::Json(Json::String(_)) => "string",
        Item::Json(Json::Array(_)) => "array",
        Item::Json(Json::Object(_)) => "object",
        Item::Moment(moment) => moment.type_name(),
    }
}

impl<'t> Item<'t> {
    /// The item as JSON: a date or time is a string.
    pub(super) fn json(self, arena: &'t Bump) -> Json<'t> {
        match self {
            Item::Json(json) => json,
            Item::Moment(moment) => Json::String(arena.alloc_str(&moment.text())),
        }
    }
}
