//! Size limit for functions whose result may be much larger than their arguments: a short statement could request
//! more memory than there is, and memory of results is accounted for only after they exist.
//!
//! The size is computed before the function runs: exactly where that is cheap, otherwise an upper bound first. A
//! constant argument counts once per row, because functions expand it to all rows of a batch. A projection that
//! exceeds the limit with several rows is retried with fewer (`slices`).

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, IntervalMonthDayNanoType};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::regex::regexpcount::regexp_count_func;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use model::{Error, SqlState, limits};

use super::external;

/// Maximum bytes of one column of one batch, and so of one value.
const BATCH_BYTES_MAX: u64 = limits::COMPUTED_BYTES_MAX as u64;
/// Assumed bytes of a value that is not text.
const PLAIN_BYTES: u64 = 16;

/// Formula for the size of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Size {
    /// `repeat`: the text times the count.
    Repeat,
    /// `lpad`, `rpad`: the requested number of characters.
    Pad,
    Replace,
    RegexpReplace,
    /// Sum of the arguments; `concat` and functions that build arrays.
    Sum,
    /// `array_to_string`: all elements and the separators.
    Joined,
    /// `array_repeat`
    ArrayRepeat,
    /// `array_resize`
    Resize,
    /// `range`, `generate_series` as arrays.
    Range,
}

/// Functions of DataFusion, wrapped with the size limit.
pub(super) fn functions() -> Vec<ScalarUDF> {
    use datafusion::functions::{regex, string, unicode};
    use datafusion::functions_nested as nested;
    let all = [
        (Size::Repeat, string::repeat()),
        (Size::Pad, unicode::lpad()),
        (Size::Pad, unicode::rpad()),
        (Size::Replace, string::replace()),
        (Size::RegexpReplace, regex::regexp_replace()),
        (Size::Sum, string::concat()),
        (Size::Sum, string::concat_ws()),
        (Size::Sum, nested::make_array::make_array_udf()),
        (Size::Sum, nested::concat::array_concat_udf()),
        (Size::Joined, nested::string::array_to_string_udf()),
        (Size::ArrayRepeat, nested::repeat::array_repeat_udf()),
        (Size::Resize, nested::resize::array_resize_udf()),
        (Size::Range, nested::range::range_udf()),
        (Size::Range, nested::range::gen_series_udf()),
    ];
    all.into_iter().map(|(size, inner)| ScalarUDF::from(Capped { inner: inner.as_ref().clone(), size })).collect()
}

/// Whether a function's result may be much larger than its arguments.
pub(crate) fn is_growing(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "array_append",
        "array_cat",
        "array_concat",
        "array_fill",
        "array_join",
        "array_prepend",
        "array_repeat",
        "array_resize",
        "array_to_string",
        "concat",
        "concat_ws",
        "encode",
        "format",
        "generate_series",
        "list_append",
        "list_cat",
        "list_concat",
        "list_join",
        "list_prepend",
        "list_repeat",
        "list_resize",
        "list_to_string",
        "lpad",
        "make_array",
        "overlay",
        "range",
        "regexp_replace",
        "repeat",
        "replace",
        "rpad",
        "string_to_array",
        "translate",
    ];
    NAMES.binary_search(&name).is_ok()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Capped {
    inner: ScalarUDF,
    size: Size,
}

/// Whether the error says that a result is too large for one batch, so that fewer rows may fit.
pub(crate) fn is_too_large(error: &datafusion::error::DataFusionError) -> bool {
    let datafusion::error::DataFusionError::External(error) = error.find_root() else { return false };
    error.downcast_ref::<Error>().is_some_and(|error| error.state() == SqlState::PROGRAM_LIMIT_EXCEEDED)
}

/// An argument: one value per row, or a constant.
struct Given {
    array: ArrayRef,
    constant: bool,
}

impl Given {
    fn new(value: &ColumnarValue) -> Result<Given> {
        Ok(match value {
            ColumnarValue::Array(array) => Given { array: array.clone(), constant: false },
            ColumnarValue::Scalar(scalar) => Given { array: scalar.to_array_of_size(1)?, constant: true },
        })
    }

    fn at(&self, row: usize) -> usize {
        if self.constant { 0 } else { row }
    }

    /// Bytes of each element of `array`.
    fn bytes(&self) -> Vec<u64> {
        let array = &self.array;
        let of = |row: usize, length: usize| if array.is_null(row) { 0 } else { length as u64 };
        let rows = 0..array.len();
        match array.data_type() {
            DataType::Utf8 => rows.map(|row| of(row, array.as_string::<i32>().value_length(row) as usize)).collect(),
            DataType::LargeUtf8 => {
                rows.map(|row| of(row, array.as_string::<i64>().value_length(row) as usize)).collect()
            }
            DataType::Utf8View => rows.map(|row| of(row, array.as_string_view().value(row).len())).collect(),
            DataType::Binary => rows.map(|row| of(row, array.as_binary::<i32>().value_length(row) as usize)).collect(),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let elements = |row: usize| {
                    let offsets = list.value_offsets();
                    let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                    list.values().slice(from, to - from).to_data().get_slice_memory_size().unwrap_or(0)
                };
                rows.map(|row| of(row, elements(row))).collect()
            }
            _ => rows.map(|_| PLAIN_BYTES).collect(),
        }
    }

    fn numbers(&self) -> Result<Int64Array> {
        Ok(cast(&self.array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    }

    fn texts(&self) -> Result<ArrayRef> {
        Ok(cast(&self.array, &DataType::Utf8)?)
    }
}

/// A count; negative numbers and NULL count as 0.
fn count(numbers: &Int64Array, row: usize) -> u64 {
    if numbers.is_null(row) { 0 } else { u64::try_from(numbers.value(row)).unwrap_or(0) }
}

impl Size {
    /// Bytes of the result for `rows` rows.
    fn of(self, args: &[ColumnarValue], rows: usize) -> Result<u64> {
        let given: Vec<Given> = args.iter().map(Given::new).collect::<Result<_>>()?;
        let all_constant = given.iter().all(|given| given.constant);
        let rows = if all_constant { 1 } else { rows };
        let each: Vec<Vec<u64>> = given.iter().map(Given::bytes).collect();
        let bytes = |arg: usize, row: usize| each[arg][given[arg].at(row)];
        let repeated = given.iter().zip(&each).filter(|(given, _)| given.constant && !all_constant);
        let repeated = repeated.map(|(_, bytes)| bytes[0].saturating_mul(rows as u64)).fold(0, u64::saturating_add);
        if repeated > BATCH_BYTES_MAX {
            return Ok(repeated);
        }
        let sum = |of: &dyn Fn(usize) -> u64| (0..rows).map(of).fold(0, u64::saturating_add);
        let made = match (self, given.as_slice()) {
            (Size::Repeat, [_, times]) => {
                let times_of = times.numbers()?;
                sum(&|row| bytes(0, row).saturating_mul(count(&times_of, times.at(row))))
            }
            (Size::Pad, [_, length, ..]) => {
                let length_of = length.numbers()?;
                sum(&|row| count(&length_of, length.at(row)).saturating_mul(4))
            }
            (Size::Replace, [text, from, _]) => {
                // Upper bound: every character is replaced.
                let most = |row: usize| (bytes(0, row) / bytes(1, row).max(1) + 1).saturating_mul(bytes(2, row).max(1));
                let most = sum(&|row| bytes(0, row).saturating_add(most(row)));
                if most <= BATCH_BYTES_MAX {
                    return Ok(most);
                }
                let (texts, froms) = (text.texts()?, from.texts()?);
                let (texts, froms) = (texts.as_string::<i32>(), froms.as_string::<i32>());
                let found = |row: usize| {
                    let (at, of) = (text.at(row), from.at(row));
                    if texts.is_null(at) || froms.is_null(of) {
                        return 0;
                    }
                    texts.value(at).matches(froms.value(of)).count() as u64
                };
                sum(&|row| bytes(0, row).saturating_add(found(row).saturating_mul(bytes(2, row))))
            }
            (Size::RegexpReplace, [text, pattern, _, flags @ ..]) => {
                // Groups inserted by references are parts of the text.
                let again = |row: usize| bytes(0, row).saturating_mul(1 + bytes(2, row) / 2);
                let most = |row: usize| (bytes(0, row) + 1).saturating_mul(bytes(2, row)).saturating_add(again(row));
                let most = sum(&most);
                if most <= BATCH_BYTES_MAX {
                    return Ok(most);
                }
                let found = matches(text, pattern, flags.first(), rows)?;
                let references = references(&given[2])?;
                sum(&|row| {
                    let again = bytes(0, row).saturating_mul(1 + references[given[2].at(row)]);
                    again.saturating_add(count(&found, row).saturating_mul(bytes(2, row)))
                })
            }
            (Size::Joined, [lists, ..]) => sum(&|row| {
                let between = (1..given.len()).map(|arg| bytes(arg, row)).max().unwrap_or(0);
                bytes(0, row)
                    .saturating_add(elements(&lists.array, lists.at(row)).saturating_mul(between + PLAIN_BYTES))
            }),
            (Size::ArrayRepeat, [_, times]) => {
                let times_of = times.numbers()?;
                sum(&|row| bytes(0, row).max(PLAIN_BYTES).saturating_mul(count(&times_of, times.at(row))))
            }
            (Size::Resize, [_, length, ..]) => {
                let length_of = length.numbers()?;
                let of = |row: usize| if given.len() > 2 { bytes(2, row).max(PLAIN_BYTES) } else { PLAIN_BYTES };
                sum(&|row| bytes(0, row).saturating_add(count(&length_of, length.at(row)).saturating_mul(of(row))))
            }
            (Size::Range, _) => {
                let steps = steps(&given, rows)?;
                steps.into_iter().map(|steps| steps.saturating_mul(8)).fold(0, u64::saturating_add)
            }
            _ => sum(&|row| (0..given.len()).map(|arg| bytes(arg, row)).fold(0, u64::saturating_add)),
        };
        Ok(made.saturating_add(repeated))
    }
}

/// Number of matches in each row: all with the flag g, otherwise at most one.
fn matches(text: &Given, pattern: &Given, flags: Option<&Given>, rows: usize) -> Result<Int64Array> {
    let spread = |given: &Given| -> Result<ArrayRef> {
        let texts = given.texts()?;
        let of = |row| {
            let at = given.at(row);
            (!texts.is_null(at)).then(|| texts.as_string::<i32>().value(at))
        };
        Ok(std::sync::Arc::new((0..rows).map(of).collect::<arrow_array::StringArray>()))
    };
    let flags = flags.map(spread).transpose()?;
    let flags_of = |row: usize| match &flags {
        Some(flags) if !flags.is_null(row) => flags.as_string::<i32>().value(row),
        _ => "",
    };
    let starts: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1; rows]));
    let others: ArrayRef = std::sync::Arc::new(
        (0..rows).map(|row| Some(flags_of(row).replace('g', ""))).collect::<arrow_array::StringArray>(),
    );
    let found = regexp_count_func(&[spread(text)?, spread(pattern)?, starts, others])?;
    let found = cast(&found, &DataType::Int64)?;
    let found = found.as_primitive::<Int64Type>();
    let of = |row: usize| Some(if flags_of(row).contains('g') { found.value(row) } else { found.value(row).min(1) });
    Ok((0..rows).map(of).collect())
}

/// Number of group references in each replacement.
fn references(replacement: &Given) -> Result<Vec<u64>> {
    let texts = replacement.texts()?;
    let texts = texts.as_string::<i32>();
    let of = |text: Option<&str>| text.map_or(0, |text| text.matches(['\\', '$']).count() as u64);
    Ok(texts.iter().map(of).collect())
}

fn elements(lists: &ArrayRef, row: usize) -> u64 {
    match lists.data_type() {
        DataType::List(_) => u64::try_from(lists.as_list::<i32>().value_length(row)).unwrap_or(0),
        _ => 0,
    }
}

/// Number of steps of each range.
fn steps(given: &[Given], rows: usize) -> Result<Vec<u64>> {
    let ns = |given: &Given| -> Result<Int64Array> {
        match given.array.data_type() {
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let array = given.array.as_primitive::<IntervalMonthDayNanoType>();
                let days = |months: i32, days: i32| i64::from(months) * 30 + i64::from(days);
                let of = |value: arrow_array::types::IntervalMonthDayNano| {
                    days(value.months, value.days).saturating_mul(86_400_000_000_000).saturating_add(value.nanoseconds)
                };
                Ok(array.iter().map(|value| value.map(of)).collect())
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
                let array = cast(&given.array, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
                Ok(cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            _ => given.numbers(),
        }
    };
    let numbers: Vec<Int64Array> = given.iter().map(ns).collect::<Result<_>>()?;
    let at = |arg: usize, row: usize, default: i64| match numbers.get(arg) {
        Some(array) if array.is_valid(given[arg].at(row)) => array.value(given[arg].at(row)),
        _ => default,
    };
    let of = |row: usize| match numbers.len() {
        0 => 0,
        1 => u64::try_from(at(0, row, 0)).unwrap_or(0),
        _ => {
            let (from, to, step) = (at(0, row, 0), at(1, row, 0), at(2, row, 1));
            // Ranges in the wrong direction are empty.
            if step == 0 || (to > from) != (step > 0) { 1 } else { from.abs_diff(to) / step.unsigned_abs() + 1 }
        }
    };
    Ok((0..rows).map(of).collect())
}

impl ScalarUDFImpl for Capped {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<arrow_schema::FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.size.of(&args.args, args.number_rows)?;
        if bytes > BATCH_BYTES_MAX {
            let (name, rows) = (self.name(), args.number_rows);
            let message = format!("{name} of {rows} rows gives more than {BATCH_BYTES_MAX} bytes");
            return Err(external(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
        }
        self.inner.invoke_with_args(args)
    }
}
