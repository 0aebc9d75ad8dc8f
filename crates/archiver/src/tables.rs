//! The tables of the schema `epics`, and builders of their rows.
//!
//! | table | store | one row for |
//! |---|---|---|
//! | `samples` | columns, key `pv` | a sample, by the time that the IOC stamped |
//! | `misdated` | columns, no key | a sample whose time cannot be that of `samples`: too early, too late, or taken by another value |
//! | `gaps` | columns, key `pv, reason` | a time without samples, with its reason; `ended` is NULL while it lasts, `filled` tells what the pair had (see `filling`) |
//! | `summaries` | columns, key `pv` | ten minutes of a PV's samples; `summarized` and `stale` say which are true (see `summaries`) |
//! | `metadata` | rows | a version of a PV's units, limits and labels, and the time from which it is true |
//! | `pvs`, `aliases` | rows | a PV that is archived, another name of it |
//! | `policies` | rows | a rule that says how PVs of a pattern are sampled and how long samples are kept |
//! | `imports` | rows | a source of samples of another archive, and how far it was read |
//! | `runs` | rows | a time in which the archiver ran |
//! | `peers` | rows | another archiver, which is asked for samples |

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float64Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder, TimestampNanosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use epics::sample::{Limits, Nanos, Sample, Severity};
use model::{Error, Result};
use tokio::sync::oneshot;

use crate::values::Stored;

/// Statements that create what is missing. Each is run alone.
pub(crate) const DEFINITIONS: [&str; 15] = [
    "CREATE SCHEMA IF NOT EXISTS epics",
    "CREATE TABLE IF NOT EXISTS epics.samples (time timestamptz NOT NULL, pv text NOT NULL, value float8, exact int8, \
     string text, elements bytea, severity int2, status int2, received timestamptz, type int2) \
     WITH (store = 'columns', key = 'pv', time = 'time', partition = '1 day')",
    "CREATE TABLE IF NOT EXISTS epics.misdated (time timestamptz NOT NULL, pv text NOT NULL, reason text NOT NULL, \
     stamp timestamptz, value float8, exact int8, string text, elements bytea, severity int2, status int2, type int2) \
     WITH (store = 'columns', time = 'time', partition = '7 days')",
    "CREATE TABLE IF NOT EXISTS epics.gaps (time timestamptz NOT NULL, pv text NOT NULL, reason text NOT NULL, \
     ended timestamptz, samples int8, detail text, filled boolean) \
     WITH (store = 'columns', key = 'pv, reason', time = 'time', partition = '7 days')",
    "CREATE TABLE IF NOT EXISTS epics.metadata (pv text, since timestamptz, type int2 NOT NULL, count int4 NOT NULL, \
     host text, units text, precision int2, lopr float8, hopr float8, lolo float8, hihi float8, low float8, high float8, \
     drvl float8, drvh float8, labels text, PRIMARY KEY (pv, since))",
    "CREATE TABLE IF NOT EXISTS epics.pvs (name text PRIMARY KEY, method text, period float8, policy text, paused boolean NOT NULL DEFAULT false, \
     enabled_by text, disabled_by text, deadband float8, \
     protocol text NOT NULL DEFAULT 'ca', created timestamptz NOT NULL DEFAULT now(), \
     modified timestamptz NOT NULL DEFAULT now(), \
     CHECK (method IN ('monitor', 'scan')), CHECK (period > 0), CHECK (deadband >= 0), CHECK (protocol IN ('ca', 'pva')))",
    "CREATE TABLE IF NOT EXISTS epics.aliases (alias text PRIMARY KEY, pv text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS epics.policies (name text PRIMARY KEY, position int4 NOT NULL, \
     pattern text NOT NULL DEFAULT '*', method text NOT NULL DEFAULT 'monitor', period float8 NOT NULL DEFAULT 1, \
     keep_days float8, deadband float8, CHECK (method IN ('monitor', 'scan')), CHECK (period > 0), \
     CHECK (keep_days > 0), CHECK (deadband >= 0))",
    "CREATE TABLE IF NOT EXISTS epics.imports (source text PRIMARY KEY, until int8 NOT NULL, samples int8 NOT NULL, \
     modified timestamptz NOT NULL DEFAULT now())",
    "CREATE TABLE IF NOT EXISTS epics.summaries (time timestamptz NOT NULL, pv text NOT NULL, samples int8, numbers int8, \
     mean float8, squares float8, minimum float8, maximum float8, last_number float8, first_time timestamptz, \
     last_time timestamptz, severity int2, last_severity int2) \
     WITH (store = 'columns', key = 'pv', time = 'time', partition = '28 days')",
    "CREATE TABLE IF NOT EXISTS epics.summarized (id int4 PRIMARY KEY, until timestamptz NOT NULL)",
    "CREATE TABLE IF NOT EXISTS epics.stale (pv text, since timestamptz, until timestamptz NOT NULL, \
     changes int8 NOT NULL DEFAULT 0, PRIMARY KEY (pv, since))",
    "CREATE TABLE IF NOT EXISTS epics.runs (started timestamptz PRIMARY KEY, seen timestamptz NOT NULL, ended timestamptz)",
    "CREATE TABLE IF NOT EXISTS epics.peers (url text PRIMARY KEY, pair boolean NOT NULL DEFAULT false, \
     created timestamptz NOT NULL DEFAULT now())",
    "INSERT INTO epics.policies (name, position) VALUES ('default', 1000) ON CONFLICT DO NOTHING",
];

/// Schema of all tables.
pub(crate) const SCHEMA: &str = "epics";

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Times of `rows` tables have microseconds.
fn microseconds() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn schema<const N: usize>(fields: [(&str, DataType); N]) -> SchemaRef {
    let fields: Vec<Field> = fields.into_iter().map(|(name, ty)| Field::new(name, ty, true)).collect();
    Arc::new(Schema::new(fields))
}

/// Columns that samples and misdated samples share.
#[derive(Default)]
struct Values {
    ty: Int16Builder,
    value: Float64Builder,
    exact: Int64Builder,
    string: StringBuilder,
    elements: BinaryBuilder,
    severity: Int16Builder,
    status: Int16Builder,
}

impl Values {
    fn push(&mut self, stored: &Stored<'_>, severity: Severity, status: u16) {
        self.ty.append_value(stored.ty);
        self.value.append_option(stored.value);
        self.exact.append_option(stored.exact);
        self.string.append_option(stored.string);
        self.elements.append_option(stored.elements.as_deref());
        self.severity.append_value(severity as i16);
        self.status.append_value(i16::try_from(status).unwrap_or(i16::MAX));
    }

    fn fields() -> [(&'static str, DataType); 7] {
        [
            ("type", DataType::Int16),
            ("value", DataType::Float64),
            ("exact", DataType::Int64),
            ("string", DataType::Utf8),
            ("elements", DataType::Binary),
            ("severity", DataType::Int16),
            ("status", DataType::Int16),
        ]
    }

    fn finish(&mut self) -> [ArrayRef; 7] {
        [
            Arc::new(self.ty.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.exact.finish()),
            Arc::new(self.string.finish()),
            Arc::new(self.elements.finish()),
            Arc::new(self.severity.finish()),
            Arc::new(self.status.finish()),
        ]
    }
}

/// Bytes of a sample in the builders, beside texts and waveforms.
const ROW_BYTES: usize = 96;

/// Rows of `samples`.
#[derive(Default)]
pub(crate) struct SampleRows {
    time: TimestampNanosecondBuilder,
    pv: StringBuilder,
    received: TimestampNanosecondBuilder,
    values: Values,
    rows: usize,
    bytes: usize,
}

impl SampleRows {
    /// - `stored`: the value of the sample.
    pub(crate) fn push(&mut self, pv: &str, sample: &Sample, stored: &Stored<'_>, received: Option<Nanos>) {
        self.time.append_value(sample.time);
        self.pv.append_value(pv);
        // Microseconds tell the order of arrival well enough, and take half the space.
        self.received.append_option(received.map(|time| time - time.rem_euclid(1_000)));
        self.values.push(stored, sample.severity, sample.status);
        self.rows += 1;
        self.bytes += ROW_BYTES + pv.len() + stored.varying_bytes();
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let [ty, value, exact, string, elements, severity, status] = Values::fields();
        let time = ("time", instant());
        let pv = ("pv", DataType::Utf8);
        let received = ("received", instant());
        let fields = [time, pv, received, ty, value, exact, string, elements, severity, status];
        (self.rows, self.bytes) = (0, 0);
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish().with_timezone("UTC")),
            Arc::new(self.pv.finish()),
            Arc::new(self.received.finish().with_timezone("UTC")),
        ];
        arrays.extend(self.values.finish());
        RecordBatch::try_new(schema(fields), arrays).map_err(Error::bug)
    }
}

/// Rows of `misdated`.
#[derive(Default)]
pub(crate) struct MisdatedRows {
    time: TimestampNanosecondBuilder,
    pv: StringBuilder,
    reason: StringBuilder,
    stamp: TimestampNanosecondBuilder,
    values: Values,
    rows: usize,
    bytes: usize,
}

impl MisdatedRows {
    /// - `stored`: the value of the sample.
    pub(crate) fn push(&mut self, pv: &str, sample: &Sample, stored: &Stored<'_>, received: Nanos, reason: &str) {
        self.time.append_value(received);
        self.pv.append_value(pv);
        self.reason.append_value(reason);
        self.stamp.append_value(sample.time);
        self.values.push(stored, sample.severity, sample.status);
        self.rows += 1;
        self.bytes += ROW_BYTES + pv.len() + stored.varying_bytes();
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let [ty, value, exact, string, elements, severity, status] = Values::fields();
        let texts = [("pv", DataType::Utf8), ("reason", DataType::Utf8)];
        let [pv, reason] = texts;
        let fields = [
            ("time", instant()),
            pv,
            reason,
            ("stamp", instant()),
            ty,
            value,
            exact,
            string,
            elements,
            severity,
            status,
        ];
        (self.rows, self.bytes) = (0, 0);
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish().with_timezone("UTC")),
            Arc::new(self.pv.finish()),
            Arc::new(self.reason.finish()),
            Arc::new(self.stamp.finish().with_timezone("UTC")),
        ];
        arrays.extend(self.values.finish());
        RecordBatch::try_new(schema(fields), arrays).map_err(Error::bug)
    }
}

/// A row of `gaps`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gap {
    pub(crate) start: Nanos,
    pub(crate) reason: &'static str,
    pub(crate) ended: Option<Nanos>,
    /// Samples that were lost in it, where their number is known.
    pub(crate) samples: Option<i64>,
    pub(crate) detail: Option<String>,
    /// Whether the pair had the samples of it; `None` until it was asked.
    pub(crate) filled: Option<bool>,
}

/// Rows of `gaps`.
#[derive(Default)]
pub(crate) struct GapRows {
    time: TimestampNanosecondBuilder,
    pv: StringBuilder,
    reason: StringBuilder,
    ended: TimestampNanosecondBuilder,
    samples: Int64Builder,
    detail: StringBuilder,
    filled: BooleanBuilder,
    rows: usize,
}

impl GapRows {
    pub(crate) fn push(&mut self, pv: &str, gap: &Gap) {
        self.time.append_value(gap.start);
        self.pv.append_value(pv);
        self.reason.append_value(gap.reason);
        self.ended.append_option(gap.ended);
        self.samples.append_option(gap.samples);
        self.detail.append_option(gap.detail.as_deref());
        self.filled.append_option(gap.filled);
        self.rows += 1;
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let fields = [
            ("time", instant()),
            ("pv", DataType::Utf8),
            ("reason", DataType::Utf8),
            ("ended", instant()),
            ("samples", DataType::Int64),
            ("detail", DataType::Utf8),
            ("filled", DataType::Boolean),
        ];
        self.rows = 0;
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish().with_timezone("UTC")),
            Arc::new(self.pv.finish()),
            Arc::new(self.reason.finish()),
            Arc::new(self.ended.finish().with_timezone("UTC")),
            Arc::new(self.samples.finish()),
            Arc::new(self.detail.finish()),
            Arc::new(self.filled.finish()),
        ];
        RecordBatch::try_new(schema(fields), arrays).map_err(Error::bug)
    }
}

/// A version of a PV's metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    /// From this time on, in whole microseconds.
    pub(crate) since: Nanos,
    /// Type number of the samples.
    pub(crate) ty: i16,
    /// Largest number of elements.
    pub(crate) count: i32,
    /// Address of the server.
    pub(crate) host: String,
    pub(crate) metadata: epics::sample::Metadata,
}

/// Rows of `metadata`.
#[derive(Default)]
pub(crate) struct MetadataRows {
    pv: StringBuilder,
    since: TimestampMicrosecondBuilder,
    ty: Int16Builder,
    count: Int32Builder,
    host: StringBuilder,
    units: StringBuilder,
    precision: Int16Builder,
    limits: [Float64Builder; 8],
    labels: StringBuilder,
    rows: usize,
}

/// Columns of limits, in the order of [`limits`].
pub(crate) const LIMITS: [&str; 8] = ["lopr", "hopr", "lolo", "hihi", "low", "high", "drvl", "drvh"];

fn limits(limits: &Limits) -> [f64; 8] {
    let Limits { display, alarm, warning, control } = *limits;
    [display.0, display.1, alarm.0, alarm.1, warning.0, warning.1, control.0, control.1]
}

/// Columns of limits of `epics.metadata`, for a select list.
pub(crate) fn limit_columns() -> String {
    LIMITS.join(", ")
}

/// Limits of numbers in the order of [`LIMITS`]; NaN where there is none.
pub(crate) fn limits_of(all: [Option<f64>; 8]) -> Limits {
    let pair = |at: usize| (all[at].unwrap_or(f64::NAN), all[at + 1].unwrap_or(f64::NAN));
    Limits { display: pair(0), alarm: pair(2), warning: pair(4), control: pair(6) }
}

impl MetadataRows {
    pub(crate) fn push(&mut self, pv: &str, version: &Version) {
        self.pv.append_value(pv);
        self.since.append_value(version.since.div_euclid(1_000));
        self.ty.append_value(version.ty);
        self.count.append_value(version.count);
        self.host.append_value(&version.host);
        self.units.append_option(version.metadata.units.as_deref());
        self.precision.append_option(version.metadata.precision);
        let limits = version.metadata.limits.as_ref().map(limits);
        for (at, builder) in self.limits.iter_mut().enumerate() {
            builder.append_option(limits.map(|limits| limits[at]));
        }
        let labels = &version.metadata.labels;
        self.labels.append_option((!labels.is_empty()).then(|| serde_json::json!(labels).to_string()));
        self.rows += 1;
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let mut fields: Vec<(&str, DataType)> = vec![
            ("pv", DataType::Utf8),
            ("since", microseconds()),
            ("type", DataType::Int16),
            ("count", DataType::Int32),
            ("host", DataType::Utf8),
            ("units", DataType::Utf8),
            ("precision", DataType::Int16),
        ];
        fields.extend(LIMITS.map(|name| (name, DataType::Float64)));
        fields.push(("labels", DataType::Utf8));
        self.rows = 0;
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.pv.finish()),
            Arc::new(self.since.finish().with_timezone("UTC")),
            Arc::new(self.ty.finish()),
            Arc::new(self.count.finish()),
            Arc::new(self.host.finish()),
            Arc::new(self.units.finish()),
            Arc::new(self.precision.finish()),
        ];
        arrays.extend(self.limits.iter_mut().map(|limit| Arc::new(limit.finish()) as ArrayRef));
        arrays.push(Arc::new(self.labels.finish()));
        let fields: Vec<Field> = fields.into_iter().map(|(name, ty)| Field::new(name, ty, true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)
    }
}

/// A row of `pvs`; its other columns have their defaults.
pub(crate) struct DefinitionRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) method: Option<&'static str>,
    pub(crate) period: Option<f64>,
    pub(crate) policy: Option<&'a str>,
    pub(crate) protocol: &'static str,
    pub(crate) paused: bool,
    pub(crate) enabled_by: Option<&'a str>,
    pub(crate) disabled_by: Option<&'a str>,
    pub(crate) deadband: Option<f64>,
}

/// Rows of `pvs`.
#[derive(Default)]
pub(crate) struct DefinitionRows {
    name: StringBuilder,
    method: StringBuilder,
    period: Float64Builder,
    policy: StringBuilder,
    protocol: StringBuilder,
    paused: BooleanBuilder,
    enabled_by: StringBuilder,
    disabled_by: StringBuilder,
    deadband: Float64Builder,
    rows: usize,
}

impl DefinitionRows {
    pub(crate) fn push(&mut self, row: &DefinitionRow<'_>) {
        self.name.append_value(row.name);
        self.method.append_option(row.method);
        self.period.append_option(row.period);
        self.policy.append_option(row.policy);
        self.protocol.append_value(row.protocol);
        self.paused.append_value(row.paused);
        self.enabled_by.append_option(row.enabled_by);
        self.disabled_by.append_option(row.disabled_by);
        self.deadband.append_option(row.deadband);
        self.rows += 1;
    }

    /// The rows as a batch with its table; none without rows.
    pub(crate) fn finish(mut self) -> Result<Vec<(&'static str, RecordBatch)>> {
        if self.rows == 0 {
            return Ok(Vec::new());
        }
        let text = DataType::Utf8;
        let fields = [
            ("name", text.clone()),
            ("method", text.clone()),
            ("period", DataType::Float64),
            ("policy", text.clone()),
            ("protocol", text.clone()),
            ("paused", DataType::Boolean),
            ("enabled_by", text.clone()),
            ("disabled_by", text),
            ("deadband", DataType::Float64),
        ];
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(self.name.finish()),
            Arc::new(self.method.finish()),
            Arc::new(self.period.finish()),
            Arc::new(self.policy.finish()),
            Arc::new(self.protocol.finish()),
            Arc::new(self.paused.finish()),
            Arc::new(self.enabled_by.finish()),
            Arc::new(self.disabled_by.finish()),
            Arc::new(self.deadband.finish()),
        ];
        Ok(vec![("pvs", RecordBatch::try_new(schema(fields), arrays).map_err(Error::bug)?)])
    }
}

/// Rows that become one commit.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) samples: SampleRows,
    pub(crate) misdated: MisdatedRows,
    pub(crate) gaps: GapRows,
    pub(crate) metadata: MetadataRows,
    /// Requests that wait until the rows are committed.
    pub(crate) waiters: Vec<oneshot::Sender<()>>,
}

impl Pending {
    pub(crate) fn rows(&self) -> usize {
        self.samples.rows + self.misdated.rows + self.gaps.rows + self.metadata.rows
    }

    /// Bytes of samples, about.
    pub(crate) fn bytes(&self) -> usize {
        self.samples.bytes + self.misdated.bytes
    }

    /// The batches, each with its table, and the builders empty again.
    pub(crate) fn finish(&mut self) -> Result<Vec<(&'static str, RecordBatch)>> {
        let mut batches = Vec::new();
        if self.samples.rows > 0 {
            batches.push(("samples", self.samples.finish()?));
        }
        if self.misdated.rows > 0 {
            batches.push(("misdated", self.misdated.finish()?));
        }
        if self.gaps.rows > 0 {
            batches.push(("gaps", self.gaps.finish()?));
        }
        if self.metadata.rows > 0 {
            batches.push(("metadata", self.metadata.finish()?));
        }
        Ok(batches)
    }
}
