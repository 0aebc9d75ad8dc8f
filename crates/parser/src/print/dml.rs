//! INSERT, UPDATE, DELETE and MERGE.

use super::Printer;
use crate::ast::{
    ConflictAction, ConflictTarget, Delete, IndexElement, IndexKey, Insert, Merge, MergeAction, Overriding, SetClause,
    Target, TargetColumn, TargetTable, Update,
};

impl Printer<'_> {
    fn target_table(&mut self, table: &TargetTable) {
        self.put_if(table.only, "ONLY ");
        self.name(&table.name);
        self.opt(" AS ", table.alias.as_ref(), |out, alias| out.ident(alias));
    }

    fn target_column(&mut self, column: &TargetColumn) {
        self.ident(&column.name);
        self.steps(&column.steps);
    }

    fn overriding(&mut self, overriding: Option<Overriding>) {
        self.put(match overriding {
            None => "",
            Some(Overriding::User) => " OVERRIDING USER VALUE",
            Some(Overriding::System) => " OVERRIDING SYSTEM VALUE",
        });
    }

    fn returning(&mut self, returning: &[Target]) {
        self.opt_list(" RETURNING ", returning, Self::target);
    }

    pub(super) fn insert(&mut self, insert: &Insert) {
        self.with(insert.with.as_deref());
        self.put("INSERT INTO ");
        self.target_table(&insert.table);
        self.opt_parens(" ", &insert.columns, Self::target_column);
        self.overriding(insert.overriding);
        match &insert.source {
            None => self.put(" DEFAULT VALUES"),
            Some(query) => {
                self.put(" ");
                self.query(query);
            }
        }
        if let Some(conflict) = &insert.on_conflict {
            self.put(" ON CONFLICT");
            match &conflict.target {
                None => {}
                Some(ConflictTarget::Constraint(name)) => {
                    self.put(" ON CONSTRAINT ");
                    self.ident(name);
                }
                Some(ConflictTarget::Index { elements, filter, .. }) => {
                    self.opt_parens(" ", elements, Self::index_element);
                    self.opt(" WHERE ", filter.as_ref(), Self::expr);
                }
            }
            match &conflict.action {
                ConflictAction::Nothing => self.put(" DO NOTHING"),
                ConflictAction::Update { set, filter } => {
                    self.put(" DO UPDATE");
                    self.set_clauses(set);
                    self.opt(" WHERE ", filter.as_ref(), Self::expr);
                }
            }
        }
        self.returning(&insert.returning);
    }

    pub(super) fn index_element(&mut self, element: &IndexElement) {
        self.index_key(&element.key);
        self.opt(" COLLATE ", element.collation.as_ref(), Self::name);
        self.opt(" ", element.operator_class.as_ref(), Self::name);
        self.opt_parens("", &element.operator_class_options, Self::rel_option);
        self.order(&element.direction, element.nulls);
    }

    pub(super) fn index_key(&mut self, key: &IndexKey) {
        match key {
            IndexKey::Column(name) => self.ident(name),
            IndexKey::Expr(expr) => {
                self.put("(");
                self.expr(expr);
                self.put(")");
            }
        }
    }

    fn set_clauses(&mut self, clauses: &[SetClause]) {
        self.opt_list(" SET ", clauses, |out, clause| match clause {
            SetClause::One(column, value) => {
                out.target_column(column);
                out.put(" = ");
                out.expr(value);
            }
            SetClause::Many(columns, value) => {
                out.parens(columns, Self::target_column);
                out.put(" = ");
                out.expr(value);
            }
        });
    }

    pub(super) fn update(&mut self, update: &Update) {
        self.with(update.with.as_deref());
        self.put("UPDATE ");
        self.target_table(&update.table);
        self.set_clauses(&update.set);
        self.opt_list(" FROM ", &update.from, Self::table);
        self.opt(" WHERE ", update.filter.as_ref(), Self::expr);
        self.returning(&update.returning);
    }

    pub(super) fn delete(&mut self, delete: &Delete) {
        self.with(delete.with.as_deref());
        self.put("DELETE FROM ");
        self.target_table(&delete.table);
        self.opt_list(" USING ", &delete.using, Self::table);
        self.opt(" WHERE ", delete.filter.as_ref(), Self::expr);
        self.returning(&delete.returning);
    }

    pub(super) fn merge(&mut self, merge: &Merge) {
        self.with(merge.with.as_deref());
        self.put("MERGE INTO ");
        self.target_table(&merge.table);
        self.put(" USING ");
        self.table(&merge.source);
        self.put(" ON ");
        self.expr(&merge.on);
        for branch in &merge.branches {
            self.put(if branch.matched { " WHEN MATCHED" } else { " WHEN NOT MATCHED" });
            self.opt(" AND ", branch.condition.as_ref(), Self::expr);
            self.put(" THEN ");
            match &branch.action {
                MergeAction::Nothing => self.put("DO NOTHING"),
                MergeAction::Delete => self.put("DELETE"),
                MergeAction::Update(set) => {
                    self.put("UPDATE");
                    self.set_clauses(set);
                }
                MergeAction::Insert { values: None, .. } => self.put("INSERT DEFAULT VALUES"),
                MergeAction::Insert { columns, overriding, values: Some(values) } => {
                    self.put("INSERT");
                    self.opt_parens(" ", columns, Self::target_column);
                    self.overriding(*overriding);
                    self.opt_parens(" VALUES ", values, Self::expr);
                }
            }
        }
    }
}
