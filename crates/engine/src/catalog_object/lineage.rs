//! Encoding of the inheritance and partitioning of a `rows` table.

use model::{
    InheritedCheck, InheritedColumn, Lineage, PartitionBound, PartitionKey, PartitionKeyPart, PartitionKeySource,
    PartitionStrategy, RangeEdge, Result, TableId, Type,
};

use crate::codec::{Put, Take};

const BOUND_NONE: u8 = 0;
const BOUND_DEFAULT: u8 = 1;
const BOUND_LIST: u8 = 2;
const BOUND_RANGE: u8 = 3;
const BOUND_HASH: u8 = 4;
const EDGE_MIN: u8 = 0;
const EDGE_VALUE: u8 = 1;
const EDGE_MAX: u8 = 2;
const CHECK_LOCAL: u8 = 1;
const CHECK_NO_INHERIT: u8 = 2;
const PART_COLUMN: u8 = 0;
const PART_EXPRESSION: u8 = 1;

/// Appends the lineage; nothing for a table without any.
pub(super) fn encode(lineage: &Lineage, out: &mut Vec<u8>) {
    if lineage.is_plain() {
        return;
    }
    for tables in [&lineage.parents, &lineage.children] {
        out.put_u32(tables.len() as u32);
        tables.iter().for_each(|table| out.put_u32(table.0));
    }
    out.put_u8(lineage.key.as_ref().map_or(0, |key| key.strategy as u8));
    if let Some(key) = &lineage.key {
        out.put_u32(key.parts.len() as u32);
        for part in &key.parts {
            match &part.source {
                PartitionKeySource::Column(at) => {
                    out.put_u8(PART_COLUMN);
                    out.put_u32(*at as u32);
                }
                PartitionKeySource::Expression(sql) => {
                    out.put_u8(PART_EXPRESSION);
                    out.put_bytes(sql.as_bytes());
                }
            }
            out.put_u32(part.ty.oid());
            out.put_u32(part.ty.typmod().cast_unsigned());
        }
    }
    encode_bound(lineage.bound.as_ref(), out);
    out.put_u32(lineage.columns.len() as u32);
    for column in &lineage.columns {
        out.put_u32(column.position as u32);
        out.put_u32(column.parents);
        out.put_u8(u8::from(column.local));
    }
    out.put_u32(lineage.checks.len() as u32);
    for check in &lineage.checks {
        out.put_bytes(check.name.as_bytes());
        out.put_u32(check.parents);
        let flag = |set, flag| if set { flag } else { 0 };
        out.put_u8(flag(check.local, CHECK_LOCAL) | flag(check.no_inherit, CHECK_NO_INHERIT));
    }
    out.put_u32(lineage.indexes.len() as u32);
    for (own, parent) in &lineage.indexes {
        out.put_u32(*own);
        out.put_u32(*parent);
    }
    out.put_u32(lineage.foreign_keys.len() as u32);
    lineage.foreign_keys.iter().for_each(|name| out.put_bytes(name.as_bytes()));
}

fn encode_bound(bound: Option<&PartitionBound>, out: &mut Vec<u8>) {
    match bound {
        None => out.put_u8(BOUND_NONE),
        Some(PartitionBound::Default) => out.put_u8(BOUND_DEFAULT),
        Some(PartitionBound::List(values)) => {
            out.put_u8(BOUND_LIST);
            out.put_u32(values.len() as u32);
            for value in values {
                out.put_u8(u8::from(value.is_some()));
                value.iter().for_each(|value| out.put_bytes(value));
            }
        }
        Some(PartitionBound::Range { from, to }) => {
            out.put_u8(BOUND_RANGE);
            for edges in [from, to] {
                out.put_u32(edges.len() as u32);
                for edge in edges {
                    match edge {
                        RangeEdge::Min => out.put_u8(EDGE_MIN),
                        RangeEdge::Max => out.put_u8(EDGE_MAX),
                        RangeEdge::Value(value) => {
                            out.put_u8(EDGE_VALUE);
                            out.put_bytes(value);
                        }
                    }
                }
            }
        }
        Some(PartitionBound::Hash { modulus, remainder }) => {
            out.put_u8(BOUND_HASH);
            out.put_u32(*modulus);
            out.put_u32(*remainder);
        }
    }
}

/// Decodes the bytes of [`encode`], to the end.
pub(super) fn decode(take: &mut Take<'_>) -> Result<Lineage> {
    if take.is_empty() {
        return Ok(Lineage::default());
    }
    let tables =
        |take: &mut Take<'_>| (0..take.count(4)?).map(|_| Ok(TableId(take.u32()?))).collect::<Result<Vec<_>>>();
    let (parents, children) = (tables(take)?, tables(take)?);
    let key = match take.u8()? {
        0 => None,
        code => {
            let strategy = PartitionStrategy::from_code(code);
            let strategy = strategy.ok_or_else(|| take.malformed(&format!("has partition strategy {code}")))?;
            let parts = (0..take.count(13)?).map(|_| decode_part(take)).collect::<Result<_>>()?;
            Some(PartitionKey { strategy, parts })
        }
    };
    let bound = decode_bound(take)?;
    let column = |take: &mut Take<'_>| {
        Ok(InheritedColumn { position: take.u32()? as usize, parents: take.u32()?, local: take.u8()? != 0 })
    };
    let columns = (0..take.count(9)?).map(|_| column(take)).collect::<Result<_>>()?;
    let check = |take: &mut Take<'_>| {
        let (name, parents, flags) = (take.text()?.to_owned(), take.u32()?, take.u8()?);
        let (local, no_inherit) = (flags & CHECK_LOCAL != 0, flags & CHECK_NO_INHERIT != 0);
        Ok(InheritedCheck { name, parents, local, no_inherit })
    };
    let checks = (0..take.count(9)?).map(|_| check(take)).collect::<Result<_>>()?;
    let indexes = (0..take.count(8)?).map(|_| Ok((take.u32()?, take.u32()?))).collect::<Result<_>>()?;
    let foreign_keys = (0..take.count(4)?).map(|_| Ok(take.text()?.to_owned())).collect::<Result<_>>()?;
    Ok(Lineage { parents, children, key, bound, columns, checks, indexes, foreign_keys })
}

fn decode_part(take: &mut Take<'_>) -> Result<PartitionKeyPart> {
    let source = match take.u8()? {
        PART_COLUMN => PartitionKeySource::Column(take.u32()? as usize),
        PART_EXPRESSION => PartitionKeySource::Expression(take.text()?.to_owned()),
        other => return Err(take.malformed(&format!("has a part of a partition key of kind {other}"))),
    };
    let (oid, typmod) = (take.u32()?, take.u32()?.cast_signed());
    let ty = Type::from_oid(oid, typmod);
    Ok(PartitionKeyPart {
        source,
        ty: ty.ok_or_else(|| take.malformed(&format!("has a partition key of type {oid}, {typmod}")))?,
    })
}

fn decode_bound(take: &mut Take<'_>) -> Result<Option<PartitionBound>> {
    Ok(Some(match take.u8()? {
        BOUND_NONE => return Ok(None),
        BOUND_DEFAULT => PartitionBound::Default,
        BOUND_LIST => {
            let value =
                |take: &mut Take<'_>| Ok(if take.u8()? == 0 { None } else { Some(Box::<[u8]>::from(take.bytes()?)) });
            PartitionBound::List((0..take.count(1)?).map(|_| value(take)).collect::<Result<_>>()?)
        }
        BOUND_RANGE => {
            let edge = |take: &mut Take<'_>| {
                Ok(match take.u8()? {
                    EDGE_MIN => RangeEdge::Min,
                    EDGE_MAX => RangeEdge::Max,
                    EDGE_VALUE => RangeEdge::Value(take.bytes()?.into()),
                    other => return Err(take.malformed(&format!("has a range with a bound of kind {other}"))),
                })
            };
            let edges = |take: &mut Take<'_>| (0..take.count(1)?).map(|_| edge(take)).collect::<Result<Vec<_>>>();
            PartitionBound::Range { from: edges(take)?, to: edges(take)? }
        }
        BOUND_HASH => {
            let (modulus, remainder) = (take.u32()?, take.u32()?);
            if modulus == 0 || remainder >= modulus {
                return Err(take.malformed(&format!("has modulus {modulus} and remainder {remainder}")));
            }
            PartitionBound::Hash { modulus, remainder }
        }
        other => return Err(take.malformed(&format!("has a partition bound of kind {other}"))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage() -> Lineage {
        Lineage {
            parents: vec![TableId(7)],
            children: vec![TableId(9), TableId(10)],
            key: Some(PartitionKey {
                strategy: PartitionStrategy::Range,
                parts: vec![
                    PartitionKeyPart { source: PartitionKeySource::Column(1), ty: Type::Int4 },
                    PartitionKeyPart { source: PartitionKeySource::Expression("a + 1".into()), ty: Type::Text },
                ],
            }),
            bound: Some(PartitionBound::List(vec![None, Some([1, 2].into())])),
            columns: vec![InheritedColumn { position: 0, parents: 1, local: true }],
            checks: vec![InheritedCheck { name: "c".into(), parents: 2, local: false, no_inherit: true }],
            indexes: vec![(3, 4)],
            foreign_keys: vec!["f".into()],
        }
    }

    fn encoded(lineage: &Lineage) -> Vec<u8> {
        let mut out = Vec::new();
        encode(lineage, &mut out);
        out
    }

    #[test]
    fn lineages_round_trip_and_a_plain_table_takes_no_bytes() {
        let range = PartitionBound::Range {
            from: vec![RangeEdge::Value([5].into()), RangeEdge::Min],
            to: vec![RangeEdge::Max, RangeEdge::Max],
        };
        let bounds = [None, Some(PartitionBound::Default), Some(range), lineage().bound];
        let hash = Some(PartitionBound::Hash { modulus: 4, remainder: 3 });
        for bound in bounds.into_iter().chain([hash]) {
            let lineage = Lineage { bound, ..lineage() };
            assert_eq!(decode(&mut Take::new(&encoded(&lineage), "lineage")).unwrap(), lineage);
        }
        assert!(encoded(&Lineage::default()).is_empty());
    }

    #[test]
    fn cut_bytes_and_unknown_codes_are_errors() {
        let bytes = encoded(&lineage());
        for end in 1..bytes.len() {
            assert!(decode(&mut Take::new(&bytes[..end], "lineage")).is_err(), "{end}");
        }
        let hash = Lineage { bound: Some(PartitionBound::Hash { modulus: 4, remainder: 4 }), ..Lineage::default() };
        assert!(decode(&mut Take::new(&encoded(&hash), "lineage")).is_err());
    }
}
