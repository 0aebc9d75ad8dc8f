//! Schema of a run's data: tables, devices and fields; and the rows of one write request.

use std::ops::Range;

/// Unit of all times of a run.
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
    /// Length of the unit in nanoseconds.
    pub fn nanos(self) -> i64 {
        match self {
            Unit::Millis => 1_000_000,
            Unit::Micros => 1_000,
            Unit::Nanos => 1,
        }
    }

    /// Number of units in one second.
    pub fn per_second(self) -> i64 {
        1_000_000_000 / self.nanos()
    }
}

/// Type of a field. Every value of a run is represented by one `i64`, its *units*, which the type
/// maps to a value. Generating, checking and summing are therefore exact integer work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Units are 0 (false) or 1 (true).
    Bool,
    /// The value is the units, which fit into 32 bits.
    Int32,
    /// The value is the units.
    Int64,
    /// Units / 10^decimals as a 32-bit float.
    Float {
        /// Decimal places, 0 ..= 9.
        decimals: u8,
    },
    /// Units / 10^decimals as a 64-bit float; |units| < 2^53.
    Double {
        /// Decimal places, 0 ..= 9.
        decimals: u8,
    },
    /// Text of `length` letters and digits, derived from the units by [`text_of`].
    Text {
        /// Length in characters.
        length: u16,
    },
    /// Like `Text`; a separate type in IoTDB.
    String {
        /// Length in characters.
        length: u16,
    },
    /// Like `Text`, but of type bytes.
    Blob {
        /// Length in bytes.
        length: u16,
    },
    /// Units are a time in the run's unit.
    Timestamp,
    /// Units are days since 1970-01-01.
    Date,
}

/// Scale factors by decimal places.
pub const POWERS: [f64; 10] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

impl Kind {
    /// Number of decimal places: 0 for all types except floats.
    pub fn decimals(self) -> u8 {
        match self {
            Kind::Float { decimals } | Kind::Double { decimals } => decimals,
            _ => 0,
        }
    }

    /// Returns whether values are numeric: they can be compared with a number and summed.
    pub fn is_number(self) -> bool {
        matches!(self, Kind::Int32 | Kind::Int64 | Kind::Float { .. } | Kind::Double { .. })
    }

    /// Number represented by `units`, with the precision of the type.
    pub fn number(self, units: i64) -> f64 {
        let value = units as f64 / POWERS[usize::from(self.decimals())];
        if matches!(self, Kind::Float { .. }) { f64::from(value as f32) } else { value }
    }

    /// Length of texts; `None` for other types.
    pub fn text_length(self) -> Option<u16> {
        match self {
            Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => Some(length),
            _ => None,
        }
    }
}

/// Appends the text that `units` represent: `length` characters of `[0-9a-zA-Z]`.
pub fn text_of(units: i64, length: u16, out: &mut Vec<u8>) {
    let mut state = units as u64;
    for at in 0..length {
        if at % 8 == 0 && at > 0 {
            state = crate::generate::mix(state);
        }
        out.push(letter(state, u32::from(at % 8)));
    }
}

/// Derives a character from 32 bits of `state`.
#[inline]
fn letter(state: u64, at: u32) -> u8 {
    const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // The high half of the product is a nearly unbiased choice of 62 from 32 bits.
    let draw = ((state >> (8 * at % 32)) as u32).wrapping_mul(0x9E37_79B1);
    LETTERS[((u64::from(draw) * 62) >> 32) as usize]
}

/// Maximum length of a text that is guaranteed to have units.
pub const GIVEN_TEXT_MAX: u64 = 4;

/// Returns units that represent `text`, the inverse of [`text_of`]. `None` if a character is not a
/// letter or digit, or if there are more than [`GIVEN_TEXT_MAX`] of them.
pub fn units_of_text(text: &[u8]) -> Option<i64> {
    let mut state = 0;
    for (at, wanted) in (0..4).zip(text) {
        // Each character depends on eight bits that no earlier character depends on, and at least
        // four of their values produce it.
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
    /// Type of the values.
    pub kind: Kind,
}

/// A set of devices with the same fields.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name, such as `g_0`; also the measurement of line protocol.
    pub name: String,
    /// The group (IoTDB's database) that contains the table, such as `g_0`.
    pub group: String,
    /// Names of the tags; the first one identifies the device, the others describe it.
    pub tags: Vec<String>,
    /// Fields in the order of the columns in batches.
    pub fields: Vec<Field>,
}

/// A source of data.
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
    /// Name of the database, for products with named databases.
    pub database: String,
    /// Unit of all times.
    pub unit: Unit,
    /// At least one table.
    pub tables: Vec<Table>,
    /// Devices by number.
    pub devices: Vec<Device>,
}

impl Schema {
    /// Returns the table of a device.
    pub fn table_of(&self, device: u32) -> &Table {
        &self.tables[self.devices[device as usize].table as usize]
    }

    /// Returns the name of a device: its first tag.
    pub fn device_name(&self, device: u32) -> &str {
        &self.devices[device as usize].tags[0]
    }
}

/// Rows of one write request: of one table and one or more devices.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Index in [`Schema::tables`].
    pub table: u32,
    /// Indices of the fields in the rows: all of the table, or one if sensors are not aligned.
    pub fields: Range<u32>,
    /// One part for each device.
    pub parts: Vec<Part>,
}

/// Rows of one device in a batch.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Device number.
    pub device: u32,
    /// Times in the run's unit, in order of arrival.
    pub times: Vec<i64>,
    /// Units by column: `units[column * times.len() + row]`. Column 0 is field `fields.start`.
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
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.times.len() as u64).sum()
    }

    /// Number of values.
    pub fn points(&self) -> u64 {
        self.rows() * u64::from(self.fields.end - self.fields.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_text_has_units_and_other_texts_have_none() {
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
