//! Functions of users: as the binder sees them, the variables that their statements name, and calls from executors.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use binder::{NameConflict, Routine, Variable};
use catalog::{Signature, TypeId, Volatility, builtin};
use engine::Catalog;
use model::{
    Datum, Error, Result, RoutineLanguage, RoutineMode, RoutineRef, RoutineSpec, RoutineVolatility, SqlState, TableId,
    TableName, user_types,
};
use parking_lot::Mutex;
use parser::ast::{self, ExprKind, QueryBody};
use parser::plpgsql::{self, Fragment};
use pg_catalog::oids::{Part, of_table, table_of};
use rustc_hash::FxHashMap;
use scalar::{Call, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::settings::Settings;
use crate::threads::compute;

/// Bodies of routines that a session has called, by number and types of the arguments.
#[derive(Default)]
pub(crate) struct Bodies(FxHashMap<(u32, Box<[TypeId]>), Arc<Body>>);

/// Maximum number of bodies that a session keeps.
const BODIES_MAX: usize = 500;

impl Bodies {
    /// The body of a routine for arguments of these types.
    ///
    /// # Errors
    /// 42601 for a text that cannot be parsed.
    pub(crate) fn of(&mut self, routine: &RoutineRef, arguments: &[TypeId]) -> Result<Arc<Body>> {
        let key = (routine.id, Box::from(arguments));
        if let Some(known) = self.0.get(&key)
            && known.routine.as_ref().is_some_and(|known| Arc::ptr_eq(known, routine))
        {
            return Ok(Arc::clone(known));
        }
        let body = Arc::new(Body::new(Some(Arc::clone(routine)), routine.language, &routine.body)?);
        if self.0.len() >= BODIES_MAX {
            self.0.clear();
        }
        self.0.insert(key, Arc::clone(&body));
        Ok(body)
    }
}

/// The statements of a routine, parsed, with what was computed for each fragment of SQL.
pub(crate) struct Body {
    /// `None` for the body of DO.
    pub(crate) routine: Option<RoutineRef>,
    pub(crate) code: Code,
    /// By the numbers of the fragments; set by the executor.
    plans: Mutex<Vec<Option<Arc<dyn Any + Send + Sync>>>>,
}

/// Statements of a routine.
pub(crate) enum Code {
    /// Statements of SQL.
    Sql(Vec<Fragment>),
    PlPgSql(plpgsql::Body),
}

impl Body {
    /// Parses a body.
    ///
    /// # Errors
    /// 42601.
    pub(crate) fn new(routine: Option<RoutineRef>, language: RoutineLanguage, text: &str) -> Result<Body> {
        let (code, count) = match language {
            RoutineLanguage::PlPgSql => {
                let body = plpgsql::parse(text)?;
                let count = body.fragments;
                (Code::PlPgSql(body), count)
            }
            RoutineLanguage::Sql => {
                let ranges = parser::split(text)?;
                let fragment = |(number, range): (usize, std::ops::Range<usize>)| Fragment {
                    text: text[range].to_owned(),
                    number: u32::try_from(number).unwrap_or(u32::MAX),
                };
                let fragments: Vec<Fragment> = ranges.into_iter().enumerate().map(fragment).collect();
                let count = fragments.len() as u32;
                (Code::Sql(fragments), count)
            }
        };
        // One more: the condition of a trigger.
        Ok(Body { routine, code, plans: Mutex::new(vec![None; count as usize + 1]) })
    }

    /// The plan that was kept for a fragment.
    pub(crate) fn plan<T: Send + Sync + 'static>(&self, fragment: &Fragment) -> Option<Arc<T>> {
        let kept = self.plans.lock().get(fragment.number as usize).cloned().flatten()?;
        Arc::downcast(kept).ok()
    }

    /// Keeps something for a fragment.
    pub(crate) fn keep<T: Send + Sync + 'static>(&self, fragment: &Fragment, plan: Arc<T>) {
        if let Some(place) = self.plans.lock().get_mut(fragment.number as usize) {
            *place = Some(plan);
        }
    }
}

/// Name, type and type modifier of the columns of a row.
pub(crate) type Shape = Arc<[(Box<str>, TypeId, i32)]>;

/// OID of a routine.
pub(crate) fn oid_of(id: u32) -> u32 {
    of_table(TableId(id), Part::Table)
}

/// The columns of the row type or composite type with this OID; `None` for another type.
pub(crate) fn row_shape(ty: u32, catalog: &Catalog) -> Option<Shape> {
    if user_types::is_composite(ty) {
        let attributes = catalog.type_by_oid(ty)?.attributes()?;
        let one = |one: &model::Attribute| (one.name.as_str().into(), TypeId(one.ty.oid()), one.ty.typmod());
        return Some(attributes.iter().map(one).collect());
    }
    let (table, Part::RowType) = table_of(ty).filter(|_| !user_types::is_user(ty))? else { return None };
    if let Some(rows) = catalog.row_table_by_id(table) {
        let one = |(_, column): (usize, &model::RowColumn)| {
            (column.name.as_str().into(), TypeId(column.ty.oid()), column.ty.typmod())
        };
        return Some(rows.shown().map(one).collect());
    }
    if let Some(view) = catalog.view_by_id(table.0) {
        return Some(view.columns.iter().map(|one| (one.name.as_str().into(), TypeId(one.ty), one.typmod)).collect());
    }
    let columns = catalog.table_by_id(table)?;
    let one = |column: &model::Column| {
        let ty = columns.row_type(column);
        (column.name.as_str().into(), TypeId(ty.oid()), ty.typmod())
    };
    Some(columns.columns.iter().map(one).collect())
}

/// `trigger`, the result of trigger functions.
pub(crate) const TRIGGER: TypeId = TypeId(2279);

/// Number of `refcursor` in `pg_type`. Its values are names of cursors.
pub(crate) const REFCURSOR: u32 = 1790;

/// The type of values of a type: rows of a table are records, and values of a domain have its base type.
pub(crate) fn value_type(ty: u32) -> TypeId {
    match table_of(ty) {
        Some((_, Part::RowType)) if !user_types::is_user(ty) => TypeId::RECORD,
        _ if ty == REFCURSOR => TypeId::TEXT,
        _ => builtin().base_type(TypeId(ty)),
    }
}

/// The columns of the rows that a routine returns; `None` for one that returns values, or records of any shape.
pub(crate) fn result_shape(routine: &RoutineSpec, catalog: &Catalog) -> Option<Shape> {
    let outputs: Vec<_> = routine.outputs().collect();
    if outputs.len() > 1 || routine.is_procedure && !outputs.is_empty() {
        let one = |(at, parameter): (usize, &&model::RoutineParameter)| {
            let name = if parameter.name.is_empty() { format!("column{}", at + 1) } else { parameter.name.clone() };
            (name.into(), value_type(parameter.ty), -1)
        };
        return Some(outputs.iter().enumerate().map(one).collect());
    }
    row_shape(routine.result, catalog)
}

/// The columns of the rows that a routine returns in a call with arguments of these types.
///
/// # Errors
/// 42804 if the arguments do not fit polymorphic parameters.
pub(crate) fn called_shape(routine: &RoutineSpec, arguments: &[TypeId], catalog: &Catalog) -> Result<Option<Shape>> {
    let Some(shape) = result_shape(routine, catalog) else { return Ok(None) };
    if !shape.iter().any(|(_, ty, _)| ty.is_polymorphic()) {
        return Ok(Some(shape));
    }
    let declared: Vec<TypeId> = routine.inputs().map(|one| value_type(one.ty)).collect();
    let resolved = |(name, ty, typmod): &(Box<str>, TypeId, i32)| {
        let ty = if ty.is_polymorphic() { builtin().polymorphic(arguments, &declared, *ty)? } else { *ty };
        Ok((name.clone(), ty, *typmod))
    };
    Ok(Some(shape.iter().map(resolved).collect::<Result<_>>()?))
}

/// A routine as the binder sees it.
pub(crate) fn described(routine: &RoutineSpec, catalog: &Catalog) -> Routine {
    let inputs: Vec<_> = routine.inputs().collect();
    let shape = result_shape(routine, catalog);
    let variadic = inputs.last().filter(|parameter| parameter.mode == RoutineMode::Variadic);
    let output = routine.outputs().next().filter(|_| shape.is_none());
    Routine {
        oid: oid_of(routine.id),
        schema: routine.name.schema.as_str().into(),
        name: routine.name.table.as_str().into(),
        is_procedure: routine.is_procedure,
        signature: Signature {
            parameters: inputs.iter().map(|parameter| value_type(parameter.ty)).collect(),
            names: inputs.iter().map(|parameter| parameter.name.as_str().into()).collect(),
            defaults: inputs.iter().filter(|parameter| parameter.default.is_some()).count(),
            variadic: variadic.and_then(|parameter| builtin().element_of(TypeId(parameter.ty))),
            result: match shape.is_some() && !user_types::is_composite(routine.result) {
                true => TypeId::RECORD,
                false => value_type(routine.result),
            },
        },
        defaults: inputs.iter().filter_map(|parameter| parameter.default.as_deref()).map(Box::from).collect(),
        is_strict: routine.is_strict,
        returns_set: routine.returns_set,
        volatility: match routine.volatility {
            RoutineVolatility::Immutable => Volatility::Immutable,
            RoutineVolatility::Stable => Volatility::Stable,
            RoutineVolatility::Volatile => Volatility::Volatile,
        },
        columns: shape.iter().flat_map(|shape| shape.iter().cloned()).collect(),
        rows_of: rows_of(routine.result, catalog),
        output: output.map(|parameter| parameter.name.as_str()).filter(|name| !name.is_empty()).map(Into::into),
        inline: if shape.is_none() { inline(routine) } else { None },
    }
}

/// Schema and name of the table or view of a row type.
fn rows_of(ty: u32, catalog: &Catalog) -> Option<(Box<str>, Box<str>)> {
    let (TableId(table), Part::RowType) = table_of(ty).filter(|_| !user_types::is_user(ty))? else { return None };
    let name = catalog.name_of(table)?;
    Some((name.schema.as_str().into(), name.table.as_str().into()))
}

/// The expression that a function in SQL computes, if that is all that it does.
fn inline(routine: &RoutineSpec) -> Option<ast::Expr> {
    let is_plain = routine.language == RoutineLanguage::Sql
        && !routine.returns_set
        && !routine.is_procedure
        && !routine.is_definer
        && routine.settings.is_empty()
        && !routine.types().any(user_types::is_constrained)
        && routine.result != TypeId::RECORD.0
        && routine.result != TypeId::VOID.0;
    if !is_plain {
        return None;
    }
    let mut statements = parser::parse_all(&routine.body).ok()?;
    let (Some(ast::Statement::Query(query)), true) = (statements.pop().map(|one| one.statement), statements.is_empty())
    else {
        return None;
    };
    let ast::Query {
        with: None, body: QueryBody::Select(select), order_by, limit: None, offset: None, locking, ..
    } = &*query
    else {
        return None;
    };
    let [target] = select.targets.as_slice() else { return None };
    let bare = ast::Select { targets: select.targets.clone(), ..ast::Select::default() };
    if !order_by.is_empty() || !locking.is_empty() || **select != bare {
        return None;
    }
    struct Queries;
    impl ast::Visitor for Queries {
        type Break = ();

        fn enter_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<()> {
            std::ops::ControlFlow::Break(())
        }

        fn enter_expr(&mut self, expr: &ast::Expr) -> std::ops::ControlFlow<()> {
            match &expr.kind {
                // A function of sets or an aggregate is not computed for the row of the call.
                ExprKind::Function(call) if call.over.is_some() || is_of_rows(&call.name.name) => {
                    std::ops::ControlFlow::Break(())
                }
                _ => std::ops::ControlFlow::Continue(()),
            }
        }
    }
    let expr = &target.expr;
    let found: std::ops::ControlFlow<()> = ast::Visitor::visit_expr(&mut Queries, expr);
    found.is_continue().then(|| expr.clone())
}

/// Whether a function of the catalog with this name is an aggregate or returns a set.
fn is_of_rows(name: &str) -> bool {
    builtin().functions_named(name).any(|row| row.returns_set || !matches!(row.kind, catalog::FunctionKind::Scalar))
}

/// A variable that a statement may name.
#[derive(Clone, Debug)]
pub(crate) struct Visible {
    /// Labels of the blocks around it, the innermost last.
    pub(crate) label: Option<Box<str>>,
    pub(crate) name: Box<str>,
    /// Number among the variables.
    pub(crate) slot: usize,
    pub(crate) kind: VisibleKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VisibleKind {
    Value(TypeId, i32),
    /// A record; `None` as long as it has no value.
    Row(Option<Shape>),
}

/// A variable, or a field of a record, whose value is a parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) slot: usize,
    pub(crate) field: Option<usize>,
}

/// The variables around a statement, the innermost last.
pub(crate) struct Variables {
    conflict: NameConflict,
    visible: Vec<Visible>,
    /// Variables whose values are the first parameters of the statement.
    arguments: Vec<usize>,
    /// Those that the statement names.
    named: Mutex<Vec<bool>>,
    used: Mutex<Vec<Used>>,
}

impl Variables {
    /// The variables around a statement. `text`: the statement, which may have numbered parameters.
    pub(crate) fn new(conflict: NameConflict, visible: Vec<Visible>, arguments: Vec<usize>, text: &str) -> Variables {
        let named = Mutex::new(vec![text.contains('$'); arguments.len()]);
        Variables { conflict, visible, arguments, named, used: Mutex::default() }
    }

    /// Whether the statement needs the value of an argument.
    pub(crate) fn needs_argument(&self, at: usize) -> bool {
        self.named.lock().get(at).copied().unwrap_or(true)
    }

    pub(crate) fn conflict(&self) -> NameConflict {
        self.conflict
    }

    /// The variables that the statement names, in the order of their parameters.
    pub(crate) fn used(&self) -> Vec<Used> {
        self.used.lock().clone()
    }

    /// Whether each record that the statement names has the same columns still.
    pub(crate) fn holds(&self, kind: &dyn Fn(usize) -> Option<VisibleKind>) -> bool {
        self.used.lock().iter().all(|used| {
            let known = self.visible.iter().find(|one| one.slot == used.slot);
            known.is_some_and(|known| kind(used.slot).as_ref() == Some(&known.kind))
        })
    }

    fn parameter(&self, slot: usize, field: Option<usize>) -> u32 {
        // An argument may be named as `$1` too: a statement may compare both, as in GROUP BY.
        if field.is_none()
            && let Some(at) = self.arguments.iter().position(|argument| *argument == slot)
        {
            self.named.lock()[at] = true;
            return u32::try_from(at).unwrap_or(u32::MAX);
        }
        let mut used = self.used.lock();
        let wanted = Used { slot, field };
        let at = used.iter().position(|one| *one == wanted).unwrap_or_else(|| {
            used.push(wanted);
            used.len() - 1
        });
        u32::try_from(self.arguments.len() + at).unwrap_or(u32::MAX)
    }

    fn value(&self, one: &Visible) -> Result<Variable> {
        Ok(match &one.kind {
            VisibleKind::Value(ty, typmod) => Variable::Value(self.parameter(one.slot, None), *ty, *typmod),
            VisibleKind::Row(shape) => {
                let shape = shape.as_ref().ok_or_else(|| unassigned(&one.name))?;
                let columns = shape
                    .iter()
                    .enumerate()
                    .map(|(at, (name, ty, typmod))| (name.clone(), self.parameter(one.slot, Some(at)), *ty, *typmod));
                Variable::Row(columns.collect())
            }
        })
    }

    fn field(&self, one: &Visible, field: &str) -> Result<Option<Variable>> {
        let VisibleKind::Row(shape) = &one.kind else { return Ok(None) };
        let shape = shape.as_ref().ok_or_else(|| unassigned(&one.name))?;
        let Some(at) = shape.iter().position(|(name, ..)| **name == *field) else {
            let text = format!("record \"{}\" has no field \"{field}\"", one.name);
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
        };
        let (_, ty, typmod) = &shape[at];
        Ok(Some(Variable::Value(self.parameter(one.slot, Some(at)), *ty, *typmod)))
    }

    /// The variable of a name.
    ///
    /// # Errors
    /// 55000 for a record without value, 42703 for a field that it lacks.
    pub(crate) fn find(&self, path: &[&str]) -> Result<Option<Variable>> {
        let labeled = |one: &Visible, label: &str| one.label.as_deref() == Some(label);
        for one in self.visible.iter().rev() {
            match path {
                [name] if *one.name == **name => return self.value(one).map(Some),
                [record, field] if *one.name == **record => {
                    if let Some(found) = self.field(one, field)? {
                        return Ok(Some(found));
                    }
                }
                [label, name] if labeled(one, label) && *one.name == **name => return self.value(one).map(Some),
                [label, record, field] if labeled(one, label) && *one.name == **record => {
                    return self.field(one, field);
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn unassigned(name: &str) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("record \"{name}\" is not assigned yet"))
        .with_kind(model::ErrorKind::Invalid)
        .with_detail("The tuple structure of a not-yet-assigned record is indeterminate.")
}

/// A call of a routine by an executor, which waits for the reply.
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) arguments: Vec<Value>,
    pub(crate) reply: SyncSender<Result<Vec<Value>>>,
}

/// The functions with a name: of a schema, or of all schemas of the search path but that of temporary objects.
pub(crate) fn named(catalog: &Catalog, settings: &Settings, schema: Option<&str>, name: &str) -> Vec<Arc<Routine>> {
    if !catalog.has_routines() {
        return Vec::new();
    }
    let mut found: Vec<Arc<Routine>> = Vec::new();
    let path = match schema {
        Some(schema) => vec![settings.schema(schema).to_owned()],
        None => settings.function_path(),
    };
    for schema in path {
        let name = TableName { schema, table: name.to_owned() };
        for routine in catalog.routines_named(&name) {
            let routine = described(routine, catalog);
            // One of an earlier schema hides others with the same parameters.
            let same = |other: &Arc<Routine>| other.signature.parameters == routine.signature.parameters;
            if !found.iter().any(same) {
                found.push(Arc::new(routine));
            }
        }
    }
    found
}

/// The calls of routines of one statement: an executor makes them on its threads, the session serves them.
pub(crate) struct RoutineCalls {
    requests: Mutex<Option<UnboundedSender<Request>>>,
    catalog: Arc<Catalog>,
    settings: Arc<Settings>,
}

impl RoutineCalls {
    /// Calls of the functions of a catalog, none of which is accepted yet.
    pub(crate) fn new(catalog: Arc<Catalog>, settings: Arc<Settings>) -> RoutineCalls {
        RoutineCalls { requests: Mutex::default(), catalog, settings }
    }

    /// Accepts calls from now on, which the caller must serve until it drops the receiver.
    pub(crate) fn accept(&self) -> UnboundedReceiver<Request> {
        let (sender, receiver) = unbounded_channel();
        *self.requests.lock() = Some(sender);
        receiver
    }

    /// Ends the acceptance of calls.
    pub(crate) fn close(&self) {
        *self.requests.lock() = None;
    }

    /// The volatility of a function.
    pub(crate) fn volatility(&self, oid: u32) -> RoutineVolatility {
        let found = table_of(oid).and_then(|(id, _)| self.catalog.routine_by_id(id.0));
        found.map_or(RoutineVolatility::Volatile, |routine| routine.volatility)
    }

    fn call(&self, call: &Call, arguments: &[Datum<'_>]) -> Result<Vec<Value>> {
        let refused = || Error::unsupported("a function that runs statements is not supported in this place");
        let sender = self.requests.lock().clone().ok_or_else(refused)?;
        let (reply, answer) = sync_channel(1);
        let arguments = arguments.iter().map(Value::of).collect();
        sender.send(Request { call: call.clone(), arguments, reply }).map_err(|_| refused())?;
        // Other work of this thread goes on elsewhere.
        compute(|| answer.recv())
            .map_err(|_| Error::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"))?
    }
}

impl fmt::Debug for RoutineCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoutineCalls")
    }
}

impl scalar::Routines for RoutineCalls {
    fn named(&self, schema: Option<&str>, name: &str) -> Vec<Arc<dyn Any + Send + Sync>> {
        let described = named(&self.catalog, &self.settings, schema, name);
        described.into_iter().map(|routine| -> Arc<dyn Any + Send + Sync> { routine }).collect()
    }

    fn value(&self, call: &Call, arguments: &[Datum<'_>]) -> Result<Value> {
        Ok(self.call(call, arguments)?.into_iter().next().unwrap_or(Value::NULL))
    }

    fn rows(&self, call: &Call, arguments: &[Datum<'_>]) -> Result<Vec<Value>> {
        self.call(call, arguments)
    }
}
