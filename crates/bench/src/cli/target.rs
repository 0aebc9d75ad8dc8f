//! Targets of IoT-benchmark configurations: `DB_SWITCH`, `HOST` and `PORT`.

use crate::config::{Config, DbSwitch, InsertMode, Product};
use crate::drivers::Target;
use crate::error::{Error, Result};

/// Products of `DB_SWITCH` that have a driver, with the driver's name in `--target`.
const PRODUCTS: &[(Product, &str)] = &[
    (Product::IoTDB, "iotdb"),
    (Product::InfluxDB, "influxdb"),
    (Product::InfluxDB2, "influxdb2"),
    (Product::OpenTSDB, "opentsdb"),
    (Product::KairosDB, "kairosdb"),
    (Product::TimescaleDB, "timescaledb"),
    (Product::FakeDB, "null"),
    (Product::TDengine3, "tdengine"),
    (Product::QuestDB, "questdb"),
    (Product::VictoriaMetrics, "victoriametrics"),
    (Product::Millrace, "millrace"),
    (Product::PostgreSQL, "postgresql"),
];

/// Returns `config` checked for a run on `target`, with its warnings. Replaces `DB_SWITCH` by the
/// measured product, so that its checks apply and result stores are labelled with it.
///
/// # Errors
/// Contradictions between keys.
/// Contradictions between keys.
pub(super) fn config_for(config: &Config, target: &Target) -> Result<(Config, Vec<String>)> {
    let mut config = config.clone();
    let product = PRODUCTS.iter().find(|(_, name)| *name == target.name).map(|(product, _)| *product);
    if let Some(product) = product.filter(|product| *product != config.db_switch.product) {
        config.db_switch = DbSwitch::of(product);
    }
    let warnings = config.check()?;
    Ok((config, warnings))
}

/// The target of `DB_SWITCH`.
///
/// # Errors
/// There is no driver for the product.
pub(super) fn of_config(config: &Config) -> Result<Target> {
    let switch = &config.db_switch;
    let Some((_, name)) = PRODUCTS.iter().find(|(product, _)| *product == switch.product) else {
        return Err(Error::setup(format!(
            "DB_SWITCH={}: there is no driver for it; name another target with --target (millrace bench list-targets)",
            switch.text
        )));
    };
    let mut target = Target { name: (*name).to_owned(), ..Target::default() };
    if *name == "null" {
        return Ok(target);
    }
    target.hosts = config.host.iter().zip(&config.port).map(|(host, port)| format!("{host}:{port}")).collect();
    target.user = Some(config.username.clone());
    target.password = Some(config.password.clone());
    if switch.product == Product::InfluxDB2 {
        target.password = Some(config.token.clone());
    }
    let write = match switch.mode {
        Some(InsertMode::SessionByRecord) => Some("record"),
        Some(InsertMode::SessionByRecords) => Some("records"),
        _ => None,
    };
    if let Some(write) = write {
        target.options.insert("write".to_owned(), write.to_owned());
    }
    Ok(target)
}

/// The second database of a double write, with its configuration.
///
/// # Errors
/// There is no driver for it, or it is the same database as the first.
pub(super) fn second(config: &Config, first: &Target) -> Result<(Target, Config)> {
    let mut second = config.clone();
    second.db_switch = config.another_db_switch.clone();
    second.host = config.another_host.clone();
    second.port = config.another_port.clone();
    second.username = config.another_username.clone();
    second.password = config.another_password.clone();
    second.db_name = config.another_db_name.clone();
    second.token = config.another_token.clone();
    let target = of_config(&second)?;
    if !target.hosts.is_empty() && target.hosts == first.hosts && second.db_name == config.db_name {
        return Err(Error::setup(format!(
            "IS_DOUBLE_WRITE=true: ANOTHER_HOST, ANOTHER_PORT and ANOTHER_DB_NAME are the first database \
             ({}, {}): expected a different one",
            target.display_url(),
            second.db_name
        )));
    }
    Ok((target, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[&str]) -> Config {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Config::load(None, &settings).unwrap()
    }

    #[test]
    fn configuration_is_checked_for_the_measured_target() {
        let asked = config(&["DEVICE_NUM_PER_WRITE=2", "DATA_CLIENT_NUMBER=10"]);
        let (config, _) = config_for(&asked, &Target::parse("questdb").unwrap()).unwrap();
        assert_eq!(config.db_switch.text, "QuestDB");
        let error = config_for(&asked, &Target::parse("iotdb").unwrap()).unwrap_err();
        assert!(error.message.contains("SESSION_BY_RECORDS only"), "{error}");
    }

    #[test]
    fn insert_mode_of_the_measured_product_is_kept() {
        let asked = config(&["DB_SWITCH=IoTDB-130-SESSION_BY_RECORD"]);
        let (config, _) = config_for(&asked, &Target::parse("iotdb").unwrap()).unwrap();
        assert_eq!(config.db_switch.text, "IoTDB-130-SESSION_BY_RECORD");
        assert_eq!(of_config(&config).unwrap().options["write"], "record");
    }

    #[test]
    fn second_database_of_a_double_write_has_its_own_target_and_settings() {
        let first = config(&["DB_SWITCH=IoTDB-130-SESSION_BY_TABLET", "ANOTHER_DB_SWITCH=TimescaleDB"]);
        let here = of_config(&first).unwrap();
        assert!(second(&first, &here).unwrap_err().message.contains("are the first database"));
        let both = config(&[
            "ANOTHER_DB_SWITCH=TimescaleDB",
            "ANOTHER_HOST=a,b",
            "ANOTHER_PORT=5432,5433",
            "ANOTHER_USERNAME=me",
            "ANOTHER_DB_NAME=other",
            "LOOP=7",
        ]);
        let (target, config) = second(&both, &here).unwrap();
        assert_eq!((target.name.as_str(), target.hosts.join(" ")), ("timescaledb", "a:5432 b:5433".to_owned()));
        assert_eq!((target.user.as_deref(), config.db_name.as_str(), config.loop_), (Some("me"), "other", 7));
        assert_eq!(config.db_switch.product, Product::TimescaleDB);
    }

    #[test]
    fn a_product_without_driver_is_refused_by_name() {
        let error = of_config(&config(&["DB_SWITCH=PIArchive"])).unwrap_err();
        assert!(error.message.contains("DB_SWITCH=PIArchive: there is no driver"), "{error}");
    }
}
