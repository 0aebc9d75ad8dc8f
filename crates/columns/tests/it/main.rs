//! Whole tables through flush, reload and scan, with the limits of production.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod layout;
