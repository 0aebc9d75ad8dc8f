//! A workbook. It is refused or read, in the memory that was reserved, and its rows ascend.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{Error, SqlState};
use workbook::{Cell, Workbook};

const MEMORY_BYTES_MAX: u64 = 512 << 20;

fuzz_target!(|bytes: &[u8]| {
    let reserve = |needed: u64| {
        if needed <= MEMORY_BYTES_MAX {
            Ok(())
        } else {
            Err(Error::new(SqlState::OUT_OF_MEMORY, "too much".to_owned()))
        }
    };
    let Ok(mut workbook) = Workbook::open(bytes, reserve) else { return };
    let mut last = 0;
    let _ = workbook.rows(|row| {
        assert!(row.is_first || row.number > last, "row {} after {last}", row.number);
        last = row.number;
        assert!(!row.cells.is_empty() && row.cells.is_sorted_by_key(|(column, _)| *column));
        assert!(row.cells.iter().all(|(_, cell)| *cell != Cell::Empty));
        for (column, _) in row.cells {
            let _ = row.refused(*column, "nothing");
        }
        Ok(())
    });
});
