//! Aggregate functions and GROUP BY.

use std::cmp::Ordering;

use model::{Datum, Error, Numeric, Result, SqlState, Type};
use rows::key::{self, KeyColumn};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::exec::ExecContext;
use crate::expr::{Expr, Frame, Operator, arithmetic};
use crate::plan::Order;
use crate::sort_limit::{bytes_of, in_order};
use crate::types::is_text;

/// One aggregate call of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) kind: Kind,
    /// The argument; `None` for `count(*)`.
    pub(crate) of: Option<Expr>,
    /// The argument's type.
    pub(crate) ty: Type,
    pub(crate) distinct: bool,
    /// Delimiter of `string_agg`.
    pub(crate) between: Option<Expr>,
    /// ORDER BY inside the call.
    pub(crate) order: Vec<Order>,
    /// FILTER: rows for which this is not true are ignored.
    pub(crate) filter: Option<Expr>,
    /// The aggregate, if its kind is [`Kind::General`].
    pub(crate) general: Option<Box<General>>,
}

/// An aggregate of crate `scalar`.
#[derive(Clone, Debug)]
pub(crate) struct General {
    pub(crate) call: scalar::Call,
    pub(crate) make: scalar::registry::Aggregate,
    /// Whether rows with a NULL argument are left out.
    pub(crate) is_strict: bool,
    pub(crate) arguments: Vec<Expr>,
    /// Key columns of the arguments, for DISTINCT.
    pub(crate) keys: Vec<KeyColumn>,
    /// Whether the sort keys are arguments too, as in WITHIN GROUP.
    pub(crate) within_group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    /// `string_agg`
    Join,
    /// `bool_and`, `every`
    And,
    /// `bool_or`
    Or,
    /// An aggregate of crate `scalar`.
    General,
}

impl Kind {
    pub(crate) fn from_name(name: &str) -> Option<Kind> {
        Some(match name {
            "count" => Kind::Count,
            "sum" => Kind::Sum,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "avg" => Kind::Avg,
            "string_agg" => Kind::Join,
            "bool_and" | "every" => Kind::And,
            "bool_or" => Kind::Or,
            _ => return None,
        })
    }

    /// The result type for an argument of type `of`; `None` if there is no such aggregate.
    pub(crate) fn result(self, of: Type) -> Option<Type> {
        Some(match (self, of) {
            (Kind::Count, _) => Type::Int8,
            (Kind::Sum, Type::Int2 | Type::Int4) => Type::Int8,
            (Kind::Sum | Kind::Avg, Type::Int8 | Type::Numeric(_)) => Type::Numeric(None),
            (Kind::Avg, Type::Int2 | Type::Int4) => Type::Numeric(None),
            (Kind::Sum, Type::Float4) => Type::Float4,
            (Kind::Sum | Kind::Avg, Type::Float8) | (Kind::Avg, Type::Float4) => Type::Float8,
            (Kind::Min | Kind::Max, Type::Bool | Type::Uuid | Type::Bytes | Type::Json | Type::Other(_)) => {
                return None;
            }
            (Kind::Min | Kind::Max, Type::Varchar(_)) => Type::Text,
            (Kind::Min | Kind::Max, Type::Numeric(_)) => Type::Numeric(None),
            (Kind::Min | Kind::Max, ty) => ty,
            (Kind::Join, ty) if is_text(ty) => Type::Text,
            (Kind::And | Kind::Or, Type::Bool) => Type::Bool,
            (Kind::Sum | Kind::Avg | Kind::Join | Kind::And | Kind::Or | Kind::General, _) => return None,
        })
    }
}

/// Running state of one aggregate in one group.
struct State<'a> {
    /// Rows with a non-NULL argument.
    count: i64,
    /// Sum of integers. `i128` cannot overflow for fewer than 2^64 rows.
    whole: i128,
    /// Sum of other numbers, or the current minimum or maximum.
    value: Datum<'a>,
    /// Encoded values already counted, for DISTINCT.
    seen: FxHashSet<Vec<u8>>,
    /// Input of `string_agg`.
    texts: Vec<Joined<'a>>,
    general: Option<Box<GeneralState<'a>>>,
}

/// State of an aggregate of crate `scalar`.
struct GeneralState<'a> {
    accumulator: Box<dyn scalar::Accumulator>,
    /// Rows that wait until they can be sorted.
    rows: Vec<GeneralRow<'a>>,
    updates: usize,
    /// Bytes of the accumulator that were counted.
    counted: usize,
}

/// One row of an aggregate with DISTINCT or ORDER BY.
struct GeneralRow<'a> {
    keys: Vec<Datum<'a>>,
    /// The encoded arguments, for DISTINCT.
    same: Vec<u8>,
    values: Vec<Datum<'a>>,
}

/// Updates of an accumulator between two looks at its memory.
const UPDATES_PER_COUNT: usize = 64;

impl<'a> GeneralState<'a> {
    fn new(general: &General) -> GeneralState<'a> {
        GeneralState { accumulator: (general.make)(&general.call), rows: Vec::new(), updates: 0, counted: 0 }
    }

    fn take(&mut self, aggregate: &'a Aggregate, general: &'a General, frame: &Frame<'a>) -> Result<()> {
        let mut values = general.arguments.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
        let keys = aggregate.order.iter().map(|one| one.by.eval(frame)).collect::<Result<Vec<_>>>()?;
        let is_null = values.iter().any(Datum::is_null) || general.within_group && keys.iter().any(Datum::is_null);
        if general.is_strict && is_null {
            return Ok(());
        }
        if aggregate.order.is_empty() && !aggregate.distinct {
            return self.update(&values, frame.ctx);
        }
        let mut same = Vec::new();
        if aggregate.distinct {
            for (value, column) in values.iter().zip(&general.keys) {
                key::push(&mut same, column, value)?;
            }
        }
        if general.within_group {
            values.extend_from_slice(&keys);
        }
        let datums = bytes_of(&keys) + bytes_of(&values);
        frame.ctx.keep(size_of::<GeneralRow<'_>>() + same.len() + datums);
        frame.ctx.room(0)?;
        self.rows.push(GeneralRow { keys, same, values });
        Ok(())
    }

    fn update(&mut self, values: &[Datum<'a>], ctx: &ExecContext<'a>) -> Result<()> {
        self.accumulator.update(values, ctx.values()?)?;
        self.updates += 1;
        if self.updates.is_multiple_of(UPDATES_PER_COUNT) {
            let bytes = self.accumulator.heap_size();
            ctx.keep(bytes.saturating_sub(self.counted));
            self.counted = self.counted.max(bytes);
        }
        Ok(())
    }

    fn result(mut self, aggregate: &Aggregate, ctx: &ExecContext<'a>) -> Result<Datum<'a>> {
        let mut rows = std::mem::take(&mut self.rows);
        // DISTINCT sorts by the arguments, as in PostgreSQL.
        rows.sort_by(|a, b| in_order(&aggregate.order, &a.keys, &b.keys).then_with(|| a.same.cmp(&b.same)));
        if aggregate.distinct {
            rows.dedup_by(|a, b| a.same == b.same);
        }
        for row in rows {
            self.update(&row.values, ctx)?;
        }
        self.accumulator.result(ctx.values()?)
    }
}

/// One input of `string_agg`: its sort keys, the delimiter before it, and the text.
struct Joined<'a> {
    keys: Vec<Datum<'a>>,
    before: &'a str,
    text: &'a str,
}

/// Hash aggregation. Groups are returned in the order of their first rows.
pub(crate) struct Groups<'a> {
    by: &'a [Expr],
    columns: Vec<KeyColumn>,
    aggregates: &'a [Aggregate],
    /// Columns functionally dependent on the grouping columns; evaluated once for each group.
    dependent: &'a [Expr],
    places: FxHashMap<Vec<u8>, usize>,
    groups: Vec<Group<'a>>,
    key: Vec<u8>,
}

struct Group<'a> {
    /// Values of the grouping columns.
    values: Vec<Datum<'a>>,
    states: Vec<State<'a>>,
    dependent: Vec<Datum<'a>>,
}

impl<'a> Groups<'a> {
    /// Without GROUP BY there is exactly one group, even for no rows.
    pub(crate) fn new(
        by: &'a [Expr],
        types: &[Type],
        aggregates: &'a [Aggregate],
        dependent: &'a [Expr],
    ) -> Groups<'a> {
        let mut groups = Groups {
            dependent,
            by,
            columns: types.iter().map(|ty| nullable(*ty)).collect(),
            aggregates,
            places: FxHashMap::default(),
            groups: Vec::new(),
            key: Vec::new(),
        };
        if by.is_empty() {
            groups.add(Vec::new(), Vec::new());
        }
        groups
    }

    fn add(&mut self, values: Vec<Datum<'a>>, dependent: Vec<Datum<'a>>) -> usize {
        let states = self.aggregates.iter().map(State::new).collect();
        self.groups.push(Group { values, states, dependent });
        self.groups.len() - 1
    }

    /// Adds the current row to its group.
    pub(crate) fn row(&mut self, frame: &Frame<'a>) -> Result<()> {
        let at = self.place(frame)?;
        for (aggregate, state) in self.aggregates.iter().zip(&mut self.groups[at].states) {
            state.take(aggregate, frame, &mut self.key)?;
        }
        Ok(())
    }

    /// Whether every aggregate has at least one non-NULL input.
    pub(crate) fn has_values(&self) -> bool {
        self.groups.iter().all(|group| group.states.iter().all(|state| state.count > 0))
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
        let dependent = self.dependent.iter().map(|one| one.eval(frame)).collect::<Result<Vec<_>>>()?;
        let states = self.aggregates.len() * size_of::<State<'_>>();
        let values_bytes = bytes_of(&values) + bytes_of(&dependent);
        frame.ctx.keep(self.key.len() + states + values_bytes + size_of::<Group<'_>>() + size_of::<(Vec<u8>, usize)>());
        frame.ctx.room(0)?;
        let at = self.add(values, dependent);
        self.places.insert(self.key.clone(), at);
        Ok(at)
    }

    /// One row for each group: grouping columns, then aggregates, then dependent columns.
    pub(crate) fn results(self, ctx: &'a ExecContext<'a>) -> impl Iterator<Item = Result<Vec<Datum<'a>>>> {
        let aggregates = self.aggregates;
        self.groups.into_iter().map(move |Group { mut values, states, dependent }| {
            for (aggregate, state) in aggregates.iter().zip(states) {
                values.push(state.result(aggregate, ctx)?);
            }
            values.extend(dependent);
            Ok(values)
        })
    }
}

/// The key column by which GROUP BY and DISTINCT compare values; NULL is a value of its own.
pub(crate) fn nullable(ty: Type) -> KeyColumn {
    KeyColumn { ty, nullable: true, descending: false }
}

impl<'a> State<'a> {
    fn new(aggregate: &Aggregate) -> State<'a> {
        let general = aggregate.general.as_deref().map(|general| Box::new(GeneralState::new(general)));
        State { count: 0, whole: 0, value: Datum::Null, seen: FxHashSet::default(), texts: Vec::new(), general }
    }

    fn take(&mut self, aggregate: &'a Aggregate, frame: &Frame<'a>, key: &mut Vec<u8>) -> Result<()> {
        if let Some(filter) = &aggregate.filter
            && !filter.holds(frame)?
        {
            return Ok(());
        }
        if let (Some(state), Some(general)) = (&mut self.general, aggregate.general.as_deref()) {
            return state.take(aggregate, general, frame);
        }
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
            frame.ctx.keep(key.len() + size_of::<Vec<u8>>());
        }
        self.count += 1;
        match aggregate.kind {
            Kind::Count | Kind::General => {}
            Kind::Sum | Kind::Avg => self.add(aggregate, value)?,
            Kind::Min => frame.ctx.keep(self.keep(value, Ordering::Less)),
            Kind::Max => frame.ctx.keep(self.keep(value, Ordering::Greater)),
            // `bool_and` is the minimum: false sorts before true.
            Kind::And => _ = self.keep(value, Ordering::Less),
            Kind::Or => _ = self.keep(value, Ordering::Greater),
            Kind::Join => {
                let keys = aggregate.order.iter().map(|one| one.by.eval(frame)).collect::<Result<Vec<_>>>()?;
                let before = aggregate.between.as_ref().map(|between| between.eval(frame)).transpose()?;
                let before = if let Some(Datum::Text(before)) = before { before } else { "" };
                let Datum::Text(text) = value else { return Err(Error::bug("string_agg of something else")) };
                frame.ctx.keep(size_of::<Joined<'_>>() + bytes_of(&keys));
                self.texts.push(Joined { keys, before, text });
            }
        }
        Ok(())
    }

    /// Keeps the value if it is before or after the one so far, as `wanted` says. Returns the bytes by which the memory of
    /// the group grows.
    fn keep(&mut self, value: Datum<'a>, wanted: Ordering) -> usize {
        if !self.value.is_null() && value.compare(&self.value) != Some(wanted) {
            return 0;
        }
        let grown = value.heap_size().saturating_sub(self.value.heap_size());
        self.value = value;
        grown
    }

    fn add(&mut self, aggregate: &Aggregate, value: Datum<'a>) -> Result<()> {
        let value = match value {
            Datum::Int2(value) => return self.add_whole(value.into()),
            Datum::Int4(value) => return self.add_whole(value.into()),
            Datum::Int8(value) => return self.add_whole(value.into()),
            // PostgreSQL averages `real` in double precision.
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

    /// Concatenates the inputs in order; the first delimiter is left out.
    fn text(mut self, aggregate: &Aggregate, ctx: &ExecContext<'a>) -> Result<Datum<'a>> {
        self.texts.sort_by(|a, b| in_order(&aggregate.order, &a.keys, &b.keys));
        let bytes = self.texts.iter().map(|one| one.before.len() + one.text.len()).sum();
        ctx.room(bytes)?;
        let mut all = bumpalo::collections::String::with_capacity_in(bytes, ctx.arena);
        for (at, one) in self.texts.iter().enumerate() {
            if at > 0 {
                all.push_str(one.before);
            }
            all.push_str(one.text);
        }
        Ok(Datum::Text(all.into_bump_str()))
    }

    fn result(self, aggregate: &Aggregate, ctx: &ExecContext<'a>) -> Result<Datum<'a>> {
        if let Some(general) = self.general {
            return general.result(aggregate, ctx);
        }
        if aggregate.kind == Kind::Count {
            return Ok(Datum::Int8(self.count));
        }
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        match (aggregate.kind, aggregate.ty) {
            (Kind::Join, _) => self.text(aggregate, ctx),
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
