//! The table of keys: name, type, default, range, origin and meaning. Everything else about a key
//! is derived from it: the field of [`Config`], parsing, checks, lists and output.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;

use super::value::{
    DbSwitch, Dialect, GroupStrategy, LateDistribution, OutOfOrderMode, Persistence, SetOperator, TableCompression,
    TimestampPrecision, Value, WorkMode,
};
use super::{Range, Source};

/// Origin of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A key of the current IoT-benchmark.
    Now,
    /// A key of IoT-benchmark in early 2023, since removed; still supported here.
    Early2023,
    /// A key of this tool only.
    Ours,
}

/// A row of the table.
pub struct Key {
    /// Name in a configuration file; unique.
    pub name: &'static str,
    /// Heading in lists of keys.
    pub section: &'static str,
    /// Default in file syntax: IoT-benchmark's current one, if it has the key.
    pub default: &'static str,
    /// Valid range, for numeric types.
    pub range: Range,
    /// Origin of the key.
    pub origin: Origin,
    /// Effect of the key with its unit, in one line.
    pub meaning: &'static str,
    pub(super) empty_is_a_value: bool,
    pub(super) kind: fn() -> String,
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    pub(super) show: fn(&Config) -> String,
    pub(super) number: fn(&Config) -> Option<f64>,
}

macro_rules! keys {
    ($($section:literal { $($name:literal $field:ident : $type:ty = $default:literal, $range:expr, $origin:ident, $meaning:literal;)+ })+) => {
        /// The configuration of a run: one field per key, named after it.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($(#[doc = $meaning] pub $field: $type,)+)+
            /// Directory of the configuration file; may contain `function.xml`.
            pub directory: Option<PathBuf>,
            /// Sources of the keys that are not at their defaults.
            pub(super) sources: BTreeMap<&'static str, Source>,
            /// Warnings from loading the keys.
            pub(super) notes: Vec<String>,
        }

        impl Default for Config {
            fn default() -> Self {
                Config {
                    $($($field: default_value($name, $default),)+)+
                    directory: None,
                    sources: BTreeMap::new(),
                    notes: Vec::new(),
                }
            }
        }

        /// All keys, in the order of the documentation.
        pub static KEYS: &[Key] = &[$($(Key {
            name: $name,
            section: $section,
            default: $default,
            range: $range,
            origin: Origin::$origin,
            meaning: $meaning,
            empty_is_a_value: <$type as Value>::EMPTY,
            kind: <$type as Value>::kind,
            set: |config, text| {
                config.$field = <$type as Value>::parse(text)?;
                Ok(())
            },
            show: |config| config.$field.show(),
            number: |config| config.$field.number(),
        },)+)+];
    };
}

fn default_value<T: Value>(name: &str, text: &str) -> T {
    T::parse(text).unwrap_or_else(|expected| panic!("BUG: default {text:?} of {name}: expected {expected}"))
}

use Range::{Above, Any, AtLeast, Share, Unit};

keys! {
    "Database under test" {
        "DB_SWITCH" db_switch: DbSwitch = "IoTDB-200-SESSION_BY_TABLET", Any, Now, "product, its version and its write interface";
        "IoTDB_DIALECT_MODE" iotdb_dialect_mode: Dialect = "tree", Any, Now, "data model of IoTDB 2";
        "TABLE_TIME_COLUMN" table_time_column: String = "time", Any, Now, "name of the time column (table dialect)";
        "IoTDB_TABLE_WRITABLE_VIEW" iotdb_table_writable_view: bool = "false", Any, Now, "create a writable view of each table and use it for all operations";
        "HOST" host: Vec<String> = "127.0.0.1", Any, Now, "hosts, paired with PORT";
        "PORT" port: Vec<u16> = "6667", Any, Now, "ports, one per host";
        "USERNAME" username: String = "root", Any, Now, "user on every host";
        "PASSWORD" password: String = "root", Any, Now, "the user's password";
        "DB_NAME" db_name: String = "test", Any, Now, "database, bucket or table that the benchmark may drop and fill";
        "TOKEN" token: String = "token", Any, Now, "token of InfluxDB 2";
        "REST_AUTHORIZATION" rest_authorization: String = "Basic cm9vdDpyb290", Any, Now, "header of IoTDB's REST; the environment's BENCHMARK_REST_AUTHORIZATION wins over a file";
        "REST_PORT" rest_port: u16 = "18080", Any, Now, "port of IoTDB's REST";
        "USE_SSL" use_ssl: bool = "false", Any, Now, "TLS to IoTDB";
        "TRUST_STORE_PATH" trust_store_path: String = "", Any, Now, "trusted certificates";
        "TRUST_STORE_PWD" trust_store_pwd: String = "", Any, Now, "password of the trust store";
        "KEY_STORE_PATH" key_store_path: String = "", Any, Now, "own key and certificate (mutual TLS)";
        "KEY_STORE_PWD" key_store_pwd: String = "", Any, Now, "password of the key store";
        "SSL_PROTOCOL" ssl_protocol: String = "TLS", Any, Now, "protocol name of the TLS context";
        "ENABLE_AUTO_FETCH" enable_auto_fetch: bool = "false", Any, Now, "IoTDB sessions refresh their list of nodes";
        "IS_DELETE_DATA" is_delete_data: bool = "true", Any, Now, "drop old data before the run";
        "INIT_WAIT_TIME" init_wait_time: u64 = "1000", Any, Now, "pause after the drop, ms";
        "KAFKA_LOCATION" kafka_location: String = "127.0.0.1:9092", Any, Now, "formerly a data source";
        "ZOOKEEPER_LOCATION" zookeeper_location: String = "127.0.0.1:2181", Any, Now, "formerly a data source";
        "TOPIC_NAME" topic_name: String = "test-topic", Any, Now, "formerly a data source";
    }
    "Run control" {
        "LOOP" loop_: u64 = "100", Any, Now, "operations per client; 0 only registers the schema";
        "BENCHMARK_WORK_MODE" benchmark_work_mode: WorkMode = "testWithDefaultPath", Any, Now, "mode of the run";
        "TEST_MAX_TIME" test_max_time: u64 = "0", Any, Now, "time limit of the run after schema registration, ms; 0 = no limit";
        "USE_MEASUREMENT" use_measurement: bool = "true", Any, Now, "measure; false prints the configuration only";
        "RESULT_PRECISION" result_precision: f64 = "0.1", Above(0.0), Now, "precision of quantiles, %";
        "IS_RECORD_CURRENT_REALLY_TIME" is_record_current_really_time: bool = "false", Any, Now, "timestamps are the wall-clock time at which a row is generated";
        "OPERATION_PROPORTION" operation_proportion: [f64; 13] = "1:0:0:0:0:0:0:0:0:0:0:0:0", Any, Now, "shares of writes and of the queries Q1 to Q12; shorter lists are filled with 0";
        "WRITE_OPERATION_TIMEOUT_MS" write_operation_timeout_ms: u64 = "120000", AtLeast(1.0), Now, "a write that takes longer has failed, ms";
        "READ_OPERATION_TIMEOUT_MS" read_operation_timeout_ms: u64 = "300000", AtLeast(1.0), Now, "a query that takes longer has failed, ms";
        "ENABLE_FIXED_QUERY" enable_fixed_query: bool = "false", Any, Now, "every query of a kind is the same statement";
        "OP_MIN_INTERVAL" op_min_interval: i64 = "0", AtLeast(-1.0), Now, "minimum time between the starts of a client's operations, ms; 0 = none, -1 = POINT_STEP";
        "OP_MIN_INTERVAL_RANDOM" op_min_interval_random: bool = "false", Any, Now, "draw each interval from 0 to OP_MIN_INTERVAL";
        "INTERVAL_BETWEEN_WRITE_BATCH" interval_between_write_batch: u64 = "0", Any, Now, "minimum time between the batches of one write operation, ms";
        "BENCHMARK_CLUSTER" benchmark_cluster: bool = "false", Any, Now, "this tool is a member of a distributed run";
        "BENCHMARK_INDEX" benchmark_index: u64 = "0", Any, Now, "index of this member, from 0; its devices start at index x DEVICE_NUMBER";
    }
    "Two databases" {
        "IS_DOUBLE_WRITE" is_double_write: bool = "false", Any, Now, "also run on a second database (ANOTHER_*), as another target";
        "ANOTHER_DB_SWITCH" another_db_switch: DbSwitch = "IoTDB-200-SESSION_BY_TABLET", Any, Now, "the second database's DB_SWITCH";
        "ANOTHER_HOST" another_host: Vec<String> = "127.0.0.1", Any, Now, "hosts of the second database";
        "ANOTHER_PORT" another_port: Vec<u16> = "6667", Any, Now, "ports of the second database";
        "ANOTHER_USERNAME" another_username: String = "root", Any, Now, "user of the second database";
        "ANOTHER_PASSWORD" another_password: String = "root", Any, Now, "password of the second database";
        "ANOTHER_DB_NAME" another_db_name: String = "test", Any, Now, "DB_NAME of the second database";
        "ANOTHER_TOKEN" another_token: String = "token", Any, Now, "token of the second database";
        "IS_COMPARISON" is_comparison: bool = "false", Any, Now, "check every answer of every query instead of VERIFY_RATIO of them";
        "IS_POINT_COMPARISON" is_point_comparison: bool = "false", Any, Now, "read all rows back and compare every value, instead of running OPERATION_PROPORTION";
        "VERIFICATION_STEP_SIZE" verification_step_size: u64 = "10000", AtLeast(1.0), Now, "window of the point comparison, in batches; limited to a million values";
    }
    "Devices, sensors, clients" {
        "DEVICE_NUMBER" device_number: u64 = "6000", AtLeast(1.0), Now, "devices";
        "REAL_INSERT_RATE" real_insert_rate: f64 = "1.0", Share, Now, "share of the devices that are written";
        "SENSOR_NUMBER" sensor_number: u64 = "200", AtLeast(1.0), Now, "sensors per device, the same for every device";
        "IS_SENSOR_TS_ALIGNMENT" is_sensor_ts_alignment: bool = "true", Any, Now, "a row carries all sensors; false: a batch is one sensor of one device";
        "TS_ALIGNMENT_RATIO" ts_alignment_ratio: f64 = "1.0", Share, Now, "if not aligned: probability that a sensor's batch is sent";
        "IS_CLIENT_BIND" is_client_bind: bool = "true", Any, Now, "each device belongs to one client; false: clients take the next batch of any device";
        "SCHEMA_CLIENT_NUMBER" schema_client_number: u64 = "20", AtLeast(1.0), Now, "clients that register the schema";
        "DATA_CLIENT_NUMBER" data_client_number: u64 = "20", AtLeast(1.0), Now, "clients that write and query";
        "GROUP_NAME_PREFIX" group_name_prefix: String = "g_", Any, Now, "prefix of group names; followed by a number from 0";
        "IoTDB_TABLE_NAME_PREFIX" iotdb_table_name_prefix: String = "table_", Any, Now, "prefix of table names";
        "DEVICE_NAME_PREFIX" device_name_prefix: String = "d_", Any, Now, "prefix of device names";
        "SENSOR_NAME_PREFIX" sensor_name_prefix: String = "s_", Any, Now, "prefix of sensor names";
        "TAG_NUMBER" tag_number: u64 = "0", Any, Now, "number of tags per device";
        "TAG_KEY_PREFIX" tag_key_prefix: String = "tag_", Any, Now, "prefix of tag names";
        "TAG_VALUE_PREFIX" tag_value_prefix: String = "value_", Any, Now, "prefix of tag values; followed by a number";
        "TAG_VALUE_CARDINALITY" tag_value_cardinality: Vec<u64> = "", Any, Now, "numbers of distinct values of each tag, TAG_NUMBER of them";
        "GROUP_NUMBER" group_number: u64 = "1", AtLeast(1.0), Now, "databases or storage groups";
        "IoTDB_TABLE_NUMBER" iotdb_table_number: u64 = "1", AtLeast(1.0), Now, "tables (table dialect); in the tree dialect as many as groups";
        "SG_STRATEGY" sg_strategy: GroupStrategy = "mod", Any, Now, "assignment of devices to tables and groups";
    }
    "Types and shapes of data" {
        "POINT_STEP" point_step: i64 = "5000", AtLeast(1.0), Now, "time between two rows of a device, in units of TIMESTAMP_PRECISION";
        "TIMESTAMP_PRECISION" timestamp_precision: TimestampPrecision = "ms", Any, Now, "unit of timestamps";
        "STRING_LENGTH" string_length: u64 = "2", AtLeast(1.0), Now, "characters of TEXT, STRING and BLOB values";
        "DOUBLE_LENGTH" double_length: u64 = "2", Any, Now, "decimals of FLOAT and DOUBLE values";
        "OBJECT_LENGTH" object_length: u64 = "1000", AtLeast(1.0), Now, "bytes of OBJECT values";
        "OBJECT_QUERY_FULL_CONTENT" object_query_full_content: bool = "false", Any, Now, "queries read whole OBJECT values";
        "INSERT_DATATYPE_PROPORTION" insert_datatype_proportion: [f64; 11] = "1:1:1:1:1:1:0:0:0:0:0", Any, Now, "shares of BOOLEAN:INT32:INT64:FLOAT:DOUBLE:TEXT:STRING:BLOB:TIMESTAMP:DATE:OBJECT; or only the first 6 or 10";
        "COMPRESSOR" compressor: String = "LZ4", Any, Now, "compression of IoTDB";
        "ENCODING_BOOLEAN" encoding_boolean: String = "RLE", Any, Now, "encoding of IoTDB";
        "ENCODING_INT32" encoding_int32: String = "TS_2DIFF", Any, Now, "encoding of IoTDB";
        "ENCODING_INT64" encoding_int64: String = "TS_2DIFF", Any, Now, "encoding of IoTDB";
        "ENCODING_FLOAT" encoding_float: String = "GORILLA", Any, Now, "encoding of IoTDB";
        "ENCODING_DOUBLE" encoding_double: String = "GORILLA", Any, Now, "encoding of IoTDB";
        "ENCODING_TEXT" encoding_text: String = "DICTIONARY", Any, Now, "encoding of IoTDB";
        "ENCODING_STRING" encoding_string: String = "PLAIN", Any, Now, "encoding of IoTDB";
        "ENCODING_BLOB" encoding_blob: String = "PLAIN", Any, Now, "encoding of IoTDB";
        "ENCODING_TIMESTAMP" encoding_timestamp: String = "TS_2DIFF", Any, Now, "encoding of IoTDB";
        "ENCODING_DATE" encoding_date: String = "TS_2DIFF", Any, Now, "encoding of IoTDB";
        "LINE_RATIO" line_ratio: f64 = "1.0", AtLeast(0.0), Now, "share of saw-tooth sensors";
        "SIN_RATIO" sin_ratio: f64 = "1.0", AtLeast(0.0), Now, "share of sine sensors";
        "SQUARE_RATIO" square_ratio: f64 = "1.0", AtLeast(0.0), Now, "share of square-wave sensors";
        "RANDOM_RATIO" random_ratio: f64 = "1.0", AtLeast(0.0), Now, "share of random sensors";
        "CONSTANT_RATIO" constant_ratio: f64 = "1.0", AtLeast(0.0), Now, "share of constant sensors";
        "DATA_SEED" data_seed: i64 = "666", Any, Now, "seed of all written data";
        "WORKLOAD_BUFFER_SIZE" workload_buffer_size: u64 = "100", AtLeast(1.0), Now, "values per sensor before they repeat; only with COMPAT, otherwise values do not repeat";
    }
    "Writes" {
        "BATCH_SIZE_PER_WRITE" batch_size_per_write: u64 = "100", AtLeast(1.0), Now, "rows per device in a batch";
        "DEVICE_NUM_PER_WRITE" device_num_per_write: u64 = "1", AtLeast(1.0), Now, "devices in a batch; must divide the number of devices of every client";
        "CREATE_SCHEMA" create_schema: bool = "true", Any, Now, "register the schema before writing";
        "START_TIME" start_time: Timestamp = "2022-01-01T00:00:00+08:00", Any, Now, "time one POINT_STEP before the first row";
        "IS_COPY_MODE" is_copy_mode: bool = "false", Any, Now, "verification modes: repeat the first batch of each device's files LOOP times, with shifted times";
        "IS_ADD_ANOMALY" is_add_anomaly: bool = "false", Any, Now, "multiply the numbers in some of the copied rows";
        "ANOMALY_RATE" anomaly_rate: f64 = "0.2", Unit, Now, "share of copied rows with an anomaly";
        "ANOMALY_TIMES" anomaly_times: f64 = "2.0", Any, Now, "factor of an anomaly";
        "IS_OUT_OF_ORDER" is_out_of_order: bool = "false", Any, Now, "write some rows out of time order";
        "OUT_OF_ORDER_MODE" out_of_order_mode: OutOfOrderMode = "POISSON", Any, Now, "method; LATE is not in IoT-benchmark";
        "OUT_OF_ORDER_RATIO" out_of_order_ratio: f64 = "0.5", Unit, Now, "share of rows out of order";
        "IS_REGULAR_FREQUENCY" is_regular_frequency: bool = "true", Any, Now, "rows are exactly POINT_STEP apart; false adds jitter of less than a step";
        "LAMBDA" lambda: f64 = "2200.0", AtLeast(0.0), Now, "POISSON: typical delay, in steps";
        "MAX_K" max_k: u64 = "170000", AtLeast(1.0), Now, "POISSON: greatest delay, in steps";
        "LATE_DISTRIBUTION" late_distribution: LateDistribution = "exponential", Any, Ours, "LATE: distribution of the lateness";
        "LATE_MAX" late_max: u64 = "1000", AtLeast(1.0), Ours, "LATE: greatest lateness, in rows of the device";
    }
    "Queries" {
        "IS_RECENT_QUERY" is_recent_query: bool = "false", Any, Now, "windows end at the newest row the client wrote";
        "STEP_SIZE" step_size: i64 = "1", AtLeast(0.0), Now, "steps by which a window moves from query to query; 0 = never";
        "QUERY_SENSOR_NUM" query_sensor_num: u64 = "1", AtLeast(1.0), Now, "distinct sensors per query";
        "QUERY_DEVICE_NUM" query_device_num: u64 = "1", AtLeast(1.0), Now, "distinct devices per query, all of one group or table";
        "QUERY_AGGREGATE_FUN" query_aggregate_fun: String = "count", Any, Now, "aggregate function of Q4 to Q7 and Q11";
        "QUERY_INTERVAL" query_interval: i64 = "250000", AtLeast(0.0), Now, "length of a window, in units of TIMESTAMP_PRECISION";
        "QUERY_LOWER_VALUE" query_lower_value: f64 = "-5.0", Any, Now, "value filters select greater values";
        "GROUP_BY_TIME_UNIT" group_by_time_unit: i64 = "20000", AtLeast(1.0), Now, "width of a bucket, ms";
        "QUERY_SEED" query_seed: i64 = "151658", Any, Now, "seed of the choice of devices and sensors";
        "QUERY_SET_OP_TYPE" query_set_op_type: SetOperator = "union", Any, Now, "operator of Q12";
        "QUERY_SET_OP_NUM" query_set_op_num: u64 = "2", AtLeast(2.0), Now, "range queries joined by Q12";
        "RESULT_ROW_LIMIT" result_row_limit: i64 = "-1", AtLeast(-1.0), Now, "most rows of an answer; -1 = all";
        "ALIGN_BY_DEVICE" align_by_device: bool = "false", Any, Now, "IoTDB's ALIGN BY DEVICE";
    }
    "Settings of single products" {
        "ENABLE_THRIFT_COMPRESSION" enable_thrift_compression: bool = "false", Any, Now, "IoTDB: compact Thrift protocol";
        "ENABLE_IOTDB_RPC_COMPRESSION" enable_iotdb_rpc_compression: bool = "true", Any, Now, "IoTDB 2.0.6 and later: compressed tablets";
        "IOTDB_SESSION_POOL_SIZE" iotdb_session_pool_size: u64 = "50", AtLeast(1.0), Now, "IoTDB: sessions of a pool";
        "TEMPLATE" template: bool = "false", Any, Now, "IoTDB: register by schema template";
        "TEMPLATE_NAME" template_name: String = "BenchmarkTemplate", Any, Now, "IoTDB: name of the schema template";
        "VECTOR" vector: bool = "true", Any, Now, "IoTDB: aligned series";
        "IOTDB_USE_DEBUG" iotdb_use_debug: bool = "false", Any, Now, "IoTDB: prefix some queries with debug";
        "IOTDB_USE_DEBUG_RATIO" iotdb_use_debug_ratio: f64 = "0.01", Unit, Now, "IoTDB: share of those queries";
        "HTTP_CLIENT_POOL_SIZE" http_client_pool_size: u64 = "1000", AtLeast(1.0), Now, "HTTP connections of the pool";
        "COMPRESSION" compression: TableCompression = "NONE", Any, Now, "SQL Server: table compression";
        "TIMESCALEDB_REPLICATION_FACTOR" timescaledb_replication_factor: u64 = "1", AtLeast(1.0), Now, "distributed TimescaleDB: copies";
        "TDENGINE_WAL_LEVEL" tdengine_wal_level: u64 = "2", Any, Now, "TDengine: level of its write-ahead log";
        "TDENGINE_REPLICA" tdengine_replica: u64 = "3", AtLeast(1.0), Now, "TDengine: copies";
        "INFLUXDB_ORG" influxdb_org: String = "company1", Any, Now, "InfluxDB 2: organisation";
        "CNOSDB_SHARD_NUMBER" cnosdb_shard_number: u64 = "32", AtLeast(1.0), Now, "CnosDB: shards";
        "DOLPHINDB_DEVICE_HASH_BUCKETS" dolphindb_device_hash_buckets: u64 = "8", AtLeast(1.0), Now, "DolphinDB: buckets of devices";
    }
    "Data set in files" {
        "FILE_PATH" file_path: String = "data/test", Any, Now, "directory of the data set; generateDataMode replaces an existing one";
        "BIG_BATCH_SIZE" big_batch_size: u64 = "100", AtLeast(1.0), Now, "batches per file";
    }
    "Output" {
        "TEST_DATA_PERSISTENCE" test_data_persistence: Persistence = "None", Any, Now, "store of the operation records; PostgreSQL and Parquet are not in IoT-benchmark";
        "RECORD_SPLIT" record_split: bool = "true", Any, Now, "start a new table or file after RECORD_SPLIT_MAX_LINE records";
        "RECORD_SPLIT_MAX_LINE" record_split_max_line: u64 = "10000000", AtLeast(1.0), Now, "records per table or file";
        "TEST_DATA_STORE_IP" test_data_store_ip: String = "127.0.0.1", Any, Now, "host of the store";
        "TEST_DATA_STORE_PORT" test_data_store_port: u16 = "6667", Any, Now, "port of the store";
        "TEST_DATA_STORE_DB" test_data_store_db: String = "result", Any, Now, "database of the store";
        "TEST_DATA_STORE_USER" test_data_store_user: String = "root", Any, Now, "user of the store";
        "TEST_DATA_STORE_PW" test_data_store_pw: String = "root", Any, Now, "password of the store";
        "TEST_DATA_WRITE_TIME_OUT" test_data_write_time_out: u64 = "300000", AtLeast(1.0), Now, "a record that takes longer has failed, ms";
        "TEST_DATA_MAX_CONNECTION" test_data_max_connection: u64 = "1", AtLeast(1.0), Now, "connections of the recorder";
        "REMARK" remark: String = "", Any, Now, "part of table and file names; no dots";
        "MYSQL_REAL_INSERT_RATE" mysql_real_insert_rate: f64 = "1.0", Unit, Now, "share of the records that are stored";
        "CSV_OUTPUT" csv_output: bool = "true", Any, Now, "write the matrices to data/csvOutput";
        "IS_QUIET_MODE" is_quiet_mode: bool = "true", Any, Now, "false prints one line per operation";
        "LOG_PRINT_INTERVAL" log_print_interval: u64 = "5", AtLeast(1.0), Now, "time between lines of progress, s";
        "RESULT_PRINT_INTERVAL" result_print_interval: u64 = "3600", Any, Now, "time between interim results, s; 0 = only at the end";
    }
    "Server monitor" {
        "MONITOR_INTERVAL" monitor_interval: f64 = "0.0", AtLeast(0.0), Early2023, "time between samples, s; 0 = 1 s";
        "NET_DEVICE" net_device: String = "e", Any, Early2023, "prefix of the names of the network interfaces to count";
        "IOTDB_DATA_DIR" iotdb_data_dir: Vec<String> = "", Any, Early2023, "data directories whose size is sampled";
        "IOTDB_WAL_DIR" iotdb_wal_dir: Vec<String> = "", Any, Early2023, "directories of the write-ahead log";
        "IOTDB_SYSTEM_DIR" iotdb_system_dir: Vec<String> = "", Any, Early2023, "system directories";
    }
    "Measurement and verification" {
        "COMPAT" compat: bool = "false", Any, Ours, "reproduce IoT-benchmark's quirks, even where they distort the measurement";
        "RUN_SECONDS" run_seconds: f64 = "0.0", AtLeast(0.0), Ours, "write for this time instead of LOOP operations, s; 0 = by LOOP";
        "QUERY_COUNT" query_count: u64 = "0", Any, Ours, "after the writes, queries of each of Q1 to Q12 that the target supports; 0 = only OPERATION_PROPORTION";
        "RATE" rate: f64 = "0.0", AtLeast(0.0), Ours, "open loop: operations sent per second over all clients; 0 = closed loop";
        "POINT_RATE" point_rate: f64 = "0.0", AtLeast(0.0), Ours, "open loop by points written per second instead of RATE; 0 = off";
        "WARMUP" warmup: f64 = "0.0", AtLeast(0.0), Ours, "operations started earlier than this are run and verified, but not measured, s";
        "SETTLE_MAX" settle_max: f64 = "120.0", AtLeast(0.0), Ours, "longest wait after the writes until the size on disk is stable, s";
        "VERIFY" verify: bool = "true", Any, Ours, "check answers against values computed from the seed, and all data after the run";
        "VERIFY_RATIO" verify_ratio: f64 = "0.05", Unit, Ours, "share of each query kind's answers that are checked";
        "VERIFY_MIN" verify_min: u64 = "200", Any, Ours, "minimum number of checked answers of each kind";
    }
}
