//! The tool by itself, for machines that only measure: the same as `millrace bench`.

fn main() {}
