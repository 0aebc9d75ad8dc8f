//! Rows of a moment and a value, `(time, value)`, as structs: the bounds of `interpolate`.

use std::sync::Arc;

use arrow_array::builder::{NullBufferBuilder, TimestampNanosecondBuilder};
use arrow_array::{ArrayRef, StructArray};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use bumpalo::Bump;
use catalog::TypeId;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr as DfExpr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use model::{Datum, Error, Result, SqlState};
use scalar::{Context, Session};

use crate::arrow::{Builder, arrow_type, datum};
use crate::evaluation::evaluate::{compute, signature};

/// The function that turns encoded rows into structs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Points {
    value: TypeId,
    zone: Arc<str>,
    signature: Signature,
}

impl Points {
    /// A call for rows whose second column has a type.
    pub(crate) fn call(rows: DfExpr, value: TypeId, zone: &Arc<str>) -> DfExpr {
        let points = Points { value, zone: Arc::clone(zone), signature: signature(1, Volatility::Immutable) };
        ScalarUDF::from(points).call(vec![rows])
    }

    fn fields(&self) -> Fields {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(&self.zone)));
        let field = |name, ty| Field::new(name, ty, true);
        Fields::from(vec![field("time", time), field("value", arrow_type(self.value, &self.zone))])
    }

    fn structs(&self, rows: &ArrayRef) -> Result<ArrayRef> {
        let fields = self.fields();
        let mut times =
            TimestampNanosecondBuilder::with_capacity(rows.len()).with_data_type(fields[0].data_type().clone());
        let mut values = Builder::new(self.value, &self.zone, rows.len());
        let mut valid = NullBufferBuilder::new(rows.len());
        let (mut arena, session) = (Bump::new(), Session::default());
        for row in 0..rows.len() {
            arena.reset();
            let ctx = Context { arena: &arena, session: &session };
            let (time, value) = match datum(rows.as_ref(), row, TypeId::RECORD)? {
                Datum::Record(record) => self.point(&record, &ctx)?,
                _ => (None, Datum::Null),
            };
            valid.append(time.is_some());
            times.append_option(time);
            values.push(&value)?;
        }
        let columns = vec![Arc::new(times.finish()) as ArrayRef, values.finish()];
        let structs = StructArray::try_new(fields, columns, valid.finish());
        Ok(Arc::new(structs.map_err(Error::bug)?))
    }

    fn point<'a>(&self, record: &model::Record<'a>, ctx: &Context<'a>) -> Result<(Option<i64>, Datum<'a>)> {
        let ([time_ty, value_ty], [time, value]) = (&*record.types, &*record.values) else {
            let text = "interpolate RECORD arguments must have 2 elements";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        };
        let is_time = |ty: u32| matches!(TypeId(ty), TypeId::TIMESTAMPTZ | TypeId::TIMESTAMP | TypeId::UNKNOWN);
        if !is_time(*time_ty) {
            return Err(unfit("first argument of interpolate returned record must match used timestamp datatype"));
        }
        let nanos = match time {
            Datum::Timestamptz(micros) | Datum::Timestamp(micros) => micros.checked_mul(1_000),
            _ => None,
        };
        if *value_ty == self.value.0 || value.is_null() {
            return Ok((nanos, value.clone()));
        }
        let numbers = [TypeId::INT2, TypeId::INT4, TypeId::INT8, TypeId::NUMERIC, TypeId::FLOAT4, TypeId::FLOAT8];
        if !numbers.contains(&TypeId(*value_ty)) {
            return Err(unfit("second argument of interpolate returned record must match used interpolate datatype"));
        }
        let mut text = String::new();
        scalar::output(value, TypeId(*value_ty), ctx, &mut text)?;
        Ok((nanos, scalar::input(&text, self.value, -1, ctx)?))
    }
}

fn unfit(text: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text.to_owned())
}

impl ScalarUDFImpl for Points {
    fn name(&self) -> &str {
        "points"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Struct(self.fields()))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        compute(&arguments, false, |columns, _| self.structs(&columns[0]))
    }
}
