//! Points as record batches of Arrow: columns `time`, `value` and `flag`, in lists of series with `series` before.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int16Array, Int32Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, TimestampNanosecondArray,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use model::{Error, Result};
use server::record_batches;
use timeseries::flag::Flag;
use timeseries::points::Points;

use crate::data::{Meaning, Sent, SentPoints, flag_of};
use crate::data_json::Head;
use crate::store::{self, PointColumns, Timed};
use crate::tables::invalid;

/// Bytes of a row: place of the series, time, value, flag, and a bit for the value.
const ROW_BYTES: usize = 4 + 8 + 8 + 2 + 1;
/// Bytes of a record batch besides its rows, at most.
const MESSAGE_BYTES: usize = 1 << 10;

/// The end of a stream.
pub(crate) const END: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn fields(series: Option<DataType>) -> Vec<Field> {
    let series = series.map(|ty| Field::new("series", ty, false));
    let points = [
        Field::new("time", instant(), false),
        Field::new("value", DataType::Float64, true),
        Field::new("flag", DataType::Int16, false),
    ];
    series.into_iter().chain(points).collect()
}

/// The schema of a reply, and the names of all series.
///
/// # Errors
/// XX000 if it cannot be encoded.
pub(crate) fn start(heads: &[Head], is_list: bool) -> Result<Vec<u8>> {
    if !is_list {
        let about = heads.first().map_or_else(HashMap::new, Head::metadata);
        let schema = Schema::new_with_metadata(fields(None), about);
        let writer = StreamWriter::try_new(Vec::new(), &schema).map_err(Error::bug)?;
        return Ok(writer.get_ref().clone());
    }
    let mut names = StringBuilder::new();
    heads.iter().for_each(|head| names.append_value(&head.name));
    let names = DictionaryArray::<Int32Type>::try_new(Int32Array::from(Vec::<i32>::new()), Arc::new(names.finish()));
    let names = names.map_err(Error::bug)?;
    let schema: SchemaRef = Arc::new(Schema::new(fields(Some(names.data_type().clone()))));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(names)];
    columns.extend(schema.fields()[1..].iter().map(|field| arrow_array::new_empty_array(field.data_type())));
    let empty = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(Error::bug)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(Error::bug)?;
    writer.write(&empty).map_err(Error::bug)?;
    Ok(writer.get_ref().clone())
}

/// Schemas of the points of one series, and of those of a list. There, a column of places has the buffers of a dictionary's keys;
/// the stream's schema says that it is one.
static SCHEMAS: LazyLock<[SchemaRef; 2]> =
    LazyLock::new(|| [None, Some(DataType::Int32)].map(|series| Arc::new(Schema::new(fields(series)))));

/// Writes points.
pub(crate) struct ArrowWriter {
    /// Place of the series in the dictionary of names, in lists.
    series: Option<i32>,
    /// A writer of another stream, whose schema nobody sees. None before the first points.
    writer: Option<Box<StreamWriter<Vec<u8>>>>,
}

impl ArrowWriter {
    pub(crate) fn new(series: Option<usize>) -> ArrowWriter {
        // Places are below the limit of series in a request.
        let series = series.map(|at| i32::try_from(at).unwrap_or(i32::MAX));
        ArrowWriter { series, writer: None }
    }

    fn schema(&self) -> &'static SchemaRef {
        &SCHEMAS[usize::from(self.series.is_some())]
    }

    /// The points as columns.
    ///
    /// # Errors
    /// XX000 for columns of different lengths.
    pub(crate) fn columns(&self, Timed { times, points }: Timed) -> Result<RecordBatch> {
        let Points { values, present, flags } = points;
        self.batch(PointColumns {
            times: Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
            values: Arc::new(store::nullable(values, &present)),
            flags: Arc::new(Int16Array::from_iter_values(flags.iter().map(|flag| flag.id()))),
        })
    }

    /// Columns of points, with that of the series in lists.
    ///
    /// # Errors
    /// XX000 for columns of different lengths or other types.
    pub(crate) fn batch(&self, PointColumns { times, values, flags }: PointColumns) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(4);
        columns.extend(self.series.map(|series| Arc::new(Int32Array::from(vec![series; times.len()])) as ArrayRef));
        columns.extend([times, values, flags]);
        RecordBatch::try_new(Arc::clone(self.schema()), columns).map_err(Error::bug)
    }

    /// Appends rows as a record batch.
    ///
    /// # Errors
    /// XX000 if they cannot be encoded.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        out.reserve(rows.num_rows() * ROW_BYTES + MESSAGE_BYTES);
        let schema = self.schema();
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let other = StreamWriter::try_new(Vec::new(), schema).map_err(Error::bug)?;
                none.insert(Box::new(other))
            }
        };
        *writer.get_mut() = std::mem::take(out);
        let written = writer.write(rows);
        *out = std::mem::take(writer.get_mut());
        written.map_err(Error::bug)
    }
}

/// Parses a body.
///
/// # Errors
/// 22P03 for other bytes than record batches; 22023 for columns that are missing or not known, and for values that cannot be
/// used.
pub(crate) fn parse(body: &[u8], is_list: bool) -> Result<Vec<Sent<'static>>> {
    let (schema, batches) = record_batches::decode(body)?;
    let columns = Columns::find(&schema, is_list)?;
    let mut all: Vec<(String, Timed)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for batch in &batches {
        let rows = columns.rows(batch)?;
        let Some(names) = &rows.names else {
            if all.is_empty() {
                all.push(Default::default());
            }
            rows.append(&mut all[0].1, 0..batch.num_rows())?;
            continue;
        };
        let mut at = 0;
        while at < batch.num_rows() {
            let name = names.value(at);
            let others = (at + 1..batch.num_rows()).find(|row| !names.are_same(at, *row));
            let end = others.unwrap_or(batch.num_rows());
            let place = *places.entry(name.to_owned()).or_insert(all.len());
            if place == all.len() {
                all.push((name.to_owned(), Timed::default()));
            }
            rows.append(&mut all[place].1, at..end)?;
            at = end;
        }
    }
    if !is_list && all.is_empty() {
        all.push(Default::default());
    }
    let sent = all.into_iter().map(|(name, timed)| Sent {
        name: is_list.then_some(Cow::Owned(name)),
        id: None,
        meaning: Meaning::default(),
        points: SentPoints::Timed(timed),
    });
    Ok(sent.collect())
}

/// Places of the columns.
struct Columns {
    series: Option<usize>,
    time: usize,
    value: usize,
    flag: Option<usize>,
}

/// Names of series in a column. They are read where they are: in a dictionary or a view a few bytes may stand for a long name in
/// each of very many rows.
enum Names {
    Plain(StringArray),
    Large(LargeStringArray),
    Views(StringViewArray),
    Dictionary { keys: Vec<usize>, names: Box<Names> },
}

impl Names {
    fn of(array: &ArrayRef) -> Result<Names> {
        if array.null_count() > 0 {
            return Err(invalid("there is a NULL in column series".to_owned()));
        }
        match array.data_type() {
            DataType::Utf8 => Ok(Names::Plain(array.as_string::<i32>().clone())),
            DataType::LargeUtf8 => Ok(Names::Large(array.as_string::<i64>().clone())),
            DataType::Utf8View => Ok(Names::Views(array.as_string_view().clone())),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                if dictionary.values().is_empty() && !array.is_empty() {
                    return Err(invalid("column series has an empty dictionary".to_owned()));
                }
                let names = Box::new(Names::of(dictionary.values())?);
                Ok(Names::Dictionary { keys: dictionary.normalized_keys(), names })
            }
            other => Err(invalid(format!("column series is {other}: expected text"))),
        }
    }

    fn are_same(&self, row: usize, other: usize) -> bool {
        match self {
            Names::Dictionary { keys, .. } if keys[row] == keys[other] => true,
            _ => self.value(row) == self.value(other),
        }
    }

    fn value(&self, row: usize) -> &str {
        match self {
            Names::Plain(names) => names.value(row),
            Names::Large(names) => names.value(row),
            Names::Views(names) => names.value(row),
            Names::Dictionary { keys, names } => names.value(keys[row]),
        }
    }
}

/// Columns of a batch.
struct Rows {
    names: Option<Names>,
    times: ArrayRef,
    values: ArrayRef,
    flags: Option<ArrayRef>,
}

impl Columns {
    fn find(schema: &Schema, is_list: bool) -> Result<Columns> {
        let expected = if is_list { "series, time, value and flag" } else { "time, value and flag" };
        let find = |name: &str| schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
        let needed =
            |name: &str| find(name).ok_or_else(|| invalid(format!("there is no column {name}: expected {expected}")));
        let known = ["series", "time", "value", "flag"];
        let known = if is_list { &known[..] } else { &known[1..] };
        if let Some(other) =
            schema.fields().iter().find(|own| !known.iter().any(|known| known.eq_ignore_ascii_case(own.name())))
        {
            return Err(invalid(format!("there is a column \"{}\": expected {expected}", other.name())));
        }
        let series = is_list.then(|| needed("series")).transpose()?;
        Ok(Columns { series, time: needed("time")?, value: needed("value")?, flag: find("flag") })
    }

    fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let cast = |at: usize, ty: &DataType| -> Result<ArrayRef> {
            let (array, name) = (batch.column(at), batch.schema_ref().field(at).name().clone());
            let is_time = matches!(array.data_type(), DataType::Timestamp(..));
            if array.data_type() == ty {
                return Ok(Arc::clone(array));
            }
            if *ty == instant() && !is_time {
                return Err(invalid(format!("column {name} is {}: expected a timestamp", array.data_type())));
            }
            // A value that does not fit is an error, not NULL.
            let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
            arrow_cast::cast_with_options(array, ty, &options)
                .map_err(|error| invalid(format!("column {name}: {error}")))
        };
        // Eight bytes of a body for each row: a value of another column may have none.
        let times = cast(self.time, &instant())?;
        if times.null_count() > 0 {
            return Err(invalid("there is a NULL in column time".to_owned()));
        }
        let names = self.series.map(|at| Names::of(batch.column(at))).transpose()?;
        Ok(Rows {
            names,
            times,
            values: cast(self.value, &DataType::Float64)?,
            flags: self.flag.map(|at| cast(at, &DataType::Int64)).transpose()?,
        })
    }
}

impl Rows {
    fn append(&self, timed: &mut Timed, range: Range<usize>) -> Result<()> {
        timed.times.extend_from_slice(&self.times.as_primitive::<TimestampNanosecondType>().values()[range.clone()]);
        let values = self.values.as_primitive::<Float64Type>();
        let flags = self.flags.as_ref().map(|flags| flags.as_primitive::<Int64Type>());
        if values.null_count() == 0 && flags.is_none_or(|flags| flags.null_count() == 0) {
            let points = &mut timed.points;
            points.values.extend_from_slice(&values.values()[range.clone()]);
            points.present.resize(points.values.len(), true);
            for id in flags.map_or(&[][..], |flags| &flags.values()[range]) {
                points.flags.push(flag_of(Some(*id), true)?);
            }
            points.flags.resize(points.values.len(), Flag::Valid);
            return Ok(());
        }
        for row in range {
            let value = values.is_valid(row).then(|| values.value(row));
            let flag = flags.filter(|flags| flags.is_valid(row)).map(|flags| flags.value(row));
            timed.points.push(value, flag_of(flag, value.is_some())?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use timeseries::raster::Calendar;

    use super::*;

    fn sample() -> Timed {
        let values = [Some(0.1), None, Some(f64::NAN), Some(f64::NEG_INFINITY), Some(5.0)];
        let mut timed = Timed::default();
        for (at, value) in values.into_iter().enumerate() {
            timed.times.push(1_761_436_800_000_000_001 + i64::try_from(at).unwrap() * 900_000_000_000);
            timed.points.push(value, Flag::ALL[at]);
        }
        timed
    }

    fn head(name: &str) -> Head {
        Head { id: None, name: name.to_owned(), ..Head::sample() }
    }

    fn timed(sent: Sent<'_>) -> Timed {
        sent.points.timed(&Calendar::utc()).unwrap()
    }

    fn bits(timed: &Timed) -> Vec<(i64, Option<u64>, Flag)> {
        let points = timed.points.iter().map(|(value, flag)| (value.map(f64::to_bits), flag));
        timed.times.iter().zip(points).map(|(time, (value, flag))| (*time, value, flag)).collect()
    }

    #[test]
    fn one_series_survives() {
        let mut out = start(&[head("A")], false).unwrap();
        let mut writer = ArrowWriter::new(None);
        let columns = writer.columns(sample()).unwrap();
        writer.write(&mut out, &columns.slice(0, 2)).unwrap();
        writer.write(&mut out, &columns.slice(2, 3)).unwrap();
        out.extend_from_slice(END);
        let (schema, _) = record_batches::decode(&out).unwrap();
        assert_eq!(schema.metadata().get("name").map(String::as_str), Some("A"));
        let sent = parse(&out, false).unwrap().remove(0);
        assert_eq!(bits(&timed(sent)), bits(&sample()));
    }

    #[test]
    fn a_list_survives_with_the_names_of_its_series() {
        let mut out = start(&[head("A"), head("B"), head("C")], true).unwrap();
        for (at, start, len) in [(0, 0, 5), (2, 1, 2)] {
            let mut writer = ArrowWriter::new(Some(at));
            let columns = writer.columns(sample()).unwrap();
            writer.write(&mut out, &columns.slice(start, len)).unwrap();
        }
        out.extend_from_slice(END);
        let all = parse(&out, true).unwrap();
        let found: Vec<(String, usize)> =
            all.into_iter().map(|sent| (sent.name.as_deref().unwrap().to_owned(), timed(sent).times.len())).collect();
        assert_eq!(found, [("A".to_owned(), 5), ("C".to_owned(), 2)]);
    }

    #[test]
    fn names_of_every_kind_of_text_are_read_where_they_are() {
        let texts = ["a", "b", "b"];
        let plain: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let dictionary: DictionaryArray<Int32Type> = texts.into_iter().collect();
        for array in [
            Arc::clone(&plain),
            Arc::new(LargeStringArray::from(texts.to_vec())) as ArrayRef,
            Arc::new(StringViewArray::from(texts.to_vec())),
            Arc::new(dictionary),
        ] {
            let names = Names::of(&array).unwrap();
            assert_eq!([0, 1, 2].map(|row| names.value(row)), texts);
        }
        for array in [
            Arc::new(Int32Array::from(vec![1])) as ArrayRef,
            Arc::new(StringArray::from(vec![None::<&str>])),
            Arc::new(DictionaryArray::<Int32Type>::from_iter([None::<&str>])),
        ] {
            assert!(Names::of(&array).is_err(), "{array:?}");
        }
    }

    #[test]
    fn columns_of_other_types_are_converted_or_refused() {
        let stream = |columns: Vec<(&str, ArrayRef)>| {
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
            writer.write(&batch).unwrap();
            writer.into_inner().unwrap()
        };
        let time = || Arc::new(arrow_array::TimestampMillisecondArray::from(vec![1_000])) as ArrayRef;
        let value = || Arc::new(arrow_array::Int32Array::from(vec![7])) as ArrayRef;
        let good = parse(&stream(vec![("Time", time()), ("value", value())]), false).unwrap().remove(0);
        assert_eq!(bits(&timed(good)), [(1_000_000_000, Some(7f64.to_bits()), Flag::Valid)]);
        let text = || Arc::new(StringArray::from(vec!["x"])) as ArrayRef;
        for (columns, expected) in [
            (vec![("value", value())], "there is no column time"),
            (vec![("time", time()), ("value", value()), ("name", text())], "there is a column \"name\""),
            (vec![("time", time()), ("value", text())], "column value: "),
            (vec![("time", value()), ("value", value())], "column time is Int32: expected a timestamp"),
            (vec![("time", time()), ("value", value()), ("flag", text())], "column flag: "),
        ] {
            let error = parse(&stream(columns), false).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
