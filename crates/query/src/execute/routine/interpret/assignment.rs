//! Assignments to variables, fields of records and elements of arrays.

use std::sync::Arc;

use catalog::TypeId;
use model::{ArrayDimension, Error, Result, SqlState};
use parser::plpgsql::Target;
use scalar::Value;

use super::{Kind, Run};
use crate::execute::routine::ResultColumn;
use crate::execute::routine::values::{converted, record_of, shaped};
use crate::routines::{Shape, value_type};
use crate::session::Session;

/// Maximum number of elements of an array that an assignment makes longer.
const ELEMENTS_MAX: usize = 1 << 24;
/// Maximum number of dimensions of an array.
const DIMENSIONS_MAX: usize = 6;
/// Memory of fewer bytes is not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;

impl Run {
    /// Assigns a value of a type to a slot.
    pub(super) fn assign_slot(&mut self, session: &mut Session, slot: usize, value: Value, from: TypeId) -> Result<()> {
        let of = &self.slots[slot];
        if of.constant {
            let text = format!("variable \"{}\" is declared CONSTANT", of.name);
            return Err(Error::new(SqlState("22005"), text));
        }
        let (to, typmod) = match of.kind {
            Kind::Value(ty, typmod) => (ty, typmod),
            _ => return self.assign_record(session, slot, value),
        };
        let value = converted(session, value, from, to, typmod)?;
        let of = &mut self.slots[slot];
        if of.not_null && value.is_null() {
            let text = format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", of.name);
            return Err(Error::new(SqlState("22004"), text));
        }
        self.set(session, slot, value)
    }

    /// Gives a variable a value, whose memory is counted.
    pub(super) fn set(&mut self, session: &Session, slot: usize, value: Value) -> Result<()> {
        let old = std::mem::replace(&mut self.slots[slot].value, value);
        self.count_bytes(session, old.heap_size(), self.slots[slot].value.heap_size())
    }

    pub(super) fn count_bytes(&mut self, session: &Session, removed: usize, added: usize) -> Result<()> {
        if removed == added {
            return Ok(());
        }
        self.value_bytes = self.value_bytes.saturating_sub(removed) + added;
        if self.value_bytes < COUNTED_BYTES_MIN && self.held_values.is_none() {
            return Ok(());
        }
        let runtime = session.database.runtime();
        self.held_values.get_or_insert_with(|| runtime.reserved("variables of a function")).resize(self.value_bytes)
    }

    /// Ends the variables and names from these numbers on.
    pub(super) fn leave(&mut self, slots: usize, names: usize) {
        let ended = self.slots.drain(slots.min(self.slots.len())..);
        let bytes: usize = ended.map(|slot| slot.value.heap_size()).sum();
        self.value_bytes = self.value_bytes.saturating_sub(bytes);
        self.names.truncate(names);
    }

    pub(super) fn assign_record(&mut self, session: &mut Session, slot: usize, value: Value) -> Result<()> {
        let shape = match &self.slots[slot].kind {
            Kind::Row(shape) => Some(Arc::clone(shape)),
            _ => None,
        };
        let value = match (value, shape) {
            (Value::Record(types, _, values), Some(shape)) => shaped(session, &types, values.into(), &shape)?,
            (Value::Record(types, names, values), None) => {
                let name = |at: usize| match &names {
                    Some(names) => names.get(at).cloned().unwrap_or_default(),
                    None => format!("f{}", at + 1).into(),
                };
                let shape: Shape = types.iter().enumerate().map(|(at, ty)| (name(at), TypeId(*ty), -1)).collect();
                self.slots[slot].kind = Kind::Record(Some(shape));
                Value::Record(types, names, values)
            }
            (value, _) if value.is_null() => Value::NULL,
            _ => {
                let text = "cannot assign non-composite value to a record variable";
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
            }
        };
        self.set(session, slot, value)
    }

    /// Replaces an element of an array of one dimension in place, if the value needs no conversion. Returns the memory of the
    /// old and the new one; `None` if the array must be made anew.
    pub(super) fn replace_element(
        &mut self,
        slot: usize,
        subscripts: &[i32],
        value: &Value,
        from: TypeId,
    ) -> Option<(usize, usize)> {
        let of = &mut self.slots[slot];
        let Kind::Value(ty, typmod) = of.kind else { return None };
        let is_plain = !of.constant && typmod < 0 && value_type(ty.0) == ty;
        if !is_plain || catalog::builtin().element_of(ty) != Some(from) {
            return None;
        }
        let (Value::Array { dimensions, items, .. }, [at]) = (&mut of.value, subscripts) else { return None };
        let [dimension] = &**dimensions else { return None };
        let place = usize::try_from(i64::from(*at) - i64::from(dimension.lower)).ok()?;
        let item = items.get_mut(place)?;
        let removed = item.heap_size();
        *item = value.clone();
        Some((removed, item.heap_size()))
    }

    /// Assigns a value to a variable, a field of a record, or an element of an array.
    pub(super) async fn assign(
        &mut self,
        session: &mut Session,
        target: &Target,
        value: Value,
        from: TypeId,
    ) -> Result<()> {
        let (slot, fields) = self.expect(&target.path)?;
        if fields.is_empty() && target.subscripts.is_empty() {
            return self.assign_slot(session, slot, value, from);
        }
        let mut subscripts = Vec::with_capacity(target.subscripts.len());
        for subscript in &target.subscripts {
            let index = self.integer(session, subscript).await?;
            let index = index
                .and_then(|index| i32::try_from(index).ok())
                .ok_or_else(|| Error::new(SqlState("22004"), "array subscript in assignment must not be null"))?;
            subscripts.push(index);
        }
        if fields.is_empty() {
            let Kind::Value(ty, _) = self.slots[slot].kind else {
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, "subscripted object is not an array"));
            };
            if let Some((removed, added)) = self.replace_element(slot, &subscripts, &value, from) {
                return self.count_bytes(session, removed, added);
            }
            let base = value_type(ty.0);
            let array = self.slots[slot].value.clone();
            let changed = with_element(session, array, base, &subscripts, value, from)?;
            let ty = base;
            return self.assign_slot(session, slot, changed, ty);
        }
        let name = self.slots[slot].name.clone();
        let shape = match &self.slots[slot].kind {
            Kind::Row(shape) | Kind::Record(Some(shape)) => Arc::clone(shape),
            Kind::Record(None) => {
                return Err(Error::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("record \"{name}\" is not assigned yet"),
                )
                .with_kind(model::ErrorKind::Invalid)
                .with_detail("The tuple structure of a not-yet-assigned record is indeterminate."));
            }
            Kind::Value(..) => {
                let text = format!("\"{}\" is not a known variable", target.path.join("."));
                return Err(Error::new(SqlState::SYNTAX_ERROR, text));
            }
        };
        let [field] = fields else { return Err(Error::unsupported("fields of fields are not supported")) };
        let Some(at) = shape.iter().position(|(other, ..)| **other == **field) else {
            let text = format!("record \"{name}\" has no field \"{field}\"");
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
        };
        let (_, to, typmod) = shape[at].clone();
        let old = std::mem::replace(&mut self.slots[slot].value, Value::NULL);
        let old_bytes = old.heap_size();
        let mut values: Vec<Value> = match old {
            Value::Record(_, _, values) => values.into(),
            _ => vec![Value::NULL; shape.len()],
        };
        let changed = match subscripts.is_empty() {
            true => converted(session, value, from, to, typmod),
            false => with_element(session, values[at].clone(), to, &subscripts, value, from),
        };
        let (changed, error) = match changed {
            Ok(changed) => (changed, None),
            Err(error) => (values[at].clone(), Some(error)),
        };
        values[at] = changed;
        let types = shape.iter().map(|(_, ty, _)| ty.0).collect();
        let names: Box<[Box<str>]> = shape.iter().map(|(name, ..)| name.clone()).collect();
        self.slots[slot].value = Value::Record(types, Some(names.into()), values.into());
        self.count_bytes(session, old_bytes, self.slots[slot].value.heap_size())?;
        error.map_or(Ok(()), Err)
    }

    /// Assigns a row of a result to targets; NULLs without one.
    pub(super) async fn assign_row(
        &mut self,
        session: &mut Session,
        targets: &[Target],
        columns: &[ResultColumn],
        row: Option<Vec<Value>>,
    ) -> Result<()> {
        if let [target] = targets
            && let (slot, []) = self.expect(&target.path)?
            && target.subscripts.is_empty()
            && !matches!(self.slots[slot].kind, Kind::Value(..))
        {
            let value = match row {
                None => {
                    if let Kind::Record(shape) = &mut self.slots[slot].kind {
                        *shape = Some(columns.into());
                    }
                    Value::NULL
                }
                Some(mut row) => {
                    if let (1, Some(Value::Record(..))) = (row.len(), row.first()) {
                        row.remove(0)
                    } else {
                        let fixed = match &self.slots[slot].kind {
                            Kind::Row(shape) => Some(Arc::clone(shape)),
                            _ => None,
                        };
                        if let Some(shape) = &fixed {
                            row.resize(shape.len(), Value::NULL);
                        }
                        record_of(session, columns, row, fixed.as_ref())?
                    }
                }
            };
            return self.assign_record(session, slot, value);
        }
        let mut values = row.unwrap_or_default().into_iter();
        for (at, target) in targets.iter().enumerate() {
            let value = values.next().unwrap_or(Value::NULL);
            let from = columns.get(at).map_or(TypeId::TEXT, |column| column.1);
            self.assign(session, target, value, from).await?;
        }
        Ok(())
    }
}

/// An array with one element replaced, or added next to the others of an array of one dimension.
fn with_element(
    session: &mut Session,
    array: Value,
    ty: TypeId,
    subscripts: &[i32],
    value: Value,
    from: TypeId,
) -> Result<Value> {
    let Some(element) = catalog::builtin().element_of(ty) else {
        let name = catalog::builtin().type_name(ty);
        let text = format!("cannot subscript type {name} because it does not support subscripting");
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    };
    let value = converted(session, value, from, element, -1)?;
    let range = || Error::new(SqlState("2202E"), "array subscript out of range");
    let (mut dimensions, mut items) = match array {
        Value::Array { dimensions, items, .. } => (dimensions.into_vec(), items.into_vec()),
        _ => (Vec::new(), Vec::new()),
    };
    // Memory of the new elements; the variable counts it once they are there.
    let held = session.database.runtime().reserved("elements of an array");
    let reserve = |elements: usize| held.resize(elements * size_of::<Value>());
    if subscripts.len() > DIMENSIONS_MAX {
        let text =
            format!("number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})", subscripts.len());
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    if dimensions.is_empty() {
        dimensions = subscripts.iter().map(|at| ArrayDimension { length: 1, lower: *at }).collect();
        items = vec![value];
    } else if dimensions.len() != subscripts.len() {
        return Err(Error::new(SqlState("2202E"), "wrong number of array subscripts"));
    } else if let ([dimension], [at]) = (dimensions.as_mut_slice(), subscripts) {
        let place = i64::from(*at) - i64::from(dimension.lower);
        if place < 0 {
            let missing = usize::try_from(-place).map_err(|_| range())?;
            if missing + items.len() > ELEMENTS_MAX {
                return Err(range());
            }
            reserve(missing + items.len())?;
            items.splice(0..0, std::iter::repeat_n(Value::NULL, missing));
            items[0] = value;
            dimension.lower = *at;
        } else {
            let place = usize::try_from(place).map_err(|_| range())?;
            if place >= ELEMENTS_MAX {
                return Err(range());
            }
            if place >= items.len() {
                reserve(place + 1)?;
                items.resize(place + 1, Value::NULL);
            }
            items[place] = value;
        }
        dimension.length = i32::try_from(items.len()).map_err(|_| range())?;
    } else {
        let mut place = 0_usize;
        for (dimension, at) in dimensions.iter().zip(subscripts) {
            let offset = i64::from(*at) - i64::from(dimension.lower);
            let offset = usize::try_from(offset).ok().filter(|offset| *offset < dimension.length as usize);
            place = place * dimension.length as usize + offset.ok_or_else(range)?;
        }
        *items.get_mut(place).ok_or_else(range)? = value;
    }
    Ok(Value::Array { element: element.0, dimensions: dimensions.into(), items: items.into() })
}
