//! Types of expressions: resolves operators and functions by PostgreSQL's rules and adds its implicit casts.
//!
//! Results are syntax trees in which every constant has its type, and every construct that PostgreSQL stores as another
//! one (IN, BETWEEN, LIKE) is that. PostgreSQL hides implicit casts in some places; there none is added.

use std::ops::ControlFlow;

use catalog::{CastContext, FunctionCall as Call, Resolved, TypeId, builtin};
use model::RowSchema;
use parser::ast::{
    Between, Case, Distinct, Expr, ExprKind, FunctionCall, Ident, In, Indirection, Like, LikeKind, Name, NamedArgument,
    OperatorExpr, OperatorName, Pos, Quantified, SqlValue, Step, Visitor,
};

use super::literal::{cast, constant, is_constant, is_text, node, number, with_modifiers};
use super::types::Ty;

/// Infers types. Methods return `None` for expressions that are wrong or not supported here.
pub(super) struct Typer<'t> {
    /// The table whose columns the expression reads, if it reads any.
    pub(super) table: Option<&'t RowSchema>,
}

/// An expression with its casts, and its type: `unknown` for a text or NULL, whose type depends on its context.
struct Typed {
    expr: Expr,
    ty: Ty,
}

impl Typed {
    fn new(kind: ExprKind, id: TypeId) -> Typed {
        Typed { expr: node(kind), ty: Ty::plain(id) }
    }

    fn is_unknown(&self) -> bool {
        self.ty.id == TypeId::UNKNOWN
    }
}

impl Typer<'_> {
    /// The value of a column of this type. Its cast is hidden.
    pub(super) fn assigned(&self, expr: &Expr, ty: &Ty) -> Option<Expr> {
        let mut value = self.hidden(self.typed(expr)?, ty.id, CastContext::Assignment)?;
        // Columns have no fields of intervals, so that a constant loses its own.
        if let ExprKind::Cast(cast) = &mut value.kind
            && ty.id == TypeId::INTERVAL
            && is_text(&cast.expr)
        {
            cast.ty.modifiers.clear();
        }
        Some(value)
    }

    /// A boolean expression.
    pub(super) fn condition(&self, expr: &Expr) -> Option<Expr> {
        self.hidden(self.typed(expr)?, TypeId::BOOL, CastContext::Assignment)
    }

    /// An expression of any type.
    pub(super) fn value(&self, expr: &Expr) -> Option<Expr> {
        Some(self.known(self.typed(expr)?)?.expr)
    }

    fn typed(&self, expr: &Expr) -> Option<Typed> {
        use ExprKind as E;
        match &expr.kind {
            E::Null | E::String(_) => Some(Typed::new(expr.kind.clone(), TypeId::UNKNOWN)),
            E::Bool(_) => Some(Typed::new(expr.kind.clone(), TypeId::BOOL)),
            E::Integer(value) => numbered(&value.to_string()),
            E::Number(text) => numbered(text),
            E::Column(name) => self.column(name),
            E::Path(parts) => self.column(parts.last()?),
            E::Operator(one) => self.operator(one),
            E::Quantified(one) => self.quantified(&one.op, one.all, self.typed(&one.left)?, self.typed(&one.right)?),
            E::And(list) => Some(Typed::new(E::And(self.conditions(list)?), TypeId::BOOL)),
            E::Or(list) => Some(Typed::new(E::Or(self.conditions(list)?), TypeId::BOOL)),
            E::Not(one) => Some(Typed::new(E::Not(Box::new(self.condition(one)?)), TypeId::BOOL)),
            E::IsNull(one) => Some(Typed::new(E::IsNull(Box::new(self.typed(one)?.expr)), TypeId::BOOL)),
            E::IsNotNull(one) => Some(Typed::new(E::IsNotNull(Box::new(self.typed(one)?.expr)), TypeId::BOOL)),
            E::BooleanTest(one, test) => {
                Some(Typed::new(E::BooleanTest(Box::new(self.condition(one)?), *test), TypeId::BOOL))
            }
            E::Distinct(one) => self.distinct(one),
            E::NullIf(both) => self.null_if(both),
            E::In(one) => self.among(one),
            E::Like(one) => self.typed(&like(one)),
            E::Between(one) => self.typed(&between(one)),
            E::Function(call) => self.function(call),
            E::SqlValue(value) => Some(sql_value(*value)),
            E::Cast(one) => self.cast(&one.expr, &Ty::named(&one.ty)?),
            E::Collate(one) => {
                let of = self.known(self.typed(&one.expr)?)?;
                let mut collate = one.clone();
                collate.expr = of.expr;
                Some(Typed { expr: node(E::Collate(collate)), ty: of.ty })
            }
            E::Case(case) => self.case(case),
            E::Array(items) => {
                let (items, id) = self.unified(self.all(items)?, "ARRAY")?;
                // An array of arrays has the type of its elements.
                let is_nested = items.first().is_some_and(|item| matches!(item.kind, E::Array(_)));
                let id = if is_nested { id } else { builtin().array_of(id)? };
                Some(Typed::new(E::Array(items), id))
            }
            E::Coalesce(list) => self.of_one_type(list, "COALESCE", E::Coalesce),
            E::Greatest(list) => self.of_one_type(list, "GREATEST", E::Greatest),
            E::Least(list) => self.of_one_type(list, "LEAST", E::Least),
            E::Indirection(one) => self.subscripted(one),
            _ => None,
        }
    }

    fn all(&self, list: &[Expr]) -> Option<Vec<Typed>> {
        list.iter().map(|one| self.typed(one)).collect()
    }

    fn conditions(&self, list: &[Expr]) -> Option<Vec<Expr>> {
        list.iter().map(|one| self.condition(one)).collect()
    }

    fn column(&self, name: &Ident) -> Option<Typed> {
        let table = self.table?;
        let column = &table.columns[table.column(name)?];
        Some(Typed { expr: node(ExprKind::Column(name.clone())), ty: Ty::of(column.ty) })
    }

    /// An operand or argument as a value of a type.
    fn coerced(&self, of: Typed, to: TypeId) -> Option<Expr> {
        if of.ty.id == to || to == TypeId::ANY || to.is_polymorphic() {
            return Some(of.expr);
        }
        if of.is_unknown() {
            return literal(of.expr, &Ty::plain(to));
        }
        builtin().cast(of.ty.id, to, CastContext::Implicit)?;
        cast(of.expr, &Ty::plain(to))
    }

    /// As [`Self::coerced`], where PostgreSQL does not print the cast.
    fn hidden(&self, of: Typed, to: TypeId, context: CastContext) -> Option<Expr> {
        if of.is_unknown() {
            return literal(of.expr, &Ty::plain(to));
        }
        builtin().cast(of.ty.id, to, context)?;
        Some(of.expr)
    }

    /// A text or NULL without context is of type `text`.
    fn known(&self, of: Typed) -> Option<Typed> {
        if !of.is_unknown() {
            return Some(of);
        }
        Some(Typed { expr: literal(of.expr, &Ty::plain(TypeId::TEXT))?, ty: Ty::plain(TypeId::TEXT) })
    }

    /// The expressions as values of their common type.
    fn unified(&self, list: Vec<Typed>, clause: &str) -> Option<(Vec<Expr>, TypeId)> {
        let types: Vec<TypeId> = list.iter().map(|one| one.ty.id).collect();
        let common = builtin().common_type(&types, clause).ok()?;
        let list = list.into_iter().map(|one| self.coerced(one, common)).collect::<Option<_>>()?;
        Some((list, common))
    }

    fn of_one_type(&self, list: &[Expr], clause: &str, kind: fn(Vec<Expr>) -> ExprKind) -> Option<Typed> {
        let (list, id) = self.unified(self.all(list)?, clause)?;
        Some(Typed::new(kind(list), id))
    }

    fn operator(&self, one: &OperatorExpr) -> Option<Typed> {
        if one.op.schema.iter().any(|schema| schema != "pg_catalog") {
            return None;
        }
        let Some(left) = &one.left else {
            let of = self.typed(&one.right)?;
            let call = builtin().operator(&one.op.symbol, None, of.ty.id).ok()?;
            let right = self.coerced(of, call.right)?;
            let op = OperatorName::plain(&one.op.symbol);
            return Some(Typed::new(ExprKind::Operator(Box::new(OperatorExpr { op, left: None, right })), call.result));
        };
        match (row(left), row(&one.right)) {
            (Some(left), Some(right)) if left.len() == right.len() => self.rows(&one.op.symbol, left, right),
            _ => self.binary(&one.op.symbol, self.typed(left)?, self.typed(&one.right)?),
        }
    }

    fn binary(&self, symbol: &str, left: Typed, right: Typed) -> Option<Typed> {
        let call = builtin().operator(symbol, Some(left.ty.id), right.ty.id).ok()?;
        let left = self.coerced(left, call.left?)?;
        let right = self.coerced(right, call.right)?;
        Some(Typed { expr: binary(symbol, left, right), ty: Ty::plain(call.result) })
    }

    /// A comparison of rows: that of each pair for `=` and `<>`.
    fn rows(&self, symbol: &str, left: &[Expr], right: &[Expr]) -> Option<Typed> {
        let pair = |(left, right)| Some(self.binary(symbol, self.typed(left)?, self.typed(right)?)?.expr);
        let pairs: Vec<Expr> = left.iter().zip(right).map(pair).collect::<Option<_>>()?;
        let kind = match symbol {
            "=" => ExprKind::And(pairs),
            "<>" => ExprKind::Or(pairs),
            _ => return rows_compared(symbol, pairs),
        };
        Some(Typed::new(kind, TypeId::BOOL))
    }

    /// `left op ANY (array)`, `left op ALL (array)`
    fn quantified(&self, op: &OperatorName, all: bool, left: Typed, right: Typed) -> Option<Typed> {
        let element = if right.is_unknown() { TypeId::UNKNOWN } else { right.ty.element()?.id };
        let call = builtin().operator(&op.symbol, Some(left.ty.id), element).ok()?;
        let left = self.coerced(left, call.left?)?;
        let right = self.coerced(right, builtin().array_of(call.right)?)?;
        let op = OperatorName::plain(&op.symbol);
        Some(Typed::new(ExprKind::Quantified(Box::new(Quantified { op, all, left, right })), TypeId::BOOL))
    }

    /// `IN`: the items without columns are an array if they have a common type, the others are compared one by one.
    fn among(&self, one: &In) -> Option<Typed> {
        let symbol = if one.not { "<>" } else { "=" };
        let (mut singles, fixed): (Vec<&Expr>, Vec<&Expr>) = one.list.iter().partition(|item| has_column(item));
        let array = self.array_of(&one.expr, &fixed);
        let mut tests = Vec::new();
        match array {
            Some(array) => {
                tests.push(self.quantified(&OperatorName::plain(symbol), one.not, self.typed(&one.expr)?, array)?.expr)
            }
            None => singles = one.list.iter().collect(),
        }
        for item in singles {
            let (op, left) = (OperatorName::plain(symbol), Some(one.expr.clone()));
            tests.push(self.operator(&OperatorExpr { op, left, right: item.clone() })?.expr);
        }
        // Each test is joined to all before it.
        let joined = tests.into_iter().reduce(|tests, test| {
            node(if one.not { ExprKind::And(vec![tests, test]) } else { ExprKind::Or(vec![tests, test]) })
        });
        Some(Typed { expr: joined?, ty: Ty::plain(TypeId::BOOL) })
    }

    /// Several items of IN as an array of their common type with the value that is looked for.
    fn array_of(&self, value: &Expr, items: &[&Expr]) -> Option<Typed> {
        if items.len() < 2 || row(value).is_some() {
            return None;
        }
        let items: Vec<Typed> = items.iter().map(|item| self.typed(item)).collect::<Option<_>>()?;
        let types: Vec<TypeId> =
            [self.typed(value)?.ty.id].into_iter().chain(items.iter().map(|item| item.ty.id)).collect();
        let common = builtin().common_type(&types, "IN").ok()?;
        let array = builtin().array_of(common)?;
        let items = items.into_iter().map(|item| self.coerced(item, common)).collect::<Option<_>>()?;
        Some(Typed::new(ExprKind::Array(items), array))
    }

    fn distinct(&self, one: &Distinct) -> Option<Typed> {
        let tested = match (&one.left.kind, &one.right.kind) {
            (ExprKind::Null, _) => Some(&one.right),
            (_, ExprKind::Null) => Some(&one.left),
            _ => None,
        };
        if let Some(tested) = tested {
            let tested = Box::new(tested.clone());
            return self.typed(&node(if one.not { ExprKind::IsNull(tested) } else { ExprKind::IsNotNull(tested) }));
        }
        let [left, right] = self.equal_pair(&one.left, &one.right)?;
        let distinct = ExprKind::Distinct(Box::new(Distinct { not: false, left: left.expr, right: right.expr }));
        let kind = if one.not { ExprKind::Not(Box::new(node(distinct))) } else { distinct };
        Some(Typed::new(kind, TypeId::BOOL))
    }

    fn null_if(&self, both: &[Expr; 2]) -> Option<Typed> {
        let [left, right] = self.equal_pair(&both[0], &both[1])?;
        let ty = left.ty;
        Some(Typed { expr: node(ExprKind::NullIf(Box::new([left.expr, right.expr]))), ty })
    }

    /// Two expressions as operands of `=`.
    fn equal_pair(&self, left: &Expr, right: &Expr) -> Option<[Typed; 2]> {
        let (left, right) = (self.typed(left)?, self.typed(right)?);
        let call = builtin().operator("=", Some(left.ty.id), right.ty.id).ok()?;
        let operand = |of, to| Some(Typed { expr: self.coerced(of, to)?, ty: Ty::plain(to) });
        Some([operand(left, call.left?)?, operand(right, call.right)?])
    }

    /// A cast that is written.
    fn cast(&self, expr: &Expr, to: &Ty) -> Option<Typed> {
        // Elements of an array are cast one by one.
        if let (ExprKind::Array(items), Some(element)) = (&expr.kind, to.element()) {
            let item = |item: &Expr| match item.kind {
                ExprKind::Array(_) => self.cast(item, to),
                _ => self.cast(item, &element),
            };
            let items: Vec<Expr> = items.iter().map(|one| Some(item(one)?.expr)).collect::<Option<_>>()?;
            let is_empty = items.is_empty();
            let array = node(ExprKind::Array(items));
            let expr = if is_empty { cast(array, to)? } else { array };
            return Some(Typed { expr, ty: to.clone() });
        }
        self.cast_typed(self.typed(expr)?, to)
    }

    fn cast_typed(&self, of: Typed, to: &Ty) -> Option<Typed> {
        let expr = if of.is_unknown() {
            literal(of.expr, to)?
        } else if of.ty == *to {
            of.expr
        } else if of.ty.id == to.id && of.ty.modifiers.is_empty() && is_constant(&of.expr) {
            with_modifiers(of.expr, to)?
        } else {
            builtin().cast(of.ty.id, to.id, CastContext::Explicit)?;
            cast(of.expr, to)?
        };
        Some(Typed { expr, ty: to.clone() })
    }

    fn case(&self, case: &Case) -> Option<Typed> {
        let operand = match &case.operand {
            Some(operand) => Some(self.known(self.typed(operand)?)?),
            None => None,
        };
        let condition = |condition: &Expr| match &operand {
            None => self.condition(condition),
            Some(operand) => {
                let value = self.typed(condition)?;
                let call = builtin().operator("=", Some(operand.ty.id), value.ty.id).ok()?;
                self.hidden(value, call.right, CastContext::Implicit)
            }
        };
        let conditions: Vec<Expr> = case.branches.iter().map(|branch| condition(&branch.0)).collect::<Option<_>>()?;
        // The result of ELSE comes first in the choice of the common type.
        let null = node(ExprKind::Null);
        let results =
            [case.otherwise.as_ref().unwrap_or(&null)].into_iter().chain(case.branches.iter().map(|one| &one.1));
        let results = results.map(|result| self.typed(result)).collect::<Option<_>>()?;
        let (mut results, id) = self.unified(results, "CASE")?;
        let otherwise = Some(results.remove(0));
        let branches = conditions.into_iter().zip(results).collect();
        let case = Case { operand: operand.map(|operand| operand.expr), branches, otherwise };
        Some(Typed::new(ExprKind::Case(Box::new(case)), id))
    }

    fn subscripted(&self, one: &Indirection) -> Option<Typed> {
        let of = self.typed(&one.expr)?;
        let [Step::Index(index)] = &one.steps[..] else { return None };
        let element = of.ty.element()?;
        let steps = vec![Step::Index(self.coerced(self.typed(index)?, TypeId::INT4)?)];
        let kind = ExprKind::Indirection(Box::new(Indirection { expr: of.expr, steps }));
        Some(Typed { expr: node(kind), ty: element })
    }

    fn function(&self, call: &FunctionCall) -> Option<Typed> {
        if call.name.schema().is_some_and(|schema| schema != "pg_catalog") {
            return None;
        }
        let name_of = |arg: &Expr| match &arg.kind {
            ExprKind::NamedArgument(one) => Some(one.name.clone()),
            _ => None,
        };
        let names: Vec<Option<Ident>> = call.args.iter().map(name_of).collect();
        let value = |arg: &Expr| match &arg.kind {
            ExprKind::NamedArgument(one) => self.typed(&one.value),
            _ => self.typed(arg),
        };
        let args: Vec<Typed> = call.args.iter().map(value).collect::<Option<_>>()?;
        let types: Vec<TypeId> = args.iter().map(|arg| arg.ty.id).collect();
        let given: Vec<&str> = names.iter().flatten().map(Ident::as_str).collect();
        let lookup = Call { name: &call.name.name, arguments: &types, names: &given, variadic: call.variadic };
        let (parameters, values, packed, result) = match builtin().function(&lookup).ok()? {
            Resolved::Cast(to) => return self.cast_typed(args.into_iter().next()?, &Ty::plain(to)),
            Resolved::Function { parameters, values, packed, result, .. } => (parameters, values, packed, result),
        };
        // Types that the arguments become, in the order written.
        let mut wanted = types;
        for (ty, at) in parameters.into_iter().zip(values) {
            if let Some(at) = at {
                wanted[at] = ty;
            }
        }
        // The form with a pattern has no words.
        let is_pattern = call.name.name == "substring" && wanted.get(1) == Some(&TypeId::TEXT);
        let sql_syntax = call.sql_syntax && !is_pattern;
        let argument = |((arg, to), name): ((Typed, TypeId), Option<Ident>)| {
            let is_hidden = sql_syntax && !arg.is_unknown();
            let value = if is_hidden { arg.expr } else { self.coerced(arg, to)? };
            Some(match name {
                Some(name) => node(ExprKind::NamedArgument(Box::new(NamedArgument { name, value }))),
                None => value,
            })
        };
        let mut args: Vec<Expr> = args.into_iter().zip(wanted).zip(names).map(argument).collect::<Option<_>>()?;
        if let Some(packed) = packed {
            let last = args.split_off(packed);
            args.push(node(ExprKind::Array(last)));
        }
        let variadic = call.variadic || packed.is_some();
        let name = Name { qualifier: Box::default(), ..call.name.clone() };
        let call = FunctionCall { name, args, variadic, sql_syntax, ..call.clone() };
        Some(Typed::new(ExprKind::Function(Box::new(call)), result))
    }
}

fn numbered(text: &str) -> Option<Typed> {
    let (expr, id) = number(text)?;
    Some(Typed { expr, ty: Ty::plain(id) })
}

/// A text or NULL as a constant of a type.
fn literal(expr: Expr, ty: &Ty) -> Option<Expr> {
    match &expr.kind {
        ExprKind::String(text) => constant(text, ty),
        _ if is_text(&expr) => cast(expr, ty),
        _ => None,
    }
}

fn sql_value(value: SqlValue) -> Typed {
    let (id, precision) = match value {
        SqlValue::CurrentDate => (TypeId::DATE, None),
        SqlValue::CurrentTime(precision) => (TypeId::TIMETZ, precision),
        SqlValue::CurrentTimestamp(precision) => (TypeId::TIMESTAMPTZ, precision),
        SqlValue::LocalTime(precision) => (TypeId::TIME, precision),
        SqlValue::LocalTimestamp(precision) => (TypeId::TIMESTAMP, precision),
        SqlValue::CurrentRole
        | SqlValue::CurrentUser
        | SqlValue::User
        | SqlValue::SessionUser
        | SqlValue::CurrentCatalog
        | SqlValue::CurrentSchema => (TypeId::NAME, None),
    };
    let ty = Ty { id, modifiers: precision.into_iter().collect() };
    Typed { expr: node(ExprKind::SqlValue(value)), ty }
}

fn binary(symbol: &str, left: Expr, right: Expr) -> Expr {
    let op = OperatorName::plain(symbol);
    node(ExprKind::Operator(Box::new(OperatorExpr { op, left: Some(left), right })))
}

/// A comparison of rows from that of each pair.
fn rows_compared(symbol: &str, pairs: Vec<Expr>) -> Option<Typed> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for pair in pairs {
        let ExprKind::Operator(pair) = pair.kind else { return None };
        left.push(pair.left?);
        right.push(pair.right);
    }
    let expr = binary(symbol, node(ExprKind::Row(left)), node(ExprKind::Row(right)));
    Some(Typed { expr, ty: Ty::plain(TypeId::BOOL) })
}

/// LIKE, ILIKE and SIMILAR TO as operators.
fn like(one: &Like) -> Expr {
    let args = |escape: Option<&Expr>| [&one.pattern].into_iter().chain(escape).cloned().collect();
    let pattern = match (one.kind, &one.escape) {
        (LikeKind::Similar, escape) => call("similar_to_escape", args(escape.as_ref())),
        (_, Some(escape)) => call("like_escape", args(Some(escape))),
        (_, None) => one.pattern.clone(),
    };
    binary(one.kind.operator(one.not), one.expr.clone(), pattern)
}

/// BETWEEN as comparisons.
fn between(one: &Between) -> Expr {
    let (above, below) = if one.not { ("<", ">") } else { (">=", "<=") };
    let range = |low: &Expr, high: &Expr| {
        let sides = vec![binary(above, one.expr.clone(), low.clone()), binary(below, one.expr.clone(), high.clone())];
        node(if one.not { ExprKind::Or(sides) } else { ExprKind::And(sides) })
    };
    if !one.symmetric {
        return range(&one.low, &one.high);
    }
    let ranges = vec![range(&one.low, &one.high), range(&one.high, &one.low)];
    node(if one.not { ExprKind::And(ranges) } else { ExprKind::Or(ranges) })
}

fn call(name: &'static str, args: Vec<Expr>) -> Expr {
    node(ExprKind::Function(Box::new(FunctionCall {
        name: Name::system(name, Pos::default()),
        args,
        star: false,
        distinct: false,
        variadic: false,
        within_group: false,
        sql_syntax: false,
        order_by: Vec::new(),
        filter: None,
        over: None,
        at: Pos::default(),
    })))
}

/// The values of a row.
fn row(expr: &Expr) -> Option<&[Expr]> {
    match &expr.kind {
        ExprKind::Row(items) | ExprKind::ImplicitRow(items) => Some(items),
        _ => None,
    }
}

fn has_column(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();

        fn enter_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr.kind {
                ExprKind::Column(_) | ExprKind::Path(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Columns.visit_expr(expr).is_break()
}
