//! The client of PV Access against a soft IOC of EPICS 7 (QSRV of pvxs, and of pvAccessCPP) and a server of p4p.

use std::collections::HashMap;

use epics::client::{Annotations, ChannelId, Event};
use epics::pva::Structure;
use epics::pva::data::{Data, Elements};
use epics::sample::{Array, Sample, Scalar, Severity, Value, ValueType};

use crate::ioc::Place;
use crate::watch::{Watch, count_of};

#[tokio::test]
async fn records_of_every_kind_arrive_with_their_type_and_value() {
    type Check = fn(&Value) -> bool;
    let place = Place::free();
    let _ioc = place.start();
    let mut watch = Watch::pva(place.pva_settings());
    let three = |value: &Value, expected: Array| *value == Value::Array(expected);
    let cases: [(&str, ValueType, u32, Check); 8] = [
        ("T:AI", ValueType::Float64, 1, |v| matches!(v, Value::Scalar(Scalar::Float64(x)) if x.abs() <= 10.0)),
        ("T:CNT", ValueType::Int32, 1, |v| matches!(v, Value::Scalar(Scalar::Int32(0..)))),
        ("T:I64", ValueType::Int64, 1, |v| *v == Value::Scalar(Scalar::Int64((1 << 53) + 1))),
        ("T:STATE", ValueType::Enum, 1, |v| matches!(v, Value::Scalar(Scalar::Enum(0..3)))),
        ("T:FLAG", ValueType::Enum, 1, |v| matches!(v, Value::Scalar(Scalar::Enum(0..2)))),
        ("T:TEXT", ValueType::Text, 1, |v| matches!(v, Value::Scalar(Scalar::Text(t)) if t.starts_with("text "))),
        ("T:WF", ValueType::Float64, 0, |v| matches!(v, Value::Array(Array::Float64(x)) if (1..32).contains(&x.len()))),
        (
            "T:BIG",
            ValueType::Float64,
            0,
            |v| matches!(v, Value::Array(Array::Float64(x)) if x.len() == 200_000 && x[199_999] == 199_999.0),
        ),
    ];
    let arrays = [
        ("T:A_int8", ValueType::Int8, Array::Int8(vec![1, 2, 100])),
        ("T:A_uint8", ValueType::UInt8, Array::Int16(vec![1, 2, 100])),
        ("T:A_int16", ValueType::Int16, Array::Int16(vec![1, 2, 100])),
        ("T:A_uint16", ValueType::UInt16, Array::Int32(vec![1, 2, 100])),
        ("T:A_int32", ValueType::Int32, Array::Int32(vec![1, 2, 100])),
        ("T:A_uint32", ValueType::UInt32, Array::Int64(vec![1, 2, 100])),
        ("T:A_float32", ValueType::Float32, Array::Float32(vec![1.0, 2.0, 100.0])),
    ];
    for (name, native, count, expected) in cases {
        let channel = watch.subscribe(name).await;
        assert_eq!(watch.connected(channel).await, (place.pva, native, count), "{name}");
        watch.recent(channel, expected).await;
    }
    for (name, native, expected) in arrays {
        let channel = watch.subscribe(name).await;
        assert_eq!(watch.connected(channel).await, (place.pva, native, 0), "{name}");
        let sample = watch.sample(channel).await;
        assert!(three(&sample.value, expected), "{name}: {sample:?}");
    }
}

#[tokio::test]
async fn two_thousand_channels_of_an_ioc_lose_nothing() {
    let place = Place::free();
    let _ioc = place.run(&["soft_ioc_pva.py", "T", "2000"]);
    let mut watch = Watch::pva(place.pva_settings());
    let mut channels = Vec::new();
    for n in 0..2_000 {
        channels.push(watch.subscribe(&format!("T:N{n:05}")).await);
    }
    watch.samples_of(&channels).await;
    let mut seen: HashMap<ChannelId, (i32, usize)> = HashMap::new();
    let mut complete = 0;
    while complete < channels.len() {
        let update = watch.next().await;
        if let Event::Sample(sample) = update.event {
            let n = count_of(&sample);
            let (last, updates) = seen.entry(update.channel).or_insert((n - 1, 0));
            assert_eq!(n, *last + 1);
            (*last, *updates) = (n, *updates + 1);
            complete += usize::from(*updates == 3);
            assert!(*updates < 60, "{complete} of 2,000 channels have had 3 updates, and one has had 60");
        }
    }
    assert_eq!(watch.statistics().circuits.get(), 1);
}

#[tokio::test]
async fn scalars_and_arrays_of_every_type_arrive_from_p4p() {
    let place = Place::free();
    let _server = place.run(&["pva_server.py", "S"]);
    let mut watch = Watch::pva(place.pva_settings());
    let cases = [
        ("bool", ValueType::Bool, Scalar::Int8(1), Array::Int8(vec![1, 0])),
        ("int8", ValueType::Int8, Scalar::Int8(-8), Array::Int8(vec![-8, 7])),
        ("uint8", ValueType::UInt8, Scalar::Int16(200), Array::Int16(vec![1, 200])),
        ("int16", ValueType::Int16, Scalar::Int16(-300), Array::Int16(vec![-300])),
        ("uint16", ValueType::UInt16, Scalar::Int32(65_535), Array::Int32(vec![65_535, 1])),
        ("int32", ValueType::Int32, Scalar::Int32(-70_000), Array::Int32(vec![-70_000])),
        ("uint32", ValueType::UInt32, Scalar::Int64(4_294_967_295), Array::Int64(vec![4_294_967_295])),
        ("int64", ValueType::Int64, Scalar::Int64(-(1 << 62)), Array::Int64(vec![-(1 << 62)])),
        ("uint64", ValueType::UInt64, Scalar::Int64((1 << 53) + 1), Array::Int64(vec![(1 << 53) + 1])),
        ("float32", ValueType::Float32, Scalar::Float32(0.5), Array::Float32(vec![0.5])),
        ("float64", ValueType::Float64, Scalar::Float64(1e-9), Array::Float64(vec![1e-9, 2.0])),
        ("text", ValueType::Text, Scalar::Text("äbc".into()), Array::Text(vec!["a".into(), String::new(), "c".into()])),
    ];
    for (name, native, scalar, array) in cases {
        for (name, count, value) in
            [(format!("S:{name}"), 1, Value::Scalar(scalar)), (format!("S:{name}s"), 0, Value::Array(array))]
        {
            let channel = watch.subscribe(&name).await;
            assert_eq!(watch.connected(channel).await, (place.pva, native, count), "{name}");
            assert_eq!(watch.sample(channel).await.value, value, "{name}");
        }
    }
}

#[tokio::test]
async fn structures_messages_and_numbers_without_a_place_arrive_from_p4p() {
    let place = Place::free();
    let _server = place.run(&["pva_server.py", "S"]);
    let mut watch = Watch::pva(place.pva_settings());
    let structure = |sample: Sample| match sample.value {
        Value::Structure(bytes) => Structure::decode(&bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let huge = watch.subscribe("S:HUGE").await;
    assert_eq!(structure(watch.sample(huge).await).get("value"), Some(&Data::UInt64(u64::MAX)));
    let table = watch.subscribe("S:TABLE").await;
    assert_eq!(watch.connected(table).await, (place.pva, ValueType::Structure, 1));
    let table = structure(watch.sample(table).await);
    assert_eq!(table.fields.id(), "epics:nt/NTTable:1.0");
    assert_eq!(table.get("value.x"), Some(&Data::Array(Box::new(Elements::Float64(vec![1.5, 2.5])))));
    let any = watch.subscribe("S:ANY").await;
    for _ in 0..3 {
        let any = structure(watch.sample(any).await);
        assert_eq!(any.fields.id(), "test:Dynamic:1.0");
        assert!(matches!(any.get("any"), Some(Data::Any(Some(_)))), "{any:?}");
        assert!(matches!(any.get("rows"), Some(Data::StructureArray(rows)) if rows.len() == 1), "{any:?}");
    }
    let message = watch.subscribe("S:MESSAGE").await;
    for _ in 0..3 {
        let event = watch.event(message, |event| matches!(event, Event::Annotations(_))).await;
        let Event::Annotations(annotations) = event else { unreachable!() };
        let Annotations { alarm_message, user_tag } = *annotations;
        assert_eq!(alarm_message, format!("pump {user_tag} is off"));
        let sample = watch.sample(message).await;
        assert_eq!((sample.severity, sample.status), (Severity::Major, 257));
    }
}

#[tokio::test]
async fn bursts_of_5_updates_from_p4p_lose_nothing() {
    let place = Place::free();
    let _server = place.run(&["pva_server.py", "S"]);
    let mut watch = Watch::pva(place.pva_settings());
    let channel = watch.subscribe("S:FAST").await;
    let mut last = count_of(&watch.sample(channel).await);
    for _ in 0..500 {
        let n = count_of(&watch.sample(channel).await);
        assert_eq!(n, last + 1);
        last = n;
    }
}

/// The older library numbers types, has a queue of 2 updates, whatever is asked for, and reports what it lost.
#[tokio::test]
async fn an_ioc_of_pv_access_cpp_reports_the_losses_of_bursts_and_loses_nothing_else() {
    let place = Place::free();
    let _ioc = place.run(&["soft_ioc_qsrv1.py"]);
    let mut watch = Watch::pva(place.pva_settings());
    for (name, expected) in [
        ("T:I64", Value::Scalar(Scalar::Int64((1 << 53) + 1))),
        ("T:STATE", Value::Scalar(Scalar::Enum(0))),
        ("T:EMPTY", Value::Array(Array::Int16(Vec::new()))),
    ] {
        let channel = watch.subscribe(name).await;
        assert_eq!(watch.sample(channel).await.value, expected);
    }
    let [counter, burst, group] = ["T:CNT", "T:BURST", "T:GROUP"];
    let channels = [watch.subscribe(counter).await, watch.subscribe(burst).await, watch.subscribe(group).await];
    watch.samples_of(&channels).await;
    let number = |value: &Value| match value {
        Value::Scalar(Scalar::Float64(x)) => *x,
        Value::Structure(bytes) => match Structure::decode(bytes).unwrap().get("b") {
            Some(Data::Float64(x)) => *x,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let mut last = HashMap::new();
    let (mut overruns, mut updates) = (HashMap::<ChannelId, usize>::new(), HashMap::<ChannelId, usize>::new());
    let mut overrun = false;
    let enough = |overruns: &HashMap<ChannelId, usize>, updates: &HashMap<ChannelId, usize>| {
        let of = |counts: &HashMap<ChannelId, usize>, at: usize| counts.get(&channels[at]).copied().unwrap_or(0);
        of(overruns, 1) >= 2 && of(updates, 0) >= 20 && of(updates, 2) >= 20
    };
    while !enough(&overruns, &updates) {
        let update = watch.next().await;
        match update.event {
            Event::Overrun => {
                overrun = true;
                *overruns.entry(update.channel).or_default() += 1;
            }
            Event::Sample(sample) => {
                let n = number(&sample.value);
                let before = last.insert(update.channel, n);
                let reported = std::mem::take(&mut overrun);
                assert!(before.is_none_or(|before| n == before + 1.0 || reported), "{before:?}, then {n}");
                *updates.entry(update.channel).or_default() += 1;
            }
            _ => {}
        }
    }
}
