//! Checks across keys. Contradictions are corrected as in IoT-benchmark, reported as warnings, or
//! refused.

use super::value::{Dialect, GroupStrategy, InsertMode, OutOfOrderMode, Product, Value, WorkMode};
use super::{Config, KEYS, Key};
use crate::error::{Error, Result};
use crate::java_random::string_hash;

/// Positions in `OPERATION_PROPORTION` of the queries with a value filter, which need numeric
/// sensors: Q3, Q5, Q6, Q10.
const VALUE_FILTER_QUERIES: [usize; 4] = [3, 5, 6, 10];
/// Position of the set operation query Q12.
const SET_QUERY: usize = 12;
/// Whether each of the 11 types is numeric: BOOLEAN, TEXT, STRING, BLOB and OBJECT are not.
const IS_NUMERIC: [bool; 11] = [false, true, true, true, true, false, false, false, true, true, false];

/// Keys that are accepted but have no effect, with the reason. A run that changes one is warned.
pub(super) const WITHOUT_EFFECT: &[(&[&str], &str)] = &[
    (&["KAFKA_LOCATION", "ZOOKEEPER_LOCATION", "TOPIC_NAME"], "nor in IoT-benchmark"),
    (&["REST_AUTHORIZATION", "REST_PORT"], "only IoTDB's native RPC is supported"),
    (
        &["TRUST_STORE_PATH", "TRUST_STORE_PWD", "KEY_STORE_PATH", "KEY_STORE_PWD", "SSL_PROTOCOL"],
        "TLS to IoTDB is not supported",
    ),
    (&["ENABLE_AUTO_FETCH"], "every client connects to the hosts listed in HOST"),
    (&["ENABLE_IOTDB_RPC_COMPRESSION"], "tablets are sent uncompressed"),
    (&["IOTDB_SESSION_POOL_SIZE", "HTTP_CLIENT_POOL_SIZE"], "every client has a connection of its own"),
    (&["TEMPLATE_NAME", "IOTDB_USE_DEBUG_RATIO"], "its feature is not supported"),
    (
        &["COMPRESSION", "TIMESCALEDB_REPLICATION_FACTOR", "CNOSDB_SHARD_NUMBER", "DOLPHINDB_DEVICE_HASH_BUCKETS"],
        "there is no driver for its product",
    ),
    (&["USE_MEASUREMENT"], "every run is measured"),
    (&["RESULT_PRECISION"], "latencies are recorded with three digits, 0.1 %"),
    (&["OBJECT_QUERY_FULL_CONTENT"], "OBJECT values are BLOBs here, always read whole"),
    (&["TEST_DATA_MAX_CONNECTION"], "one connection writes many records per request"),
    (&["IS_QUIET_MODE"], "TEST_DATA_PERSISTENCE records every operation"),
    (&["RESULT_PRINT_INTERVAL"], "progress is shown continuously, results at the end"),
];

/// Reason why the key `name` has no effect; `None` if it has one.
pub(super) fn without_effect(name: &str) -> Option<&'static str> {
    WITHOUT_EFFECT.iter().find(|(keys, _)| keys.contains(&name)).map(|(_, reason)| *reason)
}

/// Accumulates the findings of [`Config::check`].
struct Findings<'a> {
    config: &'a Config,
    fatal: Vec<String>,
    warnings: Vec<String>,
}

impl Config {
    /// Corrects what IoT-benchmark corrects, and returns all warnings, those from loading first.
    ///
    /// Requires that `db_switch` names the product that is measured.
    ///
    /// # Errors
    /// All contradictions that prevent a run, one per line.
    pub fn check(&mut self) -> Result<Vec<String>> {
        let mut warnings = self.normalise();
        let mut findings = Findings { config: self, fatal: Vec::new(), warnings: Vec::new() };
        findings.modes();
        findings.settings_without_effect();
        findings.connections();
        findings.clients_and_devices();
        findings.groups_and_tables();
        findings.sensors();
        findings.operations();
        findings.queries();
        findings.order_of_time();
        findings.measurement();
        let Findings { fatal, warnings: found, .. } = findings;
        if !fatal.is_empty() {
            return Err(Error::setup(fatal.join("\n")));
        }
        warnings.extend(found);
        Ok(warnings)
    }

    /// The share of writes, 0 ..= 1.
    pub fn write_share(&self) -> f64 {
        self.operation_proportion[0] / self.operation_proportion.iter().sum::<f64>()
    }

    /// Whether the run writes data, according to its mode and proportion.
    pub fn writes(&self) -> bool {
        match self.benchmark_work_mode {
            WorkMode::GenerateData | WorkMode::VerificationWrite => true,
            WorkMode::VerificationQuery => false,
            _ => self.runs_proportion() && self.operation_proportion[0] > 0.0,
        }
    }

    /// Whether the run executes `OPERATION_PROPORTION` and the query keys; other modes execute one
    /// fixed operation.
    pub fn runs_proportion(&self) -> bool {
        self.benchmark_work_mode == WorkMode::TestWithDefaultPath && !self.is_point_comparison
    }

    /// Whether the data comes from files.
    pub fn reads_files(&self) -> bool {
        matches!(self.benchmark_work_mode, WorkMode::VerificationWrite | WorkMode::VerificationQuery)
    }

    /// Number of this tool's first device: members of a distributed run own different devices.
    pub fn first_device(&self) -> u64 {
        if self.benchmark_cluster { self.benchmark_index * self.device_number } else { 0 }
    }

    fn normalise(&mut self) -> Vec<String> {
        let mut warnings = self.notes.clone();
        if !self.runs_proportion() {
            let given = |key: &str| self.sources.contains_key(key);
            let given = [("RUN_SECONDS", given("RUN_SECONDS")), ("QUERY_COUNT", given("QUERY_COUNT"))];
            let ends = [std::mem::take(&mut self.run_seconds) > 0.0, std::mem::take(&mut self.query_count) > 0];
            for ((key, _), _) in given.into_iter().zip(ends).filter(|((_, given), set)| *given && *set) {
                warnings.push(format!("{key} has no effect: the run ends with its data"));
            }
        }
        if !self.writes() {
            let forced = [
                ("IS_DELETE_DATA", &mut self.is_delete_data),
                ("CREATE_SCHEMA", &mut self.create_schema),
                ("IS_RECENT_QUERY", &mut self.is_recent_query),
            ];
            for (key, flag) in forced {
                if std::mem::take(flag) && self.sources.contains_key(key) {
                    warnings.push(format!("{key}=true has no effect in a run without writes"));
                }
            }
        }
        if !self.uses_tables() {
            self.iotdb_table_number = self.group_number;
        }
        warnings
    }

    /// Whether devices are assigned to tables: only in IoTDB's table dialect.
    pub fn uses_tables(&self) -> bool {
        self.db_switch.product == Product::IoTDB && self.iotdb_dialect_mode == Dialect::Table
    }

    /// Table of device `id`; in the tree dialect, its group.
    pub fn table_of_device(&self, id: u64) -> u64 {
        self.deal(id, self.device_number, self.iotdb_table_number)
    }

    /// Group of table `id`.
    pub fn group_of_table(&self, id: u64) -> u64 {
        self.deal(id, self.iotdb_table_number, self.group_number)
    }

    /// Assigns item `id` of `total` to one of `n` places by `SG_STRATEGY`.
    fn deal(&self, id: u64, total: u64, n: u64) -> u64 {
        match self.sg_strategy {
            GroupStrategy::Mod => id % n,
            GroupStrategy::Hash => u64::from(string_hash(&id.to_string()).unsigned_abs()) % n,
            GroupStrategy::Div => id / (total / n).max(1) % n,
        }
    }

    /// Number of devices of each client; the first clients have one more.
    pub fn devices_per_client(&self) -> impl Iterator<Item = u64> {
        let (devices, clients) = (self.device_number, self.data_client_number);
        (0..clients).map(move |client| devices / clients + u64::from(client < devices % clients))
    }

    /// Number of sensors with a numeric type.
    fn numeric_sensors(&self) -> u64 {
        let total: f64 = self.insert_datatype_proportion.iter().sum();
        let (mut upper, mut below, mut numeric) = (0.0, 0_u64, 0_u64);
        for (share, is_numeric) in self.insert_datatype_proportion.iter().zip(IS_NUMERIC) {
            upper += share / total;
            // The epsilon keeps rounding from dropping the last sensor of the last type.
            let up_to = ((upper * self.sensor_number as f64 + 1e-9).floor() as u64).min(self.sensor_number);
            numeric += if is_numeric { up_to.saturating_sub(below) } else { 0 };
            below = up_to;
        }
        numeric
    }
}

impl Findings<'_> {
    /// `KEY=VALUE (source)`, for messages.
    fn with_source(&self, key: &str) -> String {
        let value = self.config.display_value(key).unwrap_or_default();
        match self.config.source_of(key) {
            Some(source) => format!("{key}={value} ({source})"),
            None => format!("{key}={value} (default)"),
        }
    }

    fn refuse(&mut self, keys: &[&str], reason: impl std::fmt::Display) {
        let settings = keys.iter().map(|key| self.with_source(key)).collect::<Vec<_>>().join(", ");
        self.fatal.push(format!("{settings}: {reason}"));
    }

    fn warn(&mut self, keys: &[&str], consequence: impl std::fmt::Display) {
        let settings = keys.iter().map(|key| self.with_source(key)).collect::<Vec<_>>().join(", ");
        self.warnings.push(format!("{settings}: {consequence}"));
    }

    fn modes(&mut self) {
        let c = self.config;
        const MODE: &str = "BENCHMARK_WORK_MODE";
        if c.benchmark_work_mode == WorkMode::Server {
            self.refuse(&[MODE], "use `millrace bench monitor`");
        }
        if c.is_point_comparison && c.benchmark_work_mode != WorkMode::TestWithDefaultPath {
            self.refuse(&["IS_POINT_COMPARISON", MODE], "expected testWithDefaultPath: one mode at a time");
        }
        let compares = [
            ("IS_COMPARISON", c.is_comparison),
            ("IS_POINT_COMPARISON", c.is_point_comparison),
            (MODE, c.benchmark_work_mode == WorkMode::VerificationQuery),
        ];
        for (key, _) in compares.iter().filter(|(_, on)| *on && !c.verify) {
            self.refuse(&[key, "VERIFY"], "nothing would be compared");
        }
        for (key, _) in compares[..2].iter().filter(|(_, on)| *on) {
            self.warn(
                &[key],
                "every answer of each database is compared with the expected one, not with the other database's",
            );
        }
        if c.is_double_write {
            self.warn(
                &["IS_DOUBLE_WRITE"],
                "both databases are written one after the other and measured separately: otherwise each would wait \
                 for the other",
            );
        }
        self.files();
    }

    /// Checks the modes that use files, and copy mode.
    fn files(&mut self) {
        let c = self.config;
        let share =
            |types: std::ops::Range<usize>| c.insert_datatype_proportion[types].iter().any(|share| *share > 0.0);
        if c.is_copy_mode && !c.reads_files() {
            self.refuse(
                &["IS_COPY_MODE", "BENCHMARK_WORK_MODE"],
                "copy mode reads files: expected verificationWriteMode or verificationQueryMode",
            );
        }
        if c.is_add_anomaly && !c.is_copy_mode {
            self.refuse(
                &["IS_ADD_ANOMALY", "IS_COPY_MODE"],
                "only copied rows get anomalies: expected IS_COPY_MODE=true",
            );
        }
        if c.is_copy_mode && c.compat {
            self.warn(
                &["IS_COPY_MODE", "COMPAT"],
                "the last row of each pass has the time of the first row of the next pass, and is overwritten by it",
            );
        }
        if c.reads_files() || c.benchmark_work_mode == WorkMode::GenerateData {
            if share(10..11) {
                self.refuse(&["INSERT_DATATYPE_PROPORTION"], "OBJECT values cannot be written to data set files");
            }
            if share(5..8) && c.string_length > crate::schema::GIVEN_TEXT_MAX {
                let reason =
                    format!("texts of more than {} characters are not read back", crate::schema::GIVEN_TEXT_MAX);
                self.warn(&["STRING_LENGTH"], reason);
            }
        }
    }

    fn settings_without_effect(&mut self) {
        let set_to_something_else = |key: &&Key| {
            self.config.source_of(key.name).is_some() && (key.show)(self.config) != (key.show)(&Config::default())
        };
        let set: Vec<&Key> = KEYS.iter().filter(set_to_something_else).collect();
        for key in set {
            if let Some(reason) = without_effect(key.name) {
                self.warn(&[key.name], format!("has no effect: {reason}"));
            }
        }
    }

    fn connections(&mut self) {
        let c = self.config;
        if c.host.len() != c.port.len() || c.host.is_empty() {
            self.refuse(&["HOST", "PORT"], "expected lists of equal length, a port for each host");
        }
        if c.remark.contains(['.', '/', '`', '"']) {
            self.refuse(&["REMARK"], "is used in names of tables and files: expected no dot, slash or quote");
        }
    }

    fn clients_and_devices(&mut self) {
        let c = self.config;
        if c.is_client_bind && c.device_number < c.data_client_number {
            self.refuse(
                &["DEVICE_NUMBER", "DATA_CLIENT_NUMBER", "IS_CLIENT_BIND"],
                "bound clients need a device each: expected at least as many devices as clients",
            );
        }
        if c.tag_number != c.tag_value_cardinality.len() as u64 || c.tag_value_cardinality.contains(&0) {
            self.refuse(
                &["TAG_NUMBER", "TAG_VALUE_CARDINALITY"],
                "expected a number of values, 1 or more, for each tag",
            );
        }
        if c.device_num_per_write > 1 && c.writes() {
            self.devices_per_write();
        }
    }

    fn devices_per_write(&mut self) {
        let c = self.config;
        const KEY: &str = "DEVICE_NUM_PER_WRITE";
        if !c.is_sensor_ts_alignment {
            self.refuse(&[KEY, "IS_SENSOR_TS_ALIGNMENT"], "several devices in a batch need aligned sensors");
        }
        let needed = if c.uses_tables() { InsertMode::SessionByTablet } else { InsertMode::SessionByRecords };
        if c.db_switch.product == Product::IoTDB && c.db_switch.mode != Some(needed) {
            self.refuse(
                &[KEY, "DB_SWITCH", "IoTDB_DIALECT_MODE"],
                format!("IoTDB supports several devices per request with {needed} only"),
            );
        }
        if c.is_client_bind && c.devices_per_client().any(|devices| !devices.is_multiple_of(c.device_num_per_write)) {
            let (most, least) = (c.devices_per_client().max().unwrap_or(0), c.devices_per_client().min().unwrap_or(0));
            self.refuse(&[KEY], format!("does not divide the devices of every client: they own {least} to {most}"));
        }
    }

    fn groups_and_tables(&mut self) {
        let c = self.config;
        if c.group_number > c.device_number {
            self.refuse(&["GROUP_NUMBER", "DEVICE_NUMBER"], "expected no more groups than devices");
        }
        if !c.uses_tables() {
            return;
        }
        if !c.iotdb_table_number.is_multiple_of(c.group_number) {
            self.refuse(&["IoTDB_TABLE_NUMBER", "GROUP_NUMBER"], "expected as many tables in every group");
        }
        if !c.device_number.is_multiple_of(c.iotdb_table_number) {
            self.refuse(&["DEVICE_NUMBER", "IoTDB_TABLE_NUMBER"], "expected as many devices in every table");
        }
        if !c.writes() {
            return;
        }
        if !c.data_client_number.is_multiple_of(c.group_number) {
            self.refuse(&["DATA_CLIENT_NUMBER", "GROUP_NUMBER"], "expected as many clients in every group");
        } else if c.is_client_bind && !self.clients_have_one_group_each() {
            let keys = ["DATA_CLIENT_NUMBER", "GROUP_NUMBER", "DEVICE_NUMBER", "SG_STRATEGY"];
            self.refuse(&keys, "a client would own devices of two groups; a session of the table dialect sees one");
        }
    }

    fn clients_have_one_group_each(&self) -> bool {
        let c = self.config;
        let mut devices_in_group = vec![0_u64; usize::try_from(c.group_number).unwrap_or(usize::MAX)];
        for device in 0..c.device_number {
            devices_in_group[c.group_of_table(c.table_of_device(device)) as usize] += 1;
        }
        // Devices are ordered by group and assigned to clients in consecutive runs; no run may
        // cross a group boundary.
        let mut groups = devices_in_group.into_iter().filter(|&devices| devices > 0);
        let mut left = 0;
        c.devices_per_client().all(|devices| {
            if left == 0 {
                left = groups.next().unwrap_or(0);
            }
            let fits = devices <= left;
            left = left.saturating_sub(devices);
            fits
        })
    }

    fn sensors(&mut self) {
        let c = self.config;
        if c.line_ratio + c.sin_ratio + c.square_ratio + c.random_ratio + c.constant_ratio <= 0.0 {
            let keys = ["LINE_RATIO", "SIN_RATIO", "SQUARE_RATIO", "RANDOM_RATIO", "CONSTANT_RATIO"];
            self.refuse(&keys, "expected a ratio above 0");
        }
        if c.query_sensor_num > c.sensor_number && c.writes_or_queries(1..=SET_QUERY) {
            self.refuse(
                &["QUERY_SENSOR_NUM", "SENSOR_NUMBER"],
                "a query needs distinct sensors: expected at most SENSOR_NUMBER",
            );
        }
        let numeric = c.numeric_sensors();
        let filters =
            VALUE_FILTER_QUERIES.iter().any(|&query| c.operation_proportion[query] > 0.0) && c.runs_proportion();
        if filters && numeric < c.query_sensor_num.min(c.sensor_number) {
            let reason =
                format!("Q3, Q5, Q6 and Q10 compare with a number: only {numeric} sensors have a numeric type");
            self.refuse(&["QUERY_SENSOR_NUM", "INSERT_DATATYPE_PROPORTION"], reason);
        }
    }

    fn operations(&mut self) {
        let c = self.config;
        let kinds = c.operation_proportion.iter().filter(|&&share| share > 0.0).count() as u64;
        if c.loop_ != 0 && kinds > c.loop_ && c.run_seconds == 0.0 && c.runs_proportion() {
            self.refuse(&["LOOP", "OPERATION_PROPORTION"], format!("too few operations for {kinds} kinds"));
        }
        let rows = if c.run_seconds > 0.0 { 0 } else { i128::from(c.loop_) * i128::from(c.batch_size_per_write) };
        let start = c.start_time.as_nanosecond() / i128::from(c.timestamp_precision.nanos());
        let last = i128::from(c.point_step).checked_mul(rows + 1).and_then(|span| span.checked_add(start));
        if c.writes() && last.is_none_or(|last| i64::try_from(last).is_err()) {
            let keys = ["START_TIME", "LOOP", "BATCH_SIZE_PER_WRITE", "POINT_STEP", "TIMESTAMP_PRECISION"];
            self.refuse(&keys, "the last timestamp would not fit into 64 bits");
        }
    }

    fn queries(&mut self) {
        let c = self.config;
        if !c.writes_or_queries(1..=SET_QUERY) {
            return;
        }
        let smallest_place = c.device_number / c.iotdb_table_number.max(1);
        if c.query_device_num > smallest_place {
            let reason = format!("a query's devices are of one group: the smallest has {smallest_place}");
            self.refuse(&["QUERY_DEVICE_NUM", "DEVICE_NUMBER", "GROUP_NUMBER"], reason);
        }
        let function = c.query_aggregate_fun.to_ascii_lowercase();
        if c.uses_tables() && ["max_by", "min_by"].iter().any(|refused| function.starts_with(refused)) {
            self.refuse(&["QUERY_AGGREGATE_FUN", "IoTDB_DIALECT_MODE"], "needs two arguments, a query has one");
        }
        let limits_as_original = matches!(c.db_switch.product, Product::InfluxDB | Product::TDengine3)
            || (c.db_switch.product == Product::IoTDB && c.db_switch.version == Some(110));
        if c.align_by_device && !limits_as_original {
            self.refuse(&["ALIGN_BY_DEVICE", "DB_SWITCH"], "expected IoTDB-110, TDengine-3 or InfluxDB");
        }
        if c.result_row_limit >= 0 && !limits_as_original {
            self.warn(&["RESULT_ROW_LIMIT"], "the original would refuse it for this product; here answers are limited");
        }
        if c.compat && !c.is_recent_query && c.operation_proportion[1] > 0.0 && c.step_size == 0 {
            self.warn(
                &["STEP_SIZE", "COMPAT"],
                "Q1 asks for START_TIME itself, where no row is: its answers are empty",
            );
        }
    }

    fn order_of_time(&mut self) {
        let c = self.config;
        if !c.is_out_of_order || !c.writes() {
            return;
        }
        match c.out_of_order_mode {
            OutOfOrderMode::Poisson => self.warn(
                &["OUT_OF_ORDER_MODE"],
                "rows out of order overwrite earlier ones, so fewer points exist than are written; LATE writes each once",
            ),
            OutOfOrderMode::Batch if c.compat && c.batch_size_per_write > 1 => self.warn(
                &["OUT_OF_ORDER_MODE", "BATCH_SIZE_PER_WRITE", "COMPAT"],
                "only LOOP distinct timestamps exist, each is written BATCH_SIZE_PER_WRITE times",
            ),
            OutOfOrderMode::Batch if c.run_seconds > 0.0 => self.refuse(
                &["OUT_OF_ORDER_MODE", "RUN_SECONDS"],
                "the order of rows depends on their number: expected LOOP instead of RUN_SECONDS",
            ),
            OutOfOrderMode::Batch | OutOfOrderMode::Late => {}
        }
    }

    fn measurement(&mut self) {
        let c = self.config;
        if c.rate > 0.0 && c.point_rate > 0.0 {
            self.refuse(&["RATE", "POINT_RATE"], "expected only one of the two");
        }
        if (c.rate > 0.0 || c.point_rate > 0.0) && c.op_min_interval != 0 {
            self.refuse(
                &["RATE", "POINT_RATE", "OP_MIN_INTERVAL"],
                "a rate already determines the interval between operations",
            );
        }
        if c.run_seconds > 0.0 && c.warmup >= c.run_seconds {
            self.refuse(&["WARMUP", "RUN_SECONDS"], "nothing would be measured");
        }
        if c.is_record_current_really_time && c.verify {
            self.warn(
                &["IS_RECORD_CURRENT_REALLY_TIME", "VERIFY"],
                "the rows of a batch share one timestamp and overwrite each other: nothing can be verified",
            );
        }
        if !c.verify {
            self.warn(&["VERIFY"], "answers and data are not checked; the report states this");
        }
    }
}

impl Config {
    /// Whether the run has query phases, or an operation at one of `positions` in
    /// `OPERATION_PROPORTION`.
    fn writes_or_queries(&self, mut positions: std::ops::RangeInclusive<usize>) -> bool {
        let runs = self.query_count > 0 || positions.any(|position| self.operation_proportion[position] > 0.0);
        runs && self.runs_proportion()
    }
}

impl super::DbSwitch {
    /// The value for a product without version and mode: for IoTDB and DolphinDB the newest version
    /// with its fastest interface.
    pub fn of(product: Product) -> Self {
        let newest = Self::all().into_iter().filter(|switch| switch.product == product);
        let mut newest =
            newest.filter(|switch| matches!(switch.mode, None | Some(InsertMode::SessionByTablet | InsertMode::Mtw)));
        newest.next().unwrap_or_else(|| Self { text: product.show(), product, version: None, mode: None })
    }
}
