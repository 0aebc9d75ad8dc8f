//! Column changes: add, drop, rename, type, default, identity.

use std::sync::Arc;

use model::limits::COLUMNS_PER_TABLE_MAX;
use model::{
    Datum, Error, Identity, PartitionKeySource, ReplicaIdentity, Result, RowColumn, RowIndex, SequenceOptions,
    SequenceOwner, SequenceSpec, SqlState, TableName, Type, ViewRef,
};
use parser::ast::{self, ColumnConstraint, ColumnConstraintKind as C, ColumnDef, ConstraintAttributes, SequenceOption};
use parser::ast::{Expr as Expression, ExprKind, Pos};
use rows::row::alone;

use super::draft::Draft;
use super::expressions::{self, Default};
use super::inheritance::type_conflict;
use super::sequence::Given;
use super::table_constraints::{NewConstraint, check_types, deferral};
use super::table_work::Field;
use super::{Change, Notice, Object, create, drop, indexes, names, sequence, trigger, types};
use crate::expr::{Expr, Value};
use crate::sequences::SessionFunction;
use crate::stored_expressions::{self, parsed};
use crate::types::{assignable, is_text};

/// System columns of every PostgreSQL table.
pub(super) const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"];

/// Refuses the names of system columns.
///
/// # Errors
/// 42701.
pub(super) fn check_name(name: &str) -> Result<()> {
    if SYSTEM_COLUMNS.contains(&name) {
        let text = format!("column name \"{name}\" conflicts with a system column name");
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    Ok(())
}

impl Draft<'_> {
    fn misplaced(&self, what: &str, column: &str) -> Error {
        let text = format!("{what} column \"{column}\" of table \"{}\"", self.next.name.table);
        Error::new(SqlState::SYNTAX_ERROR, text)
    }

    /// Adds a column; its constraints are appended to `new_constraints`.
    pub(super) fn add_column<'s>(
        &mut self,
        def: &'s ColumnDef,
        new_constraints: &mut Vec<NewConstraint<'s>>,
    ) -> Result<()> {
        let name = def.name.to_string();
        let Some(ty) = &def.ty else { return Err(Error::bug("a column without type")) };
        let declared = types::declared(ty, &name, self.session.facts()?)?;
        let mut column = RowColumn { domain: declared.domain, ..RowColumn::new(&name, declared.ty) };
        let values_from = self.options(&mut column, def, declared.is_serial, new_constraints)?;
        check_name(&name)?;
        if let Some(at) = self.next.column(&name)
            && self.old.is_none()
            && self.next.lineage.column(at).is_some_and(|entry| !entry.local)
        {
            return self.merge_column(at, column, values_from);
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
        let domain = column.domain;
        self.next.columns.push(column);
        if domain.is_some() {
            self.domains.push(at);
        }
        match values_from {
            ValueSource::Nothing => match domain {
                Some(domain) => self.domain_default(at, domain),
                None => Ok(()),
            },
            ValueSource::Default(expr) => self.new_default(at, expr),
            ValueSource::Generated(expr) => {
                // The text follows when all columns are known: the expression may read later ones.
                self.next.columns[at].generated = Some(String::new());
                self.generated.push((at, expr.clone()));
                Ok(())
            }
            ValueSource::Sequence(options) => {
                let sequence = self.own_sequence(at, &options)?;
                self.filled.insert(at, Field::Next(sequence));
                // Every row gets a value.
                self.required.retain(|column| *column != at);
                Ok(())
            }
        }
    }

    /// Merges a column of a new table with the one of its parents.
    fn merge_column(&mut self, at: usize, column: RowColumn, values_from: ValueSource<'_>) -> Result<()> {
        let (name, inherited) = (&column.name, &mut self.next.columns[at]);
        self.notices.push(Notice::new(format!("merging column \"{name}\" with inherited definition")));
        if inherited.declared() != column.declared() {
            let text = format!("column \"{name}\" has a type conflict");
            return Err(type_conflict(text, inherited.ty, column.ty));
        }
        inherited.not_null |= column.not_null;
        inherited.identity = column.identity;
        let entry = self.next.lineage.columns.iter_mut().find(|entry| entry.position == at);
        entry.into_iter().for_each(|entry| entry.local = true);
        self.with_values(at, values_from)
    }

    /// Constraints and the default that PARTITION OF gives a column of the parent.
    pub(super) fn partition_column<'s>(
        &mut self,
        def: &'s ColumnDef,
        new_constraints: &mut Vec<NewConstraint<'s>>,
    ) -> Result<()> {
        let at = self.next.column(&def.name).ok_or_else(|| {
            let text = format!("column \"{}\" does not exist", def.name);
            Error::new(SqlState::UNDEFINED_COLUMN, text)
        })?;
        let mut column = RowColumn::new(def.name.to_string(), self.next.columns[at].ty);
        let values_from = self.options(&mut column, def, false, new_constraints)?;
        self.next.columns[at].not_null |= column.not_null;
        self.next.columns[at].identity = column.identity;
        self.with_values(at, values_from)
    }

    /// Sets the default of a column of a new table, if there is one.
    fn with_values(&mut self, at: usize, values_from: ValueSource<'_>) -> Result<()> {
        if self.next.columns[at].generated.is_some() {
            let name = &self.next.columns[at].name;
            let refused = |text: String| Error::new(SqlState("42611"), text);
            return match values_from {
                ValueSource::Nothing => Ok(()),
                ValueSource::Default(_) => {
                    Err(refused(format!("column \"{name}\" inherits from generated column but specifies default")))
                }
                ValueSource::Sequence(_) => {
                    Err(refused(format!("column \"{name}\" inherits from generated column but specifies identity")))
                }
                ValueSource::Generated(_) => {
                    let hint = "Omit the generation expression in the definition of the child table column to inherit the \
                                generation expression from the parent table.";
                    Err(refused(format!("child column \"{name}\" specifies generation expression")).with_hint(hint))
                }
            };
        }
        match values_from {
            ValueSource::Nothing => return Ok(()),
            ValueSource::Default(expr) => self.set_default(at, expr).map(|_| ())?,
            ValueSource::Sequence(options) => self.own_sequence(at, &options).map(|_| ())?,
            ValueSource::Generated(expr) => {
                self.next.columns[at].generated = Some(String::new());
                self.next.columns[at].default = None;
                self.generated.push((at, expr.clone()));
            }
        }
        let name = &self.next.columns[at].name;
        self.conflicting_defaults.retain(|column| column != name);
        Ok(())
    }

    /// Sets the default of a new column; existing rows get it too.
    fn new_default(&mut self, at: usize, expr: &Expression) -> Result<()> {
        let default = self.set_default(at, expr)?;
        self.fill(at, default)
    }

    /// Gives existing rows the default that a new column has by its domain.
    fn domain_default(&mut self, at: usize, domain: u32) -> Result<()> {
        let Some(sql) = stored_expressions::domain_default(self.session.facts()?, domain)? else { return Ok(()) };
        let default = expressions::default(&parsed(&sql)?, &self.next.columns[at], self.catalog, self.session)?;
        self.fill(at, default)
    }

    /// Gives existing rows the default of a new column.
    fn fill(&mut self, at: usize, default: Default) -> Result<()> {
        match default {
            Default::Next(sequence) => {
                self.filled.insert(at, Field::Next(sequence.id));
            }
            Default::Value(value) if differs_by_row(&value) => {
                self.filled.insert(at, Field::Numbered(value));
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
    pub(super) fn set_default(&mut self, at: usize, expr: &Expression) -> Result<Default> {
        let column = &mut self.next.columns[at];
        let default = expressions::default(expr, column, self.catalog, self.session)?;
        column.default = match &default {
            Default::Next(sequence) => Some(expressions::next_value(&sequence.name, &self.next.name)),
            // NULL hides the default of a domain.
            Default::Value(Expr::Value(Value::Plain(Datum::Null))) if column.domain.is_none() => None,
            Default::Value(_) => Some(expressions::canonical_default(expr, self.catalog, self.session)?),
        };
        Ok(default)
    }

    /// Evaluates what stands behind the type in a column definition.
    fn options<'s>(
        &mut self,
        column: &mut RowColumn,
        def: &'s ColumnDef,
        is_serial: bool,
        new_constraints: &mut Vec<NewConstraint<'s>>,
    ) -> Result<ValueSource<'s>> {
        let name = &column.name;
        let refused = |what: &str| Err(create::unsupported(&format!("{what} of column \"{name}\"")));
        if def.compression.is_some() {
            return refused("COMPRESSION");
        }
        if !def.options.is_empty() {
            return refused("OPTIONS");
        }
        if let Some(collation) = &def.collation {
            column.collation = check_collation(collation, column.ty)?;
        }
        let mut null: Option<bool> = is_serial.then_some(false);
        let (mut default, mut generated) = (None, None);
        let mut options = is_serial.then(|| SequenceOptions { ty: Some(column.ty), ..SequenceOptions::default() });
        let columns = || vec![column.name.clone()];
        // Whether DEFERRABLE and its like belong to the constraint before.
        let mut takes_attributes = false;
        for (at, one) in def.constraints.iter().enumerate() {
            let attributes = attributes(&def.constraints[at + 1..])?;
            let constraint = one.name.as_ref().map(ast::Ident::to_string);
            let is_attribute = attribute(&one.kind).is_some();
            match &one.kind {
                C::Null | C::NotNull => {
                    let says = matches!(one.kind, C::Null);
                    if null.is_some_and(|null| null != says) {
                        return Err(self.misplaced("conflicting NULL/NOT NULL declarations for", &column.name));
                    }
                    null = Some(says);
                }
                C::Default(_) if default.is_some() || is_serial => {
                    return Err(self.misplaced("multiple default values specified for", &column.name));
                }
                C::Default(expr) => default = Some(expr),
                C::Identity { always, options: given } => {
                    if column.identity.is_some() {
                        return Err(self.misplaced("multiple identity specifications for", &column.name));
                    }
                    if null == Some(true) {
                        return Err(self.misplaced("conflicting NULL/NOT NULL declarations for", &column.name));
                    }
                    null = Some(false);
                    column.identity = Some(identity(*always));
                    options = Some(self.identity_options(column.ty, given)?);
                }
                C::Generated(_) if generated.is_some() => {
                    return Err(self.misplaced("multiple generation clauses specified for", &column.name));
                }
                C::Generated(expr) => generated = Some(expr),
                C::PrimaryKey { index } => {
                    self.key_parameters(index)?;
                    let (columns, include) = (columns(), index.include.iter().map(ast::Ident::to_string).collect());
                    new_constraints.push(NewConstraint::Key {
                        name: constraint,
                        columns,
                        include,
                        primary: true,
                        nulls_not_distinct: false,
                        deferral: deferral(attributes),
                    });
                }
                C::Unique { nulls_distinct, index } => {
                    self.key_parameters(index)?;
                    let (columns, include) = (columns(), index.include.iter().map(ast::Ident::to_string).collect());
                    new_constraints.push(NewConstraint::Key {
                        name: constraint,
                        columns,
                        include,
                        primary: false,
                        nulls_not_distinct: !nulls_distinct,
                        deferral: deferral(attributes),
                    });
                }
                C::Check { expr, no_inherit } => {
                    let attributes =
                        ConstraintAttributes { no_inherit: *no_inherit, ..ConstraintAttributes::default() };
                    new_constraints.push(NewConstraint::Check { name: constraint, condition: expr, attributes });
                }
                C::References(key) => {
                    let columns = columns();
                    new_constraints.push(NewConstraint::Foreign { name: constraint, columns, key, attributes });
                }
                kind => {
                    if let Some(words) = attribute(kind).filter(|_| !takes_attributes) {
                        return Err(Error::new(SqlState::SYNTAX_ERROR, format!("misplaced {words} clause")));
                    }
                }
            }
            if !is_attribute {
                takes_attributes = matches!(one.kind, C::PrimaryKey { .. } | C::Unique { .. } | C::References(_));
            }
            if (default.is_some() || is_serial) && column.identity.is_some() {
                return Err(self.misplaced("both default and identity specified for", &column.name));
            }
            if generated.is_some() && (default.is_some() || is_serial) {
                return Err(self.misplaced("both default and generation expression specified for", &column.name));
            }
            if generated.is_some() && column.identity.is_some() {
                return Err(self.misplaced("both identity and generation expression specified for", &column.name));
            }
        }
        column.not_null = null == Some(false);
        if let Some(generated) = generated {
            return Ok(ValueSource::Generated(generated));
        }
        Ok(match (default, options) {
            (_, Some(options)) => ValueSource::Sequence(options),
            (Some(default), None) => ValueSource::Default(default),
            (None, None) => ValueSource::Nothing,
        })
    }

    /// Options of the sequence of an identity column.
    fn identity_options(&mut self, ty: Type, given: &[SequenceOption]) -> Result<SequenceOptions> {
        check_identity(ty)?;
        let given = Given::of(given, self.session)?;
        if given.options.ty.is_some() {
            return Err(sequence::conflicting());
        }
        if given.restart.is_some() {
            return Err(Error::unsupported("RESTART of a new sequence is not supported").with_hint("use START"));
        }
        if given.name.is_some() {
            let text = "SEQUENCE NAME is ignored: the sequence is named after its table and column";
            self.notices.push(Notice::new(text));
        }
        Ok(SequenceOptions { ty: Some(ty), ..given.options })
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
        self.next.columns[at].default = Some(expressions::next_value(&sequence.name, &self.next.name));
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
                let before = index.id;
                index.id = self.catalog.next_id(Object::Index);
                for entry in self.next.lineage.indexes.iter_mut().filter(|entry| entry.0 == before) {
                    entry.0 = index.id;
                }
                if self.next.replica_identity == ReplicaIdentity::Index(before) {
                    self.next.replica_identity = ReplicaIdentity::Index(index.id);
                }
                self.built.push(index.id);
            }
        }
    }

    /// Changes a column's type. `using` computes the new values; without it they are cast.
    pub(super) fn set_type(
        &mut self,
        at: usize,
        (ty, domain): (Type, Option<u32>),
        using: Option<&Expression>,
    ) -> Result<()> {
        let old = self.next.columns[at].ty;
        let name = self.next.columns[at].name.clone();
        self.check_views(at)?;
        if self.filled.contains_key(&at) {
            return Err(Error::unsupported(format!("cannot alter type of column \"{name}\" twice")));
        }
        self.check_computed(at)?;
        let is_generated = self.next.columns[at].generated.is_some();
        if !is_generated && (using.is_some() || !is_kept(old, ty)) {
            let field = self.converted(at, ty, using)?;
            self.filled.insert(at, Field::Expr(field));
            // It has the old type, and after the rewrite no row lacks the column.
            self.next.columns[at].missing = None;
        }
        if self.next.columns[at].identity.is_some() {
            self.retype_identity(at, ty)?;
        }
        self.next.columns[at].ty = ty;
        self.next.columns[at].domain = domain;
        if domain.is_some() {
            self.domains.push(at);
        }
        if is_generated {
            self.retype_generated(at, using)?;
        }
        self.retype_hidden(at)?;
        self.check_default(at, old)?;
        self.check_users(at, old)
    }

    /// The expression that computes a column's new values.
    fn converted(&self, at: usize, ty: Type, using: Option<&Expression>) -> Result<Expr> {
        let (column, old) = (&self.next.columns[at], self.old.as_deref());
        let table = expressions::empty_table(old.unwrap_or(&self.next))?;
        if let Some(using) = using {
            return expressions::transformed(using, &table, &column.name, ty, self.session);
        }
        if !assignable(column.ty, ty) {
            let name = &column.name;
            let text = format!("column \"{name}\" cannot be cast automatically to type {}", ty.sql_name());
            let hint = format!("You might need to specify \"USING {}::{ty}\".", names::quoted(name));
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint(hint));
        }
        let itself = Expression::new(ExprKind::Column(column.name.as_str().into()), Pos(0));
        expressions::transformed(&itself, &table, &column.name, ty, self.session)
    }

    /// Error 42804 if the default cannot be cast to the new type. Binding it again checks its value.
    fn check_default(&self, at: usize, old: Type) -> Result<()> {
        let column = &self.next.columns[at];
        let (Some(sql), None) = (&column.default, column.identity) else { return Ok(()) };
        if !assignable(old, column.ty) {
            let (name, to) = (&column.name, column.ty.sql_name());
            let text = format!("default for column \"{name}\" cannot be cast automatically to type {to}");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        expressions::default(&parsed(sql)?, column, self.catalog, self.session).map(|_| ())
    }

    /// Checks indexes, constraints and foreign keys of the column against its new type.
    fn check_users(&mut self, at: usize, old: Type) -> Result<()> {
        let ty = self.next.columns[at].ty;
        let rewritten = self.filled.contains_key(&at);
        for index in indexes(&self.next) {
            for (place, _) in index.columns.iter().enumerate().filter(|(_, column)| **column == at) {
                let class = index.keys.get(place).and_then(|key| key.operator_class.as_deref());
                types::check_indexed(index.method, ty, class)?;
            }
        }
        let table = self.table()?;
        for check in &self.next.checks {
            if stored_expressions::columns(&check.condition, &self.next)?.contains(&at) {
                expressions::condition(&parsed(&check.condition)?, &table, self.session)?;
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
    pub(super) fn add_identity(&mut self, at: usize, always: bool, given: &[SequenceOption]) -> Result<()> {
        let options = self.identity_options(self.next.columns[at].ty, given)?;
        let column = &self.next.columns[at];
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
        if column.default.is_some() || column.generated.is_some() {
            return wrong(format!("column \"{name}\" of relation \"{table}\" already has a default value"));
        }
        self.next.columns[at].identity = Some(identity(always));
        self.own_sequence(at, &options).map(|_| ())
    }

    /// `ALTER COLUMN … DROP IDENTITY`
    pub(super) fn drop_identity(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let at = self.column(name)?;
        if self.next.columns[at].identity.take().is_none() {
            let text = format!("column \"{name}\" of relation \"{}\" is not an identity column", self.next.name.table);
            if !if_exists {
                return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
            }
            self.notices.push(Notice::new(format!("{text}, skipping")));
            return Ok(());
        }
        self.next.columns[at].default = None;
        let owner = SequenceOwner { table: self.next.id, column: at };
        let owned = self.catalog.sequences().into_iter().filter(|sequence| sequence.owner == Some(owner));
        self.after.extend(owned.map(|sequence| Change::DropSequence(sequence.id)));
        Ok(())
    }

    /// Drops a column with its indexes, constraints and sequence.
    pub(super) fn drop_column(&mut self, at: usize, cascade: bool) -> Result<()> {
        let what =
            format!("column {} of table {}", self.name_of(at), names::display_name(&self.next.name, self.catalog));
        self.drop_views(at, &what, cascade)?;
        self.drop_computed(at, &what, cascade)?;
        trigger::drop_column(self, at, &what, cascade)?;
        self.drop_referring(&what, &what, cascade, &|_, key| key.referred.contains(&at))?;
        let hidden = self.computed_from(at, true)?;
        let uses = |index: &RowIndex| index.uses().any(|column| column == at || hidden.contains(&column));
        self.next.primary.take_if(|index| uses(index));
        self.next.secondary.retain(|index| !uses(index));
        let mut kept = Vec::new();
        for check in std::mem::take(&mut self.next.checks) {
            if !stored_expressions::columns(&check.condition, &self.next)?.contains(&at) {
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
        self.filled.remove(&at);
        self.next.lineage.columns.retain(|entry| entry.position != at);
        let kept: Vec<u32> = indexes(&self.next).map(|index| index.id).collect();
        self.next.lineage.indexes.retain(|(own, _)| kept.contains(own));
        let (checks, keys) = (&self.next.checks, &self.next.foreign_keys);
        self.next.lineage.checks.retain(|entry| checks.iter().any(|check| check.name == entry.name));
        self.next.lineage.foreign_keys.retain(|name| keys.iter().any(|key| key.name == *name));
        // A later action of the statement may bind the expressions of hidden columns.
        self.drop_unused();
        Ok(())
    }

    /// Views that use a column, and those that read these.
    fn views_of(&self, at: usize) -> Vec<ViewRef> {
        let table = self.next.id.0;
        let mut views = self.catalog.dependent_views(&[table]);
        views.retain(|view| view.uses(table, at as u32));
        let ids: Vec<u32> = views.iter().map(|view| view.id).collect();
        views.extend(self.catalog.dependent_views(&ids));
        views
    }

    /// Error 0A000 for a column that a view uses: the types of views are fixed.
    fn check_views(&self, at: usize) -> Result<()> {
        let Some(view) = self.views_of(at).first().cloned() else { return Ok(()) };
        let (view, column) = (names::display_name(&view.name, self.catalog), self.name_of(at));
        let detail = format!("rule _RETURN on view {view} depends on column \"{column}\"");
        Err(Error::unsupported("cannot alter type of a column used by a view or rule").with_detail(detail))
    }

    /// Drops the views that use a column; without CASCADE error 2BP01.
    fn drop_views(&mut self, at: usize, what: &str, cascade: bool) -> Result<()> {
        let table = self.next.id.0;
        let gone = |change: &Change, view: &ViewRef| matches!(change, Change::DropView(id) if *id == view.id);
        let mut views = self.views_of(at);
        views.retain(|view| !self.before.iter().any(|change| gone(change, view)));
        let direct = |view: &ViewRef| view.uses(table, at as u32).then(|| what.to_owned());
        let dependents = drop::dependent_views(&views, self.catalog, &direct);
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            return Err(drop::depended(what, dependents.iter().map(|(view, of)| (view.as_str(), of.as_str()))));
        }
        let names: Vec<String> = dependents.into_iter().map(|(view, _)| view).collect();
        self.notices.push(drop::cascades(&names));
        self.before.extend(drop::dropped_views(views));
        Ok(())
    }

    /// Renames a column, in CHECK constraints too.
    pub(super) fn rename_column(&mut self, at: usize, new: String) -> Result<()> {
        let old = std::mem::replace(&mut self.next.columns[at].name, new);
        let new = &self.next.columns[at].name;
        for check in &mut self.next.checks {
            check.condition = expressions::renamed(&check.condition, &old, new)?;
        }
        let new = new.clone();
        for sql in self.next.columns.iter_mut().filter_map(|column| column.generated.as_mut()) {
            *sql = expressions::renamed(sql, &old, &new)?;
        }
        for part in self.next.lineage.key.iter_mut().flat_map(|key| &mut key.parts) {
            if let PartitionKeySource::Expression(sql) = &mut part.source {
                *sql = expressions::renamed(sql, &old, &new)?;
            }
        }
        trigger::rename_column(&mut self.next, &old, &new)
    }
}

/// Default value of a new column.
enum ValueSource<'s> {
    Nothing,
    Default(&'s Expression),
    Generated(&'s Expression),
    Sequence(SequenceOptions),
}

fn identity(always: bool) -> Identity {
    if always { Identity::Always } else { Identity::ByDefault }
}

fn check_identity(ty: Type) -> Result<()> {
    if matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
        return Ok(());
    }
    let text = "identity column type must be smallint, integer, or bigint";
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
}

/// The words of an attribute of the constraint before it; `None` for what is none.
fn attribute(kind: &C) -> Option<&'static str> {
    match kind {
        C::Deferrable => Some("DEFERRABLE"),
        C::NotDeferrable => Some("NOT DEFERRABLE"),
        C::InitiallyDeferred => Some("INITIALLY DEFERRED"),
        C::InitiallyImmediate => Some("INITIALLY IMMEDIATE"),
        _ => None,
    }
}

/// The attributes that stand first in a list: those of the constraint before it.
fn attributes(behind: &[ColumnConstraint]) -> Result<ConstraintAttributes> {
    let mut found = ConstraintAttributes::default();
    for one in behind {
        let (place, value, what) = match one.kind {
            C::Deferrable => (&mut found.deferrable, true, "DEFERRABLE/NOT DEFERRABLE"),
            C::NotDeferrable => (&mut found.deferrable, false, "DEFERRABLE/NOT DEFERRABLE"),
            C::InitiallyDeferred => (&mut found.initially_deferred, true, "INITIALLY IMMEDIATE/DEFERRED"),
            C::InitiallyImmediate => (&mut found.initially_deferred, false, "INITIALLY IMMEDIATE/DEFERRED"),
            _ => break,
        };
        if place.replace(value).is_some() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("multiple {what} clauses not allowed")));
        }
    }
    if found.deferrable == Some(false) && found.initially_deferred == Some(true) {
        let text = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
    }
    Ok(found)
}

/// Whether every value of one type is a value of the other with the same encoding, so no rewrite is needed.
fn is_kept(from: Type, to: Type) -> bool {
    if !rows::row::is_same_form(from, to) {
        return false;
    }
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if from.is_other() && from.base() == to => true,
        (Type::Numeric(Some(from)), Type::Numeric(Some(to))) => from.scale == to.scale && from.digits <= to.digits,
        (Type::Numeric(_), Type::Numeric(None)) => true,
        (Type::Varchar(Some(from)), Type::Varchar(Some(to)))
        | (Type::Char(Some(from)), Type::Char(Some(to)) | Type::Varchar(Some(to))) => from <= to,
        (from, Type::Text | Type::Varchar(None)) => is_text(from),
        _ => false,
    }
}

/// Whether an expression has another value for each row, and does not ask for the present number of a sequence.
fn differs_by_row(expr: &Expr) -> bool {
    use SessionFunction as F;
    let mut is_refused = false;
    expr.visit(&mut |part| {
        is_refused |= matches!(part, Expr::SessionCall(F::Current(_) | F::Last | F::Set(_), _));
    });
    expr.is_volatile() && !is_refused
}

/// Accepts only collations that order text by its bytes. Returns the name, unless it is the default.
pub(super) fn check_collation(collation: &ast::Name, ty: Type) -> Result<Option<String>> {
    if !is_text(ty) {
        let text = format!("collations are not supported by type {}", ty.sql_name());
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    if ["C", "POSIX", "default", "ucs_basic"].contains(&collation.name.as_str()) {
        return Ok(Some(collation.name.to_string()).filter(|name| name != "default"));
    }
    Err(create::unsupported(&format!("collation {collation}"))
        .with_hint("text is ordered by its bytes, as with COLLATE \"C\""))
}
