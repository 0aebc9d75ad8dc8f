//! Tables of an RDB archiver (CS-Studio, Phoebus) in PostgreSQL.

use std::pin::pin;

use epics::channel_archiver::Item;
use epics::pb::Payload;
use epics::rdb_archiver::{Row, item};
use epics::sample::{Limits, Metadata};
use futures::TryStreamExt;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::items::Items;
use super::{Import, matches};
use crate::connect::{self, connect};
use crate::failure::Failure;

/// Imports the channels of a database. A channel is a source; the time of its last sample is how far it was imported.
pub(super) fn import(import: &mut Import<'_>, url: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let client = connect(Some(url), "").await?.client;
        channels(import, &client, &without_password(url)).await
    })
}

/// The URL as a name of the archive: no password goes to the server.
fn without_password(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, host))) => format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default()),
        None => url.to_owned(),
    }
}

fn failed(error: tokio_postgres::Error) -> Failure {
    let text = error.as_db_error().map_or_else(|| connect::innermost(&error), |error| error.message().to_owned());
    Failure::new(format!("the database of the archive: {text}"))
}

async fn channels(import: &mut Import<'_>, client: &Client, url: &str) -> Result<(), Failure> {
    let arrays = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'sample' \
                  AND column_name IN ('datatype', 'array_val')";
    let has_arrays = client.query_one(arrays, &[]).await.map_err(failed)?.get::<_, i64>(0) == 2;
    let rows = client.query("SELECT channel_id::int8, name FROM channel ORDER BY name", &[]).await.map_err(failed)?;
    let all = rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, String>(1)));
    let all: Vec<(i64, String)> = all.filter(|(_, name)| matches(&import.arguments.pv, name)).collect();
    import.show("{len} PVs", all.len() as u64);
    for (id, name) in all {
        channel(import, client, url, id, &name, has_arrays).await?;
        import.bar.inc(1);
    }
    Ok(())
}

async fn channel(
    import: &mut Import<'_>,
    client: &Client,
    url: &str,
    id: i64,
    name: &str,
    has_arrays: bool,
) -> Result<(), Failure> {
    let source = format!("{url}#{name}");
    let done = import.imported(&source)?;
    let metadata = metadata(client, id).await?;
    let has_labels = !metadata.labels.is_empty();
    let mut items = Items::new(source, name.to_owned());
    items.take(import, Item::Metadata { metadata, payload: Payload::Float64, elements: 1 })?;
    let more = if has_arrays { "s.datatype::text, s.array_val" } else { "NULL::text, NULL::bytea" };
    let text = format!(
        "SELECT floor(extract(epoch FROM s.smpl_time AT TIME ZONE $2))::int8, s.nanosecs::int8, v.name, t.name, \
         s.num_val::int8, s.float_val::float8, s.str_val::text, {more} \
         FROM sample s JOIN severity v USING (severity_id) JOIN status t USING (status_id) \
         WHERE s.channel_id = $1::int8 AND s.smpl_time >= to_timestamp($3) AT TIME ZONE $2 ORDER BY s.smpl_time, s.nanosecs"
    );
    let from = (done / 1_000_000_000) as f64;
    let parameters: [&(dyn ToSql + Sync); 3] = [&id, &import.arguments.time_zone, &from];
    let rows = client.query_raw(&text, parameters).await.map_err(failed)?;
    let mut rows = pin!(rows);
    let mut last = done;
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let time = row.get::<_, i64>(0).saturating_mul(1_000_000_000).saturating_add(row.get::<_, i64>(1));
        if u64::try_from(time).unwrap_or_default() <= done {
            continue;
        }
        last = u64::try_from(time).unwrap_or_default().max(last);
        let read = Row {
            time,
            severity: row.get(2),
            status: row.get(3),
            num_val: row.get(4),
            float_val: row.get(5),
            str_val: row.get(6),
            datatype: row.get(7),
            array_val: row.get(8),
        };
        match item(&read, has_labels) {
            Ok(item) => items.take(import, item)?,
            Err(error) => import.damaged(&format!("{name} at {time} ns: {error}")),
        }
        if items.is_full() {
            items.send(import, last)?;
        }
    }
    if last > done {
        import.done.sources += 1;
    } else {
        import.done.skipped += 1;
    }
    items.send(import, last)
}

async fn metadata(client: &Client, id: i64) -> Result<Metadata, Failure> {
    let mut metadata = Metadata::default();
    let text = "SELECT low_disp_rng::float8, high_disp_rng::float8, low_alarm_lmt::float8, high_alarm_lmt::float8, \
                low_warn_lmt::float8, high_warn_lmt::float8, prec::int4, unit::text FROM num_metadata WHERE channel_id = $1::int8";
    if let Some(row) = client.query_opt(text, &[&id]).await.map_err(failed)? {
        let limit = |at: usize| row.get::<_, Option<f64>>(at).unwrap_or(f64::NAN);
        let pair = |at: usize| (limit(at), limit(at + 1));
        let control = (f64::NAN, f64::NAN);
        metadata.limits = Some(Limits { display: pair(0), alarm: pair(2), warning: pair(4), control });
        metadata.precision = row.get::<_, Option<i32>>(6).and_then(|digits| i16::try_from(digits).ok());
        metadata.units = row.get(7);
    }
    let text = "SELECT enum_val::text FROM enum_metadata WHERE channel_id = $1::int8 ORDER BY enum_nbr";
    let labels = client.query(text, &[&id]).await.map_err(failed)?;
    metadata.labels = labels.iter().map(|row| row.get::<_, Option<String>>(0).unwrap_or_default()).collect();
    Ok(metadata)
}
