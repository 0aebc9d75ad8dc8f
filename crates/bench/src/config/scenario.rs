//! Documented workloads as settings. The figures of the default run are only here.

use super::{Config, Source};
use crate::error::Result;

/// The documented write workload of IoT-benchmark (Table 1-4 of its manual): 100 clients and
/// devices, 300 sensors of six types in equal shares, one row per second and per request, starting
/// on 30 October 2022.
const TABLE_1_4: &[(&str, &str)] = &[
    ("SCHEMA_CLIENT_NUMBER", "100"),
    ("DATA_CLIENT_NUMBER", "100"),
    ("GROUP_NUMBER", "20"),
    ("DEVICE_NUMBER", "100"),
    ("SENSOR_NUMBER", "300"),
    ("INSERT_DATATYPE_PROPORTION", "1:1:1:1:1:1:0:0:0:0:0"),
    ("POINT_STEP", "1000"),
    ("OP_MIN_INTERVAL", "0"),
    ("IS_OUT_OF_ORDER", "false"),
    ("OUT_OF_ORDER_RATIO", "0.3"),
    ("BATCH_SIZE_PER_WRITE", "1"),
    ("START_TIME", "2022-10-30T00:00:00+08:00"),
    ("LOOP", "86400"),
    ("OPERATION_PROPORTION", "1:0:0:0:0:0:0:0:0:0:0:0:0"),
];

/// The documented query workload (Table 1-5): two devices, two sensors, windows of 250 s.
const TABLE_1_5: &[(&str, &str)] = &[
    ("QUERY_DEVICE_NUM", "2"),
    ("QUERY_SENSOR_NUM", "2"),
    ("QUERY_AGGREGATE_FUN", "count"),
    ("STEP_SIZE", "1"),
    ("QUERY_INTERVAL", "250000"),
    ("QUERY_LOWER_VALUE", "-5"),
    ("GROUP_BY_TIME_UNIT", "20000"),
];

/// Additions of the default run: a time limit for writing, and queries after it.
const DEFAULT_RUN: &[(&str, &str)] = &[("RUN_SECONDS", "60"), ("QUERY_COUNT", "200")];

impl Config {
    /// The full workload of Table 1-4: 2.592 billion points.
    ///
    /// # Errors
    /// Only if a key in the lists above is misspelt, which a test excludes.
    pub fn iot_table_1_4() -> Result<Config> {
        let mut config = Config::default();
        config.apply(TABLE_1_4)?;
        config.apply(TABLE_1_5)?;
        Ok(config)
    }

    /// The default run of `millrace bench iot`: the workload of Table 1-4 with 60 s of writing,
    /// then 200 queries of each kind.
    ///
    /// # Errors
    /// As [`Config::iot_table_1_4`].
    pub fn iot_default_run() -> Result<Config> {
        let mut config = Self::iot_table_1_4()?;
        config.apply(DEFAULT_RUN)?;
        Ok(config)
    }

    /// Sets defaults: the keys then count as not set by the user.
    pub(super) fn apply(&mut self, settings: &[(&str, &str)]) -> Result {
        for (key, value) in settings {
            self.set(key, value, Source::CommandLine)?;
        }
        self.sources.clear();
        Ok(())
    }
}
