//! FROM: tables, subqueries, functions and joins.

use std::sync::Arc;

use catalog::{CastContext, TypeId};
use model::{Datum, Error, Materialized, Result, SqlState, user_types};
use parser::ast::{self, Alias, AsOfRows, Ident, JoinConstraint, Pos, TableExpr};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind, Place, Value};

use crate::binder::{ApplicationFunction, Binder, at_place, error, unsupported};
use crate::json_rows::Populated;
use crate::query::Bound;
use crate::scope::{Clause, Lateral, Scope, Source, SourceColumn, SourceKind};
use crate::tree::{JoinKind, Rel, Table, TableFunction};
use crate::view::ViewTable;

/// Maximum number of items in a FROM clause: each is joined with those before it.
const ITEMS_MAX: usize = 100;

impl Binder<'_> {
    /// All items of FROM; their names are then in the scope.
    pub(crate) fn from(&mut self, scope: &Scope<'_>, items: &[TableExpr]) -> Result<Rel> {
        if items.len() > ITEMS_MAX {
            // Each item is a join above those before it.
            let text = format!("FROM has more than {ITEMS_MAX} items");
            return Err(model::Error::new(SqlState::STATEMENT_TOO_COMPLEX, text));
        }
        let mut all: Option<Rel> = None;
        scope.clause.set(Clause::From);
        scope.lateral.set(Lateral::Hidden);
        for item in items {
            let (rel, sources) = self.table_expr(scope, item)?;
            self.add_sources(scope, sources)?;
            all = Some(match all {
                None => rel,
                Some(left) => self.join(JoinKind::Inner, left, rel, None),
            });
        }
        scope.lateral.set(Lateral::Done);
        for source in scope.tables.borrow_mut().iter_mut() {
            source.lateral_only = false;
        }
        Ok(all.unwrap_or(Rel::Single))
    }

    /// Adds items to those that later ones can refer to.
    fn add_sources(&self, scope: &Scope<'_>, sources: Vec<Source>) -> Result<()> {
        let mut tables = scope.tables.borrow_mut();
        for source in sources {
            check_unique(&tables, &source)?;
            tables.push(Source { lateral_only: true, ..source });
        }
        Ok(())
    }

    /// A join, which is lateral if the right side reads columns of the left one.
    pub(crate) fn join(&mut self, kind: JoinKind, mut left: Rel, mut right: Rel, on: Option<Expr>) -> Rel {
        self.outer.system.place(&mut left);
        let outer = self.outer.of_rel(&mut right);
        let mut made = Vec::new();
        left.outputs(&mut made);
        let lateral = made.iter().any(|column| outer.contains(column));
        Rel::Join { kind, left: Box::new(left), right: Box::new(right), on, lateral }
    }

    fn table_expr(&mut self, scope: &Scope<'_>, item: &TableExpr) -> Result<(Rel, Vec<Source>)> {
        match item {
            TableExpr::Relation(relation) => self.relation(scope, relation),
            TableExpr::Subquery(derived) => self.derived_table(scope, derived),
            TableExpr::Function(function) => self.table_function(scope, function),
            TableExpr::XmlTable(table) => Err(unsupported("XMLTABLE", table.at)),
            TableExpr::Join(join) => self.join_item(scope, join),
            TableExpr::Pivot(pivot) => self.nested(pivot.at, |binder| binder.pivot(scope, pivot)),
        }
    }

    fn relation(&mut self, scope: &Scope<'_>, relation: &ast::Relation) -> Result<(Rel, Vec<Source>)> {
        let at = relation.name.at;
        if let Some(sample) = &relation.sample {
            let whole = ast::Relation { sample: None, ..relation.clone() };
            let (rel, sources) = self.relation(scope, &whole)?;
            if sources.first().and_then(|source| source.table.as_ref()).is_none_or(|table| table.is_view) {
                let text = "TABLESAMPLE clause can only be applied to tables and materialized views";
                return Err(error(SqlState::WRONG_OBJECT_TYPE, text, at));
            }
            return Ok((self.sampled(scope, rel, sample)?, sources));
        }
        if relation.name.qualifier.is_empty()
            && let Some(cte) = scope.cte(&relation.name.name)
        {
            if relation.as_of.is_some() {
                return Err(unsupported("FOR SYSTEM_TIME of a query of WITH", at));
            }
            return self.cte_reference(scope, &cte, relation.alias.as_ref(), at);
        }
        let (table, shown) = self.visible_table(&relation.name)?;
        self.note_relation(&relation.name, &table);
        if table.is_view {
            if relation.as_of.is_some() {
                return Err(unsupported("FOR SYSTEM_TIME of a view", at));
            }
            return self.view(scope, table, shown.as_ref(), relation.alias.as_ref(), at);
        }
        if table.materialized == Some(Materialized::Unpopulated) && !self.defines_view {
            let text = format!("materialized view \"{}\" has not been populated", table.name);
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .with_hint("Use the REFRESH MATERIALIZED VIEW command."));
        }
        let as_of = match &relation.as_of {
            None => None,
            Some(moment) => {
                let expr = self.expr(scope, moment)?;
                let expr = self.coerced(expr, TypeId::TIMESTAMPTZ, -1, catalog::CastContext::Assignment)?;
                Some(Box::new(expr.ok_or_else(|| unsupported("FOR SYSTEM_TIME AS OF with this type", moment.at))?))
            }
        };
        self.scan_with(scope, table, shown.as_ref(), relation.alias.as_ref(), as_of, (relation.only, at))
    }

    /// TABLESAMPLE: each row with a probability, for both methods.
    fn sampled(&mut self, scope: &Scope<'_>, input: Rel, sample: &ast::TableSample) -> Result<Rel> {
        let at = sample.method.at;
        let method = sample.method.name.as_str();
        if !matches!(method, "bernoulli" | "system") {
            return Err(error(SqlState::UNDEFINED_OBJECT, format!("tablesample method {method} does not exist"), at));
        }
        if sample.repeatable.is_some() {
            return Err(unsupported("TABLESAMPLE REPEATABLE", at));
        }
        let [percent] = sample.args.as_slice() else {
            let text = format!("tablesample method {method} requires 1 argument, not {}", sample.args.len());
            return Err(error(SqlState("2202H"), text, at));
        };
        let percent = self.expr(scope, percent)?;
        let percent = self.argument_of(percent, TypeId::FLOAT8, "TABLESAMPLE")?;
        self.check_no_columns(scope, &percent, "TABLESAMPLE")?;
        match self.constant(&percent)?.as_ref().map(Value::datum) {
            Some(Datum::Null) => return Err(error(SqlState("2202H"), "TABLESAMPLE parameter cannot be null", at)),
            Some(Datum::Float8(value)) if !(0.0..=100.0).contains(&value) => {
                return Err(error(SqlState("2202H"), "sample percentage must be between 0 and 100", at));
            }
            _ => {}
        }
        let random = self.plain_call("random", Vec::new(), at)?;
        let hundred = Expr::new(ExprKind::Constant(Value::Plain(Datum::Float8(100.0))), TypeId::FLOAT8, Place(at.0));
        let random = self.compared("*", random, hundred, at)?;
        let condition = self.compared("<", random, percent, at)?;
        Ok(Rel::Filter { input: Box::new(input), condition })
    }

    /// The rows of a table, as an item of FROM. `shown` is what the query of a view knows of it.
    fn scan(
        &mut self,
        scope: &Scope<'_>,
        table: Arc<Table>,
        shown: Option<&ViewTable>,
        alias: Option<&Alias>,
        as_of: Option<Box<Expr>>,
        at: Pos,
    ) -> Result<(Rel, Vec<Source>)> {
        self.scan_with(scope, table, shown, alias, as_of, (false, at))
    }

    /// Does what [`Binder::scan`] does; with ONLY it leaves out the tables that inherit from it.
    fn scan_with(
        &mut self,
        scope: &Scope<'_>,
        table: Arc<Table>,
        shown: Option<&ViewTable>,
        alias: Option<&Alias>,
        as_of: Option<Box<Expr>>,
        (only, at): (bool, Pos),
    ) -> Result<(Rel, Vec<Source>)> {
        let columns = self.table_columns(scope, &table);
        self.note_table(&table, &columns, alias);
        let mut source = self.shown_source(&table, &columns, shown, alias, at)?;
        source.tableoid = self.note_family(&table, &columns, only);
        scope.own.borrow_mut().extend(source.tableoid);
        self.scans.push((Arc::clone(&table), columns.clone()));
        self.lock_table(scope, &source.name, &table, &columns);
        Ok((Rel::Scan { table, columns, system: Vec::new(), as_of }, vec![source]))
    }

    /// Numbers for the columns of a table's row.
    pub(crate) fn table_columns(&mut self, scope: &Scope<'_>, table: &Table) -> Vec<u32> {
        self.has_nanoseconds |= table.has_nanoseconds;
        let columns: Vec<u32> =
            table.columns.iter().map(|column| self.column(&column.name, column.ty, column.typmod)).collect();
        scope.own.borrow_mut().extend(&columns);
        let numbers = columns.iter().zip(1..).map(|(column, number)| (*column, (table.oid, number)));
        self.origins.extend(numbers);
        columns
    }

    /// A table with these columns as an item of FROM.
    pub(crate) fn table_source(&self, table: &Arc<Table>, columns: &[u32], at: Pos) -> Source {
        let fields = table
            .columns
            .iter()
            .zip(columns)
            .map(|(column, id)| source_column(Ident::new(&column.name), self.column_expr(*id, at)));
        Source {
            name: Ident::new(&table.name),
            table: Some(Arc::clone(table)),
            kind: SourceKind::Table,
            has_alias: false,
            columns: fields.collect(),
            by_table: true,
            by_column: true,
            is_scalar: false,
            lateral_only: false,
            tableoid: None,
            row: columns.first().copied().filter(|_| table.has_records),
            is_nullable: false,
        }
    }

    /// The table of a name.
    ///
    /// # Errors
    /// 42P01 if there is none.
    pub(crate) fn table(&self, name: &ast::Name) -> Result<Arc<Table>> {
        let schema = match &*name.qualifier {
            [] => None,
            [schema] => Some(schema.as_str()),
            [database, schema] if database.as_str() == self.schema.session().database => Some(schema.as_str()),
            [database, schema] => {
                let text =
                    format!("cross-database references are not implemented: \"{database}.{schema}.{}\"", name.name);
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, name.at));
            }
            _ => return Err(error(SqlState::SYNTAX_ERROR, "improper relation name (too many dotted names)", name.at)),
        };
        self.schema.table(schema, &name.name)?.ok_or_else(|| {
            let shown = schema.map_or(name.name.to_string(), |schema| format!("{schema}.{}", name.name));
            let unknown = error(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"), name.at);
            match self.schema.similar_table(&name.name) {
                Some(similar) => unknown.with_hint(format!("perhaps you meant the table \"{similar}\"")),
                None => unknown,
            }
        })
    }

    fn derived_table(&mut self, scope: &Scope<'_>, derived: &ast::DerivedTable) -> Result<(Rel, Vec<Source>)> {
        let at = derived.query.at;
        let before = scope.lateral.replace(if derived.lateral { Lateral::Visible } else { Lateral::Hidden });
        let locking = Self::subquery_locking(scope, derived.alias.as_ref());
        let bound = self.locked_query(&derived.query, Some(scope), true, locking);
        scope.lateral.set(before);
        let bound = bound?;
        let alias = derived.alias.as_ref();
        if alias.is_none() {
            let text = match derived.query.body {
                ast::QueryBody::Values(_) => "VALUES in FROM must have an alias",
                _ => "subquery in FROM must have an alias",
            };
            return Err(error(SqlState::SYNTAX_ERROR, text, at).with_hint("For example, FROM (SELECT ...) [AS] foo."));
        }
        self.source_of(scope, bound, alias, at)
    }

    /// A bound query as an item of FROM.
    pub(crate) fn source_of(
        &self,
        scope: &Scope<'_>,
        bound: Bound,
        alias: Option<&Alias>,
        at: Pos,
    ) -> Result<(Rel, Vec<Source>)> {
        let columns = bound
            .outputs
            .iter()
            .map(|one| source_column(Ident::new(&one.output.name), self.column_expr(one.output.column, at)));
        let columns: Vec<SourceColumn> = columns.collect();
        scope.own.borrow_mut().extend(bound.outputs.iter().map(|one| one.output.column));
        let mut source = unnamed(columns);
        rename(&mut source, alias)?;
        Ok((bound.rel, vec![source]))
    }

    pub(crate) fn named_source(
        &mut self,
        scope: &Scope<'_>,
        name: &Ident,
        columns: Vec<(Ident, u32)>,
        alias: Option<&Alias>,
        at: Pos,
    ) -> Result<Source> {
        scope.own.borrow_mut().extend(columns.iter().map(|(_, column)| column));
        let columns = columns.into_iter();
        let columns = columns.map(|(name, column)| source_column(name, self.column_expr(column, at)));
        let mut source = Source { name: name.clone(), ..unnamed(columns.collect()) };
        rename(&mut source, alias)?;
        Ok(source)
    }

    fn table_function(&mut self, scope: &Scope<'_>, item: &ast::TableFunction) -> Result<(Rel, Vec<Source>)> {
        if let Some(scan) = self.scan_of_function(scope, item)? {
            return Ok(scan);
        }
        if let Some(scan) = self.application_function(scope, item)? {
            return Ok(scan);
        }
        check_definitions(item)?;
        let unnested = unnested(item);
        let item = unnested.as_ref().unwrap_or(item);
        let mut functions = Vec::with_capacity(item.functions.len());
        let mut columns = Vec::new();
        let mut is_scalar = item.functions.len() == 1 && !item.ordinality;
        let before = scope.lateral.replace(Lateral::Visible);
        let bound = item.functions.iter().try_for_each(|one| -> Result<()> {
            let definitions = if one.columns.is_empty() { &item.columns } else { &one.columns };
            let (function, names) = self.function_in_from(scope, &one.function, item, definitions)?;
            is_scalar &= !function.is_record;
            columns.extend(names.into_iter().zip(function.columns.iter().copied()));
            functions.push(function);
            Ok(())
        });
        scope.lateral.set(before);
        bound?;
        let ordinality = item.ordinality.then(|| self.column("ordinality", TypeId::INT8, -1));
        columns.extend(ordinality.map(|column| (Ident::const_new("ordinality"), column)));
        let at = item.functions.first().map_or(Pos(0), |one| one.function.at);
        let name = item.functions.first().map_or_else(Ident::default, |one| Self::output_name(&one.function));
        let mut source = self.named_source(scope, &name, columns, item.alias.as_ref(), at)?;
        source.is_scalar = is_scalar;
        source.kind = SourceKind::Function;
        Ok((Rel::Functions { functions, ordinality }, vec![source]))
    }

    /// A function of the database whose rows are those of a table: its arguments must be constant.
    fn scan_of_function(&mut self, scope: &Scope<'_>, item: &ast::TableFunction) -> Result<Option<(Rel, Vec<Source>)>> {
        let Some(call) = item
            .call()
            .filter(|call| call.name.schema().is_none_or(|schema| schema == "pg_catalog") && item.functions.len() == 1)
        else {
            return Ok(None);
        };
        let name = call.name.name.clone();
        if !self.schema.is_table_function(&name) || item.ordinality {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            let bound = self.expr(scope, argument)?;
            values.push(self.known(bound).map(|bound| self.constant(&bound))??);
        }
        let table = self.schema.table_function(&name, &values)?;
        self.scan(scope, table, None, item.alias.as_ref(), None, call.name.at).map(Some)
    }

    /// A function of an application: the rows of its table in which the columns of the arguments have their values.
    fn application_function(
        &mut self,
        scope: &Scope<'_>,
        item: &ast::TableFunction,
    ) -> Result<Option<(Rel, Vec<Source>)>> {
        let Some(call) = item.call().filter(|_| item.functions.len() == 1 && !item.ordinality) else {
            return Ok(None);
        };
        let found = call.name.schema().and_then(|schema| self.schema.application_function(schema, &call.name.name));
        let Some(ApplicationFunction { table, shown: columns, arguments, needed }) = found else { return Ok(None) };
        let (at, name) = (call.name.at, call.name.to_string());
        let refused = |text: String| {
            let hint = format!("{name}({})", arguments.join(", "));
            at_place(Error::new(SqlState::UNDEFINED_FUNCTION, text).with_hint(hint), Place(at.0))
        };
        let (given, names) = self.arguments(scope, call)?;
        let positional = given.len() - names.len();
        if given.len() > arguments.len() {
            return Err(refused(format!("function {name} has at most {} arguments", arguments.len())));
        }
        let mut places: Vec<usize> = (0..positional).collect();
        for own in &names {
            let place = arguments.iter().position(|argument| own == argument);
            let place = place.ok_or_else(|| refused(format!("function {name} has no argument \"{own}\"")))?;
            if places.contains(&place) {
                return Err(refused(format!("argument \"{own}\" of function {name} is given twice")));
            }
            places.push(place);
        }
        if let Some(missing) = (0..needed).find(|place| !places.contains(place)) {
            return Err(refused(format!("function {name} needs the argument \"{}\"", arguments[missing])));
        }
        let types: Vec<TypeId> = table.columns[columns..].iter().map(|column| column.ty).collect();
        let types = &types[..types.len() / arguments.len().max(1)];
        let shown = ViewTable {
            schema: table.schema.clone(),
            name: call.name.name.as_str().into(),
            table: Arc::clone(&table),
            columns: table.columns[..columns].iter().map(|column| column.name.clone()).enumerate().collect(),
        };
        let (rel, sources) = self.scan(scope, table, Some(&shown), item.alias.as_ref(), None, at)?;
        let Rel::Scan { columns: numbers, .. } = &rel else { return Err(Error::bug("a scan that is none")) };
        let mut conditions = Vec::with_capacity(given.len());
        for (place, value) in places.into_iter().zip(given) {
            let type_name = self.type_name(value.ty);
            let wanted = match value.ty {
                TypeId::INT2 | TypeId::INT4 => TypeId::INT8,
                TypeId::FLOAT4 | TypeId::NUMERIC => TypeId::FLOAT8,
                ty => ty,
            };
            let kind = types.iter().position(|ty| *ty == wanted).unwrap_or(0);
            let value = self.coerced(value, types[kind], -1, CastContext::Explicit)?;
            let value = value.ok_or_else(|| {
                refused(format!("argument \"{}\" of function {name} cannot be {type_name}", arguments[place]))
            })?;
            let column = self.column_expr(numbers[columns + place * types.len() + kind], at);
            conditions.push(self.binary("=", column, value, at)?);
        }
        let condition = Expr::new(ExprKind::And(conditions), TypeId::BOOL, Place(at.0));
        Ok(Some((Rel::Filter { input: Box::new(rel), condition }, sources)))
    }

    /// The value of an expression without columns and parameters; `None` for any other.
    pub(crate) fn constant(&self, expr: &Expr) -> Result<Option<Value>> {
        let mut is_constant = true;
        expr.visit(&mut |part| {
            let is_open = matches!(part.kind, ExprKind::Column(_) | ExprKind::Parameter(_) | ExprKind::Subquery(_));
            is_constant &= !is_open;
        });
        if !is_constant {
            return Ok(None);
        }
        let arena = bumpalo::Bump::new();
        let ctx = scalar::Context { arena: &arena, session: self.schema.session() };
        scalar::eval(expr, &(), &ctx).map(|value| Some(Value::of(&value)))
    }

    /// A function in FROM, and the names of its columns.
    fn function_in_from(
        &mut self,
        scope: &Scope<'_>,
        function: &ast::Expr,
        item: &ast::TableFunction,
        definitions: &[ast::TableFunctionColumn],
    ) -> Result<(TableFunction, Vec<Ident>)> {
        let at = function.at;
        let name = Self::output_name(function);
        let populated = self.populated(function)?;
        let sets_before = scope.sets.borrow().len();
        let outer = match &function.kind {
            ast::ExprKind::Function(call) => self.from_function.replace(call.at.0),
            _ => self.from_function.take(),
        };
        let bound = self.expr(scope, populated.as_ref().map_or(function, |populated| &populated.call));
        self.from_function = outer;
        let bound = self.known(bound?)?;
        let set = scope.sets.borrow_mut().split_off(sets_before);
        scope.set_places.borrow_mut().truncate(sets_before);
        let (call, arguments, is_set) = match (bound.kind, set.len()) {
            (ExprKind::Column(column), 1) if set[0].0 == column => {
                let Some((_, call, arguments)) = set.into_iter().next() else {
                    return Err(unsupported("this function", at));
                };
                (call, arguments, true)
            }
            (ExprKind::Call(call, arguments), 0) => (*call, arguments, false),
            (_, 0) => return Err(unsupported("an expression that is no function in FROM", at)),
            _ => {
                let text = "set-returning functions must appear at top level of FROM";
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
            }
        };
        let routine = self.called.get(&call.function).cloned();
        let record = self.call_columns(&call);
        let is_open = record.is_empty() && call.result == TypeId::RECORD;
        if let Some(Populated { columns, names, .. }) = populated {
            let function = TableFunction { call, arguments, is_set, is_record: true, columns };
            return Ok((self.json_rows(&name, function, &names, at)?, names));
        }
        if let Some(first) = definitions.first() {
            if !is_open {
                let text = match record.len() {
                    0 | 1 => "a column definition list is only allowed for functions returning \"record\"",
                    _ => "a column definition list is redundant for a function with OUT parameters",
                };
                return Err(error(SqlState::SYNTAX_ERROR, text, first.at));
            }
            let (columns, names) = self.defined_columns(definitions)?;
            let function = TableFunction { call, arguments, is_set, is_record: true, columns };
            return Ok((self.json_rows(&name, function, &names, at)?, names));
        }
        if is_open {
            let text = "a column definition list is required for functions returning \"record\"";
            return Err(error(SqlState::SYNTAX_ERROR, text, at));
        }
        // A function with one OUT parameter gives values; they are named after it.
        let is_record = record.len() > 1 || routine.is_some() && !record.is_empty();
        let mut names: Vec<Ident> = match (record.as_slice(), &item.alias) {
            (columns, _) if is_record => columns.iter().map(|(name, _)| Ident::new(name)).collect(),
            // The alias of a function of one column names that column too.
            (_, Some(alias)) if item.functions.len() == 1 && !alias.name.is_empty() => vec![alias.name.clone()],
            ([(out, _)], _) if !out.is_empty() => vec![Ident::new(out)],
            _ if routine.as_ref().is_some_and(|routine| routine.output.is_some()) => {
                routine.iter().filter_map(|routine| routine.output.as_deref()).map(Ident::new).collect()
            }
            _ => vec![name],
        };
        let types: Vec<TypeId> = if is_record { record.iter().map(|(_, ty)| *ty).collect() } else { vec![call.result] };
        let columns: Vec<u32> = names.iter().zip(types).map(|(name, ty)| self.column(name, ty, -1)).collect();
        if let Some((schema, table)) = routine.as_ref().and_then(|routine| routine.rows_of.as_ref())
            && let Some(table) = self.schema.table(Some(schema), table)?
        {
            let alias = item.alias.as_ref().filter(|_| item.functions.len() == 1);
            self.note_table(&table, &columns, alias);
            self.name_as_then(&table, &mut names);
        }
        Ok((TableFunction { call, arguments, is_set, is_record, columns }, names))
    }

    /// The columns of a column definition list, and their names.
    fn defined_columns(&mut self, definitions: &[ast::TableFunctionColumn]) -> Result<(Vec<u32>, Vec<Ident>)> {
        let mut columns = Vec::with_capacity(definitions.len());
        let mut names: Vec<Ident> = Vec::with_capacity(definitions.len());
        for definition in definitions {
            let name = &definition.name;
            if definition.ty.is_set {
                let text = format!("column \"{name}\" cannot be declared SETOF");
                return Err(error(SqlState("42P16"), text, definition.at));
            }
            let (ty, typmod) = self.data_type(&definition.ty)?;
            if user_types::is_constrained(ty.0) {
                return Err(unsupported("a column of a domain in a column definition list", definition.ty.at));
            }
            columns.push(self.column(name, ty, typmod));
            names.push(name.clone());
        }
        let repeated = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        match repeated {
            None => Ok((columns, names)),
            Some((_, name)) => {
                let text = format!("column name \"{name}\" specified more than once");
                Err(model::Error::new(SqlState::DUPLICATE_COLUMN, text))
            }
        }
    }

    fn join_item(&mut self, scope: &Scope<'_>, join: &ast::Join) -> Result<(Rel, Vec<Source>)> {
        let has_names = join.alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        self.below_names(has_names, |binder| binder.join_of(scope, join))
    }

    fn join_of(&mut self, scope: &Scope<'_>, join: &ast::Join) -> Result<(Rel, Vec<Source>)> {
        let (left, left_sources) = self.table_expr(scope, &join.left)?;
        // The left side can be referred to by lateral items of the right one.
        let outer_sources = scope.tables.borrow().clone();
        // Names of the join need not differ from those around it yet: an alias may hide them.
        let lateral = left_sources.iter().map(|source| Source { lateral_only: true, ..source.clone() });
        scope.tables.borrow_mut().extend(lateral);
        let right = self.table_expr(scope, &join.right);
        *scope.tables.borrow_mut() = outer_sources;
        let (right, right_sources) = right?;
        for source in &right_sources {
            check_unique(&left_sources, source)?;
        }
        let kind = match join.kind {
            ast::JoinKind::Inner => JoinKind::Inner,
            ast::JoinKind::Left => JoinKind::Left,
            ast::JoinKind::Right => JoinKind::Right,
            ast::JoinKind::Full => JoinKind::Full,
        };
        let left_columns = visible_columns(&left_sources);
        let right_columns = visible_columns(&right_sources);
        let mut matched = None;
        let (merged, on, using_alias) = match (&join.constraint, join.natural) {
            (JoinConstraint::Using(names, alias), _)
                if join.as_of.as_ref().is_some_and(|one| one.matching.is_none()) =>
            {
                let (merged, _) = self.using(kind, names, &left_columns, &right_columns)?;
                let Some((time, keys)) = names.split_last() else { return Err(no_comparison()) };
                let (_, on) = self.using(kind, keys, &left_columns, &right_columns)?;
                let of_left = using_column(time, &left_columns, "left")?.expr.clone();
                let of_right = using_column(time, &right_columns, "right")?.expr.clone();
                let at = Pos(of_left.at.0);
                matched = Some(self.binary(">=", of_left, of_right, at)?);
                (merged, on, alias.clone())
            }
            (JoinConstraint::Using(names, alias), _) => {
                let (merged, on) = self.using(kind, names, &left_columns, &right_columns)?;
                (merged, on, alias.clone().or_else(|| self.note_using(join)))
            }
            (_, true) => {
                let common: Vec<Ident> = left_columns
                    .iter()
                    .map(|column| column.name.clone())
                    .filter(|name| right_columns.iter().any(|column| column.name == *name))
                    .collect();
                self.note_natural(join, &common);
                let (merged, on) = self.using(kind, &common, &left_columns, &right_columns)?;
                (merged, on, self.note_using(join))
            }
            (JoinConstraint::On(condition), _) => {
                (Vec::new(), Some(self.join_condition(scope, condition, &left_sources, &right_sources)?), None)
            }
            (JoinConstraint::None, _) => (Vec::new(), None, None),
        };
        let rel = match &join.as_of {
            None => {
                let rel = self.join(kind, left, right, on);
                if matches!(rel, Rel::Join { lateral: true, kind: JoinKind::Right | JoinKind::Full, .. }) {
                    let text = "invalid reference to FROM-clause entry on the left side of a join";
                    let detail = "The combining JOIN type must be INNER or LEFT for a LATERAL reference.";
                    return Err(model::Error::new(SqlState::INVALID_COLUMN_REFERENCE, text).with_detail(detail));
                }
                rel
            }
            Some(as_of) => {
                let sources = (&left_sources[..], &right_sources[..]);
                let matching = match &as_of.matching {
                    Some(matching) => Some(self.join_condition(scope, matching, sources.0, sources.1)?),
                    None => matched,
                };
                let kind = match as_of.rows {
                    // With MATCH_CONDITION as in Snowflake: all rows of the left table.
                    AsOfRows::Pairs if kind == JoinKind::Inner && as_of.matching.is_some() => JoinKind::Left,
                    AsOfRows::Pairs => kind,
                    AsOfRows::Matched => JoinKind::Inner,
                    AsOfRows::Unmatched => JoinKind::Left,
                };
                let rel = self.as_of_join(kind, left, right, on, matching)?;
                match as_of.rows {
                    AsOfRows::Pairs => rel,
                    AsOfRows::Matched => return Ok((rel, left_sources)),
                    AsOfRows::Unmatched => return Ok((without_match(rel)?, left_sources)),
                }
            }
        };
        let nullable = |sources: Vec<Source>, is_nullable: bool| -> Vec<Source> {
            sources.into_iter().map(|one| Source { is_nullable: one.is_nullable || is_nullable, ..one }).collect()
        };
        let left_sources = nullable(left_sources, matches!(kind, JoinKind::Right | JoinKind::Full));
        let right_sources = nullable(right_sources, matches!(kind, JoinKind::Left | JoinKind::Full));
        let sources = join_sources(left_sources, right_sources, merged, using_alias, join)?;
        Ok((rel, sources))
    }

    /// The ON condition, which sees both sides of its join only.
    fn join_condition(
        &mut self,
        scope: &Scope<'_>,
        condition: &ast::Expr,
        left: &[Source],
        right: &[Source],
    ) -> Result<Expr> {
        // The others are there for messages alone.
        let hidden = |source: &Source| Source { by_table: false, by_column: false, ..source.clone() };
        let outside: Vec<Source> = scope.tables.borrow().iter().map(hidden).collect();
        let both = left.iter().chain(right).cloned().chain(outside).collect();
        let outside = scope.tables.replace(both);
        let lateral = scope.lateral.replace(Lateral::Done);
        let bound = self.in_clause(scope, Clause::JoinOn, |binder| {
            let expr = binder.expr(scope, condition)?;
            binder.condition(expr, "JOIN/ON")
        });
        scope.lateral.set(lateral);
        scope.tables.replace(outside);
        bound
    }

    fn as_of_join(
        &mut self,
        kind: JoinKind,
        left: Rel,
        right: Rel,
        on: Option<Expr>,
        matching: Option<Expr>,
    ) -> Result<Rel> {
        let (on, matching) = match matching {
            Some(matching) => (on, matching),
            // As in DuckDB: the comparison is one of ON's conditions.
            None => self.nearest_of(on, &left, &right)?,
        };
        if !self.is_inequality(&matching) {
            return Err(no_comparison());
        }
        let sides = Sides::of(&left, &right);
        let others = match &on {
            Some(Expr { kind: ExprKind::And(list), .. }) => &list[..],
            on => on.as_slice(),
        };
        if !others.iter().all(|one| self.is_of_as_of(one, &matching, &sides)) {
            let text = "besides its comparison of times, ASOF JOIN takes equalities between its two tables, conditions on one \
                        of them, and limits of the distance of the times, joined by AND";
            return Err(model::Error::new(SqlState::SYNTAX_ERROR, text)
                .with_hint("for example: AND a.time - b.time <= interval '5 minutes'"));
        }
        Ok(Rel::AsOfJoin { kind, left: Box::new(left), right: Box::new(right), on, matching })
    }

    /// Takes the inequality out of a condition that compares a value of the left side with one of the right side. Of several the
    /// one that compares columns, without arithmetic, is that of the times.
    fn nearest_of(&self, on: Option<Expr>, left: &Rel, right: &Rel) -> Result<(Option<Expr>, Expr)> {
        let conditions = match on {
            Some(Expr { kind: ExprKind::And(list), .. }) => list,
            on => on.into_iter().collect(),
        };
        let sides = Sides::of(left, right);
        let is_column = |value: &Expr| matches!(value.kind, ExprKind::Column(_));
        let is_compared = |one: &Expr| self.is_inequality(one) && sides.compared(one).is_some();
        let is_of_columns =
            |one: &Expr| sides.compared(one).is_some_and(|(one, other)| is_column(one) && is_column(other));
        let is_only = conditions.iter().filter(|one| is_compared(one)).count() == 1;
        let is_matching = |one: &Expr| is_compared(one) && (is_only || is_of_columns(one));
        let (mut inequalities, rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_matching);
        match (inequalities.pop(), inequalities.is_empty()) {
            (Some(matching), true) => Ok((Self::conjunction(rest), matching)),
            _ => Err(no_comparison()),
        }
    }

    /// Whether a condition beside the comparison of times has one meaning: the row that is nearest of those which fulfil it is the
    /// nearest one, if that fulfils it.
    fn is_of_as_of(&self, condition: &Expr, matching: &Expr, sides: &Sides) -> bool {
        let mut has_subquery = false;
        condition.visit(&mut |part| has_subquery |= matches!(part.kind, ExprKind::Subquery(_)));
        if has_subquery {
            return false;
        }
        let is_equality = self.operator_name(condition) == Some("=") && sides.compared(condition).is_some();
        let reads = |side: &[u32]| {
            let mut found = false;
            condition
                .visit(&mut |part| found |= matches!(part.kind, ExprKind::Column(column) if side.contains(&column)));
            found
        };
        is_equality || !reads(&sides.left) || !reads(&sides.right) || self.limits_distance(condition, matching, sides)
    }

    /// Whether a condition on the two times stays true when the right one comes nearer.
    fn limits_distance(&self, condition: &Expr, matching: &Expr, sides: &Sides) -> bool {
        let found = || {
            let (left, right) = sides.compared(matching)?;
            let (ExprKind::Column(left), ExprKind::Column(right)) = (&left.kind, &right.kind) else { return None };
            let ExprKind::Call(_, arguments) = &matching.kind else { return None };
            let is_swapped = arguments.first().is_some_and(|first| first.kind == ExprKind::Column(*right));
            let is_later = self.operator_name(matching)?.starts_with('>') != is_swapped;
            let ExprKind::Call(_, compared) = &condition.kind else { return None };
            let [one, other] = &compared[..] else { return None };
            let slope = self.slope(other, *left, *right)? - self.slope(one, *left, *right)?;
            let slope = if self.operator_name(condition)?.starts_with('>') { -slope } else { slope };
            // The nearest time is the greatest one if the left time is later.
            Some(if is_later { slope >= 0 } else { slope <= 0 })
        };
        self.is_inequality(condition) && found() == Some(true)
    }

    /// How often a sum has the right time, less how often it is subtracted; `None` for what is no sum of times and constants.
    fn slope(&self, value: &Expr, left: u32, right: u32) -> Option<i32> {
        match &value.kind {
            ExprKind::Column(column) if *column == right => Some(1),
            ExprKind::Column(column) if *column == left => Some(0),
            ExprKind::Constant(_) | ExprKind::Parameter(_) => Some(0),
            ExprKind::Call(_, parts) => match (self.operator_name(value)?, &parts[..]) {
                ("+", [one, other]) => Some(self.slope(one, left, right)? + self.slope(other, left, right)?),
                ("-", [one, other]) => Some(self.slope(one, left, right)? - self.slope(other, left, right)?),
                ("-", [one]) => Some(-self.slope(one, left, right)?),
                _ => None,
            },
            _ => None,
        }
    }

    fn operator_name(&self, expr: &Expr) -> Option<&'static str> {
        let ExprKind::Call(call, _) = &expr.kind else { return None };
        self.catalog.operator_row(call.operator?).map(|operator| operator.name)
    }

    fn is_inequality(&self, condition: &Expr) -> bool {
        self.operator_name(condition).is_some_and(|name| [">=", ">", "<=", "<"].contains(&name))
    }

    /// The merged columns of USING, and the condition.
    fn using(
        &mut self,
        kind: JoinKind,
        names: &[Ident],
        left: &[SourceColumn],
        right: &[SourceColumn],
    ) -> Result<(Vec<SourceColumn>, Option<Expr>)> {
        let mut merged = Vec::with_capacity(names.len());
        let mut conditions = Vec::with_capacity(names.len());
        let mut seen = FxHashSet::default();
        for name in names {
            if !seen.insert(name) {
                let text = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(model::Error::new(SqlState::DUPLICATE_COLUMN, text));
            }
            let left = using_column(name, left, "left")?;
            let right = using_column(name, right, "right")?;
            let at = Pos(left.expr.at.0);
            let (pair, common) = self.unified(vec![left.expr.clone(), right.expr.clone()], "JOIN/USING")?;
            let typmod = Self::common_typmod(&[left.expr.clone(), right.expr.clone()]);
            let [left_value, right_value] = <[Expr; 2]>::try_from(pair).map_err(|_| unsupported("USING", at))?;
            conditions.push(self.binary("=", left.expr.clone(), right.expr.clone(), at)?);
            let expr = match kind {
                JoinKind::Inner | JoinKind::Left => left_value,
                JoinKind::Right => right_value,
                JoinKind::Full => {
                    let kind = ExprKind::Coalesce(vec![left_value, right_value]);
                    Expr { kind, ty: common, typmod, at: Place(at.0) }
                }
            };
            merged.push(source_column(name.clone(), expr));
        }
        Ok((merged, Self::conjunction(conditions)))
    }

    /// AND of conditions; `None` without any.
    pub(crate) fn conjunction(mut conditions: Vec<Expr>) -> Option<Expr> {
        match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => {
                let at = conditions[0].at;
                Some(Expr::new(ExprKind::And(conditions), TypeId::BOOL, at))
            }
        }
    }
}

/// The columns of the two sides of an ASOF JOIN.
struct Sides {
    left: Vec<u32>,
    right: Vec<u32>,
}

impl Sides {
    fn of(left: &Rel, right: &Rel) -> Sides {
        let mut sides = Sides { left: Vec::new(), right: Vec::new() };
        left.outputs(&mut sides.left);
        right.outputs(&mut sides.right);
        sides
    }

    /// The operands of a condition of which one is of the left side and one of the right, in this order.
    fn compared<'e>(&self, condition: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
        let ExprKind::Call(_, arguments) = &condition.kind else { return None };
        let [one, other] = &arguments[..] else { return None };
        let is_of = |value: &Expr, side: &[u32]| {
            let (mut columns, mut others) = (0, 0);
            value.visit(&mut |part| match part.kind {
                ExprKind::Column(column) if side.contains(&column) => columns += 1,
                ExprKind::Column(_) | ExprKind::Subquery(_) => others += 1,
                _ => {}
            });
            columns > 0 && others == 0
        };
        match (is_of(one, &self.left) && is_of(other, &self.right), is_of(one, &self.right) && is_of(other, &self.left))
        {
            (true, _) => Some((one, other)),
            (_, true) => Some((other, one)),
            _ => None,
        }
    }
}

/// The rows of an ASOF LEFT JOIN without a match: no value that is compared is NULL in one.
fn without_match(rel: Rel) -> Result<Rel> {
    let Rel::AsOfJoin { right, matching, .. } = &rel else { return Ok(rel) };
    let mut theirs = Vec::new();
    right.outputs(&mut theirs);
    let ExprKind::Call(_, arguments) = &matching.kind else { return Err(no_comparison()) };
    let reads_right = |value: &&Expr| {
        let mut found = false;
        value.visit(&mut |part| found |= matches!(part.kind, ExprKind::Column(column) if theirs.contains(&column)));
        found
    };
    let value = arguments.iter().find(reads_right).cloned().ok_or_else(no_comparison)?;
    // Another value may be one without a row.
    if !matches!(value.kind, ExprKind::Column(_)) {
        let text = "ASOF ANTI JOIN compares a column of its right table";
        return Err(model::Error::unsupported(text).with_hint("compute the time in a subquery"));
    }
    let at = value.at;
    let condition = Expr::new(ExprKind::IsNull(Box::new(value)), TypeId::BOOL, at);
    Ok(Rel::Filter { input: Box::new(rel), condition })
}

fn no_comparison() -> model::Error {
    model::Error::new(SqlState::SYNTAX_ERROR, "ASOF JOIN needs one comparison of times by >=, >, <= or <")
        .with_hint("for example: a ASOF JOIN b ON a.device = b.device AND a.time >= b.time")
}

/// Refuses a column definition list that belongs to no single function.
fn check_definitions(item: &ast::TableFunction) -> Result<()> {
    let Some(first) = item.columns.first() else { return Ok(()) };
    let refuse = |text: &str, hint: &str| Err(error(SqlState::SYNTAX_ERROR, text, first.at).with_hint(hint));
    if item.functions.len() > 1 {
        let hint = "Put a separate column definition list for each function inside ROWS FROM().";
        return refuse("ROWS FROM() with multiple functions cannot have a column definition list", hint);
    }
    if unnested(item).is_some() {
        let hint = "Use separate UNNEST() calls inside ROWS FROM(), and attach a column definition list to each one.";
        return refuse("UNNEST() with multiple arguments cannot have a column definition list", hint);
    }
    if item.ordinality {
        let hint = "Put the column definition list inside ROWS FROM().";
        return refuse("WITH ORDINALITY cannot be used with a column definition list", hint);
    }
    Ok(())
}

/// `unnest` of several arrays is a function for each.
fn unnested(item: &ast::TableFunction) -> Option<ast::TableFunction> {
    let call = item.call().filter(|call| call.name.name == "unnest" && call.args.len() > 1)?;
    let one = |array: &ast::Expr| {
        let one = ast::FunctionCall { args: vec![array.clone()], ..call.clone() };
        let function = ast::Expr::new(ast::ExprKind::Function(Box::new(one)), call.at);
        ast::RowsFrom { function, columns: Vec::new() }
    };
    Some(ast::TableFunction { functions: call.args.iter().map(one).collect(), ..item.clone() })
}

/// The names that a join adds to the scope.
fn join_sources(
    left: Vec<Source>,
    right: Vec<Source>,
    merged: Vec<SourceColumn>,
    using_alias: Option<Ident>,
    join: &ast::Join,
) -> Result<Vec<Source>> {
    let is_merged = |column: &SourceColumn| merged.iter().any(|one| one.name == column.name);
    let rest = |sources: &[Source]| -> Vec<SourceColumn> {
        visible_columns(sources).into_iter().filter(|column| !is_merged(column)).collect()
    };
    let columns: Vec<SourceColumn> = merged.iter().cloned().chain(rest(&left)).chain(rest(&right)).collect();
    let mut whole = Source { kind: SourceKind::Join, ..unnamed(columns) };
    let mut sources = Vec::new();
    if let Some(name) = using_alias.filter(|_| join.alias.is_none()) {
        let source = Source { name, by_column: false, kind: SourceKind::Join, ..unnamed(merged.clone()) };
        for other in left.iter().chain(&right) {
            check_unique(std::slice::from_ref(other), &source)?;
        }
        sources.push(source);
    }
    if join.alias.is_some() {
        rename(&mut whole, join.alias.as_ref())?;
    } else {
        whole.by_table = false;
        // The tables below are known by their names still; their columns are those of the join.
        sources.extend(left.into_iter().chain(right).map(|source| Source { by_column: false, ..source }));
        sources.retain(|source| source.by_table);
    }
    sources.push(whole);
    Ok(sources)
}

fn visible_columns(sources: &[Source]) -> Vec<SourceColumn> {
    sources.iter().filter(|source| source.by_column).flat_map(|source| source.columns.iter().cloned()).collect()
}

pub(crate) fn source_column(name: Ident, expr: Expr) -> SourceColumn {
    SourceColumn { name, expr, is_added: false }
}

fn unnamed(columns: Vec<SourceColumn>) -> Source {
    Source {
        name: Ident::default(),
        kind: SourceKind::Subquery,
        table: None,
        has_alias: false,
        columns,
        by_table: true,
        by_column: true,
        is_scalar: false,
        lateral_only: false,
        tableoid: None,
        row: None,
        is_nullable: false,
    }
}

/// Gives an item the names of its alias.
pub(crate) fn rename(source: &mut Source, alias: Option<&Alias>) -> Result<()> {
    let Some(alias) = alias else { return Ok(()) };
    source.name = alias.name.clone();
    if alias.columns.len() > source.columns.len() {
        let text = format!(
            "table \"{}\" has {} columns available but {} columns specified",
            alias.name,
            source.columns.len(),
            alias.columns.len()
        );
        return Err(model::Error::new(SqlState::INVALID_COLUMN_REFERENCE, text));
    }
    for (column, name) in source.columns.iter_mut().zip(&alias.columns) {
        column.name = name.clone();
    }
    Ok(())
}

/// The column of USING on one side.
fn using_column<'c>(name: &Ident, columns: &'c [SourceColumn], side: &str) -> Result<&'c SourceColumn> {
    let mut matches = columns.iter().filter(|column| column.name == *name);
    match (matches.next(), matches.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => {
            let text = format!("common column name \"{name}\" appears more than once in {side} table");
            Err(model::Error::new(SqlState::AMBIGUOUS_COLUMN, text))
        }
        (None, _) => {
            let text = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            Err(model::Error::new(SqlState::UNDEFINED_COLUMN, text))
        }
    }
}

fn check_unique(sources: &[Source], new: &Source) -> Result<()> {
    let same = |other: &&Source| {
        other.by_table && new.by_table && !new.name.is_empty() && other.name == new.name && {
            // Tables of several schemas may share a name.
            match (&other.table, &new.table) {
                (Some(table), Some(other_table)) if !other.has_alias && !new.has_alias => table.oid == other_table.oid,
                _ => true,
            }
        }
    };
    match sources.iter().find(same) {
        Some(_) => {
            let text = format!("table name \"{}\" specified more than once", new.name);
            Err(model::Error::new(SqlState::DUPLICATE_ALIAS, text))
        }
        None => Ok(()),
    }
}
