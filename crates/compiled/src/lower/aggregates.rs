//! GROUP BY and aggregates.

use binder::tree::AggregateCall;
use catalog::builtin;
use model::Type;
use scalar::Expr as Bound;

use super::expressions::hidden_length;
use super::natives::plain;
use super::{Asks, Definition, Lower, Lowering, refused};
use crate::aggregate::{Aggregate, General, Kind, nullable};
use crate::expr::Expr;
use crate::select::Grouping;

impl Lowering<'_> {
    /// The groups of the current query; defines the columns that they have.
    pub(super) fn grouping(&mut self, keys: &[(u32, Bound)], calls: &[(u32, AggregateCall)]) -> Lower<Grouping> {
        let mut groups = Grouping::default();
        let mut values = Vec::with_capacity(keys.len());
        for (column, key) in keys {
            let ty = self.ordered(key.ty, "GROUP BY of")?;
            let expr = self.expr(key)?;
            if expr.is_volatile() {
                return refused("GROUP BY of a volatile function");
            }
            let length = hidden_length(key);
            if length >= 0 {
                self.padded.push((*column, length));
            }
            values.push((*column, expr, ty));
        }
        for (column, call) in calls {
            let aggregate = self.aggregate(call)?;
            // The padding of char(n) is that of the argument.
            if let (Kind::Min | Kind::Max, [of]) = (aggregate.kind, call.arguments.as_slice())
                && matches!(plain(of.ty), Some(Type::Char(_)))
                && of.typmod >= 0
            {
                self.padded.push((*column, of.typmod));
            }
            groups.aggregates.push(aggregate);
        }
        let level = self.level();
        let is_dependent: Vec<bool> = values.iter().map(|(_, key, _)| self.is_dependent(key, &values)).collect();
        let values = values.into_iter().zip(is_dependent);
        let (dependent, own): (Vec<_>, Vec<_>) = values.partition(|(_, is_dependent)| *is_dependent);
        let mut order: Vec<u32> = own.iter().map(|((column, ..), _)| *column).collect();
        order.extend(calls.iter().map(|(column, _)| *column));
        order.extend(dependent.iter().map(|((column, ..), _)| *column));
        for ((_, key, ty), _) in own {
            groups.by.push(key);
            groups.types.push(ty);
        }
        groups.dependent = dependent.into_iter().map(|((_, key, _), _)| key).collect();
        for (at, column) in order.into_iter().enumerate() {
            self.definitions[column as usize] = Some(Definition::Computed { level, at });
        }
        Ok(groups)
    }

    /// Whether a key has one value for each value of a primary key among the other keys.
    fn is_dependent(&self, key: &Expr, keys: &[(u32, Expr, Type)]) -> bool {
        let Expr::Field { slot, column, .. } = key else { return false };
        let source = &self.levels[self.level()].sources[*slot];
        let Some(primary) = &source.table.primary else { return false };
        let columns = &primary.def().columns;
        let is_it = |one: &Expr, wanted: usize| match one {
            Expr::Field { slot: of, column, .. } => (*of, *column) == (*slot, wanted),
            _ => false,
        };
        !columns.contains(column) && columns.iter().all(|wanted| keys.iter().any(|(_, one, _)| is_it(one, *wanted)))
    }

    fn aggregate(&mut self, call: &AggregateCall) -> Lower<Aggregate> {
        let filter = call.filter.as_ref().map(|filter| self.expr(filter)).transpose()?;
        let order = self.order(&call.order_by, &[])?;
        let mut made = Aggregate {
            kind: Kind::Count,
            of: None,
            ty: Type::Bool,
            distinct: call.distinct,
            between: None,
            order,
            filter,
            general: None,
        };
        match (self.kind(call), call.arguments.as_slice()) {
            (Some(Kind::Count), []) => {}
            (Some(Kind::Join), [of, between]) => {
                (made.kind, made.ty) = (Kind::Join, Type::Text);
                made.of = Some(self.expr(of)?);
                made.between = Some(self.expr(between)?);
            }
            (Some(kind), [of]) => {
                made.kind = kind;
                made.of = Some(self.expr(of)?);
                made.ty = match call.distinct {
                    true => self.ordered(of.ty, "DISTINCT of")?,
                    false => plain(of.ty).unwrap_or(Type::Text),
                };
            }
            _ => {
                made.kind = Kind::General;
                made.general = Some(Box::new(self.general(call)?));
            }
        }
        Ok(made)
    }

    /// The kind of an aggregate that the executor has itself.
    fn kind(&self, call: &AggregateCall) -> Option<Kind> {
        let kind = Kind::from_name(builtin().function_row(call.call.function)?.name)?;
        let of = match call.arguments.as_slice() {
            [] => return (kind == Kind::Count).then_some(kind),
            [of, ..] => plain(of.ty),
        };
        match kind {
            Kind::Count => Some(kind),
            // DISTINCT sorts the texts.
            Kind::Join => (of == Some(Type::Text) && !call.distinct).then_some(kind),
            _ => of.and_then(|ty| kind.result(ty)).map(|_| kind),
        }
    }

    fn general(&mut self, call: &AggregateCall) -> Lower<General> {
        self.parts.asks |= Asks::Facts;
        let row = builtin().function_row(call.call.function);
        let name = row.map_or("?", |row| row.name);
        let Some(make) = scalar::aggregate(call.call.function) else {
            return refused(format!("aggregate {name}"));
        };
        let mut arguments = Vec::with_capacity(call.arguments.len());
        let mut keys = Vec::new();
        for argument in &call.arguments {
            if call.distinct {
                keys.push(nullable(self.ordered(argument.ty, "DISTINCT of")?));
            }
            arguments.push(self.argument(argument, true)?);
        }
        let is_strict = row.is_some_and(|row| row.is_strict);
        Ok(General { call: call.call.clone(), make, is_strict, arguments, keys, within_group: call.within_group })
    }
}
