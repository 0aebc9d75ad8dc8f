//! The contract of [`Workload`] as checks for any implementation. A test runs them for each entry
//! of [`WORKLOADS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Entry, WORKLOADS, Workload};
use crate::config::Config;
use crate::query::{Query, Shape};
use crate::schema::Kind;

/// Settings that make any workload small enough for an exhaustive check. Later settings take
/// precedence.
const SMALL: [&str; 5] =
    ["DEVICE_NUMBER=9", "DATA_CLIENT_NUMBER=3", "DEVICE_NUM_PER_WRITE=1", "BATCH_SIZE_PER_WRITE=50", "LOOP=12"];

fn open_small(entry: &Entry, settings: &[&str]) -> Arc<dyn Workload> {
    let settings: Vec<String> = SMALL.iter().chain(settings).map(|text| (*text).to_owned()).collect();
    let config = Config::load_over(entry.defaults, None, &settings).expect("valid settings");
    (entry.open)(&Arc::new(config)).expect("valid workload")
}

/// Checks the contract for a workload with `settings`.
pub(super) fn check(entry: &Entry, settings: &[&str]) {
    let (workload, again) = (open_small(entry, settings), open_small(entry, settings));
    names_and_schema_fit(&*workload);
    let devices = workload.schema().devices.len() as u32;
    for device in [0, devices / 2, devices - 1] {
        units_and_slots_map_to_each_other(&*workload, device);
        times_increase_and_windows_contain_their_slots(&*workload, device);
        values_depend_on_their_coordinates_only(&*workload, &*again, device);
    }
    queries_are_valid(&*workload, &*again);
}

fn names_and_schema_fit(workload: &dyn Workload) {
    let kinds = workload.kinds();
    assert_eq!(kinds[0].name, "INGESTION");
    for (at, kind) in kinds.iter().enumerate() {
        assert!(kinds[..at].iter().all(|other| other.name != kind.name && other.stored_name != kind.stored_name));
        assert!(!kind.title.is_empty());
    }
    let schema = workload.schema();
    for device in &schema.devices {
        assert_eq!(device.tags.len(), schema.tables[device.table as usize].tags.len());
    }
    let mut names: Vec<&str> = (0..schema.devices.len() as u32).map(|device| schema.device_name(device)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), schema.devices.len(), "the first tag is unique");
    let mut order = workload.order();
    order.sort_unstable();
    assert_eq!(order, (0..schema.devices.len() as u32).collect::<Vec<_>>(), "each device occurs once");
}

fn units_and_slots_map_to_each_other(workload: &dyn Workload, device: u32) {
    let mut carried: BTreeMap<(u64, u32), Vec<u64>> = BTreeMap::new();
    let mut slots = Vec::new();
    for unit in 0..workload.units(device) {
        slots.clear();
        workload.unit_slots(device, unit, &mut slots);
        let bound = workload.slot_bound(device, unit + 1);
        assert!(slots.iter().all(|slot| *slot < bound), "unit {unit}: a slot at or above {bound}");
        let fields = workload.unit_fields(device, unit);
        assert!(fields.end as usize <= workload.schema().table_of(device).fields.len());
        for slot in &slots {
            for field in fields.clone() {
                carried.entry((*slot, field)).or_default().push(unit);
            }
        }
    }
    for slot in 0..workload.slot_bound(device, workload.units(device)) {
        for field in sample(workload, device) {
            let mut units = vec![77];
            workload.units_of(device, slot, field, &mut units);
            assert_eq!(units.remove(0), 77, "units are appended");
            units.retain(|unit| *unit < workload.units(device));
            let there = carried.get(&(slot, field)).cloned().unwrap_or_default();
            assert_eq!(there, units, "device {device}, slot {slot}, field {field}: units that carry it");
        }
    }
}

fn times_increase_and_windows_contain_their_slots(workload: &dyn Workload, device: u32) {
    let bound = workload.slot_bound(device, workload.units(device));
    let times: Vec<i64> = (0..bound).map(|slot| workload.time(device, slot)).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "device {device}: times increase");
    for from in (0..times.len()).step_by(7) {
        for to in [from, from + 1, from + 40, times.len() - 1] {
            let to = to.min(times.len() - 1);
            for (start, end) in
                [(times[from], times[to]), (times[from] - 1, times[to] + 1), (times[from] + 1, i64::MAX)]
            {
                let slots = workload.slots_in(device, start..end);
                let inside = times.iter().enumerate().filter(|(_, time)| (start..end).contains(*time));
                let inside: Vec<u64> = inside.map(|(slot, _)| slot as u64).collect();
                assert!(inside.iter().all(|slot| slots.contains(slot)), "{slots:?} for {start}..{end}");
                let surplus = slots.end.saturating_sub(slots.start).saturating_sub(inside.len() as u64);
                assert!(surplus <= 8 || end == i64::MAX, "{slots:?} for {start}..{end}: {surplus} too many");
            }
        }
    }
    let all = workload.slots_in(device, i64::MIN..i64::MAX);
    assert!(all.start == 0 && all.end >= bound, "{all:?} of {bound}");
}

fn values_depend_on_their_coordinates_only(workload: &dyn Workload, again: &dyn Workload, device: u32) {
    let bound = workload.slot_bound(device, workload.units(device));
    let slots: Vec<u64> = (0..bound).collect();
    let filled = |workload: &dyn Workload, field: u32, slots: &[u64]| {
        let mut out = vec![0; slots.len()];
        workload.fill(device, field, slots, &mut out);
        out
    };
    for field in sample(workload, device) {
        // Backwards and one at a time first, so that no cache of a forward walk can help.
        let mut alone: Vec<i64> = slots.iter().rev().map(|slot| filled(again, field, &[*slot])[0]).collect();
        alone.reverse();
        let together = filled(workload, field, &slots);
        assert_eq!(together, alone, "device {device}, field {field}");
        assert_eq!(together, filled(workload, field, &slots), "device {device}, field {field}: a second time");
        let filled = &filled;
        let from_threads: Vec<i64> = std::thread::scope(|scope| {
            let parts = slots.chunks(slots.len() / 3 + 1).map(|part| scope.spawn(move || filled(again, field, part)));
            let parts: Vec<_> = parts.collect();
            parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
        });
        assert_eq!(together, from_threads);
        let kind = workload.schema().table_of(device).fields[field as usize].kind;
        assert!(together.iter().all(|units| fits(kind, *units)), "device {device}, field {field}: beyond {kind:?}");
    }
}

fn fits(kind: Kind, units: i64) -> bool {
    match kind {
        Kind::Bool => (0..=1).contains(&units),
        Kind::Int32 | Kind::Date => i32::try_from(units).is_ok(),
        Kind::Float { .. } | Kind::Double { .. } => units.abs() < 1 << 53,
        _ => true,
    }
}

fn queries_are_valid(workload: &dyn Workload, again: &dyn Workload) {
    let schema = workload.schema();
    for kind in 1..workload.kinds().len() {
        for (client, nth) in [(0, 0), (0, 1), (2, 5)] {
            let query = workload.query(kind, client, nth, None).expect("a query");
            assert_eq!(
                query,
                again.query(kind, client, nth, None).expect("a query"),
                "queries depend on the seed only"
            );
            assert_eq!(query.kind, kind);
            let fields = &schema.tables[query.table as usize].fields;
            assert!(!query.fields.is_empty() && query.fields.iter().all(|field| (*field as usize) < fields.len()));
            assert!(query.filters.iter().all(|filter| fields[filter.field as usize].kind.is_number()));
            assert!(query.window.as_ref().is_none_or(|window| window.start < window.end), "{query:?}");
            assert!(devices_differ_and_are_of_the_table(workload, &query), "{query:?}");
            if let Shape::Buckets { width, origin, .. } = query.shape {
                let window = query.window.as_ref().expect("buckets have a window");
                let first = window.start.max(workload.time(0, 0));
                assert!(
                    width > 0 && origin <= first && first - origin < width,
                    "{query:?}: origin is not the start of the first bucket"
                );
            }
        }
    }
}

fn devices_differ_and_are_of_the_table(workload: &dyn Workload, query: &Query) -> bool {
    let Some(devices) = &query.devices else { return true };
    let of_table = |device: &u32| workload.schema().devices[*device as usize].table == query.table;
    let differ = devices.iter().enumerate().all(|(at, device)| !devices[..at].contains(device));
    !devices.is_empty() && differ && devices.iter().all(of_table)
}

/// A sample of a device's fields: the first three, and every 41st.
fn sample(workload: &dyn Workload, device: u32) -> Vec<u32> {
    let fields = workload.schema().table_of(device).fields.len() as u32;
    (0..fields).filter(|field| *field < 3 || field % 41 == 0).collect()
}

#[test]
fn every_workload_fulfils_the_contract() {
    for entry in WORKLOADS {
        check(entry, &[]);
    }
}

#[test]
fn the_iot_workload_fulfils_the_contract_in_every_order_of_arrival() {
    let orders: &[&[&str]] = &[
        &["IS_REGULAR_FREQUENCY=false"],
        &["IS_SENSOR_TS_ALIGNMENT=false", "SENSOR_NUMBER=3", "TS_ALIGNMENT_RATIO=0.7"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=BATCH", "OUT_OF_ORDER_RATIO=0.3"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=POISSON", "LAMBDA=3", "MAX_K=30"],
        &["IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "LATE_MAX=90", "LATE_DISTRIBUTION=pareto"],
    ];
    let iot = WORKLOADS.iter().find(|entry| entry.name == "iot").expect("in the list");
    for order in orders {
        check(iot, order);
    }
}
