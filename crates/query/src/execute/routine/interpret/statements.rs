//! Statements: blocks, branches, loops, SQL, RETURN, and the end of transactions.

use std::sync::Arc;

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState, user_types};
use parser::plpgsql::{
    Block, Condition, Declaration, DeclarationKind, Fragment, Into, Statement, StatementKind as S, Target, TypeKind,
    TypeText,
};
use scalar::Value;

use super::{Cursor, Flow, Kind, Name, Run};
use crate::binding;
use crate::execute::routine::values::{converted, record_of, shaped};
use crate::execute::routine::{
    Deep, Ran, breathe, call, conditions, refuse_change, refuse_transaction, run_statement, with_context,
};
use crate::plan::call as call_plan;
use crate::routines::{REFCURSOR, Variables, row_shape};
use crate::session::Session;
use crate::statement::{Command, parse_within, parse_within_routine};

/// Name of the variable with the operand of CASE; no variable of a user has it.
const CASE_OPERAND: &str = "__Case__Variable__";
/// Maximum number of savepoints of blocks with handlers within each other.
const SAVEPOINTS_MAX: usize = 10_000;

impl Run {
    pub(super) fn type_named(&mut self, session: &mut Session, text: &TypeText) -> Result<Kind> {
        let context = session.context_of_newest();
        let catalog = context.reads.snapshot.catalog();
        let words = parser::parse_type(&text.text).map_err(Error::without_position);
        if text.kind == TypeKind::Type
            && let Ok(words) = &words
        {
            let path: Vec<String> = words.name.parts().map(ToString::to_string).collect();
            if let Some((slot, fields)) = self.find(&path) {
                let kind = self.slots[slot].kind.clone();
                return Ok(match (fields, &kind) {
                    ([field], Kind::Row(shape) | Kind::Record(Some(shape))) => {
                        let found = shape.iter().find(|(name, ..)| **name == **field);
                        found.map_or(kind.clone(), |(_, ty, typmod)| Kind::Value(*ty, *typmod))
                    }
                    _ => kind,
                });
            }
        }
        let mut words = words?;
        words.is_column_type = text.kind == TypeKind::Type;
        if words.name.schema().is_none_or(|schema| schema == "pg_catalog") && *words.name.name == *"record" {
            return Ok(Kind::Record(None));
        }
        let (ty, typmod) = binding::data_type(&context, &words).map_err(Error::without_position)?;
        if let Some(shape) = row_shape(ty, catalog) {
            return Ok(Kind::Row(shape));
        }
        if text.kind == TypeKind::RowType {
            let text = format!("relation \"{}\" does not exist", text.text);
            return Err(Error::new(SqlState::UNDEFINED_TABLE, text));
        }
        Ok(Kind::Value(TypeId(ty), typmod))
    }

    pub(super) async fn declaration(&mut self, session: &mut Session, declaration: &Declaration) -> Result<()> {
        self.at = (declaration.line, "during statement block local variable initialization");
        match &declaration.kind {
            DeclarationKind::Alias(path) => {
                let (slot, _) = self.expect(path)?;
                let (label, name) = (self.label.clone(), declaration.name.as_str().into());
                self.names.push(Name { label, name, slot });
            }
            DeclarationKind::Cursor { scroll, parameters, query } => {
                let mut typed = Vec::with_capacity(parameters.len());
                for (name, ty) in parameters {
                    let Kind::Value(ty, typmod) = self.type_named(session, ty)? else {
                        return Err(Error::unsupported("parameters of cursors that are rows are not supported"));
                    };
                    typed.push((name.clone(), ty, typmod));
                }
                let slot = self.declare(&declaration.name, Kind::Value(TypeId(REFCURSOR), -1), Value::NULL);
                let cursor = Cursor { parameters: typed, query: query.clone(), scroll: *scroll };
                self.slots[slot].cursor = Some(Arc::new(cursor));
            }
            DeclarationKind::Variable { ty, constant, not_null, default } => {
                let kind = self.type_named(session, ty)?;
                let default = match default {
                    None => None,
                    Some(default) => Some(self.value(session, default).await?),
                };
                let slot = self.declare(&declaration.name, kind, Value::NULL);
                self.slots[slot].not_null = *not_null;
                if let Some((value, from)) = default {
                    self.assign_slot(session, slot, value, from)?;
                } else if *not_null {
                    let text = format!(
                        "variable \"{}\" must have a default value, since it's declared NOT NULL",
                        declaration.name
                    );
                    return Err(Error::new(SqlState("22004"), text));
                } else if let Kind::Value(ty, _) = self.slots[slot].kind
                    && user_types::is_domain(ty.0)
                {
                    // The domain may refuse NULL.
                    self.assign_slot(session, slot, Value::NULL, TypeId::UNKNOWN)?;
                }
                self.slots[slot].constant = *constant;
            }
        }
        Ok(())
    }

    pub(super) fn block<'a>(&'a mut self, session: &'a mut Session, block: &'a Block) -> Deep<'a, Result<Flow>> {
        Deep::new(async move {
            let (slots, names, label) = (self.slots.len(), self.names.len(), self.label.clone());
            self.label = block.label.as_deref().map(Box::from);
            let flow = match block.handlers.is_empty() {
                true => self.block_body(session, block).await,
                false => self.guarded(session, block).await,
            };
            self.leave(slots, names);
            self.label = label;
            Ok(match flow? {
                Flow::Exit(Some(name)) if block.label.as_ref() == Some(&name) => Flow::Next,
                flow => flow,
            })
        })
    }

    pub(super) async fn block_body(&mut self, session: &mut Session, block: &Block) -> Result<Flow> {
        for declaration in &block.declarations {
            self.declaration(session, declaration).await?;
        }
        self.statements(session, &block.statements).await
    }

    /// Runs a block with handlers within a savepoint.
    pub(super) async fn guarded(&mut self, session: &mut Session, block: &Block) -> Result<Flow> {
        for declaration in &block.declarations {
            self.declaration(session, declaration).await?;
        }
        let depth = session.routine_depth;
        let mark = session.block.as_ref().map_or(0, |block| block.savepoints.len());
        if mark >= SAVEPOINTS_MAX {
            let text = format!("a transaction has at most {SAVEPOINTS_MAX} savepoints");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        session.mark(String::new());
        self.handlers += 1;
        let (slots, names, label) = (self.slots.len(), self.names.len(), self.label.clone());
        let flow = self.statements(session, &block.statements).await;
        self.handlers -= 1;
        let error = match flow {
            Ok(flow) => {
                release(session, mark);
                return Ok(flow);
            }
            Err(error) => error,
        };
        session.routine_depth = depth;
        session.roll_back_to(mark)?;
        release(session, mark);
        self.leave(slots, names);
        self.label = label;
        self.facts = None;
        let state = error.state().0;
        let mut found = None;
        for handler in &block.handlers {
            for condition in &handler.conditions {
                let covers = match condition {
                    Condition::State(wanted) => conditions::covers(wanted, state),
                    // OTHERS leaves out what must stop the function.
                    Condition::Name(name) if name == "others" => !["57014", "P0004"].contains(&state),
                    Condition::Name(name) => {
                        conditions::states(name)?.iter().any(|wanted| conditions::covers(wanted, state))
                    }
                };
                if covers {
                    found = found.or(Some(handler));
                }
            }
        }
        let Some(handler) = found else { return Err(error) };
        let facts = error.clone();
        let error = self.in_context(session, error);
        self.is_raised_again = false;
        self.label = None;
        self.declare("sqlstate", Kind::Value(TypeId::TEXT, -1), Value::Text(state.into()));
        self.declare("sqlerrm", Kind::Value(TypeId::TEXT, -1), Value::Text(facts.message().into()));
        self.errors.push(error);
        let flow = self.statements(session, &handler.statements).await;
        self.errors.pop();
        flow
    }

    pub(super) fn statements<'a>(
        &'a mut self,
        session: &'a mut Session,
        statements: &'a [Statement],
    ) -> Deep<'a, Result<Flow>> {
        Deep::new(async move {
            for statement in statements {
                session.stop.check()?;
                self.at = (statement.line, statement.kind.name());
                match self.statement(session, statement).await? {
                    Flow::Next => {}
                    flow => return Ok(flow),
                }
            }
            Ok(Flow::Next)
        })
    }

    pub(super) fn statement<'a>(
        &'a mut self,
        session: &'a mut Session,
        statement: &'a Statement,
    ) -> Deep<'a, Result<Flow>> {
        Deep::new(async move {
            match &statement.kind {
                S::Null => {}
                S::Block(block) => return self.block(session, block).await,
                S::Assign { target, value } => {
                    let (value, from) = self.value(session, value).await?;
                    self.assign(session, target, value, from).await?;
                }
                S::If { branches, otherwise } => {
                    for (condition, body) in branches {
                        if self.condition(session, condition).await? {
                            return self.statements(session, body).await;
                        }
                    }
                    return self.statements(session, otherwise).await;
                }
                S::Case { operand, branches, otherwise } => {
                    return self.case(session, operand.as_ref(), branches, otherwise.as_deref()).await;
                }
                S::Loop { label, body } => loop {
                    breathe(session).await;
                    session.stop.check()?;
                    if let Some(flow) = self.iteration(session, label.as_deref(), body).await? {
                        return Ok(flow);
                    }
                },
                S::While { label, condition, body } => {
                    while self.condition(session, condition).await? {
                        breathe(session).await;
                        session.stop.check()?;
                        if let Some(flow) = self.iteration(session, label.as_deref(), body).await? {
                            return Ok(flow);
                        }
                        self.at = (statement.line, statement.kind.name());
                    }
                }
                S::ForInteger { .. } => return self.for_integer(session, statement).await,
                S::ForQuery { label, targets, query, body } => {
                    if let Some(ran) = self.cursor_rows(session, query).await? {
                        return self.for_rows(session, label.as_deref(), targets, body, ran, statement.line).await;
                    }
                    let ran = self.ran(session, query, "").await?;
                    return self.for_rows(session, label.as_deref(), targets, body, ran, statement.line).await;
                }
                S::ForExecute { label, targets, query, using, body } => {
                    let ran = self.dynamic(session, query, using).await?;
                    return self.for_rows(session, label.as_deref(), targets, body, ran, statement.line).await;
                }
                S::ForEach { label, targets, slice, array, body } => {
                    return self.for_each(session, label.as_deref(), targets, *slice, array, body).await;
                }
                S::Exit { is_continue, label, condition } => {
                    let is_taken = match condition {
                        None => true,
                        Some(condition) => self.condition(session, condition).await?,
                    };
                    return Ok(match (is_taken, is_continue) {
                        (false, _) => Flow::Next,
                        (true, true) => Flow::Continue(label.clone()),
                        (true, false) => Flow::Exit(label.clone()),
                    });
                }
                S::Return(value) => {
                    self.returned = Some(self.return_value(session, value.as_ref()).await?);
                    return Ok(Flow::Return);
                }
                S::ReturnNext(value) => {
                    let value = match value {
                        None => self.outputs(session)?,
                        Some(value) => self.return_value(session, Some(value)).await?,
                    };
                    self.push_row(session, value)?;
                }
                S::ReturnQuery(query) => {
                    let ran = self.ran(session, query, "").await?;
                    self.push_rows(session, ran)?;
                }
                S::ReturnQueryExecute { query, using } => {
                    let ran = self.dynamic(session, query, using).await?;
                    self.push_rows(session, ran)?;
                }
                S::Raise(raise) => self.raise(session, raise).await?,
                S::Assert { condition, message } => {
                    if !self.condition(session, condition).await? {
                        let text = match message {
                            None => None,
                            Some(message) => self.text(session, message).await?,
                        };
                        return Err(Error::new(SqlState("P0004"), text.unwrap_or_else(|| "assertion failed".into())));
                    }
                }
                S::Perform(query) => {
                    let ran = self.ran(session, query, "").await?;
                    self.count(&ran);
                }
                S::Sql { statement, into } => self.sql(session, statement, into.as_ref()).await?,
                S::Call(statement) => self.call(session, statement).await?,
                S::Execute { query, into, using } => {
                    let ran = self.dynamic(session, query, using).await?;
                    self.row_count = i64::try_from(ran.count).unwrap_or(i64::MAX);
                    if let Some(into) = into {
                        self.into(session, into, ran).await?;
                    }
                }
                S::Diagnostics { stacked, items } => self.diagnostics(session, *stacked, items).await?,
                S::Open { cursor, scroll, how } => self.open(session, cursor, *scroll, how).await?,
                S::Fetch { cursor, direction, into } => {
                    self.fetch(session, cursor, direction, into.as_ref()).await?;
                }
                S::Close(cursor) => {
                    let name = self.cursor_name(session, cursor)?;
                    if !session.cursors.close(&name) {
                        let text = format!("cursor \"{name}\" does not exist");
                        return Err(Error::new(SqlState::INVALID_CURSOR_NAME, text));
                    }
                }
                S::Commit { chain } => self.end_transaction(session, true, *chain).await?,
                S::Rollback { chain } => self.end_transaction(session, false, *chain).await?,
            }
            Ok(Flow::Next)
        })
    }

    pub(super) fn count(&mut self, ran: &Ran) {
        if ran.counts {
            self.row_count = i64::try_from(ran.count).unwrap_or(i64::MAX);
            self.set_found(ran.count > 0);
        }
    }

    pub(super) async fn case(
        &mut self,
        session: &mut Session,
        operand: Option<&Fragment>,
        branches: &[(Fragment, Vec<Statement>)],
        otherwise: Option<&[Statement]>,
    ) -> Result<Flow> {
        let names = self.names.len();
        let slots = self.slots.len();
        if let Some(operand) = operand {
            let (value, ty) = self.value(session, operand).await?;
            self.declare(CASE_OPERAND, Kind::Value(ty, -1), value);
        }
        let mut chosen = None;
        for (condition, body) in branches {
            let holds = match operand {
                None => self.condition(session, condition).await?,
                Some(_) => {
                    let text = format!("\"{CASE_OPERAND}\" IN ({})", condition.text);
                    self.condition(session, &Fragment { text, number: condition.number }).await?
                }
            };
            if holds {
                chosen = Some(body.as_slice());
                break;
            }
        }
        self.leave(slots, names);
        match chosen.or(otherwise) {
            Some(body) => self.statements(session, body).await,
            None => {
                Err(Error::new(SqlState("20000"), "case not found").with_hint("CASE statement is missing ELSE part."))
            }
        }
    }

    /// Runs the body of a loop once. `Some` ends the loop.
    pub(super) async fn iteration(
        &mut self,
        session: &mut Session,
        label: Option<&str>,
        body: &[Statement],
    ) -> Result<Option<Flow>> {
        let is_own = |name: &Option<String>| name.is_none() || name.as_deref() == label;
        Ok(match self.statements(session, body).await? {
            Flow::Next => None,
            Flow::Exit(name) if is_own(&name) => Some(Flow::Next),
            Flow::Continue(name) if is_own(&name) => None,
            flow => Some(flow),
        })
    }

    pub(super) async fn for_integer(&mut self, session: &mut Session, statement: &Statement) -> Result<Flow> {
        let S::ForInteger { label, variable, reverse, low, high, step, body } = &statement.kind else {
            return Ok(Flow::Next);
        };
        let bound = |what: &str, value: Option<i32>| {
            value.ok_or_else(|| Error::new(SqlState("22004"), format!("{what} of FOR loop cannot be null")))
        };
        let low = self.int4(session, low).await?;
        let low = bound("lower bound", low)?;
        let high = self.int4(session, high).await?;
        let high = bound("upper bound", high)?;
        let step = match step {
            None => 1,
            Some(step) => {
                let step = self.int4(session, step).await?;
                bound("BY value", step)?
            }
        };
        if step <= 0 {
            let text = "BY value of FOR loop must be greater than zero";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        let (slots, names, outer) = (self.slots.len(), self.names.len(), self.label.clone());
        self.label = label.as_deref().map(Box::from);
        let slot = self.declare(variable, Kind::Value(TypeId::INT4, -1), Value::NULL);
        self.label = outer;
        let (mut at, mut found, mut result) = (low, false, Flow::Next);
        while if *reverse { at >= high } else { at <= high } {
            found = true;
            breathe(session).await;
            session.stop.check()?;
            self.slots[slot].value = Value::Plain(Datum::Int4(at));
            if let Some(flow) = self.iteration(session, label.as_deref(), body).await? {
                result = flow;
                break;
            }
            let next = if *reverse { at.checked_sub(step) } else { at.checked_add(step) };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        self.leave(slots, names);
        self.set_found(found);
        Ok(result)
    }

    pub(super) async fn int4(&mut self, session: &mut Session, fragment: &Fragment) -> Result<Option<i32>> {
        Ok(match self.value_as(session, fragment, TypeId::INT4).await? {
            Value::Plain(Datum::Int4(value)) => Some(value),
            _ => None,
        })
    }

    pub(super) async fn for_rows(
        &mut self,
        session: &mut Session,
        label: Option<&str>,
        targets: &[Target],
        body: &[Statement],
        ran: Ran,
        line: u32,
    ) -> Result<Flow> {
        let Ran { columns, rows, held, .. } = ran;
        let is_empty = rows.is_empty();
        let (slots, names) = (self.slots.len(), self.names.len());
        // The cursor of a loop makes its own record.
        let own = match targets {
            [target] if self.find(&target.path).is_none() && target.path.len() == 1 => {
                self.declare(&target.path[0], Kind::Record(None), Value::NULL);
                true
            }
            _ => false,
        };
        let mut result = Flow::Next;
        if is_empty && !own {
            self.assign_row(session, targets, &columns, None).await?;
        }
        for row in rows {
            breathe(session).await;
            session.stop.check()?;
            self.at.0 = line;
            self.assign_row(session, targets, &columns, Some(row)).await?;
            if let Some(flow) = self.iteration(session, label, body).await? {
                result = flow;
                break;
            }
        }
        drop(held);
        self.leave(slots, names);
        self.set_found(!is_empty);
        Ok(result)
    }

    pub(super) async fn for_each(
        &mut self,
        session: &mut Session,
        label: Option<&str>,
        targets: &[Target],
        slice: u32,
        array: &Fragment,
        body: &[Statement],
    ) -> Result<Flow> {
        let (value, ty) = self.value(session, array).await?;
        let element = catalog::builtin().element_of(ty);
        let (items, dimensions, element) = match (value, element) {
            (Value::Array { items, dimensions, .. }, Some(element)) => (items, dimensions, element),
            (value, _) if value.is_null() => {
                return Err(Error::new(SqlState("22004"), "FOREACH expression must not be null"));
            }
            _ => {
                let name = catalog::builtin().type_name(ty);
                let text = format!("FOREACH expression must yield an array, not type {name}");
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
            }
        };
        let slice = slice as usize;
        if slice > dimensions.len() {
            let text = format!("slice dimension ({slice}) is out of the valid range 0..{}", dimensions.len());
            return Err(Error::new(SqlState("2202E"), text));
        }
        let inner = &dimensions[dimensions.len() - slice..];
        let size = inner.iter().map(|one| usize::try_from(one.length).unwrap_or(0)).product::<usize>().max(1);
        let (mut found, mut result) = (false, Flow::Next);
        let [target] = targets else { return Err(Error::unsupported("FOREACH with several targets is not supported")) };
        for part in items.chunks(size) {
            found = true;
            breathe(session).await;
            session.stop.check()?;
            let (value, from) = match slice {
                0 => (part[0].clone(), element),
                _ => (Value::Array { element: element.0, dimensions: inner.into(), items: part.into() }, ty),
            };
            self.assign(session, target, value, from).await?;
            if let Some(flow) = self.iteration(session, label, body).await? {
                result = flow;
                break;
            }
        }
        self.set_found(found);
        Ok(result)
    }

    pub(super) async fn return_value(&mut self, session: &mut Session, value: Option<&Fragment>) -> Result<Value> {
        let Some(fragment) = value else { return self.outputs(session) };
        let body = Arc::clone(&self.body);
        let has_outputs = body.routine.as_ref().is_some_and(|routine| routine.outputs().next().is_some());
        if has_outputs || self.result == TypeId::VOID && self.shape.is_none() {
            let what = if has_outputs { "function with OUT parameters" } else { "function returning void" };
            let text = format!("RETURN cannot have a parameter in {what}");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        let (value, from) = self.value(session, fragment).await?;
        let shape = self.shape.clone();
        match (value, shape) {
            (Value::Record(types, _, values), Some(shape)) => {
                if types.len() != shape.len() {
                    let text = "returned record type does not match expected record type";
                    let detail = format!(
                        "Number of returned columns ({}) does not match expected column count ({}).",
                        types.len(),
                        shape.len()
                    );
                    return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_detail(detail));
                }
                shaped(session, &types, values.into(), &shape)
            }
            (value, Some(_)) if value.is_null() => Ok(Value::NULL),
            (_, Some(_)) => {
                let text = "cannot return non-composite value from function returning composite type";
                Err(Error::new(SqlState::DATATYPE_MISMATCH, text))
            }
            (value, None) if self.result == TypeId::RECORD => Ok(value),
            (value, None) => {
                let result = self.result;
                converted(session, value, from, result, -1)
            }
        }
    }

    pub(super) fn push_row(&mut self, session: &mut Session, value: Value) -> Result<()> {
        self.rows_bytes += size_of::<Value>() + value.heap_size();
        if self.rows_bytes > 64 << 10 {
            let held = self.held.get_or_insert_with(|| session.database.runtime().reserved("rows of a function"));
            held.resize(self.rows_bytes)?;
        }
        self.rows.push(value);
        Ok(())
    }

    pub(super) fn push_rows(&mut self, session: &mut Session, ran: Ran) -> Result<()> {
        self.row_count = i64::try_from(ran.rows.len()).unwrap_or(i64::MAX);
        self.set_found(!ran.rows.is_empty());
        if ran.columns.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "RETURN QUERY needs a query that returns rows"));
        }
        let shape = self.shape.clone();
        for mut row in ran.rows {
            let value = match &shape {
                Some(shape) => record_of(session, &ran.columns, row, Some(shape))?,
                None if self.result == TypeId::RECORD => record_of(session, &ran.columns, row, None)?,
                None => {
                    if row.len() != 1 {
                        let text = "structure of query does not match function result type";
                        let detail = format!(
                            "Number of returned columns ({}) does not match expected column count (1).",
                            row.len()
                        );
                        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_detail(detail));
                    }
                    let result = self.result;
                    converted(session, row.remove(0), ran.columns[0].1, result, -1)?
                }
            };
            self.push_row(session, value)?;
        }
        Ok(())
    }

    pub(super) async fn sql(&mut self, session: &mut Session, statement: &Fragment, into: Option<&Into>) -> Result<()> {
        // STRICT must know whether there is a second row.
        let rows_max = into.map_or(usize::MAX, |into| if into.strict { 2 } else { 1 });
        let ran = self.ran_up_to(session, statement, "", rows_max).await?;
        self.count(&ran);
        let Some(into) = into else {
            let is_query = statement.text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"));
            if is_query && !ran.columns.is_empty() {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "query has no destination for result data")
                    .with_hint("If you want to discard the results of a SELECT, use PERFORM instead."));
            }
            return Ok(());
        };
        if ran.columns.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "INTO used with a command that cannot return data"));
        }
        // A change must not return several rows, whether STRICT is written or not.
        let is_strict = into.strict || ran.is_change && ran.rows.len() > 1;
        self.into(session, &Into { strict: is_strict, ..into.clone() }, ran).await
    }

    pub(super) async fn into(&mut self, session: &mut Session, into: &Into, ran: Ran) -> Result<()> {
        let Ran { columns, rows, .. } = ran;
        let count = rows.len();
        if into.strict && count != 1 {
            return Err(match count {
                0 => Error::new(SqlState("P0002"), "query returned no rows"),
                _ => Error::new(SqlState("P0003"), "query returned more than one row")
                    .with_hint("Make sure the query returns a single row, or use LIMIT 1."),
            });
        }
        let row = rows.into_iter().next();
        self.assign_row(session, &into.targets, &columns, row).await
    }

    /// Values and types of USING.
    pub(super) async fn using(&mut self, session: &mut Session, using: &[Fragment]) -> Result<(Vec<Value>, Vec<u32>)> {
        let (mut values, mut types) = (Vec::with_capacity(using.len()), Vec::with_capacity(using.len()));
        for fragment in using {
            let (value, ty) = self.value(session, fragment).await?;
            values.push(value);
            types.push(if ty == TypeId::UNKNOWN { TypeId::TEXT.0 } else { ty.0 });
        }
        Ok((values, types))
    }

    /// Runs the statements that an expression gives; the rows are those of the last one.
    pub(super) async fn dynamic(&mut self, session: &mut Session, query: &Fragment, using: &[Fragment]) -> Result<Ran> {
        let text = self.text(session, query).await?;
        let text = text.ok_or_else(|| Error::new(SqlState("22004"), "query string argument of EXECUTE is null"))?;
        let (values, types) = self.using(session, using).await?;
        let statements = parse_within(&text, session.database.engine().memory()).map_err(Error::without_position)?;
        let mut last = None;
        for statement in statements {
            let statement = statement.without_place();
            self.refuse(&statement)?;
            let prepared = session.plan_statement(&statement, &types).map_err(Error::without_position)?;
            let ran = run_statement(session, &prepared, &values, usize::MAX).await;
            let ran =
                ran.map_err(|error| with_context(error.without_position(), &format!("SQL statement \"{text}\"")))?;
            if !ran.counts {
                self.facts = None;
            }
            last = Some(ran);
        }
        Ok(last.unwrap_or_default())
    }

    /// Refuses a statement that a function must not run.
    pub(super) fn refuse(&self, statement: &crate::statement::Statement) -> Result<()> {
        refuse_transaction(statement, "PL/pgSQL")?;
        self.body.routine.as_ref().map_or(Ok(()), |routine| refuse_change(statement, routine))
    }

    pub(super) async fn call(&mut self, session: &mut Session, statement: &Fragment) -> Result<()> {
        let declared: Vec<u32> = self.arguments.iter().map(|slot| self.type_of(*slot).0).collect();
        let variables =
            Arc::new(Variables::new(self.conflict, self.visible(), self.arguments.clone(), &statement.text));
        let parsed = parse_within_routine(&statement.text, Some(Arc::clone(&variables)))?;
        let Command::Definition(parser::ast::Statement::Call(written)) = &parsed.0.command else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "CALL is no call"));
        };
        let planned = call_plan::Planned::new(session, &parsed.0, written, Some(&variables), &declared)?;
        let values = self.values(&variables);
        let facts = self.facts(session);
        let is_atomic = self.is_atomic || self.handlers > 0;
        let returned = call::run(&planned, session, &values, &facts, is_atomic).await?;
        self.facts = None;
        let (Value::Record(types, _, fields), targets) = (returned, planned.targets()) else { return Ok(()) };
        for ((value, ty), target) in fields.iter().zip(&types).zip(targets) {
            let text = target.to_string();
            let path: Vec<String> = text.split('.').map(|part| part.trim_matches('"').to_owned()).collect();
            if self.find(&path).is_none() {
                let text = "procedure parameter is an output parameter but corresponding argument is not writable";
                return Err(Error::new(SqlState::SYNTAX_ERROR, text));
            }
            let target = Target { path, subscripts: Vec::new() };
            self.assign(session, &target, value.clone(), TypeId(*ty)).await?;
        }
        Ok(())
    }

    pub(super) async fn end_transaction(&mut self, session: &mut Session, commits: bool, chain: bool) -> Result<()> {
        let is_own = session.block.as_ref().is_some_and(|block| block.alone);
        if self.is_atomic || !is_own {
            return Err(Error::new(SqlState("2D000"), "invalid transaction termination"));
        }
        if self.handlers > 0 {
            let what = if commits { "commit" } else { "roll back" };
            let text = format!("cannot {what} while a subtransaction is active");
            return Err(Error::new(SqlState("2D000"), text));
        }
        let isolation = match &session.block {
            Some(block) if chain => block.isolation,
            _ => session.settings.isolation(),
        };
        self.facts = None;
        if commits {
            Box::pin(session.commit()).await?
        } else {
            session.roll_back()
        }
        session.begin(true, isolation);
        session.mark_alone();
        Ok(())
    }
}

/// Ends the savepoint of a block; its changes are kept.
fn release(session: &mut Session, mark: usize) {
    if let Some(block) = &mut session.block {
        block.release(mark);
    }
    session.advisory.release_savepoint(mark);
    session.cursors.release(mark);
    session.outbox.lock().release_savepoint(mark);
}
