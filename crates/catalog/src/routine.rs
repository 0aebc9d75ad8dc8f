//! Resolution of calls among functions of users and those of the catalog.

use model::Result;

use crate::function::{FunctionCall, places};
use crate::select::{Candidate, Failure};
use crate::tables::Catalog;
use crate::types::TypeId;

/// Parameters and result of a function of a user.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Types of the input parameters.
    pub parameters: Vec<TypeId>,
    /// Names of the input parameters; empty without one.
    pub names: Vec<Box<str>>,
    /// Number of parameters with defaults, which are the last ones.
    pub defaults: usize,
    /// Element type of the last parameter, if it is VARIADIC.
    pub variadic: Option<TypeId>,
    /// Type of the result.
    pub result: TypeId,
}

/// A call of a function of a user.
#[derive(Clone, Debug)]
pub struct RoutineMatch {
    /// Number of the function among those given.
    pub routine: usize,
    /// Types of the parameters in this call.
    pub parameters: Vec<TypeId>,
    /// For each parameter, the argument that is its value; `None` is the default.
    pub values: Vec<Option<usize>>,
    /// The first of the values that are packed into an array, for a VARIADIC parameter.
    pub packed: Option<usize>,
    /// Type of the result.
    pub result: TypeId,
}

/// A candidate: `None` is a function of the catalog.
struct Fit {
    routine: Option<usize>,
    values: Vec<Option<usize>>,
    packed: Option<usize>,
}

impl Catalog {
    /// The function of a user that a call means; `None` if it means one of the catalog, or none at all.
    ///
    /// - `has_builtin`: whether functions of the catalog are candidates; they hide those with the same parameters.
    ///
    /// # Errors
    /// 42725 if several fit equally well; 42804 if polymorphic parameters do not fit.
    pub fn routine(
        &self,
        call: &FunctionCall<'_>,
        routines: &[&Signature],
        has_builtin: bool,
    ) -> Result<Option<RoutineMatch>> {
        let mut candidates: Vec<Candidate<Fit>> = Vec::new();
        if has_builtin {
            candidates.extend(self.candidate_types(call).into_iter().map(|(values, parameters)| Candidate {
                item: Fit { routine: None, values, packed: None },
                parameters,
            }));
        }
        for (number, routine) in routines.iter().enumerate() {
            let position = |name: &str| routine.names.iter().position(|other| &**other == name);
            let found = places(routine.parameters.len(), routine.defaults, routine.variadic, &position, call);
            let Some((values, packed)) = found else { continue };
            let given = values.iter().enumerate().filter(|(_, value)| value.is_some());
            let parameters: Vec<TypeId> = given
                .map(|(at, _)| match (packed, routine.variadic) {
                    (Some(packed), Some(element)) if at >= packed => element,
                    _ => routine.parameters[at],
                })
                .collect();
            let same = candidates.iter().position(|other| other.parameters == parameters);
            let fit = Fit { routine: Some(number), values, packed };
            match same {
                Some(at) if candidates[at].item.packed.is_some() && fit.packed.is_none() => {
                    candidates[at] = Candidate { item: fit, parameters };
                }
                // Both need defaults: neither is better.
                Some(at)
                    if candidates[at].item.routine.is_some()
                        && fit.packed.is_none()
                        && candidates[at].item.values.contains(&None)
                        && fit.values.contains(&None) =>
                {
                    return Err(self.no_function(Failure::Ambiguous, call));
                }
                Some(at) if candidates[at].item.values.contains(&None) && !fit.values.contains(&None) => {
                    candidates[at] = Candidate { item: fit, parameters };
                }
                Some(_) => {}
                None => candidates.push(Candidate { item: fit, parameters }),
            }
        }
        if candidates.iter().all(|one| one.item.routine.is_none()) {
            return Ok(None);
        }
        let exact = candidates.iter().position(|one| {
            let given = one.item.values.iter().flatten().map(|at| call.arguments[*at]);
            given.eq(one.parameters.iter().copied())
        });
        let chosen = match exact {
            Some(at) => candidates.into_iter().nth(at).ok_or(Failure::None),
            None if call.names.is_empty() => self.choose(call.arguments, candidates),
            None => self.choose_named(call, candidates, |fit| &fit.values),
        };
        let fit = match chosen {
            Ok(one) => one,
            Err(Failure::None) => return Ok(None),
            Err(failure) => return Err(self.no_function(failure, call)),
        };
        let Candidate { item: Fit { routine: Some(number), values, packed }, parameters: declared } = fit else {
            return Ok(None);
        };
        let routine = routines[number];
        let given: Vec<TypeId> = values.iter().flatten().map(|at| call.arguments[*at]).collect();
        let (types, result) = self.resolve_polymorphic(&given, &declared, routine.result)?;
        let mut types = types.into_iter();
        let parameters = values.iter().enumerate().map(|(at, value)| match value {
            Some(_) => types.next().unwrap_or(TypeId::UNKNOWN),
            None => routine.parameters[at],
        });
        Ok(Some(RoutineMatch { routine: number, parameters: parameters.collect(), values, packed, result }))
    }

    /// The type that a polymorphic type stands for in a call with arguments `given` for parameters `declared`.
    ///
    /// # Errors
    /// 42804 if the parameters do not fit.
    pub fn polymorphic(&self, given: &[TypeId], declared: &[TypeId], ty: TypeId) -> Result<TypeId> {
        self.resolve_polymorphic(given, declared, ty).map(|resolved| resolved.1)
    }
}
