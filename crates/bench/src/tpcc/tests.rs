//! Runs against PostgreSQL, MariaDB and Millrace.

use super::check::condition;
use super::clients::ClientGroup;
use super::input::{Dealer, Input, Inputs, Line, Terminal, Who};
use super::random::{Constants, Random};
use super::session::Session;
use super::transactions::{Client, Done};
use super::*;
use crate::engine::{Plan, Progress};
use crate::measure::proc;
use crate::peers::{self, Options, Server};

pub(super) struct Silent;

impl Show for Silent {
    fn stage(&mut self, _: &str) {}
    fn progress(&mut self, _: &Plan, _: &Progress) {}
}

fn settings() -> Settings {
    Settings {
        warehouses: 1,
        clients: vec![4],
        warm_up: Duration::from_millis(200),
        length: Duration::from_millis(1500),
        mix: [45, 43, 4, 4, 4],
        draw: Draw::Deck,
        thinks: false,
        mode: Mode::Interactive,
        isolation: Isolation::ReadCommitted,
        foreign_keys: true,
        retries: 0,
        keep: true,
        no_load: false,
        check_only: false,
        kills: 1,
        cycle: 0,
        kill_server: false,
        check_each: false,
        load_connections: 4,
        seed: 11,
        placing: TargetServerOptions::default(),
        command: Vec::new(),
    }
}

/// Starts a server and returns a target that the run treats as an existing server.
fn server(product: peers::Product, port: &str) -> (tempfile::TempDir, Server, Target) {
    let dir = tempfile::tempdir().expect("a folder");
    // Millrace keeps the tables in memory, in at most half of its memory limit.
    let memory_mib = if product == peers::Product::Millrace { 1_024 } else { 256 };
    let options = Options { memory_mib: Some(memory_mib), ..Options::default() };
    let server = peers::start(product, dir.path(), options).unwrap_or_else(|error| panic!("{error}"));
    let target = format!("{}://{}", product.name(), server.address(port).expect("its port"));
    (dir, server, Target::parse(&target).expect("a target"))
}

fn connector(product: Product, target: &Target) -> Connector {
    let target = target.clone();
    Connector { product, target, isolation: Isolation::ReadCommitted, timeout: Duration::from_secs(20) }
}

/// Checks that all conditions hold, every kind ran, nothing failed, and figures exist.
fn assert_good(report: &Report, what: &str) {
    let text = report.text();
    assert!(report.passed(), "{what}: {text}");
    let point = &report.points[0];
    assert!(point.nopm > 0.0 && point.trips > 0, "{what}: {text}");
    assert!(point.kinds[..5].iter().all(|kind| kind.ok > 0), "{what}: {text}");
    let conditions = report.after.as_ref().map_or(0, |after| after.conditions.len());
    assert_eq!(conditions, 14, "{what}: twelve, the ledger and the payments");
}

#[test]
fn postgres_satisfies_all_conditions_in_every_mode_and_each_injected_violation_is_found() {
    let (_dir, server, target) = server(peers::Product::Postgres, "pg");
    let mut report = run(&settings(), &target, &mut Silent).expect("a run");
    assert_good(&report, "interactive");
    assert!(report.points[0].errors.is_empty(), "{:?}", report.points[0].errors);
    assert!(report.points[0].server_cpu_us_per_trip.is_some_and(|us| us > 1.0), "the server's CPU is seen by its port");
    for mode in [Mode::Pipelined, Mode::OneTrip, Mode::OneTripText] {
        let settings = Settings { mode, no_load: true, length: Duration::from_millis(1000), ..settings() };
        report = run(&settings, &target, &mut Silent).expect("a run");
        assert_good(&report, &format!("{mode:?}"));
    }
    assert!(report.loaded.is_none() && report.before.conditions.len() == 12);
    numbers_of_clients_run_one_after_the_other(&target);
    let connector = connector(Product::Postgres, &target);
    modes_do_the_same(&connector, &[Mode::Interactive, Mode::Pipelined, Mode::OneTrip, Mode::OneTripText]);
    round_trips_are_those_of_the_kits(&connector);
    conflicts_are_counted_and_retried_when_asked(&target);
    damage_is_found(&connector);
    a_lost_order_is_found(&connector);
    let check = Settings { check_only: true, ..settings() };
    let checked = run(&check, &target, &mut Silent).expect("a check");
    assert!(checked.passed() && checked.points.is_empty() && checked.after.is_none());
    drop(server);
}

#[test]
fn millrace_satisfies_all_conditions_in_every_mode_and_each_injected_violation_is_found() {
    let (_dir, server, target) = server(peers::Product::Millrace, "pg");
    let report = run(&settings(), &target, &mut Silent).expect("a run");
    assert_good(&report, "interactive");
    assert!(report.points[0].errors.is_empty(), "{:?}", report.points[0].errors);
    for mode in [Mode::Pipelined, Mode::OneTrip, Mode::OneTripText] {
        let settings = Settings { mode, no_load: true, length: Duration::from_millis(1000), ..settings() };
        assert_good(&run(&settings, &target, &mut Silent).expect("a run"), &format!("{mode:?}"));
    }
    let connector = connector(Product::Millrace, &target);
    modes_do_the_same(&connector, &[Mode::Interactive, Mode::Pipelined, Mode::OneTrip, Mode::OneTripText]);
    damage_is_found(&connector);
    a_lost_order_is_found(&connector);
    let rows = rowload::run(&rowload_settings(), &target, &mut Silent).expect("rows");
    assert!(rows.passed() && rows.rows == 5_003, "{}", rows.text());
    drop(server);
}

/// Runs the same inputs in each mode: lines, balances and rollbacks must be equal.
fn modes_do_the_same(connector: &Connector, modes: &[Mode]) {
    let mut admin = Admin::connect(connector, true).unwrap();
    let line = |item, quantity| Line { item, supply: 1, quantity };
    let lines = vec![line(17, 3), line(17, 4), line(500, 10), line(99_999, 1), line(100_000, 7)];
    let wrong = vec![line(3, 1), line(100_001, 1)];
    let order = |lines: &[Line]| Input::NewOrder { warehouse: 1, district: 3, customer: 42, lines: lines.to_vec() };
    let mut seen = Vec::new();
    // Two lines of one order take from the same stock, one after the other.
    admin.query("UPDATE stock SET s_quantity = 12 WHERE s_w_id = 1 AND s_i_id = 17").unwrap();
    for mode in modes {
        admin
            .query(
                "UPDATE customer SET c_credit = 'BC', c_data = 'before' WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 42",
            )
            .unwrap();
        admin.query("UPDATE stock SET s_quantity = 12 WHERE s_w_id = 1 AND s_i_id = 17").unwrap();
        let mut session = Session::new(connector).unwrap();
        let mut client = Client { session: &mut session, product: connector.product, mode: *mode, committing: false };
        let done = client.run(&order(&lines)).unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        let Done::Ordered(ordered) = done else { panic!("{mode:?}: {done:?}") };
        assert_eq!((ordered.customer, ordered.lines), (42, 5), "{mode:?}");
        assert_eq!(client.run(&order(&wrong)).unwrap_or_else(|error| panic!("{mode:?}: {error}")), Done::RolledBack);
        let before = cents(&mut admin);
        let payment = |who| Input::Payment { warehouse: 1, district: 1, home: (1, 3), who, cents: 1234 };
        assert_eq!(client.run(&payment(Who::Number(42))).unwrap(), Done::Paid, "{mode:?}");
        assert_eq!(client.run(&payment(Who::Name("BAROUGHTABLE".to_owned()))).unwrap(), Done::Paid, "{mode:?}");
        for who in [Who::Number(42), Who::Name("BAROUGHTABLE".to_owned())] {
            let status = Input::OrderStatus { warehouse: 1, district: 3, who };
            assert_eq!(client.run(&status).unwrap(), Done::Looked, "{mode:?}");
        }
        let level = Input::StockLevel { warehouse: 1, district: 3, threshold: 15 };
        assert_eq!(client.run(&level).unwrap(), Done::Looked, "{mode:?}");
        let delivery = Input::Delivery { warehouse: 1, carrier: 7 };
        assert_eq!(client.run(&delivery).unwrap(), Done::Delivered(0x3ff), "{mode:?}");
        let of_order = format!(
            "SELECT ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info, o_all_local, s_quantity \
             FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
             JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id AND s_i_id = 17 \
             WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = {} ORDER BY ol_number",
            ordered.number
        );
        let data = admin.query("SELECT c_data FROM customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 42").unwrap();
        let data = data[0][0].clone().unwrap();
        assert_eq!(data, "42 3 1 1 1 12.34 before", "{mode:?}");
        seen.push((admin.query(&of_order).unwrap(), before - cents(&mut admin), data));
    }
    assert_eq!(seen[0].0.len(), 2);
    // 12 - 3 is below 10, so 91 is added; 100 - 4 is not.
    assert_eq!(seen[0].0[1][7].as_deref(), Some("96"));
    assert_eq!(seen[0].1, 2 * 1234, "two payments, and a delivery to another customer or of no order");
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
}

/// Balance of all customers that the test's payments may have used, without amounts added by
/// deliveries.
fn cents(admin: &mut Admin) -> i64 {
    let sql = "SELECT sum(c_ytd_payment) * -100 FROM customer WHERE c_w_id = 1 AND c_d_id = 3";
    let text = admin.query(sql).unwrap()[0][0].clone().unwrap();
    text.split('.').next().unwrap().parse().unwrap()
}

fn round_trips_are_those_of_the_kits(connector: &Connector) {
    let mut session = Session::new(connector).unwrap();
    let lines: Vec<Line> = (1..=10).map(|item| Line { item, supply: 1, quantity: 1 }).collect();
    let order = Input::NewOrder { warehouse: 1, district: 2, customer: 5, lines };
    let status = Input::OrderStatus { warehouse: 1, district: 2, who: Who::Number(5) };
    let level = Input::StockLevel { warehouse: 1, district: 2, threshold: 10 };
    let delivery = Input::Delivery { warehouse: 1, carrier: 1 };
    let cases = [
        (Mode::Interactive, &order, 28),
        (Mode::Interactive, &status, 4),
        (Mode::Interactive, &level, 2),
        (Mode::Interactive, &delivery, 71),
        (Mode::Pipelined, &order, 2),
        (Mode::Pipelined, &status, 2),
        (Mode::Pipelined, &level, 1),
        (Mode::Pipelined, &delivery, 3),
        (Mode::OneTrip, &order, 1),
        (Mode::OneTripText, &order, 1),
    ];
    for (mode, input, trips) in cases {
        let before = session.trips;
        Client { session: &mut session, product: connector.product, mode, committing: false }.run(input).unwrap();
        assert_eq!(session.trips - before, trips, "{mode:?} {input:?}");
    }
}

/// The numbers of clients run in the given order on the same tables; after each, the acknowledged
/// transactions are checked.
fn numbers_of_clients_run_one_after_the_other(target: &Target) {
    let length = Duration::from_millis(300);
    let settings = Settings { clients: vec![3, 1], check_each: true, no_load: true, length, ..settings() };
    let report = run(&settings, target, &mut Silent).expect("runs");
    assert!(report.passed(), "{}", report.text());
    assert_eq!(report.points.iter().map(|point| point.clients).collect::<Vec<usize>>(), [3, 1]);
    let between: Vec<_> = report.between.iter().map(|each| (each.clients, each.verdict.conditions.len())).collect();
    assert_eq!(between, [(3, 14)], "the twelve, the ledger and the payments; the last run has its own check");
}

/// Serializable clients on one warehouse conflict all the time: each attempt is counted, some
/// succeed on a retry, and the others are given up.
fn conflicts_are_counted_and_retried_when_asked(target: &Target) {
    let contended = Settings {
        no_load: true,
        isolation: Isolation::Serializable,
        clients: vec![8],
        length: Duration::from_millis(1000),
        retries: 1,
        ..settings()
    };
    let report = run(&contended, target, &mut Silent).expect("a run");
    let (point, text) = (&report.points[0], report.text());
    assert!(report.passed(), "{text}");
    let conflicts: u64 = point.errors.iter().filter(|error| error.sqlstate == "40001").map(|error| error.count).sum();
    assert!(point.retries > 0 && point.retries < conflicts, "{text}");
    assert!(point.kinds.iter().any(|kind| kind.failed > 0), "{text}");
    assert!(text.contains("    40001 "), "{text}");
}

/// For each condition, a change of a few rows that violates it.
const DAMAGE: [&str; 12] = [
    "UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_w_id = 1 AND d_id = 3",
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 10",
    "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 4 AND no_o_id = \
     (SELECT min(no_o_id) + 1 FROM new_order WHERE no_w_id = 1 AND no_d_id = 4)",
    "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 5 AND o_id = 1",
    "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 2",
    "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 3 AND ol_number = 1",
    "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 4 AND ol_number = 2",
    "UPDATE warehouse SET w_ytd = w_ytd - 0.01",
    "UPDATE history SET h_d_id = 1 + h_d_id % 10 WHERE h_c_w_id = 1 AND h_c_d_id = 2 AND h_c_id = 3",
    "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_w_id = 1 AND c_d_id = 7 AND c_id = 8",
    "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 9 AND no_o_id = \
     (SELECT min(no_o_id) FROM new_order WHERE no_w_id = 1 AND no_d_id = 9)",
    "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 1 AND c_d_id = 7 AND c_id = 9",
];

fn damage_is_found(connector: &Connector) {
    let mut admin = Admin::connect(connector, true).unwrap();
    for (number, damage) in (1..).zip(DAMAGE) {
        admin.query("BEGIN").unwrap();
        let whole = condition(&mut admin, number, &ExpectedState::Consistent).unwrap();
        assert!(whole.offending.is_empty(), "{whole:?}");
        admin.query(damage).unwrap();
        let broken = condition(&mut admin, number, &ExpectedState::Consistent).unwrap();
        assert_eq!(
            broken.offending.len().clamp(1, 2),
            broken.offending.len(),
            "condition {number}: {damage}: {broken:?}"
        );
        assert!(broken.offending[0].contains('='), "{broken:?}");
        admin.query("ROLLBACK").unwrap();
    }
}

/// Deletes an acknowledged order with all its rows.
fn a_lost_order_is_found(connector: &Connector) {
    let mut admin = Admin::connect(connector, true).unwrap();
    let ledger = Ledger::begin(&mut admin, 1).unwrap();
    let settings = Settings { length: Duration::from_millis(300), warm_up: Duration::ZERO, ..settings() };
    let mut target_server = TargetServer::open(&connector.target, &TargetServerOptions::default(), 0).unwrap();
    let group = ClientGroup { settings: &settings, connector, ledger: &ledger, clients: 2, warehouses: 1 };
    group.run(&mut target_server, &mut Silent).unwrap();
    assert!(ledger.orders() > 10, "{}", ledger.orders());
    assert!(ledger.check_orders(&mut admin).unwrap().is_empty());
    assert!(ledger.check_payments(&mut admin).unwrap().is_empty());
    let last = "(SELECT d_next_o_id - 1 FROM district WHERE d_w_id = 1 AND d_id = 6)";
    admin.query("BEGIN").unwrap();
    for (table, prefix) in [("order_line", "ol"), ("new_order", "no"), ("orders", "o")] {
        let row = format!("{prefix}_w_id = 1 AND {prefix}_d_id = 6 AND {prefix}_o_id = {last}");
        let row = row.replace(" o_o_id", " o_id");
        admin.query(&format!("DELETE FROM {table} WHERE {row}")).unwrap();
    }
    admin.query("DELETE FROM history WHERE h_w_id = 1 AND h_date = (SELECT max(h_date) FROM history)").unwrap();
    let lost = ledger.check_orders(&mut admin).unwrap();
    assert!(
        lost.iter().any(|text| text.starts_with("(1, 6): acknowledged order") && text.ends_with("LOST")),
        "{lost:?}"
    );
    assert_eq!(ledger.check_payments(&mut admin).unwrap().len(), 1);
    admin.query("ROLLBACK").unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_when_postgres_is_killed_in_mid_run() {
    let settings = Settings {
        kill_server: true,
        keep: false,
        foreign_keys: false,
        length: Duration::from_secs(5),
        placing: TargetServerOptions { memory_mib: Some(256), ..TargetServerOptions::default() },
        ..settings()
    };
    let report = run(&settings, &Target::parse("postgres").unwrap(), &mut Silent).expect("a run");
    let point = &report.points[0];
    assert!(report.passed(), "{}", report.text());
    let outage = point.outage.as_ref().expect("it was killed");
    assert!(outage.new_orders_before > 0 && point.new_orders() > 0, "{}", report.text());
    assert!(!point.errors.is_empty(), "clients must have seen it: {}", report.text());
    assert!(report.target.durability.contains("fsync"), "{}", report.target.durability);
}

#[test]
fn millrace_loses_no_acknowledged_order_after_any_number_of_kills() {
    let settings = Settings {
        kill_server: true,
        kills: 4,
        keep: false,
        warm_up: Duration::ZERO,
        length: Duration::from_secs(1),
        placing: TargetServerOptions { memory_mib: Some(1_024), ..TargetServerOptions::default() },
        ..settings()
    };
    let report = run(&settings, &Target::parse("millrace").unwrap(), &mut Silent).expect("a run");
    let kills = report.kills.as_ref().expect("kills");
    assert!(report.passed() && kills.survived == 4 && kills.restart_ms.len() == 4, "{}", report.text());
    assert!(kills.new_orders > 20 && report.points.is_empty(), "{}", report.text());
    // The only failures of clients are lost connections and the server's shutdown.
    assert!(
        kills.errors.iter().all(|error| error.sqlstate.len() != 5 || error.sqlstate == "57P01"),
        "{}",
        report.text()
    );
}

#[test]
fn mariadb_satisfies_all_conditions_interactively_and_with_procedures() {
    let (_dir, server, target) = server(peers::Product::MariaDb, "mysql");
    // MariaDB detects deadlocks; the aborted transactions are retried.
    let asked = Settings { retries: 20, foreign_keys: false, ..settings() };
    let interactive = run(&asked, &target, &mut Silent).expect("a run");
    assert_good(&interactive, "interactive");
    let calls = Settings { mode: Mode::OneTrip, no_load: true, ..asked };
    assert_good(&run(&calls, &target, &mut Silent).expect("a run"), "procedures");
    modes_do_the_same(&connector(Product::MariaDb, &target), &[Mode::Interactive, Mode::OneTrip]);
    let rows = rowload::run(&rowload_settings(), &target, &mut Silent).expect("rows");
    assert!(rows.passed() && rows.rows == 5_003, "{}", rows.text());
    drop(server);
}

fn rowload_settings() -> rowload::Settings {
    rowload::Settings {
        connections: 6,
        rows: 5_003,
        rows_per_insert: 7,
        keep: true,
        seed: 3,
        placing: TargetServerOptions::default(),
        command: Vec::new(),
    }
}

#[test]
fn rows_of_many_connections_are_all_stored_and_a_missing_one_is_found() {
    let (_dir, server, target) = server(peers::Product::Postgres, "pg");
    let report = rowload::run(&rowload_settings(), &target, &mut Silent).expect("rows");
    assert!(report.passed() && report.errors.is_empty(), "{}", report.text());
    assert_eq!((report.rows, report.found), (5_003, 5_003));
    assert!(report.rows_per_s > 0.0 && report.latency_ms.p99 > 0.0);
    let mut admin = Admin::connect(&connector(Product::Postgres, &target), true).unwrap();
    let widths = admin.query("SELECT min(length(payload)), max(length(payload)) FROM rowload").unwrap();
    assert_eq!(widths, [[Some("180".to_owned()), Some("180".to_owned())]]);
    drop(server);
}

#[test]
fn unsupported_options_are_refused_with_the_reason() {
    let refused = |settings: Settings, target: &str| {
        run(&settings, &Target::parse(target).unwrap(), &mut Silent).expect_err("refused").message
    };
    let pipelined = refused(Settings { mode: Mode::Pipelined, ..settings() }, "mariadb");
    assert!(pipelined.contains("behind one that failed, COMMIT among them"), "{pipelined}");
    assert!(refused(settings(), "questdb").contains("millrace, postgres or mariadb"));
    assert!(refused(settings(), "postgres").contains("--keep"), "a private server goes with its tables");
    let kill = refused(Settings { kill_server: true, ..settings() }, "postgres://127.0.0.1:1");
    assert!(kill.contains("private"), "{kill}");
}

#[test]
fn rows_are_generated_faster_than_any_server_accepts_them() {
    let population = Population { seed: 1, loaded_at: "2026-11-21 12:00:00".to_owned() };
    let before = proc::thread_cpu_s();
    let rows: u64 =
        population::units(1).into_iter().flat_map(|unit| population.rows(unit)).map(|rows| rows.count).sum();
    let rate = rows as f64 / (proc::thread_cpu_s() - before);
    // Tests are built with little optimisation.
    assert!(rate > 100_000.0, "{rate} rows a second of CPU");
}

#[test]
fn equal_seeds_give_equal_transactions() {
    let deal = |seed| {
        let (mut random, mut dealer) = (Random::new(seed, 1, 2), Dealer::new(Draw::Weighted, [45, 43, 4, 4, 4]));
        let inputs = Inputs { warehouses: 3, constants: Constants::of_run(seed) };
        let terminal = Terminal { warehouse: 2, district: 1 };
        (0..100).map(|_| inputs.make(dealer.next(&mut random), terminal, &mut random)).collect::<Vec<Input>>()
    };
    assert_eq!(deal(5), deal(5));
    assert_ne!(deal(5), deal(6));
}
