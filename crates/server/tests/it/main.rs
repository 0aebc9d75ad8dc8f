//! Everything that is seen from outside, over real sockets on free ports and a database in a temporary folder.

mod harness;
mod health;
mod http_bad;
mod http_sql;
mod http_write;
