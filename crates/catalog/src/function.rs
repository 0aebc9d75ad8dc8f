//! Resolution of functions.

use model::{Error, Result, SqlState};

use crate::cast::{Cast, CastContext};
use crate::select::{Candidate, Failure};
use crate::tables::{Catalog, Function};
use crate::types::{STRING, TypeId, TypeKind};

/// A call as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionCall<'a> {
    /// Name, without schema.
    pub name: &'a str,
    /// Types of the arguments in the order written; literals are of [`TypeId::UNKNOWN`].
    pub arguments: &'a [TypeId],
    /// Names of the last arguments, for `name => value`.
    pub names: &'a [&'a str],
    /// Whether the last argument is VARIADIC: an array in place of the last parameters.
    pub variadic: bool,
}

/// The meaning of a call.
#[derive(Clone, Debug)]
pub enum Resolved<'a> {
    /// A function.
    Function {
        /// The function.
        function: &'a Function,
        /// Types that its parameters have in this call, one for each value that it is given.
        parameters: Vec<TypeId>,
        /// For each of these values, the argument that is it; `None` is the parameter's default.
        values: Vec<Option<usize>>,
        /// The first of the values that are packed into an array, for a VARIADIC parameter.
        packed: Option<usize>,
        /// Type of the result.
        result: TypeId,
    },
    /// A type's name as a function: a cast.
    Cast(TypeId),
}

/// A function as candidate: the arguments for its parameters.
struct Fit<'a> {
    function: &'a Function,
    values: Vec<Option<usize>>,
    packed: Option<usize>,
}

impl Catalog {
    /// The function that a call means.
    ///
    /// # Errors
    /// 42883 if there is none, 42725 if several fit equally well, 42804 if polymorphic parameters do not fit.
    pub fn function(&self, call: &FunctionCall<'_>) -> Result<Resolved<'_>> {
        let candidates = self.candidates(call);
        let exact = candidates.iter().position(|one| {
            // A default takes part in no comparison of types.
            let given = one.item.values.iter().flatten().map(|at| call.arguments[*at]);
            given.eq(one.parameters.iter().copied())
        });
        let chosen = match exact {
            Some(at) => candidates.into_iter().nth(at).ok_or(Failure::None),
            None => {
                if let Some(target) = self.as_cast(call) {
                    return Ok(Resolved::Cast(target));
                }
                self.choose_function(call, candidates)
            }
        };
        let fit = chosen.map_err(|failure| self.no_function(failure, call))?.item;
        self.resolved(call, fit)
    }

    fn choose_function<'a>(
        &'a self,
        call: &FunctionCall<'_>,
        candidates: Vec<Candidate<Fit<'a>>>,
    ) -> std::result::Result<Candidate<Fit<'a>>, Failure> {
        // Named arguments stand in another order in each candidate; those are compared one by one.
        if call.names.is_empty() {
            return self.choose(call.arguments, candidates);
        }
        self.choose_named(call, candidates, |fit| &fit.values)
    }

    /// The only candidate that a call with named arguments fits.
    pub(crate) fn choose_named<T>(
        &self,
        call: &FunctionCall<'_>,
        candidates: Vec<Candidate<T>>,
        values: impl Fn(&T) -> &[Option<usize>],
    ) -> std::result::Result<Candidate<T>, Failure> {
        let fits = |one: &Candidate<T>| {
            let given: Vec<TypeId> = values(&one.item).iter().flatten().map(|at| call.arguments[*at]).collect();
            self.can_coerce(&given, &one.parameters, CastContext::Implicit)
        };
        let mut fitting = candidates.into_iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Failure::None),
            (Some(_), Some(_)) => Err(Failure::Ambiguous),
        }
    }

    /// The arguments and parameter types of the functions of the catalog that take so many arguments.
    pub(crate) fn candidate_types(&self, call: &FunctionCall<'_>) -> Vec<(Vec<Option<usize>>, Vec<TypeId>)> {
        self.candidates(call).into_iter().map(|one| (one.item.values, one.parameters)).collect()
    }

    /// Functions of the name that take so many arguments; of two with the same types the one without VARIADIC.
    fn candidates(&self, call: &FunctionCall<'_>) -> Vec<Candidate<Fit<'_>>> {
        let mut found: Vec<Candidate<Fit<'_>>> = Vec::new();
        for function in self.functions_named(call.name) {
            let Some(fit) = fit(function, call) else { continue };
            let parameters = given_parameters(&fit);
            let same = found.iter().position(|other| other.parameters == parameters);
            match same {
                Some(at) if found[at].item.packed.is_some() && fit.packed.is_none() => {
                    found[at] = Candidate { item: fit, parameters };
                }
                Some(_) => {}
                None => found.push(Candidate { item: fit, parameters }),
            }
        }
        found
    }

    fn resolved<'a>(&'a self, call: &FunctionCall<'_>, fit: Fit<'a>) -> Result<Resolved<'a>> {
        let declared = given_parameters(&fit);
        let given: Vec<TypeId> = fit.values.iter().flatten().map(|at| call.arguments[*at]).collect();
        let (types, result) = self.resolve_polymorphic(&given, &declared, fit.function.result)?;
        let mut types = types.into_iter();
        let parameters = fit.values.iter().enumerate().map(|(at, value)| match value {
            Some(_) => types.next().unwrap_or(TypeId::UNKNOWN),
            None => fit.function.parameters[at],
        });
        Ok(Resolved::Function {
            parameters: parameters.collect(),
            values: fit.values,
            packed: fit.packed.filter(|_| fit.function.variadic != Some(TypeId::ANY)),
            function: fit.function,
            result,
        })
    }

    /// The type whose name is called as a function, if that is a cast.
    fn as_cast(&self, call: &FunctionCall<'_>) -> Option<TypeId> {
        let ([from], []) = (call.arguments, call.names) else { return None };
        let target = self.type_named(call.name)?;
        if *from == TypeId::UNKNOWN {
            return Some(target);
        }
        let is_row = *from == TypeId::RECORD || self.kind(*from) == TypeKind::Composite;
        match self.cast(*from, target, CastContext::Explicit)? {
            Cast::Relabel => Some(target),
            Cast::Text => (!(is_row && self.category(target) == STRING)).then_some(target),
            Cast::Function(_) | Cast::Elements(_) => None,
        }
    }

    pub(crate) fn no_function(&self, failure: Failure, call: &FunctionCall<'_>) -> Error {
        let first_named = call.arguments.len() - call.names.len();
        let argument = |(at, ty): (usize, &TypeId)| match at.checked_sub(first_named) {
            Some(named) => format!("{} => {}", call.names[named], self.type_name(*ty)),
            None => self.type_name(*ty),
        };
        let arguments: Vec<String> = call.arguments.iter().enumerate().map(argument).collect();
        let text = format!("function {}({})", call.name, arguments.join(", "));
        match failure {
            Failure::None => {
                let hint =
                    "No function matches the given name and argument types. You might need to add explicit type casts.";
                Error::new(SqlState::UNDEFINED_FUNCTION, format!("{text} does not exist")).with_hint(hint)
            }
            Failure::Ambiguous => {
                let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
                Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("{text} is not unique")).with_hint(hint)
            }
        }
    }
}

/// The arguments for a function's parameters, if it takes so many.
fn fit<'a>(function: &'a Function, call: &FunctionCall<'_>) -> Option<Fit<'a>> {
    let position = |name: &str| function.parameter_names.iter().position(|other| *other == name);
    let (wanted, defaults) = (function.parameters.len(), function.defaults.len());
    let (values, packed) = places(wanted, defaults, function.variadic, &position, call)?;
    Some(Fit { function, values, packed })
}

/// For each parameter, the argument that is its value, and the first that is packed into an array for a VARIADIC one.
type Places = (Vec<Option<usize>>, Option<usize>);

/// The arguments for so many parameters, of which the last ones have defaults; `None` if they do not fit.
///
/// - `position`: the number of the parameter of a name.
pub(crate) fn places(
    wanted: usize,
    defaults: usize,
    variadic: Option<TypeId>,
    position: &dyn Fn(&str) -> Option<usize>,
    call: &FunctionCall<'_>,
) -> Option<Places> {
    let count = call.arguments.len();
    let all = |packed| Some(((0..count).map(Some).collect(), packed));
    if !call.names.is_empty() {
        return named(wanted, defaults, variadic, position, call);
    }
    if call.variadic {
        return if variadic.is_some() && count == wanted { all(None) } else { None };
    }
    if variadic.is_some() && count >= wanted {
        return all(Some(wanted - 1));
    }
    if count == wanted {
        return all(None);
    }
    let values = (0..wanted).map(|at| (at < count).then_some(at)).collect();
    (count < wanted && count + defaults >= wanted).then_some((values, None))
}

fn named(
    wanted: usize,
    defaults: usize,
    variadic: Option<TypeId>,
    position: &dyn Fn(&str) -> Option<usize>,
    call: &FunctionCall<'_>,
) -> Option<Places> {
    let first_named = call.arguments.len().checked_sub(call.names.len())?;
    if first_named > wanted || variadic.is_some() {
        return None;
    }
    let mut values: Vec<Option<usize>> = (0..wanted).map(|at| (at < first_named).then_some(at)).collect();
    for (at, name) in call.names.iter().enumerate() {
        let place = position(name)?;
        if values[place].is_some() {
            return None;
        }
        values[place] = Some(first_named + at);
    }
    let first_default = wanted - defaults;
    let complete = values.iter().enumerate().all(|(at, value)| value.is_some() || at >= first_default);
    complete.then_some((values, None))
}

/// Types of the parameters that are given, a VARIADIC one once for each argument.
fn given_parameters(fit: &Fit<'_>) -> Vec<TypeId> {
    let values = fit.values.iter().enumerate().filter(|(_, value)| value.is_some());
    values
        .map(|(at, _)| match (fit.packed, fit.function.variadic) {
            (Some(packed), Some(element)) if at >= packed => element,
            _ => fit.function.parameters[at],
        })
        .collect()
}
