//! EPICS: process variables, their samples, and the protocols and files that carry them.
//!
//! Terms are those of EPICS: an *IOC* serves *process variables* (PVs); a *sample* is a PV's value with its time, status and
//! severity; *metadata* (units, limits, enumeration labels) changes seldom. The *Appliance* is the EPICS Archiver Appliance;
//! an *event* is a sample as it archives it, with named fields.
//!
//! Modules, lowest first, none of which uses a later one: `sample`, `client` (parts of both clients), `ca` (a Channel Access
//! client), `pva` (a PV Access client), `calendar`, `numerals`, `event`, `pb`, `processors`, `formats`; of other archivers
//! `channel_archiver`, `rdb_archiver`, `archive_config`.
//!
//! Always true: no decoder panics, whatever the bytes.

pub mod archive_config;
pub mod ca;
mod calendar;
pub mod channel_archiver;
pub mod client;
pub mod event;
pub mod formats;
mod numerals;
pub mod pb;
pub mod processors;
pub mod pva;
pub mod rdb_archiver;
pub mod sample;
