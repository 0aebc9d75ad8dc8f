//! CREATE of what has no file of its own, and which CREATE a statement is.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    CastContext, CastMethod, ConstraintAttributes, CreateCast, CreateCompositeType, CreateDomain, CreateEnum,
    CreateExtension, CreateForeignDataWrapper, CreateOperatorClass, CreatePolicy, CreateRangeType, CreateRule,
    CreateSchema, CreateServer, CreateTrigger, Define, DefineName, ExtensionOption, FunctionSignature,
    ImportForeignSchema, ImportTables, MappingAction, Name, ObjectKind, OperatorClassItem, OperatorSignature,
    Persistence, PolicyCommand, RoleKind, RoleSpec, RuleEvent, Statement, Text, TriggerEvent, TriggerTiming,
    TriggerTransition, UserMapping, WrapperFunction,
};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement> {
        self.need(K::Create)?;
        if self.take(K::Or) {
            self.need(K::Replace)?;
            return self.create_or_replace(true);
        }
        let persistence = self.opt_persistence();
        let (temporary, unlogged) = (persistence == Persistence::Temporary, persistence == Persistence::Unlogged);
        match self.keyword() {
            Some(K::Table) => return self.create_of(|parser| parser.create_table(persistence)),
            Some(K::Sequence) => return self.create_of(|parser| parser.create_sequence(persistence)),
            Some(K::Materialized) if !temporary => {
                self.advance();
                self.need(K::View)?;
                let if_not_exists = self.opt_if_not_exists();
                let name = self.qualified_name()?;
                return self.create_table_as(name, persistence, if_not_exists, true);
            }
            Some(K::View | K::Recursive) => return self.create_any_view(false, persistence),
            _ if temporary || unlogged => return Err(self.unexpected()),
            _ => {}
        }
        self.create_other()
    }

    /// Parses what is behind the next word.
    fn create_of(&mut self, rule: impl FnOnce(&mut Self) -> Result<Statement>) -> Result<Statement> {
        self.advance();
        rule(self)
    }

    fn create_any_view(&mut self, replace: bool, persistence: Persistence) -> Result<Statement> {
        let recursive = self.take(K::Recursive);
        self.need(K::View)?;
        self.create_view(replace, persistence, recursive)
    }

    /// Objects that OR REPLACE allows; `replace`: it was written.
    fn create_or_replace(&mut self, replace: bool) -> Result<Statement> {
        match self.keyword() {
            Some(K::Function) => self.create_of(|parser| parser.create_function(false, replace)),
            Some(K::Procedure) => self.create_of(|parser| parser.create_function(true, replace)),
            Some(K::Aggregate) => self.create_of(|parser| parser.create_aggregate(replace)),
            Some(K::Trigger | K::Constraint) => self.create_trigger(replace),
            Some(K::Rule) => self.create_of(|parser| parser.create_rule(replace)),
            Some(K::Trusted | K::Procedural | K::Language) => Ok(self.unsupported_command("CREATE LANGUAGE")),
            Some(K::Transform) => Ok(self.unsupported_command("CREATE TRANSFORM")),
            _ if replace => {
                let persistence = self.opt_persistence();
                self.create_any_view(true, persistence)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn create_other(&mut self) -> Result<Statement> {
        match self.keyword() {
            Some(K::Unique) => {
                self.advance();
                self.need(K::Index)?;
                self.create_index(true)
            }
            Some(K::Index) => self.create_of(|parser| parser.create_index(false)),
            Some(K::Schema) => self.create_of(Self::create_schema),
            Some(K::Type) => self.create_of(Self::create_type),
            Some(K::Domain) => self.create_of(Self::create_domain),
            Some(K::Operator) => self.create_of(Self::create_operator),
            Some(K::Collation) => self.create_of(Self::create_collation),
            Some(K::Extension) => self.create_of(Self::create_extension),
            Some(K::Role) => self.create_of(|parser| parser.create_role(RoleKind::Role)),
            Some(K::Group) => self.create_of(|parser| parser.create_role(RoleKind::Group)),
            Some(K::User) if self.keyword_at(1) == Some(K::Mapping) => {
                self.at += 2;
                self.create_user_mapping()
            }
            Some(K::User) => self.create_of(|parser| parser.create_role(RoleKind::User)),
            Some(K::Database) => self.create_of(Self::create_database),
            Some(K::Policy) => self.create_of(Self::create_policy),
            Some(K::Foreign) => {
                self.advance();
                if self.take(K::Table) {
                    return self.create_foreign_table();
                }
                self.need_words(&[K::Data, K::Wrapper])?;
                let name = self.col_id()?;
                let functions = self.wrapper_functions()?;
                let options = self.opt_generic_options()?;
                let wrapper = CreateForeignDataWrapper { name, functions, options };
                Ok(Statement::CreateForeignDataWrapper(Box::new(wrapper)))
            }
            Some(K::Server) => self.create_of(Self::create_server),
            Some(K::Statistics) => self.create_of(Self::create_statistics),
            Some(K::Cast) => self.create_of(Self::create_cast),
            Some(K::Publication) => Ok(self.unsupported_command("CREATE PUBLICATION")),
            Some(K::Subscription) => Ok(self.unsupported_command("CREATE SUBSCRIPTION")),
            Some(K::Tablespace) => Ok(self.unsupported_command("CREATE TABLESPACE")),
            Some(K::Access) => Ok(self.unsupported_command("CREATE ACCESS METHOD")),
            Some(K::Event) => Ok(self.unsupported_command("CREATE EVENT TRIGGER")),
            Some(K::Conversion | K::Default) => Ok(self.unsupported_command("CREATE CONVERSION")),
            Some(K::Text) => Ok(self.unsupported_command("CREATE TEXT SEARCH")),
            Some(K::Assertion) => {
                let at = self.pos();
                Err(self.unsupported("CREATE ASSERTION is not yet implemented", at))
            }
            _ => self.create_or_replace(false),
        }
    }

    fn create_schema(&mut self) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = if self.at(K::Authorization) { None } else { Some(self.col_id()?) };
        let owner = if self.take(K::Authorization) { Some(self.role_spec()?) } else { None };
        let elements_at = self.pos();
        let mut elements = Vec::new();
        while self.at_any(&[K::Create, K::Grant]) {
            let begin = self.pos();
            let statement = if self.at(K::Grant) { self.grant()? } else { self.create()? };
            let is_element = matches!(
                statement,
                Statement::CreateTable(_)
                    | Statement::CreateIndex(_)
                    | Statement::CreateSequence(_)
                    | Statement::CreateTrigger(_)
                    | Statement::CreateView(_)
                    | Statement::Grant(_)
            );
            if !is_element {
                return Err(self.error("syntax error", begin));
            }
            elements.push(statement);
        }
        if if_not_exists && !elements.is_empty() {
            let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
            return Err(self.unsupported(message, elements_at));
        }
        Ok(Statement::CreateSchema(Box::new(CreateSchema { name, owner, if_not_exists, elements })))
    }

    fn create_type(&mut self) -> Result<Statement> {
        let name = self.any_name()?;
        if !self.take(K::As) {
            let definition = if self.kind() == T::LeftParen { Some(self.definition()?) } else { None };
            return Ok(define(ObjectKind::Type, DefineName::Name(name), definition));
        }
        if self.take(K::Enum) {
            self.expect(T::LeftParen)?;
            let mut labels = Vec::new();
            if self.kind() != T::RightParen {
                labels = self.list(Self::string)?;
            }
            self.expect(T::RightParen)?;
            return Ok(Statement::CreateEnum(Box::new(CreateEnum { name, labels })));
        }
        if self.take(K::Range) {
            let options = self.definition()?;
            return Ok(Statement::CreateRangeType(Box::new(CreateRangeType { name, options })));
        }
        self.expect(T::LeftParen)?;
        let mut attributes = Vec::new();
        if self.kind() != T::RightParen {
            attributes = self.list(Self::column_definition)?;
        }
        self.expect(T::RightParen)?;
        Ok(Statement::CreateCompositeType(Box::new(CreateCompositeType { name, attributes })))
    }

    fn create_domain(&mut self) -> Result<Statement> {
        let name = self.any_name()?;
        self.take(K::As);
        let ty = self.type_name()?;
        let (collation, constraints) = self.domain_constraints()?;
        Ok(Statement::CreateDomain(Box::new(CreateDomain { name, ty, collation, constraints })))
    }

    /// An aggregate; without arguments behind its name in the old syntax.
    fn create_aggregate(&mut self, replace: bool) -> Result<Statement> {
        let name = self.func_name()?;
        // The old syntax has `(name = value, …)` only.
        let is_old =
            self.kind() == T::LeftParen && self.peek_at(2).kind == T::Equal && Self::is_plain_name(self.peek_at(1));
        let signature = if is_old {
            FunctionSignature { name, args: None, star: false, direct_args: None }
        } else {
            self.aggregate_args(name)?
        };
        let definition = Some(self.definition()?);
        let name = DefineName::Aggregate(signature);
        let kind = ObjectKind::Aggregate;
        Ok(Statement::Define(Box::new(Define { kind, name, replace, if_not_exists: false, definition, from: None })))
    }

    fn create_operator(&mut self) -> Result<Statement> {
        match self.opt_operator_group() {
            Some(ObjectKind::OperatorClass) => self.create_operator_class(),
            Some(_) => {
                let name = self.any_name()?;
                self.need(K::Using)?;
                Ok(Statement::CreateOperatorFamily(name, self.col_id()?))
            }
            None => {
                let name = self.any_operator()?;
                let definition = Some(self.definition()?);
                Ok(define(ObjectKind::Operator, DefineName::Operator(name), definition))
            }
        }
    }

    fn create_operator_class(&mut self) -> Result<Statement> {
        let name = self.any_name()?;
        let default = self.take(K::Default);
        self.need_words(&[K::For, K::Type])?;
        let ty = self.type_name()?;
        self.need(K::Using)?;
        let method = self.col_id()?;
        let family = if self.take(K::Family) { Some(self.any_name()?) } else { None };
        self.need(K::As)?;
        let items = self.list(Self::operator_class_item)?;
        let class = CreateOperatorClass { name, default, ty, method, family, items };
        Ok(Statement::CreateOperatorClass(Box::new(class)))
    }

    pub(super) fn operator_class_item(&mut self) -> Result<OperatorClassItem> {
        if self.take(K::Storage) {
            return Ok(OperatorClassItem::Storage(self.type_name()?));
        }
        if self.take(K::Function) {
            let number = self.integer()?;
            let types = if self.kind() == T::LeftParen { self.paren_list(Self::type_name)? } else { Vec::new() };
            return Ok(OperatorClassItem::Function { number, types, function: self.function_signature()? });
        }
        self.need(K::Operator)?;
        let number = self.integer()?;
        let operator = self.any_operator()?;
        let types = if self.kind() == T::LeftParen {
            let (left, right) = self.operator_types()?;
            Some(OperatorSignature { name: operator.clone(), left, right })
        } else {
            None
        };
        let mut order_by = None;
        if self.take(K::For) && !self.take(K::Search) {
            self.need_words(&[K::Order, K::By])?;
            order_by = Some(self.any_name()?);
        }
        let at = self.pos();
        if self.take(K::Recheck) {
            return Err(self.unsupported("RECHECK is no longer required", at).with_hint("Update your data type."));
        }
        Ok(OperatorClassItem::Operator { number, operator, types, order_by })
    }

    fn create_collation(&mut self) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.any_name()?;
        let (mut definition, mut from) = (None, None);
        if self.take(K::From) {
            from = Some(self.any_name()?);
        } else {
            definition = Some(self.definition()?);
        }
        let (kind, name) = (ObjectKind::Collation, DefineName::Name(name));
        Ok(Statement::Define(Box::new(Define { kind, name, replace: false, if_not_exists, definition, from })))
    }

    fn create_extension(&mut self) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.col_id()?;
        self.take(K::With);
        let mut options = Vec::new();
        loop {
            let at = self.pos();
            if self.take(K::Schema) {
                options.push(ExtensionOption::Schema(self.col_id()?));
            } else if self.take(K::Version) {
                options.push(ExtensionOption::Version(self.non_reserved_word_or_string()?));
            } else if self.take(K::Cascade) {
                options.push(ExtensionOption::Cascade);
            } else if self.take(K::From) {
                self.non_reserved_word_or_string()?;
                return Err(self.unsupported("CREATE EXTENSION ... FROM is no longer supported", at));
            } else {
                break;
            }
        }
        Ok(Statement::CreateExtension(Box::new(CreateExtension { name, if_not_exists, options })))
    }

    fn create_user_mapping(&mut self) -> Result<Statement> {
        let if_condition = self.opt_if_not_exists();
        self.need(K::For)?;
        let user = self.auth_ident()?;
        self.need(K::Server)?;
        let server = self.col_id()?;
        let options = self.opt_generic_options()?;
        let mapping = UserMapping { action: MappingAction::Create, if_condition, user, server, options };
        Ok(Statement::UserMapping(Box::new(mapping)))
    }

    fn create_policy(&mut self) -> Result<Statement> {
        let name = self.col_id()?;
        self.need(K::On)?;
        let table = self.qualified_name()?;
        let mut permissive = true;
        if self.take(K::As) {
            let at = self.pos();
            permissive = match self.plain_name()?.as_str() {
                "permissive" => true,
                "restrictive" => false,
                other => {
                    let error = self.error(format!("unrecognized row security option \"{other}\""), at);
                    let hint = "Only PERMISSIVE or RESTRICTIVE policies are supported currently.";
                    return Err(error.with_hint(hint));
                }
            };
        }
        let mut command = PolicyCommand::All;
        if self.take(K::For) {
            command = match self.keyword() {
                Some(K::All) => PolicyCommand::All,
                Some(K::Select) => PolicyCommand::Select,
                Some(K::Insert) => PolicyCommand::Insert,
                Some(K::Update) => PolicyCommand::Update,
                Some(K::Delete) => PolicyCommand::Delete,
                _ => return Err(self.unexpected()),
            };
            self.advance();
        }
        let roles = if self.take(K::To) { self.role_list()? } else { vec![RoleSpec::Public] };
        let (using, check) = self.policy_conditions()?;
        let policy = CreatePolicy { name, table, permissive, command, roles, using, check };
        Ok(Statement::CreatePolicy(Box::new(policy)))
    }

    /// USING and WITH CHECK.
    pub(super) fn policy_conditions(&mut self) -> Result<(Option<crate::ast::Expr>, Option<crate::ast::Expr>)> {
        let using = if self.take(K::Using) { Some(self.paren_expr()?) } else { None };
        let mut check = None;
        if self.take(K::With) {
            self.need(K::Check)?;
            check = Some(self.paren_expr()?);
        }
        Ok((using, check))
    }

    /// HANDLER and VALIDATOR, or NO before them.
    pub(super) fn wrapper_functions(&mut self) -> Result<Vec<WrapperFunction>> {
        let mut functions = Vec::new();
        loop {
            let is_no = self.at(K::No) && matches!(self.keyword_at(1), Some(K::Handler | K::Validator));
            if is_no {
                self.advance();
            }
            let is_handler = self.at(K::Handler);
            if !is_handler && !self.at(K::Validator) {
                return Ok(functions);
            }
            self.advance();
            let name = if is_no { None } else { Some(self.any_name()?) };
            functions.push(if is_handler { WrapperFunction::Handler(name) } else { WrapperFunction::Validator(name) });
        }
    }

    fn create_server(&mut self) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.col_id()?;
        let ty = if self.take(K::Type) { Some(self.string()?) } else { None };
        let version = self.opt_server_version()?;
        self.need_words(&[K::Foreign, K::Data, K::Wrapper])?;
        let wrapper = self.col_id()?;
        let options = self.opt_generic_options()?;
        let server = CreateServer { name, if_not_exists, ty, version, wrapper, options };
        Ok(Statement::CreateServer(Box::new(server)))
    }

    #[expect(clippy::option_option, reason = "VERSION NULL is not the same as no VERSION")]
    pub(super) fn opt_server_version(&mut self) -> Result<Option<Option<Text>>> {
        if !self.take(K::Version) {
            return Ok(None);
        }
        Ok(Some(if self.take(K::Null) { None } else { Some(self.string()?) }))
    }

    pub(super) fn import_schema(&mut self) -> Result<Statement> {
        self.advance();
        self.need_words(&[K::Foreign, K::Schema])?;
        let remote_schema = self.col_id()?;
        let names = |parser: &mut Self| {
            let tables = parser.paren_list(Self::relation_name)?;
            Ok(tables.into_iter().map(|(name, _)| name).collect::<Vec<Name>>())
        };
        let tables = if self.take(K::Limit) {
            self.need(K::To)?;
            ImportTables::LimitTo(names(self)?)
        } else if self.take(K::Except) {
            ImportTables::Except(names(self)?)
        } else {
            ImportTables::All
        };
        self.need_words(&[K::From, K::Server])?;
        let server = self.col_id()?;
        self.need(K::Into)?;
        let into = self.col_id()?;
        let options = self.opt_generic_options()?;
        let import = ImportForeignSchema { remote_schema, tables, server, into, options };
        Ok(Statement::ImportForeignSchema(Box::new(import)))
    }

    fn create_cast(&mut self) -> Result<Statement> {
        let (source, target) = self.in_parens(|parser| {
            let source = parser.type_name()?;
            parser.need(K::As)?;
            Ok((source, parser.type_name()?))
        })?;
        let method = if self.take(K::Without) {
            self.need(K::Function)?;
            CastMethod::Binary
        } else {
            self.need(K::With)?;
            if self.take(K::Inout) {
                CastMethod::InOut
            } else {
                self.need(K::Function)?;
                CastMethod::Function(self.function_signature()?)
            }
        };
        let context = if !self.take(K::As) {
            CastContext::Explicit
        } else if self.take(K::Implicit) {
            CastContext::Implicit
        } else {
            self.need(K::Assignment)?;
            CastContext::Assignment
        };
        Ok(Statement::CreateCast(Box::new(CreateCast { source, target, method, context })))
    }

    fn create_trigger(&mut self, replace: bool) -> Result<Statement> {
        let constraint = self.take(K::Constraint);
        self.need(K::Trigger)?;
        let name = self.col_id()?;
        let timing = match self.keyword() {
            Some(K::After) => TriggerTiming::After,
            Some(K::Before) if !constraint => TriggerTiming::Before,
            Some(K::Instead) if !constraint => {
                self.advance();
                if !self.at(K::Of) {
                    return Err(self.unexpected());
                }
                TriggerTiming::InsteadOf
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        let mut events = vec![self.trigger_event()?];
        while self.take(K::Or) {
            let event = self.trigger_event()?;
            let is_same = |other: &TriggerEvent| std::mem::discriminant(other) == std::mem::discriminant(&event);
            if events.iter().any(is_same) {
                return Err(self.error_near("duplicate trigger events specified"));
            }
            events.push(event);
        }
        self.need(K::On)?;
        let table = self.qualified_name()?;
        let (mut from, mut attributes, mut transitions) = (None, ConstraintAttributes::default(), Vec::new());
        let mut for_each_row = false;
        if constraint {
            from = if self.take(K::From) { Some(self.qualified_name()?) } else { None };
            attributes = self.deferrable_attributes("TRIGGER")?;
            self.need_words(&[K::For, K::Each, K::Row])?;
            for_each_row = true;
        } else {
            if self.take(K::Referencing) {
                transitions.push(self.trigger_transition()?);
                while self.at_any(&[K::New, K::Old]) {
                    transitions.push(self.trigger_transition()?);
                }
            }
            if self.take(K::For) {
                self.take(K::Each);
                for_each_row = self.take(K::Row);
                if !for_each_row {
                    self.need(K::Statement)?;
                }
            }
        }
        let when = if self.take(K::When) { Some(self.paren_expr()?) } else { None };
        self.need(K::Execute)?;
        if !self.take(K::Function) {
            self.need(K::Procedure)?;
        }
        let function = self.func_name()?;
        let args = self.trigger_args()?;
        if constraint && replace {
            return Err(model::Error::unsupported("CREATE OR REPLACE CONSTRAINT TRIGGER is not supported"));
        }
        Ok(Statement::CreateTrigger(Box::new(CreateTrigger {
            replace,
            constraint,
            name,
            timing,
            events,
            table,
            from,
            attributes,
            transitions,
            for_each_row,
            when,
            function,
            args,
        })))
    }

    fn trigger_event(&mut self) -> Result<TriggerEvent> {
        match self.keyword() {
            Some(K::Insert) => Ok(self.taken(TriggerEvent::Insert)),
            Some(K::Delete) => Ok(self.taken(TriggerEvent::Delete)),
            Some(K::Truncate) => Ok(self.taken(TriggerEvent::Truncate)),
            Some(K::Update) => {
                self.advance();
                let columns = if self.take(K::Of) { self.name_list()? } else { Vec::new() };
                Ok(TriggerEvent::Update(columns))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn trigger_transition(&mut self) -> Result<TriggerTransition> {
        let new = self.take(K::New);
        if !new {
            self.need(K::Old)?;
        }
        let table = self.take(K::Table);
        if !table {
            self.need(K::Row)?;
        }
        self.take(K::As);
        Ok(TriggerTransition { name: self.col_id()?, new, table })
    }

    /// Arguments, which are all texts; the list may be empty, even before a comma.
    fn trigger_args(&mut self) -> Result<Vec<Text>> {
        self.expect(T::LeftParen)?;
        let mut args = Vec::new();
        if self.kind() != T::RightParen {
            if self.kind() != T::Comma {
                args.push(self.trigger_arg()?);
            }
            while self.eat(T::Comma) {
                args.push(self.trigger_arg()?);
            }
        }
        self.expect(T::RightParen)?;
        Ok(args)
    }

    fn trigger_arg(&mut self) -> Result<Text> {
        let token = self.peek();
        match token.kind {
            T::Integer => Ok(compact_str::format_compact!("{}", self.integer()?)),
            T::Number => Ok(self.taken(Text::new(token.text(self.sql)))),
            _ if token.is_string() => self.string(),
            _ => self.col_label(),
        }
    }

    fn create_rule(&mut self, replace: bool) -> Result<Statement> {
        let name = self.col_id()?;
        self.need_words(&[K::As, K::On])?;
        let event = match self.keyword() {
            Some(K::Select) => RuleEvent::Select,
            Some(K::Update) => RuleEvent::Update,
            Some(K::Delete) => RuleEvent::Delete,
            Some(K::Insert) => RuleEvent::Insert,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        self.need(K::To)?;
        let table = self.qualified_name()?;
        let filter = self.opt_where()?;
        self.need(K::Do)?;
        let instead = self.take(K::Instead);
        if !instead {
            self.take(K::Also);
        }
        let mut actions = Vec::new();
        let is_nothing = self.take(K::Nothing);
        if !is_nothing && self.kind() == T::LeftParen && !self.parens_begin_query_only() {
            self.advance();
            loop {
                if !matches!(self.kind(), T::Semicolon | T::RightParen) {
                    actions.push(self.rule_action()?);
                }
                if !self.eat(T::Semicolon) {
                    break;
                }
            }
            self.expect(T::RightParen)?;
        } else if !is_nothing {
            actions.push(self.rule_action()?);
        }
        let rule = CreateRule { replace, name, table, event, filter, instead, actions };
        Ok(Statement::CreateRule(Box::new(rule)))
    }

    /// Whether a parenthesis begins a query with a clause behind it, rather than a list of actions.
    fn parens_begin_query_only(&self) -> bool {
        if !self.parens_begin_query() {
            return false;
        }
        let mut depth = 0_usize;
        for (ahead, token) in self.tokens[self.at..].iter().enumerate() {
            match token.kind {
                T::LeftParen => depth += 1,
                T::RightParen if depth == 1 => return !matches!(self.peek_at(ahead + 1).kind, T::End | T::Semicolon),
                T::RightParen => depth -= 1,
                T::Semicolon | T::End => return false,
                _ => {}
            }
        }
        false
    }

    fn rule_action(&mut self) -> Result<Statement> {
        match self.keyword() {
            Some(K::Notify) => self.notify(),
            Some(K::Merge) => Err(self.unexpected()),
            _ => self.preparable_statement(),
        }
    }
}

/// A definition that neither replaces nor has conditions.
fn define(kind: ObjectKind, name: DefineName, definition: Option<Vec<crate::ast::DefinitionItem>>) -> Statement {
    Statement::Define(Box::new(Define { kind, name, replace: false, if_not_exists: false, definition, from: None }))
}
