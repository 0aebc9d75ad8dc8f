//! `catalog`: the files of crate `catalog`, and the recorded answers of `binder` and `scalar`, asked of a private PostgreSQL 15.
//!
//! They hold facts of its system catalog, and what it makes of operators, functions and casts over many types. Without
//! `--save` the command fails if the files differ.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::postgres::Postgres;
use crate::run::{output, root};
use crate::tools;

/// Left out are functions over types that only PostgreSQL's own code has values of, by the types' numbers.
const INTERNAL: &str = "2281, 2275, 269, 325, 3310, 3115, 2280, 3838, 2279, 32, 4600, 4601, 5017, 5018, 5019, 4602, 4603, 4604, 3361, 3402";

/// Files and the queries that give their lines.
fn files() -> [(&'static str, String); 5] {
    [
        (
            "types.tsv",
            "SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred,
               CASE WHEN typlen = -1 AND typsubscript = 'array_subscript_handler'::regproc THEN typelem ELSE 0 END, typarray, typbasetype
             FROM pg_type WHERE oid < 10000 AND typrelid = 0
               AND (typelem = 0 OR NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = pg_type.typelem AND e.typrelid <> 0))
             ORDER BY oid"
                .to_owned(),
        ),
        (
            "functions.tsv",
            format!(
                "SELECT p.oid, proname, prokind, coalesce(aggkind, '-'), coalesce(aggnumdirectargs, 0), provariadic, proisstrict,
                   proretset, provolatile, prorettype, proargtypes, pronargdefaults, proallargtypes::text, proargmodes::text,
                   proargnames::text, (SELECT string_agg(pg_get_function_arg_default(p.oid, n), '|' ORDER BY n)
                     FROM generate_series(pronargs - pronargdefaults + 1, pronargs) n WHERE pronargdefaults > 0)
                 FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
                 WHERE p.oid < 10000 AND pronamespace = 'pg_catalog'::regnamespace AND NOT EXISTS
                   (SELECT FROM unnest(array_append(proargtypes::oid[], prorettype)) t WHERE t IN ({INTERNAL}))
                 ORDER BY p.oid"
            ),
        ),
        (
            "operators.tsv",
            "SELECT oid, oprname, oprkind, oprleft, oprright, oprresult, oprcode::oid, oprcom, oprnegate, oprcanmerge, oprcanhash
             FROM pg_operator WHERE oid < 10000 ORDER BY oid"
                .to_owned(),
        ),
        (
            "casts.tsv",
            "SELECT castsource, casttarget, castfunc, castcontext, castmethod FROM pg_cast WHERE oid < 13000 ORDER BY 1, 2"
                .to_owned(),
        ),
        (
            "settings.tsv",
            "SELECT name, vartype, coalesce(unit, ''), context, coalesce(min_val, ''), coalesce(max_val, ''),
               coalesce(array_to_string(enumvals, ','), ''), coalesce(boot_val, ''), category
             FROM pg_settings ORDER BY name COLLATE \"C\""
                .to_owned(),
        ),
    ]
}

/// `cargo xtask catalog [--save]`.
pub(crate) fn run(arguments: &[String]) -> Result {
    let save = match arguments {
        [] => false,
        [option] if option == "--save" => true,
        _ => return Err(format!("do not know what to do with {arguments:?}; expected nothing or --save")),
    };
    let tools = tools::fetch()?;
    let work = std::env::temp_dir().join(format!("millrace-catalog-{}", std::process::id()));
    let result =
        Postgres::start(&tools.postgres, work.clone()).and_then(|postgres| ask(&postgres, &tools.python, save));
    let _ = std::fs::remove_dir_all(&work);
    result
}

fn ask(postgres: &Postgres, python: &Path, save: bool) -> Result {
    let folder = root().join("crates/catalog");
    let mut client = postgres.connect("postgres")?;
    for (name, query) in files() {
        let lines = client.copied(&format!("COPY ({query}) TO STDOUT"))?;
        keep(&folder.join("data").join(name), &lines, save)?;
    }
    println!("catalog: asking PostgreSQL what operators, functions and casts mean");
    let answers = output(Command::new(python).arg(folder.join("tests/ask.py")).arg(postgres.conninfo()))?;
    keep(&folder.join("tests/data/resolution.txt"), &answers, save)?;
    println!("catalog: asking PostgreSQL to describe queries and changes");
    let folder = root().join("crates/binder/tests");
    for name in ["tables", "indexes", "queries", "changes"] {
        let mut ask = Command::new(python);
        let ask = ask.arg(folder.join("ask.py")).arg(postgres.conninfo()).arg(name);
        keep(&folder.join("data").join(format!("{name}.tsv")), &output(ask)?, save)?;
    }
    println!("catalog: asking PostgreSQL for the results of functions");
    let folder = root().join("crates/scalar/tests");
    let files = std::fs::read_dir(folder.join("data")).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in files.flatten().map(|file| file.path()) {
        let mut ask = Command::new(python);
        keep(&path, &output(ask.arg(folder.join("ask.py")).arg(postgres.conninfo()).arg(&path))?, save)?;
    }
    Ok(())
}

fn keep(path: &Path, text: &str, save: bool) -> Result {
    let shown = path.display();
    let before = std::fs::read_to_string(path).unwrap_or_default();
    if before == text {
        return Ok(());
    }
    if !save {
        return Err(format!("{shown} differs from what PostgreSQL says; `cargo xtask catalog --save` writes it again"));
    }
    println!("catalog: writing {shown}");
    std::fs::write(path, text).map_err(|error| format!("{shown}: {error}"))
}
