//! Functions and procedures in the catalog: their encoding, and the rules that all code relies on.
//! Bytes: docs/format/record.md.

use model::{
    Error, Result, RoutineLanguage, RoutineMode, RoutineParameter, RoutineRef, RoutineSpec, RoutineVolatility,
    SqlState, TableName, limits,
};

use crate::catalog::{Catalog, check_name};
use crate::catalog_object::{decode_name, encode_name};
use crate::codec::{Put, Take};

const ROUTINE_PROCEDURE: u8 = 1;
const ROUTINE_SET: u8 = 2;
const ROUTINE_UNQUOTED: u8 = 4;
const ROUTINE_STRICT: u8 = 8;
const ROUTINE_DEFINER: u8 = 16;
const ROUTINE_LEAKPROOF: u8 = 32;
const ROUTINE_FLAGS: u8 = 63;

fn encode_optional(text: Option<&str>, out: &mut Vec<u8>) {
    out.put_u8(u8::from(text.is_some()));
    if let Some(text) = text {
        out.put_bytes(text.as_bytes());
    }
}

fn decode_optional(take: &mut Take<'_>) -> Result<Option<String>> {
    Ok(if take.u8()? == 0 { None } else { Some(take.text()?.to_owned()) })
}

pub(crate) fn encode_routine(routine: &RoutineSpec, out: &mut Vec<u8>) {
    encode_name(&routine.name, out);
    out.put_u32(routine.version);
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    out.put_u8(
        flag(routine.is_procedure, ROUTINE_PROCEDURE)
            | flag(routine.returns_set, ROUTINE_SET)
            | flag(routine.is_unquoted, ROUTINE_UNQUOTED)
            | flag(routine.is_strict, ROUTINE_STRICT)
            | flag(routine.is_definer, ROUTINE_DEFINER)
            | flag(routine.is_leakproof, ROUTINE_LEAKPROOF),
    );
    out.put_u8(routine.language as u8);
    out.put_u8(routine.volatility as u8);
    out.put_u8(routine.parallel);
    out.put_u32(routine.result);
    out.put_u32(routine.parameters.len() as u32);
    for parameter in &routine.parameters {
        out.put_bytes(parameter.name.as_bytes());
        out.put_u8(parameter.mode as u8);
        out.put_u32(parameter.ty);
        encode_optional(parameter.default.as_deref(), out);
    }
    out.put_bytes(routine.body.as_bytes());
    encode_optional(routine.cost.as_deref(), out);
    encode_optional(routine.rows.as_deref(), out);
    out.put_u32(routine.settings.len() as u32);
    for (name, value) in &routine.settings {
        out.put_bytes(name.as_bytes());
        out.put_bytes(value.as_bytes());
    }
}

pub(crate) fn decode_routine(id: u32, take: &mut Take<'_>) -> Result<RoutineSpec> {
    let name = decode_name(take)?;
    let version = take.u32()?;
    let flags = take.u8()?;
    if flags & !ROUTINE_FLAGS != 0 {
        return Err(take.malformed(&format!("has routine flags {flags}")));
    }
    let (language, volatility, parallel, result) = (take.u8()?, take.u8()?, take.u8()?, take.u32()?);
    let parameter = |take: &mut Take<'_>| {
        let (name, mode) = (take.text()?.to_owned(), take.u8()?);
        let mode = RoutineMode::from_code(mode);
        let mode = mode.ok_or_else(|| take.malformed("has a parameter of an unknown mode"))?;
        Ok(RoutineParameter { name, mode, ty: take.u32()?, default: decode_optional(take)? })
    };
    let parameters = (0..take.count(10)?).map(|_| parameter(take)).collect::<Result<Vec<_>>>()?;
    let body = take.text()?.to_owned();
    let (cost, rows) = (decode_optional(take)?, decode_optional(take)?);
    let setting = |take: &mut Take<'_>| Ok((take.text()?.to_owned(), take.text()?.to_owned()));
    let settings = (0..take.count(8)?).map(|_| setting(take)).collect::<Result<Vec<_>>>()?;
    let routine = RoutineSpec {
        id,
        name,
        version,
        is_procedure: flags & ROUTINE_PROCEDURE != 0,
        parameters,
        result,
        returns_set: flags & ROUTINE_SET != 0,
        language: RoutineLanguage::from_code(language)
            .ok_or_else(|| take.malformed(&format!("has routine language {language}")))?,
        body,
        is_unquoted: flags & ROUTINE_UNQUOTED != 0,
        volatility: RoutineVolatility::from_code(volatility)
            .ok_or_else(|| take.malformed(&format!("has volatility {volatility}")))?,
        is_strict: flags & ROUTINE_STRICT != 0,
        is_definer: flags & ROUTINE_DEFINER != 0,
        is_leakproof: flags & ROUTINE_LEAKPROOF != 0,
        parallel,
        cost,
        rows,
        settings,
    };
    check_routine(&routine).map_err(|error| take.malformed(&error.to_string()))?;
    Ok(routine)
}

/// Checks the invariants of routines that all code relies on.
///
/// # Errors
/// 42602, 54000, 54023.
pub(crate) fn check_routine(routine: &RoutineSpec) -> Result<()> {
    check_name("function", &routine.name.table)?;
    for parameter in routine.parameters.iter().filter(|parameter| !parameter.name.is_empty()) {
        check_name("parameter", &parameter.name)?;
    }
    if routine.inputs().count() > limits::ROUTINE_PARAMETERS_MAX {
        let text = format!("functions cannot have more than {} arguments", limits::ROUTINE_PARAMETERS_MAX);
        return Err(Error::new(SqlState("54023"), text));
    }
    let mut definition = Vec::new();
    encode_routine(routine, &mut definition);
    check_bytes("function", &routine.name.to_string(), definition.len())
}

fn check_bytes(what: &str, name: &str, bytes: usize) -> Result<()> {
    if bytes <= limits::ROUTINE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the definition of {what} {name} has {bytes} bytes; the limit is {}", limits::ROUTINE_BYTES_MAX);
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
}

impl Catalog {
    /// The routines of a name.
    pub fn routines_named(&self, name: &TableName) -> impl Iterator<Item = &RoutineRef> {
        let ids = self.routine_names.get(name).map(Vec::as_slice).unwrap_or_default();
        ids.iter().filter_map(|id| self.routines.get(id))
    }

    /// Whether there is a routine at all.
    #[must_use]
    pub fn has_routines(&self) -> bool {
        !self.routines.is_empty()
    }

    /// The routine with this number.
    #[must_use]
    pub fn routine_by_id(&self, id: u32) -> Option<&RoutineRef> {
        self.routines.get(&id)
    }

    /// All routines, by number.
    pub fn routines(&self) -> impl Iterator<Item = &RoutineRef> {
        self.routines.values()
    }

    /// Returns a catalog with a routine added, or replaced by its next version.
    ///
    /// # Errors
    /// 42723 if another one has the name and the types of the input parameters; 3F000, 42704, 54000.
    pub(crate) fn with_routine(&self, routine: RoutineRef) -> Result<Catalog> {
        let mut next = self.without_routine(routine.id);
        next.check_schema(&routine.name)?;
        next.check_routine_types(&routine)?;
        if next.routines.len() >= limits::ROUTINES_MAX {
            let text =
                format!("function {} would be one more than the limit of {}", routine.name, limits::ROUTINES_MAX);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        let types = routine.input_types();
        if next.routines_named(&routine.name).any(|other| other.input_types() == types) {
            let text = format!("function \"{}\" already exists with same argument types", routine.name.table);
            return Err(Error::new(SqlState("42723"), text));
        }
        let ids = next.routine_names.entry(routine.name.clone()).or_default();
        // Ascending, whatever the order of changes was: equal catalogs are equal after a restart.
        let at = ids.partition_point(|id| *id < routine.id);
        ids.insert(at, routine.id);
        next.routines.insert(routine.id, routine);
        Ok(next)
    }

    /// Returns a catalog with a routine removed.
    pub(crate) fn without_routine(&self, id: u32) -> Catalog {
        let mut next = self.clone();
        if let Some(routine) = next.routines.remove(&id)
            && let Some(ids) = next.routine_names.get_mut(&routine.name)
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                next.routine_names.remove(&routine.name);
            }
        }
        next
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;

    pub(crate) fn routine() -> RoutineRef {
        let parameter = |name: &str, mode, default: Option<&str>| RoutineParameter {
            name: name.into(),
            mode,
            ty: 23,
            default: default.map(Into::into),
        };
        Arc::new(RoutineSpec {
            id: 11,
            name: TableName::public("f"),
            version: 2,
            is_procedure: false,
            parameters: vec![parameter("a", RoutineMode::In, None), parameter("", RoutineMode::InOut, Some("1"))],
            result: 23,
            returns_set: true,
            language: RoutineLanguage::PlPgSql,
            body: "BEGIN END".into(),
            is_unquoted: false,
            volatility: RoutineVolatility::Stable,
            is_strict: true,
            is_definer: false,
            is_leakproof: false,
            parallel: b'u',
            cost: Some("5".into()),
            rows: None,
            settings: vec![("work_mem".into(), "1MB".into())],
        })
    }

    #[test]
    fn routine_bytes_are_exactly_these() {
        let mut bytes = Vec::new();
        encode_routine(&routine(), &mut bytes);
        let mut expected: Vec<u8> = Vec::new();
        for text in ["public", "f"] {
            expected.put_bytes(text.as_bytes());
        }
        expected.extend([2, 0, 0, 0, 10, 2, b's', b'u', 23, 0, 0, 0, 2, 0, 0, 0]);
        expected.put_bytes(b"a");
        expected.extend([b'i', 23, 0, 0, 0, 0]);
        expected.put_bytes(b"");
        expected.extend([b'b', 23, 0, 0, 0, 1]);
        expected.put_bytes(b"1");
        expected.put_bytes(b"BEGIN END");
        expected.push(1);
        expected.put_bytes(b"5");
        expected.extend([0, 1, 0, 0, 0]);
        expected.put_bytes(b"work_mem");
        expected.put_bytes(b"1MB");
        assert_eq!(bytes, expected);
        assert_eq!(decode_routine(11, &mut Take::new(&bytes, "test")).unwrap(), *routine());

        for end in 0..bytes.len() {
            assert!(decode_routine(11, &mut Take::new(&bytes[..end], "test")).is_err());
        }
    }

    #[test]
    fn routines_of_a_name_differ_in_the_types_of_their_parameters() {
        let catalog = Catalog::default().with_routine(routine()).unwrap();
        let same = RoutineSpec { id: 13, ..(*routine()).clone() };
        assert_eq!(catalog.with_routine(Arc::new(same.clone())).unwrap_err().state().0, "42723");
        let other = RoutineSpec { parameters: Vec::new(), ..same };
        let catalog = catalog.with_routine(Arc::new(other)).unwrap();
        assert_eq!(catalog.routines_named(&TableName::public("f")).count(), 2);
        let catalog = catalog.without_routine(11).without_routine(13);
        assert_eq!(catalog.routines_named(&TableName::public("f")).count(), 0);
    }
}
