//! Choice of the statement by its first words.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{Show, Statement};

impl Parser<'_> {
    /// A statement of a text: also BEGIN and END, which mean something else in the body of a function.
    pub(super) fn top_statement(&mut self) -> Result<Statement> {
        match self.keyword() {
            Some(K::Begin | K::End) => self.begin_or_end(),
            _ => self.statement(),
        }
    }

    pub(super) fn statement(&mut self) -> Result<Statement> {
        let Some(keyword) = self.keyword() else { return self.statement_of_other_word() };
        match keyword {
            K::Select | K::Values | K::Table | K::With | K::Insert | K::Update | K::Delete | K::Merge => {
                self.preparable_statement()
            }
            K::Create => self.create(),
            K::Alter => self.alter(),
            K::Drop => self.drop_statement(),
            K::Copy => self.copy(),
            K::Abort | K::Start | K::Commit | K::Rollback | K::Savepoint | K::Release => self.transaction(),
            K::Prepare => self.prepare(),
            K::Execute => {
                self.advance();
                Ok(Statement::Execute(Box::new(self.execute()?)))
            }
            K::Deallocate => {
                self.advance();
                self.take(K::Prepare);
                let name = if self.take(K::All) { None } else { Some(self.col_id()?) };
                Ok(Statement::Deallocate(name))
            }
            K::Declare => self.declare_cursor(),
            K::Fetch | K::Move => self.fetch(),
            K::Close => {
                self.advance();
                let name = if self.take(K::All) { None } else { Some(self.col_id()?) };
                Ok(Statement::CloseCursor(name))
            }
            K::Set => self.set_statement(),
            K::Reset => self.reset_statement(),
            K::Show => self.show(),
            K::Discard => self.discard(),
            K::Listen => {
                self.advance();
                Ok(Statement::Listen(self.col_id()?))
            }
            K::Unlisten => {
                self.advance();
                let channel = if self.eat(T::Star) { None } else { Some(self.col_id()?) };
                Ok(Statement::Unlisten(channel))
            }
            K::Notify => self.notify(),
            K::Lock => self.lock(),
            K::Explain => self.explain(),
            K::Vacuum | K::Analyze | K::Analyse => self.vacuum(),
            K::Cluster => self.cluster(),
            K::Reindex => self.reindex(),
            K::Checkpoint => {
                self.advance();
                Ok(Statement::Checkpoint)
            }
            K::Load => {
                self.advance();
                Ok(Statement::Load(self.string()?))
            }
            K::Call => {
                self.advance();
                let name = self.func_name()?;
                Ok(Statement::Call(Box::new(self.func_application(name)?)))
            }
            K::Do => self.do_statement(),
            K::Refresh => self.refresh(),
            K::Truncate => self.truncate(),
            K::Comment => self.comment(),
            K::Security => self.security_label(),
            K::Grant => self.grant(),
            K::Revoke => self.revoke(),
            K::Reassign => self.reassign(),
            K::Import => self.import_schema(),
            _ => self.statement_of_other_word(),
        }
    }

    /// A query in parentheses, or a command of Millrace.
    fn statement_of_other_word(&mut self) -> Result<Statement> {
        if self.kind() == T::LeftParen {
            return self.tree(|parser| Ok(Statement::Query(parser.select_statement()?)));
        }
        let is_describe = self.at_word(0, "describe") || self.at(K::Desc);
        if is_describe && !matches!(self.peek_at(1).kind, T::End | T::Semicolon) {
            self.advance();
            self.take(K::Table);
            return Ok(Statement::Describe(Box::new(self.qualified_name()?)));
        }
        if self.at_word(0, "summarize") && !matches!(self.peek_at(1).kind, T::End | T::Semicolon) {
            self.advance();
            return self.tree(|parser| Ok(Statement::Summarize(parser.summarized()?)));
        }
        Err(self.unexpected())
    }

    /// SHOW: a variable, or lists of Millrace.
    fn show(&mut self) -> Result<Statement> {
        self.advance();
        if self.at(K::Tables) && matches!(self.peek_at(1).kind, T::End | T::Semicolon) {
            self.advance();
            return Ok(Statement::ShowTables);
        }
        let is_columns = self.at(K::Columns) || self.at_word(0, "fields");
        if is_columns && matches!(self.keyword_at(1), Some(K::From | K::In)) {
            self.at += 2;
            return Ok(Statement::Describe(Box::new(self.qualified_name()?)));
        }
        if self.at(K::Create) && self.keyword_at(1) == Some(K::Table) {
            self.at += 2;
            return Ok(Statement::ShowCreateTable(Box::new(self.qualified_name()?)));
        }
        if self.take(K::All) {
            return Ok(Statement::Show(Show::All));
        }
        Ok(Statement::Show(Show::Variable(self.variable_of_words()?)))
    }

    /// A command that is only recognised: goes to the statement's end.
    pub(super) fn unsupported_command(&mut self, command: &'static str) -> Statement {
        while !matches!(self.kind(), T::Semicolon | T::End) {
            self.advance();
        }
        Statement::Unsupported { command }
    }
}
