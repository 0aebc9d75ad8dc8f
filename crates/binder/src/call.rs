//! Calls of functions.

use catalog::{Aggregate, CastContext, Function, FunctionKind, Resolved, TypeId};
use model::{Result, SqlState};
use parser::ast::{self, ExprKind as Ast, FunctionCall, Pos};
use scalar::{Call, Expr, ExprKind, Place};

use crate::binder::{Binder, at_place, error, unsupported};
use crate::name::named_row;
use crate::routine::Inlined;
use crate::scope::{Clause, Scope};
use crate::tree::SortKey;

/// Maximum number of arguments, as in PostgreSQL.
const ARGUMENTS_MAX: usize = 100;

impl Binder<'_> {
    pub(crate) fn function(&mut self, scope: &Scope<'_>, written: &FunctionCall) -> Result<Expr> {
        let at = written.at;
        let name = meant_name(written);
        if written.args.len() > ARGUMENTS_MAX {
            let text = format!("cannot pass more than {ARGUMENTS_MAX} arguments to a function");
            return Err(error(SqlState("54023"), text, at));
        }
        let is_aggregate = |function: &Function| matches!(function.kind, FunctionKind::Aggregate(_));
        let aggregates = self.catalog.functions_named(name).any(is_aggregate);
        let clause = match &written.over {
            // A definition has neither, and its errors name it.
            _ if scope.clause.get().definition().is_some() => scope.clause.get(),
            Some(_) => Clause::WindowArgument,
            None if aggregates => Clause::AggregateArgument,
            None => scope.clause.get(),
        };
        let (arguments, names, order_by) = self.in_clause(scope, clause, |binder| {
            let (arguments, names) = binder.arguments(scope, written)?;
            // A default is bound without its table, whose columns these may name.
            if clause == Clause::Default && aggregates && has_more_clauses(written) {
                binder.check_aggregate_clause(scope, scope, at)?;
            }
            Ok((arguments, names, binder.sort_keys(scope, &written.order_by)?))
        })?;
        // The sort keys of WITHIN GROUP are arguments too.
        let sorted = if written.within_group { order_by.as_slice() } else { &[] };
        let types: Vec<TypeId> =
            arguments.iter().chain(sorted.iter().map(|key| &key.expr)).map(|expr| expr.ty).collect();
        if written.over.is_none()
            && let Some(expr) = self.routine_call(scope, written, &arguments, &names)?
        {
            return Ok(expr);
        }
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let written_name = written.name.name.as_str();
        if WINDOW_NAMES.contains(&written_name) {
            return Err(self.no_function(written.name.schema(), written_name, &types, at));
        }
        let call = catalog::FunctionCall { name, arguments: &types, names: &names, variadic: written.variadic };
        let resolved = match self.catalog.function(&call) {
            Ok(Resolved::Function { function, .. }) if !is_in_schema(function, written.name.schema()) => {
                return Err(self.no_function(written.name.schema(), name, &types, at));
            }
            Err(_) if name != written_name => {
                return Err(self.no_function(written.name.schema(), written_name, &types, at));
            }
            Err(error) if written.name.schema().is_some_and(|schema| schema != "pg_catalog") => {
                let unknown = self.no_function(written.name.schema(), name, &types, at);
                return Err(if error.state() == unknown.state() { unknown } else { at_place(error, Place(at.0)) });
            }
            resolved => resolved.map_err(|error| at_place(error, Place(at.0)))?,
        };
        match resolved {
            Resolved::Cast(ty) => {
                self.check_plain(written)?;
                let value = arguments.into_iter().next();
                let value = value.ok_or_else(|| unsupported("a cast without a value", at))?;
                self.cast(value, ty, -1, CastContext::Explicit, Place(at.0))
            }
            Resolved::Function { function, parameters, values, packed, result } => {
                let fit = Fit { function, parameters, values, packed, result };
                self.resolved(scope, written, fit, arguments, order_by)
            }
        }
    }

    /// The error for a function that a schema does not have.
    fn no_function(&self, schema: Option<&str>, name: &str, types: &[TypeId], at: Pos) -> model::Error {
        let types: Vec<String> = types.iter().map(|ty| self.type_name(*ty)).collect();
        let shown = schema.map_or(name.to_owned(), |schema| format!("{schema}.{name}"));
        let text = format!("function {shown}({}) does not exist", types.join(", "));
        error(SqlState::UNDEFINED_FUNCTION, text, at).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )
    }

    /// Names and types of the columns of a function's rows. Polymorphic ones have the type of the first argument.
    fn out_columns(&self, function: &Function, call: &Call) -> Vec<(Box<str>, TypeId)> {
        let first = call.arguments.first().copied().unwrap_or(TypeId::UNKNOWN);
        let resolved = |ty: TypeId| match ty {
            TypeId::ANYARRAY => first,
            TypeId::ANYELEMENT | TypeId::ANYNONARRAY => self.catalog.element_of(first).unwrap_or(first),
            ty => ty,
        };
        function.columns.iter().map(|(name, ty)| (Box::from(*name), resolved(*ty))).collect()
    }

    /// Names and types of the columns of the rows that a call returns.
    pub(crate) fn call_columns(&self, call: &Call) -> Vec<(Box<str>, TypeId)> {
        match self.catalog.function_row(call.function) {
            Some(row) => self.out_columns(row, call),
            None => self.routine_columns(call).into_iter().map(|(name, ty, _)| (name, ty)).collect(),
        }
    }

    /// A call of a function by its name alone, as other syntax means it.
    pub(crate) fn plain_call(&mut self, name: &'static str, arguments: Vec<Expr>, at: Pos) -> Result<Expr> {
        let (call, arguments) = self.named_call(name, arguments, at)?;
        let ty = call.result;
        Ok(Expr::new(ExprKind::Call(Box::new(call), arguments), ty, Place(at.0)))
    }

    /// A function by its name alone, and its converted arguments.
    pub(crate) fn named_call(
        &mut self,
        name: &'static str,
        arguments: Vec<Expr>,
        at: Pos,
    ) -> Result<(Call, Vec<Expr>)> {
        let types: Vec<TypeId> = arguments.iter().map(|expr| expr.ty).collect();
        let call = catalog::FunctionCall { name, arguments: &types, ..Default::default() };
        match self.catalog.function(&call).map_err(|error| at_place(error, Place(at.0)))? {
            Resolved::Function { function, parameters, values, packed, result } => {
                let fit = Fit { function, parameters, values, packed, result };
                self.converted_arguments(&fit, arguments, at)
            }
            Resolved::Cast(_) => Err(unsupported("this function", at)),
        }
    }

    /// Arguments, and names of the last ones.
    pub(crate) fn arguments(
        &mut self,
        scope: &Scope<'_>,
        written: &FunctionCall,
    ) -> Result<(Vec<Expr>, Vec<ast::Ident>)> {
        let mut arguments = Vec::with_capacity(written.args.len());
        let mut names: Vec<ast::Ident> = Vec::new();
        for argument in &written.args {
            let at = argument.at;
            match &argument.kind {
                Ast::NamedArgument(named) => {
                    if names.contains(&named.name) {
                        let text = format!("argument name \"{}\" used more than once", named.name);
                        return Err(error(SqlState::SYNTAX_ERROR, text, at));
                    }
                    names.push(named.name.clone());
                    arguments.push(self.expr(scope, &named.value)?);
                }
                _ if !names.is_empty() => {
                    let text = "positional argument cannot follow named argument";
                    return Err(error(SqlState::SYNTAX_ERROR, text, at));
                }
                Ast::Wildcard(qualifier) => {
                    let columns = self.star(scope, qualifier, at)?;
                    // A variable is no source.
                    let source = self.qualified_source(scope, qualifier, at);
                    let is_nullable = !qualifier.is_empty() && source.is_ok_and(|source| source.is_nullable);
                    arguments.push(named_row(columns, is_nullable, at));
                }
                // JDBC's `{? = call f(?)}` declares a parameter for the result, which is none of the call's.
                Ast::Parameter(number) if self.is_void(*number) => {}
                _ => arguments.push(self.expr(scope, argument)?),
            }
        }
        Ok((arguments, names))
    }

    /// Whether a parameter, counted from 1, is declared `void`.
    fn is_void(&self, number: u32) -> bool {
        let at = (number as usize).checked_sub(1);
        at.and_then(|at| self.parameters.get(at)) == Some(&Some(TypeId::VOID))
    }

    /// A function that is neither an aggregate nor a window function is called without their clauses.
    pub(crate) fn check_plain(&self, written: &FunctionCall) -> Result<()> {
        let name = &written.name.name;
        let at = written.at;
        let wrong = |text: String| Err(error(SqlState::WRONG_OBJECT_TYPE, text, at));
        if written.star {
            return wrong(format!("{name}(*) specified, but {name} is not an aggregate function"));
        }
        if written.distinct {
            return wrong(format!("DISTINCT specified, but {name} is not an aggregate function"));
        }
        if written.within_group {
            return wrong(format!("WITHIN GROUP specified, but {name} is not an aggregate function"));
        }
        if !written.order_by.is_empty() {
            return wrong(format!("ORDER BY specified, but {name} is not an aggregate function"));
        }
        if written.filter.is_some() {
            return wrong(format!("FILTER specified, but {name} is not an aggregate function"));
        }
        if written.over.is_some() {
            return wrong(format!("OVER specified, but {name} is not a window function nor an aggregate function"));
        }
        Ok(())
    }

    fn resolved(
        &mut self,
        scope: &Scope<'_>,
        written: &FunctionCall,
        fit: Fit<'_>,
        arguments: Vec<Expr>,
        mut order_by: Vec<SortKey>,
    ) -> Result<Expr> {
        let at = written.at;
        let function = fit.function;
        let name = &written.name.name;
        let wrong = |text: String| Err(error(SqlState::WRONG_OBJECT_TYPE, text, at));
        let arguments =
            if written.variadic && function.variadic == Some(TypeId::ANY) { spread(arguments, at)? } else { arguments };
        let direct = arguments.len();
        let mut all = arguments;
        if written.within_group {
            all.extend(order_by.iter().map(|key| key.expr.clone()));
        }
        let fit = fit.of(all.len());
        let (mut call, mut arguments) = self.converted_arguments(&fit, all, at)?;
        match function.kind {
            FunctionKind::Scalar => {
                self.check_plain(written)?;
                if function.returns_set {
                    return self.set_call(scope, (function.name, function.columns.len() > 1), call, arguments, at);
                }
                let ty = call.result;
                Ok(Expr::new(ExprKind::Call(Box::new(call), arguments), ty, Place(at.0)))
            }
            FunctionKind::Aggregate(kind) => {
                match (kind, written.within_group) {
                    (Aggregate::Normal, true) => {
                        return wrong(format!(
                            "{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
                        ));
                    }
                    (Aggregate::OrderedSet(_) | Aggregate::HypotheticalSet(_), false) => {
                        return wrong(format!("WITHIN GROUP is required for ordered-set aggregate {name}"));
                    }
                    (Aggregate::HypotheticalSet(_), true) => {
                        arguments = self.hypothetical_arguments(name, arguments, direct, at)?;
                        call.arguments = arguments.iter().map(|argument| argument.ty).collect();
                    }
                    _ => {}
                }
                self.check_own_aggregate(function, &arguments)?;
                if written.args.is_empty() && !written.star && kind == Aggregate::Normal {
                    return wrong(format!("{name}(*) must be used to call a parameterless aggregate function"));
                }
                if written.within_group {
                    if written.over.is_some() {
                        let text = format!("OVER is not supported for ordered-set aggregate {name}");
                        return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
                    }
                    for (key, value) in order_by.iter_mut().zip(arguments.split_off(direct)) {
                        key.expr = value;
                    }
                }
                match &written.over {
                    Some(over) => self.window_call(scope, function, call, arguments, written, over),
                    None => self.aggregate(scope, function, call, arguments, written, order_by),
                }
            }
            FunctionKind::Window => match &written.over {
                Some(over) => self.window_call(scope, function, call, arguments, written, over),
                None => wrong(format!("window function {name} requires an OVER clause")),
            },
        }
    }

    /// Checks that an aggregate of ours whose parameters have any type can order or compare its values.
    fn check_own_aggregate(&self, function: &Function, arguments: &[Expr]) -> Result<()> {
        match (function.name, arguments) {
            ("max_by" | "min_by" | "arg_max" | "arg_min", [_, key]) => self.check_order(key.ty, key.at),
            ("state_durations", [state, _]) | ("duration_in", [_, state, _]) => self.check_equality(state.ty, state.at),
            ("approx_count_distinct" | "distinct_sketch", [value]) => self.check_equality(value.ty, value.at),
            _ => Ok(()),
        }
    }

    /// The arguments of a hypothetical-set aggregate: each direct one and its sort key as values of their common type.
    fn hypothetical_arguments(
        &mut self,
        name: &str,
        mut arguments: Vec<Expr>,
        direct: usize,
        at: Pos,
    ) -> Result<Vec<Expr>> {
        let keys = arguments.split_off(direct);
        if keys.len() != direct {
            let types: Vec<String> = arguments.iter().chain(&keys).map(|one| self.type_name(one.ty)).collect();
            let text = format!("function {name}({}) does not exist", types.join(", "));
            let hint = format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {direct}) must \
                 match the number of ordering columns (here {}).",
                keys.len()
            );
            return Err(error(SqlState::UNDEFINED_FUNCTION, text, at).with_hint(hint));
        }
        let mut unified_keys = Vec::with_capacity(direct);
        let mut unified = Vec::with_capacity(2 * direct);
        for (argument, key) in arguments.into_iter().zip(keys) {
            let (pair, _) = self.unified(vec![key, argument], "WITHIN GROUP")?;
            let mut pair = pair.into_iter();
            unified_keys.extend(pair.next());
            unified.extend(pair);
        }
        unified.extend(unified_keys);
        Ok(unified)
    }

    /// The arguments in the order of the parameters, cast to their types, with defaults and VARIADIC arrays.
    fn converted_arguments(&mut self, fit: &Fit<'_>, arguments: Vec<Expr>, at: Pos) -> Result<(Call, Vec<Expr>)> {
        let mut given: Vec<Option<Expr>> = arguments.into_iter().map(Some).collect();
        let first_default = fit.function.parameters.len() - fit.function.defaults.len();
        let mut converted = Vec::with_capacity(fit.values.len());
        for (number, (value, ty)) in fit.values.iter().zip(&fit.parameters).enumerate() {
            let value = match value {
                Some(argument) => given.get_mut(*argument).and_then(Option::take),
                None => Some(self.default_argument(fit.function.defaults[number - first_default])?),
            };
            let value = value.ok_or_else(|| unsupported("an argument given twice", at))?;
            converted.push(self.argument(value, *ty)?);
        }
        if let Some(first) = fit.packed {
            let elements = converted.split_off(first);
            let element = fit.parameters.get(first).copied().unwrap_or(TypeId::TEXT);
            let array = self.catalog.array_of(element).ok_or_else(|| {
                let text = format!("could not find array type for data type {}", self.type_name(element));
                error(SqlState::UNDEFINED_OBJECT, text, at)
            })?;
            let nested = self.is_array(element);
            converted.push(Expr::new(ExprKind::Array { elements, nested }, array, Place(at.0)));
        }
        let types = converted.iter().map(|argument| argument.ty).collect();
        let call = Call { function: fit.function.oid, operator: None, arguments: types, result: fit.result };
        Ok((call, converted))
    }

    pub(crate) fn default_argument(&mut self, text: &str) -> Result<Expr> {
        let parsed = parser::parse_expr(text)?;
        // The places in this text are not those of the statement.
        let notes = self.notes.take();
        // Nor do names of the function or variables around the call have a meaning in it.
        let inlining = std::mem::replace(&mut self.inlining, vec![Inlined::default()]);
        let bound = self.nested(parsed.at, |binder| binder.expr(&Scope::new(None), &parsed));
        self.inlining = inlining;
        self.notes = notes;
        bound
    }

    /// A set-returning function becomes a column that runs beside the rows of its query. `has_fields`: its rows have
    /// columns of their own.
    pub(crate) fn set_call(
        &mut self,
        scope: &Scope<'_>,
        (name, has_fields): (&str, bool),
        call: Call,
        arguments: Vec<Expr>,
        at: Pos,
    ) -> Result<Expr> {
        let clause = scope.clause.get();
        match clause {
            Clause::SelectList | Clause::OrderBy | Clause::DistinctOn | Clause::From | Clause::AggregateArgument => {}
            Clause::WindowArgument | Clause::Values | Clause::ValuesSingle => {}
            Clause::GroupBy => return Err(unsupported("GROUP BY of a set-returning function", at)),
            other => {
                let text = format!("set-returning functions are not allowed in {}", other.name());
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
            }
        }
        let column = self.column(name, call.result, -1);
        if has_fields {
            self.rows_of.insert(column, call.clone());
        }
        scope.sets.borrow_mut().push((column, call, arguments));
        scope.set_places.borrow_mut().push(at);
        Ok(self.column_expr(column, at))
    }
}

/// Whether an aggregate has ORDER BY or FILTER.
fn has_more_clauses(written: &FunctionCall) -> bool {
    written.over.is_none() && (!written.order_by.is_empty() || written.filter.is_some())
}

/// Names of the catalog for functions that have another meaning, and the same name in SQL, without OVER.
const WINDOW_NAMES: [&str; 2] = ["locf_over", "interpolate_over"];

/// The name of the function that a call means. Behind OVER, the functions that fill gaps are window functions.
fn meant_name(written: &FunctionCall) -> &str {
    match (&written.over, written.name.name.as_str()) {
        (Some(_), "locf") => WINDOW_NAMES[0],
        (Some(_), "interpolate") => WINDOW_NAMES[1],
        (_, name) => name,
    }
}

/// Whether a name with this schema, or without one, means a function. Functions that PostgreSQL lacks belong to `public`,
/// as those of its extensions do.
fn is_in_schema(function: &Function, schema: Option<&str>) -> bool {
    let is_of_information_schema = function.name.starts_with("_pg_");
    match schema {
        None => !is_of_information_schema,
        Some("information_schema") => is_of_information_schema,
        Some("public") => function.is_own() && !is_of_information_schema,
        Some(schema) => schema == "pg_catalog" && !function.is_own(),
    }
}

/// The arguments with the elements of the VARIADIC array in its place, for parameters of any type.
fn spread(mut arguments: Vec<Expr>, at: Pos) -> Result<Vec<Expr>> {
    match arguments.pop().map(|last| last.kind) {
        Some(ExprKind::Array { elements, nested: false }) => {
            arguments.extend(elements);
            Ok(arguments)
        }
        _ => Err(unsupported("VARIADIC of any types with an array that is no list", at)),
    }
}

/// A function that was chosen for a call; see [`Resolved::Function`].
struct Fit<'f> {
    function: &'f Function,
    parameters: Vec<TypeId>,
    values: Vec<Option<usize>>,
    packed: Option<usize>,
    result: TypeId,
}

impl Fit<'_> {
    /// The same for so many arguments of any types.
    fn of(mut self, arguments: usize) -> Self {
        if self.function.variadic == Some(TypeId::ANY) {
            self.values = (0..arguments).map(Some).collect();
            self.parameters.resize(arguments, TypeId::ANY);
            self.packed = None;
        }
        self
    }
}
