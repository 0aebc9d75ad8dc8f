//! Types and values of PV Access, and the samples that they become.

use std::sync::Arc;

use epics::client::Annotations;
use epics::pva::Structure;
use epics::pva::data::{Data, Elements, encode_update, update};
use epics::pva::normative::Layout;
use epics::pva::types::{Extent, Fields, ScalarType, Type, TypeCache};
use epics::pva::wire::{BitSet, MEMORY_PER_BYTE, Order, Reader, Writer};
use epics::sample::{Array, Limits, Metadata, Scalar, Severity, Value, ValueType};
use proptest::prelude::*;

use crate::pva_fake::{Pv, STAMP, fields};

fn decode_type(bytes: &[u8], cache: &mut TypeCache) -> Option<Type> {
    Type::decode(&mut Reader::new(bytes, Order::Big), cache).ok().flatten()
}

fn scalar(scalar: ScalarType) -> Type {
    Type::Scalar(scalar)
}

/// A structure of every kind of type.
fn everything() -> Structure {
    use ScalarType::{Float64, Int32, Text};
    let pair = fields("pair", vec![("a", scalar(Int32)), ("b", Type::Array(Text, Extent::Variable))]);
    let choice = fields("", vec![("n", scalar(Int32)), ("pair", Type::Structure(Arc::clone(&pair)))]);
    let pair_data = |n| [Data::Int32(n), Data::Array(Box::new(Elements::Text(vec!["x".into(), String::new()])))].into();
    let float =
        || Box::new((Type::Array(Float64, Extent::Variable), Data::Array(Box::new(Elements::Float64(vec![0.5])))));
    let members = vec![
        ("bounded", Type::BoundedText(5), Data::Text("abc".into())),
        (
            "limited",
            Type::Array(ScalarType::UInt8, Extent::Bounded(9)),
            Data::Array(Box::new(Elements::UInt8(vec![1, 255]))),
        ),
        ("pair", Type::Structure(Arc::clone(&pair)), Data::Structure(pair_data(-1))),
        ("pairs", Type::StructureArray(Arc::clone(&pair)), Data::StructureArray([Some(pair_data(1)), None].into())),
        ("choice", Type::Union(Arc::clone(&choice)), Data::Union(Some(Box::new((1, Data::Structure(pair_data(2))))))),
        ("none", Type::Union(Arc::clone(&choice)), Data::Union(None)),
        ("choices", Type::UnionArray(choice), Data::UnionArray([None, Some(Box::new((0, Data::Int32(3))))].into())),
        ("any", Type::Any, Data::Any(Some(float()))),
        ("nothing", Type::Any, Data::Any(None)),
        ("anys", Type::AnyArray, Data::AnyArray([Some(float()), None].into())),
        ("empty", Type::Structure(fields("", vec![])), Data::Structure(Box::default())),
    ];
    let data = members.iter().map(|(_, _, data)| data.clone()).collect();
    let types = members.into_iter().map(|(name, ty, _)| (name, ty)).collect();
    Structure { fields: fields("test:Everything:1.0", types), data }
}

#[test]
fn bytes_of_a_structure_are_exactly_these() {
    let members = vec![
        ("a", scalar(ScalarType::Int16)),
        ("b", Type::Array(ScalarType::Float32, Extent::Variable)),
        ("c", Type::Any),
    ];
    let structure = Structure {
        fields: fields("t", members),
        data: [
            Data::Int16(-2),
            Data::Array(Box::new(Elements::Float32(vec![1.0]))),
            Data::Any(Some(Box::new((scalar(ScalarType::Text), Data::Text("x".into()))))),
        ]
        .into(),
    };
    let expected = [
        0x80, 1, b't', 3, 1, b'a', 0x21, 1, b'b', 0x4A, 1, b'c', 0x82, // type
        0xFF, 0xFE, 1, 0x3F, 0x80, 0, 0, 0x60, 1, b'x', // values
    ];
    assert_eq!(structure.encode(), expected);
    assert_eq!(Structure::decode(&expected), Ok(structure));
}

#[test]
fn a_structure_of_every_kind_of_type_survives_a_round_trip() {
    let structure = everything();
    let bytes = structure.encode();
    assert_eq!(Structure::decode(&bytes), Ok(structure.clone()));
    assert_eq!(structure.get("pair.a"), Some(&Data::Int32(-1)));
    assert_eq!(structure.get("pair.a.b"), None);
    for end in 0..bytes.len() {
        assert!(Structure::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn numbers_of_types_are_remembered_and_unknown_ones_are_refused() {
    let mut cache = TypeCache::default();
    // A structure with the number 1, whose field has the number 2.
    let numbered = [0xFD, 0, 1, 0x80, 0, 1, 1, b'a', 0xFD, 0, 2, 0x88, 0x80, 0, 1, 1, b'x', 0x43];
    let first = decode_type(&numbered, &mut cache).unwrap();
    assert_eq!(decode_type(&[0xFE, 0, 1], &mut cache), Some(first));
    let inner = Type::StructureArray(fields("", vec![("x", scalar(ScalarType::Float64))]));
    assert_eq!(decode_type(&[0xFE, 0, 2], &mut cache), Some(inner));
    assert_eq!(decode_type(&[0xFE, 0, 3], &mut cache), None);
    assert_eq!(decode_type(&[0xFC, 0, 3, 0, 0, 0, 9, 0x60], &mut cache), Some(scalar(ScalarType::Text)));
    assert_eq!(decode_type(&[0xFE, 0, 3], &mut cache), Some(scalar(ScalarType::Text)));
}

#[test]
fn a_type_that_repeats_itself_by_numbers_is_limited_in_size_and_depth() {
    // Each structure has the one before twice: 2^n fields.
    let mut cache = TypeCache::default();
    let mut refused_at = None;
    for level in 1..60_u16 {
        let [high, low] = level.to_be_bytes();
        let [before_high, before_low] = (level - 1).to_be_bytes();
        let before: &[u8] = if level == 1 { &[0x22] } else { &[0xFE, before_high, before_low] };
        let bytes = [&[0xFD, high, low, 0x80, 0, 2, 1, b'a'], before, &[1, b'b'], before].concat();
        if decode_type(&bytes, &mut cache).is_none() {
            refused_at = Some(level);
            break;
        }
    }
    assert_eq!(refused_at, Some(14));
    let deep = [0x80, 0, 1, 1, b'a'].repeat(1_000);
    assert_eq!(decode_type(&deep, &mut cache), None);
}

#[test]
fn an_array_of_fixed_length_has_no_size_and_is_written_on_as_one_of_variable_length() {
    let ty = decode_type(&[0x3A, 2], &mut TypeCache::default()).unwrap();
    assert_eq!(ty, Type::Array(ScalarType::Int32, Extent::Fixed(2)));
    let mut reader = Reader::new(&[0, 0, 0, 1, 0, 0, 0, 2], Order::Big);
    let data = Data::decode(&mut reader, &ty, &mut TypeCache::default()).unwrap();
    let structure = Structure { fields: fields("", vec![("a", ty)]), data: [data].into() };
    let read = Structure::decode(&structure.encode()).unwrap();
    assert_eq!(read.data, structure.data);
    assert_eq!(read.fields.members()[0].1, Type::Array(ScalarType::Int32, Extent::Variable));
}

#[test]
fn an_update_changes_only_its_fields() {
    let structure = everything();
    let mut changed = structure.clone();
    changed.data[0] = Data::Text("new".into());
    // Bits: 0 all, 1 bounded, 2 limited, 3 pair, 4 pair.a, 5 pair.b, 6 pairs.
    let Data::Structure(pair) = &mut changed.data[2] else { panic!("a structure") };
    pair[0] = Data::Int32(77);
    for (bits, whole) in [(vec![1, 4], false), (vec![1, 3], false), (vec![0], true)] {
        let set: BitSet = bits.into_iter().collect();
        let mut out = Vec::new();
        encode_update(&structure.fields, &changed.data, &set, &mut Writer::new(&mut out, Order::Little));
        let mut data = structure.data.clone();
        let mut reader = Reader::new(&out, Order::Little);
        update(&mut reader, &structure.fields, &mut data, &set, None, &mut TypeCache::default()).unwrap();
        assert_eq!(reader.left(), 0);
        assert_eq!(data, changed.data);
        if !whole {
            let mut data = structure.data.clone();
            let only_first: BitSet = [1].into_iter().collect();
            let mut reader = Reader::new(&out, Order::Little);
            update(&mut reader, &structure.fields, &mut data, &set, Some(&only_first), &mut TypeCache::default())
                .unwrap();
            assert_eq!((&data[0], &data[2]), (&changed.data[0], &structure.data[2]), "only what is wanted");
        }
    }
}

#[test]
fn values_of_every_type_become_samples_without_loss() {
    use ScalarType::{Bool, Float32, Float64, Int8, Int16, Int32, Int64, Text, UInt8, UInt16, UInt32, UInt64};
    let array = |elements| Data::Array(Box::new(elements));
    let cases = [
        (Bool, Data::Bool(true), ValueType::Bool, Value::Scalar(Scalar::Int8(1))),
        (Int8, Data::Int8(-8), ValueType::Int8, Value::Scalar(Scalar::Int8(-8))),
        (Int16, Data::Int16(-8), ValueType::Int16, Value::Scalar(Scalar::Int16(-8))),
        (Int32, Data::Int32(-8), ValueType::Int32, Value::Scalar(Scalar::Int32(-8))),
        (Int64, Data::Int64(i64::MIN), ValueType::Int64, Value::Scalar(Scalar::Int64(i64::MIN))),
        (UInt8, Data::UInt8(200), ValueType::UInt8, Value::Scalar(Scalar::Int16(200))),
        (UInt16, Data::UInt16(u16::MAX), ValueType::UInt16, Value::Scalar(Scalar::Int32(65_535))),
        (UInt32, Data::UInt32(u32::MAX), ValueType::UInt32, Value::Scalar(Scalar::Int64(4_294_967_295))),
        (UInt64, Data::UInt64(1 << 62), ValueType::UInt64, Value::Scalar(Scalar::Int64(1 << 62))),
        (Float32, Data::Float32(0.5), ValueType::Float32, Value::Scalar(Scalar::Float32(0.5))),
        (Float64, Data::Float64(1e-9), ValueType::Float64, Value::Scalar(Scalar::Float64(1e-9))),
        (Text, Data::Text("on".into()), ValueType::Text, Value::Scalar(Scalar::Text("on".into()))),
        (Bool, array(Elements::Bool(vec![true, false])), ValueType::Bool, Value::Array(Array::Int8(vec![1, 0]))),
        (UInt8, array(Elements::UInt8(vec![1, 255])), ValueType::UInt8, Value::Array(Array::Int16(vec![1, 255]))),
        (Int8, array(Elements::Int8(vec![-1])), ValueType::Int8, Value::Array(Array::Int8(vec![-1]))),
        (UInt64, array(Elements::UInt64(vec![7])), ValueType::UInt64, Value::Array(Array::Int64(vec![7]))),
        (Text, array(Elements::Text(vec!["a".into()])), ValueType::Text, Value::Array(Array::Text(vec!["a".into()]))),
    ];
    for (ty, data, native, expected) in cases {
        let is_array = matches!(data, Data::Array(_));
        let ty = if is_array { Type::Array(ty, Extent::Variable) } else { scalar(ty) };
        let pv = Pv::new(ty, data);
        let layout = Layout::of(pv.fields);
        assert_eq!((layout.native(), layout.count()), (native, u32::from(!is_array)));
        let sample = layout.sample(&pv.data, 0);
        assert_eq!(sample.value, expected);
        assert_eq!(sample.time, STAMP.0 * 1_000_000_000 + i64::from(STAMP.1));
    }
}

#[test]
fn a_number_that_has_no_place_and_any_other_structure_are_kept_as_structures() {
    let huge = Pv::new(scalar(ScalarType::UInt64), Data::UInt64(u64::MAX));
    let index = Pv::choice(-1, &["a"]);
    let mut other = Pv::counter(5);
    let mut members: Vec<_> = other.fields.members().to_vec();
    members.push(("extra".into(), scalar(ScalarType::Int8)));
    other.fields = Fields::new("my:type", members).unwrap();
    other.data.push(Data::Int8(1));
    for (pv, native, path, expected) in [
        (huge, ValueType::UInt64, "value", Data::UInt64(u64::MAX)),
        (index, ValueType::Enum, "value.index", Data::Int32(-1)),
        (other, ValueType::Structure, "extra", Data::Int8(1)),
    ] {
        let layout = Layout::of(Arc::clone(&pv.fields));
        assert_eq!(layout.native(), native);
        let Value::Structure(bytes) = layout.sample(&pv.data, 0).value else { panic!("not a structure") };
        let structure = Structure::decode(&bytes).unwrap();
        assert_eq!(structure.get(path), Some(&expected));
        assert_eq!((structure.fields, &*structure.data), (pv.fields, &*pv.data));
    }
    let no_time = fields("x", vec![("a", scalar(ScalarType::Int8))]);
    assert_eq!(Layout::of(no_time).sample(&[Data::Int8(1)], 77).time, 77, "the time of reception");
}

#[test]
fn alarms_have_the_status_of_channel_access_where_the_message_names_one() {
    let cases = [
        ((0, 0, "NO_ALARM"), (Severity::None, 0, "")),
        ((1, 3, "HIGH"), (Severity::Minor, 4, "")),
        ((2, 3, "HIHI"), (Severity::Major, 3, "")),
        ((3, 5, "UDF"), (Severity::Invalid, 17, "")),
        ((4, 6, ""), (Severity::Invalid, 262, "")),
        ((2, 1, "pump is off"), (Severity::Major, 257, "pump is off")),
        ((2, 0, "pump is off"), (Severity::Major, 0, "pump is off")),
        ((2, -5, ""), (Severity::Major, 511, "")),
    ];
    for ((severity, status, message), expected) in cases {
        let mut pv = Pv::counter(1);
        pv.data[1] = Data::Structure([Data::Int32(severity), Data::Int32(status), Data::Text(message.into())].into());
        let layout = Layout::of(pv.fields);
        let sample = layout.sample(&pv.data, 0);
        let annotations = layout.annotations(&pv.data);
        assert_eq!((sample.severity, sample.status, &*annotations.alarm_message), expected);
    }
    let pv = Pv::counter(1);
    assert_eq!(Layout::of(pv.fields).annotations(&pv.data), Annotations::default());
}

/// Bytes that QSRV of pvxs 1.5.3 sent for an mbbi record: its type, its first update, and the next.
#[test]
fn the_monitor_of_an_ioc_is_understood() {
    let bytes = |hex: &str| -> Vec<u8> { hex.split_whitespace().map(|h| u8::from_str_radix(h, 16).unwrap()).collect() };
    let ty = bytes(
        "80 13 65 70 69 63 73 3a 6e 74 2f 4e 54 45 6e 75 6d 3a 31 2e 30 04 05 76 61 6c 75 65 80 06 65 6e 75 6d 5f 74 02 05 69 6e \
         64 65 78 22 07 63 68 6f 69 63 65 73 68 05 61 6c 61 72 6d 80 07 61 6c 61 72 6d 5f 74 03 08 73 65 76 65 72 69 74 79 22 06 \
         73 74 61 74 75 73 22 07 6d 65 73 73 61 67 65 60 09 74 69 6d 65 53 74 61 6d 70 80 06 74 69 6d 65 5f 74 03 10 73 65 63 6f \
         6e 64 73 50 61 73 74 45 70 6f 63 68 23 0b 6e 61 6e 6f 73 65 63 6f 6e 64 73 22 07 75 73 65 72 54 61 67 22 07 64 69 73 70 \
         6c 61 79 80 00 01 0b 64 65 73 63 72 69 70 74 69 6f 6e 60",
    );
    let updates = [
        "02 ec 2e 02 00 00 00 03 03 4f 46 46 04 52 41 4d 50 04 42 45 41 4d 02 00 00 00 01 00 00 00 05 53 54 41 54 45 15 23 07 6b \
         00 00 00 00 ef 3a cb 27 00 00 00 00 00 00",
        "02 e4 0e 01 00 00 00 00 00 00 00 00 00 00 00 00 17 23 07 6b 00 00 00 00 b2 b0 f1 29 00 00 00 00 00",
    ];
    let cache = &mut TypeCache::default();
    let Ok(Some(Type::Structure(fields))) = Type::decode(&mut Reader::new(&ty, Order::Little), cache) else {
        panic!("no structure")
    };
    let layout = Layout::of(Arc::clone(&fields));
    let mut data = Data::defaults(&fields);
    let mut samples = Vec::new();
    for bytes in updates.map(bytes) {
        let mut reader = Reader::new(&bytes, Order::Little);
        let changed = reader.bit_set().unwrap();
        update(&mut reader, &fields, &mut data, &changed, layout.wanted(), cache).unwrap();
        assert_eq!((reader.bit_set().unwrap().is_empty(), reader.left()), (true, 0));
        let sample = layout.sample(&data, 0);
        samples.push((sample.time, sample.value, sample.severity, sample.status));
    }
    let first = (1_795_629_845_667_630_319, Value::Scalar(Scalar::Enum(2)), Severity::Major, 7);
    let second = (1_795_629_847_703_705_266, Value::Scalar(Scalar::Enum(1)), Severity::None, 0);
    assert_eq!(samples, [first, second]);
    assert_eq!(layout.metadata(&data).labels, ["OFF", "RAMP", "BEAM"]);
}

#[test]
fn metadata_are_units_precision_limits_and_labels() {
    let pv = Pv::analog(1.0, "mA");
    let metadata = Layout::of(pv.fields).metadata(&pv.data);
    let Metadata { units, precision, limits: Some(limits), labels } = metadata else { panic!("no limits") };
    assert_eq!((units.as_deref(), precision, labels.len()), (Some("mA"), Some(2), 0));
    let Limits { display, alarm, warning, control } = limits;
    assert_eq!((display, warning, control, alarm.1), ((0.0, 9.0), (2.0, 7.0), (3.0, 6.0), 8.0));
    assert!(alarm.0.is_nan());
    let pv = Pv::choice(1, &["off", "on"]);
    let layout = Layout::of(pv.fields);
    let labels = vec!["off".to_owned(), "on".to_owned()];
    assert_eq!(layout.metadata(&pv.data), Metadata { labels, ..Metadata::default() });
    assert_eq!(layout.sample(&pv.data, 0).value, Value::Scalar(Scalar::Enum(1)));
    // Bits: 0 all, 1 value, 2 index, 3 choices, 4 alarm ..= 7, 8 timeStamp ..= 11.
    let changed = |bit| BitSet::from_iter([bit]);
    for (bit, sample, metadata) in
        [(0, true, true), (1, true, true), (2, true, false), (3, false, true), (8, true, false)]
    {
        assert_eq!(
            (layout.has_sample(&changed(bit)), layout.has_metadata(&changed(bit))),
            (sample, metadata),
            "bit {bit}"
        );
    }
}

/// Memory of a value, at least.
fn memory(data: &Data) -> usize {
    let boxed = |data: &[Data]| data.iter().map(memory).sum::<usize>();
    size_of::<Data>()
        + match data {
            Data::Text(text) => text.len(),
            Data::Array(elements) => match &**elements {
                Elements::Text(texts) => texts.iter().map(|text| size_of::<String>() + text.len()).sum(),
                Elements::Float64(values) => 8 * values.len(),
                _ => 0,
            },
            Data::Structure(data) => boxed(data),
            Data::StructureArray(all) => 16 * all.len() + all.iter().flatten().map(|data| boxed(data)).sum::<usize>(),
            Data::Union(Some(choice)) => memory(&choice.1),
            Data::UnionArray(all) => {
                8 * all.len() + all.iter().flatten().map(|choice| memory(&choice.1)).sum::<usize>()
            }
            Data::Any(Some(any)) => memory(&any.1),
            Data::AnyArray(all) => 8 * all.len() + all.iter().flatten().map(|any| memory(&any.1)).sum::<usize>(),
            _ => 0,
        }
}

#[test]
fn a_small_message_never_takes_much_memory() {
    // An array of structures, each of which has 10,000 empty structures and so takes one byte.
    let empty = Type::Structure(fields("", vec![]));
    let many = Fields::new("", (0..10_000).map(|_| ("".into(), empty.clone())).collect()).unwrap();
    let mut bytes = vec![0xFE, 0, 0, 0x27, 0x10];
    bytes.extend([1; 10_000]);
    let mut reader = Reader::new(&bytes, Order::Big);
    assert!(Data::decode(&mut reader, &Type::StructureArray(many), &mut TypeCache::default()).is_err());
}

fn type_code() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![
        0x00, 0x20, 0x23, 0x27, 0x43, 0x60, 0x68, 0x4B, 0x28, 0x33, 0x3A, 0x80, 0x81, 0x82, 0x83, 0x88, 0x89, 0x8A,
        0xFD, 0xFE, 0xFF, 1, 2, 3,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_a_structure_that_is_written_the_same_or_refused(
        start in prop::collection::vec(prop_oneof![type_code(), 0_u8..4, any::<u8>()], 0..200),
        order in prop::sample::select(vec![Order::Big, Order::Little]),
    ) {
        let bytes = [&[0x80, 0, 2, 0][..], &start].concat();
        if let Ok(structure) = Structure::decode(&bytes) {
            let again = structure.encode();
            prop_assert_eq!(Structure::decode(&again).map(|again| again.encode()), Ok(again));
            let memory: usize = structure.data.iter().map(memory).sum();
            prop_assert!(memory <= MEMORY_PER_BYTE * bytes.len() + (64 << 10));
            let layout = Layout::of(Arc::clone(&structure.fields));
            let _ = (layout.sample(&structure.data, 0), layout.metadata(&structure.data), layout.annotations(&structure.data));
        }
        let mut cache = TypeCache::default();
        let mut reader = Reader::new(&start, order);
        while let Ok(Some(ty)) = Type::decode(&mut reader, &mut cache) {
            let _ = Data::decode(&mut reader, &ty, &mut cache);
            let _ = Data::default_of(&ty);
        }
    }

    #[test]
    fn any_bytes_are_an_update_or_refused(bytes in prop::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 0..200)) {
        for fields in [everything().fields, Pv::analog(1.0, "A").fields, Pv::choice(1, &["a"]).fields] {
            let layout = Layout::of(Arc::clone(&fields));
            let mut data = Data::defaults(&fields);
            let mut reader = Reader::new(&bytes, Order::Little);
            if let Ok(changed) = reader.bit_set() {
                let _ = update(&mut reader, &fields, &mut data, &changed, layout.wanted(), &mut TypeCache::default());
            }
            let _ = (layout.sample(&data, 0), layout.metadata(&data));
        }
    }
}
