//! TPC-C's transactions, data and checks against Millrace, PostgreSQL and MariaDB; the loading of
//! small rows over many connections (`rowload`); and cold starts on such rows (`coldstart`). These
//! are not audited TPC results, and all output says so.
//!
//! A run: a server (`run::target_server`) is found or started; the tables are created and filled
//! ([`load`]); the twelve consistency conditions are checked ([`check`]); clients ([`clients`])
//! execute transactions ([`transactions`]), in one run for each number of clients; and everything
//! is checked again, with a ledger of acknowledged transactions ([`ledger`]).
//!
//! Always true:
//! - A run whose check failed has no throughput: [`report`] leaves it out.
//! - A failed transaction is counted by its SQLSTATE. Retries happen only on request, and are
//!   counted.
//! - An acknowledged order is in the ledger, and its row is read back afterwards.

mod check;
mod clients;
pub(crate) mod coldstart;
mod functions;
mod input;
pub(crate) mod kills;
mod ledger;
mod load;
mod population;
mod random;
pub(crate) mod report;
pub(crate) mod rowload;
mod schema;
mod session;
mod statements;
#[cfg(test)]
mod tests;
mod transactions;

use std::time::{Duration, Instant};

use crate::drivers::Target;
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
use check::{ExpectedState, Verdict};
pub(crate) use input::Draw;
use ledger::Ledger;
use population::Population;
use report::{Between, Report, Subject};
use session::{Admin, Connector};

/// Database product that holds the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Millrace,
    Postgres,
    MariaDb,
}

impl Product {
    /// Returns the product of a target.
    fn of(target: &Target) -> Result<Product> {
        match target.name.as_str() {
            "millrace" => Ok(Product::Millrace),
            "postgres" => Ok(Product::Postgres),
            "mariadb" | "mysql" => Ok(Product::MariaDb),
            other => Err(Error::setup(format!(
                "--target {other}: not supported for transactions; expected millrace, postgres or mariadb"
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Product::Millrace => "Millrace",
            Product::Postgres => "PostgreSQL",
            Product::MariaDb => "MariaDB",
        }
    }

    /// Settings that a private server needs for this number of connections; the user's settings
    /// take precedence.
    fn settings_for(self, connections: usize) -> Vec<(String, String)> {
        let some = (connections + 40).max(300).to_string();
        let pairs = match self {
            // The default limit is 1,000.
            Product::Millrace if connections + 40 <= 1_000 => vec![],
            Product::Millrace => vec![("max-connections", some)],
            Product::Postgres => vec![("max_connections", some)],
            Product::MariaDb => {
                // The default log of 96 MiB would flush continuously, like PostgreSQL's default of
                // 1 GiB.
                let log = ("innodb-log-file-size", "1G".to_owned());
                vec![("max-connections", some), ("max-prepared-stmt-count", "1048576".to_owned()), log]
            }
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Isolation level of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Isolation {
    /// The default of PostgreSQL and of most TPC-C kits.
    ReadCommitted,
    /// Snapshot isolation; on PostgreSQL, write conflicts abort.
    RepeatableRead,
    /// Equivalent to some serial order.
    Serializable,
}

impl Isolation {
    fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// Protocol use of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// One round trip for each statement, as in the common kits: 28 for an order of ten lines.
    Interactive,
    /// Statements that do not depend on each other's answers are sent together: 2 round trips for
    /// an order.
    Pipelined,
    /// One round trip: a function (PostgreSQL), a procedure (MariaDB), or several statements as one
    /// text (Millrace).
    OneTrip,
    /// One round trip: several statements as one text.
    OneTripText,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) warehouses: i32,
    /// Numbers of clients; one run for each.
    pub(crate) clients: Vec<usize>,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
    pub(crate) mix: [u32; 5],
    pub(crate) draw: Draw,
    /// Whether keying and think times follow the standard.
    pub(crate) thinks: bool,
    pub(crate) mode: Mode,
    pub(crate) isolation: Isolation,
    pub(crate) foreign_keys: bool,
    pub(crate) retries: u32,
    /// Keep the tables at the end.
    pub(crate) keep: bool,
    /// Use existing tables.
    pub(crate) no_load: bool,
    /// Only check existing tables.
    pub(crate) check_only: bool,
    pub(crate) kill_server: bool,
    /// Check everything after each run, not only after the last one.
    pub(crate) check_each: bool,
    pub(crate) load_connections: usize,
    pub(crate) seed: u64,
    pub(crate) placing: TargetServerOptions,
    pub(crate) command: Vec<String>,
    /// Number of kills of the server, each in a run of its own; 1 means one kill in the run of each
    /// number of clients.
    pub(crate) kills: u32,
    /// Number of the run with a kill, from 1; 0 for other runs.
    pub(crate) cycle: u32,
}

/// Timeout of one answer of a transaction.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs everything on one target.
///
/// # Errors
/// The run could not start or continue. Failed transactions and failed checks are not errors: they
/// are in the report.
pub(crate) fn run(settings: &Settings, target: &Target, show: &mut dyn Show) -> Result<Report> {
    let product = Product::of(target)?;
    target.only(&[])?;
    settings.check_product(product, target)?;
    show.stage(&format!("{}: starting", product.name()));
    let connections = settings.clients.iter().copied().max().unwrap_or(1) + settings.load_connections;
    let mut target_server = TargetServer::open(target, &server_options(product, &settings.placing, connections), 0)?;
    let connector = Connector {
        product,
        target: target_server.target.clone(),
        isolation: settings.isolation,
        timeout: if settings.kill_server { ANSWER_TIMEOUT.min(Duration::from_secs(30)) } else { ANSWER_TIMEOUT },
    };
    let mut report = Report::new(settings, subject(&connector, &target_server)?);
    let run = measure(settings, &connector, &mut target_server, &mut report, show);
    let swept = if settings.leaves_tables() || target_server.server.is_some() { Ok(()) } else { sweep(&connector) };
    run.and(swept)?;
    Ok(report)
}

impl Settings {
    /// Checks that a product can do what the settings ask.
    fn check_product(&self, product: Product, target: &Target) -> Result<()> {
        let refuse = |what: &str| Err(Error::unsupported(format!("{}: {what}", product.name())));
        match (product, self.mode) {
            (Product::MariaDb, Mode::Pipelined) => {
                return refuse(
                    "--mode pipelined: its protocol runs the statements behind one that failed, COMMIT among them, so a \
                     transaction cannot be sent ahead; use --mode one-trip",
                );
            }
            (Product::MariaDb, Mode::OneTripText) => {
                return refuse("--mode one-trip-text: as --mode pipelined; use --mode one-trip (procedures)");
            }
            _ => {}
        }
        let there = self.no_load || self.check_only;
        if target.is_private() && (there || self.keep) {
            return Err(Error::setup(
                "--no-load, --check-only and --keep are for a server that is there: --target NAME://HOST:PORT",
            ));
        }
        if self.kill_server && !target.is_private() {
            return Err(Error::setup(
                "--kill-server: only a private server can be killed; give --target only a product's name",
            ));
        }
        Ok(())
    }

    /// Returns whether the tables must exist after the run.
    fn leaves_tables(&self) -> bool {
        self.keep || self.no_load || self.check_only
    }
}

/// Adds the product's settings for this number of connections; the user's settings take precedence.
fn server_options(product: Product, placing: &TargetServerOptions, connections: usize) -> TargetServerOptions {
    let mut placing = placing.clone();
    let mut settings = product.settings_for(connections);
    settings.append(&mut placing.settings);
    placing.settings = settings;
    if product == Product::MariaDb && placing.memory_mib.is_none() {
        // Equal to PostgreSQL's shared buffers.
        placing.memory_mib = proc::host_memory().and_then(|(bytes, _)| u32::try_from(bytes >> 22).ok());
    }
    placing
}

fn subject(connector: &Connector, target_server: &TargetServer) -> Result<Subject> {
    let mut admin = Admin::connect(connector, false)?;
    let version = admin.version()?;
    let durability = match &target_server.server {
        Some(server) => format!("{} ({})", server.durability(), server.durability_reason()),
        None => durability_of(&mut admin, connector.product)?,
    };
    Ok(Subject {
        name: connector.target.name.clone(),
        url: connector.target.display_url(),
        product: connector.product.name().to_owned(),
        version,
        durability,
        server_settings: target_server.server.as_ref().map_or_else(Vec::new, |server| server.settings().to_vec()),
    })
}

/// Describes the commit durability of a server that this tool did not start, from its settings.
fn durability_of(admin: &mut Admin, product: Product) -> Result<String> {
    let names: &[&str] = match product {
        Product::Postgres => &["synchronous_commit", "fsync", "full_page_writes"],
        Product::Millrace => &["synchronous_commit"],
        Product::MariaDb => &["@@innodb_flush_log_at_trx_commit", "@@sync_binlog", "@@log_bin"],
    };
    let word = if product == Product::MariaDb { "SELECT" } else { "SHOW" };
    let mut texts = Vec::new();
    for name in names {
        let rows = admin.query(&format!("{word} {name}"))?;
        let value = rows.into_iter().flatten().flatten().next().unwrap_or_default();
        texts.push(format!("{}={value}", name.trim_start_matches('@')));
    }
    Ok(format!("as the server is set: {}", texts.join(", ")))
}

/// Drops the tables.
fn sweep(connector: &Connector) -> Result<()> {
    let drop = schema::clear(connector.product).into_iter().take(1).collect::<Vec<_>>();
    Admin::connect(connector, false)?.run(&drop)
}

/// Loads, checks, runs the clients, and checks again.
fn measure(
    settings: &Settings,
    connector: &Connector,
    target_server: &mut TargetServer,
    report: &mut Report,
    show: &mut dyn Show,
) -> Result<()> {
    if settings.no_load || settings.check_only {
        report.warehouses = warehouses_there(connector)?;
    } else {
        let loaded_at = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let population = Population { seed: settings.seed, loaded_at };
        let loading = load::Loading {
            connector,
            population: &population,
            warehouses: settings.warehouses,
            foreign_keys: settings.foreign_keys,
            connections: settings.load_connections,
        };
        report.loaded = Some(loading.run(show)?);
    }
    if settings.mode == Mode::OneTrip && !settings.check_only {
        Admin::connect(connector, true)?.run(&functions::definitions(connector.product))?;
    }
    let expect = if report.loaded.is_some() { ExpectedState::Initial } else { ExpectedState::Consistent };
    report.before = check_all(connector, &expect, show, "before the run")?;
    if settings.check_only || !report.before.passed() || INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(());
    }
    if settings.kill_server && settings.kills > 1 {
        return kills::run(settings, connector, target_server, report, show);
    }
    let ledger = Ledger::begin(&mut Admin::connect(connector, true)?, report.warehouses)?;
    for (number, clients) in (1..).zip(&settings.clients) {
        let group = clients::ClientGroup {
            settings,
            connector,
            ledger: &ledger,
            clients: *clients,
            warehouses: report.warehouses,
        };
        let point = group.run(target_server, show)?;
        report.points.push(point);
        if INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
            report.notes.push("stopped by Ctrl-C; the results until then are checked and shown".to_owned());
            break;
        }
        if settings.check_each && number < settings.clients.len() {
            let verdict =
                check_all(connector, &ExpectedState::Ledger(&ledger), show, &format!("after {clients} clients"))?;
            let passed = verdict.passed();
            report.between.push(Between { clients: *clients, verdict });
            if !passed {
                return Ok(());
            }
        }
    }
    report.after = Some(check_all(connector, &ExpectedState::Ledger(&ledger), show, "after the run")?);
    Ok(())
}

fn check_all(connector: &Connector, expect: &ExpectedState<'_>, show: &mut dyn Show, when: &str) -> Result<Verdict> {
    show.stage(&format!("{}: checking the twelve conditions {when}", connector.product.name()));
    let began = Instant::now();
    let mut verdict = check::check(connector, expect)?;
    verdict.seconds = began.elapsed().as_secs_f64();
    Ok(verdict)
}

fn warehouses_there(connector: &Connector) -> Result<i32> {
    let rows = Admin::connect(connector, true)?.query("SELECT count(*) FROM warehouse")?;
    let count = rows.into_iter().flatten().flatten().next().and_then(|text| text.parse().ok()).unwrap_or(0);
    if count == 0 {
        return Err(Error::setup(format!(
            "there are no warehouses in {}: load them first, with --keep",
            schema::SCHEMA
        )));
    }
    Ok(count)
}
