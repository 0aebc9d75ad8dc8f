//! Statements on the row executor.
//!
//! A compiled statement runs to completion on the calling thread, in microseconds. If it must wait for
//! another transaction it is undone, the session waits without occupying a thread, and the statement runs
//! again with the same snapshot. A query that turns out to be long is restarted on a separate thread
//! (`reading`), and its rows are sent while they are produced.

mod deferred;
mod define;
pub(crate) mod external;
pub(crate) mod feed;
pub(crate) mod load;
mod lock;
mod reading;
pub(crate) mod run;
mod unload;

pub(crate) use deferred::{check_deferred, set_constraints};
pub(crate) use define::{define, new_relation, parts, planned, planned_for, tell, with_relations};
pub(crate) use feed::feed;
pub(crate) use load::Loading;
pub(crate) use lock::lock_tables;
pub(crate) use run::{Argument, Begun, Unfinished, begin, carried, evaluated, execute, finish, until_durable};
pub(crate) use unload::{unload, unload_query};
