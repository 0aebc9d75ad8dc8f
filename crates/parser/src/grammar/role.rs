//! Roles and databases.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    AlterDatabase, AlterDatabaseSet, AlterRole, AlterRoleSet, CreateDatabase, CreateRole, DefinitionItem, Ident,
    OptionValue, Rename, RoleKind, RoleOption, Statement,
};

impl Parser<'_> {
    /// Behind CREATE ROLE, USER or GROUP.
    pub(super) fn create_role(&mut self, kind: RoleKind) -> Result<Statement> {
        let name = self.role_id()?;
        self.take(K::With);
        let options = self.role_options(true)?;
        Ok(Statement::CreateRole(Box::new(CreateRole { kind, name, options })))
    }

    /// Options; `creates`: also those that only CREATE takes.
    fn role_options(&mut self, creates: bool) -> Result<Vec<RoleOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.opt_role_option(creates)? {
            options.push(option);
        }
        Ok(options)
    }

    fn opt_role_option(&mut self, creates: bool) -> Result<Option<RoleOption>> {
        use RoleOption as O;
        let at = self.pos();
        let keyword = self.keyword();
        let option = match keyword {
            Some(K::Password) => {
                self.advance();
                O::Password(if self.take(K::Null) { None } else { Some(self.string()?) })
            }
            Some(K::Encrypted) => {
                self.advance();
                self.need(K::Password)?;
                O::Password(Some(self.string()?))
            }
            Some(K::Unencrypted) => {
                self.advance();
                self.need(K::Password)?;
                self.string()?;
                let error = self.unsupported("UNENCRYPTED PASSWORD is no longer supported", at);
                let hint = "Remove UNENCRYPTED to store the password in encrypted form instead.";
                return Err(error.with_hint(hint));
            }
            Some(K::Inherit) => self.taken(O::Inherit(true)),
            Some(K::Connection) => {
                self.advance();
                self.need(K::Limit)?;
                O::ConnectionLimit(self.signed_integer()?)
            }
            Some(K::Valid) => {
                self.advance();
                self.need(K::Until)?;
                O::ValidUntil(self.string()?)
            }
            Some(K::User) => {
                self.advance();
                O::Members(self.role_list()?)
            }
            Some(K::Sysid) if creates => {
                self.advance();
                O::SysId(self.integer()?)
            }
            Some(K::Admin) if creates => {
                self.advance();
                O::Admin(self.role_list()?)
            }
            Some(K::Role) if creates => {
                self.advance();
                O::Members(self.role_list()?)
            }
            Some(K::In) if creates => {
                self.advance();
                if !self.take(K::Role) {
                    self.need(K::Group)?;
                }
                O::InRoles(self.role_list()?)
            }
            _ if Self::is_plain_name(self.peek()) => {
                let name = self.plain_name()?;
                match name.as_str() {
                    "superuser" => O::Superuser(true),
                    "nosuperuser" => O::Superuser(false),
                    "createrole" => O::CreateRole(true),
                    "nocreaterole" => O::CreateRole(false),
                    "replication" => O::Replication(true),
                    "noreplication" => O::Replication(false),
                    "createdb" => O::CreateDb(true),
                    "nocreatedb" => O::CreateDb(false),
                    "login" => O::Login(true),
                    "nologin" => O::Login(false),
                    "bypassrls" => O::BypassRls(true),
                    "nobypassrls" => O::BypassRls(false),
                    "noinherit" => O::Inherit(false),
                    _ => return Err(self.error(format!("unrecognized role option \"{name}\""), at)),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    /// Behind ALTER ROLE or USER.
    pub(super) fn alter_role(&mut self) -> Result<Statement> {
        if self.at(K::All) {
            self.advance();
            return self.alter_role_set(None);
        }
        let at = self.at;
        let role = self.role_spec()?;
        if self.at_words(&[K::Rename, K::To]) {
            self.at = at;
            return self.rename_role();
        }
        if self.at_any(&[K::Set, K::Reset]) || self.at_words(&[K::In, K::Database]) {
            return self.alter_role_set(Some(role));
        }
        self.take(K::With);
        let options = self.role_options(false)?;
        Ok(Statement::AlterRole(Box::new(AlterRole { role, drop_members: false, options })))
    }

    fn alter_role_set(&mut self, role: Option<crate::ast::RoleSpec>) -> Result<Statement> {
        let database = if self.take_words(&[K::In, K::Database]) { Some(self.col_id()?) } else { None };
        let set = self.set_reset_clause(true)?;
        Ok(Statement::AlterRoleSet(Box::new(AlterRoleSet { role, database, set })))
    }

    fn rename_role(&mut self) -> Result<Statement> {
        let at = self.pos();
        let name = self.role_id()?;
        self.need_words(&[K::Rename, K::To])?;
        let to = self.role_id()?;
        let object = crate::ast::ObjectName::Name(crate::ast::Name { qualifier: Box::default(), name, at });
        Ok(Statement::Rename(Box::new(Rename {
            kind: crate::ast::ObjectKind::Role,
            object,
            only: false,
            if_exists: false,
            part: None,
            to,
            behavior: crate::ast::DropBehavior::Restrict,
        })))
    }

    /// Behind ALTER GROUP.
    pub(super) fn alter_group(&mut self) -> Result<Statement> {
        let at = self.at;
        let role = self.role_spec()?;
        if self.at(K::Rename) {
            self.at = at;
            return self.rename_role();
        }
        let drop_members = self.take(K::Drop);
        if !drop_members {
            self.need(K::Add)?;
        }
        self.need(K::User)?;
        let options = vec![RoleOption::Members(self.role_list()?)];
        Ok(Statement::AlterRole(Box::new(AlterRole { role, drop_members, options })))
    }

    pub(super) fn create_database(&mut self) -> Result<Statement> {
        let name = self.col_id()?;
        self.take(K::With);
        let options = self.database_options()?;
        Ok(Statement::CreateDatabase(Box::new(CreateDatabase { name, options })))
    }

    fn database_options(&mut self) -> Result<Vec<DefinitionItem>> {
        let mut options = Vec::new();
        loop {
            let at = self.pos();
            let name = match self.keyword() {
                Some(K::Connection) => {
                    self.advance();
                    self.need(K::Limit)?;
                    Ident::const_new("connection_limit")
                }
                Some(K::Encoding | K::Location | K::Owner | K::Tablespace | K::Template) => self.col_label()?,
                _ if Self::is_plain_name(self.peek()) => self.plain_name()?,
                _ => return Ok(options),
            };
            self.eat(T::Equal);
            let value = if self.take(K::Default) {
                None
            } else if self.at_numeric() {
                Some(OptionValue::Number(self.numeric()?))
            } else {
                Some(OptionValue::Text(self.opt_boolean_or_string()?))
            };
            options.push(DefinitionItem { name, value, at });
        }
    }

    /// Behind ALTER DATABASE and its name, but RENAME and OWNER.
    pub(super) fn alter_database(&mut self, name: Ident) -> Result<Statement> {
        if self.at_words(&[K::Set, K::Tablespace]) {
            let at = self.pos();
            self.at += 2;
            let value = Some(OptionValue::Text(self.col_id()?));
            let options = vec![DefinitionItem { name: Ident::const_new("tablespace"), value, at }];
            return Ok(Statement::AlterDatabase(Box::new(AlterDatabase { name, options, refresh_collation: false })));
        }
        if self.at_any(&[K::Set, K::Reset]) {
            let set = self.set_reset_clause(true)?;
            return Ok(Statement::AlterDatabaseSet(Box::new(AlterDatabaseSet { name, set })));
        }
        let refresh_collation = self.take(K::Refresh);
        let mut options = Vec::new();
        if refresh_collation {
            self.need_words(&[K::Collation, K::Version])?;
        } else {
            self.take(K::With);
            options = self.database_options()?;
        }
        Ok(Statement::AlterDatabase(Box::new(AlterDatabase { name, options, refresh_collation })))
    }
}
