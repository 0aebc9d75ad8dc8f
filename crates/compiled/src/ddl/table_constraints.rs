//! Constraints and indexes of a table: PRIMARY KEY, UNIQUE, CHECK, FOREIGN KEY.

use model::{
    Deferral, Error, InheritedCheck, Referential, ReplicaIdentity, Result, RowCheck, RowForeignKey, RowIndex,
    RowSchema, SqlState, Type,
};
use parser::ast::{
    self, ConstraintAttributes, Expr, Ident, IndexParameters, KeyAction, References, TableConstraint,
    TableConstraintKind,
};
use rows::SECONDARY_INDEXES_MAX;

use super::draft::Draft;
use super::{Notice, Object, create, drop, expressions, indexes, is_taken, names, types};
use crate::stored_expressions;
use crate::types::{base_type, is_text};

/// Maximum columns of an index, as in PostgreSQL.
const INDEX_COLUMNS_MAX: usize = 32;

/// A constraint to add after all columns.
pub(super) enum NewConstraint<'s> {
    Key {
        name: Option<String>,
        columns: Vec<String>,
        include: Vec<String>,
        primary: bool,
        nulls_not_distinct: bool,
        deferral: Deferral,
    },
    /// ADD … USING INDEX
    UsingIndex {
        name: Option<String>,
        index: String,
        primary: bool,
        deferral: Deferral,
    },
    Check {
        name: Option<String>,
        condition: &'s Expr,
        attributes: ConstraintAttributes,
    },
    Foreign {
        name: Option<String>,
        columns: Vec<String>,
        key: &'s References,
        attributes: ConstraintAttributes,
    },
}

/// PRIMARY KEY or UNIQUE with resolved columns.
pub(super) struct Key {
    name: Option<String>,
    columns: Vec<usize>,
    include: Vec<usize>,
    primary: bool,
    nulls_not_distinct: bool,
    deferral: Deferral,
}

impl Draft<'_> {
    /// Converts a table constraint of the syntax tree.
    pub(super) fn new_constraint<'s>(&mut self, constraint: &'s TableConstraint) -> Result<NewConstraint<'s>> {
        let name = constraint.name.as_ref().map(Ident::to_string);
        let owned = |columns: &[Ident]| columns.iter().map(Ident::to_string).collect();
        match &constraint.kind {
            TableConstraintKind::PrimaryKey { columns, index } => {
                self.key_parameters(index)?;
                let (columns, include) = (owned(columns), owned(&index.include));
                let deferral = deferral(constraint.attributes);
                Ok(NewConstraint::Key { name, columns, include, primary: true, nulls_not_distinct: false, deferral })
            }
            TableConstraintKind::Unique { nulls_distinct, columns, index } => {
                self.key_parameters(index)?;
                let (columns, include) = (owned(columns), owned(&index.include));
                let (nulls_not_distinct, deferral) = (!nulls_distinct, deferral(constraint.attributes));
                Ok(NewConstraint::Key { name, columns, include, primary: false, nulls_not_distinct, deferral })
            }
            TableConstraintKind::Check(condition) => {
                Ok(NewConstraint::Check { name, condition, attributes: constraint.attributes })
            }
            TableConstraintKind::ForeignKey { columns, references } => {
                let (columns, attributes) = (owned(columns), constraint.attributes);
                Ok(NewConstraint::Foreign { name, columns, key: references, attributes })
            }
            TableConstraintKind::PrimaryKeyUsingIndex(index) | TableConstraintKind::UniqueUsingIndex(index) => {
                let primary = matches!(constraint.kind, TableConstraintKind::PrimaryKeyUsingIndex(_));
                let deferral = deferral(constraint.attributes);
                Ok(NewConstraint::UsingIndex { name, index: index.to_string(), primary, deferral })
            }
            TableConstraintKind::Exclude(_) => Err(create::unsupported("EXCLUDE")
                .with_hint("for equal keys use UNIQUE; other exclusions need an index that rows tables do not have")),
        }
    }

    /// Checks the index parameters of PRIMARY KEY and UNIQUE.
    pub(super) fn key_parameters(&mut self, index: &IndexParameters) -> Result<()> {
        for option in &index.options {
            self.notices.push(create::ignored_option(&option.name)?);
        }
        self.notices.extend(index.tablespace.as_deref().map(create::tablespace));
        Ok(())
    }

    /// Adds the constraints in PostgreSQL's order, which determines generated names.
    pub(super) fn add_all(&mut self, new_constraints: Vec<NewConstraint<'_>>) -> Result<()> {
        self.add_generated()?;
        let mut keys: Vec<Key> = Vec::new();
        let (mut checks, mut foreign) = (Vec::new(), Vec::new());
        for one in new_constraints {
            match one {
                NewConstraint::Key { name, columns, include, primary, nulls_not_distinct, deferral } => {
                    let mut key = self.key(name, &columns, primary, &keys)?;
                    key.include = self.included(&include)?;
                    key.nulls_not_distinct = nulls_not_distinct;
                    key.deferral = deferral;
                    keys.push(key);
                }
                NewConstraint::UsingIndex { name, index, primary, deferral } => {
                    self.adopt(name, &index, primary, deferral)?;
                }
                NewConstraint::Check { name, condition, attributes } => checks.push((name, condition, attributes)),
                NewConstraint::Foreign { name, columns, key, attributes } => {
                    foreign.push((name, columns, key, attributes));
                }
            }
        }
        keys.sort_by_key(|key| !key.primary);
        // CREATE TABLE adds keys after checks, ALTER TABLE before them.
        if self.old.is_none() {
            for (name, condition, attributes) in checks.drain(..) {
                self.add_check(name, condition, ConstraintAttributes { not_valid: false, ..attributes })?;
            }
        }
        for key in distinct(keys) {
            self.add_key(key)?;
        }
        for (name, condition, attributes) in checks {
            self.add_check(name, condition, attributes)?;
        }
        for (name, columns, key, attributes) in foreign {
            self.add_foreign(name, &columns, key, attributes)?;
        }
        Ok(())
    }

    /// Resolves the columns of a key; `others` are keys of the same statement.
    fn key(&self, name: Option<String>, columns: &[String], primary: bool, others: &[Key]) -> Result<Key> {
        if primary && (self.next.primary_key().is_some() || others.iter().any(|key| key.primary)) {
            let text = format!("multiple primary keys for table \"{}\" are not allowed", self.next.name.table);
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
        }
        let mut positions = Vec::with_capacity(columns.len());
        for column in columns {
            let at = self.next.column(column).ok_or_else(|| {
                // ADD PRIMARY KEY first sets the columns NOT NULL, so the error differs.
                if primary && self.old.is_some() {
                    return super::no_column(column, &self.next.name.table);
                }
                let text = format!("column \"{column}\" named in key does not exist");
                Error::new(SqlState::UNDEFINED_COLUMN, text)
            })?;
            if positions.contains(&at) {
                let kind = if primary { "primary key" } else { "unique" };
                let text = format!("column \"{column}\" appears twice in {kind} constraint");
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
            }
            positions.push(at);
        }
        let deferral = Deferral::Never;
        Ok(Key { name, columns: positions, include: Vec::new(), primary, nulls_not_distinct: false, deferral })
    }

    /// Positions of the columns of INCLUDE.
    pub(super) fn included(&self, columns: &[String]) -> Result<Vec<usize>> {
        let at = |column: &String| {
            self.next.column(column).ok_or_else(|| {
                let text = format!("column \"{column}\" named in key does not exist");
                Error::new(SqlState::UNDEFINED_COLUMN, text)
            })
        };
        columns.iter().map(at).collect()
    }

    /// Makes an index that of a constraint.
    fn adopt(&mut self, name: Option<String>, index: &str, primary: bool, deferral: Deferral) -> Result<()> {
        let table = self.next.name.table.clone();
        let wrong = |text: String| Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        if primary && self.next.primary_key().is_some() {
            let text = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
        }
        let Some(at) = self.next.secondary.iter().position(|other| other.name == index) else {
            let text = format!("index \"{index}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
        };
        let found = &self.next.secondary[at];
        if found.constraint {
            let text = format!("index \"{index}\" is already associated with a constraint");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
        }
        let detail = "Cannot create a primary key or unique constraint using such an index.";
        if !found.unique {
            return wrong(format!("\"{index}\" is not a unique index")).map_err(|error| error.with_detail(detail));
        }
        if found.columns.iter().any(|at| self.next.columns[*at].is_hidden()) {
            return wrong(format!("index \"{index}\" contains expressions")).map_err(|error| error.with_detail(detail));
        }
        if found.predicate.is_some() {
            return wrong(format!("\"{index}\" is a partial index")).map_err(|error| error.with_detail(detail));
        }
        let unique = deferral == Deferral::Never;
        let mut adopted = RowIndex { constraint: true, unique, deferral, ..found.clone() };
        if !unique {
            self.check_deferrable(&adopted)?;
        }
        if let Some(name) = name.filter(|name| name != index) {
            self.check_relation(&name)?;
            self.check_constraint(&name)?;
            let text = format!("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{index}\" to \"{name}\"");
            self.notices.push(Notice::new(text));
            adopted.name = name;
        }
        if !primary {
            self.next.secondary[at] = adopted;
            return Ok(());
        }
        self.next.secondary.remove(at);
        for column in adopted.columns.clone() {
            self.set_not_null(column);
        }
        // A primary index has entries of another form, and is built anew; a deferrable one too, which is simpler.
        let id = self.catalog.next_id(Object::Index);
        if self.next.replica_identity == ReplicaIdentity::Index(adopted.id) {
            self.next.replica_identity = ReplicaIdentity::Index(id);
        }
        adopted.id = id;
        self.add_index(adopted, true)
    }

    /// Refuses to make an index deferrable on which partitions or foreign keys depend.
    fn check_deferrable(&self, index: &RowIndex) -> Result<()> {
        if self.next.lineage.key.is_some() {
            let text = "ALTER TABLE / ADD CONSTRAINT USING INDEX is not supported on partitioned tables";
            return Err(Error::unsupported(text));
        }
        let mut after = self.next.clone();
        after.secondary.iter_mut().filter(|other| other.id == index.id).for_each(|other| other.unique = false);
        let (id, table) = (self.next.id, &self.next.name.table);
        let is_lost = |schema: &RowSchema| {
            schema.foreign_keys.iter().any(|key| key.table == id && !has_key(&after, &key.referred))
        };
        let others = self.catalog.tables();
        if is_lost(&self.next) || others.iter().any(|other| other.id != id && is_lost(other)) {
            return Err(deferrable_referred("unique constraint", table));
        }
        Ok(())
    }

    fn add_key(&mut self, key: Key) -> Result<()> {
        self.check_unique_key(&key.columns, if key.primary { "PRIMARY KEY" } else { "UNIQUE" })?;
        if key.primary {
            for column in &key.columns {
                self.set_not_null(*column);
            }
        }
        let label = if key.primary { "pkey" } else { "key" };
        let name = match key.name {
            Some(name) => {
                self.check_relation(&name)?;
                self.check_constraint(&name)?;
                name
            }
            None => {
                let columns = (!key.primary).then(|| names::of_columns(&self.names(&key.columns)));
                let taken = |name: &str| self.is_relation(name) || self.is_constraint(name);
                names::generated(&self.next.name.table, columns.as_deref(), label, &taken)
            }
        };
        let mut index = self.new_index(name, key.columns, true, true)?;
        index.include = key.include;
        index.nulls_not_distinct = key.nulls_not_distinct;
        (index.unique, index.deferral) = (key.deferral == Deferral::Never, key.deferral);
        self.add_index(index, key.primary)
    }

    /// Adds an index that is not a constraint. Without a name it gets one from `columns`.
    pub(super) fn add_plain(&mut self, name: Option<String>, columns: &str, index: RowIndex) -> Result<()> {
        if index.unique {
            self.check_unique_key(&index.columns, "UNIQUE")?;
        }
        let name = name.unwrap_or_else(|| {
            names::generated(&self.next.name.table, Some(columns), "idx", &|name| self.is_relation(name))
        });
        let plain = self.new_index(name, index.columns.clone(), index.unique, false)?;
        self.add_index(RowIndex { id: plain.id, name: plain.name, ..index }, false)
    }

    /// Adds the index of a partition that belongs to an index of the partitioned table.
    /// `index`: the index with the positions of this table.
    pub(super) fn add_inherited_index(&mut self, index: RowIndex, primary: bool) -> Result<()> {
        let columns = index.columns.clone();
        if primary {
            if self.next.primary_key().is_some() {
                let text = format!("multiple primary keys for table \"{}\" are not allowed", self.next.name.table);
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
            }
            for column in &columns {
                self.set_not_null(*column);
            }
        }
        let label = match (primary, index.constraint) {
            (true, _) => "pkey",
            (false, true) => "key",
            (false, false) => "idx",
        };
        let named: Vec<usize> = columns.iter().chain(&index.include).copied().collect();
        let shown = (!primary).then(|| names::of_columns(&self.names(&named)));
        let taken = |name: &str| self.is_relation(name) || (index.constraint && self.is_constraint(name));
        let name = names::generated(&self.next.name.table, shown.as_deref(), label, &taken);
        let plain = self.new_index(name, columns, index.unique, index.constraint)?;
        self.add_index(RowIndex { id: plain.id, name: plain.name, ..index }, primary)
    }

    fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|at| self.next.columns[*at].name.clone()).collect()
    }

    fn new_index(&self, name: String, columns: Vec<usize>, unique: bool, constraint: bool) -> Result<RowIndex> {
        if columns.len() > INDEX_COLUMNS_MAX {
            let text = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, text));
        }
        for column in &columns {
            types::check_ordered(self.next.columns[*column].ty)?;
        }
        let id = self.catalog.next_id(Object::Index);
        Ok(RowIndex { id, name, columns, unique, constraint, ..RowIndex::default() })
    }

    fn add_index(&mut self, mut index: RowIndex, primary: bool) -> Result<()> {
        self.built.push(index.id);
        index.is_primary = primary && index.is_deferrable();
        if primary && !index.is_primary {
            self.next.primary = Some(index);
            return Ok(());
        }
        if self.next.secondary.len() == SECONDARY_INDEXES_MAX {
            let text = format!(
                "table \"{}\" has {SECONDARY_INDEXES_MAX} secondary indexes, which is the limit",
                self.next.name.table
            );
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        self.next.secondary.push(index);
        Ok(())
    }

    fn add_check(&mut self, name: Option<String>, condition: &Expr, attributes: ConstraintAttributes) -> Result<()> {
        let ConstraintAttributes { no_inherit, not_valid, .. } = attributes;
        if no_inherit && self.next.lineage.key.is_some() {
            let text = format!("cannot add NO INHERIT constraint to partitioned table \"{}\"", self.next.name.table);
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
        }
        if let Some(name) = &name
            && self.merged_check(name, condition, no_inherit)?
        {
            return Ok(());
        }
        let described = self.table()?;
        expressions::condition(condition, &described, self.session)?;
        let table = &self.next.name.table;
        let condition = expressions::canonical(&expressions::with_functions(condition, self.session)?, self.session)?;
        let name = match name {
            Some(name) if self.old.is_none() && self.next.checks.iter().any(|check| check.name == name) => {
                let text = format!("check constraint \"{name}\" already exists");
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
            }
            Some(name) => {
                self.check_constraint(&name)?;
                name
            }
            None => {
                let columns = stored_expressions::columns(&condition, &self.next)?;
                let only = if let [only] = columns.as_slice() { Some(self.name_of(*only)) } else { None };
                names::generated(table, only, "check", &|name| self.is_constraint(name))
            }
        };
        if !not_valid {
            self.checked.push(name.clone());
        }
        if no_inherit {
            let entry = InheritedCheck { name: name.clone(), parents: 0, local: true, no_inherit };
            self.next.lineage.checks.push(entry);
        }
        self.next.checks.push(RowCheck { name, condition, not_valid });
        Ok(())
    }

    /// Merges a CHECK constraint with an inherited one of the same name; false if there is none.
    fn merged_check(&mut self, name: &str, condition: &Expr, no_inherit: bool) -> Result<bool> {
        let Some(entry) = self.next.lineage.checks.iter_mut().find(|entry| entry.name == name && entry.parents > 0)
        else {
            return Ok(false);
        };
        let canonical = expressions::canonical(&expressions::with_functions(condition, self.session)?, self.session)?;
        let table = &self.next.name.table;
        // One that is merged already is not merged again; a partition has none of its own.
        let is_taken = self.old.is_some() && (entry.local || self.next.lineage.bound.is_some());
        if is_taken || self.next.checks.iter().any(|check| check.name == name && check.condition != canonical) {
            let text = format!("constraint \"{name}\" for relation \"{table}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
        }
        if no_inherit {
            let text = format!("constraint \"{name}\" conflicts with inherited constraint on relation \"{table}\"");
            return Err(Error::new(SqlState("42P17"), text));
        }
        entry.local = true;
        let text = format!("merging constraint \"{name}\" with inherited definition");
        self.notices.push(Notice::new(text));
        Ok(true)
    }

    fn add_foreign(
        &mut self,
        name: Option<String>,
        columns: &[String],
        key: &References,
        attributes: ConstraintAttributes,
    ) -> Result<()> {
        let parent = self.parent(&key.table)?;
        if parent.lineage.key.is_some() {
            let text = format!("a foreign key to the partitioned table \"{}\" is not supported", parent.name.table);
            return Err(Error::unsupported(text).with_hint("reference one of its partitions"));
        }
        if attributes.not_valid && self.next.lineage.key.is_some() {
            let text = format!(
                "cannot add NOT VALID foreign key on partitioned table \"{}\" referencing relation \"{}\"",
                self.next.name.table, parent.name.table
            );
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text)
                .with_detail("This feature is not yet supported on partitioned tables."));
        }
        let own = referring(columns, &self.next)?;
        let referred: Vec<String> = key.columns.iter().map(Ident::to_string).collect();
        let parent_name = &parent.name.table;
        let referred = match (referred.is_empty(), parent.primary_key()) {
            (true, Some(primary)) if primary.is_deferrable() => {
                return Err(deferrable_referred("primary key", parent_name));
            }
            (true, Some(primary)) => primary.columns.clone(),
            (true, None) => {
                let text = format!("there is no primary key for referenced table \"{parent_name}\"");
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
            }
            (false, _) => referring(&referred, &parent)?,
        };
        if referred.iter().enumerate().any(|(at, column)| referred[..at].contains(column)) {
            let text = "foreign key referenced-columns list must not contain duplicates";
            return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, text));
        }
        if !has_key(&parent, &referred) {
            if indexes(&parent).any(|index| index.is_deferrable() && is_over(index, &referred)) {
                return Err(deferrable_referred("unique constraint", parent_name));
            }
            let text =
                format!("there is no unique constraint matching given keys for referenced table \"{parent_name}\"");
            return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, text));
        }
        if own.len() != referred.len() {
            let text = "number of referencing and referenced columns for foreign key disagree";
            return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, text));
        }
        let name = match name {
            Some(name) => {
                self.check_constraint(&name)?;
                name
            }
            None => {
                let columns = names::of_columns(columns);
                names::generated(&self.next.name.table, Some(&columns), "fkey", &|name| self.is_constraint(name))
            }
        };
        let (on_delete, on_update) = (action(&key.on_delete), action(&key.on_update));
        let table = parent.id;
        let delete_columns = self.set_columns(&key.on_delete, &own)?;
        // A new table has no rows to check.
        let not_valid = attributes.not_valid && self.old.is_some();
        let (match_full, deferral) = (key.match_full, deferral(attributes));
        let key = RowForeignKey {
            name,
            columns: own,
            table,
            referred,
            on_delete,
            on_update,
            delete_columns,
            match_full,
            deferral,
            not_valid,
            check_disabled: false,
            action_disabled: false,
        };
        check_types(&key, &self.next, &parent)?;
        self.check_generated_key(&key)?;
        if !key.not_valid {
            self.checked.push(key.name.clone());
        }
        self.next.foreign_keys.push(key);
        Ok(())
    }

    /// The columns of ON DELETE SET NULL or SET DEFAULT (…), which are some of the key's; empty for all.
    fn set_columns(&self, action: &KeyAction, key: &[usize]) -> Result<Vec<usize>> {
        let (KeyAction::SetNull(columns) | KeyAction::SetDefault(columns)) = action else { return Ok(Vec::new()) };
        let names: Vec<String> = columns.iter().map(Ident::to_string).collect();
        let mut found = Vec::new();
        for at in referring(&names, &self.next)? {
            if !found.contains(&at) {
                found.push(at);
            }
        }
        match found.iter().find(|at| !key.contains(at)) {
            None => Ok(found),
            Some(at) => {
                let name = self.name_of(*at);
                let text = format!("column \"{name}\" referenced in ON DELETE SET action must be part of foreign key");
                Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, text))
            }
        }
    }

    /// ALTER CONSTRAINT: the time at which a foreign key is checked.
    pub(super) fn alter_constraint(&mut self, name: &str, attributes: ConstraintAttributes) -> Result<()> {
        if let Some(key) = self.next.foreign_keys.iter_mut().find(|key| key.name == name) {
            key.deferral = deferral(attributes);
            return Ok(());
        }
        let table = &self.next.name.table;
        if super::constraints(&self.next).any(|one| one == name) {
            let text = format!("constraint \"{name}\" of relation \"{table}\" is not a foreign key constraint");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        let text = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
        Err(Error::new(SqlState::UNDEFINED_OBJECT, text))
    }

    /// A generated column takes no value from an action.
    fn check_generated_key(&self, key: &RowForeignKey) -> Result<()> {
        if !key.columns.iter().any(|at| self.next.columns[*at].generated.is_some()) {
            return Ok(());
        }
        let sets = |action| matches!(action, Referential::SetNull | Referential::SetDefault);
        let event = match (sets(key.on_update) || key.on_update == Referential::Cascade, sets(key.on_delete)) {
            (true, _) => "UPDATE",
            (false, true) => "DELETE",
            (false, false) => return Ok(()),
        };
        let text = format!("invalid ON {event} action for foreign key constraint containing generated column");
        Err(Error::new(SqlState::SYNTAX_ERROR, text))
    }

    /// VALIDATE CONSTRAINT: checks the existing rows of a constraint that was NOT VALID.
    pub(super) fn validate(&mut self, name: &str) -> Result<()> {
        let check = self.next.checks.iter_mut().find(|check| check.name == name).map(|check| &mut check.not_valid);
        let key = self.next.foreign_keys.iter_mut().find(|key| key.name == name).map(|key| &mut key.not_valid);
        let Some(not_valid) = check.or(key) else {
            let table = &self.next.name.table;
            if super::constraints(&self.next).any(|one| one == name) {
                let text =
                    format!("constraint \"{name}\" of relation \"{table}\" is not a foreign key or check constraint");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
            }
            let text = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
        };
        if std::mem::take(not_valid) {
            self.checked.push(name.to_owned());
        }
        Ok(())
    }

    /// The referenced table, which may be this one.
    fn parent(&self, written: &ast::Name) -> Result<RowSchema> {
        let name = names::relation(written, self.catalog)?;
        // A temporary table is found before others of its name, also while it is created.
        let is_temporary = self.next.name.is_temporary() && written.qualifier.is_empty();
        if name == self.next.name || is_temporary && written.name == self.next.name.table {
            return Ok(self.next.clone());
        }
        match self.catalog.table(&name) {
            Some(table) if self.catalog.materialized_view(table.id).is_some() => {
                let text = format!("referenced relation \"{}\" is not a table", name.table);
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text))
            }
            Some(table) if name.is_temporary() != self.next.name.is_temporary() => {
                let kind = if table.name.is_temporary() { "permanent" } else { "temporary" };
                let text = format!("constraints on {kind} tables may reference only {kind} tables");
                Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text))
            }
            Some(table) => Ok(RowSchema::clone(&table)),
            None if is_taken(self.catalog, &name) => {
                let text = format!("referenced relation \"{}\" is not a rows table", name.table);
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text))
            }
            None => Err(super::no_relation(&name, written)),
        }
    }

    /// Drops a constraint; false if it does not exist.
    pub(super) fn drop_constraint(&mut self, name: &str, cascade: bool) -> Result<bool> {
        let key = indexes(&self.next).find(|index| index.constraint && index.name == name).cloned();
        if let Some(key) = key {
            match drop::parent_index(self, key.id) {
                Some(of) if of.constraint => return Err(self.inherited_constraint(name)),
                Some(of) => return Err(drop::required_by(&format!("index {}", names::quoted(name)), &of)),
                None => {}
            }
            let table = names::display_name(&self.next.name, self.catalog);
            self.drop_key(&key, &format!("constraint {name} on table {table}"), cascade)?;
            return Ok(true);
        }
        let before = self.next.checks.len() + self.next.foreign_keys.len();
        let lineage = &self.next.lineage;
        let is_inherited = lineage.check(name).is_some_and(|entry| entry.parents > 0)
            || lineage.foreign_keys.iter().any(|own| own == name);
        if is_inherited {
            return Err(self.inherited_constraint(name));
        }
        self.next.lineage.checks.retain(|entry| entry.name != name);
        self.next.checks.retain(|check| check.name != name);
        self.next.foreign_keys.retain(|key| key.name != name);
        Ok(self.next.checks.len() + self.next.foreign_keys.len() < before)
    }

    fn inherited_constraint(&self, name: &str) -> Error {
        let text = format!("cannot drop inherited constraint \"{name}\" of relation \"{}\"", self.next.name.table);
        Error::new(SqlState::INVALID_TABLE_DEFINITION, text)
    }

    /// Drops an index and, with CASCADE, foreign keys that reference its key. `what` names it in messages.
    pub(super) fn drop_key(&mut self, index: &RowIndex, what: &str, cascade: bool) -> Result<()> {
        let without = {
            let mut schema = self.next.clone();
            schema.primary.take_if(|other| other.id == index.id);
            schema.secondary.retain(|other| other.id != index.id);
            schema
        };
        if index.unique {
            let needs = |_: &RowSchema, key: &RowForeignKey| !has_key(&without, &key.referred);
            self.drop_referring(what, &format!("index {}", names::quoted(&index.name)), cascade, &needs)?;
        }
        self.next.primary.take_if(|other| other.id == index.id);
        self.next.secondary.retain(|other| other.id != index.id);
        self.next.lineage.indexes.retain(|(own, _)| *own != index.id);
        Ok(())
    }

    /// Drops foreign keys that reference this table and need the dropped object `what`; without CASCADE error
    /// 2BP01.
    pub(super) fn drop_referring(
        &mut self,
        what: &str,
        needed: &str,
        cascade: bool,
        needs: &dyn Fn(&RowSchema, &RowForeignKey) -> bool,
    ) -> Result<()> {
        let mut dependents = Vec::new();
        let own = self.next.id;
        let mut tables: Vec<RowSchema> = vec![self.next.clone()];
        for table in self.catalog.tables() {
            if table.id != own {
                tables.push(self.others.get(&table.id).unwrap_or(&table).clone());
            }
        }
        for table in tables {
            let gone: Vec<String> = table
                .foreign_keys
                .iter()
                .filter(|key| key.table == own && needs(&table, key))
                .map(|key| key.name.clone())
                .collect();
            if gone.is_empty() {
                continue;
            }
            let shown = names::display_name(&table.name, self.catalog);
            dependents.extend(gone.iter().map(|key| format!("constraint {key} on table {shown}")));
            if table.id == own {
                self.next.foreign_keys.retain(|key| !gone.contains(&key.name));
            } else {
                self.others.insert(table.id, without_keys(&table, &gone));
            }
        }
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            return Err(drop::depended(what, dependents.iter().map(|one| (one.as_str(), needed))));
        }
        self.notices.push(drop::cascades(&dependents));
        Ok(())
    }
}

/// A table without these foreign keys.
fn without_keys(table: &RowSchema, gone: &[String]) -> RowSchema {
    let mut next = RowSchema { version: table.version + 1, ..table.clone() };
    next.foreign_keys.retain(|key| !gone.contains(&key.name));
    next
}

/// Merges keys over the same columns that are checked at the same time; a primary key wins, and the first given name is
/// kept. Source: PostgreSQL's `transformIndexConstraints`.
fn distinct(keys: Vec<Key>) -> Vec<Key> {
    let mut kept: Vec<Key> = Vec::with_capacity(keys.len());
    for key in keys {
        match kept.iter_mut().find(|other| other.columns == key.columns && other.deferral == key.deferral) {
            Some(other) => other.name = other.name.take().or(key.name),
            None => kept.push(key),
        }
    }
    kept
}

/// Whether two indexes of versions of one table have the same columns.
pub(super) fn has_same_columns(one: &RowIndex, other: &RowIndex) -> bool {
    one.columns == other.columns
}

/// Whether there is a unique key of exactly these columns.
fn has_key(table: &RowSchema, columns: &[usize]) -> bool {
    indexes(table).any(|index| index.unique && index.predicate.is_none() && is_over(index, columns))
}

/// Whether the keys of an index are exactly these columns.
fn is_over(index: &RowIndex, columns: &[usize]) -> bool {
    index.columns.len() == columns.len() && index.columns.iter().all(|column| columns.contains(column))
}

/// Error 55000 for a foreign key that would reference a deferrable key. `what`: the kind of the key.
fn deferrable_referred(what: &str, table: &str) -> Error {
    let text = format!("cannot use a deferrable {what} for referenced table \"{table}\"");
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
}

/// Resolves the columns of a foreign key, on either side.
fn referring(columns: &[String], table: &RowSchema) -> Result<Vec<usize>> {
    let at = |column: &String| {
        table.column(column).ok_or_else(|| {
            let text = format!("column \"{column}\" referenced in foreign key constraint does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, text)
        })
    };
    columns.iter().map(at).collect()
}

/// Refuses a foreign key whose column types are not comparable.
pub(super) fn check_types(key: &RowForeignKey, child: &RowSchema, parent: &RowSchema) -> Result<()> {
    for (own, referred) in key.columns.iter().zip(&key.referred) {
        let (own, referred) = (&child.columns[*own], &parent.columns[*referred]);
        match refers(own.ty, referred.ty) {
            Refers::Yes => {}
            Refers::NotHere => {
                let text = format!(
                    "foreign key constraint \"{}\" from {} to {} is not supported on rows tables",
                    key.name,
                    own.ty.sql_name(),
                    referred.ty.sql_name()
                );
                return Err(Error::unsupported(text).with_hint("give both columns the same type"));
            }
            Refers::No => {
                let text = format!("foreign key constraint \"{}\" cannot be implemented", key.name);
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    own.name,
                    referred.name,
                    own.ty.sql_name(),
                    referred.ty.sql_name()
                );
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_detail(detail));
            }
        }
    }
    Ok(())
}

enum Refers {
    Yes,
    /// PostgreSQL allows it, by a comparison across types.
    NotHere,
    No,
}

/// Whether a column of one type can reference one of the other. PostgreSQL requires an equality operator of the
/// key's index, or an implicit cast to its type.
fn refers(own: Type, referred: Type) -> Refers {
    use Type::{Date, Float4, Float8, Int2, Int4, Int8, Numeric, Timestamp, Timestamptz};
    let (own, referred) = (base_type(own), base_type(referred));
    if own == referred || is_text(own) && is_text(referred) {
        return Refers::Yes;
    }
    match (own, referred) {
        (Int2 | Int4 | Int8, Int2 | Int4 | Int8 | Numeric(_) | Float4 | Float8) => Refers::Yes,
        (Numeric(_), Float4 | Float8) | (Float4, Float8) => Refers::Yes,
        (Float8, Float4) | (Date | Timestamp | Timestamptz, Date | Timestamp | Timestamptz) => Refers::NotHere,
        _ => Refers::No,
    }
}

fn action(action: &KeyAction) -> Referential {
    match action {
        KeyAction::NoAction => Referential::NoAction,
        KeyAction::Restrict => Referential::Restrict,
        KeyAction::Cascade => Referential::Cascade,
        KeyAction::SetNull(_) => Referential::SetNull,
        KeyAction::SetDefault(_) => Referential::SetDefault,
    }
}

pub(super) fn deferral(attributes: ConstraintAttributes) -> Deferral {
    match (attributes.deferrable, attributes.initially_deferred) {
        (_, Some(true)) => Deferral::Deferred,
        (Some(true), _) => Deferral::Immediate,
        _ => Deferral::Never,
    }
}
