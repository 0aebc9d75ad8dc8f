//! Tests that the generator is a pure function, that slots and batches map to each other, and that
//! queries have the parameters of their kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::schema::Kind;

fn workload(settings: &[&str]) -> Iot {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let config = Config::load(None, &settings).expect("valid settings");
    Iot::new(&Arc::new(config)).expect("valid workload")
}

/// For each slot of a device, the units that contain it, found by scanning all batches.
fn units_by_slot(iot: &Iot, device: u32) -> BTreeMap<u64, Vec<u64>> {
    let mut units_by_slot: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut slots = Vec::new();
    for unit in 0..iot.units(device) {
        slots.clear();
        iot.unit_slots(device, unit, &mut slots);
        for slot in &slots {
            units_by_slot.entry(*slot).or_default().push(unit);
        }
    }
    units_by_slot
}

fn check_arrival(settings: &[&str]) {
    let iot = workload(settings);
    for device in [0, 3] {
        let units_by_slot = units_by_slot(&iot, device);
        let bound = iot.slot_bound(device, iot.units(device));
        assert!(units_by_slot.keys().all(|slot| *slot < bound), "{settings:?}");
        for slot in 0..bound {
            let mut units = Vec::new();
            iot.units_of(device, slot, 0, &mut units);
            units.sort_unstable();
            units.retain(|unit| *unit < iot.units(device));
            assert_eq!(units_by_slot.get(&slot).cloned().unwrap_or_default(), units, "{settings:?}: slot {slot}");
        }
        let times: Vec<i64> = (0..bound).map(|slot| iot.time(device, slot)).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "times must increase");
        for (slot, time) in times.iter().enumerate() {
            assert!(iot.slots_in(device, *time..*time + 1).contains(&(slot as u64)));
        }
    }
}

#[test]
fn batches_and_slots_map_to_each_other_in_every_order_of_arrival() {
    let base = ["LOOP=20", "BATCH_SIZE_PER_WRITE=7", "DEVICE_NUMBER=4", "SENSOR_NUMBER=1"];
    let orders: &[&[&str]] = &[
        &[],
        &["IS_REGULAR_FREQUENCY=false"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=BATCH", "OUT_OF_ORDER_RATIO=0.3"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=BATCH", "COMPAT=true"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=POISSON", "LAMBDA=3", "MAX_K=30"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=POISSON", "MAX_K=3000"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "LATE_MAX=40"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "LATE_MAX=40", "LATE_DISTRIBUTION=uniform"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "LATE_MAX=90", "LATE_DISTRIBUTION=pareto"],
    ];
    for order in orders {
        check_arrival(&[&base[..], order].concat());
    }
}

#[test]
fn late_rows_are_written_once_and_their_share_is_the_ratio() {
    let settings = ["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "OUT_OF_ORDER_RATIO=0.3", "LATE_MAX=50"];
    let iot = workload(&[&settings[..], &["LOOP=200", "BATCH_SIZE_PER_WRITE=50", "SENSOR_NUMBER=1"]].concat());
    let units_by_slot = units_by_slot(&iot, 0);
    assert_eq!(units_by_slot.len(), 10_000);
    assert!(units_by_slot.values().all(|units| units.len() == 1));
    let (mut newest, mut late) = (0, 0);
    let mut slots = Vec::new();
    (0..iot.units(0)).for_each(|unit| iot.unit_slots(0, unit, &mut slots));
    for slot in slots {
        late += u32::from(slot < newest);
        newest = newest.max(slot);
    }
    assert!((2_600..3_300).contains(&late), "{late} of 10,000 rows came late");
}

#[test]
fn types_are_contiguous_with_their_shares() {
    let iot = workload(&["SENSOR_NUMBER=6"]);
    let kinds: Vec<&str> = iot.sources.iter().map(|source| kind_name(source.kind)).collect();
    assert_eq!(kinds, ["bool", "int32", "int64", "float", "double", "text"]);
    let iot = workload(&["SENSOR_NUMBER=200"]);
    let doubles = iot.sources.iter().filter(|source| kind_name(source.kind) == "double").count();
    assert_eq!(doubles, 33);
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Float { .. } => "float",
        Kind::Double { .. } => "double",
        Kind::Text { .. } => "text",
        _ => "other",
    }
}

#[test]
fn a_run_of_several_processes_writes_the_same_data_as_one_process() {
    let whole = workload(&["DEVICE_NUMBER=6", "SENSOR_NUMBER=12", "LOOP=3"]);
    let part =
        workload(&["DEVICE_NUMBER=3", "SENSOR_NUMBER=12", "LOOP=3", "BENCHMARK_CLUSTER=true", "BENCHMARK_INDEX=1"]);
    let slots: Vec<u64> = (0..300).collect();
    for (device, field) in [(0, 0), (1, 5), (2, 11)] {
        let (mut a, mut b) = (vec![0; 300], vec![0; 300]);
        whole.fill(device + 3, field, &slots, &mut a);
        part.fill(device, field, &slots, &mut b);
        assert_eq!(a, b);
        assert_eq!(whole.schema().device_name(device + 3), part.schema().device_name(device));
    }
}

#[test]
fn devices_differ_and_values_do_not_repeat() {
    let iot = workload(&[
        "INSERT_DATATYPE_PROPORTION=0:0:0:0:1:0",
        "RANDOM_RATIO=1",
        "LINE_RATIO=0",
        "SIN_RATIO=0",
        "SQUARE_RATIO=0",
        "CONSTANT_RATIO=0",
    ]);
    let slots: Vec<u64> = (0..200).collect();
    let (mut a, mut b) = (vec![0; 200], vec![0; 200]);
    let wide = (0..200).find(|field| iot.sources[*field as usize].wide()).expect("a wide sensor");
    iot.fill(0, wide, &slots, &mut a);
    iot.fill(1, wide, &slots, &mut b);
    assert_ne!(a, b);
    assert_ne!(a[..100], a[100..]);
}

#[test]
fn queries_have_the_shape_of_their_kind() {
    let iot = workload(&["QUERY_DEVICE_NUM=2", "QUERY_SENSOR_NUM=2", "LOOP=1000", "QUERY_AGGREGATE_FUN=avg"]);
    let query = |kind| iot.query(kind, 1, 7, None).expect("a query");
    let start = iot.start + 7 * iot.step;
    assert_eq!(query(1).window, Some(start + iot.step..start + iot.step + 1), "Q1 asks for a row that is there");
    assert_eq!(query(2).window, Some(start..start + 250_001));
    assert_eq!(query(7).window, Some(start..start + 250_000));
    assert_eq!((query(5).window, query(8).window), (None, None));
    assert_eq!(query(3).filters.len(), 2);
    assert_eq!(query(10).order, Order::Descending);
    assert_eq!(query(12).set.expect("a set").others.len(), 1);
    for kind in 1..13 {
        let query = query(kind);
        assert_eq!((query.devices.as_ref().map(Vec::len), query.fields.len()), (Some(2), 2));
        assert!(
            kind < 3
                || query.filters.is_empty()
                || query.fields.iter().all(|f| iot.sources[*f as usize].kind.is_number())
        );
    }
    assert_ne!(iot.query(2, 1, 7, None).expect("a query").devices, iot.query(2, 2, 7, None).expect("a query").devices);
}

proptest! {
    #[test]
    fn values_do_not_depend_on_the_order_of_calls(device in 0u32..50, field in 0u32..200, from in 0u64..1 << 40, count in 1usize..50) {
        let iot = workload(&[]);
        let slots: Vec<u64> = (from..from + count as u64).collect();
        let mut together = vec![0; count];
        iot.fill(device, field, &slots, &mut together);
        for (slot, value) in slots.iter().zip(&together) {
            let mut alone = [0];
            iot.fill(device, field, &[*slot], &mut alone);
            prop_assert_eq!(alone[0], *value);
        }
        let other = std::thread::spawn(move || {
            let mut out = vec![0; count];
            workload(&[]).fill(device, field, &slots, &mut out);
            out
        });
        prop_assert_eq!(other.join().expect("no panic"), together);
    }
}
