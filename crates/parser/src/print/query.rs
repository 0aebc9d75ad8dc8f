//! Queries and FROM.

use super::Printer;
use super::view::Layout;
use crate::ast::{
    Alias, AsOfRows, Cte, CteBody, DistinctClause, ExprKind, GroupItem, Ident, Join, JoinConstraint, JoinKind, Limit,
    LockStrength, LockWait, Persistence, Pivot, PivotKind, Query, QueryBody, Relation, Select, SetOperator, TableExpr,
    TableFunction, TableFunctionColumn, Target, With, XmlTable,
};

impl Printer<'_> {
    pub(super) fn query(&mut self, query: &Query) {
        let layout = self.layout.take();
        self.put_if(layout.is_some() && (query.with.is_some() || matches!(query.body, QueryBody::Values(_))), " ");
        self.with(query.with.as_deref());
        self.put_if(layout.is_some() && query.with.is_some(), "\n");
        match &query.body {
            QueryBody::Select(select) => {
                self.layout = layout;
                self.select(select);
            }
            QueryBody::Values(rows) => {
                self.put("VALUES ");
                self.list(rows, |out, row| out.parens(row, Self::expr));
            }
            QueryBody::SetOperation(one) => {
                self.layout = layout;
                self.set_operand(&one.left);
                let between = if layout.is_some() { "\n" } else { " " };
                self.put(between);
                self.put(match one.op {
                    SetOperator::Union => "UNION",
                    SetOperator::Intersect => "INTERSECT",
                    SetOperator::Except => "EXCEPT",
                });
                self.put_if(one.all, " ALL");
                self.put(between);
                self.layout = layout.map(|_| Layout::default());
                self.set_operand(&one.right);
            }
        }
        let line = if layout.is_some() { "\n " } else { "" };
        self.put_if(!query.order_by.is_empty(), line);
        self.opt_list(" ORDER BY ", &query.order_by, Self::sort_by);
        self.put_if(matches!(query.limit, Some(Limit::All | Limit::Count(_))), line.trim_end_matches(' '));
        match &query.limit {
            None => {}
            Some(Limit::All) => self.put(" LIMIT ALL"),
            Some(Limit::Count(count)) => self.opt(" LIMIT ", Some(count), Self::operand),
            Some(Limit::WithTies(_)) => {}
        }
        self.put_if(query.offset.is_some(), line.trim_end_matches(' '));
        self.opt(" OFFSET ", query.offset.as_ref(), Self::operand);
        if let Some(Limit::WithTies(count)) = &query.limit {
            self.put(" FETCH FIRST ");
            // Only a value in parentheses, or a constant, may stand here.
            self.put("(");
            self.expr(count);
            self.put(") ROWS WITH TIES");
        }
        for locking in &query.locking {
            self.put(match locking.strength {
                LockStrength::KeyShare => " FOR KEY SHARE",
                LockStrength::Share => " FOR SHARE",
                LockStrength::NoKeyUpdate => " FOR NO KEY UPDATE",
                LockStrength::Update => " FOR UPDATE",
            });
            self.opt_list(" OF ", &locking.of, Self::name);
            self.put(match locking.wait {
                LockWait::Wait => "",
                LockWait::SkipLocked => " SKIP LOCKED",
                LockWait::NoWait => " NOWAIT",
            });
        }
    }

    /// An operand of UNION: in parentheses, unless it is nothing but SELECT or VALUES.
    fn set_operand(&mut self, query: &Query) {
        let is_plain = query.with.is_none()
            && query.order_by.is_empty()
            && query.limit.is_none()
            && query.offset.is_none()
            && query.locking.is_empty()
            && !matches!(query.body, QueryBody::SetOperation(_));
        self.put_if(!is_plain, "(");
        self.query(query);
        self.put_if(!is_plain, ")");
    }

    pub(super) fn with(&mut self, with: Option<&With>) {
        let Some(with) = with else { return };
        self.put(if with.recursive { "WITH RECURSIVE " } else { "WITH " });
        self.list(&with.ctes, Self::cte);
        self.put(" ");
    }

    fn cte(&mut self, cte: &Cte) {
        self.ident(&cte.name);
        self.opt_parens("", &cte.columns, |out, name| out.ident(name));
        self.put(match cte.materialized {
            None => " AS (",
            Some(true) => " AS MATERIALIZED (",
            Some(false) => " AS NOT MATERIALIZED (",
        });
        match &cte.body {
            CteBody::Query(query) => self.query(query),
            CteBody::Insert(insert) => self.insert(insert),
            CteBody::Update(update) => self.update(update),
            CteBody::Delete(delete) => self.delete(delete),
            CteBody::Merge(merge) => self.merge(merge),
        }
        self.put(")");
        if let Some(search) = &cte.search {
            self.put(if search.breadth_first { " SEARCH BREADTH FIRST BY " } else { " SEARCH DEPTH FIRST BY " });
            self.idents(&search.columns);
            self.put(" SET ");
            self.ident(&search.sequence);
        }
        if let Some(cycle) = &cte.cycle {
            self.put(" CYCLE ");
            self.idents(&cycle.columns);
            self.put(" SET ");
            self.ident(&cycle.mark);
            if let Some((value, default)) = &cycle.values {
                self.put(" TO ");
                self.expr(value);
                self.put(" DEFAULT ");
                self.expr(default);
            }
            self.put(" USING ");
            self.ident(&cycle.path);
        }
    }

    fn select(&mut self, select: &Select) {
        let layout = self.layout.take();
        let line = |words: &'static str| match layout {
            Some(_) => words,
            // One blank is left.
            None => &words[words.find(|c: char| c.is_ascii_uppercase()).map_or(0, |at| at - 1)..],
        };
        self.put_if(layout.is_some(), " ");
        self.put("SELECT");
        match &select.distinct {
            None => {}
            Some(DistinctClause::All) => self.put(" DISTINCT"),
            Some(DistinctClause::On(list)) => self.opt_parens(" DISTINCT ON ", list, Self::expr),
        }
        self.put_if(!select.targets.is_empty(), " ");
        let between = if layout.is_some() { ",\n    " } else { ", " };
        for (at, target) in select.targets.iter().enumerate() {
            self.put_if(at > 0, between);
            match layout.and_then(|layout| layout.names).and_then(|names| names.get(at)) {
                Some(name) => self.named_target(target, name),
                None => self.target(target),
            }
        }
        if let Some(into) = &select.into {
            self.put(" INTO ");
            self.persistence(into.persistence);
            self.put_if(into.persistence != Persistence::Permanent, "TABLE ");
            self.name(&into.table);
        }
        for (at, item) in select.from.iter().enumerate() {
            self.put(if at == 0 { line("\n   FROM ") } else { between });
            self.breaks_joins = layout.is_some();
            self.table(item);
        }
        self.opt(line("\n  WHERE "), select.filter.as_ref(), Self::expr);
        if !select.group_by.is_empty() {
            self.put(line("\n  GROUP BY "));
            self.put_if(select.group_distinct, "DISTINCT ");
            self.list(&select.group_by, Self::group_item);
        }
        self.opt(line("\n HAVING "), select.having.as_ref(), Self::expr);
        self.opt_list(line("\n  WINDOW "), &select.windows, |out, (name, spec)| {
            out.ident(name);
            out.put(" AS ");
            out.window(spec);
        });
    }

    fn group_item(&mut self, item: &GroupItem) {
        match item {
            GroupItem::Expr(expr) => self.expr(expr),
            GroupItem::Empty => self.put("()"),
            GroupItem::Rollup(list) => self.opt_parens("ROLLUP ", list, Self::expr),
            GroupItem::Cube(list) => self.opt_parens("CUBE ", list, Self::expr),
            GroupItem::Sets(items) => self.opt_parens("GROUPING SETS ", items, Self::group_item),
        }
    }

    pub(super) fn target(&mut self, target: &Target) {
        self.expr(&target.expr);
        let alias = target.alias.as_ref().or_else(|| self.rewrites?.alias_of(target));
        self.opt(" AS ", alias, |out, alias| out.ident(alias));
    }

    /// An item of the select list with this name.
    fn named_target(&mut self, target: &Target, name: &Ident) {
        self.expr(&target.expr);
        let own = match &target.expr.kind {
            ExprKind::Column(own) => Some(own),
            ExprKind::Path(parts) => parts.last(),
            _ => None,
        };
        self.opt(" AS ", Some(name).filter(|name| own != Some(*name)), |out, name| out.ident(name));
    }

    pub(super) fn table(&mut self, table: &TableExpr) {
        if !matches!(table, TableExpr::Join(_)) {
            self.breaks_joins = false;
        }
        match table {
            TableExpr::Relation(relation) => self.relation(relation),
            TableExpr::Subquery(one) => {
                self.put(if one.lateral { "LATERAL (" } else { "(" });
                self.query(&one.query);
                self.put(")");
                self.alias(one.alias.as_ref());
            }
            TableExpr::Function(one) => self.table_function(one),
            TableExpr::XmlTable(one) => self.xml_table(one),
            TableExpr::Join(join) => self.join(join),
            TableExpr::Pivot(pivot) => self.pivot(pivot),
        }
    }

    fn pivot(&mut self, pivot: &Pivot) {
        self.table(&pivot.source);
        match &pivot.kind {
            PivotKind::Columns { aggregates, by, values } => {
                self.put(" PIVOT (");
                self.list(aggregates, Self::target);
                self.put(" FOR ");
                self.expr(by);
                self.put(" IN (");
                self.list(values, Self::target);
                self.put("))");
            }
            PivotKind::Rows { nulls, value, name, columns } => {
                self.put(if *nulls { " UNPIVOT INCLUDE NULLS (" } else { " UNPIVOT (" });
                self.ident(value);
                self.put(" FOR ");
                self.ident(name);
                self.opt_parens(" IN", columns, |out, (column, label)| {
                    out.expr(column);
                    out.put(" AS ");
                    out.text(label);
                });
                self.put(")");
            }
        }
        self.alias(pivot.alias.as_ref());
    }

    fn alias(&mut self, alias: Option<&Alias>) {
        self.opt(" AS ", alias, |out, alias| {
            out.ident(&alias.name);
            out.opt_parens("", &alias.columns, |out, name| out.ident(name));
        });
    }

    fn relation(&mut self, relation: &Relation) {
        self.put_if(relation.only, "ONLY ");
        let text = self.rewrites.and_then(|rewrites| rewrites.relation(relation));
        match text {
            Some(text) => self.put(&text.name),
            None => self.name(&relation.name),
        }
        self.opt(" FOR SYSTEM_TIME AS OF ", relation.as_of.as_deref(), Self::operand);
        let alias = text.and_then(|text| text.alias.as_ref()).or(relation.alias.as_ref());
        self.alias(alias);
        if let Some(sample) = &relation.sample {
            self.put(" TABLESAMPLE ");
            self.name(&sample.method);
            self.parens(&sample.args, Self::expr);
            if let Some(seed) = &sample.repeatable {
                self.put(" REPEATABLE (");
                self.expr(seed);
                self.put(")");
            }
        }
    }

    fn table_function(&mut self, one: &TableFunction) {
        self.put_if(one.lateral, "LATERAL ");
        self.put_if(one.rows_from, "ROWS FROM (");
        self.list(&one.functions, |out, function| {
            out.expr(&function.function);
            out.opt_parens(" AS ", &function.columns, Self::column_definition);
        });
        self.put_if(one.rows_from, ")");
        self.put_if(one.ordinality, " WITH ORDINALITY");
        self.alias(one.alias.as_ref());
        let words = if one.alias.is_some() { "" } else { " AS " };
        self.opt_parens(words, &one.columns, Self::column_definition);
    }

    pub(super) fn column_definition(&mut self, column: &TableFunctionColumn) {
        self.ident(&column.name);
        self.put(" ");
        self.type_name(&column.ty);
        self.opt(" COLLATE ", column.collation.as_ref(), Self::name);
    }

    fn xml_table(&mut self, one: &XmlTable) {
        self.put_if(one.lateral, "LATERAL ");
        self.put("XMLTABLE(");
        if !one.namespaces.is_empty() {
            self.opt_parens("XMLNAMESPACES", &one.namespaces, |out, (uri, name)| {
                out.put_if(name.is_none(), "DEFAULT ");
                out.operand(uri);
                out.opt(" AS ", name.as_ref(), |out, name| out.ident(name));
            });
            self.put(", ");
        }
        self.operand(&one.row);
        self.put(" PASSING ");
        self.operand(&one.document);
        self.put(" COLUMNS ");
        self.list(&one.columns, |out, column| {
            out.ident(&column.name);
            match &column.ty {
                None => return out.put(" FOR ORDINALITY"),
                Some(ty) => {
                    out.put(" ");
                    out.type_name(ty);
                }
            }
            out.opt(" PATH ", column.path.as_ref(), Self::operand);
            out.opt(" DEFAULT ", column.default.as_ref(), Self::operand);
            out.put_if(column.not_null, " NOT NULL");
        });
        self.put(")");
        self.alias(one.alias.as_ref());
    }

    /// A join; in parentheses where it has an alias.
    fn join(&mut self, join: &Join) {
        self.put_if(join.alias.is_some(), "(");
        let breaks = self.breaks_joins;
        self.table(&join.left);
        self.breaks_joins = false;
        // The columns that NATURAL found.
        let common = self.rewrites.and_then(|rewrites| rewrites.common_columns(join));
        let using_alias = self.rewrites.and_then(|rewrites| rewrites.using_alias(join));
        let is_natural = join.natural && common.is_none();
        self.put_if(breaks, "\n    ");
        self.put(if is_natural { " NATURAL" } else { "" });
        self.put(match join.as_of.as_ref().map(|as_of| as_of.rows) {
            None => "",
            Some(AsOfRows::Pairs) => " ASOF",
            Some(AsOfRows::Matched) => " ASOF SEMI",
            Some(AsOfRows::Unmatched) => " ASOF ANTI",
        });
        let is_cross = join.constraint == JoinConstraint::None && !join.natural && join.as_of.is_none();
        self.put(match join.kind {
            JoinKind::Inner if is_cross => " CROSS JOIN ",
            JoinKind::Inner => " JOIN ",
            JoinKind::Left => " LEFT JOIN ",
            JoinKind::Right => " RIGHT JOIN ",
            JoinKind::Full => " FULL JOIN ",
        });
        // A join on the right side needs parentheses, which are no node.
        let is_nested = matches!(&join.right, TableExpr::Join(right) if right.alias.is_none());
        self.put_if(is_nested, "(");
        self.table(&join.right);
        self.put_if(is_nested, ")");
        if let Some(matching) = join.as_of.as_ref().and_then(|as_of| as_of.matching.as_ref()) {
            self.put(" MATCH_CONDITION (");
            self.expr(matching);
            self.put(")");
        }
        match (&join.constraint, common) {
            (_, Some([])) => self.put(" ON true"),
            (_, Some(columns)) => {
                self.opt_parens(" USING ", columns, |out, name| out.ident(name));
                self.opt(" AS ", using_alias, |out, alias| out.ident(alias));
            }
            (JoinConstraint::None, None) => {}
            (JoinConstraint::On(on), None) => self.opt(" ON ", Some(on), Self::expr),
            (JoinConstraint::Using(columns, alias), None) => {
                self.opt_parens(" USING ", columns, |out, name| out.ident(name));
                self.opt(" AS ", alias.as_ref().or(using_alias), |out, alias| out.ident(alias));
            }
        }
        self.put_if(join.alias.is_some(), ")");
        self.alias(join.alias.as_ref());
    }
}
