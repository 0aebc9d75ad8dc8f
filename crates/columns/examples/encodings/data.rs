//! Classes of test data, one block each: synthetic machine data and real measurements.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
};
use model::DataType;

mod texts;

/// Rows per block.
pub(crate) const ROWS: usize = 8_192;
const START: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// A named column of one block.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) ty: DataType,
    pub(crate) values: ArrayRef,
    /// Approximate lower bound in bytes per value, where the generator tells it: the entropy of the
    /// random part.
    pub(crate) floor: Option<f64>,
}

/// Splitmix64, so that runs are reproducible.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number of 0 .. 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normally distributed: mean 0, standard deviation 1.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Entropy in bytes of normally distributed integers with standard deviation `sigma`.
fn normal_bytes(sigma: f64) -> Option<f64> {
    Some((sigma * 4.1327).log2() / 8.0)
}

/// All classes; those of real files only if the files exist.
pub(crate) fn classes() -> Vec<Class> {
    let mut random = Random(1);
    let mut all = times(&mut random);
    all.extend(integers(&mut random));
    all.extend(decimals(&mut random));
    all.extend(floats(&mut random));
    all.extend(texts::texts(&mut random));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../millrace/assets/data");
    let folder = std::env::var_os("ENCODINGS_DATA").map_or(folder, Into::into);
    all.extend(measured(&folder));
    all
}

fn int_class(name: &'static str, floor: Option<f64>, values: impl Iterator<Item = i64>) -> Class {
    Class { name, ty: DataType::Int64, values: Arc::new(Int64Array::from_iter_values(values.take(ROWS))), floor }
}

fn time_class(name: &'static str, floor: Option<f64>, values: impl Iterator<Item = i64>) -> Class {
    let values = TimestampNanosecondArray::from_iter_values(values.take(ROWS));
    Class { name, ty: DataType::Timestamp, values: Arc::new(values.with_timezone("UTC")), floor }
}

fn float_class(name: &'static str, floor: Option<f64>, values: impl Iterator<Item = f64>) -> Class {
    Class { name, ty: DataType::Float64, values: Arc::new(Float64Array::from_iter_values(values.take(ROWS))), floor }
}

fn times(r: &mut Random) -> Vec<Class> {
    let row = || 0..ROWS as i64;
    let uniform = |n: f64| Some(n.log2() / 8.0);
    let mut late = 0.0;
    let mut at = START;
    let shared: Vec<i64> = (0..300).map(|i| i * SECOND + r.below(1_000_000) as i64).collect();
    vec![
        time_class("times, regular", Some(0.0), row().map(|i| START + i * SECOND)),
        time_class("times, regular, 27 series", Some(0.0), row().map(|i| START + (i % 300) * SECOND)),
        time_class(
            "times, ms, uniform 20 ms",
            uniform(20.0),
            row().map(|i| START + i * SECOND + r.below(20) as i64 * 1_000_000),
        ),
        time_class(
            "times, us, normal 300 us",
            normal_bytes(300.0),
            row().map(|i| START + i * SECOND / 10 + (300.0 * r.normal()) as i64 * 1_000),
        ),
        time_class(
            "times, ns, normal 300 us",
            normal_bytes(3e5),
            row().map(|i| START + i * SECOND / 10 + (3e5 * r.normal()) as i64),
        ),
        time_class(
            "times, ns, delays add up",
            normal_bytes(3e4),
            row().map(|i| {
                late += 3e4 * r.normal();
                START + i * SECOND / 10 + late as i64
            }),
        ),
        time_class(
            "times, ns jitter, gaps",
            normal_bytes(5e4),
            row().map(|_| {
                at += if r.below(100) == 0 { 1 + r.below(50) as i64 } else { 1 } * SECOND;
                at + (5e4 * r.normal()) as i64
            }),
        ),
        time_class(
            "times, ns jitter, 27 series alike",
            Some(20.0 / 8.0 / 27.3),
            row().map(|i| START + shared[i as usize % 300]),
        ),
        time_class(
            "times, bursts",
            None,
            row().map(|_| {
                at += if r.below(20) == 0 { r.below(60_000_000_000) as i64 } else { r.below(5_000) as i64 };
                at
            }),
        ),
    ]
}

fn integers(r: &mut Random) -> Vec<Class> {
    let row = || 0..ROWS as i64;
    let (mut counter, mut reset, mut gauge, mut bytes, mut state, mut cpu) = (0, 0, 5_000, 0i64, 0, 50.0f64);
    vec![
        int_class("counter, by 7", Some(0.0), row().map(|i| 1_000 + 7 * i)),
        int_class(
            "counter, by 0 .. 20",
            Some(20f64.log2() / 8.0),
            row().map(|_| {
                counter += r.below(20) as i64;
                counter
            }),
        ),
        int_class(
            "counter, noisy, resets",
            normal_bytes(100.0),
            row().map(|_| {
                reset = if r.below(1_000) == 0 { 0 } else { reset + 1_000 + (100.0 * r.normal()) as i64 };
                reset
            }),
        ),
        int_class(
            "counter of bytes, bursts",
            None,
            row().map(|_| {
                bytes += if r.below(10) == 0 { r.below(100_000_000) as i64 } else { r.below(2_000) as i64 };
                bytes
            }),
        ),
        int_class(
            "gauge, normal steps of 5",
            normal_bytes(5.0),
            row().map(|_| {
                gauge += (5.0 * r.normal()).round() as i64;
                gauge
            }),
        ),
        int_class(
            "gauge 0 .. 100, steps of 1",
            None,
            row().map(|_| {
                cpu = (cpu + r.normal()).clamp(0.0, 100.0);
                cpu as i64
            }),
        ),
        int_class("integers, uniform 16 bit", Some(2.0), row().map(|_| r.below(1 << 16) as i64)),
        int_class(
            "states, 5, minutes each",
            Some(0.01),
            row().map(|_| {
                state = if r.below(200) == 0 { r.below(5) as i64 } else { state };
                state
            }),
        ),
        int_class(
            "severity, 90 % none",
            Some(0.071),
            row().map(|_| [0, 1, 2, 3][if r.below(10) > 0 { 0 } else { 1 + r.below(3) as usize }]),
        ),
        int_class("codes, 12 of 32 bits", Some(12f64.log2() / 8.0), row().map(|_| r.below(12) as i64 * 171_798_691)),
        int_class("cycle of 100 values", Some(0.0), row().map(|i| Random(i as u64 % 100).below(1 << 20) as i64)),
        bool_class("bool, 1 in 100", Some(0.0101), row().map(|_| r.below(100) == 0)),
        bool_class("bool, 1 in 10", Some(0.0586), row().map(|_| r.below(10) == 0)),
        bool_class("bool, even", Some(0.125), row().map(|_| r.below(2) == 0)),
    ]
}

fn bool_class(name: &'static str, floor: Option<f64>, values: impl Iterator<Item = bool>) -> Class {
    let values: BooleanArray = values.take(ROWS).map(Some).collect();
    Class { name, ty: DataType::Bool, values: Arc::new(values), floor }
}

fn decimals(r: &mut Random) -> Vec<Class> {
    let row = || 0..ROWS as i64;
    let mut walks = [20_000.0f64; 4];
    let mut walk = |which: usize, sigma: f64, scale: f64, r: &mut Random| {
        walks[which] += sigma * r.normal();
        walks[which].round() / scale
    };
    let mut even = 2_000;
    vec![
        float_class("1 digit, normal steps of 3", normal_bytes(3.0), row().map(|_| walk(0, 3.0, 10.0, r))),
        float_class("2 digits, normal steps of 5", normal_bytes(5.0), row().map(|_| walk(1, 5.0, 100.0, r))),
        float_class("4 digits, normal steps of 50", normal_bytes(50.0), row().map(|_| walk(2, 50.0, 10_000.0, r))),
        float_class(
            "2 digits, steps of -50 .. 50",
            Some(101f64.log2() / 8.0),
            row().map(|_| {
                even += r.below(101) as i64 - 50;
                even as f64 / 100.0
            }),
        ),
        float_class(
            "2 digits, uniform 49 .. 51",
            Some(200f64.log2() / 8.0),
            row().map(|_| (4_900 + r.below(200)) as f64 / 100.0),
        ),
        float_class(
            "2 digits, sine",
            None,
            row().map(|i| (100.0 * (500.0 + 400.0 * (i as f64 / 700.0).sin())).round() / 100.0),
        ),
        float_class("2 digits, line", None, row().map(|i| ((6_000.0 + i as f64 * 0.1234) * 100.0).round() / 100.0)),
        float_class("2 digits, square", Some(0.0), row().map(|i| if i % 1_000 < 500 { 787.74 } else { 781.54 })),
        float_class(
            "2 digits, 1 in 50 NaN",
            None,
            row().map(|_| if r.below(50) == 0 { f64::NAN } else { walk(3, 5.0, 100.0, r) }),
        ),
        Class {
            name: "2 digits as real, steps of 5",
            ty: DataType::Float32,
            floor: normal_bytes(5.0),
            values: Arc::new(row().map(|_| Some(walk(3, 5.0, 100.0, r) as f32)).collect::<Float32Array>()),
        },
        Class {
            name: "2 digits, 9 in 10 NULL",
            ty: DataType::Float64,
            floor: None,
            values: Arc::new(
                row().map(|_| (r.below(10) == 0).then(|| walk(3, 5.0, 100.0, r))).collect::<Float64Array>(),
            ),
        },
        float_class(
            "0, 1 in 100 not",
            None,
            row().map(|_| if r.below(100) == 0 { r.below(10_000) as f64 / 100.0 } else { 0.0 }),
        ),
    ]
}

fn floats(r: &mut Random) -> Vec<Class> {
    let row = || 0..ROWS as i64;
    let (mut slow, mut drift, mut trend) = (0.0, 0.0, 300.0);
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    vec![
        float_class(
            "12-bit converter, scaled, noisy",
            normal_bytes(2.0),
            row().map(|_| {
                slow = 0.999 * slow + r.normal();
                let steps = (2_048.0 + slow + 1.5 * r.normal()).round();
                steps * (20.0 / 4_095.0) - 9.876_54
            }),
        ),
        float_class(
            "16-bit converter, scaled, drifts",
            normal_bytes(20.0),
            row().map(|_| {
                drift += 20.0 * r.normal();
                (30_000.0 + drift).round() * (10.0 / 65_535.0)
            }),
        ),
        float_class(
            "computed, noise 1e-3 on 300",
            None,
            row().map(|_| {
                trend += 1e-4 * r.normal();
                trend * (1.0 + 1e-3 * r.normal())
            }),
        ),
        float_class("sine, full mantissa", None, row().map(|i| (i as f64 / 500.0).sin())),
        Class {
            name: "sine, real",
            ty: DataType::Float32,
            values: Arc::new(row().map(|i| Some((i as f32 / 500.0).sin())).collect::<Float32Array>()),
            floor: None,
        },
        Class {
            name: "real as double, noisy",
            ty: DataType::Float64,
            values: Arc::new(row().map(|_| Some(f64::from((50.0 + r.normal()) as f32))).collect::<Float64Array>()),
            floor: None,
        },
        float_class("noise 0 .. 1", Some(6.625), row().map(|_| r.unit())),
        float_class("bits at random", Some(8.0), row().map(|_| f64::from_bits(r.next()))),
        float_class(
            "noise, 1 in 20 NaN, inf, -0",
            None,
            row().map(|_| if r.below(20) == 0 { special[r.below(4) as usize] } else { r.normal() }),
        ),
        float_class("constant", Some(0.0), row().map(|_| 21.5)),
    ]
}

/// Real data, from the weather files: (name, file, column).
const MEASURED: [(&str, &str, usize); 9] = [
    ("Beijing pm2.5", "beijing_pm25.csv", 5),
    ("Beijing temperature", "beijing_pm25.csv", 7),
    ("Beijing pressure", "beijing_pm25.csv", 8),
    ("Beijing wind, cumulated", "beijing_pm25.csv", 10),
    ("New York temperature", "nyc_weather_2013.csv", 5),
    ("New York humidity", "nyc_weather_2013.csv", 7),
    ("New York wind speed", "nyc_weather_2013.csv", 9),
    ("New York rain", "nyc_weather_2013.csv", 11),
    ("New York pressure", "nyc_weather_2013.csv", 12),
];

fn measured(folder: &Path) -> Vec<Class> {
    let column = |file: &str, column: usize| -> Option<Vec<String>> {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        let field = |line: &str| line.split(',').nth(column).unwrap_or_default().trim_matches('"').to_owned();
        Some(text.lines().skip(1).take(ROWS).map(field).collect())
    };
    let mut all = Vec::new();
    for (name, file, at) in MEASURED {
        let Some(fields) = column(file, at) else { continue };
        let values: Float64Array = fields.iter().map(|field| field.parse::<f64>().ok()).collect();
        all.push(Class { name, ty: DataType::Float64, values: Arc::new(values), floor: None });
    }
    if let Some(winds) = column("beijing_pm25.csv", 9) {
        let values: StringArray = winds.into_iter().map(Some).collect();
        all.push(Class { name: "Beijing wind direction", ty: DataType::Text, values: Arc::new(values), floor: None });
    }
    all
}
