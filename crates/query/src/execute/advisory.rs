//! Functions of advisory locks. A waiting statement holds no thread and can be cancelled.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use futures::StreamExt;
use model::{Error, Result, SqlState};
use pg_catalog::facts::AdvisoryKey as Key;
use relational::types::Value;

use crate::plan::Prepared;
use crate::plan::advisory::{Act, Call, Calls};
use crate::result::Outcome;
use crate::session::Session;

/// Runs the calls in order.
///
/// # Errors
/// 40P01 for a deadlock; 55P03 after `lock_timeout`; errors of computing an argument.
pub(crate) async fn execute(calls: &Calls, session: &mut Session, values: &[Value]) -> Result<Outcome> {
    let mut numbers = match &calls.arguments {
        Some(arguments) => numbers(session, arguments, values).await?.into_iter(),
        None => Vec::new().into_iter(),
    };
    let (mut arrays, mut fields): (Vec<ArrayRef>, Vec<Field>) = (Vec::new(), Vec::new());
    for call in &calls.calls {
        let given: Vec<Option<i64>> = numbers.by_ref().take(call.arguments.len()).collect();
        let answer = match given.as_slice() {
            [] => run(call, session, None).await?,
            [Some(one)] => run(call, session, Some(Key::One(*one))).await?,
            [Some(first), Some(second)] => {
                let part = |number: i64| i32::try_from(number).map_err(Error::bug);
                run(call, session, Some(Key::Pair(part(*first)?, part(*second)?))).await?
            }
            // The functions are strict: a NULL argument takes no lock.
            _ => None,
        };
        let array: ArrayRef = if call.act.answers() {
            Arc::new(BooleanArray::from(vec![answer]))
        } else {
            Arc::new(StringArray::from(vec![Some("")]))
        };
        fields.push(Field::new(&call.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    if session.block.is_none() {
        // A single-statement transaction ends here.
        session.advisory.end_transaction(0);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)?;
    let batches = Box::pin(futures::stream::iter([Ok(batch)]));
    Ok(Outcome::Rows { columns: calls.columns(), batches, tag: "SELECT".into() })
}

async fn run(call: &Call, session: &mut Session, key: Option<Key>) -> Result<Option<bool>> {
    let (mode, waits, transaction, key) = match (call.act, key) {
        (Act::UnlockAll, _) => {
            session.advisory.unlock_all();
            return Ok(None);
        }
        (Act::Unlock(mode), Some(key)) => {
            let found = session.advisory.unlock(key, mode);
            if !found {
                session.warn(SqlState("01000"), format!("you don't own a lock of type {}", mode.name()));
            }
            return Ok(Some(found));
        }
        (Act::Lock { mode, waits, transaction }, Some(key)) => (mode, waits, transaction, key),
        (Act::Lock { .. } | Act::Unlock(_), None) => return Err(Error::bug("a lock of nothing")),
    };
    let patience = session.settings.lock_timeout();
    let savepoints = session.block.as_ref().map_or(0, |block| block.savepoints.len());
    let savepoints = transaction.then_some(savepoints);
    session.advisory.lock((key, mode), savepoints, waits, patience).await.map(Some)
}

/// Runs the query of the arguments and returns its only row.
async fn numbers(session: &mut Session, arguments: &Prepared, values: &[Value]) -> Result<Vec<Option<i64>>> {
    let Outcome::Rows { mut batches, .. } = Box::pin(session.execute(arguments, values)).await? else {
        return Err(Error::bug("arguments of advisory locks without a row"));
    };
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        let number = |array: &ArrayRef| {
            if let Some(array) = array.as_primitive_opt::<Int64Type>() {
                return Ok(array.is_valid(0).then(|| array.value(0)));
            }
            let array = array.as_primitive_opt::<Int32Type>();
            let array = array.ok_or_else(|| Error::bug("an advisory lock that is no integer"))?;
            Ok(array.is_valid(0).then(|| i64::from(array.value(0))))
        };
        return batch.columns().iter().map(number).collect();
    }
    Err(Error::bug("arguments of advisory locks without a row"))
}
