//! Tests of `Batch::check` and `Batch::slice`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use model::limits::{KEY_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX};
use model::{ColumnId, KeyValue, SeriesId, SqlState, Table, key};

use crate::tests::table;
use crate::{Batch, KeyList, Op, Ops, Rows, SeriesIndex};

fn keys(names: &[&str]) -> KeyList {
    let mut keys = KeyList::new();
    for name in names {
        keys.intern(&key::encode(&[KeyValue::Text((*name).to_owned())]));
    }
    keys
}

fn texts(values: &[&str]) -> (ColumnId, ArrayRef) {
    (ColumnId(4), Arc::new(StringArray::from(values.to_vec())))
}

fn floats(values: &[Option<f64>]) -> (ColumnId, ArrayRef) {
    (ColumnId(2), Arc::new(Float64Array::from(values.to_vec())))
}

fn batch(keys: KeyList, series: &[u32], columns: Vec<(ColumnId, ArrayRef)>) -> Batch {
    Batch::new(keys, Rows::new(series.to_vec(), vec![0; series.len()], Ops::All(Op::Replace), columns))
}

fn refused(table: &Table, batch: &Batch, state: SqlState, words: &[&str]) {
    let error = batch.check(table).unwrap_err();
    assert_eq!(error.state(), state, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}: no {word:?}");
    }
}

#[test]
fn good_batches_pass() {
    let columns = || vec![floats(&[None, Some(f64::NAN)]), texts(&["", "x"])];
    batch(keys(&["a", "b"]), &[1, 0], columns()).check(&table(true)).unwrap();
    batch(KeyList::single(), &[0, 0], columns()).check(&table(true)).unwrap();
    batch(KeyList::single(), &[0, 0], columns()).check(&table(false)).unwrap();
    batch(KeyList::new(), &[], Vec::new()).check(&table(true)).unwrap();
}

#[test]
fn limits_are_54000_and_name_row_and_column() {
    let large = "x".repeat(VALUE_BYTES_MAX + 1);
    refused(
        &table(true),
        &batch(keys(&["a"]), &[0, 0], vec![texts(&["y", &large])]),
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        &["row 2", "\"c\"", "67108865", "67108864"],
    );
    batch(keys(&["a"]), &[0, 0], vec![texts(&["y", &large[1..]])]).check(&table(true)).unwrap();

    let mut wide = Table::clone(&table(true));
    let extra = model::Column { id: ColumnId(5), name: "d".into(), ..wide.column("c").unwrap().clone() };
    wide.columns.push(extra);
    let half = "x".repeat(ROW_BYTES_MAX / 2);
    let other: ArrayRef = Arc::new(StringArray::from(vec!["", "", &half]));
    let columns = vec![texts(&[&half, "", &half]), (ColumnId(5), other)];
    let rows = batch(keys(&["a"]), &[0, 0, 0], columns);
    refused(&wide, &rows, SqlState::PROGRAM_LIMIT_EXCEEDED, &["row 3", "68157440"]);
    rows.slice(0..2).check(&wide).unwrap();

    let long = batch(keys(&["a", &"k".repeat(KEY_BYTES_MAX)]), &[0, 1], Vec::new());
    refused(&table(true), &long, SqlState::PROGRAM_LIMIT_EXCEEDED, &["row 2", "key", "4096"]);
}

#[test]
fn nulls_are_refused_where_the_table_says_so() {
    let mut strict = Table::clone(&table(true));
    strict.columns.iter_mut().for_each(|column| column.nullable = false);
    strict.columns.retain(|column| column.name != "b" && column.name != "c");
    let value = || floats(&[Some(1.0), Some(2.0)]);
    batch(keys(&["a"]), &[0, 0], vec![value()]).check(&strict).unwrap();
    let missing = [
        batch(keys(&["a"]), &[0, 0], vec![floats(&[Some(1.0), None])]),
        batch(keys(&["a"]), &[0, 0], Vec::new()),
        batch(KeyList::single(), &[0, 0], vec![value()]),
    ];
    for (batch, words) in missing.iter().zip([["\"a\"", "Row 2"], ["\"a\"", "Row 1"], ["\"dev\"", "Row 1"]]) {
        refused(&strict, batch, SqlState::NOT_NULL_VIOLATION, &words);
    }
}

#[test]
fn columns_of_another_type_or_table_are_refused() {
    let integer: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let wrong = batch(keys(&["a"]), &[0], vec![(ColumnId(2), integer.clone())]);
    refused(&table(true), &wrong, SqlState::DATATYPE_MISMATCH, &["\"a\"", "double precision", "Int64"]);
    for id in [0, 1, 9] {
        let unknown = batch(keys(&["a"]), &[0], vec![(ColumnId(id), integer.clone())]);
        refused(&table(true), &unknown, SqlState::UNDEFINED_COLUMN, &["no field"]);
    }
}

#[test]
fn inconsistent_parts_are_reported_as_bugs() {
    let value = || floats(&[Some(1.0), Some(2.0)]);
    let bad_ops = |ops| Batch::new(keys(&["a"]), Rows::new(vec![0, 0], vec![1, 2], ops, vec![value()]));
    let mut untrimmed = KeyList::new();
    untrimmed.intern(&[0]);
    let bad = [
        (true, batch(keys(&["a"]), &[0], vec![value()])),
        (true, batch(keys(&["a"]), &[0, 1], vec![value()])),
        (true, batch(keys(&["a"]), &[0, 0], vec![texts(&["", ""]), value()])),
        (true, batch(keys(&["a"]), &[0, 0], vec![value(), value()])),
        (true, batch(untrimmed, &[0, 0], vec![value()])),
        (false, batch(keys(&["a"]), &[0, 0], vec![value()])),
        (true, bad_ops(Ops::Each { list: vec![Op::Keep], of: vec![0] })),
        (true, bad_ops(Ops::Each { list: vec![Op::Keep], of: vec![0, 1] })),
        (true, bad_ops(Ops::All(Op::Update([ColumnId(3), ColumnId(2)].into())))),
        (false, Batch::new(KeyList::single(), bad_ops(Ops::All(Op::Merge)).rows)),
    ];
    for (keyed, batch) in bad {
        refused(&table(keyed), &batch, SqlState::INTERNAL_ERROR, &["BUG"]);
    }
}

#[test]
fn a_slice_has_only_the_keys_it_needs() {
    let all = batch(keys(&["a", "b", "c"]), &[0, 2, 1, 2], vec![texts(&["0", "1", "2", "3"])]);
    let part = all.slice(1..4);
    assert_eq!(part.keys, keys(&["c", "b"]));
    assert_eq!(part.rows.series, [0, 1, 0]);
    assert_eq!(part.numbered(&[40, 50]).series, [40, 50, 40]);
    part.check(&table(true)).unwrap();
}

#[test]
fn arranged_rows_are_in_order_of_series_numbers_and_new_series_come_last() {
    let index = Arc::new(SeriesIndex::default());
    for (id, name) in ["c", "x", "a"].iter().enumerate() {
        index.insert(SeriesId(id as u32), &key::encode(&[KeyValue::Text((*name).to_owned())])).unwrap();
    }
    let count = 6_000;
    let series: Vec<u32> = (0..count).map(|row| row % 4).collect();
    let times = (0..i64::from(count)).collect();
    // New: d and b, which get the next numbers in this order.
    let rows = Rows::new(series, times, Ops::All(Op::Replace), Vec::new());
    let batch = Batch::new(keys(&["a", "d", "c", "b"]), rows);
    for (index, expected) in [(Some(&index), [2, 0, 1, 3]), (None, [0, 1, 2, 3])] {
        let rows = batch.clone().arranged(|| index.cloned()).unwrap().rows;
        let each = count as usize / 4;
        for (at, key) in expected.into_iter().enumerate() {
            let range = at * each..(at + 1) * each;
            assert!(rows.series[range.clone()].iter().all(|series| *series == key), "{expected:?}");
            assert!(rows.times[range].is_sorted());
        }
    }
}

#[test]
fn numbers_that_were_looked_up_are_those_of_one_index() {
    let index = |names: &[&str]| {
        let index = SeriesIndex::default();
        for (id, name) in names.iter().enumerate() {
            index.insert(SeriesId(id as u32), &key::encode(&[KeyValue::Text((*name).to_owned())])).unwrap();
        }
        Arc::new(index)
    };
    let (old, new) = (index(&["b", "a"]), index(&["a"]));
    let rows = Rows::new((0..6_000).map(|row| row % 2).collect(), vec![0; 6_000], Ops::All(Op::Replace), Vec::new());
    let batch = Batch::new(keys(&["a", "c"]), rows);
    assert_eq!(batch.numbers_in(&old), [Some(SeriesId(1)), None], "never looked up");
    let arranged = batch.arranged(|| Some(Arc::clone(&old))).unwrap();
    old.insert(SeriesId(2), &key::encode(&[KeyValue::Text("c".to_owned())])).unwrap();
    assert_eq!(arranged.numbers_in(&old), [Some(SeriesId(1)), None], "as they were when it was arranged");
    assert_eq!(arranged.numbers_in(&new), [Some(SeriesId(0)), None], "the table was emptied");
    assert_eq!(arranged.slice(5_999..6_000).numbers_in(&old), [Some(SeriesId(2))], "of other keys");
}
