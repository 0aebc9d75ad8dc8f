//! Measures the time until an acknowledged write becomes visible: a separate connection queries
//! some just-acknowledged rows until an answer contains them.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::drivers::Driver;
use crate::engine::{Fresh, histogram};
use crate::query::{Order, Query, Shape};

/// Longest lag that is measured; a write that is not visible by then counts with this value.
const LAG_MAX: Duration = Duration::from_secs(60);

/// Measures until the clients have ended. If the first query already returns the row, the lag is
/// that query's latency, an upper bound.
pub(super) fn probe(driver: &dyn Driver, fresh: &Receiver<Fresh>, fields: u32) -> Histogram<u64> {
    let mut lags = histogram::empty();
    let Ok(mut connection) = driver.connect(0) else { return lags };
    while let Ok(Fresh { device, table, time, acknowledged }) = fresh.recv() {
        let query = Query {
            kind: 0,
            table,
            devices: Some(vec![device]),
            fields: vec![fields],
            window: Some(time..time + 1),
            filters: Vec::new(),
            shape: Shape::Rows,
            order: Order::Any,
            limit: None,
            set: None,
        };
        if connection.statement(&query).is_err() {
            return lags;
        }
        while acknowledged.elapsed() < LAG_MAX {
            let seen = connection.query(&query).and_then(|()| connection.points(&query));
            match seen {
                Ok(0) => std::thread::sleep(Duration::from_millis(1)),
                Ok(_) => break,
                Err(_) => return lags,
            }
        }
        let lag = Instant::now().saturating_duration_since(acknowledged).min(LAG_MAX);
        lags.saturating_record(lag.as_nanos() as u64);
    }
    lags
}
