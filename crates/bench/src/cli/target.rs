//! The target that an IoT-benchmark configuration names by `DB_SWITCH`, `HOST` and `PORT`.

use crate::config::{Config, InsertMode, Product};
use crate::drivers::Target;
use crate::error::{Error, Result};

/// That target.
///
/// # Errors
/// There is no driver for the product.
pub(super) fn of_config(config: &Config) -> Result<Target> {
    let switch = &config.db_switch;
    let name = match switch.product {
        Product::IoTDB => "iotdb",
        Product::InfluxDB => "influxdb",
        Product::InfluxDB2 => "influxdb2",
        Product::OpenTSDB => "opentsdb",
        Product::KairosDB => "kairosdb",
        Product::TimescaleDB => "timescaledb",
        Product::FakeDB => "null",
        Product::TDengine3 => "tdengine",
        Product::QuestDB => "questdb",
        Product::VictoriaMetrics => "victoriametrics",
        Product::Millrace => "millrace",
        Product::PostgreSQL => "postgresql",
        _ => {
            return Err(Error::setup(format!(
                "DB_SWITCH={}: there is no driver for it; name another target with --target (millrace bench list-targets)",
                switch.text
            )));
        }
    };
    let mut target = Target { name: name.to_owned(), ..Target::default() };
    if name == "null" {
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
