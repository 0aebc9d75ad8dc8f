//! INSERT, UPDATE, DELETE and MERGE.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    ConflictAction, ConflictTarget, Delete, Expr, ExprKind, Insert, Merge, MergeAction, MergeBranch, OnConflict,
    Overriding, SetClause, Statement, Target, TargetColumn, TargetTable, Update, With,
};

impl Parser<'_> {
    /// SELECT, INSERT, UPDATE, DELETE or MERGE.
    pub(super) fn preparable_statement(&mut self) -> Result<Statement> {
        self.tree(|parser| match parser.keyword() {
            Some(K::Insert | K::Update | K::Delete | K::Merge) => parser.changing_statement(None),
            Some(K::With) => parser.statement_with(),
            _ => Ok(Statement::Query(parser.select_statement()?)),
        })
    }

    /// A statement behind WITH.
    fn statement_with(&mut self) -> Result<Statement> {
        if self.changes_behind_with() {
            let with = self.with_clause()?;
            return self.changing_statement(Some(Box::new(with)));
        }
        Ok(Statement::Query(self.select_statement()?))
    }

    /// Whether the first word of a statement behind its WITH is one that changes. WITH of a query is parsed where queries are.
    fn changes_behind_with(&self) -> bool {
        let mut depth = 0_usize;
        for token in &self.tokens[self.at..] {
            match (token.kind, token.keyword) {
                (T::LeftParen, _) => depth += 1,
                (T::RightParen, _) => depth = depth.saturating_sub(1),
                (T::End | T::Semicolon, _) => return false,
                (_, Some(K::Insert | K::Update | K::Delete | K::Merge)) if depth == 0 => return true,
                (_, Some(K::Select | K::Values | K::Table)) if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    fn changing_statement(&mut self, with: Option<Box<With>>) -> Result<Statement> {
        Ok(match self.keyword() {
            Some(K::Insert) => Statement::Insert(Box::new(self.insert(with)?)),
            Some(K::Update) => Statement::Update(Box::new(self.update(with)?)),
            Some(K::Delete) => Statement::Delete(Box::new(self.delete(with)?)),
            Some(K::Merge) => Statement::Merge(Box::new(self.merge(with)?)),
            _ => return Err(self.unexpected()),
        })
    }

    fn insert(&mut self, with: Option<Box<With>>) -> Result<Insert> {
        self.advance();
        self.need(K::Into)?;
        let name = self.qualified_name()?;
        let alias = if self.take(K::As) { Some(self.col_id()?) } else { None };
        let table = TargetTable { name, only: false, alias };
        let mut insert = Insert {
            with,
            table,
            columns: Vec::new(),
            overriding: None,
            source: None,
            on_conflict: None,
            returning: Vec::new(),
        };
        if self.take(K::Default) {
            self.need(K::Values)?;
        } else {
            // A parenthesis begins a list of columns, unless a query begins behind it.
            if self.kind() == T::LeftParen && !self.parens_begin_query() {
                insert.columns = self.paren_list(Self::target_column)?;
            }
            insert.overriding = self.opt_overriding()?;
            insert.source = Some(self.select_statement()?);
        }
        insert.on_conflict = self.opt_on_conflict()?.map(Box::new);
        insert.returning = self.opt_returning()?;
        Ok(insert)
    }

    pub(super) fn target_column(&mut self) -> Result<TargetColumn> {
        let at = self.pos();
        let name = self.col_id()?;
        Ok(TargetColumn { name, steps: self.steps()?, at })
    }

    fn opt_overriding(&mut self) -> Result<Option<Overriding>> {
        if !self.take(K::Overriding) {
            return Ok(None);
        }
        let overriding = if self.take(K::User) {
            Overriding::User
        } else {
            self.need(K::System)?;
            Overriding::System
        };
        self.need(K::Value)?;
        Ok(Some(overriding))
    }

    fn opt_on_conflict(&mut self) -> Result<Option<OnConflict>> {
        let at = self.pos();
        if !self.take(K::On) {
            return Ok(None);
        }
        self.need(K::Conflict)?;
        let target = if self.take(K::On) {
            self.need(K::Constraint)?;
            Some(ConflictTarget::Constraint(self.col_id()?))
        } else if self.kind() == T::LeftParen {
            let at = self.pos();
            let elements = self.paren_list(Self::index_element)?;
            Some(ConflictTarget::Index { elements, filter: self.opt_where()?, at })
        } else {
            None
        };
        self.need(K::Do)?;
        if self.take(K::Nothing) {
            return Ok(Some(OnConflict { target, action: ConflictAction::Nothing, at }));
        }
        self.need_words(&[K::Update, K::Set])?;
        let set = self.list(Self::set_clause)?;
        let action = ConflictAction::Update { set, filter: self.opt_where()? };
        Ok(Some(OnConflict { target, action, at }))
    }

    fn opt_returning(&mut self) -> Result<Vec<Target>> {
        if self.take(K::Returning) { self.target_list() } else { Ok(Vec::new()) }
    }

    fn set_clause(&mut self) -> Result<SetClause> {
        if self.kind() != T::LeftParen {
            let column = self.target_column()?;
            self.expect(T::Equal)?;
            return Ok(SetClause::One(column, self.a_expr()?));
        }
        let columns = self.paren_list(Self::target_column)?;
        self.expect(T::Equal)?;
        Ok(SetClause::Many(columns, self.a_expr()?))
    }

    /// The table to change, with its alias: SET is none without AS.
    fn target_table(&mut self) -> Result<TargetTable> {
        let (name, only) = self.relation_name()?;
        let has_alias = self.take(K::As) || Self::is_col_id(self.peek()) && !self.at(K::Set);
        let alias = if has_alias { Some(self.col_id()?) } else { None };
        Ok(TargetTable { name, only, alias })
    }

    fn update(&mut self, with: Option<Box<With>>) -> Result<Update> {
        self.advance();
        let table = self.target_table()?;
        self.need(K::Set)?;
        let set = self.list(Self::set_clause)?;
        let from = self.opt_from()?;
        let filter = self.opt_where_or_current()?;
        Ok(Update { with, table, set, from, filter, returning: self.opt_returning()? })
    }

    fn delete(&mut self, with: Option<Box<With>>) -> Result<Delete> {
        self.advance();
        self.need(K::From)?;
        let table = self.target_table()?;
        let using = if self.take(K::Using) { self.table_refs()? } else { Vec::new() };
        let filter = self.opt_where_or_current()?;
        Ok(Delete { with, table, using, filter, returning: self.opt_returning()? })
    }

    /// WHERE with a condition, or with CURRENT OF a cursor.
    fn opt_where_or_current(&mut self) -> Result<Option<Expr>> {
        if !(self.at(K::Where) && self.keyword_at(1) == Some(K::Current) && self.keyword_at(2) == Some(K::Of)) {
            return self.opt_where();
        }
        self.advance();
        let at = self.pos();
        self.at += 2;
        let cursor = self.col_id()?;
        Ok(Some(Expr::new(ExprKind::CurrentOf(Box::new(cursor)), at)))
    }

    fn merge(&mut self, with: Option<Box<With>>) -> Result<Merge> {
        self.advance();
        self.need(K::Into)?;
        let table = self.target_table()?;
        self.need(K::Using)?;
        let source = self.table_ref()?;
        self.need(K::On)?;
        let on = self.a_expr()?;
        let mut branches = Vec::new();
        while self.at(K::When) {
            branches.push(self.merge_branch()?);
        }
        if branches.is_empty() {
            return Err(self.unexpected());
        }
        Ok(Merge { with, table, source, on, branches })
    }

    fn merge_branch(&mut self) -> Result<MergeBranch> {
        self.advance();
        let matched = !self.take(K::Not);
        self.need(K::Matched)?;
        let condition = if self.take(K::And) { Some(self.a_expr()?) } else { None };
        self.need(K::Then)?;
        let action = match self.keyword() {
            Some(K::Do) => {
                self.advance();
                self.need(K::Nothing)?;
                MergeAction::Nothing
            }
            Some(K::Update) if matched => {
                self.advance();
                self.need(K::Set)?;
                MergeAction::Update(self.list(Self::set_clause)?)
            }
            Some(K::Delete) if matched => {
                self.advance();
                MergeAction::Delete
            }
            Some(K::Insert) if !matched => self.merge_insert()?,
            _ => return Err(self.unexpected()),
        };
        Ok(MergeBranch { matched, condition, action })
    }

    fn merge_insert(&mut self) -> Result<MergeAction> {
        self.advance();
        if self.take_words(&[K::Default, K::Values]) {
            return Ok(MergeAction::Insert { columns: Vec::new(), overriding: None, values: None });
        }
        let columns = if self.kind() == T::LeftParen { self.paren_list(Self::target_column)? } else { Vec::new() };
        let overriding = self.opt_overriding()?;
        self.need(K::Values)?;
        let values = self.paren_list(Self::a_expr)?;
        Ok(MergeAction::Insert { columns, overriding, values: Some(values) })
    }
}
