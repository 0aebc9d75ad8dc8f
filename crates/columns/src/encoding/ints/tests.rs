//! Facts of the table of encodings, each of them for every entry.

use super::super::byte_io::Reader;
use super::super::tests::Random;
use super::*;

const N: usize = 1_000;

/// Values for each encoding, by its name: the cost model chooses it for the whole stream.
fn values_of(name: &str) -> Vec<i64> {
    let mut random = Random(7);
    let mut of = |f: &mut dyn FnMut(i64, &mut Random) -> i64| (0..N as i64).map(|i| f(i, &mut random)).collect();
    match name {
        "packed" => of(&mut |_, r| r.below(1 << 12) as i64),
        "delta" => of(&mut |i, _| i * i),
        "scaled" => of(&mut |_, r| 1_000_000 * r.below(1_000) as i64 + 17),
        "runs" => of(&mut |i, _| i / 90),
        "dictionary" => of(&mut |_, r| Random(r.below(9)).next().cast_signed()),
        "cycle" => of(&mut |i, _| Random(i as u64 % 37).next().cast_signed()),
        "split" => of(&mut |i, r| (i + i / 50 * 7) * 1_000_000_000 + r.below(5_000) as i64),
        "grouped" => of(&mut |_, r| i64::from(r.below(20) == 0)),
        "coded" => of(&mut |_, r| i64::from(r.next().leading_zeros()) * 40 + r.below(40) as i64),
        other => panic!("add values for which the cost model chooses the encoding {other:?}"),
    }
}

fn encoded(encoding: &Encoding) -> (Vec<i64>, Vec<u8>) {
    let values = values_of(encoding.name);
    let mut bytes = Vec::new();
    encode(&values, &mut bytes);
    assert!(encoding.tags.contains(&bytes[0]), "{}: the cost model chose tag {}", encoding.name, bytes[0]);
    (values, bytes)
}

#[test]
fn every_encoding_is_chosen_and_read_in_all_ways() {
    for encoding in ENCODINGS {
        let name = encoding.name;
        let (values, bytes) = encoded(encoding);
        assert_eq!(decode_vec(&mut Reader::new(&bytes), N).unwrap(), values, "{name}");
        let mapped = decode_mapped(&mut Reader::new(&bytes), N, |value| value ^ 5).unwrap();
        assert!(mapped.iter().map(|value| value ^ 5).eq(values.iter().copied()), "{name}, mapped");
        for part in [0..0, 0..1, 17..18, 63..130, N - 1..N, 0..N, N..N] {
            let mut reader = Reader::new(&bytes);
            assert_eq!(decode_range(&mut reader, N, part.clone()).unwrap(), values[part.clone()], "{name}, {part:?}");
            assert_eq!(reader.remaining(), 0, "{name}, {part:?}: the reader is at the end of the stream");
        }
        let mut sums = Vec::new();
        decode_sums_at(&mut Reader::new(&bytes), N, DEPTH_MAX, 100, &mut sums).unwrap();
        let mut expected = values.clone();
        to_running_sums(100, &mut expected);
        assert!(sums == expected, "{name}, sums");
        let mut line = Vec::new();
        decode_line_at(&mut Reader::new(&bytes), N, DEPTH_MAX, (-3, 7), &mut line).unwrap();
        assert!(line.iter().eq(values.iter().map(|v| v.wrapping_mul(7).wrapping_sub(3)).collect::<Vec<_>>().iter()));
    }
}

#[test]
fn every_encoding_is_refused_when_cut_short_or_nested_too_deeply() {
    for encoding in ENCODINGS {
        let (_, bytes) = encoded(encoding);
        for cut in 0..bytes.len() {
            assert!(decode_vec(&mut Reader::new(&bytes[..cut]), N).is_err(), "{}, cut to {cut}", encoding.name);
            let cut_range = decode_range(&mut Reader::new(&bytes[..cut]), N, 0..N);
            assert!(cut_range.is_err(), "{}, cut to {cut}, range", encoding.name);
        }
        assert!(decode_at(&mut Reader::new(&bytes), N, 0, &mut Vec::new()).is_err(), "{}", encoding.name);
    }
}

#[test]
fn an_unknown_tag_is_refused_and_the_known_ones_are_named() {
    let unknown = (0..=255).find(|tag| BY_TAG[usize::from(*tag)].is_none()).unwrap();
    for result in [decode_vec(&mut Reader::new(&[unknown]), 1), decode_range(&mut Reader::new(&[unknown]), 1, 0..1)] {
        let error = result.unwrap_err();
        assert!(error.message().contains(&format!("integer encoding is {unknown}, known are 0 to 64 (packed)")));
        ENCODINGS.iter().for_each(|encoding| assert!(error.message().contains(encoding.name), "{error}"));
    }
}
