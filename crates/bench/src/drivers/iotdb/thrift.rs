//! Thrift's two protocols, as far as IoTDB's native RPC uses them.
//!
//! A message is a frame: four bytes of length, big-endian, then the message header (version, method
//! name, sequence number) and one struct with the arguments or the result. A server uses either the
//! binary or the compact protocol, by its configuration, and the client must use the same.
//!
//! Always true:
//! - the [`Reader`] never panics and never allocates for a length without the bytes for it;
//! - a field with an unknown number or an unexpected type is skipped, as Thrift requires.
//!
//! Not here: IoTDB's methods and fields (`rpc`, `tablet`). Source: "Thrift Binary protocol
//! encoding" and "Thrift Compact protocol encoding" of the Apache Thrift project.

/// Deepest nesting of structs in [`Reader::skip`]; IoTDB's answers have three levels.
const NESTING_MAX: u32 = 16;
/// Bytes of a varint that is reserved before its value is known: five hold any 32-bit length.
const PADDED_VARINT_BYTES: usize = 5;

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Fixed width, big-endian: IoTDB's default.
    Binary,
    /// Varints and deltas: the server's `dn_rpc_thrift_compression_enable`, "RPC compaction" in its
    /// clients.
    Compact,
}

/// Type of a field or element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    /// A string or binary, which are encoded alike.
    Bytes,
    Struct,
    Map,
    Set,
    List,
}

/// Kind, its code in the binary protocol, its code in the compact one (where `true` has another:
/// 1).
const KINDS: [(Kind, u8, u8); 11] = [
    (Kind::Bool, 2, 2),
    (Kind::Byte, 3, 3),
    (Kind::Double, 4, 7),
    (Kind::I16, 6, 4),
    (Kind::I32, 8, 5),
    (Kind::I64, 10, 6),
    (Kind::Bytes, 11, 8),
    (Kind::Struct, 12, 12),
    (Kind::Map, 13, 11),
    (Kind::Set, 14, 10),
    (Kind::List, 15, 9),
];

impl Kind {
    fn number(self, protocol: Protocol) -> u8 {
        let (_, binary, compact) = KINDS[KINDS.iter().position(|entry| entry.0 == self).unwrap_or(0)];
        if protocol == Protocol::Binary { binary } else { compact }
    }

    fn of(number: u8, protocol: Protocol) -> Option<Kind> {
        let number = if protocol == Protocol::Compact && number == 1 { 2 } else { number };
        let same = |entry: &&(Kind, u8, u8)| number == if protocol == Protocol::Binary { entry.1 } else { entry.2 };
        KINDS.iter().find(same).map(|entry| entry.0)
    }
}

/// Message types, the same in both protocols.
const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;

/// Writes the fields of a request, in any order, each once.
///
/// The caller must write a value of the announced kind after `field`.
pub(crate) struct Writer<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    protocol: Protocol,
    /// Number of the previous field, for the compact protocol's deltas.
    last: i16,
}

/// Position of a length that [`Writer::end_bytes`] fills in.
#[must_use]
pub(crate) struct Open(usize);

impl<'a> Writer<'a> {
    /// Continues a struct after its field `last`; 0 at its start.
    pub(crate) fn resume(out: &'a mut Vec<u8>, protocol: Protocol, last: i16) -> Writer<'a> {
        Writer { out, protocol, last }
    }

    /// Writes the header of a call; the fields of the argument struct follow.
    pub(crate) fn call(out: &'a mut Vec<u8>, protocol: Protocol, method: &str) -> Writer<'a> {
        let mut writer = Writer::resume(out, protocol, 0);
        match protocol {
            Protocol::Binary => {
                writer.out.extend([0x80, 1, 0, CALL]);
                writer.bytes(method.as_bytes());
                writer.out.extend(SEQUENCE.to_be_bytes());
            }
            Protocol::Compact => {
                writer.out.extend([0x82, CALL << 5 | 1]);
                writer.varint(SEQUENCE as u64);
                writer.bytes(method.as_bytes());
            }
        }
        writer
    }

    /// Starts a call with one struct as its only argument, like most of IoTDB's methods, and opens
    /// the struct.
    pub(crate) fn request(out: &'a mut Vec<u8>, protocol: Protocol, method: &str) -> Writer<'a> {
        let mut writer = Writer::call(out, protocol, method);
        writer.field(1, Kind::Struct);
        writer.last = 0;
        writer
    }

    pub(crate) fn field(&mut self, id: i16, kind: Kind) {
        let number = kind.number(self.protocol);
        self.header(id, number);
    }

    fn header(&mut self, id: i16, number: u8) {
        match self.protocol {
            Protocol::Binary => {
                self.out.push(number);
                self.out.extend(id.to_be_bytes());
            }
            Protocol::Compact => {
                let step = i32::from(id) - i32::from(self.last);
                if (1..=15).contains(&step) {
                    self.out.push((step as u8) << 4 | number);
                } else {
                    self.out.push(number);
                    self.varint(zigzag(i64::from(id)));
                }
            }
        }
        self.last = id;
    }

    pub(crate) fn bool_field(&mut self, id: i16, value: bool) {
        match self.protocol {
            Protocol::Binary => {
                self.field(id, Kind::Bool);
                self.out.push(u8::from(value));
            }
            Protocol::Compact => self.header(id, if value { 1 } else { 2 }),
        }
    }

    pub(crate) fn i32_field(&mut self, id: i16, value: i32) {
        self.field(id, Kind::I32);
        self.i32(value);
    }

    pub(crate) fn i64_field(&mut self, id: i16, value: i64) {
        self.field(id, Kind::I64);
        self.i64(value);
    }

    /// Like `i64_field`, but of the same width for every value.
    pub(crate) fn fixed_i64_field(&mut self, id: i16, value: i64) {
        self.field(id, Kind::I64);
        self.fixed_i64(value);
    }

    pub(crate) fn fixed_i64(&mut self, value: i64) {
        match self.protocol {
            Protocol::Binary => self.out.extend(value.to_be_bytes()),
            Protocol::Compact => {
                let rest = zigzag(value);
                let byte = |index: u32| rest.checked_shr(7 * index).unwrap_or(0) as u8 & 0x7f;
                (0..9).for_each(|index| self.out.push(byte(index) | 0x80));
                self.out.push(byte(9));
            }
        }
    }

    pub(crate) fn bytes_field(&mut self, id: i16, value: &[u8]) {
        self.field(id, Kind::Bytes);
        self.bytes(value);
    }

    pub(crate) fn list_field(&mut self, id: i16, of: Kind, count: usize) {
        self.field(id, Kind::List);
        self.list(of, count);
    }

    /// Writes a `map<string, string>`.
    pub(crate) fn map_field(&mut self, id: i16, entries: &[(&str, &str)]) {
        self.field(id, Kind::Map);
        let kind = Kind::Bytes.number(self.protocol);
        match self.protocol {
            Protocol::Binary => {
                self.out.extend([kind, kind]);
                self.out.extend((entries.len() as u32).to_be_bytes());
            }
            Protocol::Compact => {
                self.varint(entries.len() as u64);
                if !entries.is_empty() {
                    self.out.push(kind << 4 | kind);
                }
            }
        }
        for (key, value) in entries {
            self.bytes(key.as_bytes());
            self.bytes(value.as_bytes());
        }
    }

    pub(crate) fn i32(&mut self, value: i32) {
        match self.protocol {
            Protocol::Binary => self.out.extend(value.to_be_bytes()),
            Protocol::Compact => self.varint(zigzag(i64::from(value))),
        }
    }

    pub(crate) fn i64(&mut self, value: i64) {
        match self.protocol {
            Protocol::Binary => self.out.extend(value.to_be_bytes()),
            Protocol::Compact => self.varint(zigzag(value)),
        }
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.length(value.len());
        self.out.extend(value);
    }

    /// Writes the length of a binary; the caller appends its bytes.
    pub(crate) fn length(&mut self, length: usize) {
        match self.protocol {
            Protocol::Binary => self.out.extend((length as u32).to_be_bytes()),
            Protocol::Compact => self.varint(length as u64),
        }
    }

    pub(crate) fn list(&mut self, of: Kind, count: usize) {
        let kind = of.number(self.protocol);
        match self.protocol {
            Protocol::Binary => {
                self.out.push(kind);
                self.out.extend((count as u32).to_be_bytes());
            }
            Protocol::Compact if count < 15 => self.out.push((count as u8) << 4 | kind),
            Protocol::Compact => {
                self.out.push(0xf0 | kind);
                self.varint(count as u64);
            }
        }
    }

    /// Starts a binary of unknown length.
    pub(crate) fn begin_bytes(&mut self) -> Open {
        let at = self.out.len();
        let placeholder = if self.protocol == Protocol::Binary { 4 } else { PADDED_VARINT_BYTES };
        self.out.resize(at + placeholder, 0);
        Open(at)
    }

    pub(crate) fn end_bytes(&mut self, open: Open) {
        close_bytes(self.out, self.protocol, open);
    }

    /// Ends a struct.
    pub(crate) fn stop(&mut self) {
        self.out.push(0);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

/// Constant, because a call is only sent after the reply to the previous one; so requests can be
/// encoded in advance.
const SEQUENCE: u32 = 1;

/// Fills in the length of a binary started by [`Writer::begin_bytes`]. The compact protocol allows
/// padded varints; otherwise the bytes would have to be moved.
pub(crate) fn close_bytes(out: &mut [u8], protocol: Protocol, Open(at): Open) {
    match protocol {
        Protocol::Binary => {
            let length = out.len() - at - 4;
            out[at..at + 4].copy_from_slice(&(length as u32).to_be_bytes());
        }
        Protocol::Compact => {
            let length = out.len() - at - PADDED_VARINT_BYTES;
            for (index, byte) in out[at..at + PADDED_VARINT_BYTES].iter_mut().enumerate() {
                let more = if index + 1 < PADDED_VARINT_BYTES { 0x80 } else { 0 };
                *byte = (length >> (7 * index)) as u8 & 0x7f | more;
            }
        }
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Received bytes that violate the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Offset of the byte at which parsing stopped.
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// A position in received bytes.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn error(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        if count > self.remaining() {
            return Err(self.error("the bytes end too early"));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a 32-bit length or count, which must not be negative.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = i32::from_be_bytes(self.array()?);
        usize::try_from(count).map_err(|_| self.error("a negative length"))
    }
}

/// Reader of a reply.
pub(crate) struct Reader<'a> {
    pub(crate) cursor: Cursor<'a>,
    protocol: Protocol,
    last: i16,
    /// Value of a boolean field, which the compact protocol has in the field header.
    flag: bool,
}

/// Whether a reply has a result, or an exception of the Thrift layer.
pub(crate) enum Outcome {
    Result,
    Exception(String),
}

impl<'a> Reader<'a> {
    /// Reads the header of the reply to `method`; the result struct follows.
    pub(crate) fn reply(bytes: &'a [u8], protocol: Protocol, method: &str) -> Result<(Reader<'a>, Outcome), Malformed> {
        let mut reader = Reader { cursor: Cursor { bytes, at: 0 }, protocol, last: 0, flag: false };
        let (kind, name) = match protocol {
            Protocol::Binary => reader.binary_header()?,
            Protocol::Compact => reader.compact_header()?,
        };
        match kind {
            EXCEPTION => {
                let text = reader.exception()?;
                return Ok((reader, Outcome::Exception(text)));
            }
            REPLY => {}
            _ => return Err(reader.cursor.error("neither a reply nor an exception")),
        }
        if name != method.as_bytes() {
            return Err(reader.cursor.error("the reply is to a different call"));
        }
        Ok((reader, Outcome::Result))
    }

    fn binary_header(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let [version, one, _, kind] = self.cursor.array()?;
        if (version, one) != (0x80, 1) {
            return Err(self.cursor.error("not a message of Thrift's binary protocol, version 1"));
        }
        let name = self.bytes()?;
        let _sequence: [u8; 4] = self.cursor.array()?;
        Ok((kind, name))
    }

    fn compact_header(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let [protocol, kind] = self.cursor.array()?;
        if (protocol, kind & 0x1f) != (0x82, 1) {
            return Err(self.cursor.error("not a message of Thrift's compact protocol, version 1"));
        }
        let _sequence = self.varint()?;
        Ok((kind >> 5, self.bytes()?))
    }

    /// Reads an exception of the Thrift layer: field 1 is the text, 2 the code.
    fn exception(&mut self) -> Result<String, Malformed> {
        let mut text = String::new();
        self.fields(|reader, id, kind| {
            match (id, kind) {
                (1, Kind::Bytes) => text = reader.text()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(text)
    }

    /// Calls `each` for every field of a struct. If it returns false, it must not have read
    /// anything, and the field is skipped.
    pub(crate) fn fields(
        &mut self,
        mut each: impl FnMut(&mut Self, i16, Kind) -> Result<bool, Malformed>,
    ) -> Result<(), Malformed> {
        let outer = std::mem::replace(&mut self.last, 0);
        while let Some((id, kind)) = self.field()? {
            if !each(self, id, kind)? {
                self.skip(kind, 0)?;
            }
        }
        self.last = outer;
        Ok(())
    }

    fn field(&mut self) -> Result<Option<(i16, Kind)>, Malformed> {
        let first = self.cursor.byte()?;
        let number = if self.protocol == Protocol::Binary { first } else { first & 0x0f };
        if number == 0 {
            return Ok(None);
        }
        let kind = Kind::of(number, self.protocol).ok_or(self.cursor.error("an unknown type"))?;
        let id = match self.protocol {
            Protocol::Binary => i16::from_be_bytes(self.cursor.array()?),
            Protocol::Compact => {
                self.flag = number == 1;
                match first >> 4 {
                    0 => self.signed()? as i16,
                    step => self.last.wrapping_add(i16::from(step)),
                }
            }
        };
        self.last = id;
        Ok(Some((id, kind)))
    }

    /// Reads the value of a boolean field (not of an element).
    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.protocol {
            Protocol::Binary => Ok(self.cursor.byte()? != 0),
            Protocol::Compact => Ok(self.flag),
        }
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        match self.protocol {
            Protocol::Binary => Ok(i32::from_be_bytes(self.cursor.array()?)),
            Protocol::Compact => Ok(self.signed()? as i32),
        }
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        match self.protocol {
            Protocol::Binary => Ok(i64::from_be_bytes(self.cursor.array()?)),
            Protocol::Compact => self.signed(),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.cursor.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        match self.protocol {
            Protocol::Binary => self.cursor.count(),
            Protocol::Compact => {
                usize::try_from(self.varint()?).map_err(|_| self.cursor.error("an implausible length"))
            }
        }
    }

    /// Reads kind and count of a list. An element takes at least a byte, so that the count is
    /// bounded by the remaining bytes.
    pub(crate) fn list(&mut self) -> Result<(Kind, usize), Malformed> {
        let (number, count) = match self.protocol {
            Protocol::Binary => (self.cursor.byte()?, self.cursor.count()?),
            Protocol::Compact => {
                let first = self.cursor.byte()?;
                let count = if first >> 4 == 15 { self.length()? } else { usize::from(first >> 4) };
                (first & 0x0f, count)
            }
        };
        self.check_count(count)?;
        Ok((Kind::of(number, self.protocol).ok_or(self.cursor.error("a list of an unknown type"))?, count))
    }

    /// Reads kinds and count of a map.
    pub(crate) fn map(&mut self) -> Result<(Kind, Kind, usize), Malformed> {
        let (key, value, count) = match self.protocol {
            Protocol::Binary => (self.cursor.byte()?, self.cursor.byte()?, self.cursor.count()?),
            Protocol::Compact => match self.length()? {
                0 => return Ok((Kind::Bytes, Kind::Bytes, 0)),
                count => {
                    let kinds = self.cursor.byte()?;
                    (kinds >> 4, kinds & 0x0f, count)
                }
            },
        };
        self.check_count(count)?;
        let kind = |number| Kind::of(number, self.protocol).ok_or(self.cursor.error("a map of an unknown type"));
        Ok((kind(key)?, kind(value)?, count))
    }

    fn check_count(&self, count: usize) -> Result<(), Malformed> {
        if count > self.cursor.remaining() {
            return Err(self.cursor.error("more elements than bytes"));
        }
        Ok(())
    }

    /// Reads a list of kind `of`, each element with `each`; an error if the list is of another
    /// kind.
    pub(crate) fn each<T>(
        &mut self,
        of: Kind,
        mut each: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let (kind, count) = self.list()?;
        if kind != of && count > 0 {
            return Err(self.cursor.error("a list of another type"));
        }
        // The announced count may be too large: memory grows as elements arrive.
        let mut elements = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            elements.push(each(self)?);
        }
        Ok(elements)
    }

    fn skip(&mut self, kind: Kind, depth: u32) -> Result<(), Malformed> {
        if depth >= NESTING_MAX {
            return Err(self.cursor.error("structs nested too deep"));
        }
        match kind {
            Kind::Bool => self.bool().map(drop),
            Kind::Byte => self.cursor.byte().map(drop),
            Kind::I16 | Kind::I32 if self.protocol == Protocol::Compact => self.signed().map(drop),
            Kind::I16 => self.cursor.take(2).map(drop),
            Kind::I32 => self.i32().map(drop),
            Kind::I64 => self.i64().map(drop),
            Kind::Double => self.cursor.take(8).map(drop),
            Kind::Bytes => self.bytes().map(drop),
            Kind::Struct => self.skip_struct(depth),
            Kind::List | Kind::Set => {
                let (of, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(of, depth))
            }
            Kind::Map => {
                let (key, value, count) = self.map()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(key, depth)?;
                    self.skip_element(value, depth)
                })
            }
        }
    }

    fn skip_struct(&mut self, depth: u32) -> Result<(), Malformed> {
        let outer = std::mem::replace(&mut self.last, 0);
        while let Some((_, kind)) = self.field()? {
            self.skip(kind, depth + 1)?;
        }
        self.last = outer;
        Ok(())
    }

    /// Like a field, except that booleans take a byte in the compact protocol too.
    fn skip_element(&mut self, kind: Kind, depth: u32) -> Result<(), Malformed> {
        if kind == Kind::Bool { self.cursor.byte().map(drop) } else { self.skip(kind, depth + 1) }
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for index in 0..10 {
            let byte = self.cursor.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.cursor.error("a varint of more than ten bytes"))
    }
}
