//! The result of a run: the data of all reports and the content of `report.json`.

use serde::{Deserialize, Serialize};

/// Version of the format; a reader refuses other versions and names both.
pub const RESULT_FORMAT: u32 = 1;

/// One run on one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunResult {
    /// Format version, see [`RESULT_FORMAT`].
    pub format: u32,
    /// Version of this tool.
    pub tool: String,
    /// Command line of the run.
    pub command: Vec<String>,
    /// Wall clock at the start, RFC 3339.
    pub started: String,
    /// Workload's name, such as `iot`.
    pub workload: String,
    /// Product and how the tool used it.
    pub target: TargetResult,
    /// Machine on which this tool ran.
    pub machine: Machine,
    /// All configuration keys with their values, without passwords.
    pub configuration: Vec<(String, String)>,
    /// Remarks for the reader: warnings, deviations, reasons for empty rows.
    pub notes: Vec<String>,
    /// Longest time that a schema client took to register its devices, in seconds.
    pub schema_s: f64,
    /// Phases in order of execution; a run of the original has one.
    pub phases: Vec<PhaseResult>,
    /// Figures for each second of the run.
    pub seconds: Vec<Second>,
    /// Samples of machine and server; at least one for each second.
    pub resources: Vec<ResourceSample>,
    /// Server and disk over the whole run; `None` if nothing was written.
    pub server: Option<ServerResult>,
    /// Checks and verdict.
    pub verification: Verification,
    /// Failures by operation, class and first message.
    pub failures: Vec<Failure>,
    /// Reason why the run was stopped before its end (Ctrl-C, time limit).
    pub stopped: Option<String>,
}

/// Product and how the tool used it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TargetResult {
    /// Name on the command line, such as `questdb`.
    pub name: String,
    /// URL as given, without the password.
    pub url: String,
    /// Name of the product in reports.
    pub product: String,
    /// Version reported by the server.
    pub version: String,
    /// Protocol and statement of writes.
    pub write_path: String,
    /// Reason for this write path.
    pub why: String,
    /// Durability of an acknowledged write.
    pub durability: String,
    /// Whether an acknowledged write is on disk.
    pub durable: bool,
    /// Level of testing of the driver against the product.
    pub proof: String,
}

/// Machine on which this tool ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Number of processors that this process may use.
    pub cpus: u32,
    /// Name of the processor.
    pub cpu: String,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// Name and version of the kernel.
    pub kernel: String,
}

/// One phase: a number of clients runs a mix of operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Name of the phase: `write`, `TIME_RANGE`, `mixed`.
    pub name: String,
    /// Number of client threads.
    pub clients: u32,
    /// Target rate of all clients in operations per second; 0: closed loop (a client sends after
    /// its last answer).
    pub rate: f64,
    /// Seconds from the first request to the last response, without warm-up.
    pub elapsed_s: f64,
    /// Start of the phase, in seconds since the run's start.
    pub began_s: f64,
    /// One element for each kind of the workload, in its order, including kinds without operations.
    pub operations: Vec<OperationResult>,
    /// CPU seconds of the server during the phase; `None` if its processes cannot be inspected.
    pub server_cpu_s: Option<f64>,
    /// CPU seconds of this process during the phase.
    pub client_cpu_s: f64,
    /// Whether the client, not the target, limited the throughput.
    pub client_bound: bool,
    /// Evidence for `client_bound`.
    pub client_bound_why: String,
}

/// One kind of operation in one phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OperationResult {
    /// Name of the kind, such as `INGESTION`.
    pub name: String,
    /// The original's name in stored tables, such as `PRECISE_QUERY`.
    pub stored_name: String,
    /// Requests that succeeded.
    pub ok: u64,
    /// Values in successful requests.
    pub ok_points: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Values in failed requests (writes only).
    pub failed_points: u64,
    /// `ok_points` per second of the phase.
    pub throughput: f64,
    /// Latency of successful operations, measured from the scheduled send time (open loop) or the
    /// actual send time (closed loop).
    pub latency_ms: Latency,
    /// Latency from the actual send time, also in open loop.
    pub service_ms: Latency,
    /// All latencies in nanoseconds as an HDR histogram (V2, deflated, base64).
    pub histogram: String,
    /// One statement as sent.
    pub example: Option<String>,
    /// Reason for an empty row, or another remark.
    pub note: Option<String>,
}

/// Latencies in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub avg: f64,
    /// Minimum.
    pub min: f64,
    /// 10th percentile.
    pub p10: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub median: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
    /// Largest sum of one client's latencies.
    pub slowest_thread: f64,
}

/// One second and one kind of operation of a run; seconds without operations are left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the run's start.
    pub at_s: u32,
    /// Index of the phase.
    pub phase: u32,
    /// Index of the kind.
    pub kind: u32,
    /// Requests that succeeded.
    pub ok: u64,
    /// Values in successful requests.
    pub points: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of latency in milliseconds.
    pub p99_ms: f64,
    /// Maximum latency in milliseconds.
    pub max_ms: f64,
}

/// Machine and server at one moment. Counters start at zero when the run starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ResourceSample {
    /// Seconds since the run's start.
    pub at_s: f64,
    /// CPU seconds of the server's processes.
    pub server_cpu_s: Option<f64>,
    /// Resident bytes of the server's processes.
    pub server_rss_bytes: Option<u64>,
    /// Bytes read from disks for the server's processes.
    pub server_read_bytes: Option<u64>,
    /// Bytes written to disks for the server's processes.
    pub server_written_bytes: Option<u64>,
    /// Bytes allocated on disk for the server's data directories.
    pub data_bytes: Option<u64>,
    /// CPU seconds of this process.
    pub client_cpu_s: f64,
    /// Busy CPU seconds of all processors of the host.
    pub host_cpu_s: f64,
    /// Used memory of the host in bytes.
    pub host_memory_bytes: u64,
    /// Bytes read by all disks of the host.
    pub host_read_bytes: u64,
    /// Bytes written by all disks of the host.
    pub host_written_bytes: u64,
    /// Bytes received over all interfaces except loopback.
    pub host_received_bytes: u64,
    /// Bytes sent over all interfaces except loopback.
    pub host_sent_bytes: u64,
}

/// Server and disk over the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerResult {
    /// CPU seconds from the first write until all data was flushed and the server was idle.
    pub write_cpu_s: f64,
    /// Number of acknowledged points.
    pub points: u64,
    /// `points / write_cpu_s`.
    pub points_per_cpu_s: f64,
    /// Bytes on disk when the server was idle after the writes.
    pub settled_bytes: u64,
    /// `settled_bytes / points`.
    pub bytes_per_point: f64,
    /// Seconds from the last write until the server was idle.
    pub settling_s: f64,
    /// Whether the server became idle within the time allowed.
    pub settled: bool,
    /// Maximum resident bytes.
    pub rss_bytes_max: u64,
    /// Bytes written to disks because of the writes.
    pub written_bytes: u64,
    /// Time from the acknowledgement of a write until a query returns it.
    pub lag_ms: Option<Latency>,
    /// Latency of an fdatasync of a few bytes by this tool on the server's disk during the writes.
    #[serde(default)]
    pub fsync_ms: Option<Latency>,
}

/// Checks and verdict.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Whether the run was verified.
    pub on: bool,
    /// Whether all answers and data agree with the generator. False whenever `findings` is not
    /// empty.
    pub passed: bool,
    /// One element for each kind of query.
    pub answers: Vec<Checked>,
    /// Number of devices whose count and sum over all points were compared.
    pub devices: u64,
    /// Points that must exist according to the acknowledgements, over all compared devices.
    pub points_expected: u64,
    /// Points found.
    pub points_found: u64,
    /// Points whose write has an unknown outcome: they may exist.
    pub points_unknown: u64,
    /// Acknowledged points that are missing.
    pub lost: u64,
    /// Points that exist more than once, or were never sent.
    pub surplus: u64,
    /// CPU seconds that this tool used for verification.
    pub cpu_s: f64,
    /// Descriptions of the contradictions found; only the first ones are kept.
    pub findings: Vec<String>,
}

/// Checked answers of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// Name of the kind, such as `TIME_RANGE`.
    pub name: String,
    /// Number of answers received.
    pub answers: u64,
    /// Number of answers compared with the oracle.
    pub checked: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// Number of answers selected for a check that could not be decided, because writes with
    /// unknown outcome affect them.
    pub undecided: u64,
}

/// Failures of one operation with one error class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the operation, such as `INGESTION`.
    pub operation: String,
    /// Error class, such as `timeout`.
    pub class: String,
    /// Number of failures.
    pub count: u64,
    /// Message of the first failure.
    pub first: String,
}

/// One finished operation, for stores that keep every operation.
#[derive(Clone, Debug)]
pub struct OperationRecord {
    /// Wall clock at the end, milliseconds since 1970.
    pub ended_ms: i64,
    /// Client number.
    pub client: u32,
    /// Index of the operation's kind.
    pub kind: u32,
    /// Index of the operation's first device.
    pub device: u32,
    /// Values that succeeded.
    pub ok_points: u64,
    /// Values that failed.
    pub failed_points: u64,
    /// Latency in nanoseconds.
    pub latency_ns: u64,
    /// Error message, if the operation failed.
    pub remark: Option<String>,
}
