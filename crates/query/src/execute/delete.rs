//! DELETE by key and time range: writes a tombstone, rewrites nothing. TRUNCATE is a DELETE without a WHERE.

use std::sync::Arc;

use engine::{ScanRequest, SeriesFilter};
use model::{Error, Result};
use relational::scan::BATCH_ROWS;

use crate::plan::delete::Target;
use crate::session::Session;

impl Target {
    /// Number of visible rows that the DELETE removes.
    fn count(&self) -> Result<u64> {
        let request = ScanRequest {
            columns: Vec::new(),
            times: self.times,
            series: self.series.clone(),
            ranges: Vec::new(),
            batch_rows: BATCH_ROWS,
            limit: None,
            coded: false,
            columns_only: false,
        };
        let mut rows = 0;
        for batch in self.view.scan(request)? {
            rows += batch?.num_rows() as u64;
        }
        Ok(rows)
    }

    fn is_empty(&self) -> bool {
        self.nothing || self.times.is_empty() || matches!(&self.series, SeriesFilter::Only(list) if list.is_empty())
    }
}

/// Deletes the rows and returns their number. Counting scans the table, so it runs on a blocking thread.
pub(crate) async fn hide(session: &mut Session, target: Target) -> Result<u64> {
    session.writer()?;
    if target.is_empty() {
        return Ok(0);
    }
    let (rows, target) = tokio::task::spawn_blocking(move || (target.count(), target)).await.map_err(Error::bug)?;
    let rows = rows?;
    if rows == 0 {
        return Ok(0);
    }
    let series = match &target.series {
        SeriesFilter::Only(list) => Some(Arc::clone(list)),
        _ => None,
    };
    session.writer()?.delete(&target.view, series.as_deref(), target.times)?;
    Ok(rows)
}
