//! Names in expressions: columns, rows, and the names of result columns.

use catalog::TypeId;
use model::{Result, SqlState};
use parser::ast::{self, ExprKind as Ast, Ident, Pos, Step};
use scalar::{Expr, ExprKind, Place};

use crate::binder::{Binder, error, unsupported};
use crate::scope::{Found, Scope, Source, SourceColumn, ambiguous};

impl Binder<'_> {
    /// An unqualified name.
    pub(crate) fn column_name(&mut self, scope: &Scope<'_>, name: &Ident, at: Pos) -> Result<Expr> {
        let found = scope.name(name, at).and_then(|found| match found {
            Found::Column(column) => {
                self.note_column(scope, &column, at);
                Ok(placed(column.expr, at))
            }
            Found::System(source) => match self.system_column(scope, &source, name) {
                Some(column) => {
                    self.note_system_column(&source, name, at);
                    Ok(placed(column.expr, at))
                }
                None => Err(scope.no_column(None, name, at)),
            },
            Found::Row(source) => Ok(whole_row(&source, at)),
        });
        self.or_variable(std::slice::from_ref(name), found, at)
    }

    /// A qualified name: `table.column`, `schema.table.column`, `database.schema.table.column`.
    pub(crate) fn path(&mut self, scope: &Scope<'_>, parts: &[Ident], at: Pos) -> Result<Expr> {
        let found = self.path_value(scope, parts, at);
        self.or_variable(parts, found, at)
    }

    fn path_value(&mut self, scope: &Scope<'_>, parts: &[Ident], at: Pos) -> Result<Expr> {
        if let Some(column) = self.path_column(scope, parts, at)? {
            if parts.len() > 2 {
                self.note_column(scope, &column, at);
            }
            return Ok(placed(column.expr, at));
        }
        match parts {
            [.., table, column] => Err(scope.no_column(Some(table), column, at)),
            _ => Err(unsupported("an empty name", at)),
        }
    }

    /// `t.*` as a value: the row of an item of FROM.
    pub(crate) fn row_of(&mut self, scope: &Scope<'_>, qualifier: &[Ident], at: Pos) -> Result<Expr> {
        match self.qualified_source(scope, qualifier, at) {
            Ok(source) => Ok(whole_row(&source, at)),
            Err(error) => {
                let columns = self.variable_columns(qualifier, at)?;
                columns.map(|columns| named_row(columns, false, at)).ok_or(error)
            }
        }
    }

    fn path_column(&mut self, scope: &Scope<'_>, parts: &[Ident], at: Pos) -> Result<Option<SourceColumn>> {
        let (source, column) = self.path_source(scope, parts, at)?;
        let mut matches = source.columns.iter().filter(|one| one.name == *column);
        let first = matches.next().cloned();
        if matches.next().is_some() {
            return Err(ambiguous(column, at));
        }
        Ok(first.or_else(|| self.system_column(scope, &source, column)))
    }

    /// The item of FROM that a path's qualifier names, and the path's last part.
    fn path_source<'i>(&self, scope: &Scope<'_>, parts: &'i [Ident], at: Pos) -> Result<(Source, &'i Ident)> {
        let Some((column, qualifier)) = parts.split_last() else { return Err(unsupported("an empty name", at)) };
        Ok((self.qualified_source(scope, qualifier, at)?, column))
    }

    /// The item of FROM of a qualifier.
    pub(crate) fn qualified_source(&self, scope: &Scope<'_>, qualifier: &[Ident], at: Pos) -> Result<Source> {
        let (schema, table) = match qualifier {
            [table] => (None, table),
            [schema, table] => (Some(schema.as_str()), table),
            [database, schema, table] => {
                if database.as_str() != self.schema.session().database {
                    let text = format!("cross-database references are not implemented: {database}.{schema}.{table}");
                    return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
                }
                (Some(schema.as_str()), table)
            }
            _ => {
                let shown: Vec<&str> = qualifier.iter().map(Ident::as_str).collect();
                let text = format!("improper qualified name (too many dotted names): {}", shown.join("."));
                return Err(error(SqlState::SYNTAX_ERROR, text, at));
            }
        };
        scope.source(schema, table, at)?.ok_or_else(|| scope.no_source(table, at))
    }

    /// The columns that `*` or `t.*` stands for.
    ///
    /// # Errors
    /// 42601 for `*` without FROM.
    pub(crate) fn star(&mut self, scope: &Scope<'_>, qualifier: &[Ident], at: Pos) -> Result<Vec<(Ident, Expr)>> {
        let columns = |source: &Source| -> Vec<(Ident, Expr)> {
            let columns = source.columns.iter().filter(|column| !column.is_added);
            columns.map(|column| (column.name.clone(), placed(column.expr.clone(), at))).collect()
        };
        if !qualifier.is_empty() {
            return match self.qualified_source(scope, qualifier, at) {
                Ok(source) => Ok(columns(&source)),
                Err(error) => self.variable_columns(qualifier, at)?.ok_or(error),
            };
        }
        let tables = scope.tables.borrow();
        if tables.is_empty() {
            return Err(error(SqlState::SYNTAX_ERROR, "SELECT * with no tables specified is not valid", at));
        }
        Ok(tables.iter().filter(|source| source.by_column).flat_map(columns).collect())
    }

    /// `(row).field`: of a whole row of FROM its column.
    pub(crate) fn field_of(&mut self, scope: &Scope<'_>, of: &ast::Expr, field: &Ident) -> Result<Option<Expr>> {
        let source = match &of.kind {
            Ast::Column(name) => match scope.name(name, of.at) {
                Ok(Found::Row(source)) => source,
                Ok(Found::Column(_) | Found::System(_)) => return Ok(None),
                Err(error) => {
                    let columns = self.variable_columns(std::slice::from_ref(name), of.at)?.ok_or(error)?;
                    let found = columns.into_iter().find(|(column, _)| column == field);
                    let text = format!("record \"{name}\" has no field \"{field}\"");
                    let missing = || crate::binder::error(SqlState::UNDEFINED_COLUMN, text, of.at);
                    return found.map(|(_, expr)| Some(expr)).ok_or_else(missing);
                }
            },
            Ast::Path(parts) => match scope.source(None, parts.last().map_or("", Ident::as_str), of.at)? {
                Some(source) if parts.len() <= 2 && self.path_column(scope, parts, of.at).is_err() => source,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let found = source.columns.iter().find(|column| column.name == *field).cloned();
        match found.or_else(|| self.system_column(scope, &source, field)) {
            Some(column) => Ok(Some(placed(column.expr, of.at))),
            None => {
                let text = format!("column \"{field}\" not found in data type {}", source.name);
                Err(error(SqlState::UNDEFINED_COLUMN, text, of.at))
            }
        }
    }

    /// Name that a result column gets from its expression.
    pub(crate) fn output_name(expr: &ast::Expr) -> Ident {
        name_of(expr, &mut 0).unwrap_or_else(|| Ident::const_new("?column?"))
    }
}

/// The row of an item of FROM; of a function of a scalar type its value.
fn whole_row(source: &Source, at: Pos) -> Expr {
    let columns: Vec<Expr> = source.columns.iter().map(|column| placed(column.expr.clone(), at)).collect();
    if source.is_scalar && columns.len() == 1 {
        return columns.into_iter().next().unwrap_or_else(|| Expr::null(TypeId::TEXT, Place(at.0)));
    }
    let columns = source.columns.iter().map(|column| column.name.clone()).zip(columns).collect();
    named_row(columns, source.is_nullable, at)
}

/// A row of columns with names. `is_nullable`: an outer join gives NULL for it, so that all of its columns are NULL.
pub(crate) fn named_row(columns: Vec<(Ident, Expr)>, is_nullable: bool, at: Pos) -> Expr {
    let place = Place(at.0);
    let (names, columns): (Vec<Box<str>>, Vec<Expr>) =
        columns.into_iter().map(|(name, expr)| (Box::from(name.as_str()), expr)).unzip();
    let row = Expr::new(ExprKind::Row(columns, Some(names.into())), TypeId::RECORD, place);
    if !is_nullable {
        return row;
    }
    let is_null = Expr::new(ExprKind::IsNull(Box::new(row.clone())), TypeId::BOOL, place);
    let branches = vec![(is_null, Expr::null(TypeId::RECORD, place))];
    Expr::new(ExprKind::Case { operand: None, branches, otherwise: Some(Box::new(row)) }, TypeId::RECORD, place)
}

pub(crate) fn placed(expr: Expr, at: Pos) -> Expr {
    Expr { at: Place(at.0), ..expr }
}

/// The name of an expression. A name of strength 1 is given up for one inside: that of a type, or CASE.
fn name_of(expr: &ast::Expr, strength: &mut u8) -> Option<Ident> {
    let strong = |name: &Ident, strength: &mut u8| {
        *strength = 2;
        Some(name.clone())
    };
    let word = |name: &'static str, strength: &mut u8| {
        *strength = 2;
        Some(Ident::const_new(name))
    };
    match &expr.kind {
        Ast::Column(name) => strong(name, strength),
        Ast::Path(parts) => parts.last().and_then(|name| strong(name, strength)),
        Ast::Indirection(of) => {
            let field = of.steps.iter().rev().find_map(|step| match step {
                Step::Field(name) => Some(name),
                _ => None,
            });
            match field {
                Some(name) => strong(name, strength),
                None => name_of(&of.expr, strength),
            }
        }
        Ast::Function(call) => strong(&call.name.name, strength),
        Ast::Cast(cast) => {
            let inner = name_of(&cast.expr, strength);
            if *strength == 2 {
                return inner;
            }
            *strength = 1;
            Some(cast.ty.name.name.clone())
        }
        Ast::Collate(of) => name_of(&of.expr, strength),
        Ast::Case(case) => {
            let inner = case.otherwise.as_ref().and_then(|otherwise| name_of(otherwise, strength));
            if *strength == 2 {
                return inner;
            }
            *strength = 1;
            Some(Ident::const_new("case"))
        }
        Ast::Array(_) | Ast::ArrayQuery(_) => word("array", strength),
        Ast::Row(_) => word("row", strength),
        Ast::Coalesce(_) => word("coalesce", strength),
        Ast::Greatest(_) => word("greatest", strength),
        Ast::Least(_) => word("least", strength),
        Ast::NullIf(_) => word("nullif", strength),
        Ast::Grouping(_) => word("grouping", strength),
        Ast::Exists(_) => word("exists", strength),
        Ast::Subquery(query) => match first_target(query) {
            Some((Some(alias), _)) => strong(&alias, strength),
            Some((None, expr)) => name_of(&expr, strength),
            None => None,
        },
        Ast::SqlValue(value) => word(sql_value_name(*value), strength),
        _ => None,
    }
}

/// The first column of a query: its alias and its expression.
fn first_target(query: &ast::Query) -> Option<(Option<Ident>, ast::Expr)> {
    match &query.body {
        ast::QueryBody::Select(select) => {
            let target = select.targets.first()?;
            Some((target.alias.clone(), target.expr.clone()))
        }
        ast::QueryBody::Values(_) => Some((Some(Ident::const_new("column1")), ast::Expr::new(Ast::Null, Pos(0)))),
        ast::QueryBody::SetOperation(operation) => first_target(&operation.left),
    }
}

fn sql_value_name(value: ast::SqlValue) -> &'static str {
    use ast::SqlValue as V;
    match value {
        V::CurrentDate => "current_date",
        V::CurrentTime(_) => "current_time",
        V::CurrentTimestamp(_) => "current_timestamp",
        V::LocalTime(_) => "localtime",
        V::LocalTimestamp(_) => "localtimestamp",
        V::CurrentRole => "current_role",
        V::CurrentUser => "current_user",
        V::User => "user",
        V::SessionUser => "session_user",
        V::CurrentCatalog => "current_catalog",
        V::CurrentSchema => "current_schema",
    }
}
