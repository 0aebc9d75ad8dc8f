//! Queries.

use model::{Error, Result, SqlState};

use super::expr::Paren;
use super::{K, Parser, T};
use crate::ast::{
    Cte, CteBody, CycleClause, DistinctClause, Expr, ExprKind, GroupItem, Ident, Into, Limit, LockStrength, LockWait,
    Locking, Persistence, Pos, Query, QueryBody, SearchClause, Select, SetOperation, SetOperator, Statement, TableExpr,
    Target, With,
};

/// A query is moved by its pointer.
type BoxedQuery = Box<Query>;

impl Parser<'_> {
    /// Whether a token, `ahead`, begins a query that is not in parentheses.
    pub(super) fn is_query_word(&self, ahead: usize) -> bool {
        match self.keyword_at(ahead) {
            Some(K::Select | K::With | K::Table) => true,
            Some(K::Values) => self.peek_at(ahead + 1).kind == T::LeftParen,
            _ => false,
        }
    }

    pub(super) fn at_query_word(&self) -> bool {
        self.is_query_word(0)
    }

    /// A query, maybe in parentheses.
    pub(super) fn select_statement(&mut self) -> Result<BoxedQuery> {
        if self.kind() != T::LeftParen {
            return self.query_no_parens();
        }
        let query = self.query_in_parens()?;
        if self.goes_on_as_query() { self.query_behind(query) } else { Ok(query) }
    }

    /// A query that must be in parentheses.
    pub(super) fn query_in_parens(&mut self) -> Result<BoxedQuery> {
        if self.kind() != T::LeftParen || !self.parens_begin_query() {
            // The token behind the parentheses is the one that begins no query.
            while self.eat(T::LeftParen) {}
            return Err(self.unexpected());
        }
        match self.nested(Self::paren)? {
            Paren::Query(query) => Ok(query),
            _ => Err(self.unexpected()),
        }
    }

    /// Whether a clause follows that makes a query in parentheses a part of a larger one.
    pub(super) fn goes_on_as_query(&self) -> bool {
        self.at_any(&[K::Union, K::Intersect, K::Except, K::Order, K::Limit, K::Offset, K::Fetch, K::For])
    }

    /// A query that does not begin with a parenthesis, or whose parentheses are a part of it.
    pub(super) fn query_no_parens(&mut self) -> Result<BoxedQuery> {
        self.tree(|parser| {
            let at = parser.pos();
            let with = if parser.at(K::With) { Some(parser.with_clause()?) } else { None };
            let first = parser.set_operand()?;
            let mut query = parser.set_operations(first, 0)?;
            if let Some(with) = with {
                if query.with.is_some() {
                    return Err(parser.error("multiple WITH clauses not allowed", with.at));
                }
                query.with = Some(Box::new(with));
                query.at = at;
            }
            parser.with_query_clauses(query)
        })
    }

    /// The rest of a larger query behind one in parentheses.
    pub(super) fn query_behind(&mut self, first: BoxedQuery) -> Result<BoxedQuery> {
        self.grow()?;
        let query = self.set_operations(first, 0)?;
        self.with_query_clauses(query)
    }

    fn set_operand(&mut self) -> Result<BoxedQuery> {
        let at = self.pos();
        if self.kind() == T::LeftParen {
            return self.query_in_parens();
        }
        let body = match self.keyword() {
            Some(K::Select) => QueryBody::Select(Box::new(self.simple_select()?)),
            Some(K::Values) => {
                self.advance();
                QueryBody::Values(self.list(|parser| parser.paren_list(Self::a_expr))?)
            }
            Some(K::Table) => {
                self.advance();
                self.whole_relation()?
            }
            _ => return Err(self.unexpected()),
        };
        Ok(Box::new(Query::of(body, at)))
    }

    /// The relation of TABLE: all its rows.
    fn whole_relation(&mut self) -> Result<QueryBody> {
        let relation = self.relation_expr()?;
        // The star was not written: it has no place.
        let star = Target { expr: Expr::new(ExprKind::Wildcard(Box::default()), Pos(0)), alias: None };
        let from = vec![TableExpr::Relation(Box::new(relation))];
        Ok(QueryBody::Select(Box::new(Select { targets: vec![star], from, ..Select::default() })))
    }

    /// Parses the query, or the name of the relation, behind SUMMARIZE.
    pub(super) fn summarized(&mut self) -> Result<BoxedQuery> {
        if self.kind() == T::LeftParen || self.at_query_word() {
            return self.select_statement();
        }
        let at = self.pos();
        Ok(Box::new(Query::of(self.whole_relation()?, at)))
    }

    /// UNION, EXCEPT and INTERSECT, which binds tighter.
    fn set_operations(&mut self, mut left: BoxedQuery, min: u8) -> Result<BoxedQuery> {
        loop {
            let (op, level) = match self.keyword() {
                Some(K::Union) => (SetOperator::Union, 1),
                Some(K::Except) => (SetOperator::Except, 1),
                Some(K::Intersect) => (SetOperator::Intersect, 2),
                _ => return Ok(left),
            };
            if level < min {
                return Ok(left);
            }
            self.advance();
            let all = self.take(K::All);
            if !all {
                self.take(K::Distinct);
            }
            let operand = self.set_operand()?;
            let right = self.set_operations(operand, level + 1)?;
            self.grow()?;
            let at = left.at;
            let operation = SetOperation { op, all, left: *left, right: *right };
            left = Box::new(Query::of(QueryBody::SetOperation(Box::new(operation)), at));
        }
    }

    /// ORDER BY, LIMIT, OFFSET and FOR UPDATE, the last two in either order.
    fn with_query_clauses(&mut self, mut query: BoxedQuery) -> Result<BoxedQuery> {
        if self.at(K::Order) {
            let order_by = self.opt_sort_clause()?;
            if !query.order_by.is_empty() {
                let at = order_by.first().map_or(Pos::default(), |sort| sort.expr.at);
                return Err(self.error("multiple ORDER BY clauses not allowed", at));
            }
            query.order_by = order_by;
        }
        let limits_first = self.opt_limits(&mut query)?;
        self.opt_locking(&mut query)?;
        if !limits_first {
            self.opt_limits(&mut query)?;
        }
        if matches!(query.limit, Some(Limit::WithTies(_))) {
            let error = |message| Err(Error::new(SqlState::SYNTAX_ERROR, message));
            if query.order_by.is_empty() {
                return error("WITH TIES cannot be specified without ORDER BY clause");
            }
            if query.locking.iter().any(|locking| locking.wait == LockWait::SkipLocked) {
                return error("SKIP LOCKED and WITH TIES options cannot be used together");
            }
        }
        Ok(query)
    }

    /// LIMIT or FETCH, and OFFSET, in either order; whether there was one.
    fn opt_limits(&mut self, query: &mut Query) -> Result<bool> {
        let (mut limit, mut offset) = (None, None);
        loop {
            match self.keyword() {
                Some(K::Limit | K::Fetch) if limit.is_none() => limit = Some(self.limit_clause()?),
                Some(K::Offset) if offset.is_none() => {
                    self.advance();
                    offset = Some(self.a_expr()?);
                    if self.at_any(&[K::Row, K::Rows]) {
                        self.advance();
                    }
                }
                _ => break,
            }
        }
        let is_there = limit.is_some() || offset.is_some();
        if let Some(offset) = offset {
            if query.offset.is_some() {
                return Err(self.error("multiple OFFSET clauses not allowed", offset.at));
            }
            query.offset = Some(offset);
        }
        if let Some((limit, at)) = limit {
            if query.limit.is_some() {
                return Err(self.error("multiple LIMIT clauses not allowed", at));
            }
            query.limit = Some(limit);
        }
        Ok(is_there)
    }

    fn limit_clause(&mut self) -> Result<(Limit, Pos)> {
        let at = self.pos();
        if self.take(K::Limit) {
            let value_at = self.pos();
            let limit = if self.take(K::All) { Limit::All } else { Limit::Count(self.a_expr()?) };
            if self.eat(T::Comma) {
                self.a_expr()?;
                let error = self.error("LIMIT #,# syntax is not supported", at);
                return Err(error.with_hint("Use separate LIMIT and OFFSET clauses."));
            }
            return Ok((limit, value_at));
        }
        self.advance();
        if !self.take(K::First) {
            self.need(K::Next)?;
        }
        let value_at = self.pos();
        let is_one = self.at_any(&[K::Row, K::Rows]) && self.peek_at(1).kind != T::LeftParen;
        let count = match self.kind() {
            _ if is_one => Expr::new(ExprKind::Integer(1), Pos::default()),
            T::Plus | T::Minus if matches!(self.peek_at(1).kind, T::Integer | T::Number) => self.signed_const()?,
            _ => self.tree(Self::c_expr)?,
        };
        if !self.take(K::Row) {
            self.need(K::Rows)?;
        }
        if self.take(K::Only) {
            return Ok((Limit::Count(count), value_at));
        }
        self.need_words(&[K::With, K::Ties])?;
        Ok((Limit::WithTies(count), value_at))
    }

    fn opt_locking(&mut self, query: &mut Query) -> Result<()> {
        let mut is_further = false;
        while self.at(K::For) {
            self.advance();
            let strength = match self.keyword() {
                Some(K::Update) => LockStrength::Update,
                Some(K::Share) => LockStrength::Share,
                Some(K::No) => {
                    self.advance();
                    self.need(K::Key)?;
                    LockStrength::NoKeyUpdate
                }
                Some(K::Key) => {
                    self.advance();
                    LockStrength::KeyShare
                }
                // It stands alone, and says nothing.
                Some(K::Read) if !is_further => {
                    self.advance();
                    return self.need(K::Only);
                }
                _ => return Err(self.unexpected()),
            };
            self.need(if matches!(strength, LockStrength::Update | LockStrength::NoKeyUpdate) {
                K::Update
            } else {
                K::Share
            })?;
            let of = if self.take(K::Of) { self.qualified_name_list()? } else { Vec::new() };
            let wait = if self.take(K::Nowait) {
                LockWait::NoWait
            } else if self.take_words(&[K::Skip, K::Locked]) {
                LockWait::SkipLocked
            } else {
                LockWait::Wait
            };
            query.locking.push(Locking { strength, of, wait });
            is_further = true;
        }
        Ok(())
    }

    fn simple_select(&mut self) -> Result<Select> {
        self.advance();
        let mut select = Select::default();
        if self.take(K::Distinct) {
            select.distinct = Some(if self.take(K::On) {
                DistinctClause::On(self.paren_list(Self::a_expr)?)
            } else {
                DistinctClause::All
            });
        } else {
            self.take(K::All);
        }
        if select.distinct.is_some() || !self.at_end_of_targets() {
            select.targets = self.target_list()?;
        }
        if self.take(K::Into) {
            select.into = Some(Box::new(self.target_of_into()?));
        }
        if self.take(K::From) {
            select.from = self.table_refs()?;
        }
        select.filter = self.opt_where()?;
        if self.at(K::Group) {
            self.advance();
            self.need(K::By)?;
            select.group_distinct = self.take(K::Distinct);
            if !select.group_distinct {
                self.take(K::All);
            }
            select.group_by = self.list(Self::group_item)?;
        }
        if self.take(K::Having) {
            select.having = Some(self.a_expr()?);
        }
        if self.take(K::Window) {
            select.windows = self.list(|parser| {
                let name = parser.col_id()?;
                parser.need(K::As)?;
                Ok((name, parser.window_spec()?))
            })?;
        }
        Ok(select)
    }

    pub(super) fn opt_where(&mut self) -> Result<Option<Expr>> {
        if self.take(K::Where) { self.a_expr().map(Some) } else { Ok(None) }
    }

    /// Whether no target follows SELECT.
    fn at_end_of_targets(&self) -> bool {
        match self.kind() {
            T::End | T::Semicolon | T::RightParen => true,
            T::Word => self.at_any(&[
                K::From,
                K::Where,
                K::Into,
                K::Group,
                K::Having,
                K::Window,
                K::Union,
                K::Intersect,
                K::Except,
                K::Order,
                K::Limit,
                K::Offset,
                K::Fetch,
                K::For,
                K::With,
                K::On,
                K::Returning,
            ]),
            _ => false,
        }
    }

    pub(super) fn target_list(&mut self) -> Result<Vec<Target>> {
        self.list(Self::target)
    }

    fn target(&mut self) -> Result<Target> {
        if self.kind() == T::Star {
            let at = self.pos();
            self.advance();
            return Ok(Target { expr: Expr::new(ExprKind::Wildcard(Box::default()), at), alias: None });
        }
        let around = std::mem::replace(&mut self.target_depth, self.depth + 1);
        let expr = self.a_expr()?;
        self.target_depth = around;
        let alias = self.opt_label()?;
        Ok(Target { expr, alias })
    }

    /// A label: any behind AS, and those without that may stand so.
    fn opt_label(&mut self) -> Result<Option<Ident>> {
        if self.take(K::As) {
            return self.col_label().map(Some);
        }
        let token = self.peek();
        let is_label = match token.kind {
            T::Word => token.keyword.is_none_or(crate::keyword::Keyword::is_bare_label),
            T::QuotedName | T::UnicodeName => true,
            _ => false,
        };
        if is_label { self.col_label().map(Some) } else { Ok(None) }
    }

    /// A table to create, behind INTO.
    fn target_of_into(&mut self) -> Result<Into> {
        let persistence = self.opt_into_persistence();
        self.take(K::Table);
        Ok(Into { table: self.qualified_name()?, persistence })
    }

    fn opt_into_persistence(&mut self) -> Persistence {
        let next_is_name = |parser: &Self, ahead: usize| {
            parser.keyword_at(ahead) == Some(K::Table) || Self::is_col_id(parser.peek_at(ahead))
        };
        match self.keyword() {
            Some(K::Temporary | K::Temp) if next_is_name(self, 1) => {
                self.advance();
                Persistence::Temporary
            }
            Some(K::Local | K::Global) if matches!(self.keyword_at(1), Some(K::Temporary | K::Temp)) => {
                self.at += 2;
                Persistence::Temporary
            }
            Some(K::Unlogged) if next_is_name(self, 1) => {
                self.advance();
                Persistence::Unlogged
            }
            _ => Persistence::Permanent,
        }
    }

    fn group_item(&mut self) -> Result<GroupItem> {
        if self.kind() == T::LeftParen && self.peek_at(1).kind == T::RightParen {
            self.at += 2;
            return Ok(GroupItem::Empty);
        }
        match self.keyword() {
            Some(K::Rollup) if self.peek_at(1).kind == T::LeftParen => {
                self.advance();
                Ok(GroupItem::Rollup(self.paren_list(Self::a_expr)?))
            }
            Some(K::Cube) if self.peek_at(1).kind == T::LeftParen => {
                self.advance();
                Ok(GroupItem::Cube(self.paren_list(Self::a_expr)?))
            }
            Some(K::Grouping) if self.keyword_at(1) == Some(K::Sets) => {
                self.at += 2;
                self.tree(|parser| Ok(GroupItem::Sets(parser.paren_list(Self::group_item)?)))
            }
            _ => Ok(GroupItem::Expr(self.a_expr()?)),
        }
    }

    pub(super) fn with_clause(&mut self) -> Result<With> {
        let at = self.pos();
        self.need(K::With)?;
        let recursive = self.at(K::Recursive) && !matches!(self.keyword_at(1), Some(K::As));
        if recursive {
            self.advance();
        }
        let ctes = self.list(Self::cte)?;
        Ok(With { recursive, ctes, at })
    }

    fn cte(&mut self) -> Result<Cte> {
        let at = self.pos();
        let name = self.col_id()?;
        let columns = self.opt_name_list()?;
        self.need(K::As)?;
        let materialized = if self.take(K::Materialized) {
            Some(true)
        } else if self.take(K::Not) {
            self.need(K::Materialized)?;
            Some(false)
        } else {
            None
        };
        let body = self.in_parens(|parser| {
            Ok(match parser.preparable_statement()? {
                Statement::Insert(insert) => CteBody::Insert(insert),
                Statement::Update(update) => CteBody::Update(update),
                Statement::Delete(delete) => CteBody::Delete(delete),
                Statement::Merge(merge) => CteBody::Merge(merge),
                Statement::Query(query) => CteBody::Query(query),
                _ => return Err(parser.unexpected()),
            })
        })?;
        let search = if self.at(K::Search) { Some(Box::new(self.search_clause()?)) } else { None };
        let cycle = if self.at(K::Cycle) { Some(Box::new(self.cycle_clause()?)) } else { None };
        Ok(Cte { name, columns, materialized, body, search, cycle, at })
    }

    fn search_clause(&mut self) -> Result<SearchClause> {
        let at = self.pos();
        self.advance();
        let breadth_first = self.take(K::Breadth);
        if !breadth_first {
            self.need(K::Depth)?;
        }
        self.need_words(&[K::First, K::By])?;
        let columns = self.name_list()?;
        self.need(K::Set)?;
        Ok(SearchClause { breadth_first, columns, sequence: self.col_id()?, at })
    }

    fn cycle_clause(&mut self) -> Result<CycleClause> {
        let at = self.pos();
        self.advance();
        let columns = self.name_list()?;
        self.need(K::Set)?;
        let mark = self.col_id()?;
        let mut values = None;
        if self.take(K::To) {
            let value = self.constant_expr()?;
            self.need(K::Default)?;
            values = Some((value, self.constant_expr()?));
        }
        self.need(K::Using)?;
        Ok(CycleClause { columns, mark, values, path: self.col_id()?, at })
    }

    /// A constant, maybe of a named type.
    fn constant_expr(&mut self) -> Result<Expr> {
        let is_constant = |expr: &Expr| match &expr.kind {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Integer(_)
            | ExprKind::Number(_)
            | ExprKind::String(_)
            | ExprKind::BitString(_) => true,
            ExprKind::Cast(cast) => cast.syntax == crate::ast::CastSyntax::Literal,
            _ => false,
        };
        let expr = self.tree(Self::c_expr)?;
        if is_constant(&expr) { Ok(expr) } else { Err(self.unexpected()) }
    }
}
