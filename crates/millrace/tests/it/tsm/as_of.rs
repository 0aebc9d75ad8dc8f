//! Earlier states and versions of managed series, compared with a model that keeps every state.
//!
//! A random sequence of writes, partial overwrites and deletions makes the states. Then all combinations of a state, a way to name
//! it (`asOf`, `audit`, `exactAudit`; by REST and by SQL), a selection of versions and a raster are read, for stored series and
//! formulas, and compared with the model: before and after a clean restart, after `VACUUM FULL`, and after a kill.
//!
//! `MILLRACE_AS_OF_COMPARISONS` sets the number of comparisons, drawn from all combinations: a great one means all.
//! `MILLRACE_AS_OF_CHANGES` sets the number of changes, `MILLRACE_RANDOM_SEED` the seed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::random::{Random, number, seed};
use super::{Client, point, points_of, quarter_hours, rows};
use crate::http::request;
use crate::server::{Server, folder};

/// Number of comparisons that takes some seconds.
const COMPARISONS: usize = 160;
const CHANGES: usize = 16;
/// Quarter hours of all series.
const QUARTERS: usize = 16;
/// The last is later than now.
const VERSIONS: [&str; 4] =
    ["2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z", "2199-01-01T00:00:00Z"];
/// A time at which all versions but the last are not later than now, and the last is.
const NOW: &str = "2100-01-01T00:00:00Z";
/// Numbers of flags; a result has that of its values that stands furthest to the right.
const FLAGS: [i64; 9] = [0, 20, 5, 9, 12, 21, 7, 22, 19];
const MISSING: Point = (None, 19);

/// A value and its flag.
type Point = (Option<f64>, i64);

struct Stored {
    name: &'static str,
    unit: &'static str,
    /// Whether the value of an hour is the sum; otherwise it is the mean.
    is_sum: bool,
    /// The default behaviour of series with versions.
    behaviour: Option<&'static str>,
}

const STORED_LEN: usize = 5;

static STORED: [Stored; STORED_LEN] = [
    Stored { name: "power", unit: "kW", is_sum: false, behaviour: None },
    Stored { name: "energy", unit: "kWh", is_sum: true, behaviour: None },
    Stored { name: "newest", unit: "kW", is_sum: false, behaviour: Some("Max not exact") },
    Stored { name: "one", unit: "kWh", is_sum: true, behaviour: Some("Max exact") },
    Stored { name: "past", unit: "kW", is_sum: false, behaviour: Some("Now not exact") },
];

/// A sum of two stored series.
struct Formula {
    name: &'static str,
    text: &'static str,
    /// Places of the series, and their factors.
    terms: [(usize, f64); 2],
}

const FORMULAS_LEN: usize = 2;

static FORMULAS: [Formula; FORMULAS_LEN] = [
    Formula { name: "both", text: "[power] + [energy] * 2", terms: [(0, 1.0), (1, 2.0)] },
    Formula { name: "error", text: "[newest] - [power]", terms: [(2, 1.0), (0, -1.0)] },
];

/// Stored series by their places, then formulas.
const READABLE: usize = STORED_LEN + FORMULAS_LEN;

fn name(series: usize) -> &'static str {
    if is_formula(series) { FORMULAS[series - STORED_LEN].name } else { STORED[series].name }
}

fn is_formula(series: usize) -> bool {
    series >= STORED_LEN
}

/// All points of a state: by place of the series, version, and quarter hour.
type State = BTreeMap<(usize, Option<&'static str>, usize), Point>;

/// Versions that a request names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Versions {
    Default,
    Exact(&'static str),
    UpTo(&'static str),
    Before(&'static str),
    /// The version before a time, by so many.
    ExactBefore(&'static str, usize),
}

impl Versions {
    fn all() -> Vec<Versions> {
        let mut all = vec![Versions::Default, Versions::UpTo("2025-01-02T12:00:00Z"), Versions::UpTo(VERSIONS[0])];
        all.extend(VERSIONS.map(Versions::Exact));
        all.extend([Versions::Before(VERSIONS[2]), Versions::Before(VERSIONS[0])]);
        all.extend((1..=3).map(|count| Versions::ExactBefore(VERSIONS[3], count)));
        all.extend([1, 4].map(|count| Versions::ExactBefore("2200-01-01T00:00:00Z", count)));
        all
    }

    /// Parameters of a request.
    fn parameters(self) -> Vec<(&'static str, String)> {
        let exact = ("exactQuotation", "true".to_owned());
        match self {
            Versions::Default => Vec::new(),
            Versions::Exact(version) => vec![("quotation", version.to_owned()), exact],
            Versions::UpTo(version) => vec![("quotation", version.to_owned())],
            Versions::Before(version) => vec![("quotationBefore", version.to_owned())],
            Versions::ExactBefore(version, count) => {
                vec![("quotationBefore", version.to_owned()), exact, ("versions", count.to_string())]
            }
        }
    }

    /// The versions of a series with versions that are read, of a state and of quarter hours.
    fn of(self, series: usize, state: &State, (from, to): (usize, usize)) -> BTreeSet<&'static str> {
        let all: BTreeSet<&'static str> = versions(series, state, (0, QUARTERS));
        let last = |versions: BTreeSet<&'static str>| -> BTreeSet<&'static str> {
            versions.last().copied().into_iter().collect()
        };
        match (self, STORED[series].behaviour) {
            (Versions::Exact(version), _) => [version].into(),
            (Versions::UpTo(until), _) => all.into_iter().filter(|version| *version <= until).collect(),
            (Versions::Before(end), _) => all.into_iter().filter(|version| *version < end).collect(),
            (Versions::ExactBefore(end, count), _) => {
                let mut before = all.into_iter().rev().filter(|version| *version < end);
                before.nth(count - 1).into_iter().collect()
            }
            (Versions::Default, Some("Max exact")) => last(versions(series, state, (from, to))),
            (Versions::Default, Some("Now not exact")) => all.into_iter().filter(|version| *version < NOW).collect(),
            (Versions::Default, _) => all,
        }
    }
}

/// Versions of a series that have a value in some quarter hours.
fn versions(series: usize, state: &State, (from, to): (usize, usize)) -> BTreeSet<&'static str> {
    let own = state.keys().filter(|key| key.0 == series && (from..to).contains(&key.2));
    own.filter_map(|key| key.1).collect()
}

/// A request that changed values.
struct Change {
    /// Time of the request, as the modifications of its series have it.
    stamp: String,
    series: Vec<usize>,
}

/// Values of a state that are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    All,
    /// Values that the state before does not have.
    Changed,
}

/// All states in their order, and the changes between them.
struct Model {
    states: Vec<State>,
    changes: Vec<Change>,
}

impl Model {
    /// The points of a series that are read.
    ///
    /// - `at`: place of the state.
    fn points(&self, series: usize, at: usize, part: Part, read: Read) -> Vec<Point> {
        let own = self.quarters(series, at, part, read);
        if !read.is_hourly {
            return own;
        }
        let is_sum = !is_formula(series) && STORED[series].is_sum;
        own.chunks(4).map(|quarters| hour(quarters, is_sum)).collect()
    }

    fn quarters(&self, series: usize, at: usize, part: Part, read: Read) -> Vec<Point> {
        if is_formula(series) {
            let terms = FORMULAS[series - STORED_LEN].terms;
            let [left, right] = terms.map(|(term, factor)| {
                let points = self.quarters(term, at, part, read);
                points.into_iter().map(move |(value, flag)| (value.map(|value| value * factor), flag))
            });
            return left.zip(right).map(sum).collect();
        }
        let versions = read.versions.of(series, &self.states[at], read.range);
        let state = |at: usize| newest(series, &self.states[at], &versions, read.range);
        let mut points = state(at);
        if part == Part::Changed {
            let before = state(at - 1);
            points.retain(|quarter, point| before.get(quarter) != Some(&*point));
        }
        (read.range.0..read.range.1).map(|quarter| points.get(&quarter).copied().unwrap_or(MISSING)).collect()
    }
}

/// For each quarter hour the value of the newest of some versions; of a series without versions its value.
fn newest(
    series: usize,
    state: &State,
    versions: &BTreeSet<&str>,
    (from, to): (usize, usize),
) -> BTreeMap<usize, Point> {
    let is_read = |version: Option<&str>| version.is_none_or(|version| versions.contains(version));
    let own = state.iter().filter(|(key, _)| key.0 == series && is_read(key.1) && (from..to).contains(&key.2));
    let mut points = BTreeMap::new();
    // Ascending by version: the newest one replaces the others.
    for (key, point) in own {
        points.insert(key.2, *point);
    }
    points
}

/// The sum of two points: a value that is absent counts as nothing.
fn sum((left, right): (Point, Point)) -> Point {
    let value = match (left.0, right.0) {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    };
    (value, greatest([left.1, right.1].into_iter()))
}

/// The point of an hour: the sum or the mean of the values that are there.
fn hour(quarters: &[Point], is_sum: bool) -> Point {
    let values: Vec<f64> = quarters.iter().filter_map(|point| point.0).collect();
    let divisor = if is_sum { 1.0 } else { values.len() as f64 };
    let value = (!values.is_empty()).then(|| values.iter().sum::<f64>() / divisor);
    (value, greatest(quarters.iter().map(|point| point.1)))
}

/// The flag that stands furthest to the right.
fn greatest(flags: impl Iterator<Item = i64>) -> i64 {
    FLAGS[flags.map(|flag| FLAGS.iter().position(|own| *own == flag).unwrap()).max().unwrap()]
}

/// Parameters of a reading, except those of the state.
#[derive(Clone, Copy, Debug)]
struct Read {
    versions: Versions,
    /// First and last quarter hour, without the last; of whole hours.
    range: (usize, usize),
    is_hourly: bool,
}

/// A way to read a state.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// `asOf` with a time between the change and the next one, of all series in one request.
    AsOf,
    /// `audit` with the stamp of the change, of all series in one request.
    Audit,
    /// `audit` with the stamp of the change, and `exactAudit`.
    ExactAudit,
    /// `tsm.read` with `as_of`, of one series; below with the other arguments.
    AsOfBySql,
    AuditBySql,
    ExactAuditBySql,
    /// The tables by `FOR SYSTEM_TIME AS OF`.
    Tables,
}

const WAYS: [Way; 7] =
    [Way::AsOf, Way::Audit, Way::ExactAudit, Way::AsOfBySql, Way::AuditBySql, Way::ExactAuditBySql, Way::Tables];

/// A comparison with the model.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    /// Place of the state: 0 is the one before all changes, which has no stamp.
    at: usize,
    way: Way,
    versions: Versions,
    is_hourly: bool,
}

impl Comparison {
    /// All, in random order.
    fn all(changes: usize, random: &mut Random) -> Vec<Comparison> {
        let mut all = Vec::new();
        for at in 1..=changes {
            for way in WAYS {
                for versions in Versions::all() {
                    all.extend([false, true].map(|is_hourly| Comparison { at, way, versions, is_hourly }));
                }
            }
        }
        // Tables have neither rasters nor selections of versions.
        all.retain(|one| one.way != Way::Tables || (one.versions == Versions::Default && !one.is_hourly));
        random.shuffle(&mut all);
        all
    }
}

#[test]
fn every_earlier_state_and_version_is_read_as_a_model_has_it() {
    let seed = seed();
    let changes = number("MILLRACE_AS_OF_CHANGES", CHANGES);
    let count = number("MILLRACE_AS_OF_COMPARISONS", COMPARISONS);
    let mut random = Random::new(seed, 0);
    let (_folder, data) = folder();
    let server = Server::start(&data);
    define(&server);
    let mut model = Model { states: vec![State::new()], changes: Vec::new() };
    for _ in 0..changes {
        change(&server, &mut model, &mut random);
        if random.once_in(5) {
            rows(&server, "CHECKPOINT");
        }
    }
    let all = Comparison::all(changes, &mut random);
    let [first, rest] = [count - count / 2, count / 6];
    let mut parts = all.iter().cycle();
    let mut next = |server: &Server, what: &str, count: usize| {
        // More than all would be the same again.
        for comparison in parts.by_ref().take(count.min(all.len())) {
            compare(server, &model, *comparison, &mut random, what);
        }
        compare_present(server, &model, what);
    };
    next(&server, "at first", first);
    server.stop();
    let server = Server::start(&data);
    next(&server, "after a restart", rest);
    for table in ["audited_points", "quoted_points", "modifications"] {
        rows(&server, &format!("VACUUM FULL tsm.{table}"));
    }
    next(&server, "after VACUUM FULL", rest);
    server.kill();
    let server = Server::start(&data);
    next(&server, "after a kill", rest);
    server.stop();
}

fn define(server: &Server) {
    let client = Client(server);
    for Stored { name, unit, behaviour, .. } in &STORED {
        let mut definition = quarter_hours(name);
        definition["Unit"] = json!(unit);
        definition["TimeZone"] = json!("UTC");
        if let Some(behaviour) = behaviour {
            definition["Quotation"] = json!(true);
            definition["QuotationBehaviour"] = json!(behaviour);
        }
        client.create(&definition);
    }
    for Formula { name, text, .. } in &FORMULAS {
        let interval = json!({ "Value": "Minute", "Multiplier": 15 });
        client.create(&json!({ "Name": name, "Interval": interval, "Unit": "none", "Formula": text }));
    }
}

fn time(quarter: usize) -> String {
    format!("2025-01-01T{:02}:{:02}:00Z", quarter / 4, quarter % 4 * 15)
}

/// Changes values of the server and of the model.
fn change(server: &Server, model: &mut Model, random: &mut Random) {
    let mut state = model.states.last().unwrap().clone();
    let from = random.below(QUARTERS);
    let range = (from, from + 1 + random.below(QUARTERS - from));
    let series = if state.is_empty() || !random.once_in(3) {
        write(server, &mut state, range, random)
    } else {
        delete(server, &mut state, range, random)
    };
    let stamps: Vec<String> = series.iter().map(|series| last_stamp(server, *series)).collect();
    assert!(stamps.iter().all(|stamp| *stamp == stamps[0]), "one request has one stamp: {stamps:?}");
    model.states.push(state);
    model.changes.push(Change { stamp: stamps[0].clone(), series });
}

/// The version of a change; none of a series without versions.
fn version(series: usize, random: &mut Random) -> Option<&'static str> {
    STORED[series].behaviour.map(|_| random.one_of(&VERSIONS))
}

fn write(server: &Server, state: &mut State, (from, to): (usize, usize), random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = (0..STORED_LEN).collect();
    random.shuffle(&mut all);
    all.truncate(random.one_of(&[1, 1, 2, 3, 5]));
    let mut body = Vec::new();
    for series in &all {
        let version = version(*series, random);
        let mut data = Vec::new();
        for quarter in from..to {
            let key = (*series, version, quarter);
            // A value that is written again as it is, is no change.
            let same = state.get(&key).copied().filter(|_| random.once_in(3));
            let point = same.unwrap_or_else(|| random_point(random));
            state.insert(key, point);
            data.push(json!({ "From": time(quarter), "Value": point.0, "Flag": point.1 }));
        }
        let mut one = json!({ "Name": STORED[*series].name, "Data": data });
        if let Some(version) = version {
            one["Quotation"] = json!(version);
        }
        body.push(one);
    }
    Client(server).ok("PUT", "/timeseriescollections/data?atomic=true", &Json::Array(body));
    all
}

fn random_point(random: &mut Random) -> Point {
    if random.once_in(7) { MISSING } else { (Some(1.0 + random.below(8) as f64), random.one_of(&[9, 9, 21, 5])) }
}

fn delete(server: &Server, state: &mut State, (from, to): (usize, usize), random: &mut Random) -> Vec<usize> {
    let series = random.below(STORED_LEN);
    let version = version(series, random);
    let of_version = version.map_or_else(String::new, |version| format!("&quotation={version}&exactQuotation=true"));
    let path = format!("/timeseries/{}/data?from={}&to={}{of_version}", name(series), time(from), time(to));
    Client(server).ok("DELETE", &path, &Json::Null);
    state.retain(|key, _| (key.0, key.1) != (series, version) || !(from..to).contains(&key.2));
    vec![series]
}

/// The time of the last change of a series.
fn last_stamp(server: &Server, series: usize) -> String {
    let changes = Client(server).get(&format!("/timeseries/{}/data/modifications", name(series)));
    changes.as_array().unwrap().last().unwrap()["Time"].as_str().unwrap().to_owned()
}

fn compare(server: &Server, model: &Model, comparison: Comparison, random: &mut Random, what: &str) {
    let Comparison { at, way, versions, is_hourly } = comparison;
    let first = random.below(QUARTERS / 4);
    let part_of_day = (4 * first, 4 * (first + 1 + random.below(QUARTERS / 4 - first)));
    let range = if random.once_in(2) { (0, QUARTERS) } else { part_of_day };
    let read = Read { versions, range, is_hourly };
    let Change { stamp, series } = &model.changes[at - 1];
    // A change is stamped when its request begins: after the commit of the one before.
    let later = model.changes.get(at).map_or("2100-01-01T00:00:00Z", |next| next.stamp.as_str());
    let what = format!("{what}: {comparison:?} {range:?}");
    let every: Vec<usize> = (0..READABLE).collect();
    // To a formula the stamp is a time like others: that before the commit.
    let after = |series: usize| if is_formula(series) { at - 1 } else { at };
    let audit = || ("audit", stamp.clone());
    let exact = || ("exactAudit", "true".to_owned());
    match way {
        Way::AsOf => {
            compare_list(server, &every, read, &[("asOf", later.to_owned())], &what, |series| {
                model.points(series, at, Part::All, read)
            });
        }
        Way::Audit => {
            compare_list(server, &every, read, &[audit()], &what, |series| {
                model.points(series, after(series), Part::All, read)
            });
        }
        Way::ExactAudit => {
            compare_list(server, series, read, &[audit(), exact()], &what, |series| {
                model.points(series, at, Part::Changed, read)
            });
        }
        Way::AsOfBySql => {
            let one = random.below(READABLE);
            let expected = model.points(one, at, Part::All, read);
            compare_sql(server, one, read, &[("asOf", later.to_owned())], &what, &expected);
        }
        Way::AuditBySql => {
            let one = random.below(READABLE);
            let expected = model.points(one, after(one), Part::All, read);
            compare_sql(server, one, read, &[audit()], &what, &expected);
        }
        Way::ExactAuditBySql => {
            let one = random.one_of(series);
            let expected = model.points(one, at, Part::Changed, read);
            compare_sql(server, one, read, &[audit(), exact()], &what, &expected);
        }
        Way::Tables => compare_tables(server, &model.states[at], later, &what),
    }
}

/// The present state, without and with all selections of versions.
fn compare_present(server: &Server, model: &Model, what: &str) {
    let every: Vec<usize> = (0..READABLE).collect();
    let at = model.states.len() - 1;
    for versions in Versions::all() {
        for is_hourly in [false, true] {
            let read = Read { versions, range: (0, QUARTERS), is_hourly };
            let what = format!("{what}: the present state, {versions:?}");
            compare_list(server, &every, read, &[], &what, |series| model.points(series, at, Part::All, read));
        }
    }
}

/// Reads series in one request.
fn compare_list(
    server: &Server,
    series: &[usize],
    read: Read,
    state: &[(&str, String)],
    what: &str,
    expected: impl Fn(usize) -> Vec<Point>,
) {
    let mut parameters: Vec<String> = series.iter().map(|series| format!("name={}", name(*series))).collect();
    parameters.push(format!("from={}&to={}", time(read.range.0), time(read.range.1)));
    parameters.extend(read.is_hourly.then(|| "interval=Hour".to_owned()));
    let of_versions = read.versions.parameters();
    parameters.extend(of_versions.iter().chain(state).map(|(name, value)| format!("{name}={value}")));
    let path = format!("/timeseriescollections/data?{}", parameters.join("&"));
    let replies = Client(server).get(&path);
    assert_eq!(replies.as_array().map(Vec::len), Some(series.len()), "{path}");
    for (place, series) in series.iter().enumerate() {
        let points = points_of(&replies[place]).into_iter().map(|(_, value, flag)| (value, flag)).collect();
        assert_same(points, &expected(*series), &format!("{what}: {}: GET {path}", name(*series)));
    }
}

/// Reads a series by a function of SQL.
fn compare_sql(server: &Server, series: usize, read: Read, state: &[(&str, String)], what: &str, expected: &[Point]) {
    let mut arguments = vec![format!("'{}', '{}', '{}'", name(series), time(read.range.0), time(read.range.1))];
    arguments.extend(read.is_hourly.then(|| "step => 'Hour'".to_owned()));
    let of_versions = read.versions.parameters();
    let named = of_versions.iter().chain(state);
    arguments.extend(named.map(|(name, value)| format!("{} => '{value}'", argument(name))));
    let statement = format!("SELECT value, flag FROM tsm.read({}) ORDER BY time", arguments.join(", "));
    let rows = rows(server, &statement);
    let points = rows.iter().map(|row| -> Point {
        let (value, flag) = row.split_once(',').unwrap_or_else(|| panic!("{statement}: {row}"));
        ((!value.is_empty()).then(|| value.parse().unwrap()), flag.parse().unwrap())
    });
    assert_same(points.collect(), expected, &format!("{what}: {statement}"));
}

/// The argument of a function for a parameter of a request: `exact_audit` for `exactAudit`.
fn argument(parameter: &str) -> String {
    let letters = parameter.chars().map(|letter| {
        if letter.is_ascii_uppercase() { format!("_{}", letter.to_ascii_lowercase()) } else { letter.to_string() }
    });
    letters.collect()
}

fn assert_same(seen: Vec<Point>, expected: &[Point], what: &str) {
    let is_same = |(seen, expected): (&Point, &Point)| {
        let is_near = match (seen.0, expected.0) {
            (Some(seen), Some(expected)) => (seen - expected).abs() < 1e-9,
            (seen, expected) => seen == expected,
        };
        is_near && seen.1 == expected.1
    };
    let all_same = seen.len() == expected.len() && seen.iter().zip(expected).all(is_same);
    assert!(all_same, "{what}\n    seen {seen:?}\nexpected {expected:?}");
}

/// Compares all rows of the tables as of a time with a state.
fn compare_tables(server: &Server, state: &State, time_of_state: &str, what: &str) {
    for (table, columns) in [("audited_points", "name, p.time"), ("quoted_points", "name, p.quotation, p.time")] {
        let statement = format!(
            "SELECT {columns}, value, flag FROM tsm.{table} FOR SYSTEM_TIME AS OF '{time_of_state}' AS p \
             JOIN tsm.series ON id = p.series"
        );
        let seen: BTreeSet<String> = rows(server, &statement).into_iter().collect();
        let is_quoted = table == "quoted_points";
        let own = state.iter().filter(|((_, version, _), _)| version.is_some() == is_quoted);
        let expected: BTreeSet<String> = own
            .map(|((series, version, quarter), (value, flag))| {
                let version = version.map_or_else(String::new, |version| format!("{version},"));
                let value = value.map_or_else(String::new, |value| value.to_string());
                format!("{},{version}{},{value},{flag}", name(*series), time(*quarter))
            })
            .collect();
        let different: Vec<&String> = seen.symmetric_difference(&expected).collect();
        assert!(different.is_empty(), "{what}: {statement}: either seen or expected: {different:?}");
    }
}

/// Bug: the error of a time before the history of a table aborted the transaction in which a long reading runs: its reply broke off.
/// A series that reads one version answered with the error.
#[test]
fn before_all_history_nothing_is_there_also_for_long_readings_and_all_versions() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    define(&server);
    // More quarter hours than one window has.
    let year = "from=2024-01-01&to=2025-01-01&asOf=2020-01-01T00:00:00Z";
    let quarters = 366 * 96;
    let is_empty = |reply: &Json| {
        let points = points_of(reply);
        assert_eq!(points.len(), quarters);
        assert!(points.iter().all(|(_, value, flag)| (*value, *flag) == MISSING), "something is there");
    };
    is_empty(&client.get(&format!("/timeseries/power/data?{year}")));
    is_empty(&client.get(&format!("/timeseries/both/data?{year}")));
    is_empty(&client.get(&format!("/timeseriescollections/data?name=energy&name=power&{year}"))[1]);
    let summed = client.get(&format!("/timeseriescollections/data/sum?name=energy&name=power&unit=kWh&{year}"));
    is_empty(&summed);
    let read =
        "SELECT count(*), count(value) FROM tsm.read('power', '2024-01-01', '2025-01-01', as_of => '2020-01-01')";
    assert_eq!(rows(&server, read), [format!("{quarters},0")]);
    for Stored { name, .. } in &STORED {
        let hour = format!("from={}&to={}&interval=Hour&asOf=2020-01-01T00:00:00Z", time(0), time(4));
        assert_eq!(client.points(name, &hour), [point(&time(0), None, 19)], "{name}");
    }
    server.stop();
}

/// Bug: the version before a time was looked for among the versions of now, so that a later version, or the deletion of one, changed
/// what was read of an earlier state.
#[test]
fn the_version_before_a_time_is_one_of_the_state_that_is_read() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    define(&server);
    let write = |version: &str, value: f64| {
        let body = json!({ "Data": [{ "From": time(0), "Value": value }] });
        client.ok("PUT", &format!("/timeseries/newest/data?quotation={version}"), &body);
        last_stamp(&server, 2)
    };
    let first = write(VERSIONS[0], 1.0);
    let second = write(VERSIONS[1], 2.0);
    let range = format!("from={}&to={}", time(0), time(1));
    let path = format!("/timeseries/newest/data?{range}&quotation={}&exactQuotation=true", VERSIONS[1]);
    client.ok("DELETE", &path, &Json::Null);
    let before = format!("{range}&quotationBefore={}&exactQuotation=true", VERSIONS[2]);
    let read = |state: &str| client.points("newest", &format!("{before}{state}"))[0].1;
    assert_eq!(read(&format!("&audit={first}")), Some(1.0));
    assert_eq!(read(&format!("&audit={second}")), Some(2.0), "the version that is gone now");
    assert_eq!(read("&versions=2"), None);
    assert_eq!(read(&format!("&audit={second}&versions=2")), Some(1.0));
    assert_eq!(read(""), Some(1.0));
    server.stop();
}

/// Bug: a change at the start of the range was not read of a spontaneous series on a raster.
#[test]
fn the_change_of_a_spontaneous_value_at_the_start_of_a_range_is_read_exactly() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    client.create(&json!({ "Name": "level", "Type": "Spontaneous", "Unit": "kW", "Audit": true }));
    for value in [1.0, 5.0] {
        client.ok("PUT", "/timeseries/level/data", &json!({ "Data": [{ "From": time(0), "Value": value }] }));
    }
    let changes = client.get("/timeseries/level/data/modifications");
    let stamp = changes[1]["Time"].as_str().unwrap();
    let query = format!("from={}&to={}&interval=Hour&audit={stamp}&exactAudit=true", time(0), time(4));
    assert_eq!(client.points("level", &query), [point(&time(0), 5.0, 9)]);
    server.stop();
}

/// A formula has no changes of its own.
#[test]
fn a_formula_reads_the_state_at_a_time_and_has_no_changes() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let client = Client(&server);
    define(&server);
    client.write("power", &time(0), 900, &[1.0]);
    client.write("power", &time(0), 900, &[2.0]);
    let stamp = last_stamp(&server, 0);
    let range = format!("from={}&to={}", time(0), time(1));
    for (state, expected) in [("asOf", 1.0), ("audit", 1.0)] {
        let query = format!("{range}&{state}={stamp}");
        assert_eq!(client.points("both", &query)[0].1, Some(expected), "{state}: before the commit of the change");
    }
    assert_eq!(client.points("power", &format!("{range}&audit={stamp}"))[0].1, Some(2.0));
    let target = format!("/repositories/default/timeseries/both/data?{range}&audit={stamp}&exactAudit=true");
    let (status, text) = request(&server.http, "GET", &target, b"").unwrap();
    assert!(status == 400 && text.contains("has no change at"), "{status} {text}");
    server.stop();
}
