//! Protobuf's wire format, the escape of lines, and the two messages.

use super::{Header, Payload};
use crate::calendar::{SECOND, YEARS};
use crate::event::Event;
use crate::sample::{Array, Nanos, Sample, Scalar, Severity, Value};

/// Reason why a line cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The line is longer than the limit of the reader.
    TooLong,
    /// The last line has no line feed: the file was cut, or its writer still writes.
    Unterminated,
    /// No header precedes the event in its chunk.
    NoHeader,
    /// The escape byte 1B is followed by none of 01, 02, 03.
    Escape,
    /// The line is no protobuf message: a field is cut, or has another wire type than the format says.
    Wire,
    /// A field that the format requires is absent.
    Missing(&'static str),
    /// A field has a value that the format does not allow.
    Range(&'static str),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::TooLong => f.write_str("line exceeds the limit of bytes"),
            Fault::Unterminated => f.write_str("last line has no line feed"),
            Fault::NoHeader => f.write_str("event has no header before it"),
            Fault::Escape => f.write_str("escape byte 1B is followed by none of 01, 02, 03"),
            Fault::Wire => f.write_str("line is no protobuf message of its type"),
            Fault::Missing(field) => write!(f, "field {field} is absent"),
            Fault::Range(field) => write!(f, "field {field} is out of range"),
        }
    }
}

impl std::error::Error for Fault {}

const ESCAPE: u8 = 0x1b;
const LINE_FEED: u8 = 0x0a;
const CARRIAGE_RETURN: u8 = 0x0d;

/// Appends `message`, escaped.
pub(super) fn escape(message: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for at in memchr::memchr3_iter(ESCAPE, LINE_FEED, CARRIAGE_RETURN, message) {
        out.extend_from_slice(&message[copied..at]);
        out.extend_from_slice(match message[at] {
            ESCAPE => &[ESCAPE, 1],
            LINE_FEED => &[ESCAPE, 2],
            _ => &[ESCAPE, 3],
        });
        copied = at + 1;
    }
    out.extend_from_slice(&message[copied..]);
}

/// The message of a line: the line itself, or its unescaped bytes in `scratch`.
pub(super) fn unescape<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], Fault> {
    let Some(mut at) = memchr::memchr(ESCAPE, line) else { return Ok(line) };
    scratch.clear();
    let mut copied = 0;
    loop {
        scratch.extend_from_slice(&line[copied..at]);
        scratch.push(match line.get(at + 1) {
            Some(1) => ESCAPE,
            Some(2) => LINE_FEED,
            Some(3) => CARRIAGE_RETURN,
            _ => return Err(Fault::Escape),
        });
        copied = at + 2;
        match memchr::memchr(ESCAPE, &line[copied..]) {
            Some(next) => at = copied + next,
            None => break,
        }
    }
    scratch.extend_from_slice(&line[copied..]);
    Ok(scratch)
}

/// Value of a field, by wire type.
enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

impl<'a> Field<'a> {
    fn bytes(self) -> Result<&'a [u8], Fault> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(Fault::Wire),
        }
    }

    fn text(self) -> Result<String, Fault> {
        // Channel Access has bytes in any encoding; as the Appliance, put U+FFFD for what is not UTF-8.
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn varint(self) -> Result<u64, Fault> {
        match self {
            Field::Varint(value) => Ok(value),
            _ => Err(Fault::Wire),
        }
    }

    fn uint32(self, name: &'static str) -> Result<u32, Fault> {
        u32::try_from(self.varint()?).map_err(|_| Fault::Range(name))
    }

    /// An int32: negative numbers are sign-extended to 64 bits.
    fn int32(self, name: &'static str) -> Result<i32, Fault> {
        i32::try_from(self.varint()?.cast_signed()).map_err(|_| Fault::Range(name))
    }
}

/// Fields of a message.
struct Message<'a> {
    rest: &'a [u8],
}

impl<'a> Message<'a> {
    /// The next field, with its number.
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(*self.take()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Fault::Wire)?;
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Fault::Wire)?;
                self.rest = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(*self.take()?),
            _ => return Err(Fault::Wire),
        };
        Ok(Some((key >> 3, field)))
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], Fault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Fault::Wire)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(Fault::Wire)
    }
}

fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Whether a message is a header rather than an event: its second field is a text, an event's is a number.
pub(super) fn is_header(message: &[u8]) -> bool {
    let mut message = Message { rest: message };
    matches!(message.next(), Ok(Some((1, Field::Varint(_))))) && message.rest.first() == Some(&0x12)
}

pub(super) fn decode_header(message: &[u8]) -> Result<Header, Fault> {
    let (mut payload, mut pv, mut year, mut elements, mut fields) = (None, None, None, None, Vec::new());
    let mut message = Message { rest: message };
    while let Some((number, field)) = message.next()? {
        match number {
            1 => payload = Some(field.varint()?),
            2 => pv = Some(field.text()?),
            3 => year = Some(field.int32("year")?),
            4 => elements = Some(field.int32("elementCount")?),
            15 => fields.push(decode_pair(field.bytes()?)?),
            _ => {}
        }
    }
    let payload = usize::try_from(payload.ok_or(Fault::Missing("type"))?).map_err(|_| Fault::Range("type"))?;
    let year = year.ok_or(Fault::Missing("year"))?;
    if !YEARS.contains(&year) {
        return Err(Fault::Range("year"));
    }
    Ok(Header {
        payload: *Payload::ALL.get(payload).ok_or(Fault::Range("type"))?,
        pv: pv.ok_or(Fault::Missing("pvname"))?,
        year,
        elements,
        fields,
    })
}

/// A `FieldValue`.
fn decode_pair(bytes: &[u8]) -> Result<(String, String), Fault> {
    let (mut name, mut value) = (None, None);
    let mut message = Message { rest: bytes };
    while let Some((number, field)) = message.next()? {
        match number {
            1 => name = Some(field.text()?),
            2 => value = Some(field.text()?),
            _ => {}
        }
    }
    Ok((name.ok_or(Fault::Missing("name of a field"))?, value.ok_or(Fault::Missing("val of a field"))?))
}

/// Decodes an event of a chunk, and says whether severity and status were those of EPICS.
///
/// A severity that EPICS does not have becomes `INVALID`, a status beyond 16 bits becomes the largest.
/// Seconds beyond the end of the year and nanoseconds beyond the second are added up, as the Appliance does.
pub(super) fn decode_event(message: &[u8], payload: Payload, year_start: Nanos) -> Result<(Event, bool), Fault> {
    let (mut seconds, mut nanos, mut severity, mut status) = (None, None, 0, 0);
    let mut value = empty(payload);
    let (mut fields, mut actual_change, mut repeat_count, mut user_tag) = (Vec::new(), None, None, None);
    let mut message = Message { rest: message };
    while let Some((number, field)) = message.next()? {
        match number {
            1 => seconds = Some(field.uint32("secondsintoyear")?),
            2 => nanos = Some(field.uint32("nano")?),
            3 => decode_value(field, payload, &mut value)?,
            4 => severity = field.int32("severity")?,
            5 => status = field.int32("status")?,
            6 => repeat_count = Some(field.uint32("repeatcount")?),
            7 => fields.push(decode_pair(field.bytes()?)?),
            8 => actual_change = Some(field.varint()? != 0),
            9 if payload == Payload::Structure => user_tag = Some(field.uint32("userTag")?),
            _ => {}
        }
    }
    let seconds = seconds.ok_or(Fault::Missing("secondsintoyear"))?;
    let nanos = nanos.ok_or(Fault::Missing("nano"))?;
    let into_year = i64::from(seconds) * SECOND + i64::from(nanos);
    let time = year_start.checked_add(into_year).ok_or(Fault::Range("secondsintoyear"))?;
    let value = value.ok_or(Fault::Missing("val"))?;
    let known = Severity::of(i64::from(severity));
    let known_status = u16::try_from(status);
    let ordinary = known.is_some() && known_status.is_ok();
    let (severity, status) = (known.unwrap_or(Severity::Invalid), known_status.unwrap_or(u16::MAX));
    let sample = Sample { time, value, severity, status };
    Ok((Event { sample, fields, actual_change, repeat_count, user_tag }, ordinary))
}

/// The value of an event without field 3: absent, for a waveform without elements.
fn empty(payload: Payload) -> Option<Value> {
    Some(Value::Array(match payload {
        Payload::Texts => Array::Text(Vec::new()),
        Payload::Int16s => Array::Int16(Vec::new()),
        Payload::Float32s => Array::Float32(Vec::new()),
        Payload::Enums => Array::Enum(Vec::new()),
        Payload::Int32s => Array::Int32(Vec::new()),
        Payload::Float64s => Array::Float64(Vec::new()),
        _ => return None,
    }))
}

/// Sets `value`, or appends to it: elements come packed in one field or, from other writers, each in its own.
fn decode_value(field: Field<'_>, payload: Payload, value: &mut Option<Value>) -> Result<(), Fault> {
    let scalar = match (payload, value.as_mut()) {
        (Payload::Float64, _) => match field {
            Field::Fixed64(bytes) => Scalar::Float64(f64::from_le_bytes(bytes)),
            _ => return Err(Fault::Wire),
        },
        (Payload::Float32, _) => Scalar::Float32(f32::from_le_bytes(fixed32(field)?)),
        (Payload::Int32, _) => Scalar::Int32(i32::from_le_bytes(fixed32(field)?)),
        (Payload::Int16, _) => Scalar::Int16(zigzag(field.varint()?) as i16),
        (Payload::Enum, _) => Scalar::Enum(zigzag(field.varint()?) as u16),
        (Payload::Int8, _) => Scalar::Int8(field.bytes()?.first().ok_or(Fault::Missing("val"))?.cast_signed()),
        (Payload::Text, _) => Scalar::Text(field.text()?),
        (Payload::Structure, _) => {
            *value = Some(Value::Structure(field.bytes()?.to_vec()));
            return Ok(());
        }
        (Payload::Int8s, _) => {
            let elements = field.bytes()?.iter().map(|byte| byte.cast_signed()).collect();
            *value = Some(Value::Array(Array::Int8(elements)));
            return Ok(());
        }
        (_, Some(Value::Array(array))) => return decode_elements(field, array),
        _ => return Err(Fault::Wire),
    };
    *value = Some(Value::Scalar(scalar));
    Ok(())
}

fn fixed32(field: Field<'_>) -> Result<[u8; 4], Fault> {
    match field {
        Field::Fixed32(bytes) => Ok(bytes),
        _ => Err(Fault::Wire),
    }
}

fn decode_elements(field: Field<'_>, array: &mut Array) -> Result<(), Fault> {
    match array {
        Array::Text(elements) => elements.push(field.text()?),
        Array::Int16(elements) => decode_varints(field, |value| elements.push(zigzag(value) as i16))?,
        Array::Enum(elements) => decode_varints(field, |value| elements.push(zigzag(value) as u16))?,
        Array::Float32(elements) => decode_fixed(field, elements, f32::from_le_bytes)?,
        Array::Int32(elements) => decode_fixed(field, elements, i32::from_le_bytes)?,
        Array::Float64(elements) => match field {
            Field::Fixed64(bytes) => elements.push(f64::from_le_bytes(bytes)),
            field => decode_packed(field.bytes()?, elements, f64::from_le_bytes)?,
        },
        Array::Int8(_) | Array::Int64(_) => return Err(Fault::Wire),
    }
    Ok(())
}

fn decode_varints(field: Field<'_>, mut push: impl FnMut(u64)) -> Result<(), Fault> {
    match field {
        Field::Varint(value) => push(value),
        field => {
            let mut message = Message { rest: field.bytes()? };
            while !message.rest.is_empty() {
                push(message.varint()?);
            }
        }
    }
    Ok(())
}

fn decode_fixed<T>(field: Field<'_>, elements: &mut Vec<T>, of: impl Fn([u8; 4]) -> T) -> Result<(), Fault> {
    match field {
        Field::Fixed32(bytes) => elements.push(of(bytes)),
        field => decode_packed(field.bytes()?, elements, of)?,
    }
    Ok(())
}

fn decode_packed<T, const N: usize>(
    bytes: &[u8],
    elements: &mut Vec<T>,
    of: impl Fn([u8; N]) -> T,
) -> Result<(), Fault> {
    let (whole, cut) = bytes.as_chunks::<N>();
    elements.extend(whole.iter().map(|bytes| of(*bytes)));
    if cut.is_empty() { Ok(()) } else { Err(Fault::Wire) }
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A sint32.
fn push_zigzag(out: &mut Vec<u8>, value: i16) {
    push_varint(out, u64::from(zigzagged(value)));
}

fn zigzagged(value: i16) -> u32 {
    (i32::from(value) << 1 ^ i32::from(value) >> 31).cast_unsigned()
}

fn push_bytes(out: &mut Vec<u8>, key: u8, bytes: &[u8]) {
    out.push(key);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// An int32: negative numbers take ten bytes.
fn push_int32(out: &mut Vec<u8>, key: u8, value: i32) {
    out.push(key);
    push_varint(out, i64::from(value).cast_unsigned());
}

/// A `FieldValue` as field `key >> 3`.
fn push_pair(out: &mut Vec<u8>, key: u8, (name, value): &(String, String)) {
    let length = 2 + varint_bytes(name.len()) + name.len() + varint_bytes(value.len()) + value.len();
    out.push(key);
    push_varint(out, length as u64);
    push_bytes(out, 0x0a, name.as_bytes());
    push_bytes(out, 0x12, value.as_bytes());
}

fn varint_bytes(value: usize) -> usize {
    (64 - (value as u64 | 1).leading_zeros()).div_ceil(7) as usize
}

pub(super) fn encode_header(header: &Header, payload: Payload, year: i32, elements: Option<i32>, out: &mut Vec<u8>) {
    push_int32(out, 0x08, payload as i32);
    push_bytes(out, 0x12, header.pv.as_bytes());
    push_int32(out, 0x18, year);
    if let Some(elements) = elements {
        push_int32(out, 0x20, elements);
    }
    for pair in &header.fields {
        push_pair(out, 0x7a, pair);
    }
}

/// Appends the message of an event in the year that starts at `year_start`.
pub(super) fn encode_event(event: &Event, year_start: Nanos, out: &mut Vec<u8>) {
    let into_year = event.sample.time - year_start;
    out.push(0x08);
    push_varint(out, (into_year / SECOND) as u64);
    out.push(0x10);
    push_varint(out, (into_year % SECOND) as u64);
    encode_value(&event.sample.value, out);
    if event.sample.severity != Severity::None {
        push_int32(out, 0x20, event.sample.severity as i32);
    }
    if event.sample.status != 0 {
        push_int32(out, 0x28, i32::from(event.sample.status));
    }
    if let Some(count) = event.repeat_count {
        out.push(0x30);
        push_varint(out, u64::from(count));
    }
    for pair in &event.fields {
        push_pair(out, 0x3a, pair);
    }
    if let Some(changed) = event.actual_change {
        out.extend_from_slice(&[0x40, u8::from(changed)]);
    }
    if let (Some(tag), Value::Structure(_)) = (event.user_tag, &event.sample.value) {
        out.push(0x48);
        push_varint(out, u64::from(tag));
    }
}

fn encode_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Scalar(scalar) => encode_scalar(scalar, out),
        Value::Array(array) => encode_array(array, out),
        Value::Structure(bytes) => push_bytes(out, 0x1a, bytes),
    }
}

fn encode_scalar(scalar: &Scalar, out: &mut Vec<u8>) {
    match scalar {
        Scalar::Float64(value) => push_double(out, *value),
        Scalar::Int64(value) => push_double(out, *value as f64),
        Scalar::Float32(value) => {
            out.push(0x1d);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Scalar::Int32(value) => {
            out.push(0x1d);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Scalar::Int16(value) => {
            out.push(0x18);
            push_zigzag(out, *value);
        }
        // The Appliance holds an index in a signed 16-bit integer.
        Scalar::Enum(value) => {
            out.push(0x18);
            push_zigzag(out, value.cast_signed());
        }
        Scalar::Int8(value) => push_bytes(out, 0x1a, &[value.cast_unsigned()]),
        Scalar::Text(value) => push_bytes(out, 0x1a, value.as_bytes()),
    }
}

fn push_double(out: &mut Vec<u8>, value: f64) {
    out.push(0x19);
    out.extend_from_slice(&value.to_le_bytes());
}

fn encode_array(array: &Array, out: &mut Vec<u8>) {
    match array {
        Array::Float64(values) => push_packed(out, values, |value| value.to_le_bytes()),
        Array::Int64(values) => push_packed(out, values, |value| (*value as f64).to_le_bytes()),
        Array::Float32(values) => push_packed(out, values, |value| value.to_le_bytes()),
        Array::Int32(values) => push_packed(out, values, |value| value.to_le_bytes()),
        Array::Int16(values) => push_zigzags(out, values.iter().copied()),
        Array::Enum(values) => push_zigzags(out, values.iter().map(|value| value.cast_signed())),
        Array::Int8(values) => {
            out.push(0x1a);
            push_varint(out, values.len() as u64);
            out.extend(values.iter().map(|value| value.cast_unsigned()));
        }
        Array::Text(values) => values.iter().for_each(|value| push_bytes(out, 0x1a, value.as_bytes())),
    }
}

/// Packed elements; a waveform without elements has no field.
fn push_packed<T, const N: usize>(out: &mut Vec<u8>, values: &[T], bytes: impl Fn(&T) -> [u8; N]) {
    if values.is_empty() {
        return;
    }
    out.push(0x1a);
    push_varint(out, (values.len() * N) as u64);
    values.iter().for_each(|value| out.extend_from_slice(&bytes(value)));
}

fn push_zigzags(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = i16> + Clone) {
    if values.len() == 0 {
        return;
    }
    out.push(0x1a);
    push_varint(out, values.clone().map(|value| varint_bytes(zigzagged(value) as usize) as u64).sum());
    values.for_each(|value| push_zigzag(out, value));
}
