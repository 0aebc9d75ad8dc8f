//! Polymorphic parameters: the types that `anyelement` and its kin stand for in a call.

use model::{Error, Result, SqlState};

use crate::tables::Catalog;
use crate::types::{TypeId, TypeKind};

/// Element types of the built-in ranges.
const RANGES: [(TypeId, TypeId); 6] = [
    (TypeId(3904), TypeId::INT4),
    (TypeId(3906), TypeId::NUMERIC),
    (TypeId(3908), TypeId::TIMESTAMP),
    (TypeId(3910), TypeId::TIMESTAMPTZ),
    (TypeId(3912), TypeId::DATE),
    (TypeId(3926), TypeId::INT8),
];

/// Facts about the polymorphic parameters that the arguments give.
#[derive(Default)]
struct Found {
    element: Option<TypeId>,
    array: Option<TypeId>,
    range: Option<TypeId>,
    multirange: bool,
    nonarray: bool,
    is_enum: bool,
    simple: usize,
    compatible: usize,
    /// Types of arguments for `anycompatible` and its kin.
    compatible_types: Vec<TypeId>,
    compatible_nonarray: bool,
}

/// Two types that should be one.
struct Clash(String);

impl Catalog {
    /// Whether arguments of types `given` fit polymorphic parameters together.
    pub(crate) fn is_consistent(&self, given: &[TypeId], declared: &[TypeId]) -> bool {
        self.find(given, declared).and_then(|found| self.check(&found).map(drop)).is_ok()
    }

    /// The types that a call's parameters and result have; literals of unknown type become those of the others.
    ///
    /// # Errors
    /// 42804 if the arguments do not fit, or say nothing about a type that is needed.
    pub(crate) fn resolve_polymorphic(
        &self,
        given: &[TypeId],
        declared: &[TypeId],
        result: TypeId,
    ) -> Result<(Vec<TypeId>, TypeId)> {
        if !declared.iter().any(|ty| ty.is_polymorphic()) {
            return Ok((declared.to_vec(), result));
        }
        let mismatch = |text: String| Error::new(SqlState::DATATYPE_MISMATCH, text);
        let found = self.find(given, declared).map_err(|clash| mismatch(clash.0))?;
        let (element, compatible) = self.check(&found).map_err(|clash| mismatch(clash.0))?;
        if found.simple > 0 && element.is_none() {
            return Err(mismatch("could not determine polymorphic type because input has type unknown".to_owned()));
        }
        // Literals alone are text for `anycompatible`.
        let compatible = compatible.or((found.compatible > 0).then_some(TypeId::TEXT));
        let actual = |ty: &TypeId| self.actual(*ty, element, compatible, &found);
        let parameters = declared.iter().map(actual).collect::<Result<_>>()?;
        Ok((parameters, actual(&result)?))
    }

    fn find(&self, given: &[TypeId], declared: &[TypeId]) -> std::result::Result<Found, Clash> {
        let mut found = Found::default();
        for (given, declared) in given.iter().zip(declared) {
            found.simple += usize::from(declared.is_simple_polymorphic());
            found.compatible += usize::from(declared.is_compatible_polymorphic());
            found.nonarray |= *declared == TypeId::ANYNONARRAY;
            found.is_enum |= *declared == TypeId::ANYENUM;
            found.compatible_nonarray |= *declared == TypeId::ANYCOMPATIBLENONARRAY;
            if *given == TypeId::UNKNOWN {
                continue;
            }
            match *declared {
                TypeId::ANYELEMENT | TypeId::ANYNONARRAY | TypeId::ANYENUM => {
                    self.same(&mut found.element, *given, "anyelement")?;
                }
                TypeId::ANYARRAY => {
                    let given = self.base_type(*given);
                    if self.element_of(given).is_none() {
                        let name = self.type_name(given);
                        return Err(Clash(format!("argument declared anyarray is not an array but type {name}")));
                    }
                    self.same(&mut found.array, given, "anyarray")?;
                }
                TypeId::ANYRANGE | TypeId::ANYCOMPATIBLERANGE => {
                    let given = self.base_type(*given);
                    if self.kind(given) != TypeKind::Range {
                        let name = self.type_name(given);
                        return Err(Clash(format!("argument declared anyrange is not a range type but type {name}")));
                    }
                    self.same(&mut found.range, given, "anyrange")?;
                }
                TypeId::ANYMULTIRANGE | TypeId::ANYCOMPATIBLEMULTIRANGE => {
                    if self.kind(self.base_type(*given)) != TypeKind::Multirange {
                        let name = self.type_name(*given);
                        let text = format!("argument declared anymultirange is not a multirange type but type {name}");
                        return Err(Clash(text));
                    }
                    found.multirange = true;
                }
                TypeId::ANYCOMPATIBLE | TypeId::ANYCOMPATIBLENONARRAY => found.compatible_types.push(*given),
                TypeId::ANYCOMPATIBLEARRAY => match self.element_of(self.base_type(*given)) {
                    Some(element) => found.compatible_types.push(element),
                    None => {
                        let name = self.type_name(*given);
                        return Err(Clash(format!(
                            "argument declared anycompatiblearray is not an array but type {name}"
                        )));
                    }
                },
                _ => {}
            }
        }
        Ok(found)
    }

    fn same(&self, slot: &mut Option<TypeId>, given: TypeId, declared: &str) -> std::result::Result<(), Clash> {
        match *slot {
            Some(other) if other != given => {
                let (other, given) = (self.type_name(other), self.type_name(given));
                Err(Clash(format!("arguments declared \"{declared}\" are not all alike: {other} versus {given}")))
            }
            _ => {
                *slot = Some(given);
                Ok(())
            }
        }
    }

    /// The element type and the common type, if the arguments say them.
    fn check(&self, found: &Found) -> std::result::Result<(Option<TypeId>, Option<TypeId>), Clash> {
        let mut element = found.element;
        if let Some(of) = found.array.and_then(|array| self.element_of(array)) {
            self.same(&mut element, of, "anyelement")?;
        }
        if let Some(range) = found.range.filter(|_| found.simple > 0) {
            let of = RANGES.iter().find(|(id, _)| *id == range).map_or(TypeId::INVALID, |(_, element)| *element);
            self.same(&mut element, of, "anyelement")?;
        }
        if found.multirange && element.is_none() {
            element = Some(TypeId::INVALID);
        }
        if let Some(element) = element {
            if found.nonarray && self.element_of(self.base_type(element)).is_some() {
                return Err(Clash(format!(
                    "type matched to anynonarray is an array type: {}",
                    self.type_name(element)
                )));
            }
            if found.is_enum && self.kind(element) != TypeKind::Enum {
                return Err(Clash(format!("type matched to anyenum is not an enum type: {}", self.type_name(element))));
            }
        }
        if found.compatible_types.is_empty() {
            return Ok((element, None));
        }
        let common = self.choose_common(&found.compatible_types).map_err(|(one, other)| {
            let (one, other) = (self.type_name(one), self.type_name(other));
            Clash(format!("arguments of anycompatible family cannot be cast to a common type: {one} versus {other}"))
        })?;
        if found.compatible_nonarray && self.element_of(self.base_type(common)).is_some() {
            let name = self.type_name(common);
            return Err(Clash(format!("type matched to anycompatiblenonarray is an array type: {name}")));
        }
        let implicit = crate::cast::CastContext::Implicit;
        if found.compatible_types.iter().any(|ty| !self.can_coerce(&[*ty], &[common], implicit)) {
            return Err(Clash("arguments of anycompatible family cannot be cast to a common type".to_owned()));
        }
        Ok((element, Some(common)))
    }

    fn actual(&self, ty: TypeId, element: Option<TypeId>, compatible: Option<TypeId>, found: &Found) -> Result<TypeId> {
        let array_of = |of: Option<TypeId>| {
            let of = of.unwrap_or(TypeId::INVALID);
            self.array_of(of).ok_or_else(|| {
                let text = format!("could not find array type for data type {}", self.type_name(of));
                Error::new(SqlState::UNDEFINED_OBJECT, text)
            })
        };
        Ok(match ty {
            TypeId::ANYELEMENT | TypeId::ANYNONARRAY | TypeId::ANYENUM => element.unwrap_or(ty),
            TypeId::ANYARRAY => match found.array {
                Some(array) => array,
                None => array_of(element)?,
            },
            TypeId::ANYRANGE | TypeId::ANYCOMPATIBLERANGE => found.range.unwrap_or(ty),
            TypeId::ANYCOMPATIBLE | TypeId::ANYCOMPATIBLENONARRAY => compatible.unwrap_or(ty),
            TypeId::ANYCOMPATIBLEARRAY => array_of(compatible)?,
            ty => ty,
        })
    }
}
