//! Whole tables through flush, reload and scan, with the limits of production.

mod layout;
