//! ALTER TABLE, INDEX, SEQUENCE, VIEW, MATERIALIZED VIEW and FOREIGN TABLE.

use model::{Result, SqlState};

use super::{K, Parser, T};
use crate::ast::{
    AlterDepends, AlterSchema, AlterSequence, AlterTable, AlterTableAction, AlterTableSpaceAll, ColumnRef, DetachMode,
    DropBehavior, Firing, Ident, Name, ObjectKind, ObjectName, Rename, RenamePart, ReplicaIdentity, SequenceOption,
    Statement, TriggerName,
};

type A = AlterTableAction;

impl Parser<'_> {
    /// Behind ALTER and the words of the kind.
    pub(super) fn alter_relation(&mut self, kind: ObjectKind) -> Result<Statement> {
        use ObjectKind as O;
        let may_move = matches!(kind, O::Table | O::Index | O::MaterializedView);
        if may_move && self.at_words(&[K::All, K::In, K::Tablespace]) {
            return self.alter_all_in_tablespace(kind);
        }
        let if_exists = self.opt_if_exists();
        let (name, only) = if matches!(kind, O::Table | O::ForeignTable) {
            self.relation_name()?
        } else {
            (self.qualified_name()?, false)
        };
        match self.keyword() {
            Some(K::Rename) => return self.rename_relation(kind, name, only, if_exists),
            Some(K::Set) if self.keyword_at(1) == Some(K::Schema) => {
                self.at += 2;
                let object = ObjectName::Name(name);
                let schema = self.col_id()?;
                let statement = AlterSchema { kind, object, only, if_exists, schema };
                return Ok(Statement::AlterSchema(Box::new(statement)));
            }
            Some(K::No | K::Depends) if matches!(kind, O::MaterializedView | O::Index) && !if_exists => {
                let is_depends = self.at(K::Depends) || self.keyword_at(1) == Some(K::Depends);
                if is_depends {
                    return self.alter_depends(kind, ObjectName::Name(name));
                }
            }
            _ => {}
        }
        // Actions of tables are taken of sequences too, and RESTART stands in both.
        if kind == O::Sequence && self.at_sequence_option() {
            let options = self.sequence_options()?;
            return Ok(Statement::AlterSequence(Box::new(AlterSequence { name, if_exists, options })));
        }
        let actions = match self.opt_partition_action(kind)? {
            Some(action) => vec![action],
            None => self.list(Self::alter_table_action)?,
        };
        Ok(Statement::AlterTable(Box::new(AlterTable { kind, name, only, if_exists, actions })))
    }

    fn at_sequence_option(&self) -> bool {
        match self.keyword() {
            Some(K::Owned) => true,
            Some(K::No) => matches!(self.keyword_at(1), Some(K::Cycle | K::Maxvalue | K::Minvalue)),
            Some(
                K::As
                | K::Cache
                | K::Cycle
                | K::Increment
                | K::Logged
                | K::Unlogged
                | K::Maxvalue
                | K::Minvalue
                | K::Sequence
                | K::Start
                | K::Restart,
            ) => true,
            _ => false,
        }
    }

    fn alter_all_in_tablespace(&mut self, kind: ObjectKind) -> Result<Statement> {
        self.at += 3;
        let from = self.col_id()?;
        let owners = if self.take_words(&[K::Owned, K::By]) { self.role_list()? } else { Vec::new() };
        self.need_words(&[K::Set, K::Tablespace])?;
        let to = self.col_id()?;
        let nowait = self.take(K::Nowait);
        Ok(Statement::AlterTableSpaceAll(Box::new(AlterTableSpaceAll { kind, from, owners, to, nowait })))
    }

    fn rename_relation(&mut self, kind: ObjectKind, name: Name, only: bool, if_exists: bool) -> Result<Statement> {
        use ObjectKind as O;
        self.advance();
        let has_columns = matches!(kind, O::Table | O::View | O::MaterializedView | O::ForeignTable);
        let part = if self.take(K::To) {
            None
        } else if kind == O::Table && self.at(K::Constraint) {
            self.advance();
            Some(RenamePart::Constraint(self.col_id()?))
        } else if has_columns {
            self.take(K::Column);
            Some(RenamePart::Column(self.col_id()?))
        } else {
            return Err(self.unexpected());
        };
        if part.is_some() {
            self.need(K::To)?;
        }
        let to = self.col_id()?;
        let object = ObjectName::Name(name);
        let behavior = DropBehavior::Restrict;
        Ok(Statement::Rename(Box::new(Rename { kind, object, only, if_exists, part, to, behavior })))
    }

    pub(super) fn alter_depends(&mut self, kind: ObjectKind, object: ObjectName) -> Result<Statement> {
        let remove = self.take(K::No);
        self.need_words(&[K::Depends, K::On, K::Extension])?;
        let extension = self.col_id()?;
        Ok(Statement::AlterDepends(Box::new(AlterDepends { kind, object, remove, extension })))
    }

    /// ATTACH and DETACH PARTITION, which stand alone.
    fn opt_partition_action(&mut self, kind: ObjectKind) -> Result<Option<A>> {
        let is_index = kind == ObjectKind::Index;
        if !is_index && kind != ObjectKind::Table {
            return Ok(None);
        }
        if self.take(K::Attach) {
            self.need(K::Partition)?;
            let name = self.qualified_name()?;
            let bound = if is_index { None } else { Some(self.partition_bound()?) };
            return Ok(Some(A::AttachPartition { name, bound }));
        }
        if is_index || !self.take(K::Detach) {
            return Ok(None);
        }
        self.need(K::Partition)?;
        let name = self.qualified_name()?;
        let mode = match self.keyword() {
            Some(K::Concurrently) => self.taken(DetachMode::Concurrently),
            Some(K::Finalize) => self.taken(DetachMode::Finalize),
            _ => DetachMode::Plain,
        };
        Ok(Some(A::DetachPartition { name, mode }))
    }

    fn alter_table_action(&mut self) -> Result<A> {
        let keyword = self.keyword();
        if keyword == Some(K::Options) {
            return Ok(A::GenericOptions(self.alter_generic_options()?));
        }
        let begin = self.at;
        self.advance();
        Ok(match keyword {
            Some(K::Add) => self.add_action()?,
            Some(K::Drop) => self.drop_action()?,
            Some(K::Alter) => self.alter_action()?,
            Some(K::Set) => self.set_action()?,
            Some(K::Reset) => A::ResetOptions(self.rel_options()?),
            Some(K::Validate) => {
                self.need(K::Constraint)?;
                A::ValidateConstraint(self.col_id()?)
            }
            Some(K::Cluster) => {
                self.need(K::On)?;
                A::ClusterOn(self.col_id()?)
            }
            Some(K::Enable) => self.enable_action()?,
            Some(K::Disable) => self.disable_action()?,
            Some(K::Inherit) => A::Inherit(self.qualified_name()?),
            Some(K::No) => {
                if self.take(K::Force) {
                    self.row_level_security()?;
                    A::NoForceRowSecurity
                } else {
                    self.need(K::Inherit)?;
                    A::NoInherit(self.qualified_name()?)
                }
            }
            Some(K::Of) => A::Of(self.any_name()?),
            Some(K::Not) => {
                self.need(K::Of)?;
                A::NotOf
            }
            Some(K::Owner) => {
                self.need(K::To)?;
                A::OwnerTo(self.role_spec()?)
            }
            Some(K::Replica) => self.replica_identity()?,
            Some(K::Force) => {
                self.row_level_security()?;
                A::ForceRowSecurity
            }
            _ => {
                self.at = begin;
                return Err(self.unexpected());
            }
        })
    }

    fn row_level_security(&mut self) -> Result<()> {
        self.need_words(&[K::Row, K::Level, K::Security])
    }

    fn add_action(&mut self) -> Result<A> {
        if self.at_table_constraint() {
            return Ok(A::AddConstraint(Box::new(self.table_constraint()?)));
        }
        self.take(K::Column);
        let if_not_exists = self.opt_if_not_exists();
        Ok(A::AddColumn { column: Box::new(self.column_def()?), if_not_exists })
    }

    fn drop_action(&mut self) -> Result<A> {
        let is_constraint = self.take(K::Constraint);
        if !is_constraint {
            self.take(K::Column);
        }
        let if_exists = self.opt_if_exists();
        let name = self.col_id()?;
        let behavior = self.opt_drop_behavior();
        Ok(if is_constraint {
            A::DropConstraint { name, if_exists, behavior }
        } else {
            A::DropColumn { name, if_exists, behavior }
        })
    }

    fn alter_action(&mut self) -> Result<A> {
        if self.take(K::Constraint) {
            let name = self.col_id()?;
            return Ok(A::AlterConstraint { name, attributes: self.deferrable_attributes("FOREIGN KEY")? });
        }
        self.take(K::Column);
        if self.kind() == T::Integer {
            let at = self.pos();
            let number = self.integer()?;
            if !(1..=i32::from(i16::MAX)).contains(&number) {
                let message = format!("column number must be in range from 1 to {}", i16::MAX);
                return Err(self.error_of(SqlState::INVALID_PARAMETER_VALUE, message, at));
            }
            self.need_words(&[K::Set, K::Statistics])?;
            return Ok(A::SetStatistics { column: ColumnRef::Number(number), value: self.signed_integer()? });
        }
        let at = self.pos();
        let column = self.col_id()?;
        match self.keyword() {
            Some(K::Type) => self.alter_column_type(column, at),
            Some(K::Set) if self.keyword_at(1) == Some(K::Data) => {
                self.at += 2;
                self.alter_column_type(column, at)
            }
            Some(K::Set | K::Restart) => self.set_column(column),
            Some(K::Drop) => self.drop_of_column(column),
            Some(K::Reset) => {
                self.advance();
                Ok(A::ResetColumnOptions { column, options: self.rel_options()? })
            }
            Some(K::Add) => {
                self.advance();
                self.need(K::Generated)?;
                let always = self.generated_when()?;
                self.need_words(&[K::As, K::Identity])?;
                Ok(A::AddIdentity { column, always, options: self.opt_paren_sequence_options()? })
            }
            Some(K::Options) => Ok(A::AlterColumnGenericOptions { column, options: self.alter_generic_options()? }),
            _ => Err(self.unexpected()),
        }
    }

    fn alter_column_type(&mut self, column: Ident, at: crate::ast::Pos) -> Result<A> {
        self.need(K::Type)?;
        let ty = self.type_name()?;
        let collation = self.opt_collate()?;
        let using = if self.take(K::Using) { Some(self.a_expr()?) } else { None };
        Ok(A::AlterColumnType { column, ty, collation, using, at })
    }

    /// `SET …` of a column: many things, and among them options of its identity sequence.
    fn set_column(&mut self, column: Ident) -> Result<A> {
        if self.at(K::Set) {
            let begin = self.at;
            self.advance();
            match self.keyword() {
                Some(K::Default) => {
                    self.advance();
                    return Ok(A::SetDefault { column, expr: self.a_expr()? });
                }
                Some(K::Not) => {
                    self.advance();
                    self.need(K::Null)?;
                    return Ok(A::SetNotNull(column));
                }
                Some(K::Statistics) => {
                    self.advance();
                    let value = self.signed_integer()?;
                    return Ok(A::SetStatistics { column: ColumnRef::Name(column), value });
                }
                Some(K::Storage) => {
                    self.advance();
                    return Ok(A::SetStorage { column, storage: self.col_id()? });
                }
                Some(K::Compression) => return Ok(A::SetCompression { column, method: self.compression()? }),
                None if self.kind() == T::LeftParen => {
                    return Ok(A::SetColumnOptions { column, options: self.rel_options()? });
                }
                _ => self.at = begin,
            }
        }
        let mut options = Vec::new();
        while self.at_any(&[K::Set, K::Restart]) {
            options.push(self.identity_option()?);
        }
        Ok(A::SetIdentity { column, options })
    }

    fn identity_option(&mut self) -> Result<SequenceOption> {
        if self.take(K::Restart) {
            let has_value = self.take(K::With) || self.at_numeric();
            return Ok(SequenceOption::Restart(if has_value { Some(self.numeric()?) } else { None }));
        }
        self.advance();
        if self.take(K::Generated) {
            return Ok(SequenceOption::Generated { always: self.generated_when()? });
        }
        let at = self.pos();
        let option = self.opt_sequence_option()?.ok_or_else(|| self.unexpected())?;
        let refused = match option {
            SequenceOption::As(_) => "as",
            SequenceOption::Restart(_) => "restart",
            SequenceOption::OwnedBy(_) => "owned_by",
            _ => return Ok(option),
        };
        Err(self.error(format!("sequence option \"{refused}\" not supported here"), at))
    }

    fn drop_of_column(&mut self, column: Ident) -> Result<A> {
        self.advance();
        let (begin, keyword) = (self.at, self.keyword());
        self.advance();
        Ok(match keyword {
            Some(K::Default) => A::DropDefault(column),
            Some(K::Not) => {
                self.need(K::Null)?;
                A::DropNotNull(column)
            }
            Some(K::Expression) => A::DropExpression { column, if_exists: self.opt_if_exists() },
            Some(K::Identity) => A::DropIdentity { column, if_exists: self.opt_if_exists() },
            _ => {
                self.at = begin;
                return Err(self.unexpected());
            }
        })
    }

    fn set_action(&mut self) -> Result<A> {
        if self.kind() == T::LeftParen {
            return Ok(A::SetOptions(self.rel_options()?));
        }
        let keyword = self.keyword();
        match keyword {
            Some(K::Without) => {
                self.advance();
                if self.take(K::Oids) {
                    return Ok(A::SetWithoutOids);
                }
                self.need(K::Cluster)?;
                Ok(A::SetWithoutCluster)
            }
            Some(K::Logged) => Ok(self.taken(A::SetLogged)),
            Some(K::Unlogged) => Ok(self.taken(A::SetUnlogged)),
            Some(K::Access) => {
                self.advance();
                self.need(K::Method)?;
                Ok(A::SetAccessMethod(self.col_id()?))
            }
            Some(K::Tablespace) => {
                self.advance();
                Ok(A::SetTablespace(self.col_id()?))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn enable_action(&mut self) -> Result<A> {
        let firing = match self.keyword() {
            Some(K::Always) => self.taken(Firing::Always),
            Some(K::Replica) => self.taken(Firing::Replica),
            Some(K::Row) => {
                self.row_level_security()?;
                return Ok(A::EnableRowSecurity);
            }
            _ => Firing::Origin,
        };
        if self.take(K::Rule) {
            return Ok(A::EnableRule { name: self.col_id()?, firing });
        }
        self.need(K::Trigger)?;
        let name = if firing == Firing::Origin { self.trigger_name()? } else { TriggerName::Name(self.col_id()?) };
        Ok(A::EnableTrigger { name, firing })
    }

    fn disable_action(&mut self) -> Result<A> {
        if self.at(K::Row) {
            self.row_level_security()?;
            return Ok(A::DisableRowSecurity);
        }
        if self.take(K::Rule) {
            return Ok(A::DisableRule(self.col_id()?));
        }
        self.need(K::Trigger)?;
        Ok(A::DisableTrigger(self.trigger_name()?))
    }

    fn trigger_name(&mut self) -> Result<TriggerName> {
        match self.keyword() {
            Some(K::All) => Ok(self.taken(TriggerName::All)),
            Some(K::User) => Ok(self.taken(TriggerName::User)),
            _ => Ok(TriggerName::Name(self.col_id()?)),
        }
    }

    fn replica_identity(&mut self) -> Result<A> {
        self.need(K::Identity)?;
        let identity = match self.keyword() {
            Some(K::Nothing) => self.taken(ReplicaIdentity::Nothing),
            Some(K::Full) => self.taken(ReplicaIdentity::Full),
            Some(K::Default) => self.taken(ReplicaIdentity::Default),
            _ => {
                self.need_words(&[K::Using, K::Index])?;
                ReplicaIdentity::Index(self.col_id()?)
            }
        };
        Ok(A::ReplicaIdentity(identity))
    }
}
