//! Expressions of definitions: CHECK conditions, defaults and generated columns, which tables store as SQL, and USING of
//! ALTER COLUMN TYPE.
//! They are parsed by crate `parser`, bound by crate `binder` and lowered like those of statements.
//!
//! - [`StoredExpressions`]: the stored expressions that a statement needs.
//! - [`lowered`]: any expression of a definition.

use std::ops::ControlFlow;
use std::sync::Arc;

use binder::DefinitionClause;
use binder::tree::{Table, TableColumn};
use catalog::TypeId;
use model::{Datum, Error, Result, RowColumn, RowSchema, SequenceRef, SqlState, TableId, Type, user_types};
use parser::ast::{self, ExprKind};
use parser::lexer::{Lexer, TokenKind};
use rows::RowTable;

use crate::constraints::{Checks, DomainColumn, GeneratedColumn, TARGET};
use crate::expr::{Expr, Value};
use crate::lower::{Asks, Lower, Parts, lower_expression};
use crate::statement::Tables;

/// The stored expressions that a statement needs.
pub(crate) struct StoredExpressions<'s> {
    pub(crate) tables: &'s dyn Tables,
    /// Facts of the session, by which constants are read.
    pub(crate) session: &'s scalar::Session,
    /// Parts of the statement. They take note of what the expressions need when they run.
    pub(crate) parts: &'s mut Parts,
}

impl StoredExpressions<'_> {
    /// Notes what a statement asks of the session besides.
    pub(crate) fn ask(&mut self, asks: Asks) {
        self.parts.asks |= asks;
    }

    /// The CHECK constraints of a table. They may have tens of thousands of constants, so that all plans of all sessions
    /// share them, unless a constant was read by the session's settings.
    ///
    /// # Errors
    /// XX001 for text that is no expression; those of the binder.
    pub(crate) fn checks(&mut self, table: &Arc<RowTable>) -> Lower<Arc<Checks>> {
        if let Some(checks) = table.derived.get::<Checks>()
            && self.has_domains_of(&checks)
        {
            self.parts.asks |= checks.asks;
            return Ok(checks);
        }
        let (mut checks, mut is_shared) = (Checks::default(), true);
        for check in &table.schema.checks {
            let expr = parsed(&check.condition)?;
            let (condition, needs) = self.noted(&expr, Some(table), DefinitionClause::Check, self.tables)?;
            // A function of a user may be replaced.
            is_shared &= !needs.has_session_constants && !calls_routines(&expr);
            checks.asks |= needs.asks;
            checks.conditions.push((check.name.clone(), condition));
        }
        for (at, column) in table.schema.columns.iter().enumerate() {
            let Some(sql) = &column.generated else { continue };
            let (value, needs) = generated(sql, table, at, TARGET, self.tables)?;
            is_shared &= !needs.has_session_constants;
            checks.asks |= needs.asks;
            let (mut reads, is_hidden) = (reads(sql, &table.schema)?, column.is_hidden());
            let predicates = predicates_of(&table.schema, at);
            // A row that enters an index needs its key, also when the key's own columns are not changed.
            for predicate in &predicates {
                let sql = table.schema.columns[*predicate].generated.as_deref().unwrap_or_default();
                reads.extend(self::reads(sql, &table.schema)?);
            }
            checks.generated.push(GeneratedColumn { column: at, reads, is_hidden, predicates, value });
        }
        checks.generated.sort_by_key(|one| !one.predicates.is_empty());
        for (at, column) in table.schema.shown() {
            let Some(domain) = column.domain else { continue };
            let levels = binder::domain_levels(self.session, domain)?;
            checks.domain_versions.extend(levels.iter().map(|spec| (spec.oid, spec.version)));
            let (mut not_null, mut conditions) = (false, Vec::new());
            let name = levels.first().map_or_else(String::new, |spec| spec.name.table.clone());
            if user_types::is_array(domain) {
                let (expr, of) = (parsed(&domain_cast(column, domain))?, table_column(column));
                let (elements, needs) = self.noted(&expr, Some(table), DefinitionClause::Using(&of), self.tables)?;
                is_shared &= !needs.has_session_constants;
                checks.asks |= needs.asks;
                let elements = Some(elements);
                checks.domains.push(DomainColumn { column: at, domain: name, not_null, checks: conditions, elements });
                continue;
            }
            for level in levels.iter().rev() {
                let Some(domain) = level.domain() else { continue };
                not_null |= domain.not_null;
                for check in &domain.checks {
                    let expr = domain_check(&check.condition, &column.name)?;
                    let (condition, needs) = self.noted(&expr, Some(table), DefinitionClause::Check, self.tables)?;
                    is_shared &= !needs.has_session_constants && !calls_routines(&expr);
                    checks.asks |= needs.asks;
                    conditions.push((check.name.clone(), condition));
                }
            }
            let (domain, elements) = (name, None);
            checks.domains.push(DomainColumn { column: at, domain, not_null, checks: conditions, elements });
        }
        self.parts.asks |= checks.asks;
        let checks = Arc::new(checks);
        if is_shared {
            table.derived.keep(&checks);
        }
        Ok(checks)
    }

    /// Whether the domains of a table's columns are still those of these constraints: a domain may have changed while the
    /// table was only known to its transaction.
    fn has_domains_of(&self, checks: &Checks) -> bool {
        let is_same = |(oid, version): &(u32, u32)| {
            binder::user_type(self.session, *oid).is_ok_and(|spec| spec.version == *version)
        };
        checks.domain_versions.iter().all(is_same)
    }

    /// The default of a column; NULL if it has none.
    ///
    /// # Errors
    /// 42P01 for a sequence that does not exist; as [`StoredExpressions::checks`].
    pub(crate) fn default(&mut self, table: &RowTable, column: usize) -> Lower<Expr> {
        let column = &table.schema.columns[column];
        let of_domain = match (&column.default, column.domain) {
            (None, Some(domain)) => domain_default(self.session, domain)?,
            _ => None,
        };
        let Some(sql) = column.default.as_ref().or(of_domain.as_ref()) else {
            return Ok(Expr::Value(Value::Plain(Datum::Null)));
        };
        let mut expr = parsed(sql)?;
        let sequences = numbered(&mut expr, &mut |name| self.sequence(name, &table.schema.name.schema))?;
        let tables = WithSequences { tables: self.tables, sequences };
        let (default, _) = self.noted(&expr, None, DefinitionClause::Default(&table_column(column)), &tables)?;
        Ok(default)
    }

    /// An expression over the rows of a table.
    ///
    /// # Errors
    /// As [`StoredExpressions::checks`].
    pub(crate) fn expression(
        &mut self,
        expr: &ast::Expr,
        table: &Arc<RowTable>,
        clause: DefinitionClause<'_>,
    ) -> Lower<Expr> {
        Ok(self.noted(expr, Some(table), clause, self.tables)?.0)
    }

    fn noted(
        &mut self,
        expr: &ast::Expr,
        table: Option<&Arc<RowTable>>,
        clause: DefinitionClause<'_>,
        tables: &dyn Tables,
    ) -> Lower<(Expr, Parts)> {
        let (lowered, needs) = lowered(expr, table, clause, tables, self.session)?;
        self.parts.asks |= needs.asks;
        // Constants by the time zone and styles hold as long as the plan of a table: until a setting changes.
        self.parts.has_session_constants |= needs.has_session_constants && reads_clock(expr);
        self.parts.counts |= needs.counts;
        Ok((lowered, needs))
    }

    /// A sequence that a default names; an unqualified name is one of the table's schema, or else of the search path.
    fn sequence(&self, name: &[String], near: &str) -> Result<SequenceRef> {
        let found = match name {
            [name] => self.tables.sequence(Some(near), name).or_else(|| self.tables.sequence(None, name)),
            [.., schema, name] => self.tables.sequence(Some(schema), name),
            [] => None,
        };
        found.ok_or_else(|| {
            let text = format!("relation \"{}\" does not exist", name.join("."));
            Error::new(SqlState::UNDEFINED_TABLE, text)
        })
    }
}

/// Binds and lowers an expression of a definition. Returns also what it needs when it runs.
///
/// - `table`: the table whose row in slot `TARGET` it reads; `None` for a default.
///
/// # Errors
/// Those of the binder, without a place.
pub(crate) fn lowered(
    expr: &ast::Expr,
    table: Option<&Arc<RowTable>>,
    clause: DefinitionClause<'_>,
    tables: &dyn Tables,
    session: &scalar::Session,
) -> Lower<(Expr, Parts)> {
    let described = table.map(|table| described(&table.schema));
    let bound = binder::bind_expression(&Facts(session), "", expr, described.as_ref(), clause)?;
    lower_expression(&bound, table.map(|table| (table, TARGET)), tables, session)
}

/// Binds and lowers the expression of a generated column, which may be a hidden one, for the row in a slot. Its constants
/// are read by fixed settings, so that all sessions compute the same values.
fn generated(sql: &str, table: &Arc<RowTable>, at: usize, slot: usize, tables: &dyn Tables) -> Lower<(Expr, Parts)> {
    let (session, column) = (scalar::Session::default(), &table.schema.columns[at]);
    let of = table_column(column);
    let clause = if column.is_hidden() { DefinitionClause::IndexKey } else { DefinitionClause::Generated(&of) };
    let described = described(&table.schema);
    let bound = binder::bind_expression(&Facts(&session), "", &parsed(sql)?, Some(&described), clause)?;
    lower_expression(&bound, Some((table, slot)), tables, &session)
}

/// Positions of the columns that an expression reads, also through generated columns.
fn reads(sql: &str, schema: &RowSchema) -> Result<Vec<usize>> {
    let mut found = columns(sql, schema)?;
    for at in found.clone() {
        if let Some(sql) = &schema.columns[at].generated {
            found.extend(columns(sql, schema)?);
        }
    }
    Ok(found)
}

/// The predicates of the partial indexes that use a hidden column; none if another index uses it, or if it is a predicate
/// itself.
pub(crate) fn predicates_of(schema: &RowSchema, at: usize) -> Vec<usize> {
    if !schema.columns[at].is_hidden() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for index in schema.primary.iter().chain(&schema.secondary).filter(|index| index.uses().any(|used| used == at)) {
        match index.predicate {
            Some(predicate) if predicate != at => found.push(predicate),
            _ => return Vec::new(),
        }
    }
    found
}

/// The expressions of all generated columns of a table, by position, for the row in slot `TARGET`.
pub(crate) fn all_generated(table: &Arc<RowTable>) -> Lower<Vec<(usize, Expr)>> {
    let mut found = Vec::new();
    for (at, column) in table.schema.columns.iter().enumerate() {
        if let Some(sql) = &column.generated {
            found.push((at, generated(sql, table, at, TARGET, &NoTables)?.0));
        }
    }
    Ok(found)
}

/// The catalog of expressions that name no tables and no sequences.
pub(crate) struct NoTables;

impl Tables for NoTables {
    fn table(&self, _: Option<&str>, _: &str) -> Option<Arc<RowTable>> {
        None
    }

    fn sequence(&self, _: Option<&str>, _: &str) -> Option<SequenceRef> {
        None
    }

    fn by_id(&self, _: TableId) -> Option<Arc<RowTable>> {
        None
    }

    fn referring(&self, _: TableId) -> Vec<Arc<RowTable>> {
        Vec::new()
    }
}

/// The expressions of the hidden columns of a table, by position, for the row in a slot.
///
/// # Errors
/// XX001 for text that is no expression; those of the binder.
pub(crate) fn hidden(table: &Arc<RowTable>, slot: usize, tables: &dyn Tables) -> Lower<Vec<(usize, Expr)>> {
    let mut found = Vec::new();
    for (at, column) in table.schema.columns.iter().enumerate().filter(|(_, column)| column.is_hidden()) {
        let sql = column.generated.as_deref().unwrap_or_default();
        found.push((at, generated(sql, table, at, slot, tables)?.0));
    }
    Ok(found)
}

/// The type of a key of an index, and the key over the row of a table in slot `TARGET`.
///
/// # Errors
/// Those of the binder, without a place.
pub(crate) fn index_key(
    expr: &ast::Expr,
    table: &Arc<RowTable>,
    clause: DefinitionClause<'_>,
    session: &scalar::Session,
    tables: &dyn Tables,
) -> Lower<(TypeId, i32, Expr)> {
    let described = described(&table.schema);
    let bound = binder::bind_expression(&Facts(session), "", expr, Some(&described), clause)?;
    let (lowered, _) = lower_expression(&bound, Some((table, TARGET)), tables, session)?;
    Ok((bound.expr.ty, bound.expr.typmod, lowered))
}

/// The default of a domain, or of the one that it constrains further.
///
/// # Errors
/// As [`binder::domain_levels`].
pub(crate) fn domain_default(session: &scalar::Session, domain: u32) -> Result<Option<String>> {
    if user_types::is_array(domain) {
        return Ok(None);
    }
    let levels = binder::domain_levels(session, domain)?;
    Ok(levels.iter().find_map(|spec| spec.domain()?.default.clone()))
}

/// SQL of a cast of a column to an array of a domain.
pub(crate) fn domain_cast(column: &RowColumn, array: u32) -> String {
    let domain = user_types::reference(array & !1);
    format!("{}::pg_catalog.\"{domain}\"[]", crate::ddl::quoted(&column.name))
}

/// The condition of a domain as one on a column.
///
/// # Errors
/// As [`parsed`].
pub(crate) fn domain_check(condition: &str, column: &str) -> Result<ast::Expr> {
    let mut expr = parsed(condition)?;
    expr.visit_mut(&mut |part| match &mut part.kind {
        ExprKind::Column(name) if name.as_str() == binder::VALUE => *name = column.into(),
        _ => {}
    });
    Ok(expr)
}

/// Number and type modifier of a type as a definition names it.
///
/// # Errors
/// 42704 if there is no such type; 42601 and 22023 for wrong modifiers.
pub(crate) fn named_type(ty: &ast::TypeName, session: &scalar::Session) -> Result<(TypeId, i32)> {
    binder::data_type(&Facts(session), ty).map_err(Error::without_position)
}

/// The type of an expression of a partition key, and whether it calls immutable functions only.
///
/// # Errors
/// 0A000 for a type that columns cannot have; those of the binder.
pub(crate) fn key_type(expr: &ast::Expr, table: &Arc<RowTable>, session: &scalar::Session) -> Result<(Type, bool)> {
    let described = described(&table.schema);
    let clause = DefinitionClause::PartitionKey;
    let bound = binder::bind_expression(&Facts(session), "", expr, Some(&described), clause)?;
    let mut is_immutable = true;
    bound.expr.visit(&mut |part| {
        is_immutable &= match &part.kind {
            scalar::ExprKind::Call(call, _) => catalog::builtin()
                .function_row(call.function)
                .is_some_and(|row| row.volatility == catalog::Volatility::Immutable),
            scalar::ExprKind::SqlValue(..) => false,
            _ => true,
        };
    });
    let ty = Type::from_oid(bound.expr.ty.0, bound.expr.typmod).or_else(|| Type::from_oid(bound.expr.ty.0, -1));
    let ty = ty.ok_or_else(|| {
        let name = catalog::builtin().type_name(bound.expr.ty);
        Error::unsupported(format!("a partition key of type {name} is not supported on rows tables"))
    })?;
    Ok((ty, is_immutable))
}

/// Whether an expression calls functions of users, which have their schemas in stored expressions.
pub(crate) fn calls_routines(expr: &ast::Expr) -> bool {
    struct Calls;
    impl ast::Visitor for Calls {
        type Break = ();

        fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match &expr.kind {
                ExprKind::Function(call) if call.name.schema().is_some_and(|schema| *schema != *"pg_catalog") => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    ast::Visitor::visit_expr(&mut Calls, expr).is_break()
}

/// Whether a constant may be a time of the clock, such as `'today'`.
fn reads_clock(expr: &ast::Expr) -> bool {
    struct Constants;
    impl ast::Visitor for Constants {
        type Break = ();

        fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            let ExprKind::String(text) = &expr.kind else { return ControlFlow::Continue(()) };
            let text = text.to_ascii_lowercase();
            match ["now", "today", "tomorrow", "yesterday"].iter().any(|word| text.contains(word)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    ast::Visitor::visit_expr(&mut Constants, expr).is_break()
}

/// Parses an expression from a table's description.
///
/// # Errors
/// XX001: a definition wrote the text.
pub(crate) fn parsed(sql: &str) -> Result<ast::Expr> {
    parser::parse_expr(sql).map_err(|error| Error::corrupt(format!("expression {sql:?} of a table: {error}")))
}

/// A catalog with the sequences of an expression by their numbers; see [`numbered`].
pub(crate) struct WithSequences<'t> {
    pub(crate) tables: &'t dyn Tables,
    pub(crate) sequences: Vec<SequenceRef>,
}

impl Tables for WithSequences<'_> {
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        self.tables.table(schema, name)
    }

    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef> {
        self.tables.sequence(schema, name)
    }

    fn sequence_of_oid(&self, oid: u32) -> Option<SequenceRef> {
        self.sequences.get(oid as usize).cloned()
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.tables.by_id(id)
    }

    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>> {
        self.tables.referring(id)
    }
}

/// Replaces the names of sequences in calls of `nextval` by numbers from 0, and returns the sequences in this order. The
/// expression is then bound by [`WithSequences`]: it does not depend on what the session calls them.
///
/// # Errors
/// Those of `find`.
pub(crate) fn numbered(
    expr: &mut ast::Expr,
    find: &mut dyn FnMut(&[String]) -> Result<SequenceRef>,
) -> Result<Vec<SequenceRef>> {
    let mut sequences = Vec::new();
    rename_sequences(expr, &mut |name| {
        sequences.push(find(name)?);
        Ok(Some(format!("{}::regclass", sequences.len() - 1)))
    })?;
    Ok(sequences)
}

/// Calls `each` with the name of the sequence of each `nextval`, and replaces the argument by the SQL that it returns.
///
/// # Errors
/// Those of `each`.
pub(crate) fn rename_sequences(
    expr: &mut ast::Expr,
    each: &mut dyn FnMut(&[String]) -> Result<Option<String>>,
) -> Result<()> {
    let mut done = Ok(());
    expr.visit_mut(&mut |part| {
        let (Some(name), Ok(())) = (sequence_named(part), &done) else { return };
        let ExprKind::Function(call) = &mut part.kind else { return };
        match each(&name).and_then(|sql| sql.map(|sql| parser::parse_expr(&sql)).transpose()) {
            Ok(argument) => call.args[0] = argument.unwrap_or_else(|| call.args[0].clone()),
            Err(error) => done = Err(error),
        }
    });
    done
}

/// The parts of the sequence's name, outermost first, if an expression is just a call of `nextval` with a constant.
pub(crate) fn sequence_named(expr: &ast::Expr) -> Option<Vec<String>> {
    let ExprKind::Function(call) = &expr.kind else { return None };
    let is_plain = call.name.schema().is_none_or(|schema| schema == "pg_catalog") && call.filter.is_none();
    match call.args.as_slice() {
        [argument] if is_plain && call.name.name == "nextval" => name_parts(text_of(argument)?),
        _ => None,
    }
}

/// The text of a string constant, maybe under casts.
fn text_of(expr: &ast::Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::String(text) => Some(text),
        ExprKind::Cast(cast) => text_of(&cast.expr),
        _ => None,
    }
}

/// The parts of a qualified name in a text.
fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut lexer = Lexer::new(text);
    let mut parts = Vec::new();
    loop {
        let token = lexer.next().ok()?;
        if !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) {
            return None;
        }
        parts.push(token.name(text).ok()?.into());
        match lexer.next().ok()?.kind {
            TokenKind::Dot => {}
            TokenKind::End => return Some(parts),
            _ => return None,
        }
    }
}

/// Positions of the columns in a stored condition, each once.
///
/// # Errors
/// As [`parsed`].
pub(crate) fn columns(sql: &str, schema: &RowSchema) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for_each_name(&parsed(sql)?, &mut |name| {
        if let Some(at) = schema.column(name)
            && !found.contains(&at)
        {
            found.push(at);
        }
    });
    Ok(found)
}

/// Calls `each` for the names of columns, without their tables, in the order of the text.
pub(crate) fn for_each_name(expr: &ast::Expr, each: &mut dyn FnMut(&str)) {
    struct Names<'e>(&'e mut dyn FnMut(&str));
    impl ast::Visitor for Names<'_> {
        type Break = ();

        fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match &expr.kind {
                ExprKind::Column(name) => (self.0)(name),
                ExprKind::Path(parts) => parts.last().into_iter().for_each(|name| (self.0)(name)),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = ast::Visitor::visit_expr(&mut Names(each), expr);
}

/// The database as the binder sees it: an expression of a definition names no other table.
struct Facts<'s>(&'s scalar::Session);

impl binder::Schema for Facts<'_> {
    fn table(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<Table>>> {
        Ok(None)
    }

    fn routines(&self, schema: Option<&str>, name: &str) -> Vec<Arc<binder::Routine>> {
        let named = self.0.routines.as_ref().map(|routines| routines.named(schema, name)).unwrap_or_default();
        named.into_iter().filter_map(|one| one.downcast().ok()).collect()
    }

    fn session(&self) -> &scalar::Session {
        self.0
    }
}

fn described(schema: &RowSchema) -> Arc<Table> {
    Arc::new(Table {
        schema: schema.name.schema.as_str().into(),
        name: schema.name.table.as_str().into(),
        columns: schema.shown().map(|(_, column)| table_column(column)).collect(),
        ..Table::default()
    })
}

/// A column as the binder sees it.
pub(crate) fn table_column(column: &RowColumn) -> TableColumn {
    TableColumn {
        name: column.name.as_str().into(),
        ty: TypeId(column.ty.oid()),
        typmod: column.ty.typmod(),
        not_null: column.not_null,
        ..TableColumn::default()
    }
}
