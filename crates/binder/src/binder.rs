//! The state of binding one statement.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::{Catalog, TypeId, builtin};
use model::{Error, Result, SqlState};
use parser::ast::{self, Pos};
use rustc_hash::FxHashMap;
use scalar::{Call, Context, Expr, ExprKind, Place, Session, Value};

use crate::change::BoundChange;
use crate::inheritance::{Family, PartitionTest};
use crate::routine::{Inlined, NameConflict, Routine, Variable};
use crate::scope::Scope;
use crate::tree::{ChangeStatement, Column, Cte, Query, Statement, Subplan, Table};
use crate::view::{ViewNotes, ViewQuery};
use crate::walk::OuterColumns;

/// Maximum number of expressions and queries within each other. A level takes some kilobytes of stack here, and some more in
/// the executors.
pub(crate) const LEVELS_MAX: usize = 1_000;

/// Stack that must be left for a level, and by how much the stack grows where less is left.
const STACK_LEFT_BYTES: usize = 128 << 10;
const STACK_GROWTH_BYTES: usize = 2 << 20;

/// Facts that the binder asks the database for.
pub trait Schema {
    /// The table of a name; without a schema, the first one along the search path. `None` if there is none.
    ///
    /// # Errors
    /// 0A000 for a relation that cannot be bound.
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>>;

    /// The tables that inherit directly from a table, or its partitions in the order of their bounds.
    ///
    /// # Errors
    /// XX001 if one does not exist.
    fn children(&self, _table: &Table) -> Result<Vec<Arc<Table>>> {
        Ok(Vec::new())
    }

    /// For each partition of a table, in the order of [`Schema::children`], whether it can have a row that passes all tests;
    /// `None` if all can.
    ///
    /// # Errors
    /// XX001 for a bound that cannot be read.
    fn unpruned(&self, _table: &Table, _tests: &[PartitionTest]) -> Result<Option<Vec<bool>>> {
        Ok(None)
    }

    /// The query of a view, which [`Schema::table`] returned.
    ///
    /// # Errors
    /// XX001 for a text that cannot be parsed.
    fn view(&self, view: &Table) -> Result<ViewQuery> {
        Err(Error::bug(format!("no query of view {}", view.name)))
    }

    /// The name of a table that a user who wrote an unknown name may have meant.
    fn similar_table(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether constants of `timestamptz` keep nanoseconds, even if no table of the statement has them.
    fn keeps_nanoseconds(&self) -> bool {
        false
    }

    /// Whether a function in FROM gives the rows of a table.
    fn is_table_function(&self, _name: &str) -> bool {
        false
    }

    /// The table of a function in FROM. An argument that is not constant is `None`.
    ///
    /// # Errors
    /// Those of the function.
    fn table_function(&self, name: &str, _arguments: &[Option<Value>]) -> Result<Arc<Table>> {
        Err(Error::bug(format!("no table of function {name}")))
    }

    /// A function of an application in FROM; `None` if there is none.
    fn application_function(&self, _schema: &str, _name: &str) -> Option<ApplicationFunction> {
        None
    }

    /// The functions and procedures of users with a name: of a schema, or of all schemas of the search path.
    fn routines(&self, _schema: Option<&str>, _name: &str) -> Vec<Arc<Routine>> {
        Vec::new()
    }

    /// The meaning of a name that is a variable and a column; `None` if no procedural code is around the statement.
    fn name_conflict(&self) -> Option<NameConflict> {
        None
    }

    /// The variable of a name, whose parts are given.
    ///
    /// # Errors
    /// 55000 for a record without value; 42703 for a field that it lacks.
    fn variable(&self, _path: &[&str]) -> Result<Option<Variable>> {
        Ok(None)
    }

    /// Facts of the session, by which constants are read.
    fn session(&self) -> &Session;
}

/// A function of an application in FROM, as a table.
#[derive(Clone, Debug)]
pub struct ApplicationFunction {
    /// Columns of the rows first, then for each argument a column of each type in which its value may be given; text is the first.
    pub table: Arc<Table>,
    /// Number of the columns of the rows.
    pub shown: usize,
    /// Names of the arguments.
    pub arguments: &'static [&'static str],
    /// Arguments that must be given: the first ones.
    pub needed: usize,
}

/// Binds a query. `declared` has known types of the parameters; it may be shorter than the number of parameters.
///
/// # Errors
/// Those of PostgreSQL's parse analysis, with their place in `sql`; 0A000 for what is not supported.
pub fn bind(schema: &dyn Schema, sql: &str, query: &ast::Query, declared: &[Option<TypeId>]) -> Result<Query> {
    let mut binder = Binder::new(schema, declared);
    let bound = binder.statement(query).and_then(|query| binder.expand_query(query));
    bound.map_err(|error| placed_in(error, sql))
}

/// Number and type modifier of a type as a statement names it.
///
/// # Errors
/// 42704 if there is none; 42601 and 22023 for wrong modifiers.
pub fn data_type(schema: &dyn Schema, name: &ast::TypeName) -> Result<(TypeId, i32)> {
    Binder::new(schema, &[]).data_type(name)
}

/// Binds a query or a change.
///
/// # Errors
/// As [`bind`]; 0A000 for other statements.
pub fn bind_statement(
    schema: &dyn Schema,
    sql: &str,
    statement: &ast::Statement,
    declared: &[Option<TypeId>],
) -> Result<Statement> {
    let mut binder = Binder::new(schema, declared);
    let bound = match statement {
        ast::Statement::Query(query) => {
            let query = binder.statement(query).and_then(|query| binder.expand_query(query));
            query.map(|query| Statement::Query(Box::new(query)))
        }
        ast::Statement::Insert(insert) => binder.change(|binder| binder.insert(insert, None)),
        ast::Statement::Update(update) => binder.change(|binder| binder.update(update, None)),
        ast::Statement::Delete(delete) => binder.change(|binder| binder.delete(delete, None)),
        ast::Statement::Merge(merge) => binder.change(|binder| binder.merge(merge, None)),
        _ => Err(unsupported("this statement", Pos(0))),
    };
    bound.map_err(|error| placed_in(error, sql))
}

/// Replaces the byte that the binder noted by the position that clients see: characters from 1.
pub(crate) fn placed_in(error: Error, sql: &str) -> Error {
    match error.position() {
        // A statement begins with a word, at which no error points: the place is not known.
        Some(0) => error.without_position(),
        Some(byte) => error.with_position(parser::lexer::position(sql, byte)),
        None => error,
    }
}

pub(crate) struct Binder<'s> {
    pub(crate) schema: &'s dyn Schema,
    pub(crate) catalog: &'static Catalog,
    /// Columns of the statement by number.
    pub(crate) columns: Vec<Column>,
    pub(crate) subqueries: Vec<Subplan>,
    pub(crate) ctes: Vec<Cte>,
    pub(crate) outer: OuterColumns,
    /// OID of the table and number of the column, of columns that are a table's as they are.
    pub(crate) origins: FxHashMap<u32, (u32, i16)>,
    /// Calls of functions whose rows are columns as a whole.
    pub(crate) rows_of: FxHashMap<u32, Call>,
    /// Users' functions that the statement calls.
    pub(crate) called: FxHashMap<u32, Arc<Routine>>,
    /// Place of the call that is an item of FROM, which stays a call.
    pub(crate) from_function: Option<u32>,
    /// Users' functions whose expressions are being bound, the innermost last.
    pub(crate) inlining: Vec<Inlined>,
    /// Parts of the expressions that stand for calls.
    pub(crate) inlined_parts: usize,
    /// Whether a table of the statement has times in nanoseconds.
    pub(crate) has_nanoseconds: bool,
    /// Scanned tables with their columns.
    pub(crate) scans: Vec<(Arc<Table>, Vec<u32>)>,
    /// Scans of tables with children.
    pub(crate) families: Vec<Family>,
    /// Views whose queries are being bound, the innermost last.
    pub(crate) views: Vec<Arc<ViewQuery>>,
    /// Number of views that were bound.
    pub(crate) views_read: usize,
    /// What a new view needs to know about its query; `None` for other statements.
    pub(crate) notes: Option<ViewNotes>,
    /// Whether a view is defined, whose query is not run.
    pub(crate) defines_view: bool,
    /// Number of expressions and queries around the current one.
    level: usize,
    /// Types of the parameters as far as they are known.
    pub(crate) parameters: Vec<Option<TypeId>>,
    /// The first error that PostgreSQL's rewriter would find, which runs after analysis.
    late: Option<Error>,
    /// The first error that its planner would find.
    latest: Option<Error>,
}

impl<'s> Binder<'s> {
    pub(crate) fn new(schema: &'s dyn Schema, declared: &[Option<TypeId>]) -> Binder<'s> {
        Binder {
            schema,
            catalog: builtin(),
            columns: Vec::new(),
            subqueries: Vec::new(),
            ctes: Vec::new(),
            outer: OuterColumns::default(),
            origins: FxHashMap::default(),
            rows_of: FxHashMap::default(),
            called: FxHashMap::default(),
            from_function: None,
            inlining: Vec::new(),
            inlined_parts: 0,
            has_nanoseconds: schema.keeps_nanoseconds(),
            scans: Vec::new(),
            families: Vec::new(),
            views: Vec::new(),
            views_read: 0,
            notes: None,
            defines_view: false,
            level: 0,
            parameters: declared.to_vec(),
            late: None,
            latest: None,
        }
    }

    pub(crate) fn statement(&mut self, query: &ast::Query) -> Result<Query> {
        let mut bound = self.query(query, None, true)?;
        self.outer.system.place(&mut bound.rel);
        let parameters = self.finished()?;
        let output = bound.outputs.into_iter().map(|one| one.output).collect();
        Ok(Query {
            root: bound.rel,
            output,
            columns: std::mem::take(&mut self.columns),
            subqueries: std::mem::take(&mut self.subqueries),
            ctes: std::mem::take(&mut self.ctes),
            parameters,
        })
    }

    fn change(&mut self, bind: impl FnOnce(&mut Binder<'s>) -> Result<BoundChange>) -> Result<Statement> {
        let bound = bind(self)?;
        let parameters = self.finished()?;
        let statement = ChangeStatement {
            change: bound.change,
            inherited: Vec::new(),
            tableoid: None,
            routed: None,
            output: bound.outputs.into_iter().map(|one| one.output).collect(),
            columns: std::mem::take(&mut self.columns),
            subqueries: std::mem::take(&mut self.subqueries),
            ctes: std::mem::take(&mut self.ctes),
            parameters,
        };
        Ok(Statement::Change(Box::new(self.expand_change(statement)?)))
    }

    /// The types of the parameters, at the end of a statement.
    ///
    /// # Errors
    /// 42P18 for a parameter whose type nothing says; errors of later phases.
    pub(crate) fn finished(&mut self) -> Result<Vec<TypeId>> {
        let mut parameters = Vec::with_capacity(self.parameters.len());
        for (at, ty) in self.parameters.iter().enumerate() {
            parameters.push(ty.ok_or_else(|| {
                let text = format!("could not determine data type of parameter ${}", at + 1);
                Error::new(SqlState::INDETERMINATE_DATATYPE, text)
            })?);
        }
        match self.late.take().or(self.latest.take()) {
            Some(error) => Err(error),
            None => Ok(parameters),
        }
    }

    /// Notes an error of PostgreSQL's rewriter: those of analysis come before it.
    pub(crate) fn refuse_later(&mut self, error: Error) {
        self.late.get_or_insert(error);
    }

    /// Notes an error of PostgreSQL's planner.
    pub(crate) fn refuse_last(&mut self, error: Error) {
        self.latest.get_or_insert(error);
    }

    /// The number of a new column.
    pub(crate) fn column(&mut self, name: &str, ty: TypeId, typmod: i32) -> u32 {
        self.columns.push(Column { name: name.into(), ty, typmod });
        self.columns.len() as u32 - 1
    }

    /// Binds something that is nested, within the limit of [`LEVELS_MAX`].
    pub(crate) fn nested<T>(&mut self, at: Pos, bind: impl FnOnce(&mut Binder<'s>) -> Result<T>) -> Result<T> {
        if self.level >= LEVELS_MAX {
            let text = format!("statement nests deeper than {LEVELS_MAX} levels");
            return Err(error(SqlState::STATEMENT_TOO_COMPLEX, text, at));
        }
        self.level += 1;
        let bound = stacker::maybe_grow(STACK_LEFT_BYTES, STACK_GROWTH_BYTES, || bind(self));
        self.level -= 1;
        bound
    }

    /// An expression that is a column.
    pub(crate) fn column_expr(&self, column: u32, at: Pos) -> Expr {
        let of = &self.columns[column as usize];
        Expr { kind: ExprKind::Column(column), ty: of.ty, typmod: of.typmod, at: Place(at.0) }
    }

    /// Reads a constant of a type from its text.
    pub(crate) fn read(&self, text: &str, ty: TypeId, typmod: i32, at: Place) -> Result<Value> {
        let arena = Bump::new();
        let ctx = Context { arena: &arena, session: self.schema.session() };
        match scalar::input(text, ty, typmod, &ctx) {
            Ok(datum) => Ok(Value::of(&datum)),
            Err(error) => Err(at_place(error, at)),
        }
    }

    /// A type's name in messages.
    pub(crate) fn type_name(&self, ty: TypeId) -> String {
        self.catalog.type_name(ty)
    }

    /// Binds an expression in a clause, and restores the clause before.
    pub(crate) fn in_clause<T>(
        &mut self,
        scope: &Scope<'_>,
        clause: crate::scope::Clause,
        bind: impl FnOnce(&mut Binder<'s>) -> Result<T>,
    ) -> Result<T> {
        let before = scope.clause.replace(clause);
        let bound = bind(self);
        scope.clause.set(before);
        bound
    }
}

/// An error at a place of the statement, unless it has one.
pub(crate) fn at_place(error: Error, at: Place) -> Error {
    if error.position().is_some() { error } else { error.with_position(at.0) }
}

/// An error of the statement at a place.
pub(crate) fn error(state: SqlState, text: impl Into<String>, at: Pos) -> Error {
    Error::new(state, text.into()).with_position(at.0)
}

/// Something that PostgreSQL can do and the binder cannot.
pub(crate) fn unsupported(what: &str, at: Pos) -> Error {
    Error::unsupported(format!("{what} is not supported")).with_position(at.0)
}
