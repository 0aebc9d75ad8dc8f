//! What a run found out: everything reports are made from, and what `report.json` holds.

use serde::{Deserialize, Serialize};

/// Version of this form; a reader refuses others and names both.
pub const RESULT_FORMAT: u32 = 1;

/// One run on one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RESULT_FORMAT`].
    pub format: u32,
    /// Version of this tool.
    pub tool: String,
    /// The command line that gave it.
    pub command: Vec<String>,
    /// Wall clock at the start, RFC 3339.
    pub started: String,
    /// Workload's name, such as `iot`.
    pub workload: String,
    /// Product and how it was used.
    pub target: TargetResult,
    /// Where this tool ran.
    pub machine: Machine,
    /// Every key of the configuration and its value; no password.
    pub configuration: Vec<(String, String)>,
    /// What a person should know: warnings, departures, why a row is all zero.
    pub notes: Vec<String>,
    /// Longest registration of a schema client.
    pub schema_s: f64,
    /// Phases in order; a run of the original has one.
    pub phases: Vec<PhaseResult>,
    /// Per second of the run.
    pub seconds: Vec<Second>,
    /// Samples of machine and server, at least one a second.
    pub resources: Vec<ResourceSample>,
    /// Server and disk over the whole run.
    pub server: Option<ServerResult>,
    /// What was checked, and the verdict.
    pub verification: Verification,
    /// Failures by operation, class and first message.
    pub failures: Vec<Failure>,
    /// Was it stopped (Ctrl-C, time limit) before its end, and by what.
    pub stopped: Option<String>,
}

/// Product and how it was used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TargetResult {
    /// Word on the command line, such as `questdb`.
    pub name: String,
    /// As given, without password.
    pub url: String,
    /// Name for people.
    pub product: String,
    /// As the server tells it.
    pub version: String,
    /// The write path.
    pub write_path: String,
    /// Why this one.
    pub why: String,
    /// When a write is acknowledged.
    pub durability: String,
    /// Is an acknowledged write on disk?
    pub durable: bool,
    /// How far the driver is proved.
    pub proof: String,
}

/// Where this tool ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processors this process may use.
    pub cpus: u32,
    /// As the kernel names the processor.
    pub cpu: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel's name and version.
    pub kernel: String,
}

/// One phase: some clients do a mix of operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Such as `write`, `TIME_RANGE`, or `mixed`.
    pub name: String,
    /// Client threads.
    pub clients: u32,
    /// Intended operations per second in all; 0: closed loop (each client sends when its last answer has come).
    pub rate: f64,
    /// First request to last response, warm-up excluded.
    pub elapsed_s: f64,
    /// Seconds since the run's start at which the phase began.
    pub began_s: f64,
    /// One a kind, in the workload's order; all kinds, also those without operations.
    pub operations: Vec<OperationResult>,
    /// CPU seconds of the server from the phase's start until it was idle again; `None` where it cannot be seen.
    pub server_cpu_s: Option<f64>,
    /// CPU seconds of this process in the phase.
    pub client_cpu_s: f64,
    /// Is the figure this tool's rather than the target's?
    pub client_bound: bool,
    /// On what that rests.
    pub client_bound_why: String,
}

/// One kind of operation in one phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OperationResult {
    /// Such as `INGESTION`.
    pub name: String,
    /// The original's name in stored tables, such as `PRECISE_QUERY`.
    pub stored_name: String,
    /// Requests that succeeded.
    pub ok: u64,
    /// Values in them.
    pub ok_points: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Values in them (writes only).
    pub failed_points: u64,
    /// `ok_points` per second of the phase.
    pub throughput: f64,
    /// From the intended moment of sending (open loop) or from sending (closed loop); successful operations only.
    pub latency_ms: Latency,
    /// From the moment of sending, in open loop as well: service time.
    pub service_ms: Latency,
    /// All latencies in nanoseconds as an HDR histogram (V2, deflated, base64).
    pub histogram: String,
    /// One statement as it was sent.
    pub example: Option<String>,
    /// Why there is nothing, or what is special.
    pub note: Option<String>,
}

/// Latencies in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub avg: f64,
    /// Least.
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
    /// Greatest.
    pub max: f64,
    /// Greatest sum of one client's latencies.
    pub slowest_thread: f64,
}

/// One second of a run, one kind of operation; seconds without operations are left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the run's start.
    pub at_s: u32,
    /// Index of the phase.
    pub phase: u32,
    /// Index of the kind.
    pub kind: u32,
    /// Requests that succeeded in it.
    pub ok: u64,
    /// Values in them.
    pub points: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Greatest.
    pub max_ms: f64,
}

/// Machine and server at one moment. Counters are since the run's start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ResourceSample {
    /// Seconds since the run's start.
    pub at_s: f64,
    /// CPU seconds of the server's processes.
    pub server_cpu_s: Option<f64>,
    /// Resident bytes of the server's processes.
    pub server_rss_bytes: Option<u64>,
    /// Bytes that the server's processes made the disks read.
    pub server_read_bytes: Option<u64>,
    /// Bytes that the server's processes made the disks write.
    pub server_written_bytes: Option<u64>,
    /// Bytes of files in the server's data directories, as allocated on disk.
    pub data_bytes: Option<u64>,
    /// CPU seconds of this process.
    pub client_cpu_s: f64,
    /// CPU seconds of all processors of the host that were not idle.
    pub host_cpu_s: f64,
    /// Bytes of memory of the host in use.
    pub host_memory_bytes: u64,
    /// Bytes read by all disks of the host.
    pub host_read_bytes: u64,
    /// Bytes written by all disks of the host.
    pub host_written_bytes: u64,
    /// Bytes received over all interfaces but loopback.
    pub host_received_bytes: u64,
    /// Bytes sent over all interfaces but loopback.
    pub host_sent_bytes: u64,
}

/// Server and disk over the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerResult {
    /// CPU seconds from the first write until all writing was flushed and the server idle.
    pub write_cpu_s: f64,
    /// Acknowledged points.
    pub points: u64,
    /// `points / write_cpu_s`.
    pub points_per_cpu_s: f64,
    /// Bytes on disk after the data had settled.
    pub settled_bytes: u64,
    /// `settled_bytes / points`.
    pub bytes_per_point: f64,
    /// Seconds from the last write until the data had settled.
    pub settling_s: f64,
    /// Did it come to rest within the time allowed?
    pub settled: bool,
    /// Greatest resident size.
    pub rss_bytes_max: u64,
    /// Bytes that writing made the disks write.
    pub written_bytes: u64,
    /// Acknowledged write to first answer that shows it.
    pub lag_ms: Option<Latency>,
    /// An fdatasync of a few bytes of this tool on the server's disk, while it was written to.
    #[serde(default)]
    pub fsync_ms: Option<Latency>,
}

/// What was checked, and the verdict.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Was it on?
    pub on: bool,
    /// Nothing contradicted the generator. False whenever `findings` is not empty.
    pub passed: bool,
    /// One a kind of question.
    pub answers: Vec<Checked>,
    /// Devices whose count and sum over all points were compared.
    pub devices: u64,
    /// Points that must be there by the acknowledgements, over all compared devices.
    pub points_expected: u64,
    /// Points found.
    pub points_found: u64,
    /// Points whose write failed with an unknown outcome: may be there or not.
    pub points_unknown: u64,
    /// Acknowledged points that are missing.
    pub lost: u64,
    /// Points that are there more than once, or were never sent.
    pub surplus: u64,
    /// CPU seconds this tool spent on it.
    pub cpu_s: f64,
    /// What contradicts, first ones in full.
    pub findings: Vec<String>,
}

/// Checked answers of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// Such as `TIME_RANGE`.
    pub name: String,
    /// Answers that came.
    pub answers: u64,
    /// Compared with the closed form.
    pub checked: u64,
    /// Wrong ones.
    pub wrong: u64,
    /// Chosen but not decidable, because writes with unknown outcome touch them.
    pub undecided: u64,
}

/// Failures of one operation of one class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Failure {
    /// Such as `INGESTION`.
    pub operation: String,
    /// Such as `timeout`.
    pub class: String,
    /// How many.
    pub count: u64,
    /// The first one's message.
    pub first: String,
}

/// One finished operation, for stores that keep every one.
#[derive(Clone, Debug)]
pub struct OperationRecord {
    /// Wall clock at its end, milliseconds since 1970.
    pub ended_ms: i64,
    /// Client number.
    pub client: u32,
    /// Index of its kind.
    pub kind: u32,
    /// First device it concerned.
    pub device: u32,
    /// Values that succeeded.
    pub ok_points: u64,
    /// Values that failed.
    pub failed_points: u64,
    /// Nanoseconds.
    pub latency_ns: u64,
    /// The error's text, if it failed.
    pub remark: Option<String>,
}
