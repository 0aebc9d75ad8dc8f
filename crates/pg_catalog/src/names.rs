//! Names and definitions of catalog objects as text: quoted identifiers, types, index and constraint definitions,
//! functions.

use std::sync::LazyLock;

use model::{Table, TableName, user_types};
use pg::types::{Type, oid};

use crate::classes::Class;
use crate::facts::StatementFacts;
use crate::oids::{self, Oid, Part};
use crate::relations::{self, RELATIONS};

/// Keywords that PostgreSQL 15 quotes as identifiers: reserved (R), allowed as function or type (T), allowed as
/// column (C).
const KEYWORDS: [(&str, &str); 3] = [
    (
        "R",
        "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create current_catalog \
        current_date current_role current_time current_timestamp current_user default deferrable desc distinct do else end except false \
        fetch for foreign from grant group having in initially intersect into lateral leading limit localtime localtimestamp not null \
        offset on only or order placing primary references returning select session_user some symmetric table then to trailing true \
        union unique user using variadic when where window with",
    ),
    (
        "T",
        "authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join left like natural \
        notnull outer overlaps right similar tablesample verbose",
    ),
    (
        "C",
        "between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping inout int integer \
        interval least national nchar none normalize nullif numeric out overlay position precision real row setof smallint substring \
        time timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi \
        xmlroot xmlserialize xmltable",
    ),
];

/// Keywords with their categories.
pub(crate) fn keywords() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYWORDS.iter().flat_map(|(category, words)| words.split_whitespace().map(move |word| (word, *category)))
}

/// Quotes an identifier if necessary.
pub(crate) fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && keywords().all(|(word, _)| word != name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An expression that `compiled::deparse` wrote, with the names that the session sees.
pub(crate) fn expression(facts: &StatementFacts, sql: &str) -> String {
    let is_visible = |schema: &str, name: &str| {
        facts.search_path.iter().any(|other| other == schema)
            && catalog::builtin().functions_named(name).next().is_none()
    };
    compiled::deparse::with_names(sql, |oid| Some(format_type(facts, oid, -1)), is_visible)
}

/// All schemas, including system schemas.
pub(crate) fn schemas(facts: &StatementFacts) -> Vec<String> {
    let system = ["information_schema", "pg_catalog"].map(str::to_owned);
    facts.catalog.schemas().map(str::to_owned).chain(system).collect()
}

/// A type in SQL syntax; `modifier` is -1 for none.
pub(crate) fn format_type(facts: &StatementFacts, ty: Oid, modifier: i64) -> String {
    if ty == 0 {
        return "-".to_owned();
    }
    let Some(known) = Type::by_oid(ty) else {
        return row_type_name(facts, ty).unwrap_or_else(|| "???".to_owned());
    };
    if known.name.starts_with('_') && known.element != 0 {
        return format!("{}[]", format_type(facts, known.element, modifier));
    }
    // The modifier of another type is ignored.
    let typed = i32::try_from(modifier).ok().and_then(|modifier| model::Type::from_oid(ty, modifier));
    match typed.or_else(|| model::Type::from_oid(ty, -1)) {
        Some(model::Type::Char(None)) => Type::sql_name(ty).to_owned(),
        Some(ty) => ty.to_string(),
        None => Type::sql_name(ty).to_owned(),
    }
}

/// The name of a type without modifiers, as PostgreSQL's `format_type` has it for a NULL modifier.
pub(crate) fn type_name(facts: &StatementFacts, ty: Oid) -> String {
    match ty {
        oid::BIT => Type::sql_name(ty).to_owned(),
        ty if ty == Type::array_of(oid::BIT).unwrap_or_default() => format!("{}[]", Type::sql_name(oid::BIT)),
        ty => format_type(facts, ty, -1),
    }
}

/// Name of the row type of a table, or of an array of it.
pub(crate) fn row_type_name(facts: &StatementFacts, ty: Oid) -> Option<String> {
    if user_types::is_user(ty) {
        return user_type_name(facts, ty);
    }
    let (id, part) = oids::table_of(ty)?;
    let class = Class::by_oid(&facts.catalog, oids::of_table(id, Part::Table))?;
    let name = relation_name(facts, class);
    match part {
        Part::RowType => Some(name),
        Part::RowArray => Some(format!("{name}[]")),
        _ => None,
    }
}

/// Quoted name of a relation, schema-qualified unless it is visible in the search path.
pub(crate) fn relation_name(facts: &StatementFacts, class: Class<'_>) -> String {
    let name = quote_ident(&class.name());
    match is_visible(facts, class) {
        true => name,
        false => format!("{}.{name}", quote_ident(class.schema())),
    }
}

/// Whether the unqualified name resolves to this relation.
pub(crate) fn is_visible(facts: &StatementFacts, class: Class<'_>) -> bool {
    let name = class.name();
    let found = facts.search_path.iter().find_map(|schema| Class::by_name(&facts.catalog, schema, &name));
    found.is_some_and(|found| found.oid() == class.oid())
}

/// Result of `oid::regclass::text`.
pub(crate) fn class_name(facts: &StatementFacts, oid: Oid) -> Option<String> {
    if let Some(relation) = RELATIONS.iter().find(|relation| relation.oid == oid) {
        return Some(match relation.schema {
            "pg_catalog" => relation.name.to_owned(),
            schema => format!("{schema}.{}", relation.name),
        });
    }
    Class::by_oid(&facts.catalog, oid).map(|class| relation_name(facts, class))
}

/// OID of `'name'::regclass`: a table, index or catalog relation, with or without schema, quoted or not.
pub(crate) fn class_oid(facts: &StatementFacts, name: &str) -> Option<Oid> {
    let parts = split_name(name)?;
    match parts.as_slice() {
        [name] => {
            if let Some(relation) = relations::find("pg_catalog", name) {
                return Some(relation.oid);
            }
            facts.search_path.iter().find_map(|schema| class_in(facts, schema, name))
        }
        [schema, name] => class_in(facts, schema, name),
        [database, schema, name] if *database == facts.database => class_in(facts, schema, name),
        _ => None,
    }
}

fn class_in(facts: &StatementFacts, schema: &str, name: &str) -> Option<Oid> {
    if let Some(relation) = relations::find(schema, name) {
        return Some(relation.oid);
    }
    let schema = facts.temporary.as_deref().filter(|_| schema == compiled::TEMPORARY).unwrap_or(schema);
    Class::by_name(&facts.catalog, schema, name).map(|class| class.oid())
}

/// Splits `a."B c".d` into its parts; unquoted parts are folded to lower case.
pub(crate) fn split_name(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"')?;
                (quoted[..end].to_owned(), &quoted[end + 1..])
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if after.trim().is_empty() => return Some(parts),
            None => return None,
        }
    }
}

/// Name of a user type or of its array, with its schema unless the search path finds it.
fn user_type_name(facts: &StatementFacts, ty: Oid) -> Option<String> {
    let spec = facts.catalog.type_by_oid(ty & !1)?;
    let name = quote_ident(&spec.name.table);
    let found = facts.search_path.iter().find_map(|schema| facts.catalog.user_type(&named(schema, &spec.name.table)));
    let name = match found {
        Some(found) if found.id == spec.id => name,
        _ => format!("{}.{name}", quote_ident(&spec.name.schema)),
    };
    Some(if user_types::is_array(ty) { format!("{name}[]") } else { name })
}

fn named(schema: &str, name: &str) -> TableName {
    TableName { schema: schema.to_owned(), table: name.to_owned() }
}

/// OID of a user type, or of its array as `name[]` or `_name`.
fn user_type_oid(facts: &StatementFacts, name: &str) -> Option<Oid> {
    let (name, is_array) = match name.trim().strip_suffix("[]") {
        Some(element) => (element, true),
        None => (name, false),
    };
    let find = |schema: &str, name: &str| {
        let own = facts.catalog.user_type(&named(schema, name)).map(|spec| (spec, is_array));
        let array = || Some((facts.catalog.user_type(&named(schema, name.strip_prefix('_')?))?, true));
        let (spec, is_array) = own.or_else(array)?;
        Some(if is_array { spec.array_oid() } else { spec.oid })
    };
    match split_name(name)?.as_slice() {
        [name] => facts.search_path.iter().find_map(|schema| find(schema, name)),
        [schema, name] => find(schema, name),
        [database, schema, name] if *database == facts.database => find(schema, name),
        _ => None,
    }
}

/// OID of the row type of a table, or of an array of it, by the table's name.
pub(crate) fn row_type_oid(facts: &StatementFacts, name: &str) -> Option<Oid> {
    if let Some(oid) = user_type_oid(facts, name) {
        return Some(oid);
    }
    let (name, part) = match name.trim().strip_suffix("[]") {
        Some(table) => (table, Part::RowArray),
        None => (name, Part::RowType),
    };
    let parts = split_name(name)?;
    let class = match parts.as_slice() {
        [name] => facts.search_path.iter().find_map(|schema| Class::by_name(&facts.catalog, schema, name))?,
        [schema, name] => Class::by_name(&facts.catalog, schema, name)?,
        _ => return None,
    };
    match class {
        Class::Columns(table) => Some(oids::of_table(table.id, part)),
        Class::Rows(table) => Some(oids::of_table(table.id, part)),
        Class::View(view) => Some(oids::of_number(view.id, part)),
        _ => None,
    }
}

fn key_columns(table: &Table) -> Vec<String> {
    oids::key_and_time(table).iter().map(|(_, column)| quote_ident(&column.name)).collect()
}

/// Result of `pg_get_indexdef`.
pub(crate) fn index_definition(table: &Table) -> String {
    format!(
        "CREATE UNIQUE INDEX {} ON {}.{} USING btree ({}){}",
        quote_ident(&oids::key_name(table)),
        quote_ident(&table.name.schema),
        quote_ident(&table.name.table),
        key_columns(table).join(", "),
        if oids::is_primary(table) { "" } else { " NULLS NOT DISTINCT" },
    )
}

/// Column `number` (from 1) of an index, as `pg_get_indexdef` prints it.
pub(crate) fn index_column(table: &Table, number: i64) -> Option<String> {
    key_columns(table).into_iter().nth(usize::try_from(number - 1).ok()?)
}

/// Result of `pg_get_constraintdef`.
pub(crate) fn constraint_definition(table: &Table) -> String {
    let kind = if oids::is_primary(table) { "PRIMARY KEY" } else { "UNIQUE NULLS NOT DISTINCT" };
    format!("{kind} ({})", key_columns(table).join(", "))
}

/// A row of `pg_proc`.
pub(crate) struct Procedure {
    pub(crate) oid: Oid,
    pub(crate) name: &'static str,
    /// `f` function, `a` aggregate.
    pub(crate) kind: &'static str,
    pub(crate) arguments: Vec<Oid>,
    pub(crate) result: Oid,
}

impl Procedure {
    /// The types of its arguments, as clients show them.
    pub(crate) fn argument_types(&self, facts: &StatementFacts) -> String {
        let types: Vec<String> = self.arguments.iter().map(|ty| format_type(facts, *ty, -1)).collect();
        types.join(", ")
    }
}

/// Functions that clients look up: the input and output functions of types, and a selection of SQL functions.
pub(crate) static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(|| {
    let (arguments, result) = (vec![pg::types::oid::CSTRING], pg::types::oid::ANY);
    let of_types = pg::type_functions::all();
    let mut all: Vec<Procedure> =
        of_types.map(|(oid, name)| Procedure { oid, name, kind: "f", arguments: arguments.clone(), result }).collect();
    all.extend((10_000..).zip(CALLABLE.lines()).filter_map(|(oid, line)| callable(oid, line)));
    all
});

/// OIDs follow from the order of the lines: append new ones at the end.
const CALLABLE: &str = "\
a first any timestamptz any
a last any timestamptz any
f time_bucket interval timestamptz timestamptz
f time_bucket_gapfill interval timestamptz timestamptz
f session_window timestamptz interval timestamptz
f locf any any bool any
f epoch_ns timestamptz int8
f now timestamptz
f version text
f current_database name
f current_schema name
f current_user name
f pg_backend_pid int4
f pg_trigger_depth int4
f pg_cancel_backend int4 bool
f pg_terminate_backend int4 int8 bool
f format_type oid int4 text
f pg_get_expr pg_node_tree oid text
f pg_get_indexdef oid text
f pg_get_constraintdef oid text
f pg_size_pretty int8 text
f pg_total_relation_size regclass int8
f to_regclass text regclass
f date_trunc text timestamptz timestamptz
a count any int8
a sum float8 float8
a avg float8 float8
a min any any
a max any any
f abs float8 float8
f round float8 float8
f lower text text
f upper text text
f length text int4
f coalesce any any
f interpolate float8 record record float8
a max_by any any any
a min_by any any any
a arg_max any any any
a arg_min any any any
a increase float8 timestamptz float8
a rate float8 timestamptz float8
a delta float8 timestamptz float8
a time_weighted_average float8 timestamptz text float8
a time_weighted_integral float8 timestamptz text float8
a candlestick timestamptz float8 float8 jsonb
a vwap float8 float8 float8
a duration_in any any timestamptz float8
a state_durations any timestamptz jsonb
a histogram float8 float8 float8 int4 _int8
a approx_percentile float8 float8 float8
a approx_count_distinct any int8
a lttb timestamptz float8 int4 jsonb
a lttb_times timestamptz float8 int4 _timestamptz
a lttb_values timestamptz float8 int4 _float8
a percentile_sketch float8 bytea
a distinct_sketch any bytea
a merge_sketches bytea bytea
f sketch_percentile bytea float8 float8
f sketch_count_distinct bytea int8";

fn callable(oid: Oid, line: &'static str) -> Option<Procedure> {
    let mut words = line.split(' ');
    let (kind, name) = (words.next()?, words.next()?);
    let mut types: Vec<Oid> = words.filter_map(|ty| Type::by_name(ty).map(|ty| ty.oid)).collect();
    let result = types.pop()?;
    Some(Procedure { oid, name, kind, arguments: types, result })
}

/// Looks up a function by name.
pub(crate) fn procedure(name: &str) -> Option<&'static Procedure> {
    let name = split_name(name)?.pop()?;
    PROCEDURES.iter().find(|procedure| procedure.name == name)
}
