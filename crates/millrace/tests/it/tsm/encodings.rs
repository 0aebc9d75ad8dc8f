//! The same points in every encoding.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int32Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};

use super::*;

/// Name, time, value and flag of the points of a list.
type Listed = Vec<(String, String, Option<u64>, i64)>;

fn by_arrow(server: &Server, path: &str) -> Listed {
    let (status, body) = request_bytes(&server.http, "GET", &format!("{REPOSITORY}{path}&format=arrow"), b"").unwrap();
    assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
    let (_, batches) = server::record_batches::decode(&body).unwrap();
    batches.iter().flat_map(points_of_batch).collect()
}

fn points_of_batch(batch: &RecordBatch) -> Listed {
    let names = batch.column(0).as_dictionary::<Int32Type>();
    let names = names.downcast_dict::<arrow_array::StringArray>().unwrap();
    let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
    let values = batch.column(2).as_primitive::<Float64Type>();
    let flags = batch.column(3).as_primitive::<Int16Type>();
    let name = |row: usize| arrow_array::ArrayAccessor::value(&names, row).to_owned();
    let time = |row: usize| jiff::Timestamp::from_nanosecond(times.value(row).into()).unwrap().to_string();
    let value = |row: usize| values.is_valid(row).then(|| values.value(row).to_bits());
    (0..batch.num_rows()).map(|row| (name(row), time(row), value(row), flags.value(row).into())).collect()
}

fn by_json(client: &Client<'_>, path: &str) -> Listed {
    let reply = client.get(path);
    let series = reply.as_array().unwrap().iter();
    let points = series.flat_map(|series| {
        let name = series["Name"].as_str().unwrap();
        points_of(series)
            .into_iter()
            .map(move |(time, value, flag)| (name.to_owned(), time, value.map(f64::to_bits), flag))
    });
    points.collect()
}

/// The bug that this prevents: columns of the store are sent as they are if a series has all of its intervals, and rows that SQL wrote may have
/// no value, no flag, or one that nobody knows.
#[test]
fn lists_are_the_same_by_arrow_as_by_json_and_as_series_by_series() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let day: Vec<f64> = (0..96).map(|at| f64::from(at) / 8.0).collect();
    for name in ["whole", "late", "gap", "null", "unflagged", "unknown", "empty"] {
        for audit in [false, true] {
            let definition = json!({ "Name": format!("{name} {audit}"), "Interval": { "Value": "Minute", "Multiplier": 15 },
                "Unit": "kW", "Audit": audit });
            client.create(&definition);
            let path = format!("{name}%20{audit}");
            match name {
                "empty" => {}
                "late" => client.write(&path, "2025-06-01T00:30:00Z", 900, &day[2..]),
                "gap" => {
                    client.write(&path, "2025-06-01T00:00:00Z", 900, &day[..40]);
                    client.write(&path, "2025-06-01T11:00:00Z", 900, &day[44..]);
                }
                _ => client.write(&path, "2025-06-01T00:00:00Z", 900, &day),
            }
            let changed = match name {
                "null" => "NULL, 9",
                "unflagged" => "5, NULL",
                "unknown" => "5, 3",
                _ => continue,
            };
            let table = if audit { "audited_points" } else { "points" };
            rows(
                &server,
                &format!(
                    "INSERT INTO tsm.{table} (time, series, value, flag) \
                     SELECT '2025-06-01T07:00:00Z', id, {changed} FROM tsm.series WHERE name = '{name} {audit}'"
                ),
            );
        }
    }
    let names = |names: &[&str]| -> String {
        let both = names.iter().flat_map(|name| [format!("name={name}%20false&"), format!("name={name}%20true&")]);
        both.collect()
    };
    let all = names(&["whole", "late", "gap", "null", "unflagged", "unknown", "empty", "whole"]);
    for query in [
        "from=2025-06-01T00:00:00Z&to=2025-06-02T00:00:00Z",
        "from=2025-06-01T06:00:00Z&to=2025-06-01T08:00:00Z",
        "from=2025-06-01T06:10:00Z&to=2025-06-01T08:10:00Z",
        "from=2025-05-31T00:00:00Z&to=2025-06-03T00:00:00Z",
        "from=2025-06-01T00:00:00Z&to=2025-06-02T00:00:00Z&unit=W",
        "from=2025-06-01T00:00:00Z&to=2025-06-02T00:00:00Z&interval=Hour",
        "from=2025-06-01T00:00:00Z&to=2025-06-02T00:00:00Z&aggregation=COUNT",
        "from=2025-06-01T00:00:00Z&to=2025-06-02T00:00:00Z&period=Peak",
        "from=2025-06-01T00:00:00Z&to=2025-06-02T00:00:00Z&timeZone=America/New_York&interval=Day",
    ] {
        let listed = by_json(&client, &format!("/timeseriescollections/data?{all}{query}"));
        assert!(!listed.is_empty(), "{query}");
        assert_eq!(by_arrow(&server, &format!("/timeseriescollections/data?{all}{query}")), listed, "{query}");
        let alone = names(&["whole", "late", "gap", "null", "unflagged", "unknown", "empty", "whole"]);
        let alone = alone.split('&').filter_map(|name| name.strip_prefix("name="));
        let alone = alone.flat_map(|name| {
            let points = client.points(name, query);
            let name = name.replace("%20", " ");
            points.into_iter().map(move |(time, value, flag)| (name.clone(), time, value.map(f64::to_bits), flag))
        });
        assert_eq!(alone.collect::<Listed>(), listed, "{query}");
    }
    server.stop();
}
