//! Aggregates, and the groups they are over.

use std::cmp::Ordering;

use model::{Datum, Error, Numeric, Result, SqlState, Type};
use rows::key::{self, KeyColumn};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::expr::{Expr, Frame, Operator, arithmetic};

/// One aggregate of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) kind: Kind,
    /// Nothing for `count(*)`.
    pub(crate) of: Option<Expr>,
    /// The type of `of`.
    pub(crate) ty: Type,
    pub(crate) distinct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "count" => Kind::Count,
            "sum" => Kind::Sum,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "avg" => Kind::Avg,
            _ => return None,
        })
    }

    /// What it gives over values of a type; `None` where there is no such aggregate.
    pub(crate) fn result(self, of: Type) -> Option<Type> {
        Some(match (self, of) {
            (Kind::Count, _) => Type::Int8,
            (Kind::Sum, Type::Int2 | Type::Int4) => Type::Int8,
            (Kind::Sum | Kind::Avg, Type::Int8 | Type::Numeric(_)) => Type::Numeric(None),
            (Kind::Avg, Type::Int2 | Type::Int4) => Type::Numeric(None),
            (Kind::Sum, Type::Float4) => Type::Float4,
            (Kind::Sum | Kind::Avg, Type::Float8) | (Kind::Avg, Type::Float4) => Type::Float8,
            (Kind::Min | Kind::Max, Type::Bool | Type::Uuid | Type::Bytes | Type::Json) => return None,
            (Kind::Min | Kind::Max, Type::Varchar(_)) => Type::Text,
            (Kind::Min | Kind::Max, ty) => ty,
            (Kind::Sum | Kind::Avg, _) => return None,
        })
    }
}

/// What an aggregate has seen of one group.
struct State<'a> {
    /// Values that are not NULL.
    count: i64,
    /// Sum of integers: fewer than 2^64 of them fit.
    whole: i128,
    /// Sum of other numbers; the least or greatest of all.
    value: Datum<'a>,
    /// Keys of the values seen, for DISTINCT.
    seen: FxHashSet<Vec<u8>>,
}

/// Groups by key, in the order of their first rows.
pub(crate) struct Groups<'a> {
    by: &'a [Expr],
    columns: Vec<KeyColumn>,
    aggregates: &'a [Aggregate],
    places: FxHashMap<Vec<u8>, usize>,
    groups: Vec<(Vec<Datum<'a>>, Vec<State<'a>>)>,
    key: Vec<u8>,
}

impl<'a> Groups<'a> {
    /// Without GROUP BY, there is one group even if there are no rows.
    pub(crate) fn new(by: &'a [Expr], types: &[Type], aggregates: &'a [Aggregate]) -> Groups<'a> {
        let mut groups = Groups {
            by,
            columns: types.iter().map(|ty| nullable(*ty)).collect(),
            aggregates,
            places: FxHashMap::default(),
            groups: Vec::new(),
            key: Vec::new(),
        };
        if by.is_empty() {
            groups.add(Vec::new());
        }
        groups
    }

    fn add(&mut self, values: Vec<Datum<'a>>) -> usize {
        let states = self.aggregates.iter().map(|_| State::new()).collect();
        self.groups.push((values, states));
        self.groups.len() - 1
    }

    /// Counts the row of the moment in.
    pub(crate) fn row(&mut self, frame: &Frame<'a>) -> Result<()> {
        let at = self.place(frame)?;
        for (aggregate, state) in self.aggregates.iter().zip(&mut self.groups[at].1) {
            state.take(aggregate, frame, &mut self.key)?;
        }
        Ok(())
    }

    /// Has every aggregate seen a value?
    pub(crate) fn has_values(&self) -> bool {
        self.groups.iter().all(|(_, states)| states.iter().all(|state| state.count > 0))
    }

    fn place(&mut self, frame: &Frame<'a>) -> Result<usize> {
        if self.by.is_empty() {
            return Ok(0);
        }
        let values = self.by.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
        self.key.clear();
        for (value, column) in values.iter().zip(&self.columns) {
            key::push(&mut self.key, column, value)?;
        }
        if let Some(at) = self.places.get(&self.key) {
            return Ok(*at);
        }
        let at = self.add(values);
        self.places.insert(self.key.clone(), at);
        Ok(at)
    }

    /// Each group: its columns, and then its aggregates.
    pub(crate) fn results(self) -> impl Iterator<Item = Result<Vec<Datum<'a>>>> {
        let aggregates = self.aggregates;
        self.groups.into_iter().map(move |(mut values, states)| {
            for (aggregate, state) in aggregates.iter().zip(states) {
                values.push(state.result(aggregate)?);
            }
            Ok(values)
        })
    }
}

/// A column of keys by which values are told apart, NULL among them.
pub(crate) fn nullable(ty: Type) -> KeyColumn {
    KeyColumn { ty, nullable: true, descending: false }
}

impl<'a> State<'a> {
    fn new() -> State<'a> {
        State { count: 0, whole: 0, value: Datum::Null, seen: FxHashSet::default() }
    }

    fn take(&mut self, aggregate: &'a Aggregate, frame: &Frame<'a>, key: &mut Vec<u8>) -> Result<()> {
        let value = match &aggregate.of {
            None => Datum::Bool(true),
            Some(of) => of.eval(frame)?,
        };
        if value.is_null() {
            return Ok(());
        }
        if aggregate.distinct {
            key.clear();
            key::push(key, &nullable(aggregate.ty), &value)?;
            if !self.seen.insert(key.clone()) {
                return Ok(());
            }
        }
        self.count += 1;
        match aggregate.kind {
            Kind::Count => {}
            Kind::Sum | Kind::Avg => self.add(aggregate, value)?,
            Kind::Min => self.keep(value, Ordering::Less),
            Kind::Max => self.keep(value, Ordering::Greater),
        }
        Ok(())
    }

    fn keep(&mut self, value: Datum<'a>, wanted: Ordering) {
        if self.value.is_null() || value.compare(&self.value) == Some(wanted) {
            self.value = value;
        }
    }

    fn add(&mut self, aggregate: &Aggregate, value: Datum<'a>) -> Result<()> {
        let value = match value {
            Datum::Int2(value) => return self.add_whole(value.into()),
            Datum::Int4(value) => return self.add_whole(value.into()),
            Datum::Int8(value) => return self.add_whole(value.into()),
            // The mean of reals is kept in double precision.
            Datum::Float4(value) if aggregate.kind == Kind::Avg => Datum::Float8(value.into()),
            value => value,
        };
        self.value = match std::mem::take(&mut self.value) {
            Datum::Null => value,
            sum => arithmetic(Operator::Add, sum, value)?,
        };
        Ok(())
    }

    fn add_whole(&mut self, value: i128) -> Result<()> {
        self.whole += value;
        Ok(())
    }

    fn result(self, aggregate: &Aggregate) -> Result<Datum<'a>> {
        if aggregate.kind == Kind::Count {
            return Ok(Datum::Int8(self.count));
        }
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        match (aggregate.kind, aggregate.ty) {
            (Kind::Sum, Type::Int2 | Type::Int4) => i64::try_from(self.whole)
                .map(Datum::Int8)
                .map_err(|_| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range")),
            (Kind::Sum, Type::Int8) => Ok(Datum::Numeric(Numeric::new(self.whole, 0))),
            (Kind::Avg, Type::Int2 | Type::Int4 | Type::Int8) => {
                let sum = Datum::Numeric(Numeric::new(self.whole, 0));
                arithmetic(Operator::Divide, sum, Datum::Numeric(Numeric::from(self.count)))
            }
            (Kind::Avg, Type::Numeric(_)) => {
                arithmetic(Operator::Divide, self.value, Datum::Numeric(Numeric::from(self.count)))
            }
            (Kind::Avg, _) => match self.value {
                Datum::Float8(sum) => Ok(Datum::Float8(sum / self.count as f64)),
                other => Err(Error::bug(format!("avg of {}", other.type_name()))),
            },
            _ => Ok(self.value),
        }
    }
}
