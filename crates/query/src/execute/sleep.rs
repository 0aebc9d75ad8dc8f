//! `SELECT pg_sleep(seconds)`, as a statement that occupies no thread.

use std::time::Duration;

use model::{Error, Result};
use relational::types::Value;

use crate::plan::sleep::{Seconds, Sleep};
use crate::result::{Outcome, text_rows};

pub(crate) async fn execute(sleep: &Sleep, values: &[Value]) -> Result<Outcome> {
    let seconds = match (&sleep.seconds, values.first()) {
        (Seconds::Known(seconds), _) => *seconds,
        (Seconds::Parameter, Some(Value::Float64(value))) => *value,
        (Seconds::Parameter, Some(Value::Float32(value))) => f64::from(*value),
        (Seconds::Parameter, Some(Value::Int16(value))) => f64::from(*value),
        (Seconds::Parameter, Some(Value::Int32(value))) => f64::from(*value),
        (Seconds::Parameter, Some(Value::Int64(value))) => *value as f64,
        (Seconds::Parameter, Some(Value::Null)) => 0.0,
        (Seconds::Parameter, _) => return Err(Error::unsupported("pg_sleep takes double precision")),
    };
    let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    tokio::time::sleep(duration).await;
    text_rows(sleep.columns(), vec![vec![Some(String::new())]], "SELECT")
}
