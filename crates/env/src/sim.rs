//! Simulated side.
