//! The session's time zone for compiled statements.

use model::Result;

use crate::zone::Zone;

/// Times in microseconds; the smallest and largest values are -infinity and infinity.
#[derive(Clone)]
pub(super) struct Clocks(pub(super) Zone);

impl compiled::Zone for Clocks {
    fn local(&self, micros: i64) -> i64 {
        if matches!(micros, i64::MIN | i64::MAX) {
            return micros;
        }
        micros.saturating_add(i64::from(self.offset_at(micros.div_euclid(1_000_000))) * 1_000_000)
    }

    fn moment(&self, local: i64) -> i64 {
        if matches!(local, i64::MIN | i64::MAX) {
            return local;
        }
        let offset = self.0.offset_at_local(local.div_euclid(1_000_000));
        local.saturating_sub(i64::from(offset) * 1_000_000)
    }

    fn parse(&self, text: &str) -> Result<i64> {
        match text.trim().to_ascii_lowercase().as_str() {
            "infinity" => return Ok(i64::MAX),
            "-infinity" => return Ok(i64::MIN),
            "epoch" => return Ok(0),
            _ => {}
        }
        self.0.parse_timestamptz_micros(text)
    }
}

impl Clocks {
    /// Seconds east of UTC at a UTC time in seconds since 1970.
    pub(super) fn offset_at(&self, seconds: i64) -> i32 {
        self.0.offset_at_second(seconds)
    }
}
