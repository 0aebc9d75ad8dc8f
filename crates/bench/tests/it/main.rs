//! The benchmark tool against real servers, each private to its test.

mod peers;
