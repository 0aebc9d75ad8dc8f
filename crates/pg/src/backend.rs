//! Messages from the server: each function appends one message to `out`.
//!
//! No function allocates if `out` has room. Counts and lengths cannot exceed the protocol's limits:
//! the SQL layer limits columns to 4,096, [`model::limits`] limits values, and [`Row::finish`]
//! checks rows.

use model::{Error, Part, Subject};

use crate::types::{Form, Oid};
use crate::value::uint_text;

/// Transaction status in ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No transaction is open.
    Idle,
    /// Inside a transaction.
    InTransaction,
    /// In a failed transaction: only ROLLBACK is accepted.
    Failed,
}

impl Status {
    fn code(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        }
    }
}

/// Severity of an error or notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Information.
    Notice,
    /// A likely problem.
    Warning,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// One column of a RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The column's name.
    pub name: &'a str,
    /// OID of the table it comes from; 0 if none.
    pub table: Oid,
    /// Attribute number in that table; 0 if none.
    pub column: i16,
    /// OID of its type.
    pub ty: Oid,
    /// Bytes of the type; -1 if variable.
    pub len: i16,
    /// Type modifier (precision, length); -1 if none.
    pub modifier: i32,
    /// Format of the values.
    pub form: Form,
}

/// Appends a message with the body that `body` writes, and patches its length.
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    patch_len(out, start, 0);
}

/// Writes at `start` the number of bytes after `start`, minus `less`. With `less` 0 the count
/// includes the length field itself.
fn patch_len(out: &mut [u8], start: usize, less: usize) {
    let length = (out.len() - start - less) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a C string. Zero bytes in the text would end it early and are dropped.
fn text(out: &mut Vec<u8>, text: &str) {
    if text.contains('\0') {
        out.extend(text.bytes().filter(|byte| *byte != 0));
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(0);
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
}

/// AuthenticationCleartextPassword.
pub fn authentication_cleartext(out: &mut Vec<u8>) {
    message(out, b'R', |out| out.extend_from_slice(&3u32.to_be_bytes()));
}

/// AuthenticationSASL with the mechanisms offered, in order of preference.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&10u32.to_be_bytes());
        for mechanism in mechanisms {
            text(out, mechanism);
        }
        out.push(0);
    });
}

/// AuthenticationSASLContinue with the server's first message.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&11u32.to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// AuthenticationSASLFinal with the server's final message.
pub fn authentication_sasl_final(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&12u32.to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// NegotiateProtocolVersion: the newest minor version supported, and the unsupported `_pq_.`
/// options.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, minor: u32, unknown: &[&str]) {
    message(out, b'v', |out| {
        out.extend_from_slice(&minor.to_be_bytes());
        out.extend_from_slice(&(unknown.len() as u32).to_be_bytes());
        unknown.iter().for_each(|name| text(out, name));
    });
}

/// BackendKeyData: process id and secret that a CancelRequest must repeat.
pub fn backend_key_data(out: &mut Vec<u8>, process: u32, secret: u32) {
    message(out, b'K', |out| {
        out.extend_from_slice(&process.to_be_bytes());
        out.extend_from_slice(&secret.to_be_bytes());
    });
}

/// ParameterStatus: a setting that drivers track.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

/// NotificationResponse: a notification that the session `process` sent.
pub fn notification(out: &mut Vec<u8>, process: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        out.extend_from_slice(&process.to_be_bytes());
        text(out, channel);
        text(out, payload);
    });
}

/// ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: Status) {
    message(out, b'Z', |out| out.push(status.code()));
}

/// RowDescription.
pub fn row_description<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = Field<'a>>) {
    message(out, b'T', |out| {
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut count = 0u16;
        for field in fields {
            count += 1;
            text(out, field.name);
            out.extend_from_slice(&field.table.to_be_bytes());
            out.extend_from_slice(&field.column.to_be_bytes());
            out.extend_from_slice(&field.ty.to_be_bytes());
            out.extend_from_slice(&field.len.to_be_bytes());
            out.extend_from_slice(&field.modifier.to_be_bytes());
            out.extend_from_slice(&field.form.code().to_be_bytes());
        }
        out[start..start + 2].copy_from_slice(&count.to_be_bytes());
    });
}

/// ParameterDescription.
pub fn parameter_description(out: &mut Vec<u8>, types: impl ExactSizeIterator<Item = Oid>) {
    message(out, b't', |out| {
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.for_each(|ty| out.extend_from_slice(&ty.to_be_bytes()));
    });
}

/// CommandComplete with its tag, `INSERT 0 3`.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| text(out, tag));
}

/// CommandComplete with a tag that ends with a row count.
pub fn command_complete_rows(out: &mut Vec<u8>, words: &str, rows: u64) {
    message(out, b'C', |out| {
        out.extend_from_slice(words.as_bytes());
        out.push(b' ');
        uint_text(out, rows);
        out.push(0);
    });
}

/// ErrorResponse or NoticeResponse, by severity, with the fields S V C M D H W P and, for the
/// object concerned, s t c n.
pub fn error(out: &mut Vec<u8>, severity: Severity, error: &Error) {
    let tag = if matches!(severity, Severity::Error | Severity::Fatal) { b'E' } else { b'N' };
    message(out, tag, |out| {
        let mut field = |code: u8, value: &str| {
            out.push(code);
            text(out, value);
        };
        field(b'S', severity.text());
        field(b'V', severity.text());
        field(b'C', error.state().0);
        field(b'M', error.message());
        if let Some(detail) = error.detail() {
            field(b'D', detail);
        }
        if let Some(hint) = error.hint() {
            field(b'H', hint);
        }
        if let Some(place) = error.place() {
            field(b'W', place);
        }
        if let Some(position) = error.position() {
            out.push(b'P');
            crate::value::int_text(out, i64::from(position));
            out.push(0);
        }
        if let Some(Subject { table, part }) = error.subject() {
            let (code, name) = match part {
                Part::Column(name) => (b'c', name),
                Part::Constraint(name) => (b'n', name),
            };
            for (code, value) in [(b's', &table.schema), (b't', &table.table), (code, name)] {
                out.push(code);
                text(out, value);
            }
        }
        out.push(0);
    });
}

/// ParseComplete.
pub fn parse_complete(out: &mut Vec<u8>) {
    message(out, b'1', |_| ());
}

/// BindComplete.
pub fn bind_complete(out: &mut Vec<u8>) {
    message(out, b'2', |_| ());
}

/// CloseComplete.
pub fn close_complete(out: &mut Vec<u8>) {
    message(out, b'3', |_| ());
}

/// NoData: the statement returns no rows.
pub fn no_data(out: &mut Vec<u8>) {
    message(out, b'n', |_| ());
}

/// PortalSuspended: the row limit was reached and the portal may have more.
pub fn portal_suspended(out: &mut Vec<u8>) {
    message(out, b's', |_| ());
}

/// EmptyQueryResponse.
pub fn empty_query_response(out: &mut Vec<u8>) {
    message(out, b'I', |_| ());
}

/// Direction of COPY data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// From the client.
    In,
    /// To the client.
    Out,
    /// In both directions (replication).
    Both,
}

/// CopyInResponse, CopyOutResponse or CopyBothResponse; all `columns` have the same format.
pub fn copy_response(out: &mut Vec<u8>, direction: CopyDirection, form: Form, columns: usize) {
    let tag = match direction {
        CopyDirection::In => b'G',
        CopyDirection::Out => b'H',
        CopyDirection::Both => b'W',
    };
    message(out, tag, |out| {
        out.push(form.code() as u8);
        out.extend_from_slice(&(columns as u16).to_be_bytes());
        for _ in 0..columns {
            out.extend_from_slice(&form.code().to_be_bytes());
        }
    });
}

/// CopyData with the content that `body` writes.
pub fn copy_data(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'd', body);
}

/// CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    message(out, b'c', |_| ());
}

/// Writer of one DataRow, value by value.
///
/// Dropping it before [`Row::finish`] leaves half a message in the buffer; [`Row::abandon`] removes
/// it.
#[must_use = "a row is complete only after finish"]
pub struct Row<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

/// Starts a DataRow of `columns` values.
pub fn data_row(out: &mut Vec<u8>, columns: usize) -> Row<'_> {
    let start = out.len() + 1;
    out.extend_from_slice(&[b'D', 0, 0, 0, 0]);
    out.extend_from_slice(&(columns as u16).to_be_bytes());
    Row { out, start }
}

impl Row<'_> {
    /// Appends NULL.
    pub fn null(&mut self) {
        self.out.extend_from_slice(&(-1i32).to_be_bytes());
    }

    /// Appends the value that `write` produces.
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        value(self.out, write);
    }

    /// The output buffer, for writers that append length and value themselves (see [`value`]).
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Completes the message.
    pub fn finish(self) {
        patch_len(self.out, self.start, 0);
    }

    /// Removes the incomplete row after an error.
    pub fn abandon(self) {
        self.out.truncate(self.start - 1);
    }
}

/// Appends a value with its length: the layout in rows, binary COPY and binary arrays.
pub fn value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    patch_len(out, start, 4);
}

/// Appends a value of `N` bytes with its length.
pub fn fixed<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&(N as u32).to_be_bytes());
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
