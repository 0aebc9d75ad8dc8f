//! The choice among candidates of one name, by PostgreSQL's rules (its manual, chapter 10, "Type Conversion").

use crate::cast::CastContext;
use crate::tables::Catalog;
use crate::types::{STRING, TypeId};

/// An operator or function with the types of its parameters.
pub(crate) struct Candidate<T> {
    pub(crate) item: T,
    pub(crate) parameters: Vec<TypeId>,
}

/// Reason that no candidate was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No candidate takes these arguments.
    None,
    /// Several candidates take them equally well.
    Ambiguous,
}

impl Catalog {
    /// The candidate that takes arguments of types `given` best.
    pub(crate) fn choose<T>(&self, given: &[TypeId], candidates: Vec<Candidate<T>>) -> Result<Candidate<T>, Failure> {
        let mut left: Vec<Candidate<T>> = candidates
            .into_iter()
            .filter(|one| self.can_coerce(given, &one.parameters, CastContext::Implicit))
            .collect();
        if left.is_empty() {
            return Err(Failure::None);
        }
        let given: Vec<TypeId> = given.iter().map(|ty| self.base_type(*ty)).collect();
        // Each step changes nothing once one candidate is left.
        keep_best(&mut left, |one| self.exact(&given, one));
        keep_best(&mut left, |one| self.exact_or_preferred(&given, one));
        self.resolve_unknown(&given, &mut left);
        self.assume_one_type(&given, &mut left);
        match left.len() {
            1 => left.pop().ok_or(Failure::None),
            _ => Err(Failure::Ambiguous),
        }
    }

    fn exact<T>(&self, given: &[TypeId], one: &Candidate<T>) -> usize {
        given.iter().zip(&one.parameters).filter(|(given, ty)| **given != TypeId::UNKNOWN && given == ty).count()
    }

    fn exact_or_preferred<T>(&self, given: &[TypeId], one: &Candidate<T>) -> usize {
        let counts = |(given, ty): &(&TypeId, &TypeId)| {
            **given != TypeId::UNKNOWN && (given == ty || self.is_preferred(**ty, self.category(**given)))
        };
        given.iter().zip(&one.parameters).filter(counts).count()
    }

    /// Literals of unknown type are of the category that the candidates agree on, or text if one takes it there.
    fn resolve_unknown<T>(&self, given: &[TypeId], left: &mut Vec<Candidate<T>>) {
        let mut wanted = Vec::new();
        for at in (0..given.len()).filter(|at| given[*at] == TypeId::UNKNOWN) {
            let Some((category, has_preferred)) = self.slot(left, at) else { return };
            wanted.push((at, category, has_preferred));
        }
        let fits = |one: &Candidate<T>| {
            wanted.iter().all(|(at, category, has_preferred)| {
                let ty = one.parameters[*at];
                let row = self.type_row(ty);
                row.is_some_and(|row| row.category == *category && (row.is_preferred || !has_preferred))
            })
        };
        if left.iter().any(fits) {
            left.retain(fits);
        }
    }

    /// Category of the candidates' parameters at a place, and whether one has the preferred type; `None` if they differ.
    fn slot<T>(&self, candidates: &[Candidate<T>], at: usize) -> Option<(u8, bool)> {
        let (mut category, mut has_preferred, mut conflict) = (0, false, false);
        for row in candidates.iter().filter_map(|one| self.type_row(one.parameters[at])) {
            if category == 0 {
                (category, has_preferred) = (row.category, row.is_preferred);
            } else if row.category == category {
                has_preferred |= row.is_preferred;
            } else if row.category == STRING {
                (category, has_preferred) = (STRING, row.is_preferred);
            } else {
                conflict = true;
            }
        }
        (!conflict || category == STRING).then_some((category, has_preferred))
    }

    /// If all known arguments are of one type, those of unknown type are tried as that.
    fn assume_one_type<T>(&self, given: &[TypeId], left: &mut Vec<Candidate<T>>) {
        let mut known = given.iter().filter(|ty| **ty != TypeId::UNKNOWN);
        let (Some(ty), true) = (known.next(), given.contains(&TypeId::UNKNOWN)) else { return };
        if known.any(|other| other != ty) {
            return;
        }
        let assumed = vec![*ty; given.len()];
        let takes = |one: &Candidate<T>| self.can_coerce(&assumed, &one.parameters, CastContext::Implicit);
        if left.iter().filter(|one| takes(one)).count() == 1 {
            left.retain(takes);
        }
    }
}

fn keep_best<T>(left: &mut Vec<Candidate<T>>, score: impl Fn(&Candidate<T>) -> usize) {
    let best = left.iter().map(&score).max().unwrap_or(0);
    left.retain(|one| score(one) == best);
}
