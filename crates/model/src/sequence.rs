//! Sequences: where numbers for keys come from.

use std::sync::Arc;

use crate::{Error, Result, SqlState, TableId, TableName, Type};

/// The column that a sequence goes away with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    /// Its table.
    pub table: TableId,
    /// Its position there.
    pub column: usize,
}

/// One sequence, without its value. Immutable: a change makes a new value.
///
/// Always true: `min < max`, both within the type; `start` within both; `increment` is not 0; `cache` is positive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceSpec {
    /// Never used again in the database.
    pub id: u32,
    /// Its name.
    pub name: TableName,
    /// `smallint`, `integer` or `bigint`.
    pub ty: Type,
    /// The first value.
    pub start: i64,
    /// From one value to the next; negative ones go down.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// How many values may be taken at once.
    pub cache: i64,
    /// Does it begin again at its other end?
    pub cycle: bool,
    /// The column that it goes away with.
    pub owner: Option<SequenceOwner>,
}

/// Sequences are shared, never copied.
pub type SequenceRef = Arc<SequenceSpec>;

/// A bound as a statement gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceBound {
    /// `NO MINVALUE`, `NO MAXVALUE`: that of its type and direction.
    Default,
    /// This one.
    At(i64),
}

/// What a statement says about a sequence; what it does not say stays, or is the default.
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
    /// A new sequence that nobody owns.
    ///
    /// # Errors
    /// 22023 for options that do not go together.
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

    /// The same with other options.
    ///
    /// # Errors
    /// 22023 for options that do not go together.
    pub fn altered(&self, options: &SequenceOptions) -> Result<SequenceSpec> {
        let mut next = self.clone();
        next.increment = options.increment.unwrap_or(self.increment);
        next.cache = options.cache.unwrap_or(self.cache);
        next.cycle = options.cycle.unwrap_or(self.cycle);
        next.start = options.start.unwrap_or(self.start);
        if let Some(ty) = options.ty {
            // Bounds of the old type become bounds of the new one.
            let ((least, greatest), old) = (range(ty)?, range(self.ty)?);
            next.ty = ty;
            next.min = if self.min == old.0 { least } else { self.min };
            next.max = if self.max == old.1 { greatest } else { self.max };
        }
        next.bounded(options.min, options.max)?.checked()
    }

    /// May its value be set to this?
    ///
    /// # Errors
    /// 22023 for a value outside its bounds.
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

    /// Is it one that can count?
    ///
    /// # Errors
    /// 22023 for parts that do not go together.
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

/// The least and the greatest value of a sequence's type.
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
    fn what_is_not_said_follows_from_type_and_direction() {
        let up = made(&SequenceOptions { ty: Some(Type::Int2), ..Default::default() }).unwrap();
        assert_eq!((up.min, up.max, up.start, up.increment, up.cache, up.cycle), (1, 32_767, 1, 1, 1, false));
        let down = made(&SequenceOptions { increment: Some(-2), ..Default::default() }).unwrap();
        assert_eq!((down.min, down.max, down.start), (i64::MIN, -1, -1));
        assert!(down.check_restart(-5).is_ok());
    }

    #[test]
    fn bounds_of_the_old_type_become_those_of_the_new_one() {
        let small = made(&SequenceOptions { ty: Some(Type::Int2), ..Default::default() }).unwrap();
        let wide = SequenceOptions { ty: Some(Type::Int8), ..Default::default() };
        assert_eq!(small.altered(&wide).unwrap().max, i64::MAX);
        let bounded = SequenceOptions { max: Some(SequenceBound::At(9)), ..Default::default() };
        assert_eq!(small.altered(&bounded).unwrap().altered(&wide).unwrap().max, 9);
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_as_postgresql_refuses_them() {
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
