//! Queries of views: as text that means the same for ever, and as users see them.

use std::collections::{HashMap, HashSet};

use super::{Printer, quoted_name};
use crate::ast::{
    Alias, DistinctClause, Expr, ExprKind, FunctionCall, GroupItem, Ident, Join, Pos, Query, QueryBody, Relation,
    Select, Target,
};

/// Texts that are printed in place of parts of one tree. The parts are known by their places and addresses, so a
/// rewrite belongs to the tree that it was made for.
#[derive(Debug, Default)]
pub struct Rewrites {
    /// Names and constants, by place.
    exprs: HashMap<u32, String>,
    /// `*`, `t.*` and `(row).*` in a select list.
    stars: HashMap<usize, String>,
    /// Names of columns of a select list that were not written.
    aliases: HashMap<usize, Ident>,
    /// Types, by the place of their name.
    types: HashMap<u32, String>,
    /// Tables, by the place of their name.
    relations: HashMap<u32, RelationText>,
    /// Names of functions, by the place of their call.
    functions: HashMap<u32, String>,
    /// Columns that the sides of NATURAL joins have in common.
    common: HashMap<usize, Vec<Ident>>,
    /// Aliases for the merged columns of joins, which are printed if [`Rewrites::need_using_alias`] was called.
    using_aliases: HashMap<usize, Ident>,
    needed_aliases: HashSet<Ident>,
}

/// What is printed in place of a table in FROM.
#[derive(Clone, Debug)]
pub struct RelationText {
    /// The name, quoted.
    pub name: String,
    /// The alias; `None` leaves the one that was written.
    pub alias: Option<Alias>,
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

impl Rewrites {
    /// A name or a constant at this place.
    pub fn set_expr(&mut self, at: Pos, text: String) {
        self.exprs.insert(at.0, text);
    }

    /// The name of a type at this place.
    pub fn set_type(&mut self, at: Pos, text: String) {
        self.types.insert(at.0, text);
    }

    pub(super) fn type_name(&self, at: Pos) -> Option<&str> {
        self.types.get(&at.0).map(String::as_str)
    }

    /// The items that a `*` of a select list stands for, also that of a row (`(row).*`).
    pub fn set_star(&mut self, star: &Expr, items: &[String]) {
        self.stars.insert(address(star), items.join(", "));
    }

    /// The name of an item of a select list.
    pub fn set_alias(&mut self, target: &Target, name: &Ident) {
        self.aliases.insert(address(target), name.clone());
    }

    /// A table at this place.
    pub fn set_relation(&mut self, at: Pos, text: RelationText) {
        self.relations.insert(at.0, text);
    }

    /// The name of a function, quoted, in a call at this place.
    pub fn set_function(&mut self, at: Pos, name: String) {
        self.functions.insert(at.0, name);
    }

    /// The columns that a NATURAL join compares.
    pub fn set_common_columns(&mut self, join: &Join, columns: Vec<Ident>) {
        self.common.insert(address(join), columns);
    }

    /// An alias for the merged columns of a join (`USING (…) AS alias`), for the case that a text needs it.
    pub fn set_using_alias(&mut self, join: &Join, alias: Ident) {
        self.using_aliases.insert(address(join), alias);
    }

    /// Notes that a text calls merged columns by this alias.
    pub fn need_using_alias(&mut self, alias: &Ident) {
        self.needed_aliases.insert(alias.clone());
    }

    pub(super) fn text_of(&self, expr: &Expr) -> Option<&str> {
        let found = match &expr.kind {
            ExprKind::Wildcard(_) | ExprKind::Indirection(_) => self.stars.get(&address(expr)),
            ExprKind::Column(_) | ExprKind::Path(_) | ExprKind::String(_) => self.exprs.get(&expr.at.0),
            _ => None,
        };
        found.map(String::as_str)
    }

    pub(super) fn alias_of(&self, target: &Target) -> Option<&Ident> {
        self.aliases.get(&address(target))
    }

    pub(super) fn relation(&self, relation: &Relation) -> Option<&RelationText> {
        self.relations.get(&relation.name.at.0)
    }

    pub(super) fn function(&self, call: &FunctionCall) -> Option<&str> {
        self.functions.get(&call.at.0).map(String::as_str)
    }

    pub(super) fn common_columns(&self, join: &Join) -> Option<&[Ident]> {
        self.common.get(&address(join)).map(Vec::as_slice)
    }

    pub(super) fn using_alias(&self, join: &Join) -> Option<&Ident> {
        self.using_aliases.get(&address(join)).filter(|alias| self.needed_aliases.contains(*alias))
    }
}

/// How the query of a view is printed in lines, as PostgreSQL does it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout<'r> {
    /// Names of the result's columns.
    pub(super) names: Option<&'r [Ident]>,
}

/// A query with rewrites, in one line.
#[must_use]
pub fn rewritten(query: &Query, rewrites: &Rewrites) -> String {
    let mut printer = Printer { rewrites: Some(rewrites), ..Printer::default() };
    printer.query(query);
    printer.out
}

/// An expression with rewrites.
#[must_use]
pub fn rewritten_expr(expr: &Expr, rewrites: &Rewrites) -> String {
    let mut printer = Printer { rewrites: Some(rewrites), ..Printer::default() };
    printer.expr(expr);
    printer.out
}

/// The query of a view in lines, whose columns get these names.
///
/// - `view`: name of the view, by which the columns are called where the query cannot name them itself.
#[must_use]
pub fn view_definition(query: &Query, rewrites: &Rewrites, view: &str, names: &[Ident]) -> String {
    let mut printer = Printer { rewrites: Some(rewrites), ..Printer::default() };
    if takes_names(query, names, true) {
        printer.layout = Some(Layout { names: Some(names) });
        printer.query(query);
    } else {
        let view = quoted_name(view);
        let columns: Vec<String> = names.iter().map(|name| quoted_name(name)).collect();
        let targets: Vec<String> = columns.iter().map(|column| format!("{view}.{column}")).collect();
        printer.put(&format!(" SELECT {}\n   FROM (", targets.join(",\n    ")));
        printer.query(query);
        printer.put(&format!(") {view}({})", columns.join(", ")));
    }
    printer.out + ";"
}

/// Whether the select list can get these names and the query keeps its meaning: a clause behind it may use the old
/// ones.
fn takes_names(query: &Query, names: &[Ident], is_outermost: bool) -> bool {
    let own = match &query.body {
        QueryBody::Values(_) => return names.iter().zip(1..).all(|(name, at)| *name == format!("column{at}")),
        QueryBody::SetOperation(operation) if is_outermost => {
            return takes_names(&operation.left, names, query.order_by.is_empty());
        }
        QueryBody::SetOperation(operation) => return takes_names(&operation.left, names, false),
        QueryBody::Select(select) => select,
    };
    let is_same = own.targets.len() == names.len()
        && own.targets.iter().zip(names).all(|(target, name)| output_name(target) == Some(name));
    is_same || is_outermost && !names_results(query, own)
}

/// Whether a clause may name columns of the result: in expressions, and with a qualifier, names are columns of FROM.
fn names_results(query: &Query, select: &Select) -> bool {
    let is_name = |expr: &Expr| matches!(expr.kind, ExprKind::Column(_));
    let groups = select.group_by.iter().any(|item| match item {
        GroupItem::Expr(expr) => is_name(expr),
        GroupItem::Empty => false,
        GroupItem::Rollup(_) | GroupItem::Cube(_) | GroupItem::Sets(_) => true,
    });
    let is_distinct_on = matches!(select.distinct, Some(DistinctClause::On(_)));
    groups || is_distinct_on || query.order_by.iter().any(|by| is_name(&by.expr))
}

fn output_name(target: &Target) -> Option<&Ident> {
    target.alias.as_ref().or(match &target.expr.kind {
        ExprKind::Column(name) => Some(name),
        ExprKind::Path(parts) => parts.last(),
        _ => None,
    })
}
