//! Payloads: round trips, golden bytes, any bytes.

use epics::ca::NativeType;
use epics::ca::dbr::{PayloadError, Shape, decode_control, decode_time, encode_control, encode_time};
use epics::sample::{Array, Limits, Metadata, Sample, Scalar, Severity, Value};
use proptest::prelude::*;

fn sample(value: Value) -> Sample {
    Sample { time: 1_700_000_000_123_456_789, value, severity: Severity::Minor, status: 4 }
}

fn values() -> Vec<Value> {
    vec![
        Value::Scalar(Scalar::Int8(-3)),
        Value::Scalar(Scalar::Int16(-300)),
        Value::Scalar(Scalar::Int32(-70_000)),
        Value::Scalar(Scalar::Float32(0.1)),
        Value::Scalar(Scalar::Float64(-1e300)),
        Value::Scalar(Scalar::Enum(3)),
        Value::Scalar(Scalar::Text("beam on".into())),
        Value::Array(Array::Int8(vec![1, -2, 3])),
        Value::Array(Array::Int16(vec![1, -2])),
        Value::Array(Array::Int32(vec![])),
        Value::Array(Array::Float32(vec![1.5; 100])),
        Value::Array(Array::Float64(vec![0.1, 0.2, 0.3])),
        Value::Array(Array::Enum(vec![0])),
        Value::Array(Array::Text(vec!["a".into(), String::new(), "39 bytes are the most that a text can be".into()])),
    ]
}

fn shape(value: &Value) -> Shape {
    if matches!(value, Value::Scalar(_)) { Shape::Scalar } else { Shape::Array }
}

#[test]
fn updates_of_every_type_are_decoded_to_what_was_encoded() {
    for value in values() {
        let mut expected = sample(value);
        let mut payload = Vec::new();
        let (native, count) = encode_time(&expected, &mut payload).unwrap();
        if let Value::Array(Array::Text(texts)) = &mut expected.value {
            texts.iter_mut().for_each(|text| text.truncate(39));
        }
        payload.resize(payload.len().next_multiple_of(8), 0);
        let decoded = decode_time(native.time_type(), count, shape(&expected.value), &payload);
        assert_eq!(decoded, Ok(expected));
    }
}

#[test]
fn bytes_of_a_double_are_exactly_these() {
    let mut payload = Vec::new();
    encode_time(&sample(Value::Scalar(Scalar::Float64(1.0))), &mut payload);
    let expected = [0, 4, 0, 1, 63, 181, 83, 128, 7, 91, 205, 21, 0, 0, 0, 0, 63, 240, 0, 0, 0, 0, 0, 0];
    assert_eq!(payload, expected);
}

#[test]
fn one_element_of_a_channel_with_an_array_is_an_array() {
    let mut payload = Vec::new();
    encode_time(&sample(Value::Scalar(Scalar::Float64(1.0))), &mut payload);
    let decoded = decode_time(20, 1, Shape::Array, &payload).unwrap();
    assert_eq!(decoded.value, Value::Array(Array::Float64(vec![1.0])));
}

#[test]
fn texts_that_are_not_utf_8_are_latin_1_and_texts_without_a_zero_end_at_40_bytes() {
    let mut payload = vec![0; 12];
    payload.extend_from_slice(b"20 \xB0C\0 garbage");
    payload.resize(12 + 40, b'x');
    let decoded = decode_time(14, 1, Shape::Scalar, &payload).unwrap();
    assert_eq!(decoded.value, Value::Scalar(Scalar::Text("20 °C".into())));
    let full = [&[0; 12][..], &[b'x'; 48]].concat();
    let decoded = decode_time(14, 1, Shape::Scalar, &full).unwrap();
    assert_eq!(decoded.value, Value::Scalar(Scalar::Text("x".repeat(40))));
}

#[test]
fn a_count_above_the_payload_is_an_error_that_names_both() {
    let mut payload = Vec::new();
    encode_time(&sample(Value::Scalar(Scalar::Float64(1.0))), &mut payload);
    for count in [2, 1_000, u32::MAX] {
        let error = decode_time(20, count, Shape::Array, &payload).unwrap_err();
        let expected = 16 + 8 * count as usize;
        assert_eq!(error, PayloadError::Short { data_type: 20, count, seen: 24, expected });
    }
    assert!(decode_time(14, u32::MAX, Shape::Array, &payload).is_err());
    assert_eq!(decode_time(6, 1, Shape::Scalar, &payload), Err(PayloadError::Type { data_type: 6 }));
}

#[test]
fn a_severity_that_epics_does_not_have_is_invalid() {
    let payload = [0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let decoded = decode_time(15, 1, Shape::Scalar, &payload).unwrap();
    assert_eq!((decoded.severity, decoded.value), (Severity::Invalid, Value::Scalar(Scalar::Int16(7))));
}

fn limits() -> Limits {
    Limits { display: (-10.0, 10.0), alarm: (-8.0, 8.0), warning: (-6.0, 6.0), control: (-9.0, 9.0) }
}

fn metadata(native: NativeType) -> Metadata {
    let float = matches!(native, NativeType::Float | NativeType::Double);
    match native {
        NativeType::String => Metadata::default(),
        NativeType::Enum => Metadata { labels: vec!["OFF".into(), "ON".into(), String::new()], ..Metadata::default() },
        _ => Metadata {
            units: Some("mA".into()),
            precision: float.then_some(3),
            limits: Some(limits()),
            labels: Vec::new(),
        },
    }
}

#[test]
fn metadata_of_every_type_are_decoded_to_what_was_encoded() {
    for native in NativeType::ALL {
        let mut payload = Vec::new();
        encode_control(native, &metadata(native), &mut payload);
        assert_eq!(decode_control(native.control_type(), &payload), Ok(metadata(native)), "{native:?}");
    }
}

#[test]
fn the_graphic_form_of_an_enumeration_has_the_labels_too() {
    let mut payload = Vec::new();
    encode_control(NativeType::Enum, &metadata(NativeType::Enum), &mut payload);
    assert_eq!(decode_control(24, &payload), Ok(metadata(NativeType::Enum)));
}

#[test]
fn more_labels_than_there_can_be_are_16() {
    let mut payload = vec![0xFF; 424];
    payload[6..].fill(b'x');
    assert_eq!(decode_control(31, &payload).unwrap().labels, vec!["x".repeat(26); 16]);
}

proptest! {
    #[test]
    fn any_payload_is_decoded_or_refused(
        data_type in 0_u16..40,
        count in prop_oneof![0..50_u32, any::<u32>()],
        payload in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        for shape in [Shape::Scalar, Shape::Array] {
            let _ = decode_time(data_type, count, shape, &payload);
        }
        let _ = decode_control(data_type, &payload);
    }
}
