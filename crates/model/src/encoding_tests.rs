//! Golden bytes and round trips of encoded values, and damaged bytes.

use super::*;

fn numeric(text: &str) -> Datum<'static> {
    Datum::Numeric(text.parse().unwrap())
}

fn bound(value: Datum<'static>, inclusive: bool) -> RangeBound<'static> {
    RangeBound { value, inclusive }
}

/// A value of every tag, with its bytes.
fn values() -> Vec<(Datum<'static>, Vec<u8>)> {
    let int = |value: u8| vec![3, value, 0, 0, 0];
    let range = || Range::Between(bound(Datum::Int4(1), true), bound(Datum::Null, false));
    let range_bytes = [vec![29, 1], int(1), vec![0, 0]].concat();
    let dimensions: Box<[_]> = Box::new([ArrayDimension { length: 2, lower: -1 }]);
    let array = Array { element: 23, dimensions, items: Box::new([Datum::Int4(1), Datum::Null]) };
    let array_bytes =
        [vec![26, 23, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255, 2, 0, 0, 0], int(1), vec![0]].concat();
    let record =
        Record { types: Box::new([23]), names: Some([Box::from("a")].into()), values: Box::new([Datum::Int4(2)]) };
    let record_bytes = [vec![27, 1, 0, 0, 0, 23, 0, 0, 0, 1, 1, 0, 0, 0, b'a', 1, 0, 0, 0], int(2)].concat();
    let long = "1".repeat(40);
    vec![
        (Datum::Null, vec![0]),
        (Datum::Bool(true), vec![1, 1]),
        (Datum::Int2(-2), vec![2, 254, 255]),
        (Datum::Int4(3), int(3)),
        (Datum::Int8(4), vec![4, 4, 0, 0, 0, 0, 0, 0, 0]),
        (Datum::Float4(1.0), vec![5, 0, 0, 128, 63]),
        (Datum::Float8(1.0), vec![6, 0, 0, 0, 0, 0, 0, 240, 63]),
        (numeric("-1.50"), vec![7, 2, 0, 2, 106, 255]),
        (numeric(&long), [vec![8, 0, 0, 0, 40, 0, 0, 0], long.into_bytes()].concat()),
        (Datum::Numeric(Numeric::NAN), vec![9]),
        (Datum::Numeric(Numeric::PLUS_INFINITY), vec![10]),
        (Datum::Numeric(Numeric::MINUS_INFINITY), vec![11]),
        (Datum::Text("ä"), vec![12, 2, 0, 0, 0, 195, 164]),
        (Datum::Bytes(&[0, 255]), vec![13, 2, 0, 0, 0, 0, 255]),
        (Datum::Uuid([7; 16]), [vec![14], vec![7; 16]].concat()),
        (Datum::Date(-1), vec![15, 255, 255, 255, 255]),
        (Datum::Time(1), vec![16, 1, 0, 0, 0, 0, 0, 0, 0]),
        (Datum::Timestamp(2), vec![17, 2, 0, 0, 0, 0, 0, 0, 0]),
        (Datum::Timestamptz(3), vec![18, 3, 0, 0, 0, 0, 0, 0, 0]),
        (
            Datum::Interval(Interval { months: 1, days: 2, micros: 3 }),
            vec![19, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
        ),
        (Datum::Oid(26), vec![20, 26, 0, 0, 0]),
        (Datum::TimeTz(TimeTz { micros: 1, west: -1 }), vec![21, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]),
        (Datum::Bits(Bits { length: 3, bytes: &[160] }), vec![22, 3, 0, 0, 0, 1, 0, 0, 0, 160]),
        (Datum::Network(Network { address: [10, 0, 0, 1].into(), prefix: 8 }), vec![23, 10, 0, 0, 1, 8]),
        (Datum::Network(Network { address: [0; 16].into(), prefix: 128 }), [vec![24], vec![0; 16], vec![128]].concat()),
        (Datum::Mac(0x0102), vec![25, 2, 1, 0, 0, 0, 0, 0, 0]),
        (Datum::Array(Arc::new(array)), array_bytes),
        (Datum::Record(Arc::new(record)), record_bytes),
        (Datum::Range(Arc::new(Range::Empty)), vec![28]),
        (Datum::Range(Arc::new(range())), range_bytes.clone()),
        (Datum::Multirange(vec![range()].into()), [vec![30, 1, 0, 0, 0], range_bytes].concat()),
        (
            Datum::Geometry(Arc::new(Geometry::Circle(Point { x: 0.0, y: 1.0 }, 1.0))),
            [vec![31, 7, 1, 0, 0, 0], vec![0; 8], vec![0, 0, 0, 0, 0, 0, 240, 63], vec![0, 0, 0, 0, 0, 0, 240, 63]]
                .concat(),
        ),
        (Datum::Geometry(Arc::new(Geometry::Line([0.0; 3]))), [vec![31, 1], vec![0; 24]].concat()),
    ]
}

#[test]
fn value_bytes_are_exactly_these() {
    for (value, expected) in values() {
        let mut bytes = Vec::new();
        encode(&value, &mut bytes);
        assert_eq!(bytes, expected, "{value:?}");
        assert_eq!(format!("{:?}", decode(&bytes).unwrap()), format!("{value:?}"));
    }
}

#[test]
fn damaged_bytes_are_an_error() {
    for (_, bytes) in values() {
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at]).is_err(), "{bytes:?} cut at {at}");
            for byte in [0, 1, 127, 255] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                let _ = decode(&changed);
            }
        }
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err(), "{bytes:?} with another byte");
    }
}

#[test]
fn values_within_values_are_limited() {
    let bytes: Vec<u8> = (0..100).flat_map(|_| [26, 23, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).collect();
    assert!(decode(&bytes).is_err());
}
