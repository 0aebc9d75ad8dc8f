//! The generated samples: a stream for each PV and day, and batches of all PVs in order of arrival.
//!
//! A PV is processed in *slots*: scan periods of its IOC, or triggers of the machine. A slot yields
//! a sample with the PV's probability, as a deadband does; the gap to the next such slot is drawn
//! at once, so that slow PVs cost nothing between samples. Values follow an AR(1) process with one
//! step per sample.
//!
//! Always true:
//! - A PV whose connection is lost, because its IOC restarts, has one sample of [`Kind::Lost`] in
//!   that time, if a slot is in it.
//! - The samples of a PV on a day depend on the seed, the PV and the day only. Days join without a
//!   gap and without a repeated slot, because slots have numbers from the start of the data.
//! - A PV has no two samples with the same stamp, except those marked [`Sample::repeats`], which
//!   are equal to the sample before them. Each kind of fault moves stamps to a part of the slot that
//!   no other kind uses.
//!
//! Time is relative to [`START_NANOS`]; days are UTC days.

use super::pvs::{Class, Population, Pv, Shape, TRIGGER_NANOS};
use crate::generate::{STEP, at, below, mix, stream, unit_interval};

/// 2025-01-01 00:00 UTC, in nanoseconds since 1970.
pub(crate) const START_NANOS: i64 = 1_735_689_600_000_000_000;
/// Nanoseconds of a day, a minute and a second.
pub(super) const DAY: i64 = 86_400 * SECOND;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const SECOND: i64 = 1_000_000_000;
/// 1990-01-01 00:00 UTC, the epoch of EPICS, in nanoseconds since 1970: the clock of an IOC that
/// has not been set counts from here.
const EPICS_EPOCH_NANOS: i64 = 631_152_000 * SECOND;
/// Days between two maintenance days, and the first of them.
const MAINTENANCE_DAYS: u32 = 28;
const MAINTENANCE_FIRST: u32 = 17;
/// Share of the usual rate on maintenance days.
pub(super) const MAINTENANCE_RATE: f64 = 0.2;
/// Samples with a wrong stamp, of 2^20: 0.01 %.
const FAULTS_OF_2_20: u64 = 105;
/// Alarm limits HIGH and HIHI (and LOW and LOLO below the mean), in standard deviations, and the
/// hysteresis.
const LIMIT: f32 = 2.85;
const LIMIT_MAJOR: f32 = 3.5;
const HYSTERESIS: f32 = 0.25;
/// EPICS alarm codes (alarm.h).
mod status {
    pub(super) const HIHI: u8 = 3;
    pub(super) const HIGH: u8 = 4;
    pub(super) const LOLO: u8 = 5;
    pub(super) const LOW: u8 = 6;
    pub(super) const STATE: u8 = 7;
    /// Not of EPICS: the RDB archiver's status of a lost connection.
    pub(super) const DISCONNECTED: u8 = 22;
}
/// Entries of the table of exponential deviates.
const GAPS: usize = 1_024;
const GAP_BITS: u64 = 10;

/// Kind of a sample's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `bits` are those of a double. Enumerations have the index.
    Number,
    /// `bits` are a 64-bit integer that a double does not hold.
    Exact,
    /// `bits` is the position of the text in the heap.
    Text,
    /// `bits` is the position of the little-endian elements in the heap.
    Elements,
    /// No value: the connection was lost, and came back at `bits`, in nanoseconds since 1970.
    Lost,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Index in [`Population::pvs`].
    pub(super) pv: u32,
    /// Bytes in the heap.
    pub(super) length: u32,
    /// Stamp in nanoseconds since 1970.
    pub(super) time: i64,
    pub(super) bits: u64,
    pub(super) kind: Kind,
    pub(super) severity: u8,
    pub(super) status: u8,
    /// The PV's previous sample again, with the same stamp.
    pub(super) repeats: bool,
}

impl Sample {
    /// The value as a number; `None` for texts and waveforms.
    pub(super) fn number(&self) -> Option<f64> {
        match self.kind {
            Kind::Number => Some(f64::from_bits(self.bits)),
            Kind::Exact => Some(self.bits as i64 as f64),
            Kind::Text | Kind::Elements | Kind::Lost => None,
        }
    }

    /// When the connection came back, in nanoseconds since 1970; `None` if this is a value.
    pub(super) fn lost_until(&self) -> Option<i64> {
        (self.kind == Kind::Lost).then_some(self.bits as i64)
    }

    /// The 64-bit integer, if a double does not hold it.
    pub(super) fn exact(&self) -> Option<i64> {
        (self.kind == Kind::Exact).then_some(self.bits as i64)
    }

    /// The sample that the RDB archiver writes when a connection is lost.
    fn lost(pv: u32, time: i64, until: i64) -> Sample {
        let (bits, kind) = (until as u64, Kind::Lost);
        Sample { pv, length: 0, time, bits, kind, severity: 3, status: status::DISCONNECTED, repeats: false }
    }

    fn of_heap<'a>(&self, heap: &'a [u8]) -> &'a [u8] {
        heap.get(self.bits as usize..).and_then(|rest| rest.get(..self.length as usize)).unwrap_or_default()
    }

    /// The text, if the value is one.
    pub(super) fn text<'a>(&self, heap: &'a [u8]) -> Option<&'a str> {
        let text = (self.kind == Kind::Text).then(|| self.of_heap(heap))?;
        std::str::from_utf8(text).ok()
    }

    /// The elements of a waveform, little-endian.
    pub(super) fn elements<'a>(&self, heap: &'a [u8]) -> Option<&'a [u8]> {
        (self.kind == Kind::Elements).then(|| self.of_heap(heap))
    }
}

/// Tables that all PVs share.
pub(super) struct Tables {
    /// Quantiles of the exponential distribution with mean 1.
    gaps: [f32; GAPS],
}

impl Tables {
    pub(super) fn new() -> Tables {
        Tables { gaps: std::array::from_fn(|n| -((n as f32 + 0.5) / GAPS as f32).ln()) }
    }
}

/// Events of one day that PVs share, in nanoseconds from the start of the data.
pub(super) struct Day {
    number: u32,
    maintenance: bool,
    faults: bool,
    seed: u64,
    /// Intervals without beam, in order.
    trips: Vec<(i64, i64)>,
    /// By IOC.
    iocs: Vec<IocDay>,
}

/// Faults of an IOC on one day.
#[derive(Clone, Copy, Debug, Default)]
struct IocDay {
    /// Constant error of the clock.
    offset: i64,
    /// From when the clock is wrong by `step`, until midnight.
    step_from: i64,
    step: i64,
    /// Interval of a restart, without samples.
    down: (i64, i64),
    /// Last restart, for counters.
    booted: i64,
}

impl Day {
    pub(super) fn new(population: &Population, number: u32) -> Day {
        let Shape { seed, faults, .. } = population.shape;
        let start = i64::from(number) * DAY;
        let random = |n: u64| at(seed, 0x7819, u64::from(number), n);
        let trip = |n: u64| {
            let from = start + below(random(3 * n + 1), (DAY - 900 * SECOND) as u64) as i64;
            // 20 s to 10 min, mostly short.
            (from, from + (20.0 * 30_f64.powf(unit_interval(random(3 * n + 2))) * 1e9) as i64)
        };
        let mut trips: Vec<(i64, i64)> = (0..4 + below(random(0), 6)).map(trip).collect();
        trips.sort_unstable();
        let of_ioc = |ioc| IocDay::new(seed, ioc, number, faults);
        Day {
            number,
            maintenance: is_maintenance(number),
            faults,
            seed,
            trips,
            iocs: (0..population.iocs).map(of_ioc).collect(),
        }
    }

    fn start(&self) -> i64 {
        i64::from(self.number) * DAY
    }

    pub(super) fn end(&self) -> i64 {
        self.start() + DAY
    }

    fn is_trip(&self, time: i64) -> bool {
        self.trips.iter().any(|(from, to)| (*from..*to).contains(&time))
    }
}

/// Whether the machine is in maintenance on this day.
pub(super) fn is_maintenance(day: u32) -> bool {
    day % MAINTENANCE_DAYS == MAINTENANCE_FIRST
}

impl IocDay {
    fn new(seed: u64, ioc: u32, day: u32, faults: bool) -> IocDay {
        if !faults {
            return IocDay::default();
        }
        let start = i64::from(day) * DAY;
        let of_ioc = at(seed, 0x0FF5E7, u64::from(ioc), 0);
        let random = |n: u64| at(seed, 0x57E9 ^ u64::from(ioc) << 20, u64::from(day), n);
        let mut faulty = IocDay::default();
        if of_ioc.is_multiple_of(50) {
            let size = 1 + below(mix(of_ioc), 60) as i64;
            faulty.offset = if of_ioc >> 32 & 1 == 1 { size * SECOND } else { -size * SECOND };
        }
        faulty.step_from = i64::MAX;
        if random(0).is_multiple_of(200) {
            faulty.step_from = start + below(random(1), DAY as u64) as i64;
            // 0.6 ms early within the scan period: stamps differ from those of the right clock.
            faulty.step = (below(random(2), 41) as i64 - 20) * 100_000_000 - 600_000;
        }
        let restart = |day: u32| {
            let random = |n: u64| at(seed, 0xB007 ^ u64::from(ioc) << 20, u64::from(day), n);
            let from = i64::from(day) * DAY + below(random(1), (DAY - 200 * SECOND) as u64) as i64;
            (random(0).is_multiple_of(30)).then(|| (from, from + (60 + below(random(2), 120) as i64) * SECOND))
        };
        faulty.down = restart(day).unwrap_or_default();
        // Counters count from the last restart. A restart on this day counts from the next day on,
        // because the counter of a slot must not depend on its position in the day.
        faulty.booted = (0..day).rev().take(64).find_map(restart).map_or(0, |(_, to)| to);
        faulty
    }
}

/// The stream of one PV on one day.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    random: u64,
    /// Number of the next slot with a sample, and its time.
    slot: i64,
    pub(super) time: i64,
    /// State of the AR(1) process, in standard deviations.
    level: f64,
    last: Option<Sample>,
    /// Slots to skip: `gap * skip`; 0 if each slot yields a sample.
    skip: f32,
    state: u16,
    /// Alarm: 0, ±1 (minor) or ±2 (major).
    alarm: i8,
    /// Whether the day's lost connection has its sample.
    lost: bool,
}

impl Cursor {
    /// Stands before the first sample of the day.
    pub(super) fn new(tables: &Tables, pv: &Pv, day: &Day) -> Cursor {
        let mut random = stream(day.seed, u64::from(pv.number), u64::from(day.number));
        let bits = next(&mut random);
        let first = (day.start() - pv.phase + pv.period - 1).div_euclid(pv.period).max(0);
        let probability = pv.probability * if day.maintenance { MAINTENANCE_RATE } else { 1.0 };
        let skip = if probability > 0.9995 { 0.0 } else { (-1.0 / (-probability).ln_1p()) as f32 };
        let mut cursor = Cursor {
            random,
            slot: first,
            time: first * pv.period + pv.phase,
            level: 0.0,
            last: None,
            skip,
            state: below(bits, u64::from(pv.size.max(1))) as u16,
            alarm: 0,
            lost: false,
        };
        // Sum of three uniform numbers: nearly normal with standard deviation 1.
        cursor.level = uniform_sum(bits);
        let bits = next(&mut cursor.random);
        cursor.advance(tables, pv, bits, 0);
        if !pv.days.contains(&day.number) {
            cursor.time = i64::MAX;
        }
        cursor
    }

    /// Moves to the next slot with a sample, at least `least` slots ahead.
    #[inline]
    fn advance(&mut self, tables: &Tables, pv: &Pv, bits: u64, least: i64) {
        let gap = tables.gaps[(bits & (GAPS as u64 - 1)) as usize] * self.skip;
        self.slot += least + gap as i64;
        self.time = self.slot * pv.period + pv.phase;
    }

    /// Appends the next sample before `end` to `batch`, and its position in the order of arrival;
    /// false if there is none.
    #[inline]
    pub(super) fn next(
        &mut self,
        tables: &Tables,
        pv: &Pv,
        index: u32,
        day: &Day,
        end: i64,
        batch: &mut Batch,
    ) -> bool {
        let ioc = &day.iocs[pv.ioc as usize];
        loop {
            let time = self.time;
            if time >= end {
                return false;
            }
            let bits = next(&mut self.random);
            let slot = self.slot;
            self.advance(tables, pv, bits, 1);
            let down = !pv.healthy && (ioc.down.0..ioc.down.1).contains(&time);
            if down {
                if std::mem::replace(&mut self.lost, true) {
                    continue;
                }
                batch.push(time, Sample::lost(index, START_NANOS + time, START_NANOS + ioc.down.1));
                return true;
            }
            let arrival = time + delay(pv, day.seed, time, bits);
            let mut stamp = START_NANOS + arrival;
            if !pv.by_event && !pv.healthy {
                stamp += ioc.offset + if time >= ioc.step_from { ioc.step } else { 0 };
            }
            let fault = bits >> 44;
            let mut repeat = None;
            if fault < FAULTS_OF_2_20 && day.faults && !pv.healthy {
                match fault % 3 {
                    0 => stamp = EPICS_EPOCH_NANOS + arrival,
                    // Back by whole slots, to a part of the slot that is not used.
                    1 if pv.by_event => stamp -= (1 + fault as i64) * TRIGGER_NANOS + 5_000_000,
                    1 => stamp -= (1 + fault as i64 / 3) * 100_000_000 + 1_200_000,
                    _ => repeat = self.last,
                }
            }
            let sample = match repeat {
                Some(last) => Sample { repeats: true, ..last },
                None => self.value(pv, index, stamp, slot, day, ioc, &mut batch.heap),
            };
            if !matches!(sample.kind, Kind::Text | Kind::Elements) {
                // Positions in the heap are of one batch.
                self.last = Some(sample);
            }
            batch.push(arrival, sample);
            return true;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the inner loop, whose state is in several places")]
    #[inline]
    fn value(
        &mut self,
        pv: &Pv,
        index: u32,
        time: i64,
        slot: i64,
        day: &Day,
        ioc: &IocDay,
        heap: &mut Vec<u8>,
    ) -> Sample {
        let bits = next(&mut self.random);
        let (mut severity, mut status) = (0, 0);
        let mut length = 0;
        let (kind, bits) = match pv.class {
            Class::Analog | Class::Long => {
                let trip = pv.current && day.is_trip(slot * pv.period + pv.phase);
                let before = self.level;
                let mut level = before * pv.memory + uniform_sum(bits) * pv.innovation;
                if (level - before).abs() < pv.deadband {
                    level = before + pv.deadband.copysign(level - before);
                }
                self.level = level;
                let noise = ((bits >> 48 & 0xff) as f64 - (bits >> 56) as f64) * (pv.noise * (1.0 / 104.0));
                let raw = if trip {
                    (severity, status) = (2, status::LOLO);
                    noise.abs()
                } else {
                    (severity, status) = self.alarm();
                    pv.mean + pv.deviation * level + noise
                };
                let raw = (raw.clamp(0.0, pv.raw_max) + 0.5) as i64 as f64;
                let value = if pv.class == Class::Long { raw } else { raw * pv.slope + pv.offset };
                (Kind::Number, value.to_bits())
            }
            Class::Calc | Class::Float32 => {
                // Uniform with standard deviation 1, so that each sample has 53 new bits.
                let innovation = (unit_interval(bits) - 0.5) * 3.464_101_615_137_754_6;
                self.level = self.level * pv.memory + innovation * pv.innovation;
                (severity, status) = self.alarm();
                let value = pv.mean + pv.deviation * self.level;
                let value = if pv.class == Class::Float32 { f64::from(value as f32) } else { value };
                (Kind::Number, value.to_bits())
            }
            Class::Counter => {
                let since = slot - (ioc.booted - pv.phase).div_euclid(pv.period).max(0);
                let size = i64::from(pv.size);
                // Monotone: the random part is below one increment.
                let value = since * size + below(bits, size as u64) as i64;
                (Kind::Number, (value as f64).to_bits())
            }
            Class::Enum => {
                // Changes every three minutes on average, and at most with every second sample.
                let change = (pv.period as f64 / (pv.probability * 180e9)).min(0.5);
                if unit_interval(bits) < change {
                    self.state = ((u64::from(self.state) + 1 + (bits & 0xff)) % u64::from(pv.size)) as u16;
                }
                if pv.size > 3 && u32::from(self.state) + 1 == pv.size && pv.number.is_multiple_of(8) {
                    (severity, status) = (1, status::STATE);
                }
                (Kind::Number, f64::from(self.state).to_bits())
            }
            Class::Int64 => {
                // The number of a pulse in nanoseconds of TAI: above 2^53.
                (Kind::Exact, (time + 37 * SECOND) as u64 | 1)
            }
            Class::Text => {
                let from = heap.len();
                text(pv, bits, slot, heap);
                length = (heap.len() - from) as u32;
                (Kind::Text, from as u64)
            }
            Class::Waveform => {
                let from = heap.len();
                self.level = self.level * pv.memory + uniform_sum(bits) * pv.innovation;
                waveform(pv, self.level, bits, heap);
                length = (heap.len() - from) as u32;
                (Kind::Elements, from as u64)
            }
        };
        Sample { pv: index, length, time, bits, kind, severity, status, repeats: false }
    }

    /// Severity and status of the level, with hysteresis.
    #[inline]
    fn alarm(&mut self) -> (u8, u8) {
        let level = self.level as f32;
        let size = level.abs();
        if self.alarm == 0 && size < LIMIT {
            return (0, 0);
        }
        let above = |limit: f32, held: bool| size >= if held { limit - HYSTERESIS } else { limit };
        let held = self.alarm.abs();
        let now = if above(LIMIT_MAJOR, held == 2) { 2 } else { i8::from(above(LIMIT, held >= 1)) };
        self.alarm = if level < 0.0 { -now } else { now };
        match self.alarm {
            2 => (2, status::HIHI),
            1 => (1, status::HIGH),
            -1 => (1, status::LOW),
            -2 => (2, status::LOLO),
            _ => (0, 0),
        }
    }
}

#[inline]
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(STEP);
    mix(*random)
}

/// Sum of three uniform numbers of 16 bits, with mean 0 and standard deviation 1.
#[inline]
fn uniform_sum(bits: u64) -> f64 {
    let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff);
    (sum as f64 - 98_302.5) * (2.0 / 65_536.0)
}

/// Nanoseconds from a slot to its stamp: the drift of the mains for triggers, which all PVs share,
/// or 50 to 500 µs of an IOC's scheduler.
#[inline]
fn delay(pv: &Pv, seed: u64, time: i64, bits: u64) -> i64 {
    if pv.by_event {
        return (mix(seed ^ (time / TRIGGER_NANOS) as u64) & 0x7fff) as i64;
    }
    let sum = (bits >> GAP_BITS & 0x1_ffff) + (bits >> (GAP_BITS + 17) & 0x1_ffff);
    50_000 + ((sum * 225_000) >> 17) as i64
}

const TEXTS: [&str; 16] = [
    "OK",
    "Idle",
    "Ready for beam",
    "Beam permit removed",
    "Interlock: vacuum",
    "Interlock: water flow",
    "Magnet ramping",
    "RF conditioning",
    "Target cart inserted",
    "Operator request",
    "Timing: pulse missed",
    "Remote",
    "Local",
    "Warming up",
    "Fault reset",
    "Communication restored",
];

/// Appends a text: one of a few, sometimes with a number.
fn text(pv: &Pv, bits: u64, slot: i64, heap: &mut Vec<u8>) {
    // Texts repeat for a while, as messages of a state do.
    let which = mix(u64::from(pv.number) << 32 ^ (slot as u64 >> 4)) % u64::from(pv.size.min(16));
    heap.extend_from_slice(TEXTS[which as usize].as_bytes());
    if bits >> 61 == 0 {
        heap.extend_from_slice(b" #");
        let digits = bits % 10_000;
        [1_000, 100, 10, 1].iter().for_each(|place| heap.push(b'0' + (digits / place % 10) as u8));
    }
}

/// Appends a waveform: a pulse whose height follows `level`, with the noise of a digitiser.
fn waveform(pv: &Pv, level: f64, mut random: u64, heap: &mut Vec<u8>) {
    let elements = pv.size as usize;
    let height = 8_000.0 + 400.0 * level as f32;
    let width = elements as f32 * 0.3;
    let middle = elements as f32 * 0.5;
    for first in (0..elements).step_by(8) {
        random = random.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        for lane in 0..8_usize.min(elements - first) {
            let x = ((first + lane) as f32 - middle) / width;
            // A bell without exp(): the same bits on every machine.
            let bell = height / (1.0 + x * x * x * x);
            let noise = (random >> (8 * lane) & 7) as f32;
            if pv.floats {
                heap.extend_from_slice(&((bell + noise) * 1.220_703e-3_f32).to_le_bytes());
            } else {
                heap.extend_from_slice(&((bell + noise) as i16).to_le_bytes());
            }
        }
    }
}

/// Samples of a time interval.
#[derive(Default)]
pub(super) struct Batch {
    /// PV by PV.
    pub(super) samples: Vec<Sample>,
    /// The same in order of arrival, once the batch is complete. They are copies, because whoever reads each sample from another place
    /// of memory, and does some work with it, waits for the memory longer than for the work.
    pub(super) arrived: Vec<Sample>,
    /// Texts and elements of the samples.
    pub(super) heap: Vec<u8>,
    /// Number of the samples of [`Kind::Lost`].
    pub(super) lost: usize,
    /// Nanoseconds from `from` to the arrival in the upper 36 bits, index in `samples` below.
    keys: Vec<u64>,
    /// Start of the interval.
    pub(super) from: i64,
    /// End of the interval.
    pub(super) to: i64,
}

impl Batch {
    /// Empties the batch for an interval from `from`.
    pub(super) fn clear(&mut self, from: i64, to: i64) {
        self.samples.clear();
        self.heap.clear();
        self.keys.clear();
        self.lost = 0;
        (self.from, self.to) = (from, to);
    }

    /// Adds a sample by its arrival.
    #[inline]
    fn push(&mut self, arrival: i64, sample: Sample) {
        self.keys.push((arrival as u64).wrapping_sub(self.from as u64) << 28 | self.samples.len() as u64);
        self.lost += usize::from(sample.kind == Kind::Lost);
        self.samples.push(sample);
    }

    fn sort(&mut self) {
        self.keys.sort_unstable();
        self.arrived.clear();
        self.arrived.extend(self.keys.iter().map(|key| self.samples[(key & 0xfff_ffff) as usize]));
    }
}

/// Longest interval of a batch: arrival times have 36 bits.
pub(super) const BATCH_MAX: i64 = MINUTE;

/// The samples of all PVs, batch by batch.
pub(super) struct Stream<'a> {
    population: &'a Population,
    tables: Tables,
    day: Day,
    cursors: Vec<Cursor>,
    /// End of the last batch.
    time: i64,
    /// Length of a batch in nanoseconds, at most [`BATCH_MAX`].
    step: i64,
}

impl<'a> Stream<'a> {
    pub(super) fn new(population: &'a Population, step: i64) -> Stream<'a> {
        let (tables, day) = (Tables::new(), Day::new(population, 0));
        let cursors = population.pvs.iter().map(|pv| Cursor::new(&tables, pv, &day)).collect();
        Stream { population, tables, day, cursors, time: 0, step: step.clamp(1, BATCH_MAX) }
    }

    /// Replaces `batch` by the next interval, which ends at `end` or a midnight at the latest;
    /// false at `end`. The batch is in order of arrival and may be empty.
    pub(super) fn next(&mut self, end: i64, batch: &mut Batch) -> bool {
        if self.time >= end {
            return false;
        }
        if self.time >= self.day.end() {
            self.day = Day::new(self.population, self.day.number + 1);
            for (cursor, pv) in self.cursors.iter_mut().zip(&self.population.pvs) {
                *cursor = Cursor::new(&self.tables, pv, &self.day);
            }
        }
        let to = (self.time + self.step).min(end).min(self.day.end());
        batch.clear(self.time, to);
        for (index, (cursor, pv)) in self.cursors.iter_mut().zip(&self.population.pvs).enumerate() {
            if cursor.time < to {
                while cursor.next(&self.tables, pv, index as u32, &self.day, to, batch) {}
            }
        }
        batch.sort();
        self.time = to;
        true
    }
}

/// Calls `each` for all samples of one PV from the start of the data to `end`, in order of arrival,
/// until it returns false.
pub(super) fn of_pv(population: &Population, index: usize, end: i64, mut each: impl FnMut(&Sample, &[u8]) -> bool) {
    let tables = Tables::new();
    let pv = &population.pvs[index];
    let mut batch = Batch::default();
    for number in 0..end.div_euclid(DAY) as u32 + 1 {
        let day = Day::new(population, number);
        let mut cursor = Cursor::new(&tables, pv, &day);
        let to = end.min(day.end());
        loop {
            batch.clear(day.start(), to);
            if !cursor.next(&tables, pv, index as u32, &day, to, &mut batch) {
                break;
            }
            if !each(&batch.samples[0], &batch.heap) {
                return;
            }
        }
    }
}
