//! Functions of sets: in SELECT lists, and in FROM.
//!
//! A set's rows borrow from the arguments, so they are computed on a thread that may block, and sent in batches. A
//! receiver that is dropped ends it.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use async_trait::async_trait;
use bumpalo::Bump;
use catalog::{TypeId, builtin};
use datafusion::arrow::compute::take;
use datafusion::common::Result as DfResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use futures::StreamExt;
use model::{Datum, Error, Result, SqlState};
use scalar::registry::Rows;
use scalar::{Call, Context, Expr, Session};

use super::Operator;
use super::exec::{Run, Source};
use crate::arrow::{Builder, datum};
use crate::errors::external;

/// Batches that wait for the receiver.
const BATCHES_WAITING: usize = 2;

/// Functions side by side.
#[derive(Debug)]
pub(crate) struct Sets {
    pub(crate) functions: Vec<Function>,
    /// Types of the operator's expressions, which the arguments are computed from.
    pub(crate) columns: Vec<TypeId>,
    pub(crate) ordinality: bool,
    /// Whether a row without results is given once, with NULLs.
    pub(crate) outer: bool,
    pub(crate) session: Arc<Session>,
    pub(crate) zone: Arc<str>,
}

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) call: Call,
    /// Arguments, over the operator's expressions.
    pub(crate) arguments: Vec<Expr>,
    /// Whether it gives rows; else one row of its value.
    pub(crate) is_set: bool,
    /// Whether the columns are the fields of a row.
    pub(crate) is_record: bool,
    pub(crate) types: Vec<TypeId>,
}

/// Starts the functions on a thread.
pub(super) fn start(operator: Arc<Operator>, source: Source) -> Running {
    let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&source.schema), BATCHES_WAITING);
    let sender = builder.tx();
    builder.spawn_blocking(move || {
        let Operator::Sets(sets) = &*operator else { return Ok(()) };
        let mut source = source;
        while let Some(batch) = futures::executor::block_on(source.batch())? {
            let values = source.values(&batch)?;
            let kept = if source.keeps { batch.columns().to_vec() } else { Vec::new() };
            let memory = source.memory.new_empty();
            let mut output = Output::new(sets, kept, memory, source.batch_rows);
            let mut send = |rows: &mut Output<'_>| {
                let (columns, count) = rows.finish()?;
                if count == 0 {
                    return Ok(true);
                }
                let batch = source.output(columns, count)?;
                Ok::<bool, datafusion::error::DataFusionError>(sender.blocking_send(Ok(batch)).is_ok())
            };
            let mut arena = Bump::new();
            for row in 0..batch.num_rows() {
                arena.reset();
                if !sets.row(&values, row, &arena, &mut output, &mut send)? {
                    return Ok(());
                }
            }
            if !send(&mut output)? {
                return Ok(());
            }
        }
        Ok(())
    });
    Running { output: builder.build() }
}

/// The batches of the thread.
pub(super) struct Running {
    output: SendableRecordBatchStream,
}

#[async_trait]
impl Run for Running {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        self.output.next().await.transpose()
    }
}

/// Rows of a function that are left.
enum Left<'a> {
    Set(Rows<'a>),
    One(Option<Datum<'a>>),
    None,
}

impl<'a> Left<'a> {
    fn next(&mut self) -> Result<Option<Datum<'a>>> {
        match self {
            Left::Set(rows) => match rows.next().transpose()? {
                Some(row) => Ok(Some(row)),
                None => {
                    *self = Left::None;
                    Ok(None)
                }
            },
            Left::One(value) => Ok(value.take()),
            Left::None => Ok(None),
        }
    }
}

impl Sets {
    /// Gives the rows for one row of the input. False if nobody waits for them.
    fn row<'s>(
        &'s self,
        columns: &[ArrayRef],
        row: usize,
        arena: &Bump,
        output: &mut Output<'s>,
        send: &mut impl FnMut(&mut Output<'s>) -> DfResult<bool>,
    ) -> DfResult<bool> {
        let ctx = Context { arena, session: &self.session };
        let values = columns.iter().zip(&self.columns).map(|(column, ty)| datum(column.as_ref(), row, *ty));
        let values: Vec<Datum<'_>> = values.collect::<Result<_>>().map_err(external)?;
        let arguments = self.functions.iter().map(|function| {
            let arguments = function.arguments.iter();
            arguments.map(|argument| scalar::eval(argument, values.as_slice(), &ctx)).collect::<Result<Vec<_>>>()
        });
        let arguments: Vec<Vec<Datum<'_>>> = arguments.collect::<Result<_>>().map_err(external)?;
        let left = self.functions.iter().zip(&arguments).map(|(function, arguments)| function.call(arguments, &ctx));
        let mut left: Vec<Left<'_>> = left.collect::<Result<_>>().map_err(external)?;
        let mut ordinal = 0_i64;
        loop {
            let next = left.iter_mut().map(Left::next).collect::<Result<Vec<_>>>().map_err(external)?;
            let is_over = next.iter().all(Option::is_none);
            if is_over && !(self.outer && ordinal == 0) {
                return Ok(true);
            }
            ordinal += 1;
            output.push(self, row, next, (!is_over).then_some(ordinal)).map_err(external)?;
            if output.rows.len() >= output.rows_max {
                output.memory.try_resize(arena.allocated_bytes())?;
                if !send(output)? {
                    return Ok(false);
                }
            }
            if is_over {
                return Ok(true);
            }
        }
    }
}

impl Function {
    fn call<'a>(&self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Left<'a>> {
        if !self.is_set {
            return Ok(Left::One(Some(scalar::eval::apply(&self.call, arguments, ctx)?)));
        }
        if let (Some(routines), true) = (&ctx.session.routines, self.call.function >= scalar::FIRST_ROUTINE) {
            let rows = routines.rows(&self.call, arguments)?;
            let arena = ctx.arena;
            return Ok(Left::Set(Box::new(
                rows.into_iter().map(move |row| Ok(scalar::value::copied(&row.datum(), arena))),
            )));
        }
        let row = builtin().function_row(self.call.function);
        if row.is_none_or(|row| row.is_strict) && arguments.iter().any(Datum::is_null) {
            return Ok(Left::None);
        }
        match scalar::set_function(self.call.function) {
            Some(function) => Ok(Left::Set(function(arguments, &self.call, ctx)?)),
            None => {
                let name = row.map_or("?", |row| row.name);
                Err(Error::unsupported(format!("function {name} is not supported")))
            }
        }
    }
}

/// Checks that the fields of a record that a function of a user returns have the types that the query expects.
fn check_fields(given: &[u32], expected: &[TypeId]) -> Result<()> {
    let catalog = builtin();
    let is_text = |ty: TypeId| matches!(ty, TypeId::TEXT | TypeId::VARCHAR | TypeId::BPCHAR | TypeId::UNKNOWN);
    let fits = |(given, expected): (TypeId, TypeId)| {
        let (given, expected) = (catalog.base_type(given), catalog.base_type(expected));
        given == expected || is_text(given) && is_text(expected)
    };
    let mut pairs = given.iter().zip(expected).map(|(given, expected)| (TypeId(*given), *expected));
    let Some(at) = pairs.position(|pair| !fits(pair)) else { return Ok(()) };
    let (from, to) = (catalog.type_name(TypeId(given[at])), catalog.type_name(expected[at]));
    let text = "function return row and query-specified return row do not match";
    let detail = format!("Returned type {from} at ordinal position {}, but query expects {to}.", at + 1);
    Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_detail(detail))
}

/// Rows that are collected for a batch.
struct Output<'s> {
    kept: Vec<ArrayRef>,
    /// The row of the input for each row.
    rows: Vec<u32>,
    made: Vec<(TypeId, Builder)>,
    ordinals: Option<Builder>,
    sets: &'s Sets,
    memory: MemoryReservation,
    rows_max: usize,
}

impl<'s> Output<'s> {
    fn new(sets: &'s Sets, kept: Vec<ArrayRef>, memory: MemoryReservation, rows_max: usize) -> Output<'s> {
        let types = sets.functions.iter().flat_map(|function| &function.types);
        let made = types.map(|ty| (*ty, Builder::new(*ty, &sets.zone, 0))).collect();
        let ordinals = sets.ordinality.then(|| Builder::new(TypeId::INT8, &sets.zone, 0));
        Output { kept, rows: Vec::new(), made, ordinals, sets, memory, rows_max }
    }

    fn push(&mut self, sets: &Sets, row: usize, values: Vec<Option<Datum<'_>>>, ordinal: Option<i64>) -> Result<()> {
        self.rows.push(row as u32);
        let mut builders = self.made.iter_mut().map(|(_, builder)| builder);
        for (function, value) in sets.functions.iter().zip(values) {
            let mut fields = builders.by_ref().take(function.types.len());
            match value {
                Some(Datum::Record(record)) if function.is_record => {
                    if record.values.len() != function.types.len() {
                        let text = "function return row and query-specified return row do not match";
                        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
                    }
                    if function.call.function >= scalar::FIRST_ROUTINE {
                        check_fields(&record.types, &function.types)?;
                    }
                    for (builder, value) in fields.zip(&record.values) {
                        builder.push(value)?;
                    }
                }
                Some(value) if !value.is_null() => match fields.next() {
                    Some(builder) => builder.push(&value)?,
                    None => return Err(Error::bug("a function without columns")),
                },
                _ => {
                    for builder in fields {
                        builder.push(&Datum::Null)?;
                    }
                }
            }
        }
        if let Some(builder) = &mut self.ordinals {
            builder.push(&ordinal.map_or(Datum::Null, Datum::Int8))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> DfResult<(Vec<ArrayRef>, usize)> {
        let count = self.rows.len();
        let rows = UInt32Array::from(std::mem::take(&mut self.rows));
        let kept = self.kept.iter().map(|column| take(column, &rows, None)).collect::<Result<Vec<_>, _>>()?;
        let made = self.made.iter_mut().map(|(_, builder)| builder.finish());
        let columns = kept.into_iter().chain(made).chain(self.ordinals.iter_mut().map(Builder::finish)).collect();
        debug_assert!(self.sets.functions.len() <= self.made.len() + 1);
        Ok((columns, count))
    }
}
