//! EXPLAIN, VACUUM, ANALYZE, CLUSTER, REINDEX, REFRESH and TRUNCATE.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    Cluster, DefinitionItem, Explain, Ident, Name, OptionValue, RefreshMaterializedView, Reindex, ReindexKind,
    Statement, Truncate, Vacuum,
};

impl Parser<'_> {
    /// `(option [value], …)` of a command.
    fn utility_options(&mut self) -> Result<Vec<DefinitionItem>> {
        self.paren_list(|parser| {
            let at = parser.pos();
            let name = match parser.keyword() {
                Some(K::Analyze | K::Analyse) => {
                    parser.advance();
                    Ident::const_new("analyze")
                }
                _ => parser.non_reserved_word()?,
            };
            let value = match parser.kind() {
                T::Comma | T::RightParen => None,
                _ if parser.at_numeric() => Some(OptionValue::Number(parser.numeric()?)),
                _ => Some(OptionValue::Text(parser.opt_boolean_or_string()?)),
            };
            Ok(DefinitionItem { name, value, at })
        })
    }

    /// Takes a word that is an option, if it is there.
    fn opt_word_option(&mut self, keyword: K, options: &mut Vec<DefinitionItem>) {
        let at = self.pos();
        if self.take(keyword) {
            options.push(DefinitionItem { name: Ident::const_new(keyword.word()), value: None, at });
        }
    }

    fn opt_analyze_word(&mut self, options: &mut Vec<DefinitionItem>) {
        let at = self.pos();
        if self.take(K::Analyze) || self.take(K::Analyse) {
            options.push(DefinitionItem { name: Ident::const_new("analyze"), value: None, at });
        }
    }

    pub(super) fn explain(&mut self) -> Result<Statement> {
        self.advance();
        let mut options = Vec::new();
        // A parenthesis may begin a query.
        if self.kind() == T::LeftParen && !self.parens_begin_query() {
            options = self.utility_options()?;
        } else {
            self.opt_analyze_word(&mut options);
            self.opt_word_option(K::Verbose, &mut options);
        }
        let statement = match self.keyword() {
            Some(K::Declare) => self.declare_cursor()?,
            Some(K::Refresh) => self.refresh()?,
            Some(K::Execute) => {
                self.advance();
                Statement::Execute(Box::new(self.execute()?))
            }
            Some(K::Create) => match self.create()? {
                statement @ Statement::CreateTableAs(_) => statement,
                _ => return Err(self.unexpected()),
            },
            _ => self.preparable_statement()?,
        };
        Ok(Statement::Explain(Box::new(Explain { options, statement })))
    }

    pub(super) fn vacuum(&mut self) -> Result<Statement> {
        let analyze = !self.at(K::Vacuum);
        self.advance();
        let mut options = Vec::new();
        if self.kind() == T::LeftParen {
            options = self.utility_options()?;
        } else if analyze {
            self.opt_word_option(K::Verbose, &mut options);
        } else {
            self.opt_word_option(K::Full, &mut options);
            self.opt_word_option(K::Freeze, &mut options);
            self.opt_word_option(K::Verbose, &mut options);
            self.opt_analyze_word(&mut options);
        }
        let tables = if Self::is_col_id(self.peek()) {
            self.list(|parser| Ok((parser.qualified_name()?, parser.opt_name_list()?)))?
        } else {
            Vec::new()
        };
        Ok(Statement::Vacuum(Box::new(Vacuum { analyze, options, tables })))
    }

    pub(super) fn cluster(&mut self) -> Result<Statement> {
        self.advance();
        let mut options = Vec::new();
        let in_parens = self.kind() == T::LeftParen;
        if in_parens {
            options = self.utility_options()?;
        } else {
            self.opt_word_option(K::Verbose, &mut options);
        }
        if !in_parens && !Self::is_col_id(self.peek()) {
            return Ok(Statement::Cluster(Box::new(Cluster { options, table: None, index: None })));
        }
        let mut table = self.qualified_name()?;
        let mut index = None;
        if self.take(K::Using) {
            index = Some(self.col_id()?);
        } else if !in_parens && table.qualifier.is_empty() && self.take(K::On) {
            index = Some(table.name);
            table = self.qualified_name()?;
        }
        Ok(Statement::Cluster(Box::new(Cluster { options, table: Some(table), index })))
    }

    pub(super) fn reindex(&mut self) -> Result<Statement> {
        self.advance();
        let mut options = if self.kind() == T::LeftParen { self.utility_options()? } else { Vec::new() };
        let kind = match self.keyword() {
            Some(K::Index) => ReindexKind::Index,
            Some(K::Table) => ReindexKind::Table,
            Some(K::Schema) => ReindexKind::Schema,
            Some(K::System) => ReindexKind::System,
            Some(K::Database) => ReindexKind::Database,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        self.opt_word_option(K::Concurrently, &mut options);
        let name = if matches!(kind, ReindexKind::Index | ReindexKind::Table) {
            self.qualified_name()?
        } else {
            let at = self.pos();
            Name { qualifier: Box::default(), name: self.col_id()?, at }
        };
        Ok(Statement::Reindex(Box::new(Reindex { options, kind, name })))
    }

    pub(super) fn refresh(&mut self) -> Result<Statement> {
        self.advance();
        self.need_words(&[K::Materialized, K::View])?;
        let concurrently = self.take(K::Concurrently);
        let name = self.qualified_name()?;
        let no_data = self.opt_with_no_data()?;
        Ok(Statement::RefreshMaterializedView(Box::new(RefreshMaterializedView { name, concurrently, no_data })))
    }

    /// `WITH [NO] DATA`: whether without.
    pub(super) fn opt_with_no_data(&mut self) -> Result<bool> {
        if !self.take(K::With) {
            return Ok(false);
        }
        let no_data = self.take(K::No);
        self.need(K::Data)?;
        Ok(no_data)
    }

    pub(super) fn truncate(&mut self) -> Result<Statement> {
        self.advance();
        self.take(K::Table);
        let tables = self.list(Self::relation_name)?;
        let restart_identity = self.take(K::Restart);
        if restart_identity || self.take(K::Continue) {
            self.need(K::Identity)?;
        }
        let behavior = self.opt_drop_behavior();
        Ok(Statement::Truncate(Box::new(Truncate { tables, restart_identity, behavior })))
    }
}
