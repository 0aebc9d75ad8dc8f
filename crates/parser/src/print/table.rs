//! Tables, indexes, views and sequences.

use super::Printer;
use crate::ast::{
    CheckOption, ColumnConstraint, ColumnConstraintKind, ColumnDef, ConstraintAttributes, CreateIndex, CreateSequence,
    CreateStatistics, CreateTable, CreateTableAs, CreateTableSource, CreateView, DefinitionItem, Exclude,
    GenericOption, Ident, IndexParameters, KeyAction, LikeOption, NumericValue, OnCommit, OptionAction, OptionValue,
    PartitionBound, References, RelOption, SequenceOption, TableConstraint, TableConstraintKind, TableElement,
    TableShape,
};

impl Printer<'_> {
    pub(super) fn numeric(&mut self, value: &NumericValue) {
        match value {
            NumericValue::Integer(value) => self.number(value),
            NumericValue::Number(text) => self.put(text),
        }
    }

    pub(super) fn option_value(&mut self, value: &OptionValue) {
        match value {
            OptionValue::Type(ty) => self.type_name(ty),
            OptionValue::Word(word) => self.put(word),
            OptionValue::Operator(op) => self.operator(op),
            OptionValue::Number(number) => self.numeric(number),
            OptionValue::Text(text) => self.text(text),
            OptionValue::Star => self.put("*"),
            OptionValue::List(items) => self.parens(items, Self::option_value),
        }
    }

    pub(super) fn definition_item(&mut self, item: &DefinitionItem) {
        self.ident(&item.name);
        self.opt(" = ", item.value.as_ref(), Self::option_value);
    }

    /// `name value`, as COPY and EXPLAIN take it.
    pub(super) fn word_option(&mut self, item: &DefinitionItem) {
        self.ident(&item.name);
        self.opt(" ", item.value.as_ref(), Self::option_value);
    }

    pub(super) fn rel_option(&mut self, option: &RelOption) {
        if let Some(namespace) = &option.namespace {
            self.ident(namespace);
            self.put(".");
        }
        self.ident(&option.name);
        self.opt(" = ", option.value.as_ref(), Self::option_value);
    }

    pub(super) fn rel_options(&mut self, options: &[RelOption]) {
        self.opt_parens(" WITH ", options, Self::rel_option);
    }

    pub(super) fn generic_options(&mut self, options: &[GenericOption]) {
        self.opt_parens(" OPTIONS ", options, |out, option| {
            out.put(match option.action {
                OptionAction::Unspecified => "",
                OptionAction::Set => "SET ",
                OptionAction::Add => "ADD ",
                OptionAction::Drop => "DROP ",
            });
            out.ident(&option.name);
            out.opt(" ", option.value.as_ref(), |out, value| out.text(value));
        });
    }

    pub(super) fn sequence_options(&mut self, options: &[SequenceOption]) {
        for option in options {
            self.put(" ");
            self.sequence_option(option);
        }
    }

    pub(super) fn sequence_option(&mut self, option: &SequenceOption) {
        use SequenceOption as O;
        match option {
            O::As(ty) => self.opt("AS ", Some(ty), Self::type_name),
            O::Cache(value) => self.opt("CACHE ", Some(value), Self::numeric),
            O::Cycle(true) => self.put("CYCLE"),
            O::Cycle(false) => self.put("NO CYCLE"),
            O::Increment(value) => self.opt("INCREMENT BY ", Some(value), Self::numeric),
            O::MaxValue(None) => self.put("NO MAXVALUE"),
            O::MaxValue(value) => self.opt("MAXVALUE ", value.as_ref(), Self::numeric),
            O::MinValue(None) => self.put("NO MINVALUE"),
            O::MinValue(value) => self.opt("MINVALUE ", value.as_ref(), Self::numeric),
            O::OwnedBy(name) => self.opt("OWNED BY ", Some(name), Self::name),
            O::SequenceName(name) => self.opt("SEQUENCE NAME ", Some(name), Self::name),
            O::Start(value) => self.opt("START WITH ", Some(value), Self::numeric),
            O::Restart(None) => self.put("RESTART"),
            O::Restart(value) => self.opt("RESTART WITH ", value.as_ref(), Self::numeric),
            O::Logged(true) => self.put("LOGGED"),
            O::Logged(false) => self.put("UNLOGGED"),
            O::Generated { always } => self.put(generated(*always)),
        }
    }

    fn if_not_exists(&mut self, is: bool) {
        self.put_if(is, "IF NOT EXISTS ");
    }

    pub(super) fn create_table(&mut self, table: &CreateTable) {
        self.put("CREATE ");
        self.persistence(table.persistence);
        self.put(if table.foreign.is_some() { "FOREIGN TABLE " } else { "TABLE " });
        self.if_not_exists(table.if_not_exists);
        self.name(&table.name);
        match &table.shape {
            TableShape::Plain => {
                self.put(" ");
                self.parens(&table.elements, Self::table_element);
            }
            TableShape::Of(ty) => {
                self.put(" OF ");
                self.name(ty);
                self.opt_parens(" ", &table.elements, Self::table_element);
            }
            TableShape::PartitionOf(parent, bound) => {
                self.put(" PARTITION OF ");
                self.name(parent);
                self.opt_parens(" ", &table.elements, Self::table_element);
                self.put(" ");
                self.partition_bound(bound);
            }
        }
        self.opt_parens(" INHERITS ", &table.inherits, Self::name);
        if let Some(partition) = &table.partition_by {
            self.put(" PARTITION BY ");
            self.ident(&partition.strategy);
            self.opt_parens(" ", &partition.elements, Self::index_element);
        }
        self.table_options(table.access_method.as_ref(), &table.options, table.on_commit, table.tablespace.as_ref());
        if let Some(foreign) = &table.foreign {
            self.put(" SERVER ");
            self.ident(&foreign.server);
            self.generic_options(&foreign.options);
        }
    }

    fn table_options(
        &mut self,
        access_method: Option<&Ident>,
        options: &[RelOption],
        on_commit: Option<OnCommit>,
        tablespace: Option<&Ident>,
    ) {
        self.opt(" USING ", access_method, |out, method| out.ident(method));
        self.rel_options(options);
        self.put(match on_commit {
            None => "",
            Some(OnCommit::Drop) => " ON COMMIT DROP",
            Some(OnCommit::DeleteRows) => " ON COMMIT DELETE ROWS",
            Some(OnCommit::PreserveRows) => " ON COMMIT PRESERVE ROWS",
        });
        self.tablespace(tablespace);
    }

    fn tablespace(&mut self, tablespace: Option<&Ident>) {
        self.opt(" TABLESPACE ", tablespace, |out, name| out.ident(name));
    }

    fn table_element(&mut self, element: &TableElement) {
        match element {
            TableElement::Column(column) => self.column_def(column),
            TableElement::Constraint(constraint) => self.table_constraint(constraint),
            TableElement::Like(like) => {
                self.put("LIKE ");
                self.name(&like.table);
                for (including, option) in &like.options {
                    self.put(if *including { " INCLUDING " } else { " EXCLUDING " });
                    self.put(match option {
                        LikeOption::Comments => "COMMENTS",
                        LikeOption::Compression => "COMPRESSION",
                        LikeOption::Constraints => "CONSTRAINTS",
                        LikeOption::Defaults => "DEFAULTS",
                        LikeOption::Identity => "IDENTITY",
                        LikeOption::Generated => "GENERATED",
                        LikeOption::Indexes => "INDEXES",
                        LikeOption::Statistics => "STATISTICS",
                        LikeOption::Storage => "STORAGE",
                        LikeOption::All => "ALL",
                    });
                }
            }
        }
    }

    pub(super) fn column_def(&mut self, column: &ColumnDef) {
        self.ident(&column.name);
        self.opt(" ", column.ty.as_ref(), Self::type_name);
        self.opt(" COMPRESSION ", column.compression.as_ref(), |out, name| out.ident_or_default(name));
        self.generic_options(&column.options);
        self.opt(" COLLATE ", column.collation.as_ref(), Self::name);
        self.column_constraints(&column.constraints);
    }

    /// A name, or the word DEFAULT.
    pub(super) fn ident_or_default(&mut self, name: &str) {
        if name == "default" { self.put("DEFAULT") } else { self.ident(name) }
    }

    pub(super) fn column_constraints(&mut self, constraints: &[ColumnConstraint]) {
        for constraint in constraints {
            self.opt(" CONSTRAINT ", constraint.name.as_ref(), |out, name| out.ident(name));
            self.put(" ");
            self.column_constraint(&constraint.kind);
        }
    }

    fn column_constraint(&mut self, kind: &ColumnConstraintKind) {
        use ColumnConstraintKind as C;
        match kind {
            C::NotNull => self.put("NOT NULL"),
            C::Null => self.put("NULL"),
            C::Unique { nulls_distinct, index } => {
                self.put("UNIQUE");
                self.put_if(!nulls_distinct, " NULLS NOT DISTINCT");
                self.index_parameters(index);
            }
            C::PrimaryKey { index } => {
                self.put("PRIMARY KEY");
                self.index_parameters(index);
            }
            C::Check { expr, no_inherit } => {
                self.put("CHECK (");
                self.expr(expr);
                self.put(if *no_inherit { ") NO INHERIT" } else { ")" });
            }
            C::Default(expr) => self.opt("DEFAULT ", Some(expr), Self::operand),
            C::Identity { always, options } => {
                self.put(if *always { "GENERATED ALWAYS AS IDENTITY" } else { "GENERATED BY DEFAULT AS IDENTITY" });
                self.identity_options(options);
            }
            C::Generated(expr) => {
                self.put("GENERATED ALWAYS AS (");
                self.expr(expr);
                self.put(") STORED");
            }
            C::References(references) => self.references(references),
            C::Deferrable => self.put("DEFERRABLE"),
            C::NotDeferrable => self.put("NOT DEFERRABLE"),
            C::InitiallyDeferred => self.put("INITIALLY DEFERRED"),
            C::InitiallyImmediate => self.put("INITIALLY IMMEDIATE"),
        }
    }

    pub(super) fn identity_options(&mut self, options: &[SequenceOption]) {
        if !options.is_empty() {
            self.put(" (");
            self.separated(options, " ", Self::sequence_option);
            self.put(")");
        }
    }

    fn index_parameters(&mut self, index: &IndexParameters) {
        self.opt_parens(" INCLUDE ", &index.include, |out, name| out.ident(name));
        self.opt_parens(" WITH ", &index.options, Self::definition_item);
        self.opt(" USING INDEX TABLESPACE ", index.tablespace.as_ref(), |out, name| out.ident(name));
    }

    fn references(&mut self, references: &References) {
        self.put("REFERENCES ");
        self.name(&references.table);
        self.opt_parens(" ", &references.columns, |out, name| out.ident(name));
        self.put_if(references.match_full, " MATCH FULL");
        for (words, action) in [(" ON UPDATE ", &references.on_update), (" ON DELETE ", &references.on_delete)] {
            let (action, columns) = match action {
                KeyAction::NoAction => continue,
                KeyAction::Restrict => ("RESTRICT", &[][..]),
                KeyAction::Cascade => ("CASCADE", &[][..]),
                KeyAction::SetNull(columns) => ("SET NULL", &columns[..]),
                KeyAction::SetDefault(columns) => ("SET DEFAULT", &columns[..]),
            };
            self.put(words);
            self.put(action);
            self.opt_parens(" ", columns, |out, name| out.ident(name));
        }
    }

    pub(super) fn table_constraint(&mut self, constraint: &TableConstraint) {
        use TableConstraintKind as C;
        if let Some(name) = &constraint.name {
            self.put("CONSTRAINT ");
            self.ident(name);
            self.put(" ");
        }
        match &constraint.kind {
            C::Check(expr) => {
                self.put("CHECK (");
                self.expr(expr);
                self.put(")");
            }
            C::Unique { nulls_distinct, columns, index } => {
                self.put("UNIQUE");
                self.put_if(!nulls_distinct, " NULLS NOT DISTINCT");
                self.opt_parens(" ", columns, |out, name| out.ident(name));
                self.index_parameters(index);
            }
            C::UniqueUsingIndex(name) => self.opt("UNIQUE USING INDEX ", Some(name), |out, name| out.ident(name)),
            C::PrimaryKey { columns, index } => {
                self.opt_parens("PRIMARY KEY ", columns, |out, name| out.ident(name));
                self.index_parameters(index);
            }
            C::PrimaryKeyUsingIndex(name) => {
                self.opt("PRIMARY KEY USING INDEX ", Some(name), |out, name| out.ident(name));
            }
            C::Exclude(exclude) => self.exclude(exclude),
            C::ForeignKey { columns, references } => {
                self.opt_parens("FOREIGN KEY ", columns, |out, name| out.ident(name));
                self.put(" ");
                self.references(references);
            }
        }
        self.constraint_attributes(constraint.attributes);
    }

    fn exclude(&mut self, exclude: &Exclude) {
        self.put("EXCLUDE");
        self.opt(" USING ", exclude.method.as_ref(), |out, method| out.ident(method));
        self.opt_parens(" ", &exclude.elements, |out, (element, operator)| {
            out.index_element(element);
            out.put(" WITH ");
            out.operator(operator);
        });
        self.index_parameters(&exclude.index);
        if let Some(filter) = &exclude.filter {
            self.put(" WHERE (");
            self.expr(filter);
            self.put(")");
        }
    }

    pub(super) fn constraint_attributes(&mut self, attributes: ConstraintAttributes) {
        self.put(match attributes.deferrable {
            None => "",
            Some(true) => " DEFERRABLE",
            Some(false) => " NOT DEFERRABLE",
        });
        self.put(match attributes.initially_deferred {
            None => "",
            Some(true) => " INITIALLY DEFERRED",
            Some(false) => " INITIALLY IMMEDIATE",
        });
        self.put_if(attributes.not_valid, " NOT VALID");
        self.put_if(attributes.no_inherit, " NO INHERIT");
    }

    pub(super) fn partition_bound(&mut self, bound: &PartitionBound) {
        match bound {
            PartitionBound::Default => self.put("DEFAULT"),
            PartitionBound::Hash { modulus, remainder } => {
                self.put("FOR VALUES WITH (MODULUS ");
                self.number(modulus);
                self.put(", REMAINDER ");
                self.number(remainder);
                self.put(")");
            }
            PartitionBound::In(list) => self.opt_parens("FOR VALUES IN ", list, Self::expr),
            PartitionBound::Range { from, to } => {
                self.opt_parens("FOR VALUES FROM ", from, Self::expr);
                self.opt_parens(" TO ", to, Self::expr);
            }
        }
    }

    pub(super) fn create_table_as(&mut self, create: &CreateTableAs) {
        self.put("CREATE ");
        self.persistence(create.persistence);
        self.put(if create.materialized_view { "MATERIALIZED VIEW " } else { "TABLE " });
        self.if_not_exists(create.if_not_exists);
        self.name(&create.name);
        self.opt_parens(" ", &create.columns, |out, name| out.ident(name));
        let tablespace = create.tablespace.as_ref();
        self.table_options(create.access_method.as_ref(), &create.options, create.on_commit, tablespace);
        self.put(" AS ");
        match &create.source {
            CreateTableSource::Query(query) => self.query(query),
            CreateTableSource::Execute(execute) => self.execute(execute),
        }
        self.put_if(create.no_data, " WITH NO DATA");
    }

    pub(super) fn create_index(&mut self, index: &CreateIndex) {
        self.put(if index.unique { "CREATE UNIQUE INDEX " } else { "CREATE INDEX " });
        self.put_if(index.concurrently, "CONCURRENTLY ");
        self.if_not_exists(index.if_not_exists);
        if let Some(name) = &index.name {
            self.ident(name);
            self.put(" ");
        }
        self.put(if index.only { "ON ONLY " } else { "ON " });
        self.name(&index.table);
        self.opt(" USING ", index.method.as_ref(), |out, method| out.ident(method));
        self.opt_parens(" ", &index.elements, Self::index_element);
        self.opt_parens(" INCLUDE ", &index.include, Self::index_element);
        self.put_if(!index.nulls_distinct, " NULLS NOT DISTINCT");
        self.rel_options(&index.options);
        self.tablespace(index.tablespace.as_ref());
        self.opt(" WHERE ", index.filter.as_ref(), Self::expr);
    }

    pub(super) fn create_view(&mut self, view: &CreateView) {
        self.put("CREATE ");
        self.put_if(view.replace, "OR REPLACE ");
        self.persistence(view.persistence);
        self.put_if(view.recursive, "RECURSIVE ");
        self.put("VIEW ");
        self.name(&view.name);
        self.opt_parens(" ", &view.columns, |out, name| out.ident(name));
        self.rel_options(&view.options);
        self.put(" AS ");
        self.query(&view.query);
        self.put(match view.check {
            None => "",
            Some(CheckOption::Local) => " WITH LOCAL CHECK OPTION",
            Some(CheckOption::Cascaded) => " WITH CASCADED CHECK OPTION",
        });
    }

    pub(super) fn create_sequence(&mut self, sequence: &CreateSequence) {
        self.put("CREATE ");
        self.persistence(sequence.persistence);
        self.put("SEQUENCE ");
        self.if_not_exists(sequence.if_not_exists);
        self.name(&sequence.name);
        self.sequence_options(&sequence.options);
    }

    pub(super) fn create_statistics(&mut self, statistics: &CreateStatistics) {
        self.put("CREATE STATISTICS ");
        self.if_not_exists(statistics.if_not_exists);
        self.name(&statistics.name);
        self.opt_parens(" ", &statistics.kinds, |out, kind| out.ident(kind));
        self.opt_list(" ON ", &statistics.elements, Self::index_key);
        self.opt_list(" FROM ", &statistics.from, Self::table);
    }
}

fn generated(always: bool) -> &'static str {
    if always { "GENERATED ALWAYS" } else { "GENERATED BY DEFAULT" }
}
