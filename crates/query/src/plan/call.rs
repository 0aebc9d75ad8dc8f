//! Planning of CALL: the procedure, and its arguments as expressions.

use std::sync::Arc;

use catalog::{FunctionCall, Signature, TypeId, builtin};
use model::{Error, Result, RoutineMode, RoutineRef, SqlState, TableName};
use parser::ast::{self, Expr as Written, ExprKind as Ast, QueryBody, Select, Target};
use relational::types::OutputColumn;
use scalar::Expr;

use super::routine::single_row;
use crate::binding;
use crate::routines::{Shape, Variables, called_shape, value_type};
use crate::session::Session;
use crate::statement::{Command, Parsed};

/// A CALL whose procedure and arguments are known.
pub(crate) struct Planned {
    pub(crate) routine: RoutineRef,
    /// Columns of the OUT parameters.
    pub(crate) shape: Option<Shape>,
    /// The arguments as written, in the order of the parameters; `None` is the default.
    written: Vec<Option<Written>>,
    /// Types of the parameters in this call.
    pub(crate) types: Vec<TypeId>,
    /// Values of the arguments, and their types.
    pub(crate) exprs: Vec<Option<(Expr, TypeId)>>,
    /// OIDs of the parameters of the statement.
    pub(crate) parameters: Vec<u32>,
}

fn not_procedure(name: &ast::Name, types: &[String]) -> Error {
    let text = format!("{name}({}) is not a procedure", types.join(", "));
    Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_hint("To call a function, use SELECT.")
}

impl Planned {
    /// Plans a CALL.
    ///
    /// # Errors
    /// 42883 for an unknown procedure, 42809 for a function, and those of the arguments.
    pub(crate) fn new(
        session: &mut Session,
        parsed: &Parsed,
        written: &ast::FunctionCall,
        variables: Option<&Arc<Variables>>,
        declared: &[u32],
    ) -> Result<Planned> {
        let context = session.context_of_newest();
        let catalog = context.reads.snapshot.catalog();
        let mut names = Vec::new();
        let mut arguments = Vec::with_capacity(written.args.len());
        for argument in &written.args {
            match &argument.kind {
                Ast::NamedArgument(named) => {
                    names.push(named.name.to_string());
                    arguments.push(named.value.clone());
                }
                _ => arguments.push(argument.clone()),
            }
        }
        let targets = arguments.iter().map(|expr| Target { expr: expr.clone(), alias: None }).collect();
        let select = Select { targets, ..Select::default() };
        let query = ast::Query {
            with: None,
            body: QueryBody::Select(Box::new(select)),
            order_by: Vec::new(),
            limit: None,
            offset: None,
            locking: Vec::new(),
            at: ast::Pos(0),
        };
        let statement = parsed.part(Command::Query(Box::new(query.clone())), parsed.purpose);
        debug_assert!(variables.is_none() || statement.0.variables.is_some(), "variables belong to the statement");
        let bound = binding::bind_query(&context, &statement.0, &query, declared)?;
        let exprs = single_row(&bound).ok_or_else(|| Error::unsupported("cannot use subquery in CALL argument"))?;
        let types: Vec<TypeId> = exprs.iter().map(|expr| expr.ty).collect();
        // Literals have the type of their parameter.
        let is_literal = |expr: &Written| matches!(expr.kind, Ast::String(_) | Ast::Null | Ast::Parameter(_));
        let asked: Vec<TypeId> = arguments
            .iter()
            .zip(&types)
            .map(|(written, ty)| if is_literal(written) && *ty == TypeId::TEXT { TypeId::UNKNOWN } else { *ty })
            .collect();
        let schemas = match written.name.schema() {
            Some(schema) => vec![context.settings.schema(schema).to_owned()],
            None => context.settings.function_path(),
        };
        let mut routines: Vec<&RoutineRef> = Vec::new();
        for schema in schemas {
            let name = TableName { schema, table: written.name.name.to_string() };
            routines.extend(catalog.routines_named(&name));
        }
        let signatures: Vec<Signature> = routines
            .iter()
            .map(|routine| {
                let parameters = routine.parameters.iter().filter(|one| one.mode != RoutineMode::Table);
                Signature {
                    parameters: parameters
                        .clone()
                        .enumerate()
                        .map(|(at, one)| match one.mode {
                            // Anything may be written for it.
                            RoutineMode::Out => asked.get(at).copied().unwrap_or(TypeId::TEXT),
                            _ => value_type(one.ty),
                        })
                        .collect(),
                    names: parameters.clone().map(|one| one.name.as_str().into()).collect(),
                    defaults: parameters.clone().rev().take_while(|one| one.default.is_some()).count(),
                    variadic: parameters
                        .clone()
                        .next_back()
                        .filter(|one| one.mode == RoutineMode::Variadic)
                        .and_then(|one| builtin().element_of(TypeId(one.ty))),
                    result: TypeId::VOID,
                }
            })
            .collect();
        let signatures: Vec<&Signature> = signatures.iter().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let name = written.name.name.as_str();
        let call = FunctionCall { name, arguments: &asked, names: &names, variadic: written.variadic };
        let found = builtin().routine(&call, &signatures, false)?;
        let shown: Vec<String> = asked.iter().map(|ty| builtin().type_name(*ty)).collect();
        let Some(found) = found else {
            if routines.is_empty() && builtin().functions_named(name).next().is_some() {
                return Err(not_procedure(&written.name, &shown));
            }
            let first_named = shown.len() - names.len();
            let named = shown.iter().enumerate().map(|(at, ty)| match at.checked_sub(first_named) {
                Some(at) => format!("{} => {ty}", names[at]),
                None => ty.clone(),
            });
            let text = format!("procedure {}({}) does not exist", written.name, named.collect::<Vec<_>>().join(", "));
            return Err(binding::placed(
                Error::new(SqlState::UNDEFINED_FUNCTION, text).with_position(written.at.0),
                parsed,
            )
            .with_hint(
                "No procedure matches the given name and argument types. You might need to add explicit type casts.",
            ));
        };
        let routine = Arc::clone(routines[found.routine]);
        if !routine.is_procedure {
            return Err(not_procedure(&written.name, &shown));
        }
        if found.packed.is_some() {
            return Err(Error::unsupported("CALL with a list of VARIADIC arguments is not supported")
                .with_hint("Pass an array: VARIADIC ARRAY[…]"));
        }
        let parameters = routine.parameters.iter().zip(&found.parameters);
        let inputs: Vec<TypeId> = parameters.filter(|(one, _)| one.mode.is_input()).map(|(_, ty)| *ty).collect();
        let shape = called_shape(&routine, &inputs, catalog)?;
        let mut exprs: Vec<Option<Expr>> = exprs.into_iter().map(Some).collect();
        let mut written_by_parameter = Vec::with_capacity(found.values.len());
        let mut values = Vec::with_capacity(found.values.len());
        for value in &found.values {
            let written = value.and_then(|at| arguments.get(at).cloned());
            let expr = value.and_then(|at| exprs.get_mut(at).and_then(Option::take));
            written_by_parameter.push(written);
            values.push(expr.map(|expr| {
                let ty = expr.ty;
                (expr, ty)
            }));
        }
        let parameters = bound.parameters().to_vec();
        let types = found.parameters;
        Ok(Planned { routine, shape, written: written_by_parameter, types, exprs: values, parameters })
    }

    /// The arguments that receive the OUT parameters, in their order.
    pub(crate) fn targets(&self) -> Vec<&Written> {
        let parameters = self.routine.parameters.iter().zip(&self.written);
        parameters.filter(|(one, _)| one.mode.is_output()).filter_map(|(_, written)| written.as_ref()).collect()
    }

    /// The columns of the result: the OUT parameters.
    pub(crate) fn columns(&self) -> Option<Vec<OutputColumn>> {
        let column = |(name, ty, typmod): &(Box<str>, TypeId, i32)| OutputColumn {
            name: name.to_string(),
            oid: ty.0,
            typmod: *typmod,
            origin: None,
        };
        self.shape.as_ref().map(|shape| shape.iter().map(column).collect())
    }
}
