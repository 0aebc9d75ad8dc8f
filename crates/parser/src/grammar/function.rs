//! CREATE and ALTER FUNCTION and PROCEDURE, and DO.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    AlterFunction, AtomicStatement, CreateFunction, DefinitionItem, FunctionBody, FunctionOption, FunctionParameter,
    Ident, ObjectKind, OptionValue, ParameterMode, Statement, TypeName, Volatility,
};

impl Parser<'_> {
    /// A parameter: its mode and name, in either order, and its type.
    pub(super) fn function_parameter(&mut self) -> Result<FunctionParameter> {
        let mut mode = self.opt_parameter_mode();
        let mut name = None;
        // A name is followed by a mode or a type; a type alone by neither.
        if Self::is_type_function_name(self.peek()) && self.begins_parameter_type(1) {
            name = Some(self.type_function_name()?);
            if mode == ParameterMode::Default {
                mode = self.opt_parameter_mode();
            }
        }
        let ty = self.func_type()?;
        Ok(FunctionParameter { mode, name, ty, default: None })
    }

    /// Whether a token behind a name shows that the name was a parameter's: a mode, or the first word of a type.
    fn begins_parameter_type(&self, ahead: usize) -> bool {
        let token = self.peek_at(ahead);
        match token.keyword {
            Some(K::In | K::Out | K::Inout | K::Variadic | K::Setof) => true,
            Some(keyword) => keyword.is_type_or_function_name() || is_type_word(keyword),
            None => Self::is_plain_name(token),
        }
    }

    fn opt_parameter_mode(&mut self) -> ParameterMode {
        let mode = match self.keyword() {
            Some(K::In) => ParameterMode::In,
            Some(K::Out) => ParameterMode::Out,
            Some(K::Inout) => ParameterMode::InOut,
            Some(K::Variadic) => ParameterMode::Variadic,
            _ => return ParameterMode::Default,
        };
        self.advance();
        if mode == ParameterMode::In && self.take(K::Out) {
            return ParameterMode::InOut;
        }
        mode
    }

    fn parameter_with_default(&mut self) -> Result<FunctionParameter> {
        let mut parameter = self.function_parameter()?;
        if self.take(K::Default) || self.eat(T::Equal) {
            parameter.default = Some(self.a_expr()?);
        }
        Ok(parameter)
    }

    /// Behind CREATE [OR REPLACE] FUNCTION or PROCEDURE.
    pub(super) fn create_function(&mut self, procedure: bool, replace: bool) -> Result<Statement> {
        let name = self.func_name()?;
        self.expect(T::LeftParen)?;
        let mut parameters = Vec::new();
        if !self.eat(T::RightParen) {
            parameters = self.list(Self::parameter_with_default)?;
            self.expect(T::RightParen)?;
        }
        let mut returns = None;
        if !procedure && self.at(K::Returns) && self.keyword_at(1) != Some(K::Null) {
            self.advance();
            if self.at(K::Table) && self.peek_at(1).kind == T::LeftParen {
                self.advance();
                let columns = self.paren_list(|parser| {
                    let name = Some(parser.type_function_name()?);
                    Ok(FunctionParameter { mode: ParameterMode::Table, name, ty: parser.func_type()?, default: None })
                })?;
                returns = Some(table_result(&columns));
                parameters.extend(columns);
            } else {
                returns = Some(self.func_type()?);
            }
        }
        let mut options = Vec::new();
        while let Some(option) = self.opt_function_option(true)? {
            options.push(option);
        }
        let body = self.opt_routine_body()?;
        let function = CreateFunction { procedure, replace, name, parameters, returns, options, body };
        Ok(Statement::CreateFunction(Box::new(function)))
    }

    /// An option; `creates`: also those that only CREATE takes.
    fn opt_function_option(&mut self, creates: bool) -> Result<Option<FunctionOption>> {
        use FunctionOption as O;
        let Some(keyword) = self.keyword() else { return Ok(None) };
        let option = match keyword {
            K::As if creates => {
                self.advance();
                let first = self.string()?;
                let second = if self.eat(T::Comma) { Some(self.string()?) } else { None };
                return Ok(Some(O::As(first, second)));
            }
            K::Language if creates => {
                self.advance();
                return Ok(Some(O::Language(self.non_reserved_word_or_string()?)));
            }
            K::Transform if creates => {
                self.advance();
                let types = self.list(|parser| {
                    parser.need_words(&[K::For, K::Type])?;
                    parser.type_name()
                })?;
                return Ok(Some(O::Transform(types)));
            }
            K::Window if creates => O::Window,
            K::Called => {
                self.advance();
                self.need_words(&[K::On, K::Null, K::Input])?;
                return Ok(Some(O::Strict(false)));
            }
            K::Returns => {
                self.advance();
                self.need_words(&[K::Null, K::On, K::Null, K::Input])?;
                return Ok(Some(O::Strict(true)));
            }
            K::Strict => O::Strict(true),
            K::Immutable => O::Volatility(Volatility::Immutable),
            K::Stable => O::Volatility(Volatility::Stable),
            K::Volatile => O::Volatility(Volatility::Volatile),
            K::External | K::Security => {
                self.take(K::External);
                self.need(K::Security)?;
                let definer = self.take(K::Definer);
                if !definer {
                    self.need(K::Invoker)?;
                }
                return Ok(Some(O::SecurityDefiner(definer)));
            }
            K::Leakproof => O::Leakproof(true),
            K::Not => {
                self.advance();
                self.need(K::Leakproof)?;
                return Ok(Some(O::Leakproof(false)));
            }
            K::Cost => {
                self.advance();
                return Ok(Some(O::Cost(self.numeric()?)));
            }
            K::Rows => {
                self.advance();
                return Ok(Some(O::Rows(self.numeric()?)));
            }
            K::Support => {
                self.advance();
                return Ok(Some(O::Support(self.any_name()?)));
            }
            K::Set | K::Reset => return Ok(Some(O::Set(Box::new(self.set_reset_clause(false)?)))),
            K::Parallel => {
                self.advance();
                return Ok(Some(O::Parallel(self.col_id()?)));
            }
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(option))
    }

    /// `RETURN expr`, or `BEGIN ATOMIC … END`.
    fn opt_routine_body(&mut self) -> Result<Option<FunctionBody>> {
        if self.take(K::Return) {
            return Ok(Some(FunctionBody::Return(self.a_expr()?)));
        }
        if !self.at(K::Begin) {
            return Ok(None);
        }
        self.advance();
        self.need(K::Atomic)?;
        let mut statements = Vec::new();
        loop {
            if self.eat(T::Semicolon) {
                continue;
            }
            if self.take(K::End) {
                return Ok(Some(FunctionBody::Atomic(statements)));
            }
            let statement = if self.take(K::Return) {
                AtomicStatement::Return(self.a_expr()?)
            } else {
                AtomicStatement::Statement(self.tree(Self::statement)?)
            };
            statements.push(statement);
            self.expect(T::Semicolon)?;
        }
    }

    /// Behind ALTER and the kind: options.
    pub(super) fn alter_function(
        &mut self,
        kind: ObjectKind,
        function: crate::ast::FunctionSignature,
    ) -> Result<Statement> {
        let mut options = Vec::new();
        while let Some(option) = self.opt_function_option(false)? {
            options.push(option);
        }
        if options.is_empty() {
            return Err(self.unexpected());
        }
        self.take(K::Restrict);
        Ok(Statement::AlterFunction(Box::new(AlterFunction { kind, function, options })))
    }

    pub(super) fn do_statement(&mut self) -> Result<Statement> {
        self.advance();
        let mut items = Vec::new();
        loop {
            let at = self.pos();
            if self.peek().is_string() {
                let value = Some(OptionValue::Text(self.string()?));
                items.push(DefinitionItem { name: Ident::const_new("as"), value, at });
            } else if self.take(K::Language) {
                let value = Some(OptionValue::Text(self.non_reserved_word_or_string()?));
                items.push(DefinitionItem { name: Ident::const_new("language"), value, at });
            } else if items.is_empty() {
                return Err(self.unexpected());
            } else {
                return Ok(Statement::Do(items));
            }
        }
    }
}

/// Words of types that name no function.
pub(super) fn is_type_word(keyword: K) -> bool {
    matches!(
        keyword,
        K::Int
            | K::Integer
            | K::Smallint
            | K::Bigint
            | K::Real
            | K::Float
            | K::Double
            | K::Decimal
            | K::Dec
            | K::Numeric
            | K::Boolean
            | K::Bit
            | K::Character
            | K::Char
            | K::Varchar
            | K::National
            | K::Nchar
            | K::Timestamp
            | K::Time
            | K::Interval
    )
}

/// RETURNS TABLE: a set of its only column's type, or of records.
fn table_result(columns: &[FunctionParameter]) -> TypeName {
    let mut ty = match columns {
        [column] => column.ty.clone(),
        _ => super::types::system("record", Vec::new(), crate::ast::Pos::default()),
    };
    ty.is_set = true;
    ty
}
