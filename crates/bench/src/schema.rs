//! What is written: tables, the devices in them and their fields; and one request's worth of rows.

use std::ops::Range;

/// Unit of every time in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    /// Nanoseconds in one unit.
    pub fn nanos(self) -> i64 {
        match self {
            Unit::Millis => 1_000_000,
            Unit::Micros => 1_000,
            Unit::Nanos => 1,
        }
    }

    /// Units in one second.
    pub fn per_second(self) -> i64 {
        1_000_000_000 / self.nanos()
    }
}

/// Type of a field. Every value of a run is one `i64`, its *units*; the type says what they mean, so that generating,
/// checking and summing are integer work and exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Units 0 or 1.
    Bool,
    /// Units within 32 bits.
    Int32,
    /// The units.
    Int64,
    /// Units / 10^decimals as a 32-bit float.
    Float {
        /// 0 ..= 9.
        decimals: u8,
    },
    /// Units / 10^decimals as a 64-bit float; |units| < 2^53.
    Double {
        /// 0 ..= 9.
        decimals: u8,
    },
    /// Text of `length` letters and digits drawn from the units by [`text_of`].
    Text {
        /// Characters.
        length: u16,
    },
    /// As `Text`; a type of its own in IoTDB.
    String {
        /// Characters.
        length: u16,
    },
    /// As `Text`, but bytes.
    Blob {
        /// Bytes.
        length: u16,
    },
    /// Units are a time in the run's unit.
    Timestamp,
    /// Units are days since 1970-01-01.
    Date,
}

/// Powers of ten that [`Kind`] can have as its scale.
pub const POWERS: [f64; 10] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

impl Kind {
    /// Digits behind the point: 0 for all but floats.
    pub fn decimals(self) -> u8 {
        match self {
            Kind::Float { decimals } | Kind::Double { decimals } => decimals,
            _ => 0,
        }
    }

    /// Can it be compared with a number and summed?
    pub fn is_number(self) -> bool {
        matches!(self, Kind::Int32 | Kind::Int64 | Kind::Float { .. } | Kind::Double { .. })
    }

    /// The number that `units` mean, as the target stores it.
    pub fn number(self, units: i64) -> f64 {
        let value = units as f64 / POWERS[usize::from(self.decimals())];
        if matches!(self, Kind::Float { .. }) { f64::from(value as f32) } else { value }
    }

    /// Length of texts, `None` for other types.
    pub fn text_length(self) -> Option<u16> {
        match self {
            Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => Some(length),
            _ => None,
        }
    }
}

/// Appends the text that `units` stand for: `length` characters of `[0-9a-zA-Z]`.
pub fn text_of(units: i64, length: u16, out: &mut Vec<u8>) {
    let mut state = units as u64;
    for at in 0..length {
        if at % 8 == 0 && at > 0 {
            state = crate::generate::mix(state);
        }
        out.push(letter(state, u32::from(at % 8)));
    }
}

/// The character that is drawn from 32 bits of `state`.
#[inline]
fn letter(state: u64, at: u32) -> u8 {
    const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // The high half of a product is an unbiased enough choice of 62 from 32 bits.
    let draw = ((state >> (8 * at % 32)) as u32).wrapping_mul(0x9E37_79B1);
    LETTERS[((u64::from(draw) * 62) >> 32) as usize]
}

/// The longest text of letters and digits that is sure to have units.
pub const GIVEN_TEXT_MAX: u64 = 4;

/// Units that stand for `text`, the way back from [`text_of`]; `None` if there are none: a character that is no letter
/// or digit, or more than [`GIVEN_TEXT_MAX`] of them.
pub fn units_of_text(text: &[u8]) -> Option<i64> {
    let mut state = 0;
    for (at, wanted) in (0..4).zip(text) {
        // Each character depends on eight bits that those before it do not, and four of their values or more give it.
        let bits = |byte: u64| byte << (8 * at + 24);
        state |= bits((0..256).find(|byte| letter(state | bits(*byte), at) == *wanted)?);
    }
    let mut again = Vec::with_capacity(text.len());
    text_of(state as i64, u16::try_from(text.len()).ok()?, &mut again);
    (again == text).then_some(state as i64)
}

/// A measured quantity of a table's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, such as `s_17`.
    pub name: String,
    /// Type.
    pub kind: Kind,
}

/// Devices with the same fields.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name, such as `g_0`; also the measurement of line protocol.
    pub name: String,
    /// The group (IoTDB's database) it belongs to, such as `g_0`.
    pub group: String,
    /// Names of the tags; the first identifies the device, the others describe it.
    pub tags: Vec<String>,
    /// In the order of the batches' columns.
    pub fields: Vec<Field>,
}

/// Where data comes from.
#[derive(Clone, Debug)]
pub struct Device {
    /// Index in [`Schema::tables`].
    pub table: u32,
    /// Values of the table's tags.
    pub tags: Vec<String>,
}

/// All tables and devices of a run.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Name of the database, where a product has such a thing.
    pub database: String,
    /// Unit of all times.
    pub unit: Unit,
    /// At least one.
    pub tables: Vec<Table>,
    /// By device number.
    pub devices: Vec<Device>,
}

impl Schema {
    /// The table of a device.
    pub fn table_of(&self, device: u32) -> &Table {
        &self.tables[self.devices[device as usize].table as usize]
    }

    /// The name of a device: its first tag.
    pub fn device_name(&self, device: u32) -> &str {
        &self.devices[device as usize].tags[0]
    }
}

/// One request's worth of rows: of one table, of one or more devices.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Index in [`Schema::tables`].
    pub table: u32,
    /// Fields that the rows carry, by index in the table: all, or one where sensors are not aligned.
    pub fields: Range<u32>,
    /// One a device.
    pub parts: Vec<Part>,
}

/// Rows of one device.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Device number.
    pub device: u32,
    /// Times in the run's unit, in the order of arrival.
    pub times: Vec<i64>,
    /// Units by column: `units[column * times.len() + row]`, where column 0 is field `fields.start`.
    pub units: Vec<i64>,
}

impl Part {
    /// Units of one value.
    #[inline]
    pub fn unit(&self, column: usize, row: usize) -> i64 {
        self.units[column * self.times.len() + row]
    }

    /// Units of one column.
    #[inline]
    pub fn column(&self, column: usize) -> &[i64] {
        let rows = self.times.len();
        &self.units[column * rows..(column + 1) * rows]
    }
}

impl Batch {
    /// Rows in all.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.times.len() as u64).sum()
    }

    /// Values in all.
    pub fn points(&self) -> u64 {
        self.rows() * u64::from(self.fields.end - self.fields.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_text_has_units_and_others_are_told_from_them() {
        let letters = (0u8..128).filter(u8::is_ascii_alphanumeric).collect::<Vec<_>>();
        let mut texts = vec![Vec::new()];
        texts.extend(letters.iter().flat_map(|a| letters.iter().map(|b| vec![*a, *b])));
        texts.extend((0..500usize).map(|n| [7, 3, 11, 5].map(|step| letters[n * step % 62]).to_vec()));
        for text in texts {
            let units = units_of_text(&text).unwrap_or_else(|| panic!("{text:?} has no units"));
            let mut again = Vec::new();
            text_of(units, text.len() as u16, &mut again);
            assert_eq!(again, text);
        }
        for text in ["a-", "ä", "\"a", "abcde", "abcdabcx"] {
            assert_eq!(units_of_text(text.as_bytes()), None, "{text}");
        }
    }
}
