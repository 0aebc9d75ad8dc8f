//! The grammar: texts that it takes, their meaning, and texts that it refuses.

mod errors;
mod limits;
mod meaning;
mod own;
mod random;
mod round_trip;
mod tokens;
