//! Managed time series by REST.

mod as_of;
mod bulk_writes;
mod encodings;
mod moving;
mod random;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::clients::{printed, tool};
use crate::http::{request, request_bytes};
use crate::postgres::Postgres;
use crate::server::{Server, folder, millrace};

/// Address of the default repository.
const REPOSITORY: &str = "/repositories/default";

/// A client of one server.
struct Client<'a>(&'a Server);

impl Client<'_> {
    fn send(&self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = request(&self.0.http, method, &format!("{REPOSITORY}{path}"), body.as_bytes()).unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Json::Null))
    }

    fn ok(&self, method: &str, path: &str, body: &Json) -> Json {
        let (status, reply) = self.send(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {reply}");
        reply
    }

    fn get(&self, path: &str) -> Json {
        self.ok("GET", path, &Json::Null)
    }

    fn create(&self, definition: &Json) {
        self.ok("POST", "/timeseries", definition);
    }

    /// Writes values of consecutive intervals.
    fn write(&self, series: &str, from: &str, seconds: i64, values: &[f64]) {
        let from: jiff::Timestamp = from.parse().unwrap();
        let data = (0..).zip(values).map(|(at, value)| {
            let time = from + jiff::SignedDuration::from_secs(at * seconds);
            json!({ "From": time.to_string(), "Value": value, "Flag": 9 })
        });
        self.ok(
            "PUT",
            &format!("/timeseries/{series}/data?format=timestamp"),
            &json!({ "Data": data.collect::<Vec<_>>() }),
        );
    }

    /// `From`, `Value` and `Flag` of the points of a series.
    fn points(&self, series: &str, query: &str) -> Vec<(String, Option<f64>, i64)> {
        points_of(&self.get(&format!("/timeseries/{series}/data?{query}&format=timestamp")))
    }
}

fn points_of(reply: &Json) -> Vec<(String, Option<f64>, i64)> {
    let points = reply["Data"].as_array().unwrap_or_else(|| panic!("no points in {reply}"));
    let point = |point: &Json| {
        (point["From"].as_str().unwrap().to_owned(), point["Value"].as_f64(), point["Flag"].as_i64().unwrap())
    };
    points.iter().map(point).collect()
}

fn point(from: &str, value: impl Into<Option<f64>>, flag: i64) -> (String, Option<f64>, i64) {
    (from.to_owned(), value.into(), flag)
}

fn quarter_hours(name: &str) -> Json {
    json!({ "Name": name, "Type": "Begin", "Interval": { "Value": "Minute", "Multiplier": 15 }, "Unit": "kW",
        "TimeZone": "Europe/Vienna", "Audit": true })
}

#[test]
fn days_of_23_24_and_25_hours_have_their_energy() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    for (from, to, quarters) in [
        ("2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z", 92),
        ("2025-07-01T22:00:00Z", "2025-07-02T22:00:00Z", 96),
        ("2025-10-25T22:00:00Z", "2025-10-26T23:00:00Z", 100),
    ] {
        client.write("P", from, 900, &vec![4.0; quarters]);
        let range = format!("from={from}&to={to}");
        let own = client.points("P", &range);
        assert_eq!(own.len(), quarters, "{from}");
        assert!(own.iter().all(|(_, value, flag)| (*value, *flag) == (Some(4.0), 9)), "{from}");
        let hours = client.points("P", &format!("{range}&interval=Hour&unit=kWh"));
        assert_eq!(hours.len(), quarters / 4, "{from}");
        assert!(hours.iter().all(|(_, value, _)| *value == Some(4.0)), "{from}");
        let energy = f64::from(u32::try_from(quarters).unwrap());
        assert_eq!(client.points("P", &format!("{range}&interval=Day&unit=kWh")), [point(from, energy, 9)]);
        assert_eq!(client.points("P", &format!("{range}&interval=Day")), [point(from, 4.0, 9)]);
        assert_eq!(client.points("P", &format!("{range}&interval=Total&unit=MWh")), [point(from, energy / 1000.0, 9)]);
        // A day's energy spread over its hours is what it was.
        let day = format!("D{quarters}");
        client.create(
            &json!({ "Name": day, "Interval": { "Value": "Day" }, "Unit": "kWh", "TimeZone": "Europe/Vienna" }),
        );
        client.write(&day, from, 0, &[energy]);
        let spread = client.points(&day, &format!("{range}&interval=Minute&intervalMultiplier=15&unit=kW"));
        assert_eq!(spread, own, "{from}");
    }
    server.stop();
}

#[test]
fn the_two_hours_of_autumn_are_written_and_read_apart() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&json!({ "Name": "H", "Interval": { "Value": "Hour" }, "Unit": "kWh", "TimeZone": "Europe/Vienna" }));
    let body = json!({ "Data": [
        { "From": "2025-10-26T02:00:00B", "Value": 2.0 }, { "From": "2025-10-26T02:00:00A", "Value": 1.0 },
        { "From": "2025-10-26T03:00:00", "Value": "Infinity" }, { "From": "2025-10-26T04:00:00", "Value": "NaN" },
        { "From": "2025-10-26T05:00:00", "Value": null, "Flag": 19 },
    ] });
    client.ok("PUT", "/timeseries/H/data", &body);
    let reply = client.get("/timeseries/H/data?from=2025-10-26T02:00:00A&to=2025-10-26T06:00:00&stamps=local");
    let expected = json!([
        { "From": "2025-10-26T02:00:00A", "Value": 1.0, "Flag": 9 }, { "From": "2025-10-26T02:00:00B", "Value": 2.0, "Flag": 9 },
        { "From": "2025-10-26T03:00:00", "Value": "Infinity", "Flag": 9 }, { "From": "2025-10-26T04:00:00", "Value": "NaN", "Flag": 9 },
        { "From": "2025-10-26T05:00:00", "Value": null, "Flag": 19 },
    ]);
    assert_eq!(reply["Data"], expected);
    let offset = client.points("H", "from=2025-10-26T00:00:00Z&to=2025-10-26T02:00:00Z&stamps=offset");
    assert_eq!(offset, [point("2025-10-26T02:00:00+02:00", 1.0, 9), point("2025-10-26T02:00:00+01:00", 2.0, 9)]);
    server.stop();
}

#[test]
fn missing_values_are_never_zero_and_the_greatest_flag_is_kept() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&json!({ "Name": "E", "Interval": { "Value": "Minute", "Multiplier": 15 }, "Unit": "kWh" }));
    let body = json!({ "Data": [
        { "From": "2025-01-01T00:00:00Z", "Value": 0.0, "Flag": 19 }, { "From": "2025-01-01T00:15:00Z", "Value": 10.0 },
        { "From": "2025-01-01T00:30:00Z", "Value": 20.0 }, { "From": "2025-01-01T00:45:00Z", "Value": 30.0, "Flag": 20 },
        { "From": "2025-01-01T01:15:00Z", "Value": 5.0 }, { "From": "2025-01-01T03:00:00Z", "Value": null },
    ] });
    client.ok("PUT", "/timeseries/E/data", &body);
    let range = "from=2025-01-01T00:00:00Z&to=2025-01-01T04:00:00Z";
    assert_eq!(
        client.points("E", &format!("{range}&interval=Hour")),
        [
            point("2025-01-01T00:00:00Z", 60.0, 19),
            point("2025-01-01T01:00:00Z", 5.0, 19),
            point("2025-01-01T02:00:00Z", None, 19),
            point("2025-01-01T03:00:00Z", None, 19),
        ]
    );
    assert_eq!(
        client.points("E", &format!("{range}&interval=Hour&aggregation=avg"))[1],
        point("2025-01-01T01:00:00Z", 5.0, 19)
    );
    assert_eq!(client.points("E", range).len(), 16, "every quarter hour of the range has a point");
    server.stop();
}

#[test]
fn points_of_another_raster_and_unit_are_converted_when_they_are_written() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    let body = json!({ "Interval": { "Value": "Hour" }, "Unit": "MWh", "Data": [
        { "From": "2025-03-30T00:00:00Z", "Value": 0.008 }, { "From": "2025-03-30T02:00:00Z", "Value": 0.004, "Flag": 21 },
    ] });
    client.ok("PUT", "/timeseries/P/data", &body);
    let points = client.points("P", "from=2025-03-30T00:00:00Z&to=2025-03-30T03:00:00Z");
    assert!(points[..4].iter().all(|(_, value, flag)| (*value, *flag) == (Some(8.0), 9)), "{points:?}");
    assert!(points[4..8].iter().all(|(_, value, flag)| (*value, *flag) == (None, 19)), "not written: {points:?}");
    assert!(points[8..].iter().all(|(_, value, flag)| (*value, *flag) == (Some(4.0), 21)), "{points:?}");
    server.stop();
}

#[test]
fn spontaneous_values_hold_until_the_next() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&json!({ "Name": "S", "Type": "Spontaneous", "Unit": "kW" }));
    let body = json!({ "Data": [{ "From": "2025-01-01T00:20:00Z", "Value": 6.0 }, { "From": "2025-01-01T01:30:00.5Z", "Value": 3.0 }] });
    client.ok("PUT", "/timeseries/S/data", &body);
    assert_eq!(
        client.points("S", ""),
        [point("2025-01-01T00:20:00Z", 6.0, 9), point("2025-01-01T01:30:00.500Z", 3.0, 9)]
    );
    let hours = "from=2025-01-01T00:00:00Z&to=2025-01-01T03:00:00Z&interval=Hour";
    assert_eq!(
        client.points("S", &format!("{hours}&unit=kWh")),
        [
            point("2025-01-01T00:00:00Z", 4.0, 19),
            point("2025-01-01T01:00:00Z", 4.500_416_666_666_666, 9),
            point("2025-01-01T02:00:00Z", 3.0, 9),
        ]
    );
    let far = "from=2035-01-01T00:00:00Z&to=2035-01-01T01:00:00Z&interval=Hour";
    assert_eq!(client.points("S", far), [point("2035-01-01T00:00:00Z", 3.0, 9)], "the last value holds for ever");
    server.stop();
}

#[test]
fn earlier_states_of_audited_series_are_read_and_deleted_values_come_back() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    client.create(&json!({ "Name": "plain", "Interval": { "Value": "Hour" } }));
    let now = || {
        // Commit times are whole microseconds, and the next one is later.
        std::thread::sleep(std::time::Duration::from_millis(2));
        jiff::Timestamp::now().to_string()
    };
    client.write("P", "2025-01-01T00:00:00Z", 900, &[1.0, 1.0, 1.0, 1.0]);
    let first = now();
    client.write("P", "2025-01-01T00:15:00Z", 900, &[9.0]);
    let second = now();
    client.ok("DELETE", "/timeseries/P/data?from=2025-01-01T00:00:00Z&to=2025-01-01T00:15:00Z", &Json::Null);
    let range = "from=2025-01-01T00:00:00Z&to=2025-01-01T01:00:00Z&interval=Hour&unit=kWh";
    for (as_of, value, flag) in [(Some(&first), 1.0, 9), (Some(&second), 3.0, 9), (None, 2.75, 19)] {
        let as_of = as_of.map_or_else(String::new, |time| format!("&asOf={time}"));
        assert_eq!(
            client.points("P", &format!("{range}{as_of}")),
            [point("2025-01-01T00:00:00Z", value, flag)],
            "{as_of}"
        );
    }
    let before = client.points("P", &format!("{range}&asOf=2020-01-01T00:00:00Z"));
    assert_eq!(before, [point("2025-01-01T00:00:00Z", None, 19)], "nothing was there");
    let (status, reply) = client.send("GET", &format!("/timeseries/plain/data?asOf={first}"), &Json::Null);
    assert_eq!(status, 400, "{reply}");
    assert!(reply["error"].as_str().unwrap().contains("has no audit"), "{reply}");
    server.stop();
}

#[test]
fn changes_are_listed_and_read_exactly_and_as_of_each() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    client.write("P", "2025-01-01T00:00:00Z", 900, &[1.0, 1.0, 1.0, 1.0]);
    client.write("P", "2025-01-01T00:15:00Z", 900, &[9.0, 1.0]);
    client.ok("DELETE", "/timeseries/P/data?from=2025-01-01T00:00:00Z&to=2025-01-01T00:15:00Z", &Json::Null);
    let changes = client.get("/timeseries/P/data/modifications");
    let changes: Vec<(&str, &str, i64)> = changes
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            (change["Time"].as_str().unwrap(), change["Change"].as_str().unwrap(), change["Points"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(
        changes.iter().map(|change| (change.1, change.2)).collect::<Vec<_>>(),
        [("written", 4), ("written", 2), ("deleted", 0)]
    );
    let values = |query: &str| -> Vec<Option<f64>> {
        let range = "from=2025-01-01T00:00:00Z&to=2025-01-01T01:00:00Z";
        client.points("P", &format!("{range}&{query}")).into_iter().map(|point| point.1).collect()
    };
    let one = Some(1.0);
    for (change, state, exact) in [
        (0, [one; 4], [one; 4]),
        (1, [one, Some(9.0), one, one], [None, Some(9.0), None, None]),
        (2, [None, Some(9.0), one, one], [None; 4]),
    ] {
        let stamp = changes[change].0;
        assert_eq!(values(&format!("audit={stamp}")), state, "state after change {change}");
        assert_eq!(values(&format!("audit={stamp}&exactAudit=true")), exact, "what change {change} changed");
    }
    let (status, reply) =
        client.send("GET", "/timeseries/P/data?audit=2030-01-01T00:00:00Z&exactAudit=true", &Json::Null);
    assert_eq!(status, 400, "{reply}");
    server.stop();
}

#[test]
fn versions_of_a_forecast_are_read_exactly_before_and_newest_first() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&json!({ "Name": "F", "Interval": { "Value": "Hour" }, "Unit": "kWh", "Quotation": true }));
    let hours = |from: u32, values: &[f64]| -> Json {
        let data: Vec<Json> = (from..)
            .zip(values)
            .map(|(hour, value)| json!({ "From": format!("2025-01-02T{hour:02}:00:00Z"), "Value": value }))
            .collect();
        json!({ "Data": data })
    };
    client.ok("PUT", "/timeseries/F/data?quotation=2025-01-01T06:00:00Z", &hours(0, &[1.0, 1.0, 1.0]));
    client.ok("PUT", "/timeseries/F/data?quotation=2025-01-01T12:00:00Z", &hours(1, &[2.0, 2.0]));
    client.ok("PUT", "/timeseries/F/data?quotation=2199-01-01T00:00:00Z", &hours(2, &[3.0]));
    let versions = json!(["2025-01-01T06:00:00Z", "2025-01-01T12:00:00Z", "2199-01-01T00:00:00Z"]);
    assert_eq!(client.get("/timeseries/F/data/quotations"), versions);
    client.create(&json!({ "Name": "twice", "Interval": { "Value": "Hour" }, "Formula": "[F] * 2" }));
    for (behaviour, query, expected) in [
        (None, "", [Some(1.0), Some(2.0), Some(3.0)]),
        (None, "quotation=2025-01-01T06:00:00Z", [Some(1.0), Some(1.0), Some(1.0)]),
        (None, "quotation=2025-01-01T18:00:00Z", [Some(1.0), Some(2.0), Some(2.0)]),
        (None, "quotationBefore=2025-01-01T12:00:00Z", [Some(1.0), Some(1.0), Some(1.0)]),
        (None, "quotation=2025-01-01T12:00:00Z&exactQuotation=true", [None, Some(2.0), Some(2.0)]),
        (None, "quotationBefore=2199-01-01T00:00:00Z&exactQuotation=true", [None, Some(2.0), Some(2.0)]),
        (
            None,
            "quotationBefore=2199-01-01T00:00:00Z&exactQuotation=true&versions=2",
            [Some(1.0), Some(1.0), Some(1.0)],
        ),
        (None, "quotationBefore=2199-01-01T00:00:00Z&exactQuotation=true&versions=3", [None, None, None]),
        (Some("Max exact"), "", [None, None, Some(3.0)]),
        (Some("Now not exact"), "", [Some(1.0), Some(2.0), Some(2.0)]),
        (Some("Max not exact"), "", [Some(1.0), Some(2.0), Some(3.0)]),
    ] {
        if let Some(behaviour) = behaviour {
            client.ok("PUT", "/timeseries/F", &json!({ "QuotationBehaviour": behaviour }));
        }
        let range = "from=2025-01-02T00:00:00Z&to=2025-01-02T03:00:00Z";
        let values = |series: &str| client.points(series, &format!("{range}&{query}")).into_iter().map(|point| point.1);
        assert_eq!(values("F").collect::<Vec<_>>(), expected, "{behaviour:?} {query}");
        let doubled = expected.map(|value| value.map(|value| value * 2.0));
        assert_eq!(values("twice").collect::<Vec<_>>(), doubled, "through a formula: {behaviour:?} {query}");
    }
    let (status, reply) = client.send("PUT", "/timeseries/F/data", &hours(0, &[1.0]));
    assert_eq!(status, 400, "{reply}");
    server.stop();
}

#[test]
fn formulas_are_checked_renamed_and_computed_on_any_raster() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("A"));
    client.create(
        &json!({ "Name": "Day, B", "Interval": { "Value": "Day" }, "Unit": "kWh", "TimeZone": "Europe/Vienna" }),
    );
    client.write("A", "2025-03-29T23:00:00Z", 900, &[4.0; 92]);
    client.write("Day,%20B", "2025-03-29T23:00:00Z", 0, &[46.0]);
    let hour = |name: &str, formula: &Json| {
        json!({ "Name": name, "Interval": { "Value": "Hour" }, "Unit": "kWh",
        "TimeZone": "Europe/Vienna", "Formula": formula })
    };
    // Hourly energy of A minus the hour's share of the day's energy.
    client.create(&hour("Rest", &json!("[A, 0, kWh] - [\"Day, B\"]")));
    let day = "from=2025-03-29T23:00:00Z&to=2025-03-30T22:00:00Z";
    assert_eq!(client.points("Rest", &format!("{day}&interval=Day")), [point("2025-03-29T23:00:00Z", 46.0, 9)]);
    let hours = client.points("Rest", day);
    assert!(hours.len() == 23 && hours.iter().all(|(_, value, flag)| (*value, *flag) == (Some(2.0), 9)), "{hours:?}");
    client.create(&hour(
        "Nested",
        &json!({ "2025-03-30T10:00:00Z": "Shift([Rest], -1) + 1", "2025-01-01T00:00:00Z": "If([Rest] > 1, 10, 20)" }),
    ));
    assert_eq!(
        client.points("Nested", "from=2025-03-30T09:00:00Z&to=2025-03-30T11:00:00Z"),
        [point("2025-03-30T09:00:00Z", 10.0, 9), point("2025-03-30T10:00:00Z", 3.0, 9),]
    );
    assert_eq!(client.points("Nested", "from=2024-12-31T23:00:00Z&to=2025-01-01T01:00:00Z")[0].2, 19, "no formula yet");
    client.ok("PUT", "/timeseries/A", &json!({ "Name": "Meter [A]" }));
    assert_eq!(client.get("/timeseries/Rest")["Formula"], "[\"Meter [A]\", 0, kWh] - [\"Day, B\"]");
    assert_eq!(client.points("Rest", day).len(), 23, "a renamed series is found by its number");
    let adhoc = client.ok("POST", &format!("/formulas/evaluate?{day}"),
        &json!({ "Interval": { "Value": "Day" }, "TimeZone": "Europe/Vienna", "Unit": "kWh", "Formula": "Round([Rest] / 3, 1)" }));
    assert_eq!(points_of(&adhoc), [point("2025-03-29T23:00:00Z", 15.3, 9)]);
    for (formula, status, expected) in [
        (json!("[Rest] +"), 400, "found the end, expected a number"),
        (json!("[Nobody]"), 404, "series \"Nobody\" does not exist"),
        (json!("[Rest, 0, K]"), 400, "cannot be converted to \"K\""),
        (json!("Foo([Rest])"), 404, "function Foo does not exist"),
        (json!("[Nested]"), 400, "refers to itself"),
    ] {
        let (got, reply) = client.send("PUT", "/timeseries/Rest", &json!({ "Formula": formula }));
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(got == status && error.contains(expected), "{formula}: {got} {reply}");
    }
    // Each formula reads the one before twice: the last one is computed from 1,023 series and formulas.
    for at in 0..7 {
        let before = if at == 0 { "Rest".to_owned() } else { format!("N{}", at - 1) };
        client.create(&hour(&format!("N{at}"), &json!(format!("[{before}] + [{before}, 0, kWh]"))));
    }
    let (status, reply) = client.send("POST", "/timeseries", &hour("N7", &json!("[N6] + [N6, 0, kWh]")));
    assert!(status == 413 && reply["error"].as_str().unwrap().contains("more than 1000 series"), "{status} {reply}");
    for at in (0..7).rev() {
        client.ok("DELETE", &format!("/timeseries/N{at}"), &Json::Null);
    }
    let (status, reply) = client.send("DELETE", "/timeseries/Rest", &Json::Null);
    assert!(status == 409 && reply["error"].as_str().unwrap().contains("formulas refer to it"), "{status} {reply}");
    let (status, reply) = client.send("PUT", "/timeseries/Rest/data", &json!({ "Data": [] }));
    assert!(status == 400 && reply["error"].as_str().unwrap().contains("computed by a formula"), "{status} {reply}");
    client.ok("DELETE", "/timeseries/Nested", &Json::Null);
    client.ok("DELETE", "/timeseries/Rest", &Json::Null);
    server.stop();
}

#[test]
fn a_sum_by_attribute_follows_its_changes() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.ok("POST", "/attributes", &json!({ "Name": "Supplier" }));
    client.ok("POST", "/attributes", &json!({ "Name": "Place", "Type": "Node" }));
    client.ok("POST", "/attributes", &json!({ "Name": "Power", "Type": "Number" }));
    let hour = |name: &str, attributes: Json| json!({ "Name": name, "Interval": { "Value": "Hour" }, "Unit": "kWh", "Attributes": attributes });
    let changing = json!({ "2025-01-01T00:00:00Z": "North", "2025-01-01T02:00:00Z": "South" });
    client.create(&hour("A", json!({ "Supplier": changing, "Place": "Austria/Vienna" })));
    client.create(&hour("B", json!({ "Supplier": "North", "Power": 7.5 })));
    client.create(&hour("C", json!({})));
    for (name, value) in [("A", 1.0), ("B", 10.0), ("C", 100.0)] {
        client.write(name, "2025-01-01T00:00:00Z", 3600, &[value; 4]);
    }
    let range = "from=2025-01-01T00:00:00Z&to=2025-01-01T04:00:00Z";
    let sum = |attribute: &str| -> Vec<Option<f64>> {
        let reply = client.get(&format!("/timeseriescollections/data/sum?attribute={attribute}&{range}"));
        points_of(&reply).into_iter().map(|point| point.1).collect()
    };
    assert_eq!(sum("Supplier%7CNorth"), [11.0, 11.0, 10.0, 10.0].map(Some));
    assert_eq!(sum("Supplier%7CSouth"), [None, None, Some(1.0), Some(1.0)]);
    assert_eq!(sum("Place%7CAustria"), [Some(1.0); 4]);
    let names = |query: &str| -> Vec<Json> {
        client
            .get(&format!("/timeseries?{query}"))
            .as_array()
            .unwrap()
            .iter()
            .map(|series| series["Name"].clone())
            .collect()
    };
    assert_eq!(names("attribute=Supplier%7CSouth&attribute=Place%7CAustria"), ["A"]);
    assert_eq!(names("attribute=Supplier"), ["A", "B"]);
    let (status, _) = request(&server.http, "GET", "/api/repositories/default/timeseries/A", b"").unwrap();
    assert_eq!(status, 200);
    assert_eq!(client.get("/timeseries/A")["Attributes"], json!({ "Supplier": changing, "Place": "Austria/Vienna" }));
    client.ok("PUT", "/timeseries/A", &json!({ "Attributes": { "Place": null } }));
    assert_eq!(client.get("/timeseries/A")["Attributes"], json!({ "Supplier": changing }), "the others stay");
    for (attributes, status, expected) in [
        (json!({ "Colour": "red" }), 404, "attribute \"Colour\" does not exist"),
        (json!({ "Power": "much" }), 400, "\"much\" is no Number"),
    ] {
        let (got, reply) = client.send("POST", "/timeseries", &hour("D", attributes));
        assert!(got == status && reply["error"].as_str().unwrap().contains(expected), "{got} {reply}");
    }
    let (_, rows) = request(
        &server.http,
        "POST",
        "/sql?format=csv",
        b"SELECT name, sum(value) FROM tsm.data GROUP BY name ORDER BY name",
    )
    .unwrap();
    assert_eq!(rows.lines().skip(1).collect::<Vec<_>>(), ["A,4", "B,40", "C,400"]);
    server.stop();
}

#[test]
fn long_series_are_read_page_by_page_to_the_last_value() {
    const LEN: usize = 150_000;
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let second = |name: &str, ty: &str| {
        let interval = if ty == "Begin" { json!({ "Value": "Second" }) } else { Json::Null };
        json!({ "Name": name, "Type": ty, "Interval": interval, "Aggregation": "SUM" })
    };
    client.create(&second("S", "Spontaneous"));
    client.create(&second("C", "Begin"));
    client.create(&json!({ "Name": "Q", "Interval": { "Value": "Second" }, "Quotation": true, "Aggregation": "SUM" }));
    client.create(
        &json!({ "Name": "F", "Interval": { "Value": "Second" }, "Formula": "[C] + [Q] + [S]", "Aggregation": "SUM" }),
    );
    let ones = vec![1.0; LEN];
    for path in ["S", "C"] {
        client.write(path, "2025-01-01T00:00:00Z", 1, &ones);
    }
    // Three versions of each second of the first half, so that a page ends within the versions of a time.
    for (version, value) in [(1, 5.0), (2, 6.0), (3, 2.0)] {
        let data: Vec<Json> = (0..LEN / 2)
            .map(|at| {
                let time: jiff::Timestamp = "2025-01-01T00:00:00Z".parse().unwrap();
                json!({ "From": (time + jiff::SignedDuration::from_secs(at as i64)).to_string(), "Value": value })
            })
            .collect();
        client.ok("PUT", &format!("/timeseries/Q/data?quotation=2024-12-0{version}"), &json!({ "Data": data }));
    }
    for (series, own) in [("S", 1.0), ("C", 1.0)] {
        let all = client.points(series, "");
        assert_eq!(all.len(), LEN, "{series}");
        assert!(
            all.is_sorted_by(|one, next| one.0 < next.0) && all.iter().all(|point| point.1 == Some(own)),
            "{series}"
        );
    }
    assert_eq!(client.points("Q", "").len(), LEN / 2);
    let range = "from=2025-01-01T00:00:00Z&to=2025-01-02T17:40:00Z";
    for (series, query, total, flag) in [
        ("S", "", LEN as f64, 9),
        ("S", "&aggregation=AVG", 1.0, 9),
        ("C", "", LEN as f64, 9),
        ("Q", "", LEN as f64, 19),
        ("Q", "&quotation=2024-12-02", LEN as f64 / 2.0 * 6.0, 19),
        ("F", "", LEN as f64 * 3.0, 19),
    ] {
        let total = [point("2025-01-01T00:00:00Z", total, flag)];
        assert_eq!(client.points(series, &format!("{range}&interval=Total{query}")), total, "{series} {query}");
    }
    let days = client.points("F", "from=2025-01-01T00:00:00Z&to=2025-01-03T00:00:00Z&interval=Day");
    assert_eq!(days.iter().map(|point| point.1.unwrap()).sum::<f64>(), LEN as f64 * 3.0);
    server.stop();
}

#[test]
fn a_request_ends_when_its_client_goes_away() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let second = |name: &str| json!({ "Name": name, "Interval": { "Value": "Second" }, "Aggregation": "SUM" });
    client.create(&second("S"));
    client.write("S", "2025-01-01T00:00:00Z", 1, &[1.0; 100]);
    let mut virtual_series = second("F");
    virtual_series["Formula"] = json!("[S] + 1");
    client.create(&virtual_series);
    let processor_time = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let total = "from=2024-06-01T00:00:00Z&to=2025-12-31T00:00:00Z&interval=Total";
    for path in [
        format!("{REPOSITORY}/timeseries/F/data?{total}"),
        format!("{REPOSITORY}/timeseriescollections/data?name=F&{total}"),
    ] {
        let mut stream = std::net::TcpStream::connect(&server.http).unwrap();
        std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(1));
        drop(stream);
        // 50 million intervals take much longer than this.
        let quiet = (0..40).any(|_| {
            let before = processor_time();
            std::thread::sleep(std::time::Duration::from_millis(250));
            processor_time() - before <= 2
        });
        assert!(quiet, "{path}: the server still computes");
    }
    server.stop();
}

#[test]
fn clients_that_read_nothing_keep_memory_within_its_budget() {
    let (_folder, data) = folder();
    let server = Server::start_with(&data, |command| {
        command.args(["--memory", "512MiB"]);
    });
    let client = Client(&server);
    client.create(&json!({ "Name": "S", "Interval": { "Value": "Second" } }));
    client.write("S", "2025-01-01T00:00:00Z", 1, &vec![1.0; 150_000]);
    let bulk = format!("{REPOSITORY}/timeseriescollections/data?{}", ["name=S"; 50].join("&"));
    let own = format!("{REPOSITORY}/timeseries/S/data");
    // As many as there are slots for statements, so that each is answered.
    let stopped: Vec<std::net::TcpStream> = (0..60)
        .map(|at| {
            let mut stream = std::net::TcpStream::connect(&server.http).unwrap();
            let path = if at % 2 == 0 { &bulk } else { &own };
            std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
                .unwrap();
            stream
        })
        .collect();
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    // The peak is reached when every client has what its socket takes.
    let mut last = 0;
    while last != peak() {
        last = peak();
        std::thread::sleep(std::time::Duration::from_secs(2));
    }
    assert!(last <= 512 + 64, "{last} MiB");
    assert_eq!(client.points("S", "from=2025-01-01T00:00:00Z&to=2025-01-01T00:01:00Z").len(), 60);
    drop(stopped);
    server.stop();
}

#[test]
fn many_series_are_read_written_and_added_up_in_one_request() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    for name in ["A", "B", "C d/e"] {
        client.create(&quarter_hours(name));
    }
    let of =
        |name: &str, value: f64| json!({ "Name": name, "Data": [{ "From": "2025-01-01T00:00:00Z", "Value": value }] });
    client.ok("PUT", "/timeseriescollections/data", &json!([of("A", 1.0), of("B", 2.0), of("C d/e", 4.0)]));
    let range = "from=2025-01-01T00:00:00Z&to=2025-01-01T00:15:00Z";
    let reply = client.get(&format!("/timeseriescollections/data?name=C%20d%2Fe&name=A&id=2&{range}"));
    let read: Vec<(&str, f64)> = reply
        .as_array()
        .unwrap()
        .iter()
        .map(|series| (series["Name"].as_str().unwrap(), series["Data"][0]["Value"].as_f64().unwrap()))
        .collect();
    assert_eq!(read, [("C d/e", 4.0), ("A", 1.0), ("B", 2.0)], "in the order of the request");
    assert_eq!(client.points("C%20d%2Fe", range), [point("2025-01-01T00:00:00Z", 4.0, 9)]);
    let sum = client.get(&format!("/timeseriescollections/data/sum?name=A&name=B&name=C%20d%2Fe&{range}&unit=kWh"));
    assert_eq!(points_of(&sum), [point("2025-01-01T00:00:00Z", 1.75, 9)]);
    let partly = json!([of("A", 10.0), of("nobody", 1.0)]);
    let (status, reply) = client.send("PUT", "/timeseriescollections/data?atomic=true", &partly);
    assert_eq!(status, 404, "{reply}");
    assert_eq!(client.points("A", range)[0].1, Some(1.0), "nothing was written");
    let (status, reply) = client.send("PUT", "/timeseriescollections/data", &partly);
    assert_eq!((status, &reply["Written"], &reply["Errors"][0]["Name"]), (207, &json!(1), &json!("nobody")), "{reply}");
    assert_eq!(client.points("A", range)[0].1, Some(10.0));
    let mut wrong = of("B", 20.0);
    wrong["Data"][0]["Flag"] = json!(3);
    let (status, reply) = client.send("PUT", "/timeseriescollections/data", &json!([of("A", 11.0), wrong]));
    let error = &reply["Errors"][0];
    assert_eq!((status, &reply["Written"], &error["Name"]), (207, &json!(1), &json!("B")), "{reply}");
    assert!(error["error"].as_str().unwrap().contains("Data[0]: flag 3 is not known"), "{reply}");
    assert_eq!((client.points("A", range)[0].1, client.points("B", range)[0].1), (Some(11.0), Some(2.0)));
    server.stop();
}

#[test]
fn requests_that_cannot_be_answered_name_what_is_wrong_and_change_nothing() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    let stamp = |from: &str| json!({ "Data": [{ "From": "2025-01-01T00:00:00Z", "Value": 1.0 }, { "From": from, "Value": 1.0 }] });
    for (method, path, body, status, expected) in [
        ("POST", "/timeseries", quarter_hours("P"), 409, "exists in repository \"default\" already"),
        (
            "POST",
            "/timeseries",
            json!({ "Name": "X", "Interval": { "Value": "Fortnight" } }),
            400,
            "expected Millisecond",
        ),
        ("POST", "/timeseries", json!({ "Name": "X" }), 400, "no member Interval"),
        (
            "POST",
            "/timeseries",
            json!({ "Name": "X", "Interval": { "Value": "Day" }, "Unit": "furlong" }),
            404,
            "unit \"furlong\" does not exist",
        ),
        (
            "POST",
            "/timeseries",
            json!({ "Name": "X", "Interval": { "Value": "Day" }, "TimeZone": "Mars" }),
            400,
            "\"Mars\" is not known",
        ),
        ("POST", "/timeseries", json!({ "Name": "X", "Colour": "red" }), 400, "unknown field `Colour`"),
        ("GET", "/timeseries/X/data", Json::Null, 404, "series \"X\" does not exist"),
        ("GET", "/timeseries/P/data?interval=Day&unit=K", Json::Null, 400, "\"kW\" cannot be converted to \"K\""),
        ("GET", "/timeseries/P/data?form=Day", Json::Null, 400, "parameter \"form\" is not known"),
        ("GET", "/timeseries/P/data?from=2025-03-30T02:30", Json::Null, 400, "the clock skips it"),
        ("GET", "/timeseries/P/data?from=2025-01-02&to=2025-01-01", Json::Null, 400, "to is before from"),
        (
            "GET",
            "/timeseries/P/data?from=1900-01-01&to=2200-01-01&interval=Millisecond",
            Json::Null,
            413,
            "more than 53000000 intervals",
        ),
        (
            "PUT",
            "/timeseries/P/data",
            stamp("2025-01-01T00:20:00Z"),
            400,
            "is not the start of an interval of 15 Minute",
        ),
        ("PUT", "/timeseries/P/data", stamp("2025-01-01T00:00:00Z"), 400, "two points of 2025-01-01T00:00:00Z"),
        ("PUT", "/timeseries/P/data", stamp("yesterday"), 400, "Data[1]: time \"yesterday\""),
        ("DELETE", "/timeseries/P/data", Json::Null, 400, "from and to are needed"),
        ("DELETE", "/units/kW", Json::Null, 409, "series have it"),
    ] {
        let (got, reply) = client.send(method, path, &body);
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(got == status && error.contains(expected), "{method} {path} {body}: {got} {reply}");
    }
    assert_eq!(client.points("P", ""), [], "nothing was written");
    server.stop();
}

#[test]
fn definitions_are_found_changed_and_deleted_and_every_change_is_recorded() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    for at in 0..25 {
        client.create(&quarter_hours(&format!("Meter {at:02}")));
    }
    let names = |path: &str| -> Vec<String> {
        client.get(path).as_array().unwrap().iter().map(|series| series["Name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/timeseries?name=Meter%201%25").len(), 10);
    assert_eq!(
        names("/timeseries?name=Meter%20_1&unit=kW&type=Begin&interval=minute"),
        ["Meter 01", "Meter 11", "Meter 21"]
    );
    let changed = client.ok("PUT", "/timeseries/Meter%2007", &json!({ "Name": "Grid", "Unit": "MW", "Audit": false }));
    assert_eq!((&changed["ID"], &changed["TimeZone"]), (&json!(8), &json!("Europe/Vienna")), "the others stay");
    client.ok("DELETE", "/timeseries/Meter%2008", &Json::Null);
    let (status, _) = client.send("GET", "/timeseries/Meter%2008", &Json::Null);
    assert_eq!(status, 404);
    let (_, log) = request(
        &server.http,
        "POST",
        "/sql?format=csv",
        b"SELECT change, name FROM tsm.definition_changes ORDER BY id DESC LIMIT 3",
    )
    .unwrap();
    assert_eq!(log.lines().skip(1).collect::<Vec<_>>(), ["deleted,Meter 08", "changed,Grid", "created,Meter 24"]);
    server.stop();
}

/// The bug that this prevents: a server keeps definitions and units until a commit changes their tables, and a reader that starts while such a
/// commit becomes visible would keep the state before it for ever.
#[test]
fn changes_of_units_and_definitions_are_seen_by_the_next_request_of_anybody() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.ok("POST", "/units", &json!({ "Name": "X", "BaseUnit": "X", "Factor": 1.0 }));
    client.ok("POST", "/units", &json!({ "Name": "kX", "BaseUnit": "X", "Factor": 1.0 }));
    client.create(&json!({ "Name": "S", "Interval": { "Value": "Hour" }, "Unit": "kX" }));
    client.write("S", "2025-06-01T00:00:00Z", 3600, &[2.0]);
    let value = || client.points("S", "from=2025-06-01T00:00:00Z&to=2025-06-01T01:00:00Z&unit=X")[0].1.unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    value();
                }
            });
        }
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for factor in 1..=100 {
                rows(&server, &format!("UPDATE tsm.units SET factor = {factor} WHERE name = 'kX'"));
                assert_eq!(value(), 2.0 * f64::from(factor));
                rows(&server, &format!("UPDATE tsm.series SET description = 'the {factor}th' WHERE name = 'S'"));
                assert_eq!(client.get("/timeseries/S")["Description"], format!("the {factor}th"));
            }
        }));
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        seen.unwrap();
    });
    let statements = "BEGIN; UPDATE tsm.units SET factor = 7 WHERE name = 'kX'; ROLLBACK";
    let (status, text) = request(&server.http, "POST", "/sql", statements.as_bytes()).unwrap();
    assert_eq!((status, value()), (200, 200.0), "{text}");
    client.ok("DELETE", "/timeseries/S", &Json::Null);
    assert_eq!(client.send("GET", "/timeseries/S", &Json::Null).0, 404);
    client.create(&json!({ "Name": "S", "Interval": { "Value": "Hour" }, "Unit": "X" }));
    assert_eq!(client.get("/timeseries/S")["Unit"], "X");
    client.write("S", "2025-06-01T00:00:00Z", 3600, &[3.0]);
    rows(&server, "ALTER TABLE tsm.units ADD COLUMN note text");
    assert_eq!(value(), 3.0);
    let statements = "SET synchronous_commit = off; TRUNCATE tsm.series CASCADE";
    let (status, text) = request(&server.http, "POST", "/sql", statements.as_bytes()).unwrap();
    assert_eq!(status, 200, "{text}");
    assert_eq!(client.send("GET", "/timeseries/S", &Json::Null).0, 404, "before the log is flushed, too");
    server.stop();
}

#[test]
fn rasters_agree_with_zoneinfo_and_postgres_from_1970_to_2037() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let postgres = Postgres::start();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/tsm/zones.py");
    let python = tool("MILLRACE_TEST_PYTHON", "python/bin/python");
    let output = Command::new(python).arg(script).arg(&server.http).arg(postgres.url()).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text.contains("0 differences"), "{text}");
    server.stop();
}

#[test]
fn the_api_answers_as_its_openapi_document_says() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    conforms(&server, &["--max-examples", "5"]);
    server.stop();
}

/// Checks a server against its OpenAPI document.
fn conforms(server: &Server, arguments: &[&str]) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/tsm/conformance.py");
    let python = tool("MILLRACE_TEST_SCHEMATHESIS_PYTHON", "schemathesis/bin/python");
    let output = Command::new(python).arg(script).arg(format!("http://{}", server.http)).args(arguments).output();
    let output = output.unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text.contains(" 0 failures; generated requests passed"), "{text}");
}

/// Starts a front end of a database.
fn front_end(store: &str) -> Server {
    let mut command = millrace();
    command.args(["tsm", "--store", &format!("grpc://{store}"), "--http", "127.0.0.1:0", "--log-format", "json"]);
    Server::spawn(command)
}

#[test]
fn front_ends_answer_for_one_database_and_keep_nothing() {
    let (_folder, data) = folder();
    let store = Server::start(&data);
    let front_ends = [front_end(&store.flight), front_end(&store.flight)];
    let [one, other] = [Client(&front_ends[0]), Client(&front_ends[1])];
    conforms(&front_ends[0], &["--phases", "examples"]);
    one.create(&quarter_hours("P"));
    other.write("P", "2025-03-29T23:00:00Z", 900, &[4.0; 92]);
    // A write is seen by all at once, and a change of a nanosecond is not lost on the way.
    let first = other.get("/timeseries/P/data/modifications")[0]["Time"].as_str().unwrap().to_owned();
    one.write("P", "2025-03-29T23:00:00Z", 900, &[5.0]);
    let day = "from=2025-03-29T23:00:00Z&to=2025-03-30T22:00:00Z&interval=Total&unit=kWh";
    for client in [&one, &other, &Client(&store)] {
        assert_eq!(client.points("P", day)[0].1, Some(92.25));
        assert_eq!(client.points("P", &format!("{day}&audit={first}"))[0].1, Some(92.0));
    }
    one.create(&json!({ "Name": "S", "Type": "Spontaneous" }));
    let stamps = json!({ "Data": [{ "From": "2025-01-01T00:00:00.123456789Z", "Value": 1 }] });
    one.ok("PUT", "/timeseries/S/data", &stamps);
    assert_eq!(other.points("S", ""), [point("2025-01-01T00:00:00.123456789Z", 1.0, 9)]);
    // Long results come in windows of one state.
    let minutes = json!({ "Name": "M", "Interval": { "Value": "Minute" }, "Unit": "kW" });
    one.create(&minutes);
    one.write("M", "2025-01-01T00:00:00Z", 60, &[1.0; 100_000]);
    assert_eq!(other.points("M", "").len(), 100_000);
    // There is no SQL here, and a front end that is killed loses nothing.
    assert_eq!(request(&front_ends[0].http, "POST", "/sql", b"SELECT 1").unwrap().0, 404);
    let [first, second] = front_ends;
    first.signal(libc::SIGKILL);
    let second_client = Client(&second);
    assert_eq!(second_client.points("P", day)[0].1, Some(92.25));
    // Without its database a front end says so, and goes on when that is back.
    let flight = store.flight.clone();
    store.stop();
    let (status, reply) = second_client.send("GET", &format!("/timeseries/P/data?{day}"), &Json::Null);
    assert!(status == 503 && reply["error"].as_str().unwrap().contains("cannot be reached"), "{status} {reply}");
    let mut command = millrace();
    command.arg("serve").arg("--data").arg(&data).args(["--log-format", "json"]);
    for listener in server::LISTENERS {
        command.arg(listener.flag()).arg(if listener.name == "flight" { &flight } else { "127.0.0.1:0" });
    }
    let again = Server::spawn(command);
    assert_eq!(second_client.points("P", day)[0].1, Some(92.25));
    second.stop();
    again.stop();
}

/// The rows of a statement, each with commas.
fn rows(server: &Server, statement: &str) -> Vec<String> {
    let (status, text) = request(&server.http, "POST", "/sql?format=csv", statement.as_bytes()).unwrap();
    assert_eq!(status, 200, "{statement}: {text}");
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn functions_of_sql_define_read_compute_and_remove_series() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let definition = r#"{"Interval": {"Value": "Minute", "Multiplier": 15}, "Unit": "kW", "TimeZone": "Europe/Vienna", "Audit": true}"#;
    let defined = rows(&server, &format!("SELECT name FROM tsm.define('P', '{definition}', changed_by => 'Ada')"));
    assert_eq!(defined, ["P"]);
    client.write("P", "2025-10-25T22:00:00Z", 900, &[4.0; 100]);
    // The autumn day has 25 hours, of which two are 02:00.
    let hours = rows(
        &server,
        "SELECT local, value, flag FROM tsm.read('P', '2025-10-26', '2025-10-27', step => 'Hour', unit => 'kWh') \
         WHERE local LIKE '%T02:%' ORDER BY time",
    );
    assert_eq!(hours, ["2025-10-26T02:00:00A,4,9", "2025-10-26T02:00:00B,4,9"]);
    let quarters = "SELECT count(*), sum(value) FROM tsm.read('P', '2025-10-26T02:00:00B', '2025-10-26T03:00:00')";
    assert_eq!(rows(&server, quarters), ["4,16"]);
    let day =
        "SELECT value, extract(epoch FROM time) FROM tsm.read('P', '2025-10-26', '2025-10-27', 'Day', unit => 'kWh')";
    assert_eq!(rows(&server, day), ["100,1761429600.000000"]);
    let computed = "SELECT sum(value) FROM tsm.evaluate('[P] * 2 + 1', '2025-10-26', '2025-10-27', 'Hour', \
                    unit => 'kW', time_zone => 'Europe/Vienna')";
    assert_eq!(rows(&server, computed), ["225"]);
    // The rows are like those of any table.
    let joined = "SELECT s.unit, max(p.value) FROM tsm.series s, tsm.read('P', '2025-10-26', '2025-10-27') p \
                  WHERE s.name = 'P' GROUP BY s.unit";
    assert_eq!(rows(&server, joined), ["kW,4"]);
    assert_eq!(rows(&server, "SELECT changed_by, change, points FROM tsm.changes('P')"), ["anonymous,written,100"]);
    let recorded = "SELECT change, changed_by FROM tsm.definition_changes";
    assert_eq!(rows(&server, recorded), ["created,Ada"]);
    for (statement, expected) in [
        ("SELECT * FROM tsm.read('Q')", "series \\\"Q\\\" does not exist"),
        ("SELECT * FROM tsm.read()", "needs the argument \\\"series\\\""),
        ("SELECT * FROM tsm.read('P', form => 'Day')", "has no argument \\\"form\\\""),
        ("SELECT * FROM tsm.read('P', series => 'P')", "is given twice"),
        ("SELECT * FROM tsm.read('P', step => 'Fortnight')", "interval \\\"Fortnight\\\" is not known"),
        ("SELECT (SELECT max(value) FROM tsm.read(s.name)) FROM tsm.series s", "depends on rows"),
        ("SELECT * FROM tsm.define('P', '{\"Interval\": {\"Value\": \"Day\"}}')", "has values"),
        ("SELECT * FROM tsm.evaluate('[P] +', '2025-10-26', '2025-10-27', 'Hour')", "found the end"),
    ] {
        let (status, text) = request(&server.http, "POST", "/sql?format=csv", statement.as_bytes()).unwrap();
        assert!(status >= 400 && text.contains(expected), "{statement}: {status} {text}");
    }
    assert_eq!(rows(&server, "SELECT count(*) FROM tsm.remove('P')"), ["1"]);
    assert_eq!(rows(&server, "SELECT count(*) FROM tsm.data"), ["0"]);
    server.stop();
}

#[test]
fn clients_of_python_read_and_write_points_as_arrow_csv_workbooks_and_by_sql() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/tsm/python_client.py");
    let python = tool("MILLRACE_TEST_PYTHON", "python/bin/python");
    let output = Command::new(python).arg(script).arg(&server.http).arg(&server.pg).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text.contains("all points came back"), "{text}");
    server.stop();
}

/// A workbook with one sheet, whose rows `write` makes.
fn workbook_of(header: &[&str], write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut rows = Vec::new();
    write(&mut rows);
    let mut writer = workbook::Writer::new("Sheet", header).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap()
}

#[test]
fn workbooks_that_are_read_are_written_to_the_same_values() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    for name in ["P", "Copy", "Sum", "Many"] {
        client.create(&quarter_hours(name));
    }
    client.create(&json!({ "Name": "S", "Type": "Spontaneous", "Unit": "kW", "TimeZone": "Europe/Vienna" }));
    client.create(&json!({ "Name": "T", "Type": "Spontaneous", "Unit": "kW", "TimeZone": "Europe/Vienna" }));
    // 50 days, with the hour that the clock shows twice.
    let start = "2025-10-01T00:00:00Z";
    client.write("P", start, 900, &(0..4800).map(f64::from).collect::<Vec<_>>());
    client.ok("PUT", "/timeseries/P/data", &json!({ "Data": [{ "From": start, "Value": null, "Flag": 7 }] }));
    let odd = json!([
        { "From": "1850-01-01T00:00:00Z", "Value": 0.1, "Flag": 9 },
        { "From": "2025-10-26T01:30:00.000000001Z", "Value": "NaN", "Flag": 21 },
        { "From": "2025-10-26T02:00:00.001Z", "Value": "-Infinity", "Flag": 9 },
    ]);
    client.ok("PUT", "/timeseries/S/data", &json!({ "Data": odd }));
    let bytes = |method: &str, path: &str, body: &[u8]| {
        request_bytes(&server.http, method, &format!("{REPOSITORY}{path}"), body).unwrap()
    };
    for (from, to) in [("P", "Copy"), ("S", "T")] {
        let (status, body) = bytes("GET", &format!("/timeseries/{from}/data?format=xlsx"), b"");
        assert_eq!(status, 200);
        let (status, text) = bytes("PUT", &format!("/timeseries/{to}/data?format=xlsx"), &body);
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&text));
        let read = |name: &str| client.get(&format!("/timeseries/{name}/data"))["Data"].clone();
        assert_eq!(read(from), read(to));
    }
    let october = "from=2025-10-01T00:00:00Z&to=2025-11-01T00:00:00Z";
    let (status, body) = bytes("GET", &format!("/timeseriescollections/data/sum?name=P&{october}&format=xlsx"), b"");
    assert_eq!(status, 200);
    assert_eq!(bytes("PUT", "/timeseries/Sum/data?format=xlsx", &body).0, 204);
    assert_eq!(client.points("Sum", ""), client.points("P", october));
    let (status, body) = bytes("GET", "/timeseriescollections/data?name=P&name=S&name=Many&format=xlsx", b"");
    assert_eq!(status, 200);
    client.ok("DELETE", "/timeseries/P/data?from=2025-10-01&to=2025-12-01", &Json::Null);
    assert_eq!(client.points("P", ""), []);
    let (status, text) = bytes("PUT", "/timeseriescollections/data?format=xlsx&atomic=true", &body);
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&text));
    assert_eq!(client.points("P", ""), client.points("Copy", ""));
    // A date is what the clock of the given zone shows.
    let noon = 1_735_732_800_000;
    let dates = workbook_of(&["Value", "From"], |rows| {
        let mut row = workbook::RowWriter::start(rows);
        row.number(5.0);
        row.clock(noon);
        row.end();
    });
    for (query, expected) in [("", "2025-01-01T11:00:00Z"), ("&timeZone=Asia/Tokyo", "2025-01-01T03:00:00Z")] {
        assert_eq!(bytes("PUT", &format!("/timeseries/Many/data?format=xlsx{query}"), &dates).0, 204);
        assert!(client.points("Many", "").contains(&point(expected, 5.0, 9)), "{expected}");
    }
    server.stop();
}

#[test]
fn workbooks_that_cannot_be_read_name_the_cell_and_change_nothing() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    let refused = |method: &str, path: &str, body: &[u8], expected: &str| {
        let (status, text) = request(&server.http, method, &format!("{REPOSITORY}{path}"), body).unwrap();
        assert!(status == 400 && text.contains(expected), "{path}: {status} {text}");
    };
    let twice = workbook_of(&["From", "Value"], |rows| {
        let mut row = workbook::RowWriter::start(rows);
        row.clock(1_761_445_800_000);
        row.number(1.0);
        row.end();
    });
    refused(
        "PUT",
        "/timeseries/P/data?format=xlsx",
        &twice,
        "Sheet!A2: time \\\"2025-10-26T02:30:00\\\" is shown twice",
    );
    refused("PUT", "/timeseriescollections/data?format=xlsx", &twice, "has no column Name");
    refused("PUT", "/timeseries/P/data?format=xlsx", b"From,Value\n", "expected the zip of an .xlsx file");
    let wrong = workbook_of(&["Name", "Interval", "Audit"], |rows| {
        for (name, audit) in [("A", "yes"), ("B", "perhaps")] {
            let mut row = workbook::RowWriter::start(rows);
            [name, "Hour", audit].iter().for_each(|text| row.text(text));
            row.end();
        }
    });
    refused("POST", "/timeseries?format=xlsx", &wrong, "Sheet row 3: column Audit: \\\"perhaps\\\"");
    refused("GET", "/timeseries?format=csv", b"", "definitions are read as timestamp (JSON) or xlsx");
    assert_eq!(client.points("P", ""), []);
    assert_eq!(client.send("GET", "/timeseries/A", &Json::Null).0, 404);
    server.stop();
}

#[test]
fn excel_reads_series_by_psqlodbc_and_the_statements_of_power_query() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/tsm/odbc.py");
    let python = tool("MILLRACE_TEST_PYTHON", "python/bin/python");
    let output = Command::new(python).arg(script).arg(&server.http).arg(&server.pg).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text.contains("all facts hold"), "{text}\nserver log:\n{}", server.log_text());
    server.stop();
}

#[test]
fn validations_find_and_replace_what_rules_refuse() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    client.create(&quarter_hours("Backup"));
    // A week and a day of Vienna, over the night in which summer time begins.
    let week = "2025-03-22T23:00:00Z";
    client.write("P", week, 900, &(0..192).map(f64::from).collect::<Vec<_>>());
    client.write("Backup", "2025-03-29T23:00:00Z", 900, &[7.0; 92]);
    let mut day = [10.0; 92];
    day[20] = 500.0;
    day[40] = -3.0;
    client.write("P", "2025-03-29T23:00:00Z", 900, &day);
    // Two hours are missing, and a person has put a value where a rule would refuse it.
    client.ok("DELETE", "/timeseries/P/data?from=2025-03-30T01:00:00Z&to=2025-03-30T03:00:00Z", &Json::Null);
    let by_hand = json!({ "Data": [{ "From": "2025-03-30T12:00:00Z", "Value": 900.0, "Flag": 5 }] });
    client.ok("PUT", "/timeseries/P/data", &by_hand);
    let rules = json!({ "Series": ["P%"], "Rules": [{ "Rule": "Gap" }, { "Rule": "Range", "Min": 0, "Max": 100 }],
        "Substitutes": [{ "Substitute": "Interpolation", "MaxIntervals": 4 },
            { "Substitute": "ReferenceDay", "Days": 7 }] });
    let range = "from=2025-03-29T23:00:00Z&to=2025-03-30T22:00:00Z";
    let found = client.ok("POST", &format!("/validate?{range}"), &rules);
    assert_eq!((&found["Findings"], &found["Replaced"]), (&json!(11), &json!(0)), "{found}");
    assert!(client.points("P", range).iter().any(|(_, value, _)| *value == Some(500.0)), "nothing was changed");

    client.ok("PUT", "/validations/Meters", &rules);
    let applied = client.ok("POST", &format!("/validations/Meters/run?{range}&apply=true"), &Json::Null);
    assert_eq!((&applied["Findings"], &applied["Replaced"]), (&json!(11), &json!(10)), "{applied}");
    let points = client.points("P", range);
    assert_eq!(points[20], point("2025-03-30T04:00:00Z", 10.0, 22));
    assert_eq!(points[52], point("2025-03-30T12:00:00Z", 900.0, 5));
    // 03:00 is the first quarter hour after the clock was set forward; a week before, it was the 13th of its day.
    assert_eq!(points[8], point("2025-03-30T01:00:00Z", 12.0, 21));
    assert_eq!(points[15], point("2025-03-30T02:45:00Z", 19.0, 21));

    let runs = client.get("/validations/Meters/runs");
    assert_eq!(
        (&runs[0]["Replaced"], &runs[0]["Applied"], &runs[0]["Ended"]),
        (&json!(10), &json!(true), &json!(true))
    );
    let logged = "SELECT rule, count(*), count(new_flag) FROM tsm.findings JOIN tsm.validation_runs r ON r.id = run \
                  WHERE r.applies GROUP BY rule ORDER BY rule";
    assert_eq!(rows(&server, logged), ["Gap,8,8", "Range,3,2"]);
    assert_eq!(
        client.get("/timeseries/P/data/modifications").as_array().unwrap().last().unwrap()["Change"],
        "validated"
    );

    // A comparison with another series, which replaces the values too. A schedule runs it.
    let compared = json!({ "Series": ["P"], "Rules": [{ "Rule": "Comparison", "Formula": "[this] - [Backup]", "Max": 3 }],
        "Substitutes": [{ "Substitute": "Formula", "Formula": "[Backup]" }],
        "Schedule": { "Every": { "Value": "Hour" }, "Back": { "Value": "Year", "Multiplier": 3 } } });
    client.ok("PUT", "/validations/Compared", &compared);
    rows(&server, "UPDATE tsm.validations SET next_run = now() WHERE name = 'Compared'");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while client.get("/validations/Compared/runs")[0]["Ended"] != json!(true) {
        assert!(std::time::Instant::now() < deadline, "the schedule did not run");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    server.stop();
}

#[test]
fn lists_of_definitions_are_imported_whole_or_not_at_all() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.ok("POST", "/attributes", &json!({ "Name": "Supplier" }));
    let send = |path: &str, body: &str| {
        request(&server.http, "POST", &format!("{REPOSITORY}{path}"), body.as_bytes()).unwrap()
    };
    let (status, text) = send("/units?format=csv", "Name;BaseUnit;Factor;IntegralUnit\nkcal/h;W;1,163;Wh\n");
    assert_eq!(status, 200, "{text}");
    // The formula of a formula comes before what it refers to.
    let list = "Name;Interval;Unit;TimeZone;Formula;Attributes.Supplier;Audit\n\
                Twice;Hour;kWh;Europe/Vienna;[Net] * 2;;\n\
                Net;Hour;kWh;Europe/Vienna;[A, 0, kWh] - [B, 0, kWh];;\n\
                A;15 Minute;kcal/h;Europe/Vienna;;North;x\n\
                B;15 Minute;kW;Europe/Vienna;;South;\n";
    let (status, text) = send("/timeseries?format=csv", list);
    assert_eq!(status, 201, "{text}");
    let found: Vec<Json> = serde_json::from_str(&text).unwrap();
    assert_eq!(found.iter().map(|one| one["Name"].as_str().unwrap()).collect::<Vec<_>>(), ["A", "B", "Net", "Twice"]);
    assert_eq!(client.get("/timeseries/A")["Attributes"]["Supplier"], "North");
    assert_eq!(client.get("/timeseries/Twice")["Formula"], "[Net] * 2");
    for (body, expected) in [
        ("Name;Interval\nC;Hour\nA;Hour\n", "line 3: series \\\"A\\\" exists"),
        ("Name;Interval;Formula\nC;Hour;\nD;Hour;[E]\n", "line 3: series \\\"E\\\" does not exist"),
        ("Name;Interval\nC;Hour\nC;Day\n", "defined twice"),
        ("Name;Interval;Colour\nC;Hour;red\n", "unknown field `Colour`"),
        ("Name;Interval;Unit\nC;Hour;\nD;Hour;nothing\n", "line 3: unit \\\"nothing\\\" does not exist"),
    ] {
        let (status, text) = send("/timeseries?format=csv", body);
        assert!(status >= 400 && text.contains(expected), "{body}: {status} {text}");
        assert_eq!(client.send("GET", "/timeseries/C", &Json::Null).0, 404, "nothing of a list with an error is there");
    }
    let again = r#"[{"Name": "A", "Description": "changed"}, {"Name": "C", "Interval": {"Value": "Day"}}]"#;
    let (status, text) = send("/timeseries?existing=skip", again);
    assert!(status == 201 && !text.contains("\"A\"") && text.contains("\"C\""), "{text}");
    let (status, text) = send("/timeseries?existing=change", again);
    assert_eq!(status, 201, "{text}");
    assert_eq!(client.get("/timeseries/A")["Description"], "changed");
    server.stop();
}

#[test]
fn peak_hours_and_holidays_limit_what_is_added_up() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&quarter_hours("P"));
    // A week from Monday, 2025-03-24, with the night in which summer time begins: 167 hours of 4 kW.
    client.write("P", "2025-03-23T23:00:00Z", 900, &[4.0; 167 * 4]);
    let week = "from=2025-03-24&to=2025-03-31&unit=kWh";
    let total = |query: &str| client.points("P", &format!("{week}&interval=Total&{query}"))[0].1;
    assert_eq!(total("period=Peak"), Some(5.0 * 12.0 * 4.0));
    assert_eq!(total("period=OffPeak"), Some((167.0 - 60.0) * 4.0));
    assert_eq!(total("period=Weekend"), Some(47.0 * 4.0));
    let holidays = json!([{ "Date": "2025-03-25", "Name": "A day off" }]);
    client.ok("PUT", "/holidays/AT", &holidays);
    let trading = json!({ "Name": "Trading", "Days": "Mon-Fri", "From": "08:00", "To": "20:00", "Holidays": "AT" });
    client.ok("POST", "/periods", &trading);
    let days = client.points("P", &format!("{week}&interval=Day&period=Trading"));
    let expected = [Some(48.0), None, Some(48.0), Some(48.0), Some(48.0), None, None];
    assert_eq!(days.iter().map(|(_, value, _)| *value).collect::<Vec<_>>(), expected);
    // Nothing is expected on a day off; it is not missing.
    assert_eq!(days.iter().map(|(_, _, flag)| *flag).collect::<Vec<_>>(), [9, 0, 9, 9, 9, 0, 0]);
    // Values that are missing at night are not missing in the peak hours.
    client.ok("DELETE", "/timeseries/P/data?from=2025-03-26T20:00&to=2025-03-27T06:00", &Json::Null);
    assert_eq!(client.points("P", &format!("{week}&interval=Day&period=Peak"))[2].2, 9);
    client.ok("DELETE", "/timeseries/P/data?from=2025-03-27T07:45&to=2025-03-27T08:15", &Json::Null);
    assert_eq!(client.points("P", &format!("{week}&interval=Day&period=Peak"))[3].2, 19);
    let read = "SELECT sum(value) FROM tsm.read('P', '2025-03-24', '2025-03-31', step => 'Day', unit => 'kWh', \
                period => 'Weekend')";
    assert_eq!(rows(&server, read), ["188"]);
    for (path, expected) in [
        (format!("/timeseries/P/data?{week}&period=Night"), "period \"Night\" does not exist"),
        (format!("/timeseries/P/data?{week}&period=Lost"), "calendar of holidays \"XX\" does not exist"),
    ] {
        client.ok("POST", "/periods", &json!({ "Name": "Lost", "Holidays": "XX" }));
        let (status, reply) = client.send("GET", &path, &Json::Null);
        assert!(status == 404 && reply["error"].as_str().unwrap().contains(expected), "{status} {reply}");
    }
    server.stop();
}

#[test]
fn money_is_exchanged_by_the_rate_of_its_time() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let daily = |name: &str, unit: &str| json!({ "Name": name, "Interval": { "Value": "Day" }, "Unit": unit, "TimeZone": "Europe/Vienna" });
    client.create(&daily("EURperUSD", "none"));
    client.create(&daily("EURperCHF", "none"));
    for (unit, series) in [("USD", "EURperUSD"), ("CHF", "EURperCHF")] {
        let unit = json!({ "Name": unit, "BaseUnit": "EUR", "ExchangeSeries": series, "Aggregation": "SUM" });
        client.ok("POST", "/units", &unit);
    }
    assert_eq!(client.get("/units/USD")["ExchangeSeries"], "EURperUSD");
    client.ok("POST", "/units", &json!({ "Name": "ct", "BaseUnit": "EUR", "Factor": 0.01, "Aggregation": "SUM" }));
    // Two days, the second of 23 hours.
    let days = "2025-03-28T23:00:00Z";
    client.write("EURperUSD", days, 86_400, &[0.5, 0.25]);
    client.write("EURperCHF", days, 86_400, &[2.0, 1.0]);
    client.create(
        &json!({ "Name": "Cost", "Interval": { "Value": "Hour" }, "Unit": "USD", "TimeZone": "Europe/Vienna" }),
    );
    client.write("Cost", days, 3_600, &[10.0; 47]);
    let total = |unit: &str| {
        let query = format!("from=2025-03-29&to=2025-03-31&interval=Day&unit={unit}");
        client.points("Cost", &query).into_iter().map(|(_, value, _)| value.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(total("USD"), [240.0, 230.0]);
    assert_eq!(total("EUR"), [120.0, 57.5]);
    assert_eq!(total("ct"), [12_000.0, 5_750.0]);
    assert_eq!(total("CHF"), [60.0, 57.5]);
    let formula = json!({ "Name": "Both", "Interval": { "Value": "Hour" }, "Unit": "EUR", "TimeZone": "Europe/Vienna",
        "Formula": "[Cost, 0, EUR] * 2" });
    client.create(&formula);
    let both = client.points("Both", "from=2025-03-29&to=2025-03-31&interval=Total");
    assert_eq!(both[0].1, Some(355.0));
    for (method, path, body, status, expected) in [
        ("PUT", "/timeseries/Cost/data", json!({ "Unit": "EUR", "Data": [] }), 400, "by an exchange series"),
        ("GET", "/timeseries/Cost/data?unit=kW", Json::Null, 400, "cannot be converted"),
        ("DELETE", "/timeseries/EURperUSD", Json::Null, 409, "exchange series of a unit"),
        (
            "POST",
            "/units",
            json!({ "Name": "GBP", "BaseUnit": "EUR", "ExchangeSeries": "Lost" }),
            404,
            "does not exist",
        ),
        ("POST", "/units", json!({ "Name": "GBP", "ExchangeSeries": "EURperUSD" }), 400, "another unit as base"),
    ] {
        let (found, reply) = client.send(method, path, &body);
        assert!(found == status && reply["error"].as_str().unwrap().contains(expected), "{path}: {found} {reply}");
    }
    server.stop();
}

/// The weather of three airports of New York in 2013, by NOAA: hours of the clock and the same times in UTC.
const WEATHER: &str = include_str!("../../../assets/data/nyc_weather_2013.csv");

#[test]
fn a_year_of_real_hours_is_loaded_by_the_clock_through_both_changes() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let mut by_clock = "Name,From,Value\n".to_owned();
    let mut in_utc = Vec::new();
    let mut last = ("", String::new());
    for line in WEATHER.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<u32>().unwrap();
        let hour = format!("2013-{:02}-{:02}T{:02}:00", number(2), number(3), number(4));
        let is_repeated = hour == "2013-11-03T01:00";
        // The second of two equal hours of an airport is B.
        let letter = if !is_repeated {
            ""
        } else if last == (cells[0], hour.clone()) {
            "B"
        } else {
            "A"
        };
        let value = if cells[5] == "NA" { "" } else { cells[5] };
        by_clock.push_str(&format!("{} temperature,{hour}{letter},{value}\n", cells[0]));
        in_utc.push((cells[0], cells[14].to_owned(), value.parse::<f64>().ok()));
        last = (cells[0], hour);
    }
    let list = "Name,Interval,Unit,TimeZone\nEWR temperature,Hour,°F,America/New_York\n\
                JFK temperature,Hour,°F,America/New_York\nLGA temperature,Hour,°F,America/New_York\n";
    client.ok("POST", "/units", &json!({ "Name": "°F", "BaseUnit": "K", "Offset": 459.67, "Factor": 5.0 / 9.0 }));
    for (path, body) in [("/timeseries?format=csv", list), ("/timeseriescollections/data?format=csv", &by_clock)] {
        let (status, text) = request(&server.http, "POST", &format!("{REPOSITORY}{path}"), body.as_bytes()).unwrap();
        assert!(status == 201 || status == 204, "{status} {text}");
    }
    for airport in ["EWR", "JFK", "LGA"] {
        let read = client.points(&format!("{airport}%20temperature"), "from=2013-01-01&to=2014-01-01");
        assert_eq!(read.len(), 8_760, "every hour of the year");
        let told: Vec<(String, f64)> = read.into_iter().filter_map(|(from, value, _)| Some((from, value?))).collect();
        let of_airport = in_utc.iter().filter(|(own, ..)| *own == airport);
        let expected: Vec<(String, f64)> =
            of_airport.filter_map(|(_, time, value)| Some((time.clone(), (*value)?))).collect();
        assert_eq!(told, expected, "{airport}");
    }
    // The shortest and the longest day, by the clock.
    let hours = |day: &str, next: &str| {
        client
            .points("EWR%20temperature", &format!("from={day}&to={next}&stamps=local"))
            .into_iter()
            .map(|point| point.0)
    };
    assert_eq!(hours("2013-03-10", "2013-03-11").count(), 23);
    let autumn: Vec<String> = hours("2013-11-03", "2013-11-04").collect();
    assert_eq!(autumn.len(), 25);
    assert_eq!(autumn[1..4], ["2013-11-03T01:00:00A", "2013-11-03T01:00:00B", "2013-11-03T02:00:00"]);
    server.stop();
}
