//! Definitions of sequences.

use std::sync::Arc;

use crate::{Error, Result, SqlState, TableId, TableName, Type};

/// The column with which a sequence is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    /// Number of the table.
    pub table: TableId,
    /// Position of the column in the table.
    pub column: usize,
}

/// Definition of a sequence, without its value. Immutable: a change makes a new value.
///
/// Always true: `min < max`, both within the type; `start` within both; `increment` is not 0;
/// `cache` is positive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceSpec {
    /// Number of the sequence; not reused in the database.
    pub id: u32,
    /// Schema and name.
    pub name: TableName,
    /// `smallint`, `integer` or `bigint`.
    pub ty: Type,
    /// The first value.
    pub start: i64,
    /// Difference between successive values; negative for descending sequences.
    pub increment: i64,
    /// Minimum value.
    pub min: i64,
    /// Maximum value.
    pub max: i64,
    /// Number of values that a session may reserve at once.
    pub cache: i64,
    /// Whether it restarts at the other bound when exhausted.
    pub cycle: bool,
    /// The column with which the sequence is dropped.
    pub owner: Option<SequenceOwner>,
}

/// Sequences are shared, never copied.
pub type SequenceRef = Arc<SequenceSpec>;

/// A bound in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceBound {
    /// `NO MINVALUE`, `NO MAXVALUE`: the default of its type and direction.
    Default,
    /// An explicit bound.
    At(i64),
}

/// Options of a statement on a sequence; missing ones keep their value or get the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// `AS`
    pub ty: Option<Type>,
    /// `START`
    pub start: Option<i64>,
    /// `INCREMENT`
    pub increment: Option<i64>,
    /// `MINVALUE`
    pub min: Option<SequenceBound>,
    /// `MAXVALUE`
    pub max: Option<SequenceBound>,
    /// `CACHE`
    pub cache: Option<i64>,
    /// `CYCLE`
    pub cycle: Option<bool>,
}

impl SequenceSpec {
    /// Creates the definition of a sequence without owner.
    ///
    /// # Errors
    /// 22023 for invalid or contradictory options.
    pub fn new(id: u32, name: TableName, options: &SequenceOptions) -> Result<SequenceSpec> {
        let ty = options.ty.unwrap_or(Type::Int8);
        let increment = options.increment.unwrap_or(1);
        let (least, greatest) = range(ty)?;
        let up = increment > 0;
        let min = if up { 1 } else { least };
        let max = if up { greatest } else { -1 };
        let blank = SequenceSpec {
            id,
            name,
            ty,
            start: 0,
            increment,
            min,
            max,
            cache: options.cache.unwrap_or(1),
            cycle: options.cycle.unwrap_or(false),
            owner: None,
        };
        let mut made = blank.bounded(options.min, options.max)?;
        made.start = options.start.unwrap_or(if up { made.min } else { made.max });
        made.checked()
    }

    /// Returns the definition with other options.
    ///
    /// # Errors
    /// 22023 for invalid or contradictory options.
    pub fn altered(&self, options: &SequenceOptions) -> Result<SequenceSpec> {
        let mut next = self.clone();
        next.increment = options.increment.unwrap_or(self.increment);
        next.cache = options.cache.unwrap_or(self.cache);
        next.cycle = options.cycle.unwrap_or(self.cycle);
        next.start = options.start.unwrap_or(self.start);
        if let Some(ty) = options.ty {
            // A bound at the limit of the old type moves to the limit of the new type.
            let ((least, greatest), old) = (range(ty)?, range(self.ty)?);
            next.ty = ty;
            next.min = if self.min == old.0 { least } else { self.min };
            next.max = if self.max == old.1 { greatest } else { self.max };
        }
        next.bounded(options.min, options.max)?.checked()
    }

    /// Checks that the value of the sequence can be set to `value`.
    ///
    /// # Errors
    /// 22023 for a value out of bounds.
    pub fn check_restart(&self, value: i64) -> Result<()> {
        self.check_value("RESTART", value)
    }

    fn bounded(mut self, min: Option<SequenceBound>, max: Option<SequenceBound>) -> Result<SequenceSpec> {
        let (least, greatest) = range(self.ty)?;
        let up = self.increment > 0;
        match min {
            None => {}
            Some(SequenceBound::Default) => self.min = if up { 1 } else { least },
            Some(SequenceBound::At(at)) => self.min = at,
        }
        match max {
            None => {}
            Some(SequenceBound::Default) => self.max = if up { greatest } else { -1 },
            Some(SequenceBound::At(at)) => self.max = at,
        }
        Ok(self)
    }

    fn checked(self) -> Result<SequenceSpec> {
        self.check()?;
        Ok(self)
    }

    /// Checks the invariants of the definition.
    ///
    /// # Errors
    /// 22023 for invalid or contradictory options.
    pub fn check(&self) -> Result<()> {
        if self.increment == 0 {
            return Err(invalid("INCREMENT must not be zero"));
        }
        let (least, greatest) = range(self.ty)?;
        for (what, bound) in [("MAXVALUE", self.max), ("MINVALUE", self.min)] {
            if !(least..=greatest).contains(&bound) {
                let ty = self.ty.sql_name();
                return Err(invalid(format!("{what} ({bound}) is out of range for sequence data type {ty}")));
            }
        }
        if self.min >= self.max {
            return Err(invalid(format!("MINVALUE ({}) must be less than MAXVALUE ({})", self.min, self.max)));
        }
        self.check_value("START", self.start)?;
        if self.cache <= 0 {
            return Err(invalid(format!("CACHE ({}) must be greater than zero", self.cache)));
        }
        Ok(())
    }

    fn check_value(&self, what: &str, value: i64) -> Result<()> {
        if value < self.min {
            return Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({})", self.min)));
        }
        if value > self.max {
            return Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({})", self.max)));
        }
        Ok(())
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

/// The minimum and maximum value of a sequence's type.
fn range(ty: Type) -> Result<(i64, i64)> {
    match ty {
        Type::Int2 => Ok((i16::MIN.into(), i16::MAX.into())),
        Type::Int4 => Ok((i32::MIN.into(), i32::MAX.into())),
        Type::Int8 => Ok((i64::MIN, i64::MAX)),
        _ => Err(invalid("sequence type must be smallint, integer, or bigint")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: &SequenceOptions) -> Result<SequenceSpec> {
        SequenceSpec::new(1, TableName::public("s"), options)
    }

    #[test]
    fn missing_options_follow_from_type_and_direction() {
        let up = made(&SequenceOptions { ty: Some(Type::Int2), ..Default::default() }).unwrap();
        assert_eq!((up.min, up.max, up.start, up.increment, up.cache, up.cycle), (1, 32_767, 1, 1, 1, false));
        let down = made(&SequenceOptions { increment: Some(-2), ..Default::default() }).unwrap();
        assert_eq!((down.min, down.max, down.start), (i64::MIN, -1, -1));
        assert!(down.check_restart(-5).is_ok());
    }

    #[test]
    fn default_bounds_follow_a_change_of_type() {
        let small = made(&SequenceOptions { ty: Some(Type::Int2), ..Default::default() }).unwrap();
        let wide = SequenceOptions { ty: Some(Type::Int8), ..Default::default() };
        assert_eq!(small.altered(&wide).unwrap().max, i64::MAX);
        let bounded = SequenceOptions { max: Some(SequenceBound::At(9)), ..Default::default() };
        assert_eq!(small.altered(&bounded).unwrap().altered(&wide).unwrap().max, 9);
    }

    #[test]
    fn contradictory_options_get_the_errors_of_postgresql() {
        let at = |value| Some(SequenceBound::At(value));
        let cases = [
            (SequenceOptions { increment: Some(0), ..Default::default() }, "INCREMENT must not be zero"),
            (
                SequenceOptions { ty: Some(Type::Int2), max: at(40_000), ..Default::default() },
                "MAXVALUE (40000) is out of range for sequence data type smallint",
            ),
            (
                SequenceOptions { min: at(5), max: at(5), ..Default::default() },
                "MINVALUE (5) must be less than MAXVALUE (5)",
            ),
            (
                SequenceOptions { start: Some(0), ..Default::default() },
                "START value (0) cannot be less than MINVALUE (1)",
            ),
            (
                SequenceOptions { start: Some(7), max: at(6), ..Default::default() },
                "START value (7) cannot be greater than MAXVALUE (6)",
            ),
            (SequenceOptions { cache: Some(0), ..Default::default() }, "CACHE (0) must be greater than zero"),
            (
                SequenceOptions { ty: Some(Type::Text), ..Default::default() },
                "sequence type must be smallint, integer, or bigint",
            ),
        ];
        for (options, expected) in cases {
            let error = made(&options).unwrap_err();
            assert_eq!((error.state(), error.message()), (SqlState::INVALID_PARAMETER_VALUE, expected));
        }
        let error = made(&SequenceOptions::default()).unwrap().check_restart(0).unwrap_err();
        assert_eq!(error.message(), "RESTART value (0) cannot be less than MINVALUE (1)");
    }
}
