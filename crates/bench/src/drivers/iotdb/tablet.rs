//! IoTDB's write requests, encoded directly into the send buffer.
//!
//! A *tablet* is IoTDB's unit of fast writing: rows of one device (or, in the table dialect, of one
//! table) in columns. The values are one binary: the values of each column, big-endian and without
//! headers; then, only if there are nulls, for each column a byte whether it has nulls, followed if
//! so by a bitmap (`rows / 8 + 1` bytes, first row in the lowest bit, 1 for null). A null has a
//! place among the values; its content is ignored.
//!
//! A *record* is one row: for each non-null column its name, a type byte and the value.
//!
//! The fields that the caller fills in are written last; Thrift allows any order. Names and types
//! are encoded once, in a [`Layout`], and copied into each request.
//!
//! The session ID is first and has a fixed width, so that it can be replaced later ([`restamp`]).
//!
//! Cost of a tablet: one pass over the values, two for columns with nulls; no allocation once the
//! buffer has grown.

use super::thrift::{Kind, Open, Protocol, Writer, close_bytes};
use super::tsblock::Cell;
use super::types::{Category, DataType};

/// Encoded columns of a device or table, as requests repeat them.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    protocol: Protocol,
    kinds: Vec<DataType>,
    /// `list<string>` of names.
    names: Vec<u8>,
    /// Ends of the names in it; the first element is the end of the list header.
    name_ends: Vec<usize>,
    types: Vec<u8>,
    /// `list<byte>` of categories; only in the table dialect.
    categories: Option<Vec<u8>>,
    aligned: bool,
}

impl Layout {
    /// Columns of a device in the tree dialect. `aligned` must be as its series were created.
    pub(crate) fn of_device(protocol: Protocol, columns: &[(&str, DataType)], aligned: bool) -> Layout {
        let (mut names, mut types, mut name_ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut writer = Writer::resume(&mut names, protocol, 0);
        writer.list(Kind::Bytes, columns.len());
        name_ends.push(writer.out.len());
        for (name, _) in columns {
            writer.bytes(name.as_bytes());
            name_ends.push(writer.out.len());
        }
        let mut writer = Writer::resume(&mut types, protocol, 0);
        writer.list(Kind::I32, columns.len());
        columns.iter().for_each(|(_, kind)| writer.i32(*kind as i32));
        Layout {
            protocol,
            kinds: columns.iter().map(|column| column.1).collect(),
            names,
            name_ends,
            types,
            categories: None,
            aligned,
        }
    }

    /// Columns of a table, in the order of their values.
    pub(crate) fn of_table(protocol: Protocol, columns: &[(&str, DataType, Category)]) -> Layout {
        let plain: Vec<(&str, DataType)> = columns.iter().map(|(name, kind, _)| (*name, *kind)).collect();
        let mut categories = Vec::new();
        let mut writer = Writer::resume(&mut categories, protocol, 0);
        writer.list(Kind::Byte, columns.len());
        writer.out.extend(columns.iter().map(|column| column.2 as u8));
        Layout { categories: Some(categories), ..Layout::of_device(protocol, &plain, false) }
    }

    /// Starts a tablet of `rows` rows at the end of `out`. `target` is the path of the device or
    /// the name of the table.
    ///
    /// The caller appends the times, then each column, each with `rows` values; `finish` completes
    /// the frame.
    pub(crate) fn tablet<'a>(&'a self, out: &'a mut Vec<u8>, session: i64, target: &str, rows: usize) -> Tablet<'a> {
        let start = begin_frame(out);
        let mut writer = Writer::request(out, self.protocol, "insertTablet");
        writer.fixed_i64_field(1, session);
        writer.bytes_field(2, target.as_bytes());
        writer.field(3, Kind::List);
        writer.out.extend(&self.names);
        writer.field(6, Kind::List);
        writer.out.extend(&self.types);
        writer.i32_field(7, rows as i32);
        writer.bool_field(8, self.aligned);
        if let Some(categories) = &self.categories {
            writer.bool_field(9, true);
            writer.field(10, Kind::List);
            writer.out.extend(categories);
        }
        // The values are field 4, but the times are known first.
        writer.field(5, Kind::Bytes);
        writer.length(8 * rows);
        Tablet { columns: Columns::new(out, self, rows), start, values: None }
    }

    /// Starts a request with one tablet for each of `targets`, each of `rows` rows.
    pub(crate) fn tablets<'a>(
        &'a self,
        out: &'a mut Vec<u8>,
        session: i64,
        targets: &[&str],
        rows: usize,
    ) -> Tablets<'a> {
        let start = begin_frame(out);
        let mut writer = Writer::request(out, self.protocol, "insertTablets");
        writer.fixed_i64_field(1, session);
        writer.list_field(2, Kind::Bytes, targets.len());
        targets.iter().for_each(|target| writer.bytes(target.as_bytes()));
        writer.list_field(3, Kind::List, targets.len());
        targets.iter().for_each(|_| writer.out.extend(&self.names));
        writer.list_field(6, Kind::List, targets.len());
        targets.iter().for_each(|_| writer.out.extend(&self.types));
        writer.list_field(7, Kind::I32, targets.len());
        targets.iter().for_each(|_| writer.i32(rows as i32));
        writer.bool_field(8, self.aligned);
        writer.list_field(5, Kind::Bytes, targets.len());
        let first_times = writer.out.len();
        for _ in targets {
            writer.length(8 * rows);
            writer.out.resize(writer.out.len() + 8 * rows, 0);
        }
        let times_step = (writer.out.len() - first_times) / targets.len().max(1);
        writer.list_field(4, Kind::Bytes, targets.len());
        Tablets { out, layout: self, start, rows, next_times: first_times + times_step - 8 * rows, times_step }
    }

    /// Encodes a request with one row of `target`; at least one cell must not be null.
    pub(crate) fn record<'a>(
        &self,
        out: &mut Vec<u8>,
        session: i64,
        target: &str,
        time: i64,
        row: impl Iterator<Item = Cell<'a>> + Clone,
    ) {
        let start = begin_frame(out);
        let mut writer = Writer::request(out, self.protocol, "insertRecord");
        writer.fixed_i64_field(1, session);
        writer.bytes_field(2, target.as_bytes());
        writer.field(3, Kind::List);
        self.row_names(&mut writer, row.clone());
        writer.i64_field(5, time);
        writer.bool_field(6, self.aligned);
        writer.field(4, Kind::Bytes);
        self.row(&mut writer, row);
        end_frame(out, start);
    }

    /// Encodes a request with many rows, each with its device and time in `keys`.
    pub(crate) fn records<'a, Row: Iterator<Item = Cell<'a>> + Clone>(
        &self,
        out: &mut Vec<u8>,
        session: i64,
        keys: &[(&str, i64)],
        rows: impl Iterator<Item = Row> + Clone,
    ) {
        let start = begin_frame(out);
        let mut writer = Writer::request(out, self.protocol, "insertRecords");
        writer.fixed_i64_field(1, session);
        writer.list_field(2, Kind::Bytes, keys.len());
        keys.iter().for_each(|(target, _)| writer.bytes(target.as_bytes()));
        self.many_rows(&mut writer, keys.len(), keys.iter().map(|key| key.1), rows);
        end_frame(out, start);
    }

    /// Like `records`, for rows of one device; `times` must not decrease.
    pub(crate) fn records_of_one_device<'a, Row: Iterator<Item = Cell<'a>> + Clone>(
        &self,
        out: &mut Vec<u8>,
        session: i64,
        target: &str,
        times: &[i64],
        rows: impl Iterator<Item = Row> + Clone,
    ) {
        let start = begin_frame(out);
        let mut writer = Writer::request(out, self.protocol, "insertRecordsOfOneDevice");
        writer.fixed_i64_field(1, session);
        writer.bytes_field(2, target.as_bytes());
        self.many_rows(&mut writer, times.len(), times.iter().copied(), rows);
        end_frame(out, start);
    }

    /// Writes fields 3 to 6 of both requests with many rows: names and values of each row, times,
    /// alignment.
    fn many_rows<'a, Row: Iterator<Item = Cell<'a>> + Clone>(
        &self,
        writer: &mut Writer<'_>,
        count: usize,
        times: impl Iterator<Item = i64>,
        rows: impl Iterator<Item = Row> + Clone,
    ) {
        writer.list_field(3, Kind::List, count);
        rows.clone().for_each(|row| self.row_names(writer, row));
        writer.list_field(4, Kind::Bytes, count);
        let mut written = 0;
        for row in rows {
            self.row(writer, row);
            written += 1;
        }
        assert!(written == count, "BUG: {written} rows for {count} times");
        writer.list_field(5, Kind::I64, count);
        times.for_each(|time| writer.i64(time));
        writer.bool_field(6, self.aligned);
    }

    /// Writes the names of the non-null cells: records represent nulls by omission.
    fn row_names<'a>(&self, writer: &mut Writer<'_>, row: impl Iterator<Item = Cell<'a>> + Clone) {
        let present = row.clone().filter(|cell| *cell != Cell::Null).count();
        if present == self.kinds.len() {
            return writer.out.extend(&self.names);
        }
        writer.list(Kind::Bytes, present);
        for (cell, span) in row.zip(self.name_ends.windows(2)) {
            if cell != Cell::Null {
                writer.out.extend(&self.names[span[0]..span[1]]);
            }
        }
    }

    fn row<'a>(&self, writer: &mut Writer<'_>, row: impl Iterator<Item = Cell<'a>>) {
        let open = writer.begin_bytes();
        let mut seen = 0;
        for (cell, kind) in row.zip(&self.kinds) {
            seen += 1;
            if cell == Cell::Null {
                continue;
            }
            let out = &mut *writer.out;
            out.push(*kind as u8);
            match cell {
                Cell::Null => {}
                Cell::Bool(value) => out.push(u8::from(value)),
                Cell::Int32(value) => out.extend(value.to_be_bytes()),
                Cell::Int64(value) => out.extend(value.to_be_bytes()),
                Cell::Float(value) => out.extend(value.to_be_bytes()),
                Cell::Double(value) => out.extend(value.to_be_bytes()),
                Cell::Bytes(value) => {
                    out.extend((value.len() as u32).to_be_bytes());
                    out.extend(value);
                }
            }
        }
        assert!(seen == self.kinds.len(), "BUG: a record of {seen} values for {} columns", self.kinds.len());
        writer.end_bytes(open);
    }
}

/// A tablet under construction.
pub(crate) struct Tablet<'a> {
    columns: Columns<'a>,
    start: usize,
    values: Option<Open>,
}

impl<'a> Tablet<'a> {
    /// Writes the times of all rows; returns the columns to fill.
    pub(crate) fn times(&mut self, times: impl ExactSizeIterator<Item = i64>) -> &mut Columns<'a> {
        assert!(
            self.values.is_none() && times.len() == self.columns.rows,
            "BUG: times of a tablet not once for all rows"
        );
        append(self.columns.out, times.map(i64::to_be_bytes));
        let mut writer = Writer::resume(self.columns.out, self.columns.layout.protocol, 5);
        writer.field(4, Kind::Bytes);
        self.values = Some(writer.begin_bytes());
        &mut self.columns
    }

    /// Completes the frame.
    pub(crate) fn finish(mut self) {
        self.columns.end();
        if let Some(open) = self.values.take() {
            close_bytes(self.columns.out, self.columns.layout.protocol, open);
        }
        end_frame(self.columns.out, self.start);
    }
}

/// Several tablets under construction, in the order of their targets.
pub(crate) struct Tablets<'a> {
    out: &'a mut Vec<u8>,
    layout: &'a Layout,
    start: usize,
    rows: usize,
    /// Position of the next tablet's times, and the distance between two tablets' times.
    next_times: usize,
    times_step: usize,
}

impl Tablets<'_> {
    /// Writes the next tablet; `fill` writes all its columns.
    pub(crate) fn tablet(&mut self, times: impl ExactSizeIterator<Item = i64>, fill: impl FnOnce(&mut Columns<'_>)) {
        assert!(times.len() == self.rows, "BUG: times of a tablet not for all rows");
        let places = self.out[self.next_times..self.next_times + 8 * self.rows].chunks_exact_mut(8);
        places.zip(times).for_each(|(place, time)| place.copy_from_slice(&time.to_be_bytes()));
        self.next_times += self.times_step;
        let open = Writer::resume(self.out, self.layout.protocol, 0).begin_bytes();
        let mut columns = Columns::new(self.out, self.layout, self.rows);
        fill(&mut columns);
        columns.end();
        close_bytes(self.out, self.layout.protocol, open);
    }

    /// Completes the frame.
    pub(crate) fn finish(self) {
        end_frame(self.out, self.start);
    }
}

/// Values of a tablet, column by column, each in one or several pieces.
pub(crate) struct Columns<'a> {
    out: &'a mut Vec<u8>,
    layout: &'a Layout,
    rows: usize,
    /// Current column, and number of its rows that are filled.
    column: usize,
    filled: usize,
    /// Bitmaps of the columns with nulls.
    nulls: Vec<(usize, Vec<u8>)>,
}

impl<'a> Columns<'a> {
    fn new(out: &'a mut Vec<u8>, layout: &'a Layout, rows: usize) -> Columns<'a> {
        Columns { out, layout, rows, column: 0, filled: 0, nulls: Vec::new() }
    }

    /// Values of a BOOLEAN column.
    pub(crate) fn bools(&mut self, values: impl ExactSizeIterator<Item = bool>) {
        self.piece(&[DataType::Boolean], values.map(|value| [u8::from(value)]));
    }

    /// Values of an INT32 or DATE column.
    pub(crate) fn int32s(&mut self, values: impl ExactSizeIterator<Item = i32>) {
        self.piece(&[DataType::Int32, DataType::Date], values.map(i32::to_be_bytes));
    }

    /// Values of an INT64 or TIMESTAMP column.
    pub(crate) fn int64s(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        self.piece(&[DataType::Int64, DataType::Timestamp], values.map(i64::to_be_bytes));
    }

    /// Values of a FLOAT column.
    pub(crate) fn floats(&mut self, values: impl ExactSizeIterator<Item = f32>) {
        self.piece(&[DataType::Float], values.map(f32::to_be_bytes));
    }

    /// Values of a DOUBLE column.
    pub(crate) fn doubles(&mut self, values: impl ExactSizeIterator<Item = f64>) {
        self.piece(&[DataType::Double], values.map(f64::to_be_bytes));
    }

    /// Values of a TEXT, STRING or BLOB column: `append` appends the bytes of each.
    pub(crate) fn bytes<T>(&mut self, values: impl ExactSizeIterator<Item = T>, append: impl Fn(T, &mut Vec<u8>)) {
        self.advance(&[DataType::Text, DataType::String, DataType::Blob], values.len());
        for value in values {
            let at = self.out.len();
            self.out.extend([0; 4]);
            append(value, self.out);
            let length = (self.out.len() - at - 4) as u32;
            self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Marks a value as null; its bytes are ignored.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "no workload has nulls yet; the format is implemented and tested")
    )]
    pub(crate) fn null(&mut self, column: usize, row: usize) {
        assert!(column < self.layout.kinds.len() && row < self.rows, "BUG: a null outside the tablet");
        if self.nulls.last().is_none_or(|(last, _)| *last != column) {
            assert!(self.nulls.last().is_none_or(|(last, _)| *last < column), "BUG: nulls not in the order of columns");
            self.nulls.push((column, vec![0; self.rows / 8 + 1]));
        }
        if let Some((_, bitmap)) = self.nulls.last_mut() {
            bitmap[row / 8] |= 1 << (row % 8);
        }
    }

    fn piece<const N: usize>(&mut self, kinds: &[DataType], values: impl ExactSizeIterator<Item = [u8; N]>) {
        self.advance(kinds, values.len());
        append(self.out, values);
    }

    fn advance(&mut self, kinds: &[DataType], rows: usize) {
        let kind = self.layout.kinds.get(self.column);
        assert!(kind.is_some_and(|kind| kinds.contains(kind)), "BUG: values of {kinds:?} for a column of {kind:?}");
        self.filled += rows;
        assert!(self.filled <= self.rows, "BUG: {} values for {} rows", self.filled, self.rows);
        if self.filled == self.rows {
            (self.column, self.filled) = (self.column + 1, 0);
        }
    }

    /// Writes the bitmaps if there are nulls.
    fn end(&mut self) {
        let columns = self.layout.kinds.len();
        assert!(self.column == columns, "BUG: {} of {columns} columns filled", self.column);
        if self.nulls.is_empty() {
            return;
        }
        let mut nulls = self.nulls.iter().peekable();
        for column in 0..columns {
            match nulls.next_if(|(of, _)| *of == column) {
                None => self.out.push(0),
                Some((_, bitmap)) => {
                    self.out.push(1);
                    self.out.extend(bitmap);
                }
            }
        }
    }
}

/// Resizes first, so that the loop over the values has no capacity checks and is vectorised.
fn append<const N: usize>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = [u8; N]>) {
    let at = out.len();
    out.resize(at + N * values.len(), 0);
    out[at..].chunks_exact_mut(N).zip(values).for_each(|(place, value)| place.copy_from_slice(&value));
}

/// Replaces the session ID in all frames of requests to `method`, so that encoded requests can be
/// sent again after a session is lost.
pub(crate) fn restamp(frames: &mut [u8], protocol: Protocol, method: &str, session: i64) {
    let mut head = Vec::new();
    begin_frame(&mut head);
    Writer::request(&mut head, protocol, method).field(1, Kind::I64);
    let at = head.len();
    let (mut number, mut start) = (Vec::new(), 0);
    Writer::resume(&mut number, protocol, 0).fixed_i64(session);
    while let Some(length) = frames[start..].first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        frames[start + at..start + at + number.len()].copy_from_slice(&number);
        start += 4 + length;
    }
}

/// Reserves the length of a frame.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend([0; 4]);
    start
}

/// Ends the request struct, the argument struct and the frame.
pub(crate) fn end_frame(out: &mut Vec<u8>, start: usize) {
    out.extend([0, 0]);
    close_frame(out, start);
}

/// Fills in the length of a frame.
pub(crate) fn close_frame(out: &mut [u8], start: usize) {
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
