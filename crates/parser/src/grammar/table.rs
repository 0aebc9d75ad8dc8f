//! CREATE TABLE, FOREIGN TABLE, INDEX, VIEW, MATERIALIZED VIEW, SEQUENCE and STATISTICS.

use model::{Result, SqlState};

use super::{K, Parser, T};
use crate::ast::{
    CheckOption, ColumnConstraint, ColumnConstraintKind, ColumnDef, ConstraintAttributes, CreateIndex, CreateSequence,
    CreateStatistics, CreateTable, CreateTableAs, CreateTableSource, CreateView, Exclude, ForeignTable, Ident,
    IndexElement, IndexKey, IndexParameters, KeyAction, LikeClause, LikeOption, Name, NullsOrder, OnCommit,
    PartitionBound, PartitionBy, Persistence, References, RelOption, SortDirection, Statement, TableConstraint,
    TableConstraintKind, TableElement, TableShape,
};

/// Clauses behind the elements of a table.
#[derive(Default)]
struct TableOptions {
    access_method: Option<Ident>,
    options: Vec<RelOption>,
    on_commit: Option<OnCommit>,
    tablespace: Option<Ident>,
}

impl Parser<'_> {
    /// Behind `CREATE [TEMP] TABLE`: a table with columns, or one of a query.
    pub(super) fn create_table(&mut self, persistence: Persistence) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.qualified_name()?;
        if self.begins_create_as() {
            return self.create_table_as(name, persistence, if_not_exists, false);
        }
        let mut table = CreateTable {
            name,
            persistence,
            if_not_exists,
            shape: TableShape::Plain,
            elements: Vec::new(),
            inherits: Vec::new(),
            partition_by: None,
            access_method: None,
            options: Vec::new(),
            on_commit: None,
            tablespace: None,
            foreign: None,
        };
        self.table_elements(&mut table)?;
        table.partition_by = self.opt_partition_by()?;
        let options = self.table_options()?;
        table.access_method = options.access_method;
        table.options = options.options;
        table.on_commit = options.on_commit;
        table.tablespace = options.tablespace;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    /// Whether AS follows a table's name and what may stand before AS.
    fn begins_create_as(&self) -> bool {
        match self.keyword() {
            Some(K::As | K::Using | K::With | K::Without | K::On | K::Tablespace) => return true,
            _ if self.kind() != T::LeftParen => return false,
            _ => {}
        }
        // `(a, b)`: names of columns alone.
        let mut ahead = 1;
        loop {
            match self.peek_at(ahead + 1).kind {
                _ if !Self::is_col_id(self.peek_at(ahead)) => return false,
                T::Comma => ahead += 2,
                T::RightParen => return true,
                _ => return false,
            }
        }
    }

    /// Behind the name of a table or materialized view.
    pub(super) fn create_table_as(
        &mut self,
        name: Name,
        persistence: Persistence,
        if_not_exists: bool,
        materialized_view: bool,
    ) -> Result<Statement> {
        let columns = self.opt_name_list()?;
        let options = self.table_options()?;
        self.need(K::As)?;
        let source = if !materialized_view && self.take(K::Execute) {
            CreateTableSource::Execute(self.execute()?)
        } else {
            CreateTableSource::Query(self.select_statement()?)
        };
        let no_data = self.opt_with_no_data()?;
        Ok(Statement::CreateTableAs(Box::new(CreateTableAs {
            name,
            materialized_view,
            persistence,
            if_not_exists,
            columns,
            access_method: options.access_method,
            options: options.options,
            on_commit: options.on_commit,
            tablespace: options.tablespace,
            source,
            no_data,
        })))
    }

    /// USING, WITH, ON COMMIT and TABLESPACE, in this order.
    fn table_options(&mut self) -> Result<TableOptions> {
        let mut options = TableOptions::default();
        if self.take(K::Using) {
            options.access_method = Some(self.col_id()?);
        }
        if !self.take_words(&[K::Without, K::Oids]) && self.take(K::With) {
            options.options = self.rel_options()?;
        }
        if self.at_words(&[K::On, K::Commit]) {
            self.at += 2;
            options.on_commit = Some(if self.take(K::Drop) {
                OnCommit::Drop
            } else if self.take(K::Delete) {
                self.need(K::Rows)?;
                OnCommit::DeleteRows
            } else {
                self.need_words(&[K::Preserve, K::Rows])?;
                OnCommit::PreserveRows
            });
        }
        options.tablespace = self.opt_tablespace()?;
        Ok(options)
    }

    fn opt_tablespace(&mut self) -> Result<Option<Ident>> {
        if self.take(K::Tablespace) { self.col_id().map(Some) } else { Ok(None) }
    }

    /// The shape of a table: columns, a type, or a partition of another table.
    fn table_elements(&mut self, table: &mut CreateTable) -> Result<()> {
        if self.take(K::Of) {
            table.shape = TableShape::Of(self.any_name()?);
            table.elements = self.opt_typed_elements()?;
            return Ok(());
        }
        if self.take(K::Partition) {
            self.need(K::Of)?;
            let parent = self.qualified_name()?;
            table.elements = self.opt_typed_elements()?;
            table.shape = TableShape::PartitionOf(parent, self.partition_bound()?);
            return Ok(());
        }
        self.expect(T::LeftParen)?;
        if !self.eat(T::RightParen) {
            table.elements = self.list(Self::table_element)?;
            self.expect(T::RightParen)?;
        }
        if self.take(K::Inherits) {
            table.inherits = self.paren_list(Self::qualified_name)?;
        }
        Ok(())
    }

    /// Behind CREATE FOREIGN TABLE.
    pub(super) fn create_foreign_table(&mut self) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.qualified_name()?;
        let mut table = CreateTable {
            name,
            persistence: Persistence::Permanent,
            if_not_exists,
            shape: TableShape::Plain,
            elements: Vec::new(),
            inherits: Vec::new(),
            partition_by: None,
            access_method: None,
            options: Vec::new(),
            on_commit: None,
            tablespace: None,
            foreign: None,
        };
        if self.at(K::Of) {
            return Err(self.unexpected());
        }
        self.table_elements(&mut table)?;
        self.need(K::Server)?;
        let server = self.col_id()?;
        table.foreign = Some(ForeignTable { server, options: self.opt_generic_options()? });
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn opt_typed_elements(&mut self) -> Result<Vec<TableElement>> {
        if self.kind() != T::LeftParen {
            return Ok(Vec::new());
        }
        self.paren_list(|parser| {
            if parser.at_table_constraint() {
                return Ok(TableElement::Constraint(parser.table_constraint()?));
            }
            let at = parser.pos();
            let name = parser.col_id()?;
            parser.take_words(&[K::With, K::Options]);
            let mut column = column_without_type(name, at);
            parser.column_constraints(&mut column)?;
            Ok(TableElement::Column(column))
        })
    }

    fn table_element(&mut self) -> Result<TableElement> {
        if self.at(K::Like) {
            return Ok(TableElement::Like(self.like_clause()?));
        }
        if self.at_table_constraint() {
            return Ok(TableElement::Constraint(self.table_constraint()?));
        }
        Ok(TableElement::Column(self.column_def()?))
    }

    pub(super) fn at_table_constraint(&self) -> bool {
        match self.keyword() {
            Some(K::Constraint | K::Check | K::Unique | K::Primary | K::Foreign) => true,
            // The word is not reserved: a column may have that name.
            Some(K::Exclude) => matches!(self.keyword_at(1), Some(K::Using)) || self.peek_at(1).kind == T::LeftParen,
            _ => false,
        }
    }

    pub(super) fn column_def(&mut self) -> Result<ColumnDef> {
        let at = self.pos();
        let name = self.col_id()?;
        let mut column = column_without_type(name, at);
        column.ty = Some(self.type_name()?);
        column.compression = self.opt_compression()?;
        column.options = self.opt_generic_options()?;
        self.column_constraints(&mut column)?;
        Ok(column)
    }

    fn opt_compression(&mut self) -> Result<Option<Ident>> {
        if self.at(K::Compression) { self.compression().map(Some) } else { Ok(None) }
    }

    pub(super) fn compression(&mut self) -> Result<Ident> {
        self.need(K::Compression)?;
        if self.take(K::Default) { Ok(Ident::const_new("default")) } else { self.col_id() }
    }

    fn column_constraints(&mut self, column: &mut ColumnDef) -> Result<()> {
        loop {
            let at = self.pos();
            if self.take(K::Collate) {
                if column.collation.is_some() {
                    return Err(self.error("multiple COLLATE clauses not allowed", at));
                }
                column.collation = Some(self.any_name()?);
                continue;
            }
            let Some(constraint) = self.opt_column_constraint()? else { return Ok(()) };
            column.constraints.push(constraint);
        }
    }

    /// Constraints of a domain; see [`Parser::column_constraints`].
    pub(super) fn domain_constraints(&mut self) -> Result<(Option<Name>, Vec<ColumnConstraint>)> {
        let mut column = column_without_type(Ident::default(), self.pos());
        self.column_constraints(&mut column)?;
        Ok((column.collation, column.constraints))
    }

    fn opt_column_constraint(&mut self) -> Result<Option<ColumnConstraint>> {
        use ColumnConstraintKind as C;
        let at = self.pos();
        let name = if self.take(K::Constraint) { Some(self.col_id()?) } else { None };
        let is_named = name.is_some();
        let Some(keyword) = self.keyword() else { return if is_named { Err(self.unexpected()) } else { Ok(None) } };
        let kind = match (keyword, self.keyword_at(1)) {
            (K::Not, Some(K::Deferrable)) if !is_named => {
                self.at += 2;
                C::NotDeferrable
            }
            (K::Deferrable, _) if !is_named => self.taken(C::Deferrable),
            (K::Initially, Some(K::Deferred)) if !is_named => {
                self.at += 2;
                C::InitiallyDeferred
            }
            (K::Initially, Some(K::Immediate)) if !is_named => {
                self.at += 2;
                C::InitiallyImmediate
            }
            (K::Not, _) => {
                self.advance();
                self.need(K::Null)?;
                C::NotNull
            }
            (K::Null, _) => self.taken(C::Null),
            (K::Unique, _) => {
                self.advance();
                let nulls_distinct = self.opt_nulls_distinct()?;
                C::Unique { nulls_distinct, index: self.index_parameters()? }
            }
            (K::Primary, _) => {
                self.advance();
                self.need(K::Key)?;
                C::PrimaryKey { index: self.index_parameters()? }
            }
            (K::Check, _) => {
                self.advance();
                let expr = self.paren_expr()?;
                C::Check { expr, no_inherit: self.take_words(&[K::No, K::Inherit]) }
            }
            (K::Default, _) => {
                self.advance();
                C::Default(self.b_expr()?)
            }
            (K::Generated, _) => self.generated()?,
            (K::References, _) => C::References(Box::new(self.references()?)),
            _ if is_named => return Err(self.unexpected()),
            _ => return Ok(None),
        };
        Ok(Some(ColumnConstraint { name, kind, at }))
    }

    fn generated(&mut self) -> Result<ColumnConstraintKind> {
        self.advance();
        let when_at = self.pos();
        let always = self.generated_when()?;
        self.need(K::As)?;
        if self.take(K::Identity) {
            let options = self.opt_paren_sequence_options()?;
            return Ok(ColumnConstraintKind::Identity { always, options });
        }
        let expr = self.paren_expr()?;
        self.need(K::Stored)?;
        if !always {
            let message = "for a generated column, GENERATED ALWAYS must be specified";
            return Err(self.error(message, when_at));
        }
        Ok(ColumnConstraintKind::Generated(expr))
    }

    /// `NULLS [NOT] DISTINCT`: whether distinct, which is the default.
    pub(super) fn opt_nulls_distinct(&mut self) -> Result<bool> {
        if !(self.at(K::Nulls) && matches!(self.keyword_at(1), Some(K::Not | K::Distinct))) {
            return Ok(true);
        }
        self.advance();
        let distinct = !self.take(K::Not);
        self.need(K::Distinct)?;
        Ok(distinct)
    }

    /// `INCLUDE (…) WITH (…) USING INDEX TABLESPACE …`
    fn index_parameters(&mut self) -> Result<IndexParameters> {
        let include = if self.take(K::Include) { self.paren_list(Self::col_id)? } else { Vec::new() };
        let options = self.opt_with_definition()?;
        let tablespace = if self.at_words(&[K::Using, K::Index]) {
            self.at += 2;
            self.need(K::Tablespace)?;
            Some(self.col_id()?)
        } else {
            None
        };
        Ok(IndexParameters { include, options, tablespace })
    }

    fn references(&mut self) -> Result<References> {
        self.need(K::References)?;
        let table = self.qualified_name()?;
        let columns = self.opt_name_list()?;
        let match_full = if self.take(K::Match) {
            let at = self.pos();
            if self.take(K::Partial) {
                return Err(self.unsupported("MATCH PARTIAL not yet implemented", at));
            }
            let full = self.take(K::Full);
            if !full {
                self.need(K::Simple)?;
            }
            full
        } else {
            false
        };
        let (mut on_update, mut on_delete) = (None, None);
        while self.at(K::On) && matches!(self.keyword_at(1), Some(K::Update | K::Delete)) {
            let is_update = self.keyword_at(1) == Some(K::Update);
            let slot = if is_update { &mut on_update } else { &mut on_delete };
            if slot.is_some() {
                return Err(self.unexpected());
            }
            let at = self.pos();
            self.at += 2;
            let action = self.key_action()?;
            let word = match &action {
                KeyAction::SetNull(columns) if !columns.is_empty() => Some("SET NULL"),
                KeyAction::SetDefault(columns) if !columns.is_empty() => Some("SET DEFAULT"),
                _ => None,
            };
            if let (true, Some(word)) = (is_update, word) {
                let message = format!("a column list with {word} is only supported for ON DELETE actions");
                return Err(self.unsupported(message, at));
            }
            *if is_update { &mut on_update } else { &mut on_delete } = Some(action);
        }
        let (on_update, on_delete) = (on_update.unwrap_or_default(), on_delete.unwrap_or_default());
        Ok(References { table, columns, match_full, on_update, on_delete })
    }

    fn key_action(&mut self) -> Result<KeyAction> {
        match self.keyword() {
            Some(K::No) => {
                self.advance();
                self.need(K::Action)?;
                Ok(KeyAction::NoAction)
            }
            Some(K::Restrict) => Ok(self.taken(KeyAction::Restrict)),
            Some(K::Cascade) => Ok(self.taken(KeyAction::Cascade)),
            Some(K::Set) => {
                self.advance();
                if self.take(K::Null) {
                    return Ok(KeyAction::SetNull(self.opt_name_list()?));
                }
                self.need(K::Default)?;
                Ok(KeyAction::SetDefault(self.opt_name_list()?))
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn table_constraint(&mut self) -> Result<TableConstraint> {
        use TableConstraintKind as C;
        let at = self.pos();
        let name = if self.take(K::Constraint) { Some(self.col_id()?) } else { None };
        let keyword = self.keyword();
        let (kind, attributes) = match keyword {
            Some(K::Check) => {
                self.advance();
                let expr = self.paren_expr()?;
                (C::Check(expr), self.attributes_of("CHECK", [false, true, true])?)
            }
            Some(K::Unique) => {
                self.advance();
                if self.at_words(&[K::Using, K::Index]) {
                    self.at += 2;
                    let index = C::UniqueUsingIndex(self.col_id()?);
                    (index, self.attributes_of("UNIQUE", [true, false, false])?)
                } else {
                    let nulls_distinct = self.opt_nulls_distinct()?;
                    let columns = self.paren_list(Self::col_id)?;
                    let kind = C::Unique { nulls_distinct, columns, index: self.index_parameters()? };
                    (kind, self.attributes_of("UNIQUE", [true, false, false])?)
                }
            }
            Some(K::Primary) => {
                self.advance();
                self.need(K::Key)?;
                let kind = if self.at_words(&[K::Using, K::Index]) {
                    self.at += 2;
                    C::PrimaryKeyUsingIndex(self.col_id()?)
                } else {
                    let columns = self.paren_list(Self::col_id)?;
                    C::PrimaryKey { columns, index: self.index_parameters()? }
                };
                (kind, self.attributes_of("PRIMARY KEY", [true, false, false])?)
            }
            Some(K::Exclude) => {
                let exclude = self.exclude()?;
                (C::Exclude(Box::new(exclude)), self.attributes_of("EXCLUDE", [true, false, false])?)
            }
            Some(K::Foreign) => {
                self.advance();
                self.need(K::Key)?;
                let columns = self.paren_list(Self::col_id)?;
                let kind = C::ForeignKey { columns, references: self.references()? };
                (kind, self.attributes_of("FOREIGN KEY", [true, true, false])?)
            }
            _ => return Err(self.unexpected()),
        };
        Ok(TableConstraint { name, kind, attributes, at })
    }

    fn exclude(&mut self) -> Result<Exclude> {
        self.advance();
        let method = if self.take(K::Using) { Some(self.col_id()?) } else { None };
        let elements = self.paren_list(|parser| {
            let element = parser.index_element()?;
            parser.need(K::With)?;
            let is_decorated = parser.at(K::Operator) && parser.peek_at(1).kind == T::LeftParen;
            let operator = if is_decorated { parser.qual_all_op()? } else { parser.any_operator()? };
            Ok((element, operator))
        })?;
        let index = self.index_parameters()?;
        let filter = if self.take(K::Where) { Some(self.paren_expr()?) } else { None };
        Ok(Exclude { method, elements, index, filter })
    }

    fn like_clause(&mut self) -> Result<LikeClause> {
        self.advance();
        let table = self.qualified_name()?;
        let mut options = Vec::new();
        loop {
            let including = match self.keyword() {
                Some(K::Including) => true,
                Some(K::Excluding) => false,
                _ => return Ok(LikeClause { table, options }),
            };
            self.advance();
            let option = match self.keyword() {
                Some(K::Comments) => LikeOption::Comments,
                Some(K::Compression) => LikeOption::Compression,
                Some(K::Constraints) => LikeOption::Constraints,
                Some(K::Defaults) => LikeOption::Defaults,
                Some(K::Identity) => LikeOption::Identity,
                Some(K::Generated) => LikeOption::Generated,
                Some(K::Indexes) => LikeOption::Indexes,
                Some(K::Statistics) => LikeOption::Statistics,
                Some(K::Storage) => LikeOption::Storage,
                Some(K::All) => LikeOption::All,
                _ => return Err(self.unexpected()),
            };
            self.advance();
            options.push((including, option));
        }
    }

    fn opt_partition_by(&mut self) -> Result<Option<PartitionBy>> {
        let at = self.pos();
        if !self.take(K::Partition) {
            return Ok(None);
        }
        self.need(K::By)?;
        let strategy = self.col_id()?;
        let elements = self.paren_list(|parser| {
            let key = parser.index_key()?;
            let collation = parser.opt_collate()?;
            let operator_class = if Self::is_col_id(parser.peek()) { Some(parser.any_name()?) } else { None };
            Ok(plain_element(key, collation, operator_class))
        })?;
        Ok(Some(PartitionBy { strategy, elements, at }))
    }

    pub(super) fn partition_bound(&mut self) -> Result<PartitionBound> {
        if self.take(K::Default) {
            return Ok(PartitionBound::Default);
        }
        self.need_words(&[K::For, K::Values])?;
        if self.take(K::In) {
            return Ok(PartitionBound::In(self.paren_list(Self::a_expr)?));
        }
        if self.take(K::From) {
            let from = self.paren_list(Self::a_expr)?;
            self.need(K::To)?;
            return Ok(PartitionBound::Range { from, to: self.paren_list(Self::a_expr)? });
        }
        let at = self.pos();
        self.need(K::With)?;
        let (mut modulus, mut remainder) = (None, None);
        self.paren_list(|parser| {
            let at = parser.pos();
            let name = parser.non_reserved_word()?;
            let value = parser.integer()?;
            let slot = match name.as_str() {
                "modulus" => &mut modulus,
                "remainder" => &mut remainder,
                _ => {
                    let message = format!("unrecognized hash partition bound specification \"{name}\"");
                    return Err(parser.error(message, at));
                }
            };
            if slot.replace(value).is_some() {
                let message = format!("{name} for hash partition provided more than once");
                return Err(parser.error_of(SqlState::DUPLICATE_OBJECT, message, at));
            }
            Ok(())
        })?;
        let Some(modulus) = modulus else {
            return Err(self.error("modulus for hash partition must be specified", at));
        };
        let Some(remainder) = remainder else {
            return Err(self.error("remainder for hash partition must be specified", at));
        };
        Ok(PartitionBound::Hash { modulus, remainder })
    }

    /// A column, a call or an expression in parentheses.
    fn index_key(&mut self) -> Result<IndexKey> {
        if self.kind() == T::LeftParen {
            return Ok(IndexKey::Expr(self.paren_expr()?));
        }
        if self.at_function() {
            return Ok(IndexKey::Expr(self.func_expr_windowless()?));
        }
        Ok(IndexKey::Column(self.col_id()?))
    }

    pub(super) fn index_element(&mut self) -> Result<IndexElement> {
        let key = self.index_key()?;
        let collation = self.opt_collate()?;
        let is_class = Self::is_col_id(self.peek())
            && !(self.at(K::Nulls) && matches!(self.keyword_at(1), Some(K::First | K::Last)));
        let operator_class = if is_class { Some(self.any_name()?) } else { None };
        let mut element = plain_element(key, collation, operator_class);
        if is_class && self.kind() == T::LeftParen {
            element.operator_class_options = self.rel_options()?;
        }
        element.direction = self.opt_asc_desc();
        element.nulls = self.opt_nulls_order();
        Ok(element)
    }

    /// Behind `CREATE [UNIQUE] INDEX`.
    pub(super) fn create_index(&mut self, unique: bool) -> Result<Statement> {
        let concurrently = self.take(K::Concurrently);
        let if_not_exists = self.opt_if_not_exists();
        let name = if if_not_exists || !self.at(K::On) { Some(self.col_id()?) } else { None };
        self.need(K::On)?;
        let (table, only) = self.relation_name()?;
        let method = if self.take(K::Using) { Some(self.col_id()?) } else { None };
        let elements = self.paren_list(Self::index_element)?;
        let include = if self.take(K::Include) { self.paren_list(Self::index_element)? } else { Vec::new() };
        let nulls_distinct = self.opt_nulls_distinct()?;
        let options = self.opt_with_rel_options()?;
        let tablespace = self.opt_tablespace()?;
        let filter = self.opt_where()?;
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            unique,
            concurrently,
            if_not_exists,
            name,
            table,
            only,
            method,
            elements,
            include,
            nulls_distinct,
            options,
            tablespace,
            filter,
        })))
    }

    /// Behind `CREATE [OR REPLACE] [TEMP] [RECURSIVE] VIEW`.
    pub(super) fn create_view(
        &mut self,
        replace: bool,
        persistence: Persistence,
        recursive: bool,
    ) -> Result<Statement> {
        let name = self.qualified_name()?;
        let columns = if recursive { self.paren_list(Self::col_id)? } else { self.opt_name_list()? };
        let options = self.opt_with_rel_options()?;
        self.need(K::As)?;
        let query = self.select_statement()?;
        let at = self.pos();
        let mut check = None;
        if self.take(K::With) {
            check = Some(if self.take(K::Local) {
                CheckOption::Local
            } else {
                self.take(K::Cascaded);
                CheckOption::Cascaded
            });
            self.need_words(&[K::Check, K::Option])?;
            if recursive {
                return Err(self.unsupported("WITH CHECK OPTION not supported on recursive views", at));
            }
        }
        let view = CreateView { name, replace, persistence, recursive, columns, options, query, check };
        Ok(Statement::CreateView(Box::new(view)))
    }

    /// Behind `CREATE [TEMP] SEQUENCE`.
    pub(super) fn create_sequence(&mut self, persistence: Persistence) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.qualified_name()?;
        let options = self.sequence_options()?;
        Ok(Statement::CreateSequence(Box::new(CreateSequence { name, persistence, if_not_exists, options })))
    }

    /// Behind CREATE STATISTICS.
    pub(super) fn create_statistics(&mut self) -> Result<Statement> {
        let if_not_exists = self.opt_if_not_exists();
        let name = self.any_name()?;
        let kinds = self.opt_name_list()?;
        self.need(K::On)?;
        let elements = self.list(Self::index_key)?;
        self.need(K::From)?;
        let from = self.table_refs()?;
        Ok(Statement::CreateStatistics(Box::new(CreateStatistics { name, if_not_exists, kinds, elements, from })))
    }

    /// TEMP, TEMPORARY or UNLOGGED, maybe behind LOCAL or GLOBAL.
    pub(super) fn opt_persistence(&mut self) -> Persistence {
        match self.keyword() {
            Some(K::Local | K::Global) if matches!(self.keyword_at(1), Some(K::Temporary | K::Temp)) => {
                self.at += 2;
                Persistence::Temporary
            }
            Some(K::Temporary | K::Temp) => self.taken(Persistence::Temporary),
            Some(K::Unlogged) => self.taken(Persistence::Unlogged),
            _ => Persistence::Permanent,
        }
    }

    /// Attributes of a constraint trigger or of ALTER CONSTRAINT.
    pub(super) fn deferrable_attributes(&mut self, kind: &str) -> Result<ConstraintAttributes> {
        self.attributes_of(kind, [true, false, false])
    }
}

fn column_without_type(name: Ident, at: crate::ast::Pos) -> ColumnDef {
    ColumnDef { name, ty: None, compression: None, options: Vec::new(), collation: None, constraints: Vec::new(), at }
}

fn plain_element(key: IndexKey, collation: Option<Name>, operator_class: Option<Name>) -> IndexElement {
    IndexElement {
        key,
        collation,
        operator_class,
        operator_class_options: Vec::new(),
        direction: SortDirection::Default,
        nulls: NullsOrder::Default,
    }
}
