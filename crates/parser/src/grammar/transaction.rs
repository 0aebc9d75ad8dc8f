//! Transactions, prepared statements and cursors.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    DeclareCursor, Execute, Fetch, FetchDirection, IsolationLevel, Prepare, Statement, Transaction, TransactionMode,
};

impl Parser<'_> {
    pub(super) fn begin_or_end(&mut self) -> Result<Statement> {
        let is_begin = self.at(K::Begin);
        self.advance();
        self.opt_transaction_word();
        if is_begin {
            let modes = self.opt_transaction_modes()?;
            return Ok(Statement::Transaction(Transaction::Begin(modes)));
        }
        Ok(Statement::Transaction(Transaction::Commit { chain: self.opt_chain()? }))
    }

    pub(super) fn transaction(&mut self) -> Result<Statement> {
        let keyword = self.keyword();
        self.advance();
        let transaction = match keyword {
            Some(K::Start) => {
                self.need(K::Transaction)?;
                Transaction::Start(self.opt_transaction_modes()?)
            }
            Some(K::Savepoint) => Transaction::Savepoint(self.col_id()?),
            Some(K::Release) => {
                // A savepoint may have that name.
                if self.at(K::Savepoint) && Self::is_col_id(self.peek_at(1)) {
                    self.advance();
                }
                Transaction::Release(self.col_id()?)
            }
            Some(K::Commit) if self.take(K::Prepared) => Transaction::CommitPrepared(self.string()?),
            Some(K::Commit) => {
                self.opt_transaction_word();
                Transaction::Commit { chain: self.opt_chain()? }
            }
            Some(K::Rollback) if self.take(K::Prepared) => Transaction::RollbackPrepared(self.string()?),
            rollback => {
                self.opt_transaction_word();
                if rollback == Some(K::Rollback) && self.take(K::To) {
                    if self.at(K::Savepoint) && Self::is_col_id(self.peek_at(1)) {
                        self.advance();
                    }
                    Transaction::RollbackTo(self.col_id()?)
                } else {
                    Transaction::Rollback { chain: self.opt_chain()? }
                }
            }
        };
        Ok(Statement::Transaction(transaction))
    }

    fn opt_transaction_word(&mut self) {
        if !self.take(K::Work) {
            self.take(K::Transaction);
        }
    }

    fn opt_chain(&mut self) -> Result<bool> {
        if !self.take(K::And) {
            return Ok(false);
        }
        let chain = !self.take(K::No);
        self.need(K::Chain)?;
        Ok(chain)
    }

    fn opt_transaction_modes(&mut self) -> Result<Vec<TransactionMode>> {
        if self.at_transaction_mode() { self.transaction_modes() } else { Ok(Vec::new()) }
    }

    fn at_transaction_mode(&self) -> bool {
        self.at_any(&[K::Isolation, K::Read, K::Deferrable, K::Not])
    }

    /// Modes, with or without commas between them.
    pub(super) fn transaction_modes(&mut self) -> Result<Vec<TransactionMode>> {
        let mut modes = vec![self.transaction_mode()?];
        while self.eat(T::Comma) || self.at_transaction_mode() {
            modes.push(self.transaction_mode()?);
        }
        Ok(modes)
    }

    fn transaction_mode(&mut self) -> Result<TransactionMode> {
        if self.take(K::Isolation) {
            self.need(K::Level)?;
            return Ok(TransactionMode::Isolation(self.isolation_level()?));
        }
        if self.take(K::Read) {
            let read_only = self.take(K::Only);
            if !read_only {
                self.need(K::Write)?;
            }
            return Ok(TransactionMode::ReadOnly(read_only));
        }
        let deferrable = !self.take(K::Not);
        self.need(K::Deferrable)?;
        Ok(TransactionMode::Deferrable(deferrable))
    }

    fn isolation_level(&mut self) -> Result<IsolationLevel> {
        if self.take(K::Serializable) {
            return Ok(IsolationLevel::Serializable);
        }
        if self.take(K::Repeatable) {
            self.need(K::Read)?;
            return Ok(IsolationLevel::RepeatableRead);
        }
        self.need(K::Read)?;
        if self.take(K::Uncommitted) {
            return Ok(IsolationLevel::ReadUncommitted);
        }
        self.need(K::Committed)?;
        Ok(IsolationLevel::ReadCommitted)
    }

    pub(super) fn prepare(&mut self) -> Result<Statement> {
        self.advance();
        if self.at(K::Transaction) && self.peek_at(1).is_string() {
            self.advance();
            return Ok(Statement::Transaction(Transaction::Prepare(self.string()?)));
        }
        let name = self.col_id()?;
        let types = if self.kind() == T::LeftParen { self.paren_list(Self::type_name)? } else { Vec::new() };
        self.need(K::As)?;
        let statement = self.preparable_statement()?;
        Ok(Statement::Prepare(Box::new(Prepare { name, types, statement })))
    }

    /// Behind EXECUTE.
    pub(super) fn execute(&mut self) -> Result<Execute> {
        let name = self.col_id()?;
        let args = if self.kind() == T::LeftParen { self.paren_list(Self::a_expr)? } else { Vec::new() };
        Ok(Execute { name, args })
    }

    pub(super) fn declare_cursor(&mut self) -> Result<Statement> {
        self.advance();
        let name = self.col_id()?;
        let (mut binary, mut scroll, mut insensitive) = (false, None, None);
        loop {
            match self.keyword() {
                Some(K::No) => {
                    self.advance();
                    self.need(K::Scroll)?;
                    scroll = Some(false);
                    continue;
                }
                Some(K::Scroll) => scroll = Some(true),
                Some(K::Binary) => binary = true,
                Some(K::Asensitive) => insensitive = Some(false),
                Some(K::Insensitive) => insensitive = Some(true),
                _ => break,
            }
            self.advance();
        }
        self.need(K::Cursor)?;
        let hold = self.take(K::With);
        if hold || self.take(K::Without) {
            self.need(K::Hold)?;
        }
        self.need(K::For)?;
        let query = self.select_statement()?;
        let cursor = DeclareCursor { name, binary, scroll, insensitive, hold, query };
        Ok(Statement::DeclareCursor(Box::new(cursor)))
    }

    pub(super) fn fetch(&mut self) -> Result<Statement> {
        let is_move = self.at(K::Move);
        self.advance();
        let direction = self.fetch_direction()?;
        if direction.is_none() {
            // `FETCH name`, and `FETCH FROM name`.
            self.opt_from_or_in();
        }
        let cursor = self.col_id()?;
        let direction = direction.unwrap_or(FetchDirection::Forward(1));
        Ok(Statement::Fetch(Box::new(Fetch { is_move, direction, cursor })))
    }

    fn opt_from_or_in(&mut self) {
        if !self.take(K::From) {
            self.take(K::In);
        }
    }

    fn fetch_direction(&mut self) -> Result<Option<FetchDirection>> {
        use FetchDirection as D;
        if matches!(self.kind(), T::Integer | T::Plus | T::Minus) {
            let count = self.signed_integer()?;
            self.opt_from_or_in();
            return Ok(Some(D::Forward(count)));
        }
        // A cursor may be named by one of these words.
        if matches!(self.peek_at(1).kind, T::End | T::Semicolon) {
            return Ok(None);
        }
        let Some(keyword) = self.keyword() else { return Ok(None) };
        let direction = match keyword {
            K::Next => D::Forward(1),
            K::Prior => D::Backward(1),
            K::First => D::Absolute(1),
            K::Last => D::Absolute(-1),
            K::All => D::ForwardAll,
            K::Absolute | K::Relative => {
                self.advance();
                let count = self.signed_integer()?;
                self.opt_from_or_in();
                return Ok(Some(if keyword == K::Absolute { D::Absolute(count) } else { D::Relative(count) }));
            }
            K::Forward | K::Backward => {
                self.advance();
                let is_forward = keyword == K::Forward;
                let direction = if self.take(K::All) {
                    if is_forward { D::ForwardAll } else { D::BackwardAll }
                } else {
                    let has_count = matches!(self.kind(), T::Integer | T::Plus | T::Minus);
                    let count = if has_count { self.signed_integer()? } else { 1 };
                    if is_forward { D::Forward(count) } else { D::Backward(count) }
                };
                self.opt_from_or_in();
                return Ok(Some(direction));
            }
            _ => return Ok(None),
        };
        self.advance();
        self.opt_from_or_in();
        Ok(Some(direction))
    }
}
