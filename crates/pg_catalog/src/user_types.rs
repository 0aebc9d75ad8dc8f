//! Rows of `pg_catalog` and `information_schema` for types that users created.

use catalog::{TypeId, builtin};
use engine::Catalog;
use model::{Attribute, Domain, DomainCheck, RowColumn, TableId, TypeSpec, TypeSpecRef, UserType, user_types};

use crate::cells::{Cell, Row, row};
use crate::classes::with_constraints;
use crate::facts::StatementFacts;
use crate::information_schema::{is_shown, typed_column};
use crate::oids::{self, Oid, Part};
use crate::{names, relations};

/// OIDs of `domain_in` and `domain_recv`.
const DOMAIN_IN: Oid = 2597;
const DOMAIN_RECEIVE: Oid = 2598;

/// Rows of `pg_type`.
pub(crate) fn types(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for spec in facts.catalog.types() {
        let (name, schema) = (spec.name.table.as_str(), oids::of_schema(&spec.name.schema));
        let array = builtin().array_of(TypeId(spec.oid)).map_or(0, |array| array.0);
        match &spec.kind {
            UserType::Domain(domain) => rows.push(domain_row(facts, spec, domain, array)),
            UserType::Composite(_) => {
                let relation = oids::of_number(spec.id, Part::Table);
                rows.push(relations::type_row((spec.oid, name, schema), ("c", "C", -1), (relation, 0, array)));
            }
            UserType::Enum(_) => {
                rows.push(relations::type_row((spec.oid, name, schema), ("e", "E", 4), (0, 0, array)));
            }
        }
        if array != 0 {
            let array_name = format!("_{name}");
            rows.push(relations::type_row((array, &array_name, schema), ("b", "A", -1), (0, spec.oid, 0)));
        }
    }
    rows
}

fn domain_row(facts: &StatementFacts, spec: &TypeSpec, domain: &Domain, array: Oid) -> Row {
    let base = domain.base.oid();
    let category = builtin().type_row(TypeId(base)).map_or('U', |row| char::from(row.category)).to_string();
    let length = builtin().type_row(TypeId(base)).map_or(-1, |row| row.length);
    let schema = oids::of_schema(&spec.name.schema);
    // The functions, alignment and collation are those of the base type.
    let mut row = relations::type_row((base, &spec.name.table, schema), ("d", &category, length), (0, 0, array));
    let (under, typmod) = if domain.over == 0 { (base, domain.base.typmod()) } else { (domain.over, -1) };
    for (name, cell) in &mut row {
        match *name {
            "oid" => *cell = spec.oid.into(),
            "typinput" => *cell = DOMAIN_IN.into(),
            "typreceive" => *cell = DOMAIN_RECEIVE.into(),
            "typtypmod" => *cell = typmod.into(),
            "typispreferred" => *cell = false.into(),
            _ => {}
        }
    }
    row.extend(row! {
        typnotnull: domain.not_null,
        typbasetype: under,
        typdefault: default(domain).map(|sql| names::expression(facts, &sql)),
        typdefaultbin: default(domain),
    });
    row
}

fn default(domain: &Domain) -> Option<String> {
    let column = RowColumn { default: domain.default.clone(), ..RowColumn::new("value", domain.base) };
    compiled::deparse::default(&column)
}

/// The composite types, each with its attributes.
pub(crate) fn composites(facts: &StatementFacts) -> impl Iterator<Item = (&TypeSpecRef, &[Attribute])> {
    facts.catalog.types().filter_map(|spec| Some((spec, spec.attributes()?)))
}

/// Rows of `information_schema.attributes`.
pub(crate) fn standard_attributes(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (spec, attributes) in composites(facts) {
        for (at, attribute) in attributes.iter().enumerate() {
            let column = RowColumn::new(&attribute.name, attribute.ty);
            let name = |name| match name {
                "udt_catalog" => Some("attribute_udt_catalog"),
                "udt_schema" => Some("attribute_udt_schema"),
                "udt_name" => Some("attribute_udt_name"),
                "column_name" => Some("attribute_name"),
                "table_catalog" => Some("udt_catalog"),
                "table_schema" => Some("udt_schema"),
                "table_name" => Some("udt_name"),
                name if name.starts_with("is_") && name != "is_nullable" || name.starts_with("domain_") => None,
                "identity_cycle" => None,
                name => Some(name),
            };
            let row = typed_column(facts, (&spec.name.schema, &spec.name.table), at, &column, "NO");
            let mut row: Row = row.into_iter().filter_map(|(of, cell)| Some((name(of)?, cell))).collect();
            row.extend(row! { is_derived_reference_attribute: "NO" });
            rows.push(row);
        }
    }
    rows
}

/// Rows of `pg_class` for composite types.
pub(crate) fn classes(facts: &StatementFacts) -> Vec<Row> {
    let class = |(spec, attributes): (&TypeSpecRef, &[Attribute])| {
        row! {
            oid: oids::of_number(spec.id, Part::Table),
            relname: spec.name.table.as_str(),
            relnamespace: oids::of_schema(&spec.name.schema),
            reltype: spec.oid,
            relowner: oids::ROLE,
            relhasindex: false,
            relpersistence: "p",
            relkind: "c",
            relnatts: attributes.len() as i64,
            relispopulated: true,
            relreplident: "n",
            tableoid: 1259,
        }
    };
    composites(facts).map(class).collect()
}

/// Rows of `pg_enum`.
pub(crate) fn labels(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for spec in facts.catalog.types() {
        for label in spec.labels() {
            rows.push(row! {
                oid: oids::of_named(TableId(spec.id), "label", &label.number.to_string()),
                enumtypid: spec.oid,
                enumsortorder: Cell::Float(f32::from_bits(label.sort_order).into()),
                enumlabel: label.label.as_str(),
                tableoid: 3501,
            });
        }
    }
    rows
}

/// CHECK constraints of domains.
pub(crate) fn checks(catalog: &Catalog) -> impl Iterator<Item = (&TypeSpecRef, &Domain, &DomainCheck)> {
    let of = |spec| {
        let spec: &TypeSpecRef = spec;
        let domain = spec.domain();
        domain.into_iter().flat_map(move |domain| domain.checks.iter().map(move |check| (spec, domain, check)))
    };
    catalog.types().flat_map(of)
}

pub(crate) fn check_oid(spec: &TypeSpec, check: &DomainCheck) -> Oid {
    oids::of_named(TableId(spec.id), "check", &check.name)
}

/// Rows of `pg_constraint`.
pub(crate) fn constraints(facts: &StatementFacts) -> Vec<Row> {
    let row = |(spec, domain, check): (&TypeSpecRef, &Domain, &DomainCheck)| {
        row! {
            oid: check_oid(spec, check),
            conname: check.name.as_str(),
            connamespace: oids::of_schema(&spec.name.schema),
            contype: "c",
            convalidated: check.is_valid,
            contypid: spec.oid,
            confupdtype: " ",
            confdeltype: " ",
            confmatchtype: " ",
            conislocal: true,
            connoinherit: false,
            conbin: compiled::deparse::domain_condition(&check.condition, domain.base, false),
            tableoid: 2606,
        }
    };
    checks(&facts.catalog).map(row).collect()
}

/// Result of `pg_get_constraintdef` for a constraint of a domain.
pub(crate) fn constraint_definition(facts: &StatementFacts, oid: Oid, short: bool) -> Option<String> {
    let (_, domain, check) = checks(&facts.catalog).find(|(spec, _, check)| check_oid(spec, check) == oid)?;
    let condition = compiled::deparse::domain_condition(&check.condition, domain.base, short);
    let condition = names::expression(facts, &condition);
    let not_valid = if check.is_valid { "" } else { " NOT VALID" };
    Some(format!("CHECK ({condition}){not_valid}"))
}

/// The domains that `information_schema` shows.
fn domains(facts: &StatementFacts) -> impl Iterator<Item = (&TypeSpecRef, &Domain)> {
    let shown = facts.catalog.types().filter(|spec| is_shown(facts, &spec.name));
    shown.filter_map(|spec| Some((spec, spec.domain()?)))
}

fn domain_head(facts: &StatementFacts, spec: &TypeSpec) -> Row {
    row! {
        domain_catalog: facts.database.as_str(),
        domain_schema: spec.name.schema.as_str(),
        domain_name: spec.name.table.as_str(),
    }
}

/// Rows of `information_schema.domains`.
pub(crate) fn standard_domains(facts: &StatementFacts) -> Vec<Row> {
    const OF_TYPE: [&str; 17] = [
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "character_set_catalog",
        "character_set_schema",
        "character_set_name",
        "collation_catalog",
        "collation_schema",
        "collation_name",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "interval_type",
        "udt_catalog",
        "udt_schema",
        "udt_name",
    ];
    let row = |(spec, domain): (&TypeSpecRef, &Domain)| {
        let mut row = domain_head(facts, spec);
        let column = typed_column(facts, ("", ""), 0, &RowColumn::new("", domain.base), "NO");
        row.extend(column.into_iter().filter(|(name, _)| OF_TYPE.contains(name)));
        row.extend(
            row! { domain_default: default(domain).map(|sql| names::expression(facts, &sql)), dtd_identifier: "1" },
        );
        row
    };
    domains(facts).map(row).collect()
}

/// Rows of `information_schema.domain_constraints`.
pub(crate) fn standard_constraints(facts: &StatementFacts) -> Vec<Row> {
    let row = |(spec, _, check): (&TypeSpecRef, &Domain, &DomainCheck)| {
        let mut row = row! {
            constraint_catalog: facts.database.as_str(),
            constraint_schema: spec.name.schema.as_str(),
            constraint_name: check.name.as_str(),
        };
        row.extend(domain_head(facts, spec));
        row.extend(row! { is_deferrable: "NO", initially_deferred: "NO" });
        row
    };
    checks(&facts.catalog).filter(|(spec, ..)| is_shown(facts, &spec.name)).map(row).collect()
}

/// Rows of `information_schema.check_constraints` for domains.
pub(crate) fn standard_checks(facts: &StatementFacts) -> Vec<Row> {
    let row = |(spec, domain, check): (&TypeSpecRef, &Domain, &DomainCheck)| {
        row! {
            constraint_catalog: facts.database.as_str(),
            constraint_schema: spec.name.schema.as_str(),
            constraint_name: check.name.as_str(),
            check_clause: {
                let condition = compiled::deparse::domain_condition(&check.condition, domain.base, false);
                format!("({})", names::expression(facts, &condition))
            },
        }
    };
    checks(&facts.catalog).filter(|(spec, ..)| is_shown(facts, &spec.name)).map(row).collect()
}

/// Rows of `information_schema.column_domain_usage`.
pub(crate) fn standard_usage(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in with_constraints(&facts.catalog).filter(|table| is_shown(facts, &table.name)) {
        for (_, column) in table.shown() {
            let Some(spec) = of_column(facts, column) else { continue };
            let mut row = domain_head(facts, spec);
            row.extend(row! {
                table_catalog: facts.database.as_str(),
                table_schema: table.name.schema.as_str(),
                table_name: table.name.table.as_str(),
                column_name: column.name.as_str(),
            });
            rows.push(row);
        }
    }
    rows
}

/// The domain of a column.
pub(crate) fn of_column<'a>(facts: &'a StatementFacts, column: &RowColumn) -> Option<&'a TypeSpecRef> {
    by_oid(facts, column.domain.filter(|oid| user_types::is_domain(*oid))?)
}

/// The type with an OID, or of the array with it.
pub(crate) fn by_oid(facts: &StatementFacts, oid: Oid) -> Option<&TypeSpecRef> {
    facts.catalog.type_by_oid(oid & !1)
}

/// The name of a type in definitions, such as that of a view.
pub(crate) fn shown_name(facts: &StatementFacts, oid: Oid) -> String {
    names::format_type(facts, oid, -1)
}
