//! Figures published by IoT-benchmark's authors: the use case in its manual, the examples in its
//! README, and the manual's example for IoTDB 2.0.
//!
//! Numbers as printed. Kinds that did not run are left out: their zeros are not measurements.

use super::{Amount, Case, Number, Page, Read, Unit};

/// The page with the use case.
pub(super) const USE_CASE: Page = Page {
    title: "IoT-benchmark's use case",
    source: "Apache IoTDB's manual, \"Benchmark Tool\", chapter \"Use Case\" (versions 1.0 to 1.3)",
    machine: "16 cores, 32 GB, 200 GB disk; client on another; gigabit",
    workload: "iot",
    cases: &[
        Case {
            name: "writes, IoTDB 0.13",
            command: "bench iot --config docs/benchmarks/usecase",
            configuration: include_str!("../../../../docs/benchmarks/usecase/config.properties"),
            requests: 1_000_000,
            numbers: || {
                vec![
                    writes("AVG", 55.98, Unit::Millis, Read::Latency("INGESTION", 0), Amount::Free),
                    writes("throughput", 5_125_600.86, Unit::PerSecond, Read::Throughput("INGESTION"), Amount::Free),
                    Number::new("elapsed", 585.30, Unit::Seconds, Read::Elapsed, Amount::Total),
                    Number::new("bytes on disk (4.7G)", 4.7 * GIB, Unit::Bytes, Read::Disk, Amount::Total),
                    writes("failPoint", 0.0, Unit::Count, Read::FailPoint("INGESTION"), Amount::Total),
                ]
            },
            note: "",
        },
        Case {
            name: "writes, KairosDB",
            command: "bench iot --config docs/benchmarks/usecase",
            configuration: include_str!("../../../../docs/benchmarks/usecase/config.properties"),
            requests: 1_000_000,
            numbers: || {
                vec![
                    writes("AVG", 1_324.45, Unit::Millis, Read::Latency("INGESTION", 0), Amount::Free),
                    writes("throughput", 224_819.01, Unit::PerSecond, Read::Throughput("INGESTION"), Amount::Free),
                    Number::new("elapsed", 11_777.99, Unit::Seconds, Read::Elapsed, Amount::Total),
                ]
            },
            note: "Its disk of 200 GB was full before the end: writes failed, how many is not said.",
        },
        Case {
            name: "queries, IoTDB 0.13, 10 clients (text) or 100 (table)",
            command: "bench iot --config docs/benchmarks/usecase/query",
            configuration: include_str!("../../../../docs/benchmarks/usecase/query/config.properties"),
            requests: 300,
            numbers: Vec::new,
            note: "Published as a picture without text: there is no number to compare with.",
        },
    ],
};

/// The examples of the README.
pub(super) const README: Page = Page {
    title: "IoT-benchmark's README",
    source: "thulab/iot-benchmark, README.md, sections 6.1 to 6.4 (IoTDB 0.13, May 2022)",
    machine: "i7-11700, 32 GB, data on a hard disk; client on the same",
    workload: "iot",
    cases: &[
        Case {
            name: "6.1 writes",
            command: "bench iot --config docs/benchmarks/readme/write",
            configuration: include_str!("../../../../docs/benchmarks/readme/write/config.properties"),
            requests: 500_000,
            numbers: || matrices(1_238.79, README_WRITE),
            note: "The text above the matrix says 0.5 billion points, the matrix and its throughput 25 billion.",
        },
        Case {
            name: "6.2 queries",
            command: "bench iot --config docs/benchmarks/readme/query",
            configuration: include_str!("../../../../docs/benchmarks/readme/query/config.properties"),
            requests: 200_000,
            numbers: || matrices(196.72, README_QUERY),
            note: "Over the data of 6.1. How many requests each kind got was drawn.",
        },
        Case {
            name: "6.3 mixed",
            command: "bench iot --config docs/benchmarks/readme/mixed",
            configuration: include_str!("../../../../docs/benchmarks/readme/mixed/config.properties"),
            requests: 227_375,
            numbers: || matrices(166.98, README_MIXED),
            note: "",
        },
        Case {
            name: "6.4 mixed, asking about what was just written",
            command: "bench iot --config docs/benchmarks/readme/recent",
            configuration: include_str!("../../../../docs/benchmarks/readme/recent/config.properties"),
            requests: 227_375,
            numbers: || matrices(170.32, README_RECENT),
            note: "",
        },
    ],
};

/// The example of the manual for IoTDB 2.0.
pub(super) const TABLE_MODEL: Page = Page {
    title: "IoTDB 2.0's table model",
    source: "Apache IoTDB's manual, \"Benchmark Tool\", chapter \"Test Example\" (version 2.0, table model)",
    machine: "not said",
    workload: "iot",
    cases: &[Case {
        name: "writes",
        command: "bench iot --config docs/benchmarks/iotdb-table",
        configuration: include_str!("../../../../docs/benchmarks/iotdb-table/config.properties"),
        requests: 600,
        numbers: || matrices(4.60, TABLE_WRITE),
        note: "Too few requests to say much: the slowest client wrote for 2.6 of the 4.6 s.",
    }],
};

const GIB: f64 = (1u64 << 30) as f64;

/// A line of both matrices: operation; okOperation, okPoint, failOperation, failPoint, throughput;
/// latencies.
type Line = (&'static str, [f64; 5], [f64; 12]);

const LATENCIES: [&str; 12] =
    ["AVG", "MIN", "P10", "P25", "MEDIAN", "P75", "P90", "P95", "P99", "P999", "MAX", "SLOWEST_THREAD"];

fn writes(figure: &str, value: f64, unit: Unit, read: Read, amount: Amount) -> Number {
    Number::new(&format!("INGESTION {figure}"), value, unit, read, amount)
}

/// All numbers of the two matrices and of the line above them.
fn matrices(elapsed: f64, lines: &[Line]) -> Vec<Number> {
    let mut numbers = vec![Number::new("elapsed", elapsed, Unit::Seconds, Read::Elapsed, Amount::Total)];
    for (operation, counts, latencies) in lines {
        let mut add = |figure: &str, value, unit, read, amount| {
            numbers.push(Number::new(&format!("{operation} {figure}"), value, unit, read, amount));
        };
        // Q5 and Q8 read an amount that grows with all the data, whatever their windows.
        let grows = ["AGG_VALUE", "LATEST_POINT"].contains(operation);
        let amount = if grows { Amount::Grows } else { Amount::Free };
        add("okOperation", counts[0], Unit::Count, Read::OkOperation(operation), Amount::Total);
        add("okPoint", counts[1], Unit::Count, Read::OkPoint(operation), Amount::Total);
        add("failOperation", counts[2], Unit::Count, Read::FailOperation(operation), Amount::Total);
        add("failPoint", counts[3], Unit::Count, Read::FailPoint(operation), Amount::Total);
        add("throughput", counts[4], Unit::PerSecond, Read::Throughput(operation), amount);
        for (at, (figure, latency)) in LATENCIES.iter().zip(latencies).enumerate() {
            let amount = if *figure == "SLOWEST_THREAD" { Amount::Total } else { amount };
            add(figure, *latency, Unit::Millis, Read::Latency(operation, at), amount);
        }
    }
    numbers
}

#[rustfmt::skip]
const README_WRITE: &[Line] = &[
    ("INGESTION", [500_000.0, 25_000_000_000.0, 0.0, 0.0, 20_180_954.09],
        [37.78, 1.67, 2.02, 2.29, 2.86, 4.14, 5.62, 7.43, 759.69, 5_799.89, 8_309.40, 1_227_561.44]),
];

#[rustfmt::skip]
const README_QUERY: &[Line] = &[
    ("PRECISE_POINT", [20_005.0, 19_964.0, 0.0, 0.0, 101.49],
        [4.53, 0.21, 1.39, 1.94, 2.77, 4.17, 8.77, 15.91, 32.66, 54.53, 92.02, 5_219.85]),
    ("TIME_RANGE", [19_825.0, 24_800_244.0, 0.0, 0.0, 126_070.25],
        [5.43, 0.41, 1.93, 2.55, 3.50, 5.10, 10.88, 17.57, 34.94, 57.50, 185.37, 6_210.07]),
    ("VALUE_RANGE", [19_885.0, 24_875_263.0, 0.0, 0.0, 126_451.61],
        [5.44, 0.50, 2.05, 2.67, 3.62, 5.12, 10.10, 17.49, 34.12, 60.48, 110.57, 5_963.43]),
    ("AGG_RANGE", [20_204.0, 20_204.0, 0.0, 0.0, 102.71],
        [4.53, 0.30, 1.44, 2.00, 2.88, 4.31, 8.35, 15.23, 31.52, 56.92, 157.49, 5_016.19]),
    ("AGG_VALUE", [20_110.0, 20_110.0, 0.0, 0.0, 102.23],
        [147.78, 50.81, 105.52, 141.41, 151.14, 161.50, 173.46, 180.87, 208.43, 392.72, 550.38, 151_938.36]),
    ("AGG_RANGE_VALUE", [19_799.0, 19_799.0, 0.0, 0.0, 100.65],
        [4.82, 0.34, 1.70, 2.27, 3.19, 4.61, 9.10, 15.62, 31.61, 54.62, 102.28, 5_159.73]),
    ("GROUP_BY", [20_243.0, 263_159.0, 0.0, 0.0, 1_337.75],
        [4.49, 0.29, 1.37, 1.92, 2.77, 4.18, 8.49, 15.65, 32.98, 53.85, 108.91, 5_020.44]),
    ("LATEST_POINT", [19_953.0, 19_953.0, 0.0, 0.0, 101.43],
        [3.41, 0.10, 0.66, 1.16, 1.92, 3.18, 6.26, 12.83, 29.63, 49.73, 116.27, 3_682.06]),
    ("RANGE_QUERY_DESC", [20_090.0, 25_131_637.0, 0.0, 0.0, 127_754.87],
        [5.47, 0.46, 1.91, 2.55, 3.51, 5.11, 10.81, 18.19, 34.86, 60.20, 157.94, 6_107.26]),
    ("VALUE_RANGE_QUERY_DESC", [19_886.0, 24_876_158.0, 0.0, 0.0, 126_456.16],
        [5.44, 0.52, 2.05, 2.68, 3.62, 5.13, 10.08, 17.21, 35.33, 57.79, 157.40, 5_696.14]),
];

#[rustfmt::skip]
const README_MIXED: &[Line] = &[
    ("INGESTION", [45_590.0, 2_279_500_000.0, 0.0, 0.0, 13_650_927.24],
        [17.15, 1.61, 2.18, 2.98, 4.42, 6.00, 14.66, 108.61, 245.55, 804.68, 1_557.66, 54_020.31]),
    ("PRECISE_POINT", [18_020.0, 17_974.0, 0.0, 0.0, 107.64],
        [12.34, 0.11, 0.29, 0.43, 0.98, 2.73, 6.85, 92.59, 212.27, 565.18, 1_552.49, 13_680.36]),
    ("TIME_RANGE", [18_186.0, 22_531_715.0, 0.0, 0.0, 134_932.57],
        [13.88, 0.28, 0.56, 0.77, 1.46, 3.62, 8.88, 101.47, 244.89, 649.07, 1_552.78, 14_887.20]),
    ("VALUE_RANGE", [17_986.0, 22_246_569.0, 0.0, 0.0, 133_224.96],
        [13.46, 0.36, 0.64, 0.86, 1.42, 3.29, 7.95, 99.00, 216.31, 634.16, 1_457.81, 14_560.73]),
    ("AGG_RANGE", [18_440.0, 18_440.0, 0.0, 0.0, 110.43],
        [13.01, 0.14, 0.35, 0.50, 0.96, 2.52, 6.58, 101.23, 226.76, 586.09, 1_549.94, 16_023.63]),
    ("AGG_VALUE", [18_258.0, 18_258.0, 0.0, 0.0, 109.34],
        [20.40, 0.32, 2.02, 3.56, 5.69, 9.03, 28.50, 121.06, 254.31, 804.12, 1_486.73, 21_477.54]),
    ("AGG_RANGE_VALUE", [18_001.0, 18_001.0, 0.0, 0.0, 107.80],
        [13.30, 0.23, 0.47, 0.65, 1.16, 3.00, 7.66, 102.09, 213.14, 606.75, 1_476.82, 17_331.58]),
    ("GROUP_BY", [18_445.0, 239_785.0, 0.0, 0.0, 1_435.97],
        [13.06, 0.15, 0.31, 0.45, 0.91, 2.42, 6.27, 99.64, 230.63, 625.32, 1_549.57, 14_443.18]),
    ("LATEST_POINT", [18_172.0, 18_140.0, 0.0, 0.0, 108.63],
        [1.16, 0.06, 0.10, 0.14, 0.23, 0.80, 1.81, 2.92, 6.43, 127.80, 1_162.76, 2_269.69]),
    ("RANGE_QUERY_DESC", [18_184.0, 22_500_153.0, 0.0, 0.0, 134_743.56],
        [14.30, 0.27, 0.56, 0.78, 1.54, 3.68, 9.23, 106.67, 235.38, 617.13, 1_472.53, 15_579.69]),
    ("VALUE_RANGE_QUERY_DESC", [18_093.0, 22_394_469.0, 0.0, 0.0, 134_110.67],
        [13.19, 0.37, 0.65, 0.86, 1.46, 3.43, 8.13, 96.87, 209.36, 614.02, 1_553.93, 15_276.43]),
];

#[rustfmt::skip]
const README_RECENT: &[Line] = &[
    ("INGESTION", [45_590.0, 2_279_500_000.0, 0.0, 0.0, 13_383_765.84],
        [17.74, 1.55, 2.07, 2.82, 4.33, 5.86, 13.95, 111.73, 260.45, 1_044.07, 1_346.06, 57_226.89]),
    ("PRECISE_POINT", [18_020.0, 8_127.0, 0.0, 0.0, 47.72],
        [13.78, 0.08, 0.25, 0.40, 0.82, 2.25, 6.03, 102.67, 244.68, 983.71, 1_330.14, 17_597.87]),
    ("TIME_RANGE", [18_186.0, 12_021_212.0, 0.0, 0.0, 70_580.87],
        [13.25, 0.08, 0.30, 0.56, 1.13, 2.73, 7.08, 98.43, 220.55, 793.19, 1_327.96, 15_824.01]),
    ("VALUE_RANGE", [17_986.0, 11_960_816.0, 0.0, 0.0, 70_226.26],
        [13.40, 0.08, 0.31, 0.61, 1.18, 2.63, 6.96, 96.68, 250.09, 817.78, 1_319.02, 15_229.06]),
    ("AGG_RANGE", [18_440.0, 18_440.0, 0.0, 0.0, 108.27],
        [12.29, 0.09, 0.31, 0.50, 1.00, 2.44, 6.25, 95.83, 204.21, 620.53, 1_169.73, 14_457.33]),
    ("AGG_VALUE", [18_258.0, 18_258.0, 0.0, 0.0, 107.20],
        [20.69, 0.33, 2.04, 3.51, 5.57, 8.69, 25.15, 116.23, 275.78, 1_062.39, 1_287.66, 22_518.77]),
    ("AGG_RANGE_VALUE", [18_001.0, 18_001.0, 0.0, 0.0, 105.69],
        [14.10, 0.11, 0.44, 0.70, 1.31, 3.00, 7.69, 105.53, 224.66, 887.40, 1_344.02, 15_906.44]),
    ("GROUP_BY", [18_445.0, 239_785.0, 0.0, 0.0, 1_407.86],
        [13.11, 0.10, 0.32, 0.48, 0.96, 2.32, 6.15, 100.94, 239.69, 651.59, 1_329.18, 15_165.48]),
    ("LATEST_POINT", [18_172.0, 18_141.0, 0.0, 0.0, 106.51],
        [1.16, 0.06, 0.10, 0.14, 0.24, 0.78, 1.77, 2.91, 7.33, 122.85, 417.34, 1_664.48]),
    ("RANGE_QUERY_DESC", [18_184.0, 12_016_971.0, 0.0, 0.0, 70_555.97],
        [13.06, 0.09, 0.31, 0.57, 1.13, 2.81, 7.47, 98.79, 216.61, 624.26, 1_328.28, 14_898.96]),
    ("VALUE_RANGE_QUERY_DESC", [18_093.0, 11_909_073.0, 0.0, 0.0, 69_922.46],
        [13.08, 0.08, 0.31, 0.61, 1.16, 2.63, 7.27, 100.01, 212.43, 710.30, 1_329.37, 14_761.17]),
];

#[rustfmt::skip]
const TABLE_WRITE: &[Line] = &[
    ("INGESTION", [600.0, 60_000.0, 0.0, 0.0, 13_054.42],
        [41.77, 0.95, 1.41, 2.27, 6.76, 24.14, 63.42, 127.18, 1_260.92, 1_265.72, 1_265.49, 2_581.91]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_sum_of_the_matrix() {
        for (case, lines) in README.cases.iter().zip([README_WRITE, README_QUERY, README_MIXED, README_RECENT]) {
            assert_eq!(lines.iter().map(|line| line.1[0] as u64).sum::<u64>(), case.requests, "{}", case.name);
        }
    }

    /// Detects misread digits: the original divides points by the elapsed time.
    #[test]
    fn throughputs_are_points_by_elapsed_time() {
        let tables =
            [(1_238.79, README_WRITE), (196.72, README_QUERY), (166.98, README_MIXED), (170.32, README_RECENT)];
        for (elapsed, lines) in tables {
            for (operation, counts, latencies) in lines {
                let ratio = counts[1] / elapsed / counts[4];
                assert!((ratio - 1.0).abs() < 1e-4, "{operation}: {} points in {elapsed} s, {}", counts[1], counts[4]);
                let [quantiles @ .., slowest] = latencies;
                assert!(quantiles[1..].is_sorted(), "{operation}: {quantiles:?}");
                assert!(slowest * 20.0 > quantiles[0] * counts[0] * 0.99, "{operation}: the slowest of 20 threads");
            }
        }
    }
}
