//! Formulas.
