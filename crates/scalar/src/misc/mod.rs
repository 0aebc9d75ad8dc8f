//! Functions of values of any type, names of types, and sizes in bytes.

mod sizes;
mod type_limits;
mod type_names;

use std::sync::Arc;

use catalog::TypeId;
use model::{Datum, Error, Record, Result};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function, Rows, SetFunction, TypeSupport};

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: SETS, aggregates: &[] };

const SETS: &[(&str, SetFunction)] = &[
    ("pg_listening_channels", listening_channels),
    ("pg_partition_ancestors", partition_ancestors),
    ("pg_partition_tree", partition_tree),
    ("pg_options_to_table", options_to_table),
];

const TYPES: &[(TypeId, TypeSupport)] = &[
    (
        TypeId::REGTYPE,
        TypeSupport { input: type_names::regtype_input, output: type_names::regtype_output, compare: None },
    ),
    (TypeId::VOID, TypeSupport { input: void_input, output: void_output, compare: None }),
];

const FUNCTIONS: &[(&str, Function)] = &[
    // NULL stands for the default privileges.
    ("acldefault", |_, _, _| Ok(Datum::Null)),
    ("random", random),
    ("gen_random_uuid", gen_random_uuid),
    ("num_nulls", num_nulls),
    ("num_nonnulls", num_nonnulls),
    ("pg_typeof", pg_typeof),
    ("format_type", type_names::format_type),
    ("to_regtype", type_names::to_regtype),
    ("_pg_char_max_length", type_limits::char_max_length),
    ("_pg_char_octet_length", type_limits::char_octet_length),
    ("_pg_numeric_precision", type_limits::numeric_precision),
    ("_pg_numeric_precision_radix", type_limits::numeric_precision_radix),
    ("_pg_numeric_scale", type_limits::numeric_scale),
    ("_pg_datetime_precision", type_limits::datetime_precision),
    ("_pg_interval_type", type_names::interval_type),
    ("regclass", regclass),
    ("oidvectortypes", type_names::oidvectortypes),
    ("pg_size_pretty(int8)", sizes::pg_size_pretty),
    ("pg_size_pretty(numeric)", sizes::pg_size_pretty_numeric),
    ("pg_size_bytes", sizes::pg_size_bytes),
];

/// The value of a function that returns nothing is shown as an empty text.
fn void_input<'a>(_: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Text(""))
}

fn void_output(_: &Datum<'_>, _: TypeId, _: &Context<'_>, _: &mut String) -> Result<()> {
    Ok(())
}

/// The cast of a text to `regclass`.
fn regclass<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Text(name)] = arguments else { return Err(Error::bug("regclass")) };
    crate::input(name, TypeId::REGCLASS, -1, ctx)
}

/// Options that are kept as `name=value`, as names and values.
fn options_to_table<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    let [Datum::Array(options)] = arguments else { return Err(Error::bug("pg_options_to_table")) };
    let mut rows = Vec::with_capacity(options.items.len());
    for option in &options.items {
        let Datum::Text(option) = option else { continue };
        let (name, value) =
            option.split_once('=').map_or((*option, Datum::Null), |(name, value)| (name, Datum::Text(value)));
        let types = [TypeId::TEXT.0, TypeId::TEXT.0].into();
        rows.push(Ok(Datum::Record(Arc::new(Record {
            types,
            names: None,
            values: [Datum::Text(name), value].into(),
        }))));
    }
    Ok(Box::new(rows.into_iter()))
}

/// `pg_listening_channels`: the channels that the session listens to.
fn listening_channels<'a>(_: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Rows<'a>> {
    let channels = ctx.session.objects.as_ref().map(|objects| objects.listening()).unwrap_or_default();
    let texts: Vec<Datum<'a>> = channels.iter().map(|channel| ctx.text(channel)).collect();
    Ok(Box::new(texts.into_iter().map(Ok)))
}

/// The relation that is the argument.
fn relation(arguments: &[Datum<'_>]) -> Result<u32> {
    match arguments {
        [Datum::Oid(oid)] => Ok(*oid),
        _ => Err(Error::bug("a relation that is no regclass")),
    }
}

/// `pg_partition_ancestors`: a partition and those that it is a partition of.
fn partition_ancestors<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Rows<'a>> {
    let relation = relation(arguments)?;
    let ancestors = ctx.session.objects.as_ref().map(|objects| objects.partition_ancestors(relation));
    Ok(Box::new(ancestors.unwrap_or_default().into_iter().map(|oid| Ok(Datum::Oid(oid)))))
}

/// `pg_partition_tree`: a table or index and its partitions on all levels.
fn partition_tree<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Rows<'a>> {
    let relation = relation(arguments)?;
    let tree = ctx.session.objects.as_ref().map(|objects| objects.partition_tree(relation));
    Ok(Box::new(tree.unwrap_or_default().into_iter().map(|(own, parent, is_leaf, level)| {
        Ok(Datum::Record(Arc::new(Record {
            types: [TypeId::REGCLASS.0, TypeId::REGCLASS.0, TypeId::BOOL.0, TypeId::INT4.0].into(),
            names: None,
            values: [Datum::Oid(own), parent.map_or(Datum::Null, Datum::Oid), Datum::Bool(is_leaf), Datum::Int4(level)]
                .into(),
        })))
    })))
}

/// `random`: 53 random bits, below 1.
fn random<'a>(_: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Float8((ctx.outside()?.random() >> 11) as f64 / (1_u64 << 53) as f64))
}

/// `gen_random_uuid`: version 4 of RFC 9562.
fn gen_random_uuid<'a>(_: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let outside = ctx.outside()?;
    let bits = (u128::from(outside.random()) << 64) | u128::from(outside.random());
    let (version, variant) = (0xf_u128 << 76, 0x3_u128 << 62);
    Ok(Datum::Uuid(((bits & !version & !variant) | (0x4 << 76) | (0x2 << 62)).to_be_bytes()))
}

fn num_nulls<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(arguments.iter().filter(|argument| argument.is_null()).count() as i32))
}

fn num_nonnulls<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(arguments.iter().filter(|argument| !argument.is_null()).count() as i32))
}

fn pg_typeof<'a>(_: &[Datum<'a>], call: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [ty] = *call.arguments else { return Err(Error::bug("pg_typeof")) };
    Ok(Datum::Oid(ty.0))
}
