//! Moving from HAKOM TSM, as docs/manual/moving-from-hakom.md describes it: by the script, and by SQL.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value as Json, json};

use super::{Client, point, points_of, quarter_hours, rows};
use crate::clients::{printed, tool};
use crate::http::request;
use crate::postgres::Postgres;
use crate::server::{Server, folder};

const PAGE: &str = include_str!("../../../../../docs/manual/moving-from-hakom.md");
/// The year of all values.
const YEAR: &str = "from=2025-01-01&to=2026-01-01&timeZone=Europe/Vienna";
const HISTORY: &str = "P%20(history)";

fn python(script: &str) -> Command {
    let mut command = Command::new(tool("MILLRACE_TEST_PYTHON", "python/bin/python"));
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script)).stdin(Stdio::null());
    command
}

/// The script, for some values of 2025.
fn script(source: &str, target: &Server, arguments: &[&str]) -> Command {
    let mut command = python("../../docs/manual/move_from_hakom.py");
    command.args(["--source", source, "--target", &format!("http://{}", target.http)]);
    command.args(["--from", "2025-01-01", "--to", "2026-01-01"]).args(arguments);
    command
}

/// Runs a command and checks its exit status; returns its output.
fn ended(mut command: Command, status: i32) -> String {
    let output: Output = command.output().unwrap();
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

/// Series of every type, with versions, earlier states, formulas and units of their own.
fn fill(client: &Client<'_>) {
    for (name, ty) in [("Supplier", "Text"), ("Place", "Node"), ("Power", "Number"), ("Partner", "TimeSeries")] {
        client.ok("POST", "/attributes", &json!({ "Name": name, "Type": ty }));
    }
    client.ok("POST", "/units", &json!({ "Name": "kcal/h", "BaseUnit": "W", "Factor": 1.163, "IntegralUnit": "Wh" }));
    client.ok("POST", "/units", &json!({ "Name": "°F", "BaseUnit": "K", "Offset": 459.67, "Factor": 5.0 / 9.0 }));
    let vienna = |name: &str, step: &str, unit: &str| json!({ "Name": name, "Interval": { "Value": step }, "Unit": unit, "TimeZone": "Europe/Vienna" });
    client.create(&vienna("EUR per USD", "Day", "none"));
    let dollars = json!({ "Name": "USD", "BaseUnit": "EUR", "ExchangeSeries": "EUR per USD", "Aggregation": "SUM" });
    client.ok("POST", "/units", &dollars);
    client.write("EUR%20per%20USD", "2025-03-28T23:00:00Z", 86_400, &[0.5, 0.25]);
    client.create(&vienna("Cost", "Hour", "USD"));
    client.write("Cost", "2025-03-28T23:00:00Z", 3_600, &(0..47).map(f64::from).collect::<Vec<_>>());

    let mut power = quarter_hours("P");
    power["Description"] = json!("measured, \"net\"");
    power["Aggregation"] = json!("MAX");
    let suppliers =
        json!({ "2025-01-01T00:00:00Z": "North", "2025-07-01T00:00:00Z": null, "2025-08-01T00:00:00Z": "South" });
    power["Attributes"] = json!({ "Supplier": suppliers, "Place": "Austria/Vienna", "Power": 7.5 });
    client.create(&power);
    // Both changes of the clock, overwritten and deleted values.
    client.write("P", "2025-03-29T23:00:00Z", 900, &(0..92).map(f64::from).collect::<Vec<_>>());
    client.write("P", "2025-10-25T22:00:00Z", 900, &(0..100).map(|at| 0.1 * f64::from(at)).collect::<Vec<_>>());
    let flags = [0, 20, 5, 9, 12, 21, 7, 22, 19].iter().zip(0..).map(|(flag, hour)| {
        json!({ "From": format!("2025-05-01T{hour:02}:00:00Z"), "Value": f64::from(hour) + 0.5, "Flag": flag })
    });
    client.ok("PUT", "/timeseries/P/data", &json!({ "Data": flags.collect::<Vec<_>>() }));
    let changed = json!({ "Data": [{ "From": "2025-10-26T02:15:00A", "Value": null, "Flag": 7 },
        { "From": "2025-10-26T02:15:00B", "Value": -4.0, "Flag": 5 }, { "From": "2025-06-01", "Value": 1e-300 }] });
    client.ok("PUT", "/timeseries/P/data", &changed);
    client.ok("DELETE", "/timeseries/P/data?from=2025-03-30T00:00:00Z&to=2025-03-30T01:00:00Z", &Json::Null);

    let mut end = vienna("E/1 %ü", "Hour", "kcal/h");
    end["Type"] = json!("End");
    end["Attributes"] = json!({ "Partner": "P" });
    client.create(&end);
    let odd = ["NaN", "Infinity", "-Infinity"]
        .iter()
        .zip(0..)
        .map(|(value, hour)| json!({ "From": format!("2025-10-26T0{hour}:00:00Z"), "Value": value, "Flag": 9 }));
    client.ok("PUT", "/timeseries/E%2F1%20%25%C3%BC/data", &json!({ "Data": odd.collect::<Vec<_>>() }));

    client.create(&json!({ "Name": "S", "Type": "Spontaneous", "Unit": "°F" }));
    let steps = json!({ "Data": [{ "From": "2025-01-01T00:20:00.123456789Z", "Value": 6.0 },
        { "From": "2025-01-01T01:00:00Z", "Value": null, "Flag": 19 }, { "From": "2025-09-01T01:30:00.5Z", "Value": 3.0, "Flag": 12 }] });
    client.ok("PUT", "/timeseries/S/data", &steps);

    let mut gas = vienna("Gas day", "Day", "m3");
    gas["TimeZone"] = json!("Europe/Vienna 06:00");
    client.create(&gas);
    client.write("Gas%20day", "2025-03-29T05:00:00Z", 86_400 - 3_600, &[10.0, 20.0]);
    client.create(&vienna("Week", "Week", "kWh"));
    client.write("Week", "2025-03-30T22:00:00Z", 604_800, &[1.0, 2.0]);
    client.create(
        &json!({ "Name": "5 min", "Interval": { "Value": "Minute", "Multiplier": 5 }, "Unit": "MW", "Audit": true }),
    );
    client.write("5%20min", "2025-01-31T22:00:00Z", 300, &(0..180).map(f64::from).collect::<Vec<_>>());

    // The third version takes a value back.
    let mut forecast = vienna("Forecast", "Hour", "kWh");
    (forecast["Quotation"], forecast["QuotationBehaviour"]) = (json!(true), json!("Max not exact"));
    client.create(&forecast);
    for (version, data) in [
        ("2025-01-01T06:00:00Z", json!([[0, 1.0], [1, 1.5], [2, 1.75]])),
        ("2025-01-01T12:00:00.5Z", json!([[1, 2.0], [3, 2.5]])),
        ("2025-01-01T18:00:00Z", json!([[1, null], [2, 3.0]])),
    ] {
        let data = data
            .as_array()
            .unwrap()
            .iter()
            .map(|point| json!({ "From": format!("2025-01-02T0{}:00:00Z", point[0]), "Value": point[1] }));
        let path = format!("/timeseries/Forecast/data?quotation={version}");
        client.ok("PUT", &path, &json!({ "Data": data.collect::<Vec<_>>() }));
    }

    // The first formula by name needs the second.
    let mut gross = vienna("Gross", "Hour", "kWh");
    gross["Formula"] =
        json!({ "2020-01-01T00:00:00Z": "[P, 0, kWh, SUM]", "2025-06-01T00:00:00Z": "[P, 0, kWh, SUM] / 3 + 1" });
    client.create(&gross);
    let mut both = vienna("Both", "Hour", "kWh");
    both["Formula"] = json!("[Gross] * 2 - [\"E/1 %ü\", 0, kWh] + IfMissing([Forecast], 0.1)");
    client.create(&both);
}

/// Definitions without their numbers.
fn definitions(client: &Client<'_>) -> Vec<Json> {
    let mut all = client.get("/timeseries").as_array().unwrap().clone();
    all.retain(|one| !one["Name"].as_str().unwrap().ends_with("(history)"));
    for one in &mut all {
        one.as_object_mut().unwrap().remove("ID");
    }
    all
}

/// Replies of a server to all questions about values.
fn answers(client: &Client<'_>) -> Vec<(String, Json)> {
    let mut paths =
        vec!["/units".to_owned(), "/attributes".to_owned(), "/timeseries/Forecast/data/quotations".to_owned()];
    for series in
        ["P", "E%2F1%20%25%C3%BC", "Gas%20day", "Week", "Cost", "EUR%20per%20USD", "Forecast", "Gross", "Both"]
    {
        paths.push(format!("/timeseries/{series}/data?{YEAR}"));
        paths.push(format!("/timeseries/{series}/data?{YEAR}&interval=Month"));
    }
    paths.push(format!("/timeseries/Cost/data?{YEAR}&interval=Day&unit=EUR"));
    paths.push(format!("/timeseries/S/data?{YEAR}&interval=Day&unit=K"));
    for series in ["S", "5%20min", "Cost", "Forecast"] {
        paths.push(format!("/timeseries/{series}/data"));
    }
    for version in ["2025-01-01T06:00:00Z", "2025-01-01T12:00:00.5Z", "2025-01-01T18:00:00Z"] {
        for exact in ["", "&exactQuotation=true"] {
            paths.push(format!("/timeseries/Forecast/data?{YEAR}&quotation={version}{exact}"));
        }
        paths.push(format!("/timeseries/Both/data?{YEAR}&quotation={version}"));
    }
    paths.into_iter().map(|path| (path.clone(), client.get(&path))).collect()
}

#[test]
fn series_of_every_kind_are_moved_although_the_script_is_killed() {
    let (folders, servers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (folder, data) = folder();
            (folder, Server::start(&data))
        })
        .unzip();
    let [source, target] = [Client(&servers[0]), Client(&servers[1])];
    fill(&source);
    let url = format!("http://{}", servers[0].http);
    let arguments = ["--user", "Max", "--history", "--page", "3"];
    let moving = || {
        let mut command = script(&url, &servers[1], &arguments);
        command.env("HAKOM_PASSWORD", "secret");
        command
    };
    let mut child = moving().stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.starts_with("[6/")).collect();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "killed in the middle: {seen:?}");
    let left: Vec<String> = answers(&source)
        .into_iter()
        .filter_map(|(path, own)| {
            let (status, other) = target.send("GET", &path, &Json::Null);
            (status != 200 || own != other).then_some(path)
        })
        .collect();
    assert!(left.len() > 3, "only {left:?} was left");

    let text = ended(moving(), 0);
    assert!(text.contains("source and target are equal"), "{text}");
    assert_eq!(definitions(&source), definitions(&target));
    for ((path, own), (_, other)) in answers(&source).into_iter().zip(answers(&target)) {
        assert_eq!(own, other, "{path}");
    }

    ended(script(&url, &servers[1], &["--steps", "compare", "--name", "Forecast", "--horizon", "2"]), 0);

    // Earlier states have their true times.
    let changes = source.get("/timeseries/P/data/modifications");
    let stamps: Vec<&str> = changes.as_array().unwrap().iter().map(|change| change["Time"].as_str().unwrap()).collect();
    assert_eq!(stamps.len(), 5);
    for stamp in &stamps {
        let state = source.points("P", &format!("{YEAR}&audit={stamp}"));
        assert_eq!(state, target.points(HISTORY, &format!("{YEAR}&quotation={stamp}")), "{stamp}");
    }
    assert_eq!(target.get(&format!("/timeseries/{HISTORY}/data/quotations")), json!(stamps));

    // A run without differences writes nothing, so that earlier states stay the same.
    let written = || {
        let changes = ["P", HISTORY, "5%20min", "Forecast"]
            .map(|series| target.get(&format!("/timeseries/{series}/data/modifications")));
        assert!(changes[0].as_array().unwrap().iter().all(|change| change["User"] == "Max"), "{changes:?}");
        (changes, rows(&servers[1], "SELECT count(*) FROM tsm.definition_changes"))
    };
    let before = written();
    ended(moving(), 0);
    assert_eq!(written(), before);

    // Differences are found, and another run brings what has changed since.
    let other = json!({ "Data": [{ "From": "2025-03-30T10:00:00Z", "Value": 1000.0 }] });
    target.ok("PUT", "/timeseries/P/data", &other);
    target.ok("PUT", "/timeseries/P", &json!({ "Description": "another" }));
    let text = ended(script(&url, &servers[1], &["--steps", "compare", "--name", "P"]), 1);
    for expected in [
        "series \"P\": definitions differ in Description",
        "1 differ, the first at 2025-03-30T10:00:00Z: value and flag are (44.0, 9) and (1000.0, 9)",
        "differences: 2",
    ] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    source.ok("DELETE", "/timeseries/Cost/data?from=2025-03-29&to=2025-03-30", &Json::Null);
    source.ok("DELETE", "/timeseries/S/data?from=2025-09-01&to=2025-09-02", &Json::Null);
    source.ok("PUT", "/timeseries/P", &json!({ "Attributes": { "Place": null }, "Aggregation": "" }));
    ended(moving(), 0);
    assert_eq!(definitions(&source), definitions(&target));
    for ((path, own), (_, other)) in answers(&source).into_iter().zip(answers(&target)) {
        assert_eq!(own, other, "{path}");
    }

    // An error names the series and the reply.
    target.ok("PUT", "/timeseries/Week", &json!({ "Name": "Week of the target" }));
    target.create(&json!({ "Name": "Week", "Interval": { "Value": "Day" } }));
    target.write("Week", "2025-01-01T00:00:00Z", 0, &[1.0]);
    let text = ended(moving(), 2);
    assert!(text.contains("error: series \"Week\": POST ") && text.contains("has values"), "{text}");
    servers.into_iter().for_each(Server::stop);
    drop(folders);
}

/// A process that ends with its owner.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn replies_in_the_forms_of_hakoms_manual_are_understood() {
    let (_folder, data) = folder();
    let target = Server::start(&data);
    let mut service = Service(python("tests/it/tsm/hakom_service.py").stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    BufReader::new(service.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/api", port.trim());
    let moving = |password: &str, maps: &[&str]| {
        let mut command = script(&url, &target, &["--user", "Max", "--repository", "Energy", "--into", "Energy"]);
        command.args(maps.iter().flat_map(|map| ["--map", map])).env("HAKOM_PASSWORD", password);
        command
    };
    let (kind, zone) = ("Type:2=Begin", "TimeZone:W. Europe Standard Time=Europe/Vienna");
    for (password, maps, expected) in [
        ("wrong", vec![], "status 401: {\"Message\": \"Authorization has been denied"),
        (
            "Mustermann123",
            vec![],
            "series \"Data/TimeSeries\": Type 2 of the source is not known: name what it means, --map Type:2=",
        ),
        ("Mustermann123", vec![kind], "series \"Data/TimeSeries\": POST "),
    ] {
        let text = ended(moving(password, &maps), 2);
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    let text = ended(moving("Mustermann123", &[kind, zone]), 0);
    assert!(text.contains("49 values, 49 written"), "{text}");
    let get = |path: &str| -> Json {
        let (status, text) = request(&target.http, "GET", &format!("/repositories/Energy{path}"), b"").unwrap();
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(get("/units/BTU%2Fh")["Factor"], 0.29307107);
    let stored = get("/timeseries/Data%2FTimeSeries");
    let attribute = json!({ "2017-04-01T00:00:00Z": "Text1", "2017-04-02T00:00:00Z": "Text2" });
    assert_eq!(stored["Attributes"]["Documentation_Attribute"], attribute);
    assert_eq!(
        (&stored["Type"], &stored["Interval"]),
        (&json!("Begin"), &json!({ "Value": "Minute", "Multiplier": 15 }))
    );
    let formula = json!({ "1970-01-01T00:00:00Z": "[Data/TimeSeries]*2" });
    assert_eq!(get("/timeseries/Formula_TimeSeries")["Formula"], formula);
    let read = get("/timeseries/Formula_TimeSeries/data?from=2025-01-01T12:45:00Z&to=2025-01-01T17:15:00Z");
    let points = points_of(&read);
    assert_eq!((points[0].clone(), points.len()), (point("2025-01-01T12:45:00Z", 6.0, 21), 18));
    assert_eq!(points[17], point("2025-01-01T17:00:00Z", None, 19), "a missing value is not 0");
    target.stop();
}

/// Statements of the page, in their order.
fn statements() -> Vec<&'static str> {
    PAGE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn rows_of_another_database_are_loaded_by_the_statements_of_the_page() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    let postgres = Postgres::start();
    let psql = |statement: &str| {
        let mut command = Command::new("psql");
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &postgres.url(), "-c", statement]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{statement}\n{}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let [values, definitions] = statements()[..] else { panic!("two statements") };
    let tables = "CREATE TABLE your_series (id int8, name text, type text, step text, length int4, unit text, audit boolean); \
                  INSERT INTO your_series VALUES (1, 'Meter A', 'A', 'N', 15, 'kW', true), (2, 'Meter, \"B\"', 'E', 'H', 1, 'kWh', false), \
                  (3, 'Meter S', 'S', NULL, NULL, 'kW', false), (4, 'Other', 'A', 'D', 1, 'kWh', false); \
                  CREATE TABLE your_values (series int8, time int8, value float8, flag int2)";
    psql(tables);
    // Curl and split as the page calls them, with shorter parts.
    let load = PAGE.split("```\nH=").nth(1).unwrap().split("```").next().unwrap();
    let load = format!("set -e -o pipefail\nH={load}")
        .replace("127.0.0.1:7480", &server.http)
        .replace("psql -X", &format!("psql -X -v ON_ERROR_STOP=1 -d {}", postgres.url()))
        .replace("-l 500000", "-l 70");
    let path = folder.path();
    std::fs::write(path.join("definitions.sql"), definitions).unwrap();
    for (at, (base, scale, expression)) in [
        (63_068_400, 1, "to_timestamp(v.time + 63068400)"),
        (0, 1, "to_timestamp(v.time)"),
        (0, 1000, "to_timestamp(v.time / 1000.0)"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(PAGE.contains(&format!("| `{expression}` |")), "{expression} is not on the page");
        std::fs::write(path.join("values.sql"), values.replace("to_timestamp(v.time)", expression)).unwrap();
        // Other values for each unit: the hours of the autumn day in Vienna, and the quarter hours from there.
        let start = 1_761_429_600_i64;
        let odd = if scale == 1000 { 123 } else { 0 };
        psql(&format!(
            "TRUNCATE your_values; INSERT INTO your_values \
             SELECT 1, ({start}::int8 + 900 * n - {base}) * {scale}, n + {at} + 0.1, 9 FROM generate_series(0, 99) AS g(n) UNION ALL \
             SELECT 2, ({start}::int8 + 3600 * n - {base}) * {scale}, CASE n WHEN 3 THEN NULL WHEN 4 THEN 'NaN'::float8 ELSE n + {at} END, \
             CASE n WHEN 3 THEN 19 ELSE 21 END FROM generate_series(0, 24) AS g(n) UNION ALL \
             SELECT 3, ({start}::int8 + 7 - {base}) * {scale} + {odd}, {at}, 12 UNION ALL SELECT 4, 0, 1, 9"
        ));
        let output = Command::new("bash").args(["-c", &load]).current_dir(path).output().unwrap();
        assert!(output.status.success(), "{expression}: {}", printed(&output));
        let day = "from=2025-10-26&to=2025-10-27&timeZone=Europe/Vienna&stamps=local";
        let quarters = client.points("Meter%20A", day);
        assert_eq!(quarters.len(), 100);
        let expected = |n: usize| Some(n as f64 + at as f64 + 0.1);
        assert!(quarters.iter().enumerate().all(|(n, point)| point.1 == expected(n) && point.2 == 9), "{quarters:?}");
        let hours = client.points("Meter,%20%22B%22", day);
        assert_eq!(hours[2], point("2025-10-26T02:00:00A", 2.0 + at as f64, 21));
        assert_eq!(hours[3], point("2025-10-26T02:00:00B", None, 19));
        assert_eq!((hours.len(), &hours[4]), (25, &point("2025-10-26T03:00:00", None, 21)), "NaN is a text");
        let fraction = if scale == 1000 { ".123" } else { "" };
        let step = point(&format!("2025-10-25T22:00:07{fraction}Z"), at as f64, 12);
        assert_eq!(client.points("Meter%20S", "").last(), Some(&step));
    }
    let meter = client.get("/timeseries/Meter%20A");
    assert_eq!((&meter["Interval"]["Multiplier"], &meter["Audit"]), (&json!(15), &json!(true)));
    assert_eq!(client.get("/timeseries/Meter%20S")["Type"], "Spontaneous");
    server.stop();
}
