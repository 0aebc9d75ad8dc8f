//! Lists of options and definitions, options of sequences, and what constraints are followed by.

use model::{Error, Result};

use super::{K, Parser, T};
use crate::ast::{
    ConstraintAttributes, DefinitionItem, DropBehavior, GenericOption, OptionAction, OptionValue, RelOption,
    SequenceOption,
};
use crate::keyword::Category;

impl Parser<'_> {
    pub(super) fn opt_drop_behavior(&mut self) -> DropBehavior {
        if self.take(K::Cascade) {
            return DropBehavior::Cascade;
        }
        self.take(K::Restrict);
        DropBehavior::Restrict
    }

    /// `(name [= value], …)`
    pub(super) fn definition(&mut self) -> Result<Vec<DefinitionItem>> {
        self.paren_list(Self::definition_item)
    }

    pub(super) fn opt_with_definition(&mut self) -> Result<Vec<DefinitionItem>> {
        if self.at(K::With) && self.peek_at(1).kind == T::LeftParen {
            self.advance();
            return self.definition();
        }
        Ok(Vec::new())
    }

    fn definition_item(&mut self) -> Result<DefinitionItem> {
        let at = self.pos();
        let name = self.col_label()?;
        let value = if self.eat(T::Equal) { Some(self.definition_value()?) } else { None };
        Ok(DefinitionItem { name, value, at })
    }

    pub(super) fn definition_value(&mut self) -> Result<OptionValue> {
        let token = self.peek();
        let is_number = match token.kind {
            T::Integer | T::Number => true,
            T::Plus | T::Minus => matches!(self.peek_at(1).kind, T::Integer | T::Number),
            _ => false,
        };
        if is_number {
            return Ok(OptionValue::Number(self.numeric()?));
        }
        if token.is_string() {
            return Ok(OptionValue::Text(self.string()?));
        }
        if self.at_operator() || self.at(K::Operator) && self.peek_at(1).kind == T::LeftParen {
            return Ok(OptionValue::Operator(self.qual_all_op()?));
        }
        match token.keyword {
            Some(keyword) if keyword == K::None || keyword.category() == Category::Reserved => {
                Ok(OptionValue::Word(self.col_label()?))
            }
            _ => Ok(OptionValue::Type(self.func_type()?)),
        }
    }

    /// `(name = value, namespace.name, …)`
    pub(super) fn rel_options(&mut self) -> Result<Vec<RelOption>> {
        self.paren_list(|parser| {
            let at = parser.pos();
            let first = parser.col_label()?;
            let (namespace, name) = if parser.eat(T::Dot) { (Some(first), parser.col_label()?) } else { (None, first) };
            let value = match parser.eat(T::Equal) {
                false => None,
                // Millrace's own: `orientation = row`, as in openGauss.
                true if parser.at(K::Row) => Some(OptionValue::Word(parser.col_label()?)),
                true => Some(parser.definition_value()?),
            };
            Ok(RelOption { namespace, name, value, at })
        })
    }

    pub(super) fn opt_with_rel_options(&mut self) -> Result<Vec<RelOption>> {
        if self.at(K::With) && self.peek_at(1).kind == T::LeftParen {
            self.advance();
            return self.rel_options();
        }
        Ok(Vec::new())
    }

    /// `OPTIONS (name 'value', …)`
    pub(super) fn opt_generic_options(&mut self) -> Result<Vec<GenericOption>> {
        if !(self.at(K::Options) && self.peek_at(1).kind == T::LeftParen) {
            return Ok(Vec::new());
        }
        self.advance();
        self.paren_list(|parser| parser.generic_option(OptionAction::Unspecified))
    }

    /// OPTIONS with SET, ADD and DROP.
    pub(super) fn alter_generic_options(&mut self) -> Result<Vec<GenericOption>> {
        self.need(K::Options)?;
        self.paren_list(|parser| {
            // An option may be named by one of these words.
            let is_action = !parser.peek_at(1).is_string();
            let action = match parser.keyword() {
                Some(K::Set) if is_action => OptionAction::Set,
                Some(K::Add) if is_action => OptionAction::Add,
                Some(K::Drop) if is_action => OptionAction::Drop,
                _ => OptionAction::Unspecified,
            };
            if action != OptionAction::Unspecified {
                parser.advance();
            }
            parser.generic_option(action)
        })
    }

    fn generic_option(&mut self, action: OptionAction) -> Result<GenericOption> {
        let at = self.pos();
        let name = self.col_label()?;
        let value = if action == OptionAction::Drop { None } else { Some(self.string()?) };
        Ok(GenericOption { action, name, value, at })
    }

    pub(super) fn sequence_options(&mut self) -> Result<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.opt_sequence_option()? {
            options.push(option);
        }
        Ok(options)
    }

    pub(super) fn opt_paren_sequence_options(&mut self) -> Result<Vec<SequenceOption>> {
        if self.kind() != T::LeftParen {
            return Ok(Vec::new());
        }
        self.in_parens(|parser| {
            let options = parser.sequence_options()?;
            if options.is_empty() { Err(parser.unexpected()) } else { Ok(options) }
        })
    }

    pub(super) fn opt_sequence_option(&mut self) -> Result<Option<SequenceOption>> {
        use SequenceOption as O;
        let Some(keyword) = self.keyword() else { return Ok(None) };
        let is_known = matches!(
            keyword,
            K::As
                | K::Cache
                | K::Cycle
                | K::No
                | K::Increment
                | K::Logged
                | K::Unlogged
                | K::Maxvalue
                | K::Minvalue
                | K::Owned
                | K::Sequence
                | K::Start
                | K::Restart
        );
        if !is_known {
            return Ok(None);
        }
        self.advance();
        Ok(Some(match keyword {
            K::As => O::As(self.simple_type_name()?),
            K::Cache => O::Cache(self.numeric()?),
            K::Cycle => O::Cycle(true),
            K::Increment => {
                self.take(K::By);
                O::Increment(self.numeric()?)
            }
            K::Logged => O::Logged(true),
            K::Unlogged => O::Logged(false),
            K::Maxvalue => O::MaxValue(Some(self.numeric()?)),
            K::Minvalue => O::MinValue(Some(self.numeric()?)),
            K::Owned => {
                self.need(K::By)?;
                O::OwnedBy(self.any_name()?)
            }
            K::Sequence => {
                self.need(K::Name)?;
                O::SequenceName(self.any_name()?)
            }
            K::Start => {
                self.take(K::With);
                O::Start(self.numeric()?)
            }
            K::Restart => {
                let has_value = self.take(K::With) || self.at_numeric();
                O::Restart(if has_value { Some(self.numeric()?) } else { None })
            }
            _ => match self.keyword() {
                Some(K::Cycle) => self.taken(O::Cycle(false)),
                Some(K::Maxvalue) => self.taken(O::MaxValue(None)),
                Some(K::Minvalue) => self.taken(O::MinValue(None)),
                _ => return Err(self.unexpected()),
            },
        }))
    }

    /// A value for the word that is next.
    pub(super) fn taken<R>(&mut self, value: R) -> R {
        self.advance();
        value
    }

    /// `ALWAYS | BY DEFAULT`: whether always.
    pub(super) fn generated_when(&mut self) -> Result<bool> {
        if self.take(K::Always) {
            return Ok(true);
        }
        self.need_words(&[K::By, K::Default])?;
        Ok(false)
    }

    /// DEFERRABLE and its like.
    fn constraint_attributes(&mut self) -> Result<ConstraintAttributes> {
        let mut attributes = ConstraintAttributes::default();
        loop {
            let at = self.pos();
            let before = attributes;
            if self.take_words(&[K::Not, K::Deferrable]) {
                attributes.deferrable = Some(false);
            } else if self.take(K::Deferrable) {
                attributes.deferrable = Some(true);
            } else if self.at(K::Initially) {
                self.advance();
                let deferred = self.take(K::Deferred);
                if !deferred {
                    self.need(K::Immediate)?;
                }
                attributes.initially_deferred = Some(deferred);
            } else if self.take_words(&[K::Not, K::Valid]) {
                attributes.not_valid = true;
            } else if self.take_words(&[K::No, K::Inherit]) {
                attributes.no_inherit = true;
            } else {
                return Ok(attributes);
            }
            if attributes.deferrable == Some(false) && attributes.initially_deferred == Some(true) {
                return Err(self.error("constraint declared INITIALLY DEFERRED must be DEFERRABLE", at));
            }
            let conflicts = before.deferrable.is_some_and(|old| attributes.deferrable != Some(old))
                || before.initially_deferred.is_some_and(|old| attributes.initially_deferred != Some(old));
            if conflicts {
                return Err(self.error("conflicting constraint properties", at));
            }
        }
    }

    /// Attributes of a constraint of this kind; `allowed`: deferrable, NOT VALID, NO INHERIT.
    pub(super) fn attributes_of(&mut self, kind: &str, allowed: [bool; 3]) -> Result<ConstraintAttributes> {
        let attributes = self.constraint_attributes()?;
        let defers = attributes.deferrable == Some(true) || attributes.initially_deferred == Some(true);
        let refused = [
            (defers && !allowed[0], "DEFERRABLE"),
            (attributes.not_valid && !allowed[1], "NOT VALID"),
            (attributes.no_inherit && !allowed[2], "NO INHERIT"),
        ];
        match refused.iter().find(|(is, _)| *is) {
            // PostgreSQL has no position for it.
            Some((_, word)) => Err(Error::unsupported(format!("{kind} constraints cannot be marked {word}"))),
            None => Ok(attributes),
        }
    }
}
