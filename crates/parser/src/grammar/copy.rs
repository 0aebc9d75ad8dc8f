//! COPY, with the options of both syntaxes under the names of the new one.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{Copy, CopySource, DefinitionItem, Ident, OptionValue, Statement};

impl Parser<'_> {
    pub(super) fn copy(&mut self) -> Result<Statement> {
        self.advance();
        let mut options = Vec::new();
        if self.kind() == T::LeftParen {
            return self.copy_query();
        }
        if self.at(K::Binary) {
            options.push(self.word_option("format", OptionValue::Text("binary".into())));
            self.advance();
        }
        let name = self.qualified_name()?;
        let columns = self.opt_name_list()?;
        let from = self.take(K::From);
        if !from {
            self.need(K::To)?;
        }
        let (program, file) = self.copy_file()?;
        if self.at(K::Delimiters) || self.at(K::Using) {
            self.take(K::Using);
            let at = self.pos();
            self.need(K::Delimiters)?;
            let value = Some(OptionValue::Text(self.string()?));
            options.push(DefinitionItem { name: Ident::const_new("delimiter"), value, at });
        }
        self.copy_options(&mut options)?;
        let where_at = self.pos();
        let filter = self.opt_where()?;
        if filter.is_some() && !from {
            return Err(self
                .error("WHERE clause not allowed with COPY TO", where_at)
                .with_hint("Try the COPY (SELECT ... WHERE ...) TO variant."));
        }
        let source = CopySource::Table(name, columns);
        Ok(Statement::Copy(Box::new(Copy { source, from, program, file, options, filter })))
    }

    fn copy_query(&mut self) -> Result<Statement> {
        let statement = self.in_parens(Self::preparable_statement)?;
        self.need(K::To)?;
        let (program, file) = self.copy_file()?;
        let mut options = Vec::new();
        self.copy_options(&mut options)?;
        let source = CopySource::Query(statement);
        Ok(Statement::Copy(Box::new(Copy { source, from: false, program, file, options, filter: None })))
    }

    /// Whether a program, and the file or program, if it is not STDIN or STDOUT.
    fn copy_file(&mut self) -> Result<(bool, Option<crate::ast::Text>)> {
        let program = self.take(K::Program);
        if self.at_any(&[K::Stdin, K::Stdout]) {
            if program {
                return Err(self.error("STDIN/STDOUT not allowed with PROGRAM", self.pos()));
            }
            self.advance();
            return Ok((false, None));
        }
        Ok((program, Some(self.string()?)))
    }

    fn word_option(&self, name: &'static str, value: OptionValue) -> DefinitionItem {
        DefinitionItem { name: Ident::const_new(name), value: Some(value), at: self.pos() }
    }

    fn copy_options(&mut self, options: &mut Vec<DefinitionItem>) -> Result<()> {
        self.take(K::With);
        if self.kind() == T::LeftParen {
            options.extend(self.paren_list(Self::copy_generic_option)?);
            return Ok(());
        }
        while let Some(option) = self.opt_old_copy_option()? {
            options.push(option);
        }
        Ok(())
    }

    fn copy_generic_option(&mut self) -> Result<DefinitionItem> {
        let at = self.pos();
        let name = self.col_label()?;
        let value = match self.kind() {
            T::Comma | T::RightParen => None,
            T::Star => {
                self.advance();
                Some(OptionValue::Star)
            }
            T::LeftParen => {
                let item = |parser: &mut Self| Ok(OptionValue::Text(parser.opt_boolean_or_string()?));
                Some(OptionValue::List(self.paren_list(item)?))
            }
            _ if self.at_numeric() => Some(OptionValue::Number(self.numeric()?)),
            _ => Some(OptionValue::Text(self.opt_boolean_or_string()?)),
        };
        Ok(DefinitionItem { name, value, at })
    }

    fn opt_old_copy_option(&mut self) -> Result<Option<DefinitionItem>> {
        let at = self.pos();
        let Some(keyword) = self.keyword() else { return Ok(None) };
        let (name, value) = match keyword {
            K::Binary => ("format", OptionValue::Text("binary".into())),
            K::Csv => ("format", OptionValue::Text("csv".into())),
            K::Freeze => ("freeze", OptionValue::Text("true".into())),
            K::Header => ("header", OptionValue::Text("true".into())),
            K::Delimiter | K::Null | K::Quote | K::Escape | K::Encoding => {
                self.advance();
                if keyword != K::Encoding {
                    self.take(K::As);
                }
                let value = Some(OptionValue::Text(self.string()?));
                return Ok(Some(DefinitionItem { name: Ident::const_new(keyword.word()), value, at }));
            }
            K::Force => return self.force_option().map(Some),
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(DefinitionItem { name: Ident::const_new(name), value: Some(value), at }))
    }

    fn force_option(&mut self) -> Result<DefinitionItem> {
        let at = self.pos();
        self.advance();
        let name = if self.take(K::Quote) {
            "force_quote"
        } else if self.take(K::Not) {
            self.need(K::Null)?;
            "force_not_null"
        } else {
            self.need(K::Null)?;
            "force_null"
        };
        let value = if name == "force_quote" && self.eat(T::Star) {
            OptionValue::Star
        } else {
            OptionValue::List(self.name_list()?.into_iter().map(OptionValue::Text).collect())
        };
        Ok(DefinitionItem { name: Ident::const_new(name), value: Some(value), at })
    }
}
