//! ALTER of everything but tables, roles and functions.

use model::Result;

use super::{K, Parser};
use crate::ast::{
    AlterAttribute, AlterDefinition, AlterDomain, AlterDomainAction, AlterEnum, AlterEnumAction, AlterExtension,
    AlterExtensionContents, AlterOperatorFamily, AlterOwner, AlterPolicy, AlterSchema, AlterServer, AlterStatistics,
    CreateForeignDataWrapper, DropBehavior, MappingAction, Name, ObjectKind, ObjectName, Rename, RenamePart, Set,
    SetScope, Statement, UserMapping,
};

/// Actions of many kinds of objects that one kind allows.
#[derive(Clone, Copy)]
struct Shared {
    rename: bool,
    owner: bool,
    schema: bool,
}

const ALL: Shared = Shared { rename: true, owner: true, schema: true };
const NO_SCHEMA: Shared = Shared { rename: true, owner: true, schema: false };

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> Result<Statement> {
        use ObjectKind as O;
        self.need(K::Alter)?;
        let relations: [(&[K], ObjectKind); 6] = [
            (&[K::Table], O::Table),
            (&[K::Index], O::Index),
            (&[K::Sequence], O::Sequence),
            (&[K::View], O::View),
            (&[K::Materialized, K::View], O::MaterializedView),
            (&[K::Foreign, K::Table], O::ForeignTable),
        ];
        if let Some(kind) = self.opt_kind(&relations) {
            return self.alter_relation(kind);
        }
        if let Some(kind) = self.opt_function_kind() {
            return self.alter_routine(kind);
        }
        let keyword = self.keyword();
        let begin = self.at;
        self.advance();
        match keyword {
            Some(K::Role | K::User) if keyword == Some(K::User) && self.at(K::Mapping) => self.alter_user_mapping(),
            Some(K::Role | K::User) => self.alter_role(),
            Some(K::Group) => self.alter_group(),
            Some(K::Default) => self.alter_default_privileges(),
            Some(K::System) => {
                let action = if self.take(K::Set) { self.generic_set()? } else { self.generic_reset()? };
                Ok(Statement::AlterSystem(Box::new(Set { scope: SetScope::Session, action })))
            }
            Some(K::Database) => {
                let name = self.simple_name()?;
                if let Some(statement) = self.opt_shared(O::Database, &ObjectName::Name(name.clone()), NO_SCHEMA)? {
                    return Ok(statement);
                }
                self.alter_database(name.name)
            }
            Some(K::Domain) => self.alter_domain(),
            Some(K::Type) => self.alter_type(),
            Some(K::Extension) => self.alter_extension(),
            Some(K::Operator) => self.alter_operator(),
            Some(K::Collation) => {
                let name = self.any_name()?;
                if self.take(K::Refresh) {
                    self.need(K::Version)?;
                    return Ok(Statement::AlterCollationRefreshVersion(name));
                }
                self.shared(O::Collation, ObjectName::Name(name), ALL)
            }
            Some(K::Schema) => self.alter_simple(O::Schema),
            Some(K::Statistics) => self.alter_statistics(),
            Some(K::Policy) => self.alter_policy(),
            Some(K::Trigger) => {
                let object = self.name_on()?;
                if self.at_any(&[K::No, K::Depends]) {
                    return self.alter_depends(O::Trigger, object);
                }
                self.shared(O::Trigger, object, Shared { rename: true, owner: false, schema: false })
            }
            Some(K::Rule) => {
                let object = self.name_on()?;
                self.shared(O::Rule, object, Shared { rename: true, owner: false, schema: false })
            }
            Some(K::Foreign) => self.alter_foreign_data_wrapper(),
            Some(K::Server) => self.alter_server(),
            Some(K::Text) => Ok(self.unsupported_command("ALTER TEXT SEARCH")),
            Some(K::Publication) => Ok(self.unsupported_command("ALTER PUBLICATION")),
            Some(K::Subscription) => Ok(self.unsupported_command("ALTER SUBSCRIPTION")),
            Some(K::Tablespace) => Ok(self.unsupported_command("ALTER TABLESPACE")),
            Some(K::Event) => Ok(self.unsupported_command("ALTER EVENT TRIGGER")),
            Some(K::Language | K::Procedural) => Ok(self.unsupported_command("ALTER LANGUAGE")),
            Some(K::Conversion) => Ok(self.unsupported_command("ALTER CONVERSION")),
            Some(K::Large) => Ok(self.unsupported_command("ALTER LARGE OBJECT")),
            _ => {
                self.at = begin;
                Err(self.unexpected())
            }
        }
    }

    fn alter_simple(&mut self, kind: ObjectKind) -> Result<Statement> {
        let name = self.simple_name()?;
        self.shared(kind, ObjectName::Name(name), NO_SCHEMA)
    }

    /// RENAME TO, OWNER TO or SET SCHEMA, which must follow.
    fn shared(&mut self, kind: ObjectKind, object: ObjectName, allowed: Shared) -> Result<Statement> {
        match self.opt_shared(kind, &object, allowed)? {
            Some(statement) => Ok(statement),
            None => Err(self.unexpected()),
        }
    }

    fn opt_shared(&mut self, kind: ObjectKind, object: &ObjectName, allowed: Shared) -> Result<Option<Statement>> {
        let object = object.clone();
        if allowed.rename && self.at_words(&[K::Rename, K::To]) {
            self.at += 2;
            return Ok(Some(self.renamed(kind, object, None)?));
        }
        if allowed.owner && self.take(K::Owner) {
            self.need(K::To)?;
            let owner = self.role_spec()?;
            return Ok(Some(Statement::AlterOwner(Box::new(AlterOwner { kind, object, owner }))));
        }
        if allowed.schema && self.at_words(&[K::Set, K::Schema]) {
            self.at += 2;
            let schema = self.col_id()?;
            let statement = AlterSchema { kind, object, only: false, if_exists: false, schema };
            return Ok(Some(Statement::AlterSchema(Box::new(statement))));
        }
        Ok(None)
    }

    /// The new name, behind TO.
    fn renamed(&mut self, kind: ObjectKind, object: ObjectName, part: Option<RenamePart>) -> Result<Statement> {
        let to = self.col_id()?;
        let behavior = DropBehavior::Restrict;
        Ok(Statement::Rename(Box::new(Rename { kind, object, only: false, if_exists: false, part, to, behavior })))
    }

    fn alter_routine(&mut self, kind: ObjectKind) -> Result<Statement> {
        let signature = self.function_or_aggregate(kind)?;
        let object = ObjectName::Function(signature);
        if let Some(statement) = self.opt_shared(kind, &object, ALL)? {
            return Ok(statement);
        }
        if kind == ObjectKind::Aggregate {
            return Err(self.unexpected());
        }
        if self.at(K::Depends) || self.at(K::No) {
            return self.alter_depends(kind, object);
        }
        match object {
            ObjectName::Function(signature) => self.alter_function(kind, signature),
            _ => Err(self.unexpected()),
        }
    }

    fn alter_user_mapping(&mut self) -> Result<Statement> {
        self.advance();
        self.need(K::For)?;
        let user = self.auth_ident()?;
        self.need(K::Server)?;
        let server = self.col_id()?;
        let options = self.alter_generic_options()?;
        let mapping = UserMapping { action: MappingAction::Alter, if_condition: false, user, server, options };
        Ok(Statement::UserMapping(Box::new(mapping)))
    }

    fn alter_domain(&mut self) -> Result<Statement> {
        use AlterDomainAction as A;
        let name = self.any_name()?;
        let kind = ObjectKind::Domain;
        if self.at_words(&[K::Rename, K::Constraint]) {
            self.at += 2;
            let part = Some(RenamePart::Constraint(self.col_id()?));
            self.need(K::To)?;
            return self.renamed(kind, ObjectName::Name(name), part);
        }
        if let Some(statement) = self.opt_shared(kind, &ObjectName::Name(name.clone()), ALL)? {
            return Ok(statement);
        }
        let keyword = self.keyword();
        let begin = self.at;
        self.advance();
        let action = match keyword {
            Some(K::Set) if self.take(K::Default) => A::SetDefault(self.a_expr()?),
            Some(K::Drop) if self.take(K::Default) => A::DropDefault,
            Some(K::Drop) if self.take(K::Constraint) => {
                let if_exists = self.opt_if_exists();
                A::DropConstraint { if_exists, name: self.col_id()?, behavior: self.opt_drop_behavior() }
            }
            Some(K::Set | K::Drop) => {
                self.need_words(&[K::Not, K::Null])?;
                if keyword == Some(K::Set) { A::SetNotNull } else { A::DropNotNull }
            }
            Some(K::Add) => A::AddConstraint(self.table_constraint()?),
            Some(K::Validate) => {
                self.need(K::Constraint)?;
                A::ValidateConstraint(self.col_id()?)
            }
            _ => {
                self.at = begin;
                return Err(self.unexpected());
            }
        };
        Ok(Statement::AlterDomain(Box::new(AlterDomain { name, action })))
    }

    fn alter_type(&mut self) -> Result<Statement> {
        let name = self.any_name()?;
        let kind = ObjectKind::Type;
        if self.at_words(&[K::Rename, K::Attribute]) {
            self.at += 2;
            let part = Some(RenamePart::Attribute(self.col_id()?));
            self.need(K::To)?;
            let to = self.col_id()?;
            let (object, behavior) = (ObjectName::Name(name), self.opt_drop_behavior());
            let rename = Rename { kind, object, only: false, if_exists: false, part, to, behavior };
            return Ok(Statement::Rename(Box::new(rename)));
        }
        if self.take_words(&[K::Rename, K::Value]) {
            let from = self.string()?;
            self.need(K::To)?;
            let action = AlterEnumAction::Rename { from, to: self.string()? };
            return Ok(Statement::AlterEnum(Box::new(AlterEnum { name, action })));
        }
        if self.take_words(&[K::Add, K::Value]) {
            let if_not_exists = self.opt_if_not_exists();
            let label = self.string()?;
            let beside = match self.keyword() {
                Some(K::Before | K::After) => {
                    let after = self.at(K::After);
                    self.advance();
                    Some((self.string()?, after))
                }
                _ => None,
            };
            let action = AlterEnumAction::Add { label, if_not_exists, beside };
            return Ok(Statement::AlterEnum(Box::new(AlterEnum { name, action })));
        }
        let object = ObjectName::Name(name);
        if let Some(statement) = self.opt_shared(kind, &object, ALL)? {
            return Ok(statement);
        }
        if self.take(K::Set) {
            let options = self.definition()?;
            return Ok(Statement::AlterType(Box::new(AlterDefinition { object, options, attributes: Vec::new() })));
        }
        let attributes = self.list(Self::alter_attribute)?;
        Ok(Statement::AlterType(Box::new(AlterDefinition { object, options: Vec::new(), attributes })))
    }

    fn alter_attribute(&mut self) -> Result<AlterAttribute> {
        let keyword = self.keyword();
        if !matches!(keyword, Some(K::Add | K::Drop | K::Alter)) {
            return Err(self.unexpected());
        }
        self.advance();
        self.need(K::Attribute)?;
        Ok(match keyword {
            Some(K::Add) => {
                let attribute = self.column_definition()?;
                AlterAttribute::Add(attribute, self.opt_drop_behavior())
            }
            Some(K::Drop) => {
                let if_exists = self.opt_if_exists();
                AlterAttribute::Drop { if_exists, name: self.col_id()?, behavior: self.opt_drop_behavior() }
            }
            _ => {
                let name = self.col_id()?;
                if self.take(K::Set) {
                    self.need(K::Data)?;
                }
                self.need(K::Type)?;
                let ty = self.type_name()?;
                let collation = self.opt_collate()?;
                AlterAttribute::Alter { name, ty, collation, behavior: self.opt_drop_behavior() }
            }
        })
    }

    fn alter_extension(&mut self) -> Result<Statement> {
        let name = self.simple_name()?;
        if self.take(K::Update) {
            let mut versions = Vec::new();
            while self.take(K::To) {
                versions.push(self.non_reserved_word_or_string()?);
            }
            return Ok(Statement::AlterExtension(Box::new(AlterExtension { name: name.name, versions })));
        }
        if self.at_any(&[K::Add, K::Drop]) {
            let add = self.at(K::Add);
            self.advance();
            let (kind, object) = self.object()?;
            let contents = AlterExtensionContents { name: name.name, add, kind, object };
            return Ok(Statement::AlterExtensionContents(Box::new(contents)));
        }
        let allowed = Shared { rename: false, owner: false, schema: true };
        self.shared(ObjectKind::Extension, ObjectName::Name(name), allowed)
    }

    fn alter_operator(&mut self) -> Result<Statement> {
        if let Some(kind) = self.opt_operator_group() {
            let object = self.name_using()?;
            if let Some(statement) = self.opt_shared(kind, &object, ALL)? {
                return Ok(statement);
            }
            return match object {
                ObjectName::Using(name, method) if kind == ObjectKind::OperatorFamily => {
                    self.alter_operator_family(name, method)
                }
                _ => Err(self.unexpected()),
            };
        }
        let object = ObjectName::Operator(self.operator_signature()?);
        let allowed = Shared { rename: false, ..ALL };
        if let Some(statement) = self.opt_shared(ObjectKind::Operator, &object, allowed)? {
            return Ok(statement);
        }
        self.need(K::Set)?;
        let options = self.definition()?;
        Ok(Statement::AlterOperator(Box::new(AlterDefinition { object, options, attributes: Vec::new() })))
    }

    fn alter_operator_family(&mut self, name: Name, method: crate::ast::Ident) -> Result<Statement> {
        let (mut add, mut drop) = (Vec::new(), Vec::new());
        if self.take(K::Add) {
            add = self.list(Self::operator_class_item)?;
        } else {
            self.need(K::Drop)?;
            drop = self.list(|parser| {
                let is_operator = parser.take(K::Operator);
                if !is_operator {
                    parser.need(K::Function)?;
                }
                let number = parser.integer()?;
                Ok((is_operator, number, parser.paren_list(Self::type_name)?))
            })?;
        }
        Ok(Statement::AlterOperatorFamily(Box::new(AlterOperatorFamily { name, method, add, drop })))
    }

    fn alter_statistics(&mut self) -> Result<Statement> {
        let if_exists = self.opt_if_exists();
        let name = self.any_name()?;
        if !if_exists
            && let Some(statement) = self.opt_shared(ObjectKind::Statistics, &ObjectName::Name(name.clone()), ALL)?
        {
            return Ok(statement);
        }
        self.need_words(&[K::Set, K::Statistics])?;
        let target = self.signed_integer()?;
        Ok(Statement::AlterStatistics(Box::new(AlterStatistics { name, if_exists, target })))
    }

    fn alter_policy(&mut self) -> Result<Statement> {
        let if_exists = self.opt_if_exists();
        let name = self.col_id()?;
        self.need(K::On)?;
        let table = self.qualified_name()?;
        if if_exists || self.at(K::Rename) {
            self.need_words(&[K::Rename, K::To])?;
            let to = self.col_id()?;
            return Ok(Statement::Rename(Box::new(Rename {
                kind: ObjectKind::Policy,
                object: ObjectName::On(name, table),
                only: false,
                if_exists,
                part: None,
                to,
                behavior: DropBehavior::Restrict,
            })));
        }
        let roles = if self.take(K::To) { self.role_list()? } else { Vec::new() };
        let (using, check) = self.policy_conditions()?;
        Ok(Statement::AlterPolicy(Box::new(AlterPolicy { name, table, roles, using, check })))
    }

    fn alter_foreign_data_wrapper(&mut self) -> Result<Statement> {
        self.need_words(&[K::Data, K::Wrapper])?;
        let name = self.simple_name()?;
        let kind = ObjectKind::ForeignDataWrapper;
        if let Some(statement) = self.opt_shared(kind, &ObjectName::Name(name.clone()), NO_SCHEMA)? {
            return Ok(statement);
        }
        let functions = self.wrapper_functions()?;
        let options =
            if functions.is_empty() || self.at(K::Options) { self.alter_generic_options()? } else { Vec::new() };
        let wrapper = CreateForeignDataWrapper { name: name.name, functions, options };
        Ok(Statement::AlterForeignDataWrapper(Box::new(wrapper)))
    }

    fn alter_server(&mut self) -> Result<Statement> {
        let name = self.simple_name()?;
        if let Some(statement) = self.opt_shared(ObjectKind::Server, &ObjectName::Name(name.clone()), NO_SCHEMA)? {
            return Ok(statement);
        }
        let version = self.opt_server_version()?;
        let options = if version.is_none() || self.at(K::Options) { self.alter_generic_options()? } else { Vec::new() };
        Ok(Statement::AlterServer(Box::new(AlterServer { name: name.name, version, options })))
    }
}
