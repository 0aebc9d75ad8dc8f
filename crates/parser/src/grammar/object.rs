//! Commands on objects of any kind: DROP, COMMENT, SECURITY LABEL, GRANT and REVOKE.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    AlterDefaultPrivileges, Comment, Drop, DropBehavior, DropDatabase, DropOwned, DropRole, FunctionParameter,
    FunctionSignature, Grant, GrantRole, GrantTarget, Ident, MappingAction, Name, ObjectKind, ObjectName,
    OperatorSignature, Privilege, Privileges, ReassignOwned, RoleSpec, SecurityLabel, Statement, UserMapping,
};

/// Kinds whose objects are named by any name, with their words.
const ANY_NAME_KINDS: &[(&[K], ObjectKind)] = &[
    (&[K::Table], ObjectKind::Table),
    (&[K::Sequence], ObjectKind::Sequence),
    (&[K::View], ObjectKind::View),
    (&[K::Materialized, K::View], ObjectKind::MaterializedView),
    (&[K::Index], ObjectKind::Index),
    (&[K::Foreign, K::Table], ObjectKind::ForeignTable),
    (&[K::Collation], ObjectKind::Collation),
    (&[K::Conversion], ObjectKind::Conversion),
    (&[K::Statistics], ObjectKind::Statistics),
    (&[K::Text, K::Search, K::Parser], ObjectKind::TextSearchParser),
    (&[K::Text, K::Search, K::Dictionary], ObjectKind::TextSearchDictionary),
    (&[K::Text, K::Search, K::Template], ObjectKind::TextSearchTemplate),
    (&[K::Text, K::Search, K::Configuration], ObjectKind::TextSearchConfiguration),
];

/// Kinds whose objects have simple names and are dropped as others.
const NAME_KINDS: &[(&[K], ObjectKind)] = &[
    (&[K::Access, K::Method], ObjectKind::AccessMethod),
    (&[K::Event, K::Trigger], ObjectKind::EventTrigger),
    (&[K::Extension], ObjectKind::Extension),
    (&[K::Foreign, K::Data, K::Wrapper], ObjectKind::ForeignDataWrapper),
    (&[K::Procedural, K::Language], ObjectKind::Language),
    (&[K::Language], ObjectKind::Language),
    (&[K::Publication], ObjectKind::Publication),
    (&[K::Schema], ObjectKind::Schema),
    (&[K::Server], ObjectKind::Server),
];

/// Further kinds with simple names.
const OTHER_NAME_KINDS: &[(&[K], ObjectKind)] = &[
    (&[K::Database], ObjectKind::Database),
    (&[K::Role], ObjectKind::Role),
    (&[K::Subscription], ObjectKind::Subscription),
    (&[K::Tablespace], ObjectKind::Tablespace),
];

/// Kinds whose objects are a relation's.
const ON_KINDS: &[(&[K], ObjectKind)] =
    &[(&[K::Policy], ObjectKind::Policy), (&[K::Rule], ObjectKind::Rule), (&[K::Trigger], ObjectKind::Trigger)];

const FUNCTION_KINDS: &[(&[K], ObjectKind)] = &[
    (&[K::Function], ObjectKind::Function),
    (&[K::Procedure], ObjectKind::Procedure),
    (&[K::Routine], ObjectKind::Routine),
    (&[K::Aggregate], ObjectKind::Aggregate),
];

impl Parser<'_> {
    /// The kind whose words are next; takes them.
    pub(super) fn opt_kind(&mut self, kinds: &[(&[K], ObjectKind)]) -> Option<ObjectKind> {
        let (words, kind) = kinds.iter().find(|(words, _)| self.at_words(words))?;
        self.at += words.len();
        Some(*kind)
    }

    pub(super) fn opt_any_name_kind(&mut self) -> Option<ObjectKind> {
        self.opt_kind(ANY_NAME_KINDS)
    }

    pub(super) fn opt_function_kind(&mut self) -> Option<ObjectKind> {
        self.opt_kind(FUNCTION_KINDS)
    }

    /// A name without qualifier.
    pub(super) fn simple_name(&mut self) -> Result<Name> {
        let at = self.pos();
        Ok(Name { qualifier: Box::default(), name: self.col_id()?, at })
    }

    pub(super) fn drop_statement(&mut self) -> Result<Statement> {
        self.advance();
        match self.keyword() {
            Some(K::Role | K::Group) => return self.drop_role(),
            Some(K::User) if self.keyword_at(1) == Some(K::Mapping) => return self.drop_user_mapping(),
            Some(K::User) => return self.drop_role(),
            Some(K::Database) => return self.drop_database(),
            Some(K::Owned) => {
                self.advance();
                self.need(K::By)?;
                let roles = self.role_list()?;
                let behavior = self.opt_drop_behavior();
                return Ok(Statement::DropOwned(Box::new(DropOwned { roles, behavior })));
            }
            Some(K::Subscription) => return Ok(self.unsupported_command("DROP SUBSCRIPTION")),
            Some(K::Tablespace) => return Ok(self.unsupported_command("DROP TABLESPACE")),
            Some(K::Transform) => return Ok(self.unsupported_command("DROP TRANSFORM")),
            _ => {}
        }
        let (kind, if_exists, concurrently, objects);
        if let Some(found) = self.opt_any_name_kind() {
            kind = found;
            concurrently = kind == ObjectKind::Index && self.take(K::Concurrently);
            if_exists = self.opt_if_exists();
            objects = self.list(|parser| Ok(ObjectName::Name(parser.any_name()?)))?;
        } else if let Some(found) = self.opt_kind(NAME_KINDS) {
            (kind, concurrently, if_exists) = (found, false, self.opt_if_exists());
            objects = self.list(|parser| Ok(ObjectName::Name(parser.simple_name()?)))?;
        } else {
            concurrently = false;
            (kind, if_exists, objects) = self.drop_others()?;
        }
        let behavior = self.opt_drop_behavior();
        Ok(Statement::Drop(Box::new(Drop { kind, objects, if_exists, concurrently, behavior })))
    }

    fn drop_others(&mut self) -> Result<(ObjectKind, bool, Vec<ObjectName>)> {
        if let Some(kind) = self.opt_kind(ON_KINDS) {
            let if_exists = self.opt_if_exists();
            return Ok((kind, if_exists, vec![self.name_on()?]));
        }
        if let Some(kind) = self.opt_function_kind() {
            let if_exists = self.opt_if_exists();
            let objects = self.list(|parser| Ok(ObjectName::Function(parser.function_or_aggregate(kind)?)))?;
            return Ok((kind, if_exists, objects));
        }
        let keyword = self.keyword();
        match keyword {
            Some(K::Type | K::Domain) => {
                self.advance();
                let kind = if keyword == Some(K::Type) { ObjectKind::Type } else { ObjectKind::Domain };
                let if_exists = self.opt_if_exists();
                Ok((kind, if_exists, self.list(|parser| Ok(ObjectName::Type(parser.type_name()?)))?))
            }
            Some(K::Cast) => {
                self.advance();
                let if_exists = self.opt_if_exists();
                Ok((ObjectKind::Cast, if_exists, vec![self.cast_name()?]))
            }
            Some(K::Operator) => {
                self.advance();
                if let Some(kind) = self.opt_operator_group() {
                    let if_exists = self.opt_if_exists();
                    return Ok((kind, if_exists, vec![self.name_using()?]));
                }
                let if_exists = self.opt_if_exists();
                let objects = self.list(|parser| Ok(ObjectName::Operator(parser.operator_signature()?)))?;
                Ok((ObjectKind::Operator, if_exists, objects))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// CLASS or FAMILY behind OPERATOR.
    pub(super) fn opt_operator_group(&mut self) -> Option<ObjectKind> {
        // An operator's schema may have that name.
        if self.peek_at(1).kind == T::Dot && self.at_any(&[K::Class, K::Family]) {
            let is_operator = self.peek_at(2).kind != T::Word;
            if is_operator {
                return None;
            }
        }
        self.opt_kind(&[(&[K::Class], ObjectKind::OperatorClass), (&[K::Family], ObjectKind::OperatorFamily)])
    }

    /// `name ON relation`
    pub(super) fn name_on(&mut self) -> Result<ObjectName> {
        let name = self.col_id()?;
        self.need(K::On)?;
        Ok(ObjectName::On(name, self.any_name()?))
    }

    /// `name USING method`
    pub(super) fn name_using(&mut self) -> Result<ObjectName> {
        let name = self.any_name()?;
        self.need(K::Using)?;
        Ok(ObjectName::Using(name, self.col_id()?))
    }

    fn cast_name(&mut self) -> Result<ObjectName> {
        self.in_parens(|parser| {
            let from = parser.type_name()?;
            parser.need(K::As)?;
            Ok(ObjectName::Cast(from, parser.type_name()?))
        })
    }

    pub(super) fn function_or_aggregate(&mut self, kind: ObjectKind) -> Result<FunctionSignature> {
        if kind == ObjectKind::Aggregate { self.aggregate_signature() } else { self.function_signature() }
    }

    /// A function by its name and maybe the types of its parameters.
    pub(super) fn function_signature(&mut self) -> Result<FunctionSignature> {
        let token = self.peek();
        let at = self.pos();
        let name = if Self::is_col_id(token) {
            self.any_name()?
        } else {
            Name { qualifier: Box::default(), name: self.type_function_name()?, at }
        };
        let args = match self.kind() {
            T::LeftParen if name.qualifier.is_empty() && !Self::is_type_function_name(token) => {
                return Err(self.unexpected());
            }
            T::LeftParen => Some(self.function_args()?),
            _ => None,
        };
        Ok(FunctionSignature { name, args, star: false, direct_args: None })
    }

    fn function_args(&mut self) -> Result<Vec<FunctionParameter>> {
        self.expect(T::LeftParen)?;
        if self.eat(T::RightParen) {
            return Ok(Vec::new());
        }
        let args = self.list(Self::function_parameter)?;
        self.expect(T::RightParen)?;
        Ok(args)
    }

    pub(super) fn aggregate_signature(&mut self) -> Result<FunctionSignature> {
        let name = self.func_name()?;
        self.aggregate_args(name)
    }

    pub(super) fn aggregate_args(&mut self, name: Name) -> Result<FunctionSignature> {
        self.expect(T::LeftParen)?;
        let mut signature = FunctionSignature { name, args: Some(Vec::new()), star: false, direct_args: None };
        if self.eat(T::Star) {
            signature.star = true;
        } else {
            let mut args = Vec::new();
            if !self.at(K::Order) {
                args = self.list(Self::aggregate_parameter)?;
            }
            if self.take(K::Order) {
                self.need(K::By)?;
                signature.direct_args = Some(args.len());
                args.extend(self.list(Self::aggregate_parameter)?);
            }
            signature.args = Some(args);
        }
        self.expect(T::RightParen)?;
        Ok(signature)
    }

    fn aggregate_parameter(&mut self) -> Result<FunctionParameter> {
        use crate::ast::ParameterMode as M;
        let at = self.pos();
        let parameter = self.function_parameter()?;
        if matches!(parameter.mode, M::Out | M::InOut) {
            return Err(self.unsupported("aggregates cannot have output arguments", at));
        }
        Ok(parameter)
    }

    pub(super) fn operator_signature(&mut self) -> Result<OperatorSignature> {
        let name = self.any_operator()?;
        let (left, right) = self.operator_types()?;
        Ok(OperatorSignature { name, left, right })
    }

    pub(super) fn operator_types(&mut self) -> Result<(Option<crate::ast::TypeName>, Option<crate::ast::TypeName>)> {
        self.in_parens(|parser| {
            if parser.take(K::None) {
                parser.expect(T::Comma)?;
                return Ok((None, Some(parser.type_name()?)));
            }
            let left = parser.type_name()?;
            if parser.kind() == T::RightParen {
                return Err(parser
                    .error("missing argument", parser.pos())
                    .with_hint("Use NONE to denote the missing argument of a unary operator."));
            }
            parser.expect(T::Comma)?;
            if parser.take(K::None) {
                return Ok((Some(left), None));
            }
            Ok((Some(left), Some(parser.type_name()?)))
        })
    }

    fn drop_role(&mut self) -> Result<Statement> {
        self.advance();
        let if_exists = self.opt_if_exists();
        let roles = self.role_list()?;
        Ok(Statement::DropRole(Box::new(DropRole { roles, if_exists })))
    }

    fn drop_user_mapping(&mut self) -> Result<Statement> {
        self.at += 2;
        let if_condition = self.opt_if_exists();
        self.need(K::For)?;
        let user = self.auth_ident()?;
        self.need(K::Server)?;
        let server = self.col_id()?;
        let mapping = UserMapping { action: MappingAction::Drop, if_condition, user, server, options: Vec::new() };
        Ok(Statement::UserMapping(Box::new(mapping)))
    }

    pub(super) fn auth_ident(&mut self) -> Result<RoleSpec> {
        if self.take(K::User) { Ok(RoleSpec::CurrentUser) } else { self.role_spec() }
    }

    fn drop_database(&mut self) -> Result<Statement> {
        self.advance();
        let if_exists = self.opt_if_exists();
        let name = self.col_id()?;
        let mut force = false;
        if self.take(K::With) || self.kind() == T::LeftParen {
            self.paren_list(|parser| parser.need(K::Force))?;
            force = true;
        }
        Ok(Statement::DropDatabase(Box::new(DropDatabase { name, if_exists, force })))
    }

    pub(super) fn reassign(&mut self) -> Result<Statement> {
        self.advance();
        self.need_words(&[K::Owned, K::By])?;
        let roles = self.role_list()?;
        self.need(K::To)?;
        let to = self.role_spec()?;
        Ok(Statement::ReassignOwned(Box::new(ReassignOwned { roles, to })))
    }

    /// An object behind COMMENT ON, SECURITY LABEL … ON or ALTER EXTENSION … ADD.
    pub(super) fn object(&mut self) -> Result<(ObjectKind, ObjectName)> {
        if let Some(kind) = self.opt_any_name_kind() {
            return Ok((kind, ObjectName::Name(self.any_name()?)));
        }
        if let Some(kind) = self.opt_kind(NAME_KINDS).or_else(|| self.opt_kind(OTHER_NAME_KINDS)) {
            return Ok((kind, ObjectName::Name(self.simple_name()?)));
        }
        if let Some(kind) = self.opt_kind(ON_KINDS) {
            return Ok((kind, self.name_on()?));
        }
        if let Some(kind) = self.opt_function_kind() {
            return Ok((kind, ObjectName::Function(self.function_or_aggregate(kind)?)));
        }
        let (begin, keyword) = (self.at, self.keyword());
        self.advance();
        Ok(match keyword {
            Some(K::Column) => (ObjectKind::Column, ObjectName::Name(self.any_name()?)),
            Some(K::Type) => (ObjectKind::Type, ObjectName::Type(self.type_name()?)),
            Some(K::Domain) => (ObjectKind::Domain, ObjectName::Type(self.type_name()?)),
            Some(K::Constraint) => {
                let name = self.col_id()?;
                self.need(K::On)?;
                let is_domain = self.at(K::Domain) && Self::is_col_id(self.peek_at(1));
                if is_domain {
                    self.advance();
                }
                let kind = if is_domain { ObjectKind::DomainConstraint } else { ObjectKind::TableConstraint };
                (kind, ObjectName::On(name, self.any_name()?))
            }
            Some(K::Operator) => match self.opt_operator_group() {
                Some(kind) => (kind, self.name_using()?),
                None => (ObjectKind::Operator, ObjectName::Operator(self.operator_signature()?)),
            },
            Some(K::Transform) => {
                self.need(K::For)?;
                let ty = self.type_name()?;
                self.need(K::Language)?;
                (ObjectKind::Transform, ObjectName::Transform(ty, self.col_id()?))
            }
            Some(K::Large) => {
                self.need(K::Object)?;
                (ObjectKind::LargeObject, ObjectName::LargeObject(self.numeric()?))
            }
            Some(K::Cast) => (ObjectKind::Cast, self.cast_name()?),
            _ => {
                self.at = begin;
                return Err(self.unexpected());
            }
        })
    }

    pub(super) fn comment(&mut self) -> Result<Statement> {
        self.advance();
        self.need(K::On)?;
        let (kind, object) = self.object()?;
        self.need(K::Is)?;
        let text = if self.take(K::Null) { None } else { Some(self.string()?) };
        Ok(Statement::Comment(Box::new(Comment { kind, object, text })))
    }

    pub(super) fn security_label(&mut self) -> Result<Statement> {
        self.advance();
        self.need(K::Label)?;
        let provider = if self.take(K::For) { Some(self.non_reserved_word_or_string()?) } else { None };
        self.need(K::On)?;
        let (kind, object) = self.object()?;
        self.need(K::Is)?;
        let label = if self.take(K::Null) { None } else { Some(self.string()?) };
        Ok(Statement::SecurityLabel(Box::new(SecurityLabel { provider, kind, object, label })))
    }

    pub(super) fn grant(&mut self) -> Result<Statement> {
        self.advance();
        let privileges = self.privileges()?;
        if let (Privileges::List(roles), true) = (&privileges, self.at(K::To)) {
            let roles = roles.clone();
            self.advance();
            let grantees = self.role_list()?;
            let admin_option = self.take_words(&[K::With, K::Admin, K::Option]);
            let granted_by = self.opt_granted_by()?;
            let behavior = DropBehavior::Restrict;
            let grant = GrantRole { revoke: false, admin_option, roles, grantees, granted_by, behavior };
            return Ok(Statement::GrantRole(Box::new(grant)));
        }
        self.need(K::On)?;
        let target = self.grant_target()?;
        self.need(K::To)?;
        let grantees = self.list(Self::grantee)?;
        let grant_option = self.take_words(&[K::With, K::Grant, K::Option]);
        let granted_by = self.opt_granted_by()?;
        let behavior = DropBehavior::Restrict;
        let grant = Grant { revoke: false, grant_option, privileges, target, grantees, granted_by, behavior };
        Ok(Statement::Grant(Box::new(grant)))
    }

    pub(super) fn revoke(&mut self) -> Result<Statement> {
        self.advance();
        let grant_option = self.take_words(&[K::Grant, K::Option, K::For]);
        let admin_option = !grant_option && self.take_words(&[K::Admin, K::Option, K::For]);
        let privileges = self.privileges()?;
        if let (Privileges::List(roles), true) = (&privileges, self.at(K::From) && !grant_option) {
            let roles = roles.clone();
            self.advance();
            let grantees = self.role_list()?;
            let granted_by = self.opt_granted_by()?;
            let behavior = self.opt_drop_behavior();
            let grant = GrantRole { revoke: true, admin_option, roles, grantees, granted_by, behavior };
            return Ok(Statement::GrantRole(Box::new(grant)));
        }
        if admin_option {
            return Err(self.unexpected());
        }
        self.need(K::On)?;
        let target = self.grant_target()?;
        self.need(K::From)?;
        let grantees = self.list(Self::grantee)?;
        let granted_by = self.opt_granted_by()?;
        let behavior = self.opt_drop_behavior();
        let grant = Grant { revoke: true, grant_option, privileges, target, grantees, granted_by, behavior };
        Ok(Statement::Grant(Box::new(grant)))
    }

    fn grantee(&mut self) -> Result<RoleSpec> {
        if self.at(K::Group) && !matches!(self.peek_at(1).kind, T::Comma | T::End | T::Semicolon) {
            self.advance();
        }
        self.role_spec()
    }

    fn opt_granted_by(&mut self) -> Result<Option<RoleSpec>> {
        if self.take_words(&[K::Granted, K::By]) { self.role_spec().map(Some) } else { Ok(None) }
    }

    fn privileges(&mut self) -> Result<Privileges> {
        if self.take(K::All) {
            self.take(K::Privileges);
            return Ok(Privileges::All(self.opt_name_list()?));
        }
        Ok(Privileges::List(self.list(Self::privilege)?))
    }

    fn privilege(&mut self) -> Result<Privilege> {
        let name = match self.keyword() {
            Some(K::Select | K::References | K::Create) => self.col_label()?,
            Some(K::Alter) if self.keyword_at(1) == Some(K::System) => {
                self.at += 2;
                return Ok(Privilege { name: Ident::const_new("alter system"), columns: Vec::new() });
            }
            _ => self.col_id()?,
        };
        Ok(Privilege { name, columns: self.opt_name_list()? })
    }

    fn grant_target(&mut self) -> Result<GrantTarget> {
        use ObjectKind as O;
        if self.at(K::All) {
            self.advance();
            let kind = match self.keyword() {
                Some(K::Tables) => O::Table,
                Some(K::Sequences) => O::Sequence,
                Some(K::Functions) => O::Function,
                Some(K::Procedures) => O::Procedure,
                Some(K::Routines) => O::Routine,
                _ => return Err(self.unexpected()),
            };
            self.advance();
            self.need_words(&[K::In, K::Schema])?;
            return Ok(GrantTarget::AllInSchema(kind, self.name_list()?));
        }
        // A table may be named by one of these words.
        let is_name = matches!(self.peek_at(1).keyword, Some(K::To | K::From))
            || matches!(self.peek_at(1).kind, T::Comma | T::Dot);
        if is_name && !self.at(K::Table) {
            return Ok(GrantTarget::Objects(O::Table, self.qualified_name_list()?));
        }
        if let Some(kind) = self.opt_kind(&[(&[K::Table], O::Table), (&[K::Sequence], O::Sequence)]) {
            return Ok(GrantTarget::Objects(kind, self.qualified_name_list()?));
        }
        if let Some(kind) = self.opt_kind(&FUNCTION_KINDS[..3]) {
            return Ok(GrantTarget::Functions(kind, self.list(Self::function_signature)?));
        }
        if let Some(kind) = self.opt_kind(&[(&[K::Domain], O::Domain), (&[K::Type], O::Type)]) {
            return Ok(GrantTarget::Objects(kind, self.list(Self::any_name)?));
        }
        let simple = [
            (&[K::Foreign, K::Data, K::Wrapper][..], O::ForeignDataWrapper),
            (&[K::Foreign, K::Server], O::Server),
            (&[K::Database], O::Database),
            (&[K::Language], O::Language),
            (&[K::Schema], O::Schema),
            (&[K::Tablespace], O::Tablespace),
        ];
        if let Some(kind) = self.opt_kind(&simple) {
            return Ok(GrantTarget::Objects(kind, self.list(Self::simple_name)?));
        }
        if self.take_words(&[K::Large, K::Object]) {
            return Ok(GrantTarget::LargeObjects(self.list(Self::numeric)?));
        }
        if self.take(K::Parameter) {
            let names = self.list(|parser| {
                let mut name = parser.col_id()?;
                while parser.eat(T::Dot) {
                    let part = parser.col_id()?;
                    name = compact_str::format_compact!("{name}.{part}");
                }
                Ok(name)
            })?;
            return Ok(GrantTarget::Parameters(names));
        }
        Ok(GrantTarget::Objects(O::Table, self.qualified_name_list()?))
    }

    /// Behind ALTER DEFAULT.
    pub(super) fn alter_default_privileges(&mut self) -> Result<Statement> {
        self.need(K::Privileges)?;
        let (mut schemas, mut roles) = (Vec::new(), Vec::new());
        loop {
            if self.take(K::In) {
                self.need(K::Schema)?;
                schemas = self.name_list()?;
            } else if self.take(K::For) {
                if !self.take(K::Role) {
                    self.need(K::User)?;
                }
                roles = self.role_list()?;
            } else {
                break;
            }
        }
        let revoke = self.take(K::Revoke);
        if !revoke {
            self.need(K::Grant)?;
        }
        let mut grant_option = revoke && self.take_words(&[K::Grant, K::Option, K::For]);
        let privileges = self.privileges()?;
        self.need(K::On)?;
        let kind = match self.keyword() {
            Some(K::Tables) => ObjectKind::Table,
            Some(K::Functions | K::Routines) => ObjectKind::Function,
            Some(K::Sequences) => ObjectKind::Sequence,
            Some(K::Types) => ObjectKind::Type,
            Some(K::Schemas) => ObjectKind::Schema,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        self.need(if revoke { K::From } else { K::To })?;
        let grantees = self.list(Self::grantee)?;
        let mut behavior = DropBehavior::Restrict;
        if revoke {
            behavior = self.opt_drop_behavior();
        } else {
            grant_option = self.take_words(&[K::With, K::Grant, K::Option]);
        }
        let target = GrantTarget::Defaults(kind);
        let grant = Grant { revoke, grant_option, privileges, target, grantees, granted_by: None, behavior };
        let statement = AlterDefaultPrivileges { schemas, roles, grant };
        Ok(Statement::AlterDefaultPrivileges(Box::new(statement)))
    }
}
