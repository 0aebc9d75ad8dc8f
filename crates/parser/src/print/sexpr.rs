//! Queries, expressions and changes as S-expressions: a notation that shows the whole structure, for tests.
//!
//! `(word …)` with clauses that are there only if they were written; texts and operators are in double quotes. It is the
//! notation in which PostgreSQL's own trees are recorded, so it tells what PostgreSQL's tree tells: `NOT IN` with a query is
//! `(not (inq …))`, for example.

use std::fmt::{self, Write};

use crate::ast::{
    Alias, AsOfRows, BooleanTest, ConflictAction, ConflictTarget, Cte, CteBody, DistinctClause, Expr, ExprKind, Frame,
    FrameBound, FrameExclude, FrameUnit, FunctionCall, GroupItem, Ident, IndexElement, IndexKey, Insert, Join,
    JoinConstraint, JoinKind, LikeKind, Limit, LockStrength, LockWait, Merge, MergeAction, Name, NullsOrder,
    OperatorName, Over, Overriding, Persistence, Query, QueryBody, Relation, Select, SetClause, SetOperator, SortBy,
    SortDirection, Statement, Step, TableExpr, TableFunction, TableFunctionColumn, Target, TargetColumn, TargetTable,
    TypeName, WindowSpec, With,
};

/// A statement; of others than queries and changes, Rust's notation.
#[must_use]
pub fn statement(statement: &Statement) -> String {
    written(|out| out.statement(statement))
}

/// An expression.
#[must_use]
pub fn expr(expr: &Expr) -> String {
    written(|out| out.expr(expr))
}

fn written(write: impl FnOnce(&mut Writer) -> fmt::Result) -> String {
    let mut writer = Writer { out: String::new() };
    // Writing to a text does not fail.
    let _ = write(&mut writer);
    writer.out
}

struct Writer {
    out: String,
}

/// Writes `(word` and the rest of a list.
macro_rules! list {
    ($self:ident, $word:expr $(, $item:expr)* $(,)?) => {{
        write!($self.out, "({}", $word)?;
        $($self.out.push(' '); $item?;)*
        $self.out.push(')');
        Ok(())
    }};
}

impl Writer {
    fn text(&mut self, text: &str) -> fmt::Result {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                '\n' => self.out.push_str("\\n"),
                _ => self.out.push(character),
            }
        }
        self.out.push('"');
        Ok(())
    }

    fn word(&mut self, word: &str) -> fmt::Result {
        self.out.push_str(word);
        Ok(())
    }

    /// Names between points, quoted where they are no plain words.
    fn ident(&mut self, name: &str) -> fmt::Result {
        let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_plain { self.word(name) } else { self.text(name) }
    }

    fn name(&mut self, name: &Name) -> fmt::Result {
        for part in &name.qualifier {
            self.ident(part)?;
            self.out.push('.');
        }
        self.ident(&name.name)
    }

    fn operator(&mut self, op: &OperatorName) -> fmt::Result {
        let mut name = String::new();
        for schema in &op.schema {
            write!(name, "{schema}.")?;
        }
        name.push_str(&op.symbol);
        self.text(&name)
    }

    fn exprs(&mut self, exprs: &[Expr]) -> fmt::Result {
        self.items(exprs, Self::expr)
    }

    fn items<R>(&mut self, items: &[R], mut item: impl FnMut(&mut Self, &R) -> fmt::Result) -> fmt::Result {
        for (at, one) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(' ');
            }
            item(self, one)?;
        }
        Ok(())
    }

    fn idents(&mut self, names: &[Ident]) -> fmt::Result {
        self.items(names, |out, name| out.ident(name))
    }

    /// ` (word item …)`, if there is an item.
    fn clause<R>(&mut self, word: &str, items: &[R], item: impl FnMut(&mut Self, &R) -> fmt::Result) -> fmt::Result {
        if items.is_empty() {
            return Ok(());
        }
        write!(self.out, " ({word} ")?;
        self.items(items, item)?;
        self.word(")")
    }

    fn opt_expr(&mut self, word: &str, expr: Option<&Expr>) -> fmt::Result {
        match expr {
            Some(expr) => self.clause(word, std::slice::from_ref(expr), Self::expr),
            None => Ok(()),
        }
    }

    fn flag(&mut self, word: &str, is: bool) -> fmt::Result {
        if is { write!(self.out, " {word}") } else { Ok(()) }
    }

    fn expr(&mut self, expr: &Expr) -> fmt::Result {
        match &expr.kind {
            ExprKind::Null => self.word("null"),
            ExprKind::Bool(value) => write!(self.out, "{value}"),
            ExprKind::Integer(value) => write!(self.out, "{value}"),
            ExprKind::Number(text) => list!(self, "num", self.word(text)),
            ExprKind::String(text) => self.text(text),
            ExprKind::BitString(text) => list!(self, "bits", self.text(text)),
            ExprKind::Parameter(number) => write!(self.out, "${number}"),
            ExprKind::Column(name) => list!(self, "col", self.ident(name)),
            ExprKind::Path(parts) => list!(self, "col", self.idents(parts)),
            ExprKind::Wildcard(parts) if parts.is_empty() => self.word("(col *)"),
            ExprKind::Wildcard(parts) => list!(self, "col", self.idents(parts), self.word("*")),
            ExprKind::Operator(operator) => match &operator.left {
                Some(left) => {
                    list!(self, "op", self.operator(&operator.op), self.expr(left), self.expr(&operator.right))
                }
                None => list!(self, "prefix", self.operator(&operator.op), self.expr(&operator.right)),
            },
            ExprKind::Quantified(one) => {
                let word = if one.all { "all" } else { "any" };
                list!(self, word, self.operator(&one.op), self.expr(&one.left), self.expr(&one.right))
            }
            ExprKind::QuantifiedQuery(one) => {
                let word = if one.all { "allq" } else { "anyq" };
                list!(self, word, self.operator(&one.op), self.expr(&one.left), self.query(&one.query))
            }
            ExprKind::And(list) => list!(self, "and", self.exprs(list)),
            ExprKind::Or(list) => list!(self, "or", self.exprs(list)),
            ExprKind::Not(expr) => list!(self, "not", self.expr(expr)),
            ExprKind::IsNull(expr) => list!(self, "isnull", self.expr(expr)),
            ExprKind::IsNotNull(expr) => list!(self, "notnull", self.expr(expr)),
            ExprKind::BooleanTest(expr, test) => {
                let word = match test {
                    BooleanTest::True => "is_true",
                    BooleanTest::NotTrue => "is_not_true",
                    BooleanTest::False => "is_false",
                    BooleanTest::NotFalse => "is_not_false",
                    BooleanTest::Unknown => "is_unknown",
                    BooleanTest::NotUnknown => "is_not_unknown",
                };
                list!(self, word, self.expr(expr))
            }
            ExprKind::Distinct(one) => {
                let word = if one.not { "not_distinct" } else { "distinct" };
                list!(self, word, self.expr(&one.left), self.expr(&one.right))
            }
            ExprKind::NullIf(both) => list!(self, "nullif", self.exprs(&both[..])),
            ExprKind::In(one) => {
                let word = if one.not { "not_in" } else { "in" };
                list!(self, word, self.expr(&one.expr), self.exprs(&one.list))
            }
            ExprKind::InQuery(one) => {
                self.flag_open("not", one.not)?;
                let result: fmt::Result = list!(self, "inq", self.expr(&one.expr), self.query(&one.query));
                result?;
                if one.not { self.word(")") } else { Ok(()) }
            }
            ExprKind::Like(one) => self.like(one),
            ExprKind::Between(one) => {
                let not = if one.not { "not_" } else { "" };
                let symmetric = if one.symmetric { "_sym" } else { "" };
                let word = format!("{not}between{symmetric}");
                list!(self, word, self.expr(&one.expr), self.expr(&one.low), self.expr(&one.high))
            }
            ExprKind::Function(call) => self.call(call),
            ExprKind::SqlValue(value) => write!(self.out, "(value {value:?})"),
            ExprKind::Cast(cast) => list!(self, "cast", self.expr(&cast.expr), self.type_name(&cast.ty)),
            ExprKind::Collate(one) => list!(self, "collate", self.expr(&one.expr), self.name(&one.collation)),
            ExprKind::Case(case) => {
                self.word("(case")?;
                self.opt_expr("arg", case.operand.as_ref())?;
                for (condition, result) in &case.branches {
                    self.out.push(' ');
                    let written: fmt::Result = list!(self, "when", self.expr(condition), self.expr(result));
                    written?;
                }
                self.opt_expr("else", case.otherwise.as_ref())?;
                self.word(")")
            }
            ExprKind::Row(items) => list!(self, "row", self.exprs(items)),
            ExprKind::ImplicitRow(items) => list!(self, "irow", self.exprs(items)),
            ExprKind::Array(items) => list!(self, "array", self.exprs(items)),
            ExprKind::Coalesce(items) => list!(self, "coalesce", self.exprs(items)),
            ExprKind::Greatest(items) => list!(self, "greatest", self.exprs(items)),
            ExprKind::Least(items) => list!(self, "least", self.exprs(items)),
            ExprKind::Grouping(items) => list!(self, "grouping", self.exprs(items)),
            ExprKind::Subquery(query) => list!(self, "subquery", self.query(query)),
            ExprKind::Exists(query) => list!(self, "exists", self.query(query)),
            ExprKind::ArrayQuery(query) => list!(self, "arrayq", self.query(query)),
            ExprKind::Indirection(one) => list!(self, "indir", self.expr(&one.expr), self.steps(&one.steps)),
            ExprKind::NamedArgument(one) => list!(self, "named", self.ident(&one.name), self.expr(&one.value)),
            ExprKind::Default => self.word("default"),
            ExprKind::CurrentOf(cursor) => list!(self, "currentof", self.ident(cursor)),
            ExprKind::Xml(xml) => write!(self.out, "{xml:?}"),
            ExprKind::XmlSerialize(xml) => write!(self.out, "{xml:?}"),
        }
    }

    /// `(not ` if so.
    fn flag_open(&mut self, word: &str, is: bool) -> fmt::Result {
        if is { write!(self.out, "({word} ") } else { Ok(()) }
    }

    fn like(&mut self, one: &crate::ast::Like) -> fmt::Result {
        let word = match one.kind {
            LikeKind::Like => "like",
            LikeKind::ILike => "ilike",
            LikeKind::Similar => "similar",
        };
        write!(self.out, "({word} \"{}\" ", one.kind.operator(one.not))?;
        self.expr(&one.expr)?;
        self.out.push(' ');
        // The pattern is the argument of a function, if it has an escape, or is one of SIMILAR TO.
        let function = match one.kind {
            LikeKind::Similar => Some("similar_to_escape"),
            _ => one.escape.is_some().then_some("like_escape"),
        };
        if let Some(function) = function {
            write!(self.out, "(call pg_catalog.{function} (args ")?;
        }
        self.expr(&one.pattern)?;
        if let Some(escape) = &one.escape {
            self.out.push(' ');
            self.expr(escape)?;
        }
        self.word(if function.is_some() { ")))" } else { ")" })
    }

    fn call(&mut self, call: &FunctionCall) -> fmt::Result {
        self.word("(call ")?;
        self.name(&call.name)?;
        self.flag("sql", call.sql_syntax)?;
        self.flag("star", call.star)?;
        self.flag("distinct", call.distinct)?;
        self.flag("variadic", call.variadic)?;
        self.flag("within", call.within_group)?;
        self.clause("args", &call.args, Self::expr)?;
        self.clause("order", &call.order_by, Self::sort_by)?;
        self.opt_expr("filter", call.filter.as_ref())?;
        if let Some(over) = &call.over {
            self.word(" (over ")?;
            match &**over {
                Over::Window(name, _) => self.ident(name)?,
                Over::Spec(spec) => self.window(spec)?,
            }
            self.word(")")?;
        }
        self.word(")")
    }

    fn window(&mut self, spec: &WindowSpec) -> fmt::Result {
        self.word("(window")?;
        if let Some(base) = &spec.base {
            self.word(" (base ")?;
            self.ident(base)?;
            self.word(")")?;
        }
        self.clause("partition", &spec.partition_by, Self::expr)?;
        self.clause("order", &spec.order_by, Self::sort_by)?;
        if let Some(frame) = &spec.frame {
            self.frame(frame)?;
        }
        self.word(")")
    }

    fn frame(&mut self, frame: &Frame) -> fmt::Result {
        self.word(match frame.unit {
            FrameUnit::Range => " (range ",
            FrameUnit::Rows => " (rows ",
            FrameUnit::Groups => " (groups ",
        })?;
        self.frame_bound(&frame.start)?;
        if let Some(end) = &frame.end {
            self.word(" ")?;
            self.frame_bound(end)?;
        }
        self.word(match frame.exclude {
            FrameExclude::NoOthers => ")",
            FrameExclude::CurrentRow => " exclude_current)",
            FrameExclude::Group => " exclude_group)",
            FrameExclude::Ties => " exclude_ties)",
        })
    }

    fn frame_bound(&mut self, bound: &FrameBound) -> fmt::Result {
        match bound {
            FrameBound::UnboundedPreceding => self.word("unbounded_preceding"),
            FrameBound::UnboundedFollowing => self.word("unbounded_following"),
            FrameBound::CurrentRow => self.word("current"),
            FrameBound::Preceding(offset) => list!(self, "preceding", self.expr(offset)),
            FrameBound::Following(offset) => list!(self, "following", self.expr(offset)),
        }
    }

    fn sort_by(&mut self, sort: &SortBy) -> fmt::Result {
        self.word("(sort ")?;
        self.expr(&sort.expr)?;
        self.order(&sort.direction, sort.nulls)?;
        self.word(")")
    }

    fn order(&mut self, direction: &SortDirection, nulls: NullsOrder) -> fmt::Result {
        match direction {
            SortDirection::Default => {}
            SortDirection::Asc => self.word(" asc")?,
            SortDirection::Desc => self.word(" desc")?,
            SortDirection::Using(op) => {
                self.word(" using ")?;
                self.operator(op)?;
            }
        }
        self.flag("nulls_first", nulls == NullsOrder::First)?;
        self.flag("nulls_last", nulls == NullsOrder::Last)
    }

    fn type_name(&mut self, ty: &TypeName) -> fmt::Result {
        self.word("(type ")?;
        self.name(&ty.name)?;
        self.flag("setof", ty.is_set)?;
        self.flag("pct", ty.is_column_type)?;
        self.clause("mods", &ty.modifiers, Self::expr)?;
        for dimension in &ty.dimensions {
            write!(self.out, " [{dimension}]")?;
        }
        self.word(")")
    }

    fn steps(&mut self, steps: &[Step]) -> fmt::Result {
        self.items(steps, |out, step| match step {
            Step::Field(name) => list!(out, "field", out.ident(name)),
            Step::All => out.word("*"),
            Step::Index(index) => list!(out, "index", out.expr(index)),
            Step::Slice(low, high) => {
                out.word("(slice")?;
                out.opt_expr("low", low.as_ref())?;
                out.opt_expr("high", high.as_ref())?;
                out.word(")")
            }
        })
    }

    fn query(&mut self, query: &Query) -> fmt::Result {
        self.word("(query")?;
        self.with(query.with.as_deref())?;
        self.word(" ")?;
        match &query.body {
            QueryBody::Select(select) => self.select(select)?,
            QueryBody::Values(rows) => {
                self.word("(values ")?;
                self.items(rows, |out, row| list!(out, "row", out.exprs(row)))?;
                self.word(")")?;
            }
            QueryBody::SetOperation(one) => {
                self.word(match one.op {
                    SetOperator::Union => "(union",
                    SetOperator::Intersect => "(intersect",
                    SetOperator::Except => "(except",
                })?;
                self.word(if one.all { "_all " } else { " " })?;
                self.query(&one.left)?;
                self.word(" ")?;
                self.query(&one.right)?;
                self.word(")")?;
            }
        }
        self.clause("order", &query.order_by, Self::sort_by)?;
        match &query.limit {
            None => {}
            Some(Limit::All) => self.word(" (limit null)")?,
            Some(Limit::Count(count)) => self.opt_expr("limit", Some(count))?,
            Some(Limit::WithTies(count)) => self.opt_expr("ties", Some(count))?,
        }
        self.opt_expr("offset", query.offset.as_ref())?;
        for locking in &query.locking {
            self.word(match locking.strength {
                LockStrength::KeyShare => " (lock key_share",
                LockStrength::Share => " (lock share",
                LockStrength::NoKeyUpdate => " (lock no_key_update",
                LockStrength::Update => " (lock update",
            })?;
            self.flag("nowait", locking.wait == LockWait::NoWait)?;
            self.flag("skip", locking.wait == LockWait::SkipLocked)?;
            self.clause("of", &locking.of, Self::name)?;
            self.word(")")?;
        }
        self.word(")")
    }

    fn select(&mut self, select: &Select) -> fmt::Result {
        self.word("(select")?;
        match &select.distinct {
            None => {}
            Some(DistinctClause::All) => self.word(" distinct")?,
            Some(DistinctClause::On(list)) => self.clause("distinct", list, Self::expr)?,
        }
        self.clause("targets", &select.targets, Self::target)?;
        if let Some(into) = &select.into {
            self.word(match into.persistence {
                Persistence::Permanent => " (into ",
                Persistence::Temporary => " (into_temp ",
                Persistence::Unlogged => " (into_unlogged ",
            })?;
            self.name(&into.table)?;
            self.word(")")?;
        }
        self.clause("from", &select.from, Self::table)?;
        self.opt_expr("where", select.filter.as_ref())?;
        let word = if select.group_distinct { "group_distinct" } else { "group" };
        self.clause(word, &select.group_by, Self::group_item)?;
        self.opt_expr("having", select.having.as_ref())?;
        self.clause("windows", &select.windows, |out, (name, spec)| {
            out.word("(")?;
            out.ident(name)?;
            out.word(" ")?;
            out.window(spec)?;
            out.word(")")
        })?;
        self.word(")")
    }

    fn group_item(&mut self, item: &GroupItem) -> fmt::Result {
        match item {
            GroupItem::Expr(expr) => self.expr(expr),
            GroupItem::Empty => self.word("(empty)"),
            GroupItem::Rollup(list) => list!(self, "rollup", self.exprs(list)),
            GroupItem::Cube(list) => list!(self, "cube", self.exprs(list)),
            GroupItem::Sets(items) => list!(self, "sets", self.items(items, Self::group_item)),
        }
    }

    fn target(&mut self, target: &Target) -> fmt::Result {
        match &target.alias {
            None => self.expr(&target.expr),
            Some(alias) => list!(self, "as", self.ident(alias), self.expr(&target.expr)),
        }
    }

    fn with(&mut self, with: Option<&With>) -> fmt::Result {
        let Some(with) = with else { return Ok(()) };
        self.clause(if with.recursive { "with_recursive" } else { "with" }, &with.ctes, Self::cte)
    }

    fn cte(&mut self, cte: &Cte) -> fmt::Result {
        self.word("(cte ")?;
        self.ident(&cte.name)?;
        self.clause("columns", &cte.columns, |out, name| out.ident(name))?;
        self.flag("materialized", cte.materialized == Some(true))?;
        self.flag("not_materialized", cte.materialized == Some(false))?;
        self.word(" ")?;
        match &cte.body {
            CteBody::Query(query) => self.query(query)?,
            CteBody::Insert(insert) => self.insert(insert)?,
            CteBody::Update(update) => self.update(update)?,
            CteBody::Delete(delete) => self.delete(delete)?,
            CteBody::Merge(merge) => self.merge(merge)?,
        }
        if let Some(search) = &cte.search {
            self.word(if search.breadth_first { " (search breadth (" } else { " (search depth (" })?;
            self.idents(&search.columns)?;
            self.word(") ")?;
            self.ident(&search.sequence)?;
            self.word(")")?;
        }
        if let Some(cycle) = &cte.cycle {
            self.word(" (cycle (")?;
            self.idents(&cycle.columns)?;
            self.word(") ")?;
            self.ident(&cycle.mark)?;
            match &cycle.values {
                None => self.word(" true false ")?,
                Some((value, default)) => {
                    self.word(" ")?;
                    self.expr(value)?;
                    self.word(" ")?;
                    self.expr(default)?;
                    self.word(" ")?;
                }
            }
            self.ident(&cycle.path)?;
            self.word(")")?;
        }
        self.word(")")
    }

    fn table(&mut self, table: &TableExpr) -> fmt::Result {
        match table {
            TableExpr::Relation(relation) => self.relation(relation),
            TableExpr::Subquery(one) => {
                self.word(if one.lateral { "(lateral " } else { "(derived " })?;
                self.query(&one.query)?;
                self.alias(one.alias.as_ref())?;
                self.word(")")
            }
            TableExpr::Function(one) => self.table_function(one),
            TableExpr::XmlTable(one) => write!(self.out, "{one:?}"),
            TableExpr::Pivot(one) => write!(self.out, "{one:?}"),
            TableExpr::Join(join) => self.join(join),
        }
    }

    fn alias(&mut self, alias: Option<&Alias>) -> fmt::Result {
        let Some(alias) = alias else { return Ok(()) };
        self.word(" (alias ")?;
        self.ident(&alias.name)?;
        self.clause("columns", &alias.columns, |out, name| out.ident(name))?;
        self.word(")")
    }

    fn relation(&mut self, relation: &Relation) -> fmt::Result {
        self.word(if relation.sample.is_some() { "(sample (rel " } else { "(rel " })?;
        self.name(&relation.name)?;
        self.flag("only", relation.only)?;
        self.alias(relation.alias.as_ref())?;
        self.opt_expr("as_of", relation.as_of.as_deref())?;
        self.word(")")?;
        let Some(sample) = &relation.sample else { return Ok(()) };
        self.word(" ")?;
        self.name(&sample.method)?;
        self.clause("args", &sample.args, Self::expr)?;
        self.opt_expr("repeatable", sample.repeatable.as_ref())?;
        self.word(")")
    }

    fn table_function(&mut self, one: &TableFunction) -> fmt::Result {
        self.word("(function")?;
        self.flag("lateral", one.lateral)?;
        self.flag("rows_from", one.rows_from)?;
        self.flag("ordinality", one.ordinality)?;
        for function in &one.functions {
            self.word(" (")?;
            self.expr(&function.function)?;
            self.clause("columns", &function.columns, Self::column)?;
            self.word(")")?;
        }
        self.alias(one.alias.as_ref())?;
        self.clause("columns", &one.columns, Self::column)?;
        self.word(")")
    }

    fn column(&mut self, column: &TableFunctionColumn) -> fmt::Result {
        self.word("(")?;
        self.ident(&column.name)?;
        self.word(" ")?;
        self.type_name(&column.ty)?;
        if let Some(collation) = &column.collation {
            self.word(" ")?;
            self.name(collation)?;
        }
        self.word(")")
    }

    fn join(&mut self, join: &Join) -> fmt::Result {
        self.word(match join.kind {
            JoinKind::Inner => "(join",
            JoinKind::Left => "(left_join",
            JoinKind::Right => "(right_join",
            JoinKind::Full => "(full_join",
        })?;
        self.flag("natural", join.natural)?;
        if let Some(as_of) = &join.as_of {
            self.flag("asof", true)?;
            self.flag("semi", as_of.rows == AsOfRows::Matched)?;
            self.flag("anti", as_of.rows == AsOfRows::Unmatched)?;
            self.opt_expr("match", as_of.matching.as_ref())?;
        }
        self.word(" ")?;
        self.table(&join.left)?;
        self.word(" ")?;
        self.table(&join.right)?;
        match &join.constraint {
            JoinConstraint::None => {}
            JoinConstraint::On(on) => self.opt_expr("on", Some(on))?,
            JoinConstraint::Using(columns, alias) => {
                self.clause("using", columns, |out, name| out.ident(name))?;
                if let Some(alias) = alias {
                    self.word(" (using_alias ")?;
                    self.ident(alias)?;
                    self.word(")")?;
                }
            }
        }
        self.alias(join.alias.as_ref())?;
        self.word(")")
    }

    fn statement(&mut self, statement: &Statement) -> fmt::Result {
        match statement {
            Statement::Query(query) => self.query(query),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Merge(merge) => self.merge(merge),
            other => write!(self.out, "{other:?}"),
        }
    }

    fn target_table(&mut self, table: &TargetTable) -> fmt::Result {
        self.word(" (rel ")?;
        self.name(&table.name)?;
        self.flag("only", table.only)?;
        if let Some(alias) = &table.alias {
            self.word(" (alias ")?;
            self.ident(alias)?;
            self.word(")")?;
        }
        self.word(")")
    }

    fn target_column(&mut self, column: &TargetColumn) -> fmt::Result {
        if column.steps.is_empty() {
            return self.ident(&column.name);
        }
        list!(self, "part", self.ident(&column.name), self.steps(&column.steps))
    }

    fn overriding(&mut self, overriding: Option<Overriding>) -> fmt::Result {
        self.flag("overriding_user", overriding == Some(Overriding::User))?;
        self.flag("overriding_system", overriding == Some(Overriding::System))
    }

    fn insert(&mut self, insert: &Insert) -> fmt::Result {
        self.word("(insert")?;
        self.with(insert.with.as_deref())?;
        self.target_table(&insert.table)?;
        self.clause("columns", &insert.columns, Self::target_column)?;
        self.overriding(insert.overriding)?;
        if let Some(query) = &insert.source {
            self.word(" ")?;
            self.query(query)?;
        }
        if let Some(conflict) = &insert.on_conflict {
            self.word(" (conflict")?;
            match &conflict.target {
                None => {}
                Some(ConflictTarget::Constraint(name)) => {
                    self.word(" (constraint ")?;
                    self.ident(name)?;
                    self.word(")")?;
                }
                Some(ConflictTarget::Index { elements, filter, .. }) => {
                    self.clause("index", elements, Self::index_element)?;
                    self.opt_expr("index_where", filter.as_ref())?;
                }
            }
            match &conflict.action {
                ConflictAction::Nothing => self.word(" nothing")?,
                ConflictAction::Update { set, filter } => {
                    self.clause("set", set, Self::set_clause)?;
                    self.opt_expr("where", filter.as_ref())?;
                }
            }
            self.word(")")?;
        }
        self.clause("returning", &insert.returning, Self::target)?;
        self.word(")")
    }

    fn index_element(&mut self, element: &IndexElement) -> fmt::Result {
        self.word("(")?;
        match &element.key {
            IndexKey::Column(name) => self.ident(name)?,
            IndexKey::Expr(expr) => self.expr(expr)?,
        }
        for name in [&element.collation, &element.operator_class].into_iter().flatten() {
            self.word(" ")?;
            self.name(name)?;
        }
        self.order(&element.direction, element.nulls)?;
        self.word(")")
    }

    fn set_clause(&mut self, set: &SetClause) -> fmt::Result {
        match set {
            SetClause::One(column, value) => list!(self, "=", self.target_column(column), self.expr(value)),
            SetClause::Many(columns, value) => {
                self.word("(=* (")?;
                self.items(columns, Self::target_column)?;
                self.word(") ")?;
                self.expr(value)?;
                self.word(")")
            }
        }
    }

    fn update(&mut self, update: &crate::ast::Update) -> fmt::Result {
        self.word("(update")?;
        self.with(update.with.as_deref())?;
        self.target_table(&update.table)?;
        self.clause("set", &update.set, Self::set_clause)?;
        self.clause("from", &update.from, Self::table)?;
        self.opt_expr("where", update.filter.as_ref())?;
        self.clause("returning", &update.returning, Self::target)?;
        self.word(")")
    }

    fn delete(&mut self, delete: &crate::ast::Delete) -> fmt::Result {
        self.word("(delete")?;
        self.with(delete.with.as_deref())?;
        self.target_table(&delete.table)?;
        self.clause("using", &delete.using, Self::table)?;
        self.opt_expr("where", delete.filter.as_ref())?;
        self.clause("returning", &delete.returning, Self::target)?;
        self.word(")")
    }

    fn merge(&mut self, merge: &Merge) -> fmt::Result {
        self.word("(merge")?;
        self.with(merge.with.as_deref())?;
        self.target_table(&merge.table)?;
        self.word(" ")?;
        self.table(&merge.source)?;
        self.opt_expr("on", Some(&merge.on))?;
        for branch in &merge.branches {
            self.word(if branch.matched { " (matched" } else { " (not_matched" })?;
            self.opt_expr("if", branch.condition.as_ref())?;
            match &branch.action {
                MergeAction::Nothing => self.word(" nothing")?,
                MergeAction::Delete => self.word(" delete")?,
                MergeAction::Update(set) => self.clause("set", set, Self::set_clause)?,
                MergeAction::Insert { columns, overriding, values } => {
                    self.word(" insert")?;
                    self.clause("columns", columns, Self::target_column)?;
                    self.overriding(*overriding)?;
                    self.clause("values", values.as_deref().unwrap_or_default(), Self::expr)?;
                }
            }
            self.word(")")?;
        }
        self.word(")")
    }
}
