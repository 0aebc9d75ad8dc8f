//! Units: rows of `tsm.units`.

use model::{Error, Result, SqlState};
use query::Value;
use query::client::{SqlClient, there};
use timeseries::units::Unit;

use crate::definitions::Series;
use crate::tables::{option_of, text_of};

/// A unit with what only people read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) unit: Unit,
    pub(crate) category: Option<String>,
}

/// All units.
pub(crate) struct Units {
    pub(crate) all: Vec<Described>,
    units: Vec<Unit>,
}

impl Units {
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn load(sql: &mut SqlClient) -> Result<Units> {
        let text =
            "SELECT name, base, factor, \"offset\", integral, aggregation, category FROM tsm.units ORDER BY name";
        let mut all = Vec::new();
        for rows in sql.rows(text, &[]).await? {
            let (mut names, mut bases, mut integrals) = (rows.texts(0)?, rows.texts(1)?, rows.texts(4)?);
            let (mut factors, mut offsets) = (rows.numbers(2)?, rows.numbers(3)?);
            let (mut rules, mut categories) = (rows.texts(5)?, rows.texts(6)?);
            for row in 0..rows.len() {
                let unit = Unit {
                    name: there(names.take(row))?,
                    base: there(bases.take(row))?,
                    factor: there(factors.take(row))?,
                    offset: there(offsets.take(row))?,
                    integral: integrals.take(row),
                    aggregation: there(rules.take(row))?.parse()?,
                };
                all.push(Described { unit, category: categories.take(row) });
            }
        }
        let units = all.iter().map(|described| described.unit.clone()).collect();
        Ok(Units { all, units })
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

/// Stores a unit, new or changed.
///
/// # Errors
/// 42704 for a base or integral unit that does not exist; 22023 for a factor of 0 or a base that is no base unit; those of SQL.
pub(crate) async fn store(sql: &mut SqlClient, described: &Described) -> Result<()> {
    let Described { unit, category } = described;
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
    let text = "INSERT INTO tsm.units (name, base, factor, \"offset\", integral, aggregation, category) \
                VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO UPDATE SET base = excluded.base, \
                factor = excluded.factor, \"offset\" = excluded.\"offset\", integral = excluded.integral, \
                aggregation = excluded.aggregation, category = excluded.category";
    let values = [
        text_of(&unit.name),
        text_of(&unit.base),
        Value::Float64(unit.factor),
        Value::Float64(unit.offset),
        option_of(unit.integral.as_deref()),
        text_of(unit.aggregation.name()),
        option_of(category.as_deref()),
    ];
    sql.run(text, &values).await
}

/// Deletes a unit.
///
/// # Errors
/// 42704 if it does not exist; 2BP01 while series have it.
pub(crate) async fn delete(sql: &mut SqlClient, name: &str) -> Result<()> {
    let deleted = sql.rows("DELETE FROM tsm.units WHERE name = $1 RETURNING name", &[text_of(name)]).await;
    let deleted = deleted.map_err(|error| match error.state() {
        SqlState::FOREIGN_KEY_VIOLATION => {
            Error::new(SqlState::FOREIGN_KEY_VIOLATION, format!("unit \"{name}\" cannot be deleted: series have it"))
        }
        _ => error,
    })?;
    if deleted.iter().any(|rows| rows.len() > 0) { Ok(()) } else { Err(unknown(name)) }
}
