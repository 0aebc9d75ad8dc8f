//! Names, labels and constants.

use compact_str::CompactString;
use model::Result;

use super::{K, Parser, T};
use crate::ast::{Ident, Name, NumericValue, OperatorName, Pos, RoleSpec, Text};
use crate::keyword::{Category, Keyword};
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// The name that a token stands for.
    #[inline]
    pub(super) fn name_of(&self, token: Token) -> Result<Ident> {
        match token.keyword {
            Some(keyword) => Ok(CompactString::const_new(keyword.word())),
            None => token.name(self.sql).map_err(|error| error.into_error(self.sql)),
        }
    }

    fn taken_name(&mut self) -> Result<Ident> {
        let name = self.name_of(self.peek())?;
        self.advance();
        Ok(name)
    }

    fn is_name(token: Token, is_allowed: impl FnOnce(Keyword) -> bool) -> bool {
        match token.kind {
            TokenKind::Word => token.keyword.is_none_or(is_allowed),
            TokenKind::QuotedName | TokenKind::UnicodeName => true,
            _ => false,
        }
    }

    /// Whether a token may name a column or a table.
    #[inline]
    pub(super) fn is_col_id(token: Token) -> bool {
        Self::is_name(token, Keyword::is_column_name)
    }

    pub(super) fn is_type_function_name(token: Token) -> bool {
        Self::is_name(token, Keyword::is_type_or_function_name)
    }

    pub(super) fn is_col_label(token: Token) -> bool {
        Self::is_name(token, |_| true)
    }

    pub(super) fn is_non_reserved(token: Token) -> bool {
        Self::is_name(token, |keyword| keyword.category() != Category::Reserved)
    }

    /// A name that is no key word.
    pub(super) fn is_plain_name(token: Token) -> bool {
        Self::is_name(token, |_| false)
    }

    fn name_if(&mut self, is: bool) -> Result<Ident> {
        if is { self.taken_name() } else { Err(self.unexpected()) }
    }

    pub(super) fn col_id(&mut self) -> Result<Ident> {
        self.name_if(Self::is_col_id(self.peek()))
    }

    pub(super) fn col_label(&mut self) -> Result<Ident> {
        self.name_if(Self::is_col_label(self.peek()))
    }

    pub(super) fn type_function_name(&mut self) -> Result<Ident> {
        self.name_if(Self::is_type_function_name(self.peek()))
    }

    pub(super) fn non_reserved_word(&mut self) -> Result<Ident> {
        self.name_if(Self::is_non_reserved(self.peek()))
    }

    pub(super) fn plain_name(&mut self) -> Result<Ident> {
        self.name_if(Self::is_plain_name(self.peek()))
    }

    pub(super) fn name_list(&mut self) -> Result<Vec<Ident>> {
        self.list(Self::col_id)
    }

    pub(super) fn opt_name_list(&mut self) -> Result<Vec<Ident>> {
        if self.kind() == T::LeftParen { self.paren_list(Self::col_id) } else { Ok(Vec::new()) }
    }

    /// A name and the names behind its points.
    pub(super) fn any_name(&mut self) -> Result<Name> {
        let at = self.pos();
        let first = self.col_id()?;
        self.with_attrs(first, at)
    }

    pub(super) fn with_attrs(&mut self, first: Ident, at: Pos) -> Result<Name> {
        if self.kind() != T::Dot {
            return Ok(Name { qualifier: Box::default(), name: first, at });
        }
        let mut parts = vec![first];
        while self.eat(T::Dot) {
            parts.push(self.col_label()?);
        }
        let name = parts.pop().unwrap_or_default();
        Ok(Name { qualifier: parts.into(), name, at })
    }

    /// The name of a relation: at most three parts.
    pub(super) fn qualified_name(&mut self) -> Result<Name> {
        let name = self.any_name()?;
        // Other steps behind a name are parsed by PostgreSQL, and refused at the token behind them.
        if self.kind() == T::LeftBracket {
            return Err(self.unexpected());
        }
        if name.qualifier.len() > 2 {
            let parts: Vec<&str> = name.parts().map(Ident::as_str).collect();
            let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
            return Err(self.error(message, name.at));
        }
        Ok(name)
    }

    pub(super) fn qualified_name_list(&mut self) -> Result<Vec<Name>> {
        self.list(Self::qualified_name)
    }

    /// The name of a function: one that may be a type's, or a qualified one.
    pub(super) fn func_name(&mut self) -> Result<Name> {
        let token = self.peek();
        if Self::is_col_id(token) && self.peek_at(1).kind == T::Dot {
            return self.any_name();
        }
        let at = self.pos();
        let name = self.type_function_name()?;
        Ok(Name { qualifier: Box::default(), name, at })
    }

    /// A text constant.
    pub(super) fn string(&mut self) -> Result<Text> {
        let token = self.peek();
        if !token.is_string() {
            return Err(self.unexpected());
        }
        let text = self.text_of(token)?;
        self.advance();
        Ok(text)
    }

    #[inline]
    pub(super) fn text_of(&self, token: Token) -> Result<Text> {
        match token.string(self.sql) {
            Ok(text) => Ok(Text::from(text)),
            Err(error) => Err(error.into_error(self.sql)),
        }
    }

    pub(super) fn non_reserved_word_or_string(&mut self) -> Result<Text> {
        if self.peek().is_string() { self.string() } else { self.non_reserved_word() }
    }

    pub(super) fn opt_boolean_or_string(&mut self) -> Result<Text> {
        match self.keyword() {
            Some(K::True | K::False | K::On) => self.col_label(),
            _ => self.non_reserved_word_or_string(),
        }
    }

    /// Digits of an `integer`.
    pub(super) fn integer(&mut self) -> Result<i32> {
        let token = self.peek();
        if token.kind != T::Integer {
            return Err(self.unexpected());
        }
        self.advance();
        Ok(self.integer_of(token))
    }

    pub(super) fn integer_of(&self, token: Token) -> i32 {
        token.text(self.sql).parse().unwrap_or(i32::MAX)
    }

    pub(super) fn signed_integer(&mut self) -> Result<i32> {
        let is_negative = self.kind() == T::Minus;
        if is_negative || self.kind() == T::Plus {
            self.advance();
        }
        let value = self.integer()?;
        Ok(if is_negative { -value } else { value })
    }

    pub(super) fn at_numeric(&self) -> bool {
        matches!(self.kind(), T::Plus | T::Minus | T::Integer | T::Number)
    }

    pub(super) fn numeric(&mut self) -> Result<NumericValue> {
        let is_negative = self.kind() == T::Minus;
        if is_negative || self.kind() == T::Plus {
            self.advance();
        }
        if self.kind() == T::Number {
            let mut text = Text::new(if is_negative { "-" } else { "" });
            text.push_str(self.peek().text(self.sql));
            self.advance();
            return Ok(NumericValue::Number(text));
        }
        let value = self.integer()?;
        Ok(NumericValue::Integer(if is_negative { -value } else { value }))
    }

    pub(super) fn at_operator(&self) -> bool {
        use TokenKind as T;
        matches!(
            self.kind(),
            T::Operator
                | T::Plus
                | T::Minus
                | T::Star
                | T::Slash
                | T::Percent
                | T::Caret
                | T::Less
                | T::Greater
                | T::Equal
                | T::LessEquals
                | T::GreaterEquals
                | T::NotEquals
        )
    }

    /// The operator that a token is: `!=` is `<>`.
    pub(super) fn symbol_of(&self, token: Token) -> Ident {
        if token.kind == T::NotEquals { Ident::const_new("<>") } else { Ident::new(token.text(self.sql)) }
    }

    /// Any operator, maybe behind a schema, without OPERATOR.
    pub(super) fn any_operator(&mut self) -> Result<OperatorName> {
        let mut schema = Vec::new();
        while !self.at_operator() {
            schema.push(self.col_id()?);
            self.expect(T::Dot)?;
        }
        let symbol = self.symbol_of(self.peek());
        self.advance();
        Ok(OperatorName { schema: schema.into(), symbol })
    }

    /// Any operator, or `OPERATOR(…)`.
    pub(super) fn qual_all_op(&mut self) -> Result<OperatorName> {
        if self.take(K::Operator) {
            return self.in_parens(Self::any_operator);
        }
        if !self.at_operator() {
            return Err(self.unexpected());
        }
        self.any_operator()
    }

    pub(super) fn role_spec(&mut self) -> Result<RoleSpec> {
        let at = self.pos();
        let role = match self.keyword() {
            Some(K::CurrentRole) => RoleSpec::CurrentRole,
            Some(K::CurrentUser) => RoleSpec::CurrentUser,
            Some(K::SessionUser) => RoleSpec::SessionUser,
            _ => {
                let name = self.non_reserved_word()?;
                return match name.as_str() {
                    "public" => Ok(RoleSpec::Public),
                    "none" => {
                        let state = model::SqlState("42939");
                        Err(self.error_of(state, "role name \"none\" is reserved", at))
                    }
                    _ => Ok(RoleSpec::Name(name)),
                };
            }
        };
        self.advance();
        Ok(role)
    }

    pub(super) fn role_list(&mut self) -> Result<Vec<RoleSpec>> {
        self.list(Self::role_spec)
    }

    /// A role that is named, not one that is meant by a word.
    pub(super) fn role_id(&mut self) -> Result<Ident> {
        let at = self.pos();
        let word = match self.role_spec()? {
            RoleSpec::Name(name) => return Ok(name),
            RoleSpec::Public => {
                let state = model::SqlState("42939");
                return Err(self.error_of(state, "role name \"public\" is reserved", at));
            }
            RoleSpec::CurrentRole => "CURRENT_ROLE",
            RoleSpec::CurrentUser => "CURRENT_USER",
            RoleSpec::SessionUser => "SESSION_USER",
        };
        let state = model::SqlState("42939");
        Err(self.error_of(state, format!("{word} cannot be used as a role name here"), at))
    }
}
