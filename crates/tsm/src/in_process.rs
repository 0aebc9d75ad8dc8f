//! Points of series without HTTP, for programs that have the database in their process.

use std::collections::HashSet;

use model::Result;
use query::Database;
use query::client::SqlClient;
use timeseries::points::Points;

use crate::data::{Meaning, SentPoints};
use crate::definitions;
use crate::reading::{self, READ_ONE_STATE, Reading, Wanted};
use crate::store::{TOGETHER_MAX, Timed};
use crate::tables::{invalid, of_series};
use crate::units::Units;
use crate::writing;

/// Points of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesPoints {
    /// Name of the series.
    pub name: String,
    /// Starts of the intervals, in nanoseconds since 1970, ascending; one for each point.
    pub times: Vec<i64>,
    /// Values with flags.
    pub points: Points,
}

pub(crate) async fn read(
    database: &Database,
    repository: &str,
    names: &[String],
    (from, to): (i64, i64),
) -> Result<Vec<SeriesPoints>> {
    let mut sql = SqlClient::new(database);
    let units = Units::load(&mut sql).await?;
    let wanted = Wanted::present(from, to, database.engine().env().now_ns());
    let mut readings = Vec::with_capacity(names.len());
    for series in definitions::find_all(&mut sql, repository, names).await? {
        let name = series.name.clone();
        let reading = Reading::new(&mut sql, series, &units, &wanted).await;
        readings.push(reading.map_err(|error| of_series(&name, error))?);
    }
    if readings.iter().any(Reading::needs_transaction) {
        sql.run(READ_ONE_STATE, &[]).await?;
        for reading in &mut readings {
            reading.resolve(&mut sql, &units).await?;
        }
    }
    let mut all = Vec::with_capacity(readings.len());
    let mut ahead = 0;
    for at in 0..readings.len() {
        if at == ahead {
            // Statements on series never wait: other tasks of the thread have a turn, and a caller that has gone is noticed.
            tokio::task::yield_now().await;
            let mut next: Vec<&mut Reading> = readings[at..].iter_mut().take(TOGETHER_MAX).collect();
            ahead += reading::read_ahead(&mut sql, &mut next).await?;
        }
        let reading = &mut readings[at];
        let name = reading.series().name.clone();
        let mut own = SeriesPoints { name, ..SeriesPoints::default() };
        while let Some(mut window) = reading.next(&mut sql).await.map_err(|error| of_series(&own.name, error))? {
            if own.times.is_empty() {
                (own.times, own.points) = (window.times, window.points);
            } else {
                own.times.append(&mut window.times);
                own.points.append(&mut window.points);
            }
        }
        all.push(own);
    }
    Ok(all)
}

pub(crate) async fn write(database: &Database, repository: &str, user: &str, all: Vec<SeriesPoints>) -> Result<()> {
    let mut sql = SqlClient::new(database);
    let units = Units::load(&mut sql).await?;
    let names: Vec<String> = all.iter().map(|own| own.name.clone()).collect();
    let series = definitions::find_all(&mut sql, repository, &names).await?;
    let mut written = HashSet::new();
    if let Some(twice) = series.iter().find(|series| !written.insert(series.id)) {
        return Err(invalid(format!("series \"{}\" is written twice", twice.name)));
    }
    if let Some(own) = all.iter().find(|own| !own.points.has_len(own.times.len())) {
        return Err(invalid(format!(
            "series \"{}\": {} times for {} points",
            own.name,
            own.times.len(),
            own.points.len()
        )));
    }
    let prepare = |(series, SeriesPoints { name, times, points })| {
        let sent = SentPoints::Timed(Timed { times, points });
        writing::prepare(series, &units, &Meaning::default(), sent).map_err(|error| of_series(&name, error))
    };
    let prepared: Vec<_> = series.into_iter().zip(all).map(prepare).collect::<Result<_>>()?;
    writing::store(&mut sql, database.engine().env().now_ns(), user, &prepared).await
}
