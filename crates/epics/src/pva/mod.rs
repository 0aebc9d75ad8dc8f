//! PV Access.
