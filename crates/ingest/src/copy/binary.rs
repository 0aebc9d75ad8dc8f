//! COPY's binary format: signature, flags, header extension, tuples, trailer. All integers are
//! big-endian.
//!
//! | part    | bytes                                                                                         |
//! |---------|-----------------------------------------------------------------------------------------------|
//! | header  | `PGCOPY
//! \xff\r
//! \0`, u32 flags, u32 length of the extension, the extension                     |
//! | tuple   | i16 number of fields; per field an i32 length (-1: NULL) and that many bytes                    |
//! | trailer | i16 -1; optional at the end of the stream, as in PostgreSQL                                     |

use model::{Error, Result, SqlState, limits};

use super::sink::Sink;
use super::{LINE_BYTES_MAX, malformed};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
const HEADER_BYTES: usize = 19;
/// Set if tuples start with an OID; no server has written it since PostgreSQL 12.
const FLAG_OIDS: u32 = 1 << 16;
/// A reader must refuse unknown flags in the upper half.
const FLAGS_CRITICAL: u32 = 0xffff_0000;

pub(super) struct Binary {
    state: State,
    /// Progress through the current tuple.
    scan: Scan,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    /// Bytes of the header extension still to skip.
    Extension(usize),
    Tuples,
    /// After the trailer.
    End,
}

/// Length of the current tuple that is known to be complete. A tuple is decoded when it is
/// complete; with many short pieces, its start is not scanned again.
#[derive(Clone, Copy, Default)]
struct Scan {
    at: usize,
    fields_left: usize,
}

impl Binary {
    pub(super) fn new() -> Binary {
        Binary { state: State::Header, scan: Scan::default() }
    }

    pub(super) fn consume(&mut self, bytes: &[u8], rows: &mut impl Sink) -> Result<usize> {
        let mut at = 0;
        loop {
            let used = match self.state {
                State::Header => self.header(bytes)?,
                State::Extension(left) => self.extension(bytes.len() - at, left),
                State::Tuples => self.tuple(&bytes[at..], rows)?,
                State::End if at < bytes.len() => return Err(malformed("received copy data after EOF marker")),
                State::End => return Ok(at),
            };
            match used {
                Some(used) => at += used,
                None => return Ok(at),
            }
        }
    }

    pub(super) fn finish(&mut self, rest: &[u8]) -> Result<()> {
        match self.state {
            State::Header => Err(malformed(match rest.get(..SIGNATURE.len()) {
                Some(start) if start == SIGNATURE => "invalid COPY file header (missing flags)",
                _ => "COPY file signature not recognized",
            })),
            State::Extension(_) => Err(malformed("invalid COPY file header (wrong length)")),
            State::Tuples if rest.is_empty() => Ok(()),
            State::Tuples => Err(malformed("unexpected EOF in COPY data")),
            State::End => Ok(()),
        }
    }

    fn header(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        let known = bytes.len().min(SIGNATURE.len());
        if bytes[..known] != SIGNATURE[..known] {
            return Err(malformed("COPY file signature not recognized"));
        }
        let (Some(flags), Some(length)) = (u32_at(bytes, 11), u32_at(bytes, 15)) else { return Ok(None) };
        if flags & FLAG_OIDS != 0 {
            return Err(malformed("invalid COPY file header (WITH OIDS)"));
        }
        if flags & FLAGS_CRITICAL != 0 {
            return Err(malformed("unrecognized critical flags in COPY file header"));
        }
        if length.cast_signed() < 0 {
            return Err(malformed("invalid COPY file header (missing length)"));
        }
        self.state = State::Extension(length as usize);
        Ok(Some(HEADER_BYTES))
    }

    fn extension(&mut self, there: usize, left: usize) -> Option<usize> {
        let skipped = there.min(left);
        self.state = if skipped == left { State::Tuples } else { State::Extension(left - skipped) };
        // Consume everything skipped; `None` only if no byte arrived.
        if skipped == 0 && left > 0 { None } else { Some(skipped) }
    }

    fn tuple(&mut self, bytes: &[u8], rows: &mut impl Sink) -> Result<Option<usize>> {
        if self.scan.at == 0 {
            let Some(count) = bytes.first_chunk::<2>() else { return Ok(None) };
            match i16::from_be_bytes(*count) {
                -1 => {
                    self.state = State::End;
                    return Ok(Some(2));
                }
                count if usize::try_from(count) == Ok(rows.width()) => {}
                count => {
                    return Err(
                        rows.at_line(malformed(format!("row field count is {count}, expected {}", rows.width())))
                    );
                }
            }
            self.scan = Scan { at: 2, fields_left: rows.width() };
        }
        if !self.follow(bytes, rows)? {
            return Ok(None);
        }
        rows.begin_row(&[]);
        decode(bytes, rows)?;
        let used = std::mem::take(&mut self.scan).at;
        rows.end_row()?;
        Ok(Some(used))
    }

    /// Advances through the current tuple; whether it is complete.
    fn follow(&mut self, bytes: &[u8], rows: &impl Sink) -> Result<bool> {
        while self.scan.fields_left > 0 {
            let Some(length) = u32_at(bytes, self.scan.at) else { return Ok(false) };
            let length = check_length(length.cast_signed(), rows, rows.width() - self.scan.fields_left)?;
            let end = self.scan.at + 4 + length;
            if end > LINE_BYTES_MAX {
                return Err(rows.at_line(too_large("row", end, LINE_BYTES_MAX)));
            }
            if end > bytes.len() {
                return Ok(false);
            }
            self.scan.at = end;
            self.scan.fields_left -= 1;
        }
        Ok(true)
    }
}

/// Number of bytes of a field with this length word.
#[inline]
fn check_length(length: i32, rows: &impl Sink, field: usize) -> Result<usize> {
    match usize::try_from(length) {
        Ok(length) if length <= limits::VALUE_BYTES_MAX => Ok(length),
        Ok(length) => Err(rows.at_field(too_large("value", length, limits::VALUE_BYTES_MAX), field, None)),
        Err(_) if length == -1 => Ok(0),
        Err(_) => Err(rows.at_field(malformed("invalid field size"), field, None)),
    }
}

#[cold]
fn too_large(what: &str, bytes: usize, max: usize) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("the {what} has {bytes} bytes; the limit is {max}"))
}

/// Decodes the fields of a complete tuple.
fn decode(bytes: &[u8], rows: &mut impl Sink) -> Result<()> {
    let mut at = 2;
    for field in 0..rows.width() {
        let length = u32_at(bytes, at).map_or(-1, u32::cast_signed);
        at += 4;
        if let Ok(length) = usize::try_from(length) {
            rows.put_binary(field, bytes.get(at..at + length).unwrap_or_default())?;
            at += length;
        }
    }
    Ok(())
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|chunk| u32::from_be_bytes(*chunk))
}
