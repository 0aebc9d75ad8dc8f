//! Replies byte by byte, as the Appliance writes them.

use super::*;
use crate::calendar::start_of_year;
use crate::pb::Payload;
use crate::sample::{Sample, Severity};

fn pv(name: &str, payload: Payload) -> Pv {
    Pv::new(Header {
        payload,
        pv: name.into(),
        year: 2024,
        elements: Some(1),
        fields: vec![("EGU".into(), "mA".into()), ("PREC".into(), "3".into()), ("DESC".into(), String::new())],
    })
}

fn event(nanos: i64, value: Value) -> Event {
    Sample { time: start_of_year(2024) + nanos, value, severity: Severity::None, status: 0 }.into()
}

fn double(nanos: i64, value: f64) -> Event {
    event(nanos, Value::Scalar(Scalar::Float64(value)))
}

fn alarm(nanos: i64, value: f64) -> Event {
    let mut event = double(nanos, value);
    event.sample.severity = Severity::Major;
    event.sample.status = 3;
    event.fields = vec![("cnxlostepsecs".into(), "1720000000".into()), ("startup".into(), "a/b".into())];
    event
}

fn reply(format: Format, pvs: &[(Pv, Vec<Event>)]) -> String {
    let mut reply = Reply::new(format, Vec::new());
    for (pv, events) in pvs {
        reply.start(pv).unwrap();
        events.iter().for_each(|event| reply.event(event).unwrap());
    }
    String::from_utf8(reply.finish().unwrap()).unwrap()
}

fn two_events() -> Vec<(Pv, Vec<Event>)> {
    vec![(pv("A:B", Payload::Float64), vec![double(5, 1.5), alarm(1_234_567_890, f64::NAN)])]
}

#[test]
fn json_is_exactly_this() {
    assert_eq!(
        reply(Format::Json, &two_events()),
        "[ \n\
         { \"meta\": { \"name\": \"A:B\" , \"EGU\": \"mA\" , \"PREC\": \"3\" },\n\
         \"data\": [ \n\
         { \"secs\": 1704067200, \"val\": 1.5, \"nanos\": 5, \"severity\":0, \"status\":0 },\n\
         { \"secs\": 1704067201, \"val\": NaN, \"nanos\": 234567890, \"severity\":2, \"status\":3, \
         \"fields\": { \"cnxlostepsecs\": \"1720000000\",\"startup\": \"a\\/b\"} }\n\
         ] }\n \
         ]\n"
    );
}

#[test]
fn several_pvs_in_json_are_exactly_this() {
    let pvs = [
        (pv("A", Payload::Float64), vec![double(0, 1.0)]),
        (pv("B", Payload::Float64), vec![]),
        (pv("C", Payload::Float64), vec![double(0, 2.0)]),
    ];
    let meta = |name: &str| {
        format!("{{ \"meta\": {{ \"name\": \"{name}\" , \"EGU\": \"mA\" , \"PREC\": \"3\" }},\n\"data\": [ \n")
    };
    let line = |value: &str| {
        format!("{{ \"secs\": 1704067200, \"val\": {value}, \"nanos\": 0, \"severity\":0, \"status\":0 }}")
    };
    let expected =
        format!("[ \n{}{}] }},\n{}] }},\n{}{}\n] }}\n ]\n", meta("A"), line("1.0"), meta("B"), meta("C"), line("2.0"));
    assert_eq!(reply(Format::Json, &pvs), expected);
    assert_eq!(reply(Format::Json, &[]), "[ \n ]\n");
}

#[test]
fn qw_is_exactly_this() {
    let mut pvs = two_events();
    pvs[0].0.requested = "A:B.VAL".into();
    assert_eq!(
        reply(Format::Qw, &pvs),
        "[ \n\
         { \"meta\": { \"name\": \"A:B.VAL\" , \"waveform\": false , \"EGU\": \"mA\" , \"PREC\": \"3\" },\n\
         \"data\": [ \n\
         { \"millis\": 1704067200000, \"val\": 1.5 },\n\
         { \"millis\": 1704067201234, \"val\": null, \
         \"fields\": { \"cnxlostepsecs\": \"1720000000\",\"startup\": \"a\\/b\"} }] }\n \
         ]\n"
    );
}

#[test]
fn csv_is_exactly_this() {
    assert_eq!(reply(Format::Csv, &two_events()), "1704067200,1.5,0,0,5\n1704067201,NaN,2,3,234567890\n\n");
}

#[test]
fn text_is_exactly_this() {
    let mut pvs = two_events();
    pvs[0].0.source = "STS".into();
    pvs[0].1.push(Sample { time: 7, ..double(0, 1.0).sample }.into());
    assert_eq!(
        reply(Format::Text, &pvs),
        "Beginning data for A:B\nData from stream STS\n\
         Jan/01/2024 00:00:00 UTC\t1.5\t0\t0\t5\n\
         Jan/01/2024 00:00:01 UTC\tNaN\t2\t3\t234567890\n\
         Never\t1.0\t0\t0\t7\n"
    );
}

#[test]
fn raw_is_what_pb_writes() {
    let (pv, events) = two_events().remove(0);
    let mut writer = pb::Writer::new(Vec::new());
    writer.start(pv.header.clone()).unwrap();
    events.iter().for_each(|event| writer.event(event).unwrap());
    let mut reply = Reply::new(Format::Raw, Vec::new());
    reply.start(&pv).unwrap();
    events.iter().for_each(|event| reply.event(event).unwrap());
    assert_eq!(reply.finish().unwrap(), writer.finish().unwrap());
}

#[test]
fn values_of_every_type_are_texts_of_java() {
    let nan = f64::NAN;
    let scalar = |scalar| Value::Scalar(scalar);
    let array = |array| Value::Array(array);
    for (value, json, qw, csv) in [
        (scalar(Scalar::Int8(-1)), "-1", "-1", "-1"),
        (scalar(Scalar::Int16(-300)), "-300", "-300", "-300"),
        (scalar(Scalar::Int32(i32::MIN)), "-2147483648", "-2147483648", "-2147483648"),
        (scalar(Scalar::Int64(i64::MAX)), "9223372036854775807", "9223372036854775807", "9223372036854775807"),
        (scalar(Scalar::Enum(40_000)), "40000", "40000", "40000"),
        (scalar(Scalar::Float32(0.1)), "0.1", "0.1", "0.1"),
        (scalar(Scalar::Float64(1e7)), "1.0E7", "1.0E7", "1.0E7"),
        (scalar(Scalar::Float32(f32::INFINITY)), "Infinity", "null", "Infinity"),
        (scalar(Scalar::Float64(f64::NEG_INFINITY)), "-Infinity", "null", "-Infinity"),
        (scalar(Scalar::Text("a b".into())), "\"a b\"", "\"a b\"", "a b"),
        (scalar(Scalar::Text("a,\"b\"".into())), "\"a,\\\"b\\\"\"", "\"a,\\\"b\\\"\"", "\"a,\"\"b\"\"\""),
        (array(Array::Float64(vec![1.0, nan])), "[1.0,NaN]", "[1.0,null]", "[1.0,NaN]"),
        (array(Array::Float32(vec![0.5])), "[0.5]", "[0.5]", "[0.5]"),
        (array(Array::Int8(vec![-1, 2])), "[-1,2]", "[-1,2]", "[-1,2]"),
        (array(Array::Enum(vec![])), "[]", "[]", "[]"),
        (
            array(Array::Text(vec!["a".into(), String::new(), "\"".into(), String::new()])),
            "[\"a\",\"\",\"\\\"\"]",
            "[\"a\",\"\",\"\\\"\"]",
            "[a,,\",]",
        ),
        (Value::Structure(vec![1, 2]), "{}", "{}", "{}"),
    ] {
        let pvs = [(pv("A", Payload::of(&value)), vec![event(0, value)])];
        let seen = reply(Format::Json, &pvs);
        assert!(seen.contains(&format!("\"val\": {json}, ")), "{seen}");
        let seen = reply(Format::Qw, &pvs);
        assert!(seen.contains(&format!("\"val\": {qw} }}")), "{seen}");
        assert_eq!(seen.contains("\"waveform\": true"), pvs[0].0.header.payload.is_waveform());
        assert_eq!(reply(Format::Csv, &pvs), format!("1704067200,{csv},0,0,0\n\n"));
    }
}

#[test]
fn texts_are_escaped_as_json_needs_it() {
    let text = "q\" b\\ s/ \n\r\t\x08\x0c\x01\x7f\u{9f}\u{2028}é\u{1f600}";
    let mut with_text = pv("A\"", Payload::Text);
    with_text.header.fields = vec![("EGU".into(), "m/s \"°C\"\n".into())];
    let pvs = [(with_text, vec![event(0, Value::Scalar(Scalar::Text(text.into())))])];
    for format in [Format::Json, Format::Qw] {
        let seen = reply(format, &pvs);
        assert!(
            seen.contains("\"val\": \"q\\\" b\\\\ s\\/ \\n\\r\\t\\b\\f\\u0001\\u007F\\u009F\\u2028é😀\""),
            "{seen}"
        );
        assert!(seen.contains("\"name\": \"A\\\"\""), "{seen}");
        assert!(seen.contains("\"EGU\": \"m/s \\\"°C\\\"\\n\""), "{seen}");
    }
}

#[test]
fn long_reply_is_written_in_pieces() {
    struct Pieces(usize, usize);
    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            self.1 = self.1.max(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for format in [Format::Raw, Format::Json, Format::Qw, Format::Csv, Format::Text] {
        let mut reply = Reply::new(format, Pieces(0, 0));
        reply.start(&pv("A", Payload::Float64)).unwrap();
        (0..20_000).for_each(|n| reply.event(&double(n * SECOND, 0.1 * n as f64)).unwrap());
        let Pieces(bytes, largest) = reply.finish().unwrap();
        assert!(bytes > 300_000 && largest < BUFFER_BYTES + 1000, "{format:?}: {bytes} {largest}");
    }
}

#[test]
fn formats_of_one_pv_refuse_the_second() {
    for format in [Format::Csv, Format::Text] {
        let mut reply = Reply::new(format, Vec::new());
        assert!(reply.event(&double(0, 1.0)).is_err(), "no PV was started");
        reply.start(&pv("A", Payload::Float64)).unwrap();
        assert!(reply.start(&pv("B", Payload::Float64)).is_err());
    }
}

#[test]
fn extensions_have_their_format_and_content_type() {
    for (extension, mime) in [
        ("raw", "application/x-protobuf"),
        ("json", "application/json"),
        ("qw", "application/json"),
        ("csv", "text/csv"),
        ("txt", "text/plain"),
    ] {
        assert_eq!(Format::of(extension).unwrap().mime(), mime);
    }
    assert_eq!(Format::of("svg"), None);
}
