//! EPICS: process variables, their samples, and the protocols and files that carry them.
//!
//! Terms are those of EPICS: an *IOC* serves *process variables* (PVs); a *sample* is a PV's value with its time, status and
//! severity; *metadata* (units, limits, enumeration labels) changes seldom.
//!
//! Modules, lowest first, none of which uses a later one: `sample`, `ca` (a Channel Access client).
//!
//! Always true: no decoder panics, whatever the bytes.

pub mod ca;
pub mod sample;
