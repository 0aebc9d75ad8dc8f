//! Runs PL/pgSQL. Variables are slots of a list that blocks extend; expressions and statements are bound when they first
//! run, with the variables as parameters, and are kept with the body as long as records keep their columns.

mod assignment;
mod cursors;
mod messages;
mod statements;

use std::sync::Arc;

use binder::NameConflict;
use catalog::TypeId;
use model::{ArrayDimension, Datum, Error, Result, RoutineMode, SqlState, TriggerEvent, user_types};
use parser::plpgsql::{Conflict, Fragment};
use pg_catalog::oids::{Part, of_table};
use relational::Reserved;
use scalar::{Expr, Value};

use super::trigger::Fired;
use super::values::{Parameters, calls, computed, converted, evaluated, first_value, shaped, text_of};
use super::{Ran, ResultColumn, Returned, run_statement, signature, with_context};
use crate::binding;
use crate::plan::Prepared;
use crate::plan::routine::single_row;
use crate::routines::{Body, Code, Shape, Used, Variables, Visible, VisibleKind, row_shape, value_type};
use crate::session::Session;
use crate::session::facts::facts;
use crate::settings::Settings;
use crate::statement::{Command, parse_within_routine};

/// A variable.
struct Slot {
    name: Box<str>,
    kind: Kind,
    constant: bool,
    not_null: bool,
    value: Value,
    /// Query and parameters of a cursor that is declared with them.
    cursor: Option<Arc<Cursor>>,
}

#[derive(Clone)]
enum Kind {
    Value(TypeId, i32),
    /// A record, with the columns that it has now.
    Record(Option<Shape>),
    /// A row of fixed columns.
    Row(Shape),
}

struct Cursor {
    parameters: Vec<(String, TypeId, i32)>,
    query: Fragment,
    scroll: Option<bool>,
}

/// A name of a slot.
struct Name {
    label: Option<Box<str>>,
    name: Box<str>,
    slot: usize,
}

/// The way on after a statement.
enum Flow {
    Next,
    Exit(Option<String>),
    Continue(Option<String>),
    Return,
}

/// The plan of a fragment.
enum Planned {
    /// Expressions without tables.
    Exprs {
        /// Whether each calls functions of users.
        exprs: Vec<(Expr, bool)>,
        columns: Arc<[ResultColumn]>,
    },
    Statement(Prepared),
}

struct FragmentPlan {
    planned: Planned,
    variables: Arc<Variables>,
    /// Kept while catalog and settings are these.
    catalog: Arc<engine::Catalog>,
    settings: Arc<Settings>,
}

/// A running call.
pub(super) struct Run {
    body: Arc<Body>,
    types: Vec<TypeId>,
    result: TypeId,
    shape: Option<Shape>,
    is_atomic: bool,
    slots: Vec<Slot>,
    names: Vec<Name>,
    label: Option<Box<str>>,
    conflict: NameConflict,
    /// Whether a savepoint of a block with handlers is open.
    handlers: usize,
    returned: Option<Value>,
    rows: Vec<Value>,
    held: Option<Reserved>,
    rows_bytes: usize,
    row_count: i64,
    /// The errors of the handlers that run, the innermost last.
    errors: Vec<Error>,
    facts: Option<(Arc<scalar::Session>, Arc<Settings>)>,
    /// Whether the error is one that a handler raised again: it has the context of the first time.
    is_raised_again: bool,
    /// Memory of the values of variables.
    value_bytes: usize,
    held_values: Option<Reserved>,
    /// Line and kind of the running statement.
    at: (u32, &'static str),
    /// Name and types of the routine, for the context of errors.
    signature: Option<String>,
    /// Slots of the parameters `$1 …`.
    arguments: Vec<usize>,
}

const FOUND: &str = "found";

impl Run {
    pub(super) fn new(
        body: &Arc<Body>,
        types: &[TypeId],
        result: TypeId,
        shape: Option<Shape>,
        is_atomic: bool,
    ) -> Run {
        let conflict = match &body.code {
            Code::PlPgSql(code) => match code.conflict {
                None | Some(Conflict::Error) => NameConflict::Error,
                Some(Conflict::Variable) => NameConflict::Variable,
                Some(Conflict::Column) => NameConflict::Column,
            },
            Code::Sql(_) => NameConflict::Column,
        };
        Run {
            body: Arc::clone(body),
            types: types.to_vec(),
            result,
            shape,
            is_atomic,
            slots: Vec::new(),
            names: Vec::new(),
            label: None,
            conflict,
            handlers: 0,
            returned: None,
            rows: Vec::new(),
            held: None,
            rows_bytes: 0,
            row_count: 0,
            errors: Vec::new(),
            facts: None,
            is_raised_again: false,
            value_bytes: 0,
            held_values: None,
            at: (0, ""),
            signature: None,
            arguments: Vec::new(),
        }
    }

    /// Runs the body as the function of a trigger. The value is the row that it returns, or NULL.
    pub(super) async fn trigger(&mut self, session: &mut Session, fired: Fired) -> Result<Value> {
        let ran = self.run_trigger(session, fired).await;
        ran.map_err(|error| self.in_context(session, error.without_position()))
    }

    async fn run_trigger(&mut self, session: &mut Session, fired: Fired) -> Result<Value> {
        let body = Arc::clone(&self.body);
        let Code::PlPgSql(code) = &body.code else { return Err(Error::bug("a body that is not PL/pgSQL")) };
        self.at = (0, "during function entry");
        let Fired { table, trigger, event, old, new } = fired;
        let unchanged = if event == TriggerEvent::Delete { old.clone() } else { new.clone() };
        let shape = self.shape.clone().ok_or_else(|| Error::bug("a trigger of a table without columns"))?;
        for (name, row) in [("new", new), ("old", old)] {
            let slot = self.declare(name, Kind::Row(Arc::clone(&shape)), Value::NULL);
            self.assign_record(session, slot, row)?;
        }
        // The condition has no other variables.
        if let Some(condition) = &trigger.condition {
            let fragment = Fragment { text: condition.clone(), number: code.fragments };
            if !self.condition(session, &fragment).await? {
                return Ok(unchanged);
            }
        }
        session.trigger_depth += 1;
        self.facts = None;
        self.label = body.routine.as_ref().map(|routine| routine.name.table.as_str().into());
        let text = |text: &str| Value::Text(text.into());
        let level = if trigger.each_row { "ROW" } else { "STATEMENT" };
        let relation = Value::Plain(Datum::Oid(of_table(table.id, Part::Table)));
        let count = i32::try_from(trigger.arguments.len()).unwrap_or(i32::MAX);
        let items: Vec<Value> = trigger.arguments.iter().map(|argument| text(argument)).collect();
        let dimensions: Box<[ArrayDimension]> =
            if items.is_empty() { Box::default() } else { Box::new([ArrayDimension { length: count, lower: 0 }]) };
        let arguments = Value::Array { element: TypeId::TEXT.0, dimensions, items: items.into() };
        let text_array = catalog::builtin().array_of(TypeId::TEXT).unwrap_or(TypeId::TEXT);
        let variables = [
            ("tg_name", TypeId::TEXT, text(&trigger.name)),
            ("tg_when", TypeId::TEXT, text(trigger.timing.word())),
            ("tg_level", TypeId::TEXT, text(level)),
            ("tg_op", TypeId::TEXT, text(event.word())),
            ("tg_relid", TypeId(26), relation),
            ("tg_relname", TypeId::TEXT, text(&table.name.table)),
            ("tg_table_name", TypeId::TEXT, text(&table.name.table)),
            ("tg_table_schema", TypeId::TEXT, text(&table.name.schema)),
            ("tg_nargs", TypeId::INT4, Value::Plain(Datum::Int4(count))),
            ("tg_argv", text_array, arguments),
        ];
        for (name, ty, value) in variables {
            self.declare(name, Kind::Value(ty, -1), value);
        }
        self.declare(FOUND, Kind::Value(TypeId::BOOL, -1), Value::Plain(Datum::Bool(false)));
        let flow = self.block(session, &code.block).await?;
        if !matches!(flow, Flow::Return) {
            self.at = (0, "");
            let text = "control reached end of trigger procedure without RETURN";
            return Err(Error::new(SqlState("2F005"), text));
        }
        Ok(self.returned.take().unwrap_or(Value::NULL))
    }

    /// Runs the body.
    pub(super) async fn routine(&mut self, session: &mut Session, arguments: Vec<Value>) -> Result<Returned> {
        let ran = self.run(session, arguments).await;
        ran.map_err(|error| self.in_context(session, error.without_position()))
    }

    fn in_context(&mut self, session: &Session, error: Error) -> Error {
        let (line, what) = self.at;
        let place = match &self.body.routine {
            Some(routine) => {
                let name = self.signature.get_or_insert_with(|| signature(session, routine));
                format!("PL/pgSQL function {name}")
            }
            None => "PL/pgSQL function inline_code_block".to_owned(),
        };
        match line {
            _ if std::mem::take(&mut self.is_raised_again) => error,
            0 if what.is_empty() => with_context(error, &place),
            0 => with_context(error, &format!("{place} {what}")),
            line => with_context(error, &format!("{place} line {line} at {what}")),
        }
    }

    async fn run(&mut self, session: &mut Session, arguments: Vec<Value>) -> Result<Returned> {
        let body = Arc::clone(&self.body);
        let Code::PlPgSql(code) = &body.code else { return Err(Error::bug("a body that is not PL/pgSQL")) };
        self.at = (0, "during function entry");
        self.label = body.routine.as_ref().map(|routine| routine.name.table.as_str().into());
        self.parameters(session, arguments)?;
        self.declare(FOUND, Kind::Value(TypeId::BOOL, -1), Value::Plain(Datum::Bool(false)));
        let flow = self.block(session, &code.block).await?;
        let Some(routine) = &body.routine else {
            return Ok(Returned::Value(Value::NULL));
        };
        if routine.returns_set {
            return Ok(Returned::Rows(std::mem::take(&mut self.rows)));
        }
        if !matches!(flow, Flow::Return) {
            let has_outputs = routine.outputs().next().is_some();
            if !has_outputs && self.result != TypeId::VOID && !routine.is_procedure {
                self.at = (0, "");
                let text = "control reached end of function without RETURN";
                return Err(Error::new(SqlState("2F005"), text));
            }
            self.returned = Some(self.outputs(session)?);
        }
        if self.result == TypeId::VOID && !routine.is_procedure && self.shape.is_none() {
            // PostgreSQL has an empty text and no NULL.
            return Ok(Returned::Value(Value::Text("".into())));
        }
        Ok(Returned::Value(self.returned.take().unwrap_or(Value::NULL)))
    }

    fn declare(&mut self, name: &str, kind: Kind, value: Value) -> usize {
        let slot = self.slots.len();
        let name: Box<str> = name.into();
        self.slots.push(Slot { name: name.clone(), kind, constant: false, not_null: false, value, cursor: None });
        self.names.push(Name { label: self.label.clone(), name, slot });
        slot
    }

    fn parameters(&mut self, session: &mut Session, arguments: Vec<Value>) -> Result<()> {
        let body = Arc::clone(&self.body);
        let Some(routine) = &body.routine else { return Ok(()) };
        let snapshot = session.newest();
        let catalog = snapshot.catalog();
        let (mut values, mut types) = (arguments.into_iter(), self.types.clone().into_iter());
        for (number, parameter) in routine.parameters.iter().enumerate() {
            let (value, mut ty) = match parameter.mode.is_input() {
                true => (values.next().unwrap_or(Value::NULL), types.next().unwrap_or(value_type(parameter.ty))),
                false => (Value::NULL, value_type(parameter.ty)),
            };
            if ty.is_polymorphic() {
                let declared: Vec<TypeId> = routine.inputs().map(|one| value_type(one.ty)).collect();
                ty = catalog::builtin().polymorphic(&self.types, &declared, ty).unwrap_or(ty);
            }
            let kind = match row_shape(parameter.ty, catalog) {
                Some(shape) => Kind::Row(shape),
                None if ty == TypeId::RECORD => Kind::Record(None),
                None if user_types::is_constrained(parameter.ty) => Kind::Value(TypeId(parameter.ty), -1),
                None => Kind::Value(ty, -1),
            };
            let name = match (parameter.name.is_empty(), parameter.mode) {
                (true, RoutineMode::Table) => format!("column{}", number + 1),
                (true, _) => format!("${}", number + 1),
                _ => parameter.name.clone(),
            };
            let slot = self.declare(&name, kind, Value::NULL);
            self.names.push(Name { label: None, name: format!("${}", number + 1).into(), slot });
            match &self.slots[slot].kind {
                Kind::Value(..) => self.slots[slot].value = value,
                _ => self.assign_record(session, slot, value)?,
            }
            if parameter.mode.is_input() {
                self.arguments.push(slot);
            }
        }
        Ok(())
    }

    /// The result of a routine with OUT parameters.
    fn outputs(&mut self, session: &mut Session) -> Result<Value> {
        let body = Arc::clone(&self.body);
        let Some(routine) = &body.routine else { return Ok(Value::NULL) };
        let slots: Vec<usize> = routine
            .parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.mode.is_output())
            .map(|(slot, _)| slot)
            .collect();
        match (&self.shape, slots.as_slice()) {
            (Some(shape), slots) if !slots.is_empty() => {
                let shape = Arc::clone(shape);
                let types: Vec<u32> = slots.iter().map(|slot| self.type_of(*slot).0).collect();
                let values = slots.iter().map(|slot| self.slots[*slot].value.clone()).collect();
                shaped(session, &types, values, &shape)
            }
            (None, [slot]) => Ok(self.slots[*slot].value.clone()),
            _ => Ok(Value::NULL),
        }
    }

    fn type_of(&self, slot: usize) -> TypeId {
        match &self.slots[slot].kind {
            Kind::Value(ty, _) => value_type(ty.0),
            Kind::Record(_) | Kind::Row(_) => TypeId::RECORD,
        }
    }

    fn kind_of(&self, slot: usize) -> Option<VisibleKind> {
        Some(match &self.slots.get(slot)?.kind {
            Kind::Value(ty, typmod) => VisibleKind::Value(value_type(ty.0), *typmod),
            Kind::Record(shape) => VisibleKind::Row(shape.clone()),
            Kind::Row(shape) => VisibleKind::Row(Some(Arc::clone(shape))),
        })
    }

    /// The slot of a name, and the parts of the name behind it.
    fn find<'p>(&self, path: &'p [String]) -> Option<(usize, &'p [String])> {
        for name in self.names.iter().rev() {
            match path {
                [first, rest @ ..] if *name.name == **first => return Some((name.slot, rest)),
                [label, first, rest @ ..] if name.label.as_deref() == Some(label.as_str()) && *name.name == **first => {
                    return Some((name.slot, rest));
                }
                _ => {}
            }
        }
        None
    }

    fn expect<'p>(&self, path: &'p [String]) -> Result<(usize, &'p [String])> {
        self.find(path).ok_or_else(|| {
            let name = path.join(".");
            Error::new(SqlState::SYNTAX_ERROR, format!("\"{name}\" is not a known variable"))
        })
    }

    fn visible(&self) -> Vec<Visible> {
        let one = |name: &Name| {
            let kind = self.kind_of(name.slot)?;
            Some(Visible { label: name.label.clone(), name: name.name.clone(), slot: name.slot, kind })
        };
        self.names.iter().filter_map(one).collect()
    }

    fn set_found(&mut self, found: bool) {
        if let Some((slot, _)) = self.find(&[FOUND.to_owned()]) {
            self.slots[slot].value = Value::Plain(Datum::Bool(found));
        }
    }

    fn facts(&mut self, session: &mut Session) -> Arc<scalar::Session> {
        if let Some((known, settings)) = &self.facts
            && Arc::ptr_eq(settings, &session.settings)
        {
            return Arc::clone(known);
        }
        let context = session.context();
        let made = facts(&context);
        self.facts = Some((Arc::clone(&made), Arc::clone(&session.settings)));
        made
    }

    /// Plans a fragment; `prefix` makes an expression a query.
    fn plan(&mut self, session: &mut Session, fragment: &Fragment, prefix: &str) -> Result<Arc<FragmentPlan>> {
        let snapshot = session.newest();
        if let Some(known) = self.body.plan::<FragmentPlan>(fragment)
            && Arc::ptr_eq(&known.catalog, snapshot.catalog())
            && Arc::ptr_eq(&known.settings, &session.settings)
            && known.variables.holds(&|slot| self.kind_of(slot))
        {
            return Ok(known);
        }
        let declared: Vec<u32> = self.arguments.iter().map(|slot| self.type_of(*slot).0).collect();
        let text = format!("{prefix}{}", fragment.text);
        let variables = Arc::new(Variables::new(self.conflict, self.visible(), self.arguments.clone(), &text));
        let statement = parse_within_routine(&text, Some(Arc::clone(&variables)))?;
        self.refuse(&statement)?;
        let mut planned = None;
        if (!prefix.is_empty() || text.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("SELECT ")))
            && let Command::Query(query) = &statement.0.command
        {
            let context = session.context_of_newest();
            let bound = binding::bind_query(&context, &statement.0, query, &declared);
            let bound = bound.map_err(Error::without_position)?;
            if let Some(exprs) = single_row(&bound) {
                let output = &bound.query().output;
                let columns = output.iter().map(|one| (one.name.clone(), one.ty, one.typmod)).collect();
                let exprs = exprs.into_iter().map(|expr| {
                    let calls = calls(&expr);
                    (expr, calls)
                });
                planned = Some(Planned::Exprs { exprs: exprs.collect(), columns });
            }
        }
        let planned = match planned {
            Some(planned) => planned,
            None => Planned::Statement(session.plan_statement(&statement, &declared).map_err(Error::without_position)?),
        };
        let (catalog, settings) = (Arc::clone(snapshot.catalog()), Arc::clone(&session.settings));
        let plan = Arc::new(FragmentPlan { planned, variables, catalog, settings });
        self.body.keep(fragment, Arc::clone(&plan));
        Ok(plan)
    }

    /// The values of the parameters of a statement.
    fn values(&self, variables: &Variables) -> Vec<Value> {
        let argument = |(at, slot): (usize, &usize)| match variables.needs_argument(at) {
            true => self.slots[*slot].value.clone(),
            false => Value::NULL,
        };
        let mut values: Vec<Value> = self.arguments.iter().enumerate().map(argument).collect();
        values.extend(variables.used().iter().map(|used| self.used(*used).clone()));
        values
    }

    /// The value of a parameter of a fragment that names these variables.
    pub(super) fn parameter(&self, number: usize, used: &[Used]) -> Option<&Value> {
        match self.arguments.get(number) {
            Some(slot) => self.slots.get(*slot).map(|slot| &slot.value),
            None => used.get(number - self.arguments.len()).map(|used| self.used(*used)),
        }
    }

    /// The value of a variable, or of a field of a record.
    fn used(&self, used: Used) -> &Value {
        match (used.field, &self.slots[used.slot].value) {
            (None, value) => value,
            (Some(field), Value::Record(_, _, values)) => values.get(field).unwrap_or(&Value::NULL),
            (Some(_), _) => &Value::NULL,
        }
    }

    /// Runs a fragment as a query or statement.
    async fn ran(&mut self, session: &mut Session, fragment: &Fragment, prefix: &str) -> Result<Ran> {
        self.ran_up_to(session, fragment, prefix, usize::MAX).await
    }

    /// As [`Run::ran`]; a query may leave out rows after the first `rows_max`.
    async fn ran_up_to(
        &mut self,
        session: &mut Session,
        fragment: &Fragment,
        prefix: &str,
        rows_max: usize,
    ) -> Result<Ran> {
        let plan = self.plan(session, fragment, prefix)?;
        let what = match (prefix, &plan.planned) {
            ("", _) => "statement",
            (_, Planned::Statement(_)) => "expression",
            (_, Planned::Exprs { .. }) => return self.ran_plan(session, &plan, rows_max).await,
        };
        let ran = self.ran_plan(session, &plan, rows_max).await;
        ran.map_err(|error| with_context(error.without_position(), &format!("SQL {what} \"{}\"", fragment.text)))
    }

    async fn ran_plan(&mut self, session: &mut Session, plan: &FragmentPlan, rows_max: usize) -> Result<Ran> {
        match &plan.planned {
            Planned::Exprs { exprs, columns } => {
                let facts = self.facts(session);
                let mut row = Vec::with_capacity(exprs.len());
                for (expr, calls) in exprs {
                    row.push(match calls {
                        false => computed(expr, Parameters::Variables(self, &plan.variables.used()), &facts)?,
                        true => evaluated(session, expr, &self.values(&plan.variables), &facts).await?,
                    });
                }
                session.assign_pending();
                Ok(Ran { columns: Arc::clone(columns), rows: vec![row], count: 1, counts: true, ..Ran::default() })
            }
            Planned::Statement(prepared) => {
                let ran = run_statement(session, prepared, &self.values(&plan.variables), rows_max).await?;
                if !ran.counts {
                    // A definition or a setting: names and values may have another meaning.
                    self.facts = None;
                }
                Ok(ran)
            }
        }
    }

    /// The value of an expression, and its type.
    async fn value(&mut self, session: &mut Session, fragment: &Fragment) -> Result<(Value, TypeId)> {
        let mut ran = self.ran(session, fragment, "SELECT ").await?;
        if ran.columns.len() > 1 {
            let text = format!("query \"{}\" returned {} columns", fragment.text, ran.columns.len());
            return Err(Error::new(SqlState::SYNTAX_ERROR, text));
        }
        if ran.rows.len() > 1 {
            let text = format!("query \"{}\" returned more than one row", fragment.text);
            return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text));
        }
        Ok(first_value(&mut ran))
    }

    async fn value_as(&mut self, session: &mut Session, fragment: &Fragment, ty: TypeId) -> Result<Value> {
        let (value, from) = self.value(session, fragment).await?;
        converted(session, value, from, ty, -1)
    }

    async fn condition(&mut self, session: &mut Session, fragment: &Fragment) -> Result<bool> {
        Ok(matches!(self.value_as(session, fragment, TypeId::BOOL).await?, Value::Plain(Datum::Bool(true))))
    }

    async fn integer(&mut self, session: &mut Session, fragment: &Fragment) -> Result<Option<i64>> {
        Ok(match self.value_as(session, fragment, TypeId::INT8).await? {
            Value::Plain(Datum::Int8(value)) => Some(value),
            _ => None,
        })
    }

    async fn text(&mut self, session: &mut Session, fragment: &Fragment) -> Result<Option<String>> {
        let (value, ty) = self.value(session, fragment).await?;
        if value.is_null() {
            return Ok(None);
        }
        let facts = self.facts(session);
        text_of(&value, ty, &facts).map(Some)
    }
}
