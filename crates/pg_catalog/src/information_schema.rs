//! `information_schema` of the SQL standard, with PostgreSQL's columns, for stored tables and the catalog itself.

use model::{
    ColumnRole, DataType, Deferral, Identity, OtherType, RowColumn, RowSchema, RowSchemaRef, SequenceSpec, Table,
    TableName, Type, ViewColumn, ViewRef, ViewSpec,
};
use pg::types::oid;

use crate::cells::{Cell, Relation, Row, row};
use crate::classes::{Constraint, is_primary, referred};
use crate::facts::StatementFacts;
use crate::relations::{keyed, listed};
use crate::{names, oids, routines, row_tables, triggers, user_types, views};

const COLUMNS: &str = "table_catalog name,table_schema name,table_name name,column_name name,ordinal_position int4,column_default text,\
    is_nullable text,data_type text,character_maximum_length int4,character_octet_length int4,numeric_precision int4,\
    numeric_precision_radix int4,numeric_scale int4,datetime_precision int4,interval_type text,interval_precision int4,\
    character_set_catalog name,character_set_schema name,character_set_name name,collation_catalog name,collation_schema name,\
    collation_name name,domain_catalog name,domain_schema name,domain_name name,udt_catalog name,udt_schema name,udt_name name,\
    scope_catalog name,scope_schema name,scope_name name,maximum_cardinality int4,dtd_identifier name,is_self_referencing text,\
    is_identity text,identity_generation text,identity_start text,identity_increment text,identity_maximum text,identity_minimum text,\
    identity_cycle text,is_generated text,generation_expression text,is_updatable text";
const TABLES: &str = "table_catalog name,table_schema name,table_name name,table_type text,self_referencing_column_name name,\
    reference_generation text,user_defined_type_catalog name,user_defined_type_schema name,user_defined_type_name name,\
    is_insertable_into text,is_typed text,commit_action text";
const SCHEMATA: &str = "catalog_name name,schema_name name,schema_owner name,default_character_set_catalog name,\
    default_character_set_schema name,default_character_set_name name,sql_path text";
const CONSTRAINTS: &str = "constraint_catalog name,constraint_schema name,constraint_name name,table_catalog name,table_schema name,\
    table_name name,constraint_type text,is_deferrable text,initially_deferred text,enforced text,nulls_distinct text";
const KEY_COLUMNS: &str = "constraint_catalog name,constraint_schema name,constraint_name name,table_catalog name,table_schema name,\
    table_name name,column_name name,ordinal_position int4,position_in_unique_constraint int4";
const CONSTRAINT_COLUMNS: &str = "table_catalog name,table_schema name,table_name name,column_name name,constraint_catalog name,\
    constraint_schema name,constraint_name name";
const ROUTINES: &str = "specific_catalog name,specific_schema name,specific_name name,routine_catalog name,\
    routine_schema name,routine_name name,routine_type text,module_catalog name,module_schema name,module_name name,\
    udt_catalog name,udt_schema name,udt_name name,data_type text,character_maximum_length int4,\
    character_octet_length int4,character_set_catalog name,character_set_schema name,character_set_name name,\
    collation_catalog name,collation_schema name,collation_name name,numeric_precision int4,\
    numeric_precision_radix int4,numeric_scale int4,datetime_precision int4,interval_type text,\
    interval_precision int4,type_udt_catalog name,type_udt_schema name,type_udt_name name,scope_catalog name,\
    scope_schema name,scope_name name,maximum_cardinality int4,dtd_identifier name,routine_body text,\
    routine_definition text,external_name text,external_language text,parameter_style text,is_deterministic text,\
    sql_data_access text,is_null_call text,sql_path text,schema_level_routine text,max_dynamic_result_sets int4,\
    is_user_defined_cast text,is_implicitly_invocable text,security_type text,to_sql_specific_catalog name,\
    to_sql_specific_schema name,to_sql_specific_name name,as_locator text,created timestamptz,\
    last_altered timestamptz,new_savepoint_level text,is_udt_dependent text,result_cast_from_data_type text,\
    result_cast_as_locator text,result_cast_char_max_length int4,result_cast_char_octet_length int4,\
    result_cast_char_set_catalog name,result_cast_char_set_schema name,result_cast_char_set_name name,\
    result_cast_collation_catalog name,result_cast_collation_schema name,result_cast_collation_name name,\
    result_cast_numeric_precision int4,result_cast_numeric_precision_radix int4,result_cast_numeric_scale int4,\
    result_cast_datetime_precision int4,result_cast_interval_type text,result_cast_interval_precision int4,\
    result_cast_type_udt_catalog name,result_cast_type_udt_schema name,result_cast_type_udt_name name,\
    result_cast_scope_catalog name,result_cast_scope_schema name,result_cast_scope_name name,\
    result_cast_maximum_cardinality int4,result_cast_dtd_identifier name";
const PARAMETERS: &str = "specific_catalog name,specific_schema name,specific_name name,ordinal_position int4,\
    parameter_mode text,is_result text,as_locator text,parameter_name name,data_type text,\
    character_maximum_length int4,character_octet_length int4,character_set_catalog name,character_set_schema name,\
    character_set_name name,collation_catalog name,collation_schema name,collation_name name,numeric_precision int4,\
    numeric_precision_radix int4,numeric_scale int4,datetime_precision int4,interval_type text,\
    interval_precision int4,udt_catalog name,udt_schema name,udt_name name,scope_catalog name,scope_schema name,\
    scope_name name,maximum_cardinality int4,dtd_identifier name,parameter_default text";
const ATTRIBUTES: &str = "udt_catalog name,udt_schema name,udt_name name,attribute_name name,ordinal_position int4,\
    attribute_default text,is_nullable text,data_type text,character_maximum_length int4,character_octet_length int4,\
    character_set_catalog name,character_set_schema name,character_set_name name,collation_catalog name,\
    collation_schema name,collation_name name,numeric_precision int4,numeric_precision_radix int4,numeric_scale int4,\
    datetime_precision int4,interval_type text,interval_precision int4,attribute_udt_catalog name,\
    attribute_udt_schema name,attribute_udt_name name,scope_catalog name,scope_schema name,scope_name name,\
    maximum_cardinality int4,dtd_identifier name,is_derived_reference_attribute text";

/// Relations of the schema.
pub(crate) fn relations() -> Vec<Relation> {
    type Rows = fn(&StatementFacts) -> Vec<Row>;
    let relation = |(oid, name, columns, rows): (u32, &'static str, &'static str, Option<Rows>)| {
        Relation::new((oid, "information_schema", name), columns, rows)
    };
    let all: [(u32, &str, &str, Option<Rows>); 24] = [
        (13_001, "tables", TABLES, Some(tables)),
        (13_002, "columns", COLUMNS, Some(columns)),
        (13_003, "schemata", SCHEMATA, Some(schemata)),
        (13_004, "table_constraints", CONSTRAINTS, Some(constraints)),
        (13_005, "key_column_usage", KEY_COLUMNS, Some(key_columns)),
        (13_006, "constraint_column_usage", CONSTRAINT_COLUMNS, Some(constraint_columns)),
        (
            13_007,
            "views",
            "table_catalog name,table_schema name,table_name name,view_definition text,check_option text,is_updatable text,\
            is_insertable_into text,is_trigger_updatable text,is_trigger_deletable text,is_trigger_insertable_into text",
            Some(all_views),
        ),
        (13_008, "information_schema_catalog_name", "catalog_name name", Some(catalog_name)),
        (
            13_009,
            "referential_constraints",
            "constraint_catalog name,constraint_schema name,constraint_name name,\
            unique_constraint_catalog name,unique_constraint_schema name,unique_constraint_name name,match_option text,update_rule text,\
            delete_rule text",
            Some(referential_constraints),
        ),
        (
            13_010,
            "check_constraints",
            "constraint_catalog name,constraint_schema name,constraint_name name,check_clause text",
            Some(check_constraints),
        ),
        (13_011, "routines", ROUTINES, Some(routines::routines)),
        (13_012, "parameters", PARAMETERS, Some(routines::parameters)),
        (
            13_013,
            "sequences",
            "sequence_catalog name,sequence_schema name,sequence_name name,data_type text,numeric_precision int4,\
            numeric_precision_radix int4,numeric_scale int4,start_value text,minimum_value text,maximum_value text,\
            increment text,cycle_option text",
            Some(sequences),
        ),
        (
            13_014,
            "triggers",
            "trigger_catalog name,trigger_schema name,trigger_name name,event_manipulation text,\
            event_object_catalog name,event_object_schema name,event_object_table name,action_order int4,action_condition text,\
            action_statement text,action_orientation text,action_timing text,action_reference_old_table name,\
            action_reference_new_table name,action_reference_old_row name,action_reference_new_row name,created timestamptz",
            Some(triggers::information),
        ),
        (
            13_015,
            "table_privileges",
            "grantor name,grantee name,table_catalog name,table_schema name,table_name name,privilege_type text,\
            is_grantable text,with_hierarchy text",
            None,
        ),
        (13_016, "enabled_roles", "role_name name", Some(enabled_roles)),
        (
            13_018,
            "view_table_usage",
            "view_catalog name,view_schema name,view_name name,table_catalog name,table_schema name,table_name name",
            Some(views::table_usage),
        ),
        (
            13_019,
            "view_column_usage",
            "view_catalog name,view_schema name,view_name name,table_catalog name,table_schema name,table_name name,\
            column_name name",
            Some(views::column_usage),
        ),
        (13_017, "applicable_roles", "grantee name,role_name name,is_grantable text", None),
        (
            13_021,
            "domains",
            "domain_catalog name,domain_schema name,domain_name name,data_type text,character_maximum_length int4,\
            character_octet_length int4,character_set_catalog name,character_set_schema name,character_set_name name,\
            collation_catalog name,collation_schema name,collation_name name,numeric_precision int4,\
            numeric_precision_radix int4,numeric_scale int4,datetime_precision int4,interval_type text,\
            interval_precision int4,domain_default text,udt_catalog name,udt_schema name,udt_name name,scope_catalog name,\
            scope_schema name,scope_name name,maximum_cardinality int4,dtd_identifier name",
            Some(user_types::standard_domains),
        ),
        (
            13_022,
            "domain_constraints",
            "constraint_catalog name,constraint_schema name,constraint_name name,domain_catalog name,domain_schema name,\
            domain_name name,is_deferrable text,initially_deferred text",
            Some(user_types::standard_constraints),
        ),
        (
            13_023,
            "column_domain_usage",
            "domain_catalog name,domain_schema name,domain_name name,table_catalog name,table_schema name,table_name name,\
            column_name name",
            Some(user_types::standard_usage),
        ),
        (13_024, "attributes", ATTRIBUTES, Some(user_types::standard_attributes)),
        (
            13_020,
            "character_sets",
            "character_set_catalog name,character_set_schema name,character_set_name name,character_repertoire name,\
            form_of_use name,default_collate_catalog name,default_collate_schema name,default_collate_name name",
            Some(character_sets),
        ),
    ];
    all.map(relation).into()
}

fn tables(facts: &StatementFacts) -> Vec<Row> {
    let table = |schema: &str, name: &str, kind: &str, writable: &str| {
        row! {
            table_catalog: facts.database.as_str(),
            table_schema: schema,
            table_name: name,
            table_type: kind,
            self_referencing_column_name: Cell::Null,
            user_defined_type_catalog: Cell::Null,
            user_defined_type_schema: Cell::Null,
            user_defined_type_name: Cell::Null,
            is_insertable_into: writable,
            is_typed: "NO",
        }
    };
    let stored = facts.catalog.tables().map(|t| table(&t.name.schema, &t.name.table, "BASE TABLE", "YES"));
    let system = listed().map(|r| table(r.schema, r.name, if r.view { "VIEW" } else { "BASE TABLE" }, "NO"));
    let rows = row_tables(facts).map(|t| {
        let kind = if t.name.is_temporary() { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        table(&t.name.schema, &t.name.table, kind, "YES")
    });
    let views = views(facts).map(|v| {
        let is_updatable = views::yes(facts.catalog.is_updatable(v));
        table(&v.name.schema, &v.name.table, "VIEW", is_updatable)
    });
    stored.chain(rows).chain(views).chain(system).collect()
}

/// Whether objects of a schema are shown: not temporary ones of other sessions.
pub(crate) fn is_shown(facts: &StatementFacts, name: &TableName) -> bool {
    !name.is_temporary() || facts.temporary.as_ref() == Some(&name.schema)
}

fn row_tables(facts: &StatementFacts) -> impl Iterator<Item = &RowSchemaRef> {
    let is_table = |table: &&RowSchemaRef| facts.catalog.materialized_view(table.id).is_none();
    facts.catalog.row_tables().filter(is_table).filter(|table| is_shown(facts, &table.name))
}

fn views(facts: &StatementFacts) -> impl Iterator<Item = &ViewRef> {
    views::plain(facts).filter(|view| is_shown(facts, &view.name))
}

fn columns(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in facts.catalog.tables() {
        let described = facts.catalog.tables_with_rules().find(|described| described.id == table.id);
        for (number, column) in (1_i64..).zip(&table.columns) {
            let at = number as usize - 1;
            if let (Some(described), Some(_)) = (described, table.rules.column(column.id)) {
                rows.push(row_column(facts, described, at, &described.columns[at]));
                continue;
            }
            let (oid, _) = oids::of_type(column.ty);
            let place = (table.name.schema.as_str(), table.name.table.as_str(), column.name.as_str());
            rows.push(column_row(facts, place, number, oid, column.nullable, numeric_facts(column.ty), "YES"));
        }
    }
    for table in row_tables(facts) {
        rows.extend(table.shown().map(|(at, column)| row_column(facts, table, at, column)));
    }
    for view in views(facts) {
        rows.extend((0..).zip(&view.columns).map(|(at, column)| view_column(facts, view, at, column)));
    }
    for relation in listed() {
        for (number, column) in (1_i64..).zip(&relation.columns) {
            let place = (relation.schema, relation.name, column.name);
            rows.push(column_row(facts, place, number, column.ty.oid, true, (None, None, None), "NO"));
        }
    }
    rows
}

/// A row of `columns` for a column of a view.
fn view_column(facts: &StatementFacts, view: &ViewSpec, at: usize, column: &ViewColumn) -> Row {
    let place = (view.name.schema.as_str(), view.name.table.as_str());
    let updatable = views::yes(facts.catalog.is_updatable_column(view, at));
    match Type::from_oid(column.ty, column.typmod) {
        Some(ty) => typed_column(facts, place, at, &RowColumn::new(&*column.name, ty), updatable),
        None => {
            let place = (place.0, place.1, column.name.as_str());
            column_row(facts, place, at as i64 + 1, column.ty, true, (None, None, None), updatable)
        }
    }
}

/// A row of `columns` for a column of a `rows` table.
fn row_column(facts: &StatementFacts, table: &RowSchema, at: usize, column: &RowColumn) -> Row {
    let mut row = typed_column(facts, (&table.name.schema, &table.name.table), at, column, "YES");
    if let Some(identity) = column.identity {
        row.iter_mut().filter(|(name, _)| *name == "is_identity").for_each(|(_, own)| *own = "YES".into());
        let generation = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
        let owner = model::SequenceOwner { table: table.id, column: at };
        let sequence = facts.catalog.sequences().find(|sequence| sequence.owner == Some(owner));
        let number = |of: fn(&SequenceSpec) -> i64| sequence.map(|sequence| of(sequence).to_string());
        row.extend(row! {
            identity_generation: generation,
            identity_start: number(|sequence| sequence.start),
            identity_increment: number(|sequence| sequence.increment),
            identity_maximum: number(|sequence| sequence.max),
            identity_minimum: number(|sequence| sequence.min),
        });
    }
    if let Some(generated) = compiled::deparse::generated(column, table) {
        row.iter_mut().filter(|(name, _)| *name == "is_generated").for_each(|(_, own)| *own = "ALWAYS".into());
        row.push(("generation_expression", names::expression(facts, &generated).into()));
    }
    if let Some(spec) = user_types::of_column(facts, column) {
        for (name, cell) in &mut row {
            match *name {
                "domain_catalog" => *cell = facts.database.as_str().into(),
                "domain_schema" => *cell = spec.name.schema.as_str().into(),
                "domain_name" => *cell = spec.name.table.as_str().into(),
                _ => {}
            }
        }
    }
    // The array of a domain is a type of its own.
    if let Some(spec) =
        column.domain.filter(|oid| model::user_types::is_array(*oid)).and_then(|oid| user_types::by_oid(facts, oid))
    {
        for (name, cell) in &mut row {
            match *name {
                "udt_schema" => *cell = spec.name.schema.as_str().into(),
                "udt_name" => *cell = format!("_{}", spec.name.table).into(),
                _ => {}
            }
        }
    }
    row.push(("column_default", compiled::deparse::default(column).map(|sql| names::expression(facts, &sql)).into()));
    row
}

/// A row of `columns` for a column of a type that `rows` tables have.
pub(crate) fn typed_column(
    facts: &StatementFacts,
    (schema, table): (&str, &str),
    at: usize,
    column: &RowColumn,
    updatable: &str,
) -> Row {
    let place = (schema, table, column.name.as_str());
    let numeric = match column.ty {
        Type::Int2 => (Some(16), Some(2), Some(0)),
        Type::Int4 => (Some(32), Some(2), Some(0)),
        Type::Int8 => (Some(64), Some(2), Some(0)),
        Type::Float4 => (Some(24), Some(2), None),
        Type::Float8 => (Some(53), Some(2), None),
        Type::Numeric(None) => (None, Some(10), None),
        Type::Numeric(Some(given)) => (Some(i32::from(given.digits)), Some(10), Some(i32::from(given.scale))),
        _ => (None, None, None),
    };
    let characters = match column.ty {
        Type::Varchar(Some(characters)) | Type::Char(Some(characters)) => Some(i64::from(characters)),
        Type::Other(OtherType { oid: oid::BIT | oid::VARBIT, typmod: typmod @ 0.. }) => Some(i64::from(typmod)),
        _ => None,
    };
    let octets = match column.ty {
        Type::Text | Type::Varchar(None) | Type::Char(None) => Some(1 << 30),
        Type::Other(_) => None,
        _ => characters.map(|characters| characters * 4),
    };
    let times = matches!(column.ty.base(), Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval)
        || column.ty.oid() == oid::TIMETZ;
    let shown = column.ty.to_string();
    let fields =
        shown.strip_prefix("interval ").map(|fields| fields.split('(').next().unwrap_or(fields).to_uppercase());
    let digits = match column.ty {
        Type::Other(other) if other.typmod >= 0 && other.typmod & 0xffff <= 6 => i64::from(other.typmod & 0xffff),
        _ => 6,
    };
    let mut row = column_row(facts, place, at as i64 + 1, column.ty.oid(), !column.not_null, numeric, updatable);
    let mut set = |name: &str, cell: Cell| {
        row.iter_mut().filter(|(own, _)| *own == name).for_each(|(_, own)| *own = cell.clone())
    };
    set("character_maximum_length", characters.into());
    set("character_octet_length", octets.into());
    set("interval_type", fields.into());
    set("datetime_precision", if times { Some(digits) } else { (column.ty == Type::Date).then_some(0) }.into());
    row
}

/// The columns that tell the type of a result or a parameter of a routine, which has no declared length.
///
/// - `udt`: names for `udt_catalog`, `udt_schema` and `udt_name`.
pub(crate) fn routine_type(facts: &StatementFacts, ty: u32, udt: [&'static str; 3]) -> Row {
    let name = |column| match column {
        "data_type" => Some("data_type"),
        "udt_catalog" => Some(udt[0]),
        "udt_schema" => Some(udt[1]),
        "udt_name" => Some(udt[2]),
        _ => None,
    };
    let row = column_row(facts, ("", "", ""), 0, ty, true, (None, None, None), "NO");
    row.into_iter().filter_map(|(column, cell)| Some((name(column)?, cell))).collect()
}

fn sequences(facts: &StatementFacts) -> Vec<Row> {
    let sequence = |sequence: &model::SequenceRef| {
        let bits = match sequence.ty {
            Type::Int2 => 16,
            Type::Int4 => 32,
            _ => 64,
        };
        row! {
            sequence_catalog: facts.database.as_str(),
            sequence_schema: sequence.name.schema.as_str(),
            sequence_name: sequence.name.table.as_str(),
            data_type: sequence.ty.sql_name(),
            numeric_precision: bits,
            numeric_precision_radix: 2,
            numeric_scale: 0,
            start_value: sequence.start.to_string(),
            minimum_value: sequence.min.to_string(),
            maximum_value: sequence.max.to_string(),
            increment: sequence.increment.to_string(),
            cycle_option: if sequence.cycle { "YES" } else { "NO" },
        }
    };
    // Sequences of identity columns are internal to the column.
    let is_internal = |sequence: &&model::SequenceRef| {
        let table = sequence.owner.and_then(|owner| Some((facts.catalog.row_table_by_id(owner.table)?, owner.column)));
        table.is_some_and(|(table, column)| table.columns.get(column).is_some_and(|column| column.identity.is_some()))
    };
    facts.catalog.sequences().filter(|one| !is_internal(one) && is_shown(facts, &one.name)).map(sequence).collect()
}

/// All constraints of `rows` tables, and the CHECK constraints of `columns` tables.
fn row_constraints(facts: &StatementFacts) -> impl Iterator<Item = (&RowSchemaRef, Constraint<'_>)> {
    let tables =
        row_tables(facts).chain(facts.catalog.tables_with_rules().filter(|table| is_shown(facts, &table.name)));
    tables.flat_map(|table| Constraint::all(table).map(move |constraint| (table, constraint)))
}

/// Leading cells of a constraint's row: catalog, schema and name.
fn constraint_head(facts: &StatementFacts, table: &RowSchema, name: &str) -> Row {
    row! {
        constraint_catalog: facts.database.as_str(),
        constraint_schema: table.name.schema.as_str(),
        constraint_name: name,
    }
}

fn table_head(facts: &StatementFacts, table: &RowSchema) -> Row {
    row! {
        table_catalog: facts.database.as_str(),
        table_schema: table.name.schema.as_str(),
        table_name: table.name.table.as_str(),
    }
}

fn row_constraint(facts: &StatementFacts, table: &RowSchema, constraint: Constraint<'_>) -> Row {
    let (kind, nulls) = match constraint {
        Constraint::Unique(index) if is_primary(table, index) => ("PRIMARY KEY", None),
        Constraint::Unique(index) => ("UNIQUE", Some(if index.nulls_not_distinct { "NO" } else { "YES" })),
        Constraint::Check(_) => ("CHECK", None),
        Constraint::Foreign(_) => ("FOREIGN KEY", None),
    };
    let mut row = constraint_head(facts, table, constraint.name());
    row.extend(table_head(facts, table));
    row.extend(row! {
        constraint_type: kind,
        is_deferrable: if constraint.deferral() == Deferral::Never { "NO" } else { "YES" },
        initially_deferred: if constraint.deferral() == Deferral::Deferred { "YES" } else { "NO" },
        enforced: "YES",
        nulls_distinct: nulls,
    });
    row
}

/// NOT NULL is a CHECK in the standard; PostgreSQL derives its name from OIDs.
fn not_null_checks(facts: &StatementFacts) -> Vec<(&RowSchemaRef, String, &RowColumn)> {
    let mut found = Vec::new();
    for table in row_tables(facts) {
        let refusing = table.shown().filter(|(_, column)| column.not_null);
        found.extend(refusing.map(|(at, column)| (table, not_null_name(table, at), column)));
    }
    found
}

fn not_null_name(table: &RowSchema, at: usize) -> String {
    let (schema, table) = (oids::of_schema(&table.name.schema), oids::of_table(table.id, oids::Part::Table));
    format!("{schema}_{table}_{}_not_null", at + 1)
}

fn check_constraints(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (table, constraint) in row_constraints(facts) {
        let Constraint::Check(check) = constraint else { continue };
        let mut row = constraint_head(facts, table, &check.name);
        row.extend(row! { check_clause: format!("({})", names::expression(facts, &compiled::deparse::condition(&check.condition, table))) });
        rows.push(row);
    }
    rows.extend(user_types::standard_checks(facts));
    for (table, name, column) in not_null_checks(facts) {
        let mut row = constraint_head(facts, table, &name);
        row.extend(row! { check_clause: format!("{} IS NOT NULL", column.name) });
        rows.push(row);
    }
    rows
}

fn referential_constraints(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (table, constraint) in row_constraints(facts) {
        let Constraint::Foreign(key) = constraint else { continue };
        let parent = facts.catalog.row_table_by_id(key.table);
        let index = parent.and_then(|parent| referred(parent, key)).filter(|index| index.constraint);
        let mut row = constraint_head(facts, table, &key.name);
        row.extend(row! {
            unique_constraint_catalog: index.map(|_| facts.database.as_str()),
            unique_constraint_schema: index.and(parent).map(|parent| parent.name.schema.as_str()),
            unique_constraint_name: index.map(|index| index.name.as_str()),
            match_option: "NONE",
            update_rule: row_tables::rule(key.on_update),
            delete_rule: row_tables::rule(key.on_delete),
        });
        rows.push(row);
    }
    rows
}

fn row_key_columns(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (table, constraint) in row_constraints(facts) {
        let columns = match constraint {
            Constraint::Unique(index) => &index.columns,
            Constraint::Foreign(key) => &key.columns,
            Constraint::Check(_) => continue,
        };
        for (at, column) in columns.iter().enumerate() {
            let mut row = constraint_head(facts, table, constraint.name());
            row.extend(table_head(facts, table));
            row.extend(row! {
                column_name: table.columns[*column].name.as_str(),
                ordinal_position: at as i64 + 1,
                position_in_unique_constraint: position_of(facts, constraint, at),
            });
            rows.push(row);
        }
    }
    rows
}

/// Position in the referenced key of the column that corresponds to column `at` of a foreign key.
fn position_of(facts: &StatementFacts, constraint: Constraint<'_>, at: usize) -> Option<i64> {
    let Constraint::Foreign(key) = constraint else { return None };
    let index = referred(facts.catalog.row_table_by_id(key.table)?, key)?;
    index.columns.iter().position(|column| Some(column) == key.referred.get(at)).map(|at| at as i64 + 1)
}

/// Rows of `constraint_column_usage`: for a foreign key, the referenced columns.
fn row_constraint_columns(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (table, constraint) in row_constraints(facts) {
        let (of, columns) = match constraint {
            Constraint::Foreign(key) => match facts.catalog.row_table_by_id(key.table) {
                Some(parent) => (parent, key.referred.clone()),
                None => continue,
            },
            other => (table, other.columns(table)),
        };
        for column in columns {
            let mut row = constraint_head(facts, table, constraint.name());
            row.extend(table_head(facts, of));
            row.extend(row! { column_name: of.columns[column].name.as_str() });
            rows.push(row);
        }
    }
    rows
}

/// Precision, radix of the precision, and scale.
type Numeric = (Option<i32>, Option<i32>, Option<i32>);

fn numeric_facts(ty: DataType) -> Numeric {
    match ty {
        DataType::Int16 => (Some(16), Some(2), Some(0)),
        DataType::Int32 => (Some(32), Some(2), Some(0)),
        DataType::Int64 => (Some(64), Some(2), Some(0)),
        DataType::UInt64 => (Some(20), Some(10), Some(0)),
        DataType::Float32 => (Some(24), Some(2), None),
        DataType::Float64 => (Some(53), Some(2), None),
        _ => (None, None, None),
    }
}

fn column_row(
    facts: &StatementFacts,
    (schema, table, column): (&str, &str, &str),
    number: i64,
    ty: u32,
    nullable: bool,
    (precision, radix, scale): Numeric,
    updatable: &str,
) -> Row {
    use crate::cells::Cell::Null;
    let known = pg::types::Type::by_oid(ty);
    let is_array = known.is_some_and(|ty| ty.name.starts_with('_'));
    let user = user_types::by_oid(facts, ty);
    row! {
        table_catalog: facts.database.as_str(),
        table_schema: schema,
        table_name: table,
        column_name: column,
        ordinal_position: number,
        is_nullable: if nullable { "YES" } else { "NO" },
        data_type: match ty {
            _ if is_array || model::user_types::is_array(ty) => "ARRAY".to_owned(),
            _ if model::user_types::is_user(ty) => "USER-DEFINED".to_owned(),
            _ => names::type_name(facts, ty),
        },
        character_maximum_length: Null,
        character_octet_length: if ty == oid::TEXT { Some(1_i64 << 30) } else { None },
        numeric_precision: precision,
        numeric_precision_radix: radix,
        numeric_scale: scale,
        datetime_precision: if ty == oid::TIMESTAMPTZ { Some(6) } else { None },
        interval_type: Null,
        interval_precision: Null,
        character_set_catalog: Null,
        character_set_schema: Null,
        character_set_name: Null,
        collation_catalog: Null,
        collation_schema: Null,
        collation_name: Null,
        domain_catalog: Null,
        domain_schema: Null,
        domain_name: Null,
        udt_catalog: facts.database.as_str(),
        udt_schema: user.as_ref().map_or_else(|| "pg_catalog".to_owned(), |spec| spec.name.schema.clone()),
        udt_name: match &user {
            Some(spec) if model::user_types::is_array(ty) => format!("_{}", spec.name.table),
            Some(spec) => spec.name.table.clone(),
            None => known.map_or("", |ty| ty.name).to_owned(),
        },
        scope_catalog: Null,
        scope_schema: Null,
        scope_name: Null,
        maximum_cardinality: Null,
        dtd_identifier: number.to_string(),
        is_self_referencing: "NO",
        is_identity: "NO",
        identity_cycle: "NO",
        is_generated: "NEVER",
        is_updatable: updatable,
    }
}

fn schemata(facts: &StatementFacts) -> Vec<Row> {
    let schema = |name: String| {
        row! {
            catalog_name: facts.database.as_str(),
            schema_name: name,
            schema_owner: facts.user.as_str(),
            default_character_set_catalog: Cell::Null,
            default_character_set_schema: Cell::Null,
            default_character_set_name: Cell::Null,
        }
    };
    names::schemas(facts).into_iter().map(schema).collect()
}

fn constraints(facts: &StatementFacts) -> Vec<Row> {
    let constraint = |table: &Table| {
        row! {
            constraint_catalog: facts.database.as_str(),
            constraint_schema: table.name.schema.as_str(),
            constraint_name: oids::key_name(table),
            table_catalog: facts.database.as_str(),
            table_schema: table.name.schema.as_str(),
            table_name: table.name.table.as_str(),
            constraint_type: if oids::is_primary(table) { "PRIMARY KEY" } else { "UNIQUE" },
            is_deferrable: "NO",
            initially_deferred: "NO",
            enforced: "YES",
            nulls_distinct: if oids::is_primary(table) { None } else { Some("NO") },
        }
    };
    let mut rows: Vec<Row> = keyed(facts).map(constraint).collect();
    rows.extend(row_constraints(facts).map(|(table, constraint)| row_constraint(facts, table, constraint)));
    for (table, name, _) in not_null_checks(facts) {
        let mut row = constraint_head(facts, table, &name);
        row.extend(table_head(facts, table));
        row.extend(row! { constraint_type: "CHECK", is_deferrable: "NO", initially_deferred: "NO", enforced: "YES" });
        rows.push(row);
    }
    rows
}

fn key_columns(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = columns_keys(facts);
    rows.extend(row_key_columns(facts));
    rows
}

fn columns_keys(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in keyed(facts) {
        for (number, (_, column)) in (1_i64..).zip(oids::key_and_time(table)) {
            assert!(column.role != ColumnRole::Field, "BUG: a field is no part of a key");
            rows.push(row! {
                constraint_catalog: facts.database.as_str(),
                constraint_schema: table.name.schema.as_str(),
                constraint_name: oids::key_name(table),
                table_catalog: facts.database.as_str(),
                table_schema: table.name.schema.as_str(),
                table_name: table.name.table.as_str(),
                column_name: column.name.as_str(),
                ordinal_position: number,
                position_in_unique_constraint: Cell::Null,
            });
        }
    }
    rows
}

fn constraint_columns(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = columns_keys(facts);
    rows.iter_mut().for_each(|row| row.retain(|(name, _)| !name.contains("position")));
    rows.extend(row_constraint_columns(facts));
    rows
}

fn all_views(facts: &StatementFacts) -> Vec<Row> {
    let own = views(facts).map(|view| views::standard_view(facts, view));
    let system = listed().filter(|relation| relation.view);
    own.chain(system.map(|relation| views::standard_system_view(facts, relation.schema, relation.name))).collect()
}

fn catalog_name(facts: &StatementFacts) -> Vec<Row> {
    vec![row! { catalog_name: facts.database.as_str() }]
}

/// The one encoding of the database. Power Query asks for it before it lists tables.
fn character_sets(facts: &StatementFacts) -> Vec<Row> {
    vec![row! {
        character_set_catalog: Cell::Null,
        character_set_schema: Cell::Null,
        character_set_name: "UTF8",
        character_repertoire: "UCS",
        form_of_use: "UTF8",
        default_collate_catalog: facts.database.as_str(),
        default_collate_schema: Cell::Null,
        default_collate_name: Cell::Null,
    }]
}

fn enabled_roles(facts: &StatementFacts) -> Vec<Row> {
    vec![row! { role_name: facts.user.as_str() }]
}
