//! Arithmetic of time series: rasters, flags, units, conversion between rasters, formulas.
//!
//! Terms: a *raster* divides time into intervals, such as quarter hours or the months of a time zone; *points* are values with
//! flags; a *conversion* computes points on one raster from points on another.
//!
//! Modules, lowest first, none of which uses a later one: `buckets`, `raster`, `stamp`, `flag`, `points`, `aggregation`,
//! `conversion`, `units`, `formula`, `validation`, `period`.
//!
//! Always true: no I/O, no clock, no database. No input causes a panic.

pub mod aggregation;
pub mod buckets;
pub mod conversion;
pub mod flag;
pub mod formula;
pub mod period;
pub mod points;
pub mod raster;
pub mod stamp;
pub mod units;
pub mod validation;
