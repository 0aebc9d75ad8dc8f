//! Documented workloads, as settings of keys. The numbers of the default run are here and nowhere else.

use super::{Config, Source};
use crate::error::Result;

/// IoT-benchmark's documented example of a write workload (Table 1-4 of its manual): 100 clients and devices, 300
/// sensors of six types in equal shares, one row a second and a request, on 30 October 2022.
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

/// Its documented example of queries (Table 1-5): two devices, two sensors, windows of 250 s.
const TABLE_1_5: &[(&str, &str)] = &[
    ("QUERY_DEVICE_NUM", "2"),
    ("QUERY_SENSOR_NUM", "2"),
    ("QUERY_AGGREGATE_FUN", "count"),
    ("STEP_SIZE", "1"),
    ("QUERY_INTERVAL", "250000"),
    ("QUERY_LOWER_VALUE", "-5"),
    ("GROUP_BY_TIME_UNIT", "20000"),
];

/// What a run without arguments adds: an end of the writes, and the queries after it.
const DEFAULT_RUN: &[(&str, &str)] = &[("RUN_SECONDS", "60"), ("QUERY_COUNT", "200")];

impl Config {
    /// The shape of Table 1-4 in full: 2.592 billion points.
    ///
    /// # Errors
    /// Never, unless a key of the list above is misspelt; a test sees to that.
    pub fn iot_table_1_4() -> Result<Config> {
        let mut config = Config::default();
        config.apply(TABLE_1_4)?;
        config.apply(TABLE_1_5)?;
        Ok(config)
    }

    /// The run of `millrace bench iot` without arguments: the shape of Table 1-4 for 60 s of writing, then each query
    /// kind 200 times.
    ///
    /// # Errors
    /// As [`Config::iot_table_1_4`].
    pub fn iot_default_run() -> Result<Config> {
        let mut config = Self::iot_table_1_4()?;
        config.apply(DEFAULT_RUN)?;
        Ok(config)
    }

    /// Sets keys as defaults: nobody is recorded as having set them.
    pub(super) fn apply(&mut self, settings: &[(&str, &str)]) -> Result {
        for (key, value) in settings {
            self.set(key, value, Source::CommandLine)?;
        }
        self.given.clear();
        Ok(())
    }
}
