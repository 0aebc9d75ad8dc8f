//! Column changes: add, drop, rename, type, default, identity.

use std::sync::Arc;

use model::limits::COLUMNS_PER_TABLE_MAX;
use model::{
    Datum, Error, Identity, Result, RowColumn, SequenceOptions, SequenceOwner, SequenceSpec, SqlState, TableName, Type,
};
use rows::row::alone;
use sqlparser::ast;

use super::draft::Draft;
use super::expressions::{self, Default};
use super::table_constraints::{NewConstraint, check_types, refuse_deferred, refuse_nulls_not_distinct};
use super::table_work::Field;
use super::{Change, Object, indexes, names, sequence, types};
use crate::expr::{Expr, Value};
use crate::types::{assignable, is_text};

/// System columns of every PostgreSQL table.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"];

impl Draft<'_> {
    fn misplaced(&self, what: &str, column: &str) -> Error {
        let text = format!("{what} column \"{column}\" of table \"{}\"", self.next.name.table);
        Error::new(SqlState::SYNTAX_ERROR, text)
    }

    /// Adds a column; its constraints are appended to `new_constraints`.
    pub(super) fn add_column<'s>(
        &mut self,
        def: &'s ast::ColumnDef,
        new_constraints: &mut Vec<NewConstraint<'s>>,
    ) -> Result<()> {
        let name = names::plain(&def.name)?;
        let declared = types::declared(&def.data_type, &mut self.notices)?;
        let mut column = RowColumn::new(&name, declared.ty);
        let values_from = self.options(&mut column, def, declared.is_serial, new_constraints)?;
        if SYSTEM_COLUMNS.contains(&name.as_str()) {
            let text = format!("column name \"{name}\" conflicts with a system column name");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
        }
        if self.next.column(&name).is_some() {
            let text = match &self.old {
                None => format!("column \"{name}\" specified more than once"),
                Some(_) => format!("column \"{name}\" of relation \"{}\" already exists", self.next.name.table),
            };
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
        }
        if self.next.columns.len() == COLUMNS_PER_TABLE_MAX {
            let text = format!("tables can have at most {COLUMNS_PER_TABLE_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
        }
        let at = self.next.columns.len();
        if column.not_null {
            self.required.push(at);
        }
        self.next.columns.push(column);
        match values_from {
            ValueSource::Nothing => Ok(()),
            ValueSource::Default(expr) => self.new_default(at, expr),
            ValueSource::Sequence(options) => {
                let sequence = self.own_sequence(at, &options)?;
                self.filled.insert(at, Field::Next(sequence));
                // Every row gets a value.
                self.required.retain(|column| *column != at);
                Ok(())
            }
        }
    }

    /// Sets the default of a new column; existing rows get it too.
    fn new_default(&mut self, at: usize, expr: &ast::Expr) -> Result<()> {
        match self.set_default(at, expr)? {
            Default::Next(sequence) => {
                self.filled.insert(at, Field::Next(sequence.id));
            }
            Default::Value(value) => {
                let ty = self.next.columns[at].ty;
                if self.old.is_some() {
                    let missing = expressions::value(&value, ty, self.session, |value| alone(ty, &value))??;
                    // Every row gets a value.
                    if missing.is_some() {
                        self.required.retain(|column| *column != at);
                    }
                    self.next.columns[at].missing = missing;
                }
            }
        }
        Ok(())
    }

    /// Sets a column's default.
    pub(super) fn set_default(&mut self, at: usize, expr: &ast::Expr) -> Result<Default> {
        let column = &mut self.next.columns[at];
        let default = expressions::default(expr, &column.name, column.ty, self.catalog)?;
        column.default = match &default {
            Default::Next(sequence) => Some(expressions::next_value(&sequence.name, self.catalog)),
            Default::Value(Expr::Value(Value::Plain(Datum::Null))) => None,
            Default::Value(_) => Some(expressions::canonical(expr, "").to_string()),
        };
        Ok(default)
    }

    /// Evaluates the options after the type in a column definition.
    fn options<'s>(
        &mut self,
        column: &mut RowColumn,
        def: &'s ast::ColumnDef,
        is_serial: bool,
        new_constraints: &mut Vec<NewConstraint<'s>>,
    ) -> Result<ValueSource<'s>> {
        let name = &column.name;
        let mut null: Option<bool> = is_serial.then_some(false);
        let mut default = None;
        let mut options = is_serial.then(|| SequenceOptions { ty: Some(column.ty), ..SequenceOptions::default() });
        for one in &def.options {
            let constraint = one.name.as_ref().map(names::plain).transpose()?;
            let columns = || vec![name.clone()];
            match &one.option {
                ast::ColumnOption::Null | ast::ColumnOption::NotNull => {
                    let says = matches!(one.option, ast::ColumnOption::Null);
                    if null.is_some_and(|null| null != says) {
                        return Err(self.misplaced("conflicting NULL/NOT NULL declarations for", name));
                    }
                    null = Some(says);
                }
                ast::ColumnOption::Default(_) if default.is_some() || is_serial => {
                    return Err(self.misplaced("multiple default values specified for", name));
                }
                ast::ColumnOption::Default(expr) => default = Some(expr),
                ast::ColumnOption::Generated { generation_expr: None, generated_as, sequence_options, .. } => {
                    if column.identity.is_some() {
                        return Err(self.misplaced("multiple identity specifications for", name));
                    }
                    if null == Some(true) {
                        return Err(self.misplaced("conflicting NULL/NOT NULL declarations for", name));
                    }
                    null = Some(false);
                    column.identity = Some(identity(*generated_as));
                    options = Some(identity_options(column.ty, sequence_options.as_deref())?);
                }
                ast::ColumnOption::Generated { .. } => {
                    return Err(Error::unsupported("generated columns are not supported on rows tables"));
                }
                ast::ColumnOption::PrimaryKey(key) => {
                    refuse_deferred(key.characteristics)?;
                    new_constraints.push(NewConstraint::Key { name: constraint, columns: columns(), primary: true });
                }
                ast::ColumnOption::Unique(key) => {
                    refuse_deferred(key.characteristics)?;
                    refuse_nulls_not_distinct(key.nulls_distinct)?;
                    new_constraints.push(NewConstraint::Key { name: constraint, columns: columns(), primary: false });
                }
                ast::ColumnOption::Check(check) => {
                    new_constraints.push(NewConstraint::Check { name: constraint, condition: &check.expr });
                }
                ast::ColumnOption::ForeignKey(key) => {
                    new_constraints.push(NewConstraint::Foreign { name: constraint, columns: columns(), key });
                }
                ast::ColumnOption::Collation(collation) => check_collation(collation, column.ty)?,
                other => {
                    let text = format!("{other} of column \"{name}\" is not supported on rows tables");
                    return Err(Error::unsupported(text));
                }
            }
            if (default.is_some() || is_serial) && column.identity.is_some() {
                return Err(self.misplaced("both default and identity specified for", name));
            }
        }
        column.not_null = null == Some(false);
        Ok(match (default, options) {
            (_, Some(options)) => ValueSource::Sequence(options),
            (Some(default), None) => ValueSource::Default(default),
            (None, None) => ValueSource::Nothing,
        })
    }

    /// Creates the sequence of a serial or identity column; returns its id.
    pub(super) fn own_sequence(&mut self, at: usize, options: &SequenceOptions) -> Result<u32> {
        let schema = self.next.name.schema.clone();
        let column = &self.next.columns[at];
        let taken = |name: &str| self.is_relation(name);
        let table = names::generated(&self.next.name.table, Some(&column.name), "seq", &taken);
        let name = TableName { schema, table };
        let mut sequence = SequenceSpec::new(self.catalog.next_id(Object::Sequence), name, options)?;
        sequence.owner = Some(SequenceOwner { table: self.next.id, column: at });
        let id = sequence.id;
        self.next.columns[at].default = Some(expressions::next_value(&sequence.name, self.catalog));
        self.sequences.push(sequence);
        Ok(id)
    }

    pub(super) fn set_not_null(&mut self, at: usize) {
        if !self.next.columns[at].not_null {
            self.next.columns[at].not_null = true;
            self.required.push(at);
            self.rebuild(at);
        }
    }

    pub(super) fn drop_not_null(&mut self, at: usize) {
        if self.next.columns[at].not_null {
            self.next.columns[at].not_null = false;
            self.rebuild(at);
        }
    }

    /// Nullable columns have another key encoding (`rows::key`), so indexes on the column are rebuilt, with new
    /// ids.
    fn rebuild(&mut self, at: usize) {
        let indexes = self.next.primary.iter_mut().chain(&mut self.next.secondary);
        for index in indexes.filter(|index| index.columns.contains(&at)) {
            if !self.built.contains(&index.id) {
                index.id = self.catalog.next_id(Object::Index);
                self.built.push(index.id);
            }
        }
    }

    /// Changes a column's type. `using` computes the new values; without it they are cast.
    pub(super) fn set_type(&mut self, at: usize, ty: Type, using: Option<&ast::Expr>) -> Result<()> {
        let old = self.next.columns[at].ty;
        let name = self.next.columns[at].name.clone();
        if self.filled.contains_key(&at) {
            return Err(Error::unsupported(format!("cannot alter type of column \"{name}\" twice")));
        }
        if using.is_some() || !is_kept(old, ty) {
            let field = self.converted(at, ty, using)?;
            self.filled.insert(at, Field::Expr(field));
            // It has the old type, and after the rewrite no row lacks the column.
            self.next.columns[at].missing = None;
        }
        if self.next.columns[at].identity.is_some() {
            self.retype_identity(at, ty)?;
        }
        self.next.columns[at].ty = ty;
        self.check_default(at, old)?;
        self.check_users(at, old)
    }

    /// The expression that computes a column's new values.
    fn converted(&self, at: usize, ty: Type, using: Option<&ast::Expr>) -> Result<Expr> {
        let (column, old) = (&self.next.columns[at], self.old.as_deref());
        let table = expressions::empty_table(old.unwrap_or(&self.next))?;
        if let Some(using) = using {
            return expressions::transformed(using, &table, &column.name, ty);
        }
        if !assignable(column.ty, ty) {
            let name = &column.name;
            let text = format!("column \"{name}\" cannot be cast automatically to type {ty}");
            let hint = format!("You might need to specify \"USING {}::{ty}\".", names::quoted(name));
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint));
        }
        let itself = ast::Expr::Identifier(ast::Ident::with_quote('"', &column.name));
        expressions::transformed(&itself, &table, &column.name, ty)
    }

    /// Error 42804 if the default cannot be cast to the new type. Binding it again checks its value.
    fn check_default(&self, at: usize, old: Type) -> Result<()> {
        let column = &self.next.columns[at];
        let (Some(sql), None) = (&column.default, column.identity) else { return Ok(()) };
        if !assignable(old, column.ty) {
            let text =
                format!("default for column \"{}\" cannot be cast automatically to type {}", column.name, column.ty);
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        expressions::default(&expressions::parsed(sql)?, &column.name, column.ty, self.catalog).map(|_| ())
    }

    /// Checks indexes, constraints and foreign keys of the column against its new type.
    fn check_users(&mut self, at: usize, old: Type) -> Result<()> {
        let ty = self.next.columns[at].ty;
        let rewritten = self.filled.contains_key(&at);
        if indexes(&self.next).any(|index| index.columns.contains(&at)) {
            types::check_ordered(ty)?;
        }
        let table = self.table()?;
        for check in &self.next.checks {
            if expressions::columns(&check.condition, &self.next)?.contains(&at) {
                expressions::condition(&expressions::parsed(&check.condition)?, &table)?;
                if rewritten {
                    self.checked.push(check.name.clone());
                }
            }
        }
        for key in self.next.foreign_keys.iter().filter(|key| key.columns.contains(&at)) {
            let parent = if key.table == self.next.id {
                Some(Arc::new(self.next.clone()))
            } else {
                self.catalog.by_id(key.table)
            };
            if let Some(parent) = parent {
                check_types(key, &self.next, &parent)?;
            }
            if rewritten {
                self.checked.push(key.name.clone());
            }
        }
        for child in self.catalog.tables() {
            for key in child.foreign_keys.iter().filter(|key| key.table == self.next.id && key.referred.contains(&at)) {
                check_types(key, &child, &self.next)?;
                if rewritten {
                    let text = format!(
                        "cannot alter type of column \"{}\" from {old} to {ty}: foreign key constraint \"{}\" of table \"{}\" refers to it",
                        self.name_of(at),
                        key.name,
                        child.name.table
                    );
                    return Err(Error::unsupported(text).with_hint("drop the constraint and add it again afterwards"));
                }
            }
        }
        Ok(())
    }

    fn retype_identity(&mut self, at: usize, ty: Type) -> Result<()> {
        check_identity(ty)?;
        let owner = SequenceOwner { table: self.next.id, column: at };
        let owned = self.catalog.sequences().into_iter().find(|sequence| sequence.owner == Some(owner));
        if let Some(sequence) = owned {
            let next = sequence.altered(&SequenceOptions { ty: Some(ty), ..SequenceOptions::default() })?;
            self.before.push(Change::AlterSequence { next, restart: None });
        }
        Ok(())
    }

    /// Makes a column an identity column.
    pub(super) fn add_identity(
        &mut self,
        at: usize,
        kind: ast::GeneratedAs,
        given: Option<&[ast::SequenceOptions]>,
    ) -> Result<()> {
        let column = &self.next.columns[at];
        let options = identity_options(column.ty, given)?;
        let (name, table) = (&column.name, &self.next.name.table);
        let wrong = |text: String| Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
        if !column.not_null {
            let text = format!(
                "column \"{name}\" of relation \"{table}\" must be declared NOT NULL before identity can be added"
            );
            return wrong(text);
        }
        if column.identity.is_some() {
            return wrong(format!("column \"{name}\" of relation \"{table}\" is already an identity column"));
        }
        if column.default.is_some() {
            return wrong(format!("column \"{name}\" of relation \"{table}\" already has a default value"));
        }
        self.next.columns[at].identity = Some(identity(kind));
        self.own_sequence(at, &options).map(|_| ())
    }

    /// Drops a column with its indexes, constraints and sequence.
    pub(super) fn drop_column(&mut self, at: usize, cascade: bool) -> Result<()> {
        let what =
            format!("column {} of table {}", self.name_of(at), names::display_name(&self.next.name, self.catalog));
        self.drop_referring(&what, &what, cascade, &|_, key| key.referred.contains(&at))?;
        self.next.primary.take_if(|index| index.columns.contains(&at));
        self.next.secondary.retain(|index| !index.columns.contains(&at));
        let mut kept = Vec::new();
        for check in std::mem::take(&mut self.next.checks) {
            if !expressions::columns(&check.condition, &self.next)?.contains(&at) {
                kept.push(check);
            }
        }
        self.next.checks = kept;
        self.next.foreign_keys.retain(|key| !key.columns.contains(&at));
        let owner = SequenceOwner { table: self.next.id, column: at };
        let owned = self.catalog.sequences().into_iter().filter(|sequence| sequence.owner == Some(owner));
        self.after.extend(owned.map(|sequence| Change::DropSequence(sequence.id)));
        let column = &mut self.next.columns[at];
        *column = RowColumn { dropped: true, ..RowColumn::new(&column.name, column.ty) };
        Ok(())
    }

    /// Renames a column, in CHECK constraints too.
    pub(super) fn rename_column(&mut self, at: usize, new: String) -> Result<()> {
        let old = std::mem::replace(&mut self.next.columns[at].name, new);
        let new = &self.next.columns[at].name;
        for check in &mut self.next.checks {
            check.condition = expressions::renamed(&check.condition, &old, new)?;
        }
        Ok(())
    }
}

/// Default value of a new column.
enum ValueSource<'s> {
    Nothing,
    Default(&'s ast::Expr),
    Sequence(SequenceOptions),
}

fn identity(kind: ast::GeneratedAs) -> Identity {
    if kind == ast::GeneratedAs::Always { Identity::Always } else { Identity::ByDefault }
}

fn check_identity(ty: Type) -> Result<()> {
    if matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
        return Ok(());
    }
    let text = "identity column type must be smallint, integer, or bigint";
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
}

fn identity_options(ty: Type, given: Option<&[ast::SequenceOptions]>) -> Result<SequenceOptions> {
    check_identity(ty)?;
    let mut options = sequence::options(given.unwrap_or_default())?;
    options.ty = Some(ty);
    Ok(options)
}

/// Whether every value of one type is a value of the other with the same encoding, so no rewrite is needed.
fn is_kept(from: Type, to: Type) -> bool {
    if !rows::row::is_same_form(from, to) {
        return false;
    }
    match (from, to) {
        (from, to) if from == to => true,
        (Type::Numeric(Some(from)), Type::Numeric(Some(to))) => from.scale == to.scale && from.digits <= to.digits,
        (Type::Numeric(_), Type::Numeric(None)) => true,
        (Type::Varchar(Some(from)), Type::Varchar(Some(to)))
        | (Type::Char(Some(from)), Type::Char(Some(to)) | Type::Varchar(Some(to))) => from <= to,
        (from, Type::Text | Type::Varchar(None)) => is_text(from),
        _ => false,
    }
}

/// Accepts only collations that order text by its bytes.
fn check_collation(collation: &ast::ObjectName, ty: Type) -> Result<()> {
    if !is_text(ty) {
        let text = format!("collations are not supported by type {}", ty.sql_name());
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    let name = collation.0.last().and_then(|part| part.as_ident()).map_or("", |name| name.value.as_str());
    if ["C", "POSIX", "default", "ucs_basic"].contains(&name) {
        return Ok(());
    }
    Err(Error::unsupported(format!("collation {collation} is not supported on rows tables"))
        .with_hint("text is ordered by its bytes, as with COLLATE \"C\""))
}
