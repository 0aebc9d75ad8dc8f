//! Checks of a body in PL/pgSQL that need no execution: forms of RETURN, names of variables that are assigned, and types of
//! declarations.

use std::sync::Arc;

use catalog::TypeId;
use model::{Error, Result, RoutineSpec, SqlState};
use parser::plpgsql::{
    Block, Body, Declaration, DeclarationKind, Into, Statement, StatementKind as S, Target, TypeKind, TypeText,
};

use super::with_context;
use crate::binding;
use crate::routines::TRIGGER;
use crate::session::context::StatementContext;

/// A variable, and the label of its block.
struct Name<'a> {
    label: Option<&'a str>,
    name: &'a str,
    kind: NameKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Variable,
    Constant,
    /// A cursor with a query of its own.
    Cursor,
}

/// A block or loop around a statement.
struct Around<'a> {
    label: Option<&'a str>,
    is_loop: bool,
}

struct Check<'a> {
    routine: Option<&'a RoutineSpec>,
    context: &'a Arc<StatementContext>,
    names: Vec<Name<'a>>,
    around: Vec<Around<'a>>,
    line: u32,
}

/// Checks the body of a routine; of DO without one.
///
/// # Errors
/// 42804 and 42601 for a wrong RETURN, 42601 for an unknown variable, 22005 for a constant, 42704 for an unknown type.
pub(super) fn body(code: &Body, routine: Option<&RoutineSpec>, context: &Arc<StatementContext>) -> Result<()> {
    let mut check = Check { routine, context, names: Vec::new(), around: Vec::new(), line: 0 };
    let label = routine.map(|routine| routine.name.table.as_str());
    check.around.push(Around { label, is_loop: false });
    let parameters = routine.map_or(&[][..], |routine| &routine.parameters);
    let numbers: Vec<String> = (1..=parameters.len()).map(|number| format!("${number}")).collect();
    let named = parameters.iter().map(|parameter| parameter.name.as_str());
    for name in named.chain(numbers.iter().map(String::as_str)).chain(["found"]) {
        check.names.push(Name { label, name, kind: NameKind::Variable });
    }
    let checked = check.block(&code.block);
    checked.map_err(|error| {
        let of = routine.map_or("inline_code_block", |routine| &routine.name.table);
        let line = format!("compilation of PL/pgSQL function \"{of}\" near line {}", check.line);
        with_context(error.without_position(), &line)
    })
}

fn mismatch(text: &str) -> Error {
    Error::new(SqlState::DATATYPE_MISMATCH, text)
}

fn missing_expression() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "missing expression at or near \";\"")
}

impl<'a> Check<'a> {
    fn block(&mut self, block: &'a Block) -> Result<()> {
        let names = self.names.len();
        let label = block.label.as_deref();
        self.around.push(Around { label, is_loop: false });
        for declaration in &block.declarations {
            self.declaration(declaration, label)?;
        }
        self.statements(&block.statements)?;
        for handler in &block.handlers {
            let inner = self.names.len();
            let own = ["sqlstate", "sqlerrm"].map(|name| Name { label: None, name, kind: NameKind::Constant });
            self.names.extend(own);
            self.statements(&handler.statements)?;
            self.names.truncate(inner);
        }
        self.around.pop();
        self.names.truncate(names);
        Ok(())
    }

    fn declaration(&mut self, declaration: &'a Declaration, label: Option<&'a str>) -> Result<()> {
        self.line = declaration.line;
        let kind = match &declaration.kind {
            DeclarationKind::Variable { ty, constant, .. } => {
                self.ty(ty)?;
                if *constant { NameKind::Constant } else { NameKind::Variable }
            }
            DeclarationKind::Cursor { parameters, .. } => {
                parameters.iter().try_for_each(|(_, ty)| self.ty(ty))?;
                NameKind::Cursor
            }
            DeclarationKind::Alias(_) => NameKind::Variable,
        };
        self.names.push(Name { label, name: &declaration.name, kind });
        Ok(())
    }

    /// Checks that a type exists. One that is that of a variable or column is found when the function runs.
    fn ty(&self, ty: &TypeText) -> Result<()> {
        if ty.kind != TypeKind::Named {
            return Ok(());
        }
        let words = parser::parse_type(&ty.text)?;
        if *words.name.name == *"record" {
            return Ok(());
        }
        binding::data_type(self.context, &words).map(|_| ())
    }

    fn statements(&mut self, statements: &'a [Statement]) -> Result<()> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<()> {
        self.line = statement.line;
        match &statement.kind {
            S::Block(block) => self.block(block),
            S::Assign { target, .. } => self.target(target),
            S::If { branches, otherwise } => {
                branches.iter().try_for_each(|(_, body)| self.statements(body))?;
                self.statements(otherwise)
            }
            S::Case { branches, otherwise, .. } => {
                branches.iter().try_for_each(|(_, body)| self.statements(body))?;
                self.statements(otherwise.as_deref().unwrap_or_default())
            }
            S::Loop { label, body } | S::While { label, body, .. } => self.within(label.as_deref(), None, body),
            S::ForInteger { label, variable, body, .. } => self.within(label.as_deref(), Some(variable), body),
            S::ForQuery { label, targets, query, body } => {
                // The loop over a cursor makes its own record.
                let own = targets.first().filter(|target| self.find(&target.path).is_none());
                if own.is_some() && !self.is_cursor(&query.text) {
                    let text = "loop variable of loop over rows must be a record variable or list of scalar variables";
                    return Err(mismatch(text));
                }
                self.within(label.as_deref(), own.and_then(|target| target.path.first()), body)
            }
            S::ForExecute { label, targets, body, .. } | S::ForEach { label, targets, body, .. } => {
                self.targets(targets)?;
                self.within(label.as_deref(), None, body)
            }
            S::Exit { is_continue, label, .. } => self.exit(*is_continue, label.as_deref()),
            S::Return(value) => self.returned(value.is_some()),
            S::ReturnNext(value) => self.returned_next(value.is_some()),
            S::ReturnQuery(_) | S::ReturnQueryExecute { .. } if !self.returns_set() => {
                Err(mismatch("cannot use RETURN QUERY in a non-SETOF function"))
            }
            S::Sql { into, .. } | S::Execute { into, .. } | S::Fetch { into, .. } => self.destination(into.as_ref()),
            S::Diagnostics { items, .. } => items.iter().try_for_each(|(target, _)| self.target(target)),
            _ => Ok(()),
        }
    }

    /// The statements of a loop, which may have a variable of its own.
    fn within(&mut self, label: Option<&'a str>, variable: Option<&'a String>, body: &'a [Statement]) -> Result<()> {
        let names = self.names.len();
        self.names.extend(variable.map(|name| Name { label, name, kind: NameKind::Variable }));
        self.around.push(Around { label, is_loop: true });
        self.statements(body)?;
        self.around.pop();
        self.names.truncate(names);
        Ok(())
    }

    /// Whether the query of a loop is the name of a cursor, with or without arguments.
    fn is_cursor(&self, query: &str) -> bool {
        let name = query.split('(').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.find(&[name]).is_some_and(|name| name.kind == NameKind::Cursor)
    }

    /// EXIT and CONTINUE.
    fn exit(&self, is_continue: bool, label: Option<&str>) -> Result<()> {
        let word = if is_continue { "CONTINUE" } else { "EXIT" };
        let around = match label {
            None => self.around.iter().rev().find(|around| around.is_loop),
            Some(_) => self.around.iter().rev().find(|around| around.label == label),
        };
        let text = match (around, label) {
            (Some(around), Some(label)) if is_continue && !around.is_loop => {
                format!("block label \"{label}\" cannot be used in CONTINUE")
            }
            (Some(_), _) => return Ok(()),
            (None, Some(label)) => {
                format!("there is no label \"{label}\" attached to any block or loop enclosing this statement")
            }
            (None, None) if is_continue => format!("{word} cannot be used outside a loop"),
            (None, None) => format!("{word} cannot be used outside a loop, unless it has a label"),
        };
        Err(Error::new(SqlState::SYNTAX_ERROR, text))
    }

    fn destination(&self, into: Option<&Into>) -> Result<()> {
        into.map_or(Ok(()), |into| self.targets(&into.targets))
    }

    fn targets(&self, targets: &[Target]) -> Result<()> {
        targets.iter().try_for_each(|target| self.target(target))
    }

    fn find(&self, path: &[String]) -> Option<&Name<'a>> {
        let (first, second) = (path.first()?, path.get(1));
        let is_it = |name: &&Name<'_>| {
            name.name == first || name.label == Some(first.as_str()) && second.is_some_and(|second| name.name == second)
        };
        self.names.iter().rev().find(is_it)
    }

    fn target(&self, target: &Target) -> Result<()> {
        if self.routine.is_some_and(|routine| routine.result == TRIGGER.0) {
            return Ok(());
        }
        match self.find(&target.path) {
            None => {
                let text = format!("\"{}\" is not a known variable", target.path.join("."));
                Err(Error::new(SqlState::SYNTAX_ERROR, text))
            }
            Some(name) if name.kind == NameKind::Constant => {
                let text = format!("variable \"{}\" is declared CONSTANT", name.name);
                Err(Error::new(SqlState("22005"), text))
            }
            Some(_) => Ok(()),
        }
    }

    fn returns_set(&self) -> bool {
        self.routine.is_some_and(|routine| routine.returns_set)
    }

    fn has_outputs(&self) -> bool {
        self.routine.is_some_and(|routine| routine.outputs().next().is_some())
    }

    fn returned(&self, has_value: bool) -> Result<()> {
        let is_void = self.routine.is_none_or(|routine| routine.result == TypeId::VOID.0);
        let is_procedure = self.routine.is_some_and(|routine| routine.is_procedure);
        let refused = if self.returns_set() {
            "RETURN cannot have a parameter in function returning set"
        } else if is_void && is_procedure {
            "RETURN cannot have a parameter in a procedure"
        } else if is_void {
            "RETURN cannot have a parameter in function returning void"
        } else if self.has_outputs() {
            "RETURN cannot have a parameter in function with OUT parameters"
        } else if has_value {
            return Ok(());
        } else {
            return Err(missing_expression());
        };
        match has_value {
            false => Ok(()),
            true if self.returns_set() => Err(mismatch(refused).with_hint("Use RETURN NEXT or RETURN QUERY.")),
            true => Err(mismatch(refused)),
        }
    }

    fn returned_next(&self, has_value: bool) -> Result<()> {
        if !self.returns_set() {
            return Err(mismatch("cannot use RETURN NEXT in a non-SETOF function"));
        }
        match (self.has_outputs(), has_value) {
            (true, true) => Err(mismatch("RETURN NEXT cannot have a parameter in function with OUT parameters")),
            (false, false) => Err(missing_expression()),
            _ => Ok(()),
        }
    }
}
