//! Lowers bound statements (`binder::tree`) to the executor's plans.
//!
//! - [`prepare`], [`lower`]: the entry points for queries; [`prepare_change`], [`lower_change`]: those for INSERT, UPDATE
//!   and DELETE.
//! - [`lower_load`]: the entry point for INSERT of rows that another executor makes.
//! - [`lower_expression`]: the entry point for expressions of definitions.
//! - `changes`: the plans of INSERT, UPDATE and DELETE.
//! - `relations`: FROM, SELECT and set operations; `locks`: FOR UPDATE; `aggregates`: GROUP BY.
//! - `external`: the queries of a change that another executor runs.
//! - `expressions`: expressions; `constants`: their constant parts; `natives`: functions that the executor's own operators
//!   compute.
//!
//! A column has one number in the whole query. It has one definition here: a column of a row in a slot, a value of a
//! group, or an expression over these. A column of an enclosing query is handed in level by level.
//!
//! Invariants: names, types and errors come from the binder. What the executor cannot run is refused with a reason, so
//! that another one can run it.

mod aggregates;
mod changes;
mod constants;
mod expressions;
mod external;
mod locks;
mod natives;
mod relations;

use std::sync::Arc;

use binder::tree::{Column, Cte as BoundCte, CteBody, Expression, Query, Rel, Subplan, SystemColumn};
use catalog::TypeId;
use model::{Error, Result, SqlState, Type};
use parser::ast;
use rows::RowTable;

pub use self::changes::{lower_change, lower_load, prepare_change};
use self::external::Externals;
use self::natives::plain;
use crate::array::{Array, ParamType};
use crate::derived_tables::Derived;
use crate::expr::Expr;
use crate::from::Source;
use crate::select::{Output, TextColumn};
use crate::statement::{Compiled, External, Tables, WithChange, Work};
use crate::subquery::{ResultKind, Subquery};

/// Outcome of lowering a statement.
pub enum Lowered {
    /// The statement runs here.
    Plan(Box<Compiled>),
    /// Another executor must run it.
    Refused(NotLowered),
}

/// The reason why a statement does not run here, for EXPLAIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLowered {
    /// A noun phrase, such as `window functions`.
    pub reason: String,
}

/// The end of lowering.
pub(crate) enum Stop {
    Refused(String),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

impl Stop {
    /// The error of an expression; `unsupported` is that for one that the executor cannot compute.
    pub(crate) fn into_error(self, unsupported: impl FnOnce() -> Error) -> Error {
        match self {
            Stop::Error(error) => error,
            Stop::Refused(_) => unsupported(),
        }
    }
}

pub(crate) type Lower<T> = std::result::Result<T, Stop>;

pub(crate) fn refused<T>(reason: impl Into<String>) -> Lower<T> {
    Err(Stop::Refused(reason.into()))
}

/// Binds and lowers a query: [`binder::bind`], then [`lower`].
///
/// - `sql`: the statement's text, for positions of errors.
/// - `declared`: parameter types declared by the client; the others are inferred.
///
/// # Errors
/// PostgreSQL's, with their place in the text.
pub fn prepare(
    sql: &str,
    query: &ast::Query,
    schema: &dyn binder::Schema,
    tables: &dyn Tables,
    declared: &[Option<ParamType>],
) -> Result<Lowered> {
    match binder::bind(schema, sql, query, &declared_types(declared)) {
        Ok(bound) => lower(&bound, tables, schema.session(), declared),
        Err(error) => not_bound(error),
    }
}

fn declared_types(declared: &[Option<ParamType>]) -> Vec<Option<TypeId>> {
    declared.iter().map(|ty| ty.map(|ty| TypeId(ty.oid()))).collect()
}

/// The outcome for a statement that the binder does not take.
fn not_bound(error: Error) -> Result<Lowered> {
    match error.state() {
        // PostgreSQL may run it: the binder's limits are its own.
        SqlState::STATEMENT_TOO_COMPLEX => Ok(Lowered::Refused(NotLowered { reason: error.message().to_owned() })),
        _ => Err(error),
    }
}

/// Lowers a bound query.
///
/// - `session`: the facts by which it was bound.
/// - `declared`: parameter types declared by the client.
///
/// # Errors
/// PostgreSQL's about locks and sequences.
pub fn lower(
    bound: &Query,
    tables: &dyn Tables,
    session: &scalar::Session,
    declared: &[Option<ParamType>],
) -> Result<Lowered> {
    let Query { root, output, columns, subqueries, ctes, parameters } = bound;
    let tree = Tree { columns, subqueries, ctes, parameters, output };
    let lowered = |externals| {
        let mut lowering = Lowering { externals, ..Lowering::new(tree, tables, session) };
        let work = lowering.query(root, declared);
        (work.map(|work| Compiled::of(work, lowering.parts)), lowering.externals)
    };
    // A query that changes nothing is left to another executor as a whole.
    match ctes.iter().any(|cte| matches!(cte.body, CteBody::Change(_))) {
        true => outcome(external::lowered(lowered)),
        false => outcome(lowered(Externals::default()).0),
    }
}

fn outcome(lowered: Lower<Compiled>) -> Result<Lowered> {
    match lowered {
        Ok(compiled) => Ok(Lowered::Plan(Box::new(compiled))),
        Err(Stop::Refused(reason)) => Ok(Lowered::Refused(NotLowered { reason })),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Lowers an expression of a definition over the row of a table in a slot. Returns also what it needs when it runs.
pub(crate) fn lower_expression(
    bound: &Expression,
    table: Option<(&Arc<RowTable>, usize)>,
    tables: &dyn Tables,
    session: &scalar::Session,
) -> Lower<(Expr, Parts)> {
    let tree = Tree { columns: &bound.columns, subqueries: &[], ctes: &[], parameters: &[], output: &[] };
    let mut lowering = Lowering::new(tree, tables, session);
    if let Some((table, slot)) = table {
        let sources = (0..=slot).map(|slot| Source::stored(slot, Arc::clone(table)));
        lowering.current().sources.extend(sources);
        lowering.row(table, &bound.row, slot);
    }
    let expr = lowering.expr(&bound.expr)?;
    Ok((expr, lowering.parts))
}

/// The parts of a bound statement that its operators refer to by number, and the columns of its result.
#[derive(Clone, Copy)]
struct Tree<'q> {
    columns: &'q [Column],
    subqueries: &'q [Subplan],
    ctes: &'q [BoundCte],
    parameters: &'q [TypeId],
    output: &'q [binder::tree::Output],
}

/// The definition of a column, and the level of the query that has it.
#[derive(Clone)]
enum Definition {
    Field {
        level: usize,
        slot: usize,
        column: usize,
    },
    /// A system column of the row in a slot: as it was read, or as the statement has written it.
    System {
        level: usize,
        slot: usize,
        column: SystemColumn,
        is_written: bool,
    },
    Computed {
        level: usize,
        at: usize,
    },
    Expr {
        level: usize,
        expr: Expr,
    },
}

/// A query that is being lowered.
#[derive(Default)]
struct Level {
    sources: Vec<Source>,
    /// Outer values that it takes, as expressions of the enclosing query.
    given: Vec<Expr>,
}

/// A query of WITH that was lowered: its number among derived tables, and the description of its rows.
type Cte = (usize, Arc<RowTable>);

struct Lowering<'q> {
    tree: Tree<'q>,
    tables: &'q dyn Tables,
    session: &'q scalar::Session,
    /// Definitions by column number.
    definitions: Vec<Option<Definition>>,
    /// The current query and those around it, outermost first.
    levels: Vec<Level>,
    ctes: Vec<Option<Cte>>,
    /// OID and schema of the tables that were scanned.
    scanned: Vec<(u32, Arc<RowTable>)>,
    /// Operands of the CASE expressions around the current one.
    operands: Vec<Expr>,
    /// Columns of char(n) whose length their type does not say, and its type modifier.
    padded: Vec<(u32, i32)>,
    /// Uncorrelated subqueries whose results are as they are: their numbers in the tree and in the plan.
    shared: Vec<((u32, ResultKind), usize)>,
    /// Errors of constants in the definitions of columns, which matter only if the column is read.
    failures: Vec<(u32, Error)>,
    /// Whether a function of the session's state was lowered: each call of it may give another value.
    calls_session: bool,
    /// Whether a projection calls a function of sequences.
    numbers_rows: bool,
    reads_parameter: bool,
    /// The columns that the change in WITH returns which is being lowered; `None` for the statement's own.
    returned: Option<&'q [u32]>,
    externals: Externals<'q>,
    parts: Parts,
}

/// The parts of a statement beside its main query.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) params: Vec<ParamType>,
    /// Subqueries in expressions, by number.
    pub(crate) subqueries: Vec<Subquery>,
    /// Derived tables, by number.
    pub(crate) derived: Vec<Derived>,
    /// Number of hash tables in the plan.
    pub(crate) hashed: usize,
    /// Array parameters used in expressions, by number.
    pub(crate) arrays: Vec<Array>,
    /// Whether the statement changes a sequence.
    pub(crate) counts: bool,
    /// Whether a constant was read by the session's settings.
    pub(crate) has_session_constants: bool,
    /// Whether an expression has a type that a user created.
    pub(crate) names_types: bool,
    /// What its expressions ask of the session.
    pub(crate) asks: Asks,
    /// Changes in WITH, in the order in which they run.
    pub(crate) changes: Vec<WithChange>,
    /// Whether the statement's queries must not see its changes: [`rows::Txn::hide_changes`].
    pub(crate) hides: bool,
    /// Queries of the statement that another executor runs before it.
    pub(crate) external: Vec<External>,
    /// The first error of a constant expression, with which each run fails.
    pub(crate) failure: Option<Error>,
}

/// What expressions ask of the session; more includes less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asks {
    #[default]
    Nothing,
    /// The facts by which crate `scalar` computes.
    Facts,
    /// Facts, and the values of calls of users' functions.
    Calls,
}

impl std::ops::BitOrAssign for Asks {
    fn bitor_assign(&mut self, other: Asks) {
        *self = (*self).max(other);
    }
}

impl<'q> Lowering<'q> {
    fn new(tree: Tree<'q>, tables: &'q dyn Tables, session: &'q scalar::Session) -> Lowering<'q> {
        Lowering {
            tree,
            tables,
            session,
            definitions: vec![None; tree.columns.len()],
            levels: vec![Level::default()],
            ctes: tree.ctes.iter().map(|_| None).collect(),
            scanned: Vec::new(),
            operands: Vec::new(),
            padded: Vec::new(),
            shared: Vec::new(),
            failures: Vec::new(),
            returned: None,
            calls_session: false,
            numbers_rows: false,
            reads_parameter: false,
            externals: Externals::default(),
            parts: Parts::default(),
        }
    }

    /// The plan of a query.
    fn query(&mut self, root: &'q Rel, declared: &[Option<ParamType>]) -> Lower<Work> {
        self.parameters(declared)?;
        let wanted: Vec<u32> = self.tree.output.iter().map(|one| one.column).collect();
        let mut draft = self.draft(root, &wanted)?;
        for (at, (output, column)) in self.tree.output.iter().zip(&mut draft.columns).enumerate() {
            if self.result_column(output, column) {
                draft.texts.push(TextColumn { at, ty: output.ty });
            }
        }
        self.complete_externals()?;
        Ok(Work::Select(draft.planned(&self.levels[0].sources, &mut self.parts.hashed)))
    }

    /// Takes the types of the parameters, and lowers the changes in WITH.
    fn parameters(&mut self, declared: &[Option<ParamType>]) -> Lower<()> {
        for (at, ty) in self.tree.parameters.iter().enumerate() {
            match ParamType::from_oid(ty.0) {
                Some(ty) => self.parts.params.push(ty),
                None => return refused(format!("a parameter ${} of type {}", at + 1, type_name(*ty))),
            }
        }
        // Parameters that the text does not mention have their declared types.
        let unused = declared.iter().skip(self.parts.params.len());
        self.parts.params.extend(unused.map_while(|ty| *ty));
        self.changes_in_with()
    }

    fn check_changes_in_with(&self) -> Lower<()> {
        // A change in WITH happens also if nothing reads its rows.
        match self.tree.ctes.iter().any(|cte| matches!(cte.body, CteBody::Change(_))) {
            true => refused("a change in WITH"),
            false => Ok(()),
        }
    }

    /// Completes the columns of the result of a change.
    fn result_columns(&mut self, exprs: &mut [Expr], columns: &mut [Output]) -> Lower<()> {
        for ((output, expr), column) in self.tree.output.iter().zip(exprs).zip(columns) {
            if self.result_column(output, column) {
                let value = std::mem::replace(expr, Expr::Now);
                *expr = self.text_of(value, output.ty)?;
            }
        }
        Ok(())
    }

    /// Completes a column of the result. Returns whether its values leave as texts.
    fn result_column(&mut self, output: &binder::tree::Output, column: &mut Output) -> bool {
        column.name = output.name.to_string();
        column.origin = output.origin.and_then(|(oid, number)| {
            let (_, table) = self.scanned.iter().find(|(other, _)| *other == oid)?;
            let at = usize::try_from(number).ok()?.checked_sub(1)?;
            Some((table.id(), table.schema.shown().nth(at)?.0))
        });
        if let Some(ty) = Type::from_oid(output.ty.0, output.typmod).filter(|ty| !ty.is_other()) {
            // `min` of char(n) has a padding that its type does not say.
            let is_padded = matches!((ty, column.ty), (Type::Char(None), Type::Char(Some(_))));
            column.ty = if is_padded { column.ty } else { ty };
            return false;
        }
        column.announced = Some((output.ty.0, output.typmod));
        let plain = plain(output.ty);
        column.ty = plain.unwrap_or(Type::Text);
        self.parts.asks |= if plain.is_none() { Asks::Facts } else { Asks::Nothing };
        plain.is_none()
    }

    fn level(&self) -> usize {
        self.levels.len() - 1
    }

    fn current(&mut self) -> &mut Level {
        let at = self.level();
        &mut self.levels[at]
    }

    /// Lowers a nested query; returns also the outer values that it takes.
    fn inside<T>(&mut self, lower: impl FnOnce(&mut Self) -> Lower<T>) -> Lower<(T, Vec<Expr>)> {
        self.levels.push(Level::default());
        let lowered = lower(self);
        let given = self.levels.pop().map(|level| level.given).unwrap_or_default();
        Ok((lowered?, given))
    }
}

fn type_name(ty: TypeId) -> String {
    catalog::builtin().type_name(ty)
}
