//! Creates and changes definitions, one or a list.

use std::collections::HashMap;

use model::{Error, Result, SqlState};
use query::client::SqlClient;
use serde_json::Value as Json;

use crate::definition_csv::check_count;
use crate::definition_json::{SeriesJson, json_of};
use crate::definitions::{self, Series};
use crate::sources;
use crate::tables::invalid;
use crate::units::Units;

/// The fate of a series that an import finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is an error.
    Refuse,
    /// It stays as it is.
    Skip,
    /// The members of the definition are changed.
    Change,
}

/// Creates a series.
///
/// # Errors
/// 23505 if there is one of this name; 22023 and others for a definition that cannot be used; those of SQL.
pub(crate) async fn created(sql: &mut SqlClient, repository: &str, given: SeriesJson, user: &str) -> Result<Series> {
    let mut created = None;
    sql.transaction(async |sql| {
        created = Some(create(sql, repository, given, user).await?);
        Ok(())
    })
    .await?;
    created.ok_or_else(|| Error::bug("a series that was not created"))
}

/// Changes the definition of a series: what is not given stays.
///
/// # Errors
/// Those of [`created`]; 55000 if values exist and would lose their meaning.
pub(crate) async fn changed(sql: &mut SqlClient, series: &Series, given: SeriesJson, user: &str) -> Result<Series> {
    let mut changed = None;
    sql.transaction(async |sql| {
        changed = Some(change(sql, series, given, user).await?);
        Ok(())
    })
    .await?;
    changed.ok_or_else(|| Error::bug("a series that was not changed"))
}

async fn create(sql: &mut SqlClient, repository: &str, given: SeriesJson, user: &str) -> Result<Series> {
    let attributes = given.attributes()?;
    let mut series = given.series(repository, None)?;
    let definition = json_of(&series, &attributes).to_string();
    resolve(sql, &mut series).await?;
    definitions::create(sql, &series, &attributes, user, &definition).await
}

async fn change(sql: &mut SqlClient, series: &Series, given: SeriesJson, user: &str) -> Result<Series> {
    let attributes = given.attributes()?;
    let mut changed = given.series(&series.repository, Some(series))?;
    let definition = json_of(&changed, &attributes).to_string();
    resolve(sql, &mut changed).await?;
    definitions::change(sql, series, (&changed, &attributes), user, &definition).await?;
    Ok(changed)
}

/// Replaces names in formulas by numbers, and checks the formulas.
async fn resolve(sql: &mut SqlClient, series: &mut Series) -> Result<()> {
    if series.is_virtual() {
        let units = Units::load(sql).await?;
        series.formulas = sources::resolved(sql, &units, series).await?;
    }
    Ok(())
}

/// Creates series, or changes those that exist, in one transaction. Formulas may refer to series that come later.
///
/// - `all`: definitions, each with its place for errors.
///
/// Returns the series that were created or changed, in the order in which that was done.
///
/// # Errors
/// Those of [`created`] and [`changed`], with the place; 54000 for too many. Nothing is changed then.
pub(crate) async fn import(
    sql: &mut SqlClient,
    repository: &str,
    all: Vec<(String, Json)>,
    existing: Existing,
    user: &str,
) -> Result<Vec<Series>> {
    check_count(all.len())?;
    let mut plain = Vec::new();
    let mut formulas = Vec::new();
    let mut names = HashMap::new();
    for (place, json) in all {
        let given = SeriesJson::of(json).map_err(|error| error.context(place.clone()))?;
        let name = given.name().unwrap_or_default().to_owned();
        if let Some(first) = names.insert(name.clone(), place.clone()) {
            return Err(invalid(format!("series \"{name}\" is defined twice")).context(format!("{first}, {place}")));
        }
        if given.has_formula() { &mut formulas } else { &mut plain }.push((place, name, given));
    }
    let names: Vec<String> = names.into_keys().collect();
    let mut done = Vec::new();
    sql.transaction(async |sql| {
        let known = definitions::find_named(sql, repository, &names).await?;
        for (place, name, given) in plain {
            let made = make(sql, repository, (known.get(&name), given), existing, user).await;
            done.extend(made.map_err(|error| error.context(place))?);
        }
        // A formula that refers to one that is not there yet waits for it.
        while !formulas.is_empty() {
            let (count, mut waiting, mut why) = (formulas.len(), Vec::new(), None);
            for (place, name, given) in formulas {
                let own = (known.get(&name), given.clone());
                match make(sql, repository, own, existing, user).await {
                    Ok(made) => done.extend(made),
                    Err(error) if is_waiting(&error) => {
                        why.get_or_insert(error.context(place.clone()));
                        waiting.push((place, name, given));
                    }
                    Err(error) => return Err(error.context(place)),
                }
            }
            if waiting.len() == count {
                return Err(why.unwrap_or_else(|| Error::bug("formulas that wait for nothing")));
            }
            formulas = waiting;
        }
        Ok(())
    })
    .await?;
    Ok(done)
}

/// Whether a formula refers to a series that does not exist. No statement has failed then, so that the transaction goes on.
fn is_waiting(error: &Error) -> bool {
    error.state() == SqlState::UNDEFINED_OBJECT && error.message().starts_with("series ")
}

async fn make(
    sql: &mut SqlClient,
    repository: &str,
    (known, given): (Option<&Series>, SeriesJson),
    existing: Existing,
    user: &str,
) -> Result<Option<Series>> {
    match (known, existing) {
        (Some(_), Existing::Skip) => Ok(None),
        (Some(series), Existing::Change) => change(sql, series, given, user).await.map(Some),
        (_, Existing::Refuse) | (None, _) => create(sql, repository, given, user).await.map(Some),
    }
}
