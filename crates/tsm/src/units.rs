//! Units: rows of `tsm.units`.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Error, Result, SqlState};
use query::Value;
use query::client::{SqlClient, there};
use timeseries::units::{Conversion, Unit};

use crate::definitions::{self, Series};
use crate::tables::{SCHEMA, option_of, text_of};

/// A unit with what only people read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) unit: Unit,
    pub(crate) category: Option<String>,
    /// Name or number of the series that has its value in the base unit, which varies in time: an exchange rate.
    pub(crate) exchange: Option<String>,
}

/// All units.
pub(crate) struct Units {
    pub(crate) all: Vec<Described>,
    units: Vec<Unit>,
    /// Numbers of the exchange series of units that have one.
    rates: HashMap<String, i64>,
}

impl Units {
    /// All units as they are now.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn load(sql: &mut SqlClient) -> Result<Arc<Units>> {
        sql.kept((SCHEMA, &["units"]), Units::read).await
    }

    async fn read(sql: &mut SqlClient) -> Result<Units> {
        let text = "SELECT name, base, factor, \"offset\", integral, aggregation, category, exchange FROM tsm.units \
                    ORDER BY name";
        let (mut all, mut rates) = (Vec::new(), HashMap::new());
        for rows in sql.rows(text, &[]).await? {
            let (mut names, mut bases, mut integrals) = (rows.texts(0)?, rows.texts(1)?, rows.texts(4)?);
            let (mut factors, mut offsets) = (rows.numbers(2)?, rows.numbers(3)?);
            let (mut rules, mut categories) = (rows.texts(5)?, rows.texts(6)?);
            let mut exchanges = rows.integers(7)?;
            for row in 0..rows.len() {
                let unit = Unit {
                    name: there(names.take(row))?,
                    base: there(bases.take(row))?,
                    factor: there(factors.take(row))?,
                    offset: there(offsets.take(row))?,
                    integral: integrals.take(row),
                    aggregation: there(rules.take(row))?.parse()?,
                };
                let rate = exchanges.take(row);
                rates.extend(rate.map(|rate| (unit.name.clone(), rate)));
                let exchange = rate.map(|rate| rate.to_string());
                all.push(Described { unit, category: categories.take(row), exchange });
            }
        }
        let units = all.iter().map(|described| described.unit.clone()).collect();
        Ok(Units { all, units, rates })
    }

    /// All units, without descriptions.
    pub(crate) fn known(&self) -> &[Unit] {
        &self.units
    }

    /// # Errors
    /// 42704 for a unit that does not exist.
    pub(crate) fn find(&self, name: &str) -> Result<&Unit> {
        self.units.iter().find(|unit| unit.name == name).ok_or_else(|| unknown(name))
    }

    /// Whether the unit of this name has an exchange series.
    pub(crate) fn has_rate(&self, name: &str) -> bool {
        self.rates.contains_key(name)
    }

    /// Number of the exchange series of a unit, if it has one.
    pub(crate) fn rate(&self, unit: &Unit) -> Option<i64> {
        self.rates.get(&unit.name).copied()
    }

    /// The conversion of values that is the same at all times.
    ///
    /// # Errors
    /// 22023 for units of different quantities, and for a unit with an exchange series.
    pub(crate) fn conversion(&self, from: &Unit, to: &Unit) -> Result<Conversion> {
        if from.name != to.name && (self.rate(from).is_some() || self.rate(to).is_some()) {
            let (from, to) = (&from.name, &to.name);
            let message = format!("\"{from}\" becomes \"{to}\" by an exchange series, which only reading can do");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Conversion::find(&self.units, from, to)
    }

    /// The unit of a series.
    ///
    /// # Errors
    /// 42704 if it does not exist.
    pub(crate) fn of(&self, series: &Series) -> Result<&Unit> {
        self.find(&series.unit)
    }
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("unit \"{name}\" does not exist"))
        .with_hint("GET /repositories/default/units lists all units")
}

/// A unit with the name of its exchange series in place of the number, for people.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn named(sql: &mut SqlClient, described: &Described) -> Result<Described> {
    let mut named = described.clone();
    if let Some(number) = described.exchange.as_deref().and_then(|number| number.parse().ok()) {
        named.exchange = Some(definitions::find_by_id(sql, number).await?.name);
    }
    Ok(named)
}

/// Stores a unit, new or changed.
///
/// - `repository`: that of its exchange series.
///
/// # Errors
/// 42704 for a base or integral unit that does not exist; 22023 for a factor of 0 or a base that is no base unit; those of SQL.
pub(crate) async fn store(sql: &mut SqlClient, repository: &str, described: &Described) -> Result<()> {
    let Described { unit, category, exchange } = described;
    let units = Units::load(sql).await?;
    let invalid = |text: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
    if unit.factor == 0.0 || !unit.factor.is_finite() || !unit.offset.is_finite() {
        return invalid(format!("unit \"{}\": the factor must be a finite number other than 0", unit.name));
    }
    if unit.base != unit.name {
        let base = units.find(&unit.base)?;
        if base.base != base.name {
            return invalid(format!(
                "unit \"{}\": \"{}\" is not a base unit; its base is \"{}\"",
                unit.name, base.name, base.base
            ));
        }
    }
    if let Some(integral) = &unit.integral {
        units.find(integral)?;
    }
    let exchange = match exchange {
        None => Value::Null,
        Some(_) if unit.base == unit.name || unit.factor != 1.0 || unit.offset != 0.0 => {
            return invalid(format!(
                "unit \"{}\": one with an exchange series has another unit as base, the factor 1 and the offset 0",
                unit.name
            ));
        }
        Some(series) => Value::Int64(definitions::find(sql, repository, series).await?.id),
    };
    let text = "INSERT INTO tsm.units (name, base, factor, \"offset\", integral, aggregation, category, exchange) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO UPDATE SET base = excluded.base, \
                factor = excluded.factor, \"offset\" = excluded.\"offset\", integral = excluded.integral, \
                aggregation = excluded.aggregation, category = excluded.category, exchange = excluded.exchange";
    let values = [
        text_of(&unit.name),
        text_of(&unit.base),
        Value::Float64(unit.factor),
        Value::Float64(unit.offset),
        option_of(unit.integral.as_deref()),
        text_of(unit.aggregation.name()),
        option_of(category.as_deref()),
        exchange,
    ];
    sql.run(text, &values).await
}

/// Deletes a unit.
///
/// # Errors
/// 42704 if it does not exist; 23503 while series have it, or another unit that has it as base or integral unit.
pub(crate) async fn delete(sql: &mut SqlClient, name: &str) -> Result<()> {
    let in_use = |by: &str| {
        let message = format!("unit \"{name}\" cannot be deleted: {by} it");
        Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
    };
    let needs = |unit: &&Unit| unit.name != name && (unit.base == name || unit.integral.as_deref() == Some(name));
    if let Some(other) = Units::load(sql).await?.known().iter().find(needs) {
        return Err(in_use(&format!("unit \"{}\" has", other.name)));
    }
    let deleted = sql.rows("DELETE FROM tsm.units WHERE name = $1 RETURNING name", &[text_of(name)]).await;
    let deleted = deleted.map_err(|error| match error.state() {
        SqlState::FOREIGN_KEY_VIOLATION => in_use("series have"),
        _ => error,
    })?;
    if deleted.iter().any(|rows| rows.len() > 0) { Ok(()) } else { Err(unknown(name)) }
}
