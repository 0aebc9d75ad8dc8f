//! Arguments and results of statements.

mod bound;
mod copy_in;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType as Arrow, Field, Schema};
use bumpalo::Bump;
use compiled::{ParamType, Zone};
use futures::{Stream, StreamExt};
use model::{Datum, Error, Numeric, Result, SqlState, Storage, Type};
use pg::Form;
use relational::results::{Batches, Chunk, Chunks};
use relational::types::{OutputColumn, Value};

use crate::session::activity::Running;
use crate::statement::copy::CopyForm;

pub use bound::Bound;
pub use copy_in::CopyIn;
pub(crate) use copy_in::{CopyTarget, PIECE_BYTES};

/// Result of executing a statement.
pub enum Outcome {
    /// A result; the command tag is `tag` and, for SELECT, the number of rows.
    Rows {
        /// Columns announced when the statement was prepared.
        columns: Vec<OutputColumn>,
        /// Rows, produced when the stream is polled; dropping the stream cancels the query.
        batches: Batches,
        /// "SELECT", "SHOW", "EXPLAIN", or the complete tag of a data change with RETURNING.
        tag: Cow<'static, str>,
    },
    /// A finished command with its tag ("INSERT 0 3", "CREATE TABLE", "BEGIN" …).
    Command {
        /// Complete command tag.
        tag: String,
    },
    /// `COPY … FROM STDIN`, which expects data.
    CopyIn(Box<CopyIn>),
    /// `COPY … TO STDOUT`: encoded chunks. The tag is "COPY n" with the number of rows.
    CopyOut {
        /// Format of the chunks.
        form: CopyForm,
        /// Number of columns per row.
        columns: usize,
        /// Encoded rows; a chunk contains only complete rows.
        chunks: Pin<Box<dyn Stream<Item = Result<Chunk>> + Send>>,
    },
    /// The empty statement.
    Empty,
}

impl Outcome {
    pub(crate) fn command(tag: impl Into<String>) -> Outcome {
        Outcome::Command { tag: tag.into() }
    }
}

/// Output of a compiled statement as DataRow messages.
pub struct Messages<'a> {
    /// Rows are appended here. After an error the caller must remove what was appended.
    pub out: &'a mut Vec<u8>,
    /// Text or binary format, by column.
    pub forms: &'a [Form],
}

/// Values of a statement's parameters.
#[derive(Clone, Copy)]
pub enum Arguments<'a> {
    /// For any statement.
    Values(&'a [Value]),
    /// For a compiled statement; see [`bind`](crate::Session::bind).
    Bound(&'a Bound),
}

/// Owned [`Arguments`].
pub(crate) enum OwnArguments {
    Values(Vec<Value>),
    Bound(Bound),
}

impl OwnArguments {
    pub(crate) fn get(&self) -> Arguments<'_> {
        match self {
            OwnArguments::Values(values) => Arguments::Values(values),
            OwnArguments::Bound(bound) => Arguments::Bound(bound),
        }
    }
}

impl<'a> Arguments<'a> {
    pub(crate) fn to_own(self) -> OwnArguments {
        match self {
            Arguments::Values(values) => OwnArguments::Values(values.to_vec()),
            Arguments::Bound(bound) => OwnArguments::Bound(bound.clone()),
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Arguments::Values(values) => values.len(),
            Arguments::Bound(bound) => bound.len(),
        }
    }

    /// Arguments of a statement that is not compiled.
    pub(crate) fn values(self) -> Result<&'a [Value]> {
        match self {
            Arguments::Values(values) => Ok(values),
            Arguments::Bound(_) => Err(Error::unsupported("cached plan must not change result type")),
        }
    }

    pub(crate) fn datums<'b>(self, types: &[ParamType], arena: &'b Bump, zone: &dyn Zone) -> Result<Vec<Datum<'b>>>
    where
        'a: 'b,
    {
        match self {
            Arguments::Values(values) => {
                values.iter().zip(types).map(|(value, ty)| argument(value, *ty, arena, zone)).collect()
            }
            Arguments::Bound(bound) => {
                let one = |(datum, ty): (Result<Datum<'a>>, &ParamType)| match ty {
                    ParamType::Plain(ty) => ::rows::coerce(*ty, datum?),
                    ParamType::Array(_) => datum,
                };
                // An INSERT may receive several rows of parameters.
                bound.iter().zip(types.iter().cycle()).map(one).collect()
            }
        }
    }
}

/// Result of executing a statement.
pub enum Executed {
    /// The result of [`execute`](crate::Session::execute).
    Outcome(Outcome),
    /// All rows, if any, are in the messages. The command tag consists of the words and the number.
    Sent {
        /// Start of the command tag.
        words: &'static str,
        /// Number of rows returned or changed.
        rows: u64,
    },
    /// All rows of a SELECT with a short result.
    Few {
        /// Batches with the columns announced when the statement was prepared.
        batches: Vec<RecordBatch>,
    },
    /// Rows of a long SELECT: they are produced when the stream is polled, and see the snapshot of this call.
    Stream {
        /// Rows as messages.
        chunks: Chunks,
        /// Whether the rows include changes of the transaction itself. The caller must then fetch all of them
        /// before its next statement.
        shows_own: bool,
    },
}

impl Executed {
    /// Converts a short result, whose columns are these, to a stream.
    #[must_use]
    pub fn streamed(self, columns: Option<&[OutputColumn]>) -> Executed {
        let Executed::Few { batches } = self else { return self };
        let columns = columns.unwrap_or_default().to_vec();
        let batches = Box::pin(futures::stream::iter(batches.into_iter().map(Ok)));
        Executed::Outcome(Outcome::Rows { columns, batches, tag: "SELECT".into() })
    }
}

impl Executed {
    /// Counts the statement as running until its last row is fetched.
    pub(crate) fn holding(self, running: Running) -> Executed {
        match self {
            Executed::Outcome(Outcome::Rows { columns, batches, tag }) => {
                let batches = batches.inspect(move |_| _ = &running);
                Executed::Outcome(Outcome::Rows { columns, batches: Box::pin(batches), tag })
            }
            Executed::Stream { chunks, shows_own } => {
                let chunks = chunks.inspect(move |_| _ = &running);
                Executed::Stream { chunks: Box::pin(chunks), shows_own }
            }
            executed => executed,
        }
    }
}

/// A result of text columns.
pub(crate) fn text_rows(
    columns: Vec<OutputColumn>,
    rows: Vec<Vec<Option<String>>>,
    tag: &'static str,
) -> Result<Outcome> {
    let fields: Vec<Field> = columns.iter().map(|column| Field::new(&column.name, Arrow::Utf8, true)).collect();
    let column = |at: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.get(at).cloned().flatten()).collect::<StringArray>())
    };
    let arrays = (0..columns.len()).map(column).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)?;
    Ok(Outcome::Rows { columns, batches: Box::pin(futures::stream::iter([Ok(batch)])), tag: tag.into() })
}

/// Converts a parameter value; an array is allocated in `arena`.
///
/// # Errors
/// Those of [`datum`].
pub(crate) fn argument<'a>(value: &'a Value, ty: ParamType, arena: &'a Bump, zone: &dyn Zone) -> Result<Datum<'a>> {
    match (ty, value) {
        (ParamType::Plain(ty), value) => datum(value, ty, arena, zone),
        (ParamType::Array(_), Value::Null) => Ok(Datum::Null),
        (ParamType::Array(of), Value::Array(values)) => {
            let values = values.iter().map(|value| datum(value, of, arena, zone)).collect::<Result<Vec<_>>>()?;
            Ok(Datum::Bytes(arena.alloc_slice_copy(&compiled::array_of(of, &values))))
        }
        (ParamType::Array(of), Value::Text(text)) => {
            Ok(Datum::Bytes(arena.alloc_slice_copy(&compiled::array_of_text(text, of, zone)?)))
        }
        (ParamType::Array(_), _) => {
            Err(Error::new(SqlState::DATATYPE_MISMATCH, "a parameter that is to be an array is none"))
        }
    }
}

/// Converts a single parameter value; a value of a type that texts stand for is allocated in `arena`.
///
/// # Errors
/// 22003 and similar if the value is out of the type's range; 42804 for a value of another type.
pub(crate) fn datum<'a>(value: &'a Value, ty: Type, arena: &'a Bump, zone: &dyn Zone) -> Result<Datum<'a>> {
    if let Value::Text(text) = value
        && ty.base().is_other()
    {
        return ::rows::coerce(ty, compiled::parse(text, ty, zone, arena)?);
    }
    if let (Type::Other(other), Value::Int64(number)) = (ty, value)
        && other.storage() == Storage::Oid
    {
        return u32::try_from(*number).map(Datum::Oid).map_err(|_| relational::types::out_of_range("oid"));
    }
    if let (Type::Other(other), Value::Array(items)) = (ty, value)
        && let Some(element) = other.element()
    {
        let items = items.iter().map(|item| datum(item, element, arena, zone)).collect::<Result<Vec<_>>>()?;
        return Ok(Datum::Array(Arc::new(model::Array::of(element.oid(), items))));
    }
    let datum = plain_datum(value);
    ::rows::coerce(ty, datum.ok_or_else(|| Error::unsupported("arrays are not supported with rows tables"))?)
}

/// The value as it is; `None` for an array. Times lose their nanoseconds.
pub(crate) fn plain_datum(value: &Value) -> Option<Datum<'_>> {
    Some(match value {
        Value::Null => Datum::Null,
        Value::Bool(value) => Datum::Bool(*value),
        Value::Int16(value) => Datum::Int2(*value),
        Value::Int32(value) => Datum::Int4(*value),
        Value::Int64(value) => Datum::Int8(*value),
        Value::Float32(value) => Datum::Float4(*value),
        Value::Float64(value) => Datum::Float8(*value),
        Value::Numeric(value, scale) => Datum::Numeric(Numeric::new(*value, u32::from(*scale))),
        Value::Text(text) => Datum::Text(text),
        Value::Bytes(bytes) => Datum::Bytes(bytes),
        Value::Timestamptz(ns) => Datum::Timestamptz(micros(*ns)),
        Value::Timestamp(ns) => Datum::Timestamp(micros(*ns)),
        Value::Date(days) => Datum::Date(*days),
        Value::Time(ns) => Datum::Time(micros(*ns)),
        Value::Interval(months, days, ns) => {
            Datum::Interval(model::Interval { months: *months, days: *days, micros: micros(*ns) })
        }
        Value::Uuid(uuid) => Datum::Uuid(*uuid),
        Value::Array(_) => return None,
    })
}

fn micros(ns: i64) -> i64 {
    ns.div_euclid(1_000)
}
