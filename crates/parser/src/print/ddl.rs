//! Definitions of everything but tables.

use super::Printer;
use super::alter::kind_words;
use crate::ast::{
    AlterAttribute, AlterDefinition, AlterDomainAction, AlterEnumAction, AtomicStatement, CastContext, CastMethod,
    CreateFunction, CreateOperatorClass, CreateRule, CreateTrigger, Define, DefineName, DropBehavior, ExtensionOption,
    FunctionBody, FunctionOption, Grant, GrantTarget, ImportTables, MappingAction, Name, ObjectKind, OperatorClassItem,
    ParameterMode, PolicyCommand, Privilege, Privileges, RoleKind, RoleOption, RuleEvent, SetAction, Statement, Text,
    TriggerEvent, TriggerTiming, Volatility, WrapperFunction,
};

impl Printer<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of definition")]
    pub(super) fn definition(&mut self, statement: &Statement) {
        use Statement as S;
        match statement {
            S::CreateSchema(schema) => {
                self.put("CREATE SCHEMA");
                self.put_if(schema.if_not_exists, " IF NOT EXISTS");
                self.opt(" ", schema.name.as_ref(), |out, name| out.ident(name));
                self.opt(" AUTHORIZATION ", schema.owner.as_ref(), Self::role);
                for element in &schema.elements {
                    self.put(" ");
                    self.statement(element);
                }
            }
            S::CreateEnum(create) => {
                self.create("TYPE ", &create.name);
                self.put(" AS ENUM ");
                self.parens(&create.labels, |out, label| out.text(label));
            }
            S::CreateCompositeType(create) => {
                self.create("TYPE ", &create.name);
                self.put(" AS ");
                self.parens(&create.attributes, Self::column_definition);
            }
            S::CreateRangeType(create) => {
                self.create("TYPE ", &create.name);
                self.opt_parens(" AS RANGE ", &create.options, Self::definition_item);
            }
            S::Define(define) => self.define(define),
            S::CreateDomain(domain) => {
                self.create("DOMAIN ", &domain.name);
                self.put(" AS ");
                self.type_name(&domain.ty);
                self.opt(" COLLATE ", domain.collation.as_ref(), Self::name);
                self.column_constraints(&domain.constraints);
            }
            S::AlterDomain(alter) => {
                self.put("ALTER DOMAIN ");
                self.name(&alter.name);
                self.domain_action(&alter.action);
            }
            S::AlterEnum(alter) => {
                self.put("ALTER TYPE ");
                self.name(&alter.name);
                match &alter.action {
                    AlterEnumAction::Add { label, if_not_exists, beside } => {
                        self.put(" ADD VALUE ");
                        self.put_if(*if_not_exists, "IF NOT EXISTS ");
                        self.text(label);
                        self.opt("", beside.as_ref(), |out, (label, after)| {
                            out.put(if *after { " AFTER " } else { " BEFORE " });
                            out.text(label);
                        });
                    }
                    AlterEnumAction::Rename { from, to } => {
                        self.put(" RENAME VALUE ");
                        self.text(from);
                        self.put(" TO ");
                        self.text(to);
                    }
                }
            }
            S::CreateFunction(function) => self.create_function(function),
            S::AlterFunction(alter) => {
                self.put("ALTER ");
                self.kind(alter.kind);
                self.signature(&alter.function);
                self.function_options(&alter.options);
            }
            S::CreateTrigger(trigger) => self.create_trigger(trigger),
            S::CreateRule(rule) => self.create_rule(rule),
            S::CreateExtension(extension) => {
                self.put("CREATE EXTENSION ");
                self.put_if(extension.if_not_exists, "IF NOT EXISTS ");
                self.ident(&extension.name);
                for option in &extension.options {
                    match option {
                        ExtensionOption::Schema(name) => self.words_name(" SCHEMA ", name),
                        ExtensionOption::Version(text) => self.opt(" VERSION ", Some(text), |out, text| out.text(text)),
                        ExtensionOption::Cascade => self.put(" CASCADE"),
                    }
                }
            }
            S::AlterExtension(alter) => {
                self.words_name("ALTER EXTENSION ", &alter.name);
                self.put(" UPDATE");
                for version in &alter.versions {
                    self.put(" TO ");
                    self.text(version);
                }
            }
            S::AlterExtensionContents(alter) => {
                self.words_name("ALTER EXTENSION ", &alter.name);
                self.put(if alter.add { " ADD " } else { " DROP " });
                self.kind(alter.kind);
                self.object(alter.kind, &alter.object);
            }
            S::CreateRole(role) => {
                self.put(match role.kind {
                    RoleKind::Role => "CREATE ROLE ",
                    RoleKind::User => "CREATE USER ",
                    RoleKind::Group => "CREATE GROUP ",
                });
                self.ident(&role.name);
                self.role_options(&role.options);
            }
            S::AlterRole(alter) if alter.drop_members => {
                self.put("ALTER GROUP ");
                self.role(&alter.role);
                self.put(" DROP");
                self.role_options(&alter.options);
            }
            S::AlterRole(alter) => {
                self.put("ALTER ROLE ");
                self.role(&alter.role);
                self.role_options(&alter.options);
            }
            S::AlterRoleSet(alter) => {
                self.put("ALTER ROLE ");
                match &alter.role {
                    Some(role) => self.role(role),
                    None => self.put("ALL"),
                }
                self.opt(" IN DATABASE ", alter.database.as_ref(), |out, name| out.ident(name));
                self.put(" ");
                self.set(&alter.set);
            }
            S::DropRole(drop) => {
                self.put("DROP ROLE ");
                self.put_if(drop.if_exists, "IF EXISTS ");
                self.roles(&drop.roles);
            }
            S::CreateDatabase(create) => {
                self.words_name("CREATE DATABASE ", &create.name);
                self.database_options(&create.options);
            }
            S::AlterDatabase(alter) => {
                self.words_name("ALTER DATABASE ", &alter.name);
                self.put_if(alter.refresh_collation, " REFRESH COLLATION VERSION");
                self.database_options(&alter.options);
            }
            S::AlterDatabaseSet(alter) => {
                self.words_name("ALTER DATABASE ", &alter.name);
                self.put(" ");
                self.set(&alter.set);
            }
            S::DropDatabase(drop) => {
                self.put("DROP DATABASE ");
                self.put_if(drop.if_exists, "IF EXISTS ");
                self.ident(&drop.name);
                self.put_if(drop.force, " WITH (FORCE)");
            }
            S::AlterSystem(set) => {
                self.put("ALTER SYSTEM ");
                self.set(set);
            }
            S::CreatePolicy(policy) => {
                self.words_name("CREATE POLICY ", &policy.name);
                self.put(" ON ");
                self.name(&policy.table);
                self.put(if policy.permissive { "" } else { " AS RESTRICTIVE" });
                self.put(match policy.command {
                    PolicyCommand::All => "",
                    PolicyCommand::Select => " FOR SELECT",
                    PolicyCommand::Insert => " FOR INSERT",
                    PolicyCommand::Update => " FOR UPDATE",
                    PolicyCommand::Delete => " FOR DELETE",
                });
                self.policy(&policy.roles, policy.using.as_ref(), policy.check.as_ref());
            }
            S::AlterPolicy(policy) => {
                self.words_name("ALTER POLICY ", &policy.name);
                self.put(" ON ");
                self.name(&policy.table);
                self.policy(&policy.roles, policy.using.as_ref(), policy.check.as_ref());
            }
            S::CreateForeignDataWrapper(wrapper) | S::AlterForeignDataWrapper(wrapper) => {
                let creates = matches!(statement, S::CreateForeignDataWrapper(_));
                self.put(if creates { "CREATE" } else { "ALTER" });
                self.words_name(" FOREIGN DATA WRAPPER ", &wrapper.name);
                for function in &wrapper.functions {
                    match function {
                        WrapperFunction::Handler(Some(name)) => self.opt(" HANDLER ", Some(name), Self::name),
                        WrapperFunction::Handler(None) => self.put(" NO HANDLER"),
                        WrapperFunction::Validator(Some(name)) => self.opt(" VALIDATOR ", Some(name), Self::name),
                        WrapperFunction::Validator(None) => self.put(" NO VALIDATOR"),
                    }
                }
                self.generic_options(&wrapper.options);
            }
            S::CreateServer(server) => {
                self.put("CREATE SERVER ");
                self.put_if(server.if_not_exists, "IF NOT EXISTS ");
                self.ident(&server.name);
                self.opt(" TYPE ", server.ty.as_ref(), |out, ty| out.text(ty));
                self.version(server.version.as_ref());
                self.words_name(" FOREIGN DATA WRAPPER ", &server.wrapper);
                self.generic_options(&server.options);
            }
            S::AlterServer(server) => {
                self.words_name("ALTER SERVER ", &server.name);
                self.version(server.version.as_ref());
                self.generic_options(&server.options);
            }
            S::UserMapping(mapping) => {
                let (verb, condition) = match mapping.action {
                    MappingAction::Create => ("CREATE", "IF NOT EXISTS "),
                    MappingAction::Alter => ("ALTER", ""),
                    MappingAction::Drop => ("DROP", "IF EXISTS "),
                };
                self.put(verb);
                self.put(" USER MAPPING ");
                self.put_if(mapping.if_condition, condition);
                self.put("FOR ");
                self.role(&mapping.user);
                self.words_name(" SERVER ", &mapping.server);
                self.generic_options(&mapping.options);
            }
            S::ImportForeignSchema(import) => {
                self.words_name("IMPORT FOREIGN SCHEMA ", &import.remote_schema);
                match &import.tables {
                    ImportTables::All => {}
                    ImportTables::LimitTo(tables) => self.opt_parens(" LIMIT TO ", tables, Self::name),
                    ImportTables::Except(tables) => self.opt_parens(" EXCEPT ", tables, Self::name),
                }
                self.words_name(" FROM SERVER ", &import.server);
                self.words_name(" INTO ", &import.into);
                self.generic_options(&import.options);
            }
            S::AlterStatistics(alter) => {
                self.put("ALTER STATISTICS ");
                self.put_if(alter.if_exists, "IF EXISTS ");
                self.name(&alter.name);
                self.put(" SET STATISTICS ");
                self.number(alter.target);
            }
            S::CreateCast(cast) => {
                self.put("CREATE CAST (");
                self.type_name(&cast.source);
                self.put(" AS ");
                self.type_name(&cast.target);
                match &cast.method {
                    CastMethod::Function(function) => self.opt(") WITH FUNCTION ", Some(function), Self::signature),
                    CastMethod::Binary => self.put(") WITHOUT FUNCTION"),
                    CastMethod::InOut => self.put(") WITH INOUT"),
                }
                self.put(match cast.context {
                    CastContext::Explicit => "",
                    CastContext::Assignment => " AS ASSIGNMENT",
                    CastContext::Implicit => " AS IMPLICIT",
                });
            }
            S::CreateOperatorClass(class) => self.create_operator_class(class),
            S::CreateOperatorFamily(name, method) => {
                self.create("OPERATOR FAMILY ", name);
                self.words_name(" USING ", method);
            }
            S::AlterOperatorFamily(alter) => {
                self.put("ALTER OPERATOR FAMILY ");
                self.name(&alter.name);
                self.words_name(" USING ", &alter.method);
                self.opt_list(" ADD ", &alter.add, Self::operator_class_item);
                self.opt_list(" DROP ", &alter.drop, |out, (is_operator, number, types)| {
                    out.put(if *is_operator { "OPERATOR " } else { "FUNCTION " });
                    out.number(number);
                    out.opt_parens(" ", types, Self::type_name);
                });
            }
            S::AlterOperator(alter) => self.alter_definition(ObjectKind::Operator, alter),
            S::AlterType(alter) => self.alter_definition(ObjectKind::Type, alter),
            S::AlterCollationRefreshVersion(name) => {
                self.put("ALTER COLLATION ");
                self.name(name);
                self.put(" REFRESH VERSION");
            }
            S::AlterTableSpaceAll(alter) => {
                self.put("ALTER ");
                self.kind(alter.kind);
                self.words_name("ALL IN TABLESPACE ", &alter.from);
                self.opt_list(" OWNED BY ", &alter.owners, Self::role);
                self.words_name(" SET TABLESPACE ", &alter.to);
                self.put_if(alter.nowait, " NOWAIT");
            }
            S::Drop(drop) => {
                self.put("DROP ");
                self.kind(drop.kind);
                self.put_if(drop.concurrently, "CONCURRENTLY ");
                self.put_if(drop.if_exists, "IF EXISTS ");
                self.list(&drop.objects, |out, object| out.object(drop.kind, object));
                self.behavior(drop.behavior);
            }
            S::DropOwned(drop) => {
                self.put("DROP OWNED BY ");
                self.roles(&drop.roles);
                self.behavior(drop.behavior);
            }
            S::ReassignOwned(reassign) => {
                self.put("REASSIGN OWNED BY ");
                self.roles(&reassign.roles);
                self.put(" TO ");
                self.role(&reassign.to);
            }
            S::AlterOwner(alter) => {
                self.put("ALTER ");
                self.kind(alter.kind);
                self.object(alter.kind, &alter.object);
                self.put(" OWNER TO ");
                self.role(&alter.owner);
            }
            S::AlterSchema(alter) => {
                self.put("ALTER ");
                self.kind(alter.kind);
                self.put_if(alter.if_exists, "IF EXISTS ");
                self.put_if(alter.only, "ONLY ");
                self.object(alter.kind, &alter.object);
                self.words_name(" SET SCHEMA ", &alter.schema);
            }
            S::AlterDepends(alter) => {
                self.put("ALTER ");
                self.kind(alter.kind);
                self.object(alter.kind, &alter.object);
                self.put_if(alter.remove, " NO");
                self.words_name(" DEPENDS ON EXTENSION ", &alter.extension);
            }
            S::Comment(comment) => {
                self.put("COMMENT ON ");
                self.kind(comment.kind);
                self.object(comment.kind, &comment.object);
                self.is_text(comment.text.as_ref());
            }
            S::SecurityLabel(label) => {
                self.put("SECURITY LABEL ");
                if let Some(provider) = &label.provider {
                    self.put("FOR ");
                    self.text(provider);
                    self.put(" ");
                }
                self.put("ON ");
                self.kind(label.kind);
                self.object(label.kind, &label.object);
                self.is_text(label.label.as_ref());
            }
            S::Grant(grant) => self.grant(grant),
            S::GrantRole(grant) => {
                self.put(if grant.revoke { "REVOKE " } else { "GRANT " });
                self.put_if(grant.revoke && grant.admin_option, "ADMIN OPTION FOR ");
                self.list(&grant.roles, Self::privilege);
                self.put(if grant.revoke { " FROM " } else { " TO " });
                self.roles(&grant.grantees);
                self.put_if(!grant.revoke && grant.admin_option, " WITH ADMIN OPTION");
                self.opt(" GRANTED BY ", grant.granted_by.as_ref(), Self::role);
                self.behavior(grant.behavior);
            }
            S::AlterDefaultPrivileges(alter) => {
                self.put("ALTER DEFAULT PRIVILEGES");
                self.opt_list(" FOR ROLE ", &alter.roles, Self::role);
                self.opt_list(" IN SCHEMA ", &alter.schemas, |out, name| out.ident(name));
                self.put(" ");
                self.grant(&alter.grant);
            }
            // All others are written where this is called.
            _ => {}
        }
    }

    fn create(&mut self, words: &str, name: &Name) {
        self.put("CREATE ");
        self.put(words);
        self.name(name);
    }

    fn is_text(&mut self, text: Option<&Text>) {
        match text {
            Some(text) => self.opt(" IS ", Some(text), |out, text| out.text(text)),
            None => self.put(" IS NULL"),
        }
    }

    fn version(&mut self, version: Option<&Option<Text>>) {
        match version {
            None => {}
            Some(None) => self.put(" VERSION NULL"),
            Some(Some(version)) => self.opt(" VERSION ", Some(version), |out, version| out.text(version)),
        }
    }

    fn define(&mut self, define: &Define) {
        self.put("CREATE ");
        self.put_if(define.replace, "OR REPLACE ");
        self.kind(define.kind);
        self.put_if(define.if_not_exists, "IF NOT EXISTS ");
        match &define.name {
            DefineName::Name(name) => self.name(name),
            DefineName::Operator(operator) => self.plain_operator(operator),
            DefineName::Aggregate(signature) => self.signature(signature),
        }
        self.opt(" FROM ", define.from.as_ref(), Self::name);
        self.opt(" ", define.definition.as_ref(), |out, items| out.parens(items, Self::definition_item));
    }

    fn alter_definition(&mut self, kind: ObjectKind, alter: &AlterDefinition) {
        self.put("ALTER ");
        self.kind(kind);
        self.object(kind, &alter.object);
        self.opt_parens(" SET ", &alter.options, Self::definition_item);
        self.opt_list(" ", &alter.attributes, |out, attribute| match attribute {
            AlterAttribute::Add(attribute, behavior) => {
                out.put("ADD ATTRIBUTE ");
                out.column_definition(attribute);
                out.behavior(*behavior);
            }
            AlterAttribute::Drop { name, if_exists, behavior } => {
                out.put("DROP ATTRIBUTE ");
                out.put_if(*if_exists, "IF EXISTS ");
                out.ident(name);
                out.behavior(*behavior);
            }
            AlterAttribute::Alter { name, ty, collation, behavior } => {
                out.words_name("ALTER ATTRIBUTE ", name);
                out.put(" TYPE ");
                out.type_name(ty);
                out.opt(" COLLATE ", collation.as_ref(), Self::name);
                out.behavior(*behavior);
            }
        });
    }

    fn domain_action(&mut self, action: &AlterDomainAction) {
        use AlterDomainAction as A;
        match action {
            A::SetDefault(expr) => self.opt(" SET DEFAULT ", Some(expr), Self::expr),
            A::DropDefault => self.put(" DROP DEFAULT"),
            A::SetNotNull => self.put(" SET NOT NULL"),
            A::DropNotNull => self.put(" DROP NOT NULL"),
            A::AddConstraint(constraint) => self.opt(" ADD ", Some(constraint), Self::table_constraint),
            A::DropConstraint { name, if_exists, behavior } => {
                self.put(" DROP CONSTRAINT ");
                self.put_if(*if_exists, "IF EXISTS ");
                self.ident(name);
                self.behavior(*behavior);
            }
            A::ValidateConstraint(name) => self.words_name(" VALIDATE CONSTRAINT ", name),
        }
    }

    fn create_function(&mut self, function: &CreateFunction) {
        self.put(if function.replace { "CREATE OR REPLACE " } else { "CREATE " });
        self.put(if function.procedure { "PROCEDURE " } else { "FUNCTION " });
        self.name(&function.name);
        let is_column = |mode: ParameterMode| mode == ParameterMode::Table;
        let columns = function.parameters.iter().position(|one| is_column(one.mode));
        let (parameters, columns) = function.parameters.split_at(columns.unwrap_or(function.parameters.len()));
        self.parens(parameters, Self::parameter);
        if columns.is_empty() {
            self.opt(" RETURNS ", function.returns.as_ref(), Self::type_name);
        } else {
            self.opt_parens(" RETURNS TABLE ", columns, Self::parameter);
        }
        self.function_options(&function.options);
        match &function.body {
            None => {}
            Some(FunctionBody::Return(expr)) => self.opt(" RETURN ", Some(expr), Self::expr),
            Some(FunctionBody::Atomic(statements)) => {
                self.put(" BEGIN ATOMIC ");
                for statement in statements {
                    match statement {
                        AtomicStatement::Statement(statement) => self.statement(statement),
                        AtomicStatement::Return(expr) => self.opt("RETURN ", Some(expr), Self::expr),
                    }
                    self.put("; ");
                }
                self.put("END");
            }
        }
    }

    fn function_options(&mut self, options: &[FunctionOption]) {
        use FunctionOption as O;
        for option in options {
            match option {
                O::As(first, second) => {
                    self.put(" AS ");
                    self.text(first);
                    self.opt(", ", second.as_ref(), |out, text| out.text(text));
                }
                O::Language(name) => self.opt(" LANGUAGE ", Some(name), |out, name| out.text(name)),
                O::Transform(types) => self.opt_list(" TRANSFORM ", types, |out, ty| {
                    out.put("FOR TYPE ");
                    out.type_name(ty);
                }),
                O::Window => self.put(" WINDOW"),
                O::Strict(true) => self.put(" STRICT"),
                O::Strict(false) => self.put(" CALLED ON NULL INPUT"),
                O::Volatility(Volatility::Immutable) => self.put(" IMMUTABLE"),
                O::Volatility(Volatility::Stable) => self.put(" STABLE"),
                O::Volatility(Volatility::Volatile) => self.put(" VOLATILE"),
                O::SecurityDefiner(true) => self.put(" SECURITY DEFINER"),
                O::SecurityDefiner(false) => self.put(" SECURITY INVOKER"),
                O::Leakproof(true) => self.put(" LEAKPROOF"),
                O::Leakproof(false) => self.put(" NOT LEAKPROOF"),
                O::Cost(value) => self.opt(" COST ", Some(value), Self::numeric),
                O::Rows(value) => self.opt(" ROWS ", Some(value), Self::numeric),
                O::Support(name) => self.opt(" SUPPORT ", Some(name), Self::name),
                O::Set(set) => {
                    // Every function may have a setting of what it was created with.
                    self.put(" ");
                    debug_assert!(
                        !matches!(set.action, SetAction::Transaction(_)),
                        "BUG: functions set no transaction"
                    );
                    self.set(set);
                }
                O::Parallel(level) => self.words_name(" PARALLEL ", level),
            }
        }
    }

    fn create_trigger(&mut self, trigger: &CreateTrigger) {
        self.put(if trigger.replace { "CREATE OR REPLACE " } else { "CREATE " });
        self.put_if(trigger.constraint, "CONSTRAINT ");
        self.words_name("TRIGGER ", &trigger.name);
        self.put(match trigger.timing {
            TriggerTiming::Before => " BEFORE ",
            TriggerTiming::After => " AFTER ",
            TriggerTiming::InsteadOf => " INSTEAD OF ",
        });
        self.separated(&trigger.events, " OR ", |out, event| match event {
            TriggerEvent::Insert => out.put("INSERT"),
            TriggerEvent::Delete => out.put("DELETE"),
            TriggerEvent::Truncate => out.put("TRUNCATE"),
            TriggerEvent::Update(columns) => {
                out.put("UPDATE");
                out.opt_list(" OF ", columns, |out, name| out.ident(name));
            }
        });
        self.put(" ON ");
        self.name(&trigger.table);
        self.opt(" FROM ", trigger.from.as_ref(), Self::name);
        self.constraint_attributes(trigger.attributes);
        if !trigger.transitions.is_empty() {
            self.put(" REFERENCING ");
            self.separated(&trigger.transitions, " ", |out, one| {
                out.put(if one.new { "NEW " } else { "OLD " });
                out.put(if one.table { "TABLE AS " } else { "ROW AS " });
                out.ident(&one.name);
            });
        }
        self.put(if trigger.for_each_row { " FOR EACH ROW" } else { " FOR EACH STATEMENT" });
        if let Some(when) = &trigger.when {
            self.put(" WHEN (");
            self.expr(when);
            self.put(")");
        }
        self.put(" EXECUTE FUNCTION ");
        self.name(&trigger.function);
        self.parens(&trigger.args, |out, arg| out.text(arg));
    }

    fn create_rule(&mut self, rule: &CreateRule) {
        self.put(if rule.replace { "CREATE OR REPLACE " } else { "CREATE " });
        self.words_name("RULE ", &rule.name);
        self.put(match rule.event {
            RuleEvent::Select => " AS ON SELECT TO ",
            RuleEvent::Update => " AS ON UPDATE TO ",
            RuleEvent::Delete => " AS ON DELETE TO ",
            RuleEvent::Insert => " AS ON INSERT TO ",
        });
        self.name(&rule.table);
        self.opt(" WHERE ", rule.filter.as_ref(), Self::expr);
        self.put(if rule.instead { " DO INSTEAD " } else { " DO ALSO " });
        match &rule.actions[..] {
            [] => self.put("NOTHING"),
            [action] => self.statement(action),
            actions => {
                self.put("(");
                self.separated(actions, "; ", Self::statement);
                self.put(")");
            }
        }
    }

    fn role_options(&mut self, options: &[RoleOption]) {
        use RoleOption as O;
        let word = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
        for option in options {
            match option {
                O::Password(None) => self.put(" PASSWORD NULL"),
                O::Password(Some(text)) => self.opt(" PASSWORD ", Some(text), |out, text| out.text(text)),
                O::Superuser(is) => self.put(word(*is, " SUPERUSER", " NOSUPERUSER")),
                O::CreateRole(is) => self.put(word(*is, " CREATEROLE", " NOCREATEROLE")),
                O::CreateDb(is) => self.put(word(*is, " CREATEDB", " NOCREATEDB")),
                O::Replication(is) => self.put(word(*is, " REPLICATION", " NOREPLICATION")),
                O::Login(is) => self.put(word(*is, " LOGIN", " NOLOGIN")),
                O::BypassRls(is) => self.put(word(*is, " BYPASSRLS", " NOBYPASSRLS")),
                O::Inherit(is) => self.put(word(*is, " INHERIT", " NOINHERIT")),
                O::ConnectionLimit(limit) => {
                    self.opt(" CONNECTION LIMIT ", Some(limit), |out, limit| out.number(limit))
                }
                O::ValidUntil(text) => self.opt(" VALID UNTIL ", Some(text), |out, text| out.text(text)),
                O::Members(roles) => self.opt_list(" USER ", roles, Self::role),
                O::Admin(roles) => self.opt_list(" ADMIN ", roles, Self::role),
                O::InRoles(roles) => self.opt_list(" IN ROLE ", roles, Self::role),
                O::SysId(id) => self.opt(" SYSID ", Some(id), |out, id| out.number(id)),
            }
        }
    }

    fn database_options(&mut self, options: &[crate::ast::DefinitionItem]) {
        for option in options {
            self.put(" ");
            match option.name.as_str() {
                "connection_limit" => self.put("CONNECTION LIMIT"),
                name @ ("encoding" | "location" | "owner" | "tablespace" | "template") => self.put(name),
                name => self.ident(name),
            }
            self.put(" = ");
            self.value_or_default(option.value.as_ref());
        }
    }

    fn policy(
        &mut self,
        roles: &[crate::ast::RoleSpec],
        using: Option<&crate::ast::Expr>,
        check: Option<&crate::ast::Expr>,
    ) {
        self.opt_list(" TO ", roles, Self::role);
        for (words, condition) in [(" USING (", using), (" WITH CHECK (", check)] {
            if let Some(condition) = condition {
                self.put(words);
                self.expr(condition);
                self.put(")");
            }
        }
    }

    fn create_operator_class(&mut self, class: &CreateOperatorClass) {
        self.create("OPERATOR CLASS ", &class.name);
        self.put(if class.default { " DEFAULT FOR TYPE " } else { " FOR TYPE " });
        self.type_name(&class.ty);
        self.words_name(" USING ", &class.method);
        self.opt(" FAMILY ", class.family.as_ref(), Self::name);
        self.opt_list(" AS ", &class.items, Self::operator_class_item);
    }

    fn operator_class_item(&mut self, item: &OperatorClassItem) {
        match item {
            OperatorClassItem::Storage(ty) => self.opt("STORAGE ", Some(ty), Self::type_name),
            OperatorClassItem::Function { number, types, function } => {
                self.put("FUNCTION ");
                self.number(number);
                self.opt_parens(" ", types, Self::type_name);
                self.put(" ");
                self.signature(function);
            }
            OperatorClassItem::Operator { number, operator, types, order_by } => {
                self.put("OPERATOR ");
                self.number(number);
                self.put(" ");
                match types {
                    Some(signature) => self.operator_signature(signature),
                    None => self.plain_operator(operator),
                }
                self.opt(" FOR ORDER BY ", order_by.as_ref(), Self::name);
            }
        }
    }

    fn privilege(&mut self, privilege: &Privilege) {
        match privilege.name.as_str() {
            name @ ("select" | "references" | "create" | "alter system") => self.put(name),
            name => self.ident(name),
        }
        self.opt_parens(" ", &privilege.columns, |out, name| out.ident(name));
    }

    fn grant(&mut self, grant: &Grant) {
        self.put(if grant.revoke { "REVOKE " } else { "GRANT " });
        self.put_if(grant.revoke && grant.grant_option, "GRANT OPTION FOR ");
        match &grant.privileges {
            Privileges::All(columns) => {
                self.put("ALL PRIVILEGES");
                self.opt_parens(" ", columns, |out, name| out.ident(name));
            }
            Privileges::List(list) => self.list(list, Self::privilege),
        }
        self.put(" ON ");
        match &grant.target {
            GrantTarget::Objects(kind, names) => {
                self.put(if *kind == ObjectKind::Server { "FOREIGN SERVER" } else { kind_words(*kind) });
                self.put(" ");
                self.list(names, Self::name);
            }
            GrantTarget::Functions(kind, signatures) => {
                self.kind(*kind);
                self.list(signatures, Self::signature);
            }
            GrantTarget::LargeObjects(numbers) => self.opt_list("LARGE OBJECT ", numbers, Self::numeric),
            GrantTarget::Parameters(names) => self.opt_list("PARAMETER ", names, |out, name| out.variable(name)),
            GrantTarget::AllInSchema(kind, schemas) => {
                self.put("ALL ");
                self.put(kind_words(*kind));
                self.opt_list("S IN SCHEMA ", schemas, |out, name| out.ident(name));
            }
            GrantTarget::Defaults(kind) => {
                self.put(kind_words(*kind));
                self.put("S");
            }
        }
        self.put(if grant.revoke { " FROM " } else { " TO " });
        self.roles(&grant.grantees);
        self.put_if(!grant.revoke && grant.grant_option, " WITH GRANT OPTION");
        self.opt(" GRANTED BY ", grant.granted_by.as_ref(), Self::role);
        debug_assert!(grant.revoke || grant.behavior == DropBehavior::Restrict, "BUG: GRANT has no CASCADE");
        self.behavior(grant.behavior);
    }
}
