//! Encodes batches as write requests.

use std::collections::HashMap;

use super::answer::date_of;
use super::rpc::Dialect;
use super::tablet::{Columns, Layout, restamp};
use super::thrift::Protocol;
use super::tsblock::Cell;
use super::types::{Category, DataType};
use super::{Shared, data_type};
use crate::schema::{Batch, Field, Kind, POWERS, Part, text_of};

/// Write method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Columns of rows: `insertTablet`, and `insertTablets` for several devices in a batch.
    Tablet,
    /// One request per row: `insertRecord`.
    Record,
    /// One request per batch, row by row: `insertRecords`, and `insertRecordsOfOneDevice` for a
    /// single device.
    Records,
}

impl Method {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Method::Tablet => "a tablet a request",
            Method::Record => "a record a request",
            Method::Records => "a batch of records a request",
        }
    }
}

/// The encoded requests of a batch.
#[derive(Default)]
pub(crate) struct Writes {
    /// Consecutive frames, all of one RPC method.
    frames: Vec<u8>,
    method: &'static str,
    /// Session ID in the frames.
    session: i64,
    table: Option<u32>,
    /// Encoded columns by table and field range. Sensors that are not aligned have one per field.
    layouts: HashMap<(u32, u32, u32), Layout>,
    /// Rows sorted by time, if the batch is not.
    sorted: Vec<Part>,
    /// Texts of a batch of records: column by column, row by row.
    texts: Vec<u8>,
}

impl Writes {
    /// Table of the encoded batch.
    pub(crate) fn table(&self) -> Option<u32> {
        self.table
    }

    /// Method and frames, with the ID of the session that sends them.
    pub(crate) fn for_session(&mut self, protocol: Protocol, session: i64) -> (&'static str, &[u8]) {
        if self.session != session {
            restamp(&mut self.frames, protocol, self.method, session);
            self.session = session;
        }
        (self.method, &self.frames)
    }

    /// Encodes a batch, replacing the previous one, with the last session's ID.
    pub(crate) fn encode(&mut self, shared: &Shared, batch: &Batch) {
        self.frames.clear();
        self.table = Some(batch.table);
        let key = (batch.table, batch.fields.start, batch.fields.end);
        let layout = self.layouts.entry(key).or_insert_with(|| layout(shared, batch));
        let table = &shared.schema.tables[batch.table as usize];
        let fields = &table.fields[batch.fields.start as usize..batch.fields.end as usize];
        let parts = in_order(&batch.parts, &mut self.sorted);
        let mut request = Request { shared, layout, fields, session: self.session, out: &mut self.frames };
        self.method = match (shared.dialect, shared.method) {
            (Dialect::Table, _) => request.table_tablet(&shared.names.targets[batch.table as usize], parts),
            (Dialect::Tree, Method::Tablet) => request.tablets(parts),
            (Dialect::Tree, Method::Record) => request.record_each(parts, &mut self.texts),
            (Dialect::Tree, Method::Records) => request.records(parts, &mut self.texts),
        };
    }
}

fn layout(shared: &Shared, batch: &Batch) -> Layout {
    let table = &shared.schema.tables[batch.table as usize];
    let columns = &table.fields[batch.fields.start as usize..batch.fields.end as usize];
    match shared.dialect {
        Dialect::Tree => {
            let names = &shared.names.fields[batch.table as usize][batch.fields.start as usize..];
            let columns: Vec<(&str, DataType)> =
                names.iter().zip(columns).map(|(name, field)| (name.as_str(), data_type(field.kind))).collect();
            Layout::of_device(shared.protocol, &columns, shared.aligned)
        }
        // Requests have unquoted names in this dialect.
        Dialect::Table => {
            let tags = table.tags.iter().map(|tag| (tag.as_str(), DataType::String, Category::Tag));
            let fields = columns.iter().map(|field| (field.name.as_str(), data_type(field.kind), Category::Field));
            Layout::of_table(shared.protocol, &tags.chain(fields).collect::<Vec<_>>())
        }
    }
}

/// Sorts the rows of the parts by time, as IoTDB's own clients do before sending.
fn in_order<'a>(parts: &'a [Part], sorted: &'a mut Vec<Part>) -> &'a [Part] {
    if parts.iter().all(|part| part.times.is_sorted()) {
        return parts;
    }
    sorted.clear();
    sorted.extend(parts.iter().map(|part| {
        let mut order: Vec<usize> = (0..part.times.len()).collect();
        order.sort_by_key(|row| part.times[*row]);
        let columns = part.units.len() / part.times.len().max(1);
        let column = |column| order.iter().map(move |row| part.unit(column, *row));
        Part {
            device: part.device,
            times: order.iter().map(|row| part.times[*row]).collect(),
            units: (0..columns).flat_map(column).collect(),
        }
    }));
    sorted
}

/// A batch that is being encoded.
struct Request<'a> {
    shared: &'a Shared,
    layout: &'a Layout,
    fields: &'a [Field],
    session: i64,
    out: &'a mut Vec<u8>,
}

impl Request<'_> {
    fn path(&self, part: &Part) -> &str {
        &self.shared.names.devices[part.device as usize]
    }

    fn tablets(&mut self, parts: &[Part]) -> &'static str {
        let rows = parts.first().map_or(0, |part| part.times.len());
        if parts.len() > 1 && parts.iter().all(|part| part.times.len() == rows) {
            let shared = self.shared;
            let paths: Vec<&str> =
                parts.iter().map(|part| shared.names.devices[part.device as usize].as_str()).collect();
            let mut tablets = self.layout.tablets(self.out, self.session, &paths, rows);
            for part in parts {
                tablets.tablet(part.times.iter().copied(), |columns| {
                    self.fields
                        .iter()
                        .enumerate()
                        .for_each(|(index, field)| fill(columns, field.kind, part.column(index)));
                });
            }
            tablets.finish();
            return "insertTablets";
        }
        for part in parts {
            let path = &self.shared.names.devices[part.device as usize];
            let mut tablet = self.layout.tablet(self.out, self.session, path, part.times.len());
            let columns = tablet.times(part.times.iter().copied());
            self.fields.iter().enumerate().for_each(|(index, field)| fill(columns, field.kind, part.column(index)));
            tablet.finish();
        }
        "insertTablet"
    }

    /// Encodes one tablet of all devices, with their names as a column.
    fn table_tablet(&mut self, table: &str, parts: &[Part]) -> &'static str {
        let rows = parts.iter().map(|part| part.times.len()).sum();
        let mut tablet = self.layout.tablet(self.out, self.session, table, rows);
        let times: Vec<i64> = match parts {
            [_] => Vec::new(),
            parts => parts.iter().flat_map(|part| part.times.iter().copied()).collect(),
        };
        let columns = match parts {
            [part] => tablet.times(part.times.iter().copied()),
            _ => tablet.times(times.into_iter()),
        };
        let tags = parts.first().map_or(0, |part| self.shared.schema.devices[part.device as usize].tags.len());
        for tag in 0..tags {
            for part in parts {
                let name = self.shared.schema.devices[part.device as usize].tags[tag].as_bytes();
                columns.bytes(0..part.times.len(), |_, out| out.extend_from_slice(name));
            }
        }
        for (index, field) in self.fields.iter().enumerate() {
            parts.iter().for_each(|part| fill(columns, field.kind, part.column(index)));
        }
        tablet.finish();
        "insertTablet"
    }

    fn record_each(&mut self, parts: &[Part], texts: &mut Vec<u8>) -> &'static str {
        for part in parts {
            texts.clear();
            append_texts(self.fields, part, texts);
            for (row, time) in part.times.iter().enumerate() {
                let path = &self.shared.names.devices[part.device as usize];
                self.layout.record(self.out, self.session, path, *time, cells(self.fields, part, row, texts, 0));
            }
        }
        "insertRecord"
    }

    fn records(&mut self, parts: &[Part], texts: &mut Vec<u8>) -> &'static str {
        texts.clear();
        let starts: Vec<usize> = parts
            .iter()
            .map(|part| {
                let start = texts.len();
                append_texts(self.fields, part, texts);
                start
            })
            .collect();
        let (fields, texts) = (self.fields, &texts[..]);
        if let [part] = parts {
            let rows = (0..part.times.len()).map(|row| cells(fields, part, row, texts, 0));
            let path = self.path(part).to_owned();
            self.layout.records_of_one_device(self.out, self.session, &path, &part.times, rows);
            return "insertRecordsOfOneDevice";
        }
        let shared = self.shared;
        let path = |part: &Part| shared.names.devices[part.device as usize].as_str();
        let keys: Vec<(&str, i64)> =
            parts.iter().flat_map(|part| part.times.iter().map(move |time| (path(part), *time))).collect();
        let rows = parts
            .iter()
            .zip(&starts)
            .flat_map(|(part, start)| (0..part.times.len()).map(move |row| cells(fields, part, row, texts, *start)));
        self.layout.records(self.out, self.session, &keys, rows);
        "insertRecords"
    }
}

/// Writes one column of a tablet.
fn fill(columns: &mut Columns<'_>, kind: Kind, units: &[i64]) {
    let units = units.iter().copied();
    match kind {
        Kind::Bool => columns.bools(units.map(|unit| unit != 0)),
        Kind::Int32 => columns.int32s(units.map(|unit| unit as i32)),
        Kind::Int64 | Kind::Timestamp => columns.int64s(units),
        Kind::Float { decimals } => {
            let power = POWERS[usize::from(decimals)];
            columns.floats(units.map(|unit| (unit as f64 / power) as f32));
        }
        Kind::Double { decimals } => {
            let power = POWERS[usize::from(decimals)];
            columns.doubles(units.map(|unit| unit as f64 / power));
        }
        Kind::Date => columns.int32s(units.map(date_of)),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            columns.bytes(units, |unit, out| text_of(unit, length, out));
        }
    }
}

/// Appends the texts of a part: column by column, row by row, without lengths.
fn append_texts(fields: &[Field], part: &Part, out: &mut Vec<u8>) {
    for (index, field) in fields.iter().enumerate() {
        if let Some(length) = field.kind.text_length() {
            part.column(index).iter().for_each(|unit| text_of(*unit, length, out));
        }
    }
}

/// Cells of one row of a part, whose texts start at `start` in `texts`.
fn cells<'a>(
    fields: &'a [Field],
    part: &'a Part,
    row: usize,
    texts: &'a [u8],
    start: usize,
) -> impl Iterator<Item = Cell<'a>> + Clone {
    let mut at = start;
    fields.iter().enumerate().map(move |(index, field)| {
        let unit = part.unit(index, row);
        match field.kind {
            Kind::Bool => Cell::Bool(unit != 0),
            Kind::Int32 => Cell::Int32(unit as i32),
            Kind::Int64 | Kind::Timestamp => Cell::Int64(unit),
            kind @ Kind::Float { .. } => Cell::Float(kind.number(unit) as f32),
            kind @ Kind::Double { .. } => Cell::Double(kind.number(unit)),
            Kind::Date => Cell::Int32(date_of(unit)),
            Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
                let length = usize::from(length);
                let column = at;
                at += part.times.len() * length;
                Cell::Bytes(&texts[column + row * length..column + (row + 1) * length])
            }
        }
    })
}
