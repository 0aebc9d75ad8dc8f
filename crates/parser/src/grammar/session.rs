//! SET, RESET and SHOW, and other commands of a session.

use compact_str::format_compact;
use model::Result;

use super::types::system;
use super::{K, Parser, T};
use crate::ast::{
    Discard, ExprKind, Ident, Lock, LockMode, Notify, Set, SetAction, SetConstraints, SetScope, SetValue, Statement,
    Text, interval,
};

impl Parser<'_> {
    pub(super) fn set_statement(&mut self) -> Result<Statement> {
        self.advance();
        if self.at(K::Constraints) {
            return self.set_constraints();
        }
        let mut scope = SetScope::Session;
        // A variable may have one of these names.
        let is_name =
            |parser: &Self| matches!(parser.peek_at(1).kind, T::Equal | T::Dot) || parser.keyword_at(1) == Some(K::To);
        if self.at(K::Local) && !is_name(self) {
            self.advance();
            scope = SetScope::Local;
        } else if self.at(K::Session)
            && !is_name(self)
            && !matches!(self.keyword_at(1), Some(K::Authorization | K::Characteristics))
        {
            self.advance();
        }
        let action = self.set_rest()?;
        Ok(Statement::Set(Box::new(Set { scope, action })))
    }

    fn set_rest(&mut self) -> Result<SetAction> {
        if self.at(K::Transaction) && self.keyword_at(1) != Some(K::Snapshot) && !self.is_variable() {
            self.advance();
            return Ok(SetAction::Transaction(self.transaction_modes()?));
        }
        if self.take_words(&[K::Session, K::Characteristics]) {
            self.need_words(&[K::As, K::Transaction])?;
            return Ok(SetAction::SessionCharacteristics(self.transaction_modes()?));
        }
        self.set_rest_more()
    }

    /// Whether what follows is `name = …`, `name TO …`, `name.…` or `name FROM CURRENT`.
    fn is_variable(&self) -> bool {
        matches!(self.peek_at(1).kind, T::Equal | T::Dot) || matches!(self.keyword_at(1), Some(K::To | K::From))
    }

    /// Behind SET, all but transactions.
    pub(super) fn set_rest_more(&mut self) -> Result<SetAction> {
        let word = |name: &'static str| Ident::const_new(name);
        if !self.is_variable() {
            match self.keyword() {
                Some(K::Time) => {
                    self.advance();
                    self.need(K::Zone)?;
                    return Ok(match self.zone_value()? {
                        Some(value) => SetAction::Values(word("timezone"), vec![value]),
                        None => SetAction::Default(word("timezone")),
                    });
                }
                Some(K::Catalog) => {
                    self.advance();
                    let at = self.pos();
                    self.string()?;
                    return Err(self.unsupported("current database cannot be changed", at));
                }
                Some(K::Schema) => {
                    self.advance();
                    return Ok(SetAction::Values(word("search_path"), vec![SetValue::Text(self.string()?)]));
                }
                Some(K::Names) => {
                    self.advance();
                    if self.peek().is_string() {
                        let name = self.string()?;
                        return Ok(SetAction::Values(word("client_encoding"), vec![SetValue::Text(name)]));
                    }
                    self.take(K::Default);
                    return Ok(SetAction::Default(word("client_encoding")));
                }
                Some(K::Role) => {
                    self.advance();
                    let role = self.non_reserved_word_or_string()?;
                    return Ok(SetAction::Values(word("role"), vec![SetValue::Text(role)]));
                }
                Some(K::Session) => {
                    self.advance();
                    self.need(K::Authorization)?;
                    if self.take(K::Default) {
                        return Ok(SetAction::Default(word("session_authorization")));
                    }
                    let role = self.non_reserved_word_or_string()?;
                    return Ok(SetAction::Values(word("session_authorization"), vec![SetValue::Text(role)]));
                }
                Some(K::Xml) => {
                    self.advance();
                    self.need(K::Option)?;
                    let value = if self.take(K::Document) {
                        "DOCUMENT"
                    } else {
                        self.need(K::Content)?;
                        "CONTENT"
                    };
                    return Ok(SetAction::Values(word("xmloption"), vec![SetValue::Text(value.into())]));
                }
                Some(K::Transaction) => {
                    self.advance();
                    self.need(K::Snapshot)?;
                    return Ok(SetAction::TransactionSnapshot(self.string()?));
                }
                _ => {}
            }
        }
        let name = self.variable_name()?;
        if self.take(K::From) {
            self.need(K::Current)?;
            return Ok(SetAction::Current(name));
        }
        self.set_to(name)
    }

    /// `TO value`, `= value` or DEFAULT behind a variable.
    fn set_to(&mut self, name: Ident) -> Result<SetAction> {
        if !self.eat(T::Equal) {
            self.need(K::To)?;
        }
        if self.take(K::Default) {
            return Ok(SetAction::Default(name));
        }
        let values = self.list(|parser| {
            Ok(if parser.at_numeric() {
                SetValue::Number(parser.numeric()?)
            } else {
                SetValue::Text(parser.opt_boolean_or_string()?)
            })
        })?;
        Ok(SetAction::Values(name, values))
    }

    pub(super) fn generic_set(&mut self) -> Result<SetAction> {
        let name = self.variable_name()?;
        self.set_to(name)
    }

    /// A variable's name, with points in it.
    fn variable_name(&mut self) -> Result<Ident> {
        let mut name = self.col_id()?;
        while self.eat(T::Dot) {
            let part = self.col_id()?;
            name = format_compact!("{name}.{part}");
        }
        Ok(name)
    }

    fn zone_value(&mut self) -> Result<Option<SetValue>> {
        if self.at_any(&[K::Default, K::Local]) {
            self.advance();
            return Ok(None);
        }
        if self.at_numeric() {
            return Ok(Some(SetValue::Number(self.numeric()?)));
        }
        if self.at(K::Interval) {
            return self.interval_zone().map(Some);
        }
        let text: Text = if self.peek().is_string() { self.string()? } else { self.plain_name()? };
        Ok(Some(SetValue::Text(text)))
    }

    fn interval_zone(&mut self) -> Result<SetValue> {
        let at = self.pos();
        self.advance();
        if self.kind() == T::LeftParen {
            let modifiers = self.interval_precision()?;
            let text = self.string()?;
            return Ok(SetValue::Interval(text, system("interval", modifiers, at)));
        }
        let text = self.string()?;
        let fields_at = self.pos();
        let modifiers = self.opt_interval_fields()?;
        if let Some(ExprKind::Integer(mask)) = modifiers.first().map(|mask| &mask.kind)
            && mask & !(interval::HOUR | interval::MINUTE) != 0
        {
            return Err(self.error("time zone interval must be HOUR or HOUR TO MINUTE", fields_at));
        }
        Ok(SetValue::Interval(text, system("interval", modifiers, at)))
    }

    pub(super) fn reset_statement(&mut self) -> Result<Statement> {
        let action = self.reset()?;
        Ok(Statement::Set(Box::new(Set { scope: SetScope::Session, action })))
    }

    pub(super) fn reset(&mut self) -> Result<SetAction> {
        self.need(K::Reset)?;
        if self.take(K::All) {
            return Ok(SetAction::ResetAll);
        }
        Ok(SetAction::Reset(self.variable_of_words()?))
    }

    /// A variable, maybe one that has a name of several words.
    pub(super) fn variable_of_words(&mut self) -> Result<Ident> {
        for (words, name) in [
            (&[K::Time, K::Zone][..], "timezone"),
            (&[K::Transaction, K::Isolation, K::Level], "transaction_isolation"),
            (&[K::Session, K::Authorization], "session_authorization"),
        ] {
            if self.take_words(words) {
                return Ok(Ident::const_new(name));
            }
        }
        self.variable_name()
    }

    pub(super) fn generic_reset(&mut self) -> Result<SetAction> {
        self.need(K::Reset)?;
        Ok(if self.take(K::All) { SetAction::ResetAll } else { SetAction::Reset(self.variable_name()?) })
    }

    /// SET or RESET of a role, database or function; `transactions`: also of what transactions begin with.
    pub(super) fn set_reset_clause(&mut self, transactions: bool) -> Result<Set> {
        let action = if self.at(K::Reset) {
            self.reset()?
        } else {
            self.need(K::Set)?;
            if transactions { self.set_rest()? } else { self.set_rest_more()? }
        };
        Ok(Set { scope: SetScope::Session, action })
    }

    fn set_constraints(&mut self) -> Result<Statement> {
        self.advance();
        let names = if self.take(K::All) { Vec::new() } else { self.qualified_name_list()? };
        let deferred = self.take(K::Deferred);
        if !deferred {
            self.need(K::Immediate)?;
        }
        Ok(Statement::SetConstraints(Box::new(SetConstraints { names, deferred })))
    }

    pub(super) fn discard(&mut self) -> Result<Statement> {
        self.advance();
        let discard = match self.keyword() {
            Some(K::All) => Discard::All,
            Some(K::Temp | K::Temporary) => Discard::Temp,
            Some(K::Plans) => Discard::Plans,
            Some(K::Sequences) => Discard::Sequences,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Statement::Discard(discard))
    }

    pub(super) fn notify(&mut self) -> Result<Statement> {
        self.advance();
        let channel = self.col_id()?;
        let payload = if self.eat(T::Comma) { Some(self.string()?) } else { None };
        Ok(Statement::Notify(Box::new(Notify { channel, payload })))
    }

    pub(super) fn lock(&mut self) -> Result<Statement> {
        self.advance();
        self.take(K::Table);
        let tables = self.list(Self::relation_name)?;
        let mode = if self.take(K::In) {
            let mode = self.lock_mode()?;
            self.need(K::Mode)?;
            mode
        } else {
            LockMode::AccessExclusive
        };
        let nowait = self.take(K::Nowait);
        Ok(Statement::Lock(Box::new(Lock { tables, mode, nowait })))
    }

    fn lock_mode(&mut self) -> Result<LockMode> {
        let modes = [
            (&[K::Access, K::Share][..], LockMode::AccessShare),
            (&[K::Row, K::Share], LockMode::RowShare),
            (&[K::Row, K::Exclusive], LockMode::RowExclusive),
            (&[K::Share, K::Update, K::Exclusive], LockMode::ShareUpdateExclusive),
            (&[K::Share, K::Row, K::Exclusive], LockMode::ShareRowExclusive),
            (&[K::Share], LockMode::Share),
            (&[K::Exclusive], LockMode::Exclusive),
            (&[K::Access, K::Exclusive], LockMode::AccessExclusive),
        ];
        let mode = modes.iter().find(|(words, _)| self.at_words(words));
        let Some((words, mode)) = mode else {
            // The word that does not fit is behind the one that several modes begin with.
            if self.at_any(&[K::Access, K::Row]) {
                self.advance();
            }
            return Err(self.unexpected());
        };
        self.at += words.len();
        Ok(*mode)
    }
}
