//! What the grammar takes, what it means, and what it refuses.

mod errors;
mod limits;
mod meaning;
mod own;
mod random;
mod round_trip;
mod tokens;
