//! Tests of the row format: round trips, rows of older schemas, damaged rows, golden bytes.

use super::row::{ColumnLayout, RowLayout, alone, is_same_form};
use super::samples::{Sample, numeric, types, values};
use model::limits::ROW_BYTES_MAX;
use model::{Datum, Interval, RowColumn, RowSchema, SqlState, TableId, TableName, Type};
use proptest::prelude::*;

fn layout(types: &[Type]) -> RowLayout {
    let columns: Vec<_> = types.iter().map(|ty| ColumnLayout::new(*ty, false)).collect();
    RowLayout::new(&columns).unwrap()
}

fn encode(layout: &RowLayout, values: &[Datum<'_>]) -> Vec<u8> {
    let mut row = Vec::new();
    layout.encode(values, &mut row).unwrap();
    row
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One value or NULL for each type.
fn row() -> impl Strategy<Value = Vec<Option<Sample>>> {
    types().into_iter().map(|ty| proptest::option::weighted(0.8, values(ty))).collect::<Vec<_>>()
}

fn datums(samples: &[Option<Sample>]) -> Vec<Datum<'_>> {
    samples.iter().map(|sample| sample.as_ref().map_or(Datum::Null, Sample::datum)).collect()
}

#[test]
fn row_bytes_are_exactly_these() {
    let interval = Datum::Interval(Interval { months: 1, days: -1, micros: 2 });
    let cases: [(&[Type], &[Datum<'_>], &str); 6] = [
        (
            &[Type::Int4, Type::Text, Type::Bool, Type::Text],
            &[Datum::Int4(-2), Datum::Text("ab"), Datum::Bool(true), Datum::Text("é")],
            "0400 feffffff 12000000 01 14000000 00 6162 c3a9",
        ),
        (
            &[Type::Text, Type::Int2, Type::Bytes],
            &[Datum::Null, Datum::Int2(1), Datum::Bytes(&[7])],
            "0300 0d000000 0100 0e000000 01 07",
        ),
        (
            &[numeric(4, 2), numeric(20, 1), Type::Numeric(None)],
            &[
                Datum::Numeric("1.50".parse().unwrap()),
                Datum::Numeric("NaN".parse().unwrap()),
                Datum::Numeric("-1".parse().unwrap()),
            ],
            "0300 9600000000000000 ffffffffffffffffffffffffffffff7f 23000000 00 000000ff",
        ),
        (&[Type::Interval], &[interval], "0100 0200000000000000 ffffffff 01000000 00"),
        (
            &[Type::Uuid, Type::Float4],
            &[Datum::Uuid([9; 16]), Datum::Float4(1.0)],
            "0200 09090909090909090909090909090909 0000803f 00",
        ),
        (&[], &[], "0000"),
    ];
    for (types, values, expected) in cases {
        assert_eq!(hex(&encode(&layout(types), values)), expected.replace(' ', ""), "{types:?}");
    }
}

/// Values of `new` where `is_new`, otherwise of `old`.
fn mixed<'a>(old: &[Datum<'a>], new: &[Datum<'a>], is_new: impl Fn(usize) -> bool) -> Vec<Datum<'a>> {
    (0..old.len()).map(|at| if is_new(at) { &new[at] } else { &old[at] }.clone()).collect()
}

proptest! {
    #[test]
    fn a_changed_row_equals_an_encoded_one(old in row(), new in row(), which in any::<u64>()) {
        let layout = layout(&types());
        let (old, new) = (datums(&old), datums(&new));
        // Once with all types, once with only those that are changed in place.
        let fixed = |at: usize| new[at].is_null() || !matches!(new[at], Datum::Text(_) | Datum::Bytes(_));
        for is_new in [&(|at: usize| which >> (at % 64) & 1 == 1) as &dyn Fn(usize) -> bool, &(|at| which >> (at % 64) & 1 == 1 && fixed(at))] {
            let changes: Vec<_> = (0..old.len()).filter(|at| is_new(*at)).map(|at| (at, new[at].clone())).collect();
            let mut row = b"before".to_vec();
            layout.change(&encode(&layout, &old), &changes, &mut row).unwrap();
            prop_assert_eq!(&row[6..], encode(&layout, &mixed(&old, &new, is_new)));
        }
    }
}

#[test]
fn changing_a_row_of_an_older_schema_adds_its_missing_columns() {
    let old = encode(&layout(&[Type::Int4]), &[Datum::Int4(1)]);
    let added = ColumnLayout { ty: Type::Int4, not_null: true, missing: Datum::Int4(7) };
    let new = RowLayout::new(&[ColumnLayout::new(Type::Int4, false), added]).unwrap();
    let mut row = Vec::new();
    new.change(&old, &[(0, Datum::Int4(2))], &mut row).unwrap();
    assert_eq!(row, encode(&new, &[Datum::Int4(2), Datum::Int4(7)]));
    let refused = new.change(&old, &[(1, Datum::Null)], &mut row).unwrap_err();
    assert_eq!(refused.state(), SqlState::NOT_NULL_VIOLATION);
    assert_eq!(row, encode(&new, &[Datum::Int4(2), Datum::Int4(7)]), "nothing was appended");
}

#[test]
fn rows_of_an_older_schema_have_missing_values() {
    let old = layout(&[Type::Int4, Type::Text]);
    let row = encode(&old, &[Datum::Int4(1), Datum::Text("a")]);
    let columns = [
        ColumnLayout::new(Type::Int4, true),
        ColumnLayout::new(Type::Text, false),
        ColumnLayout { ty: Type::Varchar(Some(9)), not_null: true, missing: Datum::Text("new") },
        ColumnLayout { ty: numeric(5, 2), not_null: false, missing: Datum::Numeric("0.10".parse().unwrap()) },
        ColumnLayout::new(Type::Text, false),
    ];
    let new = RowLayout::new(&columns).unwrap();
    new.check(&row).unwrap();
    let fields: Vec<_> = (0..5).map(|column| format!("{:?}", new.field(&row, column).unwrap())).collect();
    assert_eq!(fields, ["Int4(1)", "Text(\"a\")", "Text(\"new\")", "Numeric(0.10)", "Null"]);
    // The opposite is damage: a row cannot have more fields than its table has columns.
    let row = encode(&layout(&[Type::Int4, Type::Text, Type::Int4]), &[Datum::Null, Datum::Null, Datum::Null]);
    assert_eq!(old.field(&row, 0).unwrap_err().state(), SqlState::DATA_CORRUPTED);
}

#[test]
fn missing_values_come_from_the_schema() {
    let old = layout(&[Type::Int4]);
    let row = encode(&old, &[Datum::Int4(1)]);
    let added = |ty, value: Datum<'_>| RowColumn { missing: alone(ty, &value).unwrap(), ..RowColumn::new("a", ty) };
    let mut schema = RowSchema {
        id: TableId(1),
        name: TableName::public("t"),
        version: 2,
        lineage: model::Lineage::default(),
        columns: vec![
            RowColumn::new("a", Type::Int4),
            added(Type::Text, Datum::Text("été")),
            added(numeric(30, 2), Datum::Numeric("1.5".parse().unwrap())),
            added(Type::Bytes, Datum::Null),
        ],
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let layout = RowLayout::of(&schema).unwrap();
    let fields: Vec<_> = (0..4).map(|column| format!("{:?}", layout.field(&row, column).unwrap())).collect();
    assert_eq!(fields, ["Int4(1)", "Text(\"été\")", "Numeric(1.50)", "Null"]);
    // A missing value from the log or a checkpoint may be damaged.
    schema.columns[1].missing = Some([1, 0, 9].into());
    assert_eq!(RowLayout::of(&schema).unwrap_err().state(), SqlState::DATA_CORRUPTED);
}

#[test]
fn types_with_the_same_storage_form_are_known() {
    assert!(is_same_form(Type::Varchar(Some(3)), Type::Text));
    assert!(is_same_form(numeric(5, 2), numeric(18, 2)));
    assert!(!is_same_form(numeric(5, 2), numeric(19, 2)) && !is_same_form(numeric(5, 2), numeric(5, 3)));
    assert!(!is_same_form(Type::Int4, Type::Int8) && !is_same_form(numeric(5, 2), Type::Numeric(None)));
}

#[test]
fn fields_are_the_same_when_their_bytes_are() {
    let types = [Type::Int4, Type::Text, numeric(5, 2), Type::Text];
    let layout = layout(&types);
    let number = |text: &str| Datum::Numeric(text.parse().unwrap());
    let row = |values: [Datum<'_>; 4]| encode(&layout, &values);
    let one = row([Datum::Int4(1), Datum::Text("a"), number("1.5"), Datum::Null]);
    let other = row([Datum::Int4(1), Datum::Text("bc"), number("1.50"), Datum::Text("")]);
    let same = |one: &[u8], other: &[u8]| [0, 1, 2, 3].map(|column| layout.is_same(one, other, column).unwrap());
    assert_eq!(same(&one, &one), [true; 4]);
    assert_eq!(same(&one, &other), [true, false, true, false]);
    // A missing field is never reported as the same.
    let short = encode(&self::layout(&types[..1]), &[Datum::Int4(1)]);
    assert_eq!(same(&short, &short), [true, false, false, false]);
    assert_eq!(layout.is_same(&one, &[4, 0], 0).unwrap_err().state(), SqlState::DATA_CORRUPTED);
}

#[test]
fn null_is_refused_where_the_column_refuses_it() {
    let columns = [ColumnLayout::new(Type::Int4, false), ColumnLayout::new(Type::Int4, true)];
    let layout = RowLayout::new(&columns).unwrap();
    let mut out = vec![7];
    let error = layout.encode(&[Datum::Null, Datum::Null], &mut out).unwrap_err();
    assert_eq!((error.state(), out), (SqlState::NOT_NULL_VIOLATION, vec![7]));
}

#[test]
fn a_row_too_large_is_refused_and_the_largest_is_kept() {
    let layout = layout(&[Type::Bytes, Type::Bytes]);
    let half = vec![1; (ROW_BYTES_MAX - 11) / 2];
    let rest = vec![2; ROW_BYTES_MAX - 11 - half.len()];
    let row = encode(&layout, &[Datum::Bytes(&half), Datum::Bytes(&rest)]);
    assert_eq!(row.len(), ROW_BYTES_MAX);
    layout.check(&row).unwrap();
    let more = vec![2; rest.len() + 1];
    let error = layout.encode(&[Datum::Bytes(&half), Datum::Bytes(&more)], &mut Vec::new()).unwrap_err();
    assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn a_value_of_another_type_is_our_mistake_and_nothing_is_appended() {
    let layout = layout(&[Type::Text, numeric(4, 2)]);
    for (first, second) in [(Datum::Int4(1), "1"), (Datum::Text("a"), "1.234"), (Datum::Text("a"), "Infinity")] {
        let mut out = vec![7];
        let error = layout.encode(&[first, Datum::Numeric(second.parse().unwrap())], &mut out).unwrap_err();
        assert_eq!((error.state(), out), (SqlState::INTERNAL_ERROR, vec![7]));
    }
}

proptest! {
    #[test]
    fn every_field_reads_back(samples in row(), before in proptest::collection::vec(any::<u8>(), 0..3)) {
        let (layout, values) = (layout(&types()), datums(&samples));
        let mut out = before.clone();
        layout.encode(&values, &mut out).unwrap();
        let (kept, row) = out.split_at(before.len());
        prop_assert_eq!(kept, before);
        layout.check(row).unwrap();
        for (column, value) in values.iter().enumerate() {
            let read = layout.field(row, column).unwrap();
            // Compared as text, which distinguishes the scales of numerics and makes NaN equal to
            // itself.
            prop_assert_eq!(format!("{read:?}"), format!("{value:?}"));
        }
    }

    #[test]
    fn older_rows_read_the_same(samples in row(), count in 0usize..20) {
        let values = datums(&samples);
        let row = encode(&layout(&types()[..count]), &values[..count]);
        let newer = layout(&types());
        newer.check(&row).unwrap();
        for (column, value) in values.iter().enumerate() {
            let expected = if column < count { value } else { &Datum::Null };
            prop_assert_eq!(format!("{:?}", newer.field(&row, column).unwrap()), format!("{expected:?}"));
        }
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics(
        samples in row(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let layout = layout(&types());
        let mut row = encode(&layout, &datums(&samples));
        for (at, byte) in changes {
            let at = at.index(row.len());
            row[at] = byte;
        }
        if let Some(cut) = cut {
            row.truncate(cut.index(row.len()));
        }
        let good = layout.check(&row).is_ok();
        for column in 0..layout.columns() {
            match layout.field(&row, column) {
                Ok(_) => {}
                Err(error) => {
                    prop_assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
                    prop_assert!(!good, "checked, but column {} is unreadable", column);
                }
            }
        }
    }

    #[test]
    fn a_null_that_takes_bytes_fails_its_check(end in any::<u8>()) {
        let layout = layout(&[Type::Text, Type::Text]);
        let mut row = encode(&layout, &[Datum::Null, Datum::Text("ab")]);
        let good = row[2];
        row[2] = end;
        prop_assert_eq!(layout.check(&row).is_ok(), end == good);
    }

    #[test]
    fn a_truncated_or_longer_row_fails_its_check(samples in row(), cut in any::<prop::sample::Index>()) {
        let layout = layout(&types());
        let mut row = encode(&layout, &datums(&samples));
        prop_assert!(layout.check(&row[..cut.index(row.len())]).is_err());
        row.push(0);
        prop_assert!(layout.check(&row).is_err());
    }
}
