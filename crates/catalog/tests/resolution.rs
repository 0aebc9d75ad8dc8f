//! Operators, functions, casts and common types mean what PostgreSQL 15 says they mean.
//!
//! `data/resolution.txt` holds its answers; `ask.py` asks for them again.

use catalog::{CastContext, Catalog, FunctionCall, Resolved, TypeId, builtin};

const TYPES: [&str; 32] = [
    "unknown",
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "bpchar",
    "char",
    "name",
    "bytea",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "json",
    "jsonb",
    "oid",
    "regclass",
    "point",
    "bit",
    "int4range",
    "_int4",
    "_text",
    "_numeric",
    "record",
];

fn id(name: &str) -> TypeId {
    builtin().type_named(name).unwrap_or_else(|| panic!("no type {name}"))
}

/// An answer in the file's form: a type's name, `-` for nothing that fits, or a SQLSTATE.
fn shown(catalog: &Catalog, answer: model::Result<TypeId>) -> String {
    match answer {
        // A result of unknown type is described as text.
        Ok(TypeId::UNKNOWN) => "text".to_owned(),
        Ok(ty) => catalog.type_row(ty).map_or_else(|| ty.to_string(), |row| row.name.to_owned()),
        Err(error) if error.state().0 == "42883" => "-".to_owned(),
        Err(error) => error.state().0.to_owned(),
    }
}

fn function(catalog: &Catalog, name: &str, given: &[TypeId]) -> model::Result<TypeId> {
    let resolved = catalog.function(&FunctionCall { name, arguments: given, ..FunctionCall::default() })?;
    Ok(match resolved {
        Resolved::Function { result, .. } | Resolved::Cast(result) => result,
    })
}

#[test]
fn names_and_types_mean_what_they_mean_in_postgresql() {
    let catalog = builtin();
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut check = |question: String, ours: String, theirs: &str| {
        asked += 1;
        if ours != theirs {
            wrong.push(format!("{question}: {ours}, PostgreSQL: {theirs}"));
        }
    };
    for line in include_str!("data/resolution.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "operator" => {
                for (right, theirs) in TYPES.iter().zip(&words[3..]) {
                    let ours = catalog.operator(words[1], Some(id(words[2])), id(right)).map(|call| call.result);
                    check(format!("{} {} {right}", words[2], words[1]), shown(catalog, ours), theirs);
                }
            }
            "prefix" => {
                for (right, theirs) in TYPES.iter().zip(&words[2..]) {
                    let ours = catalog.operator(words[1], None, id(right)).map(|call| call.result);
                    check(format!("{} {right}", words[1]), shown(catalog, ours), theirs);
                }
            }
            "function" => {
                let given: Vec<TypeId> = words[2..words.len() - 2].iter().map(|name| id(name)).collect();
                let ours = shown(catalog, function(catalog, words[1], &given));
                check(words[1..words.len() - 2].join(" "), ours, words[words.len() - 1]);
            }
            "common" => {
                let given: Vec<TypeId> = words[1..words.len() - 2].iter().map(|name| id(name)).collect();
                let ours = shown(catalog, catalog.common_type(&given, "COALESCE"));
                check(words.join(" "), ours, words[words.len() - 1]);
            }
            "cast" => {
                for (to, theirs) in TYPES[1..31].iter().zip(&words[2..]) {
                    let ours = catalog.cast(id(words[1]), id(to), CastContext::Explicit).map_or("42846", |_| to);
                    check(format!("{}::{to}", words[1]), ours.to_owned(), theirs);
                }
            }
            other => panic!("unknown question {other}"),
        }
    }
    assert!(asked > 25_000, "only {asked} questions");
    assert!(wrong.is_empty(), "{} of {asked} differ:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}
