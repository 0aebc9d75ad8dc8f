//! The tests' database as crate `binder` sees it, and the plans of its statements.

use std::sync::{Arc, LazyLock};

use binder::tree::{IndexKey, Table, TableColumn, UniqueIndex};
use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState, Type};
use parser::ast::Statement;
use scalar::{Call, Context};

use super::{Db, East, NOW};
use crate::cast::Zone;
use crate::{Compiled, Lowered, ParamType, Tables, prepare, prepare_change};

/// The session's zone with the facts that bound queries need.
pub(super) struct Clocks(scalar::Session);

impl Clocks {
    pub(super) fn of(db: &Db) -> Clocks {
        let objects: Arc<dyn scalar::Objects> = Arc::new(Names::of(db));
        Clocks(scalar::Session { objects: Some(objects), ..facts().clone() })
    }
}

impl Zone for Clocks {
    fn local(&self, micros: i64) -> i64 {
        East.local(micros)
    }

    fn moment(&self, local: i64) -> i64 {
        East.moment(local)
    }

    fn input(&self, text: &str, ty: Type) -> Result<Datum<'static>> {
        East.input(text, ty)
    }

    fn facts(&self) -> Option<&scalar::Session> {
        Some(&self.0)
    }
}

/// Facts of the tests' session: the zone of [`East`].
pub(super) fn facts() -> &'static scalar::Session {
    static FACTS: LazyLock<scalar::Session> = LazyLock::new(|| scalar::Session {
        zone: jiff::tz::TimeZone::fixed(jiff::tz::offset(1)),
        zone_name: "Etc/GMT-1".into(),
        transaction_micros: NOW,
        statement_micros: NOW,
        ..scalar::Session::default()
    });
    &FACTS
}

/// The catalog of a database as the binder sees it.
struct Schema<'d> {
    db: &'d Db,
    session: scalar::Session,
}

pub(super) fn oid(id: u32) -> u32 {
    16_384 + 8 * id
}

impl binder::Schema for Schema<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        let Some(table) = Tables::table(self.db, schema, name) else { return Ok(None) };
        let shown: Vec<usize> = table.schema.shown().map(|(at, _)| at).collect();
        let columns = table.schema.shown().map(|(_, column)| TableColumn {
            name: column.name.as_str().into(),
            ty: TypeId(column.ty.oid()),
            typmod: column.ty.typmod(),
            not_null: column.not_null,
            default: column.default.as_deref().map(Box::from),
            identity: column.identity,
            generated: column.generated.as_deref().map(Box::from),
        });
        let key = table.schema.primary.as_ref().map(|key| {
            key.columns.iter().filter_map(|at| shown.iter().position(|shown| shown == at)).collect::<Vec<_>>()
        });
        let indexes = table.schema.primary.iter().chain(table.schema.secondary.iter().filter(|index| index.is_key()));
        let place = |at: &usize| IndexKey::Column(shown.iter().position(|shown| shown == at).unwrap());
        let unique = indexes.map(|index| UniqueIndex {
            name: index.name.as_str().into(),
            keys: index.columns.iter().map(place).collect(),
            predicate: None,
            is_constraint: index.constraint,
            is_deferrable: index.is_deferrable(),
        });
        Ok(Some(Arc::new(Table {
            oid: oid(table.id().0),
            schema: "public".into(),
            name: name.into(),
            columns: columns.collect(),
            primary_key: key.unwrap_or_default(),
            unique: unique.collect(),
            has_records: true,
            ..Table::default()
        })))
    }

    fn session(&self) -> &scalar::Session {
        &self.session
    }
}

/// Names of tables and sequences.
#[derive(Debug)]
struct Names {
    /// Name and OID.
    relations: Vec<(String, u32)>,
    /// Table, column and sequence.
    owned: Vec<(String, String, String)>,
}

impl Names {
    fn of(db: &Db) -> Names {
        let mut names = Names { relations: Vec::new(), owned: Vec::new() };
        let tables = db.tables.borrow();
        for table in tables.iter() {
            names.relations.push((table.schema.name.table.clone(), oid(table.id().0)));
        }
        for counter in db.counters.borrow().iter() {
            let spec = &counter.spec;
            names.relations.push((spec.name.table.clone(), oid(spec.id)));
            let owner = spec.owner.as_ref().and_then(|owner| {
                let table = tables.iter().find(|table| table.id() == owner.table)?;
                Some((table, table.schema.columns.get(owner.column)?.name.clone()))
            });
            if let Some((table, column)) = owner {
                let name = format!("public.{}", parser::print::quoted_name(&spec.name.table));
                names.owned.push((table.schema.name.table.clone(), column, name));
            }
        }
        names
    }
}

fn serial_function() -> u32 {
    scalar::registry::signature_number(builtin(), "pg_get_serial_sequence").unwrap()
}

/// A name without schema and quotes; `None` if it has another schema than `public`.
fn bare(name: &str) -> Option<String> {
    let name = name.strip_prefix("public.").unwrap_or(name);
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => Some(quoted.into()),
        None => (!name.contains('.')).then(|| name.to_ascii_lowercase()),
    }
}

fn no_relation(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

impl scalar::Objects for Names {
    fn has_function(&self, function: u32) -> bool {
        function == serial_function()
    }

    fn call<'a>(&self, arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let [Datum::Text(table), Datum::Text(column)] = arguments else { return Ok(Datum::Null) };
        let found = bare(table).filter(|name| self.relations.iter().any(|(other, _)| other == name));
        let name = found.ok_or_else(|| no_relation(table))?;
        let owned = self.owned.iter().find(|(table, of, _)| *table == name && of == column);
        Ok(owned.map_or(Datum::Null, |(_, _, sequence)| ctx.text(sequence)))
    }

    fn number(&self, name: &str, _: TypeId) -> Result<u32> {
        let found = bare(name).and_then(|name| self.relations.iter().find(|(other, _)| *other == name));
        found.map(|(_, oid)| *oid).ok_or_else(|| no_relation(name))
    }

    fn name(&self, number: u32, _: TypeId) -> Option<String> {
        self.relations.iter().find(|(_, oid)| *oid == number).map(|(name, _)| name.clone())
    }
}

/// Parses a query or a change.
fn parsed(sql: &str) -> Result<Statement> {
    Ok(parser::parse_all(sql)?.pop().unwrap_or_else(|| panic!("{sql}: no statement")).statement)
}

impl Db {
    /// Binds and lowers a query or a change.
    pub(super) fn prepared(&self, sql: &str, declared: &[Option<ParamType>]) -> Result<Lowered> {
        let schema = Schema { db: self, session: Clocks::of(self).0 };
        match parsed(sql)? {
            Statement::Query(query) => prepare(sql, &query, &schema, self, declared),
            change => prepare_change(sql, &change, &schema, self, declared),
        }
    }

    /// The plan of a query or a change. Panics if the executor does not run it.
    pub(super) fn plan_with(&self, sql: &str, declared: &[Option<ParamType>]) -> Result<Compiled> {
        match self.prepared(sql, declared)? {
            Lowered::Plan(compiled) => Ok(*compiled),
            Lowered::Refused(why) => panic!("{sql}: {}", why.reason),
        }
    }

    /// Like [`Db::plan_with`], without declared types of parameters.
    pub(super) fn plan(&self, sql: &str) -> Result<Compiled> {
        self.plan_with(sql, &[])
    }

    /// The reason for which the executor does not run a statement.
    pub(super) fn refusal(&self, sql: &str) -> String {
        match self.prepared(sql, &[]) {
            Ok(Lowered::Refused(why)) => why.reason,
            Ok(Lowered::Plan(_)) => panic!("{sql}: it is lowered"),
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// The load of an INSERT, and the query of its rows.
    pub(super) fn load_of(&self, sql: &str) -> std::result::Result<(crate::Load, binder::tree::Query), String> {
        let schema = Schema { db: self, session: Clocks::of(self).0 };
        let bound = binder::bind_statement(&schema, sql, &parsed(sql).unwrap(), &[]).unwrap();
        let binder::tree::Statement::Change(bound) = bound else { panic!("{sql}") };
        crate::lower_load(&bound, self, &schema.session).unwrap().map_err(|why| why.reason)
    }
}
