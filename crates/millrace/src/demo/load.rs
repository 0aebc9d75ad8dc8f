//! Loads the data sets included in the binary, by COPY.

use std::time::Instant;

use query::{Outcome, Session};

use super::{Loaded, command, show_time};
use crate::failure::Failure;
use crate::size;

const BEIJING: &str = include_str!("../../assets/data/beijing_pm25.csv");
const NEW_YORK: &str = include_str!("../../assets/data/nyc_weather_2013.csv");
/// Size of a piece of COPY data.
const CHUNK_BYTES: usize = 256 << 10;

struct Source {
    table: &'static str,
    what: &'static str,
    create: &'static str,
    file: &'static str,
    /// Converts a line of the file to a line for COPY.
    convert: fn(&[&str]) -> Option<String>,
}

const SOURCES: [Source; 2] = [
    Source {
        table: "air",
        what: "Beijing 2010-14, hourly",
        create: "CREATE TABLE air (time timestamptz NOT NULL, city text, pm25 int, dewpoint_c float8, temp_c float8, \
                 pressure_hpa float8, wind text, wind_speed float8, snow_hours int, rain_hours int) \
                 WITH (store = 'columns', key = 'city')",
        file: BEIJING,
        convert: air,
    },
    Source {
        table: "weather",
        what: "New York 2013, hourly",
        create: "CREATE TABLE weather (time timestamptz NOT NULL, airport text, temp_f float8, dewpoint_f float8, \
                 humidity float8, wind_direction int, wind_mph float8, gust_mph float8, rain_inch float8, \
                 pressure_mbar float8, visibility_mile float8) WITH (store = 'columns', key = 'airport')",
        file: NEW_YORK,
        convert: weather,
    },
];

/// Creates and fills both tables.
pub(super) async fn measurements(session: &mut Session) -> Result<Vec<Loaded>, Failure> {
    let mut loaded = Vec::new();
    for source in &SOURCES {
        command(session, source.create).await?;
        let started = Instant::now();
        let (rows, points) = copy(session, source).await?;
        let elapsed = started.elapsed();
        println!("  {:<8} {} rows by COPY in {}", source.table, size::group(rows), show_time(elapsed));
        let csv_bytes = source.file.len() as u64;
        loaded.push(Loaded { table: source.table, what: source.what, rows, points, csv_bytes, elapsed });
    }
    Ok(loaded)
}

/// Copies a file in; returns its rows and its values that are not missing.
async fn copy(session: &mut Session, source: &Source) -> Result<(u64, u64), Failure> {
    let sql = format!("COPY {} FROM STDIN WITH (FORMAT csv, NULL 'NA')", source.table);
    let statement = query::parse(&sql)?.into_iter().next();
    let statement = statement.ok_or_else(|| Failure::new("BUG: no COPY statement"))?;
    let prepared = session.prepare(&statement, &[]).await?;
    let Outcome::CopyIn(mut copy) = session.execute(&prepared, &[]).await? else {
        return Err(Failure::new("BUG: COPY did not ask for data"));
    };
    let (mut rows, mut points, mut chunk) = (0, 0, String::new());
    for line in source.file.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let line = (source.convert)(&fields);
        let line = line.ok_or_else(|| Failure::new(format!("BUG: {} has {} fields", source.table, fields.len())))?;
        rows += 1;
        // Time and key are not counted as values.
        points += line.split(',').skip(2).filter(|value| *value != "NA").count() as u64;
        chunk.push_str(&line);
        chunk.push('\n');
        if chunk.len() >= CHUNK_BYTES {
            copy.data(session, chunk.as_bytes()).await?;
            chunk.clear();
        }
    }
    copy.data(session, chunk.as_bytes()).await?;
    copy.done(session).await?;
    Ok((rows, points))
}

/// Columns: No,year,month,day,hour,pm2.5,DEWP,TEMP,PRES,cbwd,Iws,Is,Ir; local time without daylight saving.
fn air(fields: &[&str]) -> Option<String> {
    let &[_, year, month, day, hour, ref measured @ ..] = fields else { return None };
    let time = format!("{year}-{month:0>2}-{day:0>2} {hour:0>2}:00:00+08");
    (measured.len() == 8).then(|| format!("{time},Beijing,{}", measured.join(",")))
}

/// Columns: origin,year,month,day,hour,temp, … ,visib,time_hour; the last is UTC.
fn weather(fields: &[&str]) -> Option<String> {
    let &[airport, _, _, _, _, ref measured @ .., time] = fields else { return None };
    (measured.len() == 9).then(|| format!("{time},{airport},{}", measured.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_ships_converts_to_the_columns_of_its_table() {
        for (source, rows) in SOURCES.iter().zip([43_824, 26_115]) {
            let columns = source.create.split(" WITH ").next().unwrap_or_default().matches(',').count() + 1;
            let lines: Vec<_> = source.file.lines().skip(1).collect();
            assert_eq!(lines.len(), rows, "{}", source.table);
            for line in lines {
                let converted = (source.convert)(&line.split(',').collect::<Vec<_>>());
                assert_eq!(converted.map(|line| line.split(',').count()), Some(columns), "{line}");
            }
        }
    }

    #[test]
    fn beijing_time_is_eight_hours_ahead() {
        let line = air(&"1,2010,1,2,3,NA,-21,-11,1021,NW,1.79,0,0".split(',').collect::<Vec<_>>());
        assert_eq!(line.as_deref(), Some("2010-01-02 03:00:00+08,Beijing,NA,-21,-11,1021,NW,1.79,0,0"));
    }
}
