//! FROM: tables, subqueries, functions and joins.

use model::Result;

use super::{K, Parser, T};
use crate::ast::{
    Alias, AsOfJoin, AsOfRows, DerivedTable, Expr, ExprKind, Ident, Join, JoinConstraint, JoinKind, Name, Pivot,
    PivotKind, Pos, Query, QueryBody, Relation, RowsFrom, TableExpr, TableFunction, TableFunctionColumn, TableSample,
    Text, XmlTable, XmlTableColumn,
};

/// Content of two parentheses in FROM.
enum ParenTable {
    Query(Box<Query>),
    Join(TableExpr),
}

impl Parser<'_> {
    pub(super) fn table_refs(&mut self) -> Result<Vec<TableExpr>> {
        self.list(Self::table_ref)
    }

    pub(super) fn opt_from(&mut self) -> Result<Vec<TableExpr>> {
        if self.take(K::From) { self.table_refs() } else { Ok(Vec::new()) }
    }

    /// A table with all joins behind it.
    pub(super) fn table_ref(&mut self) -> Result<TableExpr> {
        self.tree(|parser| {
            let first = parser.pivoted()?;
            parser.joins_behind(first)
        })
    }

    fn joins_behind(&mut self, mut left: TableExpr) -> Result<TableExpr> {
        while self.at_join() {
            left = self.join(left)?;
            self.grow()?;
        }
        Ok(left)
    }

    fn at_join(&self) -> bool {
        matches!(self.keyword(), Some(K::Join | K::Inner | K::Left | K::Right | K::Full | K::Cross | K::Natural))
            || self.at_as_of()
    }

    /// Whether the words of an ASOF JOIN follow, rather than an alias.
    fn at_as_of(&self) -> bool {
        self.at_word(0, "asof")
            && match self.keyword_at(1) {
                Some(K::Join) => true,
                Some(K::Inner) => self.keyword_at(2) == Some(K::Join),
                Some(K::Left | K::Right | K::Full) => {
                    let outer = usize::from(self.keyword_at(2) == Some(K::Outer));
                    self.keyword_at(2 + outer) == Some(K::Join)
                }
                _ => (self.at_word(1, "semi") || self.at_word(1, "anti")) && self.keyword_at(2) == Some(K::Join),
            }
    }

    fn join(&mut self, left: TableExpr) -> Result<TableExpr> {
        if self.at_as_of() {
            return self.as_of_join(left);
        }
        if self.take(K::Cross) {
            self.need(K::Join)?;
            let right = self.table_operand()?;
            return Ok(joined(JoinKind::Inner, false, left, right, JoinConstraint::None));
        }
        let natural = self.take(K::Natural);
        let kind = self.join_kind();
        self.need(K::Join)?;
        if natural {
            let right = self.table_operand()?;
            return Ok(joined(kind, true, left, right, JoinConstraint::None));
        }
        // Joins before ON are those of the right side.
        let right = self.table_ref()?;
        let constraint = self.join_constraint()?;
        Ok(joined(kind, false, left, right, constraint))
    }

    /// A table without the joins behind it.
    fn table_operand(&mut self) -> Result<TableExpr> {
        self.tree(Self::pivoted)
    }

    /// A table, and PIVOT and UNPIVOT of it.
    fn pivoted(&mut self) -> Result<TableExpr> {
        let mut table = self.table_primary()?;
        while self.at_pivot() {
            table = self.pivot(table)?;
            self.grow()?;
        }
        Ok(table)
    }

    /// Whether PIVOT or UNPIVOT follows, rather than an alias with names of columns.
    fn at_pivot(&self) -> bool {
        let kinds = [1, 2, 3].map(|ahead| self.peek_at(ahead).kind);
        if self.at_word(0, "unpivot") {
            let has_nulls = self.keyword_at(2) == Some(K::Nulls) && kinds[2] == T::LeftParen;
            return has_nulls || kinds[0] == T::LeftParen && self.keyword_at(3) == Some(K::For);
        }
        self.at_word(0, "pivot") && kinds[0] == T::LeftParen && matches!(kinds[2], T::LeftParen | T::Dot)
    }

    fn pivot(&mut self, source: TableExpr) -> Result<TableExpr> {
        let at = self.pos();
        let is_pivot = self.at_word(0, "pivot");
        self.advance();
        let kind = match is_pivot {
            true => self.in_parens(Self::pivot_to_columns)?,
            false => {
                let nulls = self.at_word(0, "include");
                if self.keyword_at(1) == Some(K::Nulls) {
                    self.at += 2;
                }
                self.in_parens(|parser| parser.pivot_to_rows(nulls))?
            }
        };
        let alias = self.opt_alias()?;
        Ok(TableExpr::Pivot(Box::new(Pivot { source, kind, alias, at })))
    }

    fn pivot_to_columns(&mut self) -> Result<PivotKind> {
        let aggregates = self.target_list()?;
        self.need(K::For)?;
        let by = self.pivot_column()?;
        self.need(K::In)?;
        let values = self.in_parens(Self::target_list)?;
        Ok(PivotKind::Columns { aggregates, by, values })
    }

    fn pivot_to_rows(&mut self, nulls: bool) -> Result<PivotKind> {
        let value = self.col_id()?;
        self.need(K::For)?;
        let name = self.col_id()?;
        self.need(K::In)?;
        let columns = self.paren_list(|parser| {
            let column = parser.pivot_column()?;
            let label = match parser.take(K::As) {
                true => parser.string()?,
                false => match &column.kind {
                    ExprKind::Path(parts) => parts.last().map_or(Text::default(), |name| name.as_str().into()),
                    ExprKind::Column(name) => name.as_str().into(),
                    _ => Text::default(),
                },
            };
            Ok((column, label))
        })?;
        Ok(PivotKind::Rows { nulls, value, name, columns })
    }

    /// The name of a column.
    fn pivot_column(&mut self) -> Result<Expr> {
        let name = self.any_name()?;
        let at = name.at;
        let kind = match name.qualifier.is_empty() {
            true => ExprKind::Column(name.name),
            false => ExprKind::Path(name.parts().cloned().collect()),
        };
        Ok(Expr::new(kind, at))
    }

    fn join_kind(&mut self) -> JoinKind {
        let kind = match self.keyword() {
            Some(K::Left) => JoinKind::Left,
            Some(K::Right) => JoinKind::Right,
            Some(K::Full) => JoinKind::Full,
            Some(K::Inner) => {
                self.advance();
                return JoinKind::Inner;
            }
            _ => return JoinKind::Inner,
        };
        self.advance();
        self.take(K::Outer);
        kind
    }

    fn join_constraint(&mut self) -> Result<JoinConstraint> {
        if self.take(K::On) {
            return Ok(JoinConstraint::On(self.a_expr()?));
        }
        self.need(K::Using)?;
        let columns = self.paren_list(Self::col_id)?;
        let alias = if self.take(K::As) { Some(self.col_id()?) } else { None };
        Ok(JoinConstraint::Using(columns, alias))
    }

    /// Millrace: `ASOF [LEFT | RIGHT | FULL | SEMI | ANTI] JOIN b [MATCH_CONDITION (…)] ON …`. Behind MATCH_CONDITION the constraint
    /// may be left out.
    fn as_of_join(&mut self, left: TableExpr) -> Result<TableExpr> {
        self.advance();
        let rows = match (self.at_word(0, "semi"), self.at_word(0, "anti")) {
            (true, _) => AsOfRows::Matched,
            (_, true) => AsOfRows::Unmatched,
            _ => AsOfRows::Pairs,
        };
        if rows != AsOfRows::Pairs {
            self.advance();
        }
        let kind = self.join_kind();
        self.need(K::Join)?;
        let around = std::mem::replace(&mut self.after_as_of, true);
        let right = self.table_operand();
        self.after_as_of = around;
        let right = right?;
        let matching = if self.at_match_condition() {
            self.advance();
            Some(self.paren_expr()?)
        } else {
            None
        };
        let constraint = if matching.is_none() || self.at_any(&[K::On, K::Using]) {
            self.join_constraint()?
        } else {
            JoinConstraint::None
        };
        let as_of = Some(Box::new(AsOfJoin { matching, rows }));
        Ok(TableExpr::Join(Box::new(Join { kind, natural: false, left, right, constraint, alias: None, as_of })))
    }

    fn at_match_condition(&self) -> bool {
        self.at_word(0, "match_condition") && self.peek_at(1).kind == T::LeftParen
    }

    fn table_primary(&mut self) -> Result<TableExpr> {
        if self.kind() == T::LeftParen {
            return self.paren_table_ref();
        }
        let lateral = self.take(K::Lateral);
        if self.at(K::Xmltable) && self.peek_at(1).kind == T::LeftParen {
            return self.xml_table(lateral);
        }
        if lateral && self.kind() == T::LeftParen {
            let at = self.pos();
            let query = self.query_in_parens()?;
            return self.derived_table(query, true, at);
        }
        let is_rows_from = self.at_words(&[K::Rows, K::From]);
        if is_rows_from || lateral || self.at_function() {
            return self.table_function(lateral);
        }
        let mut relation = self.relation_expr()?;
        relation.as_of = self.opt_system_time()?;
        relation.alias = self.opt_alias()?;
        if self.take(K::Tablesample) {
            relation.sample = Some(Box::new(self.table_sample()?));
        }
        Ok(TableExpr::Relation(Box::new(relation)))
    }

    /// Millrace: `FOR SYSTEM_TIME AS OF moment`.
    fn opt_system_time(&mut self) -> Result<Option<Box<Expr>>> {
        if !(self.at(K::For) && self.at_word(1, "system_time")) {
            return Ok(None);
        }
        self.at += 2;
        self.need_words(&[K::As, K::Of])?;
        Ok(Some(Box::new(self.a_expr()?)))
    }

    fn table_sample(&mut self) -> Result<TableSample> {
        let method = self.func_name()?;
        let args = self.paren_list(Self::a_expr)?;
        let repeatable = if self.take(K::Repeatable) { Some(self.paren_expr()?) } else { None };
        Ok(TableSample { method, args, repeatable })
    }

    /// A relation, maybe with ONLY or a star.
    pub(super) fn relation_expr(&mut self) -> Result<Relation> {
        let only = self.take(K::Only);
        let name = if only && self.kind() == T::LeftParen {
            self.in_parens(Self::qualified_name)?
        } else {
            self.qualified_name()?
        };
        if !only {
            self.eat(T::Star);
        }
        Ok(Relation { name, only, alias: None, sample: None, as_of: None })
    }

    /// Name and ONLY of a relation, by [`Parser::relation_expr`].
    pub(super) fn relation_name(&mut self) -> Result<(Name, bool)> {
        let relation = self.relation_expr()?;
        Ok((relation.name, relation.only))
    }

    fn at_alias(&self) -> bool {
        let is_join = self.at_as_of() || self.after_as_of && self.at_match_condition();
        Self::is_col_id(self.peek()) && !is_join && !self.at_pivot()
    }

    fn opt_alias(&mut self) -> Result<Option<Alias>> {
        if !self.take(K::As) && !self.at_alias() {
            return Ok(None);
        }
        let name = self.col_id()?;
        Ok(Some(Alias { name, columns: self.opt_name_list()? }))
    }

    /// A query with its alias; `at`: its parenthesis.
    fn derived_table(&mut self, query: Box<Query>, lateral: bool, at: Pos) -> Result<TableExpr> {
        let alias = self.opt_alias()?;
        if alias.is_none() {
            let (message, example) = match query.body {
                QueryBody::Values(_) if query.with.is_none() => {
                    ("VALUES in FROM must have an alias", "For example, FROM (VALUES ...) [AS] foo.")
                }
                _ => ("subquery in FROM must have an alias", "For example, FROM (SELECT ...) [AS] foo."),
            };
            return Err(self.error(message, at).with_hint(example));
        }
        Ok(TableExpr::Subquery(Box::new(DerivedTable { lateral, query, alias })))
    }

    /// A subquery or a join in parentheses, with its alias.
    fn paren_table_ref(&mut self) -> Result<TableExpr> {
        let at = self.pos();
        match self.paren_table()? {
            ParenTable::Query(query) => self.derived_table(query, false, at),
            ParenTable::Join(table) => self.aliased_join(table),
        }
    }

    fn aliased_join(&mut self, table: TableExpr) -> Result<TableExpr> {
        let alias = self.opt_alias()?;
        Ok(match table {
            TableExpr::Join(mut join) if alias.is_some() && join.alias.is_none() => {
                join.alias = alias;
                TableExpr::Join(join)
            }
            table if alias.is_none() => table,
            _ => return Err(self.unexpected()),
        })
    }

    /// Parentheses in FROM; see [`Parser::paren`].
    fn paren_table(&mut self) -> Result<ParenTable> {
        self.expect(T::LeftParen)?;
        if self.at_query_word() {
            let query = self.query_no_parens()?;
            self.expect(T::RightParen)?;
            return Ok(ParenTable::Query(query));
        }
        let at = self.pos();
        let first = if self.kind() == T::LeftParen {
            match self.nested(Self::paren_table)? {
                ParenTable::Query(query) if self.goes_on_as_query() => {
                    let query = self.query_behind(query)?;
                    self.expect(T::RightParen)?;
                    return Ok(ParenTable::Query(query));
                }
                ParenTable::Query(query) if self.kind() == T::RightParen => {
                    self.advance();
                    return Ok(ParenTable::Query(query));
                }
                ParenTable::Query(query) => self.derived_table(query, false, at)?,
                ParenTable::Join(join) if self.kind() == T::RightParen => {
                    self.advance();
                    return Ok(ParenTable::Join(join));
                }
                ParenTable::Join(join) => self.aliased_join(join)?,
            }
        } else {
            self.table_primary()?
        };
        if !self.at_join() {
            return Err(self.unexpected());
        }
        let table = self.joins_behind(first)?;
        self.expect(T::RightParen)?;
        Ok(ParenTable::Join(table))
    }

    fn table_function(&mut self, lateral: bool) -> Result<TableExpr> {
        let rows_from = self.take_words(&[K::Rows, K::From]);
        let functions = if rows_from {
            self.paren_list(|parser| {
                let function = parser.func_expr_windowless()?;
                let columns = if parser.take(K::As) { parser.column_definitions()? } else { Vec::new() };
                Ok(RowsFrom { function, columns })
            })?
        } else {
            vec![RowsFrom { function: self.func_expr_windowless()?, columns: Vec::new() }]
        };
        let ordinality = self.take_words(&[K::With, K::Ordinality]);
        let (alias, columns) = self.opt_function_alias()?;
        Ok(TableExpr::Function(Box::new(TableFunction { lateral, rows_from, functions, ordinality, alias, columns })))
    }

    /// An alias with names of columns or definitions of them.
    fn opt_function_alias(&mut self) -> Result<(Option<Alias>, Vec<TableFunctionColumn>)> {
        let has_as = self.take(K::As);
        if has_as && self.kind() == T::LeftParen {
            return Ok((None, self.column_definitions()?));
        }
        if !has_as && !self.at_alias() {
            return Ok((None, Vec::new()));
        }
        let name = self.col_id()?;
        if self.kind() != T::LeftParen {
            return Ok((Some(Alias { name, columns: Vec::new() }), Vec::new()));
        }
        // Names alone, or names with types.
        if matches!(self.peek_at(2).kind, T::Comma | T::RightParen) {
            let columns = self.opt_name_list()?;
            return Ok((Some(Alias { name, columns }), Vec::new()));
        }
        let columns = self.column_definitions()?;
        Ok((Some(Alias { name, columns: Vec::new() }), columns))
    }

    /// `(name type [COLLATE …], …)`
    fn column_definitions(&mut self) -> Result<Vec<TableFunctionColumn>> {
        self.paren_list(Self::column_definition)
    }

    pub(super) fn column_definition(&mut self) -> Result<TableFunctionColumn> {
        let at = self.pos();
        let name = self.col_id()?;
        let ty = self.type_name()?;
        let collation = self.opt_collate()?;
        Ok(TableFunctionColumn { name, ty, collation, at })
    }

    pub(super) fn opt_collate(&mut self) -> Result<Option<Name>> {
        if self.take(K::Collate) { self.any_name().map(Some) } else { Ok(None) }
    }

    fn xml_table(&mut self, lateral: bool) -> Result<TableExpr> {
        let at = self.pos();
        self.at += 2;
        let mut namespaces = Vec::new();
        if self.at(K::Xmlnamespaces) && self.peek_at(1).kind == T::LeftParen {
            self.advance();
            namespaces = self.paren_list(Self::xml_namespace)?;
            self.expect(T::Comma)?;
        }
        let row = self.tree(Self::c_expr)?;
        let document = self.tree(Self::xml_passing)?;
        self.need(K::Columns)?;
        let columns = self.list(Self::xml_column)?;
        self.expect(T::RightParen)?;
        let alias = self.opt_alias()?;
        Ok(TableExpr::XmlTable(Box::new(XmlTable { lateral, namespaces, row, document, columns, alias, at })))
    }

    fn xml_namespace(&mut self) -> Result<(Expr, Option<Ident>)> {
        if self.take(K::Default) {
            return Ok((self.b_expr()?, None));
        }
        let uri = self.b_expr()?;
        self.need(K::As)?;
        Ok((uri, Some(self.col_label()?)))
    }

    fn xml_column(&mut self) -> Result<XmlTableColumn> {
        let at = self.pos();
        let name = self.col_id()?;
        let mut column = XmlTableColumn { name, ty: None, path: None, default: None, not_null: false, at };
        if self.take_words(&[K::For, K::Ordinality]) {
            return Ok(column);
        }
        column.ty = Some(self.type_name()?);
        let mut has_null = false;
        loop {
            let at = self.pos();
            if self.take(K::Default) {
                if column.default.is_some() {
                    return Err(self.error("only one DEFAULT value is allowed", at));
                }
                column.default = Some(self.b_expr()?);
            } else if self.at(K::Null) || self.at_words(&[K::Not, K::Null]) {
                column.not_null = self.take(K::Not);
                self.advance();
                if has_null {
                    let message =
                        format!("conflicting or redundant NULL / NOT NULL declarations for column \"{}\"", column.name);
                    return Err(self.error(message, at));
                }
                has_null = true;
            } else if Self::is_plain_name(self.peek()) {
                let option = self.plain_name()?;
                let value = self.b_expr()?;
                if option == "__pg__is_not_null" {
                    return Err(self.error(format!("option name \"{option}\" cannot be used in XMLTABLE"), at));
                }
                if option != "path" {
                    return Err(self.error(format!("unrecognized column option \"{option}\""), at));
                }
                if column.path.is_some() {
                    return Err(self.error("only one PATH value per column is allowed", at));
                }
                column.path = Some(value);
            } else {
                return Ok(column);
            }
        }
    }
}

fn joined(kind: JoinKind, natural: bool, left: TableExpr, right: TableExpr, constraint: JoinConstraint) -> TableExpr {
    TableExpr::Join(Box::new(Join { kind, natural, left, right, constraint, alias: None, as_of: None }))
}
